"""A process that is interrupted, terminated or killed: the release is absent, or it is whole.

A gate in the process says when it has come to a stage and waits there, so that signals arrive at known moments;
then some come at any moment.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import open_release
from sfumato.claims.claim import Check
from sfumato.errors import PlanMismatch, UsageError
from sfumato.publisher import publish as publishing
from sfumato.publisher import whole_or_absent
from sfumato.publisher.policy import Policy
from sfumato.publisher.whole_or_absent import new_folder
from sfumato.show import disk
from tests.engines.tools import listing, patients, released

POLICY = """
[columns.name]
role = "identifier"
[columns.age]
role = "other"
publish_as_is = "a test follows rows by it"
[columns.sex]
role = "other"
publish_as_is = "a test follows rows by it"
[columns.disease]
role = "sensitive"
[method]
name = "uniform"
[requirement]
gamma = 3
[output]
order = "shuffle"
"""

GATED = """
import os, signal, sys, time
from pytest import MonkeyPatch
from sfumato.cli.main import main
from sfumato.engines.rows import mapping
from sfumato.release.formats import parquet
from tests.constants import set_constants

def gate(owner, name, wait):
    through = getattr(owner, name)
    def waiting(*args, **keys):
        print("ready", flush=True)
        time.sleep(wait)
        return through(*args, **keys)
    setattr(owner, name, waiting)

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup hand on that it is ignored
stage = sys.argv.pop(1)
set_constants(MonkeyPatch(), "sfumato.engines", BATCH_ROWS=10)
if stage == "reading":
    gate(mapping.RowMapper, "_map", 0.02)  # in a thread, one batch after the other
elif stage == "writing":
    gate(parquet.ParquetWriter, "write", 60)
elif stage == "closing":
    gate(parquet.ParquetWriter, "close", 60)
elif stage == "renaming":
    gate(os, "rename", 60)
main()
"""
PLAIN = ["-c", "from sfumato.cli.main import main; main()"]
PUBLISH = ["publish", "t.parquet", "policy.toml", "-o", "r"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pq.write_table(patients(3000), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    return tmp_path


def signalled(stage: str, number: signal.Signals, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run until the stage is reached, send the signal, wait for the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", GATED, stage, *PUBLISH],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},  # tests as they are found here
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def publish_again(folder: Path) -> None:
    release = released(folder / "t.parquet", Policy.load(folder / "policy.toml"), folder=folder / "r")
    assert [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]


@pytest.mark.parametrize(
    ("stage", "number"),
    [
        ("reading", signal.SIGINT),
        ("reading", signal.SIGTERM),
        ("writing", signal.SIGINT),
        ("writing", signal.SIGHUP),
        ("renaming", signal.SIGTERM),
    ],
)
def test_a_polite_signal_leaves_nothing(stage: str, number: signal.Signals, folder: Path) -> None:
    done = signalled(stage, number, folder)
    assert done.returncode == 130, done.stderr
    assert "nothing was published" in done.stderr
    assert "Traceback" not in done.stderr
    assert listing(folder) == ["policy.toml", "t.parquet"]


@pytest.mark.parametrize("stage", ["reading", "closing", "renaming"])
def test_a_kill_leaves_no_release_and_the_next_run_tidies_up(stage: str, folder: Path) -> None:
    before = (folder / "t.parquet").read_bytes()
    done = signalled(stage, signal.SIGKILL, folder)
    assert done.returncode == -signal.SIGKILL
    assert not (folder / "r").exists()
    assert any(name.startswith(".r.partial-") for name in listing(folder))
    publish_again(folder)
    assert [name for name in listing(folder) if name.startswith(".")] == []
    assert (folder / "t.parquet").read_bytes() == before


def test_signals_at_any_moment(folder: Path) -> None:
    """The moments differ from run to run; what must hold does not: a release that is there is whole."""
    moments = random.Random(1)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
        process = subprocess.Popen([sys.executable, *PLAIN, *PUBLISH], cwd=folder, stderr=subprocess.DEVNULL)
        try:
            process.wait(timeout=moments.uniform(0.3, 1.2))
        except subprocess.TimeoutExpired:
            process.send_signal(number)
        process.wait(timeout=30)
        if (folder / "r").exists():
            assert open_release(folder / "r").verify().holds
            os.rename(folder / "r", folder / f"r{len(listing(folder))}")
    publish_again(folder)


def test_the_folder_of_a_running_process_is_left_alone(folder: Path) -> None:
    other = folder / ".other.partial-00"
    other.mkdir()
    with new_folder(folder / "r") as alive:
        (alive / "data.parquet").write_text("half")
        publish_again(folder)
        assert (alive / "data.parquet").read_text() == "half"
        os.rename(folder / "r", folder / "first")
    assert sorted(path.name for path in (folder / "r").iterdir()) == ["data.parquet"]
    assert other.is_dir()


def left(folder: Path, machine: str, days: float) -> Path:
    """Leave what a run on a machine left when it was killed, so many days ago."""
    own = folder / ".r.partial-00"
    (own / "release").mkdir(parents=True)
    (own / "lock").write_text(f"{machine}\n")
    then = time.time() - days * 86_400
    for path in (own / "release", own / "lock", own):
        os.utime(path, (then, then))
    return own


@pytest.mark.parametrize(("days", "stays"), [(0, True), (6, True), (8, False)])
def test_what_another_machine_began_stays_until_it_is_old(days: float, stays: bool, folder: Path) -> None:
    """Its processes are not known here, and its locks perhaps neither."""
    own = left(folder, "another-boot-id", days)
    publish_again(folder)
    assert own.exists() == stays


def test_what_a_run_on_this_machine_left_is_removed_by_whoever_can_take_its_lock(folder: Path) -> None:
    """Also if its process number is taken by another process by now: a container counts from 1."""
    own = left(folder, whole_or_absent._machine(), 0)
    publish_again(folder)
    assert not own.exists()


@pytest.mark.parametrize("said", [None, "", "3f2a"], ids=["no lock", "an empty one", "half of one"])
def test_what_was_killed_before_its_lock_said_whose_it_is_is_removed(said: str | None, folder: Path) -> None:
    own = folder / ".r.partial-00"
    own.mkdir()
    if said is not None:
        (own / "lock").write_text(said)
    publish_again(folder)
    assert not own.exists()


def test_a_lock_is_removed_last(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be removed now, where no file can be opened say, the next run removes: it must see whose it is."""

    def stopped() -> None:
        with new_folder(folder / "r") as partial:
            (partial / "data.csv").write_text("half")
            monkeypatch.setattr(shutil, "rmtree", lambda path, **_: (Path(path) / "lock").unlink(missing_ok=True))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        stopped()
    monkeypatch.undo()
    assert any(name.startswith(".r.partial-") for name in listing(folder))
    publish_again(folder)
    assert [name for name in listing(folder) if name.startswith(".")] == []


