"""A command in which one call on a file goes wrong, or kills the process: at step n, for any n.

`shim.c` is compiled and preloaded into a process that loads everything once and forks for each run. It counts what the
run does to files below a folder, whoever does it: Python, Arrow or DuckDB.

    with Runs() as runs:
        calls = runs.run(["publish", ...], folder).calls
        runs.run(["publish", ...], folder, FAULTS["kill"], step=17)
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import typer.main

SHIM = Path(__file__).with_name("shim.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")
OPEN, CREATE, READ, WRITE, SYNC, NAME, REMOVE, MAKE, CUT, START, CLOCK = (1 << bit for bit in range(11))
CALLS = START - 1
"""All calls on files."""
CHANGES = CREATE | WRITE | SYNC | NAME | MAKE | CUT
SECONDS = 120
"""After which a run that does not end is ended: it hangs."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong: an errno, or less than nothing for what is none (see shim.c); in which kinds of calls."""

    code: int
    kinds: int
    lasting: bool = False  # from the step on, not once


FAULTS = {
    "kill": Fault(-1, CALLS),
    "torn write": Fault(-3, WRITE),
    "short": Fault(-2, READ | WRITE),
    "full disk": Fault(errno.ENOSPC, CHANGES, lasting=True),
    "full for a moment": Fault(errno.ENOSPC, CHANGES),
    "broken disk": Fault(errno.EIO, OPEN | READ | CHANGES),
    "disk broken for good": Fault(errno.EIO, OPEN | READ | CHANGES | REMOVE, lasting=True),
    "not allowed": Fault(errno.EACCES, OPEN | CREATE | NAME | MAKE | REMOVE),
    "too many files": Fault(errno.EMFILE, OPEN | CREATE),
    "interrupted call": Fault(errno.EINTR, OPEN | CREATE | READ | WRITE | SYNC),
    "read-only disk": Fault(errno.EROFS, CHANGES | REMOVE, lasting=True),
    "folder removed": Fault(-4, CALLS),
    "hangup": Fault(-100 - signal.SIGHUP, CALLS),
    "interrupt": Fault(-100 - signal.SIGINT, CALLS),
    "polite kill": Fault(-100 - signal.SIGTERM, CALLS),
}
KILLS = ("kill", "torn write")
SIGNALS = ("hangup", "interrupt", "polite kill")
COUNT_THREADS = Fault(0, START)
NO_THREADS = Fault(errno.EAGAIN, START, lasting=True)
CLOCK_JUMPS = Fault(0, CLOCK)
"""Ahead and back by turns, `step` days each time that the time of day is asked for."""


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code (a signal's number below zero), what it said, and what was counted."""

    code: int
    told: str
    calls: int
    injected: int
    where: str


class Runs(AbstractContextManager["Runs"]):
    """The process that forks."""

    def __enter__(self) -> Runs:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="shim-")))
            assert COMPILER is not None
            built = [COMPILER, "-shared", "-fPIC", "-O1", "-o", str(folder / "shim.so"), str(SHIM), "-ldl"]
            subprocess.run(built, check=True)
            preloaded = {"LD_PRELOAD": str(folder / "shim.so"), "PYTHONPATH": os.pathsep.join(sys.path)}
            self._server = stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", "from tests.faults.injected import serve; serve()"],
                    env=os.environ | preloaded,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *problem: Any) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._stack.close()

    def run(
        self, arguments: Sequence[str], folder: Path, fault: Fault | None = None, step: int = 0, before: str = ""
    ) -> Ended:
        """Run a command in a folder, whose subfolder `tmp` is for temporary files; `before` is Python to run first."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        asked = {"arguments": list(arguments), "folder": str(folder), "step": step, "before": before}
        print(json.dumps(asked | {"fault": fault and asdict(fault)}), file=self._server.stdin, flush=True)
        return Ended(**json.loads(self._server.stdout.readline()))


# --- in the process that forks ----------------------------------------------------------------------------------------


class Seen(ctypes.Structure):
    """As in shim.c."""

    _fields_ = (("calls", ctypes.c_long), ("injected", ctypes.c_long), ("where", ctypes.c_char * 600))


def serve() -> None:
    """Run what each line asks for in a child, and answer with how it ended."""
    shim = ctypes.CDLL(None)
    shim.faults_seen.restype = ctypes.POINTER(Seen)
    seen = shim.faults_seen().contents
    _load()
    for line in sys.stdin:
        asked = json.loads(line)
        with tempfile.TemporaryFile() as told:
            child = os.fork()
            if not child:
                _child(asked, shim, told.fileno())
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            told.seek(0)
            said = told.read().decode(errors="replace")
        ended = Ended(code, said, seen.calls, seen.injected, seen.where.decode(errors="replace"))
        print(json.dumps(asdict(ended)), flush=True)


def _load() -> None:
    """Load what commands load while they run, so that a child need not; begin nothing that a fork would break."""
    import pkgutil

    import duckdb  # noqa: F401
    import pyarrow.csv
    import pyarrow.dataset
    import pyarrow.parquet  # noqa: F401

    import sfumato

    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if not module.name.startswith(("sfumato.studio", "sfumato.sklearn", "sfumato.engines.spark")):
            import_module(module.name)
    build_commands_once()


def build_commands_once() -> None:
    """Let typer keep the commands that it would build from our functions at each call, which takes 0.06 s."""
    typer.main.get_command = cache(typer.main.get_command)
    typer.main.get_command(import_module("sfumato.cli.main").app)


def _child(asked: dict[str, Any], shim: Any, told: int) -> None:
    code = 99  # what is not ours
    try:
        signal.alarm(SECONDS)
        os.chdir(asked["folder"])
        os.environ["TMPDIR"] = tempfile.tempdir = f"{asked['folder']}/tmp"
        for stream in (1, 2):
            os.dup2(told, stream)
        exec(asked["before"], {})
        fault = asked["fault"] or {"code": 0, "kinds": 0, "lasting": False}
        watched = f"{asked['folder']}/".encode()
        shim.faults_arm(watched, asked["step"], fault["code"], fault["kinds"], int(fault["lasting"]))
        code = _ended(asked["arguments"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _ended(arguments: list[str]) -> int:
    from sfumato.cli.main import main

    sys.argv = ["sfumato", *arguments]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0 if end.code is None else 98
    except BaseException:
        import traceback

        traceback.print_exc()
        return 97
    return 0
