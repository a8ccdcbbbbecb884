"""Column by column: how often a guess about a person is right before the release and after it, and what counts are
worth. All of it follows from the release alone.

    before    the share of the commonest value: the best guess of someone who knows the shares and nothing else
    after     noise: sum_y max_x P[y, x] f_x; groups: the mean of the largest shares; without noise: the row tells it
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc

from sfumato.analyst.release import Release
from sfumato.auditor.report.page import Block, Details, Section, Text, table
from sfumato.auditor.report.page_counts import beliefs, by_mechanism, estimated
from sfumato.auditor.report.page_words import TREATMENTS
from sfumato.auditor.report.sheet import columns_of
from sfumato.publisher.policy import Policy
from sfumato.show.words import share
from sfumato.values.arrays import FloatArray

PRINTED = 20  # columns that are printed; more of them are folded away
EXPLAINED = (
    "A guess before the release names the commonest value. A guess after it is by someone who has found the person's "
    "record: noise and groups leave them unsure, and a column without noise tells them all. Shares are estimated from "
    "the release."
)


def before_after(release: Release, policy: Policy | None) -> Section:
    """Return a row for each column that is published; secrets first."""
    rows = list(_rows(release, policy))
    columns = ("column", "published", "guessed right before", "and after", "95 of 100 counts are within")
    blocks: list[Block] = [Text(EXPLAINED), table("Before and after", columns, rows[:PRINTED], 2)]
    if rows[PRINTED:]:
        blocks.append(Details(f"{len(rows) - PRINTED:,} more columns", (table("More", columns, rows[PRINTED:], 2),)))
    return Section("columns", "Column by column, before and after", tuple(blocks))


def _rows(release: Release, policy: Policy | None) -> Iterator[tuple[str, ...]]:
    manifest = release.manifest
    hidden = {m.domain.names: by_mechanism(release, m) for m in manifest.mechanism_values}
    if manifest.in_buckets:
        found = beliefs(release)
        hidden = {} if found is None else {manifest.sensitive: found}
    together = {name: names for names in hidden for name in names[:1]}
    rest = {name for names in hidden for name in names[1:]}
    plain = {column.name for column in manifest.columns if column.treatment in TREATMENTS}
    rows = release.to_arrow()
    for name, _, published in columns_of(manifest, policy):
        if name in together:
            names = together[name]
            yield " / ".join(names), published, *_guessed(release, names, hidden[names]), _off_by(release, names)
        elif name in plain and name not in rest:
            counts = np.array([each["counts"] for each in pc.value_counts(rows.column(name)).to_pylist()])
            yield name, published, share(counts.max() / max(1, counts.sum())), share(1), "exact"


def _guessed(release: Release, names: Sequence[str], found: tuple[FloatArray, FloatArray]) -> tuple[str, str]:
    # groups tell exactly how often each value occurs
    shares = release.table(names, method="inverse" if release.manifest.in_buckets else "em").value.clip(min=0)
    sure, records = found
    return share(float(shares.max() / shares.sum())), share(float(sure @ records / records.sum()))


def _off_by(release: Release, names: Sequence[str]) -> str:
    """Return half of the width of a usual 95% interval."""
    ends = [(c.lower, c.upper) for c in estimated(release, names, None)]
    halves = [(upper - lower) / 2 for lower, upper in ends if lower is not None and upper is not None]
    if not halves:
        return "unknown"
    half = float(np.median(halves))
    return f"±{half:,.0f}" if half else "exact"
