"""Solving the equations: Newton from the naive fit, with levels that run off to infinity closed at an edge.

The step is shortened so that no linear predictor moves by more than 1.5, and halved while the largest U_j/sqrt(scale_j)
grows by more than half. Where the corrected events of a level are not positive its coefficient runs to -inf (and to inf
where the events that did not happen are not): that is the negative count of a regression, and no error. Such an
indicator is held at the edge, +-20, and the others go on. A solution counts only if H is positive definite on the free
coefficients, what is held at the edge would go on outwards, and the others do not depend on where the edge is.

Where Newton fails, weights move from the naive ones to the corrected ones in five stages: in expectation both parts are
concave, so the path is regular.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.sums import Sums
from sfumato.errors import CannotMeet
from sfumato.values.arrays import BoolArray, FloatArray

EDGE = 20.0
"""An indicator's coefficient beyond it is infinite: e^-20 of a level's rows is no event."""
LONGEST_MOVE = 1.5
MORE_EVENTS = "Ask `sfumato power` what can be told from 0, or take a more frequent outcome."
"""What to do about a level without events, where no third level could be merged with it."""
LEANS = 0.01
"""How far a coefficient may move when the edge moves by one."""
STILL = 1e-12
NEARLY_STILL = 1e-8
MOST_STEPS = 120
STAGES = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True, eq=False)
class Point:
    """Coefficients, which of them are free, and the equations there."""

    beta: FloatArray
    free: BoolArray
    edge: BoolArray  # which ran off, and are held there
    sums: Sums
    solved: bool = False

    @property
    def inner(self) -> FloatArray:
        """H of the free coefficients."""
        return self.sums.information[np.ix_(self.free, self.free)]

    @property
    def definite(self) -> bool:
        """Whether H is positive definite on the free coefficients, beyond rounding."""
        return is_definite(self.inner, self.sums.scale[self.free])

    @property
    def infinite(self) -> FloatArray:
        """The coefficients, with -inf and inf for those at the edge."""
        return np.where(self.edge, np.copysign(np.inf, self.beta), self.beta)


def is_definite(information: FloatArray, scale: FloatArray) -> bool:
    """Return whether H is positive definite; `scale` is what its diagonal would be if nothing cancelled."""
    if not np.isfinite(information).all() or (scale <= 0).any():
        return False
    unit = 1 / np.sqrt(scale)
    return bool(information.size == 0 or np.linalg.eigvalsh(information * unit * unit[:, None])[0] > 1e-13)


def solved(equations: Equations, start: FloatArray, *, held: BoolArray | None = None) -> Point:
    """Return the root of U near a start, coefficients in `held` staying where they are; `solved` tells if it is one."""
    free = np.ones(start.size, dtype=np.bool_) if held is None else ~held
    point = newton(equations, start, free)
    if point.solved or not equations.whole:
        return point
    return _continued(equations, naive_fit(equations, start, free))


def naive_fit(equations: Equations, start: FloatArray, free: BoolArray | None = None) -> Point:
    """Return the fit that takes what is published as true; it is concave."""
    free = np.ones(start.size, dtype=np.bool_) if free is None else free
    return newton(equations, np.where(free, 0.0, start), free, share=0.0)


def _continued(equations: Equations, naive: Point) -> Point:
    point = naive
    for share in STAGES:
        point = newton(equations, point.beta, point.free, edge=point.edge, share=share)
    return point


def newton(
    equations: Equations, start: FloatArray, free: BoolArray, *, edge: BoolArray | None = None, share: float = 1.0
) -> Point:
    """Return where Newton's steps lead; see the top."""
    point = Point(start, free, np.zeros_like(free) if edge is None else edge, equations.sums(start, share))
    last = np.inf
    for _ in range(MOST_STEPS):
        step = newton_step(equations, point)
        size = float(np.abs(step / (1 + np.abs(point.beta))).max(initial=0))
        if not np.isfinite(size):
            return point
        if size <= STILL or (last <= NEARLY_STILL and size >= last / 2):  # rounding keeps it from getting smaller
            return replace(point, solved=point.definite and settled(point))
        moved = _halved(equations, point, step, share)
        point = closed_edges(equations, moved)
        if point is not moved:
            point = replace(point, sums=equations.sums(point.beta, share))
        last = size if equations.family.curved else min(size, NEARLY_STILL)
    return point


