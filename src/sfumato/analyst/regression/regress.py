"""A model asked of a release, from the formula to the answer."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sfumato.analyst.answer import SAMPLING, check_target
from sfumato.analyst.ask.conditions import fetched, not_too_deep
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.regression.answer import NOISE_ALONE, OF_TABLE, Regression
from sfumato.analyst.regression.fit import fit
from sfumato.analyst.regression.model import Model, model_of
from sfumato.analyst.regression.notes import few_rows
from sfumato.analyst.regression.problem import Target
from sfumato.analyst.regression.reading import CellSource, StreamSource, source_of
from sfumato.analyst.regression.result import Fit, Intervals, Method
from sfumato.errors import UsageError
from sfumato.values.arrays import Progress
from sfumato.values.text import meant

METHODS: tuple[Method, ...] = ("inverse", "likelihood")
INTERVALS: tuple[Intervals, ...] = ("score", "wald")
MOST_WORK = 5e7
"""Patterns times states times coefficients, up to which score intervals take some ten seconds."""
TOO_LONG = (
    "Intervals are estimate and standard errors: score intervals, which hold for rare levels too, would take long. "
    "Ask for them with `--interval score`."
)


@not_too_deep
def regress(
    release: CountedRelease,
    formula: str,
    family: str = "logistic",
    *,
    where: str = "",
    weights: str = "",
    offset: str = "",
    cluster: str = "",
    survey_strata: str = "",
    method: Method = "inverse",
    target: Target = "table",
    level: float = 0.95,
    interval: Intervals | None = None,
    progress: Progress | None = None,
) -> Regression:
    """Fit a model to a release: see `Release.regress`."""
    check_target(target, level)
    _check_one_of(method, METHODS, "method")
    if interval is not None:
        _check_one_of(interval, INTERVALS, "kind of intervals")
    model = model_of(
        release, formula, family, where=where, weights=weights, offset=offset, cluster=cluster,
        survey_strata=survey_strata,
    )  # fmt: skip
    source = source_of(model)
    _check_likelihood(model, method)
    found = fit(source, method=method, progress=progress)
    by = found.intervals_by if found.intervals_by == "wald" else interval or _intervals(source)
    long = (TOO_LONG,) if by == "wald" and interval is None and found.intervals_by == "score" else ()
    notes = (*found.notes, *long, *_notes(source, len(model.columns), found, target))
    return Regression(source.model, source, found, target, level, by, notes)


def _check_one_of(given: str, known: tuple[str, ...], what: str) -> None:
    if given not in known:
        raise UsageError(f"There is no {what} {given!r}.", meant(given, known, "There are"))


def _check_likelihood(model: Model, method: Method) -> None:
    """Raise where there is no likelihood of single rows: labels of sub-tables depend on the hidden value."""
    if method == "likelihood" and any(len(part.mechanism.tables) > 1 for part in model.states.parts):
        raise UsageError(
            "There is no likelihood of a release by sub-tables: which one a row went to depends on its true value, "
            "with a chance that the release does not state.",
            "Use the method 'inverse'.",
        )
    if method == "likelihood" and (model.cluster or model.survey):
        raise UsageError(
            "The likelihood takes rows as independent: it has no errors by clusters or survey strata.",
            "Use the method 'inverse'.",
        )


def _intervals(source: CellSource | StreamSource) -> Intervals:
    """Return score intervals, which sum the equations some ten times for each coefficient, unless that takes long."""
    assert isinstance(source, CellSource)
    columns = len(source.model.columns) * source.model.family.equations**3
    patterns = int(source.counted.starts.sum())
    return "score" if patterns * source.states * columns <= MOST_WORK else "wald"


# --- what is said of the rows -----------------------------------------------------------------------------------------


def _notes(source: CellSource | StreamSource, asked: int, found: Fit, target: Target) -> Iterator[str]:
    model = source.model
    if len(model.columns) < asked:
        yield (
            f"{asked - len(model.columns):,} product(s) of levels have no row, and so no coefficient: "
            "the release has no such records."
        )
    left_out = _selected(model) - _read(source)
    if left_out > 0:
        yield f"{left_out:,} row(s) lack a value in an untouched column of the formula and are left out."
    if model.hidden and any(None in known.of_code for known in model.hidden):
        yield "Records whose true value is missing are left out by correction, never by what was published."
    retention = _retention(model)
    if retention is not None and (few := few_rows(found.rows, retention, found.coefficients.size)):
        yield few
    yield NOISE_ALONE if target == "table" else SAMPLING
    if target == "table":
        yield OF_TABLE


def _selected(model: Model) -> int:
    asked = Counting((), (("count(*)", "sum"),), model.condition.rows)
    return int(fetched(model.release, asked, "The formula").columns[0][0].as_py())


def _read(source: CellSource | StreamSource) -> int:
    if isinstance(source, CellSource):
        return int(source.counted.rows.sum())
    from sfumato.analyst.regression.reading import Asked

    asked = Counting((), (("count(*)", "sum"),), Asked(source.model).where)
    return int(fetched(source.model.release, asked, "The formula").columns[0][0].as_py())


def _retention(model: Model) -> float | None:
    """Return the product of the retentions of all columns, where matrices have any."""
    kept = 1.0
    for part in model.states.parts:
        retentions = [table.matrix.retention for table in part.mechanism.tables]
        if any(each is None for each in retentions):
            return None
        kept *= float(np.mean([np.mean(each) for each in retentions if each is not None]))
    return kept if model.states.parts else None
