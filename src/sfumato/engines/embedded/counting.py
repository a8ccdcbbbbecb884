"""Counting: one pass over the columns that may be randomized gives domain, counts and the test of the row order.

What needs the distinct values of a stream is counted by DuckDB, exactly and in bounded memory. What does not fit there
goes to a temporary folder, as salted 64-bit hashes: no original value is written. Two different values share a hash
with probability n^2 / 2^65: 7e-5 for 50 million.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import RecordKey, Source, ahead, key_bytes
from sfumato.engines.rows.encoding import (
    Encoder,
    complete_rows,
    dropping,
    fitted,
    in_order,
    needed_to_draw,
    new_encoder,
    person_words,
)
from sfumato.engines.rows.mapping import positioned
from sfumato.errors import PolicyError, TableError
from sfumato.release.formats.parquet import check_room
from sfumato.show.words import many
from sfumato.values.arrays import BoolArray, CodeArray, IntArray, Progress
from sfumato.values.arrow import as_numpy, from_numpy, is_text
from sfumato.values.attributes import Attribute, Domain, Schema, SensitiveDomain, Value
from sfumato.values.mechanism import MOST_VALUES
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.recoding import DateBins
from sfumato.values.row_order import OrderTest, OrderWatch

MOST_NAMED = 5
"""Values that a note lists."""

SPREADING = np.uint64(0x9E3779B97F4A7C15)
"""2^64 divided by the golden ratio, and odd: the leading bits of its multiples are spread evenly."""

WATCHED = 1024
"""Values that the row-order test tells apart; beyond, numbers that agree modulo this share a place."""


def count_sensitive(
    source: Source,
    schema: Schema,
    progress: Progress,
    drawn: BoolArray | None = None,
    quasi_identifiers: Sequence[str] = (),
    checked: Sequence[str] = (),
    apart: Sequence[str] = (),
) -> Profile:
    """Return the profile of the sensitive columns, counted over the rows that would be published.

    The joint table of `quasi_identifiers` and the sensitive columns is counted where the former are named.
    `checked` are further columns, of which values that publishing would refuse are refused here. Those `apart` are
    counted each by itself, in the same pass: no combinations of them with others are kept.
    `drawn` says which rows are drawn of their persons. An observed domain has the values of the other rows too: when
    the table is published, other rows may be drawn.
    """
    names = [*quasi_identifiers, *schema.names("sensitive")]
    asked = Counted.of(source, schema, names, checked, apart)
    counter, watches = Counter(asked), [OrderWatch(WATCHED) for _ in asked.tests]
    for batch, position in ahead(positioned(source, asked.columns)):
        of_batch = None if drawn is None else drawn[position : position + batch.rows.num_rows]
        combined = counter.add(batch.rows, position, of_batch)
        for watch, codes in zip(watches, watched(combined, [tally.size for tally in counter.tallies]), strict=True):
            watch.add(codes)
        progress(batch.rows.num_rows)
    every = (*counter.encoders, *counter.checks)
    for encoder in every:
        encoder.check()
    learned = [encoder.learned for encoder in counter.encoders]
    domain = SensitiveDomain(tuple(map(domain_of, asked.attributes, learned)))
    cells = [
        tally.cells([learned[k] for k in of], SensitiveDomain(tuple(domain.parts[k] for k in of)))
        for tally, of in zip(counter.tallies, asked.counts, strict=True)
    ]
    unseen = {encoder.attribute.name: encoder.unseen for encoder in every}
    notes = recoding_notes(source, (encoder.attribute for encoder in every), unseen)
    tests = [watch.test() for watch in watches]
    return profile_of(asked, domain, cells, tests, counter.dropped, quasi_identifiers, notes)


def watched(combined: Sequence[CodeArray], sizes: Sequence[int]) -> list[CodeArray]:
    """Return what each test of the row order sees of numbers of combinations: those of each count, and of all.

    All are below WATCHED. `sizes`: how many numbers there are of each. Where there are several, combinations of them
    all are hashed: so an order by how two columns go together is seen, too.
    """
    limit = np.int32(WATCHED)
    found = [codes if size <= WATCHED else codes % limit for codes, size in zip(combined, sizes, strict=True)]
    if len(found) > 1:
        joined = np.zeros(combined[0].size, dtype=np.uint64)
        for codes in combined:
            joined = (joined + codes.astype(np.uint64) + np.uint64(1)) * SPREADING  # modulo 2^64
        found.append((joined >> np.uint64(64 - (WATCHED - 1).bit_length())).astype(np.int32))
    return found


class Counted(NamedTuple):
    """Columns that are counted, others whose values may not be allowed, and those that leave a row out if missing.

    `apart`: the names of those that are counted each by itself; all others are counted together.
    """

    attributes: Sequence[Attribute]
    checked: Sequence[Attribute]
    drops: Sequence[Attribute]
    apart: Sequence[str] = ()

    @classmethod
    def of(
        cls, source: Source, schema: Schema, counted: Sequence[str], checked: Sequence[str], apart: Sequence[str] = ()
    ) -> Counted:
        """Return columns of a table, their domains in its types."""
        fit = {name: fitted(schema[name], source.column_type(name)) for name in (*counted, *checked)}
        return cls([fit[name] for name in counted], [fit[name] for name in checked], dropping(schema), apart)

    @property
    def columns(self) -> list[str]:
        """The names of all of them."""
        return list(dict.fromkeys(a.name for of in (self.attributes, self.checked, self.drops) for a in of))

    @property
    def counts(self) -> list[list[int]]:
        """The places of the columns of each count: first of those that are counted together."""
        names = [a.name for a in self.attributes]
        return [[k for k, name in enumerate(names) if name not in self.apart], *([names.index(a)] for a in self.apart)]

    @property
    def tests(self) -> list[list[int]]:
        """The places of the columns whose order is tested: of each count, and of all where there are several."""
        return [*self.counts, *([list(range(len(self.attributes)))] if self.apart else [])]

    def codes(
        self, encoders: Sequence[Encoder], rows: Any, position: int, drawn: BoolArray | None
    ) -> tuple[list[CodeArray], BoolArray]:
        """Return the codes of all rows, and which rows count: complete ones, that are drawn of their persons."""
        codes = [encoder.encode(rows.column(encoder.attribute.name), position) for encoder in encoders]
        masks = [mask for mask in (complete_rows(rows, self.drops), drawn) if mask is not None]
        return codes, np.logical_and.reduce([*(c >= 0 for c in codes), *masks])


class Counter:
    """Counts rows by the combinations of their values, those of each count by themselves."""

    def __init__(self, asked: Counted) -> None:
        self.asked, self.dropped = asked, 0
        self.tallies = [Tally() for _ in asked.counts]
        self.encoders, self.checks = ([new_encoder(a) for a in of] for of in (asked.attributes, asked.checked))

    def add(self, rows: Any, position: int, drawn: BoolArray | None = None) -> list[CodeArray]:
        """Count rows; return the numbers of their combinations, for each count."""
        codes, kept = self.asked.codes(self.encoders, rows, position, drawn)
        for check in self.checks:
            check.encode(rows.column(check.attribute.name), position)
        self.dropped += kept.size - int(kept.sum())
        codes = codes if kept.all() else [c[kept] for c in codes]
        counts = zip(self.tallies, self.asked.counts, strict=True)
        return [tally.add([codes[k] for k in of]) for tally, of in counts]


def recoding_notes(
    source: Source, attributes: Iterable[Attribute], unseen: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Return what to know of how columns are recoded. Private: it tells which values never occur."""
    notes = []
    for name, recoding in ((a.name, a.recoding) for a in attributes):
        kind = source.column_type(name)
        if isinstance(recoding, DateBins) and pa.types.is_timestamp(kind) and kind.tz is not None:
            notes.append(f"The times of {name!r} have a zone: its bins count days in UTC.")
        if values := unseen.get(name):
            listed = ", ".join(map(repr, values[:MOST_NAMED])) + (", ..." if len(values) > MOST_NAMED else "")
            occur = "occurs" if len(values) == 1 else "occur"
            notes.append(f"merge of {name!r}: {listed} never {occur} in the table. Is the spelling right?")
    return tuple(notes)


