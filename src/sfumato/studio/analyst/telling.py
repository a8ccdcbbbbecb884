"""Answers as the page shows them: figures with intervals in a table and as pictures, the uncorrected figure beside.

Figures are the library's own; here they are only written and drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from markupsafe import Markup

from sfumato.analyst.answer import Answer
from sfumato.analyst.associations import CLASSICAL, Comparison
from sfumato.analyst.power import Power
from sfumato.analyst.release import Release
from sfumato.analyst.uncorrected import at_its_word, has_sets
from sfumato.show.layout import label, percent
from sfumato.show.words import decimals_of, number, power_figure
from sfumato.studio.analyst.calls import Call
from sfumato.studio.web.pictures import Bar, interval_bars

MOST_LINES, MOST_BARS = 200, 40
"""Of an answer on the page; a file has all of them."""
LONG = 10
"""An interval that is so many times longer than a typical one does not stretch a picture: it is cut."""
BESIDE_ROWS, BESIDE_GROUPS = "Uncorrected", "Classical"
WHY_ROWS = (
    f"{BESIDE_ROWS}: what counting the published rows gives, their values taken for the true ones. It is biased, and "
    "more records do not help."
)
WHY_GROUPS = (
    f"{BESIDE_GROUPS}: what someone gets who joins both files and spreads each group's values over its records. It is "
    "biased towards no association."
)
NO_SETS = (
    "There is no uncorrected figure: each row shows a set of values, and counting sets counts nothing that a record "
    "has."
)


@dataclass(frozen=True)
class Column:
    """A heading of a table, and whether figures stand below it."""

    title: str
    is_number: bool = True


@dataclass(frozen=True)
class Told:
    """An answer in lines and pictures."""

    heading: str
    columns: tuple[Column, ...]
    lines: tuple[tuple[str, ...], ...]
    pictures: tuple[Picture, ...]
    notes: tuple[str, ...]
    total: int  # lines that there are
    key: tuple[str, str] = ("", "")  # what the marks of the pictures are

    @property
    def left_out(self) -> int:
        """Lines that are not shown."""
        return self.total - len(self.lines)


@dataclass(frozen=True)
class Picture:
    """A picture and what it is of, where there are several."""

    title: str
    drawn: Markup


@dataclass(frozen=True)
class Beside:
    """The uncorrected figures of an answer by group, under a title; or a note why there are none."""

    title: str = ""
    figures: dict[tuple[Any, ...], Any] | None = None
    note: str = ""


# --- the uncorrected figure -------------------------------------------------------------------------------------------


def beside_of(release: Release, call: Call, answer: Answer) -> Beside:
    """Return what someone would get who does not correct; nothing where that is the answer itself."""
    if release.manifest.in_buckets:
        if answer.method == "classical":
            return Beside()
        plain = call.without("method")
        naive = Call(plain.name, plain.places, (*plain.options, ("method", "classical"))).asked(release)
        found = Beside(BESIDE_GROUPS, _by_group(naive), WHY_GROUPS)
    elif has_sets(release):
        return Beside(note=NO_SETS) if answer.standard_error.any() else Beside()
    else:
        found = Beside(BESIDE_ROWS, _by_group(call.without("method").asked(at_its_word(release))), WHY_ROWS)
    same = all(found.figures.get(group) == figure for group, figure in _by_group(answer).items())  # type: ignore[union-attr]
    return Beside() if same else found


def _by_group(answer: Answer) -> dict[tuple[Any, ...], Any]:
    return dict(zip(answer.groups, answer.figures()["estimate"], strict=True))


# --- answers ----------------------------------------------------------------------------------------------------------


def told_answer(answer: Answer, beside: Beside) -> Told:
    """Return an answer in lines and pictures."""
    figures = answer.figures()
    rows = list(zip(answer.groups, *figures.values(), strict=True))[:MOST_LINES]
    naive = beside.figures
    lines = []
    for group, value, error, low, high in rows:
        told = [written(value, error), _interval(low, high, error)]
        told += [written(naive.get(group), error)] if naive is not None else []
        lines.append((*map(label, group), *told, written(error, error)))
    columns = [Column(name, False) for name in answer.by]
    columns += [Column("Estimate"), Column(f"{percent(answer.level)} interval")]
    columns += [*([Column(beside.title)] if naive is not None else []), Column("Standard error")]
    return Told(
        f"For the {answer.target}, {percent(answer.level)} intervals",
        tuple(columns),
        tuple(lines),
        tuple(_pictures(answer, rows[:MOST_BARS], naive)) if not answer.marks else (),
        (*answer.notes, *([beside.note] if beside.note else [])),
        len(answer.groups),
        (f"estimate and its {percent(answer.level)} interval", beside.title if naive is not None else ""),
    )


def _pictures(answer: Answer, rows: Sequence[Any], naive: dict[tuple[Any, ...], Any] | None) -> Iterable[Picture]:
    """Give a picture of each figure that was asked."""

    by_figure: dict[str, list[Any]] = {}
    for row in rows:
        by_figure.setdefault(str(row[0][-1]) if answer.figure else "", []).append(row)
    for figure, own in by_figure.items():
        bars = []
        for group, value, error, low, high in own:
            names = group[:-1] if answer.figure else group
            told = written(value, error)
            other = naive.get(group) if naive is not None else None
            bars.append(Bar(" / ".join(map(label, names)) or "all", _drawn(value), low, high, told, _drawn(other)))
        title = f"{figure or 'Estimates'} with {percent(answer.level)} intervals"
        yield Picture(figure, interval_bars(cut(bars), title))


def _drawn(value: Any) -> float | None:
    """Return a figure that has a place in a picture."""
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def cut(bars: Sequence[Bar]) -> list[Bar]:
    """Return the bars, intervals that are far longer than the others without ends."""
    widths = [bar.high - bar.low for bar in bars if bar.low is not None and bar.high is not None]
    finite = [width for width in widths if 0 < width < math.inf]
    longest = LONG * median(finite) if finite else math.inf
    return [
        replace(bar, low=-math.inf, high=math.inf)
        if bar.low is not None and bar.high is not None and bar.high - bar.low > longest
        else bar
        for bar in bars
    ]


def written(value: float | str | None, error: float | str | None) -> str:
    """Return a figure with the decimals that its error deserves; as the command line has it where there is none.

    >>> written(0.9463, 184.6), written(0.0754, 0.0177), written(12, None)
    ('0.9', '0.075', '12.0')
    """
    if not isinstance(value, int | float) or not isinstance(error, int | float) or not 0 < error < math.inf:
        return number(value)
    return f"{value:,.{decimals_of(error)}f}" if value == value else number(value)


def _interval(low: Any, high: Any, error: float | None) -> str:
    if low is None or high is None:
        return "none"
    if low == -math.inf and high == math.inf:
        return "not known"
    return f"{written(low, error)} to {written(high, error)}".replace("inf", "∞")


# --- associations, risks, power ---------------------------------------------------------------------------------------


def told_comparison(found: Comparison) -> Told:
    """Return measures of association, each with a picture of its own: they have no common scale."""
    title = BESIDE_GROUPS if found.naive == CLASSICAL else BESIDE_ROWS
    lines, pictures = [], []
    for m in found.measures:
        error, low, high = m.standard_error, *(None if math.isnan(end) else end for end in (m.lower, m.upper))
        value = written(m.estimate, error)
        lines.append((m.name, value, _interval(low, high, error), written(m.naive, error), written(error, error)))
        bar = Bar(m.name, _drawn(m.estimate), low, high, value, _drawn(m.naive))
        pictures.append(Picture("", interval_bars([bar], f"{m.name} with its interval")))
    interval = f"{percent(found.level)} interval"
    return Told(
        f"{found.what}: for the {found.target}, {percent(found.level)} intervals",
        (Column("Measure", False), Column("Estimate"), Column(interval), Column(title), Column("Standard error")),
        tuple(lines),
        tuple(pictures),
        (*_test(found), *found.notes, WHY_GROUPS if found.naive == CLASSICAL else WHY_ROWS),
        len(lines),
        (f"estimate and its {interval}", title),
    )


def _test(found: Comparison) -> list[str]:
    if (test := found.test) is None:
        return []
    return [
        f"Test of independence: chi-square {test.statistic:,.1f}, {test.degrees} degrees of freedom, "
        f"p = {test.p_value:.3g}.",
        f"{found.naive}: {test.naive_statistic:,.1f}, p = {test.naive_p_value:.3g}.",
    ]


POWER = {
    "records": "Published rows",
    "assumed_share": "Assumed share",
    "share_half_width": "Plus or minus",
    "least_share": "Smallest share seen",
    "least_count": "Smallest count seen",
    "records_to_see": "Rows needed to see it",
    "records_for_width": "Rows needed for the width",
}


def told_power(found: Power) -> Told:
    """Return what to expect of counts."""
    rows = found.rows()
    names = [name for name in POWER if rows and name in rows[0]]
    lines = [
        (*map(label, group), *(power_figure(name, row[name]) for name in names))
        for group, row in zip(found.groups, rows, strict=True)
    ]
    bars = [
        Bar(
            " / ".join(map(label, group)) or "all",
            row["assumed_share"],
            row["assumed_share"] - row["share_half_width"],
            row["assumed_share"] + row["share_half_width"],
            power_figure("share", row["assumed_share"]),
        )
        for group, row in zip(found.groups, rows, strict=True)
        if None not in (row["assumed_share"], row["share_half_width"])
    ]
    drawn = interval_bars(cut(bars[:MOST_BARS]), "Assumed shares with the intervals to expect")
    return Told(
        f"For the {found.target}, {percent(found.level)} intervals, seen with a chance of {percent(found.chance)}",
        (*(Column(name, False) for name in found.by), *(Column(POWER[name]) for name in names)),
        tuple(lines[:MOST_LINES]),
        (Picture("", drawn),) if bars else (),
        found.notes,
        len(lines),
        ("assumed share and the interval to expect", ""),
    )
