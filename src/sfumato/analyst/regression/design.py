"""The columns of the design that the terms of a formula stand for, and what each factor gives to them.

A category of L levels enters a term with an indicator for every level but the reference, or for all of them where
nothing else in the model holds its mean. Which one is decided so that no column is a sum of others: the product of
categories a:b spans

    1, a, b, a:b        each with indicators of all levels but the reference,

and a term adds those of them that no earlier term (with the same numbers in it) has. What is added is put together
again: a and 1 to all levels of a.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product

import numpy as np

from sfumato.analyst.regression.factors import Known
from sfumato.analyst.regression.formula import Formula
from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import label

MOST_COLUMNS = 2_000
WRITTEN_AT_ONCE = 100_000
"""Numbers of a design, whose columns are written one after another: few enough to stay near the processor."""

Coding = frozenset[tuple[str, bool]]
"""Categories with whether all of their levels have an indicator."""


@dataclass(frozen=True)
class Column:
    """A product of numbers and of indicators of levels."""

    name: str
    numbers: tuple[str, ...]
    levels: tuple[tuple[str, int], ...]
    against: str = ""  # the reference level that the indicator of a level is compared with
    opposite: str = ""  # the same with its factor, where there are these two levels alone

    @property
    def is_indicator(self) -> bool:
        """Whether it is 0 or 1 for a level, or a combination of levels."""
        return bool(self.levels) and not self.numbers

    @property
    def factors(self) -> tuple[str, ...]:
        """The factors that it looks at."""
        return (*self.numbers, *(name for name, _ in self.levels))


def columns_of(formula: Formula, known: Mapping[str, Known]) -> tuple[Column, ...]:
    """Return the columns of the design."""
    used: dict[frozenset[str], set[frozenset[str]]] = {frozenset(): {frozenset()}} if formula.intercept else {}
    columns = [Column("intercept", (), ())] if formula.intercept else []
    for term in formula.terms:
        numbers = [name for name in term if known[name].levels is None]
        categories = [name for name in term if known[name].levels is not None]
        spanned = used.setdefault(frozenset(numbers), set())
        for coding in _codings(categories, spanned):
            columns += _coded(
                numbers, [(name, dict(coding)[name]) for name in categories if name in dict(coding)], known
            )
        spanned.update(_subsets(categories))
    if len(columns) > MOST_COLUMNS:
        raise UsageError(
            f"The formula has {len(columns):,} coefficients; {MOST_COLUMNS:,} are possible.",
            "Merge levels, C(x, sets={...}), or leave a product of categories out.",
        )
    if not columns:
        raise UsageError("The formula has no coefficient.", "Add a term, or leave the intercept in.")
    return tuple(columns)


def _subsets(names: Sequence[str]) -> list[frozenset[str]]:
    return [frozenset(some) for size in range(len(names) + 1) for some in combinations(names, size)]


def _codings(categories: Sequence[str], spanned: set[frozenset[str]]) -> list[Coding]:
    """Return what a product of categories adds to what is spanned, put together as far as possible.

    >>> [sorted(coding) for coding in _codings(["a", "b"], {frozenset(), frozenset({"a"})})]
    [[('a', True), ('b', False)]]
    """
    codings: list[Coding] = [
        frozenset((name, False) for name in subset) for subset in _subsets(categories) if subset not in spanned
    ]
    merged = True
    while merged:
        merged = False
        for larger, smaller in ((a, b) for a in codings for b in codings if len(a) == len(b) + 1 and b < a):
            ((name, is_full),) = larger - smaller
            if not is_full:
                codings = [c for c in codings if c not in (larger, smaller)] + [smaller | {(name, True)}]
                merged = True
                break
    return sorted(codings, key=len)


def _coded(numbers: Sequence[str], categories: Sequence[tuple[str, bool]], known: Mapping[str, Known]) -> list[Column]:
    choices = []
    for name, is_full in categories:
        factor = known[name]
        levels = range(len(factor.levels or ()))
        choices.append([(name, level) for level in levels if is_full or level != factor.reference])
    columns = []
    for chosen in product(*choices):
        words = [*numbers, *(known[name].level_name(level) for name, level in chosen)]
        columns.append(Column(" : ".join(words) or "intercept", tuple(numbers), chosen))
    (name, is_full), *more = categories or [("", True)]
    if numbers or is_full or more or known[name].is_condition:
        return columns
    return [_with_reference(column, known[name]) for column in columns]


def _with_reference(column: Column, factor: Known) -> Column:
    """Return the indicator of a level with the level that it is compared with."""
    assert factor.levels is not None
    opposite = factor.level_name(factor.reference) if len(factor.levels) == 2 else ""
    return replace(column, against=label(factor.levels[factor.reference]), opposite=opposite)


def design_of(columns: Sequence[Column], values: Mapping[str, FloatArray]) -> FloatArray:
    """Return the design, (rows, states or 1, columns), from each factor's numbers, (rows, 1) or (1, states).

    Of a category these are the numbers of levels.
    """
    rows, states = np.broadcast_shapes((1, 1), *(values[name].shape for column in columns for name in column.factors))
    design = np.empty((rows, states, len(columns)))
    step = max(1, WRITTEN_AT_ONCE // max(1, states * len(columns)))
    for part in (slice(start, start + step) for start in range(0, rows, step)):
        own = {name: numbers if len(numbers) == 1 else numbers[part] for name, numbers in values.items()}
        for place, column in enumerate(columns):
            design[part, :, place] = _product(column, own)
    return design


def _product(column: Column, values: Mapping[str, FloatArray]) -> FloatArray:
    """Return a column of the design, (rows or 1, states or 1)."""
    whole: FloatArray = np.ones((1, 1))
    for name in column.numbers:
        whole = whole * values[name]
    for name, level in column.levels:
        whole = whole * (values[name] == level)
    return whole
