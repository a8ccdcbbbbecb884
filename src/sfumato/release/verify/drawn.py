"""What releases that were drawn with matrices prove by themselves.

That the rows were really drawn with the published matrix cannot be seen from outside; that the published frequencies
are possible under it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.claims.claim import Check, needs_audit, outcome
from sfumato.release.folder import ReleaseFolder, connected, quoted, runs_of_columns
from sfumato.release.manifest import Manifest
from sfumato.show.words import share
from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.attributes import label
from sfumato.values.mechanism import Mechanism, SubTable

FALSE_ALARM = 1e-9
"""Probability with which the check of the published frequencies fails on a release that was drawn as it says."""
COPY_LEVEL = 1e-6
"""Probability with which a column that tells at most half is taken for one that tells more, of all columns together."""
MOST = 0.5
SPREAD = 1.5
MOST_VALUES = 10_000
"""Of a column that is compared: one with more has other labels."""

TIMES = ("timestamp", "time", "duration")
ROWS_AT_ONCE = 1 << 16


def _of(what: str, mechanism: Mechanism, mechanisms: Sequence[Mechanism]) -> str:
    """Return the name of a check, with the columns where there are several mechanisms."""
    return what if len(mechanisms) == 1 else f"{what} of {mechanism.domain.name}"


def rows(release: ReleaseFolder) -> Iterator[Check]:
    """What was published must lie in the domains, and be possible under the matrices."""
    manifest, mechanisms = release.manifest, release.manifest.mechanism_values
    randomized = [*manifest.domain.names, *(m.label for m in mechanisms if m.label)]
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
    for mechanism, lines in zip(mechanisms, counted, strict=True):
        yield from _drawn(release, mechanism, mechanisms, lines)
    if manifest.response and set(manifest.sensitive) <= set(names) - set(randomized):
        yield from _impossible_risk(release)


def _impossible_risk(release: ReleaseFolder) -> Iterator[Check]:
    """Yield that no mechanism can keep the limit, where the true values, which are published, tell it."""
    claim, values = release.manifest.risk_claim, ", ".join(map(quoted, release.manifest.sensitive))
    with connected(release) as connection:
        counted = connection.sql(f"SELECT count(*) FROM release GROUP BY {values}").fetchall()
    most, total = max((n for (n,) in counted), default=0), sum(n for (n,) in counted)
    if total and not claim.is_possible(Fraction(most, total)):
        told = f"A value of {' / '.join(release.manifest.sensitive)} has {share(most / total)} of the rows"
        yield Check("risk limit", "fails", f"{told}: nobody can be held to a smaller belief in it, or fewer hits.")


def _count_query(mechanism: Mechanism) -> str:
    select = ", ".join(quoted(n) for n in mechanism.domain.names)
    table = f"TRY_CAST({quoted(mechanism.label)} AS INTEGER)" if mechanism.label else "1"
    return f"SELECT {select}, {table} AS label, count(*) FROM release GROUP BY ALL"


def _drawn(
    release: ReleaseFolder, mechanism: Mechanism, mechanisms: Sequence[Mechanism], counted: list[Any]
) -> Iterator[Check]:
    """What a mechanism published must lie in its domain, and be possible under its matrices."""
    about_domain = _of("domain", mechanism, mechanisms)
    try:
        domain = mechanism.published
    except ValueError as problem:  # a hostile manifest: no such release is made
        yield Check(about_domain, "fails", f"Its cards cannot be read: {problem}.")
        return
    observed, outside = _by_sub_table(mechanism, counted)
    yield outcome(
        about_domain,
        not outside,
        f"Every published {domain.name} is one of {domain.size:,} {'values' if mechanism.form == 'value' else 'cards'}"
        + (", and one of its sub-table's." if mechanism.label else "."),
        f"{len(outside)} published value(s) lie outside the domain, e.g. {outside[:3]}.",
    )
    if outside or not counted:
        return
    cells = sum(table.matrix.outputs for m in mechanisms for table in m.tables)
    by_shares = release.manifest.mechanisms[0].rho1 is not None  # which sub-tables are made for
    yield _possible(_of("published frequencies", mechanism, mechanisms), mechanism, observed, cells, by_shares)
    if least := release.manifest.mechanisms[0].minimum_sub_table:
        smallest = min(sum(of_table.values()) for of_table in observed)
        yield outcome(
            "sub-table sizes",
            smallest >= least,
            f"Each has at least {least:,} rows; the smallest {smallest:,}.",
            f"The smallest has {smallest:,} rows, fewer than the stated {least:,}.",
        )


def _by_sub_table(mechanism: Mechanism, counted: list[Any]) -> tuple[list[dict[int, int]], list[Any]]:
    """Return the published rows of each value in each sub-table, and the values that are in none or in another."""
    domain, outside = mechanism.published, []
    codes = [t.codes.tolist() if t.matrix.publishes_values else range(t.matrix.outputs) for t in mechanism.tables]
    observed: list[dict[int, int]] = [dict.fromkeys(of_table, 0) for of_table in codes]
    for *key, number, rows in counted:
        values = tuple(tuple(part) if isinstance(part, list) else part for part in key)  # no list is a value
        value: Any = values if len(values) > 1 else values[0]
        code = domain.index.get(value, -1)
        if number is None or not 1 <= number <= len(observed) or code not in observed[number - 1]:
            outside.append((value, number) if mechanism.label else value)
        else:
            observed[number - 1][code] += rows
    return observed, outside


def _possible(name: str, mechanism: Mechanism, observed: list[dict[int, int]], cells: int, by_shares: bool) -> Check:
    """Every value's share of its sub-table must lie between what it gets from no record and what from all.

    Where bounds are `by_shares` of sub-tables, it must not be above what it gets from the share that is its rho1.
    `cells` are the values of all sub-tables of all mechanisms: the false alarm is for all of them together.
    """
    odd, widest = [], 0.0
    for number, (table, of_table) in enumerate(zip(mechanism.tables, observed, strict=True), start=1):
        least, total = table.matrix.least_chance, sum(of_table.values())
        most = _most_by_shares(table) if by_shares else table.matrix.most_chance
        if not total:
            continue
        margin = math.sqrt(math.log(2 * cells / FALSE_ALARM) / (2 * total))  # Hoeffding, for all values at once
        widest = max(widest, margin)
        for place, (code, rows) in enumerate(of_table.items()):
            if not least[place] - margin <= rows / total <= most[place] + margin:
                value = repr(mechanism.published.labels[code])
                odd.append(f"{value} in sub-table {number}" if mechanism.label else value)
    return outcome(
        name,
        not odd,
        f"Each value's share is possible under the matrix (within {widest:.2g}; false alarm {FALSE_ALARM:g}).",
        f"Impossible under the matrix for {', '.join(odd[:5])}: the column was not drawn with it"
        f"{', or a value has a larger share of its sub-table than its rho1' if by_shares else ''}.",
    )


def _most_by_shares(table: SubTable) -> FloatArray:
    """Return the largest share that each value of a sub-table can be expected to have of its published rows.

    q + s (p - q), where a value is published for itself with p, for another one with q, and s is its rho1.
    """
    if table.matrix.uniform_noise is None:
        return table.matrix.most_chance
    shares = np.array([1.0 if bound.rho1 is None else float(bound.rho1) for bound in table.bounds])
    least = table.matrix.least_chance
    return np.asarray(least + shares * (table.matrix.most_chance - least))


# --- copies -----------------------------------------------------------------------------------------------------------


def no_copies(release: ReleaseFolder) -> Iterator[Check]:
    """Check that no column that is published as it is holds the true values of the randomized one, by another name.

    Both must have the same labels. With g_x the share of x in the column, h_x in the published one, and a the share of
    rows in which they agree, a column that goes with nothing agrees in sum g_x h_x of the rows, the true values
    themselves in sum g_x P[x, x]. So the column tells the true value of the share t of the records, beyond chance,

        a = (1 - t) sum g_x h_x + t sum g_x P[x, x]

    (row by row in its sub-table). A column with t > 1/2 gives away what is randomized. Given the true values the draws
    are independent, and a row that is published as y beside x adds [y = x] - g_y/2 to the count that is judged, which
    varies by 3/2 at most: so Hoeffding's inequality says how far the draws alone can move it.
    """
    # a time is never a value of a randomized column, and one with a zone cannot be fetched without another package
    names = [
        column.name
        for column in release.manifest.columns
        if column.treatment == "untouched" and not column.type.startswith(TIMES)
    ]
    single = [m for m in release.manifest.mechanism_values if len(m.domain.parts) == 1]
    few = dict(_few_values(release, names)) if single else {}
    pairs = len(single) * len(names)
    found = [
        f"{name!r} is published as it is, and tells {mechanism.domain.name!r} of about {share(told, 0)} of the records."
        for mechanism in single
        for name in _of_the_labels(mechanism, few)
        if (told := _told_by_copy(release, mechanism, name, pairs)) is not None
    ]
    good = f"No untouched column is a copy of the randomized one (false alarm {COPY_LEVEL:g})."
    yield outcome("copies", not found, good, " ".join(found))


def _few_values(release: ReleaseFolder, names: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Give the columns that could have the labels of a domain, with their values.

    Read batch by batch: a query that counts the different values of many columns takes the square of their number.
    """
    for run in runs_of_columns(names, min(release.manifest.data.rows, ROWS_AT_ONCE)):
        found: dict[str, Any] = {}
        many: set[str] = set()
        with connected(release) as connection:
            selected = ", ".join(map(quoted, run))
            for batch in connection.sql(f"SELECT {selected} FROM release").to_arrow_reader(ROWS_AT_ONCE):
                for name, column in zip(run, batch.columns, strict=True):
                    if name not in many:
                        known = [found[name]] if name in found else []
                        found[name] = pa.chunked_array([*known, column.drop_null()]).unique()
                        many |= {name} if len(found[name]) > MOST_VALUES else set()
        yield from (
            (name, found[name].to_pylist()) for name in run if name not in many and len(found.get(name, ())) > 1
        )


