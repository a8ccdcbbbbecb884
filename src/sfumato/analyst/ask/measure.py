"""The figures of a SELECT: what is asked of each group, as totals, quotients, quantiles and sums of these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from sfumato.analyst.ask.conditions import check_numbers, counted
from sfumato.analyst.ask.expressions import Reading, Summed
from sfumato.analyst.ask.scale import Scale
from sfumato.analyst.ask.where import NUMBERS, no_column
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.counting.tally import Number
from sfumato.errors import UsageError
from sfumato.release.folder import quoted
from sfumato.values.text import meant

EXAMPLE = "A query looks like: SELECT sex, diagnosis, COUNT(*) FROM release WHERE age > 40 GROUP BY sex, diagnosis"
POSSIBLE = (
    "COUNT(*), SUM(...), AVG(...), each with FILTER (WHERE ...), quotients of counts and sums, sums and differences of "
    "all these, and shares, COUNT(*) / SUM(COUNT(*)) OVER (), can. Of a randomized column QUANTILE(column, 0.5) and "
    "MEDIAN(column) can, too. A least or a largest value, and a median of a column that is not randomized, is read off "
    "counts by the column: SELECT age, COUNT(*) FROM release GROUP BY age."
)
NUMERIC = (*NUMBERS, "bool")


@dataclass(frozen=True)
class Columns:
    """The columns of a release that a query may name."""

    types: Mapping[str, str]
    hidden: Mapping[str, str]  # those that are not told row by row, each with the reason
    scale: Callable[[str], Scale] | None  # of a hidden one; None where their own values cannot be summed
    in_text: Mapping[str, str] = field(default_factory=dict)  # hidden ones whose text holds numbers, with their type

    @property
    def reading(self) -> Reading:
        """How expressions are read."""
        return Reading(self.types, tuple(self.hidden), self.in_text)


@dataclass(frozen=True)
class Measure:
    """What is asked of each group: `factor` times a total, or times the quotient of two totals; or a quantile.

    Figures that are `added` (or taken off, by a negative factor) have the same groups.

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
    added: tuple[Measure, ...] = ()

    @property
    def totals(self) -> tuple[Number, ...]:
        """The numbers whose totals it consists of."""
        own = (self.top,) if self.bottom is None else (self.top, self.bottom)
        return (*own, *(number for other in self.added for number in other.totals))

    @property
    def is_quotient(self) -> bool:
        """Whether two estimates are divided, and nothing is added to that."""
        return (self.bottom is not None or self.partition is not None) and not self.added

    @property
    def divides(self) -> bool:
        """Whether estimates are divided somewhere in it."""
        return self.bottom is not None or self.partition is not None or any(other.divides for other in self.added)

    def times(self, factor: float) -> Measure:
        """Return a multiple of it."""
        return replace(self, factor=self.factor * factor, added=tuple(other.times(factor) for other in self.added))


def measure_of(node: exp.Expression, alias: str, columns: Columns) -> Measure:
    """Return the figure that an item of SELECT asks for."""
    text = node.sql(dialect="duckdb")
    factor, inner = _factor(node)
    if isinstance(inner, exp.Add | exp.Sub):
        return _combined(inner, alias, text, factor, columns)
    total = _total(inner, columns)
    if total is not None:
        scales = _scales_in(columns, inner)
        return Measure(alias or _name_of(inner), text, total, factor=factor, scales=scales)
    aggregate, condition = _filtered(inner)
    if isinstance(aggregate, exp.Avg):
        summed = _summed(aggregate, columns) * _chosen(condition, columns)
        if summed.known is None:
            raise UsageError(
                f"{text}: an average with ELSE 0 leaves records without a number out, which cannot be corrected.",
                "Divide by what you mean: SUM(...) / COUNT(*), or leave ELSE 0 away.",
            )
        return Measure(
            alias or _name_of(inner), text, summed.number, summed.known, factor=factor,
            scales=_scales_in(columns, inner),
        )  # fmt: skip
    if isinstance(inner, exp.Median | exp.Quantile | exp.PercentileDisc) and factor == 1:
        return _quantile(inner, alias, text, columns)
    if isinstance(inner, exp.Div):
        return _quotient(inner, alias, text, factor, columns)
    raise _refused(text)


def _combined(node: exp.Expression, alias: str, text: str, factor: float, columns: Columns) -> Measure:
    """Return the sum or the difference of two figures."""
    sign = -1.0 if isinstance(node, exp.Sub) else 1.0
    one, other = (measure_of(part, "", columns) for part in (node.this, node.expression))
    for part in (one, other, *one.added, *other.added):
        if part.quantile is not None or part.partition is not None:
            raise UsageError(
                f"{part.text} cannot be added to another figure or taken off.",
                "Ask for the figures one by one: their intervals come with them.",
            )
    name = alias or ("difference" if sign < 0 else "sum")
    parts = (*one.added, replace(other, added=()).times(sign), *(more.times(sign) for more in other.added))
    scales = tuple(dict.fromkeys((*one.scales, *other.scales)))
    return replace(one, name=name, text=text, added=parts, scales=scales).times(factor)


