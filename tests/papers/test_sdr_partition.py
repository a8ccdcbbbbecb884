"""SDR sections 4-6: Examples 1-4, Table 2 on today's census, and the printed program's flaw."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from sfumato.methods.small_domain.groups import Groups, initial_groups, reverse_cuthill_mckee
from sfumato.methods.small_domain.merging import cheapest_merging, printed_cost, published_cost
from sfumato.methods.small_domain.partition import AS_PRINTED, Block, Partition, partition
from sfumato.values.arrays import Assurance, IntArray

T = np.array([12, 8, 6, 5, 4, 3, 1, 1, 1, 1])
ASSURANCES: tuple[Assurance, ...] = ("as-published", "proved")


def written_out(codes: IntArray, counts: IntArray, m: int) -> list[int]:
    """The frequencies of all values in order, as the paper prints them."""
    row = [0] * m
    for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
        row[code] = count
    return row


def rows(blocks: tuple[Block, ...], m: int) -> list[list[int]]:
    return [written_out(block.codes, block.counts, m) for block in blocks]


@pytest.fixture
def example() -> Groups:
    return initial_groups(T, np.ones(T.size, dtype=np.bool_))


# --- Examples 1-4 -------------------------------------------------------------------------------------------------


def test_example_1_partition_and_matrices() -> None:
    """T1 and T2, gamma 4 and 10, diagonals 4/9 and 2/3 where the whole table has 4/13."""
    found = partition(T, Fraction(1, 3), Fraction(2, 3), assurance="as-published")
    assert rows(found.blocks, 10) == [[12, 8, 6, 4, 4, 2, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1, 1, 1, 1, 1]]
    assert [block.rho1 for block in found.blocks] == [Fraction(1, 3), Fraction(1, 6)]
    assert [block.gamma for block in found.blocks] == [4, 10]
    assert [block.domain_size for block in found.blocks] == [6, 6]
    assert [block.diagonal for block in found.blocks] == pytest.approx([4 / 9, 2 / 3], abs=1e-15)
    assert [(1 - b.retention) / b.domain_size for b in found.blocks] == pytest.approx([1 / 9, 1 / 15], abs=1e-15)
    # "If T is not partitioned": the paper's 4/13 is from rho1 = 1/3 as asked for; Eq. (9)'s 12/42 gives gamma 5
    assert found.uniform_retention + (1 - found.uniform_retention) / 10 == pytest.approx(4 / 13, abs=1e-15)
    assert (found.whole.domain_size, found.whole.gamma) == (10, Fraction(5))
    assert found.pays
    assert AS_PRINTED not in found.notes


def test_example_2_initial_groups(example: Groups) -> None:
    assert example.theta == 3
    assert [written_out(*example[j], 10) for j in range(example.number)] == [
        [6, 6, 6, 0, 0, 0, 0, 0, 0, 0],
        [4, 0, 0, 4, 4, 0, 0, 0, 0, 0],
        [2, 2, 0, 0, 0, 2, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 1, 1, 0, 0, 0],
        [0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
    ]


def test_example_3_order(example: Groups) -> None:
    """g1, g3, g2, g4, g5."""
    assert reverse_cuthill_mckee(example).tolist() == [0, 2, 1, 3, 4]


def test_example_4_merging(example: Groups) -> None:
    """{g1 g3 g2, g4 g5}."""
    merging = cheapest_merging(example, reverse_cuthill_mckee(example), published_cost(Fraction(2, 3)))
    assert [part.tolist() for part in merging.members()] == [[0, 2, 1], [3, 4]]


def test_example_1_error_bound() -> None:
    """Eq. (12) by hand: sqrt(36)/(1/3) + sqrt(6)/(3/5), times 2 sqrt(ln 40)/42."""
    found = partition(T, Fraction(1, 3), Fraction(2, 3), assurance="as-published")
    assert found.eps == pytest.approx(2 * np.log(40) ** 0.5 / 42 * (18 + 6**0.5 * 5 / 3), rel=1e-14)
    spread = 36 * 9 + 6 * 25 / 9
    assert found.valid_bound == pytest.approx((np.log(40) / 2 * spread) ** 0.5 / 42, rel=1e-14)


def test_proved_keeps_a_small_table_whole() -> None:
    """42 records are fewer than a sub-table's minimum of 1,000."""
    found = partition(T, Fraction(1, 3), Fraction(2, 3))
    assert rows(found.blocks, 10) == [T.tolist()]
    assert not found.pays


# --- the printed program's flaw -----------------------------------------------------------------------------------


