"""Generalization hierarchies: what each value of a quasi-identifier becomes, level by level."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError

CodeArray = npt.NDArray[np.intp]

Node = tuple[int, ...]
"""A level for each quasi-identifier."""


@dataclass(frozen=True)
class Hierarchy:
    """Levels of one quasi-identifier, from its own values (level 0) to one value for all (level `top`).

    Two values that are alike at one level are alike at every higher one.

    >>> school = Hierarchy("school", (("BA", "MA", "10th"), ("university", "university", "school"), ("*", "*", "*")))
    >>> school.top, school.sizes, school.codes(1).tolist(), school.step(1, 2).tolist()
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
            _check_nested(self.name, lower, upper)
        if len(set(self.levels[-1])) > 1:
            raise PolicyError(
                f"The hierarchy of {self.name!r} ends in {len(set(self.levels[-1]))} values.",
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

    def codes(self, level: int) -> CodeArray:
        """Return the code at a level of each original value."""
        return self._codes[level]

    def step(self, lower: int, upper: int) -> CodeArray:
        """Return the code at the upper level of each value of the lower one."""
        step = np.empty(self.sizes[lower], dtype=np.intp)
        step[self.codes(lower)] = self.codes(upper)  # nested: all that share a lower code share the upper one
        return step

    @cached_property
    def _codes(self) -> tuple[CodeArray, ...]:
        indices = ({label: code for code, label in enumerate(self.labels(h))} for h in range(self.top + 1))
        named = zip(self.levels, indices, strict=True)
        return tuple(np.array([index[label] for label in level], dtype=np.intp) for level, index in named)


def _check_nested(name: str, lower: Sequence[str], upper: Sequence[str]) -> None:
    above: dict[str, str] = {}
    for low, high in zip(lower, upper, strict=True):
        if above.setdefault(low, high) != high:
            raise PolicyError(
                f"The hierarchy of {name!r} puts {low!r} both in {above[low]!r} and in {high!r}.",
                "Put it in one of the two.",
            )


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
