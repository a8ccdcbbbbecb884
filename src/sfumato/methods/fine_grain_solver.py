"""The optimal fine-grain retention, exactly and in O(m log m), without a linear-program solver.

A value x_i keeps itself with retention p_i and is otherwise replaced by a value drawn from all m, so
Pr[x_i -> y_i] = p_i + q_i and Pr[x_i -> y_j] = q_i = (1 - p_i)/m. Each value has a requirement
g_i = gamma_i > 1, or infinity where there is none. For every i != j the constraints are

    upward (FG Fig. 3)    (p_i + q_i)/q_j <= g_i            <=>  (m-1) p_i + g_i  p_j <= g_i  - 1
    both directions       (p_i + q_i)/q_j <= min(g_i, g_j)  <=>  (m-1) p_i + G_ij p_j <= G_ij - 1

and the objective is the record utility sum f_i (p_i + q_i), which grows with sum f_i p_i. Let some value
keep u. A requirement g leaves room for at most

    a(g, u) = (g (1-u) - 1)/(m-1)     in its own value, when another value keeps u,
    b(g, u) = (g - 1 - (m-1) u)/g     in the other values, when its own value keeps u.

Both lines fall with u and meet u itself at the own cap e(g) = (g-1)/(m-1+g).

**Common level.** Let u bound every p. Then p_i = min(u, a(g_i, u)) is the best upward, and
p_i = min(u, a(g_i, u), b(g_i, u)) in both directions. Either sum is concave in u and bends only where u
passes an e_i: from there value i falls by `fall_i` per unit of u, g_i/(m-1) upward and
max(g_i/(m-1), (m-1)/g_i) in both directions. The best u is the first e_i after which the slope is not
positive, or the largest u that leaves every value its floor.

**Exception.** A single value k may keep u > e_k, if b(g_k, u) holds all others down. The slope of the
objective just above e_k is then

    s_k = f_k - sum_{g_i < g_k} fall_i f_i - equal * sum_{g_i = g_k, i != k} f_i - above * sum_{g_i > g_k} f_i

with above = (m-1)/g_k upward, otherwise equal = above = max(g_k/(m-1), (m-1)/g_k). If s_k > 0, the common
level rises up to e_k and falls after it. So the only candidate is the most frequent of the values at the
best common level, and where it gains it replaces that solution: nothing has to be compared.

Every constraint has positive coefficients, so that a smaller p is always allowed: rounding goes down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import FloatArray

_EPSILON = float(np.finfo(np.float64).eps)
_FLOOR_SLACK = 1e-12  # a floor computed as somebody else's min e_i may differ in its last digits


def solve_upward(gamma: FloatArray, frequency: FloatArray, floor: float = 0.0) -> FloatArray:
    """Return the retentions that maximise the record utility under FG Fig. 3's constraints.

        max sum f_i (p_i + (1-p_i)/m)   s.t.   (p_i + q_i)/q_j <= gamma_i  (j != i),   floor <= p_i <= 1

    `frequency` may hold zeros and need not sum to one. Among equally good solutions the one with the
    smaller largest p, hence with the larger smallest p, is returned: the uniform one if all frequencies
    are zero. Raises ValueError if the floor exceeds the smallest own cap.

    >>> solve_upward(np.array([1.5, 3, 9.5, 18]), np.full(4, 1/4)).round(6).tolist()  # FG Example 2
    [0.0, 0.333333, 0.333333, 0.333333]
    """
    program = _program(gamma, frequency, floor)
    if program.unconstrained:
        return np.ones(program.m)
    g = program.gamma
    fall = g / program.others
    cap = program.room_for_floor_in(g[0])
    k = program.candidate(fall)
    if k is None:
        return _upward_at(program, cap)
    own = program.own_level(k)
    inverse = program.others / float(g[k])
    slope = program.slope_above_own_cap(k, fall, equal=max(float(fall[k]), inverse), above=inverse)
    least_other = program.least_gamma_without(k)
    end = _lowest(program.room_for_floor_beside(g[k]), program.room_for_floor_in(least_other))
    if slope > program.rounding and end.exceeds(own):
        return _upward_exception(program, k, slope, end)
    return _upward_at(program, _lowest(own, cap))


def solve_both(gamma: FloatArray, frequency: FloatArray, floor: float = 0.0) -> FloatArray:
    """Return the retentions that maximise the record utility with upward and downward privacy.

        max sum f_i (p_i + (1-p_i)/m)   s.t.   (m-1) p_i + G_ij p_j <= G_ij - 1  (j != i),   floor <= p_i <= 1

    with G_ij = min(gamma_i, gamma_j). Frequencies, ties and errors are as in `solve_upward`.

    >>> solve_both(np.array([1.5, 3, 9.5, 18]), np.full(4, 1/4)).round(6).tolist()
    [0.0, 0.166667, 0.166667, 0.166667]
    """
    program = _program(gamma, frequency, floor)
    if program.unconstrained:
        return np.ones(program.m)
    g = program.gamma
    fall = np.maximum(g / program.others, program.others / g)
    cap = _lowest(program.room_for_floor_in(g[0]), program.room_for_floor_beside(g[0]))
    k = program.candidate(fall)
    if k is None:
        return _both_at(program, cap)
    own = program.own_level(k)
    slope = program.slope_above_own_cap(k, fall, equal=float(fall[k]), above=float(fall[k]))
    if slope > program.rounding and cap.exceeds(own):
        # Beside k every other value falls in a straight line, so that the gain lasts up to the cap.
        return _both_exception(program, k, cap)
    return _both_at(program, _lowest(own, cap))


def own_cap(gamma: FloatArray, m: int) -> FloatArray:
    """Return the largest retention that all m values could share under each requirement alone, FG Eq. (2).

        e_i = (gamma_i - 1)/(m - 1 + gamma_i),   1 where gamma_i is infinite or m = 1

    >>> own_cap(np.array([1.5, 3.0, np.inf]), 4).round(6).tolist()
    [0.111111, 0.333333, 1.0]
    """
    gamma = np.asarray(gamma, dtype=np.float64)
    bounded = np.isfinite(gamma) & (m > 1)
    g = np.where(bounded, gamma, 2.0)
    cap = _retained((g - 1) / (m - 1 + g), m / (m - 1 + g))
    return np.where(bounded, cap, 1.0)


class _Level(NamedTuple):
    """A retention u with its complement 1-u; whichever is smaller is exact to its own last digits.

    Near one, g (1-u) needs the digits of 1-u that u has lost; near zero, (m-1) u needs those of u.
    """

    retained: float
    replaced: float

    def exceeds(self, other: _Level) -> bool:
        return (self.retained, -self.replaced) > (other.retained, -other.replaced)


_ALL_RETAINED = _Level(1.0, 0.0)


def _level(retained: float, replaced: float) -> _Level:
    """Pair two roundings of u and 1-u so that they agree: the larger is made from the smaller."""
    if replaced < 0.5:
        return _Level(float(_retained(np.float64(retained), np.float64(replaced))), replaced)
    return _Level(retained, 1 - retained)


def _lowest(first: _Level, second: _Level) -> _Level:
    return second if first.exceeds(second) else first


def _highest(first: _Level, second: _Level) -> _Level:
    return first if first.exceeds(second) else second


def _retained(retained: FloatArray | np.float64, replaced: FloatArray | np.float64) -> FloatArray:
    """Return u, given roundings of u and 1-u; near one the largest number that leaves at least `replaced`.

    At gamma = 1e15 one unit in the last place of u is a tenth of 1-u, and the constraint is on 1-u.
    """
    complement = 1 - replaced
    complement = np.where(1 - complement < replaced, np.nextafter(complement, 0.0), complement)
    return np.where(replaced < 0.5, complement, retained)


@dataclass(frozen=True)
class _Program:
    """The linear program with its finite requirements in ascending order."""

    gamma: FloatArray  # the finite requirements, ascending
    frequency: FloatArray  # their values' shares of all records
    free: float  # the share of the records whose value has no requirement
    position: npt.NDArray[np.intp]  # where each finite requirement stood in the caller's array
    m: int
    floor: float

    @property
    def unconstrained(self) -> bool:
        return self.m == 1 or self.gamma.size == 0

    @property
    def others(self) -> int:
        return self.m - 1

    @property
    def rounding(self) -> float:
        """What m additions of shares that sum to one can lose: a smaller gain is no gain."""
        return 4 * self.m * _EPSILON

    def own_level(self, k: int) -> _Level:
        """e_k = (g_k - 1)/(m-1+g_k)."""
        total = self.others + float(self.gamma[k])
        return _level((float(self.gamma[k]) - 1) / total, self.m / total)

    def room_for_floor_in(self, gamma: float) -> _Level:
        """The largest u in another value with a(gamma, u) >= floor: u = 1 - (1 + (m-1) floor)/gamma."""
        if np.isinf(gamma):
            return _ALL_RETAINED
        taken = self.others * self.floor
        return _level(float((gamma - 1 - taken) / gamma), float((1 + taken) / gamma))

    def room_for_floor_beside(self, gamma: float) -> _Level:
        """The largest u <= 1 in its own value with b(gamma, u) >= floor: u = (gamma (1-floor) - 1)/(m-1)."""
        taken = gamma * self.floor
        room = _level(float((gamma - 1 - taken) / self.others), float((self.m - gamma + taken) / self.others))
        return _lowest(room, _ALL_RETAINED)

    def least_gamma_without(self, k: int) -> float:
        """The smallest requirement of the values other than k."""
        rest = self.gamma[1:] if k == 0 else self.gamma
        return float(rest[0]) if rest.size else np.inf

    def equals(self, k: int) -> slice:
        """The values with k's requirement."""
        first = int(np.searchsorted(self.gamma, self.gamma[k], side="left"))
        end = int(np.searchsorted(self.gamma, self.gamma[k], side="right"))
        return slice(first, end)

    def candidate(self, fall: FloatArray) -> int | None:
        """The most frequent value at the best common level; None if the sum rises after all own caps."""
        bends = self.frequency * (1 + fall)
        summit = _first_summit(float(self.frequency.sum()) + self.free, bends, self.rounding)
        if summit is None:
            return None
        equals = self.equals(summit)
        return int(equals.start + np.argmax(self.frequency[equals]))

    def slope_above_own_cap(self, k: int, fall: FloatArray, equal: float, above: float) -> float:
        """s_k of the module's docstring."""
        equals = self.equals(k)
        f = self.frequency
        below_loss = float((fall[: equals.start] * f[: equals.start]).sum())
        equal_loss = equal * float(f[equals].sum() - f[k])
        above_loss = above * (float(f[equals.stop :].sum()) + self.free)
        return float(f[k]) - below_loss - equal_loss - above_loss

    def a(self, gamma: FloatArray, level: _Level) -> FloatArray:
        """(gamma (1-u) - 1)/(m-1), from the smaller of u and 1-u."""
        if level.replaced >= 0.5:
            return (gamma - 1 - gamma * level.retained) / self.others
        return (gamma * level.replaced - 1) / self.others

    def b(self, gamma: FloatArray, level: _Level) -> FloatArray:
        """(gamma - 1 - (m-1) u)/gamma."""
        taken = self.others * level.retained
        return _retained((gamma - 1 - taken) / gamma, (1 + taken) / gamma)

    def in_callers_order(self, bounded: FloatArray, free: float) -> FloatArray:
        """Place the retentions; one that is above the floor by rounding only is put on it."""
        retention = np.full(self.m, free)
        retention[self.position] = bounded
        at_floor = retention - self.floor <= self.rounding * retention.max()
        return np.where(at_floor, self.floor, retention)


