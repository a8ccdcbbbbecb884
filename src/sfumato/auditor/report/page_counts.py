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
from sfumato.auditor.report.page import Block, Drawing, Section, Text, table
from sfumato.auditor.report.page_figures import COUNTS, UNCORRECTED, Estimated, histogram, intervals, keys_of
from sfumato.auditor.report.page_mechanism import group_counts, share_bars
from sfumato.auditor.report.page_svg import figure
from sfumato.auditor.report.page_words import and_list, percent
from sfumato.errors import SingularMatrix
from sfumato.release.manifest import Manifest, ReleaseKind
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import label

Truth = Callable[[Sequence[str], Sequence[Sequence[Any]]], FloatArray]
"""Gives the true counts of columns on axes with these values."""

SHOWN = 30
MOST_QUESTIONS = 3
FEW = range(2, 7)
"""How many values a column has by which counts are split."""
MOST_CELLS = 1_000_000
"""Cells of a joint table whose beliefs are computed."""


def counts(release: Release, truth: Truth | None) -> Section:
    """Return counts as they are estimated from the release, with intervals; with the true ones if these are given."""
    first = (
        "What an analyst gets from the release alone: estimates with 95% intervals."
        f"{' Beside them what is true, which only the publisher knows.' if truth else ''}"
    )
    blocks = [block for columns in _questions(release) for block in _counted(release, columns, truth)]
    return Section("counts", "What can still be counted", (Text(first), *blocks))


def _questions(release: Release) -> list[tuple[str, ...]]:
    """Return which columns are counted: those that were randomized; of groups the sensitive ones by another column."""
    manifest = release.manifest
    by = _splitter(release) if manifest.in_buckets else None
    names = list(dict.fromkeys((*manifest.randomized, *manifest.sensitive)))[:MOST_QUESTIONS]
    found: list[tuple[str, ...]] = [(name,) for name in names]
    return [*found, (manifest.sensitive[0], by)] if by else found


def _splitter(release: Release) -> str | None:
    """Return the first column of few values that stayed as it was."""
    rows = release.to_arrow()
    plain = [c.name for c in release.manifest.columns if c.treatment in ("untouched", "binned", "merged")]
    return next((name for name in plain if len(rows.column(name).unique()) in FEW), None)


def _counted(release: Release, columns: tuple[str, ...], truth: Truth | None) -> Iterator[Block]:
    """Give a figure and a table; a table is enough where counts are exact."""
    found = estimated(release, columns, truth)
    shown = _chosen(found)
    name = " and ".join(columns)
    title = f"Records by {name}" + (f", the {SHOWN} most frequent of {len(found):,}" if len(found) > SHOWN else "")
    true = ["true count"] if truth else []
    if all(count.lower is not None and count.lower == count.upper for count in found):
        rows = [(c.label, _number(c.estimate), *([_number(c.truth)] if truth else [])) for c in shown]
        yield table(f"{title}: exact for the published ones", (name, "published", *true), rows)
        return
    naive = "classical estimate" if release.manifest.in_buckets else "published rows"
    if told := [count for count in shown if not math.isnan(count.estimate)]:
        keys = tuple(replace(key, words=naive) if key.words == UNCORRECTED else key for key in keys_of(COUNTS, told))
        caption = _caption(release.manifest, found)
        yield Drawing(figure(title, _alt(name, found), lambda size: intervals(told, size), caption, keys))
    rows = [(c.label, _number(c.estimate), _interval(c), _number(c.published), *_true(c)) for c in shown]
    yield table(
        f"The same in numbers: {name}" if told else title, (name, "estimate", "95% interval", naive, *true), rows
    )


def _chosen(found: list[Estimated]) -> list[Estimated]:
    """Return the most frequent, by their counts; numbers and bins in their own order."""
    order = sorted(found, key=_size, reverse=True)[:SHOWN]
    return [count for count in found if count in order] if all(_is_ordered(count.label) for count in found) else order


def _size(count: Estimated) -> float:
    """Return what counts are sorted by; those of which the release does not tell come last."""
    return -math.inf if math.isnan(count.estimate) else count.estimate


def _is_ordered(text: str) -> bool:
    """Whether a label is a number or a bin, which `recoding.Bins` writes with a sign before."""
    return text.lstrip("[<>=- ")[:1].isdigit()


def _alt(name: str, found: list[Estimated]) -> str:
    top = max(found, key=_size)
    text = (
        f"Estimated records of {len(found):,} values of {name}, with intervals; most: {top.label}, {top.estimate:,.0f}"
    )
    return f"{text}. The numbers are in the table below."


