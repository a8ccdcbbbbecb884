"""Counts of a table: all that planning needs, and private to the publisher."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.show.results import Drawn, Private, columns_table, shape_of
from sfumato.show.words import named, share, some
from sfumato.values.attributes import Domain, SensitiveDomain, Value, label
from sfumato.values.computed import Facts, observed_domain
from sfumato.values.looks import ENOUGH_ROWS, NEARLY_UNIQUE, Stop
from sfumato.values.row_order import OrderTest

RARE = 5
"""Records below which a value is rare: that it occurs at all tells of few people."""


@dataclass(frozen=True)
class Uniqueness:
    """How records share their quasi-identifiers as published: after bins, without the rows left out."""

    quasi_identifiers: tuple[str, ...]
    records: int
    combinations: int
    unique_records: int  # alone in their combination
    unique_share: float
    smallest_group: int
    median_group: float  # of the groups
    median_record_group: int  # half of the records are in groups of at most this size

    @property
    def sentence(self) -> str:
        """Return what matters of it.

        >>> uniqueness(("age", "sex"), {1: 2, 2: 1, 6: 1}).sentence
        '2 of 10 records (20.0%) are alone with their age and sex.'
        """
        alone = f"{self.unique_records:,} of {self.records:,} records ({share(self.unique_share)})"
        return f"{alone} are alone with their {named(self.quasi_identifiers)}."


@dataclass(frozen=True, eq=False, repr=False)
class Profile(Private, Drawn):
    """What counting found. Private: never part of a release.

    The domain is that of the sensitive columns; where quasi-identifiers are to be randomized too, these come first.
    Only combinations that occur are stored: with many quasi-identifiers the domain is far larger than any memory.
    """

    domain: SensitiveDomain
    cells: npt.NDArray[np.int32]  # [combinations, columns]: the codes of those that occur, ascending
    numbers: npt.NDArray[np.int64]  # the records of each
    order: OrderTest
    observed: tuple[str, ...] = ()  # columns of the domain whose domain was read off the table
    dropped: int = 0  # rows left out because a value is missing or another row of the person was drawn
    quasi_identifiers: tuple[str, ...] = ()  # the first columns of the domain, where they are counted too
    column_notes: tuple[str, ...] = ()  # what to know of how columns are published, also those that are not counted
    policy_notes: tuple[str, ...] = ()  # the same, by what the policy says of them
    read_off: Facts = ()  # what else of the policy or of the rows was read off the table
    stops: tuple[Stop, ...] = ()  # other columns, which must not be published as the policy asks
    keyed: bool = False  # whether records keep their draws in later releases, by a record key
    keeps_order: bool = False  # whether the rows are to be published in the table's order
    uniqueness: Uniqueness | None = None  # of the quasi-identifiers, where there are any and they were counted
    published: tuple[str, ...] = ()  # the table's columns that a release shows, in its order
    apart: tuple[Profile, ...] = ()  # further sensitive columns, each counted by itself: those with an own method
    together: OrderTest | None = None  # of all these columns and those apart, as combinations, where there are any

    _figures = ("records",)

    @property
    def all_notes(self) -> tuple[str, ...]:
        """What to know of how columns are published."""
        return (*self.column_notes, *self.policy_notes)

    @property
    def computed_from_table(self) -> Facts:
        """What every release of this table shows that was computed from it, whatever the method."""
        return (*(observed_domain(name) for name in self.observed), *self.read_off)

    @property
    def by_method(self) -> tuple[Profile, ...]:
        """This profile without those apart, and then these: what each method plans on."""
        own = replace(self, apart=(), together=None, keyed=False, uniqueness=None)
        shared = {name: getattr(self, name) for name in ("read_off", "stops", "keeps_order")}
        return (own, *(replace(each, **shared) for each in self.apart))

    @property
    def parts(self) -> tuple[Domain, ...]:
        """The domains of all counted columns, those apart too."""
        return tuple(part for each in (self, *self.apart) for part in each.domain.parts)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """The records of every code of the domain, dense."""
        counts = np.zeros(self.domain.size, dtype=np.int64)
        counts[self.domain.join(self.cells.T)] = self.numbers
        return counts

    def marginal(self, domain: SensitiveDomain) -> npt.NDArray[np.int64]:
        """Return the records of every code of a domain of some of the columns, dense."""
        codes = domain.join(self.cells.T[self.domain.names.index(name)] for name in domain.names)
        counts = np.zeros(domain.size, dtype=np.int64)
        np.add.at(counts, codes, self.numbers)
        return counts

    @property
    def quasi_domain(self) -> SensitiveDomain:
        """The quasi-identifiers' part of the domain."""
        return SensitiveDomain(self.domain.parts[: len(self.quasi_identifiers)])

    @property
    def sensitive_domain(self) -> SensitiveDomain:
        """The sensitive columns' part of the domain."""
        return SensitiveDomain(self.domain.parts[len(self.quasi_identifiers) :])

    @property
    def rows(self) -> int:
        """The number of records that would be published."""
        return int(self.numbers.sum())

    @property
    def frequency(self) -> npt.NDArray[np.float64]:
        """f_i, the share of each value."""
        return self.counts / max(1, self.rows)

    def to_arrow(self) -> Any:
        """Return the combinations that occur, each with its records."""
        return columns_table(self.domain.columns(self.cells.T), {"records": self.numbers})

    def __repr__(self) -> str:
        apart = "".join(f", {shape_of(each.domain.parts)} apart" for each in self.apart)
        return f"Profile({shape_of(self.domain.parts)}{apart}, {self.rows:,} records; private)"

    def nearly_unique(self) -> list[tuple[str, int]]:
        """Return the sensitive columns of an observed domain in which about every second record has its own value.

        With the number of values. A domain that was declared tells nothing of the table, however large it is.
        """
        first = len(self.quasi_identifiers)
        return [
            (part.name, len(part.values))
            for part in self.domain.parts[first:]
            if part.name in self.observed and self.rows >= ENOUGH_ROWS and len(part.values) >= NEARLY_UNIQUE * self.rows
        ]

    def rare(self, below: int = RARE) -> list[str]:
        """Return the values of observed domains that fewer than `below` records have: the domain tells of them."""
        found = []
        for part, column in zip(self.domain.parts, self.cells.T, strict=True):
            counts = np.bincount(column, weights=self.numbers, minlength=len(part.values))
            if part.name in self.observed:
                found += [part.labels[c] for c in np.flatnonzero(counts < below)]
        return found


