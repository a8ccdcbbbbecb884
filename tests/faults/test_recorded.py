"""Records of suites: written where that is asked for, read back, and without failures in what is committed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.faults import recorded
from tests.faults.__main__ import read
from tests.faults.recorded import Record, Suite, record, records

SUITE = Suite("tea", "kettles", "tea is left", "pytest tests/tea")


def test_a_record_is_kept_where_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(recorded.ASKED, raising=False)
    record(SUITE, 3, 0, 1.2, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv(recorded.ASKED, "1")
    record(SUITE, 3, 1, 1.2, "2026-11-18", tmp_path)
    assert records(tmp_path) == [Record(SUITE, 3, 1, 1, "2026-11-18")]
    record(SUITE, 5, 0, 2.6, "2026-11-19", tmp_path)
    assert records(tmp_path) == [Record(SUITE, 5, 0, 3, "2026-11-19")]


def test_no_suite_failed_when_it_was_last_run() -> None:
    """The page must not praise what fails: mend it, and run it again."""
    assert [seen.suite.name for seen in records() if seen.failures or not seen.cases] == []


def test_settings_before_a_command_are_of_its_environment() -> None:
    runs, settings = read("SFUMATO_SPARK=1 pytest -k a=b")
    assert (runs, settings) == ([sys.executable, "-m", "pytest", "-k", "a=b"], {"SFUMATO_SPARK": "1"})
