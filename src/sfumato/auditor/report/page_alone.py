"""How many published records are alone with the columns that are published as they are: anybody can count that."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow.compute as pc

from sfumato.analyst.release import Release
from sfumato.auditor.report.page import Block, Text

MOST_ROWS = 2_000_000
"""Records above which they are not counted for a page."""
AS_THEY_ARE = ("untouched", "binned", "merged")


def found_alone(release: Release) -> Iterator[Block]:
    """Give the share of the records that can be found by what is published as it is."""
    names = [column.name for column in release.manifest.columns if column.treatment in AS_THEY_ARE]
    if not names or release.manifest.data.rows > MOST_ROWS:
        return
    rows = release.to_arrow().select(names).unify_dictionaries()
    sizes = rows.group_by(names).aggregate([([], "count_all")])["count_all"]
    alone = pc.sum(pc.equal(sizes, 1)).as_py() or 0
    yield Text(
        f"Anybody who has the release can count that {alone:,} of the {rows.num_rows:,} published records "
        f"({alone / max(1, rows.num_rows):.1%}) are alone with their ({', '.join(names)}). Someone who knows these of "
        "a person finds their record, and only what is hidden above protects it."
    )
