"""Figures of a randomized column itself, written down once more: in fractions, record by record, mark by mark.

A *question* is a function f of a record. With A the exact inverse of the integers of the matrix that published the row,
and the hidden columns of the row replaced by each of their combinations v in turn,

    what a row adds    t_f[r] = sum_v f(r with v) A[v, y_r]
    estimate           F = sum_r t_f[r]
    given the table    Cov[F, G] = sum_r (t_f[r] t_g[r] - t_fg[r])
    in a population    Cov[F, G] = n/(n - 1) (sum_r t_f[r] t_g[r] - F G/n)

A mean is a quotient of two, a distribution function one for each mark, and a quantile is found by trying all marks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.analyst.answer import Key, Quantile, Quotient, Target
from sfumato.analyst.ask.cells import Partition
from sfumato.analyst.ask.measure import Measure
from sfumato.analyst.ask.scale import Scale
from sfumato.analyst.counting.tally import COUNT, ROWS, Number, Tally
from sfumato.analyst.measures import evaluate
from sfumato.analyst.randomized.channel import Channel
from sfumato.analyst.randomized.figures import Figures
from sfumato.analyst.release import Release
from sfumato.values.attributes import Domain, SensitiveDomain, label
from sfumato.values.matrix.base import Estimable
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.graded import GradedMatrix
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import released

Row = dict[str, Any]
Ask = Callable[[Row], Fraction]
Matrix = list[list[Fraction]]
Z = NormalDist().inv_cdf(0.975)


@pytest.fixture(autouse=True)
def no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the floor of small counts, which tests/analyst/test_sql_oracle.py has a test of."""
    set_constants(monkeypatch, "sfumato.analyst.randomized", FEW=0)


def inverse_of(columns: Sequence[Sequence[Fraction]]) -> Matrix:
    """Return A[v][y] by Gauss and Jordan, exactly; `columns` are those of P, one for each true value."""
    size = len(columns)
    rows = [[columns[x][y] for x in range(size)] + [Fraction(int(y == k)) for k in range(size)] for y in range(size)]
    for k in range(size):
        pivot = next(j for j in range(k, size) if rows[j][k])
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [entry / rows[k][k] for entry in rows[k]]
        for j in range(size):
            if j != k:
                rows[j] = [a - rows[j][k] * b for a, b in zip(rows[j], rows[k], strict=True)]
    return [row[size:] for row in rows]


@dataclass(frozen=True, eq=False)
class Hidden:
    """Columns that were randomized together: their combinations, and the inverse of each sub-table."""

    names: tuple[str, ...]
    values: list[tuple[Any, ...]]
    inverses: list[tuple[list[int], list[Any], Matrix]]  # codes of the true values, what is published, A[v][y]

    def weights(self, row: Row) -> dict[tuple[Any, ...], Fraction]:
        codes, published, inverse = self.inverses[row.get("sub_table", 1) - 1]
        y = published.index(tuple(row[name] for name in self.names))
        return {self.values[code]: inverse[k][y] for k, code in enumerate(codes)}


