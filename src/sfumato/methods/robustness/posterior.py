"""The exact posterior of a group: what an adversary believes who knows Pr(value | signature) and the group's values.

A group has n_s tuples of each signature s, and the value x k_x times; N = sum n_s = sum k_x. A possible world gives the
values to the tuples, one each. With p(s:x) known for every signature,

    p(w)   = product over the tuples of p(signature of t : value of t in w)                       PI Eq. (1)
    p(t:x) = sum of p(w) over the worlds where t has x / sum of p(w) over all worlds              PI Eq. (2), (3)

a ratio of permanents. Rows take columns one after another; the state is how often each column has been taken. So sums
over worlds become sums over prod (capacity + 1) states, forward and backward. N columns that all differ give 2^N
subsets, and O(N 2^N) for all posteriors of the group. Where values repeat or tuples share signatures there are fewer:
tuples take values, or values take signatures, whichever has fewer states.

All is sums of products of numbers that are not negative, so floats lose a few digits only. The same code computes with
Fractions (arrays of objects).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError
from sfumato.values.arrays import IntArray
from sfumato.values.bucket_deal import starts

Numbers = npt.NDArray[Any]  # floats, or Fractions as objects
Rows = Numbers | Sequence[Sequence[float | Fraction]]

MOST_STATES = 2**18  # groups with more states get no exact posterior; 14 tuples that all differ have 2^14
SMALLEST = 1e-250  # where a product of weights can be smaller, Fractions are used: floats could underflow


@dataclass(frozen=True)
class Composition:
    """What is published of a group: its signatures and values, each with how often. The rarest come first."""

    signatures: tuple[int, ...]
    sizes: tuple[int, ...]  # n_s
    values: tuple[int, ...]
    counts: tuple[int, ...]  # k_x

    @classmethod
    def of(cls, signatures: Iterable[int], values: Iterable[int]) -> Composition:
        """Return the composition of the tuples with these signatures and values.

        >>> Composition.of([1, 0, 1], [5, 7, 5])
        Composition(signatures=(0, 1), sizes=(1, 2), values=(7, 5), counts=(1, 2))
        """
        return cls(*_counted(signatures), *_counted(values))

    @property
    def size(self) -> int:
        """N."""
        return sum(self.counts)

    @property
    def states(self) -> int:
        """How many states an exact computation has."""
        return min(_states(self.sizes), _states(self.counts))

    def weights(self, table: Numbers) -> Numbers:
        """Return the rows and columns of a table (signature, value) that the group has."""
        return table[np.ix_(self.signatures, self.values)]


def _counted(codes: Iterable[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    ranked = sorted(Counter(codes).items(), key=lambda entry: (entry[1], entry[0]))
    return tuple(code for code, _ in ranked), tuple(count for _, count in ranked)


def _states(counts: Sequence[int]) -> int:
    return math.prod(count + 1 for count in counts)


def compositions(groups: IntArray, signatures: IntArray, values: IntArray) -> list[Composition]:
    """Return the composition of each group 0, 1, ...; records with group -1 are in none."""
    published = groups >= 0
    of = groups[published]
    counted = zip(_counted_in(of, signatures[published]), _counted_in(of, values[published]), strict=True)
    return [Composition(*of_signatures, *of_values) for of_signatures, of_values in counted]


def multiplicities(groups: IntArray, codes: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Return group, code and how often they come together, of every pair that occurs."""
    size = int(codes.max(initial=0)) + 1
    pairs, counts = np.unique(groups * size + codes, return_counts=True)
    return (*np.divmod(pairs, size), counts)


