"""Conditions on untouched columns, read with sqlglot and rebuilt from the parts that are allowed.

Only comparisons, IN, BETWEEN, LIKE, IS NULL, IS DISTINCT FROM, AND, OR, NOT, arithmetic, literals and dates
(`DATE '2024-05-31'`) pass; a function, a sub-query or another table is refused by name, so a condition can read nothing
but the release's own rows. Columns may be written in any case, and as `release.column`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.errors import UsageError
from sfumato.values.number_texts import any_spelling_of
from sfumato.values.text import nearest

_Part = TypeVar("_Part", bound=exp.Expression)

ALLOWED: tuple[type[exp.Expression], ...] = (
    exp.And, exp.Or, exp.Not, exp.Paren, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.In, exp.Is,
    exp.Null, exp.Like, exp.ILike, exp.Column, exp.Identifier, exp.Literal, exp.Boolean, exp.Neg, exp.Add, exp.Sub,
    exp.Mul, exp.Div, exp.Mod, exp.NullSafeEQ, exp.NullSafeNEQ,
)  # fmt: skip

NUMBERS = ("int", "uint", "float", "double", "decimal", "halffloat")
"""How the names of Arrow's types of numbers begin."""
ORDERINGS = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between)
EQUALITIES = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ, exp.In)
COMPARISONS = (*ORDERINGS, *EQUALITIES)
MOMENTS = tuple(getattr(exp.DataType.Type, name) for name in ("DATE", "TIMESTAMP", "TIMESTAMPNTZ"))
MOST_TERMS = 200
"""Comparisons that a condition may join."""
EXAMPLE = "A condition looks like: sex = 'F' AND age BETWEEN 40 AND 60"

_SQL_WORDS: dict[type[exp.Expression], tuple[str, str]] = {
    exp.ArrayOverlaps: ("&&", "AND"),
    exp.BitwiseAnd: ("&", "AND"),
    exp.DPipe: ("||", "OR"),
    exp.BitwiseOr: ("|", "OR"),
}
"""Marks of other languages, and the words of SQL."""


@dataclass(frozen=True)
class TextualOrder:
    """A comparison that puts text in order: of columns alone, or of columns with texts that are numbers."""

    text: str  # as it stands in the condition
    columns: tuple[str, ...]
    literals: tuple[str, ...]
    as_text: str  # SQL
    as_numbers: str


def textual_orders(tree: exp.Expression, columns: Mapping[str, str]) -> Iterator[TextualOrder]:
    """Give the comparisons of a (checked) condition that put text in order: numbers among it would be in none."""
    for comparison in tree.find_all(*ORDERINGS):
        literals, named = _operands(comparison, exp.Literal), _operands(comparison, exp.Column)
        if not all(literal.is_string and any_spelling_of(literal.name.strip()) for literal in literals):
            continue
        if named and all(columns.get(column.name) == "string" for column in named):
            names = tuple(dict.fromkeys(column.name for column in named))
            texts = tuple(literal.name.strip() for literal in literals)
            yield TextualOrder(
                comparison.sql(dialect="duckdb"), names, texts, _rebuilt(comparison), _of_numbers(comparison, names)
            )


def _of_numbers(comparison: exp.Condition, names: Collection[str]) -> str:
    """Return a comparison of texts as one of the numbers that they are, null where one is none."""
    whole = exp.Paren(this=comparison.copy())
    _texts_as_numbers(whole, dict.fromkeys(names, "double"))
    for column in list(whole.find_all(exp.Column)):
        column.replace(exp.TryCast(this=column.copy(), to=exp.DataType.build("double")))
    return _rebuilt(whole.this)


def compared_texts(tree: exp.Expression | None) -> Iterator[tuple[str, str]]:
    """Give each column that a condition compares by =, <> or IN, with each text that it is compared with."""
    yield from _texts_beside_columns(tree, *EQUALITIES)


def ordered_texts(tree: exp.Expression | None) -> Iterator[tuple[str, str]]:
    """Give each column that a condition puts in order, by <, BETWEEN and the like, with each text beside it."""
    yield from _texts_beside_columns(tree, *ORDERINGS)


def _texts_beside_columns(tree: exp.Expression | None, *kinds: type[exp.Condition]) -> Iterator[tuple[str, str]]:
    for comparison in tree.find_all(*kinds) if tree else ():
        names = [column.name for column in _operands(comparison, exp.Column)]
        for literal in _operands(comparison, exp.Literal) if len(names) == 1 else ():
            if literal.is_string:
                yield names[0], literal.name


