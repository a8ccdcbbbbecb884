"""What to expect before asking: by hand, against dense matrices and proportional fitting, and by two routes."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from sfumato.analyst.answer import Key
from sfumato.analyst.power import Power
from sfumato.analyst.randomized.expectation import Curve, Expected, Stratum, curve_of
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix
from tests.constants import set_constants

Z = NormalDist().inv_cdf(0.975)
Z_CHANCE = NormalDist().inv_cdf(0.8)
HAND = PerturbationMatrix.from_retention([1 / 2] * 4)
HAND_ROWS = np.array([[800.0]])


def hand_curve(total: float | None = None, rows: FloatArray = HAND_ROWS) -> Curve:
    """The guide's example: 400, 200, 120 and 80 of 800 records, m = 4, gamma = 5."""
    stratum = Stratum(HAND, np.arange(4), np.array([400.0, 200, 120, 80]))
    return curve_of([stratum], range(4), rows, total)


def expected(curve: Curve, rows: FloatArray, share: float | None = None, width: float | None = None) -> Expected:
    return Expected.of(curve, rows.sum(axis=1, keepdims=True), share, Z, Z_CHANCE, width)


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_the_example_by_hand() -> None:
    """The inverse has 7/4 on its diagonal, -1/4 elsewhere. A record of the cell has the variance
    5/8 (7/4)^2 + 3/8 (1/4)^2 - 1 = 15/16, another one 1/8 (7/4)^2 + 7/8 (1/4)^2 = 7/16: in all 350 + x/2."""
    found = expected(hand_curve(), HAND_ROWS)
    assert found.share[0] == pytest.approx([0.5, 0.25, 0.15, 0.1])
    assert found.standard_error[0] ** 2 == pytest.approx([550, 450, 410, 390])
    assert found.share_error == pytest.approx(found.standard_error / 800)


def test_the_example_in_a_population() -> None:
    """x (1 - x/800) is added to the count's variance where the release has 800 rows; x (1 - x/8000) if it has 8,000."""
    x = np.array([400.0, 200, 120, 80])
    small, large = (expected(hand_curve(total), HAND_ROWS) for total in (800, 8000))
    assert small.standard_error[0] ** 2 == pytest.approx(350 + x / 2 + x * (1 - x / 800))
    assert large.standard_error[0] ** 2 == pytest.approx(350 + x / 2 + x * (1 - x / 8000))
    for found in (small, large):
        assert (found.share_error[0] * 800) ** 2 == pytest.approx(350 + x / 2 + x * (1 - x / 800))


def test_the_least_count_by_hand() -> None:
    """x* = z sqrt(350 + x*/2) is a quadratic equation; then x = x* + z_c sqrt(350 + x/2) is another one."""

    def larger_root(b: float, c: float) -> float:
        return (b + np.sqrt(b * b + 4 * c)) / 2  # of x^2 = b x + c

    edge = larger_root(Z**2 / 2, 350 * Z**2)
    assert edge == pytest.approx(37.64, abs=0.01)
    # (x - edge)^2 = z_c^2 (350 + x/2)
    least = larger_root(2 * edge + Z_CHANCE**2 / 2, 350 * Z_CHANCE**2 - edge**2)
    assert least == pytest.approx(53.98, abs=0.01)
    assert expected(hand_curve(), HAND_ROWS).least_share[0] * 800 == pytest.approx([least] * 4)


def test_the_records_that_are_needed_by_hand() -> None:
    """For a share of 1/10: x*^2 = z^2 (7/16 n + x*/2) and n/10 = x* + z_c sqrt(39/80 n); n solves both."""

    def lacking(n: float) -> float:
        edge = (Z**2 / 2 + np.sqrt(Z**4 / 4 + 4 * Z**2 * 7 / 16 * n)) / 2
        return float(edge + Z_CHANCE * np.sqrt(39 / 80 * n) - n / 10)

    found = expected(hand_curve(), HAND_ROWS, width=0.02)
    due = brentq(lacking, 10, 10_000)
    assert found.records_to_see[0, 3] == np.ceil(due)
    assert found.records_for_width is not None
    assert found.records_for_width[0, 3] == np.ceil(Z**2 * 39 / 80 / 0.02**2)


