"""Several attributes randomized independently of each other: the Kronecker product of their matrices.

    P = P_1 x P_2 x ... x P_m      P[(j_1 .. j_m), (i_1 .. i_m)] = P_1[j_1, i_1] ... P_m[j_m, i_m]      AD section III

Products, inverses, squares and condition numbers of Kronecker products are those of the factors, so everything is done
along one axis after the other: O(m D) for D cells, and nothing larger than the table is ever held.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Matrix

Along = Callable[[Matrix, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class ProductMatrix:
    """The matrix of a combination of attributes; its cells are numbered with the last attribute running fastest."""

    factors: tuple[Matrix, ...]

    def __post_init__(self) -> None:
        if not self.factors:
            raise ValueError("a product needs a factor")

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of values of each attribute."""
        return tuple(factor.size for factor in self.factors)

    @property
    def size(self) -> int:
        """D, the number of cells."""
        return math.prod(self.sizes)

    @property
    def retention(self) -> None:
        """There is none: a product of two is not of that form, unless one has a single value."""
        return

    @property
    def uniform_noise(self) -> None:
        """There is none."""
        return

    def dense(self) -> FloatArray:
        """Return the D x D matrix; for small domains and tests."""
        dense: FloatArray = np.ones((1, 1))
        for factor in self.factors:
            dense = np.kron(dense, factor.dense()).astype(np.float64)
        return dense

    def apply(self, x: FloatArray) -> FloatArray:
        """Return P x."""
        return self._along(x, lambda factor, x: factor.apply(x))

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        """Return P^T y."""
        return self._along(y, lambda factor, x: factor.apply_transposed(x))

    def solve(self, observed: FloatArray) -> FloatArray:
        """Return P^-1 o."""
        return self._along(observed, lambda factor, x: factor.solve(x))

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        """Return P^-T y."""
        return self._along(y, lambda factor, x: factor.solve_transposed(x))

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        """Return (P^-1 o P^-1) y, the entries squared."""
        return self._along(observed, lambda factor, x: factor.inverse_squared_apply(x))

    @cached_property
    def least_chance(self) -> FloatArray:
        """min_i P[j, i] for each cell j."""
        least = np.ones(1)
        for factor in self.factors:
            least = np.multiply.outer(least, factor.least_chance).ravel()
        return least

    @property
    def is_invertible(self) -> bool:
        """Whether every factor has an inverse."""
        return all(factor.is_invertible for factor in self.factors)

    @property
    def why_singular(self) -> str:
        """Why the first factor without an inverse has none; "" where every one has."""
        return next((factor.why_singular for factor in self.factors if not factor.is_invertible), "")

    @property
    def condition_number(self) -> float:
        """The product of the factors' condition numbers."""
        return math.prod(factor.condition_number for factor in self.factors)

    @property
    def epsilon(self) -> float:
        """Local differential privacy of all attributes together: the sum of the factors'."""
        return math.fsum(factor.epsilon for factor in self.factors)

    def _along(self, x: FloatArray, operation: Along) -> FloatArray:
        """Apply an operation of each factor along its axis."""
        table = x.reshape(*x.shape[:-1], *self.sizes)
        first = x.ndim - 1
        for place, factor in enumerate(self.factors):
            axis = first + place
            table = np.moveaxis(operation(factor, np.moveaxis(table, axis, -1)), -1, axis)
        return np.ascontiguousarray(table).reshape(x.shape)
