"""One SELECT over a release, read with sqlglot into the parts that can be corrected; all else is refused by name.

    SELECT sex, diagnosis, COUNT(*) FROM release WHERE age BETWEEN 40 AND 60 GROUP BY sex, diagnosis
    SELECT AVG(income) FROM release WHERE diagnosis IN ('flu', 'HIV')
    SELECT sex, diagnosis, COUNT(*) / SUM(COUNT(*)) OVER (PARTITION BY sex) AS share FROM release
    GROUP BY sex, diagnosis ORDER BY share DESC
    SELECT sex, AVG(pain), QUANTILE(pain, 0.9) FROM release GROUP BY sex            of a randomized column itself

Nothing of the text reaches the engine as it is: conditions and columns are rebuilt from their checked parts, so a query
can read the release's own rows and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import combinations

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from sfumato.analyst.ask.scale import Scale
from sfumato.analyst.ask.where import NUMBERS, no_column, reason
from sfumato.analyst.counting.tally import Number
from sfumato.errors import UsageError

EXAMPLE = "A query looks like: SELECT sex, diagnosis, COUNT(*) FROM release WHERE age > 40 GROUP BY sex, diagnosis"
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
POSSIBLE = (
    "COUNT(*), SUM(column), AVG(column), quotients of counts and sums, shares, COUNT(*) / SUM(COUNT(*)) OVER (), and "
    "of a randomized column QUANTILE(column, 0.5) and MEDIAN(column), can. A least or a largest value, and a median of "
    "a column that is not randomized, is read off counts by the column: SELECT age, COUNT(*) FROM release GROUP BY age."
)
NUMERIC = (*NUMBERS, "bool")
MOST_SETS = 64


@dataclass(frozen=True)
class Columns:
    """The columns of a release that a query may name."""

    types: Mapping[str, str]
    hidden: Mapping[str, str]  # those that are not told row by row, each with the reason
    scale: Callable[[str], Scale] | None  # of a hidden one; None where their own values cannot be summed


@dataclass(frozen=True)
class Measure:
    """What is asked of each group: `factor` times a total, or times the quotient of two totals; or a quantile.

    The bottom of a share is the total of all groups that have the same values in the columns of `partition`. A quantile
    is at the share `quantile` of what is summed; `scales` are of the hidden columns whose own values are asked for.
    """

    name: str
    text: str  # as it stands in the query
    top: Number
    bottom: Number | None = None
    partition: tuple[str, ...] | None = None
    factor: float = 1.0
    quantile: float | None = None
    scales: tuple[Scale, ...] = ()

    @property
    def totals(self) -> tuple[Number, ...]:
        """The numbers whose totals it consists of."""
        return (self.top,) if self.bottom is None else (self.top, self.bottom)

    @property
    def is_quotient(self) -> bool:
        """Whether two estimates are divided."""
        return self.bottom is not None or self.partition is not None


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

    @property
    def scaled(self) -> frozenset[str]:
        """The hidden columns whose own values are asked for."""
        return frozenset(scale.column for measure in self.measures for scale in measure.scales)


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
    _check_source(select)
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


def _check_source(select: exp.Select) -> None:
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


# --- what is selected -------------------------------------------------------------------------------------------------


def _outputs(select: exp.Select, columns: Columns) -> tuple[tuple[str, ...], tuple[Measure, ...]]:
    shown, measures = [], []
    for item in select.expressions:
        inner = item.this if isinstance(item, exp.Alias) else item
        if isinstance(inner, exp.Column):
            if item.alias:
                raise UsageError(f"{item.sql(dialect='duckdb')}: groups keep the names of their columns.", EXAMPLE)
            shown.append(_column(inner, columns))
        else:
            measures.append(_measure(inner, item.alias, columns))
    if not measures:
        raise UsageError("A query asks for a figure; this one has none.", EXAMPLE)
    return tuple(dict.fromkeys(shown)), tuple(measures)


def _measure(node: exp.Expression, alias: str, columns: Columns) -> Measure:
    text = node.sql(dialect="duckdb")
    factor, inner = _factor(node)
    number = _total(inner, columns)
    if number is not None:
        name = f"sum_{_column(inner.this, columns)}" if isinstance(inner, exp.Sum) else "count"
        return Measure(alias or name, text, number, factor=factor, scales=_scales_in(columns, inner))
    if isinstance(inner, exp.Avg):
        name, top, bottom = _numeric_column(inner, columns)
        return Measure(alias or f"average_{name}", text, top, bottom, factor=factor, scales=_scales_in(columns, inner))
    if isinstance(inner, exp.Median | exp.Quantile | exp.PercentileDisc) and factor == 1:
        return _quantile(inner, alias, text, columns)
    if isinstance(inner, exp.Div):
        return _quotient(inner, alias, text, factor, columns)
    raise _refused(text)


def _quotient(node: exp.Div, alias: str, text: str, factor: float, columns: Columns) -> Measure:
    """Return a share, COUNT(*) / SUM(COUNT(*)) OVER (...), or the quotient of two totals."""
    more, top_node = _factor(node.this)
    less, bottom_node = _factor(node.expression)
    top = _total(top_node, columns)
    if top is None or less == 0:
        raise _refused(text)
    if isinstance(bottom_node, exp.Literal) and not bottom_node.is_string and float(bottom_node.name):
        return replace(_measure(top_node, alias, columns), text=text, factor=factor * more / float(bottom_node.name))
    scale = factor * more / less
    if not isinstance(bottom_node, exp.Window):
        bottom = _total(bottom_node, columns)
        if bottom is None:
            raise _refused(text)
        scales = _scales_in(columns, top_node, bottom_node)
        return Measure(alias or "ratio", text, top, bottom, factor=scale, scales=scales)
    if any(bottom_node.args.get(part) for part in ("order", "spec")):
        raise _refused(text)
    whole = bottom_node.this
    inside, summed = _factor(whole.this) if isinstance(whole, exp.Sum) else (0.0, whole)
    if not inside or _total(summed, columns) != top:
        raise _refused(text)
    scale /= inside
    names = tuple(name for part in bottom_node.args.get("partition_by") or () for name in _names(part, columns))
    return Measure(alias or "share", text, top, partition=names, factor=scale, scales=_scales_in(columns, top_node))


def _quantile(node: exp.Expression, alias: str, text: str, columns: Columns) -> Measure:
    if not isinstance(node.this, exp.Column):
        raise _refused(text)
    name, share = _column(node.this, columns), 0.5
    if not isinstance(node, exp.Median):
        asked = node.args.get("quantile") or node.args.get("expression")
        is_number = isinstance(asked, exp.Literal) and not asked.is_string
        share = float(asked.name) if is_number and asked is not None else 0.0
        if not 0 < share < 1:
            raise UsageError(
                f"{text}: a quantile is at one share, a number between 0 and 1.", f"E.g. QUANTILE({name}, 0.9)"
            )
    if name not in columns.hidden:
        raise UsageError(
            f"{name!r} is not randomized: {text} is not estimated.",
            f"Read it off counts by the column: SELECT {name}, COUNT(*) FROM release GROUP BY {name}",
        )
    scale = _scale(name, columns)
    scale.require_order()
    name = f"median_{name}" if isinstance(node, exp.Median) else f"quantile_{name}_{share:g}"
    return Measure(alias or name, text, Number(), quantile=share, scales=(scale,))


def _scale(name: str, columns: Columns) -> Scale:
    if columns.scale is None:
        raise UsageError(
            f"{name!r} {columns.hidden[name]}: its values cannot be summed or put in order there.",
            f"Ask for counts by it (GROUP BY {name}) and weigh them yourself.",
        )
    return columns.scale(name)


def _scales_in(columns: Columns, *totals: exp.Expression) -> tuple[Scale, ...]:
    """Return the scales of the hidden columns that totals are of."""
    names = dict.fromkeys(total.this.name for total in totals if isinstance(total.this, exp.Column))
    return tuple(_scale(name, columns) for name in names if name in columns.hidden)


def _total(node: exp.Expression, columns: Columns) -> Number | None:
    """Return the number that is summed by COUNT(*), COUNT(x) or SUM(x); None for anything else."""
    if isinstance(node, exp.Count) and not node.args.get("expressions"):
        if isinstance(node.this, exp.Star | exp.Literal):
            return Number()
        if isinstance(node.this, exp.Column):
            name = _column(node.this, columns)
            if name in columns.hidden and columns.scale is None:
                raise UsageError(
                    f"COUNT({name}): {name!r} {columns.hidden[name]}.",
                    f"Ask for COUNT(*) ... WHERE {name} IS NOT NULL instead.",
                )
            return Number(scores=(_scale(name, columns).known(),)) if name in columns.hidden else Number(known=(name,))
    if isinstance(node, exp.Sum) and not isinstance(node.this, exp.Count | exp.Sum):
        return _numeric_column(node, columns)[1]
    return None


def _factor(node: exp.Expression) -> tuple[float, exp.Expression]:
    """Return the constant that an expression is multiplied by, and the rest: 100 * COUNT(*) is (100, COUNT(*))."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Mul):
        for constant, rest in ((node.this, node.expression), (node.expression, node.this)):
            if isinstance(constant, exp.Literal) and not constant.is_string and float(constant.name):
                factor, inner = _factor(rest)
                return float(constant.name) * factor, inner
    return 1.0, node


