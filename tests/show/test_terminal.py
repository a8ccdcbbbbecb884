"""Text on a terminal: nothing of a table steers it, lines fold, colours are for terminals that want them."""

from __future__ import annotations

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.cli.base import print_json
from sfumato.show import terminal
from sfumato.show.screen import MOST_LINES, Screen
from sfumato.show.terminal import coloured, folded, json_text, listed, printable, say

HOSTILE = "a\x1b[2J\x9b31mb\u202ec\x07\r\x7f"


class Tty(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_what_steers_a_terminal_is_shown_as_codes() -> None:
    assert printable(HOSTILE) == r"a\x1b[2J\x9b31mb\u202ec\x07\r\x7f"
    assert printable("tab\tline\nname é 漢") == "tab\tline\nname é 漢"


@given(st.text(st.characters(codec=None), max_size=40))
def test_printed_text_holds_no_control_character(text: str) -> None:
    shown = printable(text)
    assert not any((ord(c) < 32 and c not in "\t\n") or 127 <= ord(c) < 160 for c in shown)
    assert printable(shown) == shown


@given(st.text(max_size=40))
def test_json_stays_the_same_value(text: str) -> None:
    written = json_text(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(written) == {"a": text}
    assert not any(127 <= ord(c) < 160 for c in written)


def test_colours_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = {}
    for name, stream, setting in (("tty", Tty(), ""), ("no colour", Tty(), "1"), ("file", io.StringIO(), "")):
        monkeypatch.setattr("sys.stdout", stream)
        monkeypatch.setenv("NO_COLOR", setting)
        monkeypatch.setenv("TERM", "xterm")
        say("holds  checksum")
        shown[name] = stream.getvalue()
    plain = "holds  checksum\n"
    assert shown == {"tty": "\x1b[32mholds\x1b[0m  checksum\n", "no colour": plain, "file": plain}


def test_what_matters_is_coloured_and_data_cannot_colour() -> None:
    assert coloured("FAILS: 1 of 3 checks").startswith("\x1b[31m")
    assert coloured("Promise      Someone") == "\x1b[1mPromise\x1b[0m      Someone"
    assert coloured("flu  12  3") == "flu  12  3"
    assert "\x1b" not in printable("\x1b[31mholds")


def test_lines_fold_under_their_own_margin() -> None:
    assert folded("  - one two three four", 14) == "  - one two\n    three four"
    assert folded("Cost         1 2 3 4", 16) == "Cost         1 2\n             3 4"
    row, command = "flu      1,234.5      678.9", "  sfumato estimate release --by diagnosis"
    assert folded(row, 12) == row
    assert folded(command, 12) == command


@given(st.lists(st.sampled_from(["a", "word", "longer"]), min_size=1, max_size=40), st.integers(20, 60))
def test_folding_keeps_every_word(words: list[str], width: int) -> None:
    lines = folded("  " + " ".join(words), width).split("\n")
    assert " ".join(lines).split() == words
    assert all(len(line) <= width and line.startswith("  ") for line in lines)


def test_prose_of_a_table_folds_beside_its_columns() -> None:
    told = listed(["status", "detail"], [["holds", "one two three four"]], 20)
    assert told.split("\n")[2:] == ["holds   one two", "        three four"]


@pytest.mark.parametrize("columns", ["200", "40", "100", ""])
def test_lines_are_80_to_120_wide(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr("sys.stdout", io.StringIO())
    assert terminal.line_width() == {"200": 120, "40": 80, "100": 100, "": 110}[columns]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_that_takes_few_characters_stops_nothing(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    terminal.never_fail_to_print()
    say("漢 é \ud800")
    print_json({"name": "漢"})
    terminal.sys.stdout.flush()
    first, _, rest = raw.getvalue().decode(encoding).partition("\n")
    assert json.loads(rest) == {"name": "漢"}
    assert first == {"ascii": r"\u6f22 \xe9 \ud800", "latin-1": r"\u6f22 é \ud800"}.get(encoding, r"漢 é \ud800")


# --- first screens ----------------------------------------------------------------------------------------------------


def test_a_screen_says_how_much_it_leaves_out() -> None:
    shown = Screen(tuple("abc"), tuple(f"point {n}" for n in range(40)), "Points").text(80).split("\n")
    assert len(shown) == MOST_LINES
    assert shown[-2:] == ["  ... and 22 more", "Add --details for all of it."]


def test_a_screen_shows_the_first_point_at_least_in_part() -> None:
    shown = Screen(("head",) * 20, ("word " * 60, "another"), "Points").text(80).split("\n")
    assert len(shown) == MOST_LINES
    assert shown[22].startswith("  - word")
    assert shown[22].endswith(" ...")
    assert shown[23] == "  ... and 1 more"


@given(
    st.lists(st.text("ab \n\x1b", max_size=300), max_size=12),
    st.lists(st.text("ab \n", max_size=300), max_size=12),
    st.integers(80, 120),
)
def test_points_never_make_a_screen_longer(head: list[str], points: list[str], width: int) -> None:
    alone = len(Screen(tuple(head)).text(width).split("\n"))
    lines = Screen(tuple(head), tuple(points)).text(width).split("\n")
    assert len(lines) <= max(MOST_LINES, alone + 1)
    assert all(len(line) <= width for line in lines)