def profile_of(
    asked: Counted,
    domain: SensitiveDomain,
    cells: Sequence[tuple[CodeArray, IntArray]],
    orders: Sequence[OrderTest],
    dropped: int,
    quasi_identifiers: Sequence[str],
    notes: tuple[str, ...],
) -> Profile:
    """Return the profile of what was counted, if it is not too large to plan with.

    cells: of each count; orders: of each count, and of all columns where there are several counts.
    """
    first, *apart = (
        _profile([asked.attributes[k] for k in of], [domain.parts[k] for k in of], cells[count], orders[count], dropped)
        for count, of in enumerate(asked.counts)
    )
    profile = replace(first, quasi_identifiers=tuple(quasi_identifiers), column_notes=notes)
    for each in (profile, *apart):
        _check_size(each.sensitive_domain)
    return replace(profile, apart=tuple(apart), together=orders[-1]) if apart else profile


def _profile(
    attributes: Sequence[Attribute],
    parts: Sequence[Domain],
    cells: tuple[CodeArray, IntArray],
    order: OrderTest,
    dropped: int,
) -> Profile:
    """Return the profile of one count."""
    observed = tuple(a.name for a in attributes if a.declared is None)
    return Profile(SensitiveDomain(tuple(parts)), *cells, order, observed, dropped)


