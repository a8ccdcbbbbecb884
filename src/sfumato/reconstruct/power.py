"""What can be expected of a count before it is asked: the width of its interval, the rarest group that is seen.

A group of n published rows is asked for a cell, a set of values. Its rows fall into strata k (a sub-table, and the
truth of what a condition says of the untouched columns) of known sizes w_k n. A record with the value x adds a(y) to
the estimate, with a = P_k^-T phi and phi the values of the cell in the stratum; its variance given the table is

    v_k(x) = sum_y P_k[y, x] a(y)^2 - phi(x)                                   SOUNDNESS, AD: "for a given table"

How the values are spread is assumed. D_k, the corrected distribution in the whole release (in the stratum's sub-table),
holds in the group too, but for the odds of the cell, which differ by one factor e^theta in all strata:

    s_k = expit(theta + log D_k(phi)/D_k(not phi))       share of the cell in the stratum
    s = sum_k w_k s_k                                    ... in the group
    sigma^2 = sum_k w_k (s_k v_k(in) + (1 - s_k) v_k(out))    variance of a record, v_k(in) and v_k(out) means under D_k

(Among all tables with these strata and this share of the cell it is the one nearest to the release, in Kullback and
Leibler's sense.) theta = 0 is the release itself; a share that is given determines theta. With one stratum sigma^2 is a
straight line in s. In a population s (1 - s n/N) is added for the count of a group with n of the release's N rows, and
s (1 - s) for the share, count/n, whose denominator is random as well.

The standard error of the count is sqrt(n) sigma(s), that of the share sigma(s)/sqrt(n). A cell is *seen* if the
interval of its count lies above 0. As the estimate varies, so does its standard error; the least estimate that is seen
is about n s* with n s* = z sqrt(n) sigma(s*). So a share s is seen with the chance Phi(z_c) if

    s sqrt(n) = z sigma(s*) + z_c sigma(s),    hence    n = ((z sigma(s*) + z_c sigma(s)) / s)^2 records are needed,

and the share's interval has the half-width h for n = (z sigma(s) / h)^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt
from sqlglot import exp

from sfumato.attributes import SensitiveDomain, label
from sfumato.errors import UsageError
from sfumato.matrix import FloatArray, PerturbationMatrix
from sfumato.mechanism import Mechanism
from sfumato.reconstruct import inverse
from sfumato.reconstruct.conditions import Condition, counted, split_condition
from sfumato.reconstruct.estimate import (
    FEW,
    NAN,
    NO_ROW,
    Target,
    cell_values,
    check_target,
    count,
    margin,
    mechanism_of,
    merged,
    place_of,
)
from sfumato.reconstruct.projection import project
from sfumato.reconstruct.reading import manifest_types, quoted
from sfumato.reconstruct.where import EXAMPLE, check, parsed
from sfumato.release import Release

MOST_TERMS = 10_000_000
"""Groups times cells times strata that are worked on at once."""
LEAST_RECORDS = 0.5
"""What a value's corrected count in the release is at least taken for: so every value is possible."""
FARTHEST = 700.0
"""The largest |theta|: e^700 is about the largest number, so the share is 0 or the largest possible."""
HALVINGS = 60
ROUNDING = 1e-9
"""By which a sum of the strata's fractions may be off."""

Truths = tuple[bool | None, ...]
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Power:
    """What to expect of the count of each group and cell; all arrays are in the order of `groups`."""

    by: tuple[str, ...]
    groups: tuple[tuple[Any, ...], ...]
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
            dict(zip(self.by, group, strict=True))
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

    def __repr__(self) -> str:
        lines = [
            f"{', '.join(label(v) for v in group) or 'all'}: {n:,.0f} rows, {share:.2%} ± {half:.2%}, {_seen(least)}"
            for group, n, share, half, least in zip(
                self.groups, self.records, self.share, self.share_half_width, self.least_share, strict=True
            )
        ]
        return f"Power({self.target}, {self.level:.0%}, chance {self.chance:.0%})\n" + "\n".join(lines[:50])


def _seen(least: float) -> str:
    return "not seen at any share" if math.isnan(least) else f"seen from {least:.2%}"


def _two_sided(level: float) -> float:
    return NormalDist().inv_cdf((1 + level) / 2)


