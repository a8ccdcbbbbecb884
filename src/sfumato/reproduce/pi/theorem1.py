"""PI Theorem 1: groups that meet the condition for every value, and what is inferred from them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.methods.robustness import (
    WITHHELD,
    Prior,
    compositions,
    delta_ceiling,
    group_records,
    meets_published_delta,
    meets_repaired_delta,
    merge_records,
    posterior,
    published_supremum,
    repaired_delta_ceiling,
    worst_posteriors,
)
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, decimal, sentence

SIZES = (*range(2, 13), 15, 20, 25, 30)
LIMITS = (2, 3, 5)
LARGEST = Fraction(1, 100)
"""f_max of the groups that are drawn; the worst case is approached as it goes to 0."""
TWO_OUTCOMES = (
    'the condition is derived for "x" or "not x"; with several values the tuple that is likelier to have x can be less '
    "likely to have the others, too"
)


def theorem_1(setting: Setting) -> Outcome:
    """The worst group of each size, by the published and by the repaired condition."""
    rows = [_row(size, r) for r in LIMITS for size in SIZES if size >= r]
    repaired = max(float(row["repaired"]) for row in rows if row["r"] == 2)
    points = [
        Point(f"r = {row['r']}, {version}", float(row["N"]), float(row[version]))
        for version in ("as published", "repaired")
        for row in rows
    ]
    return Outcome(
        (*_counter_examples(), *_large_groups(repaired), _merging(), _algorithm()),
        tuple(rows),
        Chart(
            "The largest posterior of a group at the ceiling, by its size. With the published condition it rises with "
            "the size, far above 1/r; with the repaired one it stays at 1/r: one half, one third and one fifth.",
            "tuples in the group",
            "largest posterior",
            tuple(points),
        ),
        "groups of one tuple (f, g, ..., g) and others (g, f, ..., f), g at the ceiling",
    )


def _worst(size: int, r: int, f: Fraction) -> list[list[Fraction]]:
    """One tuple (f, g, ..., g), all others (g, f, ..., f), at the ceiling for every value."""
    g = f - delta_ceiling(size, r, f)
    return [[f, *[g] * (size - 1)], [g, *[f] * (size - 1)]]


def _row(size: int, r: int) -> dict[str, float]:
    g = float(LARGEST) - repaired_delta_ceiling(size, r, float(LARGEST))
    rows = np.array([[float(LARGEST), *[g] * (size - 1)], [g, *[float(LARGEST)] * (size - 1)]])
    return {
        "N": size,
        "r": r,
        "limit": 1 / r,
        "as published": float(posterior(_worst(size, r, LARGEST), [1, size - 1], [1] * size)[0, 0]),
        "supremum, as published": float(published_supremum(size, r)),
        "repaired": float(posterior(rows, [1, size - 1], [1] * size)[0, 0]),
    }


def _counter_examples() -> Iterator[Comparison]:
    for size, r, f in ((3, 2, Fraction(1, 10)), (6, 3, Fraction(1, 10)), (10, 2, Fraction(1, 10))):
        alone, others = _worst(size, r, f)
        tuples = [alone, *[others] * (size - 1)]
        meets, repaired = (test(tuples, [1] * size, r) for test in (meets_published_delta, meets_repaired_delta))
        found = posterior([alone, others], [1, size - 1], [1] * size)[0, 0]
        exact = f"{found} = " if found.denominator < 1000 else ""
        yield sentence(
            f"Theorem 1: N = {size}, r = {r}, f_max = {f}",
            f"a group that meets (4) has no posterior above 1/{r}",
            f"it {'meets' if meets else 'does not meet'} (4) for every value, and p(t1:x) = {exact}{decimal(found, 4)}",
            not meets or found <= Fraction(1, r),
            proved=f"the group {'meets' if repaired else 'does not meet'} the repaired condition",
            because=TWO_OUTCOMES,
        )


def _large_groups(repaired: float) -> Iterator[Comparison]:
    """What is said of large N. repaired: the largest posterior of a group that meets the repaired condition, r = 2."""
    sizes = (3, 10, 100, 1000)
    found = {size: published_supremum(size, 2) for size in sizes}
    yield sentence(
        "Theorem 1: extremely large groups",
        "there is no breach",
        "r = 2: posteriors come to " + ", ".join(f"{p} for N = {n}" for n, p in found.items()),
        max(found.values()) <= Fraction(1, 2),
        proved=f"{repaired:.4f} at most, by the repaired condition",
        because="what (4) allows is (N-1)/((N-1) + (r-1)^2), which comes to 1 as N grows",
    )
    grows = [published_supremum(n, r) <= published_supremum(n + 1, r) for n in range(3, 50) for r in (2, 3) if r < n]
    yield sentence(
        "Section IV: a larger group",
        "it makes the guarantee easier to reach",
        f"the ceiling rises with N, and so does the posterior that it allows, in {sum(grows)} of {len(grows)} settings",
        not all(grows),
        because="a looser condition is easier to meet, but does not guarantee 1/r",
    )


def _merging() -> Comparison:
    """Two groups at one half whose union is far above it; no value occurs twice."""
    high, low = Fraction(1, 10), Fraction(1, 1000)
    first, second, third = [high, high, low, low], [high] * 4, [low, high, high, high]
    halves = [posterior([first[:2], second[:2]], [1, 1], [1, 1]), posterior([third[2:]], [2], [1, 1])]
    union: Any = posterior([first, second, third], [1, 1, 2], [1, 1, 1, 1])
    largest = max(half.max() for half in halves)
    return sentence(
        "Section I: r-robustness is not monotone",
        "a group that violates it can be split into two that do not",
        f"two groups with {largest} each have {union.max()} = {decimal(union.max(), 4)} together",
        union.max() > Fraction(1, 2) >= largest,
    )


def _algorithm() -> Comparison:
    """t1 = (9, 5, 5)/90, t2 = t3 = (5, 9, 9)/90, r = 2."""
    cells, values, order = np.array([0, 1, 1]), np.array([0, 1, 2]), np.arange(3)
    prior = Prior(np.array([[9, 5, 5], [5, 9, 9]]), np.array([90, 90]))
    merged = merge_records(cells, values, [cells], order, 2, [prior])
    worst = float(worst_posteriors(compositions(merged, cells, values), prior).max())
    made = group_records(cells, values, [cells], order, 2, [prior])
    kept = float(worst_posteriors(compositions(made.groups, cells, values), prior).max())
    return sentence(
        "Section IV: the bottom-up algorithm on three tuples, r = 2",
        "its groups are 2-robust",
        f"one group with a posterior of {worst:.4f}",
        worst <= 0.5,
        proved=f"{kept:.4f}, and {np.count_nonzero(made.groups == WITHHELD)} tuple withheld",
        because=TWO_OUTCOMES,
    )
