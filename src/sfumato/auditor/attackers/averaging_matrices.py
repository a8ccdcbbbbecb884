"""The attacker who sees several releases of one table.

Fresh noise: releases are independent given the true values. The odds of a value change by its factor in one release
times the largest ratio of the matrix for every further one, and that is reached by someone for whom values may change
(`sfumato.claims.second_release`).

Record key: a value that stays is published alike, one that changes is drawn anew. If everybody knew that no value ever
changes, two releases would tell what one tells. Someone who holds one value to last and others to change learns from
equal published values, up to `Matrix.equal_twice`; different ones exclude with certainty a value that never changes.

The likeliest value given t published ones is right with probability

    sum over all published y_1 .. y_t of max_x f_x prod_s P[y_s, x] = sum of max_x f_x q_x^t g_x^(times x is published)

with g_x = (p_x + q_x)/q_x, where the matrix is made of retentions. The number of sequences whose maximum is at most
theta is t! times the coefficient of z^t in prod_x (sum_k z^k/k! over the k with score f_x q_x^t g_x^k <= theta): exact
for any number of values. Of other matrices the sum is taken, or drawn from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sfumato.auditor.attackers.posterior import QUESTION, Quotas, worst_prior_finding, worst_priors
from sfumato.auditor.finding import ROUNDING, Finding
from sfumato.claims.second_release import with_fresh_noise
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import simulation

MOST_SEQUENCES = 10**9
"""Sequences of published values up to which the exact sum is within 1e-6: it loses this factor of floating point."""
MOST_CELLS = 2 * 10**7
"""Sequences of published values times values, up to which all are enumerated."""
SIMULATED = 20_000
"""Records that are drawn where they are too many."""
NORMAL_95 = 1.959964
IF_VALUES_STAY = (
    "Assumed, not proved, is that how long a value lasts tells nothing of which value it is: only then do two releases "
    "with the record key tell what one tells."
)


@dataclass(frozen=True)
class Recovery:
    """How often the likeliest value is right, and the largest belief in a protected one, at the table's shares.

    Of a simulation `interval` has the 95% limits of the share, and `worst` is the largest belief that was drawn: there
    may be larger ones.
    """

    releases: int
    share: float
    worst: float
    beyond: float | None = None  # share of the records with a belief in a protected value above its limit
    interval: tuple[float, float] | None = None


# --- one matrix, made of retentions -----------------------------------------------------------------------------------


def recovered_share(matrix: Matrix, shares: FloatArray, releases: int) -> float:
    """Return how often the likeliest value given so many independent releases is right.

    >>> from sfumato.values.matrix.retention import PerturbationMatrix
    >>> flip = PerturbationMatrix.from_retention([0.5, 0.5])  # keeps a value with probability 3/4
    >>> [round(recovered_share(flip, np.array([0.5, 0.5]), t), 6) for t in (1, 2, 3)]
    [0.75, 0.75, 0.84375]
    """
    scores = _scores(matrix, shares, releases)
    least = scores[:, 0].max()  # no maximum is smaller: every value has its score for 0 times
    thresholds, logs = _thresholds(scores, float(least))
    sequences = _last_coefficient(logs) * math.factorial(releases)
    below = np.concatenate([[0.0], sequences[:-1]])
    return float(thresholds @ (sequences - below))


def _scores(matrix: Matrix, shares: FloatArray, t: int) -> FloatArray:
    """f_x P[y, x] ..., by how often x is among the published: [values, 0 .. t], times m^t."""
    k, m = np.arange(t + 1), matrix.size
    codes = np.arange(m, dtype=np.int32)
    q, d = matrix.chances(np.roll(codes, 1), codes)[:, None] * m, matrix.diagonal[:, None] * m
    scores: FloatArray = shares[:, None] * q ** (t - k) * d**k
    return scores


def _thresholds(scores: FloatArray, least: float) -> tuple[FloatArray, FloatArray]:
    """Return the scores from the least possible maximum on, and the log of the product at each: [scores, 0 .. t].

    z is divided by m, so that the coefficients count sequences by their share. A score that is reached lets its value
    be published once more: its factor e_k becomes e_(k+1), and the log of the product grows by the difference.
    """
    m, t = scores.shape[0], scores.shape[1] - 1
    factors = _log_exponentials(t) / float(m) ** np.arange(t + 1)  # [k]: log of 1 + z + .. + z^k/k!
    value, times = np.divmod(np.argsort(scores, axis=None, kind="stable"), t + 1)
    order = scores[value, times]
    first = int(np.searchsorted(order, least, side="right"))
    growth = factors[times] - factors[np.maximum(times - 1, 0)]  # of k = 0: nothing, the factor is 1 = e^0
    logs = np.cumsum(growth, axis=0)[first - 1 :]
    return order[first - 1 :], logs


def _log_exponentials(t: int) -> FloatArray:
    """Return the logs of the truncated exponentials 1 + z + .. + z^k/k! as series up to z^t: [k, coefficient]."""
    logs = np.zeros((t + 1, t + 1))
    for k in range(t + 1):
        a = [1 / math.factorial(n) if n <= k else 0.0 for n in range(t + 1)]
        for n in range(1, t + 1):  # a' = a (log a)'
            logs[k, n] = a[n] - sum(i * logs[k, i] * a[n - i] for i in range(1, n)) / n
    return logs


def _last_coefficient(logs: FloatArray) -> FloatArray:
    """Return the coefficient of z^t of exp of each series."""
    t = logs.shape[1] - 1
    e = np.zeros_like(logs)
    e[:, 0] = 1
    for n in range(1, t + 1):  # e' = e (log e)'
        e[:, n] = sum(i * logs[:, i] * e[:, n - i] for i in range(1, n + 1)) / n
    return np.asarray(e[:, t])


# --- several sub-tables, dealt anew for every release -----------------------------------------------------------------


def dealt_channel(mechanism: Mechanism, quotas: Quotas) -> FloatArray:
    """Return Pr(sub-table and published value | true value): a row for each value of each sub-table.

        W[(j, y), x] = (records of x in sub-table j / records of x) P_j[y, x]

    Values that no record has are left at 0.
    """
    held = _held(mechanism, quotas)
    rows = []
    for table, counts in zip(mechanism.tables, quotas, strict=True):
        block = np.zeros((table.codes.size, mechanism.domain.size))
        block[:, table.codes] = table.matrix.dense() * (np.asarray(counts) / np.maximum(held[table.codes], 1))
        rows.append(block)
    return np.concatenate(rows)


def enumerated_recovery(channel: FloatArray, shares: FloatArray, releases: int, limits: FloatArray) -> Recovery:
    """Return it by going through all sequences of what can be published; limits are inf of values without one."""
    joint = shares[None, :]
    for _ in range(releases):
        joint = (joint[:, None, :] * channel).reshape(-1, shares.size)
    total = joint.sum(axis=1, keepdims=True)
    beliefs = np.divide(joint, total, out=np.zeros_like(joint), where=total > 0)
    beyond = total[(beliefs > limits * (1 + ROUNDING)).any(axis=1)].sum()
    worst = beliefs[:, np.isfinite(limits)].max(initial=0)
    return Recovery(releases, float(joint.max(axis=1).sum()), float(worst), float(beyond))


def simulated_recovery(
    channel: FloatArray,
    shares: FloatArray,
    releases: int,
    limits: FloatArray,
    seed: int | None = None,
    records: int = SIMULATED,
) -> Recovery:
    """Return it from drawn records, with 95% limits of the share: the mean of their largest beliefs is its estimate."""
    draw = simulation(seed)
    steps = np.cumsum(channel, axis=0).T  # [x, outcome]
    largest, beyond, worst, protected = np.empty(records), 0, 0.0, np.isfinite(limits)
    for record, x in enumerate(draw.choice(shares.size, records, p=shares)):
        outcomes = np.searchsorted(steps[x], draw.random(releases) * steps[x, -1], side="right")
        beliefs = shares * channel[outcomes].prod(axis=0)
        beliefs /= beliefs.sum()
        largest[record] = beliefs.max()
        beyond += int((beliefs > limits).any())
        worst = max(worst, float(beliefs[protected].max(initial=0)))
    share, off = float(largest.mean()), NORMAL_95 * float(largest.std(ddof=1)) / math.sqrt(records)
    return Recovery(releases, share, worst, beyond / records, (max(0.0, share - off), min(1.0, share + off)))


# --- a mechanism ------------------------------------------------------------------------------------------------------


def recovery(mechanism: Mechanism, quotas: Quotas, releases: int, seed: int | None = None) -> Recovery:
    """Return it at the table's shares; quotas are the records of each value of each sub-table."""
    held = _held(mechanism, quotas)
    shares, size = held / held.sum(), mechanism.domain.size
    limits = np.array([math.inf if bound.rho2 is None else float(bound.rho2) for bound in mechanism.bounds])
    if mechanism.is_whole and mechanism.matrix.retention is not None and size**releases <= MOST_SEQUENCES:
        protected = [bound.gamma is not None for bound in mechanism.bounds]
        worst = _largest_beliefs(mechanism.matrix, shares, releases)[protected].max(initial=0)
        return Recovery(releases, recovered_share(mechanism.matrix, shares, releases), float(worst))
    channel = dealt_channel(mechanism, quotas)
    if channel.shape[0] ** releases * size <= MOST_CELLS:
        return enumerated_recovery(channel, shares, releases, limits)
    return simulated_recovery(channel, shares, releases, limits, seed)