def _name_of(node: exp.Expression) -> str:
    """Return the name of a figure that was given none."""
    aggregate = _filtered(node)[0]
    kind = "sum" if isinstance(aggregate, exp.Sum) else "average" if isinstance(aggregate, exp.Avg) else "count"
    return f"{kind}_{aggregate.this.name}" if kind != "count" and isinstance(aggregate.this, exp.Column) else kind


def _filtered(node: exp.Expression) -> tuple[exp.Expression, exp.Expression | None]:
    """Return an aggregate and the condition of its FILTER; COUNT_IF(x) is COUNT(*) FILTER (WHERE x)."""
    if isinstance(node, exp.CountIf):
        return exp.Count(this=exp.Star()), node.this
    return (node.this, node.expression.this) if isinstance(node, exp.Filter) else (node, None)


def _chosen(condition: exp.Expression | None, columns: Columns) -> Summed:
    """Return which records a FILTER leaves."""
    if condition is None:
        return Summed(Number(), Number())
    if columns.scale is None and (hidden := _first_hidden(condition, columns)):
        raise UsageError(
            f"FILTER: {hidden!r} {columns.hidden[hidden]}, where figures of a query are not filtered by it.",
            "Put the condition into WHERE, in a query of its own.",
        )
    return columns.reading.chosen(condition)


def _first_hidden(node: exp.Expression, columns: Columns) -> str | None:
    return next((column.name for column in node.find_all(exp.Column) if column.name in columns.hidden), None)


def conditions_inside(item: exp.Expression, columns: Columns) -> Iterator[exp.Expression]:
    """Give the conditions inside a figure, which are checked as those of WHERE are."""
    yield from columns.reading.conditions(item)


def texts_inside(item: exp.Expression, columns: Columns) -> set[str]:
    """Return the untouched columns of text that a figure takes as numbers in an expression."""
    totals = [total for total in item.find_all(exp.Sum, exp.Avg) if not isinstance(total.this, exp.Column)]
    return {name for total in totals for name in columns.reading.numeric_texts(total.this)}


def _quotient(node: exp.Div, alias: str, text: str, factor: float, columns: Columns) -> Measure:
    """Return a share, COUNT(*) / SUM(COUNT(*)) OVER (...), or the quotient of two totals."""
    more, top_node = _factor(node.this)
    less, bottom_node = _factor(node.expression)
    if isinstance(bottom_node, exp.Literal) and not bottom_node.is_string and float(bottom_node.name) and less:
        figure = measure_of(top_node, alias, columns)
        if figure.quantile is None:
            return replace(figure.times(factor * more / (less * float(bottom_node.name))), text=text)
        raise _refused(text)
    if isinstance(top_node, exp.Add | exp.Sub) and less:
        # (A - B)/C is A/C - B/C
        parts = [
            exp.Div(this=part.copy(), expression=bottom_node.copy()) for part in (top_node.this, top_node.expression)
        ]
        divided = type(top_node)(this=parts[0], expression=parts[1])
        return _combined(divided, alias or "ratio", text, factor * more / less, columns)
    top = _total(top_node, columns)
    if top is None or less == 0:
        raise _refused(text)
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
    names = tuple(name for part in bottom_node.args.get("partition_by") or () for name in names_of(part, columns))
    return Measure(alias or "share", text, top, partition=names, factor=scale, scales=_scales_in(columns, top_node))


def _quantile(node: exp.Expression, alias: str, text: str, columns: Columns) -> Measure:
    if not isinstance(node.this, exp.Column):
        raise _refused(text)
    name, share = column_of(node.this, columns), 0.5
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
    aggregates = [_filtered(total)[0] for total in totals]
    names = dict.fromkeys(total.this.name for total in aggregates if isinstance(total.this, exp.Column))
    return tuple(_scale(name, columns) for name in names if name in columns.hidden)


def _total(node: exp.Expression, columns: Columns) -> Number | None:
    """Return the number that is summed by COUNT(*), COUNT(x) or SUM(x), with a FILTER or not; None for others."""
    aggregate, condition = _filtered(node)
    number = _unfiltered_total(aggregate, columns)
    if number is None or condition is None:
        return number
    return (Summed(number, None) * _chosen(condition, columns)).number


def _unfiltered_total(node: exp.Expression, columns: Columns) -> Number | None:
    if isinstance(node, exp.Count) and not node.args.get("expressions"):
        if isinstance(node.this, exp.Star | exp.Literal):
            return Number()
        if isinstance(node.this, exp.Column):
            name = column_of(node.this, columns)
            if name in columns.hidden and columns.scale is None:
                raise UsageError(
                    f"COUNT({name}): {name!r} {columns.hidden[name]}.",
                    f"Ask for COUNT(*) ... WHERE {name} IS NOT NULL instead.",
                )
            return Number(scores=(_scale(name, columns).known(),)) if name in columns.hidden else Number(known=(name,))
    if isinstance(node, exp.Sum) and not isinstance(node.this, exp.Count | exp.Sum):
        return _summed(node, columns).number
    return None