@dataclass(frozen=True, eq=False)
class Exact:
    """Published rows, and what was randomized of them."""

    rows: list[Row]
    hidden: list[Hidden]

    @cached_property
    def every(self) -> list[list[tuple[Row, Fraction]]]:
        """What each record may be, with the weight that it counts with."""
        return [list(self.records(row)) for row in self.rows]

    @cache  # noqa: B019
    def added(self, f: Ask) -> list[Fraction]:
        """Return what each row adds."""
        return [
            sum((told * weight for record, weight in records if (told := f(record))), Fraction(0))
            for records in self.every
        ]

    def records(self, row: Row) -> Iterable[tuple[Row, Fraction]]:
        for combination in product(*(hidden.weights(row).items() for hidden in self.hidden)):
            record, weight = dict(row), Fraction(1)
            for hidden, (values, one) in zip(self.hidden, combination, strict=True):
                record |= dict(zip(hidden.names, values, strict=True))
                weight *= one
            yield record, weight

    def total(self, f: Ask) -> Fraction:
        return sum(self.added(f), Fraction(0))

    def covariance(self, f: Ask, g: Ask, target: str) -> Fraction:
        crossed = sum((a * b for a, b in zip(self.added(f), self.added(g), strict=True)), Fraction(0))
        if target == "table":
            return crossed - self.total(lambda record: f(record) * g(record))
        n = len(self.rows)
        return Fraction(n, n - 1) * (crossed - self.total(f) * self.total(g) / n)

    def error(self, f: Ask, target: str) -> float:
        return math.sqrt(max(self.covariance(f, f, target), 0))

    def quotient(self, f: Ask, g: Ask, target: str) -> dict[str, float] | None:
        """Return value, error and Fieller's interval; None where the bottom is not positive."""
        top, bottom = self.total(f), self.total(g)
        if bottom <= 0:
            return None
        r, z2 = top / bottom, Fraction(Z) ** 2
        error = self.error(lambda record: f(record) - r * g(record), target) / float(bottom)
        var_f, cov, var_g = (self.covariance(a, b, target) for a, b in ((f, f), (f, g), (g, g)))
        a, b, c = bottom**2 - z2 * var_g, top * bottom - z2 * cov, top**2 - z2 * var_f
        if a <= 0:
            return {"estimate": float(r), "standard_error": error, "lower": -math.inf, "upper": math.inf}
        half = math.sqrt(max(b * b - a * c, 0)) / float(a)
        ends = {"lower": float(b / a) - half, "upper": float(b / a) + half}
        return {"estimate": float(r), "standard_error": error, **ends}

    def quantile(self, below: Sequence[Ask], g: Ask, q: Fraction, target: str) -> tuple[int | None, int, int]:
        """Return the places of the quantile and of the ends of its interval; `below[c]` is at or below mark c."""
        distances = [lambda record, f=f: f(record) - q * g(record) for f in below]  # type: ignore[misc]
        rounding = self.total(g) / 10**9  # of integers over 2^64: what is no more than that is 0
        totals = [0.0 if abs(total) <= abs(rounding) else float(total) for total in map(self.total, distances)]
        errors = [self.error(d, target) for d in distances]
        last = len(below) - 1

        def crossings(z: float) -> tuple[int, int]:
            reach = [c for c in range(last + 1) if totals[c] + z * errors[c] >= 0]
            miss = [c for c in range(last + 1) if totals[c] - z * errors[c] < 0]
            return (reach or [0])[0], min(miss[-1] + 1 if miss else 0, last)

        estimate = sum(crossings(0)) // 2 if self.total(g) > 0 else None
        return estimate, *crossings(Z)


# --- releases of every method -----------------------------------------------------------------------------------------

ROWS_OF_TABLE = 42
DOSES: list[Any] = ["1.5", "10", "2", "30", None]
STAIRS = """published,1.5,10,2,30,(missing)
1.5,0.5,0.15,0.1,0.1,0.2
10,0.1,0.4,0.2,0.1,0.2
2,0.15,0.15,0.5,0.2,0.1
30,0.1,0.2,0.1,0.5,0.1
(missing),0.15,0.1,0.1,0.1,0.4
"""


def table_of(dose: Sequence[Any]) -> pa.Table:
    rng = np.random.default_rng(8)
    columns = {
        "sex": rng.choice(["F", "M"], ROWS_OF_TABLE).tolist(),
        "age": rng.integers(20, 70, ROWS_OF_TABLE).tolist(),
        "w": rng.choice([1, 2, 5], ROWS_OF_TABLE).tolist(),
        "ill": rng.choice([True, False], ROWS_OF_TABLE, p=[0.3, 0.7]).tolist(),
        "dose": list(rng.permutation(np.array([*dose], dtype=object))),
    }
    return pa.table(columns)


def doses(shares: Sequence[int], values: Sequence[Any]) -> list[Any]:
    repeated = [value for value, share in zip(values, shares, strict=True) for _ in range(share)]
    return [repeated[k % len(repeated)] for k in range(ROWS_OF_TABLE)]


