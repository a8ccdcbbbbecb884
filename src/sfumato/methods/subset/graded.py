"""Graded subsets: the best of all mechanisms for a few classes of gammas, with a certificate; MATRICES.md 1.3, 2, 5.2.

Values of class l (m_l of them) share the gamma g_l. Rows of a mechanism are mixtures of extreme ones: at a level rho,
one of the distinct effective gammas, members i of a set weigh hi_i = min(rho, g_i), all others lo_i = max(1, rho/g_i).
Inside a class all values are alike, so the best mechanism draws an orbit o = (rho, k_1, ..., k_L) and a set with k_l
members of each class: P(S | x) is in proportion to the row's weight e_S(x). With mean_l and var_l (divided by m_l - 1)
of a row in a class, shares n of the values and e.n = sum_l n_l mean_l(e), the program is convex in the weights c >= 0:

    minimise   sum_l (m_l - 1)/alpha_l + tr(Jbar^-1)        subject to   sum_o c_o mean_l(e_o) = 1  for all l
    alpha_l = sum_o c_o var_l(e_o)/(e_o.n)      Jbar = sum_o c_o s_o s_o^T/(e_o.n)      s_ol = sqrt(m_l) mean_l(e_o)

and L2 = its value - 1. **Certificate.** Let value be the objective at c, and

    gain(e) = (sum_l (m_l - 1) var_l(e)/alpha_l^2 + |Jbar^-1 s|^2)/(e.n) = -d value/d c_e.

If gain(e) <= r sum_l lambda_l mean_l(e) for all orbits, no mechanism has less than value^2/(r sum lambda), by
Cauchy and Schwarz. **Pricing.** gain(e)(e.n) - r (lambda.mean)(e.n) is a quadratic of the k_l of one class, whose
largest value on 0..m_l is at an end or next to its summit: only the orbits of the other classes are enumerated. The
largest ratio is found by Dinkelbach's iteration: r becomes the ratio of the orbit with the largest difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from sfumato.methods.staircase import effective
from sfumato.values.arrays import FloatArray, IntArray

MOST_ORBITS = 20_000_000
"""More orbits than this, of all classes but the largest, are not enumerated."""

_GAP = 1e-7  # the certified gap at which the search ends
_FIRST_PRECISION = 1e-4
MOST_ROUNDS = 60
_NEWTON_STEPS = 40
_SUM_ERROR = 1e-12  # of sum_o c_o mean_l(e_o) = 1
_CHUNK = 1 << 18
_NEW_COLUMNS = 3
_KEPT_COLUMNS = 40
_PARTS = (0.35, 0.15, 0.03)  # of a class, in the first orbits


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes of equally sensitive values, and what a row gives them at each level."""

    size: FloatArray  # m_l
    gamma: FloatArray  # effective
    share: FloatArray  # of whole classes
    levels: FloatArray  # the distinct effective gammas, ascending
    inside: FloatArray  # hi, [level, class]
    outside: FloatArray  # lo, [level, class]

    @classmethod
    def of(cls, sizes: Sequence[int], gammas: Sequence[float], shares: Sequence[float] | None) -> Classes:
        size = np.array(sizes, dtype=np.float64)
        all_gammas = np.repeat(np.array(gammas, dtype=np.float64), np.array(sizes, dtype=np.int64))
        if not (size >= 1).all() or not np.isfinite(all_gammas.min()):
            raise ValueError("every class has a value, and one class a finite gamma")
        first = np.concatenate(([0], np.cumsum(np.array(sizes, dtype=np.int64))[:-1]))
        gamma = effective(all_gammas)[first]
        levels = np.unique(gamma)
        share = size if shares is None else np.array(shares, dtype=np.float64)
        inside, outside = np.minimum(levels[:, None], gamma), np.maximum(1, levels[:, None] / gamma)
        return cls(size, gamma, share / share.sum(), levels, inside, outside)


@dataclass(frozen=True)
class Orbit:
    """Sets with so many members of each class, at one level."""

    level: float  # rho
    members: tuple[int, ...]  # k_l
    weight: float  # c_o
    inside: tuple[float, ...]  # hi_l: the weight of a member of each class
    outside: tuple[float, ...]  # lo_l


