"""What may go wrong at a desk: two tabs, another table, damaged files, files of others, mistakes of ours."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from sfumato.cli.demo import POLICY, clinic
from sfumato.errors import PolicyError, UsageError
from sfumato.studio.desk.app import desk_app
from sfumato.studio.desk.desk import open_desk
from sfumato.studio.desk.workspace import Workspace
from sfumato.studio.web.pages import application
from tests.studio.served import Served, served
from tests.studio.tables import At

PAGES = ("/table", "/roles", "/requirement", "/compare", "/sign", "/audit", "/commands", "/journal")


@pytest.fixture
def at(tmp_path: Path) -> Iterator[At]:
    desk = open_desk(_clinic(tmp_path), tmp_path / "policy.toml", None)
    with served(lambda csrf: desk_app(desk, csrf)) as site:
        yield At(desk, site)


def _clinic(folder: Path, name: str = "clinic", policy: str = POLICY) -> Path:
    pq.write_table(clinic(300), folder / f"{name}.parquet")
    (folder / "policy.toml").write_text(policy)
    return folder / f"{name}.parquet"


def _requirement(rho2: str) -> list[tuple[str, str]]:
    return [("kind", "rho"), ("method", "uniform"), ("rho1", "10"), ("rho2", rho2)]


# --- two tabs ---------------------------------------------------------------------------------------------------------


def test_a_form_of_an_earlier_policy_changes_nothing(at: At) -> None:
    seen = ("seen", at.desk.workspace.name)
    assert at.site.post("/requirement", [seen, *_requirement("30")]).status == 303  # in the other tab
    stands, name = at.desk.workspace.text, at.desk.workspace.name
    forms = {
        "/requirement": _requirement("60"),
        "/roles": [("person.column", "name")],
        "/undo": [],
        "/redo": [],
        "/sign/prepare": [],
        "/requirement/preview": _requirement("60"),
        "/requirement/backwards": [*_requirement("60"), ("error", "100")],
    }
    for path, fields in forms.items():
        for sent in ([seen, *fields], fields, [("seen", ""), *fields]):
            answer = at.site.post(path, sent)
            assert answer.status == 409, path
            assert f"The policy has been changed since this page was loaded: {name} stands now." in answer.text
            assert "load the page again" in answer.text
            assert 'action="/undo"' in answer.text  # a page of the desk, from which one goes on
    assert (at.desk.workspace.text, at.desk.workspace.name) == (stands, name)
    part = at.site.post("/requirement/preview", [seen, *_requirement("60")], x_fragment="1")
    assert (part.status, part.text.startswith("<div")) == (409, True)


def test_each_page_names_the_policy_that_its_forms_were_made_from(at: At) -> None:
    for path in ("/roles", "/requirement", "/sign", "/compare"):
        field = f'name="seen" value="{at.desk.workspace.name}"'
        page = at.site.get(path).text
        assert page.count(field) == page.count('name="csrf" value') >= 3, path
        at.desk.jobs.wait()


def test_a_page_that_answers_a_form_leads_back_to_its_own(at: At) -> None:
    """A preview without scripts is the answer to a form, and its address alone shows nothing."""
    answer = at.send("/undo", ("back", "/requirement/preview"))
    assert answer.headers["location"] == "/requirement"


# --- the table --------------------------------------------------------------------------------------------------------


def test_a_folder_is_of_one_table(at: At, tmp_path: Path) -> None:
    """`clinic.parquet` and `clinic.csv` would share the folder that is named after them."""
    (tmp_path / "clinic.csv").write_text("age,diagnosis\n30,flu\n")
    with pytest.raises(UsageError, match="holds the work on another table") as refused:
        open_desk(tmp_path / "clinic.csv", None, None)
    assert "clinic.parquet" in refused.value.message
    assert "--folder NEW" in refused.value.hint
    assert open_desk(tmp_path / "clinic.csv", None, tmp_path / "new").workspace.is_empty
    assert open_desk(at.desk.table, None, None).notices == []


def test_a_folder_and_its_table_can_be_moved_together(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    open_desk(_clinic(tmp_path / "here"), tmp_path / "here" / "policy.toml", None)
    (tmp_path / "here").rename(tmp_path / "there")
    again = open_desk(tmp_path / "there" / "clinic.parquet", None, None)
    assert (again.notices, again.workspace.is_empty) == ([], False)


def test_a_desk_whose_table_was_chosen_on_the_page_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table = _clinic(tmp_path)
    open_desk(None, None, None).open(table)
    assert open_desk(None, None, None).table == table


def test_a_table_that_changed_is_noticed(at: At) -> None:
    at.get("/table")
    pq.write_table(clinic(299), at.desk.table)
    for path in PAGES:
        assert "have changed since this work was begun" in at.get(path), path
    assert "299 rows" in at.get("/table")  # read again
    assert "the table has changed" in [line["what"] for line in at.desk.workspace.journal()]
    assert "have changed" in at.get("/roles")
    pq.write_table(clinic(298), at.desk.table)
    later = open_desk(at.desk.table, None, None)  # it changed while no studio was open
    assert "have changed since" in later.notices[0]
    assert open_desk(at.desk.table, None, None).notices == []


# --- files that a method names ----------------------------------------------------------------------------------------

ONES = "flu,1\n"


def test_files_that_are_typed_on_the_page_lie_below_folders_of_the_user(
    at: At, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "matrix.csv"
    outside.write_text(ONES)
    (at.desk.table.parent / "link.csv").symlink_to(outside)
    at.get("/requirement")
    before = at.desk.workspace.text
    rho = [("kind", "rho"), ("rho1", "10"), ("rho2", "25")]
    matrix = [("method", "fine-grain"), ("fine-grain.here", "1"), *rho]
    for name in (str(outside), "../outside.csv", "/etc/passwd", "link.csv"):
        shown = at.send("/requirement/preview", *matrix, ("fine-grain.matrix", name))
        assert "lies outside of the folders" in shown.text, name
        saved = at.send("/requirement", *matrix, ("fine-grain.matrix", name))
        assert (saved.status, "lies outside of the folders" in saved.text) == (422, True), name
    assert at.desk.workspace.text == before


def test_a_file_in_a_folder_of_the_user_is_kept_by_its_whole_path(at: At) -> None:
    (at.desk.table.parent / "matrix.csv").write_text(ONES)
    at.get("/requirement")
    fields = [("method", "fine-grain"), ("fine-grain.here", "1"), ("fine-grain.matrix", "matrix.csv")]
    assert at.send("/requirement", *fields, ("kind", "rho"), ("rho1", "10"), ("rho2", "25")).status == 303
    assert at.desk.raw["method"]["matrix"] == str(at.desk.table.parent / "matrix.csv")


ROBUST = """
[method]
name = "robust-anatomy"
attribute_sets = [["age"]]
prior = ["{file}"]
[requirement]
r = 2
"""


def test_a_policy_that_names_a_file_elsewhere_is_refused(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "prior.csv"
    outside.write_text("age,diagnosis,prior\n")
    columns = POLICY[: POLICY.index("[method]")]
    table = _clinic(tmp_path, policy=columns + ROBUST.format(file=outside))
    with pytest.raises(PolicyError, match="lies outside of the folders"):
        open_desk(table, tmp_path / "policy.toml", None)
    (tmp_path / "prior.csv").write_text("age,diagnosis,prior\n")
    (tmp_path / "policy.toml").write_text(columns + ROBUST.format(file="prior.csv"))
    desk = open_desk(table, tmp_path / "policy.toml", None)
    assert desk.raw["method"]["prior"] == [str(tmp_path / "prior.csv")]
    desk.workspace.keep(desk.workspace.text.replace(str(tmp_path), str(outside.parent)), "written by hand")
    problem = desk.problem()
    assert problem is not None
    assert "lies outside of the folders" in problem.message


# --- damaged files ----------------------------------------------------------------------------------------------------

AUDIT = {
    "findings": [{
        "attacker": "a", "about": "", "scale": "risk", "verdict": "within the bound", "worst": 0.2, "promised": 0.3,
        "direction": "at most", "question": "q", "assumption": "s", "why_not_covered": "", "exposed": [],
    }],
    "not_applicable": [], "not_measured": [], "worst_verdict": "within the bound",
}  # fmt: skip
DAMAGED = (
    b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"findings": 1}', b'{"findings": [{}], "worst_verdict": "x"}',
    json.dumps({**AUDIT, "worst_verdict": "what?"}).encode(),
    json.dumps({**AUDIT, "findings": [{**AUDIT["findings"][0], "worst": "high"}]}).encode(),
    json.dumps({**AUDIT, "findings": [{**AUDIT["findings"][0], "exposed": [{"who": "x"}]}]}).encode(),
)  # fmt: skip


def _with_made(at: At, what: str, name: str, content: bytes) -> Path:
    """Note a file as made, of a release that is there."""
    space = at.desk.workspace
    release = space.folder / "release"
    release.mkdir(exist_ok=True)
    space.remember("release", release, space.file)
    (space.folder / name).write_bytes(content)
    space.remember(what, space.folder / name, space.file, about=release)
    return space.folder / name


def test_a_damaged_audit_is_told_and_every_page_goes_on(at: At) -> None:
    at.get("/requirement")
    file = _with_made(at, "audit", "audit.json", json.dumps(AUDIT).encode())
    assert "No attacker of 1 measurements is above the promise" in at.site.get("/audit").text
    for content in DAMAGED:
        file.write_bytes(content)
        page = at.site.get("/audit")
        assert page.status == 200, content
        assert f"{file}&#39; is damaged" in page.text
        assert "Audit again" in page.text
        for path in ("/sign", "/commands"):
            other = at.site.get(path)
            assert (other.status, "a file is damaged" in other.text) == (200, True)
    assert all(at.site.get(path).status == 200 for path in PAGES)


@pytest.mark.parametrize("content", DAMAGED[:7])
def test_a_damaged_plan_or_comparison_is_told(at: At, content: bytes) -> None:
    at.get("/requirement")
    for what, name, path, told in (
        ("plan", "plan.json", "/sign", "The plan that was prepared cannot be signed."),
        ("comparison", "comparison.json", "/compare", "comparison.json cannot be shown."),
    ):
        _with_made(at, what, name, content)
        page = at.site.get(path)
        assert (page.status, told in page.text) == (200, True), page.text
    assert all(at.site.get(path).status == 200 for path in PAGES)


def test_a_damaged_journal_is_told(at: At) -> None:
    with (at.desk.workspace.folder / "journal.jsonl").open("ab") as file:
        file.write(b'[1]\n"x"\n{"what": "no time"}\n{"at": 5, "what": "x"}\n\xff\xfe\n{"at": "2026')
    page = at.site.get("/journal")
    assert (page.status, "6 line(s) of the journal cannot be read" in page.text) == (200, True)
    assert "began with policy.toml" in page.text


def test_a_policy_that_is_gone_or_damaged_can_be_undone(at: At) -> None:
    at.desk.change({**at.desk.raw, "requirement": {"rho1": 0.2, "rho2": 0.4}}, "stricter")
    for content in (None, b"\xff\xfe", b"[method"):
        file = at.desk.workspace.file
        file.unlink(missing_ok=True)
        if content is not None:
            file.write_bytes(content)
        for path in PAGES:
            answer = at.site.get(path)
            assert answer.status in (200, 422), (path, answer.text)
            assert 'action="/undo"' in answer.text
        page = at.site.get("/requirement").text
        assert file.name in page
    assert at.send("/undo").status == 303
    assert all(at.site.get(path).status == 200 for path in PAGES)
    at.desk.jobs.wait()


def test_a_desk_whose_state_is_damaged_goes_on(at: At) -> None:
    at.desk.change({**at.desk.raw, "requirement": {"rho1": 0.2, "rho2": 0.4}}, "stricter")
    text = at.desk.workspace.text
    (at.desk.workspace.folder / "state.json").write_text("{")
    again = open_desk(at.desk.table, None, None)
    assert again.workspace.text == text
    with served(lambda csrf: desk_app(again, csrf)) as site:
        assert "state.damaged.json" in site.get("/commands").text
    assert open_desk(at.desk.table, None, None).notices == []


# --- mistakes of ours -------------------------------------------------------------------------------------------------


def _fails(request: Request) -> Response:
    raise KeyError("the secret value 47")


def _finds_no_file(request: Request) -> Response:
    raise PermissionError(13, "Permission denied", "state.json")


@pytest.fixture
def broken() -> Iterator[Served]:
    routes = [Route("/page", _fails, methods=["GET", "POST"]), Route("/file", _finds_no_file)]
    with served(lambda csrf: application(routes, csrf, {})) as found:
        yield found


def test_a_mistake_of_ours_has_a_page_and_the_terminal_tells_where(
    broken: Served, caplog: pytest.LogCaptureFixture
) -> None:
    for answer in (broken.get("/page"), broken.post("/page"), broken.get("/page", x_fragment="1")):
        assert answer.status == 500
        assert "This is a mistake of sfumato." in answer.text
        assert "report it, with what the terminal shows" in answer.text
        assert not any(word in answer.text for word in ("Traceback", "KeyError", "47", ".py"))
        assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert broken.get("/page", x_fragment="1").text.startswith("<div")
    assert broken.get("/page").text.startswith("<!doctype html>")
    assert "KeyError: 'the secret value 47'" in caplog.text  # which goes to the terminal


def test_a_file_that_cannot_be_written_is_no_mistake_of_ours(broken: Served) -> None:
    answer = broken.get("/file")
    assert (answer.status, "A file cannot be read or written" in answer.text) == (422, True)


# --- looking changes nothing ------------------------------------------------------------------------------------------


def _seen(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [file for file in folder.rglob("*") if file.is_file()]
    return {str(file): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


def _publish(at: At) -> None:
    assert at.post("/sign/prepare").status == 303
    page = at.get("/sign")
    plan = page.split('name="plan_hash" value="')[1].split('"')[0]
    ticked = [("accept", str(number)) for number in range(page.count('name="accept"'))]
    assert (
        at.post("/sign/publish", *ticked, ("plan_hash", plan), ("name", "R. Stone"), ("output", "release")).status
        == 303
    )


def test_to_look_at_a_release_verifies_nothing_and_changes_nothing(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    _publish(at)
    folder = at.desk.workspace.folder
    holds = "every check that a release can prove by itself holds"
    before = _seen(folder)
    monkeypatch.setattr("sfumato.analyst.release.Release.verify", lambda release: pytest.fail("verified on a look"))
    for _ in range(2):
        assert holds in at.site.get("/sign").text
    assert _seen(folder) == before
    again = open_desk(at.desk.table, None, None)
    with served(lambda csrf: desk_app(again, csrf)) as site:
        later = At(again, site)
        assert "have not been verified since the studio was started" in later.get("/sign")
        assert later.post("/sign/verify").status == 303  # in a process of its own
        assert holds in later.get("/sign")
        data = max(again.workspace.folder.joinpath("release").glob("data*"), key=lambda file: file.stat().st_size)
        data.write_bytes(data.read_bytes()[:-1] + b"x")
        assert holds not in later.get("/sign")
        assert later.post("/sign/verify").status == 303
        assert "✕ A check fails." in later.get("/sign")


# --- plans that are drawn ---------------------------------------------------------------------------------------------

DRAWN = """
[method]
name = "suppression"
[requirement]
l = 3
"""


def test_each_draw_of_a_plan_is_told_and_a_look_draws_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _clinic(tmp_path, policy=POLICY[: POLICY.index("[method]")] + DRAWN)
    desk = open_desk(table, tmp_path / "policy.toml", None)
    with served(lambda csrf: desk_app(desk, csrf)) as site:
        at = At(desk, site)
        with monkeypatch.context() as patched:
            patched.setattr(type(desk.policy().method), "plan", lambda *_, **__: pytest.fail("a plan was drawn"))
            fields = [("method", "suppression"), ("kind", "l"), ("l", "4")]
            assert "nothing is drawn here" in at.get("/requirement")
            assert "are drawn" in at.send("/requirement/preview", *fields).text
            assert at.send("/requirement/backwards", *fields, ("error", "100")).status == 422
            assert at.send("/requirement/try").status == 422
            assert at.send("/requirement", *fields).status == 303
        assert "drawn" not in str([line["what"] for line in desk.workspace.journal()])
        assert "drawn here before" not in at.get("/sign")
        assert at.post("/sign/prepare").status == 303
        assert "times at this desk" not in at.get("/sign")
        assert at.send("/requirement", ("method", "suppression"), ("kind", "l"), ("l", "3")).status == 303
        assert "A plan was drawn here before" in at.get("/sign")
        _publish(at)
        drawn = [line for line in desk.workspace.journal() if line["what"] == "a plan is drawn"]
        assert [(line["draw"], line["policy"]) for line in drawn] == [(2, "policy-0003.toml"), (1, "policy-0002.toml")]
        signed = json.loads((desk.workspace.folder / "sign-off.json").read_text())
        assert signed["plans_drawn"] == 2
        assert "Plans were drawn 2 times at this desk" in at.get("/sign")


# --- who may read the folder ------------------------------------------------------------------------------------------


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes here")
def test_a_folder_that_was_open_to_others_is_closed(at: At) -> None:
    folder = at.desk.workspace.folder
    for each in (folder, folder / "policies"):
        each.chmod(0o755)
    files = [file for file in folder.rglob("*") if file.is_file()]
    for file in files:
        file.chmod(0o644)
    Workspace(folder)
    assert [_mode(each) for each in (folder, folder / "policies")] == [0o700, 0o700]
    assert {_mode(file) for file in files} == {0o600}


@pytest.mark.skipif(os.name != "posix", reason="files have no such modes here")
def test_a_folder_of_others_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    Workspace(shared)  # empty: it becomes private
    assert _mode(shared) == 0o700
    used = tmp_path / "used"
    used.mkdir()
    used.chmod(0o755)
    (used / "notes.txt").write_text("ours")
    with pytest.raises(UsageError, match="can be read by others") as refused:
        Workspace(used)
    assert "chmod 700" in refused.value.hint
    assert (_mode(used), [file.name for file in used.iterdir()]) == (0o755, ["notes.txt"])
    used.chmod(0o700)
    assert Workspace(used).is_empty
    with pytest.raises(UsageError, match="is a file"):
        Workspace(used / "notes.txt")
    with pytest.raises(UsageError, match="cannot be made"):
        Workspace(tmp_path / "no" / "such")
