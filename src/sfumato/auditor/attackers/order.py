"""The attacker who knows the order of the people in the source, and guesses by the place of a row.

    rows      row k of the release is person k; the rows around tell the value. Rows stand in blocks; in each block the
              odd rows are guessed from the even ones and the even ones from the odd, so that no row tells of itself
              (its own published value is another attacker's). The guess is the value with the most records, estimated
              through the inverse matrix where values are randomized; blocks of several widths are tried
    groups    the k-th row of a group has the k-th value in the list of the group

How much of that is chance? People stand in any order, sorted perhaps; a shuffled release is in random order. Its half
blocks are then alike, so given what is guessed in all of them, all ways to give the K guesses g_j to the half blocks
are equally likely. With a_ij = share of half block i that has g_j, hits are w = width/2 times X = sum_i a_(i pi(i)),
pi a random permutation, and

    E X = sum_x half blocks guessed to be x * people with x / people     never above the most frequent value's share
    Pr(X - E X >= t) <= exp(-t^2 / (4 E X + 2 t))                        Chatterjee (2007), Proposition 1.1

The same holds inside groups, whose rows are in random order (w = 1; the bound is one on the moment generating function,
and these multiply). So chance alone is taken for a breach with probability `LEVEL` at most, over all widths together,
whatever the table is. Few half blocks say little: a weak order is found in long tables only.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.auditor.attacker import Attacker, Listed
from sfumato.auditor.evidence import (
    UNMATCHED,
    Evidence,
    classes_by_place,
    classes_of_both,
    codes_of_rows,
    other_columns,
)
from sfumato.auditor.finding import SHOWN, Exposed, Finding, chance_finding, held_to, settled
from sfumato.auditor.grouped import GroupTables
from sfumato.errors import UsageError
from sfumato.release.verify.order import LEVEL as ORDER_LEVEL
from sfumato.release.verify.order import MOST_VALUES, Classes, published_order, same_place, thinned
from sfumato.show.words import percent
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.chance import joined
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Mechanism

Codes = npt.NDArray[np.integer]

LEVEL = 1e-3  # the largest probability of a false alarm of guesses
NARROWEST, WIDER, BLOCKS = 16, 4, 32
"""Rows of the smallest block, after pairs; by how much the next is wider; how many blocks there are at least."""
CELLS = 1 << 21  # counts of blocks that are held at a time
ROWS = 1 << 20  # rows of blocks that are looked at at a time
WEAKEST = 1e-6  # a retention that is worth dividing by
STRETCHES = 16  # parts of the release for which the hits are told


# --- how many hits chance explains ------------------------------------------------------------------------------------


def by_chance(expected: float, level: float) -> float:
    """Return by how much hits are above what is expected with probability `level` at most, if the order tells nothing.

        t = L + sqrt(L^2 + 4 L E X),  L = ln(1/level)

    >>> round(by_chance(1000, 0.001), 1)
    173.3
    """
    log = math.log(1 / level)
    return log + math.sqrt(log**2 + 4 * log * expected)


@dataclass(frozen=True, eq=False)
class Guesses:
    kind: str  # in words
    hits: IntArray  # in each stretch of the rows
    asked: IntArray  # rows of each stretch for which there was a guess
    people: int  # all, guessed or not
    expected: float  # hits, if the order tells nothing
    together: int  # rows that share a guess
    level: float  # probability of a false alarm of this kind

    @property
    def rate(self) -> float:
        return int(self.hits.sum()) / self.people

    @cached_property
    def margin(self) -> float:
        """What chance adds to the rate at most, but for the level."""
        return self.together * by_chance(self.expected / self.together, self.level) / self.people

    @property
    def sure(self) -> float:
        return self.rate - self.margin


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimator:
    """The inverse matrices, row by row of the release: a published y of sub-table j adds to the estimated records

        1/p_jy to y,  and  -(1/p_jy - 1)/(sum_x 1/p_jx) * 1/p_jx to every x of the sub-table

    where every retention is above `WEAKEST`; else the published value counts as it is. A matrix that is not made of
    retentions is solved for; where it cannot be, all values of a card count alike.
    """

    own: FloatArray  # [sub-table, value]: 1/p
    shared: FloatArray  # [sub-table, value]: what a row takes off all values, in units of `own`
    matrix: Matrix | None = None  # one that is not made of retentions

    @classmethod
    def plain(cls, values: int) -> Estimator:
        return cls(np.ones((1, values)), np.zeros((1, values)))

    @classmethod
    def of(cls, mechanism: Mechanism) -> Estimator:
        if mechanism.is_whole and mechanism.matrix.retention is None:
            return replace(cls.plain(mechanism.matrix.outputs), matrix=mechanism.matrix)
        own, shared = np.zeros((2, len(mechanism.tables), mechanism.domain.size))
        for j, table in enumerate(mechanism.tables):
            p, codes = table.matrix.retention, table.codes
            assert p is not None  # sub-tables have uniform matrices
            own[j, codes] = 1.0 if (p <= WEAKEST).any() else 1 / p
            shared[j, codes] = (own[j, codes] - 1) / own[j, codes].sum()
        return cls(own, shared)

    @property
    def values(self) -> int:
        return int(self.own.shape[1]) if self.matrix is None else self.matrix.size

    def estimate(self, parts: IntArray, number: int, codes: Codes, labels: Codes) -> FloatArray:
        """Return the estimated records of each value in each part of the rows: [part, value]."""
        tables, m = self.own.shape
        place = codes if tables == 1 else labels.astype(np.int64) * m + codes
        found: FloatArray = np.bincount(parts * m + codes, self.own.ravel()[place], number * m).astype(np.float64)
        found = found.reshape(number, m)
        if self.matrix is not None:
            usable = self.matrix.condition_number < 1 / WEAKEST
            return self.matrix.solve(found) if usable else self.matrix.uncorrected(found)
        if not self.shared.any():
            return found
        off = np.bincount(parts * tables + labels, self.shared.ravel()[place], number * tables)
        return np.asarray(found - off.reshape(number, tables) @ self.own)

    def shown_value(self, codes: Codes) -> Codes:
        """Return the value that each row shows: the published one, or of a card the commonest by the whole release."""
        if self.matrix is None or self.matrix.publishes_values:
            return codes
        shown = np.bincount(codes, minlength=self.matrix.outputs).astype(np.float64)
        records = settled(self.matrix.uncorrected(shown))
        used, place = np.unique(codes, return_inverse=True)
        cards = [self.matrix.card(number) for number in used.tolist()]
        return np.array([card[records[card].argmax()] for card in cards], dtype=np.int32)[place]


def widths(rows: int, values: int) -> list[int]:
    """Return the widths of the blocks: pairs, and wider ones with some rows for each value.

    >>> widths(10_000, 50), widths(10_000, 100)
    ([2, 16, 64, 256], [2, 64, 256])
    """
    wider = itertools.accumulate(itertools.repeat(WIDER), operator.mul, initial=NARROWEST)
    return [2, *(w for w in itertools.takewhile(lambda width: BLOCKS * width <= rows, wider) if 4 * w >= values)]


def guess_by_place(
    published: Codes, estimator: Estimator, width: int, labels: Codes | None = None
) -> Iterator[tuple[int, Codes]]:
    """Yield the guesses of consecutive rows, each with the place of its first one; a last, shorter block has none.

    Of a pair each row is guessed to have the other's value. Each block counts besides as one record of the whole
    release, which decides where the block tells nothing.
    """
    end = published.size // width * width
    if width == 2:
        yield 0, estimator.shown_value(published)[np.arange(end) ^ 1]
        return
    labels = np.zeros(published.size, dtype=np.int8) if labels is None else labels
    everything = np.zeros(published.size, dtype=np.int64)
    overall = estimator.estimate(everything, 1, published, labels)[0] / published.size
    blocks = max(1, min(CELLS // (2 * max(estimator.own.shape)), ROWS // width))
    for first in range(0, end, blocks * width):
        here = slice(first, min(first + blocks * width, end))
        codes = published[here]
        place = np.arange(codes.size)
        part = place // width * 2 + place % 2
        records = estimator.estimate(part, codes.size // width * 2, codes, labels[here])
        likeliest = (records + overall).reshape(-1, 2, estimator.values).argmax(axis=2)
        yield first, likeliest[:, ::-1].ravel()[part]  # of the other half


def rows_guessed(true: Codes, published: Codes, estimator: Estimator, labels: Codes | None = None) -> list[Guesses]:
    """Return how often the people's values are guessed from the rows around their places, width by width.

    true: the values of the people in the order of the source; published: those of the rows in the order of the release.
    Where fewer rows are published, the last people are not guessed.
    """
    if published.size > true.size:
        raise UsageError(
            f"The release has {published.size:,} rows, more than the {true.size:,} people of the table.",
            "Give the table that was published.",
        )
    tried = widths(published.size, estimator.values)
    return [_of_width(width, true, published, estimator, labels, LEVEL / len(tried)) for width in tried]


def _of_width(
    width: int, true: Codes, published: Codes, estimator: Estimator, labels: Codes | None, level: float
) -> Guesses:
    hits, asked = np.zeros((2, STRETCHES), dtype=np.int64)
    guessed = np.zeros(estimator.values, dtype=np.int64)
    for first, guesses in guess_by_place(published, estimator, width, labels):
        right = np.flatnonzero(guesses == true[first : first + guesses.size])
        hits += _by_stretch(first + right, published.size)
        asked += _by_stretch(np.arange(first, first + guesses.size), published.size)
        guessed += np.bincount(guesses, minlength=guessed.size)
    rows = int(asked.sum())
    expected = float(guessed @ np.bincount(true[:rows], minlength=estimator.values) / max(1, rows))
    kind = "the neighbour" if width == 2 else f"blocks of {width:,} rows"
    return Guesses(kind, hits, asked, true.size, expected, width // 2, level)


def _by_stretch(places: IntArray, rows: int) -> IntArray:
    return np.bincount(places * STRETCHES // rows, minlength=STRETCHES)


def rows_finding(
    true: Codes, published: Codes, shuffled: bool, mechanism: Mechanism | None = None, labels: Codes | None = None
) -> Finding:
    """Return what the place of a row tells. mechanism, labels: how values were randomized; None: not at all.

    Shuffled releases promise that it tells no more than the most frequent value does.
    """
    estimator = Estimator.plain(int(true.max()) + 1) if mechanism is None else Estimator.of(mechanism)
    found = rows_guessed(true, published, estimator, labels)
    baseline = float(np.bincount(true).max() / true.size)
    knows = "Knows the order of the people in the source, and holds row k of the release to be person k."
    return _finding(found, published.size, baseline, shuffled, knows, "the most frequent value")


# --- groups -----------------------------------------------------------------------------------------------------------


def guess_by_list(tables: GroupTables) -> IntArray:
    """Return for the k-th row of each group the k-th value that the table of the groups lists for it."""
    rows, lines = (np.argsort(groups, kind="stable") for groups in (tables.rows, tables.groups))
    guesses = np.empty(tables.rows.size, dtype=np.int64)
    guesses[rows] = np.repeat(tables.values[lines], tables.counts[lines])
    return guesses


def groups_finding(tables: GroupTables, true: IntArray, shuffled: bool) -> Finding:
    """Return what the order inside groups tells. true: of each row, -1 where it is not known which row is whose."""
    known = np.flatnonzero(true >= 0)
    right = known[guess_by_list(tables)[known] == true[known]]
    line = tables.lines.find(tables.rows[known], true[known])
    expected = float((tables.lines.counts[line] / tables.sizes[tables.rows[known]]).sum())
    hits, asked = (_by_stretch(places, true.size) for places in (right, known))
    found = Guesses("the list of the group", hits, asked, max(1, known.size), expected, 1, LEVEL)
    knows = "Holds the k-th row of a group to have the k-th value that is listed for the group."
    return _finding([found], true.size, expected / found.people, shuffled, knows, "a random value of the group")


def _finding(found: Sequence[Guesses], rows: int, baseline: float, shuffled: bool, knows: str, instead: str) -> Finding:
    """The interval is of `worst`: the rate, and what chance alone adds to it or takes from it."""
    best = max(found, key=lambda guesses: guesses.sure)
    size = best.people
    return Finding(
        attacker="order",
        question="Which value has a person, given the place of a row?",
        assumption=f"{knows} Without an order it guesses {instead}.",
        measured=(
            "the share of people whose value is guessed by place; the limits leave out what chance alone adds, but for "
            f"{LEVEL:g} of all cases"
        ),
        worst=best.rate,
        records=size,
        at_risk=int(best.hits.sum()) if best.sure > baseline else 0,
        **held_to(baseline, shuffled),
        baseline=baseline,
        interval=(max(0.0, best.sure), min(1.0, best.rate + best.margin)),
        exposed=tuple(_stretches(best, rows)) if best.sure > baseline else (),
        remark=" ".join(f"By {guesses.kind}: {percent(guesses.rate)}." for guesses in found),
    )


def _stretches(best: Guesses, rows: int) -> Iterator[Exposed]:
    ends = -(-np.arange(STRETCHES + 1) * rows // STRETCHES)
    rates = best.hits / np.maximum(1, best.asked)
    for k in np.argsort(-settled(rates), kind="stable")[:SHOWN].tolist():
        if best.asked[k]:
            yield Exposed(f"rows {ends[k] + 1:,} to {ends[k + 1]:,}", int(best.asked[k]), float(rates[k]))


def of_rows(evidence: Evidence) -> Iterator[Finding]:
    own, shown, mechanism = sensitive_values(evidence)
    labels = evidence.sub_tables if mechanism is not None and mechanism.label is not None else None
    yield rows_finding(own, shown, evidence.manifest.data.shuffled, mechanism, labels)
    yield from random_order(evidence)


def of_columns(evidence: Evidence) -> Iterator[Finding]:
    """Who pairs rows by place, column by column; then the order of the rows, which is one for all columns."""
    for part in evidence.by_mechanism:
        own, shown = part.both(part.mechanism)
        found = rows_finding(own, shown, evidence.manifest.data.shuffled, part.mechanism, None)
        yield found.named(part.mechanism.domain.name)
    yield from random_order(evidence)


def sensitive_values(evidence: Evidence) -> tuple[CodeArray, CodeArray, Mechanism | None]:
    """Return the true and the published sensitive values, and how they were randomized; None: not at all."""
    mechanism = next((m for m in evidence.manifest.mechanism_values if m.domain.names == evidence.sensitive), None)
    if mechanism is None:
        both = evidence.signatures(evidence.sensitive)
        return both.table.astype(np.int32), both.release.astype(np.int32), None
    return *evidence.both(mechanism), mechanism


def of_groups(evidence: Evidence) -> Iterator[Finding]:
    true = codes_of_rows(evidence, evidence.values.table)
    if (true != UNMATCHED).any():
        yield groups_finding(evidence.group_tables, true, evidence.manifest.data.shuffled)
    yield from random_order(evidence)


def random_order(evidence: Evidence) -> Iterator[Finding]:
    """Who looks for any order in rows that are stated as shuffled: of columns, true values, or places in the table."""
    yield from _as_asked(evidence)
    rows = evidence.manifest.data.rows
    if not evidence.manifest.data.shuffled or rows < 2:
        return
    parts = [published_order(evidence.release, list(_known_classes(evidence)))]
    if not evidence.manifest.in_buckets and not evidence.one_of_each_person:
        parts += [
            same_place(shown, own)
            for name in other_columns(evidence)
            if name in evidence.comparable
            for own, shown in classes_of_both(evidence, name)
        ]
    tallies = joined(parts)
    if not tallies.tests:
        return  # no column differs between rows
    yield chance_finding(
        tallies,
        rows,
        ORDER_LEVEL,
        "order",
        "random order",
        "Do columns, true values or places in the table go with the places of the rows?",
        "Holds the table beside the release. Rows were shuffled: every order of them is equally likely.",
        ORDER_LEVEL,
    )


def _as_asked(evidence: Evidence) -> Iterator[Finding]:
    """A policy that does not ask to keep the order asks for a random one: a release that kept it was made wrongly."""
    if evidence.table.policy.output.order == "keep" or evidence.manifest.data.shuffled:
        return
    yield Finding(
        attacker="order",
        question="Were the rows shuffled, as the policy asks?",
        assumption="Reads the manifest: the rows are in the order of the table.",
        measured="whether the rows are in the order of the table, against the policy",
        worst=1.0,
        records=evidence.manifest.data.rows,
        at_risk=evidence.manifest.data.rows,
        promised=0.0,
        remark="Whether rows are shuffled must not depend on the table. Publish anew, or ask to keep the order.",
        about="as asked",
        scale="chance",
    )


def _known_classes(evidence: Evidence) -> Iterator[Classes]:
    if (evidence.matched == UNMATCHED).all():
        return
    kept = thinned(evidence.manifest.data.rows)
    values = evidence.values
    frequent = np.argsort(-np.bincount(values.table, minlength=values.size), kind="stable")[:MOST_VALUES]
    place = np.full(values.size, UNMATCHED)
    place[frequent] = np.arange(frequent.size)
    names = [f"true {values.name} {values.labels[k]!r}" for k in frequent.tolist()]
    for each in (Classes(codes_of_rows(evidence, place[values.table]), names), classes_by_place(evidence)[1]):
        yield each if kept is None else Classes(each.codes[kept], each.names)


ATTACKER = Attacker(
    name="order",
    knows="goes by the place of a row",
    why_not_covered="The rows are in the order of the table. The guarantee is about values, not about places.",
    acceptable=(
        "Acceptable if the order of the table tells nothing, as in a random one. Not otherwise: shuffle the rows."
    ),
    on={"randomized": of_rows, "several": of_columns, "response": of_rows, "groups": of_groups},
    public=lambda manifest: Listed(13, covered=manifest.data.shuffled),
    place=16,
)