def _check_size(sensitive: SensitiveDomain) -> None:
    """Raise if there are too many combinations to plan with."""
    if sensitive.size > MOST_VALUES:
        raise PolicyError(
            f"{sensitive.name!r} has {many(sensitive.size)} combinations of values, more than {MOST_VALUES:,}.",
            "Bin the columns or merge values, or give some of them another role.",
        )


def domain_of(attribute: Attribute, learned: Sequence[Value]) -> Domain:
    """Return the declared domain of a column, or the learned one in its natural order, the missing value last."""
    if attribute.declared is not None:
        return Domain(attribute.name, attribute.declared, attribute.ordered)
    if not learned:
        raise TableError(
            f"{attribute.name!r} has no value in any row.",
            "The table is empty, or all is missing: give a table with rows, or choose another sensitive column.",
        )
    return Domain(attribute.name, in_order(learned, attribute))


class Tally:
    """Counts of the combinations of codes, which are numbered as they appear."""

    def __init__(self) -> None:
        self._counts = np.zeros(0, dtype=np.int64)
        self._pairs: list[dict[int, int]] = []  # one for each column after the first: (combination, code) -> number

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return self._counts.size

    def add(self, codes: list[CodeArray]) -> CodeArray:
        """Count some rows; return the numbers of their combinations."""
        combined = codes[0]
        for position, column in enumerate(codes[1:]):
            if position == len(self._pairs):
                self._pairs.append({})
            combined = _numbered(combined.astype(np.int64) << 32 | column, self._pairs[position])
        counts = np.bincount(combined, minlength=self._counts.size)
        counts[: self._counts.size] += self._counts
        self._counts = counts
        return combined

    def cells(self, learned: Sequence[Sequence[Value]], domain: SensitiveDomain) -> tuple[CodeArray, IntArray]:
        """Return the combinations that occur, in the domain's order ([combinations, columns]), and their records.

        `learned` are the values of each column in the order of the codes that were counted.
        """
        rest = np.flatnonzero(self._counts)
        records = self._counts[rest]
        if not rest.size:
            return np.zeros((0, len(learned)), dtype=np.int32), records
        columns: list[npt.NDArray[np.int64]] = []
        for pairs in reversed(self._pairs):
            keys = np.array(list(pairs), dtype=np.int64)[rest]
            columns.append(keys & 0xFFFFFFFF)
            rest = keys >> 32
        columns.append(rest)
        places = [
            np.array([part.index[v] for v in values], dtype=np.int32).take(column)
            for values, part, column in zip(learned, domain.parts, reversed(columns), strict=True)
        ]
        order = np.lexsort(places[::-1])
        return np.column_stack(places)[order], records[order]


