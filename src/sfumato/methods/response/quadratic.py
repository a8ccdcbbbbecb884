"""Small convex quadratic programs: a few variables, a few dozen rows.

    minimise  c'd + d'Bd/2  where  A d <= b

With multipliers mu >= 0 of the rows, d = -B^-1 (c + A'mu), and mu_k > 0 only where row k binds. So

    excess = need - gram mu <= 0,  mu >= 0,  and one of both is 0        gram = A B^-1 A',  need = -(b + A B^-1 c)

The dual method of Goldfarb and Idnani (1983): the row that is most exceeded comes to bind. Its multiplier rises until
nothing of the excess is left; a row whose multiplier falls to 0 on the way is let go. That raises the least value of
the program, so from there on no set of rows comes twice. A row that contradicts those that bind is left out: far from
the optimum tangents may contradict each other. Which rows bind changes little from one program of a search to the next,
so the rows of the last one are where it starts; and where just these bind again, a system of equations tells so.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from operator import mul
from typing import NamedTuple

import numpy as np

from sfumato.values.matrix.retention import FloatArray

FLATTEST = 1e-2
"""The least eigenvalue that B is given where it is not positive definite."""

CHANGES = 100
"""How often a row may come to bind."""

EXACT = 1e-13
"""By how much a solution may exceed a row, relative to 1 + the largest excess without multipliers."""

ROUNDED = 1e-15
"""From this excess of a row that binds, so relative, the rounding of the inverse is corrected for."""

BROKEN = 1e-9
"""From this excess of a row that binds, so relative, the inverse is worth nothing."""

LARGE = 100.0
"""The largest excess without multipliers from which on much of the solution would be lost in rounding."""

RIDGE = 1e-9
"""The least share of a row that is taken not to depend on the others that bind."""


class Step(NamedTuple):
    """The solution of a program."""

    d: FloatArray
    binding: dict[int, float]  # the rows that bind, with their multipliers


class Metric(NamedTuple):
    """B, made positive definite if need be."""

    bend: FloatArray
    exact: bool  # whether B is as it was given

    @classmethod
    def of(cls, bend: FloatArray) -> Metric | None:
        """Return B; None if it is not finite."""
        try:
            np.linalg.cholesky(bend)
        except np.linalg.LinAlgError:
            return cls._lifted(bend)
        return cls(bend, exact=True)

    @classmethod
    def _lifted(cls, bend: FloatArray) -> Metric | None:
        if not np.isfinite(bend).all():
            return None
        values, vectors = np.linalg.eigh(bend)
        return cls((vectors * np.maximum(values, FLATTEST)) @ vectors.T, exact=False)


@dataclass(frozen=True, eq=False)
class Program:
    """The program but for b: that may change while the rest stays."""

    metric: Metric
    cost: FloatArray  # c
    rows: FloatArray  # A

    def solved(self, room: FloatArray, near: Iterable[int]) -> Step | None:
        """Return the solution for b; the nearer the rows that bind are to these, the sooner. None if none was found."""
        rows = list(near)
        step = self._bound(room, rows) if len(rows) <= len(self.cost) else None  # mostly the same rows bind again
        return step if step and self._optimal(step, room) else self.searched(room, rows)

    def _bound(self, room: FloatArray, binding: list[int]) -> Step | None:
        """Return the solution where these rows bind: of a system of equations."""
        n, k = len(self.cost), len(binding)
        system = np.zeros((n + k, n + k))  # [B A'], [A 0]
        bound = self.rows.take(binding, 0)
        system[:n, :n], system[n:, :n], system[:n, n:] = self.metric.bend, bound, bound.T
        try:
            solution = np.linalg.solve(system, np.concatenate([-self.cost, room.take(binding)]))
        except np.linalg.LinAlgError:
            return None
        return Step(solution[:n], dict(zip(binding, solution[n:].tolist(), strict=True)))

    def _optimal(self, step: Step, room: FloatArray) -> bool:
        """Whether no multiplier is negative and no row exceeded; the equations hold as well as they were solved."""
        if step.binding and not min(step.binding.values()) >= 0:
            return False
        ways = (self.rows @ step.d).tolist()  # plain numbers, as in Gram
        largest = 1 + max(map(abs, ways))
        return all(way - has <= EXACT * largest for way, has in zip(ways, room.tolist(), strict=True))

    @cached_property
    def _dual(self) -> tuple[FloatArray, FloatArray, Gram] | None:
        """-B^-1 c, A B^-1 and the gram matrix; None where B is too large in part to be inverted."""
        try:
            inverse = np.linalg.inv(self.metric.bend)
        except np.linalg.LinAlgError:
            return None
        lean = self.rows @ inverse
        return -(inverse @ self.cost), lean, Gram(lean, self.rows)

    def searched(self, room: FloatArray, near: Iterable[int]) -> Step | None:
        """Return the same by the dual method at once: for rows that did not bind before, and are a mere guess."""
        if self._dual is None:
            return None
        alone, lean, gram = self._dual
        need = (self.rows @ alone - room).tolist()
        if not math.isfinite(sum(need)):  # so it is if anything else is not
            return None
        mu = _multipliers(gram, need, near, len(self.cost))
        if mu is None:  # rows that nearly depend on each other, from the start, can spoil the inverse
            mu = _multipliers(gram, need, (), len(self.cost))
        if mu is None:
            return None
        if max(need) > LARGE:  # the detour by B^-1 c has large numbers, which would be rounded
            return self._bound(room, list(mu))
        return Step(alone - np.array(list(mu.values())) @ lean.take(list(mu), 0), mu)


class Gram(dict[int, list[float]]):
    """Rows of A B^-1 A', as they are asked for; plain numbers: they are so few that calls of NumPy would cost more."""

    def __init__(self, lean: FloatArray, rows: FloatArray) -> None:
        super().__init__()
        self._lean, self._rows = lean, rows

    def __missing__(self, k: int) -> list[float]:
        row: list[float] = (self._lean @ self._rows[k]).tolist()
        self[k] = row
        return row


