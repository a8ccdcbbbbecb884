"""The slow oracle: every table that may be, every folder that it may give, and Bayes' rule, in fractions.

A world is a table. What is believed beforehand gives each world a weight; a mechanism gives each world the folders that
it may publish, with their probabilities. Nothing here knows any method.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import permutations
from math import factorial, prod
from typing import TypeVar

World = TypeVar("World", bound=Hashable)
Folder = Hashable
Law = Mapping[Folder, Fraction]
"""Folder -> the probability that it is published."""


def posteriors(prior: Mapping[World, Fraction], publish: Callable[[World], Law]) -> dict[Folder, dict[World, Fraction]]:
    """Return, for every folder that may be published, what is believed of the worlds after seeing it."""
    joint: dict[Folder, dict[World, Fraction]] = defaultdict(dict)
    for world, weight in prior.items():
        for folder, chance in publish(world).items():
            if weight * chance:
                joint[folder][world] = weight * chance
    return {folder: _normed(weights) for folder, weights in joint.items()}


def _normed(weights: Mapping[World, Fraction]) -> dict[World, Fraction]:
    total = sum(weights.values())
    return {world: weight / total for world, weight in weights.items()}


def belief(worlds: Mapping[World, Fraction], statement: Callable[[World], bool]) -> Fraction:
    """Return how much a statement about the world is believed."""
    return sum((weight for world, weight in worlds.items() if statement(world)), Fraction(0))


def alike(worlds: Iterable[World]) -> dict[World, Fraction]:
    """Return the prior to which all these worlds are equally likely."""
    listed = list(dict.fromkeys(worlds))
    return dict.fromkeys(listed, Fraction(1, len(listed)))


def assignments(values: Sequence[World]) -> list[tuple[World, ...]]:
    """Return every way to give these values to the records, each once."""
    return sorted(set(permutations(values)))  # type: ignore[type-var]


def ways(values: Iterable[Hashable]) -> int:
    """Return how many assignments there are."""
    counts = Counter(values)
    return factorial(counts.total()) // prod(map(factorial, counts.values()))


def drawn(law: Iterable[Folder]) -> dict[Folder, Fraction]:
    """Return the law of an outcome of equally likely draws, given draw by draw."""
    outcomes = Counter(law)
    return {folder: Fraction(number, outcomes.total()) for folder, number in outcomes.items()}


def mixed(laws: Iterable[tuple[Fraction, Law]]) -> dict[Folder, Fraction]:
    """Return the law of what one of these laws, by chance, gives."""
    total: dict[Folder, Fraction] = defaultdict(Fraction)
    for weight, law in laws:
        for folder, chance in law.items():
            total[folder] += weight * chance
    return dict(total)


def statements(domain: Sequence[World]) -> Iterator[frozenset[World]]:
    """Give every statement about a value that is neither impossible nor certain."""
    for number in range(1, 2 ** len(domain) - 1):
        yield frozenset(value for place, value in enumerate(domain) if number >> place & 1)