def _largest_beliefs(matrix: Matrix, shares: FloatArray, t: int) -> FloatArray:
    """Return the largest belief in each value: after it was published every time, which lowers all others most."""
    scores = _scores(matrix, shares, t)
    others = scores[:, 0].sum() - scores[:, 0]
    return np.asarray(scores[:, t] / np.maximum(scores[:, t] + others, np.finfo(np.float64).tiny))


def _held(mechanism: Mechanism, quotas: Quotas) -> FloatArray:
    held = np.zeros(mechanism.domain.size)
    for table, counts in zip(mechanism.tables, quotas, strict=True):
        held[table.codes] += counts
    return held


def averaging_findings(
    mechanism: Mechanism, quotas: Quotas, keyed: bool = False, releases: int = 2, seed: int | None = None
) -> Iterator[Finding]:
    """Yield what several releases of the table tell; `keyed`: two, in which records keep their draws by a record key.

    Over all priors within the requirement where one matrix is for all rows; where sub-tables are dealt anew, at the
    table's shares, as a sub-table excludes values and the worst prior would be certain.
    """
    if keyed:
        yield from _keyed_findings(mechanism, quotas, recovery(mechanism, quotas, 1, seed).share)
        return
    found, once = (recovery(mechanism, quotas, number, seed) for number in (releases, 1))
    if mechanism.is_whole:
        worst = worst_priors(mechanism.tables[0], "upward", lambda m, i: with_fresh_noise(m.upward(i), m, releases))
        finding = worst_prior_finding(mechanism, quotas, worst, "upward", False, "averaging")
    else:
        finding = _dealt_finding(mechanism, found, int(sum(sum(counts) for counts in quotas)))
    yield replace(
        finding,
        assumption=f"Sees {releases} releases, and knows which rows are of one record. {finding.assumption}",
        measured="worst: a belief; mean: how often the likeliest value is right at the table's shares",
        mean=found.share,
        remark=f"{_remark(found, once)} {finding.remark}".strip(),
    )