def release_by(method: str, folder: Path) -> Release:
    roles = {"sex": "quasi_identifier", "age": "other", "w": "other", "ill": "other"}
    dose, shares, requirement, options = "sensitive; missing = 'category'", [5, 4, 3, 2, 2], "gamma = 6", ""
    values, name = list(DOSES), method
    if method == "fine-grain":
        requirement = "rho1 = '1/3'\nrho2 = '2/3'\n[[requirement.values]]\nvalue = '30'\nrho1 = 0.2\nrho2 = 0.4"
    elif method == "dense":
        (folder / "matrix.csv").write_text(STAIRS, encoding="utf-8")
        name, options = "fine-grain", f'matrix = "{(folder / "matrix.csv").as_posix()}"'
        dose += "; domain = ['1.5', '10', '2', '30']"
    elif method == "small-domain":
        requirement, options = "rho1 = '1/3'\nrho2 = '2/3'", "assurance = 'as-published'"  # SDR: two sub-tables
        values, shares = ["1", "2", "3", "4", "5", "6", "7", "8", "9", None], [12, 8, 6, 5, 4, 3, 1, 1, 1, 1]
    elif method == "two":
        name, roles["ill"] = "uniform", "sensitive"
    elif method == "randomized-response":
        requirement, options, roles["ill"] = "l = 4", "assurance = 'as-published'", "quasi_identifier"
    elif method in ("set", "card"):
        name, requirement, options = "subset", "gamma = 2", f"form = '{method}'\nmembers = 2"
    elif method in ("graded set", "graded card"):
        name, options = "subset", f"graded = true\nform = '{method.removeprefix('graded ')}'"
        requirement = "gamma = 9\nvalues = [{ value = '2', gamma = 3 }, { value = '30', gamma = 3 }]"
    policy = make_policy({**roles, "dose": dose}, requirement, name, options=options)
    return released(table_of(doses(shares, values)), policy, folder=folder / "r", shuffle=False)


GRADED = ["graded set", "graded card"]
METHODS = ["uniform", "fine-grain", "dense", "small-domain", "two", "randomized-response", "set", "card", *GRADED]


@pytest.fixture(scope="module", params=METHODS)
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Release:
    found = release_by(request.param, tmp_path_factory.mktemp("own"))
    mechanisms = found.manifest.mechanism_values
    assert "dose" in found.manifest.domain.names
    assert (len(mechanisms[0].tables) > 1) == (request.param == "small-domain")
    assert (len(mechanisms) > 1) == (request.param == "randomized-response")
    matrix = mechanisms[0].tables[0].matrix
    assert matrix.publishes_values == (request.param not in ("set", "card", *GRADED))
    assert isinstance(matrix, GradedMatrix) == (request.param == "graded card")
    assert isinstance(matrix, DenseMatrix) == (request.param in ("dense", "graded set"))  # equal sets are one card
    return found


def exact_of(release: Release, names: Iterable[str]) -> Exact:
    """Return the reference for a question about these columns."""
    hidden = []
    for mechanism in release.manifest.mechanism_values:
        domain = mechanism.domain
        values = [value if isinstance(value, tuple) else (value,) for value in domain.values]
        inverses: list[tuple[list[int], list[Any], Matrix]] = []
        for table in mechanism.tables:
            codes, outputs = table.codes.tolist(), range(table.matrix.outputs)
            columns = [[Fraction(table.matrix.weight(y, x), WORDS) for y in outputs] for x in range(len(codes))]
            cards = [] if table.matrix.publishes_values else [(card,) for card in mechanism.published.values]
            inverses.append((codes, cards or [values[code] for code in codes], left_inverse_of(columns)))
        if set(domain.names) & set(names):
            hidden.append(Hidden(domain.names, values, inverses))
    rows = pq.read_table(release.data).to_pylist()
    return Exact([{name: _as_text(value) for name, value in row.items()} for row in rows], hidden)


def _as_text(value: Any) -> Any:
    """Return a set of values as the text that stands for it."""
    return "|".join(map(label, value)) if isinstance(value, list) else value


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "TRUE": lambda r: True,
    "age > 40": lambda r: r["age"] > 40,
    "dose <> '10'": lambda r: r["dose"] is not None and r["dose"] != "10",
    "ill = TRUE": lambda r: r["ill"],
    "(ill = TRUE OR sex = 'F') AND age < 60": lambda r: (r["ill"] or r["sex"] == "F") and r["age"] < 60,
    "sex = 'M' OR dose = '30'": lambda r: r["sex"] == "M" or r["dose"] == "30",
}
BY: list[tuple[str, ...]] = [(), ("sex",), ("ill",), ("sex", "ill")]


def number(row: Row) -> Fraction:
    return Fraction(row["dose"] or 0)


def known(row: Row) -> Fraction:
    return Fraction(int(row["dose"] is not None))


