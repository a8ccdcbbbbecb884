"""Audit: what attackers reach beside what was promised, the most exposed groups, and one report of everything."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from sfumato.errors import UsageError
from sfumato.show.words import share
from sfumato.studio.desk import work
from sfumato.studio.desk.compare import COMPARISON
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.sign import PLAN, RELEASE
from sfumato.studio.desk.steps import Kind, Step, desk_of
from sfumato.studio.web.pages import go, page
from sfumato.studio.web.pictures import element, picture

AUDIT, REPORT = "audit", "report"
METER = 320
"""Pixels from a risk of 0 to one of 1."""
VERDICTS: Mapping[str, tuple[Kind, str, str]] = {
    "within the bound": ("fine", "✓", "within the promise"),
    "above the bound": ("bad", "✕", "above the promise"),
    "not covered by the guarantee": ("open", "!", "nothing is promised here"),
}
"""Of each verdict: how it looks, by colour, symbol and words."""


@dataclass(frozen=True)
class Meter:
    """A finding as the page shows it."""

    name: str
    kind: Kind
    symbol: str
    verdict: str
    question: str
    assumption: str
    picture: Markup
    told: str
    reason: str
    exposed: Sequence[tuple[str, float, int]]
    """Who is exposed most, their risk, and how many records they are."""


NAME, PATH = "Audit", "/audit"


@dataclass(frozen=True)
class Shown:
    """An audit as the page shows it."""

    holds: bool
    risks: Sequence[Meter]
    checks: Sequence[Meter]
    not_applicable: Sequence[tuple[str, str]]
    not_measured: Sequence[tuple[str, str]]

    @property
    def measured(self) -> int:
        """How many measurements there are."""
        return len(self.risks) + len(self.checks)


def step(desk: Desk) -> Step:
    """Return how far the audit is."""
    if (file := of_release(desk, AUDIT)) is None:
        return Step(NAME, PATH, "not yet", "open")
    holds = shown_audit(file).holds
    return Step(NAME, PATH, "nothing above the promise" if holds else "above the promise", "fine" if holds else "bad")


def show(request: Request) -> Response:
    """Show what attackers found."""
    desk = desk_of(request)
    file = of_release(desk, AUDIT)
    shown, damaged = None, None
    try:
        shown = None if file is None else shown_audit(file)
    except UsageError as problem:
        damaged = problem
    return page(
        request,
        "audit.html",
        release=desk.workspace.made(RELEASE),
        shown=shown,
        damaged=damaged,
        report=of_release(desk, REPORT),
    )


def of_release(desk: Desk, what: str) -> Path | None:
    """Return the audit or the report, if it is of the last release: one of an earlier release says nothing of this."""
    release = desk.workspace.made(RELEASE)
    return desk.workspace.made(what) if release is not None and desk.workspace.is_about(what, release) else None


def shown_audit(file: Path) -> Shown:
    """Return an audit as the page shows it; raise if its file is damaged."""
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        found = [(each["scale"], meter(each)) for each in record["findings"]]
        return Shown(
            VERDICTS[record["worst_verdict"]][0] != "bad",
            [each for scale, each in found if scale == "risk"],
            [each for scale, each in found if scale == "chance"],
            *(
                [(str(each["attacker"]), str(each["reason"])) for each in record[kind]]
                for kind in ("not_applicable", "not_measured")
            ),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        raise UsageError(
            f"The record of the audit {str(file)!r} is damaged ({type(problem).__name__}): nothing of it is shown.",
            "Audit the release again.",
        ) from None


def meter(finding: Mapping[str, Any]) -> Meter:
    """Return a finding as a meter: how far the attacker got, and the bound, on a scale from 0 to 1."""
    kind, symbol, words = VERDICTS[finding["verdict"]]
    if finding["scale"] == "chance":
        words = words.replace("the promise", "what chance allows")
    about = f" ({finding['about']})" if finding["about"] else ""
    worst, promised = finding["worst"], finding["promised"]
    allowed = "chance allows" if finding["scale"] == "chance" else "promised"
    told = share(worst) + ("" if promised is None else f", {allowed} {finding['direction']} {share(promised)}")
    name = f"{finding['attacker']}{about}"
    return Meter(
        name,
        kind,
        symbol,
        words,
        finding["question"],
        finding["assumption"],
        _meter(worst, promised, kind, f"{name}: {told}, {words}"),
        told,
        "" if promised is not None else finding["why_not_covered"],
        [(str(each["who"]), float(each["risk"]), int(each["records"])) for each in finding["exposed"][:3]],
    )


def _meter(worst: float, promised: float | None, kind: Kind, title: str) -> Markup:
    height = 22
    filled = element(
        "rect", class_="bad" if kind == "bad" else "bar", x=0, y=5, width=round(METER * min(1.0, worst), 2), height=12
    )
    base = element("line", class_="axis", x1=0, x2=METER, y1=17.5, y2=17.5)
    end = "" if promised is None else round(METER * min(1.0, promised), 2)
    limit = Markup("") if promised is None else element("line", class_="limit", x1=end, x2=end, y1=0, y2=height)
    return picture(filled + base + limit, METER + 4, height, title)


def run(request: Request) -> Response:
    """Audit the release, in a job."""
    desk = desk_of(request)
    release, policy = _release(desk)
    file = desk.workspace.new(AUDIT, ".json")

    def keep(verdict: str) -> None:
        desk.workspace.remember(AUDIT, file, policy, about=release, worst=verdict)

    desk.jobs.start("Auditing the release", work.audit, desk.table, policy, release, file, then=keep, makes=file)
    return go("/audit")


def make_report(request: Request) -> Response:
    """Write the report, in a job."""
    desk = desk_of(request)
    release, policy = _release(desk)
    record = of_release(desk, AUDIT)
    if record is None:
        raise UsageError("There is no audit of this release yet.", "Audit the release first.")
    file = desk.workspace.new(REPORT, ".html")
    # a comparison at another requirement is no part of the report
    compared = desk.workspace.made(COMPARISON) if desk.workspace.policy_of(COMPARISON) == policy else None

    def keep(_: None) -> None:
        desk.workspace.remember(REPORT, file, policy, about=release)

    signed = desk.workspace.made(PLAN) if desk.workspace.policy_of(PLAN) == policy else None
    arguments = (desk.table, policy, release, record, compared, signed, file)
    desk.jobs.start("Writing the report", work.write_report, *arguments, then=keep, makes=file)
    return go("/audit")


def download(request: Request) -> Response:
    """Give the report as a file: it is a page of its own, with rules of its own."""
    file = of_release(desk_of(request), REPORT)
    if file is None:
        raise UsageError("There is no report yet.", "Write it first.")
    return FileResponse(file, filename=file.name, media_type="text/html")


def _release(desk: Desk) -> tuple[Path, Path]:
    """Return the last release and the policy that it was made from."""
    release, policy = desk.workspace.made(RELEASE), desk.workspace.policy_of(RELEASE)
    if release is None or policy is None:
        raise UsageError("There is no release yet.", "Publish one first.")
    return release, policy


ROUTES = (
    Route("/audit", show),
    Route("/audit/run", run, methods=["POST"]),
    Route("/audit/report", make_report, methods=["POST"]),
    Route("/audit/report.html", download),
)
