"""The sections [method] and [requirement] as the fields of a form, and back. What nobody touched stays as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import cache
from typing import Any, Literal

from sfumato.errors import PolicyError
from sfumato.methods import METHODS, Method
from sfumato.studio.desk.rules import Fields, Mistake
from sfumato.values.requirement import (
    Amplification,
    Diversity,
    FineGrainPrivacy,
    LocalPrivacy,
    Requirement,
    RhoPrivacy,
    RiskLimit,
    Robustness,
    Tolerance,
    exact,
)

Section = Mapping[str, Any]
AS_STATED = "as stated"
"""Chosen for an option that no field of a form can show: it stays as the policy has it."""

# --- the method -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Option:
    """An option of a method, as a field."""

    name: str
    about: str
    kind: Literal["flag", "choice", "number", "text", "names", "sets"]
    choices: tuple[str, ...] = ()
    default: Any = None


@cache
def options_of(method: type[Method]) -> tuple[Option, ...]:
    """Return the options of a method, by the types of its fields."""
    schema = method.model_json_schema()["properties"]
    return tuple(
        _option(name, schema[name], None if info.is_required() else info.default)
        for name, info in method.model_fields.items()
    )


def _option(name: str, schema: Section, default: Any) -> Option:
    branches = schema.get("anyOf", [schema])
    choices = [
        each for branch in branches for each in branch.get("enum", [branch["const"]] if "const" in branch else [])
    ]
    about, kinds = str(schema.get("description", "")), {branch.get("type") for branch in branches}
    if choices:
        return Option(name, about, "choice", (*([""] if "null" in kinds else []), *choices), default)
    if "array" in kinds:
        inner = next(branch["items"] for branch in branches if branch.get("type") == "array")
        return Option(name, about, "sets" if inner.get("type") == "array" else "names", (), default)
    if "boolean" in kinds:
        return Option(name, about, "flag", (), default)
    return Option(name, about, "number" if kinds & {"integer", "number"} else "text", (), default)


def shown_option(option: Option, stated: Section) -> str:
    """Return what the form shows of an option."""
    value = stated.get(option.name, option.default)
    if value is None:
        return ""
    if option.kind == "flag":
        return "yes" if value is True else ""
    if option.kind == "choice":
        return value if value in option.choices else AS_STATED
    if option.kind == "names":
        return "\n".join(map(str, value))
    if option.kind == "sets":
        return "\n".join(" | ".join(map(str, names)) for names in value)
    return str(value)


def made_method(before: Section, sent: Mapping[str, str]) -> dict[str, Any]:
    """Return the section [method] of a form; `before` is that of the policy."""
    name = sent.get("method") or str(before.get("name", ""))
    method = next((each for each in METHODS if each.name == name), None)
    if method is None:
        raise Mistake("method", "Choose a method.")
    stated: dict[str, Any] = dict(before) if before.get("name") == name else {"name": name}
    if f"{name}.here" not in sent:
        return stated
    for option in options_of(method):
        text = sent.get(f"{name}.{option.name}", "").replace("\r\n", "\n").strip()
        if text != shown_option(option, stated):
            _set(stated, option, text)
    return stated


def _set(stated: dict[str, Any], option: Option, text: str) -> None:
    value = _read(option, text)
    if value is None or value == option.default or (value == [] and not option.default):
        stated.pop(option.name, None)
    else:
        stated[option.name] = value


def _read(option: Option, text: str) -> Any:
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if option.kind == "flag":
        return bool(text)
    if option.kind == "names":
        return lines
    if option.kind == "sets":
        return [[name.strip() for name in line.split("|") if name.strip()] for line in lines]
    if option.kind == "number" and text:
        return _number(text, option.name)
    return text or None


# --- the requirement --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of requirement: its key, what it is called, and which values of the model it makes."""

    key: str
    title: str
    makes: tuple[type[Requirement], ...]

    def goes_with(self, method: type[Method]) -> bool:
        """Whether a method takes it."""
        return any(made in method.takes for made in self.makes)


