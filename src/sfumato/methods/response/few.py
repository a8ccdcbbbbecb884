"""The risk of a few cells, its gradient and (where that is cheap) its second derivatives: what a search needs often.

For `Reconstruction` in a small domain most is computed beforehand. On the free quasi-identifiers P has the eigenvalues
1 (on constants) and r_k = e^(x_k), so that over the sets A of free attributes

    lambda = sum_A (prod_{k in A} r_k) pi_A        pi_A: pi_QI centred along the axes in A, averaged along the others

and P[b, a]^2 takes one of 2^n values: a factor p_k^2 where a and b agree in attribute k, and q_k^2 where they differ.
With s_k = d log(factor)/dx_k (alpha where they agree, beta where they differ), l_k = d log(lambda_b)/dx_k, and the
terms t_b = P[b, a]^2/lambda_b of g_a = sum_b t_b,

    dg/dx_k       = sum_b t_b (s_k - l_k)
    d2g/dx_k dx_j = sum_b t_b ((s_k - l_k)(s_j - l_j) + l_k l_j - (d2 lambda_b/dx_k dx_j)/lambda_b + [k = j] s_k')
    alpha = 2 r (1 - 1/d)/p        alpha' = 2 r (1 - 1/d)/(d p^2)        beta = -2 r/(1 - r)        beta' = beta/(1 - r)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import Problem
from sfumato.methods.response.risks import Reconstruction, Risk
from sfumato.values.matrix.retention import FloatArray

SMALL = 1 << 17
"""Numbers up to which tables are made beforehand. So there are at most 8 attributes then: 2^n cells, 2^n sets."""

CELLS = 16
"""How many of the worst cells are looked at, or join at a time, where each of them costs something."""

NEGLIGIBLE = 1e-15
"""The least share of the largest lambda that sums of parts are exact to."""

BoolArray = npt.NDArray[np.bool_]

_PREPARED: WeakKeyDictionary[JointTable, dict[tuple[int, ...], Links]] = WeakKeyDictionary()
"""What was prepared of a table that is still in use: a plan looks at it under several limits."""


class View(Protocol):
    """What is seen of the cells at a point."""

    @property
    def ratio(self) -> FloatArray:
        """[cells]: the risk over its limit."""

    @property
    def slope(self) -> FloatArray:
        """[cells, n]: the gradient of its logarithm."""


class Few:
    """Looks at the cells of a problem that are told to it, and tells which are the worst."""

    def __init__(self, given: Problem) -> None:
        self.given = given
        self._links = _prepared(given)
        self._strictest = _strictest(given) if self._links else None
        self._last: tuple[bytes, Risk] | None = None

    @property
    def prepared(self) -> bool:
        """Whether a look at a few cells costs far less than one at all."""
        return self._links is not None

    def largest(self, x: FloatArray) -> float:
        """Return the largest ratio at x, of all cells."""
        return float(self.given.ratio(self._at(x)).max())

    def guess(self, x: FloatArray) -> float:
        """Return about the largest ratio at x."""
        return float(self._ratios(x).max())

    def worst(self, x: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
        """Return the cells with the largest ratios at x, and these; of each group one, where more would be idle.

        Where only a few cells are looked at, and S is not free, these are guessed: b = a alone is taken into account.
        """
        where, ratio = largest(self._ratios(x), most)
        if self._strictest is None:
            return where, ratio
        return where * self.given.table.sizes[-1] + self._strictest[0].take(where), ratio

    def _ratios(self, x: FloatArray) -> FloatArray:
        """Return the ratio of every cell, or what it is guessed to be in the strictest cell of every group."""
        if self._links is None or self._strictest is None:
            return self.given.ratio(self._at(x))
        return self._strictest[1] * self._links.staying(x)

    def at(self, cells: IntArray) -> Callable[[FloatArray], View]:
        """Return what looks at these cells."""
        if self._links is None:
            return lambda x: Whole(self.given, self._at(x), cells)
        table = self.given.table
        group, value = np.divmod(cells, table.sizes[-1])
        links, pairs = self._links, self._links.to(table.groups[group])
        counts, limits = table.counts[group, value], self.given.limits[group, value]
        if self._strictest is not None:
            factor = counts / limits
            return lambda x: LinksView(links, pairs, x, factor)
        own, factor = table.counts[group], counts**2 / limits
        return lambda x: GuessesView(LinksView(links, pairs, x[:-1], factor), own, value, float(x[-1]))

    def _at(self, x: FloatArray) -> Risk:
        """Return the risk at x: a search asks for the worst cells, and then looks at them."""
        key = x.tobytes()
        if self._last is None or self._last[0] != key:
            self._last = key, self.given.at(x)
        return self._last[1]


def _prepared(given: Problem) -> Links | None:
    """Return the links where they are small enough."""
    table = given.table
    quasi = [k for k in given.free if k < len(table.sizes) - 1]
    if given.risk is not Reconstruction or not quasi or table.group_cells * max(1 << len(quasi), CELLS) > SMALL:
        return None
    prepared = _PREPARED.setdefault(table, {})
    key = tuple(quasi)
    if key not in prepared:
        prepared[key] = Links.of(table, quasi)
    return prepared[key]


def _strictest(given: Problem) -> tuple[IntArray, FloatArray] | None:
    """Of each group, the value nearest to its limit and its risk without linking; where noise in S changes none."""
    if given.risk is not Reconstruction or len(given.table.sizes) - 1 in given.free:
        return None
    return given.strictest


@dataclass(frozen=True, eq=False)
class Whole:
    """Some of all cells. Their second derivatives would cost as much as many steps."""

    given: Problem
    point: Risk
    cells: IntArray

    @cached_property
    def ratio(self) -> FloatArray:
        """[cells]."""
        return self.given.ratio(self.point)[self.cells]

    @cached_property
    def slope(self) -> FloatArray:
        """[cells, n]."""
        return self.point.gradient(self.cells)[:, list(self.given.free)]


@dataclass(frozen=True, eq=False)
class Links:
    """Prepared sums over the cells b that can be released, along the free quasi-identifiers."""

    sizes: list[int]  # [n]
    powers: npt.NDArray[np.uint8]  # [attributes]: the free ones' bits in the number of a set, and 0
    fixed: list[int]  # the other attributes
    bits: FloatArray  # [2^n, n]: the sets A
    turning: FloatArray  # [1 + n, 2^n]: ones, then the sets again
    parts: FloatArray  # [2^n, b]: pi_A
    codes: npt.NDArray[np.unsignedinteger]  # [attributes, b]; of the least type, to be compared fast
    own: IntArray  # [groups]: which b is the same
    least: float  # what rounding leaves of lambda; where it is that small t_b <= P[b, a]/pi_a is, too

    @classmethod
    def of(cls, table: JointTable, free: list[int]) -> Links:
        """Prepare the sums; what cannot be reached, because an untouched attribute forbids it, is left out."""
        sizes, parts = table.sizes[:-1], _parts(table.group_array, free)
        codes, own = _codes(sizes), table.places
        reached = np.flatnonzero(parts[0])
        if len(reached) < parts.shape[1]:
            parts, codes, own = parts[:, reached], codes[:, reached], np.searchsorted(reached, own)
        powers = np.zeros(len(sizes), dtype=np.uint8)
        powers[free] = 1 << np.arange(len(free))[::-1]
        fixed = [k for k in range(len(sizes)) if k not in free]
        least = NEGLIGIBLE * float(table.group_sizes.max())
        return cls([sizes[k] for k in free], powers, fixed, *_bits(len(free)), parts, codes, own, least)

    def staying(self, x: FloatArray) -> FloatArray:
        """Return P[a, a]^2/lambda_a of all groups."""
        stays = math.prod(r + (1 - r) / d for r, d in zip(np.exp(x).tolist(), self.sizes, strict=True)) ** 2
        released = np.exp(self.bits @ x) @ self.parts
        staying: FloatArray = stays / np.maximum(released, self.least)[self.own]
        return staying

    def to(self, groups: IntArray) -> Pairs:
        """Return how these groups differ from what can be released."""
        differ = groups.astype(self.codes.dtype)[:, :, None] != self.codes  # [a, attribute, b]
        pattern = np.einsum("k,akb->ab", self.powers, differ.view(np.uint8)).astype(np.int64)
        reached = ~differ[:, self.fixed].any(axis=1) if self.fixed else None
        places = pattern + np.arange(0, len(groups) * len(self.bits), len(self.bits))[:, None]
        return Pairs(pattern, places.ravel(), reached)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Groups a and what can be released, b: [a, b]."""

    pattern: IntArray  # the number of the set of free attributes in which they differ
    places: IntArray  # the number of a and the set, flat
    reached: BoolArray | None  # whether they differ in no other; None if there is none


