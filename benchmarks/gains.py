"""How much less error the same promise costs: `SFUMATO_DATA=... python benchmarks/gains.py`.

Expected squared error of all counts, divided by the records, relative to that of uniform perturbation with the same
strictest gamma: MATRICES section 10. Columns: tolerances theta, for which rho1 is each value's share, and single
gammas. Matrices know nothing of the table but its gammas; errors are for the table. Then ordered values, section 6.4,
and the time that the matrix of every method takes, of as many values as it can have and of 15,000.

    staircase    fine-grain, objective "error", both directions
    subset       sets of k values under the strictest gamma
    graded       cards for up to three classes of gammas: subset with graded = true
    cover        fine-grain, objective "error", upward only; beside it the paper's matrix, as published
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow.parquet as pq

from sfumato.claims.claim import BOTH, UPWARD
from sfumato.methods.fine_grain_solver import solve_upward
from sfumato.methods.least_error import least_error
from sfumato.methods.ordered.design import best_mixture, best_plateau, best_ranges, errors_of, windows
from sfumato.methods.ordered.drawing import OrderedDrawing
from sfumato.methods.ordered.geometric import Geometric
from sfumato.methods.ordered.plateau import MOST_SEARCHED, Plateau
from sfumato.methods.ordered.ranges import Ranges
from sfumato.methods.perturbation import round_within
from sfumato.methods.staircase import uniform_error
from sfumato.methods.subset.design import best_subset
from sfumato.methods.subset.graded_deck import make_graded_deck
from sfumato.methods.subset.method import best_deck
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound

TOLERANCES = (2.0, 3.0, 5.0, 10.0, 20.0)
GAMMAS = {"eps .5": math.exp(0.5), "eps 1": math.e, "g 4": 4.0, "eps 2": math.exp(2)}
GRADED = (((5, 2), (35, 4)), ((1, 2), (39, 4)), ((5, 4), (35, 16)), ((30, 2), (270, 4)))
LARGE = 15_000
DENSE = 2_000


def tables() -> Iterator[tuple[str, FloatArray]]:
    """Give the shares of real tables, and of Zipf's."""
    folder = Path(os.environ["SFUMATO_DATA"])
    for name, file, column in (
        ("FAERS", "faers2022q3_top40_one_per_case.parquet", "reaction"),
        ("Adult", "adult_complete_45222.parquet", "occupation"),
    ):
        values = pq.read_table(folder / file, columns=[column])[column].drop_null()
        counts = np.array([entry["counts"] for entry in values.value_counts().to_pylist()], dtype=np.float64)
        yield name, np.sort(counts)[::-1] / counts.sum()
    weight = 1 / np.arange(1, 41)
    yield "Zipf-40", weight / weight.sum()


def by_tolerance(shares: FloatArray, theta: float) -> FloatArray:
    """Return FG Eq. (5); infinite where nothing is required."""
    required = theta * shares < 1
    return np.where(required, theta * (1 - shares) / np.where(required, 1 - theta * shares, 1), np.inf)


def bounds_of(gammas: FloatArray) -> tuple[Bound, ...]:
    return tuple(Bound(None if math.isinf(g) else Fraction(g)) for g in gammas)


def error(matrix: Matrix, shares: FloatArray) -> float:
    """Return L2 for these shares; infinite without an inverse."""
    if not matrix.is_invertible:
        return math.inf
    return float((matrix.inverse_squared_apply(matrix.apply(shares)) - shares).sum())


def errors(shares: FloatArray, gammas: FloatArray) -> dict[str, float]:
    """Return every choice relative to uniform."""
    bounds, equal, least = bounds_of(gammas), np.ones(shares.size), float(gammas.min())
    uniform = uniform_error(least, shares.size)
    graded, found_subset = make_graded_deck(bounds), error(best_deck(shares.size, Fraction(least)), shares)
    found = {
        "staircase": error(least_error(bounds, BOTH, gammas, equal), shares),
        "subset": found_subset,
        "graded": found_subset if graded is None else error(graded.matrix, shares),
        "as published, upward": error(round_within(solve_upward(gammas, shares), bounds, UPWARD), shares),
        "cover, upward": error(least_error(bounds, UPWARD, gammas, equal), shares),
    }
    return {name: value / uniform for name, value in found.items()}


