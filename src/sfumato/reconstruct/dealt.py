"""How the records of a release by groups were dealt: read from its two tables, once for all questions.

Estimates rest on the chance of the deal, inside the *strata* in which it was random: all records, or those of a cell of
the columns in `dealt_within`. A group whose members agree in these columns belongs to that cell's stratum. What chance
says nothing about are the *loose* groups:

    mixed     members of several cells: that a value went to the one cell or the other was no chance
    untold    of a cell whose groups' compositions do not tell all of its values apart (few groups, or alike)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.attributes import SensitiveDomain
from sfumato.errors import ReleaseError
from sfumato.manifest import GroupsPart
from sfumato.reconstruct.answer import IntArray
from sfumato.reconstruct.buckets import Deal
from sfumato.reconstruct.compositions import Compositions, Mask
from sfumato.reconstruct.reading import connected, quoted
from sfumato.reconstruct.tally import changed, distinct, key_of, part_codes
from sfumato.release import Release

MOST_VALUES = 4_000
"""Values of a stratum for which least squares is worked out: its matrix has as many rows and columns."""


@dataclass(frozen=True, eq=False)
class Loose:
    """The groups that no stratum tells about."""

    counts: Compositions  # [loose groups, values]
    sizes: IntArray
    mixed: int  # records of groups that mix cells
    untold: int  # records of cells whose compositions do not tell

    @property
    def records(self) -> int:
        """All records of these groups."""
        return int(self.sizes.sum())


@dataclass(frozen=True, eq=False)
class Dealt:
    """The deal of the strata, the loose groups, and the table (group, kind, size) that joins records to them.

    Kinds are numbered through the strata, then come the loose groups, each by itself.
    """

    domain: SensitiveDomain
    deal: Deal | None  # None: all groups are loose
    loose: Loose
    kinds: Any  # Arrow

    @property
    def first_loose(self) -> int:
        """The number of kinds of the strata."""
        return int(self.deal.first_kind[-1]) if self.deal else 0

    @property
    def most_values(self) -> int:
        """The values of the stratum with most of them."""
        return max((stratum.codes.size for stratum in self.deal.strata), default=0) if self.deal else 0


def dealt(release: Release) -> Dealt:
    """Return how the records were dealt."""
    assert release.manifest.groups is not None
    files = release.data, release.folder / release.manifest.groups.file
    stamps = tuple((str(file.absolute()), file.stat().st_mtime_ns) for file in files if file.is_file())
    return _read(_Opened(release, stamps))


@dataclass(frozen=True)
class _Opened:
    """A release as a key of the cache: its files as they are now."""

    release: Release
    stamps: tuple[tuple[str, int], ...]

    def __hash__(self) -> int:
        return hash(self.stamps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opened) and self.stamps == other.stamps


@lru_cache(maxsize=2)
def _read(opened: _Opened) -> Dealt:
    release, groups = opened.release, opened.release.manifest.groups
    assert groups is not None
    domain = release.manifest.domain
    lines = _lines(release, groups, domain)
    stratum = _strata(release, groups, lines)
    try:
        return dealt_of(domain, lines, stratum, inside_cells=bool(groups.dealt_within))
    except ValueError as problem:
        raise ReleaseError(f"The groups of {str(release.folder)!r} are none: {problem}.") from None


@dataclass(frozen=True, eq=False)
class Lines:
    """The table of compositions, in order of group and value; groups are numbered from 0."""

    group: IntArray
    value: IntArray
    count: IntArray

    @cached_property
    def sizes(self) -> IntArray:
        """The records of each group."""
        return np.bincount(self.group, self.count).astype(np.int64)

    def of(self, chosen: Mask) -> Lines:
        """Return those of some groups, which are numbered anew."""
        here, number = chosen[self.group], np.cumsum(chosen) - 1
        return Lines(number[self.group[here]], self.value[here], self.count[here])


def _lines(release: Release, groups: GroupsPart, domain: SensitiveDomain) -> Lines:
    names = [quoted(name) for name in domain.names]
    group, count = quoted(groups.group_column), quoted(groups.count_column)
    with connected(release) as connection:
        values = connection.sql(f"SELECT DISTINCT {', '.join(names)} FROM compositions").to_arrow_table()
        codes = domain.join([part_codes(domain, k, column).astype(np.int32) for k, column in enumerate(values.columns)])
        columns = {f"v{k}": column for k, column in enumerate(values.columns)}
        connection.register("codes", pa.table({**columns, "code": pa.array(codes)}))
        equal = " AND ".join(f"c.{name} IS NOT DISTINCT FROM v{k}" for k, name in enumerate(names))
        found = connection.sql(
            f"SELECT CAST(c.{group} AS INTEGER) - 1, code, CAST(c.{count} AS INTEGER) FROM compositions c "
            f"JOIN codes ON {equal} ORDER BY 1, 2"
        ).to_arrow_table()
    arrays = [np.asarray(column.combine_chunks()) for column in found.columns]
    if arrays[0].size == 0 or arrays[0][0] < 0 or arrays[2].min() < 1 or np.diff(arrays[0]).max(initial=0) > 1:
        raise changed("groups that are not numbered from 1, or without records")
    return Lines(*(array.astype(np.int64) for array in arrays))


def _strata(release: Release, groups: GroupsPart, lines: Lines) -> IntArray:
    """Return the stratum of each group, -1 where it mixes cells. Both tables must have the same groups."""
    published = all(name in release.column_names for name in groups.dealt_within)
    names = groups.dealt_within if published else ()
    columns = [quoted(groups.group_column), *map(quoted, names)]
    named = ", ".join(f"{column} AS c{k}" for k, column in enumerate(columns))
    with connected(release) as connection:
        found = connection.sql(f"SELECT {named}, count(*) AS n FROM release GROUP BY ALL").to_arrow_table()
    group, *cells, rows = found.columns
    place = np.asarray(group.combine_chunks()).astype(np.int64) - 1
    _check_sizes(place, np.asarray(rows.combine_chunks()).astype(np.int64), lines.sizes)
    cell = distinct([key_of(name, column) for name, column in zip(names, cells, strict=True)], place.size)[1]
    stratum = np.empty(lines.sizes.size, dtype=np.int64)
    stratum[place] = cell
    stratum[np.bincount(place) > 1] = -1
    return stratum if published else np.full(stratum.size, -1)


def _check_sizes(place: IntArray, rows: IntArray, sizes: IntArray) -> None:
    inside = place.size > 0 and place.min() >= 0 and place.max() < sizes.size
    if not inside or not np.array_equal(np.bincount(place, rows, sizes.size), sizes):
        raise changed("other groups in its data than in its table of groups")


def dealt_of(domain: SensitiveDomain, lines: Lines, stratum: IntArray, *, inside_cells: bool) -> Dealt:
    """Return the deal of these compositions, given the stratum of each group (-1: it mixes cells)."""
    sizes = lines.sizes
    mixed = stratum < 0
    strict = _deal(lines, ~mixed, stratum, domain.size)
    untold = np.zeros(sizes.size, dtype=np.bool_)
    if inside_cells and strict is not None:
        poor = [s.codes.size > MOST_VALUES or s.rank < s.codes.size for s in strict.strata]
        kind_stratum = np.repeat(np.arange(len(poor)), np.diff(strict.first_kind))
        untold[~mixed] = np.array(poor)[kind_stratum[strict.kind_of_group]]
        strict = _deal(lines, ~mixed & ~untold, stratum, domain.size) if untold.any() else strict
    loose = mixed | untold
    kind = np.empty(sizes.size, dtype=np.int64)
    kind[~loose] = strict.kind_of_group if strict else 0
    kind[loose] = np.arange(loose.sum()) + (int(strict.first_kind[-1]) if strict else 0)
    own = lines.of(loose)
    counts = Compositions(own.group, own.value, own.count.astype(np.float64), domain.size)
    left_out = Loose(counts, sizes[loose], int(sizes[mixed].sum()), int(sizes[untold].sum()))
    table = {"g": np.arange(1, sizes.size + 1), "kind": kind, "size": sizes.astype(np.float64)}
    return Dealt(domain, strict, left_out, pa.table(table))


def _deal(lines: Lines, chosen: Mask, stratum: IntArray, values: int) -> Deal | None:
    if not chosen.any():
        return None
    own = lines if chosen.all() else lines.of(chosen)
    return Deal.of(own.group, own.value, own.count, values, np.unique(stratum[chosen], return_inverse=True)[1])


def loose_notes(loose: Loose, dealt_within: Sequence[str]) -> list[str]:
    """Return what is said of the groups that no stratum tells about."""
    notes = []
    if loose.mixed:
        notes.append(
            f"{loose.mixed:,} records are in groups that mix cells of {', '.join(dealt_within)}: which of them has "
            "which value was no matter of chance."
        )
    if loose.untold:
        notes.append(
            f"{loose.untold:,} records are in cells of {', '.join(dealt_within)} with too few different groups to tell "
            "their values."
        )
    if notes:
        notes.append("Of these the classical estimate is taken, and the largest error that it can have is added.")
    return notes
