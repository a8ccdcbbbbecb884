"""Which sensitive value of the table a published one is, where another tool wrote it.

to the letter      both without the spaces around them
by its number      1 and 1.0, where the table has no value that is written so
* ? and nothing    unknown: the row shows no value, unless the table has that very value
anything else      a value that the table does not have, as tools show that perturb values
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np

from sfumato.auditor.foreign.labels import NUMBER
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import label as written

UNKNOWN = -1
"""The code of a row that shows no value."""
NO_VALUE = re.compile(r"\*+|\?|")


@dataclass(frozen=True, eq=False)
class Matched:
    """The values of both tables, and which of them each row has."""

    values: tuple[str, ...]  # in words, no two alike
    own: IntArray
    shown: IntArray  # or UNKNOWN


def match(truth: Any, published: Any, names: Sequence[str]) -> Matched:
    """Match the sensitive columns of two Arrow tables; several columns are one compound value.

    >>> import pyarrow as pa
    >>> found = match(pa.table({"d": [1, 2]}), pa.table({"d": ["2.0", "*", "3"]}), ["d"])
    >>> found.values, found.own.tolist(), found.shown.tolist()
    (('1', '2', '3'), [0, 1], [1, -1, 2])
    """
    columns = {name: _Values() for name in names}
    own = list(zip(*(map(of.own, truth.column(name).to_pylist()) for name, of in columns.items()), strict=True))
    shown = list(zip(*(map(of.shown, published.column(name).to_pylist()) for name, of in columns.items()), strict=True))
    found = list({row for row in (*own, *shown) if UNKNOWN not in row})
    texts = [tuple(of.texts[code] for of, code in zip(columns.values(), row, strict=True)) for row in found]
    order = sorted(range(len(found)), key=lambda k: [(text is None, text or "") for text in texts[k]])
    place = {found[k]: code for code, k in enumerate(order)}
    return Matched(_in_words([texts[k] for k in order]), _coded(own, place), _coded(shown, place))


def _coded(rows: Sequence[tuple[int, ...]], place: dict[tuple[int, ...], int]) -> IntArray:
    return np.array([place.get(row, UNKNOWN) for row in rows], dtype=np.int64)


def _in_words(values: Sequence[tuple[str | None, ...]]) -> tuple[str, ...]:
    """Return how combinations are written; those that are written alike, part by part."""
    told = [written(parts) for parts in values]
    times = Counter(told)
    return tuple(
        text if times[text] == 1 else " / ".join(map(repr, parts)) for text, parts in zip(told, values, strict=True)
    )


@dataclass
class _Values:
    """The values of one column, numbered as they come."""

    texts: list[str | None] = field(default_factory=list)
    letters: dict[str | None, int] = field(default_factory=dict)
    numbers: dict[Decimal, int] = field(default_factory=dict)

    def own(self, value: Any) -> int:
        """Return the number of a value of the table, a new one for a new value."""
        text = _text(value)
        if text not in self.letters:
            self.letters[text] = len(self.texts)
            self.texts.append(text)
            if (number := _number(text)) is not None:
                self.numbers.setdefault(number, self.letters[text])
        return self.letters[text]

    def shown(self, value: Any) -> int:
        """Return the number of a published value, or UNKNOWN."""
        text = _text(value)
        if text in self.letters:
            return self.letters[text]
        if (number := _number(text)) in self.numbers and number is not None:
            return self.numbers[number]
        return UNKNOWN if text is None or NO_VALUE.fullmatch(text) else self.own(value)


def _text(value: Any) -> str | None:
    return None if value is None else str(value).strip()


def _number(text: str | None) -> Decimal | None:
    return Decimal(text) if text is not None and re.fullmatch(NUMBER, text) else None