def _refused(text: str) -> UsageError:
    if text == "*":
        return UsageError(
            "A query asks for figures, not for rows: * cannot be corrected for the randomization.",
            "The published rows are in the data file of the release; release.to_arrow() reads them.",
        )
    return UsageError(f"{text} cannot be corrected for the randomization.", POSSIBLE)


def _numeric_column(node: exp.Expression, columns: Columns) -> tuple[str, Number, Number]:
    """Return the column that is summed or averaged, what is summed of each record, and whether it has a number."""
    inner = node.this
    if not isinstance(inner, exp.Column):
        raise UsageError(
            f"{node.sql(dialect='duckdb')}: only a column can be summed or averaged.",
            "A condition goes into WHERE, and records are counted: SELECT COUNT(*) FROM release WHERE age > 40",
        )
    name = _column(inner, columns)
    if name in columns.hidden:
        scale = _scale(name, columns)
        scale.require_numbers()
        return name, Number(scores=(scale.number(),)), Number(scores=(scale.known(),))
    if not columns.types[name].startswith((*NUMERIC, "string")):  # a column of a CSV file may be a number in text
        raise UsageError(
            f"{name!r} is of type {columns.types[name]}: it cannot be summed or averaged.",
            f"Ask for counts by it: GROUP BY {name}",
        )
    return name, Number(columns=(name,)), Number(known=(name,))


