"""The documentation is run: commands, Python and policies; and it claims nothing that it should not.

- ```console   every line `$ sfumato ...` is run where the demo's files are; the exit code must be 0 (or the
               `exit code N` shown after it), and every line of output shown must occur in the real output, up to
               numbers and spacing. "..." stands for any lines.
- ```python    run in the order of the page; blocks with >>> as doctests.
- ```toml      parsed as a policy; a fragment is completed by the sections that it lacks. After a line that ends in
               "as `NAME.toml`:" it is written to that file first, for the commands that follow.
"""

from __future__ import annotations

import doctest
import importlib.util
import json
import re
import shlex
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from docs.generate.cards import promised
from sfumato.cli.demo import run_demo
from sfumato.cli.main import main
from sfumato.methods import METHODS, Method, options
from sfumato.methods.perturbation import Drawing
from sfumato.methods.several.method import Several
from sfumato.publisher.policy import Policy

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

SECTIONS = {
    "columns": '[columns.diagnosis]\nrole = "sensitive"\n',
    "method": '[method]\nname = "uniform"\n',
    "requirement": "[requirement]\nepsilon = 1\n",
}
"""What completes a fragment of a policy."""

CLAIMS = re.compile(
    r"\b(safe|safely|safety|anonym\w*|cannot be inferred|unbreakable|guaranteed private)\b", re.IGNORECASE
)
NAMES = ("Safe D", "safe-d", "Protection on Anonymized Data")
"""Words that state a result without its bound; and names that contain one."""

MACHINE = re.compile(r"(?<![\w.~)])/(home|root|work|tmp|usr|Users|opt)/|localhost")


class Block(NamedTuple):
    """A fenced block, the line where it starts, and the file that the page says it is."""

    kind: str
    text: str
    line: int
    file: str = ""


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(m[1], m[2], text[: m.start()].count("\n") + 1, file(text[: m.start()])) for m in FENCE.finditer(text)]


def file(before: str) -> str:
    """Return the file that a block is said to be by the line before it, if by any.

    >>> file("This is the policy, as `policy.toml`:\\n\\n"), file("See `policy.toml`.\\n\\n")
    ('policy.toml', '')
    """
    found = re.search(r"\bas `([\w-]+\.toml)`:\s*\Z", before)
    return found[1] if found else ""


def name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("demo") / "sfumato-demo"
    run_demo(folder)
    return folder


