"""Anatomy's map: an exact, uniform deal; two tables that hold every published row once; places that tell nothing."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from sfumato.engines.deal import anatomy
from sfumato.engines.deal import buckets as grouping
from sfumato.engines.deal.anatomy import anatomized, dealing_word, regrouped, sensitive_values
from sfumato.engines.deal.buckets import DealtRows, Groups, order_by_word, random_order
from sfumato.engines.embedded.shuffle import SpillFile, stable_order
from sfumato.engines.rows.mapping import WORD, RowMapper, integer_types
from sfumato.errors import PlanMismatch
from sfumato.publisher.table import profile, scan
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD
from tests.conftest import make_policy, slow
from tests.constants import constant, set_constants
from tests.engines.tools import DISEASES, ROLES, patients

ALARM = 1e-6  # of every statistical test here; the seeds are fixed, so a failure means that the code has changed


# --- tables in, tables out ------------------------------------------------------------------------------------------


def domain_of(values: int) -> SensitiveDomain:
    return SensitiveDomain((Domain("disease", tuple(f"disease {v:05d}" for v in range(values))),))


def cut(size: int, sizes: list[int]) -> Iterator[slice]:
    """Cut rows into batches of these sizes, again and again."""
    start = turn = 0
    while start < size:
        yield slice(start, start + sizes[turn % len(sizes)])
        start += sizes[turn % len(sizes)]
        turn += 1


def batches_of(codes: list[int], sizes: list[int], domain: SensitiveDomain) -> list[Any]:
    """Return batches with the sensitive value, a number that tells rows apart, and text with gaps.

    Each batch has a dictionary of its own, with a value that no row has.
    """
    made = []
    for piece in cut(len(codes), sizes):
        numbers = list(range(len(codes)))[piece]
        words = [None if n % 7 == 3 else f"text {n % 5}" for n in numbers]
        dictionary = sorted({w for w in words if w}, reverse=True)
        indices = pa.array([None if w is None else dictionary.index(w) for w in words], pa.int32())
        columns = [
            pa.array([domain.parts[0].values[c] for c in codes[piece]]),
            pa.array(numbers, pa.int64()),
            pa.DictionaryArray.from_arrays(indices, pa.array([*dictionary, "unused"])),
            pa.array([None if n % 3 == 0 else n / 4 for n in numbers], pa.float64()),
        ]
        made.append(pa.RecordBatch.from_arrays(columns, names=["disease", "n", "text", "real"]))
    return made


def worded(batches: list[Any], key: SecretKey) -> list[Any]:
    """Return the batches with the words of their rows, which are those of one file."""
    starts = np.cumsum([0, *(batch.num_rows for batch in batches)]).tolist()
    words = [key.words(Step.ANATOMY, 0, start, b.num_rows) for start, b in zip(starts, batches, strict=False)]
    return [b.append_column(WORD, pa.array(w)) for b, w in zip(batches, words, strict=True)]


def with_words(pieces: list[Any], key: SecretKey) -> list[Any]:
    """Return the codes of consecutive rows of one file with the rows' words."""
    starts = np.cumsum([0, *(piece.size for piece in pieces)]).tolist()
    return [
        (piece, key.words(Step.ANATOMY, 0, start, piece.size)) for start, piece in zip(starts, pieces, strict=False)
    ]


