"""The attacker who knows a person's group and nothing that tells its members apart (Anatomy).

    belief in x of a member = c_x / N,      c_x of the N records of the group have x

All ways to give the group's values to its members are equally likely to him. So a group keeps 1/l exactly if no value
has a larger share of it. That is also the mean of the beliefs of one who does tell members apart, whatever his prior:
over the members of a group Pr(t has x) sums to c_x. So 1/r, promised against him, bounds it too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from sfumato.auditor.finding import SHOWN, Exposed, Finding
from sfumato.auditor.grouped import GroupTables, IntArray

QUESTION = "Which true value does a record have, given its group?"


def group_shares_finding(tables: GroupTables, at_most: Fraction, values: Sequence[str] = ()) -> Finding:
    """Return the share of the commonest value of each group beside the bound; compared in integers."""
    lines, sizes = tables.lines, tables.sizes
    commonest = lines.ends - 1  # the line of each group: its most frequent value stands last
    largest = lines.counts[commonest]
    above = largest * at_most.denominator > sizes * at_most.numerator
    order = np.lexsort((-sizes, -(largest / sizes)))
    worst = int(order[0])
    in_truth = float((lines.counts**2 / sizes[lines.groups]).sum())
    return Finding(
        attacker="posterior",
        question=QUESTION,
        assumption=(
            "Knows the group of the record, and nothing that tells its members apart. Prior: every way to give the "
            "group's values to its members is equally likely."
        ),
        measured="the share of a value in a group (worst), and of a record's true value in its group (mean); exact",
        worst=float(largest[worst] / sizes[worst]),
        mean=in_truth / tables.rows.size,
        records=tables.rows.size,
        at_risk=int(sizes[above].sum()),
        promised=float(at_most),
        baseline=float(np.bincount(tables.values, tables.counts).max() / tables.rows.size),
        exposed=tuple(_exposed(tables, order[:SHOWN], commonest, values)),
        remark=f"{int(above.sum()):,} of {sizes.size:,} group(s) have a value with a larger share.",
        broken=bool(above.any()),
    )


def _exposed(tables: GroupTables, groups: IntArray, commonest: IntArray, values: Sequence[str]) -> Iterator[Exposed]:
    for group in groups.tolist():
        code, count = (int(part[commonest[group]]) for part in (tables.lines.codes, tables.lines.counts))
        name = repr(values[code]) if values else f"value {code + 1}"
        size = int(tables.sizes[group])
        yield Exposed(f"{tables.told(group)}: {name}", size, count / size)
