"""Text that a spreadsheet program would calculate: named where CSV is written, and escaped where that is asked."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from typer.testing import CliRunner

from sfumato.analyst.release import Release, open_release
from sfumato.cli.main import app
from sfumato.cli.published import Publication
from sfumato.engines.rows.looking import FormulaColumns, has_formula
from sfumato.errors import PolicyError, UsageError
from sfumato.publisher.publish import to_sign
from sfumato.publisher.table import scan
from sfumato.release.formats.csv import _escaped_texts
from sfumato.show.files import answer_bytes, formulas_in
from sfumato.show.formulas import MARK, escaped, is_formula
from sfumato.values.number_texts import ANY_NUMBER
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import planned, released

FORMULAS = [
    '=HYPERLINK("http://localhost/?"&A1,"open")',
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-2+3",
    "@SUM(1+1)",
    "\t=1",
    "\r=1",
    "\n=1",
    "＝1",
    "- none",
]
PLAIN = ["flu", "-5", "+4.25", "-1e-3", "-", "+", "", "a=b", " =1", "'", "''=1", "'=1+1", '"=1"', "5-3"]
ROLES = {"k": "other", "note": "quasi_identifier", "s": "sensitive; domain = ['=1+1', 'flu', \"'tis\", '@x']"}
ESCAPE = '[output]\nformat = "csv"\nformulas = "escape"'
CSV = '[output]\nformat = "csv"'
letters = st.text(st.sampled_from("=+-@'\t\r\n＝5.e| a\""), max_size=6)


def rows(notes: list[Any] | None = None, size: int = 120) -> pa.Table:
    notes = FORMULAS + PLAIN if notes is None else notes
    return pa.table(
        {
            "k": list(range(-60, size - 60)),
            "note": [notes[k % len(notes)] for k in range(size)],
            "s": [("=1+1", "flu", "'tis", "@x")[k % 4] for k in range(size)],
        }
    )


def under(output: str, method: str = "uniform", requirement: str = "rho1 = 0.3\nrho2 = 0.7") -> Any:
    policy = make_policy(ROLES, requirement, method)
    return policy.model_validate({**policy.model_dump(by_alias=True), "output": _section(output)})


def _section(output: str) -> dict[str, str]:
    return dict(line.replace('"', "").split(" = ") for line in output.splitlines()[1:])


@pytest.mark.parametrize("text", FORMULAS)
def test_what_is_calculated(text: str) -> None:
    assert is_formula(text)
    assert escaped(text) == MARK + text


@pytest.mark.parametrize("text", PLAIN)
def test_what_is_not(text: str) -> None:
    assert not is_formula(text)


@given(st.lists(letters, min_size=1))
def test_one_apostrophe_less_is_the_text_and_none_is_calculated(texts: list[str]) -> None:
    """In Python, of answers, and in Arrow, of releases, plain and as dictionaries."""
    found = [escaped(text) for text in texts]
    assert [text.removeprefix(MARK) for text in found] == texts
    assert not any(map(is_formula, found))
    array = pa.array(texts)
    assert _escaped_texts(array).to_pylist() == found
    assert _escaped_texts(array.dictionary_encode()).to_pylist() == found
    assert has_formula(array) == has_formula(array.dictionary_encode()) == any(map(is_formula, texts))


@given(st.from_regex(ANY_NUMBER, fullmatch=True))
def test_no_number_is_a_formula(text: str) -> None:
    assert not is_formula(text)


@given(st.lists(st.tuples(*[letters.filter(lambda text: not set(text) & set('",\r\n'))] * 3), min_size=1))
@example([("", "", "-.")])
@example([("＋5", "-1.2.3", "-1.5")])
def test_runs_of_columns_are_looked_into(fields: list[tuple[str, str, str]]) -> None:
    due = {name for name, own in zip("abc", zip(*fields, strict=True), strict=True) if any(map(is_formula, own))}
    watch = FormulaColumns({"abc": ("a", "b", "c")})
    watch.see(pa.record_batch({"abc": pa.array([",".join(row) for row in fields])}))
    assert watch.names == due


# --- releases ---------------------------------------------------------------------------------------------------------


def by_k(release: Release) -> dict[int, str]:
    found = release.to_arrow()
    return dict(zip(map(int, found["k"].to_pylist()), found["note"].to_pylist(), strict=True))


@pytest.mark.parametrize("method", ["uniform", "anatomy", "subset"])
@pytest.mark.parametrize("source", ["arrow", "csv", "quoted csv"])
def test_escaped_releases_read_as_they_were(
    method: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=17)
    own = FORMULAS + PLAIN
    if source != "arrow":  # without empty texts, which are missing ones there
        own = [text for text in own if text and not (source == "csv" and set(text) & set('",\r\n'))]
    table: Any = rows(own)
    due = dict(zip(table["k"].to_pylist(), table["note"].to_pylist(), strict=True))
    if source != "arrow":
        with open(tmp_path / "t.csv", "w", newline="") as file:
            style = csv.QUOTE_ALL if source == "quoted csv" else csv.QUOTE_MINIMAL
            csv.writer(file, lineterminator="\n", quoting=style).writerows(
                [table.column_names, *zip(*(c.to_pylist() for c in table.columns), strict=True)]
            )
        table = tmp_path / "t.csv"
    policy = under(ESCAPE, method, "l = 2" if method == "anatomy" else "rho1 = 0.3\nrho2 = 0.7")
    release = released(table, policy, folder=tmp_path / "r")
    assert by_k(release) == due
    assert release.manifest.data.escaped
    assert release.manifest.with_formulas == ()
    assert "apostrophe" in (release.folder / "README.md").read_text()
    assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]
    assert release.count(by="s").value.sum() == pytest.approx(120)
    assert set(release.manifest.domain.parts[0].values) == {"=1+1", "flu", "'tis", "@x"}
    for file in release.folder.glob("*.csv"):
        with open(file, newline="") as opened:
            fields = [field for line in csv.reader(opened) for field in line]
        assert not any(map(is_formula, fields))


def test_numbers_of_number_columns_are_no_formulas(tmp_path: Path) -> None:
    release = released(rows(["flu"]), under(ESCAPE), folder=tmp_path / "r")
    lines = (release.folder / "data.csv").read_text().splitlines()
    assert {line.split(",")[0] for line in lines[1:]} == {str(k) for k in range(-60, 60)}


def test_names_are_escaped(tmp_path: Path) -> None:
    table = rows().rename_columns(["k", "=note", "s"])
    policy = make_policy({"k": "other", "=note": "other", "s": "sensitive"}, extra='output = { format = "csv" }')
    told = released(table, policy, folder=tmp_path / "a").manifest.with_formulas
    assert told == ("=note", "s")
    stated = policy.model_validate(
        {**policy.model_dump(by_alias=True), "output": {"format": "csv", "formulas": "escape"}}
    )
    release = released(table, stated, folder=tmp_path / "r")
    assert (release.folder / "data.csv").read_text().startswith("k,'=note,s\n")
    assert "=note" in release.to_arrow().column_names


@pytest.mark.parametrize("method", ["uniform", "anatomy"])
def test_columns_with_formulas_are_named(method: str, tmp_path: Path) -> None:
    """To whoever plans, publishes and reads; and nothing is said of Parquet, of numbers or of what is escaped."""
    for output, notes, due in (
        (CSV, None, {"note", "s"}),
        (CSV, PLAIN, {"s"}),
        ('[output]\nformat = "parquet"', None, set()),
        (ESCAPE, None, set()),
    ):
        policy = under(output, method, "l = 2" if method == "anatomy" else "rho1 = 0.3\nrho2 = 0.7")
        opened = scan(rows(notes), policy)
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        plan = to_sign(opened, planned(opened))
        release = released(rows(notes), policy, folder=folder)
        said = [note for note in plan.notes if "formula" in note]
        shown = Publication(folder, release.manifest, policy, None, Path("t.csv"), Path("p.toml")).explain()
        assert set(release.manifest.with_formulas) == due
        assert ('formulas = "escape"' in shown) == bool(due)
        assert len(said) == bool(due)
        assert all(repr(name) in said[0] and repr(name) in shown for name in due)
        assert ("Do not open the CSV" in (folder / "README.md").read_text()) == bool(due)


def test_other_releases_state_what_they_stated() -> None:
    """Neither key is in a manifest or a policy that does not need it: hashes stay as they were."""
    assert "formulas" not in json.dumps(under(CSV).model_dump(mode="json"))


def test_parquet_has_nothing_to_escape(tmp_path: Path) -> None:
    release = released(rows(), under(ESCAPE), folder=tmp_path / "r", format="parquet")
    assert not release.manifest.data.escaped
    assert set(pc.unique(release.to_arrow()["note"]).to_pylist()) == set(FORMULAS + PLAIN)
    stated = json.loads((release.folder / "manifest.json").read_text())
    assert "escaped" not in stated["data"]
    stated["data"]["escaped"] = True
    (release.folder / "manifest.json").write_text(json.dumps(stated))
    with pytest.raises(Exception, match="no formulas to escape"):
        open_release(release.folder)


def test_another_word_than_keep_or_escape() -> None:
    with pytest.raises(PolicyError, match="formulas"):
        make_policy({"s": "sensitive"}, extra='output = { formulas = "strip" }')


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(rows(), under(CSV), folder=tmp_path_factory.mktemp("formulas") / "r")


def test_answers_are_escaped_where_that_is_asked(release: Release, tmp_path: Path) -> None:
    answer = release.count(by="s")
    answer.save(tmp_path / "kept.csv")
    answer.save(tmp_path / "escaped.csv", escape_formulas=True)
    with open(tmp_path / "kept.csv") as kept, open(tmp_path / "escaped.csv") as own:
        pairs = list(zip(csv.reader(kept), csv.reader(own), strict=True))
    assert [(a[0], b[0]) for a, b in pairs[1:]] == [(v, escaped(v)) for v in answer.to_arrow()["s"].to_pylist()]
    assert all(a[1:] == b[1:] for a, b in pairs)
    with pytest.raises(UsageError, match="no CSV file"):
        answer.save(tmp_path / "a.parquet", escape_formulas=True)
    assert not (tmp_path / "a.parquet").exists()


def test_negative_figures_are_no_formulas() -> None:
    table = pa.table({"sex": ["F"], "estimate": [-5.0]})
    assert formulas_in(table, Path("a.csv")) == []
    assert answer_bytes(table, Path("a.csv"), {}, escape_formulas=True) == b"sex,estimate\nF,-5.0\n"


@pytest.mark.parametrize(
    "question",
    [
        ["estimate", "--by", "s"],
        ["estimate", "SELECT s, COUNT(*) FROM release GROUP BY s"],
        ["regress", "s == 'flu' ~ k"],
    ],
)
def test_commands_say_which_columns_hold_formulas(question: list[str], release: Release, tmp_path: Path) -> None:
    command = [question[0], str(release.folder), *question[1:], "-o"]
    done = CliRunner().invoke(app, [*command, str(tmp_path / "a.csv")])
    assert done.exit_code == 0, done.output
    expected = question[0] == "estimate"
    assert ("Text of 's' begins like a formula" in done.stderr) == expected
    quiet = CliRunner().invoke(app, [*command, str(tmp_path / "b.csv"), "--escape-formulas"])
    assert (quiet.exit_code, quiet.stderr) == (0, "")
    other = CliRunner().invoke(app, [*command, str(tmp_path / "c.parquet")])
    assert "formula" not in other.stderr


def test_the_option_goes_with_a_file(release: Release) -> None:
    done = CliRunner().invoke(app, ["estimate", str(release.folder), "--by", "s", "--escape-formulas"])
    assert isinstance(done.exception, UsageError)
