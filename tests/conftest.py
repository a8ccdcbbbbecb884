"""What tests share: real data by SFUMATO_DATA, small tables and policies."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import settings

from sfumato.analyst.randomized import inverse
from sfumato.publisher.policy import Policy
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import PerturbationMatrix

settings.register_profile("untimed", deadline=None)  # how fast a machine is proves nothing
settings.load_profile("untimed")


def slow(*values: Any) -> Any:
    """Return a case that is left to `pytest -m slow`: a quicker one like it stays in every run."""
    return pytest.param(*values, marks=pytest.mark.slow)


def exact_weights(matrix: Matrix) -> list[list[int]]:
    """Return 2^64 P[y, x], exactly."""
    return [[matrix.weight(y, x) for x in range(matrix.size)] for y in range(matrix.outputs)]


def same_chance(world: tuple[int, ...]) -> int:
    """Return 1: a release that tells nothing beyond which worlds there are, such as a table of groups."""
    return 1


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what commands print not depend on the terminal that the tests run in."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Give the path of a real table; skip where there is none."""

    def find(name: str) -> Path:
        folder = os.environ.get("SFUMATO_DATA")
        if not folder:
            pytest.skip("SFUMATO_DATA names no folder with real tables")
        path = Path(folder) / name
        if not path.exists():
            pytest.skip(f"SFUMATO_DATA has no {name}")
        return path

    return find


def make_policy(
    roles: dict[str, str],
    requirement: str = "rho1 = 0.2\nrho2 = 0.5",
    method: str = "uniform",
    extra: str = "",
    options: str = "",
) -> Policy:
    """Return a policy from roles ("sensitive", or "sensitive; missing = 'drop'" with more keys after semicolons).

    `extra` are lines at the top, `options` more lines of the method's section. Columns that tell rows apart are
    published as they are: tests follow rows by them; tests/methods/test_stops.py has what a plan says of them.
    """
    lines = [extra]
    for name, role in roles.items():
        first, *more = role.split(";")
        lines += [f'[columns."{name}"]', f'role = "{first}"', *(part.strip() for part in more)]
        if first in ("quasi_identifier", "other") and "publish_as_is" not in role:
            lines.append('publish_as_is = "a test follows rows by it"')
    lines += ["[method]", f'name = "{method}"', options, "[requirement]", requirement]
    return Policy.parse("\n".join(lines))


CLINIC_ROLES = {
    "name": "identifier",
    "age": "quasi_identifier",
    "sex": "quasi_identifier",
    "disease": "sensitive",
}


@pytest.fixture
def clinic() -> pa.Table:
    """FG Fig. 1 (a) and (b): eight patients."""
    return pa.table(
        {
            "name": ["Andy", "Beth", "Carla", "Doug", "Eva", "Fiona", "Gord", "Hank"],
            "age": [21, 25, 26, 28, 32, 34, 36, 39],
            "sex": ["M", "F", "F", "M", "F", "F", "M", "M"],
            "disease": ["SARS", "HIV", "SARS", "HIV", "H1N1", "cancer", "H1N1", "cancer"],
        }
    )


def variance_given_table(matrix: PerturbationMatrix, observed: FloatArray) -> FloatArray:
    """Return the estimated variance of every value's inverse estimate, for the table."""
    return inverse.variance_given_table(inverse.second_moment(matrix, observed), inverse.estimate(matrix, observed))


def variance_in_population(matrix: PerturbationMatrix, observed: FloatArray, rows: float) -> FloatArray:
    """Return the same for a population."""
    moment, x_hat = inverse.second_moment(matrix, observed), inverse.estimate(matrix, observed)
    return inverse.variance_in_population(moment, x_hat, rows)
