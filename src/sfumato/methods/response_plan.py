"""The plan of randomized response: the matrices, what they limit, and what they cost. Private to the publisher.

Like `sfumato.methods.plan.Plan` it says itself in words (`explain`) and in JSON, bound to table and policy by hashes.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from typing import Any, Literal

from sfumato.claims.linking_risk import RiskClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.plan_files import PLAN_VERSION, listed, read_shared, sealed
from sfumato.methods.planned import Planned
from sfumato.values.mechanism import Mechanism, domains, read_mechanism, sub_tables
from sfumato.values.profile import Profile
from sfumato.values.requirement import GroupLimit, RiskLimit
from sfumato.values.steps import Perturb, RowStep, Shuffle

RESPONSE: Literal["randomized-response"] = "randomized-response"


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


@dataclass(frozen=True)
class ResponseFigures:
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


@dataclass(frozen=True, eq=False, repr=False)
class ResponsePlan(Planned):
    """The mechanisms that will be applied, one for each attribute that is randomized."""

    assurance: str
    claim: RiskClaim
    fixed: tuple[str, ...]
    objective: Literal["l2", "chi-square"]
    mechanisms: tuple[Mechanism, ...]
    figures: ResponseFigures
    rows: int
    counts_hash: str  # of the joint table: the limit holds for this one

    _figures = ("diagonal", "retention")
    method = RESPONSE
    shuffle = True
    discloses_frequencies = True  # the matrices are computed from the joint table
    total_variation = None  # of the joint table it would say nothing: see expected_l2

    @property
    def randomized(self) -> tuple[str, ...]:
        """The randomized columns."""
        return tuple(name for mechanism in self.mechanisms for name in mechanism.domain.names)

    @property
    def record_utility(self) -> float:
        """The expected share of records with no value changed."""
        return math.prod(attribute.diagonal for attribute in self.figures.attributes)

    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows."""
        return Perturb(self.mechanisms), Shuffle(self.rows)

    def require_counts(self, counts_hash: str) -> None:
        """Raise unless the joint table is the one whose risk was computed."""
        if counts_hash != self.counts_hash:
            raise PlanMismatch(
                "The table is not the one that was planned: it has other combinations of values, or other numbers of "
                "them, and so another risk.",
                "Plan again with the table as it is now.",
            )

    def explain(self) -> str:
        """Return, in plain words, what will happen to the table, why, and at what cost."""
        from sfumato.methods.explain_response import explain_response

        return explain_response(self)

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each column, or sensitive columns together: how its values are kept."""
        import pyarrow as pa

        rows = [{"column": each.name, **asdict(each)} for each in self.figures.attributes]
        return pa.Table.from_pylist(rows).select(["column", "diagonal", "retention", "epsilon", "values"])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values. Keys: docs/json.md."""
        figures = listed(asdict(self.figures))
        return sealed(
            {
                "plan_version": PLAN_VERSION,
                "method": self.method,
                "assurance": self.assurance,
                "risk": self.claim.risk,
                "limit": str(self.claim.limit.limit),
                "limits": [{"where": listed(dict(g.where)), "limit": str(g.limit)} for g in self.claim.limit.groups],
                "quasi_identifiers": list(self.claim.quasi_identifiers),
                "sensitive": list(self.claim.sensitive),
                "scope": self.claim.scope,
                "fixed": list(self.fixed),
                "objective": self.objective,
                "rows": self.rows,
                "dropped": self.dropped,
                **figures,
                "guarantee": self.guarantee.to_dict(),
                "shuffle": self.shuffle,
                **self._told(),
                "mechanisms": [{"parts": domains(m.domain), "sub_tables": sub_tables(m)} for m in self.mechanisms],
                "counts_hash": self.counts_hash,
                **self._bound(),
            }
        )

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> ResponsePlan:
        """Return the plan of what `to_dict` gave."""
        groups = tuple(
            GroupLimit(tuple((name, tuple(values)) for name, values in group["where"].items()), group["limit"])
            for group in raw["limits"]
        )
        limit = RiskLimit(Fraction(raw["limit"]), groups)
        return cls(
            assurance=raw["assurance"],
            claim=RiskClaim(raw["risk"], tuple(raw["quasi_identifiers"]), tuple(raw["sensitive"]), limit, raw["scope"]),
            fixed=tuple(raw["fixed"]),
            objective=raw["objective"],
            mechanisms=tuple(read_mechanism(m["parts"], m["sub_tables"], None) for m in raw["mechanisms"]),
            figures=_read_figures(raw),
            rows=raw["rows"],
            counts_hash=raw["counts_hash"],
            **read_shared(raw),
        )


def _read_figures(raw: dict[str, Any]) -> ResponseFigures:
    nested = ("attributes", "binding", "trade_off")
    plain = {field.name: raw[field.name] for field in fields(ResponseFigures) if field.name not in nested}
    return ResponseFigures(
        attributes=tuple(AttributeFigures(**x) for x in raw["attributes"]),
        binding=tuple(BindingCell(**{**x, "values": tuple(x["values"])}) for x in raw["binding"]),
        trade_off=tuple(
            TradeOff(**{**x, "diagonal": None if x["diagonal"] is None else tuple(x["diagonal"])})
            for x in raw["trade_off"]
        ),
        **plain,
    )
