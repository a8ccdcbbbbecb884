"""Every answer of the analyst's side, written down once more: row by row, with dense inverses, to 1e-9.

The reference knows one thing. A *question* is a number f[r, v] for each published row r and each value v of the domain:
what record r adds if its true value is v. Counts, sums, the totals below shares, cells of a table and of a comparison
of risks are all questions. With A the dense inverse of the matrix of the row's sub-table and y the published value,

    what a row adds    t_f[r] = sum_v f[r, v] A[v, y]             E[t_f[r]] = f[r, x], x the true value
    estimate           F = sum_r t_f[r]
    given the table    Cov[F, G] = sum_r (t_f[r] t_g[r] - t_fg[r])
    in a population    Cov[F, G] = n/(n - 1) (sum_r t_f[r] t_g[r] - F G/n)

and a quotient F/G has the error of (F - (F/G) G)/G, and the interval of Fieller. Nothing is grouped, summed or skipped
before it is multiplied; the matrices come from the manifest's integers, the rows from the file by pyarrow.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import chain, combinations, product
from math import isclose
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.release import Release
from sfumato.publisher.policy import Policy
from tests.constants import constant, set_constants
from tests.engines.tools import released

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Row = dict[str, Any]
Kleene = bool | None
Z = NormalDist().inv_cdf(0.975)
ROWS, TARGETS = 84, ["table", "population"]


# --- releases with missing values in every column ---------------------------------------------------------------------

JOBS = ["baker", "clerk", "cook", "driver", "nurse", "potter", "smith", "tailor", "weaver", None]
PAIRS = [(job, ill) for job in ("baker", "clerk", "cook", None) for ill in (False, True, None)]
EXAMPLE_1 = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])  # SDR: two sub-tables for rho1 = 1/3 and rho2 = 2/3


def table(sub_tables: bool, compound: bool) -> pa.Table:
    rng = np.random.default_rng(12)
    secret = PAIRS if compound else [(job,) for job in (JOBS if sub_tables else JOBS[::2] + JOBS[-1:])]
    counts = EXAMPLE_1 if sub_tables else rng.permutation(10)[: len(secret)] + 3
    value = rng.permutation(np.resize(np.repeat(np.arange(counts.size), counts), ROWS))

    def column(values: Any, missing: float = 0.08) -> list[Any]:
        return [None if rng.random() < missing else value for value in np.asarray(values).tolist()]

    columns = {
        "sex": column(rng.choice(["F", "M"], ROWS)),
        "region": column(rng.choice([1, 2, 3], ROWS, p=[0.5, 0.3, 0.2])),
        "age": column(rng.integers(18, 80, ROWS)),
        "income": column(rng.normal(500, 700, ROWS).round(2)),
        "hours": column(rng.integers(1, 60, ROWS)),
        "w": column(rng.choice([0.5, 1.0, 2.5], ROWS), 0),  # missing weights are refused
        "job": [secret[k][0] for k in value],
        "ill": [secret[k][1] for k in value] if compound else column(rng.random(ROWS) < 0.4),
    }
    return pa.table(columns)


def policy(method: str, compound: bool) -> Policy:
    sensitive = ("job", "ill") if compound else ("job",)
    roles = {name: "sensitive" if name in sensitive else "other" for name in table(False, False).column_names}
    columns = "\n".join(f"[columns.{name}]\nrole = '{role}'\nmissing = 'category'" for name, role in roles.items())
    for name in ("age", "income", "hours"):
        columns = columns.replace(
            f"[columns.{name}]", f"[columns.{name}]\npublish_as_is = 'exact figures are asked for'"
        )
    assurance = "as-published" if method == "small-domain" else "proved"
    smith = "[[requirement.values]]\nvalue = 'smith'\nrho1 = 0.2\nrho2 = 0.4" if method == "fine-grain" else ""
    asked = f"[method]\nname = '{method}'\nassurance = '{assurance}'\n[requirement]\nrho1 = '1/3'\nrho2 = '2/3'"
    return Policy.parse("\n".join([columns, asked, smith]))


@pytest.fixture(scope="module", params=["uniform", "fine-grain", "small-domain", "uniform, two", "small-domain, two"])
def dense(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Dense:
    """Give a release; "two" of its columns are randomized as one. Small domains must have several sub-tables."""
    method, _, compound = request.param.partition(", ")
    made, folder = policy(method, bool(compound)), tmp_path_factory.mktemp("oracle") / "r"
    dense = Dense(released(table(method == "small-domain", bool(compound)), made, folder=folder, shuffle=False))
    assert (len(dense.inverses) > 1) == (method == "small-domain")
    assert (len({*np.diag(dense.inverses[0]).round(9)} - {0}) > 1) == (method == "fine-grain")
    return dense


@pytest.fixture(autouse=True)
def no_floor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the floor of small counts, but for the test of its own."""
    if "chance" not in request.function.__name__:
        set_constants(monkeypatch, "sfumato.analyst", FEW=0)


