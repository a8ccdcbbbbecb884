"""Were the values really drawn with the matrix that the release states? All other figures believe it.

Given the true values the draws are independent. So a number of records is a sum of independent draws of 0 or 1. With c
their mean chance, over all n of them (Hoeffding 1956; exact for n = 1, never too small for any n)

    Pr(share >= a) <= exp(-n KL(a || c)),     KL(a || c) = a ln(a/c) + (1 - a) ln((1 - a)/(1 - c)),   a > c

    transitions    rows that can be laid beside records: how many with x are published as y, and how many are unchanged
    margins        rows that cannot: how many are published as y, in the table and by each set of columns
    coincidence    the same counts are exactly the true ones, as if nothing had been drawn

The last one is what margins do not see where the true shares are even. A record is noise with probability 1 - p_x, and
then any of m values alike; N noisy ones give any counts with probability mode(N) at most, that of the evenest counts of
N draws, which falls with N. N is no smaller than a binomial number B of those with p_x <= p, each with 1 - p: so

    Pr(counts are the true ones) <= min over k of Pr(B < k) + mode(k),      multiplied over groups of records
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import special

from sfumato.audit.finding import SHOWN, Exposed, Finding
from sfumato.audit.frequencies import Cases
from sfumato.matrix import FloatArray, PerturbationMatrix
from sfumato.mechanism import Mechanism

IntArray = npt.NDArray[np.int64]

LEVEL = 1e-6
"""Probability of a false alarm, of all counts of a release together."""
QUESTION = "Were the published values drawn with the published matrix?"
SPREADS = (0, 1, 2, 4, 6, 8)
"""The k of a coincidence: so many standard deviations below the mean of B."""


@dataclass(frozen=True, eq=False)
class Tallies:
    """Records out of so many, each with a chance; chance: the mean over all. `tests`: how many counts could be told."""

    hits: FloatArray
    records: FloatArray
    chance: FloatArray
    tests: int
    told: Callable[[int], str]


def log_tail(hits: FloatArray, records: FloatArray, chance: FloatArray) -> FloatArray:
    """Return a bound on ln Pr(so many hits or more); 0 where fewer than expected."""
    share = np.minimum(hits / records, 1.0)
    distance = special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance)
    return np.asarray(np.where(share > chance, -records * distance, 0.0))


def allowed(records: float, chance: float, log_level: float) -> float:
    """Return the largest share of records that is not too unlikely, in whole records.

    >>> allowed(10, 0.5, math.log(0.01))
    0.9
    """
    low, high = 0, int(records) + 1
    while high - low > 1:
        middle = (low + high) // 2
        one = [np.array([float(part)]) for part in (middle, records, chance)]
        low, high = (middle, high) if log_tail(*one)[0] >= log_level else (low, middle)
    return low / records


# --- rows that can be laid beside records -----------------------------------------------------------------------------


def transitions(mechanism: Mechanism, cases: Cases) -> Tallies:
    """Return the numbers of records by sub-table, true and published value, and of those that kept their value."""
    m, tables = mechanism.domain.size, len(mechanism.tables)
    changed, kept = np.zeros((2, tables, m))
    own = np.zeros((tables, m), dtype=np.bool_)
    for number, table in enumerate(mechanism.tables):
        changed[number, table.codes], own[number, table.codes] = table.matrix.off_diagonal, True
        kept[number, table.codes] = table.matrix.diagonal
    place, same = cases.labels.astype(np.int64) * m + cases.true, cases.true == cases.published
    held, unchanged = (
        np.bincount(place[of], cases.weights[of], tables * m).astype(float) for of in (slice(None), same)
    )
    chance = np.where(same, kept.ravel()[place], changed.ravel()[place]) * own[cases.labels, cases.published]
    wholes = list(_wholes(held.reshape(tables, m), kept, unchanged.reshape(tables, m)))
    hits, records, chances = (np.array([whole[k] for whole in wholes], dtype=np.float64) for k in range(3))

    def told(number: int) -> str:
        if number >= place.size:
            return str(wholes[number - place.size][3])
        labels, where = mechanism.domain.labels, f"sub-table {cases.labels[number] + 1}, " if tables > 1 else ""
        return f"{where}{labels[cases.true[number]]!r} published as {labels[cases.published[number]]!r}"

    return Tallies(
        np.concatenate([cases.weights, hits]),
        np.concatenate([held[place], records]),
        np.concatenate([chance, chances]),
        sum(table.codes.size**2 for table in mechanism.tables) + len(wholes),
        told,
    )


def _wholes(held: FloatArray, kept: FloatArray, same: FloatArray) -> Iterator[tuple[float, float, float, str]]:
    """Yield hits, records, mean chance and words: of each sub-table, and of all rows, those unchanged and changed."""
    parts = [(slice(k, k + 1), f"sub-table {k + 1}") for k in range(len(held))] if len(held) > 1 else []
    for part, words in [*parts, (slice(None), "all rows")]:
        if n := float(held[part].sum()):
            hits, stays, moves = same[part].sum(), (held * kept)[part].sum(), (held * (1 - kept))[part].sum()
            yield hits, n, min(stays / n, 1.0), f"{words}: published with the true value"
            yield n - hits, n, min(moves / n, 1.0), f"{words}: published with another value"


# --- rows that cannot -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Margin:
    """Records of groups by value, true and as they are published, both [group, value]; one matrix serves all."""

    matrix: PerturbationMatrix
    true: IntArray
    shown: IntArray
    groups: Sequence[str]
    values: Sequence[str]

    @property
    def is_same(self) -> npt.NDArray[np.bool_]:
        """Whether a count is the true one, where there are records."""
        return np.asarray((self.true == self.shown)[self.true.sum(axis=1) > 0])

    @property
    def log_chance(self) -> float:
        """A bound on the probability that all counts are the true ones, its logarithm."""
        retention, held = self.matrix.retention, self.true.sum(axis=0)
        order = np.argsort(retention)
        noisy = np.cumsum(held[order]) * (1 - retention[order])  # expected, of the values up to each retention
        most = float(retention[order[int(noisy.argmax())]])
        free = self.true[:, retention <= most].sum(axis=1)
        return float(_log_same(free, 1 - most, self.matrix.size).sum())


def _log_same(records: IntArray, noise: float, values: int) -> FloatArray:
    """Return the bound for groups with so many records, each noise with this probability at least."""
    spread = np.sqrt(records * noise * (1 - noise))
    best = np.zeros(records.size)
    for away in SPREADS:
        least = np.maximum(0, np.ceil(records * noise - away * spread)).astype(np.int64)
        fewer = np.where(least > 0, special.bdtr(np.maximum(least - 1, 0), records, noise), 0.0)
        best = np.minimum(best, np.log(np.maximum(fewer + np.exp(_log_mode(least, values)), 1e-300)))
    return best


def _log_mode(draws: IntArray, values: int) -> FloatArray:
    """Return the largest probability of any counts of so many uniform draws, its logarithm."""
    each, more = np.divmod(draws, values)
    even = more * special.gammaln(each + 2) + (values - more) * special.gammaln(each + 1)
    return np.asarray(special.gammaln(draws + 1) - draws * math.log(values) - even)


def margins(parts: Sequence[Margin]) -> Tallies:
    """Return the published counts, too many of each and too few."""
    arrays: list[tuple[FloatArray, FloatArray, FloatArray]] = []
    for part in parts:
        records = np.repeat(part.true.sum(axis=1, keepdims=True), part.matrix.size, axis=1).astype(np.float64)
        expected = part.matrix.apply(part.true.astype(np.float64))
        chance = np.minimum(np.divide(expected, records, out=np.zeros_like(expected), where=records > 0), 1.0)
        hits = part.shown.astype(np.float64)
        sides = (hits, records, chance), (records - hits, records, 1 - chance)
        arrays += [(a.ravel(), b.ravel(), c.ravel()) for a, b, c in sides]
    hits, records, chance = (np.concatenate([array[k] for array in arrays]) for k in range(3))
    ends = np.cumsum([part.true.size for part in parts for _ in range(2)])
    held = np.flatnonzero(records > 0)

    def told(number: int) -> str:
        place = int(held[number])
        side = int(np.searchsorted(ends, place, side="right"))
        part = parts[side // 2]
        group, value = divmod(place - int(ends[side - 1] if side else 0), part.matrix.size)
        return f"{part.groups[group]}: {'too few' if side % 2 else 'too many'} published as {part.values[value]!r}"

    return Tallies(hits[held], records[held], chance[held], held.size, told)


# --- findings ---------------------------------------------------------------------------------------------------------


def draws_finding(tallies: Tallies, records: int, level: float, about: str) -> Finding:
    """Return the count that chance explains least, beside what chance allows of it."""
    tails, log_level = log_tail(tallies.hits, tallies.records, tallies.chance), math.log(level / tallies.tests)
    beyond = tails < log_level
    order = np.argsort(tails, kind="stable")[: SHOWN if beyond.any() else 1].tolist()
    worst = order[0]
    n, chance = float(tallies.records[worst]), float(tallies.chance[worst])
    return Finding(
        attacker="draws",
        question=QUESTION,
        assumption="Holds the table beside the release. Draws are independent, with the published matrix.",
        measured=(
            "the share of records that are published so, of the count that chance explains least; the bound is the "
            f"largest share that chance allows, but for {LEVEL:g} of all releases"
        ),
        worst=float(tallies.hits[worst] / n),
        mean=None,
        records=records,
        at_risk=records if beyond.any() else 0,
        promised=allowed(n, chance, log_level),
        baseline=chance,
        exposed=tuple(
            Exposed(tallies.told(k), int(tallies.records[k]), float(tallies.hits[k] / tallies.records[k]))
            for k in order
        ),
        remark=f"{int(beyond.sum()):,} of {tallies.tests:,} counts are beyond chance. {SEEN[about]}",
        broken=bool(beyond.any()),
        about=about,
    )


SEEN = {
    "transitions": "That draws are independent of other columns and of each other is not tested.",
    "margins": "Rows were shuffled: draws that leave the expected counts are not seen.",
}


def coincidence_finding(sets: Sequence[Sequence[Margin]], records: int, level: float) -> Finding | None:
    """Return whether the published counts are exactly the true ones; None where that may happen by chance.

    Of several sets of groups the one is taken of which it is least likely: true counts decide, not the draws.
    """
    chances = [sum(part.log_chance for part in parts) for parts in sets]
    least = int(np.argmin(chances))
    if chances[least] >= math.log(level):
        return None
    same = np.concatenate([part.is_same.ravel() for part in sets[least]])
    return Finding(
        attacker="draws",
        question=QUESTION,
        assumption="Holds the table beside the release. Draws are independent, with the published matrix.",
        measured="the share of published counts, by group and value, that are exactly the true ones",
        worst=float(same.mean()),
        mean=None,
        records=records,
        at_risk=records if same.all() else 0,
        promised=1 - 1 / same.size,
        remark=(
            f"All {same.size:,} counts would be the true ones with a probability of at most "
            f"{math.exp(max(chances[least], -600)):.1g}."
        ),
        broken=bool(same.all()),
        about="coincidence",
    )
