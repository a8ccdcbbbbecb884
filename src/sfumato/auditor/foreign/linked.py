"""The true table and one that another tool published: whom a person can be linked with, and what that tells.

The attacker knows the quasi-identifiers of a person, and takes all published rows whose labels may stand for these.
Rows with the same labels form an equivalence class.

    belief in a value     its share among the rows that the person may be and that show a value
    linking               1 / the number of these rows: how likely a row taken at random among them is the person's
    known members         are taken out of their class, with their values, before that

Which values a label may stand for (`meant`), and which value a row shows (`match`):

*, Any, ?                             every value
nothing                               the missing value, where a person has one; else every value
[20, 30)   (20, 30]   [20, 30[        an interval, ends as the brackets say
20-30   20 - 30   20..30              both ends included
>= 65   < 20   65+                    half-open
{a, b, c}                             one of these
481**   4****                         every * at the end stands for one character, or for none
anything else                         itself; numbers by their value, so that 30 and 30.0 agree

Every label also stands for itself, to the letter but for spaces around it. A sensitive value is one of the table's to
the letter, or by its number; * ? and nothing show no value, unless the table has that very value; anything else is a
value that the table does not have, as tools show that perturb values.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.auditor.finding import named
from sfumato.auditor.knowledge import not_a_member, open_known
from sfumato.engines.base import Source
from sfumato.engines.rows.encoding import complete_rows, dropping
from sfumato.errors import TableError
from sfumato.publisher.table import Table
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import Attribute
from sfumato.values.attributes import label as written

Test = Callable[[str, float | None], bool]  # whether a value, as text and (if it is one) as a number, is meant
UNKNOWN = -1  # the code of a row that shows no value
AT_ONCE = 1 << 24  # pairs of a combination and a class that are compared at a time

EVERYTHING = re.compile(r"\*+|any|all|\?|", re.IGNORECASE)
NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
INTERVAL = re.compile(rf"([\[\](])\s*({NUMBER})\s*[,;]\s*({NUMBER})\s*([\])\[])")
RANGE = re.compile(rf"({NUMBER})\s*(?:-|\.\.|–|to)\s*({NUMBER})")
HALF = re.compile(rf"(>=|<=|>|<|≥|≤)\s*({NUMBER})|({NUMBER})\s*\+")
MASKED = re.compile(r"([^*]+)(\*+)")
NO_VALUE = re.compile(r"\*+|\?|")
COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">=": float.__ge__, "≥": float.__ge__, "<=": float.__le__, "≤": float.__le__,
    ">": float.__gt__, "<": float.__lt__,
}  # fmt: skip


def meant(labels: Sequence[Any], values: Sequence[Any]) -> BoolArray:
    """Return [labels, values]: whether each label may stand for each value. None is a missing value or label.

    >>> meant(["[20, 30)", "4*"], [25, 30, "41"]).tolist()
    [[True, False, False], [False, False, True]]
    """
    texts = [_text(value) or "" for value in values]
    numbers = [_number(text) for text in texts]
    found = np.zeros((len(labels), len(values)), dtype=np.bool_)
    for row, text in enumerate(_text(label) or "" for label in labels):
        if not text and "" in texts:
            found[row] = [not value for value in texts]
        else:
            test = _test_of(text)
            found[row] = [test(value, number) for value, number in zip(texts, numbers, strict=True)]
    return found


def _text(value: Any) -> str | None:
    return None if value is None else str(value).strip()


def _test_of(text: str) -> Test:
    meaning = _meaning(text)
    return lambda value, number: value == text or meaning(value, number)


def _meaning(text: str) -> Test:
    if EVERYTHING.fullmatch(text):
        return lambda value, number: True
    for pattern, meaning in ((INTERVAL, _interval), (RANGE, _range), (HALF, _half), (MASKED, _masked)):
        if match := pattern.fullmatch(text):
            return meaning(match)
    if text.startswith("{") and text.endswith("}"):
        members = [_test_of(member.strip()) for member in text[1:-1].split(",")]
        return lambda value, number: any(test(value, number) for test in members)
    own = _number(text)
    return lambda value, number: own is not None and number == own


def _interval(match: re.Match[str]) -> Test:
    opening, low, high, closing = match.groups()
    above = float.__ge__ if opening == "[" else float.__gt__
    below = float.__le__ if closing == "]" else float.__lt__
    return lambda value, number: number is not None and above(number, float(low)) and below(number, float(high))


def _range(match: re.Match[str]) -> Test:
    low, high = (float(end) for end in match.groups())
    return lambda value, number: number is not None and low <= number <= high


def _half(match: re.Match[str]) -> Test:
    sign, end, least = match.groups()
    compared, limit = (float.__ge__, float(least)) if least else (COMPARED[sign], float(end))
    return lambda value, number: number is not None and compared(number, limit)


def _masked(match: re.Match[str]) -> Test:
    start, stars = match.groups()
    return lambda value, number: value.startswith(start) and len(value) <= len(start) + len(stars)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(NUMBER, text) else None


# --- sensitive values -------------------------------------------------------------------------------------------------


def match(truth: Any, published: Any, names: Sequence[str]) -> tuple[tuple[str, ...], IntArray, IntArray]:
    """Return the values of two Arrow tables in words, no two alike, and which of them each row has, or UNKNOWN.

    Several sensitive columns are one compound value.

    >>> import pyarrow as pa
    >>> values, own, shown = match(pa.table({"d": [1, 2]}), pa.table({"d": ["2.0", "*", "3"]}), ["d"])
    >>> values, own.tolist(), shown.tolist()
    (('1', '2', '3'), [0, 1], [1, -1, 2])
    """
    columns = {name: _Values() for name in names}
    own = list(zip(*(map(of.own, truth.column(name).to_pylist()) for name, of in columns.items()), strict=True))
    shown = list(zip(*(map(of.shown, published.column(name).to_pylist()) for name, of in columns.items()), strict=True))
    found = list({row for row in (*own, *shown) if UNKNOWN not in row})
    texts = [tuple(of.texts[code] for of, code in zip(columns.values(), row, strict=True)) for row in found]
    order = sorted(range(len(found)), key=lambda k: [(text is None, text or "") for text in texts[k]])
    place = {found[k]: code for code, k in enumerate(order)}
    held, seen = (np.array([place.get(row, UNKNOWN) for row in rows], dtype=np.int64) for rows in (own, shown))
    return _in_words([texts[k] for k in order]), held, seen


def _in_words(values: Sequence[tuple[str | None, ...]]) -> tuple[str, ...]:
    """Return how combinations are written; those that are written alike, part by part."""
    told = [written(parts) for parts in values]
    times = Counter(told)
    return tuple(
        text if times[text] == 1 else " / ".join(map(repr, parts)) for text, parts in zip(told, values, strict=True)
    )


@dataclass
class _Values:
    texts: list[str | None] = field(default_factory=list)
    letters: dict[str | None, int] = field(default_factory=dict)
    numbers: dict[Decimal, int] = field(default_factory=dict)

    def own(self, value: Any) -> int:
        """Return the number of a value of the table, a new one for a new value."""
        text = _text(value)
        if text not in self.letters:
            self.letters[text] = len(self.texts)
            self.texts.append(text)
            if (number := _decimal(text)) is not None:
                self.numbers.setdefault(number, self.letters[text])
        return self.letters[text]

    def shown(self, value: Any) -> int:
        """Return the number of a published value, or UNKNOWN."""
        text = _text(value)
        if text in self.letters:
            return self.letters[text]
        if (number := _decimal(text)) in self.numbers and number is not None:
            return self.numbers[number]
        return UNKNOWN if text is None or NO_VALUE.fullmatch(text) else self.own(value)


def _decimal(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and re.fullmatch(NUMBER, text) else None


# --- linking ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Combinations:
    """Distinct combinations of values of some columns, and the rows of each with each sensitive value."""

    names: tuple[str, ...]
    columns: tuple[tuple[Any, ...], ...]  # of each column, its distinct values
    codes: IntArray  # [combinations, columns]
    counts: IntArray  # [combinations, sensitive values]
    hidden: IntArray  # rows of each combination that show no value
    rows: IntArray  # the combination of each row
    held: IntArray  # its sensitive value, or UNKNOWN

    @property
    def sizes(self) -> IntArray:
        return self.shown + self.hidden

    @property
    def shown(self) -> IntArray:
        """The rows of each combination that show a value."""
        return np.asarray(self.counts.sum(axis=1))

    def told(self, number: int) -> str:
        return named(self.names, self.written(number, range(len(self.names))))

    def written(self, number: int, columns: Iterable[int]) -> tuple[str, ...]:
        return tuple(written(self.columns[k][self.codes[number, k]]) for k in columns)


def combinations(table: Any, columns: Sequence[str], held: IntArray, values: int) -> Combinations:
    """Count an Arrow table by columns and by what each row holds, one of so many values."""
    coded = [table.column(name).combine_chunks().dictionary_encode("encode") for name in columns]
    codes = np.column_stack([column.indices.to_numpy(zero_copy_only=False) for column in coded]).astype(np.int64)
    distinct, number = np.unique(codes, axis=0, return_inverse=True)
    number, shows = number.ravel(), held != UNKNOWN
    counts = np.zeros((len(distinct), values), dtype=np.int64)
    np.add.at(counts, (number[shows], held[shows]), 1)
    hidden = np.bincount(number[~shows], minlength=len(distinct))
    texts = tuple(tuple(column.dictionary.to_pylist()) for column in coded)
    return Combinations(tuple(columns), texts, distinct, counts, hidden, number, held)


def rows_that_fit(people: Combinations, classes: Combinations) -> Iterator[IntArray]:
    """Give [people, classes], whether the labels of a class may stand for the values of people, in blocks.

    People may have fewer columns than classes: labels of the others say nothing of them.
    """
    places = [classes.names.index(name) for name in people.names]
    stands = [meant(classes.columns[place], people.columns[k]) for k, place in enumerate(places)]
    step = max(1, AT_ONCE // max(len(classes.codes), 1))
    for start in range(0, len(people.codes), step):
        codes = people.codes[start : start + step]
        parts = [m[np.ix_(classes.codes[:, places[k]], codes[:, k])].T for k, m in enumerate(stands)]
        yield np.logical_and.reduce(parts).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Linked:
    people: Combinations
    classes: Combinations
    values: tuple[str, ...]

    @classmethod
    def of(cls, truth: Any, published: Any, quasi_identifiers: Sequence[str], sensitive: Sequence[str]) -> Linked:
        values, own, shown = match(truth, published, sensitive)
        people = combinations(truth, quasi_identifiers, own, len(values))
        return cls(people, combinations(published, quasi_identifiers, shown, len(values)), values)

    def without(self, known: IntArray) -> tuple[Linked, int]:
        """Return what is left once people are known, [people, values], and how many were taken out of their class.

        One is if exactly one class fits, and has the value: then it has one row less with it.
        """
        placed = np.where(self.homes[:, None] >= 0, known, 0)
        taken = np.zeros_like(self.classes.counts)
        np.add.at(taken, self.homes, placed)
        possible = (taken <= self.classes.counts)[self.homes]
        placed = np.where(possible, placed, 0)
        taken[:] = 0
        np.add.at(taken, self.homes, placed)
        return Linked(_left(self.people, known), _left(self.classes, taken), self.values), int(placed.sum())

    @cached_property
    def candidates(self) -> IntArray:
        """[people, sensitive values]: the published rows with each value that may be the person's."""
        return np.vstack([part @ self.classes.counts for part in rows_that_fit(self.people, self.classes)])

    @cached_property
    def fitting(self) -> IntArray:
        """[people]: the published rows that may be the person's, with a value or without."""
        return np.concatenate([part @ self.classes.sizes for part in rows_that_fit(self.people, self.classes)])

    @cached_property
    def homes(self) -> IntArray:
        """The class of each combination of people, where exactly one fits; else -1."""
        fitting = rows_that_fit(self.people, self.classes)
        return np.concatenate([np.where(part.sum(axis=1) == 1, part.argmax(axis=1), -1) for part in fitting])

    def unfit(self) -> Iterator[str]:
        """Give the labels that stand for nobody's value, as column and label in words."""
        for k, place in ((k, self.classes.names.index(name)) for k, name in enumerate(self.people.names)):
            labels = self.classes.columns[place]
            nobody = ~meant(labels, self.people.columns[k]).any(axis=1)
            yield from (f"{self.people.names[k]} = {written(labels[j])}" for j in np.flatnonzero(nobody).tolist())

    @cached_property
    def beliefs(self) -> FloatArray:
        """[people, sensitive values]: what the candidates tell; zero for people without any."""
        rows = self.candidates.sum(axis=1, keepdims=True)
        return np.asarray(np.divide(self.candidates, rows, out=np.zeros(self.candidates.shape), where=rows > 0))


