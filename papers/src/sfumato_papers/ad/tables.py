"""The two tables of AD section V: EMGRW and ESGRO, Adult's training rows by some of their columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from sfumato.methods.generalization import Hierarchy, read_hierarchy
from sfumato.methods.response.joint import JointTable
from sfumato.values.arrays import FloatArray, IntArray
from sfumato_papers.data import Data, Named

EMGRW = ("education", "marital_status", "sex", "race", "workclass")
ESGRO = ("education", "income", "sex", "race", "occupation")
HIERARCHIES = {
    "education": "education",
    "income": "salary-class",
    "sex": "sex",
    "race": "race",
    "marital_status": "marital-status",
}
"""The file of each quasi-identifier's hierarchy."""


@dataclass(frozen=True, eq=False)
class Joint:
    """A joint table, sensitive column last, and its records."""

    names: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]  # of each column, by code
    codes: IntArray  # [records, columns]
    table: JointTable
    about: str
    is_original: bool

    @property
    def counts(self) -> FloatArray:
        """The table, dense."""
        return self.table.array

    @property
    def rows(self) -> int:
        """N."""
        return len(self.codes)

    @property
    def groups(self) -> IntArray:
        """The place of each record in the flat domain of the quasi-identifiers."""
        places: IntArray = np.ravel_multi_index(tuple(self.codes[:, :-1].T), self.table.sizes[:-1]).astype(np.int64)
        return places


@lru_cache(maxsize=4)
def joint(data: Data, names: tuple[str, ...]) -> Joint:
    """Count Adult's training rows by these columns; codes in alphabetical order."""
    return _counted(data.adult_train(), names)


@lru_cache(maxsize=4)
def joint_of_all(data: Data, names: tuple[str, ...]) -> Joint:
    """Count all rows of Adult, those of the test part too."""
    return _counted(data.adult(), names)


def _counted(named: Named, names: tuple[str, ...]) -> Joint:
    pairs = [np.unique(named.table[name].cast("string").to_numpy(), return_inverse=True) for name in names]
    codes = np.column_stack([column for _, column in pairs]).astype(np.int64)
    values = tuple(tuple(map(str, found)) for found, _ in pairs)
    table = JointTable.from_cells([len(found) for found in values], codes, np.ones(len(codes)))
    return Joint(names, values, codes, table, f"{named.about} ({len(codes):,} rows)", named.is_original)


def hierarchies(data: Data, table: Joint) -> list[Hierarchy]:
    """Return a hierarchy for each quasi-identifier; without a file its values are kept or removed.

    Race has White and others as a level, so that AD Table 5's R vs. O of .37 can come out: `levels.groupings_of_race`.
    """
    return [_hierarchy(data, name, values) for name, values in zip(table.names[:-1], table.values, strict=False)]


def _hierarchy(data: Data, name: str, values: tuple[str, ...]) -> Hierarchy:
    path = data.hierarchy(HIERARCHIES[name])
    found = Hierarchy(name, (values, ("*",) * len(values))) if path is None else read_hierarchy(path, name, values)
    if name != "race":
        return found
    white = tuple(value if value == "White" else "other" for value in values)
    return replace(found, levels=(values, white, found.levels[-1]))
