"""The staircase where sets of values have bounds of their own: docs/methods/proofs/fine-grain.md, "Sets of values".

A bound g_S on the statement "the value is in S", in both directions, is P[y,i] <= g_S P[y,k] and P[y,k] <= g_S P[y,i]
for all i in S and k outside. Single values are sets of one. So two values are held to the strictest statement that
tells them apart,

    G_ik = min { g_S : S holds one of i, k and not the other },

and really, by chains over other values, to the shortest way between them with the lengths ln G: what is left is a
distance, d(i,k) <= d(i,j) + d(j,k). Where some g_S is finite, all of it is at most 2 ln g_S.

**Staircases of a distance.** P[y,x] = s_y exp(-d(x,y)) keeps all bounds: P[y,i]/P[y,k] = exp(d(k,y) - d(i,y)) is at
most exp(d(i,k)). Its columns sum to one iff sum_y s_y exp(-d(x,y)) = 1 for all x, a linear system, and it is a matrix
iff all s are positive. Not every distance has such s; min(d, ln rho) is a distance again, and for the least G it is
uniform perturbation, which always exists. The cap with the least expected error is taken; and since noise that one
small set takes up must not tell of another, all sets are tried with the factor of stricter ones, too.

Values that the same sets hold, with the same gamma, are alike: they form a class, and all is done by classes. The
staircase of `methods/staircase.py` is the case without sets, where the system has a closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.methods.staircase import MOST_LEVELS, BlockForm, best_staircase, expected_error
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

_PARTS_OF_RANGE = 64
_REFINED = 16
_LEVELS_OF_SETS = 8


@dataclass(frozen=True, eq=False)
class Separation:
    """The classes of values, and by how much at most two different values of each pair of classes are told apart."""

    classes: IntArray  # of each value
    factors: FloatArray  # G by classes, closed; on the diagonal that of two values of the class

    @property
    def sizes(self) -> FloatArray:
        return np.bincount(self.classes).astype(np.float64)


def separation(gammas: FloatArray, sets: Sequence[tuple[BoolArray, float]]) -> Separation | None:
    """Return the classes of values and their closed factors; None where there are too many classes.

    `gammas` are those of single values, infinite where nothing is required; of each set which values it holds, and its
    gamma.

    >>> inside = np.array([True, True, False, False])
    >>> separation(np.full(4, np.inf), [(inside, 3.0)]).factors.round(6).tolist()
    [[9.0, 3.0], [3.0, 9.0]]
    """
    marks = np.column_stack([gammas, *(~inside for inside, _ in sets)])
    kinds, classes = np.unique(marks, axis=0, return_inverse=True)
    if len(kinds) > MOST_LEVELS:
        return None
    own, held = kinds[:, 0], kinds[:, 1:] == 0
    factors = np.minimum(own[:, None], own)
    for place, (_, gamma) in enumerate(sets):
        apart = held[:, place, None] != held[:, place]
        factors = np.where(apart, np.minimum(factors, gamma), factors)
    return Separation(classes.reshape(-1), _closed(factors, np.bincount(classes.reshape(-1))))


def _closed(factors: FloatArray, sizes: IntArray) -> FloatArray:
    """Return the factors with all chains: over the values of other classes, and over others of the same class."""
    twice = np.repeat(np.arange(sizes.size), np.minimum(sizes, 2))  # a second value stands for all others of a class
    length = np.log(factors)[np.ix_(twice, twice)]
    np.fill_diagonal(length, 0.0)
    for via in range(twice.size):
        length = np.minimum(length, length[:, via, None] + length[via])
    first = np.searchsorted(twice, np.arange(sizes.size))
    closed = np.exp(length[np.ix_(first, first)])
    pairs = first[sizes > 1]
    closed[sizes > 1, sizes > 1] = np.exp(length[pairs, pairs + 1])
    # a class of one value has no pair: its own entry is never read, and stands for the largest factor of its row
    alone = np.flatnonzero(sizes == 1)
    closed[alone, alone] = np.where(np.eye(sizes.size, dtype=np.bool_), 1.0, closed).max(axis=1)[alone]
    return np.asarray(closed)


def least_error_blocks(
    held: FloatArray, gammas: FloatArray, sets: Sequence[tuple[BoolArray, float]], shares: FloatArray
) -> BlockForm:
    """Return the better one of two staircases: of single values, `held` to the sets that they are in; of the sets."""
    single = best_staircase(held, shares)
    best = single.error, single.blocks
    for most in _thinned(np.unique([gamma for _, gamma in sets])):
        found = separation(gammas, [(inside, min(gamma, most)) for inside, gamma in sets])
        if found is not None:
            together = best_with_sets(found, shares)
            best = min(best, (expected_error(together, shares), together), key=lambda each: each[0])
    return best[1]


def _thinned(levels: FloatArray) -> list[float]:
    """Return a few levels, the first and the last among them."""
    if levels.size <= _LEVELS_OF_SETS:
        return [float(level) for level in levels]
    places = np.linspace(0, levels.size - 1, _LEVELS_OF_SETS).round().astype(np.int64)
    return [float(level) for level in levels[places]]


def staircase_of(found: Separation, cap: float = math.inf) -> BlockForm | None:
    """Return the staircase of the factors up to a cap; None where it does not exist."""
    inverse = 1 / np.minimum(found.factors, cap)
    system = (inverse * found.sizes[:, None]).T + np.diag(1 - inverse.diagonal())
    try:
        own = np.linalg.solve(system, np.ones(len(system)))
    except np.linalg.LinAlgError:
        return None
    if not own.min() > 0:
        return None
    return BlockForm(found.classes, found.factors.diagonal(), own[:, None] * inverse, np.asarray(own, dtype=np.float64))


def best_with_sets(found: Separation, shares: FloatArray | None = None) -> BlockForm:
    """Return the staircase whose cap makes the expected error least, for the shares of a table or for equal ones.

    Which caps have a staircase is no range: all factors and points between them are tried, and the best is refined.
    """
    levels = np.unique(found.factors)
    least, largest = float(levels[0]), float(levels[-1])
    knots = np.unique(np.concatenate((levels, np.geomspace(least, largest, _PARTS_OF_RANGE + 1).clip(least, largest))))
    errors = [_error(found, float(cap), shares) for cap in knots]
    best = int(np.argmin(errors))
    low, high = knots[max(best - 1, 0)], knots[min(best + 1, knots.size - 1)]
    caps = [float(knots[best]), *np.geomspace(low, high, _REFINED).clip(low, high).tolist()]
    chosen = staircase_of(found, min(caps, key=lambda cap: _error(found, cap, shares)))
    assert chosen is not None, "the least factor has uniform perturbation"
    return chosen


def _error(found: Separation, cap: float, shares: FloatArray | None) -> float:
    blocks = staircase_of(found, cap)
    return math.inf if blocks is None else expected_error(blocks, shares)
