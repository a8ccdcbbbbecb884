"""Whether rows that are stated as shuffled are in random order, as far as their own columns show it.

If all orders are equally likely, every count below has the law of an urn (`chance`), whatever the rows hold:

    blocks        rows of a class (a value, or a range of values) among the rows of a block: halves, quarters, ... 64ths
    neighbours    pairs of neighbours that are both of a class, given how many first and second ones are
    same place    places with a row of a class where the table, too, has a record of it (an audit, with the table)
    in groups     rows of a class in the first half of their group, where rows stand group by group

Classes are chosen by the counts of a column alone, which no order changes. So the tails hold exactly, and nothing is
drawn: the same release always gets the same answer. All counts share one level.

What is found: an order in which a class with the share f has f + d of n rows is, in halves, beyond chance for
n d^2/(2 f (1 - f)) of about 25 or more (20 columns, level 1e-6): 1,000 sorted rows for d = 0.11, f = 1/2. A random
order passes but for the level.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.claims.claim import Check, outcome
from sfumato.release.folder import ReleaseFolder, connected, quoted, runs_of_columns
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import label
from sfumato.values.chance import Tallies, joined

LEVEL = 1e-6
"""Probability of a false alarm, of all counts of a release together."""
MOST_VALUES = 16
"""Values of a column that are a class each: the most frequent ones."""
RANGES = 8
"""Classes by size, of a column with more values."""
BLOCKS = (2, 4, 8, 16, 32, 64)
NARROWEST = 8
"""Rows of a block."""
MOST_ROWS = 1 << 20
"""Rows that are looked at: of more, stretches at fixed places, which are in random order if all rows are."""
STRETCH = 256


@dataclass(frozen=True, eq=False)
class Classes:
    """The class of each row, from 0; -1: in none."""

    codes: IntArray
    names: Sequence[str]

    @property
    def sizes(self) -> IntArray:
        """The rows of each class."""
        return _counted(self.codes, np.ones(self.codes.size, dtype=np.bool_), len(self.names))


def _counted(codes: IntArray, where: npt.NDArray[np.bool_], classes: int) -> IntArray:
    return np.bincount(codes[where & (codes >= 0)], minlength=classes)


# --- classes of a column ----------------------------------------------------------------------------------------------


def classes_of(name: str, column: Any, ranges: int = RANGES) -> Iterator[Classes]:
    """Yield the most frequent values of a column as classes; of one with more values, also so many ranges of them."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
    values = [*coded.dictionary.to_pylist(), None]
    codes = np.asarray(coded.indices.fill_null(len(values) - 1)).astype(np.int64)
    counts = np.bincount(codes, minlength=len(values))
    frequent = np.argsort(-counts, kind="stable")[:MOST_VALUES]
    frequent = frequent[counts[frequent] > 0]
    if frequent.size > 1:
        table = np.full(len(values), -1)
        table[frequent] = np.arange(frequent.size)
        yield Classes(table[codes], [f"{name} {label(values[k])!r}" for k in frequent.tolist()])
    if np.count_nonzero(counts) > MOST_VALUES:
        yield _ranges(name, coded.dictionary, values, codes, ranges)


def _ranges(name: str, dictionary: Any, values: Sequence[Any], codes: IntArray, ranges: int) -> Classes:
    """Return classes of nearly as many rows each, by the order of the values; missing ones come last."""
    counts = np.bincount(codes, minlength=len(values))
    order = np.append(_sorted(dictionary), len(values) - 1)
    below = np.cumsum(counts[order]) - counts[order]
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = below * ranges // codes.size
    held = order[counts[order] > 0]
    ends: dict[int, list[Any]] = {}
    for code in held.tolist():
        ends.setdefault(int(rank[code]), []).append(values[code])
    used = sorted(ends)
    place = np.full(ranges, -1)
    place[used] = np.arange(len(used))
    names = [f"{name} from {label(ends[k][0])!r} to {label(ends[k][-1])!r}" for k in used]
    return Classes(place[rank[codes]], names)


