"""Sums over the published rows of a release, by group and by what was published: all that corrections need.

DuckDB groups by as little as the question allows (marginalise first, correct only what is asked):

    whole     no randomized column matters: rows are only counted
    chosen    a condition on the randomized columns, all matrices uniform: only whether the published value satisfies
              it matters, for all other values have equal weights
    values    everything else: by sub-table and published value
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.analyst.answer import Key, sorted_key
from sfumato.analyst.ask.conditions import Condition, fetched
from sfumato.analyst.ask.scale import Score, Told
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.randomized.channel import Channel
from sfumato.errors import ReleaseError, UsageError
from sfumato.release.folder import quoted, stated_order
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain, label

Detail = Literal["whole", "chosen", "values"]
Truths = tuple[bool | None, ...]
MOST_CELLS = 30_000_000
"""Numbers that one sum may consist of: 240 MB."""
MOST_NUMBERED = 1 << 62
"""Combinations that can be numbered as they are."""


@dataclass(frozen=True, order=True)
class Term:
    """A number of each row, worked out from untouched columns: checked SQL, and the columns that it names."""

    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class Number:
    """A number of each record: the survey weight to a power, times columns, counted where other columns are known.

    Terms are further factors, worked out from untouched columns. Scores are factors of what hidden columns have: no
    published row tells them, so no sum of rows has them.
    """

    weight: int = 1
    columns: tuple[str, ...] = ()
    known: tuple[str, ...] = ()
    scores: tuple[Score | Told, ...] = ()
    terms: tuple[Term, ...] = ()

    def __mul__(self, other: Number) -> Number:
        columns = self.columns + other.columns
        known = {*self.known, *other.known} - {*columns}  # a product with a missing factor is missing anyway
        scores, terms = self.scores + other.scores, tuple(sorted(self.terms + other.terms))
        return Number(self.weight + other.weight, tuple(sorted(columns)), tuple(sorted(known)), scores, terms)

    @property
    def named(self) -> set[str]:
        """All untouched columns that it is worked out from."""
        return {*self.columns, *self.known, *(name for term in self.terms for name in term.columns)}

    def score(self, domain: SensitiveDomain) -> FloatArray | None:
        """Return the product of the scores for each code of a domain that has their columns; None where it is 1."""
        product = np.ones(domain.size)
        for score in self.scores:
            product = product * score.over(domain)
        return None if (product == 1).all() else product

    def each(self, weight: str) -> str:
        """Return it as SQL, 0 where a factor is missing."""
        product = self._product(weight) or "1.0"
        known = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in self.known)
        return f"coalesce({f'CASE WHEN {known} THEN {product} END' if known else product}, 0)"

    def summed(self, weight: str, where: str = "") -> str:
        """Return its sum as SQL, over the records that satisfy a condition; one with a missing factor adds nothing."""
        product = self._product(weight)
        known = [f"{quoted(name)} IS NOT NULL" for name in self.known]
        total = f"sum({product})" if product else "count(*)"
        if not product and len(known) == 1:
            total, known = f"count({quoted(self.known[0])})", []  # faster than a filter
        needed = " AND ".join([*known, *([f"({where})"] if where else [])])
        return f"{total} FILTER (WHERE {needed})" if needed else total

    def _product(self, weight: str) -> str:
        factors = [quoted(name) for name in (*([weight] * self.weight if weight else []), *self.columns)]
        return " * ".join(f"CAST({sql} AS DOUBLE)" for sql in (*factors, *(f"({term.sql})" for term in self.terms)))


COUNT = Number()
ROWS = Number(weight=0)
"""One for each row."""


@dataclass(frozen=True, eq=False)
class Rows(ABC):
    """Sums by row, which is a group under one pattern of truths of the condition's atoms."""

    keys: tuple[Key, ...]  # of the groups
    groups: int
    group_of: IntArray  # [rows]
    patterns: tuple[Truths, ...]
    pattern_of: IntArray  # [rows]
    weight: str

    @abstractmethod
    def by_group(self, number: Number) -> FloatArray:
        """Return the sum of a number over the published rows of each group."""

    @property
    def records(self) -> FloatArray:
        """The published rows of each group."""
        return self.by_group(ROWS)


@dataclass(frozen=True, eq=False)
class Tally(Rows):
    """Sums by row and class, which is what is told apart of the published values: see `Detail`.

    `sums` has an array [rows, classes] for each sub-table (one for all of them where there is no detail).
    """

    sums: dict[str, list[FloatArray]]
    detail: Detail

    def by_group(self, number: Number) -> FloatArray:
        rows = sum(array.sum(axis=1) for array in self.sums[number.summed(self.weight)])
        return np.bincount(self.group_of, rows, self.groups).astype(np.float64)

    def margin(self, names: Sequence[str]) -> Tally:
        """Return the tally by fewer columns."""
        keys = [key for key in self.keys if key.name in names]
        if len(keys) == len(self.keys):
            return self
        merged, group = distinct(keys, self.groups)
        row, (group_of, pattern_of) = unique_rows([group[self.group_of], self.pattern_of], self.group_of.size)
        sums = {sql: [_added(array, row, group_of.size) for array in arrays] for sql, arrays in self.sums.items()}
        groups = int(group.max(initial=-1)) + 1
        return replace(self, keys=merged, groups=groups, group_of=group_of, pattern_of=pattern_of, sums=sums)


