"""Pages in a real browser: on a phone and on a desk, light and dark, and on paper."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sfumato.auditor.report.page import html_of
from tests.page.browser import Browser, browsing, chromium
from tests.page.releases import made

PAGES = ("fine-grain", "small-domain", "randomized-response", "suppression", "public")
PHONE, DESK = 390, 1280

OUTSIDE = """
[...document.querySelectorAll("body *")].filter(e => {
  const box = e.getBoundingClientRect();
  const beyond = box.left < -0.5 || box.right > innerWidth + 0.5;
  return beyond && box.width > 0 && e.checkVisibility() && !e.closest("thead");
}).map(e => `${e.tagName} ${e.textContent.slice(0, 40)}`)
"""
"""Elements that reach beyond the screen, also labels of figures."""

PALE = """
(() => {
  const light = c => { const x = c / 255; return x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; };
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const parts = text => (text.match(/[\\d.]+/g) || []).map(Number);
  const paper = e => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const e of document.querySelectorAll("body *")) {
    const own = [...e.childNodes].some(node => node.nodeType === 3 && node.textContent.trim());
    if (!own || !e.checkVisibility()) continue;
    const style = getComputedStyle(e), ink = parts(e.ownerSVGElement ? style.fill : style.color);
    const [a, b] = [luminance(ink), luminance(paper(e))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.push(`${contrast.toFixed(2)} ${e.textContent.slice(0, 40)}`);
  }
  return found;
})()
"""
"""Texts whose contrast to what is behind them is below 4.5 (WCAG AA)."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    chromium()
    folder = tmp_path_factory.mktemp("pages")
    for name in PAGES:
        page = made("anatomy").public if name == "public" else made(name).private
        (folder / f"{name}.html").write_text(html_of(page), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Browser]:
    with browsing() as opened:
        yield opened


UNFOLD = "document.querySelectorAll('details').forEach(e => { e.open = true; })"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
@pytest.mark.parametrize("name", PAGES)
def test_it_opens_from_disk_and_fits(browser: Browser, folder: Path, name: str, width: int, theme: str) -> None:
    page = folder / f"{name}.html"
    browser.open(page, width, theme)
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]
    for _ in ("folded", "unfolded"):
        assert browser.evaluate("document.documentElement.scrollWidth") == width
        assert browser.evaluate(OUTSIDE) == []
        assert browser.evaluate(PALE) == []
        browser.evaluate(UNFOLD)
    drawn = "[...document.querySelectorAll('svg')].filter(e => e.checkVisibility()).length"
    assert browser.evaluate(drawn) == browser.evaluate("document.querySelectorAll('figure').length") > 0


def test_themes_differ(browser: Browser, folder: Path) -> None:
    seen = set()
    for theme in ("light", "dark"):
        browser.open(folder / "fine-grain.html", DESK, theme)
        browser.evaluate(UNFOLD)
        seen.add(browser.evaluate("getComputedStyle(document.querySelector('.wide svg text')).fill"))
    assert len(seen) == 2


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_it_is_light_and_whole(browser: Browser, folder: Path, name: str) -> None:
    browser.open(folder / f"{name}.html", 718, "dark", "print")  # A4 with margins
    assert browser.evaluate("getComputedStyle(document.documentElement).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.evaluate("document.querySelector('nav').checkVisibility()") is False
    assert browser.evaluate("[...document.querySelectorAll('.narrow')].some(e => e.checkVisibility())") is False
    assert browser.evaluate("document.documentElement.scrollWidth") == 718
    assert browser.evaluate(PALE) == []


def test_what_the_checks_look_for_is_found(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "bad.html"
    bad.write_text(
        '<html style="background: #fff"><script>console.error("x")</script>'
        '<p style="color: #ccc; width: 2000px">pale</p><img src="missing.png">'
    )
    browser.open(bad, PHONE)
    assert browser.complaints() != []
    assert len(browser.requests()) == 2
    assert browser.evaluate(OUTSIDE) != []
    assert browser.evaluate(PALE) != []


def test_a_request_to_elsewhere_fails_and_is_told(browser: Browser, tmp_path: Path) -> None:
    bad = tmp_path / "elsewhere.html"
    addresses = ["http://pages.example/a.png", "http://192.0.2.1/b.png", "http://127.0.0.2/c.png", "http://[::1]/d.png"]
    bad.write_text("".join(f'<img src="{address}">' for address in addresses))
    browser.open(bad, PHONE)
    assert browser.evaluate("[...document.images].some(e => e.naturalWidth)") is False
    assert sorted(browser.elsewhere) == sorted(addresses)
    browser.elsewhere.clear()  # else the browser would fail its tests at its end


def test_no_name_leads_anywhere_even_if_nobody_looks(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "unseen.html"
    page.write_text('<img src="http://localhost:8321/a.png"><img src="http://192.0.2.1/b.png">')
    browser.ask("Fetch.disable")
    try:
        browser.open(page, PHONE)
        failed = [e["params"]["errorText"] for e in browser.events if e.get("method") == "Network.loadingFailed"]
        assert failed == ["net::ERR_NAME_NOT_RESOLVED"] * 2
    finally:
        browser.ask("Fetch.enable", patterns=[{"urlPattern": "*"}])


def test_a_browser_that_is_named_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFUMATO_BROWSER", "no-such-browser")
    with pytest.raises(pytest.fail.Exception, match="install chromium"):
        chromium()
    monkeypatch.delenv("SFUMATO_BROWSER")
    monkeypatch.setenv("PATH", os.devnull)
    with pytest.raises(pytest.skip.Exception, match="no Chromium here"):
        chromium()
