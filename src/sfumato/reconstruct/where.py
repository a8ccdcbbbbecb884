"""Conditions on untouched columns, read with sqlglot and rebuilt from the parts that are allowed.

Only comparisons, IN, BETWEEN, LIKE, IS NULL, AND, OR, NOT, arithmetic and literals pass; a function, a sub-query or
another table is refused by name, so a condition can read nothing but the release's own rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.errors import UsageError

ALLOWED: tuple[type[exp.Expression], ...] = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is,
    exp.Null, exp.Like, exp.ILike, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Neg, exp.Add, exp.Sub,
    exp.Mul, exp.Div, exp.Mod,
)  # fmt: skip

COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In)
EXAMPLE = "A condition looks like: sex = 'F' AND age BETWEEN 40 AND 60"


def condition_sql(where: str, columns: Mapping[str, str], randomized: tuple[str, ...]) -> str:
    """Return the condition as SQL, checked. `columns` maps each published column to its type."""
    try:
        return _checked_sql(_parsed(where), columns, randomized)
    except RecursionError:
        raise UsageError("The condition is nested too deeply.", EXAMPLE) from None


def _checked_sql(tree: exp.Expression, columns: Mapping[str, str], randomized: tuple[str, ...]) -> str:
    for node in tree.walk():
        if not isinstance(node, ALLOWED):
            raise UsageError(f"{type(node).__name__.upper()} is not allowed in a condition.", EXAMPLE)
        if isinstance(node, exp.In) and (node.args.get("query") or node.args.get("unnest")):
            raise UsageError("A sub-query is not allowed in a condition.", EXAMPLE)
        if isinstance(node, exp.Column):
            _check_column(node, columns, randomized)
    return _numbers_as_numbers(tree, columns).sql(dialect="duckdb", identify=True, comments=False)


def _parsed(where: str) -> exp.Expression:
    try:
        statements = sqlglot.parse(f"SELECT 1 WHERE {where}", dialect="duckdb")
    except SqlglotError as problem:
        first = str(problem).splitlines()[0]
        raise UsageError(f"The condition {where!r} cannot be read: {first}", EXAMPLE) from None
    select = statements[0] if len(statements) == 1 else None
    if not isinstance(select, exp.Select) or not select.args.get("where"):
        raise UsageError(f"{where!r} is not one condition.", EXAMPLE)
    if {part for part, content in select.args.items() if content} - {"expressions", "where", "kind"}:
        raise UsageError(f"The condition {where!r} holds more than a condition.", EXAMPLE)
    condition: exp.Expression = select.args["where"].this
    return condition


def _check_column(node: exp.Column, columns: Mapping[str, str], randomized: tuple[str, ...]) -> None:
    name = node.name
    if node.table:
        raise UsageError(f"{node.sql()} names a table; a condition names columns only.", EXAMPLE)
    if name in randomized:
        raise UsageError(
            f"{name!r} is randomized: counting the rows whose published value fits would be biased.",
            f"Group by it instead (--by {name}) and read the rows that you want.",
        )
    if name not in columns:
        near = difflib.get_close_matches(name, columns, n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"The columns are {', '.join(columns)}."
        raise UsageError(f"The release has no column {name!r}.", hint)


def _numbers_as_numbers(tree: exp.Expression, columns: Mapping[str, str]) -> exp.Expression:
    """Compare a text column with numbers as a number: columns from CSV are text, and '9' > '10' as text."""

    for comparison in [node for node in tree.walk() if isinstance(node, COMPARISONS)]:
        if all(literal.is_string for literal in comparison.find_all(exp.Literal)):
            continue
        for column in list(comparison.find_all(exp.Column)):
            if columns[column.name] == "string" and not isinstance(column.parent, exp.TryCast):
                column.replace(exp.TryCast(this=column.copy(), to=exp.DataType.build("double")))
    return tree
