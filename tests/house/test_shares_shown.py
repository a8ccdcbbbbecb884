"""Shares are written by the one rule of `sfumato.show.words`: 4 of 69,560 records are never 0.0% of them."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
WRITTEN_OUT = re.compile(r":[<>]?\d*\.[1-9]%\}|100 \* [^{}]*:\.\df\} of 100")
"""A share in tenths of a percent or finer, or in hundredths in words, that rounds what is not 0 or 1 to 0 or 1."""


def found(text: str) -> list[str]:
    return WRITTEN_OUT.findall(text)


def test_shares_are_written_by_one_rule() -> None:
    assert {str(path) for path in SOURCE.rglob("*.py") if found(path.read_text(encoding="utf-8"))} == set()


def test_a_share_written_otherwise_is_found() -> None:
    assert found('f"{alone / rows:.1%} of them"')
    assert found('f"{100 * lost:.0f} of 100"')
    assert not found('f"{share(alone / rows)} of them, {level:.0%} limits"')
