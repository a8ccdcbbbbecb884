"""Whether the rows that are published have the values that were counted: a secret sum over both, compared at the end.

Every value x of mechanism k has a secret 64-bit word h_k(x). Over all rows the words add up to

    sum of h_k(x) over rows and mechanisms  =  sum of counts_k(x) h_k(x)          modulo 2^64

if the counts are those that were planned for. Other counts have the same sum with a probability of about 2^-64.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.values.arrays import CodeArray, IntArray, WordArray
from sfumato.values.randomness import SecretKey, Step

CHECKS = 1 << 40
"""The stream of words that the values of the first mechanism are hashed with; the next one's follows."""


def hash_of_counts(key: SecretKey, counts: Sequence[IntArray]) -> int:
    """Return what the words of all rows' values add up to, if there are so many of each value of each mechanism."""
    words = value_words(key, [of_one.size for of_one in counts])
    sums = (int(np.vdot(each, of_one.astype(np.uint64))) for each, of_one in zip(words, counts, strict=True))
    return sum(sums) % (1 << 64)


def value_words(key: SecretKey, sizes: Sequence[int]) -> list[WordArray]:
    """Return the secret word of each value, for domains of these sizes."""
    return [key.words(Step.HASH, CHECKS + number, 0, size) for number, size in enumerate(sizes)]


class SeenValues:
    """Adds up the words of the values of rows that pass, into `total` where one is given."""

    def __init__(self, key: SecretKey, sizes: Sequence[int], total: WordArray | None = None) -> None:
        self._words = value_words(key, sizes)
        self._total = np.zeros(1, dtype=np.uint64) if total is None else total

    def __call__(self, number: int, codes: CodeArray) -> None:
        """Add the values of some rows, as codes of the mechanism of this number."""
        np.add(self._total, self._words[number].take(codes).sum(dtype=np.uint64), out=self._total)

    @property
    def hash(self) -> int:
        """What they add up to."""
        return int(self._total[0])
