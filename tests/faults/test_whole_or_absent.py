"""A release is whole or absent: with a full disk, a read-only folder, or an interrupt at any stage."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import open_release
from sfumato.engines.embedded import engine, shuffle
from sfumato.engines.rows import mapping
from sfumato.errors import OutOfSpace, UsageError
from sfumato.publisher import publish as publishing
from sfumato.publisher import whole_or_absent
from sfumato.publisher.publish import publish
from sfumato.publisher.table import scan
from sfumato.release.formats import parquet
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import ROLES, listing, patients, planned, released

STAGES: dict[str, tuple[Any, str]] = {
    "making the folder": (Path, "mkdir"),
    "reading": (mapping.RowMapper, "_map"),
    "spilling": (shuffle.Spill, "scatter"),
    "spilling, half way": (os, "pwrite"),
    "sorting": (shuffle.Spill, "_part"),
    "cleaning": (engine, "clean_table"),
    "opening the file": (parquet.ParquetWriter, "__init__"),
    "writing rows": (parquet.ParquetWriter, "write"),
    "closing the file": (parquet.ParquetWriter, "close"),
    "hashing": (publishing, "file_sha256"),
    "writing the README": (publishing, "readme"),
    "writing text": (Path, "write_text"),
    "reaching the disk": (whole_or_absent, "to_disk"),
    "renaming": (os, "rename"),
}


def failing(problem: BaseException, after: int = 0, original: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a function that works some times and then raises."""
    calls = iter(range(after))

    def fail(*args: Any, **keys: Any) -> Any:
        if original is not None and next(calls, None) is not None:
            return original(*args, **keys)
        raise problem

    return fail


