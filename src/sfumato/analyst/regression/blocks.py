"""Sums over a block of cells: the equations, their derivative, and how much noise is in them.

For a pattern g (a row of the design) and a state k, psi_gk = residual_gk (x) v_gk, h_gk = weight_gk (x) v_gk v_gk'.
With N_gk the sum of omega b_rk over the cells r of the pattern, and M_gk that of omega^2 b_rk,

    U = sum N psi        H = sum N h        V = sum_r omega_r^2 (sum_k b_rk psi_gk)(..)'        S = sum M psi psi'

V needs the cells. Where the design does not depend on the state, psi = (Y - mu) (x) v, both are sums over patterns of
v v' times moments of the pseudo-outcome sum_k b_rk Y_k, which are summed once. Else cells with the same b are a class,
and sum_k b_k psi_gk is formed once for each pattern and class.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from operator import add

import numpy as np

from sfumato.analyst.regression.crossproducts import Crossed, summed_by
from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Cells
from sfumato.values.arrays import FloatArray, IntArray

NUMBERS_AT_ONCE = 2_000_000
"""Of psi, states and coefficients together: what a block has at most in memory."""
NEXT_TO_NOTHING = 0.1
"""Of the population's variance: below it the noise of a deal is a small difference of large sums."""


@dataclass(frozen=True, eq=False)
class Sums:
    """The equations at some coefficients."""

    score: FloatArray  # (q,) U
    information: FloatArray  # (q, q) H
    scale: FloatArray  # (q,) the sum of |b| h_jj, which does not cancel

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.score + other.score, self.information + other.information, self.scale + other.scale)


@dataclass(frozen=True, eq=False)
class Noise:
    """Estimated covariance of a sum over all rows: given the table, and where the rows are a sample."""

    table: FloatArray
    population: FloatArray
    steady: FloatArray | None = None  # of a deal: that given the table, for where `table` is next to nothing
    totals: FloatArray | None = None  # (strata, c) of survey strata, times the root of 1/(n - 1), not yet taken off

    def __add__(self, other: Noise) -> Noise:
        totals = None if self.totals is None or other.totals is None else self.totals + other.totals
        return Noise(self.table + other.table, self.population + other.population, totals=totals)

    def within_strata(self) -> Noise:
        """Return it with the means of survey strata taken off, once all rows are added up."""
        if self.totals is None:
            return self
        return Noise(self.table, self.population - self.totals.T @ self.totals)

    def of(self, target: str) -> FloatArray:
        """Return that for a target."""
        return self.table if target == "table" else self.population

    def variance(self, direction: FloatArray, target: str) -> float:
        """Return the variance of the sum along a direction."""
        variance, whole, steady = (
            0.0 if matrix is None else float(direction @ matrix @ direction)
            for matrix in (self.of(target), self.population, self.steady)
        )
        return max(variance, steady) if target == "table" and variance < NEXT_TO_NOTHING * whole else variance


@dataclass(frozen=True, eq=False)
class Weighted:
    """Weights of the rows of the design: one for each pattern, and state if the design depends on it."""

    rows: FloatArray  # (n,) N
    outcome: FloatArray  # (n, equations) the sum of N Y
    size: FloatArray  # (n,) the sum of omega |b|
    base: float  # the sum of N base(Y)


@dataclass(frozen=True, eq=False)
class Moments:
    """sum_r omega_r^2 z_r z_r' of each pattern, z = (sum_k b u, sum_k b u Y): u is 1 where psi counts, else 0."""

    ones: FloatArray  # (G,)
    mixed: FloatArray  # (G, equations)
    squares: FloatArray  # (G, equations, equations)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.ones - other.ones, self.mixed - other.mixed, self.squares - other.squares)

    def around(self, mu: FloatArray) -> FloatArray:
        """Return the sum of omega^2 (y - u mu)(y - u mu)' of each pattern, for means (G, equations)."""
        crossed = self.mixed[:, :, None] * mu[:, None, :]
        return self.squares - crossed - np.swapaxes(crossed, 1, 2) + self.ones[:, None, None] * _outer(mu)