@dataclass(frozen=True)
class Graded:
    """The best mechanism of all for these classes, up to a certified gap."""

    classes: Classes
    orbits: tuple[Orbit, ...]
    error: float  # L2
    gap: float  # no mechanism has less than (1 + error)/(1 + gap) - 1

    @property
    def inside_chances(self) -> FloatArray:
        """c_o hi_l k_l/m_l, [orbit, class]: that a value of class l draws a set of the orbit that holds it."""
        return np.array([o.weight * np.array(o.inside) * o.members for o in self.orbits]) / self.classes.size

    @property
    def outside_chances(self) -> FloatArray:
        """c_o lo_l (m_l - k_l)/m_l, [orbit, class]: that it draws a set of the orbit that does not hold it."""
        size = self.classes.size
        return np.array([o.weight * np.array(o.outside) * (size - o.members) for o in self.orbits]) / size

    def scores(self) -> tuple[FloatArray, FloatArray]:
        """Return what a record adds to n_hat_i of a value i of class l that its set holds, or not, [orbit, class].

        A = ((e_i - mean_l(e))/alpha_l + (Jbar^-1 s)_l/sqrt(m_l)) / (e.n)
        """
        level = np.searchsorted(self.classes.levels, [o.level for o in self.orbits])
        columns = _Columns(self.classes, level, np.array([o.members for o in self.orbits], dtype=np.float64))
        weights = np.array([o.weight for o in self.orbits])
        gains, root = _Gains.at(columns, weights), np.sqrt(self.classes.size)
        common = (columns.mean * root) @ gains.inverse / root
        inside, outside = (
            ((rows[level] - columns.mean) / gains.alpha + common) / columns.expected[:, None]
            for rows in (self.classes.inside, self.classes.outside)
        )
        return inside, outside


def graded_subsets(
    sizes: Sequence[int], gammas: Sequence[float], shares: Sequence[float] | None = None, gap: float = _GAP
) -> Graded:
    """Return the optimum for classes of so many values with these gammas, up to a relative gap.

    `shares` are those of whole classes in the table, inside which values are equally frequent; by default all values
    are. Raises ValueError where no gamma is finite, or where there are too many orbits.

    >>> found = graded_subsets([5, 35], [2, 4])
    >>> round(found.error, 2), [(orbit.level, orbit.members) for orbit in found.orbits]
    (163.03, [(2.0, (2, 2)), (2.0, (2, 3)), (4.0, (0, 15)), (4.0, (0, 16))])
    """
    classes = Classes.of(sizes, gammas, shares)
    if classes.levels.size * np.prod(classes.size + 1) / (classes.size.max() + 1) > MOST_ORBITS:
        raise ValueError("these classes have too many orbits: join classes")
    solved = _solved(*_first_columns(classes), max(_FIRST_PRECISION, gap / 2))
    for _ in range(MOST_ROUNDS):
        if solved.ratio <= 1 + gap / 2 and solved.precision <= gap / 2:
            break
        precision = min(max((solved.ratio - 1) / 100, gap / 10), _FIRST_PRECISION)
        solved = _solved(*_extended(solved.columns, solved.weights, solved.new), precision)
    bound = _certified(solved)
    columns, weights = _supported(solved.columns, solved.weights, gap)
    value = columns.value(weights)
    left = max(value / bound - 1, 0.0) if bound > 0 else math.inf
    return Graded(classes, columns.orbits(weights), value - 1, left)


def reweighed(
    found: Graded, sizes: Sequence[int], levels: Sequence[float], parts: FloatArray, weights: FloatArray
) -> tuple[FloatArray, float]:
    """Return the best weights of these orbits for classes of other sizes, with the same gammas; and their L2.

    parts: of each class in the sets, [orbit, class]. Raises ValueError where no weights near the old ones sum to one.
    """
    classes = Classes.of(sizes, found.classes.gamma.tolist(), None)
    level = np.searchsorted(found.classes.levels, levels)
    columns = _Columns(classes, level, parts * classes.size)
    start = columns.restored(weights)
    if columns.value(start) == math.inf:
        raise ValueError("orbits of classes of one size do not serve for those of another")
    best = columns.restored(_minimised(columns, start, _FIRST_PRECISION)[0])
    return best, columns.value(best) - 1


