"""Every state of a policy is a file; undo has no end; a server that ended in any way goes on where it was."""

from __future__ import annotations

import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sfumato.studio.desk.workspace import Workspace


def _texts(folder: Path) -> list[str]:
    return [file.read_text() for file in sorted((folder / "policies").iterdir())]


def test_states_are_files_and_nothing_is_overwritten(tmp_path: Path) -> None:
    space = Workspace(tmp_path / "desk")
    assert space.is_empty
    for text in ("a", "b", "b", "c"):
        space.keep(text, f"wrote {text}")
    assert _texts(space.folder) == ["a", "b", "c"]  # what stays the same is no new state
    space.undo()
    space.undo()
    assert (space.text, space.can_undo, space.can_redo) == ("a", False, True)
    space.undo()
    assert space.text == "a"
    space.redo()
    assert space.text == "b"
    space.keep("d", "another way")
    assert (space.text, space.can_redo) == ("d", False)
    assert _texts(space.folder) == ["a", "b", "c", "d"]
    space.undo()
    assert space.text == "b"


def test_a_hundred_changes_are_undone_one_by_one(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    for number in range(100):
        space.keep(str(number), "change")
    for number in range(98, -1, -1):
        space.undo()
        assert space.text == str(number)
    for number in range(1, 100):
        space.redo()
        assert space.text == str(number)


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    first = Workspace(tmp_path)
    for text in "abc":
        first.keep(text, "change")
    first.undo()
    first.remember("plan", tmp_path / "plan.json", first.file, plan_hash="12")
    (tmp_path / "plan.json").write_text("{}")
    second = Workspace(tmp_path)
    assert (second.text, second.can_redo, second.is_current("plan")) == ("b", True, True)
    second.redo()
    assert (second.text, second.is_current("plan")) == ("c", False)
    assert [line["what"] for line in second.journal()] == ["redo", "plan made", "undo", "change", "change", "change"]


def test_only_the_user_can_read_it(tmp_path: Path) -> None:
    space = Workspace(tmp_path / "desk")
    space.keep("a", "change")
    for file in space.folder.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) & 0o077 == 0, file
    assert stat.S_IMODE(space.folder.stat().st_mode) == 0o700


def test_what_was_made_and_is_gone_is_not_told(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    space.keep("a", "change")
    space.remember("release", tmp_path / "release", space.file)
    assert space.made("release") is None
    assert space.new("release") == tmp_path / "release"
    (tmp_path / "release").mkdir()
    assert space.made("release") == tmp_path / "release"
    assert space.new("release") == tmp_path / "release-2"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"done": 1, "undone": [], "made": {}}', '{"done": ["x"]}'])
def test_a_damaged_state_is_told_and_kept_aside(tmp_path: Path, text: str) -> None:
    for policy in "ab":
        Workspace(tmp_path).keep(policy, "change")
    (tmp_path / "state.json").write_text(text)
    found = Workspace(tmp_path)
    assert (found.text, found.can_undo, found.made("plan")) == ("b", True, None)
    assert "was damaged" in found.notices[0]
    assert (tmp_path / "state.damaged.json").read_text() == text
    assert Workspace(tmp_path).text == "b"


def test_a_line_of_the_journal_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    space.keep("a", "change")
    with (tmp_path / "journal.jsonl").open("a") as file:
        file.write(json.dumps({"what": "half"})[:5])
    assert [line["what"] for line in space.journal()] == ["change"]


def test_changes_at_once_are_all_kept(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: space.keep(f"text {number}", "change"), range(60)))
    assert sorted(_texts(tmp_path)) == sorted(f"text {number}" for number in range(60))
    assert len(Workspace(tmp_path).journal()) == 60


def test_what_a_killed_process_of_the_same_number_left_behind_stops_nothing(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    (tmp_path / f".state.json.partial-{os.getpid()}").write_text("half")
    space.keep("a", "change")
    assert Workspace(tmp_path).text == "a"


def test_what_was_expected_is_known_once_it_is_there(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    space.keep("a", "change")
    (tmp_path / "first").mkdir()
    space.remember("release", tmp_path / "first", space.file)
    space.remember("audit", tmp_path / "first", space.file, about=tmp_path / "first")
    space.keep("b", "change")
    space.expect("release", tmp_path / "second", space.file)
    assert (space.made("release"), space.is_current("release")) == (tmp_path / "first", False)
    (tmp_path / "second").mkdir()
    again = Workspace(tmp_path)  # the server was killed before it heard of it
    assert (again.made("release"), again.is_current("release")) == (tmp_path / "second", True)
    assert again.is_about("audit", tmp_path / "first")
    assert not again.is_about("audit", tmp_path / "second")
