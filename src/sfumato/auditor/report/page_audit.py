"""What a release is worth to analysts, from the record of an audit; and other methods beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.auditor.report.page import Block, Details, Facts, Section, Table, Text, figure, table
from sfumato.auditor.report.page_figures import TRADED, Traded, keys_of, traded
from sfumato.auditor.report.page_findings import Record, cell, risk


@dataclass(frozen=True)
class Compared:
    """A method at the same requirement: the share of people guessed right, the error of counts, its run time; or why
    it cannot be."""

    method: str
    risk: float | None = None
    error: float | None = None
    seconds: float | None = None
    reason: str = ""


def utility(audit: Record) -> Section:
    measured = audit["utility"]
    facts = [(term, f"{risk(measured[key])}{more}") for key, term, more in SHARES if measured[key] is not None]
    useful = list(_useful(measured))
    tables = tuple(block for block in useful if not isinstance(block, Text))
    blocks: list[Block] = [Facts(tuple(facts), "about"), *(block for block in useful if isinstance(block, Text))]
    blocks += [Details("Estimated tables and associations beside the true ones", tables)] if tables else []
    blocks += [Text(note, "note") for note in measured["notes"]]
    return Section("utility", "What it is worth", tuple(blocks))


SHARES = (
    ("published_share", "Published", " as many rows as the table has records"),
    ("record_utility", "True values", " of the records are published with their own value, expected"),
    ("aggregate_utility", "Aggregate utility", ", of the counts; high by itself where there are many values"),
)
"""Keys of the record, what they are called, and what the figure is of."""


def _useful(measured: Record) -> Iterator[Block]:
    figures = ("total_variation", "naive_total_variation", "median_error", "covered")
    rows = [
        (" × ".join(t["columns"]), f"{t['cells']:,}", *(cell(t[name]) for name in figures)) for t in measured["tables"]
    ]
    if rows:
        columns = ("table of", "cells", "total variation", "uncorrected", "median error", "intervals that hold")
        yield table("How near estimated tables come to the true ones", columns, rows)
    if asked := measured["queries"]:
        yield Text(
            f"Of {asked['asked']:,} random counting queries half have a relative error of at most "
            f"{risk(asked['median_error'])} (uncorrected: {risk(asked['naive_median_error'])}); the mean is "
            f"{risk(asked['mean_error'])} (uncorrected: {risk(asked['naive_mean_error'])})."
        )
    strengths = [
        (f"{a['first']}, {a['second']}", a["measure"], *(_figure(a[name]) for name in ("truth", "estimate", "naive")))
        for a in measured["associations"]
    ]
    if strengths:
        named = ("columns", "measure", "true", "estimated", "uncorrected")
        yield table("How strongly columns go together", named, strengths, 2)


def _figure(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"


def comparison(methods: Sequence[Compared]) -> Section:
    text = "Every method under the same requirement, on this table. Those that cannot meet it say why."
    blocks: list[Block] = [Text(text)]
    points = [Traded(m.method, m.risk, m.error) for m in methods if m.risk is not None and m.error is not None]
    if points:
        alt = f"{len(points)} methods by people guessed right and error of counts. The numbers are in the table below."
        caption = "The further left both marks are, the better: few people guessed right, and little error."
        keys = keys_of(TRADED, points)
        blocks.append(figure("Risk and error", alt, lambda size: traded(points, size), caption, keys))
    times = ["–" if m.seconds is None else f"{m.seconds:.1f} s" for m in methods]
    lines = zip(methods, times, strict=True)
    rows = [(m.method, cell(m.risk), cell(m.error), seconds, m.reason or "–") for m, seconds in lines]
    columns = ("method", "guessed right", "error", "run time", "why not")
    blocks.append(Table("Methods compared", columns, tuple(rows), (False, True, True, True, False)))
    return Section("comparison", "Other methods", tuple(blocks))
