"""The attacker who knows the composition of a sub-table: how many of its records have each value (SDR).

All ways to give the values to the records are equally likely beforehand. With P[y, x] = q_x + p_x [y = x], published
counts o and true counts c of n records, the sum over all ways of the product of P is, up to a factor,

    Z = sum over j of (n - sum j)! prod_x C(o_x, j_x) C(c_x, j_x) j_x! p_x^j_x q_x^(c_x - j_x)

(multiply out p + q: j_x records are chosen to have kept x; the other values go to the other records in any way.) A
record with published y has x with probability c_x P[y, x] Z(o - e_y, c - e_x) / Z. Every term is positive.

That is exact, and slow for many records. With k! = integral of u^k e^-u, Z is one integral of a product,

    Z = integral of e^-u prod_x B_x(u) du,     B_x(u) = sum_j C(o_x, j) C(c_x, j) j! p_x^j (q_x u)^(c_x - j)

and given u the j_x are independent. With J_x(u) their means, and averages over u by the integrand,

    Pr(x | y) = E[(o_y - J_y)/o_y * (c_x - J_x)/u]  (x != y)        Pr(y | y) = E[J_y/o_y] (p_y + q_y)/p_y

B_x is a rook polynomial, whose zeros are all real, and not positive: so log B_x is concave, the integrand has one peak
in log u, and the trapezoidal rule in log u converges faster than any power. It takes some milliseconds for each value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.auditor.attacker import IN_GROUPS, ONE_MATRIX, Attacker, listed
from sfumato.auditor.beliefs import Counts, bounds_of, compositions, limits_at, worst_finding
from sfumato.auditor.evidence import Evidence, NotMeasured
from sfumato.auditor.finding import ROUNDING, Finding, largest_at, most_exposed, settled
from sfumato.errors import UsageError
from sfumato.show.words import percent
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import WORDS
from sfumato.values.mechanism import Mechanism

MOST_VALUES = 2_000  # values of a sub-table whose composition is attacked: some milliseconds each
DEPTH = 80.0
"""Nats below its peak at which the integrand is cut off. Divided by u it falls half as fast at least: by e^-40."""
FIRST_NODES, MOST_NODES = 64, 1 << 13
AGREE = 1e-12  # the rule is refined until no belief moves by more
SAID: dict[str, Any] = {
    "attacker": "composition",
    "question": "Which true value does a record have, given all published values of its sub-table?",
    "assumption": (
        "Knows the matrices, the sub-table of every record, and how many records of each sub-table have each value. "
        "Prior: every way to give these values to the records is equally likely."
    ),
    "measured": (
        "the belief in a value of a record, by what is published of it: the largest (worst), and on average of those "
        "nearest to their bounds (mean); exact"
    ),
}


@dataclass(frozen=True, eq=False)
class CompositionBeliefs:
    """What the attacker believes, [published y, true x]; 0 in rows that are published for no record."""

    beliefs: FloatArray
    error: float  # how far a belief may be off: the last refinement, and the distance of a row's sum from 1


def composition_beliefs(
    matrix: Matrix, published: Sequence[int] | IntArray, true: Sequence[int] | IntArray
) -> CompositionBeliefs:
    """Return Pr(x | y) for all published and true values; counts are those of the matrix's domain.

    The integral is one for matrices that are made of retentions.
    """
    if len(published) != len(true) or min(*published, *true) < 0 or sum(published) != sum(true):
        raise ValueError("published and true counts are of the same records")
    if not sum(true):
        raise ValueError("a sub-table has records")
    assert matrix.retention is not None
    m = matrix.size
    noise = [matrix.weight((x + 1) % m, x) for x in range(m)] if m > 1 else [0]  # the weight of any other value
    values = [
        _Value(int(o), int(c), (WORDS - m * q) / WORDS, q / WORDS)
        for o, c, q in zip(published, true, noise, strict=True)
    ]
    peak = _peak(values)
    low, high = (_edge(values, peak, side) for side in (-1, 1))
    beliefs, nodes = _averaged(values, peak, low, high, FIRST_NODES), FIRST_NODES
    moved = math.inf
    while moved > AGREE and nodes < MOST_NODES:
        nodes *= 2
        finer = _averaged(values, peak, low, high, nodes)
        beliefs, moved = finer, float(np.abs(finer - beliefs).max())
    sums = beliefs.sum(axis=1)[np.asarray(published) > 0]
    return CompositionBeliefs(np.minimum(beliefs, 1.0), max(moved, float(np.abs(sums - 1).max())))


@dataclass(frozen=True)
class _Value:
    """One value: its published and true count, retention (never 0 in the integers) and noise."""

    o: int
    c: int
    p: float
    q: float

    def __post_init__(self) -> None:
        if self.q == 0 and self.o < self.c:
            raise UsageError(
                f"A value is published for {self.o} record(s) and {self.c} have it, although it is never changed.",
                "Give the table that was published.",
            )

    def given(self, logs: FloatArray, centre: float) -> tuple[FloatArray, FloatArray]:
        """Return log B_x(u), up to a constant, and J_x(u) at these log u; `centre` is among them.

        Terms are multiplied up from the first of the window, and nodes taken relative to the centre: no large
        logarithms are subtracted.
        """
        if self.q == 0:
            return np.zeros_like(logs), np.full_like(logs, self.c)
        j = self._window(logs)
        steps = np.log(self.o - j[:-1]) + np.log(self.c - j[:-1]) - np.log(j[1:]) + math.log(self.p / self.q) - centre
        terms = np.concatenate([[0.0], np.cumsum(steps)])
        away = logs - centre
        weights = terms - away[:, None] * (j - j[0])
        top = weights.max(axis=1)
        weights = np.exp(weights - top[:, None])
        total = weights.sum(axis=1)
        return top + np.log(total) + (self.c - j[0]) * away, weights @ j / total

    def _window(self, logs: FloatArray) -> FloatArray:
        """Return the j whose terms count at any of these nodes.

        Beyond its mode k a term falls at least by the factor k/(k + i) in the i-th step: 12 sqrt(k) + 50 steps leave
        e^-70 or less.
        """
        least, most = self._mode(float(logs.max())), self._mode(float(logs.min()))
        low = max(0, math.floor(least - 12 * math.sqrt(least) - 50))
        high = min(self.o, self.c, math.ceil(most + 12 * math.sqrt(most) + 50))
        return np.arange(low, high + 1, dtype=np.float64)

    def _mode(self, log_u: float) -> float:
        """Return the j at which terms stop growing, the smaller root of p/(q u) (o - j)(c - j) = j."""
        o, c, s = self.o, self.c, math.exp(log_u) * self.q / self.p
        return 2 * o * c / (o + c + s + math.sqrt((o - c) ** 2 + s * (s + 2 * (o + c))))


def _given(values: Sequence[_Value], logs: FloatArray, centre: float) -> tuple[FloatArray, FloatArray]:
    """Return the logarithm of the integrand (for d log u), up to a constant, and all J: [nodes, values]."""
    given = {value: value.given(logs, centre) for value in set(values)}  # rare values are often alike
    pairs = [given[value] for value in values]
    away = logs - centre
    height = away - math.exp(centre) * np.expm1(away) + sum(log for log, _ in pairs)
    return height, np.column_stack([mean for _, mean in pairs])


def _peak(values: Sequence[_Value]) -> float:
    """Return the log u of the peak, where u = 1 + sum (c - J(u)); by bisection, within a hundredth of its width."""
    n = sum(value.c for value in values)
    low, high = 0.0, math.log(n + 1)
    while high - low > 0.01 / math.sqrt(n + 1):
        middle = (low + high) / 2
        _, kept = _given(values, np.array([middle]), middle)
        if 1 + n - kept.sum() > math.exp(middle):
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _edge(values: Sequence[_Value], peak: float, side: int) -> float:
    """Return where the integrand is DEPTH below its peak, or a little further."""
    step = 1 / math.sqrt(sum(value.c for value in values) + 1)
    while True:
        height, _ = _given(values, np.array([peak, peak + side * step]), peak)
        if height[1] < height[0] - DEPTH:
            return peak + side * step
        step *= 1.5


def _averaged(values: Sequence[_Value], peak: float, low: float, high: float, nodes: int) -> FloatArray:
    """Return the beliefs by the trapezoidal rule with so many nodes."""
    logs = np.linspace(low, high, nodes)
    height, kept = _given(values, logs, peak)
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    o, c = (np.array([getattr(value, name) for value in values], dtype=np.float64) for name in ("o", "c"))
    with_records = np.maximum(o, 1)
    away = (o - kept) / with_records
    beliefs: FloatArray = (weight[:, None] * away).T @ ((c - kept) / np.exp(logs)[:, None])
    sure = np.array([1 + value.q / value.p for value in values])
    np.fill_diagonal(beliefs, weight @ kept / with_records * sure)
    return beliefs


def composition_finding(
    mechanism: Mechanism, counts: Sequence[Counts], whole: Sequence[Counts] | None = None
) -> Finding:
    """Return what this release tells one who knows the composition of every sub-table: no guarantee is about that.

    `whole` are the counts from which bounds are stated, where `counts` are only those of some members. A sub-table
    whose records have one value teaches nothing; where any value has a bound, the others are left out.
    """
    parts, error = [], AGREE
    for number, (table, own, stated) in enumerate(zip(mechanism.tables, counts, whole or counts, strict=True)):
        shares = np.array(stated.true) / max(sum(stated.true), 1)
        if not sum(own.true) or shares.max() == 1:
            continue
        found = composition_beliefs(table.matrix, own.published, own.true)
        error = max(error, found.error)
        limits = limits_at(table.bounds, np.arange(shares.size, dtype=np.int32), shares)
        shown, pool = np.flatnonzero(own.published), np.flatnonzero(np.isfinite(limits) | np.isinf(limits).all())
        y, x = (grid.ravel() for grid in np.meshgrid(shown, pool, indexing="ij"))
        case = number * mechanism.domain.size + table.codes[y]
        priors = np.array(own.true) / sum(own.true)
        parts.append((
            case, table.codes[x], np.array(own.published)[y], found.beliefs[y, x], priors[x], limits[x], shares[x]
        ))  # fmt: skip
    records = sum(sum(own.true) for own in counts)
    if not parts:
        nothing = "All records have one value: nothing is to be learnt."
        return Finding(worst=0.0, mean=0.0, records=records, at_risk=0, remark=nothing, **SAID)
    lines = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
    bounded = np.isfinite(lines[5])
    use = bounded if bounded.any() else ~bounded
    return _worst_of(mechanism, [array[use] for array in lines], records, error)


def _worst_of(mechanism: Mechanism, lines: Sequence[Any], records: int, error: float) -> Finding:
    """Return the finding of beliefs, line by line; a case is what is published of so many records of a sub-table."""
    case, believed, numbers, beliefs, priors, limits, shares = lines
    labels, start = mechanism.domain.labels, np.flatnonzero(np.diff(case, prepend=-1))
    excess = beliefs - np.where(np.isfinite(limits), limits, 0.0)
    above = beliefs > limits * (1 + ROUNDING)
    near = excess == np.repeat(np.maximum.reduceat(excess, start), np.diff(start, append=case.size))
    order = np.argsort(-settled(beliefs), kind="stable")
    _, first = np.unique(case[order], return_index=True)
    critical = largest_at(excess)

    def told(line: int) -> str:
        number, published = divmod(int(case[line]), len(labels))
        where = f"sub-table {number + 1}, " if len(mechanism.tables) > 1 else ""
        return f"{where}published {labels[published]!r}, believed {labels[believed[line]]!r}"

    remark = "No value has a bound."
    if np.isfinite(limits[critical]):
        remark = (
            f"The bound of {percent(limits[critical])}, stated for someone who takes the records for independent "
            f"draws, is exceeded {f'by {100 * excess[critical]:.1f} points' if above[critical] else 'nowhere'}. "
            f"Beliefs are computed within {error:.1g}."
        )
    return worst_finding(
        beliefs,
        priors,
        limits,
        np.ones_like(above),
        told,
        bounds_of(mechanism),
        promised=False,
        shares=shares,
        mean=float(np.average(np.maximum.reduceat(np.where(near, beliefs, 0.0), start), weights=numbers[start])),
        records=records,
        at_risk=int(numbers[start][np.logical_or.reduceat(above, start)].sum()),
        exposed=most_exposed(beliefs, numbers, told, order[np.sort(first)]),
        remark=remark,
        **SAID,
    )


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    check_known(evidence)
    yield composition_finding(evidence.mechanism, evidence.once(compositions).counts)


def check_known(evidence: Evidence) -> None:
    largest = max(table.codes.size for table in evidence.mechanism.tables)
    if largest > MOST_VALUES:
        raise NotMeasured(f"a sub-table has {largest:,} values; up to {MOST_VALUES:,} are computed.")
    if any(table.matrix.retention is None for table in evidence.mechanism.tables):
        raise NotMeasured("it is computed for matrices that keep a value or draw one of all alike, not for this one.")
    if evidence.one_of_each_person:
        raise NotMeasured("one row of each person was drawn: the composition of the published rows is not known.")


ATTACKER = Attacker(
    name="composition",
    knows="knows how many records of the table, or of a sub-table, have each value",
    why_not_covered="The guarantee takes records for independent draws. Someone who knows the exact counts does not.",
    acceptable=(
        "Acceptable if nobody outside has exact counts of the table. Not if such counts are published elsewhere."
    ),
    on={"randomized": of_randomized, "response": ONE_MATRIX, "groups": IN_GROUPS},
    public=listed(8, False, "randomized"),
    place=7,
)
