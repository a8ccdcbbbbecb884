"""Conditions on a release: checked against its columns, and split by what they look at.

A condition on untouched columns selects rows. One on hidden columns (randomized, or only in the table of groups)
selects values of the domain: it cannot be asked of a published row, but the records that satisfy it can be estimated.
Both may be combined by AND, OR and NOT, in SQL's logic of three values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from sfumato.analyst.ask.scale import asked_of_values, combinations
from sfumato.analyst.ask.where import (
    EXAMPLE,
    TextualOrder,
    as_sql,
    check,
    compared_as_numbers,
    compared_texts,
    ordered_texts,
    textual_orders,
)
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.errors import UsageError
from sfumato.release.folder import (
    CONDITION_ERRORS,
    Piece,
    connected,
    connection,
    first_line,
    hidden_numbers,
    manifest_types,
    quoted,
    quoted_text,
)
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.mechanism import BETWEEN
from sfumato.values.recoding import are_bins, are_periods, bin_place
from sfumato.values.text import meant

_Given = ParamSpec("_Given")
_Answer = TypeVar("_Answer")
_CARD = re.compile(r"card \d+")
MOST_ATOMS = 8
"""Conditions on untouched columns that may be mixed with hidden ones by OR and NOT; each doubles the groups."""

Truth = npt.NDArray[np.float64]
"""1 true, 0 false, 1/2 unknown: AND is the minimum, OR the maximum, NOT one minus it."""


@dataclass(frozen=True)
class Condition:
    """`rows` selects published rows, `atoms` are conditions on them, `selected` says which values are then meant."""

    rows: str  # SQL, empty for all
    values: str  # SQL of the parts that look at hidden columns, empty for all
    atoms: tuple[str, ...]  # SQL, each true, false or null for a row
    _leaves: dict[int, Truth]  # of the conditions on hidden columns: the truth for every value of the domain
    _atom_of: dict[int, int]
    _trees: tuple[exp.Expression, ...]  # all of which must be true
    _size: int
    columns: frozenset[str] = frozenset()  # that it names

    def selected(self, truths: tuple[bool | None, ...]) -> npt.NDArray[np.bool_]:
        """Return the values of the domain that satisfy the condition in rows where the atoms have these truths."""
        return np.equal(self.truth(truths), 1)

    def truth(self, truths: tuple[bool | None, ...]) -> Truth:
        """Return whether each value of the domain satisfies the condition in rows where the atoms have these truths."""
        result = np.ones(self._size)
        for tree in self._trees:
            result = np.minimum(result, self._truth(tree, truths))
        return result

    @property
    def of_values(self) -> tuple[Truth, ...]:
        """All that the condition asks of hidden columns: truths for every value of the domain."""
        return tuple(self._leaves.values())

    def _truth(self, node: exp.Expression, truths: tuple[bool | None, ...]) -> Truth:
        if id(node) in self._leaves:
            return self._leaves[id(node)]
        if id(node) in self._atom_of:
            truth = truths[self._atom_of[id(node)]]
            return np.full(self._size, 0.5 if truth is None else float(truth))
        if isinstance(node, exp.Paren):
            return self._truth(node.this, truths)
        if isinstance(node, exp.Not):
            return 1 - self._truth(node.this, truths)
        left, right = self._truth(node.this, truths), self._truth(node.expression, truths)
        return np.minimum(left, right) if isinstance(node, exp.And) else np.maximum(left, right)


def not_too_deep(function: Callable[_Given, _Answer]) -> Callable[_Given, _Answer]:
    """Turn the error of a condition that is nested too deeply into a message."""

    @wraps(function)
    def guarded(*given: _Given.args, **named: _Given.kwargs) -> _Answer:
        try:
            return function(*given, **named)
        except RecursionError:
            raise UsageError("The condition is nested too deeply.", EXAMPLE) from None

    return guarded


def split_condition(
    release: CountedRelease, tree: exp.Expression | None, domain: SensitiveDomain, *, selects: bool = True
) -> Condition:
    """Return a condition split by what it looks at; raise if some part cannot be asked.

    Where it `selects`, its parts on untouched columns become a selection of rows; else all of it is a matter of truth.
    """
    if tree is None:
        return Condition("", "", (), {}, {}, (), domain.size)
    types, in_text = manifest_types(release), hidden_numbers(release)
    check(tree, types)
    check_comparisons(release, tree)
    rows: list[exp.Expression] = []
    trees: list[exp.Expression] = []
    for part in conjuncts(tree):
        (rows if selects and not _hidden(part, domain) else trees).append(part)
    leaves: dict[int, Truth] = {}
    atom_of: dict[int, int] = {}
    atoms: list[str] = []
    for part in trees:
        for leaf in _leaves(part, domain):
            if _hidden(leaf, domain):
                leaves[id(leaf)] = _truth_of_values(leaf, as_sql(leaf, types, in_text), domain)
            else:
                atom_of[id(leaf)] = len(atoms)
                atoms.append(as_sql(leaf, types))
    if len(atoms) > MOST_ATOMS:
        raise UsageError(
            f"The condition mixes {domain.name!r} with {len(atoms)} conditions on others by OR or NOT; "
            f"{MOST_ATOMS} are possible.",
            "Ask in several queries.",
        )
    where, values = (" AND ".join(f"({as_sql(part, types, in_text)})" for part in parts) for parts in (rows, trees))
    named = frozenset(column_names(tree))
    return Condition(where, values, tuple(atoms), leaves, atom_of, tuple(trees), domain.size, named)


def column_names(tree: exp.Expression | None) -> set[str]:
    """Return the columns that a condition names."""
    return set() if tree is None else {column.name for column in tree.find_all(exp.Column)}


def conjuncts(tree: exp.Expression) -> Iterator[exp.Expression]:
    """Give the conditions that are joined by AND."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    if isinstance(tree, exp.And):
        yield from conjuncts(tree.this)
        yield from conjuncts(tree.expression)
    else:
        yield tree


