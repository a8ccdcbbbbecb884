"""Score intervals: the values of a coefficient at which the equations, solved for all others, are within their noise.

For coefficient j and a value b hold beta_j = b, solve for the others, and let e_j = 1, e_free = -H_ff^-1 H_fj:

    T_j(b) = e'U / sqrt(e'V e)        interval = {b : |T_j(b)| <= z}

V is that of the target. T falls with b. It is Fieller's interval of a regression, and holds for rare levels where the
estimate +- z standard errors does not. An end that is not met before the edge is infinite.

An end is mostly near the estimate +- z standard errors, and the others move little on the way there. Then nothing is
solved in between: e'U does not depend, to first order, on how near the others are to their solution, so that each look
at the equations moves b by a secant step of T and the others by one of Newton's (`_quick_end`). Where that is not so
all others are solved anew for each b (`_end`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.solving import EDGE, LONGEST_MOVE, Point, is_definite, solved
from sfumato.values.arrays import FloatArray

CLOSE = 1e-7
"""How near an end is found, in standard errors."""
MOST_TRIES = 60
MOST_LOOKS = 12
"""At the equations, on the quick way to an end."""
OFF = 1e-5
"""How far the others may be from their solution where T is taken, in what they move with one standard error."""


@dataclass
class _Profile:
    """T of one coefficient; each solution starts from that nearby."""

    equations: Equations
    target: Target
    j: int
    best: Point

    def __post_init__(self) -> None:
        self._near = {float(self.best.beta[self.j]): self.best}

    def __call__(self, b: float) -> float:
        """Return T(b); nan where the others have no solution."""
        point = self._solved(b)
        if not point.solved:
            return float("nan")
        return score_statistic(self.equations, point, self.j, self.target)

    def _solved(self, b: float) -> Point:
        held = np.zeros(self.equations.size, dtype=np.bool_)
        held[self.j] = True
        near = self._near[min(self._near, key=lambda known: abs(known - b))]
        start = near.beta + (b - near.beta[self.j]) * direction(near, self.j)
        point = solved(self.equations, np.where(near.edge, near.beta, start) if near.edge.any() else start, held=held)
        if point.solved:
            self._near[b] = point
        return point


def direction(point: Point, j: int) -> FloatArray:
    """Return e: coefficient j moves by one, and the free ones so that their equations stay solved."""
    e = np.zeros_like(point.beta)
    others = point.free.copy()
    others[j] = False
    H = point.sums.information
    e[others] = -np.linalg.solve(H[np.ix_(others, others)], H[others, j])
    e[j] = 1
    return e


def score_statistic(equations: Equations, point: Point, j: int, target: Target) -> float:
    """Return T_j at a point that solves the equations of the others."""
    e = direction(point, j)
    variance = equations.noise_along(point.beta, e).variance(np.ones(1), target)
    top = float(e @ point.sums.score)
    return top / np.sqrt(variance) if variance > 0 else float(np.copysign(np.inf, top) if top else 0.0)


def score_interval(
    equations: Equations, best: Point, j: int, target: Target, level: float, error: float
) -> tuple[float, float]:
    """Return the interval of coefficient j; `error` is its standard error, nan where it ran off."""
    z = NormalDist().inv_cdf((1 + level) / 2)
    profile = _Profile(equations, target, j, best)
    estimate = float(best.beta[j])
    if best.edge[j]:
        return _one_sided(profile, estimate, z)
    if not error > 0:
        return estimate, estimate
    ends = []
    for side in (-1, 1):
        limit = _limit(equations, best, j, side)
        quick = _quick_end(profile, side, z, error, limit)
        ends.append(_end(profile, estimate, side, z, error, limit) if quick is None else quick)
    return ends[0], ends[1]


# --- the quick way ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Look:
    """At the equations, with coefficient j at b and the others near their solution."""

    beta: FloatArray
    direction: FloatArray  # e
    step: FloatArray  # Newton's, of the others
    statistic: float  # T
    off: float  # how far the others are from their solution, in what they move with one standard error


def _look(profile: _Profile, beta: FloatArray, error: float) -> _Look | None:
    """Return what is seen at some coefficients; None where H is not definite, or there is no noise."""
    equations, j = profile.equations, profile.j
    sums = equations.sums(beta)
    others = profile.best.free.copy()
    others[j] = False
    H, U = sums.information, sums.score
    if not is_definite(H[np.ix_(others, others)], sums.scale[others]):
        return None
    solved = np.linalg.solve(H[np.ix_(others, others)], np.column_stack([-H[others, j], U[others]]))
    e, step = np.zeros_like(beta), np.zeros_like(beta)
    e[others], step[others], e[j] = solved[:, 0], solved[:, 1], 1
    variance, information = equations.noise_along(beta, e).variance(np.ones(1), profile.target), float(e @ H @ e)
    if not (variance > 0 and information > 0):
        return None
    off = float(np.sqrt(np.maximum(U[others] @ step[others], 0) / information)) / error
    return _Look(beta, e, step, float(e @ U) / variance**0.5, off)


def _moved(profile: _Profile, look: _Look, b: float, error: float) -> _Look | None:
    """Return the look with the coefficient at b and the others a step nearer to their solution; None if that is far."""
    move = look.step + (b - look.beta[profile.j]) * look.direction
    if profile.equations.family.curved and profile.equations.moves_beyond(LONGEST_MOVE, move):
        return None
    beta = look.beta + move
    beta[profile.j] = b
    return _look(profile, beta, error)


def _at_estimate(profile: _Profile) -> _Look | None:
    """Return the look at the estimate, where T is 0 and falls by one with every standard error."""
    best = profile.best
    return None if best.edge.any() else _Look(best.beta, direction(best, profile.j), np.zeros_like(best.beta), 0.0, 0.0)


def _quick_end(profile: _Profile, side: int, z: float, error: float, limit: float) -> float | None:
    """Return where -side * T reaches z; None where the way there is not short and smooth."""
    start, look = float(profile.best.beta[profile.j]), _at_estimate(profile)
    known, following, doubt = [(0.0, start)], start + side * z * error, np.inf
    for _ in range(MOST_LOOKS):
        if look is None or not 0 < side * (following - start) < min(3 * z * error, side * (limit - start)):
            return None
        if look.off <= OFF and doubt <= CLOSE * error:
            return following
        look = _moved(profile, look, following, error)
        if look is not None:
            known.append((look.statistic, following))
            following, doubt = _following(known, -side * z)
    return None


def quick_statistic(equations: Equations, best: Point, j: int, target: Target, b: float, error: float) -> float | None:
    """Return T_j(b); None where the way from the estimate is not short and smooth."""
    profile = _Profile(equations, target, j, best)
    look = _at_estimate(profile)
    for _ in range(MOST_LOOKS):
        look = None if look is None else _moved(profile, look, b, error)
        if look is None or look.off <= OFF:
            break
    return None if look is None or look.off > OFF else look.statistic


def _following(known: list[tuple[float, float]], wanted: float) -> tuple[float, float]:
    """Return where T is what is wanted, and how far that may be off: by the polynomial b(T) through the last known.

    The last move, times how much shorter it is than the one before it, says how far the next one would be.
    """
    values, places = np.array(known[-4:]).T
    others = ~np.eye(len(values), dtype=np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares = [np.prod((wanted - values[o]) / (values[k] - values[o])) for k, o in enumerate(others)]
    following = float(np.dot(shares, places))
    last = abs(following - places[-1])
    return following, last * min(1.0, last / max(abs(places[-1] - places[-2]), np.finfo(np.float64).tiny))


def _one_sided(profile: _Profile, edge: float, z: float) -> tuple[float, float]:
    """Return the interval of a coefficient that ran off: a point if even there T is beyond z."""
    side = -np.sign(edge)
    infinite = float(np.copysign(np.inf, edge))
    if abs(score_statistic(profile.equations, profile.best, profile.j, profile.target)) > z:
        return infinite, infinite
    end = _end(profile, edge, side, z, 2.0, -edge)
    return (infinite, end) if edge < 0 else (end, infinite)


def _limit(equations: Equations, best: Point, j: int, side: int) -> float:
    """Return the farthest value that is tried: the edge, or where some linear predictor has moved by twice as much."""
    if equations.indicator[j] and equations.family.curved:
        return side * EDGE
    alone = np.zeros(equations.size)
    alone[j] = 1
    reach = equations.reach(alone)
    return float(best.beta[j]) + side * (2 * EDGE / reach if equations.family.curved and reach else np.inf)


def _end(profile: _Profile, estimate: float, side: float, z: float, error: float, limit: float) -> float:
    """Return where -side * T reaches z on one side of the estimate, or an infinite end."""

    def beyond(b: float) -> float:
        return -side * profile(b) - z

    at_estimate = beyond(estimate) if profile.best.edge[profile.j] else -z
    bracket = _bracketed(beyond, estimate, at_estimate, side, z * error, limit)
    return bracket if isinstance(bracket, float) else _crossing(beyond, *bracket, CLOSE * error)


def _bracketed(
    beyond: Callable[[float], float], estimate: float, value: float, side: float, stride: float, limit: float
) -> float | tuple[float, float, float, float]:
    """Return (inner, its value, outer, its value) around the end, or an infinity if there is none before the limit."""
    inner, shortest = estimate, stride / 100
    while stride > shortest:
        outer = min(inner + stride, limit) if side > 0 else max(inner - stride, limit)
        new = beyond(outer)
        if np.isnan(new):  # too far: the others have no solution there
            stride /= 3
        elif new >= 0:
            return inner, value, outer, new
        elif outer == limit:
            break
        else:
            inner, value = outer, new
    return float(np.copysign(np.inf, side))


def _crossing(
    beyond: Callable[[float], float], low: float, at_low: float, high: float, at_high: float, close: float
) -> float:
    """Return the root between two values of opposite sign: secant steps, halves where these leave the bracket."""
    last, at_last, now, at_now = low, at_low, high, at_high
    for _ in range(MOST_TRIES):
        step = at_now * (now - last) / (at_now - at_last) if at_now != at_last and np.isfinite(at_now) else np.inf
        following = now - step
        if not min(low, high) < following < max(low, high):
            following = (low + high) / 2
        if abs(following - now) <= close:
            return following
        last, at_last = now, at_now
        now, at_now = following, beyond(following)
        if at_now < 0:
            low = now
        else:
            high = now
        if np.isnan(at_now) or abs(high - low) <= close:
            return now
    return now
