"""What a policy states of randomized response: the options, which go together, and for which columns."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sfumato.methods.method import Method
from sfumato.methods.response.problem import ObjectiveName, Scope
from sfumato.methods.response.risks import RiskName
from sfumato.values.attributes import Schema
from sfumato.values.text import did_you_mean


class ResponseOptions(Method):
    """The options of randomized response, as they are planned with."""

    scope: Annotated[Scope, Field(description="Which columns may be randomized.")] = "both"
    risk: Annotated[
        RiskName | None,
        Field(description="What is limited. posterior and link are proved; reconstruction is as published."),
    ] = None
    fixed: Annotated[
        tuple[str, ...], Field(strict=False, description="Columns that others may know and that stay as they are.")
    ] = ()
    objective: Annotated[ObjectiveName, Field(description="The cost that is kept as small as it can be.")] = "l2"

    @property
    def limited_risk(self) -> RiskName:
        """The risk that is limited: by default the one of the assurance."""
        return self.risk or ("posterior" if self.assurance == "proved" else "reconstruction")

    @model_validator(mode="after")
    def _risk_fits(self) -> ResponseOptions:
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
