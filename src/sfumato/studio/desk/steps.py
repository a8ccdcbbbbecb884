"""The steps of the story, and how far each of them is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from sfumato.studio.desk.desk import Desk
from sfumato.studio.web.pages import form

Kind = Literal["fine", "open", "bad", ""]


@dataclass(frozen=True)
class Step:
    """A step as the page lists it."""

    name: str
    path: str
    state: str
    kind: Kind


def desk_of(request: Request) -> Desk:
    """Return the desk that a page is of."""
    found: Desk = request.app.state.shared["desk"]
    return found


SEEN = "seen"
"""The field of every form with the name of the policy that its page was made from."""


@contextmanager
def changing(request: Request) -> Iterator[Desk]:
    """Give the desk for a change; raise, so that nothing is changed, if its page was made from an earlier policy."""
    desk = desk_of(request)
    with desk.workspace.changing(form(request).get(SEEN)):
        yield desk


def seen_desk(request: Request) -> Desk:
    """Return the desk for what is only shown; raise if the page of the form was made from an earlier policy."""
    with changing(request) as desk:
        return desk
