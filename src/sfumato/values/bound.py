"""What is required of one value, or of a set of values: by how much the odds may change that a record's value is it.

A requirement speaks of a set together: that a record's value is one of them, not which. A set is chosen by a list of
values, by how they begin, or by the two ends of a range:

    prefix     every value whose text starts so: "B2" takes B20 and B24.1
    between    from the first to the last in the order of texts, all that start like the last included: "A00" to "B99"
               takes B99.9. Two numbers take every value that is a number, or is written as one, from one to the other

Which values these are follows from the domain. The missing value has no text: only a list can name it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from sfumato.values.arrays import BoolArray
from sfumato.values.attributes import Domain, SensitiveDomain, Value, label

Ends = tuple[str, str] | tuple[int | float, int | float]

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
_TOLD = 4
"""Values that a set is told by; the others are counted."""


@dataclass(frozen=True)
class Bound:
    """What is required of one value. `gamma` None: nothing. `rho1`, `rho2` where it was stated with them."""

    gamma: Fraction | None
    rho1: Fraction | None = None
    rho2: Fraction | None = None
    given: str = ""  # the background knowledge it is for


NO_BOUND = Bound(None)


@dataclass(frozen=True)
class Choice:
    """How the values of a set are chosen, where they are not listed; `column` where it is one of several."""

    prefix: str | None = None
    between: Ends | None = None
    column: str | None = None

    @property
    def is_list(self) -> bool:
        return self.prefix is None and self.between is None

    def matches(self, value: Value) -> bool:
        """Whether a value of the column is chosen by its text, or as a number."""
        if value is None:
            return False
        if self.prefix is not None:
            return label(value).startswith(self.prefix)
        assert self.between is not None
        return in_range(self.between, value)


def in_range(ends: Ends, value: Value) -> bool:
    """Whether a value lies between two ends: two texts, or two numbers.

    >>> [in_range(("A00", "B99"), code) for code in ("A00", "B99.9", "C00")]
    [True, True, False]
    >>> [in_range((390, 459.99), code) for code in ("41", "401.9", "V57")]
    [False, True, False]
    """
    first, last = ends
    text = label(value)
    if isinstance(first, str) and isinstance(last, str):
        return first <= text and (text <= last or text.startswith(last))
    return is_number(text) and Fraction(str(first)) <= Fraction(text) <= Fraction(str(last))


def is_number(text: str) -> bool:
    """Whether a value is written as a number: digits, perhaps with a point."""
    return _NUMBER.fullmatch(text) is not None


@dataclass(frozen=True)
class SetBound:
    """What is required of a set: how far the belief may move that a record's value is one of these codes."""

    codes: tuple[int, ...]  # of the domain, ascending; some of them, not all
    bound: Bound
    choice: Choice = Choice()

    def inside(self, size: int) -> BoolArray:
        """Return whether each value of the domain is in the set."""
        found = np.zeros(size, dtype=np.bool_)
        found[list(self.codes)] = True
        return found

    def fits(self, domain: SensitiveDomain) -> bool:
        """Whether it has a bound, and the codes are those that the choice takes of a domain: some values, not all."""
        codes = self.codes
        ascend = all(one < other for one, other in pairwise(codes))
        if (
            self.bound.gamma is None
            or not codes
            or not ascend
            or codes[0] < 0
            or codes[-1] >= domain.size
            or len(codes) == domain.size
        ):
            return False
        if self.choice.is_list and self.choice.column is None:
            return True
        if self.choice.column not in (None, *domain.names):
            return False
        return codes == codes_of(domain, self._part(domain), self._taken(domain))

    def _part(self, domain: SensitiveDomain) -> Domain:
        return part_named(domain, self.choice.column)

    def _taken(self, domain: SensitiveDomain) -> Callable[[Value], bool]:
        """Return which values of its column are taken: of a list, those of its codes."""
        return self.choice.matches if not self.choice.is_list else set(self._listed(domain)).__contains__

    def _listed(self, domain: SensitiveDomain) -> list[Value]:
        """Return the values of its column, of a list of one of several."""
        place = domain.parts.index(self._part(domain))
        values = self._part(domain).values
        own = domain.split(np.array(self.codes, dtype=np.int32))[place]
        return [values[code] for code in np.unique(own).tolist()]

    def told(self, domain: SensitiveDomain) -> str:
        """Return the statement in words: diagnosis starts with 'B2'.

        >>> found = SensitiveDomain((Domain("illness", ("B20", "B24", "J10")),))
        >>> SetBound((0, 1), Bound(None), Choice(prefix="B2")).told(found), SetBound((0, 2), Bound(None)).told(found)
        ("illness starts with 'B2'", "illness is 'B20' or 'J10'")
        """
        name = self.choice.column or domain.name
        if self.choice.prefix is not None:
            return f"{name} starts with {self.choice.prefix!r}"
        if self.choice.between is not None:
            first, last = self.choice.between
            return f"{name} is between {first!r} and {last!r}"
        labels = (
            list(map(label, self._listed(domain))) if self.choice.column else [domain.labels[c] for c in self.codes]
        )
        shown = [repr(text) for text in labels[:_TOLD]]
        if len(labels) > _TOLD:
            return f"{name} is {', '.join(shown)} or one of {len(labels) - _TOLD:,} more"
        return f"{name} is {' or '.join([', '.join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)}"


