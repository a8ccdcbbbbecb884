"""Sign and publish: the plan as it will be carried out, every limit ticked by hand, a name; then the release.

The plan is made once and bound to the table and the policy. What is signed is what is published: if either has changed
since, publishing refuses.
"""

from __future__ import annotations

import datetime
import json
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.errors import SfumatoError, UsageError
from sfumato.methods import load_plan
from sfumato.methods.plan import Plan
from sfumato.publisher.publish import check_new
from sfumato.release.verify.verification import Verification
from sfumato.show.private import write_private
from sfumato.studio.desk import work
from sfumato.studio.desk.desk import Desk
from sfumato.studio.desk.steps import Step, changing, desk_of
from sfumato.studio.web.pages import form, go, listed, page

PLAN, RELEASE, SIGNED = "plan", "release", "sign-off"
DRAWN = "a plan is drawn"
"""What the journal says when a plan is drawn."""
NAME, PATH = "Sign and publish", "/sign"


def step(desk: Desk) -> Step:
    """Return how far signing and publishing are."""
    if desk.workspace.made(RELEASE) is None:
        has_plan = desk.workspace.is_current(PLAN)
        return Step(NAME, PATH, "a plan waits for you" if has_plan else "not yet", "open")
    current = desk.workspace.is_current(RELEASE)
    return Step(NAME, PATH, "published" if current else "published, by an earlier policy", "fine")


def show(request: Request) -> Response:
    """Show the plan to sign, and what was published."""
    desk = desk_of(request)
    release = desk.workspace.made(RELEASE)
    plan, damaged = _readable(desk)
    return page(
        request,
        "sign.html",
        problem=desk.problem() if not desk.workspace.is_empty else None,
        plan=plan,
        damaged=damaged,
        draws=draws(desk),
        today=datetime.date.today().isoformat(),
        output=desk.workspace.new(RELEASE).name,
        release=release,
        verification=None if release is None else desk.verified(release),
    )


def waiting(desk: Desk) -> Plan | None:
    """Return the plan that can be signed: the last one, if it is of the policy as it stands."""
    file = desk.workspace.made(PLAN)
    return load_plan(file) if file is not None and desk.workspace.is_current(PLAN) else None


def _readable(desk: Desk) -> tuple[Plan | None, SfumatoError | None]:
    """Return the plan that can be signed, or why its file cannot be read."""
    try:
        return waiting(desk), None
    except SfumatoError as problem:
        return None, problem


def draws(desk: Desk) -> int:
    """Return how many plans were drawn at this desk, whatever the policy was: each tells something that plans hide."""
    return sum(line["what"] == DRAWN for line in desk.workspace.journal())


def to_accept(plan: Plan) -> list[str]:
    """Return what somebody accepts who signs, each to be ticked by itself."""
    facts = [f"Computed from the table, and told by the release: {fact}." for fact in plan.computed_from_table]
    return [*plan.guarantee.limits, *facts]


def prepare(request: Request) -> Response:
    """Make the plan to sign, in a job."""
    with changing(request) as desk:
        stated, policy = desk.workspace.file, desk.policy()  # of this policy, whatever stands when the plan is ready
        counted = desk.counts(policy)
        file = desk.workspace.new(PLAN, ".json")

        def keep(plan_hash: str) -> None:
            desk.workspace.remember(PLAN, file, stated, plan_hash=plan_hash)

        desk.jobs.check_free()
        if policy.method.draws_plan:  # noted before it is drawn: nobody can look at it and say nothing
            desk.workspace.note(DRAWN, policy=stated.name, method=policy.method.name, draw=draws(desk) + 1)
        desk.jobs.start("Preparing the plan", work.sign, desk.table, stated, file, counted, then=keep, makes=file)
    return go("/sign")


def publish(request: Request) -> Response:
    """Publish the plan that somebody signed."""
    desk, sent = desk_of(request), form(request)
    desk.jobs.check_free()
    policy, plan, file = desk.workspace.file, waiting(desk), desk.workspace.made(PLAN)
    if plan is None or file is None:
        raise UsageError("There is no plan of the policy as it stands.", "Prepare the plan first, and read it.")
    plan_hash = plan.to_dict()["plan_hash"]
    if sent.get("plan_hash") != plan_hash:
        raise UsageError(
            "Another plan was prepared since this page was loaded.", "Load the page again, and read the plan."
        )
    _check_ticked(plan, listed(request, "accept"))
    name = sent.get("name", "").strip()
    if not name:
        raise UsageError("Nobody has signed.", "Write your name.")
    folder = desk.allowed(_output(desk, sent.get("output", "")))
    check_new(folder)  # before anything is signed
    signed = {
        "plan_hash": plan_hash,
        "plan": file.name,
        "policy": policy.name,
        "release": str(folder),
        "promise": plan.guarantee.sentence,
        "accepted": to_accept(plan),
        **({"plans_drawn": draws(desk)} if desk.policy().method.draws_plan else {}),
        "name": name,
        "office": sent.get("office", "").strip(),
        "date": sent.get("date", "") or datetime.date.today().isoformat(),
    }
    record = desk.workspace.new(SIGNED, ".json")
    write_private(record, json.dumps(signed, indent=2, ensure_ascii=False) + "\n")
    desk.workspace.remember(SIGNED, record, policy, name=name, plan_hash=plan_hash, release=str(folder))
    desk.workspace.expect(RELEASE, folder, policy)  # it can be there before anybody hears of it

    def keep(found: Verification) -> None:
        desk.keep_verified(folder, found)
        desk.workspace.remember(RELEASE, folder, policy, verified=found.holds)

    desk.jobs.start("Publishing", work.publish, desk.table, policy, file, folder, then=keep, makes=folder)
    return go("/sign")


def verify(request: Request) -> Response:
    """Verify the release again, in a job: it reads every row."""
    desk = desk_of(request)
    release = desk.workspace.made(RELEASE)
    if release is None:
        raise UsageError("There is no release yet.", "Publish one first.")

    def keep(found: Verification) -> None:
        desk.keep_verified(release, found)
        desk.workspace.note("release verified", file=str(release), verified=found.holds)

    desk.jobs.start("Verifying", work.verify, release, then=keep)
    return go("/sign")


def _check_ticked(plan: Plan, ticked: list[str]) -> None:
    """Raise unless every limit was accepted, one by one."""
    asked = to_accept(plan)
    left = [text for number, text in enumerate(asked) if str(number) not in ticked]
    if left:
        raise UsageError(
            f"{len(left)} of {len(asked)} limits are not ticked. The first is: {left[0]}",
            "Tick each limit that you accept. If you do not accept one, change the policy instead.",
        )


def _output(desk: Desk, name: str) -> Path:
    """Return where the release goes: a new folder in the workspace, or a path below a folder that the user named."""
    if not name.strip():
        raise UsageError("The release has no name.", "Write the name of a new folder.")
    return desk.workspace.folder / name.strip()


ROUTES = (
    Route("/sign", show),
    Route("/sign/prepare", prepare, methods=["POST"]),
    Route("/sign/publish", publish, methods=["POST"]),
    Route("/sign/verify", verify, methods=["POST"]),
)
