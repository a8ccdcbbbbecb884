"""Every release that an algorithm can make of every small table, and what Bayes' rule makes of it, in fractions.

Beforehand every table of n records in which m values occur, and one has more than n/l of them, is equally likely.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TypeVar

from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.seats import Draw
from sfumato.methods.suppression.suppress import Variant, seat, violating

Counts = tuple[int, ...]
Result = TypeVar("Result")


class _Open(Exception):
    """A draw that the script does not tell, among so many ways."""


def told(*script: int) -> Draw:
    """Return a draw that gives these numbers, one after another."""
    left = iter(script)

    def draw(below: int) -> int:
        drawn = next(left, None)
        if drawn is None:
            raise _Open(below)
        return drawn

    return draw


def every(run: Callable[[Draw], Result]) -> Iterator[tuple[Fraction, Result]]:
    """Yield all results of something that draws, with their probabilities.

    >>> sorted((str(chance), result) for chance, result in every(lambda draw: draw(2) and 1 + draw(2)))
    [('1/2', 0), ('1/4', 1), ('1/4', 2)]
    """
    todo: list[tuple[Counts, Fraction]] = [((), Fraction(1))]
    while todo:
        script, chance = todo.pop()
        try:
            yield chance, run(told(*script))
        except _Open as open_draw:
            (ways,) = open_draw.args
            todo += [((*script, way), chance / ways) for way in range(ways)]


def sorted_tables(records: int, values: int, most: int | None = None) -> Iterator[Counts]:
    """Yield all descending counts of so many records, every value with one at least.

    >>> list(sorted_tables(6, 3))
    [(4, 1, 1), (3, 2, 1), (2, 2, 2)]
    """
    if values == 0:
        yield from [()] if records == 0 else []
        return
    for first in range(min(records - values + 1, most or records), 0, -1):
        yield from ((first, *others) for others in sorted_tables(records - first, values - 1, first))


def labellings(table: Counts) -> int:
    """Return in how many ways the counts can be given to the values."""
    return math.factorial(len(table)) // math.prod(math.factorial(number) for number in Counter(table).values())


@dataclass(frozen=True, eq=False)
class Releases:
    """Published counts, descending -> count -> the weight of the tables whose S_1 was published with that count."""

    records: int
    weights: dict[Counts, dict[int, Fraction]]

    @property
    def worst(self) -> Fraction:
        """The largest posterior that a value is S_1."""
        return max(max(self.posteriors(kept).values()) for kept in self.weights)

    @property
    def guessed(self) -> Fraction:
        """How often the most probable value is S_1."""
        return self._mean(lambda kept: max(self.posteriors(kept).values()))

    @property
    def rate(self) -> Fraction:
        """The mean suppression rate."""
        return self._mean(lambda kept: Fraction(self.records - sum(kept), self.records))

    def above(self, limit: Fraction) -> Fraction:
        """Return the share of the releases with a posterior above a limit."""
        return self._mean(lambda kept: Fraction(max(self.posteriors(kept).values()) > limit))

    def posteriors(self, kept: Counts) -> dict[int, Fraction]:
        """Return count -> the posterior that a value with it is S_1; those with equal counts are alike."""
        weights, values = self.weights[kept], Counter(kept)
        return {count: weight / values[count] / self._weight(kept) for count, weight in weights.items()}

    def _mean(self, number: Callable[[Counts], Fraction]) -> Fraction:
        """Return the mean over all releases of a number of each."""
        weights = {kept: self._weight(kept) for kept in self.weights}
        total = sum(weights.values(), Fraction(0))
        return sum((number(kept) * weight for kept, weight in weights.items()), Fraction(0)) / total

    def _weight(self, kept: Counts) -> Fraction:
        return sum(self.weights[kept].values(), Fraction(0))


def releases(records: int, values: int, ell: int, variant: Variant, asked: int | None = None) -> Releases:
    """Return all releases by an algorithm, with a parameter l that may be above the l whose violation it is used for.

    >>> found = releases(8, 4, 3, "r-suppression")
    >>> str(found.worst), str(found.posteriors((2, 2, 1, 1))[2])
    ('7/17', '7/17')
    """
    weights: dict[Counts, dict[int, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    for table in sorted_tables(records, values):
        levels = Levels(list(table))
        if violating(levels, asked or ell):
            for chance, (kept, count) in every(partial(_published, levels, ell, variant)):
                weights[kept][count] += chance * labellings(table)
    return Releases(records, weights)


def _published(levels: Levels, ell: int, variant: Variant, draw: Draw) -> tuple[Counts, int]:
    """Return the published counts, descending, and that of S_1."""
    seating = seat(levels, ell, variant, draw)
    kept = sorted((*seating.slots, *levels.counts[ell:]), reverse=True)
    return tuple(kept), seating.slots[seating.ranks.index(0)]