def _of_the_labels(mechanism: Mechanism, columns: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """Give the columns with no other labels than the domain: to count others beside all sets would take long."""
    labels = set(mechanism.domain.labels)
    for name, values in columns.items():
        if all(label(value) in labels for value in values):
            yield name


def _told_by_copy(release: ReleaseFolder, mechanism: Mechanism, name: str, pairs: int) -> float | None:
    """Return the t of a column if it is beyond doubt above 1/2."""
    by = quoted(mechanism.label) if mechanism.label else "1"
    query = f"SELECT {by}, {quoted(mechanism.domain.name)}, {quoted(name)}, count(*) FROM release GROUP BY ALL"
    with connected(release) as connection:
        lines = connection.sql(query).fetchall()
    index, shown = (
        {text: code for code, text in enumerate(domain.labels)} for domain in (mechanism.domain, mechanism.published)
    )
    coded = [(int(at), shown[label(y)], index[label(x)], rows) for at, y, x, rows in lines if x is not None]
    agree, chance, true, rows = (sum(figures) for figures in zip(*_by_table(mechanism, coded), strict=True))
    if not rows or true <= chance:
        return None
    told = (agree - chance) / (true - chance)
    margin = SPREAD * math.sqrt(math.log(pairs / COPY_LEVEL) / 2 * rows)
    return min(told, 1.0) if agree - margin > chance + MOST * (true - chance) else None


def _by_table(
    mechanism: Mechanism, lines: Sequence[tuple[int, int, int, int]]
) -> Iterator[tuple[float, float, float, float]]:
    """Yield of each sub-table in how many rows the two agree, would by chance, and would if one were the truth.

    A card agrees with the values that it holds.
    """
    for number, table in enumerate(mechanism.tables, start=1):
        own = np.array([line[1:] for line in lines if line[0] == number], dtype=np.int64).reshape(-1, 3)
        shown, value, rows = own.T
        kept = np.zeros(mechanism.domain.size)
        kept[table.codes] = table.matrix.holds_truth
        published = np.bincount(shown, rows, mechanism.published.size)
        held = np.bincount(value, rows, mechanism.domain.size)
        by_chance = sum(published[y] * held[_stands_for(table, y)].sum() for y in np.flatnonzero(published).tolist())
        agree = rows[_agree(table, shown, value)].sum()
        yield float(agree), float(by_chance) / max(float(rows.sum()), 1), float(held @ kept), float(rows.sum())


def _stands_for(table: SubTable, published: int) -> CodeArray:
    """Return the values that something published stands for, by their codes in the domain."""
    if table.matrix.publishes_values:
        return np.array([published], dtype=np.int32)
    return table.codes[table.matrix.card(published)]


def _agree(table: SubTable, published: IntArray, value: IntArray) -> BoolArray:
    return np.asarray(published == value) if table.matrix.publishes_values else table.matrix.holds(published, value)


# --- what cannot be seen ----------------------------------------------------------------------------------------------


def unseen(manifest: Manifest, of_claim: list[Check]) -> Iterator[Check]:
    """What only an audit with the private table can show."""
    columns = ", ".join(repr(part.name) for mechanism in manifest.mechanisms for part in mechanism.domain)
    yield needs_audit(
        "drawing",
        f"That {columns} was drawn with this matrix, each row by itself, from a secret key."
        if len(manifest.mechanisms) == 1
        else f"That {columns} were drawn with these matrices, each row and column by itself, from a secret key.",
    )
    kinds = (table for mechanism in manifest.mechanisms for table in mechanism.sub_tables)
    if any(table.deck or table.windows or table.graded for table in kinds):
        yield needs_audit("deck", "That the cards are those of the public search, and were not chosen by the table.")
    yield from of_claim
    if not manifest.data.shuffled:
        yield needs_audit("row order", "That the order of the rows tells nothing of the sensitive value.")
    yield needs_audit("other columns", "That no untouched column predicts the sensitive value.")
