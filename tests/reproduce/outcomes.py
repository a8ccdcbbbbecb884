"""What the tests of experiments share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sfumato.report.page_figures import WIDE
from sfumato.reproduce.catalogue import chosen
from sfumato.reproduce.charts import specification
from sfumato.reproduce.data import Data
from sfumato.reproduce.experiment import Comparison, Outcome, Setting
from sfumato.reproduce.results import to_csv


@cache
def outcome(name: str, folder: Path | None = None) -> Outcome:
    """Return what an experiment gives in a quick run, with the tables of this folder."""
    return chosen([name])[0].run(Setting(Data(folder), quick=True))


def compared(name: str, folder: Path | None = None) -> dict[str, Comparison]:
    """Return its comparisons by what they compare."""
    return by_name(outcome(name, folder))


def by_name(found: Outcome) -> dict[str, Comparison]:
    """Return the comparisons by what they compare."""
    comparisons = {c.what: c for c in found.comparisons}
    assert len(comparisons) == len(found.comparisons)
    return comparisons


def check_outcome(found: Outcome) -> None:
    """An outcome has rows with the same columns, a picture, and names its data."""
    assert found.rows
    assert {tuple(row) for row in found.rows} == {tuple(found.rows[0])}
    assert len(to_csv(found.rows).splitlines()) == 1 + len(found.rows)
    assert specification(found.chart, WIDE)["layer"]
    assert found.chart.alt.endswith(".")
    assert found.data