def _sorted(dictionary: Any) -> IntArray:
    try:
        return np.asarray(pc.sort_indices(dictionary)).astype(np.int64)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        return np.asarray(pc.sort_indices(dictionary.cast(pa.string()))).astype(np.int64)


# --- counts -----------------------------------------------------------------------------------------------------------


def order_tallies(classes: Iterable[Classes]) -> Tallies:
    """Return the counts by blocks and neighbours, of rows in one random order."""
    return joined([tallies for each in classes for tallies in (_blocks(each), *_neighbours(each)) if tallies.tests])


def _blocks(of: Classes) -> Tallies:
    rows, classes = of.codes.size, len(of.names)
    inside = np.flatnonzero(of.codes >= 0)
    parts = [number for number in BLOCKS if number * NARROWEST <= rows] or [min(2, rows)]
    hits, sizes, words = [], [], []
    for number in parts:
        block = inside * number // rows
        hits.append(np.bincount(block * classes + of.codes[inside], minlength=number * classes))
        sizes.append(np.repeat(np.bincount(np.arange(rows) * number // rows, minlength=number), classes))
        words += [f"part {k + 1} of {number} of the rows" for k in range(number)]
    marked, names = np.tile(of.sizes, sum(parts)), of.names

    def told(number: int) -> str:  # which must not hold the codes: of thousands of columns they would fill the memory
        return f"{names[number % classes]} in {words[number // classes]}"

    return _urn(np.concatenate(hits), np.concatenate(sizes), marked, rows, told)


def _neighbours(of: Classes) -> Iterator[Tallies]:
    for start in (0, 1):
        pairs = (of.codes.size - start) // 2
        if pairs < 2:
            continue
        first, second = of.codes[start : start + 2 * pairs : 2], of.codes[start + 1 : start + 2 * pairs : 2]
        yield _both(first, second, of.names, "{} in pairs of neighbours")


def same_place(rows: Classes, records: Classes) -> Tallies:
    """Return at how many places a row and a record are of the same class; both have the same classes."""
    n = min(rows.codes.size, records.codes.size)
    return _both(rows.codes[:n], records.codes[:n], rows.names, "{} at the same places as in the table")


def _both(first: IntArray, second: IntArray, names: Sequence[str], words: str) -> Tallies:
    """Return how many pairs have a class in both; the second ones are in random order beside the first ones."""
    pairs, every = first.size, np.ones(first.size, dtype=np.bool_)
    held, other = (_counted(codes, every, len(names)) for codes in (first, second))
    return _urn(_counted(first, first == second, len(names)), held, other, pairs, lambda k: words.format(names[k]))


def _urn(hits: IntArray, drawn: IntArray, marked: IntArray, rows: int, told: Any) -> Tallies:
    """Return the counts of which something is drawn; none may be beyond chance where all or no row is marked."""
    use = np.flatnonzero((drawn > 0) & (marked > 0) & (marked < rows))
    return Tallies(
        hits[use].astype(np.float64),
        drawn[use].astype(np.float64),
        marked[use] / rows,
        use.size,
        lambda number: told(int(use[number])),
        np.full(use.size, float(rows)),
    )


def group_order_tallies(classes: Iterable[Classes], groups: IntArray) -> Tallies:
    """Return the counts in first halves of groups, whose rows are each in random order; rows stand group by group."""
    return joined([_first_halves(each, groups) for each in classes])


def _first_halves(of: Classes, groups: IntArray) -> Tallies:
    """A middle row belongs to the first half in every second group, so that no half is the larger one."""
    numbers, start, group, sizes = np.unique(groups, return_index=True, return_inverse=True, return_counts=True)
    half = (sizes + np.arange(numbers.size) % 2) // 2
    early = np.arange(groups.size) - start[group] < half[group]
    classes = len(of.names)
    inside = of.codes >= 0
    held = np.bincount(of.codes[inside], half[group[inside]] / sizes[group[inside]], classes).astype(np.float64)
    sides = [(early, held, int(half.sum()), "first"), (~early, of.sizes - held, int((sizes - half).sum()), "second")]
    parts = [_side(of, *side) for side in sides]
    return joined(parts)


def _side(of: Classes, here: npt.NDArray[np.bool_], expected: FloatArray, rows: int, side: str) -> Tallies:
    hits = _counted(of.codes, here, len(of.names))
    use = np.flatnonzero(of.sizes > 0) if rows else np.zeros(0, dtype=np.int64)
    names = of.names
    return Tallies(
        hits[use].astype(np.float64),
        np.full(use.size, float(rows)),
        np.minimum(expected[use] / max(1, rows), 1.0),
        use.size,
        lambda number: f"{names[int(use[number])]} in the {side} half of their groups",
    )


# --- what a release shows ---------------------------------------------------------------------------------------------


def thinned(rows: int) -> npt.NDArray[np.bool_] | None:
    """Return which rows of a long release are looked at; None: all."""
    if rows <= MOST_ROWS:
        return None
    every, stretches = -(-rows // MOST_ROWS), -(-rows // STRETCH)
    return np.repeat(np.arange(stretches) % every == 0, STRETCH)[:rows]  # numbers of all rows would fill the memory


# --- of a release -----------------------------------------------------------------------------------------------------

ROWS_AT_ONCE = 1 << 16


def random_order(release: ReleaseFolder) -> Iterator[Check]:
    """Check the columns of rows that are stated as shuffled against their places; of groups, the places inside them."""
    if release.manifest.data.shuffled and release.manifest.data.rows > 1:
        yield _outcome(published_order(release), release.manifest.in_buckets)


def published_order(release: ReleaseFolder, more: Sequence[Classes] = ()) -> Tallies:
    """Return the counts of a release's own columns by place, and of classes that are given besides."""
    apart = [release.manifest.buckets.group_column] if release.manifest.in_buckets else []
    names = [name for name in release.column_names if name not in apart]
    own = (each for name, column in published_columns(release, names) for each in classes_of(name, column))
    classes = chain(own, more)
    if not apart:
        return order_tallies(classes)
    [(_, numbers)] = published_columns(release, apart)
    return group_order_tallies(classes, np.asarray(numbers.cast(pa.int64())))


def published_columns(release: ReleaseFolder, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Give columns in the order of the rows; of a long release, the rows of some stretches."""
    rows = release.manifest.data.rows
    kept = thinned(rows)
    for run in runs_of_columns(names, min(rows, MOST_ROWS)):
        yield from zip(run, _read_run(release, run, kept), strict=True)


def _read_run(release: ReleaseFolder, names: Sequence[str], kept: npt.NDArray[np.bool_] | None) -> Iterator[Any]:
    parts, place = [], 0
    with connected(release) as connection:
        selected = ", ".join(map(quoted, names))
        for batch in connection.sql(f"SELECT {selected} FROM release").to_arrow_reader(ROWS_AT_ONCE):
            here = slice(place, place + batch.num_rows)
            parts.append(batch if kept is None else batch.filter(pa.array(kept[here])))
            place += batch.num_rows
    for k in range(len(names)):
        yield pa.chunked_array([part.column(k) for part in parts]).combine_chunks() if parts else pa.array([])


def _outcome(tallies: Tallies, grouped: bool) -> Check:
    tails, level = tallies.log_tails, tallies.log_level(LEVEL)
    least = int(tails.argmin()) if tails.size else -1
    where = "group" if grouped else "table"
    if least < 0 or tails[least] >= level:
        return Check(
            "random order",
            "holds",
            f"No column shows an order of the rows in the {where} ({tallies.tests:,} counts; false alarm {LEVEL:g}).",
        )
    return outcome(
        "random order",
        False,
        "",
        f"The rows are stated as shuffled and are not: {tallies.told(least)}: {int(tallies.hits[least]):,} of "
        f"{int(tallies.records[least]):,}, where chance allows "
        f"{round(tallies.allowed(least, LEVEL) * tallies.records[least]):,}.",
    )
