"""What all commands share: the application, its arguments, how columns are named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Publish microdata by blurring every record and keeping the picture. "
    "Exit codes: 0 fine, 1 a request that cannot be met, 2 wrong use.",
)

TablePath = Annotated[Path, typer.Argument(help="Parquet, CSV, CSV.gz, or a folder of Parquet files.")]
PolicyPath = Annotated[Path, typer.Argument(help="The policy, in TOML.")]
ReleasePath = Annotated[Path, typer.Argument(help="The folder of a release.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with stable keys (docs/json.md).")]
Shuffle = Annotated[bool, typer.Option("--shuffle", help="Shuffle the rows in any case.")]
NewFolder = Annotated[Path, typer.Option("--output", "-o", help="The new folder of the release.")]


def command(name: str, example: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a command with an example in its help."""
    return app.command(name, epilog=f"Example: {example}")


def split_names(given: list[str], columns: tuple[str, ...]) -> list[str]:
    """Return the column names; commas separate them, unless a column has one in its name."""
    return [name for text in given for name in ([text] if text in columns else [t.strip() for t in text.split(",")])]
