"""Answers drawn as points with error bars, as a plain Vega-Lite specification, and its picture.

Every group has a line of its own, in the order of the answer, with its numbers printed beside it:

    first column of groups      lines
    second                      colours, where it has at most 8 values; if only the first one has, they change places
    further ones                a panel for each of their values, one below the other
    figures                     a panel for each, side by side, with an x axis of its own

Where that would leave panels of a single line, columns are joined to one label instead. All text has one weight: a PDF
with a single font comes out the same byte for byte.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

from sfumato.errors import UsageError
from sfumato.show.files import rows_of
from sfumato.show.layout import COLOURS, LETTER, Layout, Mark, Scale, beside, label_lines, layout_of, percent, plain
from sfumato.show.pictures import by_place

MOST_ROWS = 200
DRAWN = ("figure", "estimate", "lower", "upper")  # what is drawn of a row; its other columns say where
HOURGLASS, BOW_TIE = "M-1,-1H1L-1,1H1Z", "M-1,-1V1L1,-1V1Z"
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", HOURGLASS, BOW_TIE)
"""One for each colour, told apart in black and white."""
INK, QUIET, FAINT = "#222222", "#666666", "#DDDDDD"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
LINE, BAR, GAP, ASIDE = 13, 15, 6, 12  # pixels: a line of text, a bar among several, between groups, before numbers
ABOVE = -5  # pixels from the first line up to the headings


def error_bars(table: Any, by: Sequence[str], title: str, subtitle: str, level: float) -> dict[str, Any]:
    """Return a Vega-Lite specification of an answer: its estimates, with intervals of this level.

    Lines of the subtitle are kept, and broken where they are longer than the picture is wide.
    """
    _check_size(table.num_rows)
    return _specification(layout_of(rows_of(table), by, level), title, subtitle)


def _specification(picture: Layout, title: str, subtitle: str) -> dict[str, Any]:
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": " ".join((title, *subtitle.splitlines())),
        "title": _title(title, subtitle, picture),
        "concat": [_panel(picture, panel, figure) for panel, figure in picture.order()],
        "columns": picture.beside,
        "spacing": {"row": 20, "column": 36},
        "config": deepcopy(CONFIG),
    }


def points(table: Any, by: Sequence[str], figures: Sequence[str], title: str) -> dict[str, Any]:
    """Return a Vega-Lite specification of some columns of numbers, which are no estimates and have no intervals."""
    names = {name: f"{name}_" if name in DRAWN else name for name in by}
    rows = [
        {shown: row[name] for name, shown in names.items()}
        | {"figure": figure, "estimate": row[figure], "lower": None, "upper": None}
        for row in rows_of(table)
        for figure in figures
    ]
    _check_size(len(rows))
    return _specification(layout_of(rows, list(names.values()), None), title, "")


def subtitle_of(about: Mapping[str, Any]) -> str:
    r"""Return what a reader must know of an answer: level and target of its intervals, the method, then the notes.

    >>> subtitle_of({"method": "inverse", "target": "table", "level": 0.95, "notes": ["Unbiased."]})
    '95% intervals for the table; method: inverse\nUnbiased.'
    """
    first = f"{percent(about['level'])} intervals for the {about['target']}; method: {about['method']}"
    return "\n".join((first, *about["notes"]))


def _check_size(rows: int) -> None:
    if rows > MOST_ROWS:
        raise UsageError(
            f"{rows:,} estimates are too many for a picture, which holds {MOST_ROWS}.",
            "Add LIMIT to the query, or group by fewer columns.",
        )
    if rows == 0:
        raise UsageError("The answer has no estimate to draw.", "Ask for groups that the release has.")


# --- the specification ------------------------------------------------------------------------------------------------

TEXT: dict[str, Any] = {
    "labelColor": INK, "labelFontSize": 11, "labelLimit": 0,
    "titleColor": QUIET, "titleFontSize": 11, "titleFontWeight": "normal", "titleLimit": 0,
}  # fmt: skip
LEGEND = {"orient": "top", "titleOrient": "left", "titleAnchor": "start", "symbolOpacity": 1, "symbolSize": 60}
TITLE = {
    "anchor": "start", "color": INK, "fontSize": 15, "fontWeight": "normal", "limit": 0, "offset": 14,
    "subtitleColor": QUIET, "subtitleFontSize": 11, "subtitleLineHeight": LINE + 1, "subtitlePadding": 6,
}  # fmt: skip
CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": "white",
    "padding": 12,
    "view": {"stroke": None},
    "axis": {**TEXT, "gridColor": FAINT, "domainColor": QUIET, "tickColor": QUIET},
    "legend": {**TEXT, **LEGEND},
    "text": {"fontSize": 11, "color": INK},
    "title": TITLE,
}


def _title(title: str, subtitle: str, picture: Layout) -> dict[str, Any]:
    """Return title and subtitle, broken to the width of the picture; arrows are explained where there are any."""
    notes = subtitle.splitlines()
    if any(m.lower < picture.scales[m.figure].low or m.upper > picture.scales[m.figure].high for m in picture.marks):
        notes.append("An arrow marks an interval that goes on beyond the axis.")
    below = {"subtitle": _broken(notes, picture.letters)} if notes else {}
    return {"text": _broken([title], picture.letters * 11 // 15), **below}


def _broken(lines: Iterable[str], letters: int) -> list[str]:
    return [plain(part) for line in lines for part in textwrap.wrap(line, letters)]


def _panel(picture: Layout, panel: str, figure: str) -> dict[str, Any]:
    """Return a panel: the lines of all figures, so that those side by side are level, and the marks of one."""
    scale = picture.scales[figure]
    marks = [mark for mark in picture.marks if mark.panel == panel]
    lines = picture.lines(panel)
    labels = [label_lines(line) for line in lines]
    step = max(LINE * max(map(len, labels)), BAR * len(picture.colours)) + GAP
    is_left = picture.beside == 1 or figure == next(iter(picture.scales))
    is_top, is_bottom = panel == picture.panels[0], panel == picture.panels[-1]
    x_title = plain(f"{figure or 'estimate'}{picture.interval}") if is_bottom else None
    return {
        "width": scale.width,
        "height": step * len(lines),
        "data": {"values": [_datum(mark, lines, picture, scale) for mark in marks if mark.figure == figure]},
        "layer": [
            *_zero(scale),
            {"encoding": _places(picture, labels, is_left, is_top), "layer": _layers(picture, scale, x_title)},
            *_headings(picture, ", ".join(filter(None, (panel, figure))), scale, is_top),
        ],
    }


def _headings(picture: Layout, text: str, scale: Scale, is_top: bool) -> list[dict[str, Any]]:
    """Return the heading of a panel, and above the first one that of the numbers beside the bars."""
    heading = "value" if scale.is_exact else f"estimate{picture.interval}"
    over_numbers = _text([heading], scale.width + ASIDE, ABOVE, color=QUIET)
    lines = _broken([text], int(scale.width / LETTER))
    over_panel = _text(lines, 0, ABOVE - (LINE + 5) * is_top - LINE * (len(lines) - 1), fontSize=12, lineHeight=LINE)
    return [*([over_numbers] if is_top else []), *([over_panel] if text else [])]


def _text(lines: list[str], x: int, y: int, **style: Any) -> dict[str, Any]:
    return {
        "data": {"values": [{}]},
        "mark": {"type": "text", "align": "left", "baseline": "bottom", "text": lines, **style},
        "encoding": {"x": {"value": x}, "y": {"value": y}},
    }


def _datum(mark: Mark, lines: list[str], picture: Layout, scale: Scale) -> dict[str, Any]:
    """Return what is drawn of a mark: an interval that goes on beyond the axis ends with it."""
    has_bar = mark.width > 0
    numbers = beside(mark, scale)
    return {
        "line": lines.index(mark.line),
        "colour": picture.colours.index(mark.colour) if picture.colours else 0,
        "estimate": mark.estimate if math.isfinite(mark.estimate) else None,
        "lower": max(mark.lower, scale.low) if has_bar else None,
        "upper": min(mark.upper, scale.high) if has_bar else None,
        "goes_below": mark.lower < scale.low,
        "goes_above": mark.upper > scale.high,
        "numbers": numbers,
        "description": ", ".join(filter(None, (mark.panel, mark.line, mark.colour, mark.figure))) + f": {numbers}",
    }


def _places(picture: Layout, labels: list[list[str]], is_left: bool, is_top: bool) -> dict[str, Any]:
    axis = {
        "title": plain(", ".join(picture.by_lines)) if is_left and is_top else None,
        "titleAngle": 0, "titleAlign": "right", "titleBaseline": "bottom", "titleX": -8, "titleY": ABOVE,
        "labels": is_left, "labelExpr": by_place(labels),
        "labelOffset": _raised(labels), "labelPadding": 8,
        "ticks": False, "domain": False, "tickBand": "extent" if picture.colours else "center", "grid": True,
    }  # fmt: skip
    y = _nominal("line", len(labels), {"type": "band", "padding": 0}, axis=axis)
    if not picture.colours:
        return {"y": y, "color": {"value": COLOURS[0]}}
    size = len(picture.colours)
    legend = {
        "title": plain(picture.by_colour),
        "labelExpr": by_place([plain(colour) for colour in picture.colours]),
        "columns": max(1, picture.letters // (max(map(len, picture.colours)) + 6)),
    }
    return {
        "y": y,
        "yOffset": _nominal("colour", size, {"paddingOuter": GAP / BAR / 2}),
        "color": _nominal("colour", size, {"range": list(COLOURS[:size])}, legend=legend),
    }


def _raised(labels: list[list[str]]) -> dict[str, Any]:
    """Return the offset that centres labels of several lines: Vega puts their first line where a single one goes."""
    sizes = sorted({len(label) for label in labels} - {1})
    tests = {size: [line for line, label in enumerate(labels) if len(label) == size] for size in sizes}
    return {
        "condition": [
            {"test": f"indexof({lines}, datum.value) >= 0", "value": -LINE * (size - 1) / 2}
            for size, lines in tests.items()
        ],
        "value": 0,
    }


def _nominal(field: str, size: int, scale: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"field": field, "type": "nominal", "sort": None, "scale": {"domain": list(range(size)), **scale}, **more}


def _layers(picture: Layout, scale: Scale, title: str | None) -> list[dict[str, Any]]:
    """Return bars, their ends (arrows where there is none), points, and the numbers beside them."""
    lower, upper, estimate = ({"x": _x(field, scale, title)} for field in ("lower", "upper", "estimate"))
    point = {"type": "point", "filled": True, "opacity": 1, "size": 60}
    arrow = {**point, "aria": False}
    end = {"type": "tick", "orient": "vertical", "opacity": 1, "size": 7, "thickness": 1.5, "aria": False}
    size = len(picture.colours)
    shape = {"shape": _nominal("colour", size, {"range": list(SHAPES[:size])})} if size else {}
    numbers = {"x": {"value": scale.width + ASIDE}, "text": {"field": "numbers"}, "color": {"value": INK}}
    return [
        {"mark": {"type": "rule", "strokeWidth": 1.5, "aria": False}, "encoding": {**lower, "x2": {"field": "upper"}}},
        _where("!datum.goes_below", end, lower),
        _where("!datum.goes_above", end, upper),
        _where("datum.goes_below", {**arrow, "shape": "triangle-left"}, lower),
        _where("datum.goes_above", {**arrow, "shape": "triangle-right"}, upper),
        {"mark": point, "encoding": {**estimate, **shape, "description": {"field": "description"}}},
        {"mark": {"type": "text", "align": "left", "aria": False}, "encoding": numbers},
    ]


def _where(condition: str, mark: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    return {"transform": [{"filter": condition}], "mark": mark, "encoding": encoding}


def _x(field: str, scale: Scale, title: str | None) -> dict[str, Any]:
    ticks = {"values": list(scale.ticks), "format": f",.{scale.tick_decimals}f"}
    axis = {"title": title, **ticks, "labelFlush": False, "grid": True}
    ends = {"domain": [scale.low, scale.high], "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": ends}


def _zero(scale: Scale) -> list[dict[str, Any]]:
    line = {"mark": {"type": "rule", "color": QUIET}, "encoding": {"x": {"datum": 0}}}
    return [line] if scale.low < 0 <= scale.high else []
