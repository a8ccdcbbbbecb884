"""A first screen: what matters, in at most 25 lines; all else is one option away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.show.terminal import folded, printable

MOST_LINES = 25
MOST_FOLDED = 6
"""Lines that one statement may take, fewer where a screen is full; what is cut is told by the details."""
DETAILS = "Add --details for all of it."


@dataclass(frozen=True)
class Screen:
    """What a command shows first: a head, points of which as many are shown as there is room for, and an end."""

    head: tuple[str, ...]
    points: tuple[str, ...] = ()
    title: str = ""  # of the points
    end: tuple[str, ...] = (DETAILS,)

    def text(self, width: int) -> str:
        """Return the screen in lines of at most this width, without more lines than a screen has."""
        end = _lines(self.end, width)
        most_of_head = MOST_LINES - len(end) - bool(self.points)
        heads = (_lines(self.head, width, most) for most in range(MOST_FOLDED, 1, -1))
        head = next((lines for lines in heads if len(lines) <= most_of_head), _lines(self.head, width, 1))
        room = MOST_LINES - len(head) - len(end) - 2
        points = [_lines([f"  - {point}"], width) for point in self.points]
        if points and room < min(len(points), 2):  # not even the first point and how many more there are
            told = f"{len(points):,} point{'' if len(points) == 1 else 's'}"
            return "\n".join([*head, f"{self.title or 'More'}: {told}.", *end])
        shown = _fitting(points, room, width)
        return "\n".join([*head, *(["", *_titled(self.title), *shown] if shown else []), *end])


def _fitting(points: Sequence[Sequence[str]], room: int, width: int) -> list[str]:
    """Return as many points as there is room for, and how many more there are; the first one at least in part."""
    shown: list[str] = []
    for number, lines in enumerate(points):
        left = room - len(shown) - (0 if number + 1 == len(points) else 1)
        if len(lines) > left:
            if not shown:
                shown, number = [*lines[: left - 1], f"{lines[left - 1][: width - 4]} ..."], number + 1
            return [*shown, *([f"  ... and {len(points) - number:,} more"] if number < len(points) else [])]
        shown += lines
    return shown


def _titled(title: str) -> list[str]:
    return [title] if title else []


def _lines(texts: Sequence[str], width: int, most: int = MOST_FOLDED) -> list[str]:
    """Return the texts in lines: rows of tables cut at the width, and no statement in more lines than it may take."""
    lines: list[str] = []
    for text in texts:
        own = folded(printable(text), width).split("\n")
        kept = own if len(own) <= most else [*own[: most - 1], f"{own[most - 1]} ..."]
        lines += [line if len(line) <= width else f"{line[: width - 3]}..." for line in kept]
    return lines
