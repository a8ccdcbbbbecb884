"""The joint table of counts, all that the choice of parameters needs; and randomized response of its attributes.

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
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible
from sfumato.show.words import many
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix, largest_noise

MOST_CELLS = 1 << 26
"""Cells of the domain above which nothing is evaluated. A search there takes 6.4 GB, and about 23.5 s times the square
of the number of quasi-identifiers: 1.1 h for 13 of 4 values, 4.4 h for 26 of 2."""

ARRAYS = 12  # arrays of all cells that a search holds at a time, at most; measured
SECONDS = 7e-9  # time of a product, for each cell and axis; measured
LONGEST_WAIT = 1000  # hours beyond which a refusal tells no time: the domain is too large, not the machine too slow
MOST_NUMBERED = 1 << 62  # cells that can be numbered
SLAB = 1 << 17  # cells of an array, one megabyte, from which on it does not stay in the cache as a whole
SEARCH = 25  # evaluations that a search takes, for each attribute; measured


@dataclass(frozen=True, eq=False)
class JointTable:
    """Counts of quasi-identifiers times the sensitive attribute. Only groups that occur are stored."""

    sizes: tuple[int, ...]  # d_1 .. d_m of the quasi-identifiers, then d_s
    groups: IntArray  # [groups, m]: the codes of each group that occurs, once
    counts: FloatArray  # [groups, d_s]: its records of each sensitive value

    def __post_init__(self) -> None:
        if self.groups.shape != (len(self.counts), len(self.sizes) - 1) or self.counts.shape[1:] != self.sizes[-1:]:
            raise ValueError("there is a code for each quasi-identifier and a count for each sensitive value")
        if not len(self.counts) or self.counts.min() < 0 or self.counts.sum(axis=1).min() <= 0:
            raise ValueError("a joint table has records, and some in every group")
        if (self.groups < 0).any() or (self.groups >= np.array(self.sizes[:-1])).any():
            raise ValueError("a code is outside its domain")
        if (self.counts % 1).any() or self.counts.sum() >= 2**53:
            raise ValueError("counts are whole numbers with a sum below 2^53")
        for name in ("groups", "counts"):  # read-only: what was computed of them is kept
            seen = getattr(self, name).view()
            seen.flags.writeable = False
            object.__setattr__(self, name, seen)

    @classmethod
    def from_array(cls, counts: npt.ArrayLike) -> JointTable:
        """Return the table of an array with an axis for each quasi-identifier, and the sensitive one last."""
        array = np.asarray(counts, dtype=np.float64)
        groups = np.argwhere(array.sum(axis=-1) > 0)
        return cls(array.shape, groups.astype(np.int64), array[tuple(groups.T)])

    @classmethod
    def from_cells(cls, sizes: Sequence[int], cells: IntArray, counts: npt.ArrayLike) -> JointTable:
        """Return the table of its occupied cells (a code for each quasi-identifier, then the sensitive one)."""
        groups, place = distinct_rows(cells[:, :-1], sizes[:-1])
        if len(groups) * sizes[-1] > MOST_CELLS:
            raise Infeasible(
                f"{len(groups):,} groups times {sizes[-1]:,} sensitive values are more than {MOST_CELLS:,} numbers.",
                "Bin or merge sensitive values, or quasi-identifiers.",
            )
        table = np.zeros((len(groups), sizes[-1]))
        np.add.at(table, (place, cells[:, -1]), np.asarray(counts, dtype=np.float64))
        return cls(tuple(sizes), groups.astype(np.int64), table)

    @cached_property
    def records(self) -> int:
        """N."""
        return int(self.counts.sum())

    @cached_property
    def group_sizes(self) -> FloatArray:
        """The records of each group."""
        total: FloatArray = self.counts.sum(axis=1)
        return total

    @property
    def shares(self) -> FloatArray:
        """[groups, d_s]: pi(u | QI), the risk of a cell without any randomization."""
        return self.counts / self.group_sizes[:, None]

    @property
    def single_valued(self) -> IntArray:
        """The numbers of the groups whose records all have the same sensitive value."""
        return np.flatnonzero((self.counts > 0).sum(axis=1) == 1)

    @property
    def group_cells(self) -> int:
        """The cells of the quasi-identifiers' domain, occupied or not."""
        return math.prod(self.sizes[:-1])

    def evaluated_cells(self, dense: bool) -> int:
        """Return the cells of an evaluation: of the quasi-identifiers, or (`dense`) with the sensitive attribute."""
        return self.group_cells * (self.sizes[-1] if dense else 1)

    def fits(self, dense: bool) -> bool:
        """Whether it can be evaluated."""
        return self.evaluated_cells(dense) <= MOST_CELLS

    def evaluation_seconds(self, dense: bool) -> float:
        """Return about how long one evaluation takes: the way there and back, along every axis."""
        return 2 * self.evaluated_cells(dense) * (len(self.sizes) - 1) * SECONDS

    def search_seconds(self, dense: bool) -> float:
        """Return about how long a search for parameters takes."""
        return searched_cells(len(self.sizes) - 1, self.evaluated_cells(dense)) * SECONDS

    def check_size(self, dense: bool) -> None:
        """Refuse a domain that is too large, and say what it would take."""
        if self.fits(dense):
            return
        cells, hours = self.evaluated_cells(dense), self.search_seconds(dense) / 3600
        price = "too many to list"
        if hours <= LONGEST_WAIT:
            price = (
                f"a search for parameters would take about {ARRAYS * 8 * cells / 1e9:,.0f} GB and {hours:,.1f} h, with "
                f"{self.evaluation_seconds(dense):,.0f} s for each evaluation of the risk"
            )
        raise Infeasible(
            f"The domain has {many(cells)} cells, above {MOST_CELLS:,}: {price}. A risk that is not evaluated is not "
            "guaranteed, so nothing is published under this limit.",
            "Bin or merge values, give fewer columns the role quasi_identifier, or fix some (of fixed ones only the "
            "combinations that occur count). What stated probabilities would leave of the risk can be estimated, "
            "which is no guarantee: `sfumato risk`, or sf.estimate_risk.",
        )

    @cached_property
    def places(self) -> IntArray:
        """The place of each group in the flat domain of the quasi-identifiers."""
        places: IntArray = np.ravel_multi_index(tuple(self.groups.T), self.sizes[:-1]).astype(np.int64)
        return places

    @cached_property
    def group_array(self) -> FloatArray:
        """pi_QI, dense: an axis for each quasi-identifier."""
        array = np.zeros(self.sizes[:-1])
        array.flat[self.places] = self.group_sizes
        return array

    @cached_property
    def array(self) -> FloatArray:
        """The whole table, dense: the sensitive axis last."""
        array = np.zeros((self.group_cells, self.sizes[-1]))
        array[self.places] = self.counts
        return array.reshape(self.sizes)


