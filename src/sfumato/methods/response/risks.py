"""Three risks of attribute disclosure under linking, and their gradients.

P acts on the quasi-identifiers (QI), P_s on the sensitive attribute S. pi is the joint table, pi_a the size of QI group
a, lambda = P pi_QI its expected release, and h(b, u) = (P pi(., u))_b / lambda_b the share of u in released group b.

- `Reconstruction` (AD Eqs. (6)-(8), as published): of a person in the occupied cell (a, u),

      risk = pi(a, u)/pi_a * eta_a * sigma(a, u)
      eta_a       = pi_a     sum_b P[b, a]^2 / lambda_b              the QI is reconstructed by sampling, Eq. (7), (9)
      sigma(a, u) = pi(a, u) sum_v P_s[v, u]^2 / (P_s pi(a, .))_v    so is S, given the right QI, Eq. (8)

  It bounds no inference: hits by wrongly linked rows are not counted, and guessing the likeliest value hits more often
  than sampling.
- `Posterior` (proved): h(b, u) for every b and u: the belief of somebody who knows the released QI of a person's row
  and nothing else. Noise in S does not lower it: it speaks of the true S of the rows in a released group.
- `Link` (an option): (P^T h)(a, u) for every occupied cell: how often somebody hits who draws one of the rows with the
  released QI of the person, and takes its true S; all hits are counted.

Every cell of `Reconstruction` and the maximum of `Posterior` are non-decreasing in each retention. `Link` is not, nor
is its maximum.

Gradients are by x = log r. C_k means centring along axis k: an array minus its mean there. Then d(P y)/dx_k = C_k P y.
With the eigenvalues e1 = p^2 + (d-1) q^2 on constants and ec = p^2 - q^2 on the rest, and z = (P o P) y,
dz/dx_k = (e1'/e1) mean_k z + (ec'/ec) C_k z.

All terms are sums and products of numbers that are not negative, so the relative error of a risk is at most (roundings)
2^-53, up to higher orders: `rounding` counts them, for channels made by `Channel.from_noise`, from the sizes of the
attributes that may be randomized. The others cost none: `product` passes over them, and sums of counts are exact.
(Underflow can only drop terms below 1e-200.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np

from sfumato.methods.response.joint import Channel, Channels, JointTable, forward, product
from sfumato.values.arrays import FloatArray, IntArray

RiskName = Literal["posterior", "link", "reconstruction"]

AT_ONCE = 1 << 16  # numbers up to which the slopes of several attributes are computed at once
SMALL = 1e-2  # below this the first terms of the series of g1 and g2 have less rounding error than their closed forms


@dataclass(frozen=True, eq=False)
class _Risk:
    """A risk of a table under channels (quasi-identifiers, then the sensitive attribute)."""

    table: JointTable
    channels: Channels

    name: ClassVar[RiskName]
    monotone: ClassVar[bool] = True  # whether less retention never raises the largest risk
    of_released: ClassVar[bool] = False
    """Whether cells are those of the released domain (b, u), not the occupied ones of the table."""
    sees_sensitive: ClassVar[bool] = False  # whether noise in S lowers the risk
    dense: ClassVar[bool] = True
    """Whether arrays have all cells of the joint domain, not only of the quasi-identifiers'."""

    def __post_init__(self) -> None:
        self.table.check_size(self.dense)

    @property
    def quasi(self) -> Channels:
        """The channels of the quasi-identifiers."""
        return self.channels[:-1]

    @cached_property
    def released(self) -> FloatArray:
        """lambda = P pi_QI."""
        return forward(self.quasi, self.table.group_array)

    def cell_codes(self, cells: IntArray) -> IntArray:
        """Return a row for each cell: the codes of each quasi-identifier, then the sensitive value."""
        group, value = np.divmod(cells, self.table.sizes[-1])
        if self.of_released:
            return np.column_stack([*np.unravel_index(group, self.table.sizes[:-1]), value])
        return np.column_stack([self.table.groups[group], value])