# --- orbits as columns of the program -------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Columns:
    """Orbits, and what the program needs to know of each."""

    classes: Classes
    level: IntArray  # [orbit]: the number of its level
    members: FloatArray  # [orbit, class]: whole numbers, but where a quadratic is measured

    @cached_property
    def mean(self) -> FloatArray:
        """mean_l(e), [orbit, class]."""
        low = self.classes.outside[self.level]
        return np.asarray(low + (self.classes.inside[self.level] - low) * self.members / self.classes.size)

    @cached_property
    def spread(self) -> FloatArray:
        """(m_l - 1) var_l(e), [orbit, class]."""
        difference = self.classes.inside[self.level] - self.classes.outside[self.level]
        return np.asarray(difference**2 * self.members * (1 - self.members / self.classes.size))

    @cached_property
    def expected(self) -> FloatArray:
        """e.n, [orbit]."""
        return np.asarray(self.mean @ self.classes.share)

    @cached_property
    def moments(self) -> FloatArray:
        """What an orbit adds to the sums, to alpha and to Jbar, each column scaled, [orbit, moment]."""
        products = (self.mean[:, :, None] * self.mean[:, None, :]).reshape(len(self.mean), -1)
        inside = np.column_stack((self.spread, products)) / self.expected[:, None]
        moments = np.column_stack((self.mean, inside))
        return np.asarray(moments / np.abs(moments).max(axis=0).clip(1e-300))

    def alpha(self, weights: FloatArray) -> FloatArray:
        """alpha_l; 1 for a class of one value, which has no spread to estimate."""
        several = self.classes.size > 1
        return np.where(several, (weights / self.expected) @ self.spread / np.maximum(self.classes.size - 1, 1), 1.0)

    def between(self, weights: FloatArray) -> FloatArray:
        """Jbar, [class, class]."""
        s = self.mean * np.sqrt(self.classes.size)
        return np.asarray((s * (weights / self.expected)[:, None]).T @ s)

    def value(self, weights: FloatArray) -> float:
        """The objective: 1 + L2; infinite outside of its domain."""
        alpha = self.alpha(weights)
        if weights.min() <= 0 or alpha.min() <= 0:
            return math.inf
        try:
            root = np.linalg.cholesky(self.between(weights))
        except np.linalg.LinAlgError:
            return math.inf
        return float(((self.classes.size - 1) / alpha).sum() + (np.linalg.inv(root) ** 2).sum())

    def restored(self, weights: FloatArray) -> FloatArray:
        """Return the weights with sum_o c_o mean_l(e_o) = 1 again: small ones change least."""
        scaled = self.mean * weights[:, None]
        lacking = 1 - self.mean.T @ weights
        return np.asarray(weights + scaled @ (np.linalg.pinv(scaled.T @ self.mean, hermitian=True) @ lacking))

    def keys(self) -> list[tuple[float, ...]]:
        """Orbits as tuples: equal members at different levels are different orbits."""
        return list(map(tuple, np.column_stack((self.level, self.members)).tolist()))

    def chosen(self, which: IntArray) -> _Columns:
        return _Columns(self.classes, self.level[which], self.members[which])

    def orbits(self, weights: FloatArray) -> tuple[Orbit, ...]:
        """Return the orbits by level and members."""
        inside, outside = self.classes.inside[self.level], self.classes.outside[self.level]
        found = [
            Orbit(
                float(self.classes.levels[self.level[o]]),
                tuple(map(int, self.members[o])),
                float(weights[o]),
                tuple(inside[o].tolist()),
                tuple(outside[o].tolist()),
            )
            for o in range(weights.size)
        ]
        return tuple(sorted(found, key=lambda orbit: (orbit.level, orbit.members)))


def _first_columns(classes: Classes) -> tuple[_Columns, FloatArray]:
    """Return a coarse grid of orbits of all levels, with weights inside the domain that keep the sums.

    At the lowest level the rows of a set and of its complement add up to 1 + g for all values: these have the weight.
    """
    columns = _grid(classes)
    weights = np.where(columns.level == 0, 1.0, 0.0)
    return columns, _inside(columns, weights / (weights @ columns.mean)[0])