def _numbered(keys: npt.NDArray[np.int64], known: dict[int, int]) -> CodeArray:
    """Return a small number for each key, the same in every batch."""
    coded = pa.array(keys).dictionary_encode()  # by hashing: np.unique would sort
    numbers = [known.setdefault(key, len(known)) for key in coded.dictionary.to_pylist()]
    places: CodeArray = coded.indices.to_numpy()
    return np.array(numbers, dtype=np.int32).take(places)


MEMORY = "400MB"
THREADS = 2


def shared(progress: Progress, passes: int) -> Progress:
    """Report the rows of several passes as if they were one."""
    seen = 0

    def report(rows: int) -> None:
        nonlocal seen
        before, seen = seen, seen + rows
        progress(seen // passes - before // passes)

    return report


def group_sizes(batches: Iterable[Any], kinds: Sequence[Any]) -> dict[int, int]:
    """Return how many groups of equal rows there are of each size: size -> groups."""
    key = ", ".join(not_nan(f"c{k}", plain_kind(kind)) for k, kind in enumerate(kinds))
    groups = f"SELECT count(*) AS size FROM (SELECT hash({salt()}, {key}) AS h FROM rows) GROUP BY h"
    return dict(run(f"SELECT size, count(*) FROM ({groups}) GROUP BY size ORDER BY size", batches, kinds))


def rough_median(batches: Iterable[Any], kind: Any) -> float | None:
    """Return the median of the numbers of one column, approximately; None if there are none."""
    number = number_of("c0", plain_kind(kind))
    found: float | None = run(f"SELECT approx_quantile({number}, 0.5) FROM rows", batches, [kind])[0][0]
    return found


def distinct(source: Source, name: str) -> tuple[int, int]:
    """Return how many rows there are, and how many different identifiers, which enter as keyed hashes."""
    key = SecretKey.fresh()

    def hashed() -> Iterator[Any]:
        for batch, position in positioned(source, [name]):
            words = key.keyed_words(Step.HASH, key_bytes(batch.rows.column(0), name, position))
            yield pa.RecordBatch.from_arrays([from_numpy(words)], names=["identity"])

    rows, different = run("SELECT count(*), count(DISTINCT c0) FROM rows", hashed(), [pa.uint64()])[0]
    return rows, different


def draw_persons(
    source: Source, schema: Schema, name: str, key: SecretKey, record_key: RecordKey | None = None
) -> BoolArray:
    """Return, for each row, whether it is the one that is drawn of its person: the complete one of the least word."""
    drops, rows = dropping(schema), 0

    def hashed() -> Iterator[Any]:
        nonlocal rows
        for batch, position in positioned(source, needed_to_draw(schema, name, record_key)):
            rows = position + batch.rows.num_rows
            persons = key_bytes(batch.rows.column(name), name, position)
            words = person_words(batch, persons, key, record_key, position)
            columns = [np.arange(position, rows), key.keyed_words(Step.HASH, persons), words]
            made = pa.RecordBatch.from_arrays(list(map(from_numpy, columns)), names=["place", "identity", "word"])
            keep = complete_rows(batch.rows, drops)
            yield made if keep is None else made.filter(from_numpy(keep))

    query, kinds = "SELECT arg_min(c0, c2) FROM rows GROUP BY c1", [pa.int64(), pa.uint64(), pa.uint64()]
    with answered(query, hashed(), kinds) as found:
        drawn = np.zeros(0, dtype=np.bool_)
        for batch in found.to_arrow_reader(1 << 18):  # all rows were read when the first one comes
            drawn = drawn if drawn.size else np.zeros(rows, dtype=np.bool_)
            drawn[as_numpy(batch.column(0))] = True
    return drawn if drawn.size else np.zeros(rows, dtype=np.bool_)


def run(query: str, batches: Iterable[Any], kinds: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query over `rows`, the batches with their columns named c0, c1, ..."""
    with answered(query, batches, kinds) as found:
        lines: list[tuple[Any, ...]] = found.fetchall()
    return lines


@contextmanager
def answered(query: str, batches: Iterable[Any], kinds: Sequence[Any]) -> Iterator[Any]:
    """Give DuckDB's answer to a query over `rows`, the batches with their columns named c0, c1, ..."""
    import duckdb  # here: it takes long to load, and workers of a cluster do without

    stream = _Stream(batches, kinds)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        config: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": folder, "threads": THREADS}
        check_room()
        with duckdb.connect(config=config) as connection:
            connection.execute("SET enable_progress_bar = false")  # it would be printed among the results
            connection.register("rows", stream.reader())
            try:
                yield connection.sql(query)
            except Exception:
                if stream.problem is not None:  # what the source said, not what became of it on the way
                    raise stream.problem from None
                raise


class _Stream:
    """Batches as DuckDB reads them: plain columns named by number; remembers why reading failed."""

    def __init__(self, batches: Iterable[Any], kinds: Sequence[Any]) -> None:
        self._batches, self._kinds = batches, [_readable_kind(kind) for kind in kinds]
        self._names = [f"c{k}" for k in range(len(self._kinds))]
        self.problem: BaseException | None = None

    def reader(self) -> Any:
        schema = pa.schema(list(zip(self._names, self._kinds, strict=True)))
        return pa.RecordBatchReader.from_batches(schema, self._converted())

    def _converted(self) -> Iterator[Any]:
        try:
            for rows in self._batches:
                columns = [_cast(c, kind) for c, kind in zip(rows.columns, self._kinds, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, names=self._names)
        except BaseException as problem:
            self.problem = problem
            raise


def plain_kind(kind: Any) -> Any:
    """Return the Arrow type of the values: of the dictionary's or the extension's, if it is one."""
    if pa.types.is_dictionary(kind):
        return plain_kind(kind.value_type)
    return plain_kind(kind.storage_type) if isinstance(kind, pa.BaseExtensionType) else kind


def _readable_kind(kind: Any) -> Any:
    """Return the type under which DuckDB reads a column, without changing what is equal; coded text stays coded."""
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return kind
    kind = plain_kind(kind)
    if pa.types.is_float16(kind):
        return pa.float32()
    return pa.string() if pa.types.is_decimal256(kind) or pa.types.is_string_view(kind) else kind


def _cast(column: Any, kind: Any) -> Any:
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    return column if column.type == kind else column.cast(kind)


def salt() -> int:
    """Return a secret number to hash with."""
    return int(SecretKey.fresh().words(Step.HASH, 0, 0, 1)[0])


def not_nan(name: str, kind: Any) -> str:
    """The value, NaN as missing."""
    return f"CASE WHEN isnan({name}) THEN NULL ELSE {name} END" if pa.types.is_floating(kind) else name


def number_of(name: str, kind: Any) -> str:
    """The value as a finite number, or NULL."""
    if not (is_text(kind) or is_numeric(kind)):
        return "NULL::DOUBLE"
    cast = f"TRY_CAST({name} AS DOUBLE)"
    if pa.types.is_integer(kind):
        return cast
    finite = f"CASE WHEN isfinite({cast}) THEN {cast} END"
    # a text that begins behind '9' is none; asking first is much faster than a cast that fails
    return f"CASE WHEN ascii({name}) <= 57 THEN {finite} END" if is_text(kind) else finite


def is_numeric(kind: Any) -> bool:
    """Whether values of this type are numbers."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
