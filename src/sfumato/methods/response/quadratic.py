"""Small convex quadratic programs: a few variables, a few dozen rows.

    minimise  c'd + d'Bd/2  where  A d <= b

With multipliers mu >= 0 of the rows, d = -B^-1 (c + A'mu), and mu_k > 0 only where row k binds. So

    need - gram mu <= 0,  mu >= 0,  and one of both is 0        gram = A B^-1 A',  need = -(b + A B^-1 c)

a linear complementarity problem. Which rows bind changes little from one program to the next of a search: mostly it is
found by a few linear systems, each with a row more or less than the last, and else by principal pivoting.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.matrix import FloatArray

FLATTEST = 1e-2
"""The least eigenvalue that B is given if it is not positive definite."""

ROUNDS = 60
"""How often a row may come to bind."""

SLACK = 1e-12
"""The excess that is none."""

EXACT = 1e-11
"""By how much a solution may exceed a row."""

TRIES = 6
"""How many sets of rows are tried one after the other."""

DEPENDENT = 1e-11
"""The share of a row that others must not explain but for."""

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
    exact: bool  # whether B was taken as it is


class _Dual(NamedTuple):
    """What is left of a program without its variables."""

    inverse: FloatArray  # B^-1
    lean: FloatArray  # A B^-1
    gram: FloatArray  # A B^-1 A'
    exact: bool

    @classmethod
    def of(cls, tangent: Tangent) -> _Dual:
        """Return it for B, or for B with its least eigenvalues raised if it is not positive definite."""
        values, vectors = np.linalg.eigh(tangent.bend)
        exact = bool(values[0] > 0)
        inverse = (vectors / (values if exact else np.maximum(values, FLATTEST))) @ vectors.T
        lean = tangent.rows @ inverse
        return cls(inverse, lean, lean @ tangent.rows.T, exact)


def solved(tangent: Tangent, active: list[int]) -> Step | None:
    """Return the solution; the nearer the rows that bind are to these, the sooner."""
    if not math.isfinite(tangent.bend.sum()):
        return None
    dual = _Dual.of(tangent)
    need = -(tangent.room + dual.lean @ tangent.cost)
    if not math.isfinite(need.sum() + dual.gram.sum()):
        return None
    found = _tried(dual.gram, need, active) or _complementary(dual.gram, need, active)
    if found is None:
        return None
    active, multipliers = found
    return Step(-(dual.inverse @ tangent.cost + multipliers @ dual.lean), active, multipliers, dual.exact)


def _tried(gram: FloatArray, need: FloatArray, active: list[int]) -> tuple[list[int], FloatArray] | None:
    """Let the row with the most negative multiplier go, or else let the one bind that is most exceeded.

    In plain numbers: there are so few that every call of NumPy would cost more.
    """
    products, needs = gram.tolist(), need.tolist()
    for _ in range(TRIES):
        multipliers = _multipliers(products, needs, active)
        if multipliers is None:
            return None
        if active and (least := min(multipliers)) < 0:
            active = [k for k, mu in zip(active, multipliers, strict=True) if mu > least]
            continue
        excess = needs
        for k, mu in zip(active, multipliers, strict=True):
            excess = [left - mu * by for left, by in zip(excess, products[k], strict=True)]
        if max(excess) <= EXACT:
            found = np.zeros(len(needs))
            found[active] = multipliers
            return active, found
        active = [*active, excess.index(max(excess))]
    return None


def _multipliers(gram: list[list[float]], need: list[float], active: list[int]) -> list[float] | None:
    """Return the multipliers with which these rows bind, by elimination; None if they depend on each other."""
    system = [[gram[k][j] for j in active] + [need[k]] for k in active]
    for k, row in enumerate(system):
        if not row[k] > DEPENDENT * gram[active[k]][active[k]]:
            return None
        for other in system[k + 1 :]:
            share = other[k] / row[k]
            other[k:] = [y - share * x for x, y in zip(row[k:], other[k:], strict=True)]
    found: list[float] = []
    for k in reversed(range(len(active))):
        row = system[k]
        known = sum(x * mu for x, mu in zip(row[k + 1 : -1], found, strict=True))
        found.insert(0, (row[-1] - known) / row[k])
    return found


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
        if limits[first] >= values[k] / column[k]:
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
    return Step(solution[:n], active, multipliers, True)
