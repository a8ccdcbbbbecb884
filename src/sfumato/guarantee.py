"""The guarantee: what is promised, against whom, and its exact re-check on the integer matrix.

    upward    max_y P[y,i] / min_{k != i} P[y,k] <= gamma_i     a prior of at most rho1_i stays at most rho2_i
    downward  max_y max_{k != i} P[y,k] / P[y,i] <= gamma_i     a prior of at least rho2_i stays at least rho1_i

Both are equivalences: a matrix that fails one has a prior for which the bound is broken (`counterexample`). FG
Theorem 1 claims both from the first alone; that is not so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sfumato.attributes import SensitiveDomain
from sfumato.matrix import PerturbationMatrix
from sfumato.requirement import Bound

Direction = Literal["upward", "downward"]
Scope = Literal["any predicate", "single values"]
BOTH: tuple[Direction, ...] = ("upward", "downward")
UPWARD: tuple[Direction, ...] = ("upward",)

ADVERSARY = (
    "Knows the matrix, all quasi-identifiers, who is in the table and the values of any other records; "
    "holds records to be independent; sees the release once."
)


@dataclass(frozen=True)
class Guarantee:
    """One sentence, with its adversary, prior and scope. `limits` say what it does not cover."""

    sentence: str
    adversary: str
    prior: str
    scope: Scope
    directions: tuple[Direction, ...]
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """A value whose odds can change by more than its gamma. `factor` None: without bound."""

    code: int
    direction: Direction
    factor: Fraction | None
    gamma: Fraction


def violations(
    matrix: PerturbationMatrix, bounds: Sequence[Bound], directions: Sequence[Direction]
) -> Iterator[Violation]:
    """Yield every value and direction in which the integer matrix breaks its bound, exactly."""
    factors = {"upward": matrix.upward, "downward": matrix.downward}
    for direction in directions if matrix.size > 1 else ():
        for code, bound in enumerate(bounds):
            if bound.gamma is None:
                continue
            factor = factors[direction](code)
            if factor is None or factor > bound.gamma:
                yield Violation(code, direction, factor, bound.gamma)


@dataclass(frozen=True)
class Counterexample:
    """A prior on two values and a published value after which the odds of `code` leave the bound."""

    code: int
    rival: int
    prior: Fraction
    posterior: Fraction
    limit: Fraction

    def told(self, domain: SensitiveDomain) -> str:
        """Return it in a sentence."""
        value, rival = domain.labels[self.code], domain.labels[self.rival]
        return (
            f"with a prior of {_share(self.prior)} for {value!r} and {_share(1 - self.prior)} for {rival!r}, "
            f"a published {rival!r} lowers the posterior of {value!r} to {_share(self.posterior)}, "
            f"below rho1 = {_share(self.limit)}"
        )


def counterexample(matrix: PerturbationMatrix, bounds: Sequence[Bound]) -> Counterexample | None:
    """Return the worst downward breach among values stated with (rho1, rho2), or None if there is none.

    The prior puts rho2_i on x_i and the rest on the least noisy other value x_k; x_k is published. FG Example 1: SARS
    1/7, another value 6/7; the posterior of SARS is 1/13, below its rho1 of 1/10.
    """
    found: Counterexample | None = None
    for violation in violations(matrix, bounds, ("downward",)):
        bound, i = bounds[violation.code], violation.code
        if bound.rho1 is None or bound.rho2 is None:
            continue
        k = matrix.quietest_except(i)
        stays = bound.rho2 * int(matrix.noise[i])
        posterior = stays / (stays + (1 - bound.rho2) * matrix.diagonal_weight(k))
        candidate = Counterexample(i, k, bound.rho2, posterior, bound.rho1)
        if found is None or posterior / bound.rho1 < found.posterior / found.limit:
            found = candidate
    return found


def _share(x: Fraction) -> str:
    return f"{float(x):.4g}"
