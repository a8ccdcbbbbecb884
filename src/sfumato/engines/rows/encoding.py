"""From a column's values to the codes of a domain, a batch at a time.

All work is done on the batch's dictionary (its distinct values); rows only go through a small table. An encoder either
knows its domain, and notes every value outside it, or learns it, in the order in which values appear. Rows with a
missing value that drops them are left out, and of a person perhaps all rows but one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import Batch, Numbering, RecordKey, by_file
from sfumato.engines.rows.recoding import ISO_DATE, Unfit, as_text, check_recoding, in_days, recoded
from sfumato.errors import PlanMismatch, PolicyError, TableError
from sfumato.values.arrays import BoolArray, CodeArray, WordArray
from sfumato.values.arrow import codes_of, is_text, nan_as_null, nulls_of
from sfumato.values.attributes import Attribute, Domain, Schema, SensitiveDomain, Value, label
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.recoding import DateBins, Merge
from sfumato.values.text import nearest

NAMED = 5
"""Values that a message names."""
LEFT_OUT = -1
"""The code of a row that is left out because the value is missing."""
REFUSED = -2
"""The code of a value that is not allowed; the encoder remembers it."""


@dataclass
class Refusal:
    """A value that is not allowed: how often and where first (row numbers from 1)."""

    rows: int
    first: int


@dataclass
class Encoder:
    """CodeArray for one column. `domain` None: learn it."""

    attribute: Attribute
    domain: Domain | None = None
    refused: dict[Value, Refusal] = field(default_factory=dict)
    untold: tuple[int, int] = (0, 0)  # more values that are refused, and their rows, where they are too many to name

    def __post_init__(self) -> None:
        self._codes: dict[Value, int] = dict(self.domain.index) if self.domain else {}
        self._rows = 0  # that were encoded here: none, where a cluster did it
        self._seen: Any = None  # the dictionary that the rest is for
        self._values: list[Value] = []  # as they are published
        self._places: npt.NDArray[np.int64] | None = None  # of the dictionary's values among them; None: the same
        self._table: CodeArray = np.empty(0, dtype=np.int32)  # the code of each value, and of a missing one
        self._direct = self._table  # the same for the dictionary's values
        self._unseen = set(sources(self.attribute))
        if self.domain is None and self.attribute.declared is not None:
            raise ValueError("a declared domain is not learned")

    @property
    def learned(self) -> tuple[Value, ...]:
        """The values so far, in the order of their codes."""
        return tuple(self._codes)

    @property
    def unseen(self) -> tuple[str, ...]:
        """The values to be merged that no row had so far."""
        return tuple(value for value in sources(self.attribute) if value in self._unseen)

    def encode(self, column: Any, position: int) -> CodeArray:
        """Return the code of each row; `position` is the number of the first row in the whole table, from 0."""
        self._rows += len(column)
        coded = _as_dictionary(column, self.attribute)
        if self._seen is None or not coded.dictionary.equals(self._seen):
            self._look_up(coded.dictionary)
        positions = codes_of(coded, len(coded.dictionary))
        if self._unseen:
            self._note_sources(positions)
        codes = self._direct.take(positions)
        return self._settle(codes, positions, position) if (self._table == REFUSED).any() else codes

    def _look_up(self, dictionary: Any) -> None:
        """Find the published values of a dictionary, and their codes."""
        self._seen = dictionary
        if self.attribute.recoding is None:
            self._values, self._places = [*dictionary.to_pylist(), None], None
        else:
            values, places = recoded(dictionary, self.attribute.recoding)
            self._values, self._places = [*values, None], np.append(places, len(values))
        self._table = np.array([self._code(value) for value in self._values], dtype=np.int32)
        self._direct = self._table if self._places is None else self._table.take(self._places)

    def _note_sources(self, positions: npt.NDArray[Any]) -> None:
        """Take note of which values that are merged rows really have."""
        texts = [*as_text(self._seen), None]
        self._unseen -= {text for place in np.unique(positions).tolist() if (text := texts[place]) is not None}

    def _code(self, value: Value) -> int:
        if value is None and self.attribute.missing != "category":
            return LEFT_OUT if self.attribute.missing == "drop" else REFUSED
        # a learned domain gets the value only when a row has it: dictionaries can hold unused values
        return REFUSED if isinstance(value, Unfit) else self._codes.get(value, REFUSED)

    def _settle(self, codes: CodeArray, positions: npt.NDArray[Any], start: int) -> CodeArray:
        """Learn the new values that rows really have, or note them as refused."""
        if not codes.size or codes.min() > REFUSED:  # the least code of all
            return codes
        open_rows = np.flatnonzero(codes == REFUSED)
        open_places = positions[open_rows] if self._places is None else self._places.take(positions[open_rows])
        which, first, count = np.unique(open_places, return_index=True, return_counts=True)
        for k in np.argsort(first).tolist():
            place, value = int(which[k]), self._values[which[k]]
            is_category = value is not None or self.attribute.missing == "category"
            if self.domain is None and is_category and not isinstance(value, Unfit):
                self._table[place] = self._codes.setdefault(value, len(self._codes))
            else:
                refusal = self.refused.setdefault(value, Refusal(0, start + int(open_rows[first[k]]) + 1))
                refusal.rows += int(count[k])
        self._direct = self._table if self._places is None else self._table.take(self._places)
        return self._direct.take(positions)

    def check(self) -> None:
        """Raise if any value was refused: which, how many rows, the first row."""
        if self.refused:
            raise TableError(*self._complaint())

    def _complaint(self) -> tuple[str, str]:
        """Return what is wrong and what to do, of missing values and of others: who mends one wants to know both."""
        known: dict[Value, Refusal] = {value: refusal for value, refusal in self.refused.items() if value is not None}
        unfit: dict[Value, Refusal] = {v: refusal for v, refusal in known.items() if isinstance(v, Unfit)}
        outside = {value: refusal for value, refusal in known.items() if value not in unfit}
        parts = [self._about_missing(self.refused[None])] if None in self.refused else []
        parts += [self._about_unfit(unfit, (0, 0) if outside else self.untold)] if unfit else []
        parts += [self._about_outside(outside)] if outside else []
        return " ".join(message for message, _ in parts), " ".join(hint for _, hint in parts)

    def _about_missing(self, lacking: Refusal) -> tuple[str, str]:
        if lacking.rows == self._rows:  # no row has a value: to call a missing one a category would not help
            return (
                f"{self.attribute.name!r} is missing in all {lacking.rows:,} row(s).",
                'Leave the column out (role = "drop"), or fill it in the table.'
                if self.attribute.role != "sensitive"
                else "Fill it in the table, or choose another sensitive column.",
            )
        return (
            f"{self.attribute.name!r} is missing in {lacking.rows:,} row(s){first_row(',', lacking.first)}.",
            'Say what a missing value means: missing = "category" (a value of its own) '
            'or "drop" (the row is left out).',
        )

    def _about_outside(self, refused: Mapping[Value, Refusal]) -> tuple[str, str]:
        """Return what is wrong with values outside the domain; what is spelled nearly like one may be meant by it."""
        number, rows, where = _told(refused, self.untold)
        known = [label(value) for value in self._codes if value is not None]
        pairs = ((v, nearest(v, known) or _same_number(v, known)) for v in [label(value) for value in refused][:NAMED])
        alike = next((f" Is {value!r} the same as {near!r} of the domain?" for value, near in pairs if near), "")
        return (
            f"{self.attribute.name!r} has {number:,} value(s) outside its declared domain, in {rows:,} row(s): {where}",
            f"Add them to the domain in the policy, as they are written, or mend the table.{alike}",
        )

    def _about_unfit(self, refused: Mapping[Value, Refusal], untold: tuple[int, int]) -> tuple[str, str]:
        """Return what is wrong with values that cannot be recoded, and what to do."""
        name, recoding = self.attribute.name, self.attribute.recoding
        _, rows, where = _told(refused, untold)
        if isinstance(recoding, Merge):
            taken = str(next(iter(refused)))
            listed = ", ".join(f'"{value}"' for value in (*dict(recoding.values)[taken], taken))
            return (
                f"{name!r} merges values into a name that {rows:,} row(s) hold already: {where}",
                f'Choose another name, or merge these rows too: "{taken}" = [{listed}].',
            )
        if isinstance(recoding, DateBins):
            return (
                f"{name!r} has bins of dates, but {rows:,} row(s) hold no date of the years 1 to 9999: {where}",
                "Write dates like 2019-12-31; a time may follow, as in 2019-12-31T23:59. Mend these rows, or take the "
                "bins away. Texts of a CSV file that mean a missing value are named in [input] missing_values.",
            )
        return (
            f"{name!r} has bins, but {rows:,} row(s) hold no finite number: {where}",
            _ON_NO_NUMBER[any(ISO_DATE.fullmatch(str(value)) for value in refused)],
        )


_ON_NO_NUMBER = {
    True: 'Dates take bins = "year", "quarter" or "month".',
    False: "Mend these rows, or take the bins away: they are for numbers, and merge = { NAME = [...] } joins texts. A "
    "text of a CSV file that means a missing value is named in [input] missing_values.",
}
"""What to do about values that have no bin, by whether they are dates."""


def _told(refused: Mapping[Value, Refusal], untold: tuple[int, int]) -> tuple[int, int, str]:
    """Return how many values are refused, in how many rows, and the first of them with the first row."""
    number, rows = len(refused) + untold[0], sum(r.rows for r in refused.values()) + untold[1]
    named = [repr(label(v)) for v in list(refused)[:NAMED]]
    shown = ", ".join([*named, *(["..."] if number > len(named) else [])])
    return number, rows, f"{shown}{first_row(';', min(r.first for r in refused.values()))}."


def _same_number(value: str, known: Iterable[str]) -> str | None:
    """Return the known value that is the same number, written otherwise: 007 and 7."""
    return next(
        (other for other in known if value.isdecimal() and other.isdecimal() and int(value) == int(other)), None
    )


def sources(attribute: Attribute) -> tuple[str, ...]:
    """Return the values of a column that are merged."""
    return tuple(attribute.recoding.name_of) if isinstance(attribute.recoding, Merge) else ()


def new_encoder(attribute: Attribute) -> Encoder:
    """Return an encoder that knows the declared domain of a column, or learns it."""
    return Encoder(attribute, None if attribute.declared is None else Domain(attribute.name, attribute.declared))


def first_row(after: str, number: int) -> str:
    """Return where something is first, for a message; nothing where rows have no numbers (0).

    >>> first_row(",", 7), first_row(",", 0)
    (', first in row 7', '')
    """
    return f"{after} first in row {number:,}" if number else ""


def in_order(values: Iterable[Value], attribute: Attribute) -> tuple[Value, ...]:
    """Return the values of a column in their natural order (bins from low to high), the missing value last."""
    told = list(values)
    known: list[Any] = [value for value in told if value is not None]
    known.sort(key=None if attribute.recoding is None else attribute.recoding.order)
    return (*known, *([None] if None in told else []))


def _as_dictionary(column: Any, attribute: Attribute) -> Any:
    """Return the column as a dictionary array: of text, integers or truth values, or of what can be binned."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        check_kind(kind.value_type, attribute)
        if pa.types.is_string(kind.value_type) and not column.dictionary.null_count:
            return column
        column = column.cast(kind.value_type)
    check_kind(column.type, attribute)
    if pa.types.is_large_string(column.type) or pa.types.is_string_view(column.type):
        column = column.cast(pa.string())
    if isinstance(attribute.recoding, DateBins) and not pa.types.is_string(column.type):
        column = in_days(column)
    return column.dictionary_encode()


