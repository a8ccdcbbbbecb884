"""The map: from a batch of the table to a batch of the release, each row by its own values and secret words."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import RESERVED, Batch, RecordKey, Source, ahead
from sfumato.engines.rows.encoding import (
    Encoder,
    Refusal,
    complete_rows,
    dropping,
    first_row,
    fitted,
    new_encoder,
    number_type,
)
from sfumato.errors import TableError
from sfumato.values.arrays import BoolArray, CodeArray, IntArray, WordArray
from sfumato.values.arrow import first_null, from_numpy, from_text
from sfumato.values.attributes import Attribute, Domain, Schema
from sfumato.values.mechanism import LABEL, Mechanism
from sfumato.values.randomness import SecretKey, Step

FIRST_DAY, LAST_DAY = -719_162, 2_932_896
"""The first day of the year 1 and the last of the year 9999, from 1 January 1970."""
MOST_FILES = 1 << 32
"""Of a table: beyond that the words of the next mechanism begin."""

CHECKS = 1 << 40
"""The stream of words that the values of the first mechanism are hashed with; the next one's follows."""

Beside = Callable[[Batch], dict[str, npt.NDArray[Any]]]
"""Gives numbers of each row of a batch, by the names of their columns."""

WORD = f"{RESERVED}word"
"""The column of secret words that go with rows until these are in their order."""

Dealt = Callable[[Batch, SecretKey, BoolArray | None, CodeArray], CodeArray]
"""Gives the sub-table of each kept row, from 0, by its sensitive value."""


class RowMapper:
    """Perturbs the columns of each mechanism, recodes and checks the others, drops columns and rows that are left out.

    `dealt` goes with one mechanism. `seen` is shown all values, as the number of their mechanism and their codes in it.
    `beside` gives further columns of numbers.
    """

    def __init__(
        self,
        schema: Schema,
        source: Source,
        mechanisms: Sequence[Mechanism],
        key: SecretKey,
        record_key: RecordKey | None = None,
        drawn: BoolArray | None = None,
        dealt: Dealt | None = None,
        seen: Callable[[int, CodeArray], None] | None = None,
        beside: Beside | None = None,
    ) -> None:
        self._schema, self._source = schema, source
        self._mechanisms, self._key = mechanisms, key
        parts = [part for mechanism in mechanisms for part in mechanism.domain.parts]
        self._record_key, self._drawn, self._dealt, self._beside = record_key, drawn, dealt, beside
        self._published = [name for name in source.names if schema[name].is_published]
        randomized = {part.name for part in parts}
        self._others = [schema[name] for name in self._published if name not in randomized]
        self._columns = list(dict.fromkeys([*self._published, *([record_key.column] if record_key else [])]))
        self._encoders = {part.name: Encoder(schema[part.name], part) for part in parts}
        self._encoders |= {a.name: checking_encoder(a, source) for a in self._others if a.recoding or a.declared}
        self._contexts = [record_key.noise_context(each) for each in mechanisms] if record_key else []
        self._types = integer_types([part for mechanism in mechanisms for part in mechanism.published.parts], source)
        self._dropping = dropping(schema)
        self._position = 0  # rows read so far, over all files
        self._seen = seen

    def batches(self, reading_ahead: bool = False) -> Generator[tuple[int, Any], None, None]:
        """Yield (rows read, published rows) for each batch of the table, which may be read in a thread of its own."""
        read = self._source.batches(self._columns)
        with closing(ahead(read)) if reading_ahead else nullcontext(read) as batches:
            for batch in batches:
                yield batch.rows.num_rows, self._map(batch)
                self._position += batch.rows.num_rows
                del batch

    def _map(self, batch: Batch) -> Any:
        codes = {}
        for name, encoder in self._encoders.items():
            codes[name] = encoder.encode(batch.rows.column(name), self._position)
            if encoder.refused:
                self._complain(name)
        keep = self._keep(batch.rows)
        rows = batch.rows
        if keep is not None:
            rows = _without_views(rows).filter(from_numpy(keep))
            codes = {name: column[keep] for name, column in codes.items()}
        new: dict[str, Any] = {}
        labels: CodeArray | None = None
        for number, mechanism in enumerate(self._mechanisms):
            domain = mechanism.domain
            true = domain.join(codes[name] for name in domain.names)
            if self._seen is not None:
                self._seen(number, true)
            labels = None if self._dealt is None else self._dealt(batch, self._key, keep, true)
            drawn = mechanism.sample(true, labels, self._words(number, batch, keep, rows, true))
            for part, column in zip(mechanism.published.parts, mechanism.published.split(drawn), strict=True):
                new[part.name] = decoded(part, column, self._types.get(part.name))
        for attribute in self._others:
            name = attribute.name
            if attribute.recoding:
                new[name] = decoded(Domain(name, self._encoders[name].learned), codes[name])
            else:
                new[name] = _plain(rows.column(name))
                _check_days(name, new[name])
        names = list(self._published)
        if labels is not None:
            new[LABEL] = from_numpy(labels + np.int32(1))
            names.append(LABEL)
        for name, numbers in (self._beside(batch) if self._beside else {}).items():
            new[name] = from_numpy(numbers if keep is None else numbers[keep])
            names.append(name)
        return pa.RecordBatch.from_arrays([new[name] for name in names], names=names)

    def _keep(self, rows: Any) -> BoolArray | None:
        """Which rows are published; None for all of them."""
        for attribute in self._others:
            if attribute.missing == "error" and rows.column(attribute.name).null_count:
                self._complain(attribute.name)
        drawn = None if self._drawn is None else self._drawn[self._position : self._position + rows.num_rows]
        masks = [mask for mask in (complete_rows(rows, self._dropping), drawn) if mask is not None]
        return np.logical_and.reduce(masks) if masks else None

    def _words(self, number: int, batch: Batch, keep: BoolArray | None, rows: Any, true: CodeArray) -> WordArray:
        """Return a word of each kept row for the mechanism of this number; every mechanism has words of its own."""
        if self._record_key is not None:
            return self._record_key.noise_words(self._key, self._contexts[number], rows, true, self._position)
        words = batch.words(self._key, Step.PERTURB, lambda file: file + number * MOST_FILES)
        return words if keep is None else words[keep]

    def _complain(self, name: str) -> None:
        """Read the whole column again to tell how many rows are concerned, and raise."""
        if name in self._source.wide:
            for part in self._source.wide[name]:
                self._complain(part)
        if name in self._encoders:
            encoder = Encoder(self._schema[name], self._encoders[name].domain)
            for batch, position in positioned(self._source, [name]):
                encoder.encode(batch.rows.column(0), position)
            encoder.check()
        missing, first = 0, 0
        for batch, position in positioned(self._source, [name]):
            column = batch.rows.column(0)
            if column.null_count and not missing:
                first = position + first_null(column) + 1
            missing += column.null_count
        if missing:
            raise missing_values(name, Refusal(missing, first))


