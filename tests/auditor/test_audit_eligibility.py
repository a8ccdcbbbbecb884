"""Who was dominant? Against all labelled tables and all draws; SK's figures."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.auditor.attackers.eligibility import (
    MOST_TABLES,
    Suspicion,
    by_shape,
    by_uniform_prior,
    eligibility_finding,
)
from sfumato.errors import UsageError
from sfumato.methods.suppression.suppress import PROVED, VARIANTS, Variant, suppress
from tests.methods.test_suppression import (
    alike,
    joint,
    labelled,
    partitions,
    seeded,
    skewed,
    small_tables,
    violators,
)

T = np.array([10, 4, 2, 1, 1])


# --- exact Bayes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", VARIANTS)
def test_uniform_beliefs_are_those_of_all_labelled_tables_and_draws(variant: Variant) -> None:
    """n = 7, 8, m = 3, 4, l = 2, 3, and m = l: every table that is not l-eligible, every draw, every outcome."""
    for n, m, ell in [(7, 4, 2), (8, 4, 3), (8, 3, 3), (7, 3, 2)]:
        tables = [c for counts in partitions(n, m) if violators(counts, ell) for c in labelled(counts)]
        outcomes = joint(dict.fromkeys(tables, Fraction(1)), lambda t, draw, e=ell: suppress(t, e, variant, draw=draw))
        for shown, seen in outcomes.items():
            found = by_uniform_prior(np.array(shown), n, ell, variant)
            lost = n - sum(shown)
            for value, (top, above, records) in enumerate(seen.posteriors()):
                assert found.chance(value, "dominant") == top
                assert found.chance(value, "violating") == above
                assert found.of(value).missing == (records - shown[value]) / lost
                assert found.of(value).member == records / n


@pytest.mark.parametrize("variant", VARIANTS)
def test_beliefs_by_shape_are_those_of_all_labellings(variant: Variant) -> None:
    """From the released counts alone, without the draws that the publisher made."""
    for counts, ell in small_tables((2, 3), range(5, 9), (3, 4)):
        outcomes = joint(alike(counts), lambda table, draw, e=ell: suppress(table, e, variant, draw=draw))
        for shown, seen in outcomes.items():
            found = by_shape(np.array(counts), np.array(shown), ell, variant)
            for value, (top, above, _) in enumerate(seen.posteriors()):
                assert (found.chance(value, "dominant"), found.chance(value, "violating")) == (top, above)


@pytest.mark.parametrize("variant", VARIANTS)
def test_beliefs_by_shape_are_the_publisher_s_own(variant: Variant) -> None:
    """Random tables, too large for enumeration."""
    for number, (counts, ell) in enumerate(skewed(31, 300)):
        made = suppress(counts, ell, variant, draw=seeded(number))
        assert by_shape(made.counts, made.kept, ell, variant).beliefs == made.beliefs


# --- SK's figures -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "size", "ell", "exact"),
    [
        ((2, 2, 1, 1), 8, 3, Fraction(7, 17)),
        ((3, 3, 2, 1, 1), 18, 3, Fraction(71, 212)),
        ((15, 14, 6, 5, 5), 60, 3, Fraction(1436435, 1938542)),
    ],
)
def test_r_suppression_as_published_is_above_its_claim(
    kept: tuple[int, ...], size: int, ell: int, exact: Fraction
) -> None:
    found = by_uniform_prior(np.array(kept), size, ell, "r-suppression")
    finding = eligibility_finding(found, "dominant")
    assert max(found.chance(value, "dominant") for value in range(len(kept))) == exact
    assert (finding.verdict, finding.worst, finding.promised) == ("above the bound", float(exact), 1 / ell)
    assert finding.at_risk == sum(c for v, c in enumerate(kept) if found.chance(v, "dominant") > Fraction(1, ell))
    assert finding.exposed[0].who == "value 1"


@pytest.mark.parametrize("variant", PROVED)
def test_the_proved_variants_are_within_it(variant: Variant) -> None:
    """The tables that lead to SK's counter-examples, and others; both priors, both questions."""
    tables = [((4, 2, 1, 1), 3), ((3, 3, 1, 1), 3), ((3, 2, 2, 1), 3), (tuple(T.tolist()), 3), ((20, 6, 3, 1, 1), 4)]
    for counts, ell in [*tables, *skewed(32, 25, values=7, most=12)]:
        made = suppress(counts, ell, variant, draw=seeded(sum(counts)))
        suspicions = [
            by_shape(made.counts, made.kept, ell, variant),
            by_uniform_prior(made.kept, sum(counts), ell, variant),
        ]
        for found in suspicions:
            for aim in ("dominant", "violating"):
                finding = eligibility_finding(found, aim)
                assert (finding.verdict, finding.at_risk) == ("within the bound", 0)
        assert suspicions[0].bound("violating") == Fraction(made.violating, ell)


