"""The attacker who has an earlier release of the same people, and looks whether both were drawn with the same words.

It needs the two folders only. Rows are linked by columns that are published as they are in both, where no other row of
either release shares them: a pseudonym, or quasi-identifiers that are unique. A row that is linked wrongly is one more
independent draw, so it raises no false alarm.

Two independent draws of values a and b by matrices P and R are equal with sum_y P[y, a] R[y, b], by retentions p and r
over the same m values with

    (1 + (m - 1) p_a r_a) / m   if a = b,      (1 - p_a r_b) / m   if not

so the share of equal ones among linked rows lies between the least of the second and the largest of the first, whatever
the true values are and whether they changed. Draws that share their words are equal whenever the values are: nearly
always.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.attacker import IN_GROUPS, Attacker
from sfumato.auditor.codes import ColumnCodes, published_codes, release_codes
from sfumato.auditor.evidence import DoesNotApply, Evidence, NotMeasured
from sfumato.auditor.finding import Finding, chance_finding
from sfumato.claims.odds import equal_twice, told_factor
from sfumato.errors import ReleaseError, UsageError
from sfumato.release.verify.verification import as_published
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, CodeArray, IntArray
from sfumato.values.attributes import Attribute
from sfumato.values.chance import Tallies, allowed, counted
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism

MOST_DENSE = 20_000_000  # entries of a matrix that is compared with another entry by entry
LEVEL = 1e-6  # probability of a false alarm, of all counts of two releases together
QUESTION = "Were the two releases drawn with the same random words?"
AS_STATED = "The policy names a record key: values that stay are published alike, as stated."
NOT_BY_TWO = "The record key need not leave it to chance; the promise is for one release, not for the two together."
USED_TWICE = "The same words were used in both releases: the noise of values that stayed is the same."


def reuse(evidence: Evidence) -> Iterator[Finding]:
    if evidence.earlier is None:
        raise DoesNotApply("no earlier release was given (--earlier).")
    pairs = list(_comparable(evidence.release, evidence.earlier))
    if not pairs:
        raise DoesNotApply("no randomized column of the earlier release has the values of one of this release.")
    linked = _linked(evidence.release, evidence.earlier)
    for own, other in pairs:
        yield _finding(evidence, linked, own, other, LEVEL / len(pairs))


def check_earlier(release: Release, earlier: Release) -> None:
    if earlier.manifest.release_id == release.manifest.release_id:
        raise UsageError(
            f"The earlier release is the audited one: both are release {release.manifest.release_id}.",
            "Give another release of the same people.",
        )
    for found in as_published(earlier):
        if found.status == "fails":
            raise ReleaseError(
                f"The earlier release is not as it was published; {found.name}: {found.detail}",
                "Give the folder as it was published.",
            )


def made_alike(release: Release, earlier: Release) -> bool:
    """Whether both draw by the same matrices, and both with a record key or both without one."""
    return release.manifest.second_release == earlier.manifest.second_release and (
        _matrices(release) == _matrices(earlier)
    )


def _matrices(release: Release) -> list[tuple[object, ...]]:
    """Return the columns that are drawn, all values, and the integers of the matrices."""
    return [
        (mechanism.domain.names, _labels(mechanism), [table.matrix.integers for table in mechanism.tables])
        for mechanism in release.manifest.mechanism_values
    ]


def _comparable(release: Release, earlier: Release) -> Iterator[tuple[Mechanism, Mechanism]]:
    """Yield mechanisms of both with one matrix over the same values, or cards; their columns may have other names."""
    for own in release.manifest.mechanism_values:
        for other in earlier.manifest.mechanism_values:
            if own.is_whole and other.is_whole and _labels(own) == _labels(other):
                yield own, other


def _labels(mechanism: Mechanism) -> list[tuple[str, ...]]:
    """Return all values, and all that can be published of them."""
    return [tuple(part.labels) for domain in (mechanism.domain, mechanism.published) for part in domain.parts]


# --- rows of one person -----------------------------------------------------------------------------------------------


class Linked(NamedTuple):
    columns: tuple[str, ...]
    rows: IntArray  # of this release
    earlier: IntArray


def _linked(release: Release, earlier: Release) -> Linked:
    """Link rows by the columns that link most: all that both publish as they are, or one alone, such as a pseudonym.

    The choice depends on these columns only, not on what was drawn.
    """
    own, other = (
        [c.name for c in each.manifest.columns if c.treatment in ("untouched", "binned")] for each in (release, earlier)
    )
    shared = [name for name in own if name in other]
    if not shared:
        raise NotMeasured("the two releases have no column in common that is published as it is.")
    columns = {name: ColumnCodes(Attribute(name, "other")) for name in shared}
    sides = [release_codes(each, columns) for each in (release, earlier)]
    found = [_by(names, sides) for names in dict.fromkeys([tuple(shared), *((name,) for name in shared)])]
    best = max(found, key=lambda linked: linked.rows.size)
    if not best.rows.size:
        raise NotMeasured("no row can be told to be the same person's in both releases: others share its columns.")
    return best


def _by(names: tuple[str, ...], sides: Sequence[dict[str, CodeArray]]) -> Linked:
    """Link rows whose combination of these columns stands once in each release."""
    split = sides[0][names[0]].size
    number = np.zeros(split + sides[1][names[0]].size, dtype=np.int64)
    for name in names:
        column = np.concatenate([side[name] for side in sides]).astype(np.int64)
        _, number = np.unique(number * (column.max(initial=0) + 1) + column, return_inverse=True)
    alone = [np.unique(part, return_index=True, return_counts=True) for part in (number[:split], number[split:])]
    (own, rows), (other, earlier) = ((keys[times == 1], first[times == 1]) for keys, first, times in alone)
    _, here, there = np.intersect1d(own, other, assume_unique=True, return_indices=True)
    return Linked(names, rows[here], earlier[there])


# --- how often independent draws are equal ----------------------------------------------------------------------------


def equal_shares(first: Matrix, second: Matrix) -> tuple[float, float]:
    """Return the least and the largest chance that independent draws of any two values are equal.

    >>> from sfumato.values.matrix.retention import PerturbationMatrix
    >>> nothing = PerturbationMatrix.from_retention([0.5, 0.5, 0.5])
    >>> tuple(round(chance, 6) for chance in equal_shares(nothing, nothing))  # (1 - 1/4)/3 and (1 + 2/4)/3
    (0.25, 0.5)
    """
    p, r, m = first.retention, second.retention, first.size
    if m == 1:
        return 1.0, 1.0
    if p is None or r is None:
        if first.outputs * m > MOST_DENSE:
            raise NotMeasured("the two matrices have too many entries to compare them.")
        chances = first.dense().T @ second.dense()
        return float(chances.min()), float(chances.max())
    (a, b), (c, d) = (np.argsort(-retention, kind="stable")[:2] for retention in (p, r))
    unlike = p[a] * r[c] if a != c else max(p[a] * r[d], p[b] * r[c])
    return float((1 - unlike) / m), float((1 + (m - 1) * (p * r).max()) / m)


def equal_rows(equal: BoolArray, first: Matrix, second: Matrix) -> Tallies:
    least, most = equal_shares(first, second)
    hits, rows = int(np.count_nonzero(equal)), equal.size
    return counted([
        (hits, rows, most, "linked rows that are published equal"),
        (rows - hits, rows, 1 - least, "linked rows that are published different"),
    ])  # fmt: skip


# --- what they show ---------------------------------------------------------------------------------------------------


def _finding(evidence: Evidence, linked: Linked, own: Mechanism, other: Mechanism, level: float) -> Finding:
    assert evidence.earlier is not None
    first, second = published_codes(evidence.release, own), published_codes(evidence.earlier, other)
    equal = first[linked.rows] == second[linked.earlier]
    least, most = equal_shares(own.matrix, other.matrix)
    if allowed(equal.size, most, np.log(level / 2)) >= 1:
        raise NotMeasured(
            f"{equal.size:,} rows are linked, and even if all were published equal, chance could explain it: "
            f"independent draws of equal values are equal with a chance of up to {percent(most)}."
        )
    by, same_column = ", ".join(linked.columns), own.domain.names == other.domain.names
    found = chance_finding(
        equal_rows(equal, own.matrix, other.matrix),
        equal.size,
        level,
        "reuse",
        own.domain.name if same_column else f"{own.domain.name} and {other.domain.name}",
        QUESTION,
        f"Sees both releases and no table. Links {equal.size:,} rows by {by}, which no other row of either shares.",
        LEVEL,
        f"{int(equal.sum()):,} linked rows are published equal; independent draws are equal with a chance between "
        f"{percent(least)} and {percent(most)}, whatever the values are.",
    )
    if not found.broken:
        return found
    if equal.mean() < least:
        return found.with_remark("Fewer are equal than independent draws give: the draws avoid each other.")
    gain = f"Equal values in both raise the odds of a value that lasts by up to {told_factor(equal_twice(own.matrix))}."
    if different := int((~equal).sum()):
        gain += f" The {different:,} rows that differ have none of the values that never change."
    if evidence.table.policy.record_key is None or not same_column:
        return found.with_remark(USED_TWICE, gain)
    of_two = replace(found, promised=None, stated=found.promised, broken=None, why_not_covered=NOT_BY_TWO)
    return of_two.with_remark(AS_STATED, gain)


ATTACKER = Attacker(
    name="reuse",
    knows="compares the release with an earlier one of the same people",
    acceptable=(
        "Acceptable if the earlier release is not known to anybody who gets this one. Not otherwise: make a new "
        "key, and publish anew."
    ),
    on={"randomized": reuse, "several": reuse, "response": reuse, "groups": IN_GROUPS},
    place=11,
)
