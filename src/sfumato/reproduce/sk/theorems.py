"""SK Theorems 1-5, Property 1 and Corollary 1, by enumeration of small tables."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from sfumato.audit.eligibility import by_uniform_prior
from sfumato.methods.suppression import Variant, costs, suppress
from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.variants import seat, violating
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, decimal, sentence
from sfumato.reproduce.sk.bayes import Counts, every, releases, sorted_tables
from sfumato.reproduce.sk.examples import ELL, T

VALUES = 4
SERIES: dict[str, Variant] = {
    "R-suppression, as published": "r-suppression",
    "rotation (proved)": "rotation",
    "Safe D": "safe-d",
    "Unsafe D": "unsafe-d",
}
DETERMINISTIC: tuple[Variant, ...] = ("minimal", "unsafe-d", "safe-d")
LEMMA = (
    "Lemma 1 takes all eligible sets as equally likely, but the coin of STEP-1 and the tables that lead to a set make "
    "some likelier than others"
)
SIXTY = (15, 14, 6, 5, 5)


def theorems(setting: Setting) -> Outcome:
    """Each theorem on all small tables, and the largest posterior by the size of the table."""
    sizes = range(6, 21) if setting.quick else (*range(6, 21), 24, 28, 32, 36, 40)
    rows = []
    for done, n in enumerate(sizes, 1):
        worst = {name: releases(n, VALUES, ELL, variant).worst for name, variant in SERIES.items()}
        rows += [{"records": n, "algorithm": name, "largest posterior": float(p)} for name, p in worst.items()]
        setting.progress(0.7 * done / len(sizes))
    points = [Point(str(row["algorithm"]), float(row["records"]), float(row["largest posterior"])) for row in rows]
    points += [Point("the limit 1/l", float(n), 1 / ELL) for n in sizes]
    most = 10 if setting.quick else 12
    highest = max(float(row["largest posterior"]) for row in rows if row["algorithm"] == "rotation (proved)")
    comparisons = (*_holding(most), *_failing(highest), *_theorem_4(most))
    return Outcome(
        comparisons,
        tuple(rows),
        Chart(
            "The largest posterior that a value is the most frequent one, by the number of records, four values and "
            "l = 3. R-suppression is above one third from eight records on; rotation and Safe D stay at one "
            "third; Unsafe D reaches one.",
            "records of the table",
            "largest posterior",
            tuple(points),
        ),
        f"all tables of up to {max(sizes)} records and {VALUES} values; every table equally likely beforehand",
        notes=(_all_goes(),),
    )


def _small(most: int) -> Iterator[tuple[Counts, int]]:
    """All sorted tables of up to so many records that are not l-eligible."""
    for ell, n, m in product((2, 3, 4), range(3, most + 1), (2, 3, 4)):
        if m >= ell:
            yield from ((t, ell) for t in sorted_tables(n, m) if violating(Levels(list(t)), ell))


# --- what holds -----------------------------------------------------------------------------------------------------


def _holding(most: int) -> Iterator[Comparison]:
    tables = list(_small(most))
    of_all = f"of {len(tables)} tables of up to {most} records"
    orders = sum(_keeps_order(table) for table, _ in tables)
    yield sentence(
        "Property 1: D-suppression and the order",
        "the order of the frequencies stays, and S1 stays among the most frequent ones",
        f"{orders} {of_all}",
        orders == len(tables),
    )
    made = [releases(n, VALUES, ELL, variant) for n in range(6, most + 1) for variant in DETERMINISTIC]
    alike = [
        found.posteriors(kept) == {max(kept): Fraction(1, kept.count(max(kept)))}
        for found in made
        for kept in found.weights
    ]
    yield sentence(
        "Property 1: D-suppression and the posterior",
        "1/|top(T_P)| for each of the most frequent values, 0 for the others",
        f"{sum(alike)} of {len(alike)} releases of up to {most} records",
        all(alike),
    )
    stops = [suppress(table, ell, "safe-d", draw=lambda below: 0) for table, ell in tables]
    right = sum(
        found.kept.max() == table[ell - 1] and max(b.dominant for b in found.beliefs.values()) <= Fraction(1, ell)
        for found, (table, ell) in zip(stops, tables, strict=True)
    )
    yield sentence(
        "Theorem 1: Safe D",
        "it stops at level F_l, and no posterior is above 1/l",
        f"{right} {of_all}",
        right == len(tables),
    )
    least = sum(costs(table, ell)["unsafe-d"] == _least(table, ell) for table, ell in tables)
    yield sentence(
        "Theorem 2: Unsafe D",
        "nothing that has P-eligibility and l-candidacy suppresses less",
        f"{least} {of_all}, by all their parts",
        least == len(tables),
    )
    found = suppress(T, ELL, "minimal", draw=lambda below: 0)
    candidacy = int(np.sort(found.kept)[-ELL]) + found.withheld
    belief = max(b.dominant for b in found.beliefs.values())
    yield sentence(
        "Corollary 1: the converse is false",
        "2 + 6 > 18/3, l-candidacy, without S-ambiguity",
        f"{candidacy} > {sum(T)}/{ELL}, and a posterior of {belief}",
        ELL * candidacy > sum(T) and belief > Fraction(1, ELL),
    )


def _keeps_order(table: Counts) -> bool:
    """Whether counts stay descending after any number of removals."""
    levels = Levels(list(table))
    cuts = [levels.cut(removed, len(table)) for removed in range(sum(table))]
    return all(list(cut) == sorted(cut, reverse=True) for cut in cuts)


def _least(table: Counts, ell: int) -> int:
    """The least suppression of all parts of a table that have P-eligibility and l-candidacy."""
    n = sum(table)
    parts = (part for part in product(*(range(count + 1) for count in table)) if ell * max(part) <= sum(part))
    return min(n - sum(part) for part in parts if ell * (sorted(part, reverse=True)[ell - 1] + n - sum(part)) > n)


# --- what does not --------------------------------------------------------------------------------------------------


def _failing(highest: float) -> Iterator[Comparison]:
    """What Theorems 3 and 5 rule out. highest: the largest posterior that was found of rotation, for l = 3."""
    for kept, n in (((2, 2, 1, 1), 8), ((3, 3, 2, 1, 1), 18), (SIXTY, 60)):
        found = by_uniform_prior(np.array(kept), n, ELL, "r-suppression")
        posterior = max(belief.dominant for belief in found.beliefs.values())
        exact = f"{posterior} = " if posterior.denominator < 1000 else ""
        yield sentence(
            f"Theorems 3 and 5: T_P = {kept} of {n} records",
            f"no posterior is above 1/{ELL}",
            f"{exact}{decimal(posterior, 4)}",
            posterior <= Fraction(1, ELL),
            proved=f"rotation: {decimal(highest, 4)} at most",
            because=LEMMA,
        )
    found = by_uniform_prior(np.array((28, 27, 1)), 60, 2, "r-suppression")
    posterior = max(belief.dominant for belief in found.beliefs.values())
    yield sentence(
        "Theorems 3 and 5: l = 2, T_P = (28, 27, 1) of 60 records",
        "no posterior is above 1/2",
        f"{posterior} = {decimal(posterior, 4)}",
        posterior <= Fraction(1, 2),
        proved=f"rotation: {decimal(releases(12, 3, 2, 'rotation').worst, 4)} at most",
        because=LEMMA,
    )


def _all_goes() -> str:
    """With as many values as l, the last interval of STEP-1 holds the level 0."""
    table = (5, 2, 1)
    levels = Levels(list(table))
    seatings = every(lambda draw: seat(levels, ELL, "r-suppression", draw).slots)
    nothing = sum(chance for chance, slots in seatings if not any(slots))
    kept = suppress(table, ELL, "rotation", draw=lambda below: 0).kept.sum()
    return (
        f"Where there are as many values as l, R-suppression can suppress all: of {table} with l = {ELL} with "
        f"probability {nothing}; rotation always publishes {kept} records of it."
    )


# --- Theorem 4 ------------------------------------------------------------------------------------------------------


def _theorem_4(most: int) -> Iterator[Comparison]:
    """The inequality, a step of its proof, and whether R-suppression is in the family that it speaks of."""
    tables = list(_small(most))
    right = sum(_never_falls(table, ell) for table, ell in tables)
    yield sentence(
        "Theorem 4: the expected suppression",
        "none of the family is expected to suppress less than R-suppression",
        f"the mean suppression never falls with h, in {right} of {len(tables)} tables; so 1/l for each of h = 1..l is "
        "the cheapest choice",
        right == len(tables),
    )
    own, other = _level_chance(T, [Fraction(1, 3)] * 3), _level_chance(T, [Fraction(0), *[Fraction(1, 3)] * 3])
    yield sentence(
        "Theorem 4: a step of its proof",
        "R-suppression picks each level down to F_(l+1) at least as often as any of the family",
        f"level {T[ELL]} of the example: {own}, and {other} if h is one of 2, 3, 4",
        own >= other,
        because="the level F_(l+1) belongs to two intervals; the inequality holds all the same, by the mean "
        "suppression for each h",
    )
    worst = releases(8, VALUES, ELL, "r-suppression").worst
    yield sentence(
        "Theorem 4: R-suppression is in the family",
        "its members come to l-dichotomy",
        f"a posterior of {worst} for l = {ELL}",
        worst <= Fraction(1, ELL),
        proved=f"rotation: {costs(T, ELL)['rotation']} records of the example instead of "
        f"{decimal(costs(T, ELL)['r-suppression'], 2)}",
        because="Theorem 3 fails, so that R-suppression is cheaper than what keeps to the requirement",
    )


def _never_falls(table: Counts, ell: int) -> bool:
    ends = (*table, 0)
    means = []
    for h in range(1, len(table) + 1):
        left = [_after(table, ell, h, level) for level in range(ends[h], ends[h - 1] + 1)]
        means.append(sum(table) - Fraction(sum(left), len(left)))
    return all(mean <= following for mean, following in pairwise(means)) and (
        costs(table, ell)["r-suppression"] == sum(means[:ell]) / ell
    )


def _after(table: Counts, ell: int, h: int, level: int) -> int:
    """|T_P| of STEP-2, record by record, if S_1 has come to rank h."""
    left, n = [*table[1:h], level, *table[h:]], sum(table)
    while ell * max(left) > sum(left) or ell * (sorted(left, reverse=True)[ell - 1] + n - sum(left)) <= n:
        left[len(left) - 1 - left[::-1].index(max(left))] -= 1
    return sum(left)


def _level_chance(table: Counts, chances: list[Fraction]) -> Fraction:
    """The probability of the level F_(l+1), if h = 1, 2, ... is picked with these probabilities."""
    ends, level = (*table, 0), table[ELL]
    intervals = [(ends[h], ends[h - 1]) for h in range(1, len(chances) + 1)]
    return sum(
        (c / (high - low + 1) for c, (low, high) in zip(chances, intervals, strict=True) if low <= level <= high),
        Fraction(0),
    )
