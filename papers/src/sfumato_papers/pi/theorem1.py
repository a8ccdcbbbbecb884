"""PI Theorem 1: groups that meet the condition for every value, and what is inferred from them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.auditor.worlds import chance_of, enumerate_posteriors
from sfumato.methods.robustness.check import (
    delta_ceiling,
    meets_published_delta,
    meets_repaired_delta,
    published_supremum,
    repaired_delta_ceiling,
    worst_posteriors,
)
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import compositions, posterior
from sfumato.methods.robustness.prior import Prior
from sfumato.values.steps import WITHHELD
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, decimal, sentence
from sfumato_papers.pi.worlds import arrangements

SIZES = (*range(2, 13), 15, 20, 25, 30)
LIMITS = (2, 3, 5)
LARGEST = Fraction(1, 100)
"""f_max of the groups that are drawn; the worst case is approached as it goes to 0."""
STEPS = tuple((size, r) for r in (2, 3) for size in range(3, 50) if r < size)
"""From N to N + 1 tuples."""


def theorem_1(setting: Setting) -> Outcome:
    """The worst group of each size, by the published and by the repaired condition."""
    rows = [_row(size, r) for r in LIMITS for size in SIZES if size >= r]
    worlds = 7 if setting.quick else 8
    points = [
        Point(f"r = {row['r']}, {version}", float(row["N"]), float(row[version]))
        for version in ("as published", "repaired")
        for row in rows
    ]
    return Outcome(
        (*_counter_examples(worlds), *_large_groups(rows, worlds), _merging(), _algorithm()),
        tuple(rows),
        Chart(
            "The largest posterior of a group at the ceiling, by its size. " + "; ".join(_seen(rows)) + ".",
            "tuples in the group",
            "largest posterior",
            tuple(points),
        ),
        "groups of one tuple (f, g, ..., g) and others (g, f, ..., f), g at the ceiling",
    )


def _seen(rows: Sequence[Mapping[str, float]]) -> Iterator[str]:
    """What the chart shows, series by series."""
    for r in LIMITS:
        of = [row for row in rows if row["r"] == r]
        for version in ("as published", "repaired"):
            yield (
                f"r = {r}, {version}: {of[0][version]:.3f} with {of[0]['N']:g} tuples, {of[-1][version]:.3f} with "
                f"{of[-1]['N']:g}"
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


def _counter_examples(worlds: int) -> Iterator[Comparison]:
    for size, r, f in ((3, 2, Fraction(1, 10)), (6, 3, Fraction(1, 10)), (10, 2, Fraction(1, 10))):
        alone, others = _worst(size, r, f)
        tuples = [alone, *[others] * (size - 1)]
        meets, repaired = (test(tuples, [1] * size, r) for test in (meets_published_delta, meets_repaired_delta))
        found = by_worlds(tuples) if size <= worlds else _at_ceiling(size, r, f)
        exact = f"{found} = " if found.denominator < 1000 else ""
        how = f"by all {math.factorial(size):,} worlds" if size <= worlds else "by sums over the states of the group"
        two = posterior([[f, 1 - f], [others[0], 1 - others[0]]], [1, size - 1], [1, size - 1])[0, 0]
        yield sentence(
            f"Theorem 1: N = {size}, r = {r}, f_max = {f}",
            f"a group that meets (4) has no posterior above 1/{r}",
            f"it {'meets' if meets else 'does not meet'} (4) for every value, and p(t1:x) = "
            f"{exact}{decimal(found, 4)}, {how}",
            not meets or found <= Fraction(1, r),
            proved=f"the group {'meets' if repaired else 'does not meet'} the repaired condition",
            because=f"with x against all else the same group has {two}; but t1, {float(f / others[0]):.2f} times as "
            "likely as the others to have x, is as many times less likely than they to have each other value",
        )


def by_worlds(tuples: Sequence[Sequence[Fraction]]) -> Fraction:
    """Return p(t1:x1) of tuples with as many different values by PI Eqs. (1)-(3): a sum over all N! worlds."""
    size = len(tuples)
    whole = [[int(p * math.lcm(*(q.denominator for q in row))) for p in row] for row in tuples]
    return enumerate_posteriors(arrangements([1] * size), chance_of(whole, range(size)), size)[0][0]


def _by_worlds_at_ceiling(size: int, r: int) -> Fraction:
    alone, others = _worst(size, r, LARGEST)
    return by_worlds([alone, *[others] * (size - 1)])


def _at_ceiling(size: int, r: int, f: Fraction) -> Fraction:
    """p(t1:x) of the group at the ceiling, by sums over states."""
    found: Fraction = posterior(_worst(size, r, f), [1, size - 1], [1] * size)[0, 0]
    return found


def _large_groups(rows: Sequence[Mapping[str, float]], worlds: int) -> Iterator[Comparison]:
    """What is said of large N, on groups at the ceiling with the f_max of the chart."""
    found = {(size, r): _at_ceiling(size, r, LARGEST) for size, r in {*STEPS, *((n + 1, r) for n, r in STEPS)}}
    told = {size: found[size, 2] for size in (3, 10, 50)}
    repaired = max(row["repaired"] * row["r"] for row in rows)
    supremum = published_supremum(1000, 2)
    yield sentence(
        "Theorem 1: extremely large groups",
        "there is no breach",
        f"r = 2, f_max = {LARGEST}: " + ", ".join(f"{decimal(p, 4)} for N = {n}" for n, p in told.items()),
        max(told.values()) <= Fraction(1, 2),
        proved=f"by the repaired condition {repaired:.4f} times 1/r at most",
        because="what (4) allows comes to (N-1)/((N-1) + (r-1)^2) as f_max goes to 0: "
        f"{supremum} for N = 1000 and r = 2",
    )
    small = {(size, r): _by_worlds_at_ceiling(size, r) for size, r in found if size <= worlds}
    rises = [found[size, r] < found[size + 1, r] for size, r in STEPS]
    counted = [small[size, r] < small[size + 1, r] for size, r in STEPS if size + 1 <= worlds]
    kept = sum(p <= Fraction(1, r) for (_, r), p in found.items())
    yield sentence(
        "Section IV: a larger group",
        "it makes the guarantee easier to reach",
        f"groups at the ceiling keep to 1/r in {kept} of {len(found)} cases, and p(t1:x) rises from N to N + 1 in "
        f"{sum(rises)} of {len(rises)}. For {len(counted)} of these all worlds were gone through: it rises in "
        f"{sum(counted)}, and {sum(p == found[at] for at, p in small.items())} of {len(small)} posteriors are the same",
        kept == len(found),
        proved=f"by the repaired condition {repaired:.4f} times 1/r at most, N up to {max(SIZES)}",
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
    meets = meets_published_delta([[Fraction(n, 90) for n in prior.weights[cell]] for cell in cells], [1, 1, 1], 2)
    worst = float(worst_posteriors(compositions(merged, cells, values), prior).max())
    made = group_records(cells, values, [cells], order, 2, [prior])
    kept = float(worst_posteriors(compositions(made, cells, values), prior).max())
    return sentence(
        "Section IV: the bottom-up algorithm on three tuples, r = 2",
        "its groups are 2-robust",
        f"groups: {merged.max() + 1}; the largest posterior is {worst:.4f}",
        worst <= 0.5,
        proved=f"{kept:.4f}, and {np.count_nonzero(made == WITHHELD)} tuple withheld",
        because=f"all three tuples together {'meet' if meets else 'do not meet'} (4), which does not bound posteriors "
        "by 1/r where there are several values",
    )
