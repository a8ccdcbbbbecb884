"""What all experiments share: verdicts, data and where they come from, charts, files, the command."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
from typer.testing import CliRunner

from sfumato.auditor.report.page_figures import NARROW, WIDE
from sfumato.errors import TableError, UsageError
from sfumato_papers import data as data_module
from sfumato_papers.catalogue import chosen, experiments
from sfumato_papers.charts import Chart, Point, specification, with_legend
from sfumato_papers.command import app
from sfumato_papers.data import ADULT_COLUMNS, Data, complete_rows
from sfumato_papers.experiment import ONE_RUN, Comparison, Experiment, Setting, number, sentence
from sfumato_papers.results import NO_ACCOUNT, TIMES, papers_md, results_md, to_csv
from sfumato_papers.running import run, write_pages, write_result
from sfumato_papers.similar import OCCUPATION, fitted, similar_adult, similar_census, similar_reactions
from tests.papers.reproduce.outcomes import EXPERIMENT, made, nobody

# --- verdicts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("printed", "ours", "verdict"),
    [
        ("7.4e-4", 0.000744, "equal"),
        ("7.4e-4", 0.00075, "differs"),
        (".0746", 0.07464, "equal"),
        (".0746", 0.07466, "differs"),
        ("1/13", Fraction(1, 13), "equal"),
        ("1/13", 0.0769, "differs"),
        ("12%", 12.49, "equal"),
        ("12%", 12.51, "differs"),
        ("45,222", 45222, "equal"),
        ("-1.5", -1.52, "equal"),
    ],
)
def test_a_number_is_equal_if_it_rounds_to_the_printed_digits(printed: str, ours: float, verdict: str) -> None:
    assert number("x", printed, ours, because="a reason").verdict == verdict


def test_noise_is_in_the_unit_of_the_number() -> None:
    near = number("x", "50%", 52.4, noise=2.0, because="standard error 1 point")
    far = number("x", "50%", 52.6, noise=2.0, because="standard error 1 point")
    assert (near.verdict, far.verdict) == ("within noise", "differs")
    assert near.in_words == "within the stated noise: standard error 1 point"


def test_what_differs_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="reason"):
        number("x", "1", 2)
    with pytest.raises(ValueError, match="reason"):
        Comparison("x", "1", "2", "differs")


def test_a_sentence_holds_exactly_or_within_noise_or_not() -> None:
    assert sentence("x", "falls", "falls", True).in_words == "as it says"
    assert sentence("x", "falls", "falls", True, noise="10 repetitions").verdict == "within noise"
    assert sentence("x", "falls", "rises", False).verdict == "differs"


# --- data -------------------------------------------------------------------------------------------------------------

LINE = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, {}, {}"
)
ADULT = {
    "adult.data": "\n".join([LINE.format("United-States", "<=50K"), LINE.format("?", ">50K"), ""]),
    "adult.test": "\n".join(["|1x3 Cross validator", LINE.format("Cuba", ">50K."), ""]),
}


@pytest.fixture
def adult_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Serve two small files in Adult's format on the loopback."""
    asked: list[str] = []

    class Home(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            text = ADULT[self.path.rpartition("/")[2]].encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    known = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in ADULT.items()}
    monkeypatch.setattr(data_module, "ADULT_FILES", known)
    with ThreadingHTTPServer(("127.0.0.1", 0), Home) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_adult_is_downloaded_once_and_its_incomplete_rows_are_left_out(adult_home: str, tmp_path: Path) -> None:
    found = Data(None, adult_home, tmp_path).adult()
    assert found.is_original
    assert found.table.column_names == [*ADULT_COLUMNS, "split"]
    assert found.table.num_rows == 2
    assert found.table["income"].to_pylist() == ["<=50K", ">50K"]
    assert found.table["split"].to_pylist() == ["train", "test"]
    assert found.table["age"].to_pylist() == [39, 39]
    kept = Data(None, None, tmp_path)  # without a network
    assert kept.adult().table.equals(found.table)
    assert kept.adult_train().table.num_rows == 1


def test_another_file_is_refused(adult_home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_module, "ADULT_FILES", dict.fromkeys(ADULT, "0" * 64))
    with pytest.raises(TableError, match="sha256"):
        Data(None, adult_home, tmp_path).adult()
    assert not list(tmp_path.iterdir())


def test_without_data_a_generated_table_stands_in_and_says_so(tmp_path: Path) -> None:
    offline = Data(None, None, tmp_path)
    for named in (offline.adult(), offline.adult_train(), offline.census(1_000), offline.reactions()):
        assert not named.is_original
        assert named.about.startswith("generated")
    assert offline.hierarchy("sex") is None


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        Data.found(tmp_path / "nothing")


