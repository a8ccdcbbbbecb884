"""The perturbation matrix, in the integers that are really sampled.

Convention, said once: ``P[j, i] = Pr[x_i -> y_j]``; columns sum to one. A record with value x_i keeps it with
probability p_i (its *retention*) and otherwise draws from the whole domain, the old value included:

    P[j, i] = q_i  (j != i)        P[i, i] = p_i + q_i        q_i = (1 - p_i)/m        FG Eq. (1), SDR Eq. (1)

P[i, i] is called the *diagonal*; retention and diagonal are never mixed.

What is stored is `noise`: integers Q_i with q_i = Q_i / 2^64 exactly. A secret 64-bit word w draws from column i
without any rounding: the new value is w // Q_i, or x_i itself where that is m or more. So every statement
about the matrix can be checked with exact integers on what is sampled.

P is a diagonal plus a rank-one matrix, so products, solutions and the inverse's entries are O(m):
with o = P x, n = sum(x) = sum(o) and t = sum_i q_i x_i, o_i = p_i x_i + t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, WordArray
from sfumato.values.matrix.base import Codes, Direction, Matrix

WORDS = 2**64
"""How many words there are: the denominator of every probability."""

DENSE_LIMIT = 400
"""Up to this size singular values come from the dense matrix, above by Lanczos' iteration."""


def amplification(rho1: Fraction | float, rho2: Fraction | float) -> Fraction:
    """Return the largest gamma that still ensures (rho1, rho2)-privacy.

        gamma = rho2/rho1 * (1 - rho1)/(1 - rho2)        FG Eq. (5); SDR Eq. (6)

    >>> amplification(Fraction(1, 10), Fraction(1, 4))
    Fraction(3, 1)
    """
    rho1, rho2 = Fraction(rho1), Fraction(rho2)
    return rho2 / rho1 * (1 - rho1) / (1 - rho2)


def uniform_retention(gamma: float, m: int) -> float:
    """Return the largest retention whose uniform matrix is at most gamma-amplifying: SDR Eq. (4).

    >>> round(uniform_retention(5, 50), 4)
    0.0741
    """
    return 1.0 if math.isinf(gamma) or m == 1 else (gamma - 1) / (m - 1 + gamma)


