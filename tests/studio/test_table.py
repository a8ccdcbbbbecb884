"""The page Table: what is opened, what is refused, what is shown of a table, and the proposal."""

from __future__ import annotations

import stat
import tomllib
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sfumato.engines.embedded.sources import open_source
from sfumato.publisher.proposal import propose
from sfumato.publisher.survey.overview import CELLS, MOST_ROWS, overview
from tests.studio.served import Answered
from tests.studio.tables import HOSTILE, At, desk_at, patients, write_csv


def _drop(at: At, name: str, content: bytes) -> Answered:
    return at.site.ask(
        "POST", "/table/drop", content, cookie=at.site.cookie, origin=at.site.origin, sec_fetch_site="same-origin",
        x_csrf_token=at.site.keys.csrf, x_file_name=quote(name), content_type="application/octet-stream",
        x_fragment="1",
    )  # fmt: skip


def test_a_table_is_looked_at_and_gets_a_policy_with_reasons(tmp_path: Path) -> None:
    table = patients(tmp_path)
    with desk_at(table) as at:
        page = at.get("/table")
        page = at.get("/table")
        assert "400 rows, 5 columns" in page
        assert at.desk.workspace.text == propose(open_source(table))
        assert "Named like a secret; it will be randomized." in page
        assert at.desk.reasons()["age"].startswith("71 different values in 400 rows")
        assert "The first 100 rows" in page
        assert page.count("<tr>") == 1 + 5 + 1 + 100
        assert "<svg" in page


def test_a_path_is_opened_below_the_folders_of_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, other = tmp_path / "home", tmp_path / "other"
    home.mkdir()
    other.mkdir()
    patients(home)
    secret = patients(other)
    (home / "link.csv").symlink_to(secret)
    monkeypatch.chdir(home)
    with desk_at(None) as at:
        assert "patients.csv" in at.get("/table")
        for path in (str(secret), "../other/patients.csv", "link.csv"):
            answer = at.post("/table/choose", ("path", path))
            assert (answer.status, "outside of the folders" in answer.text) == (422, True), path
            assert not at.desk.has_table
        assert at.post("/table/choose", ("path", "")).status == 422
        assert at.post("/table/choose", ("path", "patients.csv")).status == 303
        assert at.desk.table == (home / "patients.csv").resolve()
        assert "400 rows" in at.get("/table")
        assert at.post("/table/choose", ("path", "patients.csv")).status == 422  # one table at a desk


def test_a_dropped_file_is_kept_for_the_user_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    content = patients(tmp_path).read_bytes()
    with desk_at(None) as at:
        for name in ("table.exe", "", "csv", "x.csv/../../y.html"):
            assert _drop(at, name, content).status == 422, name
        assert _drop(at, "broken.parquet", content).status == 422
        assert not list(at.desk.workspace.folder.glob("broken*"))
        assert _drop(at, f"../../{HOSTILE} übung.csv", content).status == 200
        kept = at.desk.table
        assert kept.parent == at.desk.workspace.folder
        assert kept.name == "script_übung.csv"
        assert kept.read_bytes() == content
        assert stat.S_IMODE(kept.stat().st_mode) == 0o600
        assert _drop(at, "again.csv", content).status == 422


def test_names_and_values_are_text(tmp_path: Path) -> None:
    rows = [[k % 7, HOSTILE if k % 3 else "'\"&", "yes" if k % 2 else "no"] for k in range(60)]
    table = write_csv(tmp_path / "t.csv", [HOSTILE, 'a "b"', "diagnosis"], rows)
    with desk_at(table) as at:
        at.get("/table")
        for path in ("/table", "/roles"):
            page = at.get(path)
            assert "<script>alert" not in page
            assert "&lt;script&gt;alert" in page
        names = ("1.here", 'a "b"'), ("2.here", "diagnosis")
        at.post("/roles", names[0], ("1.role", "sensitive"), names[1], ("2.role", "drop"))
        page = at.get("/requirement")
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert" in page
        policy = tomllib.loads(at.desk.workspace.text)
        assert [*policy["columns"]] == [HOSTILE, 'a "b"', "diagnosis"]


def test_counts_are_exact_or_in_cells(tmp_path: Path) -> None:
    numbers = [float(k * k % 5003) for k in range(5000)]
    table = pa.table({
        "few": pa.array([str(k % 3) for k in range(5000)]),
        "many": pa.array(numbers),
        "texts": pa.array([f"text {k}" for k in range(5000)]),
        "gaps": pa.array([None if k % 2 else k % 5 for k in range(5000)]),
    })  # fmt: skip
    pq.write_table(table, tmp_path / "t.parquet")
    seen = overview(open_source(tmp_path / "t.parquet"))
    assert seen.rows == 5000
    assert len(seen.first) == MOST_ROWS
    assert dict(zip(seen["few"].values, seen["few"].counts, strict=True)) == {"0": 1667, "1": 1667, "2": 1666}
    assert (seen["many"].how, seen["texts"].how) == ("cells", "")
    assert len(seen["many"].values) <= CELLS
    low, high = min(numbers), max(numbers)
    width = (high - low) / CELLS
    expected: dict[int, int] = {}
    for x in numbers:
        cell = min(CELLS - 1, int((x - low) / width))
        expected[cell] = expected.get(cell, 0) + 1
    found = {
        round((float(v) - low) / width - 0.5): c for v, c in zip(seen["many"].values, seen["many"].counts, strict=True)
    }
    assert found == expected
    assert (seen["gaps"].facts.missing, sum(seen["gaps"].counts)) == (2500, 2500)


def test_two_hundred_columns(tmp_path: Path) -> None:
    names = [f"c{k}" for k in range(199)] + ["diagnosis"]
    table = write_csv(tmp_path / "wide.csv", names, [[(k + j) % 5 for j in range(200)] for k in range(50)])
    with desk_at(table) as at:
        page = at.get("/table")
        page = at.get("/table")
        assert page.count('<th scope="row">') == 200
        assert "The first 25 rows" in page
        page = at.get("/roles")
        assert page.count('class="column panel"') == 200
        assert page.count("<details") < 420
        found = at.get("/roles?find=c19")
        assert found.count('class="column panel"') == 10  # c19, and c190 to c198


def test_a_table_that_cannot_be_proposed_for_says_why_and_what_to_do(tmp_path: Path) -> None:
    table = write_csv(tmp_path / "t.csv", ["a"], [["same"]] * 5)
    with desk_at(table) as at:
        for _ in range(2):
            assert at.site.get("/table").status == 200
            at.desk.jobs.wait()
        page = at.site.get("/table").text
        assert "No column can be randomized" in page
        assert 'role="alert"' in page
        assert "Propose a policy" in page
        assert not at.desk.jobs.is_running  # nothing is tried again unasked
