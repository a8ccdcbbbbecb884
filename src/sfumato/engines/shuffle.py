"""An exact shuffle in bounded memory: every row is dealt to a part at random, and the rows of each part are permuted.

Rows are dealt alike and independently, so all orders are equally likely, however large the parts turn out. Parts lie in
one temporary file. What is spilled is already perturbed; the file has mode 0600 and no name, so that it vanishes with
the process.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.arrays import codes_of, from_numpy, from_text, nulls_of, take
from sfumato.engines.spill import Place, SpillFile
from sfumato.randomness import SecretKey, Step, WordArray

PART_ROWS = 1 << 19
"""Rows of a part, about; each becomes a row group."""
PART_BYTES = 1 << 24
"""Bytes of a part, about, where rows are long."""

Order = npt.NDArray[np.uint32]


def shuffled(batches: Iterable[Any], rows: int, key: SecretKey, folder: Path) -> Iterator[Any]:
    """Yield the rows of all batches in random order; `rows` is about their number, which sets the parts."""
    # a kept key is used again for later releases: the order of this one must not come back
    key = SecretKey.fresh() if key.kept else key
    spill, done = Spill(SpillFile(folder), rows), 0
    try:
        for batch in batches:
            spill.scatter(batch, key.words(Step.SHUFFLE, 0, done, batch.num_rows))
            done += batch.num_rows
            del batch
        pa.default_memory_pool().release_unused()  # what reading needed, putting in order does not
        for part, count in enumerate(spill.counts):
            if count:
                yield spill.part(part, _order_of_words(key.words(Step.SHUFFLE, 1 + part, 0, count)))
    finally:
        spill.file.close()


class Spill:
    """Rows by part in one file. Text is spilled as codes of a dictionary that grows over all batches, and integers in
    as few bytes as a batch needs."""

    def __init__(self, file: SpillFile, rows: int) -> None:
        self.file = file
        self.counts: list[int] = []  # of each part's rows
        self._rows = rows
        self._messages: list[list[tuple[Place, Any]]] = []  # of each part, with the schema of each
        self._dictionaries: dict[int, _Dictionary] = {}
        self._schema: Any = None
        self._buffer = bytearray()

    def scatter(self, batch: Any, words: WordArray) -> None:
        """Deal each row to the part that its word says; the words are used up."""
        coded = list(self._coded(batch))
        self._schema = pa.schema(list(zip(batch.schema.names, (c.type for c in coded), strict=True)))
        narrow = [_narrowed(column) for column in coded]
        if not self.counts:
            self._set_parts(sum(column.nbytes for column in narrow) / max(batch.num_rows, 1))
        parts = len(self.counts)
        words >>= np.uint64(32)
        words *= np.uint64(parts)
        words >>= np.uint64(32)
        counts = np.bincount(words.view(np.int64), minlength=parts).tolist()
        order = from_numpy(_order_by_part(words, parts))
        rows = pa.RecordBatch.from_arrays([take(column, order) for column in narrow], names=batch.schema.names)
        start = 0
        for number, count in enumerate(counts):
            if count:
                message = rows.slice(start, count).serialize()  # of a slice: its own bytes only
                self._messages[number].append((self.file.append(message), rows.schema))
                self.counts[number] += count
            start += count

    def _set_parts(self, row_bytes: float) -> None:
        rows = max(1, min(PART_ROWS, int(PART_BYTES / max(row_bytes, 1))))
        self.counts = [0] * max(1, -(-self._rows // rows))
        self._messages = [[] for _ in self.counts]

    def _coded(self, batch: Any) -> Iterator[Any]:
        for k, column in enumerate(batch.columns):
            if pa.types.is_dictionary(column.type):
                column = self._dictionaries.setdefault(k, _Dictionary()).codes(column)
            yield column

    def part(self, part: int, order: Order) -> Any:
        """Return the rows of a part in this order."""
        batches, indices = self.read(part), from_numpy(order)
        columns = []
        for k, field in enumerate(self._schema):
            column = _widened(take(_joined([batch.column(k) for batch in batches]), indices), field.type)
            dictionary = self._dictionaries.get(k)
            columns.append(dictionary.decoded(column) if dictionary else column)
        return pa.RecordBatch.from_arrays(columns, names=self._schema.names)

    def read(self, part: int) -> list[Any]:
        """Return a part as it was spilled, valid until the next one is read: the buffer is used again."""
        size = sum(length for (_, length), _ in self._messages[part])
        if len(self._buffer) < size:
            self._buffer = bytearray(size + size // 8)
        batches, start = [], 0
        for place, schema in self._messages[part]:
            length = place[1]
            self.file.read_into(place, memoryview(self._buffer)[start : start + length])
            content = pa.py_buffer(self._buffer).slice(start, length)
            batches.append(pa.ipc.read_record_batch(content, schema))
            start += length  # a multiple of 8: messages are padded
        return batches


def _storage(kind: Any) -> np.dtype[Any] | None:
    """Return the integers that hold a column of this type; None for other columns."""
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        return np.dtype(f"i{kind.bit_width // 8}")
    return None


def _narrowed(column: Any) -> Any:
    """Return integers in the narrowest type that holds them."""
    storage = _storage(column.type)
    if storage is None or not len(column):
        return column
    numbers = _numbers(column, storage)
    low, high = int(numbers.min()), int(numbers.max())
    bits = 1 + max((~n if n < 0 else n).bit_length() for n in (low, high))
    narrow = next(width for width in (1, 2, 4, 8) if bits <= 8 * width)
    if narrow >= storage.itemsize:
        return column
    return from_numpy(numbers.astype(f"i{narrow}"), nulls_of(column))


def _widened(column: Any, kind: Any) -> Any:
    """Return a narrowed column in its own type."""
    if column.type == kind:
        return column
    storage = _storage(kind)
    assert storage is not None
    numbers = _numbers(column, np.dtype(f"i{column.type.bit_width // 8}")).astype(storage)
    return pa.Array.from_buffers(kind, len(column), from_numpy(numbers, nulls_of(column)).buffers())


def _numbers(column: Any, storage: np.dtype[Any]) -> npt.NDArray[Any]:
    return np.frombuffer(column.buffers()[1], dtype=storage)[column.offset : column.offset + len(column)]


def _joined(chunks: list[Any]) -> Any:
    """Return one array of chunks that may be narrowed differently."""
    kinds = {chunk.type for chunk in chunks}
    if len(kinds) > 1:
        widest = max(kinds, key=lambda kind: int(kind.bit_width))
        chunks = [_widened(chunk, widest) for chunk in chunks]
    return pa.concat_arrays(chunks)


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
    """Return the stable order by part: numbers of at most 16 bits are sorted by their bytes, in linear time."""
    return _stable_order(part.astype(np.min_scalar_type(parts - 1)))


def _order_of_words(words: WordArray) -> Order:
    """Return the stable order of the words.

    Two sorts by 16 bits each are three times as fast as one by all 64; the few words that agree in these 32 bits are
    next to each other then, and are compared whole.
    """
    leading = (words >> np.uint64(32)).astype(np.uint32)
    order = _stable_order(leading.astype(np.uint16))
    order = order.take(_stable_order((leading >> np.uint32(16)).astype(np.uint16).take(order)))
    leading = leading.take(order)
    same = np.flatnonzero(leading[1:] == leading[:-1])
    if same.size:
        places = np.union1d(same, same + 1)
        undecided = order[places]
        order[places] = undecided[np.argsort(words[undecided], kind="stable")]
    return order


def _stable_order(numbers: npt.NDArray[Any]) -> Order:
    return np.argsort(numbers, kind="stable").astype(np.uint32)