# --- the reference ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Claim:
    """A condition in SQL, and its truth for a record, by SQL's three truth values."""

    sql: str
    truth: Callable[[Row], Kleene]

    def __and__(self, other: Claim) -> Claim:
        return Claim(f"({self.sql} AND {other.sql})", lambda row: decided(False, self.truth(row), other.truth(row)))

    def __or__(self, other: Claim) -> Claim:
        return Claim(f"({self.sql} OR {other.sql})", lambda row: decided(True, self.truth(row), other.truth(row)))

    def __invert__(self) -> Claim:
        return Claim(f"NOT ({self.sql})", lambda row: None if (t := self.truth(row)) is None else not t)


def decided(by: bool, a: Kleene, b: Kleene) -> Kleene:
    """Return the truth of a AND b, which False decides, or of a OR b, which True decides."""
    return by if a is by or b is by else None if a is None or b is None else not by


def known(name: str, sql: str, truth: Callable[[Any], bool]) -> Claim:
    return Claim(sql, lambda row: None if row[name] is None else truth(row[name]))


ALL = Claim("TRUE", lambda row: True)
WOMAN = known("sex", "sex = 'F'", lambda v: v == "F")
OLD = known("age", "age BETWEEN 40 AND 70", lambda v: 40 <= v <= 70)
SOUTH = known("region", "region IN (1, 3)", lambda v: v in (1, 3))
POOR = known("income", "income < -100.5", lambda v: v < -100.5)
NO_HOURS = Claim("hours IS NULL", lambda row: row["hours"] is None)
COOK = known("job", "job = 'cook'", lambda v: v == "cook")
NOT_BAKER = known("job", "job <> 'baker'", lambda v: v != "baker")
C_OR_SMITH = known("job", "job IN ('clerk', 'cook', 'smith')", lambda v: v in ("clerk", "cook", "smith"))
JOBLESS = Claim("job IS NULL", lambda row: row["job"] is None)
ILL = known("ill", "ill = TRUE", lambda v: v)
TESTS = [WOMAN, OLD, SOUTH, POOR, NO_HOURS, COOK, NOT_BAKER, C_OR_SMITH, JOBLESS, ILL]
CONDITIONS = [
    ALL, WOMAN & (OLD | ~SOUTH), COOK | JOBLESS, ~C_OR_SMITH, WOMAN & NOT_BAKER, WOMAN | COOK,
    (~(WOMAN & COOK) | POOR) & (OLD | ~NOT_BAKER), ~((COOK | ILL) & ~(SOUTH & JOBLESS)) | NO_HOURS, COOK & JOBLESS,
]  # fmt: skip


