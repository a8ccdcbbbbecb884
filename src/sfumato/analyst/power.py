"""What can be expected of a count before it is asked, from the mechanism and the numbers of published rows.

Mathematics and assumptions: `expectation`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from sqlglot import exp

from sfumato.analyst.answer import NO_ROW, Key, Target, check_target, sorted_key
from sfumato.analyst.ask.cells import Cells, cells_of
from sfumato.analyst.ask.conditions import Condition, column_names, counted, not_too_deep, split_condition
from sfumato.analyst.ask.where import check, parsed
from sfumato.analyst.count import count
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.counting.tally import Truths
from sfumato.analyst.randomized.channel import Channel, randomization_of
from sfumato.analyst.randomized.expectation import FARTHEST, Curve, Expected, Stratum, curve_of
from sfumato.analyst.randomized.figures import FEW
from sfumato.analyst.randomized.projection import project
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types, quoted
from sfumato.show.plots import error_bars
from sfumato.show.results import Drawn, columns_table
from sfumato.show.words import share
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import label

LEAST_RECORDS = 0.5
"""What a value's corrected count in the release is at least taken for: so every value is possible."""
ROUNDING = 1e-9
"""By which a sum of the strata's fractions may be off."""


@dataclass(frozen=True, eq=False)
class Power(Drawn):
    """What to expect of the count of each group and cell; all arrays are in the order of `groups`."""

    keys: tuple[Key, ...]
    records: FloatArray  # published rows of the group that satisfy what is said of untouched columns: n
    share: FloatArray  # of the cell in the group, assumed
    standard_error: FloatArray  # of the count
    share_error: FloatArray  # of count / records
    least_share: FloatArray  # that is seen with the chance; NaN: none
    records_to_see: FloatArray  # how many the group would need for the share to be seen; NaN: no number is enough
    records_for_width: FloatArray | None  # how many for the share's interval to be that narrow, if a width was given
    target: Target
    level: float
    chance: float
    notes: tuple[str, ...] = ()

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the columns of the groups."""
        return tuple(key.name for key in self.keys)

    @property
    def groups(self) -> tuple[tuple[Any, ...], ...]:
        """The values of each group and cell."""
        return tuple(zip(*(key.column() for key in self.keys), strict=True)) if self.keys else ((),) * self.records.size

    @property
    def half_width(self) -> FloatArray:
        """Half of the width of the count's interval."""
        return _two_sided(self.level) * self.standard_error

    @property
    def share_half_width(self) -> FloatArray:
        """Half of the width of the share's interval."""
        return _two_sided(self.level) * self.share_error

    @property
    def least_count(self) -> FloatArray:
        """The least count that is seen."""
        return self.least_share * self.records

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each group and cell; None where there is no such number."""
        columns = self._columns()
        return [
            dict(zip((f"{name}_" if name in columns else name for name in self.by), group, strict=True))
            | {name: None if np.isnan(column[k]) else float(column[k]) for name, column in columns.items()}
            for k, group in enumerate(self.groups)
        ]

    def _columns(self) -> dict[str, FloatArray]:
        columns = {
            "records": self.records,
            "assumed_share": self.share,
            "assumed_count": self.share * self.records,
            "standard_error": self.standard_error,
            "half_width": self.half_width,
            "share_error": self.share_error,
            "share_half_width": self.share_half_width,
            "least_share": self.least_share,
            "least_count": self.least_count,
            "records_to_see": self.records_to_see,
            "times_to_see": self.records_to_see / self.records,
        }
        if self.records_for_width is not None:
            columns["records_for_width"] = self.records_for_width
            columns["times_for_width"] = self.records_for_width / self.records
        return columns

    def to_arrow(self) -> Any:
        """Return the rows as an Arrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows())

    def _drawing(self, title: str) -> dict[str, Any]:
        """Return the assumed shares with the intervals to expect."""
        half = self.share_half_width
        numbers = {"estimate": self.share, "lower": self.share - half, "upper": self.share + half}
        table = columns_table(((key.name, key.to_arrow()) for key in self.keys), numbers)
        by = [name for name in table.column_names if name not in numbers]
        return error_bars(table, by, title or repr(self).partition("\n")[0], "\n".join(self.notes), self.level)

    def __repr__(self) -> str:
        lines = [
            f"{', '.join(label(v) for v in group) or 'all'}: {n:,.0f} rows, "
            f"{share(part, 2)} ± {share(half, 2)}, {_seen(least)}"
            for group, n, part, half, least in zip(
                self.groups, self.records, self.share, self.share_half_width, self.least_share, strict=True
            )
        ]
        return f"Power({self.target}, {self.level:.0%}, chance {self.chance:.0%})\n" + "\n".join(lines[:50])


