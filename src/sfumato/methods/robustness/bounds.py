"""Bounds on p(t:x) that need no sum over worlds. A group has N tuples; k is how often x occurs in it.

    prior-free       p(t:x) <= k/n_s, n_s the tuples with t's signature: they are alike to the adversary, whatever he
                     knows of signatures, and their posteriors of x sum to k at most. Tight over all priors.
    swap             rho_tu(x) = max of p(t:x) p(u:y) / (p(u:x) p(t:y)) over the group's values y != x with p(u:y) > 0.
                     Exchanging the values of t and u maps the worlds where t alone has x onto those where u alone has
                     it, and divides the weight by at most rho_tu. So k (1 - p) >= p S, and

                         p(t:x) <= k/(k + S)        S = sum of the N - k smallest 1/rho_tu(x) over u != t

    repaired Delta   with K the largest k in the group, if for each of its values, f the largest p(t:x) in the group,

                         f - p(t:x) <= f (1 - sqrt(K (r-1)/(N-K)))    for every tuple t, and K r <= N

                     then every 1/rho_tu is at least K (r-1)/(N-K), and the swap bound is 1/r at most

    as published     PI Theorem 1 asks of every value, each occurring once, for f - p(t:x) <= Delta_ceil. That does not
                     bound p(t:x) by 1/r; the least upper bound is (N-1)/((N-1) + (r-1)^2).

Functions take floats or, for exact answers, Fractions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import PolicyError
from sfumato.methods.robustness.posterior import Numbers, Rows
from sfumato.values.arrays import FloatArray

# --- prior-free -----------------------------------------------------------------------------------------------------


def prior_free_bound(sizes: Sequence[int], counts: Sequence[int]) -> FloatArray:
    """Return min(1, k_x/n_s) for each signature (row) and value (column)."""
    return np.asarray(np.minimum(1.0, np.array(counts) / np.array(sizes)[:, None]))


# --- swap -----------------------------------------------------------------------------------------------------------


def swap_bound(weights: Rows, sizes: Sequence[int], counts: Sequence[int]) -> Numbers:
    """Return k/(k + S) for a tuple of each signature (row) and each value (column).

    weights: p(s:x), any factor for each row; sizes: n_s; counts: k_x.

    >>> f, g = Fraction(1, 10), Fraction(1, 19)
    >>> str(swap_bound([[f, g, g], [g, f, f]], [1, 2], [1, 1, 1])[0, 0])  # the posterior itself: the bound is tight
    '361/561'
    """
    table = np.asarray(weights)
    bound = np.empty_like(table)
    for s, x in np.ndindex(table.shape):
        bound[s, x] = _swap_bound(table, sizes, counts[x], s, x) if table[s, x] else 0
    return bound


def _swap_bound(table: Numbers, sizes: Sequence[int], k: int, s: int, x: int) -> Any:
    """p(t:x) for a t of signature s that can have x. S takes its smallest terms first."""
    left, total = sum(sizes) - k, 0
    for share, others in sorted((_worth(table, s, u, x), size - (u == s)) for u, size in enumerate(sizes)):
        taken = min(left, others)
        total += taken * share if taken else 0
        left -= taken
    return k / (k + total)


def _worth(table: Numbers, t: int, u: int, x: int) -> Any:
    """1/rho_tu(x): 0 if u cannot take x, or t not what u has; infinite if u can have nothing but x."""
    rivals = [y for y in range(table.shape[1]) if y != x and table[u, y] > 0]
    if not rivals:
        return math.inf
    return min(table[u, x] * table[t, y] / (table[t, x] * table[u, y]) for y in rivals)


# --- Delta ----------------------------------------------------------------------------------------------------------


def delta_ceiling(size: int, r: int, largest: Any) -> Any:
    """Return Delta_ceil, the paper's limit on f_max - f_v: the right side of PI Eq. (4).

        (N - r) f / (f (r-1)/(1-f) + (N-1))        0 for f = 0 or 1, and for N = r

    >>> round(delta_ceiling(3, 2, 0.1), 4)  # PI Example 2
    0.0474
    """
    return (size - r) * largest * (1 - largest) / (largest * (r - 1) + (size - 1) * (1 - largest))


def meets_published_delta(probabilities: Rows, counts: Sequence[int], r: int) -> bool:
    """Whether a group, p(t:x) by tuples (rows) and values (columns), meets PI Eq. (4) for every value, each once."""
    table = np.asarray(probabilities)
    if max(counts) > 1 or sum(counts) < r:
        return False
    largest = table.max(axis=0)
    return bool((largest - table.min(axis=0) <= delta_ceiling(sum(counts), r, largest)).all())


def published_supremum(size: int, r: int) -> Fraction:
    """Return what p(t:x) can come to, and does not reach, in a group of N > r tuples that meets PI Eq. (4).

        (N-1)/((N-1) + (r-1)^2)

    By (4) the smallest p(t:x) is above (r-1)/(N-1) times the largest, so 1/rho > ((r-1)/(N-1))^2 in the swap bound. The
    group with t = (f, g, ..., g), all others (g, f, ..., f), g = f - Delta_ceil, comes to it as f goes to 0.

    >>> str(published_supremum(3, 2)), str(published_supremum(100, 2))
    ('2/3', '99/100')
    """
    return Fraction(size - 1, size - 1 + (r - 1) ** 2)


def repaired_delta_ceiling(size: int, r: int, largest: float, multiplicity: int = 1) -> float:
    """Return the limit on f_max - f_v that does bound p(t:x) by 1/r: f (1 - sqrt(K (r-1)/(N-K))); needs K r <= N."""
    return largest * (1 - math.sqrt(multiplicity * (r - 1) / (size - multiplicity)))


def meets_repaired_delta(probabilities: Rows, counts: Sequence[int], r: int) -> bool:
    """Whether a group meets the repaired condition, without square roots: f_v^2 (N-K) >= f_max^2 K (r-1)."""
    table = np.asarray(probabilities)
    size, most = sum(counts), max(counts)
    largest, smallest = table.max(axis=0), table.min(axis=0)
    if (largest == 0).any():
        raise PolicyError(
            "The prior contradicts the data: a value of the group is impossible for all its tuples.",
            "Give every value that occurs a probability above 0.",
        )
    return most * r <= size and bool((smallest**2 * (size - most) >= largest**2 * most * (r - 1)).all())
