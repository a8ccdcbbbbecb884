"""All minimal full-domain generalizations that are entropy l-diverse: Incognito (LeFevre et al. 2005).

A node gives every attribute a level. Diversity is kept by going up (`diversity.is_diverse`), so that two things need no
look at the table:

    subset           a node without one attribute (it is at its top) that is not diverse: nor is the node
    generalization   a node one level below that is diverse: so is the node

Subsets of attributes are searched from few to many, each from low to high. A subset's nodes are those with the other
attributes at their top, so all the subsets' lattices together are the lattice, and no node comes twice.
"""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy.typing as npt

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.generalization.diversity import TOLERANCE, is_diverse, least_entropy
from sfumato.methods.generalization.hierarchies import Hierarchy, Node
from sfumato.methods.generalization.rolling import Rollups, checked_table, specializations
from sfumato.values.arrays import FloatArray


@dataclass(frozen=True)
class Search:
    """The minimal nodes, lowest first, and how the lattice was decided: each node is in one of the last three."""

    minimal: tuple[Node, ...]
    nodes: int
    checked: int  # entropies computed
    pruned_by_subset: int  # not diverse, because fewer attributes are not
    pruned_by_generalization: int  # diverse, because a finer node is


def minimal_nodes(counts: npt.ArrayLike, hierarchies: Sequence[Hierarchy], l: float) -> Search:
    """Return all nodes that are l-diverse while no finer node is; raise `Infeasible` if not even the top is.

    >>> sex, city = (Hierarchy(n, (v, ("*",) * 2)) for n, v in (("sex", ("F", "M")), ("city", ("A", "B"))))
    >>> minimal_nodes([[[2, 0], [0, 2]], [[1, 2], [2, 1]]], [sex, city], 2).minimal
    ((0, 1),)
    >>> minimal_nodes([[[2, 0], [0, 2]], [[1, 2], [2, 1]]], [sex, city], 1.8).minimal
    ((0, 1), (1, 0))
    """
    table = checked_table(counts, hierarchies)
    if not (math.isfinite(l) and l >= 1):
        raise PolicyError(
            f"l is a number of values, at least 1, not {l:g}.", "l = 2 or more asks for different values."
        )
    tops = tuple(h.top for h in hierarchies)
    tables = Rollups(table, hierarchies)
    _check_feasible(tables.table(tops), l)
    return _searched(tables, tops, l)


def _searched(tables: Rollups, tops: Node, l: float) -> Search:
    diverse: set[Node] = set()
    checked = by_subset = by_generalization = 0
    for node in _from_few_attributes(tops):
        if any(coarser not in diverse for coarser in _with_one_attribute_less(node, tops)):
            by_subset += 1
        elif any(finer in diverse for finer in specializations(node)):
            by_generalization += 1
            diverse.add(node)
        else:
            checked += 1
            if is_diverse(tables.table(node), l):
                diverse.add(node)
    minimal = (node for node in diverse if not any(finer in diverse for finer in specializations(node)))
    size = math.prod(top + 1 for top in tops)
    return Search(tuple(sorted(minimal, key=by_height)), size, checked, by_subset, by_generalization)


def by_height(node: Node) -> tuple[int, Node]:
    """Order nodes by the sum of their levels, then by the levels."""
    return sum(node), node


def _from_few_attributes(tops: Node) -> Iterator[Node]:
    """Yield all nodes: those with few attributes below their top first, those of the same attributes by height."""
    for number in range(len(tops) + 1):
        for kept in combinations(range(len(tops)), number):
            levels = (range(top) if i in kept else (top,) for i, top in enumerate(tops))
            yield from sorted(product(*levels), key=by_height)


def _with_one_attribute_less(node: Node, tops: Node) -> Iterator[Node]:
    pairs = enumerate(zip(node, tops, strict=True))
    return ((*node[:i], top, *node[i + 1 :]) for i, (level, top) in pairs if level < top)


def _check_feasible(whole: FloatArray, l: float) -> None:
    if not is_diverse(whole, l):
        entropy = least_entropy(whole)
        feasible = math.floor(1e4 * math.exp(entropy + TOLERANCE)) / 1e4
        raise Infeasible(
            f"No generalization is entropy l-diverse for l = {l:g}: the sensitive values of the whole table have an "
            f"entropy of {entropy:.4f} nats, below ln l = {math.log(l):.4f}.",
            f"Ask for l <= {feasible:g}.",
        )
