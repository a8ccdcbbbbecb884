"""Whether randomized values were drawn with the matrices that the release states: all other figures believe it.

Given the true values the draws are independent. So a number of records is a sum of independent draws of 0 or 1, and
`chance` bounds how unlikely it is, given their mean chance:

    transitions    rows that can be laid beside records: how many with x are published as y, and how many are unchanged;
                   of cards, how many with x get one that holds j
    by column      the same among records that share a value, or a range of values, of another column
    neighbours     pairs of records so many rows apart in the table: how many are published alike
    margins        rows that cannot: how many are published as y, or with a card that holds j, in the table and by each
                   set of columns
    columns        two columns of one record: how often both keep their values, or neither
    coincidence    the same counts are exactly the true ones, as if nothing had been drawn

Neighbours: pairs (i, i + d) are disjoint for all i with floor(i/d) even, and for all with it odd: each half is one of
independent draws. With d = 1, 2, 4, ... words that are used again for the next row, or for the next batch of rows, are
found. Two records with x and x' that are drawn by themselves are

    both unchanged or both changed    with k k' + (1 - k)(1 - k'),  k = P[x, x]; of cards, that one holds x
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

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import special

from sfumato.auditor.attacker import IN_GROUPS, Attacker, listed
from sfumato.auditor.beliefs import Cases, compositions, observed_cases
from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import UNMATCHED, DoesNotApply, Evidence, classes_of_records, other_columns
from sfumato.auditor.finding import Finding, chance_finding
from sfumato.auditor.knowledge import MOST_SHARES
from sfumato.release.verify.order import Classes
from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.chance import Tallies, counted, joined
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.mechanism import Mechanism

LEVEL = 1e-6  # probability of a false alarm, of all counts of a release together
KINDS = 6  # of findings among which the level of a mechanism is shared, the one of all columns together included
SPREADS = (0, 1, 2, 4, 6, 8)  # the k of a coincidence: so many standard deviations below the mean of B
QUESTION = "Were the published values drawn with the published matrix?"
ASSUMPTION = "Holds the table beside the release. Draws are independent, with the published matrix."
MOST_HELD = 20_000_000  # cards times values of which it is counted which values cards hold
FATES = {
    True: ("the true value", "another value"),
    False: ("a card that holds the true value", "a card without the true value"),
}
"""What becomes of a record, where values are published and where cards are."""
SAME_FATE = {True: "both unchanged or both changed", False: "both with a card that holds the true value, or neither"}
SEEN = {
    "transitions": "",
    "by column": "Draws that depend on a column would show as too many or too few among records that share its value.",
    "neighbours": "A random word that was used for two records would show as draws that go together.",
    "columns": "A random word that was used for two columns would show as values that are kept together.",
    "margins": "Rows were shuffled: draws that leave the expected counts are not seen.",
}


# --- rows that can be laid beside records -----------------------------------------------------------------------------


def transitions(mechanism: Mechanism, cases: Cases) -> Tallies:
    """Return the numbers of records by sub-table, true and published value, and of those that kept their value.

    A card keeps the values that it holds.
    """
    m, tables = mechanism.domain.size, len(mechanism.tables)
    chance, kept = np.zeros(cases.true.size), _chances_kept(mechanism)
    for number, table in enumerate(mechanism.tables):
        inside = np.isin(cases.published, table.published) & np.isin(cases.true, table.codes)
        here = np.flatnonzero((cases.labels == number) & inside)
        true, published = np.searchsorted(table.codes, cases.true[here]), table.rows_of(cases.published[here])
        chance[here] = table.matrix.chances(published, true)
    place = cases.labels.astype(np.int64) * m + cases.true
    same = mechanism.holds(cases.published, cases.true)
    held, unchanged = (
        np.bincount(place[of], cases.weights[of], tables * m).astype(float) for of in (slice(None), same)
    )

    def told(number: int) -> str:
        where = f"sub-table {cases.labels[number] + 1}, " if tables > 1 else ""
        own, shown = mechanism.domain.labels[cases.true[number]], mechanism.published.labels[cases.published[number]]
        return f"{where}{own!r} published as {shown!r}"

    cells = sum(table.matrix.outputs * table.codes.size for table in mechanism.tables)
    wholes = _wholes(held.reshape(tables, m), kept, unchanged.reshape(tables, m), FATES[mechanism.form == "value"])
    parts = [Tallies(cases.weights, held[place], chance, cells, told), counted(wholes)]
    return joined(parts if mechanism.form == "value" else [*parts, *_held_by_cards(mechanism, cases, held)])


def _chances_kept(mechanism: Mechanism) -> FloatArray:
    """Return P_j[x, x], or the probability that a card holds x: [sub-table, value]."""
    kept = np.zeros((len(mechanism.tables), mechanism.domain.size))
    for number, table in enumerate(mechanism.tables):
        kept[number, table.codes] = table.matrix.holds_truth
    return kept


@dataclass(frozen=True, eq=False)
class Holding:
    """Which cards hold each value, and with which chance the card of a record does."""

    cards: FloatArray  # [value, card]
    chance: FloatArray  # [value, true value]

    @classmethod
    def of(cls, matrix: Matrix) -> Holding | None:
        """Return it; None where the matrix publishes values, or the cards are too many."""
        if matrix.publishes_values or matrix.outputs * matrix.size > MOST_HELD:
            return None
        held = matrix.holds(np.arange(matrix.outputs)[None, :], np.arange(matrix.size)[:, None]).astype(np.float64)
        return cls(held, np.clip(matrix.apply_transposed(held), 0.0, 1.0))


def _held_by_cards(mechanism: Mechanism, cases: Cases, records: FloatArray) -> Iterator[Tallies]:
    """Yield how many records of each true value have a card that holds each value, too many and too few."""
    if (holding := Holding.of(mechanism.matrix)) is None:
        return
    m, labels = mechanism.domain.size, mechanism.domain.labels
    shown = np.zeros((m, mechanism.matrix.outputs))
    np.add.at(shown, (cases.true, cases.published), cases.weights)
    has = np.flatnonzero(records > 0)
    hits = (shown[has] @ holding.cards.T).ravel()
    total, chance = np.repeat(records[has], m), holding.chance.T[has].ravel()

    def told(words: str, number: int) -> str:
        own, held = labels[has[number // m]], labels[number % m]
        return f"{own!r} published with {words} that hold {held!r}"

    yield Tallies(hits, total, chance, m * m, partial(told, "too many cards"))
    yield Tallies(total - hits, total, 1 - chance, m * m, partial(told, "too few cards"))


def _wholes(
    held: FloatArray, kept: FloatArray, same: FloatArray, fates: tuple[str, str]
) -> Iterator[tuple[float, float, float, str]]:
    """Yield hits, records, mean chance and words: of each sub-table, and of all rows, those unchanged and changed."""
    parts = [(slice(k, k + 1), f"sub-table {k + 1}") for k in range(len(held))] if len(held) > 1 else []
    for part, words in [*parts, (slice(None), "all rows")]:
        if n := float(held[part].sum()):
            hits, stays, moves = same[part].sum(), (held * kept)[part].sum(), (held * (1 - kept))[part].sum()
            yield hits, n, min(stays / n, 1.0), f"{words}: published with {fates[0]}"
            yield n - hits, n, min(moves / n, 1.0), f"{words}: published with {fates[1]}"


@dataclass(frozen=True, eq=False)
class Drawn:
    """Records whose rows are known: true and published codes, sub-tables from 0, and their places in the table."""

    true: CodeArray
    published: CodeArray
    labels: CodeArray
    places: IntArray

    def cases(self, mechanism: Mechanism, where: IntArray | slice = slice(None)) -> Cases:
        true, published, labels = (codes[where] for codes in (self.true, self.published, self.labels))
        return observed_cases(true, published, labels, np.zeros(true.size, dtype=np.int64), mechanism)


def transitions_by(mechanism: Mechanism, drawn: Drawn, classes: Sequence[Classes]) -> Tallies:
    """Return the transitions inside each class; the classes are of the records of `drawn`."""

    def inside(name: str, where: IntArray) -> Tallies:
        tallies = transitions(mechanism, drawn.cases(mechanism, where))
        return replace(tallies, told=lambda number: f"{name}: {tallies.told(number)}")

    members = ((name, np.flatnonzero(each.codes == k)) for each in classes for k, name in enumerate(each.names))
    return joined([inside(name, where) for name, where in members if where.size])


def neighbours(mechanism: Mechanism, drawn: Drawn, rows: int) -> Tallies:
    """Return how often two records some rows apart in a table of so many rows share their fate, value or noise."""
    place = np.full(rows, -1, dtype=np.int64)
    place[drawn.places] = np.arange(drawn.places.size)
    distances = [1 << power for power in range(rows.bit_length()) if 2 << power <= rows]
    return joined([
        part for apart in distances for half in (0, 1) for part in _pairs(mechanism, drawn, place, apart, half)
    ])  # fmt: skip


def _pairs(mechanism: Mechanism, drawn: Drawn, place: IntArray, apart: int, half: int) -> Iterator[Tallies]:
    starts = np.arange(place.size - apart)
    first, second = (place[starts[starts // apart % 2 == half] + away] for away in (0, apart))
    both = (first >= 0) & (second >= 0)
    first, second = first[both], second[both]
    if not first.size:
        return
    words, is_value = f"records {apart:,} row(s) apart", mechanism.form == "value"
    k = _chances_kept(mechanism)[drawn.labels, drawn.true]
    same = drawn.published[first] == drawn.published[second]
    kept = mechanism.holds(drawn.published, drawn.true)
    fate = k[first] * k[second] + (1 - k[first]) * (1 - k[second])
    yield _counted(kept[first] == kept[second], fate, f"{words}: {SAME_FATE[is_value]}")
    alike = drawn.labels[first] == drawn.labels[second]  # in two sub-tables there are not the same values
    first, second, same = first[alike], second[alike], same[alike]
    if not first.size:
        return
    equal = _chances_of_pairs(mechanism, drawn, first, second, lambda matrix, a, b: matrix.alike(a, b))
    yield _counted(same, equal, f"{words}: published with one {'value' if is_value else 'card'}")
    if is_value:
        changed = _chances_of_pairs(mechanism, drawn, first, second, lambda matrix, a, b: matrix.alike_changed(a, b))
        noise = same & ~kept[first] & ~kept[second]
        yield _counted(noise, changed, f"{words}: both changed, to one value")


def _chances_of_pairs(
    mechanism: Mechanism,
    drawn: Drawn,
    first: IntArray,
    second: IntArray,
    chances: Callable[[Matrix, IntArray, IntArray], FloatArray],
) -> FloatArray:
    """Return what each matrix says of the true values of pairs of records, each of one sub-table."""
    found = np.zeros(first.size)
    for number, table in enumerate(mechanism.tables):
        here = np.flatnonzero(drawn.labels[first] == number)
        found[here] = chances(
            table.matrix, *(np.searchsorted(table.codes, drawn.true[of[here]]) for of in (first, second))
        )
    return found


def _counted(hits: BoolArray, chance: FloatArray, words: str) -> Tallies:
    """Return one count of independent events; those that cannot happen are left out."""
    use = chance > 0
    n = int(np.count_nonzero(use))
    return (
        counted([(int(np.count_nonzero(hits[use])), n, min(float(chance[use].mean()), 1.0), words)])
        if n
        else joined([])
    )


# --- rows that cannot -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Margin:
    """Records of groups by value, true and as they are published; one matrix serves all.

    true: [group, value]; shown: [group, value or card], of which `values` are the names.
    """

    matrix: Matrix
    true: IntArray
    shown: IntArray
    groups: Sequence[str]
    values: Sequence[str]
    held: Sequence[str] = ()  # the names of the values that cards hold

    @property
    def is_same(self) -> BoolArray:
        """Whether a count is the true one, where there are records."""
        return np.asarray((self.true == self.shown)[self.true.sum(axis=1) > 0])

    def told(self, held: IntArray, words: str, number: int) -> str:
        group, value = divmod(int(held[number]), len(self.values))
        return f"{self.groups[group]}: {words} published as {self.values[value]!r}"

    def told_of_held(self, held: IntArray, words: str, number: int) -> str:
        group, value = divmod(int(held[number]), self.matrix.size)
        return f"{self.groups[group]}: {words} cards that hold {self.held[value]!r}"

    @property
    def log_chance(self) -> float:
        """A bound on the probability that all counts are the true ones, its logarithm."""
        retention, held = 1 - self.matrix.pure_noise, self.true.sum(axis=0)
        order = np.argsort(retention)
        noisy = np.cumsum(held[order]) * (1 - retention[order])  # expected, of the values up to each retention
        most = float(retention[order[int(noisy.argmax())]])
        free = self.true[:, retention <= most].sum(axis=1)
        return float(_log_same(free, 1 - most, self.matrix.outputs).sum())


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
    found: list[Tallies] = []
    for part in parts:
        true, shown = part.true.astype(np.float64), part.shown.astype(np.float64)
        found += _too_many_or_few(true, shown, part.matrix.apply(true), part.told)
        if (holding := Holding.of(part.matrix)) is not None:
            found += _too_many_or_few(true, shown @ holding.cards.T, true @ holding.chance.T, part.told_of_held)
    return joined(found)


def _too_many_or_few(
    true: FloatArray, shown: FloatArray, expected: FloatArray, told: Callable[[IntArray, str, int], str]
) -> Iterator[Tallies]:
    """Yield counts of groups, [group, what is counted], that are above or below what is expected of them."""
    records = np.repeat(true.sum(axis=1, keepdims=True), shown.shape[1], axis=1)
    held = np.flatnonzero(records > 0)
    records, shown = records.ravel()[held], shown.ravel()[held]
    chance = np.minimum(expected.ravel()[held] / records, 1.0)
    for words, hits, share in (("too many", shown, chance), ("too few", records - shown, 1 - chance)):
        yield Tallies(hits, records, share, held.size, partial(told, held, words))


def both_kept(one: BoolArray, first: FloatArray, other: BoolArray, second: FloatArray, names: str) -> Tallies:
    """Return how many records keep their values in two columns, or in neither, and in just one; chances of both."""
    alike = float(np.count_nonzero(one == other))
    expected = min(1.0, float((first * second + (1 - first) * (1 - second)).mean()))
    return counted([
        (alike, one.size, expected, f"{names}: kept in both or in neither"),
        (one.size - alike, one.size, 1 - expected, f"{names}: kept in one of them"),
    ])  # fmt: skip


def draws_finding(tallies: Tallies, records: int, level: float, about: str) -> Finding:
    return chance_finding(tallies, records, level, "draws", about, QUESTION, ASSUMPTION, LEVEL, SEEN[about])


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


def of_randomized(evidence: Evidence) -> Iterator[Finding]:
    own, shown, labels = evidence.true, evidence.published, evidence.sub_tables
    found = list(_found(evidence, evidence.mechanism, own, shown, labels, LEVEL / KINDS))
    if not found:
        raise DoesNotApply("which rows were published is not known, and none can be told to be a certain record's.")
    yield from found


def of_response(evidence: Evidence) -> Iterator[Finding]:
    """Each mechanism by itself; then how often two columns of a record keep their values together."""
    return _of_columns(evidence, ())


def of_several(evidence: Evidence) -> Iterator[Finding]:
    """The same; and how often two columns show two values together, which is seen of shuffled rows, too."""
    shown = [] if evidence.one_of_each_person else list(_shown_together(evidence))
    return _of_columns(evidence, shown)


def _shown_together(evidence: Evidence) -> Iterator[Tallies]:
    """Yield how many rows show each pair of two columns, beside what is due if these were drawn independently."""
    for one, other in itertools.combinations(evidence.by_mechanism, 2):
        a, b = one.mechanism, other.mechanism
        if max(a.domain.size * b.domain.size, a.published.size * b.published.size) > MOST_SHARES:
            continue
        true = cross_counts(one.true.astype(np.int64), other.true, a.domain.size, b.domain.size)
        shown = cross_counts(one.published.astype(np.int64), other.published, a.published.size, b.published.size)
        held, seen = (counts.astype(np.float64).ravel()[None] for counts in (true, shown))
        due = ProductMatrix((a.matrix, b.matrix)).apply(held)
        yield from _too_many_or_few(held, seen, due, partial(_told_pair, a, b))


def _told_pair(one: Mechanism, other: Mechanism, held: IntArray, words: str, number: int) -> str:
    first, second = divmod(int(held[number]), other.published.size)
    return f"all rows: {words} published as {one.published.labels[first]!r} and {other.published.labels[second]!r}"


def _of_columns(evidence: Evidence, together: Sequence[Tallies]) -> Iterator[Finding]:
    """Each mechanism by itself; then two columns of a record: what they keep, and what else is counted of both."""
    mechanisms, records = evidence.manifest.mechanism_values, np.flatnonzero(evidence.matched != UNMATCHED)
    kept: dict[str, tuple[BoolArray, FloatArray]] = {}  # whether, and with which chance
    for mechanism in mechanisms:
        own, shown = evidence.both(mechanism)
        level, name = LEVEL / KINDS / len(mechanisms), mechanism.domain.name
        for finding in _found(evidence, mechanism, own, shown, np.zeros(shown.size, dtype=np.int32), level):
            yield finding.named(f"{name}, {finding.about}")
        kept[name] = (
            mechanism.holds(shown[evidence.matched[records]], own[records]),
            mechanism.matrix.holds_truth[own[records]],
        )
    pairs = itertools.combinations(kept, 2) if records.size else ()
    if parts := [*(both_kept(*kept[a], *kept[b], f"{a} and {b}") for a, b in pairs), *together]:
        yield draws_finding(joined(parts), evidence.rows if together else records.size, LEVEL / KINDS, "columns")


def _found(
    evidence: Evidence, mechanism: Mechanism, own: CodeArray, shown: CodeArray, labels: CodeArray, level: float
) -> Iterator[Finding]:
    records = np.flatnonzero(evidence.matched != UNMATCHED)
    rows = evidence.matched[records]
    if records.size:
        drawn = Drawn(own[records], shown[rows], labels[rows], records)
        yield draws_finding(transitions(mechanism, drawn.cases(mechanism)), records.size, level, "transitions")
        yield from _independent(evidence, mechanism, drawn, level)
    if evidence.is_aligned or evidence.one_of_each_person:
        return
    sets = list(_sets(evidence, mechanism, own, shown))
    yield draws_finding(margins([part for parts in sets for part in parts]), own.size, level, "margins")
    # counts of cards are never the true ones of values
    if mechanism.form == "value" and (same := coincidence_finding(sets, own.size, level)):
        yield same


def _independent(evidence: Evidence, mechanism: Mechanism, drawn: Drawn, level: float) -> Iterator[Finding]:
    classes = [
        Classes(each.codes[drawn.places], each.names)
        for name in other_columns(evidence)
        if name not in mechanism.domain.names
        for each in classes_of_records(evidence, name)
    ]
    by_column, next_to = transitions_by(mechanism, drawn, classes), neighbours(mechanism, drawn, evidence.rows)
    for about, tallies in (("by column", by_column), ("neighbours", next_to)):
        if tallies.tests:
            yield draws_finding(tallies, drawn.places.size, level, about)


def _sets(evidence: Evidence, mechanism: Mechanism, own: CodeArray, shown: CodeArray) -> Iterator[Sequence[Margin]]:
    """Yield the counts of all rows; of one matrix also those by each column that is published as it is, and by all."""
    if mechanism.label is not None:
        yield list(_sub_tables(evidence, mechanism))
        return
    (table,) = mechanism.tables
    held = [mechanism.domain.labels[code] for code in table.codes.tolist()]  # which may lack some that nobody has
    values = [mechanism.published.labels[code] for code in table.published.tolist()]
    names = [name for name in (*evidence.quasi_identifiers, *evidence.sensitive) if name in evidence.comparable]
    for each in dict.fromkeys([(), *((name,) for name in names), tuple(names)]):
        by, m, outputs = evidence.signatures(each), mechanism.domain.size, mechanism.published.size
        if by.size * outputs <= MOST_SHARES:
            true, published = cross_counts(by.table, own, by.size, m), cross_counts(by.release, shown, by.size, outputs)
            groups = by.told if by.columns else ("all rows",)
            yield [Margin(table.matrix, true[:, table.codes], published[:, table.published], groups, values, held)]


def _sub_tables(evidence: Evidence, mechanism: Mechanism) -> Iterator[Margin]:
    found = evidence.once(compositions)
    for number, table in enumerate(mechanism.tables):
        own, shown = found.quotas[number], found.published[number]
        if own.sum() != shown.sum():
            raise DoesNotApply(f"sub-table {number + 1} has another number of rows than its plan.")
        values = [mechanism.domain.labels[code] for code in table.codes.tolist()]
        yield Margin(table.matrix, own[None], shown[None], (f"sub-table {number + 1}",), values)


ATTACKER = Attacker(
    name="draws",
    knows="compares what was published with what the matrix gives by chance",
    on={"randomized": of_randomized, "several": of_several, "response": of_response, "groups": IN_GROUPS},
    public=listed(0, True, "randomized", "response"),
    place=1,
)
