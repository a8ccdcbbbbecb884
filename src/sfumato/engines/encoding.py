"""From a column's values to the codes of a domain, a batch at a time.

All work is done on the batch's dictionary (its distinct values); rows only go through a small table. An encoder either
knows its domain, and notes every value outside it, or learns it, in the order in which values appear.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.attributes import Attribute, Domain, Value, label
from sfumato.engines.arrays import codes_of
from sfumato.errors import PolicyError, TableError

LEFT_OUT = -1
"""The code of a row that is left out because the value is missing."""
REFUSED = -2
"""The code of a value that is not allowed; the encoder remembers it."""

Codes = npt.NDArray[np.int32]


@dataclass
class Refusal:
    """A value that is not allowed: how often and where first (row numbers from 1)."""

    rows: int
    first: int


@dataclass
class Encoder:
    """Codes for one column. `domain` None: learn it."""

    attribute: Attribute
    domain: Domain | None = None
    refused: dict[Value, Refusal] = field(default_factory=dict)
    untold: tuple[int, int] = (0, 0)  # more values that are refused, and their rows, where they are too many to name

    def __post_init__(self) -> None:
        self._codes: dict[Value, int] = dict(self.domain.index) if self.domain else {}
        self._bin_numbers: dict[Value, int] = {}
        self._seen: Any = None  # the dictionary that `_table` is for
        self._table: Codes = np.empty(0, dtype=np.int32)
        if self.domain is None and self.attribute.declared is not None:
            raise ValueError("a declared domain is not learned")

    @property
    def learned(self) -> tuple[Value, ...]:
        """The values so far, in the order of their codes."""
        return tuple(self._codes)

    def learned_in_order(self) -> tuple[Value, ...]:
        """The values so far in their natural order (bins from low to high), the missing value last."""
        known = [v for v in self._codes if v is not None]
        known.sort(key=self._bin_numbers.__getitem__ if self.attribute.bins else lambda v: v)
        return (*known, *([None] if None in self._codes else []))

    def bin_number(self, value: Value) -> int | None:
        """Return the number of a learned bin; None for the missing value, and where there are no bins."""
        return self._bin_numbers.get(value)

    def encode(self, column: Any, position: int) -> Codes:
        """Return the code of each row; `position` is the number of the first row in the whole table, from 0."""
        coded = _as_dictionary(column, self.attribute)
        if self._seen is None or not coded.dictionary.equals(self._seen):
            self._seen = coded.dictionary
            self._table = np.array(
                [*(self._code(v) for v in self._values(coded.dictionary)), self._code_of_missing()],
                dtype=np.int32,
            )
        positions = codes_of(coded, len(coded.dictionary))
        codes = self._table.take(positions)
        return self._settle(codes, positions, coded, position) if (self._table == REFUSED).any() else codes

    def _values(self, dictionary: Any) -> list[Value]:
        """Return the dictionary's values as the domain has them: bins by their labels, NaN as missing."""
        values: list[Any] = dictionary.to_pylist()
        if self.attribute.bins is None:
            return values
        read = _number_of_single if pa.types.is_float32(dictionary.type) else _number
        numbers = np.array([read(v) for v in values], dtype=np.float64)
        finite = self.attribute.bins.holds(numbers)
        bins = self.attribute.bins.numbers(np.where(finite, numbers, 0.0))
        names = {k: self.attribute.bins.label(k) for k in np.unique(bins).tolist()}
        self._bin_numbers |= {name: k for k, name in names.items()}
        binned: list[Value] = []
        for value, number, is_finite, k in zip(values, numbers, finite, bins.tolist(), strict=True):
            missing = value is None or (isinstance(value, float) and math.isnan(number))
            binned.append(names[k] if is_finite else None if missing else NotANumber(str(value)))
        return binned

    def _code(self, value: Value) -> int:
        if value is None:
            return self._code_of_missing()
        if value in self._codes:
            return self._codes[value]
        # a learned domain gets the value only when a row has it: dictionaries can hold unused values
        return REFUSED

    def _code_of_missing(self) -> int:
        if self.attribute.missing == "drop":
            return LEFT_OUT
        return self._codes.get(None, REFUSED) if self.attribute.missing == "category" else REFUSED

    def _settle(self, codes: Codes, positions: npt.NDArray[Any], coded: Any, start: int) -> Codes:
        """Learn the new values that rows really have, or note them as refused."""
        open_rows = np.flatnonzero(codes == REFUSED)
        if not open_rows.size:
            return codes
        values = [*self._values(coded.dictionary), None]
        which, first, count = np.unique(positions[open_rows], return_index=True, return_counts=True)
        for place, at, times in sorted(
            zip(which.tolist(), first.tolist(), count.tolist(), strict=True), key=lambda x: x[1]
        ):
            value = values[place]
            if self._may_learn(value):
                self._table[place] = self._codes.setdefault(value, len(self._codes))
            else:
                refusal = self.refused.setdefault(value, Refusal(0, start + int(open_rows[at]) + 1))
                refusal.rows += times
        return self._table.take(positions)

    def _may_learn(self, value: Value) -> bool:
        if self.domain is not None or isinstance(value, NotANumber):
            return False
        return value is not None or self.attribute.missing == "category"

    def check(self) -> None:
        """Raise if any value was refused: which, how many rows, the first row."""
        if self.refused:
            raise TableError(*self._complaint())

    def _complaint(self) -> tuple[str, str]:
        """Return what is wrong and what to do, of missing values and of others: who mends one wants to know both."""
        others: dict[Value, Refusal] = {value: refusal for value, refusal in self.refused.items() if value is not None}
        parts = [self._about_missing(self.refused[None])] if None in self.refused else []
        parts += [self._about_values(others)] if others else []
        return " ".join(message for message, _ in parts), " ".join(hint for _, hint in parts)

    def _about_missing(self, lacking: Refusal) -> tuple[str, str]:
        return (
            f"{self.attribute.name!r} is missing in {lacking.rows:,} row(s){first_row(',', lacking.first)}.",
            'Say what a missing value means: missing = "category" (a value of its own) '
            'or "drop" (the row is left out).',
        )

    def _about_values(self, refused: Mapping[Value, Refusal]) -> tuple[str, str]:
        name = self.attribute.name
        number, total = len(refused) + self.untold[0], sum(r.rows for r in refused.values()) + self.untold[1]
        first = min(r.first for r in refused.values())
        named = [repr(label(v)) for v in list(refused)[:5]]
        shown = ", ".join([*named, *(["..."] if number > len(named) else [])])
        if self.attribute.bins is not None and any(isinstance(v, NotANumber) for v in refused):
            return (
                f"{name!r} has bins, but {total:,} row(s) hold no finite number: {shown}{first_row(';', first)}.",
                "Mend them, or take the bins away.",
            )
        return (
            f"{name!r} has {number:,} value(s) outside its declared domain, in {total:,} row(s): {shown}"
            f"{first_row(';', first)}.",
            "Add them to the domain in the policy, or mend the table.",
        )