def _hidden(tree: exp.Expression, domain: SensitiveDomain) -> bool:
    return bool(column_names(tree) & set(domain.names))


def _leaves(tree: exp.Expression, domain: SensitiveDomain) -> Iterator[exp.Expression]:
    """Give the largest parts that look at hidden columns only, or at none."""
    kinds = {column.name in domain.names for column in tree.find_all(exp.Column)}
    if len(kinds) <= 1:
        yield tree
    elif isinstance(tree, exp.And | exp.Or):
        yield from _leaves(tree.this, domain)
        yield from _leaves(tree.expression, domain)
    elif isinstance(tree, exp.Not | exp.Paren):
        yield from _leaves(tree.this, domain)
    else:
        raise UsageError(
            f"{tree.sql(dialect='duckdb')} compares {domain.name!r} with another one, which cannot be estimated.",
            "Compare each with values, and group by the other column.",
        )


def _truth_of_values(leaf: exp.Expression, sql: str, domain: SensitiveDomain) -> Truth:
    """Ask a condition of every value of the domain; `sql` is the condition, rebuilt."""
    try:
        return np.nan_to_num(asked_of_values(f"CAST(({sql}) AS BOOLEAN)", domain), nan=0.5)
    except CONDITION_ERRORS as problem:
        raise UsageError(f"The condition {leaf.sql()!r} does not fit: {first_line(problem)}.", EXAMPLE) from None


# --- checks against the release, and counting -----------------------------------------------------------------------


def check_comparisons(release: CountedRelease, tree: exp.Expression) -> None:
    """Raise if a text is compared as a number that is none, or numbers in text, or bins, would be put in its order.

    Likewise if a value that was merged away, or a day inside a published period, is asked for: no row tells of it. And
    if a set of values is, or a card, as rows of such releases show it: conditions are about records, which have values.
    """
    _check_merged(release, tree)
    _check_cards(release, tree)
    binned = {c.name for c in release.manifest.columns if c.treatment == "binned"}
    binned |= {part.name for part in release.manifest.domain.parts if are_bins(part.values)}
    types = manifest_types(release)
    _check_periods(release, tree, binned | set(release.manifest.domain.names))
    for name in compared_as_numbers(tree, types, binned):
        if name in binned and are_bins(texts_of(release, name)):  # years, quarters and months are in order as text
            raise _about_bins(release, name)
        if name not in binned or name in compared_as_numbers(tree, types, ()):
            check_numbers(release, name)
    for order in textual_orders(tree, types):
        hidden = set(order.columns) & set(release.manifest.domain.names)
        if hidden and hidden < set(order.columns):
            continue  # which cannot be estimated, and is told where it is split
        differ = Counting((), (("count(*)", "sum"),), f"({order.as_text}) <> ({order.as_numbers})")
        ((rows,),) = _asked_of_texts(release, order.columns, differ)
        if rows:
            raise _about_order(release, order)


