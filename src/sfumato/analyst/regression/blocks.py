"""A block of cells: its sums, and how much noise is in them.

With psi and N as in `sfumato.analyst.regression.sums`, and M_gk the sum of omega^2 b_rk over the cells r of a pattern,

    V = sum_r omega_r^2 (sum_k b_rk psi_gk)(..)'        S = sum M psi psi'

V needs the cells. Where the design does not depend on the state, psi = (Y - mu) (x) v, both are sums over patterns of
v v' times moments of the pseudo-outcome sum_k b_rk Y_k, which are summed once. Else cells with the same b are a class,
and sum_k b_k psi_gk is formed once for each design, outcome and class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add

import numpy as np

from sfumato.analyst.regression.arrangement import equal_rows
from sfumato.analyst.regression.crossproducts import summed_by
from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Cells
from sfumato.analyst.regression.sums import BlockSums, gram
from sfumato.values.arrays import FloatArray, IntArray

NUMBERS_AT_ONCE = 2_000_000
"""Of psi, states and coefficients together: what a block has at most in memory."""
NEXT_TO_NOTHING = 0.1
"""Of the population's variance: below it the noise of a deal is a small difference of large sums."""
MOST_KINDS = 4
"""Of outcomes, where cells are summed by outcome, class and design."""
SPARSE = 4
"""How many times as many such sums there may be as cells."""


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
class Moments:
    """sum_r omega_r^2 z_r z_r' of each row of the design, z = (sum_k b u, sum_k b u Y): u is 1 where psi counts."""

    ones: FloatArray  # (n,)
    mixed: FloatArray  # (n, equations)
    squares: FloatArray  # (n, equations, equations)

    def __sub__(self, other: Moments) -> Moments:
        return Moments(self.ones - other.ones, self.mixed - other.mixed, self.squares - other.squares)

    def around(self, mu: FloatArray) -> FloatArray:
        """Return the sum of omega^2 (y - u mu)(y - u mu)' of each row, for means (n, equations)."""
        crossed = self.mixed[:, :, None] * mu[:, None, :]
        return self.squares - crossed - np.swapaxes(crossed, 1, 2) + self.ones[:, None, None] * _outer(mu)

    def along(self, mu: FloatArray, moves: FloatArray) -> float:
        """Return the sum over the rows of omega^2 (l'(y - u mu))^2, for l (n, equations)."""
        mean = np.einsum("ne,ne->n", mu, moves)
        squares = np.einsum("nef,ne,nf->", self.squares, moves, moves)
        return float(
            squares + np.einsum("n,n->", mean, self.ones * mean - 2 * np.einsum("ne,ne->n", self.mixed, moves))
        )


@dataclass(frozen=True, eq=False)
class Kind:
    """Cells whose patterns have the same outcomes, by their class and design."""

    outcome: FloatArray  # (K or 1, 1, equations) Y
    used: FloatArray | None  # (K, 1) 1 where psi counts and 0 elsewhere
    of_class: FloatArray  # (C, A) the sum of omega^2
    of_state: FloatArray  # (K, A) the sum of omega^2 b

    def counted(self, amount: FloatArray) -> FloatArray:
        """Return amounts (K, A), 0 where psi is."""
        return amount if self.used is None else amount * self.used


