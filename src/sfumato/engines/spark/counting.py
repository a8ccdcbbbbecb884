"""The profile of a table on Spark: every partition is counted by itself, and Spark adds up (a groupBy).

What comes to the driver are the combinations of values that occur, with their counts: as many as the domain has, not
as the table has rows. And for the test of the row order a table of 64 blocks, and at most 10,000 codes; of the looks of
columns what is seen of them, and of quasi-identifiers how many records share them.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.embedded.counting import (
    SPREADING,
    WATCHED,
    Counted,
    Counter,
    domain_of,
    plain_kind,
    profile_of,
    recoding_notes,
    salt,
)
from sfumato.engines.rows.encoding import Encoder, dropping, new_encoder, sources
from sfumato.engines.rows.looking import SAMPLE, PublishedRows, seen_in
from sfumato.engines.spark.selection import complain, complete, with_drawn
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.engines.spark.tasks import DRAWN, Addressed, TaskSource, collected, in_arrow, mapped, told
from sfumato.values.arrays import BoolArray, CodeArray, IntArray, Progress
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
WATCHED_LINES = "place long, code int, number long"
UNKNOWN_ORDER = OrderTest.combined(0.0, 0.0)
"""Of rows without addresses: nothing is known of their order, so they are shuffled."""


def count_sensitive(
    source: SparkSource,
    schema: Schema,
    progress: Progress,
    person: str | None = None,
    quasi_identifiers: Sequence[str] = (),
    checked: Sequence[str] = (),
    apart: Sequence[str] = (),
) -> Profile:
    """Return the profile of the sensitive columns, as `embedded.counting` does; `person`: of one row of each."""
    from pyspark.sql import functions as f

    names = [*quasi_identifiers, *schema.names("sensitive")]
    asked = Counted.of(source, schema, names, checked, apart)
    every, task = (*asked.attributes, *asked.checked), source.in_task(asked.columns)
    frame = with_drawn(source, schema, asked.columns, person, SecretKey.fresh())
    with (
        told(source.session, 0 if source.why_no_address else source.files.rows, progress),
        complete(source, [person] if person else []),
    ):
        lines = mapped(frame, partial(_count, asked, task), LINES)
        found: dict[int, list[tuple[Any, int]]] = defaultdict(list)
        for kind, text, number in _lines(lines.groupBy("kind", "text").agg(f.sum("number"))):
            found[kind].append((json.loads(text), number))
        for k, _ in sorted(found[REFUSED]):
            complain(source, new_encoder(every[k]))
        learned = [[value for (own, value), _ in found[LEARNED] if own == k] for k in range(len(names))]
        domain = SensitiveDomain(tuple(map(domain_of, asked.attributes, learned)))
        unknown = [UNKNOWN_ORDER] * len(asked.tests)
        orders = unknown if source.why_no_address else _orders(source, frame, asked, task, domain)
    seen = [{value for (own, value), _ in found[SEEN] if own == k} for k in range(len(every))]
    unseen = {a.name: [value for value in sources(a) if value not in of] for a, of in zip(every, seen, strict=True)}
    cells, dropped = (
        [
            _cells([(line, number) for (own, line), number in found[COUNTED] if own == k], _within(domain, of))
            for k, of in enumerate(asked.counts)
        ],
        found[DROPPED][0][1],
    )
    notes = recoding_notes(source, every, unseen)
    return profile_of(asked, domain, cells, orders, dropped, quasi_identifiers, notes)


def _within(domain: SensitiveDomain, places: Sequence[int]) -> SensitiveDomain:
    return SensitiveDomain(tuple(domain.parts[k] for k in places))


def _lines(frame: DataFrame) -> Iterator[tuple[Any, ...]]:
    """Run a job, and give the lines of its result."""
    return zip(*(column.to_pylist() for column in collected(frame).columns), strict=True)


def _cells(counted: Sequence[tuple[list[Value], int]], domain: SensitiveDomain) -> tuple[CodeArray, IntArray]:
    """Return the combinations in the domain's order, and their records."""
    lines = [[part.index[v] for part, v in zip(domain.parts, line, strict=True)] for line, _ in counted]
    codes = np.array(lines, dtype=np.int32).reshape(-1, len(domain.parts))
    order = np.lexsort(codes.T[::-1])
    return codes[order], np.array([number for _, number in counted], dtype=np.int64)[order]


