"""Answers on the page are the library's, to the digit; so are its files, its commands, its Python and its R."""

from __future__ import annotations

import csv
import io
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, urlencode

import duckdb
import pytest
from typer.testing import CliRunner

from sfumato.analyst.release import Release
from sfumato.cli.main import app
from sfumato.release.folder import quoted
from sfumato.studio.analyst.app import analyst_app
from tests.studio.analyst.reading import Read
from tests.studio.analyst.releases import BY_GROUPS, IN_SETS, POLICIES, SECRET, VALUES, made, secret_of
from tests.studio.served import Served, served

Pairs = list[tuple[str, str]]


@pytest.fixture(scope="module")
def release() -> Release:
    return made("fine-grain")


@pytest.fixture(scope="module")
def page(release: Release) -> Iterator[Served]:
    with served(lambda csrf: analyst_app(release.folder, csrf)) as found:
        yield found


def where(*conditions: tuple[str, str, str], name: str = "where") -> Pairs:
    return [
        (f"{name}_{part}", text)
        for line in conditions
        for part, text in zip(("column", "is", "value"), line, strict=True)
    ]


QUESTIONS: dict[str, tuple[str, Pairs]] = {
    "counts": ("ask", [("figure", "count"), ("by", SECRET)]),
    "counts with a condition": (
        "ask",
        [("figure", "count"), ("by", "sex"), ("by", SECRET), *where(("order", "at least", "3"))],
    ),
    "a condition on the secret": (
        "ask",
        [("figure", "count"), ("by", "sex"), *where((SECRET, "is", VALUES[2]), ("age", "known", ""))],
    ),
    "counts that are not negative": ("ask", [("figure", "count"), ("by", SECRET), ("method", "projected")]),
    "shares within groups": ("ask", [("figure", "share"), ("by", "sex"), ("by", SECRET), ("of", "groups")]),
    "an average": ("ask", [("figure", "average"), ("column", "order"), ("by", SECRET), ("level", "99.9")]),
    "a sum for a population": (
        "ask",
        [
            ("figure", "sum"),
            ("column", "order"),
            *where((SECRET, "in", f"{VALUES[0]},{VALUES[3]}")),
            ("target", "population"),
        ],
    ),
    "a weighted count": ("ask", [("figure", "count"), ("by", SECRET), ("weight", "order")]),
    "a query": ("sql", [("query", f"SELECT sex, COUNT(*) AS n, AVG({quoted('order')}) FROM release\nGROUP BY sex")]),
}


def calls(release: Release) -> dict[str, Any]:
    """The same questions, asked of the library by hand."""
    secret = quoted(SECRET)
    share = f"COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) FROM release GROUP BY sex, {secret}"
    both = "<b>flu</b>', '--gout"
    return {
        "counts": release.count(SECRET),
        "counts with a condition": release.count(["sex", SECRET], '"order" >= 3'),
        "a condition on the secret": release.sql(
            f"SELECT sex, COUNT(*) FROM release WHERE {secret} = 'O''Neil & sons' AND age IS NOT NULL GROUP BY sex"
        ),
        "counts that are not negative": release.count(SECRET, method="projected"),
        "shares within groups": release.sql(f"SELECT sex, {secret}, {share}"),
        "an average": release.sql(f'SELECT {secret}, AVG("order") FROM release GROUP BY {secret}', level=0.999),
        "a sum for a population": release.sql(
            f"SELECT SUM(\"order\") FROM release WHERE {secret} IN ('{both}')", target="population"
        ),
        "a weighted count": release.sql(f"SELECT {secret}, COUNT(*) FROM release GROUP BY {secret}", weight="order"),
        "a query": release.sql('SELECT sex, COUNT(*) AS n, AVG("order") FROM release GROUP BY sex'),
    }


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_the_librarys_on_the_page_in_the_file_and_by_code(
    name: str, page: Served, release: Release, tmp_path: Path
) -> None:
    kind, pairs = QUESTIONS[name]
    expected = calls(release)[name]
    shown = page.get(f"/{kind}?{urlencode(pairs)}")
    assert shown.status == 200
    read = Read(shown.text)
    check_table(read, expected)

    expected.save(tmp_path / "expected.csv")
    csv_file = page.get(f"/{kind}.csv?{urlencode(pairs)}")
    assert csv_file.headers["content-type"] == "text/csv; charset=utf-8"
    assert csv_file.text == (tmp_path / "expected.csv").read_text(encoding="utf-8")

    command, python, r = read.code
    words = shlex.split(command)
    assert run(*words[1:], "--output", str(tmp_path / "command.csv")) == 0
    assert (tmp_path / "command.csv").read_text() == csv_file.text
    names: dict[str, Any] = {}
    exec(python.replace("print(answer)", ""), names)
    names["answer"].save(tmp_path / "python.csv")
    assert (tmp_path / "python.csv").read_text() == csv_file.text
    program, *arguments = words_of_r(r)
    assert [program, *(word for word in arguments if word not in ("--output", "file"))] == words