def test_one_who_knows_the_sorted_counts_reads_r_suppression() -> None:
    """SK's adversary does not know them: stated, not promised."""
    found = by_shape(np.array([20, 6, 3, 1, 1, 1]), np.array([2, 4, 3, 1, 1, 1]), 3, "r-suppression")
    finding = eligibility_finding(found, "dominant", ["flu", *"bcdef"])
    assert (finding.worst, finding.verdict) == (1, "not covered by the guarantee")
    assert [(group.who, group.records) for group in finding.exposed] == [("flu", 2)]
    assert finding.at_risk == 2
    assert finding.mean == pytest.approx(2 / 12)


# --- corners ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", ["rotation", "spread", "safe-d", "r-suppression"])
def test_t2_an_eligible_table_hides_nothing(variant: Variant) -> None:
    """The most frequent value is read off the counts: belief 1, and not covered. Three that tie share it."""
    for kept, worst, at_risk in [((4, 3, 3), 1, 4), ((4, 4, 4), 1 / 3, 0)]:
        counts = np.array(kept)
        for found in (by_shape(counts, counts, 2, variant), by_uniform_prior(counts, sum(kept), 2, variant)):
            finding = eligibility_finding(found, "dominant")
            assert (finding.worst, finding.verdict) == (worst, "not covered by the guarantee")
            assert (finding.promised, finding.stated, finding.at_risk) == (None, None, at_risk)
            assert "which value is the most frequent is public" in finding.remark


@pytest.mark.parametrize("variant", PROVED)
def test_t2_always_covers_it(variant: Variant) -> None:
    counts, kept = np.array([4, 3, 3]), np.array([3, 3, 3])
    for found in (by_shape(counts, kept, 2, variant, always=True), by_uniform_prior(kept, 10, 2, variant, always=True)):
        finding = eligibility_finding(found, "dominant")
        assert (finding.worst, finding.promised, finding.verdict) == (1 / 3, 1 / 2, "within the bound")
    with pytest.raises(UsageError, match="not what"):
        by_shape(counts, counts, 2, variant, always=True)
    with pytest.raises(UsageError, match="not what"):
        by_shape(counts, kept, 2, variant)


def test_counts_of_another_algorithm_or_table_are_refused() -> None:
    for kept, variant in [((4, 4, 2, 1, 1), "rotation"), ((2, 3, 2, 1, 1), "safe-d"), ((2, 3, 2, 1, 0), "rotation")]:
        with pytest.raises(UsageError, match="not what"):
            by_shape(T, np.array(kept), 3, variant)
    with pytest.raises(UsageError, match="No table of 9 records"):
        by_uniform_prior(np.array([3, 3, 2]), 9, 2, "safe-d")


def test_a_prior_on_too_many_tables_is_refused() -> None:
    with pytest.raises(UsageError, match=f"More than {MOST_TABLES:,} sorted tables"):
        by_uniform_prior(np.array([40, 30, 30, 30, 30]), 1_000, 5, "rotation")


def test_what_a_suspicion_tells_of_a_value_that_lost_nothing() -> None:
    found: Suspicion = by_shape(T, np.array([2, 3, 2, 1, 1]), 3, "rotation")
    assert [found.chance(value, "dominant") for value in range(5)] == [Fraction(1, 3)] * 3 + [0, 0]
    assert found.number_violating == 1
