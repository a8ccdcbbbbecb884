"""Which rows are published, and what is known of each: its sensitive value, its person, its record.

Rows with a missing value that drops them are left out, and of a person perhaps all rows but one. Persons and record
keys enter as keyed hashes (64 bits), so that nothing that spills to disk tells one: two different identifiers share a
hash with probability n^2 / 2^65, 7e-5 for 50 million.

A record key repeats draws in later releases of a series. Its words belong to a record, not to a place:

    noise       word = keyed function of  context (16 bytes) | the true value's code (4) | record key
    kept row    word = keyed function of  context (16 bytes) | length of the person (4) | person | record key

The context of noise is a hash of the series, the names and labels of the columns, and the matrix; that of kept rows is
one of the series. So nothing repeats in another table, another column or under another matrix, even with the same key
file: there draws are independent. docs/randomness.md says why each part is needed.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.base import Batch, Numbering, Source, by_file
from sfumato.engines.rows.encoding import Encoder
from sfumato.errors import PlanMismatch, TableError
from sfumato.values.arrays import BoolArray, CodeArray, WordArray
from sfumato.values.arrow import as_numpy, first_null, from_numpy, nulls_of
from sfumato.values.attributes import Attribute, Schema, SensitiveDomain
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step

MEMORY = "200MB"


def key_bytes(column: Any, name: str, position: int) -> list[bytes]:
    """Return each identifier as bytes; 7 and "7" are the same one. A missing one is an error."""
    if column.null_count:
        raise missing_identifier(name, position + first_null(column) + 1)
    return [str(value).encode() for value in column.to_pylist()]


def missing_identifier(name: str, row: int) -> TableError:
    """Return what is raised where a row has no identifier; 0: rows have no numbers."""
    where = f"row {row:,}" if row else "a row"
    return TableError(f"{name!r} is missing in {where}.", "A person or record key needs a value in every row.")


class IdentityIndex:
    """All rows' identifiers as hashes; answers how many are repeated, and which row of each is drawn."""

    def __init__(self) -> None:
        import duckdb  # here: workers of a cluster do without, and it takes long to load

        self._folder = tempfile.TemporaryDirectory(prefix="sfumato-")
        self._connection = duckdb.connect(
            config={"memory_limit": MEMORY, "temp_directory": self._folder.name, "threads": 1}
        )
        self._connection.execute("SET enable_progress_bar = false")  # it would be printed among the results
        self._connection.execute("CREATE TABLE rows (place BIGINT, identity UBIGINT, word UBIGINT)")
        self.rows = 0

    def add(self, identities: WordArray, words: WordArray, kept: npt.NDArray[np.bool_] | None = None) -> None:
        """Append consecutive rows; those that are not `kept` count as rows, but are never drawn."""
        places = np.arange(self.rows, self.rows + identities.size)
        self.rows += identities.size
        if kept is not None:
            places, identities, words = places[kept], identities[kept], words[kept]
        columns = [from_numpy(places), from_numpy(identities), from_numpy(words)]
        batch = pa.table(columns, names=["place", "identity", "word"])
        self._connection.register("batch", batch)
        self._connection.execute("INSERT INTO rows SELECT * FROM batch")
        self._connection.unregister("batch")

    def distinct(self) -> int:
        """Return the number of different identifiers."""
        return int(self._connection.sql("SELECT count(DISTINCT identity) FROM rows").fetchall()[0][0])

    def drawn(self) -> npt.NDArray[np.bool_]:
        """Return, for each row, whether it is the one with the smallest word of its identifier."""
        query = "SELECT arg_min(place, word) AS place FROM rows GROUP BY identity"
        kept = np.zeros(self.rows, dtype=np.bool_)
        for batch in self._connection.sql(query).to_arrow_reader(1 << 18):
            kept[as_numpy(batch.column(0))] = True
        return kept

    def close(self) -> None:
        """Remove every trace."""
        self._connection.close()
        self._folder.cleanup()

    def __enter__(self) -> IdentityIndex:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def index_column(source: Source, name: str, key: SecretKey) -> IdentityIndex:
    """Read a column into an index; words are addressed by row, hashes by the identifier."""
    index = IdentityIndex()
    try:
        for batch in source.batches([name]):
            keys = key_bytes(batch.rows.column(0), name, index.rows)
            index.add(key.keyed_words(Step.HASH, keys), batch.words(key, Step.PERSON))
    except BaseException:
        index.close()
        raise
    return index


