"""What is seen of a table's rows as they would be published: of values, and of text that holds numbers.

Columns are looked at in a sample of the first rows, for `looks` to judge. One that is nearly unique there is counted
whole: a sample of rows has, for its size, at least as many different values as all of them.

Which columns of text hold numbers is found as rows are written. Almost every batch is settled by one regular expression
for each column (for a run of columns that is copied as one, one for all of it): it fits the numbers that are written
like those before. Only rows that it does not fit are looked into. Which columns hold formulas that spreadsheet programs
would calculate is found there too, up to the first formula of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import BATCH_ROWS, Source
from sfumato.engines.embedded.counting import not_nan, plain_kind, recoding_notes, run, salt
from sfumato.engines.rows.encoding import complete_rows, dropping, fitted, new_encoder
from sfumato.engines.rows.mapping import checking_encoder, positioned
from sfumato.errors import TableError
from sfumato.show.formulas import FORMULA, SIGNED_NUMBER
from sfumato.values.arrays import IntArray, Progress
from sfumato.values.arrow import from_numpy, is_text
from sfumato.values.attributes import Attribute, Schema
from sfumato.values.looks import PATTERNS, Seen, is_id, words
from sfumato.values.number_texts import AnySpelling, ColumnType, Holds, Spelling, any_spelling_of, spelling_of
from sfumato.values.randomness import simulation

FIRST_ROWS = BATCH_ROWS
"""Rows from the beginning of the table that are looked at: what the engine reads at a time."""
SAMPLE = 20_000
"""Of these, so many in which contents are looked at."""
DOUBT = 0.4
"""Different values among the sampled ones, as a share, from which all of the first rows are counted."""
DAYS = ("day", "first of a month")
HOLDS_FORMULAS = b"sfumato.formulas"
"""Under which a field of an Arrow schema tells that its text holds formulas; no file has it."""
OF_RUN = r"(?:^|,)(?:[=@\t\r\n＝＠]|[＋－][^,]|[+-](?:[0-9.]*[^0-9.,]|\.(?:,|$)|[0-9]*\.[0-9]*\.))"
"""Fits every run of columns with a formula, and some with numbers such as -1e5."""

FIRST = "=@\t\r\n+-＝".encode()
"""The first bytes of formulas; those of the wide signs are the same."""
IS_FIRST = np.isin(np.arange(256), list(FIRST))
MARKS = (b"=", b"@", b"\t", b"+", "＝".encode()[:1], b",-")
"""One of them is in every run with a formula, but for one that begins with a minus. Looking for them takes a fifth of
the time that a regular expression does."""


def see(source: Source, attributes: Sequence[Attribute]) -> list[Seen]:
    """Return what is seen of columns of a table."""
    if not attributes:
        return []
    first, whole = _first_rows(source, [a.name for a in attributes])
    found = [seen_in(first, a) for a in attributes]
    return [seen if whole or not seen.nearly_unique or seen.is_coarse else _counted(source, seen) for seen in found]


def seen_in(first: Any, attribute: Attribute) -> Seen:
    """Return what is seen of a column among the first rows of a table."""
    column = first.column(attribute.name)
    places = np.linspace(0, max(0, len(column) - 1), min(len(column), SAMPLE)).astype(np.int64)
    sample = column.take(from_numpy(places))
    if attribute.recoding is not None:
        return _coarse(attribute, sample)
    values = _valid(sample)
    tallied = pc.value_counts(values)
    different = tallied.field(0)
    seen = Seen(
        attribute.name,
        len(values),
        len(different),
        is_text(values.type),
        looked=len(values),
        counts=_counts(different, tallied.field(1)),
    )
    if seen.distinct >= DOUBT * seen.present or is_id(words(attribute.name)) or seen.share("day"):
        values = _valid(column)
        return replace(seen, present=len(values), distinct=len(pc.unique(values)))
    return seen


def _coarse(attribute: Attribute, sample: Any) -> Seen:
    """Return how many different values are published, of a column with bins or merged values."""
    attribute = fitted(attribute, sample.type)
    codes = new_encoder(attribute).encode(_joined(sample), 0)
    published = codes[codes >= 0]
    return Seen(attribute.name, published.size, np.unique(published).size, is_coarse=True)


def _first_rows(source: Source, names: Sequence[str]) -> tuple[Any, bool]:
    """Return the first rows, and whether these are all."""
    batches: list[Any] = []
    rows = 0
    for batch in source.batches(names):
        if rows >= FIRST_ROWS:
            return _table(batches), False
        batches.append(batch.rows)
        rows += batch.rows.num_rows
    if not batches:
        kinds = [(name, source.column_type(name)) for name in names]
        return pa.schema(kinds).empty_table(), True
    return _table(batches), True


def _table(batches: Sequence[Any]) -> Any:
    return pa.Table.from_batches(batches).unify_dictionaries()


def _joined(column: Any) -> Any:
    joined = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return pa.concat_arrays(joined.chunks) if isinstance(joined, pa.ChunkedArray) else joined


def _valid(column: Any) -> Any:
    """Return the values that are not missing, in their plain type."""
    values = _joined(column)
    kind = plain_kind(values.type)
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    values = values.drop_null().cast(pa.string() if is_text(kind) else kind)
    return values.filter(pc.invert(pc.is_nan(values))) if pa.types.is_floating(kind) else values


def _counts(different: Any, times: Any) -> dict[str, int]:
    """Return how many values look like something."""
    kind = different.type
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return _days(different, times)
    if not (is_text(kind) or pa.types.is_integer(kind)):
        return {}
    patterns = tuple(PATTERNS) if is_text(kind) else DAYS
    different = different.cast(pa.string())
    return {name: _sum(pc.match_substring_regex(different, PATTERNS[name]), times) for name in patterns}


def _days(different: Any, times: Any) -> dict[str, int]:
    if pa.types.is_timestamp(different.type):
        begins = pc.equal(pc.floor_temporal(different, unit="day"), different)
    else:
        begins = pc.is_valid(different)
    first = pc.and_(pc.equal(pc.day(different), 1), begins)
    return {"day": _sum(pc.is_valid(different), times), "first of a month": _sum(first, times)}


def _sum(which: Any, times: Any) -> int:
    return pc.sum(times.filter(which)).as_py() or 0  # in Arrow: its way to numpy imports pandas, which takes a second


def _counted(source: Source, seen: Seen) -> Seen:
    """Count the whole column."""
    kind = source.column_type(seen.name)
    counts = f"SELECT count(v), count(DISTINCT hash({salt()}, v)) FROM"
    values = f"(SELECT {not_nan('c0', plain_kind(kind))} AS v FROM rows) WHERE v IS NOT NULL"
    present, distinct = run(f"{counts} {values}", (batch.rows for batch in source.batches([seen.name])), [kind])[0]
    return replace(seen, present=present, distinct=distinct)


SURVEYED = 200_000
"""Rows of a survey, at most."""
SEED = 1  # the sample is the same at every call: a survey can be repeated


class PublishedRows:
    """Streams some columns of the rows that would be published, recoded ones as the codes of their labels."""

    def __init__(self, source: Source, schema: Schema, columns: Sequence[str]) -> None:
        self._source, self._columns, self._drops = source, list(columns), dropping(schema)
        self._needed = list(dict.fromkeys([*columns, *(a.name for a in self._drops)]))
        coded = [a for a in map(schema.__getitem__, self._needed) if a.is_published and (a.recoding or a.declared)]
        self._encoders = {a.name: checking_encoder(a, source) for a in coded}

    @property
    def kinds(self) -> list[Any]:
        """The Arrow types of the columns."""
        return [pa.int32() if name in self._encoders else self._source.column_type(name) for name in self._columns]

    def batches(self, progress: Progress) -> Iterator[Any]:
        """Yield all rows."""
        return (rows for rows, _ in self._mapped(progress))

    def sample(self, rows: int, progress: Progress) -> Any:
        """Return at most `SURVEYED` rows, a random one of each of so many equal stretches, as an Arrow table.

        Every k-th row would be simpler, but could fall in step with a table that has a period.
        """
        stride = max(1, -(-rows // SURVEYED))
        starts = np.arange(0, rows, stride)
        places = starts + simulation(SEED).integers(0, np.minimum(stride, rows - starts))
        schema = pa.schema([(name, plain_kind(kind)) for name, kind in zip(self._columns, self.kinds, strict=True)])
        kept = []
        for batch, originals in self._mapped(progress):
            if originals.size:
                first, last = np.searchsorted(places, [originals[0], originals[-1] + 1])
                hits = np.flatnonzero(np.isin(originals, places[first:last], assume_unique=True))
                kept.append(_cast(batch.take(from_numpy(hits)), schema))
        return pa.Table.from_batches(kept, schema)

    def _mapped(self, progress: Progress) -> Iterator[tuple[Any, IntArray]]:
        """Yield the published rows of each batch, and their places in the table."""
        for batch, position in positioned(self._source, self._needed):
            progress(batch.rows.num_rows)
            found = dict(zip(self._needed, batch.rows.columns, strict=True))
            keep = complete_rows(batch.rows, self._drops)
            found |= {n: from_numpy(encoder.encode(found[n], position)) for n, encoder in self._encoders.items()}
            rows = pa.RecordBatch.from_arrays([found[name] for name in self._columns], names=self._columns)
            places = np.arange(position, position + batch.rows.num_rows)
            yield (rows, places) if keep is None else (rows.filter(from_numpy(keep)), places[keep])

    def problems(self) -> list[str]:
        """Return, after a pass, which values publishing would refuse."""
        found = []
        for encoder in self._encoders.values():
            try:
                encoder.check()
            except TableError as problem:
                found.append(f"Publishing would stop: {problem.message} {problem.hint}")
        return found

    def recoding_notes(self) -> tuple[str, ...]:
        """Return, after a pass, what to know of how columns are recoded."""
        unseen = {name: encoder.unseen for name, encoder in self._encoders.items()}
        return recoding_notes(self._source, [encoder.attribute for encoder in self._encoders.values()], unseen)


def _cast(batch: Any, schema: Any) -> Any:
    columns = [
        (c.storage if isinstance(c, pa.ExtensionArray) else c).cast(field.type)
        for c, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


HOLDS = b"sfumato.holds"
"""Under which a field of an Arrow schema has what numbers its text holds; no file has it."""
ANYTHING = "[^,]*"
"""A field of a run that nobody looks into any more."""
NOTHING = "(?:[^\\x00-\\x{10FFFF}])"
"""Fits no text."""


class NumberColumns:
    """Watches rows on their way to the file. `declared` has the columns to watch, and what the policy says of them."""

    def __init__(
        self, declared: Mapping[str, ColumnType | None], wide: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._columns = {name: _Column(name, kind == "number") for name, kind in declared.items() if kind != "text"}
        self._wide = wide or {}

    def watches(self, name: str) -> bool:
        """Whether a column is one of those that are watched."""
        return name in self._columns

    def is_no_number(self, name: str) -> bool:
        """Whether a column is watched, and does not hold numbers, of the rows so far."""
        return name in self._columns and self._columns[name].holds is None

    @property
    def held(self) -> dict[str, Holds]:
        """The columns that hold numbers, of the rows so far."""
        held = {name: column.holds for name, column in self._columns.items()}
        return {name: holds for name, holds in held.items() if holds is not None}

    def watched(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Give the batches as they are, and look at each."""
        for rows in batches:
            for name, texts in zip(rows.schema.names, rows.columns, strict=True):
                run = [self._columns.get(part) for part in self._wide.get(name, (name,))]
                if any(column is not None and column.is_open for column in run):
                    _look(run, texts)
            yield rows

    def noted(self, schema: Any) -> Any:
        """Return the schema of the file with what its columns hold, for `holds`."""
        held = {name: {HOLDS: holds.encode()} for name, holds in self.held.items()}
        fields = [f.with_metadata({**(f.metadata or {}), **held[f.name]}) if f.name in held else f for f in schema]
        return pa.schema(fields, metadata=schema.metadata)


