"""What releases by groups guarantee, and what not, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from sfumato.claims.buckets import ALIKE_WHEN_MISSING, BucketClaim
from sfumato.claims.claim import Guarantee, Shape


def claim(method: Any, assurance: Any = "proved", **more: Any) -> BucketClaim:
    return BucketClaim(method, assurance, ("disease",), Fraction(1, 3), **more)


def stated(method: Any, assurance: Any = "proved", withheld: bool = True, **more: Any) -> Guarantee:
    return claim(method, assurance, **more).guarantee(Shape(withheld=int(withheld)))


MOST_FREQUENT = (
    "hat x is the most frequent value (of equally frequent ones, one drawn at random) is believed by at most 1/3"
)
EXPECTED_K = "by at most k/3 by someone who knows k; by someone who does not, by at most the k that they expect"
JOINT = "that x is the most frequent value and has more than 1/3 of the table is believed by at most 1/3"


def test_the_guarantee_of_suppression() -> None:
    """Records are withheld: some value is too frequent, and that is public."""
    found = stated("suppression", variant="rotation")
    for part in ("Some value has more than 1/3 of the table (that is public).", MOST_FREQUENT, EXPECTED_K, JOINT):
        assert part in found.sentence
    assert "they may know the sorted counts" in found.prior
    assert any("missing from the release has one of its 3 most frequent values" in limit for limit in found.limits)
    assert any("bounds that for someone who knows the value of no missing person" in x for x in found.limits)
    for variant in ("rotation", "spread", "safe-d"):
        assert ALIKE_WHEN_MISSING in stated("suppression", variant=variant).limits
    assert ALIKE_WHEN_MISSING not in stated("anatomy").limits
    published = stated("suppression", "as-published", variant="r-suppression")
    assert "is not bounded by 1/3" in published.sentence
    assert JOINT not in published.sentence
    assert any("7/17" in limit for limit in published.limits)


@pytest.mark.parametrize("variant", ["rotation", "spread", "safe-d", "r-suppression"])
def test_t2_the_guarantee_where_nothing_is_withheld(variant: Any) -> None:
    """No word of the most frequent value but that it is public, and none of persons who are missing: nobody is."""
    assurance = "as-published" if variant == "r-suppression" else "proved"
    found = stated("suppression", assurance, withheld=False, variant=variant)
    assert (
        "No value has more than 1/3 of the records. Nothing is withheld, all counts are exact, and which value is the "
        "most frequent is public."
    ) in found.sentence
    assert (JOINT in found.sentence) == (assurance == "proved")
    assert "hat x is the most frequent value (of" not in found.sentence
    assert "k/3" not in found.sentence
    assert "exchangeable" not in found.prior
    assert "Nothing is promised about the most frequent value." in found.limits
    assert not any("missing" in limit or "7/17" in limit for limit in found.limits)


@pytest.mark.parametrize("withheld", [True, False])
@pytest.mark.parametrize("variant", ["rotation", "spread", "safe-d"])
def test_t2_always_is_for_every_table(variant: Any, withheld: bool) -> None:
    """The sentence is the same for every table: whether a value is too frequent is not told."""
    found = stated("suppression", withheld=withheld, variant=variant, always=True)
    assert f"For every table: t{MOST_FREQUENT}" in found.sentence
    assert EXPECTED_K in found.sentence
    assert "that is public" not in found.sentence
    assert found.sentence == stated("suppression", withheld=not withheld, variant=variant, always=True).sentence
    assert "they may know the sorted counts" in found.prior
    assert any("missing from the release" in limit for limit in found.limits) == withheld


def test_the_guarantee_of_robust_anatomy() -> None:
    sets = (("sex",), ("sex", "age"))
    free = stated("robust-anatomy", attribute_sets=sets, prior="none")
    assert "whatever they knew beforehand of how disease depends on sex, age" in free.sentence
    assert "how records are withheld and groups are made" in free.adversary
    known = stated("robust-anatomy", attribute_sets=sets, prior="table")
    assert "not from how groups are made" in known.adversary
    assert any("the guest can only have 0" in limit for limit in known.limits)
    published = stated("robust-anatomy", "as-published", attribute_sets=sets, prior="table")
    for each in (free, known, published):
        assert ALIKE_WHEN_MISSING in each.limits
        assert any("together with each combination of sex, age, exactly" in limit for limit in each.limits)
    assert not any("together with" in limit for limit in stated("anatomy").limits)
    assert "No belief is bounded by 1/3" in published.sentence
    assert "within (N-1)/(N-1 + 4)" in published.sentence
    assert any("361/561" in limit for limit in published.limits)
