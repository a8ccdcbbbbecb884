"""Methods by what a guesser reaches and how far counts are off: one panel for each way to compare them.

Each point has its name beside it, moved where names would overlap, with a line back to the point. Both panels have the
same axes; a method that is twice as far off as the worst reference, or more, is drawn at their upper end, with its
figure in its name. All text has one weight, as in `plots`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from sfumato.auditor.report.page_figures import ACCENT, FAINT, INK, QUIET, SECOND
from sfumato.show.layout import plain
from sfumato.show.plots import FONT

Kind = Literal["method", "own", "reference"]
SHAPES: dict[Kind, tuple[str, str]] = {
    "method": ("circle", ACCENT),
    "own": ("diamond", SECOND),
    "reference": ("cross", QUIET),
}
WIDTH, HEIGHT = 430, 380  # pixels of a panel
LINE, LETTER, ASIDE = 14, 6.2, 12  # pixels: a line of text, a letter, from a point to its name
ROOM = 0.08  # of the axes, beyond the outermost points


@dataclass(frozen=True)
class Placed:
    """A method: the share of people guessed right, the error, and between which errors single releases lie."""

    label: str
    risk: float
    error: float
    low: float
    high: float
    kind: Kind = "method"


@dataclass(frozen=True)
class Panel:
    title: str
    points: tuple[Placed, ...]


@dataclass(frozen=True)
class _Axes:
    x: tuple[float, float]
    y: tuple[float, float]

    @classmethod
    def of(cls, points: Sequence[Placed]) -> _Axes:
        risks, most = [p.risk for p in points], max(p.high for p in points) or 1.0
        references = [p.error for p in points if p.kind == "reference"]
        most = min(most, 2 * max(references, default=0.0) or most)
        room = ROOM * (max(risks) - min(risks)) or 0.05
        return cls((min(risks) - room, max(risks) + room), (-ROOM * most / 2, most * (1 + ROOM)))

    def drawn(self, point: Placed) -> Placed:
        top = self.y[1]
        if point.error <= top:
            return replace(point, high=min(point.high, top))
        return replace(point, label=f"{point.label} ({point.error:,.0%})", error=top, low=top, high=top)

    def pixels(self, point: Placed) -> tuple[float, float]:
        (left, right), (bottom, top) = self.x, self.y
        return WIDTH * (point.risk - left) / (right - left), HEIGHT * (top - point.error) / (top - bottom)


def trade_off_plot(title: str, subtitle: str, panels: Sequence[Panel]) -> dict[str, Any]:
    """Return a Vega-Lite specification; what cannot be had is not drawn."""
    axes = _Axes.of([point for panel in panels for point in panel.points])
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {"text": [plain(title)], "subtitle": [plain(subtitle)], "anchor": "start"},
        "hconcat": [_panel(panel, axes) for panel in panels],
        "spacing": 40,
        "config": {
            "aria": False,
            "font": FONT,
            "background": "white",
            "padding": 12,
            "view": {"stroke": None},
            "title": {"fontWeight": "normal", "color": INK, "subtitleColor": QUIET, "fontSize": 15},
            "axis": {
                "labelColor": INK, "titleColor": QUIET, "titleFontWeight": "normal", "gridColor": FAINT,
                "domainColor": QUIET, "tickColor": QUIET,
            },
            "text": {"fontSize": 11, "color": INK},
        },
    }  # fmt: skip


def _panel(panel: Panel, axes: _Axes) -> dict[str, Any]:
    points = [axes.drawn(point) for point in panel.points]
    names = _names(points, axes)
    x = _axis("risk", axes.x, "people guessed right")
    y, low = (_axis(field, axes.y, "mean relative error of counts") for field in ("error", "low"))
    releases = {"x": x, "y": low, "y2": {"field": "high"}}  # between which errors single ones lie
    layers = [_leaders(names), _layer(map(vars, points), {"type": "rule", "color": ACCENT, "strokeWidth": 2}, releases)]
    for kind, (shape, colour) in SHAPES.items():
        dot = {"type": "point", "filled": True, "opacity": 1, "size": 70, "shape": shape, "color": colour}
        layers.append(_layer([vars(p) for p in points if p.kind == kind], dot, {"x": x, "y": y}))
    for align in ("left", "right"):
        text = {"type": "text", "align": align, "baseline": "middle"}
        places = {"x": _pixel("name_x"), "y": _pixel("name_y"), "text": {"field": "text"}}
        layers.append(_layer([name for name in names if name["align"] == align], text, places))
    return {
        "title": {"text": plain(panel.title), "anchor": "start", "fontSize": 13},
        "width": WIDTH,
        "height": HEIGHT,
        "layer": layers,
    }


def _layer(values: Iterable[Mapping[str, Any]], mark: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    return {"data": {"values": [dict(value) for value in values]}, "mark": mark, "encoding": encoding}


def _axis(field: str, ends: tuple[float, float], title: str) -> dict[str, Any]:
    return {
        "field": field,
        "type": "quantitative",
        "scale": {"domain": list(ends), "nice": False, "zero": False},
        "axis": {"title": title, "format": ".0%", "tickCount": 6},
    }


def _names(points: Sequence[Placed], axes: _Axes) -> list[dict[str, Any]]:
    """Return where each name goes, in pixels: to the right of its point, or in a column to the left of all others."""
    places = [(p, *axes.pixels(p)) for p in sorted(points, key=lambda p: (-p.error, -p.risk, p.label))]
    right = [each for each in places if each[1] + ASIDE + LETTER * len(each[0].label) <= WIDTH]
    left = [each for each in places if each not in right]
    edge = min((x for _, x, _ in left), default=0.0) - ASIDE
    return [*_side(right, "left", None), *_side(left, "right", edge)]


def _side(places: Sequence[tuple[Placed, float, float]], align: str, edge: float | None) -> list[dict[str, Any]]:
    heights = spread_out([max(y, LINE / 2) for _, _, y in places], LINE, HEIGHT - LINE / 2)
    return [
        {"px": x, "py": y, "name_x": x + ASIDE if edge is None else edge, "name_y": height, "align": align}
        | {"text": plain(p.label)}
        for (p, x, y), height in zip(places, heights, strict=True)
    ]


def spread_out(places: Sequence[float], apart: float, most: float) -> list[float]:
    """Return ascending places moved as little as possible, in the same order, so that they are so far apart.

    Neighbours that are too near are a run around the mean of their places, and so are runs. None lies beyond `most`,
    as far as there is room.

    >>> spread_out([0, 10, 11, 100], 4, 200)
    [0.0, 8.5, 12.5, 100.0]
    """
    runs: list[tuple[float, int]] = []  # the middle, and how many
    for place in places:
        middle, number = min(float(place), most), 1
        while runs and middle - runs[-1][0] < apart * (number + runs[-1][1]) / 2:
            before, more = runs.pop()
            middle, number = (middle * number + before * more) / (number + more), number + more
            middle = min(middle, most - apart * (number - 1) / 2)
        runs.append((middle, number))
    return [middle + apart * (k - (number - 1) / 2) for middle, number in runs for k in range(number)]


def _leaders(names: Sequence[dict[str, Any]]) -> dict[str, Any]:
    far = ASIDE + 1
    moved = [n for n in names if abs(n["name_y"] - n["py"]) > LINE / 2 or abs(n["name_x"] - n["px"]) > far]
    ends = {"x": _pixel("px"), "y": _pixel("py"), "x2": {"field": "name_x"}, "y2": {"field": "name_y"}}
    return _layer(moved, {"type": "rule", "color": QUIET, "strokeWidth": 0.6}, ends)


def _pixel(field: str) -> dict[str, Any]:
    return {"field": field, "type": "quantitative", "scale": None, "axis": None}
