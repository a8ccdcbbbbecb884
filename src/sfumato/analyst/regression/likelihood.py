"""The likelihood of what was published: smaller errors where the model is right, and another coefficient where not.

    l = sum omega_i log sum_k L_ik p(Y_k | v_i; beta)        L_ik = Pr[published y_i | k]

With tau the posterior of the states, s_i = sum_k tau psi, I_C = sum omega h the information of complete data,

    I_F = I_C - sum omega (sum_k tau psi psi' - s s')        Louis

Errors: population I_F^-1 if the model is right, I_F^-1 (sum omega^2 s s') I_F^-1 if it is not or rows have weights. For
the table Var(beta_F - beta_T) = I_F^-1 - I_C^-1, if the model is right: there is no claim for one table beyond that.

l is not concave. Steps I_C^-1 U (three times, and where I_F is not definite) are followed by Newton's; they are halved
until l does not fall. It starts at the inverse estimate and at the naive one; the larger l counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import add
from statistics import NormalDist

import numpy as np

from sfumato.analyst.regression.blocks import Block
from sfumato.analyst.regression.crossproducts import Crossed
from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.families import Linear, Poisson
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.result import Fit
from sfumato.analyst.regression.solution import Solution
from sfumato.analyst.regression.solving import LONGEST_MOVE
from sfumato.analyst.regression.sums import gram
from sfumato.analyst.regression.variance import not_negative
from sfumato.errors import CannotMeet, UsageError
from sfumato.values.arrays import FloatArray

INSTEAD = "Use the method 'inverse'."
FIRST_STEPS = 3
MOST_STEPS = 300
STILL = 1e-14
IF_RIGHT = "Errors given the table hold only if the model is right: no model, no claim about this table."


@dataclass(frozen=True, eq=False)
class Forward:
    """l and its derivatives at some coefficients."""

    value: float
    score: FloatArray  # (q,)
    complete: FloatArray  # (q, q) I_C
    observed: FloatArray  # (q, q) I_F
    squares: FloatArray  # (q, q) the sum of omega^2 s s'
    weighted: bool

    def __add__(self, other: Forward) -> Forward:
        return Forward(
            self.value + other.value,
            self.score + other.score,
            self.complete + other.complete,
            self.observed + other.observed,
            self.squares + other.squares,
            self.weighted or other.weighted,
        )


def forward(equations: Equations, beta: FloatArray) -> Forward:
    """Return l and its derivatives."""
    return reduce(add, (_of_block(block, beta) for block in equations.blocks()))


def posterior_residual(block: Block, beta: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return log sum_k L p, (R,); sum_k tau residual, (R, e); the covariance of the residual under tau, (R, e, e)."""
    cells, eta = block.cells, block.predictor(beta)
    density = np.broadcast_to(np.exp(block.family.log_density(cells.outcome, eta)), block.shape)
    residual = np.broadcast_to(block.indicated - block.family.mean(eta), (*block.shape, eta.shape[-1]))
    if cells.pattern is not None:
        density, residual = density[cells.pattern], residual[cells.pattern]
    assert cells.chances is not None
    joint = cells.chances * density
    total = joint.sum(axis=1)
    tau = joint / total[:, None]
    mean = np.einsum("rk,rke->re", tau, residual)
    around = residual - mean[:, None]
    return np.log(total), mean, np.einsum("rk,rke,rkf->ref", tau, around, around)


def _of_block(block: Block, beta: FloatArray) -> Forward:
    cells = block.cells
    log_density, mean, spread = posterior_residual(block, beta)
    weight = block.family.weight(block.family.mean(block.predictor(beta)))[:, 0]
    design = cells.design[:, 0]
    if cells.pattern is not None:
        weight, design = weight[cells.pattern], design[cells.pattern]
    crossed = Crossed(design)
    count, squares = cells.count[:, None, None], cells.squares[:, None, None]
    complete = gram(crossed, weight * count)
    return Forward(
        float(cells.count @ log_density),
        ((mean * cells.count[:, None]).T @ design).ravel(),
        complete,
        complete - gram(crossed, spread * count),
        gram(crossed, squares * mean[:, :, None] * mean[:, None, :]),
        bool((cells.count != cells.squares).any()),
    )


