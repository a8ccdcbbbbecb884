"""The distribution function of a randomized column itself: the share of the records at or below each of its values.

    F(c) = (records at or below c) / (records that have a value)

Both are unbiased estimates; the interval of their quotient is Fieller's, for one value at a time. They are neither put
in order nor cut to what is possible: by chance F may fall, and leave 0 to 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.analyst.answer import Answer, Key, Quotient, Target, check_method
from sfumato.analyst.ask.conditions import not_too_deep
from sfumato.analyst.ask.measure import Measure, check_weight, check_weights
from sfumato.analyst.ask.query import Query
from sfumato.analyst.ask.scale import Scale
from sfumato.analyst.ask.where import no_column, parsed
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.analyst.counting.tally import COUNT
from sfumato.analyst.measures import NEGLIGIBLE, missing_notes, quotient_figure
from sfumato.analyst.randomized.figures import Figures, hidden_columns
from sfumato.analyst.sql import Asked
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types

NOTE = (
    "The share of the records at or below each value. By chance it may fall from one value to the next, and leave 0 to "
    "1; each interval is for its own value alone."
)


@not_too_deep
def distribution(
    release: CountedRelease,
    column: str,
    by: str | Sequence[str] = (),
    where: str = "",
    *,
    weight: str = "",
    target: Target = "table",
    level: float = 0.95,
) -> Answer:
    """Estimate the share of the records at or below each value of a column: see `Release.distribution`."""
    by = (by,) if isinstance(by, str) else tuple(by)
    check_method(release, "inverse", target, level)
    scale = _scale(release, column, by)
    types = manifest_types(release)
    check_weight(release, weight, types, hidden_columns(release))
    measure = Measure("share", f"the distribution of {column}", COUNT, scales=(scale,))
    query = Query(by, (by,), (measure,), parsed(where, types) if where.strip() else None, (), None, 0)
    asked = Asked.of(release, query, weight, target, "inverse")
    check_weights(release, weight, asked.question.condition.rows)
    part = asked.part(by)
    figures, places = part.figures, scale.size
    assert isinstance(figures, Figures)
    below = figures.distribution(COUNT, scale)
    nothing = NEGLIGIBLE * figures.magnitude(COUNT)[:, None, None]
    below = replace(below, bottom=np.where(np.abs(below.bottom) <= nothing, 0, below.bottom))
    value, error, *quotient = quotient_figure(Quotient(*(each[:, part.shown].ravel() for each in vars(below).values())))
    keys = [part.keys[name].take(np.repeat(np.arange(part.rows), places)) for name in by]
    return Answer(
        (*keys, Key(column, scale.marks, np.tile(np.arange(places), part.rows))),
        value,
        error,
        value,
        np.full(value.size, np.inf),
        "inverse",
        target,
        level,
        (*asked.warnings([part]), NOTE, *missing_notes([scale])),
        Quotient(*quotient),
    )


def _scale(release: CountedRelease, column: str, by: tuple[str, ...]) -> Scale:
    """Return the order of the column's values; raise if it has none, or if the question is none."""
    types, hidden = manifest_types(release), hidden_columns(release)
    for name in (column, *by):
        if name not in types:
            raise no_column(name, types)
    if len({column, *by}) <= len(by):
        raise UsageError("A column is named more than once.", "Group by other columns, each named once: --by sex")
    if column not in hidden:
        raise UsageError(
            f"{column!r} is not randomized: nothing is to be estimated of its distribution.",
            f"Count it: SELECT {column}, COUNT(*) FROM release GROUP BY {column}",
        )
    if release.manifest.in_buckets:
        raise UsageError(
            f"{column!r} {hidden[column]}: its distribution function is not estimated there.",
            f"Ask for counts by it, and add them up: --by {column}",
        )
    scale = Scale.of(release, column)
    scale.require_order()
    return scale
