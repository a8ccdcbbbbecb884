"""The attacker who sees two releases of one table by groups, dealt anew, and links the two rows of one person.

Both rows are of the person, so the value is in both groups. Given the value x, the person has any of the places of x in
each release with the same probability, and the two deals are independent. With the table's counts n_x as a prior,

    belief in x    n_x * c(x)/n_x * c'(x)/n_x = c(x) c'(x) / n_x, up to a factor

c and c' are the counts of x in the person's two groups. Where records are dealt inside cells, n_x counts the cell, and
groups must be of one cell.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.auditor.grouped import GroupTables
from sfumato.values.matrix.retention import FloatArray

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class TwoGroups:
    """What two groups tell of each person."""

    largest: FloatArray  # belief
    likeliest: IntArray  # the value of that
    true: FloatArray  # belief in the person's value
    once: FloatArray  # the same after the first release
    possible: IntArray  # values that are in both groups


def two_groups(
    tables: tuple[GroupTables, GroupTables],
    groups: tuple[IntArray, IntArray],
    true: IntArray,
    counts: IntArray,
    cells: IntArray,
) -> TwoGroups:
    """Return the beliefs about people. groups: theirs in each release; counts: [cell, value], of the table.

    Every value of a group must occur in the cells of its people.
    """
    first = tables[0].lines
    lengths = (first.ends - first.starts)[groups[0]]
    start = np.cumsum(lengths) - lengths
    person = np.repeat(np.arange(lengths.size), lengths)
    line = first.starts[groups[0]][person] + np.arange(person.size) - start[person]
    codes = first.codes[line]
    weights = first.counts[line] * _counted(tables[1], groups[1][person], codes) / counts[cells[person], codes]
    beliefs = weights / np.add.reduceat(weights, start)[person]
    largest = np.maximum.reduceat(beliefs, start)
    likeliest = np.full(lengths.size, -1)
    best = np.flatnonzero(beliefs == largest[person])
    likeliest[person[best]] = codes[best]
    own = np.flatnonzero(codes == true[person])
    return TwoGroups(
        largest=largest,
        likeliest=likeliest,
        true=beliefs[own],
        once=first.counts[line[own]] / tables[0].sizes[groups[0]],
        possible=np.add.reduceat((weights > 0).astype(np.int64), start),
    )


def _counted(tables: GroupTables, groups: IntArray, codes: IntArray) -> IntArray:
    """Return how often each group has each value."""
    lines = tables.lines
    width = int(max(lines.codes.max(), codes.max())) + 1
    keys = lines.groups * width + lines.codes
    order = np.argsort(keys)
    wanted = groups * width + codes
    at = order[np.minimum(np.searchsorted(keys, wanted, sorter=order), order.size - 1)]
    return np.where(keys[at] == wanted, lines.counts[at], 0)
