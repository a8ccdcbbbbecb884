"""The story of a desk by its own forms: a plan is prepared, signed, published, verified, audited and reported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from sfumato.cli.demo import POLICY, clinic
from sfumato.studio.desk.app import desk_app
from sfumato.studio.desk.desk import open_desk
from tests.studio.served import served
from tests.studio.tables import At

MAIN = "from sfumato.cli.main import main; main()"


def do(at: At, path: str, *fields: tuple[str, str]) -> str:
    """Send a form, wait for the job that it begins, and return the page that it leads to."""
    answer = at.post(path, *fields)
    assert answer.status == 303, answer.text
    assert at.desk.jobs.last is None or at.desk.jobs.last.problem is None, at.desk.jobs.last
    return at.site.get(answer.headers["location"]).text


def _clinic(folder: Path, policy: str = POLICY) -> Path:
    pq.write_table(clinic(2000), folder / "clinic.parquet")
    (folder / "policy.toml").write_text(policy)
    return folder / "clinic.parquet"


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    desk = open_desk(_clinic(tmp_path), tmp_path / "policy.toml", None)
    with served(lambda csrf: desk_app(desk, csrf)) as site:
        yield At(desk, site)


def _signed(at: At, *more: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the form with everything ticked."""
    page = at.site.get("/sign").text
    numbers, plans = (re.findall(rf'name="{name}" value="(\w+)"', page) for name in ("accept", "plan_hash"))
    assert numbers
    fields = [("plan_hash", plans[0]), ("name", "R. Stone"), ("output", "release")]
    return [*(("accept", number) for number in numbers), *fields, *more]


def test_from_a_policy_to_an_audited_release(at: At) -> None:
    page = do(at, "/sign/prepare")
    assert "What you sign" in page
    page = do(at, "/sign/publish", *_signed(at, ("office", "Data office")))
    assert "every check that a release can prove by itself holds" in page
    release = at.desk.workspace.made("release")
    assert release is not None
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["status"] == "release"
    signed = json.loads((at.desk.workspace.folder / "sign-off.json").read_text())
    plan = json.loads((at.desk.workspace.folder / "plan.json").read_text())
    assert (signed["name"], signed["office"], signed["plan_hash"]) == ("R. Stone", "Data office", plan["plan_hash"])
    assert signed["accepted"] == [
        *plan["guarantee"]["limits"],
        *(f"Computed from the table, and told by the release: {fact}." for fact in plan["computed_from_table"]),
    ]
    page = do(at, "/audit/run")
    assert "within the promise" in page
    assert "nothing is promised here" in page
    assert "An attacker is above the promise" not in page
    page = do(at, "/audit/report")
    report = at.site.get("/audit/report.html")
    assert report.headers["content-disposition"].startswith("attachment")
    assert report.text.startswith("<!doctype html>") or report.text.startswith("<!DOCTYPE html>")
    whats = [line["what"] for line in at.desk.workspace.journal()][::-1]
    assert whats == [
        "began with policy.toml", "plan made", "sign-off made", "release made", "audit made", "report made",
    ]  # fmt: skip