def _column(node: exp.Column, columns: Columns) -> str:
    if node.table and node.table.lower() != "release":
        raise UsageError(f"{node.sql(dialect='duckdb')} names another table.", EXAMPLE)
    if node.name not in columns.types:
        raise no_column(node.name, columns.types)
    return node.name


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
        return [_names(node, columns)]
    items = [_names(part, columns) for part in node.expressions]
    if isinstance(node, exp.Cube) and 2 ** len(items) > MOST_SETS:
        raise UsageError(f"A cube of {len(items)} columns has more than {MOST_SETS} grouping sets.", "Ask for fewer.")
    if isinstance(node, exp.Cube):
        sizes = range(len(items), -1, -1)
        return [tuple(n for item in chosen for n in item) for size in sizes for chosen in combinations(items, size)]
    if isinstance(node, exp.Rollup):
        return [tuple(n for item in items[:size] for n in item) for size in range(len(items), -1, -1)]
    return items


def _names(node: exp.Expression, columns: Columns) -> tuple[str, ...]:
    """Return the column or columns of an item of GROUP BY."""
    if isinstance(node, exp.Paren | exp.Tuple):
        inner = node.expressions if isinstance(node, exp.Tuple) else [node.this]
        return tuple(name for part in inner for name in _names(part, columns))
    if not isinstance(node, exp.Column):
        raise UsageError(
            f"GROUP BY {node.sql(dialect='duckdb')}: groups are columns of the release.",
            "Name the column: GROUP BY sex",
        )
    return (_column(node, columns),)


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
