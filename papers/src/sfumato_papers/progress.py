"""How an experiment tells how far it is, and how that of several is told together."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]
"""Told the share of the work that is done, from 0 to 1."""
Report = Callable[[str, float, int], None]
"""Told which experiments run, how many are done, with the done part of those that run, and how many there are."""


def no_progress(done: float) -> None:
    """Tell nobody."""


class Shares:
    """How far some experiments are."""

    def __init__(self, report: Report, total: int) -> None:
        self._report, self._total = report, total
        self._running: dict[str, float] = {}
        self._ended: set[str] = set()

    def hear(self, name: str, share: float) -> None:
        """Take note that an experiment has done this share of its work; what comes after its end is late."""
        if name not in self._ended:
            self._running[name] = share
            self._tell()

    def end(self, name: str) -> None:
        """Take note that an experiment has ended."""
        self._running.pop(name, None)
        self._ended.add(name)
        self._tell()

    def _tell(self) -> None:
        running = ", ".join(f"{name} {share:.0%}" for name, share in self._running.items())
        self._report(running, len(self._ended) + sum(self._running.values()), self._total)
