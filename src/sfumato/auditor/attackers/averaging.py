"""The attacker who sees two releases of the same people, and puts together what both tell.

Fresh noise: releases are independent given the true values. The odds of a value change by its factor in one release
times the largest ratio of the matrix for the other one, and that is reached by someone for whom values may change
(`sfumato.claims.odds`).

Record key: a value that stays is published alike, one that changes is drawn anew. If everybody knew that no value ever
changes, two releases would tell what one tells. Someone who holds one value to last and others to change learns from
equal published values, up to `Matrix.equal_twice`; different ones exclude with certainty a value that never changes.

The likeliest value given published y_1 .. y_t is right with probability sum of max_x f_x prod_s P[y_s, x]. Where the
matrix is made of retentions, P[y, x] = q_x + p_x [y = x] and d_x = P[x, x], with R_t = max_x f_x q_x^t that is

    one release     sum_y max(f_y d_y, R_1)
    two releases    sum_y max(f_y d_y^2, R_2)  +  sum over y != z of max(f_y d_y q_y, f_z d_z q_z, R_2)

Of other matrices, and of sub-tables that are dealt anew, the sum is taken, or drawn from.

Rows with randomized quasi-identifiers (AD) are independent given the true values, too, also column by column: with pi
the true joint table,

    belief in u     sum_a pi(a, u) prod_k P_k[b_k, a_k] P_k[b'_k, a_k], times P_s[v, u] P_s[v', u] if S is seen too

Each column's factor does not depend on which of its two values is in which row: there are d (d+1)/2 pairs of a column
with d values, and one of d where it is published untouched. All pairs are gone through where they are few enough; else
people are drawn, each with two rows.

Groups dealt anew: both rows are of the person, so the value is in both groups. Given the value x, the person has any of
the places of x in each release with the same probability, and the two deals are independent. With the table's counts
n_x as a prior,

    belief in x    n_x * c(x)/n_x * c'(x)/n_x = c(x) c'(x) / n_x, up to a factor

c and c' are the counts of x in the person's two groups. Where records are dealt inside cells, n_x counts the cell, and
groups must be of one cell.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import numpy as np

from sfumato.auditor.attacker import Attacker, listed
from sfumato.auditor.attackers.linking import PRIOR, UNTOUCHED, RowBeliefs, attacked, row_beliefs
from sfumato.auditor.attackers.linking import QUESTION as WHICH_SENSITIVE
from sfumato.auditor.attackers.posterior import QUESTION, posterior_finding
from sfumato.auditor.attackers.reuse import made_alike
from sfumato.auditor.beliefs import Quotas, compositions, held_records
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import UNMATCHED, Evidence, NotMeasured
from sfumato.auditor.finding import ROUNDING, Finding, most_exposed
from sfumato.auditor.grouped import MIXED, GroupTables
from sfumato.auditor.knowledge import MOST_SHARES
from sfumato.claims.odds import with_fresh_noise
from sfumato.methods import plan
from sfumato.methods.response.joint import Channel, Channels, JointTable
from sfumato.publisher.publish import publish
from sfumato.publisher.table import profile
from sfumato.show.words import percent
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import WORDS
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, simulation

MOST_ENUMERATED = 2 * 10**7  # what can be published of two releases times values, up to which all of it is enumerated
SAMPLED = 5_000  # records that are drawn with a matrix that has too many entries to write them down
SIMULATED, SIMULATED_ROWS = 20_000, 2_000  # records, and people with rows, that are drawn where that is too much
NORMAL_95 = 1.959964
IF_VALUES_STAY = (
    "Assumed, not proved, is that how long a value lasts says nothing about it: only then do two releases "
    "with the record key tell what one tells."
)
OTHER_MATRICES = (
    "The record key repeats draws only where the same matrices come out; where a changed table gives others, noise is "
    "fresh, and these are the figures. Where they are the same, two releases tell what one tells only if how long a "
    "value lasts says nothing about it: that is assumed, not proved."
)


# --- values that one mechanism randomized -----------------------------------------------------------------------------


def exact_recovery(matrix: Matrix, shares: FloatArray, releases: Literal[1, 2], limits: FloatArray) -> RowBeliefs:
    """Return how often the likeliest value is right (the mean), and the largest belief in a protected one.

    At these shares, for one release or two by a matrix that is made of retentions. The largest belief in a value comes
    after it was published every time, which lowers all others most.

    >>> from sfumato.values.matrix.retention import PerturbationMatrix
    >>> flip = PerturbationMatrix.from_retention([0.5, 0.5])  # keeps a value with probability 3/4
    >>> [exact_recovery(flip, np.array([0.9, 0.1]), t, np.ones(2)).mean for t in (1, 2)]
    [0.9, 0.9]
    """
    codes, d = np.arange(matrix.size, dtype=np.int32), matrix.diagonal
    q = matrix.chances(np.roll(codes, 1), codes)
    own, other = shares * d**releases, shares * q**releases
    right = np.maximum(own, other.max()).sum()
    if releases == 2:  # and where the two differ: each is the larger one of all that are smaller, in either order
        right += 2 * np.sort(np.maximum(shares * d * q, other.max())) @ codes
    beliefs = own / np.maximum(own + other.sum() - other, np.finfo(np.float64).tiny)
    return RowBeliefs(float(beliefs[np.isfinite(limits)].max(initial=0)), float(right))


def dealt_channel(mechanism: Mechanism, quotas: Quotas) -> FloatArray:
    """Return Pr(sub-table and published value | true value): a row for all that each sub-table publishes.

        W[(j, y), x] = (records of x in sub-table j / records of x) P_j[y, x]

    Values that no record has are left at 0.
    """
    held = held_records(mechanism, quotas)
    rows = []
    for table, counts in zip(mechanism.tables, quotas, strict=True):
        block = np.zeros((table.matrix.outputs, mechanism.domain.size))
        block[:, table.codes] = table.matrix.dense() * (np.asarray(counts) / np.maximum(held[table.codes], 1))
        rows.append(block)
    return np.concatenate(rows)


def enumerated_recovery(channel: FloatArray, shares: FloatArray, releases: int, limits: FloatArray) -> RowBeliefs:
    """Return it by going through all sequences of what can be published; limits are inf of values without one."""
    joint = shares[None, :]
    for _ in range(releases):
        joint = (joint[:, None, :] * channel).reshape(-1, shares.size)
    total = joint.sum(axis=1, keepdims=True)
    beliefs = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    beyond = total[(beliefs > limits * (1 + ROUNDING)).any(axis=1)].sum()
    worst = beliefs[:, np.isfinite(limits)].max(initial=0)
    return RowBeliefs(float(worst), float(joint.max(axis=1).sum()), float(beyond))


def simulated_recovery(
    channel: FloatArray,
    shares: FloatArray,
    releases: int,
    limits: FloatArray,
    seed: int | None = None,
    records: int = SIMULATED,
) -> RowBeliefs:
    """Return it from drawn records, with 95% limits of the share: the mean of their largest beliefs is its estimate."""
    draw = simulation(seed)
    steps = np.cumsum(channel, axis=0).T  # [x, outcome]

    def weights_of(x: int) -> FloatArray:
        outcomes = np.searchsorted(steps[x], draw.random(releases) * steps[x, -1], side="right")
        return np.asarray(shares * channel[outcomes].prod(axis=0))

    return _measured(map(weights_of, draw.choice(shares.size, records, p=shares)), records, limits)


def sampled_recovery(
    matrix: Matrix,
    shares: FloatArray,
    releases: int,
    limits: FloatArray,
    seed: int | None = None,
    records: int = SAMPLED,
) -> RowBeliefs:
    """Return it from drawn records where one matrix for all rows has too many entries to write them down."""
    draw, values = simulation(seed), np.arange(shares.size)
    true = draw.choice(shares.size, records, p=shares).astype(np.int32)
    words = draw.integers(0, WORDS, (releases, records), dtype=np.uint64)
    published = np.array([matrix.sample(true, of_release) for of_release in words])
    seen = (np.prod([matrix.chances(np.full(shares.size, y), values) for y in shown], axis=0) for shown in published.T)
    return _measured((shares * chances for chances in seen), records, limits)


def _measured(weights: Iterable[FloatArray], records: int, limits: FloatArray) -> RowBeliefs:
    """Return what the beliefs about so many drawn records show; weights: of each, its beliefs up to a factor."""
    largest, beyond, worst, protected = np.empty(records), 0, 0.0, np.isfinite(limits)
    for record, of_record in enumerate(weights):
        beliefs = of_record / of_record.sum()
        largest[record] = beliefs.max()
        beyond += int((beliefs > limits).any())
        worst = max(worst, float(beliefs[protected].max(initial=0)))
    return RowBeliefs(worst, float(largest.mean()), beyond / records, _mean_limits(largest))


def _mean_limits(drawn: FloatArray) -> tuple[float, float]:
    mean, off = float(drawn.mean()), NORMAL_95 * float(drawn.std(ddof=1)) / math.sqrt(drawn.size)
    return max(0.0, mean - off), min(1.0, mean + off)


def recovery(mechanism: Mechanism, quotas: Quotas, releases: Literal[1, 2], seed: int | None = None) -> RowBeliefs:
    """Return it at the table's shares; quotas are the records of each value of each sub-table."""
    held = held_records(mechanism, quotas)
    shares = held / held.sum()
    limits = np.array([math.inf if bound.rho2 is None else float(bound.rho2) for bound in mechanism.bounds])
    if mechanism.is_whole and mechanism.matrix.retention is not None:
        protected = np.array([1.0 if bound.gamma is not None else math.inf for bound in mechanism.bounds])
        return exact_recovery(mechanism.matrix, shares, releases, protected)
    if mechanism.is_whole and mechanism.matrix.outputs * shares.size > MOST_ENUMERATED:
        return sampled_recovery(mechanism.matrix, shares, releases, limits, seed)
    channel = dealt_channel(mechanism, quotas)
    if len(channel) ** releases * shares.size <= MOST_ENUMERATED:
        return enumerated_recovery(channel, shares, releases, limits)
    return simulated_recovery(channel, shares, releases, limits, seed)


