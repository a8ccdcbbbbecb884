"""Words that belong to a record, not to a place: the draws that a record key repeats in later releases of a series.

    noise       word = keyed function of  context (16 bytes) | the true value's code (4) | record key
    kept row    word = keyed function of  context (16 bytes) | length of the person (4) | person | record key

The context of noise is a hash of the series, the names and labels of the columns, and the matrix; that of kept rows is
one of the series. So nothing repeats in another table, another column or under another matrix, even with the same key
file: there draws are independent. docs/randomness.md says why each part is needed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.engines.rows.identity import key_bytes
from sfumato.values.arrays import WordArray
from sfumato.values.mechanism import Mechanism
from sfumato.values.randomness import SecretKey, Step

CONTEXT_BYTES = 16


@dataclass(frozen=True)
class RecordKey:
    """The column that tells records apart, and the name of the series of releases in which their draws repeat."""

    column: str
    series: str

    def noise_context(self, mechanism: Mechanism) -> bytes:
        """Return what a record's noise depends on besides its key and value."""
        # labels: 7 in a Parquet file and "7" in a CSV file are the same value
        columns = [[part.name, list(part.labels)] for part in mechanism.domain.parts]
        return _context(["noise", self.series, columns], mechanism.matrix.integers)

    def noise_words(
        self, key: SecretKey, context: bytes, rows: Any, values: npt.NDArray[np.int32], position: int
    ) -> WordArray:
        """Return a word for each row, given the codes of the true values; `position`: rows read before these."""
        records = key_bytes(rows.column(self.column), self.column, position)
        messages = [context + code.to_bytes(4) + own for own, code in zip(records, values.tolist(), strict=True)]
        return key.keyed_words(Step.PERTURB, messages)

    def person_words(self, key: SecretKey, persons: list[bytes], rows: Any, position: int) -> WordArray:
        """Return a word for each row, by its person and its record: of a person the row with the least one is kept."""
        context = _context(["person", self.series])
        records = key_bytes(rows.column(self.column), self.column, position)
        both = zip(persons, records, strict=True)
        return key.keyed_words(Step.PERSON, [context + len(p).to_bytes(4) + p + record for p, record in both])


def _context(stated: list[Any], numbers: bytes = b"") -> bytes:
    text = json.dumps(stated, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(len(text).to_bytes(8) + text + numbers).digest()[:CONTEXT_BYTES]