def test_the_exact_chance_of_the_least_count() -> None:
    """The published number of a value is Bin(x, 5/8) + Bin(n - x, 1/8): the chance that the interval lies above 0 is
    that which was asked, up to one published row (and with 5% more or fewer records it is not)."""
    n = 20_000
    least = float(expected(hand_curve(rows=np.array([[float(n)]])), np.array([[float(n)]])).least_share[0, 3] * n)

    def chance(x: int) -> tuple[float, float]:
        kept, drawn = binom.pmf(np.arange(x + 1), x, 5 / 8), binom.pmf(np.arange(n - x + 1), n - x, 1 / 8)
        law, o = np.convolve(kept, drawn), np.arange(n + 1)
        estimate = 2 * o - n / 4
        variance = 49 / 16 * o + (n - o) / 16 - estimate
        return float(law[estimate > Z * np.sqrt(variance)].sum()), float(law.max())

    found, step = chance(round(least))
    assert abs(found - 0.8) <= step
    assert chance(round(0.95 * least))[0] < 0.8 - 3 * step
    assert chance(round(1.05 * least))[0] > 0.8 + 3 * step


def test_the_exact_chance_in_a_population() -> None:
    """Retention 9/10: the published number is Bin(n, q + p s). What is seen depends on the error at the estimate; with
    that of an empty cell, s n = z se(0) + z_c se(s), the chance would fall short by more than one published row."""
    n, p, q = 800, 0.9, 0.025
    matrix, rows = PerturbationMatrix.from_retention([p] * 4), np.array([[float(n)]])
    curve = curve_of([Stratum(matrix, np.arange(4), np.ones(4))], range(4), rows, n)
    inside, outside = np.linalg.inv(matrix.dense())[0, :2]

    def chance(share: float) -> tuple[float, float]:
        o = np.arange(n + 1)
        law, estimate = binom.pmf(o, n, q + p * share), inside * o + outside * (n - o)
        variance = (inside**2 * o + outside**2 * (n - o) - estimate**2 / n) * n / (n - 1)
        return float(law[estimate > Z * np.sqrt(np.maximum(variance, 0))].sum()), float(law.max())

    def error(share: float) -> float:
        return float(expected(curve, rows, share).standard_error[0, 0])

    found, step = chance(float(expected(curve, rows).least_share[0, 0]))
    assert abs(found - 0.8) <= step
    naive = brentq(lambda s: s * n - Z * error(1e-12) - Z_CHANCE * error(s), 1e-6, 0.5)
    assert chance(naive)[0] < 0.8 - step


# --- against dense matrices -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Strata, the rows that each group has in them, and the number of cells."""

    strata: list[Stratum]
    sizes: FloatArray
    cells: int

    def curve(self, total: float | None = None) -> Curve:
        return curve_of(self.strata, range(self.cells), self.sizes, total)


def random_case(rng: np.random.Generator) -> Case:
    """Up to four strata with matrices, values and cells of their own; some cells are absent, some are all there is."""
    cells = int(rng.integers(1, 4))
    strata = []
    for _ in range(int(rng.integers(1, 5))):
        m = int(rng.integers(1, 6))
        retention = 0.1 + 0.9 * rng.random(m) if rng.random() < 0.7 else np.full(m, 0.1 + 0.9 * rng.random())
        matrix = PerturbationMatrix.from_retention(retention)
        strata.append(Stratum(matrix, rng.integers(-1, cells, m), rng.uniform(0.5, 500, m)))
    sizes = np.round(rng.uniform(0, 400, (3, len(strata)))) + 1
    return Case(strata, sizes, cells)