def test_the_real_folder_is_found(real_data: object, monkeypatch: pytest.MonkeyPatch) -> None:
    path = real_data("adult_complete_45222.parquet")  # type: ignore[operator]
    monkeypatch.setenv("SFUMATO_DATA", str(path.parent))
    found = Data.found()
    assert found.home is None
    assert found.adult().is_original
    assert found.adult().table.num_rows == 45_222
    assert found.adult_train().table.num_rows == 30_162
    assert found.census(1_000).table.num_rows == 1_000
    assert "standing in" in found.reactions().about


def test_the_raw_files_give_the_same_rows_as_the_prepared_one(real_data: object) -> None:
    import gzip

    path = real_data("raw/adult.data.gz")  # type: ignore[operator]
    rows = complete_rows(gzip.decompress(path.read_bytes()).decode(), "train")
    assert rows.num_rows == 30_162
    expected = Data(path.parents[1]).adult_train().table
    assert rows["occupation"].to_pylist() == expected["occupation"].to_pylist()
    assert rows["age"].to_pylist() == expected["age"].to_pylist()


def test_generated_tables_have_the_stated_shares() -> None:
    table = similar_adult()
    assert table.num_rows == 45_222
    share = pc.mean(pc.equal(table["workclass"], "Private")).as_py()
    assert abs(share - 0.737) < 0.01
    counted = {entry["values"]: entry["counts"] for entry in pc.value_counts(table["occupation"]).to_pylist()}
    assert set(counted) == set(OCCUPATION)
    for name, stated in OCCUPATION.items():  # three standard errors of a draw
        due = stated / sum(OCCUPATION.values())
        assert abs(counted[name] / table.num_rows - due) < 3 * (due / table.num_rows) ** 0.5
    assert len(pc.unique(similar_census(20_000)["occupation"])) == 50
    reactions = pc.value_counts(similar_reactions()["reaction"]).field("counts").to_numpy()
    assert reactions.size == 40
    assert abs(reactions.max() / reactions.sum() - 1 / np.sum(1 / np.arange(1, 41))) < 0.01


def test_shares_are_kept_whatever_the_tilts() -> None:
    tilts, sizes, shares = (
        np.array([[1.0, 4.0, 1.0], [0.25, 1.0, 1.0]]),
        np.array([300, 700]),
        np.array([5.0, 3.0, 2.0]),
    )
    likelihoods = fitted(tilts, sizes, shares)
    assert likelihoods.sum(axis=1) == pytest.approx([1, 1])
    assert sizes @ likelihoods / 1000 == pytest.approx(shares / 10)
    odds = likelihoods[0] / likelihoods[1]
    assert odds / odds[2] == pytest.approx(tilts[0] / tilts[1])


def test_generated_tables_keep_an_association_and_come_out_the_same() -> None:
    table = similar_adult()
    women = pc.equal(table["sex"], "Female")
    craft = pc.equal(table["occupation"], "Craft-repair")
    of_women = pc.mean(craft.filter(women)).as_py()
    of_men = pc.mean(craft.filter(pc.invert(women))).as_py()
    assert of_men > 2 * of_women
    assert table.equals(similar_adult())


# --- charts -----------------------------------------------------------------------------------------------------------


def test_a_chart_draws_every_series_with_its_interval() -> None:
    points = (Point("a", 1.0, 2.0, 1.5, 2.5), Point("a", 2.0, 3.0, 2.5, 3.5), Point("b", 1.0, 1.0))
    chart = Chart("two series", "x", "y", points, logarithmic=True)
    spec = specification(chart, WIDE)
    assert [layer["mark"]["type"] for layer in spec["layer"]] == ["line", "rule", "point", "point"]
    assert spec["encoding"]["y"]["scale"] == {"type": "log"}
    assert with_legend(chart, "Title", NARROW)["title"]["subtitle"] == ["● a", "■ b"]
    assert [key.words for key in chart.keys] == ["a", "b"]


def test_ticks_are_at_whole_numbers_where_there_are_few() -> None:
    def axis(*xs: float) -> dict[str, object]:
        chart = Chart("a line", "x", "y", tuple(Point("a", x, 1.0) for x in xs))
        return specification(chart, WIDE)["encoding"]["x"]["axis"]

    assert axis(4.0, 3.0, 4.0)["values"] == [3.0, 4.0]
    for xs in ((1.0, 1.5), range(40)):
        assert "values" not in axis(*xs)
        assert axis(*xs)["tickCount"] == 10


def test_a_chart_has_points_of_one_kind_and_few_series() -> None:
    with pytest.raises(ValueError, match="series"):
        Chart("none", "x", "y", ())
    with pytest.raises(ValueError, match="series"):
        Chart("many", "x", "y", tuple(Point(str(k), 1.0, 1.0) for k in range(9)))
    with pytest.raises(ValueError, match="number or a name"):
        Chart("mixed", "x", "y", (Point("a", 1.0, 1.0), Point("a", "b", 1.0)))


# --- running and writing ----------------------------------------------------------------------------------------------


