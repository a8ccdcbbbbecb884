"""Check published groups: the largest posterior of each under a prior, and whether it exceeds 1/r."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.methods.robustness.bounds import prior_free_bound, swap_bound
from sfumato.methods.robustness.posterior import MOST_STATES, Composition, compositions, posterior, posteriors
from sfumato.methods.robustness.prior import Prior
from sfumato.values.arrays import FloatArray, IntArray

CLOSE = 1e-9
"""Relative distance to 1/r below which Fractions decide; the rounding of floats is below 1e-11."""
BATCH = 2**21
"""States computed at a time, over all groups of a batch."""


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


def breaches(groups: Sequence[Composition], prior: Prior | None, r: int) -> npt.NDArray[np.bool_]:
    """Whether a group exceeds 1/r: decided exactly where floats are too close to call."""
    return exceeding(groups, worst_posteriors(groups, prior), prior, r)


def exceeding(groups: Sequence[Composition], worst: FloatArray, prior: Prior | None, r: int) -> npt.NDArray[np.bool_]:
    """Return `breaches` of groups whose `worst_posteriors` are known."""
    worst = worst * r
    close = {group for group, times_r in zip(groups, worst, strict=True) if abs(times_r - 1) < CLOSE}
    decided = {group: _breaches_exactly(group, prior, r) for group in close}
    return np.array([decided.get(group, times_r > 1) for group, times_r in zip(groups, worst, strict=True)])


def breaching(groups: IntArray, signatures: IntArray, values: IntArray, prior: Prior | None, r: int) -> int:
    """Return how many groups 0, 1, ... exceed 1/r. groups: of each record; those with group -1 are in none.

    A group whose largest multiplicity is at most 1/r of its rarest signature does not, under any prior; those are told
    apart first, and only the others are looked at one by one.
    """
    published = groups >= 0
    of, number = groups[published], int(groups.max()) + 1
    rarest = np.full(number, of.size, dtype=np.int64)
    np.minimum.at(rarest, *_multiplicities(of, signatures[published]))
    most = np.zeros(number, dtype=np.int64)
    np.maximum.at(most, *_multiplicities(of, values[published]))
    others = np.flatnonzero(most * r > rarest)
    if prior is None:
        return others.size
    place = np.full(number + 1, -1)  # the last one for records in no group
    place[others] = np.arange(others.size)
    return int(breaches(compositions(place[groups], signatures, values), prior, r).sum()) if others.size else 0


def _multiplicities(groups: IntArray, codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return the groups and how often each has a code, for every pair that occurs."""
    size = int(codes.max(initial=0)) + 1
    pairs, counts = np.unique(groups * size + codes, return_counts=True)
    return pairs // size, counts


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
    weights = np.array([group.weights(prior.weights) for group in batch]).astype(np.float64)
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