def _count(asked: Counted, source: TaskSource, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Count a partition: the combinations of values, which columns have values not allowed, and the rest."""
    counter = Counter(asked)
    for batch in source.of(given).batches(source.names):
        counter.add(batch.rows, 0, _drawn(batch.rows))
    lines: list[tuple[int, Any, int]] = [(DROPPED, 0, counter.dropped)]
    learned = [encoder.learned for encoder in counter.encoders]
    if all(learned):
        domain = SensitiveDomain(tuple(map(Domain, [a.name for a in asked.attributes], learned)))
        for count, (tally, places) in enumerate(zip(counter.tallies, asked.counts, strict=True)):
            values = [learned[k] for k in places]
            counted = tally.cells(values, _within(domain, places))
            for cell, number in zip(*(each.tolist() for each in counted), strict=True):
                lines.append((COUNTED, [count, [of[c] for of, c in zip(values, cell, strict=True)]], number))
    for k, encoder in enumerate((*counter.encoders, *counter.checks)):
        lines += [(LEARNED, [k, value], 0) for value in encoder.learned if encoder.domain is None]
        lines += [(SEEN, [k, value], 0) for value in sources(encoder.attribute) if value not in encoder.unseen]
        lines += [(REFUSED, k, 0)] if encoder.refused else []
    yield in_arrow(LINES, [(kind, json.dumps(what), number) for kind, what, number in lines])


def _drawn(rows: Any) -> BoolArray | None:
    """Return which rows are drawn of their persons; None for all."""
    return np.asarray(rows.column(DRAWN)) if DRAWN in rows.schema.names else None


# --- the order of the rows ----------------------------------------------------------------------------------------


def _orders(
    source: SparkSource, frame: DataFrame, asked: Counted, task: TaskSource, domain: SensitiveDomain
) -> list[OrderTest]:
    """Test whether the sensitive value depends on the row's position in the table, files in order.

    The tests are those of `row_order`; blocks and neighbours are those among all rows, published or not. Given which
    rows are published, every order of their values is as likely under the null hypothesis, so the p-values hold.
    """
    from pyspark.sql import functions as f

    found = mapped(frame, partial(_watch, asked, task, domain, source.files.length), WATCHED_LINES)
    added = collected(found.groupBy("place", "code").agg(f.sum("number").alias("number")))
    lines = [np.asarray(column.combine_chunks()) for column in added.columns]
    test = lines[1] // WATCHED
    return [
        _order(*(line[test == k] for line in (lines[0], lines[1] % WATCHED, lines[2]))) for k in range(len(asked.tests))
    ]


def _order(place: IntArray, code: IntArray, number: IntArray) -> OrderTest:
    """Return the test of lines of `_watch`."""
    blocks, sample = place < 0, place >= 0
    table = np.zeros((int(code.max(initial=0)) + 1, int((-place).max(initial=1))), dtype=np.int64)
    table[code[blocks], -place[blocks] - 1] = number[blocks]
    table = table[table.any(axis=1)][:, table.any(axis=0)]
    if table.shape[0] < 2:
        return OrderTest.combined(1.0, 1.0)
    return tested(table, code[sample][np.argsort(place[sample])].astype(np.int32))


def _watch(
    asked: Counted, source: TaskSource, domain: SensitiveDomain, rows: int, given: Iterator[Any], key: SecretKey
) -> Iterator[Any]:
    """Count values by block of rows, and keep the codes of rows in evenly spaced segments.

    Yields (-1 - block, code, rows) for the blocks, and (position, code, 1) for rows in segments. The codes of each test
    begin at a multiple of WATCHED.
    """
    encoders = list(map(Encoder, asked.attributes, domain.parts))
    size, stride = block_size(rows), 1 << max(0, -(-rows // (SEGMENT * SEGMENTS)) - 1).bit_length()
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for batch in source.of(given).batches(source.names):
        assert isinstance(batch, Addressed)
        codes, kept = asked.codes(encoders, batch.rows, 0, _drawn(batch.rows))
        place = batch.positions[kept]
        near = np.flatnonzero(place // SEGMENT % stride == 0)
        for test, columns in enumerate(asked.tests):
            code = test * WATCHED + _watched([codes[k][kept] for k in columns], _within(domain, columns))
            pairs, times = np.unique((place // size << 32) | code, return_counts=True)
            for pair, number in zip(pairs.tolist(), times.tolist(), strict=True):
                counts[-1 - (pair >> 32), pair & 0xFFFFFFFF] += number
            counts |= {(int(place[k]), int(code[k])): 1 for k in near}
    yield in_arrow(WATCHED_LINES, [(*where, number) for where, number in counts.items()])


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
    task = partial(_shared, schema, tuple(names), source.in_task(columns))
    rows = mapped(source.addressed(columns), task, "shared string")
    marks = rows.select(f.xxhash64(f.lit(salt() % 2**63), f.col("shared")).alias("mark"))
    sizes = marks.groupBy("mark").agg(f.count("*").alias("size"))
    return dict(_lines(sizes.groupBy("size").agg(f.count("*"))))


def _shared(
    schema: Schema, names: Sequence[str], source: TaskSource, given: Iterator[Any], key: SecretKey
) -> Iterator[Any]:
    """Join the published quasi-identifiers of each row of a partition to one text."""
    for rows in PublishedRows(source.of(given), schema, names).batches(lambda _: None):
        texts = [column.cast(plain_kind(column.type)).cast(pa.string()) for column in rows.columns]
        joined = pc.binary_join_element_wise(*texts, BETWEEN, null_handling="replace", null_replacement=NOTHING)
        yield pa.RecordBatch.from_arrays([joined], names=["shared"])


def see(source: SparkSource, attributes: Sequence[Attribute]) -> list[Seen]:
    """Return what is seen of columns: contents of the first rows that Spark gives, near uniqueness of all rows."""
    if not attributes:
        return []
    from pyspark.sql import functions as f

    chosen = source.frame.select(*(f.col(quoted(a.name)) for a in attributes))
    lines = _lines(mapped(chosen.limit(SAMPLE).coalesce(1), partial(_see, tuple(attributes)), "seen string"))
    found = [Seen(**json.loads(text)) for (text,) in lines]
    return [seen if seen.is_coarse or not seen.nearly_unique else _counted(source, seen) for seen in found]


def _see(attributes: Sequence[Attribute], given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
    """Yield what is seen of each column."""
    names = [a.name for a in attributes]
    batches = [pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in given]
    if batches:
        first = pa.Table.from_batches(batches).unify_dictionaries()
        yield in_arrow("seen string", [(json.dumps(asdict(seen_in(first, a))),) for a in attributes])


def _counted(source: SparkSource, seen: Seen) -> Seen:
    """Count the whole column; about, and exactly where it is in doubt."""
    from pyspark.sql import functions as f

    column = f.col(quoted(seen.name))
    present, distinct = next(_lines(source.frame.agg(f.count(column), f.count_distinct(column))))
    return replace(seen, present=present, distinct=distinct)