def holds(field: Any) -> Holds | None:
    """Return what numbers a column of a noted schema holds."""
    noted = (field.metadata or {}).get(HOLDS)
    return None if noted is None else noted.decode()


def no_number(name: str, text: str) -> TableError:
    """Return what is raised where a column that is declared to be a number holds something else."""
    return TableError(
        f"{name!r} is declared to be a number, and holds {text!r}.",
        'Mend the table, name the texts that mean "missing" ([input] missing_values), or declare type = "text".',
    )


class _Column:
    """A column of text that may hold numbers; one that is declared to hold them must."""

    def __init__(self, name: str, is_declared: bool) -> None:
        self._name, self._is_declared = name, is_declared
        self._spelling: Any = None  # of the numbers so far; all of them are of one of the two kinds
        self.is_open = True  # whether it may hold numbers, for all that was seen

    @property
    def holds(self) -> Holds | None:
        spelling: Spelling | AnySpelling | None = self._spelling
        return spelling.holds if spelling is not None and self.is_open else None

    @property
    def pattern(self) -> str:
        """What fits the values that change nothing."""
        return NOTHING if self._spelling is None else f"(?:{self._spelling.pattern})"

    def see(self, text: str) -> None:
        """Take note of a value."""
        if not self.is_open:
            return
        one: Any = any_spelling_of(text) if self._is_declared else spelling_of(text)
        if one is None and self._is_declared:
            raise no_number(self._name, text)
        if one is not None:
            one = one if self._spelling is None else self._spelling.joined(one)
        self._spelling, self.is_open = one, one is not None and one.holds is not None


