"""The table that is compared on, as arrays of codes; and what analysts keep of it, measured alike for all methods.

Errors of the same random counts, and distances of tables. The pool is drawn as in SDR Appendix 10.9: conditions on one
to three quasi-identifiers, each with every sensitive value; those that are true of a thousandth of the records at least
are asked. Estimates are those that an analyst gets by default (`release.table`), which may be negative.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from sfumato.analyst.release import Release
from sfumato.analyst.tables import Axis, Finest, unbiased_table
from sfumato.auditor.codes import ColumnCodes, combined, cross_counts, table_codes
from sfumato.auditor.evidence import Evidence, another_table
from sfumato.auditor.utility.distances import distances
from sfumato.auditor.utility.measuring import MOST_COLUMNS, MOST_VALUES, SELECTIVITY, conditions
from sfumato.errors import SingularMatrix, TableError, UsageError
from sfumato.publisher.table import Table
from sfumato.release.folder import as_written
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.attributes import MISSING_LABEL, Domain, SensitiveDomain
from sfumato.values.attributes import label as written
from sfumato.values.order import codes_in_order
from sfumato.values.profile import Profile
from sfumato.values.randomness import simulation

MOST_CELLS = 3_000_000  # of a table that is compared
MOST_BELIEFS = 30_000_000  # combinations of quasi-identifiers that occur, times values
MOST_COUNTED = 16_000_000  # combinations that occur, times what can be published: 128 MB


@dataclass(frozen=True, eq=False)
class Original:
    """Quasi-identifiers and sensitive columns of the records that are published, as codes by labels.

    Values of declared domains have a code too, those of no record as well.
    """

    table: Table
    columns: dict[str, ColumnCodes]
    codes: dict[str, CodeArray]

    @classmethod
    def read(cls, table: Table) -> Original:
        names = table.schema.names("quasi_identifier", "sensitive")
        columns = {name: _seeded(ColumnCodes(table.schema[name])) for name in names}
        codes = table_codes(table, columns)
        if not codes[names[0]].size:
            raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
        return cls(table, columns, codes)

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        return tuple(self.table.schema.names("quasi_identifier"))

    @property
    def sensitive(self) -> tuple[str, ...]:
        return tuple(self.table.schema.names("sensitive"))

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.quasi_identifiers, *self.sensitive)

    @property
    def rows(self) -> int:
        return int(self.codes[self.sensitive[0]].size)

    def labels(self, name: str) -> tuple[str, ...]:
        return tuple(self.columns[name].index)

    def shape(self, names: Sequence[str]) -> tuple[int, ...]:
        return tuple(len(self.columns[name].index) for name in names)

    @property
    def values(self) -> int:
        return math.prod(self.shape(self.sensitive))

    @cached_property
    def domain(self) -> SensitiveDomain:
        """The values of the sensitive columns by their labels, as methods are asked whether they are for such."""
        return SensitiveDomain(tuple(self._values_of(name) for name in self.sensitive))

    def _values_of(self, name: str) -> Domain:
        values = tuple(None if label == MISSING_LABEL else label for label in self.labels(name))
        return Domain(name, values, self.columns[name].attribute.ordered)

    @cached_property
    def in_order(self) -> list[int]:
        """The codes of the one sensitive column from the lowest value to the highest; none without an order."""
        order = codes_in_order(self.domain.parts[0]) if len(self.sensitive) == 1 else []
        return order if len(order) == self.values > 1 else []

    @cached_property
    def shares(self) -> FloatArray:
        return np.bincount(self.numbers(self.sensitive), minlength=self.values) / self.rows

    def numbers(self, names: Sequence[str]) -> IntArray:
        """Return each record's place in the flat table of columns."""
        return np.ravel_multi_index([self.codes[name] for name in names], self.shape(names))

    def numbered(self, names: Sequence[str]) -> IntArray:
        """Return each record's combination of values: those that occur, numbered from 0."""
        return combined([self.codes[name] for name in names], self.shape(names), self.rows)[0]

    def combinations(self, names: Sequence[str]) -> int:
        return int(self.numbered(names).max()) + 1

    @cached_property
    def groups(self) -> int:
        """How many combinations of the quasi-identifiers occur."""
        return self.combinations(self.quasi_identifiers)

    def together(self) -> IntArray:
        """Return how many people with the same quasi-identifiers have each value: [combination, value]."""
        place, size = self.numbered(self.quasi_identifiers), self.values
        number = int(place.max()) + 1
        if number * size > MOST_BELIEFS:
            raise UsageError(
                f"{number:,} combinations of quasi-identifiers times {size:,} values are too many to compare.",
                "Bin the columns, or give fewer of them the role quasi_identifier.",
            )
        return cross_counts(place, self.numbers(self.sensitive), number, size)

    def fits(self, names: Sequence[str]) -> bool:
        return math.prod(self.shape(names)) <= MOST_CELLS

    def counts(self, names: Sequence[str]) -> FloatArray:
        shape = self.shape(names)
        if not self.fits(names):
            raise UsageError(
                f"The table of {', '.join(names)} has {math.prod(shape):,} cells, too many to compare.",
                "Bin or leave out some of the columns.",
            )
        return np.bincount(self.numbers(names), minlength=math.prod(shape)).reshape(shape).astype(np.float64)

    def evidence(self, table: Table, release: Release, counted: Profile | None = None) -> Evidence:
        """Return a release of the table, with codes by the same labels.

        `table` has the policy of the release; `counted`: what was counted under it, where it was.
        """
        columns = {name: replace(column, index=dict(column.index)) for name, column in self.columns.items()}
        return Evidence(table, release, counted=counted, _columns=columns, _table_codes=dict(self.codes))

    def placed(self, axes: Sequence[Axis], estimated: FloatArray) -> FloatArray:
        """Return an estimated table on the axes of `counts`; 0 where the release has no such value."""
        names = [axis.name for axis in axes]
        places = [
            np.array([self.columns[axis.name].index.get(written(value), -1) for value in axis.values], dtype=np.int64)
            for axis in axes
        ]
        if any((place < 0).any() for place in places):
            raise another_table("It lacks a value that was published.")
        placed = np.zeros(self.shape(names))
        placed[np.ix_(*places)] = estimated
        return placed


