"""The figures of a report, as plain Vega-Lite specifications: a narrow one for phones, a wide one for all else.

Colours are names of roles: the page's style gives each of them a light and a dark value (`page_svg`). Nothing is told
by colour alone: marks differ in shape, heat maps have numbers beside them.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.report.layout import plain
from sfumato.report.plots import FONT

INK, QUIET, FAINT = "#222222", "#595959", "#DDDDDD"
ACCENT, SECOND, HEAT = "#0072B2", "#B34700", "#0071B1"
COLOURS = (INK, QUIET, FAINT, ACCENT, SECOND, HEAT)
"""All that a figure may use."""

NUMBERED_CELLS = 14  # values, up to which a wide heat map has numbers in its cells
BAR = 22  # pixels of a line
TICKS = 5


@dataclass(frozen=True)
class Size:
    """How wide a figure is, how many letters its labels have, and whether there is room for numbers."""

    width: int
    letters: int
    roomy: bool


NARROW, WIDE = Size(320, 14, False), Size(680, 30, True)
LETTER = 6.2  # pixels of a letter of a label


@dataclass(frozen=True)
class Estimated:
    """A count: estimated with an interval, as it is among the published rows, and true; None where there is none."""

    label: str
    estimate: float
    lower: float | None = None
    upper: float | None = None
    published: float | None = None
    truth: float | None = None


@dataclass(frozen=True)
class Risk:
    """What an attacker reached: the worst and the mean risk, the bound, and what is reached without the release."""

    label: str
    worst: float
    mean: float | None
    bound: float | None
    baseline: float | None


@dataclass(frozen=True)
class Bar:
    """A bar of a histogram."""

    label: str
    height: float


def heat_map(labels: Sequence[str], matrix: Sequence[Sequence[float]], size: Size) -> dict[str, Any]:
    """Return the matrix P[j, i]: a row for each published value, a column for each original one."""
    shown = [shorten(label, size.letters) for label in labels]
    room = size.width - _label_room(shown) - 10
    cell = min(48, room // len(labels))
    most = max(max(row) for row in matrix)
    cells = [
        {"published": j, "original": i, "p": p, "text": _percent(p)}
        for j, row in enumerate(matrix)
        for i, p in enumerate(row)
    ]
    places = {
        "x": _nominal("original", shown, "original value", orient="top", labelAngle=-60, labelAlign="left"),
        "y": _nominal("published", shown, "published value"),
    }
    shade = {"field": "p", "type": "quantitative", "legend": None, "scale": {"domain": [0, most], "range": [0, 0.8]}}
    layers = [
        {
            "mark": {"type": "rect", "color": HEAT, "stroke": FAINT, "strokeWidth": 0.5},
            "encoding": {"fillOpacity": shade},
        }
    ]
    if size.roomy and len(labels) <= NUMBERED_CELLS:
        layers.append({"mark": {"type": "text", "color": INK}, "encoding": {"text": {"field": "text"}}})
    return _spec(
        width=cell * len(labels),
        height=cell * len(labels) if size.roomy or cell > 14 else 14 * len(labels),
        data={"values": cells},
        encoding=places,
        layer=layers,
    )


def intervals(counts: Sequence[Estimated], size: Size) -> dict[str, Any]:
    """Return estimates with intervals, beside the published and the true counts where these are told."""
    shown = [shorten(count.label, size.letters) for count in counts]
    kinds = {"estimate": "estimate, 95% interval", "published": "published rows, uncorrected", "truth": "true count"}
    marks = [
        {"line": k, "what": kinds[name], "value": value, "lower": count.lower, "upper": count.upper}
        for k, count in enumerate(counts)
        for name in kinds
        if (value := getattr(count, name)) is not None
    ]
    used = [kind for kind in kinds.values() if any(mark["what"] == kind for mark in marks)]
    style = {kinds["estimate"]: (ACCENT, "circle"), kinds["published"]: (QUIET, "cross"), kinds["truth"]: (SECOND, "diamond")}
    legend = _legend(size)
    colour = {"field": "what", "type": "nominal", "legend": legend, "scale": {"domain": used, "range": [style[u][0] for u in used]}}
    shape = {"field": "what", "type": "nominal", "legend": legend, "scale": {"domain": used, "range": [style[u][1] for u in used]}}
    y = _nominal("line", shown, None)
    rule = {
        "transform": [{"filter": f"datum.what == {json.dumps(kinds['estimate'])}"}],
        "mark": {"type": "rule", "strokeWidth": 2, "color": ACCENT},
        "encoding": {"x": _number("lower", "records"), "x2": {"field": "upper"}, "y": y},
    }
    points = {
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 50},
        "encoding": {"x": _number("value", "records"), "y": y, "color": colour, "shape": shape},
    }
    return _spec(
        width=size.width - _label_room(shown) - 20,
        height=BAR * len(counts),
        data={"values": marks},
        layer=[rule, points],
    )


def risks(found: Sequence[Risk], size: Size) -> dict[str, Any]:
    """Return what attackers reached, between 0 and 1, beside the bounds."""
    shown = [shorten(risk.label, size.letters) for risk in found]
    style = {
        "worst": ("worst risk", ACCENT, "circle", True),
        "mean": ("mean risk", ACCENT, "triangle-up", True),
        "baseline": ("without the release", QUIET, "cross", True),
        "bound": ("bound", SECOND, "M0,-1V1", False),
    }
    marks = [
        {"line": k, "what": words, "value": value}
        for k, risk in enumerate(found)
        for name, (words, *_) in style.items()
        if (value := getattr(risk, name)) is not None
    ]
    used = [s for s in style.values() if any(mark["what"] == s[0] for mark in marks)]
    legend = _legend(size)
    names = [s[0] for s in used]
    points = {
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 70, "strokeWidth": 2.5},
        "encoding": {
            "x": _number("value", "risk", domain=[0, 1], percent=True),
            "y": _nominal("line", shown, None),
            "color": {"field": "what", "type": "nominal", "legend": legend, "scale": {"domain": names, "range": [s[1] for s in used]}},
            "stroke": {"field": "what", "type": "nominal", "legend": legend, "scale": {"domain": names, "range": [s[1] for s in used]}},
            "shape": {"field": "what", "type": "nominal", "legend": legend, "scale": {"domain": names, "range": [s[2] for s in used]}},
        },
    }
    return _spec(
        width=size.width - _label_room(shown) - 20,
        height=BAR * len(found),
        data={"values": marks},
        layer=[points],
    )


def histogram(bars: Sequence[Bar], x_title: str, y_title: str, size: Size, bound: float | None = None) -> dict[str, Any]:
    """Return bars side by side. `bound`: a line between them, at so many bars from the left."""
    shown = [bar.label for bar in bars]
    width = size.width - 70
    step = width / max(1, len(bars))
    every = max(1, -(-max(map(len, shown), default=1) * 7 // max(1, int(step))))
    labels = [label if k % every == 0 else "" for k, label in enumerate(shown)]
    x = _nominal("place", labels, x_title, labelAngle=0)
    x["scale"]["paddingInner"] = 0.15
    layers: list[dict[str, Any]] = [
        {
            "data": {"values": [{"place": k, "height": bar.height} for k, bar in enumerate(bars)]},
            "mark": {"type": "bar", "color": ACCENT},
            "encoding": {"x": x, "y": _number("height", y_title, grid=True)},
        }
    ]
    if bound is not None:
        layers.append(_line_at(bound * step))
    return _spec(width=width, height=150, layer=layers)


def _line_at(x: float) -> dict[str, Any]:
    return {
        "data": {"values": [{}]},
        "layer": [
            {"mark": {"type": "rule", "color": SECOND, "strokeWidth": 2, "strokeDash": [5, 3]}},
            {"mark": {"type": "text", "color": SECOND, "text": "bound", "dy": -6, "baseline": "bottom"}, "encoding": {"y": {"value": 0}}},
        ],
        "encoding": {"x": {"value": x}},
    }


# --- shared -----------------------------------------------------------------------------------------------------------


def shorten(text: str, letters: int) -> str:
    """Return a text of at most so many letters.

    >>> shorten("Married-civ-spouse", 10), shorten("flu", 10)
    ('Married-c…', 'flu')
    """
    text = " ".join(text.split())
    return plain(text if len(text) <= letters else text[: letters - 1] + "…")


def _label_room(labels: Sequence[str]) -> int:
    return int(LETTER * max((len(label) for label in labels), default=0)) + 24


def _percent(p: float) -> str:
    return f"{100 * p:.0f}" if p >= 0.095 else f"{100 * p:.1f}"


def _nominal(field: str, labels: Sequence[str], title: str | None, **axis: Any) -> dict[str, Any]:
    """Return a channel for numbered places with labels."""
    told = f"{json.dumps(list(labels))}[datum.value]"
    return {
        "field": field,
        "type": "nominal",
        "sort": None,
        "scale": {"type": "band", "domain": list(range(len(labels)))},
        "axis": {"title": title, "labelExpr": told, "ticks": False, "domain": False, **axis},
    }


def _number(
    field: str, title: str | None, domain: list[float] | None = None, percent: bool = False, grid: bool = True
) -> dict[str, Any]:
    axis = {"title": title, "tickCount": TICKS, "grid": grid, "format": ".0%" if percent else ",~r"}
    scale = {"domain": domain} if domain else {"nice": True}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def _legend(size: Size) -> dict[str, Any]:
    return {"title": None, "orient": "top", "columns": 4 if size.roomy else 2, "labelLimit": 0, "symbolOpacity": 1}


def _spec(**content: Any) -> dict[str, Any]:
    text = {"labelColor": INK, "labelFontSize": 12, "labelLimit": 0, "titleColor": QUIET, "titleFontSize": 12, "titleFontWeight": "normal"}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        **content,
        "config": {
            "aria": False,
            "font": FONT,
            "background": None,
            "padding": 4,
            "view": {"stroke": None},
            "axis": {**text, "gridColor": FAINT, "domainColor": QUIET, "tickColor": QUIET},
            "legend": text,
            "text": {"fontSize": 11, "color": INK},
        },
    }


def wrapped(text: str, letters: int) -> list[str]:
    """Return the lines of a longer text."""
    return textwrap.wrap(text, letters)