def within(f: Ask, group: dict[str, Any], where: Callable[[Row], bool], weight: str) -> Ask:
    """Return a question of some records alone, with their weights."""

    def ask(row: Row) -> Fraction:
        meant = where(row) and all(row[name] == value for name, value in group.items())
        return f(row) * (row[weight] if weight else 1) if meant else Fraction(0)

    return ask


def near(got: dict[str, Any], due: dict[str, float] | None, about: object) -> None:
    if due is None:
        assert got["estimate"] is None, about
        return
    size = 1 + abs(due["estimate"]) + due["standard_error"]
    for name, expected in due.items():
        assert got[name] == pytest.approx(expected, rel=1e-6, abs=1e-7 * size), (about, name, got, due)


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("case", range(6))
def test_every_figure_is_that_of_the_oracle(release: Release, case: int, target: Target) -> None:
    """Means, sums, known records, ratios, distributions and quantiles by groups, under conditions, with weights."""
    where = list(CONDITIONS)[case]
    by, weight = BY[(case + (target == "table")) % 4], "w" if case % 2 else ""
    exact = exact_of(release, {"dose", *by, *(name for name in ("ill", "dose", "sex") if name in where)})
    groups = ", ".join(by)
    figures = "SUM(dose) AS total, AVG(dose) AS mean, COUNT(dose) AS n, SUM(dose) / COUNT(*) AS ratio"
    quantiles = "MEDIAN(dose) AS half, QUANTILE(dose, 0.8) AS high"
    text = f"SELECT {groups}{', ' if by else ''}{figures}, {quantiles} FROM release WHERE {where} "
    answer = release.sql(text + (f"GROUP BY {groups}" if by else ""), weight=weight, target=target)
    rows = {(*(row[name] for name in by), row["figure"]): row for row in answer.rows()}
    curve = release.distribution("dose", by, where, weight=weight, target=target)
    shares = {tuple(row[name] for name in (*by, "dose")): row for row in curve.rows()}
    part = next(part for part in release.manifest.domain.parts if part.name == "dose")
    marks = sorted((value for value in part.values if value is not None), key=lambda value: Fraction(str(value)))
    assert dict.fromkeys(key[-1] for key in shares) == dict.fromkeys(marks)
    for group in {key[:-1] for key in rows}:
        asked = dict(zip(by, group, strict=True))

        def of(f: Ask, asked: dict[str, Any] = asked) -> Ask:
            return within(f, asked, CONDITIONS[where], weight)

        sums, numbers, everyone = of(number), of(known), of(lambda row: Fraction(1))
        for name, f in (("total", sums), ("n", numbers)):
            due = {"estimate": float(exact.total(f)), "standard_error": exact.error(f, target)}
            near(rows[*group, name], due, (text, group, name))
        near(rows[*group, "mean"], exact.quotient(sums, numbers, target), (text, group))
        near(rows[*group, "ratio"], exact.quotient(sums, everyone, target), (text, group))
        below = [
            of(lambda row, mark=mark: Fraction(int(known(row) and number(row) <= Fraction(mark)))) for mark in marks
        ]  # type: ignore[misc]
        for mark, f in zip(marks, below, strict=True):
            near(shares[*group, mark], exact.quotient(f, numbers, target), (text, group, mark))
        for name, q in (("half", Fraction(1, 2)), ("high", Fraction(4, 5))):
            places = exact.quantile(below, numbers, q, target)
            told = tuple(rows[*group, name][end] for end in ("estimate", "lower", "upper"))
            assert told == tuple(None if k is None else float(marks[k]) for k in places), (text, group, name)


# --- many random matrices and tables ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OneTable:
    codes: Any
    matrix: Estimable


