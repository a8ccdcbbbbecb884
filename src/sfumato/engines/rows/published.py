"""A table's rows as they would be published: values recoded, rows with a value to be dropped left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sfumato.engines.base import Source
from sfumato.engines.embedded.counting import recoding_notes
from sfumato.engines.embedded.duck import plain_kind
from sfumato.engines.rows.encoding import LEFT_OUT, Encoder, fitted, new_encoder
from sfumato.engines.rows.mapping import positioned
from sfumato.errors import TableError
from sfumato.values.arrays import Progress
from sfumato.values.attributes import Attribute, Schema
from sfumato.values.randomness import simulation

SAMPLE = 200_000
SEED = 1  # the sample is the same at every call: a survey can be repeated


class PublishedRows:
    """Streams some columns of the rows that would be published, recoded ones as the codes of their labels."""

    def __init__(self, source: Source, schema: Schema, columns: Sequence[str]) -> None:
        self._source, self._columns = source, list(columns)
        attributes = [a for a in schema.attributes if a.is_published]
        self._dropping = [a.name for a in attributes if a.missing == "drop"]
        needed = {*columns, *self._dropping}
        coded = [a for a in attributes if a.name in needed and (a.recoding or a.declared)]
        self._encoders = {a.name: _encoder(a, source) for a in coded}

    @property
    def kinds(self) -> list[Any]:
        """The Arrow types of the columns."""
        return [pa.int32() if name in self._encoders else self._source.column_type(name) for name in self._columns]

    def batches(self, progress: Progress) -> Iterator[Any]:
        """Yield all rows."""
        for rows, _ in self._mapped(progress):
            yield rows

    def sample(self, rows: int, progress: Progress) -> Any:
        """Return at most 200,000 rows, a random one of each of so many equal stretches, as an Arrow table.

        Every k-th row would be simpler, but could fall in step with a table that has a period.
        """
        stride = max(1, -(-rows // SAMPLE))
        starts = np.arange(0, rows, stride)
        places = starts + simulation(SEED).integers(0, np.minimum(stride, rows - starts))
        kept = [batch.take(pa.array(hits)) for batch, hits in self._picked(places, progress) if hits.size]
        schema = pa.schema([(name, plain_kind(kind)) for name, kind in zip(self._columns, self.kinds, strict=True)])
        return pa.Table.from_batches([_cast(batch, schema) for batch in kept], schema)

    def _picked(self, places: npt.NDArray[np.int64], progress: Progress) -> Iterator[tuple[Any, Any]]:
        """Yield each batch with the numbers of those of its rows whose original place was picked."""
        for rows, originals in self._mapped(progress):
            if originals.size:
                first, last = np.searchsorted(places, [originals[0], originals[-1] + 1])
                yield rows, np.flatnonzero(np.isin(originals, places[first:last], assume_unique=True))

    def _mapped(self, progress: Progress) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield the published rows of each batch, and their places in the table."""
        wanted = list(dict.fromkeys([*self._columns, *self._dropping]))
        for batch, position in positioned(self._source, wanted):
            progress(batch.rows.num_rows)
            codes = {name: self._codes(name, batch.rows, position) for name in self._encoders}
            columns = [codes[name] if name in codes else batch.rows.column(name) for name in self._columns]
            rows = pa.RecordBatch.from_arrays(columns, names=self._columns)
            keep = self._keep(batch.rows, codes)
            places = np.arange(position, position + batch.rows.num_rows)
            yield (rows, places) if keep.all() else (rows.filter(pa.array(keep)), places[keep])

    def _codes(self, name: str, rows: Any, position: int) -> Any:
        return pa.array(self._encoders[name].encode(rows.column(name), position))

    def _keep(self, rows: Any, codes: dict[str, Any]) -> npt.NDArray[np.bool_]:
        keep = np.ones(rows.num_rows, dtype=np.bool_)
        for name in self._dropping:
            if name in codes:
                keep &= codes[name].to_numpy() != LEFT_OUT
            else:
                keep &= rows.column(name).is_valid().to_numpy(zero_copy_only=False)
        return keep

    def problems(self) -> list[str]:
        """Return, after a pass, which values publishing would refuse."""
        found = []
        for encoder in self._encoders.values():
            try:
                encoder.check()
            except TableError as problem:
                found.append(f"Publishing would stop: {problem.message} {problem.hint}")
        return found

    def recoding_notes(self) -> tuple[str, ...]:
        """Return, after a pass, what to know of how columns are recoded."""
        unseen = {name: encoder.unseen for name, encoder in self._encoders.items()}
        return recoding_notes(self._source, [encoder.attribute for encoder in self._encoders.values()], unseen)


def _encoder(attribute: Attribute, source: Source) -> Encoder:
    return new_encoder(fitted(attribute, source.column_type(attribute.name)))


def _cast(batch: Any, schema: Any) -> Any:
    columns = [
        (c.storage if isinstance(c, pa.ExtensionArray) else c).cast(field.type)
        for c, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