def _seeded(column: ColumnCodes) -> ColumnCodes:
    for value in column.attribute.declared or ():
        column.index.setdefault(written(value), len(column.index))
    return column


# --- what analysts keep -----------------------------------------------------------------------------------------------

Names = tuple[str, ...]
Estimates = Callable[[Names], FloatArray]  # gives the estimated table of some columns, on the axes of `Original.counts`


@dataclass(frozen=True, eq=False)
class Asked:
    columns: Names  # the sensitive ones last
    places: IntArray
    true: FloatArray


@dataclass(frozen=True, eq=False)
class Pool:
    asked: tuple[Asked, ...]

    @property
    def size(self) -> int:
        return sum(of_table.true.size for of_table in self.asked)

    @classmethod
    def drawn(cls, original: Original, seed: int | None) -> Pool:
        """Draw conditions with equal probability of columns and of values; conditions on the same columns together."""
        draw = simulation(seed)
        allowed = [n for n in original.quasi_identifiers if len(original.columns[n].index) <= MOST_VALUES]
        sets = conditions(draw, allowed, lambda names: original.fits((*names, *original.sensitive)))
        if not sets:
            raise UsageError(
                f"Every table of a quasi-identifier with the {original.values:,} possible sensitive values is too "
                "large to compare methods by.",
                "Bin the columns, or give fewer of them these roles.",
            )
        parts = [_drawn(original, (*names, *original.sensitive), number, draw) for names, number in sets.items()]
        pool = cls(tuple(part for part in parts if part.true.size))
        if not pool.size:
            raise UsageError(
                "No random count of quasi-identifiers and a sensitive value has a thousandth of the records.",
                "Bin the columns, or give fewer of them these roles: there is nothing to compare methods by.",
            )
        return pool

    def errors(self, estimates: Estimates) -> FloatArray:
        return np.concatenate([np.abs(estimates(a.columns).ravel()[a.places] - a.true) / a.true for a in self.asked])


