"""What the tests of experiments share."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from pathlib import Path

from sfumato.auditor.report.page_figures import WIDE
from sfumato_papers.catalogue import chosen
from sfumato_papers.charts import Chart, Point, specification
from sfumato_papers.data import Data
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, number, sentence
from sfumato_papers.results import to_csv


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


# --- an experiment that is made up ------------------------------------------------------------------------------------

CHART = Chart("one point", "x", "y", (Point("ours", 1.0, 2.0),))


def nobody(running: str, done: float, total: int) -> None:
    """Hear of no progress."""


def made(setting: Setting) -> Outcome:
    """Return an outcome that shows what it was given."""
    comparisons = (
        number("a | b", "1/2", Fraction(1, 2), proved=0.25),
        sentence("trend", "falls", f"seed {setting.seed}", False, because="it rises"),
    )
    return Outcome(comparisons, ({"x": 1, "y": setting.seed},), CHART, "two rows", notes=("a note",))


EXPERIMENT = Experiment("fg-made", "FG", "Table 9", "Made up", made)