def check_kind(kind: Any, attribute: Attribute) -> None:
    """Raise unless the domain of a column of this Arrow type can be finite and written down."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if attribute.recoding is not None:
        check_recoding(attribute, kind)
        return
    if is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return
    binned = (pa.types.is_floating, pa.types.is_decimal, pa.types.is_date, pa.types.is_timestamp)
    raise PolicyError(
        f"{attribute.name!r} holds values of type {kind}, which have no finite domain.",
        "Give the column bins in the policy."
        if any(is_such(kind) for is_such in binned)
        else "Turn it into text, integers or truth values first.",
    )


def fitted(attribute: Attribute, kind: Any) -> Attribute:
    """Check the column's type, and write a declared domain in it: 7 is "7" in a text column and the other way round."""
    check_kind(kind, attribute)
    if attribute.declared is None or attribute.recoding is not None:
        return attribute
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_boolean(kind):
        return attribute
    if not pa.types.is_integer(kind):
        texts = (str(v).lower() if isinstance(v, bool) else None if v is None else str(v) for v in attribute.declared)
        return replace(attribute, declared=tuple(texts))
    declared = tuple(_integer(v, attribute.name) for v in attribute.declared)
    if number_type(declared) is None:
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
        raise PolicyError(
            f"{name!r} holds integers, but its declared domain has {value!r}.",
            "List whole numbers: domain = [1, 2, 3].",
        ) from None


