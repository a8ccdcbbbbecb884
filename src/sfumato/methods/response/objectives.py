"""What randomization costs: the expected error of the inverse estimate of the joint table, to be minimised.

With counts, pi = counts/N and pi_hat = P^-1 (released shares), for the given table, as
docs/methods/randomized-response.md, "Estimates", proves:

    E ||pi_hat - pi||^2               =  (kappa - 1)/N                         kappa = prod ||P_i^-1||_F^2/d_i
    E sum_c (pi_hat_c - pi_c)^2/pi_c  =  (w^T (P^-1 o P^-1) P pi - cells)/N    over the occupied cells, w = 1/pi

Both are non-increasing in every retention: more noise is a post-processing whose conditional mean is the old estimate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.methods.response.channels import Channel, kappa
from sfumato.methods.response.joint import JointTable
from sfumato.values.arrays import FloatArray

ObjectiveName = Literal["kappa", "chi_square"]


@dataclass(frozen=True, eq=False)
class Kappa:
    """The squared error, each cell alike: AD Result 2."""

    table: JointTable

    def value(self, channels: Sequence[Channel]) -> float:
        """Return kappa."""
        return kappa(channels)

    def expected_error(self, channels: Sequence[Channel]) -> float:
        """Return E ||pi_hat - pi||^2 = (kappa - 1)/N."""
        return (self.value(channels) - 1) / self.table.records

    def log_gradient(self, channels: Sequence[Channel]) -> FloatArray:
        """Return d log(kappa)/dx, x = log r: -2 (d - 1)/(r^2 + d - 1)."""
        return np.array([-2 * (c.size - 1) / (c.retention**2 + c.size - 1) for c in channels])


def uniform_error(table: JointTable, combinations: int) -> float:
    """Return ||pi - 1/D||^2 over all D combinations: the error of who holds them to be alike, without any release."""
    shares = table.counts / table.records
    return float((shares**2).sum()) - 1 / combinations


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
OBJECTIVES: dict[ObjectiveName, type[Kappa] | type[ChiSquare]] = {"kappa": Kappa, "chi_square": ChiSquare}


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