def check_table(read: Read, answer: Any) -> None:
    """The table has the groups in their order, and the figures as rounded by their errors."""
    heads, *lines = read.tables[-1]
    places = {head: k for k, head in enumerate(heads)}
    figures = answer.figures()
    assert len(lines) == len(answer.groups)
    for line, group, value, error in zip(
        lines, answer.groups, figures["estimate"], figures["standard_error"], strict=True
    ):
        assert line[: len(group)] == [str(part) for part in group]
        told = line[places["Estimate"]].replace(",", "")
        decimals = len(told.partition(".")[2])
        assert told == f"{value:.{decimals}f}"
        assert error == 0 or 10**-decimals <= max(error, 0.1)


def run(*arguments: str) -> int:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exception is None, (arguments, result.exception)
    return result.exit_code


def words_of_r(code: str) -> list[str]:
    """Return what R's system2 calls: the program and its words, a variable by its name."""
    called = re.search(r'system2\("(\w+)", shQuote\(c\((.*)\)\)(, stdout = TRUE)?\)$', code, re.MULTILINE | re.DOTALL)
    assert called is not None
    words = re.findall(r'"((?:[^"\\]|\\.)*)"|(\w+)', called[2], re.DOTALL)
    escapes = {"n": "\n", "r": "\r"}
    plain = [re.sub(r"\\(.)", lambda m: escapes.get(m[1], m[1]), text) or bare for text, bare in words]
    return [called[1], *plain]


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed here")
def test_r_gives_the_same_figures(page: Served, tmp_path: Path) -> None:
    kind, pairs = QUESTIONS["counts with a condition"]
    (tmp_path / "sfumato").write_text(
        f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c "from sfumato.cli.main import main; main()" "$@"\n'
    )
    (tmp_path / "sfumato").chmod(0o700)
    code = (
        Read(page.get(f"/{kind}?{urlencode(pairs)}").text).code[2] + "\nwrite.csv(answer$estimate, row.names = FALSE)"
    )
    done = subprocess.run(
        ["Rscript", "-e", code], capture_output=True, text=True, check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}
    )
    expected = csv.DictReader(io.StringIO(page.get(f"/{kind}.csv?{urlencode(pairs)}").text))
    found = [float(line) for line in done.stdout.splitlines() if re.fullmatch(r"-?[\d.e+-]+", line)]
    assert found == pytest.approx([float(row["estimate"]) for row in expected])


# --- the uncorrected figure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uniform", "fine-grain", "small-domain", "plateau"])
def test_the_uncorrected_figure_is_what_counting_the_rows_gives(kind: str) -> None:
    release = made(kind)
    secret = secret_of(release)
    questions = {
        "count": "COUNT(*)",
        "share": "COUNT(*) / SUM(COUNT(*)) OVER ()",
        "average": 'AVG("order")',
        "sum": 'SUM("order")',
    }
    with served(lambda csrf: analyst_app(release.folder, csrf)) as page:
        for figure, sql in questions.items():
            pairs = [("figure", figure), ("by", secret), *where(("sex", "is", "F"))]
            pairs += [("column", "order")] if figure in ("average", "sum") else []
            heads, *lines = Read(page.get(f"/ask?{urlencode(pairs)}").text).tables[-1]
            query = f"SELECT {quoted(secret)}, {sql} FROM '{release.data}' WHERE sex = 'F' GROUP BY 1"
            counted = {str(value): number for value, number in duckdb.sql(query).fetchall()}
            place = heads.index("Uncorrected")
            for line in lines:
                decimals = len(line[place].partition(".")[2])
                assert line[place].replace(",", "") == f"{counted[line[0]]:.{decimals}f}"


