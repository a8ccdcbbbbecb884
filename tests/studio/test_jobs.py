"""Jobs: their progress is told, they are ended within a second, and they end with the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sfumato.errors import Infeasible, UsageError
from sfumato.studio.desk.jobs import Jobs, Report


def _adds(report: Report, first: int, second: int) -> int:
    report("adding", 1, 2)
    return first + second


def _refuses(report: Report) -> None:
    raise Infeasible("It cannot be met.", "Ask for less.")


def _breaks(report: Report) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _waits(report: Report, file: Path) -> None:
    """Write what unwinding does."""
    try:
        report("waiting", 0, None)
        file.write_text("begun")
        time.sleep(60)
    except KeyboardInterrupt:
        file.write_text("unwound")
        raise


def _is_stubborn(report: Report, file: Path) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    file.write_text("begun")
    time.sleep(60)


def _until(condition: Any) -> None:
    for _ in range(1200):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come about within a minute")


def test_a_result_comes_back() -> None:
    jobs, found = Jobs(), []
    job = jobs.start("Adding", _adds, 2, 3, then=found.append)
    jobs.wait()
    assert (found, job.state, job.step, job.share) == ([5], "done", "adding", 0.5)


def test_an_error_of_ours_comes_back_as_it_is() -> None:
    jobs = Jobs()
    job = jobs.start("Refusing", _refuses, then=pytest.fail)
    jobs.wait()
    assert job.state == "failed"
    assert isinstance(job.problem, Infeasible)
    assert job.problem.hint == "Ask for less."


def test_a_process_that_dies_is_told() -> None:
    jobs = Jobs()
    job = jobs.start("Breaking", _breaks, then=pytest.fail)
    jobs.wait()
    assert job.state == "failed"
    assert "ended without a result" in str(job.problem)


def _errs(report: Report) -> None:
    raise ValueError("7 is odd")


def test_a_mistake_of_ours_is_told_as_one() -> None:
    jobs = Jobs()
    job = jobs.start("Erring", _errs, then=pytest.fail)
    jobs.wait()
    assert job.state == "failed"
    assert "mistake of sfumato: ValueError: 7 is odd" in str(job.problem)


def test_what_follows_on_a_job_may_fail() -> None:
    def full(result: int) -> None:
        raise OSError(28, "No space left on device")

    jobs = Jobs()
    job = jobs.start("Adding", _adds, 2, 3, then=full)
    jobs.wait()
    assert (job.state, jobs.is_running) == ("failed", False)
    assert "No space left" in str(job.problem)


def test_two_that_start_at_once_are_one(tmp_path: Path) -> None:
    jobs = Jobs()

    def begin(number: int) -> bool:
        try:
            jobs.start("Waiting", _waits, tmp_path / f"file-{number}", then=pytest.fail)
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(begin, range(4))) == 1
    jobs.cancel()
    jobs.wait()


def test_one_job_at_a_time_and_the_next_after_a_cancel(tmp_path: Path) -> None:
    jobs = Jobs()
    job = jobs.start("Waiting", _waits, tmp_path / "file", then=pytest.fail)
    with pytest.raises(UsageError, match="still under way"):
        jobs.start("Adding", _adds, 2, 3, then=pytest.fail)
    _until((tmp_path / "file").exists)
    jobs.cancel()
    jobs.wait()
    assert (job.state, (tmp_path / "file").read_text()) == ("cancelled", "unwound")
    assert not jobs.is_running
    found: list[int] = []
    jobs.start("Adding", _adds, 2, 3, then=found.append)
    jobs.wait()
    assert found == [5]


def test_a_process_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    jobs = Jobs()
    job = jobs.start("Ignoring", _is_stubborn, tmp_path / "file", then=pytest.fail)
    _until((tmp_path / "file").exists)
    jobs.cancel()
    jobs.wait()
    assert job.state == "cancelled"


def test_a_job_ends_with_its_server(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from sfumato.studio.desk.jobs import Jobs\n"
        "from tests.studio.test_jobs import _waits\n"
        "if __name__ == '__main__':\n"
        "    Jobs().start('Waiting', _waits, Path(sys.argv[1]), then=print); time.sleep(60)\n"
    )
    (tmp_path / "server.py").write_text(script)
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    server = subprocess.Popen(
        [sys.executable, str(tmp_path / "server.py"), str(tmp_path / "file")], env=os.environ | {"PYTHONPATH": paths}
    )
    _until((tmp_path / "file").exists)
    server.kill()
    server.wait()
    _until(lambda: (tmp_path / "file").read_text() == "unwound")
