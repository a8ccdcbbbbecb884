"""What a release is still good for: estimates from it, by the analyst's own tools, beside the true table.

record utility       expected share of records that are published with their own value        FG Def. 3
aggregate utility    1 - (1/m) sum |f_i - f'_i| of the estimated shares                         FG Def. 2
tables               distances and errors of estimated joint tables                             AD section V
queries              relative error of counts, on a pool that is drawn at random                SDR Appendix 10.9
associations         uncertainty coefficient and Cramer's V, before and after                   AD Eq. (12)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from sfumato.auditor.utility.distances import distances, relative_errors, without_nan
from sfumato.values.arrays import FloatArray
from sfumato.values.text import indented


@dataclass(frozen=True)
class TableUtility:
    """How near an estimated joint table comes. NaN where there is no figure."""

    columns: tuple[str, ...]
    cells: int
    total_variation: float
    l1: float
    l2: float
    kl: float
    chi_square: float
    mean_error: float  # relative, of the cells that have records
    median_error: float
    naive_total_variation: float  # of the published counts
    covered: float  # share of the 95% intervals that hold the true count

    @classmethod
    def of(
        cls, columns: tuple[str, ...], true: FloatArray, estimated: FloatArray, published: FloatArray, covered: float
    ) -> TableUtility:
        """Measure an estimated table, and the published counts, against the true one."""
        near, errors = asdict(distances(true, estimated)), relative_errors(true, estimated)
        return cls(
            columns=columns,
            cells=true.size,
            **{name: near[name] for name in ("total_variation", "l1", "l2", "kl", "chi_square")},
            mean_error=errors.mean,
            median_error=errors.median,
            naive_total_variation=distances(true, published).total_variation,
            covered=covered,
        )


@dataclass(frozen=True)
class ByColumns:
    """Queries with so many columns besides the sensitive ones."""

    columns: int
    asked: int
    mean_error: float


@dataclass(frozen=True)
class QueryUtility:
    """Relative errors of counts from a random pool: those that are true of a share of the records, at least."""

    pool: int
    asked: int
    selectivity: float
    mean_error: float
    median_error: float
    naive_mean_error: float
    naive_median_error: float
    covered: float
    by_columns: tuple[ByColumns, ...]


@dataclass(frozen=True)
class AssociationUtility:
    """A measure of association in the true table, and as it is estimated from the release."""

    first: str
    second: str
    measure: str
    truth: float
    estimate: float
    lower: float
    upper: float
    naive: float


@dataclass(frozen=True)
class Utility:
    """All of it. None, NaN or empty: what a method has no figure for."""

    published_share: float
    record_utility: float | None = None
    aggregate_utility: float | None = None
    tables: tuple[TableUtility, ...] = ()
    queries: QueryUtility | None = None
    associations: tuple[AssociationUtility, ...] = ()
    notes: tuple[str, ...] = field(default=())

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values. Keys: docs/json.md."""
        found: dict[str, Any] = without_nan(asdict(self))
        return found

    def explain(self) -> str:
        """Return it in plain words."""
        return "\n".join(["What analysts keep:", *map(indented, self._lines())])

    def _lines(self) -> Iterator[str]:
        yield f"{self.published_share:.1%} of the records are published."
        if self.record_utility is not None:
            yield f"Record utility: {self.record_utility:.1%} are expected to be published with their own value."
        if self.aggregate_utility is not None:
            yield f"Aggregate utility of the estimated shares: {self.aggregate_utility:.4g}."
        for table in self.tables:
            yield (
                f"{', '.join(table.columns)} ({table.cells:,} cells): total variation {table.total_variation:.4g} "
                f"(published rows as they are {table.naive_total_variation:.4g}), median error "
                f"{_percent(table.median_error)}{_covering(table.covered)}."
            )
        if self.queries is not None:
            q = self.queries
            yield (
                f"{q.asked:,} of {q.pool:,} random counts are of {q.selectivity:.1%} of the records or more: mean "
                f"error {_percent(q.mean_error)} (published rows as they are {_percent(q.naive_mean_error)}), median "
                f"{_percent(q.median_error)}{_covering(q.covered)}."
            )
        for a in self.associations:
            limits = "without an interval" if math.isnan(a.lower) else f"[{a.lower:.4g}, {a.upper:.4g}]"
            yield (
                f"{a.measure} of {a.first} and {a.second}: true {a.truth:.4g}, estimated {a.estimate:.4g} "
                f"{limits}, published rows as they are {a.naive:.4g}."
            )
        yield from self.notes


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _covering(share: float) -> str:
    """Return how many of the intervals hold the truth; nothing where estimates have none, being exact or not known."""
    return "" if math.isnan(share) else f", 95% intervals cover {share:.1%}"


# --- measures of association in a true table --------------------------------------------------------------------------


def uncertainty(counts: FloatArray) -> float:
    """Return I(X; Y)/H(Y), Y the columns: AD Eq. (12). NaN if there is one column only.

    >>> uncertainty(np.array([[2.0, 0.0], [0.0, 2.0]]))
    1.0
    """
    p = counts / counts.sum()
    own = _entropy(p.sum(axis=0))
    return (own + _entropy(p.sum(axis=1)) - _entropy(p.ravel())) / own if own > 0 else math.nan


def _entropy(p: FloatArray) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def cramers_v(counts: FloatArray) -> float:
    """Return sqrt(chi-square/(n min(r - 1, c - 1))), over the values that occur.

    >>> cramers_v(np.array([[2.0, 0.0], [0.0, 2.0]]))
    1.0
    """
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    least = min(counts.shape) - 1
    if least < 1:
        return math.nan
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    return math.sqrt(float(((counts - expected) ** 2 / expected).sum()) / counts.sum() / least)