class _Active:
    """Rows that bind, and the inverse of their part of the gram matrix: it grows and shrinks with them."""

    def __init__(self, gram: Gram, variables: int) -> None:
        self.gram, self.variables, self.rows, self.inverse = gram, variables, list[int](), list[list[float]]()

    def explained(self, k: int) -> tuple[list[float], float]:
        """Return by how much the multipliers fall, and the excess of row k, when that of row k rises by 1.

        The latter is 0 for a row that depends on these: one more than there are variables always does.
        """
        own = self.gram[k]
        falls = self.times(own)
        alone = own[k] - sum(own[j] * fall for j, fall in zip(self.rows, falls, strict=True))
        return falls, alone if alone > RIDGE * own[k] and len(self.rows) < self.variables else 0.0

    def add(self, k: int, falls: list[float], alone: float) -> None:
        """Let a row bind that the others do not explain."""
        last = [-fall / alone for fall in falls]
        for row, fall, end in zip(self.inverse, falls, last, strict=True):
            row[:] = [x - fall * y for x, y in zip(row, last, strict=True)]
            row.append(end)
        self.inverse.append([*last, 1 / alone])
        self.rows.append(k)

    def remove(self, place: int) -> None:
        """Let a row go."""
        gone = self.inverse.pop(place)
        own = gone.pop(place) or math.nan  # 0 where rounding has spoiled it: seen by who asks for the excess
        for row in self.inverse:
            share = row.pop(place) / own
            row[:] = [x - share * y for x, y in zip(row, gone, strict=True)]
        del self.rows[place]

    def bound(self, need: list[float]) -> list[float]:
        """Return the multipliers, where these rows bind; let those go whose multipliers would be negative."""
        while True:
            mu = self.times(need)
            if not mu or not (least := min(mu)) < 0:
                return mu
            self.remove(mu.index(least))

    def times(self, x: list[float]) -> list[float]:
        """Return the inverse times x, which has a number for every row."""
        bound = [x[k] for k in self.rows]
        return [sum(map(mul, row, bound)) for row in self.inverse]

    def excess(self, need: list[float], mu: list[float]) -> list[float]:
        """Return what every row exceeds its room by."""
        excess = list(need)
        for k, value in zip(self.rows, mu, strict=True):
            excess = [left - value * by for left, by in zip(excess, self.gram[k], strict=True)]
        return excess


def _multipliers(gram: Gram, need: list[float], near: Iterable[int], variables: int) -> dict[int, float] | None:
    """Return the rows that bind and their multipliers; None if rounding spoils them, or after too many changes."""
    active, hopeless, largest = _Active(gram, variables), set[int](), 1 + max(0.0, *need)
    for k in near:
        falls, alone = active.explained(k)
        if alone > 0:
            active.add(k, falls, alone)
    for _ in range(CHANGES):
        mu = active.bound(need)
        excess = active.excess(need, mu)
        if any(abs(excess[k]) > ROUNDED * largest for k in active.rows):
            mu = [value + more for value, more in zip(mu, active.times(excess), strict=True)]
            excess = active.excess(need, mu)
        for k in hopeless:
            excess[k] = -math.inf
        most = max(excess)
        entering = excess.index(most)
        if most <= (BROKEN if entering in active.rows else EXACT) * largest:
            return dict(zip(active.rows, mu, strict=True))
        if entering in active.rows:
            break
        if not _entered(active, mu, entering, most):
            hopeless.add(entering)
    return None


def _entered(active: _Active, mu: list[float], entering: int, excess: float) -> bool:
    """Raise the multiplier of a row until nothing of its excess is left; return whether that comes."""
    while True:
        falls, alone = active.explained(entering)
        ends = [value / fall if fall > 0 else math.inf for value, fall in zip(mu, falls, strict=True)]
        rise = min(ends, default=math.inf)
        if alone > 0 and excess / alone <= rise:
            active.add(entering, falls, alone)
            return True
        if not rise < math.inf:
            return False
        first = ends.index(rise)
        active.remove(first)
        mu = [value - rise * fall for value, fall in zip(mu, falls, strict=True)]
        del mu[first]
        excess -= rise * alone
