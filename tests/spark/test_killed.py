"""A publication on Spark is killed, with its Java process, while it writes: what is left is as elsewhere."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.faults.injected import COMPILER, Ended, Runs
from tests.faults.recorded import Suite, record
from tests.faults.scene import PUBLISHED, Scene, judged, publishing, restore
from tests.golden.cases import CASES

pytestmark = [
    pytest.mark.skipif("SFUMATO_SPARK" not in os.environ, reason="SFUMATO_SPARK=1 runs what needs Java"),
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for the process that forks"),
]
SUITE = Suite(
    "kills-on-spark",
    "kills of driver and Java process at a random moment after the folder was begun, by every method on Spark",
    "as after kills on one machine; the next run, without Spark, tidies up",
    "SFUMATO_SPARK=1 pytest -m slow tests/spark/test_killed.py",
)
OF_EACH_METHOD = tuple({case.split(",")[0]: case for case in reversed(PUBLISHED)}.values())
COMMAND = [sys.executable, "-c", "from sfumato.cli.main import main; main()"]


def started(scene: Scene) -> subprocess.Popen[bytes]:
    """Publish on Spark, in a session of its own; return when the hidden folder is there."""
    process = subprocess.Popen(
        [*COMMAND, *scene.arguments, "--engine", "spark"],
        cwd=scene.folder,
        env=os.environ | {"TMPDIR": str(scene.folder / "tmp"), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None and not any((scene.folder / "out").iterdir()):
        time.sleep(0.01)
    return process


def killed(scene: Scene, seconds: float) -> Ended:
    process = started(scene)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    return Ended(process.wait(), "", 0, 1, f"{seconds:.2f} s")


def writing(scene: Scene) -> float:
    """Return how long it writes, if nothing happens."""
    process, began = started(scene), time.monotonic()
    assert process.wait() == 0
    seconds = time.monotonic() - began
    restore(scene)
    return seconds


def kills(folder: Path, cases: tuple[str, ...], often: int, seed: int) -> tuple[int, list[str]]:
    """Kill publications of each case; how long the first one writes says within what time all are killed."""
    draw, died, found, most = random.Random(seed), 0, [], 0.0
    with Runs() as runs:
        for number, case in enumerate(cases):
            scene = publishing(folder / str(number), CASES[case], "parquet", number % 2 == 0, 6_000)
            most = most or writing(scene)
            for _ in range(often):
                problems, ended = judged(runs, scene, "kill", lambda: killed(scene, draw.uniform(0, most)))  # noqa: B023
                found += [f"{case}: {what}" for what in problems]
                died += ended.code == -signal.SIGKILL
    return died, found


@pytest.mark.slow
def test_kills_on_spark(tmp_path: Path) -> None:
    began = time.monotonic()
    died, found = kills(tmp_path, OF_EACH_METHOD, 2, seed=1)
    record(SUITE, died, len(found), time.monotonic() - began)
    assert found == []
    assert died >= len(OF_EACH_METHOD)
