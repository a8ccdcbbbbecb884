"""A plan: the mechanism, why it is what it is, and what it costs. Private to the publisher until it is carried out.

`Plan.explain()` says it in words; `Plan.to_json()` is what `publish --plan` takes back, bound to the table and the
policy by their hashes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.claims.odds import OddsClaim, violations
from sfumato.claims.single_columns import beliefs
from sfumato.claims.sub_tables import SubTableClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.bucket_plan import GroupPlan
from sfumato.methods.plan_files import PLAN_VERSION, read_shared, sealed
from sfumato.methods.planned import Planned
from sfumato.methods.response_plan import ResponsePlan
from sfumato.show.results import columns_table
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism, domains, finite, read_mechanism, sub_tables
from sfumato.values.profile import Profile
from sfumato.values.requirement import Bound
from sfumato.values.steps import Allocate, Perturb, RowStep, Shuffle

TIGHT = 1e-9
"""A constraint binds when its factor is within this relative distance of gamma (the integers round below it)."""


@dataclass(frozen=True)
class Binding:
    """A constraint without slack: raising the retention of `value` or of `against` would break it."""

    value: str
    direction: str
    against: str
    gamma: float


@dataclass(frozen=True)
class Loosening:
    """What a gamma 10% larger for these values would buy."""

    values: tuple[str, ...]
    gamma: float
    loosened: float
    record_utility: float


@dataclass(frozen=True)
class UniformFigures:
    """What plain uniform perturbation would give, with the strictest requirement for all values."""

    retention: float
    record_utility: float
    total_variation: float  # expected, as of the plan
    value: str  # the one whose count it would estimate better by the largest factor
    standard_error: float  # of that count


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
    other: dict[str, float]  # sub_tables, published_bound, valid_bound and retentions of the other assurance


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Planned):
    """The mechanism that will be applied, with what it was computed from."""

    method: str
    assurance: str
    counts: npt.NDArray[np.int64]
    mechanism: Mechanism
    quotas: tuple[npt.NDArray[np.int64], ...]  # how many records of each value each sub-table gets
    shuffle: bool
    partition: PartitionFigures | None = None
    loosenings: tuple[Loosening, ...] = ()
    uniform: UniformFigures | None = None  # for fine-grain perturbation: what it is compared with
    other_assurance: tuple[str, float] | None = None  # its name, and the record utility it would have given
    discloses_frequencies: bool = False

    _figures = ("records", "retention", "diagonal")

    @property
    def domain(self) -> SensitiveDomain:
        """The sensitive domain."""
        return self.mechanism.domain

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The one mechanism."""
        return (self.mechanism,)

    @property
    def matrix(self) -> Matrix:
        """The matrix of all rows; sub-tables have matrices of their own (`mechanism.tables`)."""
        return self.mechanism.matrix

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The strictest bound on each value."""
        return self.mechanism.bounds

    @property
    def rows(self) -> int:
        """The number of records to publish."""
        return int(self.counts.sum())

    @property
    def frequency(self) -> FloatArray:
        """f_i."""
        return self.counts / max(1, self.rows)

    @property
    def gamma(self) -> list[float]:
        """gamma_i; infinite where nothing is required."""
        return [math.inf if b.gamma is None else float(b.gamma) for b in self.bounds]

    @property
    def retention(self) -> FloatArray:
        """p_i, averaged over the records of a value where they are in several sub-tables; NaN where it has none."""
        none = np.full(self.domain.size, math.nan)
        of_tables = [table.matrix.retention for table in self.mechanism.tables]
        return self._averaged([none if p is None else p for p in of_tables])

    @property
    def diagonal(self) -> FloatArray:
        """P[i, i], averaged in the same way."""
        return self._averaged([table.matrix.diagonal for table in self.mechanism.tables])

    def _averaged(self, of_tables: list[FloatArray]) -> FloatArray:
        if self.mechanism.is_whole:
            return of_tables[0]
        total = np.zeros(self.domain.size)
        for table, quotas, numbers in zip(self.mechanism.tables, self.quotas, of_tables, strict=True):
            total[table.codes] += quotas * numbers
        averaged: FloatArray = np.full(self.domain.size, math.nan)
        np.divide(total, self.counts, out=averaged, where=self.counts > 0)
        return averaged

    @property
    def record_utility(self) -> float:
        """The expected share of records whose value is unchanged: FG Def. 3."""
        kept = sum(
            float(quotas @ table.matrix.diagonal)
            for table, quotas in zip(self.mechanism.tables, self.quotas, strict=True)
        )
        return kept / max(1, self.rows)

    @cached_property
    def standard_error(self) -> FloatArray | None:
        """The expected standard error of each count's inverse estimate, for this table; None without an inverse."""
        variance = self.mechanism.variance(self.quotas)
        return None if variance is None else np.sqrt(variance)

    @property
    def total_variation(self) -> float | None:
        """Expected total variation between the true and the estimated distribution (normal approximation)."""
        if self.standard_error is None:
            return None
        return float(self.standard_error.sum() * math.sqrt(2 / math.pi) / 2 / max(1, self.rows))

    @property
    def aggregate_utility(self) -> float | None:
        """Expected 1 - (1/m) sum |f_i - f'_i| for the inverse estimate: FG Def. 2."""
        return None if self.total_variation is None else 1 - 2 * self.total_variation / self.domain.size

    @property
    def uniform_estimates_better(self) -> bool:
        """Whether plain uniform perturbation is expected to estimate the distribution better."""
        if self.uniform is None:
            return False
        return self.total_variation is None or self.uniform.total_variation < self.total_variation * (1 - TIGHT)

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """The constraints that hold with equality, up to the integers' rounding; for one matrix of all rows."""
        if not self.mechanism.is_whole:
            return ()
        found = []
        factors = {"upward": self.matrix.upward, "downward": self.matrix.downward}
        for direction in self.guarantee.directions:
            for code, bound in enumerate(self.bounds):
                factor = factors[direction](code)
                if bound.gamma is not None and factor is not None and factor >= bound.gamma * (1 - TIGHT):
                    rival = self.domain.labels[self.matrix.worst_case(code, direction)[1]]
                    found.append(Binding(self.domain.labels[code], direction, rival, float(bound.gamma)))
        return tuple(found)

    @property
    def draws_each_row(self) -> bool:
        """Whether what becomes of a row depends on its own words alone: not where sub-tables have quotas."""
        return not self.mechanism.label

    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows."""
        allocate = (Allocate(self.mechanism, self.quotas),) if self.mechanism.label else ()
        perturb = Perturb(self.mechanisms, None if self.partition is None else self.counts)
        return (*allocate, perturb, *([Shuffle(self.rows)] if self.shuffle else []))

    @property
    def claim(self) -> OddsClaim | SubTableClaim:
        """What is promised, as a value."""
        if self.partition is None:
            return OddsClaim(self.guarantee.scope, self.guarantee.directions, self.discloses_frequencies)
        label, rho1 = self.mechanism.label, Fraction(self.partition.rho1)
        return SubTableClaim(self.assurance, rho1, (self.partition.minimum_size or None) if label else None, label)

    def require(self, table_hash: str, policy_hash: str) -> None:
        """Raise unless table and policy are the ones that were signed off and the matrix keeps its bounds."""
        super().require(table_hash, policy_hash)
        if self.partition is not None:
            self._check_quotas()
        for table in self.mechanism.tables:
            if broken := next(violations(table.matrix, table.bounds, self.guarantee.directions), None):
                value = self.domain.labels[table.codes[broken.code]]
                raise PlanMismatch(
                    f"The plan's matrix does not keep its own bound for {value!r}.",
                    "The plan file was changed after it was made: plan again.",
                )

    def _check_quotas(self) -> None:
        """Raise unless the sub-tables make up the table and no protected value has more than its rho1, exactly."""
        total = np.zeros(self.domain.size, dtype=np.int64)
        for table, quotas in zip(self.mechanism.tables, self.quotas, strict=True):
            total[table.codes] += quotas
            rows = int(quotas.sum())
            shares = zip(quotas.tolist(), table.bounds, strict=True)
            if any(b.gamma is not None and (b.rho1 is None or q > b.rho1 * rows) for q, b in shares):
                raise PlanMismatch("A quota of the plan breaks the rho1 of its sub-table.", "Plan again.")
        if not np.array_equal(total, self.counts):
            raise PlanMismatch("The plan's sub-tables do not make up its table.", "Plan again.")
        if self.assurance == "proved" and self.partition is not None:
            rho1, rho2 = Fraction(self.partition.rho1), Fraction(self.partition.rho2)
            told = beliefs(self.mechanism, self.quotas)
            if any(belief.overall <= rho1 and belief.belief > rho2 for belief in told):
                raise PlanMismatch("A sub-table of the plan tells too much of one column alone.", "Plan again.")

    def explain(self) -> str:
        """Return, in plain words, what will happen to the table, why, and at what cost."""
        from sfumato.methods.explain import explain_plan

        return explain_plan(self)

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each value: its records, and how it is kept."""
        codes = np.arange(self.domain.size, dtype=np.int32)
        figures = {"records": self.counts, "retention": self.retention, "diagonal": self.diagonal}
        return columns_table(self.domain.columns(self.domain.split(codes)), figures)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; infinite numbers are null. Keys: docs/json.md."""
        errors = self.standard_error
        content = {
            "plan_version": PLAN_VERSION,
            "method": self.method,
            "assurance": self.assurance,
            "sensitive": list(self.domain.names),
            "rows": self.rows,
            "dropped": self.dropped,
            "domain": [list(v) if isinstance(v, tuple) else v for v in self.domain.values],
            "counts": self.counts.tolist(),
            "retention": [finite(p) for p in self.retention.tolist()],
            "diagonal": [finite(p) for p in self.diagonal.tolist()],
            "gamma": [finite(g) for g in self.gamma],
            "record_utility": self.record_utility,
            "aggregate_utility": self.aggregate_utility,
            "total_variation": self.total_variation,
            "standard_error": None if errors is None else errors.tolist(),
            "epsilon": finite(self.mechanism.epsilon),
            "condition_number": finite(self.mechanism.condition_number),
            "guarantee": self.guarantee.to_dict(),
            "binding": [vars(b) for b in self.bindings],
            "loosening": [{**vars(x), "values": list(x.values)} for x in self.loosenings],
            "other_assurance": None
            if self.other_assurance is None
            else {"assurance": self.other_assurance[0], "record_utility": self.other_assurance[1]},
            "uniform": None if self.uniform is None else vars(self.uniform),
            "shuffle": self.shuffle,
            **self._told(),
            "parts": domains(self.domain),
            "sub_tables": sub_tables(self.mechanism),
            "sub_table_column": self.mechanism.label,
            "quotas": None if self.mechanism.is_whole else [quotas.tolist() for quotas in self.quotas],
            "partition": None if self.partition is None else _listed(self.partition),
            **self._bound(),
        }
        return sealed(content)

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> Plan:
        """Return the plan of what `to_dict` gave."""
        other, partition = raw["other_assurance"], raw["partition"]
        counts = np.array(raw["counts"], dtype=np.int64)
        quotas = [raw["counts"]] if raw["quotas"] is None else raw["quotas"]
        return cls(
            method=raw["method"],
            assurance=raw["assurance"],
            counts=counts,
            mechanism=read_mechanism(raw["parts"], raw["sub_tables"], raw["sub_table_column"]),
            quotas=tuple(np.array(of_table, dtype=np.int64) for of_table in quotas),
            shuffle=raw["shuffle"],
            partition=None if partition is None else _read_partition(partition),
            loosenings=tuple(Loosening(**{**x, "values": tuple(x["values"])}) for x in raw["loosening"]),
            uniform=None if raw["uniform"] is None else UniformFigures(**raw["uniform"]),
            other_assurance=None if other is None else (other["assurance"], other["record_utility"]),
            discloses_frequencies=raw["discloses_frequencies"],
            **read_shared(raw),
        )


AnyPlan = Plan | ResponsePlan | GroupPlan


def _listed(figures: PartitionFigures) -> dict[str, Any]:
    alone = [vars(of_column) for of_column in figures.alone]
    return {**vars(figures), "unprotected": list(figures.unprotected), "alone": alone}


def _read_partition(raw: dict[str, Any]) -> PartitionFigures:
    alone = tuple(AloneFigures(**of_column) for of_column in raw["alone"])
    return PartitionFigures(**{**raw, "unprotected": tuple(raw["unprotected"]), "alone": alone})
