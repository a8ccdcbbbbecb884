"""The site: what it would load is found, its pages are in order, and links from the root lead to the same pages."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from docs import site
from docs.generate import commands, errors, markdown, names
from tests.house.test_docs import script


def test_what_a_page_would_load_from_elsewhere_is_found(tmp_path: Path) -> None:
    harmless = '<a href="https://a.org">x</a><link rel="canonical" href="https://a.org/"><img src="x.svg">'
    (tmp_path / "good.html").write_text(f"{harmless}<code>&lt;script src='https://a.org'></code>", encoding="utf-8")
    assert list(site.loaded(tmp_path)) == []
    for text in (
        '<script src="https://a.org/x.js"></script>',
        "<link rel='stylesheet' href='//a.org/x.css'>",
        '<img alt="x" src="http://a.org/x.png">',
        '<pre></pre><div class="mermaid">',
    ):
        (tmp_path / "bad.html").write_text(text, encoding="utf-8")
        assert len(list(site.loaded(tmp_path))) == 1, text
    (tmp_path / "bad.html").unlink()
    (tmp_path / "bad.css").write_text("@import url(https://a.org/font.css);", encoding="utf-8")
    assert list(site.loaded(tmp_path))


def test_every_page_has_its_place() -> None:
    folder = site.ROOT / "docs"
    pages = sorted([page.relative_to(folder).as_posix() for page in folder.rglob("*.md")] + list(site.BROUGHT))
    assert sorted(flat(site.navigation(pages))) == pages
    assert list(map(titles, site.navigation(pages)))[:3] == ["Home", "Start", "Publish"]


def flat(part: object) -> list[str]:
    if isinstance(part, dict):
        return flat(list(part.values()))
    return [page for inner in part for page in flat(inner)] if isinstance(part, list) else [str(part)]


def titles(part: object) -> str:
    return next(iter(part)) if isinstance(part, dict) else ""


@pytest.mark.parametrize("module", [site, markdown, names, errors, commands], ids=lambda module: module.__name__)
def test_examples_of_the_builders_hold(module: object) -> None:
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


def test_the_flowchart_is_what_its_script_draws() -> None:
    drawn = script("make_flowchart")
    assert drawn.FILE.read_text(encoding="utf-8") == drawn.flowchart(), "draw it again: python docs/make_flowchart.py"