def test_such_a_folder_with_anything_in_it_stays(folder: Path) -> None:
    (folder / ".r.partial-00" / "release").mkdir(parents=True)
    (folder / ".r.partial-01").mkdir()
    (folder / ".r.partial-01" / "lock").write_text("3f2a")
    (folder / ".r.partial-01" / "mine").write_text("")
    publish_again(folder)
    assert {".r.partial-00/release", ".r.partial-01/mine"} <= set(listing(folder))


@pytest.mark.parametrize("moment", ["open", "write"])
def test_a_run_that_loses_its_folder_before_it_is_locked_begins_another(
    moment: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    through = getattr(os, moment)

    def late(*args: object) -> object:
        monkeypatch.undo()  # once
        for own in folder.glob(".r.partial-*"):
            shutil.rmtree(own)
        return through(*args)

    monkeypatch.setattr(os, moment, late)
    with new_folder(folder / "r") as partial:
        (partial / "x").write_text("")
    assert listing(folder) == ["policy.toml", "r", "r/x", "t.parquet"]


def test_a_release_whose_name_did_not_reach_the_disk_is_told_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    through = disk.to_disk

    def fail(path: Path) -> None:
        if path == folder:
            raise OSError(5, "Input/output error")
        through(path)

    monkeypatch.setattr(disk, "to_disk", fail)
    with pytest.raises(UsageError, match=r"written and whole, but its disk does not confirm.*Input/output error"):
        publish_again(folder)
    monkeypatch.undo()
    assert [c.name for c in open_release(folder / "r").verify().checks if c.status == "fails"] == ["secret key"]


def test_a_link_in_the_place_of_a_folder_is_not_followed(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "lock").write_text(f"{whole_or_absent._machine()}\n")
    (folder / ".r.partial-00").symlink_to(folder / "mine")
    publish_again(folder)
    assert (folder / "mine" / "lock").exists()


def test_a_link_in_the_place_of_a_lock_is_not_followed(folder: Path) -> None:
    """Else who can write there has folders removed that others still write to."""
    (folder / "mine").write_text(f"{whole_or_absent._machine()}\n")
    own = folder / ".r.partial-00"
    (own / "release").mkdir(parents=True)
    (own / "lock").symlink_to(folder / "mine")
    publish_again(folder)
    assert own.exists()


def test_what_would_not_verify_is_not_published(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plan came to state: publish itself asks the checks of `verify`."""
    monkeypatch.setattr(publishing, "stated_checks", lambda manifest: [Check("guarantee", "fails", "A test says so.")])
    with pytest.raises(PlanMismatch, match=r"would not verify: guarantee\. A test says so\."):
        publish_again(folder)
    assert listing(folder) == ["policy.toml", "t.parquet"]


def test_others_cannot_look_into_what_is_being_written(folder: Path) -> None:
    with new_folder(folder / "r") as partial:
        assert stat.S_IMODE(partial.parent.stat().st_mode) == 0o700
        (partial / "x").write_text("")
    (folder / "plain").mkdir()
    assert (folder / "r").stat().st_mode == (folder / "plain").stat().st_mode