def _seen(least: float) -> str:
    return "not seen at any share" if math.isnan(least) else f"seen from {share(least, 2)}"


def _two_sided(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


@not_too_deep
def power(
    release: CountedRelease,
    by: str | Sequence[str] = (),
    where: str = "",
    *,
    share: float | None = None,
    width: float | None = None,
    target: Target = "table",
    level: float = 0.95,
    chance: float = 0.8,
) -> Power:
    """Return what to expect of the counts of each group of `by` among the records that satisfy `where`.

    Both may name untouched and randomized columns. `share` is what a cell's share in its group is assumed to be (by
    default that of the whole release), `width` a half-width that the share's interval is to have, `chance` the
    probability with which a count is to be told from 0. No estimate of a group is looked at.
    """
    if release.manifest.in_buckets:
        raise UsageError(
            "What to expect is worked out from the matrix of a randomization; a release by groups has none.",
            "Ask for the counts: their standard errors come with them (release.count, sfumato estimate).",
        )
    by = (by,) if isinstance(by, str) else tuple(by)
    _check(release, by, share, width, target, level, chance)
    tree = parsed(where, manifest_types(release)) if where.strip() else None
    channel = randomization_of(release).joint({*by, *column_names(tree)})
    channel.require_inverse()
    domain = channel.domain
    condition = split_condition(release, tree, domain)
    spread = _spread(release, channel)
    sizes = _sizes(release, channel, [name for name in by if name not in domain.names], condition, where)
    cells = cells_of(domain, by)
    strata, shown = _strata(channel, condition, cells, spread, sizes.kinds)
    curve = curve_of(strata, shown, sizes.rows, release.manifest.data.rows if target == "population" else None)
    records = sizes.rows.sum(axis=1, keepdims=True)
    expected = Expected.of(curve, records, share, _two_sided(level), NormalDist().inv_cdf(chance), width)
    keys = cells.keys(sizes.keys, len(sizes.rows), np.array(shown), None)
    return Power(
        tuple(keys[name] for name in by),
        np.repeat(records, len(shown)),
        expected.share.ravel(),
        expected.standard_error.ravel(),
        expected.share_error.ravel(),
        expected.least_share.ravel(),
        expected.records_to_see.ravel(),
        None if expected.records_for_width is None else expected.records_for_width.ravel(),
        target,
        level,
        chance,
        (
            *_assumptions(len(channel.tables), share, target, level, chance),
            *_warnings(curve, sizes.rows, share),
        ),
    )


def _check(
    release: CountedRelease,
    by: tuple[str, ...],
    share: float | None,
    width: float | None,
    target: Target,
    level: float,
    chance: float,
) -> None:
    types = manifest_types(release)
    for name in by:
        check(exp.column(name, quoted=True), types)
    if len(set(by)) < len(by):
        raise UsageError("A column is named more than once in --by.", "Name each once.")
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"The assumed share must be above 0 and at most 1, not {share}.", "5% is 0.05.")
    if width is not None and not 0 < width < math.inf:
        raise UsageError(f"The half-width of a share must be above 0, not {width}.", "5 points are 0.05.")
    check_target(target, level)
    if not 0.5 <= chance < 1:
        raise UsageError(f"The chance to see a count must be at least 0.5 and below 1, not {chance}.", "0.8 is usual.")


# --- what is known: the rows of each group, the release-wide distribution ---------------------------------------------


def _spread(release: CountedRelease, channel: Channel) -> list[FloatArray]:
    """Return the corrected counts of the values of each sub-table, in the whole release."""
    labels = [] if channel.label is None else [channel.label]
    answer = count(release, (*labels, *channel.domain.names))
    size = channel.domain.size
    numbers = [int(group[0]) - 1 if labels else 0 for group in answer.groups[::size]]
    found = dict(zip(numbers, answer.value.reshape(-1, size), strict=True))
    nothing = np.zeros(size)
    return [
        np.maximum(project(found.get(number, nothing)[table.codes]), LEAST_RECORDS)
        for number, table in enumerate(channel.tables)
    ]