def _step(point: Point) -> FloatArray:
    """Return H^-1 U for the free coefficients; uphill where H is not definite."""
    step = np.zeros_like(point.beta)
    if not np.isfinite(point.inner).all():
        return np.full_like(step, np.nan)
    unit = 1 / np.sqrt(np.maximum(point.sums.scale[point.free], np.finfo(np.float64).tiny))
    values, vectors = np.linalg.eigh(point.inner * unit * unit[:, None])
    values = np.maximum(np.abs(values), 1e-14)
    with np.errstate(over="ignore", invalid="ignore"):  # a step that is no number ends the search
        step[point.free] = unit * (vectors @ ((vectors.T @ (unit * point.sums.score[point.free])) / values))
    return step


def newton_step(equations: Equations, point: Point) -> FloatArray:
    """Return the step, no longer than a linear predictor may move; nan where H is no number."""
    step = _step(point)
    if not equations.family.curved or not np.isfinite(step).all():
        return step
    reach = equations.reach(step)
    return step if reach <= LONGEST_MOVE else step * (LONGEST_MOVE / reach)


def _halved(equations: Equations, point: Point, step: FloatArray, share: float) -> Point:
    limit = max(1.5 * _distance(point), 1e-9)
    for _ in range(30):
        beta = point.beta + step
        moved = replace(point, beta=beta, sums=equations.sums(beta, share))
        if _distance(moved) <= limit:
            break
        step = step / 2
    return moved


def _distance(point: Point) -> float:
    """Return the largest |U_j|/sqrt(scale_j) of the free coefficients."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (np.abs(point.sums.score) / np.sqrt(point.sums.scale))[point.free]
    return float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0))


def closed_edges(equations: Equations, point: Point) -> Point:
    """Hold indicators at the edge that have passed it; the sums are those before."""
    gone = point.free & equations.indicator & (np.abs(point.beta) >= EDGE)
    if not gone.any() or not equations.family.curved:
        return point
    beta = np.where(gone, np.copysign(EDGE, point.beta), point.beta)
    return replace(point, beta=beta, free=point.free & ~gone, edge=point.edge | gone)


def settled(point: Point) -> bool:
    """Return whether what is held at the edge would go on outwards, and no other coefficient depends on the edge."""
    push = (np.sign(point.beta) * point.sums.score)[point.edge]
    outwards = bool((push >= -1e-6 * (1 + np.sqrt(point.sums.scale[point.edge]))).all())
    return outwards and not _leans(point)


def _leans(point: Point) -> bool:
    """Return whether free coefficients move with the edge: then it is a reference level that has no events."""
    across = point.sums.information[np.ix_(point.free, point.edge)]
    return bool(np.abs(np.linalg.solve(point.inner, across)).max(initial=0) > LEANS)


def require_solved(equations: Equations, point: Point) -> Point:
    """Raise CannotMeet unless the point is a solution."""
    if point.solved:
        return point
    if point.definite and point.edge.any() and _leans(point):
        at_edge = np.flatnonzero(point.edge)
        named = ", ".join(equations.names[j] for j in at_edge)
        opposite = [equations.opposite[j] for j in at_edge]
        if all(opposite):
            raise CannotMeet(
                f"The release does not say: {' and '.join(opposite)} cannot be told from 0, or from all of them. So "
                f"{named} has nothing to be compared with.",
                MORE_EVENTS,
            )
        raise CannotMeet(
            f"The release does not say: the reference level that {named} is compared with has no events left after "
            "correction, or nothing else.",
            "Take another level as the reference, merge it with one, or take a more frequent outcome.",
        )
    raise CannotMeet(_why_not(equations, point), "Use fewer levels, family 'linear', or fewer randomized columns.")


def _why_not(equations: Equations, point: Point) -> str:
    diverged = point.free & (np.abs(point.beta) > EDGE)
    if equations.family.curved and diverged.any():
        named = ", ".join(f"{equations.names[j]} (at {point.beta[j]:.3g})" for j in np.flatnonzero(diverged))
        return f"The release does not say: the equations have no solution. A coefficient grows without end: {named}."
    if not point.definite:
        return "The release does not say: its corrected information matrix is not positive definite."
    return "The release does not say: the corrected equations have no solution."
