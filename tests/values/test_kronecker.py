"""The Kronecker product along axes equals the dense one."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest

from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import epsilon_of


def random_product(rng: np.random.Generator) -> ProductMatrix:
    sizes = rng.integers(1, 5, rng.integers(1, 4))
    return ProductMatrix(tuple(PerturbationMatrix.from_retention(rng.uniform(0.1, 0.95, size)) for size in sizes))


@pytest.mark.parametrize("seed", range(200))
def test_products_equal_dense_ones(seed: int) -> None:
    """To 1e-12, of one table and of several at once."""
    rng = np.random.default_rng(seed)
    product = random_product(rng)
    dense = reduce(np.kron, [factor.dense() for factor in product.factors])
    inverse = np.linalg.inv(dense)
    x = rng.uniform(0, 10, (3, product.size))
    for found, due in (
        (product.apply(x), x @ dense.T),
        (product.apply_transposed(x), x @ dense),
        (product.solve(x), x @ inverse.T),
        (product.solve_transposed(x), x @ inverse),
        (product.inverse_squared_apply(x), x @ (inverse**2).T),
    ):
        assert found == pytest.approx(due, rel=1e-10, abs=1e-12 * np.abs(inverse).max() ** 2 * 10)
        assert found.shape == x.shape
    assert product.solve_transposed(x[0]) == pytest.approx(x[0] @ inverse, rel=1e-10, abs=1e-10)
    assert product.least_chance == pytest.approx(dense.min(axis=1))
    assert product.condition_number == pytest.approx(np.linalg.cond(dense))
    ratio = max(np.log(row.max() / row.min()) for row in dense)
    assert sum(epsilon_of(factor) for factor in product.factors) == pytest.approx(ratio)


def test_a_factor_without_an_inverse_leaves_none() -> None:
    noise = PerturbationMatrix.from_retention([0.0, 0.0, 0.5])
    quiet = PerturbationMatrix.from_retention([0.5, 0.5])
    assert ProductMatrix((quiet, quiet)).is_invertible
    assert not ProductMatrix((quiet, noise)).is_invertible
    with pytest.raises(ValueError, match="needs a factor"):
        ProductMatrix(())
