"""The false-alarm rate of the row-order test, over 2,500 tables whose rows are in random order.

Each bound has a false-alarm rate of 1e-6: a rate of at most `level` exceeds it with that probability. (The
seeds are fixed, so a failure means that the code has changed.) What the bounds can see is tested too: a test
that forgets to correct for its two parts breaks them, and so does a null distribution that is too narrow.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom

from sfumato.values import row_order
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.row_order import OrderTest, OrderWatch
from tests.constants import constant, set_constants

TABLES = 2_500
ALARM = 1e-6


def most(level: float, tables: int = TABLES) -> int:
    """Return the bound: Pr[Binomial(tables, level) > bound] <= ALARM."""
    return int(binom.isf(ALARM, tables, level))


def watched(rng: np.random.Generator) -> OrderWatch:
    """Return the watch over a table in random order: few or more rows, few or more values, even or skewed."""
    rows, m = int(rng.integers(100, 500)), int(rng.integers(2, 5))
    codes = np.minimum(rng.geometric(rng.uniform(0.2, 0.6), rows) - 1, m - 1)
    watch = OrderWatch(m)
    watch.add(rng.permutation(codes).astype(np.int32))
    return watch


@pytest.fixture(scope="module")
def results() -> list[OrderTest]:
    rng = np.random.default_rng(20_250_101)
    return [watched(rng).test() for _ in range(TABLES)]


def test_false_alarms_are_at_most_the_level(results: list[OrderTest]) -> None:
    assert sum(result.dependent for result in results) <= most(constant("sfumato.values", "LEVEL"))


@pytest.mark.parametrize("level", [0.05, 0.2])
def test_false_alarms_reach_the_level_and_no_more(
    results: list[OrderTest], level: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At larger levels the rate shows: near 1 - (1 - level/2)^2, and too large if Bonferroni is forgotten."""
    set_constants(monkeypatch, "sfumato.values", LEVEL=level)
    again = [OrderTest.combined(result.block_p, result.neighbour_p) for result in results]
    alarms = sum(result.dependent for result in again)
    assert 0.6 * level * TABLES <= alarms <= most(level)
    forgotten = sum(min(result.block_p, result.neighbour_p) <= level for result in results)
    assert forgotten > most(level)


@pytest.mark.parametrize("part", [lambda r: r.block_p, lambda r: r.neighbour_p], ids=["blocks", "neighbours"])
@pytest.mark.parametrize("level", [0.005, 0.02, 0.1, 0.25, 0.5])
def test_each_p_value_is_valid_and_not_vacuous(
    results: list[OrderTest], part: Callable[[OrderTest], float], level: float
) -> None:
    alarms = sum(part(result) <= level for result in results)
    assert 0.4 * level * TABLES <= alarms <= most(level)


def test_a_null_distribution_ten_percent_too_narrow_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Power of this file: the true null passes above; draws with 10% smaller deviations fail."""
    tables = 300
    right = row_order.random_tables

    def narrowed(classes: IntArray, blocks: IntArray, count: int, rng: np.random.Generator) -> FloatArray:
        expected = np.outer(classes, blocks) / classes.sum()
        return np.asarray(expected + 0.9 * (right(classes, blocks, count, rng) - expected))

    monkeypatch.setattr(row_order, "random_tables", narrowed)
    rng = np.random.default_rng(7)
    p_values = [row_order.block_test(watched(rng).table(), rng) for _ in range(tables)]
    assert sum(p <= 0.25 for p in p_values) > most(0.25, tables)
