"""The page as one file: no script, nothing loaded, nothing overwritten, and not inside a release."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.studio.analyst.app import save_page
from sfumato.studio.analyst.saving import saved
from tests.studio.analyst.reading import Read
from tests.studio.analyst.releases import POLICIES, VALUES, made


@pytest.mark.parametrize("kind", POLICIES)
def test_a_saved_page_has_the_figures_of_every_hidden_column_and_no_script(kind: str) -> None:
    release = made(kind)
    read = Read(saved(release))
    assert not read.named("script")
    assert not any(name.startswith("on") for _, attributes in read.elements for name in attributes)
    loaded = [value for _, attributes in read.elements for name, value in attributes.items() if name in ("src", "href")]
    assert loaded == ["data:,"]
    policy = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert {"http-equiv": "Content-Security-Policy", "content": policy} in read.named("meta")
    for text in (release.manifest.card.promise, *release.manifest.guarantee.limits):
        assert " ".join(text.split()) in read.text
    for number, name in enumerate(release.manifest.domain.names):
        answer = release.count(name)
        table = next(t for t in read.tables[number:] if t[0][:2] == [name, "Estimate"])
        assert [line[0] for line in table[1:]] == [str(group[0]) for group in answer.groups]
        told = [float(line[1].replace(",", "")) for line in table[1:]]
        assert told == pytest.approx(answer.value, abs=0.051)


def test_an_ordered_column_has_its_distribution_and_average() -> None:
    release = made("ranges")
    read = Read(saved(release))
    answer = release.distribution("pain")
    assert "Distribution of pain" in read.text
    (mean,) = release.sql("SELECT AVG(pain) FROM release").value
    tables = [table for table in read.tables if "Estimate" in table[0]]
    assert [float(line[1]) for line in tables[1][1:]] == pytest.approx(answer.value, abs=5e-3)
    assert float(tables[2][1][0]) == pytest.approx(mean, abs=5e-3)
    assert "sfumato distribution RELEASE pain" in read.code


def test_a_saved_page_does_not_tell_where_the_release_lies() -> None:
    release = made("uniform")
    assert str(release.folder) not in saved(release)
    assert all(value in Read(saved(release)).text for value in VALUES)


def test_the_command_writes_it_once_and_beside_the_release(tmp_path: Path) -> None:
    release = made("uniform")
    file = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["studio", str(release.folder), "--save", str(file)])
    assert result.exit_code == 0, result.exception
    assert file.read_text(encoding="utf-8") == saved(release)
    assert "no script" in result.stdout
    with pytest.raises(UsageError, match="exists already"):
        save_page(release.folder, file)
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


@pytest.mark.parametrize("name", ["page.html", "inner/page.html"])
def test_it_is_not_written_into_a_release(name: str, tmp_path: Path) -> None:
    copy = tmp_path / "release"
    shutil.copytree(made("uniform").folder, copy)
    (copy / "inner").mkdir()
    with pytest.raises(UsageError, match="which is sealed") as refused:
        save_page(copy, copy / name)
    assert "beside the release" in refused.value.hint
    assert not (copy / name).exists()


def test_it_is_html(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="another suffix"):
        save_page(made("uniform").folder, tmp_path / "page.pdf")
    assert not list(tmp_path.iterdir())
