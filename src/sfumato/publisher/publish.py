"""Publishing: the plan is carried out row by row, and a release appears whole, by one rename, or not at all."""

from __future__ import annotations

import datetime
import errno
import glob
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from sfumato.analyst.release import Release, open_release
from sfumato.claims import codec, second_release
from sfumato.claims.guarantee import Guarantee
from sfumato.engines.deal.anatomy import for_once
from sfumato.engines.deal.labels import dealt, table_rows
from sfumato.engines.embedded.memory import kept_memory
from sfumato.engines.embedded.one_file import Progress, reported, write_file
from sfumato.engines.embedded.shuffle import shuffled
from sfumato.engines.embedded.writers import CsvFormat, ParquetFormat
from sfumato.engines.rows.mapping import CountedValues, Dealt, RowMapper
from sfumato.engines.rows.number_columns import holds
from sfumato.engines.rows.selection import complete_columns
from sfumato.engines.spark.source import SparkSource
from sfumato.errors import OutOfSpace, PlanMismatch, UsageError
from sfumato.methods.bucket_plan import GroupPlan
from sfumato.methods.plan import AnyPlan, Plan
from sfumato.methods.response_plan import RESPONSE, ResponsePlan
from sfumato.publisher import publish_buckets as publishing_groups
from sfumato.publisher.publish_buckets import write_groups
from sfumato.publisher.table import (
    Table,
    check_identities,
    declared_order,
    drawn_rows,
    held_by_domain,
    no_progress,
    profile,
    watched_numbers,
    widened,
)
from sfumato.release.folder import MANIFEST_NAME, README_NAME, file_sha256, manifest_seal, value_type
from sfumato.release.manifest import (
    Column,
    DataFile,
    GroupsPart,
    GuaranteePart,
    Manifest,
    MechanismPart,
    ResponsePart,
    Treatment,
    mechanism_part,
    response_part,
)
from sfumato.release.readme import readme
from sfumato.values.bucket_columns import GROUP
from sfumato.values.looks import refuse
from sfumato.values.randomness import SecretKey, release_id
from sfumato.values.recoding import Merge


