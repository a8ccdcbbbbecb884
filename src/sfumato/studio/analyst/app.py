"""The analyst's pages and their addresses. Every question is a GET request: its address can be loaded again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from sfumato.analyst.release import open_release
from sfumato.errors import SfumatoError
from sfumato.studio.analyst.answering import Answers
from sfumato.studio.analyst.asking import CALLS, FIGURES, OPERATORS, Fields
from sfumato.studio.analyst.overview import columns_of, proposed_values, warnings_of
from sfumato.studio.analyst.saving import save_page
from sfumato.studio.web.pages import application, go, page

__all__ = ["analyst_app", "save_page"]

TABS = (
    ("The release", "/", "what it is, what it promises"),
    ("Ask", "/ask", "by choosing"),
    ("SQL", "/sql", "one SELECT"),
    ("Associations", "/associations", "two columns"),
    ("Risks", "/risks", "exposed and others"),
    ("Power", "/power", "what to expect"),
    ("Verify", "/verify", "is it as published?"),
)
METHODS = {
    "inverse": "unbiased; may be negative where records are few",
    "projected": "the nearest counts that are not negative",
    "em": "the most likely counts, never negative",
    "classical": "classical: value and condition independent inside a group",
}


def analyst_app(release: Path, csrf: str) -> ASGIApp:
    """Return the pages of a release."""
    opened = open_release(release)
    manifest = opened.manifest
    methods = ("inverse", "projected", "classical" if manifest.in_buckets else "em")
    shared: dict[str, Any] = {
        "answers": Answers(opened),
        "release": opened,
        "manifest": manifest,
        "tabs": TABS,
        "named": [(name, name) for name in opened.askable_names],
        "figures": FIGURES,
        "operators": OPERATORS,
        "methods": {name: METHODS[name] for name in methods},
        "proposed": proposed_values(manifest),
    }
    return application(ROUTES, csrf, shared)


def _answers(request: Request) -> Answers:
    found: Answers = request.app.state.shared["answers"]
    return found


def start(request: Request) -> Response:
    """Show what the release is."""
    manifest = _answers(request).release.manifest
    return page(request, "release_start.html", columns=columns_of(manifest), warnings=list(warnings_of(manifest)))


def question(kind: str) -> Callable[[Request], Response]:
    """Return the page of a kind of question: its form, and the answer where something is asked."""

    def shown_page(request: Request) -> Response:
        answers, fields = _answers(request), Fields(tuple(request.query_params.multi_items()))
        shown: dict[str, Any] = {"fields": fields, "kind": kind, "told": None, "problem": None}
        template = f"release_{kind}.html"
        try:
            plain = fields.plain
            if plain != fields:
                return go(f"/{kind}?{plain.address}" if plain.pairs else f"/{kind}")
            if not fields.pairs:
                return page(request, template, **shown)
            call = CALLS[kind](answers.release, fields)
            answered = answers.ask(call)
        except SfumatoError as problem:
            return page(request, template, **{**shown, "problem": problem})
        folder = answers.release.folder
        code = {"Command line": call.command(folder), "Python": call.python(folder), "R": call.r(folder)}
        return page(
            request, template, **{**shown, "told": answered.told, "formulas": answered.with_formulas, "code": code}
        )

    return shown_page


def file(kind: str, escape_formulas: bool = False) -> Callable[[Request], Response]:
    """Return what gives the answer to a question as a CSV file."""

    def written(request: Request) -> Response:
        answers, fields = _answers(request), Fields(tuple(request.query_params.multi_items()))
        content = answers.ask(CALLS[kind](answers.release, fields)).csv(escape_formulas)
        named = {"content-disposition": 'attachment; filename="answer.csv"'}
        return Response(content, media_type="text/csv; charset=utf-8", headers=named)

    return written


def verify(request: Request) -> Response:
    """Check the release where that is asked, and list the checks."""
    release = _answers(request).release
    found = release.verify() if request.query_params.get("run") else None
    return page(request, "release_verify.html", verification=found)


ROUTES = (
    Route("/", start),
    *(Route(f"/{kind}", question(kind)) for kind in CALLS),
    *(Route(f"/{kind}.csv", file(kind)) for kind in CALLS),
    *(Route(f"/{kind}.escaped.csv", file(kind, escape_formulas=True)) for kind in CALLS),
    Route("/verify", verify),
)
