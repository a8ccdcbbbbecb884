"""All minimal full-domain generalizations that are entropy l-diverse, by Incognito, and the best of them.

Entropy l-diversity (Machanavajjhala et al. 2006) asks of every class that its sensitive values have an entropy of at
least ln l. Entropy is concave, so a union of classes has at least the least entropy of its parts. A node gives every
attribute a level; diversity is kept by going up and by leaving out an attribute. So two things need no look at the
table (LeFevre et al. 2005):

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
from typing import Literal

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.generalization.hierarchies import Hierarchy, Node, checked_table, roll_up, spread
from sfumato.values.arrays import FloatArray

TOLERANCE = 1e-9
"""Nats by which a class's entropy may fall short of ln l: a class that is exactly l-diverse passes, whatever its
floating-point sum. The sums themselves are off by about 1e-14."""

Criterion = Literal["distance", "discernibility", "height"]
"""What is to be least:

    distance         L2 from the true joint table to the estimated one
    discernibility   sum of the squared sizes of the classes
    height           sum of the levels

None of them falls by going up, so the best of the minimal nodes is the best of all that are diverse.
"""


@dataclass(frozen=True)
class Search:
    """The minimal nodes, lowest first, and how the lattice was decided: each node is in one of the last three."""

    minimal: tuple[Node, ...]
    nodes: int
    checked: int  # entropies computed
    pruned_by_subset: int  # not diverse, because fewer attributes are not
    pruned_by_generalization: int  # diverse, because a finer node is


@dataclass(frozen=True, eq=False)
class Generalization:
    """A table at the levels of `node`, with what was searched for it."""

    hierarchies: tuple[Hierarchy, ...]
    node: Node
    table: FloatArray  # counts: (one axis for each quasi-identifier, sensitive value) -> records
    l: float  # what was asked for
    criterion: Criterion
    scores: tuple[float, ...]  # of search.minimal
    search: Search

    @property
    def levels(self) -> dict[str, int]:
        """The level of each quasi-identifier."""
        return {h.name: level for h, level in zip(self.hierarchies, self.node, strict=True)}

    @property
    def diversity(self) -> float:
        """The largest l that the table has."""
        return largest_l(self.table)

    @property
    def largest_share(self) -> float:
        """The largest share of a sensitive value in a class."""
        return largest_share(self.table)

    def estimate(self) -> FloatArray:
        """Return the estimated joint table of the original values."""
        return spread(self.table, self.hierarchies, self.node)

    def explain(self) -> str:
        """Return the result as text."""
        levels = ", ".join(f"{h.name} {self.levels[h.name]} of {h.top}" for h in self.hierarchies)
        s = self.search
        return "\n".join(
            [
                f"Levels: {levels}; the best of {len(s.minimal)} minimal generalization(s) by {self.criterion}.",
                f"Entropy l-diverse for l up to {self.diversity:.4g} (asked: {self.l:g}). A class tells its most "
                f"frequent sensitive value with a share of up to {self.largest_share:.1%}.",
                f"Of {s.nodes:,} nodes {s.checked:,} were checked, {s.pruned_by_subset:,} pruned by fewer attributes "
                f"and {s.pruned_by_generalization:,} by a finer node.",
            ]
        )


def generalize(
    counts: npt.ArrayLike,
    hierarchies: Sequence[Hierarchy],
    l: float,
    criterion: Criterion = "distance",
) -> Generalization:
    """Return the best full-domain generalization of a joint table that is entropy l-diverse, or raise `Infeasible`.

    Equal scores: the lower node, then the one with the lower levels first. No class is suppressed.
    """
    table = checked_table(counts, hierarchies)
    search = minimal_nodes(table, hierarchies, l)
    scores = tuple(_score(table, hierarchies, node, criterion) for node in search.minimal)
    _, (_, node) = min(zip(scores, map(_by_height, search.minimal), strict=True))
    rolled = roll_up(table, hierarchies, node)
    return Generalization(tuple(hierarchies), node, rolled, l, criterion, scores, search)


def _score(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node, criterion: Criterion) -> float:
    if criterion == "height":
        return sum(node)
    rolled = roll_up(table, hierarchies, node)
    if criterion == "discernibility":
        return float((rolled.sum(axis=-1) ** 2).sum())
    return distance(table, spread(rolled, hierarchies, node))


def distance(table: FloatArray, estimate: FloatArray) -> float:
    """Return the L2 distance of the two distributions, sqrt(sum (pi - pi_hat)^2)."""
    return float(np.linalg.norm(table / table.sum() - estimate / estimate.sum()))


# --- entropies --------------------------------------------------------------------------------------------------------


def class_shares(table: FloatArray) -> FloatArray:
    """Return the distribution of the sensitive values in every class that has records."""
    classes = table.reshape(-1, table.shape[-1])
    sizes = classes.sum(axis=1, keepdims=True)
    occupied = sizes[:, 0] > 0
    return np.asarray(classes[occupied] / sizes[occupied])


def least_entropy(table: FloatArray) -> float:
    """Return the least entropy of the sensitive values over the classes, min_c -sum_s p(c,s) ln p(c,s), in nats."""
    p = class_shares(table)
    logs = np.log(p, where=p > 0, out=np.zeros_like(p))
    return float((0 - (p * logs).sum(axis=1)).min())  # not -x: where one value is all, that would be -0


def is_diverse(table: FloatArray, l: float) -> bool:
    """Whether every class has an entropy of at least ln l."""
    return least_entropy(table) >= math.log(l) - TOLERANCE


def largest_l(table: FloatArray) -> float:
    """Return the largest l for which the table is l-diverse, exp of the least entropy.

    >>> round(largest_l(np.array([[1.0, 1.0, 0.0], [2.0, 2.0, 2.0]])), 12)
    2.0
    """
    return math.exp(least_entropy(table))


def largest_share(table: FloatArray) -> float:
    """Return the largest share of one sensitive value in a class: entropy l-diversity does not bound it by 1/l."""
    return float(class_shares(table).max())


# --- the search -------------------------------------------------------------------------------------------------------


def minimal_nodes(counts: npt.ArrayLike, hierarchies: Sequence[Hierarchy], l: float) -> Search:
    """Return all nodes that are l-diverse while no finer node is; raise `Infeasible` if not even the top is.

    >>> sex, city = (Hierarchy(n, (v, ("*",) * 2)) for n, v in (("sex", ("F", "M")), ("city", ("A", "B"))))
    >>> minimal_nodes([[[2, 0], [0, 2]], [[1, 2], [2, 1]]], [sex, city], 2).minimal
    ((0, 1),)
    >>> minimal_nodes([[[2, 0], [0, 2]], [[1, 2], [2, 1]]], [sex, city], 1.8).minimal
    ((0, 1), (1, 0))
    """
    tables = Rollups(checked_table(counts, hierarchies), hierarchies)
    if not (math.isfinite(l) and l >= 1):
        raise PolicyError(
            f"l is a number of values, at least 1, not {l:g}.", "l = 2 or more asks for different values."
        )
    tops = tuple(h.top for h in hierarchies)
    _check_feasible(tables[tops], l)
    diverse: set[Node] = set()
    checked = by_subset = by_generalization = 0
    for node in _from_few_attributes(tops):
        without_one = ((*node[:i], top, *node[i + 1 :]) for i, top in enumerate(tops) if node[i] < top)
        if any(coarser not in diverse for coarser in without_one):
            by_subset += 1
        elif any(finer in diverse for finer in _finer(node)):
            by_generalization += 1
            diverse.add(node)
        else:
            checked += 1
            if is_diverse(tables[node], l):
                diverse.add(node)
    minimal = (node for node in diverse if not any(finer in diverse for finer in _finer(node)))
    size = math.prod(top + 1 for top in tops)
    return Search(tuple(sorted(minimal, key=_by_height)), size, checked, by_subset, by_generalization)


def _by_height(node: Node) -> tuple[int, Node]:
    return sum(node), node


def _from_few_attributes(tops: Node) -> Iterator[Node]:
    """Yield all nodes: those with few attributes below their top first, those of the same attributes by height."""
    for number in range(len(tops) + 1):
        for kept in combinations(range(len(tops)), number):
            levels = (range(top) if i in kept else (top,) for i, top in enumerate(tops))
            yield from sorted(product(*levels), key=_by_height)


def _finer(node: Node) -> list[Node]:
    """The nodes with one attribute one level lower."""
    return [(*node[:i], level - 1, *node[i + 1 :]) for i, level in enumerate(node) if level]


class Rollups(dict[Node, FloatArray]):
    """Joint tables of lattice nodes, each summed from the smallest one level below; if it can be, from one there is."""

    def __init__(self, table: FloatArray, hierarchies: Sequence[Hierarchy]) -> None:
        super().__init__({(0,) * len(hierarchies): table})
        self._hierarchies = hierarchies

    def __missing__(self, node: Node) -> FloatArray:
        finer = _finer(node)
        start = min([other for other in finer if other in self] or finer, key=self._size)
        self[node] = roll_up(self[start], self._hierarchies, node, start)
        return self[node]

    def _size(self, node: Node) -> int:
        return math.prod(h.sizes[level] for h, level in zip(self._hierarchies, node, strict=True))


def _check_feasible(whole: FloatArray, l: float) -> None:
    if not is_diverse(whole, l):
        entropy = least_entropy(whole)
        feasible = math.floor(1e4 * math.exp(entropy + TOLERANCE)) / 1e4
        raise Infeasible(
            f"No generalization is entropy l-diverse for l = {l:g}: the sensitive values of the whole table have an "
            f"entropy of {entropy:.4f} nats, below ln l = {math.log(l):.4f}.",
            f"Ask for l <= {feasible:g}.",
        )
