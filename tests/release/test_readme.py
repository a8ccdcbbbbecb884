"""The README of a release shows names and values as they are, and as nothing else: Markdown, HTML, shell or Python.

What a program makes of it is read by one: CommonMark with tables by markdown-it, a shell's words by `shlex` and bash.
"""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from sfumato.analyst.release import Release
from sfumato.publisher.policy import Policy
from sfumato.release.folder import README_NAME
from sfumato.release.readme import _argument, _code, _literal, _prose
from sfumato.show.terminal import printable
from sfumato.values.attributes import Domain
from tests.engines.tools import released
from tests.faults.hostile import MOST_LETTERS, TEXTS

ODD = (
    *(text for text in TEXTS if len(text) < MOST_LETTERS),
    "x" * MOST_LETTERS,
    "s'\";rm `x` $(id)\n# H",
    "``` ends\n```\n# H",
    "`",
    "`` a ``` b",
    "a|b\\|c\\",
    "\\",
    "*a* _b_ __c__ ~~d~~ e*",
    "![a](b) [c][d] <http://localhost> &amp;",
    " a  ",
    "--",
)
PLAIN = ("flu", "HIV", "blood group", "marital_status", "< 20", "[20, 30)", ">= 70", "<=50K", ">50K", "R&D", "größe")
PLAIN_PROSE = (*PLAIN, "C:\\data", "a__b", "-5", "#1", "1. a", "'gout' or 'HIV'", "(missing)", "±57", "50%; a/b: c!")
PLAIN_WORDS = ("disease", "marital_status", "größe", "病名", "blood-type", "v1.2", "größe-in-cm")
MARKED = "=<b>`x`</b> *_a_*\n# H | $(id)\x1b[2J"
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "uniform": ({"name": "uniform"}, {"rho1": 0.3, "rho2": 0.7}),
    "anatomy": ({"name": "anatomy"}, {"l": 2}),
    "cards": ({"name": "subset", "form": "card"}, {"gamma": 2}),
}
RARER: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "suppression": ({"name": "suppression", "always": True}, {"l": 2}),
    "robust-anatomy": ({"name": "robust-anatomy", "attribute_sets": [[f"{MARKED} known"]]}, {"r": 2}),
    "randomized-response": ({"name": "randomized-response", "scope": "quasi-identifiers"}, {"risk_limit": 0.44}),
    "small-domain": ({"name": "small-domain"}, {"rho1": 0.3, "rho2": 0.7}),
}
CASES = (*product(METHODS, (*ODD, MARKED)), *((method, MARKED) for method in RARER))
HEADINGS = [
    ("h1", "Release <id>"),
    ("h2", "How to use it"),
    ("h2", "What is promised"),
    ("h3", "In exact terms"),
    ("h2", "Codebook"),
]
BLOCK = re.compile(r"^(`{3,})([a-z]*)\n(.*?\n)\1\n", re.MULTILINE | re.DOTALL)
MARKDOWN = MarkdownIt("commonmark").enable(["table", "strikethrough"])
letters = st.text(st.sampled_from("`*_~|\\<>&[]()!#;\"'$ a1/:-\n\t\x1b\u2028é"), max_size=9)


@dataclass(frozen=True)
class Case:
    """A release of a column whose name and one of whose values are a text, and its README."""

    text: str
    release: Release
    readme: str

    @property
    def hidden(self) -> Domain:
        """The column that is asked for in the examples."""
        return self.release.manifest.domain.parts[0]


@pytest.fixture(scope="module", params=CASES, ids=[f"{method}-{text[:12]!a}" for method, text in CASES])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    method, text = request.param
    folder = tmp_path_factory.mktemp("odd") / "release"
    release = released(_table(text), _policy(text, method), folder=folder, format="csv")
    return Case(text, release, (release.folder / README_NAME).read_text(encoding="utf-8"))


def _table(text: str, rows: int = 60) -> pa.Table:
    known, hidden = (f"{text} 2", text, "plain"), ("flu", text, "gout", "rash")
    return pa.table(
        {
            f"{text} known": [known[k * 7 % 3] for k in range(rows)],
            text: [hidden[k * k % 7 % 4] for k in range(rows)],
        }
    )


def _policy(text: str, method: str) -> Policy:
    named, asked = (METHODS | RARER)[method]
    kept = {"role": "quasi_identifier", "publish_as_is": "a test follows rows by it"}
    columns = {f"{text} known": kept, text: {"role": "sensitive"}}
    return Policy.model_validate({"method": named, "requirement": asked, "columns": columns})


