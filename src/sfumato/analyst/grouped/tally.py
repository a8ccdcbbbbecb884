"""Sums over the records of a release by groups, by column of a question and kind of group: all that estimates need.

DuckDB adds up by group and column first, and then over the groups of a kind:

    s_g of every number and group        ->        sum s_g, sum s_g^2/|g|, the least and the largest number

So what is held does not grow with the records, but with the different compositions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.analyst.ask.cells import Place, Question
from sfumato.analyst.ask.conditions import Condition, fetched
from sfumato.analyst.counting.counts import CountedRelease, Counting, Merge
from sfumato.analyst.counting.tally import ROWS, Number, Rows, Truths, distinct, key_of, numbers_in, unique_rows
from sfumato.analyst.grouped.buckets import Binned
from sfumato.analyst.grouped.dealt import Dealt
from sfumato.errors import UsageError
from sfumato.release.folder import quoted, stated_order
from sfumato.values.arrays import FloatArray, IntArray

SUM: Merge = "sum"
ENDS: tuple[Merge, ...] = ("min", "max")
MOST_MEANS = 4_000_000
"""Means of values in groups of the answer that can be held, several times over: 32 MB each."""


@dataclass(frozen=True, eq=False)
class BucketTally(Rows):
    """Sums over the bins of a kind of groups and a row; a row is a group of the question under one meaning.

    A meaning are the values that are meant in rows with some truths of the condition's atoms; `patterns` has one
    pattern of truths for each.
    """

    kind: IntArray  # [bins]
    row: IntArray  # [bins]
    sums: dict[str, FloatArray]  # of each sum's SQL, [bins]
    between: dict[str, FloatArray]
    ends: dict[str, tuple[FloatArray, FloatArray]]

    def chosen(self, pattern: int, first_loose: int) -> tuple[IntArray, IntArray]:
        """Return the bins of a pattern in order of kind and group: those of the strata, those of loose groups."""
        own = np.flatnonzero(self.pattern_of[self.row] == pattern)
        own = own[np.argsort(self.kind[own] * self.groups + self.group_of[self.row[own]], kind="stable")]
        end = int(np.searchsorted(self.kind[own], first_loose))
        return own[:end], own[end:]

    def binned(self, number: Number, bins: IntArray) -> Binned:
        """Return a number over some bins, whose columns are the groups of the question."""
        sql = number.summed(self.weight)
        return Binned(
            self.kind[bins] * self.groups + self.group_of[self.row[bins]],
            self.sums[ROWS.summed("")][bins],
            self.sums[sql][bins],
            self.sums[(number * number).summed(self.weight)][bins],
            self.between[sql][bins],
            *(end[bins] for end in self.ends[sql]),
        )

    def sum_of(self, number: Number, bins: IntArray) -> FloatArray:
        """Return the sums of a number over some bins."""
        return self.sums[number.summed(self.weight)][bins]

    def by_group(self, number: Number) -> FloatArray:
        sums = self.sums[number.summed(self.weight)]
        return np.bincount(self.group_of[self.row], sums, self.groups).astype(np.float64)


def bucket_tally(question: Question, dealt: Dealt, untouched: Sequence[str], place: Place) -> BucketTally:
    """Sum the records that the condition on untouched columns selects; `place` tells what a pattern of truths means."""
    release, condition, weight = question.release, question.condition, question.weight
    numbers = {number.summed(weight): number for number in question.totals}
    sums = list(dict.fromkeys([ROWS.summed(""), *numbers, *(product.summed(weight) for product in question.products)]))
    patterns, meaning = _patterns(release, condition, place)
    asked = _asked(release, untouched, condition, sums, list(numbers.values()), weight)
    found = fetched(release, asked, "The query", kinds=dealt.kinds, meanings=meaning)
    columns = iter(found.columns)
    kind, pattern = (np.asarray(next(columns).combine_chunks()).astype(np.int64) for _ in range(2))
    keys = [key_of(name, next(columns), stated_order(release, name)) for name in untouched]
    group_keys, group = distinct(keys, kind.size)
    row, (group_of, pattern_of) = unique_rows([group, pattern], kind.size)
    groups = max(int(group.max(initial=-1)) + 1, 0 if untouched else 1)
    if group_of.size * dealt.most_values > MOST_MEANS:
        raise UsageError(
            f"The answer needs {group_of.size * dealt.most_values:,} means in memory; {MOST_MEANS:,} are possible.",
            "Group by fewer columns, or ask for less.",
        )
    return BucketTally(
        group_keys,
        groups,
        group_of,
        patterns,
        pattern_of,
        weight,
        kind,
        row,
        {sql: numbers_in(next(columns)) for sql in sums},
        {sql: numbers_in(next(columns)) for sql in numbers},
        {sql: (numbers_in(next(columns)), numbers_in(next(columns))) for sql in numbers},
    )


# --- patterns of truths -----------------------------------------------------------------------------------------------


def _patterns(release: CountedRelease, condition: Condition, place: Place) -> tuple[tuple[Truths, ...], Any]:
    """Return one pattern for each meaning (which values are meant), and the meaning of every pattern that occurs."""
    found = fetched(release, Counting((_pattern(condition),), where=condition.rows), "The query")
    codes = np.asarray(found.columns[0].combine_chunks()).astype(np.int64)
    meanings: dict[bytes, int] = {}
    patterns: list[Truths] = []
    meaning: list[int] = []
    for code in codes.tolist():
        truths = tuple((False, True, None)[code // 3**k % 3] for k in range(len(condition.atoms)))
        meaning.append(meanings.setdefault(place(truths).tobytes(), len(meanings)))
        if len(meanings) > len(patterns):
            patterns.append(truths)
    return tuple(patterns), pa.table({"p": codes, "meaning": np.array(meaning, dtype=np.int64)})


def _pattern(condition: Condition) -> str:
    """Return the number of a pattern of truths as SQL: a digit to the base 3 for each atom."""
    digits = [
        f"{3**k} * CASE WHEN ({a}) THEN 1 WHEN NOT ({a}) THEN 0 ELSE 2 END" for k, a in enumerate(condition.atoms)
    ]
    return " + ".join(["0", *digits])


# --- what is asked of the rows ----------------------------------------------------------------------------------------


def _asked(
    release: CountedRelease,
    untouched: Sequence[str],
    condition: Condition,
    sums: Sequence[str],
    numbers: Sequence[Number],
    weight: str,
) -> Counting:
    """Return the sums by group and pattern, which are then added up over patterns of a meaning and groups of a kind."""
    keys = (quoted(release.manifest.buckets.group_column), _pattern(condition), *map(quoted, untouched))
    ends = [(f"{end}({number.each(weight)})", end) for number in numbers for end in ENDS]
    counting = Counting(keys, (*((f"coalesce({sql}, 0)", SUM) for sql in sums), *ends), condition.rows)
    group, meaning, *columns = counting.key_names
    summed, rows = counting.merges, "{counted} AS counted"
    if condition.atoms:  # several patterns may mean the same values
        merged = ", ".join([group, "meaning", *columns, *(f"{how}({s}) AS {s}" for s, how in summed.items())])
        by = ", ".join([group, "meaning", *columns])
        rows = f"(SELECT {merged} FROM {rows} JOIN {{meanings}} AS meanings ON p = {meaning} GROUP BY {by}) AS merged"
        meaning = "meaning"
    totals = [f"CAST(s{sums.index(number.summed(weight))} AS DOUBLE)" for number in numbers]
    outer = [f"{how}({s})" for s, how in summed.items()]
    # groups of a kind are of one size; sums of integers do not depend on the order in which threads add
    between = [f"sum({total} * {total}) / min(size)" for total in totals]
    outer[len(sums) : len(sums)] = between
    by = ", ".join(["kind", meaning, *columns])
    named = ", ".join(f"{sql} AS o{k}" for k, sql in enumerate(outer))
    rows += f" JOIN {{kinds}} AS kinds ON g = {group}"
    return replace(counting, then=f"SELECT {by}, {named} FROM {rows} GROUP BY {by}")
