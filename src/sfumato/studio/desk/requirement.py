"""Requirement: a method, what it promises, and what that costs, while a slider moves. Backwards: an error in, the
requirement out. Nothing is drawn here."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.claims.plain import after
from sfumato.errors import CannotMeet, PolicyError, SfumatoError, UsageError
from sfumato.methods import METHODS
from sfumato.methods.plan import Plan
from sfumato.publisher.policy import Policy
from sfumato.show.words import at_most, of_100
from sfumato.studio.desk.asking import (
    KINDS,
    Ladder,
    Row,
    begun,
    ladder_of,
    made_method,
    made_requirement,
    options_of,
    rows_of,
    shown_option,
    shown_requirement,
)
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.rules import Fields, Mistake
from sfumato.studio.desk.steps import Step, changing, desk_of, seen_desk
from sfumato.studio.web.pages import form, go, is_fragment, page
from sfumato.studio.web.pictures import SLIM, Bar, belief_curve, error_bars
from sfumato.values.profile import Profile
from sfumato.values.requirement import Diversity, Requirement, Requirements, RhoPrivacy, RiskLimit, Robustness, exact

MOST_AT_ONCE = 300
"""Values of the secret up to which a plan is made while a slider moves."""
MOST_ROWS = 100
"""Values that have fields of their own."""
MOST_BARS = 14
NINETEEN_IN_TWENTY = 1.96
PRIORS = (0.01, 0.1, 0.5)
NAME, PATH = "Requirement", "/requirement"


def step(desk: Desk) -> Step:
    """Return what is asked for."""
    if desk.workspace.is_empty:
        return Step(NAME, PATH, "not yet", "")
    try:
        policy = desk.policy()
    except PolicyError:
        return Step(NAME, PATH, "to decide", "open")
    return Step(NAME, PATH, policy.method.name, "fine")


@dataclass(frozen=True)
class Outcome:
    """What a choice would give: a plan with its pictures, or why there is none yet."""

    plan: Plan | None = None
    cost: tuple[str, ...] = ()
    counts: Markup | None = None
    beliefs: Markup | None = None
    believed: tuple[str, ...] = ()
    problem: SfumatoError | None = None
    wait: str = ""
    """What has to be done before it can be shown."""


def show(request: Request) -> Response:
    """Show the method and the requirement, with what they give."""
    desk = desk_of(request)
    if desk.workspace.is_empty:
        return go("/table")
    desk.count_if_needed()
    return _page(request, desk, {})


def preview(request: Request) -> Response:
    """Show what a choice would give; nothing is kept."""
    desk, sent = seen_desk(request), form(request)
    try:
        found = _outcome(desk, lambda: _asked(desk, sent))
    except Mistake as mistake:
        found = Outcome(problem=_misread(mistake))
    if is_fragment(request):
        return page(request, "outcome.html", outcome=found, told=None)
    return _page(request, desk, sent, found)


def save(request: Request) -> Response:
    """Keep the choice as a new state of the policy, and what it would give in the journal."""
    sent = form(request)
    with changing(request) as desk:
        try:
            method, requirement = _sections(desk, sent)
        except Mistake as mistake:
            return _page(request, desk, sent, Outcome(problem=_misread(mistake)), 422)
        desk.change(desk.raw | {"method": method, "requirement": requirement}, "method and requirement")
    found = _outcome(desk, desk.policy)
    if found.plan is not None:
        desk.note_plan(desk.policy(), found.plan)
    return go("/requirement")


def count(request: Request) -> Response:
    """Count the table for the policy as it stands."""
    desk_of(request).count()
    return go("/requirement")


def try_it(request: Request) -> Response:
    """Plan the policy as it stands, in a job."""
    desk_of(request).try_plan()
    return go("/requirement")


def _misread(mistake: Mistake) -> UsageError:
    return UsageError(mistake.message, "Nothing was saved. Mend the field, and try it again.")


# --- the form ---------------------------------------------------------------------------------------------------------


def _sections(desk: Desk, sent: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the sections [method] and [requirement] of a form."""
    raw = desk.raw
    before = raw.get("requirement", {})
    return made_method(raw.get("method", {}), sent), made_requirement(before, sent, _rows(desk, before))


def _asked(desk: Desk, sent: Mapping[str, str]) -> Policy:
    method, requirement = _sections(desk, sent)
    return desk.with_changes(method=method, requirement=requirement)


def _rows(desk: Desk, stated: Mapping[str, Any]) -> list[Row]:
    """Return the values that have fields of their own."""
    counted = desk.last_counted
    labels = () if counted is None or counted.quasi_identifiers else counted.domain.labels
    return rows_of(stated, labels if len(labels) <= MOST_ROWS else ())