def dealt(
    codes: list[int],
    groups: int,
    seed: int = 1,
    withheld: list[int] | None = None,
    sizes: tuple[int, ...] = (1000,),
    values: int | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Return both tables of a small one; codes come in batches of other sizes than rows."""
    domain = domain_of(values or max(codes) + 1)
    counts = np.bincount(codes, minlength=domain.size)
    out = np.zeros_like(counts) if withheld is None else np.array(withheld)
    flat = np.array(codes, dtype=np.int32)
    key = SecretKey.from_seed(seed)
    stream = with_words([flat[piece] for piece in cut(len(codes), [3 + sizes[0], 2])], key)
    batches = worded(batches_of(codes, list(sizes), domain), key)
    tables = anatomized(batches, stream, domain, counts, out, groups, {}, key, Path("/tmp"))
    return whole(tables.rows), whole(tables.values)


def whole(batches: Iterator[Any]) -> pa.Table:
    return pa.Table.from_batches(list(batches)).unify_dictionaries()


def members(rows: pa.Table) -> dict[int, list[int]]:
    """Return the rows of each group, in their order."""
    found: dict[int, list[int]] = defaultdict(list)
    for group, n in zip(rows["group"].to_pylist(), rows["n"].to_pylist(), strict=True):
        found[group].append(n)
    return found


def check_tables(codes: list[int], rows: pa.Table, values: pa.Table, domain: SensitiveDomain) -> None:
    """Both tables fit the original: rows whole and in order of group, and each group's values as counted by hand."""
    assert rows.column_names == ["n", "text", "real", GROUP]
    assert values.column_names == [GROUP, "disease", COUNT]
    original = whole(iter(batches_of(codes, [max(len(codes), 1)], domain))).to_pylist()
    for row in rows.to_pylist():
        source = original[row["n"]]
        assert (row["text"], row["real"]) == (source["text"], source["real"])
    assert rows[GROUP].to_pylist() == sorted(rows[GROUP].to_pylist())
    assert len(set(rows["n"].to_pylist())) == rows.num_rows
    expected = Counter((group, original[n]["disease"]) for group, numbers in members(rows).items() for n in numbers)
    lines = [(line[GROUP], line["disease"], line[COUNT]) for line in values.to_pylist()]
    assert {(group, value): number for group, value, number in lines} == expected
    assert [line[:2] for line in lines] == sorted(expected)


# --- the deal -------------------------------------------------------------------------------------------------------


def test_the_first_records_of_a_value_are_withheld() -> None:
    """Two groups: the deal of the others is that of `deals`, by ranks that begin after the withheld ones."""
    counts, withheld = np.array([2, 2, 2]), np.array([0, 0, 1])
    groups = Groups.drawn(counts, withheld, 2, SecretKey.from_seed(1))
    codes, ranks = np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 1, 0, 1])
    kept = groups.deal.group_of(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 0])).tolist()
    assert groups.group_of(codes, ranks).tolist() == [*kept[:4], WITHHELD, kept[4]]
    numbers, values, counts = (np.concatenate(column) for column in zip(*groups.compositions(), strict=True))
    assert sorted(zip(kept, [0, 0, 1, 1, 2], strict=True)) == list(zip(numbers, values, strict=True))
    assert set(counts.tolist()) == {1}


@pytest.mark.parametrize(
    ("counts", "withheld", "groups"),
    [([3, 1], [0, 0], 2), ([2, 1], [0, 0], 0), ([2, 1], [0, 2], 1), ([2, 1], [-1, 0], 3), ([1, 1], [0, 0], 3)],
    ids=["a value twice in a group", "no group", "more withheld than there are", "fewer than none", "an empty group"],
)
def test_impossible_deals_are_refused(counts: list[int], withheld: list[int], groups: int) -> None:
    with pytest.raises(ValueError, match=r"group|withheld"):
        Groups.drawn(np.array(counts), np.array(withheld), groups, SecretKey.from_seed(1))