def publish(
    table: Table,
    plan: AnyPlan,
    folder: str | Path,
    *,
    key: SecretKey | None = None,
    format: Literal["parquet", "csv"] | None = None,
    progress: Progress = no_progress,
) -> Release:
    """Carry out the plan and write a release: data, manifest and a README for the analyst.

    Without a `key` a fresh one is drawn from the operating system and forgotten. A key from a file
    (`SecretKey.load`) goes with a record key in the policy, and only with it. `progress` is told of each batch how
    many rows were read, `rows_read(plan)` in all.
    """
    key = _checked_key(key, table)
    refuse(table.stops)
    if plan.table_hash:  # a plan that was signed off
        plan.require(table.hash(), table.policy.hash())
    _check_asked(table, plan)
    if table.policy.method.rechecks:
        table.policy.method.recheck(plan, profile(table))
    else:
        check_identities(table)
    with _new_folder(Path(folder)) as partial, kept_memory():
        kind = format or table.policy.output.format
        data, schema, groups = _write(table, plan, key, partial, kind, progress)
        manifest = _manifest(table, plan, key, data, schema, groups)
        text = readme(manifest) + f"\n{manifest_seal(manifest.to_json(), '')}\n"
        (partial / README_NAME).write_text(text, encoding="utf-8")
        manifest = manifest.model_copy(update={"readme_sha256": file_sha256(partial / README_NAME)})
        (partial / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
    return open_release(folder)


def rehearse(table: Table, plan: AnyPlan, progress: Progress = no_progress) -> None:
    """Raise whatever `publish` would raise because of the table: read and recode every row, and write nothing.

    `plan` knows the counts of a table, and not all of its columns: a missing value that the policy has no meaning for,
    or a line that cannot be read, is found by reading. `sfumato plan` rehearses.
    """
    refuse(table.stops)
    _check_asked(table, plan)
    if isinstance(table.source, SparkSource):
        from sfumato.publisher import publish_spark as spark

        spark.check(table, plan, table.policy.output.format)
        spark.check_rows(table)
        return
    for read, rows in RowMapper(table.schema, table.source, (), SecretKey.fresh()).batches():
        for column in rows.schema:
            value_type(column.type)
        progress(read)


def _write(
    table: Table,
    plan: AnyPlan,
    key: SecretKey,
    folder: Path,
    kind: Literal["parquet", "csv"],
    progress: Progress,
) -> tuple[DataFile, Any, GroupsPart | None]:
    """Write the files on the engine that the table is on; return what the manifest says, and the Arrow schema."""
    if isinstance(table.source, SparkSource):
        from sfumato.publisher import publish_spark as spark

        spark.check(table, plan, kind)
        if isinstance(plan, GroupPlan):
            return spark.write_groups(table, plan, for_once(key), folder, progress)
        return *spark.write_data(table, plan, key, folder, progress), None
    if isinstance(plan, GroupPlan):
        return write_groups(table, plan, key, folder, kind, progress)
    return *_write_data(table, plan, key, folder, kind, progress), None


def rows_read(plan: AnyPlan) -> int:
    """Return how many rows publishing reads; those of groups are read more than once."""
    return publishing_groups.rows_read(plan) if isinstance(plan, GroupPlan) else plan.rows + plan.dropped


def _check_asked(table: Table, plan: AnyPlan) -> None:
    """Raise unless the plan is for what the policy asks: the release names the policy by its hash."""
    policy, method = table.policy, table.policy.method
    asked = (method.name, method.assurance) == (plan.method, plan.assurance)
    if not asked or not method.meets(plan, policy.requirement, policy.attributes):
        raise PlanMismatch(
            "The plan is not for the method, the assurance and the requirement that the policy states.",
            "Plan with sf.plan(profile, policy.method, policy.requirement), or change the policy.",
        )


def _checked_key(key: SecretKey | None, table: Table) -> SecretKey:
    record_key = table.policy.record_key
    if record_key and (key is None or not (key.kept or key.seeded)):
        raise UsageError(
            f"The policy names the record key {record_key!r}, so that records keep their draws across releases; "
            "that needs a key file.",
            "Make one with `sfumato key FILE`, keep it outside every release, and pass --key-file FILE.",
        )
    if key is not None and key.kept and not record_key:
        raise UsageError(
            "A key file goes with a record key: without one, draws belong to row numbers, and using a key twice would "
            "give different people the same noise.",
            "Name the column in the policy (record_key = ...), or leave the key file out.",
        )
    return key or SecretKey.fresh()


# --- the rows -------------------------------------------------------------------------------------------------------


def _write_data(
    table: Table,
    plan: Plan | ResponsePlan,
    key: SecretKey,
    folder: Path,
    format: Literal["parquet", "csv"],
    progress: Progress,
) -> tuple[DataFile, Any]:
    """Write the published rows; return their description and their Arrow schema."""
    path = folder / f"data.{format}"
    source, schema = widened(table) if format == "csv" else (table.source, table.schema)
    kind = CsvFormat(source.wide) if format == "csv" else ParquetFormat(complete_columns(schema))
    mapper = RowMapper(
        schema,
        source,
        plan.mechanisms,
        key,
        record_key=table.record_key,
        drawn=drawn_rows(table, key),
        dealt=_dealt(table, plan, key),
        seen=CountedValues(plan.counts) if isinstance(plan, Plan) and plan.partition else None,
    )
    stopped = threading.Event()
    published = reported(mapper.batches(reading_ahead=True), progress, stopped)
    if plan.shuffle:
        published = shuffled(published, plan.rows, key, folder)
    numbers = watched_numbers(table, source, [name for m in plan.mechanisms for name in m.domain.names])
    file = write_file(numbers.watched(published), path, kind, stopped)
    data = DataFile(file=path.name, format=format, rows=file.rows, sha256=file.sha256, shuffled=plan.shuffle)
    return data, numbers.noted(file.schema)


def _dealt(table: Table, plan: Plan | ResponsePlan, key: SecretKey) -> Dealt | None:
    """Return who deals records to sub-tables, if there are several."""
    if not isinstance(plan, Plan) or not plan.mechanism.label:
        return None
    return dealt(table_rows(table.source, table.schema, plan.mechanism, key), plan.mechanism, plan.quotas, key)


# --- the manifest ---------------------------------------------------------------------------------------------------


def _manifest(
    table: Table, plan: AnyPlan, key: SecretKey, data: DataFile, schema: Any, groups: GroupsPart | None
) -> Manifest:
    seeded = key.seeded or (isinstance(plan, GroupPlan) and plan.seeded)
    return Manifest(
        release_id=release_id(),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        software=f"sfumato {version('sfumato')}",
        status="not for release" if seeded else "release",
        method=plan.method,
        assurance=plan.assurance,  # type: ignore[arg-type]
        guarantee=GuaranteePart(**codec.guarantee(_with_limits(table, plan, data, groups))),
        data=data,
        columns=_columns(table, plan, schema),
        merged=_merged(table),
        mechanisms=tuple(_mechanisms(plan)),
        groups=groups,
        response=_response(plan),
        discloses_frequencies=plan.discloses_frequencies,
        computed_from_table=plan.computed_from_table,
        from_table=plan.from_table,
        observed_domains=plan.observed,
        second_release=_second_release(table, plan),
        policy_sha256=table.policy.hash(),
        readme_sha256="",
    )


def _mechanisms(plan: AnyPlan) -> Iterator[MechanismPart]:
    if isinstance(plan, GroupPlan):
        return
    if isinstance(plan, ResponsePlan):
        yield from (mechanism_part(mechanism, RESPONSE) for mechanism in plan.mechanisms)
    elif plan.partition is None:
        yield mechanism_part(plan.mechanism, "perturbation")
    else:
        least = plan.partition.minimum_size if plan.mechanism.label else 0
        yield mechanism_part(plan.mechanism, "small-domain", least or None, plan.partition.rho1)


def _response(plan: AnyPlan) -> ResponsePart | None:
    return response_part(plan.claim) if isinstance(plan, ResponsePlan) else None


def _columns(table: Table, plan: AnyPlan, schema: Any) -> tuple[Column, ...]:
    mechanisms = () if isinstance(plan, GroupPlan) else plan.mechanisms
    randomized = {part.name: part for mechanism in mechanisms for part in mechanism.domain.parts}
    labels = {mechanism.label for mechanism in mechanisms}

    def treatment(name: str) -> Treatment:
        if name in randomized:
            return "randomized"
        if name in labels:
            return "sub-table"
        if name == GROUP and isinstance(plan, GroupPlan):
            return "group"
        recoding = table.schema[name].recoding
        return "untouched" if recoding is None else "merged" if isinstance(recoding, Merge) else "binned"

    return tuple(
        Column(
            name=f.name,
            type=value_type(f.type),
            treatment=treatment(f.name),
            holds=held_by_domain(table, randomized[f.name]) if f.name in randomized else holds(f),
            order=None if f.name in randomized else declared_order(table, f.name),
        )
        for f in schema
    )


def _merged(table: Table) -> dict[str, dict[str, tuple[str, ...]]] | None:
    """Return what the policy merges, whatever the table has of it."""
    recodings = {a.name: a.recoding for a in table.schema.attributes}
    return {name: dict(merge.values) for name, merge in recodings.items() if isinstance(merge, Merge)} or None


def _with_limits(table: Table, plan: AnyPlan, data: DataFile, groups: GroupsPart | None) -> Guarantee:
    """Return the guarantee with the limits that come of how this table is published."""
    limits = list(plan.guarantee.limits)
    if not data.shuffled:
        limits.append(
            "Rows are in the table's order: a test found no dependence of the sensitive value on it, which is no proof."
        )
        if data.parts:
            limits.append(
                "The files of the data are pieces of the table's files: they tell which rows were in one file."
            )
    if table.policy.person and table.policy.person.repeated == "per-row":
        limits.append("Several rows of one person may be published: what is learned of a person adds up over them.")
    hidden = {*table.schema.names("sensitive"), *table.policy.method.randomized(table.schema)}
    dropped = [a.name for a in table.schema.attributes if a.name in hidden and a.missing == "drop"]
    if dropped:
        limits.append(
            f"Rows without a value of {', '.join(dropped)} were left out: who is known to be in the table and is not "
            f"in the release has none{', or is withheld' if groups and groups.withheld else ''}."
        )
    return replace(plan.guarantee, limits=tuple(limits))


def _second_release(table: Table, plan: AnyPlan) -> str:
    if isinstance(plan, GroupPlan):
        return second_release.SECOND_GROUPS
    keyed = table.policy.record_key is not None
    if isinstance(plan, ResponsePlan):
        return second_release.second_response(plan.mechanisms, keyed)
    return second_release.second_of(plan.mechanisms, plan.guarantee.directions, keyed)


# --- whole or absent --------------------------------------------------------------------------------------------------


def check_new(folder: Path) -> None:
    """Raise unless a release can be put there."""
    if os.path.lexists(folder):
        raise UsageError(
            f"{str(folder)!r} exists already; a release never overwrites anything.", "Choose another name."
        )
    if not folder.parent.is_dir():
        raise UsageError(f"There is no folder {str(folder.parent)!r} to put the release in.", "Make the folder first.")


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a hidden folder to write into, and rename it to its name when everything is on the disk."""
    check_new(folder)
    _remove_abandoned(folder)
    partial = folder.parent / f"{_partial_prefix(folder)}{os.getpid()}-{release_id()}"
    try:
        partial.mkdir()
        yield partial
        for file in (*partial.rglob("*"), partial):
            _to_disk(file)
        os.rename(partial, folder)
        _to_disk(folder.parent)
    except BaseException as problem:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(problem, OSError) and _is_full(problem):
            raise OutOfSpace(
                f"No room is left on the disk of {str(folder.parent)!r}; nothing was published.",
                "Free some space and publish again; a shuffle needs room for the table uncompressed.",
            ) from None
        if isinstance(problem, OSError):
            raise UsageError(
                f"The release cannot be written to {str(folder.parent)!r}: {problem.strerror or problem}.",
                "Nothing was published.",
            ) from None
        raise


def _partial_prefix(folder: Path) -> str:
    return f".{folder.name}.partial-"


def _remove_abandoned(folder: Path) -> None:
    """Remove what a killed run left: hidden folders whose process is gone."""
    for left in folder.parent.glob(f"{glob.escape(_partial_prefix(folder))}*"):
        process = left.name.removeprefix(_partial_prefix(folder)).split("-")[0]
        if process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(left, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _is_full(problem: OSError) -> bool:
    return problem.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG) or "No space left" in str(problem)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
