"""What a query asks of each group and cell, computed of the estimates of a grouping set.

A measure is a total, a quotient of two, or a quantile. Of a hidden column itself it may be a matter of bins: these
count at their middles, and what their ends would give is computed as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sfumato.analyst.answer import Quantile, Quotient
from sfumato.analyst.ask.cells import Estimates, Partition, PartTotals
from sfumato.analyst.ask.measure import Measure
from sfumato.analyst.ask.scale import Edge, Scale, Score, Told
from sfumato.analyst.counting.tally import Number
from sfumato.analyst.randomized.figures import Figures
from sfumato.values.arrays import FloatArray, IntArray

FIGURES = 7
"""Numbers of a figure: its value, its standard error, and the five of a quotient."""
NEGLIGIBLE = 1e-9
"""Of what was summed: a total below that is nothing but rounding, and nothing can be divided by it."""
QUANTILE_NOTE = (
    "A quantile is the least value that this share of the records does not exceed. It has no standard error; its "
    "interval is read off those of the distribution function, and is a cautious one."
)


@dataclass(frozen=True, eq=False)
class Found:
    """What was found of a measure, a row for each group and cell."""

    numbers: FloatArray  # [FIGURES, rows]
    quantile: Quantile | None = None  # where that is what is asked
    edges: FloatArray | None = None  # of bins: the value with every record at the lower and at the upper end, [2, rows]

    @classmethod
    def of(cls, figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> Found:
        """Return what estimates tell of a measure, for the cells that are shown."""
        if measure.quantile is None:
            edges = _at_edges(figures, measure, partition, shown)
            return cls(evaluate(figures, measure, partition, shown), edges=edges)
        assert isinstance(figures, Figures)  # a release by groups has no scales
        below, scale = figures.distribution(measure.top, measure.scales[0]), measure.scales[0]
        rows = Quotient(*(array[:, shown].reshape(-1, scale.size) for array in vars(below).values()))
        quantile = Quantile.of(rows, measure.quantile, scale.numbers)
        return cls(np.vstack([quantile.value, np.full((FIGURES - 1, quantile.at.size), np.nan)]), quantile)

    @classmethod
    def joined(cls, parts: Sequence[Found]) -> Found:
        """Return what was found of a measure in all grouping sets."""
        edges = [part.edges for part in parts if part.edges is not None]
        return cls(
            np.concatenate([part.numbers for part in parts], axis=1),
            Quantile.joined([part.quantile for part in parts if part.quantile is not None]),
            np.concatenate(edges, axis=1) if edges else None,
        )


def evaluate(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> FloatArray:
    """Return value, standard error and the quotient's numbers of every group and cell that is shown, [FIGURES, rows].

    The latter are NaN where it is none; so are value and error where a number is infinite.
    """
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        found = (_combined if measure.added else _evaluated)(figures, measure, partition, shown)
    found[:2, ~np.isfinite(found[0])] = np.nan
    return found


def _evaluated(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> FloatArray:
    top, variance = figures.total(measure.top), figures.covariance(measure.top, measure.top)
    slack, f = figures.slack(measure.top), measure.factor
    if not measure.is_quotient:
        value, error = f * top, abs(f) * (np.sqrt(np.maximum(variance, 0)) + slack)
        found = np.full((FIGURES, top[:, shown].size), np.nan)
        found[:2] = value[:, shown].ravel(), error[:, shown].ravel()
        return found
    if measure.bottom is not None:
        below = PartTotals(
            figures.total(measure.bottom),
            figures.covariance(measure.top, measure.bottom),
            figures.covariance(measure.bottom, measure.bottom),
            figures.slack(measure.bottom),
        )
        nothing = NEGLIGIBLE * np.repeat(figures.magnitude(measure.bottom)[:, None], top.shape[1], axis=1)
    else:
        below = figures.of_parts(measure.top, partition)
        each = NEGLIGIBLE * figures.magnitude(measure.top)[:, None] / top.shape[1]
        nothing = partition.sums(np.repeat(each, top.shape[1], axis=1))
    bottom = np.where(np.abs(below.total) <= nothing, 0, below.total)
    parts = [f * top, bottom, f**2 * variance, f * below.covariance, below.variance, abs(f) * slack, below.slack]
    *numbers, top_slack, bottom_slack = (array[:, shown].ravel() for array in parts)
    return quotient_figure(widened(Quotient(*numbers), top_slack, bottom_slack))


def _combined(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> FloatArray:
    """Return the sum of several totals and quotients; its error is that of its linear part.

    With q_j = f_j A_j/B_j the error of sum q_j is that of sum (f_j/B_j) (A_j - (A_j/B_j) B_j), totals A and B.
    """
    value, parts = 0.0, []
    for one in (replace(measure, added=()), *measure.added):
        share = _evaluated(figures, one, partition, np.arange(figures.size))[0].reshape(-1, figures.size)
        below = np.ones_like(share) if one.bottom is None else figures.total(one.bottom)
        value = value + share
        parts.append((one.factor / below, one.top))
        if one.bottom is not None:
            parts.append((-share / below, one.bottom))
    variance = sum(a * b * figures.covariance(one, other) for a, one in parts for b, other in parts)
    slack = sum(np.abs(weight) * figures.slack(number) for weight, number in parts)
    found = np.full((FIGURES, np.asarray(value)[:, shown].size), np.nan)
    found[0] = np.asarray(value)[:, shown].ravel()
    found[1] = (np.sqrt(np.maximum(variance, 0)) + slack)[:, shown].ravel()
    return found


def widened(q: Quotient, top: FloatArray, bottom: FloatArray) -> Quotient:
    """Return a quotient whose top and bottom may be off by so much, besides what chance does.

    For every r, with d the standard error of top - r bottom by chance, its interval needs d + top + |r| bottom. Its
    square is at most (1 + e) d^2 + (1 + 1/e) ((1 + k) top^2 + (1 + 1/k) r^2 bottom^2) for all e, k > 0, with equality
    at the estimated r for e = (top + |r| bottom)/d and k = |r| bottom/top.
    """
    if not (top.any() or bottom.any()):
        return q
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.abs(np.where(q.bottom > 0, q.top / q.bottom, 1))
        chance = np.sqrt(np.maximum(q.top_variance - 2 * r * q.covariance + r**2 * q.bottom_variance, 0))
        e = np.clip((top + r * bottom) / chance, 0.01, 100)
        k = np.clip(r * bottom / top, 0.01, 100)
    e, k = (np.where(np.isnan(each), 1, each) for each in (e, k))
    return Quotient(
        q.top,
        q.bottom,
        (1 + e) * q.top_variance + (1 + 1 / e) * (1 + k) * top**2,
        (1 + e) * q.covariance,
        (1 + e) * q.bottom_variance + (1 + 1 / e) * (1 + 1 / k) * bottom**2,
    )


def quotient_figure(q: Quotient) -> FloatArray:
    """Return value, standard error and the numbers of quotients, [FIGURES, rows]."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.where(q.bottom > 0, q.top / q.bottom, np.nan)
        variance = q.top_variance - 2 * value * q.covariance + value**2 * q.bottom_variance
        error = np.sqrt(np.maximum(variance, 0)) / q.bottom
    nothing = np.where(np.isnan(error) & ~np.isnan(value), np.nan, 0)  # no error is known, so there are no ends
    return np.stack([value, error, *(array + nothing for array in vars(q).values())])


