"""A table with planted values, the commands that are run on it, and what must hold whatever goes wrong in them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import stat
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.cli.signals import INTERRUPTED
from sfumato.release.formats.parquet import COMPRESSED, Thrift, _decompressed
from tests.faults.injected import FAULTS, KILLS, SIGNALS, Ended, Runs
from tests.golden.cases import CASES, FILES, KEY_FILE, Case, table

PLANTED = b"ZqOriginal"
"""Begins every value that must never leave the table: identifiers, record keys, columns that are left out."""
OURS = (0, 1, 2)
"""Exit codes with which a command may end that was not killed."""
CPU = "processor seconds"
"""A limit at which the system ends a process."""
PUBLISHED = (
    "uniform", "uniform, record key and key file", "uniform, tolerance, one row of a person", "subset, sets",
    "subset, cards", "ranges", "plateau", "geometric", "fine-grain", "fine-grain, least error", "small-domain",
    "randomized-response", "anatomy", "suppression", "robust-anatomy", "robust-anatomy, prior in a file", "several",
)  # fmt: skip
"""Cases of the golden releases: of every method, and of all that reads a table once more."""
PRIVATE = {
    "key": ("key", "out/x.key"),
    "plan": ("plan", "t.parquet", "policy.toml", "-o", "out/x.json"),
    "init": ("init", "t.parquet", "-o", "out/x.toml"),
    "audit": ("audit", "t.parquet", "policy.toml", "r", "-o", "out/x.json"),
    "report": ("report", "t.parquet", "policy.toml", "r", "-o", "out/x.html"),
}
"""Commands that write a private file."""


@dataclass(frozen=True)
class Scene:
    """A folder with a table, its policy and an empty folder for temporary files."""

    folder: Path
    arguments: tuple[str, ...]
    target: str

    @property
    def inputs(self) -> dict[str, str]:
        """Return the checksum of every file."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return {str(path.relative_to(self.folder)): _checksum(path) for path in files}


