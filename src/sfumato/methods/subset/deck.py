"""Decks: small public families of sets, so that a record publishes the number of a card; MATRICES.md 3.

Card (b, s) holds (block_b + s) mod m, for B blocks of k values and all shifts s < m. Every value is in B k of the B m
cards, so that a deck is as private as all sets of k values, with the same p. At equal counts it estimates as well iff
all pairs are covered equally, that is, iff the power

    power(f) = sum_b |sum_{j in block_b} exp(-2 pi i f j/m)|^2        f = 1, ..., m-1

is the same at all frequencies; its mean is B k (m-k)/(m-1). In general

    loss = mean(1/power) mean(power) - 1        L2 = (m-1)/m ((1 + loss) moment - 1)

with the moment of `design`. A power of zero would leave counts without an estimate.

**All orbits.** Every set of k values is a shift of a block. A block that is its own shift under t shifts gives each of
its sets t times, and t divides gcd(m, k): taking it gcd(m, k)/t times gives all sets equally often, by
gcd(m, k) C(m, k)/m blocks and without loss.

**Search.** Otherwise blocks start with scattered values, then exchange the members that, to first order, lower
mean(1/power) most, many at a time while that helps. Blocks are doubled until the loss is small. The start depends on m
and k alone, through a fixed sequence of numbers: a deck knows nothing of the data, and is public.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from sfumato.methods.subset.design import Subset
from sfumato.values.arrays import BoolArray, FloatArray, IntArray, WordArray
from sfumato.values.matrix.deck import MOST_CARDS

MOST_BLOCKS = 64
SMALL_LOSS = 0.002
"""A deck that costs no more than this is good enough."""

_LEAST_POWER = 1e-9  # relative to the mean; the transform errs by 1e-15
REAL_GAIN = 1e-9  # a smaller one may be rounding, which differs between machines


@dataclass(frozen=True, eq=False)
class Deck:
    """Cards of k of m values: all shifts of the blocks. Card b m + s is block b, shifted by s."""

    values: int  # m
    blocks: IntArray  # [block, member], members ascending
    loss: float

    @property
    def members(self) -> int:
        return int(self.blocks.shape[1])

    @property
    def cards(self) -> int:
        return len(self.blocks) * self.values

    def card(self, number: int) -> IntArray:
        """Return the values on a card, ascending."""
        block, shift = divmod(number, self.values)
        return np.sort((self.blocks[block] + shift) % self.values)

    def error(self, gamma: float) -> float:
        """Return L2 at equal counts."""
        m = self.values
        return (m - 1) / m * ((1 + self.loss) * Subset(gamma, m, self.members).moment - 1)


def make_deck(m: int, k: int, most_blocks: int = MOST_BLOCKS) -> Deck:
    """Return a deck of sets of k of m values: always the same one. Fewer blocks have a larger loss.

    >>> make_deck(7, 3).blocks.tolist()
    [[0, 1, 2], [0, 1, 3], [0, 1, 4], [0, 1, 5], [0, 2, 4]]
    >>> make_deck(40, 8).loss < SMALL_LOSS
    True
    """
    if not 1 <= k < m:
        raise ValueError(f"a card has 1 to {m - 1} of {m} values, not {k}")
    few = min(k, m - k)  # a set and its complement have the same power
    is_small = math.gcd(m, few) * math.comb(m, few) <= most_blocks * m
    chosen = _all_orbits(m, few) if is_small else _searched(m, few, most_blocks)
    if few < k:
        chosen = 1 - chosen
    blocks = np.nonzero(chosen)[1].reshape(len(chosen), k).astype(np.int64)
    return Deck(m, blocks, deck_loss(m, blocks))


def deck_power(m: int, blocks: IntArray) -> FloatArray:
    """Return the power of the blocks at the frequencies 1, ..., m-1."""
    half = _powers(np.fft.rfft(_indicators(m, blocks), axis=1)).sum(axis=0)[1:]
    return np.concatenate((half, half[: (m - 1) // 2][::-1]))


def deck_loss(m: int, blocks: IntArray) -> float:
    """Return mean(1/power) mean(power) - 1 of the blocks; infinite where a power is zero."""
    power = deck_power(m, blocks)
    if power.min() <= _LEAST_POWER * power.mean():
        return math.inf
    return max(float((1 / power).mean() * power.mean() - 1), 0.0)


# --- all orbits -----------------------------------------------------------------------------------------------------


def _all_orbits(m: int, k: int) -> FloatArray:
    """Return one block of each orbit of sets, as often as the module's docstring says."""
    blocks: list[tuple[int, ...]] = []
    for rest in combinations(range(1, m), k - 1):
        block = (0, *rest)
        shifts = [tuple(sorted((j - first) % m for j in block)) for first in block]
        if block == min(shifts):
            blocks += [block] * (math.gcd(m, k) // shifts.count(block))
    return _indicators(m, np.array(blocks, dtype=np.int64))


def _indicators(m: int, blocks: IntArray) -> FloatArray:
    chosen = np.zeros((len(blocks), m))
    np.put_along_axis(chosen, blocks, 1.0, axis=1)
    return chosen


# --- search ---------------------------------------------------------------------------------------------------------


def _searched(m: int, k: int, most_blocks: int) -> FloatArray:
    """Double the blocks, and improve them, until their loss is small; return the best found.

    A deck of more cards than can be drawn from is not looked for.
    """
    most = min(most_blocks, MOST_CARDS // m)
    found = []
    blocks = scattered(m, k, 0, 1)
    while True:
        search = _Search(blocks)
        search.improve(tries=len(blocks) * min(max(40_000 // m, 3), 20))
        blocks = search.chosen
        found.append((search.objective, blocks))
        if search.objective < SMALL_LOSS or 2 * len(blocks) > most:
            return min(found, key=lambda pair: pair[0])[1]
        blocks = np.vstack((blocks, scattered(m, k, len(blocks), 2 * len(blocks))))


class _Search:
    """Blocks, as 0 and 1, and the sums that an exchange of members changes."""

    def __init__(self, chosen: FloatArray) -> None:
        self.chosen = chosen.copy()
        self._transforms = np.fft.rfft(chosen, axis=1)
        self._power: FloatArray = _powers(self._transforms).sum(axis=0)
        self.objective = _objective(self._power, chosen.shape[1])

    def improve(self, tries: int) -> None:
        """Exchange members of one block after the other, the newest first, while it helps."""
        count, members = len(self.chosen), int(self.chosen[0].sum())
        exchanges = np.full(count, max(1, members // 8))
        block = failed = 0
        while tries > 0 and failed < count:
            block = (block - 1) % count
            made, tried = self._exchange(block, int(exchanges[block]))
            exchanges[block] = max(made, 1)
            failed = 0 if made else failed + 1
            tries -= tried

    def _exchange(self, block: int, at_most: int) -> tuple[int, int]:
        """Exchange as many members of a block as help; return how many, and how many tries it took."""
        inside, outside = self._candidates(block, at_most)
        rest = self._power - _powers(self._transforms[block])
        tried = 0
        while at_most:
            tried += 1
            changed = self.chosen[block].copy()
            changed[inside[:at_most]], changed[outside[:at_most]] = 0.0, 1.0
            transform = np.fft.rfft(changed)
            power = rest + _powers(transform)
            objective = _objective(power, changed.size)
            if objective < self.objective * (1 - REAL_GAIN):
                self.chosen[block], self._transforms[block] = changed, transform
                self._power, self.objective = power, objective
                return at_most, tried
            at_most //= 2
        return 0, tried

    def _candidates(self, block: int, count: int) -> tuple[IntArray, IntArray]:
        """Return the members of a block that should leave, and the values that should come, the best first.

        The slope of sum_f 1/power(f) in the value's indicator, up to a factor, is the inverse transform of
        -transform/power^2. It is rounded, so that equal slopes are equal on every machine.
        """
        mean = float(self._power[1:].mean())
        weights = -self._transforms[block] / np.maximum(self._power / mean, 1e-3) ** 2
        weights[0] = 0.0
        m = self.chosen.shape[1]
        return exchanged(np.fft.irfft(weights, m), self.chosen[block] != 0, count)


def exchanged(slope: FloatArray, is_member: BoolArray, count: int) -> tuple[IntArray, IntArray]:
    """Return the members that should leave, by the slope of what is to be lowered, and who should come; best first."""
    ranked = np.round(slope / max(float(np.abs(slope).max()), 1e-300) * 2**30).astype(np.int64)
    return _least(-ranked, np.flatnonzero(is_member), count), _least(ranked, np.flatnonzero(~is_member), count)


def _least(ranked: IntArray, among: npt.NDArray[np.intp], count: int) -> IntArray:
    """Return the positions of the smallest ranks, ascending; of equal ranks the first positions."""
    keys = (ranked[among] << 32) | among
    smallest: IntArray = np.sort(np.partition(keys, count - 1)[:count])
    return smallest & (2**32 - 1)


def _powers(transform: npt.NDArray[np.complex128]) -> FloatArray:
    return np.asarray(transform.real**2 + transform.imag**2)


def _objective(power: FloatArray, m: int) -> float:
    """Return the loss by the half of the frequencies that a real transform has; zeros cost much, but are finite."""
    half = power[1:]
    weights = np.full(half.size, 2.0)
    weights[-1] = 1.0 if m % 2 == 0 else 2.0
    mean = float(weights @ half) / (m - 1)
    return float((weights / np.maximum(half, 1e-6 * mean)).sum()) * mean / (m - 1) - 1


def scattered(m: int, k: int, first: int, end: int) -> FloatArray:
    """Return blocks first, ..., end-1 before any search: the k values whose words are smallest."""
    numbers = np.arange(first * m, end * m, dtype=np.uint64).reshape(end - first, m)
    words = _scrambled(_scrambled(numbers + np.uint64(k << 32)) ^ np.uint64(m))
    blocks = np.argsort(words, axis=1, kind="stable")[:, :k].astype(np.int64)
    return _indicators(m, blocks)


def _scrambled(numbers: WordArray) -> WordArray:
    """Return the SplitMix64 word of each number (Steele, Lea and Flood 2014): fixed, whatever the version of NumPy."""
    z = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)))
