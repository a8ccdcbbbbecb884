"""A known composition: the printed case, the sum over all worlds, exact fractions and the integral, one by another."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.auditor.attackers.composition import composition_beliefs, composition_finding
from sfumato.auditor.beliefs import Counts
from sfumato.auditor.worlds import chance_of, enumerate_posteriors
from sfumato.errors import UsageError
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix
from sfumato.values.mechanism import LABEL, NO_BOUND, Bound, Mechanism, SubTable
from sfumato.values.requirement import rho_bound
from sfumato_papers.pi.worlds import arrangements
from sfumato_papers.sdr.composition import exact_belief
from tests.conftest import exact_weights


def weights(matrix: PerturbationMatrix) -> tuple[list[int], list[int]]:
    noise = [int(q) for q in matrix.noise]
    return [WORDS - matrix.size * q for q in noise], noise


def published(matrix: PerturbationMatrix, true: list[int], seed: int) -> list[int]:
    """The counts of a random release."""
    codes = np.repeat(np.arange(len(true)), true).astype(np.int32)
    words = np.random.default_rng(seed).integers(0, WORDS, codes.size, dtype=np.uint64)
    return np.bincount(matrix.sample(codes, words), minlength=len(true)).tolist()


def codes_of(counts: list[int]) -> list[int]:
    return [code for code, count in enumerate(counts) for _ in range(count)]


# --- by hand ----------------------------------------------------------------------------------------------------------


def test_two_records_by_hand() -> None:
    """One record of each of two values, kept with weight 3 and turned with 1: both kept 9, both turned 1."""
    assert exact_belief([2, 2], [1, 1], [1, 1], [1, 1], 0, 0) == Fraction(9, 10)
    assert exact_belief([2, 2], [1, 1], [1, 1], [1, 1], 0, 1) == Fraction(1, 10)
    # both published as the first: nothing tells the two records apart
    assert exact_belief([2, 2], [1, 1], [2, 0], [1, 1], 0, 0) == Fraction(1, 2)


def test_the_printed_sub_table() -> None:
    """SDR's T2: six records, six values, published as a permutation; rho2 is 2/3."""
    assert exact_belief([9] * 6, [1] * 6, [1] * 6, [1] * 6, 2, 2) == Fraction(74996, 80427)
    found = composition_beliefs(uniform_matrix(Fraction(10), 6), [1] * 6, [1] * 6)
    assert np.diag(found.beliefs) == pytest.approx([74996 / 80427] * 6, abs=1e-14)


# --- against all worlds -----------------------------------------------------------------------------------------------

CASES = [
    ([0.3, 0.3, 0.3], [2, 1, 2], [1, 2, 2]),
    ([0.6, 0.1, 0.4], [3, 0, 2], [1, 2, 2]),
    ([0.0, 0.9, 0.5], [1, 4, 1], [2, 2, 2]),
    ([0.2, 0.2, 0.2, 0.7], [0, 0, 6, 0], [1, 2, 0, 3]),
    ([0.999999, 0.5, 0.999999], [2, 3, 2], [3, 2, 2]),
]


@pytest.mark.parametrize(("retention", "shown", "true"), CASES)
def test_exactly_as_over_all_worlds(retention: list[float], shown: list[int], true: list[int]) -> None:
    matrix = PerturbationMatrix.from_retention(retention)
    records = codes_of(shown)
    worlds = enumerate_posteriors(arrangements(true), chance_of(exact_weights(matrix), records), matrix.size)
    by_integral = composition_beliefs(matrix, shown, true)
    for record, y in enumerate(records):
        for x in range(matrix.size):
            exact = exact_belief(*weights(matrix), shown, true, y, x)
            assert exact == worlds[record][x]
            assert by_integral.beliefs[y, x] == pytest.approx(float(exact), abs=2e-12)
    assert by_integral.error < 2e-12


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_the_integral_is_the_exact_sum(data: st.DataObject) -> None:
    m = data.draw(st.integers(2, 5))
    matrix = PerturbationMatrix.from_retention(data.draw(st.lists(st.floats(0, 0.9999), min_size=m, max_size=m)))
    true = data.draw(st.lists(st.integers(0, 9), min_size=m, max_size=m).filter(any))
    cuts = sorted(data.draw(st.lists(st.integers(0, sum(true)), min_size=m - 1, max_size=m - 1)))
    shown = [b - a for a, b in itertools.pairwise([0, *cuts, sum(true)])]
    found = composition_beliefs(matrix, shown, true)
    for y, x in itertools.product(range(m), repeat=2):
        exact = exact_belief(*weights(matrix), shown, true, y, x)
        assert found.beliefs[y, x] == pytest.approx(float(exact), abs=1e-11)
    assert found.error < 1e-11


