"""Sums over a block of cells: the equations, their derivative, and how much noise is in them.

For a pattern g (a row of the design) and a state k, psi_gk = residual_gk (x) v_gk, h_gk = weight_gk (x) v_gk v_gk'.
With N_gk the sum of omega b_rk over the cells r of the pattern, and M_gk that of omega^2 b_rk,

    U = sum N psi        H = sum N h        V = sum_r omega_r^2 (sum_k b_rk psi_gk)(..)'        S = sum M psi psi'

V needs the cells; where many share a pattern, V = sum_g psi_g' W_g psi_g with W_g = sum_r omega_r^2 b_r b_r'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Cells
from sfumato.values.arrays import FloatArray, IntArray

NUMBERS_AT_ONCE = 2_000_000
"""Of psi, states and coefficients together: what a block has at most in memory."""
MOST_PAIRS = 4_000_000
"""Numbers of W."""


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

    def __add__(self, other: Noise) -> Noise:
        return Noise(self.table + other.table, self.population + other.population)

    def of(self, target: str) -> FloatArray:
        """Return that for a target."""
        return self.table if target == "table" else self.population


@dataclass(frozen=True, eq=False)
class Weighted:
    """Weights of the rows of the design: one for each pattern, and state if the design depends on it."""

    rows: FloatArray  # (n,) N
    outcome: FloatArray  # (n, equations) the sum of N Y
    size: FloatArray  # (n,) the sum of omega |b|
    base: float  # the sum of N base(Y)


@dataclass(frozen=True, eq=False)
class Block:
    """Cells, with what is summed over those of a pattern once and for all."""

    cells: Cells
    family: Family

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
    def pairs(self) -> FloatArray | None:
        """W, where it is smaller than the cells are."""
        cells, (G, K) = self.cells, self.shape
        if cells.pattern is None or cells.count.size <= G or G * K * K > MOST_PAIRS:
            return None
        pairs = np.empty((G, K, K))
        for k in range(K):
            pairs[:, k] = _by(cells.pattern, (cells.squares * cells.weights[:, k])[:, None] * cells.weights, G)
        return pairs

    def summed(self, amount: FloatArray) -> FloatArray:
        """Return sums of (R, K) over the cells of each pattern, 0 where psi is."""
        total = amount if self.cells.pattern is None else _by(self.cells.pattern, amount, self.patterns)
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
            N, size = N @ np.ones(N.shape[1]), size @ np.ones(N.shape[1])
        e = self.family.equations
        return Weighted(N.reshape(-1), np.ascontiguousarray(outcome).reshape(-1, e), size.reshape(-1), base)

    # --- at given coefficients ---------------------------------------------------------------------------------------

    def predictor(self, beta: FloatArray, design: FloatArray | None = None) -> FloatArray:
        """Return eta, (G, K or 1, equations)."""
        design = self.cells.design if design is None else design
        eta = (_flat(design) @ beta.reshape(self.family.equations, -1).T).reshape(*design.shape[:2], -1)
        return eta if self.cells.offset is None else eta + self.cells.offset[..., None]

    def sums(self, beta: FloatArray, share: float = 1.0) -> Sums:
        """Return U, H and the scale; of the naive fit where `share` is 0."""
        mu = _flat(self.family.mean(self.predictor(beta)))
        weighted, design, weight = self.weighted(share), _flat(self.cells.design), self.family.weight(mu)
        residual = weighted.outcome - weighted.rows[:, None] * mu
        information = gram(design, weight * weighted.rows[:, None, None])
        return Sums((residual.T @ design).ravel(), information, self._scale(weighted, weight, information))

    def _scale(self, weighted: Weighted, weight: FloatArray, information: FloatArray) -> FloatArray:
        """Return the sum of |b| h_jj; where the design does not depend on the state nothing cancels, and H has it."""
        if not self.told_apart and self.used is None:
            return np.diag(information)
        diagonal = np.einsum("nee->ne", weight) * weighted.size[:, None]
        return np.asarray((diagonal.T @ _flat(self.cells.design) ** 2).ravel())

    def residual(self, beta: FloatArray) -> FloatArray:
        """Return Y - mu, (G, K, equations); 0 where psi is."""
        mu = self.family.mean(self.predictor(beta))
        residual = np.broadcast_to(self.indicated - mu, (*self.shape, mu.shape[-1]))
        return residual if self.used is None else residual * self.used[..., None]

    def psi(self, beta: FloatArray) -> FloatArray:
        """Return psi, (G, K, q)."""
        psi = self.residual(beta)[..., :, None] * self.cells.design[..., None, :]
        return np.asarray(psi.reshape(*self.shape, -1))

    def curvature(self, beta: FloatArray, directions: FloatArray) -> FloatArray:
        """Return u'h u for the columns u of `directions`, (G, K, directions)."""
        weight = self.family.weight(self.family.mean(self.predictor(beta)))
        along = directions.reshape(self.family.equations, -1, directions.shape[1])
        moved = np.einsum("gkp,epu->gkeu", self.cells.design, along)
        curvature = np.einsum("gkef,gkeu,gkfu->gku", weight, moved, moved)
        spread = np.broadcast_to(curvature, (*self.shape, curvature.shape[-1]))
        return spread if self.used is None else spread * self.used[..., None]

    def log_likelihood(self, beta: FloatArray, share: float = 1.0) -> float:
        """Return the sum of N log p(Y | eta)."""
        eta, weighted = self.predictor(beta), self.weighted(share)
        total = (weighted.outcome * _flat(eta)).sum() - weighted.rows @ self.family.cumulant(eta).reshape(-1)
        return float(total) + weighted.base

    def reach(self, step: FloatArray) -> float:
        """Return how far a step moves any linear predictor."""
        moved = _flat(self.cells.design) @ step.reshape(self.family.equations, -1).T
        return float(np.abs(moved).max(initial=0))

    # --- noise -------------------------------------------------------------------------------------------------------

    def score_noise(self, beta: FloatArray) -> Noise:
        """Return the covariance of U."""
        if self.told_apart or self.cells.draw is not None or self.cells.cluster is not None:
            return self.noise(self.psi(beta))
        residual, design = self.residual(beta), self.cells.design[:, 0]
        within = np.swapaxes(self.squared[..., None] * residual, 1, 2) @ residual
        population = gram(design, self._residual_pairs(residual))
        return Noise(population - gram(design, within), population)

    def _residual_pairs(self, residual: FloatArray) -> FloatArray:
        """Return the sum of omega^2 (sum_k b residual)(..)' over the cells of each pattern."""
        if self.pairs is not None:
            return np.asarray(np.einsum("gke,gkf->gef", residual, self.pairs @ residual))
        mean = self.tilde(residual)
        products = self.cells.squares[:, None, None] * mean[:, :, None] * mean[:, None, :]
        if self.cells.pattern is None:
            return np.asarray(products)
        summed = _by(self.cells.pattern, products.reshape(mean.shape[0], -1), self.patterns)
        return summed.reshape(-1, *products.shape[1:])

    def tilde(self, amount: FloatArray) -> FloatArray:
        """Return sum_k b_rk amount_gk of each cell, (R, c): what has the mean amount_gx where x is the true state."""
        weights, pattern = self.cells.weights, self.cells.pattern
        if pattern is None:
            return np.asarray((weights[:, None, :] @ amount)[:, 0])
        at_once = max(1, NUMBERS_AT_ONCE // max(1, amount[0].size))
        parts = [slice(first, first + at_once) for first in range(0, pattern.size, at_once)]
        return np.concatenate([(weights[part, None, :] @ amount[pattern[part]])[:, 0] for part in parts])

    def noise(self, amount: FloatArray) -> Noise:
        """Return the covariance of the sum of omega sum_k b amount over the rows; `amount` is (G, K, c).

            population  sum (omega sum_k b a)(..)'        table  that, less sum omega^2 sum_k b a a'

        Cells that share a draw are added up first, since their noise is one; for a population all cells of a cluster.
        """
        if self.cells.draw is not None:
            return self._noise_of_draws(amount, self.cells.draw)
        flat = _flat(amount)
        within = flat.T @ (flat * self.squared.reshape(-1, 1))
        if self.pairs is not None:
            population = flat.T @ _flat(self.pairs @ amount)
        else:
            mean = self.tilde(amount)
            population = mean.T @ (mean * self.cells.squares[:, None])
        return Noise(population - within, self._of_clusters(amount, population))

    def _of_clusters(self, amount: FloatArray, otherwise: FloatArray) -> FloatArray:
        if self.cells.cluster is None:
            return otherwise
        total = added(self.cells.cluster, self.tilde(amount) * self.cells.count[:, None])
        return np.asarray(total.T @ total)

    def _noise_of_draws(self, amount: FloatArray, draw: IntArray) -> Noise:
        pattern = np.arange(draw.size) if self.cells.pattern is None else self.cells.pattern
        owned = amount[pattern] * self.cells.count[:, None, None]
        together = added(draw, owned.reshape(draw.size, -1)).reshape(-1, *amount.shape[1:])
        weights = self.cells.weights[np.unique(draw, return_index=True)[1]]
        mean = (weights[:, None, :] @ together)[:, 0]
        population, flat = mean.T @ mean, _flat(together)
        within = flat.T @ (flat * weights.reshape(-1, 1))
        return Noise(population - within, self._of_clusters(amount, population))


def blocks_of(cells: Cells, family: Family) -> Iterator[Block]:
    """Yield the cells in blocks that can be worked on at once; cells that belong together stay together."""
    G, K = cells.design.shape[0], cells.weights.shape[1]
    at_once = max(1, NUMBERS_AT_ONCE // max(1, K * cells.design.shape[2] * family.equations))
    if at_once >= G or not (cells.draw is None and cells.cluster is None):
        yield Block(cells, family)
        return
    order = None if cells.pattern is None else np.argsort(cells.pattern, kind="stable")
    for first in range(0, G, at_once):
        yield Block(_part(cells, slice(first, first + at_once), order), family)


_OF_PATTERNS = ("design", "outcome", "used", "offset")
_OF_CELLS = ("weights", "count", "squares", "published", "naive", "chances", "group")


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


def gram(design: FloatArray, weight: FloatArray) -> FloatArray:
    """Return sum_n weight_n (x) v_n v_n', (q, q), for weights (n, equations, equations) that are symmetric."""
    e, p = weight.shape[1], design.shape[1]
    total = np.empty((e, p, e, p))
    for i in range(e):
        for j in range(i, e):
            total[i, :, j] = design.T @ (design * weight[:, i, j, None])
            total[j, :, i] = total[i, :, j].T
    return total.reshape(e * p, e * p)


def added(number: IntArray, amount: FloatArray) -> FloatArray:
    """Return sums of rows over equal numbers, in ascending order of these."""
    order = np.argsort(number, kind="stable")
    starts = np.flatnonzero(np.diff(number[order], prepend=number[order[0]] - 1))
    return np.asarray(np.add.reduceat(amount[order], starts, axis=0))


def _by(number: IntArray, amount: FloatArray, size: int) -> FloatArray:
    """Return sums of rows over the numbers 0 to size - 1."""
    columns = [np.bincount(number, amount[:, k], minlength=size) for k in range(amount.shape[1])]
    return np.stack(columns, axis=1)


def _flat(amount: FloatArray) -> FloatArray:
    return amount.reshape(-1, amount.shape[-1])
