"""What uniform, fine-grain and small domain perturbation plan: matrices, what binds, what they cost; and its words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sfumato.claims.claim import Guarantee, Shape
from sfumato.claims.odds import Binding, OddsClaim, bindings, broken_sets, exceeds_any_predicate, violations
from sfumato.claims.steps import StepsClaim
from sfumato.claims.sub_tables import SubTableClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.plan import SHOWN_VALUES, Expected, Figures, Plan, restored
from sfumato.methods.small_domain.figures import PartitionFigures
from sfumato.show.results import columns_table
from sfumato.show.words import chance, chances, factor
from sfumato.values.arrays import FloatArray, IntArray, array_of
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.mechanism import (
    LABEL,
    Bound,
    Form,
    Mechanism,
    SubTable,
    domains,
    finite,
    read_mechanism,
    sub_tables,
)
from sfumato.values.order import codes_in_order
from sfumato.values.profile import Profile
from sfumato.values.requirement import Requirement, sets_of
from sfumato.values.steps import Allocate, Perturb, RowStep, Shuffle

BETTER = 1e-9
"""A relative difference of errors below this is none."""
OF_VALUES = (
    "gamma: by how many times the odds of the value may change. Retention: the chance that it is kept, not drawn anew. "
    "Diagonal: that it is published unchanged. Std. error: how far its count is typically off."
)
OF_CARDS = (
    "gamma: by how many times the odds of the value may change. In its set: the chance that a set holds it. Std. "
    "error: how far its count is typically off."
)
SHOWN_MATRIX = 8
MOST_IN_ORDER = 300
"""Values up to which errors of shares and means are told: they take the whole matrix."""
SHOWN_BINDINGS = 3
RAISING = "raising the retention of either value of a pair would break the bound"


@dataclass(frozen=True)
class Loosening:
    """What a gamma 10% larger for these values would buy."""

    values: tuple[str, ...]
    gamma: float
    loosened: float
    record_utility: float


@dataclass(frozen=True)
class Choice:
    """Another way to keep the requirement, and the expected squared error of all counts; None: there is no estimate."""

    name: str
    expected_error: float | None


@dataclass(frozen=True)
class UniformFigures:
    """What plain uniform perturbation would give, with the strictest requirement for all values."""

    retention: float
    record_utility: float
    total_variation: float  # expected, as of the plan
    expected_error: float
    value: str  # the one whose count it would estimate better by the largest factor
    standard_error: float  # of that count


@dataclass(frozen=True, eq=False)
class PerturbationFigures(Figures):
    """The mechanism that will be applied, with what it was computed from."""

    claim: OddsClaim | SubTableClaim
    mechanisms: tuple[Mechanism, ...]  # one
    counts: IntArray
    quotas: tuple[IntArray, ...]  # how many records of each value each sub-table gets
    partition: PartitionFigures | None = None
    loosenings: tuple[Loosening, ...] = ()
    uniform: UniformFigures | None = None  # for fine-grain perturbation: what it is compared with
    choices: tuple[Choice, ...] = ()
    other_assurance: tuple[str, float] | None = None  # its name, and the record utility it would have given

    if_alone = "Someone who knows these finds the record; only the noise protects it. Coarser bins help."
    drawn = ("records", "retention", "diagonal")

    @property
    def mechanism(self) -> Mechanism:
        """The one mechanism."""
        return self.mechanisms[0]

    @property
    def domain(self) -> SensitiveDomain:
        """The sensitive domain."""
        return self.mechanism.domain

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
        """P[i, i], or the probability that a card holds the value, averaged in the same way."""
        return self._averaged([table.matrix.holds_truth for table in self.mechanism.tables])

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
        """The expected share of records whose value is unchanged (FG Def. 3), or is on their card."""
        tables = zip(self.mechanism.tables, self.quotas, strict=True)
        return sum(float(quotas @ table.matrix.holds_truth) for table, quotas in tables) / max(1, self.rows)

    @cached_property
    def standard_error(self) -> FloatArray | None:
        """The expected standard error of each count's inverse estimate, for this table; None without an inverse."""
        variance = self.mechanism.variance(self.quotas)
        return None if variance is None else np.sqrt(variance)

    @property
    def expected_error(self) -> float | None:
        """The expected squared errors of all counts, for this table, divided by its records: n times the MSE."""
        return None if self.standard_error is None else float((self.standard_error**2).sum() / max(1, self.rows))

    def error_under(self, matrix: Matrix) -> float | None:
        """Return the expected error under another matrix for all rows."""
        table = SubTable(np.arange(self.domain.size, dtype=np.int32), matrix, self.bounds)
        form: Form = "value" if matrix.publishes_values else "card"
        variance = Mechanism(self.domain, (table,), form=form).variance((self.counts,))
        return None if variance is None else float(variance.sum() / max(1, self.rows))

    @cached_property
    def expected(self) -> Expected:
        """What analysts are off by; of an order up to 300 values."""
        from sfumato.methods.ordered.design import errors_of

        error, rows, size = self.expected_error, max(1, self.rows), self.domain.size
        count = None if error is None else math.sqrt(error * rows / size)
        order = codes_in_order(self.domain.parts[0]) if len(self.domain.parts) == 1 else []
        if count is None or len(order) < size or not 2 <= size <= MOST_IN_ORDER or not self.mechanism.is_whole:
            return Expected(count)
        errors = errors_of(self.matrix.dense()[:, order], self.counts[order] / rows)
        share, mean = (math.sqrt(max(0.0, each) / rows) for each in (errors.distribution, errors.mean))
        return Expected(count, share, mean)

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
        """Whether plain uniform perturbation is expected to estimate counts better."""
        if self.uniform is None:
            return False
        return self.expected_error is None or self.uniform.expected_error < self.expected_error * (1 - BETTER)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which beliefs are bounded."""
        return self.claim.guarantee(Shape(self.mechanisms)).directions

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        """The constraints that hold with equality, up to the integers' rounding; for one matrix of all rows."""
        return tuple(bindings(self.mechanism, self.directions))

    @property
    def binds(self) -> tuple[str, ...]:
        if self.mechanism.form != "value":
            return ("Every set is as likely as the strictest requirement allows.",)
        told = {"upward": "would make {0!r} too easy to believe", "downward": "would make {0!r} too easy to rule out"}
        return tuple(
            f"Less noise {told[b.direction].format(b.value)}, against {b.against!r}."
            for b in self.bindings[:SHOWN_BINDINGS]
        )

    def steps(self, plan: Plan, counted: Profile | None) -> tuple[RowStep, ...]:
        allocate = (Allocate(self.mechanism, self.quotas),) if self.mechanism.label else ()
        perturb = Perturb(self.mechanisms, (self.counts,))
        return (*allocate, perturb, *([Shuffle(self.rows)] if plan.shuffle else []))

    def meets(self, requirement: Requirement, asked: object) -> bool:
        if self.partition is not None:
            return asked == self.partition.asked
        required = requirement.bounds(self.domain, self.counts.tolist())
        if isinstance(self.claim, StepsClaim):
            return asked == self.claim.steps and set(required) == {self.claim.bound}
        return asked is None and required == self.bounds and sets_of(requirement, self.domain) == self.mechanism.sets

    def require(self, plan: Plan) -> None:
        """Raise unless every matrix keeps its bounds, and the sub-tables theirs."""
        if self.counts.size != self.domain.size or self.counts.min() < 0 or self.rows != plan.rows:
            raise PlanMismatch("The plan's numbers of records do not make up its table.", "Plan again.")
        _ = self.mechanism.published  # raises where two cards would be written alike
        if self.mechanism.label not in (None, LABEL if self.partition else None):
            raise PlanMismatch(f"The plan names {self.mechanism.label!r} as the column of sub-tables.", "Plan again.")
        if self.partition is not None:
            self.partition.require(self.mechanism, self.quotas, self.counts, plan.assurance)
        for broken in self._broken():
            raise PlanMismatch(
                f"The plan's matrix does not keep its own bound {broken}.",
                "The plan file was changed after it was made: plan again.",
            )

    def _broken(self) -> Iterator[str]:
        """Yield the bounds that the integers do not keep."""
        if isinstance(self.claim, StepsClaim) and not self.claim.keeps(self.matrix, self.mechanism):
            yield f"within {self.claim.steps} step(s)"
        for table in self.mechanism.tables:
            for broken in violations(table.matrix, table.bounds, self.directions):
                yield f"for {self.domain.labels[table.codes[broken.code]]!r}"
        for each, *_ in broken_sets(self.matrix, self.mechanism.sets, self.directions) if self.mechanism.sets else ():
            yield f"that {each.told(self.domain)}"
        only = self.mechanism.tables[0]
        is_of_any = isinstance(self.claim, OddsClaim) and self.claim.scope == "any predicate"
        if is_of_any and exceeds_any_predicate(only.matrix, only.bounds, only.sets):
            yield "for statements that join several values"

    def explained(self, plan: Plan) -> Iterator[list[str]]:
        yield list(_what(self, plan))
        if self.partition is not None:
            yield list(self.partition.explained(self.mechanism, self.quotas, plan.assurance))
            yield list(_values(self))
        else:
            yield from (list(_matrix(self)), list(_values(self)))
            if self.mechanism.sets:
                yield list(_sets(self))
            yield list(_binding(self))
        yield list(_cost(self))

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each value: its records, and how it is kept."""
        figures = {"records": self.counts, "retention": self.retention, "diagonal": self.diagonal}
        return columns_table(self.domain.columns(self.domain.codes), figures)

    def to_dict(self, plan: Plan) -> dict[str, Any]:
        errors, other = self.standard_error, self.other_assurance
        return {
            "sensitive": self.domain.names,
            "rows": plan.rows,
            "dropped": plan.dropped,
            "domain": self.domain.values,
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
            "guarantee": plan.guarantee.to_dict(),
            "binding": self.bindings,
            "loosening": self.loosenings,
            "other_assurance": None if other is None else {"assurance": other[0], "record_utility": other[1]},
            "uniform": self.uniform,
            **({"choices": self.choices} if self.choices else {}),
            "shuffle": plan.shuffle,
            **plan.told(),
            "parts": domains(self.domain),
            "sub_tables": sub_tables(self.mechanism),
            "sub_table_column": self.mechanism.label,
            **({} if self.mechanism.form == "value" else {"form": self.mechanism.form}),
            **({"near": self.claim.written()} if isinstance(self.claim, StepsClaim) else {}),
            "quotas": None if self.mechanism.is_whole else [quotas.tolist() for quotas in self.quotas],
            "partition": self.partition,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> PerturbationFigures:
        other = raw["other_assurance"]
        partition = None if raw["partition"] is None else restored(PartitionFigures, raw["partition"])
        mechanism = read_mechanism(raw["parts"], raw["sub_tables"], raw["sub_table_column"], raw.get("form", "value"))
        quotas = [raw["counts"]] if raw["quotas"] is None else raw["quotas"]
        stated = restored(Guarantee, raw["guarantee"])
        odds = OddsClaim(
            stated.scope, stated.directions, raw["discloses_frequencies"], raw["assurance"] == "as-published"
        )
        odds = StepsClaim.read(odds, raw["near"]) if "near" in raw else odds
        return cls(
            claim=odds if partition is None else partition.claim(raw["assurance"], mechanism.label),
            mechanisms=(mechanism,),
            counts=array_of(raw["counts"], np.int64),
            quotas=tuple(np.array(of_table, dtype=np.int64) for of_table in quotas),
            partition=partition,
            loosenings=tuple(restored(Loosening, each) for each in raw["loosening"]),
            uniform=None if raw["uniform"] is None else restored(UniformFigures, raw["uniform"]),
            choices=tuple(restored(Choice, each) for each in raw.get("choices", ())),
            other_assurance=None if other is None else (other["assurance"], other["record_utility"]),
        )


# --- words ------------------------------------------------------------------------------------------------------------


def _what(figures: PerturbationFigures, plan: Plan) -> Iterator[str]:
    domain, mechanism = figures.domain, figures.mechanism
    yield (
        f"{plan.rows:,} records; {domain.name} has {domain.size:,} values. "
        f"Method {plan.method}, assurance {plan.assurance}."
    )
    order = "Then the rows are shuffled." if plan.shuffle else "The rows stay in their order."
    stays = f"Other columns stay as they are, but for bins and merged values. {order}"
    kept = [p for table in mechanism.tables if (p := table.matrix.retention) is not None]
    if mechanism.form != "value":
        yield f"{_cards(figures)} {stays}"
        return
    if not kept:
        own = figures.matrix.diagonal
        yield (
            f"Each record is published with its own {domain.name} with a chance of {_range(own)}, and otherwise with "
            f"another of all {domain.size:,} values, at random. {stays}"
        )
        return
    draws = (
        f"keeps its {domain.name} with a chance of {_range(np.concatenate(kept))} (its retention) and otherwise draws "
        "at random one of all"
    )
    if mechanism.label is None:
        yield f"Each record {draws} {mechanism.tables[0].codes.size:,} values. {stays}"
    else:
        yield (
            f"The records are dealt at random to {len(mechanism.tables):,} sub-tables, which the column "
            f"{mechanism.label} tells. Each record {draws} values of its sub-table. {stays}"
        )


def _range(shares: FloatArray) -> str:
    """Return the smallest and the largest share, once where they are shown alike."""
    return chances(float(shares.min()), float(shares.max()))


def _cards(figures: PerturbationFigures) -> str:
    """Say what is published in place of a value, and how often it holds the truth."""
    matrix = figures.matrix
    shown = {"set": "The set is published", "card": "The number of the card is published"}[figures.mechanism.form]
    return (
        f"Each record draws a set of the {matrix.size:,} values (one of {matrix.outputs:,} cards). It holds the "
        f"record's own {figures.domain.name} with a chance of {_range(matrix.holds_truth)}. {shown}; the truth may lie "
        "outside it."
    )


def _matrix(figures: PerturbationFigures) -> Iterator[str]:
    if figures.mechanism.form != "value":
        matrix = figures.matrix
        shown = [figures.mechanism.published.labels[number][:60] for number in range(min(3, matrix.outputs))]
        yield f"Cards: {matrix.outputs:,}, such as {'; '.join(shown)}."
        return
    head = "Matrix: row = published value, column = original value; columns sum to one"
    matrix, labels = figures.matrix, figures.domain.labels
    if matrix.size <= SHOWN_MATRIX:
        width = max(8, *map(len, labels))
        yield f"{head}:"
        yield f"  {'':{width}} " + " ".join(f"{name:>{width}}" for name in labels)
        for name, row in zip(labels, matrix.dense(), strict=True):
            yield f"  {name:{width}} " + " ".join(f"{x:>{width}.4f}" for x in row)
    elif matrix.retention is None:
        yield f"{head}. It has {matrix.size:,} values, too many to show."
    else:
        yield (
            f"{head}. A value that is not kept becomes each of the {matrix.size:,} values with the same chance, its "
            "own among them."
        )


def _values(figures: PerturbationFigures) -> Iterator[str]:
    more = figures.domain.size - SHOWN_VALUES
    yield "Values, the most frequent first" + (f" ({more:,} more in --json)" if more > 0 else "")
    errors, gammas, retention, diagonal = figures.standard_error, figures.gamma, figures.retention, figures.diagonal
    of_cards = figures.mechanism.form != "value"  # which retain nothing: they hold the truth, or do not
    heads = f"{'in its set':>10}" if of_cards else f"{'retention':>10} {'diagonal':>9}"
    yield f"  {'value':24} {'records':>10} {'gamma':>10} {heads} {'std. error':>11}"
    for c in np.argsort(-figures.counts, kind="stable")[:SHOWN_VALUES]:
        error = "none" if errors is None else f"{errors[c]:,.1f}"
        gamma = "none" if math.isinf(gammas[c]) else factor(gammas[c])
        kept, own = ("none" if math.isnan(p) else chance(p) for p in (retention[c], diagonal[c]))
        value, records = figures.domain.labels[c][:24], figures.counts[c]
        shares = f"{own:>10}" if of_cards else f"{kept:>10} {own:>9}"
        yield f"  {value:24} {records:>10,} {gamma:>10} {shares} {error:>11}"
    yield f"  {OF_CARDS if of_cards else OF_VALUES}"


def _sets(figures: PerturbationFigures) -> Iterator[str]:
    """Tell the sets of values: how many values and records each has, and its bound."""
    yield "Sets of values that have a bound together"
    yield f"  {'set':40} {'values':>8} {'records':>10} {'gamma':>10}"
    for each in figures.mechanism.sets[:SHOWN_VALUES]:
        records, gamma = int(figures.counts[list(each.codes)].sum()), float(each.bound.gamma or math.inf)
        yield f"  {each.told(figures.domain)[:40]:40} {len(each.codes):>8,} {records:>10,} {factor(gamma):>10}"
    if (more := len(figures.mechanism.sets) - SHOWN_VALUES) > 0:
        yield f"  ... and {more:,} more"


def _binding(figures: PerturbationFigures) -> Iterator[str]:
    if figures.mechanism.form != "value":
        strictest = not isinstance(figures.claim, OddsClaim) or figures.claim.scope == "any predicate"
        allows = "the strictest requirement allows" if strictest else "its requirement and those of its rivals allow"
        yield f"What binds: cards that hold a value are drawn as much more often as {allows}."
        return
    given, bindings = figures.matrix.retention is None, figures.bindings
    if not bindings:
        why = "every bound of the matrix has room" if given else "nothing is required, or everything is retained"
        yield f"No constraint binds: {why}."
        return
    yield f"What binds: {'the matrix leaves these pairs no room' if given else RAISING}"
    for b in bindings[:SHOWN_VALUES]:
        yield f"  {b.value}, {b.direction}, against {b.against} (gamma = {factor(b.gamma)})"
    if len(bindings) > SHOWN_VALUES:
        yield f"  ... and {len(bindings) - SHOWN_VALUES:,} more"
    for x in figures.loosenings:
        who = ", ".join(x.values[:3]) + (f" and {len(x.values) - 3} more" if len(x.values) > 3 else "")
        yield (
            f"  Loosening gamma of {who} from {factor(x.gamma)} to {factor(x.loosened)} lifts record utility "
            f"from {chance(figures.record_utility)} to {chance(x.record_utility)}."
        )


def _cost(figures: PerturbationFigures) -> Iterator[str]:
    yield "Utility and cost"
    if figures.mechanism.form == "value":
        yield f"  record utility (share of records that stay true): {chance(figures.record_utility)}"
    else:
        yield f"  share of records whose set holds their own value: {chance(figures.record_utility)}"
    if figures.expected_error is not None and (figures.uniform or figures.choices):
        other = f"; of plain uniform perturbation {figures.uniform.expected_error:,.4g}" if figures.uniform else ""
        yield f"  expected squared error of all counts together, per record: {figures.expected_error:,.4g}{other}"
    for choice in figures.choices:
        error = "no estimate" if choice.expected_error is None else f"{choice.expected_error:,.4g}"
        yield f"    under {choice.name}: {error}"
    if figures.other_assurance:
        name, utility = figures.other_assurance
        yield f"  record utility of the {name} version: {chance(utility)}"
    if figures.total_variation is not None:
        variation = figures.total_variation
        yield f"  expected total variation (distance of the estimated shares from the true ones): {variation:.4f}"
        aggregate = figures.aggregate_utility
        yield f"  expected aggregate utility (1: all shares exact; near 1 with many values): {aggregate:.4f}"
    if figures.uniform:
        yield (
            "  plain uniform perturbation with the strictest requirement: record utility "
            f"{chance(figures.uniform.record_utility)}, expected total variation {figures.uniform.total_variation:.4f}"
        )
    epsilon = "infinite" if math.isinf(figures.mechanism.epsilon) else f"{figures.mechanism.epsilon:.4f}"
    yield f"  local differential privacy of the sensitive attribute: epsilon = {epsilon}"
    condition = figures.mechanism.condition_number
    yield f"  condition number of the matrix (how much estimates amplify noise): {condition:.4g}"
