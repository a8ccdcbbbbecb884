"""Queries: answers equal a dense reference over the rows, in three truth values; only the release can be read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import binom
from typer.testing import CliRunner

from sfumato.analyst.answer import ALL
from sfumato.analyst.release import Release
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import scan
from sfumato.release import folder as reading
from sfumato.values.randomness import SecretKey
from tests.constants import set_constants
from tests.engines.tools import planned, released

JOBS = ["baker", "clerk", "cook", "driver", "farmer", None]
Row = dict[str, Any]
ROWS = 500


def people(rows: int = 1500) -> pa.Table:
    """Return a table with numbers, a weight, and missing values in every kind of column."""
    rng = np.random.default_rng(4)
    job = rng.choice(6, rows, p=[0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
    income = (1000 + 300 * job + rng.normal(0, 200, rows)).round(2)
    return pa.table(
        {
            "sex": rng.choice(np.array(["F", "M", None], dtype=object), rows, p=[0.5, 0.45, 0.05]).tolist(),
            "age": rng.integers(18, 80, rows).tolist(),
            "income": [None if k % 17 == 0 else float(x) for k, x in enumerate(income)],
            "w": rng.choice([1.0, 2.5, 4.0], rows).tolist(),
            "job": [JOBS[k] for k in job],
        }
    )


def policy(method: str = "uniform") -> Policy:
    more = "assurance = 'as-published'" if method == "small-domain" else ""
    columns = "\n".join(f"[columns.{c}]\nrole = 'other'\nmissing = 'category'" for c in ("sex", "age", "income", "w"))
    columns = columns.replace("[columns.income]", "[columns.income]\npublish_as_is = 'exact figures are asked for'")
    return Policy.parse(
        f"{columns}\n[columns.job]\nrole = 'sensitive'\nmissing = 'category'\n"
        f"[method]\nname = '{method}'\n{more}\n[requirement]\nrho1 = 0.32\nrho2 = 0.75"
    )


@pytest.fixture(scope="module", params=["uniform", "fine-grain"])  # sub-tables: test_sql_oracle
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp(request.param) / "r"
    return released(people(ROWS), policy(request.param), folder=folder, shuffle=False)


# --- the reference: every row by itself, with dense inverses ----------------------------------------------------------

Kleene = bool | None


def k_and(a: Kleene, b: Kleene) -> Kleene:
    return False if a is False or b is False else None if a is None or b is None else True


def k_not(a: Kleene) -> Kleene:
    return None if a is None else not a


def k_or(a: Kleene, b: Kleene) -> Kleene:
    return k_not(k_and(k_not(a), k_not(b)))


def equals(a: Any, b: Any) -> Kleene:
    return None if a is None else a == b


Test = Callable[[Row, Any], Kleene]
CONDITIONS: dict[str, Test] = {
    "": lambda row, job: True,
    "sex = 'F'": lambda row, job: equals(row["sex"], "F"),
    "job = 'cook'": lambda row, job: equals(job, "cook"),
    "job <> 'cook'": lambda row, job: k_not(equals(job, "cook")),
    "job IN ('cook', 'baker') AND age > 40": lambda row, job: k_and(
        k_or(equals(job, "cook"), equals(job, "baker")), row["age"] > 40
    ),
    "job IS NULL": lambda row, job: job is None,
    "NOT (job = 'cook' OR sex = 'M')": lambda row, job: k_not(k_or(equals(job, "cook"), equals(row["sex"], "M"))),
    "job = 'cook' OR sex = 'F'": lambda row, job: k_or(equals(job, "cook"), equals(row["sex"], "F")),
    "(sex = 'F' AND job = 'clerk') OR (age < 30 AND NOT job = 'baker')": lambda row, job: k_or(
        k_and(equals(row["sex"], "F"), equals(job, "clerk")), k_and(row["age"] < 30, k_not(equals(job, "baker")))
    ),
    "job LIKE 'c%'": lambda row, job: None if job is None else job.startswith("c"),
}


def reference(
    release: Release, by: list[str], test: Test, kind: str, weight: bool, target: str
) -> dict[tuple[Any, ...], tuple[float, float]]:
    """Return value and standard error of each group, row by row."""
    mechanism = release.manifest.mechanism_values[0]
    domain, rows = mechanism.domain, release.to_arrow().to_pylist()
    tables = [dict(zip(t.codes.tolist(), range(t.codes.size), strict=True)) for t in mechanism.tables]
    inverses = [np.linalg.inv(t.matrix.dense()) for t in mechanism.tables]
    x_name = "income" if kind in ("sum", "average") else None
    used = [row for row in rows if x_name is None or row[x_name] is not None]
    plain = [name for name in by if name != "job"]
    keys = sorted(
        {(*(row[n] for n in plain), job) for row in used for job in (domain.values if "job" in by else [None])}, key=str
    )
    found = {}
    linear: dict[tuple[Any, ...], list[np.ndarray[Any, Any]]] = {}
    for key in keys:
        terms = []  # of each row: z's own weight w, x, a, and a of the squares' floor
        for row in used:
            number = row.get("sub_table", 1) - 1
            mine = all(row[n] == v for n, v in zip(plain, key, strict=False))
            values = [domain.values[code] for code in tables[number]]
            meant = [mine and test(row, job) is True and ("job" not in by or job == key[-1]) for job in values]
            phi = np.array(meant, dtype=float)
            a = phi @ inverses[number]
            y = tables[number][domain.index[row["job"]]]
            terms.append((row["w"] if weight else 1.0, row[x_name] if x_name else 1.0, a[y]))
        linear[key] = list(np.array(terms).T)
    whole = sum(float((w * a).sum()) for w, _, a in linear.values())
    everything = sum(w * a for w, _, a in linear.values())
    n = release.manifest.data.rows
    for key, (w, x, a) in linear.items():
        if kind in ("count", "sum"):
            z = w * x
            value = float((z * a).sum())
            terms = (z**2 * (a**2 - a)).sum() if target == "table" else ((z * a) ** 2).sum() - value**2 / n
        elif kind == "average":
            whole_w = float((w * a).sum()) or np.nan  # no record can be meant: no average
            value = float((w * x * a).sum()) / whole_w
            z = w * (x - value) / whole_w
            terms = (z**2 * (a**2 - a)).sum() if target == "table" else ((z * a) ** 2).sum()
        else:
            value = float((w * a).sum()) / whole
            all_a = everything / w
            b = a - 2 * value * a + value**2 * all_a  # phi_g^2 - 2 s phi_g phi_S + s^2 phi_S^2, estimated
            terms = (w**2 * ((a - value * all_a) ** 2 - (b if target == "table" else 0))).sum() / whole**2
        scale = 1 if target == "table" else n / (n - 1)
        found[key if "job" in by else key[:-1]] = (value, float(np.sqrt(max(terms * scale, 0))))
    return found


FIGURES = {
    "count": "COUNT(*)",
    "sum": "SUM(income)",
    "average": "AVG(income)",
    "share": "COUNT(*) / SUM(COUNT(*)) OVER ()",
}


@pytest.mark.parametrize("kind", FIGURES)
@pytest.mark.parametrize("by", [[], ["sex"], ["job"], ["sex", "job"]], ids=lambda by: ",".join(by) or "all")
def test_answers_equal_the_reference(
    release: Release, kind: str, by: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every condition, with and without weights, for the table and for a population, to 1e-9; nothing below chance."""
    set_constants(monkeypatch, "sfumato.analyst", FEW=0)
    choices = itertools.cycle(itertools.product([False, True], ["table", "population"]))
    for condition, test in CONDITIONS.items():
        weight, target = next(choices)
        where = f"WHERE {condition}" if condition else ""
        groups = f"GROUP BY {', '.join(by)}" if by else ""
        text = f"SELECT {', '.join([*by, FIGURES[kind]])} FROM release {where} {groups}"
        answer = release.sql(text, weight="w" if weight else "", target=target)  # type: ignore[arg-type]
        expected = reference(release, by, test, kind, weight, target)
        assert answer.groups
        for group, value, error in zip(answer.groups, answer.value, answer.standard_error, strict=True):
            due = expected[group]
            if np.isnan(value):
                continue  # an average over an estimated number of records that is not positive
            assert value == pytest.approx(due[0], rel=1e-9, abs=1e-9), (condition, group)
            rounding = 1e-12 * (1 + value**2)
            assert error**2 == pytest.approx(due[1] ** 2, rel=1e-8, abs=rounding), (condition, group)


