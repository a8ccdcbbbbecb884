"""Exact counts by DuckDB over a stream of batches, in bounded memory.

What does not fit in memory goes to a temporary folder, as salted 64-bit hashes: no original value is written
there. Two different values share a hash with probability n^2 / 2^65: 7e-5 for 50 million.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sfumato.values.arrays import Progress
from sfumato.values.arrow import is_text
from sfumato.values.randomness import SecretKey, Step

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


def run(query: str, batches: Iterable[Any], kinds: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query over `rows`, the batches with their columns named c0, c1, ..."""
    import duckdb  # here: it takes long to load, and workers of a cluster do without

    stream = _Stream(batches, kinds)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        config: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": folder, "threads": THREADS}
        with duckdb.connect(config=config) as connection:
            connection.execute("SET enable_progress_bar = false")  # it would be printed among the results
            connection.register("rows", stream.reader())
            try:
                found: list[tuple[Any, ...]] = connection.execute(query).fetchall()
            except Exception:
                if stream.problem is not None:  # what the source said, not what became of it on the way
                    raise stream.problem from None
                raise
    return found


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
