"""Roles: what each column is, how it is published, and what is wrong with that, each where it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.publisher.policy_rules import ColumnRule
from sfumato.publisher.survey.found import Findings, Predictor
from sfumato.publisher.survey.overview import ColumnView, Overview
from sfumato.show.words import share
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.rules import Fields, Mistake, Rule, changed, problems, shown
from sfumato.studio.desk.steps import Step, changing, desk_of
from sfumato.studio.web.pages import form, go, page
from sfumato.studio.web.pictures import SLIM, Bar, error_bars
from sfumato.values.attributes import LEFT_OUT_ROLES
from sfumato.values.profile import RARE
from sfumato.values.recoding import DATE_UNITS

ROLES = {
    "sensitive": "The secret: it is protected",
    "quasi_identifier": "Others may know it of a person",
    "other": "Published as it is, nobody outside knows it",
    "identifier": "Tells who a person is: left out",
    "drop": "Left out for another reason",
}
BINS = {"": "As in the table", "width": "Bins of one width", "breaks": "Bins that begin at"} | {
    unit: f"By {unit}" for unit in DATE_UNITS
}
MISSING = {
    "error": "Stop: it must not be missing",
    "category": "Stays missing",
    "drop": "Leave the row out",
}
REPEATED = {
    "error": "Stop: nobody may have several rows",
    "keep-one": "Publish one row of each person, drawn at random",
    "per-row": "Publish all: what is learned of a person adds up",
}
MOST_BARS, NAMED = 10, 3
COARSER = "Leave it out, make it coarser, or say below why it may be published."
NAME, PATH = "Roles", "/roles"


def step(desk: Desk) -> Step:
    """Return how many columns are left to decide."""
    if desk.workspace.is_empty:
        return Step(NAME, PATH, "not yet", "")
    rules = _rules(desk)
    wrong = sum(any(problems(name, rule)) for name, rule in rules.items())
    secrets = [name for name, rule in rules.items() if rule.get("role") == "sensitive"]
    if wrong:
        return Step(NAME, PATH, f"{wrong} to decide", "open")
    if not secrets:
        return Step(NAME, PATH, "no secret yet", "bad")
    return Step(NAME, PATH, f"secret: {', '.join(secrets)[:40]}", "fine")


@dataclass
class Line:
    """A column as the page lists it."""

    number: int
    name: str
    fields: Fields
    view: ColumnView | None
    reason: str
    wrong: list[str]
    told: list[str]
    picture: Markup | None
    note: str
    mistake: Mistake | None = None
    decision: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it is unfolded: something is to be done here."""
        return bool(self.wrong) or self.mistake is not None

    @property
    def kind(self) -> str:
        """Its type, as the survey names it."""
        return self.view.facts.type if self.view else ""


def show(request: Request) -> Response:
    """Show the columns."""
    desk = desk_of(request)
    if desk.workspace.is_empty:
        return go("/table")
    desk.prepare()
    return _page(request, desk, sought=request.query_params.get("find", ""))


def _page(
    request: Request,
    desk: Desk,
    mistakes: Mapping[str, Mistake] | None = None,
    sent: Mapping[str, str] | None = None,
    sought: str = "",
) -> Response:
    seen = desk.workspace.name  # before anything is read of it: what is newer than its name is refused later
    found = desk.findings()
    lines = [
        line
        for line in _lines(desk, found, mistakes or {}, sent)
        if sought.lower() in line.name.lower() or (line.is_open and mistakes)
    ]
    return page(
        request,
        "roles.html",
        422 if mistakes else 200,
        lines=lines,
        names=[*_rules(desk)],
        whole=whole_fields(desk.raw) | dict(sent or {}),
        found=found,
        people=[*_people(desk)],
        refused=[] if found is None else [*found.refused, *found.notes],
        mistakes=mistakes or {},
        problem=None if mistakes else desk.problem(),
        sought=sought,
        seen=seen,
        choices={"roles": ROLES, "bins": BINS, "missing": MISSING, "repeated": REPEATED},
    )


def preview(request: Request) -> Response:
    """Show how one column would be published, while its fields change; nothing is kept."""
    desk, sent = desk_of(request), form(request)
    rules = _rules(desk)
    _check_listed(sent, list(rules))
    places = {str(number): number for number in range(len(rules))}
    number = next((places[first] for name in sent if (first := name.split(".")[0]) in places), 0)
    name, rule = [*rules.items()][number]
    view = _view(desk, name)
    try:
        made = changed(rule, _own(sent, number), view.facts.type if view else "")
    except Mistake as mistake:
        return page(request, "role_preview.html", line=None, mistake=mistake)
    line = _line(number, name, made, view, desk.overview, desk.findings(), "")
    return page(request, "role_preview.html", line=line, mistake=None)


