"""One SELECT over a release, read with sqlglot into the parts that can be corrected; all else is refused by name.

    SELECT sex, diagnosis, COUNT(*) FROM release WHERE age BETWEEN 40 AND 60 GROUP BY sex, diagnosis
    SELECT AVG(income) FROM release WHERE diagnosis IN ('flu', 'HIV')
    SELECT sex, diagnosis, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) AS share FROM release
    GROUP BY sex, diagnosis ORDER BY share DESC
    SELECT sex, AVG(pain), QUANTILE(pain, 0.9) FROM release GROUP BY sex            of a randomized column itself
    SELECT region, COUNT(*) FILTER (WHERE diagnosis IN ('flu', 'HIV')) / COUNT(*) AS prevalence FROM release
    GROUP BY region
    SELECT AVG(income) FILTER (WHERE sex = 'F') - AVG(income) FILTER (WHERE sex = 'M') AS gap FROM release

Nothing of the text reaches the engine as it is: conditions and columns are rebuilt from their checked parts, so a query
can read the release's own rows and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.analyst.ask.expressions import with_whole_conditions
from sfumato.analyst.ask.measure import (
    EXAMPLE,
    Columns,
    Measure,
    column_of,
    conditions_inside,
    measure_of,
    names_of,
    texts_inside,
)
from sfumato.analyst.ask.where import check_terms, reason, with_own_names
from sfumato.errors import UsageError

PARTS = {"expressions", "from_", "from", "where", "group", "order", "limit", "offset"}
"""What a SELECT may consist of (sqlglot's names)."""
INSTEAD = {
    "having": "Read the rows that you want of the answer.",
    "distinct": "Group by the column instead.",
    "joins": "A release is one table. Ask for counts by the columns that both tables have, and join the answers.",
    "with_": "Ask for one SELECT.",
    "with": "Ask for one SELECT.",
    "qualify": "Read the rows that you want of the answer.",
    "windows": "Only SUM(COUNT(*)) OVER (...) is known, for shares.",
}
MOST_SETS = 64


@dataclass(frozen=True)
class Query:
    """A checked query. `by` are all columns that it groups by, in the order of its SELECT; `sets` the grouping sets."""

    by: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    measures: tuple[Measure, ...]
    where: exp.Expression | None
    order: tuple[tuple[str, bool], ...]  # a column or a figure, whether descending
    limit: int | None
    offset: int
    inside: tuple[exp.Expression, ...] = ()  # the conditions inside figures
    numeric_texts: frozenset[str] = frozenset()  # untouched columns of text that figures take as numbers

    @property
    def scaled(self) -> frozenset[str]:
        """The hidden columns whose own values are asked for, in figures or in conditions inside them."""
        scores = (score for m in self.measures for number in m.totals for score in number.scores)
        named = {name for score in scores for name in score.columns}
        return frozenset(named | {scale.column for measure in self.measures for scale in measure.scales})


def parse_query(text: str, columns: Columns) -> Query:
    """Return a query, checked against the release's columns and their types."""
    if not text.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise UsageError("The query holds a broken character.", EXAMPLE)
    try:
        return _parsed(text, columns)
    except RecursionError:
        raise UsageError("The query is nested too deeply.", EXAMPLE) from None


def _parsed(text: str, columns: Columns) -> Query:
    select = _select(text)
    check_terms(select)
    with_own_names(select, columns.types, _check_source(select))
    with_whole_conditions(select)
    shown, measures = _outputs(select, columns)
    sets = _grouping_sets(select, columns)
    by = tuple(dict.fromkeys(name for names in sets for name in names))
    if set(shown) - set(by):
        name = next(name for name in shown if name not in by)
        raise UsageError(f"{name!r} is selected but not grouped by.", f"Add it: GROUP BY {', '.join((*by, name))}")
    _check_measures(measures, by, sets)
    where = select.args.get("where")
    return Query(
        by=(*shown, *(name for name in by if name not in shown)),
        sets=sets,
        measures=measures,
        where=where.this if where else None,
        order=tuple(_order(term, by, measures) for term in _terms(select.args.get("order"))),
        limit=_number(select.args.get("limit"), "LIMIT"),
        offset=_number(select.args.get("offset"), "OFFSET") or 0,
        inside=tuple(c for item in select.expressions for c in conditions_inside(item, columns)),
        numeric_texts=frozenset(name for item in select.expressions for name in texts_inside(item, columns)),
    )


def _check_measures(measures: tuple[Measure, ...], by: tuple[str, ...], sets: tuple[tuple[str, ...], ...]) -> None:
    names = [measure.name for measure in measures]
    for name in names:
        if names.count(name) > 1 or name in by:
            raise UsageError(f"Two columns of the answer are called {name!r}.", "Name the figures: COUNT(*) AS n")
    for measure in measures:
        if measure.partition is None:
            continue
        if len(sets) > 1:
            raise UsageError("Shares of several grouping sets have no common total.", "Ask for one set at a time.")
        for name in measure.partition:
            if name not in sets[0]:
                raise UsageError(f"PARTITION BY {name}: it is not grouped by.", f"Add it: GROUP BY {name}")


def _select(text: str) -> exp.Select:
    try:
        statements = [s for s in sqlglot.parse(text, dialect="duckdb") if s is not None]
    except SqlglotError as problem:
        raise UsageError(f"The query cannot be read: {reason(problem)}.", EXAMPLE) from None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        what = type(statements[0]).__name__.upper() if len(statements) == 1 else f"{len(statements)} statements"
        raise UsageError(f"A query is one SELECT, not {what}.", EXAMPLE)
    select = statements[0]
    for part, content in select.args.items():
        if content and part not in PARTS:
            name = part.rstrip("_").upper().replace("JOINS", "JOIN")
            raise UsageError(f"{name} cannot be corrected or is not known here.", INSTEAD.get(part, EXAMPLE))
    for inner in select.find_all(exp.Subquery, exp.Select):
        if inner is not select:
            raise UsageError("A sub-query is not allowed.", EXAMPLE)
    return select


def _check_source(select: exp.Select) -> tuple[str, ...]:
    """Return the names of the one table that is read: release, and its alias."""
    source = select.args.get("from_") or select.args.get("from")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or table.name.lower() != "release" or table.args.get("db"):
        named = "no table" if table is None else repr(table.sql(dialect="duckdb"))
        raise UsageError(f"A query reads FROM release; this one reads {named}.", EXAMPLE)
    alias = table.args.get("alias")
    others = [part for part, content in table.args.items() if content and part not in ("this", "alias")]
    if others or (alias is not None and alias.args.get("columns")):
        what = others[0].rstrip("_").upper() if others else "An alias with columns"
        raise UsageError(f"{what} cannot be corrected or is not known here.", "A release is one table: FROM release")
    return ("release", *([table.alias.lower()] if table.alias else []))


# --- what is selected -------------------------------------------------------------------------------------------------


def _outputs(select: exp.Select, columns: Columns) -> tuple[tuple[str, ...], tuple[Measure, ...]]:
    shown, measures = [], []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Column):
            if item.alias:
                raise UsageError(f"{item.sql(dialect='duckdb')}: groups keep the names of their columns.", EXAMPLE)
            shown.append(column_of(inner, columns))
        else:
            measures.append(measure_of(inner, item.alias, columns))
    if not measures:
        raise UsageError("A query asks for a figure; this one has none.", EXAMPLE)
    return tuple(dict.fromkeys(shown)), tuple(measures)