def test_errors_are_not_below_chance(release: Release) -> None:
    """A group of a few rows: a job that none of them publishes has an error, and all jobs together have none."""
    few = release.sql("SELECT job, COUNT(*) FROM release WHERE age = 42 GROUP BY job")
    assert (few.standard_error > 0).all()
    assert release.sql("SELECT COUNT(*) FROM release WHERE age = 42").standard_error.tolist() == pytest.approx(
        [0], abs=1e-6
    )
    same = release.count(by="job", where="age = 42")
    assert np.allclose(same.standard_error, few.standard_error)


def test_grouping_sets_are_what_their_sets_give(release: Release) -> None:
    cube = release.sql("SELECT sex, job, COUNT(*) FROM release GROUP BY CUBE(sex, job)")
    rows = dict(zip(cube.groups, cube.value, strict=True))
    assert rows[ALL, ALL] == pytest.approx(ROWS)
    by_job = release.sql("SELECT job, COUNT(*) FROM release GROUP BY job")
    for (job,), value in zip(by_job.groups, by_job.value, strict=True):
        assert rows[ALL, job] == pytest.approx(value)
    sets = release.sql("SELECT sex, job, COUNT(*) FROM release GROUP BY GROUPING SETS ((sex, job), (job), ())")
    assert set(sets.groups) == {g for g in cube.groups if g[0] != ALL or g[1] != ALL or g == (ALL, ALL)} - {
        g for g in cube.groups if g[0] != ALL and g[1] == ALL
    }
    rollup = release.sql("SELECT sex, job, COUNT(*) FROM release GROUP BY ROLLUP(sex, job)")
    assert {g for g in rollup.groups if g[0] == ALL} == {(ALL, ALL)}


