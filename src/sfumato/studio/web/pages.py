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

from sfumato.errors import SfumatoError, UsageError

STATIC = Path(__file__).parent / "static"


class Outdated(UsageError):
    """A change of something that has been changed since the page was loaded: it is refused, and answered 409."""


@cache
def environment() -> Environment:
    """Return the templates of both pages; each value is escaped, and a name that is missing is an error."""
    rooms = ("web", "desk", "analyst")
    loader = ChoiceLoader([PackageLoader("sfumato.studio", f"{room}/templates") for room in rooms])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def application(
    routes: Iterable[BaseRoute],
    csrf: str,
    shared: Mapping[str, Any],
    *,
    problem: str = "problem.html",
    on_end: Callable[[], None] | None = None,
) -> ASGIApp:
    """Return an application of these routes.

    `shared`: what all its templates may use; `problem`: the template of what went wrong; `on_end`: called at its end.
    """
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def lifespan(app: Starlette) -> Any:
        yield
        if on_end is not None:
            on_end()

    static = Mount("/static", StaticFiles(directory=STATIC))
    app = Starlette(
        routes=[*routes, static],
        exception_handlers={SfumatoError: _told, HTTPException: _not_found, OSError: _no_file, Exception: _unforeseen},  # type: ignore[dict-item]
        lifespan=lifespan,
    )
    app.state.csrf, app.state.shared, app.state.problem = csrf, dict(shared), problem
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


def _no_file(request: Request, problem: OSError) -> Response:
    return _told(request, UsageError(f"A file cannot be read or written: {problem}.", "See to that, and try it again."))


def _told(request: Request, problem: SfumatoError) -> Response:
    """Say what went wrong and what to do, as a page or as the part of one that was asked for."""
    template = "problem_part.html" if is_fragment(request) else request.app.state.problem
    status = 409 if isinstance(problem, Outdated) else 422
    return page(request, template, status, title="That did not work", message=problem.message, hint=problem.hint)


def _not_found(request: Request, problem: HTTPException) -> Response:
    what = {404: "There is no such page.", 405: "This page takes no such request."}.get(problem.status_code, "")
    return page(
        request,
        request.app.state.problem,
        problem.status_code,
        title="Nothing here",
        message=what or problem.detail,
        hint="Go back to the start.",
    )


def _unforeseen(request: Request, problem: Exception) -> Response:
    """Say that it is a mistake of ours; where it is stands in the terminal, since the server shows what it raises."""
    # of the templates the plainest: what went wrong may go wrong again on a page that tells more
    return page(
        request,
        "problem_part.html" if is_fragment(request) else "problem.html",
        500,
        title="That did not work",
        message="This is a mistake of sfumato.",
        hint="Nothing that was saved is lost. Go back and try it again. If it stays, please report it, with what the "
        "terminal shows.",
    )
