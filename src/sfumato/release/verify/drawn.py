"""What releases that were drawn with matrices prove by themselves.

That the rows were really drawn with the published matrix cannot be seen from outside; that the published frequencies
are possible under it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.claims.claim import Check, needs_audit, outcome
from sfumato.release.folder import ReleaseFolder
from sfumato.release.published import UNREADABLE, claim_checks, published
from sfumato.release.reading import connected, quoted
from sfumato.values.mechanism import Mechanism

FALSE_ALARM = 1e-9
"""Probability with which the check of the published frequencies fails on a release that was drawn as it says."""


def stated(release: ReleaseFolder) -> Iterator[Check]:
    """The matrices must be matrices, keep what is claimed of them, and have the stated epsilon."""
    manifest = release.manifest
    try:
        promised = published(manifest)
    except UNREADABLE as problem:
        yield Check("matrix", "fails", f"The matrix cannot be read: {problem}.")
        return
    mechanisms = promised.mechanisms
    tables = [table for mechanism in mechanisms for table in mechanism.tables]
    columns = sum(table.matrix.size for table in tables)
    of_tables = f" in {len(tables)} sub-tables" if mechanisms[0].label else ""
    of_tables = f" in {len(mechanisms)} matrices" if len(mechanisms) > 1 else of_tables
    yield Check("matrix", "holds", f"{columns} columns of integers{of_tables}, each summing to 2^64.")
    yield from claim_checks(manifest, promised)
    for mechanism, part in zip(mechanisms, manifest.mechanisms, strict=True):
        stated, real = part.epsilon, mechanism.epsilon
        same = (stated is None) == math.isinf(real) and (stated is None or math.isclose(stated, real))
        yield outcome(
            _of("epsilon", mechanism, mechanisms),
            same,
            f"{_shown(stated)}, as stated.",
            f"{_shown(real)}, not {_shown(stated)}.",
        )
    secret = manifest.status == "release"
    yield outcome("secret key", secret, "Drawn from a secret key.", "Drawn from a test seed: not for release.")


def _of(what: str, mechanism: Mechanism, mechanisms: Sequence[Mechanism]) -> str:
    """Return the name of a check, with the columns where there are several mechanisms."""
    return what if len(mechanisms) == 1 else f"{what} of {mechanism.domain.name}"


def rows(release: ReleaseFolder) -> Iterator[Check]:
    """What was published must lie in the domains, and be possible under the matrices."""
    manifest, mechanisms = release.manifest, release.manifest.mechanism_values
    randomized = [*manifest.randomized, *(m.label for m in mechanisms if m.label)]
    with connected(release) as connection:
        names = [row[0] for row in connection.sql("DESCRIBE release").fetchall()]
        total = connection.sql("SELECT count(*) FROM release").fetchall()[0][0]
        # a data file without the randomized columns is told by the check of the columns
        present = set(randomized) <= set(names)
        counted = [connection.sql(_count_query(m)).fetchall() if present else [] for m in mechanisms]
    yield outcome(
        "columns",
        names == list(release.column_names),
        f"{len(names)} columns, as stated.",
        f"They are {names}.",
    )
    yield outcome("rows", total == manifest.data.rows, f"{total:,} rows, as stated.", f"{total:,} rows, not as stated.")
    if not present:
        yield Check("domain", "fails", f"The data lack one of {randomized}.")
        return
    for mechanism, rows in zip(mechanisms, counted, strict=True):
        yield from _drawn(release, mechanism, mechanisms, rows)


def _count_query(mechanism: Mechanism) -> str:
    select = ", ".join(quoted(n) for n in mechanism.domain.names)
    label = f"TRY_CAST({quoted(mechanism.label)} AS INTEGER)" if mechanism.label else "1"
    return f"SELECT {select}, {label} AS label, count(*) FROM release GROUP BY ALL"


def _drawn(
    release: ReleaseFolder, mechanism: Mechanism, mechanisms: Sequence[Mechanism], counted: list[Any]
) -> Iterator[Check]:
    """What a mechanism published must lie in its domain, and be possible under its matrices."""
    domain = mechanism.domain
    observed, outside = _by_sub_table(mechanism, counted)
    yield outcome(
        _of("domain", mechanism, mechanisms),
        not outside,
        f"Every published {domain.name} is one of {domain.size} values"
        + (", and one of its sub-table's." if mechanism.label else "."),
        f"{len(outside)} published value(s) lie outside the domain, e.g. {outside[:3]}.",
    )
    if outside or not counted:
        return
    cells = sum(table.codes.size for m in mechanisms for table in m.tables)
    yield _possible(_of("published frequencies", mechanism, mechanisms), mechanism, observed, cells)
    if least := release.manifest.mechanism.minimum_sub_table:
        smallest = min(sum(of_table.values()) for of_table in observed)
        yield outcome(
            "sub-table sizes",
            smallest >= least,
            f"Each has at least {least:,} rows; the smallest {smallest:,}.",
            f"The smallest has {smallest:,} rows, fewer than the stated {least:,}.",
        )


def _by_sub_table(mechanism: Mechanism, counted: list[Any]) -> tuple[list[dict[int, int]], list[Any]]:
    """Return the published rows of each value in each sub-table, and the values that are in none or in another."""
    domain, outside = mechanism.domain, []
    observed: list[dict[int, int]] = [dict.fromkeys(table.codes.tolist(), 0) for table in mechanism.tables]
    for *key, label, rows in counted:
        value = tuple(key) if len(key) > 1 else key[0]
        code = domain.index.get(value, -1)
        if label is None or not 1 <= label <= len(observed) or code not in observed[label - 1]:
            outside.append((value, label) if mechanism.label else value)
        else:
            observed[label - 1][code] += rows
    return observed, outside


def _possible(name: str, mechanism: Mechanism, observed: list[dict[int, int]], cells: int) -> Check:
    """Every value's share of its sub-table must lie between what it gets from no record and what from all.

    `cells` are the values of all sub-tables of all mechanisms: the false alarm is for all of them together.
    """
    odd, widest = [], 0.0
    for number, (table, of_table) in enumerate(zip(mechanism.tables, observed, strict=True), start=1):
        matrix, total = table.matrix, sum(of_table.values())
        if not total:
            continue
        margin = math.sqrt(math.log(2 * cells / FALSE_ALARM) / (2 * total))  # Hoeffding, for all values at once
        widest = max(widest, margin)
        for place, (code, rows) in enumerate(of_table.items()):
            if not matrix.least_chance[place] - margin <= rows / total <= matrix.most_chance[place] + margin:
                value = repr(mechanism.domain.labels[code])
                odd.append(f"{value} in sub-table {number}" if mechanism.label else value)
    return outcome(
        name,
        not odd,
        f"Each value's share is possible under the matrix (within {widest:.2g}; false alarm {FALSE_ALARM:g}).",
        f"Impossible under the matrix for {', '.join(odd[:5])}: the column was not drawn with it.",
    )


def unseen(release: ReleaseFolder, of_claim: list[Check]) -> Iterator[Check]:
    """What only an audit with the private table can show."""
    manifest = release.manifest
    columns = ", ".join(repr(part.name) for mechanism in manifest.mechanisms for part in mechanism.domain)
    yield needs_audit(
        "drawing",
        f"That {columns} was drawn with this matrix, each row by itself, from a secret key."
        if len(manifest.mechanisms) == 1
        else f"That {columns} were drawn with these matrices, each row and column by itself, from a secret key.",
    )
    yield from of_claim
    if not manifest.data.shuffled:
        yield needs_audit("row order", "That the order of the rows tells nothing of the sensitive value.")
    yield needs_audit("other columns", "That no untouched column predicts the sensitive value.")


def _shown(x: float | None) -> str:
    return "infinite" if x is None or math.isinf(x) else f"{x:.6g}"
