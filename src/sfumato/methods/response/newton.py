"""A lean way to the optimum: sequential quadratic programming on a few cells, with a certificate.

In x = log r, let rho_c(x) be the ratio of the risk of cell c to its limit, and f(x) = log(objective). With little noise
a risk falls about like 1/(1 + M noise): 1/rho is nearly linear, so the limits 1/rho_c >= 1 are linearized as

    d . grad log(rho_c) <= 1 - rho_c

A step d minimises f'd + d'Bd/2 under these and x + d <= 0. B is the second derivative of the Lagrangian
f + sum_c mu_c log(rho_c) where that is at hand (see `few`), and else its damped BFGS estimate. (At rho = 1 the two ways
to write a limit differ by a multiple of grad grad' only, which no step along the limit feels.)

At first the worst cell is taken to bind, with the multiplier of least squares. After a long step the cells that bind
stay, and the worst at the new point join.

Steps end when d'Bd, about twice what is left to be gained, is below a tolerance: the conditions of Karush, Kuhn and
Tucker then hold but for B d. That step is still taken. What it leaves above a limit is mended with the same derivatives
on the integers that are sampled, where every cell of the table is evaluated. If any of this fails there is no result,
and the caller has to search by other means.
"""

from __future__ import annotations

import math

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.few import Few, View, largest
from sfumato.methods.response.objectives import Kappa, kappa_slopes
from sfumato.methods.response.problem import NOTHING, Problem
from sfumato.methods.response.quadratic import FLATTEST, BoolArray, Step, Tangent, solved, where_these_bind
from sfumato.methods.response.risks import Risk

HIGHEST = -1e-9
"""The highest log-retention tried: at r = 1 itself gradients are 0/0 where a cell is empty."""

UNTOUCHED = 1e-7
"""An attribute that would lose less than this of its retention is left as it is."""

FIRST = 0.6
"""The noise, -log r of all attributes, of the first point that is looked at; it tells where to start."""

STEPS = 30
"""Steps after which the search gives up. It takes 5 to 8, or 8 to 20 without second derivatives."""

LONGEST = 1.0
"""No log-retention moves by more than this in a step."""

LONG = 0.15
"""After a step of this length other cells may be the worst."""

CELLS = 12
"""How many of the worst cells join at a time, where each of them costs something."""

CELLS_ANYWAY = 24
"""The same where all cells are evaluated in any case; then none leaves, either: estimates of B suffer from that."""

WORTH = 0.3
"""The ratio from which on a cell is worth it."""

CLOSE = 1e-10
"""What is left to be gained, twice, before the last step; as a share of the objective."""

CLOSE_ESTIMATED = 1e-14
"""The same where B is an estimate, and may be far too large."""

TURNING = 5e-3
"""After a step of this length B is another."""

NEAR = 1e-4
"""The excess of a ratio that is left to mending."""

MENDINGS = 4
"""How often they are tried."""

SPARED = 2e-11
"""The share of the objective that aiming below 1 may cost, so that the last step seldom has to be mended."""

MISSED = 1 + 1e-9
"""From this ratio on a cell has to join."""

SHORT = 1e-5
"""Steps below this tell nothing of second derivatives."""


def optimum(given: Problem, untouched: float) -> Risk | None:
    """Return the risk, on sampled integers, at a point within the limits that meets the conditions of an optimum.

    `untouched` is the largest ratio without any noise, above 1. None if no such point was found.
    """
    search = _started(Few(given), untouched) if given.free else None
    if search is None:
        return None
    for _ in range(STEPS):
        found = search.step()
        if not isinstance(found, bool):
            return found
        if not found:
            break
    return None


def _started(few: Few, untouched: float) -> _Search | None:
    """Start where 1/rho would reach 1 if it were linear in the same noise for all; None if it is never reached."""
    same = np.ones(len(few.given.free))
    cells, ratio = few.worst(-FIRST * same, CELLS)
    first = float(ratio.max())
    if first > 1 and few.largest(NOTHING * same) > 1 and few.given.least_without_retention:
        return None
    gained, needed = 1 / first - 1 / untouched, 1 - 1 / untouched
    share = needed / gained if gained > 0 else 1.0
    x = -FIRST * min(max(share, 0.03), 10.0) * same
    if not few.prepared:
        cells, ratio = few.worst(x, CELLS_ANYWAY)
    return _Search(few, x, cells[ratio > WORTH * ratio.max()])


