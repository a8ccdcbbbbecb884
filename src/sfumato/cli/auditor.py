"""The auditor's commands, given the private table: what attackers reach, which method is better, and the report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli.base import (
    Details,
    Json,
    PolicyPath,
    ReleasePath,
    TablePath,
    Told,
    check_private,
    once,
    print_json,
    step_bar,
    tell,
    tell_first,
)
from sfumato.errors import UsageError
from sfumato.show.terminal import say

Record = Annotated[Path | None, typer.Option("--output", "-o", help="Keep the record, as JSON.")]
PRIVATE = "It is private: it holds figures of the true table."


def audit(
    table: TablePath,
    first: Annotated[Path | None, typer.Argument(metavar="policy", help="The policy, in TOML.")] = None,
    second: Annotated[Path | None, typer.Argument(metavar="release", help="The folder of a release.")] = None,
    policy: Annotated[
        Path | None, typer.Option("--policy", help="The policy, in the older order: audit TABLE RELEASE.", hidden=True)
    ] = None,
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
    details: Details = False,
    as_json: Json = False,
) -> None:
    """Attack a release, and compare with what it promises.

    Or another tool's table (--published). Exit code 1 if the promise is broken. Private: it shows figures of the
    table.
    """
    from sfumato.analyst.release import open_release
    from sfumato.auditor.audit import audit
    from sfumato.auditor.first_screen import first_screen
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan

    stated, folder = _policy_and_release(first, second, policy, published)
    check_private(output, "an audit")
    opened = scan(table, Policy.load(stated))
    release = None if folder is None else open_release(folder)
    with step_bar(as_json) as report:
        found = audit(
            opened,
            release or published,
            priors=prior or (),
            known=known,
            external=external,
            earlier=None if earlier is None else open_release(earlier),
            seed=seed,
            progress=report,
        )
    _keep(found, output)
    tell_first(first_screen(found, release.manifest if release else None), found, as_json, details)
    if output is not None and not as_json:
        say(f"Wrote {output}. {PRIVATE}")
    if not found.holds:
        raise typer.Exit(1)


def _policy_and_release(
    first: Path | None, second: Path | None, policy: Path | None, published: Path | None
) -> tuple[Path, Path | None]:
    """Return the policy and the release; of `audit TABLE RELEASE --policy POLICY` too, which was the order before."""
    if policy is not None:
        if second is not None:
            raise UsageError("The policy is given twice.", "Write sfumato audit TABLE POLICY RELEASE.")
        if first is not None:
            say("Note: write sfumato audit TABLE POLICY RELEASE. The older order still works.", error=True)
        stated, release = policy, first
    elif first is None:
        raise UsageError(
            "An audit needs the policy: it tells the roles of the columns.", "Write sfumato audit TABLE POLICY RELEASE."
        )
    elif first.is_dir() and second is not None and not second.is_dir():
        stated, release = second, first
        say("Note: write sfumato audit TABLE POLICY RELEASE; here the policy came last.", error=True)
    elif first.is_dir():
        raise UsageError(
            f"An audit needs the policy, and {str(first)!r} is a folder.", "Write sfumato audit TABLE POLICY RELEASE."
        )
    else:
        stated, release = first, second
    if (release is None) == (published is None):
        raise UsageError(
            "An audit is of a release, or of a table that another tool published.",
            "Give the folder of the release, or --published FILE.",
        )
    return stated, release


def _keep(found: Told, file: Path | None) -> None:
    """Write the record of a result to a new file, if one is named."""
    from sfumato.show.private import write_new

    if file is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        write_new(file, f"{text}\n")


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
    method: Annotated[
        list[str] | None, typer.Option("--method", help="Only this one, with your policy's own; repeat.")
    ] = None,
    details: Annotated[bool, typer.Option("--details", help="All figures, promises and reasons.")] = False,
    output: Record = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw risk and error: .svg, .png, .pdf, .html or .vl.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Recommend a method for each kind of promise.

    Private. By promise, by what is published, then by the error of counts. Releases are thrown away.
    """
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
    with step_bar(as_json, lines=True) as report:
        found = compare(
            opened,
            equal_risk=equal_risk,
            target=target,
            repeat=repeat,
            hierarchies=files,
            seed=seed,
            methods=method or (),
            progress=report,
            announce=lambda text: None if as_json else say(text, error=True),
        )
    if not as_json:  # first: what took minutes is not lost where a file cannot be written
        say(found.explain(details=details), fold=False)
    _keep(found, output)
    if plot is not None:
        found.plot(plot)
    if as_json:
        tell(found, as_json)
    else:
        for file in filter(None, (output, plot)):
            say(f"\nWrote {file}. {PRIVATE}")
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
    certificate: Annotated[
        Path | None,
        typer.Option("--certificate", help="Also write a certificate, as JSON: sfumato verify checks it."),
    ] = None,
    plan: Annotated[
        Path | None, typer.Option("--plan", help="The plan that was signed off: the sheet and a certificate name it.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Makes the simulations of the audit repeatable.")] = None,
    as_json: Json = False,
) -> None:
    """Write the report of a release as one HTML page.

    Private, unless --public. It opens with a sheet to sign; then attackers, columns, counts and limits.
    """
    from sfumato.analyst.release import open_release
    from sfumato.auditor.audit import audit
    from sfumato.auditor.report.certifying import certificate as certify
    from sfumato.auditor.report.certifying import check_certificate_place, write_certificate
    from sfumato.auditor.report.reporting import check_place, load_comparison, load_record, report
    from sfumato.auditor.report.signed import signed_plan
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan

    if audit_file is not None and seed is not None:
        raise UsageError("The seed is for a new audit, and --audit gives one.", "Leave one of them out.")
    if plan is not None and public and certificate is None:
        raise UsageError(
            "A public page names no plan, and no certificate is asked for.",
            "Leave out --public: the publisher's sheet names the plan. Or add --certificate FILE.",
        )
    opened, given = open_release(release), Policy.load(policy)
    check_place(output, public)
    if certificate is not None:
        check_certificate_place(certificate)
    methods = [] if comparison is None else load_comparison(comparison, opened)
    scanned = scan(table, given)
    if plan is not None:  # before the audit, which takes long
        signed_plan(plan, scanned, opened)
    if audit_file is None:
        with step_bar(as_json) as progress:
            found = audit(scanned, opened, seed=seed, progress=progress).to_dict()
    else:
        found = load_record(audit_file)
    made = None if certificate is None else certify(found, scanned, opened, plan=plan, public=public)
    report(found, output, release=opened, table=scanned, methods=methods, plan=plan, public=public)
    if certificate is not None and made is not None:
        write_certificate(made, certificate)
    if as_json:
        named = None if certificate is None else str(certificate)
        print_json({"file": str(output), "public": public, "certificate": named})
    else:
        files = str(output) if certificate is None else f"{output} and {certificate}"
        say(f"Wrote {files}. {'It holds no private figures.' if public else 'Private: keep it out of the release.'}")
