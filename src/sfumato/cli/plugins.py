"""Commands that another distribution brings: a Typer application as an entry point of the group `sfumato.commands`."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.errors import UsageError

GROUP = "sfumato.commands"


def run_plugin(name: str, arguments: Sequence[str], distribution: str, hint: str) -> None:
    """Run the command of this name with these arguments; raise a hint where its distribution is not installed.

    Looked up only when it is run: to read what is installed would take longer than all else that `--help` does.
    """
    from importlib.metadata import entry_points

    for found in entry_points(group=GROUP, name=name):
        found.load()(list(arguments), prog_name=f"sfumato {name}")
        return
    raise UsageError(f"'sfumato {name}' comes with {distribution}, which is not installed.", hint)
