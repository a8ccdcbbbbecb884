"""Decks against dense linear algebra, and against all sets of k values."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from sfumato.methods.subset.deck import (
    MOST_BLOCKS,
    SMALL_LOSS,
    Deck,
    _scrambled,
    deck_loss,
    deck_power,
    make_deck,
)
from sfumato.methods.subset.design import Subset, best_subset
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.deck import MOST_CARDS
from tests.conftest import slow


def mechanism(deck: Deck, gamma: float) -> FloatArray:
    """P[card, x]: a card with x is g times as likely as one without."""
    weights = np.ones((deck.cards, deck.values))
    for number in range(deck.cards):
        weights[number, deck.card(number)] = gamma
    return np.asarray(weights / weights.sum(axis=0))


def dense_error(p: FloatArray) -> float:
    """L2 at equal counts of the best linear unbiased estimate."""
    m = p.shape[1]
    information = p.T @ (p / p.sum(axis=1, keepdims=True))
    return float(np.trace(np.linalg.inv(information)) / m - 1)


def random_blocks(rng: np.random.Generator, m: int, k: int, count: int) -> IntArray:
    return np.array([np.sort(rng.permutation(m)[:k]) for _ in range(count)])


# --- the loss ---------------------------------------------------------------------------------------------------------


def test_the_loss_is_that_of_the_dense_mechanism() -> None:
    rng = np.random.default_rng(1)
    singular = 0
    for _ in range(300):
        m = int(rng.integers(2, 16))
        k, gamma = int(rng.integers(1, m)), 1 + rng.lognormal()
        blocks = random_blocks(rng, m, k, int(rng.integers(1, 5)))
        deck = Deck(m, blocks, deck_loss(m, blocks))
        p = mechanism(deck, gamma)
        assert p.sum(axis=0) == pytest.approx(1)
        assert p.max(axis=1) == pytest.approx(gamma * p.min(axis=1))
        in_sets = Subset(gamma, m, k)
        chance = p[[0 in deck.card(number) for number in range(deck.cards)], 0].sum()
        assert chance == pytest.approx(in_sets.own)
        if math.isinf(deck.loss):
            singular += 1
            assert np.linalg.matrix_rank(p, tol=1e-9) < m
        else:
            assert deck.error(gamma) == pytest.approx(dense_error(p), rel=1e-6)
            assert deck.error(gamma) >= in_sets.error * (1 - 1e-9)
    assert 10 < singular < 200


def test_power_is_that_of_the_definition() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        m = int(rng.integers(2, 30))
        k = int(rng.integers(1, m))
        blocks = random_blocks(rng, m, k, int(rng.integers(1, 4)))
        waves = np.exp(-2j * np.pi * np.arange(1, m)[:, None, None] * blocks / m)
        assert deck_power(m, blocks) == pytest.approx((np.abs(waves.sum(axis=2)) ** 2).sum(axis=1), abs=1e-9)
        assert deck_power(m, blocks).mean() == pytest.approx(len(blocks) * k * (m - k) / (m - 1))


def test_difference_sets_lose_nothing() -> None:
    for m, block in ((7, [0, 1, 3]), (13, [0, 1, 3, 9]), (21, [3, 6, 7, 12, 14]), (31, [1, 5, 11, 24, 25, 27])):
        assert deck_loss(m, np.array([block])) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize(("m", "block"), [(4, [0, 1]), (4, [0, 2]), (6, [0, 1, 3, 4]), (6, [0, 1, 2])])
def test_a_block_without_power_is_refused(m: int, block: list[int]) -> None:
    assert deck_loss(m, np.array([block])) == math.inf


# --- the decks made ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "k"), [(m, k) for m in range(2, 15) for k in range(1, m)])
def test_small_decks_hold_every_set_equally_often(m: int, k: int) -> None:
    deck = make_deck(m, k)
    dealt = Counter(tuple(deck.card(number).tolist()) for number in range(deck.cards))
    assert all(len(set(card)) == k for card in dealt)
    orbits = math.gcd(m, k) * math.comb(m, k) // m
    if orbits <= MOST_BLOCKS:
        assert len(deck.blocks) == orbits
        assert set(dealt) == set(combinations(range(m), k))
        assert len(set(dealt.values())) == 1
        assert deck.loss == pytest.approx(0, abs=1e-12)
    in_cards = Counter(value for card, times in dealt.items() for value in card * times)
    assert set(in_cards.values()) == {len(deck.blocks) * k}


@pytest.mark.parametrize("m", [12, 16, 17, 31, 32, 40, 64, 97, slow(100), slow(128), slow(210)])
def test_searched_decks_lose_little_at_every_size_of_set(m: int) -> None:
    for k in range(1, m):
        deck = make_deck(m, k)
        all_pairs_fit = m <= 2 * MOST_BLOCKS or min(k, m - k) > 2
        assert deck.loss < (SMALL_LOSS if all_pairs_fit else 0.01)
        assert len(deck.blocks) <= MOST_BLOCKS
        assert deck.loss == deck_loss(m, deck.blocks)


@pytest.mark.parametrize("gamma", [math.exp(0.5), math.e, 4, math.exp(2), math.exp(3)])
@pytest.mark.parametrize("m", [40, 300, 2000])
def test_decks_of_the_best_sets(m: int, gamma: float) -> None:
    chosen = best_subset(gamma, m)
    deck = make_deck(m, chosen.members)
    assert deck.loss < SMALL_LOSS
    assert deck.error(gamma) == pytest.approx(chosen.error, rel=1.1 * SMALL_LOSS)


@pytest.mark.parametrize(("m", "k"), [(15_000, 3000), (14_983, 100), (15_000, 2), slow(16_384, 2), slow(15_000, 7)])
def test_large_decks(m: int, k: int) -> None:
    deck = make_deck(m, k)
    assert deck.loss < (SMALL_LOSS if k > 10 else 0.02)
    assert deck_power(m, deck.blocks).min() > 0
    assert deck.card(deck.cards - 1).max() < m
    again = make_deck(m, k)
    assert (deck.blocks == again.blocks).all()


def test_the_sequence_of_the_search_is_splitmix() -> None:
    """The first outputs of SplitMix64 with the seed 0, as published."""
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert _scrambled(np.arange(3, dtype=np.uint64)).tolist() == expected


@pytest.mark.parametrize(("m", "k"), [(5, 0), (5, 5), (1, 1)])
def test_what_is_no_card_is_refused(m: int, k: int) -> None:
    with pytest.raises(ValueError, match="card"):
        make_deck(m, k)


@pytest.mark.parametrize(("m", "k", "loss"), [(80_000, 16_000, 0.1), (300_000, 2_970, 1)])
def test_decks_of_very_many_values_can_be_drawn_from(m: int, k: int, loss: float) -> None:
    """They have few blocks, which costs more."""
    deck = make_deck(m, k)
    assert deck.cards <= MOST_CARDS
    assert deck.loss < loss