# --- bins and missing values of a hidden column -----------------------------------------------------------------------


def _at_edges(figures: Estimates, measure: Measure, partition: Partition, shown: IntArray) -> FloatArray | None:
    """Return a figure with every record at the lower, and at the upper end of its bin; None if it is not of bins."""
    edges: tuple[tuple[Edge, Edge], ...] = (("lower", "upper"), ("upper", "lower"))
    moved = [_moved(measure, top, bottom) for top, bottom in edges]
    if moved[0] == moved[1]:
        return None
    return np.stack([evaluate(figures, each, partition, shown)[0] for each in moved])


def _moved(measure: Measure, top: Edge, bottom: Edge) -> Measure:
    """Return a figure whose records lie at these ends of their bins, in top and bottom."""
    scales = [scale for scale in measure.scales if scale.are_bins]

    def at(number: Number, edge: Edge) -> Number:
        moved: dict[Score | Told, Score | Told] = {scale.number(): scale.number(edge) for scale in scales}
        return replace(number, scores=tuple(moved.get(score, score) for score in number.scores))

    below = None if measure.bottom is None else at(measure.bottom, bottom)
    added = tuple(_moved(other, *((top, bottom) if other.factor > 0 else (bottom, top))) for other in measure.added)
    return replace(measure, top=at(measure.top, top), bottom=below, added=added)


def edge_notes(measures: Iterable[Measure], found: Iterable[Found]) -> Iterator[str]:
    """Give what figures of bins would be at the ends of these."""
    for measure, each in zip(measures, found, strict=True):
        if each.edges is None or not each.edges.size:
            continue
        value, (lower, upper) = each.numbers[0], each.edges
        names = " and ".join(repr(scale.column) for scale in measure.scales if scale.are_bins)
        counted = f"{names} is published in bins, and every record counts at the middle of its bin"
        if value.size == 1:
            yield f"{counted}; {measure.text} would be {lower[0]:,.5g} at the lower ends, {upper[0]:,.5g} at the upper."
        elif not np.isnan(value).all():
            less, more = np.nanmax(np.abs(value - lower)), np.nanmax(np.abs(upper - value))
            yield (
                f"{counted}; at the lower ends {measure.text} would be up to {less:,.5g} less, at the upper ends up to "
                f"{more:,.5g} more."
            )


def missing_notes(scales: Iterable[Scale]) -> list[str]:
    """Return which columns leave records out."""
    names = dict.fromkeys(scale.column for scale in scales if scale.has_missing)
    return [f"Records without a value of {name!r} are left out." for name in names]