def _caption(manifest: Manifest, found: list[Estimated]) -> str:
    bounded = [c for c in found if c.truth is not None and c.lower is not None and c.upper is not None]
    if not bounded:
        return "Of 100 such intervals about 95 hold the true count."
    if manifest.withheld:
        return "The estimates are about the published records. The true counts are about all, also those withheld."
    held = sum(c.lower <= c.truth <= c.upper for c in bounded)  # type: ignore[operator]
    return f"{held} of {len(bounded)} intervals hold the true count; about 95% do on average."


def _interval(count: Estimated) -> str:
    return "none" if count.lower is None or count.upper is None else f"{count.lower:,.0f} to {count.upper:,.0f}"


def _true(count: Estimated) -> tuple[str, ...]:
    return () if count.truth is None else (_number(count.truth),)


def _number(number: float | None) -> str:
    return "–" if number is None or math.isnan(number) else f"{number:,.0f}"


def estimated(release: Release, columns: Sequence[str], truth: Truth | None) -> list[Estimated]:
    """Return the estimate of every cell of a joint table, beside the truth if that is given."""
    joint = _joint(release, columns)
    values = [axis.values for axis in joint.axes]
    lower, upper = joint.interval()
    numbers = zip(*(a.ravel().tolist() for a in (joint.value, lower, upper, joint.published)), strict=True)
    labels = [", ".join(map(label, cell)) for cell in product(*values)]
    found = [
        Estimated(name, estimate, _finite(low), _finite(high), published)
        for name, (estimate, low, high, published) in zip(labels, numbers, strict=True)
    ]
    if truth is None:
        return found
    true = truth(columns, values).ravel().tolist()
    return [replace(count, truth=number) for count, number in zip(found, true, strict=True)]


def _joint(release: Release, columns: Sequence[str]) -> Any:
    """Return the estimated table; without intervals where the matrix has no inverse."""
    try:
        return release.table(columns)
    except SingularMatrix:
        return release.table(columns, method="em")


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


# --- how sure a reader can be -----------------------------------------------------------------------------------------


def certainty(release: Release) -> Section | None:
    """Return the distribution of the belief in the likeliest value of each published record."""
    found = beliefs(release)
    if found is None:
        return None
    shares, records = found
    total = records.sum()
    bars = [replace(bar, height=100 * bar.height / total) for bar in share_bars(shares, records)]
    mean, largest = float(shares @ records / total), float(shares.max())
    name = and_list(release.manifest.sensitive)
    text = (
        f"Take a reader who believes beforehand what the release itself tells of the shares of {name}, and then looks "
        f"at one record: by how much does he believe in its likeliest {name}? {EXPLAINED[release.manifest.kind]} On "
        f"average by {percent(mean)}, at most by {percent(largest)}."
    )
    ends = f"mean {percent(mean)}, largest {percent(largest)}"
    alt = f"Bars: share of the records by the belief in the likeliest value; {ends}."
    axis = "belief in the likeliest value, at most"
    drawn = figure("Belief in the likeliest value", alt, lambda size: histogram(bars, axis, "percent of records", size))
    return Section("certainty", "How sure a reader can be of one record", (Text(text), Drawing(drawn)))


EXPLAINED: dict[ReleaseKind, str] = {
    "groups": "He holds all records of a group to be alike, so it is the largest share in the group.",
    "response": (
        "He sees the quasi-identifiers that it is published with. (The limit is on the belief by the table's own "
        "shares; estimated ones have errors, which show here.)"
    ),
    "randomized": "He sees its published value.",
}
"""What a reader goes by."""


def beliefs(release: Release) -> tuple[FloatArray, FloatArray] | None:
    """Return the belief in the likeliest value, and with how many published records; None where it is too large."""
    if release.manifest.kind == "groups":
        sizes, largest = group_counts(release, release.manifest.buckets)
        return largest / sizes, sizes.astype(np.float64)
    if release.manifest.kind == "response":
        return _response_beliefs(release)
    parts = [_table_beliefs(release, number) for number in range(len(release.manifest.mechanism_value.tables))]
    return np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts])


def _table_beliefs(release: Release, number: int) -> tuple[FloatArray, FloatArray]:
    """Return max_x P[y, x] f_x / (P f)_y, and the published records, for each y of a sub-table."""
    mechanism = release.manifest.mechanism_value
    sub_table = mechanism.tables[number]
    where = "" if mechanism.label is None else f'"{mechanism.label}" = {number + 1}'
    joint = release.table(mechanism.domain.names, where, method="em")
    shares = joint.value.ravel()[sub_table.codes].clip(min=0)
    published = joint.published.ravel()[sub_table.codes]
    matrix = sub_table.matrix
    expected = matrix.apply(shares)
    belief = np.divide(matrix.likeliest(shares), expected, out=np.zeros(matrix.size), where=expected > 0)
    return belief, published


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
