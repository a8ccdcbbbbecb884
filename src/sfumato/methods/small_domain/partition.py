"""Perturbation Partitioning (SDR §5): cut the table into sub-tables, each with its own small domain and retention.

    as-published   the paper's three phases to the letter: balancing, Reverse Cuthill-McKee, the cheapest merging under
                   eps(Part), guarded by SDR Def. 2 (i), rho1_i < rho2, which the printed program forgets
    proved         the valid bound as the cost, a minimum sub-table size, the better of two orders, then local search

Sub-table T_i holds the values SA_i, m_i = |SA_i|, and is perturbed uniformly within them:

    rho1_i  = max f_x(T_i)/|T_i| over x in SA'                        SDR Eq. (9)
    gamma_i = rho2/rho1_i (1 - rho1_i)/(1 - rho2)                     SDR Eq. (10); none where T_i has no SA' value
    p_i     = (gamma_i - 1)/(m_i - 1 + gamma_i)                       SDR Eq. (4)

    eps(Part)    = 2 sqrt(ln(2/delta))/|T| sum sqrt|T_i|/p_i          SDR Eq. (12)
    valid bound  = sqrt(ln(2/delta)/2 sum |T_i|/p_i^2)/|T|            Hoeffding on the sum over all sub-tables

Both bound the error of one value's estimated share with confidence 1 - delta; the second is the smaller by a factor of
at least 2 sqrt 2. A value that no record has belongs to no sub-table: it is in no SA_i, is never published, and the
release so tells that it does not occur.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.claims.single_columns import totals_and_tops
from sfumato.errors import Infeasible
from sfumato.methods.small_domain.groups import Groups, initial_groups, reverse_cuthill_mckee
from sfumato.methods.small_domain.merging import (
    Merging,
    breaches,
    cheapest_merging,
    printed_cost,
    proved_cost,
    published_cost,
    shape_of,
)
from sfumato.methods.small_domain.search import WORK, Found, improve
from sfumato.show.words import share
from sfumato.values.arrays import Assurance, BoolArray, IntArray
from sfumato.values.matrix.retention import amplification, uniform_retention

AS_PRINTED = (
    "The dynamic program as printed (SDR Eq. (14)) would take a sub-table with rho1_i >= rho2, whose negative error "
    "bound it prefers; the guard of SDR Def. 2 (i) is applied here."
)

Blocks = tuple[Sequence[IntArray], list[str]]  # the initial groups of each block, and what is to be said of them

MINIMUM_SIZE = 1000
"""Records in a sub-table at least, for `proved`: the smaller it is, the more its exact composition tells."""


@dataclass(frozen=True, eq=False)
class Block:
    """A sub-table T_i: which values, how many records of each, and how they are perturbed."""

    codes: IntArray  # SA_i, ascending
    counts: IntArray  # the quota of records of each; together exactly |T_i|
    rho1: Fraction | None  # None: no value of SA' in it
    gamma: Fraction | None  # None: no requirement, nothing is perturbed
    retention: float

    @property
    def size(self) -> int:
        """|T_i|."""
        return int(self.counts.sum())

    @property
    def domain_size(self) -> int:
        """m_i."""
        return int(self.codes.size)

    @property
    def diagonal(self) -> float:
        """P_ii = p_i + (1 - p_i)/m_i."""
        return self.retention + (1 - self.retention) / self.domain_size


@dataclass(frozen=True)
class Partition:
    """The sub-tables, with what the plan shows of them."""

    blocks: tuple[Block, ...]
    whole: Block  # the table as one block, with its own rho1 by Eq. (9), which may be below the requirement's
    assurance: Assurance
    rho1: Fraction
    rho2: Fraction
    delta: Fraction
    minimum_size: int  # 0 for as-published
    groups: Groups  # the initial ones, with SA', the values that the guarantee is for
    notes: tuple[str, ...] = ()

    @property
    def pays(self) -> bool:
        """Whether there is more than one sub-table; otherwise all is perturbed alike, as `whole`."""
        return len(self.blocks) > 1

    @property
    def size(self) -> int:
        """|T|."""
        return self.whole.size

    @property
    def uniform_retention(self) -> float:
        """p of plain uniform perturbation of the values that occur, with the rho1 of the requirement: SDR Eq. (4), (6).

        `whole.retention` is larger where no SA' frequency is as large as rho1.
        """
        return uniform_retention(float(amplification(self.rho1, self.rho2)), self.whole.domain_size)

    @property
    def _log_two_over_delta(self) -> float:
        return math.log(2 * self.delta.denominator) - math.log(self.delta.numerator)  # of integers, however small it is

    @property
    def eps(self) -> float:
        """eps(Part) = 2 sqrt(ln(2/delta))/|T| sum sqrt|T_i|/p_i: SDR Eq. (12)."""
        spread = sum(math.sqrt(block.size) / block.retention for block in self.blocks)
        return 2 * math.sqrt(self._log_two_over_delta) / self.size * spread

    @property
    def valid_bound(self) -> float:
        """The bound on |f* - f|/|T| of any one value that holds with confidence 1 - delta.

        f* - f = sum_i (Y_i - E Y_i)/p_i, a sum of |T| independent terms, of which those of T_i span 1/p_i:
        Hoeffding gives Pr[|f* - f| >= s] <= 2 exp(-2 s^2 / sum |T_i|/p_i^2).
        """
        spread = sum(block.size / block.retention**2 for block in self.blocks)
        return math.sqrt(self._log_two_over_delta / 2 * spread) / self.size

    @property
    def mean_retention(self) -> float:
        """The mean of p_i over the sub-tables, each counted once: SDR Table 2."""
        return float(np.mean([block.retention for block in self.blocks]))

    @property
    def record_retention(self) -> float:
        """The mean of p_i over the records."""
        return _mean_retention(self.blocks)


def partition(
    counts: npt.ArrayLike,
    rho1: Fraction,
    rho2: Fraction,
    *,
    assurance: Assurance = "proved",
    delta: Fraction = Fraction(1, 20),
    minimum_size: int = MINIMUM_SIZE,
    work: int = WORK,
    columns: Sequence[int] = (),
) -> Partition:
    """Return the sub-tables of a table with these counts (value -> records) under (rho1, rho2)-privacy.

    SA' = {x : 0 < f_x/|T| <= rho1} are the values protected, in exact integers. Raises `Infeasible` if SA' is empty.
    It must be that rho1 < rho2; then rho1 of the whole table is below rho2 too. With fewer records than `minimum_size`
    the table stays whole. `work` bounds the local search. `columns` are the numbers of values of several sensitive
    columns, whose combinations are counted: then proved sub-tables also bound each value of one column whose share is
    at most rho1.

    >>> found = partition([12, 8, 6, 5, 4, 3, 1, 1, 1, 1], Fraction(1, 3), Fraction(2, 3), assurance="as-published")
    >>> [(b.size, b.domain_size, str(b.gamma)) for b in found.blocks]  # SDR Example 1
    [(36, 6, '4'), (6, 6, '10')]
    """
    table = np.asarray(counts, dtype=np.int64)
    protected = at_most(rho1, table)
    _check_feasible(table, protected, rho1, rho2)
    groups = initial_groups(table, protected)
    least = 0 if assurance == "as-published" else minimum_size
    statements = Statements.of(protected, columns if assurance == "proved" else (), table, rho1)
    found = _as_published(groups, rho2) if assurance == "as-published" else _proved(groups, rho2, least, work)
    members, notes = _bounding_columns(groups, found, rho2, statements) if statements.values else found
    return Partition(
        blocks=tuple(_block(groups, block, rho2, statements) for block in members),
        whole=_block(groups, np.arange(groups.number), rho2, statements),
        assurance=assurance,
        rho1=rho1,
        rho2=rho2,
        delta=delta,
        minimum_size=least,
        groups=groups,
        notes=tuple(notes),
    )


def _as_published(groups: Groups, rho2: Fraction) -> Blocks:
    order = reverse_cuthill_mckee(groups)
    merging = cheapest_merging(groups, order, published_cost(rho2))
    notes = _window_notes(merging, groups)
    split = _breach(groups, np.arange(groups.number)[:, None], rho2)
    if split:  # a union's rho1 is at most the largest of its parts': where no single group breaches, no block does
        printed = cheapest_merging(groups, order, printed_cost(rho2))
        split = _breach(groups, printed.members(), rho2)
    return merging.members(), [*notes, AS_PRINTED] if split else notes


def _breach(groups: Groups, blocks: Iterable[IntArray], rho2: Fraction) -> bool:
    return any(breaches(shape_of(groups, members), rho2)[0] for members in blocks)


def _proved(groups: Groups, rho2: Fraction, minimum_size: int, work: int) -> Blocks:
    cost = proved_cost(rho2, min(minimum_size, int(groups.sizes.sum())))
    orders = reverse_cuthill_mckee(groups), np.arange(groups.number)  # the latter as they were made
    starts = sorted((cheapest_merging(groups, order, cost) for order in orders), key=lambda start: start.cost)
    tries: list[Found] = []
    for start in starts:
        left = work - sum(found.work for found in tries)
        if left > 0 and not any(found.optimal for found in tries):
            tries.append(improve(groups, start.members(), cost, left))
    notes = [*_window_notes(starts[0], groups), _search_note(tries)]
    best = min(tries, key=lambda found: found.cost, default=None)
    if best is None or best.cost >= starts[0].cost:
        return starts[0].members(), notes
    return best.members, notes


def _bounding_columns(groups: Groups, found: Blocks, rho2: Fraction, statements: Statements) -> Blocks:
    """Return sub-tables that can bound statements about one column, with what that costs."""
    members = merged_until_bounded(groups, found[0], rho2, statements)
    before = [_block(groups, block, rho2, Statements(groups.protected)) for block in found[0]]
    after = [_block(groups, block, rho2, statements) for block in members]
    if [block.gamma for block in before] == [block.gamma for block in after]:
        return found
    note = (
        f"Each sensitive column is bounded by itself too: {len(before):,} sub-tables became {len(after):,}, and the "
        f"records keep their values with {share(_mean_retention(after), 4)} on average, not "
        f"{share(_mean_retention(before), 4)}. They were merged one by one; a better partition may exist."
    )
    return members, [*(note for note in found[1] if "smaller bound" not in note), note]


def _mean_retention(blocks: Sequence[Block]) -> float:
    return sum(block.retention * block.size for block in blocks) / sum(block.size for block in blocks)


def _window_notes(merging: Merging, groups: Groups) -> list[str]:
    if merging.window >= groups.number:
        return []
    return [
        f"{groups.number:,} initial groups are too many to look at every block of neighbours: blocks of more than "
        f"{merging.window:,} groups were left out, except the whole table."
    ]


def _search_note(tries: Sequence[Found]) -> str:
    if any(found.optimal for found in tries):
        return "No partition of the initial groups into sub-tables of the minimum size has a smaller bound."
    if tries and all(found.finished for found in tries):
        return "Local search found no better partition; it is not known to be the best."
    spent = sum(found.work for found in tries)
    return f"Local search gave up after {spent:,} cells of work; a better partition may exist."


def _block(groups: Groups, members: IntArray, rho2: Fraction, statements: Statements) -> Block:
    codes, counts = groups.union(members)
    codes.flags.writeable = counts.flags.writeable = False
    gamma = statements.gamma(codes, counts, rho2)
    if gamma is None:
        return Block(codes, counts, None, None, 1.0)
    rho1 = rho2 / (rho2 + gamma * (1 - rho2))  # the largest share of an SA' value, or more if a column asks for it
    return Block(codes, counts, rho1, gamma, float((gamma - 1) / (codes.size - 1 + gamma)))


# --- statements about one column -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Statements:
    """What is protected: which codes, and for each of several columns which of its values, with the value of a code.

    Statements about one of several columns ("race = Black") are bounded in every sub-table like single values.
    Let A be all combinations with one value of one column, C_A how many records of a sub-table with n records they
    have, and c_A the largest number of records of one of them. A sub-table is perturbed uniformly: the diagonal of its
    matrix is gamma times every other entry. Who believes by the shares in the sub-table has, after a published y, the
    odds of A

        (C_A + (gamma - 1) c_y) / (n - C_A)  if y is in A,      C_A / (n - C_A + (gamma - 1) c_y)  otherwise.

    The second is below the first and below the odds of the share. So the belief in A is at most rho2 if and only if

        (gamma - 1) (1 - rho2) c_A  <=  rho2 n - C_A,

    which for a single value, C_A = c_A, is SDR Eq. (10). A is protected if its share of the table is at most rho1 (then
    so are its combinations). A block where C_A >= rho2 n has no gamma: it is merged with others. The whole table is no
    such block, since C_A <= rho1 n there and rho1 < rho2.
    """

    codes: BoolArray  # [codes]
    values: tuple[IntArray, ...] = ()  # [codes], of each column
    protected: tuple[BoolArray, ...] = ()  # [values of the column]

    @classmethod
    def of(cls, codes: BoolArray, sizes: Sequence[int], counts: IntArray, rho1: Fraction) -> Statements:
        """Return those of the columns with so many values each; none for a single column."""
        if len(sizes) < 2:
            return cls(codes)
        values = tuple(np.asarray(v) for v in np.unravel_index(np.arange(counts.size), tuple(sizes)))
        return cls(codes, values, tuple(at_most(rho1, np.bincount(v, counts)) for v in values))

    def gamma(self, codes: IntArray, counts: IntArray, rho2: Fraction) -> Fraction | None:
        """Return the largest gamma of a block that bounds all that is protected; None: any. None does if it is <= 1.

        gamma = 1 + min over A of (rho2 n - C_A) / ((1 - rho2) c_A)
        """
        rows, most = int(counts.sum()), int(counts[self.codes[codes]].max(initial=0))
        bounded = [*([(most, most)] if most else []), *self._protected(codes, counts)]
        return 1 + min((rho2 * rows - total) / ((1 - rho2) * top) for total, top in bounded) if bounded else None

    def slack(self, codes: IntArray, counts: IntArray, rho2: Fraction) -> float:
        """Return the least rho2 - C_A/n: by how much a block is away from having no gamma."""
        largest = max((total for total, _ in self._protected(codes, counts)), default=0)
        return float(rho2 - Fraction(largest, int(counts.sum())))

    def _protected(self, codes: IntArray, counts: IntArray) -> Iterator[tuple[int, int]]:
        """Yield C_A and c_A of each protected statement that has records in a block."""
        for values, protected in zip(self.values, self.protected, strict=True):
            totals, tops = totals_and_tops(values[codes], counts, protected.size)
            there = protected & (totals > 0)
            yield from zip(totals[there].tolist(), tops[there].tolist(), strict=True)


def at_most(rho1: Fraction, counts: IntArray) -> BoolArray:
    """Return what occurs and is protected, f <= rho1 |T| for a count f: exactly, as f is an integer."""
    return (counts > 0) & (counts <= math.floor(rho1 * int(counts.sum())))


def merged_until_bounded(
    groups: Groups, members: Sequence[IntArray], rho2: Fraction, statements: Statements
) -> list[IntArray]:
    """Return the blocks, the dearest merged with others as long as that costs less; one block if that does.

    The cost of a block is size/p^2, as of the partition itself; infinite where no gamma bounds the statements.
    """

    def cost(block: IntArray) -> float:
        codes, counts = groups.union(block)
        gamma = statements.gamma(codes, counts, rho2)
        if gamma is None:
            return float(counts.sum())
        return math.inf if gamma <= 1 else float(counts.sum() * (1 + codes.size / (gamma - 1)) ** 2)

    blocks, costs = list(members), [cost(block) for block in members]
    while len(blocks) > 1:
        dearest = max(range(len(blocks)), key=lambda k: costs[k])
        block, before = blocks.pop(dearest), costs.pop(dearest)
        merged = [np.concatenate([block, other]) for other in blocks]
        after = [cost(both) for both in merged]
        added = [new - old if math.isfinite(new) else math.inf for new, old in zip(after, costs, strict=True)]
        best = min(range(len(merged)), key=lambda k: added[k])
        if added[best] >= before and math.isfinite(before):
            blocks, costs = [*blocks, block], [*costs, before]
            break
        if added[best] == math.inf:  # no partner mends it: take the one that brings it nearest
            best = max(range(len(merged)), key=lambda k: statements.slack(*groups.union(merged[k]), rho2))
        blocks[best], costs[best] = merged[best], after[best]
    whole = np.concatenate(blocks)
    return blocks if sum(costs) < cost(whole) else [whole]


# --- requests that cannot be met ----------------------------------------------------------------------------------


def _check_feasible(table: IntArray, protected: BoolArray, rho1: Fraction, rho2: Fraction) -> None:
    """Raise unless several values occur, and SA' has one."""
    if np.count_nonzero(table) == 1:
        raise Infeasible("One value only occurs: every release tells it of everybody.", "Choose another column.")
    if not protected.any():
        least = Fraction(int(table[table > 0].min()), int(table.sum()))
        raise Infeasible(
            f"No value is protected: the rarest is {_shown(least)} of the table, above rho1 = {_shown(rho1)}.",
            f"Ask for rho1 >= {_shown(least)}" + ("." if least < rho2 else f", with rho2 above {_shown(least)}."),
        )


def _shown(number: Fraction) -> str:
    return f"{number} ({100 * float(number):.4g}%)"