def compared_as_numbers(tree: exp.Expression, columns: Mapping[str, str], binned: Collection[str]) -> tuple[str, ...]:
    """Return the text columns that a (checked) condition takes as numbers: what is no number there would never match.

    A binned column is one of them wherever it is put in order: as text, '[100, 110)' comes before '[20, 30)'.
    """
    numeric = [column.name for column in _numeric_columns(tree, columns)]
    ordered = [
        column.name
        for comparison in tree.find_all(*ORDERINGS)
        for column in _operands(comparison, exp.Column)
        if column.name in binned
    ]
    return tuple(dict.fromkeys(numeric + ordered))


def check(tree: exp.Expression, columns: Mapping[str, str], refused: tuple[str, ...] = ()) -> None:
    """Raise unless only what is allowed is in it; `refused` are columns that may not be asked here."""
    moments = {id(part) for cast in tree.find_all(exp.Cast) if is_moment(cast) for part in cast.walk()}
    for node in tree.walk():
        if id(node) in moments:
            continue
        if not isinstance(node, ALLOWED):
            name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
            mark, word = next((said for kind, said in _SQL_WORDS.items() if isinstance(node, kind)), (name.upper(), ""))
            remedy = f"Write {word}. " if word else ""
            raise UsageError(f"{mark} is not allowed in a condition.", f"{remedy}{EXAMPLE}")
        if isinstance(node, exp.In) and (node.args.get("query") or node.args.get("unnest")):
            raise UsageError("A sub-query is not allowed in a condition.", EXAMPLE)
        if isinstance(node, exp.Column):
            check_column(node, columns, refused)
    for like in tree.find_all(exp.Like, exp.ILike):
        if number := next((c.name for c in like.find_all(exp.Column) if is_number(columns.get(c.name, ""))), None):
            raise UsageError(
                f"{number!r} holds numbers: LIKE is for text.",
                f"Compare it with numbers, e.g. {number} BETWEEN 10 AND 19.",
            )


def as_sql(tree: exp.Expression, columns: Mapping[str, str], in_text: Mapping[str, str] | None = None) -> str:
    """Return a checked condition as SQL, rebuilt from its parts.

    `in_text` has the columns whose text holds numbers where the condition is asked, with the SQL type of these.
    """
    # a root of its own: parts are replaced by others, also the condition itself
    whole = exp.Paren(this=tree.copy())
    _texts_as_numbers(whole, columns)
    _numbers_as_numbers(whole, columns, in_text or {})
    return _rebuilt(whole.this)


def _rebuilt(tree: Any) -> str:
    return str(tree.sql(dialect="duckdb", identify=True, comments=False))


def is_moment(node: exp.Expression) -> bool:
    """Whether it is a literal date or time: DATE '2024-05-31', which is read as CAST('2024-05-31' AS DATE)."""
    if not isinstance(node, exp.Cast) or node.to.this not in MOMENTS:
        return False
    return isinstance(node.this, exp.Literal) and node.this.is_string


def parsed(where: str, columns: Iterable[str]) -> exp.Expression:
    """Return a condition as a tree that names columns as the release does."""
    try:
        statements = sqlglot.parse(f"SELECT 1 WHERE {where}", dialect="duckdb")
    except SqlglotError as problem:
        raise UsageError(f"The condition {where!r} cannot be read: {reason(problem)}.", EXAMPLE) from None
    select = statements[0] if len(statements) == 1 else None
    if not isinstance(select, exp.Select) or not select.args.get("where"):
        raise UsageError(f"{where!r} is not one condition.", EXAMPLE)
    if {part for part, content in select.args.items() if content} - {"expressions", "where", "kind"}:
        raise UsageError(f"The condition {where!r} holds more than a condition.", EXAMPLE)
    with_own_names(select, columns)
    condition: exp.Expression = select.args["where"].this
    check_terms(condition)
    return condition


def with_own_names(select: exp.Select, columns: Iterable[str], tables: Collection[str] = ("release",)) -> None:
    """Write columns as the release does: SQL takes `AGE`, `release.age` and `Release.Age` for one and the same."""
    own: dict[str, list[str]] = {}
    for name in columns:
        own.setdefault(name.lower(), []).append(name)
    for column in select.find_all(exp.Column):
        if column.table.lower() in tables and not column.args.get("db"):
            column.set("table", None)
        alike = own.get(column.name.lower(), [])
        if len(alike) == 1:
            column.this.set("this", alike[0])