def searched_cells(attributes: int, cells: int) -> int:
    """Return about how many cells a search walks over: SEARCH evaluations for each attribute, there and back, by axes.

    >>> searched_cells(2, 1000)
    200000
    """
    return SEARCH * attributes * 2 * cells * attributes


# --- channels ---------------------------------------------------------------------------------------------------------


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
    def kappa(self) -> float:
        """||P^-1||_F^2 / d = (1 + (d - 1)/r^2)/d        AD Lemma 4."""
        return (1 + (self.size - 1) / self.retention**2) / self.size


Channels = tuple[Channel, ...]


def distinct_rows(codes: IntArray, sizes: Sequence[int]) -> tuple[IntArray, IntArray]:
    """Return the rows that occur, in their order, and which of them each row is.

    >>> rows, place = distinct_rows(np.array([[1, 0], [0, 2], [1, 0]]), (2, 3))
    >>> rows.tolist(), place.tolist()
    ([[0, 2], [1, 0]], [1, 0, 1])
    """
    if math.prod(sizes) >= MOST_NUMBERED or not sizes:  # numbers are sorted much sooner than rows
        rows, place = np.unique(codes, axis=0, return_inverse=True)
        return rows, place.ravel()
    _, first, place = np.unique(np.ravel_multi_index(codes.T, sizes), return_index=True, return_inverse=True)
    return codes[first], place


def untouched(sizes: Sequence[int]) -> Channels:
    """Return the channels that change nothing."""
    return tuple(Channel(d, 1.0, 0.0) for d in sizes)


def product(mixes: Sequence[Mix], x: FloatArray, first: int = 0, out: FloatArray | None = None) -> FloatArray:
    """Return the Kronecker product of the mixes times x: one mix for each axis from `first` on; in `out`, if given.

    A large array is done slab by slab of its first axis, each with all its other axes while it is in the processor's
    cache. The numbers are the same to the last digit: every sum has its terms in the same order.
    """
    y = np.empty(np.shape(x)) if out is None else out
    if first or not mixes or y.ndim < 2 or y.size <= SLAB:
        y[...] = x
        _mix(y, mixes, first)
        return y
    (own, spread), *others = mixes
    total = np.add.reduce(x, 0) * spread
    for given, slab in zip(x, y, strict=True):  # each number is read from memory once, and written once
        np.multiply(given, own, out=slab)
        if (own, spread) != (1, 0):
            slab += total
        _mix(slab, others, 0)
    return y


def _mix(y: FloatArray, mixes: Sequence[Mix], first: int) -> None:
    """Multiply with a mix along each axis from `first` on, in place."""
    for axis, (own, spread) in enumerate(mixes, start=first):
        if (own, spread) == (1, 0):
            continue
        total = np.add.reduce(y, axis, keepdims=True)  # as y.sum, at half its cost on small arrays
        total *= spread
        if own != 1:
            y *= own
        y += total


def forward(channels: Sequence[Channel], x: FloatArray, first: int = 0) -> FloatArray:
    """Return P x: the expected release of a table x."""
    return product([channel.forward for channel in channels], x, first)


def kappa(channels: Sequence[Channel]) -> float:
    """Return kappa = prod ||P_i^-1||_F^2 / d_i.

    The inverse estimate of the table has the expected error E ||pi_hat - pi||^2 = (kappa - 1)/N; proved in
    docs/methods/proofs/randomized-response.md, "Estimates".
    """
    return math.prod(channel.kappa for channel in channels)
