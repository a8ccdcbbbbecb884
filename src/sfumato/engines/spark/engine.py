"""The engine on a Spark cluster: the steps of one machine, done where the rows lie.

Files of a release on Spark are many. In the table's order they would tell how many rows were left out of each file of
the table; so the order is not kept where some may be left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial

from sfumato.engines.base import Publication, Rows, Written
from sfumato.engines.deal.allocation import dealt
from sfumato.engines.deal.anatomy import for_once
from sfumato.engines.deal.buckets import Groups
from sfumato.engines.rows.encoding import Refusal, changed_table
from sfumato.engines.rows.mapping import hash_of_counts, integer_types, missing_values
from sfumato.engines.spark.counting import count_sensitive, group_sizes, see
from sfumato.engines.spark.grouping import TwoTables
from sfumato.engines.spark.mapping import DealtRows, MapRows, Order, write_in_order, write_shuffled
from sfumato.engines.spark.selection import complete, explained, repeated
from sfumato.engines.spark.source import quoted
from sfumato.engines.spark.tasks import TaskSource, collected, told
from sfumato.errors import UsageError
from sfumato.release.formats import FormatName
from sfumato.values.arrays import Progress
from sfumato.values.attributes import Attribute
from sfumato.values.looks import Seen
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import Allocate, Assigned, Dealt, Perturb, Separate, Shuffle

MOST_AT_ONCE = 200_000_000
"""Records whose buckets are found at once: one worker holds about 100 bytes for each of them."""


class SparkEngine:
    """Carries out everything on the cluster; no row comes to the driver."""

    def look(self, rows: Rows, attributes: Sequence[Attribute]) -> list[Seen]:
        """Return what is seen of columns that would be published as they are."""
        return see(rows.source, attributes)

    def count(self, rows: Rows, checked: Sequence[str], key: SecretKey, progress: Progress) -> Profile:
        """Return the counts of the sensitive columns; rows of persons are drawn anew each time, not by the key."""
        return count_sensitive(rows.source, rows.schema, progress, rows.person, rows.linked, checked, rows.apart)

    def sizes(self, rows: Rows, names: Sequence[str]) -> Mapping[int, int]:
        """Return how many combinations of these columns so many records have, as they would be published."""
        return group_sizes(rows.source, rows.schema, names)

    def distinct(self, rows: Rows, column: str) -> tuple[int, int]:
        """Return how many rows there are, and how many different values of an identifier."""
        return repeated(rows.source, column)

    def check(self, rows: Rows, format: FormatName, *, keeps_order: bool, draws_each_row: bool) -> None:
        """Raise unless every row draws the same words however often Spark reads it, and Parquet is asked for."""
        check_format(format)
        if keeps_order:
            _check_kept_order(rows)
        reason = rows.source.why_no_address
        if not reason or (rows.record_key and draws_each_row):
            return
        raise UsageError(
            f"The rows of {rows.source.description} have no address that stays the same: {reason}. If Spark reads them "
            "again, their noise would be drawn anew, and be another one.",
            "Name a record key in the policy (record_key = ..., with a key file), or write the table to Parquet files "
            "and publish these."
            if draws_each_row
            else "Write the table to Parquet files, and publish these.",
        )

    def rehearse(self, rows: Rows, progress: Progress) -> Set[str]:
        """Raise if a column misses a value that the policy has no meaning for. No CSV file is written on Spark."""
        from pyspark.sql import functions as f

        strict = [a.name for a in rows.schema.attributes if a.is_published and a.missing == "error"]
        absent = [f.sum(f.col(quoted(name)).isNull().cast("long")).alias(f"c{k}") for k, name in enumerate(strict)]
        if not absent:
            return frozenset()
        found = collected(rows.source.frame.agg(*absent)).to_pylist()[0]
        for name, lacking in zip(strict, found.values(), strict=True):
            if lacking:
                raise missing_values(name, Refusal(lacking, 0))
        return frozenset()

    def write(self, asked: Publication) -> Written:
        """Carry out the steps on all rows, and write what comes of it; Spark's tasks are reported as rows."""
        rows, perturb = asked.rows, asked.step(Perturb)
        parts = [part for m in (perturb.mechanisms if perturb else ()) for part in m.domain.parts]
        with (
            told(rows.source.session, asked.reads, asked.progress),
            explained(rows.source, rows.schema, parts),
            complete(rows.source, [rows.person] if rows.person else []),
        ):
            return _perturbed(asked, perturb) if perturb else _separated(asked)


def check_format(format: FormatName) -> None:
    """Raise unless Parquet is asked for."""
    if format != "parquet":
        raise UsageError("On Spark a release is written as Parquet.", 'Say output.format = "parquet".')


def _check_kept_order(rows: Rows) -> None:
    """Raise if the policy lets rows be left out, or rows have no place: decided by the policy, not by the rows."""
    dropping = [a.name for a in rows.schema.attributes if a.missing == "drop" and a.role != "identifier"]
    if dropping or rows.person or rows.source.why_no_address:
        raise UsageError(
            'order = "keep" does not go with a table on Spark whose rows may be left out: the sizes of the files '
            "would tell how many are missing from each.",
            'Leave order out, or say order = "shuffle" in [output].',
        )


def _in_task(rows: Rows) -> TaskSource:
    """Return the columns that workers need: those that are published, and the record key."""
    shown = [name for name in rows.source.names if rows.schema[name].is_published]
    own = [rows.record_key.column] if rows.record_key else []
    task: TaskSource = rows.source.in_task(list(dict.fromkeys([*shown, *own])))
    return task


def _perturbed(asked: Publication, perturb: Perturb) -> Written:
    """Write rows that stay rows."""
    rows, key, shuffle, allocate = asked.rows, asked.key, asked.step(Shuffle), asked.step(Allocate)
    labels = None
    if allocate is not None:
        again = partial(DealtRows, rows.source, rows.schema, allocate.mechanism.domain, key)
        labels = dealt(again, allocate.mechanism, allocate.quotas)
    hashed = () if rows.person else tuple(counts.size for counts in perturb.counts)  # persons: drawn anew each time
    task = MapRows(rows.schema, _in_task(rows), perturb.mechanisms, rows.record_key, labels, hashed)
    if shuffle is None:
        written = write_in_order(rows.source, task, key, asked.folder)
    else:
        written = write_shuffled(rows.source, task, shuffle.rows, key, asked.folder, rows.person)
    if hashed and written.checked != hash_of_counts(key, perturb.counts):
        raise changed_table()
    return Written(written.table)


def _separated(asked: Publication) -> Written:
    """Write rows in buckets."""
    rows, key, step = asked.rows, for_once(asked.key), asked.step(Separate)
    assert step is not None
    buckets = step.buckets
    task = MapRows(rows.schema, _in_task(rows), (), order=Order(Step.ANATOMY))
    types = integer_types(step.domain.parts, rows.source)
    tables = TwoTables(rows.source, task, step.domain, types, key, asked.folder)
    if isinstance(buckets, Dealt):
        return tables.dealt(Groups.drawn(buckets.counts, buckets.withheld, buckets.number, key))
    _check_at_once(buckets)
    return tables.assigned(buckets.counted, buckets.assign)


def _check_at_once(buckets: Assigned) -> None:
    if buckets.rows > MOST_AT_ONCE:
        raise UsageError(
            f"Robust Anatomy looks at all records at once: {buckets.rows:,} are more than the {MOST_AT_ONCE:,} that "
            "one worker is asked to hold.",
            'Publish parts of the table apart, or say method = "anatomy".',
        )