def averaging_findings(
    mechanism: Mechanism, quotas: Quotas, keyed: bool = False, seed: int | None = None
) -> Iterator[Finding]:
    """Yield what two releases of the table tell; `keyed`: in which records keep their draws by a record key.

    Over all priors within the requirement where one matrix is for all rows; where sub-tables are dealt anew, at the
    table's shares, as a sub-table excludes values and the worst prior would be certain.
    """
    once = recovery(mechanism, quotas, 1, seed)
    if keyed:
        yield from _keyed_findings(mechanism, quotas, once.mean)
        return
    found = recovery(mechanism, quotas, 2, seed)
    if mechanism.is_whole:
        finding = posterior_finding(
            mechanism, quotas, "upward", False, "averaging", lambda m, i: with_fresh_noise(m.upward(i), m, 2)
        )
    else:
        finding = _dealt_finding(mechanism, found, int(sum(sum(counts) for counts in quotas)))
    limits = (
        "" if found.interval is None else f" (95% limits {percent(found.interval[0])} to {percent(found.interval[1])})"
    )
    yield replace(
        finding,
        assumption=f"Sees 2 releases, and knows which rows are of one record. {finding.assumption}",
        measured="worst: a belief; mean: how often the likeliest value is right at the table's shares",
        mean=found.mean,
    ).with_remark(
        f"The likeliest value is right for {percent(found.mean)} of the records{limits}, after one for "
        f"{percent(once.mean)}."
    )


