"""What is summed of each record where that is more than a column: arithmetic, CASE, and conditions of FILTER.

    SUM(CASE WHEN sex = 'F' THEN income ELSE 0 END)          a term of untouched columns
    AVG(CASE WHEN diagnosis IN ('flu', 'HIV') THEN 1 ELSE 0 END)       a score of each value of a hidden column
    SUM(income) FILTER (WHERE diagnosis = 'flu' AND sex = 'F')         the product of both

Every number is a product of terms, which each row tells, and of scores, which each value of the hidden columns has. So
an expression that mixes both must fall apart into such factors; what does not is refused with what to write instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

from sqlglot import exp

from sfumato.analyst.ask.conditions import column_names, conjuncts
from sfumato.analyst.ask.scale import Told
from sfumato.analyst.ask.where import ALLOWED, COMPARISONS, as_sql, check, is_number
from sfumato.analyst.counting.tally import Number, Term
from sfumato.errors import UsageError

CHOICES = (exp.Case, exp.If, exp.Coalesce)
CONDITIONS = (*COMPARISONS, exp.And, exp.Or, exp.Not, exp.Is, exp.Like, exp.ILike, exp.Boolean)
INSTEAD = "Sum a product of such parts, or put the condition into FILTER: SUM(income) FILTER (WHERE diagnosis = 'flu')."


@dataclass(frozen=True)
class Summed:
    """What a record adds to a sum, and whether it adds anything: 1, or 0 where the expression has no value.

    The latter is None where it is no product.
    """

    number: Number
    known: Number | None

    def __mul__(self, other: Summed) -> Summed:
        both = self.known is not None and other.known is not None
        known = _unweighted(self.known, other.known) if both else None  # type: ignore[arg-type]
        return Summed(_unweighted(self.number, other.number), known)


def _unweighted(one: Number, other: Number) -> Number:
    """Return the product of two factors of one record, which has its survey weight once."""
    product = one * other
    return Number(1, product.columns, product.known, product.scores, product.terms)


@dataclass(frozen=True)
class Reading:
    """The columns that expressions may name, with their types, and which are hidden."""

    types: Mapping[str, str]
    hidden: Collection[str]
    in_text: Mapping[str, str]  # hidden columns whose text holds numbers where conditions are asked, with the SQL type

    def summed(self, node: exp.Expression) -> Summed:
        """Return what an expression adds to a sum."""
        self._check(node)
        return self._factors(node)

    def chosen(self, condition: exp.Expression) -> Summed:
        """Return 1 for the records that satisfy a condition, 0 for all others."""
        check(condition, self.types)
        return reduce(lambda a, b: a * b, (self._indicator(part) for part in conjuncts(condition)))

    def conditions(self, node: exp.Expression) -> Iterator[exp.Expression]:
        """Give the largest conditions inside an expression: what is compared there is checked as in WHERE."""
        if isinstance(node, CONDITIONS):
            yield node
            return
        for inner in node.iter_expressions():
            yield from self.conditions(inner)

    def numeric_texts(self, node: exp.Expression) -> set[str]:
        """Return the untouched columns of text that an expression takes as numbers."""
        return {c.name for c in _counted_columns(node) if self.types[c.name] == "string" and c.name not in self.hidden}

    def _factors(self, node: exp.Expression) -> Summed:
        while isinstance(node, exp.Paren):
            node = node.this
        kinds = {name in self.hidden for name in column_names(node)}
        if len(kinds) <= 1:
            return self._one_kind(node, hidden=True in kinds)
        if isinstance(node, exp.Mul):
            return self._factors(node.this) * self._factors(node.expression)
        if isinstance(node, exp.Div) and not self._hidden(node.expression):
            one = exp.Literal.number(1)
            return self._factors(node.this) * self._factors(exp.Div(this=one, expression=node.expression.copy()))
        choice = _single_choice(node)
        if choice is None:
            raise UsageError(
                f"{node.sql(dialect='duckdb')} mixes columns that are randomized with others in one number.", INSTEAD
            )
        product = self.chosen(choice.condition) * self._factors(choice.value)
        return product if choice.else_nothing else Summed(product.number, None)

    def _one_kind(self, node: exp.Expression, hidden: bool) -> Summed:
        """Return an expression of untouched columns only, or of hidden ones only."""
        sql = self._sql(node)
        known, names = f"CASE WHEN ({sql}) IS NOT NULL THEN 1 ELSE 0 END", tuple(sorted(column_names(node)))
        if hidden:
            return Summed(Number(scores=(Told(names, sql),)), Number(scores=(Told(names, known),)))
        return Summed(Number(terms=(Term(sql, names),)), Number(terms=(Term(known, names),)))

    def _indicator(self, condition: exp.Expression) -> Summed:
        kinds = {name in self.hidden for name in column_names(condition)}
        if len(kinds) > 1:
            raise UsageError(
                f"{condition.sql(dialect='duckdb')} mixes columns that are randomized with others by OR or NOT.",
                "Put it into WHERE, where that can be asked, in a query of its own.",
            )
        sql = f"CASE WHEN ({as_sql(condition, self.types, self.in_text)}) THEN 1 ELSE 0 END"
        names = tuple(sorted(column_names(condition)))
        number = Number(scores=(Told(names, sql),)) if True in kinds else Number(terms=(Term(sql, names),))
        return Summed(number, number)

    def _hidden(self, node: exp.Expression) -> bool:
        return bool(column_names(node) & set(self.hidden))

    def _sql(self, node: exp.Expression) -> str:
        """Return an expression as SQL, rebuilt: columns of text count as the numbers that they hold."""
        whole = exp.Paren(this=node.copy())
        for column in list(_counted_columns(whole)):
            if not is_number(self.types[column.name]) or column.name in self.in_text:
                column.replace(exp.Cast(this=column.copy(), to=exp.DataType.build("double")))
        return as_sql(whole.this, self.types, self.in_text)

    def _check(self, node: exp.Expression) -> None:
        """Raise unless an expression consists of what is allowed: CASE besides what conditions may have."""
        for part in node.walk():
            if not isinstance(part, (*ALLOWED, *CHOICES)):
                name = part.name if isinstance(part, exp.Anonymous) else type(part).__name__
                raise UsageError(
                    f"{name.upper()} is not allowed in what is summed.",
                    "Columns, numbers, + - * /, CASE WHEN ... THEN ... ELSE ... END and COALESCE are.",
                )
        for condition in self.conditions(node):
            check(condition, self.types)
        for column in _counted_columns(node):
            if column.name not in self.types:
                check(column, self.types)  # which names the nearest one
            if not self.types[column.name].startswith(("string", "bool")) and not is_number(self.types[column.name]):
                raise UsageError(
                    f"{column.name!r} is of type {self.types[column.name]}: it cannot be part of a number.",
                    "Compare it in a condition instead: CASE WHEN ... THEN 1 ELSE 0 END",
                )
        for literal in node.find_all(exp.Literal):
            if literal.is_string and not literal.find_ancestor(*CONDITIONS):
                raise UsageError(f"{literal.sql()} is a text, which cannot be summed.", "Write a number.")


def _counted_columns(node: exp.Expression) -> Iterator[exp.Column]:
    """Give the columns whose own numbers an expression takes: all that are not compared."""
    for column in node.find_all(exp.Column):
        if column.find_ancestor(*CONDITIONS) is None or column is node:
            yield column


def with_whole_conditions(select: exp.Select) -> None:
    """Write CASE sex WHEN 'F' THEN ... as CASE WHEN sex = 'F' THEN ..."""
    for case in select.find_all(exp.Case):
        if case.this is not None:
            for choice in case.args["ifs"]:
                choice.set("this", exp.EQ(this=case.this.copy(), expression=choice.this.copy()))
            case.set("this", None)


@dataclass(frozen=True)
class _Choice:
    condition: exp.Expression
    value: exp.Expression
    else_nothing: bool  # or 0


def _single_choice(node: exp.Expression) -> _Choice | None:
    """Return the parts of CASE WHEN ... THEN ... END, also with ELSE 0; None for other expressions."""
    if isinstance(node, exp.If):
        choice, other = node, node.args.get("false")
    elif isinstance(node, exp.Case) and len(node.args["ifs"]) == 1:
        choice, other = node.args["ifs"][0], node.args.get("default")
    else:
        return None
    if other is None or isinstance(other, exp.Null):
        return _Choice(choice.this, choice.args["true"], else_nothing=True)
    if isinstance(other, exp.Literal) and not other.is_string and float(other.name) == 0:
        return _Choice(choice.this, choice.args["true"], else_nothing=False)
    return None