@dataclass(frozen=True, eq=False)
class Block:
    """Cells, with what is summed over those of a pattern once and for all."""

    cells: Cells
    family: Family
    passing: bool = False  # whether it is let go after a few sums
    _last: dict[str, FloatArray] = field(default_factory=dict)

    # --- what does not depend on coefficients ------------------------------------------------------------------------

    @property
    def patterns(self) -> int:
        """G."""
        return int(self.cells.design.shape[0])

    @property
    def told_apart(self) -> bool:
        """Whether the design depends on the state."""
        return bool(self.cells.design.shape[1] > 1)

    @cached_property
    def used(self) -> FloatArray | None:
        """1 where psi counts and 0 elsewhere, (G, K)."""
        used = self.cells.used
        return None if used is None else np.broadcast_to(used, self.shape).astype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """(G, K)."""
        return self.patterns, self.cells.weights.shape[1]

    @cached_property
    def indicated(self) -> FloatArray:
        """The outcome for each equation, (G or 1, K or 1, equations)."""
        return self.family.indicated(self.cells.outcome)

    @cached_property
    def corrected(self) -> FloatArray:
        """N."""
        return self.summed(self.cells.count[:, None] * self.cells.weights)

    @cached_property
    def shown(self) -> FloatArray:
        """N of the naive fit."""
        if self.cells.naive is not None:
            return self.summed(self.cells.count[:, None] * self.cells.naive)
        if self.cells.published is None:
            raise ValueError("cells need what they show, `published` or `naive`")
        return self.summed(self.cells.count[:, None] * (self.cells.published[:, None] == np.arange(self.shape[1])))

    @cached_property
    def absolute(self) -> FloatArray:
        """The sum of omega |b|."""
        return self.summed(self.cells.count[:, None] * np.abs(self.cells.weights))

    @cached_property
    def squared(self) -> FloatArray:
        """M."""
        return self.summed(self.cells.squares[:, None] * self.cells.weights)

    @cached_property
    def crossed(self) -> Crossed:
        """The design with a row for each pattern, and state if it depends on it."""
        return Crossed(_flat(self.cells.design), self.passing)

    @cached_property
    def _alike(self) -> tuple[IntArray, IntArray] | None:
        """The patterns but one of those that differ only in their outcome, and which of these each pattern is like."""
        if not self.told_apart or self.cells.pattern is None or self.cells.offset is not None:
            return None
        first, like = equal_rows(self.cells.design.reshape(self.patterns, -1))
        return (first, like) if 4 * first.size <= 3 * self.patterns else None

    @cached_property
    def _crossed_once(self) -> Crossed:
        return self.crossed if self._alike is None else Crossed(_flat(self.cells.design[self._alike[0]]))

    def _once(self, amount: FloatArray) -> FloatArray:
        """Return sums of (G, K, ...) over patterns that are alike, with a row for each of `_crossed_once`."""
        if self._alike is None:
            return amount.reshape(-1, *amount.shape[2:])
        first, like = self._alike
        summed = summed_by(like, amount.reshape(len(like), -1).T, first.size)
        return summed.reshape(-1, *amount.shape[2:])

    @cached_property
    def classes(self) -> tuple[FloatArray, IntArray]:
        """The different rows of b, and which one a cell has."""
        first, number = equal_rows(self.cells.weights)
        return self.cells.weights[first], number

    @cached_property
    def _moments(self) -> tuple[Moments, Moments]:
        """Those of the cells, and those of the states, with omega^2 b for each: where the design knows no states."""
        used = np.ones((1, 1)) if self.used is None else self.used
        Y = self.indicated * used[..., None]
        one, y = self.tilde(np.broadcast_to(used, self.shape)[..., None])[:, 0], self.tilde(self._of_states(Y))
        squares = self.cells.squares
        parts = (squares * one**2, (squares * one)[:, None] * y, squares[:, None, None] * _outer(y))
        of_states = (self.squared.sum(axis=1), *(_weighted_sum(self.squared, a) for a in (Y, _outer(Y))))
        return Moments(*map(self._by_pattern, parts)), Moments(*of_states)

    def _of_states(self, amount: FloatArray) -> FloatArray:
        return np.broadcast_to(amount, (*self.shape, *amount.shape[2:]))

    def _by_pattern(self, amount: FloatArray) -> FloatArray:
        """Return sums over the cells of each pattern of (R, ...)."""
        if self.cells.pattern is None:
            return amount
        columns = amount.reshape(len(amount), -1)
        return summed_by(self.cells.pattern, columns.T, self.patterns).reshape(self.patterns, *amount.shape[1:])

    def summed(self, amount: FloatArray) -> FloatArray:
        """Return sums of (R, K) over the cells of each pattern, 0 where psi is."""
        total = self._by_pattern(amount)
        return total if self.used is None else total * self.used

    @cached_property
    def _corrected_rows(self) -> Weighted:
        return self._weighted(self.corrected, self.absolute)

    @cached_property
    def _shown_rows(self) -> Weighted:
        return self._weighted(self.shown, self.shown)

    def weighted(self, share: float) -> Weighted:
        """Return the rows of the design with N, on the way from the naive fit (0) to the corrected one (1)."""
        if share in (0, 1):
            return self._corrected_rows if share else self._shown_rows
        return self._weighted((1 - share) * self.shown + share * self.corrected, self.absolute)

    def _weighted(self, N: FloatArray, size: FloatArray) -> Weighted:
        """Add up the states where the design does not depend on them."""
        outcome = N[..., None] * self.indicated if self.told_apart else (N[:, None, :] @ self.indicated)
        base = float((N * self.family.base(self.cells.outcome)).sum())
        if not self.told_apart:
            N, size = (np.sum(amount, axis=1, keepdims=True) for amount in (N, size))
        return Weighted(self._once(N), self._once(outcome), self._once(size), base)

    # --- at given coefficients ---------------------------------------------------------------------------------------

    def predictor(self, beta: FloatArray, design: FloatArray | None = None) -> FloatArray:
        """Return eta, (G, K or 1, equations)."""
        crossed, shape = self.crossed, self.cells.design.shape
        if design is not None:
            crossed, shape = Crossed(_flat(design)), design.shape
        eta = crossed.times(beta.reshape(self.family.equations, -1).T).reshape(*shape[:2], -1)
        return eta if self.cells.offset is None else eta + self.cells.offset[..., None]

    def mean(self, beta: FloatArray) -> FloatArray:
        """Return mu, (G, K or 1, equations); where it was asked last it is kept."""
        once = self._mean_once(beta)
        return once.reshape(self.patterns, -1, once.shape[1]) if self._alike is None else self._of_alike(once)

    def _of_alike(self, amount: FloatArray) -> FloatArray:
        assert self._alike is not None
        first, like = self._alike
        return amount.reshape(first.size, -1, amount.shape[1])[like]

    def _mean_once(self, beta: FloatArray) -> FloatArray:
        """Return mu of each row of `_crossed_once`; that of the coefficients that were asked last is kept."""
        if "beta" not in self._last or not np.array_equal(self._last["beta"], beta):
            self._last.update(beta=beta.copy(), mean=self.family.mean(self._eta_once(beta)))
        return self._last["mean"]

    def _eta_once(self, beta: FloatArray) -> FloatArray:
        eta = self._crossed_once.times(beta.reshape(self.family.equations, -1).T)
        if self.cells.offset is None:
            return eta
        states = self.cells.design.shape[1]
        return eta + np.broadcast_to(self.cells.offset, (self.patterns, states)).reshape(-1, 1)

    def sums(self, beta: FloatArray, share: float = 1.0) -> Sums:
        """Return U, H and the scale; of the naive fit where `share` is 0."""
        mu, crossed = self._mean_once(beta), self._crossed_once
        weighted, weight = self.weighted(share), self.family.weight(mu)
        residual = weighted.outcome - weighted.rows[:, None] * mu
        information = gram(crossed, weight * weighted.rows[:, None, None])
        score = crossed.across(residual).T.ravel()
        return Sums(score, information, self._scale(weighted, weight, information))

    def _scale(self, weighted: Weighted, weight: FloatArray, information: FloatArray) -> FloatArray:
        """Return the sum of |b| h_jj; where the design does not depend on the state nothing cancels, and H has it."""
        if not self.told_apart and self.used is None:
            return np.diag(information)
        return self._crossed_once.squared.across(np.einsum("nee->ne", weight) * weighted.size[:, None]).T.ravel()

    def residual(self, beta: FloatArray) -> FloatArray:
        """Return Y - mu, (G, K, equations); 0 where psi is."""
        mu = self.mean(beta)
        residual = np.broadcast_to(self.indicated - mu, (*self.shape, mu.shape[-1]))
        return residual if self.used is None else residual * self.used[..., None]

    def psi(self, beta: FloatArray) -> FloatArray:
        """Return psi, (G, K, q)."""
        psi = self.residual(beta)[..., :, None] * self.cells.design[..., None, :]
        return np.asarray(psi.reshape(*self.shape, -1))

    def curvature(self, beta: FloatArray, directions: FloatArray) -> FloatArray:
        """Return u'h u for the columns u of `directions`, (G, K, directions)."""
        weight = self.family.weight(self.mean(beta))
        moved = np.stack([self.along(u) for u in directions.T], axis=-1)  # (G, K or 1, equations, directions)
        curvature = np.einsum("gkef,gkeu,gkfu->gku", weight, moved, moved)
        spread = np.broadcast_to(curvature, (*self.shape, curvature.shape[-1]))
        return spread if self.used is None else spread * self.used[..., None]

    def log_likelihood(self, beta: FloatArray, share: float = 1.0) -> float:
        """Return the sum of N log p(Y | eta)."""
        eta, weighted = self._eta_once(beta), self.weighted(share)
        total = (weighted.outcome * eta).sum() - weighted.rows @ self.family.cumulant(eta)
        return float(total) + weighted.base

    def reach(self, step: FloatArray) -> float:
        """Return how far a step moves any linear predictor."""
        moved = self._crossed_once.times(step.reshape(self.family.equations, -1).T)
        return float(np.abs(moved).max(initial=0))

    # --- noise -------------------------------------------------------------------------------------------------------

    def score_noise(self, beta: FloatArray) -> Noise:
        """Return the covariance of U."""
        if not self._is_plain:
            return reduce(add, (part.noise(part.psi(beta)) for part in self.parts()))
        table, population = self._residual_noise(beta)
        return Noise(gram(self.crossed, table), gram(self.crossed, population))

    def _residual_noise(self, beta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of squared residuals of each pattern that table and population have, (G, e, e)."""
        mu = self.mean(beta)[:, 0]
        of_cells, of_states = self._moments
        return (of_cells - of_states).around(mu), of_cells.around(mu)

    def noise_along(self, beta: FloatArray, direction: FloatArray) -> Noise:
        """Return the variance of direction'U, (1, 1)."""
        along = self.along(direction)
        if self._is_plain:
            parts = [np.einsum("gef,gke,gkf->", part, along, along) for part in self._residual_noise(beta)]
            return Noise(*(np.full((1, 1), part) for part in parts))
        return self.noise((self.residual(beta) * along).sum(axis=-1, keepdims=True))

    def along(self, direction: FloatArray) -> FloatArray:
        """Return how far a direction moves each linear predictor, (G, K or 1, equations)."""
        moved = self._crossed_once.times(direction.reshape(self.family.equations, -1).T)
        return moved.reshape(*self.cells.design.shape[:2], -1) if self._alike is None else self._of_alike(moved)

    @property
    def _is_plain(self) -> bool:
        """Whether cells are noisy by themselves, and the design does not depend on the state."""
        cells = self.cells
        return not self.told_apart and cells.draw is None and cells.cluster is None and cells.stratum is None

    def parts(self) -> Iterator[Block]:
        """Yield the block in parts of which psi can be held."""
        cut = list(blocks_of(self.cells, self.family))
        yield from [self] if len(cut) == 1 else cut

    def tilde(self, amount: FloatArray) -> FloatArray:
        """Return sum_k b_rk amount_gk of each cell, (R, c): what has the mean amount_gx where x is the true state."""
        pattern = self.cells.pattern
        if pattern is None:
            return np.asarray(np.einsum("rk,rkc->rc", self.cells.weights, amount))
        distinct, number = self.classes
        if len(distinct) * self.patterns > 4 * pattern.size:
            return np.asarray(np.einsum("rk,rkc->rc", self.cells.weights, amount[pattern]))
        if amount.shape[2] == 1:
            return np.take(amount[:, :, 0] @ distinct.T, pattern * len(distinct) + number)[:, None]
        return np.asarray((distinct @ amount)[pattern, number])

    def noise(self, amount: FloatArray) -> Noise:
        """Return the covariance of the sum of omega sum_k b amount over the rows; `amount` is (G, K, c).

            population  sum (omega sum_k b a)(..)'        table  that, less sum omega^2 sum_k b a a'

        Cells that share a draw are added up first, since their noise is one; for a population all cells of a cluster.
        Of survey strata see `sfumato.analyst.ask.survey`; their means are taken off by `Noise.within_strata`.
        """
        if self.cells.draw is not None:
            return self._noise_of_draws(amount, self.cells.draw)
        flat = _flat(amount)
        within = np.multiply(flat.T, self.squared.reshape(-1)) @ flat
        mean = self.tilde(amount)
        population = mean.T @ (mean * self.cells.squares[:, None])
        return self._of_units(amount, Noise(population - within, population))

    def _of_units(self, amount: FloatArray, otherwise: Noise) -> Noise:
        """Return the noise with that of the population by clusters and survey strata, where rows have them."""
        cells = self.cells
        if cells.cluster is None and cells.stratum is None:
            return otherwise
        mean = self.tilde(amount)
        total, square, unit = mean * cells.count[:, None], cells.squares, np.arange(len(mean))
        if cells.cluster is not None:
            mean, unit = added(cells.cluster, total), np.unique(cells.cluster, return_index=True)[1]
            square = np.ones(unit.size)
        if cells.stratum is None:
            return Noise(otherwise.table, mean.T @ mean)
        assert cells.units is not None
        square = square * (cells.units / (cells.units - 1))[cells.stratum[unit]]
        totals = summed_by(cells.stratum, total.T, cells.units.size) / np.sqrt(cells.units - 1)[:, None]
        return Noise(otherwise.table, mean.T @ (mean * square[:, None]), totals=totals)

    def _noise_of_draws(self, amount: FloatArray, draw: IntArray) -> Noise:
        pattern = np.arange(draw.size) if self.cells.pattern is None else self.cells.pattern
        owned = amount[pattern] * self.cells.count[:, None, None]
        together = added(draw, owned.reshape(draw.size, -1)).reshape(-1, *amount.shape[1:])
        weights = self.cells.weights[np.unique(draw, return_index=True)[1]]
        mean = (weights[:, None, :] @ together)[:, 0]
        population, flat = mean.T @ mean, _flat(together)
        within = flat.T @ (flat * weights.reshape(-1, 1))
        return self._of_units(amount, Noise(population - within, population))


def blocks_of(cells: Cells, family: Family) -> Iterator[Block]:
    """Yield the cells in blocks that can be worked on at once; cells that belong together stay together."""
    G, K = cells.design.shape[0], cells.weights.shape[1]
    at_once = max(1, NUMBERS_AT_ONCE // max(1, K * cells.design.shape[2] * family.equations))
    if at_once >= G or not (cells.draw is None and cells.cluster is None):
        yield Block(cells, family, passing=True)
        return
    order = None if cells.pattern is None else np.argsort(cells.pattern, kind="stable")
    for first in range(0, G, at_once):
        yield Block(_part(cells, slice(first, first + at_once), order), family, passing=True)


_OF_PATTERNS = ("design", "outcome", "used", "offset")
_OF_CELLS = ("weights", "count", "squares", "published", "naive", "chances", "stratum", "group")


def _part(cells: Cells, patterns: slice, order: IntArray | None) -> Cells:
    """Return the cells of some patterns; `order` sorts cells by pattern."""
    chosen: slice | IntArray = patterns
    if order is not None and cells.pattern is not None:
        low, high = np.searchsorted(cells.pattern[order], [patterns.start, patterns.stop])
        chosen = order[low:high]
    parts = {name: getattr(cells, name) for name in (*_OF_PATTERNS, "settings", "slopes", *_OF_CELLS)}
    for name, whole in parts.items():
        if whole is not None and name in _OF_CELLS:
            parts[name] = whole[chosen]
        elif whole is not None and name in _OF_PATTERNS:
            parts[name] = whole if whole.shape[0] == 1 else whole[patterns]
        elif whole is not None:
            parts[name] = whole if whole.shape[1] == 1 else whole[:, patterns]
    pattern = None if cells.pattern is None else cells.pattern[chosen] - patterns.start
    return replace(cells, pattern=pattern, **parts)


def gram(crossed: Crossed, weight: FloatArray) -> FloatArray:
    """Return sum_n weight_n (x) v_n v_n', (q, q), for weights (n, equations, equations) that are symmetric."""
    e, p = weight.shape[1], crossed.design.shape[1]
    total = np.empty((e, p, e, p))
    for i in range(e):
        for j in range(i, e):
            total[i, :, j] = crossed.gram(weight[:, i, j])
            total[j, :, i] = total[i, :, j]
    return total.reshape(e * p, e * p)


def added(number: IntArray, amount: FloatArray) -> FloatArray:
    """Return sums of rows over equal numbers, in ascending order of these."""
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=number[order[0]] - 1))
    return np.asarray(np.add.reduceat(amount[order], starts, axis=0))