def planted_table(rows: int = 600) -> pa.Table:
    """Return the table of the golden releases, repeated to so many rows, with planted values."""
    made = table()
    made = pa.concat_tables([made] * -(-rows // made.num_rows)).slice(0, rows)
    for name in ("name", "record"):
        values = pa.array([f"{PLANTED.decode()}-{name}-{k:06}" for k in range(rows)])
        made = made.set_column(made.column_names.index(name), name, values)
    return made


def publishing(folder: Path, case: Case, format: str, shuffled: bool, rows: int = 600) -> Scene:
    """Lay out a table to be published."""
    lay_out(folder, case, format, rows)
    key = ("--key-file", "key") if case.key_file else ()
    order = ("--shuffle",) if shuffled else ()
    return Scene(folder, ("publish", "t.parquet", "policy.toml", "-o", "out/r", *key, *order), "out/r")


def private(folder: Path, command: str, runs: Runs) -> Scene:
    """Lay out a table and a release of it, of which a private file is written."""
    lay_out(folder, CASES["uniform"])
    made = runs.run(("publish", "t.parquet", "policy.toml", "-o", "r"), folder)
    assert made.code == 0, made.told
    return Scene(folder, PRIVATE[command], PRIVATE[command][-1])


def lay_out(folder: Path, case: Case, format: str = "parquet", rows: int = 600) -> None:
    """Write what a command reads."""
    for part in ("tmp", "out"):
        (folder / part).mkdir(parents=True, mode=0o700)
    pq.write_table(planted_table(rows), folder / "t.parquet")
    policy = case.policy if "[output]" in case.policy else f"{case.policy}\n[output]"
    (folder / "policy.toml").write_text(policy.replace("[output]", f'[output]\nformat = "{format}"'))
    for name, text in FILES.items():
        (folder / name).write_text(text)
    (folder / "key").write_text(KEY_FILE)
    (folder / "key").chmod(0o600)


# --- what must hold ---------------------------------------------------------------------------------------------------


def broken(runs: Runs, scene: Scene, fault: str, step: int) -> tuple[list[str], Ended]:
    """Run the scene with a fault; return what does not hold afterwards, and how it ended. The scene is as before."""
    return judged(runs, scene, fault, lambda: runs.run(scene.arguments, scene.folder, FAULTS[fault], step))


def judged(runs: Runs, scene: Scene, fault: str, run: Callable[[], Ended]) -> tuple[list[str], Ended]:
    """Run the scene in a way of one's own; return what does not hold afterwards, and how it ended."""
    before = scene.inputs
    ended = run()
    (scene.folder / "out").mkdir(mode=0o700, exist_ok=True)  # it may have been removed
    found = [*_ending(fault, ended), *_remains(runs, scene, before, ended, fault)]
    if fault in SIGNALS:
        found += _left(scene)
    if set(scene.inputs) != set(before) or any((scene.folder / "out").iterdir()):
        found += _again(runs, scene, before)
    restore(scene)
    return [f"{fault} at {ended.where}: {what}" for what in found], ended


def restore(scene: Scene) -> None:
    """Make the scene as it was before anything was run in it."""
    for part in ("tmp", "out"):
        shutil.rmtree(scene.folder / part, ignore_errors=True)
        (scene.folder / part).mkdir(mode=0o700)


def _ending(fault: str, ended: Ended) -> Iterator[str]:
    if (ended.code == -signal.SIGKILL and fault in KILLS) or (ended.code == -signal.SIGXCPU and fault == CPU):
        return
    if ended.code not in (*OURS, *((INTERRUPTED,) if fault in SIGNALS else ())):
        yield f"ended with {ended.code}, saying {ended.told[-600:]!r}"
    if ended.code and not re.search(r"^(\w+:\s+\S|Interrupted: )", ended.told, re.MULTILINE):
        yield f"ended with {ended.code} and no sentence"
    if "Traceback" in ended.told:
        yield f"a traceback: {ended.told[-600:]!r}"
    if PLANTED.decode() in ended.told:
        yield "an original value was told"


def _remains(runs: Runs, scene: Scene, before: dict[str, str], ended: Ended, fault: str) -> Iterator[str]:
    after, target = scene.inputs, scene.folder / scene.target
    if any(after.get(name) != before[name] for name in before):
        yield "an input was changed"
    is_there = os.path.lexists(target)
    if ended.code == 0 and not is_there and fault != "folder removed":  # that can come after the last call
        yield "it said that it went well, and there is nothing"
    is_told = "nothing was (published|written)" if target.is_dir() else "nothing was written"
    if is_there and re.search(is_told, ended.told, re.IGNORECASE):
        yield f"it said that nothing was published, and there is something: {ended.told[-300:]!r}"
    if is_there and target.is_dir():
        checked = runs.run(("verify", scene.target), scene.folder)
        if checked.code:
            yield f"what is there does not verify: {checked.told[-300:]!r}"
    if is_there and target.is_file():
        if stat.S_IMODE(target.stat().st_mode) != 0o600:
            yield "a private file can be read by others"
        if not WHOLE[target.suffix](target.read_text(encoding="utf-8")):
            yield "a private file is not whole"
    for name in after:
        path = scene.folder / name
        if name not in before and any(PLANTED in content for content in contents(path)):
            yield f"an original value is in {name}"
        if name not in before and not name.startswith(scene.target) and is_open(path, scene.folder):
            yield f"others can read {name}"


def _left(scene: Scene) -> Iterator[str]:
    """Tell what is left after a signal that lets a run tidy up: but for a temporary folder that was just made."""
    left = [path.name for path in (scene.folder / "out").iterdir() if path != scene.folder / scene.target]
    left += [path.name for path in (scene.folder / "tmp").rglob("*") if path.is_file()]
    if left:
        yield f"it left {left}"


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return bool(text)


WHOLE: dict[str, Callable[[str], bool]] = {
    ".key": lambda text: len(bytes.fromhex(text)) == 32,
    ".json": partial(_parses, json.loads),
    ".toml": partial(_parses, tomllib.loads),
    ".html": lambda text: text.rstrip().endswith("</html>"),
}
"""What a private file is like that is whole."""


def _again(runs: Runs, scene: Scene, before: dict[str, str]) -> Iterator[str]:
    """Run it once more, without a fault: it works, and nothing is left of the first time."""
    target = scene.folder / scene.target
    if target.is_dir():
        shutil.rmtree(target)
    elif target.exists():
        target.unlink()
    ended = runs.run(scene.arguments, scene.folder)
    if ended.code:
        yield f"the next run ended with {ended.code}: {ended.told[-300:]!r}"
    left = [path.name for path in (scene.folder / "out").iterdir() if path.name != target.name]
    if left:
        yield f"the next run left {left}"


def is_open(path: Path, top: Path) -> bool:
    """Whether others than the owner can come to a file: its mode and those of the hidden folders around it say so."""
    folders = [folder for folder in path.relative_to(top).parents if folder.name not in ("", "tmp", "out")]
    return all(stat.S_IMODE((top / one).stat().st_mode) & 0o077 for one in (path, *folders))


def contents(path: Path) -> Iterator[bytes]:
    """Give the bytes of a file, and of what is compressed in it: of half a Parquet file, too, which has no footer."""
    content = path.read_bytes()
    yield content
    if content.startswith(b"PAR1"):
        yield from _pages(content)


def _pages(content: bytes) -> Iterator[bytes]:
    """Give the pages of a Parquet file as far as they go, which are written one after another from byte 4 on."""
    reader = Thrift(content, 4)
    while reader.at < len(content):
        try:
            header = reader.struct()
            body = content[reader.at : reader.at + header[COMPRESSED]]
            yield _decompressed(body, header, "snappy")
            reader.at += header[COMPRESSED]
        except (LookupError, TypeError, ValueError, OSError):
            return  # the footer, or the end of what was written


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
