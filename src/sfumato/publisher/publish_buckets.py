"""Publishing by groups: which rows are in which group, and which values each group has, in two files.

Anatomy, also after suppression, deals rows to groups in bounded memory. Robust Anatomy groups all records at once, in
memory, and looks at every group again before anything is published.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, takewhile
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.engines.deal.allocation import Codes
from sfumato.engines.deal.anatomy import (
    TwoTables,
    anatomized,
    dealing_word,
    for_once,
    regrouped,
    sensitive_codes,
    sensitive_values,
)
from sfumato.engines.embedded.one_file import Progress, Written, reported, write_file
from sfumato.engines.embedded.writers import CsvFormat, Format, ParquetFormat
from sfumato.engines.rows.mapping import RowMapper, integer_types
from sfumato.engines.rows.selection import complete_columns
from sfumato.errors import Infeasible, PlanMismatch
from sfumato.methods import named
from sfumato.methods.bucket_plan import GroupPlan
from sfumato.methods.robustness import WITHHELD, Prior, group_records, merge_records
from sfumato.methods.robustness.cells import Cells
from sfumato.methods.robustness.check import breaching
from sfumato.publisher.table import Table, held_by_domain, profile, watched_numbers, widened
from sfumato.release.manifest import DataFile, DomainPart, GroupsPart
from sfumato.release.parts import FilePart
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bucket_columns import COUNT, GROUP
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.randomness import SecretKey, Step, WordArray

IntArray = npt.NDArray[np.int64]
FileFormat = Literal["parquet", "csv"]


class _Dealt(NamedTuple):
    """Both tables, and what the manifest says of them."""

    tables: TwoTables
    number: int  # of groups
    published: IntArray  # value -> records


def write_groups(
    table: Table, plan: GroupPlan, key: SecretKey, folder: Path, format: FileFormat, progress: Progress
) -> tuple[DataFile, Any, GroupsPart]:
    """Write both files; return what the manifest says of them, and the Arrow schema of the data."""
    stopped = threading.Event()
    source, schema = widened(table) if format == "csv" else (table.source, table.schema)
    key = for_once(key)
    rows = reported(RowMapper(schema, source, (), key, beside=dealing_word(key)).batches(), progress, stopped)
    deal = _robust if table.policy.method.deals_all_at_once else _plain
    dealt = deal(table, plan, rows, key, folder, stopped, progress)
    kinds: tuple[Format, Format] = (ParquetFormat(complete_columns(schema)), ParquetFormat())
    if format == "csv":
        kinds = (CsvFormat(source.wide), CsvFormat())
    numbers = watched_numbers(table, source)
    tables = dealt.tables._replace(rows=numbers.watched(dealt.tables.rows))
    data, lines = _write_both(tables, folder, format, kinds, stopped)
    part = groups_part(
        table,
        plan,
        file=f"groups.{format}",
        lines=lines.rows,
        sha256=lines.sha256,
        number=dealt.number,
        published=dealt.published,
        rows=data.rows,
    )
    file = DataFile(file=f"data.{format}", format=format, rows=data.rows, sha256=data.sha256, shuffled=True)
    return file, numbers.noted(data.schema), part


def groups_part(
    table: Table,
    plan: GroupPlan,
    *,
    file: str,
    lines: int,
    sha256: str,
    number: int,
    published: IntArray,
    rows: int,
    parts: tuple[FilePart, ...] | None = None,
) -> GroupsPart:
    """Return what the manifest says of the groups; `rows` and `published` are the published records, also by value."""
    return GroupsPart(
        file=file,
        lines=lines,
        sha256=sha256,
        domain=tuple(_shown_domain(table, plan, published)),
        group_column=GROUP,
        count_column=COUNT,
        number=number,
        at_most=str(plan.claim.at_most),
        withheld=plan.rows - rows,
        variant=plan.claim.variant,
        always=plan.claim.always,
        attribute_sets=plan.claim.attribute_sets,
        prior=plan.claim.prior,
        dealt_within=plan.claim.dealt_within,
        parts=parts,
    )


def _write_both(
    tables: TwoTables, folder: Path, format: FileFormat, kinds: tuple[Format, Format], stopped: threading.Event
) -> tuple[Written, Written]:
    """Write the values of each group, which are known before the first row is read, beside the rows."""
    failed = threading.Event()
    values = takewhile(lambda _: not failed.is_set(), tables.values)
    with ThreadPoolExecutor(1) as beside:
        lines = beside.submit(write_file, values, folder / f"groups.{format}", kinds[1], threading.Event())
        try:
            data = write_file(tables.rows, folder / f"data.{format}", kinds[0], stopped)
        except BaseException:
            failed.set()
            raise
        return data, lines.result()


def rows_read(plan: GroupPlan) -> int:
    """Return how many rows are reported as read: values, then rows; robust Anatomy counts them once more before."""
    whole, values = plan.rows + plan.dropped, plan.rows
    return values + whole * (2 if named(plan.method).deals_all_at_once else 1)


def _codes(table: Table, domain: SensitiveDomain, progress: Progress) -> Iterator[Codes]:
    """Give the values of all rows that are published, and report how many were read."""
    for codes in sensitive_codes(table.source, table.schema, domain):
        progress(codes.size)
        yield codes


def _values(
    table: Table, domain: SensitiveDomain, key: SecretKey, progress: Progress
) -> Iterator[tuple[Codes, WordArray]]:
    """Give value and word of all rows that are published, and report how many were read."""
    for codes, words in sensitive_values(table.source, table.schema, domain, key):
        progress(codes.size)
        yield codes, words


def _shown_domain(table: Table, plan: GroupPlan, published: IntArray) -> Iterator[DomainPart]:
    """Give the sensitive columns. Of a domain that was read off the table only values of published records are told."""
    codes = plan.domain.split(np.flatnonzero(published).astype(np.int32))
    for part, of_part in zip(plan.domain.parts, codes, strict=True):
        used = set(of_part.tolist()) if part.name in plan.observed else range(len(part.values))
        shown = Domain(part.name, tuple(v for code, v in enumerate(part.values) if code in used))
        yield DomainPart(name=part.name, values=shown.values, holds=held_by_domain(table, shown))


# --- Anatomy --------------------------------------------------------------------------------------------------------


def _plain(
    table: Table,
    plan: GroupPlan,
    rows: Iterator[Any],
    key: SecretKey,
    folder: Path,
    stopped: threading.Event,
    progress: Progress,
) -> _Dealt:
    """Deal the planned number of each value to the planned number of groups."""
    check_numbers(plan)
    values = takewhile(lambda _: not stopped.is_set(), _values(table, plan.domain, key, progress))
    types = integer_types(plan.domain.parts, table.source)
    tables = anatomized(rows, values, plan.domain, plan.counts, plan.withheld, plan.groups, types, key, folder)
    return _Dealt(tables, plan.groups, plan.published)


def check_numbers(plan: GroupPlan) -> None:
    """Raise unless the groups can keep their bound: no value twice in a group, and each with l records at least."""
    kept, least = plan.published, plan.claim.at_most.denominator
    possible = (kept >= 0).all() and (plan.withheld >= 0).all()
    if not possible or plan.groups < 1 or kept.max() > plan.groups or kept.sum() < least * plan.groups:
        raise PlanMismatch("The plan's numbers of records and groups do not keep its own bound.", "Plan again.")


# --- robust Anatomy -------------------------------------------------------------------------------------------------


class _Records(NamedTuple):
    """The codes of all records, in their order."""

    values: IntArray
    cells: IntArray  # numbered through those that occur
    signatures: tuple[IntArray, ...]  # of each attribute set


def _robust(
    table: Table,
    plan: GroupPlan,
    rows: Iterator[Any],
    key: SecretKey,
    folder: Path,
    stopped: threading.Event,
    progress: Progress,
) -> _Dealt:
    """Group all records, and make sure that every group keeps the bound."""
    counted = profile(table, progress)
    plan.require_counts(counts_hash(counted))
    codes = np.concatenate(list(_codes(table, counted.domain, progress)))
    values, groups = codes % plan.domain.size, grouped(plan, counted, codes, key)
    types = integer_types(plan.domain.parts, table.source)
    tables = regrouped(rows, values, groups, plan.domain, types, key, folder)
    published = np.bincount(values[groups != WITHHELD], minlength=plan.domain.size)
    return _Dealt(tables, int(groups.max()) + 1, published)


def grouped(plan: GroupPlan, counted: Profile, codes: Codes, key: SecretKey) -> IntArray:
    """Return the group of each record, or WITHHELD; `codes` are of the domain that was counted, in the table's order.

    All records are looked at at once; every group is looked at again before anything is published.
    """
    records, r = _records(plan, counted, codes), plan.claim.at_most.denominator
    groups = _grouped(records, plan, _different_words(key, records.values.size), r)
    if groups.max() == WITHHELD:
        raise Infeasible("No group can be made.", "Ask for a smaller r, or for coarser or fewer columns.")
    return groups


def _records(plan: GroupPlan, counted: Profile, codes: Codes) -> _Records:
    """Return values and cells of all rows, encoded as they were counted."""
    cell_codes, values = np.divmod(codes.astype(np.int64), plan.domain.size)
    cells = np.unique(cell_codes, return_inverse=True)[1].astype(np.int64)
    known = Cells.of(counted, plan.claim.attribute_sets).sets
    return _Records(values, cells, tuple(of_set.of_cell[cells] for of_set in known))


def _different_words(key: SecretKey, rows: int) -> WordArray:
    """Return a secret word for each row, all different."""
    drawn = (key.words(Step.ANATOMY, attempt, 0, rows) for attempt in count())
    return next(words for words in drawn if np.unique(words).size == rows)


def _grouped(records: _Records, plan: GroupPlan, order: WordArray, r: int) -> IntArray:
    """Return the group of each record, or WITHHELD."""
    priors = [Prior(known.weights, known.totals) for known in plan.priors]
    if plan.assurance == "as-published":
        return merge_records(records.cells, records.values, records.signatures, order, r, priors)
    groups = group_records(records.cells, records.values, records.signatures, order, r, priors or None).groups
    for known, signatures in enumerate(records.signatures):
        if breaching(groups, signatures, records.values, priors[known] if priors else None, r):
            raise Infeasible(
                f"A group exceeds 1/{r} under the prior of {', '.join(plan.claim.attribute_sets[known])}; nothing was "
                "published.",
                'Say prior = "none": such groups hold under every prior.',
            )
    return groups
