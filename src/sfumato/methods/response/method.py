"""Randomized response as a method: its words, its planner, and what its plan must meet."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfumato.methods.plan import Plan
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.options import ResponseOptions
from sfumato.values.attributes import Schema
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, RiskLimit


class RandomizedResponse(ResponseOptions):
    """Randomized response of the quasi-identifiers, the sensitive columns, or both (`scope`).

    `risk` is what the requirement limits: "posterior" (the default) or "link", which are proved, or "reconstruction",
    which is as published. Quasi-identifiers that are `fixed` stay as they are. `objective` is the cost that is
    minimised.
    """

    name = "randomized-response"
    title = "randomized response"
    promise = (
        "The belief in a value is bounded for someone who sees the published quasi-identifiers of a row and nothing "
        "else; not for someone who knows a person's true ones and how values depend on them."
    )
    avoid_if = (
        "someone may know a person's true age, sex and the like and how the secret depends on them, or these columns "
        "have many values."
    )
    slow_to_plan = True
    takes = (RiskLimit,)
    figures = ResponseFigures
    counts_jointly = True
    rechecks = True
    why_not_one = "the risk is that of the published rows, and which ones these are is known only when they are drawn"

    def counted(self, columns: Schema) -> tuple[str, ...]:
        return tuple(columns.names("quasi_identifier"))

    def randomized(self, columns: Schema) -> tuple[str, ...]:
        return self.counted(columns)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        from sfumato.methods.response import planner

        return planner.plan(profile, requirement, self)

    @classmethod
    def walked_to_plan(cls, sizes: Sequence[int]) -> int:
        from sfumato.methods.response.joint import MOST_CELLS, searched_cells

        cells = math.prod(sizes)
        return searched_cells(len(sizes) - 1, cells) if cells <= MOST_CELLS else 0

    def hides(self, columns: Schema, names: Sequence[str]) -> bool:
        """Whether they are counted columns; `recheck` tells whether they are those in scope."""
        return set(names) <= {*self.counted(columns), *columns.names("sensitive")}

    def limits(self, figures: ResponseFigures) -> tuple[str, ...]:
        from sfumato.methods.response import planner

        return tuple(planner.own_row_limit(figures))

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        return requirement, self.limited_risk, self.scope, self.fixed, self.objective

    def released_as(self) -> RandomizedResponse:
        """Return the scope of quasi-identifiers for both, where the risk does not depend on noise in the secret."""
        from sfumato.methods.response.risks import RISKS

        is_wider = self.scope == "both" and not RISKS[self.limited_risk].sees_sensitive
        return self.model_copy(update={"scope": "quasi-identifiers"}) if is_wider else self

    @classmethod
    def label(cls, options: Mapping[str, Any]) -> str:
        return f"{cls.name} ({options['scope']})"

    @classmethod
    def compared(cls, known: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
        yield from ({"scope": scope} for scope in ("quasi-identifiers", "sensitive", "both"))
