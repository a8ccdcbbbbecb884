"""The auditor's command: what attackers reach, given the private table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import show
from sfumato.cli.base import Json, TablePath, check_private
from sfumato.errors import UsageError


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
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the record, as JSON.")] = None,
    as_json: Json = False,
) -> None:
    """Let attackers loose on a release, or on another tool's table; exit code 1 if one is above the bound. Private."""
    from sfumato.analyst.release import open_release
    from sfumato.auditor.audit import audit
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan
    from sfumato.show.files import new_file

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
    with show.step_bar(as_json) as report:
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
    if output is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        with new_file(output) as partial_file:
            partial_file.write_text(f"{text}\n", encoding="utf-8")
    if as_json:
        show.print_json(found.to_dict())
    else:
        print(found.explain())
        if output is not None:
            print(f"\nWrote {output}. It is private: it holds figures of the true table.")
    if not found.holds:
        raise typer.Exit(1)


COMMANDS = (("audit", "sfumato audit patients.parquet release/ --policy policy.toml", audit),)
"""Name, example and function."""
