"""The command that opens the studio: a page for the publisher and auditor, or for the analyst of a release."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfumato.cli.base import Json, print_json
from sfumato.errors import UsageError
from sfumato.show.terminal import say

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from sfumato.studio.web.serve import Opened

EXTRA_HINT = 'Install it, in a copy of the repository: pip install ".[studio]", or uv run --extra studio sfumato studio'


def studio(
    table: Annotated[Path | None, typer.Argument(help="The table, or the folder of a release, for analysts.")] = None,
    policy: Annotated[Path | None, typer.Argument(help="The policy to begin with; without one, a proposal.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where policies, plans and the journal are kept. Private.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", help="Write the analyst's page of a release to a file, and end.")
    ] = None,
    port: Annotated[int, typer.Option("--port", help="Of 127.0.0.1; a free one unless said.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser.")] = True,
    as_json: Json = False,
) -> None:
    """Open a page on this machine, from a table to a release.

    With the folder of a release: a page for its analysts.
    """
    check_installed()
    from sfumato.release.folder import MANIFEST_NAME

    if table is not None and (table / MANIFEST_NAME).is_file():
        if policy is not None or folder is not None:
            raise UsageError("The page of a release takes no policy and no --folder.", "Give the release alone.")
        _analyst(table, save, port, browser, as_json)
        return
    if save is not None:
        raise UsageError("--save goes with the folder of a release.", "Give a release: sfumato studio RELEASE --save F")
    open_page(table, policy, folder, port, browser, as_json)


def check_installed() -> None:
    """Raise where the extra is missing."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UsageError("The studio needs the extra sfumato[studio], which is not installed.", EXTRA_HINT) from None


def _analyst(release: Path, save: Path | None, port: int, browser: bool, as_json: bool) -> None:
    from sfumato.studio.analyst.app import analyst_app, save_page
    from sfumato.studio.web.serve import serve

    if save is not None:
        save_page(release, save)
        if as_json:
            print_json({"file": str(save)})
        else:
            say(f"Wrote {save}. It holds nothing that the release does not, and no script.")
        return
    serve(lambda csrf: analyst_app(release, csrf), lambda found: _announce(found, as_json), port=port, browse=browser)
    _say_goodbye(as_json)


def open_page(
    table: Path | None,
    policy: Path | None,
    folder: Path | None,
    port: int = 0,
    browser: bool = True,
    as_json: bool = False,
) -> None:
    """Serve the publisher's and auditor's page of a table until the terminal ends it."""
    from sfumato.studio.desk.app import desk_app
    from sfumato.studio.desk.desk import open_desk
    from sfumato.studio.web.serve import serve

    desk = open_desk(table, policy, folder)

    def make(csrf: str) -> ASGIApp:
        return desk_app(desk, csrf)

    if not as_json:
        say(f"Policies, plans and the journal are kept in {desk.workspace.folder}. Private.")
    serve(make, lambda found: _announce(found, as_json), port=port, browse=browser)
    _say_goodbye(as_json)


def _announce(found: Opened, as_json: bool) -> None:
    """Say where the studio is, at once: what reads it may be a program."""
    if as_json:
        print_json({"address": found.address, "file": str(found.file)})
    else:
        say(f"The studio is open at {found.address} for you alone. Press ctrl-C to end it.")
        if not found.browsing:
            say(f"To let a browser in, open this file with it: {found.file}")
    sys.stdout.flush()


def _say_goodbye(as_json: bool) -> None:
    if not as_json:
        say("The studio has ended. Nothing that was kept is lost.")
