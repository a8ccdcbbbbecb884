"""Worlds of an attacker who knows compositions: all ways to give their values to records."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from sfumato.auditor.worlds import Number, World, refuse_more


def arrangements(counts: Sequence[int]) -> Iterator[tuple[World, Number]]:
    """Yield all ways to give the values of a known composition to records, equally likely."""
    return in_groups([counts])


def in_groups(compositions: Sequence[Sequence[int]]) -> Iterator[tuple[World, Number]]:
    """Yield the same for groups one after another, each of a known composition."""
    refuse_more(math.prod(_arrangements(counts) for counts in compositions))
    for parts in itertools.product(*(tuple(_arranged(tuple(counts))) for counts in compositions)):
        yield tuple(itertools.chain.from_iterable(parts)), 1


def _arranged(counts: tuple[int, ...]) -> Iterator[World]:
    if not any(counts):
        yield ()
    for value, count in enumerate(counts):
        if count:
            rest = (*counts[:value], count - 1, *counts[value + 1 :])
            yield from ((value, *others) for others in _arranged(rest))


def _arrangements(counts: Sequence[int]) -> int:
    return math.factorial(sum(counts)) // math.prod(math.factorial(count) for count in counts)
