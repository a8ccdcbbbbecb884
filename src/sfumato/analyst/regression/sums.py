"""Sums over a block of cells: the equations and their derivative.

For a pattern g (a row of the design) and a state k, psi_gk = residual_gk (x) v_gk, h_gk = weight_gk (x) v_gk v_gk'.
With N_gk the sum of omega b_rk over the cells r of the pattern,

    U = sum N psi        H = sum N h

N is summed once; at given coefficients the sums are over *rows*, which are the different designs of the patterns, for
each state if the design depends on it (`sfumato.analyst.regression.arrangement`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato.analyst.regression.arrangement import Arrangement, arrangement_of
from sfumato.analyst.regression.crossproducts import Crossed, summed_by
from sfumato.analyst.regression.families import Family
from sfumato.analyst.regression.problem import Cells
from sfumato.values.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Sums:
    """The equations at some coefficients."""

    score: FloatArray  # (q,) U
    information: FloatArray  # (q, q) H
    scale: FloatArray  # (q,) the sum of |b| h_jj, which does not cancel

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.score + other.score, self.information + other.information, self.scale + other.scale)


@dataclass(frozen=True, eq=False)
class Weighted:
    """Weights of the rows of the design: one for each pattern, and state if the design depends on it."""

    rows: FloatArray  # (n,) N
    outcome: FloatArray  # (n, equations) the sum of N Y
    size: FloatArray  # (n,) the sum of omega |b|
    base: float  # the sum of N base(Y)


@dataclass(frozen=True, eq=False)
class BlockSums:
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
    def arrangement(self) -> Arrangement | None:
        """The rows of the design; None where the patterns' own are taken as they are."""
        if self.passing:
            return None
        alike = self.told_apart and self.cells.pattern is not None and self.cells.offset is None
        return arrangement_of(self.cells.design, may_be_alike=alike)

    def rows(self, amount: FloatArray) -> FloatArray:
        """Return what patterns with the same design share, (G, K or 1, ...), with a row for each of the design."""
        return _by_row(amount) if self.arrangement is None else self.arrangement.rows(amount)

    def row_sums(self, amount: FloatArray) -> FloatArray:
        """Return sums of (G, K or 1, ...), with a row for each of the design."""
        return _by_row(amount) if self.arrangement is None else self.arrangement.sums(amount)

    def of_patterns(self, rows: FloatArray) -> FloatArray:
        """Return for each pattern what its rows of the design have, (G, K or 1, ...)."""
        if self.arrangement is None:
            return rows.reshape(self.patterns, -1, *rows.shape[1:])
        return self.arrangement.patterns(rows)

    @cached_property
    def crossed(self) -> Crossed:
        """The rows of the design."""
        return Crossed(self.rows(self.cells.design), self.passing)

    @cached_property
    def _offset(self) -> FloatArray | None:
        if self.cells.offset is None:
            return None
        return self.rows(np.broadcast_to(self.cells.offset, self.cells.design.shape[:2]))[:, None]

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
        return Weighted(self.row_sums(N), self.row_sums(outcome), self.row_sums(size), base)

    # --- at given coefficients ---------------------------------------------------------------------------------------

    def predictor(self, beta: FloatArray, design: FloatArray | None = None) -> FloatArray:
        """Return eta, (G, K or 1, equations)."""
        if design is None:
            return self.of_patterns(self._eta(beta))
        eta = design @ beta.reshape(self.family.equations, -1).T
        return np.asarray(eta if self.cells.offset is None else eta + self.cells.offset[..., None])

    def mean(self, beta: FloatArray) -> FloatArray:
        """Return mu, (G, K or 1, equations)."""
        return self.of_patterns(self.row_means(beta))

    def row_means(self, beta: FloatArray) -> FloatArray:
        """Return mu of each row of the design; that of the coefficients that were asked last is kept."""
        if "beta" not in self._last or not np.array_equal(self._last["beta"], beta):
            self._last.update(beta=beta.copy(), mean=self.family.mean(self._eta(beta)))
        return self._last["mean"]

    def _eta(self, beta: FloatArray) -> FloatArray:
        eta = self.row_moves(beta)
        return eta if self._offset is None else eta + self._offset

    def row_moves(self, direction: FloatArray) -> FloatArray:
        """Return how far a direction moves each linear predictor, with a row for each of the design."""
        return self.crossed.times(direction.reshape(self.family.equations, -1).T)

    def sums(self, beta: FloatArray, share: float = 1.0) -> Sums:
        """Return U, H and the scale; of the naive fit where `share` is 0."""
        mu, crossed = self.row_means(beta), self.crossed
        weighted, weight = self.weighted(share), self.family.weight(mu)
        residual = weighted.outcome - weighted.rows[:, None] * mu
        information = gram(crossed, weight * weighted.rows[:, None, None])
        score = crossed.across(residual).T.ravel()
        return Sums(score, information, self._scale(weighted, weight, information))

    def _scale(self, weighted: Weighted, weight: FloatArray, information: FloatArray) -> FloatArray:
        """Return the sum of |b| h_jj; where the design does not depend on the state nothing cancels, and H has it."""
        if not self.told_apart and self.used is None:
            return np.diag(information)
        sizes = np.einsum("nee->ne", weight) * weighted.size[:, None]
        return self.crossed.across_squares(sizes).T.ravel()

    def residual(self, beta: FloatArray) -> FloatArray:
        """Return Y - mu, (G, K, equations); 0 where psi is."""
        mu = self.mean(beta)
        residual = np.broadcast_to(self.indicated - mu, (*self.shape, mu.shape[-1]))
        return residual if self.used is None else residual * self.used[..., None]

    def psi(self, beta: FloatArray) -> FloatArray:
        """Return psi, (G, K, q)."""
        psi = self.residual(beta)[..., :, None] * self.cells.design[..., None, :]
        return np.asarray(psi.reshape(*self.shape, -1))

    def log_likelihood(self, beta: FloatArray, share: float = 1.0) -> float:
        """Return the sum of N log p(Y | eta)."""
        eta, weighted = self._eta(beta), self.weighted(share)
        total = (weighted.outcome * eta).sum() - weighted.rows @ self.family.cumulant(eta)
        return float(total) + weighted.base

    def reach(self, step: FloatArray) -> float:
        """Return how far a step moves any linear predictor."""
        return float(np.abs(self.row_moves(step)).max(initial=0))


def gram(crossed: Crossed, weight: FloatArray) -> FloatArray:
    """Return sum_n weight_n (x) v_n v_n', (q, q), for weights (n, equations, equations) that are symmetric."""
    e, p = weight.shape[1], crossed.design.shape[1]
    total = np.empty((e, p, e, p))
    for i in range(e):
        for j in range(i, e):
            total[i, :, j] = crossed.gram(weight[:, i, j])
            total[j, :, i] = total[i, :, j]
    return total.reshape(e * p, e * p)


def _by_row(amount: FloatArray) -> FloatArray:
    return amount.reshape(-1, *amount.shape[2:])