def _factor(node: exp.Expression) -> tuple[float, exp.Expression]:
    """Return the constant that an expression is multiplied by, and the rest: 100 * COUNT(*) is (100, COUNT(*))."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Neg):
        factor, inner = _factor(node.this)
        return -factor, inner
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


def _summed(node: exp.Expression, columns: Columns) -> Summed:
    """Return what SUM or AVG adds of each record, and whether it has a number."""
    inner = node.this
    if not isinstance(inner, exp.Column):
        if columns.scale is None and (hidden := _first_hidden(inner, columns)):
            raise UsageError(
                f"{node.sql(dialect='duckdb')}: {hidden!r} {columns.hidden[hidden]}, and cannot be summed there.",
                "A condition goes into WHERE, and records are counted: SELECT COUNT(*) FROM release WHERE ...",
            )
        return columns.reading.summed(inner)
    name = column_of(inner, columns)
    if name in columns.hidden:
        scale = _scale(name, columns)
        scale.require_numbers()
        return Summed(Number(scores=(scale.number(),)), Number(scores=(scale.known(),)))
    if not columns.types[name].startswith((*NUMERIC, "string")):  # a column of a CSV file may be a number in text
        raise UsageError(
            f"{name!r} is of type {columns.types[name]}: it cannot be summed or averaged.",
            f"Ask for counts by it: GROUP BY {name}",
        )
    return Summed(Number(columns=(name,)), Number(known=(name,)))


def column_of(node: exp.Column, columns: Columns) -> str:
    """Return the column of the release that is named."""
    if node.table and node.table.lower() != "release":
        raise UsageError(f"{node.sql(dialect='duckdb')} names another table.", EXAMPLE)
    if node.name not in columns.types:
        raise no_column(node.name, columns.types)
    return node.name


def names_of(node: exp.Expression, columns: Columns) -> tuple[str, ...]:
    """Return the column or columns of an item of GROUP BY."""
    if isinstance(node, exp.Paren | exp.Tuple):
        inner = node.expressions if isinstance(node, exp.Tuple) else [node.this]
        return tuple(name for part in inner for name in names_of(part, columns))
    if not isinstance(node, exp.Column):
        raise UsageError(
            f"GROUP BY {node.sql(dialect='duckdb')}: groups are columns of the release.",
            "Name the column: GROUP BY sex",
        )
    return (column_of(node, columns),)


# --- what is summed, and what is weighed by, must be numbers: checks against a release --------------------------------


def check_weight(release: CountedRelease, weight: str, types: Mapping[str, str], randomized: Collection[str]) -> None:
    """Raise unless the weight, if there is one, is an untouched column of numbers, in text or not."""
    if not weight:
        return
    if weight not in types or weight in randomized:
        weighing = [name for name in types if name not in randomized]
        raise UsageError(f"There is no untouched column {weight!r} to weigh by.", meant(weight, weighing, "There are"))
    if not types[weight].startswith((*NUMERIC, "string")):
        raise UsageError(
            f"{weight!r} is of type {types[weight]}: it cannot be a weight.",
            "Name a column of numbers: --weight COLUMN",
        )
    check_texts(release, [weight], types)


def check_texts(release: CountedRelease, names: Iterable[str], types: Mapping[str, str]) -> None:
    """Raise unless all texts of these untouched columns are numbers."""
    for name in names:
        if types[name] == "string":
            try:
                check_numbers(release, name)
            except UsageError as problem:
                raise UsageError(problem.message, f"Name a column of numbers, or count instead: --by {name}") from None


def check_weights(release: CountedRelease, weight: str, where: str) -> None:
    """Raise unless every record that is asked about has a weight, if it needs one, and none is negative or infinite."""
    if not weight:
        return
    number = f"CAST({quoted(weight)} AS DOUBLE)"
    wrong = {
        "no weight": f"{number} IS NULL",
        "a negative weight": f"{number} < 0",
        "a weight that is not finite": f"NOT isfinite({number})",
    }
    asked = Counting((), tuple((f"count(*) FILTER (WHERE {sql})", "sum") for sql in wrong.values()), where)
    (counts,) = counted(release, asked, "")
    for what, rows in zip(wrong, counts, strict=True):
        if rows:
            raise UsageError(
                f"{rows:,} published record(s) have {what} ({weight!r}): an estimate would silently leave them out or "
                "take them off.",
                f"Say in the query which records are meant, e.g. WHERE {quoted(weight)} >= 0"
                + (f" AND {quoted(weight)} < 1e300." if "finite" in what else "."),
            )
