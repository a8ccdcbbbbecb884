"""`sfumato audit` on the command line: the record, exit codes, what is refused."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.auditor.record import AUDIT_VERSION
from tests.cli.test_commands import POLICY, as_json, run
from tests.engines.tools import patients

AUDIT = ("audit", "t.parquet", "r", "--policy", "policy.toml")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pq.write_table(patients(), tmp_path / "t.parquet")
    (tmp_path / "policy.toml").write_text(POLICY)
    monkeypatch.chdir(tmp_path)
    code, _, err = run("publish", "t.parquet", "policy.toml", "-o", "r")
    assert code == 0, err
    return tmp_path


def test_the_record_is_what_is_printed() -> None:
    code, out, err = run(*AUDIT, "--seed", "3", "-o", "audit.json")
    assert code == 0, err
    assert "HOLDS: the promise is kept" in out
    assert "Wrote audit.json" in out
    record, again = json.loads(Path("audit.json").read_text()), as_json(*AUDIT, "--seed", "3")
    assert record["seed"] == 3
    assert record["holds"]
    for changing in ("created", "seconds"):
        del record[changing], again[changing]
    assert record == again


def test_the_record_is_dated_versioned_and_read_back() -> None:
    """What is written is what the library returns, as plain JSON, after one reading and one writing."""
    code, _, err = run(*AUDIT, "--seed", "3", "-o", "audit.json")
    assert code == 0, err
    text = Path("audit.json").read_text(encoding="utf-8")
    record = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is no JSON"))
    assert record["audit_version"] == AUDIT_VERSION
    created = datetime.fromisoformat(record["created"])
    assert created.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - created) < timedelta(hours=1)
    assert record["software"] == f"sfumato {version('sfumato')}"
    assert text == f"{json.dumps(record, indent=2, ensure_ascii=False)}\n"
    again = sf.audit(sf.scan("t.parquet", sf.Policy.load("policy.toml")), sf.open_release("r"), seed=3).to_dict()
    for changing in ("created", "seconds"):
        del record[changing], again[changing]
    assert record == again


def test_what_attackers_are_given() -> None:
    pacsv.write_csv(patients().select(["name"]).slice(0, 5), "known.csv")
    pacsv.write_csv(patients().select(["age", "sex"]).slice(0, 5), "register.csv")
    Path("prior.csv").write_text(
        "sex,value,probability\n"
        + "\n".join(f"{sex},{d},0.25" for sex in "FM" for d in ("asthma", "flu", "gout", "mumps"))
    )
    found = as_json(*AUDIT, "--known", "known.csv", "--external", "register.csv", "--prior", "prior.csv")
    told = {(finding["attacker"], finding["about"]) for finding in found["findings"]}
    assert {("register", "row"), ("register", "value"), ("background", "sex (prior.csv)")} <= told


def test_something_above_the_bound_is_exit_code_1() -> None:
    rows = patients()
    pacsv.write_csv(rows.drop_columns(["name"]), "other.csv")
    Path("l.toml").write_text(POLICY.replace("uniform", "anatomy").replace("rho1 = 0.2\nrho2 = 0.5", "l = 3"))
    found = as_json("audit", "t.parquet", "--published", "other.csv", "--policy", "l.toml", code=1)
    assert not found["holds"]
    assert found["worst_verdict"] == "above the bound"
    assert found["release_id"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("audit", "t.parquet", "r"), "needs the policy"),
        (("audit", "t.parquet", "--policy", "policy.toml"), "of a release, or of a table"),
        ((*AUDIT, "--published", "t.parquet"), "of a release, or of a table"),
        ((*AUDIT, "-o", "r/audit.json"), "lies in the release"),
        ((*AUDIT, "-o", "t.parquet"), "exists already"),
        ((*AUDIT, "-o", "absent/audit.json"), "There is no folder 'absent'"),
        ((*AUDIT, "-o", "r2/audit.json"), "lies in the release"),
        ((*AUDIT, "-o", "r2/deeper/audit.json"), "lies in the release"),
        (
            ("audit", "t.parquet", "--published", "t.parquet", "--policy", "policy.toml", "-o", "r2/audit.json"),
            "lies in the release",
        ),
        (("audit", "t.parquet", "absent", "--policy", "policy.toml"), "There is no release"),
    ],
)
def test_wrong_use(arguments: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told before the attackers begin."""
    Path("r2/deeper").mkdir(parents=True)
    Path("r2/manifest.json").write_text("{}")
    monkeypatch.setattr(
        import_module("sfumato.auditor.audit"), "audit", lambda *_, **__: pytest.fail("the audit began")
    )
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err


def test_members_and_registers_go_with_other_tables_too() -> None:
    rows = patients()
    other = rows.drop_columns(["name"]).set_column(0, "age", [["*"] * rows.num_rows])
    pacsv.write_csv(other, "other.csv")
    pacsv.write_csv(rows.select(["name"]).slice(0, 5), "known.csv")
    pacsv.write_csv(rows.select(["age", "sex"]).slice(0, 5), "register.csv")
    given = ("--known", "known.csv", "--external", "register.csv")
    found = as_json("audit", "t.parquet", "--published", "other.csv", "--policy", "policy.toml", *given)
    told = {(finding["attacker"], finding["about"]): finding for finding in found["findings"]}
    assert told["corruption", ""]["records"] == 295
    assert told["register", "row"]["records"] == 5


def test_words_that_were_used_twice_are_found_and_end_in_exit_code_1() -> None:
    """A seed gives two releases the same words; a fresh key does not."""
    for name in ("a", "b"):
        assert run("publish", "t.parquet", "policy.toml", "-o", name, "--seed", "5")[0] == 0
    code, out, _ = run("audit", "t.parquet", "b", "--policy", "policy.toml", "--earlier", "a")
    assert code == 1
    assert "The same words were used in both releases" in " ".join(out.split())
    assert "HOLDS" not in out
    assert run(*AUDIT, "--earlier", "a")[0] == 0
    code, _, err = run(*AUDIT, "--earlier", "r")
    assert (code, "The earlier release is the audited one" in err) == (2, True)
