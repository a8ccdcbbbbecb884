"""Releases by groups, written by hand: who is in which group in one file, and the values of each group in another."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from sfumato.analyst.release import Release, open_release
from sfumato.claims.claim import Guarantee
from sfumato.release.folder import MANIFEST_NAME
from sfumato.release.manifest import Column, DataFile, DomainPart, GroupsPart, Manifest

Ints = npt.NDArray[np.int64]


def codes_of(table: pa.Table, names: Sequence[str]) -> tuple[list[tuple[Any, ...]], Ints]:
    """Return the different rows of some columns in order, and the number of each row's."""
    rows = list(zip(*(table[name].to_pylist() for name in names), strict=True)) or [()] * table.num_rows
    different = sorted(set(rows), key=lambda row: tuple((v is None, str(v)) for v in row))
    number = {row: k for k, row in enumerate(different)}
    return different, np.array([number[row] for row in rows], dtype=np.int64)


def in_batches(counts: Ints, size: int, rng: np.random.Generator, batches: int) -> tuple[Ints, Ints]:
    """Return group and value of each place: a share of each value at a time, the values in a new order each time."""
    groups, values, first = [], [], 0
    for batch in range(batches):
        own = (batch + 1) * counts // batches - batch * counts // batches
        order = rng.permutation(counts.size)
        value = np.repeat(order, own[order])
        number = max(value.size // size, 1)
        groups.append(np.arange(value.size) % number + first)
        values.append(value)
        first += number if value.size else 0
    return np.concatenate(groups), np.concatenate(values)


def dealt_groups(value: Ints, cell: Ints, size: int, rng: np.random.Generator, batches: int) -> Ints:
    """Return the group of each record, from 0: dealt inside the cells, in random order inside each value."""
    group, first = np.empty(value.size, dtype=np.int64), 0
    for number in np.unique(cell):
        own = rng.permutation(np.flatnonzero(cell == number))
        places, place_value = in_batches(np.bincount(value[own]), size, rng, batches)
        group[own[np.argsort(value[own], kind="stable")]] = places[np.argsort(place_value, kind="stable")] + first
        first += int(places.max()) + 1
    return group


def grouped_release(
    folder: Path,
    table: pa.Table,
    sensitive: Sequence[str],
    group: Ints,
    *,
    within: Sequence[str] = (),
    withheld: int = 0,
    file_format: str = "parquet",
) -> Release:
    """Write a release whose records are in these groups, which are numbered from 0."""
    folder.mkdir(parents=True)
    names = [name for name in table.column_names if name not in sensitive]
    data = table.select(names).append_column("group", pa.array(group + 1, pa.int32()))
    value, code = codes_of(table, sensitive)
    line, count = np.unique(group * len(value) + code, return_counts=True)
    lines: dict[str, Any] = {"group": pa.array(line // len(value) + 1, pa.int32())}
    for k, name in enumerate(sensitive):
        column = [value[v][k] for v in (line % len(value)).tolist()]
        lines[name] = pa.array(column, table.schema.field(name).type)
    compositions = pa.table({**lines, "count": pa.array(count)})
    for name, content in (("data", data), ("groups", compositions)):
        path = folder / f"{name}.{file_format}"
        pq.write_table(content, path) if file_format == "parquet" else pacsv.write_csv(content, path)
    made = manifest_of(table, data, sensitive, (int(group.max()) + 1, line.size), tuple(within), withheld, file_format)
    (folder / MANIFEST_NAME).write_text(made.to_json())
    return open_release(folder)


def manifest_of(
    table: pa.Table,
    data: pa.Table,
    sensitive: Sequence[str],
    sizes: tuple[int, int],
    within: tuple[str, ...],
    withheld: int,
    file_format: Any,
) -> Manifest:
    """Return the manifest of a release of a table whose data are `data`; sizes: groups, and lines of their table."""
    domain = [(name, codes_of(table, [name])[0]) for name in sensitive]
    parts = tuple(DomainPart(name=name, values=tuple(v for (v,) in values)) for name, values in domain)
    groups = GroupsPart(
        file=f"groups.{file_format}", lines=sizes[1], sha256="0", domain=parts, group_column="group",
        count_column="count", number=sizes[0], at_most="1/2", withheld=withheld, variant=None, attribute_sets=(),
        prior=None, dealt_within=within,
    )  # fmt: skip
    guarantee = Guarantee(
        sentence="", adversary="", prior="", scope="single values", directions=("upward",),
        strength="one stated prior", limits=(),
    )  # fmt: skip
    columns = tuple(
        Column(name=f.name, type=str(f.type), treatment="group" if f.name == "group" else "untouched")
        for f in data.schema
    )
    return Manifest(
        release_id="0", created="2026-01-01", software="sfumato 0", status="not for release", method="anatomy",
        assurance="proved", guarantee=guarantee,
        data=DataFile(file=f"data.{file_format}", format=file_format, rows=data.num_rows, sha256="0", shuffled=False),
        columns=columns, mechanisms=(), groups=groups, discloses_frequencies=False,
        computed_from_table=(), from_table=True, observed_domains=(), second_release="", policy_sha256="0",
        readme_sha256="0",
    )  # fmt: skip


def all_values(release: Release) -> list[tuple[Any, ...]]:
    """Return the values of the domain in the order of their codes."""
    groups = release.manifest.groups
    assert groups is not None
    return list(product(*(part.values for part in groups.domain)))
