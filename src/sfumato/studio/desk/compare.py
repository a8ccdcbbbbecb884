"""Compare: the methods side by side on one set of questions, each with what it promises."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import UsageError
from sfumato.show.words import share
from sfumato.studio.desk import work
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.steps import Step, desk_of
from sfumato.studio.web.pages import go, page
from sfumato.studio.web.pictures import Bar, interval_bars

if TYPE_CHECKING:
    from sfumato.auditor.compare.figures import Outcome

COMPARISON = "comparison"
NAME, PATH = "Compare", "/compare"


def step(desk: Desk) -> Step:
    """Return whether methods were compared."""
    if desk.workspace.made(COMPARISON) is None:
        return Step(NAME, PATH, "not yet", "")
    current = desk.workspace.is_current(COMPARISON)
    return Step(NAME, PATH, "compared" if current else "of an earlier policy", "fine" if current else "open")


def show(request: Request) -> Response:
    """Show the shelf of methods."""
    from sfumato.auditor.compare.record import MethodComparison  # here: it loads 25 MB that other pages do without

    desk = desk_of(request)
    file = desk.workspace.made(COMPARISON)
    found, damaged = None, ""
    try:
        found = None if file is None else MethodComparison.from_dict(_record(file))
    except UsageError as problem:
        damaged = f"{file} cannot be shown. {problem.message}"
    return page(
        request,
        "compare.html",
        problem=desk.problem() if not desk.workspace.is_empty else None,
        found=found,
        damaged=damaged,
        is_current=desk.workspace.is_current(COMPARISON),
        picture=None if found is None else _errors(found.methods),
        advice=None if found is None else found.recommendation,
        conclusions=[] if found is None else [*found.conclusions()],
        measured=[] if found is None else [each for each in found.methods if each.figures],
        others=[] if found is None else [each for each in found.methods if not each.figures],
    )


def _record(file: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UsageError(f"It is damaged: {problem}.", "Compare again.") from None
    return found if isinstance(found, dict) else {}


def _errors(outcomes: Sequence[Outcome]) -> Markup:
    """Return the mean error of the same counts under each method, with the range over its releases."""
    bars = []
    for each in outcomes:
        if each.figures is not None:
            error = each.figures.mean_error
            bars.append(Bar(each.method, error.mean, error.low, error.high, share(error.mean)))
    return interval_bars(bars, "Mean relative error of the same counts under each method")


def run(request: Request) -> Response:
    """Compare all methods at the policy's requirement, in a job."""
    desk = desk_of(request)
    desk.policy()
    file, policy = desk.workspace.new(COMPARISON, ".json"), desk.workspace.file

    def keep(measured: int) -> None:
        desk.workspace.remember(COMPARISON, file, policy, methods=measured)

    desk.jobs.start("Comparing methods", work.compare, desk.table, policy, file, then=keep, makes=file)
    return go("/compare")


ROUTES = (Route("/compare", show), Route("/compare/run", run, methods=["POST"]))