# --- which rows are published, and what is known of each --------------------------------------------------------------


def dropping(schema: Schema) -> list[Attribute]:
    """Return the published attributes whose missing values leave a row out."""
    return [a for a in schema.attributes if a.missing == "drop" and a.is_published]


def complete_columns(schema: Schema) -> frozenset[str]:
    """Return the published columns of which no published row misses a value: by the policy, whatever the table has."""
    return frozenset(a.name for a in schema.attributes if a.is_published and a.missing != "category")


def complete_rows(rows: Any, attributes: Sequence[Attribute]) -> BoolArray | None:
    """Return the rows in which none of these attributes is missing; None for all."""
    gaps = [gap for a in attributes if (gap := _gaps(rows.column(a.name), a)) is not None]
    return ~np.logical_or.reduce(gaps) if gaps else None


def _gaps(column: Any, attribute: Attribute) -> BoolArray | None:
    # where numbers are binned, NaN is missing too: the encoder says so
    return nulls_of(column if attribute.recoding is None else nan_as_null(column))


def needed_to_draw(schema: Schema, name: str, record_key: RecordKey | None) -> list[str]:
    """Return the columns by which one row of each person is drawn."""
    own = [record_key.column] if record_key else []
    return list(dict.fromkeys([name, *own, *(a.name for a in dropping(schema))]))