def tallied(
    release: CountedRelease,
    channel: Channel,
    untouched: Sequence[str],
    condition: Condition,
    numbers: Iterable[Number],
    weight: str,
    detail: Detail,
) -> Tally:
    """Count and sum the published rows that the condition on untouched columns selects."""
    # of each sum the one over the rows whose published value satisfies the condition, too
    sums = {number.summed(weight): number.summed(weight, condition.values) for number in (ROWS, *numbers)}
    found = fetched(release, _asked(channel, untouched, condition, sums, detail), "The query")
    columns = iter(found.columns)
    keys = [key_of(name, next(columns), stated_order(release, name)) for name in untouched]
    truths = [key_of("", next(columns)) for _ in _atoms(condition, detail)]
    table, place = places_of_rows(channel, columns, found.num_rows, detail)
    group_keys, group = distinct(keys, found.num_rows)
    groups = max(int(group.max(initial=-1)) + 1, 0 if untouched else 1)
    patterns, pattern = distinct(truths, found.num_rows)
    row, (group_of, pattern_of) = unique_rows([group, pattern], found.num_rows)
    if not untouched and not group_of.size:  # no row at all is a group too: the one of all rows
        group_of, pattern_of = np.zeros((2, 1), dtype=np.int64)
        patterns = tuple(Key("", (None,), np.zeros(1, dtype=np.int64)) for _ in truths)
    sizes = _sizes(channel, detail)
    if group_of.size * sum(sizes) > MOST_CELLS:
        raise UsageError(
            f"The answer needs {group_of.size * sum(sizes):,} numbers in memory; {MOST_CELLS:,} are possible.",
            "Group by fewer columns, or ask for less.",
        )
    arrays = (numbers_in(column) for column in columns)
    if detail == "chosen":
        filled = {sql: _both(next(arrays), next(arrays), table, row, (group_of.size, len(sizes))) for sql in sums}
    else:
        filled = {sql: _dense(next(arrays), table, row, place, group_of.size, sizes) for sql in sums}
    truth_patterns = tuple(zip(*(key.column() for key in patterns), strict=True)) if truths else ((),)
    return Tally(group_keys, groups, group_of, truth_patterns, pattern_of, weight, filled, detail)


# --- what is asked of the rows ----------------------------------------------------------------------------------------


def _asked(
    channel: Channel, untouched: Sequence[str], condition: Condition, sums: Mapping[str, str], detail: Detail
) -> Counting:
    """Return the sums by what is told apart."""
    columns = [quoted(name) for name in untouched]
    columns += [f"CAST(({atom}) AS BOOLEAN)" for atom in _atoms(condition, detail)]
    if detail == "values":
        columns += [quoted(name) for name in channel.domain.names]
    if detail != "whole" and channel.label:
        columns.append(f"TRY_CAST({quoted(channel.label)} AS INTEGER)")
    summed = [each for pair in sums.items() for each in reversed(pair)] if detail == "chosen" else list(sums)
    return Counting(tuple(columns), tuple((f"coalesce({sql}, 0)", "sum") for sql in summed), condition.rows)


def _atoms(condition: Condition, detail: Detail) -> tuple[str, ...]:
    return condition.atoms if detail == "values" else ()


def _sizes(channel: Channel, detail: Detail) -> list[int]:
    """Return the number of classes of each sub-table."""
    if detail == "whole":
        return [1]
    return [2 if detail == "chosen" else table.matrix.outputs for table in channel.tables]


# --- its answer, as arrays --------------------------------------------------------------------------------------------


def key_of(name: str, column: Any, stated: Sequence[Any] = ()) -> Key:
    """Return a column of an Arrow table or batch as a key of its rows, its values in a stated order if there is one."""
    return sorted_key(name, *_encoded(column), stated)


def _encoded(column: Any) -> tuple[list[Any], IntArray]:
    """Return the different values of a column, and which of them each row has."""
    whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    if pa.types.is_nested(whole.type):
        raise changed("lists in a column that is stated to have single values")
    encoded = whole.dictionary_encode(null_encoding="encode")
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices).astype(np.int64)


def numbers_in(column: Any) -> FloatArray:
    """Return a column of an Arrow table as numbers."""
    return np.asarray(column.combine_chunks().cast("double"), dtype=np.float64)