class Dense:
    """A release as rows and dense matrices."""

    def __init__(self, release: Release) -> None:
        self.release = release
        mechanism = json.loads((release.folder / "manifest.json").read_text())["mechanisms"][0]
        self.names = [part["name"] for part in mechanism["domain"]]
        self.values = list(product(*(part["values"] for part in mechanism["domain"])))
        self.inverses = [self._inverse(part) for part in mechanism["sub_tables"]]
        self.rows, self.n = pq.read_table(release.data).to_pylist(), release.manifest.data.rows

    def _inverse(self, part: dict[str, Any]) -> Array:
        """Return the inverse of a sub-table's matrix, with zeros for the values that it has not."""
        own = part["values"] or range(len(self.values))
        if "blocks" in part:  # weights[b][a] for each value of class b, of one of class a
            classes, weights = part["blocks"]["classes"], part["blocks"]["weights"]
            matrix = np.array([[int(weights[b][a]) / 2**64 for a in classes] for b in classes])
            matrix += np.diag(1 - matrix.sum(axis=0))  # what is left stays
        else:
            noise = np.broadcast_to([int(w) / 2**64 for w in part["noise"]["weights"]], len(own))
            matrix = np.tile(noise, (len(own), 1)) + np.diag(1 - len(own) * noise)
        inverse = np.zeros((len(self.values), len(self.values)))
        inverse[np.ix_(own, own)] = np.linalg.inv(matrix)
        return inverse

    @cached_property
    def weights(self) -> Array:
        """A[v, y] for the published value y of each row, [rows, values]."""
        published = [self.values.index(tuple(row[name] for name in self.names)) for row in self.rows]
        tables = [row.get("sub_table", 1) - 1 for row in self.rows]
        return np.array([self.inverses[t][:, y] for t, y in zip(tables, published, strict=True)])

    @cached_property
    def records(self) -> list[list[Row]]:
        """What each record is if its true value is v, [rows, values]."""
        return [[row | dict(zip(self.names, v, strict=True)) for v in self.values] for row in self.rows]

    def meant(self, test: Claim) -> Mask:
        """Return whether a test is true (not unknown) of each record, [rows, values]."""
        return np.array([[test.truth(record) is True for record in records] for records in self.records])

    def group(self, group: Row) -> Mask:
        inside: Mask = np.all([np.full(self.weights.shape, True), *map(self._has, group.items())], axis=0)
        return inside

    @cache  # noqa: B019
    def _has(self, pair: tuple[str, Any]) -> Mask:
        return np.array([[record[pair[0]] == pair[1] for record in records] for records in self.records])

    def groups(self, by: tuple[str, ...], *more: str) -> list[tuple[Any, ...]]:
        """Return all combinations of the values that published rows (or the domains) have, and of more."""
        parts = {name: [*dict.fromkeys(row[name] for row in self.rows)] for name in by}
        parts |= {name: [*dict.fromkeys(v[k] for v in self.values)] for k, name in enumerate(self.names)}
        return list(product(*([*parts[name], *more] for name in by)))

    def total(self, f: Array) -> float:
        return float((f * self.weights).sum())

    def covariance(self, f: Array, g: Array, target: str) -> float:
        t, u = (f * self.weights).sum(axis=1), (g * self.weights).sum(axis=1)
        if target == "table":
            return float((t * u).sum() - self.total(f * g))
        return float(((t * u).sum() - t.sum() * u.sum() / self.n) * self.n / (self.n - 1))

    def error(self, f: Array, target: str) -> float:
        return float(np.sqrt(max(self.covariance(f, f, target), 0)))

    def size(self, f: Array) -> float:
        """Return the size of what is added up, and may cancel, in the error of a question."""
        return float(np.linalg.norm(f) * abs(self.weights).max())


# --- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Figure:
    """A figure in SQL: top, a column that is summed or (with a mark) counted; bottom likewise, or a partition."""

    sql: str
    top: str
    bottom: str = ""
    partition: tuple[str, ...] | None = None
    factor: float = 1.0


FIGURES = [
    Figure("COUNT(*)", "*"), Figure("COUNT(income)", "known income"), Figure("SUM(income)", "income"),
    Figure("AVG(income)", "income", "known income"), Figure("SUM(income) / SUM(hours)", "income", "hours"),
    Figure("COUNT(hours) / COUNT(*)", "known hours", "*"), Figure("0.5 * COUNT(*)", "*", factor=0.5),
    Figure("100 * AVG(hours)", "hours", "known hours", factor=100),
    Figure("3 * SUM(income) / (COUNT(hours) * 2)", "income", "known hours", factor=1.5),
]  # fmt: skip


