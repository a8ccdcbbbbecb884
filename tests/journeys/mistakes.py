"""The mistakes that new users make, and what each is met with: the list behind docs/mistakes.md.

`python -m tests.journeys.mistakes` prints the page anew; a test holds the committed one to it.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

from tests.journeys.desk import POLICY, patients

Change = Callable[[], None]
PLAN = "plan patients.csv policy.toml"
PUBLISH = "publish patients.csv policy.toml -o new"


# --- how a desk is changed --------------------------------------------------------------------------------------------


def policy(*swaps: tuple[str, str]) -> Change:
    """Write something else into the policy: each text is there once, and is replaced."""

    def change() -> None:
        text = POLICY
        for old, new in swaps:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        Path("policy.toml").write_text(text, encoding="utf-8")

    return change


def method(section: str, requirement: str, *swaps: tuple[str, str]) -> Change:
    """Ask for another method and requirement."""
    return policy(('name = "uniform"', section), ("rho1 = 0.2\nrho2 = 0.5", requirement), *swaps)


def column(name: str, value: Callable[[int], object], heading: str | None = None) -> Change:
    """Put other values into a column of the table: one for each row number."""

    def change() -> None:
        rows = list(csv.reader(patients()))
        place = rows[0].index(name)
        rows[0][place] = heading or name
        for number, row in enumerate(rows[1:]):
            row[place] = str(value(number))
        written(rows)()

    return change


def written(rows: list[list[str]], file: str = "patients.csv", delimiter: str = ",") -> Change:
    """Write a table."""

    def change() -> None:
        text = io.StringIO()
        csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(rows)
        Path(file).write_text(text.getvalue(), encoding="utf-8")

    return change


def file(name: str, text: str | bytes = "") -> Change:
    """Write a file."""

    def change() -> None:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def both(*changes: Change) -> Change:
    """Make several changes."""

    def change() -> None:
        for each in changes:
            each()

    return change


def rows_of(lines: list[str]) -> list[list[str]]:
    """Return the fields of CSV lines."""
    return list(csv.reader(lines))


def nothing() -> None:
    """Leave the desk as it is: the command is the mistake."""
