"""The harness itself: processes die when they are killed, and without Java tests are skipped."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.spark.processes import kill, members, needs_spark, started, wait_until


def test_all_processes_of_a_command_are_killed(tmp_path: Path) -> None:
    """Also one whose parent has ended."""
    orphan = "sh -c 'sleep 600 & sleep 600 & echo ready; exit' & exec sleep 600"
    with started(["sh", "-c", orphan], dict(os.environ), tmp_path, "tree") as process:
        wait_until((tmp_path / "tree.out").read_text, "it has started", process)
        assert len(members(process.pid)) >= 3
        kill(process)
        assert members(process.pid) == []


def test_without_java_tests_are_skipped_unless_ci_asks_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.spark import processes

    monkeypatch.setattr(processes, "_missing", lambda: "no Java here")
    monkeypatch.delenv("SFUMATO_SPARK", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Java here"):
        needs_spark()
    monkeypatch.setenv("SFUMATO_SPARK", "1")
    with pytest.raises(pytest.fail.Exception, match="no Java here"):
        needs_spark()
