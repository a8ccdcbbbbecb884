"""The analyst's page in a real browser: by keys, without scripts, on phones and desks, light and dark."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest

from sfumato.release.folder import quoted
from sfumato.studio.analyst.app import analyst_app
from sfumato.studio.analyst.saving import saved
from tests.page.browser import SCREENS, Browser, browsing, chromium
from tests.page.test_browser import PALE
from tests.studio.analyst.releases import SECRET, VALUES, made
from tests.studio.served import Served, served

ADDRESSES = {
    "start": "/",
    "answer": f"/ask?{urlencode([('figure', 'count'), ('by', 'sex'), ('by', SECRET)])}",
    "refusal": f"/ask?{urlencode([('figure', 'average'), ('column', SECRET)])}",
    "query": f"/sql?{urlencode([('query', 'SELECT sex, COUNT(*) AS n, AVG(age) FROM release GROUP BY sex')])}",
    "association": f"/associations?{urlencode([('first', 'sex'), ('second', SECRET)])}",
    "risks": "/risks",
    "power": f"/power?{urlencode([('ask', '1'), ('by', SECRET)])}",
    "verify": "/verify?run=1",
}


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def page() -> Iterator[Served]:
    chromium()
    release = made("fine-grain")
    with served(lambda csrf: analyst_app(release.folder, csrf)) as found:
        yield found


@pytest.fixture
def inside(browser: Browser, page: Served) -> Browser:
    """A browser with the cookie of the server."""
    name, _, value = page.cookie.partition("=")
    browser.ask("Network.setCookie", name=name, value=value, url=page.origin, httpOnly=True, sameSite="Strict")
    return browser


def visit(browser: Browser, address: str, width: int = 1280, theme: str = "light") -> None:
    browser.events.clear()
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500)
    browser.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
    browser.ask("Page.navigate", url=address)
    browser.wait(f"document.readyState === 'complete' && location.href.startsWith({address[:40]!r})")


def violations(browser: Browser) -> list[str]:
    """Return what axe-core finds; nothing is looked for where it is not installed."""
    script = os.environ.get("SFUMATO_AXE")
    if not script:
        return []
    browser.ask("Runtime.evaluate", expression=Path(script).read_text(encoding="utf-8"))
    found = "axe.run().then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' ; ')))"
    answer = browser.ask("Runtime.evaluate", expression=found, awaitPromise=True, returnByValue=True)
    return list(answer["result"]["value"])


def check(browser: Browser, origin: str) -> None:
    assert browser.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert browser.evaluate(PALE) == []
    assert violations(browser) == []
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith((origin, "data:"))] == []


@pytest.mark.parametrize(("width", "theme"), SCREENS)
@pytest.mark.parametrize("name", ADDRESSES)
def test_pages_fit_are_read_easily_and_load_nothing_from_elsewhere(
    name: str, width: int, theme: str, inside: Browser, page: Served
) -> None:
    visit(inside, page.origin + ADDRESSES[name], width, theme)
    inside.keep(f"analyst-{name}-{width}-{theme}")
    check(inside, page.origin)
    assert inside.evaluate("[...document.scripts].map(s => new URL(s.src).pathname)") == ["/static/studio.js"]


CUT = """
const range = document.createRange(), cut = [];
const nodes = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
for (let node; (node = nodes.nextNode()); ) {
  if (!node.parentElement.closest('td, th')) continue;
  for (const word of node.data.matchAll(/(?<!\\S)[^\\s-]{2,14}(?!\\S)/g)) {
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) cut.push(word[0]);
  }
}
cut
"""
"""Words of tables that begin in one line and end in another; with a hyphen, or over 14 letters, they may give way."""


@pytest.mark.parametrize("name", ["start", "answer", "association", "power", "verify"])
@pytest.mark.parametrize(("width", "theme"), SCREENS)
def test_tables_hide_no_figure_and_cut_no_word(
    name: str, width: int, theme: str, inside: Browser, page: Served
) -> None:
    visit(inside, page.origin + ADDRESSES[name], width, theme)
    hidden = "[...document.querySelectorAll('main .scroll')].map(e => e.scrollWidth - e.clientWidth)"
    assert inside.evaluate(hidden) == [0]
    assert inside.evaluate(CUT) == []


@pytest.mark.parametrize("kind", ["fine-grain", "cards", "ranges", "anatomy"])
def test_a_saved_page_opens_from_the_disk(kind: str, browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(saved(made(kind)), encoding="utf-8")
    for width, theme in SCREENS:
        visit(browser, file.as_uri(), width, theme)
        browser.keep(f"saved-{kind}-{width}-{theme}")
        check(browser, file.as_uri())
        assert browser.evaluate("document.scripts.length") == 0
        assert browser.evaluate("getComputedStyle(document.querySelector('.panel')).borderTopStyle") == "solid"


def test_a_question_is_asked_by_keys(inside: Browser, page: Served) -> None:
    visit(inside, f"{page.origin}/ask")
    for _ in range(40):
        if inside.evaluate("document.activeElement.id") == "by-0":
            break
        inside.press("Tab")
    inside.press("s")  # selects what begins with it
    assert inside.evaluate("document.activeElement.value") == "sex"
    for _ in range(40):
        if inside.evaluate("document.activeElement.id") == "where-1-value":
            break
        inside.press("Tab")
    inside.evaluate(f"document.getElementById('where-1-column').value = {json.dumps(SECRET)}")
    inside.write(VALUES[2])
    inside.press("Enter")
    inside.wait("document.querySelector('#answer table') !== null")
    expected = made("fine-grain").sql(
        f"SELECT sex, COUNT(*) FROM release WHERE {quoted(SECRET)} = 'O''Neil & sons' GROUP BY sex"
    )
    told = inside.evaluate("[...document.querySelectorAll('#answer tbody tr')].map(r => r.cells[1].textContent)")
    assert told == [f"{value:,.1f}" for value in expected.value]
    assert inside.complaints() == []


def test_a_question_is_asked_without_scripts(inside: Browser, page: Served) -> None:
    inside.ask("Emulation.setScriptExecutionDisabled", value=True)
    try:
        visit(inside, f"{page.origin}/ask")
        inside.click("form button")
        inside.wait("document.querySelector('#answer table') !== null")
        assert inside.evaluate("location.search") == "?figure=count"
    finally:
        inside.ask("Emulation.setScriptExecutionDisabled", value=False)


def test_the_button_says_that_the_question_is_asked(inside: Browser, page: Served) -> None:
    visit(inside, f"{page.origin}/sql")
    inside.evaluate("document.getElementById('query').value = 'SELECT COUNT(*) FROM release WHERE age IS NOT NULL'")
    inside.evaluate(  # what the button says until the next page is there: a page that waits for one need not answer us
        "const button = document.querySelector('form button'), keep = () => sessionStorage.setItem('said', "
        "button.textContent + '|' + button.getAttribute('aria-busy'));"
        "new MutationObserver(keep).observe(button, {attributes: true, childList: true})"
    )
    inside.click("form button")
    inside.wait("document.querySelector('#answer table') !== null")
    assert inside.evaluate("sessionStorage.getItem('said')") == "Asking …|true"
    assert inside.evaluate("document.querySelector('form button').textContent") == "Ask"
