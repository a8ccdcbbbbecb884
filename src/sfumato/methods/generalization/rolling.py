"""Roll-ups: the joint table of a coarser level is a sum of that of a finer one (LeFevre et al. 2005)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError, TableError
from sfumato.methods.generalization.hierarchies import CodeArray, Hierarchy, Node
from sfumato.values.arrays import FloatArray


def checked_table(counts: npt.ArrayLike, hierarchies: Sequence[Hierarchy]) -> FloatArray:
    """Return the counts as an array that fits the hierarchies: an axis for each, and the sensitive attribute last."""
    table = np.asarray(counts, dtype=np.float64)
    expected = tuple(len(h.values) for h in hierarchies)
    if not hierarchies or table.ndim != len(hierarchies) + 1 or table.shape[:-1] != expected:
        raise PolicyError(
            f"A table of shape {table.shape} does not fit hierarchies of {expected} values.",
            "Give one hierarchy for each column.",
        )
    if not np.isfinite(table).all() or (table < 0).any():
        raise TableError("Counts are finite numbers, none negative.", "Count the rows of a table.")
    if table.sum() == 0:
        raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
    return table


def roll_up(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node, start: Node | None = None) -> FloatArray:
    """Return the joint table at the levels of `node`, from the one at the levels `start` (the original values)."""
    start = start or (0,) * len(node)
    for axis, (hierarchy, lower, upper) in enumerate(zip(hierarchies, start, node, strict=True)):
        if lower != upper:
            table = _sum_groups(table, hierarchy.step(lower, upper), axis)
    return table


def _sum_groups(table: FloatArray, groups: CodeArray, axis: int) -> FloatArray:
    """Return the sums along an axis of the cells with the same group; every group has a cell."""
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], np.arange(groups.max() + 1))
    return np.add.reduceat(table.take(order, axis=axis), starts, axis=axis)


def specializations(node: Node) -> Iterator[Node]:
    """Yield the nodes with one attribute one level lower."""
    return ((*node[:i], level - 1, *node[i + 1 :]) for i, level in enumerate(node) if level)


class Rollups:
    """Joint tables of lattice nodes, each summed from a table near below that is already there."""

    def __init__(self, table: FloatArray, hierarchies: Sequence[Hierarchy]) -> None:
        self._hierarchies = hierarchies
        self._tops = tuple(h.top for h in hierarchies)
        self._tables: dict[Node, FloatArray] = {(0,) * len(hierarchies): table}

    def table(self, node: Node) -> FloatArray:
        """Return the joint table at the levels of a node."""
        if node not in self._tables:
            start = self._start(node)
            self._tables[node] = roll_up(self.table(start), self._hierarchies, node, start)
        return self._tables[node]

    def _start(self, node: Node) -> Node:
        """Return the smallest table one level below; without one, the root: all attributes below their top at 0.

        A root is summed from the root with one attribute more, so that all roots make a data cube.
        """
        there = [finer for finer in specializations(node) if finer in self._tables]
        if there:
            return min(there, key=lambda finer: self._tables[finer].size)
        root = tuple(level if level == top else 0 for level, top in zip(node, self._tops, strict=True))
        if node != root:
            return root
        at_top = [i for i, level in enumerate(root) if level]
        smallest = min(at_top, key=lambda i: self._hierarchies[i].sizes[0])
        return (*root[:smallest], 0, *root[smallest + 1 :])
