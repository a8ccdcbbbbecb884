"""Questions as they stand in an address: read, made plain, and turned into a call of the library.

A form is sent with all its fields, also the empty ones. `plain` leaves out whatever says nothing, so that each answer
has one short address, which can be kept and loaded again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any
from urllib.parse import urlencode

from sqlglot.dialects.duckdb import DuckDB

from sfumato.analyst.ask.where import is_number
from sfumato.analyst.randomized.figures import hidden_columns
from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types, quoted, quoted_text
from sfumato.studio.analyst.calls import Call

USUAL = {"target": "table", "level": "95", "method": "inverse", "of": "all", "normaliser": "second", "chance": "80"}
"""What is meant by a field that is left out."""
FIGURES = {
    "count": "how many records",
    "share": "the share of the records",
    "average": "the average of a column",
    "sum": "the sum of a column",
    "quantile": "a quantile of a column",
    "distribution": "the distribution of a column",
}
OF_COLUMN = ("average", "sum", "quantile", "distribution")
OPERATORS = {
    "is": "is",
    "is not": "is not",
    "in": "is one of (commas between)",
    "below": "is below",
    "at most": "is at most",
    "at least": "is at least",
    "above": "is above",
    "missing": "is missing",
    "known": "is not missing",
}
COMPARED = {"is": "=", "is not": "<>", "below": "<", "at most": "<=", "at least": ">=", "above": ">"}
WITHOUT_VALUE = {"missing": "IS NULL", "known": "IS NOT NULL"}
NUMBER = re.compile(r"-?\d+(\.\d+)?")
LONGEST_NUMBER = 30
"""Letters of a number of percent: Python reads none with thousands of digits."""
PLAIN_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
INSIDE, UP_TO_WHOLE, FROM_HALF = "above 0 and below 100", "above 0 and at most 100", "at least 50 and below 100"
LIMITS: dict[str, Callable[[Fraction], bool]] = {
    INSIDE: lambda percents: 0 < percents < 100,
    UP_TO_WHOLE: lambda percents: 0 < percents <= 100,
    FROM_HALF: lambda percents: 50 <= percents < 100,
}
"""Within which numbers of percent must lie, and the words for it."""
CONDITIONS = WHERE, EXPOSED, OUTCOME = "where", "exposed", "outcome"
PARTS = "column", "is", "value"
"""Conditions by name; each is a column, an operator and a value, in three fields whose names begin with its own."""


@dataclass(frozen=True)
class Condition:
    """A line of a form: a column, how it is compared, and with what."""

    column: str = ""
    operator: str = "is"
    value: str = ""


@dataclass(frozen=True)
class Fields:
    """The fields of a form, as an address has them."""

    pairs: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """Return a field: the last of its name, or what is usual."""
        return next((value for field, value in reversed(self.pairs) if field == name), USUAL.get(name, ""))

    def every(self, name: str) -> tuple[str, ...]:
        """Return all fields of a name."""
        return tuple(value for field, value in self.pairs if field == name)

    def conditions(self, name: str) -> tuple[Condition, ...]:
        """Return the conditions of a name; a line without a column must have no value."""
        parts = [self.every(f"{name}_{part}") for part in PARTS]
        if len(set(map(len, parts))) > 1:
            raise UsageError("A condition is not complete.", "Each has a column, a comparison and a value.")
        found = [Condition(*line) for line in zip(*parts, strict=True)]
        if lost := next((line for line in found if line.value and not line.column), None):
            raise UsageError(f"The value {lost.value!r} of a condition has no column.", "Choose its column, too.")
        return tuple(line for line in found if line.column)

    def lines(self, name: str, blank: int) -> tuple[Condition, ...]:
        """Return the conditions of a name as a form shows them again, whatever is wrong with them, and blank ones."""
        parts = (self.every(f"{name}_{part}") for part in PARTS)
        return (*(Condition(*line) for line in zip(*parts, strict=False)), *(Condition() for _ in range(blank)))

    @property
    def plain(self) -> Fields:
        """The same without what is empty or usual; conditions stay whole."""
        used = {name: [bool(column) for column in self.every(f"{name}_column")] for name in CONDITIONS}
        for name in CONDITIONS:
            self.conditions(name)  # raises what is wrong with them
        seen: Counter[str] = Counter()
        kept = []
        for field, value in self.pairs:
            name, _, part = field.rpartition("_")
            if name in used and part in PARTS:
                keep = used[name][seen[field]]
                seen[field] += 1
            else:
                keep = bool(value) and USUAL.get(field) != value
            kept += [(field, value)] if keep else []
        return Fields(tuple(kept))

    @property
    def address(self) -> str:
        """The fields as they stand in an address."""
        return urlencode(self.pairs)


# --- calls ------------------------------------------------------------------------------------------------------------


def figure_call(release: Release, fields: Fields) -> Call:
    """Return the call for a question by clicking. What `count` cannot be asked is said in SQL."""
    figure, by, conditions = fields.get("figure"), _by(fields), fields.conditions(WHERE)
    if figure not in FIGURES:
        raise UsageError(f"There is no figure {figure!r}.", f"Figures are {', '.join(FIGURES)}.")
    column = fields.get("column")
    if figure in OF_COLUMN and not column:
        raise UsageError("The question names no column whose figure is asked.", "Choose one under “Of column”.")
    where, how = condition_text(release, conditions), _options(fields, "method", "weight")
    if figure == "distribution":
        return Call("distribution", (column, by, where), _options(fields, "weight"))
    hidden = {line.column for line in conditions} & set(hidden_columns(release))
    by_sql = fields.get("weight") or (hidden and not release.manifest.in_buckets and fields.get("method") == "inverse")
    if figure == "count" and not by_sql:
        return Call("count", (by, where), how)
    return Call("sql", (_query(figure, column, by, where, fields),), how)


def _query(figure: str, column: str, by: tuple[str, ...], where: str, fields: Fields) -> str:
    names = [named(name) for name in by]
    measured = _measured(figure, column, names, fields)
    return (
        f"SELECT {', '.join([*names, measured])} FROM release{f' WHERE {where}' if where else ''}"
        f"{' GROUP BY ' + ', '.join(names) if names else ''}"
    )


def _measured(figure: str, column: str, names: Sequence[str], fields: Fields) -> str:
    if figure == "count":
        return "COUNT(*)"
    if figure == "share":
        return _share(names, fields.get("of"))
    if figure == "quantile":
        return f"QUANTILE({named(column)}, {_part(fields.get('quantile') or '50', 'The quantile')})"
    return f"{'AVG' if figure == 'average' else 'SUM'}({named(column)})"


def _share(names: Sequence[str], of: str) -> str:
    if not names:
        raise UsageError("A share needs groups: of whom is it asked?", "Choose a column to group by.")
    within = f"PARTITION BY {', '.join(names[:-1])}" if of == "groups" and len(names) > 1 else ""
    return f"COUNT(*) / SUM(COUNT(*)) OVER ({within})"


def sql_call(release: Release, fields: Fields) -> Call:
    """Return the call for a query."""
    return Call("sql", (fields.get("query").replace("\r\n", "\n").strip(),), _options(fields, "method", "weight"))


def association_call(release: Release, fields: Fields) -> Call:
    """Return the call for two columns."""
    where = condition_text(release, fields.conditions(WHERE))
    return Call("association", (fields.get("first"), fields.get("second"), where), _options(fields, "normaliser"))


def risks_call(release: Release, fields: Fields) -> Call:
    """Return the call for risks."""
    texts = (condition_text(release, fields.conditions(name)) for name in (EXPOSED, OUTCOME, WHERE))
    return Call("risks", tuple(texts), _options(fields))


def power_call(release: Release, fields: Fields) -> Call:
    """Return the call for what to expect."""
    where = condition_text(release, fields.conditions(WHERE))
    shares = [
        (name, _part(fields.get(name), title, UP_TO_WHOLE))
        for name, title in (("share", "The assumed share"), ("width", "The half-width"))
        if fields.get(name)
    ]
    chance = _part(fields.get("chance"), "The chance", FROM_HALF)
    return Call("power", (_by(fields), where), (*shares, *_changed("chance", chance, 0.8), *_options(fields)))


def _by(fields: Fields) -> tuple[str, ...]:
    return tuple(dict.fromkeys(fields.every("by")))


def _options(fields: Fields, *names: str) -> tuple[tuple[str, Any], ...]:
    """Return the options of a call that are not usual: the target, the level, and those named."""
    level = _part(fields.get("level"), "The level of the intervals")
    chosen = [(name, fields.get(name)) for name in (*names, "target")]
    told = [pair for name, value in chosen for pair in _changed(name, value, USUAL.get(name, ""))]
    return (*told, *_changed("level", level, 0.95))


def _changed(name: str, value: Any, usual: Any) -> tuple[tuple[str, Any], ...]:
    return () if value == usual else ((name, value),)


def _part(text: str, what: str, limits: str = INSIDE) -> float:
    """Return percents as a part of one, the nearest number to it; raise unless they lie within limits."""
    plain = text.strip().removesuffix("%").strip()
    if len(plain) > LONGEST_NUMBER or not NUMBER.fullmatch(plain):
        raise UsageError(f"{what} must be a number of percent, not {text[:LONGEST_NUMBER]!r}.", "E.g. 95.")
    percents = Fraction(plain)
    if not LIMITS[limits](percents):
        raise UsageError(f"{what} must be {limits} percent, not {text}.", "5% is 5, not 0.05.")
    return float(percents / 100)


# --- conditions as SQL ------------------------------------------------------------------------------------------------


def named(column: str) -> str:
    """Return the name of a column in SQL: as it is where that is a plain name, else in quotes.

    >>> named("sex"), named("order"), named("body mass")
    ('sex', '"order"', '"body mass"')
    """
    return column if PLAIN_NAME.fullmatch(column) and column.upper() not in _words() else quoted(column)


@cache
def _words() -> frozenset[str]:
    """Return the words that mean something in SQL by themselves."""
    return frozenset(word for phrase in DuckDB.tokenizer_class.KEYWORDS for word in phrase.split())


def condition_text(release: Release, conditions: Iterable[Condition]) -> str:
    """Return conditions, all of which must hold, as SQL. The library checks it as it checks every condition."""
    types = manifest_types(release)
    return " AND ".join(_compared(line, types.get(line.column, "")) for line in conditions)


def _compared(line: Condition, kind: str) -> str:
    name = named(line.column)
    if line.operator in WITHOUT_VALUE:
        return f"{name} {WITHOUT_VALUE[line.operator]}"
    if line.operator == "in":
        return f"{name} IN ({', '.join(_literal(text.strip(), kind) for text in line.value.split(','))})"
    if line.operator not in COMPARED:
        raise UsageError(f"There is no comparison {line.operator!r}.", f"Comparisons are {', '.join(OPERATORS)}.")
    return f"{name} {COMPARED[line.operator]} {_literal(line.value, kind)}"


def _literal(text: str, kind: str) -> str:
    """Return a value as SQL: a number of a column of numbers, or a text.

    >>> _literal("18", "int64"), _literal("18", "string"), _literal("O'Neil", "string"), _literal("True", "bool")
    ('18', "'18'", "'O''Neil'", 'true')
    """
    if is_number(kind) and NUMBER.fullmatch(text.strip()):
        return text.strip()
    if kind == "bool" and text.strip().lower() in ("true", "false"):
        return text.strip().lower()
    return quoted_text(text)


CALLS: dict[str, Callable[[Release, Fields], Call]] = {
    "ask": figure_call,
    "sql": sql_call,
    "associations": association_call,
    "risks": risks_call,
    "power": power_call,
}
"""The call of each kind of question."""
