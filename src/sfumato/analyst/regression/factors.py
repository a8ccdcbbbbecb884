"""Factors of a formula, checked against a release: numbers, or levels of a category.

untouched   SQL over the published rows; levels are those that the rows have
hidden      (randomized, or dealt to buckets) a value for each code of the manifest's domain; levels are those of the
            domain, never those of the published rows
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.analyst.answer import sorted_key
from sfumato.analyst.ask.conditions import check_comparisons, fetched, texts_of
from sfumato.analyst.ask.scale import Scale, combinations
from sfumato.analyst.ask.where import ALLOWED, as_sql, check_column
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.analyst.regression.formula import Factor
from sfumato.errors import UsageError
from sfumato.release.folder import (
    CONDITION_ERRORS,
    Piece,
    connected,
    connection,
    first_line,
    hidden_numbers,
    manifest_types,
    stated_order,
)
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain, label
from sfumato.values.recoding import are_bins, bin_ends
from sfumato.values.text import meant

FUNCTIONS: tuple[type[exp.Expression], ...] = (
    exp.Case, exp.If, exp.Ln, exp.Exp, exp.Sqrt, exp.Abs, exp.Floor, exp.Ceil, exp.Round, exp.Pow, exp.Left, exp.Right,
    exp.Substring, exp.Lower, exp.Upper, exp.Length, exp.Greatest, exp.Least, exp.Coalesce, exp.Year, exp.Month,
    exp.Quarter, exp.IntDiv, exp.Cast, exp.DataType, exp.DataTypeParam,
)  # fmt: skip
SOME = "log(x), exp(x), sqrt(x), abs(x), floor(x), round(x), left(x, 3), CASE WHEN ... THEN ... END"
NUMBER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
                "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL")  # fmt: skip
MOST_LEVELS = 1_000
"""Of one factor."""


@dataclass(frozen=True, eq=False)
class Known:
    """A factor of which is known where its values come from and what they are."""

    factor: Factor
    sql: str
    levels: tuple[Any, ...] | None  # None: numbers
    reference: int = 0  # among the levels
    of_code: tuple[Any, ...] = ()  # hidden: its value for each code of `domain`, None where it is missing
    domain: SensitiveDomain | None = None  # of the hidden columns that it looks at; None: untouched
    shift: float = 0.0
    divisor: float = 1.0

    @property
    def text(self) -> str:
        """How it is written."""
        return self.factor.text

    @property
    def is_condition(self) -> bool:
        """Whether it is true or false."""
        return self.levels in ((False, True), (True, False), (False,), (True,))

    def level_name(self, level: int) -> str:
        """Return how a column for one of its levels is called."""
        assert self.levels is not None
        if self.is_condition:
            return self.text if self.levels[level] else f"not {self.text}"
        return f"{self.factor.name or self.text} {label(self.levels[level])}"

    def numbers(self, values: Sequence[Any]) -> FloatArray:
        """Return values as numbers: a level by its place, -1 for another; NaN for a missing number."""
        if self.levels is None:
            floats = np.array([math.nan if v is None else float(v) for v in values], dtype=np.float64)
            return (floats - self.shift) / self.divisor
        place = {level: k for k, level in enumerate(self.levels)}
        return np.array([place.get(value, -1) for value in values], dtype=np.float64)

    def column(self, column: Any) -> FloatArray:
        """Return a column of an Arrow table or batch as `numbers`."""
        whole = column.combine_chunks() if hasattr(column, "combine_chunks") else column
        if self.levels is None:
            floats = whole.cast("double")
            values = np.asarray(floats.fill_null(math.nan), dtype=np.float64)
            standard: FloatArray = (values - self.shift) / self.divisor
            return standard
        encoded = whole.dictionary_encode(null_encoding="encode")
        return np.asarray(self.numbers(encoded.dictionary.to_pylist())[np.asarray(encoded.indices)])

    def over(self, domain: SensitiveDomain) -> FloatArray:
        """Return `numbers` for each code of a larger domain, which has its columns."""
        assert self.domain is not None
        parts = domain.codes
        own = self.domain.join([parts[domain.names.index(name)] for name in self.domain.names])
        return self.numbers(self.of_code)[own]


# --- from the formula -------------------------------------------------------------------------------------------------


def check_columns(release: CountedRelease, factor: Factor, refused: Mapping[str, str]) -> None:
    """Raise unless a factor has only permitted parts, and columns of the release that can be asked in a model."""
    types = manifest_types(release)
    for node in factor.tree.walk():
        if not isinstance(node, (*ALLOWED, *FUNCTIONS)):
            name = node.name if isinstance(node, exp.Anonymous) else node.key
            raise UsageError(f"{name.upper()} is not possible in a formula ({factor.text}).", f"Possible are {SOME}.")
        if isinstance(node, exp.Column):
            check_column(node, types, ())
            if node.name in refused:
                raise UsageError(refused[node.name], "Leave it out of the formula.")
    check_comparisons(release, factor.tree)


def known_hidden(release: CountedRelease, factor: Factor, domain: SensitiveDomain) -> Known:
    """Return a factor of hidden columns: its value for each value of their domain."""
    _check_not_mixed(factor, domain)
    if factor.standard:
        raise UsageError(
            f"{factor.text} needs the mean of {', '.join(sorted(factor.columns))}, which is randomized: that of the "
            "published values is another one.",
            f"Subtract and divide by numbers of your own: I(({_inside(factor)} - 50) / 10).",
        )
    own = SensitiveDomain(tuple(part for part in domain.parts if part.name in factor.columns))
    types, in_text = manifest_types(release), hidden_numbers(release)
    if factor.middle:
        scale = Scale.of(release, next(iter(factor.columns)))
        scale.require_numbers()
        middles = scale.number("middle").of_value
        values: list[Any] = [None if v is None else x for v, x in zip(scale.values, middles, strict=True)]
        return Known(factor, "", None, of_code=tuple(values), domain=own)
    kind, values = _evaluated(as_sql(factor.tree, types, in_text), factor, own)
    found = Known(factor, "", _levels_of(factor, kind, list(dict.fromkeys(values))), of_code=tuple(values), domain=own)
    return _with_reference(found)


def known_untouched(release: CountedRelease, factor: Factor, where: str) -> Known:
    """Return a factor of untouched columns; `where` selects the rows that levels and means are those of."""
    factor = _with_middles(release, factor)
    sql = as_sql(factor.tree, manifest_types(release))
    kind = _type_of(release, sql, factor)
    if kind.startswith(NUMBER_TYPES) and not factor.in_levels:
        return _standardized(release, Known(factor, sql, None), where)
    if factor.standard:
        raise UsageError(f"{factor.text} needs a number, and {_inside(factor)} is none.", "Leave the function out.")
    selected = f"({sql}) IS NOT NULL{f' AND {where}' if where else ''}"
    values = fetched(release, Counting((sql,), where=selected), f"{factor.text!r}").columns[0].to_pylist()
    return _with_reference(Known(factor, sql, _levels_of(factor, kind, _ordered(release, factor, values))))


def _check_not_mixed(factor: Factor, domain: SensitiveDomain) -> None:
    if others := sorted(factor.columns - set(domain.names)):
        hidden = sorted(factor.columns & set(domain.names))
        raise UsageError(
            f"{factor.text} mixes {hidden[0]!r}, which is randomized, with {others[0]!r}, which is not.",
            "Write them as factors of their own, with : for the product of both.",
        )


def _inside(factor: Factor) -> str:
    return str(factor.tree.sql(dialect="duckdb"))


def _evaluated(sql: str, factor: Factor, domain: SensitiveDomain) -> tuple[str, list[Any]]:
    """Return the type of an expression, and its value for every code of a domain."""
    columns = combinations(domain)
    place = "place" + "_" * max(map(len, columns))  # the name of no column
    with connection() as opened:
        opened.register("domain", pa.table({**columns, place: pa.array(range(domain.size))}))
        try:
            found = opened.sql(f"SELECT {sql} AS v FROM domain ORDER BY {place}")
            return str(found.types[0]), [_plain(v) for v in found.to_arrow_table().column("v").to_pylist()]
        except CONDITION_ERRORS as problem:
            raise UsageError(f"{factor.text!r} does not fit: {first_line(problem)}.", f"Possible are {SOME}.") from None


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _type_of(release: CountedRelease, sql: str, factor: Factor) -> str:
    with connected(release, None if release.spark is None else Piece(release.data_files[0]), as_numbers=True) as opened:
        try:
            return str(opened.sql(f"SELECT {sql} AS v FROM release LIMIT 0").types[0])
        except CONDITION_ERRORS as problem:
            raise UsageError(f"{factor.text!r} does not fit: {first_line(problem)}.", f"Possible are {SOME}.") from None


def _levels_of(factor: Factor, kind: str, values: list[Any]) -> tuple[Any, ...] | None:
    """Return the levels in their order; None where values are numbers."""
    known = [value for value in values if value is not None]
    if kind.startswith(NUMBER_TYPES) and not factor.in_levels:
        return None
    if kind == "BOOLEAN":
        return tuple(level for level in (False, True) if level in known)
    if kind.startswith(("DATE", "TIME")) and not factor.in_levels:
        raise UsageError(
            f"{factor.text} is a date, which is no number and no category.", f"Write year({factor.text}), or C(...)."
        )
    if len(known) > MOST_LEVELS:
        raise UsageError(
            f"{factor.text} has {len(known):,} levels; {MOST_LEVELS:,} are possible.",
            "Merge them: C(x, sets={...}, others='rest'), C(left(x, 1)), bins(x, 30, 50).",
        )
    if not known:
        raise UsageError(f"{factor.text} has no value in the rows that are asked.", "Choose a wider condition.")
    stated = [level for level in factor.levels if level in known]
    return (*stated, *(level for level in known if level not in stated))


def _ordered(release: CountedRelease, factor: Factor, values: Sequence[Any]) -> list[Any]:
    stated = stated_order(release, factor.tree.name) if isinstance(factor.tree, exp.Column) else ()
    codes: IntArray = np.arange(len(values), dtype=np.int64)
    return list(sorted_key(factor.text, list(values), codes, stated).values)


def _with_reference(known: Known) -> Known:
    wanted, levels = known.factor.reference, known.levels
    if wanted is None or levels is None:
        return known
    names = [label(level) for level in levels]
    if wanted not in names:
        raise UsageError(
            f"{known.text}: {wanted!r} is no level that could be the reference.", meant(wanted, names, "Levels are")
        )
    return replace(known, reference=names.index(wanted))


def _standardized(release: CountedRelease, known: Known, where: str) -> Known:
    """Return the factor less its mean, and over its standard deviation if that is asked."""
    if not known.factor.standard:
        return known
    number = f"CAST({known.sql} AS DOUBLE)"
    sums = tuple((f"coalesce({sql}, 0)", "sum") for sql in (f"count({number})", f"sum({number})"))
    rows, total = _sums(release, sums, where)
    mean = total / max(rows, 1)
    if known.factor.standard == "center":
        return replace(known, shift=mean)
    (squares,) = _sums(release, ((f"coalesce(sum(({number} - {mean!r}) * ({number} - {mean!r})), 0)", "sum"),), where)
    deviation = math.sqrt(squares / max(rows - 1, 1))
    if not deviation > 0:
        raise UsageError(f"{known.text}: all values are equal.", "Leave it out.")
    return replace(known, shift=mean, divisor=deviation)


def _sums(release: CountedRelease, sums: Any, where: str) -> list[float]:
    found = fetched(release, Counting((), sums, where), "The formula")
    return [float(column[0].as_py()) for column in found.columns]


def _with_middles(release: CountedRelease, factor: Factor) -> Factor:
    """Return the middles of an untouched column's bins as an expression in SQL."""
    if not factor.middle:
        return factor
    texts = texts_of(release, next(iter(factor.columns)))
    found = {text: bin_ends(text) for text in texts} if texts and are_bins(texts) else {}
    ends = {text: pair for text, pair in found.items() if pair is not None and all(map(math.isfinite, pair))}
    if not ends or len(ends) < len(found):
        raise UsageError(
            f"{factor.text}: not all values are bins with two ends.", f"C({_inside(factor)}) takes levels."
        )
    case = exp.Case(this=factor.tree.copy())
    for text, (low, high) in ends.items():
        case = case.when(exp.Literal.string(text), exp.Literal.number(repr((low + high) / 2)), copy=False)
    return replace(factor, tree=exp.Cast(this=case, to=exp.DataType.build("double")), middle=False)
