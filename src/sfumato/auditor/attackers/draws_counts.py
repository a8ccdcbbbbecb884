"""Were the values really drawn with the matrix that the release states? All other figures believe it.

Given the true values the draws are independent. So a number of records is a sum of independent draws of 0 or 1, and
`chance` bounds how unlikely it is, given their mean chance:

    transitions    rows that can be laid beside records: how many with x are published as y, and how many are unchanged
    by column      the same among records that share a value, or a range of values, of another column
    neighbours     pairs of records so many rows apart in the table: how many are published alike
    margins        rows that cannot: how many are published as y, in the table and by each set of columns
    columns        two columns of one record: how often both keep their values, or neither
    coincidence    the same counts are exactly the true ones, as if nothing had been drawn

Neighbours: pairs (i, i + d) are disjoint for all i with floor(i/d) even, and for all with it odd: each half is one of
independent draws. With d = 1, 2, 4, ... words that are used again for the next row, or for the next batch of rows, are
found. Two records with x and x' that are drawn by themselves are

    both unchanged or both changed    with k k' + (1 - k)(1 - k'),  k = P[x, x]
    published with one value          with s = sum_y P[y, x] P[y, x']
    both changed, to one value        with s - P[x, x] P[x, x'] - [x != x'] P[x', x] P[x', x']

Two columns of one record keep their values with chances k and l, both or neither with k l + (1 - k)(1 - l). Under one
word they go together: the word that keeps the one mostly keeps the other.

Coincidence is what margins do not see where the true shares are even. A record is noise with probability 1 - p_x =
m min_y P[y, x], and then any of m values alike; N noisy ones give any counts with probability mode(N) at most, that of
the evenest counts of N draws, which falls with N. N is no smaller than a binomial number B of those with p_x <= p, each
with 1 - p: so

    Pr(counts are the true ones) <= min over k of Pr(B < k) + mode(k),      multiplied over groups of records
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from sfumato.auditor.beliefs import Cases, observed_cases
from sfumato.auditor.finding import Finding, chance_finding
from sfumato.release.verify.order import Classes
from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.chance import Tallies, joined
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism

LEVEL = 1e-6
"""Probability of a false alarm, of all counts of a release together."""
QUESTION = "Were the published values drawn with the published matrix?"
SPREADS = (0, 1, 2, 4, 6, 8)
"""The k of a coincidence: so many standard deviations below the mean of B."""


# --- rows that can be laid beside records -----------------------------------------------------------------------------


def transitions(mechanism: Mechanism, cases: Cases) -> Tallies:
    """Return the numbers of records by sub-table, true and published value, and of those that kept their value."""
    m, tables = mechanism.domain.size, len(mechanism.tables)
    chance, kept = np.zeros(cases.true.size), np.zeros((tables, m))
    for number, table in enumerate(mechanism.tables):
        inside = np.isin(cases.published, table.codes) & np.isin(cases.true, table.codes)
        here = np.flatnonzero((cases.labels == number) & inside)
        true, published = (np.searchsorted(table.codes, codes[here]) for codes in (cases.true, cases.published))
        chance[here] = table.matrix.chances(published, true)
        kept[number, table.codes] = table.matrix.diagonal
    place, same = cases.labels.astype(np.int64) * m + cases.true, cases.true == cases.published
    held, unchanged = (
        np.bincount(place[of], cases.weights[of], tables * m).astype(float) for of in (slice(None), same)
    )
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


@dataclass(frozen=True, eq=False)
class Drawn:
    """Records whose rows are known: true and published codes, sub-tables from 0, and their places in the table."""

    true: CodeArray
    published: CodeArray
    labels: CodeArray
    places: IntArray

    def cases(self, mechanism: Mechanism, where: IntArray | slice = slice(None)) -> Cases:
        """Return the records that are alike, of all or of some."""
        true, published, labels = (codes[where] for codes in (self.true, self.published, self.labels))
        return observed_cases(true, published, labels, np.zeros(true.size, dtype=np.int64), mechanism)


def transitions_by(mechanism: Mechanism, drawn: Drawn, classes: Sequence[Classes]) -> Tallies:
    """Return the transitions inside each class; the classes are of the records of `drawn`."""
    return joined([
        _inside(transitions(mechanism, drawn.cases(mechanism, where)), name)
        for each in classes
        for number, name in enumerate(each.names)
        if (where := np.flatnonzero(each.codes == number)).size
    ])  # fmt: skip


def _inside(tallies: Tallies, name: str) -> Tallies:
    return replace(tallies, told=lambda number: f"{name}: {tallies.told(number)}")


# --- neighbours -------------------------------------------------------------------------------------------------------


def neighbours(mechanism: Mechanism, drawn: Drawn, rows: int) -> Tallies:
    """Return how often two records some rows apart in a table of so many rows share their fate, value or noise."""
    place = np.full(rows, -1, dtype=np.int64)
    place[drawn.places] = np.arange(drawn.places.size)
    parts = [
        part for apart in _distances(rows) for half in (0, 1) for part in _pairs(mechanism, drawn, place, apart, half)
    ]
    return joined(parts)


def _distances(rows: int) -> list[int]:
    return [1 << power for power in range(max(1, rows // 2).bit_length()) if 2 << power <= rows]


def _pairs(mechanism: Mechanism, drawn: Drawn, place: IntArray, apart: int, half: int) -> Iterator[Tallies]:
    starts = np.arange(place.size - apart)
    first, second = (place[starts[starts // apart % 2 == half] + away] for away in (0, apart))
    both = (first >= 0) & (second >= 0)
    first, second = first[both], second[both]
    if not first.size:
        return
    words = f"records {apart:,} row(s) apart"
    k = _kept(mechanism, drawn)
    same = drawn.published[first] == drawn.published[second]
    kept = drawn.true == drawn.published
    fate = k[first] * k[second] + (1 - k[first]) * (1 - k[second])
    yield _counted(kept[first] == kept[second], fate, f"{words}: both unchanged or both changed")
    alike = drawn.labels[first] == drawn.labels[second]  # in two sub-tables there are not the same values
    first, second, same = first[alike], second[alike], same[alike]
    if not first.size:
        return
    equal, changed = _equal(mechanism, drawn, first, second)
    yield _counted(same, equal, f"{words}: published with one value")
    noise = same & ~kept[first] & ~kept[second]
    yield _counted(noise, changed, f"{words}: both changed, to one value")


def _kept(mechanism: Mechanism, drawn: Drawn) -> FloatArray:
    """Return P[x, x] of each record."""
    kept = np.zeros((len(mechanism.tables), mechanism.domain.size))
    for number, table in enumerate(mechanism.tables):
        kept[number, table.codes] = table.matrix.diagonal
    return kept[drawn.labels, drawn.true]


def _equal(mechanism: Mechanism, drawn: Drawn, first: IntArray, second: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the chances that two records of one sub-table are published alike, and that both changed besides."""
    equal, changed = np.zeros((2, first.size))
    for number, table in enumerate(mechanism.tables):
        here = np.flatnonzero(drawn.labels[first] == number)
        a, b = (np.searchsorted(table.codes, drawn.true[of[here]]) for of in (first, second))
        equal[here], changed[here] = table.matrix.alike(a, b), table.matrix.alike_changed(a, b)
    return equal, changed


