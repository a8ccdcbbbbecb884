"""Counts by place, by group and by neighbours: bounds that hold for all orders, and the power of the tests."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np
import pyarrow as pa
import pytest

from sfumato.auditor.attackers.dealing import Deal, block_tallies, pair_tallies
from sfumato.auditor.attackers.draws import Drawn, neighbours, transitions_by
from sfumato.release.verify.order import (
    LEVEL,
    Classes,
    classes_of,
    group_order_tallies,
    order_tallies,
    same_place,
)
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.chance import Tallies, joined, log_urn_tail
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import NO_BOUND, Mechanism


def never_too_small(worlds: Iterable[tuple[Tallies, float]]) -> int:
    """Hold every bound against the exact law of its count, over all worlds with their weights; return the counts."""
    laws: dict[str, Counter[float]] = {}
    bounds: dict[tuple[str, float], float] = {}
    for number, (tallies, weight) in enumerate(worlds):
        tails = tallies.log_tails
        for k in range(tallies.hits.size):
            name = f"{tallies.told(k)} of {tallies.records[k]} at {tallies.chance[k]:.6f}"
            laws.setdefault(name, Counter())[float(tallies.hits[k])] += weight
            bounds[name, float(tallies.hits[k])] = float(tails[k])
        assert number or tallies.tests >= tallies.hits.size
    for (name, hits), bound in bounds.items():
        exact = sum(weight for count, weight in laws[name].items() if count >= hits)
        whole = sum(laws[name].values())  # a count with other margins is another count: it is one of fewer worlds
        assert exact / whole <= math.exp(bound) * (1 + 1e-9), (name, hits)
    return len(laws)


def test_the_tail_of_an_urn_is_never_too_small_and_near() -> None:
    for population in range(2, 9):
        for drawn, marked in itertools.product(range(1, population), repeat=2):
            for hits in range(max(0, drawn + marked - population), min(drawn, marked) + 1):
                ways = [
                    math.comb(marked, k) * math.comb(population - marked, drawn - k)
                    for k in range(hits, min(drawn, marked) + 1)
                ]
                exact = sum(ways) / math.comb(population, drawn)
                bound = math.exp(log_urn_tail(*(np.array([float(x)]) for x in (hits, drawn, marked, population)))[0])
                assert exact <= bound * (1 + 1e-9)
                if hits * population > drawn * marked:
                    assert bound <= 2 * exact


def test_blocks_neighbours_and_places_by_all_orders() -> None:
    column, table = [0, 0, 0, 1, 1, 2], [0, 1, 0, 2, 0, 1]

    def worlds() -> Iterable[tuple[Tallies, float]]:
        for order in itertools.permutations(range(6)):
            rows = Classes(np.array(column)[list(order)], "abc")
            yield joined([order_tallies([rows]), same_place(rows, Classes(np.array(table), "abc"))]), 1.0

    assert never_too_small(worlds()) >= 6


def test_halves_of_groups_by_all_orders() -> None:
    groups, column = np.array([0, 0, 0, 1, 1, 1, 1]), np.array([0, 1, 1, 0, 0, 1, 1])

    def worlds() -> Iterable[tuple[Tallies, float]]:
        for one, two in itertools.product(itertools.permutations(range(3)), itertools.permutations(range(3, 7))):
            yield group_order_tallies([Classes(column[[*one, *two]], "ab")], groups), 1.0

    assert never_too_small(worlds()) == 4


def test_deals_by_all_ways_to_give_records_to_places() -> None:
    """Two values; the first has a place in each of four groups and a record that is withheld."""
    value_of_place, groups = np.array([0, 0, 0, 0, 1, 1]), np.array([0, 1, 2, 3, 0, 2])
    kinds, column = np.array([0, 0, 0, 0, 0, 1, 1]), np.array([0, 0, 1, 1, 0, 0, 1])

    def worlds() -> Iterable[tuple[Tallies, float]]:
        for first, second in itertools.product(itertools.permutations(range(5)), itertools.permutations([5, 6])):
            record = np.array([*first[:4], *second])
            deal = Deal(kinds, value_of_place, groups, np.ones(6, dtype=np.int64), groups, 4, ordered=True)
            rows = Classes(column[record], "ab")
            pairs = pair_tallies(deal, value_of_place, [rows])
            yield joined([block_tallies(deal, [(Classes(column, "ab"), rows)]), pairs]), 1.0

    assert never_too_small(worlds()) > 8


def mechanism(matrix: PerturbationMatrix) -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple(f"v{k}" for k in range(matrix.size))),))
    return Mechanism.single(domain, matrix, (NO_BOUND,) * matrix.size)


def test_neighbours_and_columns_by_all_draws() -> None:
    own, true = (
        mechanism(PerturbationMatrix(np.full(3, WORDS // 5, dtype=np.uint64))),
        np.array([0, 0, 1, 2], dtype=np.int32),
    )
    sex = Classes(np.array([0, 1, 0, 1]), ["F", "M"])
    law = own.matrix.retention[0] * np.eye(3) + own.matrix.off_diagonal[0]
    labels, places = np.zeros(4, dtype=np.int32), np.arange(4)

    def worlds() -> Iterable[tuple[Tallies, float]]:
        for shown in itertools.product(range(3), repeat=4):
            drawn = Drawn(true, np.array(shown, dtype=np.int32), labels, places)
            weight = float(np.prod(law[shown, true]))
            yield neighbours(own, drawn, 4), weight

    assert never_too_small(worlds()) > 6
    drawn = Drawn(true, true, labels, places)
    assert transitions_by(own, drawn, [sex]).told(0).startswith("F: ")


# --- how often, and what is found -------------------------------------------------------------------------------------


def alarms(make: Callable[[np.random.Generator], Tallies], seeds: int, level: float = LEVEL) -> float:
    """Return the share of seeds with an alarm."""
    found = [make(np.random.default_rng(seed)) for seed in range(seeds)]
    return float(np.mean([tallies.log_tails.min() < tallies.log_level(level) for tallies in found]))


def columns(rng: np.random.Generator, n: int) -> list[np.ndarray]:
    return [rng.integers(20, 80, n), rng.choice(list("abcdef"), n), rng.permutation(n)]


def in_order(of: Sequence[np.ndarray]) -> Tallies:
    return order_tallies([each for k, column in enumerate(of) for each in classes_of(f"c{k}", pa.array(column))])


def test_random_orders_give_alarms_no_more_often_than_the_level() -> None:
    assert alarms(lambda rng: in_order(columns(rng, 300)), 300, level=0.1) <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / 300)
    assert alarms(lambda rng: in_order(columns(rng, 1000)), 100) == 0


@pytest.mark.parametrize(("rows", "retention", "power"), [(300, 0.5, 0.95), (1000, 0.3, 0.95), (3000, 0.2, 0.95)])
def test_rows_sorted_by_the_true_value_are_found(rows: int, retention: float, power: float) -> None:
    """Six values; the published column alone, drawn with this retention, beside one that tells nothing."""

    def sorted_rows(rng: np.random.Generator) -> Tallies:
        true = np.sort(rng.integers(0, 6, rows))
        shown = np.where(rng.random(rows) < retention, true, rng.integers(0, 6, rows))
        return in_order([shown, rng.integers(0, 2, rows)])

    assert alarms(sorted_rows, 40) >= power


def test_a_missing_value_and_booleans_are_classes() -> None:
    (found,) = classes_of("c", pa.array([True, None, False, True]))
    assert [*found.names] == ["c 'True'", "c 'False'", "c '(missing)'"]
    assert found.codes.tolist() == [0, 2, 1, 0]


def test_many_values_are_ranges_in_their_order() -> None:
    frequent, ranges = classes_of("age", pa.array([*range(40), 7]), ranges=2)
    assert ranges.names == ["age from '0' to '19'", "age from '20' to '39'"]
    assert frequent.names[0] == "age '7'"
    assert len(frequent.names) == 16