def _keyed_findings(mechanism: Mechanism, quotas: Quotas, once: float) -> Iterator[Finding]:
    """Yield what equal and what different published values of a record tell, where values that stay repeat."""
    equal = posterior_finding(mechanism, quotas, "upward", False, "averaging", lambda m, code: m.equal_twice(code))
    sees = "Sees two releases with the record key, and knows which rows are of one record."
    yield replace(
        equal,
        assumption=f"{sees} Holds records with the value to keep it, and all others to change. {equal.assumption}",
        measured=(
            "worst: a belief, where both releases show the value; mean: how often the likeliest value is right at the "
            "table's shares if no value changed"
        ),
        mean=once,
        remark=f"{IF_VALUES_STAY} {equal.remark}",
        about="published equal",
    )
    yield replace(
        equal,
        assumption=f"{sees} Holds all values but one never to change.",
        measured="a belief, where the two releases show different values; exact",
        worst=1.0,
        mean=None,
        baseline=None,
        exposed=(),
        stated=min((float(own.rho2) for own in mechanism.bounds if own.rho2 is not None), default=equal.stated),
        why_bound="",
        nearest=None,  # certainty is furthest beyond the strictest bound
        who="",
        remark="A published value that differs tells that the true value changed: values that never change are out.",
        broken=None,
        about="published different",
    )


