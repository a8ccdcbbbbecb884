"""The attacker who knows the order of the people in the source, and guesses by place.

    rows      row k of the release is person k; the rows around tell the value. Rows stand in blocks; in each block the
              odd rows are guessed from the even ones and the even ones from the odd, so that no row tells of itself
              (its own published value is another attacker's). The guess is the value with the most records, estimated
              through the inverse matrix where values are randomized; blocks of several widths are tried
    groups    the k-th row of a group has the k-th value in the list of the group

If the release is shuffled, the guesses are fixed and the people come in any order. Hits are then X = sum_i a_(i pi(i)),
pi a random permutation and a_ij in {0, 1}, with

    E X = sum_x guesses of x * people with x / people                    never above the most frequent value's share
    Pr(X - E X >= t) <= exp(-t^2 / (4 E X + 2 t))                        Chatterjee (2007), Proposition 1.1

(for permutations inside groups too: his bound is one on the moment generating function, and these multiply). So chance
alone is taken for a breach with probability `LEVEL` at most, over all widths together, whatever the table is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.audit.finding import SHOWN, Exposed, Finding
from sfumato.audit.grouped import GroupTables
from sfumato.errors import UsageError
from sfumato.matrix import FloatArray
from sfumato.mechanism import Mechanism

IntArray = npt.NDArray[np.int64]
Codes = npt.NDArray[np.integer]

LEVEL = 1e-3
"""The largest probability of a false alarm."""
NARROWEST, WIDER = 16, 8
"""Rows of the smallest block, after pairs, and by how much the next is wider."""
CELLS = 1 << 21
"""Counts of blocks that are held at a time."""
ROWS = 1 << 20
"""Rows that are compared at a time."""
STRETCHES = 16
"""Parts of the release for which the hits are told."""


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
    """How often guesses of one kind were right."""

    kind: str  # in words
    hits: IntArray  # in each stretch of the rows
    people: int
    expected: float  # hits, if the order tells nothing
    level: float  # probability of a false alarm of this kind

    @property
    def rate(self) -> float:
        """The share of people whose value is guessed."""
        return int(self.hits.sum()) / self.people

    @cached_property
    def margin(self) -> float:
        """What chance adds to the rate at most, but for the level."""
        return by_chance(self.expected, self.level) / self.people

    @property
    def sure(self) -> float:
        """The rate without what chance may have added."""
        return self.rate - self.margin


# --- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Estimator:
    """The inverse matrices, row by row of the release: a published y of sub-table j adds to the estimated records

        1/p_jy to y,  and  -(1/p_jy - 1)/(sum_x 1/p_jx) * 1/p_jx to every x of the sub-table

    where every retention is above 0; else the published value counts as it is.
    """

    own: FloatArray  # [sub-table, value]: 1/p
    shared: FloatArray  # [sub-table, value]: what a row takes off all values, in units of `spread`
    spread: FloatArray  # [sub-table, value]: 1/p

    @classmethod
    def plain(cls, values: int) -> Estimator:
        """Return the one of values that are published as they are."""
        return cls(np.ones((1, values)), np.zeros((1, values)), np.zeros((1, values)))

    @classmethod
    def of(cls, mechanism: Mechanism) -> Estimator:
        """Return the one of randomized values."""
        shape = len(mechanism.tables), mechanism.domain.size
        own, shared, spread = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for j, table in enumerate(mechanism.tables):
            p, codes = table.matrix.retention, table.codes
            own[j, codes] = 1.0 if (p <= 0).any() else 1 / p
            shared[j, codes] = (own[j, codes] - 1) / own[j, codes].sum()
            spread[j, codes] = own[j, codes]
        return cls(own, shared, spread)

    @property
    def values(self) -> int:
        """m."""
        return self.own.shape[1]

    def estimate(self, parts: IntArray, number: int, codes: Codes, labels: Codes) -> FloatArray:
        """Return the estimated records of each value in each part of the rows: [part, value]."""
        tables, m = self.own.shape
        found = np.bincount(parts * m + codes, self.own[labels, codes], number * m).reshape(number, m)
        off = np.bincount(parts * tables + labels, self.shared[labels, codes], number * tables)
        return np.asarray(found - off.reshape(number, tables) @ self.spread)


def widths(rows: int, values: int) -> list[int]:
    """Return the widths of the blocks: pairs, and wider ones with some rows for each value, up to half the release.

    >>> widths(10_000, 50)
    [2, 16, 128, 1024]
    """
    wide = (NARROWEST * WIDER**k for k in range(64))
    limit = next(k for k, width in enumerate(NARROWEST * WIDER**k for k in range(64)) if 2 * width > rows)
    return [2, *(width for _, width in zip(range(limit), wide, strict=False) if 4 * width >= values)]


def guess_by_place(
    published: Codes, estimator: Estimator, width: int, labels: Codes | None = None
) -> Iterator[tuple[int, Codes]]:
    """Yield the guesses of consecutive rows, each with the place of its first one.

    Each block counts besides as one record of the whole release, which decides where the block tells nothing.
    """
    if width == 2:
        yield from _neighbours(published)
        return
    m = estimator.values
    whole = sum(_whole(published, estimator, labels))
    overall = whole / max(1, published.size)
    blocks = max(1, CELLS // (2 * max(estimator.own.shape)))
    for first in range(0, published.size, blocks * width):
        here = slice(first, first + blocks * width)
        codes = published[here]
        place = np.arange(codes.size)
        part = place // width * 2 + place % 2
        number = (codes.size + width - 1) // width * 2
        records = estimator.estimate(part, number, codes, _labels(labels, here, codes.size))
        likeliest = (records + overall).reshape(-1, 2, m).argmax(axis=2)[:, ::-1].ravel()  # of the other half
        yield first, likeliest[part]


def _neighbours(published: Codes) -> Iterator[tuple[int, Codes]]:
    """Yield the published value of the other row of each pair; a last row without one has its own neighbour's."""
    for first in range(0, published.size, ROWS):
        place = np.arange(first, min(first + ROWS, published.size)) ^ 1
        yield first, published[np.minimum(place, published.size - 1)]