def equal_rows(rows: FloatArray) -> tuple[IntArray, IntArray]:
    """Return the first of each kind of rows, and the number of the kind of each row.

    Rows are told apart by one number each. In the rare case that different rows share one, all count as different.
    """
    marks = rows @ np.sqrt(np.arange(2, 2 + rows.shape[1]))
    _, first, number = np.unique(marks, return_index=True, return_inverse=True)
    if not np.array_equal(rows[first][number.reshape(-1)], rows):
        return np.arange(len(rows)), np.arange(len(rows))
    return first, number.reshape(-1)


def _outer(amount: FloatArray) -> FloatArray:
    return np.asarray(amount[..., :, None] * amount[..., None, :])


def _weighted_sum(weights: FloatArray, amount: FloatArray) -> FloatArray:
    """Return sums over the states of (G, K) times (G or 1, K or 1, ...)."""
    columns = np.broadcast_to(amount, (*amount.shape[:1], weights.shape[1], *amount.shape[2:]))
    flat = columns.reshape(*columns.shape[:2], -1)
    summed = weights @ flat[0] if len(flat) == 1 else np.einsum("gk,gkc->gc", weights, flat)
    return np.asarray(summed.reshape(len(weights), *amount.shape[2:]))


def _flat(amount: FloatArray) -> FloatArray:
    return amount.reshape(-1, amount.shape[-1])
