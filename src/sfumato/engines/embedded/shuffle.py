"""An exact shuffle in bounded memory: every row is dealt to a part at random, and the rows of each part are permuted.

Rows are dealt alike and independently, so all orders are equally likely, however large the parts turn out. Parts lie in
one temporary file. What is spilled is already perturbed; the file has mode 0600 and no name, so that it vanishes with
the process.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.values.arrays import WordArray
from sfumato.values.arrow import codes_of, from_numpy, from_text, nulls_of, take
from sfumato.values.randomness import SecretKey, Step

PART_ROWS = 1 << 19
"""Rows of a part, about; each becomes a row group."""
PART_BYTES = 1 << 24
"""Bytes of a part, about, where rows are long."""

Columns = list[Any]
"""Arrow arrays of some rows, one of each column."""


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
        yield from spill.rows(lambda part, count: order_of_words(key.words(Step.SHUFFLE, 1 + part, 0, count)))
    finally:
        spill.file.close()


class Spill:
    """Rows by part in one file. Text is spilled as codes of a dictionary that grows over all batches, and integers in
    as few bytes as a batch needs."""

    def __init__(self, file: SpillFile, rows: int) -> None:
        self.file = file
        self.counts: list[int] = []  # of each part's rows
        self._rows, self._part_rows = rows, 1  # of all parts, and of each, about
        self._messages: list[list[tuple[Place, Any]]] = []  # of each part, with the schema of each
        self._dictionaries: dict[int, _Dictionary] = {}
        self._schema: Any = None
        self._buffer = bytearray()

    def scatter(self, batch: Any, words: WordArray) -> None:
        """Deal each row to the part that its word says; the words are used up."""
        self._schema = self._schema or pa.schema([pa.field(f.name, _spilled_type(f.type)) for f in batch.schema])
        narrow = [self._narrow(k, column) for k, column in enumerate(batch.columns)]
        if not self.counts:
            self._set_parts(sum(column.nbytes for column in narrow) / max(batch.num_rows, 1))
        parts = len(self.counts)
        words >>= np.uint64(32)
        words *= np.uint64(parts)
        words >>= np.uint64(32)
        counts = np.bincount(words.view(np.int64), minlength=parts).tolist()
        order = from_numpy(stable_order(words))
        rows = pa.RecordBatch.from_arrays([take(column, order) for column in narrow], names=batch.schema.names)
        start = 0
        for number, count in enumerate(counts):
            if count:
                message = rows.slice(start, count).serialize()  # of a slice: its own bytes only
                self._messages[number].append((self.file.append(message), rows.schema))
                self.counts[number] += count
            start += count

    def _set_parts(self, row_bytes: float) -> None:
        self._part_rows = max(1, min(PART_ROWS, int(PART_BYTES / max(row_bytes, 1))))
        self.counts = [0] * max(1, -(-self._rows // self._part_rows))
        self._messages = [[] for _ in self.counts]

    def _narrow(self, k: int, column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            return self._dictionaries.setdefault(k, _Dictionary()).codes(column)
        return _narrowed(column)

    def rows(self, order: Callable[[int, int], Order]) -> Iterator[Any]:
        """Yield all rows: part after part, each in the order that is given for its number and its count of rows."""
        parts = (self._part(part, order(part, count)) for part, count in enumerate(self.counts) if count)
        return map(self._restored, _of_equal_size(parts, self._part_rows))

    def _part(self, part: int, order: Order) -> Columns:
        """Return the rows of a part in this order, as they were spilled."""
        indices = from_numpy(order)
        return [take(column, indices) for column in _joined_columns([batch.columns for batch in self.read(part)])]

    def _restored(self, spilled: Columns) -> Any:
        """Return spilled rows as they were."""
        columns = []
        for k, field in enumerate(self._schema):
            column, dictionary = _widened(spilled[k], field.type), self._dictionaries.get(k)
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


def _spilled_type(kind: Any) -> Any:
    """Return the type that a column has again after it was spilled: text that is a dictionary has codes."""
    return pa.int32() if pa.types.is_dictionary(kind) else kind


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
    narrow = _narrowest(int(numbers.min()), int(numbers.max()))
    if narrow.itemsize >= storage.itemsize:
        return column
    return from_numpy(numbers.astype(narrow), nulls_of(column))


def _narrowest(low: int, high: int) -> np.dtype[Any]:
    """Return the narrowest signed integers that hold these."""
    bits = 1 + max((~n if n < 0 else n).bit_length() for n in (low, high))
    return np.dtype(f"i{next(width for width in (1, 2, 4, 8) if bits <= 8 * width)}")


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


def _of_equal_size(parts: Iterable[Columns], rows: int) -> Iterator[Columns]:
    """Join and cut parts to exactly `rows` rows, the last one to what is left: cheaper here than when they are wide."""
    pending: list[Columns] = []
    count = 0
    for part in parts:
        pending.append(part)
        count += len(part[0])
        while count >= rows:
            joined = _joined_columns(pending)
            count -= rows
            yield [column.slice(0, rows) for column in joined]
            pending = [[column.slice(rows) for column in joined]] if count else []
    if pending:
        yield _joined_columns(pending)


def _joined_columns(pieces: list[Columns]) -> Columns:
    return [_joined(list(chunks)) for chunks in zip(*pieces, strict=True)]


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
        self._table: npt.NDArray[Any] = np.zeros(1, dtype=np.int8)

    def codes(self, column: Any) -> Any:
        """Return the rows' codes; null stays null."""
        if self._seen is None or not column.dictionary.equals(self._seen):
            self._seen = column.dictionary
            values = column.dictionary.to_pylist()
            codes = [self._codes.setdefault(v, len(self._codes)) for v in values]
            self._table = np.array([*codes, 0], dtype=_narrowest(0, len(self._codes)))  # the last one for nulls
        return from_numpy(self._table.take(codes_of(column, self._table.size - 1)), nulls_of(column))

    def decoded(self, codes: Any) -> Any:
        """Return the values of the codes."""
        return pa.DictionaryArray.from_arrays(codes, from_text(list(self._codes)))