def _program(gamma: FloatArray, frequency: FloatArray, floor: float) -> _Program:
    gamma = np.asarray(gamma, dtype=np.float64)
    frequency = np.asarray(frequency, dtype=np.float64)
    _check(gamma, frequency, floor)
    m = gamma.size
    least_cap = float(own_cap(gamma, m).min())
    if floor > least_cap * (1 + _FLOOR_SLACK):
        raise ValueError(f"floor {floor:.6g} exceeds {least_cap:.6g}, the least (gamma-1)/(m-1+gamma)")
    share = frequency / (frequency.sum() or 1.0)
    order = np.argsort(gamma, kind="stable")
    position = order[: int(np.isfinite(gamma).sum())]
    free = float(share[np.isinf(gamma)].sum())
    return _Program(gamma[position], share[position], free, position, m, min(floor, least_cap))


def _check(gamma: FloatArray, frequency: FloatArray, floor: float) -> None:
    if gamma.ndim != 1 or gamma.size == 0 or gamma.shape != frequency.shape:
        raise ValueError(f"gamma and frequency must be equally long, not {gamma.shape} and {frequency.shape}")
    if not (gamma > 1).all():
        raise ValueError(f"every gamma must be above 1 (or infinite), not {gamma[~(gamma > 1)][0]}")
    usable = np.isfinite(frequency) & (frequency >= 0)
    if not usable.all():
        raise ValueError(f"every frequency must be finite and at least 0, not {frequency[~usable][0]}")
    if not 0 <= floor <= 1:
        raise ValueError(f"the floor must be between 0 and 1, not {floor}")


