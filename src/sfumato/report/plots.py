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

import html
import json
import math
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from sfumato.errors import UsageError
from sfumato.report.files import by_suffix, new_file, rows_of

MOST_ROWS = 200
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Told apart by colour-blind people: Okabe and Ito, with R's grey for the yellow, which is pale on paper."""
SHAPES = (
    "circle",
    "square",
    "triangle-up",
    "diamond",
    "cross",
    "triangle-down",
    "M-1,-1H1L-1,1H1Z",  # an hourglass
    "M-1,-1V1L1,-1V1Z",  # a bow tie
)
"""One for each colour, told apart in black and white."""
MISSING = "(missing)"
JAVASCRIPT = (
    *(
        "constructor",
        "hasOwnProperty",
        "isPrototypeOf",
        "propertyIsEnumerable",
        "toLocaleString",
        "toString",
        "valueOf",
    ),
    *("__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
)
INK, QUIET, FAINT = "#222222", "#666666", "#DDDDDD"
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
LETTER = 5.2  # pixels of a letter on average, in the size of labels
LABEL_LETTERS, LABEL_LINES = 44, 4  # a longer label is broken into lines
LINE, BAR, GAP, ASIDE = 13, 15, 6, 12  # pixels: a line of text, a bar among several, between groups, before numbers
ABOVE = -5  # pixels from the first line up to the headings
WIDE, NARROW = 400, 240  # pixels of an x axis that is alone, and of one beside others
BESIDE = 3  # more figures than that are put one below the other
TICKS = 8  # at most, on an x axis
MARGIN = 0.03  # of an x axis, beyond the outermost number
LONG = 10  # a bar that reaches farther than so many typical ones does not stretch the axis: it is cut, with an arrow
NEGLIGIBLE = 1e-6  # of a number: no more than rounding


def error_bars(table: Any, by: Sequence[str], title: str, subtitle: str, level: float) -> dict[str, Any]:
    """Return a Vega-Lite specification of an answer: its estimates, with intervals of this level.

    Lines of the subtitle are kept, and broken where they are longer than the picture is wide.
    """
    _check_size(table.num_rows)
    picture = _picture(rows_of(table), by, level)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": " ".join((title, *subtitle.splitlines())),
        "title": _title(title, subtitle, picture),
        "concat": [_panel(picture, panel, figure) for panel, figure in picture.order()],
        "columns": picture.beside,
        "spacing": {"row": 20, "column": 36},
        "config": deepcopy(CONFIG),
    }


def subtitle_of(about: Mapping[str, Any]) -> str:
    r"""Return what a reader must know of an answer: level and target of its intervals, the method, then the notes.

    >>> subtitle_of({"method": "inverse", "target": "table", "level": 0.95, "notes": ["Unbiased."]})
    '95% intervals for the table; method: inverse\nUnbiased.'
    """
    first = f"{_percent(about['level'])} intervals for the {about['target']}; method: {about['method']}"
    return "\n".join((first, *about["notes"]))


def _check_size(rows: int) -> None:
    if rows > MOST_ROWS:
        raise UsageError(
            f"{rows:,} estimates are too many for a picture, which holds {MOST_ROWS}.",
            "Add LIMIT to the query, or group by fewer columns.",
        )
    if rows == 0:
        raise UsageError("The answer has no estimate to draw.", "Ask for groups that the release has.")


# --- what is drawn, and where -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Mark:
    """One estimate: where it is drawn, and its numbers; NaN where there is none."""

    panel: str
    line: str
    colour: str
    figure: str
    estimate: float
    lower: float
    upper: float

    @property
    def width(self) -> float:
        """Return the width of the interval."""
        return self.upper - self.lower

    @property
    def numbers(self) -> list[float]:
        """Return the numbers that are finite."""
        return [v for v in (self.estimate, self.lower, self.upper) if math.isfinite(v)]


@dataclass(frozen=True)
class _Roles:
    """Which columns give the lines, the colours (at most one) and the panels."""

    lines: tuple[str, ...]
    colour: str
    panels: tuple[str, ...]


