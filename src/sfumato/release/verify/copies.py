"""Whether a column that is published as it is holds the true values of the randomized one, under another name.

Both must have the same labels. With g_x the share of x in the column, h_x in the published one, and a the share of rows
in which they agree, a column that goes with nothing agrees in sum g_x h_x of the rows, the true values themselves in
sum g_x P[x, x]. So the column tells the true value of the share t of the records, beyond chance,

    a = (1 - t) sum g_x h_x + t sum g_x P[x, x]

(row by row in its sub-table). A column with t > 1/2 gives away what is randomized. Given the true values the draws are
independent, and a row that is published as y beside x adds [y = x] - g_y/2 to the count that is judged, which varies by
3/2 at most: so Hoeffding's inequality says how far the draws alone can move it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.claims.claim import Check, outcome
from sfumato.release.folder import ReleaseFolder
from sfumato.release.reading import connected, quoted
from sfumato.values.attributes import label
from sfumato.values.mechanism import Mechanism

LEVEL = 1e-6
"""Probability with which a column that tells at most half is taken for one that tells more, of all columns together."""
MOST = 0.5
SPREAD = 1.5
MOST_VALUES = 10_000
"""Of a column that is compared: one with more has other labels."""


@dataclass(frozen=True)
class _Copy:
    name: str
    of: str
    told: float  # t


def no_copies(release: ReleaseFolder) -> Iterator[Check]:
    """Check the columns that are published as they are against the randomized ones."""
    # a time is never a value of a randomized column, and one with a zone cannot be fetched without another package
    names = [
        column.name
        for column in release.manifest.columns
        if column.treatment == "untouched" and not column.type.startswith("timestamp")
    ]
    pairs = [(m, name) for m in release.manifest.mechanism_values if len(m.domain.parts) == 1 for name in names]
    found = [copy for pair in pairs if (copy := _compared(release, *pair, len(pairs))) is not None]
    yield outcome(
        "copies",
        not found,
        f"No untouched column is a copy of the randomized one (false alarm {LEVEL:g}).",
        " ".join(
            f"{copy.name!r} is published as it is, and tells {copy.of!r} of about {copy.told:.0%} of the records."
            for copy in found
        ),
    )


def _compared(release: ReleaseFolder, mechanism: Mechanism, name: str, pairs: int) -> _Copy | None:
    own = mechanism.domain.names[0]
    by = quoted(mechanism.label) if mechanism.label else "1"
    with connected(release) as connection:
        different = connection.sql(f"SELECT count(DISTINCT {quoted(name)}) FROM release").fetchall()[0][0]
        if not 1 < different <= MOST_VALUES:
            return None
        query = f"SELECT {by}, {quoted(own)}, {quoted(name)}, count(*) FROM release GROUP BY ALL"
        lines = connection.sql(query).fetchall()
    index = {label(value): code for code, value in enumerate(mechanism.domain.values)}
    if any(label(line[2]) not in index for line in lines if line[2] is not None):
        return None
    agree, chance, true, rows = (sum(figures) for figures in zip(*_by_table(mechanism, lines, index), strict=True))
    if not rows or true <= chance:
        return None
    told = (agree - chance) / (true - chance)
    margin = SPREAD * math.sqrt(math.log(pairs / LEVEL) / 2 * rows)
    return _Copy(name, own, min(told, 1.0)) if agree - margin > chance + MOST * (true - chance) else None


def _by_table(
    mechanism: Mechanism, lines: Sequence[Any], index: dict[str, int]
) -> Iterator[tuple[float, float, float, float]]:
    """Yield of each sub-table in how many rows the two agree, would by chance, and would if one were the truth."""
    for number, table in enumerate(mechanism.tables, start=1):
        counts = np.zeros((mechanism.domain.size, mechanism.domain.size))
        for at, shown, value, rows in lines:
            if value is not None and int(at) == number:
                counts[index[label(shown)], index[label(value)]] += rows
        total, kept = counts.sum(), np.zeros(mechanism.domain.size)
        kept[table.codes] = table.matrix.diagonal
        by_chance = counts.sum(axis=1) @ counts.sum(axis=0) / max(total, 1)
        yield float(np.trace(counts)), float(by_chance), float(counts.sum(axis=0) @ kept), float(total)