def check_terms(tree: exp.Expression) -> None:
    """Raise if a question has so many terms that to answer it would take minutes."""
    terms = sum(1 for _ in tree.find_all(exp.And, exp.Or, exp.Not)) + 1
    if terms > MOST_TERMS:
        raise UsageError(
            f"The condition has {terms:,} terms, more than {MOST_TERMS:,}.",
            "Name the values of a column in one list: town IN ('hill', 'lake', ...).",
        )


def reason(problem: SqlglotError) -> str:
    """Return what the parser says, without its places (they count what was put around the condition) and classes."""
    said = re.sub(r"[.,]? *Line \d+, Col: \d+.*$", "", str(problem).splitlines()[0]).rstrip(".: ")
    lacking = re.search(r"missing for <class '[\w.]*?(\w+)'>", said)
    if said.startswith("Error tokenizing"):
        return "a quote is never closed, or a character does not belong there"
    if lacking:
        return f"something is missing at {lacking[1].upper()}"
    return said if said and "<" not in said else "it is not complete"


def check_column(node: exp.Column, columns: Mapping[str, str], randomized: tuple[str, ...]) -> None:
    name = node.name
    if node.table:
        raise UsageError(f"{node.sql()} names a table; a condition names columns only.", EXAMPLE)
    if name in randomized:
        raise UsageError(
            f"{name!r} is randomized: counting the rows whose published value fits would be biased.",
            f"Group by it instead (--by {name}), or ask in SQL, which corrects for it: "
            f'"SELECT COUNT(*) FROM release WHERE {_whole(node).sql(dialect="duckdb")}".',
        )
    if name not in columns:
        is_value = isinstance(node.parent, COMPARISONS) and node.arg_key != "this"
        raise no_column(name, columns, f" A text stands in single quotes: '{name}'." if is_value else "")


def _whole(node: exp.Expression) -> exp.Expression:
    """Return the whole condition that a part belongs to."""
    while isinstance(node.parent, exp.Expression) and not isinstance(node.parent, exp.Where):
        node = node.parent
    return node


def no_column(name: str, columns: Iterable[str], more: str = "") -> UsageError:
    """Return what is raised where a column is asked for that the release does not have."""
    if near := nearest(name, columns):
        return UsageError(f"The release has no column {name!r}.", f"Did you mean {near!r}?{more}")
    return UsageError(
        f"The release has no column {name!r}.",
        f"Its columns are {', '.join(columns)}; one that the publisher left out cannot be asked for.{more}",
    )


def _numbers_as_numbers(tree: exp.Expression, columns: Mapping[str, str], in_text: Mapping[str, str]) -> None:
    """Compare a text column with numbers as a number: '9' > '10' as text."""
    for column in list(_numeric_columns(tree, columns)):
        column.replace(exp.TryCast(this=column.copy(), to=exp.DataType.build("double")))
    for column in list(tree.find_all(exp.Column)):
        if column.name in in_text:
            column.replace(exp.Cast(this=column.copy(), to=exp.DataType.build(in_text[column.name])))


def _texts_as_numbers(tree: exp.Expression, columns: Mapping[str, str]) -> None:
    """Compare a column of numbers with texts as the numbers that they are: DuckDB would round '18.5' to an integer."""
    for comparison in list(tree.find_all(*COMPARISONS)):
        number = next((c.name for c in _operands(comparison, exp.Column) if is_number(columns.get(c.name, ""))), None)
        for literal in _operands(comparison, exp.Literal) if number else ():
            if literal.is_string:
                literal.replace(_as_number(literal.name.strip(), str(number)))


def _as_number(text: str, column: str) -> exp.Expression:
    if any_spelling_of(text) is None:
        hint = f"Ask for {column} IS NULL." if not text else "Compare it with numbers, without quotes."
        raise UsageError(f"{column!r} holds numbers, and {text!r} is none.", hint)
    literal = exp.Literal.number(text.lstrip("+-"))
    return exp.Neg(this=literal) if text.startswith("-") else literal


def is_number(kind: str) -> bool:
    """Whether an Arrow type is one of numbers."""
    return kind.startswith(NUMBERS)


def _numeric_columns(tree: exp.Expression, columns: Mapping[str, str]) -> Iterator[exp.Column]:
    """Yield each text column that is compared with a number."""
    for comparison in list(tree.find_all(*COMPARISONS)):
        if all(literal.is_string for literal in _operands(comparison, exp.Literal)):
            continue
        for column in _operands(comparison, exp.Column):
            if columns.get(column.name) == "string":
                yield column


def _operands(comparison: exp.Condition, kind: type[_Part]) -> list[_Part]:
    """Return the parts of this kind that belong to the comparison itself, not to one inside it."""
    return [part for part in comparison.find_all(kind) if part.find_ancestor(*COMPARISONS) is comparison]