def _look(run: list[_Column | None], texts: Any) -> None:
    """Take note of the values of a column of text, or of a run of columns, until nothing new is left."""
    texts = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    if pa.types.is_dictionary(texts.type):
        texts = texts.unique().cast(pa.string())  # a dictionary may have values that no row has
    while len(texts := _unlike(run, texts)):
        fields = texts[0].as_py().split(",") if len(run) > 1 else [texts[0].as_py()]
        for column, text in zip(run, fields, strict=True):
            if column is not None and (text or len(run) == 1):  # an empty field of a run is a missing value
                column.see(text)


def _unlike(run: list[_Column | None], texts: Any) -> Any:
    """Return the texts that do not fit what is known so far, none of them missing."""
    patterns = [column.pattern if column is not None and column.is_open else None for column in run]
    while patterns and patterns[-1] is None:
        patterns.pop()
    if not patterns:
        return texts.slice(0, 0)
    end = "$" if len(patterns) == len(run) else ","  # nobody looks into the fields after the last open one
    fields = ",".join(ANYTHING if pattern is None else f"{pattern}?" for pattern in patterns)
    fits = pc.match_substring_regex(texts, f"^{fields if len(run) > 1 else patterns[0]}{end}")
    return texts.filter(pc.invert(fits))  # without the missing ones


