"""What is seen of columns of a table on Spark, as `engines.rows.looking` does. No row comes to the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import pyarrow as pa

from sfumato.engines.rows.looking import SAMPLE, seen_in
from sfumato.engines.spark.running import collected, mapped
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.values.attributes import Attribute
from sfumato.values.looks import Seen
from sfumato.values.randomness import SecretKey


def see(source: SparkSource, attributes: Sequence[Attribute]) -> list[Seen]:
    """Return what is seen of columns: contents of the first rows that Spark gives, near uniqueness of all rows."""
    if not attributes:
        return []
    from pyspark.sql import functions as f

    chosen = source.frame.select(*(f.col(quoted(a.name)) for a in attributes))
    lines = collected(mapped(chosen.limit(SAMPLE).coalesce(1), _See(tuple(attributes)).look, "seen string"))
    found = [Seen(**json.loads(line)) for line in lines.column(0).to_pylist()]
    return [seen if seen.is_coarse or not seen.nearly_unique else _counted(source, seen) for seen in found]


@dataclass(frozen=True)
class _See:
    """Looks at rows in a worker."""

    attributes: tuple[Attribute, ...]

    def look(self, given: Iterator[Any], key: SecretKey) -> Iterator[Any]:
        """Yield what is seen of each column."""
        names = [a.name for a in self.attributes]
        batches = [pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in given]
        if batches:
            first = pa.Table.from_batches(batches).unify_dictionaries()
            lines = [json.dumps(asdict(seen_in(first, a))) for a in self.attributes]
            yield pa.RecordBatch.from_arrays([pa.array(lines, pa.string())], names=["seen"])


def _counted(source: SparkSource, seen: Seen) -> Seen:
    """Count the whole column; about, and exactly where it is in doubt."""
    from pyspark.sql import functions as f

    column = f.col(quoted(seen.name))
    line = collected(source.frame.agg(f.count(column).alias("present"), f.count_distinct(column).alias("distinct")))
    counted = line.to_pylist()[0]
    return replace(seen, present=counted["present"], distinct=counted["distinct"])