def _grid(classes: Classes) -> _Columns:
    """Return orbits with none, some, many or all members of each class, and those of their complements."""
    parts = _PARTS if classes.size.size <= 2 else _PARTS[:1]
    level, members = [], []
    for number, inside in enumerate(classes.inside):
        choices = [
            sorted({0, m} | {k for part in parts for k in (round(m * part), m - round(m * part))})
            if has_choice
            else [0]
            for m, has_choice in zip(classes.size.tolist(), inside > classes.outside[number], strict=True)
        ]
        members += list(product(*choices))
        level += [number] * math.prod(map(len, choices))
    return _Columns(classes, np.array(level, dtype=np.int64), np.array(members, dtype=np.float64))


def _inside(columns: _Columns, weights: FloatArray) -> FloatArray:
    """Return weights that keep the sums, near these, all of them positive."""
    share = 0.1 * weights.sum() / weights.size
    while True:
        restored = columns.restored(np.maximum(weights, share))
        if restored.min() > 0:
            return restored
        share /= 4


def _extended(columns: _Columns, weights: FloatArray, new: _Columns) -> tuple[_Columns, FloatArray]:
    """Return the columns that matter and the new ones, with weights inside the domain."""
    largest = np.sort(np.argsort(-weights, kind="stable")[:_KEPT_COLUMNS])
    columns, weights = columns.chosen(largest), weights[largest]
    known = set(columns.keys())
    fresh = [o for o, key in enumerate(new.keys()) if key not in known]
    level = np.concatenate((columns.level, new.level[fresh]))
    members = np.concatenate((columns.members, new.members[fresh]))
    joined = _Columns(columns.classes, level, members)
    return joined, _inside(joined, np.concatenate((weights, np.zeros(len(fresh)))))


def _supported(columns: _Columns, weights: FloatArray, gap: float) -> tuple[_Columns, FloatArray]:
    """Drop what nothing needs: weights that the optimum lets vanish, then those that others can take over."""
    order = np.argsort(-weights, kind="stable")
    most = columns.value(weights) * (1 + gap / 10)
    for count in range(1, weights.size + 1):
        kept = order[:count]
        fewer = columns.chosen(kept)
        restored = fewer.restored(weights[kept])
        if np.abs(fewer.mean.T @ restored - 1).max() < _SUM_ERROR and fewer.value(restored) <= most:
            return _fewest(fewer, restored, most)
    return columns, weights


def _fewest(columns: _Columns, weights: FloatArray, most: float) -> tuple[_Columns, FloatArray]:
    """Return weights of fewer orbits with the same sums, alpha and Jbar (Caratheodory), of at `most` this value."""
    order = np.array(sorted(range(weights.size), key=columns.keys().__getitem__))
    columns, weights = columns.chosen(order), weights[order]
    while (direction := _free_direction(columns.moments * weights[:, None])) is not None:
        moved = weights * (1 - direction / direction.max())
        kept = np.flatnonzero(moved > 1e-14 * moved.max())
        fewer = columns.chosen(kept)
        restored = fewer.restored(moved[kept])
        if np.abs(fewer.mean.T @ restored - 1).max() >= _SUM_ERROR or fewer.value(restored) > most:
            break
        columns, weights = fewer, restored
    return columns, weights


def _free_direction(moments: FloatArray) -> FloatArray | None:
    """Return how the first rows that depend on each other combine to nothing; None where all are independent."""
    for count in range(2, len(moments) + 1):
        left, singular, _ = np.linalg.svd(moments[:count])
        if singular.size < count or singular[-1] <= 1e-9 * singular[0]:
            direction = np.zeros(len(moments))
            direction[:count] = left[:, -1] * np.sign(left[np.argmax(np.abs(left[:, -1])), -1])
            return direction
    return None


# --- the convex program on some columns -----------------------------------------------------------------------------


