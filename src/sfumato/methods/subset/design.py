"""One gamma: publish one of all sets of k values, those with the truth g times as often; MATRICES.md 3.

With Z = g k + m - k, a set holds the true value x, or another value j, with probability

    p = g k / Z        q = k (g (k-1) + m - k) / ((m-1) Z)        p - q = k (m-k) (g-1) / ((m-1) Z)

c_i is the number of records whose set holds i. The estimates n_hat_i = (c_i - q N)/(p - q) sum to N, and

    Var(n_hat_i | table) = (n_i p (1-p) + (N - n_i) q (1-q)) / (p-q)^2
    L2 = sum_i Var(n_hat_i | table)/N = (m-1)/m ((m-1) Z^2 / (k (m-k) (g-1)^2) - 1)        for every table

Two members i, j of a set have the covariance, for a record whose value is x,

    p (k-1)/(m-1) - p q                                       x = i or x = j
    (k-1) (p (k-2) + (1-p) k) / ((m-1)(m-2)) - q^2            x another value.

The best k is m/(g+1), rounded down or up, and with it the least L2 that any mechanism with this gamma has for every
table. k = 1 is uniform. Everything is written with 1/g, so that an infinite gamma needs no case of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sfumato.values.arrays import FloatArray


@dataclass(frozen=True)
class Subset:
    """Sets of k of m values under one gamma.

    >>> chosen = best_subset(4.0, 40)
    >>> chosen.members, round(chosen.error, 1), round(chosen.gain, 2)
    (8, 66.6, 2.99)
    """

    gamma: float
    values: int  # m
    members: int  # k

    def __post_init__(self) -> None:
        if not self.gamma > 1:
            raise ValueError(f"gamma must be above 1, not {self.gamma}")
        if not 1 <= self.members < self.values:
            raise ValueError(f"a set has 1 to {self.values - 1} of {self.values} values, not {self.members}")

    @property
    def own(self) -> float:
        """p: the probability that a set holds its record's value."""
        return self.members / self._z

    @property
    def other(self) -> float:
        """q: the probability that a set holds a given other value."""
        k, m = self.members, self.values
        return k * (k - 1 + (m - k) / self.gamma) / ((m - 1) * self._z)

    @property
    def difference(self) -> float:
        """p - q, from its own formula: nothing cancels."""
        k, m = self.members, self.values
        return k * (m - k) * (1 - 1 / self.gamma) / ((m - 1) * self._z)

    @property
    def error(self) -> float:
        """L2, the same for every table."""
        m = self.values
        return (m - 1) / m * (self.moment - 1)

    @property
    def moment(self) -> float:
        """(m-1) Z^2 / (k (m-k) (g-1)^2): one over each eigenvalue but the first of the information of a record."""
        k, m = self.members, self.values
        return (m - 1) * self._z**2 / (k * (m - k) * (1 - 1 / self.gamma) ** 2)

    @property
    def gain(self) -> float:
        """How many times more records uniform needs for the same error."""
        uniform = Subset(self.gamma, self.values, 1).error
        return uniform / self.error if self.error > 0 else 1.0 if uniform == self.error else math.inf

    @property
    def _z(self) -> float:
        """Z/g."""
        return self.members + (self.values - self.members) / self.gamma

    # --- estimates -------------------------------------------------------------------------------------------------

    def estimate(self, held: FloatArray, records: float) -> FloatArray:
        """Return n_hat of each value, from how many records hold it."""
        return np.asarray((held - self.other * records) / self.difference)

    def variance(self, counts: FloatArray) -> FloatArray:
        """Return Var(n_hat_i | table) of each value, given the table's counts."""
        p, q = self.own, self.other
        of_others = counts.sum() - counts
        return np.asarray((counts * p * (1 - p) + of_others * q * (1 - q)) / self.difference**2)

    def covariance(self, first: FloatArray, second: FloatArray, records: float) -> FloatArray:
        """Return Cov(n_hat_i, n_hat_j | table) of two values i != j, given their counts and the number of records."""
        own, other = self.member_covariances()
        of_pair = np.asarray(first) + np.asarray(second)
        return np.asarray((of_pair * own + (records - of_pair) * other) / self.difference**2)

    def member_covariances(self) -> tuple[float, float]:
        """Return Cov(1[i in S], 1[j in S] | x), i != j: where x is one of the two, and where it is neither."""
        k, m, p, q = self.members, self.values, self.own, self.other
        with_one = p * (k - 1) / (m - 1) - p * q
        if m == 2:
            return with_one, 0.0  # there is no third value
        return with_one, (k - 1) * (p * (k - 2) + (1 - p) * k) / ((m - 1) * (m - 2)) - q * q


def best_subset(gamma: float, m: int) -> Subset:
    """Return the sets with the least L2: k is m/(g+1), rounded down or up; the smaller k of two that are equal.

    >>> best_subset(7.0, 12).members, best_subset(8.0, 12).members
    (2, 1)
    """
    near = math.floor(m / (gamma + 1))
    choices = {min(max(k, 1), m - 1) for k in (near, near + 1)}
    return min((Subset(gamma, m, k) for k in sorted(choices)), key=lambda chosen: chosen.error)
