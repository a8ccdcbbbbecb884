"""How cards are published where the policy leaves it open."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.methods.subset.method import MOST_IN_SET, Subset, deck_of


@pytest.mark.parametrize(("values", "members", "form"), [(40, 8, "set"), (40, 9, "card"), (100, 20, "card")])
def test_short_sets_are_published_as_such_and_longer_ones_by_number(values: int, members: int, form: str) -> None:
    assert MOST_IN_SET == 8
    deck = deck_of(values, members, Fraction(4))
    assert Subset().form_of(deck) == form
    assert Subset(form="set").form_of(deck) == "set"
