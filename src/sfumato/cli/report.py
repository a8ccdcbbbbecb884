"""`sfumato report`: the audit of a release as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import show
from sfumato.cli.base import Json, PolicyPath, ReleasePath, TablePath
from sfumato.errors import UsageError


def report(
    table: TablePath,
    policy: PolicyPath,
    release: ReleasePath,
    output: Annotated[Path, typer.Option("--output", "-o", help="The new page, outside of the release.")],
    public: Annotated[
        bool, typer.Option("--public", help="Without private figures: from the release, and verdicts in words.")
    ] = False,
    audit_file: Annotated[
        Path | None, typer.Option("--audit", help="The record of an audit (sfumato audit -o); else one is made.")
    ] = None,
    comparison: Annotated[
        Path | None, typer.Option("--comparison", help="A record of sfumato compare: other methods, on a private page.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes the simulations of the audit repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a release as one HTML page: the story, matrix, counts, attackers, limits. Private, unless
    --public."""
    from sfumato.analyst.release import open_release
    from sfumato.auditor.audit import audit
    from sfumato.auditor.report.reporting import check_place, load_comparison, load_record, report
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan

    if audit_file is not None and seed is not None:
        raise UsageError("The seed is for a new audit, and --audit gives one.", "Leave one of them out.")
    opened, given = open_release(release), Policy.load(policy)
    check_place(output, public)
    methods = [] if comparison is None else load_comparison(comparison, opened)
    scanned = scan(table, given)
    if audit_file is None:
        with show.step_bar(as_json) as progress:
            found = audit(scanned, opened, seed=seed, progress=progress).to_dict()
    else:
        found = load_record(audit_file)
    report(found, output, release=opened, table=scanned, methods=methods, public=public)
    if as_json:
        show.print_json({"file": str(output), "public": public})
    else:
        print(f"Wrote {output}. {'It holds no private figures.' if public else 'Private: keep it out of the release.'}")


COMMANDS = (("report", "sfumato report patients.parquet policy.toml release/ -o audit.html", report),)
"""Name, example and function of each."""