def main() -> None:
    for name, shares in tables():
        columns = {f"th {theta:g}": by_tolerance(shares, theta) for theta in TOLERANCES}
        columns |= {title: np.full(shares.size, gamma) for title, gamma in GAMMAS.items()}
        found = {title: errors(shares, gammas) for title, gammas in columns.items()}
        print(f"\n{name}, {shares.size} values; uniform = 1\n{'':22}" + "".join(f"{title:>9}" for title in columns))
        for choice in next(iter(found.values())):
            print(f"{choice:22}" + "".join(f"{found[title][choice]:>9.3f}" for title in columns))
    graded()
    ordered()
    times()


def graded() -> None:
    """Print the errors of the cards beside those of all graded sets: the table of 5.2."""
    print("\nclasses of gammas, equal counts: subset with the smallest, all graded sets, and the cards")
    for classes in GRADED:
        bounds = tuple(Bound(Fraction(gamma)) for size, gamma in classes for _ in range(size))
        found = make_graded_deck(bounds)
        assert found is not None
        plain = best_subset(float(classes[0][1]), len(bounds)).error
        print(f"  {classes!s:24}{plain:>10,.1f}{found.best:>10,.1f}{found.error:>10,.1f}")


def ordered() -> None:
    """Print the errors of distribution functions and means at equal counts, times the records: the table of 6.4."""
    print("\nN mean Var F(c), in brackets N Var(mean), the range scaled to one")
    print(
        f"{'':22}"
        + "".join(f"{name:>18}" for name in ("uniform", "plateau", "ranges + single", "ranges + sets", "drawn"))
    )
    for m, gamma in ((16, 4.0), (32, 4.0), (64, math.exp(2)), (100, 4.0)):
        mixture = best_mixture(m, gamma)
        found = (
            errors_of(windows(m, 1, gamma).chances),
            best_plateau(m, gamma)[1],
            best_ranges(m, gamma).errors,
            mixture.errors,
            errors_of(mixture.mechanism().chances),
        )
        line = "".join(f"{f'{each.distribution:.4g} ({each.mean:.3g})':>18}" for each in found)
        print(f"{f'm = {m}, g = {gamma:.3g}':22}{line}")


def times() -> None:
    """Print how long a matrix takes, rounding and exact checks included."""
    weight = 1 / np.arange(1, LARGE + 1)
    gammas = by_tolerance(weight / weight.sum(), 10.0)
    few = gammas[:: LARGE // DENSE][:DENSE]
    plans: tuple[tuple[str, int, Callable[[], Matrix]], ...] = (
        ("staircase", LARGE, lambda: least_error(bounds_of(gammas), BOTH, gammas, np.ones(LARGE))),
        ("cover", LARGE, lambda: least_error(bounds_of(gammas), UPWARD, gammas, np.ones(LARGE))),
        ("subset", LARGE, lambda: best_deck(LARGE, Fraction(4))),
        ("graded", LARGE, lambda: graded_cards((Bound(Fraction(2)),) * 5000 + (Bound(Fraction(4)),) * (LARGE - 5000))),
        ("staircase", DENSE, lambda: least_error(bounds_of(few), BOTH, few, np.ones(DENSE))),
        ("plateau, alpha stated", DENSE, lambda: in_order(Plateau(alpha=0.7), DENSE)),
        ("plateau", MOST_SEARCHED, lambda: in_order(Plateau(), MOST_SEARCHED)),
        ("geometric", Geometric.most_values, lambda: in_order(Geometric(steps=5), Geometric.most_values)),
        ("ranges", Ranges.most_values, lambda: in_order(Ranges(), Ranges.most_values)),
        (
            "ranges, single values",
            Ranges.most_values,
            lambda: in_order(Ranges(mixed_with="values"), Ranges.most_values),
        ),
    )
    print("\nseconds to plan a matrix")
    for title, m, plan in plans:
        start = perf_counter()
        plan()
        print(f"  {title:24}{m:>8,} values{perf_counter() - start:8.2f}")


def graded_cards(bounds: tuple[Bound, ...]) -> Matrix:
    found = make_graded_deck(bounds)
    assert found is not None
    return found.matrix


def in_order(method: OrderedDrawing, m: int) -> Matrix:
    """Return the matrix of a method for the numbers 0 .. m - 1 and gamma = 4."""
    domain = SensitiveDomain((Domain("x", tuple(range(m))),))
    return method.matrix_for(domain, (Bound(Fraction(4)),) * m, np.full(m, 4.0), np.ones(m))


if __name__ == "__main__":
    main()