class Block(BlockSums):
    """Cells, with the noise of what is summed over them."""

    @cached_property
    def classes(self) -> tuple[FloatArray, IntArray]:
        """The different rows of b, and which one a cell has."""
        first, number = equal_rows(self.cells.weights)
        return self.cells.weights[first], number

    @cached_property
    def moments(self) -> tuple[Moments, Moments]:
        """Those of the noise given the table, and of the population's: where the design knows no states."""
        used = np.ones((1, 1)) if self.used is None else self.used
        Y = self.indicated * used[..., None]
        one, y = self.tilde(np.broadcast_to(used, self.shape)[..., None])[:, 0], self.tilde(self._of_states(Y))
        squares = self.cells.squares
        parts = (squares * one**2, (squares * one)[:, None] * y, squares[:, None, None] * _outer(y))
        of_states = (self.squared.sum(axis=1), *(_weighted_sum(self.squared, a) for a in (Y, _outer(Y))))
        own, expected = (
            Moments(*(self.rows(moment[:, None]) for moment in moments))
            for moments in (map(self._by_pattern, parts), of_states)
        )
        return own - expected, own

    @cached_property
    def kinds(self) -> list[Kind] | None:
        """The cells by outcome, class and design; None where these are many, or noise is not each cell's own."""
        arrangement, (classes, number) = self.arrangement, self.classes
        if arrangement is None or not self._is_plain:
            return None
        outcomes = np.broadcast_to(self.indicated, (self.patterns, *self.indicated.shape[1:]))
        apart = outcomes.reshape(self.patterns, -1)
        first, kind = equal_rows(apart if self.used is None else np.hstack([apart, self.used]))
        shape = (first.size, len(classes), arrangement.first.size)
        if first.size > MOST_KINDS or np.prod(shape) > SPARSE * number.size:
            return None
        pattern = np.arange(self.patterns) if self.cells.pattern is None else self.cells.pattern
        place = np.ravel_multi_index((kind[pattern], number, arrangement.like[pattern]), shape)
        squares = summed_by(place, [self.cells.squares], int(np.prod(shape))).reshape(shape)
        return [
            Kind(outcomes[one][:, None], None if self.used is None else self.used[one][:, None], own, classes.T @ own)
            for one, own in zip(first, squares, strict=True)
        ]

    def curvature(self, beta: FloatArray, directions: FloatArray) -> FloatArray:
        """Return u'h u for the columns u of `directions`, (G, K, directions)."""
        curvature = np.stack([self.of_patterns(self._row_curvature(beta, u)) for u in directions.T], axis=-1)
        spread = np.broadcast_to(curvature, (*self.shape, curvature.shape[-1]))
        return spread if self.used is None else spread * self.used[..., None]

    def _row_curvature(self, beta: FloatArray, direction: FloatArray) -> FloatArray:
        moved = self.row_moves(direction)
        return np.asarray(np.einsum("nef,ne,nf->n", self.family.weight(self.row_means(beta)), moved, moved))

    # --- noise -------------------------------------------------------------------------------------------------------

    def score_noise(self, beta: FloatArray) -> Noise:
        """Return the covariance of U."""
        if self._is_plain and not self.told_apart:
            table, population = (moments.around(self.row_means(beta)) for moments in self.moments)
            return Noise(gram(self.crossed, table), gram(self.crossed, population))
        if self.kinds is not None:
            return reduce(add, (self._noise_of_kind(kind, beta) for kind in self.kinds))
        return reduce(add, (part.noise(part.psi(beta)) for part in self.parts()))

    def _noise_of_kind(self, kind: Kind, beta: FloatArray) -> Noise:
        classes, K, A = self.classes[0], *kind.of_state.shape
        residual = kind.outcome - self.row_means(beta).reshape(K, A, -1)
        residual = residual if kind.used is None else residual * kind.used[..., None]
        weight = kind.of_state[..., None, None] * _outer(residual)
        within = gram(self.crossed, weight.reshape(K * A, *weight.shape[2:]))
        design, size = self.crossed.design.reshape(K, A, -1), within.shape[0]
        population = np.zeros_like(within)
        step = max(1, NUMBERS_AT_ONCE // (max(K, len(classes)) * size))
        for part in (slice(start, start + step) for start in range(0, A, step)):
            psi = residual[:, part, :, None] * design[:, part, None, :]
            mean = (classes @ psi.reshape(K, -1)).reshape(-1, size)
            population += mean.T @ (mean * kind.of_class[:, part].reshape(-1, 1))
        return Noise(population - within, population)

    def noise_along(self, beta: FloatArray, direction: FloatArray) -> Noise:
        """Return the variance of direction'U, (1, 1)."""
        if self._is_plain and not self.told_apart:
            mu, moves = self.row_means(beta), self.row_moves(direction)
            return Noise(*(np.full((1, 1), moments.along(mu, moves)) for moments in self.moments))
        if self.kinds is not None:
            mu, moves = self._by_state(self.row_means(beta)), self._by_state(self.row_moves(direction))
            return self._noise_of_rows(lambda kind: _added_up((kind.outcome - mu) * moves))
        along = self.of_patterns(self.row_moves(direction))
        return self.noise((self.residual(beta) * along).sum(axis=-1, keepdims=True))

    def curvature_noise(self, beta: FloatArray, direction: FloatArray) -> Noise:
        """Return the variance of u'H u, (1, 1)."""
        if self.told_apart and self.kinds is not None:
            curvature = self._by_state(self._row_curvature(beta, direction))
            return self._noise_of_rows(lambda kind: curvature)
        return self.noise(self.curvature(beta, direction[:, None]))

    def _by_state(self, rows: FloatArray) -> FloatArray:
        return rows.reshape(self.shape[1], -1, *rows.shape[1:])

    def _noise_of_rows(self, amount: Callable[[Kind], FloatArray]) -> Noise:
        """Return the variance of the sum of omega sum_k b a, for amounts (K, A) of each kind."""
        population = within = 0.0
        assert self.kinds is not None
        for kind in self.kinds:
            a = kind.counted(amount(kind))
            mean = self.classes[0] @ a
            population += float(np.einsum("ca,ca,ca->", kind.of_class, mean, mean))
            within += float(np.einsum("ka,ka,ka->", kind.of_state, a, a))
        return Noise(np.full((1, 1), population - within), np.full((1, 1), population))

    @property
    def _is_plain(self) -> bool:
        """Whether cells are noisy by themselves, and belong to no cluster or stratum."""
        cells = self.cells
        return cells.draw is None and cells.cluster is None and cells.stratum is None

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


def added(number: IntArray, amount: FloatArray) -> FloatArray:
    """Return sums of rows over equal numbers, in ascending order of these."""
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=number[order[0]] - 1))
    return np.asarray(np.add.reduceat(amount[order], starts, axis=0))


def _added_up(amount: FloatArray) -> FloatArray:
    """Return sums over the last axis, which mostly is short."""
    return np.asarray(amount[..., 0] if amount.shape[-1] == 1 else amount.sum(axis=-1))


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