def random_case(rng: np.random.Generator, kind: str) -> tuple[Channel, Exact, list[list[int]]]:
    """Return random matrices of one or two sub-tables, and rows that they might have published, with their classes."""
    m = int(rng.integers(2, 6))
    values: list[Any] = [Fraction(int(v), 4) for v in rng.integers(-8, 9, m)]
    texts = tuple(str(float(v)) + "0" * k for k, v in enumerate(values))  # one number may have two spellings
    values = [*values[:-1], None] if rng.random() < 0.5 else values
    texts = (*texts[:-1], None) if values[-1] is None else texts  # type: ignore[assignment]
    domain = SensitiveDomain((Domain("x", texts),))
    tables: list[OneTable] = []
    inverses: list[tuple[list[int], list[Any], Matrix]] = []
    for _ in range(int(rng.integers(1, 3))):
        codes = np.sort(rng.choice(m, int(rng.integers(2, m + 1)), replace=False)).astype(np.int32)
        matrix, inverse, outputs = random_matrix(rng, codes.size, kind)
        tables.append(OneTable(codes, matrix))
        inverses.append((codes.tolist(), [(y,) for y in range(outputs)], inverse))
    rows, classes = [], []
    for _ in range(int(rng.integers(5, 25))):
        t = int(rng.integers(len(tables)))
        y = int(rng.integers(len(inverses[t][1])))
        classes.append([t, y])
        rows.append({"x": y, "sub_table": t + 1, "g": int(rng.integers(2)), "w": int(rng.integers(1, 4))})
    channel = Channel(domain, tuple(tables), domain, "sub_table")
    return channel, Exact(rows, [Hidden(("x",), [(value,) for value in texts], inverses)]), classes


def random_matrix(rng: np.random.Generator, m: int, kind: str) -> tuple[Estimable, Matrix, int]:
    """Return a matrix, what undoes it, and the number of its outputs."""
    outputs = m + int(rng.integers(1, 4)) if kind == "rectangular" else m
    if kind == "retention":
        matrix: Any = PerturbationMatrix.from_retention((rng.random(m) * 0.8 + 0.1).tolist())
    else:
        strength = int(rng.integers(15, 40)) * m
        shares = rng.integers(1, 20, (m, outputs)) + np.eye(m, outputs, dtype=np.int64) * strength
        cards = tuple((y % m,) for y in range(outputs)) if outputs > m else ()
        matrix = DenseMatrix.from_floats(shares.T / shares.sum(axis=1), 0.0, cards)
    columns = [[Fraction(matrix.weight(y, x), WORDS) for y in range(outputs)] for x in range(m)]
    return matrix, left_inverse_of(columns), outputs


def left_inverse_of(columns: Sequence[Sequence[Fraction]]) -> Matrix:
    """Return A = (P^T D^-1 P)^-1 P^T D^-1 with D = diag(P 1), exactly; of a square matrix it is the inverse."""
    sizes = [sum(column[y] for column in columns) for y in range(len(columns[0]))]
    scaled = [[entry / size for entry, size in zip(column, sizes, strict=True)] for column in columns]
    normal = [[sum(a * b for a, b in zip(one, other, strict=True)) for one in scaled] for other in columns]
    inner = inverse_of(normal)  # it is symmetric
    return [[sum(a * row[y] for a, row in zip(of, scaled, strict=True)) for y in range(len(sizes))] for of in inner]


def tally_of(channel: Channel, exact: Exact, classes: list[list[int]], weight: str) -> Tally:
    """Sum rows by group, sub-table and class, in the simplest way."""
    number = Number()
    outputs = [len(inverse[1]) for inverse in exact.hidden[0].inverses]
    sums = {
        n.summed(weight if n is not ROWS else ""): [np.zeros((2, k)) for k in outputs]
        for n in (ROWS, number, number * number)
    }
    for row, (t, y) in zip(exact.rows, classes, strict=True):
        for n in (ROWS, number, number * number):
            sums[n.summed(weight if n is not ROWS else "")][t][row["g"], y] += row["w"] ** n.weight if weight else 1
    if not weight:  # all of them are counts of rows
        counts = [np.zeros((2, k)) for k in outputs]
        for row, (t, y) in zip(exact.rows, classes, strict=True):
            counts[t][row["g"], y] += 1
        sums = dict.fromkeys(sums, counts)
    group = np.arange(2)
    return Tally((Key("g", (0, 1), group),), 2, group, ((),), np.zeros(2, dtype=np.int64), weight, sums, "values")


