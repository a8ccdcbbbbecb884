"""Records of suites: written where that is asked for, read back, and without failures in what is committed."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

import pytest

from tests.faults import recorded
from tests.faults.__main__ import read
from tests.faults.mutating import MUTATIONS
from tests.faults.recorded import Record, Suite, record, records
from tests.faults.test_hostile_suite import CASES as HOSTILE

SUITE = Suite("tea", "kettles", "tea is left", "pytest tests/tea")
TESTS = Path(__file__).parents[1]


def stated() -> list[Suite]:
    """Return the suites that the other modules of the tests state, at their top level."""
    files = [path for path in TESTS.rglob("*.py") if " = Suite(" in path.read_text() and path != Path(__file__)]
    names = [".".join(path.relative_to(TESTS.parent).with_suffix("").parts) for path in sorted(files)]
    return [value for name in names for value in vars(import_module(name)).values() if isinstance(value, Suite)]


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


def test_every_suite_has_a_record_of_its_own() -> None:
    """What a suite states is on the page only by its record."""
    assert {suite.name for suite in stated()} == {seen.suite.name for seen in records()}


def test_a_record_says_of_its_suite_what_the_code_says() -> None:
    """A suite that is changed is run again, or the page praises what nobody runs any more."""
    known = {suite.name: suite for suite in stated()}
    assert [seen.suite for seen in records() if seen.suite != known.get(seen.suite.name)] == []


@pytest.mark.parametrize(("name", "cases"), [("mutations", len(MUTATIONS)), ("hostile", len(HOSTILE))])
def test_a_list_of_cases_was_run_to_its_end(name: str, cases: int) -> None:
    assert [seen.cases for seen in records() if seen.suite.name == name] == [cases]


def test_settings_before_a_command_are_of_its_environment() -> None:
    runs, settings = read("SFUMATO_SPARK=1 pytest -k a=b")
    assert (runs, settings) == ([sys.executable, "-m", "pytest", "-k", "a=b"], {"SFUMATO_SPARK": "1"})
