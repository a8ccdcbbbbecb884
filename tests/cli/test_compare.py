"""`sfumato compare`: the record, its words, what is refused, and that nothing of the releases is kept."""

from __future__ import annotations

import json
import os
import re
import tempfile
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.compare.bench import Bench
from sfumato.auditor.compare.original import Original, Pool
from sfumato.auditor.compare.record import MethodComparison
from sfumato.auditor.compare.translating import Translated
from sfumato.errors import OutOfSpace, UsageError
from sfumato.values.randomness import SecretKey
from tests.auditor.test_compare_guessing import people
from tests.cli.test_commands import as_json, run

POLICY = """
[columns.age]
role = "quasi_identifier"
[columns.sex]
role = "quasi_identifier"
[columns.disease]
role = "sensitive"
[method]
name = "anatomy"
[requirement]
l = 2
"""
COMPARE = ("compare", "t.parquet", "policy.toml", "--seed", "4", "--repeat", "2")
NAMES = [
    "uniform", "subset", "ranges", "plateau", "geometric", "fine-grain", "small-domain",
    "randomized-response (quasi-identifiers)", "randomized-response (sensitive)", "randomized-response (both)",
    "anatomy", "suppression", "robust-anatomy", "generalization",
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("compare")
    pq.write_table(people(300, 5), path / "t.parquet")
    (path / "policy.toml").write_text(POLICY)
    return path


@pytest.fixture(scope="module")
def compared(folder: Path) -> tuple[dict[str, Any], str]:
    """Return the record and the words of one comparison."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        code, out, err = run(*COMPARE, "--equal-risk", "--details", "-o", "compared.json", "--plot", "plot.svg")
    assert code == 0, err
    return json.loads((folder / "compared.json").read_text()), out


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_every_method_has_figures_or_a_reason(compared: tuple[dict[str, Any], str]) -> None:
    record, out = compared
    assert [method["method"] for method in record["methods"]] == NAMES
    assert [method["method"] for method in record["at_equal_risk"]] == NAMES
    assert [method["method"] for method in record["methods"] if method["own"]] == ["anatomy"]
    for method in (*record["methods"], *record["at_equal_risk"]):
        assert (method["figures"] is None) == bool(method["reason"])
        assert method["method"] in out
        assert method["promise"]
    refused = next(m for m in record["methods"] if m["method"] == "randomized-response (sensitive)")
    assert "randomizes nothing that the risk posterior depends on" in refused["reason"]
    assert "Not measured, because:" in out


def test_figures_are_between_the_references(compared: tuple[dict[str, Any], str]) -> None:
    record, _ = compared
    nothing, everything = (reference["figures"] for reference in record["references"])
    assert everything["mean_error"]["mean"] == everything["sensitive_distance"] == 0
    assert nothing["sensitive_distance"] == pytest.approx(0)
    for method in record["methods"]:
        if (figures := method["figures"]) is not None:
            assert 0 < figures["guessed"]["low"] <= figures["guessed"]["mean"] <= figures["guessed"]["high"]
            assert figures["guessed"]["high"] <= everything["guessed"]["mean"] + 1e-12
            assert 0 < figures["published_share"] <= 1
    kept = {m["method"]: m["figures"]["promised"] for m in record["methods"] if m["figures"]}
    assert {kept[name]["verdict"] for name in NAMES if kept.get(name)} == {"within the bound"}
    assert kept["generalization"] is None


def test_at_equal_risk_nobody_exceeds_the_target(compared: tuple[dict[str, Any], str]) -> None:
    record, out = compared
    own = next(m for m in record["methods"] if m["own"])
    assert record["target"] == own["figures"]["guessed"]["mean"]
    found = [m["figures"]["guessed"]["mean"] for m in record["at_equal_risk"] if m["figures"]]
    assert max(found) == record["target"]  # the policy's own
    assert len(found) >= 5
    assert "At equal measured risk" in out


def test_methods_that_do_the_same_have_the_same_figures(compared: tuple[dict[str, Any], str]) -> None:
    """Nothing has to be suppressed: anatomy and suppression are the same releases, by the same keys."""
    figures = {m["method"]: m["figures"] for m in compared[0]["methods"]}
    assert figures["anatomy"]["mean_error"] == figures["suppression"]["mean_error"]
    assert figures["anatomy"]["mean_error"]["low"] < figures["anatomy"]["mean_error"]["high"]
    assert figures["anatomy"]["guessed"] == figures["suppression"]["guessed"]


def test_a_record_comes_back_as_it_was(compared: tuple[dict[str, Any], str]) -> None:
    record, out = compared
    again = MethodComparison.from_dict(record)
    assert json.loads(json.dumps(again.to_dict())) == record
    assert again.explain(details=True) in out
    with pytest.raises(UsageError, match="not the record of a comparison"):
        MethodComparison.from_dict({**record, "comparison_version": 2})
    for name, value in (("methods", [{}]), ("rows", "many"), ("target", "high"), ("references", [])):
        with pytest.raises(UsageError, match=f"damaged: {name}"):
            MethodComparison.from_dict({**record, name: value})


def test_the_json_page_lists_the_keys(compared: tuple[dict[str, Any], str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    record = compared[0]
    figures, advice = next(m["figures"] for m in record["methods"] if m["figures"]), record["recommendation"]
    pages = {"`compare`": record, "Figures of a comparison": figures, "Recommendation of a comparison": advice}
    for title, keys in ((title, list(page)) for title, page in pages.items()):
        lines = [
            line for line in text.split(f"## {title}\n")[1].split("\n## ")[0].splitlines() if line.startswith("| `")
        ]
        assert [key for line in lines for key in re.findall(r"`(\w+)`", line.split("|")[1])] == keys


def test_a_seed_gives_the_same_record_and_no_release_stays(
    compared: tuple[dict[str, Any], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    again = as_json(*COMPARE)
    assert not list(tmp_path.iterdir())
    for figure in ("methods", "references"):
        assert _timeless(again[figure]) == _timeless(compared[0][figure])
    assert again["at_equal_risk"] == []
    assert again["target"] is None


def test_a_seed_draws_the_rows_of_persons_that_are_counted(folder: Path) -> None:
    """rho1 is what is observed in one row of each person: other rows make another plan."""
    persons = people(300, 5).append_column("who", pa.array([k // 3 for k in range(300)]))
    pq.write_table(persons, folder / "persons.parquet")
    person = '[columns.who]\nrole = "identifier"\n[person]\ncolumn = "who"\nrepeated = "keep-one"\n'
    rule = POLICY.replace("anatomy", "fine-grain").replace("l = 2", 'tolerance = 3\nrho1 = "observed"')
    (folder / "persons.toml").write_text(person + rule)
    once, again = (as_json("compare", "persons.parquet", "persons.toml", *COMPARE[3:]) for _ in range(2))
    assert once["methods"][1]["figures"]
    assert _timeless(once["methods"]) == _timeless(again["methods"])
    assert once["limit"] == again["limit"]


def _timeless(outcomes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    without = ("plan_seconds", "publish_seconds")
    return [
        {**m, "figures": m["figures"] and {k: v for k, v in m["figures"].items() if k not in without}} for m in outcomes
    ]


def test_the_picture_names_all_that_can_be_had(folder: Path, compared: tuple[dict[str, Any], str]) -> None:
    drawn = (folder / "plot.svg").read_text()
    for method in compared[0]["methods"]:
        assert (f">{method['method']}" in drawn) == (method["figures"] is not None)
    assert "At equal measured risk" in drawn


def test_the_report_shows_it_on_the_private_page_only(folder: Path, compared: tuple[dict[str, Any], str]) -> None:
    assert run("publish", "t.parquet", "policy.toml", "-o", "r")[0] == 0
    report = ("report", "t.parquet", "policy.toml", "r", "--comparison", "compared.json")
    for name, options in (("private.html", ()), ("public.html", ("--public",))):
        code, _, err = run(*report, "-o", name, *options)
        assert code == 0, err
        assert ("Other methods" in (folder / name).read_text()) == (name == "private.html")
    (folder / "other.toml").write_text(POLICY.replace("l = 2", "l = 3"))
    assert run("publish", "t.parquet", "other.toml", "-o", "r3")[0] == 0
    code, _, err = run("report", "t.parquet", "other.toml", "r3", "--comparison", "compared.json", "-o", "x.html")
    assert code == 2
    assert "another policy" in err
    pq.write_table(people(250, 6), folder / "less.parquet")
    assert run("publish", "less.parquet", "policy.toml", "-o", "r-less")[0] == 0
    code, _, err = run(
        "report", "less.parquet", "policy.toml", "r-less", "--comparison", "compared.json", "-o", "x.html"
    )
    assert code == 2
    assert "of a table of 300 records, and the release has 250" in err


def test_with_a_target_every_method_is_searched_and_may_stay_as_asked(
    folder: Path, compared: tuple[dict[str, Any], str]
) -> None:
    """The table itself gives away less than the target: nothing limits, and the loosest parameters are taken."""
    target = compared[0]["references"][1]["figures"]["guessed"]["mean"] + 0.01
    found = as_json(*COMPARE, "--repeat", "1", "--target", f"{target:.4f}")
    own = next(m for m in found["at_equal_risk"] if m["own"] or m["method"] == "anatomy")
    asked = next(m for m in found["methods"] if m["method"] == "anatomy")
    assert own["figures"]["guessed"]["mean"] >= asked["figures"]["guessed"]["mean"]
    for there, here in zip(found["at_equal_risk"], found["methods"], strict=True):
        if here["figures"]:
            assert there["figures"]["guessed"]["mean"] >= here["figures"]["guessed"]["mean"]


def test_what_cannot_reach_a_target_says_how_near_it_comes_as_asked_too(folder: Path) -> None:
    """The grid begins at gamma = 1.05; the policy asks for less."""
    (folder / "strict.toml").write_text(POLICY.replace("anatomy", "uniform").replace("l = 2", "gamma = 1.0001"))
    found = as_json("compare", "t.parquet", "strict.toml", "--repeat", "1", "--seed", "3", "--target", "0.1")
    asked, sought = (found[name][0] for name in ("methods", "at_equal_risk"))
    assert sought["reason"].endswith(f"the least is {asked['figures']['guessed']['mean']:.1%}.")


def test_a_method_without_any_parameter_to_try_says_why(folder: Path) -> None:
    """One value only: no l from 2 on is worth a try."""
    table = people(300, 5).filter(pc.equal(people(300, 5)["disease"], "flu"))
    pq.write_table(table, folder / "flu.parquet")
    found = as_json("compare", "flu.parquet", "policy.toml", "--repeat", "1", "--seed", "1", "--target", "0.5", code=1)
    for method in (*found["methods"], *found["at_equal_risk"]):
        assert (method["figures"] is None) == bool(method["reason"])


def test_where_no_method_can_be_measured_the_code_says_so(folder: Path) -> None:
    """One record; and missing values, which the methods refuse with the same words and the baseline does not see."""
    people_5 = people(300, 5)
    pq.write_table(people_5.slice(0, 1), folder / "one.parquet")
    values = people_5["disease"].to_pylist()
    missing = people_5.set_column(people_5.column_names.index("disease"), "disease", pa.array([None, *values[1:]]))
    pq.write_table(missing, folder / "missing.parquet")
    for name in ("one.parquet", "missing.parquet"):
        code, out, _ = run("compare", name, "policy.toml", "--repeat", "1", "--seed", "1", "--details")
        assert code == 1
        assert "no method was measured" in out
        told = out.split("Not measured, because:")[1]
        assert told.count("randomized-response (both)") == 1
        code, out, _ = run("compare", name, "policy.toml", "--repeat", "1", "--seed", "1")
        assert code == 1
        assert "No method with a promise could be measured at this requirement." in out
        assert "randomized-response (both)" in " ".join(out.split())
        assert len(out.splitlines()) <= 25


def test_what_a_target_finds_is_enough(folder: Path) -> None:
    """Nothing keeps the limit of the policy; at the share of people that is asked for methods can be compared."""
    rule = POLICY.replace("anatomy", "randomized-response").replace("l = 2", "risk_limit = 0.0001")
    (folder / "least.toml").write_text(rule)
    assert as_json("compare", "t.parquet", "least.toml", "--repeat", "1", "--seed", "1", code=1)["target"] is None
    found = as_json("compare", "t.parquet", "least.toml", "--repeat", "1", "--seed", "1", "--target", "0.4")
    assert any(method["figures"] for method in found["at_equal_risk"])
    assert not any(method["figures"] for method in found["methods"])


def test_a_release_that_does_not_tell_the_counts_says_why(folder: Path) -> None:
    pq.write_table(people(300, 5).slice(0, 5), folder / "five.parquet")
    found = as_json("compare", "five.parquet", "policy.toml", "--repeat", "1", "--seed", "1", "--equal-risk")
    own = next(method for method in found["methods"] if method["own"])
    assert re.search(r"does not tell 4 of the 6 counts of sex, disease: too few of its groups differ", own["reason"])
    assert "Not compared at equal risk: the policy's own method was not measured. Give a target." in found["notes"]


def test_a_hierarchy_is_read(folder: Path) -> None:
    (folder / "age.csv").write_text("20;young;*\n30;old;*\n40;old;*\n")
    found = as_json("compare", "t.parquet", "policy.toml", "--repeat", "1", "--seed", "1", "--hierarchy", "age=age.csv")
    assert next(m for m in found["methods"] if m["method"] == "generalization")["figures"]
    assert "no winner is named" in found["conclusions"][0]


@pytest.mark.parametrize(
    ("wide", "message"),
    [
        ("sex", "a quasi-identifier with the 4,000,000 possible sensitive values is too large"),
        ("disease", "No random count of quasi-identifiers and a sensitive value has a thousandth of the records"),
    ],
)
def test_too_many_values_are_told_by_what_is_wrong(folder: Path, wide: str, message: str) -> None:
    """Two sensitive columns of 2,000 values each; or one, of which no value has many records."""
    numbers = [f"v{k}" for k in range(2000)]
    pq.write_table(pa.table({"age": [20, 30] * 1000, "sex": numbers, "disease": numbers}), folder / "many.parquet")
    roles = {"age": "quasi_identifier", "sex": "sensitive" if wide == "sex" else "identifier", "disease": "sensitive"}
    columns = "".join(f'[columns.{name}]\nrole = "{role}"\n' for name, role in roles.items())
    rule = '[method]\nname = "uniform"\n[requirement]\ngamma = 3\n'
    (folder / "many.toml").write_text(columns + rule)
    code, _, err = run("compare", "many.parquet", "many.toml")
    assert code == 2
    assert message in err
    assert "Bin the columns" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("compare", "t.parquet", "absent.toml"), "There is no policy file"),
        (("compare", "absent.parquet", "policy.toml"), "There is no table"),
        (("compare", "broken.parquet", "policy.toml"), "broken.parquet"),
        (("compare", "t.parquet", "no-quasi.toml"), "No column is a quasi-identifier"),
        ((*COMPARE, "--repeat", "0"), "one release at least"),
        ((*COMPARE, "--target", "1.5"), "between 0 and 1"),
        ((*COMPARE, "-o", "t.parquet"), "exists already"),
        ((*COMPARE, "-o", "nowhere/x.json"), "There is no folder"),
        ((*COMPARE, "-o", "handed-out/x.json"), "which is handed out; a comparison is private"),
        ((*COMPARE, "--plot", "handed-out/deeper/x.svg"), "which is handed out; a comparison is private"),
        ((*COMPARE, "--plot", "x.gif"), "no known suffix"),
        ((*COMPARE, "--hierarchy", "age"), "names no file"),
        ((*COMPARE, "--hierarchy", "age="), "names no file"),
        ((*COMPARE, "--hierarchy", "age=a.csv", "--hierarchy", "age=b.csv"), "'age' twice, with 'a.csv' and 'b.csv'"),
        ((*COMPARE, "--hierarchy", "height=age.csv"), "is no quasi-identifier"),
        ((*COMPARE, "--hierarchy", "age=absent.csv"), "'absent.csv' of 'age' cannot be read: No such file"),
        ((*COMPARE, "--hierarchy", "age=binary.csv"), "no text of lines in UTF-8"),
        ((*COMPARE, "--seed", "-1"), "A seed is a whole number from 0 on"),
        ((*COMPARE, "-o", "x.svg", "--plot", "x.svg"), "cannot be the same file"),
    ],
)
def test_wrong_use(folder: Path, arguments: tuple[str, ...], message: str) -> None:
    (folder / "handed-out" / "deeper").mkdir(parents=True, exist_ok=True)
    (folder / "handed-out" / "manifest.json").write_text("{}")
    (folder / "broken.parquet").write_bytes(b"PAR1 nothing of the kind")
    (folder / "binary.csv").write_bytes(b"\xff\xfe\x00")
    text = POLICY.replace("quasi_identifier", "other")
    (folder / "no-quasi.toml").write_text(text)
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err


def test_the_first_screen_recommends_in_25_lines_and_says_how_long_it_takes(
    folder: Path, compared: tuple[dict[str, Any], str]
) -> None:
    code, out, err = run(*COMPARE)
    assert code == 0
    assert len(out.splitlines()) <= 25
    told = " ".join(out.split())
    for sentence in compared[0]["recommendation"]["sentences"]:
        assert sentence in told
    assert "--details" in out
    expected, *lines = err.splitlines()
    told = re.fullmatch(r"About \d+ s: (\d+) of (\d+) methods x 2 releases\.", expected)
    assert told is not None
    tried, all_methods = map(int, told.groups())
    assert all_methods == len(compared[0]["methods"])
    numbers = [re.match(r"(\d+) of (\d+): [a-z]", line) for line in lines]  # one line for each method, or more
    assert {int(each[1]) for each in numbers if each} == set(range(1, tried + 1))
    assert all(each and int(each[2]) == tried for each in numbers)


def test_the_numbers_of_the_first_screen_add_up(folder: Path, compared: tuple[dict[str, Any], str]) -> None:
    _, out, _ = run(*COMPARE)
    told = re.search(r"(\d+) methods: (\d+) above(?:, (\d+) measured and in the details)?, (\d+) not measured\.", out)
    assert told is not None
    everything, above, others, missing = (int(number or 0) for number in told.groups())
    assert everything == above + others + missing == len(compared[0]["methods"])
    assert above + others == sum(each["figures"] is not None for each in compared[0]["methods"])
    listed = out.split("\n---")[1].split("\n(independence table)")[0].splitlines()[1:]
    assert len(listed) == above


def test_json_has_no_lines_beside_it(folder: Path) -> None:
    code, _, err = run(*COMPARE, "--json")
    assert (code, err) == (0, "")


def test_one_method_is_compared_with_the_own_one(folder: Path) -> None:
    found = as_json(*COMPARE, "--method", "subset")
    assert [each["method"] for each in found["methods"]] == ["subset", "anatomy"]
    code, _, err = run(*COMPARE, "--method", "subsett")
    assert code == 2
    assert "There is no method 'subsett' to compare; did you mean 'subset'?" in " ".join(err.split())


def test_what_would_keep_the_others_waiting_is_left_out_unless_it_is_asked_for() -> None:
    """By the size of the table, so that every machine leaves out the same: eight columns of seven values."""
    rng = np.random.default_rng(1)
    names = [f"q{k}" for k in range(8)]
    columns = {name: [*range(7), *rng.integers(0, 7, 93).tolist()] for name in names}
    roles = "".join(f'[columns.{name}]\nrole = "quasi_identifier"\n' for name in names)
    policy = sf.Policy.parse(
        f'{roles}[columns.s]\nrole = "sensitive"\n[method]\nname = "anatomy"\n[requirement]\nl = 2\n'
    )
    original = Original.read(sf.scan(pa.table({**columns, "s": ["a", "b"] * 50}), policy))
    key, asked = (
        SecretKey.from_seed(1),
        Translated("randomized-response (both)", {"name": "randomized-response"}, {}, "", ""),
    )
    bench = Bench(original, Pool(()), (key,), key, {})
    assert bench.unfit(asked).startswith(
        "Left out, as it would take too long: the quasi-identifiers and s have 11,529,602"
    )
    assert "--method randomized-response" in bench.unfit(asked)
    assert not replace(bench, chosen=frozenset({"randomized-response"})).unfit(asked)
    assert not bench.unfit(replace(asked, own=True))


def test_lines_tell_the_steps_of_a_long_method(monkeypatch: pytest.MonkeyPatch) -> None:
    base = import_module("sfumato.cli.base")
    clock, told = [0.0], []
    monkeypatch.setattr(base, "monotonic", lambda: clock[0])
    monkeypatch.setattr(base, "say", lambda text, error: told.append(text))
    with base.step_bar(lines=True) as report:
        for seconds, step, done in ((0, "uniform", 0), (1, "subset: planning", 1), (2, "subset: release 1 of 3", 1.0)):
            clock[0] = seconds
            report(step, done, 13)
        clock[0] = 30
        report("subset: release 2 of 3", 1.3, 13)
    assert told == ["1 of 13: uniform", "2 of 13: subset, planning", "2 of 13: subset, release 2 of 3"]


def test_progress_says_what_is_being_done(folder: Path) -> None:
    steps: list[tuple[str, float, int]] = []
    table = sf.scan(folder / "t.parquet", sf.Policy.load(folder / "policy.toml"))
    sf.compare(table, repeat=2, seed=4, progress=lambda *step: steps.append(step))
    told = [step for step, _, _ in steps]
    place = told.index("anatomy: planning")
    assert told[place : place + 3] == ["anatomy: planning", "anatomy: release 1 of 2", "anatomy: release 2 of 2"]
    done = [each for _, each, _ in steps]
    assert done == sorted(done)
    assert done[-1] <= steps[0][2]


def test_an_interrupt_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While a release is measured: it lies in a folder for private files of the moment."""
    bench = import_module("sfumato.auditor.compare.bench")
    seen: list[Path] = []

    def interrupted(evidence: Any, *_: Any) -> None:
        seen.append(evidence.release.folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(bench, "guess", interrupted)
    table = sf.scan(folder / "t.parquet", sf.Policy.load(folder / "policy.toml"))
    with pytest.raises(KeyboardInterrupt):
        sf.compare(table, repeat=2, seed=4)
    assert seen
    assert not list(tmp_path.iterdir())


def test_words_are_not_lost_where_a_file_cannot_be_written(
    folder: Path, compared: tuple[dict[str, Any], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = MethodComparison.from_dict(compared[0])
    monkeypatch.setattr(import_module("sfumato.auditor.compare.compare"), "compare", lambda *_, **__: found)
    monkeypatch.setattr(os, "fsync", _full)
    code, out, err = run(*COMPARE, "-o", "lost.json")
    assert code == 2
    assert found.explain() in out
    assert "Wrote" not in out
    assert "No space left" in err
    assert not list(folder.glob("*lost.json*"))


@pytest.mark.parametrize("releases", [0, 30])  # those of the requirement are 18 at most; then others are searched
def test_a_full_disk_is_no_reason_of_a_method(releases: int, monkeypatch: pytest.MonkeyPatch) -> None:
    comparing = import_module("sfumato.auditor.compare.bench")
    publish, made = comparing.publish, iter(range(releases))

    def until_full(*arguments: Any, **options: Any) -> Any:
        if next(made, None) is None:
            raise OutOfSpace("No room is left on the disk.")
        return publish(*arguments, **options)

    monkeypatch.setattr(comparing, "publish", until_full)
    code, out, err = run(*COMPARE, "--equal-risk")
    assert (code, out) == (1, "")
    assert "No room is left" in err


def _full(*_: Any, **__: Any) -> None:
    raise UsageError("No space left on the device.")


def test_a_csv_file_gives_the_same_figures(folder: Path, compared: tuple[dict[str, Any], str]) -> None:
    pacsv.write_csv(people(300, 5), folder / "t.csv")
    found = as_json("compare", "t.csv", "policy.toml", "--repeat", "1", "--seed", "4")
    assert [m["figures"] is None for m in found["methods"]] == [m["figures"] is None for m in compared[0]["methods"]]
    assert found["references"][1]["figures"]["guessed"] == compared[0]["references"][1]["figures"]["guessed"]
