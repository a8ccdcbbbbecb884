"""The file of hashes: for each case and each of its parts the first 16 digits of the sha256 of its text."""

from __future__ import annotations

import json
from pathlib import Path

from tests.golden.texts import Texts, digest

FILE = Path(__file__).with_name("hashes.json")
Hashes = dict[str, str]


def load() -> dict[str, Hashes]:
    """Read the file: case -> part -> hash."""
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}


def save(hashes: dict[str, Hashes]) -> None:
    """Write the file."""
    FILE.write_text(json.dumps(hashes, indent=1) + "\n", encoding="utf-8")


def digests(texts: Texts) -> Hashes:
    """Return the hash of each part."""
    return {part: digest(text) for part, text in texts.items()}


def differing(one: Hashes, other: Hashes) -> list[str]:
    """Return the parts that are not the same in both.

    >>> differing({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
    ['b', 'c']
    """
    return [part for part in one | other if one.get(part) != other.get(part)]


def check(name: str, found: Texts) -> None:
    """Fail with the parts that changed, and with how to see the change."""
    changed = differing(load().get(name, {}), digests(found))
    show = "\n".join(f'  python -m tests.golden --show "{name}" "{part}"' for part in changed)
    assert not changed, (
        f"{name}: changed: {', '.join(changed)}. Compare what the code before and after the change prints:\n{show}\n"
        f'If it must be: python -m tests.golden "{name}", and the reason in tests/golden/changes.md.'
    )
