"""What is changed: real files of every kind, made once in a folder by the commands that make them for people."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow.csv as pc
import pyarrow.parquet as pq

from sfumato.cli.main import app
from tests.golden.cases import CASES, FILES, KEY_FILE, table

RELEASES = (
    "uniform",
    "uniform, missing is a value",
    "fine-grain",
    "fine-grain, two columns",
    "subset, sets",
    "subset, graded cards",
    "ranges",
    "plateau",
    "geometric",
    "several",
    "small-domain",
    "randomized-response",
    "anatomy",
    "suppression",
    "robust-anatomy",
)
"""The cases of which there are plans and releases."""
AS_CSV = ("uniform", "anatomy", "subset, sets")
"""Those of which there are releases as CSV too."""
AUDITED = "uniform"
ROWS = 200
HIERARCHIES = {"sex.csv": "F;*\nM;*\n", "region.csv": "north;land;*\neast;land;*\nsea;sea;*\n"}


def command(*arguments: str | Path) -> None:
    """Run a command that must go well."""
    app([str(argument) for argument in arguments], standalone_mode=False)


def slug(name: str) -> str:
    """Return the name of a case as that of a file."""
    return "".join(c if c.isalnum() else "-" for c in name)


def make(folder: Path) -> None:
    """Make all seeds."""
    for part in ("policies", "plans", "releases", "records", "files"):
        (folder / part).mkdir(parents=True)
    whole = table()
    pq.write_table(whole, folder / "table.parquet")
    pq.write_table(whole.slice(0, ROWS), folder / "small.parquet")
    pc.write_csv(whole.slice(0, ROWS), folder / "small.csv")
    pc.write_csv(whole, folder / "table.csv", pc.WriteOptions(delimiter=";"))
    for name, text in FILES.items():
        (folder / "policies" / name).write_text(text)
    for name, text in HIERARCHIES.items():
        (folder / "files" / f"hierarchy-{name}").write_text(text)
    (folder / "files" / "key").write_text(KEY_FILE + "\n")
    (folder / "files" / "key").chmod(0o600)
    for case in CASES.values():
        (folder / "policies" / f"{slug(case.name)}.toml").write_text(case.policy)
    for name in RELEASES:
        policy, plan = folder / "policies" / f"{slug(name)}.toml", folder / "plans" / f"{slug(name)}.json"
        command("plan", folder / "table.parquet", policy, "-o", plan)
        command("publish", folder / "table.parquet", policy, "--seed", "1", "-o", folder / "releases" / slug(name))
    for name in AS_CSV:
        policy = folder / "policies" / f"{slug(name)}-csv.toml"
        policy.write_text(CASES[name].policy + '\n[output]\nformat = "csv"\n')
        command(
            "publish", folder / "table.parquet", policy, "--seed", "1", "-o", folder / "releases" / f"{slug(name)}-csv"
        )
    _records(folder)


def _records(folder: Path) -> None:
    policy, records, files = folder / "policies" / f"{AUDITED}.toml", folder / "records", folder / "files"
    release, table = folder / "releases" / AUDITED, folder / "table.parquet"
    command("audit", table, policy, release, "--seed", "1", "-o", records / "audit.json")
    only = ("--method", "subset", "--repeat", "1", "--seed", "1")
    command("compare", table, policy, *only, "-o", records / "comparison.json")
    page, certificate = records / "page.html", records / "certificate.json"
    command(
        "report", table, policy, release, "--audit", records / "audit.json", "-o", page, "--certificate", certificate
    )
    rows = pq.read_table(table)
    pc.write_csv(rows.select(["age", "sex", "region"]).slice(0, 5), files / "known.csv")
    pc.write_csv(rows.select(["name", "age", "sex", "region"]).slice(0, 50), files / "external.csv")
    shutil.copy(folder / "releases" / f"{AUDITED}-csv" / "data.csv", files / "published.csv")
    shutil.copy(folder / "policies" / "sex.csv", files / "prior.csv")
