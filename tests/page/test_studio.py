"""The desk in a real browser: the whole story by clicks and by keys, and every page on phones and desks.

The story begins as a user's does: a CSV file, the server of the command line, and the file that lets a browser in.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow.csv as pc
import pytest

from sfumato.analyst.release import open_release
from sfumato.cli.demo import clinic
from tests.page.browser import SCREENS, Browser, browsing, chromium
from tests.page.test_browser import PALE
from tests.studio.analyst.test_browser import violations
from tests.studio.tables import At, desk_at, write_csv

MAIN = "from sfumato.cli.main import main\nif __name__ == '__main__': main()"
SECRET, SECRET_NUMBER = "finding", 5
"""A name that `init` does not know: the role of this column is left to decide."""
ALERTS = "for (const name of ['alert', 'confirm', 'prompt']) window[name] = () => console.error(name + ' was called');"
"""A dialog would stop the browser: it is a complaint here."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with browsing() as found:
        found.ask("Page.addScriptToEvaluateOnNewDocument", source=ALERTS)
        yield found


def fine(browser: Browser, origin: str, *others: str) -> None:
    """Assert that the console said nothing and that nothing was asked for elsewhere, since events were cleared."""
    assert browser.complaints() == []
    assert [url for url in browser.requests() if not url.startswith((f"{origin}/", "data:", *others))] == []


def arrived(browser: Browser, path: str) -> None:
    """Wait until a page is there, with its scripts."""
    browser.wait(f"location.pathname === {path!r} && document.readyState === 'complete'")


# --- hands ------------------------------------------------------------------------------------------------------------


class Hand(Protocol):
    """Somebody before the page."""

    browser: Browser

    def press(self, selector: str) -> None:
        """Use a button, a link, a box to tick, or a part to unfold."""

    def choose(self, selector: str, value: str) -> None:
        """Choose in a list."""

    def write(self, selector: str, text: str) -> None:
        """Write into an empty field."""

    def slide(self, selector: str) -> None:
        """Move a slider."""


@dataclass
class Mouse:
    """Clicks; names are typed, as nobody can click them."""

    browser: Browser

    def press(self, selector: str) -> None:
        self.browser.click(selector)

    def choose(self, selector: str, value: str) -> None:
        """Open the list by a click, and click the line."""
        _draw_lists_inside(self.browser)
        self.browser.click(selector)
        self.browser.click(f"{selector} option[value={json.dumps(value)}]")

    def write(self, selector: str, text: str) -> None:
        self.browser.click(selector)
        self.browser.write(text)

    def slide(self, selector: str) -> None:
        self.browser.click(selector)  # at its middle


@dataclass
class Keyboard:
    """Keys alone."""

    browser: Browser

    def go(self, selector: str) -> None:
        """Tab to an element."""
        self.browser.wait_for(selector)
        for _ in range(300):
            if self.browser.evaluate(f"document.activeElement.matches({json.dumps(selector)})"):
                return
            self.browser.press("Tab")
        raise AssertionError(f"no key leads to {selector}")

    def press(self, selector: str) -> None:
        self.go(selector)
        ticks = self.browser.evaluate("['checkbox', 'radio'].includes(document.activeElement.type)")
        self.browser.press(" " if ticks else "Enter")

    def choose(self, selector: str, value: str) -> None:
        self.go(selector)
        _down_to(self.browser, selector, value)

    def write(self, selector: str, text: str) -> None:
        self.go(selector)
        for letter in text:
            self.browser.press(letter)

    def slide(self, selector: str) -> None:
        self.go(selector)
        for _ in range(5):
            self.browser.press("ArrowLeft")


def _draw_lists_inside(browser: Browser) -> None:
    """Have the page draw its lists: Chromium draws them in a window of their own, where no click of ours arrives."""
    for domain in ("DOM", "CSS"):
        browser.ask(f"{domain}.enable")
    frame = browser.ask("Page.getFrameTree")["frameTree"]["frame"]["id"]
    sheet = browser.ask("CSS.createStyleSheet", frameId=frame)["styleSheetId"]
    rule = "select, ::picker(select) { appearance: base-select }"
    browser.ask("CSS.setStyleSheetText", styleSheetId=sheet, text=rule)