def maximised(equations: Equations, start: FloatArray) -> tuple[FloatArray, Forward]:
    """Return the coefficients that no step improves, from a start."""
    beta, at = start, forward(equations, start)
    for number in range(MOST_STEPS):
        step = _step(equations, at, first=number < FIRST_STEPS)
        still = number >= FIRST_STEPS and float(at.score @ step) < STILL
        beta, at = _risen(equations, beta, at, step)
        if still:
            return beta, at
    raise CannotMeet("The release does not say: the likelihood has no maximum.", INSTEAD)


def _step(equations: Equations, at: Forward, *, first: bool) -> FloatArray:
    definite = not first and np.linalg.eigvalsh(at.observed)[0] > 0
    step = np.asarray(np.linalg.solve(at.observed if definite else at.complete, at.score), dtype=np.float64)
    reach = equations.reach(step)
    return step if reach <= LONGEST_MOVE else step * (LONGEST_MOVE / reach)


def _risen(equations: Equations, beta: FloatArray, at: Forward, step: FloatArray) -> tuple[FloatArray, Forward]:
    for _ in range(40):
        after = forward(equations, beta + step)
        if after.value >= at.value - 1e-12 * abs(at.value):
            return beta + step, after
        step = step / 2
    return beta, at


def require_likelihood(equations: Equations, instead: str = INSTEAD) -> None:
    """Raise UsageError where the likelihood would need a model of what the formula says nothing about."""
    why = _why_not(equations)
    if why:
        raise UsageError(f"There is no likelihood of {why}.", instead)


def _why_not(equations: Equations) -> str:
    if equations.source.buckets is not None:
        return "a release by buckets: its records were dealt together"
    if equations.told_apart:
        return "a randomized covariate: it would need a model of that column, and be biased where the model is wrong"
    if isinstance(equations.family, (Linear, Poisson)):
        return f"a randomized outcome of family {equations.family.name!r}: it would need the distribution of its errors"
    if not equations.whole:
        return "rows that are read in parts"
    if any(block.cells.used is not None for block in equations.blocks()):
        return "an outcome with missing values: make missing a class of its own (family 'multinomial')"
    if any(block.cells.chances is None for block in equations.blocks()):
        return "this outcome: the chance of what was published depends on more than the values of the formula"
    return ""


def fit_likelihood(solution: Solution) -> Fit:
    """Return the fit by likelihood; errors of weighted rows do not trust the model."""
    equations = solution.equations
    require_likelihood(equations)
    beta, at = best_maximum(solution)
    inverse = np.asarray(np.linalg.inv(at.observed), dtype=np.float64)
    sandwich: FloatArray = inverse @ at.squares @ inverse
    population = sandwich if at.weighted else inverse
    table = not_negative(inverse - np.linalg.inv(at.complete))
    return Fit(
        names=equations.names,
        family=equations.family,
        method="likelihood",
        coefficients=beta,
        table=table,
        population=population,
        naive=solution.naive.infinite,
        rows=solution.rows,
        used=solution.used,
        log_likelihood=at.value,
        information=at.observed,
        strength=np.full(beta.size, np.inf),
        slack=np.zeros(beta.size),
        intervals_by="wald",
        notes=(IF_RIGHT,),
        ends=_ends(beta, table, population),
        solution=solution,
    )


def best_maximum(solution: Solution) -> tuple[FloatArray, Forward]:
    """Return the larger of the maxima from the inverse estimate and from the naive one."""
    starts = (np.where(p.edge, np.sign(p.beta), p.beta) for p in (solution.best, solution.naive))
    return max((maximised(solution.equations, start) for start in starts), key=lambda found: found[1].value)


def _ends(beta: FloatArray, table: FloatArray, population: FloatArray) -> Callable[[Target, float], FloatArray]:
    def ends(target: Target, level: float) -> FloatArray:
        covariance = table if target == "table" else population
        margin = NormalDist().inv_cdf((1 + level) / 2) * np.sqrt(np.diag(covariance))
        return np.asarray(beta[:, None] + margin[:, None] * [-1, 1])

    return ends
