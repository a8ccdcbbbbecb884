"""Generalization hierarchies: what each value of a quasi-identifier becomes, level by level, and joint tables at these.

A joint table of a coarser level is a sum of that of a finer one (LeFevre et al. 2005).
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError, TableError
from sfumato.values.arrays import FloatArray

CodeArray = npt.NDArray[np.intp]

Node = tuple[int, ...]  # a level for each quasi-identifier


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
    A byte-order mark, as spreadsheets write it, is no part of the first value.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [tuple(line) for line in csv.reader(file, delimiter=separator) if line]
    except (OSError, UnicodeDecodeError, csv.Error) as problem:
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
