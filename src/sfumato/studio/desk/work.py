"""What a desk has done in other processes: the functions that the command line calls, with their progress."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from sfumato.engines.embedded.sources import open_source
from sfumato.methods.plan import Plan
from sfumato.publisher.policy import Policy
from sfumato.publisher.proposal import Proposal, proposal, with_delimiter
from sfumato.publisher.survey import findings
from sfumato.publisher.survey.found import Findings
from sfumato.publisher.survey.overview import Overview, overview
from sfumato.publisher.table import Table, check_original, profile, scan
from sfumato.release.verify.verification import Verification
from sfumato.show.private import write_private
from sfumato.studio.desk.jobs import Report
from sfumato.values.arrays import Progress
from sfumato.values.profile import Profile
from sfumato.values.section import InputRule


def look(report: Report, table: Path, rule: InputRule) -> Overview:
    """Look at the columns and the first rows of a table."""
    source, _ = with_delimiter(open_source(table, rule))
    return overview(source, rows_told(report, "Reading the columns", getattr(source, "rows", None)))


def propose(report: Report, table: Path) -> Proposal:
    """Return the policy that `sfumato init` proposes, with its reasons."""
    check_original(table)
    source = open_source(table)
    return proposal(source, progress=rows_told(report, "Guessing what columns are", getattr(source, "rows", None)))


def check(report: Report, table: Path, policy: Path, described: Overview) -> Findings:
    """Look for what is wrong with columns as a policy would publish them."""
    opened = scan(table, Policy.load(policy))
    columns = [replace(c.facts, role=opened.schema[c.name].role) for c in described.columns]
    return findings(opened, columns, described.rows, rows_told(report, "Checking", described.rows))


def count(report: Report, table: Path, policy: Path) -> Profile:
    """Count a table under a policy."""
    opened = scan(table, Policy.load(policy))
    return profile(opened, rows_told(report, "Counting", _rows(opened)), uniqueness=True)


def sign(report: Report, table: Path, policy: Path, file: Path, counted: Profile | None) -> str:
    """Plan what will be published, rehearse it, and write the plan; return its hash.

    `counted`: what was counted under this policy, if it was; a table is not counted twice.
    """
    from sfumato.methods import plan
    from sfumato.publisher.publish import to_sign

    opened = scan(table, Policy.load(policy))
    stated = opened.policy
    if counted is None:
        counted = profile(opened, rows_told(report, "Counting", _rows(opened)), uniqueness=True)
    report("Planning", 0, None)
    made = plan(counted, stated.method, stated.requirement)
    made = to_sign(opened, made, rows_told(report, "Reading every row, to see what would be refused", _rows(opened)))
    write_private(file, made.to_json())
    return str(made.to_dict()["plan_hash"])


def publish(report: Report, table: Path, policy: Path, plan: Path, folder: Path) -> Verification:
    """Publish a plan and verify the release."""
    from sfumato.methods import load_plan
    from sfumato.publisher.publish import publish, rows_read

    opened, made = scan(table, Policy.load(policy)), load_plan(plan)
    release = publish(opened, made, folder, progress=rows_told(report, "Writing the release", rows_read(made)))
    report("Verifying the release", 0, None)
    return release.verify()


def verify(report: Report, release: Path) -> Verification:
    """Check everything that a release can prove by itself."""
    from sfumato.analyst.release import open_release

    report("Verifying the release", 0, None)
    return open_release(release).verify()


def audit(report: Report, table: Path, policy: Path, release: Path, file: Path) -> str:
    """Let attackers loose on a release, and write the record; return the worst verdict."""
    from sfumato.analyst.release import open_release
    from sfumato.auditor.audit import audit

    opened = scan(table, Policy.load(policy))
    found = audit(opened, open_release(release), progress=_steps_told(report, "Attacker"))
    write_private(file, json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False))
    return found.worst_verdict


def write_report(
    report: Report,
    table: Path,
    policy: Path,
    release: Path,
    record: Path,
    comparison: Path | None,
    plan: Path | None,
    file: Path,
) -> None:
    """Write the report of a release from the record of its audit; of a comparison and the signed plan if there are."""
    from sfumato.analyst.release import open_release
    from sfumato.auditor.report.reporting import load_comparison, load_record
    from sfumato.auditor.report.reporting import report as write

    report("Writing the report", 0, None)
    opened = open_release(release)
    methods = [] if comparison is None else load_comparison(comparison, opened)
    read = scan(table, Policy.load(policy))
    write(load_record(record), file, release=opened, table=read, methods=methods, plan=plan)


def compare(report: Report, table: Path, policy: Path, file: Path) -> int:
    """Compare all methods at the policy's requirement, and write the record; return how many were measured."""
    from sfumato.auditor.compare.compare import compare

    told = _steps_told(report, "Method")
    found = compare(scan(table, Policy.load(policy)), progress=told, announce=lambda text: report(text, 0, None))
    write_private(file, json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False))
    return sum(each.figures is not None for each in found.methods)


def _steps_told(report: Report, what: str) -> Callable[[str, float, int], None]:
    """Return a function to tell of steps, for a job's report."""
    return lambda step, done, steps: report(f"{what}: {step}", done, steps)


def try_plan(report: Report, counted: Profile, policy: Path) -> Plan:
    """Plan what takes long; nothing is drawn that a release would repeat."""
    from sfumato.methods import plan

    report("Planning", 0, None)
    asked = Policy.load(policy)
    return plan(counted, asked.method, asked.requirement)


def _rows(table: Table) -> int | None:
    return getattr(table.source, "rows", None)


def rows_told(report: Report, step: str, total: int | None) -> Progress:
    """Return a function to tell of rows, for a job's report."""
    done = 0

    def told(rows: int) -> None:
        nonlocal done
        done += rows
        report(step, done, total)

    report(step, 0, total)
    return told