def test_the_integral_is_the_exact_sum_of_some_hundred_records() -> None:
    """260 records with 13 values, where the belief differs from rho2 = 1/3 in the second digit."""
    matrix, true = uniform_matrix(Fraction(6), 13), [20] * 13
    shown = published(matrix, true, 4)
    found = composition_beliefs(matrix, shown, true)
    for y, x in [(0, 0), (3, 3), (5, 7)]:
        exact = exact_belief([5] * 13, [1] * 13, shown, true, y, x)
        assert found.beliefs[y, x] == pytest.approx(float(exact), abs=1e-12)


def test_a_large_sub_table_has_the_posterior_of_its_shares() -> None:
    """100,000 records, 50 values: rows sum to 1, and beliefs are those of independent draws up to 1/sqrt(n)."""
    rng = np.random.default_rng(8)
    true = rng.multinomial(100_000, rng.dirichlet(np.full(50, 3.0)))
    matrix = uniform_matrix(Fraction(20), 50)
    shown = published(matrix, true.tolist(), 9)
    found = composition_beliefs(matrix, shown, true)
    shares = true / true.sum()
    independent = matrix.dense() * shares
    independent /= independent.sum(axis=1, keepdims=True)
    assert found.error < 1e-12
    assert found.beliefs.sum(axis=1) == pytest.approx(np.ones(50), abs=1e-12)
    assert found.beliefs == pytest.approx(independent, abs=0.02)
    # the published counts are shared out among the true ones exactly: sum_y o_y Pr(x | y) = c_x
    assert np.array(shown) @ found.beliefs == pytest.approx(true.astype(float), rel=1e-10)


# --- edges ------------------------------------------------------------------------------------------------------------