def test_the_uncorrected_average_of_a_randomized_column_is_that_of_its_published_values() -> None:
    release = made("plateau")
    with served(lambda csrf: analyst_app(release.folder, csrf)) as page:
        heads, line = Read(page.get("/ask?figure=average&column=pain").text).tables[-1]
        ((mean,),) = duckdb.sql(f"SELECT AVG(pain) FROM '{release.data}'").fetchall()
        assert float(line[heads.index("Uncorrected")]) == pytest.approx(mean, abs=5e-3)
        heads, *lines = Read(page.get("/ask?figure=distribution&column=pain").text).tables[-1]
        for value, *figures in lines:
            ((share,),) = duckdb.sql(f"SELECT AVG((pain <= {value})::INT) FROM '{release.data}'").fetchall()
            assert float(figures[heads.index("Uncorrected") - 1]) == pytest.approx(share, abs=5e-3)


def test_beside_groups_stands_the_classical_estimate_and_beside_sets_the_reason_why_nothing_does() -> None:
    release = made("anatomy")
    expected = release.count(SECRET, "sex = 'F'", method="classical").figures()["estimate"]
    with served(lambda csrf: analyst_app(release.folder, csrf)) as page:
        pairs = [("figure", "count"), ("by", SECRET), *where(("sex", "is", "F"))]
        heads, *lines = Read(page.get(f"/ask?{urlencode(pairs)}").text).tables[-1]
        found = [float(line[heads.index("Classical")].replace(",", "")) for line in lines]
        assert found == pytest.approx(expected, abs=0.06)
        read = Read(page.get(f"/ask?{urlencode([*pairs, ('method', 'classical')])}").text)
        assert "Classical" not in read.tables[-1][0]
    with served(lambda csrf: analyst_app(made("cards").folder, csrf)) as page:
        read = Read(page.get(f"/ask?{urlencode([('figure', 'count'), ('by', SECRET)])}").text)
        assert "Uncorrected" not in read.tables[-1][0]
        assert "There is no uncorrected figure: each row shows a set of values" in read.text


def test_nothing_stands_beside_a_figure_that_is_exact(page: Served) -> None:
    read = Read(page.get("/ask?figure=count&by=sex").text)
    assert read.tables[-1][0] == ["sex", "Estimate", "95% interval", "Standard error"]
    assert "No randomized column is asked." in read.text


# --- associations, risks, power, verify -------------------------------------------------------------------------------


def test_an_association_has_its_figures_and_the_naive_ones(page: Served, release: Release) -> None:
    pairs = [("first", "sex"), ("second", SECRET), ("target", "population")]
    read = Read(page.get(f"/associations?{urlencode(pairs)}").text)
    found = release.association("sex", SECRET, target="population")
    check_measures(read, found)
    assert found.test is not None
    assert f"{found.test.degrees} degrees of freedom, p = {found.test.p_value:.3g}." in read.text
    names: dict[str, Any] = {}
    exec(read.code[1].replace("print(answer)", ""), names)
    assert names["answer"].to_dict() == found.to_dict()
    assert run(*shlex.split(read.code[0])[1:]) == 0
    assert words_of_r(read.code[2]) == [*shlex.split(read.code[0]), "--json"]


