"""How unlikely a count is by chance: bounds on tails that hold exactly, to test what was drawn, dealt and shuffled.

A count of hits among n records has one of two laws, and both bounds are never below the true probability:

    independent draws, chances with the mean c      Pr(share >= a) <= exp(-n KL(a || c))               Hoeffding (1956)
    n drawn without replacement from N records      Pr(X >= x) <= pmf(x)/(1 - r),  r = pmf(x + 1)/pmf(x) < 1
    of which K are marked (hypergeometric)          as the ratios of its terms fall

A sum of independent hypergeometric counts is one of independent draws, whose generating function has real zeros only:
so the first bound holds for strata, with c the expected share of all of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import special

from sfumato.values.arrays import FloatArray

INDEPENDENT = math.inf
"""The population of independent draws."""


@dataclass(frozen=True, eq=False)
class Tallies:
    """Hits out of so many records, each with a chance; chance: the mean over all. `tests`: how many counts there are.

    population: of how many records these were drawn without replacement; INDEPENDENT: each was drawn by itself.
    """

    hits: FloatArray
    records: FloatArray
    chance: FloatArray
    tests: int
    told: Callable[[int], str]
    population: FloatArray | None = None

    @property
    def log_tails(self) -> FloatArray:
        """A bound on ln Pr(so many hits or more), of each count."""
        return log_tail(self.hits, self.records, self.chance, self.population)

    def log_level(self, level: float) -> float:
        """What a tail must be below, so that all counts together give a false alarm with the level at most."""
        return math.log(level / max(1, self.tests))

    def allowed(self, number: int, level: float) -> float:
        """The largest share of a count that is not too unlikely."""
        people = INDEPENDENT if self.population is None else float(self.population[number])
        return allowed(float(self.records[number]), float(self.chance[number]), self.log_level(level), people)


def log_tail(
    hits: FloatArray, records: FloatArray, chance: FloatArray, population: FloatArray | None = None
) -> FloatArray:
    """Return a bound on ln Pr(so many hits or more); 0 where no more than expected."""
    share = np.minimum(hits / records, 1.0)
    distance = special.rel_entr(share, chance) + special.rel_entr(1 - share, 1 - chance)
    independent = np.asarray(np.where(share > chance, -records * distance, 0.0))
    if population is None:
        return independent
    drawn = np.isfinite(population)
    found = independent.copy()
    found[drawn] = log_urn_tail(hits[drawn], records[drawn], chance[drawn] * population[drawn], population[drawn])
    return found


def log_urn_tail(hits: FloatArray, drawn: FloatArray, marked: FloatArray, population: FloatArray) -> FloatArray:
    """Return a bound on ln Pr(so many hits or more) among records drawn from an urn; 0 where no more than expected.

    >>> round(math.exp(log_urn_tail(*np.array([[3.0], [3.0], [3.0], [6.0]]))[0]) * 20, 9)  # 1 of C(6, 3) ways
    1.0
    """
    marked = np.round(marked)
    log_pmf = (
        _log_choose(marked, hits) + _log_choose(population - marked, drawn - hits) - _log_choose(population, drawn)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = (marked - hits) * (drawn - hits) / ((hits + 1) * (population - marked - drawn + hits + 1))
        bound = np.minimum(log_pmf - np.log1p(-np.minimum(ratio, 1.0)), 0.0)
    return np.asarray(np.where((hits * population > drawn * marked) & (ratio < 1), bound, 0.0))


def _log_choose(n: FloatArray, k: FloatArray) -> FloatArray:
    return np.asarray(special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1))


def allowed(records: float, chance: float, log_level: float, population: float = INDEPENDENT) -> float:
    """Return the largest share of records that is not too unlikely, in whole records.

    >>> allowed(10, 0.5, math.log(0.01))
    0.9
    """
    low, high = 0, math.floor(records) + 1
    while high - low > 1:
        middle = (low + high) // 2
        one = [np.array([float(part)]) for part in (middle, records, chance, population)]
        low, high = (middle, high) if log_tail(*one)[0] >= log_level else (low, middle)
    return low / records


def counted(counts: Iterable[tuple[float, float, float, str]]) -> Tallies:
    """Return counts of independent draws one by one: hits, records, mean chance, and what is counted."""
    hits, records, chance, words = zip(*counts, strict=True)
    numbers = np.array([hits, records, chance], dtype=np.float64)
    return Tallies(numbers[0], numbers[1], numbers[2], len(words), words.__getitem__)


def joined(parts: Sequence[Tallies]) -> Tallies:
    """Return several counts as one, for one level."""
    sizes = np.cumsum([part.hits.size for part in parts])
    starts = [0, *sizes[:-1].tolist()]

    def told(number: int) -> str:
        part = int(np.searchsorted(sizes, number, side="right"))
        return parts[part].told(number - starts[part])

    def whole(name: str) -> FloatArray:
        return np.concatenate([getattr(part, name) for part in parts]) if parts else np.zeros(0)

    people = [np.full(p.hits.size, INDEPENDENT) if p.population is None else p.population for p in parts]
    return Tallies(
        whole("hits"), whole("records"), whole("chance"), sum(part.tests for part in parts), told,
        np.concatenate(people) if people else None,
    )  # fmt: skip
