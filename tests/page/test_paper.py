"""The report on paper: the decision sheet is one A4 page, and all of it at most six, for a table of ten columns."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.report.page import html_of
from sfumato.auditor.report.reporting import private_page
from sfumato.publisher.policy_rules import MOST_LETTERS, AboutRule
from tests.conftest import make_policy
from tests.page.browser import Browser, browsing, chromium
from tests.page.releases import POLICIES, made

MOST_PAGES = 6
WIDTH, HEIGHT = 688, 1024  # pixels of A4 within its margins: 182 mm by 271 mm, 96 pixels an inch
LONG = ("word " * MOST_LETTERS)[:MOST_LETTERS].strip()
ABOUT = AboutRule(title=LONG, owner=LONG, purpose=LONG, recipients=LONG)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    chromium()
    with browsing() as opened:
        yield opened


def printed(browser: Browser, page: Path) -> int:
    """Return how many pages a page has on paper, as its own style says."""
    browser.open(page, WIDTH, media="print")
    made_pdf = browser.ask("Page.printToPDF", preferCSSPageSize=True)["data"]
    return len(re.findall(rb"/Type\s*/Page\b(?!s)", base64.b64decode(made_pdf)))


def sheet_end(browser: Browser, page: Path) -> float:
    """Return where the decision sheet ends, in pixels from the top of the first page."""
    browser.open(page, WIDTH, media="print")
    return float(browser.evaluate("document.querySelector('.sheet').getBoundingClientRect().bottom"))


def wide(folder: Path) -> str:
    """Return the report of a table of ten columns, with as much to say of it as a policy can."""
    rng, rows = np.random.default_rng(3), 600
    names = [f"column_{k}" for k in range(8)]
    columns = {name: rng.choice(list("abcdefg"), rows).tolist() for name in names}
    columns["illness"] = rng.choice([f"illness {k}" for k in range(12)], rows).tolist()
    columns["name"] = [f"person {k}" for k in range(rows)]
    roles = dict.fromkeys(names[:6], "quasi_identifier") | dict.fromkeys(names[6:], "other")
    policy = make_policy(
        {**roles, "illness": "sensitive", "name": "identifier"}, "rho1 = 0.3\nrho2 = 0.7", "fine-grain"
    )
    table = sf.scan(pa.table(columns), policy.model_copy(update={"about": ABOUT}))
    plan = sf.plan(sf.profile(table), policy.method, policy.requirement)
    release = sf.publish(table, plan, folder / "release")
    return html_of(private_page(release, sf.audit(table, release, seed=1).to_dict(), table))


def test_a_table_of_ten_columns_has_at_most_six_pages(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "wide.html"
    page.write_text(wide(tmp_path), encoding="utf-8")
    assert sheet_end(browser, page) <= HEIGHT
    assert 2 <= printed(browser, page) <= MOST_PAGES


@pytest.mark.parametrize("method", POLICIES)
def test_the_sheet_is_one_page_whatever_the_method(method: str, browser: Browser, tmp_path: Path) -> None:
    of, page = made(method), tmp_path / "page.html"
    table = replace(of.table, policy=of.table.policy.model_copy(update={"about": ABOUT}))
    page.write_text(html_of(private_page(of.release, of.record, table)), encoding="utf-8")
    assert sheet_end(browser, page) <= HEIGHT
    assert 2 <= printed(browser, page) <= MOST_PAGES


def test_what_is_folded_is_printed_where_it_was_opened(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(html_of(made("fine-grain").private), encoding="utf-8")
    folded = printed(browser, page)
    page.write_text(page.read_text(encoding="utf-8").replace("<details>", "<details open>"), encoding="utf-8")
    assert printed(browser, page) > folded


def test_no_table_is_cut_where_it_fits_on_a_page(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(html_of(made("fine-grain").private), encoding="utf-8")
    browser.open(page, WIDTH, media="print")
    script = "[...document.querySelectorAll('.table, figure')].map(e => getComputedStyle(e).breakInside)"
    assert set(browser.evaluate(script)) == {"avoid"}
    assert browser.evaluate("getComputedStyle(document.querySelector('.sheet')).breakAfter") == "page"
