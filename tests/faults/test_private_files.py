"""Files that hold a secret: for their owner alone, whole or absent, never through a link or in a release."""

from __future__ import annotations

import os
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato.errors import UsageError
from sfumato.publisher import publish as publishing
from sfumato.show.private import write_new
from sfumato.values.randomness import SecretKey
from tests.cli.test_commands import run
from tests.engines.tools import listing, patients, released
from tests.faults.test_ends import POLICY


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMANDS = {
    "key": ("key", "{}"),
    "plan": ("plan", "t.parquet", "policy.toml", "-o", "{}"),
    "init": ("init", "t.parquet", "-o", "{}"),
    "audit": ("audit", "t.parquet", "r", "--policy", "policy.toml", "-o", "{}"),
    "report": ("report", "t.parquet", "policy.toml", "r", "-o", "{}"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_private_files_are_for_their_owner_alone(command: str, folder: Path) -> None:
    assert run("publish", "t.parquet", "policy.toml", "-o", "r")[0] == 0
    arguments = COMMANDS[command]
    name = "x.html" if command == "report" else "x"
    old = os.umask(0)
    try:
        code, _, err = run(*(part.format(name) for part in arguments))
    finally:
        os.umask(old)
    assert code in (0, 1), err
    assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    for place in (name, f"r/{name}", f"link.{name}"):  # there is one; a release; a link to nowhere
        if place.startswith("link"):
            (folder / place).symlink_to(folder / "elsewhere")
        assert run(*(part.format(place) for part in arguments))[0] == 2, place
    assert not (folder / "elsewhere").exists()
    assert sorted(path.name for path in (folder / "r").iterdir()) == ["README.md", "data.parquet", "manifest.json"]


def test_a_file_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        write_new(tmp_path / "x", "secret")
    assert listing(tmp_path) == []


def test_a_name_that_was_taken_meanwhile_is_kept(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        write_new(tmp_path / "x", "secret")
    assert (tmp_path / "x").read_text() == "mine"
    assert listing(tmp_path) == ["x"]


def test_a_file_has_no_name_before_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that nothing stays of it if the process is killed."""
    seen: list[list[str]] = []
    through = os.fsync
    monkeypatch.setattr(os, "fsync", lambda handle: (seen.append(listing(tmp_path)), through(handle))[1])
    write_new(tmp_path / "x", "secret")
    assert (seen, listing(tmp_path), (tmp_path / "x").read_text()) == ([[]], ["x"], "secret")


def test_a_disk_without_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    write_new(tmp_path / "x", "secret")
    assert (listing(tmp_path), (tmp_path / "x").read_text()) == (["x"], "secret")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="exists already"):
        write_new(tmp_path / "x", "other")
    assert (tmp_path / "x").read_text() == "secret"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604])
def test_a_key_that_others_can_read_is_named(mode: int, tmp_path: Path) -> None:
    SecretKey.create(tmp_path / "k")
    SecretKey.load(tmp_path / "k")
    (tmp_path / "k").chmod(mode)
    with pytest.raises(UsageError, match=rf"Others can read the key file .*mode {mode:o}"):
        SecretKey.load(tmp_path / "k")


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="has no file without an end")
def test_a_file_without_an_end_is_no_key() -> None:
    """It was read until the memory ran out."""
    with pytest.raises(UsageError, match="is not a key file"):
        SecretKey.load("/dev/zero")


def test_no_image_of_the_memory_while_a_key_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    manifest = publishing.readme
    monkeypatch.setattr(
        publishing, "readme", lambda m: (seen.append(resource.getrlimit(resource.RLIMIT_CORE)[0]), manifest(m))[1]
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))  # images are written, as far as the system lets them be
    try:
        released(patients(), folder=tmp_path / "r")
        assert seen[0] in (0, 1)
        assert resource.getrlimit(resource.RLIMIT_CORE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


CRASHING = """
import contextlib, os, resource
from sfumato.values.randomness import no_core_dump
resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
with {context}:
    os.abort()
"""


def crashed(context: str, folder: Path) -> bool:
    """Crash a process, and return whether the system wrote an image of its memory."""
    process = subprocess.Popen([sys.executable, "-c", CRASHING.format(context=context)], cwd=folder)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = -signal.SIGABRT
    assert os.WTERMSIG(status) == signal.SIGABRT
    return os.WCOREDUMP(status)


def test_a_crash_leaves_no_image_of_the_memory(tmp_path: Path) -> None:
    if not crashed("contextlib.nullcontext()", tmp_path):
        pytest.skip("this system writes none anyway")
    for core in tmp_path.iterdir():
        core.unlink()
    assert not crashed("no_core_dump()", tmp_path)
    assert listing(tmp_path) == []