CONTEXT_BYTES = 16


@dataclass(frozen=True)
class RecordKey:
    """The column that tells records apart, and the name of the series of releases in which their draws repeat."""

    column: str
    series: str

    def noise_context(self, mechanism: Mechanism) -> bytes:
        """Return what a record's noise depends on besides its key and value."""
        # labels: 7 in a Parquet file and "7" in a CSV file are the same value
        columns = [[part.name, list(part.labels)] for part in mechanism.domain.parts]
        return _context(["noise", self.series, columns], mechanism.matrix.integers)

    def noise_words(
        self, key: SecretKey, context: bytes, rows: Any, values: npt.NDArray[np.int32], position: int
    ) -> WordArray:
        """Return a word for each row, given the codes of the true values; `position`: rows read before these."""
        records = key_bytes(rows.column(self.column), self.column, position)
        messages = [context + code.to_bytes(4) + own for own, code in zip(records, values.tolist(), strict=True)]
        return key.keyed_words(Step.PERTURB, messages)

    def person_words(self, key: SecretKey, persons: list[bytes], rows: Any, position: int) -> WordArray:
        """Return a word for each row, by its person and its record: of a person the row with the least one is kept."""
        context = _context(["person", self.series])
        records = key_bytes(rows.column(self.column), self.column, position)
        both = zip(persons, records, strict=True)
        return key.keyed_words(Step.PERSON, [context + len(p).to_bytes(4) + p + record for p, record in both])


def _context(stated: list[Any], numbers: bytes = b"") -> bytes:
    text = json.dumps(stated, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(len(text).to_bytes(8) + text + numbers).digest()[:CONTEXT_BYTES]


def dropping(schema: Schema) -> list[Attribute]:
    """Return the published attributes whose missing values leave a row out."""
    return [a for a in schema.attributes if a.missing == "drop" and a.is_published]


def complete_columns(schema: Schema) -> frozenset[str]:
    """Return the published columns of which no published row misses a value: by the policy, whatever the table has."""
    return frozenset(a.name for a in schema.attributes if a.is_published and a.missing != "category")


def complete_rows(rows: Any, attributes: list[Attribute]) -> BoolArray | None:
    """Return the rows in which none of these attributes is missing; None for all."""
    gaps = [gap for a in attributes if (gap := _gaps(rows.column(a.name), a)) is not None]
    return ~np.logical_or.reduce(gaps) if gaps else None


def _gaps(column: Any, attribute: Attribute) -> BoolArray | None:
    # where numbers are binned, NaN is missing too: the encoder says so
    if attribute.recoding is not None and pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return nulls_of(column)


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


def draw_persons(
    source: Source, schema: Schema, name: str, key: SecretKey, record_key: RecordKey | None = None
) -> BoolArray:
    """Return, for each row, whether it is the one that is drawn of its person, among the person's complete rows."""
    attributes = dropping(schema)
    with IdentityIndex() as index:
        for batch in source.batches(needed_to_draw(schema, name, record_key)):
            persons = key_bytes(batch.rows.column(name), name, index.rows)
            words = person_words(batch, persons, key, record_key, index.rows)
            index.add(key.keyed_words(Step.HASH, persons), words, complete_rows(batch.rows, attributes))
        return index.drawn()


class SensitiveRows:
    """The values of the rows that are published."""

    def __init__(self, schema: Schema, domain: SensitiveDomain) -> None:
        self._domain, self._drops = domain, dropping(schema)
        self._encoders = [Encoder(schema[part.name], part) for part in domain.parts]
        self.columns = list(dict.fromkeys([*domain.names, *(a.name for a in self._drops)]))

    def codes(self, batch: Batch, drawn: BoolArray | None = None) -> tuple[CodeArray, BoolArray | None]:
        """Return the codes of the rows that are kept, and which these are; None for all."""
        columns = [encoder.encode(batch.rows.column(encoder.attribute.name), 0) for encoder in self._encoders]
        masks = [mask for mask in (complete_rows(batch.rows, self._drops), drawn) if mask is not None]
        keep = np.logical_and.reduce(masks) if masks else None
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