@dataclass(frozen=True)
class _Picture:
    """All that its panels share."""

    roles: _Roles
    marks: tuple[_Mark, ...]
    scales: dict[str, _Scale]  # of each figure
    interval: str  # " (95% interval)", or nothing if there is none

    @property
    def panels(self) -> list[str]:
        """Return the panels' headings, in the order of the answer."""
        return list(dict.fromkeys(mark.panel for mark in self.marks))

    @property
    def colours(self) -> list[str]:
        """Return the values that have a colour, in the order of the answer."""
        return list(dict.fromkeys(mark.colour for mark in self.marks)) if self.roles.colour else []

    @property
    def beside(self) -> int:
        """Return how many panels are side by side."""
        return len(self.scales) if len(self.scales) <= BESIDE else 1

    @property
    def letters(self) -> int:
        """Return how many letters fit in a line across the picture, about."""
        labels = max(len(line) for mark in self.marks for line in _label_lines(mark.line))
        numbers = max(len(_beside(mark, self.scales[mark.figure])) for mark in self.marks)
        return labels + self.beside * (numbers + int(next(iter(self.scales.values())).width / LETTER))

    def order(self) -> list[tuple[str, str]]:
        """Return panel and figure of every cell, line by line."""
        if self.beside == 1:
            return [(panel, figure) for figure in self.scales for panel in self.panels]
        return [(panel, figure) for panel in self.panels for figure in self.scales]


def _picture(rows: list[dict[str, Any]], by: Sequence[str], level: float) -> _Picture:
    roles = _roles(rows, by)
    marks = tuple(_mark(row, roles, "" if "figure" in by else row.get("figure", "")) for row in rows)
    figures = list(dict.fromkeys(mark.figure for mark in marks))
    width = WIDE if len(figures) == 1 or len(figures) > BESIDE else NARROW
    scales = {figure: _scale([mark for mark in marks if mark.figure == figure], width) for figure in figures}
    interval = f" ({_percent(level)} interval)" if not all(math.isnan(mark.width) for mark in marks) else ""
    return _Picture(roles, marks, scales, interval)


def _roles(rows: list[dict[str, Any]], by: Sequence[str]) -> _Roles:
    candidates = by[1::-1] if len(by) > 1 else ()
    colour = next((name for name in candidates if _distinct(rows, [name]) <= len(COLOURS)), "")
    rest = tuple(name for name in by if name != colour)
    lines, panels = (rest[:1], rest[1:]) if colour else (rest[-1:], rest[:-1])
    if panels and 2 * _distinct(rows, panels) > _distinct(rows, rest):
        lines, panels = rest, ()
    return _Roles(lines, colour, panels)


def _distinct(rows: list[dict[str, Any]], names: Sequence[str]) -> int:
    return len({tuple(label(row[name]) for name in names) for row in rows})


def _mark(row: Mapping[str, Any], roles: _Roles, figure: str) -> _Mark:
    return _Mark(
        ", ".join(f"{name}: {label(row[name])}" for name in roles.panels),
        ", ".join(label(row[name]) for name in roles.lines) or "all",
        label(row[roles.colour]) if roles.colour else "",
        figure,
        *(math.nan if row[name] is None else float(row[name]) for name in ("estimate", "lower", "upper")),
    )


def label(value: Any) -> str:
    """Return a group's value for readers. A text that would be mistaken for something else is quoted.

    >>> [label(v) for v in (None, "", "flu", 2024, 2.0, 0.1, True)]
    ['(missing)', '""', 'flu', '2024', '2', '0.1', 'true']
    """
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.0f}"
    text = str(value)
    mistakable = text in ("", MISSING) or text != text.strip() or any(letter < " " for letter in text)
    return json.dumps(text, ensure_ascii=False) if mistakable else text


def _label_lines(text: str) -> list[str]:
    lines = textwrap.wrap(text, LABEL_LETTERS, max_lines=LABEL_LINES, placeholder=" …")
    return [_plain(line) for line in lines]


def _plain(text: str) -> str:
    """Return a text for Vega, which draws nothing at all if one is a name that every JavaScript object knows."""
    return f"{text} " if text in JAVASCRIPT else text


