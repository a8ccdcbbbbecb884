"""`sfumato compare`: every method on one table, at the same requirement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from sfumato.cli import show
from sfumato.cli.base import Json, PolicyPath, TablePath, check_private, once
from sfumato.errors import UsageError


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
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Keep the record, as JSON.")] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Draw risk and error: .svg, .png, .pdf, .html or .vl.json.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare what every method gives at the policy's requirement: what is guessed, what counts are worth, run times.
    Releases are thrown away. Private."""
    from sfumato.auditor.compare.compare import compare
    from sfumato.publisher.policy import Policy
    from sfumato.publisher.table import scan
    from sfumato.show.files import by_suffix, new_file
    from sfumato.show.pictures import PICTURES

    for file in (output, plot):
        check_private(file, "a comparison")
    if output is not None and output == plot:
        raise UsageError("The record and the picture cannot be the same file.", "Give them two names.")
    if plot is not None:
        by_suffix(plot, PICTURES)
    files = once("--hierarchy", map(_column_file, hierarchy or ()))
    opened = scan(table, Policy.load(policy))
    with show.step_bar(as_json) as report:
        found = compare(
            opened,
            equal_risk=equal_risk,
            target=target,
            repeat=repeat,
            hierarchies=files,
            seed=seed,
            progress=report,
        )
    if not as_json:
        print(found.explain(), flush=True)  # first: what took minutes is not lost where a file cannot be written
    if output is not None:
        text = json.dumps(found.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        with new_file(output) as partial_file:
            partial_file.write_text(f"{text}\n", encoding="utf-8")
    if plot is not None:
        found.plot(plot)
    if as_json:
        show.print_json(found.to_dict())
    else:
        for file in (output, plot):
            if file is not None:
                print(f"\nWrote {file}. It is private: it holds figures of the true table.")
    if not found.measured:
        raise typer.Exit(1)


def _column_file(text: str) -> tuple[str, Path]:
    """Return the column and the file of COLUMN=FILE."""
    name, _, file = text.partition("=")
    if not file:
        raise UsageError(f"--hierarchy {text!r} names no file.", "Write COLUMN=FILE, e.g. --hierarchy age=age.csv.")
    return name, Path(file)


COMMANDS = (("compare", "sfumato compare patients.parquet policy.toml --plot methods.svg", compare),)
"""Name, example and function."""
