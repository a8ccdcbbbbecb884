"""Signals that ask the command to end. Nothing that takes time is loaded here."""

from __future__ import annotations

import signal

TYPE_CHECKING = False  # as type checkers know it: `typing` takes longer to load than all else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

INTERRUPTED = 128 + 2
"""The exit code."""
NOTHING_PUBLISHED = "Interrupted: nothing was published."


def handle_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    """Let polite signals, and ctrl-C, be handled so."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        # one that is ignored stays so: nohup asks for it
        if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) is not signal.SIG_IGN:
            signal.signal(getattr(signal, name), handler)
