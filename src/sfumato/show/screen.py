"""A first screen: what matters, in at most 25 lines; all else is one option away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from sfumato.show.terminal import folded, printable

MOST_LINES = 25
MOST_FOLDED = 6
"""Lines that one statement may take, fewer where a screen is full; what is cut is told by the details."""
SAID_FIRST = "Promise "
"""How the statement begins that is cut after all others."""
DETAILS = "Add --details for all of it."


@dataclass(frozen=True)
class Screen:
    """What a command shows first: a head, points of which as many are shown as there is room for, and an end.

    Points that somebody must decide on are all shown: in full where there is room, else by their first sentence.
    """

    head: tuple[str, ...]
    points: tuple[str, ...] = ()
    title: str = ""  # of the points
    end: tuple[str, ...] = (DETAILS,)
    must: tuple[str, ...] = ()  # before the points, under the same title

    def text(self, width: int) -> str:
        """Return the screen in lines of at most this width, without more lines than a screen has."""
        if self.must:
            return self._with_all(width)
        end = _lines(self.end, width)
        most_of_head = MOST_LINES - len(end) - bool(self.points)
        heads = (_lines(self.head, width, most) for most in range(MOST_FOLDED, 1, -1))
        head = next((lines for lines in heads if len(lines) <= most_of_head), _lines(self.head, width, 1))
        room = MOST_LINES - len(head) - len(end) - 2
        points = [_lines([f"  - {point}"], width) for point in self.points]
        if points and room < min(len(points), 2):  # not even the first point and how many more there are
            told = f"{len(points):,} point{'' if len(points) == 1 else 's'}"
            return "\n".join([*head, f"{self.title or 'More'}: {told}.", *end])
        shown = _fitting(points, room, width=width)
        return "\n".join([*head, *(["", *_titled(self.title), *shown] if shown else []), *end])

    def _with_all(self, width: int) -> str:
        """Return the screen with all that must be decided; only if nothing else helps in more lines than a screen."""
        end, kept = _lines(self.end, width), [f"  - {point}" for point in self.must]
        short = [_first_sentence(point) for point in kept]
        ways = [(MOST_FOLDED, most, SAID_FIRST) for most in (MOST_FOLDED, 2, 1)]
        ways += [*((most, 1, SAID_FIRST) for most in range(MOST_FOLDED - 1, 0, -1)), (1, 1, "")]
        for most_of_head, most, whole in ways:
            head = [*_lines(self.head, width, most_of_head, whole), "", *_titled(self.title)]
            points = [_lines([point], width, most) for point in short]
            room = MOST_LINES - len(head) - sum(map(len, points)) - len(end)
            if room >= 0:
                break
        for place, text in enumerate(kept):  # in full, from the first one on, as far as there is room
            full = _lines([text], width)
            if (longer := len(full) - len(points[place])) <= room:
                points[place], room = full, room - longer
        more = [_lines([f"  - {point}"], width) for point in self.points]
        return "\n".join([*head, *chain(*points), *_fitting(more, room, "more to know"), *end])


def _first_sentence(text: str) -> str:
    """Return a text up to its first full stop that ends a sentence."""
    found = re.match(r".+?[^\s.]{2}\.(?= [A-Z])", text)
    return found[0] if found else text


def _fitting(points: Sequence[Sequence[str]], room: int, more: str = "more", width: int = 0) -> list[str]:
    """Return as many points as there is room for, and how many more there are, if there is room to say so.

    With a width the first one is shown at least in part.
    """
    shown: list[str] = []
    for number, lines in enumerate(points):
        left = room - len(shown) - (0 if number + 1 == len(points) else 1)
        if len(lines) > left:
            if width and not shown:
                shown, number = [*lines[: left - 1], f"{lines[left - 1][: width - 4]} ..."], number + 1
            rest = len(points) - number
            return [*shown, *([f"  ... and {rest:,} {more}"] if rest and room > len(shown) else [])]
        shown += lines
    return shown


def _titled(title: str) -> list[str]:
    return [title] if title else []


def _lines(texts: Sequence[str], width: int, most: int = MOST_FOLDED, whole: str = "") -> list[str]:
    """Return the texts in lines: rows of tables cut at the width, and no statement in more lines than it may take.

    A text that begins with `whole` may take as many as any.
    """
    lines: list[str] = []
    for text in texts:
        own = folded(printable(text), width).split("\n")
        room = MOST_FOLDED if whole and text.startswith(whole) else most
        kept = own if len(own) <= room else [*own[: room - 1], f"{own[room - 1]} ..."]
        lines += [line if len(line) <= width else f"{line[: width - 3]}..." for line in kept]
    return lines