def _keyed_findings(mechanism: Mechanism, quotas: Quotas, once: float) -> Iterator[Finding]:
    """Yield what equal and what different published values of a record tell, where values that stay repeat."""
    worst = worst_priors(mechanism.tables[0], "upward", lambda matrix, code: matrix.equal_twice(code))
    equal = worst_prior_finding(mechanism, quotas, worst, "upward", False, "averaging")
    yield replace(
        equal,
        assumption=(
            "Sees two releases with the record key, and knows which rows are of one record. Holds records with the "
            f"value to keep it, and all others to change. {equal.assumption}"
        ),
        measured=(
            "worst: a belief, where both releases show the value; mean: how often the likeliest value is right at the "
            "table's shares if no value changed"
        ),
        mean=once,
        remark=f"{IF_VALUES_STAY} {equal.remark}",
    ).named("published equal")
    yield replace(
        equal,
        assumption=(
            "Sees two releases with the record key, and knows which rows are of one record. Holds all values but one "
            "never to change."
        ),
        measured="a belief, where the two releases show different values; exact",
        worst=1.0,
        mean=None,
        baseline=None,
        exposed=(),
        remark="A published value that differs tells that the true value changed: values that never change are out.",
        broken=None,
    ).named("published different")


def _dealt_finding(mechanism: Mechanism, found: Recovery, records: int) -> Finding:
    rho2 = max((float(bound.rho2) for bound in mechanism.bounds if bound.rho2 is not None), default=None)
    return Finding(
        attacker="averaging",
        question=QUESTION,
        assumption="Knows the matrices and quotas; sub-tables are dealt anew every time. Prior: the table's shares.",
        measured="",
        worst=found.worst,
        mean=None,
        records=records,
        at_risk=round((found.beyond or 0.0) * records),
        stated=rho2,
    )


def _remark(found: Recovery, once: Recovery) -> str:
    limits = "" if found.interval is None else f" (95% limits {found.interval[0]:.4g} to {found.interval[1]:.4g})"
    return f"The likeliest value is right for {found.share:.4g} of the records{limits}, after one for {once.share:.4g}."