def _left(found: Combinations, gone: IntArray) -> Combinations:
    """Return combinations without some rows, which are counted no more one by one; empty ones are left out."""
    counts, nobody = found.counts - gone, np.zeros(0, dtype=np.int64)
    some = counts.sum(axis=1) + found.hidden > 0
    hidden = found.hidden[some]
    return replace(found, codes=found.codes[some], counts=counts[some], hidden=hidden, rows=nobody, held=nobody)


# --- the two tables ---------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class ForeignEvidence:
    table: Table
    source: Source
    priors: tuple[Path, ...]
    known: Any = None
    external: Any = None

    @property
    def quasi_identifiers(self) -> list[str]:
        return self.table.schema.names("quasi_identifier")

    @property
    def ell(self) -> int | None:
        return self.table.policy.requirement_rule.l

    @property
    def promised(self) -> float | None:
        return None if self.ell is None else 1 / self.ell

    @cached_property
    def linked(self) -> Linked:
        if not self.quasi_identifiers:
            raise TableError("No column is a quasi-identifier.", "Say in the policy by what people can be linked.")
        names = self.table.schema.names("quasi_identifier", "sensitive")
        for name in names:
            if name not in self.source.names:
                raise TableError(
                    f"The published table has no column {name!r}, only {', '.join(map(repr, self.source.names))}.",
                    "Columns must have the names that the policy gives them. A CSV file is read with the policy's "
                    "delimiter.",
                )
        own, shown = self.of_table(names), plain("published table", self.source, names)
        return Linked.of(own, shown, self.quasi_identifiers, self.table.schema.names("sensitive"))

    @cached_property
    def is_known(self) -> BoolArray:
        source, names = open_known(self.known, self.table)
        tables = plain("list of known members", source, names), self.of_table(names)
        listed, own = (
            list(zip(*(map(written, column.to_pylist()) for column in rows.columns), strict=True)) for rows in tables
        )
        members = set(listed)
        if not members <= set(own):
            raise not_a_member()
        return np.array([values in members for values in own])

    def of_table(self, names: Sequence[str]) -> Any:
        """Return columns of the true table, without the rows that the policy leaves out."""
        return plain("original table", self.table.source, names, dropping(self.table.schema))


def plain(called: str, source: Source, names: Sequence[str], drops: Iterable[Attribute] = ()) -> Any:
    """Return columns as plain Arrow, without the rows in which one of `drops` is missing. called: what has no rows."""
    drops, batches = list(drops), []
    for batch in source.batches(list(dict.fromkeys([*names, *(a.name for a in drops)]))):
        keep = complete_rows(batch.rows, drops)
        batches.append(batch.rows if keep is None else batch.rows.filter(pa.array(keep)))
    if not sum(batch.num_rows for batch in batches):
        raise TableError(f"The {called} has no rows.", "Give one with a row for each person.")
    rows = pa.Table.from_batches(batches).select(list(names))
    return rows.cast(pa.schema([(f.name, getattr(f.type, "value_type", f.type)) for f in rows.schema]))
