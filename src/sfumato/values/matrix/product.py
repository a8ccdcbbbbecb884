"""Several attributes randomized independently of each other: the Kronecker product of their matrices.

    P = P_1 x P_2 x ... x P_m      P[(j_1 .. j_m), (i_1 .. i_m)] = P_1[j_1, i_1] ... P_m[j_m, i_m]      AD section III

Products, inverses, squares and condition numbers of Kronecker products are those of the factors, so everything is done
along one axis after the other: O(m D) for D cells, and nothing larger than the table is ever held.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Estimable, Matrix


@dataclass(frozen=True, eq=False)
class ProductMatrix(Estimable):
    """The matrix of a combination of attributes; its cells are numbered with the last attribute running fastest."""

    factors: tuple[Matrix, ...]

    def __post_init__(self) -> None:
        if not self.factors:
            raise ValueError("a product needs a factor")

    @property
    def size(self) -> int:
        return math.prod(self._values)

    @property
    def outputs(self) -> int:
        return math.prod(self._published)

    @property
    def _values(self) -> list[int]:
        return [factor.size for factor in self.factors]

    @property
    def _published(self) -> list[int]:
        return [factor.outputs for factor in self.factors]

    def apply(self, x: FloatArray) -> FloatArray:
        return self._along(x, self._values, lambda factor, x: factor.apply(x))

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        return self._along(y, self._published, lambda factor, x: factor.apply_transposed(x))

    def solve(self, observed: FloatArray) -> FloatArray:
        return self._along(observed, self._published, lambda factor, x: factor.solve(x))

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        return self._along(y, self._values, lambda factor, x: factor.solve_transposed(x))

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        return self._along(observed, self._published, lambda factor, x: factor.inverse_squared_apply(x))

    def uncorrected(self, observed: FloatArray) -> FloatArray:
        return self._along(observed, self._published, lambda factor, x: factor.uncorrected(x))

    @cached_property
    def least_chance(self) -> FloatArray:
        least = np.ones(1)
        for factor in self.factors:
            least = np.multiply.outer(least, factor.least_chance).ravel()
        return least

    @property
    def is_invertible(self) -> bool:
        return all(factor.is_invertible for factor in self.factors)

    @property
    def why_singular(self) -> str:
        return next((factor.why_singular for factor in self.factors if not factor.is_invertible), "")

    @property
    def condition_number(self) -> float:
        return math.prod(factor.condition_number for factor in self.factors)

    def _along(
        self, x: FloatArray, sizes: Iterable[int], operation: Callable[[Matrix, FloatArray], FloatArray]
    ) -> FloatArray:
        """Apply an operation of each factor along its axis; the axes have these sizes before."""
        table = x.reshape(*x.shape[:-1], *sizes)
        for axis, factor in enumerate(self.factors, start=x.ndim - 1):
            table = np.moveaxis(operation(factor, np.moveaxis(table, axis, -1)), -1, axis)
        return np.ascontiguousarray(table).reshape(*x.shape[:-1], -1)
