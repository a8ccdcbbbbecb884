"""An exact shuffle in bounded memory: every row gets a secret word, and the rows are written in the order of their words.

Rows are scattered by word range into parts of one temporary file, and each part is sorted by itself. What is spilled is
already perturbed; the file has mode 0600 and no name, so that it vanishes with the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.randomness import SecretKey, Step, WordArray

PART_ROWS = 1 << 19
"""Rows of a part, about: two parts in flight, and their sorted copies, stay below 150 MB."""
WORD = "\0word"  # no column of a table can have this name: names are checked to be text of one line


def shuffled(batches: Iterable[Any], rows: int, key: SecretKey, folder: Path) -> Iterator[Any]:
    """Yield the rows of all batches in random order; `rows` is about their number, which sets the parts."""
    # a kept key is used again for later releases: the order of this one must not come back
    key = SecretKey.fresh() if key.kept else key
    with tempfile.TemporaryFile(dir=folder, prefix=".spill-", buffering=0) as file:
        spill = _Spill(file.fileno(), max(1, -(-rows // PART_ROWS)))
        done = 0
        for batch in batches:
            spill.scatter(batch, key.words(Step.SHUFFLE, 0, done, batch.num_rows))
            done += batch.num_rows
            del batch
        for part in range(spill.parts):
            if spill.places[part]:
                yield spill.sorted_part(part)


class _Spill:
    """Rows by part in one file. Text columns are spilled as codes of a dictionary that grows over all batches."""

    def __init__(self, handle: int, parts: int) -> None:
        self._handle, self.parts, self._end = handle, parts, 0
        self.places: list[list[tuple[int, int]]] = [[] for _ in range(parts)]  # part -> (offset, length)
        self._dictionaries: dict[int, _Dictionary] = {}
        self._schema: Any = None

    def scatter(self, batch: Any, words: WordArray) -> None:
        """Write each row to its part: parts are equal ranges of words, in ascending order."""
        part = ((words >> np.uint64(32)) * np.uint64(self.parts) >> np.uint64(32)).astype(np.uint16)
        order = np.argsort(part, kind="stable")
        coded = self._coded(batch, words).take(pa.array(order))
        ends = np.cumsum(np.bincount(part, minlength=self.parts))
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                self._append(number, coded.slice(start, end - start).serialize())
            start = end

    def _append(self, part: int, message: Any) -> None:
        view = memoryview(message)
        self.places[part].append((self._end, len(view)))
        while view:
            written = os.pwrite(self._handle, view, self._end)
            self._end += written
            view = view[written:]

    def _coded(self, batch: Any, words: WordArray) -> Any:
        columns = []
        for k, column in enumerate(batch.columns):
            if pa.types.is_dictionary(column.type):
                columns.append(self._dictionaries.setdefault(k, _Dictionary()).codes(column))
            else:
                columns.append(column)
        coded = pa.RecordBatch.from_arrays([pa.array(words), *columns], names=[WORD, *batch.schema.names])
        self._schema = coded.schema
        return coded

    def sorted_part(self, part: int) -> Any:
        """Return the rows of a part in the order of their words."""
        batches = [
            pa.ipc.read_record_batch(pa.py_buffer(os.pread(self._handle, length, offset)), self._schema)
            for offset, length in self.places[part]
        ]
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
        del batches
        order = pa.array(np.argsort(rows.column(0).to_numpy()))
        columns = [column.take(order) for column in rows.columns[1:]]
        for k, dictionary in self._dictionaries.items():
            columns[k] = pa.DictionaryArray.from_arrays(columns[k], dictionary.values())
        return pa.RecordBatch.from_arrays(columns, names=rows.schema.names[1:])


class _Dictionary:
    """One dictionary for all batches of a column."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._seen: Any = None
        self._table: npt.NDArray[np.int32] = np.empty(0, dtype=np.int32)

    def codes(self, column: Any) -> Any:
        """Return the rows' codes; null stays null."""
        if self._seen is None or not column.dictionary.equals(self._seen):
            self._seen = column.dictionary
            values = column.dictionary.to_pylist()
            self._table = np.array([self._codes.setdefault(v, len(self._codes)) for v in values], dtype=np.int32)
        missing = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
        indices = column.indices.fill_null(0) if column.null_count else column.indices
        positions = indices.to_numpy()
        codes = self._table.take(positions) if self._table.size else np.zeros(positions.size, dtype=np.int32)
        return pa.array(codes, mask=missing)

    def values(self) -> Any:
        return pa.array(list(self._codes), pa.string())
