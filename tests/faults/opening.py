"""Commands that get a hostile release, each in a process of its own whose time, memory and reach are watched."""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import os
import pkgutil
import resource
import select
import shutil
import struct
import tempfile
import time
import traceback
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sfumato
from tests.faults.hostile import SECRET, Base, Hostile

SECONDS, MEMORY, PATIENCE = 10, 1 << 30, 100
"""Of one command: seconds of the processor, bytes, and seconds by the clock, after which it hangs."""
STUDIO = "the studio"
MARKS = ("<script>alert(1)", "<img src=x", "<svg onload")
"""What no page may hold as it is."""


@dataclass(frozen=True)
class Run:
    """What came of a command."""

    problems: list[str]
    told: str
    seconds: float
    memory: int


def load_all() -> None:
    """Import what commands will need: it is not counted to the first of them."""
    for module in pkgutil.walk_packages(sfumato.__path__, "sfumato."):
        if ".spark" not in module.name and "on_spark" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    importlib.import_module("tests.fuzz.worker")
    importlib.import_module("tests.studio.served")


def commands(folder: Path, base: Base, release: Path) -> dict[str, list[str]]:
    """Return what is asked of a release, by names."""
    private = [str(base.folder / "private" / name) for name in ("table.parquet", "policy.toml")]
    value, name = base.value.replace("'", "''"), base.secret.replace('"', '""')
    question = f"SELECT COUNT(*) FROM release WHERE \"{name}\" = '{value}'"
    return {
        "verify": ["verify", str(release)],
        "audit": ["audit", *private, str(release), "--seed", "1"],
        "estimate": ["estimate", str(release), question],
        "report": ["report", *private, str(release), "-o", str(folder / "new.html")],
        "regress": ["regress", str(release), "disease == 'flu' ~ age"],
        "save": ["studio", str(release), "--save", str(folder / "new-page.html")],
        STUDIO: [],
    }


def attempt(
    case: Hostile, base: Base, folder: Path, only: Collection[str] = (), limited: bool = True
) -> tuple[list[str], int]:
    """Make the release, and give it to all commands, or to some; return what went wrong, and how many were run.

    `limited`: also what they took, which is theirs alone only where nothing else is done on the machine.
    """
    shutil.rmtree(folder, ignore_errors=True)
    planted, release = folder / "planted", folder / "own" / "release"
    planted.mkdir(parents=True)
    (planted / "secret.txt").write_text(SECRET)
    shutil.copytree(base.release, release)
    _changed(case, release, planted)
    found = []
    asked = {name: c for name, c in commands(folder / "own", base, release).items() if not only or name in only}
    for name, command in asked.items():
        before = _listing(release)
        with _read_in(planted) as read:
            ran = _apart(folder, base, release, name, command)
        took = _too_much(ran) if limited else ()
        found += [f"{case.name}: {name}: {text}" for text in (*ran.problems, *took, *read)]
        if _listing(release) != before:
            found.append(f"{case.name}: {name}: changed the release")
        if SECRET in ran.told:
            found.append(f"{case.name}: {name}: told what another file holds")
        if name == "verify":
            found += [f"{case.name}: verify: {text}" for text in _unsaid(case, ran.told)]
    shutil.rmtree(folder, ignore_errors=True)
    return found, len(asked)


def _changed(case: Hostile, release: Path, planted: Path) -> None:
    """Change the release in a child: the memory and the threads that this takes would be those of every command."""
    child = os.fork()
    if not child:
        try:
            case.change(release, planted)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(99)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError(f"{case.name}: the release could not be changed")


def _unsaid(case: Hostile, told: str) -> Iterator[str]:
    plain = " ".join(told.split())
    code = int(told.partition("\n")[0] or 0)
    if case.said is not None and (code == 0 or case.said not in plain):
        yield f"should refuse ({case.said}), ended with {plain[:300]}"


def _too_much(ran: Run) -> Iterator[str]:
    if ran.seconds > SECONDS:
        yield f"took {ran.seconds:.0f} s of the processor"
    if ran.memory > MEMORY:
        yield f"took {ran.memory / 1e9:.1f} GB"


