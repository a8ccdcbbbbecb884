"""What small domain randomization makes of the table: figures, their words, and what is checked again of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from sfumato.claims.single_columns import beliefs
from sfumato.claims.sub_tables import SubTableClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.plan import SHOWN_VALUES
from sfumato.show.words import share
from sfumato.values.arrays import IntArray
from sfumato.values.mechanism import Mechanism


@dataclass(frozen=True)
class AloneFigures:
    """The largest belief in a value of one of several columns, by itself, among the protected ones or the others."""

    column: str
    value: str
    protected: bool  # whether at most rho1 of the records have it
    sub_table: int
    share: float  # what the number of the sub-table alone tells
    belief: float


@dataclass(frozen=True)
class PartitionFigures:
    """What small domain randomization makes of the table: SDR section 5."""

    rho1: str  # of the requirement, exactly
    rho2: str
    delta: str  # both bounds below hold with confidence 1 - delta, for one value's estimated share
    minimum_size: int  # records of a sub-table, at least; 0: none
    theta: int  # floor(|T| / largest count of a protected value)
    balancing_theta: int  # the same over the records of protected values only: what groups are balanced with
    initial_groups: int  # t
    sub_tables: int
    published_bound: float  # eps(Part), SDR Eq. (12)
    valid_bound: float
    mean_retention: float  # over the sub-tables, each counted once
    record_retention: float  # over the records
    uniform_retention: float  # of plain uniform perturbation under the same requirement
    protected: int  # values in SA'
    unprotected: tuple[str, ...]  # values that occur and are not in SA'
    alone: tuple[AloneFigures, ...]  # of each column, where there are several
    other: dict[str, int | float]  # sub_tables, published_bound, valid_bound and retentions of the other assurance

    @property
    def asked(self) -> tuple[str, str, str, int]:
        return self.rho1, self.rho2, self.delta, self.minimum_size

    def claim(self, assurance: str, label: str | None) -> SubTableClaim:
        """Return what is promised; `label`: the column that tells sub-tables."""
        return SubTableClaim(assurance, Fraction(self.rho1), (self.minimum_size or None) if label else None, label)

    def require(self, mechanism: Mechanism, quotas: Sequence[IntArray], counts: IntArray, assurance: str) -> None:
        """Raise unless the sub-tables make up the table and no protected value has more than its rho1, exactly."""
        total = np.zeros_like(counts)
        for table, of_table in zip(mechanism.tables, quotas, strict=True):
            total[table.codes] += of_table
            rows = int(of_table.sum())
            if of_table.min() < 0 or (mechanism.label and rows < self.minimum_size):
                raise PlanMismatch("A sub-table of the plan has fewer records than it must have.", "Plan again.")
            shares = zip(of_table.tolist(), table.bounds, strict=True)
            if any(b.gamma is not None and (b.rho1 is None or q > b.rho1 * rows) for q, b in shares):
                raise PlanMismatch("A quota of the plan breaks the rho1 of its sub-table.", "Plan again.")
        if not np.array_equal(total, counts):
            raise PlanMismatch("The plan's sub-tables do not make up its table.", "Plan again.")
        rho1, rho2 = Fraction(self.rho1), Fraction(self.rho2)
        told = beliefs(mechanism, quotas) if assurance == "proved" else ()
        if any(belief.overall <= rho1 and belief.belief > rho2 for belief in told):
            raise PlanMismatch("A sub-table of the plan tells too much of one column alone.", "Plan again.")

    def explained(self, mechanism: Mechanism, quotas: Sequence[IntArray], assurance: str) -> Iterator[str]:
        """Yield the sub-tables, what they cost, and what those of the other assurance would."""
        least = f"{self.minimum_size:,} records at least" if self.minimum_size else "no minimum size"
        balanced = f" ({self.balancing_theta:,} for balancing)" if self.balancing_theta != self.theta else ""
        yield (
            f"Sub-tables: {self.sub_tables:,} of {self.initial_groups:,} initial groups; theta = {self.theta:,}"
            f"{balanced}; {least}; {self.protected:,} values protected, {len(self.unprotected):,} not"
        )
        yield from _listed(mechanism, quotas)
        yield from self._alone()
        other, number = self.other, self.other["sub_tables"]
        yield (
            f"  mean retention: {share(self.mean_retention, 4)} over sub-tables, {share(self.record_retention, 4)} "
            f"over records; plain uniform perturbation of the values that occur: {share(self.uniform_retention, 4)}"
        )
        yield (
            f"  error of one value's estimated share, with confidence {1 - float(Fraction(self.delta)):.4g} (delta = "
            f"{self.delta}): at most {self.valid_bound:.4g} (the paper's eps(Part): {self.published_bound:.4g})"
        )
        yield (
            f"  {'as-published' if assurance == 'proved' else 'proved'}, for comparison: {number:,} sub-table"
            f"{'' if number == 1 else 's'}, mean retention {share(other['mean_retention'], 4)} over sub-tables, "
            f"{share(other['record_retention'], 4)} over records; bound {other['valid_bound']:.4g}, eps(Part) "
            f"{other['published_bound']:.4g}"
        )

    def _alone(self) -> Iterator[str]:
        """Yield how far beliefs in one of several columns can go, by the shares of the sub-tables."""
        if self.alone:
            yield (
                "  one column alone: the largest belief by the shares of a sub-table, before and after a published "
                "value"
            )
        for found in self.alone:
            kind = "protected" if found.protected else "not protected"
            yield (
                f"    {found.column} = {found.value} ({kind}): {found.share:.4f}, {found.belief:.4f} "
                f"(sub-table {found.sub_table:,})"
            )


def _listed(mechanism: Mechanism, quotas: Sequence[IntArray]) -> Iterator[str]:
    yield f"  {'sub-table':>9} {'records':>11} {'values':>7} {'rho1':>8} {'gamma':>9} {'retention':>10}"
    for number, (table, of_table) in enumerate(zip(mechanism.tables[:SHOWN_VALUES], quotas, strict=False), start=1):
        bound, kept = next((b for b in table.bounds if b.gamma is not None), None), table.matrix.retention
        assert kept is not None  # sub-tables have uniform matrices
        rho1 = "none" if bound is None else f"{float(bound.rho1 or 0):.4f}"
        gamma = "none" if bound is None or bound.gamma is None else f"{float(bound.gamma):.4g}"
        yield (
            f"  {number:>9} {int(of_table.sum()):>11,} {table.codes.size:>7,} {rho1:>8} {gamma:>9} "
            f"{float(kept[0]):>10.4f}"
        )
    if len(mechanism.tables) > SHOWN_VALUES:
        yield f"  ... and {len(mechanism.tables) - SHOWN_VALUES:,} more in --json"