def _down_to(browser: Browser, selector: str, value: str) -> None:
    """Go down a list to a value."""
    of = f"document.querySelector({json.dumps(selector)})"
    place = f"[...{of}.options].findIndex(option => option.value === {json.dumps(value)}) - {of}.selectedIndex"
    for _ in range(browser.evaluate(place)):
        browser.press("ArrowDown")


# --- the story --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """`sfumato studio`, as somebody starts it."""

    origin: str
    file: Path
    folder: Path


@contextmanager
def started(table: Path) -> Iterator[Server]:
    folder = table.with_name("desk")
    command = [sys.executable, "-c", MAIN, "studio", table, "--folder", folder, "--no-browser", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            told = ""
            while not _is_whole(told):
                line = process.stdout.readline()
                assert line, f"the server has ended: {told}"
                told += line
            found = json.loads(told)
            yield Server(found["address"].rstrip("/"), Path(found["file"]), folder)
        finally:
            process.terminate()
            process.wait(30)


def _is_whole(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def a_clinic(folder: Path, rows: int = 2000) -> Path:
    """Write people with names, ages, sexes, regions and a finding as CSV."""
    table = clinic(rows)
    names = [SECRET if name == "diagnosis" else name for name in table.column_names]
    pc.write_csv(table.rename_columns(names), folder / "clinic.csv")
    return folder / "clinic.csv"


def story(hand: Hand, server: Server) -> str:
    """From the file that lets a browser in to an audited release; return how the hash of the signed plan begins."""
    browser = hand.browser
    browser.open(server.file, 1280)
    browser.wait("document.querySelector('main a.button[href=\"/roles\"]') !== null")
    assert browser.evaluate("location.href") == f"{server.origin}/table"  # the token is gone
    assert "2,000 rows, 6 columns" in browser.evaluate("document.querySelector('main').innerText")
    assert browser.evaluate("document.querySelectorAll('main table')[1].tBodies[0].rows.length") == 100
    hand.press('main a.button[href="/roles"]')
    _decide_roles(hand)
    _decide_requirement(hand)
    return _sign_and_audit(hand)


def _decide_roles(hand: Hand) -> None:
    browser = hand.browser
    arrived(browser, "/roles")
    assert browser.evaluate(STATE % "/roles") == "1 to decide"
    hand.choose(f"#role-{SECRET_NUMBER}", "sensitive")
    browser.wait(f"document.querySelector('#role-{SECRET_NUMBER}').value === 'sensitive'")
    browser.wait(f"document.querySelector('#preview-{SECRET_NUMBER} svg') !== null")  # how it would be published
    hand.press(f'input[name="{SECRET_NUMBER}.from_table"]')
    hand.press('form[action="/roles"] .actions button:not(.second)')
    browser.wait(f"{STATE % '/roles'} === 'secret: {SECRET}'")
    hand.press('main a[href="/requirement"]')


def _decide_requirement(hand: Hand) -> None:
    browser = hand.browser
    browser.wait("document.querySelector('#outcome .cost') !== null")  # the table was counted
    arrived(browser, "/requirement")
    before = browser.evaluate(COST)
    hand.slide('input[type=range][data-with="rho2"]')
    browser.wait(f"{COST} !== {json.dumps(before)}")
    chosen = browser.evaluate("document.getElementById('rho2').value")
    hand.press('input[name="from_table"]')
    hand.press('form[action="/requirement"] .actions button:not(.second)')
    browser.wait(f"document.getElementById('rho2')?.defaultValue === {chosen!r}")  # as the policy has it now
    browser.wait("document.querySelector('#outcome .cost') !== null")
    assert browser.evaluate("document.querySelector('input[name=from_table]')") is None
    hand.press('nav a[href="/sign"]')


def _sign_and_audit(hand: Hand) -> str:
    browser = hand.browser
    hand.press('form[action="/sign/prepare"] button')
    browser.wait("document.querySelector('input[name=accept]') !== null")
    signed = browser.evaluate("document.querySelector('main .panel code').textContent")
    for number in range(browser.evaluate("document.querySelectorAll('input[name=accept]').length")):
        hand.press(f'input[name=accept][value="{number}"]')
    hand.write("#name", "Ada Stone")
    hand.press('form[action="/sign/publish"] > button')
    browser.wait("document.querySelector('.verdict.fine')?.textContent.includes('Verified') === true")
    hand.press('main a.button[href="/audit"]')
    hand.press('form[action="/audit/run"] button')
    browser.wait("document.querySelector('.shelf .verdict') !== null")
    assert "above the promise" in browser.evaluate("document.querySelector('.verdict.fine').textContent")
    hand.press('form[action="/audit/report"] button')
    browser.wait("document.querySelector('a[download]') !== null")
    hand.press('header a[href="/commands"]')
    arrived(browser, "/commands")  # whole: its server ends next
    assert browser.evaluate("document.getElementById('shell') !== null")
    return str(signed)


STATE = "document.querySelector('nav a[href=\"%s\"] .state').textContent"
COST = "document.querySelector('#outcome .cost')?.textContent"


@pytest.mark.parametrize("kind", [Mouse, Keyboard])
def test_from_a_csv_file_to_a_signed_verified_and_audited_release(
    kind: type[Mouse | Keyboard], browser: Browser, tmp_path: Path
) -> None:
    with started(a_clinic(tmp_path)) as server:
        signed = story(kind(browser), server)
        shown = browser.evaluate("document.getElementById('shell').textContent").splitlines()
        fine(browser, server.origin, server.file.as_uri())
    release = open_release(server.folder / "release")
    assert release.verify().holds
    assert json.loads((server.folder / "sign-off.json").read_text())["name"] == "Ada Stone"
    assert (server.folder / "audit.json").exists()
    assert (server.folder / "report.html").exists()
    command = next(line for line in shown if line.startswith("sfumato plan "))
    subprocess.run([sys.executable, "-c", MAIN, *shlex.split(command)[1:]], check=True, cwd=tmp_path)
    again = json.loads((tmp_path / "plan.json").read_text())
    assert again == json.loads((server.folder / "plan.json").read_text())
    assert again["plan_hash"].startswith(signed)
    assert len(signed) == 12


# --- every page, as it is before and after the work -------------------------------------------------------------------

POLICY = """
version = 1
[columns.name]
role = "identifier"
[columns.age]
role = "quasi_identifier"
bins = {{ width = 10 }}
[columns.sex]
role = "quasi_identifier"
[columns.region]
role = "quasi_identifier"
[columns.education]
role = "other"
[columns.{secret}]
role = "sensitive"
[method]
name = "uniform"
[requirement]
rho1 = 0.25
rho2 = 0.6
"""


def work_through(at: At) -> None:
    """Do everything that a desk can do."""
    at.get("/requirement")
    for path in ("/sign/prepare", "/compare/run"):
        assert at.post(path).status == 303
    shown = at.get("/sign")
    ticked = [("accept", str(number)) for number in range(shown.count('name="accept"'))]
    read = ("plan_hash", shown.split('name="plan_hash" value="')[1].split('"')[0])
    assert at.post("/sign/publish", read, *ticked, ("name", "Ada Stone"), ("output", "release")).status == 303
    for path in ("/audit/run", "/audit/report"):
        assert at.post(path).status == 303
    assert at.desk.jobs.last is not None
    assert at.desk.jobs.last.problem is None


@pytest.fixture(scope="module")
def desks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, At]]:
    """A desk without a table, one with a proposal, and one whose work is done."""
    chromium()
    folder = {name: tmp_path_factory.mktemp(name) for name in ("empty", "begun", "done")}
    with ExitStack() as opened:
        empty = opened.enter_context(desk_at(None, folder=folder["empty"]))
        begun = opened.enter_context(desk_at(a_clinic(folder["begun"])))
        done = opened.enter_context(desk_at(a_clinic(folder["done"]), POLICY.format(secret=SECRET)))
        for at in (begun, done):
            for path in ("/table", "/roles"):
                at.get(path)  # what is read then is not read while a page is looked at
        work_through(done)
        yield {"empty": empty, "begun": begun, "done": done}


