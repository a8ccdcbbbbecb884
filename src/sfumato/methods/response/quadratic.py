"""Small convex quadratic programs: a few variables, a few dozen rows.

    minimise  c'd + d'Bd/2  where  A d <= b

With multipliers mu >= 0 of the rows, d = -B^-1 (c + A'mu), and mu_k > 0 only where row k binds. So

    need - gram mu <= 0,  mu >= 0,  and one of both is 0        gram = A B^-1 A',  need = -(b + A B^-1 c)

a linear complementarity problem, solved by principal pivoting. Which rows bind changes little from one program to the
next of a search: mostly it is found by a few linear systems, each with a row more or less than the last.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.matrix import FloatArray

FLATTEST = 1e-2
"""The least eigenvalue of B."""

ROUNDS = 60
"""How often a row may come to bind."""

SLACK = 1e-12
"""The excess that is none."""

EXACT = 1e-11
"""By how much a solution may exceed a row."""

TRIES = 6
"""How many sets of rows are tried one after the other."""

RIDGE = 1e-9
"""Added to the unit diagonal, since rows may depend on each other: what each leaves open."""

BoolArray = npt.NDArray[np.bool_]


class Tangent(NamedTuple):
    """The quadratic program at a point: minimise cost'd + d'bend d/2 where rows d <= room."""

    bend: FloatArray
    cost: FloatArray
    rows: FloatArray  # of the upper bounds first, then of the cells
    room: FloatArray


class Step(NamedTuple):
    """Its solution."""

    d: FloatArray
    active: list[int]  # the rows that bind
    multipliers: FloatArray  # of all rows


def solved(tangent: Tangent, active: list[int]) -> Step | None:
    """Return the solution; the nearer the rows that bind are to these, the sooner. None also for what is not finite."""
    if not all(np.isfinite(part).all() for part in tangent):
        return None
    if _definite(tangent.bend):
        for _ in range(TRIES):
            step = where_these_bind(tangent, active)
            if step is None:
                break
            other = _better(tangent, step)
            if other == active:
                return step
            active = other
    return _pivoted(tangent, active)


def _better(tangent: Tangent, step: Step) -> list[int]:
    """Return the rows that bind less the one with the most negative multiplier, or else with the one most exceeded."""
    least = int(step.multipliers.argmin())
    if step.multipliers[least] < 0:
        return [k for k in step.active if k != least]
    excess = tangent.rows @ step.d - tangent.room
    most = int(excess.argmax())
    return step.active if excess[most] <= EXACT else [*step.active, most]


def _definite(bend: FloatArray) -> bool:
    """Whether a point where the gradient vanishes is a minimum."""
    try:
        np.linalg.cholesky(bend)
    except np.linalg.LinAlgError:
        return False
    return True


def _pivoted(tangent: Tangent, active: list[int]) -> Step | None:
    """Return the solution with eigenvalues of B that are not below the least, by principal pivoting."""
    values, vectors = np.linalg.eigh(tangent.bend)
    inverse = (vectors / np.maximum(values, FLATTEST)) @ vectors.T
    lean = tangent.rows @ inverse
    need = -(tangent.room + lean @ tangent.cost)
    pivoted = _complementary(lean @ tangent.rows.T, need, active)
    if pivoted is None:
        return None
    active, multipliers = pivoted
    if values[0] >= FLATTEST:
        exact = where_these_bind(tangent, active)
        if exact is not None and _better(tangent, exact) == active:
            return exact
    return Step(-(inverse @ tangent.cost + multipliers @ lean), active, multipliers)


def _complementary(gram: FloatArray, need: FloatArray, active: list[int]) -> tuple[list[int], FloatArray] | None:
    """Return the rows that bind, and mu >= 0 with need - gram mu <= 0, which is 0 where mu is positive.

    Each round lets the row with the largest excess bind. That lowers mu'gram mu/2 - mu'need, so none comes twice.
    """
    scale = 1 / np.sqrt(np.maximum(gram.diagonal(), SLACK))  # rows differ by orders of magnitude, and may vanish
    table = np.column_stack([gram * scale * scale[:, None], need * scale])
    table.flat[:: len(need) + 2] += RIDGE
    inside = np.zeros(len(need), dtype=np.bool_)
    for k in active:
        _exchange(table, inside, k)
    while (kept := np.where(inside, table[:, -1], 0.0)).min() < 0:
        _exchange(table, inside, int(kept.argmin()))
    slack = SLACK * (1 + float(np.abs(need * scale).max()))
    for _ in range(ROUNDS):
        excess = np.where(inside, -np.inf, table[:, -1])
        k = int(excess.argmax())
        if excess[k] <= slack:
            return np.flatnonzero(inside).tolist(), np.where(inside, table[:, -1] * scale, 0.0)
        _enter(table, inside, k)
    return None


def _enter(table: FloatArray, inside: BoolArray, k: int) -> None:
    """Raise mu_k until nothing of its excess is left; a multiplier that falls to 0 on the way is let go."""
    while True:
        column, values = table[:, k], table[:, -1]
        limits = np.full(len(values), np.inf)
        np.divide(values, column, out=limits, where=inside & (column > 0))
        first = int(limits.argmin())
        if not limits[first] < values[k] / column[k]:
            return _exchange(table, inside, k)
        _exchange(table, inside, first)


def _exchange(table: FloatArray, inside: BoolArray, k: int) -> None:
    """Pivot: of mu_k and the excess of row k, what was given becomes what is computed."""
    pivot, row, column = table[k, k], table[k] / table[k, k], table[:, k].copy()
    table -= column[:, None] * row
    table[k], table[:, k], table[k, k] = row, column / -pivot, 1 / pivot
    inside[k] = not inside[k]


def where_these_bind(tangent: Tangent, active: list[int]) -> Step | None:
    """Return the solution where these rows bind."""
    n, k = len(tangent.cost), len(active)
    system = np.zeros((n + k, n + k + 1))  # [B A' | -c], [A 0 | b]
    system[:n, :n], system[:n, -1] = tangent.bend, -tangent.cost
    if active:
        system[n:, :n], system[n:, -1] = tangent.rows[active], tangent.room[active]
        system[:n, n:-1] = system[n:, :n].T
    try:
        solution = np.linalg.solve(system[:, :-1], system[:, -1]).astype(np.float64, copy=False)
    except np.linalg.LinAlgError:
        return None
    multipliers = np.zeros(len(tangent.room))
    multipliers[active] = solution[n:]
    return Step(solution[:n], active, multipliers)
