"""One process that runs cases, each as the command would: started by `running`, which watches its time and memory."""

from __future__ import annotations

import io
import json
import os
import re
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from pathlib import Path
from random import Random
from typing import Any

from sfumato import errors
from sfumato.cli.main import main
from tests.faults.injected import build_commands_once
from tests.fuzz.targets import TARGETS, Case, Command
from tests.fuzz.watch import outside, watched

CODES = (0, 1, 2)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
WARNED = re.compile(r"\.py:\d+: \w*Warning: .*")
_unforeseen: list[str] = []


def _keep_unforeseen() -> None:
    """Keep what Python tells of mistakes of the program, which the command hides."""
    plain = errors.InternalError.of

    def of(problem: Exception) -> errors.InternalError:
        _unforeseen.append("".join(traceback.format_exception(problem)[-12:]))
        return plain(problem)

    errors.InternalError.of = of  # type: ignore[method-assign]


def run(command: Command) -> tuple[int, str, str]:
    """Run a command in this process; return the exit code, the output and the messages."""
    plain = sys.argv, sys.stdout, sys.stderr
    sys.argv = ["sfumato", *command]
    sys.stdout, sys.stderr = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    code: Any = 0
    try:
        main()
    except SystemExit as end:
        code = end.code or 0
    finally:
        told = [stream.buffer.getvalue().decode("utf-8", "replace") for stream in (sys.stdout, sys.stderr)]
        sys.argv, sys.stdout, sys.stderr = plain
    return int(code) if isinstance(code, int) else 1, told[0], told[1]


def problems(command: Command) -> list[str]:
    """Run a command; return what is wrong with how it ended and what it told. What it publishes must verify."""
    _unforeseen.clear()
    code, out, err = run(command)
    told = out + err
    found = [f"exit code {code}: {_unforeseen[-1] if _unforeseen else told[-400:]}"] if code not in CODES else []
    if "Traceback (most recent call last)" in told and not found:
        found.append(f"a traceback: {told[-1500:]}")
    if control := CONTROL.search(told):
        found.append(
            f"a control character {control.group()!r} in {told[max(0, control.start() - 60) : control.end() + 20]!r}"
        )
    if warned := WARNED.search(err):
        found.append(f"a warning of Python: {warned.group()}")
    if code == 2 and not err.strip() and "--json" not in command:
        found.append("refused without a word")
    if "--json" in command and out.strip() and not _is_json(out):
        found.append("the output of --json is no JSON")
    if command[0] == "publish" and code == 0 and not found:
        found += _unverified(command[command.index("-o") + 1])
    return found


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def _unverified(release: str) -> list[str]:
    """Return why a release that was just published does not verify; that of a seed says so, and no more."""
    _code, out, err = run(["verify", release, "--json"])
    if not _is_json(out):
        return [f"published, and verify says {out[-300:]} {err[-300:]} {_unforeseen[-1:]}"]
    checks = json.loads(out).get("checks")
    if checks is None:
        return [f"published, and verify says {out[-300:]}"]
    failed = [check for check in checks if check["status"] == "fails" and check["name"] != "secret key"]
    return [f"published, and verify fails: {failed}"] if failed else []


def attempt(target: str, label: str, content: bytes, draw: Random, seeds: Path, which: int | None = None) -> list[str]:
    """Run one command of a changed file (drawn, or the one of this number); return what is wrong."""
    folder = Path(tempfile.mkdtemp(prefix="case-", dir=seeds.parent))
    try:
        (folder / "temporary").mkdir()
        tempfile.tempdir = str(folder / "temporary")
        case = Case(folder, seeds, label, content, draw)
        commands = TARGETS[target].commands(case)
        command = draw.choice(commands) if which is None else commands[which % len(commands)]
        with watched() as seen:
            found = problems(command)
        return [f"{command[0]}: {text}" for text in (*found, *outside(seen, [folder]))]
    finally:
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def drawn(target: str, number: int, seed: int, seeds: Path) -> tuple[str, bytes, Random]:
    """Return the label and the content of a case, and what further draws come from."""
    draw = Random(f"{seed} {target} {number}")
    return *TARGETS[target].content(seeds, draw), draw


def _serve() -> None:
    """Run the cases that are named on the standard input, a line each; answer with a line each."""
    seeds, answers = Path(sys.argv[1]), os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _keep_unforeseen()
    build_commands_once()
    warnings.simplefilter("always")
    for line in sys.stdin:
        target, number, seed = json.loads(line)
        started = time.process_time()
        label, content, draw = drawn(target, number, seed, seeds)
        found = attempt(target, label, content, draw, seeds)
        answers.write(json.dumps([found, time.process_time() - started, _peak()]) + "\n")
        answers.flush()


def _peak() -> int:
    """Return the most memory that this process had; `getrusage` would also count what its parent had at the fork."""
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


if __name__ == "__main__":
    _serve()
