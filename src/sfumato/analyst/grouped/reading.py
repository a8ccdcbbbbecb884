"""Reading how a release by groups was dealt, from its two tables, once for all questions.

Compositions are read a part at a time and kept by kind, so that memory grows with the different compositions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from sfumato.analyst.ask.conditions import fetched
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.counting.tally import changed, distinct, key_of, part_codes
from sfumato.analyst.grouped.compositions import Kinds
from sfumato.analyst.grouped.dealt import Dealt, dealt_of
from sfumato.errors import ReleaseError
from sfumato.release.manifest import GroupsPart
from sfumato.release.reading import connected, quoted
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import SensitiveDomain

LINES_AT_ONCE = 1 << 20


@dataclass(frozen=True, eq=False)
class _Part:
    """Some lines of the table of groups, by group and value; their groups are numbered from 0 here."""

    group: IntArray
    value: IntArray
    count: IntArray
    groups: slice  # which these are in the table


def dealt(release: CountedRelease) -> Dealt:
    """Return how the records were dealt."""
    files = (*release.data_files, *release.groups_files)
    stamps = tuple((str(file.absolute()), file.stat().st_mtime_ns) for file in files if file.is_file())
    return _read(_Opened(release, stamps))


@dataclass(frozen=True)
class _Opened:
    """A release as a key of the cache: its files as they are now."""

    release: CountedRelease
    stamps: tuple[tuple[str, int], ...]

    def __hash__(self) -> int:
        return hash(self.stamps)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Opened) and self.stamps == other.stamps


@lru_cache(maxsize=2)
def _read(opened: _Opened) -> Dealt:
    release, groups = opened.release, opened.release.manifest.buckets
    domain = release.manifest.domain
    rows, stratum, mixed = _strata(release, groups)
    with connected(release) as connection:
        lines = _lines(connection, groups, domain)
        parts = [Kinds.of(part.group, part.value, part.count, stratum[part.groups]) for part in lines]
    if not parts:
        raise ReleaseError(
            f"The release {str(release.folder)!r} has an empty table of groups.",
            "Get the release anew from the publisher.",
        )
    kinds = Kinds.joined(parts)
    if not np.array_equal(kinds.sizes[kinds.of_group], rows):
        raise _other_groups()
    return dealt_of(domain, kinds, mixed, inside_cells=bool(groups.dealt_within))


def _other_groups() -> ReleaseError:
    return changed("other groups in its data than in its table of groups")


def _strata(release: CountedRelease, groups: GroupsPart) -> tuple[IntArray, IntArray, int | None]:
    """Return the rows and the stratum of each group, and the number of the stratum of those that mix cells."""
    is_told = all(name in release.column_names for name in groups.dealt_within)
    names = groups.dealt_within if is_told else ()
    asked = Counting((quoted(groups.group_column), *map(quoted, names)), (("count(*)", "sum"),))
    group, *cells, rows = fetched(release, asked, "").columns
    place = np.asarray(group.combine_chunks()).astype(np.int64) - 1
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


def _lines(connection: Any, groups: GroupsPart, domain: SensitiveDomain) -> Iterator[_Part]:
    """Yield the table of groups in parts, in its order; a group that a batch cuts in two comes with the next one."""
    names = [groups.group_column, *domain.names, groups.count_column]
    query = f"SELECT {', '.join(map(quoted, names))} FROM compositions"
    rest, first = np.zeros((3, 0), dtype=np.int64), 0
    for batch in connection.sql(query).to_arrow_reader(LINES_AT_ONCE):
        lines = np.concatenate([rest, _codes(batch.columns, domain)], axis=1)
        end = int(np.searchsorted(lines[0], lines[0, -1])) if lines.size else 0
        rest = lines[:, end:]
        if end:
            yield _part(lines[:, :end], first, groups.number)
            first = int(rest[0, 0])
    if rest.size:
        yield _part(rest, first, groups.number)


def _codes(columns: Sequence[Any], domain: SensitiveDomain) -> IntArray:
    """Return group (from 0), value and count of each line."""
    group, *parts, count = columns
    value = domain.join([part_codes(domain, k, part).astype(np.int32) for k, part in enumerate(parts)])
    return np.stack([np.asarray(group).astype(np.int64) - 1, value, np.asarray(count)]).astype(np.int64)


def _part(lines: IntArray, first: int, number: int) -> _Part:
    group, value, count = lines
    step = np.diff(group, prepend=first)
    if group[0] != first or ((step != 0) & (step != 1)).any() or group[-1] >= number or count.min() < 1:
        raise changed("groups that are not numbered from 1 in their order, or without records")
    if not (np.diff(value)[step[1:] == 0] > 0).all():
        order = np.lexsort((value, group))
        group, value, count = lines[:, order]
    return _Part(group - first, value, count, slice(first, int(group[-1]) + 1))
