"""The joint posterior over all records of a small table, world by world: slow, exact and obviously right.

A world gives every record its true value. An attacker believes in worlds beforehand, with weights; the release and the
members whom it knows weigh them again. What it believes of one record is the share of the worlds that agree:

    Pr(record r has x | release, known members) = weight of the worlds with x at r / weight of all worlds
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction

from sfumato.errors import UsageError

Number = int | Fraction
World = tuple[int, ...]  # the code of the true value of each record
Worlds = Iterable[tuple[World, Number]]  # every world that can be, with its prior weight
Chance = Callable[[World], Number]  # the probability of the release in a world, up to a factor
Beliefs = tuple[tuple[Fraction, ...], ...]  # of each record, the belief in each value

MOST_WORLDS = 10**6


def enumerate_posteriors(
    worlds: Worlds, chance: Chance, values: int, known: Mapping[int, int] | None = None
) -> Beliefs:
    """Return what the attacker believes of every record, which may have one of so many values.

    `known` gives the true values of the members whom it knows, by their place in the world.

    >>> flip = chance_of([[2, 1], [1, 2]], published=[0, 1])
    >>> one_of_each = [((0, 1), 1), ((1, 0), 1)]
    >>> beliefs = enumerate_posteriors(one_of_each, flip, 2)  # 2*2 against 1*1
    >>> [str(belief) for belief in beliefs[0]]
    ['4/5', '1/5']
    """
    fixed = dict(known or {})
    weights: list[list[Number]] = []
    for world, prior in worlds:
        weights = weights or [[0] * values for _ in world]
        if any(world[record] != value for record, value in fixed.items()):
            continue
        weight = prior * chance(world)
        for row, value in zip(weights, world, strict=True):
            row[value] += weight
    if not weights or not any(weights[0]):
        raise UsageError(
            "No world agrees with what is known.",
            "Give the true values of known members, and a prior that allows them.",
        )
    return tuple(tuple(Fraction(weight) / sum(row) for weight in row) for row in weights)


def chance_of(weights: Sequence[Sequence[Number]], published: Sequence[int]) -> Chance:
    """Return the chance of these published values: weights[y][x] = P[y, x], up to a factor for each published value."""

    def chance(world: World) -> Number:
        return math.prod(weights[y][x] for y, x in zip(published, world, strict=True))

    return chance


def independent(priors: Sequence[Sequence[Number]]) -> Iterator[tuple[World, Number]]:
    """Yield all worlds of independent records: priors[r][x] of each record r."""
    refuse_more(math.prod(len(prior) for prior in priors))
    for world in itertools.product(*(range(len(prior)) for prior in priors)):
        yield world, math.prod(prior[x] for prior, x in zip(priors, world, strict=True))


def refuse_more(worlds: int) -> None:
    """Raise if there are too many worlds to go through."""
    if worlds > MOST_WORLDS:
        raise UsageError(
            f"The table has {worlds:.3g} possible worlds, above {MOST_WORLDS:,}.", "Enumerate fewer records or values."
        )
