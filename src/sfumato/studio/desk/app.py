"""The application of a desk: its pages, and what all of them have."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sfumato.studio.desk import audit, commands, compare, requirement, roles, sign, table
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.steps import Step, desk_of
from sfumato.studio.web.pages import application, form, go, page


def desk_app(desk: Desk, csrf: str) -> ASGIApp:
    """Return the pages of a desk."""
    return application(ROUTES, csrf, {"desk": desk, "steps": steps, "accept": sign.to_accept}, desk.jobs.cancel)


def steps(desk: Desk) -> Iterator[Step]:
    """Give the steps of the story, in their order."""
    yield from (each.step(desk) for each in (table, roles, requirement, compare, sign, audit))


def start(request: Request) -> Response:
    """Lead to the table."""
    return go("/table")


def undo(request: Request) -> Response:
    """Go back to the policy before."""
    desk_of(request).workspace.undo()
    return go(_back(request))


def redo(request: Request) -> Response:
    """Take back an undo."""
    desk_of(request).workspace.redo()
    return go(_back(request))


def cancel(request: Request) -> Response:
    """End the job."""
    desk_of(request).jobs.cancel()
    return go(_back(request))


def job(request: Request) -> Response:
    """Show how far the job is."""
    return page(request, "job.html")


def journal(request: Request) -> Response:
    """Show what was done."""
    return page(request, "journal.html", lines=desk_of(request).workspace.journal())


def _back(request: Request) -> str:
    """Return the page of ours that a form came from."""
    path = form(request).get("back", "/")
    return path if path.startswith("/") and not path.startswith("//") else "/"


ROUTES = (
    Route("/", start),
    Route("/undo", undo, methods=["POST"]),
    Route("/redo", redo, methods=["POST"]),
    Route("/cancel", cancel, methods=["POST"]),
    Route("/job", job),
    Route("/journal", journal),
    *table.ROUTES,
    *roles.ROUTES,
    *requirement.ROUTES,
    *compare.ROUTES,
    *sign.ROUTES,
    *audit.ROUTES,
    *commands.ROUTES,
)
