"""`sfumato reproduce`: the papers' examples, tables and figures, run again."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.base import Json, print_json, step_bar
from sfumato.errors import UsageError
from sfumato.values.text import table

if TYPE_CHECKING:
    from sfumato_papers.experiment import Experiment


app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
"""What sfumato's command line finds as an entry point."""


@app.command("reproduce", epilog="Example: sfumato reproduce sdr-table2")
def reproduce(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments; papers: fg, ad, pi, sdr, sk; or all.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="Tell which experiments there are.")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A new folder for the tables, pictures and pages.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer repetitions, smaller tables.")] = False,
    seed: Annotated[int, typer.Option("--seed", help="Of all simulations.", min=0)] = 1,
    data: Annotated[
        Path | None, typer.Option("--data", help="The folder with the tables; else that of SFUMATO_DATA.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing: generated tables stand in.")] = False,
    processes: Annotated[int, typer.Option("--processes", help="How many run at a time.", min=1)] = 2,
    as_json: Json = False,
) -> None:
    """Run the papers' examples, tables and figures again: what is printed beside what comes out, and a verdict."""
    from sfumato_papers.catalogue import chosen, experiments
    from sfumato_papers.data import Data
    from sfumato_papers.experiment import Setting
    from sfumato_papers.results import failed, results_md, to_json
    from sfumato_papers.running import new_folder, run, write_pages, write_result

    if listed:
        _tell(experiments(), as_json)
        return
    if not names:
        raise UsageError("Which experiment?", 'Name some, or "all"; sfumato reproduce --list tells their names.')
    wanted, found = chosen(names), Data.found(data, download=not offline)
    if output is not None:
        new_folder(output)
    with step_bar(as_json) as report:
        keep = None if output is None else partial(write_result, folder=output)
        setting, at_a_time = Setting(found, quick, seed), min(processes, len(wanted))
        done = run(wanted, setting, processes=at_a_time, report=report, keep=keep)
    if output is not None:
        write_pages(done, output)
    print(to_json(done) if as_json else results_md(done), end="")
    if output is not None and not as_json:
        print(f"Wrote {output}: open {output / 'index.html'}.")
    if done.failures:
        print("Failed:", *failed(done), sep="\n", file=sys.stderr)
        raise typer.Exit(1)


def _tell(known: Sequence[Experiment], as_json: bool) -> None:
    """Print which experiments there are."""
    columns = ("name", "place", "title")
    rows = [(e.name, f"{e.paper} {e.place}", e.title) for e in known]
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print(table(columns, rows, (False,) * len(columns)))