def shares(by: tuple[str, ...]) -> list[Figure]:
    """Return shares of the whole and of every part by columns of the group: untouched, randomized, both."""
    parts = chain.from_iterable(combinations(by, size) for size in range(len(by) + 1))
    return [
        Figure(f"100 * {top} / SUM({top}) OVER ({within})", number, partition=part, factor=100)
        for part in parts
        for within in [f"PARTITION BY {', '.join(part)}" if part else ""]
        for top, number in (("COUNT(*)", "*"), ("SUM(hours)", "hours"))
    ]


@cache
def numbers_of(dense: Dense, name: str, weight: str) -> Array:
    """Return the number of each row, [rows, 1]: 0 where a factor is missing."""
    column = name.removeprefix("known ")

    def number(row: Row) -> float:
        own = 1.0 if name == "*" else row[column] if column == name else float(row[column] is not None)
        return (own or 0.0) * (row[weight] or 0.0 if weight else 1.0)

    return np.array([[number(row)] for row in dense.rows])


@dataclass(frozen=True)
class Due:
    """What the reference says of a figure; `size` is that of what may cancel in its error."""

    estimate: float
    error: float
    ends: tuple[float, float]
    size: float
    bottom: float = 1.0


def due(dense: Dense, figure: Figure, group: Mask, part: Mask, weight: str, target: str) -> Due:
    """Return a figure of the records of `group`; the bottom of a share is the total of `part`."""
    top = figure.factor * numbers_of(dense, figure.top, weight) * group
    total, error = dense.total(top), dense.error(top, target)
    if not figure.bottom and figure.partition is None:
        return Due(total, error, (total - Z * error, total + Z * error), dense.size(top))
    bottom = numbers_of(dense, figure.bottom or figure.top, weight) * (group if figure.bottom else part)
    whole = dense.total(bottom)
    if whole <= 0:
        return Due(np.nan, np.nan, (-np.inf, np.inf), 0, whole)
    line, value = top - total / whole * bottom, total / whole
    error, size = dense.error(line, target) / whole, (dense.size(top) + dense.size(value * bottom)) / whole
    return Due(value, error, fieller(dense, value, line, bottom, target), size, whole)


def fieller(dense: Dense, value: float, line: Array, bottom: Array, target: str) -> tuple[float, float]:
    """Return the r = value + d for which top - r bottom = line - d bottom is Z of its standard errors."""
    a = dense.total(bottom) ** 2 - Z**2 * dense.covariance(bottom, bottom, target)
    b, c = Z**2 * dense.covariance(line, bottom, target), -(Z**2) * dense.error(line, target) ** 2
    root = np.sqrt(max(b**2 - a * c, 0))
    return (value + (-b - root) / a, value + (-b + root) / a) if a > 0 else (-np.inf, np.inf)


def check(got: dict[str, float], expected: Due, about: Any) -> None:
    if np.isnan(expected.estimate) or abs(expected.bottom) < 1e-9:  # whether 0 is above 0 is a matter of rounding
        assert np.isnan(got["estimate"]) or abs(expected.bottom) < 1e-9, about
        return
    size, about = expected.size, (about, got, expected)
    slack = 1e-12 * size**2 / max(expected.error, 1e-6 * size, 1e-300)  # an error's, where its square has 1e-13 size^2
    assert isclose(got["estimate"], expected.estimate, rel_tol=1e-9, abs_tol=1e-12 * size), about
    assert isclose(got["standard_error"] ** 2, expected.error**2, rel_tol=1e-9, abs_tol=1e-13 * size**2), about
    for end, due in zip(("lower", "upper"), expected.ends, strict=True):
        assert isclose(got[end], due, rel_tol=1e-9, abs_tol=slack), about


# --- queries ----------------------------------------------------------------------------------------------------------


