"""How records were blurred, or grouped: matrices as heat maps, sub-tables, sizes and shares of groups; what binds."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.attackers.draws import Holding
from sfumato.auditor.report.page import Block, Figure, Section, Text, figure, first_rows, table
from sfumato.auditor.report.page_figures import heat_map, histogram
from sfumato.auditor.report.page_words import alike, of_cards
from sfumato.claims.odds import bindings
from sfumato.release.manifest import GroupsPart, Manifest
from sfumato.show.words import at_most, chance, chances, factor, percent, share
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound, Mechanism, SubTable

MOST_DRAWN = 24  # values up to which a matrix is drawn whole; of more the columns are summarised
MOST_MAPS, SHOWN, BINS = 3, 25, 20
SIZES = 16  # sizes of groups up to which each has a bar of its own


def blurring(release: Release) -> Section:
    if release.manifest.in_buckets:
        return Section("groups", "How records were grouped", tuple(_groups(release, release.manifest.buckets)))
    return Section("matrix", "How records were blurred", tuple(_matrices(release.manifest)))


# --- matrices ---------------------------------------------------------------------------------------------------------


def _matrices(manifest: Manifest) -> Iterator[Block]:
    mechanisms = manifest.mechanism_values
    if len(mechanisms) > 1:
        yield _columns(mechanisms)
    small = [mechanism for mechanism in mechanisms if mechanism.is_whole and mechanism.domain.size <= MOST_DRAWN]
    for mechanism in small[:MOST_MAPS]:
        yield _map(mechanism) if mechanism.form == "value" else _map_of_cards(mechanism)
    for mechanism in mechanisms:
        if mechanism.form != "value":
            if mechanism.domain.size > MOST_DRAWN:
                yield Text(of_cards(mechanism))
        elif not mechanism.is_whole:
            yield from _sub_tables(mechanism)
        elif mechanism.domain.size > MOST_DRAWN:
            yield _large(mechanism)
        elif not mechanism.matrix.is_uniform:
            yield _values(mechanism)


def _map(mechanism: Mechanism) -> Figure:
    matrix, labels = mechanism.matrix, mechanism.domain.labels
    name, dense = mechanism.domain.name, mechanism.matrix.dense().tolist()
    stays = _between(matrix.diagonal)
    alt = (
        f"Heat map of the matrix of {name}, {matrix.size} by {matrix.size}: a true value is published as itself with a "
        f"probability of {stays}, and as any one other value with {chances(*matrix.noise_range)}."
    )
    caption = (
        "Each column is a true value, each row what is published in its place; the stronger the colour, the likelier. "
        f"Columns sum to 100%. A value is published as itself with a probability of {stays}. On wide screens the "
        "numbers are percent."
    )
    return figure(f"The matrix of {name}", alt, lambda size: heat_map(labels, dense, size), caption)


def _map_of_cards(mechanism: Mechanism) -> Figure:
    """Draw which values sets hold, which tells more than hundreds of sets one by one."""
    holding = Holding.of(mechanism.matrix)
    assert holding is not None  # few values have few cards
    name, labels, chance = mechanism.domain.name, mechanism.domain.labels, holding.chance
    own, others = np.diag(chance), chance[~np.eye(len(chance), dtype=np.bool_)]
    holds = f"its own value with a probability of {_between(own)}, and any one other with {_between(others)}"
    alt = f"Heat map of {name}, {len(labels)} by {len(labels)} values: the set of a record holds {holds}."
    caption = (
        "Each column is a true value, each row a value that the published set may hold; the stronger the colour, the "
        f"likelier. The set of a record holds {holds}. On wide screens the numbers are percent."
    )
    title, drawn = f"Which values the sets of {name} hold", chance.tolist()
    return figure(title, alt, lambda size: heat_map(labels, drawn, size, "value of the set"), caption)


def _between(found: FloatArray) -> str:
    return chances(float(found.min()), float(found.max()))


def _columns(mechanisms: tuple[Mechanism, ...]) -> Block:
    rows = [
        (m.domain.name, *(_ends if m.form == "value" else _of_sets)(m.matrix), _epsilon(m.epsilon)) for m in mechanisms
    ]
    columns = ("column", "values", "published as itself", "as any one other", "local epsilon")
    return table("Each column was blurred by itself", columns, rows)


def _epsilon(epsilon: float) -> str:
    return "none" if np.isinf(epsilon) else f"{epsilon:.2f}"


def _of_sets(matrix: Matrix) -> tuple[str, str, str]:
    """Return the size, and how often the set that is published holds the value at least."""
    return f"{matrix.size:,}", f"in a set: {chance(float(matrix.holds_truth.min()))}", "–"


def _ends(matrix: Matrix) -> tuple[str, str, str]:
    """Return the size, how often a value is published as itself at least, and as any one other at most."""
    return f"{matrix.size:,}", chance(float(matrix.diagonal.min())), chance(matrix.noise_range[1])


def _gamma(bound: Bound) -> str:
    return "none" if bound.gamma is None else factor(float(bound.gamma))


def _values(mechanism: Mechanism) -> Block:
    """Return the columns of a matrix; values with the same figures share a row."""
    lines = zip(mechanism.domain.labels, mechanism.bounds, strict=True)
    rows = alike((name, (*_of_value(mechanism.matrix, k), _gamma(b))) for k, (name, b) in enumerate(lines))
    columns = ("true value", "kept (retention)", "published as itself", "as any one other", "bound on the odds")
    return table("Value by value", columns, rows)


def _of_value(matrix: Matrix, k: int) -> tuple[str, str, str]:
    """Return the retention of a value, how often it is published as itself, and as any one other."""
    others = np.delete(matrix.dense()[:, k], k)
    kept = "none" if matrix.retention is None else chance(float(matrix.retention[k]))
    return kept, chance(float(matrix.diagonal[k])), _between(others)


def _large(mechanism: Mechanism) -> Block:
    """Return a summary of a matrix with too many values to draw: its columns by how often a value is kept."""
    matrix, labels = mechanism.matrix, mechanism.domain.labels
    if matrix.is_uniform:
        size, diagonal, other = _ends(matrix)
        return Text(
            f"{mechanism.domain.name} has {size} values, too many to draw its matrix. All its columns are "
            f"alike: a value is published as itself with a probability of {diagonal}, and as each other with {other}."
        )
    kept = matrix.diagonal if matrix.retention is None else matrix.retention
    order = np.argsort(kept, kind="stable")
    ends = [*order[: SHOWN // 2], *order[-(SHOWN // 2) :]]
    rows = [
        (labels[k], "none" if matrix.retention is None else chance(kept[k]), chance(matrix.diagonal[k])) for k in ends
    ]
    caption = f"The values of {mechanism.domain.name} that are kept least and most often, of {matrix.size:,}"
    return table(caption, ("true value", "kept (retention)", "published as itself"), rows)


def _sub_tables(mechanism: Mechanism) -> Iterator[Block]:
    kept = [float(t.matrix.diagonal[0]) for t in mechanism.tables]
    bars = {str(k): 100 * share for k, share in enumerate(kept, 1)}
    name = mechanism.domain.name
    yield Text(
        "Fewer values need less noise for the same bound. So every sub-table has only some of the "
        f"{mechanism.domain.size:,} values, and a matrix of its own."
    )
    if len(bars) <= SIZES * 4:
        alt = (
            f"Bars: with which probability a {name} is published as itself in each of {len(bars)} sub-tables, between "
            f"{chance(min(kept))} and {chance(max(kept))}."
        )
        title = f"How often {name} is published as itself, by sub-table"
        yield figure(title, alt, lambda size: histogram(bars, "sub-table", "percent", size))
    rows = alike(zip(bars, map(_of_sub_table, mechanism.tables), strict=True))  # those with the same figures share one
    itself = ("values", "published as itself", "as any one other", "largest share (rho1)", "bound on the odds")
    yield table(f"Sub-tables{first_rows(rows, SHOWN, ' kinds')}", ("sub-table", *itself), rows[:SHOWN])


def _of_sub_table(sub_table: SubTable) -> tuple[str, ...]:
    bound = next((b for b in sub_table.bounds if b.gamma is not None), Bound(None))
    rho1 = "none" if bound.rho1 is None else share(float(bound.rho1))
    return *_ends(sub_table.matrix), rho1, _gamma(bound)


# --- groups -----------------------------------------------------------------------------------------------------------


def group_counts(release: Release, groups: GroupsPart) -> tuple[IntArray, IntArray]:
    """Return of each group its records, and how many of them have its commonest value."""
    lines: Any = release.groups_to_arrow()
    number = lines.column(groups.group_column).to_numpy().astype(np.int64)
    counts = lines.column(groups.count_column).to_numpy().astype(np.int64)
    _, place = np.unique(number, return_inverse=True)
    sizes, largest = np.zeros(place.max() + 1, dtype=np.int64), np.zeros(place.max() + 1, dtype=np.int64)
    np.add.at(sizes, place, counts)
    np.maximum.at(largest, place, counts)
    return sizes, largest


def _groups(release: Release, groups: GroupsPart) -> Iterator[Block]:
    sizes, largest = group_counts(release, groups)
    worst = float((largest / sizes).max())
    yield Text(
        f"There are {sizes.size:,} groups of {_range(sizes)} records, {sizes.mean():.1f} on average. In no group has "
        f"one value a larger share than {percent(worst)}; the bound is {at_most(Fraction(groups.at_most))}"
        f"{' on beliefs' if groups.prior else ''}."
    )
    bars = size_bars(sizes)
    if len(bars) > 1:
        alt = f"Bars: how many groups have each number of records, {_range(sizes)}; {_tallest(bars)}."
        yield figure("Sizes of groups", alt, lambda size: histogram(bars, "records of a group", "groups", size))
    shares = share_bars(largest / sizes, np.ones(sizes.size))
    bound = None if groups.prior else float(Fraction(groups.at_most)) * BINS
    alt = f"Bars: groups by the share of their commonest value; {_tallest(shares)}; largest {percent(worst)}."
    title, axis = "Largest share of one value in a group", "share of the commonest value, at most"
    yield figure(title, alt, lambda size: histogram(shares, axis, "groups", size, bound))


def share_bars(shares: FloatArray, weights: FloatArray) -> dict[str, float]:
    """Return a histogram of shares between 0 and 1, in steps of 5%: (0, 5%], (5%, 10%], ..."""
    place = np.clip(np.ceil(shares * BINS - 1e-9).astype(np.int64) - 1, 0, BINS - 1)
    heights = np.bincount(place, weights=weights, minlength=BINS)
    return {f"{100 * (k + 1) // BINS}%": float(height) for k, height in enumerate(heights)}


def size_bars(sizes: IntArray) -> dict[str, float]:
    """Return how many groups have each size; many sizes are put together in ranges."""
    low, high = int(sizes.min()), int(sizes.max())
    step = -(-(high - low + 1) // SIZES)
    heights = np.bincount((sizes - low) // step)
    starts = range(low, low + heights.size * step, step)
    labels = [str(first) if step == 1 else f"{first}–{first + step - 1}" for first in starts]
    return dict(zip(labels, heights.astype(float).tolist(), strict=True))


def _range(sizes: IntArray) -> str:
    low, high = int(sizes.min()), int(sizes.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _tallest(bars: dict[str, float]) -> str:
    label, height = max(bars.items(), key=lambda bar: bar[1])
    return f"the most, {height:,.0f}, at {label}"


def binding(manifest: Manifest) -> Section | None:
    """Return which bounds leave no room: less noise would break them. For one matrix of all rows."""
    each = [(mechanism, own) for own in manifest.by_mechanism for mechanism in own.mechanism_values]
    found = [tight for mechanism, own in each for tight in bindings(mechanism, own.guarantee.directions)]
    rows = [(tight.value, tight.against, tight.direction, factor(tight.gamma)) for tight in found]
    if not rows:
        return None
    of_cards = any(mechanism.form != "value" for mechanism in manifest.mechanism_values)
    more = "drawing sets with the value" if of_cards else "keeping the value, or its rival,"
    first = f"These bounds are met with equality: {more} more often would break them. To blur less, loosen one of them."
    columns = ("value", "rival", "direction", "bound on the odds")
    listed = table(f"Bounds without slack{first_rows(rows, SHOWN)}", columns, rows[:SHOWN], 3)
    return Section("binding", "What binds", (Text(first), listed))