@st.composite
def tables(draw: Any) -> tuple[list[int], int, list[int]]:
    """Draw values of rows, a number of groups and how many of each value are withheld, so that a deal exists."""
    codes = draw(st.lists(st.integers(0, 6), min_size=2, max_size=120))
    counts = np.bincount(codes, minlength=7)
    ell = draw(st.integers(1, 5))
    most, kept = len(codes), counts
    while kept.max() > (most := kept.sum() // ell):
        kept = np.minimum(kept, most)
    if not most:
        kept, most = counts, int(counts.max())
    return codes, int(most), (counts - kept).tolist()


@settings(max_examples=150, deadline=None)
@given(tables(), st.lists(st.integers(1, 40), min_size=1, max_size=4), st.integers(1, 60), st.integers(1, 60))
def test_every_row_goes_to_one_group_and_no_value_twice(
    table: tuple[list[int], int, list[int]], sizes: list[int], part: int, rows_of_part: int
) -> None:
    codes, groups, withheld = table
    with pytest.MonkeyPatch.context() as patch:
        set_constants(patch, "sfumato.engines.deal", PART_ROWS=part, LINES_AT_ONCE=10)
        set_constants(patch, "sfumato.engines.embedded", PART_ROWS=rows_of_part)
        rows, values = dealt(codes, groups, withheld=withheld, sizes=tuple(sizes), values=7)
    check_tables(codes, rows, values, domain_of(7))
    assert set(values[COUNT].to_pylist()) == {1}
    kept = np.bincount([codes[n] for n in rows["n"].to_pylist()], minlength=7)
    assert (kept == np.bincount(codes, minlength=7) - withheld).all()
    sizes_of_groups = {len(numbers) for numbers in members(rows).values()}
    assert len(members(rows)) == groups
    assert sizes_of_groups <= {rows.num_rows // groups, -(-rows.num_rows // groups)}


@pytest.mark.parametrize("withheld", [None, [4, 0, 1, 0]], ids=["all", "some withheld"])
def test_batches_and_parts_of_rows_do_not_matter(withheld: list[int] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words belong to rows. (The parts of the deal are set by the number of rows alone.)"""
    codes = np.random.default_rng(3).integers(0, 4, 200).tolist()
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=30)
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=50)
    first = dealt(codes, 60, withheld=withheld, sizes=(200,))
    for rows_of_part, sizes in ((7, (1,)), (20, (64, 5)), (200, (199, 1))):
        set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=rows_of_part)
        again = dealt(codes, 60, withheld=withheld, sizes=sizes)
        assert [t.to_pylist() for t in again] == [t.to_pylist() for t in first]
    other = dealt(codes, 60, withheld=withheld, seed=2)
    assert other[0].to_pylist() != first[0].to_pylist()


def test_groups_of_large_domains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes of one, two and four bytes, each value once or twice, some values in no row."""
    for values in (200, 300, 70_000):
        codes = np.random.default_rng(1).permutation(np.repeat(np.arange(0, values, values // 100), 2)).tolist()
        set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=50)
        rows, table = dealt(codes, len(codes) // 4, values=values)
        check_tables(codes, rows, table, domain_of(values))


def test_a_table_that_has_changed_is_refused() -> None:
    domain, key = domain_of(2), SecretKey.from_seed(1)
    codes, counts, none = np.array([0, 1, 0, 1], dtype=np.int32), np.array([2, 2]), np.array([0, 0])
    batches = batches_of(codes.tolist(), [3], domain)
    other = np.array([0, 1, 0, 0], dtype=np.int32)
    exchanged = batches_of([1, 0, 0, 1], [3], domain)  # as many of each value, in other rows
    unknown = batches_of([0, 1, 0, 2], [3], domain_of(3))
    longer = [*batches, batches[0]]
    for rows, stream in ((batches, other), *((rows, codes) for rows in (batches[:1], longer, exchanged, unknown))):
        tables = anatomized(
            worded(rows, key), with_words([stream], key), domain, counts, none, 2, {}, key, Path("/tmp")
        )
        with pytest.raises(PlanMismatch, match="not the one that was planned"):
            list(tables.rows)
    for rows in (batches[:1], longer, exchanged, unknown):
        tables = regrouped(worded(rows, key), codes, np.array([0, 0, 1, 1]), domain, {}, key, Path("/tmp"))
        with pytest.raises(PlanMismatch):
            list(tables.rows)


@pytest.mark.parametrize("seed", range(20))
def test_one_exchanged_value_among_many_is_seen(seed: int, tmp_path: Path) -> None:
    """By a hash of 64 bits, over batches of any size."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(np.arange(5, dtype=np.int32), 40))
    deal = Groups.drawn(np.bincount(codes), np.zeros(5, dtype=np.int64), 50, SecretKey.from_seed(seed))
    first, second = (int(rng.choice(np.flatnonzero(codes == value))) for value in rng.permutation(5)[:2])
    changed = codes.copy()
    changed[[first, second]] = codes[[second, first]]
    for again, refused in ((codes, False), (changed, True)):
        key = SecretKey.from_seed(seed)
        rows = DealtRows(deal, key, tmp_path)
        rows.deal(with_words([codes], key))
        for piece, words in with_words([again[piece] for piece in cut(200, [30, 7])], key):
            rows.next(piece, words)
        with pytest.raises(PlanMismatch) if refused else nullcontext():
            rows.finish()
        rows.close()


# --- groups that are given ------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 4)), min_size=1, max_size=60), st.integers(1, 20))
def test_given_groups_are_published_as_they_are(records: list[tuple[int, int]], size: int) -> None:
    """Groups may hold a value more than once, and numbers may be unused."""
    codes, groups = [r[0] for r in records], [r[1] for r in records]
    if max(groups) == WITHHELD:
        groups[0] = 0
    domain = domain_of(4)
    with pytest.MonkeyPatch.context() as patch:
        set_constants(patch, "sfumato.engines.embedded", PART_ROWS=8)
        set_constants(patch, "sfumato.engines", LINES_AT_ONCE=5)
        key = SecretKey.from_seed(1)
        tables = regrouped(
            worded(batches_of(codes, [size], domain), key), np.array(codes, dtype=np.int32), np.array(groups), domain,
            {}, key, Path("/tmp"),
        )  # fmt: skip
        rows, values = whole(tables.rows), whole(tables.values)
    check_tables(codes, rows, values, domain)
    assert {n: group for group, numbers in members(rows).items() for n in numbers} == {
        n: group + 1 for n, group in enumerate(groups) if group != WITHHELD
    }


def test_groups_without_a_row_give_no_tables() -> None:
    domain, codes = domain_of(2), [0, 1, 0]
    withheld, key = np.full(3, WITHHELD), SecretKey.from_seed(1)
    batches = worded(batches_of(codes, [2], domain), key)
    tables = regrouped(batches, np.array(codes), withheld, domain, {}, key, Path("/tmp"))
    assert (list(tables.rows), list(tables.values)) == ([], [])


# --- chance ---------------------------------------------------------------------------------------------------------


def surprise(found: Counter[Any], outcomes: list[Any]) -> float:
    """Return the p-value of Pearson's test that all outcomes are equally likely; no other may occur."""
    assert set(found) <= set(outcomes)
    expected = found.total() / len(outcomes)
    statistic = sum((found[outcome] - expected) ** 2 / expected for outcome in outcomes)
    return float(chi2.sf(statistic, len(outcomes) - 1))


def in_file_order(classes: Any, draw: Callable[[int], Any]) -> Any:
    """An order that chance has no part in."""
    return stable_order(classes)


def partners(seeds: int) -> float:
    """Return the p-value that the rows of the first group are any one of each of three pairs, all equally likely."""
    codes = [0, 1, 2, 0, 1, 2]
    found: Counter[Any] = Counter()
    for seed in range(seeds):
        groups = members(dealt(codes, 2, seed=seed, sizes=(4,))[0])
        found[tuple(sorted(groups[1]))] += 1
    outcomes = [tuple(sorted(choice)) for choice in product((0, 3), (1, 4), (2, 5))]
    return surprise(found, outcomes)


@pytest.mark.parametrize("part", [2, slow(100)], ids=["two rows a part", "one part"])
def test_every_deal_is_equally_likely(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight ways to deal three pairs to two groups, each seen 50 times on average; false alarm 1e-6."""
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=part)
    assert partners(400) > ALARM


def test_a_deal_in_file_order_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "random_order", in_file_order)
    assert partners(400) < ALARM


def records_by_group(seeds: int, folder: Path) -> float:
    """Return the p-value that the records of each value come to its groups in any order, all equally likely.

    Values with 3, 3 and 2 records, 4 groups in 2 batches: which groups a value has is up to the orders of the values,
    but its records, in the order of their groups, are one of 6 * 6 * 2 orders, whatever the groups are.
    """
    codes, found = np.array([0, 1, 2, 0, 1, 0, 1, 2], dtype=np.int32), Counter[Any]()
    for seed in range(seeds):
        key = SecretKey.from_seed(seed)
        deal = Groups.drawn(np.bincount(codes), np.zeros(3, dtype=np.int64), 4, key)
        assert deal.deal.runs.batches.tolist() == [2]
        rows = DealtRows(deal, key, folder)
        rows.deal(with_words([codes], key))
        groups = rows.next(*with_words([codes], key)[0])
        rows.close()
        found[tuple(tuple(np.argsort(groups[codes == value]).tolist()) for value in range(3))] += 1
    return surprise(found, list(product(permutations(range(3)), permutations(range(3)), permutations(range(2)))))


@pytest.mark.parametrize("part", [2, slow(100)], ids=["two rows a part", "one part"])
def test_inside_groups_all_assignments_are_equally_likely_also_with_batches(
    part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """72 ways, each seen 20 times on average; false alarm 1e-6."""
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=part)
    set_constants(monkeypatch, "sfumato.values", BATCH_GROUPS=2)
    assert records_by_group(1440, tmp_path) > ALARM


def test_batches_in_file_order_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.values", BATCH_GROUPS=2)
    monkeypatch.setattr(grouping, "random_order", in_file_order)
    assert records_by_group(1440, tmp_path) < ALARM


def withheld_rows(seeds: int) -> float:
    codes = [0, 0, 1, 0, 0, 1]
    found: Counter[Any] = Counter()
    for seed in range(seeds):
        kept = dealt(codes, 2, seed=seed, withheld=[2, 0], sizes=(5,))[0]["n"].to_pylist()
        found[tuple(sorted(set(range(6)) - set(kept)))] += 1
    outcomes = [(i, j) for i in (0, 1, 3, 4) for j in (0, 1, 3, 4) if i < j]
    return surprise(found, outcomes)


@pytest.mark.parametrize("part", [2, slow(100)], ids=["two rows a part", "one part"])
def test_exactly_as_many_are_withheld_and_all_choices_are_equally_likely(
    part: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Six pairs of four, each seen 60 times on average; false alarm 1e-6."""
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=part)
    assert withheld_rows(360) > ALARM


def test_withholding_the_first_rows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "random_order", in_file_order)
    assert withheld_rows(360) < ALARM


def orders_inside(seeds: int) -> float:
    found: Counter[Any] = Counter(
        tuple(dealt([0, 1, 2, 3], 1, seed=seed, sizes=(3,))[0]["n"].to_pylist()) for seed in range(seeds)
    )
    return surprise(found, list(permutations(range(4))))


def test_every_order_inside_a_group_is_equally_likely() -> None:
    """24 orders, each seen 20 times on average; false alarm 1e-6."""
    assert orders_inside(480) > ALARM


def test_an_order_inside_groups_that_chance_has_no_part_in_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anatomy, "random_order", in_file_order)
    assert orders_inside(480) < ALARM


def values_by_place() -> float:
    """Return the p-value that a row's value and its place in its group are independent, in a sorted table.

    400 rows of 5 values, 80 groups in parts of about 40 rows, 25 keys: a group has each value once, so that 2,000
    groups have it at each of the 5 places 400 times on average.
    """
    codes = np.repeat(np.arange(5), 80).tolist()
    found = np.zeros((5, 5))
    for seed in range(25):
        for numbers in members(dealt(codes, 80, seed=seed, sizes=(33, 7))[0]).values():
            found[[codes[n] for n in numbers], range(5)] += 1
    # rows and columns have fixed sums: a random permutation matrix for each group, 16 degrees of freedom
    statistic = float(((found - 400) ** 2 / 400).sum() * 4 / 5)
    return float(chi2.sf(statistic, 16))


def test_the_place_of_a_row_in_its_group_tells_nothing_of_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm 1e-6."""
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=50)
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=40)
    assert values_by_place() > ALARM


def test_groups_in_the_order_of_the_deal_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sorted table, rows of a group as they come: the place tells the value."""
    monkeypatch.setattr(anatomy, "random_order", in_file_order)
    assert values_by_place() < ALARM


def test_every_batch_has_the_values_in_a_random_order() -> None:
    """Six orders of three values, each seen 40 times on average in each of three batches, and 36 orders of both first
    batches; false alarm 1e-6."""
    counts, none = np.full(3, 24), np.zeros(3, dtype=np.int64)
    deals = [Groups.drawn(counts, none, 24, SecretKey.from_seed(seed)).deal for seed in range(360)]
    orders = [[tuple((batch // 3).tolist()) for batch in np.split(deal.order, 3)] for deal in deals]
    for batch in range(3):
        assert surprise(Counter(of[batch] for of in orders), list(permutations(range(3)))) > ALARM
    assert surprise(Counter((of[0], of[1]) for of in orders), list(product(permutations(range(3)), repeat=2))) > ALARM


# --- words ----------------------------------------------------------------------------------------------------------

near_words = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 40), st.integers(2**64 - 40, 2**64 - 1))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), near_words), min_size=1, max_size=50))
def test_rows_are_sorted_by_class_and_whole_word(rows: list[tuple[int, int]]) -> None:
    """Leading bits of small words are equal, so that these are decided by the rest; equal pairs are refused."""
    classes, words = np.array([r[0] for r in rows]), np.array([r[1] for r in rows], dtype=np.uint64)
    order = order_by_word(classes, words)
    if len(set(rows)) < len(rows):
        assert order is None
    else:
        assert order is not None
        assert [rows[k] for k in order] == sorted(rows)
    assert [rows[k][0] for k in stable_order(classes)] == sorted(classes.tolist())
    assert stable_order(classes).tolist() == np.argsort(classes, kind="stable").tolist()


def test_equal_words_are_drawn_again() -> None:
    drawn = [np.array(words, dtype=np.uint64) for words in ([7, 7, 1], [5, 5, 2], [9, 3, 1])]
    assert random_order(np.zeros(3, dtype=np.int64), drawn.__getitem__).tolist() == [2, 1, 0]
    assert random_order(np.array([0, 1, 0]), drawn.__getitem__).tolist() == [2, 0, 1]  # of other classes: no tie


def test_a_deal_whose_words_tie_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first words of every order are all equal: nothing is lost, and the deal is that of the next words."""
    words, codes = SecretKey.words, [0, 1, 2, 0, 1, 2, 3]
    streams = constant("sfumato.engines", "STREAMS_OF_PART")

    def tied(self: SecretKey, step: Step, file: int, start: int, count: int) -> Any:
        first = file % streams == (1 if file < streams and step == Step.ANATOMY else 0)
        is_part = step == Step.ANATOMY and file == 0
        return words(self, step, file, start, count) * np.uint64(is_part or not first)

    monkeypatch.setattr(SecretKey, "words", tied)
    rows, values = dealt(codes, 2)
    check_tables(codes, rows, values, domain_of(4))
    assert partners(400) > ALARM


# --- tables as they are read ----------------------------------------------------------------------------------------


def from_source(path: Path, policy: Any, groups: Callable[[int], int], folder: Path) -> tuple[Any, Any, Any]:
    table, key = scan(path, policy), SecretKey.from_seed(1)
    counted = profile(table)
    mapper = RowMapper(table.schema, table.source, (), key, beside=dealing_word(key))
    values = sensitive_values(table.source, table.schema, counted.domain, key)
    tables = anatomized(
        (batch for _, batch in mapper.batches()), values, counted.domain, counted.counts,
        np.zeros_like(counted.counts), groups(counted.rows), integer_types(counted.domain.parts, table.source), key,
        folder,
    )  # fmt: skip
    return whole(tables.rows), whole(tables.values), counted


@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_files_of_both_kinds(format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With identifiers, rows that a missing value leaves out, and a missing value that is a value of its own."""
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=64)
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=40)
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=100)
    table = patients()
    gaps = {"sex": 11, "disease": 9}
    for name, every in gaps.items():
        column = [None if k % every == 0 else v for k, v in enumerate(table[name].to_pylist())]
        table = table.set_column(table.column_names.index(name), name, pa.array(column))
    path = tmp_path / f"patients.{format}"
    (pq.write_table if format == "parquet" else pacsv.write_csv)(table, path)
    policy = make_policy(
        ROLES | {"sex": "quasi_identifier; missing = 'drop'", "disease": "sensitive; missing = 'category'"}
    )
    rows, values, counted = from_source(path, policy, lambda rows: rows // 2, tmp_path)
    kept = {str(r["age"]): r for r in table.to_pylist() if r["sex"] is not None}
    assert rows.column_names == ["age", "sex", GROUP]
    assert sorted(map(str, rows["age"].to_pylist())) == sorted(kept)
    assert set(counted.domain.parts[0].values) == {*DISEASES, None}
    expected: Counter[Any] = Counter()
    for row in rows.to_pylist():
        assert row["sex"] == kept[str(row["age"])]["sex"]
        expected[row[GROUP], kept[str(row["age"])]["disease"]] += 1
    assert set(expected.values()) == {1}
    assert {(line[GROUP], line["disease"]): line[COUNT] for line in values.to_pylist()} == expected


def test_several_sensitive_columns(tmp_path: Path) -> None:
    table = patients(60)
    pq.write_table(table, tmp_path / "t.parquet")
    policy = make_policy(ROLES | {"sex": "sensitive"})
    rows, values, _ = from_source(tmp_path / "t.parquet", policy, lambda rows: rows // 2, tmp_path)
    assert rows.column_names == ["age", GROUP]
    assert values.column_names == [GROUP, "sex", "disease", COUNT]
    true = {r["age"]: (r["sex"], r["disease"]) for r in table.to_pylist()}
    found = Counter((row[GROUP], *true[row["age"]]) for row in rows.to_pylist())
    assert found == {(v[GROUP], v["sex"], v["disease"]): v[COUNT] for v in values.to_pylist()}


# --- what could leak ------------------------------------------------------------------------------------------------


def test_the_spills_have_no_names_and_are_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modes 0600, no name from the first byte on, no sensitive value with the rows, closed at the end and on errors."""
    codes, domain = [0, 1, 2] * 20, domain_of(3)
    opened: list[SpillFile] = []
    append = SpillFile.append

    def watching(self: SpillFile, message: Any) -> Any:
        if self not in opened:
            opened.append(self)
        status = os.fstat(self._file.fileno())
        assert (status.st_mode & 0o777, status.st_nlink) == (0o600, 0)
        assert not list(tmp_path.iterdir())
        assert b"disease" not in bytes(message)
        return append(self, message)

    monkeypatch.setattr(SpillFile, "append", watching)
    counts, none = np.bincount(codes), np.zeros(3, dtype=np.int64)
    key = SecretKey.from_seed(1)
    stream = with_words([np.array(codes, dtype=np.int32)], key)
    whole_table = worded(batches_of(codes, [7], domain), key)
    for batches, abandoned in ((whole_table, False), (whole_table[:2], True), (whole_table, True)):
        opened.clear()
        tables = anatomized(batches, stream, domain, counts, none, 20, {}, key, tmp_path)
        try:
            next(tables.rows)
            assert abandoned or not list(tables.rows)
        except PlanMismatch:
            assert len(batches) == 2
        tables.rows.close()  # type: ignore[attr-defined]
        assert len(opened) == 2
        assert all(file._file.closed for file in opened)


def test_deal_and_order_have_words_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No word is used twice: not by two steps, nor by the parts, the values and the rows of the deal."""
    used: Counter[tuple[int, int, int]] = Counter()
    words = SecretKey.words

    def noted(self: SecretKey, step: Step, file: int, start: int, count: int) -> Any:
        used.update((int(step), file, row) for row in range(start, start + count))
        return words(self, step, file, start, count)

    monkeypatch.setattr(SecretKey, "words", noted)
    set_constants(monkeypatch, "sfumato.engines.deal", PART_ROWS=10)
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=10)
    dealt([0, 1, 2, 3] * 30, 30, sizes=(11,))
    again = {place for place, times in used.items() if times > 1}
    assert again == {(int(Step.ANATOMY), 0, row) for row in range(120)}  # to which part a row goes: asked twice
    assert max(used.values()) == 2


def test_groups_are_given_in_pieces_of_any_size(tmp_path: Path) -> None:
    codes = np.random.default_rng(1).integers(0, 5, 300).astype(np.int32)
    deal = Groups.drawn(np.bincount(codes), np.zeros(5, dtype=np.int64), 90, SecretKey.from_seed(1))
    seen = []
    for sizes in ([300], [1], [7, 100]):
        key = SecretKey.from_seed(1)
        rows = DealtRows(deal, key, tmp_path)
        rows.deal(with_words([codes], key))
        pieces = with_words([codes[piece] for piece in cut(300, sizes)], key)
        seen.append(np.concatenate([rows.next(*piece) for piece in pieces]))
        assert rows.next(codes[:0], pieces[0][1][:0]).size == 0
        rows.finish()
        with pytest.raises(PlanMismatch):
            rows.next(codes[:1], pieces[0][1][:1])
        rows.close()
    assert all((groups == seen[0]).all() for groups in seen)