def missing_values(name: str, lacking: Refusal) -> TableError:
    """Return what is raised where a column that is published as it is misses values, and the policy says nothing."""
    return TableError(
        f"{name!r} is missing in {lacking.rows:,} row(s){first_row(',', lacking.first)}.",
        'Say what a missing value means: missing = "category" (it stays empty) or "drop" (leave the row out).',
    )


def positioned(source: Source, columns: list[str]) -> Iterator[tuple[Batch, int]]:
    """Yield each batch with the number of its first row in the whole table."""
    position = 0
    for batch in source.batches(columns):
        yield batch, position
        position += batch.rows.num_rows


def decoded(part: Domain, codes: CodeArray, integers: Any = None) -> Any:
    """Return the values of the codes: text as a dictionary column, numbers and truth values as themselves.

    `integers` is the type that whole numbers are to have, if not one of 64 bits.
    """
    missing = codes == part.index[None] if None in part.index else None
    known = [v for v in part.values if v is not None]
    if all(isinstance(v, str) for v in known):
        values = from_text(["" if v is None else str(v) for v in part.values])
        return pa.DictionaryArray.from_arrays(from_numpy(codes, missing), values)
    filler: Any = type(known[0])()
    table = np.array([filler if v is None else v for v in part.values], dtype=number_type(known))
    column = from_numpy(table[codes], missing)
    return column if integers is None else column.cast(integers)


