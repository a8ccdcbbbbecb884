"""Files that hold a secret: for their owner alone, whole or absent, never through a link or in a release."""

from __future__ import annotations

import errno
import os
import resource
import secrets
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sfumato.errors import UsageError
from sfumato.publisher import publish as publishing
from sfumato.publisher.signing import SigningKey
from sfumato.release.signature import PublicKey
from sfumato.show.disk import KNOWS_NO_FOLDERS, to_disk
from sfumato.show.private import write_new, write_private
from sfumato.values.randomness import SecretKey
from tests.cli.test_commands import run
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import ROLES, listing, patients, released
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
    assert (seen, listing(tmp_path), (tmp_path / "x").read_text()) == ([[], ["x"]], ["x"], "secret")


@pytest.mark.parametrize("nameless", [True, False])
@pytest.mark.parametrize("write", [write_new, write_private])
def test_the_name_of_a_private_file_reaches_the_disk(
    write: Callable[[Path, str], None], nameless: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is in the folder: else a power cut takes a key, and leaves the release that was drawn with it."""
    if not nameless:
        monkeypatch.delattr(os, "O_TMPFILE")
    synced: list[tuple[bool, bool]] = []
    through = os.fsync

    def seen(handle: int) -> None:
        synced.append((os.path.samestat(os.fstat(handle), tmp_path.stat()), (tmp_path / "x").exists()))
        through(handle)

    monkeypatch.setattr(os, "fsync", seen)
    write(tmp_path / "x", "secret")
    assert synced == [(False, False), (True, True)]  # the file, and then its folder


@pytest.mark.parametrize("write", [write_new, write_private])
def test_a_name_that_did_not_reach_the_disk_is_told_of(
    write: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken_folder(monkeypatch)
    with pytest.raises(UsageError, match=r"written and whole, but its disk does not confirm.*Input/output error"):
        write(tmp_path / "x", "secret")
    assert (listing(tmp_path), (tmp_path / "x").read_text()) == (["x"], "secret")


def test_a_system_that_opens_no_folder_keeps_the_name_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Windows."""
    broken_folder(monkeypatch)
    set_constants(monkeypatch, "sfumato.show", OPENS_FOLDERS=False)
    write_new(tmp_path / "x", "secret")
    assert (tmp_path / "x").read_text() == "secret"


@pytest.mark.parametrize("code", sorted(KNOWS_NO_FOLDERS))
def test_a_disk_that_confirms_no_folder_keeps_the_name_all_the_same(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some network drives, on which nothing could be published, and no key made."""
    broken_folder(monkeypatch, 0, code)
    write_new(tmp_path / "x", "secret")
    assert (tmp_path / "x").read_text() == "secret"
    SigningKey.create(tmp_path / "k")
    assert SigningKey.load(tmp_path / "k").public == PublicKey.load(tmp_path / "k.pub")
    released(patients(), make_policy(ROLES), folder=tmp_path / "r")
    assert (tmp_path / "r" / "manifest.json").exists()


@pytest.mark.parametrize("code", sorted(KNOWS_NO_FOLDERS))
def test_a_file_that_the_disk_does_not_confirm_is_an_error(
    code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(handle: int) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "fsync", refuse)
    (tmp_path / "x").write_text("secret")
    with pytest.raises(OSError, match=os.strerror(code)):
        to_disk(tmp_path / "x")


def test_both_keys_for_signatures_stay_if_the_name_of_one_did_not_reach_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without the other would be of no use, and keep a new one from being made."""
    for fails_at, left in ((1, []), (2, ["k", "k.pub"])):
        broken_folder(monkeypatch, fails_at)
        with pytest.raises(UsageError, match="does not confirm"):
            SigningKey.create(tmp_path / "k")
        monkeypatch.undo()
        assert listing(tmp_path) == left
    assert SigningKey.load(tmp_path / "k").public == PublicKey.load(tmp_path / "k.pub")


def test_a_disk_without_nameless_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    write_new(tmp_path / "x", "secret")
    assert (listing(tmp_path), (tmp_path / "x").read_text()) == (["x"], "secret")
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o600
    with pytest.raises(UsageError, match="exists already"):
        write_new(tmp_path / "x", "other")
    assert (tmp_path / "x").read_text() == "secret"


def broken_folder(monkeypatch: pytest.MonkeyPatch, fails_at: int = 1, code: int = errno.EIO) -> None:
    """Let the disk refuse to confirm what is in a folder, when it is asked that for the n-th time (0: always)."""
    asked: list[int] = []
    through = os.fsync

    def fail(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            asked.append(handle)
            if fails_at in (0, len(asked)):
                raise OSError(code, os.strerror(code))
        through(handle)

    monkeypatch.setattr(os, "fsync", fail)


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


@contextmanager
def images_of_the_memory() -> Iterator[int]:
    """Let the system write them, as far as it does; give the limit on their size, which must be so again at the end."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    try:
        yield hard
        assert resource.getrlimit(resource.RLIMIT_CORE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


def limits_seen_by(patch: pytest.MonkeyPatch, owner: object, name: str) -> list[int]:
    """Return a list that will hold the limit on images of the memory whenever this function is called."""
    seen: list[int] = []
    through = getattr(owner, name)

    def called(*arguments: object) -> object:
        seen.append(resource.getrlimit(resource.RLIMIT_CORE)[0])
        return through(*arguments)

    patch.setattr(owner, name, called)
    return seen


NO_IMAGE = (0, 1)
"""Limits at which none is written."""
KEYED = ("t.parquet", "policy.toml", "-o", "r", "--key-file", "draws")


def test_no_image_of_the_memory_while_a_key_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = limits_seen_by(monkeypatch, publishing, "readme")
    with images_of_the_memory():
        released(patients(), folder=tmp_path / "r")
    assert seen
    assert set(seen) <= set(NO_IMAGE)


@pytest.mark.parametrize(
    ("command", "owner", "name"),
    [
        (("publish", "t.parquet", "policy.toml", "-o", "r", "--key-file", "draws"), SecretKey, "load"),
        (
            ("publish", "t.parquet", "policy.toml", "-o", "r", "--key-file", "draws", "--sign", "signing"),
            SigningKey,
            "load",
        ),
        (("key", "--sign", "x"), Ed25519PrivateKey, "generate"),
        (("key", "x"), secrets, "token_hex"),
    ],
    ids=["publish, a key is read", "publish, a key for signatures is read", "key --sign", "key"],
)
def test_no_image_of_the_memory_where_a_key_comes_into_it(
    command: tuple[str, ...], owner: object, name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "policy.toml").write_text(f'record_key = "name"\nseries = "clinic"\n{POLICY}')
    SecretKey.create(folder / "draws")
    SigningKey.create(folder / "signing")
    with images_of_the_memory() as limit:
        if limit in NO_IMAGE:
            pytest.skip("this system writes none anyway")
        seen = limits_seen_by(monkeypatch, owner, name)
        code, _, err = run(*command)
    assert code == 0, err
    assert seen
    assert set(seen) <= set(NO_IMAGE)


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
