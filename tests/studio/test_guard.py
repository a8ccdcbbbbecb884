"""Who may ask: every way in that is not our own page is answered 403, and every answer forbids what we do not need."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sfumato.studio.web import serve
from sfumato.studio.web.guard import FORM, MOST_BYTES, MOST_FIELDS, MOST_OF_FORM
from sfumato.studio.web.pages import application, form
from tests.constants import set_constants
from tests.studio.served import Served, served


def _told(request: Request) -> Response:
    return PlainTextResponse(str(sorted(form(request).items())) if request.method == "POST" else "the page")


def _site() -> AbstractContextManager[Served]:
    return served(lambda csrf: application([Route("/page", _told, methods=["GET", "POST"])], csrf, {}))


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with _site() as found:
        yield found


def test_our_own_page_and_its_form_are_answered(site: Served) -> None:
    assert site.get("/page").text == "the page"
    assert site.get("/page", sec_fetch_site="none").status == 200  # typed into the address bar
    assert site.get("/page", host=f"localhost:{site.port}").status == 200
    assert site.post("/page", [("a", "1")]).text == "[('a', '1')]"  # the token of the form is not passed on


def test_answers_forbid_what_our_pages_do_not_need(site: Served) -> None:
    for path in ("/page", "/static/studio.css", "/nothing"):
        headers = site.get(path).headers
        policy = headers["content-security-policy"]
        assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:")
        assert "unsafe" not in policy
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "server" not in headers


FOREIGN_HOSTS = (
    "evil.example", "evil.example:{port}", "[::1]:{port}", "127.0.0.1", "127.0.0.1:1", "localhost", "0.0.0.0:{port}",
    "127.0.0.1.evil.example:{port}", "127.0.0.2:{port}", "user@127.0.0.1:{port}", "",
)  # fmt: skip


@pytest.mark.parametrize("host", FOREIGN_HOSTS)
def test_a_foreign_host_is_forbidden(site: Served, host: str) -> None:
    assert site.get("/page", host=host.format(port=site.port)).status == 403


def test_two_hosts_are_forbidden(site: Served) -> None:
    with socket.create_connection(("127.0.0.1", site.port)) as connection:
        lines = ["GET /page HTTP/1.1", f"Host: 127.0.0.1:{site.port}", "Host: evil.example", f"Cookie: {site.cookie}"]
        connection.sendall(("\r\n".join([*lines, "Connection: close", "", ""])).encode())
        assert connection.recv(1 << 16).split()[1] in (b"400", b"403")


FOREIGN_ORIGINS = (
    "http://evil.example",
    "null",
    "http://127.0.0.1:1",
    "https://127.0.0.1:{port}",
    "http://[::1]:{port}",
)


@pytest.mark.parametrize("origin", FOREIGN_ORIGINS)
def test_a_foreign_origin_is_forbidden(site: Served, origin: str) -> None:
    stated = origin.format(port=site.port)
    assert site.post("/page", origin=stated).status == 403
    assert site.get("/page", origin=stated).status == 403


def test_a_change_must_have_an_origin(site: Served) -> None:
    assert site.post("/page", origin=None).status == 403


@pytest.mark.parametrize("where", ["cross-site", "same-site", "anything"])
def test_a_request_of_another_site_is_forbidden(site: Served, where: str) -> None:
    assert site.get("/page", sec_fetch_site=where).status == 403
    assert site.post("/page", sec_fetch_site=where).status == 403


def test_a_change_from_the_address_bar_is_forbidden(site: Served) -> None:
    assert site.post("/page", sec_fetch_site="none").status == 403


def test_without_the_cookie_nothing_is_shown(site: Served) -> None:
    name, value = site.cookie.split("=", 1)
    wrong = (None, "", f"{name}=", f"{name}={value[:-1]}", f"{name}={value}x", f"other={value}", "=;=;", '\x01="')
    for cookie in wrong:
        assert site.get("/page", cookie=cookie).status == 403, cookie
        assert site.get("/static/studio.js", cookie=cookie).status == 403, cookie
        assert site.post("/page", cookie=cookie).status == 403, cookie


def test_the_cookie_is_for_this_server_and_no_script(site: Served) -> None:
    answer = site.ask("GET", f"/enter?token={site.tokens[-1]}")
    name, *rules = answer.headers["set-cookie"].split("; ")
    assert name.startswith(f"sfumato-{site.port}=")
    assert {rule.lower() for rule in rules} == {"httponly", "path=/", "samesite=strict"}
    assert "url=/" in answer.text
    assert site.tokens[-2] not in answer.text  # nothing leads back to the token


def test_a_token_works_once(site: Served) -> None:
    used = site.tokens[-1]
    assert site.ask("GET", f"/enter?token={used}").status == 200
    assert site.tokens[-1] != used
    for token in (used, "", "wrong", used[:-1], site.tokens[-1][:-1]):
        answer = site.ask("GET", f"/enter?token={token}")
        assert answer.status == 403
        assert "set-cookie" not in answer.headers
    assert site.ask("GET", "/enter").status == 403


def test_a_change_needs_the_token_of_our_pages(site: Served) -> None:
    own = {"cookie": site.cookie, "origin": site.origin, "content_type": "application/x-www-form-urlencoded"}
    for body in ("", "csrf=", "csrf=wrong", f"csrf={site.keys.csrf}x", f"other={site.keys.csrf}"):
        assert site.ask("POST", "/page", body, **own).status == 403, body
    assert site.ask("POST", "/page", b"any bytes", **own, x_csrf_token=site.keys.csrf).status == 200
    assert site.ask("POST", "/page", f"csrf={site.keys.csrf}", **{**own, "content_type": "text/plain"}).status == 403


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_no_other_kind_of_request_is_taken(site: Served, method: str) -> None:
    assert site.ask(method, "/page", cookie=site.cookie, origin=site.origin).status == 403


def test_too_much_is_refused_before_it_is_kept(site: Served) -> None:
    headers = {"cookie": site.cookie, "origin": site.origin, "x_csrf_token": site.keys.csrf}
    answer = site.ask("POST", "/page", b"x" * (MOST_BYTES + 1), **headers)
    assert answer.status == 413


@pytest.mark.parametrize("body", ["a&" * (MOST_FIELDS + 1), "a=" + "x" * (MOST_OF_FORM + 1)])
def test_a_form_that_would_take_long_to_read_is_refused(site: Served, body: str) -> None:
    """One of 60 MB with as many fields as it can have took 2.6 GB and a minute, in which nobody was answered."""
    headers = {"cookie": site.cookie, "origin": site.origin, "content_type": FORM, "x_csrf_token": site.keys.csrf}
    assert site.ask("POST", "/page", body, **headers).status == 413
    assert site.post("/page", [("a", "1")] * 10_000).status == 200


def test_files_outside_of_the_static_ones_are_not_given(site: Served) -> None:
    for path in ("/static/../guard.py", "/static/%2e%2e/guard.py", "/static//etc/passwd", "/static/..%2fserve.py"):
        assert site.get(path).status == 404


def test_the_server_listens_on_the_loopback_alone(site: Served) -> None:
    for family, address in ((socket.AF_INET6, "::1"), (socket.AF_INET, "127.0.0.2")):
        with socket.socket(family) as outside, pytest.raises(ConnectionRefusedError):
            outside.connect((address, site.port))


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="has no such signal")
@pytest.mark.parametrize("ignored", [False, True])
def test_a_studio_ends_with_its_terminal_unless_that_is_ignored(ignored: bool) -> None:
    """As `nohup` asks."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        server = serve.server_of(application([], "", {}))
        serve._end_with_terminal(server)
        signal.raise_signal(signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert server.should_exit != ignored


@pytest.mark.parametrize("begun", [b"", b"GET /page HTTP/1.1\r\nhost: x\r\n", b"one answer first"])
def test_a_connection_that_asks_nothing_is_closed(begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.studio.web", PATIENCE=0.2)
    whole = b"GET /page HTTP/1.1\r\nhost: x\r\n\r\n"
    with _site() as site, socket.create_connection(("127.0.0.1", site.port), timeout=30) as waiting:
        if begun == b"one answer first":
            waiting.sendall(whole)
            assert b"403" in waiting.recv(1 << 16)
            begun = whole[:20]
        waiting.sendall(begun)
        while waiting.recv(1 << 16):  # ends when the server closes the connection, or by the timeout with an error
            pass
        assert site.get("/page").status == 200


def test_an_answer_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.studio.web", PATIENCE=0.1)
    slow = Route("/slow", lambda request: (time.sleep(1), PlainTextResponse("the page"))[1])
    with served(lambda csrf: application([slow], csrf, {})) as site:
        assert site.get("/slow").text == "the page"


def test_a_second_studio_is_not_driven_by_what_the_first_one_gave(site: Served) -> None:
    """Cookies know no ports: a browser sends those of one studio to the other, too."""
    with _site() as other:
        assert site.cookie.split("=")[0] != other.cookie.split("=")[0]  # neither takes the other's place in a browser
        renamed = f"{other.cookie.split('=')[0]}={site.cookie.split('=')[1]}"
        for cookie in (site.cookie, renamed):
            assert other.get("/page", cookie=cookie).status == 403
            assert other.post("/page", cookie=cookie).status == 403
        both = f"{site.cookie}; {other.cookie}"
        assert other.get("/page", cookie=both).status == 200
        foreign = {"cookie": both, "origin": other.origin, "x_csrf_token": site.keys.csrf}
        assert other.ask("POST", "/page", b"", **foreign).status == 403
        assert other.post("/page", cookie=both, origin=site.origin).status == 403
        assert other.get("/page", cookie=both, sec_fetch_site="same-site").status == 403  # a page of the first one asks
        assert other.ask("GET", f"/enter?token={site.tokens[-1]}").status == 403