class Reconstruction(_Risk):
    """AD Eq. (6), cell by cell of [groups, d_s]; 0 where nobody is."""

    name = "reconstruction"
    sees_sensitive = True
    dense = False

    @staticmethod
    def rounding(free: Sequence[int]) -> int:
        """P costs d + 2 roundings along an axis, P o P d + 5; products, quotients, the limit and the ratio one each."""
        return sum(2 * d + 7 for d in free) + 7

    @cached_property
    def linking(self) -> FloatArray:
        """eta_a / pi_a over the whole domain of the quasi-identifiers: AD Eq. (9)."""
        return returned(self.quasi, self.released)

    @cached_property
    def published(self) -> FloatArray:
        """P_s pi(a, .): [groups, d_s]."""
        return forward(self.channels[-1:], self.table.counts, first=1)

    @cached_property
    def guessing(self) -> FloatArray:
        """sigma(a, u) / pi(a, u)."""
        return returned(self.channels[-1:], self.published, first=1)

    @cached_property
    def values(self) -> FloatArray:
        """The risk of every cell, flat."""
        counts = self.table.counts
        linked: FloatArray = counts * self.linking.ravel()[self.table.places, None]
        if self.channels[-1].off_diagonal:  # else sigma is 1, where anybody is
            linked *= counts
            linked *= self.guessing
        return linked.ravel()

    def at(self, cells: IntArray) -> FloatArray:
        """Return the risk of some cells."""
        return np.asarray(self.values[cells])

    def gradient(self, cells: IntArray) -> FloatArray:
        """Return d log(risk)/dx of these occupied cells: [cells, attributes]."""
        group, value = np.divmod(cells, self.table.sizes[-1])
        place = self.table.places[group]
        slopes = _return_slopes(self.quasi, self.released, self.linking)
        columns = [slope.ravel()[place] / self.linking.ravel()[place] for slope in slopes]
        return np.column_stack([*columns, self._guessing_slope(group, value)])

    def _guessing_slope(self, group: IntArray, value: IntArray) -> FloatArray:
        """d log(sigma)/dx_s; 0 where S is untouched, as it then stays so."""
        if self.channels[-1].off_diagonal == 0:
            return np.zeros(len(group))
        published, own = self.published[group], (np.arange(len(group)), value)
        guessing = returned(self.channels[-1:], published, first=1)
        (slope,) = _return_slopes(self.channels[-1:], published, guessing, first=1)
        of_cells: FloatArray = slope[own] / guessing[own]
        return of_cells