def test_the_printed_program_prefers_a_negative_bound() -> None:
    """T = {38, 31, 31} under (.38, .45): two blocks with gamma 9/11, and a negative eps."""
    groups = initial_groups(np.array([38, 31, 31]), np.ones(3, dtype=np.bool_))
    rho2 = Fraction(9, 20)
    printed = cheapest_merging(groups, reverse_cuthill_mckee(groups), printed_cost(rho2))
    shares = [Fraction(int(counts.max()), int(counts.sum())) for _, counts in map(groups.union, printed.members())]
    assert shares == [Fraction(1, 2), Fraction(1, 2)]
    assert {rho2 / s * (1 - s) / (1 - rho2) for s in shares} == {Fraction(9, 11)}
    assert printed.cost < 0


@pytest.mark.parametrize("assurance", ASSURANCES)
@pytest.mark.parametrize("scale", [1, 1000])
def test_38_31_31_stays_one_block(assurance: Assurance, scale: int) -> None:
    found = partition(np.array([38, 31, 31]) * scale, Fraction(38, 100), Fraction(45, 100), assurance=assurance)
    assert rows(found.blocks, 3) == [[38 * scale, 31 * scale, 31 * scale]]
    assert (AS_PRINTED in found.notes) == (assurance == "as-published")
    assert any("as printed" in note for note in found.notes) == (assurance == "as-published")


# --- Table 2 and §6.3 on ACS 2024 ---------------------------------------------------------------------------------

PUBLISHED_PERCENT = {6: 8.9, 5: 12.2, 4: 17.1, 3: 25.4}
PROVED_PERCENT = {6: 9.113, 5: 12.627, 4: 17.774, 3: 26.394}
UNIFORM_PERCENT = {6: 2.945, 5: 4.117, 4: 6.007, 3: 9.573}


def acs(real_data: Callable[[str], Path], column: str) -> IntArray:
    """The counts of a column's values, in ascending code order, in the first 300,000 rows."""
    table = pq.read_table(real_data("acs2024_census_like_500k.parquet"), columns=[column])
    return np.unique(table[column].to_numpy()[:300_000], return_counts=True)[1]


def occupation(real_data: Callable[[str], Path], L: int, assurance: Assurance) -> Partition:
    counts = acs(real_data, "occupation")
    return partition(counts, Fraction(int(counts.max()), 300_000), Fraction(1, L), assurance=assurance)


@pytest.mark.parametrize("L", [6, 5, 4, 3])
def test_table_2_as_published(real_data: Callable[[str], Path], L: int) -> None:
    """SDR Table 2 has 9.0, 12.3, 17.3, 25.7 % on the census of its day, and 2.9, 4.0, 5.9, 9.4 % for uniform."""
    found = occupation(real_data, L, "as-published")
    assert 100 * found.mean_retention == pytest.approx(PUBLISHED_PERCENT[L], abs=0.05)
    assert 100 * found.uniform_retention == pytest.approx(UNIFORM_PERCENT[L], abs=0.001)
    assert (found.groups.theta, found.groups.number, len(found.blocks)) == (13, 18, 6)


@pytest.mark.parametrize("L", [6, 5, 4, 3])
def test_table_2_proved(real_data: Callable[[str], Path], L: int) -> None:
    """Beside it: a smaller valid bound, no sub-table below 1,000 records."""
    found, published = occupation(real_data, L, "proved"), occupation(real_data, L, "as-published")
    assert 100 * found.mean_retention == pytest.approx(PROVED_PERCENT[L], abs=0.001)
    assert found.valid_bound < published.valid_bound
    assert min(block.size for block in found.blocks) >= 1000


@pytest.mark.parametrize("L", [10, 8, 6, 4])
def test_section_6_3_degenerates_into_uniform(real_data: Callable[[str], Path], L: int) -> None:
    """Education: 9 of 14 values are at most 1/30; as published it does not pay to partition."""
    counts = acs(real_data, "education")
    found = partition(counts, Fraction(1, 30), Fraction(1, L), assurance="as-published")
    assert int(found.groups.protected.sum()) == 9
    assert not found.pays
    assert found.mean_retention == found.whole.retention > found.uniform_retention  # rho1_1 is 2.5 %, not 1/30
    assert partition(counts, Fraction(1, 30), Fraction(1, L)).valid_bound < found.valid_bound


def test_section_6_3_without_the_data() -> None:
    """The same with shares like the paper's: at most 27 %, nine values of 14 at most 3.33 %."""
    percent = [270, 200, 180, 120, 90, 30, 25, 20, 18, 15, 12, 10, 7, 3]
    for L in (10, 8, 6, 4):
        found = partition(np.array(percent) * 300, Fraction(1, 30), Fraction(1, L), assurance="as-published")
        assert (int(found.groups.protected.sum()), found.pays) == (9, False)