def ask_and_check(
    dense: Dense, by: tuple[str, ...], asked: list[Figure], where: Claim, weight: str, target: Any, cube: bool = False
) -> None:
    """Ask for all figures in one query; groups that are not shown have a count of 0 without error."""
    names = [f"f{k}" for k in range(len(asked))]
    select = [*by, *(f"{figure.sql} AS {name}" for figure, name in zip(asked, names, strict=True))]
    groups = f"GROUP BY {'CUBE' if cube else ''} ({', '.join(by)})" if by else ""
    text = f"SELECT {', '.join(select)} FROM release WHERE {where.sql} {groups}"
    answer = dense.release.sql(text, weight=weight, target=target)
    keys = answer.groups if len(asked) > 1 else [(*group, names[0]) for group in answer.groups]
    numbers = [dict(zip(answer.numbers(), each, strict=True)) for each in zip(*answer.numbers().values(), strict=True)]
    found, meant = dict(zip(keys, numbers, strict=True)), dense.meant(where)
    assert len(found) == len(keys)
    for group in dense.groups(by, *["(all)"] * cube):
        own = {name: value for name, value in zip(by, group, strict=True) if value != "(all)"}
        inside = meant & dense.group(own)
        for figure, name in zip(asked, names, strict=True):
            part = meant & dense.group({n: v for n, v in own.items() if n in (figure.partition or ())})
            expected = due(dense, figure, inside, part, weight, target)
            got = found.pop((*group, name), None)
            if got is not None:
                check(got, expected, (text, group, figure.sql))
            elif figure.sql == "COUNT(*)":
                assert (expected.estimate, expected.error) == (0, 0), (text, group)
    assert not found


BY = [(), ("sex",), ("job",), ("sex", "job"), ("job", "ill"), ("region", "ill", "job")]


