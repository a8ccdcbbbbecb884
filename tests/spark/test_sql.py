"""The analyst's questions on Spark: every answer is the embedded engine's, whatever is asked of whichever release.

Releases are cut into pieces of a few rows, so that every answer is merged from those of many tasks.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sfumato.analyst.ask.conditions import fetched
from sfumato.analyst.counting import on_spark
from sfumato.analyst.counting.counts import Counting
from sfumato.analyst.grouped import dealt as reading
from sfumato.analyst.release import Release, open_release
from sfumato.cli.main import app
from sfumato.errors import ReleaseError, UsageError
from sfumato.release.folder import MANIFEST_NAME, file_sha256, quoted
from sfumato.release.parts import FilePart, part_name
from tests.analyst import test_sql_groups, test_sql_oracle
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines import test_response
from tests.engines.parts import data_in_parts
from tests.engines.tools import released

Ask = Callable[[Release], Any]
N = 90
CLOSE = 1e-11
"""Sums of fractions are added in another order."""


# --- releases ---------------------------------------------------------------------------------------------------------


def odd_table() -> pa.Table:
    """Return a table with columns of all types and names, and values that engines like to disagree about."""
    rng = np.random.default_rng(4)

    def column(values: list[Any], kind: Any = None) -> Any:
        return pa.array([values[k] for k in rng.integers(0, len(values), N)], kind)

    nan, inf = float("nan"), float("inf")
    moments = [dt.datetime(1582, 10, 5), dt.datetime(2024, 2, 29, 23, 59, 59, 999999), dt.datetime(1, 1, 1), None]
    return pa.table(
        {
            "age": pa.array(rng.integers(0, 50, N)),
            "my col": column([1, 2, None], pa.int8()),
            "a.b": column(["x", "X", "", None, "ß", "ss", "\U0001f600", "\uff5e"]),
            "tick`s": column(["a'b", "100%", "a_b", "a\\b", "aXb", None]),
            'q"q {c0}': column([0.5, -1.25, None]),
            "c0": column([0.0, -0.0, nan, -nan, inf, -inf, 1e-300, None], pa.float64()),
            "real": column([0.1, 0.2, nan, None], pa.float32()),
            "large": column([2**64 - 1, 0, 2**63, None], pa.uint64()),
            "flag": column([True, False, None]),
            "day": column([dt.date(1969, 12, 31), dt.date(2024, 2, 29), dt.date(1, 1, 1), None]),
            "time": column(moments, pa.timestamp("us")),
            "nano": column([0, 1, 1_700_000_000_123_456_789, None], pa.timestamp("ns")),
            "zone": column([*moments[:2], None], pa.timestamp("us", "Europe/Rome")),
            "clock": column([dt.time(23, 59, 59), dt.time(0), None], pa.time64("us")),
            "price": column([Decimal("10.10"), Decimal("-0.05"), None], pa.decimal128(9, 2)),
            "text": column(["7", "10", " 9 ", "1e2", "-0", None]),
            "word": column(["seven", "8"]),
            "s": column(["a", "b", "c"]),
        }
    )


def odd(folder: Path, form: str = "parquet") -> Release:
    table = odd_table()
    roles = {name.replace('"', '\\"'): "other; missing = 'category'" for name in table.column_names[:-1]}
    return released(table, make_policy({**roles, "s": "sensitive"}), folder=folder, format=form)


def randomized(folder: Path, method: str, compound: bool = False) -> Release:
    table = test_sql_oracle.table(method == "small-domain", compound)
    return released(table, test_sql_oracle.policy(method, compound), folder=folder, shuffle=False)


def response(folder: Path) -> Release:
    made = released(test_response.people(), test_response.asked(), folder=folder)
    assert len(made.manifest.mechanisms) > 1
    return made


KINDS: dict[str, Callable[[Path], Release]] = {
    "odd": odd,
    "odd csv": partial(odd, form="csv"),
    "uniform": partial(randomized, method="uniform", compound=True),
    "fine-grain": partial(randomized, method="fine-grain"),
    "small-domain": partial(randomized, method="small-domain"),
    "response": response,
    "groups": partial(test_sql_groups.released, kind="two"),
    "groups in cells": partial(test_sql_groups.released, kind="cells"),
    "groups csv": partial(test_sql_groups.released, kind="csv"),
}


def in_parts(release: Release) -> Release:
    """Write the data anew in three files, of small row groups."""
    rows = pq.read_table(release.data)
    ends = [0, 1, rows.num_rows // 2, rows.num_rows]
    release.data.unlink()
    (release.folder / "data").mkdir()
    parts = []
    for k in range(3):
        file = release.folder / "data" / part_name(k)
        pq.write_table(rows.slice(ends[k], ends[k + 1] - ends[k]), file, row_group_size=20)
        parts.append(FilePart(file=file.name, rows=ends[k + 1] - ends[k], sha256=file_sha256(file)))
    made = release.manifest.model_copy(update={"data": data_in_parts(parts, shuffled=False)})
    (release.folder / MANIFEST_NAME).write_text(made.to_json())
    return open_release(release.folder)


@pytest.fixture(scope="module")
def small_pieces() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        set_constants(patched, "sfumato.analyst", PIECE_BYTES=2000, ROWS_TOGETHER=30)
        yield


@pytest.fixture(scope="module")
def releases(
    spark: Any, small_pieces: None, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Release, Release]]:
    """Give a release for this machine, and the same one for Spark."""
    made: dict[str, Release] = {}

    def give(kind: str) -> tuple[Release, Release]:
        if kind not in made:
            release = KINDS[kind](tmp_path_factory.mktemp("spark") / "r")
            made[kind] = in_parts(release) if release.manifest.data.format == "parquet" else release
            pieces = on_spark.pieces_of(made[kind])
            assert len(pieces) == 1 if "csv" in kind else len(pieces) > 3
        return made[kind], open_release(made[kind].folder, spark)

    return give


# --- the same answers -------------------------------------------------------------------------------------------------


def shown(value: Any) -> Any:
    """Return what can be compared: NaN is not equal to itself, and 0.0 is to -0.0."""
    return repr(value + 0.0) if isinstance(value, float) else value


def assert_same(here: Any, there: Any) -> None:
    """Compare two answers, tables or comparisons: all texts and types, and numbers but for rounding."""
    one, other = here.to_arrow(), there.to_arrow()
    assert one.schema == other.schema
    assert here.notes == there.notes
    for name, kind in zip(one.column_names, one.schema.types, strict=True):
        left, right = one[name].to_pylist(), other[name].to_pylist()
        if pa.types.is_floating(kind) and name not in here.by:
            np.testing.assert_allclose(np.array(right, float), np.array(left, float), CLOSE, CLOSE)
        else:
            assert list(map(shown, left)) == list(map(shown, right))


def outcome(ask: Ask, release: Release) -> Any:
    """Return the answer, or how it is refused."""
    try:
        return ask(release)
    except UsageError as refused:
        return type(refused), str(refused)


def assert_equal_on_spark(ask: Ask, releases: tuple[Release, Release]) -> None:
    here = outcome(ask, releases[0])
    reading._read.cache_clear()  # Spark shall read the groups, too
    there = outcome(ask, releases[1])
    if isinstance(here, tuple):
        assert here == there
    else:
        assert_same(here, there)


COUNTS = "SELECT job, COUNT(*) FROM release GROUP BY job"
SHARES = (
    "SELECT sex, job, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) FROM release "
    "WHERE (age > 40 OR job IN ('clerk', 'cook')) AND NOT (hours IS NULL AND job IS NULL) GROUP BY sex, job"
)
CUBE = "SELECT sex, region, SUM(income), AVG(age) FROM release WHERE job <> 'cook' GROUP BY CUBE (sex, region)"
SUMS = "SELECT region, SUM(income), AVG(age), COUNT(*) FROM release WHERE job <> 'cook' GROUP BY region"
FILTERED = (
    "SELECT sex, COUNT(*) FILTER (WHERE job = 'cook' AND age > 30) / COUNT(*) AS share, "
    "SUM(CASE WHEN region = 'west' THEN income ELSE 0 END) - SUM(income) AS rest FROM release GROUP BY sex"
)
NOBODY = "SELECT COUNT(*), SUM(hours) FROM release WHERE age > 1000"
NO_GROUP = "SELECT sex, COUNT(*) FROM release WHERE age > 1000 GROUP BY sex"
ASKED = [
    ("uniform", "w", CUBE),
    ("uniform", "", NOBODY),
    ("uniform", "", NO_GROUP),
    ("fine-grain", "w", SHARES),
    ("small-domain", "", COUNTS),
    ("small-domain", "w", SHARES),
    ("small-domain", "w", FILTERED),
    ("response", "", "SELECT sex, disease, COUNT(*) FROM release WHERE region <> 'west' GROUP BY sex, disease"),
    ("response", "", "SELECT region, COUNT(*) FROM release WHERE age > 30 GROUP BY region"),
    ("groups", "w", SUMS),
    ("groups", "", NOBODY),
    ("groups in cells", "w", SHARES),
    ("groups csv", "", COUNTS),
]


@pytest.mark.parametrize(("kind", "weight", "query"), ASKED)
def test_queries_have_the_same_answers(kind: str, weight: str, query: str, releases: Any) -> None:
    assert_equal_on_spark(lambda release: release.sql(query, weight=weight), releases(kind))


OTHERS: list[tuple[str, Ask]] = [
    ("groups", lambda r: r.sql(SHARES, method="classical")),
    ("groups in cells", lambda r: r.count(["region", "job"], method="classical", target="population")),
    ("uniform", lambda r: r.count("job", "sex = 'F'", method="em")),
    ("small-domain", lambda r: r.count(["job", "sex"], method="projected")),
    ("response", lambda r: r.power(["sex", "disease"], "region = 'west' OR disease = 'flu'")),
    ("small-domain", lambda r: r.power("job", "age > 40")),
]


@pytest.mark.parametrize(("kind", "ask"), OTHERS)
def test_counts_and_expectations_are_the_same(kind: str, ask: Ask, releases: Any) -> None:
    assert_equal_on_spark(ask, releases(kind))


@pytest.mark.parametrize("kind", ["response", "groups"])
def test_comparisons_are_the_same(kind: str, releases: Any) -> None:
    first, second, exposed = ("sex", "disease", "region = 'west'") if kind == "response" else ("sex", "job", "age > 40")
    case = "disease = 'flu'" if kind == "response" else "job = 'cook'"
    here, there = ([r.association(first, second), r.risks(exposed, case)] for r in releases(kind))
    for one, other in zip(here, there, strict=True):
        for left, right in zip(one.measures, other.measures, strict=True):
            assert left.name == right.name
            numbers = [[m.estimate, m.standard_error, m.lower, m.upper, m.naive, m.bias] for m in (left, right)]
            np.testing.assert_allclose(*(np.array(each, float) for each in numbers), 1e-7, 1e-9)


# --- conditions and keys of all kinds ---------------------------------------------------------------------------------

CONDITIONS = [
    "age / 2 > 7 AND age % 7 = 3 AND -age < 0", "age / 0 IS NULL", "age % 0 IS NULL", "age * 9223372036854775807 > 0",
    '"my col" IN (1, NULL)', 'NOT "my col" = 1', '"my col" BETWEEN 1.5 AND 3', "\"a.b\" > 'X'", "\"a.b\" ILIKE 'SS'",
    "\"a.b\" >= 'ss' OR \"a.b\" = ''", "\"tick`s\" LIKE 'a_b'", "\"tick`s\" LIKE '100%' OR \"tick`s\" = 'a''b'",
    "\"tick`s\" LIKE 'a\\b'", '"q""q {c0}" < 0', "c0 > 1", "c0 = 0", "c0 <> c0", "NOT c0 < 5", "real = 0.1",
    "real > 0.1", "large > 9223372036854775807", "large - 1 >= 0", "flag", "NOT flag", "flag IS NULL", "flag > 0",
    "day < '2000-01-01'", "day = 'yesterday'", "time > '2024-02-29'", "zone >= '2024-02-29 22:59:59'",
    "clock = '00:00:00'",
    "price * 3 = 30.3", "price + real > 0", "text = 7", "text BETWEEN 9 AND 100", "text > '7'", "word < 9",
    "word = 8.0",
    "\"a.b\" = 5", "nano > '1970-01-01'", "price / 3 > 3.3666", "age = '7'", "age > 'x'", "1 = 2", "age + day > 3",
    "true AND NULL",
]  # fmt: skip


def test_conditions_mean_the_same(releases: Any) -> None:
    """All conditions on the odd columns, in one job: those that fit are keys of one question."""
    here, there = releases("odd")
    kept, refused = [], 0
    for condition in CONDITIONS:
        try:
            fetched(here, Counting((f"({condition})",)), "It")
            kept.append(condition)
        except UsageError:
            refused += 1
    assert len(kept) > 30
    assert refused > 3
    keys = tuple(f"CAST(({condition}) AS BOOLEAN)" for condition in kept)
    asked = Counting((*keys, '"age"'), (("count(*)", "sum"), ('sum("q""q {c0}")', "sum")))
    one, other = (fetched(release, asked, "It").sort_by([(f"c{k}", "ascending") for k in range(len(keys) + 1)])
                  for release in (here, there))  # fmt: skip
    assert one.equals(other)


@pytest.mark.parametrize(
    "condition",
    ["age > 'x'", '"a.b" = 5', "day = 'yesterday'", "word < day"],
)
def test_what_does_not_fit_is_refused_in_the_same_words(condition: str, releases: Any) -> None:
    here, there = (outcome(lambda r: r.count("s", condition), release) for release in releases("odd"))
    assert isinstance(here, tuple)
    assert here == there


@pytest.mark.parametrize(
    "condition", ["c0 > 1 AND real <= 0.1", "text BETWEEN 9 AND 100", "price * 3 = 30.3 OR s = 'a'"]
)
@pytest.mark.parametrize("kind", ["odd", "odd csv"])
def test_whole_queries_with_conditions_are_the_same(kind: str, condition: str, releases: Any) -> None:
    query = f'SELECT s, flag, COUNT(*), SUM("q""q {{c0}}") FROM release WHERE {condition} GROUP BY ROLLUP (flag, s)'
    assert_equal_on_spark(lambda release: release.sql(query), releases(kind))


@pytest.mark.parametrize("kind", ["odd", "odd csv"])
def test_keys_of_all_types_come_back_as_they_are(kind: str, releases: Any) -> None:
    here, there = releases(kind)
    names = here.column_names
    asked = Counting(tuple(map(quoted, names)), (("count(*)", "sum"), ('min("age")', "min"), ('max("word")', "max")))
    one, other = (fetched(release, asked, "It") for release in (here, there))
    assert one.schema == other.schema
    rows = [
        sorted(str([shown(value) for value in row.values()]) for row in table.to_pylist()) for table in (one, other)
    ]
    assert rows[0] == rows[1]


def test_zero_is_one_key_and_nan_another(releases: Any) -> None:
    """Zeros of both signs lie in different pieces, and so do the NaNs: they are merged as DuckDB would."""
    here, there = (release.count("c0") for release in releases("odd"))
    assert_same(here, there)
    assert sum(value == 0 for (value,) in there.groups) == 1
    assert sum(value != value for (value,) in there.groups) == 1


# --- random questions -------------------------------------------------------------------------------------------------


def random_question(rng: np.random.Generator, columns: list[str]) -> Counting:
    """Return random keys, sums and a random condition over the odd columns."""
    fitting = [
        c for c in CONDITIONS if not c.startswith(("age *", "day = 'y", "age > 'x'", "word", '"a.b" = 5', "age + day"))
    ]
    keys = [quoted(columns[k]) for k in rng.choice(len(columns), rng.integers(0, 4), replace=False)]
    joined = f" {rng.choice(['AND', 'OR'])} ".join(f"({c})" for c in rng.choice(fitting, rng.integers(1, 3)))
    sums: list[Any] = [("count(*)", "sum"), ('coalesce(sum(CAST("age" AS DOUBLE)) FILTER (WHERE flag), 0)', "sum")]
    sums += [('min("c0")', "min"), ('max(CAST("real" AS DOUBLE))', "max"), ('min("a.b")', "min")]
    chosen = [sums[k] for k in rng.choice(len(sums), rng.integers(1, 4), replace=False)]
    return Counting(tuple(keys), tuple(chosen), joined)


@pytest.mark.parametrize("seed", range(4))
def test_random_questions_are_merged_rightly(seed: int, releases: Any) -> None:
    here, there = releases("odd")
    asked = random_question(np.random.default_rng(seed), list(here.column_names))
    one, other = (fetched(release, asked, "It") for release in (here, there))
    assert one.schema == other.schema
    rows = [
        sorted(str([shown(value) for value in row.values()]) for row in table.to_pylist()) for table in (one, other)
    ]
    assert rows[0] == rows[1]


# --- pieces -----------------------------------------------------------------------------------------------------------


def test_pieces_hold_every_row_once(tmp_path: Path, small_pieces: None) -> None:
    release = in_parts(odd(tmp_path / "r"))
    pieces = on_spark.pieces_of(release)
    rows = {file: pq.read_metadata(file).num_rows for file in release.data_files}
    for file, number in rows.items():
        own = [(p.first, number if p.end is None else p.end) for p in pieces if p.file == file]
        assert own[0][0] == 0
        assert own[-1][1] == number
        assert all(end == first for (_, end), (first, _) in pairwise(own))


def test_a_column_with_the_name_of_row_numbers_keeps_files_whole(
    tmp_path: Path, spark: Any, small_pieces: None
) -> None:
    table = pa.table({"FILE_ROW_NUMBER": [5, 6, 7] * 40, "s": ["a", "b"] * 60})
    release = released(table, make_policy({"FILE_ROW_NUMBER": "other", "s": "sensitive"}), folder=tmp_path / "r")
    assert len(on_spark.pieces_of(release)) == 1
    query = "SELECT FILE_ROW_NUMBER, COUNT(*) FROM release GROUP BY FILE_ROW_NUMBER"
    assert_equal_on_spark(lambda r: r.sql(query), (release, replace(release, spark=spark)))


def test_a_lost_file_is_told(tmp_path: Path, spark: Any, small_pieces: None) -> None:
    release = replace(in_parts(odd(tmp_path / "r")), spark=spark)
    release.data_files[1].unlink()
    with pytest.raises(ReleaseError, match=r"has lost its data file 'data/part-00001\.parquet'"):
        release.count("s")


def test_a_damaged_file_is_told(tmp_path: Path, spark: Any) -> None:
    release = replace(in_parts(odd(tmp_path / "r")), spark=spark)
    content = bytearray(release.data_files[2].read_bytes())
    content[4:200] = b"\0" * 196
    release.data_files[2].write_bytes(bytes(content))
    with pytest.raises(ReleaseError, match="cannot be read"):
        release.count(["s", "age"])


# --- the command line -------------------------------------------------------------------------------------------------


def printed(*arguments: str) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_commands_count_on_spark(releases: Any, spark: Any) -> None:
    folder = str(releases("response")[0].folder)
    for command in (
        ["estimate", folder, "SELECT disease, COUNT(*) FROM release WHERE sex = 'F' GROUP BY disease"],
        ["estimate", folder, "SELECT sex, AVG(age), SUM(age) FROM release WHERE disease <> 'gout' GROUP BY sex"],
        ["distribution", folder, "age", "--by", "disease"],
        ["associate", folder, "--between", "sex,disease"],
        ["power", folder, "--by", "disease", "--share", "0.1"],
    ):
        here = printed(*command, "--json")
        assert printed(*command, "--json", "--engine", "spark") == here
