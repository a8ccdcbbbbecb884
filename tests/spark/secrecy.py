"""Whether a secret is in files, in any form that a program would write it in.

Every run of 8 bytes that starts at a multiple of 8 is looked for by itself, so that a text that was cut short is found
too. A run of random bytes is in a file by chance with a probability below 1e-8 for each GB and each form.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

RUN = 8
HTML = {38: b"&amp;", 60: b"&lt;", 62: b"&gt;", 34: b"&(?:quot|#34);", 39: b"&#(?:x27|39);"}
NAMED = {ord("\t"): b"t", ord("\n"): b"n", ord("\r"): b"r", ord("\f"): b"f", ord("\b"): b"b"}


@dataclass(frozen=True)
class Form:
    """A way to write bytes, as a pattern."""

    name: str
    pattern: re.Pattern[bytes]


def places(secret: bytes, *folders: Path) -> list[str]:
    """Return "file: form" for every file in the folders that has a part of the secret."""
    searched = forms(secret)
    return [
        f"{path.relative_to(folder.parent)}: {form}"
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
        for form in found(path.read_bytes(), searched)
    ]


def found(text: bytes, searched: list[Form]) -> list[str]:
    """Return the names of the forms that occur."""
    return sorted({form.name for form in searched if form.pattern.search(text)})


def forms(secret: bytes) -> list[Form]:
    """Return the ways in which a secret is looked for."""
    runs = [secret[start : start + RUN] for start in range(0, len(secret), RUN)]
    every = [(name, pattern) for run in runs for name, pattern in _forms_of(run)]
    whole = [("number", pattern) for pattern in _numbers(secret)]
    return [Form(name, re.compile(pattern)) for name, pattern in every + whole]


def _forms_of(run: bytes) -> Iterator[tuple[str, bytes]]:
    yield "bytes", b"".join(map(_letter, run))
    yield "bytes", re.escape(run[::-1])  # a whole number in a pickle
    yield "hexadecimal", rb"(?i:" + rb"(?:[\s,:-]|0x|\\+x)*".join(b"%02x" % byte for byte in run) + rb")"
    yield "hexadecimal", rb"(?i:" + run[::-1].hex().encode() + rb")"
    yield "decimal bytes", rb"[^\w-]{1,6}".join(map(_decimal, run))
    yield from (("base64", pattern) for pattern in _base64(run))
    yield from (("number", pattern) for pattern in _numbers(run))


def _letter(byte: int) -> bytes:
    r"""Return a byte as it is, in Latin-1 as UTF-8 (old pickles), as \x0a, \u000a, \012 or \n (repr, JSON), in HTML.

    Each way begins with a plain letter: so the search skips quickly where none of them is.
    """
    plain, escaped = re.escape(bytes([byte])), rb"\\\\*"
    ways = [plain, re.escape(chr(byte).encode()), escaped + rb"(?:x|u00)(?i:%02x)" % byte, escaped + b"%03o" % byte]
    ways += [escaped + NAMED.get(byte, plain), HTML.get(byte, plain)]
    return b"(?:" + b"|".join(ways) + b")"


def _decimal(byte: int) -> bytes:
    """Return a byte as Python (0 to 255) or as Java (-128 to 127) tells it."""
    return b"%d" % byte if byte < 128 else b"(?:%d|%d)" % (byte, byte - 256)


def _base64(run: bytes) -> Iterator[bytes]:
    """Return what base64 makes of the run wherever it starts: of its letters only those that no other byte touches."""
    for before in range(3):
        letters = base64.b64encode(bytes(before) + run)
        first, last = -(-8 * before // 6), 8 * (before + len(run)) // 6
        yield b"".join({b"+": b"[+-]", b"/": b"[/_]"}.get(c, c) for c in map(_one, letters[first:last]))


def _one(letter: int) -> bytes:
    return bytes([letter])


def _numbers(run: bytes) -> Iterator[bytes]:
    """Return a whole number of these bytes in decimals, as Python tells it and as Java does, below zero."""
    for order in ("little", "big"):
        value = int.from_bytes(run, order)
        yield b"%d" % value
        yield b"%d" % (value - (1 << 8 * len(run)))
