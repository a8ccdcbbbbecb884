"""Whether the rows of a release are in random order, where it says that they were shuffled: from its own columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.claims.checks import Check, outcome
from sfumato.release.folder import ReleaseFolder
from sfumato.release.reading import connected, quoted
from sfumato.release.verify.random_order import (
    LEVEL,
    Classes,
    classes_of,
    group_order_tallies,
    order_tallies,
    thinned,
)
from sfumato.values.chance import Tallies

ROWS_AT_ONCE = 1 << 16


def random_order(release: ReleaseFolder) -> Iterator[Check]:
    """Check the columns of rows that are stated as shuffled against their places; of groups, the places inside them."""
    if release.manifest.data.shuffled and release.manifest.data.rows > 1:
        yield _outcome(published_order(release), release.manifest.in_buckets)


def published_order(release: ReleaseFolder, more: Sequence[Classes] = ()) -> Tallies:
    """Return the counts of a release's own columns by place, and of classes that are given besides."""
    apart = [release.manifest.buckets.group_column] if release.manifest.in_buckets else []
    names = [name for name in release.column_names if name not in apart]
    classes = [each for name in names for each in classes_of(name, published_column(release, name))] + list(more)
    if not apart:
        return order_tallies(classes)
    numbers = published_column(release, *apart)
    return group_order_tallies(classes, np.asarray(numbers.cast(pa.int64())))


def published_column(release: ReleaseFolder, name: str) -> Any:
    """Return a column in the order of the rows; of a long release, the rows of some stretches."""
    kept = thinned(release.manifest.data.rows)
    parts, place = [], 0
    with connected(release) as connection:
        reader = connection.sql(f"SELECT {quoted(name)} AS x FROM release").to_arrow_reader(ROWS_AT_ONCE)
        for batch in reader:
            column, here = batch.column(0), slice(place, place + batch.num_rows)
            parts.append(column if kept is None else column.filter(pa.array(kept[here])))
            place += batch.num_rows
    return pa.chunked_array(parts).combine_chunks() if parts else pa.array([])


def _outcome(tallies: Tallies, grouped: bool) -> Check:
    tails, level = tallies.log_tails, tallies.log_level(LEVEL)
    least = int(tails.argmin()) if tails.size else -1
    where = "group" if grouped else "table"
    if least < 0 or tails[least] >= level:
        return Check(
            "random order",
            "holds",
            f"No column shows an order of the rows in the {where} ({tallies.tests:,} counts; false alarm {LEVEL:g}).",
        )
    return outcome(
        "random order",
        False,
        "",
        f"The rows are stated as shuffled and are not: {tallies.told(least)}: {int(tallies.hits[least]):,} of "
        f"{int(tallies.records[least]):,}, where chance allows "
        f"{round(tallies.allowed(least, LEVEL) * tallies.records[least]):,}.",
    )
