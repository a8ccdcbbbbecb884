"""Matrices by classes, decks of cards, and dense ones with more outputs than values, against the plain arithmetic.

The oracle is a list of columns of integers and nothing else: entry by entry, in fractions where something is exact.
"""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.block import BlockMatrix
from sfumato.values.matrix.deck import DeckMatrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.graded import GradedMatrix
from sfumato.values.matrix.orbits import CardOrbit
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.matrix.windows import Parts, WindowsMatrix
from sfumato.values.mechanism import read_matrix

WORDS = 2**64


def _random_block(rng: np.random.Generator) -> BlockMatrix:
    levels, m = int(rng.integers(1, 5)), int(rng.integers(5, 12))
    classes = rng.permutation(np.concatenate([np.arange(levels), rng.integers(0, levels, m - levels)]))
    weights = rng.random((levels, levels)) / m
    return BlockMatrix.from_floats(classes.astype(np.int32), weights, 0.01)


def _random_deck(rng: np.random.Generator) -> DeckMatrix:
    m = int(rng.integers(3, 12))
    k = int(rng.integers(1, m // 2 + 1))
    blocks = np.array([np.sort(rng.permutation(m)[:k]) for _ in range(int(rng.integers(1, 4)))], dtype=np.int32)
    return DeckMatrix.within(m, blocks, 1 + Fraction(int(rng.integers(1, 80)), 10))


def _random_dense(rng: np.random.Generator) -> DenseMatrix:
    m, outputs = int(rng.integers(2, 7)), int(rng.integers(7, 12))
    cards = tuple(tuple(sorted(rng.permutation(m)[: int(rng.integers(1, m))].tolist())) for _ in range(outputs))
    return DenseMatrix.from_floats(rng.dirichlet(np.ones(outputs), m).T, 1e-12, cards)


def _random_ranges(rng: np.random.Generator) -> WindowsMatrix:
    m = int(rng.integers(3, 9))
    k = int(rng.integers(1, m // 2 + 1))
    blocks = np.array([np.sort(rng.permutation(m)[:k]) for _ in range(int(rng.integers(1, 4)))])
    order, width, share = rng.permutation(m).tolist(), int(rng.integers(1, m + 1)), rng.uniform(0.1, 0.9)
    return Parts.within(order, width, share, blocks, 1 + Fraction(int(rng.integers(1, 80)), 10)).matrix()


def _random_graded(rng: np.random.Generator, empty: int = 0) -> GradedMatrix:
    """Return cards of two or three classes with any words; with empty places, rings are larger, and blocks half."""
    levels = int(rng.integers(2, 4))
    sizes = rng.integers(9, 12, levels) if empty else rng.integers(1, 5, levels)
    rings = tuple(int(size) + int(rng.integers(0, empty + 1)) for size in sizes)
    classes = rng.permutation(np.repeat(np.arange(levels), sizes)).astype(np.int32)
    while True:
        orbits = [_random_blocks(rng, rings, bool(empty)) for _ in range(int(rng.integers(1, 4)))]
        held, lacked = np.array([_held(rings, blocks) for blocks in orbits]).transpose(1, 0, 2)
        if all(any(blocks is None or blocks.size for blocks in each) for each in orbits) and lacked.sum(axis=0).all():
            break
    high, low = rng.random(held.shape) + 1, rng.random(held.shape) + 0.3
    total = (held * high + lacked * low).sum(axis=0)
    return GradedMatrix.from_floats(classes, rings, orbits, list(zip(high / total, low / total, strict=True)), 1e-12)


Blocks = tuple[np.ndarray | None, ...]


def _random_blocks(rng: np.random.Generator, rings: tuple[int, ...], half: bool) -> Blocks:
    number, found = int(rng.integers(1, 3)), []
    for ring in rings:
        k = int(rng.choice([0, ring // 2, ring]) if half else rng.integers(0, ring + 1))
        blocks = [np.sort(rng.permutation(ring)[:k]) for _ in range(number)]
        found.append(None if k == ring else np.array(blocks, dtype=np.int32).reshape(number, k))
    return tuple(found)


def _held(rings: tuple[int, ...], blocks: Blocks) -> tuple[list[int], list[int]]:
    """Return how many cards hold a value of each class, and how many lack it."""
    turned = [ring for ring, each in zip(rings, blocks, strict=True) if each is not None and each.size]
    cards = math.lcm(*turned) * max((len(each) for each in blocks if each is not None), default=1)
    held = [cards if each is None else cards * each.shape[1] // ring for ring, each in zip(rings, blocks, strict=True)]
    return held, [cards - count for count in held]


def _cases() -> list[Matrix]:
    rng = np.random.default_rng(11)
    return [
        *(make(rng) for make in (_random_block, _random_deck, _random_dense, _random_ranges) for _ in range(60)),
        *(_random_graded(np.random.default_rng(seed)) for seed in range(150)),
    ]


def _integers(matrix: Matrix) -> list[list[int]]:
    """Return the columns, [true][published]."""
    return [[matrix.weight(y, x) for y in range(matrix.outputs)] for x in range(matrix.size)]


def _ratio(above: int, below: int) -> Fraction | None:
    return Fraction(above, below) if below else (None if above else Fraction(0))


def _largest(ratios: list[Fraction | None]) -> Fraction | None:
    return None if None in ratios else max(r for r in ratios if r is not None)


def _raised(columns: list[list[int]], inside: set[int]) -> Fraction | None:
    outside = set(range(len(columns))) - inside
    rows = range(len(columns[0]))
    return _largest([_ratio(columns[i][y], columns[k][y]) for y in rows for i in inside for k in outside])


def _close(one: Fraction | None, other: Fraction | None, matrix: Matrix) -> bool:
    """Whether two factors are equal; a deck's may be too large by the unit that uses its words up."""
    if one is None or other is None:
        return one == other
    return one == other or (
        isinstance(matrix, DeckMatrix | GradedMatrix) and other <= one <= other * (1 + Fraction(1, 2**50))
    )


@pytest.mark.parametrize("matrix", _cases(), ids=lambda matrix: type(matrix).__name__)
def test_everything_a_matrix_answers(matrix: Matrix) -> None:
    columns, m, outputs = _integers(matrix), matrix.size, matrix.outputs
    rows = range(outputs)
    assert all(sum(column) == WORDS for column in columns)
    p = np.array(columns, dtype=object).T.astype(float) / WORDS
    assert np.allclose(matrix.dense(), p, rtol=1e-12)
    rng = np.random.default_rng(m * outputs)
    # entries
    y, x = (grid.ravel() for grid in np.meshgrid(rows, range(m), indexing="ij"))
    assert np.allclose(matrix.chances(y, x), p[y, x], rtol=1e-12)
    a, b = (grid.ravel() for grid in np.meshgrid(range(m), range(m), indexing="ij"))
    assert np.allclose(matrix.alike(a, b), (p.T @ p)[a, b], rtol=1e-9)
    assert np.allclose(matrix.least_chance, p.min(axis=1), rtol=1e-12)
    assert np.allclose(matrix.most_chance, p.max(axis=1), rtol=1e-12)
    assert np.allclose(matrix.pure_noise, outputs * p.min(axis=0), rtol=1e-12)
    shares = rng.dirichlet(np.ones(m))
    assert np.allclose(matrix.likeliest(shares), (p * shares).max(axis=1), rtol=1e-12)
    held = [sum(p[y, x] for y in rows if x in matrix.card(y)) for x in range(m)]
    assert np.allclose(matrix.holds_truth, held, rtol=1e-12)
    if matrix.publishes_values:
        off = p[~np.eye(m, dtype=bool)]
        assert np.allclose(matrix.diagonal, p.diagonal(), rtol=1e-12)
        assert np.allclose(matrix.noise_range, (off.min(), off.max()), rtol=1e-12)
        others = [sum(p[j, i] * p[j, k] for j in rows if j not in (i, k)) for i, k in zip(a, b, strict=True)]
        assert np.allclose(matrix.alike_changed(a, b), others, rtol=1e-9, atol=1e-12)
    # exact factors
    for i in range(m):
        others_than = set(range(m)) - {i}
        for direction, inside in (("upward", {i}), ("downward", others_than)):
            exact, own = _raised(columns, inside), getattr(matrix, direction)(i)
            assert _close(own, exact, matrix)
            published, rival = matrix.worst_case(i, direction)  # type: ignore[arg-type]
            pair = (i, rival) if direction == "upward" else (rival, i)
            assert _close(own, _ratio(columns[pair[0]][published], columns[pair[1]][published]), matrix)
            assert rival != i
        smallest = [sorted(column[y] for column in columns)[:2] for y in rows]
        twice = _largest([_ratio(columns[i][y] * WORDS, first * second) for y, (first, second) in enumerate(smallest)])
        assert _close(matrix.equal_twice(i), twice, matrix)
    every = [_ratio(max(column[y] for column in columns), min(column[y] for column in columns)) for y in rows]
    assert _close(matrix.largest_ratio, _largest(every), matrix)
    for _ in range(5):
        mask = rng.random(m) < 0.5
        if mask.any() and not mask.all():
            exact, own = _raised(columns, set(np.flatnonzero(mask).tolist())), matrix.raised(mask)
            assert _close(own, exact, matrix)
    # products and estimates
    values, published = rng.random((3, m)), rng.random((3, outputs))
    assert np.allclose(matrix.apply(values), values @ p.T)
    assert np.allclose(matrix.apply_transposed(published), published @ p)
    chosen = rng.integers(0, 3, 4), rng.integers(0, outputs, 4)
    assert np.allclose(matrix.apply_at(values, *chosen), (values @ p.T)[chosen])
    alike_on_card = np.array([[(x in matrix.card(y)) / matrix.card(y).size for x in range(m)] for y in rows])
    assert np.allclose(matrix.uncorrected(published), published @ alike_on_card)
    if not matrix.is_invertible:
        assert matrix.why_singular
        assert math.isinf(matrix.condition_number)
        return
    weight = p.sum(axis=1) if outputs > m else np.ones(outputs)
    inverse = np.linalg.inv((p.T / weight) @ p) @ (p.T / weight)
    size = np.abs(inverse).max()
    assert np.allclose(matrix.solve(published), published @ inverse.T, atol=1e-9 * size)
    assert np.allclose(matrix.solve_transposed(values), values @ inverse, atol=1e-9 * size)
    assert np.allclose(matrix.inverse_squared_apply(published), published @ (inverse**2).T, atol=1e-9 * size**2)
    scaled = p if outputs == m else p / np.sqrt(weight)[:, None]
    if isinstance(matrix, GradedMatrix):
        scaled = p / np.sqrt(p.sum(axis=1))[:, None]
    unscaled = isinstance(matrix, DeckMatrix)  # all of whose rows have the same sum
    assert matrix.condition_number == pytest.approx(np.linalg.cond(p if unscaled else scaled), rel=1e-6)


@pytest.mark.parametrize("matrix", [*_cases()[:120], *_cases()[240:300]], ids=lambda matrix: type(matrix).__name__)
def test_words_are_drawn_as_the_integers_say(matrix: Matrix) -> None:
    """Stretches of words that the description gives are drawn alike, and add up to every output's integer."""
    for x in range(matrix.size):
        lengths = _stretches(matrix, x)
        assert sum(lengths) == WORDS
        ends = list(itertools.accumulate(lengths))
        last = np.array([end - 1 for end in ends], dtype=np.uint64)
        first = np.array([0, *ends[:-1]], dtype=np.uint64)
        drawn = [matrix.sample(np.full(len(lengths), x, dtype=np.int32), words) for words in (first, last)]
        assert (drawn[0] == drawn[1]).all()
        counted = dict.fromkeys(range(matrix.outputs), 0)
        for output, length in zip(drawn[0].tolist(), lengths, strict=True):
            counted[output] += length
        assert counted == {y: matrix.weight(y, x) for y in range(matrix.outputs)}


def _stretches(matrix: Matrix, x: int) -> list[int]:
    """Return how many words follow each other for one output."""
    if isinstance(matrix, BlockMatrix):
        own = matrix.classes[x]
        spread = [row[own] for row, size in zip(matrix.weights, matrix.sizes, strict=True) for _ in range(size)]
        return [*(words for words in spread if words), WORDS - sum(spread)]
    if isinstance(matrix, GradedMatrix):
        own, lengths = int(matrix.classes[x]), []
        counts = [_held(matrix.rings, orbit.blocks) for orbit in matrix.orbits]
        for kind in range(2):
            for orbit, count in zip(matrix.orbits, counts, strict=True):
                lengths += [(orbit.inside, orbit.outside)[kind][own]] * count[kind][own]
        return [*lengths, *[1] * (WORDS - sum(lengths))]
    assert isinstance(matrix, DeckMatrix)
    with_it = len(matrix.blocks) * matrix.members
    held, lacking = [matrix.inside] * with_it, [matrix.outside] * (matrix.outputs - with_it)
    return [*held, *lacking, *[1] * (WORDS - sum(held) - sum(lacking))]


def test_a_deck_by_hand() -> None:
    """Seven values, the lines of the Fano plane, factor 2: P = (1 + incidence)/10."""
    deck = DeckMatrix.within(7, np.array([[0, 1, 3]], dtype=np.int32), Fraction(2))
    assert deck.outputs == 7
    assert deck.card(6).tolist() == [0, 2, 6]
    assert deck.holds_truth == pytest.approx(np.full(7, 0.6))
    assert np.allclose(deck.dense() * 10, 1 + (deck.dense() > 0.15))
    assert deck.largest_ratio is not None
    assert Fraction(2) * (1 - Fraction(1, 2**50)) < deck.largest_ratio <= 2
    x = np.full(7, 1 / 7)
    error = (deck.inverse_squared_apply(deck.apply(x)) - x).sum()
    assert error == pytest.approx(42, rel=1e-9)  # MATRICES, section 3; uniform has 54


def test_cards_that_hold_the_same_values_become_one() -> None:
    """{0, 2} of four values is its own shift by two: its cards are there twice."""
    deck = DeckMatrix.within(4, np.array([[0, 1], [0, 2]], dtype=np.int32), Fraction(3))
    one = deck.with_distinct_cards()
    assert [one.card(y).tolist() for y in range(one.outputs)] == [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]]
    columns, joined = _integers(deck), _integers(one)
    for x in range(4):
        for y in range(one.outputs):
            same = [n for n in range(deck.outputs) if deck.card(n).tolist() == one.card(y).tolist()]
            assert joined[x][y] == sum(columns[x][n] for n in same)
    assert one.largest_ratio is not None
    assert one.largest_ratio <= 3
    lines = DeckMatrix.within(7, np.array([[0, 1, 3]], dtype=np.int32), Fraction(3))
    assert lines.with_distinct_cards() is lines


def test_a_graded_deck_by_hand() -> None:
    """FG Example 1: four cards {1.5, 1, 1, 1} and {1.5, 2.25, 2.25, 1} with its rotations, 4/15 and 2/15 each.

    A strict value, alone in its class, and three others on a ring.
    """
    strict = CardOrbit((None, np.zeros((1, 0), dtype=np.int32)), (1, 1), (1, 1))
    pairs = CardOrbit((np.zeros((1, 0), dtype=np.int32), np.array([[0, 1]], dtype=np.int32)), (1, 1), (1, 1))
    entries = [
        (np.array([1.5, 1]) * 4 / 15, np.array([1.5, 1]) * 4 / 15),
        (np.array([1.5, 2.25]) * 2 / 15, np.array([1.5, 1]) * 2 / 15),
    ]
    classes = np.array([0, 1, 1, 1], dtype=np.int32)
    deck = GradedMatrix.from_floats(classes, (1, 3), [strict.blocks, pairs.blocks], entries, 0.0)
    assert [deck.card(y).tolist() for y in range(deck.outputs)] == [[0], [1, 2], [2, 3], [1, 3]]
    assert np.allclose(deck.dense()[:2] * 15, [[6, 4, 4, 4], [3, 4.5, 4.5, 2]])
    assert float(deck.upward(0) or 0) == pytest.approx(1.5)
    assert float(deck.upward(2) or 0) == pytest.approx(2.25)
    x = np.full(4, 1 / 4)
    error = (deck.inverse_squared_apply(deck.apply(x)) - x).sum()
    assert error == pytest.approx(31.8, abs=0.05)  # MATRICES, section 4.3


@pytest.mark.parametrize("seed", range(40))
def test_rings_with_empty_places(seed: int) -> None:
    """Estimates are unbiased and sum to the records, though nothing stands on some places."""
    rng = np.random.default_rng(seed)
    matrix = _random_graded(rng, empty=2)
    assert matrix.card_sizes == (
        min(matrix.card(y).size for y in range(matrix.outputs)),
        max(matrix.card(y).size for y in range(matrix.outputs)),
    )
    p = matrix.dense()
    assert np.allclose(p.sum(axis=0), 1, atol=1e-9)
    held = np.array([[x in matrix.card(y) for x in range(matrix.size)] for y in range(matrix.outputs)])
    published = rng.random((2, matrix.outputs))
    assert np.allclose(matrix.uncorrected(published), published @ (held / held.sum(axis=1, keepdims=True)))
    ratios = [p[:, [i]] / np.delete(p, i, axis=1) for i in range(matrix.size)]
    for i, ratio in enumerate(ratios):
        assert float(matrix.upward(i) or 0) == pytest.approx(ratio.max())
        assert float(matrix.downward(i) or 0) == pytest.approx((1 / ratio).max())
    if matrix.is_invertible:
        inverse = matrix.solve(np.eye(matrix.outputs)).T
        size = np.abs(inverse).max()
        assert np.allclose(inverse @ p, np.eye(matrix.size), atol=1e-9 * size)
        assert np.allclose(inverse.sum(axis=0), 1, atol=1e-9 * size)
        y = rng.random((2, matrix.size))
        assert np.allclose(matrix.solve_transposed(y), y @ inverse, atol=1e-9 * size)
        assert np.allclose(matrix.inverse_squared_apply(published), published @ (inverse**2).T, atol=1e-9 * size**2)


def test_graded_cards_that_hold_the_same_values_become_one() -> None:
    blocks = (np.array([[0], [0]], dtype=np.int32), np.array([[0, 1], [0, 2]], dtype=np.int32))
    entries = [(np.array([0.02, 0.03]), np.array([0.01, 0.015]))]
    held, lacked = _held((2, 4), blocks)
    scale = held * entries[0][0] + lacked * entries[0][1]
    classes = np.array([0, 0, 1, 1, 1, 1], dtype=np.int32)
    deck = GradedMatrix.from_floats(classes, (2, 4), [blocks], [(entries[0][0] / scale, entries[0][1] / scale)], 0.0)
    one = deck.with_distinct_cards()
    cards = [tuple(deck.card(y).tolist()) for y in range(deck.outputs)]
    assert len(set(cards)) == one.outputs < deck.outputs
    columns, joined = _integers(deck), _integers(one)
    for x in range(6):
        for y in range(one.outputs):
            same = [n for n in range(deck.outputs) if cards[n] == tuple(one.card(y).tolist())]
            assert joined[x][y] == sum(columns[x][n] for n in same)


def test_a_graded_deck_is_refused_unless_its_words_add_up() -> None:
    none, one = np.zeros((1, 0), dtype=np.int32), np.array([[0]], dtype=np.int32)
    classes = np.array([0, 1, 1], dtype=np.int32)
    good = CardOrbit((None, one), (WORDS // 2, WORDS // 2), (WORDS // 2, WORDS // 2))
    assert GradedMatrix(classes, (1, 2), (good,)).outputs == 2
    for orbit, problem in (
        (CardOrbit((None, one), (WORDS // 2, WORDS // 2), (WORDS // 2, WORDS // 3)), "do not sum"),
        (CardOrbit((none, none), (WORDS // 2,) * 2, (WORDS // 2,) * 2), "holds a value"),
        (CardOrbit((None, one + 2), (WORDS // 2,) * 2, (WORDS // 2,) * 2), "some places"),
        (CardOrbit((None, one), (WORDS // 2,) * 2, (WORDS // 3, WORDS // 2)), "does not split"),
        (CardOrbit((one,), (1,), (1,)), "for each class"),
    ):
        with pytest.raises(ValueError, match=problem):
            GradedMatrix(classes, (1, 2), (orbit,))
    with pytest.raises(ValueError, match="a place for each value"):
        GradedMatrix(classes, (1, 1), (good,))
    with pytest.raises(ValueError, match="cards"):  # and not for want of memory
        GradedMatrix(classes, (1, 10**12), (good,))
    with pytest.raises(ValueError, match="every class"):
        GradedMatrix(classes, (1, 1, 1), (good,))


def test_a_graded_deck_is_refused_if_some_cards_hold_none_of_a_class() -> None:
    """Its other cards do, and what they tell must be looked at: here a factor of a million."""
    classes = np.array([0, 0, 0, 1, 1], dtype=np.int32)
    one, low, even = np.array([[0]], dtype=np.int32), WORDS // (10**6 + 9), WORDS // 10
    orbit = CardOrbit((one, one), (WORDS - 9 * low, even), (low, even + 1))  # of 10 cards one holds a value, or five
    with pytest.raises(ValueError, match="so many empty places"):
        GradedMatrix(classes, (10, 2), (orbit,))


def test_decks_never_exceed_their_factor() -> None:
    rng = np.random.default_rng(5)
    for _ in range(500):
        m = int(rng.integers(2, 400))
        k = int(rng.integers(1, m // 2 + 1))
        gamma = 1 + Fraction(int(rng.integers(1, 10**6)), int(rng.integers(1, 10**6)))
        blocks = np.array([np.sort(rng.permutation(m)[:k]) for _ in range(int(rng.integers(1, 9)))], dtype=np.int32)
        found = DeckMatrix.within(m, blocks, gamma).largest_ratio
        assert found is not None
        assert gamma * (1 - Fraction(1, 2**40)) < found <= gamma


def test_a_deck_of_equal_weights_still_has_the_units_that_are_left() -> None:
    """2^64 is no multiple of 7 cards: some get a unit more, and a factor of 1 would be broken."""
    deck = DeckMatrix(7, np.array([[0, 1, 3]], dtype=np.int32), 2**64 // 7, 2**64 // 7)
    rows = [[deck.weight(card, x) for x in range(7)] for card in range(7)]
    assert deck.largest_ratio == max(Fraction(max(row), min(row)) for row in rows) > 1


@pytest.mark.parametrize("matrix", _cases()[::12], ids=lambda matrix: type(matrix).__name__)
def test_they_are_written_and_read(matrix: Matrix) -> None:
    again = read_matrix(json.loads(json.dumps(matrix.written())))
    assert again.integers == matrix.integers
    assert _integers(again) == _integers(matrix)
    assert [again.card(y).tolist() for y in range(matrix.outputs)] == [
        matrix.card(y).tolist() for y in range(matrix.outputs)
    ]


def test_ranges_by_hand() -> None:
    """Values 2, 0, 1 in this order, windows of two neighbours, and single values, for gamma = 3.

    A window is cut to the first place, and one to the last: they are the single values there.
    """
    order, left = (2, 0, 1), WORDS // 2
    parts = Parts.within(order, 2, 0.5, np.array([[0]]), Fraction(3))
    window, single = -(-left // 8), -(-left // 5)  # 2 of 4 windows hold a value, 1 of 3 single ones
    assert parts.outside == (window, single)
    assert parts.inside == ((left - 2 * window) // 2, left - 2 * single)
    assert parts.left == 0
    matrix = parts.matrix()
    assert [matrix.card(y).tolist() for y in range(5)] == [[0, 2], [2], [0, 1], [0], [1]]
    assert [matrix.weight(1, x) for x in range(3)] == [sum(parts.outside), sum(parts.outside), sum(parts.inside)]
    assert [matrix.weight(0, x) for x in range(3)] == [parts.inside[0], parts.outside[0], parts.inside[0]]


def test_ranges_never_exceed_their_factor() -> None:
    """Of 200 random ones in fractions, however the factor is rounded: gamma just above 1 too."""
    rng = np.random.default_rng(8)
    for _ in range(200):
        m, gamma = int(rng.integers(2, 12)), 1 + Fraction(int(rng.integers(1, 10**6)), int(rng.integers(1, 10**9)))
        k = int(rng.integers(1, max(2, m // 2)))
        blocks = np.array([np.sort(rng.permutation(m)[:k]) for _ in range(int(rng.integers(0, 4)))]).reshape(-1, k)
        matrix = Parts.within(range(m), int(rng.integers(1, m + 1)), rng.random(), blocks, gamma).matrix()
        columns = _integers(matrix)
        assert all(sum(column) == WORDS for column in columns)
        assert all(max(row) <= gamma * min(row) for row in zip(*columns, strict=True))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"order": [0, 1, 1]}, "in an order of all"),
        ({"width": 4}, "windows are of 1 to so many"),
        ({"width": 0}, "windows are of 1 to so many"),
        ({"blocks": [[0], [1, 2]]}, "blocks of equally many places"),
        ({"blocks": [[0, 3]]}, "blocks of equally many places"),
        ({"blocks": [[0, 0]]}, "blocks of equally many places"),
        ({"blocks": [[0, 1, 2]]}, "blocks of equally many places"),
        ({"blocks": [[0]] * 500_000}, "at most 4,000,000 entries"),
        ({"inside": ["1", "1"]}, "do not sum to 2\\^64"),
        ({"outside": [str(2**63), "0"]}, "do not sum to 2\\^64"),
    ],
)
def test_what_are_no_windows(change: dict[str, Any], words: str) -> None:
    written = Parts.within((2, 0, 1), 2, 0.5, np.array([[0]]), Fraction(3)).matrix().written()["windows"]
    with pytest.raises(ValueError, match=words):
        read_matrix({"windows": written | change})


def test_a_product_of_cards_and_values() -> None:
    rng = np.random.default_rng(8)
    deck, uniform = _random_deck(rng), PerturbationMatrix.from_retention([0.3] * 3)
    product = ProductMatrix((deck, uniform))
    p = np.kron(deck.dense(), uniform.dense())
    x, y = rng.random((2, product.size)), rng.random((2, product.outputs))
    assert np.allclose(product.apply(x), x @ p.T)
    assert np.allclose(product.apply_transposed(y), y @ p)
    assert np.allclose(product.solve(product.apply(x)), x)
    assert np.allclose(product.solve_transposed(x) @ p, x)
    assert np.allclose(product.least_chance, p.min(axis=1))


def test_a_large_deck_and_many_classes_are_quick_to_ask() -> None:
    """Fifteen thousand values: nothing of m x m is ever made."""
    m = 15_000
    rng = np.random.default_rng(2)
    deck = DeckMatrix.within(m, np.array([np.sort(rng.permutation(m)[:3000])], dtype=np.int32), Fraction(4))
    block = BlockMatrix.from_floats((np.arange(m) % 3).astype(np.int32), np.full((3, 3), 0.5 / m), 0.0)
    for matrix in (deck, block):
        x = rng.random(m)
        assert np.allclose(matrix.solve(matrix.apply(x)), x)
        assert matrix.upward(7) is not None
        assert math.isfinite(matrix.condition_number)
