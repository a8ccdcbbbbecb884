"""The auditor's commands, given the private table: what attackers reach, which method is better, and the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.base import (
    Json,
    PolicyPath,
    ReleasePath,
    TablePath,
    Told,
    check_private,
    once,
    print_json,
    print_lines,
    step_bar,
    tell,
)
from sfumato.errors import UsageError

Record = Annotated[Path | None, typer.Option("--output", "-o", help="Keep the record, as JSON.")]
PRIVATE = "It is private: it holds figures of the true table."


def audit(
    table: TablePath,
    release: Annotated[Path | None, typer.Argument(help="The folder of a release.")] = None,
    policy: Annotated[Path | None, typer.Option("--policy", help="The policy of the publication, in TOML.")] = None,
    published: Annotated[
        Path | None, typer.Option("--published", help="A table that another tool published, instead of a release.")
    ] = None,
    prior: Annotated[
        list[Path] | None, typer.Option("--prior", help="CSV: columns of an attribute set, value, probability; repeat.")
    ] = None,
    known: Annotated[
        Path | None, typer.Option("--known", help="Members whose values are known: their quasi-identifiers or keys.")
    ] = None,
    external: Annotated[Path | None, typer.Option("--external", help="A register of people to link with.")] = None,
    earlier: Annotated[
        Path | None, typer.Option("--earlier", help="Another release of the same people: were words used twice?")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes simulations repeatable.")] = None,
    output: Record = None,
    as_json: Json = False,
) -> None:
    """Let attackers loose on a release, or on another tool's table; exit code 1 if one is above the bound. Private."""
    from sfumato.analyst.release import open_release
    from sfumato.auditor.audit import audit
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan

    if policy is None:
        raise UsageError("An audit needs the policy: it tells the roles of the columns.", "Give --policy POLICY.")
    if (release is None) == (published is None):
        raise UsageError(
            "An audit is of a release, or of a table that another tool published.",
            "Give the folder of the release, or --published FILE.",
        )
    check_private(output, "an audit")
    opened = scan(table, Policy.load(policy))
    subject = published if release is None else open_release(release)
    with step_bar(as_json) as report:
        found = audit(
            opened,
            subject,
            priors=prior or (),
            known=known,
            external=external,
            earlier=None if earlier is None else open_release(earlier),
            seed=seed,
            progress=report,
        )
    _keep(found, output)
    tell(found, as_json)
    if output is not None and not as_json:
        print(f"\nWrote {output}. {PRIVATE}")
    if not found.holds:
        raise typer.Exit(1)


def _keep(found: Told, file: Path | None) -> None:
    """Write the record of a result to a new file, if one is named."""
    from sfumato.show.files import new_file

    if file is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        with new_file(file) as partial_file:
            partial_file.write_text(f"{text}\n", encoding="utf-8")


def compare(
    table: TablePath,
    policy: PolicyPath,
    equal_risk: Annotated[
        bool, typer.Option("--equal-risk", help="Also with parameters that let as many people be guessed right.")
    ] = False,
    target: Annotated[
        float | None, typer.Option("--target", help="That share of people, instead of the policy's own method's.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", help="Releases of each method.")] = 3,
    hierarchy: Annotated[
        list[str] | None, typer.Option("--hierarchy", help="COLUMN=FILE.csv, for generalization; repeat.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes the comparison repeatable.")] = None,
    details: Annotated[bool, typer.Option("--details", help="All figures, promises and reasons.")] = False,
    output: Record = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw risk and error: .svg, .png, .pdf, .html or .vl.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recommend a method by promise, by what is published, and by the error of counts. Releases are thrown away."""
    from sfumato.auditor.compare.compare import compare
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan
    from sfumato.show.files import by_suffix
    from sfumato.show.pictures import PICTURES

    for file in (output, plot):
        check_private(file, "a comparison")
    if output is not None and output == plot:
        raise UsageError("The record and the picture cannot be the same file.", "Give them two names.")
    if plot is not None:
        by_suffix(plot, PICTURES)
    files = once("--hierarchy", map(_column_file, hierarchy or ()))
    opened = scan(table, Policy.load(policy))
    with step_bar(as_json) as report:
        found = compare(
            opened,
            equal_risk=equal_risk,
            target=target,
            repeat=repeat,
            hierarchies=files,
            seed=seed,
            progress=report,
            announce=lambda text: None if as_json else print(text, file=sys.stderr, flush=True),
        )
    if not as_json:  # first: what took minutes is not lost where a file cannot be written
        print(found.explain(details=details), flush=True)
    _keep(found, output)
    if plot is not None:
        found.plot(plot)
    if as_json:
        tell(found, as_json)
    else:
        print_lines(f"\nWrote {file}. {PRIVATE}" for file in (output, plot) if file is not None)
    if not found.measured:
        raise typer.Exit(1)


def _column_file(text: str) -> tuple[str, Path]:
    """Return the column and the file of COLUMN=FILE."""
    name, _, file = text.partition("=")
    if not file:
        raise UsageError(f"--hierarchy {text!r} names no file.", "Write COLUMN=FILE, e.g. --hierarchy age=age.csv.")
    return name, Path(file)


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
        with step_bar(as_json) as progress:
            found = audit(scanned, opened, seed=seed, progress=progress).to_dict()
    else:
        found = load_record(audit_file)
    report(found, output, release=opened, table=scanned, methods=methods, public=public)
    if as_json:
        print_json({"file": str(output), "public": public})
    else:
        print(f"Wrote {output}. {'It holds no private figures.' if public else 'Private: keep it out of the release.'}")