Order = npt.NDArray[np.uint32]
"""Numbers of rows, in the order in which these are to be."""


def stable_order(keys: npt.NDArray[np.integer]) -> Order:
    """Return the order by keys, none of them negative; rows of one key stay as they are."""
    most = int(keys.max(initial=0))
    if most < 1 << 16:
        return np.argsort(keys.astype(np.min_scalar_type(most)), kind="stable").astype(np.uint32)
    return _packed_order(keys, most)


def _packed_order(keys: npt.NDArray[np.integer], most: int) -> Order:
    """Return the order by a plain sort of (key, row), packed in as few bits as hold them."""
    row_bits = max(keys.size - 1, 1).bit_length()
    packed: npt.NDArray[Any] = keys.astype(np.uint64 if (most + 1) << row_bits > 1 << 32 else np.uint32)
    packed <<= packed.dtype.type(row_bits)
    packed |= np.arange(keys.size, dtype=packed.dtype)
    packed.sort()
    packed &= packed.dtype.type((1 << row_bits) - 1)
    return packed.astype(np.uint32, copy=False)


def order_of_words(words: WordArray) -> Order:
    """Return the order by words of 64 bits: by 32 of them, 16 at a time.

    The few words that agree in these are next to each other then, and are compared whole.
    """
    leading = (words >> np.uint64(32)).astype(np.uint32)
    order = stable_order(leading & np.uint32(0xFFFF))
    order = order.take(stable_order((leading >> np.uint32(16)).take(order)))
    leading = leading.take(order)
    same = np.flatnonzero(leading[1:] == leading[:-1])
    if same.size:
        places = np.union1d(same, same + 1)
        undecided = order[places]
        order[places] = undecided[np.argsort(words[undecided], kind="stable")]
    return order


Place = tuple[int, int]
"""Offset and length of a message."""


class SpillFile:
    """Messages, appended one after another and read back by their places."""

    def __init__(self, folder: Path) -> None:
        self._file = tempfile.TemporaryFile(dir=folder, prefix=".spill-", buffering=0)  # noqa: SIM115
        self._end = 0

    def append(self, message: Any) -> Place:
        """Write a message; return its place."""
        view = memoryview(message)
        place = (self._end, len(view))
        while view:
            written = os.pwrite(self._file.fileno(), view, self._end)
            self._end += written
            view = view[written:]
        return place

    def read_into(self, place: Place, view: memoryview) -> None:
        """Read the message at a place into memory of its length."""
        offset = place[0]
        while view:
            got = os.preadv(self._file.fileno(), [view], offset)
            if not got:
                raise OSError("a temporary file was cut short")
            offset, view = offset + got, view[got:]

    def close(self) -> None:
        """Give the space back."""
        self._file.close()
