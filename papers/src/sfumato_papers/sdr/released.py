"""The three methods that SDR compares, carried out on a table in memory, and the answers that their releases give.

    PP    Perturbation Partitioning: sub-tables, each perturbed within its own values            SDR section 5
    UP    uniform perturbation of the whole table                                                SDR Eq. (5)
    Ana   Anatomy, where needed after suppression of the most frequent values                    SDR 6.3, 10.10

The measured risk is how often the best guess of a record's value is right, by someone who sees the record's published
value and sub-table, or its group, and knows the true frequencies: sum_y max_x f_x P[y, x] in a sub-table, one record in
each group, and the most frequent of the values that are withheld for a record that is missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.analyst.grouped.compositions import Stratum
from sfumato.analyst.randomized import inverse
from sfumato.engines.deal.buckets import Groups, random_order
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.methods.small_domain.partition import Block
from sfumato.methods.suppression.levels import Levels
from sfumato.values.matrix.retention import PerturbationMatrix, uniform_retention
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD
from sfumato_papers.sdr.census import Census, Floats, Ints
from sfumato_papers.sdr.queries import Pool
from sfumato_papers.two_tables import DealtTable

LARGEST_GAMMA, PRECISION = 1 << 10, Fraction(1, 1 << 16)
"""Up to where uniform perturbation with a given risk is looked for, and how near it must come."""
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Perturbed:
    """Sub-tables with their matrices; one of them for uniform perturbation."""

    blocks: tuple[Block, ...]

    @cached_property
    def matrices(self) -> tuple[PerturbationMatrix, ...]:
        """Of each sub-table, in the integers that are sampled."""
        return tuple(uniform_matrix(block.gamma, block.domain_size) for block in self.blocks)

    def answers(self, table: Census, pool: Pool, key: SecretKey) -> Floats:
        """Publish the table, and estimate: the sum of the inverse estimates of all sub-tables (SDR 10.10)."""
        labels = self._dealt(table, key)
        published = self._sampled(table, labels, key)
        counted = pool.counted(labels * table.values + published, len(self.blocks) * table.values)
        counted = counted.reshape(pool.conditions, len(self.blocks), table.values)
        answers = np.zeros_like(pool.true)
        for k, (block, matrix) in enumerate(zip(self.blocks, self.matrices, strict=True)):
            answers[:, block.codes] += inverse.estimate(matrix, counted[:, k][:, block.codes])
        return answers

    def _dealt(self, table: Census, key: SecretKey) -> Ints:
        """Return the sub-table of each record: the records of a value in random order, by the quotas."""
        order = random_order(table.codes, lambda attempt: key.words(Step.ALLOCATE, attempt, 0, table.rows))
        codes = np.concatenate([block.codes for block in self.blocks])
        quotas = np.concatenate([block.counts for block in self.blocks])
        number = np.repeat(np.arange(len(self.blocks)), [block.domain_size for block in self.blocks])
        by_value = np.argsort(codes, kind="stable")
        labels = np.empty(table.rows, dtype=np.int64)
        labels[order] = np.repeat(number[by_value], quotas[by_value])
        return labels

    def _sampled(self, table: Census, labels: Ints, key: SecretKey) -> Ints:
        words, published = key.words(Step.PERTURB, 0, 0, table.rows), np.empty(table.rows, dtype=np.int64)
        for k, (block, matrix) in enumerate(zip(self.blocks, self.matrices, strict=True)):
            own = np.flatnonzero(labels == k)
            inside = np.searchsorted(block.codes, table.codes[own]).astype(np.int32)
            published[own] = block.codes[matrix.sample(inside, words[own])]
        return published

    @property
    def risk(self) -> float:
        """The measured risk."""
        pairs = zip(self.blocks, self.matrices, strict=True)
        right = sum(float((matrix.dense() * block.counts).max(axis=1).sum()) for block, matrix in pairs)
        return right / sum(block.size for block in self.blocks)

    def expected_errors(self, table: Census, pool: Pool) -> Floats:
        """Return the mean absolute error that the matrices give each answer, sqrt(2 Var/pi) as of a normal variable.

        Of the n records of a condition in a sub-table f have the value, both as a random deal has them on average. Var
        is the sum over sub-tables of [(n - f) q (1 - q) + f (p + q)(1 - p - q)]/p^2.
        """
        variance = np.zeros_like(pool.true)
        for block, matrix in zip(self.blocks, self.matrices, strict=True):
            p, q = float(matrix.retention[0]), float(matrix.off_diagonal[0])
            own = pool.true[:, block.codes] * (block.counts / table.counts[block.codes])
            others = own.sum(axis=1, keepdims=True) - own
            variance[:, block.codes] += (others * q * (1 - q) + own * (p + q) * (1 - p - q)) / p**2
        return np.sqrt(2 * variance / np.pi)

    def worst(self, protected: Sequence[int]) -> float:
        """Return the largest posterior of a protected value, by one whose prior are the sub-table's frequencies."""
        return max(
            float(_posterior(block, matrix)[:, np.isin(block.codes, protected)].max(initial=0))
            for block, matrix in zip(self.blocks, self.matrices, strict=True)
        )


