"""SK: Examples 1-5, Theorems 1-4, and what the text says of its experiments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product
from math import factorial, prod

import numpy as np
import pytest

from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.r_suppression import PublishedSizes
from sfumato.methods.suppression.suppress import VARIANTS, Variant, costs, suppress
from tests.methods.test_suppression import (
    Counts,
    candidacy,
    eligible,
    first_steps,
    joint,
    labelled,
    oracle_r,
    partitions,
    scripted,
    seeded,
    skewed,
    small_tables,
    violators,
    worst,
)

T = (10, 4, 2, 1, 1)
NO_TIES = (0, 0, 0)  # T has none among its first three ranks


# --- Examples 1-5 -------------------------------------------------------------------------------------------------


def test_example_1_minimum_suppression_leaves_two_candidates() -> None:
    """Six records of S_1, and then S_1 is one of the two most frequent published values."""
    found = suppress(T, 3, "minimal", draw=scripted(*NO_TIES))
    assert found.suppressed.tolist() == [6, 0, 0, 0, 0]
    assert found.kept.tolist() == [4, 4, 2, 1, 1]
    assert {count: belief.dominant for count, belief in found.beliefs.items()} == {4: Fraction(1, 2), 2: 0}
    assert found.dominant_bound is None


def test_example_2_d_suppression() -> None:
    """After level 4 starts: one record of S_2, then one of S_1."""
    levels = Levels(list(T))
    assert [levels.cut(removed, 5) for removed in (5, 6, 7, 8)] == [
        (5, 4, 2, 1, 1),
        (4, 4, 2, 1, 1),
        (4, 3, 2, 1, 1),
        (3, 3, 2, 1, 1),
    ]
    assert [levels.after(removed) for removed in (5, 6, 7, 8)] == [(5, 0), (4, 0), (4, 1), (3, 0)]


def test_example_3_unsafe_and_safe_d() -> None:
    """Candidacy after 5 records, P-eligibility after 6; Safe D goes on to level F_3 = 2 and suppresses 10."""
    levels = Levels(list(T))
    cuts = [list(levels.cut(removed, 5)) for removed in range(7)]
    assert [candidacy(left, 3, 18) for left in cuts] == [False] * 5 + [True, True]
    assert [eligible(left, 3) for left in cuts] == [False] * 6 + [True]
    unsafe, strict = (suppress(T, 3, v, draw=scripted(*NO_TIES)) for v in ("unsafe-d", "safe-d"))
    assert (unsafe.withheld, unsafe.kept.tolist(), unsafe.lower_bound) == (6, [4, 4, 2, 1, 1], 6)
    assert (strict.withheld, strict.kept.tolist(), strict.share) == (10, [2, 2, 2, 1, 1], Fraction(5, 9))
    assert strict.beliefs[2].dominant == strict.dominant_bound == Fraction(1, 3)


def test_example_4_r_suppression() -> None:
    """h = 2 and F = 3: {3, 3, 2, 1, 1}, eight records suppressed."""
    found = suppress(T, 3, "r-suppression", draw=scripted(*NO_TIES, 1, 1))
    assert found.kept.tolist() == [3, 3, 2, 1, 1]
    assert found.suppressed.tolist() == [7, 1, 0, 0, 0]
    assert found.dominant_bound is None


def test_the_expected_suppression_of_the_example() -> None:
    """71/9 by all 17 levels of STEP-1, beside rotation's 9 and the two bounds."""
    steps = list(first_steps(T, 3))
    assert sum(chance * (18 - sum(oracle_r(T, 3, h, level))) for h, level, chance in steps) == Fraction(71, 9)
    assert costs(T, 3) == {
        "rotation": 9,
        "spread": 9,
        "safe-d": 10,
        "r-suppression": Fraction(71, 9),
        "unsafe-d": 6,
        "minimal": 6,
    }


def test_example_5_base_tables() -> None:
    """Each of the three named bases leads to {3,3,2,1,1}; the third from h = 3 and F = 2."""
    published = [3, 3, 2, 1, 1]
    for base, h, levels in [((11, 3, 2, 1, 1), 1, range(3, 12)), ((10, 3, 3, 1, 1), 3, [2])]:
        for level in levels:
            assert sorted(oracle_r(base, 3, h, level), reverse=True) == published


# --- Theorems 1 and 2 hold ----------------------------------------------------------------------------------------


def test_theorem_1_safe_d_stops_at_the_start_of_level_f_l() -> None:
    for counts, ell in skewed(20, 500):
        found = suppress(counts, ell, "safe-d", draw=seeded(1))
        assert found.kept.max() == counts[ell - 1]
        assert max(b.dominant for b in found.beliefs.values()) == Fraction(1, sum(c >= counts[ell - 1] for c in counts))