def test_order_and_limit(release: Release) -> None:
    answer = release.sql("SELECT job, COUNT(*) AS n FROM release GROUP BY job ORDER BY n DESC LIMIT 3 OFFSET 1")
    everything = release.sql("SELECT job, COUNT(*) FROM release GROUP BY job")
    assert answer.value.tolist() == sorted(everything.value, reverse=True)[1:4]
    names = [g[0] for g in release.sql("SELECT job, COUNT(*) FROM release GROUP BY job ORDER BY job DESC").groups]
    assert names == ["farmer", "driver", "cook", "clerk", "baker", None]


@pytest.mark.parametrize("releases", [50, pytest.param(200, marks=pytest.mark.slow)])
def test_intervals_of_every_figure_cover(releases: int, tmp_path: Path) -> None:
    """Coverage of 95% intervals lies where Binomial(releases, 0.95) does, at a false alarm of 1e-6 each."""
    table, asked = people(), policy("fine-grain")
    opened = scan(table, asked)
    made = planned(opened, shuffle=False)
    truth = table.to_pylist()
    cooks = [r for r in truth if r["job"] == "cook"]
    known = [r["income"] for r in cooks if r["income"] is not None]
    due = {
        "SELECT COUNT(*) FROM release WHERE job = 'cook'": len(cooks),
        "SELECT SUM(income) FROM release WHERE job = 'cook'": sum(known),
        "SELECT AVG(income) FROM release WHERE job = 'cook'": sum(known) / len(known),
        "SELECT COUNT(*) FROM release WHERE job = 'cook' OR sex = 'F'": sum(
            r["job"] == "cook" or r["sex"] == "F" for r in truth
        ),
        "SELECT job, COUNT(*) / SUM(COUNT(*)) OVER () AS s FROM release WHERE job IN ('cook', 'clerk') GROUP BY job "
        "ORDER BY job DESC LIMIT 1": len(cooks) / sum(r["job"] in ("cook", "clerk") for r in truth),
    }
    hits = dict.fromkeys(due, 0)
    for seed in range(releases):
        release = publish(opened, made, tmp_path / f"r{seed}", key=SecretKey.from_seed(seed))
        for text, value in due.items():
            low, high = release.sql(text).interval()
            hits[text] += bool(low[0] <= value <= high[0])
    least, most = binom.ppf([5e-7, 1 - 5e-7], releases, 0.95)
    assert all(least <= count <= most for count in hits.values()), hits


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("SELECT MIN(age) FROM release", "MIN"),
        ("SELECT COUNT(DISTINCT age) FROM release", "DISTINCT"),
        ("SELECT DISTINCT sex FROM release", "DISTINCT"),
        ("SELECT COUNT(*) FROM release WHERE upper(job) = 'COOK'", "UPPER"),
        ("SELECT COUNT(*) FROM release a JOIN release b ON a.age = b.age", "JOIN "),
        ("SELECT COUNT(*) FROM release, release", "JOIN "),
        ("SELECT COUNT(*) FROM read_csv('/etc/passwd')", "READ_CSV"),
        ("SELECT COUNT(*) FROM '/etc/passwd'", "FROM release"),
        ("SELECT COUNT(*) FROM duckdb_settings()", "FROM release"),
        ("SELECT COUNT(*) FROM information_schema.release", "FROM release"),
        ("SELECT COUNT(*) FROM (SELECT * FROM release)", "sub-query"),
        ("SELECT COUNT(*) FROM release WHERE age IN (SELECT age FROM release)", "sub-query"),
        ("WITH t AS (SELECT 1) SELECT COUNT(*) FROM release", "WITH"),
        ("SELECT COUNT(*) FROM release UNION SELECT 1", "UNION"),
        ("SELECT COUNT(*) FROM release; DROP TABLE release", "2 statements"),
        ("ATTACH 'x.db'", "ATTACH"),
        ("SET threads = 1", "SET"),
        ("INSTALL httpfs", "one SELECT"),
        ("COPY release TO 'x.csv'", "COPY"),
        ("SELECT COUNT(*) FROM release HAVING COUNT(*) > 5", "HAVING"),
        ("SELECT MEDIAN(job) FILTER (WHERE age > 3) FROM release", "FILTER"),
        ("SELECT sex FROM release GROUP BY sex", "asks for a figure"),
        ("SELECT sex, COUNT(*) FROM release", "not grouped by"),
        ("SELECT COUNT(*) FROM release GROUP BY age / 10", "groups are columns"),
        ("SELECT COUNT(*) FROM release GROUP BY ALL", "leaves open"),
        ("SELECT SUM(job) FROM release", "'job' holds texts such as"),
        ("SELECT SUM(sex) FROM release", "hold no number"),
        ("SELECT AVG(ln(age)) FROM release", "LN is not allowed"),
        ("SELECT COUNT(*) FROM release WHERE job = sex", "with another one"),
        ("SELECT COUNT(*) FROM release WHERE wage > 3", "no column 'wage'"),
        ("SELECT COUNT(*) FROM release ORDER BY age", "ORDER BY age"),
        ("SELECT COUNT(*) FROM release LIMIT 2 + 3", "LIMIT takes a number"),
        ("SELECT COUNT(*) FROM release WHERE", "cannot be read"),
        ("", "one SELECT"),
        ("SELECT " + "(" * 3000 + "1" + ")" * 3000, "nested too deeply|cannot be read"),
        ("SELECT COUNT(*) FROM release WHERE getenv('HOME') = 'x'", "GETENV"),
        ("SELECT COUNT(*) FROM release USING SAMPLE 5", "SAMPLE"),
    ],
)
def test_what_cannot_be_corrected_is_refused_by_name(release: Release, text: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        release.sql(text)


def test_on_the_command_line(release: Release) -> None:
    run = CliRunner()
    text = "SELECT sex, AVG(income) AS mean FROM release WHERE job = 'cook' GROUP BY sex"
    result = run.invoke(app, ["estimate", str(release.folder), text, "--weight", "w", "--json"])
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)["rows"]
    assert [set(row) for row in rows] == [{"sex", "estimate", "standard_error", "lower", "upper"}] * 3
    for wrong in ([text, "--by", "sex"], ["--weight", "w"], [text, "--weight", "job"]):
        assert isinstance(run.invoke(app, ["estimate", str(release.folder), *wrong]).exception, UsageError)


def test_the_engine_itself_can_read_nothing_else(release: Release, tmp_path: Path) -> None:
    """Even if something of a query reached it: no other file, no setting."""
    (tmp_path / "other.csv").write_text("a\n1\n")
    with reading.connected(release) as connection:
        for text in (
            f"SELECT * FROM read_csv('{tmp_path / 'other.csv'}')",
            f"COPY release TO '{tmp_path / 'copy.csv'}'",
            f"ATTACH '{tmp_path / 'x.db'}'",
            "SET enable_external_access = true",
            "INSTALL httpfs",
        ):
            with pytest.raises(duckdb.Error):
                connection.sql(text).fetchall()
        assert connection.sql("SELECT count(*) FROM release").fetchall() == [(ROWS,)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.csv"]
