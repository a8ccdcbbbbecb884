"""A first look at a table: its columns, its first rows, and how often values occur. Private, like every count.

Counts are exact for columns with few different values. Numbers and dates with many are counted in narrow cells, of
which bins can be made without reading the table again; texts with many are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from sfumato.engines.base import Source
from sfumato.engines.embedded.counting import not_nan, number_of, plain_kind, run, shared
from sfumato.engines.rows.encoding import fitted, in_order, new_encoder
from sfumato.engines.rows.looking import see
from sfumato.publisher.survey.counting import TOGETHER, describe_columns
from sfumato.publisher.survey.found import PLAIN_TYPES, Column
from sfumato.publisher.table import check_columns, no_progress
from sfumato.values.arrays import Progress
from sfumato.values.attributes import Attribute, label
from sfumato.values.looks import Look, look_at

KEPT = 1_000
"""Different values up to which each is counted."""
CELLS = 200
"""Of a column with more numbers than that."""
MOST_ROWS, MOST_FIELDS = 100, 5_000
"""Of the first rows: no page shows more of a table."""
MOST_LETTERS = 80
DATES = "date or time"

How = Literal["values", "cells", "months", ""]
"""How a column is counted: each value; numbers in cells, by their middles; dates by months; not at all."""


@dataclass(frozen=True)
class ColumnView:
    """A column as it is in the table."""

    facts: Column
    look: Look | None
    kind: Any  # its Arrow type, of values
    how: How
    values: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.facts.name

    def published(self, attribute: Attribute) -> tuple[list[str], list[int]] | None:
        """Return the values as they would be published, in their order, and their records; None if it is not known.

        Values that publishing would refuse, and missing ones, are left out.
        """
        if not self.how:
            return None
        attribute = replace(fitted(attribute, self.kind), missing="drop")
        encoder = new_encoder(attribute)
        try:
            codes = encoder.encode(pa.array(self.values, pa.string()).cast(self.kind), 0)
        except pa.ArrowException:  # the middle of a cell may be no value of the type
            return None
        known = attribute.declared if attribute.declared is not None else encoder.learned
        counts = np.bincount(codes[codes >= 0], np.array(self.counts)[codes >= 0], minlength=len(known))
        order = range(len(known)) if attribute.declared is not None else _order(known, attribute)
        return [label(known[k]) for k in order], [int(counts[k]) for k in order]


def _order(known: Sequence[Any], attribute: Attribute) -> list[int]:
    place = {value: k for k, value in enumerate(known)}
    return [place[value] for value in in_order(known, attribute)]


@dataclass(frozen=True)
class Overview:
    """What is shown of a table before anything is decided."""

    rows: int
    columns: tuple[ColumnView, ...]
    first: tuple[tuple[str | None, ...], ...]

    def __getitem__(self, name: str) -> ColumnView:
        return next(column for column in self.columns if column.name == name)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns, in the table's order."""
        return tuple(column.name for column in self.columns)


def overview(source: Source, progress: Progress = no_progress) -> Overview:
    """Look at a table: some passes over its columns, a few of them at a time, in bounded memory."""
    check_columns(source.names, source.names)
    report = shared(progress, 2)
    rows, columns = describe_columns(source, report)
    looks = looks_of(source, rows, columns)
    views = [ColumnView(c, looks[c.name], plain_kind(source.column_type(c.name)), _how(c)) for c in columns]
    parts = [views[k : k + TOGETHER] for k in range(0, len(views), TOGETHER)]
    counting = shared(report, len(parts))
    return Overview(rows, tuple(view for part in parts for view in _tallied(source, part, counting)), _first(source))


def looks_of(source: Source, rows: int, columns: Sequence[Column]) -> dict[str, Look | None]:
    """Judge the columns as a plan would, by their exact counts."""
    plain = [c for c in columns if c.type in (*PLAIN_TYPES, DATES)]
    seen = {s.name: s for s in see(source, [Attribute(c.name, "other") for c in plain])}
    found: dict[str, Look | None] = dict.fromkeys(c.name for c in columns)
    for c in plain:
        found[c.name] = look_at(replace(seen[c.name], present=rows - c.missing, distinct=c.distinct))
    return found


def _how(column: Column) -> How:
    if column.type not in (*PLAIN_TYPES, DATES):
        return ""
    if column.distinct <= KEPT:
        return "values"
    if column.type == DATES:
        return "months"
    return "cells" if column.type != "text" and column.low is not None and column.high is not None else ""


def _tallied(source: Source, views: Sequence[ColumnView], progress: Progress) -> Iterator[ColumnView]:
    """Count some columns in one pass: a set of groups for each."""
    names = [view.name for view in views]
    kinds = [source.column_type(name) for name in names]
    batches = (_reported(batch.rows, progress) for batch in source.batches(names))
    keys = ", ".join(f"{_key(k, view)} AS k{k}" for k, view in enumerate(views))
    columns, sets = ", ".join(f"k{k}" for k in range(len(views))), ", ".join(f"(k{k})" for k in range(len(views)))
    grouped = f"FROM (SELECT {keys} FROM rows) GROUP BY GROUPING SETS ({sets})"
    query = f"SELECT grouping({columns}), {columns}, count(*) {grouped}"
    found: list[dict[str, int]] = [{} for _ in views]
    for which, *values, count in run(query, batches, kinds):
        place = next(k for k in range(len(views)) if not which >> (len(views) - 1 - k) & 1)
        if values[place] is not None:
            found[place][values[place]] = count
    for view, counts in zip(views, found, strict=True):
        most_first = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        values = [_middle(view.facts, int(key)) if view.how == "cells" else key for key, _ in most_first]
        yield replace(view, values=tuple(values), counts=tuple(count for _, count in most_first))


def _reported(rows: Any, progress: Progress) -> Any:
    progress(rows.num_rows)
    return rows


def _key(k: int, view: ColumnView) -> str:
    """The group of a row, as text; NULL if it has none."""
    name = f"c{k}"
    if view.how == "values":
        return f"CAST({not_nan(name, view.kind)} AS VARCHAR)"
    if view.how == "months":
        day = name if pa.types.is_date(view.kind) or pa.types.is_timestamp(view.kind) else "NULL::DATE"
        return f"CAST(CAST(date_trunc('month', {day}) AS DATE) AS VARCHAR)"
    if view.how == "cells":
        low, width = view.facts.low, _width(view.facts)
        cell = f"floor(({number_of(name, view.kind)} - ({low!r})) / {width!r})"
        return f"CAST(CAST(least(greatest({cell}, 0), {CELLS - 1}) AS INTEGER) AS VARCHAR)"
    return "NULL::VARCHAR"


def _width(column: Column) -> float:
    assert column.low is not None
    assert column.high is not None
    return (column.high - column.low) / CELLS


def _middle(column: Column, cell: int) -> str:
    assert column.low is not None
    middle = column.low + (cell + 0.5) * _width(column)
    return str(round(middle)) if column.whole else repr(middle)


def _first(source: Source) -> tuple[tuple[str | None, ...], ...]:
    """Return the first rows as text, long ones cut."""
    most = min(MOST_ROWS, MOST_FIELDS // max(1, len(source.names)))
    for batch in source.batches(source.names):
        columns = [column.to_pylist() for column in batch.rows.slice(0, most).columns]
        return tuple(tuple(map(_shown, row)) for row in zip(*columns, strict=True))
    return ()


def _shown(value: object) -> str | None:
    if value is None:
        return None
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= MOST_LETTERS else f"{text[: MOST_LETTERS - 1]}…"
