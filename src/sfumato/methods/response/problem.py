"""AD Problem 1: minimise an objective over the retentions, while the risk of every cell stays within its limit.

The objective is what randomization costs: the expected error of the inverse estimate of the joint table. With counts,
pi = counts/N and pi_hat = P^-1 (released shares), for the given table, as docs/methods/proofs/randomized-response.md,
"Estimates", proves:

    l2           E ||pi_hat - pi||^2               =  (kappa - 1)/N                  kappa = prod ||P_i^-1||_F^2/d_i
    chi-square   E sum_c (pi_hat_c - pi_c)^2/pi_c  =  (w^T (P^-1 o P^-1) P pi - cells)/N    of occupied cells, w = 1/pi

Both are non-increasing in every retention: more noise is a post-processing whose conditional mean is the old estimate.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.methods.response.joint import Channel, Channels, JointTable, kappa
from sfumato.methods.response.risks import RISKS, Risk, RiskName
from sfumato.values.arrays import FloatArray, IntArray

Scope = Literal["sensitive", "quasi-identifiers", "both"]
ObjectiveName = Literal["l2", "chi-square"]


# --- what it costs ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kappa:
    """The squared error, each cell alike: AD Result 2."""

    table: JointTable

    def value(self, channels: Sequence[Channel]) -> float:
        return kappa(channels)

    def expected_error(self, channels: Sequence[Channel]) -> float:
        """Return E ||pi_hat - pi||^2 = (kappa - 1)/N."""
        return (self.value(channels) - 1) / self.table.records

    def log_gradient(self, channels: Sequence[Channel]) -> FloatArray:
        """Return d log(kappa)/dx, x = log r: -2 (d - 1)/(r^2 + d - 1)."""
        return np.array([-2 * (c.size - 1) / (c.retention**2 + c.size - 1) for c in channels])


@dataclass(frozen=True, eq=False)
class ChiSquare:
    """The squared error of each occupied cell relative to the cell: AD's chi-square distance, expected.

    (P_k^-1 o P_k^-1) P_k = a_k I + b_k J, so w^T (...) pi = sum over sets A of attributes of
    prod_{k in A} b_k prod_{k not in A} a_k * (sum_A w) . (sum_A pi): the 2^(m+1) products are computed once.
    """

    table: JointTable

    def __post_init__(self) -> None:
        self.table.check_size(dense=True)

    @cached_property
    def marginals(self) -> FloatArray:
        """(sum_A w) . (sum_A pi) as an array with an axis of length 2 for each attribute; index 1: it is in A."""
        counts = self.table.array
        weight = np.divide(1.0, counts, out=np.zeros_like(counts), where=counts > 0)
        return _marginals(weight, counts)

    def value(self, channels: Sequence[Channel]) -> float:
        """Return w^T (P^-1 o P^-1) P pi: the number of occupied cells, at least."""
        return _contracted(self.marginals, [_own_and_spread(c)[0] for c in channels])

    def expected_error(self, channels: Sequence[Channel]) -> float:
        """Return E sum_c (pi_hat_c - pi_c)^2 / pi_c."""
        return (self.value(channels) - int((self.table.counts > 0).sum())) / self.table.records

    def log_gradient(self, channels: Sequence[Channel]) -> FloatArray:
        """Return d log(value)/dx."""
        terms = [_own_and_spread(c) for c in channels]
        plain = [own for own, _ in terms]
        slopes = [_contracted(self.marginals, [*plain[:k], turn, *plain[k + 1 :]]) for k, (_, turn) in enumerate(terms)]
        return np.array(slopes) / self.value(channels)


Objective = Kappa | ChiSquare
OBJECTIVES: dict[ObjectiveName, type[Kappa] | type[ChiSquare]] = {"l2": Kappa, "chi-square": ChiSquare}


def _own_and_spread(channel: Channel) -> tuple[FloatArray, FloatArray]:
    """(a, b) of (P^-1 o P^-1) P, and their derivatives by log r.

    Its eigenvalues are kappa on constants and (2 + (d - 2)/r)/d on what sums to zero; b is their difference over d.
    """
    r, d = channel.retention, channel.size
    centred, constant = (2 + (d - 2) / r) / d, channel.kappa
    turn, rise = -(d - 2) / r / d, -2 * (d - 1) / r**2 / d
    return np.array([centred, (constant - centred) / d]), np.array([turn, (rise - turn) / d])


def _marginals(weight: FloatArray, counts: FloatArray, axis: int = 0) -> FloatArray:
    """An axis is kept (index 0) or summed (index 1), then the next. Summing shrinks the rest, so this costs O(m D)."""
    if axis == counts.ndim:
        return np.asarray((weight * counts).sum())
    kept = _marginals(weight, counts, axis + 1)
    summed = _marginals(weight.sum(axis=axis), counts.sum(axis=axis), axis)
    return np.stack([kept, summed])


def _contracted(marginals: FloatArray, terms: Sequence[FloatArray]) -> float:
    for pair in terms:
        marginals = np.tensordot(pair, marginals, axes=1)
    return float(marginals)


# --- what is limited --------------------------------------------------------------------------------------------------


Limit = Fraction | float | npt.NDArray[np.float64]
"""A limit for all records, or an array that broadcasts to [groups, d_s], the table's own. From 1 on it is none."""