def test_files_of_a_run(tmp_path: Path) -> None:
    found = run((EXPERIMENT,), Setting(Data(), seed=7), report=nobody)
    write_result(found.results[0], tmp_path)
    write_pages(found, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "fg-made.csv", "fg-made.svg", "results.json", "results.md", "papers.md", "index.html",
    }  # fmt: skip
    assert (tmp_path / "fg-made.csv").read_text() == "x,y\n1,7\n"
    record = json.loads((tmp_path / "results.json").read_text())
    assert record["seed"] == 7
    assert [c["verdict"] for c in record["results"][0]["outcome"]["comparisons"]] == ["equal", "differs"]
    page = (tmp_path / "index.html").read_text()
    assert "it rises" in page
    assert "<script" not in page


def test_a_bar_in_a_cell_is_escaped_and_verdicts_are_counted() -> None:
    found = run((EXPERIMENT,), Setting(Data()), report=nobody)
    text = results_md(found)
    assert "| a \\| b | 1/2 | 1/2 | 0.2500 | equal to the printed digits |" in text
    assert "1 equal to the printed digits or as it says, 0 within the stated noise, 1 that differ." in text
    account = papers_md(found)
    assert account.index("### Confirmed") < account.index("### Not confirmed, and why") < account.index("it rises")


def test_csv_quotes_what_must_be() -> None:
    assert to_csv([{"a": "x, y", "b": 1.5}]) == 'a,b\n"x, y",1.5\n'


def test_experiments_have_names_of_their_own_and_a_paper() -> None:
    known = experiments()
    names = [experiment.name for experiment in known]
    assert len(set(names)) == len(names)
    assert all(e.name.startswith(f"{e.paper.lower()}-") for e in known)


# --- the command ------------------------------------------------------------------------------------------------------


def test_the_command_lists_and_runs(tmp_path: Path) -> None:
    listed = CliRunner().invoke(app, ["--list", "--json"])
    assert "fg-examples" in [entry["name"] for entry in json.loads(listed.output)]
    folder = tmp_path / "out"
    ran = CliRunner().invoke(app, ["fg-examples", "--offline", "--quick", "-o", str(folder)])
    assert ran.exit_code == 0, ran.output
    assert "equal to the printed digits" in ran.output
    assert (folder / "fg-examples.svg").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Which experiment"),
        (["fg-exampels", "--offline"], "Did you mean 'fg-examples'"),
        (["SK", "--offline"], "Did you mean 'sk'?"),
        (["SDR-Table2", "--offline"], "Did you mean 'sdr-table2'?"),
        (["sdr-tabel", "--offline"], "Did you mean 'sdr-table3', 'sdr-table2' or 'sdr-table1'?"),
        (["all", "foo", "--offline"], "no experiment 'foo'"),
        (["sk", "sk-fig99", "--offline"], "no experiment 'sk-fig99'"),
        (["fg-examples", "--data", "nowhere"], "no folder"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], message: str) -> None:
    problem = CliRunner().invoke(app, arguments).exception
    assert isinstance(problem, UsageError)
    assert message in str(problem)


def test_a_paper_means_all_of_its_experiments() -> None:
    assert chosen(["pi", "sdr-table1"]) == tuple(e for e in experiments() if e.paper == "PI" or e.name == "sdr-table1")
    assert chosen(["all", "pi"]) == experiments()


def test_the_command_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    problem = CliRunner().invoke(app, ["fg-examples", "--offline", "-o", str(tmp_path)]).exception
    assert isinstance(problem, UsageError)
    assert (tmp_path / "mine").read_text() == "kept"


def test_a_generated_table_confirms_nothing_and_gives_no_account() -> None:
    generated = Experiment("fg-made", "FG", "Table 9", "Made up", lambda s: replace(made(s), data="generated, 9 rows"))
    found = run((generated,), Setting(Data()), report=nobody)
    assert {c.verdict for c in found.results[0].outcome.comparisons} == {"differs"}
    account = papers_md(found)
    assert "Confirmed" not in account
    assert NO_ACCOUNT in account
    assert "## SDR" not in account


def test_a_stand_in_can_agree_and_is_never_equal() -> None:
    stand_in = Experiment(
        "fg-made", "FG", "Table 9", "Made up", lambda s: replace(made(s), data="X, standing in for Y")
    )
    agrees, differs = stand_in.run(Setting(Data())).comparisons
    assert agrees.in_words == "within the stated noise: agrees, on another table: X, standing in for Y"
    assert differs.in_words == "differs: it rises"


def test_run_times_are_of_one_run_and_apart_from_what_is_confirmed() -> None:
    timed = Experiment("fg-made", "FG", "Table 9", "Made up", lambda s: replace(made(s), is_timed=True))
    found = run((timed,), Setting(Data()), report=nobody)
    assert [c.because for c in found.results[0].outcome.comparisons] == [ONE_RUN, f"{ONE_RUN}; it rises"]
    account = papers_md(found)
    assert "Confirmed" not in account
    assert f"### {TIMES}" in account
    assert "Comparisons: 0 equal" in account


def test_a_folder_without_the_tables_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="none of the tables"):
        Data.found(tmp_path)
