"""Pictures of figures as SVG, made on the server: no script draws, and every text is escaped.

Colours and type come from the page's style sheet, by classes, so that pictures are light or dark with the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup, escape

LINE = 24
"""Pixels of a line of a picture."""
MOST_LETTERS = 24
NARROW = 340
"""Pixels: the width of a picture for a phone, where labels stand above their lines."""


@dataclass(frozen=True)
class Rooms:
    """Pixels of a picture: the whole width, the room for labels on the left and for numbers on the right."""

    width: int
    left: int
    right: int

    @property
    def letters(self) -> int:
        """How many letters of a label fit."""
        return self.left // LETTER

    def for_labels(self, bars: Sequence[Bar]) -> Rooms:
        """Return rooms in which the longest label fits, up to two fifths of the picture."""
        longest = LETTER * max((len(bar.label) for bar in bars), default=0)
        return replace(self, left=min(max(self.left, longest), self.width * 2 // 5))


LETTER = 7
"""Pixels of a letter of a label, about."""
WIDE, SLIM = Rooms(720, 190, 150), Rooms(440, 130, 120)


@dataclass(frozen=True)
class Bar:
    """A line of a picture: a value, where it is known, an interval, and what is said beside it."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    told: str = ""
    other: float | None = None
    """A second figure on the same line, such as the uncorrected one."""