def _minimised(columns: _Columns, weights: FloatArray, precision: float) -> tuple[FloatArray, FloatArray]:
    """Return the best weights of these columns, and the prices lambda of the sums: a barrier method.

    weights: inside the domain, with the right sums. The objective is exact up to the relative precision.
    """
    value = columns.value(weights)
    barrier = value / weights.size
    prices = np.full(columns.mean.shape[1], value / columns.mean.shape[1])
    while barrier * weights.size > precision * value:
        barrier *= 0.1
        for _ in range(_NEWTON_STEPS):
            step, prices, decrement = _newton_step(columns, weights, barrier)
            weights = _stepped(columns, weights, step, barrier, decrement)
            if decrement < 0.05 * barrier:
                break
        value = columns.value(weights)
    return weights, prices


def _newton_step(columns: _Columns, weights: FloatArray, barrier: float) -> tuple[FloatArray, FloatArray, float]:
    """Return the step relative to each weight, the prices, and the squared decrement."""
    gains = _Gains.at(columns, weights)
    factors = gains.curvature_factors(columns) * weights[:, None]
    curvature = factors @ factors.T + barrier * np.eye(weights.size)
    gradient = -gains.of(columns) / columns.expected * weights - barrier
    rows = columns.mean * weights[:, None]
    solved = np.linalg.solve(curvature, np.column_stack((rows, gradient)))
    priced = np.linalg.pinv(rows.T @ solved[:, :-1], hermitian=True)
    prices = -priced @ (rows.T @ solved[:, -1])
    step = -(solved[:, -1] + solved[:, :-1] @ prices)
    return step, prices, float(-gradient @ step)


def _stepped(columns: _Columns, weights: FloatArray, step: FloatArray, barrier: float, decrement: float) -> FloatArray:
    """Return the weights after a step that is halved until it lowers the value with its barrier."""

    def merit(c: FloatArray) -> float:
        value = columns.value(c)
        return value - barrier * float(np.log(c).sum()) if value < math.inf else math.inf

    start = merit(weights)
    length = min(1.0, 0.95 / max(float(-step.min()), 1e-300))
    while length > 1e-10:
        changed = columns.restored(weights * (1 + length * step))
        if merit(changed) <= start - 0.1 * length * decrement + 1e-13 * abs(start):
            return changed
        length /= 2
    return weights


# --- pricing of all orbits ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Gains:
    """How much each orbit would gain, at weights c."""

    alpha: FloatArray
    inverse: FloatArray  # Jbar^-1

    @classmethod
    def at(cls, columns: _Columns, weights: FloatArray) -> _Gains:
        inverse = np.asarray(np.linalg.inv(columns.between(weights)), dtype=np.float64)
        return cls(columns.alpha(weights), inverse)

    def of(self, columns: _Columns) -> FloatArray:
        """gain(e) (e.n), [orbit]."""
        s = columns.mean * np.sqrt(columns.classes.size)
        return np.asarray(columns.spread @ self.alpha**-2.0 + ((s @ self.inverse) ** 2).sum(axis=1))

    def curvature_factors(self, columns: _Columns) -> FloatArray:
        """X with X X^T the second derivatives of the objective, [orbit, L + L^2].

        Jbar^-1's part is twice the entrywise product of z Jbar^-1 z^T and z Jbar^-2 z^T, z = s/sqrt(e.n).
        """
        factors = 2 / (np.maximum(columns.classes.size - 1, 1) * self.alpha**3)
        inside = columns.spread / columns.expected[:, None] * np.sqrt(factors)
        z = columns.mean * np.sqrt(columns.classes.size) / np.sqrt(columns.expected)[:, None]
        once, half = z @ self.inverse, z @ np.linalg.cholesky(self.inverse)
        between = (half[:, :, None] * once[:, None, :]).reshape(len(z), -1)
        return np.column_stack((inside, math.sqrt(2) * between))


@dataclass(frozen=True, eq=False)
class _Solved:
    """The best weights of some columns, and what all other orbits would gain."""

    columns: _Columns
    weights: FloatArray
    precision: float
    prices: FloatArray  # lambda
    gains: _Gains
    new: _Columns  # the orbits that would gain most
    ratio: float  # the largest of theirs


