"""Which cases of the long coverage studies are left to `pytest -m slow`: a quicker one like each stays in every run."""

from __future__ import annotations

import re

import pytest

LONG = re.compile(
    r"test_groups_coverage\.py::test_anatomy\[population"
    r"|test_buckets_coverage\.py::test_(counts|averages_and_shares)\[.*population"
    r"|test_figures_coverage\.py::test_(adult|synthetic_table)\[.*(sub-tables|fine-grain).*population"
    r"|test_buckets_coverage\.py::test_fifty_occupations_in_groups_of_ten"
    r"|test_buckets_coverage\.py::test_adult_occupation\[education"
    r"|test_association_coverage\.py::test_adult_by_occupation\[race"
)
"""Populations where the same study of a table is run, and the second of two divisions of one table."""


@pytest.hookimpl(tryfirst=True)  # before cases are chosen by their markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark them."""
    for item in items:
        if LONG.search(item.nodeid):
            item.add_marker(pytest.mark.slow)