def let_in(browser: Browser, at: At) -> str:
    """Give the browser the cookie of a server; return how its addresses begin."""
    name, _, value = at.site.cookie.partition("=")
    browser.ask("Network.setCookie", name=name, value=value, url=at.site.origin, httpOnly=True, sameSite="Strict")
    return at.site.origin


def on_screen(browser: Browser, width: int, theme: str) -> None:
    """Show the page that is open on another screen; nothing fades while it is looked at."""
    browser.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500)
    wanted = {"prefers-color-scheme": theme, "prefers-reduced-motion": "reduce"}
    features = [{"name": name, "value": value} for name, value in wanted.items()]
    browser.ask("Emulation.setEmulatedMedia", media="screen", features=features)


PAGES = (
    ("empty", "/table"),
    *(("begun", path) for path in ("/table", "/roles", "/requirement", "/compare", "/sign", "/audit", "/commands")),
    *(("done", path) for path in ("/table", "/roles", "/requirement", "/compare", "/sign", "/audit", "/commands")),
    ("done", "/journal"),
    ("done", "/nothing"),
)


@pytest.mark.parametrize(("name", "path"), PAGES)
def test_a_page_fits_every_screen_and_everybody_can_use_it(
    name: str, path: str, browser: Browser, desks: dict[str, At]
) -> None:
    if "SFUMATO_AXE" not in os.environ:
        pytest.skip("no axe-core here: name its script by SFUMATO_AXE")
    origin = let_in(browser, desks[name])
    browser.open(origin + path, 1280)
    found = []
    for width, theme in SCREENS:
        on_screen(browser, width, theme)
        beyond = browser.evaluate("document.documentElement.scrollWidth - innerWidth")
        told = [*violations(browser), *browser.evaluate(PALE), *([f"{beyond} px beyond"] if beyond > 0 else [])]
        found += [f"{width} {theme}: {text}" for text in told]
        browser.keep(f"{name}{path.replace('/', '-')}-{width}-{theme}")
    assert found == []
    if path == "/nothing":
        assert browser.evaluate("document.querySelector('.problem').innerText").startswith("There is no such page.")
    else:
        fine(browser, origin)


