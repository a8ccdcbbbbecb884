"""The attacker who sees two releases of one table by groups, dealt anew, and links the two rows of one person.

Both rows are of the person, so the value is in both groups. Given the value x, the person has any of the places of x in
each release with the same probability, and the two deals are independent. With the table's counts n_x as a prior,

    belief in x    n_x * c(x)/n_x * c'(x)/n_x = c(x) c'(x) / n_x, up to a factor

c and c' are the counts of x in the person's two groups. Where records are dealt inside cells, n_x counts the cell, and
groups must be of one cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence
from sfumato.auditor.finding import ROUNDING, SHOWN, Exposed, Finding, settled
from sfumato.auditor.grouped import MIXED, GroupTables
from sfumato.auditor.knowledge import MOST_SHARES
from sfumato.methods import plan
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.randomness import SecretKey, simulation


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
    person, line = first.each(groups[0])
    start = np.flatnonzero(np.diff(person, prepend=-1))
    codes = first.codes[line]
    weights = first.counts[line] * tables[1].lines.count(groups[1][person], codes) / counts[cells[person], codes]
    beliefs = weights / np.add.reduceat(weights, start)[person]
    largest = np.maximum.reduceat(beliefs, start)
    likeliest = np.full(start.size, -1)
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


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    """Who finds a person's row in both releases, and compares the two groups."""
    with TemporaryDirectory() as folder:
        second = _second(evidence, Path(folder) / "release")
        people = np.flatnonzero(_told_apart(evidence) & _told_apart(second))
        if not people.size:
            raise DoesNotApply("no row can be told to be the same person's in both releases: others share its columns.")
        groups = [each.group_tables.rows[each.matched[people]] for each in (evidence, second)]
        cells = evidence.signatures(evidence.groups_part.dealt_within).table
        tables, true = (evidence.group_tables, second.group_tables), evidence.values.table[people]
        number, size = int(cells.max()) + 1, evidence.values.size
        if number * size > MOST_SHARES:
            raise DoesNotApply(f"{number:,} cells are too many to be counted in memory.")
        counts = cross_counts(cells, evidence.values.table, number, size)
        found = two_groups(tables, (groups[0], groups[1]), true, counts, cells[people])
    yield _finding(evidence, people, found)


def _second(evidence: Evidence, folder: Path) -> Evidence:
    """Publish the table again, under another key."""
    key = SecretKey.fresh()
    if evidence.seed is not None:  # not the key of a test's release
        key = SecretKey.from_seed(int(simulation(evidence.seed).integers(2**62)))
    made = plan(profile(evidence.table), evidence.table.policy.method, evidence.table.policy.requirement, key=key)
    return Evidence(evidence.table, publish(evidence.table, made, folder, key=key))


def _told_apart(evidence: Evidence) -> BoolArray:
    """Return which records of the table have a row of their own, in a group that was dealt inside one cell."""
    tables, row = evidence.group_tables, evidence.matched
    home = tables.homes(evidence.signatures(evidence.groups_part.dealt_within).release)
    return np.asarray((row != UNMATCHED) & (home != MIXED)[tables.rows[row]])


def _finding(evidence: Evidence, people: IntArray, found: TwoGroups) -> Finding:
    limit, within = float(evidence.group_claim.at_most), evidence.groups_part.dealt_within
    alike = f" with the same {', '.join(within)}" if within else ""
    certain = int((found.possible == 1).sum())
    own = evidence.signatures([name for name in evidence.comparable if name in evidence.quasi_identifiers])
    return Finding(
        attacker="averaging",
        question="Which value has a person whose rows in two releases of the table are known?",
        assumption=(
            "Sees this release and a second one that was dealt anew; finds the two rows of one person by columns that "
            f"nobody else shares; knows how many records of the table{alike} have each value."
        ),
        measured=(
            "the belief in a value of a person (worst), and in the person's true value (mean); exact for this release "
            "and the second one that was drawn for the audit"
        ),
        worst=float(found.largest.max()),
        mean=float(found.true.mean()),
        records=people.size,
        at_risk=int((found.largest > limit * (1 + ROUNDING)).sum()),
        stated=limit,
        baseline=float(np.bincount(evidence.values.table).max() / evidence.rows),
        exposed=tuple(
            Exposed(
                f"{own.told[own.table[people[k]]]}: {evidence.values.labels[found.likeliest[k]]!r}",
                1,
                float(found.largest[k]),
            )
            for k in np.argsort(-settled(found.largest), kind="stable")[:SHOWN].tolist()
        ),
        remark=(
            f"After one release the mean belief in the true value is {found.once.mean():.4g}. Of {certain:,} people "
            "the two groups have one value only in common: it is certain. Asked for are people who can be found in "
            f"both{', and whose groups are of one cell' if within else ''}; one who solves for all people at once may "
            "learn more."
        ),
    )
