"""reference/cli: every command with its arguments, options and example, as `--help` has them."""

from __future__ import annotations

import re
from typing import Any

import typer

from docs.generate.markdown import code, table
from docs.generate.markdown import page as whole
from sfumato.cli import main

INTRODUCTION = """\
What every command takes. `sfumato COMMAND --help` prints the same.

Exit codes: 0 is fine, 1 is a request that cannot be met, 2 is wrong use. [Errors](errors.md) has all kinds."""


def page() -> str:
    """Return the page."""
    commands: dict[str, Any] = typer.main.get_command(main.app).commands  # type: ignore[attr-defined]
    summary = table(
        ("command", "what it does"), ((f"[`{name}`](#{name})", first(command)) for name, command in commands.items())
    )
    return whole("Commands", INTRODUCTION, summary, *(section(name, command) for name, command in commands.items()))


def first(command: Any) -> str:
    """Return the first paragraph of a command's help."""
    return str(command.help or "").split("\n\n")[0]


def section(name: str, command: Any) -> str:
    """Return what is told of one command."""
    context = typer.Context(command, info_name=f"sfumato {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    example = re.sub(r"^Example:\s*", "", command.epilog or "")
    parts = [f"## {name}", str(command.help or "").strip(), f"```text\n{usage}\n```", parameters(command, context)]
    if example:
        parts.append(f"Example: `{example}`")
    return "\n\n".join(filter(None, parts))


def parameters(command: Any, context: Any) -> str:
    """Return the arguments and options of a command as a table."""
    records = [parameter.get_help_record(context) for parameter in command.params]
    rows = [(code(name), help_text) for name, help_text in filter(None, records)]
    return table(("argument or option", "what it is"), rows).strip() if rows else ""