KINDS = (
    Kind("rho", "How much a belief may grow", (RhoPrivacy,)),
    Kind("values", "Some values more strictly than others", (FineGrainPrivacy,)),
    Kind("tolerance", "A belief may grow by a factor of each value's own share", (Tolerance,)),
    Kind("gamma", "Odds may change by a factor", (Amplification,)),
    Kind("epsilon", "Local differential privacy", (LocalPrivacy,)),
    Kind("l", "No value has more than one part in so many", (Diversity, RiskLimit)),
    Kind("risk_limit", "No value is believed by more than a limit", (RiskLimit,)),
    Kind("r", "No value is believed by more than one part in so many", (Robustness,)),
)
NUMBERS = ("gamma", "epsilon", "tolerance")
WHOLE = ("l", "r")
BEGIN = {
    "rho1": "10", "rho2": "25", "gamma": "3", "epsilon": "1", "tolerance": "3", "l": "3", "r": "2", "risk_limit": "25",
}  # fmt: skip
"""What a field shows where the policy says nothing."""


def kind_of(stated: Section) -> str:
    """Return of which kind a requirement is."""
    if stated.get("values"):
        return "values"
    return next((key for key in (*NUMBERS, *WHOLE, "risk_limit") if key in stated), "rho")


@dataclass(frozen=True)
class Row:
    """What is asked of one value."""

    value: Any
    label: str
    rho1: str
    rho2: str
    given: str
    number: int | None  # of the entry of the policy; None: it has none


def shown_requirement(stated: Section) -> Fields:
    """Return what the form shows of a requirement, but for single values."""
    fields = {key: _percent(stated.get(key)) for key in ("rho1", "rho2", "risk_limit")}
    fields |= {
        key: "" if _is_open(stated.get(key)) else str(stated[key]) for key in (*NUMBERS, *WHOLE) if key in stated
    }
    others = {"others1": fields["rho1"], "others2": fields["rho2"]} if kind_of(stated) == "values" else {}
    return {
        "kind": kind_of(stated),
        "from_table": "yes" if stated.get("from_table") is True else "",
        **fields,
        **others,
    }


def begun(fields: Fields) -> Fields:
    """Return the fields with something to begin with where the policy says nothing."""
    return fields | {name: text for name, text in BEGIN.items() if not fields.get(name)}


def rows_of(stated: Section, labels: Sequence[str]) -> list[Row]:
    """Return a row for each entry of the policy, then for each other value."""
    entries = [entry for entry in stated.get("values", ()) if isinstance(entry, Mapping)]
    rows = [
        Row(
            e.get("value"),
            str(e.get("value")),
            _percent(e.get("rho1")),
            _percent(e.get("rho2")),
            str(e.get("given", "")),
            k,
        )
        for k, e in enumerate(entries)
    ]
    listed = {row.label for row in rows}
    return [*rows, *(Row(label, label, "", "", "", None) for label in labels if label not in listed)]


def made_requirement(before: Section, sent: Mapping[str, str], rows: Sequence[Row]) -> dict[str, Any]:
    """Return the section [requirement] of a form; `before` is that of the policy, `rows` those that the form showed."""
    kind, fields = sent.get("kind", "rho"), shown_requirement(before)
    same = kind == fields["kind"]
    made: dict[str, Any] = dict(before) if same else {}
    if "from_table" in made and not sent.get("from_table"):
        del made["from_table"]
    if kind in ("rho", "values"):
        others = {"rho1": sent.get("others1", ""), "rho2": sent.get("others2", "")}
        _put_rho(made, fields if same else {}, others if kind == "values" else sent, optional=kind == "values")
    elif kind == "risk_limit":
        _put(made, kind, fields if same else {}, sent, _share)
    else:
        _put(made, kind, fields if same else {}, sent, _whole if kind in WHOLE else _number)
    if kind == "tolerance":
        made.setdefault("rho1", "observed")
    if kind == "values":
        made["values"] = list(_entries(before, sent, rows))
        if not made["values"]:
            raise Mistake("values", "Say of one value at least what may be believed of it, or choose another kind.")
        if "rho2" in made:
            made.pop("others", None)
        else:
            made["others"] = "unprotected"
    return made