def _check_merged(release: CountedRelease, tree: exp.Expression) -> None:
    """Raise if a condition names a value that is published under another name: it would match no row, unseen."""
    for name, text in compared_texts(tree):
        lists = (release.manifest.merged or {}).get(name, {})
        merged = next((new for new, values in lists.items() if text in map(str, values)), None)
        if merged is not None and text not in lists:
            raise UsageError(
                f"{text!r} is not published by itself in {name!r}: it was merged into {merged!r}.",
                f"Ask for {quoted(name)} = {quoted_text(merged)}. It stands for {', '.join(map(repr, lists[merged]))}.",
            )


def _check_cards(release: CountedRelease, tree: exp.Expression) -> None:
    """Raise if a condition names a set, or a card, as rows show it: no record has it, and the answer would be 0."""
    forms = {m.domain.name: m for m in release.manifest.mechanism_values if m.form != "value"}
    for name, text in compared_texts(tree):
        if name not in forms or text in (labels := forms[name].domain.labels):
            continue
        held = text.split(BETWEEN)
        if forms[name].form == "set" and len(held) > 1 and set(held) <= set(labels):
            listed = f"{quoted(name)} IN ({', '.join(map(quoted_text, held))})"
            raise UsageError(
                f"{text!r} is a set of values, and conditions ask for values: rows of {name!r} show sets, and a record "
                "has one value, which may lie outside its set.",
                f"Ask for {quoted(name)} = {quoted_text(held[0])}, or for all of them: {listed}.",
            )
        if forms[name].form == "card" and _CARD.fullmatch(text):
            raise UsageError(
                f"{text!r} is the number of a card, and conditions ask for values: a card stands for a set of values, "
                "and a record has one value, which may lie outside.",
                f"Ask for a value: {quoted(name)} = {quoted_text(labels[0])}, say.",
            )


