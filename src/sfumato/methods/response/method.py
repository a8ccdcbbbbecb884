"""Randomized response as a method: its options, its words, and what its plan must meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import Field, model_validator

from sfumato.methods.method import Method
from sfumato.methods.plan import Plan
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.problem import ObjectiveName, Scope
from sfumato.methods.response.risks import RiskName
from sfumato.values.attributes import Schema
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, RiskLimit
from sfumato.values.text import did_you_mean


class RandomizedResponse(Method):
    """Randomized response of the quasi-identifiers, the sensitive columns, or both (`scope`).

    `risk` is what the requirement limits: "posterior" (the default) or "link", which are proved, or "reconstruction",
    which is as published. Quasi-identifiers that are `fixed` stay as they are. `objective` is the cost that is
    minimised.
    """

    name = "randomized-response"
    title = "randomized response"
    promise = (
        "The belief in a value is bounded for who sees the published quasi-identifiers of a row and nothing else; not "
        "for one who knows a person's true ones and how values depend on them."
    )
    takes = (RiskLimit,)
    figures = ResponseFigures
    counts_jointly = True
    rechecks = True
    why_not_one = "the risk is that of the published rows, and which ones these are is known only when they are drawn"

    scope: Scope = "both"
    risk: RiskName | None = None
    fixed: Annotated[tuple[str, ...], Field(strict=False)] = ()
    objective: ObjectiveName = "l2"

    @property
    def limited_risk(self) -> RiskName:
        """The risk that is limited: by default the one of the assurance."""
        return self.risk or ("posterior" if self.assurance == "proved" else "reconstruction")

    @model_validator(mode="after")
    def _risk_fits(self) -> RandomizedResponse:
        if (self.limited_risk == "reconstruction") != (self.assurance == "as-published"):
            raise ValueError(
                f'the risk {self.limited_risk} does not go with assurance = "{self.assurance}": reconstruction (AD as '
                "published) bounds no inference; posterior and link are the ones that are proved"
            )
        if self.scope == "sensitive" and self.limited_risk != "reconstruction":
            raise ValueError(
                f'scope = "sensitive" randomizes nothing that the risk {self.limited_risk} depends on: noise in the '
                "sensitive columns does not lower it"
            )
        return self

    def check(self, columns: Schema) -> None:
        """Raise unless there is something to link by, and something left to randomize."""
        names = columns.names("quasi_identifier")
        if not names:
            raise ValueError(
                "no column is a quasi_identifier: randomized-response limits what is learned by linking on these; give "
                'a column that others may know role = "quasi_identifier"'
            )
        if wrong := [name for name in self.fixed if name not in names]:
            raise ValueError(
                f"method.fixed names {wrong[0]!r}, which is not a quasi_identifier{did_you_mean(wrong[0], names)}"
            )
        if set(names) <= set(self.fixed) and (
            self.scope == "quasi-identifiers" or self.limited_risk != "reconstruction"
        ):
            raise ValueError("all quasi-identifiers are fixed: nothing is left that could lower the risk")

    def counted(self, columns: Schema) -> tuple[str, ...]:
        return tuple(columns.names("quasi_identifier"))

    def randomized(self, columns: Schema) -> tuple[str, ...]:
        return self.counted(columns)

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        from sfumato.methods.response import planner

        return planner.plan(profile, requirement, self)

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        return requirement, self.limited_risk, self.scope, self.fixed, self.objective

    @classmethod
    def label(cls, options: Mapping[str, Any]) -> str:
        return f"{cls.name} ({options['scope']})"

    @classmethod
    def compared(cls, known: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
        yield from ({"scope": scope} for scope in ("quasi-identifiers", "sensitive", "both"))