@dataclass(frozen=True, eq=False)
class PerturbationMatrix(Matrix):
    """A fine-grain perturbation matrix (uniform is the special case of equal columns), as integers over 2^64."""

    noise: WordArray  # Q_i: weight of each single other value, out of 2^64

    def __post_init__(self) -> None:
        noise = np.array(self.noise, dtype=np.uint64)  # a copy: the caller's array stays writeable
        if noise.ndim != 1 or noise.size == 0:
            raise ValueError("a perturbation matrix needs one noise weight for each value")
        if int(noise.max()) > largest_noise(noise.size):
            raise ValueError("a noise weight is so large that its column would sum to more than one")
        noise.flags.writeable = False
        object.__setattr__(self, "noise", noise)

    @classmethod
    def from_retention(cls, retention: Iterable[float]) -> PerturbationMatrix:
        """Return the integer matrix next to these retentions, noise rounded up (towards more privacy)."""
        exact = [Fraction(float(p)) for p in retention]
        m = len(exact)
        if not exact or not all(0 <= p <= 1 for p in exact):
            raise ValueError("there is a retention for each value; retention probabilities lie between 0 and 1")
        cap = largest_noise(m)
        return cls(np.array([min(cap, math.ceil((1 - p) * WORDS / m)) for p in exact], dtype=np.uint64))

    @property
    def size(self) -> int:
        return int(self.noise.size)

    @cached_property
    def is_uniform(self) -> bool:
        """Whether all columns have the same retention."""
        return bool((self.noise == self.noise[0]).all())

    @property
    def uniform_noise(self) -> int | None:
        """The noise weight of all columns; None where they differ."""
        return int(self.noise[0]) if self.is_uniform else None

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def publishes_values(self) -> bool:
        return True

    @property
    def integers(self) -> bytes:
        return self.noise.astype("<u8").tobytes()

    def written(self) -> dict[str, Any]:
        weights = self.noise[:1] if self.is_uniform else self.noise
        return {"noise": {"size": self.size, "weights": list(map(str, weights.tolist()))}}

    @classmethod
    def read(cls, raw: Any) -> PerturbationMatrix:
        """Return what was written."""
        size, weights = raw["size"], np.array([int(q) for q in raw["weights"]], dtype=np.uint64)
        if weights.size not in (1, size):
            raise ValueError(f"{weights.size} noise weights for {size} values")
        return cls(np.broadcast_to(weights, (size,)))

    # --- probabilities -------------------------------------------------------------------------------------------

    @cached_property
    def retention(self) -> FloatArray:
        """p_i = 1 - m Q_i / 2^64, from the exact integer difference."""
        kept = np.uint64(WORDS - 1) - self.noise * np.uint64(self.size)
        return (kept.astype(np.float64) + 1.0) / WORDS

    @cached_property
    def off_diagonal(self) -> FloatArray:
        """q_i."""
        return self.noise.astype(np.float64) / WORDS

    @cached_property
    def diagonal(self) -> FloatArray:
        return self.retention + self.off_diagonal

    def diagonal_weight(self, i: int) -> int:
        """Return 2^64 P[i, i], exactly."""
        return WORDS - (self.size - 1) * int(self.noise[i])

    def weight(self, published: int, true: int) -> int:
        return self.diagonal_weight(true) if published == true else int(self.noise[true])

    def chances(self, published: Codes, true: Codes) -> FloatArray:
        return np.asarray(self.off_diagonal[true] + np.where(published == true, self.retention[true], 0.0))

    def alike(self, first: Codes, second: Codes) -> FloatArray:
        """Return sum_j P[j, first] P[j, second], of each pair: m q q' + q p' + p q' + p p' [first = second]."""
        q1, q2, p1, p2 = (part[codes] for part in (self.off_diagonal, self.retention) for codes in (first, second))
        return np.asarray(self.size * q1 * q2 + q1 * p2 + p1 * q2 + p1 * p2 * (first == second), dtype=np.float64)

    def alike_changed(self, first: Codes, second: Codes) -> FloatArray:
        """Return the same sum over j other than the two: (m - 1 - [first != second]) q q'."""
        others = self.size - 1 - (first != second)
        return np.asarray(others * self.off_diagonal[first] * self.off_diagonal[second])

    def likeliest(self, shares: FloatArray) -> FloatArray:
        """Return max_i P[j, i] f_i for each j; the part of x_j itself is never below its noise."""
        noise = self.off_diagonal * shares
        return np.asarray(np.maximum(noise.max(), self.diagonal * shares))

    @property
    def most_chance(self) -> FloatArray:
        return self.diagonal

    @property
    def noise_range(self) -> tuple[float, float]:
        q = self.off_diagonal
        return (float(q.min()), float(q.max())) if self.size > 1 else (0.0, 0.0)

    @property
    def pure_noise(self) -> FloatArray:
        """1 - p_i."""
        return 1 - self.retention

    def dense(self) -> FloatArray:
        """Return the m x m matrix; for small domains and tests."""
        p = np.tile(self.off_diagonal, (self.size, 1))
        np.fill_diagonal(p, self.diagonal)
        return p

    # --- products and solutions, in O(m) along the last axis --------------------------------------------------------

    def apply(self, x: FloatArray) -> FloatArray:
        spread: FloatArray = (x * self.off_diagonal).sum(axis=-1, keepdims=True)
        return self.retention * x + spread

    def apply_at(self, x: FloatArray, rows: Codes, published: Codes) -> FloatArray:
        return np.asarray(self.retention[published] * x[rows, published] + (x @ self.off_diagonal)[rows])

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        total: FloatArray = y.sum(axis=-1, keepdims=True)
        return self.retention * y + self.off_diagonal * total

    def solve(self, observed: FloatArray) -> FloatArray:
        """Return P^-1 o; the caller has looked at `condition_number` first.

        o_i = p_i x_i + t and sum(x) = n give t = (sum_i o_i/p_i - n) / sum_i 1/p_i. Written relative to the smallest
        retention p_z, so that nothing cancels as p_z -> 0 (then t -> o_z); x_z follows from the sum.
        """
        p, z = self.retention, self._weakest
        others = self._others
        total = observed.sum(axis=-1, keepdims=True)
        s = (1 / p[others]).sum()
        t = observed[..., z : z + 1] + p[z] * ((observed[..., others] / p[others]).sum(axis=-1, keepdims=True) - total)
        t = t / (1 + p[z] * s)
        x = np.empty(observed.shape)
        x[..., others] = (observed[..., others] - t) / p[others]
        x[..., z : z + 1] = total - x[..., others].sum(axis=-1, keepdims=True)
        return x

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        """Return (P^-1 o P^-1) y, the entries squared: the first term of every variance, in O(m).

        With S_-k = sum_{i != k} 1/p_i and u_k = 1 + p_k S_-k, the inverse has the entries
            (S_-k + 1)/u_k  on the diagonal,    -(1 - p_k)/(p_i u_k) = -(1 - p_k)/(p_k u_i)  elsewhere.
        """
        p, z, others = self.retention, self._weakest, self._others
        u, diagonal = self._inverse_terms
        own = diagonal**2 * observed
        c2 = ((1 - p) / u) ** 2 * observed
        spread = c2.sum(axis=-1, keepdims=True) - c2
        result = np.empty_like(own)
        result[..., others] = own[..., others] + spread[..., others] / p[others] ** 2
        away = (((1 - p[others]) / p[others]) ** 2 * observed[..., others]).sum(axis=-1)
        result[..., z] = own[..., z] + away / u[z] ** 2
        return result

    @cached_property
    def _weakest(self) -> int:
        return int(np.argmin(self.retention))

    @cached_property
    def _others(self) -> npt.NDArray[np.intp]:
        return np.flatnonzero(np.arange(self.size) != self._weakest)

    @cached_property
    def _inverse_terms(self) -> tuple[FloatArray, FloatArray]:
        """u_k and the inverse's diagonal. (Retentions are at least 2^-64, so nothing is divided by zero.)"""
        p, z, others = self.retention, self._weakest, self._others
        reciprocal = 1 / p
        s_others = reciprocal.sum() - reciprocal
        s_others[z] = reciprocal[others].sum()  # by itself: 1/p_z may swallow all the others
        u = 1 + p * s_others
        return u, (s_others + 1) / u

    # --- what it is worth ---------------------------------------------------------------------------------------------

    @cached_property
    def is_invertible(self) -> bool:
        """Whether at most one retention is zero up to the integers' grain (two make the matrix singular)."""
        grain = 2 * self.size / WORDS
        return int((self.retention <= grain).sum()) <= 1

    @property
    def why_singular(self) -> str:
        zeros = int((self.retention <= 2 * self.size / WORDS).sum())
        told = f"{zeros} of its {self.size} values have retention 0, and nothing in the release tells these apart."
        return "" if self.is_invertible else told

    @cached_property
    def condition_number(self) -> float:
        """Return the 2-norm condition number sigma_max / sigma_min; infinite where P has no inverse."""
        if self.size == 1:
            return 1.0
        if not self.is_invertible:
            return math.inf
        if self.is_uniform:
            return float(1 / self.retention[0])
        if self.size <= DENSE_LIMIT:
            return float(np.linalg.cond(self.dense()))
        largest = largest_eigenvalue(lambda v: self.apply_transposed(self.apply(v)), self.size)
        smallest = largest_eigenvalue(lambda v: self.solve(self.solve_transposed(v)), self.size)
        return math.sqrt(largest * smallest)

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        """Return P^-T y: y_i = p_i v_i + q_i sum(v); the weakest equation gives sum(v) = n without dividing by p_z."""
        p, q, z, others = self.retention, self.off_diagonal, self._weakest, self._others
        # sum_{i != z} (y_i - q_i n)/p_i + v_z = n  and  p_z v_z + q_z n = y_z
        a, b = (y[..., others] / p[others]).sum(axis=-1, keepdims=True), (q[others] / p[others]).sum()
        n = (y[..., z : z + 1] + p[z] * a) / (q[z] + p[z] * (1 + b))
        v = np.empty(y.shape)
        v[..., others] = (y[..., others] - q[others] * n) / p[others]
        v[..., z : z + 1] = n - v[..., others].sum(axis=-1, keepdims=True)
        return v

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        """The largest ratio of two entries of a row, exactly; None where an entry is zero.

        In row y the diagonal is the largest entry, so the ratio is `upward(y)`; it is largest for one of the two
        values with the least noise.
        """
        if self.size == 1:
            return Fraction(1)
        ratios = [self.upward(y) for y in self.quietest(2)]
        return None if None in ratios else max(r for r in ratios if r is not None)

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        return np.argsort(self.noise, kind="stable")

    def quietest(self, number: int) -> list[int]:
        """Return the values with the least noise, so many."""
        least: list[int] = self._order[:number].tolist()
        return least

    def quietest_except(self, i: int) -> int:
        """Return the value with the least noise among the others."""
        first, second = self.quietest(2)
        return second if i == first else first

    @cached_property
    def least_chance(self) -> FloatArray:
        if self.size == 1:
            return np.ones(1)
        first, second = self.quietest(2)
        least = np.full(self.size, self.off_diagonal[first])
        least[first] = self.off_diagonal[second]
        return least

    # --- the guarantee, on the integers ----------------------------------------------------------------------

    def upward(self, i: int) -> Fraction | None:
        """Return the largest factor by which any published value can raise the odds of x_i; None if unbounded.

            max_y P[y, i] / min_{k != i} P[y, k]

        Retentions are never negative, so the maximum is at y = x_i: (p_i + q_i) / min_{k != i} q_k.
        """
        if self.size == 1:
            return Fraction(1)
        least = int(self.noise[self.quietest_except(i)])
        return Fraction(self.diagonal_weight(i), least) if least else None

    def downward(self, i: int) -> Fraction | None:
        """Return the largest factor by which any published value can lower the odds of x_i; None if unbounded.

        max_y max_{k != i} P[y, k] / P[y, i] = max_{k != i} (p_k + q_k) / q_i
        """
        if self.size == 1:
            return Fraction(1)
        own = int(self.noise[i])
        return Fraction(self.diagonal_weight(self.quietest_except(i)), own) if own else None

    def worst_case(self, i: int, direction: Direction) -> tuple[int, int]:
        """Return the published value and the rival of the factor: the value itself, or the rival, is published."""
        rival = self.quietest_except(i)
        return (i if direction == "upward" else rival), rival

    def raised(self, inside: BoolArray) -> Fraction | None:
        """Return the largest factor by which any published value can raise the odds of a set of values.

        In each row the diagonal is the largest entry, and no other is above 1/m, so that the published value is in the
        set: the largest diagonal inside over the least noise outside.
        """
        least = int(self.noise[~inside].min())
        return Fraction(WORDS - (self.size - 1) * int(self.noise[inside].min()), least) if least else None

    def equal_twice(self, i: int) -> Fraction | None:
        """Return max_y P[y, i] / (the product of the two smallest entries of row y); None if unbounded.

        The maximum is at y = x_i: at another y the entry of x_i is its noise, and if that is one of the two smallest,
        the quotient is 1 over the other, which is at most (diagonal of x_i) / (two smallest of the others), as no noise
        exceeds a diagonal.
        """
        if self.size == 1:
            return Fraction(1)
        own = self.diagonal_weight(i)
        others = [int(self.noise[k]) for k in self.quietest(3) if k != i]
        smallest = others[0] * (others[1] if self.size > 2 else own)
        return Fraction(own * WORDS, smallest) if smallest else None

    # --- sampling -----------------------------------------------------------------------------------------------------

    def _drawn(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the published codes, each drawn from column `code` by its word, exactly.

        w // Q_i < m holds for m Q_i words, Q_i for each new value; the other words keep x_i.
        """
        divisor, never = self._divisors
        new = words // divisor.take(codes)
        keep = new >= self.size
        if never is not None:
            keep |= never.take(codes)
        return np.where(keep, codes, new.astype(np.int32))

    @cached_property
    def _divisors(self) -> tuple[WordArray, BoolArray | None]:
        """Q_i, or 1 where it is 0, and which values it is 0 for; None if for none."""
        never = self.noise == 0
        return np.maximum(self.noise, np.uint64(1)), never if never.any() else None


def largest_noise(m: int) -> int:
    """Return the largest noise weight of a domain of m values: m Q fits in a word, and retention is not negative."""
    return (WORDS - 1) // m


def largest_eigenvalue(product: Callable[[FloatArray], FloatArray], m: int, steps: int = 64) -> float:
    """Return the largest eigenvalue of a symmetric positive operator, by Lanczos' iteration with reorthogonalisation.

    The value is never too large, and about 1e-3 too small at worst (where eigenvalues crowd below the largest).
    """
    k = np.arange(m)
    sign = np.where(k * math.sqrt(2) % 1 < 0.5, -1, 1)
    v = 0.3 + sign * (1 + k * math.sqrt(5) % 1)  # irregular: orthogonal to no sum, no value, no pair of values
    basis, t, value = np.empty((0, m)), np.zeros((steps + 1, steps + 1)), 0.0
    for step in range(min(steps, m)):
        basis = np.vstack([basis, v / np.linalg.norm(v)])
        w = product(basis[-1])
        t[step, step] = basis[-1] @ w
        previous, value = value, float(np.linalg.eigvalsh(t[: step + 1, : step + 1])[-1])
        for _ in range(2):
            w = w - basis.T @ (basis @ w)
        t[step, step + 1] = t[step + 1, step] = np.linalg.norm(w)
        if abs(value - previous) <= 1e-9 * value or t[step, step + 1] <= 1e-14 * value:
            break
        v = w
    return value
