"""The profile of a table on Spark: every partition is counted by itself, and Spark adds up (a groupBy).

What comes to the driver are the combinations of values that occur, with their counts: as many as the domain has, not
as the table has rows. And for the test of the row order a table of 64 blocks, and at most 10,000 codes; of the looks of
columns what is seen of them, and of quasi-identifiers how many records share them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.embedded.counting import WATCHED, Tally, plain_kind, profile_of, recoding_notes, salt
from sfumato.engines.rows.encoding import Encoder, fitted, in_order, new_encoder, sources
from sfumato.engines.rows.looking import SAMPLE, PublishedRows, seen_in
from sfumato.engines.rows.selection import complete_rows, dropping
from sfumato.engines.spark.selection import complain, complete, with_drawn
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.engines.spark.tasks import DRAWN, Addressed, AnyBatch, TaskSource, collected, mapped, told
from sfumato.errors import TableError
from sfumato.values.arrays import BoolArray, CodeArray, Progress
from sfumato.values.attributes import Attribute, Domain, Schema, SensitiveDomain, Value
from sfumato.values.looks import Seen
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.row_order import SEGMENT, SEGMENTS, OrderTest, block_size, tested

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

COUNTED, REFUSED, LEARNED, SEEN, DROPPED = range(5)
"""Kinds of lines that partitions give."""
LINES = "kind int, text string, number long"
SPREADING = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, and odd: the leading bits of its multiples are spread evenly."""
UNKNOWN_ORDER = OrderTest.combined(0.0, 0.0)
"""Of rows without addresses: nothing is known of their order, so they are shuffled."""


def count_sensitive(
    source: SparkSource,
    schema: Schema,
    progress: Progress,
    person: str | None = None,
    quasi_identifiers: Sequence[str] = (),
    checked: Sequence[str] = (),
) -> Profile:
    """Return the profile of the sensitive columns, as `embedded.counting` does; `person`: of one row of each."""
    names = [*quasi_identifiers, *schema.names("sensitive")]
    attributes = [fitted(schema[name], source.column_type(name)) for name in names]
    others = [fitted(schema[name], source.column_type(name)) for name in checked]
    counter = _Counter(attributes, others, dropping(schema), source.in_task(_columns([*attributes, *others], schema)))
    frame = with_drawn(source, schema, counter.source.names, person, SecretKey.fresh())
    with (
        told(source.session, 0 if source.why_no_address else source.files.rows, progress),
        complete(source, [person] if person else []),
    ):
        found = _Found.of(collected(_added_up(mapped(frame, counter.count, LINES))))
        for k in sorted(found.refused):
            complain(source, new_encoder((*attributes, *others)[k]))
        domain = SensitiveDomain(tuple(found.domain(k, a) for k, a in enumerate(attributes)))
        cells, numbers = found.cells(domain)
        order = UNKNOWN_ORDER if source.why_no_address else _order(source, frame, counter, domain)
    profile = profile_of(attributes, domain, cells, numbers, order, found.dropped, quasi_identifiers)
    unseen = {a.name: found.unseen(k, a) for k, a in enumerate((*attributes, *others))}
    return replace(profile, column_notes=recoding_notes(source, (*attributes, *others), unseen))


def _columns(attributes: Sequence[Attribute], schema: Schema) -> list[str]:
    return list(dict.fromkeys(a.name for a in (*attributes, *dropping(schema))))