def fitted(case: Case, group: int, cell: int, share: float) -> list[FloatArray]:
    """Return the table of the group (the values of each stratum) by iterative proportional fitting to both margins."""
    sizes, n = case.sizes[group], case.sizes[group].sum()
    table = [stratum.spread.copy() for stratum in case.strata]
    inside = [stratum.cells == cell for stratum in case.strata]
    for _ in range(20_000):
        for k, x in enumerate(table):
            table[k] = x * sizes[k] / x.sum()
        found = sum(float(x[phi].sum()) for x, phi in zip(table, inside, strict=True))
        if abs(found - share * n) <= 1e-10 * n:
            return table
        for x, phi in zip(table, inside, strict=True):
            x[phi] *= share * n / found
            x[~phi] *= (1 - share) * n / (n - found)
    raise AssertionError("proportional fitting did not converge")


def dense_variance(case: Case, table: list[FloatArray], cell: int) -> float:
    """Return the sum over the strata of sum_y (P x)_y a(y)^2 - sum of x over the cell."""
    total = 0.0
    for stratum, x in zip(case.strata, table, strict=True):
        phi, dense = stratum.cells == cell, stratum.matrix.dense()
        a = np.linalg.inv(dense).T @ phi
        total += float((dense @ x) @ a**2 - x[phi].sum())
    return total


def possible(case: Case, group: int, cell: int) -> tuple[float, float]:
    """Return the least and the largest share that the cell can have in the group."""
    weight = case.sizes[group] / case.sizes[group].sum()
    inside = [stratum.cells == cell for stratum in case.strata]
    return weight @ [phi.all() for phi in inside], weight @ [phi.any() for phi in inside]


def test_expectations_equal_dense_ones_of_fitted_tables() -> None:
    rng = np.random.default_rng(1)
    compared = 0
    for _ in range(150):
        case = random_case(rng)
        share = float(rng.uniform(0.02, 0.98))
        table, population = (expected(case.curve(total), case.sizes, share) for total in (None, 2000.0))
        for g, c in np.ndindex(len(case.sizes), case.cells):
            low, high = possible(case, g, c)
            if not low + 0.01 < share < high - 0.01:
                continue
            n = case.sizes[g].sum()
            due = dense_variance(case, fitted(case, g, c, share), c)
            sampled, binomial = n * share * (1 - share * n / 2000), n * share * (1 - share)
            assert table.share[g, c] == pytest.approx(share, rel=1e-9)
            assert table.standard_error[g, c] ** 2 == pytest.approx(due, rel=1e-6, abs=1e-6)
            assert (table.share_error[g, c] * n) ** 2 == pytest.approx(due, rel=1e-6, abs=1e-6)
            assert population.standard_error[g, c] ** 2 == pytest.approx(due + sampled, rel=1e-6)
            assert (population.share_error[g, c] * n) ** 2 == pytest.approx(due + binomial, rel=1e-6)
            compared += 1
    assert compared > 200


def test_by_default_every_stratum_is_spread_as_in_the_release() -> None:
    rng = np.random.default_rng(2)
    for _ in range(100):
        case = random_case(rng)
        found = expected(case.curve(), case.sizes)
        for g, c in np.ndindex(len(case.sizes), case.cells):
            shares = [stratum.spread / stratum.spread.sum() for stratum in case.strata]
            table = [n * share for n, share in zip(case.sizes[g], shares, strict=True)]
            x = sum(float(t[s.cells == c].sum()) for t, s in zip(table, case.strata, strict=True))
            assert found.share[g, c] * case.sizes[g].sum() == pytest.approx(x)
            assert found.standard_error[g, c] ** 2 == pytest.approx(dense_variance(case, table, c), rel=1e-9, abs=1e-8)


