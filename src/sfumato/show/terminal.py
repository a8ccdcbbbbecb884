"""Text on a terminal: the one place where what commands print is escaped, folded to the width, and coloured.

Values and names come from tables and policies: an escape sequence in a column's name must not move the cursor, change
colours or hide a line. So control characters and marks that reorder text are shown as codes (\\x1b), before colours of
our own are added. Colours are for terminals alone; NO_COLOR (https://no-color.org) turns them off.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

NARROWEST, WIDEST, ELSEWHERE = 80, 120, 110
"""The width of lines: that of the terminal within these two; the third where there is none, as in a file."""
STANDARD_OUTPUT, STANDARD_ERROR = 1, 2
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_LABELS = "Promise|Attacker|Not covered|Cost|Strength|Asked for|Two releases|Not measured|Not given"
_CARD = re.compile(rf"((?:{_LABELS}) +)(?=\S)")
_MARK = re.compile(r" *(?:[-!*] )?")
_COMMAND = re.compile(r" +(?:sfumato|uv|pip) ")
_RED, _GREEN, _YELLOW, _BOLD = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[1m"
_END = "\x1b[0m"
_STYLES = (
    (re.compile(r"^ *(fails|BROKEN|NOT FOR RELEASE|NOT MADE AS IT SAYS|[A-Z]\w+(?:Error|Mismatch)(?=: ))"), _RED),
    (re.compile(r"^(FAILS|BROKEN)\b.*"), _RED),
    (re.compile(r"^(HOLDS)\b"), _GREEN),
    (re.compile(r"^ *(holds|kept)(?=  )"), _GREEN),
    (re.compile(r"^ *(needs audit|not checked|higher)(?=  )"), _YELLOW),
    (re.compile(r"^ *(! |Warning:|Note:)"), _YELLOW),
    (
        re.compile(
            r"^((?:Promise|Attacker|Not covered|Cost|Strength|Asked for|Two releases|Not measured|Not given)(?=  ))"
        ),
        _BOLD,
    ),
)
"""What is coloured: the first group of a pattern. Text is escaped before, so that nothing else is."""


def printable(text: str) -> str:
    """Return a text with codes in place of characters that steer a terminal or reorder what is read.

    >>> print(printable("a\\x1b[31mb"), printable("tab\\tstays").split())
    a\\x1b[31mb ['tab', 'stays']
    """
    return _UNSEEN.sub(lambda found: found.group().encode("unicode_escape", "surrogatepass").decode(), text)


def line_width() -> int:
    """Return how many characters a line may have."""
    if not has_width(sys.stdout):
        return ELSEWHERE
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((ELSEWHERE, 24)).columns))


def table_width() -> int:
    """Return how wide a table may be before its heads or last column are folded: in a file as wide as it is."""
    return line_width() if has_width(sys.stdout) else sys.maxsize


def has_width(stream: TextIO) -> bool:
    """Whether lines end somewhere: on a terminal, or where COLUMNS says so. In a file they stay whole."""
    return stream.isatty() or os.environ.get("COLUMNS", "").isdecimal()


def folded(text: str, width: int) -> str:
    """Return a text with its long lines folded, each with the margin that it begins with.

    >>> print(folded("Cost    22 of 100 values stay true", 24))
    Cost    22 of 100 values
            stay true
    """
    return "\n".join(part for line in text.split("\n") for part in _parts(line, width))


def _parts(line: str, width: int) -> list[str]:
    """Return a line in parts; rows of tables and commands to copy stay whole."""
    head = _CARD.match(line) or _MARK.match(line)
    margin = head.end() if head else 0
    is_row = "  " in line[margin:] or _COMMAND.match(line)
    if len(line) <= width or is_row:
        return [line]
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    wrapper.initial_indent, wrapper.subsequent_indent = line[:margin], " " * margin
    return wrapper.wrap(line[margin:])


def coloured(line: str) -> str:
    """Return a line with what matters in colour."""
    for pattern, colour in _STYLES:
        if found := pattern.match(line):
            start, end = found.span(1)
            return f"{line[:start]}{colour}{line[start:end]}{_END}{line[end:]}"
    return line


def has_colours(stream: TextIO) -> bool:
    """Whether colours are wanted: on a terminal that knows them, unless NO_COLOR says not."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def say(text: str = "", *, error: bool = False, fold: bool = True) -> None:
    """Print a text for people, on the standard output or, for errors, the other one."""
    stream = sys.stderr if error else sys.stdout
    shown = printable(text)
    shown = folded(shown, line_width()) if fold and has_width(stream) else shown
    if has_colours(stream):
        shown = "\n".join(map(coloured, shown.split("\n")))
    put(shown, stream)


def put(text: str, stream: TextIO) -> None:
    """Print a text that is ready for the stream; nowhere once its reader has left, as `head` does.

    Whoever left has read enough: what the command does, and its exit code, stay the same.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError as problem:
        _let_go(stream)
        if isinstance(problem, BrokenPipeError) or stream is sys.stderr:
            return
        sys.stdout = sys.stderr  # there an error is told, also as JSON
        problem.filename = "The output"
        raise


def _let_go(stream: TextIO) -> None:
    """Let what a stream still holds, and what it is given later, go nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def never_fail_to_print() -> None:
    """Let output that nobody takes, or that a terminal cannot show, not stop a command halfway."""
    _open_what_is_closed()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _open_what_is_closed() -> None:
    """Give input, output and errors that the caller closed to nothing.

    Else the next files that are opened get their numbers, and what libraries print there would be written into them.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= STANDARD_ERROR:
        os.set_inheritable(handle, True)
    os.close(handle)
    # Python has nothing in their place, though mypy believes that they are always there
    sys.stdout = sys.stdout or open(STANDARD_OUTPUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(STANDARD_ERROR, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream takes every character."""
    return (stream.encoding or "").lower().replace("-", "").startswith("utf")


def json_text(text: str) -> str:
    """Return JSON with codes in place of what steers a terminal: the same values, in other letters.

    >>> json_text('{"a": "\\x9b1m"}')
    '{"a": "\\\\u009b1m"}'
    """
    return _UNSEEN.sub(lambda found: found.group() if found.group() in "\r" else f"\\u{ord(found.group()):04x}", text)


def listed(columns: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Return a table whose last column is prose, folded beside the others."""
    sizes = [max(map(len, column)) for column in zip(columns[:-1], *(row[:-1] for row in rows), strict=True)]
    margin = sum(sizes) + 2 * len(sizes)
    widest = max(len(row[-1]) for row in (columns, *rows))
    told = []
    for *cells, prose in (columns, [*("-" * size for size in sizes), "-" * min(widest, width - margin)], *rows):
        head = "".join(f"{cell:<{size}}  " for cell, size in zip(cells, sizes, strict=True))
        lines = textwrap.wrap(prose, width - margin, break_long_words=False, break_on_hyphens=False) or [""]
        told += [head + lines[0], *(" " * margin + line for line in lines[1:])]
    return "\n".join(line.rstrip() for line in told)
