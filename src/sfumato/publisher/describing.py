"""What the manifest says of a release: from the table's policy, the plan, and what was written."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from importlib.metadata import version

import numpy as np

from sfumato.claims.claim import Guarantee, Shape
from sfumato.engines.engine import BucketsWritten, FilesWritten, Written
from sfumato.engines.rows.number_columns import holds
from sfumato.methods.plan import AnyPlan
from sfumato.publisher.table import Table, declared_order, held_by_domain
from sfumato.release.folder import value_type
from sfumato.release.formats import FormatName
from sfumato.release.manifest import (
    Column,
    DataFile,
    DomainPart,
    GroupsPart,
    GuaranteePart,
    Manifest,
    Treatment,
    bucket_keys,
    mechanism_parts,
    response_part,
)
from sfumato.release.parts import FilePart
from sfumato.values.attributes import Domain
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.randomness import release_id
from sfumato.values.recoding import Merge


def manifest_of(table: Table, plan: AnyPlan, is_seeded: bool, written: Written, format: FormatName) -> Manifest:
    """Return the manifest; the README's checksum is still to be filled in."""
    buckets = None if written.buckets is None else _groups(table, plan, written.buckets, written.data.rows)
    return Manifest(
        release_id=release_id(),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        software=f"sfumato {version('sfumato')}",
        status="not for release" if is_seeded else "release",
        method=plan.method,
        assurance=plan.assurance,  # type: ignore[arg-type]
        guarantee=GuaranteePart(**_with_limits(table, plan, written).to_dict()),
        data=_data(plan, written.data, format),
        columns=_columns(table, plan, written),
        merged=_merged(table),
        mechanisms=mechanism_parts(plan.claim, plan.mechanisms),
        groups=buckets,
        response=response_part(plan.claim),
        discloses_frequencies=plan.discloses_frequencies,
        computed_from_table=plan.computed_from_table,
        from_table=plan.from_table,
        observed_domains=plan.observed,
        second_release=plan.claim.second_release(Shape(plan.mechanisms), keyed=table.policy.record_key is not None),
        policy_sha256=table.policy.hash(),
        readme_sha256="",
    )


def _data(plan: AnyPlan, files: FilesWritten, format: FormatName) -> DataFile:
    return DataFile(
        file=files.file,
        format=format,
        rows=files.rows,
        sha256=files.sha256,
        shuffled=plan.shuffle,
        parts=_parts(files),
    )


def _parts(files: FilesWritten) -> tuple[FilePart, ...] | None:
    return None if files.parts is None else tuple(FilePart(**part._asdict()) for part in files.parts)


def _groups(table: Table, plan: AnyPlan, buckets: BucketsWritten, rows: int) -> GroupsPart:
    """Return what the manifest says of the buckets, which share `rows` records."""
    return GroupsPart(
        file=buckets.files.file,
        lines=buckets.files.rows,
        sha256=buckets.files.sha256,
        domain=tuple(_shown_domain(table, plan, buckets)),
        group_column=GROUP,
        count_column=COUNT,
        number=buckets.number,
        withheld=plan.rows - rows,
        parts=_parts(buckets.files),
        **bucket_keys(plan.claim),
    )


def _shown_domain(table: Table, plan: AnyPlan, buckets: BucketsWritten) -> Iterator[DomainPart]:
    """Give the sensitive columns. Of a domain that was read off the table only values of published records are told."""
    codes = buckets.domain.split(np.flatnonzero(buckets.published).astype(np.int32))
    for part, of_part in zip(buckets.domain.parts, codes, strict=True):
        used = set(of_part.tolist()) if part.name in plan.observed else range(len(part.values))
        shown = Domain(part.name, tuple(v for code, v in enumerate(part.values) if code in used))
        yield DomainPart(name=part.name, values=shown.values, holds=held_by_domain(table, shown))


def _columns(table: Table, plan: AnyPlan, written: Written) -> tuple[Column, ...]:
    randomized = {part.name: part for mechanism in plan.mechanisms for part in mechanism.domain.parts}
    labels = {mechanism.label for mechanism in plan.mechanisms}

    def treatment(name: str) -> Treatment:
        if name in randomized:
            return "randomized"
        if name in labels:
            return "sub-table"
        if name == GROUP and written.buckets:
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
        for f in written.data.schema
    )


def _merged(table: Table) -> dict[str, dict[str, tuple[str, ...]]] | None:
    """Return what the policy merges, whatever the table has of it."""
    recodings = {a.name: a.recoding for a in table.schema.attributes}
    return {name: dict(merge.values) for name, merge in recodings.items() if isinstance(merge, Merge)} or None


def _with_limits(table: Table, plan: AnyPlan, written: Written) -> Guarantee:
    """Return the guarantee with the limits that come of how this table is published."""
    limits = list(plan.guarantee.limits)
    if not plan.shuffle:
        limits.append(
            "Rows are in the table's order: a test found no dependence of the sensitive value on it, which is no proof."
        )
        if written.data.parts:
            limits.append(
                "The files of the data are pieces of the table's files: they tell which rows were in one file."
            )
    if table.policy.person and table.policy.person.repeated == "per-row":
        limits.append("Several rows of one person may be published: what is learned of a person adds up over them.")
    hidden = {*table.schema.names("sensitive"), *table.policy.method.randomized(table.schema)}
    dropped = [a.name for a in table.schema.attributes if a.name in hidden and a.missing == "drop"]
    if dropped:
        withheld = written.buckets is not None and plan.rows > written.data.rows
        limits.append(
            f"Rows without a value of {', '.join(dropped)} were left out: who is known to be in the table and is not "
            f"in the release has none{', or is withheld' if withheld else ''}."
        )
    return replace(plan.guarantee, limits=tuple(limits))
