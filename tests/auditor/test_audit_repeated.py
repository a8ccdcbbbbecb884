"""Two releases by groups, and two randomized rows: against all worlds, in fractions."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from sfumato.auditor.attackers.averaging import pairs, two_groups, two_rows
from sfumato.auditor.attackers.linking import row_risk
from sfumato.auditor.grouped import GroupTables
from sfumato.methods.response.joint import Channel, JointTable
from tests.constants import set_constants

# --- groups -----------------------------------------------------------------------------------------------------------


def slow_beliefs(values: list[int], deals: list[list[list[int]]], groups: list[int]) -> dict[int, Fraction]:
    """What one believes of person 0 who finds it in a group of each release, over all worlds.

    values: of the table; deals: of each release the values of each group. A world gives the values to the people in any
    way, and the places of each release with a value to the people who have it in any way.
    """
    weights: dict[int, int] = Counter()
    for world in itertools.permutations(values):
        chances = 1
        for groups_of, wanted in zip(deals, groups, strict=True):
            places = [(g, value) for g, held in enumerate(groups_of) for value in held]
            ways = itertools.permutations(range(len(places)))
            fits = (way for way in ways if all(places[place][1] == x for place, x in zip(way, world, strict=True)))
            chances *= sum(places[way[0]][0] == wanted for way in fits)
        weights[world[0]] += chances
    return {x: Fraction(weight, sum(weights.values())) for x, weight in weights.items() if weight}


@pytest.mark.parametrize(
    ("values", "first", "second"),
    [
        ([0, 0, 1, 1, 2], [[0, 1], [0, 1, 2]], [[0, 1, 2], [0, 1]]),
        ([0, 0, 0, 1, 2], [[0, 1], [0, 0, 2]], [[0, 2], [0, 0, 1]]),
        ([0, 1, 2, 3], [[0, 1], [2, 3]], [[0, 2], [1, 3]]),
    ],
)
def test_beliefs_are_those_over_all_worlds(values: list[int], first: list[list[int]], second: list[list[int]]) -> None:
    counts = np.bincount(values)[None]
    tables = [
        GroupTables.of(np.repeat(np.arange(len(groups)), [len(g) for g in groups]), np.concatenate(groups))
        for groups in (first, second)
    ]
    for a, b in itertools.product(range(len(first)), range(len(second))):
        common = set(first[a]) & set(second[b])
        for x in common:
            found = two_groups(
                (tables[0], tables[1]),
                (np.array([a]), np.array([b])),
                np.array([x]),
                counts,
                np.zeros(1, dtype=np.int64),
            )
            slow = slow_beliefs(values, [first, second], [a, b])
            assert found.true[0] == pytest.approx(float(slow[x]), abs=1e-15)
            assert found.largest[0] == pytest.approx(float(max(slow.values())), abs=1e-15)
            assert slow[int(found.likeliest[0])] == max(slow.values())
            assert found.possible[0] == len(common) == len(slow)
            assert found.once[0] == first[a].count(x) / len(first[a])


def test_cells_are_counted_apart() -> None:
    """Both are in groups with x and y twice; in the first cell x has two records and y six, in the second four each."""
    tables = GroupTables.of(np.array([0, 0, 0, 0]), np.array([0, 0, 1, 1]))
    counts, both = np.array([[2, 6], [4, 4]]), (np.zeros(2, np.int64), np.zeros(2, np.int64))
    found = two_groups((tables, tables), both, np.array([0, 0]), counts, np.array([0, 1]))
    assert found.true.tolist() == pytest.approx([3 / 4, 1 / 2])


# --- randomized rows --------------------------------------------------------------------------------------------------

TABLE = JointTable.from_array([[[5, 1], [2, 2], [0, 3]], [[4, 4], [1, 6], [2, 7]]])
CHANNELS = (Channel.from_diagonal(2, 0.75), Channel.from_diagonal(3, 0.5), Channel.from_diagonal(2, 0.875))


def exact_matrix(channel: Channel) -> list[list[Fraction]]:
    """P[y][x], from the integers."""
    if channel.off_diagonal == 0:
        return [[Fraction(int(x == y)) for x in range(channel.size)] for y in range(channel.size)]
    noise, own = Fraction(int(channel.matrix.noise[0]), 2**64), Fraction(channel.matrix.diagonal_weight(0), 2**64)
    return [[own if x == y else noise for x in range(channel.size)] for y in range(channel.size)]


def slow_two_rows(channels: tuple[Channel, ...], whole: bool, limit: Fraction) -> tuple[Fraction, Fraction, Fraction]:
    """Worst, mean and share above over all pairs of published rows, from the integers that are sampled."""
    matrices = [exact_matrix(channel) for channel in channels]
    seen = len(channels) if whole else len(channels) - 1
    cells = list(itertools.product(*(range(c.size) for c in channels)))
    published = list(itertools.product(*(range(c.size) for c in channels[:seen])))
    worst = mean = above = Fraction(0)
    for b, c in itertools.product(published, repeat=2):
        beliefs: dict[int, Fraction] = Counter()
        for cell in cells:
            chance = math.prod((matrices[k][b[k]][cell[k]] * matrices[k][c[k]][cell[k]] for k in range(seen)), start=1)
            beliefs[cell[-1]] += chance * Fraction(int(TABLE.array[cell]), TABLE.records)
        total = sum(beliefs.values())
        for weight in beliefs.values() if total else ():
            worst, mean = max(worst, weight / total), mean + weight * weight / total
            above += weight if weight / total > limit else 0
    return worst, mean, above


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("untouched", [(), (0,), (2,), (0, 1)])
def test_two_rows_are_those_over_all_that_can_be_published(whole: bool, untouched: tuple[int, ...]) -> None:
    channels = tuple(Channel(c.size, 1.0, 0.0) if k in untouched else c for k, c in enumerate(CHANNELS))
    found = two_rows(TABLE, channels, 0.6, whole)
    slow = slow_two_rows(channels, whole, Fraction(6, 10))
    assert (found.worst, found.mean, found.above) == pytest.approx(tuple(map(float, slow)), abs=1e-12)
    assert found.interval is None


def test_pairs_of_a_column_are_a_distribution() -> None:
    for channel in CHANNELS:
        assert pairs(channel).shape == (channel.size * (channel.size + 1) // 2, channel.size)
        assert pairs(channel).sum(axis=0) == pytest.approx(np.ones(channel.size))


def test_one_row_is_the_risk_of_one_release() -> None:
    once, known = two_rows(TABLE, CHANNELS, 0.6, True, releases=1), row_risk(TABLE, CHANNELS, 0.6)
    assert (once.worst, once.mean, once.above) == pytest.approx((known.worst, known.mean, known.above))
    assert two_rows(TABLE, CHANNELS, 0.6, True).mean > once.mean


@pytest.mark.parametrize("whole", [False, True])
def test_a_simulation_agrees(whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    exact = two_rows(TABLE, CHANNELS, 0.6, whole)
    set_constants(monkeypatch, "sfumato.auditor", MOST_ENUMERATED=1)
    drawn = two_rows(TABLE, CHANNELS, 0.6, whole, seed=3)
    assert drawn.interval is not None
    assert drawn.interval[0] < exact.mean < drawn.interval[1]
    assert drawn.interval[1] - drawn.interval[0] < 0.03
    assert drawn.worst <= exact.worst + 1e-12
    assert drawn.above == pytest.approx(exact.above, abs=0.05)
