"""Who may ask: a page here shows private counts, and every site in the user's browser can send requests to it.

A request is answered only if all of these hold; each violation is answered 403.

Host             it names this server by a loopback name and its port: a foreign name that points here does not
Origin           where there is one, it is this server; every change must have one
Sec-Fetch-Site   where the browser tells, the request comes from this site or from the address bar
cookie           it was given for a token, which works once and stands in a file that only the user can read
CSRF token       every change repeats a token that only our own pages hold

Secrets are compared in constant time. Answers forbid whatever a page does not need: scripts of others, inline scripts,
frames, to be kept in a cache.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl

from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

ENTER = "/enter"
"""Where a token is exchanged for a cookie."""
MOST_BYTES = 64 << 20
"""Of what a request may bring: small tables can be dropped on the page."""
MOST_OF_FORM, MOST_FIELDS = 16 << 20, 500_000
"""Bytes and fields of a form: to take apart as many as there is room for would take gigabytes, and a minute."""
FORM = "application/x-www-form-urlencoded"
CSRF_FIELD, CSRF_HEADER = "csrf", "x-csrf-token"
CHANGING = ("POST",)
READING = ("GET", "HEAD")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
ENTERED = (
    '<!doctype html><html lang="en"><title>sfumato</title><link rel="icon" href="data:,">'
    '<meta http-equiv="refresh" content="0; url=/">'
)
"""A page of our own that leads on: a cookie that is strict does not go with a redirect that began elsewhere."""


class Keys:
    """The secrets of one server: a token that works once, the cookie that it is exchanged for, and the CSRF token."""

    def __init__(self, on_new_token: Callable[[str], None]) -> None:
        self.cookie, self.csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self._renewed = on_new_token
        self._renew()

    def _renew(self) -> None:
        self._token = secrets.token_urlsafe(32)
        self._renewed(self._token)

    def enters(self, token: str) -> bool:
        """Whether this is the token; it is used up then, and the next one is made."""
        found = _equal(token, self._token)
        if found:
            self._renew()
        return found


class Guard:
    """Asks every request for what it must have, before the application sees it."""

    def __init__(self, app: ASGIApp, keys: Keys, port: int) -> None:
        self.app, self.keys = app, keys
        self.cookie_name = f"sfumato-{port}"
        self.hosts = frozenset(f"{name}:{port}" for name in ("127.0.0.1", "localhost"))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no page of ours opens a web socket
            await send({"type": "websocket.close", "code": 1008})
            return
        send = _with_headers(send)
        if refusal := self._refusal(scope):
            await _forbidden(refusal)(scope, receive, send)
        elif scope["path"] == ENTER:
            await self._enter(scope, receive, send)
        elif not self._has_cookie(scope):
            await _forbidden("this browser has not been let in. Open the file that the terminal names")(
                scope, receive, send
            )
        elif scope["method"] in CHANGING:
            await self._change(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str:
        """Return why a request is not one of our own pages; nothing if it can be."""
        headers = Headers(scope=scope)
        hosts, origins = headers.getlist("host"), headers.getlist("origin")
        if len(hosts) != 1 or hosts[0].lower() not in self.hosts:
            return "the request names another host"
        is_change = scope["method"] in CHANGING
        if scope["method"] not in (*CHANGING, *READING):
            return "the request is of a kind that no page here sends"
        if is_change and not origins:
            return "a change must say from which page it comes"
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return "the request comes from a page of another site"
        # the file with the token is no page of this site: nothing but the token lets it in
        usual = ("same-origin",) if is_change else ("same-origin", "none")
        allowed = (*usual, "cross-site", "same-site") if scope["path"] == ENTER else usual
        if any(site not in allowed for site in headers.getlist("sec-fetch-site")):
            return "the request comes from a page of another site"
        return ""

    async def _enter(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(parse_qsl(scope["query_string"].decode("latin-1"))).get("token", "")
        if scope["method"] != "GET" or not self.keys.enters(given):
            response: Response = _forbidden("the token is missing, wrong, or was used before. Open the file again")
        else:
            response = HTMLResponse(ENTERED)
            response.set_cookie(self.cookie_name, self.keys.cookie, httponly=True, samesite="strict", path="/")
        await response(scope, receive, send)

    def _has_cookie(self, scope: Scope) -> bool:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load("; ".join(Headers(scope=scope).getlist("cookie")))
        except CookieError:
            return False
        found = cookies.get(self.cookie_name)
        return found is not None and _equal(found.value, self.keys.cookie)

    async def _change(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a change through that repeats the CSRF token, in its form or in a header; its body is read here."""
        body = await _body(receive)
        if body is None:
            too_much = f"At most {MOST_BYTES >> 20} MB can be sent. Give the path of a larger table instead."
            await PlainTextResponse(too_much, 413)(scope, receive, send)
            return
        headers = Headers(scope=scope)
        is_form = headers.get("content-type", "").split(";")[0] == FORM
        form = _fields(body) if is_form else []
        if form is None:
            too_much = f"At most {MOST_FIELDS:,} fields of {MOST_OF_FORM >> 20} MB together can be sent."
            await PlainTextResponse(too_much, 413)(scope, receive, send)
            return
        given = headers.get(CSRF_HEADER) or dict(form).get(CSRF_FIELD, "")
        if not _equal(given, self.keys.csrf):
            await _forbidden("the change has no valid token of a page of this server. Load the page again")(
                scope, receive, send
            )
            return
        scope.setdefault("state", {}).update(form=[pair for pair in form if pair[0] != CSRF_FIELD], body=body)
        await self.app(scope, _replayed(body), send)


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(), secret.encode())


def _forbidden(why: str) -> PlainTextResponse:
    return PlainTextResponse(f"Forbidden: {why}.\n", 403)


def _with_headers(send: Send) -> Send:
    """Give every answer the headers that forbid what our pages do not need."""
    ours: Iterable[tuple[bytes, bytes]] = [(name.encode(), value.encode()) for name, value in HEADERS.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            named = {name for name, _ in ours}
            kept = [(name, value) for name, value in message.get("headers", []) if name.lower() not in named]
            message = {**message, "headers": [*kept, *ours]}
        await send(message)

    return sending


async def _body(receive: Receive) -> bytes | None:
    """Return what a request brings; None if it is too much."""
    found = bytearray()
    while True:
        message = await receive()
        found += message.get("body", b"")
        if len(found) > MOST_BYTES or message["type"] == "http.disconnect":
            return None
        if not message.get("more_body"):
            return bytes(found)


def _fields(body: bytes) -> list[tuple[str, str]] | None:
    """Return the fields of a form; None if it is too much."""
    if len(body) > MOST_OF_FORM or body.count(b"&") >= MOST_FIELDS:
        return None
    return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)


def _replayed(body: bytes) -> Receive:
    """Give the body once more, then nothing."""
    left = [body]

    async def receive() -> Message:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        return {"type": "http.disconnect"}

    return receive
