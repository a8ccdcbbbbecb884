"""The steps of the story, and how far each of them is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from sfumato.studio.desk.desk import Desk

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