def integer_types(parts: Iterable[Domain], source: Source) -> dict[str, Any]:
    """Return the integer types that the table has columns in, where they hold the whole domain."""
    found = {}
    for part in parts:
        kind = source.column_type(part.name)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        numbers = [v for v in part.values if isinstance(v, int) and not isinstance(v, bool)]
        if pa.types.is_integer(kind) and len(numbers) == sum(v is not None for v in part.values):
            limits = np.iinfo(kind.to_pandas_dtype())
            if all(limits.min <= v <= limits.max for v in numbers):
                found[part.name] = kind
    return found


def checking_encoder(attribute: Attribute, source: Source) -> Encoder:
    """Return an encoder for a column that is not randomized, and is recoded or has a declared domain."""
    return new_encoder(fitted(attribute, source.column_type(attribute.name)))


def _without_views(rows: Any) -> Any:
    """Return the rows with views of text as text: Arrow cannot filter views."""
    if not any(pa.types.is_string_view(kind) for kind in rows.schema.types):
        return rows
    kinds = [pa.string() if pa.types.is_string_view(kind) else kind for kind in rows.schema.types]
    return rows.cast(pa.schema(list(zip(rows.schema.names, kinds, strict=True))))


def _check_days(name: str, column: Any) -> None:
    """Raise if a day lies beyond the years that programs know: it would be published, and not be read back."""
    if not (pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)) or not len(column):
        return
    plain = column.type if pa.types.is_date(column.type) else pa.timestamp(column.type.unit)
    width = pa.int32() if pa.types.is_date32(plain) else pa.int64()
    found = pc.min_max(column.view(width))
    per_day = {"date32[day]": 1, "timestamp[s]": 86_400}.get(str(plain))
    per_day = per_day or 86_400 * 10 ** {"ms": 3, "us": 6, "ns": 9}[str(plain).split("[")[1][:2]]
    low, high = (found[end].as_py() for end in ("min", "max"))
    if low is not None and (low < FIRST_DAY * per_day or high >= (LAST_DAY + 1) * per_day):
        raise TableError(
            f"{name!r} holds a date before the year 1 or after the year 9999, which most programs cannot read.",
            "Correct it (a date far off often stands for none), or leave it empty and say what a missing value means.",
        )


def _plain(column: Any) -> Any:
    """Return a column as it can be written: text that comes as a dictionary stays one, all else is plain."""
    kind = column.type
    if pa.types.is_string_view(kind):
        return column.cast(pa.string())
    if not pa.types.is_dictionary(kind):
        return column
    if not pa.types.is_string(kind.value_type):
        return column.cast(kind.value_type)
    return column.cast(pa.dictionary(pa.int32(), pa.string()))


# --- whether the rows that are published have the values that were counted --------------------------------------------
#
# A secret sum over both is compared at the end. Every value x of mechanism k has a secret 64-bit word h_k(x). Over all
# rows the words add up to
#
#     sum of h_k(x) over rows and mechanisms  =  sum of counts_k(x) h_k(x)          modulo 2^64
#
# if the counts are those that were planned for. Other counts have the same sum with a probability of about 2^-64.


def hash_of_counts(key: SecretKey, counts: Sequence[IntArray]) -> int:
    """Return what the words of all rows' values add up to, if there are so many of each value of each mechanism."""
    words = value_words(key, [of_one.size for of_one in counts])
    sums = (int(np.vdot(each, of_one.astype(np.uint64))) for each, of_one in zip(words, counts, strict=True))
    return sum(sums) % (1 << 64)


def value_words(key: SecretKey, sizes: Sequence[int]) -> list[WordArray]:
    """Return the secret word of each value, for domains of these sizes."""
    return [key.words(Step.HASH, CHECKS + number, 0, size) for number, size in enumerate(sizes)]


class SeenValues:
    """Adds up the words of the values of rows that pass, into `total` where one is given."""

    def __init__(self, key: SecretKey, sizes: Sequence[int], total: WordArray | None = None) -> None:
        self._words = value_words(key, sizes)
        self._total = np.zeros(1, dtype=np.uint64) if total is None else total

    def __call__(self, number: int, codes: CodeArray) -> None:
        """Add the values of some rows, as codes of the mechanism of this number."""
        np.add(self._total, self._words[number].take(codes).sum(dtype=np.uint64), out=self._total)

    @property
    def hash(self) -> int:
        """What they add up to."""
        return int(self._total[0])