@pytest.mark.parametrize("by", BY, ids=lambda by: ",".join(by) or "all")
def test_queries_with_several_figures(dense: Dense, by: tuple[str, ...]) -> None:
    """Conditions, weights and targets in turn: counts, sums, averages, ratios, factors, shares."""
    asked, step = [*FIGURES, *shares(by)], 1 if len(by) < 2 else 4
    for k, where in list(enumerate(CONDITIONS))[len(by) % 2 :: 2]:
        ask_and_check(dense, by, asked[k % step :: step], where, ("", "w")[k // 2 % 2], TARGETS[k // 4 % 2])


@pytest.mark.parametrize("target", TARGETS)
def test_grouping_sets(dense: Dense, target: str) -> None:
    ask_and_check(dense, ("sex", "job"), FIGURES[::3], CONDITIONS[6], "w", target, cube=True)


def test_random_conditions(dense: Dense) -> None:
    """Trees of AND, OR and NOT over untouched and randomized columns."""
    rng = np.random.default_rng(5)

    def tree(depth: int) -> Claim:
        if depth == 0:
            return TESTS[rng.integers(len(TESTS))]
        kind, left = rng.integers(3), tree(depth - 1)
        return ~left if kind == 0 else left & tree(depth - 1) if kind == 1 else left | tree(depth - 1)

    for k in range(12):
        ask_and_check(dense, BY[k % 4], [FIGURES[k % len(FIGURES)]], tree(3), ("", "w")[k % 2], TARGETS[k // 2 % 2])


# --- tables and risks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("by", [("job",), ("sex", "job"), ("ill", "region", "job")], ids=",".join)
def test_tables_with_their_full_covariance(dense: Dense, by: tuple[str, ...], target: Any) -> None:
    where = OLD & ~WOMAN if len(by) == 3 and "ill" not in dense.names else ALL
    found = dense.release.table(by, where.sql, target=target)
    cells, meant = list(product(*(axis.values for axis in found.axes))), dense.meant(where)
    asked = [(meant & dense.group(dict(zip(by, cell, strict=True)))).astype(np.float64) for cell in cells]
    covariance = np.array([[dense.covariance(f, g, target) for g in asked] for f in asked])
    assert np.allclose(found.value.ravel(), [dense.total(f) for f in asked], rtol=1e-9, atol=1e-9)
    assert np.allclose(found.covariance(), covariance, rtol=1e-9, atol=1e-9)
    assert np.allclose(found.standard_error.ravel() ** 2, np.diag(covariance), rtol=1e-9, atol=1e-9)
    chosen = [row for row in dense.rows if where.truth(row) is True]
    assert found.published.ravel().tolist() == [sum(tuple(r[n] for n in by) == cell for r in chosen) for cell in cells]
    assert not any((meant & dense.group(dict(zip(by, g, strict=True)))).any() for g in {*dense.groups(by)} - {*cells})


RISKS = [
    (WOMAN, COOK, ALL),
    (C_OR_SMITH, OLD, ~POOR),
    (WOMAN | COOK, NOT_BAKER, SOUTH | ILL),
    (ILL, ~COOK, OLD & WOMAN),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("asked", RISKS, ids=["untouched", "randomized", "mixed", "where"])
def test_risks(dense: Dense, asked: tuple[Claim, Claim, Claim], target: Any) -> None:
    """The four cells and their covariance are seen through the five measures, by the delta method."""
    exposed, outcome, where = asked
    parts = [exposed & outcome, exposed & ~outcome, ~exposed & outcome, ~exposed & ~outcome]
    cells = [dense.meant(where & part).astype(np.float64) for part in parts]
    a, b, c, d = x = np.array([dense.total(cell) for cell in cells])
    naive = np.array([sum((where & part).truth(row) is True for row in dense.rows) for part in parts])
    spread = np.array([[dense.covariance(f, g, target) for g in cells] for f in cells])
    found = dense.release.risks(exposed.sql, outcome.sql, where.sql, target=target)
    needed = [min(a + b, c + d), min(a, c, a + b, c + d), min(a, b, c, d), a + b, c + d]  # must be positive
    for k, (got, least) in enumerate(zip(found.measures, needed, strict=True)):
        assert np.isnan(got.naive) or got.naive == pytest.approx(_measures(naive)[k], rel=1e-9)
        if least <= 0:
            assert np.isnan(got.estimate)
        elif k in (1, 2) or (abs(_measures(x)[k]) < 1 and (k == 0 or _measures(x)[k] > 0)):  # else an end is taken
            gradient = np.array([_measures(x + 1e-30j * unit)[k].imag / 1e-30 for unit in np.eye(4)])  # exactly
            assert got.estimate == pytest.approx(_measures(x)[k], rel=1e-9)
            assert got.standard_error == pytest.approx(np.sqrt(gradient @ spread @ gradient), rel=1e-7)


def _measures(cells: Any) -> tuple[Any, ...]:
    a, b, c, d = cells
    with np.errstate(divide="ignore", invalid="ignore"):
        risk, other = a / (a + b), c / (c + d)
        return risk - other, risk / other, a * d / (b * c), risk, other


# --- the floor of small counts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
def test_a_value_has_the_rows_of_chance_at_least(dense: Dense, target: Any) -> None:
    """In a variance, where chance alone gives a value less than FEW rows, and fewer are there, chance's count.

    By group and sub-table: o_y becomes max(o_y, n min_i P[y, i]) in A diag(o) A' - diag(A o); sampling adds S - S^2/n.
    """
    answer = dense.release.count(["region", "job"], "age < 40", target=target)
    young, raised = [row for row in dense.rows if row["age"] is not None and row["age"] < 40], 0
    for (region, job), value, error in zip(answer.groups, answer.value, answer.standard_error, strict=True):
        variance, picked = 0.0, np.array([v[dense.names.index("job")] == job for v in dense.values], dtype=float)
        for number, inverse in enumerate(dense.inverses):
            own = np.flatnonzero(inverse.any(axis=0))
            rows = [r for r in young if r["region"] == region and r.get("sub_table", 1) == number + 1]
            published = [tuple(r[name] for name in dense.names) for r in rows]
            counts = np.array([published.count(dense.values[code]) for code in own], dtype=float)
            chance = len(rows) * np.linalg.inv(inverse[np.ix_(own, own)]).min(axis=1)
            seen = np.where(chance < constant("sfumato.analyst", "FEW"), np.maximum(counts, chance), counts)
            raised += int((seen > counts).sum())
            a = picked @ inverse[:, own]
            variance += float(a**2 @ seen - a @ seen)
        if target == "population":
            variance = (variance + value - value**2 / dense.n) * dense.n / (dense.n - 1)
        assert error**2 == pytest.approx(max(variance, 0), rel=1e-9, abs=1e-9)
    assert raised
