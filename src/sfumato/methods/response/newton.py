"""A lean way to the optimum: sequential quadratic programming on a few cells, with a certificate.

In x = log r, let rho_c(x) be the ratio of the risk of cell c to its limit, and f(x) = log(objective). With little noise
a risk falls about like 1/(1 + M noise): 1/rho is nearly linear, so the limits 1/rho_c >= 1 are linearized as

    d . grad log(rho_c) <= 1 - rho_c

A step d minimises f'd + d'Bd/2 under these and x + d <= 0. B is the second derivative of the Lagrangian
f + sum_c mu_c log(rho_c) where that is at hand (see `few`), and else its damped BFGS estimate. (At rho = 1 the two ways
to write a limit differ by a multiple of grad grad' only, which no step along the limit feels.)

Steps end when d'Bd, about twice what is left to be gained, is below a tolerance: the conditions of Karush, Kuhn and
Tucker then hold but for B d. What is left above a limit is mended with the same derivatives on the integers that are
sampled, where every cell of the table is evaluated. If any of this fails there is no result, and the caller has to
search by other means.
"""

from __future__ import annotations

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.few import Few, View, largest
from sfumato.methods.response.objectives import Kappa, kappa_slopes
from sfumato.methods.response.problem import NOTHING, Problem
from sfumato.methods.response.quadratic import FLATTEST, Step, Tangent, solved, where_these_bind
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

LONG = 0.2
"""After a step of this length other cells may be the worst."""

CELLS = 24
"""How many of the worst cells join at a time."""

WORTH = 0.3
"""The ratio from which on a cell is worth it."""

CLOSE = 1e-11
"""What is left to be gained, twice, when steps end; as a share of the objective."""

CLOSE_ESTIMATED = 1e-14
"""The same where B is an estimate, and may be far too large."""

NEAR = 1e-4
"""The excess of a ratio that is left to mending."""

MENDINGS = 4
"""How often they are tried."""

BELOW = 2e-14
"""How far below 1, less the margin for rounding, the ratios are aimed at."""

MISSED = 1 + 1e-9
"""From this ratio on a cell has to join."""

SHORT = 1e-5
"""Steps below this tell nothing of second derivatives."""


def optimum(given: Problem, untouched: float) -> Risk | None:
    """Return the risk, on sampled integers, at a point within the limits that meets the conditions of an optimum.

    `untouched` is the largest ratio without any noise, above 1. None if no such point was found.
    """
    few = Few(given)
    start = _start(few, len(given.free), untouched) if given.free else None
    if start is None:
        return None
    search = _Search(few, start)
    for _ in range(STEPS):
        found = search.step()
        if not isinstance(found, bool):
            return found
        if not found:
            break
    return None


def _start(few: Few, n: int, untouched: float) -> FloatArray | None:
    """Return where 1/rho would reach 1 if it were linear in the same noise for all; None if it is never reached."""
    first = few.largest(np.full(n, -FIRST))
    if first > 1 and few.largest(np.full(n, NOTHING)) > 1 and few.given.least_without_retention:
        return None
    gained, needed = 1 / first - 1 / untouched, 1 - 1 / untouched
    share = needed / gained if gained > 0 else 1.0
    return np.full(n, -FIRST * min(max(share, 0.03), 10.0))


class _Search:
    """Where the steps are, and what they know."""

    def __init__(self, few: Few, x: FloatArray) -> None:
        self.given, self.few, self.x = few.given, few, x
        self.aim = 2 - few.given.margin - BELOW
        self.cells, self.weights = np.zeros(0, dtype=np.int64), np.zeros(0)  # and their multipliers at the last step
        cells, ratio = few.worst(x, CELLS)
        self._join(cells, ratio, WORTH * ratio.max())
        self.bounds, self.active = np.eye(len(x)), list[int]()
        self.sizes = np.array([float(self.given.table.sizes[k]) for k in self.given.free])
        self.bend = np.diag(np.maximum(kappa_slopes(self.sizes, x)[1], FLATTEST))
        self.before: tuple[FloatArray, FloatArray] | None = None  # x, and the gradient of the Lagrangian

    def step(self) -> Risk | bool:
        """Return the result; or whether there may be one."""
        view, n = self.look(self.x), len(self.x)
        cost, close = self._bent(view)
        room = np.concatenate([HIGHEST - self.x, self.aim - view.ratio])
        tangent = Tangent(self.bend, cost, np.concatenate([self.bounds, view.slope]), room)
        step = solved(tangent, self.active)
        if step is None or not np.isfinite(step.d).all():
            return False
        left = max(step.d @ self.bend @ step.d, FLATTEST * (step.d @ step.d))  # B alone may be indefinite
        if left <= close and view.ratio.max() <= 1 + NEAR:
            return self._mend(tangent, step)
        self.active, self.weights = step.active, step.multipliers[n:]
        self.before = self.x, cost + self.weights @ view.slope
        longest = float(np.abs(step.d).max())
        self.x = np.minimum(self.x + step.d * min(1.0, LONGEST / longest), HIGHEST)
        if longest > LONG:
            self._join(*self.few.worst(self.x, CELLS), WORTH)
        return True

    def _bent(self, view: View) -> tuple[FloatArray, float]:
        """Renew B; return the gradient of f, and what d'Bd is when steps may end."""
        if view.bend is not None and isinstance(self.given.objective, Kappa):
            cost, curvature = kappa_slopes(self.sizes, self.x)
            self.bend = view.bend(self.weights)
            self.bend.flat[:: len(cost) + 1] += curvature
            return cost, CLOSE
        cost = self.given.cost_slope(self.x)
        if self.before is not None:
            x, slope = self.before
            self.bend = _updated(self.bend, self.x - x, cost + self.weights @ view.slope - slope)
        return cost, CLOSE_ESTIMATED

    def _join(self, cells: IntArray, ratio: FloatArray, above: float) -> bool:
        """Let cells join that are above a level, and return whether there are new ones."""
        known = set(self.cells.tolist())
        new = [cell for cell in cells[ratio > above].tolist() if cell not in known]
        if new:
            self.cells = np.concatenate([self.cells, np.array(new)])
            self.weights = np.concatenate([self.weights, np.zeros(len(new))])
            self.look = self.few.at(self.cells)
        return bool(new)

    def _mend(self, tangent: Tangent, step: Step) -> Risk | bool:
        """Go the last step, on integers, and correct what it leaves above the limits of the binding cells."""
        x, n = self.x, len(self.x)
        for _ in range(MENDINGS):
            last = where_these_bind(tangent, step.active)
            if last is None:
                break
            x = np.minimum(x + last.d, 0.0)
            x[x > -UNTOUCHED] = 0.0
            point = self.given.sampled(x)
            if self.given.within(point):
                return point
            ratio = self.given.ratio(point)
            if self._join(*largest(ratio, CELLS), MISSED):
                self.before = None
                return True
            room = np.concatenate([np.zeros(n), self.aim - ratio[self.cells]])
            tangent = Tangent(tangent.bend, np.zeros(n), tangent.rows, room)
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
