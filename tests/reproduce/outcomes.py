"""What the tests of experiments share."""

from __future__ import annotations

from sfumato.report.page_figures import WIDE
from sfumato.reproduce.charts import specification
from sfumato.reproduce.experiment import Comparison, Outcome
from sfumato.reproduce.results import to_csv


def by_name(outcome: Outcome) -> dict[str, Comparison]:
    """Return the comparisons by what they compare."""
    found = {c.what: c for c in outcome.comparisons}
    assert len(found) == len(outcome.comparisons)
    return found


def check_outcome(outcome: Outcome) -> None:
    """An outcome has rows with the same columns, a picture, and names its data."""
    assert outcome.rows
    assert {tuple(row) for row in outcome.rows} == {tuple(outcome.rows[0])}
    assert len(to_csv(outcome.rows).splitlines()) == 1 + len(outcome.rows)
    assert specification(outcome.chart, WIDE)["layer"]
    assert outcome.chart.alt.endswith(".")
    assert outcome.data