def element(name: str, content: Markup | str = "", **attributes: object) -> Markup:
    """Return an element of SVG; `_` in the name of an attribute is `-`, and a `class_` is a class."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items() if value != ""
    )
    return Markup(f"<{name}{shown}>{escape(content)}</{name}>")


def error_bars(bars: Sequence[Bar], title: str, *, as_bars: bool = False, rooms: Rooms = WIDE) -> Markup:
    """Return a line for each figure: its value as a point, or as a bar from 0, and its interval as a whisker."""
    rooms = rooms.for_labels(bars)
    place = _places(bars, rooms.left, rooms.width - rooms.left - rooms.right)
    lines: list[Markup] = [element("line", class_="axis", x1=place(0), x2=place(0), y1=0, y2=LINE * len(bars))]
    for number, bar in enumerate(bars):
        lines += _line(bar, number * LINE + LINE // 2, place, as_bars, rooms)
    return picture(Markup("").join(lines), rooms.width, LINE * max(1, len(bars)) + 4, title)


def interval_bars(bars: Sequence[Bar], title: str) -> Markup:
    """Return `error_bars` for a wide screen and for a phone; the style sheet shows one of them."""
    both = ((error_bars(bars, title), "wide"), (narrow_bars(bars, title), "narrow"))
    return Markup("").join(element("div", drawn, class_=f"only-{name}") for drawn, name in both)


def narrow_bars(bars: Sequence[Bar], title: str) -> Markup:
    """Return the same as `error_bars` with labels and figures above the lines, in letters that a phone shows."""
    place, high = _places(bars, 8, NARROW - 16), 2 * LINE - 6
    lines: list[Markup] = [element("line", class_="axis", x1=place(0), x2=place(0), y1=0, y2=high * len(bars))]
    for number, bar in enumerate(bars):
        y = number * high
        lines.append(element("text", shortened(bar.label, MOST_LETTERS + 4), x=8, y=y + 15))
        lines.append(element("text", bar.told, class_="quiet", x=NARROW - 8, y=y + 15, text_anchor="end"))
        lines += _marks(bar, y + 28, place, False)
    return picture(Markup("").join(lines), NARROW, high * max(1, len(bars)) + 4, title)


def _places(bars: Sequence[Bar], left: int, room: int) -> Callable[[float], float]:
    """Return where figures lie on an axis with 0 and all that is finite; what is beyond its ends lies there."""
    ends = [x for bar in bars for x in (bar.value, bar.low, bar.high, bar.other) if x is not None and x - x == 0]
    low, high = min([0.0, *ends]), max([0.0, *ends])
    span = (high - low) or 1.0

    def place(x: float) -> float:
        return round(left + room * (min(max(x, low), high) - low) / span, 2)

    return place


def _line(bar: Bar, y: int, place: Callable[[float], float], as_bars: bool, rooms: Rooms) -> list[Markup]:
    found = [element("text", shortened(bar.label, rooms.letters), x=rooms.left - 10, y=y + 4, text_anchor="end")]
    found += _marks(bar, y, place, as_bars)
    if bar.told:
        found.append(element("text", bar.told, class_="quiet", x=rooms.width - rooms.right + 12, y=y + 4))
    return found


def _marks(bar: Bar, y: int, at: Callable[[float], float], as_bars: bool) -> list[Markup]:
    """Return what is drawn of a line without its words."""
    found: list[Markup] = []
    if bar.value is not None:
        zero, end = at(0.0), at(bar.value)
        if as_bars:
            found.append(element("rect", class_="bar", x=min(zero, end), y=y - 7, width=abs(end - zero), height=14))
        else:
            found.append(element("circle", class_="point", cx=end, cy=y, r=4))
    if bar.low is not None and bar.high is not None:
        found.append(element("line", class_="whisker", x1=at(bar.low), x2=at(bar.high), y1=y, y2=y))
    if bar.other is not None:
        found.append(element("rect", class_="other", x=at(bar.other) - 3, y=y - 3, width=6, height=6))
    return found


def columns_picture(heights: Sequence[float], title: str, width: int = 120, height: int = 28) -> Markup:
    """Return small upright bars side by side, the highest as high as the picture."""
    most, step = max([*heights, 0.0]) or 1.0, width / max(1, len(heights))
    bars = [
        element(
            "rect", class_="bar", x=round(k * step, 2), y=round(height * (1 - x / most), 2),
            width=round(max(1.0, step - 1), 2), height=round(height * x / most, 2),
        )
        for k, x in enumerate(heights)
    ]  # fmt: skip
    return picture(Markup("").join(bars), width, height, title, "small")


def belief_curve(
    curves: Sequence[Sequence[tuple[float, float]]], mark: tuple[float, float] | None, title: str
) -> Markup:
    """Return what someone may come to believe, by what they believed before: lines, all in shares of one."""
    side, left, top = 260, 52, 12

    def place(x: float, y: float) -> str:
        return f"{left + side * x:.1f},{top + side * (1 - y):.1f}"

    parts = [
        element("rect", class_="frame", x=left, y=top, width=side, height=side),
        element("line", class_="axis", x1=left, y1=top + side, x2=left + side, y2=top),
    ]
    for at in (0.0, 0.5, 1.0):
        parts += [
            element("text", f"{at:.0%}", class_="quiet", x=left + side * at, y=top + side + 18, text_anchor="middle"),
            element("text", f"{at:.0%}", class_="quiet", x=left - 8, y=top + side * (1 - at) + 4, text_anchor="end"),
        ]
    parts += [element("polyline", class_="line", points=" ".join(place(*point) for point in c)) for c in curves]
    if mark is not None:
        x, y = left + side * mark[0], top + side * (1 - mark[1])
        parts += [
            element("line", class_="limit", x1=left, x2=x, y1=y, y2=y),
            element("line", class_="limit", x1=x, x2=x, y1=y, y2=top + side),
            element("circle", class_="point", cx=round(x, 1), cy=round(y, 1), r=5),
        ]
    parts += [
        element("text", "believed before", class_="quiet", x=left + side / 2, y=top + side + 38, text_anchor="middle")
    ]
    return picture(Markup("").join(parts), left + side + 24, top + side + 48, title)


def picture(content: Markup, width: int, height: int, title: str, kind: str = "") -> Markup:
    """Return a whole picture with its name for people who do not see it."""
    return element(
        "svg", element("title", title) + content, class_=f"picture {kind}".rstrip(), viewBox=f"0 0 {width} {height}",
        width=width, height=height, role="img", aria_label=title,
    )  # fmt: skip


def shortened(text: str, most: int) -> str:
    """Return a text that fits."""
    return text if len(text) <= most else text[: most - 1] + "…"
