"""The analyst's pages: addresses, refusals, hostile names, what is kept, and who waits for whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest

from sfumato.analyst.release import Release
from sfumato.studio.analyst.answering import Answers
from sfumato.studio.analyst.app import analyst_app
from sfumato.studio.analyst.calls import Call
from tests.constants import set_constants
from tests.studio.analyst.reading import Read
from tests.studio.analyst.releases import SECRET, VALUES, made
from tests.studio.served import Served, served


@pytest.fixture(scope="module")
def release() -> Release:
    return made("fine-grain")


@pytest.fixture(scope="module")
def page(release: Release) -> Iterator[Served]:
    with served(lambda csrf: analyst_app(release.folder, csrf)) as found:
        yield found


# --- addresses --------------------------------------------------------------------------------------------------------


def test_a_form_as_it_is_sent_leads_to_the_short_address_of_its_answer(page: Served) -> None:
    empty = [("where_column", ""), ("where_is", "is"), ("where_value", "")]
    sent = [("figure", "count"), ("column", ""), ("by", "sex"), ("by", ""), *empty, *empty]
    usual = [("target", "table"), ("level", "95"), ("method", "inverse"), ("of", "all"), ("weight", "")]
    used = [("where_column", "sex"), ("where_is", "is not"), ("where_value", "M")]
    answer = page.get(f"/ask?{urlencode([*sent, *used, *usual])}")
    assert answer.status == 303
    short = f"/ask?{urlencode([('figure', 'count'), ('by', 'sex'), *used])}"
    assert answer.headers["location"] == short
    assert page.get(short).status == 200


def test_the_form_shows_again_what_was_asked(page: Served) -> None:
    pairs = [("figure", "sum"), ("column", "order"), ("by", SECRET), ("level", "90"), ("target", "population")]
    pairs += [("where_column", "age"), ("where_is", "known"), ("where_value", "")]
    read = Read(page.get(f"/ask?{urlencode(pairs)}").text)
    chosen = [attributes["value"] for attributes in read.named("option") if "selected" in attributes]
    assert {"sum", "order", SECRET, "age", "known"} <= set(chosen)
    assert [a["value"] for a in read.named("input") if "checked" in a] == ["population"]
    assert next(a["value"] for a in read.named("input") if a.get("name") == "level") == "90"


@pytest.mark.parametrize("path", ["/", "/ask", "/sql", "/associations", "/risks", "/power", "/verify"])
def test_every_field_has_a_label_and_nothing_is_inline(path: str, page: Served) -> None:
    answer = page.get(path)
    read = Read(answer.text)
    labelled = {attributes.get("for") for attributes in read.named("label")}
    in_labels = {"radio", "checkbox", "hidden"}
    for tag in ("input", "select", "textarea"):
        for attributes in read.named(tag):
            assert attributes.get("type") in in_labels or attributes["id"] in labelled, attributes
    ids = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert not read.named("style")
    assert all("src" in attributes for attributes in read.named("script"))
    assert not any(name.startswith("on") or name == "style" for _, a in read.elements for name in a)
    assert [a["method"] for a in read.named("form")] == ["get"] * len(read.named("form"))
    assert "unsafe" not in answer.headers["content-security-policy"]


# --- hostile names ----------------------------------------------------------------------------------------------------


def test_names_and_values_are_text_everywhere(page: Served) -> None:
    pairs = [("figure", "count"), ("by", SECRET), ("by", "sex")]
    pairs += [("where_column", SECRET), ("where_is", "is not"), ("where_value", VALUES[1])]
    paths = ["/", "/ask", "/associations", f"/ask?{urlencode(pairs)}", f"/sql?{urlencode([('query', SECRET)])}"]
    paths.append(f"/ask?{urlencode([('figure', SECRET)])}")
    for path in paths:
        read = Read(page.get(path).text)
        assert SECRET in read.text or SECRET in str(read.elements)
        assert all(a.get("src") == "/static/studio.js" for a in read.named("script"))
        assert not read.named("b")
    table = Read(page.get(f"/ask?{urlencode(pairs)}").text).tables[-1]
    assert {line[0] for line in table[1:]} == {*VALUES} - {VALUES[1]}


# --- refusals ---------------------------------------------------------------------------------------------------------

REFUSED = {
    "an average of texts": (
        "/ask",
        [("figure", "average"), ("column", SECRET)],
        "no sum and no average",
        "Ask for counts",
    ),
    "no column": ("/ask", [("figure", "sum")], "names no column", "Choose one"),
    "a share of nothing": ("/ask", [("figure", "share")], "A share needs groups", "Choose a column to group by"),
    "a figure that is none": ("/ask", [("figure", "mode")], "There is no figure 'mode'", "Figures are count"),
    "a level that is no number": ("/ask", [("figure", "count"), ("level", "high")], "number of percent", "E.g. 95"),
    "a level of 5000 digits": (
        "/ask",
        [("figure", "count"), ("level", "9" * 5000)],
        "number of percent",
        "E.g. 95",
    ),
    "a level of 100": ("/ask", [("figure", "count"), ("level", "100")], "above 0 and below 100 percent", "5% is 5"),
    "a level of nothing": ("/ask", [("figure", "count"), ("level", "1/0")], "number of percent", "E.g. 95"),
    "a value without a column": (
        "/ask",
        [("figure", "count"), ("where_column", ""), ("where_is", "is"), ("where_value", "F")],
        "has no column",
        "Choose its column",
    ),
    "half a condition": ("/ask", [("figure", "count"), ("where_column", "sex")], "not complete", "a comparison"),
    "a comparison that is none": (
        "/ask",
        [("figure", "count"), ("where_column", "sex"), ("where_is", "like"), ("where_value", "F")],
        "There is no comparison 'like'",
        "Comparisons are is",
    ),
    "a column that is not there": (
        "/ask",
        [("figure", "count"), ("by", "sexe")],
        "no column 'sexe'",
        "Did you mean 'sex'?",
    ),
    "a query that reads files": (
        "/sql",
        [("query", "SELECT * FROM read_csv('x')")],
        "A query reads FROM release",
        "A query looks like",
    ),
    "one column": ("/associations", [("first", "sex")], "no column ''", "Its columns are"),
    "the same column": ("/associations", [("first", "sex"), ("second", "sex")], "two different columns", ""),
    "no outcome": (
        "/risks",
        [("exposed_column", "sex"), ("exposed_is", "is"), ("exposed_value", "F")],
        "--outcome needs a condition",
        "",
    ),
    "a chance of a third": ("/power", [("ask", "1"), ("chance", "33")], "at least 50 and below 100", "5% is 5"),
    "a share above 1": ("/power", [("ask", "1"), ("share", "150")], "at most 100 percent, not 150", "5% is 5"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_to_ask_instead_and_keeps_the_form(name: str, page: Served) -> None:
    path, pairs, message, hint = REFUSED[name]
    answer = page.get(f"{path}?{urlencode(pairs)}")
    read = Read(answer.text)
    assert any(attributes.get("role") == "alert" for attributes in read.named("div"))
    assert message in read.text
    assert hint in read.text
    assert read.named("form")
    assert page.get(f"{path}.csv?{urlencode(pairs)}").status == 422


# --- what is kept, and who waits --------------------------------------------------------------------------------------


def test_the_same_question_is_asked_once_and_few_answers_are_kept(
    release: Release, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.studio.analyst", MOST_KEPT=2)
    asked: list[Call] = []
    usual = Call.asked
    monkeypatch.setattr(Call, "asked", lambda call, of: (asked.append(call), usual(call, of))[1])
    answers = Answers(release)
    first, second, third = (Call("count", ((), f"age IS NOT NULL AND {k} = {k}")) for k in range(3))
    assert answers.ask(first) is answers.ask(first)
    assert asked.count(first) == 2  # as it is, and uncorrected
    for call in (second, first, third):  # the second is the oldest when the third comes
        answers.ask(call)
    assert len(answers._kept) == 2
    before = len(asked)
    answers.ask(first)
    assert len(asked) == before
    answers.ask(second)
    assert len(asked) > before


def test_a_slow_question_keeps_nobody_waiting(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()
    usual = Call.asked

    def slow(call: Call, release: Release) -> Any:
        if call.places == (("age",), ""):
            begun.set()
            assert go_on.wait(60)
        return usual(call, release)

    monkeypatch.setattr(Call, "asked", slow)
    found: list[int] = []
    waiting = threading.Thread(target=lambda: found.append(page.get("/ask?figure=count&by=age").status))
    waiting.start()
    try:
        assert begun.wait(60)
        assert page.get("/").status == 200
        assert page.get("/ask?figure=count&by=sex&by=age").status == 200
        assert not found
    finally:
        go_on.set()
        waiting.join()
    assert found == [200]


def test_long_answers_are_cut_on_the_page_and_whole_in_the_file(page: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.studio.analyst", MOST_LINES=5)
    pairs = [("figure", "count"), ("by", "sex"), ("by", "age"), ("by", SECRET)]
    read = Read(page.get(f"/ask?{urlencode(pairs)}").text)
    whole = page.get(f"/ask.csv?{urlencode(pairs)}").text.splitlines()
    assert len(read.tables[-1]) == 6
    assert f"{len(whole) - 1 - 5} more lines are not shown here" in read.text
