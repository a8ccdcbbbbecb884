"""Letting attackers loose one after another: their findings, their times, and why some have nothing to work on."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import version
from time import perf_counter
from typing import TypeVar

from sfumato.auditor.evidence import DoesNotApply
from sfumato.auditor.finding import Finding
from sfumato.auditor.record import NotApplicable

Subject = TypeVar("Subject")
Attack = Callable[[Subject], Iterable[Finding]]
Progress = Callable[[str, int, int], None]
"""Told which step begins, how many are done, and how many there are."""


def no_progress(step: str, done: int, steps: int) -> None:
    """Ignore progress."""


def run(
    attackers: Mapping[str, Attack[Subject] | str], subject: Subject, progress: Progress
) -> tuple[list[Finding], list[NotApplicable], dict[str, float]]:
    """Let the attackers loose; of one that does not apply, the reason stands in its place. One step is left after."""
    found: list[Finding] = []
    reasons: list[NotApplicable] = []
    seconds: dict[str, float] = {}
    for done, (name, attack) in enumerate(attackers.items()):
        if isinstance(attack, str):
            reasons.append(NotApplicable(name, attack))
            continue
        progress(name, done, len(attackers) + 1)
        start = perf_counter()
        try:
            for finding in attack(subject):  # what was found before something did not apply stays
                found.append(finding)
        except DoesNotApply as problem:
            reasons.append(NotApplicable(name, str(problem)))
        seconds[name] = perf_counter() - start
    return found, reasons, seconds


def now() -> str:
    """Return the time, ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def software() -> str:
    """Return name and version."""
    return f"sfumato {version('sfumato')}"
