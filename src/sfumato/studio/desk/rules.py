"""A column's rule as the fields of a form, and back. What was not touched stays as the policy has it, to the letter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from sfumato.errors import PolicyError
from sfumato.publisher.policy import UNDECIDED, sections
from sfumato.publisher.policy_mistakes import reason
from sfumato.publisher.policy_rules import ColumnRule
from sfumato.values.attributes import LEFT_OUT_ROLES
from sfumato.values.recoding import DATE_UNITS

Rule = Mapping[str, Any]
Fields = dict[str, str]
ONLY_PUBLISHED = ("domain", "bins", "merge", "ordered", "publish_as_is", "from_table", "type")
"""Keys that make no sense of a column that is left out."""


class Mistake(Exception):
    """A field that cannot be understood: which one, and what to write."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def shown(rule: Rule) -> Fields:
    """Return what the form shows of a rule."""
    domain, bins, role = rule.get("domain", "observed"), rule.get("bins"), rule.get("role", "")
    stated: Mapping[str, Any] = bins if isinstance(bins, Mapping) else {"unit": bins} if isinstance(bins, str) else {}
    kind = next((key for key in ("width", "breaks") if key in stated), stated.get("unit", ""))
    numbers = stated.get("breaks", stated.get("width", ""))
    fields = {
        "role": "" if _is_open(role) else str(role),
        "domain": "observed" if domain == "observed" or _is_open(domain) else "listed",
        "values": _lines(domain) if isinstance(domain, list) else "",
        "bins": "" if _is_open(kind) else str(kind),
        "numbers": ", ".join(map(str, numbers)) if isinstance(numbers, list) else str(numbers),
        "origin": str(stated.get("origin", "")),
        "merge": _merged(rule.get("merge", {})),
        "missing": str(rule.get("missing", "error")),
        "ordered": "yes" if rule.get("ordered") is True else "",
        "as_is": str(rule.get("publish_as_is", "")),
        "type": str(rule.get("type", "")),
        "from_table": "yes" if rule.get("from_table") is True else "",
    }
    return {name: _plain(text) for name, text in fields.items()}


def changed(rule: Rule, sent: Mapping[str, str], kind: str) -> dict[str, Any]:
    """Return a rule with what was sent; `kind` is the type of the column, as the survey names it."""
    before = shown(rule)
    after = {name: _plain(sent.get(name, "")) for name in before}
    touched = {name for name in before if after[name] != before[name]}
    made = dict(rule)
    if "role" in touched and after["role"]:
        made["role"] = after["role"]
    if touched & {"domain", "values"}:
        _put(made, "domain", [_value(line, kind) for line in _split(after["values"])], after["domain"] == "listed")
        if after["domain"] == "listed" and not made["domain"]:
            raise Mistake("values", "List the values that can occur, one on each line.")
    if touched & {"bins", "numbers", "origin"}:
        _put(made, "bins", _bins(after), bool(after["bins"]))
    if "merge" in touched:
        _put(made, "merge", _merge(after["merge"]), bool(after["merge"]))
    for field, key in (("missing", "missing"), ("as_is", "publish_as_is"), ("type", "type")):
        if field in touched:
            _put(made, key, after[field], bool(after[field]) and (field, after[field]) != ("missing", "error"))
    for field in touched & {"ordered", "from_table"}:
        _put(made, field, True, bool(after[field]))
    if "role" in touched and made["role"] in LEFT_OUT_ROLES:
        made = {key: value for key, value in made.items() if key not in ONLY_PUBLISHED}
    return made


def problems(name: str, rule: Rule) -> Iterator[str]:
    """Give what keeps a rule from being used."""
    if left := list(_open(rule)):
        yield from (f"Decide: {text}" for text in left)
        return
    if "role" not in rule:
        yield "Decide what this column is."
        return
    try:
        ColumnRule.model_validate(dict(rule)).attribute(name)
    except ValidationError as problem:
        for error in problem.errors():
            placed = {**error, "loc": ("columns", name, *error["loc"])}
            yield reason(placed, sections()).capitalize()
    except PolicyError as problem:
        yield problem.message
        yield problem.hint


def _open(rule: Rule) -> Iterator[str]:
    """Give the texts that `init` left where a decision is needed."""
    for value in rule.values():
        if _is_open(value):
            yield value.removeprefix(UNDECIDED).lstrip(": ")
        elif isinstance(value, Mapping):
            yield from _open(value)


def _is_open(value: object) -> bool:
    return isinstance(value, str) and value.startswith(UNDECIDED)


def _put(rule: dict[str, Any], key: str, value: Any, stated: bool) -> None:
    if stated:
        rule[key] = value
    else:
        rule.pop(key, None)


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()


def _split(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.strip()]


def _lines(values: list[Any]) -> str:
    return "\n".join(str(v).lower() if isinstance(v, bool) else str(v) for v in values)


def _value(text: str, kind: str) -> str | bool | int:
    """Return a value in the type that the table has it: of text as it is."""
    if kind == "true/false" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "whole numbers":
        try:
            return int(text)
        except ValueError:
            raise Mistake("values", f"{text!r} is no whole number, and the column holds these.") from None
    return text


def _bins(after: Fields) -> str | dict[str, Any]:
    kind, text = after["bins"], after["numbers"]
    if kind in DATE_UNITS:
        return kind
    if kind == "width":
        origin = {"origin": _number(after["origin"], "origin")} if after["origin"] else {}
        return {"width": _number(text, "numbers"), **origin}
    breaks = [part.strip() for part in text.replace("\n", ",").split(",") if part.strip()]
    if not breaks:
        raise Mistake("numbers", "Write where bins begin, such as 18, 30, 65.")
    if all(len(part) == len("2019-01-01") and part.count("-") == 2 for part in breaks):
        return {"breaks": breaks}
    return {"breaks": [_number(part, "numbers") for part in breaks]}


def _number(text: str, field: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if found - found != 0:
        raise Mistake(field, f"{text!r} is no number: write 10, or 2.5 with a point." if text else "Write a number.")
    return found


def _merged(merge: object) -> str:
    if not isinstance(merge, Mapping):
        return ""
    return "\n".join(f"{name} = {' | '.join(map(str, values))}" for name, values in merge.items())


def _merge(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in _split(text):
        name, mark, values = (part.strip() for part in line.partition("="))
        listed = [value.strip() for value in values.split("|") if value.strip()]
        if not (name and mark and listed):
            raise Mistake("merge", f"{line!r} is not understood: write the new name = one value | another value.")
        found.setdefault(name, []).extend(listed)
    return found
