"""What is planned for several sensitive columns with methods of their own: a plan for each, and one of all together."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.claims.odds import OddsClaim
from sfumato.claims.several import SeveralClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.plan import PLAN_VERSION, Figures, Plan
from sfumato.show.results import columns_table
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import Requirement, Requirements
from sfumato.values.steps import Perturb, RowStep, Shuffle

OF_THE_WHOLE: dict[str, Any] = {
    "plan_version": PLAN_VERSION,
    "uniqueness": None,
    "table_hash": "",
    "policy_hash": "",
    "plan_hash": "",
}
"""What the plan of a column does not have in a file: the whole plan has it."""


@dataclass(frozen=True, eq=False)
class SeveralFigures(Figures):
    """The plan of each column, or of the columns that share the policy's method."""

    claim: SeveralClaim
    parts: tuple[Plan, ...]

    if_alone = "Someone who knows these finds the record; only the noise protects it. Coarser bins help."
    drawn = ("records", "retention", "diagonal")

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:  # type: ignore[override]
        """One for each plan, in their order."""
        return tuple(mechanism for part in self.parts for mechanism in part.mechanisms)

    @property
    def record_utility(self) -> float:
        """The expected share of records with no value changed, if the columns are independent in the table."""
        return math.prod(part.figures.record_utility or 0.0 for part in self.parts)

    def steps(self, plan: Plan, counted: object) -> tuple[RowStep, ...]:
        counts = tuple(part.figures.counts for part in self.parts if isinstance(part.figures, PerturbationFigures))
        return (Perturb(self.mechanisms, counts), *([Shuffle(plan.rows)] if plan.shuffle else []))

    def meets(self, requirement: Requirement, asked: object) -> bool:
        """Whether each plan is for the method and the requirement of its columns."""
        if not isinstance(requirement, Requirements) or not isinstance(asked, tuple):
            return False
        if not len(requirement.each) == len(asked) == len(self.parts):
            return False
        return all(
            (part.method, part.assurance) == (name, assurance) and part.figures.meets(own, of_method)
            for part, own, (name, assurance, of_method) in zip(self.parts, requirement.each, asked, strict=True)
        )

    def require(self, plan: Plan) -> None:
        """Raise unless every plan keeps its own bounds."""
        for part in self.parts:
            part.figures.require(part)
            if part.rows != plan.rows:
                raise PlanMismatch("The plans of the columns are for different numbers of records.", "Plan again.")

    def explained(self, plan: Plan) -> Iterator[list[str]]:
        names = self.claim.columns
        methods = ", ".join(f"{name} by {part.method}" for name, part in zip(names, self.parts, strict=True))
        order = "Then the rows are shuffled." if plan.shuffle else "The rows stay in their order."
        yield [
            f"{plan.rows:,} records; {len(names)} sensitive columns with methods of their own: {methods}. "
            f"Assurance {plan.assurance}.",
            "Each of them is drawn by itself, independently of the others. Other columns stay as they are, but for "
            f"bins and merged values. {order}",
        ]
        for name, part in zip(names, self.parts, strict=True):
            what, *more = part.figures.explained(part)
            yield [f"Column {name}", *(f"  {line}" for line in what)]
            yield from more

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each value of each column: its records, and how it is kept."""
        columns: dict[str, list[str]] = {"column": [], "value": []}
        figures: dict[str, list[Any]] = {name: [] for name in self.drawn}
        for name, part in zip(self.claim.columns, self.parts, strict=True):
            of_part = part.figures
            assert isinstance(of_part, PerturbationFigures)
            columns["column"] += [name] * of_part.domain.size
            columns["value"] += of_part.domain.labels
            figures["records"] += of_part.counts.tolist()
            figures["retention"] += of_part.retention.tolist()
            figures["diagonal"] += of_part.diagonal.tolist()
        return columns_table(columns.items(), {name: np.array(numbers) for name, numbers in figures.items()})

    def to_dict(self, plan: Plan) -> dict[str, Any]:
        parts = [part.to_dict() for part in self.parts]
        return {
            "sensitive": [name for mechanism in self.mechanisms for name in mechanism.domain.names],
            "rows": plan.rows,
            "dropped": plan.dropped,
            "record_utility": self.record_utility,
            "guarantee": plan.guarantee.to_dict(),
            "shuffle": plan.shuffle,
            **plan.told(),
            "columns": [{key: value for key, value in part.items() if key not in OF_THE_WHOLE} for part in parts],
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> SeveralFigures:
        whole = [OF_THE_WHOLE | part for part in raw["columns"]]
        parts = tuple(Plan.from_dict(part, PerturbationFigures.from_dict(part)) for part in whole)
        names = tuple(mechanism.domain.name for part in parts for mechanism in part.mechanisms)
        claims = tuple(part.claim for part in parts if isinstance(part.claim, OddsClaim))
        return cls(SeveralClaim(names, tuple(part.method for part in parts), claims), parts)