def test_the_least_share_solves_its_equations() -> None:
    """With dense variances of fitted tables: n s* = z se(s*), n s = z se(s*) + z_c se(s), by a root finder."""
    rng = np.random.default_rng(3)
    compared = 0
    while compared < 25:
        case = random_case(rng)
        g, c = 0, 0
        low, high = possible(case, g, c)
        n = case.sizes[g].sum()
        found = float(expected(case.curve(), case.sizes).least_share[g, c])
        if low > 0 or high == 0 or not 0.01 < found < high - 0.02:
            continue

        def error(share: float, case: Case = case) -> float:
            return float(np.sqrt(dense_variance(case, fitted(case, 0, 0, share), 0)))

        edge = brentq(lambda s: s * n - Z * error(s), 1e-4, high - 0.01)  # noqa: B023
        least = brentq(lambda s: s * n - edge * n - Z_CHANCE * error(s), edge, high - 0.01)  # noqa: B023
        assert found == pytest.approx(least, rel=1e-6)
        compared += 1


# --- consistent in itself ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("total", [None, 5000.0], ids=["table", "population"])
def test_with_the_records_that_are_needed_it_is_seen_and_with_one_less_it_is_not(total: float | None) -> None:
    """Two routes: the number of records for a share, and the least share for a number of records."""
    rng = np.random.default_rng(4)
    compared = 0
    for _ in range(20):
        case = random_case(rng)
        share = float(rng.uniform(0.02, 0.5))
        first = expected(case.curve(total), case.sizes, share, width=0.03)
        assert first.records_for_width is not None
        for g, c in np.ndindex(first.share.shape):
            low, high = possible(case, g, c)
            if low > 0 or share > high or first.records_to_see[g, c] < 3 or first.records_for_width[g, c] < 3:
                continue
            n = case.sizes[g].sum()

            def again(records: float, case: Case = case, g: int = g, n: float = n, share: float = share) -> Expected:
                factor = records / n
                curve = curve_of(
                    case.strata, range(case.cells), case.sizes[[g]] * factor, None if total is None else total * factor
                )
                return expected(curve, case.sizes[[g]] * factor, share)

            needed = first.records_to_see[g, c]
            below = again(needed - 1).least_share[0, c]
            assert again(needed).least_share[0, c] <= share * (1 + 1e-9)
            assert np.isnan(below) or below >= share * (1 - 1e-9)
            needed = first.records_for_width[g, c]
            assert Z * again(needed).share_error[0, c] <= 0.03 * (1 + 1e-9)
            assert Z * again(needed - 1).share_error[0, c] >= 0.03 * (1 - 1e-9)
            compared += 1
    assert compared > 15


def test_more_rows_see_rarer_cells() -> None:
    rows = np.array([[20.0], [200.0], [2000.0], [20_000.0]])
    least = expected(hand_curve(rows=rows), rows).least_share[:, 0]
    assert (np.diff(least) < 0).all()
    assert least[2] / least[3] == pytest.approx(np.sqrt(10), rel=0.05)


def test_too_few_rows_see_nothing() -> None:
    rows = np.array([[3.0]])
    found = expected(hand_curve(rows=rows), rows)
    assert np.isnan(found.least_share).all()
    assert (found.records_to_see > 3).all()


def test_without_noise_everything_is_seen() -> None:
    stratum = Stratum(PerturbationMatrix.from_retention([1.0, 1.0]), np.arange(2), np.array([3.0, 1.0]))
    rows = np.array([[40.0]])
    found = expected(curve_of([stratum], range(2), rows, None), rows, width=0.1)
    assert found.standard_error.tolist() == [[0, 0]]
    assert found.least_share == pytest.approx(np.zeros((1, 2)))
    assert found.records_to_see.tolist() == [[1, 1]]
    assert found.records_for_width is not None
    assert found.records_for_width.tolist() == [[1, 1]]


