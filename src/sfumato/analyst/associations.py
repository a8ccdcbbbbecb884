"""Associations and risks, asked of a release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.answer import Target
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.randomized.channel import randomization_of
from sfumato.analyst.tables import JointTable, table
from sfumato.analyst.two_by_two import Strength
from sfumato.analyst.two_way import Association, IndependenceTest, Normaliser, associate
from sfumato.errors import UsageError
from sfumato.show.layout import percent
from sfumato.show.plots import error_bars
from sfumato.show.results import Drawn

NORMALISERS: tuple[Normaliser, ...] = ("first", "second")
ROWS_PER_CELL = 30
"""Published rows of a table, for each of its cells, from which on the uncertainty coefficient has an interval."""
MANY_CELLS = 100
"""From so many cells on, with fewer rows in each than that, a test of all of them at once is weak."""
UNCORRECTED, CLASSICAL = "The published rows, uncorrected", "The classical estimate"


@dataclass(frozen=True)
class Comparison(Drawn):
    """Measures of association with intervals, each beside the figure of the published rows and its bias."""

    what: str
    measures: tuple[Strength, ...]
    test: IndependenceTest | None
    target: Target
    level: float
    notes: tuple[str, ...]
    naive: str = UNCORRECTED  # what the naive figures are those of

    def to_dict(self) -> dict[str, Any]:
        """Return all figures with stable keys (docs/reference/json.md); null for none, and for infinite ends."""
        return {
            "what": self.what,
            "target": self.target,
            "level": self.level,
            "measures": [_finite(vars(measure)) for measure in self.measures],
            "test": None if self.test is None else _finite(vars(self.test)),
            "notes": list(self.notes),
        }

    def to_arrow(self) -> Any:
        """Return a row for each measure; null where there is no figure."""
        rows = pa.Table.from_pylist([_finite(vars(measure)) for measure in self.measures])
        return rows.rename_columns(["measure", *rows.column_names[1:]])

    def _drawing(self, title: str) -> dict[str, Any]:
        """Return the measures with error bars, each on an axis of its own."""
        table = self.to_arrow()
        named = table.rename_columns(["figure" if name == "measure" else name for name in table.column_names])
        about = f"{percent(self.level)} intervals for the {self.target}"
        return error_bars(named, (), title or self.what, "\n".join((about, *self.notes)), self.level)

    def __repr__(self) -> str:
        lines = [
            f"{m.name}: {m.estimate:.4g} ± {m.standard_error:.4g} [{m.lower:.4g}, {m.upper:.4g}], naive {m.naive:.4g}"
            for m in self.measures
        ]
        return f"Comparison({self.what}, {self.target}, {self.level:.0%})\n" + "\n".join(lines)


def association(
    release: CountedRelease,
    first: str,
    second: str,
    where: str = "",
    *,
    target: Target = "table",
    level: float = 0.95,
    normaliser: Normaliser = "second",
) -> Comparison:
    """Measure how strongly two columns go together: see `Release.association`."""
    if normaliser not in NORMALISERS:
        raise UsageError(
            f"The uncertainty coefficient is divided by the entropy of the {' or the '.join(NORMALISERS)}, not of "
            f"{normaliser!r}.",
            "--normaliser second is usual.",
        )
    if first == second:
        raise UsageError("An association is between two different columns.", "--between sex,diagnosis")
    joint = table(release, (first, second), where, target=target, level=level)
    by_groups = release.manifest.in_buckets
    if np.isnan(joint.value).any():
        raise UsageError(
            f"The compositions of the groups do not tell the table of {first} and {second}: too few are different.",
            "Compare risks instead, with several values together: release.risks(...), --exposed and --outcome.",
        )
    found: Association = associate(
        joint.value,
        joint.covariance(),
        joint.covariance("population", floored=False),
        joint.published,
        _are_independent(release, first, second),
        level,
        normaliser,
        release.manifest.data.rows,
    )
    measures = _without_rough_intervals(found.measures, joint)
    notes = (
        "The test of independence is for the population, whatever the intervals are for.",
        *_which_to_believe(None if by_groups else found.test),
        *_thin_cells(first, second, joint),
        *notes_of(measures),
        *(joint.notes if by_groups else ()),
    )
    naive = CLASSICAL if by_groups else UNCORRECTED
    return Comparison(f"{first} and {second}", measures, found.test, target, level, notes, naive)


def _which_to_believe(test: IndependenceTest | None) -> Iterator[str]:
    """Say which test counts, where the two do not agree."""
    if test is not None and not isclose(test.statistic, test.naive_statistic, rel_tol=0.01):
        yield "Believe the first test: it is corrected for the noise. The other one is shown for comparison."


def _thin_cells(first: str, second: str, joint: JointTable) -> Iterator[str]:
    """Say if so many cells share the rows that even a clear association can be missed."""
    cells, rows = joint.value.size, float(joint.value.sum())
    if cells >= MANY_CELLS and rows < ROWS_PER_CELL * cells:
        many = first if joint.value.shape[0] >= joint.value.shape[1] else second
        yield (
            f"{cells:,} cells, about {rows / cells:,.0f} rows in each: a weak test, which can miss what is clearly "
            f"there. Values of {many} are too many: compare bands of it (--exposed and "
            "--outcome; in Python release.risks), or ask the publisher for bins."
        )


def _are_independent(release: CountedRelease, first: str, second: str) -> bool:
    """Whether the noise of two columns is independent given the record: which value is whose in a group is not."""
    if release.manifest.in_buckets:
        return not {first, second} & {part.name for part in release.manifest.only_in_buckets}
    return randomization_of(release).are_independent(first, second)


def _without_rough_intervals(measures: tuple[Strength, ...], joint: JointTable) -> tuple[Strength, ...]:
    """Return the measures, the uncertainty coefficient's without an interval where cells have few rows.

    With 17 rows a cell its 95% intervals were seen to cover 69%, with 1.5 rows even less; Cramer's V holds.
    """
    if joint.published.sum() >= ROWS_PER_CELL * joint.published.size or not joint.standard_error.any():
        return measures
    nothing, note = float("nan"), f"no interval with fewer than {ROWS_PER_CELL} published rows a cell; see Cramer's V."
    rough = replace(measures[0], standard_error=nothing, lower=nothing, upper=nothing, note=note)
    return rough, *measures[1:]


def notes_of(measures: tuple[Strength, ...]) -> tuple[str, ...]:
    """Return what is said of single measures."""
    return tuple(f"{measure.name}: {measure.note}" for measure in measures if measure.note)


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in figures.items()
    }
