"""Table: choose one, or drop a small file; then what is in it, column by column, before anything is decided."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sfumato.engines.embedded.sources import TEXTS
from sfumato.errors import UsageError
from sfumato.publisher.survey.overview import ColumnView
from sfumato.show.words import share
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.steps import Step, desk_of
from sfumato.studio.web.pages import form, go, page
from sfumato.studio.web.pictures import columns_picture

SUFFIXES = (*TEXTS, ".parquet", ".pq")
"""How the names of files end that can be dropped."""
MOST_OFFERED = 50
FEW = 12
"""Different numbers up to which each is drawn by itself."""
BARS = 10
NAME, PATH = "Table", "/table"


def step(desk: Desk) -> Step:
    """Return which table it is."""
    if not desk.has_table:
        return Step(NAME, PATH, "choose one", "open")
    seen = desk.overview
    return Step(NAME, PATH, desk.table.name if seen is None else f"{seen.rows:,} rows", "fine")


@dataclass(frozen=True)
class Shown:
    """A column as the page shows it."""

    view: ColumnView
    picture: Markup | None
    most: str
    reason: str


def show(request: Request) -> Response:
    """Show the table, or what can be chosen."""
    desk = desk_of(request)
    if not desk.has_table:
        return page(request, "choose.html", offered=_offered(desk), endings=", ".join(SUFFIXES))
    desk.prepare()
    seen, reasons = desk.overview, desk.reasons()
    columns = [] if seen is None else [_shown(view, seen.rows, reasons) for view in seen.columns]
    return page(request, "table.html", seen=seen, columns=columns, reasons=reasons)


def choose(request: Request) -> Response:
    """Open the table of a path."""
    desk, given = desk_of(request), form(request).get("path", "").strip()
    if not given:
        raise UsageError("No table was named.", "Write the path of a file, or choose one of the list.")
    path = Path(given)
    desk.open(desk.allowed(path if path.is_absolute() else desk.folders[0] / path))
    return go("/table")


def drop(request: Request) -> Response:
    """Keep a file that was dropped on the page, for the user alone, and open it."""
    desk = desk_of(request)
    if desk.has_table:
        raise UsageError(f"{desk.table.name!r} is open.", "Start another studio for another table.")
    stem, suffix = _file_name(unquote(request.headers.get("x-file-name", "")))
    file = desk.workspace.new(stem, suffix)
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        target.write(request.state.body)
    try:
        desk.open(file)
    except BaseException:
        file.unlink()  # what cannot be read is not kept
        raise
    return PlainTextResponse("kept")


def again(request: Request) -> Response:
    """Look at the table again, or make the proposal that failed."""
    desk = desk_of(request)
    if desk.overview is None or not desk.workspace.is_empty:
        desk.look()
    else:
        desk.propose()
    return go("/table")


def _file_name(given: str) -> tuple[str, str]:
    """Return the stem and the ending of a file's name, without folders and odd characters; raise if it is no table."""
    name = re.split(r"[/\\]", given)[-1]
    suffix = next((each for each in sorted(SUFFIXES, key=len, reverse=True) if name.lower().endswith(each)), None)
    if suffix is None:
        raise UsageError(
            f"{name[:80]!r} is of a kind that is not read.", f"Drop a file whose name ends in {', '.join(SUFFIXES)}."
        )
    stem = re.sub(r"[^\w-]+", "_", name[: -len(suffix)]).strip("_")[:60]
    return stem or "table", suffix


def _offered(desk: Desk) -> list[Path]:
    """Return the tables that lie in the folders that the user named, not below."""
    found = [
        file
        for folder in dict.fromkeys(desk.folders)
        for file in sorted(folder.iterdir())
        if file.name.lower().endswith(SUFFIXES) and file.is_file()
    ]
    return found[:MOST_OFFERED]


# --- pictures ---------------------------------------------------------------------------------------------------------


def _shown(view: ColumnView, rows: int, reasons: dict[str, str]) -> Shown:
    labels, counts = in_bars(view)
    most = f"{view.values[0]}, {share(view.counts[0] / max(1, rows))}" if view.how == "values" and view.counts else ""
    told = "; ".join(f"{label}: {count:,}" for label, count in zip(labels, counts, strict=True))
    picture = columns_picture(counts, f"Rows by {view.name}: {told}") if counts else None
    return Shown(view, picture, most, reasons.get(view.name, ""))


def in_bars(view: ColumnView) -> tuple[list[str], list[int]]:
    """Return ten bins of numbers, or the most frequent values and the rest."""
    facts = view.facts
    if facts.low is not None and facts.high is not None and facts.numbers and len(view.values) > FEW:
        return _bins(view, facts.low, facts.high)
    if view.how == "months" or facts.type == "date or time":
        pairs = sorted(zip(view.values, view.counts, strict=True))
        return _summed([value for value, _ in pairs], [count for _, count in pairs])
    labels, counts = list(view.values[:BARS]), list(view.counts[:BARS])
    rest = sum(view.counts[BARS:])
    return ([*labels, "others"], [*counts, rest]) if rest else (labels, counts)


def _bins(view: ColumnView, low: float, high: float) -> tuple[list[str], list[int]]:
    counts, width = [0] * BARS, (high - low) / BARS
    for value, count in zip(view.values, view.counts, strict=True):
        try:
            counts[min(BARS - 1, max(0, int((float(value) - low) / width)))] += count
        except ValueError:  # a text among numbers
            continue
    return [f"{low + k * width:,.6g} to {low + (k + 1) * width:,.6g}" for k in range(BARS)], counts


def _summed(labels: Sequence[str], counts: Sequence[int]) -> tuple[list[str], list[int]]:
    """Return ten stretches of what has an order."""
    size = -(-len(labels) // BARS) or 1
    starts = range(0, len(labels), size)
    return [f"from {labels[k]}" for k in starts], [sum(counts[k : k + size]) for k in starts]


ROUTES = (
    Route("/table", show),
    Route("/table/choose", choose, methods=["POST"]),
    Route("/table/drop", drop, methods=["POST"]),
    Route("/table/again", again, methods=["POST"]),
)
