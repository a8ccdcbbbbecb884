"""The order of a column's values: of numbers, of bins and periods, and of a list that the policy says is in order.

    numbers         all values (but the missing one) are numbers, in text or not
    bins            '[20, 30)'
    periods         '2024-Q1'
    other texts     where the policy says that its list of values is an order

The missing value is in no order.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from sfumato.values.attributes import Domain
from sfumato.values.number_texts import any_spelling_of
from sfumato.values.recoding import are_bins, are_periods, bin_place


def numbers_of(values: Sequence[Any]) -> list[Fraction] | None:
    """Return the values as the numbers that they are, exactly; None if one is none, or there is no value.

    >>> numbers_of(["12.50", "007", True])
    [Fraction(25, 2), Fraction(7, 1), Fraction(1, 1)]
    >>> numbers_of(["1", "1e999"]), numbers_of(["1", "x"]), numbers_of([])
    (None, None, None)
    """
    found = [number for value in values if (number := _number(value)) is not None]
    return found if found and len(found) == len(values) else None


def places_of(part: Domain) -> tuple[int, ...]:
    """Return the place of each value in the order, from 0; -1 for the missing one, and for all where there is no order.

    >>> places_of(Domain("age", ("[30, 40)", "[100, 110)", None, "[20, 30)")))
    (1, 2, -1, 0)
    """
    known = [value for value in part.values if value is not None]
    order: dict[Any, int] = {}
    if part.ordered:
        order = {value: place for place, value in enumerate(known)}
    elif (numbers := numbers_of(known)) is not None:
        order = _ranked(known, numbers)
    elif are_bins(known):
        order = _ranked(known, [bin_place(str(value)) for value in known])
    elif are_periods(known):
        order = _ranked(known, known)
    return tuple(order.get(value, -1) for value in part.values)


def codes_in_order(part: Domain) -> list[int]:
    """Return the codes from the lowest value to the highest; without the missing one, and none without an order.

    >>> codes_in_order(Domain("age", ("[30, 40)", "[100, 110)", None, "[20, 30)")))
    [3, 0, 1]
    """
    places = places_of(part)
    return sorted((code for code, place in enumerate(places) if place >= 0), key=places.__getitem__)


def _number(value: Any) -> Fraction | None:
    if isinstance(value, int):
        return Fraction(int(value))
    text = str(value).strip()
    return Fraction(text) if any_spelling_of(text) and math.isfinite(float(text)) else None


def _ranked(values: Sequence[Any], keys: Sequence[Any]) -> dict[Any, int]:
    """Return the place of each value in the order of its key; equal keys share a place."""
    place = {key: k for k, key in enumerate(sorted(set(keys)))}
    return {value: place[key] for value, key in zip(values, keys, strict=True)}