class LinksView:
    """g of a few groups at x, times a factor for each."""

    def __init__(self, links: Links, pairs: Pairs, x: FloatArray, factor: FloatArray) -> None:
        self.links, self.pairs = links, pairs
        values = x.tolist()
        self.channels = [
            (d, math.exp(v), -math.expm1(v) / d) for d, v in zip(links.sizes, values, strict=True)
        ]  # d, r, q
        stays = [math.log(r + q) for _, r, q in self.channels]
        moved = [2 * (math.log(q) - stay) for (_, _, q), stay in zip(self.channels, stays, strict=True)]
        # over the sets: products of r in them; and of q^2 in them and p^2 elsewhere
        self.weights, squares = np.exp(np.array([[0.0, *values], [2 * sum(stays), *moved]]) @ links.turning)
        moves = (links.turning * self.weights) @ links.parts  # [1 + n, b]: lambda and its derivatives
        self.inverse = 1 / np.maximum(moves[0], links.least)
        self.terms = squares.take(pairs.pattern)  # t: [a, b]
        self.terms *= self.inverse
        if pairs.reached is not None:
            self.terms *= pairs.reached
        self.g = np.add.reduce(self.terms, 1)
        self.ratio = factor * self.g
        self._moves = moves[1:]
        self._slope: FloatArray | None = None

    @property
    def slope(self) -> FloatArray:
        """[a, n]."""
        if self._slope is None:  # `cached_property` has a lock in Python 3.11, which costs a tenth of the rest
            self._slope = self._sloped()
        return self._slope

    def _sloped(self) -> FloatArray:
        shape = len(self.g), len(self.weights)
        pairs = [(2 * r * (1 - 1 / d) / (r + q), -2 * r / (d * q)) for d, r, q in self.channels]
        alike, unlike = np.array(pairs).T  # alpha, beta
        more = (unlike - alike) * self.links.bits
        self.factors = alike + more  # s: [2^n, n]
        self.turns = self._moves * self.inverse  # l: [n, b]
        self.sums = np.bincount(self.pairs.places, self.terms.ravel(), math.prod(shape)).reshape(shape)  # of t
        slope: FloatArray = alike + (self.sums @ more - self.terms @ self.turns.T) / self.g[:, None]
        return slope

    def bend(self, weights: dict[int, float]) -> FloatArray:
        """Return the sum of the second derivatives of the logarithms of some cells, so weighted: [n, n].

        Those of log g are those of g over g, less the product of the slopes.
        """
        rows, mu = np.array(list(weights), dtype=np.intp), np.array(list(weights.values()))
        n, links = len(self.channels), self.links
        slope, turns = self.slope.take(rows, 0), self.turns  # fancy indices would take twice as long
        share = mu / self.g.take(rows)
        t = self.terms.take(rows, 0)
        t *= share[:, None]
        u = self.factors.T.take(self.pairs.pattern.take(rows, 0), axis=1)
        u -= turns[:, None]
        total = np.add.reduce(t, 0)
        second = self.weights * (links.parts @ (total * self.inverse))
        found: FloatArray = (u * t).reshape(n, -1) @ u.reshape(n, -1).T
        found += (turns * total) @ turns.T
        found -= (links.bits.T * second) @ links.bits
        found -= (slope.T * mu) @ slope
        # alpha' and beta', as often as a and b are alike and not
        often, whole = (share @ self.sums.take(rows, 0) @ links.bits).tolist(), sum(weights.values())
        for k, (d, r, q) in enumerate(self.channels):
            alike, unlike = 2 * r * (1 - 1 / d) / (d * (r + q) ** 2), -2 * r / (d * q) ** 2
            found[k, k] += alike * (whole - often[k]) + unlike * often[k]
        return found


