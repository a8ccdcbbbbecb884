"""First screens: what must be decided is shown whatever room there is; the promise is cut after all else."""

from __future__ import annotations

import pytest

from sfumato.show.screen import MOST_LINES, Screen

LONG = "a statement that goes on and on, so that it needs several lines of a narrow terminal, and then some more"
PROMISE = f"Promise      {LONG}"


@pytest.mark.parametrize("number", range(1, 12))
def test_every_point_that_must_be_decided_is_shown(number: int) -> None:
    must = tuple(f"Point {k} is this. {LONG.capitalize()}." for k in range(number))
    text = Screen((LONG, PROMISE, *[LONG] * 4), ("Something to know.",), "To decide", must=must).text(60)
    assert all(f"  - Point {k} is this." in text for k in range(number))
    assert len(text.split("\n")) <= MOST_LINES
    assert text.endswith("Add --details for all of it.")


def test_where_there_is_room_all_is_said_in_full() -> None:
    text = Screen(("Head.",), ("To know.",), "To decide", must=("One. And more of it.", "Two. And more.")).text(80)
    assert text.split("\n")[1:] == [
        "",
        "To decide",
        "  - One. And more of it.",
        "  - Two. And more.",
        "  - To know.",
        "Add --details for all of it.",
    ]


def test_the_promise_is_cut_last() -> None:
    must = tuple(f"Point {k}." for k in range(9))
    lines = Screen((LONG, PROMISE, *[LONG] * 5), title="To decide", must=must).text(40).split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith("Promise"))
    assert lines[0].startswith("a statement")
    assert not any(line.endswith("...") for line in lines[start : start + 4])
    assert " ".join(" ".join(lines[start:]).split()).startswith(" ".join(PROMISE.split()))


def test_more_points_than_lines_make_a_longer_screen() -> None:
    text = Screen(("Head.",), title="To decide", must=tuple(f"Point {k}." for k in range(40))).text(80)
    assert text.count("  - Point") == 40
