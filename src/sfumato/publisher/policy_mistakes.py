"""What is wrong with a policy, in words that name the remedy: places that pydantic refused, lines that are no TOML."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import ValidationError

from sfumato.values.text import nearest

Sections = Mapping[str, tuple[str, ...]]  # the keys of each section of a policy, by its heading, "" for the top

DOCUMENTED = "docs/reference/policy.md shows a complete policy."


# --- what pydantic refuses --------------------------------------------------------------------------------------------


def explained(problem: ValidationError, sections: Sections) -> str:
    """Return one line per mistake: where, what, and for an unknown key the nearest known one."""
    lines: dict[str, None] = {}
    for error in problem.errors():
        # pydantic names the branches of a union in the path; the publisher's own keys are what helps
        where = ".".join(str(part) for part in error["loc"] if _is_key(part)) or "policy"
        lines[f"  {where}: {reason(error, sections)}"] = None
    return "\n".join(lines)


def _is_key(part: str | int) -> bool:
    return isinstance(part, int) or not any(mark in part for mark in "[]()")


def reason(error: Any, sections: Sections) -> str:
    """Return what is wrong in one place, and what to write there."""
    kind, message, given = error["type"], error["msg"].removeprefix("Value error, "), error.get("input")
    place = tuple(str(part) for part in error["loc"])
    if kind == "extra_forbidden":
        return _unknown(place[-1], place[:-1], given, sections)
    if kind == "greater_than_equal" and (key := place[-1]) in ("l", "r"):
        return f"must be at least 2, not {given}: it limits what is believed to 1/{key}, and 1 is no limit"
    if kind == "literal_error":
        marks = '; texts that mean "missing" are named in [input] missing_values' if place[-1:] == ("missing",) else ""
        return _not_listed(error["ctx"]["expected"], given) + marks
    if kind in ("dict_type", "model_type") and place[-1:] in (("method",), ("requirement",)) and isinstance(given, str):
        below = f'name = "{given}"' if place[-1] == "method" else "what is required, such as gamma = 3,"
        return f"must be a section: write [{'.'.join(place)}] on a line of its own, and {below} below it"
    if kind in _KINDS:
        return _KINDS[kind](place[-1] if place else "", given)
    return str(message[0].lower() + message[1:])


def _not_listed(expected: str, given: object) -> str:
    known = re.findall(r"'([^']*)'", expected)
    near = nearest(given, known) if isinstance(given, str) else None
    return f"must be {expected}, not {given!r}" + (f"; did you mean {near!r}?" if near else "")


def _no_section(key: str, given: object) -> str:
    if isinstance(given, str) and key == "about":
        return f'must be a section: write [about] on a line of its own, and purpose = "{given}" below it'
    if isinstance(given, str):
        return f'must be a section: write [columns.{key}] on a line of its own, and role = "{given}" below it'
    return f"must be a section with keys of its own, not {given!r}; {DOCUMENTED}"


def _no_whole_number(key: str, given: object) -> str:
    unquoted = str(given).strip() if isinstance(given, str) else ""
    remedy = f": write {key} = {unquoted}, without quotes" if unquoted.isdecimal() else f", such as {key} = 3"
    return f"must be a whole number, not {given!r}{remedy}"


def _no_text(key: str, given: object) -> str:
    place = "" if key.isdecimal() else f"{key} = "  # one of a list has a number, and no name
    return f'must be a text in quotes, not {given!r}: write {place}"{given}"'


_SECTION_OF = {"columns": "a section [columns.NAME] for each column"} | {
    key: f"a section [{key}]" for key in ("method", "requirement")
}
_KINDS: dict[str, Callable[[str, object], str]] = {
    "missing": lambda key, given: f"is required: add {_SECTION_OF.get(key, f'{key} = ...')}",
    "tuple_type": lambda key, given: f"must be a list, not {given!r}: write {key} = [{_toml(given)}]",
    "dict_type": _no_section,
    "model_type": _no_section,
    "int_type": _no_whole_number,
    "int_from_float": _no_whole_number,
    "bool_type": lambda key, given: f"must be true or false, without quotes, not {given!r}",
    "string_type": _no_text,
    "float_type": lambda key, given: f"must be a number, not {given!r}: write it without quotes, such as {key} = 10",
}
"""What to say of each kind of mistake that pydantic tells apart."""


def _toml(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _unknown(key: str, place: tuple[str, ...], given: object, sections: Sections) -> str:
    """Say which key of this place was meant, or where a key belongs that is known elsewhere."""
    here = _section_of(place, sections)
    if here and (near := nearest(key, here)):
        return f"this key is not known; did you mean {near!r}?"
    if isinstance(given, dict) and len(place) == 2 and place[0] == "columns":
        return f'a column whose name has a point needs quotes: write [columns."{place[1]}.{key}"]'
    homes = [home for home, keys in sections.items() if key in keys]
    if homes:
        told = f"into [{'.'.join(place)}]" if place else "at the top of the policy, outside all sections"
        return f"this key does not belong {told}; it goes {' or '.join(map(_within, homes))}"
    known = {k: home for home, keys in sections.items() for k in keys}
    if near := nearest(key, known):
        return f"this key is not known; did you mean {near!r}? It goes {_within(known[near])}"
    return "this key is not known; docs/reference/policy.md lists all keys"


def _section_of(place: tuple[str, ...], sections: Sections) -> tuple[str, ...]:
    """Return the keys of the section that a place lies in, by its heading; none if there is no such."""
    parts = [part for part in place if _is_key(part) and not part.isdecimal()]
    parts = parts[2:] if parts[:1] == ["columns"] and len(parts) > 2 else parts  # a section of a column's own
    heading = "[columns.NAME]" if parts[:1] == ["columns"] and len(parts) == 2 else f"[{'.'.join(parts)}]"
    names = (heading if parts else "", f"[{heading}]", f"{parts[-1]} = {{ ... }}" if parts else "")
    return next((sections[name] for name in names if name in sections), ())


def _within(home: str) -> str:
    return f"into {home}" if home else "to the top of the policy, before all sections"


# --- what is no TOML --------------------------------------------------------------------------------------------------


def not_toml(text: str, source: str, problem: str) -> tuple[str, str]:
    """Return what is wrong with a text that is no TOML, with the line that it is about, and what to do."""
    what = re.sub(r"\s*\(at .*\)$", "", problem)
    at = re.search(r"\(at line (\d+)", problem)
    if not at:
        return f"{source} is not valid TOML: {problem}.", _line_hint("", what)
    number = int(at[1])
    line = text.splitlines()[number - 1].strip()
    return f"{source} is not valid TOML, line {number}: {line}\n{what}.", _line_hint(line, what)


def _line_hint(line: str, what: str) -> str:
    """Return what to write for a line that is no TOML: the slips that are usual."""
    if "twice" in what:
        return "Each section is there once: put all keys of a column below one heading."
    if "overwrite" in what:
        return "Each key is given once: remove one of the two lines."
    return next((hint(found) for slip, hint in _SLIPS if (found := re.match(slip, line))), _TOML_HINT)


_TOML_HINT = f'A line is a heading, such as [columns.age], or a key and a value, such as role = "other". {DOCUMENTED}'
_KEY = r"(?P<key>[\w.-]+)\s*"
_SLIPS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r".*[“”„‟’‘«»]", lambda found: 'Use straight quotes: role = "sensitive".'),
    (rf"{_KEY}=\s*(\d+),(\d+)$", lambda found: f"Write a point, not a comma: {found['key']} = {found[2]}.{found[3]}"),
    (rf"{_KEY}=\s*(\.\d+)$", lambda found: f"Write the 0 before the point: {found['key']} = 0{found[2]}"),
    (rf"{_KEY}=\s*(\d+/\d+)$", lambda found: f'Write a fraction in quotes: {found["key"]} = "{found[2]}"'),
    (rf"{_KEY}=\s*(\d+)\s*%$", lambda found: f"Write a share of 1: {found['key']} = {int(found[2]) / 100:g}"),
    (rf"{_KEY}=\s*(True|False)$", lambda found: f"Write it in small letters: {found['key']} = {found[2].lower()}"),
    (rf"{_KEY}=\s*([A-Za-z_][\w -]*)$", lambda found: f'Write texts in quotes: {found["key"]} = "{found[2]}"'),
    (rf"{_KEY}:", lambda found: f"Write = between a key and its value: {found['key']} = ..."),
    (
        r"\[columns\.([^\"'\]]*[^\w\"'\].-][^\"'\]]*)\]",
        lambda found: f'A name with spaces or other marks needs quotes: [columns."{found[1]}"]',
    ),
)
"""Slips by their pattern, and what to write instead."""
