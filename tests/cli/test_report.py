"""`sfumato report`: the page from the command line, with an audit of its own or a kept one; and refusals."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import as_json, folder, run

__all__ = ["folder"]
GIVEN = ("t.parquet", "policy.toml", "release")


@pytest.fixture(autouse=True)
def published(folder: Path) -> Path:
    assert run("publish", "t.parquet", "policy.toml", "-o", "release")[0] == 0
    return folder


def test_a_page_with_an_audit_of_its_own_and_with_a_kept_one() -> None:
    assert as_json("report", *GIVEN, "-o", "new.html") == {"file": "new.html", "public": False, "certificate": None}
    assert run("audit", "t.parquet", "release", "--policy", "policy.toml", "-o", "audit.json")[0] == 0
    code, out, err = run("report", *GIVEN, "-o", "kept.html", "--audit", "audit.json")
    assert (code, out) == (0, "Wrote kept.html. Private: keep it out of the release.\n"), err
    for page in ("new.html", "kept.html"):
        assert "What attackers reach" in Path(page).read_text(encoding="utf-8")


def test_a_seed_makes_the_page_the_same() -> None:
    for page in ("one.html", "two.html"):
        assert run("report", *GIVEN, "-o", page, "--seed", "3")[0] == 0
    assert Path("one.html").read_bytes() == Path("two.html").read_bytes()


def test_a_kept_audit_goes_with_its_table_and_policy_only() -> None:
    assert run("audit", "t.parquet", "release", "--policy", "policy.toml", "-o", "audit.json")[0] == 0
    pq.write_table(pq.read_table("t.parquet").slice(1), "other.parquet")
    text = Path("policy.toml").read_text()
    Path("other.toml").write_text(text.replace("rho2 = 0.5", "rho2 = 0.6"))
    for given, message in (
        (("t.parquet", "other.toml", "release"), "policy is not the one"),
        (("other.parquet", "policy.toml", "release"), "not made from this table"),
    ):
        code, _, err = run("report", *given, "-o", "x.html", "--audit", "audit.json")
        assert (code, message in err) == (2, True), err


def test_a_public_page_and_the_release_stays_as_it_was() -> None:
    code, out, err = run("report", *GIVEN, "-o", "public.html", "--public")
    assert (code, out) == (0, "Wrote public.html. It holds no private figures.\n"), err
    assert run("verify", "release")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-o", "release/audit.html"], "lies inside the release"),
        (["-o", "release/public.html", "--public"], "lies inside the release"),
        (["-o", "nowhere/audit.html", "--audit", "audit.json"], "There is no folder"),
        (["-o", "policy.toml", "--audit", "audit.json"], "exists already"),
        (["-o", "x.html", "--audit", "policy.toml"], "is not the record of an audit"),
        (["-o", "x.html", "--audit", "missing.json"], "is not the record of an audit"),
        (["-o", "x.html", "--audit", "audit.json", "--seed", "1"], "The seed is for a new audit"),
    ],
)
def test_what_is_refused(arguments: list[str], message: str) -> None:
    assert run("audit", "t.parquet", "release", "--policy", "policy.toml", "-o", "audit.json")[0] == 0
    code, _, err = run("report", *GIVEN, *arguments)
    assert (code, message in err) == (2, True), err
    assert not Path("x.html").exists()


def test_a_certificate_is_written_and_checked() -> None:
    assert run("plan", "t.parquet", "policy.toml", "-o", "plan.json")[0] == 0
    made = as_json("report", *GIVEN, "-o", "r.html", "--certificate", "c.json", "--plan", "plan.json", "--seed", "1")
    assert made == {"file": "r.html", "public": False, "certificate": "c.json"}
    assert run("verify", "release", "--certificate", "c.json")[0] == 0
    checks = as_json("verify", "release", "--certificate", "c.json")["checks"]
    named = {check["name"]: check["status"] for check in checks if check["name"].startswith("certificate")}
    assert named["certificate, card"] == "holds"
    assert named["certificate, plan"] == "needs audit"
    Path("c.json").write_text(Path("c.json").read_text().replace('"withheld": 0', '"withheld": 1'))
    assert run("verify", "release", "--certificate", "c.json")[0] == 1


def test_the_page_to_sign_names_the_plan_that_was_signed_off() -> None:
    """Without a certificate, too; of another table's plan nothing is written."""
    told = run("plan", "t.parquet", "policy.toml", "-o", "plan.json")[1]
    number = told.split("plan.json, plan ")[1].split(".")[0]
    code, _, err = run("report", *GIVEN, "-o", "r.html", "--plan", "plan.json", "--seed", "1")
    assert code == 0, err
    assert f"{number}: it was signed off" in Path("r.html").read_text(encoding="utf-8")
    pq.write_table(pq.read_table("t.parquet").slice(1), "other.parquet")
    assert run("plan", "other.parquet", "policy.toml", "-o", "other.json")[0] == 0
    code, _, err = run("report", *GIVEN, "-o", "x.html", "--plan", "other.json", "--seed", "1")
    assert (code, "The table is not the one that was planned" in err) == (1, True), err
    assert not Path("x.html").exists()


def test_a_public_certificate_goes_with_a_public_page() -> None:
    code, out, err = run("report", *GIVEN, "-o", "r.html", "--certificate", "c.json", "--public", "--seed", "1")
    assert (code, out) == (0, "Wrote r.html and c.json. It holds no private figures.\n"), err
    assert '"table": null' in Path("c.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--certificate", "release/c.json"], "lies inside the release"),
        (["--certificate", "policy.toml"], "exists already"),
        (["--plan", "plan.json", "--public"], "A public page names no plan, and no certificate is asked for"),
        (["--plan", "policy.toml"], "is not a plan"),
        (["--certificate", "c.json", "--plan", "policy.toml"], "plan"),
    ],
)
def test_a_certificate_that_cannot_be_made_is_refused(arguments: list[str], message: str) -> None:
    assert run("audit", "t.parquet", "release", "--policy", "policy.toml", "-o", "audit.json")[0] == 0
    code, _, err = run("report", *GIVEN, "-o", "x.html", "--audit", "audit.json", *arguments)
    assert (code, message in err) == (2, True), err
    assert not Path("x.html").exists()
