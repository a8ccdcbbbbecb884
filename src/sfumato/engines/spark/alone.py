"""How many records share their quasi-identifiers, counted by Spark. No row comes to the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.engines.embedded.duck import plain_kind, salt
from sfumato.engines.rows.published import PublishedRows
from sfumato.engines.rows.selection import dropping
from sfumato.engines.spark.running import collected, mapped
from sfumato.engines.spark.source import SparkSource
from sfumato.engines.spark.tasks import TaskSource
from sfumato.values.attributes import Schema
from sfumato.values.randomness import SecretKey

BETWEEN, NOTHING = "\x1f", "\x00"


def group_sizes(source: SparkSource, schema: Schema, names: Sequence[str]) -> dict[int, int]:
    """Return how many groups of records with equal values there are of each size: size -> groups."""
    from pyspark.sql import functions as f

    columns = list(dict.fromkeys([*names, *(a.name for a in dropping(schema))]))
    keyed = _Keyed(schema, tuple(names), source.in_task(columns))
    rows = mapped(source.addressed(columns), keyed.keys, "shared string")
    marks = rows.select(f.xxhash64(f.lit(salt() % 2**63), f.col("shared")).alias("mark"))
    sizes = marks.groupBy("mark").agg(f.count("*").alias("size"))
    found = collected(sizes.groupBy("size").agg(f.count("*").alias("groups")))
    return {line["size"]: line["groups"] for line in found.to_pylist()}


@dataclass(frozen=True)
class _Keyed:
    """Joins the published quasi-identifiers of each row of a partition to one text."""

    schema: Schema
    names: tuple[str, ...]
    source: TaskSource

    def keys(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield the texts."""
        published = PublishedRows(self.source.of(given), self.schema, self.names)
        for rows in published.batches(lambda _: None):
            texts = [column.cast(plain_kind(column.type)).cast(pa.string()) for column in rows.columns]
            joined = pc.binary_join_element_wise(*texts, BETWEEN, null_handling="replace", null_replacement=NOTHING)
            yield pa.RecordBatch.from_arrays([joined], names=["shared"])
