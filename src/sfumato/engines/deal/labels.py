"""Dealing the rows of a table to sub-tables: which label each row gets, by its sensitive value and its secret word."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from sfumato.engines.base import Batch, Numbering, Source
from sfumato.engines.deal.allocation import Deal, EqualWords, Quotas, ReadAgain, Stream, find_deal
from sfumato.engines.embedded.pipeline import ahead
from sfumato.engines.rows.sensitive import SensitiveRows
from sfumato.values.arrays import CodeArray, IntArray, WordArray
from sfumato.values.attributes import Schema
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step

ATTEMPTS = 1 << 20
"""Streams of words between a file and the next, for the deals that have to be drawn again."""


@dataclass(frozen=True, eq=False)
class Labels:
    """Which sub-table each row gets: by its value and its word, drawn in some attempt."""

    deal: Deal
    key: SecretKey
    attempt: int

    def __call__(self, batch: Batch, keep: npt.NDArray[np.bool_] | None, codes: CodeArray) -> CodeArray:
        """Return the sub-table of each kept row, from 0; `codes` are the kept rows' sensitive values."""
        words = batch.words(self.key, Step.ALLOCATE, dealing_stream(self.attempt))
        return self.deal.label_of(codes, words if keep is None else words[keep])


def dealt(rows: Callable[[int], Stream], mechanism: Mechanism, quotas: Sequence[IntArray], key: SecretKey) -> Labels:
    """Deal the rows with exactly these quotas, by the words of the first attempt in which none tie at a boundary."""
    deals = [(table.codes.astype(np.int64), quota) for table, quota in zip(mechanism.tables, quotas, strict=True)]
    asked = Quotas.of(deals, mechanism.domain.size)
    for attempt in count():
        with suppress(EqualWords):
            return Labels(find_deal(rows(attempt), asked), key, attempt)
    raise AssertionError("unreachable")


def dealing_stream(attempt: int) -> Numbering:
    """Return which words rows are dealt by in an attempt."""
    return lambda file: file * ATTEMPTS + attempt


def table_rows(source: Source, schema: Schema, mechanism: Mechanism, key: SecretKey) -> Callable[[int], Stream]:
    """Return, for an attempt, all rows of a table as they are dealt."""

    def of_attempt(attempt: int) -> Stream:
        rows = SensitiveRows(schema, mechanism.domain)

        def dealing(batch: Batch) -> tuple[CodeArray, WordArray]:
            return rows.with_words(batch, key, Step.ALLOCATE, dealing_stream(attempt))

        return ReadAgain(lambda: ahead(map(dealing, source.batches(rows.columns))))

    return of_attempt
