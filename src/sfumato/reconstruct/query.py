"""One SELECT over a release, read with sqlglot into the parts that can be corrected; all else is refused by name.

    SELECT sex, diagnosis, COUNT(*) FROM release WHERE age BETWEEN 40 AND 60 GROUP BY sex, diagnosis
    SELECT AVG(income) FROM release WHERE diagnosis IN ('flu', 'HIV')
    SELECT diagnosis, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM release GROUP BY diagnosis ORDER BY share DESC

Nothing of the text reaches the engine as it is: conditions and columns are rebuilt from their checked parts, so a query
can read the release's own rows and nothing else.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.errors import UsageError

Kind = Literal["count", "sum", "average", "share"]
EXAMPLE = "A query looks like: SELECT sex, diagnosis, COUNT(*) FROM release WHERE age > 40 GROUP BY sex, diagnosis"
PARTS = {"expressions", "from_", "from", "where", "group", "order", "limit", "offset", "kind"}
"""What a SELECT may consist of (sqlglot's names)."""
INSTEAD = {
    "having": "Read the rows that you want of the answer.",
    "distinct": "Group by the column instead.",
    "joins": "A release is one table.",
    "with_": "Ask for one SELECT.",
    "with": "Ask for one SELECT.",
    "qualify": "Read the rows that you want of the answer.",
    "windows": "Only SUM(COUNT(*)) OVER () is known, for shares.",
}
NUMERIC = ("int", "uint", "float", "double", "decimal", "halffloat", "bool")
MOST_SETS = 64


@dataclass(frozen=True)
class Measure:
    """What is asked of each group; `column` of a sum or an average."""

    kind: Kind
    name: str
    column: str = ""


@dataclass(frozen=True)
class Query:
    """A checked query. `by` are all columns that it groups by, in the order of its SELECT; `sets` the grouping sets."""

    by: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    measure: Measure
    where: exp.Expression | None
    order: tuple[tuple[str, bool], ...]  # column, whether descending
    limit: int | None
    offset: int


def parse_query(text: str, columns: Mapping[str, str], randomized: tuple[str, ...]) -> Query:
    """Return a query, checked against the release's columns and their types."""
    try:
        return _parsed(text, columns, randomized)
    except RecursionError:
        raise UsageError("The query is nested too deeply.", EXAMPLE) from None


def _parsed(text: str, columns: Mapping[str, str], randomized: tuple[str, ...]) -> Query:
    select = _select(text)
    _check_source(select)
    shown, measure = _outputs(select, columns, randomized)
    sets = _grouping_sets(select, columns)
    by = tuple(dict.fromkeys(name for names in sets for name in names))
    if set(shown) - set(by):
        name = next(name for name in shown if name not in by)
        raise UsageError(f"{name!r} is selected but not grouped by.", f"Add it: GROUP BY {', '.join((*by, name))}")
    if measure.kind == "share" and len(sets) > 1:
        raise UsageError("Shares of several grouping sets at once have no common total.", "Ask for one set at a time.")
    where = select.args.get("where")
    outputs = (*by, measure.name, "estimate")
    return Query(
        by=(*shown, *(name for name in by if name not in shown)),
        sets=sets,
        measure=measure,
        where=where.this if where else None,
        order=tuple(_order(term, outputs, measure.name) for term in _terms(select.args.get("order"))),
        limit=_number(select.args.get("limit"), "LIMIT"),
        offset=_number(select.args.get("offset"), "OFFSET") or 0,
    )


def _select(text: str) -> exp.Select:
    try:
        statements = [s for s in sqlglot.parse(text, dialect="duckdb") if s is not None]
    except SqlglotError as problem:
        first = str(problem).splitlines()[0].split(". Line")[0].rstrip(". ")
        raise UsageError(f"The query cannot be read: {first}.", EXAMPLE) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        what = type(statements[0]).__name__.upper() if len(statements) == 1 else f"{len(statements)} statements"
        raise UsageError(f"A query is one SELECT, not {what}.", EXAMPLE)
    select = statements[0]
    for part, content in select.args.items():
        if content and part not in PARTS:
            name = part.rstrip("_").upper()
            raise UsageError(f"{name} cannot be corrected or is not known here.", INSTEAD.get(part, EXAMPLE))
    for inner in select.find_all(exp.Subquery, exp.Select):
        if inner is not select:
            raise UsageError("A sub-query is not allowed.", EXAMPLE)
    return select


def _check_source(select: exp.Select) -> None:
    source = select.args.get("from_") or select.args.get("from")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or table.name.lower() != "release" or table.args.get("db"):
        named = "no table" if table is None else repr(table.sql(dialect="duckdb"))
        raise UsageError(f"A query reads FROM release; this one reads {named}.", EXAMPLE)
    if table.args.get("joins") or table.args.get("sample"):
        raise UsageError("A join or a sample cannot be corrected.", "A release is one table.")


# --- what is selected -------------------------------------------------------------------------------------------------


def _outputs(
    select: exp.Select, columns: Mapping[str, str], randomized: tuple[str, ...]
) -> tuple[tuple[str, ...], Measure]:
    shown, measures = [], []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Column):
            shown.append(_column(inner, columns))
        else:
            measures.append(_measure(inner, item.alias, columns, randomized))
    if len(measures) != 1:
        raise UsageError(f"A query asks for one figure, not for {len(measures)}.", EXAMPLE)
    return tuple(shown), measures[0]


