"""Generalization against slow oracles that share no code with it: rows of labels, exact integers, every node."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.generalization import (
    TOLERANCE,
    Generalization,
    Hierarchy,
    Node,
    Rollups,
    class_shares,
    distance,
    generalize,
    is_diverse,
    least_entropy,
    minimal_nodes,
    read_hierarchy,
    roll_up,
    spread,
)
from sfumato.values.arrays import FloatArray
from tests.conftest import slow

# --- a worked example -------------------------------------------------------------------------------------------------

AGE = Hierarchy("age", (("21", "25", "32", "39"), ("20s", "20s", "30s", "30s"), ("*",) * 4))
SEX = Hierarchy("sex", (("F", "M"), ("*", "*")))
CLINIC = np.array(
    [  # flu, HIV
        [[2, 0], [0, 0]],  # 21: F, M
        [[0, 1], [1, 1]],  # 25
        [[1, 1], [1, 0]],  # 32
        [[0, 0], [0, 1]],  # 39
    ]
)


def test_a_table_of_nine_patients_by_hand() -> None:
    """In tens, (flu, HIV) is (2, 1) for F in their 20s and (1, 1) for the other three classes: l = exp(.637) = 1.89.

    With the ages as they are, those of 21 have flu only, whatever happens to sex. Tens alone are (3, 2) and (2, 2), sex
    alone too: l = exp(.673) = 1.96. The whole table is (5, 4): l = 1.988.
    """
    two_one = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    three_two = -(0.6 * math.log(0.6) + 0.4 * math.log(0.4))
    assert least_entropy(roll_up(CLINIC, [AGE, SEX], (1, 0))) == pytest.approx(two_one, abs=1e-15)
    assert least_entropy(roll_up(CLINIC, [AGE, SEX], (2, 0))) == pytest.approx(three_two, abs=1e-15)
    assert minimal_nodes(CLINIC, [AGE, SEX], 1.8) == ((1, 0),)
    assert minimal_nodes(CLINIC, [AGE, SEX], 1.9) == ((1, 1), (2, 0))
    assert minimal_nodes(CLINIC, [AGE, SEX], 1.97) == ((2, 1),)
    found = generalize(CLINIC, [AGE, SEX], 1.8)
    assert found.node == (1, 0)
    assert found.table.tolist() == [[[2, 1], [1, 1]], [[1, 1], [1, 1]]]
    assert found.estimate()[:, 0].tolist() == [[1, 0.5], [1, 0.5], [0.5, 0.5], [0.5, 0.5]]
    assert class_shares(found.table).max() == pytest.approx(2 / 3)  # above 1/1.8: the entropy does not bound it


# --- random tables ----------------------------------------------------------------------------------------------------

Case = tuple[FloatArray, list[Hierarchy]]


def random_hierarchy(rng: np.random.Generator, name: str, size: int, heights: int = 3) -> Hierarchy:
    """Return groups merged at random; a level may be like the one below it. One value needs no level above its own."""
    codes = np.arange(size)
    levels = [codes]
    for _ in range(rng.integers(heights)):
        groups = int(codes.max()) + 1
        codes = rng.integers(rng.integers(1, groups + 1), size=groups)[codes]
        codes = np.unique(codes, return_inverse=True)[1]
        levels.append(codes)
    if codes.max() > 0:
        levels.append(np.zeros(size, dtype=int))
    return Hierarchy(name, tuple(tuple(f"{h}.{c}" for c in level) for h, level in enumerate(levels)))


def cases(seed: int, number: int) -> Iterator[Case]:
    """Small tables with many ties and empty cells, larger ones, skewed ones."""
    rng = np.random.default_rng(seed)
    while number:
        shape = rng.integers(1, 5, size=rng.choice([1, 2, 2, 3, 3]))
        sensitive = int(rng.integers(2, 5))
        kind = rng.integers(4)
        size = (*shape, sensitive)
        if kind == 0:
            table = rng.integers(0, 3, size)
        elif kind == 1:
            table = rng.integers(1, 3, size)
        elif kind == 2:
            table = rng.integers(0, 30, size)
        else:
            table = np.floor(rng.pareto(1.0, size)).clip(0, 60)
        if table.sum():
            number -= 1
            hierarchies = [random_hierarchy(rng, f"q{i}", int(n)) for i, n in enumerate(shape)]
            yield table.astype(np.float64), hierarchies


def lattice(hierarchies: Sequence[Hierarchy]) -> list[Node]:
    return list(product(*(range(h.top + 1) for h in hierarchies)))


def finer(one: Node, other: Node) -> bool:
    """Whether one is finer than the other and not the same."""
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


# --- oracles ----------------------------------------------------------------------------------------------------------


def classes_by_labels(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node) -> dict[Any, Counter[int]]:
    """Count records by the labels that they are published with."""
    classes: dict[Any, Counter[int]] = defaultdict(Counter)
    for *where, s in np.argwhere(table):
        labels = tuple(h.levels[level][i] for h, level, i in zip(hierarchies, node, where, strict=True))
        classes[labels][int(s)] += int(table[(*where, s)])
    return classes


def exactly_diverse(classes: dict[Any, Counter[int]], l: Fraction) -> bool:
    """Whether the entropy of every class is at least ln l, in integers: N^N >= l^N prod n^n."""
    for counts in classes.values():
        n = counts.total()
        product_ = math.prod(k**k for k in counts.values())
        if (n * l.denominator) ** n < l.numerator**n * product_:
            return False
    return True


def minimal_by_brute_force(table: FloatArray, hierarchies: Sequence[Hierarchy], l: Fraction) -> set[Node]:
    nodes = lattice(hierarchies)
    diverse = {node for node in nodes if exactly_diverse(classes_by_labels(table, hierarchies, node), l)}
    return {node for node in diverse if not any(finer(other, node) for other in diverse)}


# --- the search -------------------------------------------------------------------------------------------------------

ASKED = [Fraction(x) for x in ("1", "5/4", "3/2", "7/4", "2", "5/2", "3")]


@pytest.mark.parametrize("seed", [0, slow(1), slow(2), slow(3)])
def test_the_search_finds_what_brute_force_finds(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    infeasible = several = 0
    for table, hierarchies in cases(seed, 1000):
        asked = ASKED[rng.integers(len(ASKED))]
        expected = minimal_by_brute_force(table, hierarchies, asked)
        if not expected:
            infeasible += 1
            with pytest.raises(Infeasible, match="Ask for l <= "):
                minimal_nodes(table, hierarchies, float(asked))
            continue
        found = minimal_nodes(table, hierarchies, float(asked))
        assert set(found) == expected
        assert len(found) == len(expected)
        several += len(expected) > 1
    assert infeasible > 100
    assert several > 100


# --- monotonicity -----------------------------------------------------------------------------------------------------


def scores(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node) -> tuple[float, ...]:
    """Return diversity, minus the largest share, distance and discernibility: none falls by going up."""
    rolled = roll_up(table, hierarchies, node)
    sizes = [counts.total() for counts in classes_by_labels(table, hierarchies, node).values()]
    return (
        math.exp(least_entropy(rolled)),
        -class_shares(rolled).max(),
        distance(table, Generalization(tuple(hierarchies), node, rolled)),
        sum(size**2 for size in sizes),
    )


def test_nothing_falls_by_going_up() -> None:
    for table, hierarchies in cases(11, 1000):
        of = {node: np.array(scores(table, hierarchies, node)) for node in lattice(hierarchies)}
        for node, below in of.items():
            for axis, h in enumerate(hierarchies):
                if node[axis] < h.top:
                    above = of[(*node[:axis], node[axis] + 1, *node[axis + 1 :])]
                    assert (above >= below - 1e-12 * np.abs(below)).all()


def test_the_choice_is_the_best_of_all_diverse_nodes() -> None:
    for table, hierarchies in cases(12, 300):
        of = {node: scores(table, hierarchies, node) for node in lattice(hierarchies)}
        asked = 1 + 0.8 * (max(score[0] for score in of.values()) - 1)
        for score, which in ((distance, 2), (discernibility, 3)):
            found = generalize(table, hierarchies, asked, score)
            best = min(score[which] for score in of.values() if score[0] >= asked)
            assert of[found.node][which] == pytest.approx(best, rel=1e-12, abs=1e-15)
            assert found.node in minimal_nodes(table, hierarchies, asked)
            assert of[found.node][0] >= asked - 1e-9


def discernibility(table: FloatArray, found: Generalization) -> float:
    """Another score than the distance: the sum of the squared sizes of the classes."""
    return float((found.table.sum(axis=-1) ** 2).sum())


def test_equal_scores_go_to_the_lower_levels_first() -> None:
    """Both attributes alike: (0, 1) and (1, 0) have the same distance and classes."""
    one = Hierarchy("one", (("a", "b"), ("*", "*")))
    table = np.array([[[3, 0], [1, 2]], [[1, 2], [2, 1]]])
    assert minimal_nodes(table, [one, one], 1.8) == ((0, 1), (1, 0))
    for score in (distance, discernibility):
        assert generalize(table, [one, one], 1.8, score).node == (0, 1)


# --- ties and tolerance -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("values", [2, 3, 5, 7, 11, 14, 50, 997])
def test_an_exact_tie_is_diverse(values: int) -> None:
    for records in (1, 3, 7, 1000):
        even = np.full((1, values), float(records))
        assert is_diverse(even, values)
        one_more = even.copy()
        one_more[0, 0] += max(1, records // 10)
        assert not is_diverse(one_more, values)


def test_ties_that_are_not_uniform() -> None:
    """Shares 1/2, 1/4, 1/4 have the entropy 3/2 ln 2 exactly."""
    assert is_diverse(np.array([[2.0, 1.0, 1.0]]) * 12_345, 2**1.5)
    assert not is_diverse(np.array([[2.0, 1.0, 1.0]]) * 12_345, 2**1.5 * (1 + 1e-8))


def test_the_tolerance_is_as_stated() -> None:
    """500,001 against 500,000 records fall 5e-13 nats short of ln 2: within the tolerance; 50,100 to 50,000 do not."""
    nearly = np.array([[500_001.0, 500_000.0]])
    assert 0 < math.log(2) - least_entropy(nearly) < TOLERANCE
    assert is_diverse(nearly, 2)
    assert not is_diverse(np.array([[50_100.0, 50_000.0]]), 2)


def test_classes_without_records_do_not_count() -> None:
    assert least_entropy(np.array([[0.0, 0.0], [4.0, 4.0]])) == pytest.approx(math.log(2))


# --- roll-ups and estimates -------------------------------------------------------------------------------------------


def test_roll_ups_are_the_counts_by_labels() -> None:
    rng = np.random.default_rng(5)
    for table, hierarchies in cases(13, 200):
        tables, nodes = Rollups(table, hierarchies), lattice(hierarchies)
        rng.shuffle(nodes)
        for node in map(tuple, nodes):
            classes = classes_by_labels(table, hierarchies, node)
            expected = np.zeros(
                [*(h.sizes[level] for h, level in zip(hierarchies, node, strict=True)), table.shape[-1]]
            )
            for labels, counts in classes.items():
                where = (h.labels(v).index(x) for h, v, x in zip(hierarchies, node, labels, strict=True))
                expected[tuple(where)] = [counts[s] for s in range(table.shape[-1])]
            assert (tables[node] == expected).all()
            assert (roll_up(table, hierarchies, node) == expected).all()


def spread_by_loops(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node) -> FloatArray:
    """Average the cells of the same labels, for each sensitive value."""
    cells: dict[Any, list[tuple[int, ...]]] = defaultdict(list)
    for where in np.ndindex(table.shape[:-1]):
        cells[tuple(h.levels[v][i] for h, v, i in zip(hierarchies, node, where, strict=True))].append(where)
    estimate = np.zeros_like(table)
    for members in cells.values():
        for where in members:
            estimate[where] = sum(table[other] for other in members) / len(members)
    return estimate


def test_spreading_is_the_mean_over_the_class() -> None:
    for table, hierarchies in cases(14, 150):
        for node in lattice(hierarchies):
            rolled = roll_up(table, hierarchies, node)
            estimate = spread(rolled, hierarchies, node)
            assert estimate == pytest.approx(spread_by_loops(table, hierarchies, node), rel=1e-12, abs=1e-12)
            assert roll_up(estimate, hierarchies, node) == pytest.approx(rolled, rel=1e-12, abs=1e-12)
            assert ((table - estimate) * estimate).sum() == pytest.approx(
                0, abs=1e-9 * (table**2).sum()
            )  # a projection


def test_distance_by_hand() -> None:
    whole = Hierarchy("q", (("a", "b"), ("*", "*")))
    table = np.array([[3.0, 0.0], [1.0, 0.0]])
    assert distance(table, Generalization((whole,), (1,), np.array([[4.0, 0.0]]))) == pytest.approx(math.sqrt(2) / 4)


# --- what is refused --------------------------------------------------------------------------------------------------


def test_infeasible_says_the_entropy_and_the_largest_l() -> None:
    with pytest.raises(Infeasible) as raised:
        minimal_nodes(CLINIC, [AGE, SEX], 2)
    entropy = -(5 / 9 * math.log(5 / 9) + 4 / 9 * math.log(4 / 9))
    assert f"an entropy of {entropy:.4f} nats, below ln l = 0.6931" in raised.value.message
    assert raised.value.hint == "Ask for l <= 1.9876."
    assert minimal_nodes(CLINIC, [AGE, SEX], 1.9876) == ((2, 1),)
    for values in (2, 3, 7, 14):  # as many as can be, not a rounding error less
        with pytest.raises(Infeasible, match=f"Ask for l <= {values}\\.$"):
            minimal_nodes(np.ones((2, values)), [SEX], values + 1)
    with pytest.raises(Infeasible, match=r"an entropy of 0\.0000 nats"):
        minimal_nodes(np.ones((2, 1)), [SEX], 2)


@pytest.mark.parametrize("l", [0, 0.99, -1, math.inf, math.nan])
def test_an_l_that_is_none(l: float) -> None:
    with pytest.raises(PolicyError, match="at least 1"):
        minimal_nodes(CLINIC, [AGE, SEX], l)


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        ((), "a name for each value"),
        (((),), "a name for each value"),
        ((("a", "b"), ("*",)), "a name for each value"),
        ((("a", "a"), ("*", "*")), "lists a value twice"),
        ((("a", "b"), ("x", "y")), "ends in 2 values"),
        ((("a", "b", "c"), ("x", "x", "y"), ("1", "2", "2"), ("*",) * 3), "puts 'x' both in '1' and in '2'"),
    ],
)
def test_hierarchies_that_are_none(levels: tuple[tuple[str, ...], ...], message: str) -> None:
    with pytest.raises(PolicyError, match=message):
        Hierarchy("q", levels)


def test_a_file_is_read_in_the_order_of_the_axis(tmp_path: Path) -> None:
    file = tmp_path / "school.csv"
    file.write_text("BA;university;*\nunused;nothing;*\n\n10th;school;*\nMA;university;*", encoding="utf-8")
    school = read_hierarchy(file, "school", ["10th", "MA", "BA"])
    assert school.levels == (("10th", "MA", "BA"), ("school", "university", "university"), ("*", "*", "*"))
    assert school.labels(1) == ("school", "university")
    with pytest.raises(PolicyError, match="does not say what 'PhD' of 'school' becomes"):
        read_hierarchy(file, "school", ["BA", "PhD"])


def test_a_spreadsheet_s_byte_order_mark_is_no_part_of_the_first_value(tmp_path: Path) -> None:
    file = tmp_path / "school.csv"
    file.write_text("10th;school;*\nBA;university;*\n", encoding="utf-8-sig")
    assert read_hierarchy(file, "school", ["10th", "BA"]).labels(1) == ("school", "university")


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text("a,x,*\nb,*\n", encoding="utf-8")
    with pytest.raises(PolicyError, match="differ in their number of levels"):
        read_hierarchy(file, "q", ["a", "b"], separator=",")
    file.write_text("a;*\na;*\n", encoding="utf-8")
    with pytest.raises(PolicyError, match=r"q\.csv lists a value twice"):
        read_hierarchy(file, "q", ["a"])