UNIT = 2.0**-53  # the largest relative error of one rounding
TIE = 8 * UNIT  # a share over its limit that is as near to 1 as this is compared exactly; three roundings are less


@dataclass(frozen=True, eq=False)
class Response:
    """Parameters that keep the limit, in the integers that are sampled, and what they cost."""

    channels: Channels  # of each quasi-identifier, then of the sensitive attribute
    risk: float  # of the cell that is nearest to its limit: an upper bound, rounding is allowed for
    worst: tuple[int, ...]  # the codes of that cell
    objective: float
    expected_error: float  # of the inverse estimate of the joint table, in the objective's distance

    @property
    def diagonal(self) -> tuple[float, ...]:
        """AD's p = P[i, i] of each attribute."""
        return tuple(channel.diagonal for channel in self.channels)

    @property
    def kappa(self) -> float:
        """prod ||P_i^-1||_F^2 / d_i."""
        return kappa(self.channels)

    @property
    def noise(self) -> tuple[int, ...]:
        """Q = 2^64 q of each attribute: the integers that are sampled."""
        return tuple(channel.noise for channel in self.channels)


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem in x, the log-retentions of the attributes that may be randomized."""

    table: JointTable
    risk: type[Risk]
    limits: FloatArray  # [groups, d_s]; of released cells [1, d_s] if all are alike, or [cells, d_s]; else infinite
    objective: Objective
    free: tuple[int, ...]
    numbers: tuple[Fraction, ...] = ()  # the exact numbers of which some limits are the nearest floats

    def channels(self, x: FloatArray) -> Channels:
        noisy = dict(zip(self.free, x.tolist(), strict=True))
        return tuple(Channel.from_log_retention(d, noisy.get(k, 0.0)) for k, d in enumerate(self.table.sizes))

    def at(self, x: FloatArray) -> Risk:
        """Return the risk at x."""
        return self.risk(self.table, self.channels(x))

    def ratio(self, risk: Risk) -> FloatArray:
        """Return the risk of every cell over its limit, flat."""
        return (risk.values.reshape(-1, self.limits.shape[1]) / self.limits).ravel()

    def ratio_at(self, risk: Risk, cells: IntArray) -> FloatArray:
        """Return the same of some cells."""
        group, value = np.divmod(cells, self.limits.shape[1])
        ratio: FloatArray = risk.at(cells) / self.limits[group if len(self.limits) > 1 else 0, value]
        return ratio

    @property
    def own_limits(self) -> FloatArray:
        """Those of the table's own groups, or for all of them."""
        return self.limits[self.table.places] if self.risk.of_released and len(self.limits) > 1 else self.limits

    @cached_property
    def untouched(self) -> float:
        """The largest ratio without any noise: every risk is then the share of a value in its group."""
        return float((self.table.shares / self.own_limits).max())

    def kept_as_it_is(self) -> bool:
        """Whether every limit is kept without any noise, by exact numbers where floats do not tell."""
        if self.untouched > 1 + TIE:
            return False
        table, limits = self.table, np.broadcast_to(self.own_limits, self.table.counts.shape)
        near = table.shares / limits > 1 - TIE
        sizes = np.broadcast_to(table.group_sizes[:, None], near.shape)
        exactly = {float(number): number for number in sorted(self.numbers, reverse=True)}
        ties = np.unique(np.column_stack([table.counts[near], sizes[near], limits[near]]), axis=0).tolist()
        return all(int(n) <= int(size) * exactly.get(limit, Fraction(limit)) for n, size, limit in ties)

    def largest(self, x: FloatArray) -> float:
        """Return the largest ratio of a risk to its limit."""
        return self._largest(self.at(x))

    def _largest(self, risk: Risk) -> float:
        """Return the largest of `ratio`, to the last digit: with one limit for each value, of the largest risks."""
        if len(self.limits) > 1:
            return float(self.ratio(risk).max())
        return float((risk.values.reshape(-1, self.limits.shape[1]).max(axis=0) / self.limits).max())

    def is_quick(self, seconds: float) -> bool:
        """Whether a search for parameters takes no longer than that, about."""
        return self.table.search_seconds(self.risk.dense) <= seconds

    def cost(self, x: FloatArray) -> float:
        """Return the logarithm of the objective."""
        return math.log(self.objective.value(self.channels(x)))

    def cost_slope(self, x: FloatArray) -> FloatArray:
        return self.objective.log_gradient(self.channels(x))[list(self.free)]

    @cached_property
    def rounding(self) -> float:
        """The relative error of a computed ratio, to first order: R u for R roundings by u = 2^-53 at most."""
        return UNIT * self.risk.rounding([self.table.sizes[k] for k in self.free])

    @cached_property
    def margin(self) -> float:
        """The factor above 1 that chosen parameters leave: 1 + 6 R u, which is exact.

        1 + 2 R u covers the error of a ratio, higher orders too. Who evaluates the risk once more, with axes in another
        order and R' <= R roundings, gets c' <= c (1 - u)^-(R + R') where c was computed here. So c (1 + 6 R u) <= 1
        leaves c' (1 + 2 R' u) <= 1 to them, and room for the rounding of both comparisons.
        """
        return 1 + 6 * self.rounding

    def sampled(self, x: FloatArray) -> Risk:
        """Return the risk at the integers next to x, which would be sampled."""
        return self.risk(self.table, tuple(channel.sampled() for channel in self.channels(x)))

    def kept(self, x: FloatArray) -> bool:
        """Whether these integers keep every limit, with the margin."""
        return self.keeps(self.sampled(x))

    def keeps(self, point: Risk) -> bool:
        """Whether a point of sampled integers leaves the margin to every limit, as chosen parameters do."""
        return self._largest(point) * self.margin <= 1

    def within(self, point: Risk) -> bool:
        """Whether every limit is kept at such a point, for certain; chosen ones pass: see `margin`."""
        return self._largest(point) * (1 + 2 * self.rounding) <= 1

    @property
    def least_without_retention(self) -> bool:
        """Whether no parameters have a smaller largest ratio than no retention at all.

        So it is for a monotone risk; and for `link` with one limit for all, since of the records with the value u in a
        cell of fixed attributes the mean risk, sum_b lambda_b h(b, u)^2 / pi_u, is at least the share pi_u (Jensen).
        """
        return self.risk.monotone or float(self.limits.min()) == float(self.limits.max())

    def response(self, point: Risk) -> Response:
        """Return what a point of sampled integers gives; raise if they do not keep the limits."""
        if not self.keeps(point) and (any(channel.noise for channel in point.channels) or not self.kept_as_it_is()):
            raise ValueError("these parameters do not keep the limits")
        cell = int(self.ratio(point).argmax())
        return Response(
            channels=point.channels,
            # both are upper bounds: the limit is kept
            risk=min(float(point.values[cell]) * self.margin, self.limit_of(cell)),
            worst=tuple(point.cell_codes(np.array([cell]))[0].tolist()),
            objective=self.objective.value(point.channels),
            expected_error=self.objective.expected_error(point.channels),
        )

    def limit_of(self, cell: int) -> float:
        """Return the limit of a cell, by its number among the risk's values."""
        group, value = divmod(cell, self.limits.shape[1])
        return float(self.limits[group % len(self.limits), value])


