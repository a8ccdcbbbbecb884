"""What can still be counted, and how sure a reader can be of one record: from the release alone.

The true counts stand beside the estimates on the publisher's page only: they are given, never looked up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.codes import published_codes
from sfumato.auditor.report.page import Block, Details, Section, Table, Text, figure, first_rows, table
from sfumato.auditor.report.page_figures import COUNTS, UNCORRECTED, Estimated, histogram, intervals, keys_of
from sfumato.auditor.report.page_mechanism import group_counts, share_bars
from sfumato.auditor.report.page_words import TREATMENTS, and_list
from sfumato.errors import SingularMatrix
from sfumato.release.manifest import Manifest, ReleaseKind
from sfumato.show.words import percent
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import label
from sfumato.values.mechanism import Mechanism

Truth = Callable[[Sequence[str], Sequence[Sequence[Any]]], FloatArray]
"""Gives the true counts of columns on axes with these values."""

DRAWN, SHOWN = 15, 30  # values that are drawn, and listed
MOST_QUESTIONS = 3
FEW = range(2, 7)  # how many values a column has by which counts are split
MOST_CELLS = 1_000_000  # cells of a joint table whose beliefs are computed


def counts(release: Release, truth: Truth | None) -> Section:
    """Return counts as they are estimated from the release, with intervals; with the true ones if these are given."""
    first = (
        "What an analyst gets from the release alone: estimates with 95% intervals."
        f"{' Beside them what is true, which only the publisher knows.' if truth else ''}"
    )
    blocks = [block for columns in _questions(release) for block in _counted(release, columns, truth)]
    return Section("counts", "What can still be counted", (Text(first), *blocks))


def _questions(release: Release) -> Iterator[tuple[str, ...]]:
    """Give the columns that are counted: those that were randomized; of groups also the sensitive one by another,
    the first of few values that stayed as it was."""
    manifest = release.manifest
    names = list(dict.fromkeys((*manifest.domain.names, *manifest.sensitive)))[:MOST_QUESTIONS]
    yield from ((name,) for name in names)
    if manifest.in_buckets:
        rows = release.to_arrow()
        plain = (column.name for column in manifest.columns if column.treatment in TREATMENTS)
        by = next((name for name in plain if len(rows.column(name).unique()) in FEW), None)
        yield from [] if by is None else [(manifest.sensitive[0], by)]


def _counted(release: Release, columns: tuple[str, ...], truth: Truth | None) -> Iterator[Block]:
    found = estimated(release, columns, truth)
    shown = _chosen(found)
    name = " and ".join(columns)
    title = f"Records by {name}"
    true = [(_number(count.truth),) if truth else () for count in shown]
    heading = ("true count",) if truth else ()
    if all(count.lower is not None and count.lower == count.upper for count in found):
        exact = [(c.label, _number(c.estimate), *also) for c, also in zip(shown, true, strict=True)]
        caption = f"{title}: exact for the published ones{first_rows(found, SHOWN)}"
        yield _folded(name, table(caption, (name, "published", *heading), exact), len(exact) > DRAWN)
        return
    naive = _uncorrected(release.manifest, columns)
    if told := [count for count in shown if not math.isnan(count.estimate)]:
        told = _chosen(told, DRAWN)
        keys = tuple(replace(key, words=naive) if key.words == UNCORRECTED else key for key in keys_of(COUNTS, told))
        top = max(found, key=_size)
        alt = (
            f"Estimated records of {len(found):,} values of {name}, with intervals; most: {top.label}, "
            f"{top.estimate:,.0f}. The numbers are in the table below."
        )
        heading_drawn = f"{title}{first_rows(found, DRAWN)}"
        yield figure(heading_drawn, alt, lambda size: intervals(told, size), _caption(release.manifest, found), keys)
    rows = [
        (c.label, _number(c.estimate), _interval(c), _number(c.published), *also)
        for c, also in zip(shown, true, strict=True)
    ]
    caption = f"Records by {name}, in numbers{first_rows(found, SHOWN)}"
    yield _folded(name, table(caption, (name, "estimate", "95% interval", naive, *heading), rows), bool(told))


def _folded(name: str, numbers: Table, is_long: bool) -> Block:
    """Return a table, folded away where a figure shows the same, or where it is long."""
    return Details(f"The numbers: {name}", (numbers,)) if is_long else numbers


def _uncorrected(manifest: Manifest, columns: Sequence[str]) -> str:
    """Return what stands beside estimates: what a reader counts who knows nothing of the method."""
    if manifest.in_buckets:
        return "classical estimate"
    of_cards = any(m.form != "value" and set(m.domain.names) & set(columns) for m in manifest.mechanism_values)
    return "published sets, all values alike" if of_cards else UNCORRECTED


def _chosen(found: list[Estimated], most: int = SHOWN) -> list[Estimated]:
    """Return the most frequent, by their counts; numbers and bins, written with a sign before, in their own order."""
    order = sorted(found, key=_size, reverse=True)[:most]
    is_ordered = all(count.label.lstrip("[<>=- ")[:1].isdigit() for count in found)
    return [count for count in found if count in order] if is_ordered else order


def _size(count: Estimated) -> float:
    """Return what counts are sorted by; those of which the release does not tell come last."""
    return -math.inf if math.isnan(count.estimate) else count.estimate


def _caption(manifest: Manifest, found: list[Estimated]) -> str:
    ends = [(c.lower, c.truth, c.upper) for c in found if None not in (c.lower, c.truth, c.upper)]
    if not ends:
        return "Of 100 such intervals about 95 hold the true count."
    if manifest.withheld:
        return "The estimates are about the published records. The true counts are about all, also those withheld."
    held = sum(lower <= true <= upper for lower, true, upper in ends)  # type: ignore[operator]
    return f"{held} of {len(ends)} intervals hold the true count; about 95% do on average."


def _interval(count: Estimated) -> str:
    return "none" if count.lower is None or count.upper is None else f"{count.lower:,.0f} to {count.upper:,.0f}"


def _number(number: float | None) -> str:
    return "–" if number is None or math.isnan(number) else f"{number:,.0f}"


def estimated(release: Release, columns: Sequence[str], truth: Truth | None) -> list[Estimated]:
    try:
        joint = release.table(columns)
    except SingularMatrix:  # then without intervals
        joint = release.table(columns, method="em")
    values = [axis.values for axis in joint.axes]
    true = np.full(joint.value.size, None) if truth is None else truth(columns, values).ravel()
    lower, upper = ([end if math.isfinite(end) else None for end in ends.ravel()] for ends in joint.interval())
    labels = [", ".join(map(label, cell)) for cell in product(*values)]
    cells = zip(labels, joint.value.ravel(), lower, upper, joint.published.ravel(), true, strict=True)
    return [Estimated(*cell) for cell in cells]


# --- how sure a reader can be -----------------------------------------------------------------------------------------


def certainty(release: Release) -> Section | None:
    manifest = release.manifest
    if manifest.kind == "several":
        blocks = [
            block
            for own in manifest.by_mechanism
            for block in _certainty(by_mechanism(release, own.mechanism_values[0]), own)
        ]
        return Section("certainty", "How sure a reader can be of one record", tuple(blocks))
    found = beliefs(release)
    if found is None:
        return None
    return Section("certainty", "How sure a reader can be of one record", tuple(_certainty(found, manifest)))


def _certainty(found: tuple[FloatArray, FloatArray], manifest: Manifest) -> tuple[Block, Block]:
    """Return in words, and drawn, how sure a reader is of the likeliest value of records."""
    shares, records = found
    total = records.sum()
    bars = {label: 100 * height / total for label, height in share_bars(shares, records).items()}
    mean, largest = float(shares @ records / total), float(shares.max())
    name = and_list(manifest.sensitive)
    text = (
        f"Take a reader who knows beforehand only what the release itself tells of the shares of {name}. Then they "
        f"look at one record. How sure can they be of its likeliest {name}? {_explained(manifest)} On average they are "
        f"{percent(mean)} sure, at most {percent(largest)}."
    )
    alt = (
        "Bars: share of the records by the belief in the likeliest value; "
        f"mean {percent(mean)}, largest {percent(largest)}."
    )
    axis = "belief in the likeliest value, at most"
    drawn = figure("Belief in the likeliest value", alt, lambda size: histogram(bars, axis, "percent of records", size))
    return Text(text), drawn


EXPLAINED: dict[ReleaseKind, str] = {
    "groups": "They hold all records of a group to be alike, so it is the largest share in the group.",
    "response": (
        "They see the quasi-identifiers that it is published with. (The limit is on the belief by the table's own "
        "shares; estimated ones have errors, which show here.)"
    ),
    "randomized": "They see its published value.",
}
"""What a reader goes by."""


def _explained(manifest: Manifest) -> str:
    of_cards = any(mechanism.form != "value" for mechanism in manifest.mechanism_values)
    return "They see the set that is published of it." if of_cards else EXPLAINED[manifest.kind]


def beliefs(release: Release) -> tuple[FloatArray, FloatArray] | None:
    """Return the belief in the likeliest value, and with how many published records; None where it is too large."""
    if release.manifest.kind == "groups":
        sizes, largest = group_counts(release, release.manifest.buckets)
        return largest / sizes, sizes.astype(np.float64)
    if release.manifest.kind == "response":
        return _response_beliefs(release)
    return by_mechanism(release, release.manifest.mechanism_values[0])


def by_mechanism(release: Release, mechanism: Mechanism) -> tuple[FloatArray, FloatArray]:
    """Return the same for the columns of one mechanism."""
    parts = [_table_beliefs(release, mechanism, number) for number in range(len(mechanism.tables))]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _table_beliefs(release: Release, mechanism: Mechanism, number: int) -> tuple[FloatArray, FloatArray]:
    """Return max_x P[y, x] f_x / (P f)_y, and the published records, for each y of a sub-table, value or card."""
    sub_table = mechanism.tables[number]
    where = "" if mechanism.label is None else f'"{mechanism.label}" = {number + 1}'
    joint = release.table(mechanism.domain.names, where, method="em")
    shares = joint.value.ravel()[sub_table.codes].clip(min=0)
    matrix = sub_table.matrix
    if matrix.publishes_values:
        published = joint.published.ravel()[sub_table.codes]
    else:
        published = np.bincount(published_codes(release, mechanism), minlength=matrix.outputs).astype(np.float64)
    expected = matrix.apply(shares)
    belief = np.divide(matrix.likeliest(shares), expected, out=np.zeros(matrix.outputs), where=expected > 0)
    return belief[published > 0], published[published > 0]


def _response_beliefs(release: Release) -> tuple[FloatArray, FloatArray] | None:
    """Return max_u h(b, u) for each published b, h by the estimated joint table of quasi-identifiers and S."""
    claim = release.manifest.risk_claim
    columns = (*claim.quasi_identifiers, *claim.sensitive)
    rows = release.to_arrow()
    sizes = [len(rows.column(name).unique()) for name in columns]
    if math.prod(sizes) > MOST_CELLS:
        return None
    joint = release.table(columns, method="em")
    expected = joint.value.clip(min=0)
    blurred = {m.domain.names[0]: m.matrix for m in release.manifest.mechanism_values if len(m.domain.names) == 1}
    for axis, name in enumerate(claim.quasi_identifiers):
        if name in blurred:
            expected = np.moveaxis(blurred[name].apply(np.moveaxis(expected, axis, -1)), -1, axis)
    seen = math.prod(expected.shape[: len(claim.quasi_identifiers)])
    expected, published = expected.reshape(seen, -1), joint.published.reshape(seen, -1).sum(axis=1)
    total = expected.sum(axis=1)
    belief = np.divide(expected.max(axis=1), total, out=np.zeros(seen), where=total > 0)
    return belief[published > 0], published[published > 0]
