"""FILTER, CASE, expressions, sums and differences of figures: row by row, with dense inverses, and as other queries.

The reference is that of test_sql_oracle: a question is a number f[r, v] of each published row r and each value v. An
expression is worked out by Python for every row with every value; t_f[r] = sum_v f[r, v] A[v, y] estimates it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from sfumato.publisher.policy import Policy
from tests.analyst.test_sql import people, policy
from tests.constants import set_constants
from tests.engines.tools import released

Row = dict[str, Any]
Worked = Callable[[Row, Any], float | None]
TARGETS = ["table", "population"]


@pytest.fixture(autouse=True)
def no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare values count in variances for what is due by chance; the reference has no such floor."""
    set_constants(monkeypatch, "sfumato.analyst", FEW=0)


@pytest.fixture(scope="module", params=["uniform", "fine-grain", "small-domain"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(people(300), policy(request.param), folder=tmp_path_factory.mktemp(request.param) / "r")


class Reference:
    """What each row adds, by dense inverses."""

    def __init__(self, release: Release, target: str) -> None:
        mechanism = release.manifest.mechanism_values[0]
        self.rows, self.target = release.to_arrow().to_pylist(), target
        self.values = [[mechanism.domain.values[code] for code in t.codes.tolist()] for t in mechanism.tables]
        self.inverses = [np.linalg.inv(t.matrix.dense()) for t in mechanism.tables]

    def adds(self, worked: Worked) -> Any:
        """t_f[r] of a question."""
        told = []
        for row in self.rows:
            number = row.get("sub_table", 1) - 1
            f = np.array([worked(row, value) or 0.0 for value in self.values[number]])
            told.append(f @ self.inverses[number][:, self.values[number].index(row["job"])])
        return np.array(told)

    def covariance(self, f: Worked, g: Worked) -> float:
        one, other = self.adds(f), self.adds(g)
        if self.target == "table":
            both = self.adds(lambda row, job: (f(row, job) or 0.0) * (g(row, job) or 0.0))
            return float((one * other - both).sum())
        n = len(self.rows)
        return float(n / (n - 1) * ((one * other).sum() - one.sum() * other.sum() / n))

    def total(self, f: Worked) -> tuple[float, float]:
        return float(self.adds(f).sum()), max(self.covariance(f, f), 0) ** 0.5

    def quotient(self, f: Worked, g: Worked) -> tuple[float, float]:
        top, bottom = self.adds(f).sum(), self.adds(g).sum()
        r = top / bottom

        def linear(row: Row, job: Any) -> float:
            return (f(row, job) or 0.0) - r * (g(row, job) or 0.0)

        return float(r), max(self.covariance(linear, linear), 0) ** 0.5 / float(bottom)


def known(worked: Worked) -> Worked:
    return lambda row, job: float(worked(row, job) is not None)


def income(row: Row, job: Any) -> float | None:
    return row["income"]


TOTALS: dict[str, Worked] = {
    "COUNT(*) FILTER (WHERE age > 40)": lambda row, job: float(row["age"] > 40),
    "COUNT_IF(job = 'cook')": lambda row, job: float(job == "cook"),
    "COUNT(*) FILTER (WHERE job IN ('cook', 'clerk') AND sex = 'F')": lambda row, job: float(
        job in ("cook", "clerk") and row["sex"] == "F"
    ),
    "COUNT(income) FILTER (WHERE job = 'baker')": lambda row, job: float(row["income"] is not None and job == "baker"),
    "SUM(income) FILTER (WHERE job = 'cook')": lambda row, job: row["income"] if job == "cook" else 0.0,
    "SUM(age * 2 + 1)": lambda row, job: 2 * row["age"] + 1,
    "SUM(income / age)": lambda row, job: None if row["income"] is None else row["income"] / row["age"],
    "SUM(CASE WHEN sex = 'F' THEN income ELSE 0 END)": lambda row, job: row["income"] if row["sex"] == "F" else 0.0,
    "SUM(CASE sex WHEN 'F' THEN 1 WHEN 'M' THEN -1 ELSE 0 END)": lambda row, job: {"F": 1, "M": -1}.get(row["sex"], 0),
    "SUM(CASE WHEN job = 'cook' THEN 2 WHEN job = 'clerk' THEN -0.5 END)": lambda row, job: {
        "cook": 2,
        "clerk": -0.5,
    }.get(job),
    "SUM(CASE WHEN job = 'cook' AND sex = 'M' THEN income ELSE 0 END)": lambda row, job: (
        row["income"] if job == "cook" and row["sex"] == "M" else 0.0
    ),
    "SUM(age * CASE WHEN job LIKE 'c%' THEN 1 ELSE 0 END)": lambda row, job: row["age"] * float((job or "")[:1] == "c"),
    "SUM(job = 'cook')": lambda row, job: None if job is None else float(job == "cook"),
    "SUM(COALESCE(income, 100))": lambda row, job: 100.0 if row["income"] is None else row["income"],
    "COUNT(*) FILTER (WHERE job = 'cook') - COUNT(*) FILTER (WHERE job = 'clerk')": lambda row, job: (
        float(job == "cook") - float(job == "clerk")
    ),
    "2 * (SUM(age) - 3 * COUNT(*)) / 4 + COUNT(*) FILTER (WHERE sex IS NULL)": lambda row, job: (
        (row["age"] - 3) / 2 + float(row["sex"] is None)
    ),
    "-COUNT(*) FILTER (WHERE job IS DISTINCT FROM 'cook')": lambda row, job: -float(job != "cook"),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", TOTALS)
def test_totals_equal_the_reference(release: Release, text: str, target: Any) -> None:
    answer = release.sql(f"SELECT {text} AS figure FROM release", target=target)
    value, error = Reference(release, target).total(TOTALS[text])
    assert answer.value[0] == pytest.approx(value, rel=1e-9, abs=1e-9)
    assert answer.standard_error[0] == pytest.approx(error, rel=1e-6, abs=1e-5)


AVERAGES: dict[str, tuple[Worked, Worked]] = {
    "AVG(income) FILTER (WHERE job = 'cook')": (
        lambda row, job: row["income"] if job == "cook" else 0.0,
        lambda row, job: float(job == "cook" and row["income"] is not None),
    ),
    "AVG(CASE WHEN job IN ('cook', 'clerk') THEN 1 ELSE 0 END)": (
        lambda row, job: float(job in ("cook", "clerk")),
        lambda row, job: 1.0,
    ),
    "AVG(CASE WHEN job = 'cook' THEN income END)": (
        lambda row, job: row["income"] if job == "cook" else 0.0,
        lambda row, job: float(job == "cook" and row["income"] is not None),
    ),
    "AVG(income * 12)": (
        lambda row, job: None if row["income"] is None else 12 * row["income"],
        known(income),
    ),
    "100 * COUNT(*) FILTER (WHERE job = 'cook') / COUNT(*)": (
        lambda row, job: 100 * float(job == "cook"),
        lambda row, job: 1.0,
    ),
}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", AVERAGES)
def test_averages_equal_the_reference(release: Release, text: str, target: Any) -> None:
    answer = release.sql(f"SELECT {text} AS figure FROM release", target=target)
    value, error = Reference(release, target).quotient(*AVERAGES[text])
    assert answer.value[0] == pytest.approx(value, rel=1e-9)
    assert answer.standard_error[0] == pytest.approx(error, rel=1e-6, abs=1e-5)  # 0 is a difference of large numbers


@pytest.mark.parametrize("target", TARGETS)
def test_a_difference_of_averages_has_the_error_of_its_linear_part(release: Release, target: Any) -> None:
    cook, clerk = "AVG(income) FILTER (WHERE job = 'cook')", "AVG(income) FILTER (WHERE job = 'clerk')"
    answer = release.sql(f"SELECT {cook} - {clerk} AS gap FROM release", target=target)
    reference = Reference(release, target)
    totals, shares = [], []
    for name in ("cook", "clerk"):
        totals.append(
            reference.adds(lambda row, job, name=name: float(job == name and row["income"] is not None)).sum()
        )
        shares.append(reference.adds(lambda row, job, name=name: row["income"] if job == name else 0.0).sum())
    means = [top / bottom for top, bottom in zip(shares, totals, strict=True)]

    def linear(row: Row, job: Any) -> float:
        if row["income"] is None or job not in ("cook", "clerk"):
            return 0.0
        k = int(job == "clerk")
        return (1 - 2 * k) * (row["income"] - means[k]) / totals[k]

    assert answer.value[0] == pytest.approx(means[0] - means[1])
    assert answer.standard_error[0] == pytest.approx(reference.covariance(linear, linear) ** 0.5, rel=1e-6)
    assert any("linear part" in note for note in answer.notes)


def test_groups_and_figures_in_one_query(release: Release) -> None:
    """The prevalence of a set by stratum."""
    figure = "COUNT(*) FILTER (WHERE job IN ('cook', 'clerk')) / COUNT(*)"
    answer = release.sql(f"SELECT sex, {figure} AS prevalence, COUNT(*) AS n FROM release GROUP BY sex")
    alone = release.sql("SELECT sex, COUNT(*) FROM release WHERE job IN ('cook', 'clerk') GROUP BY sex")
    assert answer.value[::2] == pytest.approx(alone.value / answer.value[1::2])
    assert answer.standard_error[::2] == pytest.approx(alone.standard_error / answer.value[1::2])


@pytest.mark.parametrize("condition", ["job = 'cook'", "age > 40", "sex = 'F' AND job <> 'cook'"])
def test_filter_is_where(release: Release, condition: str) -> None:
    inside = release.sql(f"SELECT SUM(age) FILTER (WHERE {condition}) FROM release", weight="w")
    outside = release.sql(f"SELECT SUM(age) FROM release WHERE {condition}", weight="w")
    assert inside.value == pytest.approx(outside.value)
    assert inside.standard_error == pytest.approx(outside.standard_error)


PLAIN = "SELECT sex, COUNT(*) FROM release WHERE {} GROUP BY sex"


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("SELECT Sex, count(*) FROM RELEASE where AGE > 40 group by SEX", PLAIN.format("age > 40")),
        (
            "SELECT r.sex, COUNT(*) FROM release AS r WHERE r.job = 'cook' GROUP BY r.sex",
            PLAIN.format("job = 'cook'"),
        ),
        (
            "SELECT AVG(release.Income) FROM release WHERE release.age < 50",
            "SELECT AVG(income) FROM release WHERE age < 50",
        ),
        (PLAIN.format("sex IS NOT DISTINCT FROM 'F'"), PLAIN.format("sex = 'F'")),
    ],
)
def test_names_are_taken_as_sql_takes_them(release: Release, query: str, same: str) -> None:
    assert release.sql(query).to_arrow() == release.sql(same).to_arrow()


def test_conditions_elsewhere_take_names_alike(release: Release) -> None:
    assert release.count(by="job", where="release.AGE > 40").to_arrow() == release.count("job", "age > 40").to_arrow()
    one = release.risks("JOB = 'cook'", "Sex = 'F'")
    assert one.to_arrow() == release.risks("job = 'cook'", "sex = 'F'").to_arrow()


def test_dates_are_written_as_dates(tmp_path: Path) -> None:
    days = [dt.date(2024, 1, 1) + dt.timedelta(days=k % 90) for k in range(200)]
    table = pa.table({"day": days, "job": [("a", "b", "c")[k % 3] for k in range(200)]})
    stated = Policy.parse(
        "[columns.day]\nrole = 'other'\npublish_as_is = 'made up'\n[columns.job]\nrole = 'sensitive'\n"
        "[method]\nname = 'uniform'\n[requirement]\ngamma = 4"
    )
    release = released(table, stated, folder=tmp_path / "r")
    answer = release.sql("SELECT COUNT(*) FROM release WHERE day >= DATE '2024-02-01' AND day < TIMESTAMP '2024-03-01'")
    assert answer.value[0] == sum(dt.date(2024, 2, 1) <= day < dt.date(2024, 3, 1) for day in days)


@pytest.mark.parametrize(
    ("text", "complaint", "remedy"),
    [
        ("SUM(age + CASE WHEN job = 'cook' THEN 1 ELSE 0 END)", "mixes columns", "product"),
        ("SUM(CASE WHEN job = 'cook' THEN age ELSE income END)", "mixes columns", "FILTER"),
        ("COUNT(*) FILTER (WHERE job = 'cook' OR age > 40)", "by OR or NOT", "WHERE"),
        ("AVG(CASE WHEN job = 'cook' THEN income ELSE 0 END)", "ELSE 0", "COUNT"),
        ("SUM(getenv('HOME'))", "GETENV", "CASE WHEN"),
        ("SUM('x')", "is a text", "number"),
        ("SUM(sex * 2)", "hold no number", "column of numbers"),
        ("COUNT(*) FILTER (WHERE wage > 3)", "no column 'wage'", "age"),
        ("MEDIAN(age) - COUNT(*)", "MEDIAN|median", "COUNT"),
        ("COUNT(*) / SUM(COUNT(*)) OVER () - COUNT(*)", "cannot be added", "one by one"),
        ("COUNT(*) + 5", "cannot be corrected", "COUNT"),
        ("SUM((SELECT 1))", "sub-query", "SELECT"),
        ("COUNT(*) FILTER (WHERE job = 'a|b' AND getenv('X') = 'y')", "GETENV", "condition"),
    ],
)
def test_what_does_not_fall_apart_is_refused(release: Release, text: str, complaint: str, remedy: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        release.sql(f"SELECT {text} AS figure FROM release")
    assert remedy in (refused.value.hint or "")


def test_a_value_that_does_not_exist_is_told(release: Release) -> None:
    answer = release.sql("SELECT COUNT(*) FILTER (WHERE job = 'cok') FROM release")
    assert any("'cok' is no value" in note for note in answer.notes)