def _dealt_finding(mechanism: Mechanism, found: RowBeliefs, records: int) -> Finding:
    return Finding(
        attacker="averaging",
        question=QUESTION,
        assumption="Knows the matrices and quotas; sub-tables are dealt anew every time. Prior: the table's shares.",
        measured="",
        worst=found.worst,
        records=records,
        at_risk=round((found.above) * records),
        stated=max((float(bound.rho2) for bound in mechanism.bounds if bound.rho2 is not None), default=None),
    )


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    apart = evidence.earlier is not None and not made_alike(evidence.release, evidence.earlier)
    keyed = evidence.table.policy.record_key is not None and not apart  # else both draw for themselves
    yield from averaging_findings(evidence.mechanism, evidence.once(compositions).quotas, keyed, evidence.seed)


# --- randomized rows --------------------------------------------------------------------------------------------------


def pairs(channel: Channel, releases: int = 2) -> FloatArray:
    """Return Pr(what is published | true value) of a column: a row for each value, or pair of values in any order."""
    single = channel.matrix.dense() if channel.off_diagonal > 0 else np.eye(channel.size)
    if releases == 1 or channel.off_diagonal == 0:
        return single
    first, second = np.triu_indices(channel.size)
    times = np.where(first == second, 1, 2)
    return np.asarray(times[:, None] * single[first] * single[second])


def two_rows(
    table: JointTable, channels: Channels, limit: float, whole: bool, releases: int = 2, seed: int | None = None
) -> RowBeliefs:
    """Return what the two rows tell; `whole`: of S too, not of quasi-identifiers only. releases = 1: what one tells."""
    seen = channels if whole else channels[:-1]
    factors = [pairs(channel, releases) for channel in seen]
    if math.prod(len(factor) for factor in factors) * table.sizes[-1] > MOST_ENUMERATED:
        return _simulated(table, seen, releases, limit, seed)
    joint = table.array.astype(np.float64)
    for axis, factor in enumerate(factors[: len(table.sizes) - 1]):
        joint = np.moveaxis(np.tensordot(factor, joint, axes=(1, axis)), 0, axis)
    people = joint.reshape(-1, table.sizes[-1])  # [pairs of quasi-identifiers, u]: expected
    return row_beliefs(people, factors[-1] if whole else np.ones((1, table.sizes[-1])), limit)


def _simulated(table: JointTable, seen: Channels, releases: int, limit: float, seed: int | None) -> RowBeliefs:
    draw, whole = simulation(seed), len(seen) == len(table.sizes)
    drawn = draw.choice(table.counts.size, SIMULATED_ROWS, p=table.counts.ravel() / table.records)
    true, worst = np.empty(SIMULATED_ROWS), 0.0
    for k, cell in enumerate(drawn.tolist()):
        group, value = divmod(cell, table.sizes[-1])
        weights = table.counts.astype(np.float64)
        for axis, channel in enumerate(seen):
            own = value if whole and axis == len(seen) - 1 else int(table.groups[group, axis])
            chance = _chance(channel, own, releases, draw)  # of what was drawn, by true value
            weights *= chance if whole and axis == len(seen) - 1 else chance[table.groups[:, axis]][:, None]
        beliefs = weights.sum(axis=0) / weights.sum()
        true[k], worst = beliefs[value], max(worst, float(beliefs.max()))
    above = float((true > limit * (1 + ROUNDING)).mean())
    return RowBeliefs(worst, float(true.mean()), above, _mean_limits(true))


def _chance(channel: Channel, own: int, releases: int, draw: np.random.Generator) -> FloatArray:
    kept = draw.random(releases) < channel.retention
    shown: IntArray = np.where(kept, own, draw.integers(channel.size, size=releases))
    chance = np.full((releases, channel.size), channel.off_diagonal)
    chance[np.arange(releases), shown] += channel.retention
    return np.asarray(chance.prod(axis=0))