def _measure(node: exp.Expression, alias: str, columns: Mapping[str, str], randomized: tuple[str, ...]) -> Measure:
    while isinstance(node, exp.Paren):
        node = node.this
    if _is_count(node):
        return Measure("count", alias or "count")
    if isinstance(node, exp.Div) and _is_share(node):
        return Measure("share", alias or "share")
    if isinstance(node, exp.Sum | exp.Avg):
        kind: Kind = "sum" if isinstance(node, exp.Sum) else "average"
        return Measure(kind, alias or kind, _numeric_column(node, columns, randomized))
    raise UsageError(
        f"{node.sql(dialect='duckdb')} cannot be corrected for the randomization.",
        "COUNT(*), SUM(column), AVG(column) and COUNT(*) / SUM(COUNT(*)) OVER () can.",
    )


def _is_count(node: exp.Expression) -> bool:
    return isinstance(node, exp.Count) and isinstance(node.this, exp.Star) and not node.args.get("expressions")


def _is_share(node: exp.Div) -> bool:
    """COUNT(*) / SUM(COUNT(*)) OVER (), with or without a factor such as 1.0 before it."""
    top, bottom = node.this, node.expression
    if isinstance(top, exp.Mul):
        top = top.expression if isinstance(top.this, exp.Literal) and float(top.this.name) == 1 else top
    if not isinstance(bottom, exp.Window) or any(bottom.args.get(k) for k in ("partition_by", "order", "spec")):
        return False
    total = bottom.this
    return _is_count(top) and isinstance(total, exp.Sum) and _is_count(total.this)


def _numeric_column(node: exp.Expression, columns: Mapping[str, str], randomized: tuple[str, ...]) -> str:
    inner = node.this
    if not isinstance(inner, exp.Column):
        raise UsageError(f"{node.sql(dialect='duckdb')}: only a column can be summed or averaged.", EXAMPLE)
    name = _column(inner, columns)
    if name in randomized:
        raise UsageError(
            f"{name!r} is randomized: its published values cannot be summed.",
            f"Ask for counts by it (GROUP BY {name}) and weigh them yourself.",
        )
    if not columns[name].startswith(NUMERIC):
        raise UsageError(f"{name!r} is of type {columns[name]}: it cannot be summed or averaged.")
    return name


def _column(node: exp.Column, columns: Mapping[str, str]) -> str:
    if node.table and node.table.lower() != "release":
        raise UsageError(f"{node.sql(dialect='duckdb')} names another table.", EXAMPLE)
    if node.name not in columns:
        near = difflib.get_close_matches(node.name, columns, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"The columns are {', '.join(columns)}."
        raise UsageError(f"The release has no column {node.name!r}.", hint)
    return node.name


# --- groups, order, limit ---------------------------------------------------------------------------------------------


def _grouping_sets(select: exp.Select, columns: Mapping[str, str]) -> tuple[tuple[str, ...], ...]:
    """Return the grouping sets: those of every item of GROUP BY with those of every other."""
    group = select.args.get("group")
    if group is None:
        return ((),)
    if {part for part, content in group.args.items() if content} - {"expressions"}:
        raise UsageError("GROUP BY ALL leaves open what is asked.", "Name the columns.")
    sets: list[tuple[str, ...]] = [()]
    for node in group.expressions:
        sets = [(*old, *new) for old in sets for new in _sets_of(node, columns)]
    if len(sets) > MOST_SETS:
        raise UsageError(f"{len(sets)} grouping sets are more than {MOST_SETS}.", "Ask in several queries.")
    return tuple(tuple(dict.fromkeys(names)) for names in sets)


def _sets_of(node: exp.Expression, columns: Mapping[str, str]) -> list[tuple[str, ...]]:
    if not isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
        return [_names(node, columns)]
    items = [_names(part, columns) for part in node.expressions]
    if isinstance(node, exp.Cube):
        sizes = range(len(items), -1, -1)
        return [tuple(n for item in chosen for n in item) for size in sizes for chosen in combinations(items, size)]
    if isinstance(node, exp.Rollup):
        return [tuple(n for item in items[:size] for n in item) for size in range(len(items), -1, -1)]
    return items


def _names(node: exp.Expression, columns: Mapping[str, str]) -> tuple[str, ...]:
    """Return the column or columns of an item of GROUP BY."""
    if isinstance(node, exp.Paren | exp.Tuple):
        inner = node.expressions if isinstance(node, exp.Tuple) else [node.this]
        return tuple(name for part in inner for name in _names(part, columns))
    if not isinstance(node, exp.Column):
        raise UsageError(f"GROUP BY {node.sql(dialect='duckdb')}: groups are columns of the release.", EXAMPLE)
    return (_column(node, columns),)


def _terms(order: exp.Expression | None) -> list[exp.Expression]:
    return list(order.expressions) if order else []


def _order(term: exp.Expression, outputs: tuple[str, ...], measure: str) -> tuple[str, bool]:
    inner = term.this
    name = inner.name if isinstance(inner, exp.Column) else "estimate" if not isinstance(inner, exp.Literal) else ""
    if isinstance(inner, exp.Literal) or name not in outputs:
        raise UsageError(
            f"ORDER BY {inner.sql(dialect='duckdb')}: order by a column that is grouped by, or by the figure "
            f"({measure!r}).",
            EXAMPLE,
        )
    return ("estimate" if name == measure else name), bool(term.args.get("desc"))


def _number(node: exp.Expression | None, what: str) -> int | None:
    if node is None:
        return None
    literal = node.expression
    if not isinstance(literal, exp.Literal) or not literal.name.isdigit():
        raise UsageError(f"{what} takes a number.", EXAMPLE)
    return int(literal.name)