def save(request: Request) -> Response:
    """Keep what was decided as a new state of the policy."""
    with changing(request) as desk:
        return _saved(request, desk, form(request))


def _saved(request: Request, desk: Desk, sent: Mapping[str, str]) -> Response:
    mistakes: dict[str, Mistake] = {}
    rules = _rules(desk)
    _check_listed(sent, list(rules))
    for number, (name, rule) in enumerate(list(rules.items())):
        if f"{number}.here" not in sent:
            continue
        view = _view(desk, name)
        try:
            rules[name] = changed(rule, _own(sent, number), view.facts.type if view else "")
        except Mistake as mistake:
            mistakes[str(number)] = mistake
    if mistakes:  # nothing is kept, and nothing that was written is lost
        return _page(request, desk, mistakes, sent)
    desk.change(_with_whole(desk.raw | {"columns": rules}, sent), "roles")
    if "check" in sent:
        desk.check()
    return go("/roles")


# --- what is not of one column ----------------------------------------------------------------------------------------


def whole_fields(raw: Mapping[str, Any]) -> Fields:
    """Return what the form shows of persons, keys and how the file is read."""
    person, read = raw.get("person", {}), raw.get("input", {})
    return {
        "person.column": str(person.get("column", "")),
        "person.repeated": str(person.get("repeated", "error")),
        "record_key": str(raw.get("record_key", "")),
        "series": str(raw.get("series", "")),
        "input.delimiter": str(read.get("delimiter", ",")),
        "input.missing": "\n".join(map(str, read.get("missing_values", [""]))).strip("\n"),
    }


def _with_whole(raw: dict[str, Any], sent: Mapping[str, str]) -> dict[str, Any]:
    """Return a policy with what was sent of persons, keys and the file."""
    before = whole_fields(raw)
    after = before | {name: sent[name].replace("\r\n", "\n") for name in before if name in sent}
    made = dict(raw)
    for key in ("record_key", "series"):
        if after[key] != before[key]:
            _set(made, key, after[key].strip())
    if (after["person.column"], after["person.repeated"]) != (before["person.column"], before["person.repeated"]):
        stated = {"column": after["person.column"], "repeated": after["person.repeated"]}
        _set(made, "person", {**raw.get("person", {}), **stated} if after["person.column"] else {})
    read = dict(raw.get("input", {}))
    if after["input.delimiter"] != before["input.delimiter"]:
        read["delimiter"] = "\t" if after["input.delimiter"] == "\\t" else after["input.delimiter"]
    if after["input.missing"] != before["input.missing"]:
        read["missing_values"] = ["", *(line for line in after["input.missing"].split("\n") if line)]
    _set(made, "input", read)
    return made


def _set(made: dict[str, Any], key: str, value: Any) -> None:
    if value:
        made[key] = value
    else:
        made.pop(key, None)


def _people(desk: Desk) -> Iterator[str]:
    """Give what is wrong with how persons are told apart."""
    person, seen = desk.raw.get("person"), desk.overview
    name = person.get("column") if isinstance(person, Mapping) else None
    if seen is None or name not in seen.names:
        return
    facts = seen[str(name)].facts
    present = seen.rows - facts.missing
    if facts.distinct < present:
        yield (
            f"{present:,} rows belong to {facts.distinct:,} persons: some have several rows. The promise is for one "
            "row of each person. Say what to do about it."
        )


# --- columns ----------------------------------------------------------------------------------------------------------


def _rules(desk: Desk) -> dict[str, Rule]:
    """Return the rule of each column of the table, in its order, then of others that the policy names."""
    stated = desk.raw.get("columns", {})
    seen = desk.overview
    names = dict.fromkeys([*(seen.names if seen else ()), *stated])
    return {name: stated.get(name, {}) for name in names}


def _view(desk: Desk, name: str) -> ColumnView | None:
    seen = desk.overview
    return seen[name] if seen is not None and name in seen.names else None


def _check_listed(sent: Mapping[str, str], names: Sequence[str]) -> None:
    """Raise unless each number of a form is still that of its column: roles would go to other columns."""
    listed = {f"{number}.here": name for number, name in enumerate(names)}
    if any(listed.get(field) != name for field, name in sent.items() if field.endswith(".here")):
        raise UsageError(
            "The columns have been listed in another order since this page was loaded.",
            "Nothing was changed. Load the page again, and decide there.",
        )


def _own(sent: Mapping[str, str], number: int) -> Fields:
    """Return the fields of one column."""
    prefix = f"{number}."
    return {name.removeprefix(prefix): text for name, text in sent.items() if name.startswith(prefix)}