# --- what is hostile, what is undone, what moves, what is long --------------------------------------------------------


@pytest.mark.parametrize("path", ["/journal", "/commands"])
def test_long_lines_wrap_on_a_phone(path: str, browser: Browser, desks: dict[str, At]) -> None:
    origin = let_in(browser, desks["done"])
    browser.open(origin + path, 390)
    sideways = "[...document.querySelectorAll('main, main *')].filter(e => e.scrollWidth > e.clientWidth + 1"
    sideways += " && getComputedStyle(e).display !== 'inline').map(e => e.tagName + e.className)"
    assert browser.evaluate(sideways) == []
    fine(browser, origin)


SCRIPT, QUOTES, BRACES = "<script>alert(1)</script>", "\"a\" & 'b' <b>", "{{7*7}}"
FILE = "<img src=x onerror=alert(1)> {{7*7}} \"&'.csv"
HOSTILE_POLICY = f"""
version = 1
[columns.{json.dumps(SCRIPT)}]
role = "quasi_identifier"
[columns.{json.dumps(QUOTES)}]
role = "quasi_identifier"
[columns.{json.dumps(BRACES)}]
role = "sensitive"
[method]
name = "uniform"
[requirement]
rho1 = 0.3
rho2 = 0.6
"""


def test_names_and_values_that_look_like_code_stay_text(browser: Browser, tmp_path: Path) -> None:
    kinds = (SCRIPT, QUOTES, BRACES)
    lines = [[kinds[k % 3], kinds[k // 3 % 3], kinds[k // 9 % 3]] for k in range(540)]
    with desk_at(write_csv(tmp_path / FILE, kinds, lines), HOSTILE_POLICY) as at:
        at.get("/table")
        work_through(at)
        origin = let_in(browser, at)
        shown = {}
        for path in ("/table", "/roles", "/requirement", "/compare", "/sign", "/audit", "/commands", "/journal"):
            browser.open(origin + path, 1280)
            shown[path] = browser.evaluate("document.body.textContent")
            assert browser.evaluate("document.querySelector('header .file').textContent") == FILE
            assert browser.evaluate("[...document.scripts].map(e => e.getAttribute('src'))") == ["/static/studio.js"]
            assert browser.evaluate("document.querySelectorAll('img, main b, [onerror]').length") == 0
            fine(browser, origin)
        for path in ("/table", "/roles"):
            assert all(name in shown[path] for name in kinds), path
        for path in ("/requirement", "/sign", "/commands"):
            assert BRACES in shown[path], path
        browser.open(f"{origin}/requirement", 1280)
        browser.click('input[type=range][data-with="rho2"]')
        browser.wait("document.getElementById('outcome').dataset.shown !== undefined")
        assert SCRIPT in browser.evaluate("document.getElementById('outcome').textContent")
        assert browser.evaluate("document.querySelectorAll('main script, img').length") == 0
        fine(browser, origin)


def test_keys_undo_and_redo(browser: Browser, tmp_path: Path) -> None:
    with desk_at(a_clinic(tmp_path, 500), POLICY.format(secret=SECRET)) as at:
        at.get("/requirement")
        fields = [("kind", "rho"), ("method", "uniform"), ("rho1", "25"), ("rho2", "50")]
        assert at.post("/requirement", *fields).status == 303
        browser.open(f"{let_in(browser, at)}/requirement", 1280)
        browser.press("z", control=True)
        browser.wait("document.getElementById('rho2')?.defaultValue === '60'")
        arrived(browser, "/requirement")
        browser.press("z", shift=True, control=True)
        browser.wait("document.getElementById('rho2')?.defaultValue === '50'")
        fine(browser, at.site.origin)


def test_nothing_moves_for_those_who_asked_for_it(browser: Browser, desks: dict[str, At]) -> None:
    browser.open(f"{let_in(browser, desks['done'])}/table", 1280)
    lasting = """[...document.querySelectorAll('*')].map(e => getComputedStyle(e)).filter(
        s => parseFloat(s.transitionDuration) > 0 || s.animationName !== 'none').length"""
    assert browser.evaluate(lasting) > 0
    on_screen(browser, 1280, "light")
    assert browser.evaluate(lasting) == 0


def test_a_table_of_two_hundred_columns_can_be_used(browser: Browser, tmp_path: Path) -> None:
    names = [f"c{number:03}" for number in range(200)]
    lines = [[(row * (column + 3)) % 4 for column in range(200)] for row in range(60)]
    with desk_at(write_csv(tmp_path / "wide.csv", names, lines)) as at:
        at.get("/table")
        origin = let_in(browser, at)
        for width in (390, 1280):
            for path in ("/table", "/roles"):
                browser.open(origin + path, width)
                assert browser.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
        seen = "[...document.querySelectorAll('.column')].filter(e => e.checkVisibility()).length"
        assert browser.evaluate(seen) == 200
        hand = Keyboard(browser)
        hand.write("#find", "c17")
        assert browser.evaluate(seen) == 10
        browser.press("Enter")  # also without scripts: the server looks for them
        browser.wait("location.search === '?find=c17' && document.readyState === 'complete'")
        assert browser.evaluate("document.querySelectorAll('.column').length") == 10
        fine(browser, origin)
