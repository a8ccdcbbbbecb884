"""Where the command begins: signals end it quietly before anything that takes time is loaded.

What Python does before this module is loaded cannot be changed from here: its own start, what an installation lets it
run (`site`), the first lines of the script `sfumato`. A signal that comes there ends as Python ends.
"""

from __future__ import annotations

import os

from sfumato.cli.signals import INTERRUPTED, NOTHING_PUBLISHED, handle_signals

TYPE_CHECKING = False  # as in `signals`
if TYPE_CHECKING:
    from types import FrameType

STANDARD_ERROR = 2


def main() -> None:
    """Run the command line."""
    handle_signals(_end)
    from sfumato.cli.main import main as run

    run()


def _end(number: int, frame: FrameType | None) -> None:
    """End at once: nothing was begun, and a module that is being loaded may make another error of an exception."""
    try:
        os.write(STANDARD_ERROR, f"{NOTHING_PUBLISHED}\n".encode())
    finally:
        os._exit(INTERRUPTED)
