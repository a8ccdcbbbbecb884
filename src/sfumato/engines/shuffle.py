"""An exact shuffle in bounded memory: every row gets a secret word, and the rows are written in the order of their
words.

Rows are scattered by word range into parts of one temporary file, and each part is sorted by itself. What is spilled is
already perturbed; the file has mode 0600 and no name, so that it vanishes with the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.arrays import as_numpy, codes_of, from_numpy, from_text, nulls_of, take
from sfumato.engines.pipeline import ahead
from sfumato.engines.spill import Place, SpillFile
from sfumato.randomness import SecretKey, Step, WordArray

PART_ROWS = 1 << 19
"""Rows of a part, about; each becomes a row group."""
WORD = "\0word"

Order = npt.NDArray[np.int64]


def shuffled(batches: Iterable[Any], rows: int, key: SecretKey, folder: Path) -> Iterator[Any]:
    """Yield the rows of all batches in random order; `rows` is about their number, which sets the parts."""
    # a kept key is used again for later releases: the order of this one must not come back
    key = SecretKey.fresh() if key.kept else key
    spill = _Spill(SpillFile(folder), max(1, -(-rows // PART_ROWS)))
    try:
        done = 0
        for batch in ahead(batches):
            spill.scatter(batch, key.words(Step.SHUFFLE, 0, done, batch.num_rows))
            done += batch.num_rows
            del batch
        for part in range(spill.parts):
            if spill.places[part]:
                yield spill.sorted_part(part)
    finally:
        spill.file.close()


class _Spill:
    """Rows by part in one file. Text columns are spilled as codes of a dictionary that grows over all batches."""

    def __init__(self, file: SpillFile, parts: int) -> None:
        self.file, self.parts = file, parts
        self.places: list[list[Place]] = [[] for _ in range(parts)]  # of each part's messages
        self._dictionaries: dict[int, _Dictionary] = {}
        self._schema: Any = None
        self._buffer = bytearray()

    def scatter(self, batch: Any, words: WordArray) -> None:
        """Write each row to its part: parts are equal ranges of words, in ascending order."""
        part = (words >> np.uint64(32)) * np.uint64(self.parts) >> np.uint64(32)
        ends = np.cumsum(np.bincount(part.view(np.int64), minlength=self.parts))
        order = from_numpy(_order_by_part(part, self.parts))
        columns = [take(column, order) for column in (*self._coded(batch), from_numpy(words))]
        rows = pa.RecordBatch.from_arrays(columns, names=[*batch.schema.names, WORD])
        self._schema = rows.schema
        start = 0
        for number, end in enumerate(ends.tolist()):
            if end > start:
                message = rows.slice(start, end - start).serialize()  # of a slice: its own bytes only
                self.places[number].append(self.file.append(message))
            start = end

    def _coded(self, batch: Any) -> Iterator[Any]:
        for k, column in enumerate(batch.columns):
            if pa.types.is_dictionary(column.type):
                column = self._dictionaries.setdefault(k, _Dictionary()).codes(column)
            yield column

    def sorted_part(self, part: int) -> Any:
        """Return the rows of a part in the order of their words."""
        table = self._read(part)
        order = from_numpy(_order_of_words(as_numpy(table.column(WORD).combine_chunks())))
        names = table.schema.names[:-1]
        columns = []
        for k, name in enumerate(names):
            column = take(table.column(name).combine_chunks(), order)
            table = table.drop_columns(name)  # frees as it goes
            dictionary = self._dictionaries.get(k)
            columns.append(dictionary.decoded(column) if dictionary else column)
        return pa.RecordBatch.from_arrays(columns, names=names)

    def _read(self, part: int) -> Any:
        """Return a part as it was spilled, valid until the next one is read: the buffer is used again."""
        size = sum(length for _, length in self.places[part])
        if len(self._buffer) < size:
            self._buffer = bytearray(size + size // 8)
        batches, start = [], 0
        for place in self.places[part]:
            length = place[1]
            self.file.read_into(place, memoryview(self._buffer)[start : start + length])
            content = pa.py_buffer(self._buffer).slice(start, length)
            batches.append(pa.ipc.read_record_batch(content, self._schema))
            start += length  # a multiple of 8: messages are padded
        return pa.Table.from_batches(batches)


class _Dictionary:
    """One dictionary for all batches of a column."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._seen: Any = None
        self._table: npt.NDArray[np.int32] = np.zeros(1, dtype=np.int32)

    def codes(self, column: Any) -> Any:
        """Return the rows' codes; null stays null."""
        if self._seen is None or not column.dictionary.equals(self._seen):
            self._seen = column.dictionary
            values = column.dictionary.to_pylist()
            codes = [self._codes.setdefault(v, len(self._codes)) for v in values]
            self._table = np.array([*codes, 0], dtype=np.int32)  # the last one for nulls
        return from_numpy(self._table.take(codes_of(column, self._table.size - 1)), nulls_of(column))

    def decoded(self, codes: Any) -> Any:
        """Return the values of the codes."""
        return pa.DictionaryArray.from_arrays(codes, from_text(list(self._codes)))


def _order_by_part(part: WordArray, parts: int) -> Order:
    """Return the stable order by part. One sort of (part, row) packed in an integer is twice as fast as argsort."""
    bits = max(part.size - 1, 1).bit_length()
    packed = part << np.uint64(bits) | np.arange(part.size, dtype=np.uint64)
    if parts << bits <= 1 << 32:
        packed = packed.astype(np.uint32)  # sorts twice as fast again
    packed.sort()
    order: Order = np.bitwise_and(packed, (1 << bits) - 1).astype(np.int64)
    return order


def _order_of_words(words: WordArray) -> Order:
    """Return the order of the words.

    The row number takes the place of the low bits, so that a plain sort yields the order; where the other bits do not
    decide (about one part in a hundred), the words are compared whole.
    """
    bits = max(words.size - 1, 1).bit_length()
    low = words.min()
    spare = 64 - max(int(words.max() - low), 1).bit_length()  # the words of a part share a range: use all 64 bits
    mask = np.uint64((1 << bits) - 1)
    packed = ((words - low) << np.uint64(spare)) & ~mask | np.arange(words.size, dtype=np.uint64)
    packed.sort()
    leading = packed >> np.uint64(bits)
    if (leading[1:] == leading[:-1]).any():
        return np.argsort(words, kind="stable")
    order: Order = np.bitwise_and(packed, mask).astype(np.int64)
    return order