def counts_hash(profile: Profile) -> str:
    """Return a hash of the joint table."""
    labels = repr([(part.name, part.labels) for part in profile.domain.parts])
    counted = profile.cells.astype("<i4").tobytes() + profile.numbers.astype("<i8").tobytes()
    return hashlib.sha256(labels.encode() + counted).hexdigest()


def uniqueness(names: tuple[str, ...], sizes: Mapping[int, int]) -> Uniqueness:
    """Return the summary of group sizes (size -> groups).

    >>> u = uniqueness(("age",), {1: 2, 2: 1, 6: 1})
    >>> u.records, u.combinations, u.unique_share, u.median_group, u.median_record_group
    (10, 4, 0.2, 1.5, 6)
    """
    ordered = sorted(sizes)
    groups, records = sum(sizes.values()), sum(size * number for size, number in sizes.items())
    alone = sizes.get(1, 0)
    return Uniqueness(
        quasi_identifiers=names,
        records=records,
        combinations=groups,
        unique_records=alone,
        unique_share=alone / max(1, records),
        smallest_group=ordered[0] if ordered else 0,
        median_group=_median(ordered, [sizes[s] for s in ordered]),
        median_record_group=_lower_median(ordered, [s * sizes[s] for s in ordered]),
    )


def _lower_median(values: list[int], weights: list[int]) -> int:
    below = np.cumsum(weights)
    return values[int(np.searchsorted(below, below[-1] / 2))] if values else 0


def _median(values: list[int], weights: list[int]) -> float:
    upwards = _lower_median(values, weights)
    downwards = _lower_median(values[::-1], weights[::-1])
    return (upwards + downwards) / 2


# --- what every plan says of the table, whatever the method -----------------------------------------------------------

MANY = 20
"""More numbers than these as values of a column are probably quantities."""
MARKS = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "?", ".")
"""Texts that usually mean a missing value."""
YEAR = re.compile("[12][0-9]{3}")


def domain_notes(profile: Profile) -> list[str]:
    """Return what the domain tells; slips that are easily mended come first."""
    notes = [*_marks(profile), *_many_numbers(profile)]
    if profile.observed:
        notes.append(
            f"The domain of {some(list(profile.observed))} was read off the table: that a value occurs at all is "
            "published. Declare the domain to avoid it."
        )
        if rare := profile.rare():
            notes.append(
                f"{len(rare)} value(s) occur fewer than {RARE} times and are disclosed by the domain: {some(rare)}."
            )
    return [*notes, *profile.all_notes]


def _marks(profile: Profile) -> list[str]:
    """Return a note on texts that are values now, and usually mean that there is none."""
    found = [(part.name, mark) for part in profile.sensitive_domain.parts for mark in part.labels if mark in MARKS]
    return [
        f'{mark!r} is a value of {name!r}. If it means a missing value, say so: missing_values = ["", "{mark}"] in '
        "[input] for a CSV file, or an empty value in the table."
        for name, mark in found
    ]


def _many_numbers(profile: Profile) -> list[str]:
    """Return a note on every sensitive column that has many numbers as its values: quantities are better binned."""
    return [
        f"{part.name!r} has {len(part.values)} different numbers as values: if they are quantities, such as ages, more "
        "of each record stays with bins = { width = 10 }."
        for part in profile.sensitive_domain.parts
        if part.name in profile.observed and len(part.values) > MANY and all(map(_is_quantity, part.values))
    ]


def _is_quantity(value: Value) -> bool:
    """Whether a value may be a quantity: a number, but no year, which may be the label of a date."""
    text = "" if isinstance(value, bool) else label(value)
    return value is None or (text.lstrip("-").replace(".", "", 1).isdecimal() and not YEAR.fullmatch(text))
