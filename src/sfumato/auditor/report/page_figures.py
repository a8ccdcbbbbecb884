"""The figures of a report, as plain Vega-Lite specifications: a narrow one for phones, a wide one for all else.

Colours are names of roles: the page's style gives each of them a light and a dark value (`page.DARK`). Nothing is told
by colour alone: marks differ in shape, heat maps have numbers beside them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.show.layout import plain
from sfumato.show.pictures import by_place
from sfumato.show.plots import FONT

INK, QUIET, FAINT = "#222222", "#595959", "#DDDDDD"
ACCENT, SECOND, HEAT = "#0072B2", "#B34700", "#0071B1"

NUMBERED_CELLS = 14  # values, up to which a wide heat map has numbers in its cells
LEGIBLE = 14  # pixels of a cell with a label
BAR = 22  # pixels of a line


@dataclass(frozen=True)
class Size:
    """How wide a figure is, how many letters its labels have, and whether there is room for numbers."""

    width: int
    letters: int
    roomy: bool


NARROW, WIDE = Size(350, 22, False), Size(680, 30, True)
LETTER = 7.2  # pixels of a letter of a label, in a wide font: which one the reader has is not known


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
    """What an attacker reaches at worst, before the release and after it, and what is promised."""

    label: str
    baseline: float | None
    worst: float
    bound: float | None


@dataclass(frozen=True)
class Traded:
    """A method: the share of people guessed right, and the error of counts."""

    label: str
    risk: float
    error: float


@dataclass(frozen=True)
class Key:
    """A kind of marks: its words, the symbol that stands for it in a text, its shape and colour.

    Marks of one line that may fall on one place are told apart by `lower`, how many pixels below the middle they are,
    or by their shapes: a dot fits into a ring, and a tick is longer than both.
    """

    words: str
    symbol: str
    shape: str
    colour: str
    lower: int = 0


UNCORRECTED = "published rows"
COUNTS = (
    ("published", Key(UNCORRECTED, "✚", "cross", QUIET, -6)),
    ("estimate", Key("estimate with 95% interval", "●", "circle", ACCENT)),
    ("truth", Key("true count", "◆", "diamond", SECOND, 6)),
)
RISKS = (
    ("bound", Key("promised", "┃", "tick", SECOND)),
    ("baseline", Key("before the release", "○", "ring", QUIET)),
    ("worst", Key("after it, at worst", "●", "circle", ACCENT)),
)
TRADED = (
    ("risk", Key("people guessed right", "●", "circle", ACCENT, -4)),
    ("error", Key("error of counts", "◆", "diamond", SECOND, 4)),
)
"""The kinds of marks, each by the attribute that it shows."""


def keys_of(kinds: Sequence[tuple[str, Key]], shown: Sequence[object]) -> tuple[Key, ...]:
    return tuple(key for name, key in kinds if any(getattr(each, name) is not None for each in shown))


def heat_map(
    labels: Sequence[str], matrix: Sequence[Sequence[float]], size: Size, row: str = "published value"
) -> dict[str, Any]:
    """Return the matrix P[j, i]: a row for each published value, or what `row` names, a column for each true one."""
    shown = [shorten(label, min(size.letters, size.width // 24)) for label in labels]
    letters = _label_room(shown)
    cell = min(48, (size.width - letters - 40) // len(labels))
    above = shown if cell >= LEGIBLE else [""] * len(shown)
    heading = "original value" if cell >= LEGIBLE else "original value, in the order of the rows"
    most = max(map(max, matrix))
    cells = [
        {"published": j, "original": i, "p": p, "text": _percent(p)}
        for j, chances in enumerate(matrix)
        for i, p in enumerate(chances)
    ]
    places = {
        "x": _nominal("original", above, heading, orient="top", labelAngle=-90, labelAlign="left"),
        "y": _nominal("published", shown, row, minExtent=letters),
    }
    shade = {"field": "p", "type": "quantitative", "legend": None, "scale": {"domain": [0, most], "range": [0, 0.8]}}
    heat = {"type": "rect", "color": HEAT, "stroke": FAINT, "strokeWidth": 0.5}
    layers: list[dict[str, Any]] = [{"mark": heat, "encoding": {"fillOpacity": shade}}]
    if size.roomy and len(labels) <= NUMBERED_CELLS:
        layers.append({"mark": {"type": "text", "color": INK}, "encoding": {"text": {"field": "text"}}})
    height = max(cell, LEGIBLE) * len(labels)
    return _spec(cell * len(labels), height, layers, data={"values": cells}, encoding=places)


def intervals(counts: Sequence[Estimated], size: Size) -> dict[str, Any]:
    """Return estimates with intervals, beside the published and the true counts where these are told."""
    ends = [{"line": k, "lower": _drawn(c.lower), "upper": _drawn(c.upper)} for k, c in enumerate(counts)]
    bars = {
        "data": {"values": ends},
        "mark": {"type": "rule", "strokeWidth": 2, "color": ACCENT},
        "encoding": {"x": _number("lower", "records", size), "x2": {"field": "upper"}},
    }
    return _lines(counts, COUNTS, _number("value", "records", size), size, [bars])


def risks(found: Sequence[Risk], size: Size) -> dict[str, Any]:
    return _lines(found, RISKS, _number("value", "risk", size, domain=[0, 1], percent=True), size, [])


def _lines(
    found: Sequence[Estimated | Risk | Traded],
    kinds: Sequence[tuple[str, Key]],
    x: dict[str, Any],
    size: Size,
    below: list[dict[str, Any]],
) -> dict[str, Any]:
    shown = [shorten(each.label, size.letters) for each in found]
    room = _label_room(shown)
    marks = [_points(key, [getattr(each, name) for each in found], x) for name, key in kinds]
    y = {"y": _nominal("line", shown, None, minExtent=room)}
    return _spec(size.width - room - 30, BAR * len(found), [*below, *marks], encoding=y)


def _points(key: Key, values: Sequence[float | None], x: dict[str, Any]) -> dict[str, Any]:
    """Return one kind of marks; values that do not exist are left out."""
    mark: dict[str, Any] = {"type": "point", "filled": True, "size": 45, "shape": key.shape, "yOffset": key.lower}
    if key.shape == "tick":
        mark = {"type": "tick", "thickness": 3, "size": BAR - 2}
    if key.shape == "ring":
        mark = {"type": "point", "filled": False, "size": 110, "strokeWidth": 1.5}
    data = [{"line": k, "value": _drawn(value)} for k, value in enumerate(values) if value is not None]
    return {"data": {"values": data}, "mark": {**mark, "color": key.colour, "opacity": 1}, "encoding": {"x": x}}


def traded(methods: Sequence[Traded], size: Size) -> dict[str, Any]:
    """Return the methods one below the other: the further left both marks are, the better."""
    return _lines(methods, TRADED, _number("value", "share", size, percent=True), size, [])


def histogram(
    bars: Mapping[str, float], x_title: str, y_title: str, size: Size, bound: float | None = None
) -> dict[str, Any]:
    """Return bars side by side. `bound`: a line between them, at so many bars from the left."""
    width = size.width - 90
    step = width / max(1, len(bars))
    every = -(-int(LETTER * (max(map(len, bars)) + 1)) // max(1, int(step)))
    labels = [label if k % every == 0 else "" for k, label in enumerate(bars)]
    x = _nominal("place", labels, x_title, labelAngle=0)
    x["scale"]["paddingInner"] = 0.15
    drawn = {
        "data": {"values": [{"place": k, "height": _drawn(height)} for k, height in enumerate(bars.values())]},
        "mark": {"type": "bar", "color": ACCENT},
        "encoding": {"x": x, "y": _number("height", y_title, size)},
    }
    return _spec(width, 150, [drawn, *([] if bound is None else [_line_at(bound * step)])])


def _line_at(x: float) -> dict[str, Any]:
    return {
        "data": {"values": [{}]},
        "layer": [
            {"mark": {"type": "rule", "color": SECOND, "strokeWidth": 2, "strokeDash": [5, 3]}},
            {
                "mark": {"type": "text", "color": SECOND, "text": "bound", "dy": -6, "baseline": "bottom"},
                "encoding": {"y": {"value": 0}},
            },
        ],
        "encoding": {"x": {"value": x}},
    }


def shorten(text: str, letters: int) -> str:
    """Return a text of at most so many letters.

    >>> shorten("Married-civ-spouse", 10), shorten("flu", 10)
    ('Married-c…', 'flu')
    """
    text = " ".join(text.split())
    return plain(text if len(text) <= letters else text[: letters - 1] + "…")


def _label_room(labels: Sequence[str]) -> int:
    return int(LETTER * max((len(label) for label in labels), default=0)) + 6


def _drawn(number: float | None) -> float | None:
    """Return a number in as many digits as can be seen: sums come out in other last digits from run to run."""
    return None if number is None else float(f"{number:.6g}")


def _percent(p: float) -> str:
    return f"{100 * p:.0f}" if p >= 0.095 else f"{100 * p:.1f}"


def _nominal(field: str, labels: Sequence[str], title: str | None, **axis: Any) -> dict[str, Any]:
    return {
        "field": field,
        "type": "nominal",
        "sort": None,
        "scale": {"type": "band", "domain": list(range(len(labels)))},
        "axis": {"title": title, "labelExpr": by_place(labels), "ticks": False, "domain": False, **axis},
    }


def _number(
    field: str, title: str, size: Size, domain: list[float] | None = None, percent: bool = False
) -> dict[str, Any]:
    few = {"tickCount": 6 if size.roomy else 3, "labelOverlap": "greedy", "labelSeparation": 12}
    axis = {"title": title, "titlePadding": 12, "grid": True, "format": ".0%" if percent else ",~r", **few}
    scale = {"domain": domain} if domain else {"nice": True}
    return {"field": field, "type": "quantitative", "axis": axis, "scale": scale}


def _spec(width: int, height: int, layers: list[dict[str, Any]], **content: Any) -> dict[str, Any]:
    text = {
        "labelColor": INK, "labelFontSize": 12, "labelLimit": 0,
        "titleColor": QUIET, "titleFontSize": 12, "titleFontWeight": "normal",
    }  # fmt: skip
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "width": width,
        "height": height,
        **content,
        "layer": layers,
        "config": {
            "aria": False,
            "font": FONT,
            "background": None,
            "padding": 4,
            "view": {"stroke": None},
            "axis": {**text, "gridColor": FAINT, "domainColor": QUIET, "tickColor": QUIET},
            "text": {"fontSize": 11, "color": INK},
        },
    }
