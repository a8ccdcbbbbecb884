"""Bounds on odds by steps of an order: what neighbours can be told apart by, and so values a few steps apart.

    max_y P[y, x] / P[y, x'] <= r   for neighbours x, x';        r^W <= gamma

Values d steps apart have a ratio of at most r^d. So for someone who already knows a record's value up to W steps (who
holds at most W + 1 neighbouring values to be possible) the odds of every statement change by at most gamma: both halves
of (rho1, rho2) follow as for one factor. For everybody else they change by the largest ratio of a row, r^(m-1) at most,
which is the factor of the mechanism's own bounds: "x >= c" can move by that much, and the sentence says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from sfumato.claims.claim import BOTH, Check, Guarantee, Plain, Published, Shape, outcome, percent, rounded_up
from sfumato.claims.odds import OddsClaim, follows
from sfumato.claims.plain import BELIEF, after, moved
from sfumato.claims.why import Step, number
from sfumato.values.bound import strictest_gamma
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import NO_BOUND, Bound, Mechanism, bound_keys, read_bound
from sfumato.values.order import codes_in_order


@dataclass(frozen=True)
class StepsClaim(OddsClaim):
    """By how much odds may change for someone who knows a record's value up to some steps, and for everybody."""

    steps: int = 1
    bound: Bound = NO_BOUND

    @classmethod
    def read(cls, odds: OddsClaim, raw: dict[str, Any]) -> StepsClaim:
        """Return what `written` gave, with all that is claimed besides."""
        bound = read_bound(raw["bound"])
        if bound.gamma is None:
            raise ValueError("a promise for values some steps apart has no gamma")
        if (odds.scope, odds.directions) != ("any predicate", BOTH):
            raise ValueError("a promise for values some steps apart is of any statement, in both directions")
        return cls(**vars(odds), steps=raw["steps"], bound=bound)

    def written(self) -> dict[str, Any]:
        """Return the steps and their bound, for plans and manifests."""
        return {"steps": self.steps, "bound": bound_keys(self.bound)}

    def guarantee(self, shape: Shape) -> Guarantee:
        """Return both promises: within the steps, and to everybody."""
        found, name = super().guarantee(shape), shape.mechanisms[0].domain.name
        far = rounded_up(_far(shape.mechanisms[0]))
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        return replace(
            found,
            sentence=(
                f"For any statement about a record's {name}, and someone who already knows it up to {steps} (one of "
                f"{self.steps + 1} neighbouring values): {self._near()}. For everybody else its odds change by at most "
                f"the factor {far}."
            ),
            prior=(
                f"Any prior that leaves at most {self.steps + 1} neighbouring values possible, also one that depends "
                f"on the record's quasi-identifiers; any other one with the factor {far}."
            ),
            limits=(
                f"Not one factor for all: that {name} is at least some value can change its odds by up to the factor "
                f"{far}, for someone who did not know it up to {steps}. Values far apart are told apart better "
                "than near ones.",
                *found.limits,
            ),
        )

    def plain(self, shape: Shape) -> Plain:
        """Return how sure someone can become who already knows a value up to some steps."""
        found, name = super().plain(shape), shape.mechanisms[0].domain.name
        far = _far(shape.mechanisms[0])
        steps = "1 step" if self.steps == 1 else f"{self.steps} steps"
        near = moved(self.bound, f"anything about a record's {name}", both=True)
        promise = (
            f"{near} That is for people who know it up to {steps} already. Anyone else {percent(BELIEF)} sure will not "
            f"get above {after(far, BELIEF)}."
        )
        return found._replace(promise=promise, gaps=(f"telling values more than {steps} apart", *found.gaps))

    def why(self, shape: Shape) -> Iterator[Step]:
        """Yield the bound on all values, then that within the steps: ratios of neighbours multiply."""
        yield from super().why(shape)
        mechanism = shape.mechanisms[0]
        ratio = mechanism.matrix.largest_step(codes_in_order(mechanism.domain.parts[0]))
        if ratio is not None and self.bound.gamma is not None:
            yield Step(
                f"Within {self.steps} step(s): from one value to its neighbour a row changes by one ratio at most",
                (f"({number(ratio)})^{self.steps} = {number(ratio**self.steps)} <= {number(self.bound.gamma)}",),
            )

    def _near(self) -> str:
        assert self.bound.gamma is not None
        if self.bound.rho1 is None or self.bound.rho2 is None:
            return f"seeing the release lets its odds change by at most the factor {rounded_up(self.bound.gamma)}"
        rho1, rho2 = percent(self.bound.rho1), percent(self.bound.rho2)
        return (
            f"a prior belief of at most {rho1} stays at most {rho2} after seeing the release, and of at least {rho2} "
            f"stays at least {rho1}"
        )

    def checks(self, published: Published) -> Iterator[Check]:
        yield from super().checks(published)
        yield self._within_steps(published.mechanisms[0])

    def proofs(self, mechanism: Mechanism) -> Iterator[Check]:
        yield from super().proofs(mechanism)
        yield self._within_steps(mechanism)

    def _within_steps(self, mechanism: Mechanism) -> Check:
        return outcome(
            "guarantee, within steps",
            follows(self.bound) and mechanism.is_whole and self.keeps(mechanism.matrix, mechanism),
            f"Neighbours keep the factor over {self.steps} step(s) in every row, in exact integers.",
            f"Values {self.steps} step(s) apart can be told apart by more than the stated factor.",
        )

    def keeps(self, matrix: Matrix, mechanism: Mechanism) -> bool:
        """Whether the ratio of neighbours, to the power of the steps, is within the bound, exactly."""
        return within_steps(matrix, codes_in_order(mechanism.domain.parts[0]), self.steps, self.bound)


def _far(mechanism: Mechanism) -> Fraction:
    """Return the factor for those who do not know a value up to some steps."""
    strictest = strictest_gamma(mechanism.bounds)
    if strictest is None:
        raise ValueError("a promise for values some steps apart needs a bound on all of them")
    return strictest


def within_steps(matrix: Matrix, order: list[int], steps: int, bound: Bound) -> bool:
    """Whether neighbours in an order of all values keep a bound over so many steps, exactly."""
    if len(order) != matrix.size or bound.gamma is None:
        return False
    ratio = matrix.largest_step(order)
    return ratio is not None and ratio**steps <= bound.gamma
