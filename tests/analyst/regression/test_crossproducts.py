"""Products of a design: the quick ways give what the plain ones do."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.analyst.regression.crossproducts import Crossed, distinct_rows
from sfumato.analyst.regression.fit import fit
from tests.analyst.regression.cases import CASES, source_of
from tests.constants import set_constants


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("levels", "numbers"), [(1, 0), (3, 0), (4, 1), (80, 2), (4, 9)])
def test_products_of_levels(levels: int, numbers: int, together: bool) -> None:
    """Of designs with few and many levels, with and without other columns: X b, X'r, X'wX, and those of squares.

    Rows with the same levels lie `together`, or anywhere.
    """
    rng = np.random.default_rng(levels)
    own = np.eye(levels)[rng.integers(0, levels, 3_000)]
    design = np.hstack([np.ones((3_000, 1)), rng.integers(0, 2, (3_000, 1)), own, rng.normal(size=(3_000, numbers))])
    if together:
        design = design[np.lexsort(design[:, : levels + 2].T)]
    crossed, p = Crossed(design), design.shape[1]
    beta, residual, weight = rng.normal(size=(p, 2)), rng.normal(size=(3_000, 2)), rng.normal(size=3_000)
    assert np.allclose(crossed.times(beta), design @ beta, rtol=0, atol=1e-12)
    assert np.allclose(crossed.across(residual), design.T @ residual, rtol=0, atol=1e-10)
    assert np.allclose(crossed.across_squares(residual), (design**2).T @ residual, rtol=0, atol=1e-10)
    assert np.allclose(crossed.gram(weight), design.T @ (weight[:, None] * design), rtol=0, atol=1e-10)


@pytest.mark.parametrize("columns", [1, 8, 9, 64, 65, 130])
def test_distinct_rows(columns: int) -> None:
    """Each row is the distinct one that it is said to be, and no two of these are equal."""
    rng = np.random.default_rng(columns)
    flags = rng.random((50, columns))[rng.integers(0, 50, 400)] < 0.5
    distinct, own = distinct_rows(flags)
    assert np.array_equal(distinct[own], flags)
    assert len({row.tobytes() for row in distinct}) == len(distinct) == len({row.tobytes() for row in flags})


@pytest.mark.parametrize("name", list(CASES))
def test_quick_ends(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends that are found without solving in between are those that are found with it."""
    found = fit(source_of(CASES[name]))
    ends = {target: found.interval(target) for target in ("table", "population")}
    set_constants(monkeypatch, "sfumato.analyst.regression", MOST_LOOKS=0)
    for target, quick in ends.items():
        slow, errors = found.interval(target), found.standard_errors(target)
        same = np.isclose(quick, slow, rtol=0, atol=5e-7 * np.nan_to_num(errors, nan=1.0)[:, None])
        assert (same | (quick == slow)).all()
