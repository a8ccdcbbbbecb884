"""A lean way to the optimum: sequential quadratic programming on a few cells, with a certificate.

In x = log r, let rho_c(x) be the ratio of the risk of cell c to its limit, and f(x) = log(objective). With little noise
a risk falls about like 1/(1 + M noise): 1/rho is nearly linear, so the limits 1/rho_c >= 1 are linearized as

    d . grad log(rho_c) <= 1 - rho_c

A step d minimises f'd + d'Bd/2 under these and x + d <= 0. B is the second derivative of the Lagrangian
f + sum_c mu_c log(rho_c) where that is at hand (see `few`), and else its damped BFGS estimate. (At rho = 1 the two ways
to write a limit differ by a multiple of grad grad' only, which no step along the limit feels.)

The search starts with noise in proportion to d - 1. At first the worst cell is taken to bind, with the multiplier of
least squares. After a long step the cells that bind stay, and the worst at the new point join.

Steps end when d'Bd, about twice what is left to be gained, is below a tolerance: the conditions of Karush, Kuhn and
Tucker then hold but for B d. That step is still taken. What it leaves above or below a limit that binds is mended with
the same derivatives on the integers that are sampled, where every cell of the table is evaluated: a slack s of a cell
with the multiplier mu costs the share mu s of the objective. If any of this fails there is no result, and the caller
has to search by other means.
"""

from __future__ import annotations

import math
from functools import cached_property

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

START = 0.35
"""Where the search starts, -log r of the attribute with most values over the logarithm of the largest ratio."""

NEAREST, FARTHEST = 0.02, 3.0
"""The least and the most noise, -log r, that it starts with."""

STEPS = 30
"""Steps after which the search gives up. It takes 3 to 7, or 8 to 20 without second derivatives."""

LONGEST = 1.0
"""No log-retention moves by more than this in a step."""

LONG = 0.1
"""After a step of this length other cells may be the worst."""

CELLS = 12
"""How many of the worst cells join at a time, where each of them costs something."""

CELLS_ANYWAY = 24
"""The same where all cells are evaluated in any case; then none leaves, either: estimates of B suffer from that."""

WORTH = 0.3
"""The ratio from which on a cell is worth it, or this share of the largest."""

CLOSE = 1e-7
"""What is left to be gained, twice, before the last step; as a share of the objective. That step leaves its square."""

CLOSER = 1e-10
"""The same where B was not positive definite, so that steps converge more slowly, and after mending in vain."""

CLOSE_ESTIMATED = 1e-14
"""The same where B is an estimate, and may be far too large."""

TURNING = 0.02
"""After a step that changes a noise by this share B is another."""

NEAR = 1e-4
"""The excess of a ratio that is left to mending."""

MENDINGS = 4
"""How often they are tried."""

SPARED = 2e-11
"""The share of the objective that aiming below 1 may cost, so that the last step seldom has to be mended."""

SLIGHT = 1e-3
"""A noise below which shares of it do not matter."""

LOST = 4e-11
"""The share of the objective that binding cells which end below their limits may cost."""

MISSED = 1 + 1e-9
"""From this ratio on a cell has to join."""

SHORT = 1e-5
"""Steps below this tell nothing of second derivatives."""


def optimum(given: Problem, untouched: float) -> Risk | None:
    """Return the risk, on sampled integers, at a point within the limits that meets the conditions of an optimum.

    `untouched` is the largest ratio without any noise, above 1. None if no such point was found.
    """
    if not given.free:
        return None
    search = _Search(Few(given), _start(given, untouched))
    for _ in range(STEPS):
        found = search.step()
        if not isinstance(found, bool):
            return found
        if not found:
            break
    return None


def _start(given: Problem, untouched: float) -> FloatArray:
    """Return where the search starts: with more noise for attributes with more values, which mix more records."""
    others = given.free_sizes - 1
    most: float = min(max(START * math.log(untouched), NEAREST), FARTHEST)
    start: FloatArray = -most / others.max() * others
    return start