@pytest.fixture
def beside_demo(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A new current folder that holds sfumato-demo/."""
    shutil.copytree(demo, tmp_path / "sfumato-demo")
    monkeypatch.chdir(tmp_path)
    return tmp_path


# --- commands and Python, page by page ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "page", [p for p in PAGES if any(b.kind in ("console", "python") for b in blocks(p))], ids=name
)
def test_what_a_page_shows_happens(page: Path, beside_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    for block in blocks(page):
        where = f"{name(page)}, line {block.line}"
        if block.file:
            Path(block.file).write_text(block.text, encoding="utf-8")
        if block.kind == "console":
            for command, shown, code in commands(block.text):
                output = run(command, code, where, capsys)
                for line in shown:
                    assert line in output, f"{where}: {command!r} does not print {line!r}"
        elif block.kind == "python" and ">>>" in block.text:
            run_doctest(block, names, where)
        elif block.kind == "python":
            exec(compile(block.text, where, "exec"), names)


def commands(text: str) -> Iterator[tuple[list[str], list[str], int]]:
    """Yield each command, the lines shown of its output (normalised), and its exit code."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *lines = part.splitlines()
        stated = [int(line.removeprefix("exit code ")) for line in lines if line.startswith("exit code ")]
        shown = [
            normal(line) for line in lines if line.strip() not in ("", "...") and not line.startswith("exit code ")
        ]
        yield shlex.split(command), shown, stated[0] if stated else 0


def run(command: list[str], code: int, where: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """Run a command line; return its lines, normalised."""
    assert command[0] == "sfumato", f"{where}: only sfumato's own commands can be checked"
    capsys.readouterr()
    ended = exit_code(command)
    printed = capsys.readouterr()
    assert ended == code, f"{where}: {shlex.join(command)} ended with {ended}\n{printed.err}"
    return {normal(line) for line in (printed.out + printed.err).splitlines()}


def exit_code(command: list[str]) -> int:
    """Run a command line in this process, which is much quicker than a new one."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    arguments, sys.argv = sys.argv, command
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    finally:
        sys.argv = arguments
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return 0


def normal(line: str) -> str:
    """Return a line without its numbers, hashes, rules and spacing: these differ from release to release."""
    line = re.sub(r"\b[0-9a-f]{12,}\b", "#", line)
    line = re.sub(r"-?\d[\d,]*(\.\d+)?(e-?\d+)?%?|-?\binf\b|(?<= )-(?= |$)", "#", line)  # "-": there is no number
    return " ".join(re.sub(r"-{3,}", "---", line).split())


def run_doctest(block: Block, names: dict[str, Any], where: str) -> None:
    test = doctest.DocTestParser().get_doctest(block.text, names, where, where, block.line)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    runner.run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    assert not runner.failures, "".join(report)


def test_the_runner_notices_wrong_output() -> None:
    ((command, shown, code),) = commands("$ sfumato verify x\nholds   12  checks\n...\nexit code 1\n")
    assert (command, shown, code) == (["sfumato", "verify", "x"], ["holds # checks"], 1)
    assert normal("COPD  -38.6   179.3") == normal("COPD   1,338.6  9.3") != normal("HIV  1  2")
    with pytest.raises(AssertionError):
        run_doctest(Block("python", ">>> 1 + 1\n3\n", 1), {}, "here")


# --- policies ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("page", "block"),
    [(p, b) for p in PAGES for b in blocks(p) if b.kind == "toml"],
    ids=lambda x: name(x) if isinstance(x, Path) else str(x.line),
)
def test_every_policy_shown_is_valid(page: Path, block: Block) -> None:
    stated = tomllib.loads(block.text)
    lacking = [text for section, text in SECTIONS.items() if section not in stated]
    roles = [column["role"] for column in stated.get("columns", {}).values()]
    if roles and "sensitive" not in roles:
        lacking.append(SECTIONS["columns"])
    Policy.parse("\n".join([block.text, *lacking]), f"{name(page)}, line {block.line}")


@pytest.mark.parametrize("page", ["docs/reference/policy.md", "docs/publish/guide.md"])
def test_all_methods_that_can_keep_the_order_are_named_where_it_is_told(page: str) -> None:
    told = (ROOT / page).read_text(encoding="utf-8")
    (near,) = re.findall(r'(?:the table\'s, refused where|order = "keep"` keeps the table).{0,300}', told, re.DOTALL)
    named = re.search(r"(?:only|in their place \()([^;)]*)\)", near)
    assert named
    assert {*re.findall(r"[a-z-]+", named[1])} - {"and"} == {m.name for m in METHODS if m.keeps_order}


def test_what_the_program_cites_is_in_the_documentation() -> None:
    """Every page and section of docs/ that a line of the program names is there."""
    cited = re.compile(r'docs/[\w/-]+\.md(?:[,\s]+"([^"\n]+)")?')
    for source in [*(ROOT / "src").rglob("*.py"), *(ROOT / "papers").rglob("*.py")]:
        text = source.read_text(encoding="utf-8")
        assert "SOUNDNESS" not in text, source
        for found in cited.finditer(text):
            page = ROOT / f"{found[0].split('.md')[0]}.md"
            assert page.is_file(), f"{source} cites {page}"
            assert not found[1] or f"## {found[1]}\n" in page.read_text(encoding="utf-8"), f"{source}: {found[0]}"


def test_the_policy_page_names_every_key() -> None:
    text = (ROOT / "docs" / "reference" / "policy.md").read_text(encoding="utf-8")
    definitions = Policy.model_json_schema()["$defs"]
    keys = {key for part in definitions.values() for key in part["properties"]}
    keys |= {field.alias or name for name, field in Policy.model_fields.items()} | {key for key, _ in options()}
    shown = set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`[^`\n]+`", text)))) | set(
        re.findall(r"^\[*([a-z_0-9.]+)", text, re.MULTILINE)
    )
    assert {k for k in keys if k not in shown and not any(k in s.split(".") for s in shown)} == set()


# --- JSON -------------------------------------------------------------------------------------------------------------

JSON_COMMANDS = {
    "init": "sfumato init sfumato-demo/private/clinic.parquet --json",
    "profile": "sfumato profile sfumato-demo/private/clinic.parquet sfumato-demo/private/policy.toml --json",
    "plan": "sfumato plan sfumato-demo/private/clinic.parquet sfumato-demo/private/policy.toml --json",
    "publish": "sfumato publish sfumato-demo/private/clinic.parquet sfumato-demo/private/policy.toml -o new --json",
    "estimate": "sfumato estimate sfumato-demo/release --by diagnosis --json",
    "associate": "sfumato associate sfumato-demo/release --between sex,diagnosis --json",
    "regress": "sfumato regress sfumato-demo/release \"diagnosis == 'diabetes' ~ age + sex\" --json",
    "power": "sfumato power sfumato-demo/release --by diagnosis --width 0.01 --json",
    "audit": "sfumato audit sfumato-demo/private/clinic.parquet sfumato-demo/release "
    "--policy sfumato-demo/private/policy.toml --json",
    "report": "sfumato report sfumato-demo/private/clinic.parquet sfumato-demo/private/policy.toml "
    "sfumato-demo/release -o new.html --json",
    "verify": "sfumato verify sfumato-demo/release --json",
    "key": "sfumato key new.key --json",
    "demo": "sfumato demo -o new-demo --json",
}


@pytest.mark.parametrize("command", JSON_COMMANDS)
def test_the_json_page_lists_the_keys(command: str, beside_demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(shlex.split(JSON_COMMANDS[command])) == 0
    printed = json.loads(capsys.readouterr().out)
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    section = text.split(f"## `{command}`\n")[1].split("\n## ")[0]
    table = "\n".join(line for line in section.splitlines() if line.startswith("| `"))
    listed = [key for line in table.splitlines() for key in re.findall(r"`(\w+)`", line.split("|")[1])]
    assert listed == list(printed)
    inner = _keys({k: v for k, v in printed.items() if k not in ("manifest", "counts")}) - {"diagnosis"}
    assert inner <= set(re.findall(r"`(\w+)`", table))


def _keys(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | set().union(*map(_keys, value.values()))
    return set().union(*map(_keys, value)) if isinstance(value, list) else set()


# --- words, links, picture --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_result_is_claimed_without_its_bound(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for exception in NAMES:
        text = text.replace(exception, "")
    assert CLAIMS.findall(text) == []
    assert MACHINE.findall(text) == []


def test_the_scan_finds_what_it_looks_for() -> None:
    assert CLAIMS.findall("safe to share, fully anonymised") == ["safe", "anonymised"]
    assert MACHINE.search("see /home/x/y")
    assert not MACHINE.search("docs/reference/policy.md and private/clinic")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]*)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
        assert not target or (page.parent / target).is_file(), target


def test_the_readme_has_exactly_two_commands_for_a_fresh_machine() -> None:
    shells = [b.text for b in blocks(ROOT / "README.md") if b.kind == "sh"]
    demo, tests = "uv run --extra studio sfumato demo", "uv run --group test pytest"
    assert shells == [f"pip install uv && {demo}\npip install uv && {tests}\n"]


def script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_the_picture_is_what_its_script_draws() -> None:
    committed = (ROOT / "docs" / "picture.svg").read_text(encoding="utf-8")
    assert script("make_picture").picture() == committed, "draw it again: uv run python docs/make_picture.py"


# --- the pages of methods that draw by one matrix -----------------------------------------------------------------


def test_pictures_of_methods_show_what_their_script_computes() -> None:
    """Every mark of a picture has its numbers in words: these are compared, not what a renderer makes of them."""
    drawn = script("make_method_pictures").pictures()
    assert set(drawn) == {method.name for method in METHODS if issubclass(method, Drawing)}
    for method, specification in drawn.items():
        picture = (ROOT / "docs" / "methods" / f"{method}.svg").read_text(encoding="utf-8")
        assert len(picture) < 60_000
        texts = [specification["description"], *told_by(specification)]
        assert len(texts) > 20
        for text in texts:
            assert escape(text) in picture, f"{method}: draw it again: uv run python docs/make_method_pictures.py"


def told_by(specification: Any) -> Iterator[str]:
    """Give the words of every mark, and the titles."""
    if isinstance(specification, dict):
        if isinstance(told := specification.get("told"), str):
            yield told
        if isinstance(title := specification.get("title"), dict):
            yield from title.get("text", [])
        for part in specification.values():
            yield from told_by(part)
    elif isinstance(specification, list):
        for part in specification:
            yield from told_by(part)


@pytest.mark.parametrize(
    "method", ["anatomy", "suppression", "robust-anatomy", "small-domain", "randomized-response", "several"]
)
def test_pictures_of_releases_are_what_their_script_draws(method: str) -> None:
    committed = (ROOT / "docs" / "methods" / f"{method}.svg").read_text(encoding="utf-8")
    drawn = script("make_release_pictures").PICTURES[method]()
    assert drawn == committed, "draw it again: uv run python docs/make_release_pictures.py"


@pytest.mark.parametrize("method", [*METHODS, Several], ids=lambda m: m.name)
def test_a_page_of_a_method_has_card_picture_example_and_use_and_leads_to_a_proof(method: type[Method]) -> None:
    page = ROOT / "docs" / "methods" / f"{method.name}.md"
    text = page.read_text(encoding="utf-8")
    card = dict(re.findall(r"^\| (\w[\w ]*) \| (.*) \|$", text, re.MULTILINE))
    assert {"published of a record", "promise", "not covered", "cost", "strength", "needs"} <= set(card)
    assert card["promise"] == promised(method), "python -m docs.generate"
    if method is not Several:  # its options are those of the columns' methods
        assert set(re.findall(r"`(\w+)`", card["options"])) == set(method.model_fields) - {"assurance"}
        assert method.avoid_if[1:] in text
    assert re.search(rf"^!\[[^\]]+\]\({method.name}\.svg\)$", text, re.MULTILINE)
    assert any(block.kind in ("python", "toml") for block in blocks(page))
    for part in ("The card", "Example", "Use it when"):
        assert f"\n## {part}\n" in text
    proof = (page.parent / "proofs" / page.name).read_text(encoding="utf-8")
    assert f"proofs/{method.name}.md" in text
    assert re.search(r"\*\*Proof|^## .*([Pp]roof|[Pp]roved|equivalent)|∎", proof, re.MULTILINE)


def test_what_is_cited_is_this_version() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    stated = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert re.findall(r'^version: "(.*)"$', text, re.MULTILINE) == [stated["version"]]
    assert f"license: {stated['license']}\n" in text
    assert f"version {stated['version']}" in (ROOT / "docs" / "project" / "cite.md").read_text(encoding="utf-8")
