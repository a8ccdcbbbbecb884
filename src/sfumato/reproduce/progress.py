"""How an experiment tells how far it is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[float], None]
"""Told the share of the work that is done, from 0 to 1."""


def no_progress(done: float) -> None:
    """Tell nobody."""