def pose(
    table: JointTable,
    limit: Limit,
    risk: RiskName = "posterior",
    scope: Scope = "both",
    fixed: Collection[int] = (),
    objective: ObjectiveName = "l2",
    numbers: tuple[Fraction, ...] = (),
) -> Problem:
    """Return the problem that is meant by these words.

    What may be randomized are the attributes of the scope that are not fixed and that the risk can see. `numbers` are
    the exact ones that an array of limits is rounded from.
    """
    kind, last = RISKS[risk], len(table.sizes) - 1
    if not set(fixed) <= set(range(last + 1)):
        raise ValueError(f"fixed attributes are numbers from 0 to {last}")
    axes = {"sensitive": range(last, last + 1), "quasi-identifiers": range(last), "both": range(last + 1)}[scope]
    free = tuple(k for k in axes if table.sizes[k] > 1 and k not in fixed and (k < last or kind.sees_sensitive))
    exactly = (limit,) if isinstance(limit, Fraction) else numbers
    limits = _limits(table, np.asarray(limit, dtype=np.float64), kind, free)
    return Problem(table, kind, limits, OBJECTIVES[objective](table), free, exactly)


def _limits(table: JointTable, given: FloatArray, risk: type[Risk], noisy: tuple[int, ...]) -> FloatArray:
    if not given.min(initial=1) > 0:
        raise ValueError("a limit on a risk is positive")
    limits: FloatArray = np.broadcast_to(np.where(given < 1, given, np.inf), table.counts.shape)
    if not risk.of_released:
        return limits
    limits = np.where(table.counts > 0, limits, np.inf)
    strictest: FloatArray = limits.min(axis=0, keepdims=True)
    return strictest if given.ndim < 2 or len(given) == 1 else _mixed(table, limits, strictest, noisy)


def _mixed(table: JointTable, limits: FloatArray, strictest: FloatArray, noisy: tuple[int, ...]) -> FloatArray:
    """Return the limits of released cells: of each value the strictest of all records that may be published there.

    These have the same values of the attributes that stay as they are, and any of the others.
    """
    table.check_size(dense=True)
    kept = [1 if k in noisy else d for k, d in enumerate(table.sizes[:-1])]
    place = np.ravel_multi_index(tuple(np.where(np.array(kept) > 1, table.groups, 0).T), kept)
    alike = np.full((math.prod(kept), table.sizes[-1]), np.inf)
    np.minimum.at(alike, place, limits)
    if ((alike[place] == strictest) | (table.counts == 0)).all():
        return strictest
    return np.broadcast_to(alike.reshape(*kept, -1), table.sizes).reshape(-1, table.sizes[-1])
