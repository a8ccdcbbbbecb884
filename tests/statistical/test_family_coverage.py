"""95% intervals of counts hold what they say under every family of matrices, sets and cards included.

As test_figures_coverage: the code under test is what `Release.count` runs after DuckDB has counted. The mean coverage
of a family's cells lies in [93%, 97%], single ones within the 1e-6 quantiles of a true coverage of 94% and 96%; cells
with 30 records or more are judged. 500 releases in every run, 2,000 with `-m slow`. Errors that are 15% too small, or
25% too large, must fail. Seeds are fixed.
"""

from __future__ import annotations

import pytest

from sfumato.analyst.answer import Target
from tests.conftest import slow
from tests.statistical.families import FAMILIES
from tests.statistical.test_figures_coverage import MEASURES, Study, synthetic
from tests.statistical.test_own_values_coverage import LONG, QUICK, is_right, told

COUNTED = [name for name in FAMILIES if name != "file"]
RUNS = [("table", QUICK), slow("table", LONG), slow("population", LONG)]


def study(name: str, target: Target, releases: int) -> Study:
    return Study(synthetic(), FAMILIES[name](8), target, False, releases)


@pytest.mark.parametrize(("target", "releases"), RUNS)
@pytest.mark.parametrize("name", COUNTED)
def test_counts_are_covered(name: str, target: Target, releases: int) -> None:
    found = study(name, target, releases).coverage(MEASURES["count"]).cells
    print(f"{name} {target}: {told(found)}")
    assert is_right(found, releases), told(found)


@pytest.mark.parametrize("factor", [0.85, 1.25])
@pytest.mark.parametrize("name", ["subset", "ranges", "staircase"])
def test_wrong_standard_errors_fail(name: str, factor: float) -> None:
    assert not is_right(study(name, "table", QUICK).coverage(MEASURES["count"], factor).cells, QUICK)
