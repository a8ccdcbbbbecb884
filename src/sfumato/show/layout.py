"""What a picture of an answer shows, and where: the lines, colours and panels, the scale, the numbers in words."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
"""Told apart by colour-blind people: Okabe and Ito, with R's grey for the yellow, which is pale on paper."""
MISSING = "(missing)"
JAVASCRIPT = (
    "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable", "toLocaleString", "toString", "valueOf",
    "__proto__", "__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__",
)  # fmt: skip
LETTER = 5.2  # pixels of a letter on average, in the size of labels
LABEL_LETTERS, LABEL_LINES = 44, 4  # a longer label is broken into lines
WIDE, NARROW = 400, 240  # pixels of an x axis that is alone, and of one beside others
BESIDE = 3  # more figures than that are put one below the other
TICKS = 8  # at most, on an x axis
MARGIN = 0.03  # of an x axis, beyond the outermost number
LONG = 10  # a bar that reaches farther than so many typical ones does not stretch the axis: it is cut, with an arrow
NEGLIGIBLE = 1e-6  # of a number: no more than rounding


@dataclass(frozen=True)
class Mark:
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
        return self.upper - self.lower

    @property
    def numbers(self) -> list[float]:
        return [v for v in (self.estimate, self.lower, self.upper) if math.isfinite(v)]


@dataclass(frozen=True)
class Layout:
    by_lines: tuple[str, ...]  # the columns that give the lines
    by_colour: str  # the column that gives the colours, if there is one
    marks: tuple[Mark, ...]
    scales: dict[str, Scale]  # of each figure
    interval: str  # " (95% interval)", or nothing if there is none

    @property
    def panels(self) -> list[str]:
        """Return the panels' headings, in the order of the answer."""
        return list(dict.fromkeys(mark.panel for mark in self.marks))

    @property
    def colours(self) -> list[str]:
        """Return the values that have a colour, in the order of the answer."""
        if not self.by_colour:
            return []
        return merged([(mark.panel, mark.line, mark.figure), mark.colour] for mark in self.marks)

    def lines(self, panel: str) -> list[str]:
        """Return the lines of a panel, in the order of the answer."""
        return merged([(mark.colour, mark.figure), mark.line] for mark in self.marks if mark.panel == panel)

    @property
    def beside(self) -> int:
        return len(self.scales) if len(self.scales) <= BESIDE else 1

    @property
    def letters(self) -> int:
        """Return how many letters fit in a line across the picture, about."""
        labels = max(len(line) for mark in self.marks for line in label_lines(mark.line))
        numbers = max(len(beside(mark, self.scales[mark.figure])) for mark in self.marks)
        return labels + self.beside * (numbers + int(next(iter(self.scales.values())).width / LETTER))

    def order(self) -> list[tuple[str, str]]:
        """Return panel and figure of every cell, line by line."""
        if self.beside == 1:
            return [(panel, figure) for figure in self.scales for panel in self.panels]
        return [(panel, figure) for panel in self.panels for figure in self.scales]


def merged(placed: Iterable[Sequence[Any]]) -> list[str]:
    """Return all labels in the order of every run, given pairs of a run and a label; as they come where runs disagree.

    A group that lacks a label does not tell where it belongs, but another one does:

    >>> merged([("F", "[18, 30)"), ("F", ">= 30"), ("M", "< 18"), ("M", "[18, 30)")])
    ['< 18', '[18, 30)', '>= 30']
    """
    runs: dict[Any, list[str]] = {}
    for run, label in placed:
        runs.setdefault(run, []).append(label)
    as_they_come = list(dict.fromkeys(label for labels in runs.values() for label in labels))
    before: dict[str, set[str]] = {label: set() for label in as_they_come}
    for labels in runs.values():
        for one, other in pairwise(dict.fromkeys(labels)):
            before[other].add(one)
    ordered: dict[str, None] = {}
    while len(ordered) < len(as_they_come):
        ready = (label for label in as_they_come if label not in ordered and before[label] <= ordered.keys())
        first = next(ready, None)
        if first is None:
            return as_they_come
        ordered[first] = None
    return list(ordered)