def _page(
    request: Request,
    desk: Desk,
    sent: Mapping[str, str],
    outcome: Outcome | None = None,
    status: int = 200,
    told: str = "",
) -> Response:
    seen, raw = desk.workspace.name, desk.raw  # in this order: what is newer than its name is refused later
    method, stated = raw.get("method", {}), raw.get("requirement", {})
    fields: Fields = begun(shown_requirement(stated)) | dict(sent)
    chosen = sent.get("method") or str(method.get("name", ""))
    counted = desk.last_counted
    return page(
        request,
        "requirement.html",
        status,
        methods=[(each, _option_fields(each, method, sent)) for each in METHODS],
        chosen=chosen,
        kinds=[(kind, " ".join(each.name for each in METHODS if kind.goes_with(each))) for kind in KINDS],
        fields=fields,
        rows=[_as_sent(place, row, sent) for place, row in enumerate(_rows(desk, stated))],
        outcome=outcome if outcome is not None else _outcome(desk, desk.policy),
        told=told,
        seen=seen,
        values=[] if counted is None or counted.quasi_identifiers else _most_frequent(counted)[:MOST_ROWS],
    )


def _option_fields(method: Any, stated: Mapping[str, Any], sent: Mapping[str, str]) -> list[tuple[Any, str]]:
    own = stated if stated.get("name") == method.name else {}
    here = f"{method.name}.here" in sent
    return [
        (option, sent.get(f"{method.name}.{option.name}", "") if here else shown_option(option, own))
        for option in options_of(method)
    ]


def _as_sent(place: int, row: Row, sent: Mapping[str, str]) -> tuple[Row, str, str]:
    return row, sent.get(f"v{place}.rho1", row.rho1), sent.get(f"v{place}.rho2", row.rho2)


# --- what it gives ----------------------------------------------------------------------------------------------------


def _outcome(desk: Desk, asked: Callable[[], Policy]) -> Outcome:
    try:
        policy = asked()
        counted = desk.counts(policy)
        if policy.method.draws_plan:
            return Outcome(
                wait=f"Plans of {policy.method.title} are drawn, and nothing is drawn here: to try them until one "
                "looks good tells what they hide. Choose the requirement by its meaning. The plan is drawn once, when "
                "you sign it.",
                **_beliefs(policy.requirement, counted),
            )
        if counted is None:
            return Outcome(wait=_why_not_counted(desk), **_beliefs(policy.requirement, counted))
        made = desk.tried(policy)
        if made is None and (policy.method.slow_to_plan or counted.domain.size > MOST_AT_ONCE):
            return Outcome(
                wait="This plan takes longer than a moment. Save your choice, then press Plan it.",
                **_beliefs(policy.requirement, counted),
            )
        made = made or desk.planned(policy)
    except (CannotMeet, UsageError) as problem:
        return Outcome(problem=problem)
    return Outcome(made, _cost(made, counted), _count_bars(made, counted), **_beliefs(policy.requirement, counted))


def _why_not_counted(desk: Desk) -> str:
    if desk.jobs.is_running:
        return "The table is being counted. Figures appear when that is done."
    return "The table was not counted for these columns yet. Save your choice: it is counted then."


def _cost(made: Plan, counted: Profile) -> tuple[str, ...]:
    """Say what it costs, in numbers that people can use."""
    found = []
    figures, errors = made.figures, made.figures.standard_error
    if figures.record_utility is not None:
        found.append(f"{of_100(figures.record_utility).capitalize()} records stay true.")
    else:
        found.append("Published values are true; which record of a group has which is hidden.")
    if figures.total_withheld:
        found.append(f"{figures.total_withheld:,} of {made.rows:,} records are not published.")
    if errors is not None:
        typical, worst = f"{float(np.median(errors)):,.0f}", f"{float(errors.max()):,.0f}"
        found.append(f"A count is off by about {typical}{'' if worst == typical else f', the worst by {worst}'}.")
    elif figures.mechanisms:
        found.append("There are no error bars for counts under this plan.")
    return tuple(found)


def _count_bars(made: Plan, counted: Profile) -> Markup | None:
    """Return the true counts with the error that each estimate has."""
    errors = made.figures.standard_error
    if errors is None or len(errors) != counted.domain.size:
        return None
    bars = []
    for code, label in _most_frequent(counted)[:MOST_BARS]:
        count, error = int(counted.counts[code]), float(errors[code])
        reach = NINETEEN_IN_TWENTY * error
        bars.append(Bar(label, count, count - reach, count + reach, f"{count:,} ± {error:,.0f}"))
    return error_bars(bars, "True counts, and where 19 of 20 estimates of each fall", as_bars=True, rooms=SLIM)


def _most_frequent(counted: Profile) -> list[tuple[int, str]]:
    return [(int(c), counted.domain.labels[c]) for c in np.argsort(-counted.counts, kind="stable")]