class Posterior(_Risk):
    """h(b, u), cell by cell of the released domain times d_s; 0 where nothing is released."""

    name = "posterior"
    of_released = True

    @staticmethod
    def rounding(free: Sequence[int]) -> int:
        """Two products with P, a reciprocal, a product, the limit and the ratio to it."""
        return 2 * sum(d + 2 for d in free) + 4

    @cached_property
    def joint(self) -> FloatArray:
        """P pi(., u) for every u."""
        return forward(self.quasi, self.table.array)

    @cached_property
    def shares(self) -> FloatArray:
        """h(b, u), shaped like the table."""
        return self.joint * _reciprocal(self.released)[..., None]

    @property
    def values(self) -> FloatArray:
        """h, flat."""
        return self.shares.ravel()

    def at(self, cells: IntArray) -> FloatArray:
        """Return h of some cells, without that of all."""
        released = self.released.ravel()[cells // self.table.sizes[-1]]
        return np.asarray(self.joint.ravel()[cells] * _reciprocal(released))

    def gradient(self, cells: IntArray) -> FloatArray:
        """Return d log h/dx_k = mean_k(lambda)/lambda - mean_k(P pi_u)/(P pi_u)."""
        codes = tuple(self.cell_codes(cells).T)
        joint, released = self.joint[codes], self.released[codes[:-1]]
        columns = [
            _mean_at(self.released, k, codes[:-1]) / released - _mean_at(self.joint, k, codes) / joint
            for k in range(len(self.quasi))
        ]
        return np.column_stack([*columns, np.zeros(len(cells))])


class Link(_Risk):
    """(P^T h)(a, u), cell by cell of [groups, d_s]; 0 where nobody is."""

    name = "link"
    monotone = False

    @staticmethod
    def rounding(free: Sequence[int]) -> int:
        """One product more than `Posterior`."""
        return Posterior.rounding(free) + sum(d + 2 for d in free)

    @cached_property
    def posterior(self) -> Posterior:
        """h."""
        return Posterior(self.table, self.channels)

    @cached_property
    def hits(self) -> FloatArray:
        """P^T h over the whole domain."""
        return forward(self.quasi, self.posterior.shares)

    @cached_property
    def values(self) -> FloatArray:
        return np.where(self.table.counts > 0, _rows(self.hits)[self.table.places], 0.0).ravel()

    def at(self, cells: IntArray) -> FloatArray:
        """Return the risk of some cells."""
        return np.asarray(self.values[cells])

    def gradient(self, cells: IntArray) -> FloatArray:
        """Return d log(risk)/dx, from dlink/dx_k = C_k link + P^T dh/dx_k."""
        group, value = np.divmod(cells, self.table.sizes[-1])
        own = self.table.places[group], value
        hits = _rows(self.hits)[own]
        columns = [_rows(self._slope(k))[own] / hits for k in range(len(self.quasi))]
        return np.column_stack([*columns, np.zeros(len(cells))])

    def _slope(self, k: int) -> FloatArray:
        h, released = self.posterior, self.posterior.released
        turn = h.shares * _mean(released, k)[..., None] - _mean(h.joint, k)
        turn *= _reciprocal(released)[..., None]
        return _centred(self.hits, k) + forward(self.quasi, turn)


Risk = Reconstruction | Posterior | Link
RISKS: dict[RiskName, type[Reconstruction] | type[Posterior] | type[Link]] = {
    "reconstruction": Reconstruction,
    "posterior": Posterior,
    "link": Link,
}


def row_posterior(posterior: float, sensitive: Channel) -> float:
    """Return the belief of somebody who also sees the row's released S.

    Released v = u is worst and multiplies the odds of u by p_s/q_s: to 1 where S is untouched.

    >>> round(row_posterior(0.2, Channel.from_diagonal(3, 0.6)), 6)  # odds 1/4 times 3
    0.428571
    """
    p, q = sensitive.diagonal, sensitive.off_diagonal
    return p * posterior / (p * posterior + q * (1 - posterior))


# --- (P o P)^T (1/lambda), the way there and back ---------------------------------------------------------------------


def returned(channels: Iterable[Channel], released: FloatArray, first: int = 0) -> FloatArray:
    """g = (P o P)^T (1/lambda). Where lambda is 0, P[b, a] is 0 for every occupied a: nothing is lost."""
    return product([channel.squared for channel in channels], _reciprocal(released), first)


def _return_slopes(channels: Channels, released: FloatArray, g: FloatArray, first: int = 0) -> Iterator[FloatArray]:
    """Yield dg/dx_k = (e1'/e1) mean_k g + (ec'/ec) C_k g - (P o P)^T (C_k lambda / lambda^2) for every k."""
    squared, inverse = [channel.squared for channel in channels], _reciprocal(released)
    at_once = max(1, AT_ONCE // released.size)  # in a small domain every call costs more than its numbers
    for start in range(0, len(channels), at_once):
        axes = range(start, min(start + at_once, len(channels)))
        # in this order: the square alone can overflow
        turns = np.stack([_centred(released, first + k) for k in axes]) * inverse * inverse
        for k, turn in zip(axes, product(squared, turns, first + 1), strict=True):
            r, d = channels[k].retention, channels[k].size
            constant = 2 * (d - 1) * r**2 / (1 + (d - 1) * r**2)
            centred = 2 * (r + (1 - 2 * r) / d) / (r + 2 * (1 - r) / d)
            yield (constant - centred) * _mean(g, first + k) + centred * g - turn


def _reciprocal(x: FloatArray) -> FloatArray:
    """1/x, and 0 where x is 0."""
    return np.divide(1.0, x, out=np.zeros_like(x), where=x > 0)


def _mean(x: FloatArray, axis: int) -> FloatArray:
    """The mean along an axis, which stays; NumPy's own takes thrice as long on small arrays."""
    mean: FloatArray = x.sum(axis=axis, keepdims=True) / x.shape[axis]
    return mean


def _centred(x: FloatArray, axis: int) -> FloatArray:
    return x - _mean(x, axis)


def _mean_at(x: FloatArray, axis: int, codes: tuple[IntArray, ...]) -> FloatArray:
    """The mean along an axis, at these cells."""
    where = tuple(np.zeros_like(code) if k == axis else code for k, code in enumerate(codes))
    at: FloatArray = _mean(x, axis)[where]
    return at


def _rows(x: FloatArray) -> FloatArray:
    return x.reshape(-1, x.shape[-1])


# --- hits with the own row --------------------------------------------------------------------------------------------


def hits_with_own_row(table: JointTable, channels: Channels) -> FloatArray:
    """Return an upper bound on the hits of every cell, [groups, d_s], if the own row is taken too; 0 where nobody is.

    `Link` divides expected numbers of rows. Really the person's own row is always there: a person in (a, u) that is
    published with b has 1 + X rows to be taken from, 1 + X_u of them with the value u; X and X_u count other records,
    each by itself published with b with probability p_j = P[b, a_j]. With mu = E X the probability of a hit is at most

        E[1/(1 + X)]  +  E[X_u/(1 + X)]   <=   g1(mu) + sum_{j in u} p_j g2(mu - p_j)

        g1(mu) = E[1/(1 + Y)] = (1 - e^-mu)/mu    g2(mu) = E[1/(2 + Y)] = (mu - 1 + e^-mu)/mu^2    Y ~ Poisson(mu)

    For X_u = sum of indicators I_j, and given I_j = 1 the rest of X is the sum of the others, of mean mu - p_j. A sum
    of independent indicators is below the Poisson variable of its mean in convex order, and 1/(1 + x), 1/(2 + x) are
    convex.

    Both fall with mu, so mu may be taken too small: with R_b and R_bu the expected rows published with b (and true
    value u) of all records, and p_b the largest P[b, .] of a group that occurs, mu >= R_b - p_b and mu - p_j >= R_b -
    2 p_b. What is left depends on the person by P[b, a] only, and is summed over b by two products, with P and P o P:

        hits(a, u) <= sum_b P[b, a] (g1_b + (R_bu - P[b, a]) g2_b)
    """
    table.check_size(dense=True)
    quasi = channels[:-1]
    largest = (table.group_array > 0).astype(np.float64)  # p_b, axis by axis: a product with maxima for sums
    for axis, channel in enumerate(quasi):
        moved = channel.off_diagonal * largest.max(axis=axis, keepdims=True)
        largest = np.maximum(channel.diagonal * largest, moved)
    others = forward(quasi, table.group_array) - largest
    one, two = _one(np.maximum(others, 0)), _two(np.maximum(others - largest, 0))
    hits = forward(quasi, one[..., None] + forward(quasi, table.array) * two[..., None])
    hits -= product([channel.squared for channel in quasi], two)[..., None]
    return np.where(table.counts > 0, np.minimum(_rows(hits)[table.places], 1), 0.0)


def _one(mu: FloatArray) -> FloatArray:
    """g1."""
    there = np.maximum(mu, SMALL)
    return np.where(mu < SMALL, 1 - mu / 2 + mu**2 / 6, -np.expm1(-there) / there)


def _two(mu: FloatArray) -> FloatArray:
    """g2."""
    there = np.maximum(mu, SMALL)
    return np.where(mu < SMALL, 1 / 2 - mu / 6 + mu**2 / 24, (there + np.expm1(-there)) / there**2)