def layout_of(rows: list[dict[str, Any]], by: Sequence[str], level: float | None) -> Layout:
    """Return where all is drawn; without a level, numbers have no intervals, and nothing is said of these."""
    lines, colour, panels = _roles(rows, by)
    marks = tuple(
        Mark(
            ", ".join(f"{name}: {label(row[name])}" for name in panels),
            ", ".join(label(row[name]) for name in lines) or "all",
            label(row[colour]) if colour else "",
            "" if "figure" in by else row.get("figure", ""),
            *(math.nan if row[name] is None else float(row[name]) for name in ("estimate", "lower", "upper")),
        )
        for row in rows
    )
    figures = list(dict.fromkeys(mark.figure for mark in marks))
    width = WIDE if len(figures) == 1 or len(figures) > BESIDE else NARROW
    is_exact = level is None
    scales = {figure: _scale([m for m in marks if m.figure == figure], width, is_exact) for figure in figures}
    has_none = all(math.isnan(mark.width) for mark in marks)
    interval = "" if level is None or has_none else f" ({percent(level)} interval)"
    return Layout(lines, colour, marks, scales, interval)


def _roles(rows: list[dict[str, Any]], by: Sequence[str]) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    candidates = by[1::-1] if len(by) > 1 else ()
    colour = next((name for name in candidates if _distinct(rows, [name]) <= len(COLOURS)), "")
    rest = tuple(name for name in by if name != colour)
    lines, panels = (rest[:1], rest[1:]) if colour else (rest[-1:], rest[:-1])
    if panels and 2 * _distinct(rows, panels) > _distinct(rows, rest):
        lines, panels = rest, ()
    return lines, colour, panels


def _distinct(rows: list[dict[str, Any]], names: Sequence[str]) -> int:
    return len({tuple(label(row[name]) for name in names) for row in rows})


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


def label_lines(text: str) -> list[str]:
    lines = textwrap.wrap(text, LABEL_LETTERS, max_lines=LABEL_LINES, placeholder=" …")
    return [plain(line) for line in lines]


def plain(text: str) -> str:
    """Return a text for Vega, which draws nothing at all if one is a name that every JavaScript object knows."""
    return f"{text} " if text in JAVASCRIPT else text


# --- numbers ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """An x axis: its ends, its ticks, the decimals of the ticks and of the numbers beside the bars, its pixels."""

    low: float
    high: float
    ticks: tuple[float, ...]
    tick_decimals: int
    decimals: int
    width: int
    is_exact: bool = False  # numbers that are no estimates


def _scale(marks: list[Mark], width: int, is_exact: bool) -> Scale:
    low, high = _reach(_to_hold(marks))
    margin = MARGIN * (high - low)
    low -= margin * (3 if any(mark.lower < low for mark in marks) else low != 0)
    high += margin * (3 if any(mark.upper > high for mark in marks) else high != 0)
    step = _step((high - low) / TICKS)
    tick_decimals = max(0, -math.floor(math.log10(step) + NEGLIGIBLE))
    ticks = tuple(round(k * step, tick_decimals) for k in range(math.ceil(low / step), math.floor(high / step) + 1))
    return Scale(low, high, ticks, tick_decimals, _decimals(marks), width, is_exact)


def _to_hold(marks: list[Mark]) -> list[float]:
    """Return the numbers that an axis must hold: all estimates, and the ends of bars that are not too long."""
    longest = LONG * median(_widths(marks) or [math.inf]) / 2
    return [v for mark in marks for v in mark.numbers if not abs(v - mark.estimate) > longest]


def _widths(marks: list[Mark]) -> list[float]:
    """Return the widths of the intervals, without infinite ones and those of exact numbers."""
    least = NEGLIGIBLE * _largest(marks)
    return [mark.width for mark in marks if least < mark.width < math.inf]


def _largest(marks: list[Mark]) -> float:
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


def _decimals(marks: list[Mark]) -> int:
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


def beside(mark: Mark, scale: Scale) -> str:
    estimate, lower, upper = (_shown(v, scale.decimals) for v in (mark.estimate, mark.lower, mark.upper))
    interval = "no interval" if math.isnan(mark.width) else f"{lower} to {upper}"
    if math.isnan(mark.estimate):
        return "none" if scale.is_exact else "no estimate"
    return estimate if scale.is_exact else f"{estimate} ({interval})"


def percent(level: float) -> str:
    return f"{100 * level:.10g}%"