def distinct(keys: Sequence[Key], rows: int) -> tuple[tuple[Key, ...], IntArray]:
    """Return the different combinations of keys in their order, and the number of that of each row."""
    inverse, columns = unique_rows([key.codes for key in keys], rows)
    return tuple(Key(key.name, key.values, codes) for key, codes in zip(keys, columns, strict=True)), inverse


def unique_rows(columns: Sequence[IntArray], rows: int) -> tuple[IntArray, list[IntArray]]:
    """Return the number of each row's combination among the different ones, and these, sorted."""
    combined, space = np.zeros(rows, dtype=np.int64), 1
    radix = [int(column.max(initial=0)) + 1 for column in columns]
    for size, column in zip(radix, columns, strict=True):
        if space * size > MOST_NUMBERED:
            different, combined = np.unique(combined, return_inverse=True)  # by rank, which keeps them small
            space = different.size
        combined, space = combined * size + column, space * size
    _, first, inverse = np.unique(combined, return_index=True, return_inverse=True)
    return inverse.reshape(-1), [column[first] for column in columns]


def places_of_rows(channel: Channel, columns: Any, rows: int, detail: Detail) -> tuple[IntArray, IntArray]:
    """Return the sub-table of each row, and the place of its value among those of the sub-table."""
    place = np.zeros(rows, dtype=np.int64)
    if detail == "whole":
        return place, place
    values = [part_codes(channel.published, k, next(columns)) for k in range(_parts(channel, detail))]
    table = np.zeros(rows, dtype=np.int64)
    if channel.label:
        table = np.asarray(next(columns).combine_chunks().fill_null(0)).astype(np.int64) - 1
    wrong = (table < 0) | (table >= len(channel.tables))
    if wrong.any():
        raise changed(f"a row of sub-table {int(table[wrong][0]) + 1}, and there is no such one")
    if detail != "values":
        return table, place
    code = channel.published.join([codes.astype(np.int32) for codes in values])
    if channel.published is not channel.domain:  # cards, of one matrix
        return table, code.astype(np.int64)
    order = np.argsort(table, kind="stable")
    ends = np.searchsorted(table[order], np.arange(len(channel.tables) + 1))
    for number, own in enumerate(channel.tables):
        chosen = order[ends[number] : ends[number + 1]]
        place[chosen] = np.minimum(np.searchsorted(own.codes, code[chosen]), own.codes.size - 1)
        unknown = own.codes[place[chosen]] != code[chosen]
        if unknown.any():
            value = channel.domain.labels[int(code[chosen][unknown][0])]
            raise changed(f"{value!r}, which is not a value of {channel.domain.name!r} of sub-table {number + 1}")
    return table, place


def _parts(channel: Channel, detail: Detail) -> int:
    return len(channel.domain.parts) if detail == "values" else 0


def part_codes(domain: SensitiveDomain, k: int, column: Any) -> IntArray:
    """Return the codes of the values of a column of the domain."""
    part, (values, codes) = domain.parts[k], _encoded(column)
    unknown = [value for value in values if value not in part.index]
    if unknown:
        raise changed(f"{label(unknown[0])!r}, which is not a value of {part.name!r}")
    return np.array([part.index[value] for value in values], dtype=np.int64)[codes]


def changed(what: str) -> ReleaseError:
    """Return the error of a release that is not as it was published."""
    return ReleaseError(
        f"The release holds {what}.", "It was changed after it was published: `sfumato verify` says what fails."
    )


def _dense(
    numbers: FloatArray, table: IntArray, row: IntArray, place: IntArray, rows: int, sizes: Sequence[int]
) -> list[FloatArray]:
    """Return the sums as an array [rows, classes] for each sub-table."""
    starts = np.concatenate([[0], np.cumsum(sizes)]) * rows
    flat = starts[table] + row * np.asarray(sizes)[table] + place
    filled = np.bincount(flat, weights=numbers, minlength=int(starts[-1])).astype(np.float64, copy=False)
    return [filled[a:b].reshape(rows, size) for a, b, size in zip(starts, starts[1:], sizes, strict=False)]


def _both(
    chosen: FloatArray, everything: FloatArray, table: IntArray, row: IntArray, shape: tuple[int, int]
) -> list[FloatArray]:
    """Return the sums of the chosen values and of the others, [rows, 2] for each sub-table."""
    filled = np.zeros((shape[1], shape[0], 2))
    filled[table, row, 0] = chosen
    filled[table, row, 1] = everything - chosen
    return list(filled)


def _added(array: FloatArray, row: IntArray, rows: int) -> FloatArray:
    """Return the sums of the rows with the same number."""
    order = np.argsort(row, kind="stable")
    if not order.size:
        return np.zeros((rows, array.shape[1]))
    added: FloatArray = np.add.reduceat(array[order], np.searchsorted(row[order], np.arange(rows)), axis=0)
    return added