def test_risks_have_their_figures_and_the_naive_ones(page: Served, release: Release) -> None:
    pairs = where(("sex", "is", "F"), name="exposed") + where((SECRET, "is", VALUES[2]), name="outcome")
    pairs += where(("order", "below", "5"))
    read = Read(page.get(f"/risks?{urlencode(pairs)}").text)
    found = release.risks("sex = 'F'", f"{quoted(SECRET)} = 'O''Neil & sons'", '"order" < 5')
    check_measures(read, found)
    told = run_json(*shlex.split(read.code[0])[1:])
    assert [m["estimate"] for m in told["measures"]] == [m.estimate for m in found.measures]


def run_json(*arguments: str) -> Any:
    return json.loads(CliRunner().invoke(app, [*arguments, "--json"]).stdout)


def check_measures(read: Read, found: Any) -> None:
    heads, *lines = read.tables[-1]
    assert [line[0] for line in lines] == [measure.name for measure in found.measures]
    for line, measure in zip(lines, found.measures, strict=True):
        for head, figure in (("Estimate", measure.estimate), ("Uncorrected", measure.naive)):
            told = line[heads.index(head)].replace(",", "")
            assert told == f"{figure:.{len(told.partition('.')[2])}f}"


def test_power_tells_what_the_library_tells(page: Served, release: Release) -> None:
    pairs = [("ask", "1"), ("by", SECRET), ("share", "5"), ("width", "2.5"), *where(("sex", "is", "F"))]
    read = Read(page.get(f"/power?{urlencode(pairs)}").text)
    found = release.power(SECRET, "sex = 'F'", share=0.05, width=0.025)
    heads, *lines = read.tables[-1]
    rows = found.rows()
    for title, name in (("Published rows", "records"), ("Rows needed for the width", "records_for_width")):
        assert [line[heads.index(title)] for line in lines] == [f"{row[name]:,.0f}" for row in rows]
    assert [line[heads.index("Plus or minus")] for line in lines] == [f"{row['share_half_width']:.2%}" for row in rows]
    assert run_json(*shlex.split(read.code[0])[1:])["rows"] == rows


def test_verify_lists_the_checks_and_finds_a_change(tmp_path: Path, release: Release, page: Served) -> None:
    read = Read(page.get("/verify?run=1").text)
    told = {line[0]: line[2] for line in read.tables[-1][1:]}
    assert told == {check.name: check.detail for check in release.verify().checks}
    assert not Read(page.get("/verify").text).tables
    broken = tmp_path / "broken"
    shutil.copytree(release.folder, broken)
    (broken / "more.txt").write_text("not published")
    with served(lambda csrf: analyst_app(broken, csrf)) as other:
        read = Read(other.get("/verify?run=1").text)
        assert "✗ The release is not as it should be." in read.text


# --- every kind -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", POLICIES)
def test_a_release_of_every_kind_opens_and_answers(kind: str) -> None:
    release = made(kind)
    secret = secret_of(release)
    with served(lambda csrf: analyst_app(release.folder, csrf)) as page:
        start = Read(page.get("/").text)
        assert release.manifest.card.promise in start.text
        assert f"{release.manifest.data.rows:,} records" in start.text
        assert {line[0] for line in start.tables[0][1:]} == set(release.askable_names)
        assert ("The truth may lie outside the set" in start.text) == (kind in IN_SETS)
        assert ("Do not join the files" in start.text) == (kind in BY_GROUPS)
        assert "Intervals cover only the added noise, not sampling." in start.text
        read = Read(page.get(f"/ask?{urlencode([('figure', 'count'), ('by', secret)])}").text)
        check_table(read, release.count(secret))
        assert len(read.named("svg")) == 2  # one for a screen, one for a phone
        query = f"SELECT {quoted(secret)}, COUNT(*) AS n FROM release GROUP BY {quoted(secret)} ORDER BY n DESC LIMIT 2"
        check_table(Read(page.get(f"/sql?query={quote_plus(query)}").text), release.sql(query))
        for address in ("/associations", "/risks", "/power", "/verify", "/ask", "/sql"):
            assert page.get(address).status == 200
        told = page.get(f"/power?ask=1&{urlencode([('by', secret)])}").text
        assert ("a release by groups has none" in told) == (kind in BY_GROUPS)
        assert page.get("/verify?run=1").status == 200