def _first_summit(slope: float, bends: FloatArray, rounding: float) -> int | None:
    """The bend at which a concave, piecewise linear function stops rising; None if it never does.

    slope: before the first bend; bends: what each bend takes from the slope.
    """
    stopped = slope - np.cumsum(bends) <= rounding
    return int(np.argmax(stopped)) if stopped.any() else None


def _upward_at(program: _Program, level: _Level) -> FloatArray:
    """p_i = min(u, a(g_i, u))."""
    room = program.a(program.gamma, level)
    return program.in_callers_order(np.minimum(level.retained, room), level.retained)


def _both_at(program: _Program, level: _Level) -> FloatArray:
    """p_i = min(u, a(g_i, u), b(g_i, u))."""
    room = np.minimum(program.a(program.gamma, level), program.b(program.gamma, level))
    return program.in_callers_order(np.minimum(level.retained, room), level.retained)


def _upward_exception(program: _Program, k: int, slope: float, end: _Level) -> FloatArray:
    """p_k = u > e_k and p_i = min(a(g_i, u), b(g_k, u)); u where f_k u + sum f_i p_i is largest, up to `end`.

    The sum is concave in u, with the given slope at e_k; it bends where a(g_i, u) crosses b(g_k, u). At u = 1
    the lines a(g_i, .) meet in -1/(m-1) and b(g_k, .) lies above that if g_k > m-1: then just the values
    with g_i > g_k cross before, the smallest g_i first. Otherwise those with g_i < g_k do, the largest first.
    """
    g_k, equals = float(program.gamma[k]), program.equals(k)
    crossing = slice(equals.stop, None) if g_k > program.others else slice(0, equals.start)
    g, f = program.gamma[crossing], program.frequency[crossing]
    if g_k <= program.others:
        g, f = g[::-1], f[::-1]
    bends = f * np.abs(g / program.others - program.others / g_k)
    summit = _first_summit(slope, bends, program.rounding)
    level = end
    if summit is not None:
        # Almost parallel lines cross where rounding likes; the constraints hold for any u in [e_k, end].
        crossed = _highest(_crossing(g_k, float(g[summit]), program.m), program.own_level(k))
        level = _lowest(crossed, end)
    beside_k = program.b(program.gamma[k : k + 1], level)
    retention = np.minimum(program.a(program.gamma, level), beside_k)
    retention[k] = level.retained
    return program.in_callers_order(retention, float(beside_k[0]))


def _crossing(g_k: float, g_i: float, m: int) -> _Level:
    """The u with a(g_i, u) = b(g_k, u): 1-u = m (1 - (m-1)/g_k) / (g_i - (m-1)^2/g_k)."""
    others = m - 1
    divisor = g_i - others * (others / g_k)
    retained = (g_i - 1 - others * ((g_k - 1) / g_k)) / divisor
    return _level(retained, m * ((g_k - others) / g_k) / divisor)


def _both_exception(program: _Program, k: int, level: _Level) -> FloatArray:
    """p_k = u > e_k and p_i = min(a(G, u), b(G, u)) with G = min(g_i, g_k)."""
    paired = np.minimum(program.gamma, program.gamma[k])
    retention = np.minimum(program.a(paired, level), program.b(paired, level))
    free = float(retention[k])
    retention[k] = level.retained
    return program.in_callers_order(retention, free)
