"""How the records of a release by groups were dealt: what its two tables tell without any question, read once.

Estimates rest on the chance of the deal, inside the *strata* in which it was random: all records, or those of a cell of
the columns in `dealt_within`. A group whose members agree in these columns belongs to that cell's stratum. What chance
says nothing about are the *loose* groups:

    mixed     members of several cells: that a value went to the one cell or the other was no chance
    untold    of a cell whose groups' compositions do not tell all of its values apart (few groups, or alike)

Compositions are read a part at a time and kept by kind, so that memory grows with the different compositions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.ask.conditions import fetched
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.counting.tally import changed, distinct, key_of, part_codes
from sfumato.analyst.grouped.buckets import Binned
from sfumato.analyst.grouped.compositions import BLOCK, Compositions, Deal, Kinds, Stratum
from sfumato.errors import ReleaseError
from sfumato.release.folder import connected, quoted
from sfumato.release.manifest import GroupsPart
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain

MOST_VALUES = 4_000
"""Values of a stratum for which least squares is worked out: its matrix has as many rows and columns."""
LINES_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class Loose:
    """The groups that no stratum tells about."""

    counts: Compositions  # [kinds, values]
    kind: IntArray  # of each loose group
    sizes: IntArray  # of each kind
    mixed: int  # records of groups that mix cells
    untold: int  # records of cells whose compositions do not tell


@dataclass(frozen=True, eq=False)
class Dealt:
    """The deal of the strata, the loose groups, and the table (group, kind, size) that joins records to them.

    Kinds are numbered through the strata, then come the loose groups, each by itself.
    """

    deal: Deal
    loose: Loose
    kinds: Any  # Arrow

    @property
    def first_loose(self) -> int:
        """The number of kinds of the strata."""
        return int(self.deal.first_kind[-1])

    @property
    def most_values(self) -> int:
        """The values of the stratum with most of them."""
        return max((stratum.codes.size for stratum in self.deal.strata), default=0)


def dealt_of(kinds: Kinds, values: int, mixed: int | None, *, inside_cells: bool) -> Dealt:
    """Return the deal to groups of these kinds; `mixed` numbers the stratum of groups that mix cells."""
    is_mixed = np.zeros(kinds.stratum.size, dtype=np.bool_) if mixed is None else kinds.stratum == mixed
    is_poor = np.zeros_like(is_mixed)
    deal = kinds.chosen(~is_mixed).deal(values)
    if inside_cells:
        poor = np.array([_is_poor(stratum) for stratum in deal.strata], dtype=np.bool_)
        is_poor[~is_mixed] = np.repeat(poor, np.diff(deal.first_kind))
        deal = deal.chosen(~poor)
    loose = is_mixed | is_poor
    strict, own, in_loose = kinds.chosen(~loose), kinds.chosen(loose), loose[kinds.of_group]
    sizes = kinds.sizes[kinds.of_group]
    number = np.empty(sizes.size, dtype=np.int64)
    number[~in_loose] = strict.of_group
    number[in_loose] = np.arange(in_loose.sum()) + deal.first_kind[-1]
    records = np.bincount(kinds.of_group, minlength=loose.size) * kinds.sizes
    by_reason = (int(records[chosen].sum()) for chosen in (is_mixed, is_poor))
    left_out = Loose(own.compositions(values), own.of_group, own.sizes, *by_reason)
    table = {"g": np.arange(1, sizes.size + 1), "kind": number, "size": sizes.astype(np.float64)}
    return Dealt(deal, left_out, pa.table(table))


def _is_poor(stratum: Stratum) -> bool:
    """Whether the groups of a stratum do not tell all its values; fewer kinds than values never do."""
    values = stratum.codes.size
    return values > MOST_VALUES or stratum.counts.rows < values or stratum.rank < values


@dataclass(frozen=True, eq=False)
class LooseSums:
    """A number of the records of loose groups, by group and column: the classical estimate, and how far off it can be.

    Of a group of N records c have a value in the set asked for, and a of them lie in a column of the question, with
    numbers z between lo and hi that add up to s. Then at least max(0, c + a - N) and at most min(c, a) of these a
    records, say t, have such a value, and the sum of their z lies in

        t lo <= sum <= t hi        s - (a - t) hi <= sum <= s - (a - t) lo

    The classical estimate s c/N lies there too; its largest error is the distance to the farther end.
    """

    loose: Loose
    binned: Binned  # a bin is a group and a column
    columns: int
    first: int  # the number of the first loose group in the bins' keys

    def classical(self, f: FloatArray, amount: FloatArray | None = None) -> FloatArray:
        """Return the sum of s c/N, [columns, figures], for sets of values f; `amount` may take the place of s."""
        total = np.zeros((self.columns, f.shape[1]))
        amount = self.binned.total if amount is None else amount
        for bins, group, column in self._blocks(f.shape[1]):
            share = self._counts(f, group) / self._sizes(group)
            np.add.at(total, column, amount[bins, None] * share)
        return total

    def slack(self, f: FloatArray) -> FloatArray:
        """Return the largest error of the classical estimate, [columns, figures]."""
        slack = np.zeros((self.columns, f.shape[1]))
        for bins, group, column in self._blocks(f.shape[1]):
            size, c = self._sizes(group), self._counts(f, group)
            rows, s, low, high = (
                getattr(self.binned, name)[bins, None] for name in ("rows", "total", "least", "largest")
            )
            ends = _range(rows, s, low, high, np.maximum(c + rows - size, 0), np.minimum(c, rows))
            estimate = s * c / size
            np.add.at(slack, column, np.maximum(ends[1] - estimate, estimate - ends[0]))
        return np.maximum(slack, 0)

    def _blocks(self, figures: int) -> list[tuple[slice, IntArray, IntArray]]:
        """Return bins with their groups and columns, as many at a time as can be held for all figures."""
        group, column = np.divmod(self.binned.key, self.columns)
        step = max(1, BLOCK // max(figures, 1))
        starts = [slice(first, first + step) for first in range(0, group.size, step)]
        return [(bins, group[bins] - self.first, column[bins]) for bins in starts]

    def _sizes(self, group: IntArray) -> FloatArray:
        return self.loose.sizes[self.loose.kind[group], None].astype(np.float64)

    def _counts(self, f: FloatArray, group: IntArray) -> FloatArray:
        """Return c of each figure for some groups."""
        kinds, place = np.unique(self.loose.kind[group], return_inverse=True)
        return self.loose.counts.chosen(kinds, f)[place]


def _range(
    rows: FloatArray, s: FloatArray, low: FloatArray, high: FloatArray, fewest: FloatArray, most: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the least and the largest sum over `fewest` to `most` of the rows."""
    chosen = [[number * t for t in (fewest, most)] for number in (low, high)]
    rest = [[s - (rows - t) * number for t in (fewest, most)] for number in (low, high)]
    least: FloatArray = np.maximum(np.minimum(*chosen[0]), np.minimum(*rest[1]))
    largest: FloatArray = np.minimum(np.maximum(*chosen[1]), np.maximum(*rest[0]))
    return least, largest


