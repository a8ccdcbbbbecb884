"""Does anything that can be seen change the odds by more than the promised factor? An exact test.

Which of two tables, T1 or T2, each release is of is decided by a fair coin. If everything that is published changes the
odds by at most gamma, then, given all folders,

    Pr(release k is of T1 | all folders) <= gamma/(1 + gamma),        the releases independently of each other.

So for every event that is chosen without looking at the coins, with n releases in which it occurs, the number of those
that are of T1 is at most Bin(n, gamma/(1 + gamma)), and p = Pr(Bin >= n1) is a valid p-value. Which events are looked
at, and how many, may depend on the folders, which are given. By Bonferroni over the events and both directions the
chance of a false alarm of one test is at most ALARM, without any approximation.

An event is "feature = value", its opposite, or, for numbers, "feature <= value". Events that occur in the same releases
are one. Those that occur so rarely that they could never alarm are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from tests.statistical.whole_release.observing import Features

ALARM = 1e-8
"""The largest chance that one test finds a leak where there is none: of 100 tests together 1e-6."""

Coins = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Leak:
    """An event whose odds change by more than the factor."""

    events: tuple[str, ...]  # its names: what occurs in the same releases is one event
    of_first: int  # releases of T1 in which it occurs
    of_second: int
    p_value: float  # times the number of events


@dataclass(frozen=True)
class Observed:
    """Many releases of two tables: what is seen of each, and whether it is of T1."""

    seen: list[Features]
    first: Coins

    @property
    def features(self) -> int:
        """How many features there are."""
        return len({name for features in self.seen for name in features})


def observed(publish: Callable[[bool], Features], releases: int) -> Observed:
    """Publish one of two tables, as a fair coin says (True: T1), again and again."""
    coin = Random()
    first = [coin.random() < 0.5 for _ in range(releases)]
    return Observed([publish(is_first) for is_first in first], np.array(first))


def events(seen: Sequence[Features], least: int) -> list[tuple[list[str], Coins]]:
    """Return the different events that occur in at least `least` releases: their names, and in which they do."""
    found: dict[bytes, tuple[list[str], Coins]] = {}
    for name in dict.fromkeys(name for features in seen for name in features):
        for event, occurs in _events_of(name, [features.get(name, ABSENT) for features in seen]):
            if least <= occurs.sum():
                found.setdefault(np.packbits(occurs).tobytes(), ([], occurs))[0].append(event)
    return list(found.values())


ABSENT = "(absent)"


def _events_of(name: str, values: list[object]) -> Iterator[tuple[str, Coins]]:
    keyed = np.array([repr(value) for value in values])
    for value in np.unique(keyed):
        occurs = keyed == value
        yield f"{name} = {value}", occurs
        yield f"{name} != {value}", ~occurs
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    for limit in sorted(set(numbers))[:-1]:
        below = [isinstance(value, int | float) and value <= limit for value in values]
        yield f"{name} <= {limit}", np.array(below)


def leaks(releases: Observed, gamma: Fraction | int) -> list[Leak]:
    """Return every event whose odds change by more than gamma, worst first; empty but with a chance of ALARM."""
    share = float(gamma / (1 + Fraction(gamma)))
    # what occurs in fewer releases has a p-value above ALARM, wherever it occurs
    found = events(releases.seen, math.ceil(math.log(ALARM) / math.log(share)))
    alarms = []
    for names, occurs in found:
        of_first, of_second = int((occurs & releases.first).sum()), int((occurs & ~releases.first).sum())
        p_value = float(binom.sf(max(of_first, of_second) - 1, of_first + of_second, share)) * 2 * len(found)
        if p_value <= ALARM:
            alarms.append(Leak(tuple(names), of_first, of_second, p_value))
    return sorted(alarms, key=lambda leak: leak.p_value)


def tells(found: Sequence[Leak], feature: str) -> bool:
    """Whether a feature that begins like this is among the leaks."""
    return any(event.startswith(feature) for leak in found for event in leak.events)


def power(in_first: float, in_second: float, gamma: Fraction | int, releases: int, different: int) -> float:
    """Return the chance to find an event of these probabilities, among so many different events: exactly."""
    share = float(gamma / (1 + Fraction(gamma)))
    occurring = (in_first + in_second) / 2
    number = np.arange(releases + 1)
    least = binom.isf(ALARM / (2 * different), number, share) + 1  # n1 from which n occurrences alarm
    alarmed = binom.sf(least - 1, number, in_first / (in_first + in_second))
    return float(binom.pmf(number, releases, occurring) @ alarmed)
