"""What releases by groups guarantee, and what not, in words."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from sfumato.group_guarantee import ALIKE_WHEN_MISSING, state_group_guarantee
from sfumato.groups import GroupClaim


def claim(method: Any, assurance: Any = "proved", **more: Any) -> GroupClaim:
    return GroupClaim(method, assurance, ("disease",), Fraction(1, 3), **more)


def test_the_guarantee_of_suppression() -> None:
    stated = state_group_guarantee(claim("suppression", variant="rotation"))
    most = "most frequent value of the table (of equally frequent ones, one drawn at random) he believes by at most 1/3"
    assert most in stated.sentence
    assert "by at most k/3" in stated.sentence
    assert "he may know the sorted counts" in stated.prior
    assert any("missing from the release has one of its 3 most frequent values" in limit for limit in stated.limits)
    assert any(
        "safe-d, which withholds more, bounds that for one who knows the value of no" in x for x in stated.limits
    )
    for variant in ("rotation", "spread", "safe-d"):
        assert ALIKE_WHEN_MISSING in state_group_guarantee(claim("suppression", variant=variant)).limits
    assert ALIKE_WHEN_MISSING not in state_group_guarantee(claim("anatomy")).limits
    published = state_group_guarantee(claim("suppression", "as-published", variant="r-suppression"))
    assert "is not bounded by 1/3" in published.sentence
    assert any("7/17" in limit for limit in published.limits)


def test_the_guarantee_of_robust_anatomy() -> None:
    sets = (("sex",), ("sex", "age"))
    free = state_group_guarantee(claim("robust-anatomy", attribute_sets=sets, prior="none"))
    assert "whatever he knew beforehand of how disease depends on sex, age" in free.sentence
    assert "how records are withheld and groups are made" in free.adversary
    known = state_group_guarantee(claim("robust-anatomy", attribute_sets=sets, prior="table"))
    assert "not from how groups are made" in known.adversary
    assert any("the guest can only have 0" in limit for limit in known.limits)
    published = state_group_guarantee(claim("robust-anatomy", "as-published", attribute_sets=sets, prior="table"))
    for stated in (free, known, published):
        assert ALIKE_WHEN_MISSING in stated.limits
        assert any("together with each combination of sex, age, exactly" in limit for limit in stated.limits)
    assert not any("together with" in limit for limit in state_group_guarantee(claim("anatomy")).limits)
    assert "No belief is bounded by 1/3" in published.sentence
    assert "within (N-1)/(N-1 + 4)" in published.sentence
    assert any("361/561" in limit for limit in published.limits)