def of_response(evidence: Evidence) -> Iterator[Finding]:
    found, claim = evidence.once(attacked), evidence.manifest.risk_claim
    table, limit = found.axes.table, float(np.min(found.axes.limits(claim.limit)))
    for about, whole in (("quasi-identifiers", False), ("whole rows", True)):
        once, twice = (two_rows(table, found.channels, limit, whole, times, evidence.seed) for times in (1, 2))
        yield (
            _two_rows_finding(table, once, twice, limit, whole)
            .named(about)
            .with_remark(
                OTHER_MATRICES if evidence.table.policy.record_key else "",
                UNTOUCHED if whole and found.channels[-1].off_diagonal == 0 else "",
            )
        )


def _two_rows_finding(table: JointTable, once: RowBeliefs, twice: RowBeliefs, limit: float, whole: bool) -> Finding:
    seen = "both rows" if whole else "the quasi-identifiers of both rows and nothing else of them"
    exact, more = "exact, over all that can be published", ""
    if twice.interval is not None:
        low, high = twice.interval
        exact = f"of {SIMULATED_ROWS:,} people who were drawn"
        limits = f"{percent(low)} to {percent(high)}"
        more = f" The mean of two has 95% limits {limits}; larger beliefs than the worst may exist."
    return Finding(
        attacker="averaging",
        question=WHICH_SENSITIVE,
        assumption=(
            "Is told which row of this release and which row of a second one, with fresh noise, are of one person: the "
            f"rows themselves do not tell, if quasi-identifiers are randomized. Sees {seen}, and knows the matrices. "
            f"{PRIOR}"
        ),
        measured=f"the belief in a value (worst), and in the true value (mean); {exact}",
        worst=twice.worst,
        mean=twice.mean,
        records=table.records,
        at_risk=round(twice.above * table.records),
        stated=limit,
        baseline=float(table.counts.sum(axis=0).max() / table.records),
        remark=f"After one release the mean is {percent(once.mean)}, and the worst {percent(once.worst)}.{more}",
    )


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TwoGroups:
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
    with TemporaryDirectory() as folder:
        second = _second(evidence, Path(folder) / "release")
        people = np.flatnonzero(_told_apart(evidence) & _told_apart(second))
        if not people.size:
            raise NotMeasured("no row can be told to be the same person's in both releases: others share its columns.")
        groups = [each.group_tables.rows[each.matched[people]] for each in (evidence, second)]
        cells = evidence.signatures(evidence.groups_part.dealt_within).table
        tables, true = (evidence.group_tables, second.group_tables), evidence.values.table[people]
        number, size = int(cells.max()) + 1, evidence.values.size
        if number * size > MOST_SHARES:
            raise NotMeasured(f"{number:,} cells are too many to be counted in memory.")
        counts = cross_counts(cells, evidence.values.table, number, size)
        found = two_groups(tables, (groups[0], groups[1]), true, counts, cells[people])
    yield _two_groups_finding(evidence, people, found)


def _second(evidence: Evidence, folder: Path) -> Evidence:
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


def _two_groups_finding(evidence: Evidence, people: IntArray, found: TwoGroups) -> Finding:
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
        exposed=most_exposed(
            found.largest,
            np.ones_like(people),
            lambda k: f"{own.told[own.table[people[k]]]}: {evidence.values.labels[found.likeliest[k]]!r}",
        ),
        remark=(
            f"After one release the mean belief in the true value is {percent(found.once.mean())}. Of {certain:,} "
            "people the two groups have one value only in common: it is certain. Asked for are people who can be found "
            f"in both{', and whose groups are of one cell' if within else ''}; someone who solves for all people at "
            "once may learn more."
        ),
    )


ATTACKER = Attacker(
    name="averaging",
    knows="sees a second release of the same table",
    why_not_covered="The guarantee is about one release.",
    acceptable=(
        "Acceptable if these people are published once. Not if the same people are released again, by you or by others."
    ),
    on={"randomized": of_randomized, "response": of_response, "groups": of_groups},
    again=(
        "Acceptable if these people may be published a second time, with what both releases tell together. Not if "
        "somebody who must not learn that much can get both."
    ),
    public=listed(11, False),
    place=10,
)
