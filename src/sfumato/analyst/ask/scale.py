"""A hidden column itself as a quantity: the order of its values, and the numbers that they stand for.

    numbers         all values (but the missing one) are numbers, in text or not: sum, mean, distribution, quantiles
    bins            '[20, 30)': the same, a mean only through the middles of bins that have two ends
    other texts     the distribution and quantiles, where the policy says that its list of values is an order

A *score* is a number of each value: what a record with that value adds to a sum. The missing value is in no order, and
adds nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.errors import UsageError
from sfumato.release.folder import CONDITION_ERRORS, ReleaseFolder, connection, first_line, shown_values
from sfumato.show.results import values_array
from sfumato.show.words import named
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import Domain, SensitiveDomain, label
from sfumato.values.order import numbers_of, places_of
from sfumato.values.recoding import are_bins, bin_ends

Edge = Literal["lower", "middle", "upper"]
"""Where in its bin a record is taken to be; a number is all three."""


@dataclass(frozen=True)
class Scale:
    """The values of a hidden column in the order of their codes, with their places in the order, and as numbers."""

    column: str
    values: tuple[Any, ...]  # as answers show them
    places: tuple[int, ...]  # of each value, from 0; -1 for the missing one, and for all where there is no order
    ends: tuple[tuple[float, float] | None, ...]  # between which a value lies: itself, or its bin; None for no number

    @classmethod
    def of(cls, release: ReleaseFolder, column: str) -> Scale:
        """Return the scale of a hidden column of a release."""
        part = next(part for part in release.manifest.domain.parts if part.name == column)
        return cls.of_values(part, shown_values(release, part))

    @classmethod
    def of_values(cls, part: Domain, shown: tuple[Any, ...] = ()) -> Scale:
        """Return the scale of a domain, whose values answers may show in another way.

        >>> Scale.of_values(Domain("age", ("[30, 40)", "[100, 110)", None, "[20, 30)"))).places
        (1, 2, -1, 0)
        """
        known = [value for value in part.values if value is not None]
        numbers = numbers_of(known)
        ends: dict[Any, Any] = {}
        if numbers is not None:
            ends = {value: (float(x), float(x)) for value, x in zip(known, numbers, strict=True)}
        elif are_bins(known):
            ends = {value: bin_ends(str(value)) for value in known}
        return cls(part.name, shown or part.values, places_of(part), tuple(ends.get(value) for value in part.values))

    @property
    def size(self) -> int:
        """The number of places in the order; 0 where there is none."""
        return max(self.places, default=-1) + 1

    @cached_property
    def marks(self) -> tuple[Any, ...]:
        """The value of each place."""
        value_at = {place: value for value, place in reversed([*zip(self.values, self.places, strict=True)])}
        return tuple(value_at[place] for place in range(self.size))

    @property
    def numbers(self) -> FloatArray:
        """What an answer has for each place: the number there, or the place itself where values are no numbers."""
        if not self.are_numbers:
            return np.arange(self.size, dtype=np.float64)
        numbers = np.empty(self.size)
        numbers[[place for place in self.places if place >= 0]] = [ends[0] for ends in self._known_ends if ends]
        return numbers

    @property
    def are_numbers(self) -> bool:
        """Whether the values stand for numbers, and are no bins."""
        return all(ends is not None and ends[0] == ends[1] for ends in self._known_ends)

    @property
    def are_bins(self) -> bool:
        """Whether the values are bins of numbers."""
        return not self.are_numbers and None not in self._known_ends

    @property
    def has_missing(self) -> bool:
        """Whether a record may have no value."""
        return None in self.values

    @property
    def _known_ends(self) -> list[tuple[float, float] | None]:
        return [ends for value, ends in zip(self.values, self.ends, strict=True) if value is not None]

    def known(self) -> Score:
        """Return 1 for every value but the missing one."""
        return Score(self.column, tuple(float(value is not None) for value in self.values))

    def number(self, edge: Edge = "middle") -> Score:
        """Return the number of each value: of a bin its middle, or one of its ends. `require_numbers` comes first."""
        shares = {"lower": (1.0, 0.0), "middle": (0.5, 0.5), "upper": (0.0, 1.0)}[edge]
        ends = [(0.0, 0.0) if pair is None else pair for pair in self.ends]
        return Score(self.column, tuple(shares[0] * low + shares[1] * high for low, high in ends))

    def require_order(self) -> None:
        """Raise if the values have no order."""
        if not self.size:
            raise UsageError(
                f"{self.column!r} holds texts such as {self._some()}, which are in no order: it has no distribution "
                "function and no quantiles.",
                f"Ask for counts by it: GROUP BY {self.column}. If its values do have an order, the publisher can say "
                "so in the policy: ordered = true, and the values listed from the lowest to the highest.",
            )

    def require_numbers(self) -> None:
        """Raise if the values stand for no numbers."""
        instead = (
            f"Its distribution function and quantiles can be told: sfumato distribution RELEASE {self.column}, or "
            f"SELECT QUANTILE({self.column}, 0.5) FROM release"
        )
        if None in self._known_ends:
            raise UsageError(
                f"{self.column!r} holds texts such as {self._some()}, which are no numbers: it has no sum and no "
                "average.",
                instead if self.size else f"Ask for counts by it: GROUP BY {self.column}",
            )
        open_ended = [v for v, ends in zip(self.values, self.ends, strict=True) if ends and not all(map(_finite, ends))]
        if open_ended:
            raise UsageError(
                f"{self.column!r} is published in bins, and {label(open_ended[0])!r} has no end, so it has no middle: "
                "any sum or average would be a guess.",
                instead,
            )

    def _some(self) -> str:
        known = [value for value in self.values if value is not None]
        return " and ".join(repr(value) for value in known[:2])


@dataclass(frozen=True)
class Score:
    """A number of each value of a hidden column, in the order of their codes: what a record with it adds."""

    column: str
    of_value: tuple[float, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The hidden columns that it looks at."""
        return (self.column,)

    def over(self, domain: SensitiveDomain) -> FloatArray:
        """Return the number of each code of a domain with this column."""
        codes = domain.codes[domain.names.index(self.column)]
        return np.array(self.of_value, dtype=np.float64)[codes]


