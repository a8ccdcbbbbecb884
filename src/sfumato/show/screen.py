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
        room = MOST_LINES - len(head) - len(end) - 2
        points = [_lines([f"  - {point}"], width) for point in self.points]
        shown: list[str] = []
        for number, lines in enumerate(points):
            last = number + 1 == len(points)
            if len(shown) + len(lines) + (0 if last else 1) > room:
                shown.append(f"  ... and {len(points) - number:,} more")
                break
            shown += lines
        return "\n".join([*head, *(["", *_titled(self.title), *shown] if shown else []), *end])


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