def _added_up(lines: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return lines.groupBy("kind", "text").agg(f.sum("number").alias("number"))


# --- in a partition -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Counter:
    """Counts a partition."""

    attributes: Sequence[Attribute]
    checked: Sequence[Attribute]  # not counted, but their values may not be allowed
    drops: Sequence[Attribute]
    source: TaskSource

    def count(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield the combinations of values with their counts, which columns have values not allowed, and the rest."""
        encoders, tally, dropped = self.encoders(), Tally(), 0
        checks = [new_encoder(a) for a in self.checked]
        for batch in self.source.of(given).batches(self.source.names):
            codes, kept = self._kept(encoders, batch)
            dropped += kept.size - int(kept.sum())
            tally.add([c[kept] for c in codes])
            for check in checks:
                check.encode(batch.rows.column(check.attribute.name), 0)
        learned = [encoder.learned for encoder in encoders]
        parts = tuple(Domain(e.attribute.name, tuple(e.learned)) for e in encoders if e.learned)
        lines = [(DROPPED, "", dropped)]
        if len(parts) == len(encoders):
            cells, numbers = tally.cells(learned, SensitiveDomain(parts))
            for cell, number in zip(cells.tolist(), numbers.tolist(), strict=True):
                lines.append((COUNTED, json.dumps([of[c] for of, c in zip(learned, cell, strict=True)]), number))
        lines += [line for k, encoder in enumerate((*encoders, *checks)) for line in _about(k, encoder)]
        yield _in_arrow(lines)

    def encoders(self) -> list[Encoder]:
        """Return new encoders of the columns."""
        return [new_encoder(a) for a in self.attributes]

    def _kept(self, encoders: Sequence[Encoder], batch: AnyBatch) -> tuple[list[CodeArray], BoolArray]:
        """Return the codes of all rows, and which rows count."""
        rows = batch.rows
        codes = [e.encode(rows.column(e.attribute.name), 0) for e in encoders]
        masks = [complete_rows(rows, list(self.drops)), _drawn(rows)]
        return codes, np.logical_and.reduce([*(c >= 0 for c in codes), *(m for m in masks if m is not None)])


def _about(k: int, encoder: Encoder) -> Iterator[tuple[int, str, int]]:
    """Give the values of a column that were learned, those that are merged, and whether others are not allowed."""
    if encoder.domain is None:
        for value in encoder.learned:
            yield LEARNED, json.dumps([k, value]), 0
    for source in sources(encoder.attribute):
        if source not in encoder.unseen:
            yield SEEN, json.dumps([k, source]), 0
    if encoder.refused:
        yield REFUSED, json.dumps(k), 0


def _in_arrow(lines: Sequence[tuple[int, str, int]]) -> Any:
    kinds = [pa.int32(), pa.string(), pa.int64()]
    columns = [pa.array(column, kind) for column, kind in zip(zip(*lines, strict=True), kinds, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=["kind", "text", "number"])


def _drawn(rows: Any) -> BoolArray | None:
    """Return which rows are drawn of their persons; None for all."""
    return np.asarray(rows.column(DRAWN)) if DRAWN in rows.schema.names else None


# --- on the driver ------------------------------------------------------------------------------------------------


class _Found(NamedTuple):
    """What all partitions found together."""

    counted: list[tuple[list[Value], int]]
    refused: set[int]  # columns
    learned: dict[int, list[Value]]  # of each column
    seen: set[tuple[int, str]]  # columns, and values to be merged
    dropped: int

    @classmethod
    def of(cls, lines: Any) -> _Found:
        counted: list[tuple[list[Value], int]] = []
        refused: set[int] = set()
        learned: dict[int, list[Value]] = defaultdict(list)
        seen: set[tuple[int, str]] = set()
        dropped = 0
        for kind, text, number in zip(*(column.to_pylist() for column in lines.columns), strict=True):
            if kind == COUNTED:
                counted.append((json.loads(text), number))
            elif kind == REFUSED:
                refused.add(json.loads(text))
            elif kind == LEARNED:
                k, value = json.loads(text)
                learned[k].append(value)
            elif kind == SEEN:
                k, value = json.loads(text)
                seen.add((k, value))
            else:
                dropped = number
        return cls(counted, refused, learned, seen, dropped)

    def unseen(self, k: int, attribute: Attribute) -> tuple[str, ...]:
        """Return the values to be merged that no row has."""
        return tuple(value for value in sources(attribute) if (k, value) not in self.seen)

    def domain(self, k: int, attribute: Attribute) -> Domain:
        """Return the declared domain of a column, or the learned one in its natural order, the missing value last."""
        if attribute.declared is not None:
            return Domain(attribute.name, attribute.declared)
        values = self.learned[k]
        if not values:
            raise TableError(f"{attribute.name!r} has no value in any row.", "The table is empty, or all is missing.")
        return Domain(attribute.name, in_order(values, attribute))

    def cells(self, domain: SensitiveDomain) -> tuple[CodeArray, npt.NDArray[np.int64]]:
        """Return the combinations in the domain's order, and their records."""
        if not self.counted:
            return np.zeros((0, len(domain.parts)), dtype=np.int32), np.zeros(0, dtype=np.int64)
        values, numbers = zip(*self.counted, strict=True)
        codes = np.array([[p.index[v] for p, v in zip(domain.parts, line, strict=True)] for line in values], np.int32)
        order = np.lexsort(codes.T[::-1])
        return codes[order], np.array(numbers, dtype=np.int64)[order]


# --- the order of the rows ----------------------------------------------------------------------------------------


def _order(source: SparkSource, frame: DataFrame, counter: _Counter, domain: SensitiveDomain) -> OrderTest:
    """Test whether the sensitive value depends on the row's position in the table, files in order.

    The tests are those of `row_order`; blocks and neighbours are those among all rows, published or not. Given which
    rows are published, every order of their values is as likely under the null hypothesis, so the p-values hold.
    """
    from pyspark.sql import functions as f

    watch = _Watch(counter, domain, source.files.length)
    found = mapped(frame, watch.look, "place long, code int, number long")
    added = collected(found.groupBy("place", "code").agg(f.sum("number").alias("number")))
    place, code, number = (np.asarray(column.combine_chunks()) for column in added.columns)
    blocks, sample = place < 0, place >= 0
    table = np.zeros((int(code.max(initial=0)) + 1, int((-place).max(initial=1))), dtype=np.int64)
    table[code[blocks], -place[blocks] - 1] = number[blocks]
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if table.shape[0] < 2:
        return OrderTest.combined(1.0, 1.0)
    return tested(table, code[sample][np.argsort(place[sample])].astype(np.int32))


@dataclass(frozen=True)
class _Watch:
    """Counts values by block of rows, and keeps the codes of rows in evenly spaced segments."""

    counter: _Counter
    domain: SensitiveDomain
    rows: int

    def look(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield (-1 - block, code, rows) for the blocks, and (position, code, 1) for rows in segments."""
        encoders = [Encoder(a, p) for a, p in zip(self.counter.attributes, self.domain.parts, strict=True)]
        source, size = self.counter.source.of(given), block_size(self.rows)
        stride = 1 << max(0, -(-self.rows // (SEGMENT * SEGMENTS)) - 1).bit_length()
        counts: dict[tuple[int, int], int] = defaultdict(int)
        for batch in source.batches(source.names):
            assert isinstance(batch, Addressed)
            codes, kept = self.counter._kept(encoders, batch)
            code = _watched([c[kept] for c in codes], self.domain)
            place = batch.positions[kept]
            pairs, times = np.unique((place // size << 32) | code, return_counts=True)
            for pair, number in zip(pairs.tolist(), times.tolist(), strict=True):
                counts[-1 - (pair >> 32), pair & 0xFFFFFFFF] += number
            near = np.flatnonzero(place // SEGMENT % stride == 0)
            counts |= {(int(place[k]), int(code[k])): 1 for k in near}
        lines = [(place, code, number) for (place, code), number in counts.items()]
        columns = zip(*lines, strict=True) if lines else ([], [], [])
        kinds = [pa.int64(), pa.int32(), pa.int64()]
        arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=["place", "code", "number"])


def _watched(codes: Sequence[CodeArray], domain: SensitiveDomain) -> npt.NDArray[np.int64]:
    """Return numbers below WATCHED for combinations of codes: their own, or hashes of them where there are more."""
    joined = np.zeros(codes[0].size, dtype=np.uint64)
    for size, column in zip(domain.sizes, codes, strict=True):
        joined = joined * np.uint64(size) + column.astype(np.uint64)  # modulo 2^64
    if domain.size > WATCHED:
        joined = joined * SPREADING >> np.uint64(64 - (WATCHED - 1).bit_length())
    return joined.astype(np.int64)


BETWEEN, NOTHING = "\x1f", "\x00"


def group_sizes(source: SparkSource, schema: Schema, names: Sequence[str]) -> dict[int, int]:
    """Return how many groups of records with equal values there are of each size: size -> groups."""
    from pyspark.sql import functions as f

    columns = list(dict.fromkeys([*names, *(a.name for a in dropping(schema))]))
    keyed = _Keyed(schema, tuple(names), source.in_task(columns))
    rows = mapped(source.addressed(columns), keyed.keys, "shared string")
    marks = rows.select(f.xxhash64(f.lit(salt() % 2**63), f.col("shared")).alias("mark"))
    sizes = marks.groupBy("mark").agg(f.count("*").alias("size"))
    found = collected(sizes.groupBy("size").agg(f.count("*").alias("groups")))
    return {line["size"]: line["groups"] for line in found.to_pylist()}


@dataclass(frozen=True)
class _Keyed:
    """Joins the published quasi-identifiers of each row of a partition to one text."""

    schema: Schema
    names: tuple[str, ...]
    source: TaskSource

    def keys(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield the texts."""
        published = PublishedRows(self.source.of(given), self.schema, self.names)
        for rows in published.batches(lambda _: None):
            texts = [column.cast(plain_kind(column.type)).cast(pa.string()) for column in rows.columns]
            joined = pc.binary_join_element_wise(*texts, BETWEEN, null_handling="replace", null_replacement=NOTHING)
            yield pa.RecordBatch.from_arrays([joined], names=["shared"])


def see(source: SparkSource, attributes: Sequence[Attribute]) -> list[Seen]:
    """Return what is seen of columns: contents of the first rows that Spark gives, near uniqueness of all rows."""
    if not attributes:
        return []
    from pyspark.sql import functions as f

    chosen = source.frame.select(*(f.col(quoted(a.name)) for a in attributes))
    lines = collected(mapped(chosen.limit(SAMPLE).coalesce(1), _See(tuple(attributes)).look, "seen string"))
    found = [Seen(**json.loads(line)) for line in lines.column(0).to_pylist()]
    return [seen if seen.is_coarse or not seen.nearly_unique else _counted(source, seen) for seen in found]


@dataclass(frozen=True)
class _See:
    """Looks at rows in a worker."""

    attributes: tuple[Attribute, ...]

    def look(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield what is seen of each column."""
        names = [a.name for a in self.attributes]
        batches = [pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in given]
        if batches:
            first = pa.Table.from_batches(batches).unify_dictionaries()
            lines = [json.dumps(asdict(seen_in(first, a))) for a in self.attributes]
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["seen"])


def _counted(source: SparkSource, seen: Seen) -> Seen:
    """Count the whole column; about, and exactly where it is in doubt."""
    from pyspark.sql import functions as f

    column = f.col(quoted(seen.name))
    line = collected(source.frame.agg(f.count(column).alias("present"), f.count_distinct(column).alias("distinct")))
    counted = line.to_pylist()[0]
    return replace(seen, present=counted["present"], distinct=counted["distinct"])
