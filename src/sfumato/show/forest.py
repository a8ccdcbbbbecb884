"""A forest plot: a line for each coefficient with its interval, on a scale of ratios or of differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import deepcopy
from typing import Any

from sfumato.errors import UsageError
from sfumato.show.layout import COLOURS, plain
from sfumato.show.plots import ASIDE, CONFIG, INK, MOST_ROWS, QUIET

WIDE = 380
LINE = 24
"""Pixels of a line."""
BEYOND = 50.0
"""Ratios beyond so many times the outermost estimate are cut, with an arrow."""


def forest(
    names: Sequence[str], figures: Sequence[Any], title: str, subtitle: str, axis: str, ratios: bool
) -> dict[str, Any]:
    """Return a Vega-Lite specification. `figures` are estimates, lower and upper ends, and naive estimates."""
    if not names:
        raise UsageError("The model has no coefficient to draw besides the intercept.", "Add a term to the formula.")
    if len(names) > MOST_ROWS:
        raise UsageError(
            f"{len(names):,} coefficients are too many for a picture, which holds {MOST_ROWS}.", "Merge levels."
        )
    low, high = _ends(figures, ratios)
    rows = [
        _row(place, name, [float(column[place]) for column in figures], low, high) for place, name in enumerate(names)
    ]
    scale = {"type": "log"} if ratios else {"zero": False}
    x = {
        "type": "quantitative",
        "scale": {**scale, "domain": [low, high], "nice": False},
        "axis": {"title": plain(axis), "grid": True},
    }
    y = {
        "field": "name",
        "type": "nominal",
        "sort": None,
        "axis": {"title": None, "labelLimit": 0, "ticks": False, "domain": False},
    }
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "description": f"{title} {subtitle}",
        "title": {"text": plain(title), "subtitle": plain(subtitle)},
        "data": {"values": rows},
        "width": WIDE,
        "height": LINE * len(rows),
        "encoding": {"y": y},
        "layer": _layers(x, 1.0 if ratios else 0.0),
        "config": deepcopy(CONFIG),
    }


def _ends(figures: Sequence[Any], ratios: bool) -> tuple[float, float]:
    """Return the ends of the axis: those of the finite intervals, and of nothing to see."""
    null = 1.0 if ratios else 0.0
    middle = [float(v) for v in (*figures[0], null) if math.isfinite(v) and (v > 0 or not ratios)]
    outer = [float(v) for column in figures for v in column if math.isfinite(v) and (v > 0 or not ratios)] + [null]
    if ratios:
        low, high = max(min(outer), min(middle) / BEYOND), min(max(outer), max(middle) * BEYOND)
        return low / 1.1, high * 1.1
    low, high = min(outer), max(outer)
    margin = 0.05 * (high - low or 1.0)
    return low - margin, high + margin


def _row(place: int, name: str, numbers: list[float], low: float, high: float) -> dict[str, Any]:
    estimate, lower, upper, naive = numbers
    inside = [min(max(value, low), high) if value == value else None for value in (estimate, lower, upper)]
    told = f"{_told(estimate)} ({_told(lower)} to {_told(upper)})"
    return {
        "place": place,
        "name": plain(name),
        "estimate": inside[0] if math.isfinite(estimate) else None,
        "lower": inside[1],
        "upper": inside[2],
        "naive": naive if low <= naive <= high else None,
        "goes_below": lower < low,
        "goes_above": upper > high,
        "told": told,
        "description": f"{name}: {told}",
    }


def _told(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3g}"


def _layers(x: dict[str, Any], null: float) -> list[dict[str, Any]]:
    blue: dict[str, Any] = {"color": {"value": COLOURS[0]}}
    point: dict[str, Any] = {"type": "point", "size": 60, "opacity": 1}
    bar = {"x": {"field": "lower", **x}, "x2": {"field": "upper"}, **blue}
    estimate = {"x": {"field": "estimate", **x}, "description": {"field": "description"}, **blue}
    told = {"x": {"value": WIDE + ASIDE}, "text": {"field": "told"}}
    return [
        {"mark": {"type": "rule", "color": QUIET, "strokeDash": [4, 3]}, "encoding": {"x": {"datum": null}, "y": None}},
        {"mark": {"type": "rule", "strokeWidth": 1.5, "aria": False}, "encoding": bar},
        _arrow("goes_below", "triangle-left", {"x": {"field": "lower", **x}, **blue}),
        _arrow("goes_above", "triangle-right", {"x": {"field": "upper", **x}, **blue}),
        {"mark": {**point, "filled": True}, "encoding": estimate},
        {
            "mark": {**point, "filled": False, "aria": False},
            "encoding": {"x": {"field": "naive", **x}, "color": {"value": QUIET}},
        },
        {"mark": {"type": "text", "align": "left", "color": INK, "aria": False}, "encoding": told},
    ]


def _arrow(where: str, shape: str, encoding: dict[str, Any]) -> dict[str, Any]:
    """Return the mark of an interval that goes on beyond the axis."""
    mark = {"type": "point", "size": 60, "opacity": 1, "filled": True, "shape": shape, "aria": False}
    return {"transform": [{"filter": f"datum.{where}"}], "mark": mark, "encoding": encoding}
