"""A lean way to the optimum: sequential quadratic programming on a few cells, with a certificate.

In x = log r, let rho_c(x) be the ratio of the risk of cell c to its limit, and f(x) = log(objective). With little noise
the risk of a cell falls about like 1/(1 + M noise): 1/rho is nearly linear, so that the limits are written and
linearized as

    1/rho_c(x) >= 1                d . grad log(rho_c) <= 1 - rho_c

A step d minimises f'd + d'Bd/2 under these and x + d <= 0, where B is the damped BFGS estimate of the second derivative
of the Lagrangian. With the multipliers mu >= 0 of the rows A d <= b this is d = -B^-1 (f' + A'mu), and

    mu minimises  mu'(A B^-1 A')mu/2 + mu'(b + A B^-1 f')        by Lawson and Hanson's exchange of active rows.

Steps end when d'Bd, twice what is left to be gained, is below a tolerance: then the conditions of Karush, Kuhn and
Tucker hold but for B d. What the last step leaves above a limit is mended with the same derivatives, on the integers
that are sampled, where every cell of the table is evaluated. If any of this fails there is no result, and the caller
has to search by other means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.few import few
from sfumato.methods.response.problem import Problem
from sfumato.methods.response.risks import Risk

HIGHEST = -1e-9
"""The highest log-retention tried: at r = 1 itself gradients are 0/0 where a cell is empty."""

UNTOUCHED = 1e-7
"""An attribute that would lose less than this of its retention is left as it is."""

FIRST = 0.3
"""The noise, -log r of all attributes, of the first point that is looked at; it tells where to start."""

STEPS = 25
"""Steps after which the search gives up; it takes 5 to 12."""

LONGEST = 1.0
"""No attribute's log-retention moves by more than this in a step."""

CELLS = 16
"""How many of the worst cells join at a time."""

CLOSE = 1e-11
"""What is left to be gained, twice, when steps end."""

NEAR = 1e-4
"""The excess of a ratio that the last steps can mend."""

MENDINGS = 4
"""How often they try."""

TIGHT = 1e-12
"""How far below 1 the ratios are aimed at, so that rounding to integers does not exceed it."""

SHORT = 1e-5
"""Steps from which on derivatives differ enough for a second derivative."""


class Step(NamedTuple):
    """The solution of a quadratic program."""

    d: FloatArray
    active: list[int]  # the rows that bind
    multipliers: FloatArray  # of all rows


def optimum(given: Problem, untouched: float) -> Risk | None:
    """Return the risk, on sampled integers, at a point within the limits that meets the conditions of an optimum.

    `untouched` is the largest ratio without any noise, above 1. None if no such point was found.
    """
    x = _start(given, untouched)
    return None if x is None else _descended(given, x)


def _start(given: Problem, untouched: float) -> FloatArray | None:
    """Return where 1/rho would reach 1 if it were linear in the same noise for all attributes."""
    first = given.largest(np.full(len(given.free), -FIRST))
    if first >= untouched:
        return None
    noise = FIRST * (1 - 1 / untouched) / (1 / first - 1 / untouched)
    return np.full(len(given.free), -min(max(noise, 0.01), 3.0))


EV = [0, 0, 0]


def _descended(given: Problem, x: FloatArray) -> Risk | None:
    bend, bounds = np.diag(given.curvature(x)), np.eye(len(x))
    cells, active, before = _worst(given.ratio(given.at(x)), 0.0), list[int](), None
    look = few(given, cells)
    aim = 2 - given.margin - TIGHT
    for _ in range(STEPS):
        EV[0] += 1
        cost = given.cost_slope(x)
        ratio, slope = look(x)
        if before is not None:
            bend = _updated(bend, x - before[0], before[2] @ (slope / ratio[:, None]) + cost - before[1])
        rows, room = np.concatenate([slope, bounds]), np.concatenate([aim - ratio, HIGHEST - x])
        step = _program(bend, cost, rows, room, active)
        if step is None:
            return None
        d, active, multipliers = step
        if d @ bend @ d <= CLOSE and ratio.max() <= 1 + NEAR:
            mended = _mended(given, x, step, bend, rows, cells, aim)
            if isinstance(mended, Risk):
                return mended
            if mended is None:
                return None
            new = mended
            EV[2] += 1
            active = [k + len(new) * (k >= len(cells)) for k in active]
            cells, before = np.concatenate([cells, new]), None
            look = few(given, cells)
            continue
        pull = multipliers[: len(cells)]
        before = x, cost + pull @ slope, pull * ratio
        x = np.minimum(x + d * min(1.0, LONGEST / np.abs(d).max()), HIGHEST)
    return None


