"""Show the commands: what was done on the page, as commands and as Python, with the same result to the byte."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.studio.desk.audit import AUDIT, REPORT
from sfumato.studio.desk.compare import COMPARISON
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.sign import PLAN, RELEASE
from sfumato.studio.desk.steps import desk_of
from sfumato.studio.web.pages import page

PYTHON = """\
import sfumato as sf

table = sf.scan({table!r}, sf.Policy.load({policy!r}))
profile = sf.profile(table, uniqueness=True)
plan = sf.plan(profile, table.policy.method, table.policy.requirement)
sf.rehearse(table, plan)
plan = plan.bound_to(table.hash(), table.policy.hash())
print(plan.to_dict()["plan_hash"])
release = sf.publish(table, plan, {release!r})
print(release.verify())
"""


@dataclass(frozen=True)
class Commands:
    """The story so far, to be repeated without the page."""

    shell: tuple[str, ...]
    python: str
    note: str


def commands(desk: Desk) -> Commands:
    """Return the commands of the policy as it stands, and of what was made from it."""
    policy, workspace = desk.workspace.file, desk.workspace
    names = {
        what: workspace.made(what) if workspace.is_current(what) else None
        for what in (PLAN, RELEASE, AUDIT, REPORT, COMPARISON)
    }
    release = str(names[RELEASE] or "release")
    code = PYTHON.format(table=str(desk.table), policy=str(policy), release=release)
    problem = desk.problem()
    drawn = problem is None and desk.policy().method.draws_plan
    return Commands(tuple(_shell(desk, policy, names)), code, DRAWN if drawn else ALIKE)


ALIKE = (
    "The plan has the same hash as the one made here. The release is drawn anew with a fresh secret key, so its rows "
    "differ, as they must."
)
DRAWN = "Plans of this method are drawn, so a plan that is made again is another one. Publish the plan that was signed."


def _shell(desk: Desk, policy: Path, names: dict[str, Path | None]) -> Iterator[str]:
    def line(*words: object) -> str:
        return shlex.join(["sfumato", *map(str, words)])

    table, plan, release = desk.table, names[PLAN] or "plan.json", names[RELEASE] or "release"
    yield line("profile", table, policy)
    if names[COMPARISON]:
        yield line("compare", table, policy, "-o", "comparison.json")
    yield line("plan", table, policy, "-o", "plan.json")
    yield line("publish", table, policy, "--plan", plan, "-o", "release")
    yield line("verify", release)
    yield line("audit", table, policy, release, "-o", "audit.json")
    audit = names[AUDIT] or "audit.json"
    yield line("report", table, policy, release, "--audit", audit, "--plan", plan, "-o", "report.html")


def show(request: Request) -> Response:
    """Show the commands."""
    desk = desk_of(request)
    return page(
        request,
        "commands.html",
        found=commands(desk) if desk.has_table and not desk.workspace.is_empty else None,
        policy=None if desk.workspace.is_empty else desk.workspace.text,
    )


ROUTES = (Route("/commands", show),)