def _whole(published: Codes, estimator: Estimator, labels: Codes | None) -> Iterator[FloatArray]:
    for first in range(0, published.size, ROWS):
        here = slice(first, first + ROWS)
        codes = published[here]
        one = np.zeros(codes.size, dtype=np.int64)
        yield estimator.estimate(one, 1, codes, _labels(labels, here, codes.size))[0]


def _labels(labels: Codes | None, here: slice, size: int) -> Codes:
    return np.zeros(size, dtype=np.int64) if labels is None else labels[here]


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
    held = _counted(true, estimator.values)
    tried = widths(published.size, estimator.values)
    return [_of_width(width, true, published, estimator, labels, held, LEVEL / len(tried)) for width in tried]


def _of_width(
    width: int, true: Codes, published: Codes, estimator: Estimator, labels: Codes | None, held: IntArray, level: float
) -> Guesses:
    hits, guessed = np.zeros(STRETCHES, dtype=np.int64), np.zeros(estimator.values, dtype=np.int64)
    for first, guesses in guess_by_place(published, estimator, width, labels):
        right = np.flatnonzero(guesses == true[first : first + guesses.size]) + first
        hits += np.bincount(right * STRETCHES // published.size, minlength=STRETCHES)
        guessed += np.bincount(guesses, minlength=guessed.size)
    kind = "the neighbour" if width == 2 else f"blocks of {width:,} rows"
    return Guesses(kind, hits, true.size, float(guessed @ held / true.size), level)


def _counted(codes: Codes, m: int) -> IntArray:
    return np.asarray(sum(np.bincount(codes[k : k + ROWS], minlength=m) for k in range(0, codes.size, ROWS)))


def rows_finding(
    true: Codes, published: Codes, shuffled: bool, mechanism: Mechanism | None = None, labels: Codes | None = None
) -> Finding:
    """Return what the place of a row tells. mechanism, labels: how values were randomized; None: not at all.

    Shuffled releases promise that it tells no more than the most frequent value does.
    """
    values = int(true.max()) + 1 if mechanism is None else mechanism.domain.size
    estimator = Estimator.plain(values) if mechanism is None else Estimator.of(mechanism)
    found = rows_guessed(true, published, estimator, labels)
    baseline = float(_counted(true, values).max() / true.size)
    return _finding(
        found,
        baseline,
        shuffled,
        knows="Knows the order of the people in the source, and holds row k of the release to be person k.",
        instead="the most frequent value",
    )


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
    hits = np.bincount(right * STRETCHES // tables.rows.size, minlength=STRETCHES)
    found = Guesses("the list of the group", hits, max(1, known.size), expected, LEVEL)
    return _finding(
        [found],
        expected / max(1, known.size),
        shuffled,
        knows="Holds the k-th row of a group to have the k-th value that is listed for the group.",
        instead="a random value of the group",
    )


# --- the finding ------------------------------------------------------------------------------------------------------


def _finding(found: Sequence[Guesses], baseline: float, shuffled: bool, knows: str, instead: str) -> Finding:
    """The attacker takes the better of its guesses and what it would guess without an order."""
    best = max(found, key=lambda guesses: guesses.sure)
    size = best.people
    return Finding(
        attacker="order",
        question="Which value has a person, given the place of a row?",
        assumption=f"{knows} Without an order it guesses {instead}.",
        measured=(
            "the share of people whose value is guessed (worst: or by what it would guess without; mean: by place), "
            f"with what chance explains of it but in {LEVEL:g} of all cases"
        ),
        worst=max(best.rate, baseline),
        mean=best.rate,
        records=size,
        at_risk=int(best.hits.sum()) if best.sure > baseline else 0,
        promised=baseline if shuffled else None,
        stated=None if shuffled else baseline,
        baseline=baseline,
        interval=(max(0.0, best.sure), min(1.0, best.rate + best.margin)),
        exposed=tuple(_stretches(best)) if best.sure > baseline else (),
        remark=" ".join(f"By {guesses.kind}: {guesses.rate:.4g}." for guesses in found),
    )


def _stretches(best: Guesses) -> Iterator[Exposed]:
    """Yield the stretches of the release with the most hits."""
    ends = -(-np.arange(STRETCHES + 1) * best.people // STRETCHES)
    sizes = np.diff(ends)
    rates = best.hits / np.maximum(1, sizes)
    for k in np.argsort(-rates, kind="stable")[:SHOWN].tolist():
        if sizes[k]:
            yield Exposed(f"rows {ends[k] + 1:,} to {ends[k + 1]:,}", int(sizes[k]), min(1.0, float(rates[k])))