def power(
    release: Release,
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
    by = (by,) if isinstance(by, str) else tuple(by)
    _check(release, by, share, width, target, level, chance)
    mechanism = mechanism_of(release)
    for table in mechanism.tables:
        inverse.require_invertible(table.matrix)
    domain = mechanism.domain
    condition = _condition(release, where, domain)
    spread = _spread(release, mechanism)
    sizes = _sizes(release, mechanism, [name for name in by if name not in domain.names], condition, where)
    asked = [name for name in by if name in domain.names]
    strata, shown = _strata(mechanism, condition, margin(domain, asked), spread, sizes.kinds)
    curve = curve_of(strata, shown, sizes.rows, release.manifest.data.rows if target == "population" else None)
    records = sizes.rows.sum(axis=1, keepdims=True)
    expected = Expected.of(curve, records, share, _two_sided(level), NormalDist().inv_cdf(chance), width)
    labels = cell_values(domain, asked)
    return Power(
        by,
        tuple(merged(by, domain.names, group, labels[cell]) for group in sizes.groups for cell in shown),
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
            *_assumptions(len(mechanism.tables), share, target, level, chance),
            *_warnings(curve, sizes.rows, share),
        ),
    )


def _check(
    release: Release,
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
        raise UsageError("A column is named more than once in --by.")
    if share is not None and not 0 < share <= 1:
        raise UsageError(f"The assumed share must be above 0 and at most 1, not {share}.", "5% is 0.05.")
    if width is not None and not 0 < width < math.inf:
        raise UsageError(f"The half-width of a share must be above 0, not {width}.", "5 points are 0.05.")
    check_target(target, level)
    if not 0.5 <= chance < 1:
        raise UsageError(f"The chance to see a count must be at least 0.5 and below 1, not {chance}.")


# --- what is known: the rows of each group, the release-wide distribution ---------------------------------------------


def _condition(release: Release, where: str, domain: SensitiveDomain) -> Condition:
    try:
        return split_condition(release, parsed(where) if where.strip() else None, domain)
    except RecursionError:
        raise UsageError("The condition is nested too deeply.", EXAMPLE) from None


def _spread(release: Release, mechanism: Mechanism) -> list[FloatArray]:
    """Return the corrected counts of the values of each sub-table, in the whole release."""
    labels = [] if mechanism.label is None else [mechanism.label]
    answer = count(release, (*labels, *mechanism.domain.names))
    size = mechanism.domain.size
    numbers = [int(group[0]) - 1 if labels else 0 for group in answer.groups[::size]]
    found = dict(zip(numbers, answer.value.reshape(-1, size), strict=True))
    nothing = np.zeros(size)
    return [
        np.maximum(project(found.get(number, nothing)[table.codes]), LEAST_RECORDS)
        for number, table in enumerate(mechanism.tables)
    ]


@dataclass(frozen=True)
class _Sizes:
    groups: list[tuple[Any, ...]]
    kinds: list[tuple[Truths, int]]  # of each stratum: the truths of the condition's atoms, and the sub-table's number
    rows: FloatArray  # [groups, strata]


def _sizes(
    release: Release, mechanism: Mechanism, untouched: Sequence[str], condition: Condition, where: str
) -> _Sizes:
    """Count the published rows of each group and stratum that satisfy the untouched part of the condition."""
    found: dict[tuple[Any, ...], dict[tuple[Truths, int], int]] = {}
    width = len(untouched)
    for *key, number, rows in counted(release, _statement(mechanism, untouched, condition), where):
        group = tuple(NAN if v != v else v for v in key[:width])
        of_group = found.setdefault(group, {})
        kind = tuple(key[width:]), number - 1
        of_group[kind] = of_group.get(kind, 0) + rows
    if not found:
        raise UsageError(NO_ROW, "Ask for more: without rows there is nothing to expect.")
    groups = sorted(found, key=lambda group: tuple(place_of(v) for v in group))
    kinds = list(dict.fromkeys(kind for group in groups for kind in found[group]))
    counts = [[float(found[group].get(kind, 0)) for kind in kinds] for group in groups]
    return _Sizes(groups, kinds, np.array(counts))


def _statement(mechanism: Mechanism, untouched: Sequence[str], condition: Condition) -> str:
    columns = [
        *(f"{quoted(name)} AS k{k}" for k, name in enumerate(untouched)),
        *(f"CAST(({atom}) AS BOOLEAN) AS a{k}" for k, atom in enumerate(condition.atoms)),
        f"CAST({quoted(mechanism.label)} AS INTEGER) AS label" if mechanism.label else "1 AS label",
        "count(*) AS n",
    ]
    where = f" WHERE {condition.rows}" if condition.rows else ""
    return f"SELECT {', '.join(columns)} FROM release{where} GROUP BY ALL HAVING count(*) > 0"


# --- strata: rows that were randomized alike and are asked alike ------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Stratum:
    """A matrix, the cell that each of its values belongs to (-1: none is asked), and how the values are spread."""

    matrix: PerturbationMatrix
    cells: Codes
    spread: FloatArray  # positive

    def terms(self, cell: int) -> tuple[float, float, float, float]:
        """Return the cell's log odds, v(in), v(out), and the share of rows that publish it by chance at least."""
        phi = self.cells == cell
        if not phi.any():
            return -math.inf, 0.0, 0.0, 0.0
        by_chance = float(self.matrix.least_chance[phi].sum())
        if phi.all():
            return math.inf, 0.0, 0.0, by_chance
        weights = self.matrix.solve_transposed(phi.astype(np.float64))
        variance = np.maximum(self.matrix.apply_transposed(weights**2) - phi, 0)
        inside, outside = (float(np.average(variance[part], weights=self.spread[part])) for part in (phi, ~phi))
        return math.log(self.spread[phi].sum() / self.spread[~phi].sum()), inside, outside, by_chance


def _strata(
    mechanism: Mechanism,
    condition: Condition,
    cells: Codes,
    spread: list[FloatArray],
    kinds: list[tuple[Truths, int]],
) -> tuple[list[Stratum], list[int]]:
    """Return the strata, and the cells that some record can belong to under the condition."""
    asked = {truths: np.where(condition.selected(truths), cells, -1) for truths, _ in kinds}
    shown = sorted({int(cell) for of_domain in asked.values() for cell in np.unique(of_domain)} - {-1})
    if not shown:
        values = ", ".join(mechanism.domain.labels[:5]) + (", ..." if mechanism.domain.size > 5 else "")
        raise UsageError(f"No value of {mechanism.domain.name!r} satisfies the condition.", f"Its values are {values}.")
    strata = [
        Stratum(table.matrix, asked[truths][table.codes], spread[number])
        for truths, number in kinds
        for table in (mechanism.tables[number],)
    ]
    return strata, shown


# --- share and variance, as the odds of the cell change ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Point:
    """The cells' shares in the groups, and the variance that one record adds to the count and to n times the share."""

    share: FloatArray  # [groups, cells], all three
    of_count: FloatArray
    of_share: FloatArray


@dataclass(frozen=True, eq=False)
class Curve:
    """All that is expected, as a function of theta."""

    weights: FloatArray  # [groups, 1, strata]: w
    log_odds: FloatArray  # [cells, strata]; -inf where the stratum has no value of the cell, inf where it has no other
    inside: FloatArray  # v(in)
    outside: FloatArray  # v(out)
    by_chance: FloatArray  # share of rows that publish the cell, whatever the records have
    fraction: FloatArray | None  # [groups, 1]: n/N in a population; None for the table

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, cells."""
        return self.weights.shape[0], self.log_odds.shape[0]

    def at(self, theta: FloatArray | float) -> Point:
        """Return share and variances; theta is [groups, cells], or one number for all."""
        with np.errstate(over="ignore"):
            own = 1 / (1 + np.exp(-(np.broadcast_to(theta, self.shape)[..., None] + self.log_odds)))
        share: FloatArray = np.minimum((self.weights * own).sum(axis=-1), 1)  # removes rounding only
        given: FloatArray = (self.weights * (own * self.inside + (1 - own) * self.outside)).sum(axis=-1)
        if self.fraction is None:
            return Point(share, given, given)
        return Point(share, given + share * (1 - share * self.fraction), given + share * (1 - share))


def curve_of(strata: Sequence[Stratum], cells: Sequence[int], sizes: FloatArray, total: float | None) -> Curve:
    """Return the curve of groups with these numbers of rows in the strata; `total` = rows of a population's release."""
    if sizes.size * len(cells) > MOST_TERMS:
        raise UsageError(
            f"{len(sizes):,} groups of {len(cells):,} cells are too many.", "Group by fewer columns, or ask for less."
        )
    terms = np.array([[stratum.terms(cell) for stratum in strata] for cell in cells])  # [cells, strata, 4]
    rows = sizes.sum(axis=1, keepdims=True)
    weights, fraction = (sizes / rows)[:, None, :], None if total is None else rows / total
    return Curve(weights, terms[..., 0], terms[..., 1], terms[..., 2], terms[..., 3], fraction)


def first_theta(shape: tuple[int, int], holds: Callable[[FloatArray], npt.NDArray[np.bool_]]) -> FloatArray:
    """Return the theta from which on a condition holds, by bisection; -+FARTHEST where it always or never does."""
    low, high = np.full(shape, -FARTHEST), np.full(shape, FARTHEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        true = holds(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return high


# --- what is expected -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Expected:
    """The figures of `Power`, [groups, cells]."""

    share: FloatArray
    standard_error: FloatArray
    share_error: FloatArray
    least_share: FloatArray
    records_to_see: FloatArray
    records_for_width: FloatArray | None

    @classmethod
    def of(
        cls, curve: Curve, records: FloatArray, share: float | None, z: float, z_chance: float, width: float | None
    ) -> Expected:
        """Return what is expected of groups with these numbers of rows ([groups, 1]), for cells of this share."""
        point = curve.at(0.0 if share is None else first_theta(curve.shape, lambda t: curve.at(t).share >= share))
        return cls(
            point.share,
            np.sqrt(records * point.of_count),
            np.sqrt(point.of_share / records),
            least_share(curve, records, z, z_chance),
            records_to_see(curve, point, z, z_chance),
            None if width is None else np.maximum(np.ceil(z**2 * point.of_share / width**2), 1),
        )


def least_share(curve: Curve, records: FloatArray, z: float, z_chance: float) -> FloatArray:
    """Return the least s with s sqrt(n) >= z sigma(s*) + z_c sigma(s); NaN where not even the largest share is seen."""
    root = np.sqrt(records)

    def above(theta: FloatArray | float, edge: FloatArray | float, quantile: float) -> npt.NDArray[np.bool_]:
        point = curve.at(theta)
        return np.greater(point.share * root, edge + quantile * np.sqrt(point.of_count))

    edge = z * np.sqrt(curve.at(first_theta(curve.shape, lambda theta: above(theta, 0.0, z))).of_count)
    least = curve.at(first_theta(curve.shape, lambda theta: above(theta, edge, z_chance))).share
    return np.where(above(FARTHEST, edge, z_chance), least, np.nan)


def records_to_see(curve: Curve, point: Point, z: float, z_chance: float) -> FloatArray:
    """Return n = ((z sigma(s*) + z_c sigma(s)) / s)^2, at least 1; NaN for a share of 0.

    With that n the equation of s* is s* (z sigma(s*) + z_c sigma(s)) = s z sigma(s*), free of n.
    """
    ahead = z_chance * np.sqrt(point.of_count)

    def beyond(theta: FloatArray) -> npt.NDArray[np.bool_]:
        edge = curve.at(theta)
        noise = z * np.sqrt(edge.of_count)
        return np.greater_equal(edge.share * (noise + ahead), point.share * noise)

    noise = z * np.sqrt(curve.at(first_theta(curve.shape, beyond)).of_count)
    possible = np.where(point.share > 0, point.share, np.nan)
    return np.maximum(np.ceil(((noise + ahead) / possible) ** 2), 1)


# --- what is said about it --------------------------------------------------------------------------------------------


def _assumptions(tables: int, share: float | None, target: Target, level: float, chance: float) -> list[str]:
    notes = [
        f"Normal approximation; a cell is seen if the {level:.0%} interval of its count lies above 0, here with a "
        f"chance of {chance:.0%}.",
        "Assumed: a cell has the share of the group's rows that it has in the whole release, after correction."
        if share is None
        else f"Assumed: a cell has the share {share:g} of the group's rows; other values are spread as in the release.",
        "For the given table: only the randomization is random."
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
