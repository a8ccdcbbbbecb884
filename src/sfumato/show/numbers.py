"""Figures as people read them: as many digits as their errors deserve."""

from __future__ import annotations

import math

SMALL = 5
"""Numbers below are shown with more digits: shares, averages, small counts."""


def decimals_of(error: float | None) -> int:
    """Return the decimals that an error below 1 needs for two digits, at most four; else one.

    >>> [decimals_of(error) for error in (None, 120.0, 0.034, 0.5)]
    [1, 1, 3, 2]
    """
    return min(1 - math.floor(math.log10(error)), 4) if error and 0 < error < 1 else 1


def number(value: float | str | None, decimals: int = 1) -> str:
    """Return a figure; a dash where there is none, and a text as it is.

    >>> number(1234.56), number(0.25), number(None), number("[30, 40)")
    ('1,234.6', '0.2500', '-', '[30, 40)')
    """
    if value is None or value != value:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.{decimals}f}" if abs(value) >= SMALL else f"{value:.4f}"


def power_figure(name: str, value: float | None) -> str:
    """Return a figure of `Release.power`: a share in percent, a number of records without decimals."""
    if value is None:
        return "-"
    return f"{value:.2%}" if "share" in name else f"{value:,.0f}"