class FormulaColumns:
    """Watches rows on their way to a file. `wide` has the runs of columns that are copied as one, without quotes."""

    def __init__(self, wide: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self._wide = wide or {}
        self.names: set[str] = set()

    def watched(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Give the batches as they are, and look at each."""
        for rows in batches:
            self.see(rows)
            yield rows

    def see(self, rows: Any) -> None:
        """Take note of the columns that hold a formula."""
        for name, column in zip(rows.schema.names, rows.columns, strict=True):
            run = self._wide.get(name, (name,))
            if all(part in self.names for part in run) or not is_text(_kind(column)):
                continue
            if len(run) > 1:
                self._see_run(run, column)
            elif has_formula(column):
                self.names.add(name)

    def _see_run(self, run: tuple[str, ...], texts: Any) -> None:
        if not _begins_like_one(texts) and not any(mark in _bytes(texts) for mark in MARKS):
            return
        texts = texts.filter(pc.match_substring_regex(texts, OF_RUN))
        if len(texts):
            fields = pc.split_pattern(texts, ",").flatten()
            held = zip(run, (fields[place :: len(run)] for place in range(len(run))), strict=True)
            self.names.update(name for name, column in held if has_formula(column))

    def noted(self, schema: Any) -> Any:
        """Return the schema of the file with what its columns hold, for `holds_formulas`."""
        fields = [
            f.with_metadata({**(f.metadata or {}), HOLDS_FORMULAS: b""}) if f.name in self.names else f for f in schema
        ]
        return pa.schema(fields, metadata=schema.metadata)


def holds_formulas(field: Any) -> bool:
    """Whether text of a column of a noted schema holds formulas."""
    return HOLDS_FORMULAS in (field.metadata or {})


def has_formula(column: Any) -> bool:
    """Whether a text of a column is a formula."""
    if pa.types.is_dictionary(column.type):  # which may have values that no row has
        return has_formula(column.dictionary) and has_formula(column.unique().dictionary_decode())
    texts = column.cast(pa.large_string())
    chunks = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    if not any(map(_begins_like_one, chunks)):
        return False
    suspects = texts.filter(pc.match_substring_regex(texts, FORMULA))
    return len(suspects) > 0 and not pc.all(pc.match_substring_regex(suspects, SIGNED_NUMBER)).as_py()


def _begins_like_one(texts: Any) -> bool:
    """Whether some text begins with a letter that formulas begin with. A missing one counts as the next: no harm."""
    if not len(texts):
        return False
    starts, letters = _buffers(texts)
    starts = starts[:-1][starts[:-1] < letters.size]
    return bool(IS_FIRST[letters[starts]].any())


def _bytes(texts: Any) -> bytes:
    starts, letters = _buffers(texts)
    return letters[starts[0] : starts[-1]].tobytes()


def _buffers(texts: Any) -> tuple[npt.NDArray[Any], npt.NDArray[np.uint8]]:
    """Return where texts begin, the end of the last one too, and their letters."""
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    _, offsets, letters = texts.buffers()
    starts = np.frombuffer(offsets, dtype=width)[texts.offset : texts.offset + len(texts) + 1]
    return starts, np.frombuffer(letters or b"", dtype=np.uint8)


def _kind(column: Any) -> Any:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type
