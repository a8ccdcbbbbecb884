"""The sensitive values of the rows that are published, as codes, with the rows' secret words."""

from __future__ import annotations

import numpy as np

from sfumato.engines.base import Batch, Numbering, by_file
from sfumato.engines.rows.encoding import Encoder
from sfumato.engines.rows.mapping import changed_table
from sfumato.engines.rows.selection import complete_rows, dropping
from sfumato.values.arrays import BoolArray, CodeArray, WordArray
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.randomness import SecretKey, Step


class SensitiveRows:
    """The values of the rows that are published."""

    def __init__(self, schema: Schema, domain: SensitiveDomain) -> None:
        self._domain, self._drops = domain, dropping(schema)
        self._encoders = [Encoder(schema[part.name], part) for part in domain.parts]
        self.columns = list(dict.fromkeys([*domain.names, *(a.name for a in self._drops)]))

    def codes(self, batch: Batch, drawn: BoolArray | None = None) -> tuple[CodeArray, BoolArray | None]:
        """Return the codes of the rows that are kept, and which these are; None for all."""
        columns = [encoder.encode(batch.rows.column(encoder.attribute.name), 0) for encoder in self._encoders]
        masks = [mask for mask in (complete_rows(batch.rows, self._drops), drawn) if mask is not None]
        keep = np.logical_and.reduce(masks) if masks else None
        if keep is not None:
            columns = [column[keep] for column in columns]
        if any(encoder.refused for encoder in self._encoders):
            raise changed_table()
        return self._domain.join(columns), keep

    def with_words(
        self, batch: Batch, key: SecretKey, step: Step, stream: Numbering = by_file
    ) -> tuple[CodeArray, WordArray]:
        """Return value and word of the rows that are kept."""
        codes, keep = self.codes(batch)
        words = batch.words(key, step, stream)
        return codes, words if keep is None else words[keep]
