"""The same matrix as retentions, or as a deck, and as columns: all who ask it find the same, by closed forms or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from sfumato.analyst.randomized import bayes
from sfumato.auditor.attackers.averaging import recovery
from sfumato.auditor.attackers.column import column_views, known_shares
from sfumato.auditor.attackers.corruption import demonstrate
from sfumato.auditor.attackers.draws import Drawn, Margin, margins, neighbours, transitions
from sfumato.auditor.attackers.order import Estimator
from sfumato.auditor.attackers.posterior import worst_priors
from sfumato.auditor.attackers.reuse import equal_shares
from sfumato.auditor.beliefs import expected_cases, observed_cases, record_beliefs
from sfumato.auditor.knowledge import Knowledge
from sfumato.claims.odds import counterexample
from sfumato.claims.single_columns import factors
from sfumato.methods.robustness.prior import count_prior
from sfumato.methods.subset.deck import make_deck
from sfumato.values.arrays import CodeArray, IntArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.chance import Tallies
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.deck import DeckMatrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import rho_bound
from tests.conftest import exact_weights

DOMAIN = SensitiveDomain((Domain("disease", ("flu", "gout", "HIV")), Domain("outcome", ("better", "worse"))))
M, ROWS = 6, 400
BOUNDS = tuple(rho_bound(Fraction(1, 10), Fraction(k, 10)) for k in (3, 3, 4, 4, 5, 5))
RNG = np.random.default_rng(3)
TRUE = RNG.integers(0, M, ROWS).astype(np.int32)
GROUPS = RNG.integers(0, 25, ROWS)
HELD = np.bincount(TRUE, minlength=M)


def _pairs() -> Iterator[tuple[PerturbationMatrix, DenseMatrix]]:
    for retention in ([0.2] * M, [0.05, 0.1, 0.3, 0.2, 0.6, 0.4], [0.001, 0.9, 0.5, 0.5, 0.2, 0.1]):
        own = PerturbationMatrix.from_retention(retention)
        yield own, DenseMatrix(np.array([[own.weight(y, x) for y in range(M)] for x in range(M)], dtype=np.uint64))


both = pytest.mark.parametrize("pair", list(_pairs()), ids=["uniform", "fine-grain", "one nearly lost"])
Pair = tuple[PerturbationMatrix, DenseMatrix]


def _mechanisms(pair: Pair) -> tuple[Mechanism, Mechanism]:
    one, other = (Mechanism.single(DOMAIN, matrix, BOUNDS) for matrix in pair)
    return one, other


def _published(matrix: Matrix) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    return matrix.sample(TRUE, np.random.default_rng(5).integers(0, 2**64, ROWS, dtype=np.uint64, endpoint=False))


def _same(one: Tallies, other: Tallies) -> None:
    for name in ("hits", "records", "chance"):
        assert np.allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-12), name


@both
def test_exact_factors(pair: Pair) -> None:
    assert exact_weights(pair[0]) == exact_weights(pair[1])
    one, other = ([*factors(DOMAIN, matrix)] for matrix in pair)
    assert one == other
    assert len(one) == 5
    one, other = _mechanisms(pair)
    for direction in ("upward", "downward"):
        found = [[w.factor for w in worst_priors(m.tables[0], direction)] for m in (one, other)]
        assert found[0] == found[1]
    breaches = [counterexample(matrix, BOUNDS) for matrix in pair]
    assert (breaches[0] is None) == (breaches[1] is None)
    if breaches[0] and breaches[1]:
        assert (breaches[0].code, breaches[0].posterior) == (breaches[1].code, breaches[1].posterior)
    assert demonstrate(pair[0], HELD.tolist()) == demonstrate(pair[1], HELD.tolist())


@both
def test_beliefs_of_records(pair: Pair) -> None:
    published = _published(pair[0])
    weights = np.random.default_rng(6).random(ROWS)
    for given in (None, weights):
        one, other = (record_beliefs(m, TRUE, published, weights=given).beliefs for m in _mechanisms(pair))
        assert np.allclose(one, other, rtol=1e-9)
    known = Knowledge("sex", GROUPS, count_prior(GROUPS, TRUE.astype(np.int64)))
    one, other = (record_beliefs(mechanism, TRUE, published, known=known) for mechanism in _mechanisms(pair))
    assert np.allclose(one.beliefs, other.beliefs, rtol=1e-9)
    cases = [expected_cases(mechanism, TRUE, GROUPS, [HELD]) for mechanism in _mechanisms(pair)]
    assert np.allclose(cases[0].weights, cases[1].weights, rtol=1e-9)
    (view, *_) = column_views(DOMAIN, [BOUNDS[0]] * M, any_predicate=False)
    counts = np.bincount(GROUPS * M + TRUE, minlength=25 * M).reshape(25, M)
    names = [str(k) for k in range(25)]
    one, other = (known_shares(mechanism, [HELD], view, counts, names).beliefs for mechanism in _mechanisms(pair))
    assert np.allclose(one, other, rtol=1e-9)


@both
def test_draws(pair: Pair) -> None:
    published, labels = _published(pair[0]), np.zeros(ROWS, dtype=np.int32)
    drawn = Drawn(TRUE, published, labels, np.arange(ROWS))
    one, other = _mechanisms(pair)
    cases = observed_cases(TRUE, published, labels, np.zeros(ROWS, dtype=np.int64), one)
    _same(transitions(one, cases), transitions(other, cases))
    _same(neighbours(one, drawn, ROWS), neighbours(other, drawn, ROWS))
    shown = np.bincount(published, minlength=M)[None, :]
    parts = [Margin(matrix, HELD[None, :], shown, ["all"], DOMAIN.labels) for matrix in pair]
    _same(margins(parts[:1]), margins(parts[1:]))
    assert parts[0].log_chance == pytest.approx(parts[1].log_chance)


@both
def test_two_releases(pair: Pair) -> None:
    assert equal_shares(*pair) == pytest.approx(equal_shares(pair[0], pair[0]))
    for releases in (1, 2):
        one, other = (recovery(mechanism, [HELD], releases) for mechanism in _mechanisms(pair))
        assert other.interval is None  # all sequences, not drawn ones
        assert one.mean == pytest.approx(other.mean)
        assert one.worst == pytest.approx(other.worst)


@both
def test_guesses_by_place(pair: Pair) -> None:
    published, parts = _published(pair[0]), np.arange(ROWS) // 50
    labels = np.zeros(ROWS, dtype=np.int64)
    one, other = (Estimator.of(m).estimate(parts, 8, published, labels) for m in _mechanisms(pair))
    assert np.allclose(one, other, rtol=1e-6, atol=1e-6)


# --- cards ------------------------------------------------------------------------------------------------------------


Cards = tuple[DeckMatrix, DenseMatrix]


def _decks() -> Iterator[Cards]:
    for values, members, gamma in ((7, 2, Fraction(3)), (9, 4, Fraction(3, 2)), (6, 1, Fraction(5))):
        own = DeckMatrix.within(values, make_deck(values, members).blocks.astype(np.int32), gamma)
        columns = [[own.weight(y, x) for y in range(own.outputs)] for x in range(values)]
        cards = tuple(tuple(own.card(y).tolist()) for y in range(own.outputs))
        yield own, DenseMatrix(np.array(columns, dtype=np.uint64), cards)


all_decks = pytest.mark.parametrize("cards", list(_decks()), ids=["pairs", "many", "single values"])


@dataclass(frozen=True, eq=False)
class Dealt:
    """Records whose cards were drawn, under a deck and under its columns."""

    mechanisms: tuple[Mechanism, Mechanism]
    true: CodeArray
    published: CodeArray

    @classmethod
    def of(cls, cards: Cards) -> Dealt:
        m = cards[0].size
        domain = SensitiveDomain((Domain("disease", tuple(f"value {k}" for k in range(m))),))
        one, other = (Mechanism.single(domain, matrix, (BOUNDS[0],) * m, "card") for matrix in cards)
        true = np.random.default_rng(7).integers(0, m, ROWS).astype(np.int32)
        words = np.random.default_rng(5).integers(0, 2**64, ROWS, dtype=np.uint64, endpoint=False)
        return cls((one, other), true, cards[0].sample(true, words))

    @property
    def held(self) -> IntArray:
        return np.bincount(self.true, minlength=self.mechanisms[0].domain.size)

    @property
    def shown(self) -> IntArray:
        return np.bincount(self.published, minlength=self.mechanisms[0].published.size)


@all_decks
def test_cards_have_the_same_factors(cards: Cards) -> None:
    dealt = Dealt.of(cards)
    for direction in ("upward", "downward"):
        one, other = ([float(w.factor or 0) for w in worst_priors(m.tables[0], direction)] for m in dealt.mechanisms)
        assert one == pytest.approx(other)
    assert demonstrate(cards[0], dealt.held.tolist()) == demonstrate(cards[1], dealt.held.tolist())
    assert cards[0].holds_truth == pytest.approx(cards[1].holds_truth)
    assert equal_shares(cards[0], cards[0]) == pytest.approx(equal_shares(*cards))


@all_decks
def test_cards_tell_the_same_of_records(cards: Cards) -> None:
    dealt = Dealt.of(cards)
    known = Knowledge("sex", GROUPS, count_prior(GROUPS, dealt.true.astype(np.int64)))
    for given in (None, known):
        one, other = (record_beliefs(m, dealt.true, dealt.published, known=given) for m in dealt.mechanisms)
        assert np.allclose(one.beliefs, other.beliefs, rtol=1e-9)
    one, other = (expected_cases(m, dealt.true, GROUPS, [dealt.held]) for m in dealt.mechanisms)
    assert np.allclose(one.weights, other.weights, rtol=1e-9)
    for releases in (1, 2):
        first, second = (recovery(mechanism, [dealt.held], releases) for mechanism in dealt.mechanisms)
        assert (first.mean, first.worst) == pytest.approx((second.mean, second.worst))
    shares = dealt.held / ROWS
    assert cards[0].likeliest(shares) == pytest.approx(cards[1].likeliest(shares))


@all_decks
def test_cards_are_drawn_alike(cards: Cards) -> None:
    dealt = Dealt.of(cards)
    drawn = Drawn(dealt.true, dealt.published, np.zeros(ROWS, dtype=np.int32), np.arange(ROWS))
    one, other = (transitions(mechanism, drawn.cases(mechanism)) for mechanism in dealt.mechanisms)
    _same(one, other)
    one, other = (neighbours(mechanism, drawn, ROWS) for mechanism in dealt.mechanisms)
    _same(one, other)
    labels = dealt.mechanisms[0].published.labels
    parts = [Margin(matrix, dealt.held[None, :], dealt.shown[None, :], ["all"], labels) for matrix in cards]
    _same(margins(parts[:1]), margins(parts[1:]))


@all_decks
def test_cards_are_counted_alike(cards: Cards) -> None:
    dealt, parts = Dealt.of(cards), np.arange(ROWS) // 50
    labels = np.zeros(ROWS, dtype=np.int64)
    one, other = (Estimator.of(m).estimate(parts, 8, dealt.published, labels) for m in dealt.mechanisms)
    assert np.allclose(one, other, rtol=1e-6, atol=1e-6)
    first, second = (Estimator.of(m).shown_value(dealt.published) for m in dealt.mechanisms)
    assert dealt.mechanisms[0].holds(dealt.published, first).all()
    assert np.array_equal(first, second)
    shown = dealt.shown.astype(np.float64)
    likeliest = [bayes.iterate(matrix, shown).value for matrix in cards]
    assert np.allclose(likeliest[0], likeliest[1], rtol=1e-3, atol=1e-3 * ROWS)
    assert likeliest[0].sum() == pytest.approx(ROWS)
