"""Numbers of a CSV table are numbers to the analyst: compared, grouped and summed as in the original."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from sfumato.analyst.release import Release
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.utility.distances import nearness
from sfumato.auditor.utility.measuring import measure
from sfumato.errors import PolicyError, TableError, UsageError
from sfumato.publisher.table import scan
from sfumato.release.verify.verification import verify
from tests.conftest import make_policy
from tests.engines.tools import released

ROWS = 400
ROLES = {
    "dia": "quasi_identifier",
    "sys": "quasi_identifier",
    "zip": "other",
    "price": "other",
    "temperature": "other; missing = 'category'",
    "grade": "sensitive",
}
SURE = "gamma = 1e15"  # hardly any noise: estimates are the truth


def lines(rows: int = ROWS) -> list[str]:
    """Return a CSV table in which text and numbers are in different orders."""
    rng = np.random.default_rng(5)
    dia, sys = rng.integers(60, 130, rows), rng.integers(70, 180, rows)
    columns = {
        "dia": dia.tolist(),
        "sys": sys.tolist(),
        "zip": [f"{z:05d}" for z in rng.integers(0, 99_999, rows)],
        "price": [f"{p / 100:.2f}" for p in rng.integers(0, 20_000, rows)],
        "temperature": [
            "" if k % 7 == 0 else repr(t / 10) for k, t in enumerate(rng.integers(-200, 1200, rows).tolist())
        ],
        "grade": rng.integers(1, 13, rows).tolist(),
    }
    return [",".join(columns), *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True))]


def plain(folder: Path) -> Path:
    path = folder / "table.csv"
    path.write_text("\n".join(lines()) + "\n")
    return path


def quoted(folder: Path) -> Path:
    path = folder / "table.csv"
    head, *rest = lines()
    fields = [[f'"{field}"' if field else "" for field in line.split(",")] for line in rest]
    path.write_text("\n".join([head, *(",".join(row) for row in fields)]) + "\n")
    return path


def zipped(folder: Path) -> Path:
    path = folder / "table.csv.gz"
    path.write_bytes(gzip.compress("\n".join(lines()).encode()))
    return path


@pytest.fixture(params=["csv", "parquet"])
def format(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[plain, quoted, zipped], ids=lambda make: make.__name__)
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    make: Callable[[Path], Path] = request.param
    return make(tmp_path)


def published(
    source: Path, folder: Path, format: str, method: str = "uniform", need: str = SURE, **roles: str
) -> Release:
    return released(source, make_policy({**ROLES, **roles}, need, method), folder=folder, format=format)


def truth(source: Path, query: str) -> list[tuple[Any, ...]]:
    numbers = dict.fromkeys(("dia", "sys", "grade"), "BIGINT") | dict.fromkeys(("price", "temperature"), "DOUBLE")
    types = {"zip": "VARCHAR", **numbers}
    with duckdb.connect() as database:
        database.sql(f"CREATE VIEW release AS FROM read_csv('{source}', types = {types})")
        return database.sql(query).fetchall()


def asked(release: Release, query: str) -> list[tuple[Any, ...]]:
    answer = release.sql(query)
    return [(*group, pytest.approx(value, abs=1e-3)) for group, value in zip(answer.groups, answer.value, strict=True)]


def holds(release: Release) -> dict[str, str | None]:
    return {column.name: column.holds for column in release.manifest.columns}


def test_t2_the_manifest_states_what_text_holds(source: Path, format: str, tmp_path: Path) -> None:
    release = published(source, tmp_path / "r", format)
    assert holds(release) == {
        "dia": "integer",
        "sys": "integer",
        "zip": None,
        "price": "decimal",
        "temperature": "decimal",
        "grade": "integer",
    }
    assert {column.type for column in release.manifest.columns} == {"string"}
    assert [check.name for check in verify(release).checks if check.status == "fails"] == ["secret key"]


QUESTIONS = [
    "SELECT COUNT(*) FROM release WHERE dia < sys",
    "SELECT COUNT(*) FROM release WHERE dia >= '100'",
    "SELECT COUNT(*) FROM release WHERE sys > 99.5 AND dia <= 99",
    "SELECT COUNT(*) FROM release WHERE price BETWEEN 9.5 AND 10.5 OR price > sys",
    "SELECT COUNT(*) FROM release WHERE temperature < 0 OR temperature IS NULL",
    "SELECT COUNT(*) FROM release WHERE zip = '00042' OR zip LIKE '9%'",
    "SELECT COUNT(*) FROM release WHERE grade > 9",
    "SELECT COUNT(*) FROM release WHERE grade >= '10' AND dia < 100",
    "SELECT COUNT(*) FROM release WHERE grade < 3 OR dia > 120",
    "SELECT SUM(price) FROM release WHERE grade = 12",
    "SELECT AVG(temperature) FROM release WHERE dia > 99 AND price < 100",
    "SELECT dia, COUNT(*) FROM release GROUP BY dia ORDER BY dia",
    "SELECT temperature, COUNT(*) FROM release GROUP BY temperature ORDER BY temperature",
]


@pytest.mark.parametrize("query", QUESTIONS)
def test_t2_answers_are_those_of_the_original(query: str, format: str, tmp_path: Path) -> None:
    source = plain(tmp_path)
    assert asked(published(source, tmp_path / "r", format), query) == truth(source, query)


def test_t2_randomized_numbers_are_shown_as_numbers_in_their_order(format: str, tmp_path: Path) -> None:
    source = plain(tmp_path)
    release = published(source, tmp_path / "r", format)
    query = "SELECT grade, COUNT(*) FROM release GROUP BY grade ORDER BY grade"
    assert asked(release, query) == truth(source, query)
    for answer in (release.count("grade"), release.sql("SELECT grade, COUNT(*) FROM release GROUP BY grade")):
        assert [group[0] for group in answer.groups] == list(range(1, 13))
        assert answer.value == pytest.approx([count for _, count in truth(source, query)], abs=1e-3)
    by_both = release.count(["grade", "dia"])
    assert by_both.value.sum() == pytest.approx(ROWS)
    assert by_both.groups[0][0] == 1
    assert by_both.groups[1][0] == 2


def test_t2_a_declared_order_is_kept(tmp_path: Path) -> None:
    domain = [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1]
    release = published(plain(tmp_path), tmp_path / "r", "csv", grade=f"sensitive; domain = {domain}")
    assert [group[0] for group in release.count("grade").groups] == domain


def test_t2_the_audit_reads_texts_as_they_are_written(format: str, tmp_path: Path) -> None:
    source = plain(tmp_path)
    release = published(source, tmp_path / "r", format, price="quasi_identifier", need="rho1 = 0.2\nrho2 = 0.5")
    policy = make_policy({**ROLES, "price": "quasi_identifier"})
    found = {table.columns: table for table in measure(Evidence(scan(source, policy), release)).tables}
    expected = nearness(release, source, ("price", "grade"))
    assert found["price", "grade"].total_variation == pytest.approx(expected.distances.total_variation)


def test_t2_text_order_would_have_been_wrong(tmp_path: Path) -> None:
    source = plain(tmp_path)
    with duckdb.connect() as database:
        as_text = f"SELECT COUNT(*) FROM read_csv('{source}', all_varchar = true) WHERE dia < sys"
        assert database.sql(as_text).fetchall() != truth(source, "SELECT COUNT(*) FROM release WHERE dia < sys")


def test_t2_the_published_cells_are_the_texts_of_the_table(source: Path, format: str, tmp_path: Path) -> None:
    release = published(source, tmp_path / "r", format)
    reader = "read_parquet" if format == "parquet" else "read_csv"
    options = "" if format == "parquet" else ", all_varchar = true"
    columns = "dia, sys, zip, price, temperature"
    with duckdb.connect() as database:
        rows = database.sql(f"SELECT {columns} FROM {reader}('{release.data}'{options})").fetchall()
        table = database.sql(f"SELECT {columns} FROM read_csv('{source}', all_varchar = true)").fetchall()
    assert sorted(rows, key=repr) == sorted(table, key=repr)


@pytest.mark.parametrize(
    ("method", "need"), [("anatomy", "l = 2"), ("suppression", "l = 2"), ("small-domain", "rho1 = 0.2\nrho2 = 0.5")]
)
def test_t2_other_methods_state_it_too(method: str, need: str, format: str, tmp_path: Path) -> None:
    source = plain(tmp_path)
    release = published(source, tmp_path / "r", format, method, need)
    query = "SELECT COUNT(*) FROM release WHERE dia < sys"
    assert asked(release, query) == truth(source, query)
    by_grade = release.sql("SELECT COUNT(*) FROM release WHERE grade >= '2'").value[0]
    assert 0.7 * ROWS < by_grade <= 1.2 * ROWS  # 11 of 12 grades; as text, only 8
    assert [check.name for check in verify(release).checks if check.status == "fails"] == ["secret key"]


def test_t2_a_declared_domain_alone_tells_what_a_randomized_column_holds(tmp_path: Path) -> None:
    source = plain(tmp_path)
    few = published(source, tmp_path / "a", "csv", grade="sensitive; domain = [1,2,3,4,5,6,7,8,9,10,11,12]")
    more = published(source, tmp_path / "b", "csv", grade="sensitive; domain = [1,2,3,4,5,6,7,8,9,10,11,12,'none']")
    assert (holds(few)["grade"], holds(more)["grade"]) == ("integer", None)


def test_t2_rows_that_are_not_published_say_nothing_of_a_type(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,note,grade\n" + "9,1,a\n10,2,b\n" * 30 + "x,7,\n")
    roles = {"age": "quasi_identifier", "note": "other", "grade": "sensitive; missing = 'drop'"}
    release = released(path, make_policy(roles, SURE), folder=tmp_path / "r", format="csv")
    assert holds(release)["age"] == "integer"


def test_t2_types_can_be_declared(format: str, tmp_path: Path) -> None:
    source = plain(tmp_path)
    release = published(
        source, tmp_path / "r", format, zip="other; type = 'number'", dia="quasi_identifier; type = 'text'"
    )
    assert (holds(release)["zip"], holds(release)["dia"]) == ("integer", None)
    query = "SELECT COUNT(*) FROM release WHERE zip < 4200"
    assert asked(release, query) == truth(source, query.replace("zip", "CAST(zip AS INT)"))


def test_t2_a_declared_number_must_be_one(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("age,grade\n" + "9,a\n10,b\n" * 30 + "n/a,a\n")
    roles = {"age": "quasi_identifier; type = 'number'", "grade": "sensitive"}
    with pytest.raises(TableError, match="'age' is declared to be a number, and holds 'n/a'"):
        released(path, make_policy(roles, SURE), folder=tmp_path / "r")
    with pytest.raises(TableError, match="'grade' is declared to be a number, and holds 'a'"):
        released(
            path, make_policy({"age": "other", "grade": "sensitive; type = 'number'"}, SURE), folder=tmp_path / "r"
        )


def test_t2_a_declared_type_is_for_csv(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"age": ["9", "10"] * 30, "grade": ["a", "b"] * 30})
    roles = {"age": "quasi_identifier; type = 'number'", "grade": "sensitive"}
    with pytest.raises(PolicyError, match="'age' is declared to be a number, and the table has it as string"):
        released(table, make_policy(roles, SURE), folder=tmp_path / "r")


REFUSED = [
    ("zip < '10001'", None),  # all of one length: the order of text is that of numbers
    ("zip < '4200'", "compares text that holds numbers"),
    ("code < '42'", "compares text that holds numbers"),
    ("code BETWEEN '1' AND '42'", "compares text that holds numbers"),
    ("code < other_code", "compares text that holds numbers"),
    ("mixed < '10'", "compares text that holds numbers"),  # '9', '11' and 'none'
    ("icd >= '250' AND icd < '251'", None),  # text and numbers agree on those that are numbers
    ("code + 0 < other_code + 0", None),
    ("code < 42", None),
    ("name < 'M'", None),
    ("age > 'old'", "'age' holds numbers, and 'old' is none"),
    ("age > ''", "'age' holds numbers, and '' is none"),
    ("age LIKE '1%'", "'age' holds numbers: LIKE is for text"),
    ("long > 5", "a number of more than 15 digits"),
    ("level > '2'", "compares text that holds numbers"),
    ("level > 2", None),
]


@pytest.mark.parametrize(("where", "said"), REFUSED)
def test_t2_a_comparison_that_would_be_textual_on_numbers_is_refused(
    where: str, said: str | None, format: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.csv"
    body = [
        "007,08,00042,7,Ann,12345678901234567890,9,250.83,01",
        "12,100,10001,12,Mia,2,11,V57,10",
        "9,9,20000,100,Zoe,3,none,398,5",
    ] * 20
    path.write_text("code,other_code,zip,age,name,long,mixed,icd,level\n" + "\n".join(body) + "\n")
    names = ["code", "other_code", "zip", "age", "name", "long", "mixed", "icd"]
    roles = {**dict.fromkeys(names, "other"), "level": "sensitive"}
    release = released(path, make_policy(roles, SURE), folder=tmp_path / "r", format=format)
    query = f"SELECT COUNT(*) FROM release WHERE {where}"
    if said is None:
        expected = {
            "zip < '10001'": 20,
            "icd >= '250' AND icd < '251'": 20,
            "code + 0 < other_code + 0": 40,
            "code < 42": 60,
            "name < 'M'": 20,
            "level > 2": 40,
        }
        assert release.sql(query).value[0] == pytest.approx(expected[where], abs=1e-3)
        return
    with pytest.raises(UsageError, match=said) as caught:
        release.sql(query)
    assert caught.value.hint


def test_t2_a_quoted_fraction_is_not_rounded_to_an_integer(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"age": pa.array([18, 19] * 30), "grade": ["a", "b"] * 30})
    release = released(table, make_policy({"age": "other", "grade": "sensitive"}, SURE), folder=tmp_path / "r")
    assert release.sql("SELECT COUNT(*) FROM release WHERE age > '18.5'").value.tolist() == [30]


def test_t2_a_manifest_without_numbers_is_as_before(tmp_path: Path) -> None:
    import pyarrow as pa

    table = pa.table({"age": pa.array([18, 19] * 30), "grade": ["1", "2"] * 30})
    release = released(table, make_policy({"age": "other", "grade": "sensitive"}, SURE), folder=tmp_path / "r")
    written = json.loads((release.folder / "manifest.json").read_text())
    assert all("holds" not in column for column in written["columns"])
