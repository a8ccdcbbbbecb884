"""What analysts keep, measured alike for all methods: errors of the same random counts, and distances of tables.

The pool is drawn as in SDR Appendix 10.9: conditions on one to three quasi-identifiers, each with every sensitive
value; those that are true of a thousandth of the records at least are asked. Estimates are those that an analyst gets
by default (`release.table`), which may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.compare.original import MOST_CELLS, Original
from sfumato.auditor.utility.distances import distances
from sfumato.auditor.utility.measuring import CONDITIONS, MOST_COLUMNS, MOST_TABLES, MOST_VALUES, SELECTIVITY
from sfumato.errors import SingularMatrix, UsageError
from sfumato.release.reading import as_written
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.randomness import simulation

Names = tuple[str, ...]
Estimates = Callable[[Names], FloatArray]
"""Gives the estimated table of some columns, on the axes of `Original.counts`."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Counts of one table: places in it, and the true numbers."""

    columns: Names  # the sensitive ones last
    places: IntArray
    true: FloatArray


@dataclass(frozen=True, eq=False)
class Pool:
    """The counts that all methods are asked for."""

    asked: tuple[Asked, ...]

    @property
    def size(self) -> int:
        """How many counts there are."""
        return sum(of_table.true.size for of_table in self.asked)

    @classmethod
    def drawn(cls, original: Original, seed: int | None) -> Pool:
        """Draw conditions with equal probability of columns and of values; conditions on the same columns together."""
        draw = simulation(seed)
        sets: dict[Names, int] = {}
        allowed = [n for n in original.quasi_identifiers if len(original.columns[n].index) <= MOST_VALUES]
        for _ in range(CONDITIONS if allowed else 0):
            size = int(draw.integers(1, min(MOST_COLUMNS, len(allowed)) + 1))
            chosen = sorted(draw.choice(len(allowed), size, replace=False).tolist())
            columns = (*(allowed[k] for k in chosen), *original.sensitive)
            fits = math.prod(original.shape(columns)) <= MOST_CELLS
            if fits and (columns in sets or len(sets) < MOST_TABLES):
                sets[columns] = sets.get(columns, 0) + 1
        if not sets:
            raise UsageError(
                f"Every table of a quasi-identifier with the {original.values:,} possible sensitive values is too "
                "large to compare methods by.",
                "Bin the columns, or give fewer of them these roles.",
            )
        parts = [_drawn(original, columns, number, draw) for columns, number in sets.items()]
        pool = cls(tuple(part for part in parts if part.true.size))
        if not pool.size:
            raise UsageError(
                "No random count of quasi-identifiers and a sensitive value has a thousandth of the records.",
                "Bin the columns, or give fewer of them these roles: there is nothing to compare methods by.",
            )
        return pool

    def errors(self, estimates: Estimates) -> FloatArray:
        """Return |estimated - true| / true of every count."""
        return np.concatenate([np.abs(estimates(a.columns).ravel()[a.places] - a.true) / a.true for a in self.asked])


def _drawn(original: Original, columns: Names, number: int, draw: np.random.Generator) -> Asked:
    true, values = original.counts(columns).ravel(), original.values
    where = np.unique(draw.integers(0, true.size // values, number))
    places = (where[:, None] * values + np.arange(values)).ravel()
    places = places[true[places] >= max(1.0, SELECTIVITY * original.rows)]
    return Asked(columns, places, true[places])


@dataclass(frozen=True)
class Kept:
    """What analysts keep of a release."""

    median_error: float
    mean_error: float
    sensitive_distance: float  # total variation of the sensitive columns
    pair_distance: float  # the mean over the tables with one quasi-identifier; NaN without one


def kept(original: Original, pool: Pool, estimates: Estimates) -> Kept:
    """Measure estimates against the table; raise what a method raises that has none."""
    errors = pool.errors(estimates)
    alone = _distance(original, estimates, original.sensitive)
    pairs = [_distance(original, estimates, names) for names in pair_tables(original)]
    return Kept(float(np.median(errors)), float(errors.mean()), alone, float(np.mean(pairs)) if pairs else math.nan)


def pair_tables(original: Original) -> Iterator[Names]:
    """Yield each quasi-identifier with the sensitive columns, but for too large tables."""
    for name in original.quasi_identifiers:
        if math.prod(original.shape((name, *original.sensitive))) <= MOST_CELLS:
            yield (name, *original.sensitive)


def _distance(original: Original, estimates: Estimates, names: Names) -> float:
    return distances(original.counts(names), estimates(names)).total_variation


# --- estimates --------------------------------------------------------------------------------------------------------


def of_release(original: Original, release: Release) -> Estimates:
    """Return the estimates of an analyst who has the release; each table is estimated once."""
    made: dict[Names, FloatArray] = {}

    def estimates(names: Names) -> FloatArray:
        if names not in made:
            made[names] = original.placed(as_written(release).table(names))
            if untold := int(np.count_nonzero(~np.isfinite(made[names]))):
                raise SingularMatrix(
                    f"The release does not tell {untold:,} of the {made[names].size:,} counts of {', '.join(names)}: "
                    "too few of its groups differ in their values.",
                    "Groups can differ more with a smaller l or r, or with more records.",
                )
        return made[names]

    return estimates


def of_independence(original: Original) -> Estimates:
    """Return the table in which sensitive values do not depend on anything: true numbers of both sides, multiplied."""

    def estimates(names: Names) -> FloatArray:
        known = names[: len(names) - len(original.sensitive)]
        people = original.counts(known) if known else np.array(float(original.rows))
        values = original.shares.reshape(original.shape(original.sensitive))
        return np.multiply.outer(people, values)

    return estimates


def of_joint(original: Original, joint: FloatArray) -> Estimates:
    """Return the margins of a table of all quasi-identifiers and the sensitive columns."""
    axes = (*original.quasi_identifiers, *original.sensitive)

    def estimates(names: Names) -> FloatArray:
        others = tuple(k for k, name in enumerate(axes) if name not in names)
        return np.asarray(joint.sum(axis=others))

    return estimates