def _mended(given, x, step, bend, rows, cells, aim) -> Risk | IntArray | None:
    """Return the exact point; or cells that are missing; or None."""
    active = np.array(step.active, dtype=np.int64)
    own = active[active < len(cells)]
    d, nothing = step.d, np.zeros(len(x))
    for _ in range(MENDINGS):
        EV[1] += 1
        x = np.minimum(x + d, HIGHEST)
        x = np.where(x > -UNTOUCHED, 0.0, x)
        point = given.sampled(x)
        ratio = given.ratio(point)
        if ratio.max() * given.margin <= 1:
            return point
        new = np.setdiff1d(_worst(ratio, 1 + 1e-9), cells)
        if new.size:
            return new
        room = np.zeros(len(rows))
        room[own] = aim - ratio[cells[own]]
        found = _tight(bend, nothing, rows[active], room[active])
        if found is None:
            return None
        d = found[: len(x)]
    return None


def _worst(ratio: FloatArray, above: float) -> IntArray:
    """Return the cells with the largest ratios, as far as these are above a level."""
    cells = np.argpartition(ratio, -CELLS)[-CELLS:] if ratio.size > CELLS else np.arange(ratio.size)
    return cells[ratio[cells] > above]


def _updated(bend: FloatArray, step: FloatArray, turn: FloatArray) -> FloatArray:
    """Damped BFGS."""
    if np.abs(step).max() <= SHORT:
        return bend
    old = bend @ step
    length, found = step @ old, step @ turn
    theta = 1.0 if found >= 0.2 * length else 0.8 * length / (length - found)
    y = theta * turn + (1 - theta) * old
    return bend - np.outer(old, old / length) + np.outer(y, y / (y @ step))


# --- a quadratic program ----------------------------------------------------------------------------------------------


def _program(
    bend: FloatArray, cost: FloatArray, rows: FloatArray, room: FloatArray, active: list[int]
) -> Step | None:
    """Return the d that minimises cost'd + d'Bd/2 where rows d <= room."""
    inverse = np.linalg.inv(bend)
    lean = rows @ inverse
    gram, need = lean @ rows.T, -(room + lean @ cost)
    gram.flat[:: len(gram) + 1] *= 1 + 1e-12  # rows may depend on each other
    found = _multipliers(gram, need, active)
    if found is None:
        return None
    active, multipliers = found
    exact = _tight(bend, cost, rows[active], room[active])
    n = len(cost)
    if exact is None or (exact[n:] < 0).any():
        return Step(-(inverse @ cost + lean.T @ multipliers), active, multipliers)
    multipliers[active] = exact[n:]
    return Step(exact[:n], active, multipliers)


def _multipliers(gram: FloatArray, need: FloatArray, active: list[int]) -> tuple[list[int], FloatArray] | None:
    """Return the mu >= 0 that minimises mu' gram mu/2 - mu' need, and where it is positive."""
    mu = np.zeros(len(need))
    chosen = list(active)
    if chosen:
        m = np.linalg.solve(gram[np.ix_(chosen, chosen)], need[chosen])
        if m.min() > 0:
            mu[chosen] = m
        else:
            chosen = []
    slack = 1e-12 * (1 + np.abs(need).max())
    for _ in range(3 * len(need)):
        excess = need - gram @ mu
        excess[chosen] = -np.inf
        k = int(excess.argmax())
        if excess[k] <= slack:
            return chosen, mu
        chosen.append(k)
        m = np.linalg.solve(gram[np.ix_(chosen, chosen)], need[chosen])
        while m.min() <= 0:
            now = mu[chosen]
            part = np.where(m <= 0, now / np.maximum(now - m, 1e-300), np.inf)
            drop = int(part.argmin())
            mu[chosen] = now + part[drop] * (m - now)
            mu[chosen[drop]] = 0
            if chosen.pop(drop) == k:
                return None
            m = np.linalg.solve(gram[np.ix_(chosen, chosen)], need[chosen])
        mu[chosen] = m
        if m.max() > 1e8:
            return None
    return None


def _tight(bend: FloatArray, cost: FloatArray, rows: FloatArray, room: FloatArray) -> FloatArray | None:
    """Return d and the multipliers where all rows bind."""
    n, size = len(cost), len(cost) + len(rows)
    system = np.zeros((size, size))
    system[:n, :n], system[:n, n:], system[n:, :n] = bend, rows.T, rows
    try:
        return np.linalg.solve(system, np.concatenate([-cost, room]))
    except np.linalg.LinAlgError:
        return None
