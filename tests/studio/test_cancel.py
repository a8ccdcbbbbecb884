"""A job that is stopped at any step, by any end of its process, leaves nothing behind.

Processes are forked from one that has loaded everything, so that hundreds of them are stopped, each at another step.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import open_release
from sfumato.cli.demo import POLICY, clinic
from sfumato.publisher.whole_or_absent import new_folder
from sfumato.show.private import write_private
from sfumato.studio.desk import work
from sfumato.studio.desk.jobs import Jobs, Report
from tests.engines.tools import listing

STEPPED = ("whole_or_absent.py", "private.py", "contextlib.py", "test_cancel.py")
"""The files whose steps are counted: all that runs while a folder is made, filled, named and removed."""


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where what is temporary goes."""
    folder = tmp_path_factory.mktemp("temporary")
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> Jobs:
    """Jobs whose processes begin with everything loaded."""
    forking = multiprocessing.get_context("forkserver")
    forking.set_forkserver_preload(["tests.studio.test_cancel"])
    monkeypatch.setattr(multiprocessing, "get_context", lambda method: forking)
    return Jobs()


def _stopped_at(step: int, stop: Callable[[], None]) -> Callable[[FrameType, str, Any], Any]:
    """Return a trace that stops the process before one operation of the interpreter, where signals come, too."""
    left = step

    def trace(frame: FrameType, event: str, found: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.endswith(STEPPED):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                sys.settrace(None)
                stop()
        return trace

    return trace


def _stepped(report: Report, make: Callable[[Path], None], path: Path, step: int, stop: Callable[[], None]) -> None:
    sys.settrace(_stopped_at(step, stop))
    make(path)
    sys.settrace(None)


def _folder(path: Path) -> None:
    with new_folder(path) as partial:
        (partial / "data.csv").write_text("age\n30\n")


def _file(path: Path) -> None:
    write_private(path, "{}")


def _end(how: signal.Signals) -> None:
    os.kill(os.getpid(), how)


INTERRUPTED, KILLED = partial(_end, signal.SIGTERM), partial(_end, signal.SIGKILL)


@pytest.mark.parametrize(
    ("make", "stop", "stride"),
    [(_folder, INTERRUPTED, 1), (_folder, KILLED, 3), (_file, INTERRUPTED, 1), (_file, KILLED, 3)],
    ids=["folder interrupted", "folder killed", "file interrupted", "file killed"],
)
def test_a_process_that_ends_at_any_step_leaves_all_or_nothing(
    jobs: Jobs, make: Callable[[Path], None], stop: Callable[[], None], stride: int, tmp_path: Path
) -> None:
    ended = []
    for step in count(1, stride):
        path = tmp_path / f"made-{step}"
        job = jobs.start("Making", _stepped, make, path, step, stop, then=lambda _: None, makes=path)
        jobs.wait()
        ended.append(job.state)
        assert [file.name for file in tmp_path.iterdir() if file.name.startswith(".")] == [], step
        if job.state == "done":  # it ended before that step
            break
        assert listing(path) in ([], ["data.csv"])
    assert path.exists()
    assert set(ended[:-1]) == {"failed"}
    assert len(ended) > 20


def _is_stubborn(report: Report, folder: Path, begun: Path) -> None:
    """Hold a half-made folder and temporary files, and do not listen, as a long call of a library would not."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with new_folder(folder) as partial, tempfile.TemporaryDirectory() as temporary:
        (partial / "data.csv").write_text("half")
        (Path(temporary) / "spilled").write_text("half")
        begun.touch()
        time.sleep(60)


def test_a_process_that_had_to_be_killed_leaves_nothing(
    jobs: Jobs, tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    job = jobs.start("Ignoring", _is_stubborn, tmp_path / "r", begun, then=pytest.fail, makes=tmp_path / "r")
    while not begun.exists():
        time.sleep(0.01)
    assert len([*temporary.iterdir()]) == 1
    jobs.cancel()
    assert job.state == "cancelled"
    assert listing(tmp_path) == ["begun"]
    assert listing(temporary) == []


def test_the_folder_of_another_process_is_left_alone(jobs: Jobs, tmp_path: Path) -> None:
    with new_folder(tmp_path / "r") as alive:
        jobs.start("Adding", _stepped, _file, tmp_path / "f", 0, INTERRUPTED, then=lambda _: None, makes=tmp_path / "r")
        jobs.wait()
        assert alive.is_dir()


@pytest.fixture
def planned(tmp_path: Path) -> tuple[Path, Path, Path]:
    """A table, a policy and a plan that was signed."""
    table, policy, plan = tmp_path / "clinic.parquet", tmp_path / "policy.toml", tmp_path / "plan.json"
    pq.write_table(clinic(20_000), table)
    policy.write_text(POLICY)
    work.sign(lambda step, done, total: None, table, policy, plan, None)
    return table, policy, plan


def test_a_publication_that_is_cancelled_at_any_moment_leaves_all_or_nothing(
    jobs: Jobs, planned: tuple[Path, Path, Path], tmp_path: Path, temporary: Path
) -> None:
    """The moments differ from run to run; what must hold does not."""
    (tmp_path / "out").mkdir()
    moments, whole = random.Random(1), 1.0
    for number in range(20):
        release = tmp_path / "out" / f"release-{number}"
        start = time.monotonic()
        job = jobs.start("Publishing", work.publish, *planned, release, then=lambda _: None, makes=release)
        if number:
            time.sleep(moments.uniform(0, whole))
            jobs.cancel()
        jobs.wait()
        whole = whole if number else time.monotonic() - start
        assert [file.name for file in release.parent.iterdir() if file.name.startswith(".")] == []
        assert listing(temporary) == []
        assert not release.exists() or open_release(release).verify().holds
        if release.exists() and job.state != "done":  # its name was given before the signal came
            assert job.state == "failed"
            assert "is there, and whole" in str(job.problem)
        assert number or job.state == "done"
        assert release.exists() == (job.state in ("done", "failed"))


def test_what_was_whole_before_it_was_cancelled_is_told(jobs: Jobs, tmp_path: Path) -> None:
    file = tmp_path / "made"
    job = jobs.start("Writing", _made_and_waiting, file, then=lambda _: None, makes=file)
    while not file.exists():
        time.sleep(0.01)
    jobs.cancel()
    assert job.state == "failed"
    assert job.problem is not None
    assert job.problem.message == "Writing had ended before it could be cancelled: 'made' is there, and whole."


def _made_and_waiting(_: object, file: Path) -> None:
    file.write_text("whole")
    time.sleep(60)
