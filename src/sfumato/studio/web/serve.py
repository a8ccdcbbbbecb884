"""A server for one user on 127.0.0.1: it starts on a free port, opens the browser, and ends with the terminal."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import tempfile
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from sfumato.errors import UsageError
from sfumato.show.private import write_private
from sfumato.studio.web.guard import ENTER, Guard, Keys

LOOPBACK = "127.0.0.1"
PATIENCE = 20
"""Seconds in which a connection must make a request. A browser's takes less than one."""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>sfumato studio</title>
<meta http-equiv="refresh" content="0; url={address}">
<p>Opening the studio. If nothing happens, <a href="{address}">open it here</a>. This link works once.</p></html>
"""


@dataclass(frozen=True)
class Opened:
    """Where a server is."""

    address: str
    file: Path  # lets a browser in that opens it
    browsing: bool  # whether a browser was opened


def serve(
    make_app: Callable[[str], ASGIApp], announce: Callable[[Opened], None], *, port: int = 0, browse: bool = True
) -> None:
    """Serve an application until the terminal ends it. `make_app` gets the CSRF token that its pages repeat.

    `announce` is told where it is, once browsers can come.

    The token that lets the browser in is in a file that only the user can read, and in no process list and no log.
    """
    with listening(port) as listener, tempfile.TemporaryDirectory(prefix="sfumato-studio-") as folder:
        taken = listener.getsockname()[1]
        file = Path(folder) / "open.html"
        keys = Keys(lambda token: write_private(file, page_to_enter(taken, token)))
        app = Guard(make_app(keys.csrf), keys, taken)
        server = server_of(app)
        announce(Opened(f"http://{LOOPBACK}:{taken}/", file, browse and webbrowser.open(file.as_uri())))
        _end_with_terminal(server)
        with suppress(KeyboardInterrupt):  # ctrl-C is how it ends
            server.run(sockets=[listener])


def server_of(app: ASGIApp) -> uvicorn.Server:
    """Return a server that says nothing but what the application says."""
    return uvicorn.Server(
        uvicorn.Config(
            app, http=Impatient, log_config=None, access_log=False, server_header=False, ws="none", lifespan="on"
        )
    )


class Impatient(H11Protocol):
    """Connections that are closed where nothing comes but the beginning of a request: they would be open for ever."""

    _asked: object = None
    """The last request that was whole when we looked."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look after a connection."""
        super().connection_made(transport)
        self.loop.call_later(PATIENCE, self._look)

    def _look(self) -> None:
        """Close the connection if nothing was asked since we looked last, and nothing is being answered."""
        if self.transport.is_closing():
            return
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered and self.cycle is self._asked:
            self.transport.close()
            return
        self._asked = self.cycle if is_answered else None  # its browser gets the whole time for what follows
        self.loop.call_later(PATIENCE, self._look)


def listening(port: int) -> socket.socket:
    """Return a socket that listens on the loopback alone."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((LOOPBACK, port))
        listener.listen(128)  # a browser that is quicker than the server waits
    except (OSError, OverflowError) as problem:
        listener.close()
        why = os.strerror(problem.errno or 0) if isinstance(problem, OSError) else "ports are numbers up to 65535"
        raise UsageError(f"Port {port} cannot be used: {why}.", "Leave --port out: a free one is taken.") from None
    return listener


def page_to_enter(port: int, token: str) -> str:
    """Return the page that takes a browser to the studio."""
    return PAGE.format(address=f"http://{LOOPBACK}:{port}{ENTER}?token={token}")


def _end_with_terminal(server: uvicorn.Server) -> None:
    """End the server when its terminal is closed; uvicorn itself ends with ctrl-C and a polite kill."""

    def end(number: int, frame: FrameType | None) -> None:
        server.should_exit = True

    # one that is ignored stays so: nohup asks for it
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, end)