# --- read from the two tables ---------------------------------------------------------------------------------------


def dealt(release: CountedRelease) -> Dealt:
    """Return how the records were dealt."""
    files = (*release.data_files, *release.groups_files)
    stamps = tuple((str(file.absolute()), file.stat().st_mtime_ns) for file in files if file.is_file())
    return _read(_Opened(release, release.manifest.buckets, stamps))


@dataclass(frozen=True)
class _Opened:
    """A release as a key of the cache: what is stated of its groups, and its files as they are now."""

    release: CountedRelease = field(compare=False)
    groups: GroupsPart
    stamps: tuple[tuple[str, int], ...]


@lru_cache(maxsize=2)
def _read(opened: _Opened) -> Dealt:
    release, groups = opened.release, opened.release.manifest.buckets
    domain = release.manifest.domain
    rows, stratum, mixed = _strata(release, groups)
    with connected(release) as connection:
        parts = list(_parts(connection, groups, domain, rows, stratum))
    if not parts:
        raise ReleaseError(
            f"The release {str(release.folder)!r} has an empty table of groups.",
            "Get the release anew from the publisher.",
        )
    kinds = Kinds.joined(parts)
    if not np.array_equal(kinds.sizes[kinds.of_group], rows):
        raise _other_groups()
    return dealt_of(kinds, domain.size, mixed, inside_cells=bool(groups.dealt_within))