def _drawn(original: Original, columns: Names, number: int, draw: np.random.Generator) -> Asked:
    true, values = original.counts(columns).ravel(), original.values
    where = np.unique(draw.integers(0, true.size // values, number))
    places = (where[:, None] * values + np.arange(values)).ravel()
    places = places[true[places] >= max(1.0, SELECTIVITY * original.rows)]
    return Asked(columns, places, true[places])


@dataclass(frozen=True)
class Kept:
    median_error: float
    mean_error: float
    sensitive_distance: float  # total variation of the sensitive columns
    pair_distance: float  # the mean over the tables with one quasi-identifier; NaN without one
    share_error: float = math.nan  # of the share of records up to a value, the mean over all values; NaN: no order
    place_error: float = math.nan  # of the mean place in the order, as a part of the range; NaN: no order
    errors_by_columns: tuple[float, ...] = ()  # the mean, of counts on one quasi-identifier, two and three; NaN: none


def kept(original: Original, pool: Pool, estimates: Estimates) -> Kept:
    errors = pool.errors(estimates)
    alone, *pairs = (
        distances(original.counts(names), estimates(names)).total_variation
        for names in (original.sensitive, *pair_tables(original))
    )
    paired = float(np.mean(pairs)) if pairs else math.nan
    of_order, by_columns = _order_errors(original, estimates), tuple(_by_columns(original, pool, errors))
    return Kept(float(np.median(errors)), float(errors.mean()), alone, paired, *of_order, by_columns)


def _by_columns(original: Original, pool: Pool, errors: FloatArray) -> Iterator[float]:
    """Yield the mean error of the counts on one quasi-identifier, on two and on three."""
    sizes = np.array([(len(a.columns), a.true.size) for a in pool.asked], dtype=np.int64).reshape(-1, 2)
    columns = np.repeat(sizes[:, 0] - len(original.sensitive), sizes[:, 1])
    for number in range(1, MOST_COLUMNS + 1):
        yield float(errors[columns == number].mean()) if (columns == number).any() else math.nan


def _order_errors(original: Original, estimates: Estimates) -> tuple[float, float]:
    """Return the mean error of the shares up to a value, and that of the mean place; NaN without an order."""
    if not (order := original.in_order):
        return math.nan, math.nan
    names = original.sensitive
    off = (estimates(names) - original.counts(names))[order] / original.rows
    places = np.arange(len(order)) / (len(order) - 1)
    return float(np.abs(np.cumsum(off)[:-1]).mean()), float(abs(places @ off))


def pair_tables(original: Original) -> Iterator[Names]:
    """Yield each quasi-identifier with the sensitive columns, but for too large tables."""
    for name in original.quasi_identifiers:
        if original.fits((name, *original.sensitive)):
            yield (name, *original.sensitive)


def of_release(original: Original, release: Release) -> Estimates:
    """Return the estimates of an analyst who has the release; each table is estimated once."""
    made: dict[Names, FloatArray] = {}
    read = as_written(release)
    table: Callable[[Names], tuple[tuple[Axis, ...], FloatArray]] = partial(unbiased_table, read)
    if _is_small(original, release) and not np.isnan((finest := Finest.of(read, original.names)).counts).any():
        table = finest.table

    def estimates(names: Names) -> FloatArray:
        if names not in made:
            made[names] = original.placed(*table(names))
            if untold := int(np.count_nonzero(~np.isfinite(made[names]))):
                raise SingularMatrix(
                    f"The release does not tell {untold:,} of the {made[names].size:,} counts of {', '.join(names)}: "
                    "too few of its groups differ in their values.",
                    "Groups can differ more with a smaller l or r, or with more records.",
                )
        return made[names]

    return estimates


def _is_small(original: Original, release: Release) -> bool:
    """Whether all columns together, of which others are sums, are sooner estimated than each table by itself."""
    if release.manifest.kind == "response":  # which has rows for combinations that no record has
        return False
    published = [mechanism.published.size for mechanism in release.manifest.mechanism_values]
    return original.groups * max(original.values, math.prod(published)) <= MOST_COUNTED


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