@pytest.mark.parametrize("kind", ["retention", "dense", "rectangular"])
@pytest.mark.parametrize("seed", range(40))
def test_random_matrices_and_tables(kind: str, seed: int) -> None:
    """Also matrices that publish something else than the values: K outputs for m values."""
    rng = np.random.default_rng([seed, len(kind)])
    channel, exact, classes = random_case(rng, kind)
    weight, target = ("w" if seed % 2 else ""), ("table", "population")[seed // 2 % 2]
    chosen = rng.random(channel.domain.size) < 0.8 if seed % 3 else np.full(channel.domain.size, True)
    cells = np.where(chosen, 0, -1)
    figures = Figures(
        tally_of(channel, exact, classes, weight),
        lambda pattern: cells,
        1,
        len(exact.rows),
        target,
        channel,  # type: ignore[arg-type]
    )
    texts, scale = channel.domain.parts[0].values, Scale.of_values(channel.domain.parts[0])
    meant = {text for text, one in zip(texts, chosen, strict=True) if one}
    number, known = Number(scores=(scale.number(),)), Number(scores=(scale.known(),))
    measures = [Measure("sum", "", number), Measure("mean", "", number, known), Measure("ratio", "", number, COUNT)]
    found = [
        evaluate(figures, each, Partition(np.zeros(1, dtype=np.int64), np.arange(2)), np.arange(1)) for each in measures
    ]
    below = figures.distribution(COUNT, scale)
    marks = sorted({Fraction(text) for text in texts if text is not None})
    assert scale.numbers.tolist() == [float(mark) for mark in marks]
    for g in (0, 1):

        def of(f: Ask, g: int = g) -> Ask:
            return lambda row: (
                f(row) * (row["w"] if weight else 1) if row["g"] == g and row["x"] in meant else Fraction(0)
            )

        sums, numbers, everyone = (
            of(lambda row: Fraction(row["x"] or 0)),
            of(lambda row: Fraction(int(row["x"] is not None))),
            of(lambda row: Fraction(1)),
        )
        size = 1 + float(max(map(abs, (exact.total(sums), *exact.added(sums)))))
        assert found[0][0, g] == pytest.approx(float(exact.total(sums)), abs=1e-7 * size)
        assert found[0][1, g] ** 2 == pytest.approx(
            float(max(exact.covariance(sums, sums, target), 0)), abs=1e-7 * size**2
        )
        for k, bottom in ((1, numbers), (2, everyone)):
            due = exact.quotient(sums, bottom, target)
            if due is not None and exact.total(bottom) > Fraction(1, 1000):
                assert found[k][0, g] == pytest.approx(due["estimate"], rel=1e-6, abs=1e-9)
                assert found[k][1, g] == pytest.approx(due["standard_error"], rel=1e-5, abs=1e-5)
        asked = [
            of(lambda row, mark=mark: Fraction(int(row["x"] is not None and Fraction(row["x"]) <= mark)))
            for mark in marks
        ]  # type: ignore[misc]
        for c, f in enumerate(asked):
            pairs = (
                (below.top, exact.total(f)),
                (below.bottom, exact.total(numbers)),
                (below.top_variance, exact.covariance(f, f, target)),
                (below.covariance, exact.covariance(f, numbers, target)),
                (below.bottom_variance, exact.covariance(numbers, numbers, target)),
            )
            for got, expected in pairs:
                assert got[g, 0, c] == pytest.approx(float(expected), abs=1e-7 * size**2), (seed, kind, g, c)
        if exact.total(numbers) > Fraction(1, 1000):
            rows = Quotient(*(array[g, 0][None] for array in vars(below).values()))
            quantile = Quantile.of(rows, 0.3, scale.numbers)
            estimate, *ends = exact.quantile(asked, numbers, Fraction(3, 10), target)
            assert estimate is not None
            assert quantile.value.tolist() == [float(marks[estimate])]
            assert [end.tolist() for end in quantile.interval(Z)] == [[float(marks[end])] for end in ends]


def test_shares_of_sums_are_those_of_the_oracle(tmp_path: Path) -> None:
    """SUM(dose) of each group over that of all: groups by an untouched and by a randomized column."""
    release = release_by("two", tmp_path)
    exact = exact_of(release, {"dose"})
    text = "SELECT sex, ill, SUM(dose) / SUM(SUM(dose)) OVER (PARTITION BY sex) AS part FROM release GROUP BY sex, ill"
    for row in release.sql(text).rows():
        own = within(number, {"sex": row["sex"], "ill": row["ill"]}, lambda row: True, "")
        whole = within(number, {"sex": row["sex"]}, lambda row: True, "")
        near(row, exact.quotient(own, whole, "table"), row)