def _put_rho(made: dict[str, Any], fields: Mapping[str, str], sent: Mapping[str, str], *, optional: bool) -> None:
    if optional and not sent.get("rho1", "").strip() and not sent.get("rho2", "").strip():
        made.pop("rho1", None)
        made.pop("rho2", None)
        return
    for key in ("rho1", "rho2"):
        _put(made, key, fields, sent, _share)


def _put(made: dict[str, Any], key: str, fields: Mapping[str, str], sent: Mapping[str, str], read: Any) -> None:
    """Put a number unless it is as it was shown."""
    text = sent.get(key, "").strip()
    if key not in made or text != fields.get(key) or not text:
        made[key] = read(text, key)


def _entries(before: Section, sent: Mapping[str, str], rows: Sequence[Row]) -> Iterator[Mapping[str, Any]]:
    stated = before.get("values", ())
    for place, row in enumerate(rows):
        rho1, rho2 = (sent.get(f"v{place}.{key}", "").strip() for key in ("rho1", "rho2"))
        if not rho1 and not rho2:
            continue
        entry = dict(stated[row.number]) if row.number is not None else {"value": row.value}
        for key, text, shown in (("rho1", rho1, row.rho1), ("rho2", rho2, row.rho2)):
            if text != shown or key not in entry:
                entry[key] = _share(text, f"v{place}.{key}")
        yield entry


def _is_open(value: object) -> bool:
    return value is None or (isinstance(value, str) and not any(letter.isdigit() for letter in value[:1]))


def _percent(value: object) -> str:
    """Return a probability of a policy in percent."""
    if _is_open(value) or isinstance(value, Mapping):
        return ""
    try:
        return f"{float(100 * exact(value)):.10g}"  # type: ignore[arg-type]
    except PolicyError:
        return ""


def _share(text: str, field: str) -> float:
    """Return the probability of a percentage."""
    found = _decimal(text.rstrip("% "), field)
    if not 0 < found < 100:
        raise Mistake(field, f"{text} is no percentage above 0 and below 100.")
    return float(found / 100)


def _number(text: str, field: str) -> int | float | str:
    if "/" in text:
        return text  # a fraction, which is checked with the rest of the policy
    found = _decimal(text, field)
    return int(found) if found == int(found) else float(found)


def _whole(text: str, field: str) -> int:
    found = _decimal(text, field)
    if found != int(found):
        raise Mistake(field, f"{text} is no whole number.")
    return int(found)


def _decimal(text: str, field: str) -> Decimal:
    try:
        found = Decimal(text.strip().replace(",", "."))
    except InvalidOperation:
        found = Decimal("nan")
    if not found.is_finite() or abs(found) > 10**12:
        raise Mistake(field, f"{text!r} is no number: write 25, or 12.5." if text else "A number is missing here.")
    return found


# --- backwards --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ladder:
    """The requirements of a kind, from the strictest to the loosest, on a grid of round numbers."""

    key: str
    first: int
    last: int
    unit: Fraction

    def at(self, number: int) -> float:
        """Return what stands in the policy."""
        return float(number * self.unit)


def ladder_of(stated: Section) -> Ladder | None:
    """Return what is searched for a requirement; None if it has no number that changes the error of counts."""
    kind = kind_of(stated)
    if kind == "rho":
        return Ladder("rho2", int(exact(stated["rho1"]) * 1000) + 1, 999, Fraction(1, 1000))
    if kind == "gamma":
        return Ladder("gamma", 101, 10_000, Fraction(1, 100))
    return Ladder("epsilon", 1, 1_000, Fraction(1, 100)) if kind == "epsilon" else None