def _counted(hits: BoolArray, chance: FloatArray, words: str) -> Tallies:
    """Return one count of independent events; those that cannot happen are left out."""
    use = chance > 0
    n = int(np.count_nonzero(use))
    if not n:
        return joined([])
    share = min(float(chance[use].mean()), 1.0)
    hit = np.array([float(np.count_nonzero(hits[use]))])
    return Tallies(hit, np.array([float(n)]), np.array([share]), 1, lambda _: words)


# --- rows that cannot -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Margin:
    """Records of groups by value, true and as they are published, both [group, value]; one matrix serves all."""

    matrix: Matrix
    true: IntArray
    shown: IntArray
    groups: Sequence[str]
    values: Sequence[str]

    @property
    def is_same(self) -> BoolArray:
        """Whether a count is the true one, where there are records."""
        return np.asarray((self.true == self.shown)[self.true.sum(axis=1) > 0])

    @property
    def log_chance(self) -> float:
        """A bound on the probability that all counts are the true ones, its logarithm."""
        retention, held = 1 - self.matrix.pure_noise, self.true.sum(axis=0)
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


# --- two columns ------------------------------------------------------------------------------------------------------


def both_kept(kept: tuple[BoolArray, BoolArray], chances: tuple[FloatArray, FloatArray], names: str) -> Tallies:
    """Return how many records keep their values in two columns, or in neither, and in just one; `chances` of each."""
    (one, other), (first, second) = kept, chances
    alike = float(np.count_nonzero(one == other))
    expected = min(1.0, float((first * second + (1 - first) * (1 - second)).mean()))
    rows, words = float(one.size), ("kept in both or in neither", "kept in one of them")
    both = np.array([alike, rows - alike]), np.array([rows, rows]), np.array([expected, 1 - expected])
    return Tallies(*both, 2, lambda number: f"{names}: {words[number]}")


# --- findings ---------------------------------------------------------------------------------------------------------


def draws_finding(tallies: Tallies, records: int, level: float, about: str) -> Finding:
    """Return the count that chance explains least, beside what chance allows of it."""
    return chance_finding(tallies, records, level, "draws", about, QUESTION, ASSUMPTION, LEVEL, SEEN[about])


ASSUMPTION = "Holds the table beside the release. Draws are independent, with the published matrix."
SEEN = {
    "transitions": "",
    "by column": "Draws that depend on a column would show as too many or too few among records that share its value.",
    "neighbours": "A random word that was used for two records would show as draws that go together.",
    "columns": "A random word that was used for two columns would show as values that are kept together.",
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
        assumption=ASSUMPTION,
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
        scale="chance",
    )
