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
from typing import NamedTuple

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import Channel, IntArray, Mix, product
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.problem import Problem
from sfumato.methods.response.risks import Reconstruction, Risk

SMALL = 1 << 17
"""Numbers up to which tables are made beforehand."""

NEGLIGIBLE = 1e-15
"""The least share of the largest lambda that sums of parts are exact to."""

Bend = Callable[[FloatArray], FloatArray]


class View(NamedTuple):
    """What is seen of the cells at a point."""

    ratio: FloatArray  # [cells]: the risk over its limit
    slope: FloatArray  # [cells, n]: the gradient of its logarithm
    bend: Bend | None  # from weights of the cells to the sum of the second derivatives of the logarithms, [n, n]


@dataclass(frozen=True, eq=False)
class Few:
    """Looks at the cells of a problem that are told to it, and tells which are the worst."""

    given: Problem

    @cached_property
    def _links(self) -> Links | None:
        table = self.given.table
        quasi = [k for k in self.given.free if k < len(table.sizes) - 1]
        if self.given.risk is not Reconstruction or not quasi or table.group_cells << len(quasi) > SMALL:
            return None
        return Links.of(table, quasi)

    @property
    def prepared(self) -> bool:
        """Whether a look at a few cells costs far less than one at all."""
        return self._links is not None

    @cached_property
    def _at(self) -> Callable[[bytes], Risk]:
        """The risk at x; a search asks for the worst cells and looks at them one after the other."""
        return lru_cache(maxsize=1)(lambda key: self.given.at(np.frombuffer(key)))

    @cached_property
    def _strictest(self) -> tuple[IntArray, FloatArray] | None:
        """Of each group, the cell nearest to its limit and its risk without linking; where noise in S changes none."""
        if len(self.given.table.sizes) - 1 in self.given.free:
            return None
        shares = self.given.table.counts / self.given.limits
        values = shares.argmax(axis=1)
        groups = np.arange(len(shares))
        return groups * shares.shape[1] + values, shares[groups, values]

    def largest(self, x: FloatArray) -> float:
        """Return the largest ratio at x."""
        return float(self.worst(x, 1)[1][0])

    def worst(self, x: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
        """Return the cells with the largest ratios at x, and these; of each group one, where more would be idle."""
        if self._links is None or self._strictest is None:
            return largest(self.given.ratio(self._at(x.tobytes())), most)
        cells, shares = self._strictest
        ratio = shares * self._links.everywhere(x)[self.given.table.places]
        groups, ratio = largest(ratio, most)
        return cells[groups], ratio

    def at(self, cells: IntArray) -> Callable[[FloatArray], View]:
        """Return what looks at these cells."""
        if self._links is None or self.given.table.group_cells * len(cells) > SMALL:
            return lambda x: self._whole(cells, x)
        table = self.given.table
        group, value = np.divmod(cells, table.sizes[-1])
        counts, limits = table.counts[group, value], self.given.limits[group, value]
        links = self._links.to(table.groups[group])
        if self._strictest is not None:
            factor = counts / limits
            return lambda x: links(x, factor)
        guesses, factor = Guesses(table.counts[group], value), counts**2 / limits
        return lambda x: guesses(x, links(x[:-1], factor))

    def _whole(self, cells: IntArray, x: FloatArray) -> View:
        point = self._at(x.tobytes())
        return View(self.given.ratio(point)[cells], point.gradient(cells)[:, list(self.given.free)], None)


@dataclass(frozen=True, eq=False)
class Links:
    """Prepared sums over the cells b that can be released, along the free quasi-identifiers."""

    sizes: FloatArray  # [n]
    free: list[int]
    bits: FloatArray  # [2^n, n]: the sets A
    parts: FloatArray  # [2^n, b]: pi_A
    codes: IntArray  # [attributes, b]
    reached: IntArray  # [b]: their places in the domain
    domain: tuple[int, ...]

    @classmethod
    def of(cls, table: JointTable, free: list[int]) -> Links:
        """Prepare the sums; what cannot be reached, because an untouched attribute forbids it, is left out."""
        parts = _parts(table.group_array, free)
        reached = np.flatnonzero(parts[0])
        codes = np.array(np.unravel_index(reached, table.sizes[:-1]))
        sizes = np.array([float(table.sizes[k]) for k in free])
        return cls(sizes, free, _bits(len(free)), parts[:, reached], codes, reached, table.sizes[:-1])

    def _released(self, weights: FloatArray) -> FloatArray:
        """Return lambda, not below what rounding leaves of it: where it is that small t_b <= P[b, a]/pi_a is, too."""
        released = weights @ self.parts
        floored: FloatArray = np.maximum(released, NEGLIGIBLE * released.max())
        return floored

    def everywhere(self, x: FloatArray) -> FloatArray:
        """Return g of all cells of the domain, flat."""
        inverse = np.zeros(math.prod(self.domain))
        inverse[self.reached] = 1 / self._released(np.exp(self.bits @ x))
        mixes = [Mix(1.0, 0.0)] * len(self.domain)
        for k, value in zip(self.free, x.tolist(), strict=True):
            mixes[k] = Channel.from_log_retention(self.domain[k], value).squared
        return product(mixes, inverse.reshape(self.domain)).ravel()

    def to(self, groups: IntArray) -> Callable[[FloatArray, FloatArray], View]:
        """Return g of these groups, as a function of x and of a factor for each group."""
        differ = groups.T[self.free, :, None] != self.codes[self.free][:, None]  # [n, a, b]
        differing = differ.astype(np.float64)
        powers = 2.0 ** np.arange(len(differ))[::-1]  # the first attribute has the highest bit
        pattern = (powers @ differing.reshape(len(differ), -1)).astype(np.int64).reshape(differ.shape[1:])
        for k in set(range(len(self.codes))) - set(self.free):
            pattern[groups[:, k, None] != self.codes[k]] = len(self.bits)
        return lambda x, factor: self._seen(x, factor, pattern, differing)

    def _seen(self, x: FloatArray, factor: FloatArray, pattern: IntArray, differing: FloatArray) -> View:
        r, noise, d = np.exp(x), -np.expm1(x), self.sizes
        q = noise / d
        p = r + q
        alpha, beta = 2 * (r - r / d) / p, -2 * r / noise
        squares = np.zeros(len(self.bits) + 1)  # the last one: not to be reached
        squares[:-1] = np.exp(2 * (self.bits @ np.log(q / p))) * p.prod() ** 2
        weights = np.exp(self.bits @ x)
        released = self._released(weights)
        turns = ((weights * self.bits.T) @ self.parts) / released  # l: [n, b]
        terms = squares[pattern] / released  # t: [a, b]
        g = terms.sum(axis=1)
        elsewhere = np.vecdot(differing, terms).T / g[:, None]
        slope = alpha + (beta - alpha) * elsewhere - terms @ turns.T / g[:, None]

        def bend(multipliers: FloatArray) -> FloatArray:
            """The second derivatives of log g are those of g over g, less the product of the slopes."""
            rows = multipliers.nonzero()[0]
            mu, s = multipliers[rows], slope[rows]
            t = (mu / g[rows])[:, None] * terms[rows]
            u = differing[:, rows]
            u *= (beta - alpha)[:, None, None]
            u += (alpha[:, None] - turns)[:, None]
            total = t.sum(axis=0)
            second = (weights * (self.parts @ (total / released)))[:, None] * self.bits
            found: FloatArray = (u * t).reshape(len(x), -1) @ u.reshape(len(x), -1).T
            found += (turns * total) @ turns.T - self.bits.T @ second - (s.T * mu) @ s
            alike, unlike = alpha / (d * p), beta / noise
            found.flat[:: len(x) + 1] += mu @ (alike + (unlike - alike) * elsewhere[rows])
            return found

        return View(factor * g, slope, bend)


@dataclass(frozen=True, eq=False)
class Guesses:
    """sum_v P_s[v, u]^2/(P_s pi(a, .))_v of a few cells (a, u); the log-retention of S is the last of x."""

    counts: FloatArray  # [cells, d_s]
    value: IntArray

    def __call__(self, x: FloatArray, links: View) -> View:
        """Return the product of both factors."""
        size = self.counts.shape[1]
        r, q = math.exp(x[-1]), -math.expm1(x[-1]) / size
        own = np.arange(len(self.value)), self.value
        noise = self.counts.sum(axis=1, keepdims=True) / size
        turn = r * (self.counts - noise)  # of what is published, and of its slope again
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
        slope = (spread1 * sums[0] + spread * sums[1] + alone1 * inverse[own] + alone * first[own]) / total
        rise = spread2 * sums[0] + 2 * spread1 * sums[1] + spread * sums[2]
        rise += alone2 * inverse[own] + 2 * alone1 * first[own] + alone * second[own]

        def bend(multipliers: FloatArray) -> FloatArray:
            whole = np.zeros((len(x), len(x)))
            whole[:-1, :-1] = links.bend(multipliers) if links.bend else 0.0
            whole[-1, -1] = multipliers @ (rise / total - slope**2)
            return whole

        return View(links.ratio * total, np.column_stack([links.slope, slope]), bend)


def largest(x: FloatArray, most: int) -> tuple[IntArray, FloatArray]:
    """Return where the largest numbers are, and these."""
    where = x.argpartition(-most)[-most:] if x.size > most else np.arange(x.size)
    return where, x[where]


@lru_cache
def _bits(n: int) -> FloatArray:
    """[2^n, n]: all sets of n attributes; the first has the highest bit."""
    return np.indices((2,) * n).reshape(n, -1).T.astype(np.float64)


def _parts(sizes: FloatArray, free: list[int]) -> FloatArray:
    """[2^n, cells]: the array averaged (bit 0) or centred (bit 1) along each free axis."""
    parts = sizes[None]
    for axis in reversed(free):
        mean = np.add.reduce(parts, axis + 1, keepdims=True) / parts.shape[axis + 1]
        both = np.empty((2, *parts.shape))
        both[0], both[1] = mean, parts - mean
        parts = both.reshape(-1, *sizes.shape)
    return parts.reshape(len(parts), -1)