def test_theorem_2_nothing_suppresses_less_than_unsafe_d() -> None:
    """Every part of every table of up to 11 records: P-eligibility and l-candidacy need X_Unsafe records at least."""
    for counts, ell in small_tables((2, 3, 4), range(3, 12), (2, 3, 4)):
        n = sum(counts)
        parts = (list(part) for part in product(*(range(c + 1) for c in counts)))
        least = min(n - sum(part) for part in parts if eligible(part, ell) and candidacy(part, ell, n))
        assert costs(counts, ell)["unsafe-d"] == least


def test_corollary_1_candidacy_is_not_enough() -> None:
    """Example 1's T_P has l-candidacy, and S_1 is one of two."""
    assert candidacy([4, 4, 2, 1, 1], 3, 18)
    assert suppress(T, 3, "minimal", draw=seeded(1)).beliefs[4].dominant > Fraction(1, 3)


# --- Theorem 3 does not -------------------------------------------------------------------------------------------


def arrangements(counts: Counts) -> int:
    return factorial(len(counts)) // prod(factorial(counts.count(c)) for c in set(counts))


def bases(published: Counts, n: int) -> Iterator[Counts]:
    """Sorted tables of n records that have such a part."""
    for base in partitions(n, len(published)):
        if all(count >= left for count, left in zip(base, published, strict=True)):
            yield base


def posterior(published: Counts, n: int, ell: int) -> dict[int, Fraction]:
    """Published count -> Pr(a value with it is S_1 | T_P), R-suppression, uniform prior on labelled tables.

    The mechanism treats labels alike, so a sorted table counts as often as it can be labelled.
    """
    mass: dict[int, Fraction] = defaultdict(Fraction)
    for base in bases(published, n):
        if violators(base, ell) == 0:
            continue
        sizes = PublishedSizes(Levels(list(base)), ell)
        for h, level, chance in first_steps(base, ell):
            if sizes.total(level, level) == sum(published):
                left = oracle_r(base, ell, h, level)
                if sorted(left, reverse=True) == list(published):
                    mass[left[0]] += arrangements(base) * chance
    return {count: mass[count] / sum(mass.values()) / published.count(count) for count in mass}


def test_theorem_3_fails_by_full_enumeration() -> None:
    """n = 8, m = 4, l = 3: all 35 labelled tables, all draws; (2,2,1,1) gives 7/17 > 1/3."""
    tables = [c for counts in partitions(8, 4) if violators(counts, 3) for c in labelled(counts)]
    found = joint(dict.fromkeys(tables, Fraction(1)), lambda t, draw: suppress(t, 3, "r-suppression", draw=draw))
    top = [top for top, _, _ in found[2, 2, 1, 1].posteriors()]
    assert top == [Fraction(7, 17), Fraction(7, 17), Fraction(3, 34), Fraction(3, 34)]
    assert worst(found) == Fraction(7, 17)
    assert posterior((2, 2, 1, 1), 8, 3) == {2: Fraction(7, 17), 1: Fraction(3, 34)}


def test_theorem_3_fails_on_the_papers_own_example() -> None:
    assert posterior((3, 3, 2, 1, 1), 18, 3) == {3: Fraction(71, 212), 2: Fraction(35, 106)}


@pytest.mark.parametrize(
    ("published", "ell", "exact"),
    [
        ((15, 14, 6, 5, 5), 3, Fraction(1436435, 1938542)),
        ((28, 27, 1), 2, Fraction(70, 73)),
    ],
)
def test_theorem_3_fails_more_with_60_records(published: Counts, ell: int, exact: Fraction) -> None:
    """.74 where 1/3 is claimed, .96 where 1/2 is."""
    assert max(posterior(published, 60, ell).values()) == exact


def test_who_knows_the_sorted_counts_reads_r_suppression() -> None:
    """A count that no other value of the table can have is S_1's."""
    table = (20, 6, 3, 1, 1, 1)
    found = suppress(table, 3, "r-suppression", draw=scripted(*NO_TIES, 2, 1))  # h = 3, F = 2
    assert found.kept.tolist() == [2, 4, 3, 1, 1, 1]
    assert found.beliefs[2].dominant == 1
    assert max(b.dominant for b in suppress(table, 3, draw=seeded(1)).beliefs.values()) == Fraction(1, 3)


