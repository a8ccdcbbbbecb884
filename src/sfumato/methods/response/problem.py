"""AD Problem 1: minimise an objective over the retentions, while the risk of every cell stays within its limit."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.methods.response.channels import Channel, Channels, kappa, untouched
from sfumato.methods.response.joint import JointTable, largest_of_rows
from sfumato.methods.response.objectives import OBJECTIVES, Objective, ObjectiveName
from sfumato.methods.response.risks import RISKS, Risk, RiskName
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.retention import PerturbationMatrix

Scope = Literal["sensitive", "quasi_identifiers", "both"]


@dataclass(frozen=True, eq=False)
class Limits:
    """A limit for each cell of the table's own, and the exact numbers that these are rounded from."""

    values: FloatArray  # [groups, d_s]
    numbers: tuple[Fraction, ...]


Limit = Fraction | float | npt.NDArray[np.float64] | Limits
"""A limit for all records, or an array that broadcasts to [groups, d_s], the table's own. From 1 on it is none."""

NOTHING = -40.0
"""The log-retention that is as good as none."""

UNIT = 2.0**-53
"""The largest relative error of one rounding."""

TIE = 8 * UNIT
"""A share over its limit that is as near to 1 as this is compared exactly; three roundings are less."""


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

    @property
    def matrices(self) -> tuple[PerturbationMatrix, ...]:
        """The same as matrices."""
        return tuple(channel.matrix for channel in self.channels)


@dataclass(frozen=True, eq=False)
class Problem:
    """The problem in x, the log-retentions of the attributes that may be randomized."""

    table: JointTable
    risk: type[Risk]
    limits: FloatArray  # [groups, d_s]; of released cells [1, d_s] if all are alike, or [cells, d_s]; else infinite
    objective: Objective
    free: tuple[int, ...]
    numbers: tuple[Fraction, ...] = ()  # the exact numbers of which some limits are the nearest floats

    @cached_property
    def _untouched(self) -> Channels:
        return untouched(self.table.sizes)

    @property
    def free_sizes(self) -> list[int]:
        """The numbers of values of the attributes that may be randomized."""
        return [self.table.sizes[k] for k in self.free]

    def channels(self, x: FloatArray) -> Channels:
        """Return the channels of all attributes."""
        channels = list(self._untouched)
        for axis, value in zip(self.free, x.tolist(), strict=True):
            channels[axis] = Channel.from_log_retention(self.table.sizes[axis], value)
        return tuple(channels)

    def at(self, x: FloatArray) -> Risk:
        """Return the risk at x."""
        return self.risk(self.table, self.channels(x))

    def ratio(self, risk: Risk) -> FloatArray:
        """Return the risk of every cell over its limit, flat."""
        return (risk.values.reshape(-1, self.limits.shape[1]) / self.limits).ravel()

    @cached_property
    def strictest(self) -> tuple[IntArray, FloatArray]:
        """Of each group, the value that is nearest to its limit, and its records over that limit."""
        if not any(self.limits.strides):  # one limit for all
            values, most = self.table.most_frequent
            return values, most / self.limits[0, 0]
        return largest_of_rows(self.table.counts / self.own_limits)

    @cached_property
    def untouched(self) -> float:
        """The largest ratio without any noise: every risk is then the share of a value in its group."""
        return float((self.strictest[1] / self.table.group_sizes).max())

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

    @property
    def own_limits(self) -> FloatArray:
        """Those of the table's own groups, or for all of them."""
        return self.limits[self.table.places] if self.risk.of_released and len(self.limits) > 1 else self.limits

    def largest(self, x: FloatArray) -> float:
        """Return the largest ratio of a risk to its limit."""
        return float(self.ratio(self.at(x)).max())

    def cost(self, x: FloatArray) -> float:
        """Return the logarithm of the objective."""
        return math.log(self.objective.value(self.channels(x)))

    def cost_slope(self, x: FloatArray) -> FloatArray:
        """Return its gradient."""
        return self.objective.log_gradient(self.channels(x))[list(self.free)]

    @cached_property
    def rounding(self) -> float:
        """The relative error of a computed ratio, to first order: R u for R roundings by u = 2^-53 at most."""
        return UNIT * self.risk.rounding(self.free_sizes)

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
        return self.kept_by(self.ratio(self.sampled(x)))

    def within(self, point: Risk) -> bool:
        """Whether every limit is kept at a point of sampled integers, for certain; chosen ones pass: see `margin`."""
        return float(self.ratio(point).max()) * (1 + 2 * self.rounding) <= 1

    def kept_by(self, ratio: FloatArray) -> bool:
        """Whether the ratios at such a point leave the margin to every limit, as those of chosen parameters do."""
        return float(ratio.max()) * self.margin <= 1

    @property
    def least_without_retention(self) -> bool:
        """Whether no parameters have a smaller largest ratio than no retention at all.

        So it is for a monotone risk; and for `link` with one limit for all, since of the records with the value u in a
        cell of fixed attributes the mean risk, sum_b lambda_b h(b, u)^2 / pi_u, is at least the share pi_u (Jensen).
        """
        return self.risk.monotone or float(self.limits.min()) == float(self.limits.max())

    def response(self, x: FloatArray) -> Response:
        """Return what the integers next to x give; raise if they do not keep the limits."""
        return self.stated(self.sampled(x))

    def stated(self, point: Risk) -> Response:
        """Return what a point of sampled integers gives; raise if they do not keep the limits."""
        ratio = self.ratio(point)
        if not self.kept_by(ratio) and (any(channel.noise for channel in point.channels) or not self.kept_as_it_is()):
            raise ValueError("these parameters do not keep the limits")
        cell = int(ratio.argmax())
        return Response(
            channels=point.channels,
            # both are upper bounds: the limit is kept
            risk=min(float(point.values[cell]) * self.margin, self.limit_of(cell)),
            worst=point.codes_of(cell),
            objective=self.objective.value(point.channels),
            expected_error=self.objective.expected_error(point.channels),
        )

    def limit_of(self, cell: int) -> float:
        """Return the limit of a cell, by its number among the risk's values."""
        group, value = divmod(cell, self.limits.shape[1])
        return float(self.limits[group % len(self.limits), value])


def pose(
    table: JointTable, limit: Limit, risk: RiskName, scope: Scope, fixed: Collection[int], objective: ObjectiveName
) -> Problem:
    """Return the problem that is meant by these words."""
    kind = RISKS[risk]
    noisy = free(table, kind, scope, fixed)
    numbers = limit.numbers if isinstance(limit, Limits) else (limit,) if isinstance(limit, Fraction) else ()
    values = limit.values if isinstance(limit, Limits) else limit
    return Problem(table, kind, _limits(table, values, kind, noisy), OBJECTIVES[objective](table), noisy, numbers)


def free(table: JointTable, risk: type[Risk], scope: Scope, fixed: Collection[int] = ()) -> tuple[int, ...]:
    """Return the attributes that may be randomized: those of the scope that are not fixed and that the risk can see."""
    last = len(table.sizes) - 1
    if not set(fixed) <= set(range(last + 1)):
        raise ValueError(f"fixed attributes are numbers from 0 to {last}")
    axes = {"sensitive": range(last, last + 1), "quasi_identifiers": range(last), "both": range(last + 1)}[scope]
    return tuple(k for k in axes if table.sizes[k] > 1 and k not in fixed and (k < last or risk.sees_sensitive))


def _limits(
    table: JointTable, limit: Fraction | float | FloatArray, risk: type[Risk], noisy: tuple[int, ...]
) -> FloatArray:
    given = np.asarray(limit, dtype=np.float64)
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