class GuessesView:
    """The same times sum_v P_s[v, u]^2/(P_s pi(a, .))_v of cells (a, u), with the log-retention x of S."""

    def __init__(self, links: LinksView, counts: FloatArray, value: IntArray, x: float) -> None:
        size = counts.shape[1]
        r, q = math.exp(x), -math.expm1(x) / size
        own = np.arange(len(value)), value
        noise = counts.sum(axis=1, keepdims=True) / size
        turn = r * (counts - noise)  # of what is published, and of its slope again
        inverse = 1 / (turn + noise)
        first = -turn * inverse**2
        second = first - 2 * turn * inverse * first
        # P_s o P_s = own I + spread J, with q' = -r/d, p' = r + q', and these are their own derivatives
        dq, p = -r / size, r + q
        dp = r + dq
        spread, spread1, spread2 = q * q, 2 * q * dq, 2 * (dq + q) * dq
        alone, alone1, alone2 = p * p - spread, 2 * p * dp - spread1, 2 * (dp + p) * dp - spread2
        sums = [y.sum(axis=1) for y in (inverse, first, second)]
        total = spread * sums[0] + alone * inverse[own]
        rise = spread2 * sums[0] + 2 * spread1 * sums[1] + spread * sums[2]
        rise += alone2 * inverse[own] + 2 * alone1 * first[own] + alone * second[own]
        self.links, self.ratio = links, links.ratio * total
        self._slope = (spread1 * sums[0] + spread * sums[1] + alone1 * inverse[own] + alone * first[own]) / total
        self._bend = rise / total - self._slope**2

    @property
    def slope(self) -> FloatArray:
        """[cells, n]."""
        return np.column_stack([self.links.slope, self._slope])

    def bend(self, weights: dict[int, float]) -> FloatArray:
        """Return the same; of a product the logarithm is a sum."""
        of_links = self.links.bend(weights)
        n = len(of_links) + 1
        whole = np.zeros((n, n))
        whole[:-1, :-1], whole[-1, -1] = of_links, sum(mu * self._bend[k] for k, mu in weights.items())
        return whole