def _posterior(block: Block, matrix: PerturbationMatrix) -> Floats:
    joint = matrix.dense() * block.counts
    return np.asarray(joint / joint.sum(axis=1, keepdims=True))


def uniform_with(risk: float, table: Census) -> Perturbed:
    """Return uniform perturbation with this measured risk, by bisection: risk does not fall as gamma grows.

    Where many have it, among them those that only guess the most frequent value, the one that retains most.
    """
    low, high = Fraction(1), Fraction(LARGEST_GAMMA)
    while high - low > PRECISION:
        middle = (low + high) / 2
        low, high = (middle, high) if uniform(table, middle).risk <= risk + ROUNDING else (low, middle)
    return uniform(table, low)


def uniform(table: Census, gamma: Fraction) -> Perturbed:
    """Return uniform perturbation of the whole table with this gamma."""
    retention = uniform_retention(float(gamma), table.values)
    return Perturbed((Block(np.arange(table.values), table.counts, None, gamma, retention),))


@dataclass(frozen=True, eq=False)
class Anatomized:
    """Anatomy with groups of L records."""

    withheld: Ints
    groups: int
    records: int  # published

    @classmethod
    def of(cls, table: Census, L: int) -> Anatomized:
        """Suppress the most frequent values until none has more than a share 1/L; nothing if that is so already."""
        level = Levels(sorted(table.counts.tolist(), reverse=True)).eligible_level(L)
        withheld = np.maximum(table.counts - level, 0)
        records = int(table.rows - withheld.sum())
        return cls(withheld, records // L, records)

    @property
    def risk(self) -> float:
        """The measured risk: no value comes twice to a group, so one guess in each is right."""
        return (self.groups + int(self.withheld.max())) / (self.records + int(self.withheld.sum()))

    @property
    def bound(self) -> float:
        """The share of right guesses among the published records: 1/L at most."""
        return self.groups / self.records

    def answers(self, table: Census, pool: Pool, key: SecretKey) -> AnatomyAnswers:
        """Publish the table in groups, and estimate."""
        deal = Groups.drawn(table.counts, self.withheld, self.groups, key)
        group = deal.group_of(table.codes, _ranks(table, key))
        numbers, values, counts = (np.concatenate(parts) for parts in zip(*deal.compositions(), strict=True))
        return _read(DealtTable.of(numbers, values, counts, table.values), group, pool)

    def answers_of(self, places: Ints, table: Census, pool: Pool, key: SecretKey) -> AnatomyAnswers:
        """Publish with another deal. places: the groups of the published records, which stand value by value."""
        kept = table.counts - self.withheld
        rank = _ranks(table, key) - self.withheld.take(table.codes)
        place = (np.cumsum(kept) - kept).take(table.codes) + rank
        group = np.where(rank < 0, WITHHELD, places.take(place, mode="clip"))
        values = np.repeat(np.arange(table.values), kept)
        return _read(DealtTable.of(places, values, np.ones_like(values), table.values), group, pool)


@dataclass(frozen=True, eq=False)
class AnatomyAnswers:
    """What Anatomy's two tables tell. classical: SDR 10.10. unbiased: least squares on the compositions, if told."""

    classical: Floats
    unbiased: Floats | None


def _read(deal: DealtTable, group: npt.NDArray[np.integer], pool: Pool) -> AnatomyAnswers:
    """Estimate from the deal and the group of each record."""
    kinds = int(deal.first_kind[-1])
    kind = np.where(group == WITHHELD, kinds, deal.kind_of_group[group])
    return _estimated(deal.strata[0], pool.counted(kind, kinds + 1)[:, :kinds], pool)


def _estimated(stratum: Stratum, counts: Floats, pool: Pool) -> AnatomyAnswers:
    """Estimate from the records of each condition in groups of each kind, [conditions, kinds]."""
    condition, kind = np.nonzero(counts)
    sums = stratum.counts.spread(kind, condition, counts[condition, kind] / stratum.sizes[kind], pool.conditions)
    classical = np.zeros_like(pool.true)
    classical[:, stratum.codes] = sums.T
    if stratum.rank < stratum.codes.size:
        return AnatomyAnswers(classical, None)
    unbiased = np.zeros_like(classical)
    unbiased[:, stratum.codes] = (stratum.records[:, None] * (stratum.inverse @ sums)).T
    return AnatomyAnswers(classical, unbiased)


def _ranks(table: Census, key: SecretKey) -> Ints:
    """Return the place of each record among those of its value, in random order."""
    order = random_order(table.codes, lambda attempt: key.words(Step.GROUP_ORDER, attempt, 0, table.rows))
    ranks = np.empty(table.rows, dtype=np.int64)
    ranks[order] = np.arange(table.rows) - np.repeat(np.cumsum(table.counts) - table.counts, table.counts)
    return ranks
