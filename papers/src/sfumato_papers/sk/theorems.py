"""SK Theorems 1-5, Property 1 and Corollary 1, by enumeration of small tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import numpy as np

from sfumato.auditor.attackers.eligibility import by_uniform_prior
from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.r_suppression import chances
from sfumato.methods.suppression.suppress import VARIANTS, Variant, costs, seat, suppress, violating
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, decimal, sentence
from sfumato_papers.sk.bayes import Counts, every, releases, sorted_tables
from sfumato_papers.sk.examples import ELL, T

VALUES = 4
SERIES: dict[str, Variant] = {
    "R-suppression, as published": "r-suppression",
    "rotation (proved)": "rotation",
    "Safe D": "safe-d",
    "Unsafe D": "unsafe-d",
}
DETERMINISTIC: tuple[Variant, ...] = ("minimal", "unsafe-d", "safe-d")


def theorems(setting: Setting) -> Outcome:
    """Each theorem on all small tables, and the largest posterior by the size of the table."""
    sizes = range(6, 21) if setting.quick else (*range(6, 21), 24, 28, 32, 36, 40)
    worst: dict[str, dict[int, Fraction]] = {name: {} for name in SERIES}
    for done, n in enumerate(sizes, 1):
        for name, variant in SERIES.items():
            worst[name][n] = releases(n, VALUES, ELL, variant).worst
        setting.progress(0.7 * done / len(sizes))
    rows = [{"records": n, "algorithm": a, "largest posterior": float(worst[a][n])} for n in sizes for a in SERIES]
    points = [Point(name, float(n), float(p)) for name, of in worst.items() for n, p in of.items()]
    points += [Point("the limit 1/l", float(n), 1 / ELL) for n in sizes]
    most = 10 if setting.quick else 12
    return Outcome(
        (*_holding(most), *_failing(), *_theorem_4(most)),
        tuple(rows),
        Chart(
            f"The largest posterior that a value is the most frequent one, by the number of records, {VALUES} values "
            f"and l = {ELL}. " + "; ".join(_course(name, of) for name, of in worst.items()) + ".",
            "records of the table",
            "largest posterior",
            tuple(points),
        ),
        f"all tables of up to {max(sizes)} records and {VALUES} values; every table equally likely beforehand",
        notes=(_all_goes(),),
    )


def _course(name: str, worst: dict[int, Fraction]) -> str:
    """What the chart shows of an algorithm."""
    above = [n for n, p in worst.items() if p > Fraction(1, ELL)]
    lies = f"is above one third first with {above[0]} records" if above else "is never above one third"
    low, high = min(worst.values()), max(worst.values())
    return f"{name} {lies} ({float(low):.3f} to {float(high):.3f})"


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
        "Property 1 (1): D-suppression and the order",
        "the order of the frequencies stays, and S1 stays among the most frequent ones",
        f"{orders} {of_all}, record by record",
        orders == len(tables),
    )
    yield _posteriors(most)
    cheapest = [
        _excess(table, level) == _least(table, ell, level) for table, ell in tables for level in range(1, max(table))
    ]
    yield sentence(
        "Property 1 (2): D-suppression and a level",
        "nothing that stops at the same level suppresses less",
        f"{sum(cheapest)} of {len(cheapest)} levels {of_all}, by all their parts",
        all(cheapest),
    )
    yield from _theorem_1(tables, most)
    least = sum(costs(table, ell)["unsafe-d"] == _least(table, ell) for table, ell in tables)
    yield sentence(
        "Theorem 2: Unsafe D",
        "nothing that has P-eligibility and l-candidacy suppresses less",
        f"{least} {of_all}, by all their parts",
        least == len(tables),
    )
    yield from _corollary_1(most)


def _posteriors(most: int) -> Comparison:
    made = [releases(n, VALUES, ELL, variant) for n in range(6, most + 1) for variant in DETERMINISTIC]
    alike = [
        found.posteriors(kept) == {max(kept): Fraction(1, kept.count(max(kept)))}
        for found in made
        for kept in found.weights
    ]
    return sentence(
        "Property 1 (1): D-suppression and the posterior",
        "1/|top(T_P)| for each of the most frequent values, 0 for the others",
        f"{sum(alike)} of {len(alike)} releases of up to {most} records",
        all(alike),
    )


def _theorem_1(tables: Sequence[tuple[Counts, int]], most: int) -> Iterator[Comparison]:
    stops = [next(left for left in _by_record(table) if _is_safe(left, ell)) for table, ell in tables]
    right = sum(stop == _cut(table, table[ell - 1]) for stop, (table, ell) in zip(stops, tables, strict=True))
    yield sentence(
        "Theorem 1: Safe D",
        "P-eligibility and |top(T_P)| >= l first hold at the start of level F_l",
        f"{right} of {len(tables)} tables of up to {most} records, record by record",
        right == len(tables),
    )
    worst = [releases(n, VALUES, ELL, "safe-d").worst for n in range(6, most + 1)]
    yield sentence(
        "Theorem 1: Safe D and the posterior",
        f"none is above 1/{ELL}",
        f"{max(worst)} at most in all releases of tables of 6 to {most} records and {VALUES} values",
        max(worst) <= Fraction(1, ELL),
    )


def _corollary_1(most: int) -> Iterator[Comparison]:
    ambiguous = [
        ELL * (kept[ELL - 1] + n - sum(kept)) > n
        for n in range(6, most + 1)
        for variant in VARIANTS
        for found in (releases(n, VALUES, ELL, variant),)
        for kept in found.weights
        if max(found.posteriors(kept).values()) <= Fraction(1, ELL)
    ]
    yield sentence(
        "Corollary 1: S-ambiguity and l-candidacy",
        "where no posterior is above 1/l there is l-candidacy",
        f"in {sum(ambiguous)} of {len(ambiguous)} such releases of tables of 6 to {most} records, by "
        f"{len(VARIANTS)} algorithms",
        all(ambiguous),
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


def _by_record(table: Counts) -> Iterator[Counts]:
    """D-suppression, record by record: of the most frequent values that with the lowest rank."""
    left = list(table)
    while sum(left):
        yield tuple(left)
        left[len(left) - 1 - left[::-1].index(max(left))] -= 1


def _keeps_order(table: Counts) -> bool:
    return all(list(left) == sorted(left, reverse=True) and left[0] == max(left) for left in _by_record(table))


def _is_safe(left: Counts, ell: int) -> bool:
    """P-eligibility, and S-ambiguity by Property 1."""
    return ell * max(left) <= sum(left) and left.count(max(left)) >= ell


def _cut(table: Counts, level: int) -> Counts:
    return tuple(min(count, level) for count in table)


def _excess(table: Counts, level: int) -> int:
    return sum(table) - sum(_cut(table, level))


def _least(table: Counts, ell: int, level: int | None = None, size: int | None = None) -> int:
    """The least suppression of all parts of a table at this level; or with P-eligibility and l-candidacy.

    size: |T|, where the table has lost records before.
    """
    n, whole = sum(table), size or sum(table)
    parts = product(*(range(count + 1) for count in table))
    if level is not None:
        return min(n - sum(part) for part in parts if max(part) == level)
    eligible = (sorted(part, reverse=True) for part in parts if ell * max(part) <= sum(part))
    return min(n - sum(part) for part in eligible if ell * (part[ell - 1] + whole - sum(part)) > whole)


# --- what does not --------------------------------------------------------------------------------------------------


def _failing() -> Iterator[Comparison]:
    """What Theorems 3 and 5 rule out, and rotation on all tables that the attacker takes for equally likely."""
    for kept, n, ell in (
        ((2, 2, 1, 1), 8, 3),
        ((3, 3, 2, 1, 1), 18, 3),
        ((15, 14, 6, 5, 5), 60, 3),
        ((28, 27, 1), 60, 2),
    ):
        found = by_uniform_prior(np.array(kept), n, ell, "r-suppression")
        posterior = max(belief.dominant for belief in found.beliefs.values())
        exact = f"{posterior} = " if posterior.denominator < 1000 else ""
        yield sentence(
            f"Theorems 3 and 5: l = {ell}, T_P = {kept} of {n} records",
            f"no posterior is above 1/{ell}",
            f"{exact}{decimal(posterior, 4)}, all tables of {n} records and {len(kept)} values being equally likely",
            posterior <= Fraction(1, ell),
            proved=f"rotation: {releases(n, len(kept), ell, 'rotation').worst} at most, in all releases of the same "
            "tables",
            because=_lemma_1(kept, n, ell),
        )


def _lemma_1(kept: Counts, n: int, ell: int) -> str:
    """How likely the tables that can lead to a release do so."""
    tables = [Levels(list(t)) for t in sorted_tables(n, len(kept)) if ell * t[0] > n and t[ell:] == kept[ell:]]
    found = [sum(chances(levels, ell, kept[:ell]), Fraction(0)) for levels in tables]
    able = [chance for chance in found if chance]
    return (
        f"Lemma 1 takes all eligible sets as equally likely; but {len(able)} sorted tables can lead to this one, with "
        f"probabilities from {decimal(min(able), 4)} to {decimal(max(able), 4)}"
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
        "no STEP-2 with P-eligibility and l-candidacy suppresses less than D-suppression, and its mean never falls "
        f"with h, in {right} of {len(tables)} tables of up to {most} records, by all their parts; so 1/l for each of "
        "h = 1..l is the cheapest choice",
        right == len(tables),
    )
    ends = [T[h] for h in (ELL - 1, ELL, ELL + 1)]
    own, other = _level_chance(T, [Fraction(1, 3)] * 3), _level_chance(T, [Fraction(0), *[Fraction(1, 3)] * 3])
    yield sentence(
        "Theorem 4: a step of its proof",
        "R-suppression picks each level down to F_(l+1) at least as often as any of the family",
        f"level {T[ELL]} of the example: {own}, and {other} if h is one of 2, 3, 4",
        own >= other,
        because=f"the level F_{ELL + 1} = {ends[1]} belongs to two intervals, [{ends[1]}, {ends[0]}] and "
        f"[{ends[2]}, {ends[1]}]",
    )
    found, rotation = (releases(8, VALUES, ELL, variant) for variant in ("r-suppression", "rotation"))
    yield sentence(
        "Theorem 4: R-suppression is in the family",
        "its members come to l-dichotomy",
        f"tables of 8 records and {VALUES} values, l = {ELL}: a posterior of {found.worst}, {float(found.rate):.1%} "
        "suppressed on the average",
        found.worst <= Fraction(1, ELL),
        proved=f"rotation, the same tables: {rotation.worst}, {float(rotation.rate):.1%}",
        because="Theorem 3 fails, see there",
    )


def _never_falls(table: Counts, ell: int) -> bool:
    """Whether D-suppression is the cheapest STEP-2, its mean rises with h, and E[X_R] is that of h = 1..l."""
    ends, n = (*table, 0), sum(table)
    means = []
    for h in range(1, len(table) + 1):
        starts = [(*table[1:h], level, *table[h:]) for level in range(ends[h], ends[h - 1] + 1)]
        gone = [n - sum(start) + _by_step_2(start, ell, n) for start in starts]
        if any(cost != n - sum(start) + _cheapest(start, ell, n) for start, cost in zip(starts, gone, strict=True)):
            return False
        means.append(Fraction(sum(gone), len(gone)))
    return all(mean <= following for mean, following in pairwise(means)) and (
        costs(table, ell)["r-suppression"] == sum(means[:ell]) / ell
    )


@cache
def _cheapest(start: Counts, ell: int, n: int) -> int:
    return _least(start, ell, size=n)


def _by_step_2(start: Counts, ell: int, n: int) -> int:
    """What STEP-2 suppresses, record by record, if S_1 has come to its rank in `start`."""
    return next(
        gone
        for gone, left in enumerate((*_by_record(start), (0,) * len(start)))
        if ell * max(left) <= sum(left) and ell * (sorted(left, reverse=True)[ell - 1] + n - sum(left)) > n
    )


def _level_chance(table: Counts, chances: list[Fraction]) -> Fraction:
    """The probability of the level F_(l+1), if h = 1, 2, ... is picked with these probabilities."""
    ends, level = (*table, 0), table[ELL]
    intervals = [(ends[h], ends[h - 1]) for h in range(1, len(chances) + 1)]
    return sum(
        (c / (high - low + 1) for c, (low, high) in zip(chances, intervals, strict=True) if low <= level <= high),
        Fraction(0),
    )
