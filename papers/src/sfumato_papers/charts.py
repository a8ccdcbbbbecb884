"""Charts of experiments: series of points, with intervals where they are simulated, over numbers or over names.

Series differ in shape, dashes and one of four colours, which the page's style can turn dark; so that they are told
apart in black and white too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.auditor.report.page_figures import ACCENT, FAINT, INK, QUIET, SECOND, Key, Size, shorten
from sfumato.show.plots import CONFIG

SERIES = (
    ("●", "circle", ACCENT, (1, 0)),
    ("■", "square", SECOND, (6, 3)),
    ("▲", "triangle-up", INK, (2, 2)),
    ("◆", "diamond", QUIET, (8, 2, 2, 2)),
    ("▼", "triangle-down", ACCENT, (4, 4)),
    ("✚", "cross", SECOND, (1, 3)),
    ("▶", "triangle-right", INK, (10, 3)),
    ("◀", "triangle-left", QUIET, (3, 6)),
)
"""Symbol, shape, colour and dashes of each series."""
MOST_SERIES = len(SERIES)
HEIGHT = 260
MOST_TICKS = 10


@dataclass(frozen=True)
class Point:
    """A point of a series; lower and upper where there is an interval."""

    series: str
    x: float | str
    y: float
    lower: float | None = None
    upper: float | None = None


@dataclass(frozen=True)
class Chart:
    """A picture of an experiment. alt: what can be seen on it, in words. lines: whether points are joined."""

    alt: str
    x_title: str
    y_title: str
    points: tuple[Point, ...]
    logarithmic: bool = False  # the y axis
    lines: bool = True

    def __post_init__(self) -> None:
        if not self.points or len(self.series) > MOST_SERIES:
            raise ValueError(f"a chart has 1 to {MOST_SERIES} series")
        if len({isinstance(point.x, str) for point in self.points}) > 1:
            raise ValueError("x is a number or a name, for all points alike")

    @property
    def series(self) -> tuple[str, ...]:
        """The names of the series, in the order of their first points."""
        return tuple(dict.fromkeys(point.series for point in self.points))

    @property
    def keys(self) -> tuple[Key, ...]:
        """What stands above the picture: the symbol of each series."""
        return tuple(Key(name, *look[:3]) for name, look in zip(self.series, SERIES, strict=False))


def specification(chart: Chart, size: Size) -> dict[str, Any]:
    """Return the chart in Vega-Lite."""
    places = {"x": _x(chart, size), "y": _y(chart, size)}
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": chart.alt,
        "width": size.width - 90,
        "height": HEIGHT,
        "encoding": places,
        "layer": [layer for k in range(len(chart.series)) for layer in _layers(chart, k)],
        "config": dict(CONFIG),
    }


def with_legend(chart: Chart, title: str, size: Size) -> dict[str, Any]:
    """Return the chart as a picture of its own, with a title and the names of the series."""
    names = [f"{key.symbol} {key.words}" for key in chart.keys] if len(chart.series) > 1 else []
    return {**specification(chart, size), "title": {"text": title, "subtitle": names, "offset": 10}}


def _layers(chart: Chart, number: int) -> Iterable[dict[str, Any]]:
    _, shape, colour, dashes = SERIES[number]
    points = [point for point in chart.points if point.series == chart.series[number]]
    data = {"values": [_datum(point) for point in points]}
    if chart.lines and len(points) > 1:
        yield {"data": data, "mark": {"type": "line", "color": colour, "strokeDash": list(dashes)}}
    if any(point.lower is not None for point in points):
        ends = {"y": {"field": "lower", "type": "quantitative"}, "y2": {"field": "upper"}}
        yield {"data": data, "mark": {"type": "rule", "color": colour}, "encoding": ends}
    mark = {"type": "point", "shape": shape, "color": colour, "filled": True, "opacity": 1, "size": 55}
    yield {"data": data, "mark": mark}


def _datum(point: Point) -> Mapping[str, Any]:
    drawn = {"x": point.x if isinstance(point.x, str) else _seen(point.x), "y": _seen(point.y)}
    if point.lower is None or point.upper is None:
        return drawn
    return drawn | {"lower": _seen(point.lower), "upper": _seen(point.upper)}


def _seen(number: float) -> float:
    """Return a number in as many digits as can be seen: sums come out in other last digits from run to run."""
    return float(f"{number:.6g}")


def _x(chart: Chart, size: Size) -> dict[str, Any]:
    axis = {"title": chart.x_title, "titlePadding": 10, "grid": False}
    if isinstance(chart.points[0].x, str):
        longest = max(len(str(point.x)) for point in chart.points)
        slant = {"labelAngle": -40} if longest * 7 * len({p.x for p in chart.points}) > size.width - 90 else {}
        return {"field": "x", "type": "nominal", "sort": None, "axis": {**axis, "labelAngle": 0, **slant}}
    numbers = {**axis, "labelFlush": False, **_ticks([float(p.x) for p in chart.points], size)}
    return {"field": "x", "type": "quantitative", "scale": {"zero": False, "nice": True}, "axis": numbers}


def _ticks(xs: Sequence[float], size: Size) -> dict[str, Any]:
    """Return ticks at a few whole numbers, since there is nothing between them; else about ten."""
    places = sorted(set(xs))
    if len(places) <= MOST_TICKS and all(x == int(x) for x in places):
        return {"values": places}
    return {"tickCount": MOST_TICKS if size.roomy else MOST_TICKS // 2}


def _y(chart: Chart, size: Size) -> dict[str, Any]:
    kind = {"type": "log"} if chart.logarithmic else {"nice": True, "zero": True}
    axis = {
        "title": shorten(chart.y_title, 40),
        "titlePadding": 12,
        "gridColor": FAINT,
        "tickCount": 6 if size.roomy else 4,
    }
    return {"field": "y", "type": "quantitative", "scale": kind, "axis": axis}