def largest(x: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
    """Return where the largest numbers are, and these."""
    where = x.argpartition(-most)[-most:] if x.size > most else np.arange(x.size)
    return where, x[where]


@lru_cache
def _bits(n: int) -> tuple[FloatArray, FloatArray]:
    """[2^n, n]: all sets of n attributes, the first has the highest bit; [1 + n, 2^n]: ones, and the same."""
    bits = np.indices((2,) * n).reshape(n, -1).astype(np.float64)
    return np.ascontiguousarray(bits.T), np.concatenate([np.ones((1, 1 << n)), bits])


@lru_cache(maxsize=16)
def _codes(sizes: tuple[int, ...]) -> npt.NDArray[np.unsignedinteger]:
    """[attributes, cells]: the codes of all cells of a domain, of the least type."""
    return np.indices(sizes, dtype=np.min_scalar_type(max(sizes))).reshape(len(sizes), -1)


def _parts(sizes: FloatArray, free: list[int]) -> FloatArray:
    """[2^n, cells]: the array averaged (bit 0) or centred (bit 1) along each free axis."""
    parts = sizes[None]
    for axis in reversed(free):
        mean = np.add.reduce(parts, axis + 1, keepdims=True) / parts.shape[axis + 1]
        both = np.empty((2, *parts.shape))
        both[0] = mean
        np.subtract(parts, mean, out=both[1])
        parts = both.reshape(-1, *sizes.shape)
    return parts.reshape(len(parts), -1)
