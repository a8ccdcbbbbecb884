"""Associations and risks, asked of a release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.analyst.answer import Target, check_target
from sfumato.analyst.ask.cells import Question
from sfumato.analyst.ask.conditions import Condition, column_names, not_too_deep, split_condition
from sfumato.analyst.ask.where import parsed
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT, Truths
from sfumato.analyst.randomized.channel import randomization_of
from sfumato.analyst.randomized.figures import source_of
from sfumato.analyst.tables import JointTable, table
from sfumato.analyst.two_by_two import Strength, two_by_two
from sfumato.analyst.two_way import Association, IndependenceTest, Normaliser, associate
from sfumato.errors import UsageError
from sfumato.release.reading import manifest_types
from sfumato.show.layout import percent
from sfumato.show.plots import error_bars
from sfumato.show.results import Drawn
from sfumato.values.arrays import FloatArray, IntArray

NORMALISERS: tuple[Normaliser, ...] = ("first", "second")
ROWS_PER_CELL = 30
"""Published rows of a table, for each of its cells, from which on the uncertainty coefficient has an interval."""
UNCORRECTED, CLASSICAL = "The published rows, uncorrected", "The classical estimate"
UNKNOWN = 0.5
"""The truth of a condition on a missing value."""


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
        *_notes(measures),
        *(joint.notes if by_groups else ()),
    )
    naive = CLASSICAL if by_groups else UNCORRECTED
    return Comparison(f"{first} and {second}", measures, found.test, target, level, notes, naive)


def _are_independent(release: CountedRelease, first: str, second: str) -> bool:
    """Whether the noise of two columns is independent given the record: which value is whose in a group is not."""
    if release.manifest.in_buckets:
        return not {first, second} & {part.name for part in release.manifest.only_in_buckets}
    return randomization_of(release).are_independent(first, second)


@not_too_deep
def risks(
    release: CountedRelease,
    exposed: str,
    outcome: str,
    where: str = "",
    *,
    target: Target = "table",
    level: float = 0.95,
) -> Comparison:
    """Compare the risk of an outcome between the records that satisfy a condition and the others: `Release.risks`."""
    check_target(target, level)
    trees = [_tree(release, text, name) for text, name in ((where, ""), (exposed, "exposed"), (outcome, "outcome"))]
    names = frozenset().union(*map(column_names, trees))
    source = source_of(release, names)
    conditions = _Conditions(
        split_condition(release, trees[0], source.domain),
        *(split_condition(release, tree, source.domain, selects=False) for tree in trees[1:]),
    )
    condition = replace(conditions.joined, columns=names)
    question = Question(release, (), ((),), condition, (COUNT,), (COUNT * COUNT,), target=target, by_value=True)
    source.require_inverse(question, ())
    figures = source.figures(question, (), conditions.place, 4)
    cells: FloatArray = figures.total(COUNT).reshape(2, 2)
    measures = two_by_two(cells, figures.joint_covariance(COUNT, target), figures.published().reshape(2, 2), level)
    what = f"{outcome} where {exposed}, against all others"
    by_groups = release.manifest.in_buckets
    said = (*_notes(measures), *(figures.notes() if by_groups else ()), *source.notes(question))
    naive = CLASSICAL if by_groups else UNCORRECTED
    return Comparison(what, measures, None, target, level, said, naive)


@dataclass(frozen=True)
class _Conditions:
    """Who is asked, who is exposed, and the outcome; the atoms of all three stand one after the other."""

    where: Condition
    exposed: Condition
    outcome: Condition

    @property
    def joined(self) -> Condition:
        """The selection of rows, with the atoms of all three."""
        return replace(self.where, atoms=self.where.atoms + self.exposed.atoms + self.outcome.atoms)

    def place(self, pattern: Truths) -> IntArray:
        """Return the cell of each value: exposed with the outcome, or without; not exposed likewise; -1 if unknown."""
        first, second = len(self.where.atoms), len(self.where.atoms) + len(self.exposed.atoms)
        asked = self.where.selected(pattern[:first])
        exposed, outcome = self.exposed.truth(pattern[first:second]), self.outcome.truth(pattern[second:])
        known = asked & (exposed != UNKNOWN) & (outcome != UNKNOWN)
        return np.where(known, 2 * (1 - exposed) + (1 - outcome), -1).astype(np.int64)


def _without_rough_intervals(measures: tuple[Strength, ...], joint: JointTable) -> tuple[Strength, ...]:
    """Return the measures, the uncertainty coefficient's without an interval where cells have few rows.

    With 17 rows a cell its 95% intervals were seen to cover 69%, with 1.5 rows even less; Cramer's V holds.
    """
    if joint.published.sum() >= ROWS_PER_CELL * joint.published.size or not joint.standard_error.any():
        return measures
    nothing, note = float("nan"), f"no interval with fewer than {ROWS_PER_CELL} published rows a cell; see Cramer's V."
    rough = replace(measures[0], standard_error=nothing, lower=nothing, upper=nothing, note=note)
    return rough, *measures[1:]


def _tree(release: CountedRelease, text: str, needed: str) -> exp.Expression | None:
    if not text.strip():
        if needed:
            raise UsageError(
                f"--{needed} needs a condition: who are the exposed, and what is the outcome?",
                "Or name two columns: --between sex,diagnosis",
            )
        return None
    return parsed(text, manifest_types(release))


def _notes(measures: tuple[Strength, ...]) -> tuple[str, ...]:
    return tuple(f"{measure.name}: {measure.note}" for measure in measures if measure.note)


def _finite(figures: dict[str, Any]) -> dict[str, Any]:
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in figures.items()
    }