class _Search:
    """Where the steps are, and what they know."""

    def __init__(self, few: Few, x: FloatArray, cells: IntArray) -> None:
        self.given, self.few, self.x, self.cells = few.given, few, x, cells
        self.look, self.weights = few.at(cells), np.zeros(len(cells))  # the multipliers of the last step
        self.bounds, self.active, self.longest = np.eye(len(x)), list[int](), LONGEST
        self.sizes = np.array([float(self.given.table.sizes[k]) for k in self.given.free])
        self.bend: FloatArray | None = None
        self.before: tuple[FloatArray, FloatArray] | None = None  # x, and the gradient of the Lagrangian

    def step(self) -> Risk | bool:
        """Return the result; or whether there may be one."""
        view, n = self.look(self.x), len(self.x)
        bend, cost, close = self._bent(view)
        room = np.concatenate([HIGHEST - self.x, self._aim() - view.ratio])
        tangent = Tangent(bend, cost, np.concatenate([self.bounds, view.slope]), room)
        step = solved(tangent, self.active)
        if step is None:
            return False
        left = max(step.d @ bend @ step.d, FLATTEST * (step.d @ step.d))  # B alone may be indefinite
        if not math.isfinite(left):
            return False
        if left <= close and view.ratio.max() <= 1 + NEAR:
            return self._mend(tangent, step)
        self.active, self.weights = step.active, step.multipliers[n:]
        self.before = self.x, cost + self.weights @ view.slope
        self.longest = float(np.abs(step.d).max())
        self.x = np.minimum(self.x + step.d * min(1.0, LONGEST / self.longest), HIGHEST)
        if self.longest > LONG:
            self._renew()
        return True

    def _renew(self) -> None:
        """Let the worst cells join, and those leave that do not bind."""
        prepared = self.few.prepared
        cells, ratio = self.few.worst(self.x, CELLS if prepared else CELLS_ANYWAY)
        self._watch(self.weights > (0 if prepared else -1), cells[ratio > WORTH])

    def _bent(self, view: View) -> tuple[FloatArray, FloatArray, float]:
        """Return B, renewed, the gradient of f, and what d'Bd is when steps may end."""
        cost, curvature = kappa_slopes(self.sizes, self.x)
        if view.bend is not None and isinstance(self.given.objective, Kappa):
            if not self.active:
                self._guess(cost, view)
            if self.bend is None or self.longest > TURNING:
                self.bend = view.bend(self.weights)
                self.bend.flat[:: len(cost) + 1] += curvature
            return self.bend, cost, CLOSE
        cost = self.given.cost_slope(self.x)
        if self.bend is None:
            self.bend = np.diag(np.maximum(curvature, FLATTEST))
        if self.before is not None:
            x, slope = self.before
            self.bend = _updated(self.bend, self.x - x, cost + self.weights @ view.slope - slope)
        return self.bend, cost, CLOSE_ESTIMATED

    def _aim(self) -> float:
        """Return what the ratios are aimed at: 1, less the margin for rounding and what the multipliers allow."""
        return 2 - self.given.margin - SPARED / (1 + float(self.weights.sum()))

    def _guess(self, cost: FloatArray, view: View) -> None:
        """At first the worst cell binds, with the multiplier that leaves least of the gradient of the Lagrangian."""
        worst = int(view.ratio.argmax())
        slope = view.slope[worst]
        self.weights[worst] = max(0.0, -(cost @ slope) / (slope @ slope))
        self.active = [len(cost) + worst]

    def _watch(self, kept: BoolArray, cells: IntArray) -> None:
        """From now on look at the cells that are kept and at these."""
        old, n = self.cells[kept], len(self.x)
        places = dict(zip(np.flatnonzero(kept).tolist(), range(n, n + len(old)), strict=True))
        self.active = [k if k < n else places[k - n] for k in self.active if k < n or k - n in places]
        known = set(old.tolist())
        new = np.array([cell for cell in cells.tolist() if cell not in known], dtype=np.int64)
        self.cells = np.concatenate([old, new])
        self.weights = np.concatenate([self.weights[kept], np.zeros(len(new))])
        self.look = self.few.at(self.cells)

    def _mend(self, tangent: Tangent, step: Step) -> Risk | bool:
        """Go the last step, on integers, and correct what it leaves above the limits of the binding cells."""
        x, n, last = self.x, len(self.x), step
        for _ in range(MENDINGS):
            x = np.minimum(x + last.d, 0.0)
            x[x > -UNTOUCHED] = 0.0
            point = self.given.sampled(x)
            ratio = self.given.ratio(point)
            if self.given.kept_by(ratio):
                return point
            missed = np.flatnonzero(ratio > MISSED)
            if not set(missed.tolist()) <= set(self.cells.tolist()):
                self.before, self.longest = None, LONGEST
                self._watch(self.weights >= 0, missed[largest(ratio[missed], CELLS_ANYWAY)[0]])
                return True
            room = np.concatenate([np.zeros(n), self._aim() - ratio[self.cells]])
            mended = where_these_bind(Tangent(tangent.bend, np.zeros(n), tangent.rows, room), step.active)
            if mended is None:
                break
            last = mended
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