def _counted_in(groups: IntArray, codes: IntArray) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Give `_counted` of the codes in each group."""
    group, code, counts = multiplicities(groups, codes)
    order = np.lexsort((code, counts, group))
    ranked, numbers = code[order].tolist(), counts[order].tolist()
    ends = np.cumsum(np.bincount(group)).tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        yield tuple(ranked[start:end]), tuple(numbers[start:end])


def posterior(weights: Rows, sizes: Sequence[int], counts: Sequence[int]) -> Numbers:
    """Return p(t:x) for a tuple t of each signature (row) and each value x (column): PI Eq. (3).

    weights: p(s:x), any factor for each row; sizes: n_s; counts: k_x. Exact for Fractions. `PolicyError` if there is no
    possible world: the prior contradicts the group.

    >>> f, g = Fraction(1, 10), Fraction(1, 19)  # meets the paper's condition (4) for r = 2
    >>> str(posterior([[f, g, g], [g, f, f]], [1, 2], [1, 1, 1])[0, 0])
    '361/561'
    """
    return np.asarray(posteriors(np.asarray(weights)[None], sizes, counts)[0])


def posteriors(weights: Numbers, sizes: Sequence[int], counts: Sequence[int]) -> Numbers:
    """Return the posteriors of several groups with the same sizes and counts. weights: (group, signature, value)."""
    kind = weights.dtype if weights.dtype == object else np.float64
    scaled = _scaled(weights, sum(counts))
    if _states(counts) <= _states(sizes):
        taken = _marginals(np.repeat(scaled, sizes, axis=1), tuple(counts))  # tuples take values
        return taken[:, starts(np.array(sizes))].astype(kind)
    taken = _marginals(np.repeat(scaled.transpose(0, 2, 1), counts, axis=1), tuple(sizes))  # values take signatures
    share = taken[:, starts(np.array(counts))].transpose(0, 2, 1)  # of each value that falls to the signature
    return np.asarray(share * np.array(counts) / np.array(sizes)[:, None]).astype(kind)


def _scaled(weights: Numbers, size: int) -> Numbers:
    """Divide rows and columns by their maxima, which changes no posterior; use Fractions if floats may underflow."""
    for axis in (2, 1):
        weights = weights / _positive(weights.max(axis=axis, keepdims=True))
    if weights.dtype != object and float(weights[weights > 0].min()) ** size < SMALLEST:
        return np.asarray(np.vectorize(Fraction, otypes=[object])(weights))
    return weights


def _positive(numbers: Numbers) -> Numbers:
    """Return the numbers; a zero means that no world is possible."""
    if (numbers == 0).any():
        raise PolicyError(
            "The prior contradicts the data: a group has no possible world.",
            "Give a probability above 0 to every value that a signature of the table has.",
        )
    return numbers


# --- rows take columns ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Layer:
    """The states in which j columns are taken, and for each column the steps to states with one more."""

    states: IntArray
    steps: tuple[tuple[int, IntArray, IntArray], ...]  # column, states where it can still be taken, states it leads to


@lru_cache(maxsize=4)
def _layers(capacities: tuple[int, ...]) -> tuple[_Layer, ...]:
    """Return the states by how many columns are taken. A state is a number with digits in bases capacity + 1."""
    bases = np.array(capacities) + 1
    strides = np.cumprod([1, *bases[:-1]])
    digits = np.arange(math.prod(bases.tolist())) // strides[:, None] % bases[:, None]  # (column, state)
    taken = digits.sum(axis=0)
    layers = np.split(np.argsort(taken, kind="stable"), np.cumsum(np.bincount(taken))[:-1])
    return tuple(_Layer(states, _steps(states, digits, capacities, strides)) for states in layers)


def _steps(
    states: IntArray, digits: IntArray, capacities: tuple[int, ...], strides: IntArray
) -> tuple[tuple[int, IntArray, IntArray], ...]:
    before = [states[digits[column, states] < capacity] for column, capacity in enumerate(capacities)]
    return tuple((c, states, states + strides[c]) for c, states in enumerate(before) if states.size)


def _marginals(weights: Numbers, capacities: tuple[int, ...]) -> Numbers:
    """Return the probability that row j takes column c, where column c is taken capacities[c] times.

    weights: (group, row, column). A layer may be divided by anything: the probabilities of a row sum to 1.
    """
    layers = _layers(capacities)
    ahead = np.zeros((len(weights), _states(capacities)), dtype=weights.dtype)
    ahead[:, 0] = 1
    behind = ahead[:, ::-1].copy()
    for j, layer in enumerate(layers[:-1]):
        for column, before, after in layer.steps:
            ahead[:, after] += ahead[:, before] * weights[:, j, column, None]
        _normalise(ahead, layers[j + 1].states)
    for j, layer in reversed(list(enumerate(layers[:-1]))):
        for column, before, after in layer.steps:
            behind[:, before] += behind[:, after] * weights[:, j, column, None]
        _normalise(behind, layer.states)
    taken = np.zeros_like(weights)
    for j, layer in enumerate(layers[:-1]):
        for column, before, after in layer.steps:
            taken[:, j, column] = (ahead[:, before] * behind[:, after]).sum(axis=1) * weights[:, j, column]
    return taken / _positive(taken.sum(axis=2, keepdims=True))


def _normalise(sums: Numbers, layer: IntArray) -> None:
    sums[:, layer] = sums[:, layer] / _positive(sums[:, layer].max(axis=1, keepdims=True))
