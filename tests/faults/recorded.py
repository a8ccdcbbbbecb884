"""What the hard suites ran, and how often something failed: a file a suite, shown by docs/reference/survives.md.

    python -m tests.faults                 list the suites and the commands that run them
    python -m tests.faults SUITE ...       run them, and write their records and the page anew

A suite states what it counts once (`Suite`), and tells what it saw (`record`). Files are written only where
SFUMATO_RECORD is set, as `python -m tests.faults` does: other runs leave the repository as it is. A new suite is
run with it once: `SFUMATO_RECORD=1 pytest -m slow tests/...`. Workers of pytest that share the cases of one suite would
overwrite each other: a suite counts in one test.
"""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDER = Path(__file__).with_name("record")
ASKED = "SFUMATO_RECORD"


@dataclass(frozen=True)
class Suite:
    """A suite of many cases: a name for its file, what a case is, what holds after each, and what runs it."""

    name: str
    cases: str
    holds: str
    command: str


@dataclass(frozen=True)
class Record:
    """What one run of a suite saw."""

    suite: Suite
    cases: int
    failures: int
    seconds: int
    date: str


def record(
    suite: Suite, cases: int, failures: int, seconds: float, date: str | None = None, folder: Path = FOLDER
) -> None:
    """Keep what a run of a suite saw, if that is asked for; the date is today's."""
    if ASKED in os.environ:
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        _write(Record(suite, cases, failures, round(seconds), date or today), folder)


def _write(seen: Record, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{seen.suite.name}.json").write_text(json.dumps(asdict(seen), indent=2) + "\n", encoding="utf-8")


def records(folder: Path = FOLDER) -> list[Record]:
    """Return the last record of each suite, by their names."""
    found = (json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json")))
    return [Record(**{**seen, "suite": Suite(**seen["suite"])}) for seen in found]
