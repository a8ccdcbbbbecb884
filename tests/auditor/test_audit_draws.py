"""Draws with the published matrix pass, others do not: bounds against exact probabilities, then many seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.draws import (
    LEVEL,
    Margin,
    coincidence_finding,
    draws_finding,
    margins,
    transitions,
)
from sfumato.auditor.beliefs import observed_cases
from sfumato.auditor.finding import Finding
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.chance import allowed, log_tail
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import LABEL, NO_BOUND, Mechanism, SubTable

Codes = np.ndarray


# --- bounds are bounds ------------------------------------------------------------------------------------------------


def at_least(hits: int, chances: list[float]) -> float:
    """Pr(so many or more of independent events), one event after another."""
    law = np.array([1.0])
    for chance in chances:
        law = np.convolve(law, [1 - chance, chance])
    return float(law[hits:].sum())


@settings(max_examples=100)
@given(st.lists(st.floats(0.01, 0.99), min_size=1, max_size=12), st.data())
def test_the_tail_is_never_too_small(chances: list[float], data: st.DataObject) -> None:
    hits, n = data.draw(st.integers(0, len(chances))), len(chances)
    bound = log_tail(*(np.array([float(part)]) for part in (hits, n, sum(chances) / n)))[0]
    assert at_least(hits, chances) <= math.exp(bound) * (1 + 1e-9)


def test_one_record_is_exact_and_what_cannot_be_is_impossible() -> None:
    tails = log_tail(np.array([1.0, 1.0, 0.0, 5.0]), np.array([1.0, 9.0, 9.0, 5.0]), np.array([0.2, 0.0, 0.0, 1.0]))
    assert tails.tolist() == [pytest.approx(math.log(0.2)), -math.inf, 0, 0]


def test_a_tail_by_hand() -> None:
    """Six of ten or more at 1/2: 0.6^-6 0.4^-4 2^-10 = 0.818; exactly it is 0.377. Four of ten: no bound."""
    tails = log_tail(np.array([6.0, 4.0]), np.array([10.0, 10.0]), np.array([0.5, 0.5]))
    assert np.exp(tails) == pytest.approx([0.6**-6 * 0.4**-4 * 0.5**10, 1])


@given(st.integers(1, 60), st.floats(0.01, 0.99), st.floats(1e-9, 0.5))
def test_the_largest_share_that_is_allowed_is_found(records: int, chance: float, level: float) -> None:
    tails = [log_tail(*(np.array([float(p)]) for p in (k, records, chance)))[0] for k in range(records + 1)]
    slow = max(k for k, tail in enumerate(tails) if tail >= math.log(level))
    assert allowed(records, chance, math.log(level)) == slow / records


def chance_of_counts(matrix: PerturbationMatrix, true: list[int]) -> float:
    """Pr(the published counts are the true ones), over all that can be published."""
    values = [x for x, count in enumerate(true) for _ in range(count)]
    dense, total = matrix.dense(), 0.0
    for shown in itertools.product(range(matrix.size), repeat=len(values)):
        if [shown.count(y) for y in range(matrix.size)] == true:
            total += math.prod(float(dense[y, x]) for y, x in zip(shown, values, strict=True))
    return total


def test_the_chance_of_the_true_counts_is_never_too_small() -> None:
    rng = np.random.default_rng(3)
    close = []
    for _ in range(60):
        m = int(rng.integers(2, 4))
        matrix = PerturbationMatrix.from_retention(rng.choice([0, 0.3, 0.6, 1], m).tolist())
        true = rng.multinomial(int(rng.integers(1, 8)), [1 / m] * m)
        part = Margin(matrix, true[None], true[None], ["all"], ["v"] * m)
        exact = chance_of_counts(matrix, true.tolist())
        assert exact <= math.exp(part.log_chance) * (1 + 1e-9)
        close.append(exact / math.exp(part.log_chance))
    assert np.mean(close) > 0.2  # and not much too large either


# --- draws as they should be ------------------------------------------------------------------------------------------


def mechanism(matrices: list[PerturbationMatrix], codes: list[list[int]], size: int) -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple(f"v{k}" for k in range(size))),))
    tables = [
        SubTable(np.array(own, dtype=np.int32), matrix, (NO_BOUND,) * len(own))
        for matrix, own in zip(matrices, codes, strict=True)
    ]
    return Mechanism(domain, tuple(tables), LABEL if len(tables) > 1 else None)


def random_case(rng: np.random.Generator) -> tuple[Mechanism, Codes, Codes]:
    """Return a mechanism with one or two sub-tables, true values and labels: few records of most values."""
    m = int(rng.integers(2, 9))
    if rng.random() < 0.5 or m < 4:
        retention = rng.choice([0.0, 0.05, 0.3, 0.8, 1.0]) * rng.uniform(0.5, 1, m)
        own = mechanism([PerturbationMatrix.from_retention(retention.tolist())], [list(range(m))], m)
    else:
        parts = [list(range(m // 2 + 1)), list(range(m // 2, m))]
        own = mechanism([uniform_matrix(Fraction(int(rng.integers(2, 30))), len(p)) for p in parts], parts, m)
    n = int(rng.choice([1, 5, 40, 400]))
    labels = rng.integers(0, len(own.tables), n).astype(np.int32)
    pick = [rng.choice(own.tables[k].codes, p=rng.dirichlet(np.full(own.tables[k].codes.size, 0.3))) for k in labels]
    return own, np.array(pick, dtype=np.int32), labels


def sampled(own: Mechanism, true: Codes, labels: Codes, rng: np.random.Generator) -> Codes:
    return own.sample(true, labels, rng.integers(0, WORDS, true.size, dtype=np.uint64))


def by_row(own: Mechanism, true: Codes, shown: Codes, labels: Codes) -> Finding:
    cases = observed_cases(true, shown, labels, np.zeros(true.size, dtype=np.int64), own)
    return draws_finding(transitions(own, cases), true.size, LEVEL, "transitions")


def parts_of(own: Mechanism, true: Codes, shown: Codes, labels: Codes) -> list[Margin]:
    m, found = own.domain.size, []
    for number, table in enumerate(own.tables):
        counts = [np.bincount(codes[labels == number], minlength=m)[table.codes][None] for codes in (true, shown)]
        names = [own.domain.labels[code] for code in table.codes]
        found.append(Margin(table.matrix, counts[0], counts[1], [f"sub-table {number + 1}"], names))
    return found


def test_no_false_alarm_on_many_seeds() -> None:
    """600 releases at a level of 1e-6, with few records of most values."""
    for seed in range(600):
        rng = np.random.default_rng(seed)
        own, true, labels = random_case(rng)
        shown = sampled(own, true, labels, rng)
        found = by_row(own, true, shown, labels)
        assert (found.verdict, found.at_risk) == ("within the bound", 0), seed
        assert found.worst <= found.promised
        parts = parts_of(own, true, shown, labels)
        assert draws_finding(margins(parts), true.size, LEVEL, "margins").verdict == "within the bound", seed
        same = coincidence_finding([parts], true.size, LEVEL)
        assert same is None or same.verdict == "within the bound", seed


def test_a_level_that_is_not_small_gives_false_alarms_no_more_often_than_it_says() -> None:
    """At 0.2 some of 2,000 releases are rejected, but no more than 0.2 of them."""
    own = mechanism([uniform_matrix(Fraction(3), 3)], [[0, 1, 2]], 3)
    true, zeros = np.repeat(np.arange(3), 40).astype(np.int32), np.zeros(120, dtype=np.int32)
    rng, alarms = np.random.default_rng(11), 0
    for _ in range(2000):
        shown = sampled(own, true, zeros, rng)
        cases = observed_cases(true, shown, zeros, zeros.astype(np.int64), own)
        alarms += draws_finding(transitions(own, cases), 120, 0.2, "transitions").verdict == "above the bound"
    assert 0 < alarms < 400


# --- draws that are not -----------------------------------------------------------------------------------------------

MATRIX = uniform_matrix(Fraction(3), 6)
ONE = mechanism([MATRIX], [list(range(6))], 6)
TRUE = np.random.default_rng(1).integers(0, 6, 2000).astype(np.int32)
NONE = np.zeros(2000, dtype=np.int32)


def kept(true: Codes, rng: np.random.Generator) -> Codes:
    return true


def half_kept(true: Codes, rng: np.random.Generator) -> Codes:
    return np.where(rng.random(true.size) < 0.5, true, sampled(ONE, true, NONE, rng)).astype(np.int32)


def shifted(true: Codes, rng: np.random.Generator) -> Codes:
    return (sampled(ONE, true, NONE, rng) + 1).astype(np.int32) % 6


def one_value_kept(true: Codes, rng: np.random.Generator) -> Codes:
    return np.where(true == 4, true, sampled(ONE, true, NONE, rng)).astype(np.int32)


def noise_of_one_value(true: Codes, rng: np.random.Generator) -> Codes:
    return np.where(rng.random(true.size) < 0.25, true, 2).astype(np.int32)


@pytest.mark.parametrize("wrong", [kept, half_kept, shifted, one_value_kept, noise_of_one_value])
def test_other_draws_are_found_row_by_row(wrong: Callable[[Codes, np.random.Generator], Codes]) -> None:
    found = by_row(ONE, TRUE, wrong(TRUE, np.random.default_rng(2)), NONE)
    assert (found.verdict, found.at_risk) == ("above the bound", 2000)
    assert found.worst > found.promised > found.baseline


def test_the_worst_count_is_named() -> None:
    found = by_row(ONE, TRUE, one_value_kept(TRUE, np.random.default_rng(2)), NONE)
    assert found.exposed[0].who == "'v4' published as 'v4'"
    assert (found.worst, found.baseline) == (1, pytest.approx(3 / 8))
    assert found.exposed[0].records == (TRUE == 4).sum()
    assert by_row(ONE, TRUE, TRUE, NONE).exposed[0].who == "all rows: published with the true value"


def test_values_with_one_record_each_are_found_together() -> None:
    """No count by itself says anything: 200 values of one record, kept with probability 1/2 as the matrix says."""
    own = mechanism([uniform_matrix(Fraction(199), 200)], [list(range(200))], 200)
    true, zeros = np.arange(200, dtype=np.int32), np.zeros(200, dtype=np.int32)
    assert by_row(own, true, true, zeros).verdict == "above the bound"
    assert by_row(own, true, sampled(own, true, zeros, np.random.default_rng(4)), zeros).verdict == "within the bound"


def test_a_value_that_the_sub_table_does_not_have_is_found() -> None:
    own = mechanism([uniform_matrix(Fraction(3), 2)] * 2, [[0, 1], [2, 3]], 4)
    true, labels = np.array([0, 1, 2, 3], dtype=np.int32), np.array([0, 0, 1, 1], dtype=np.int32)
    found = by_row(own, true, np.array([0, 1, 2, 1], dtype=np.int32), labels)
    assert (found.verdict, found.exposed[0].who) == ("above the bound", "sub-table 2, 'v3' published as 'v1'")


def test_margins_find_other_shares() -> None:
    """Uneven shares, published as they are; or noise that is not even."""
    true = np.minimum(np.random.default_rng(1).geometric(0.5, 2000) - 1, 5).astype(np.int32)
    for shown in (true, noise_of_one_value(true, np.random.default_rng(2))):
        found = draws_finding(margins(parts_of(ONE, true, shown, NONE)), 2000, LEVEL, "margins")
        assert (found.verdict, found.at_risk) == ("above the bound", 2000)
    assert found.exposed[0].who == "sub-table 1: too many published as 'v2'"


def test_even_shares_that_are_published_as_they_are_coincide() -> None:
    """Margins see nothing, as the expected counts are even too; that all six are the true ones does not happen."""
    parts = parts_of(ONE, TRUE, TRUE, NONE)
    assert draws_finding(margins(parts), 2000, LEVEL, "margins").verdict == "within the bound"
    found = coincidence_finding([parts], 2000, LEVEL)
    assert found is not None
    assert (found.verdict, found.worst, found.promised) == ("above the bound", 1, pytest.approx(5 / 6))
    shown = sampled(ONE, TRUE, NONE, np.random.default_rng(5))
    other = coincidence_finding([parts_of(ONE, TRUE, shown, NONE)], 2000, LEVEL)
    assert other is not None
    assert other.verdict == "within the bound"


def test_two_values_may_coincide_by_chance() -> None:
    own = mechanism([uniform_matrix(Fraction(3), 2)], [[0, 1]], 2)
    true = np.repeat([0, 1], 100).astype(np.int32)
    assert coincidence_finding([parts_of(own, true, true, np.zeros(200, dtype=np.int32))], 200, LEVEL) is None
