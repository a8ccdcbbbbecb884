"""Publishing: the plan is carried out row by row, and a release appears whole, by one rename, or not at all."""

from __future__ import annotations

import datetime
import errno
import glob
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from sfumato import codec
from sfumato.engines.cleaning import row_groups
from sfumato.engines.mapping import RowMapper
from sfumato.engines.pipeline import ahead
from sfumato.engines.shuffle import shuffled
from sfumato.engines.writers import WRITERS, Writer
from sfumato.errors import OutOfSpace, TableError, UsageError
from sfumato.manifest import (
    BoundPart,
    Column,
    DataFile,
    GuaranteePart,
    Manifest,
    Mechanism,
    Noise,
    domain_parts,
)
from sfumato.plans import Plan
from sfumato.randomness import SecretKey, release_id
from sfumato.release import (
    MANIFEST_NAME,
    README_NAME,
    Release,
    file_sha256,
    manifest_seal,
    open_release,
    value_type,
)
from sfumato.release_readme import readme
from sfumato.table import Table, drawn_rows, no_progress

Progress = Callable[[int], None]


def publish(
    table: Table,
    plan: Plan,
    folder: str | Path,
    *,
    key: SecretKey | None = None,
    format: Literal["parquet", "csv"] | None = None,
    progress: Progress = no_progress,
) -> Release:
    """Carry out the plan and write a release: data, manifest and a README for the analyst.

    Without a `key` a fresh one is drawn from the operating system and forgotten. A key from a file
    (`SecretKey.load`) goes with a record key in the policy, and only with it.
    """
    key = _checked_key(key, table)
    if plan.table_hash:  # a plan that was signed off
        plan.require(table.hash(), table.policy.hash())
    with _new_folder(Path(folder)) as partial:
        data, schema = _write_data(table, plan, key, partial, format or table.policy.output.format, progress)
        manifest = _manifest(table, plan, key, data, schema)
        text = readme(manifest) + f"\n{manifest_seal(manifest.to_json(), '')}\n"
        (partial / README_NAME).write_text(text, encoding="utf-8")
        manifest = manifest.model_copy(update={"readme_sha256": file_sha256(partial / README_NAME)})
        (partial / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
    return open_release(folder)


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
    plan: Plan,
    key: SecretKey,
    folder: Path,
    format: Literal["parquet", "csv"],
    progress: Progress,
) -> tuple[DataFile, Any]:
    """Write the published rows; return their description and their Arrow schema."""
    path = folder / f"data.{format}"
    rows = 0
    mapper = RowMapper(
        table.schema, table.source, plan.domain, plan.matrix, key, table.policy.record_key, drawn_rows(table, key)
    )
    stopped = threading.Event()
    published = _reported(mapper, progress, stopped)
    if plan.shuffle:
        published = shuffled(published, plan.rows, key, folder)
    writer: Writer | None = None
    try:
        # while one row group is written, the next is read, mapped and cleaned in a thread
        with closing(ahead(row_groups(published, WRITERS[format].rows_at_once), stopped=stopped)) as groups:
            for group in groups:
                writer = writer or WRITERS[format](path, group.schema)
                writer.write(group)
                rows += group.num_rows
                del group
        if writer is None:
            raise TableError("No row is left to publish.", "All rows are left out because values are missing.")
        schema = writer.close()
    except BaseException:
        if writer is not None:
            writer.abandon()
        raise
    return DataFile(file=path.name, format=format, rows=rows, sha256=file_sha256(path), shuffled=plan.shuffle), schema


def _reported(mapper: RowMapper, progress: Progress, stopped: threading.Event) -> Iterator[Any]:
    for read, rows in mapper.batches():
        if stopped.is_set():  # a shuffle reads all rows before it gives any: do not keep an interrupted user waiting
            return
        progress(read)
        if rows.num_rows:
            yield rows
        del rows


# --- the manifest ---------------------------------------------------------------------------------------------------


def _manifest(table: Table, plan: Plan, key: SecretKey, data: DataFile, schema: Any) -> Manifest:
    bounds = plan.bounds[:1] if len(set(plan.bounds)) == 1 else plan.bounds
    return Manifest(
        release_id=release_id(),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        software=f"sfumato {version('sfumato')}",
        status="not for release" if key.seeded else "release",
        method=plan.method,
        assurance=plan.assurance,  # type: ignore[arg-type]
        guarantee=GuaranteePart(**codec.guarantee(plan.guarantee)),
        data=data,
        columns=_columns(table, plan, schema),
        mechanism=Mechanism(
            domain=domain_parts(plan.domain),
            noise=Noise(**codec.noise(plan.matrix)),
            bounds=tuple(BoundPart.model_validate(codec.bound(b)) for b in bounds),
            epsilon=codec.number(plan.matrix.epsilon),
        ),
        discloses_frequencies=plan.discloses_frequencies,
        observed_domains=plan.observed,
        second_release=_second_release(table, plan),
        policy_sha256=table.policy.hash(),
        readme_sha256="",
    )


def _columns(table: Table, plan: Plan, schema: Any) -> tuple[Column, ...]:
    def treatment(name: str) -> Literal["randomized", "binned", "untouched"]:
        if name in plan.domain.names:
            return "randomized"
        return "binned" if table.schema[name].bins else "untouched"

    return tuple(Column(name=f.name, type=value_type(f.type), treatment=treatment(f.name)) for f in schema)


def _second_release(table: Table, plan: Plan) -> str:
    if table.policy.record_key:
        return (
            "Records keep their draws in later releases with the same key file, domain and matrix: those "
            "add nothing, except "
            "that a published value which changed tells that the true one changed. With another matrix "
            "fresh noise is drawn, "
            "and the two add up: the factors by which the odds can change are multiplied."
        )
    factors = [b.gamma for b in plan.bounds if b.gamma is not None]
    worst = f"from {float(min(factors)):.4g} to {float(min(factors)) ** 2:.4g}" if factors else "without a bound"
    return (
        "The key was discarded: a second release of the same people draws fresh noise, and the two add "
        "up. The factor by "
        f"which the odds of the strictest value can change is squared, {worst}."
    )


# --- whole or absent --------------------------------------------------------------------------------------------------


def check_new(folder: Path) -> None:
    """Raise unless a release can be put there."""
    if os.path.lexists(folder):
        raise UsageError(
            f"{str(folder)!r} exists already; a release never overwrites anything.", "Choose another name."
        )
    if not folder.parent.is_dir():
        raise UsageError(f"There is no folder {str(folder.parent)!r} to put the release in.")


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a hidden folder to write into, and rename it to its name when everything is on the disk."""
    check_new(folder)
    _remove_abandoned(folder)
    partial = folder.parent / f"{_partial_prefix(folder)}{os.getpid()}-{release_id()}"
    try:
        partial.mkdir()
        yield partial
        for file in (*partial.iterdir(), partial):
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