# --- numbers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Scale:
    """An x axis: its ends, its ticks, the decimals of the ticks and of the numbers beside the bars, its pixels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    tick_decimals: int
    decimals: int
    width: int


def _scale(marks: list[_Mark], width: int) -> _Scale:
    low, high = _reach(_to_hold(marks))
    margin = MARGIN * (high - low)
    low -= margin * (3 if any(mark.lower < low for mark in marks) else low != 0)
    high += margin * (3 if any(mark.upper > high for mark in marks) else high != 0)
    step = _step((high - low) / TICKS)
    tick_decimals = max(0, -math.floor(math.log10(step) + NEGLIGIBLE))
    ticks = tuple(round(k * step, tick_decimals) for k in range(math.ceil(low / step), math.floor(high / step) + 1))
    return _Scale(low, high, ticks, tick_decimals, _decimals(marks), width)


def _to_hold(marks: list[_Mark]) -> list[float]:
    """Return the numbers that an axis must hold: all estimates, and the ends of bars that are not too long."""
    longest = LONG * median(_widths(marks) or [math.inf]) / 2
    return [v for mark in marks for v in mark.numbers if not abs(v - mark.estimate) > longest]


def _widths(marks: list[_Mark]) -> list[float]:
    """Return the widths of the intervals, without infinite ones and those of exact numbers."""
    least = NEGLIGIBLE * _largest(marks)
    return [mark.width for mark in marks if least < mark.width < math.inf]


def _largest(marks: list[_Mark]) -> float:
    return max((abs(v) for mark in marks for v in mark.numbers), default=0.0)


def _reach(numbers: list[float]) -> tuple[float, float]:
    """Return the ends of an axis, with 0 where it lies no farther away than the ends do from each other."""
    low, high = min(numbers, default=0.0), max(numbers, default=0.0)
    if high - low <= NEGLIGIBLE * max(high, -low):
        return min(low, 0.0), max(high, 0.0) or float(low == 0)
    return (0.0 if 0 < low <= high - low else low), (0.0 if low - high <= high < 0 else high)


def _step(least: float) -> float:
    """Return the next number of 1, 2, 5, 10, ... times a power of ten.

    >>> [_step(v) for v in (0.7, 1, 130, 0.03)]
    [1.0, 1.0, 200.0, 0.05]
    """
    power = math.floor(math.log10(least))
    return next(step for f in (1, 2, 5, 10) if (step := float(f"{f}e{power}")) >= least * (1 - NEGLIGIBLE))


def _decimals(marks: list[_Mark]) -> int:
    """Return the decimals that show two digits of a typical half interval, or three of exact numbers."""
    largest = _largest(marks)
    if all(abs(v - round(v)) <= NEGLIGIBLE * largest for mark in marks for v in mark.numbers):
        return 0
    typical = median(_widths(marks) or [largest / 5]) / 2
    return max(0, 1 - math.floor(math.log10(typical)))


def _shown(value: float, decimals: int) -> str:
    """Return a number with thousands separators and a true minus sign.

    >>> _shown(-1234.56, 1), _shown(-0.01, 0), _shown(float("inf"), 2)
    ('−1,234.6', '0', '∞')
    """
    return f"{value:z,.{decimals}f}".replace("inf", "∞").replace("-", "−")


def _beside(mark: _Mark, scale: _Scale) -> str:
    """Return the numbers as they are printed beside a bar."""
    estimate, lower, upper = (_shown(v, scale.decimals) for v in (mark.estimate, mark.lower, mark.upper))
    interval = "no interval" if math.isnan(mark.width) else f"{lower} to {upper}"
    return "no estimate" if math.isnan(mark.estimate) else f"{estimate} ({interval})"


def _percent(level: float) -> str:
    return f"{100 * level:.10g}%"


# --- the specification ------------------------------------------------------------------------------------------------

TEXT: dict[str, Any] = {
    "labelColor": INK,
    "labelFontSize": 11,
    "labelLimit": 0,
    "titleColor": QUIET,
    "titleFontSize": 11,
    "titleFontWeight": "normal",
    "titleLimit": 0,
}
CONFIG: dict[str, Any] = {
    "font": FONT,
    "background": "white",
    "padding": 12,
    "view": {"stroke": None},
    "axis": {**TEXT, "gridColor": FAINT, "domainColor": QUIET, "tickColor": QUIET},
    "legend": {
        **TEXT,
        "orient": "top",
        "titleOrient": "left",
        "titleAnchor": "start",
        "symbolOpacity": 1,
        "symbolSize": 60,
    },
    "text": {"fontSize": 11, "color": INK},
    "title": {
        "anchor": "start",
        "color": INK,
        "fontSize": 15,
        "fontWeight": "normal",
        "limit": 0,
        "offset": 14,
        "subtitleColor": QUIET,
        "subtitleFontSize": 11,
        "subtitleLineHeight": LINE + 1,
        "subtitlePadding": 6,
    },
}


def _title(title: str, subtitle: str, picture: _Picture) -> dict[str, Any]:
    """Return title and subtitle, broken to the width of the picture; arrows are explained where there are any."""
    notes = subtitle.splitlines()
    if any(m.lower < picture.scales[m.figure].low or m.upper > picture.scales[m.figure].high for m in picture.marks):
        notes.append("An arrow marks an interval that goes on beyond the axis.")
    below = {"subtitle": _broken(notes, picture.letters)} if notes else {}
    return {"text": _broken([title], picture.letters * 11 // 15), **below}


def _broken(lines: Iterable[str], letters: int) -> list[str]:
    return [_plain(part) for line in lines for part in textwrap.wrap(line, letters)]


def _panel(picture: _Picture, panel: str, figure: str) -> dict[str, Any]:
    """Return a panel: the lines of all figures, so that those side by side are level, and the marks of one."""
    scale = picture.scales[figure]
    marks = [mark for mark in picture.marks if mark.panel == panel]
    lines = list(dict.fromkeys(mark.line for mark in marks))
    labels = [_label_lines(line) for line in lines]
    step = max(LINE * max(map(len, labels)), BAR * len(picture.colours)) + GAP
    is_left = picture.beside == 1 or figure == next(iter(picture.scales))
    is_top, is_bottom = panel == picture.panels[0], panel == picture.panels[-1]
    x_title = _plain(f"{figure or 'estimate'}{picture.interval}") if is_bottom else None
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


def _headings(picture: _Picture, text: str, scale: _Scale, is_top: bool) -> list[dict[str, Any]]:
    """Return the heading of a panel, and above the first one that of the numbers beside the bars."""
    over_numbers = _text([f"estimate{picture.interval}"], scale.width + ASIDE, ABOVE, color=QUIET)
    lines = _broken([text], int(scale.width / LETTER))
    over_panel = _text(lines, 0, ABOVE - (LINE + 5) * is_top - LINE * (len(lines) - 1), fontSize=12, lineHeight=LINE)
    return [*([over_numbers] if is_top else []), *([over_panel] if text else [])]


def _text(lines: list[str], x: int, y: int, **style: Any) -> dict[str, Any]:
    return {
        "data": {"values": [{}]},
        "mark": {"type": "text", "align": "left", "baseline": "bottom", "text": lines, **style},
        "encoding": {"x": {"value": x}, "y": {"value": y}},
    }


def _datum(mark: _Mark, lines: list[str], picture: _Picture, scale: _Scale) -> dict[str, Any]:
    """Return what is drawn of a mark: an interval that goes on beyond the axis ends with it."""
    has_bar = mark.width > 0
    numbers = _beside(mark, scale)
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


def _places(picture: _Picture, labels: list[list[str]], is_left: bool, is_top: bool) -> dict[str, Any]:
    """Return on which line and in which colour a mark is drawn."""
    axis = {
        "title": _plain(", ".join(picture.roles.lines)) if is_left and is_top else None,
        "titleAngle": 0,
        "titleAlign": "right",
        "titleBaseline": "bottom",
        "titleX": -8,
        "titleY": ABOVE,
        "labels": is_left,
        "labelExpr": f"{json.dumps(labels)}[datum.value]",
        "labelOffset": _raised(labels),
        "labelPadding": 8,
        "ticks": False,
        "domain": False,
        "tickBand": "extent" if picture.colours else "center",
        "grid": True,
    }
    y = _nominal("line", len(labels), {"type": "band", "padding": 0}, axis=axis)
    if not picture.colours:
        return {"y": y, "color": {"value": COLOURS[0]}}
    size = len(picture.colours)
    legend = {
        "title": _plain(picture.roles.colour),
        "labelExpr": f"{json.dumps([_plain(colour) for colour in picture.colours])}[datum.value]",
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
    """Return a channel for the numbers below a size, in their order."""
    return {"field": field, "type": "nominal", "sort": None, "scale": {"domain": list(range(size)), **scale}, **more}


def _layers(picture: _Picture, scale: _Scale, title: str | None) -> list[dict[str, Any]]:
    """Return bars, their ends (arrows where there is none), points, and the numbers beside them."""
    lower, upper, estimate = ({"x": _x(field, scale, title)} for field in ("lower", "upper", "estimate"))
    point = {"type": "point", "filled": True, "opacity": 1, "size": 60}
    arrow = {**point, "aria": False}
    end = {"type": "tick", "orient": "vertical", "opacity": 1, "size": 7, "thickness": 1.5, "aria": False}
    size = len(picture.colours)
    shape = {"shape": _nominal("colour", size, {"range": list(SHAPES[:size])})} if size else {}
    return [
        {"mark": {"type": "rule", "strokeWidth": 1.5, "aria": False}, "encoding": {**lower, "x2": {"field": "upper"}}},
        _where("!datum.goes_below", end, lower),
        _where("!datum.goes_above", end, upper),
        _where("datum.goes_below", {**arrow, "shape": "triangle-left"}, lower),
        _where("datum.goes_above", {**arrow, "shape": "triangle-right"}, upper),
        {"mark": point, "encoding": {**estimate, **shape, "description": {"field": "description"}}},
        {
            "mark": {"type": "text", "align": "left", "aria": False},
            "encoding": {
                "x": {"value": scale.width + ASIDE},
                "text": {"field": "numbers"},
                "color": {"value": INK},
            },
        },
    ]


def _where(condition: str, mark: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    return {"transform": [{"filter": condition}], "mark": mark, "encoding": encoding}


def _x(field: str, scale: _Scale, title: str | None) -> dict[str, Any]:
    axis = {
        "title": title,
        "values": list(scale.ticks),
        "format": f",.{scale.tick_decimals}f",
        "labelFlush": False,
        "grid": True,
    }
    ends = {"domain": [scale.low, scale.high], "nice": False, "zero": False}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": ends}


def _zero(scale: _Scale) -> list[dict[str, Any]]:
    """Return a line at 0 where the axis goes below it."""
    line = {"mark": {"type": "rule", "color": QUIET}, "encoding": {"x": {"datum": 0}}}
    return [line] if scale.low < 0 <= scale.high else []


# --- pictures ---------------------------------------------------------------------------------------------------------


def render(spec: Mapping[str, Any], path: str | Path) -> None:
    """Write the picture of a specification, or the specification itself; the suffix decides. Nothing is fetched."""
    path = Path(path)
    content = by_suffix(path, PICTURES)
    with new_file(path) as partial:
        partial.write_bytes(content(dict(spec)))


def _converter() -> Any:
    try:
        import vl_convert
    except ModuleNotFoundError:
        raise UsageError(
            "A picture needs the package vl-convert-python.", "Install it, or write the specification (.vl.json)."
        ) from None
    return vl_convert


def _svg(spec: dict[str, Any]) -> str:
    return _converter().vegalite_to_svg(spec, allowed_base_urls=[])  # type: ignore[no-any-return]


def _png(spec: dict[str, Any]) -> bytes:
    return _converter().svg_to_png(_svg(spec), scale=2)  # type: ignore[no-any-return]


def _pdf(spec: dict[str, Any]) -> bytes:
    return _converter().svg_to_pdf(_svg(spec))  # type: ignore[no-any-return]


def _html(spec: dict[str, Any]) -> bytes:
    """Return a page with the drawing in it. It runs no script: a value of the release must not become one."""
    page = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{html.escape(" ".join(spec["title"]["text"]))}</title>
</head>
<body>
{_svg(spec)}
</body>
</html>
"""
    return page.encode()


def _vega_lite(spec: dict[str, Any]) -> bytes:
    return (json.dumps(spec, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()


PICTURES: dict[str, Callable[[dict[str, Any]], bytes]] = {
    ".svg": lambda spec: _svg(spec).encode(),
    ".png": _png,
    ".pdf": _pdf,
    ".html": _html,
    ".vl.json": _vega_lite,
}
