"""Persons and record keys: repeated ones are found, and one row of a person is chosen, without keeping identifiers.

Identifiers enter as keyed hashes (64 bits), so that nothing that spills to disk tells one. Two different identifiers
share a hash with probability n^2 / 2^65: 7e-5 for 50 million.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import Source
from sfumato.errors import TableError
from sfumato.values.arrays import WordArray
from sfumato.values.arrow import as_numpy, first_null, from_numpy
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