@dataclass(frozen=True)
class Told:
    """A number of each value of hidden columns, told by an expression on them: checked SQL. Nothing adds nothing."""

    columns: tuple[str, ...]
    sql: str

    def over(self, domain: SensitiveDomain) -> FloatArray:
        """Return the number of each code of a domain with these columns."""
        try:
            return np.nan_to_num(asked_of_values(self.sql, domain))
        except CONDITION_ERRORS as problem:
            raise UsageError(
                f"What is to be summed of {named(self.columns)} does not fit: {first_line(problem)}.",
                f"Ask for counts by it: GROUP BY {self.columns[0]}. Or say what each value counts: "
                f"SUM(CASE WHEN {self.columns[0]} = '...' THEN 1 ELSE 0 END)",
            ) from None


def asked_of_values(sql: str, domain: SensitiveDomain) -> FloatArray:
    """Ask an expression of every value of a domain; NaN where it has no answer."""
    return _asked_of_values(sql, domain, tuple(type(value) for part in domain.parts for value in part.values))


@lru_cache(maxsize=64)
def _asked_of_values(sql: str, domain: SensitiveDomain, kinds: tuple[type, ...]) -> FloatArray:
    """`kinds` tell domains apart whose values are equal only to Python: 1, 1.0 and True."""
    columns = combinations(domain)
    place = "place" + "_" * max(map(len, columns))  # the name of no column
    values = pa.table({**columns, place: pa.array(range(domain.size))})
    with connection() as opened:
        opened.register("domain", values)
        found = opened.sql(f"SELECT CAST(({sql}) AS DOUBLE) FROM domain ORDER BY {place}").to_arrow_table()
    return np.asarray(found.column(0).combine_chunks().to_numpy(zero_copy_only=False), dtype=np.float64)


def combinations(domain: SensitiveDomain) -> dict[str, Any]:
    """Return the values of each column of a domain in all combinations, in the order of their codes."""
    codes = domain.codes
    return {
        part.name: values_array(part.values).take(pa.array(own)) for part, own in zip(domain.parts, codes, strict=True)
    }


def places_over(domain: SensitiveDomain, scale: Scale) -> IntArray:
    """Return the place in a scale's order of each code of a domain; -1 for a missing value."""
    codes = domain.codes[domain.names.index(scale.column)]
    return np.array(scale.places, dtype=np.int64)[codes]


def _finite(number: float) -> bool:
    return math.isfinite(number)
