"""Randomized response of several attributes at once: products with Kronecker matrices, without the matrices.

Every attribute is randomized by itself. With d values, its matrix has p (the *diagonal*) in P[i, i] and elsewhere
q = (1 - p)/(d - 1), AD Eq. (1). With r = p - q, sfumato's *retention*, that is

    P = r I + q J        J all ones        q = (1 - r)/d

so P has the eigenvalue 1 on constants and r on what sums to zero. The entrywise square and the inverse have the form
a I + b J too. A product with the Kronecker matrix of all attributes is therefore one pass

    y = a x + b sum(x, axis)

along every axis: O(m D) steps and O(D) memory for m attributes and D cells (AD's Lemma 2 needs O(D sum d_i) steps).
All these matrices are symmetric, so that a transpose is never needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix, largest_noise


class Mix(NamedTuple):
    """The matrix own I + spread J."""

    own: float
    spread: float


@dataclass(frozen=True)
class Channel:
    """The randomized response of one attribute. Both numbers are kept, so that neither loses digits near 1."""

    size: int  # d
    retention: float  # r = p - q
    off_diagonal: float  # q

    @classmethod
    def from_diagonal(cls, size: int, diagonal: float) -> Channel:
        """Return the channel with AD's p = P[i, i], between 1/d (all noise) and 1 (untouched)."""
        if size == 1:
            return cls(1, 1.0, 0.0)
        if not 1 <= diagonal * size <= size:
            raise ValueError(f"a diagonal lies between 1/{size} and 1, not at {diagonal}")
        return cls(size, (size * diagonal - 1) / (size - 1), (1 - diagonal) / (size - 1))

    @classmethod
    def from_log_retention(cls, size: int, x: float) -> Channel:
        """Return the channel with r = e^x; x = 0 leaves the attribute untouched."""
        return cls(size, math.exp(x), -math.expm1(x) / size)

    @classmethod
    def from_noise(cls, size: int, noise: int) -> Channel:
        """Return the channel with the integer noise weight Q = 2^64 q; both numbers are rounded once, at most."""
        return cls(size, (WORDS - size * noise) / WORDS, noise / WORDS)

    @property
    def diagonal(self) -> float:
        """AD's p = P[i, i]."""
        return self.retention + self.off_diagonal

    @property
    def noise(self) -> int:
        """The integer noise weight that is sampled: next to 2^64 q, rounded up, towards more privacy.

        It has 53 significant bits at most, so that `from_noise` gives the same weight back.
        """
        most = largest_noise(self.size)
        beyond = max(0, most.bit_length() - 53)
        return min(most >> beyond << beyond, math.ceil(self.off_diagonal * WORDS))  # exact: WORDS is a power of 2

    @property
    def matrix(self) -> PerturbationMatrix:
        """The integer matrix that is sampled."""
        return PerturbationMatrix(np.full(self.size, self.noise, dtype=np.uint64))

    def sampled(self) -> Channel:
        """Return the channel of the integers that are sampled."""
        return Channel.from_noise(self.size, self.noise)

    @property
    def forward(self) -> Mix:
        """P."""
        return Mix(self.retention, self.off_diagonal)

    @property
    def squared(self) -> Mix:
        """P o P, the entries squared: p^2 - q^2 = r (r + 2 q)."""
        r, q = self.retention, self.off_diagonal
        return Mix(r * (r + 2 * q), q * q)

    @property
    def inverse(self) -> Mix:
        """P^-1 = (I - q J)/r        AD Lemma 4."""
        return Mix(1 / self.retention, -self.off_diagonal / self.retention)

    @property
    def kappa(self) -> float:
        """||P^-1||_F^2 / d = (1 + (d - 1)/r^2)/d        AD Lemma 4."""
        return (1 + (self.size - 1) / self.retention**2) / self.size


Channels = tuple[Channel, ...]


def untouched(sizes: Sequence[int]) -> Channels:
    """Return the channels that change nothing."""
    return tuple(Channel(d, 1.0, 0.0) for d in sizes)


def product(mixes: Sequence[Mix], x: FloatArray, first: int = 0) -> FloatArray:
    """Return the Kronecker product of the mixes times x: one mix for each axis from `first` on."""
    y = np.array(x, dtype=np.float64)
    for axis, (own, spread) in enumerate(mixes, start=first):
        if (own, spread) == (1, 0):
            continue
        total = np.add.reduce(y, axis, keepdims=True)  # as y.sum, at half its cost on small arrays
        total *= spread
        y *= own
        y += total
    return y


def forward(channels: Sequence[Channel], x: FloatArray, first: int = 0) -> FloatArray:
    """Return P x: the expected release of a table x."""
    return product([channel.forward for channel in channels], x, first)


def kappa(channels: Sequence[Channel]) -> float:
    """Return kappa = prod ||P_i^-1||_F^2 / d_i.

    The inverse estimate of the table has the expected error E ||pi_hat - pi||^2 = (kappa - 1)/N; proved in
    docs/methods/randomized-response.md, "Estimates".
    """
    return math.prod(channel.kappa for channel in channels)
