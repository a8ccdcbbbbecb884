"""A first screen: what matters, in at most 25 lines; all else is one option away."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfumato.show.terminal import folded, printable

MOST_LINES = 25
MOST_FOLDED = 6
"""Lines that one statement may take; what is cut is told by the details."""
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
        head, end = _lines(self.head, width), _lines(self.end, width)
        shown = _fitting(
            [_lines([f"  - {point}"], width) for point in self.points], MOST_LINES - len(head) - len(end) - 2
        )
        return "\n".join([*head, *(["", *_titled(self.title), *shown] if shown else []), *end])


def _fitting(points: Sequence[Sequence[str]], room: int) -> list[str]:
    """Return as many points as there is room for, and how many more there are; the first one at least in part."""
    shown: list[str] = []
    for number, lines in enumerate(points):
        left = room - len(shown) - (0 if number + 1 == len(points) else 1)
        if len(lines) > left:
            if not shown:
                shown, number = [*lines[: max(1, left)][:-1], f"{lines[max(1, left) - 1]} ..."], number + 1
            return [*shown, *([f"  ... and {len(points) - number:,} more"] if number < len(points) else [])]
        shown += lines
    return shown


def _titled(title: str) -> list[str]:
    return [title] if title else []


def _lines(texts: Sequence[str], width: int) -> list[str]:
    """Return the texts in lines: rows of tables cut at the width, and no statement in more lines than it may take."""
    lines: list[str] = []
    for text in texts:
        own = folded(printable(text), width).split("\n")
        kept = own if len(own) <= MOST_FOLDED else [*own[: MOST_FOLDED - 1], f"{own[MOST_FOLDED - 1]} ..."]
        lines += [line if len(line) <= width else f"{line[: width - 3]}..." for line in kept]
    return lines
