"""Debian's headless Chromium, spoken to through pipes: what a page looks like, loads and complains of.

The network is blocked, in two ways: no name and no address but that of the loopback leads anywhere, and each request is
held until it is seen where it goes. One that would go elsewhere fails, and so does the test (`elsewhere`).
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--hide-scrollbars", "--remote-debugging-pipe", "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
)  # fmt: skip
HERE = ("127.0.0.1", "")
"""Hosts that may be asked: the loopback, and none at all, as of a file."""
KEYS = {
    "Tab": (9, ""), "Enter": (13, "\r"), " ": (32, " "), "Escape": (27, ""), "Home": (36, ""), "End": (35, ""),
    "ArrowLeft": (37, ""), "ArrowUp": (38, ""), "ArrowRight": (39, ""), "ArrowDown": (40, ""), "Backspace": (8, ""),
}  # fmt: skip
"""The codes of keys that write no letter, and what they write."""
SCREENS = tuple((width, theme) for width in (390, 768, 1280, 1600) for theme in ("light", "dark"))
"""A phone, a tablet, a desk and a wide desk, by day and by night."""
COMPLAINTS = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")


def chromium() -> str:
    """Return the browser. SFUMATO_BROWSER, if set, names it, and it is an error if it is missing; else tests skip."""
    named = os.environ.get("SFUMATO_BROWSER")
    found = shutil.which(named or "chromium")
    if named and not found:
        pytest.fail(f"SFUMATO_BROWSER is {named!r}, and there is no such program: install chromium")
    if not found:
        pytest.skip("no Chromium here: install it, or name one by SFUMATO_BROWSER")
    return found


@dataclass
class Browser:
    """One tab."""

    to: IO[bytes]
    back: IO[bytes]
    session: str = ""
    number: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    """The addresses outside of this machine that were asked for; nobody answered."""

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the DevTools protocol; keep the events that come before its answer."""
        number = self._send(method, parameters)
        while (message := self._message()).get("id") != number:
            self.events.append(message)
        assert "error" not in message, message
        return dict(message["result"])

    def _send(self, method: str, parameters: dict[str, Any]) -> int:
        self.number += 1
        call = {"id": self.number, "method": method, "params": parameters}
        self.to.write(json.dumps(call | ({"sessionId": self.session} if self.session else {})).encode() + b"\0")
        self.to.flush()
        return self.number

    def _message(self) -> dict[str, Any]:
        text = bytearray()
        while (letter := self.back.read(1)) != b"\0":
            assert letter, "the browser has ended"
            text += letter
        message = dict(json.loads(text))
        if message.get("method") == "Fetch.requestPaused":
            self._let_go(message["params"])
        return message

    def _let_go(self, held: dict[str, Any]) -> None:
        """Let a request go on to this machine; let any other fail."""
        address, which = held["request"]["url"], {"requestId": held["requestId"]}
        if (urlsplit(address).hostname or "") in HERE:
            self._send("Fetch.continueRequest", which)
        else:
            self.elsewhere.append(address)
            self._send("Fetch.failRequest", which | {"errorReason": "BlockedByClient"})

    def attach(self) -> None:
        """Open the tab."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Log", "Runtime", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Fetch.enable", patterns=[{"urlPattern": "*"}])

    def open(self, page: Path | str, width: int, theme: str = "light", media: str = "screen") -> None:
        """Load a page, of a file or an address, as a screen of this width, or paper, shows it."""
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500)
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.ask("Emulation.setEmulatedMedia", media=media, features=features)
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message())

    def evaluate(self, script: str) -> Any:
        """Return what a script gives; the page's own rules against scripts do not hold for it."""
        return self.ask("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait(self, condition: str, seconds: float = 90) -> None:
        """Wait until a script gives true; pages may be loaded meanwhile."""
        end = time.monotonic() + seconds
        while self.evaluate(condition) is not True:
            assert time.monotonic() < end, f"{condition} did not come true: {self.evaluate('document.body.innerText')}"
            time.sleep(0.05)

    def wait_for(self, selector: str) -> None:
        """Wait until an element is there and stays where it is: styles and scripts have been loaded."""
        self.wait(f"document.readyState === 'complete' && document.querySelector({json.dumps(selector)}) !== null")

    def click(self, selector: str) -> None:
        """Click at the middle of an element, as a hand would: what covers it gets the click."""
        self.wait_for(selector)
        script = (
            f"(e => {{ e.scrollIntoView({{block: 'center', behavior: 'instant'}}); const r = e.getBoundingClientRect();"
            f"return [r.x + Math.min(r.width / 2, 200), r.y + r.height / 2]; }})"
            f"(document.querySelector({json.dumps(selector)}))"
        )
        x, y = self.evaluate(script)
        for kind in ("mousePressed", "mouseReleased"):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def write(self, text: str) -> None:
        """Type a text into what has the focus."""
        self.ask("Input.insertText", text=text)

    def press(self, key: str, *, shift: bool = False, control: bool = False) -> None:
        """Press a key."""
        code, text = KEYS[key] if key in KEYS else (ord(key.upper()), key)
        pressed = {"key": key, "windowsVirtualKeyCode": code, "modifiers": 8 * shift + 2 * control}
        written = {"text": text} if text and not control else {}
        self.ask("Input.dispatchKeyEvent", type="keyDown", **pressed, **written)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    def complaints(self) -> list[str]:
        """Return what the console said."""
        self.evaluate("0")  # all earlier events have come by then
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in COMPLAINTS]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def keep(self, name: str) -> None:
        """Write the whole page as PNG into the folder that SFUMATO_SCREENSHOTS names, for people to look at."""
        if folder := os.environ.get("SFUMATO_SCREENSHOTS"):
            picture = self.ask("Page.captureScreenshot", captureBeyondViewport=True)["data"]
            (Path(folder) / f"{name}.png").write_bytes(base64.b64decode(picture))


@contextmanager
def browsing() -> Iterator[Browser]:
    """Give a browser with a new, empty profile."""
    program = chromium()
    down, up = os.pipe(), os.pipe()  # to the browser's descriptor 3, and from its descriptor 4
    script = f'exec "$0" "$@" 3<&{down[0]} 4>&{up[1]}'
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = subprocess.Popen(
            ["bash", "-c", script, program, *FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(down[0], up[1]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(down[0])
        os.close(up[1])
        with os.fdopen(down[1], "wb") as to, os.fdopen(up[0], "rb") as back:
            browser = Browser(to, back)
            try:
                browser.attach()
                yield browser
                assert browser.elsewhere == []
                browser.session = ""
                browser.ask("Browser.close")
            finally:
                process.terminate()
                process.wait(30)