def shown(text: str) -> str:
    """Return what is to be read of a text, on one line."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


# --- how a README is read ---------------------------------------------------------------------------------------------


def block(readme: str, language: str) -> str:
    found = {named: content for _, named, content in BLOCK.findall(readme)}
    return found[language]


def inline(text: str) -> list[Token]:
    return list(MARKDOWN.parseInline(text)[0].children or ())


def tokens(readme: str) -> Iterator[Token]:
    for token in MARKDOWN.parse(readme):
        yield token
        yield from token.children or ()


def said(line: Sequence[Token]) -> str:
    return "".join(token.content for token in line)


def words(line: str) -> list[str]:
    """Return the words of a command; `shlex` knows no codes of control characters, as shells do."""
    if "$'" not in line:
        return shlex.split(line)
    command = ["bash", "-c", f"printf '%s\\0' {line}"]
    done = subprocess.run(command, capture_output=True, check=True, env={"LC_ALL": "C"})
    return done.stdout.decode().split("\0")[:-1]


# --- whole releases ---------------------------------------------------------------------------------------------------


def test_it_is_written_again_as_it_is(case: Case) -> None:
    assert {check.name for check in case.release.verify().checks if check.status == "fails"} == {"secret key"}


def test_the_shell_gets_the_name_as_one_argument(case: Case) -> None:
    (line,) = block(case.readme, "").splitlines()
    assert words(line) == ["sfumato", "estimate", ".", "--by", case.hidden.name]


def test_python_gets_the_name_as_a_literal(case: Case) -> None:
    found = ast.walk(ast.parse(block(case.readme, "python")))
    assert case.hidden.name in [node.value for node in found if isinstance(node, ast.Constant)]


def test_the_headings_are_those_of_every_readme(case: Case) -> None:
    read = MARKDOWN.parse(case.readme.replace(case.release.manifest.release_id, "<id>", 1))
    assert [(one.tag, two.content) for one, two in pairwise(read) if one.type == "heading_open"] == HEADINGS
    lines = BLOCK.sub("", case.readme).splitlines()
    assert len([line for line in lines if re.match(r" {0,3}(#{1,6} |=+\s*$|-+\s*$)", line)]) == len(HEADINGS)


def test_no_name_is_markup(case: Case) -> None:
    kinds = {token.type.removesuffix("_open").removesuffix("_close") for token in tokens(case.readme)}
    assert kinds <= {
        *("heading", "paragraph", "bullet_list", "list_item", "fence", "inline", "text", "softbreak"),
        *("code_inline", "strong", "table", "thead", "tbody", "tr", "th", "td"),
    }


def test_no_raw_sign_of_html_outside_of_code(case: Case) -> None:
    lines = BLOCK.sub("", case.readme).splitlines()
    outside = [re.sub(r"(?<![\\`])(`+)(?!`).+?(?<!`)\1(?!`)", "", line) for line in lines]
    assert [line for line in outside if "<" in line] == []


def test_no_control_character_anywhere(case: Case) -> None:
    text = case.readme.replace("\n", " ")
    assert printable(text) == text
    assert "\t" not in text


def test_a_line_of_the_codebook_has_three_cells_and_the_name(case: Case) -> None:
    rows = [line for line in case.readme.splitlines() if line.startswith("| ")]
    columns = 2 + 1 + (case.release.manifest.groups is not None)
    assert len(rows) == columns
    assert {len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) for row in rows} == {4}
    read = MARKDOWN.parse(case.readme)
    cells = [said(two.children or ()) for one, two in pairwise(read) if one.type == "td_open"]
    assert len(cells) == 3 * (columns - 1)
    assert {shown(case.text).strip(), shown(f"{case.text} known").strip()} <= set(cells[::3])


def test_values_are_told_as_they_are(case: Case) -> None:
    line = next(line for line in case.readme.splitlines() if line.startswith("Values of "))
    told = inline(line)
    assert (told[1].type, told[1].content) == ("code_inline", shown(case.hidden.name))
    values = case.hidden.values
    assert said(told[2:]) == f" ({len(values)}): {', '.join(shown(str(value)) for value in values)}."


def test_the_exact_terms_name_the_column(case: Case) -> None:
    manifest = case.release.manifest
    stated, read = manifest.guarantee, [said(token.children or ()) for token in MARKDOWN.parse(case.readme)]
    card = (text for _, text in manifest.card.rows)
    for text in (*card, stated.sentence, stated.adversary, stated.prior, *stated.limits, manifest.second_release):
        assert any(line.endswith(shown(text)) for line in read), text


# --- by themselves ----------------------------------------------------------------------------------------------------


@given(st.lists(letters, min_size=1, max_size=3))
@example(["*", "*"])
@example(["_", "_a_", "a_"])
@settings(max_examples=500)
def test_prose_is_read_as_it_is(texts: list[str]) -> None:
    told = inline(f"Values: {', '.join(map(_prose, texts))}.")
    assert {token.type for token in told} == {"text"}
    assert said(told) == f"Values: {', '.join(map(shown, texts))}."


@given(letters.filter(bool))
@settings(max_examples=500)
def test_code_is_read_as_it_is(text: str) -> None:
    told = [token for token in inline(f"a {_code(text)} b") if token.type != "text" or token.content]
    assert [token.type for token in told] == ["text", "code_inline", "text"]
    assert told[1].content.strip(" ") == shown(text).strip(" ")


@given(st.text())
def test_a_literal_is_the_text(text: str) -> None:
    assert ast.literal_eval(_literal(text)) == text
    assert printable(_literal(text)) == _literal(text)


@given(letters)
@settings(max_examples=60)
def test_an_argument_is_the_text(text: str) -> None:
    assert words(_argument(text)) == [text]


@pytest.mark.parametrize("text", PLAIN_PROSE)
def test_plain_text_stays_as_it_is(text: str) -> None:
    """Each byte: `verify` writes the README of an older release again."""
    assert _prose(text) == text


@pytest.mark.parametrize("text", PLAIN)
def test_plain_names_stay_as_they_are(text: str) -> None:
    assert (_code(text), _literal(text)) == (f"`{text}`", f'"{text}"')


@pytest.mark.parametrize("text", PLAIN_WORDS)
def test_plain_words_of_a_shell_stay_as_they_are(text: str) -> None:
    assert _argument(text) == text
