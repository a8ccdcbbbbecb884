"""Commands that another distribution brings: found where it is installed; where it is not, how to get it."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import PLUGINS, app, main, run_plugin
from sfumato.errors import UsageError

ROOT = Path(__file__).parents[2]
BROUGHT = """
import typer

app = typer.Typer(rich_markup_mode=None)

@app.command()
def greet(name: str, loudly: bool = False) -> None:
    print(f"Hello {name}{'!' * loudly}")
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A distribution that brings the command `greet`."""
    (tmp_path / "greeting.py").write_text(BROUGHT)
    metadata = tmp_path / "greeting-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{PLUGINS}]\ngreet = greeting:app\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.fixture
def missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing brings a command."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: ())


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("arguments", "code", "shown"),
    [
        (["Ada", "--loudly"], 0, "Hello Ada!\n"),
        (["--help"], 0, "Usage: sfumato greet [OPTIONS] "),
        (["--softly"], 2, "No such option: --softly"),
    ],
)
def test_a_plug_in_gets_the_arguments(
    arguments: list[str], code: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        run_plugin("greet", arguments, "greeting", "Get it.")
    assert end.value.code == code
    assert shown in "".join(capsys.readouterr())


def test_a_command_that_nobody_brings_is_wrong_use() -> None:
    with pytest.raises(UsageError, match=r"'sfumato greet' comes with greeting, which is not installed.\nGet it."):
        run_plugin("greet", [], "greeting", "Get it.")


@pytest.mark.usefixtures("missing")
@pytest.mark.parametrize("arguments", [[], ["--help"], ["all", "--quick", "-o", "papers"]], ids=" ".join)
def test_reproduce_says_how_to_get_it(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["sfumato", "reproduce", *arguments, "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    told = json.loads("".join(capsys.readouterr()))
    assert told["message"] == "'sfumato reproduce' comes with sfumato-papers, which is not installed."
    assert "pip install ./papers" in told["hint"]
    assert "uv run --package sfumato-papers sfumato reproduce" in told["hint"]


def test_reproduce_runs_what_the_papers_bring() -> None:
    """The distribution is installed wherever tests run: its group asks for it."""
    stated = tomllib.loads((ROOT / "papers" / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = importlib.metadata.entry_points(group=PLUGINS, name="reproduce")
    assert {found.name: found.value} == stated["project"]["entry-points"][PLUGINS]
    listed = CliRunner().invoke(app, ["reproduce", "--list", "--json"])
    assert "sdr-table2" in [experiment["name"] for experiment in json.loads(listed.output)]


def test_help_reads_nothing_of_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_: pytest.fail("it was read"))
    shown = CliRunner().invoke(app, ["--help"])
    assert shown.exit_code == 0
    assert "reproduce" in shown.output