def _listing(folder: Path) -> str:
    """Return a hash of names, kinds, sizes and the contents of small files."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        found.update(repr((os.fsencode(path), status.st_mode, status.st_size, status.st_mtime_ns)).encode())
    return found.hexdigest()


# --- a process --------------------------------------------------------------------------------------------------------


def _apart(folder: Path, base: Base, release: Path, name: str, command: list[str]) -> Run:
    """Run a command in a child; one that takes too long is ended."""
    told = folder / "told"
    child = os.fork()
    if not child:
        try:
            _in_child(folder, base, release, command, told)
        finally:
            os._exit(99)
    handle, began = os.pidfd_open(child), time.monotonic()
    problems = []
    if not select.select([handle], [], [], PATIENCE)[0]:
        os.kill(child, 9)
        problems.append(f"hangs for {time.monotonic() - began:.0f} s")
    os.close(handle)
    _, status, usage = os.wait4(child, 0)
    seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
    if not told.exists():
        return Run([*problems, f"died with {status} after {seconds:.0f} s, {memory / 1e9:.1f} GB"], "", seconds, memory)
    said = json.loads(told.read_text())
    told.unlink()
    problems += said["problems"]
    return Run(problems, said["told"], seconds, memory)


def _in_child(folder: Path, base: Base, release: Path, command: list[str], told: Path) -> None:
    from tests.fuzz import watch, worker

    resource.setrlimit(resource.RLIMIT_CPU, (3 * SECONDS, 3 * SECONDS))
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, 4 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    own = folder / "own"
    (own / "temporary").mkdir(exist_ok=True)
    tempfile.tempdir = str(own / "temporary")
    os.chdir(own)
    worker._keep_unforeseen()
    warnings.simplefilter("always")
    with watch.watched() as seen:
        if command:
            code, out, err, problems = _command(worker, command)
        else:
            code, out, problems = _pages(release)
            err = ""
    reached = [what for what in watch.outside(seen, [own], [base.folder, own]) if command or "127.0.0.1" not in what]
    pages = [path for path in own.glob("new*") if path.is_file()]
    for page in (*(path.read_text(encoding="utf-8") for path in pages), *([out] if not command else [])):
        problems += [f"a page holds {mark}" for mark in MARKS if mark in page]
    for path in pages:
        path.unlink()
    foreign = [path.name for path in own.iterdir() if path.name not in ("release", "temporary")]
    left = [*foreign, *(path.name for path in (own / "temporary").iterdir())]
    problems += [*reached, *(f"leaves {name!r}" for name in left)]
    told.write_text(json.dumps({"problems": problems, "told": f"{code}\n{out}\n{err}"}))
    os._exit(0)


def _command(worker: Any, command: list[str]) -> tuple[int, str, str, list[str]]:
    ran: list[tuple[int, str, str]] = []
    through = worker.run

    def run(asked: list[str]) -> tuple[int, str, str]:
        ran.append(through(asked))
        return ran[-1]

    worker.run = run
    problems = worker.problems(command)
    return *ran[0], problems


def _pages(release: Path) -> tuple[int, str, list[str]]:
    """Open the studio with the release, and load its pages; return the code of a command, what is shown, and flaws."""
    from sfumato.errors import SfumatoError
    from sfumato.studio.analyst.app import analyst_app
    from tests.studio.served import served

    try:
        with served(lambda csrf: analyst_app(release, csrf)) as page:
            answers = [page.get(path) for path in ("/", "/ask?figure=count", "/verify?run=1")]
    except SfumatoError as problem:
        return 2, str(problem), []
    except Exception:
        return 70, "", [traceback.format_exc()[-1500:]]
    problems = [f"a page ends with {a.status}: {a.text[:300]}" for a in answers if a.status not in (200, 303, 422)]
    return 0, "".join(a.text for a in answers), problems


# --- who reads --------------------------------------------------------------------------------------------------------

IN_ACCESS, IN_MODIFY, IN_OPEN, IN_NONBLOCK = 0x1, 0x2, 0x20, 0o4000


@contextmanager
def _read_in(folder: Path) -> Iterator[list[str]]:
    """Give a list that will hold the files of a folder that were opened meanwhile, by whatever library (inotify)."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(IN_NONBLOCK)
    assert handle >= 0
    assert libc.inotify_add_watch(handle, os.fsencode(folder), IN_ACCESS | IN_MODIFY | IN_OPEN) >= 0
    found: list[str] = []
    try:
        yield found
        found += sorted(set(_events(handle)))
    finally:
        os.close(handle)


def _events(handle: int) -> Iterator[str]:
    try:
        content = os.read(handle, 1 << 16)
    except BlockingIOError:
        return
    at = 0
    while at < len(content):
        _, mask, _, size = struct.unpack_from("iIII", content, at)
        name = content[at + 16 : at + 16 + size].rstrip(b"\0").decode()
        if name:  # else the folder itself, which a listing opens
            yield f"{'writes' if mask & IN_MODIFY else 'reads'} the planted file {name!r}"
        at += 16 + size
