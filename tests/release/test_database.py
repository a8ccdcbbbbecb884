"""Databases stay open between questions, and nothing of one question is seen by another."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.errors import UsageError
from sfumato.release.folder import KEPT, connection
from tests.constants import set_constants


def written(path: Path, values: list[int]) -> Path:
    pq.write_table(pa.table({"a": values}), path)
    return path


def opened(path: Path, **options: Any) -> Any:
    view = f"CREATE VIEW v AS SELECT * FROM read_parquet('{path}')"
    return connection([f"'{path}'"], [view], [path], **options)


def total(path: Path) -> int:
    with opened(path) as found:
        return int(found.sql("SELECT sum(a) FROM v").fetchall()[0][0])


@pytest.fixture
def connects(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count databases that are opened."""
    calls: list[int] = []
    plain = duckdb.connect

    def counting(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return plain(*args, **options)

    monkeypatch.setattr(duckdb, "connect", counting)
    return calls


def test_one_database_serves_many_questions(tmp_path: Path, connects: list[int]) -> None:
    path = written(tmp_path / "a.parquet", [1, 2])
    assert [total(path) for _ in range(5)] == [3] * 5
    assert len(connects) == 1


def test_one_that_was_asked_often_is_opened_anew(
    tmp_path: Path, connects: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database holds some memory of each question: a process that asks for days must not grow."""
    path = written(tmp_path / "a.parquet", [1, 2])
    set_constants(monkeypatch, "sfumato.release", MOST_ASKED=3)
    with opened(path) as busy:
        assert [total(path) for _ in range(7)] == [3] * 7
        assert busy.sql("SELECT max(a) FROM v").fetchall() == [(2,)]  # which was asked of one that was let go
    assert len(connects) == 3


def test_the_last_few_are_kept(tmp_path: Path, connects: list[int]) -> None:
    paths = [written(tmp_path / f"{k}.parquet", [k]) for k in range(KEPT + 1)]
    assert [total(path) for path in (*paths, *paths)] == [*range(KEPT + 1)] * 2
    assert len(connects) == 2 * (KEPT + 1)  # each was let go before it was asked again
    assert total(paths[-1]) == KEPT
    assert len(connects) == 2 * (KEPT + 1)


@pytest.mark.parametrize("values", [[3, 4], [3, 4, 5]], ids=["of the same size", "longer"])
def test_a_file_that_changes_is_read_anew(values: list[int], tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [1, 2])
    assert total(path) == 3
    os.utime(written(path, values), ns=(1, 1))
    assert total(path) == sum(values)


def test_a_column_that_changes_its_type_is_read_anew(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [1, 2])
    assert total(path) == 3
    pq.write_table(pa.table({"a": [0.5]}), path)
    with opened(path) as found:
        assert found.sql("SELECT a FROM v").fetchall() == [(0.5,)]


def test_tables_of_a_question_are_its_own(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [1])
    with opened(path) as one, opened(path) as other:
        one.register("mine", pa.table({"b": [1]}))
        assert one.sql("SELECT * FROM mine").fetchall() == [(1,)]
        with pytest.raises(duckdb.CatalogException):
            other.sql("SELECT * FROM mine")
    with opened(path) as later, pytest.raises(duckdb.CatalogException):
        later.sql("SELECT * FROM mine")


def test_nothing_else_is_in_reach(tmp_path: Path) -> None:
    path, other = (written(tmp_path / f"{name}.parquet", [1]) for name in "ab")
    for text in (
        f"SELECT * FROM read_parquet('{other}')",
        f"COPY v TO '{tmp_path / 'c.parquet'}'",
        f"ATTACH '{tmp_path / 'd.db'}'",
        "SET enable_external_access = true",
        f"SET allowed_paths = ['{other}']",
        "SET lock_configuration = false",
    ):
        with opened(path) as found, pytest.raises(duckdb.Error):
            found.execute(text)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]
    with connection() as found, pytest.raises(duckdb.Error):
        found.execute(f"SELECT * FROM read_parquet('{path}')")


def test_times_are_those_of_utc_and_no_progress_is_shown(tmp_path: Path) -> None:
    path = written(tmp_path / "a.parquet", [1])
    with opened(path, threads=1) as found:
        asked = [f"current_setting('{name}')" for name in ("TimeZone", "enable_progress_bar", "threads")]
        assert found.sql(f"SELECT {', '.join(asked)}").fetchall() == [("UTC", False, 1)]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("leave", ["sys.exit()", "os._exit(0)"])
def test_a_forked_process_opens_its_own_and_ends_well(leave: str, tmp_path: Path) -> None:
    """The parent's have threads that the child has not: they are closed before."""
    paths = [written(tmp_path / f"{k}.parquet", [k]) for k in range(KEPT + 2)]
    script = f"""
import os, sys
from pathlib import Path
from tests.release.test_database import total
paths = list(map(Path, sys.argv[1:]))
assert total(paths[1]) == 1
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0
    assert total(paths[1]) == 1
else:
    assert [total(path) for path in paths] == list(range(len(paths)))
    {leave}
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", script, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_one_that_is_not_kept_is_closed(tmp_path: Path, connects: list[int]) -> None:
    path = written(tmp_path / "a.parquet", [1, 2])
    for _ in range(2):
        with opened(path, keep=False) as found:
            assert found.sql("SELECT sum(a) FROM v").fetchall() == [(3,)]
        with pytest.raises(duckdb.ConnectionException):
            found.sql("SELECT 1")
    assert len(connects) == 2


def test_one_that_broke_is_not_asked_again(tmp_path: Path, connects: list[int]) -> None:
    path = written(tmp_path / "a.parquet", [1, 2])
    with pytest.raises(duckdb.FatalException), opened(path):
        raise duckdb.FatalException("planted")
    assert total(path) == 3
    assert len(connects) == 2


@pytest.mark.parametrize("keep", [True, False])
def test_a_question_beyond_the_limit_is_refused_and_leaves_no_files(
    keep: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.release", MEMORY="20MB")
    path = written(tmp_path / "a.parquet", list(range(1000)))
    monkeypatch.chdir(tmp_path)
    many = "SELECT count(*) FROM (SELECT x.a, y.a, z.a FROM v x, v y, (FROM v LIMIT 5) z GROUP BY ALL)"
    with pytest.raises(UsageError, match="more than 20MB of memory"), opened(path, keep=keep) as found:
        found.sql(many).fetchall()
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.parquet"]  # DuckDB would write to .tmp here