def part_named(domain: SensitiveDomain, column: str | None) -> Domain:
    """Return a column of a domain; without a name the only one."""
    return domain.parts[0] if column is None else domain.parts[domain.names.index(column)]


def codes_of(domain: SensitiveDomain, part: Domain, takes: Callable[[Value], bool]) -> tuple[int, ...]:
    """Return the codes of the domain whose value of a column is taken."""
    taken = np.array([takes(value) for value in part.values], dtype=np.bool_)
    own = domain.codes[domain.parts.index(part)]
    return tuple(np.flatnonzero(taken[own]).tolist())


def of_each(bounds: Sequence[Bound], sets: Iterable[SetBound]) -> tuple[Bound, ...]:
    """Return for each value its bound, or that of a set which holds it, the strictest one.

    A matrix that keeps these for single values keeps the sets, too: every value of a set is told from every other value
    by the factor of the set at most.
    """
    found = list(bounds)
    for each in sets:
        for code in each.codes:
            found[code] = stricter(found[code], each.bound)
    return tuple(found)


def stricter(one: Bound, other: Bound) -> Bound:
    """Return the one of two bounds that allows less, the first if both allow the same."""
    if other.gamma is None:
        return one
    return other if one.gamma is None or other.gamma < one.gamma else one


def strictest_gamma(bounds: Iterable[Bound], sets: Iterable[SetBound] = ()) -> Fraction | None:
    """Return the smallest factor of all values and sets; None where nothing is required."""
    stated = (*bounds, *(each.bound for each in sets))
    return min((bound.gamma for bound in stated if bound.gamma is not None), default=None)


# --- in JSON, of plans and manifests alike ----------------------------------------------------------------------------


def bound_keys(bound: Bound) -> dict[str, str | None]:
    """Return a bound for JSON."""
    fractions = {"gamma": bound.gamma, "rho1": bound.rho1, "rho2": bound.rho2}
    return {**{key: None if x is None else str(x) for key, x in fractions.items()}, "given": bound.given}


def read_bound(raw: dict[str, Any]) -> Bound:
    """Return what `bound_keys` gave."""
    gamma, rho1, rho2 = (None if raw[key] is None else Fraction(raw[key]) for key in ("gamma", "rho1", "rho2"))
    if gamma is not None and gamma < 1:
        raise ValueError(f"a gamma of {gamma}, where no noise keeps one below 1")
    return Bound(gamma, rho1, rho2, raw["given"])


def set_keys(each: SetBound) -> dict[str, Any]:
    """Return a set for JSON: its values by their numbers in the domain, how they were chosen, and its bound."""
    choice = {key: value for key, value in vars(each.choice).items() if value is not None}
    return {"values": list(each.codes), **choice, "bound": bound_keys(each.bound)}


def read_set(raw: dict[str, Any]) -> SetBound:
    """Return what `set_keys` gave."""
    between = raw.get("between")
    choice = Choice(raw.get("prefix"), None if between is None else tuple(between), raw.get("column"))
    return SetBound(tuple(raw["values"]), read_bound(raw["bound"]), choice)
