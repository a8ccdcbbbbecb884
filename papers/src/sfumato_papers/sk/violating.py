"""How often pieces of a table violate l-eligibility, exactly.

If every record is drawn with probability q, independently, the number of records with value x is binomial, and the
numbers of all values are independent. So

    Pr(n records are drawn, none of the values more than t times)

is a sum over compositions, by one convolution for each value. Given their number n, the drawn records are a simple
random sample without replacement.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import special

FloatArray = npt.NDArray[np.float64]

FAR = 6
"""Standard deviations beyond which the size of a piece is not looked at: less than 1e-8 of all pieces."""
LEAST = 1e-9
"""Probabilities below this are not told apart."""
TAIL = 12
"""Beyond so many standard deviations and records, counts of a value are left out: less than 1e-15 of all pieces."""


def of_size(counts: Sequence[int], size: int, ell: int) -> float:
    """Return the probability that a sample of so many records, without replacement, has a value with more than n/l.

    >>> round(of_size([2, 2], 2, 2), 9)  # two equal ones of four: 2 of 6 pairs
    0.333333333
    """
    table = sum(counts)
    eligible = _drawn(counts, size / table, size // ell)
    chance = _binomial(np.array([size]), table, size / table)[0]
    return max(0.0, 1 - float(eligible[size : size + 1].sum() / chance))


def of_mean(counts: Sequence[int], mean: float, ell: int) -> float:
    """Return the same for a piece to which every record belongs with the same probability, independently.

    mean: the records that a piece is expected to have.
    """
    share = mean / sum(counts)
    low, high = (int(max(0, mean + far * mean**0.5)) for far in (-FAR, FAR))
    eligible = sum(
        float(_drawn(counts, share, most)[most * ell : (most + 1) * ell].sum())
        for most in range(low // ell, high // ell + 1)
    )
    return max(0.0, 1 - eligible)


def _drawn(counts: Sequence[int], share: float, most: int) -> FloatArray:
    """Return n -> the probability that n records are drawn, and of no value more than `most`."""
    chances = np.ones(1)
    for count in counts:
        mean = count * share
        reach = min(count, most, int(mean + TAIL * (mean**0.5 + 1)))
        chances = np.convolve(chances, _binomial(np.arange(reach + 1), count, share))
    return chances


def _binomial(successes: npt.NDArray[np.int64], trials: int, share: float) -> FloatArray:
    """Return C(n, k) q^k (1-q)^(n-k) for each k."""
    ways = -special.betaln(1 + trials - successes, 1 + successes) - np.log(trials + 1)
    chances = special.xlogy(successes, share) + special.xlog1py(trials - successes, -share)
    return np.asarray(np.exp(ways + chances), dtype=np.float64)
