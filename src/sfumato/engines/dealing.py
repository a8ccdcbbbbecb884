"""Dealing the rows of a table to sub-tables: which label each row gets, by its sensitive value and its secret word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.attributes import Schema
from sfumato.engines.allocation import Codes, Deal, EqualWords, Ints, Quotas, find_deal
from sfumato.engines.base import Batch, Source
from sfumato.engines.encoding import Encoder
from sfumato.engines.mapping import changed_table, positioned
from sfumato.engines.pipeline import ahead
from sfumato.engines.selection import complete_rows, dropping
from sfumato.mechanism import Mechanism
from sfumato.randomness import SecretKey, Step, WordArray

ATTEMPTS = 1 << 20
"""Streams of words between a file and the next, for the deals that have to be drawn again."""


class Dealer:
    """Deals the rows with exactly these quotas; two rows whose words tie at a boundary are dealt with other words."""

    def __init__(
        self, source: Source, schema: Schema, mechanism: Mechanism, quotas: Sequence[Ints], key: SecretKey
    ) -> None:
        self._source, self._key = source, key
        self._domain, self._drops = mechanism.domain, dropping(schema)
        self._encoders = [Encoder(schema[part.name], part) for part in mechanism.domain.parts]
        deals = [(table.codes.astype(np.int64), rows) for table, rows in zip(mechanism.tables, quotas, strict=True)]
        self._quotas = Quotas.of(deals, mechanism.domain.size)
        self._attempt = 0
        self._deal = self._found()

    def _found(self) -> Deal:
        while True:
            try:
                return find_deal(self._rows, self._quotas)
            except EqualWords:
                self._attempt += 1

    def labels(self, batch: Batch, keep: npt.NDArray[np.bool_] | None, codes: Codes) -> Codes:
        """Return the sub-table of each kept row, from 0; `codes` are the kept rows' sensitive values."""
        words = self._words(batch)
        return self._deal.label_of(codes, words if keep is None else words[keep])

    def _words(self, batch: Batch) -> WordArray:
        stream = batch.file * ATTEMPTS + self._attempt
        return self._key.words(Step.ALLOCATE, stream, batch.start, batch.rows.num_rows)

    def _rows(self) -> Iterator[tuple[Codes, WordArray]]:
        """Give value and word of every row that is published."""
        names = list(dict.fromkeys([*self._domain.names, *(a.name for a in self._drops)]))
        counts = np.zeros(self._domain.size, dtype=np.int64)
        for batch, position in ahead(positioned(self._source, names)):
            columns = [e.encode(batch.rows.column(e.attribute.name), position) for e in self._encoders]
            keep = complete_rows(batch.rows, self._drops)
            words: Any = self._words(batch)
            if keep is not None:
                columns, words = [column[keep] for column in columns], words[keep]
            if any(encoder.refused for encoder in self._encoders):
                raise changed_table()
            codes = self._domain.join(columns)
            counts += np.bincount(codes, minlength=counts.size)
            yield codes, words
        if not np.array_equal(counts, self._quotas.class_rows):
            raise changed_table()