def _check_periods(release: CountedRelease, tree: exp.Expression, names: Collection[str]) -> None:
    """Raise if years, quarters or months are put in order with a text of another kind: '2019-Q1' > '2019-05'."""
    for name, text in ordered_texts(tree):
        texts = texts_of(release, name) if name in names else ()
        if not are_periods(texts) or _shape(text) in map(_shape, texts):
            continue
        some = sorted(texts)[len(texts) // 2]
        raise UsageError(
            f"{name!r} is published in periods such as {some!r}, and {text!r} is no such period. "
            "Days are not published.",
            f"Compare with a whole period, e.g. {quoted(name)} >= {quoted_text(some)}; `--by {name}` lists all of "
            "them.",
        )


def _shape(text: str) -> str:
    """Return a text with 0 for each digit: '2019-Q1' is '0000-Q0'."""
    return re.sub(r"\d", "0", text)


def _about_order(release: CountedRelease, order: TextualOrder) -> UsageError:
    literals, sums = ", ".join(order.literals), ", ".join(f"{name} + 0" for name in order.columns)
    remedy = f"Leave the quotes away ({literals}) to compare numbers."
    if not literals:
        remedy = f"Write {sums} to compare numbers."
    if any(_counted_texts(release, name, _NO_NUMBER.format(text=quoted(name)))[0] for name in order.columns):
        remedy = "Some values are no numbers. Name those that you want: IN ('250', '251') or LIKE '250%'."
    return UsageError(f"{order.text} compares text that holds numbers: as text, '9' comes after '10'.", remedy)


def _about_bins(release: CountedRelease, name: str) -> UsageError:
    shown = ", ".join(map(quoted_text, sorted(texts_of(release, name), key=bin_place)[:4]))
    return UsageError(
        f"{name!r} is published in bins, as text: it cannot be compared with numbers or put in order.",
        f"Name the bins that you want, e.g. {quoted(name)} IN ({shown}); `--by {name}` lists all of them.",
    )


def check_numbers(release: CountedRelease, name: str) -> None:
    """Raise if a column of text holds something that is no number, or numbers that would not be told apart."""
    for what, sql in (("no number", _NO_NUMBER), ("a number of more than 15 digits", _LONG_NUMBER)):
        rows, example = _counted_texts(release, name, sql.format(text=quoted(name)))
        if rows:
            held = f"{rows:,} value(s) are" if name in release.manifest.domain.names else f"{rows:,} row(s) hold"
            raise UsageError(
                f"{name!r} is text, and {held} {what} there, e.g. {example!r}: it cannot be taken as a number.",
                f"Compare it with texts in quotes, e.g. {quoted(name)} = {quoted_text(example)}.",
            )


_NO_NUMBER = "{text} IS NOT NULL AND NOT coalesce(isfinite(TRY_CAST({text} AS DOUBLE)), false)"
_LONG_NUMBER = "length(regexp_replace({text}, '^[-+0.]+|[eE].*$|[^0-9]', '', 'g')) > 15"
"""Beyond so many digits two numbers may be one in double precision."""


def _counted_texts(release: CountedRelease, name: str, where: str) -> tuple[int, str]:
    """Return how many texts of a column satisfy a condition, and the first of them."""
    asked = Counting((), (("count(*)", "sum"), (f"min({quoted(name)})", "min")), where)
    ((rows, example),) = _asked_of_texts(release, (name,), asked)
    return rows, example


def texts_of(release: CountedRelease, name: str) -> list[str]:
    """Return the different texts of a column."""
    column = quoted(name)
    return [text for (text,) in _asked_of_texts(release, (name,), Counting((column,), where=f"{column} IS NOT NULL"))]


def _asked_of_texts(release: CountedRelease, names: Sequence[str], asked: Counting) -> list[tuple[Any, ...]]:
    """Ask of the published rows; of hidden columns, of the combinations of their values."""
    parts = [part for part in release.manifest.domain.parts if part.name in names]
    if not parts:
        return counted(release, asked, "")
    with connection() as opened:
        opened.register("release", pa.table(combinations(SensitiveDomain(tuple(parts)))))
        rows: list[tuple[Any, ...]] = opened.sql(asked.counted).fetchall()
        return rows


def unknown_values(tree: exp.Expression | None, domain: SensitiveDomain) -> Iterator[str]:
    """Give a note on every text that a hidden column is compared with and that is no value of its domain."""
    parts = {part.name: part.labels for part in domain.parts}
    for name, text in compared_texts(tree):
        if name in parts and text not in parts[name]:
            yield f"{text!r} is no value of {name!r}. {meant(text, parts[name], 'Its values are')}"


def unseen_values(release: CountedRelease, tree: exp.Expression | None) -> Iterator[str]:
    """Give a note on every text that no published row has in the column that it is compared with. Reads the rows."""
    published, types = set(release.column_names), manifest_types(release)
    for name, text in compared_texts(tree):
        if name not in published or types[name] != "string":
            continue
        if text not in (texts := texts_of(release, name)):
            yield f"No published row has {text!r} in {name!r}. {meant(text, sorted(texts), 'It has')}"


def fetched(release: CountedRelease, asked: Counting, what: str, **tables: Any) -> Any:
    """Return the answer as an Arrow table. What does not fit is told of `what` was asked, if that is said.

    `tables` are Arrow tables that it may read besides the release. It is counted in the release's Spark session, if it
    has one: then only the first file is opened here, which tells the types.
    """
    with connected(release, None if release.spark is None else Piece(release.data_files[0]), as_numbers=True) as opened:
        try:
            if release.spark is not None:
                from sfumato.analyst.counting import on_spark

                return on_spark.answered(release, opened, asked, tables)
            for name, table in tables.items():
                opened.register(name, table)
            return opened.sql(asked.sql(tables)).to_arrow_table()
        except CONDITION_ERRORS as problem:
            if not what:
                raise
            raise UsageError(f"{what} does not fit: {first_line(problem)}.", EXAMPLE) from None


def counted(release: CountedRelease, asked: Counting, where: str) -> list[tuple[Any, ...]]:
    """Return the rows of an answer; what does not fit in the condition is told by it."""
    # by way of Arrow: DuckDB itself needs another package for times with a zone
    columns = fetched(release, asked, f"The condition {where!r}" if where.strip() else "").columns
    return list(zip(*(column.to_pylist() for column in columns), strict=True))
