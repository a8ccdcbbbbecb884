"""What an adversary believes at most, without a sum over worlds; and the check of published groups.

A group has N tuples; k is how often x occurs in it.


    prior-free       p(t:x) <= k/n_s, n_s the tuples with t's signature: they are alike to every adversary who knows
                     of signatures, and their posteriors of x sum to k at most. Tight over all priors.
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
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.errors import PolicyError
from sfumato.methods.robustness.posterior import (
    MOST_STATES,
    Composition,
    Numbers,
    Rows,
    compositions,
    multiplicities,
    posterior,
    posteriors,
)
from sfumato.methods.robustness.prior import Prior
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

CLOSE = 1e-9  # relative distance to 1/r below which Fractions decide; the rounding of floats is below 1e-11
BATCH = 2**21  # states computed at a time, over all groups of a batch


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


# --- published groups -------------------------------------------------------------------------------------------------


def worst_posteriors(groups: Sequence[Composition], prior: Prior | None) -> FloatArray:
    """Return the largest p(t:x) of each group, over its tuples and values.

    Exact (PI Eq. (3)) up to rounding; for a group with more than `MOST_STATES` states the smaller of the swap bound and
    the prior-free one. Without a prior: the largest that it can be under any.
    """
    worst: dict[Composition, float] = {}
    for batch, found in posteriors_by_group(groups, prior):
        worst |= zip(batch, found.max(axis=(1, 2)).tolist(), strict=True)
    return np.array([worst[group] for group in groups])


def posteriors_by_group(
    groups: Iterable[Composition], prior: Prior | None
) -> Iterator[tuple[list[Composition], FloatArray]]:
    """Yield different groups of the same shape, and p(t:x) of each: (group, signature, value), as `worst_posteriors`.

    A group that comes several times is in one batch, once.
    """
    for batch in _batches(set(groups)):
        yield batch, _posteriors_of_batch(batch, prior)


def breaches(groups: Sequence[Composition], prior: Prior | None, r: int) -> BoolArray:
    """Whether a group exceeds 1/r: decided exactly where floats are too close to call."""
    return exceeding(groups, worst_posteriors(groups, prior), prior, r)


def exceeding(groups: Sequence[Composition], worst: FloatArray, prior: Prior | None, r: int) -> BoolArray:
    """Return `breaches` of groups whose `worst_posteriors` are known."""
    above = worst * r > 1
    close = np.flatnonzero(np.abs(worst * r - 1) < CLOSE).tolist()
    decided = {group: _breaches_exactly(group, prior, r) for group in {groups[place] for place in close}}
    above[close] = [decided[groups[place]] for place in close]
    return above


def breaching(groups: IntArray, signatures: IntArray, values: IntArray, prior: Prior | None, r: int) -> int:
    """Return how many groups 0, 1, ... exceed 1/r. groups: of each record; those with group -1 are in none.

    A group whose largest multiplicity is at most 1/r of its rarest signature does not, under any prior; those are told
    apart first, and only the others are looked at one by one.
    """
    published = groups >= 0
    of, number = groups[published], int(groups.max()) + 1
    rarest, most = np.full(number, of.size, dtype=np.int64), np.zeros(number, dtype=np.int64)
    group, _, counts = multiplicities(of, signatures[published])
    np.minimum.at(rarest, group, counts)
    group, _, counts = multiplicities(of, values[published])
    np.maximum.at(most, group, counts)
    others = np.flatnonzero(most * r > rarest)
    if prior is None:
        return others.size
    place = np.full(number + 1, -1)  # the last one for records in no group
    place[others] = np.arange(others.size)
    return int(breaches(compositions(place[groups], signatures, values), prior, r).sum()) if others.size else 0


def _batches(groups: Iterable[Composition]) -> Iterator[list[Composition]]:
    """Put groups with the same sizes and counts together, as many as fit."""
    alike: dict[tuple[tuple[int, ...], tuple[int, ...]], list[Composition]] = defaultdict(list)
    for group in groups:
        alike[group.sizes, group.counts].append(group)
    for batch in alike.values():
        length = max(1, BATCH // batch[0].states)
        yield from (batch[start : start + length] for start in range(0, len(batch), length))


def _posteriors_of_batch(batch: Sequence[Composition], prior: Prior | None) -> FloatArray:
    sizes, counts = batch[0].sizes, batch[0].counts
    largest = prior_free_bound(sizes, counts)
    if prior is None:
        return np.broadcast_to(largest, (len(batch), *largest.shape))
    signatures, values = np.array([group.signatures for group in batch]), np.array([group.values for group in batch])
    weights = prior.weights[signatures[:, :, None], values[:, None, :]].astype(np.float64)  # as `Composition.weights`
    if batch[0].states <= MOST_STATES:
        return np.asarray(posteriors(weights, sizes, counts), dtype=np.float64)
    return np.asarray(np.minimum(largest, np.array([swap_bound(w, sizes, counts) for w in weights])))


def _breaches_exactly(group: Composition, prior: Prior | None, r: int) -> bool:
    if prior is None or len(group.sizes) == 1:
        return max(group.counts) * r > min(group.sizes)
    if group.states > MOST_STATES:
        return True
    weights = np.vectorize(Fraction, otypes=[object])(group.weights(prior.weights).astype(object))
    return bool((posterior(weights, group.sizes, group.counts) * r > 1).any())