def _solved(columns: _Columns, weights: FloatArray, precision: float) -> _Solved:
    weights, prices = _minimised(columns, weights, precision)
    gains = _Gains.at(columns, weights)
    new = _best_orbits(columns.classes, gains, prices, 1.0)
    return _Solved(columns, weights, precision, prices, gains, new, float(_ratios(new, gains, prices).max()))


def _certified(solved: _Solved) -> float:
    """Return a lower bound of the objective by the largest ratio of all orbits; 0 where the prices bound nothing."""
    ratio, gains, prices = solved.ratio, solved.gains, solved.prices
    while ratio < math.inf:
        best = _best_orbits(solved.columns.classes, gains, prices, ratio)
        largest = float(_ratios(best, gains, prices).max())
        if largest <= ratio * (1 + 1e-12):
            return solved.columns.value(solved.weights) ** 2 / (ratio * float(prices.sum()))
        ratio = largest
    return 0.0


def _ratios(columns: _Columns, gains: _Gains, prices: FloatArray) -> FloatArray:
    """gain(e)/(lambda.mean), infinite where the prices leave nothing to compare with."""
    priced = columns.expected * (columns.mean @ prices)
    ratios = np.full(priced.size, math.inf)
    np.divide(gains.of(columns), priced, out=ratios, where=priced > 0)
    return ratios


def _best_orbits(classes: Classes, gains: _Gains, prices: FloatArray, ratio: float) -> _Columns:
    """Return the orbits with the largest gain(e)(e.n) - ratio (lambda.mean)(e.n), a few of each level and chunk."""

    def difference(columns: _Columns) -> FloatArray:
        return gains.of(columns) - ratio * columns.expected * (columns.mean @ prices)

    found = []
    for columns, pivot in _all_but_one_class(classes):
        members, largest = _summits(columns, pivot, difference)
        best = np.argsort(-largest, kind="stable")[:_NEW_COLUMNS]
        found.append(_with_members(columns.chosen(best), pivot, members[best]))
    level = np.concatenate([columns.level for columns in found])
    return _Columns(classes, level, np.concatenate([columns.members for columns in found]))


def _summits(
    columns: _Columns, pivot: int, difference: Callable[[_Columns], FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """Return for each column the members of the pivot's class with the largest difference, a quadratic, and that."""
    m = float(columns.classes.size[pivot])
    start, middle, end = (difference(_with_members(columns, pivot, k)) for k in (0.0, m / 2, m))
    bend, slope = 2 * (start - 2 * middle + end), 4 * middle - 3 * start - end  # of k/m
    with np.errstate(divide="ignore", invalid="ignore"):
        summit = np.nan_to_num(-slope / (2 * bend) * m, nan=0.0, posinf=m, neginf=0.0).clip(0, m)
    choices = np.array([np.zeros(start.size), np.full(start.size, m), np.floor(summit), np.ceil(summit)])
    values = start + choices / m * (slope + choices / m * bend)
    best = np.argmax(values, axis=0)[None]
    return np.take_along_axis(choices, best, axis=0)[0], np.take_along_axis(values, best, axis=0)[0]


def _with_members(columns: _Columns, pivot: int, members: FloatArray | float) -> _Columns:
    changed = columns.members.copy()
    changed[:, pivot] = members
    return _Columns(columns.classes, columns.level, changed)


def _all_but_one_class(classes: Classes) -> Iterator[tuple[_Columns, int]]:
    """Yield all orbits but for the members of the largest class that has any choice, in chunks, with that class."""
    for level in range(classes.levels.size):
        choice = np.where(classes.inside[level] > classes.outside[level], classes.size, 0).astype(np.int64)
        pivot = int(np.argmax(choice))
        counts = np.where(np.arange(choice.size) == pivot, 1, choice + 1)
        total = int(np.prod(counts))
        for start in range(0, total, _CHUNK):
            numbers = np.arange(start, min(start + _CHUNK, total))
            members = np.column_stack(np.unravel_index(numbers, tuple(counts.tolist()))).astype(np.float64)
            yield _Columns(classes, np.full(numbers.size, level, dtype=np.int64), members), pivot
