"""Matrices for estimating counts under a gamma for each value, in block form; MATRICES.md 1.2, 1.3, 4.3, 4.4 and 7.

**Effective gammas** (1.2). Both directions for all single values mean P[y,i] <= min(g_i, g_k) P[y,k]. Chains of these
bounds leave no value more than

    g_eff,i = min(g_i, second largest g, g_min^2).

**Staircase** (4.3), both directions, with effective g. Every ratio of an own to another entry is tight:

    P[y,x] = s_y / min(g_x, g_y)  (y != x)        P[y,y] = s_y

Columns sum to one iff, from the largest g downwards,

    t_x = (1 + sum_above t/g - (sum_above t)/g_x) g_x/(g_x - 1)        s = t / (1 + sum t/g)

and the matrix exists iff all t, hence all s, are positive. Otherwise, or where it estimates better, gammas are capped:
g := min(g, rho). rho = g_min is uniform, which always exists.

**Cover noise** (4.4), upward only, P[y,i] <= g_i P[y,k]: sensitive values are drawn as noise more often.

    P[y,x] = c/(g_y - 1)  (y != x)        P[y,y] = c + c/(g_y - 1)        c = 1/(1 + sum_i 1/(g_i - 1))

**Block form** (7). Values with equal gamma form a class, so that T[b][a], the chance of each y of class b for another
value x of class a, and D[a] = P[x,x] say everything. With d_a = D[a] - T[a][a] and classes of m_a values

    U = diag(1/d) T (diag(d) + diag(m) T)^-1        P^-1[x,y] = [x = y]/d_a - U[a][b]

and for shares F of the classes, O = (diag(d) + diag(m) T) F, the expected error is

    L2 = sum_x Var(n_hat_x | table)/N = sum_a m_a ((U o U) O)_a + sum_a O_a ((1/d_a - U_aa)^2 - U_aa^2) - 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sfumato.values.arrays import FloatArray, IntArray

MOST_LEVELS = 64
"""More classes would cost more than they gain: gammas are grouped, downwards."""

_STEPS_OF_SEARCH = 24
_PARTS_OF_RANGE = 64
_HUGE = 1e300  # a matrix of larger gammas publishes what is true, as far as numbers tell
_GOLDEN = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, eq=False)
class BlockForm:
    """A matrix whose entries depend on the classes of the two values, and on whether they are the same value."""

    classes: IntArray  # of each value; classes are in ascending order of gamma
    gammas: FloatArray  # of each class: what was granted, never above what was asked for
    off_diagonal: FloatArray  # T[b, a]: the chance of each y of class b, x being another value, of class a
    diagonal: FloatArray  # D[a]: the chance that a value of class a is published as it is

    @property
    def size(self) -> int:
        return int(self.classes.size)

    @property
    def sizes(self) -> FloatArray:
        """How many values each class has."""
        return np.bincount(self.classes, minlength=self.gammas.size).astype(np.float64)

    def dense(self) -> FloatArray:
        """Return the m x m matrix P[y, x]; for small domains."""
        p: FloatArray = self.off_diagonal[np.ix_(self.classes, self.classes)]
        np.fill_diagonal(p, self.diagonal[self.classes])
        return p


@dataclass(frozen=True, eq=False)
class Staircase:
    """The staircase with the least expected error."""

    blocks: BlockForm
    cap: float  # rho: larger gammas were not used
    error: float  # L2, for the shares that it was chosen for


# --- gammas ---------------------------------------------------------------------------------------------------------


def effective(gammas: FloatArray) -> FloatArray:
    """Return the gammas really in force when both directions hold for all single values.

        g_eff,i = min(g_i, second largest g, g_min^2)        MATRICES.md 1.2

    >>> effective(np.array([1.5, 3, 9.5, 18])).tolist()
    [1.5, 2.25, 2.25, 2.25]
    >>> effective(np.array([4, 5, 7])).tolist()
    [4.0, 5.0, 5.0]
    """
    g = _checked(gammas)
    least = float(g.min())
    # Not least**2: Python would raise where the square is above all numbers.
    return np.minimum(g, min(float(np.partition(g, -2)[-2]), least * least))


def grouped(gammas: FloatArray, most: int = MOST_LEVELS) -> FloatArray:
    """Return the gammas rounded down to at most `most` distinct ones.

    A level costs 1/(g-1) for each of its values, which is their noise in 4.4; the split of a level that saves most is
    made first. The smallest gamma stays, and so does the largest if it saves most, as an infinite one does.

    >>> grouped(np.array([2, 2.1, 5, 5.5, 9]), most=3).tolist()
    [2.0, 2.0, 5.0, 5.0, 9.0]
    """
    g = _checked(gammas)
    levels, position, counts = np.unique(g, return_inverse=True, return_counts=True)
    if levels.size <= most:
        return g.copy()
    starts = _starts_of_levels(1 / (levels - 1), counts.astype(np.float64), most)
    lowered = levels[starts[np.searchsorted(starts, np.arange(levels.size), side="right") - 1]]
    return np.asarray(lowered[position])


def _starts_of_levels(cost: FloatArray, counts: FloatArray, most: int) -> IntArray:
    """Return where levels start among ascending gammas of falling cost: the best split first."""
    above = np.concatenate((counts[::-1].cumsum()[::-1], [0.0]))  # how many values lie there or above
    splits = {0: (cost.size, *_best_split(cost, above, 0, cost.size))}  # start -> end, where to split, what it saves
    while len(splits) < most:
        start = max(splits, key=lambda s: splits[s][2])
        end, cut, _ = splits[start]
        splits[start] = (cut, *_best_split(cost, above, start, cut))
        splits[cut] = (end, *_best_split(cost, above, cut, end))
    return np.array(sorted(splits), dtype=np.int64)


def _best_split(cost: FloatArray, above: FloatArray, start: int, end: int) -> tuple[int, float]:
    """Return the first gamma of the upper part, and what the split saves; a single gamma cannot be split."""
    if end - start < 2:
        return start, -1.0
    saved = (cost[start] - cost[start + 1 : end]) * (above[start + 1 : end] - above[end])
    best = int(np.argmax(saved))
    return start + 1 + best, float(saved[best])


def _checked(gammas: FloatArray) -> FloatArray:
    g = np.asarray(gammas, dtype=np.float64)
    if g.ndim != 1 or g.size < 2:
        raise ValueError("there are gammas of at least two values")
    if not (g > 1).all():
        raise ValueError(f"every gamma must be above 1 (or infinite), not {g[~(g > 1)][0]}")
    return g


# --- matrices -------------------------------------------------------------------------------------------------------


def uniform(gamma: float, m: int) -> BlockForm:
    """Return the uniform matrix: one class."""
    return _staircase(np.zeros(m, dtype=np.int64), np.array([gamma]), np.array([float(m)]))


def staircase(gammas: FloatArray, cap: float = math.inf) -> BlockForm | None:
    """Return the staircase of the effective gammas up to a cap; None where it does not exist.

    >>> staircase(np.array([2, 2, 16, 16.0])).diagonal.round(4).tolist()
    [0.2857, 0.5714]
    """
    g = grouped(effective(gammas))
    cap = max(cap, float(g.min()))
    levels, classes = np.unique(np.minimum(g, cap), return_inverse=True)
    sizes = np.bincount(classes).astype(np.float64)
    return _staircase(classes.astype(np.int64), levels, sizes) if _own_chances(levels, sizes).min() > 0 else None


def best_staircase(gammas: FloatArray, shares: FloatArray | None = None) -> Staircase:
    """Return the staircase whose cap rho makes L2 least, for the shares of a table or for equal ones.

    L2 is not smooth where rho passes a level: all levels and points between them are tried, then the best is refined
    between its neighbours.

    >>> found = best_staircase(np.array([1.5, 3, 9.5, 18]))  # FG Example 1
    >>> round(found.error, 2), round(found.cap, 2)
    (53.86, 1.62)
    """
    g = grouped(effective(gammas))
    levels, classes = np.unique(g, return_inverse=True)
    ladder = _Ladder(levels, np.bincount(classes).astype(np.float64), _by_class(classes, levels.size, shares))
    cap = ladder.best_cap()
    blocks = staircase(gammas, cap)
    assert blocks is not None, "the error of a cap without a matrix is infinite"
    return Staircase(blocks, cap, expected_error(blocks, shares))


def cover(gammas: FloatArray) -> BlockForm:
    """Return the cover noise: every value keeps itself alike, and sensitive ones are drawn as noise more often.

    >>> cover(np.array([1.5, 3, 9.5, 18])).diagonal.round(4).tolist()  # FG Example 1
    [0.816, 0.408, 0.304, 0.288]
    """
    levels, classes = np.unique(grouped(gammas), return_inverse=True)
    excess = 1 / (levels - 1)
    kept = 1 / (1 + float((np.bincount(classes) * excess).sum()))
    off_diagonal = np.repeat((kept * excess)[:, None], levels.size, axis=1)
    return BlockForm(classes.astype(np.int64), levels, off_diagonal, kept * (1 + excess))


def _staircase(classes: IntArray, levels: FloatArray, sizes: FloatArray) -> BlockForm:
    """P[y,x] = s_y/min(g_x, g_y)."""
    own = _own_chances(levels, sizes)
    return BlockForm(classes, levels, own[:, None] / np.minimum(levels[:, None], levels), own)


def _own_chances(levels: FloatArray, sizes: FloatArray) -> FloatArray:
    """Return s of each ascending level; one that is not positive means that there is no such matrix."""
    t = np.empty(levels.size)
    sum_above = weighted_above = 0.0  # sum t and sum t/g of the levels above
    for level in range(levels.size - 1, -1, -1):
        g = float(levels[level])
        t[level] = (1 + weighted_above - sum_above / g) / (1 - 1 / g)
        sum_above += float(sizes[level] * t[level])
        weighted_above += float(sizes[level] * t[level]) / g
    return t / (1 + weighted_above)


@dataclass(frozen=True)
class _Ladder:
    """The levels of a staircase, and what its error depends on."""

    levels: FloatArray
    sizes: FloatArray
    shares: FloatArray  # of each level, summing to one

    def best_cap(self) -> float:
        least, largest = float(self.levels[0]), self._largest_cap()
        if least >= largest:
            return least
        between = np.geomspace(least, largest, _PARTS_OF_RANGE + 1)
        inside = self.levels[self.levels <= largest]
        knots = np.unique(np.concatenate((inside, between.clip(least, largest))))
        errors = np.array([self.error(float(knot)) for knot in knots])
        best = int(np.argmin(errors))
        found = [(float(errors[best]), float(knots[best]))]
        for low, high in ((best - 1, best), (best, best + 1)):
            if low >= 0 and high < knots.size:
                found.append(_golden_section(self.error, float(knots[low]), float(knots[high])))
        return min(found)[1]

    def _largest_cap(self) -> float:
        """Return the largest level, or where the search for the end of the caps that have a matrix stops."""
        low, high = float(self.levels[0]), min(float(self.levels[-1]), _HUGE)
        if low >= high or self.error(high) < math.inf:
            return max(low, high)
        for _ in range(_STEPS_OF_SEARCH):
            middle = low + (high - low) / 2
            low, high = (middle, high) if self.error(middle) < math.inf else (low, middle)
        return high

    def error(self, cap: float) -> float:
        """Return L2 of the staircase with this cap, infinite where there is none."""
        below = int(np.searchsorted(self.levels, cap, side="left"))
        levels = np.append(self.levels[:below], cap)
        sizes, shares = (np.append(part[:below], part[below:].sum()) for part in (self.sizes, self.shares))
        own = _own_chances(levels, sizes)
        if not own.min() > 0:
            return math.inf
        return _error(own[:, None] / np.minimum(levels[:, None], levels), own, sizes, shares)


def _golden_section(error: Callable[[float], float], low: float, high: float) -> tuple[float, float]:
    """Return the least error found between two points, and where."""
    inner = [high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)]
    errors = [error(inner[0]), error(inner[1])]
    for _ in range(_STEPS_OF_SEARCH):
        if errors[0] <= errors[1]:
            high, inner, errors = inner[1], [0.0, inner[0]], [0.0, errors[0]]
            inner[0] = high - _GOLDEN * (high - low)
            errors[0] = error(inner[0])
        else:
            low, inner, errors = inner[0], [inner[1], 0.0], [errors[1], 0.0]
            inner[1] = low + _GOLDEN * (high - low)
            errors[1] = error(inner[1])
    return min(zip(errors, inner, strict=True))


# --- expected error -------------------------------------------------------------------------------------------------


def expected_error(blocks: BlockForm, shares: FloatArray | None = None) -> float:
    """Return L2, the expected squared error sum_x Var(n_hat_x | table)/N; infinite where counts have no estimate.

    `shares` are those of the values in the table, equal ones if there are none. In O(m + L^3).
    """
    by_class = _by_class(blocks.classes, blocks.gammas.size, shares)
    return _error(blocks.off_diagonal, blocks.diagonal, blocks.sizes, by_class)


def uniform_error(gamma: float, m: int) -> float:
    """Return uniform's L2, which is the same for every table.

        L2 = (m-1)/m (((g+m-1)/(g-1))^2 - 1)

    >>> round(uniform_error(1.5, 4), 9)
    60.0
    """
    return (m - 1) / m * (((1 + (m - 1) / gamma) / (1 - 1 / gamma)) ** 2 - 1)


def _by_class(classes: IntArray, count: int, shares: FloatArray | None) -> FloatArray:
    """Return the share of each class."""
    summed = np.bincount(classes, weights=shares, minlength=count).astype(np.float64)
    return np.asarray(summed / summed.sum())


def _error(off_diagonal: FloatArray, diagonal: FloatArray, sizes: FloatArray, shares: FloatArray) -> float:
    """L2 of the module's docstring."""
    kept = diagonal - off_diagonal.diagonal()
    if not (kept != 0).all():
        return math.inf
    summed = np.diag(kept) + sizes[:, None] * off_diagonal
    try:
        u = np.linalg.solve(summed.T, (off_diagonal / kept[:, None]).T).T
    except np.linalg.LinAlgError:
        return math.inf
    published = summed @ shares
    own = (1 / kept - u.diagonal()) ** 2 - u.diagonal() ** 2
    return float(sizes @ (u * u @ published) + published @ own - 1)