def first_row(after: str, number: int) -> str:
    """Return where something is first, for a message; nothing where rows have no numbers (0).

    >>> first_row(",", 7), first_row(",", 0)
    (', first in row 7', '')
    """
    return f"{after} first in row {number:,}" if number else ""


class NotANumber(str):
    """The text of a value that cannot be binned."""


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _number_of_single(value: Any) -> float:
    """Return a number of 32 bits as it is written: 0.7, not 0.699999988079071."""
    return math.nan if value is None else float(str(np.float32(value)))


def _as_dictionary(column: Any, attribute: Attribute) -> Any:
    """Return the column as a dictionary array of text, integers or truth values (numbers too, where they "
    "are binned)."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        check_kind(kind.value_type, attribute)
        if pa.types.is_string(kind.value_type) and not column.dictionary.null_count:
            return column
        column = column.cast(kind.value_type)
    check_kind(column.type, attribute)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    return column.dictionary_encode()


def check_kind(kind: Any, attribute: Attribute) -> None:
    """Raise unless the domain of a column of this Arrow type can be finite and written down."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if _is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return
    numeric = pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if numeric and attribute.bins is not None:
        return
    raise PolicyError(
        f"{attribute.name!r} holds values of type {kind}, which have no finite domain.",
        "Give the column bins in the policy." if numeric else "Turn it into text, integers or truth values first.",
    )


def fitted(attribute: Attribute, kind: Any) -> Attribute:
    """Check the column's type, and write a declared domain in it: 7 is "7" in a text column and the other way round."""
    check_kind(kind, attribute)
    if attribute.declared is None or attribute.bins is not None:
        return attribute
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(kind):
        return attribute
    convert = _integer if pa.types.is_integer(kind) else _text
    declared = tuple(convert(v, attribute.name) for v in attribute.declared)
    if pa.types.is_integer(kind) and number_type(declared) is None:
        raise PolicyError(
            f"The declared domain of {attribute.name!r} has integers that no one type of 64 bits holds.",
            "They must lie between -2^63 and 2^63 - 1, or all between 0 and 2^64 - 1.",
        )
    return replace(attribute, declared=declared)


def number_type(values: Iterable[Value]) -> type[np.generic] | None:
    """Return the numpy type that holds truth values or integers exactly; None if there is none."""
    known = [v for v in values if v is not None]
    if known and all(isinstance(v, bool) for v in known):
        return np.bool_
    numbers = [int(v) for v in known]
    low, high = min(numbers, default=0), max(numbers, default=0)
    if low >= -(2**63) and high < 2**63:
        return np.int64
    return np.uint64 if low >= 0 and high < 2**64 else None


def _integer(value: Value, name: str) -> Value:
    try:
        return None if value is None else int(value)
    except ValueError:
        raise PolicyError(f"{name!r} holds integers, but its declared domain has {value!r}.") from None


def _text(value: Value, name: str) -> Value:
    return str(value).lower() if isinstance(value, bool) else None if value is None else str(value)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))
