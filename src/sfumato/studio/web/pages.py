"""Pages: templates in which every value is text, forms as they were sent, and errors that say what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import BaseRoute, Mount
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from sfumato.errors import SfumatoError

STATIC = Path(__file__).parent / "static"


@cache
def environment() -> Environment:
    """Return the templates of both pages; each value is escaped, and a name that is missing is an error."""
    rooms = ("web", "desk", "analyst")
    loader = ChoiceLoader([PackageLoader("sfumato.studio", f"{room}/templates") for room in rooms])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def application(
    routes: Iterable[BaseRoute], csrf: str, shared: Mapping[str, Any], on_end: Callable[[], None] | None = None
) -> ASGIApp:
    """Return an application of these routes. `shared`: what all its templates may use; `on_end`: called at its end."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        yield
        if on_end is not None:
            on_end()

    static = Mount("/static", StaticFiles(directory=STATIC))
    app = Starlette(
        routes=[*routes, static],
        exception_handlers={SfumatoError: _told, HTTPException: _not_found},  # type: ignore[dict-item]
        lifespan=lifespan,
    )
    app.state.csrf, app.state.shared = csrf, dict(shared)
    return app


def page(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page, or a part of one, made of a template."""
    state = request.app.state
    text = environment().get_template(template).render(csrf=state.csrf, path=request.url.path, **state.shared, **values)
    return HTMLResponse(text, status)


def go(path: str) -> RedirectResponse:
    """Lead on after a change, so that a reload does not repeat it."""
    return RedirectResponse(path, 303)


def form(request: Request) -> dict[str, str]:
    """Return the fields of a form, the last of each name."""
    return dict(request.state.form)


def listed(request: Request, name: str) -> list[str]:
    """Return all values of a field that may be sent several times."""
    return [value for field, value in request.state.form if field == name]


def is_fragment(request: Request) -> bool:
    """Whether a script of ours asks for a part of a page."""
    return request.headers.get("x-fragment") == "1"


def _told(request: Request, problem: SfumatoError) -> Response:
    """Say what went wrong and what to do, as a page or as the part of one that was asked for."""
    template = "problem_part.html" if is_fragment(request) else "problem.html"
    return page(request, template, 422, title="That did not work", message=problem.message, hint=problem.hint)


def _not_found(request: Request, problem: HTTPException) -> Response:
    what = {404: "There is no such page.", 405: "This page takes no such request."}.get(problem.status_code, "")
    return page(
        request,
        "problem.html",
        problem.status_code,
        title="Nothing here",
        message=what or problem.detail,
        hint="Go back to the start.",
    )
