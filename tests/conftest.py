"""What tests share: real data by SFUMATO_DATA, small tables and policies."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings

from sfumato.analyst.randomized import inverse
from sfumato.publisher.policy import Policy
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix

settings.register_profile("untimed", deadline=None)  # how fast a machine is proves nothing
settings.load_profile("untimed")

LONG = re.compile(
    # populations where the same study of a table is run, and weights where sub-tables or fine-grain are studied without
    r"test_groups_coverage\.py::test_(anatomy|adult)\[population"
    r"|test_buckets_coverage\.py::test_(counts|averages_and_shares|sums)\[.*population"
    r"|test_figures_coverage\.py::test_(adult|synthetic_table)\[.*population"
    r"|test_figures_coverage\.py::test_synthetic_table\[weighted-(sub-tables|fine-grain)"
    r"|test_association_coverage\.py::test_strong_association\[.*population"
    r"|test_power_prediction\.py::test_chances\[.*population"
    # the second of two divisions of one table, and a second table of the same kind
    r"|test_buckets_coverage\.py::test_fifty_occupations_in_groups_of_ten"
    r"|test_buckets_coverage\.py::test_adult_occupation\[education"
    r"|test_association_coverage\.py::test_adult_by_occupation\[race"
    r"|test_proposal\.py::test_real_tables_get_a_policy_that_fits_and_a_survey\[diabetes130_patients"
    r"|test_robust_groups\.py::test_robust_groups_of_adult\[3-sets1-table"
    # wrong errors of a population, where those of a table are told, and weights in groups
    r"|test_groups_coverage\.py::test_(wrong_standard_errors_fail\[population|weighted)"
    # on Spark: the methods that differ little in this, and further kinds of one mistake
    r"|test_publish\.py::test_the_same_rows_where_some_are_left_out\[(uniform|fine|random|suppression|robust)"
    r"|test_publish_faults\.py::test_a_bad_value_is_told_.*\[(other|bins|missing)"
    r"|test_publish_faults\.py::test_a_table_that_changed_is_refused\[.*(small-domain|a new value-anatomy)"
    r"|test_publish_faults\.py::test_a_row_without_an_identifier\[person"
    r"|test_publish_faults\.py::test_rows_that_moved_need_a_record_key\[(?!Repartition)"
    r"|test_publish_faults\.py::test_the_driver_leaves_nothing\[(OSError|.*_placed)"
    # further draws of random cases, and parts of a deal where the smallest ones are dealt
    r"|test_fine_grain_oracle\.py::test_small_domains\[[12]"
    r"|test_generalization\.py::test_the_search_finds_what_brute_force_finds\[[123]"
    r"|test_anatomy_engine\.py::.*\[one part\]"
)
"""Cases that are left to `pytest -m slow`: a quicker one like each stays in every run."""


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the long cases."""
    for item in items:
        if LONG.search(item.nodeid):
            item.add_marker(pytest.mark.slow)


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
    published as they are: tests follow rows by them; `tests/unit/test_stops.py` has what a plan says of such columns.
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
