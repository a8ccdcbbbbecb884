"""Small convex quadratic programs: a few variables, a few dozen rows.

    minimise  c'd + d'Bd/2  where  A d <= b

With multipliers mu >= 0 of the rows, d = -B^-1 (c + A'mu), and mu_k > 0 only where row k binds. So

    need - gram mu <= 0,  mu >= 0,  and one of both is 0        gram = A B^-1 A',  need = -(b + A B^-1 c)

a linear complementarity problem, solved by principal pivoting. Which rows bind seldom changes from one program to the
next of a search: if the same rows solve it again, one linear system is all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.matrix import FloatArray

FLATTEST = 1e-2
"""The least eigenvalue of B."""

PIVOTS = 60

EXACT = 1e-11
"""By how much a solution may exceed a row."""

RIDGE = 1e-9
"""Rows may depend on each other: what each leaves open, as a share."""


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
    """Return the solution; if the rows that bound last time do so again, that is seen at once."""
    again = where_these_bind(tangent, active)
    if again is not None and _solves(tangent, again):
        return again
    values, vectors = np.linalg.eigh(tangent.bend)
    inverse = (vectors / np.maximum(values, FLATTEST)) @ vectors.T
    lean = tangent.rows @ inverse
    need = -(tangent.room + lean @ tangent.cost)
    pivoted = _complementary(lean @ tangent.rows.T, need, active)
    if pivoted is None:
        return None
    active, multipliers = pivoted
    exact = where_these_bind(tangent, active)
    if exact is not None and _solves(tangent, exact):
        return exact
    return Step(-(inverse @ tangent.cost + multipliers @ lean), active, multipliers)


def _solves(tangent: Tangent, step: Step) -> bool:
    """Whether multipliers are positive, no row is exceeded, and the solution is a minimum."""
    if step.multipliers.min() < 0 or (tangent.rows @ step.d - tangent.room).max() > EXACT:
        return False
    try:
        np.linalg.cholesky(tangent.bend)
    except np.linalg.LinAlgError:
        return False
    return True


def _complementary(gram: FloatArray, need: FloatArray, active: list[int]) -> tuple[list[int], FloatArray] | None:
    """Return mu >= 0 with need - gram mu <= 0, and 0 where mu is positive: there a row is active.

    A pivot exchanges mu_k and its excess (need - gram mu)_k. The worst is exchanged first; if that takes long, the
    first that is wrong, which cannot go round in circles (Murty).
    """
    table = np.column_stack([gram, need])
    table.flat[:: len(gram) + 2] *= 1 + RIDGE
    inside = np.zeros(len(need), dtype=np.bool_)
    slack = 1e-12 * (1 + float(np.abs(need).max()))
    for turn in range(-len(active), PIVOTS):
        if turn < 0:
            k = active[turn]
        else:
            wrong = np.where(inside, -table[:, -1], table[:, -1])
            k = int(wrong.argmax() if turn < PIVOTS // 2 else (wrong > slack).argmax())
            if wrong[k] <= slack:
                return np.flatnonzero(inside).tolist(), np.where(inside, table[:, -1], 0.0).clip(0)
        pivot = table[k, k]
        row, column = table[k] / pivot, table[:, k].copy()
        table -= column[:, None] * row
        table[k], table[:, k], table[k, k] = row, column / -pivot, 1 / pivot
        inside[k] = not inside[k]
    return None


def where_these_bind(tangent: Tangent, active: list[int]) -> Step | None:
    """Return the solution where these rows bind."""
    n, rows = len(tangent.cost), tangent.rows[active]
    system = np.zeros((n + len(active), n + len(active)))
    system[:n, :n], system[:n, n:], system[n:, :n] = tangent.bend, rows.T, rows
    try:
        solution = np.linalg.solve(system, np.concatenate([-tangent.cost, tangent.room[active]]))
    except np.linalg.LinAlgError:
        return None
    multipliers = np.zeros(len(tangent.room))
    multipliers[active] = solution[n:]
    return Step(solution[:n], active, multipliers)