def test_with_as_many_values_as_l_the_whole_table_can_go() -> None:
    """m = l: the interval [0, F_l] holds F = 0."""
    found = suppress([5, 2, 1], 3, "r-suppression", draw=scripted(*NO_TIES, 2, 0))
    assert found.kept.tolist() == [0, 0, 0]
    assert found.beliefs[0].dominant == Fraction(1, 3)


# --- Theorem 4: the inequality holds, the family does not contain R-suppression -----------------------------------


def test_theorem_4_the_inequality() -> None:
    """Let E_h be the mean suppression if h is picked, for all h of 1..m. It never falls with h.

    R* picks h with probability at most 1/l each, so sum p_h E_h is least if all is on h = 1..l: that is E[X_R]. And
    STEP-2 of R* cannot suppress less than D-suppression does from the same start (Theorem 2).
    """
    for counts, ell in skewed(21, 400, values=8, most=20):
        ends, m = (*counts, 0), len(counts)
        means = []
        for h in range(1, m + 1):
            after = [sum(oracle_r(counts, ell, h, level)) for level in range(ends[h], ends[h - 1] + 1)]
            means.append(sum(counts) - Fraction(sum(after), len(after)))
        assert all(mean <= following for mean, following in pairwise(means))
        assert costs(counts, ell)["r-suppression"] == sum(means[:ell]) / ell


# --- section 6 ----------------------------------------------------------------------------------------------------


def zipf(alpha: float) -> list[int]:
    """SK 6.2: beta = 1000, m = 20."""
    return [int(1000 / i**alpha) for i in range(1, 21)]


def rate(counts: list[int], ell: int, variant: Variant) -> float:
    return float(costs(counts, ell)[variant]) / sum(counts)


def test_figure_8_a() -> None:
    """l = 5: no violation below alpha = 0.8; from there Safe D > R-sup > Unsafe D, all rising."""
    assert [violators(tuple(zipf(alpha)), 5) > 0 for alpha in (0.5, 0.6, 0.7, 0.75, 0.8, 0.9)] == [False] * 4 + [
        True
    ] * 2
    for variant in ("safe-d", "r-suppression", "unsafe-d", "rotation"):
        rates = [rate(zipf(alpha), 5, variant) for alpha in (0.8, 1, 1.2, 1.5, 2)]
        assert rates == sorted(rates)
    for alpha in (0.8, 1, 1.2, 1.5, 2):
        order: tuple[Variant, ...] = ("unsafe-d", "r-suppression", "rotation", "safe-d")
        assert all(rate(zipf(alpha), 5, a) < rate(zipf(alpha), 5, b) for a, b in pairwise(order))
    assert rate(zipf(1), 5, "safe-d") - rate(zipf(1), 5, "r-suppression") == pytest.approx(0.167, abs=0.001)


def test_figure_8_b() -> None:
    """alpha = 1: Unsafe D falls from l = 4 to 6, where candidacy decides, and rises from 6 to 10."""
    rates = [rate(zipf(1), ell, "unsafe-d") for ell in range(4, 11)]
    assert rates[:3] == sorted(rates[:3], reverse=True)
    assert rates[2:] == sorted(rates[2:])


OCCUPATION = (4038, 4030, 3992, 3721, 3584, 3212, 1966, 1572, 1350, 989, 912, 644, 143, 9)
"""Adult without missing values."""


def test_figures_5_to_7() -> None:
    """p = 0.5 % of Adult, l = 6. The paper, over 100 samples: 40 violate; R-sup below 3 %, Safe D above 10 %.

    Each is within two standard errors (of 100 samples) of the mean over 1,000 samples here; seed fixed.
    """
    size = round(sum(OCCUPATION) / 200)
    samples = np.random.default_rng(22).multivariate_hypergeometric(OCCUPATION, size, 1_000)
    rates = {v: np.array([float(costs(s, 6)[v]) / size for s in samples]) for v in VARIANTS}
    mean = {variant: rate.mean() for variant, rate in rates.items()}
    error = {variant: rate.std() / 10 for variant, rate in rates.items()}
    breaches = np.mean(rates["minimal"] > 0)
    assert abs(0.40 - breaches) < 2 * (breaches * (1 - breaches)) ** 0.5 / 10
    assert mean["r-suppression"] - 2 * error["r-suppression"] < 0.03
    assert mean["safe-d"] + 2 * error["safe-d"] > 0.10
    assert mean["unsafe-d"] < mean["r-suppression"] < 1.2 * mean["unsafe-d"]
    assert mean["r-suppression"] < mean["spread"] < mean["rotation"] < 0.5 * mean["safe-d"]
