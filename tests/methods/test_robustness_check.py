"""Checks of many groups, and the last look before they are published, against enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from sfumato.methods.robustness.check import breaches, breaching, worst_posteriors
from sfumato.methods.robustness.posterior import Composition, compositions, posterior
from sfumato.methods.robustness.prior import Prior, count_prior
from sfumato.values.arrays import IntArray
from sfumato.values.steps import WITHHELD
from tests.constants import set_constants
from tests.methods.test_robustness import Table, by_enumeration, random_table


def test_worst_posteriors_group_by_group() -> None:
    for seed in range(10):
        _, values, (_, codes, _) = random_table(seed)
        prior = count_prior(codes, values)
        groups = np.random.default_rng(seed).integers(-1, values.size // 5, values.size)
        groups = np.where(groups < 0, WITHHELD, np.unique(groups, return_inverse=True)[1] - (groups.min() < 0))
        found = worst_posteriors(compositions(groups, codes, values), prior)
        free = worst_posteriors(compositions(groups, codes, values), None)
        for number in range(int(groups.max()) + 1):
            group = Composition.of(codes[groups == number].tolist(), values[groups == number].tolist())
            assert compositions(groups, codes, values)[number] == group
            expected = posterior(group.weights(prior.probabilities), group.sizes, group.counts).max()
            assert found[number] == pytest.approx(expected, rel=1e-12)
            assert free[number] == min(1, max(group.counts) / min(group.sizes)) >= found[number] - 1e-12


def test_groups_too_large_for_an_exact_answer_get_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    _, values, (_, codes, _) = random_table(3)
    prior = count_prior(codes, values)
    found = compositions(np.arange(values.size) // 6, codes, values)
    exact = worst_posteriors(found, prior)
    set_constants(monkeypatch, "sfumato.methods", MOST_STATES=1)
    bound = worst_posteriors(found, prior)
    assert (bound >= exact - 1e-12).all()
    assert (bound <= worst_posteriors(found, None)).all()


def test_breaches_are_decided_exactly() -> None:
    """Rows (n, n+1) and (n, n): p(t1:y) is above 1/2 by 1/(4n+2), far below the rounding of floats."""
    n = 10**18
    for step, beyond in ((1, True), (0, False)):
        prior = Prior(np.array([[n, n + step], [n, n]]), np.array([2 * n + step, 2 * n]))
        groups = [Composition.of([0, 1], [0, 1])]
        assert worst_posteriors(groups, prior)[0] == pytest.approx(0.5, abs=1e-15)
        assert breaches(groups, prior, 2).tolist() == [beyond]


# --- the last look before publishing --------------------------------------------------------------------------------


def random_groups(rng: np.random.Generator) -> tuple[IntArray, IntArray, IntArray, Prior]:
    """Return group (-1: none), signature and value of some records, and a prior under which all of them are possible.

    Groups have up to five records; few signatures and values, so that both come several times in a group.
    """
    rows, signatures, values = 24, int(rng.integers(1, 4)), int(rng.integers(2, 6))
    group = np.repeat(np.arange(rows), rng.integers(1, 6, rows))[:rows] - rng.integers(0, 2)
    order, s, x = rng.permutation(rows), rng.integers(0, signatures, rows), rng.integers(0, values, rows)
    weights = rng.integers(*rng.choice([(0, 6), (20, 24)]), (signatures, values))
    weights[s, x] += 1
    weights += weights.sum(axis=1, keepdims=True) == 0
    return group[order], s, x, Prior(weights, weights.sum(axis=1))


def members(groups: IntArray) -> Iterator[IntArray]:
    yield from (np.flatnonzero(groups == number) for number in range(int(groups.max()) + 1))


def counted(codes: IntArray) -> tuple[list[int], list[int]]:
    """Return the different codes, and how often each comes."""
    different, number = np.unique(codes, return_counts=True)
    return different.tolist(), number.tolist()


def largest_belief(signatures: IntArray, values: IntArray, weights: Table) -> Fraction:
    """Return the largest posterior in a group, over all ways to give its values to its records."""
    (s, sizes), (x, counts) = counted(signatures), counted(values)
    shares = np.vectorize(Fraction, otypes=[object])(weights[np.ix_(s, x)].astype(object))
    found = by_enumeration(shares, sizes, counts)
    assert found is not None
    return Fraction(max(found.ravel().tolist()))


def extreme_beliefs(signatures: IntArray, values: IntArray, shape: tuple[int, int]) -> Iterator[Table]:
    """Give for each signature and value of a group the prior that ties them most.

    Either no other signature can have the value, or, where there are too many of it, this one can have no other.
    """
    (s, sizes), (x, counts) = counted(signatures), counted(values)
    for (signature, size), (value, count) in product(zip(s, sizes, strict=True), zip(x, counts, strict=True)):
        weights = np.ones(shape, dtype=np.int64)
        if count <= size:
            weights[:, value] = 0
        else:
            weights[signature] = 0
        weights[signature, value] = 1
        yield weights


def test_a_value_twice_among_records_alike_breaches() -> None:
    """Three records of one signature with flu, flu, gout: 2/3; four with flu, flu, gout, mumps: 1/2."""
    for values, r, beyond in (([0, 0, 1], 2, 1), ([0, 0, 1, 2], 2, 0), ([0, 0, 1, 2], 3, 1), ([0, 1, 2], 3, 0)):
        same = np.zeros(len(values), dtype=np.int64)
        prior = Prior(np.ones((1, 3), dtype=np.int64), np.array([3]))
        for known in (None, prior):
            assert breaching(same, same, np.array(values), known, r) == beyond


def test_the_last_look_is_the_enumeration_of_worlds() -> None:
    """120 tables in groups: as many exceed 1/r as by exact posteriors, under a prior and under the worst of all."""
    rng, seen = np.random.default_rng(13), Counter[tuple[str, bool]]()
    for _ in range(120):
        groups, s, x, prior = random_groups(rng)
        r = int(rng.integers(2, 4))
        expected, whatever_is_known = 0, 0
        for own in members(groups):
            believed = largest_belief(s[own], x[own], prior.weights)
            extreme = extreme_beliefs(s[own], x[own], prior.weights.shape)
            at_worst = max(largest_belief(s[own], x[own], weights) for weights in extreme)
            assert believed <= at_worst
            expected += believed * r > 1
            whatever_is_known += at_worst * r > 1
            seen["mixed" if len(counted(s[own])[0]) > 1 else "alike", believed * r > 1] += 1
            seen["a value twice", believed * r > 1] += max(counted(x[own])[1]) > 1 and min(counted(s[own])[1]) >= r
        assert breaching(groups, s, x, prior, r) == expected
        assert breaching(groups, s, x, None, r) == whatever_is_known
    assert len(seen) == 6
    assert min(seen.values()) > 20
