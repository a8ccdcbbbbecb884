"""What randomized response plans: the matrices, what they limit, and what they cost; its words, and its check."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, Literal

from sfumato.claims.claim import Guarantee, Shape, differing, percent
from sfumato.claims.linking_risk import RiskClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.plan import Figures, Plan, restored
from sfumato.methods.response.problem import pose
from sfumato.show.words import chance, named
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.grid import is_on_grid
from sfumato.values.mechanism import Mechanism, domains, read_mechanism, sub_tables
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.requirement import GroupLimit, Requirement, RiskLimit, exact
from sfumato.values.steps import Perturb, RowStep, Shuffle

RISKS = {
    "posterior": "belief in a value of someone who sees the published quasi-identifiers of a row: expected shares",
    "link": "hits by who links on the published quasi-identifiers: expected shares",
    "reconstruction": "right row and right value by drawing, AD Eq. (6)",
}


@dataclass(frozen=True)
class AttributeFigures:
    """What happens to one attribute: a quasi-identifier, or all sensitive columns together."""

    name: str
    values: int  # d
    diagonal: float  # AD's p = P[i, i]; 1: untouched
    retention: float
    epsilon: float | None  # local differential privacy; None: infinite


@dataclass(frozen=True)
class BindingCell:
    """A cell whose risk is nearest to its limit: it keeps the retentions from being a step larger."""

    values: tuple[str, ...]  # of each quasi-identifier (as it is published, for `posterior`), then the sensitive one
    risk: float
    limit: float


@dataclass(frozen=True)
class TradeOff:
    """What 1/l in place of the general limit would cost (groups keep theirs); None where it cannot be kept."""

    l: int  # noqa: E741
    kappa: float | None
    expected_l2: float | None
    diagonal: tuple[float, ...] | None
    least_risk: float | None  # of the cell that is furthest above its limit, where that cannot be kept


@dataclass(frozen=True, kw_only=True)
class Found:
    """What was found."""

    attributes: tuple[AttributeFigures, ...]
    kappa: float
    expected_l2: float  # E ||pi_hat - pi||^2 = (kappa - 1)/N of the inverse estimate of the joint table
    best_l2: float  # the same at the best parameters, before their retentions are rounded to two digits
    uniform_l2: float  # ||1/D - pi||^2: what who holds all D combinations to be alike has without any release
    expected_error: float  # that of the inverse estimate in the distance of the objective
    cells: int  # of the domain on which the limited risk was evaluated
    risks: dict[str, float]  # the largest of each kind that can be evaluated: the domain is too large for the others
    link_with_own_row: float | None  # an upper bound on `link` that counts the person's own row; None: too large
    risks_alone: dict[str, float]  # the largest limited risk of each sensitive column by itself, if there are several
    guesser_mean: float  # how often the best guesser is right in the limit of many records
    guesser_maximum: float  # the same of the records of the worst group
    groups: int  # combinations of quasi-identifiers that occur
    single_valued: int  # of these, those with one sensitive value
    binding: tuple[BindingCell, ...]
    binding_cells: int  # how many there are in all
    trade_off: tuple[TradeOff, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class ResponseFigures(Found, Figures):
    """The mechanisms that will be applied, one for each attribute that is randomized, and what was found."""

    claim: RiskClaim
    mechanisms: tuple[Mechanism, ...]
    fixed: tuple[str, ...]
    objective: Literal["l2", "chi-square"]
    counts_hash: str  # of the joint table: the limit holds for this one

    if_alone = (
        "Before the noise, someone who knows these finds the record. It takes much noise to hide it; coarser bins help."
    )
    drawn = ("diagonal", "retention")

    @property
    def randomized(self) -> tuple[str, ...]:
        """The randomized columns."""
        return tuple(name for mechanism in self.mechanisms for name in mechanism.domain.names)

    @property
    def record_utility(self) -> float:
        return math.prod(attribute.diagonal for attribute in self.attributes)

    def steps(self, plan: Plan, counted: Profile | None) -> tuple[RowStep, ...]:
        assert counted is not None  # its method rechecks
        counts = tuple(counted.marginal(mechanism.domain) for mechanism in self.mechanisms)
        return Perturb(self.mechanisms, counts), Shuffle(plan.rows)

    def meets(self, requirement: Requirement, asked: object) -> bool:
        claim = self.claim
        return asked == (claim.limit, claim.risk, claim.scope, self.fixed, self.objective)

    def recheck(self, plan: Plan, profile: Profile) -> None:
        """Evaluate the risk once more, on the table's own counts and the integers that will be sampled."""
        check_plan(plan.guarantee, self, profile, plan.rows)

    # --- words --------------------------------------------------------------------------------------------------------

    def explained(self, plan: Plan) -> Iterator[list[str]]:
        yield list(self._what(plan))
        yield from map(list, (self._attributes(), self._risks(), self._binding(), self._cost(), self._trade_off()))

    def _what(self, plan: Plan) -> Iterator[str]:
        value = " / ".join(self.claim.sensitive)
        randomized = [attribute.name for attribute in self.attributes if attribute.diagonal < 1]
        yield (
            f"{plan.rows:,} records in {self.groups:,} groups by {', '.join(self.claim.quasi_identifiers)}; "
            f"{self.single_valued:,} of these have a single {value}. Method {plan.method}, assurance {plan.assurance}."
        )
        yield (
            f"Each record keeps its {named(randomized)} with a chance that belongs to the column, and otherwise gets "
            "another value at random. Other columns stay as they are, but for bins and merged values. Then the rows "
            "are shuffled."
        )
        if value not in randomized:
            yield f"{value} is published unchanged: every row shows the true one."

    def _attributes(self) -> Iterator[str]:
        yield "Attributes: the diagonal is the probability that a value stays; 1 leaves the column untouched"
        yield f"  {'attribute':30} {'values':>7} {'retention':>10} {'diagonal':>9} {'epsilon':>9}"
        for a in self.attributes:
            epsilon = "infinite" if a.epsilon is None else f"{a.epsilon:.4f}"
            yield f"  {a.name[:30]:30} {a.values:>7,} {chance(a.retention):>10} {chance(a.diagonal):>9} {epsilon:>9}"

    def _risks(self) -> Iterator[str]:
        yield "Largest risks"
        for name, risk in self.risks.items():
            yield f"  {name:15} {chance(risk):>7}  {RISKS[name]}" + ("; limited" if name == self.claim.risk else "")
        for name in (name for name in RISKS if name not in self.risks):
            yield f"  {name:15} not evaluated: the domain is too large"
        if self.link_with_own_row is not None:
            yield (
                f"  {'link, own row':15} {chance(self.link_with_own_row):>7}  at most: the same, counting that the "
                "person's own row is among those taken"
            )
        for name, risk in self.risks_alone.items():
            yield f"  {self.claim.risk}, {name} alone: {chance(risk)}; the limit is on combinations"
        yield (
            f"  {'best guesser':15} {chance(self.guesser_maximum):>7}  at most; {chance(self.guesser_mean)} on "
            "average over the records: who estimates the table from many such records and guesses; no limit holds this"
        )

    def _binding(self) -> Iterator[str]:
        head = ", ".join(self.claim.quasi_identifiers) + " / " + " / ".join(self.claim.sensitive)
        kind = " (combinations as they are published)" if self.claim.risk == "posterior" else ""
        yield f"Nearest to the limit: {head}{kind}"
        for cell in self.binding:
            yield f"  {', '.join(cell.values[:-1])} / {cell.values[-1]}: {chance(cell.risk)} of {chance(cell.limit)}"
        if more := self.binding_cells - len(self.binding):
            yield f"  ... and {more:,} more"

    def _cost(self) -> Iterator[str]:
        yield "Utility and cost"
        yield (
            f"  kappa = {self.kappa:.6g}: the estimated joint table has the expected squared error "
            f"{self.expected_l2:.4g}; holding all combinations to be alike has {self.uniform_l2:.4g}"
        )
        if self.objective == "chi-square":
            yield f"  expected chi-square distance of the estimated joint table: {self.expected_error:.4g}"
        yield f"  with retentions that are not rounded to two digits it would be {self.best_l2:.4g}"
        yield f"  expected share of records with no value changed: {chance(self.record_utility)}"

    def _trade_off(self) -> Iterator[str]:
        claim = self.claim
        if not self.trade_off:
            yield (
                f"No trade-off curve: the domain has {self.cells:,} cells, and each point would take as long as the "
                "plan."
            )
            return
        whose = "all other records, while groups keep theirs," if claim.limit.groups else "all records"
        yield f"What another limit 1/l for {whose} would cost (stated: {percent(exact(claim.limit.limit))})"
        names = ", ".join(a.name for a in self.attributes)
        yield f"  {'l':>2} {'kappa':>12} {'squared error':>13}  diagonal of {names}"
        searched = claim.risk == "link" and claim.limit.groups  # it is not the one without any retention then
        least = "the least risk found is" if searched else "the least risk is"
        for point in self.trade_off:
            if point.diagonal is None:
                yield f"  {point.l:>2} cannot be kept: {least} {chance(point.least_risk or 1)}"
            else:
                kept = ", ".join(chance(p) for p in point.diagonal)
                yield f"  {point.l:>2} {point.kappa:>12.6g} {point.expected_l2:>13.4g}  {kept}"

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each column, or sensitive columns together: how its values are kept."""
        import pyarrow as pa

        rows = [{"column": each.name, **asdict(each)} for each in self.attributes]
        return pa.Table.from_pylist(rows).select(["column", "diagonal", "retention", "epsilon", "values"])

    def to_dict(self, plan: Plan) -> dict[str, Any]:
        claim = self.claim
        return {
            "risk": claim.risk,
            "limit": str(claim.limit.limit),
            "limits": [{"where": dict(group.where), "limit": str(group.limit)} for group in claim.limit.groups],
            "quasi_identifiers": claim.quasi_identifiers,
            "sensitive": claim.sensitive,
            "scope": claim.scope,
            "fixed": self.fixed,
            "objective": self.objective,
            "rows": plan.rows,
            "dropped": plan.dropped,
            **{field.name: getattr(self, field.name) for field in fields(Found)},
            "guarantee": plan.guarantee.to_dict(),
            "shuffle": plan.shuffle,
            **plan.told(),
            "mechanisms": [{"parts": domains(m.domain), "sub_tables": sub_tables(m)} for m in self.mechanisms],
            "counts_hash": self.counts_hash,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> ResponseFigures:
        groups = tuple(
            GroupLimit(tuple((name, tuple(values)) for name, values in group["where"].items()), group["limit"])
            for group in raw["limits"]
        )
        limit = RiskLimit(Fraction(raw["limit"]), groups)
        return cls(
            claim=RiskClaim(raw["risk"], tuple(raw["quasi_identifiers"]), tuple(raw["sensitive"]), limit, raw["scope"]),
            mechanisms=tuple(read_mechanism(m["parts"], m["sub_tables"], None) for m in raw["mechanisms"]),
            fixed=tuple(raw["fixed"]),
            objective=raw["objective"],
            counts_hash=raw["counts_hash"],
            **vars(restored(Found, raw)),
        )


# --- a plan against the table that it is published with ---------------------------------------------------------------


def check_plan(stated: Guarantee, plan: ResponseFigures, profile: Profile, rows: int) -> None:
    """Raise unless the table is the planned one, and the plan's own integers keep the limits that it states for it.

    The hash that seals a plan file can be computed by anybody. So the risk is evaluated once more before publishing,
    from the table's own counts, on the integers that will be sampled.
    """
    from sfumato.methods.response.request import Axes

    if counts_hash(profile) != plan.counts_hash or profile.rows != rows:
        raise PlanMismatch(
            "The table is not the one that was planned: it has other combinations of values, or other numbers of "
            "them, and so another risk.",
            "Plan again with the table as it is now.",
        )
    if not _of_the_method(plan, profile):
        raise _changed("are not those of randomized response for the columns that it names")
    axes = Axes.of(profile, [name for name in profile.quasi_identifiers if name not in plan.randomized])
    channels = axes.sampled(plan.mechanisms)
    # what has no noise costs no rounding: so this asks for no larger margin than the plan was made with
    untouched = [k for k, channel in enumerate(channels) if not channel.noise]
    problem = pose(axes.table, axes.limits(plan.claim.limit), plan.claim.risk, fixed=untouched)
    if not problem.within(problem.risk(axes.table, channels)):
        raise _changed("do not keep its limit for this table")
    if not all(is_on_grid(mechanism.matrix) for mechanism in plan.mechanisms):
        raise _changed("have retentions of more than two digits, which tell more of the table")
    if differing(stated, plan.claim.guarantee(Shape(plan.mechanisms))):
        raise _changed("are not those that its guarantee is stated for")


def _of_the_method(plan: ResponseFigures, profile: Profile) -> bool:
    """Whether each matrix is uniform and of an attribute in scope as the table has it, none of them twice."""
    quasi = [SensitiveDomain((part,)) for part in profile.quasi_domain.parts if part.name not in plan.fixed]
    left = [
        *(quasi if plan.claim.scope != "sensitive" else ()),
        *([profile.sensitive_domain] if plan.claim.scope != "quasi-identifiers" else ()),
    ]
    for mechanism in plan.mechanisms:
        if mechanism.domain not in left or not (mechanism.is_whole and mechanism.matrix.is_uniform):
            return False
        left.remove(mechanism.domain)
    claimed = plan.claim.quasi_identifiers, plan.claim.sensitive
    return claimed == (profile.quasi_identifiers, profile.sensitive_domain.names)


def _changed(how: str) -> PlanMismatch:
    return PlanMismatch(
        f"The plan's matrices {how}.", "The plan file was changed after it was made: plan again, and sign that off."
    )
