"""The l-diverse tables of AD Tables 4 and 5: what zeros and figures tell of their levels, which are not printed."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from sfumato.methods.generalization import Hierarchy, Node, minimal_nodes, roll_up
from sfumato.values.arrays import FloatArray
from sfumato_papers.ad.diversity import largest_l
from sfumato_papers.ad.measures import LETTERS, correlation
from sfumato_papers.ad.tables import Joint
from sfumato_papers.experiment import is_printed, places

DEGREES = (
    "Preschool", "1st-4th", "5th-6th", "7th-8th", "9th", "10th", "11th", "12th", "HS-grad", "Some-college", "Assoc-voc",
    "Assoc-acdm", "Bachelors", "Masters", "Prof-school", "Doctorate",
)  # fmt: skip
"""Adult's values of education, by its own number."""
NONE = 1e-9
"""An association below this is none."""


@dataclass(frozen=True, eq=False)
class Fit:
    """The finest levels that have just the printed zeros and are entropy l-diverse."""

    node: Node
    table: FloatArray
    of: int  # how many levels do
    is_minimal: bool  # no finer levels are l-diverse

    @property
    def diversity(self) -> float:
        """The largest l that the table has."""
        return largest_l(self.table)


def fitted(table: Joint, hierarchies: Sequence[Hierarchy], l: int, printed: Mapping[str, str]) -> Fit | None:
    """Search all levels; None if there are no such ones."""
    zeros = {pair for pair, text in printed.items() if float(text) == 0}
    nodes = [node for node in product(*(range(h.top + 1) for h in hierarchies)) if any(node)]
    tables = {node: roll_up(table.counts, hierarchies, node) for node in nodes}
    found = [
        node
        for node in sorted(nodes, key=sum)
        if {pair for pair in printed if correlation(tables[node], pair) < NONE} == zeros
        and largest_l(tables[node]) >= l
    ]
    if not found:
        return None
    return Fit(found[0], tables[found[0]], len(found), found[0] in minimal_nodes(table.counts, hierarchies, l))


# --- groupings that would give the printed figures --------------------------------------------------------------------


def groupings_of_neighbours(margin: FloatArray) -> FloatArray:
    """Return U in hundredths for every way to join neighbours of the first axis; always in the same order of ways.

        U = 1 - H(second | group) / H(second),    a sum over the groups

    >>> groupings_of_neighbours(np.array([[2.0, 0.0], [0.0, 2.0]])).tolist()
    [0.0, 100.0]
    """
    size = len(margin)
    sums = [np.zeros(1)]
    for end in range(1, size + 1):
        sums.append(np.concatenate([sums[start] + _entropy(margin[start:end].sum(axis=0)) for start in range(end)]))
    return np.asarray(100 * (1 - sums[size] / _entropy(margin.sum(axis=0))))


def with_figure(ways: FloatArray, printed: str) -> npt.NDArray[np.bool_]:
    """Return which groupings have a printed figure; the same as `is_printed`, for many.

    >>> with_figure(np.array([7.9049, 7.9051, 7.91]), "7.91").tolist()
    [False, True, True]
    """
    return np.abs(ways - float(printed)) <= 0.5 * 10.0 ** -places(printed)


def _entropy(counts: FloatArray) -> float:
    """Return n H, from counts that sum to n."""
    some = counts[counts > 0]
    return float(-(some * np.log(some / some.sum())).sum())


def education_groupings(table: Joint, race: Hierarchy) -> Mapping[str, FloatArray]:
    """Return E vs. S, E vs. R (White and others) and E vs. O for every way to join neighbouring degrees."""
    by_degree = table.counts[[table.values[0].index(degree) for degree in DEGREES]]
    by_degree = np.stack(
        [by_degree.take(np.flatnonzero(race.codes[1] == code), axis=3).sum(axis=3) for code in (0, 1)], 3
    )
    return {
        pair: groupings_of_neighbours(by_degree.sum(axis=tuple({1, 2, 3, 4} - {LETTERS.index(pair[-1])})))
        for pair in ("E vs. S", "E vs. R", "E vs. O")
    }


def groupings_of_race(table: Joint, printed: str) -> tuple[int, int]:
    """Return how many ways to group the races there are, and how many have R vs. O as printed."""
    margin = table.counts.sum(axis=(0, 1, 2))
    found = [_joined(margin, groups) for groups in partitions(len(margin)) if len(groups) > 1]
    return len(found), sum(is_printed(printed, u) for u in found)


def _joined(margin: FloatArray, groups: Sequence[Sequence[int]]) -> float:
    within = sum(_entropy(margin[list(group)].sum(axis=0)) for group in groups)
    return 100 * (1 - within / _entropy(margin.sum(axis=0)))


def partitions(size: int) -> Iterator[list[list[int]]]:
    """Yield all ways to put 0, 1, ... into groups.

    >>> [sum(1 for _ in partitions(size)) for size in (1, 2, 3, 4, 5)]
    [1, 2, 5, 15, 52]
    """
    if size == 0:
        yield []
        return
    for groups in partitions(size - 1):
        yield [*groups, [size - 1]]
        for k, group in enumerate(groups):
            yield [*groups[:k], [*group, size - 1], *groups[k + 1 :]]