def _lines(
    desk: Desk, found: Findings | None, mistakes: Mapping[str, Mistake], sent: Mapping[str, str] | None
) -> Iterator[Line]:
    reasons, seen = desk.reasons(), desk.overview
    views = {} if seen is None else {view.name: view for view in seen.columns}
    for number, (name, rule) in enumerate(_rules(desk).items()):
        line = _line(number, name, rule, views.get(name), seen, found, reasons.get(name, ""))
        if sent is not None and f"{number}.here" in sent:
            line.fields = line.fields | dict.fromkeys(("ordered", "from_table"), "") | _own(sent, number)
        line.mistake = mistakes.get(str(number))
        yield line


def _line(
    number: int,
    name: str,
    rule: Rule,
    view: ColumnView | None,
    seen: Overview | None,
    found: Findings | None,
    reason: str,
) -> Line:
    wrong = list(problems(name, rule))
    drawn = Drawn("") if wrong or view is None else _drawn(view, json.dumps(rule, sort_keys=True, default=str))
    if seen is not None and view is None:
        wrong.append(
            "The table has no such column. Take it out of the policy, or give the table that the policy is for."
        )
    stops, told = _found(name, rule, view, found, drawn) if not wrong else ([], [])
    return Line(number, name, shown(rule), view, reason, [*wrong, *stops], told, drawn.picture, drawn.note)


def _found(
    name: str, rule: Rule, view: ColumnView | None, found: Findings | None, drawn: Drawn
) -> tuple[list[str], list[str]]:
    """Return what would stop publishing, and what is to be thought of."""
    stops: list[str] = []
    told: list[str] = []
    published = rule["role"] not in LEFT_OUT_ROLES
    judged = rule["role"] in ("quasi_identifier", "other") and not rule.get("publish_as_is")
    if found is not None:
        stops += [f"It {stop.look.why}. {COARSER}" for stop in found.stops if stop.column == name]
        told += [_predicts(p) for p in found.prediction.predictors if p.column == name and p.clear]
    elif judged and view is not None and view.look is not None and not (rule.get("bins") or rule.get("merge")):
        stops.append(f"It {view.look.why}. {COARSER}")
    if drawn.rare and rule["role"] == "sensitive" and rule.get("domain", "observed") == "observed":
        few = ", ".join(map(repr, drawn.rare[:NAMED])) + (", ..." if len(drawn.rare) > NAMED else "")
        told.append(
            f"{len(drawn.rare):,} value(s) occur in fewer than {RARE} rows ({few}). The release lists the values, and "
            "so tells that they occur. List all values that can occur instead, or merge the rare ones."
        )
    if published and view is not None and view.facts.missing and rule.get("missing", "error") == "error":
        stops.append(f"It is missing in {view.facts.missing:,} rows. Say what that means.")
    return stops, told


def _predicts(found: Predictor) -> str:
    right, without = share(found.hit_rate, 0), share(found.baseline, 0)
    return (
        f"It gives the secret away: guessing the secret by this column alone is right for {right} of the "
        f"people, without it for {without}. Leave it out, make it coarser, or choose other as secret too."
    )


@dataclass(frozen=True)
class Drawn:
    """A column as it would be published."""

    note: str
    picture: Markup | None = None
    rare: tuple[str, ...] = field(default=())


@lru_cache(maxsize=2048)
def _drawn(view: ColumnView, rule: str) -> Drawn:
    """Return the picture of a column as it would be published; a rule is given as JSON."""
    stated = ColumnRule.model_validate_json(rule, strict=False)
    if stated.role in LEFT_OUT_ROLES:
        return Drawn("Left out of the release.")
    try:
        counted = view.published(stated.attribute(view.name))
    except (PolicyError, SfumatoError) as problem:
        return Drawn(problem.message)
    if counted is None:
        return Drawn("Too many different values to draw.")
    labels, counts = counted
    rare = tuple(label for label, count in zip(labels, counts, strict=True) if 0 < count < RARE)
    about = "" if view.how == "values" else "About, by narrow cells. "
    secret = "These are the true counts, which the release hides." if stated.role == "sensitive" else ""
    bars = [Bar(label, count, told=f"{count:,}") for label, count in _most(labels, counts, bool(stated.bins))]
    picture = error_bars(bars, f"Rows by {view.name}, as published", as_bars=True, rooms=SLIM)
    return Drawn(f"{len(labels):,} different values. {about}{secret}".strip(), picture, rare)


def _most(labels: list[str], counts: list[int], in_order: bool) -> list[tuple[str, int]]:
    """Return the bars of a picture: all in their order if these are few, else the most frequent and the rest."""
    pairs = list(zip(labels, counts, strict=True))
    if len(pairs) <= MOST_BARS + 1 and in_order:
        return pairs
    ranked = sorted(pairs, key=lambda pair: -pair[1])
    rest = sum(count for _, count in ranked[MOST_BARS:])
    return [*ranked[:MOST_BARS], *([("others", rest)] if rest else [])]


ROUTES = (
    Route("/roles", show),
    Route("/roles", save, methods=["POST"]),
    Route("/roles/preview", preview, methods=["POST"]),
)