@dataclass(frozen=True)
class _Sizes:
    keys: list[Key]  # of the groups
    kinds: list[tuple[Truths, int]]  # of each stratum: the truths of the condition's atoms, and the sub-table's number
    rows: FloatArray  # [groups, strata]


def _sizes(
    release: CountedRelease, channel: Channel, untouched: Sequence[str], condition: Condition, where: str
) -> _Sizes:
    """Count the published rows of each group and stratum that satisfy the untouched part of the condition."""
    found: dict[tuple[Any, ...], dict[tuple[Truths, int], int]] = {}
    width = len(untouched)
    for *key, number, rows in counted(release, _asked(channel, untouched, condition), where):
        of_group = found.setdefault(tuple(key[:width]), {})
        kind = tuple(key[width:]), number - 1
        of_group[kind] = of_group.get(kind, 0) + rows
    if not found:
        raise UsageError(NO_ROW, "Ask for more: without rows there is nothing to expect.")
    kinds = list(dict.fromkeys(kind for of_group in found.values() for kind in of_group))
    counts = np.array([[float(of_group.get(kind, 0)) for kind in kinds] for of_group in found.values()])
    places = np.arange(len(found))
    keys = [sorted_key(name, [group[k] for group in found], places) for k, name in enumerate(untouched)]
    order = np.lexsort([key.codes for key in reversed(keys)]) if keys else places
    return _Sizes([key.take(order) for key in keys], kinds, counts[order])


def _asked(channel: Channel, untouched: Sequence[str], condition: Condition) -> Counting:
    keys = (
        *map(quoted, untouched),
        *(f"CAST(({atom}) AS BOOLEAN)" for atom in condition.atoms),
        f"CAST({quoted(channel.label)} AS INTEGER)" if channel.label else "CAST(1 AS INTEGER)",
    )
    return Counting(keys, (("count(*)", "sum"),), condition.rows)


def _strata(
    channel: Channel,
    condition: Condition,
    cells: Cells,
    spread: list[FloatArray],
    kinds: list[tuple[Truths, int]],
) -> tuple[list[Stratum], list[int]]:
    """Return the strata, and the cells that some record can belong to under the condition."""
    asked = {truths: np.where(condition.selected(truths), cells.of_code, -1) for truths, _ in kinds}
    shown = sorted({int(cell) for of_domain in asked.values() for cell in np.unique(of_domain)} - {-1})
    if not shown:
        values = ", ".join(channel.domain.labels[:5]) + (", ..." if channel.domain.size > 5 else "")
        raise UsageError(f"No value of {channel.domain.name!r} satisfies the condition.", f"Its values are {values}.")
    strata = [
        Stratum(table.matrix, asked[truths][table.codes], spread[number])
        for truths, number in kinds
        for table in (channel.tables[number],)
    ]
    return strata, shown


# --- what is said about it --------------------------------------------------------------------------------------------


def _assumptions(tables: int, share: float | None, target: Target, level: float, chance: float) -> list[str]:
    notes = [
        f"Normal approximation; a cell is seen if the {level:.0%} interval of its count lies above 0, here with a "
        f"chance of {chance:.0%}.",
        "Assumed: a cell has the share of the group's rows that it has in the whole release, after correction."
        if share is None
        else f"Assumed: a cell has the share {share:g} of the group's rows; other values are spread as in the release.",
        "For the given table: widths cover the added noise, not sampling."
        if target == "table"
        else "For a population: the rows are a random sample, and every group keeps its fraction of them.",
    ]
    if tables > 1:
        notes.append(
            "Sub-tables: the group's rows in each are as published; within each its values are assumed to be spread as "
            "in the release, but for one common factor of the cell's odds."
        )
    return notes


def _warnings(curve: Curve, sizes: FloatArray, share: float | None) -> list[str]:
    lowest, highest = curve.at(-FARTHEST).share - ROUNDING, curve.at(FARTHEST).share + ROUNDING
    uncertain = (curve.at(0.0).share > ROUNDING) & (curve.at(0.0).share < 1 - ROUNDING)
    if not uncertain.any():
        return ["Nothing is asked that was randomized: the counts are exact for the table."]
    notes = []
    if share is not None and ((share < lowest) | (share > highest)).any():
        notes.append("Where a group cannot have the assumed share of a cell, the nearest that it can have is taken.")
    few = int((uncertain & (sizes @ curve.by_chance.T < FEW)).sum())
    if few:
        notes.append(
            f"Rough for {few:,} of the {uncertain.size:,} figures: fewer than {FEW} rows publish it by chance."
        )
    return notes
