"""Full-domain generalization with entropy l-diversity: the baseline that AD compares randomization with (section V.B).

A joint table has one axis for each quasi-identifier and the sensitive attribute on the last: no rows are needed. It is
dense, so it is for a handful of quasi-identifiers. A table of a coarser level is a sum of that of a finer one (LeFevre
et al. 2005). All minimal generalizations that are diverse are found by Incognito, and the best of them is taken.

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

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible, PolicyError
from sfumato.show.reading import read_csv
from sfumato.values.arrays import FloatArray

CodeArray = npt.NDArray[np.intp]
Node = tuple[int, ...]  # a level for each quasi-identifier

TOLERANCE = 1e-9
"""Nats by which a class's entropy may fall short of ln l: a class that is exactly l-diverse passes, whatever its
floating-point sum. The sums themselves are off by about 1e-14."""


@dataclass(frozen=True)
class Hierarchy:
    """Levels of one quasi-identifier, from its own values (level 0) to one value for all (level `top`).

    Two values that are alike at one level are alike at every higher one.

    >>> school = Hierarchy("school", (("BA", "MA", "10th"), ("university", "university", "school"), ("*", "*", "*")))
    >>> school.top, school.sizes, school.codes[1].tolist(), school.step(1, 2).tolist()
    (2, (3, 2, 1), [0, 0, 1], [0, 0])
    """

    name: str
    levels: tuple[tuple[str, ...], ...]  # levels[h][i]: what value i is called at level h

    def __post_init__(self) -> None:
        if not self.levels or not self.values or len({len(level) for level in self.levels}) != 1:
            raise PolicyError(
                f"The hierarchy of {self.name!r} must have a name for each value at each level.",
                "List every value once, with its groups.",
            )
        if len(set(self.values)) < len(self.values):
            raise PolicyError(f"The hierarchy of {self.name!r} lists a value twice.", "Leave it in the list once.")
        for lower, upper in pairwise(self.levels):
            above: dict[str, str] = {}
            for low, high in zip(lower, upper, strict=True):
                if above.setdefault(low, high) != high:
                    raise PolicyError(
                        f"The hierarchy of {self.name!r} puts {low!r} both in {above[low]!r} and in {high!r}.",
                        "Put it in one of the two.",
                    )
        if self.sizes[-1] > 1:
            raise PolicyError(
                f"The hierarchy of {self.name!r} ends in {self.sizes[-1]} values.",
                "Its last level must be one value for all, such as '*'.",
            )

    @property
    def values(self) -> tuple[str, ...]:
        """The original values, in the order of the table's axis."""
        return self.levels[0]

    @property
    def top(self) -> int:
        """The highest level: one value for all."""
        return len(self.levels) - 1

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The number of values at each level."""
        return tuple(len(set(level)) for level in self.levels)

    def labels(self, level: int) -> tuple[str, ...]:
        """Return the values of a level, in the order of their codes: that of their first appearance."""
        return tuple(dict.fromkeys(self.levels[level]))

    @cached_property
    def codes(self) -> tuple[CodeArray, ...]:
        """The code of each original value, at each level."""
        indices = ({label: code for code, label in enumerate(self.labels(h))} for h in range(self.top + 1))
        named = zip(self.levels, indices, strict=True)
        return tuple(np.array([index[label] for label in level], dtype=np.intp) for level, index in named)

    def step(self, lower: int, upper: int) -> CodeArray:
        """Return the code at the upper level of each value of the lower one."""
        step = np.empty(self.sizes[lower], dtype=np.intp)
        step[self.codes[lower]] = self.codes[upper]  # nested: all that share a lower code share the upper one
        return step


def read_hierarchy(path: Path, name: str, values: Iterable[str], separator: str = ";") -> Hierarchy:
    """Read a hierarchy for an axis with these values: a CSV file without a header, one line for each value.

    The first column is the value, the next ones what it becomes, level by level. Lines of other values are left out.
    """
    try:
        lines = [tuple(line) for line in read_csv(path, separator) if line]
    except (OSError, ValueError, csv.Error) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "it is no text of lines in UTF-8"
        raise PolicyError(
            f"The hierarchy {str(path)!r} of {name!r} cannot be read: {reason}.",
            "Give a CSV file in UTF-8: the value, then its groups from fine to coarse.",
        ) from None
    by_value = {line[0]: line for line in lines}
    if len(by_value) < len(lines):
        raise PolicyError(f"{path.name} lists a value twice.", "Leave one line for each value.")
    values = tuple(values)
    if missing := [value for value in values if value not in by_value]:
        raise PolicyError(f"{path.name} does not say what {missing[0]!r} of {name!r} becomes.", "Add a line for it.")
    chosen = [by_value[value] for value in values]
    if len({len(line) for line in chosen}) > 1:
        raise PolicyError(
            f"The lines of {path.name} differ in their number of levels.",
            "Every line names the value and then one group for each level.",
        )
    return Hierarchy(name, tuple(zip(*chosen, strict=True)))


# --- joint tables -----------------------------------------------------------------------------------------------------


def roll_up(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node, start: Node | None = None) -> FloatArray:
    """Return the joint table at the levels of `node`, from the one at the levels `start` (the original values)."""
    start = start or (0,) * len(node)
    for axis, (hierarchy, lower, upper) in enumerate(zip(hierarchies, start, node, strict=True)):
        if lower != upper:
            groups = hierarchy.step(lower, upper)
            order = np.argsort(groups, kind="stable")
            starts = np.searchsorted(groups[order], np.arange(groups.max() + 1))  # every group has a cell
            table = np.add.reduceat(table.take(order, axis=axis), starts, axis=axis)
    return table


def spread(generalized: FloatArray, hierarchies: Sequence[Hierarchy], node: Node) -> FloatArray:
    """Return the estimated joint table of the original values, from the table at the levels of `node`.

        estimate(a, s) = count(class of a, s) / number of combinations of original values in the class of a

    separately for each sensitive value s: all that an analyst reads off a generalized table. Totals of classes and of
    sensitive values are kept exactly; combinations that nobody has get their part too. It is the mean over the class,
    so the orthogonal projection of the true table on those that are constant in classes: no other such table is nearer
    to the truth in L2, and a coarser node is never nearer than a finer one.

    >>> city = Hierarchy("city", (("A", "B"), ("*", "*")))
    >>> spread(np.array([[6.0, 1.0]]), [city], (1,)).tolist()
    [[3.0, 0.5], [3.0, 0.5]]
    """
    for axis, (hierarchy, level) in enumerate(zip(hierarchies, node, strict=True)):
        codes = hierarchy.codes[level]
        parts = np.bincount(codes)[codes]
        along_axis = (-1,) + (1,) * (generalized.ndim - axis - 1)
        generalized = generalized.take(codes, axis=axis) / parts.reshape(along_axis)
    return generalized


# --- the best generalization ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Generalization:
    """A table at the levels of `node`."""

    hierarchies: tuple[Hierarchy, ...]
    node: Node
    table: FloatArray  # counts: (one axis for each quasi-identifier, sensitive value) -> records

    def estimate(self) -> FloatArray:
        """Return the estimated joint table of the original values."""
        return spread(self.table, self.hierarchies, self.node)


def distance(table: FloatArray, found: Generalization) -> float:
    """Return the L2 distance from the true distribution to the estimated one, sqrt(sum (pi - pi_hat)^2)."""
    estimate = found.estimate()
    return float(np.linalg.norm(table / table.sum() - estimate / estimate.sum()))


def generalize(
    counts: npt.ArrayLike,
    hierarchies: Sequence[Hierarchy],
    l: float,
    score: Callable[[FloatArray, Generalization], float] = distance,
) -> Generalization:
    """Return the best full-domain generalization of a joint table that is entropy l-diverse, or raise `Infeasible`.

    The best has the least score, which must not fall by going up: so the best of the minimal nodes is the best of all
    that are diverse. Equal scores: the lower node, then the one with the lower levels first. No class is suppressed.
    """
    table, ways = np.asarray(counts, dtype=np.float64), tuple(hierarchies)
    minimal = minimal_nodes(table, ways, l)
    found = [Generalization(ways, node, roll_up(table, ways, node)) for node in minimal]
    return min(found, key=lambda one: score(table, one))  # of equals the first, which is the lowest


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


# --- the search -------------------------------------------------------------------------------------------------------


def minimal_nodes(counts: npt.ArrayLike, hierarchies: Sequence[Hierarchy], l: float) -> tuple[Node, ...]:
    """Return all nodes that are l-diverse while no finer node is, lowest first; raise `Infeasible` if there are none.

    >>> sex, city = (Hierarchy(n, (v, ("*",) * 2)) for n, v in (("sex", ("F", "M")), ("city", ("A", "B"))))
    >>> minimal_nodes([[[2, 0], [0, 2]], [[1, 2], [2, 1]]], [sex, city], 2)
    ((0, 1),)
    >>> minimal_nodes([[[2, 0], [0, 2]], [[1, 2], [2, 1]]], [sex, city], 1.8)
    ((0, 1), (1, 0))
    """
    tables = Rollups(np.asarray(counts, dtype=np.float64), hierarchies)
    if not (math.isfinite(l) and l >= 1):
        raise PolicyError(
            f"l is a number of values, at least 1, not {l:g}.", "l = 2 or more asks for different values."
        )
    tops = tuple(h.top for h in hierarchies)
    _check_feasible(tables[tops], l)
    diverse: set[Node] = set()
    for node in _from_few_attributes(tops):
        without_one = ((*node[:i], top, *node[i + 1 :]) for i, top in enumerate(tops) if node[i] < top)
        if all(coarser in diverse for coarser in without_one) and (
            any(finer in diverse for finer in _finer(node)) or is_diverse(tables[node], l)
        ):
            diverse.add(node)
    minimal = (node for node in diverse if not any(finer in diverse for finer in _finer(node)))
    return tuple(sorted(minimal, key=_by_height))


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
