"""Publishing on Spark: the steps of `publish` and `publish_buckets`, done by a cluster.

Files of a release on Spark are many. In the table's order they would tell how many rows were left out of each file of
the table; so the order is not kept where some may be left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.engines.deal.allocation import Codes
from sfumato.engines.deal.buckets import Groups
from sfumato.engines.deal.labels import dealt
from sfumato.engines.rows.encoding import Refusal
from sfumato.engines.rows.mapping import changed_table, integer_types, missing_values
from sfumato.engines.spark.dealing import spark_rows
from sfumato.engines.spark.grouping import TwoParts, write_assigned, write_dealt
from sfumato.engines.spark.mapping import FoundDeal, MapRows, Order, hash_of_counts, write_in_order, write_shuffled
from sfumato.engines.spark.refusing import complete, explained
from sfumato.engines.spark.running import Progress, collected, told
from sfumato.engines.spark.source import SparkSource, quoted
from sfumato.engines.spark.writing import Parts
from sfumato.errors import UsageError
from sfumato.methods.bucket_plan import GroupPlan
from sfumato.methods.plan import AnyPlan, Plan
from sfumato.methods.response_plan import ResponsePlan
from sfumato.publisher import publish_buckets as publishing_groups
from sfumato.publisher.table import Table, profile
from sfumato.release.manifest import DataFile, GroupsPart
from sfumato.release.parts import DATA_FOLDER, GROUPS_FOLDER, FilePart, parts_sha256
from sfumato.values.attributes import Domain
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.randomness import SecretKey, Step

MOST_AT_ONCE = 200_000_000
"""Records of robust Anatomy on Spark: one worker holds about 100 bytes for each of them."""


def check(table: Table, plan: AnyPlan, format: Literal["parquet", "csv"]) -> None:
    """Raise unless every row draws the same words however often Spark reads it, and Parquet is asked for."""
    check_format(format)
    if not plan.shuffle:
        _check_kept_order(table)
    source, by_record = _source(table), not isinstance(plan, GroupPlan) and not _is_dealt(plan)
    reason = source.why_no_address
    if not reason or (table.policy.record_key and by_record):
        return
    raise UsageError(
        f"The rows of {source.description} have no address that stays the same: {reason}. If Spark reads them again, "
        "their noise would be drawn anew, and be another one.",
        "Name a record key in the policy (record_key = ..., with a key file), or write the table to Parquet files and "
        "publish these."
        if by_record
        else "Write the table to Parquet files, and publish these.",
    )


def check_rows(table: Table) -> None:
    """Raise if a column misses a value that the policy has no meaning for."""
    from pyspark.sql import functions as f

    strict = [a.name for a in table.schema.attributes if a.is_published and a.missing == "error"]
    absent = [f.sum(f.col(quoted(name)).isNull().cast("long")).alias(f"c{k}") for k, name in enumerate(strict)]
    if not absent:
        return
    found = collected(_source(table).frame.agg(*absent)).to_pylist()[0]
    for name, rows in zip(strict, found.values(), strict=True):
        if rows:
            raise missing_values(name, Refusal(rows, 0))


def check_format(format: Literal["parquet", "csv"]) -> None:
    """Raise unless Parquet is asked for."""
    if format != "parquet":
        raise UsageError("On Spark a release is written as Parquet.", 'Say output.format = "parquet".')


def _is_dealt(plan: Plan | ResponsePlan) -> bool:
    """Whether rows are dealt to several sub-tables, by where they are."""
    return isinstance(plan, Plan) and bool(plan.mechanism.label)


def _check_kept_order(table: Table) -> None:
    """Raise if the policy lets rows be left out, or rows have no place: decided by the policy, not by the rows."""
    dropping = [a.name for a in table.schema.attributes if a.missing == "drop" and a.role != "identifier"]
    if dropping or _drawn_person(table) or _source(table).why_no_address:
        raise UsageError(
            'order = "keep" does not go with a table on Spark of which rows may be left out: the sizes of the files '
            "would tell how many are missing from each.",
            'Leave order out, or say order = "shuffle" in [output].',
        )


def _drawn_person(table: Table) -> str | None:
    """Return the column of persons, where one row of each is drawn."""
    person = table.policy.person
    return person.column if person and person.repeated == "keep-one" else None


# --- rows -----------------------------------------------------------------------------------------------------------


def write_data(
    table: Table, plan: Plan | ResponsePlan, key: SecretKey, folder: Path, progress: Progress
) -> tuple[DataFile, Any]:
    """Write the published rows; return their description and their Arrow schema."""
    source, is_counted = _source(table), isinstance(plan, Plan) and plan.partition is not None
    parts = [part for mechanism in plan.mechanisms for part in mechanism.domain.parts]
    with told(source.session, plan.rows + plan.dropped, progress), _explained(table, parts):
        rows = MapRows(
            table.schema,
            source.in_task(_published(table)),
            tuple(plan.mechanisms),
            table.record_key,
            _deal(table, plan, key),
            plan.mechanisms[0].domain.size if is_counted else 0,
        )
        if plan.shuffle:
            written = write_shuffled(source, rows, plan.rows, key, folder, _drawn_person(table))
        else:
            written = write_in_order(source, rows, key, folder)
    if isinstance(plan, Plan) and plan.partition and written.checked != hash_of_counts(key, plan.counts):
        raise changed_table()
    return _data_file(written, plan.shuffle), written.files[0].schema


@contextmanager
def _explained(table: Table, parts: Sequence[Domain] = ()) -> Iterator[None]:
    """Turn a value that a worker refused into an error that says what is wrong."""
    source, person = _source(table), _drawn_person(table)
    with explained(source, table.schema, parts), complete(source, [person] if person else []):
        yield


def _source(table: Table) -> SparkSource:
    assert isinstance(table.source, SparkSource)
    return table.source


def _published(table: Table) -> list[str]:
    """Return the columns that workers need: those that are published, and the record key."""
    shown = [name for name in table.source.names if table.schema[name].is_published]
    return list(dict.fromkeys([*shown, *([table.policy.record_key] if table.policy.record_key else [])]))


def _deal(table: Table, plan: Plan | ResponsePlan, key: SecretKey) -> FoundDeal | None:
    """Find the deal to sub-tables, if there are several."""
    if not isinstance(plan, Plan) or not _is_dealt(plan):
        return None
    rows = spark_rows(_source(table), table.schema, plan.mechanism, key)
    found = dealt(rows, plan.mechanism, plan.quotas, key)
    return FoundDeal(found.deal, found.attempt)


def _data_file(written: Parts, shuffled: bool) -> DataFile:
    parts = _parts(written)
    return DataFile(
        file=DATA_FOLDER,
        format="parquet",
        rows=written.rows,
        sha256=parts_sha256(parts),
        shuffled=shuffled,
        parts=parts,
    )


def _parts(written: Parts) -> tuple[FilePart, ...]:
    return tuple(FilePart(file=file.name, rows=file.rows, sha256=file.sha256) for file in written.files)


# --- groups ---------------------------------------------------------------------------------------------------------


def write_groups(
    table: Table, plan: GroupPlan, key: SecretKey, folder: Path, progress: Progress
) -> tuple[DataFile, Any, GroupsPart]:
    """Write both tables; return what the manifest says of them, and the Arrow schema of the data."""
    source = _source(table)
    rows = MapRows(table.schema, source.in_task(_published(table)), (), order=Order(Step.ANATOMY))
    with told(source.session, publishing_groups.rows_read(plan), progress), _explained(table):
        write = _robust if table.policy.method.deals_all_at_once else _plain
        written = write(table, plan, rows, key, folder)
    parts = _parts(written.values)
    groups = publishing_groups.groups_part(
        table,
        plan,
        file=GROUPS_FOLDER,
        lines=written.values.rows,
        sha256=parts_sha256(parts),
        number=written.number,
        published=written.published,
        rows=written.rows.rows,
        parts=parts,
    )
    return _data_file(written.rows, True), written.rows.files[0].schema, groups


def _plain(table: Table, plan: GroupPlan, rows: MapRows, key: SecretKey, folder: Path) -> TwoParts:
    publishing_groups.check_numbers(plan)
    deal = Groups.drawn(plan.counts, plan.withheld, plan.groups, key)
    types = integer_types(plan.domain.parts, table.source)
    return write_dealt(_source(table), rows, plan.domain, deal, types, key, folder)


def _robust(table: Table, plan: GroupPlan, rows: MapRows, key: SecretKey, folder: Path) -> TwoParts:
    if plan.rows > MOST_AT_ONCE:
        raise UsageError(
            f"Robust Anatomy looks at all records at once: {plan.rows:,} are more than the {MOST_AT_ONCE:,} that one "
            "worker is asked to hold.",
            'Publish parts of the table apart, or say method = "anatomy".',
        )
    counted = profile(table)
    plan.require_counts(counts_hash(counted))
    types = integer_types(plan.domain.parts, table.source)
    assign = _Assign(plan, counted)
    return write_assigned(_source(table), rows, plan.domain, counted.domain, assign, types, key, folder)


@dataclass(frozen=True)
class _Assign:
    """Groups all records, and makes sure that every group keeps the bound."""

    plan: GroupPlan
    counted: Profile

    def __call__(self, codes: Codes, key: SecretKey) -> npt.NDArray[np.integer]:
        return publishing_groups.grouped(self.plan, self.counted, codes, key)
