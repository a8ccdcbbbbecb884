"""A lean way to the optimum: sequential quadratic programming on a few cells, with a certificate.

In x = log r, let rho_c(x) be the ratio of the risk of cell c to its limit, and f(x) = log(objective). With little noise
a risk falls about like 1/(1 + M noise): 1/rho is nearly linear, so the limits 1/rho_c >= 1 are linearized as

    d . grad log(rho_c) <= 1 - rho_c

A step d minimises f'd + d'Bd/2 under these and x + d <= 0. B is the second derivative of f + sum_c mu_c log(rho_c) where
that is at hand, and else its damped BFGS estimate. With multipliers mu >= 0 of the rows A d <= b, d = -B^-1 (f' + A'mu)
and mu'(b - A d) = 0: a linear complementarity problem, solved by principal pivoting.

Steps end when d'Bd, about twice what is left to be gained, is below a tolerance: the conditions of Karush, Kuhn and
Tucker then hold but for B d. What is left above a limit is mended with the same derivatives on the integers that are
sampled, where every cell of the table is evaluated. If any of this fails there is no result, and the caller has to
search by other means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.few import Few, View
from sfumato.methods.response.objectives import Kappa
from sfumato.methods.response.problem import Problem
from sfumato.methods.response.risks import Risk

HIGHEST = -1e-9
"""The highest log-retention tried: at r = 1 itself gradients are 0/0 where a cell is empty."""

UNTOUCHED = 1e-7
"""An attribute that would lose less than this of its retention is left as it is."""

FIRST = 0.3
"""The noise, -log r of all attributes, of the first point that is looked at; it tells where to start."""

STEPS = 30
"""Steps after which the search gives up. It takes 5 to 8, or 8 to 20 without second derivatives."""

LONGEST = 1.0
"""No log-retention moves by more than this in a step."""

LONG = 0.1
"""After a step of this length other cells may be the worst."""

CELLS = 16
"""How many of the worst cells join at a time."""

CLOSE = 1e-11
"""What is left to be gained, twice, when steps end; as a share of the objective."""

NEAR = 1e-4
"""The excess of a ratio that is left to mending."""

MENDINGS = 4

AIM = 1 - 1e-12
"""The ratio that is aimed at, so that rounding to integers does not exceed 1."""

MISSED = 1 + 1e-9
"""From this ratio on a cell has to join."""

SHORT = 1e-5
"""Steps below this tell nothing of second derivatives."""

FLATTEST = 1e-2
"""The least eigenvalue of B."""

PIVOTS = 60

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


def optimum(given: Problem, untouched: float, first: float) -> Risk | None:
    """Return the risk, on sampled integers, at a point within the limits that meets the conditions of an optimum.

    `untouched` is the largest ratio without any noise, above 1; `first` that where log r = -FIRST for all attributes.
    The search starts where 1/rho would reach 1 if it were linear in between and beyond. None if it finds no such point.
    """
    gain = 1 / first - 1 / untouched
    noise = FIRST * min(max((1 - 1 / untouched) / gain, 0.03), 10.0) if gain > 0 else FIRST
    search = _Search(given, np.full(len(given.free), -noise))
    for _ in range(STEPS):
        found = search.step()
        if not isinstance(found, bool):
            return found
        if not found:
            break
    return None


def _worst(ratio: FloatArray, above: float) -> IntArray:
    """Return the cells with the largest ratios, as far as these are above a level."""
    cells = np.argpartition(ratio, -CELLS)[-CELLS:] if ratio.size > CELLS else np.arange(ratio.size)
    return cells[ratio[cells] > above]


class _Search:
    """Where the steps are, and what they know."""

    def __init__(self, given: Problem, x: FloatArray) -> None:
        self.given, self.x = given, x
        self.few, self.cells = Few(given), _worst(given.ratio(given.at(x)), 0.0)
        self.look = self.few.at(self.cells)
        self.weights = np.zeros(len(self.cells))  # multipliers of the cells, at the last step
        self.active: list[int] = []
        self.bend = np.diag(given.curvature(x))
        self.before: tuple[FloatArray, FloatArray] | None = None  # x, and the gradient of the Lagrangian

    def step(self) -> Risk | bool:
        """Return the result; or whether there may be one."""
        view, cost, n = self.look(self.x), self.given.cost_slope(self.x), len(self.x)
        self.bend = self._bend(view, cost)
        rows, room = np.concatenate([np.eye(n), view.slope]), np.concatenate([HIGHEST - self.x, AIM - view.ratio])
        tangent = Tangent(self.bend, cost, rows, room)
        step = _programmed(tangent, self.active)
        if step is None:
            return False
        if step.d @ self.bend @ step.d <= CLOSE and view.ratio.max() <= 1 + NEAR:
            return self._mend(tangent, step)
        self.active, self.weights = step.active, step.multipliers[n:]
        self.before = self.x, cost + self.weights @ view.slope
        longest = float(np.abs(step.d).max())
        self.x = np.minimum(self.x + step.d * min(1.0, LONGEST / longest), HIGHEST)
        if longest > LONG:
            self._join(self.given.ratio(self.given.at(self.x)), 0.5)
        return True

    def _bend(self, view: View, cost: FloatArray) -> FloatArray:
        if view.bend is not None and isinstance(self.given.objective, Kappa):
            return np.diag(self.given.curvature(self.x)) + view.bend(self.weights)
        if self.before is None:
            return self.bend
        x, slope = self.before
        return _updated(self.bend, self.x - x, cost + self.weights @ view.slope - slope)

    def _join(self, ratio: FloatArray, above: float) -> bool:
        """Let the worst cells join, and return whether there are new ones."""
        new = np.setdiff1d(_worst(ratio, above), self.cells)
        if new.size:
            self.cells = np.concatenate([self.cells, new])
            self.weights = np.concatenate([self.weights, np.zeros(len(new))])
            self.look = self.few.at(self.cells)
        return bool(new.size)

    def _mend(self, tangent: Tangent, step: Step) -> Risk | bool:
        """Go the last step, on integers, and correct what it leaves above the limits of the binding cells."""
        x, n, active = self.x, len(self.x), np.array(step.active, dtype=np.int64)
        binding = self.cells[active[active >= n] - n]
        cost, room = tangent.cost, tangent.room[active]
        for _ in range(MENDINGS):
            d = _tight(Tangent(tangent.bend, cost, tangent.rows[active], room))
            if d is None:
                break
            x = np.minimum(x + d, 0.0)
            x[x > -UNTOUCHED] = 0.0
            point = self.given.sampled(x)
            if self.given.within(point):
                return point
            ratio = self.given.ratio(point)
            if self._join(ratio, MISSED):
                self.before = None
                return True
            cost, room = np.zeros(n), np.zeros(len(active))
            room[active >= n] = AIM - ratio[binding]
        return False


def _updated(bend: FloatArray, step: FloatArray, turn: FloatArray) -> FloatArray:
    """Damped BFGS: the estimate stays positive whatever the turn of the gradient."""
    if np.abs(step).max() <= SHORT:
        return bend
    old = bend @ step
    length, found = step @ old, step @ turn
    share = 1.0 if found >= 0.2 * length else 0.8 * length / (length - found)
    new = share * turn + (1 - share) * old
    return bend - np.outer(old, old / length) + np.outer(new, new / (new @ step))


# --- a quadratic program ----------------------------------------------------------------------------------------------


def _programmed(tangent: Tangent, active: list[int]) -> Step | None:
    """Return the solution, starting with rows that bound last time."""
    values, vectors = np.linalg.eigh(tangent.bend)
    inverse = (vectors / np.maximum(values, FLATTEST)) @ vectors.T
    lean = tangent.rows @ inverse
    need = -(tangent.room + lean @ tangent.cost)
    pivoted = _complementary(lean @ tangent.rows.T, need, active)
    if pivoted is None:
        return None
    active, multipliers = pivoted
    return Step(-(inverse @ tangent.cost + multipliers @ lean), active, multipliers)


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
        row, column = table[k] / pivot, table[:, k] / pivot
        table -= np.outer(table[:, k], row)
        table[k], table[:, k], table[k, k] = row, -column, 1 / pivot
        inside[k] = not inside[k]
    return None


def _tight(tangent: Tangent) -> FloatArray | None:
    """Return the solution where all rows bind."""
    n, size = len(tangent.cost), len(tangent.cost) + len(tangent.rows)
    system = np.zeros((size, size))
    system[:n, :n], system[:n, n:], system[n:, :n] = tangent.bend, tangent.rows.T, tangent.rows
    try:
        d: FloatArray = np.linalg.solve(system, np.concatenate([-tangent.cost, tangent.room]))[:n]
    except np.linalg.LinAlgError:
        return None
    return d