def person_words(
    batch: Batch, persons: list[bytes], key: SecretKey, record_key: RecordKey | None, position: int
) -> WordArray:
    """Return a word for each row: by its record key, so that rows that come or go move no other; else by its place."""
    if record_key is None:
        return batch.words(key, Step.PERSON)
    return record_key.person_words(key, persons, batch.rows, position)


class SensitiveRows:
    """The values of the rows that are published."""

    def __init__(self, schema: Schema, domain: SensitiveDomain) -> None:
        self._domain, self._drops = domain, dropping(schema)
        self._encoders = [Encoder(schema[part.name], part) for part in domain.parts]
        self.columns = list(dict.fromkeys([*domain.names, *(a.name for a in self._drops)]))

    def codes(self, batch: Batch) -> tuple[CodeArray, BoolArray | None]:
        """Return the codes of the rows that are kept, and which these are; None for all."""
        columns = [encoder.encode(batch.rows.column(encoder.attribute.name), 0) for encoder in self._encoders]
        keep = complete_rows(batch.rows, self._drops)
        if keep is not None:
            columns = [column[keep] for column in columns]
        if any(encoder.refused for encoder in self._encoders):
            raise changed_table()
        return self._domain.join(columns), keep

    def with_words(
        self, batch: Batch, key: SecretKey, step: Step, stream: Numbering = by_file
    ) -> tuple[CodeArray, WordArray]:
        """Return value and word of the rows that are kept."""
        codes, keep = self.codes(batch)
        words = batch.words(key, step, stream)
        return codes, words if keep is None else words[keep]


def changed_table() -> PlanMismatch:
    """Return what is raised where a plan depends on the table's counts, and these are others."""
    return PlanMismatch(
        "The table is not the one that was planned: it has other values, or other numbers of them.",
        "Plan again with the table as it is now.",
    )
