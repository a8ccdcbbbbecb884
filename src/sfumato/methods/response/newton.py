"""A lean way to the optimum: sequential quadratic programming on a few cells, with a certificate.

In x = log r, let rho_c(x) be the ratio of the risk of cell c to its limit, and f(x) = log(objective). With little noise
a risk falls about like 1/(1 + M (1 - r)): 1/rho is nearly linear in r. So a step is one of relative changes d of the
retentions, r(1 + d), and the limits 1/rho_c >= 1 are linearized as

    d . grad log(rho_c) <= 1 - rho_c

A step minimises f'd + d'Bd/2 under these and r(1 + d) <= 1. B is the second derivative of the Lagrangian
L = f + sum_c mu_c log(rho_c) by d where that is at hand (see `few`): that by x, less grad L on the diagonal, since
x moves by log(1 + d) = d - d^2/2 + ... Else it is a damped BFGS estimate. (At rho = 1 the two ways to write a limit
differ by a multiple of grad grad' only, which no step along the limit feels.)

The search starts with more noise for attributes over whose values the records are spread more, and with as much as a
first look or two tell. At first the worst cell is taken to bind, with the multiplier of least squares. After a long
step the cells that bind stay, and the worst at the new point join.

Steps end when d'Bd, about twice what is left to be gained, is below a tolerance: the conditions of Karush, Kuhn and
Tucker then hold but for B d. That step is still taken, and leaves its square. What it leaves between ratios and limits
is seen where it ends, at last on the integers that are sampled and in every cell of the table, and the same program is
solved with that much less room. If any of this fails there is no result, and the caller has to search by other means.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import TypeGuard

import numpy as np

from sfumato.methods.response.channels import IntArray
from sfumato.methods.response.few import CELLS, Few, GuessesView, LinksView, View, largest
from sfumato.methods.response.objectives import Kappa, kappa_slopes
from sfumato.methods.response.problem import NOTHING, Problem
from sfumato.methods.response.quadratic import FLATTEST, Metric, Program, Step
from sfumato.methods.response.risks import Risk
from sfumato.values.matrix.retention import FloatArray

HIGHEST = -1e-9
"""The highest log-retention tried: at r = 1 itself gradients are 0/0 where a cell is empty."""

UNTOUCHED = 1e-7
"""An attribute that would lose less than this of its retention is left as it is."""

START = 0.25
"""The first guess of the noise, 1/r - 1 of the attribute with most of it, over the excess of the largest ratio."""

LEAST_SPREAD = 1e-3
"""The least that an attribute is taken to be spread, where nearly all records have the same value."""

TRIALS = 2
"""How often a guess is made better."""

AT_MOST = 3.0
"""By which factor, at most."""

NEAREST, FARTHEST = 1e-4, 4.0
"""The least and the most noise, -log r, that the search starts with."""

STEPS = 30
"""Steps after which the search gives up. It takes 2 to 10, mostly 3 to 5; or 8 to 20 without second derivatives."""

LEAST_CHANGE, MOST_CHANGE = math.expm1(-1), math.expm1(1)
"""No retention falls or rises by more than the factor e in a step."""

STANDING = 1e-12
"""A step of this length leads nowhere."""

LONG = 0.25
"""After a step of this length other cells may be the worst."""

CELLS_ANYWAY = 24
"""How many of the worst cells join where all are evaluated in any case; then none leaves, either: estimates of B suffer
from that. And how many of those that were missed."""

WORTH = 0.6
"""The ratio from which on a cell is worth it, or this share of the largest."""

CLOSE = 1e-6
"""What is left to be gained, twice, before the last step; as a share of the objective."""

CLOSE_STALE = 1e-7
"""The same where B is that of the point before."""

CLOSE_LIFTED = 1e-10
"""The same where B was not positive definite, so that steps converge more slowly."""

CLOSE_ESTIMATED = 1e-14
"""The same where B is an estimate, and may be far too large."""

TURNING = 0.1
"""After a step that changes a noise by this share B is another."""

SLIGHT = 1e-6
"""A noise below which shares of it do not matter."""

BALANCED = 1e-3
"""The share of the gradient of f that B d may still be before the last step: B may be far too large."""

NEAR = 1e-3
"""The excess of a ratio that is left to mending."""

MENDINGS = 4
"""How often they are tried."""

SPARED = 2e-11
"""The share of the objective that aiming below 1 may cost, so that the last step seldom has to be mended."""

LOST = 4e-11
"""The share of the objective that binding cells which end below their limits may cost."""

REACHED = 1 - 1e-6
"""A result whose largest ratio is below this is no optimum."""

MISSED = 1 + 1e-9
"""From this ratio on a cell has to join."""

LEAVING = 1e-6
"""A last step of this length leaves something, next to certainly."""

SHORT = 1e-5
"""Steps below this tell nothing of second derivatives."""


def optimum(given: Problem, untouched: float, shape: FloatArray | None = None) -> Risk | None:
    """Return the risk, on sampled integers, at a point within the limits that meets the conditions of an optimum.

    `untouched` is the largest ratio without any noise, above 1. The search starts with noise of a shape: more for those
    attributes over whose values the records are spread more, unless another is given. None if no such point was found.
    """
    if not given.free:
        return None
    few = Few(given)
    with np.errstate(over="ignore", invalid="ignore"):  # where numbers are not finite a step ends the search
        shape = given.table.spread[list(given.free)] if shape is None else shape
        search = _Search(few, _start(few, untouched, shape))
        for _ in range(STEPS):
            found = search.step()
            if not isinstance(found, bool):
                return found
            if not found:
                break
    return None


def _start(few: Few, untouched: float, shape: FloatArray) -> FloatArray:
    """Start with noise of this shape, as much as would be needed if 1/rho were linear, by what it is at a guess."""
    shape = np.maximum(shape, LEAST_SPREAD)
    x = shape * (-math.log1p(START * (untouched - 1)) / shape.max())
    for _ in range(TRIALS):
        gained, needed = 1 / few.guess(x) - 1 / untouched, 1 - 1 / untouched
        x *= min(max(needed / gained, 1 / AT_MOST), AT_MOST) if gained > 0 else 1.0
    start: FloatArray = np.minimum(np.maximum(x, -FARTHEST), -NEAREST)
    return start


class _Search:
    """Where the steps are, and what they know."""

    def __init__(self, few: Few, x: FloatArray) -> None:
        self.given, self.few, self.x, self.sizes = few.given, few, x, few.given.free_sizes
        self.cells: list[int] = []
        self.rows: dict[int, float] = {}  # the multipliers of what binds, by its number: bounds of x, then cells
        self.weights: dict[int, float] = {}  # those of the cells alone
        self.bounds, self.turned, self.stale = np.eye(len(x)), True, False  # whether B is another here, or an old one
        self.metric: Metric | None = None
        self.before: tuple[FloatArray, FloatArray] | None = None  # x, and the gradient of the Lagrangian
        self._renew()

    def _bind(self, rows: dict[int, float]) -> None:
        """Take these rows to bind, with their multipliers."""
        n = len(self.x)
        self.rows, self.weights = rows, {k - n: mu for k, mu in rows.items() if k >= n}

    def step(self) -> Risk | bool:
        """Return the result; or whether there may be one."""
        view, first = self.look(self.x), self.metric is None
        metric, cost, close = self._measured(view)
        if metric is None:
            return False
        program = Program(metric, cost, np.concatenate([self.bounds, view.slope]))
        step = (program.searched if first else program.solved)(self._room(view.ratio), self.rows)
        if step is None:
            return False
        pull = metric.bend @ step.d  # what is left of the gradient of the Lagrangian
        left = max(float(pull @ step.d), FLATTEST * float(step.d @ step.d))  # B may be too flat
        if not math.isfinite(left):
            return False
        ways = step.d.tolist()
        falls, rises = min(ways), max(ways)
        longest = max(-falls, rises)
        self.turned = any(abs(d) > TURNING * (SLIGHT - x) for d, x in zip(ways, self.x.tolist(), strict=True))
        ended = left <= close and not self.turned and np.abs(pull).max() <= BALANCED * np.abs(cost).max()
        if ended and view.ratio.max() <= 1 + NEAR:
            found = self._mend(program, view, step)
            if found or longest <= SHORT:
                return found
        if longest <= STANDING:
            return False
        self.turned |= self.stale  # once is enough: steps may go to and fro with a B that is too flat
        self._bind(step.binding)
        self.before = None if self._exactly(view) else (self.x, self._lagrangian(cost, view))
        part = min(1.0, LEAST_CHANGE / min(falls, LEAST_CHANGE), MOST_CHANGE / max(rises, MOST_CHANGE))
        if part < 1 and not self._reachable:
            return False
        self.x = self._after(part * step.d)
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
        kept = self.weights if prepared else range(len(self.cells))
        self._watch(kept, cells[ratio > WORTH * min(1.0, float(ratio.max()))])

    def _measured(self, view: View) -> tuple[Metric | None, FloatArray, float]:
        """Return B, renewed, the gradient of f, and what d'Bd is when steps may end."""
        cost, curvature = kappa_slopes(self.sizes, self.x)
        if self._exactly(view):
            if not self.rows:
                self._guess(cost, view)
            if self.metric is not None and not self.turned:
                self.stale = True
                return self.metric, cost, CLOSE_STALE if self.metric.exact else CLOSE_LIFTED
            self.stale = False
            bend = view.bend(self.weights)
            bend.flat[:: len(cost) + 1] += curvature - self._lagrangian(cost, view)
            self.metric = Metric.of(bend)
            return self.metric, cost, CLOSE if self.metric and self.metric.exact else CLOSE_LIFTED
        cost = self.given.cost_slope(self.x)
        bend = self.metric.bend if self.metric else np.diag(np.maximum(curvature, FLATTEST))
        if self.before is not None:
            x, slope = self.before
            bend = _updated(bend, self.x - x, self._lagrangian(cost, view) - slope)
        self.metric = Metric.of(bend)
        return self.metric, cost, CLOSE_ESTIMATED

    def _exactly(self, view: View) -> TypeGuard[LinksView | GuessesView]:
        """Whether all second derivatives are at hand."""
        return isinstance(view, LinksView | GuessesView) and isinstance(self.given.objective, Kappa)

    def _lagrangian(self, cost: FloatArray, view: View) -> FloatArray:
        """Return the gradient of f and of what binds."""
        return cost + np.array(list(self.weights.values())) @ view.slope.take(list(self.weights), 0)

    def _room(self, ratio: FloatArray) -> FloatArray:
        """Return what is left to the bounds of x and to 1, less the margin for rounding and what may be spared."""
        return np.concatenate([np.expm1(HIGHEST - self.x), self._aim() - ratio])

    def _after(self, d: FloatArray) -> FloatArray:
        """Return x after a step."""
        after: FloatArray = np.minimum(self.x + np.log1p(np.maximum(d, LEAST_CHANGE)), HIGHEST)
        return after

    def _aim(self) -> float:
        return 2 - self.given.margin - SPARED / (1 + sum(self.weights.values()))

    def _guess(self, cost: FloatArray, view: View) -> None:
        """At first the worst cell binds, with the multiplier that leaves least of the gradient of the Lagrangian."""
        worst = int(view.ratio.argmax())
        slope = view.slope[worst]
        length = float(slope @ slope)
        self._bind({len(cost) + worst: max(0.0, float(-(cost @ slope)) / length if length > 0 else 0.0)})

    def _watch(self, kept: Iterable[int], cells: IntArray) -> None:
        """From now on look at the cells that are kept, by their numbers, and at these."""
        n = len(self.x)
        old = {k + n: self.cells[k] for k in kept}
        places = dict(zip(old, range(n, n + len(old)), strict=True))
        self._bind({places.get(k, k): mu for k, mu in self.rows.items() if k < n or k in places})
        self.cells = list(dict.fromkeys([*old.values(), *cells.tolist()]))
        self.look = self.few.at(np.array(self.cells))

    def _mend(self, program: Program, view: View, step: Step) -> Risk | bool:
        """Go the last step, and again with the room that is seen where it ends: at last on integers, in all cells.

        False if that is in vain.
        """
        way: Step | None = step
        if float(np.abs(step.d).max()) > LEAVING:  # it leaves something, which costs less to see in a few cells
            way = self._again(program, view, step, self.look(self._after(step.d)).ratio)
        for _ in range(MENDINGS):
            if way is None:
                break
            x = self._after(way.d)
            x[x > -UNTOUCHED] = 0.0
            point = self.given.sampled(x)
            ratio = self.given.ratio(point)
            reached = float(ratio.max()) > REACHED and self._lost(way, ratio[self.cells]) <= LOST
            if reached and self.given.kept_by(ratio):
                return point
            missed = np.flatnonzero(ratio > MISSED)
            if not set(missed.tolist()) <= set(self.cells):
                self.before, self.turned = None, True
                self._watch(range(len(self.cells)), missed[largest(ratio[missed], CELLS_ANYWAY)[0]])
                return True
            way = self._again(program, view, way, ratio[self.cells])
        return False

    def _lost(self, step: Step, ratio: FloatArray) -> float:
        """Return the share of the objective that cells cost which bind and end below their limits."""
        n, aim = len(self.x), self._aim()
        return float(sum(mu * (aim - ratio[k - n]) for k, mu in step.binding.items() if k >= n))

    def _again(self, program: Program, view: View, step: Step, ratio: FloatArray) -> Step | None:
        """Return the solution with the room that these ratios leave, where the step ended."""
        return program.solved(self._room(ratio - view.slope @ step.d), step.binding)


def _updated(bend: FloatArray, step: FloatArray, turn: FloatArray) -> FloatArray:
    """Damped BFGS: the estimate stays positive whatever the turn of the gradient."""
    if np.abs(step).max() <= SHORT:
        return bend
    old = bend @ step
    length, found = step @ old, step @ turn
    if not length > 0:  # B is so large elsewhere that it is lost in rounding
        return bend
    share = 1.0 if found >= 0.2 * length else 0.8 * length / (length - found)
    new = share * turn + (1 - share) * old
    return bend - np.outer(old, old / length) + np.outer(new, new / (new @ step))