def test_a_cell_that_a_group_cannot_have() -> None:
    """The group's only stratum has no value of cell 1: its count is exactly 0, and no number of records helps."""
    here = Stratum(HAND, np.array([0, 0, -1, -1]), np.ones(4))
    rows = np.array([[100.0]])
    for share in (None, 0.3):
        found = expected(curve_of([here], range(2), rows, None), rows, share)
        assert found.share[0, 1] == found.standard_error[0, 1] == 0
        assert np.isnan(found.least_share[0, 1])
        assert np.isnan(found.records_to_see[0, 1])


def test_a_share_that_is_certain() -> None:
    """Half of the group satisfies the condition whatever its values are: a smaller share is not possible."""
    every, some = (
        Stratum(HAND, np.zeros(4, dtype=np.int64), np.ones(4)),
        Stratum(HAND, np.array([0, -1, -1, -1]), np.ones(4)),
    )
    rows = np.array([[400.0, 400.0]])
    found = expected(curve_of([every, some], [0], rows, None), rows, 0.2)
    assert found.share[0, 0] == pytest.approx(0.5)
    assert found.standard_error[0, 0] ** 2 == pytest.approx(400 * 7 / 16)
    assert found.least_share[0, 0] == pytest.approx(0.5)


def test_all_of_a_population_has_no_error() -> None:
    """Fractions of strata sum to 1 up to rounding only; the variance of a certain share is 0 and never below."""
    every = Stratum(HAND, np.zeros(4, dtype=np.int64), np.ones(4))
    sizes = np.random.default_rng(5).integers(1, 1000, (200, 7)).astype(float)
    for k in range(len(sizes)):
        found = expected(curve_of([every] * 7, [0], sizes[[k]], sizes[k].sum()), sizes[[k]])
        assert found.share_error[0, 0] == pytest.approx(0, abs=1e-7)
        assert found.standard_error[0, 0] == pytest.approx(0, abs=1e-4)


def test_too_many_groups_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.analyst.randomized", MOST_TERMS=3)
    with pytest.raises(UsageError, match="1 groups of 4 cells are too many"):
        hand_curve()


# --- the result -------------------------------------------------------------------------------------------------------


def result(**changes: Any) -> Power:
    values: dict[str, Any] = {
        "keys": (Key("sex", ("F",), np.array([0, 0])), Key("job", ("cook", None), np.array([0, 1]))),
        "records": np.array([800.0, 800.0]),
        "share": np.array([0.1, 0.25]),
        "standard_error": np.array([20.0, 30.0]),
        "share_error": np.array([0.025, 0.0375]),
        "least_share": np.array([0.07, np.nan]),
        "records_to_see": np.array([400.0, np.nan]),
        "records_for_width": None,
        "target": "table",
        "level": 0.95,
        "chance": 0.8,
    }
    return Power(**(values | changes))


def test_rows_name_every_figure() -> None:
    first, second = result(records_for_width=np.array([1600.0, 80.0])).rows()
    assert first == {
        "sex": "F",
        "job": "cook",
        "records": 800,
        "assumed_share": 0.1,
        "assumed_count": 80,
        "standard_error": 20,
        "half_width": Z * 20,
        "share_error": 0.025,
        "share_half_width": Z * 0.025,
        "least_share": 0.07,
        "least_count": pytest.approx(56),
        "records_to_see": 400,
        "times_to_see": 0.5,
        "records_for_width": 1600,
        "times_for_width": 2,
    }
    assert {name for name, value in second.items() if value is None} == {
        "job", "least_share", "least_count", "records_to_see", "times_to_see",
    }  # fmt: skip
    assert "records_for_width" not in result().rows()[0]


def test_arrow_and_repr() -> None:
    assert result().to_arrow().column("least_count").to_pylist() == [pytest.approx(56), None]
    assert repr(result()).splitlines() == [
        "Power(table, 95%, chance 80%)",
        "F, cook: 800 rows, 10.00% ± 4.90%, seen from 7.00%",
        "F, (missing): 800 rows, 25.00% ± 7.35%, not seen at any share",
    ]
