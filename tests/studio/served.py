"""A page of the studio that is served on the loopback, and asked as a browser would."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlencode

from starlette.types import ASGIApp

from sfumato.studio.web.guard import FORM, Guard, Keys
from sfumato.studio.web.serve import listening, server_of

Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answered:
    """What came back."""

    status: int
    headers: dict[str, str]
    text: str


@dataclass
class Served:
    """A server, and a browser that was let in."""

    port: int
    keys: Keys
    tokens: list[str]
    cookie: str = field(default="", repr=False)

    @property
    def origin(self) -> str:
        """How our own pages name themselves."""
        return f"http://127.0.0.1:{self.port}"

    def ask(self, method: str, path: str, body: bytes | str | None = None, **headers: str | None) -> Answered:
        """Send a request with just these headers; `_` in a name is `-`, and None leaves one out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, path, skip_host="host" in headers, skip_accept_encoding=True)
            content = body.encode() if isinstance(body, str) else body
            if content is not None:
                connection.putheader("content-length", str(len(content)))
            for name, value in headers.items():
                if value is not None:
                    connection.putheader(name.replace("_", "-"), value)
            connection.endheaders(content)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answered(answer.status, found, answer.read().decode("utf-8", "replace"))
        finally:
            connection.close()

    def enter(self) -> None:
        """Exchange the token for the cookie."""
        answer = self.ask("GET", f"/enter?token={self.tokens[-1]}", sec_fetch_site="cross-site")
        assert answer.status == 200, answer
        self.cookie = answer.headers["set-cookie"].split(";")[0]

    def get(self, path: str, **headers: str | None) -> Answered:
        """Load a page."""
        return self.ask("GET", path, **{"cookie": self.cookie, "sec_fetch_site": "same-origin", **headers})

    def post(self, path: str, fields: Pairs = (), **headers: str | None) -> Answered:
        """Send a form of ours."""
        body = urlencode([("csrf", self.keys.csrf), *fields])
        usual = {"cookie": self.cookie, "origin": self.origin, "sec_fetch_site": "same-origin", "content_type": FORM}
        return self.ask("POST", path, body, **{**usual, **headers})


@contextmanager
def served(make_app: Callable[[str], ASGIApp]) -> Iterator[Served]:
    """Serve an application in a thread, and let a browser in."""
    tokens: list[str] = []
    keys = Keys(tokens.append)
    with listening(0) as listener:
        port = listener.getsockname()[1]
        app = Guard(make_app(keys.csrf), keys, port)
        server = server_of(app)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        found = Served(port, keys, tokens)
        found.enter()
        try:
            yield found
        finally:
            server.should_exit = True
            thread.join()