def _other_groups() -> ReleaseError:
    return changed("other groups in its data than in its table of groups")


def _strata(release: CountedRelease, groups: GroupsPart) -> tuple[IntArray, IntArray, int | None]:
    """Return the rows and the stratum of each group, and the number of the stratum of those that mix cells."""
    is_told = all(name in release.column_names for name in groups.dealt_within)
    names = groups.dealt_within if is_told else ()
    asked = Counting((quoted(groups.group_column), *map(quoted, names)), (("count(*)", "sum"),))
    group, *cells, rows = fetched(release, asked, "").columns
    place = whole_numbers(group.combine_chunks()) - 1
    if place.size == 0 or place.min() < 0 or place.max() >= groups.number:
        raise _other_groups()
    cell = distinct([key_of(name, column) for name, column in zip(names, cells, strict=True)], place.size)[1]
    stratum, mixed = np.zeros(groups.number, dtype=np.int64), int(cell.max()) + 1
    stratum[place] = cell
    stratum[np.bincount(place, minlength=groups.number) > 1] = mixed
    if not is_told:
        stratum[:] = mixed
    counts = np.bincount(place, np.asarray(rows.combine_chunks()), groups.number).astype(np.int64)
    return counts, stratum, mixed if (stratum == mixed).any() else None


def _parts(
    connection: Any, groups: GroupsPart, domain: SensitiveDomain, rows: IntArray, stratum: IntArray
) -> Iterator[Kinds]:
    """Yield the kinds of groups in parts of their table; a group that a batch cuts in two comes with the next one."""
    names = [groups.group_column, *domain.names, groups.count_column]
    query = f"SELECT {', '.join(map(quoted, names))} FROM compositions"
    rest, first = np.zeros((3, 0), dtype=np.int64), 0
    for batch in connection.sql(query).to_arrow_reader(LINES_AT_ONCE):
        lines = np.concatenate([rest, _codes(batch.columns, domain)], axis=1)
        end = int(np.searchsorted(lines[0], lines[0, -1])) if lines.size else 0
        rest = lines[:, end:]
        if end:
            yield _kinds(lines[:, :end], first, rows, stratum)
            first = int(rest[0, 0])
    if rest.size:
        yield _kinds(rest, first, rows, stratum)


def _codes(columns: Sequence[Any], domain: SensitiveDomain) -> IntArray:
    """Return group (from 0), value and count of each line."""
    group, *parts, count = columns
    value = domain.join([part_codes(domain, k, part).astype(np.int32) for k, part in enumerate(parts)])
    return np.stack([whole_numbers(group) - 1, value, whole_numbers(count)])


def whole_numbers(column: Any) -> IntArray:
    """Return the groups or counts of a column; raise if these are none."""
    if column.null_count or not pa.types.is_integer(column.type):
        raise changed(f"groups or counts that are missing, or are {column.type} and no whole numbers")
    return np.asarray(column).astype(np.int64)


def _kinds(lines: IntArray, first: int, rows: IntArray, stratum: IntArray) -> Kinds:
    """Return the kinds of some groups, the first of which is known."""
    group, value, count = lines
    step = np.diff(group, prepend=first)
    if group[0] != first or ((step != 0) & (step != 1)).any() or group[-1] >= stratum.size or count.min() < 1:
        raise changed("groups that are not numbered from 1 in their order, or without records")
    if (count > rows[group]).any():
        raise _other_groups()
    if not (np.diff(value)[step[1:] == 0] > 0).all():
        order = np.lexsort((value, group))
        group, value, count = lines[:, order]
    return Kinds.of(group - first, value, count, stratum[first : int(group[-1]) + 1])