def test_the_commands_that_are_shown_give_the_same_plan(at: At, tmp_path: Path) -> None:
    do(at, "/sign/prepare")
    plan = json.loads((at.desk.workspace.folder / "plan.json").read_text())
    shown = at.site.get("/commands").text
    assert "sfumato plan" in shown
    from sfumato.studio.desk.commands import commands

    line = next(line for line in commands(at.desk).shell if line.startswith("sfumato plan"))
    again = tmp_path / "plan-again.json"
    command = line.replace("-o plan.json", f"-o {again}").split(" ", 1)[1]
    subprocess.run([sys.executable, "-c", MAIN, *command.split()], check=True, capture_output=True)
    assert json.loads(again.read_text()) == plan  # hash and all
    code = commands(at.desk).python.replace("'release'", repr(str(tmp_path / "by-python")))
    (tmp_path / "story.py").write_text(code)
    done = subprocess.run([sys.executable, str(tmp_path / "story.py")], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines()[0] == plan["plan_hash"]


def test_nothing_is_published_unless_every_limit_is_ticked_and_somebody_signs(at: At) -> None:
    do(at, "/sign/prepare")
    whole = _signed(at)
    for wrong, told in (
        (whole[1:], "limits are not ticked"),
        ([pair for pair in whole if pair[0] != "name"], "Nobody has signed"),
        ([*whole, ("name", "  ")], "Nobody has signed"),
        ([*whole, ("output", "")], "The release has no name"),
        ([*whole, ("output", "../../../outside/release")], "lies outside of the folders"),
    ):
        answer = at.site.post("/sign/publish", wrong)
        assert answer.status == 422, told
        assert told in answer.text
    assert at.desk.workspace.made("release") is None
    assert not (at.desk.workspace.folder / "sign-off.json").exists()


def test_a_plan_of_another_policy_cannot_be_signed(at: At) -> None:
    do(at, "/sign/prepare")
    fields = _signed(at)
    at.desk.change({**at.desk.raw, "requirement": {"rho1": 0.2, "rho2": 0.4}}, "stricter")
    answer = at.site.post("/sign/publish", fields)
    assert (answer.status, "There is no plan of the policy as it stands" in answer.text) == (422, True)
    at.send("/undo", ("back", "/sign"))
    assert "What you sign" in at.site.get("/sign").text  # the plan of the policy that stands again


def test_a_table_that_changed_since_is_not_published(at: At) -> None:
    do(at, "/sign/prepare")
    pq.write_table(clinic(1999), at.desk.table)
    at.site.post("/sign/publish", _signed(at))
    at.desk.jobs.wait()
    assert "The table is not the one that was planned" in at.site.get("/sign").text
    assert at.desk.workspace.made("release") is None


def test_a_desk_goes_on_after_its_server_was_ended(at: At) -> None:
    do(at, "/sign/prepare")
    again = open_desk(at.desk.table, None, None)
    assert again.workspace.is_current("plan")
    with served(lambda csrf: desk_app(again, csrf)) as site:
        assert "What you sign" in site.get("/sign").text


def test_methods_are_compared_on_the_page(at: At) -> None:
    page = do(at, "/compare/run")
    assert "What to take" in page
    assert "If people may recognise rows and must not learn" in page
    assert "Error of the same counts" in page
    assert page.count("<h3>") >= 4
    at.desk.change({**at.desk.raw, "requirement": {"rho1": 0.2, "rho2": 0.4}}, "stricter")
    assert "The policy has changed since this comparison" in at.site.get("/compare").text


def test_a_path_to_lead_back_to_is_one_of_ours(at: At) -> None:
    for path in ("//evil.example", "https://evil.example", ""):
        assert at.send("/undo", ("back", path)).headers["location"] == "/"


def test_a_plan_is_of_the_policy_that_it_was_made_from(at: At) -> None:
    at.send("/sign/prepare")
    at.desk.change({**at.desk.raw, "requirement": {"rho1": 0.2, "rho2": 0.4}}, "while it is being prepared")
    at.desk.jobs.wait()
    assert "What you sign" not in at.site.get("/sign").text
    at.send("/undo")
    assert "What you sign" in at.site.get("/sign").text


def test_a_plan_that_nobody_has_read_cannot_be_signed(at: At) -> None:
    do(at, "/sign/prepare")
    fields = _signed(at)
    do(at, "/sign/prepare")  # in another tab, of a table that has changed
    assert at.site.post("/sign/publish", [*fields, ("plan_hash", "0" * 64)]).status == 422
    assert at.desk.workspace.made("sign-off") is None


def test_an_audit_of_an_earlier_release_says_nothing_of_this_one(at: At) -> None:
    for name in ("first", "second"):
        do(at, "/sign/prepare")
        do(at, "/sign/publish", *_signed(at), ("output", name))
        page = at.site.get("/audit").text
        assert "above the promise" not in page, name
        assert at.site.post("/audit/report").status == 422
        if name == "first":
            do(at, "/audit/run")


def test_a_table_that_changed_is_counted_again(at: At) -> None:
    at.site.get("/requirement")
    at.desk.jobs.wait()
    policy = at.desk.policy()
    assert at.desk.counts(policy) is not None
    pq.write_table(clinic(1999), at.desk.table)
    assert at.desk.counts(policy) is None
    do(at, "/sign/prepare")
    plan = json.loads((at.desk.workspace.folder / "plan.json").read_text())
    assert plan["rows"] == 1999


def test_a_name_that_is_taken_is_refused_before_anything_is_signed(at: At) -> None:
    do(at, "/sign/prepare")
    (at.desk.workspace.folder / "release").mkdir()
    assert at.site.post("/sign/publish", _signed(at)).status == 422
    assert at.desk.workspace.made("sign-off") is None


def test_roles_go_to_the_columns_that_the_page_named(at: At) -> None:
    """A page that was loaded before the columns were listed anew counts them in another order."""
    before = at.desk.workspace.text
    for sent in ([("0.here", "age"), ("0.role", "drop")], [("99.here", "name"), ("99.role", "drop")]):
        answer = at.send("/roles", *sent)
        assert (answer.status, "in another order" in answer.text) == (422, True)
    assert at.desk.workspace.text == before
