"""Several sensitive columns are one: end to end, and the estimate of one of them against dense algebra."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

from sfumato.analyst.randomized.figures import FEW
from sfumato.analyst.release import Release
from tests.conftest import make_policy
from tests.engines.tools import released

VALUES = {"a": ["x", "y"], "b": [1, 2, 3], "c": [True, False, None]}


def compound(columns: str, folder: Path, rows: int = 4000, **options: object) -> Release:
    rng = np.random.default_rng(2)
    chosen = {
        name: [VALUES[name][k] for k in rng.choice(len(VALUES[name]), rows, p=_shares(len(VALUES[name])))]
        for name in columns
    }
    group = rng.choice(["F", "M"], rows).tolist()
    table = pa.table({"group": group, **chosen})
    roles = {"group": "quasi_identifier"} | dict.fromkeys(columns, "sensitive; missing = 'category'")
    return released(table, make_policy(roles), folder=folder, **options)  # type: ignore[arg-type]


def _shares(size: int) -> list[float]:
    weights = np.arange(size, 0, -1) ** 2
    return (weights / weights.sum()).tolist()


def reference(
    release: Release, asked: list[str], where: str | None = None
) -> dict[tuple[object, ...], tuple[float, float]]:
    """Return estimate and variance of each cell by the dense inverse: x = M A o, Var = M A diag(o) A'M' - diag."""
    names = list(release.manifest.domain.names)
    values = [VALUES[name] for name in names]
    combinations = list(product(*values))
    index = {combination: k for k, combination in enumerate(combinations)}
    rows = release.to_arrow().to_pylist()
    observed = np.zeros(len(combinations))
    for row in rows:
        if where is None or row["group"] == where:
            observed[index[tuple(row[name] for name in names)]] += 1
    q = np.array([int(w) for w in release.manifest.mechanisms[0].sub_tables[0].noise.weights], dtype=float) / 2.0**64
    q = np.broadcast_to(q, (len(combinations),))
    dense = np.tile(q, (len(combinations), 1)) + np.diag(1 - len(combinations) * q)
    inverse = np.linalg.inv(dense)
    cells = list(product(*(VALUES[name] for name in names if name in asked)))
    places = [names.index(name) for name in names if name in asked]
    found = {}
    for cell in cells:
        picked = np.array([tuple(c[p] for p in places) == cell for c in combinations], dtype=float)
        row = picked @ inverse
        chance = observed.sum() * dense.min(axis=1)
        seen = np.where(chance < FEW, np.maximum(observed, chance), observed)
        found[cell] = (float(row @ observed), float(row**2 @ seen - row @ seen))
    return found


@pytest.mark.parametrize(
    ("columns", "asked"), [("ab", ["a"]), ("ab", ["b"]), ("ab", ["a", "b"]), ("abc", ["b"]), ("abc", ["a", "c"])]
)
@pytest.mark.parametrize("format", ["parquet", "csv"])
def test_one_component_is_estimated_as_by_dense_algebra(
    columns: str, asked: list[str], format: str, tmp_path: Path
) -> None:
    release = compound(columns, tmp_path / "r", format=format)
    for where in (None, "F"):
        answer = release.count(asked, f"\"group\" = '{where}'" if where else "")
        expected = reference(release, asked, where)
        assert len(answer.groups) == len(expected)
        z = NormalDist().inv_cdf(0.975)
        for group, row in zip(answer.groups, answer.rows(), strict=True):
            estimate, variance = expected[group]
            assert row["estimate"] == pytest.approx(estimate, abs=1e-6)
            assert row["standard_error"] == pytest.approx(np.sqrt(variance), rel=1e-9)
            assert row["upper"] - row["lower"] == pytest.approx(2 * z * np.sqrt(variance), rel=1e-9)


def test_the_columns_come_in_the_order_that_was_asked(tmp_path: Path) -> None:
    release = compound("ab", tmp_path / "r")
    forth, back = release.count(["a", "group", "b"]), release.count(["b", "a", "group"])
    assert {(b, a, g): v for (a, g, b), v in zip(forth.groups, forth.value, strict=True)} == dict(
        zip(back.groups, back.value, strict=True)
    )


@pytest.mark.parametrize("method", ["inverse", "projected", "em"])
@pytest.mark.parametrize("target", ["table", "population"])
def test_all_estimators_sum_to_the_rows(method: str, target: str, tmp_path: Path) -> None:
    release = compound("abc", tmp_path / "r", rows=1000)
    for by in ("a", ["a", "c"], ["group", "b"]):
        answer = release.count(by, method=method, target=target)  # type: ignore[arg-type]
        assert answer.value.sum() == pytest.approx(1000)
        assert (answer.standard_error > 0).all()
        assert method == "inverse" or (answer.value >= 0).all()


@pytest.mark.parametrize("method", ["inverse", "projected", "em"])
def test_a_condition_that_nothing_satisfies(method: str, tmp_path: Path) -> None:
    release = compound("ab", tmp_path / "r", rows=200)
    assert release.count("a", "\"group\" = 'nobody'", method=method).value.tolist() == [0, 0]  # type: ignore[arg-type]
    assert release.count(["group", "a"], "\"group\" = 'nobody'", method=method).groups == ()  # type: ignore[arg-type]


def test_the_population_variance_of_a_margin_is_that_of_a_sum(tmp_path: Path) -> None:
    """The margin of the whole compound, asked by one column or summed by hand, has one standard error.

    With a second column of one value the margin is the compound itself: both branches must agree.
    """
    rng = np.random.default_rng(0)
    table = pa.table({"a": rng.choice(["x", "y"], 500).tolist(), "b": [1] * 500})
    release = released(table, make_policy({"a": "sensitive", "b": "sensitive; domain = [1, 2]"}), folder=tmp_path / "r")
    summed = release.count("a", target="population")
    x = reference_counts(release)
    assert summed.standard_error[0] ** 2 == pytest.approx(x, rel=1e-9)


def reference_counts(release: Release) -> float:
    """Return rows times the sample variance of the terms that the estimate of a = x adds up."""
    rows = release.to_arrow().to_pylist()
    domain, matrix = release.manifest.domain, release.manifest.mechanism_values[0].matrix
    inverse = np.linalg.inv(matrix.dense())
    picked = np.array([v[0] == "x" for v in domain.values], dtype=float) @ inverse
    terms = np.array([picked[domain.index[row["a"], row["b"]]] for row in rows])
    return float(terms.var(ddof=1) * len(rows))
