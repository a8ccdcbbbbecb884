"""The application of a desk: its pages, and what all of them have."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sfumato.errors import SfumatoError
from sfumato.studio.desk import audit, commands, compare, requirement, roles, sign, table
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.steps import Step, changing, desk_of
from sfumato.studio.web.pages import application, form, go, page


def desk_app(desk: Desk, csrf: str) -> ASGIApp:
    """Return the pages of a desk."""
    shared = {"desk": desk, "steps": steps, "accept": sign.to_accept}
    return application(ROUTES, csrf, shared, problem="desk_problem.html", on_end=desk.jobs.cancel)


def steps(desk: Desk) -> Iterator[Step]:
    """Give the steps of the story, in their order; one whose files are damaged does not take the others along."""
    for each in (table, roles, requirement, compare, sign, audit):
        try:
            yield each.step(desk)
        except SfumatoError:
            yield Step(each.NAME, each.PATH, "a file is damaged", "bad")


def start(request: Request) -> Response:
    """Lead to the table."""
    return go("/table")


def undo(request: Request) -> Response:
    """Go back to the policy before."""
    with changing(request) as desk:
        desk.workspace.undo()
    return go(_back(request))


def redo(request: Request) -> Response:
    """Take back an undo."""
    with changing(request) as desk:
        desk.workspace.redo()
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
    workspace = desk_of(request).workspace
    return page(request, "journal.html", lines=workspace.journal(), unread=workspace.unread_lines())


def _back(request: Request) -> str:
    """Return the page of ours that a form came from; a page may be the answer to a form, below its own path."""
    path = form(request).get("back", "/")
    return f"/{path.split('/')[1]}" if path.startswith("/") else "/"


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