def test_values_that_are_never_changed() -> None:
    """The first value has no noise: two of the three records published with it have it."""
    noise = np.array([0, WORDS // 5, WORDS // 4], dtype=np.uint64)
    matrix, shown, true = PerturbationMatrix(noise), [3, 1, 1], [2, 2, 1]
    found = composition_beliefs(matrix, shown, true)
    for y, x in itertools.product(range(3), repeat=2):
        exact = exact_belief(*weights(matrix), shown, true, y, x)
        assert found.beliefs[y, x] == pytest.approx(float(exact), abs=1e-12)
    assert found.beliefs[0, 0] == pytest.approx(2 / 3, abs=1e-12)
    unchanged = composition_beliefs(PerturbationMatrix(np.zeros(2, dtype=np.uint64)), [3, 1], [3, 1])
    assert unchanged.beliefs == pytest.approx(np.eye(2), abs=1e-12)
    with pytest.raises(UsageError, match="never changed"):
        composition_beliefs(PerturbationMatrix(np.zeros(2, dtype=np.uint64)), [3, 1], [2, 2])


def test_counts_of_different_records_are_refused() -> None:
    matrix = uniform_matrix(Fraction(3), 2)
    for shown, true in [([1, 1], [1, 2]), ([1, -1], [0, 0]), ([0, 0], [0, 0]), ([2], [1, 1])]:
        with pytest.raises(ValueError, match="records"):
            composition_beliefs(matrix, shown, true)


# --- the finding ------------------------------------------------------------------------------------------------------


def example() -> tuple[Mechanism, list[Counts]]:
    """Two sub-tables of one domain; in the second, one value is not protected."""
    domain = SensitiveDomain((Domain("d", tuple("abcdef")),))
    protected = rho_bound("1/3", "2/3")
    tables = (
        SubTable(np.array([0, 1, 2], dtype=np.int32), uniform_matrix(Fraction(4), 3), (protected,) * 3),
        SubTable(np.array([0, 3, 4, 5], dtype=np.int32), uniform_matrix(Fraction(4), 4), (NO_BOUND, *[protected] * 3)),
    )
    counts = [Counts((4, 0, 2), (2, 2, 2)), Counts((3, 1, 1, 1), (3, 1, 1, 1))]
    return Mechanism(domain, tables, LABEL), counts


def test_the_finding_names_the_excess_and_covers_nothing() -> None:
    mechanism, counts = example()
    found = composition_finding(mechanism, counts)
    beliefs = [
        composition_beliefs(table.matrix, own.published, own.true).beliefs
        for table, own in zip(mechanism.tables, counts, strict=True)
    ]
    assert found.verdict == "not covered by the guarantee"
    assert found.worst == max(beliefs[0][[0, 2]].max(), beliefs[1][:, 1:].max())
    assert (found.stated, found.records) == (pytest.approx(2 / 3), 12)
    assert found.excess == found.worst - 2 / 3
    rows = [beliefs[0][0].max(), beliefs[0][2].max(), *beliefs[1][:, 1:].max(axis=1)]
    sizes = [4, 2, 3, 1, 1, 1]
    assert found.mean == pytest.approx(np.average(rows, weights=sizes))
    assert found.at_risk == sum(n for row, n in zip(rows, sizes, strict=True) if row > 2 / 3)
    assert found.exposed[0].risk == found.worst
    assert "sub-table" in found.exposed[0].who


def test_a_value_without_a_bound_and_an_empty_sub_table_are_no_risk() -> None:
    mechanism, counts = example()
    none = Counts((0, 0, 0), (0, 0, 0))
    found = composition_finding(mechanism, [none, counts[1]])
    assert found.records == 6
    assert {each.who[-3:] for each in found.exposed} <= {"'d'", "'e'", "'f'"}
    assert float(found.remark.split()[-1].rstrip(".")) < 1e-11


def one_table(bounds: tuple[Bound, ...]) -> Mechanism:
    domain = SensitiveDomain((Domain("d", ("a", "b")),))
    return Mechanism.single(domain, uniform_matrix(Fraction(6), 2), bounds)


@pytest.mark.parametrize(("bound", "stated"), [(rho_bound("1/5", "3/5"), 6 / 7), (NO_BOUND, None)])
def test_shares_above_rho1_and_values_without_a_bound_are_told_with_their_size(
    bound: Bound, stated: float | None
) -> None:
    """Ten records of each of two values; rho1 = 1/5, gamma = 6: from even odds at most 6/7."""
    counts = Counts((11, 9), (10, 10))
    mechanism = one_table((bound, bound))
    beliefs = composition_beliefs(mechanism.matrix, counts.published, counts.true).beliefs
    found = composition_finding(mechanism, [counts])
    assert found.worst == pytest.approx(beliefs.max())
    assert found.worst > 0.5
    assert found.mean == pytest.approx(np.average(beliefs.max(axis=1), weights=counts.published))
    assert found.stated == (None if stated is None else pytest.approx(stated))
    assert (found.baseline, found.verdict) == (0.5, "not covered by the guarantee")


def test_bounded_sub_tables_go_before_others() -> None:
    """Worst, mean and records at risk are of the same records: those whose value has a bound."""
    mechanism, counts = example()
    free = SubTable(mechanism.tables[0].codes, mechanism.tables[0].matrix, (NO_BOUND,) * 3)
    mixed = Mechanism(mechanism.domain, (free, mechanism.tables[1]), LABEL)
    found = composition_finding(mixed, counts)
    beliefs = composition_beliefs(mixed.tables[1].matrix, counts[1].published, counts[1].true).beliefs
    assert found.worst == beliefs[:, 1:].max()
    assert found.mean == pytest.approx(np.average(beliefs[:, 1:].max(axis=1), weights=counts[1].published))


def test_where_all_records_have_one_value_nothing_is_to_be_learnt() -> None:
    """Certainty beforehand is no excess; the other value is no risk either."""
    bound = rho_bound("1/5", "3/5")
    found = composition_finding(one_table((bound, bound)), [Counts((7, 3), (10, 0))])
    assert (found.worst, found.at_risk, found.exposed) == (0, 0, ())
    assert "nothing is to be learnt" in found.remark
