"""What a desk has done in other processes: the functions that the command line calls, with their progress."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.engines.embedded.sources import open_source
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import Table, check_original, profile, scan
from sfumato.studio.desk.jobs import Report
from sfumato.values.arrays import Progress
from sfumato.values.profile import Profile


@dataclass(frozen=True)
class Overview:
    """What is shown of a table: its columns, its first rows, and how often values occur."""

    rows: int
    columns: tuple[Any, ...]
    first: tuple[tuple[Any, ...], ...]


def propose(report: Report, table: Path) -> str:
    """Return the policy that `sfumato init` proposes."""
    from sfumato.publisher.proposal import propose

    report("Reading the columns", 0, None)
    check_original(table)
    return propose(open_source(table))


def count(report: Report, table: Path, policy: Path) -> Profile:
    """Count a table under a policy."""
    opened = scan(table, Policy.load(policy))
    return profile(opened, rows_told(report, "Counting", _rows(opened)), uniqueness=True)


def _rows(table: Table) -> int | None:
    return getattr(table.source, "rows", None)


def rows_told(report: Report, step: str, total: int | None) -> Progress:
    """Return a function to tell of rows, for a job's report."""
    done = 0

    def told(rows: int) -> None:
        nonlocal done
        done += rows
        report(step, done, total)

    report(step, 0, total)
    return told
