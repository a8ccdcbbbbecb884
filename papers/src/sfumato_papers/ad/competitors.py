"""The methods that AD compares randomization with: Anatomy, entropy l-diversity, and a table without any association.

For each, what an analyst estimates and how often a guesser is right, who knows a person's quasi-identifiers.
"""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from operator import add

import numpy as np

from sfumato.methods.generalization import Generalization
from sfumato.values.arrays import FloatArray, IntArray
from sfumato_papers.ad.tables import Joint
from sfumato_papers.two_tables import DealtTable

# --- Anatomy ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Places:
    """Anatomy's groups before records are dealt to them: group and sensitive value of each place."""

    groups: IntArray
    values: IntArray


def anatomize(counts: IntArray, l: int, rng: np.random.Generator) -> Places:
    """Return groups by Xiao and Tao's algorithm: a record of each of the l values with most records left.

    Equal numbers are ordered by chance, group by group. Records that are left over in the end join groups that have no
    such value.
    """
    chances = rng.random((int(counts.sum()) // l, counts.size)).tolist()
    return _filled(_grouped(counts.tolist(), l, chances), counts, rng)


def anatomize_in_order(counts: IntArray, l: int, rng: np.random.Generator) -> Places:
    """Return groups by the same algorithm, equal numbers in one order of the values, drawn once."""
    order = (rng.permutation(counts.size) / counts.size).tolist()
    return _filled(_grouped(counts.tolist(), l, repeat(order)), counts, rng)


def _grouped(left: list[int], l: int, chances: Iterable[list[float]]) -> IntArray:
    """Return the values of each group: [groups, l]. A chance below 1 decides between equal numbers only."""
    groups, values = [], range(len(left))
    for chance in chances:
        if len(left) - left.count(0) < l:
            break
        keys = list(map(add, left, chance))
        chosen = sorted(values, key=keys.__getitem__)[-l:]
        for u in chosen:
            left[u] -= 1
        groups.append(chosen)
    return np.array(groups, dtype=np.int64)


def _filled(groups: IntArray, counts: IntArray, rng: np.random.Generator) -> Places:
    """Return the groups' places, and those of the records that are left over."""
    contents = np.zeros((len(groups), counts.size), dtype=np.int64)
    np.put_along_axis(contents, groups, 1, axis=1)
    for u in np.repeat(np.arange(counts.size), counts - contents.sum(axis=0)):
        contents[rng.choice(np.flatnonzero(contents[:, u] == 0)), u] = 1
    return Places(*np.nonzero(contents))


@dataclass(frozen=True, eq=False)
class Anatomized:
    """Both tables of Anatomy: the group of each record, and what is in each group."""

    table: Joint
    places: Places
    groups: IntArray  # of each record

    @classmethod
    def dealt(cls, table: Joint, places: Places, rng: np.random.Generator) -> Anatomized:
        """Deal the records of each value to its places, every way equally likely."""
        order = rng.permutation(table.rows)
        order = order[np.argsort(table.codes[order, -1], kind="stable")]
        groups = np.empty(table.rows, dtype=np.int64)
        groups[order] = places.groups[np.argsort(places.values, kind="stable")]
        return cls(table, places, groups)

    @property
    def contents(self) -> IntArray:
        """[groups, values]: how often each value is in each group."""
        contents = np.zeros((int(self.places.groups.max()) + 1, self.table.table.sizes[-1]), dtype=np.int64)
        np.add.at(contents, (self.places.groups, self.places.values), 1)
        return contents

    def estimates(self) -> tuple[FloatArray, FloatArray]:
        """Return the estimated joint table: classical, and by least squares (see `sfumato.analyst.grouped.buckets`)."""
        sizes, contents = self.table.table.sizes, self.contents
        group, value = np.nonzero(contents)
        each, deal = np.eye(sizes[-1]), DealtTable.of(group, value, contents[group, value], sizes[-1])
        fit = deal.fit(self.groups, np.ones(self.table.rows), self.table.groups, self.table.table.group_cells)
        return fit.classical(each).reshape(sizes), fit.totals(each).reshape(sizes)

    def success(self, estimate: FloatArray) -> float:
        """Return how often one is right who takes, of the values in a person's group, the most over-represented one.

        Where c_gu records of the group have u, the belief is about in proportion to c_gu pi(u | QI) / pi(u), with pi as
        estimated from the release.
        """
        share = estimate.reshape(-1, estimate.shape[-1])[self.table.groups]
        lift = np.maximum(share / estimate.sum(axis=tuple(range(estimate.ndim - 1))), 0)
        within = self.contents[self.groups]
        guesses = np.where(within > 0, within * (lift + 1e-12), -1).argmax(axis=1)
        return float((guesses == self.table.codes[:, -1]).mean())


# --- generalization ---------------------------------------------------------------------------------------------------


def class_success(generalized: FloatArray | Generalization) -> float:
    """Return how often one is right who takes the most frequent value of a person's class."""
    counts = generalized.table if isinstance(generalized, Generalization) else generalized
    return float(counts.max(axis=-1).sum() / counts.sum())


# --- no association ---------------------------------------------------------------------------------------------------


def independent(counts: FloatArray) -> FloatArray:
    """Return the product of the margins of all columns: what single counts of each column tell.

    >>> independent(np.array([[3.0, 1.0], [3.0, 1.0]])).tolist()
    [[3.0, 1.0], [3.0, 1.0]]
    """
    axes = range(counts.ndim)
    margins = [counts.sum(axis=tuple(other for other in axes if other != axis)) / counts.sum() for axis in axes]
    product: FloatArray = counts.sum() * reduce(np.multiply.outer, margins)
    return product


def constant_success(counts: FloatArray) -> float:
    """Return how often one is right who guesses the most frequent sensitive value for all."""
    return float(counts.sum(axis=tuple(range(counts.ndim - 1))).max() / counts.sum())
