"""Sub-tables: sampling, bounds and errors against slow, obviously right versions."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import Infeasible
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.deck import DeckMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import LABEL, Bound, Mechanism, SubTable

DOMAIN = SensitiveDomain((Domain("d", tuple("abcdefgh")),))


def sub_table(codes: list[int], gamma: Fraction | None) -> SubTable:
    matrix = uniform_matrix(gamma, len(codes))
    return SubTable(np.array(codes, dtype=np.int32), matrix, (Bound(gamma),) * len(codes))


def several() -> Mechanism:
    tables = sub_table([0, 2, 5], Fraction(7, 2)), sub_table([1, 2, 3, 4, 7], Fraction(3)), sub_table([6, 7], None)
    return Mechanism(DOMAIN, tables, LABEL)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2**64 - 1), st.integers(0, 7)), min_size=1, max_size=40))
def test_each_row_is_drawn_by_its_own_sub_table(rows: list[tuple[int, int, int]]) -> None:
    mechanism = several()
    labels = np.array([label for label, _, _ in rows], dtype=np.int32)
    words = np.array([word for _, word, _ in rows], dtype=np.uint64)
    codes = np.array(
        [mechanism.tables[label].codes[pick % mechanism.tables[label].codes.size] for label, _, pick in rows],
        dtype=np.int32,
    )
    expected = []
    for label, word, code in zip(labels.tolist(), words.tolist(), codes.tolist(), strict=True):
        table = mechanism.tables[label]
        own = np.flatnonzero(table.codes == code).astype(np.int32)
        drawn = table.matrix.sample(own, np.array([word], dtype=np.uint64))
        expected.append(int(table.codes[drawn[0]]))
    assert mechanism.sample(codes, labels, words).tolist() == expected


@settings(max_examples=300, deadline=None)
@given(st.integers(2, 60), st.fractions(Fraction(1001, 1000), 500, max_denominator=10**6))
def test_the_integer_matrix_is_the_best_that_keeps_gamma(m: int, gamma: Fraction) -> None:
    """Exactly: its factor is at most gamma, and with one unit of noise less it would be more."""
    matrix = uniform_matrix(gamma, m)
    assert matrix.upward(0) <= gamma  # type: ignore[operator]
    louder = PerturbationMatrix(matrix.noise - np.uint64(1))
    assert louder.upward(0) is None or louder.upward(0) > gamma  # type: ignore[operator]


def test_a_gamma_next_to_one_is_refused() -> None:
    with pytest.raises(Infeasible, match="64-bit sampling cannot keep it"):
        uniform_matrix(1 + Fraction(1, 10**30), 5)


def test_nothing_is_perturbed_without_a_bound() -> None:
    assert uniform_matrix(None, 4).retention.tolist() == [1.0] * 4


def test_the_strictest_bound_of_a_value_counts() -> None:
    bounds = several().bounds
    assert [b.gamma for b in bounds] == [
        Fraction(7, 2), Fraction(3), Fraction(3), Fraction(3), Fraction(3), Fraction(7, 2), None, Fraction(3),
    ]  # fmt: skip


def test_figures_of_several_matrices() -> None:
    mechanism = several()
    assert mechanism.epsilon == np.inf
    assert mechanism.condition_number == max(t.matrix.condition_number for t in mechanism.tables)
    assert mechanism.is_invertible
    with pytest.raises(ValueError, match="matrix of its own"):
        _ = mechanism.matrix


def test_the_variance_adds_up() -> None:
    """Against dense algebra: A diag(P x) A^T - diag(x) of each sub-table."""
    mechanism = several()
    quotas = (np.array([10, 20, 30]), np.array([5, 6, 7, 8, 9]), np.array([4, 3]))
    expected = np.zeros(8)
    for table, x in zip(mechanism.tables, quotas, strict=True):
        p = table.matrix.dense()
        inverse = np.linalg.inv(p)
        expected[table.codes] += np.diag(inverse @ np.diag(p @ x) @ inverse.T - np.diag(x))
    assert np.allclose(mechanism.variance(quotas), expected, atol=1e-9)


@pytest.mark.parametrize(
    ("codes", "complaint"), [([0, 0], "ascending"), ([2, 1], "ascending"), ([0, 8], "none of the 8"), ([-1, 2], "none")]
)
def test_values_must_be_of_the_domain(codes: list[int], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Mechanism(DOMAIN, (sub_table(codes, Fraction(3)),))


def test_several_sub_tables_need_a_label() -> None:
    with pytest.raises(ValueError, match="label"):
        Mechanism(DOMAIN, several().tables)


# --- sets as they are written -----------------------------------------------------------------------------------------


def sets_of(values: tuple[str | None, ...], members: int) -> Mechanism:
    """Publish all shifts of the first values, as sets."""
    deck = DeckMatrix.within(len(values), np.arange(members, dtype=np.int32)[None, :], Fraction(3))
    return Mechanism.single(SensitiveDomain((Domain("d", values),)), deck, (Bound(Fraction(3)),) * len(values), "set")


def test_a_missing_value_stands_in_a_set_by_its_label() -> None:
    assert sets_of(("a", "b", "c", None), 2).published.values == ("a|b", "b|c", "c|(missing)", "a|(missing)")


@pytest.mark.parametrize(
    ("values", "why"), [(("(missing)", "a", "b", None), "written alike"), (("a|b", "a", "b", "c"), "holds '|'")]
)
def test_values_that_a_set_cannot_tell_apart_are_refused(values: tuple[str | None, ...], why: str) -> None:
    with pytest.raises(ValueError, match=re.escape(why)):
        _ = sets_of(values, 2).published


def test_sets_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(ValueError, match="12,000 sets list 72,000,000 values"):
        _ = sets_of(tuple(map(str, range(12_000))), 6_000).published