def interrupted(
    stage: str, problem: BaseException, folder: Path, monkeypatch: pytest.MonkeyPatch, after: int = 0
) -> BaseException:
    """Publish with a stage that fails; return what was raised. Nothing may be left."""
    table = scan(patients(), make_policy(ROLES))
    plan = planned(table, shuffle=True)
    owner, name = STAGES[stage]
    monkeypatch.setattr(owner, name, failing(problem, after, getattr(owner, name)))
    threads = set(threading.enumerate())
    with pytest.raises((type(problem), OutOfSpace, UsageError)) as caught:
        publish(table, plan, folder / "r", key=SecretKey.from_seed(1))
    monkeypatch.undo()
    assert listing(folder) == []
    assert set(threading.enumerate()) <= threads  # one of another test may have ended meanwhile
    return caught.value


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_at_any_stage(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(interrupted(stage, KeyboardInterrupt(), tmp_path, monkeypatch), KeyboardInterrupt)


@pytest.mark.parametrize("stage", STAGES)
def test_no_room_at_any_stage(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = interrupted(stage, OSError(errno.ENOSPC, "No space left on device"), tmp_path, monkeypatch)
    assert isinstance(problem, OutOfSpace)
    assert problem.exit_code == 1
    assert "space" in problem.hint
    assert released(patients(), folder=tmp_path / "r").manifest.data.rows == 300


@pytest.mark.parametrize("after", [1, 2, 3])
def test_the_disk_fails_while_files_reach_it(after: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = interrupted("reaching the disk", OSError(errno.EIO, "Input/output error"), tmp_path, monkeypatch, after)
    assert isinstance(problem, UsageError)
    assert "Input/output error" in problem.message


def test_a_memory_error_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(interrupted("cleaning", MemoryError(), tmp_path, monkeypatch), MemoryError)


def test_an_interrupt_while_a_shuffle_reads_does_not_wait_for_all_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shuffle reads everything before the first row is written: ctrl-C must not wait for that."""

    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=10)
    table = scan(patients(3000), make_policy(ROLES))
    plan = planned(table, shuffle=True)
    read: list[int] = []

    def progress(rows: int) -> None:
        read.append(rows)
        if len(read) == 3:
            os.kill(os.getpid(), signal.SIGINT)  # as ctrl-C does: the main thread, which waits for rows, is interrupted
            signalled.wait(10)

    signalled = threading.Event()

    def handler(number: int, frame: Any) -> None:
        signalled.set()
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGINT, handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            publish(table, plan, tmp_path / "r", key=SecretKey.from_seed(1), progress=progress)
    finally:
        signal.signal(signal.SIGINT, old)
    assert len(read) < 100
    assert listing(tmp_path) == []


# --- where a release cannot be put -----------------------------------------------------------------------------------


def occupied(folder: Path) -> Iterator[Path]:
    (folder / "file").write_text("mine")
    yield folder / "file"
    (folder / "dir").mkdir()
    yield folder / "dir"
    (folder / "full").mkdir()
    (folder / "full" / "x").write_text("mine")
    yield folder / "full"
    (folder / "link").symlink_to(folder / "dir")
    yield folder / "link"
    (folder / "dangling").symlink_to(folder / "nowhere")
    yield folder / "dangling"


def test_an_output_that_exists_is_never_touched(tmp_path: Path) -> None:
    for output in occupied(tmp_path):
        before = listing(tmp_path)
        with pytest.raises(UsageError, match="exists already; a release never overwrites anything") as caught:
            released(patients(), folder=output)
        assert caught.value.hint
        assert listing(tmp_path) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_a_parent_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="There is no folder"):
        released(patients(), folder=tmp_path / "no" / "r")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="There is no folder"):
        released(patients(), folder=tmp_path / "file" / "r")
    assert listing(tmp_path) == ["file"]


@pytest.mark.parametrize("name", ["r" * 240, "r" * 300])
def test_a_name_that_is_too_long(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="name too long"):
        released(patients(), folder=tmp_path / name)
    assert listing(tmp_path) == []


@pytest.mark.parametrize("name", ["a*", "a[b]", "x**y", "~", "it's", "age=7", "é b"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_name_that_means_something_to_somebody_else(name: str, format: str, tmp_path: Path) -> None:
    """Wildcards, hive partitions, home folders, quotes: a release is read from its own folder and no other."""
    released(patients(50), folder=tmp_path / "ab", format=format)  # a pattern's prey
    (tmp_path / "in" / name).mkdir(parents=True)
    release = released(patients(), folder=tmp_path / "in" / name / name, format=format)
    assert release.to_arrow().num_rows == 300
    assert release.count(where="age < 10").value.tolist() == [10]
    assert release.column_names == ("age", "sex", "disease")
    assert [c.name for c in open_release(release.folder).verify().checks if c.status == "fails"] == ["secret key"]
    with pytest.raises(UsageError, match="exists"):
        released(patients(), folder=release.folder)


# --- real disks -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a file system of 300 kB; skip where none can be mounted."""
    mount = shutil.which("mount")
    (tmp_path / "disk").mkdir()
    command = [mount or "mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(tmp_path / "disk")]
    if mount is None or os.geteuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root")
    yield tmp_path / "disk"
    subprocess.run(["umount", str(tmp_path / "disk")], check=True)


def incompressible(rows: int) -> pa.Table:
    import numpy as np

    noise = np.random.default_rng(0).bytes(16 * rows).hex()
    return pa.table({"text": [noise[32 * k : 32 * k + 32] for k in range(rows)], "s": ["a", "b"] * (rows // 2)})


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "shuffled"])
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_a_disk_that_is_really_full(shuffled: bool, format: str, small_disk: Path) -> None:
    policy = make_policy({"text": "other", "s": "sensitive"})
    with pytest.raises(OutOfSpace, match="No room is left"):
        released(incompressible(20_000), policy, folder=small_disk / "r", shuffle=shuffled, format=format)
    assert listing(small_disk) == []
    released(incompressible(1000), policy, folder=small_disk / "r", shuffle=shuffled, format=format)


def test_a_folder_that_is_really_read_only(small_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(UsageError, match=r"cannot be written to .*Read-only"):
        released(patients(), folder=small_disk / "r")
    assert listing(small_disk) == []


@pytest.mark.parametrize("shuffle_rows", [False, True], ids=["in order", "shuffled"])
def test_a_limit_on_the_size_of_files(shuffle_rows: bool, tmp_path: Path) -> None:
    """RLIMIT_FSIZE, in a process of its own: exit code 1, a message, nothing left."""
    pq.write_table(incompressible(20_000), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(
        "[columns.text]\nrole = 'other'\npublish_as_is = 'a test'\n[columns.s]\nrole = 'sensitive'\n"
        "[method]\nname = 'uniform'\n[requirement]\ngamma = 3\n"
    )
    command = [sys.executable, "-c", "from sfumato.cli.main import main; main()"]
    command += ["publish", "t.parquet", "policy.toml", "-o", "r"]
    done = subprocess.run(
        command + (["--shuffle"] if shuffle_rows else []),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
    )
    assert done.returncode == 1, done.stderr
    assert "OutOfSpace: No room is left" in done.stderr
    assert "Traceback" not in done.stderr
    assert listing(tmp_path) == ["policy.toml", "t.parquet"]