def _beliefs(requirement: Requirement, counted: Profile | None) -> dict[str, Any]:
    """Return what may be believed afterwards, as a picture and in words."""
    if isinstance(requirement, Diversity | Robustness | RiskLimit):
        most = at_most(exact(requirement.limit) if isinstance(requirement, RiskLimit) else requirement.at_most)
        # no curve: such a limit is for a stated kind of attacker, not for whatever was believed before
        return {"believed": (f"The attacker named in the promise believes no value by more than {most}.",)}
    if counted is None or isinstance(requirement, Requirements):  # several columns: the card tells of each
        return {}
    bounds = requirement.bounds(counted.domain, counted.counts.tolist())
    factors = sorted({bound.gamma for bound in bounds if bound.gamma is not None})
    if not factors:
        return {}
    gammas, strictest = [*map(float, factors)], factors[0]
    ends = dict.fromkeys([gammas[0], gammas[-1]])
    curves = [[(k / 50, _after(k / 50, gamma)) for k in range(51)] for gamma in ends]
    mark = (float(requirement.bound().rho1 or 0), float(requirement.bound().rho2 or 0)) if isinstance(
        requirement, RhoPrivacy
    ) else None  # fmt: skip
    words = [f"{prior:.0%} may become {after(strictest, exact(prior))}" for prior in PRIORS]
    who = "A belief of" if len(gammas) == 1 else "For the strictest value a belief of"
    return {
        "beliefs": belief_curve(curves, mark, "What may be believed afterwards, by what was believed before"),
        "believed": (
            f"{who} {', '.join(words)}, and no more.",
            *(["The lower line is for the strictest value, the upper one for the loosest."] if len(ends) > 1 else []),
        ),
    }


def _after(prior: float, gamma: float) -> float:
    """posterior = gamma p / (1 - p + gamma p)."""
    return gamma * prior / (1 - prior + gamma * prior)


# --- backwards --------------------------------------------------------------------------------------------------------


def backwards(request: Request) -> Response:
    """Find the strictest requirement under which counts are off by no more than was asked; nothing is kept."""
    desk, sent = seen_desk(request), form(request)
    try:
        method, requirement = _sections(desk, sent)
        most = _error_asked(sent)
        ladder, error = _search(desk, method, requirement, sent.get("which", ""))
        place = strictest(ladder, error, most)
    except Mistake as mistake:
        return _page(request, desk, sent, Outcome(problem=_misread(mistake)), 422)
    except (CannotMeet, UsageError) as problem:
        return _page(request, desk, sent, Outcome(problem=problem), 422)
    if place is None:
        least = error(ladder.last)
        told = "there is no estimate" if math.isinf(least) else f"counts are off by about {least:,.0f}"
        refusal = UsageError(
            f"An error of {most:,.0f} cannot be had with this method: under the loosest requirement {told}.",
            "Merge values or make bins wider, publish more records, or choose another method.",
        )
        return _page(request, desk, sent, Outcome(problem=refusal), 422)
    number = ladder.at(place)
    found = sent | {ladder.key: f"{100 * number:.10g}" if ladder.key == "rho2" else f"{number:.10g}"}
    said = f"{100 * number:.10g}%" if ladder.key == "rho2" else f"{ladder.key} = {number:.10g}"
    told = f"For an error of at most {most:,.0f} the strictest requirement is {said}. Save it to keep it."
    return _page(request, desk, found, _outcome(desk, lambda: _asked(desk, found)), told=told)


def _error_asked(sent: Mapping[str, str]) -> float:
    try:
        most = float(sent.get("error", "").replace(",", ""))
    except ValueError:
        most = math.nan
    if not 0 < most < math.inf:
        raise Mistake("error", "Write the error that you can live with as a number of records, such as 300.")
    return most


def _search(
    desk: Desk, method: Mapping[str, Any], requirement: Mapping[str, Any], which: str
) -> tuple[Ladder, Callable[[int], float]]:
    """Return the requirements to search, and the expected error of counts under each."""
    ladder = ladder_of(requirement)
    if ladder is None:
        raise UsageError(
            "Only a requirement by beliefs, by odds or by epsilon can be found from an error.",
            "Choose one of these kinds, then ask again.",
        )
    code = int(which) if which.isdecimal() else None
    known: dict[int, float] = {}

    def error(place: int) -> float:
        if place not in known:
            asked = desk.with_changes(method=method, requirement={**requirement, ladder.key: ladder.at(place)})
            known[place] = _error(desk.planned(asked), code)
        return known[place]

    error(ladder.last)  # raises what is wrong with the rest of the choice
    return ladder, error


def _error(made: Plan, code: int | None) -> float:
    errors = made.figures.standard_error
    if errors is None:
        return math.inf
    return float(errors.max()) if code is None or code >= len(errors) else float(errors[code])


def strictest(ladder: Ladder, error: Callable[[int], float], most: float) -> int | None:
    """Return the first requirement whose error is at most what was asked, by bisection; None if there is none.

    Errors fall as requirements get looser.
    """
    if error(ladder.last) > most:
        return None
    before_last = range(ladder.first, ladder.last)
    return ladder.first + bisect_left(before_last, True, key=lambda place: error(place) <= most)


ROUTES = (
    Route("/requirement", show),
    Route("/requirement", save, methods=["POST"]),
    Route("/requirement/preview", preview, methods=["POST"]),
    Route("/requirement/backwards", backwards, methods=["POST"]),
    Route("/requirement/count", count, methods=["POST"]),
    Route("/requirement/try", try_it, methods=["POST"]),
)
