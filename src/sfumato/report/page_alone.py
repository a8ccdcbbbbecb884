"""How many published records are alone with the columns that are published as they are: anybody can count that."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from sfumato.release import Release
from sfumato.report.page import Block, Text
from sfumato.uniqueness import uniqueness

MOST_ROWS = 2_000_000
"""Records above which they are not counted for a page."""
AS_THEY_ARE = ("untouched", "binned", "merged")


def alone(release: Release) -> Iterator[Block]:
    """Give the share of the records that can be found by what is published as it is."""
    names = [column.name for column in release.manifest.columns if column.treatment in AS_THEY_ARE]
    if not names or release.manifest.data.rows > MOST_ROWS:
        return
    sizes = (
        release.to_arrow()
        .select(names)
        .unify_dictionaries()
        .group_by(names)
        .aggregate([([], "count_all")])["count_all"]
    )
    counted = {line["values"].as_py(): line["counts"].as_py() for line in pc.value_counts(sizes)}
    yield Text(
        f"{uniqueness(tuple(names), counted).sentence} Someone who knows these of a person finds their record, and "
        "only what is hidden above protects it. Anybody who has the release can count this."
    )