# --- groups, order, limit ---------------------------------------------------------------------------------------------


def _grouping_sets(select: exp.Select, columns: Columns) -> tuple[tuple[str, ...], ...]:
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


def _sets_of(node: exp.Expression, columns: Columns) -> list[tuple[str, ...]]:
    if not isinstance(node, exp.Cube | exp.Rollup | exp.GroupingSets):
        return [names_of(node, columns)]
    items = [names_of(part, columns) for part in node.expressions]
    if isinstance(node, exp.Cube) and 2 ** len(items) > MOST_SETS:
        raise UsageError(f"A cube of {len(items)} columns has more than {MOST_SETS} grouping sets.", "Ask for fewer.")
    if isinstance(node, exp.Cube):
        sizes = range(len(items), -1, -1)
        return [tuple(n for item in chosen for n in item) for size in sizes for chosen in combinations(items, size)]
    if isinstance(node, exp.Rollup):
        return [tuple(n for item in items[:size] for n in item) for size in range(len(items), -1, -1)]
    return items


def _terms(order: exp.Expression | None) -> list[exp.Expression]:
    return list(order.expressions) if order else []


def _order(term: exp.Expression, by: tuple[str, ...], measures: tuple[Measure, ...]) -> tuple[str, bool]:
    inner = term.this
    if term.args.get("nulls_first"):
        raise UsageError("NULLS FIRST is not known here: missing values always come last.", "Leave it out.")
    text = inner.name if isinstance(inner, exp.Column) else inner.sql(dialect="duckdb")
    known = {name: name for name in by}
    known |= {"estimate": measures[0].name} if len(measures) == 1 else {}
    known |= {name: measure.name for measure in measures for name in (measure.text, measure.name)}
    if isinstance(inner, exp.Literal) or text not in known:
        raise UsageError(
            f"ORDER BY {inner.sql(dialect='duckdb')}: order by a column that is grouped by, or by a figure "
            f"({', '.join(repr(measure.name) for measure in measures)}).",
            EXAMPLE,
        )
    return known[text], bool(term.args.get("desc"))


def _number(node: exp.Expression | None, what: str) -> int | None:
    if node is None:
        return None
    literal = node.args.get("expression")
    others = [part for part, content in node.args.items() if content and part != "expression"]
    if others or not isinstance(literal, exp.Literal) or literal.is_string or not literal.name.isdecimal():
        raise UsageError(f"{what} takes a number.", EXAMPLE)
    return int(literal.name)
