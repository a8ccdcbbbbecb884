"""What is asked of randomized response, in a policy's words, and its answer: other requests are tried the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible
from sfumato.methods.response.axes import Axes
from sfumato.methods.response.objectives import Kappa, ObjectiveName, uniform_error
from sfumato.methods.response.problem import Limit, Problem, Response, Scope, pose
from sfumato.methods.response.risks import RISKS, Risk, RiskName
from sfumato.methods.response.settling import settled
from sfumato.methods.response.solver import answer
from sfumato.values.profile import Profile
from sfumato.values.requirement import RiskLimit

ScopeWord = Literal["sensitive", "quasi-identifiers", "both"]
ObjectiveWord = Literal["l2", "chi-square"]
SCOPES: dict[ScopeWord, Scope] = {"sensitive": "sensitive", "quasi-identifiers": "quasi_identifiers", "both": "both"}
OBJECTIVES: dict[ObjectiveWord, ObjectiveName] = {"l2": "kappa", "chi-square": "chi_square"}
HALF = 0.5
"""Any limit, where only matters whom it holds."""


@dataclass(frozen=True, eq=False)
class Request:
    """A limit on a risk of a profile's joint table, and what may be randomized for it."""

    axes: Axes
    limit: RiskLimit
    risk: RiskName
    scope: ScopeWord
    fixed: tuple[str, ...]
    objective: ObjectiveWord

    @classmethod
    def of(
        cls,
        profile: Profile,
        limit: RiskLimit,
        risk: RiskName,
        scope: ScopeWord,
        fixed: Sequence[str],
        objective: ObjectiveWord,
    ) -> Request:
        """Return the request; quasi-identifiers that stay as they are share an axis."""
        axes = Axes.of(profile, profile.quasi_identifiers if scope == "sensitive" else fixed)
        return cls(axes, limit, risk, scope, tuple(fixed), objective)

    @property
    def problem(self) -> Problem:
        """The same as mathematics."""
        return self._posed(self.axes.exact_limits(self.limit))

    def _posed(self, limits: Limit) -> Problem:
        axes, fixed = self.axes, [len(self.axes.own)] if self.axes.shared else []
        return pose(axes.table, limits, self.risk, SCOPES[self.scope], fixed, OBJECTIVES[self.objective])

    def best(self) -> Response:
        """Return the parameters with the least cost; raise `Infeasible` if there are none."""
        return answer(self.problem)

    def answered(self) -> Response:
        """Return those that are published, on the grid next to the best; raise `Infeasible` if there are none."""
        return self.settled(self.best())

    def settled(self, best: Response) -> Response:
        """Return the parameters on the grid that are next to these."""
        return settled(self.problem, best)

    def held_by(self, number: int) -> npt.NDArray[np.bool_]:
        """Return which cells, [groups, d_s], one of the stated limits holds: also where it is not the strictest."""
        return (self.axes.table.counts > 0) & np.isfinite(self._alone(number).own_limits)

    def largest_held_by(self, number: int, point: Risk) -> float:
        """Return the largest risk that one of the stated limits holds."""
        return float(self._alone(number).ratio(point).max()) * HALF

    def _alone(self, number: int) -> Problem:
        """Return the problem with one half in place of a stated limit, and no others."""
        return self._posed(np.where(self.axes.strictest(self.limit) == number, HALF, 1.0))

    # --- what it costs ------------------------------------------------------------------------------------------------

    @property
    def fits(self) -> bool:
        """Whether the domain is small enough to be evaluated."""
        try:
            return self.axes.table.fits(RISKS[self.risk].dense)
        except Infeasible:  # too large even to be counted
            return False

    @property
    def seconds(self) -> float:
        """About how long an answer takes."""
        return self.axes.table.search_seconds(RISKS[self.risk].dense)

    def squared_error(self, found: Response) -> float:
        """E ||pi_hat - pi||^2 of the inverse estimate."""
        return Kappa(self.axes.table).expected_error(found.channels)

    @property
    def uniform_error(self) -> float:
        """The same of one who holds all combinations to be alike, without any release."""
        return uniform_error(self.axes.table, self.axes.profile.domain.size)

    def is_useful(self, found: Response) -> bool:
        """Whether the release is of more use than none."""
        return self.squared_error(found) <= self.uniform_error