class _Search:
    """Where the steps are, and what they know."""

    def __init__(self, few: Few, x: FloatArray) -> None:
        self.given, self.few, self.x, self.sizes = few.given, few, x, few.given.free_sizes
        self.cells, self.weights = np.zeros(0, dtype=np.int64), np.zeros(0)  # and their multipliers in the last step
        self.bounds, self.active, self.turned = np.eye(len(x)), list[int](), True
        self.close = CLOSE
        self.bend: FloatArray | None = None
        self.before: tuple[FloatArray, FloatArray] | None = None  # x, and the gradient of the Lagrangian
        self._renew()

    def step(self) -> Risk | bool:
        """Return the result; or whether there may be one."""
        view, n = self.look(self.x), len(self.x)
        bend, cost, close = self._bent(view)
        room = np.concatenate([HIGHEST - self.x, self._aim() - view.ratio])
        tangent = Tangent(bend, cost, np.concatenate([self.bounds, view.slope]), room)
        step = solved(tangent, self.active)
        if step is None:
            return False
        left = float(max(step.d @ bend @ step.d, FLATTEST * (step.d @ step.d)))  # B alone may be indefinite
        if not math.isfinite(left):
            return False
        self.turned = bool((np.abs(step.d) > TURNING * (SLIGHT - self.x)).any())
        close = min(close, self.close if step.exact else CLOSER)
        if left <= close and view.ratio.max() <= 1 + NEAR and not self.turned:
            found = self._mend(tangent, step, last=left <= CLOSER)
            if found is not None:
                return found
            self.close = CLOSER
        self.active, self.weights = step.active, step.multipliers[n:]
        self.before = self.x, cost + self.weights @ view.slope
        longest = float(np.abs(step.d).max())
        if longest > LONGEST and not self._reachable:
            return False
        self.x = np.minimum(self.x + step.d * (LONGEST / max(longest, LONGEST)), HIGHEST)
        if longest > LONG:
            self._renew()
        return True

    @cached_property
    def _reachable(self) -> bool:
        """Whether the limits are kept without any retention, as far as that can tell."""
        return not self.given.least_without_retention or self.few.largest(np.full(len(self.x), NOTHING)) <= 1

    def _renew(self) -> None:
        """Let the worst cells join, and those leave that do not bind."""
        prepared = self.few.prepared
        cells, ratio = self.few.worst(self.x, CELLS if prepared else CELLS_ANYWAY)
        kept = (self.weights > 0) if prepared else np.ones(len(self.cells), dtype=np.bool_)
        self._watch(kept.nonzero()[0], cells[ratio > WORTH * min(1.0, float(ratio.max()))])

    def _bent(self, view: View) -> tuple[FloatArray, FloatArray, float]:
        """Return B, renewed, the gradient of f, and what d'Bd is when steps may end."""
        cost, curvature = kappa_slopes(self.sizes, self.x)
        if view.bend is not None and isinstance(self.given.objective, Kappa):
            if not self.active:
                self._guess(cost, view)
            if self.bend is None or self.turned:
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

    def _watch(self, kept: IntArray, cells: IntArray) -> None:
        """From now on look at the cells that are kept, by their numbers, and at these."""
        n, old = len(self.x), self.cells[kept].tolist()
        places = {k + n: new + n for new, k in enumerate(kept.tolist())}
        self.active = [places.get(k, k) for k in self.active if k < n or k in places]
        known = set(old)
        new = [cell for cell in cells.tolist() if cell not in known]
        self.cells = np.array(old + new, dtype=np.int64)
        self.weights = np.concatenate([self.weights[kept], np.zeros(len(new))])
        self.look = self.few.at(self.cells)

    def _mend(self, tangent: Tangent, step: Step, last: bool) -> Risk | bool | None:
        """Go the last step, on integers, and correct what it leaves above or below the limits of the binding cells.

        None if that is in vain, and this need not be the last step.
        """
        x, n, found = self.x, len(self.x), None
        way: Step | None = step
        if not last:  # what it leaves is next to certain, and seen at less cost in the few cells
            x = np.minimum(x + step.d, HIGHEST)
            way = self._correction(tangent, step, self.look(x).ratio)
        for _ in range(MENDINGS):
            if way is None:
                break
            x = np.minimum(x + way.d, 0.0)
            x[x > -UNTOUCHED] = 0.0
            point = self.given.sampled(x)
            ratio = self.given.ratio(point)
            if self.given.kept_by(ratio):
                found = point
                if step.multipliers[n:] @ (1 - ratio[self.cells]) <= LOST:
                    return point
            missed = np.flatnonzero(ratio > MISSED)
            if not set(missed.tolist()) <= set(self.cells.tolist()):
                self.before, self.turned = None, True
                self._watch(np.arange(len(self.cells)), missed[largest(ratio[missed], CELLS_ANYWAY)[0]])
                return True
            way = self._correction(tangent, step, ratio[self.cells])
        return (found or False) if last else None

    def _correction(self, tangent: Tangent, step: Step, ratio: FloatArray) -> Step | None:
        """Return the shortest way, in terms of B, from these ratios to the limits of the cells that bind."""
        n = len(self.x)
        room = np.concatenate([np.zeros(n), self._aim() - ratio])
        return where_these_bind(Tangent(tangent.bend, np.zeros(n), tangent.rows, room), step.active)


def _updated(bend: FloatArray, step: FloatArray, turn: FloatArray) -> FloatArray:
    """Damped BFGS: the estimate stays positive whatever the turn of the gradient."""
    if np.abs(step).max() <= SHORT:
        return bend
    old = bend @ step
    length, found = step @ old, step @ turn
    share = 1.0 if found >= 0.2 * length else 0.8 * length / (length - found)
    new = share * turn + (1 - share) * old
    return bend - np.outer(old, old / length) + np.outer(new, new / (new @ step))
