"""What a release in buckets proves by itself.

Both files are read once, in their order and in pieces: buckets must be numbered 1, 2, ... in both, with as many records
in the data as there are values. What the claim asks of them besides, `BucketClaim.shown` says. That records were dealt
at random cannot be seen from outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.claims.buckets import BucketCounts
from sfumato.claims.claim import Check, needs_audit, outcome
from sfumato.release.folder import ReleaseFolder, connected, quoted
from sfumato.release.manifest import GroupsPart, Manifest
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import Domain, SensitiveDomain

ROWS_AT_ONCE = 1 << 20


# --- the two files ----------------------------------------------------------------------------------------------------


def rows(release: ReleaseFolder) -> Iterator[Check]:
    """The two files must fit each other and the manifest, and keep the bound as far as they show it."""
    manifest, buckets = release.manifest, release.manifest.buckets
    domain = manifest.domain
    with connected(release) as connection:
        columns = {
            "columns": (_names(connection, "release"), list(release.column_names)),
            f"columns of {buckets.file}": (_names(connection, "compositions"), bucket_columns(buckets)),
        }
        for name, (found, due) in columns.items():
            yield outcome(name, found == due, f"{len(found)} columns, as stated.", f"They are {found}.")
        rows = connection.sql("SELECT count(*) FROM release").fetchall()[0][0]
        if any(found != due for found, due in columns.values()) or buckets.number > rows:
            yield outcome(
                "groups", buckets.number <= rows, "Not more than rows.", f"{rows:,} rows are fewer than groups."
            )
            return
        data, lines = _data(connection, buckets), _lines(connection, buckets, domain)
        yield from _sizes(release, buckets, data, lines)
        yield _in_domain(domain, lines)
        yield from _observed(manifest, domain, lines)
        with suppress(ArithmeticError):  # a limit that is no number is told with what is stated
            yield from manifest.bucket_claim.shown(_shown(connection, buckets, data, lines))


def types_fit(types: list[str], domain: SensitiveDomain) -> bool:
    """Whether a file of the buckets has columns of these (Arrow) types: integers, and what the values are."""
    fitting = (_fits(kind, part) for kind, part in zip(types[1:-1], domain.parts, strict=False))
    return len(types) == len(domain.parts) + 2 and (types[0], types[-1]) == ("int32", "int64") and all(fitting)


def _fits(kind: str, part: Domain) -> bool:
    kinds = {type(value) for value in part.values if value is not None}
    if kinds == {bool}:
        return kind == "bool"
    return kind.removeprefix("u").startswith("int") if kinds == {int} else kind == "string"


def bucket_columns(buckets: GroupsPart) -> list[str]:
    """Return the columns of the table of the buckets."""
    return [buckets.group_column, *(part.name for part in buckets.domain), buckets.count_column]


def _names(connection: Any, view: str) -> list[str]:
    return [row[0] for row in connection.sql(f"DESCRIBE {view}").fetchall()]


MOST_COUNT = 1 << 31
"""Of a value in a bucket: sums of more could be more than an integer holds."""


@dataclass
class _Counted:
    """A file, read in its order. Buckets are numbered from 0."""

    number: int  # of buckets, as stated
    domain_size: int = 0
    lines: int = 0
    in_order: bool = True  # buckets 1, 2, ..., `number`, none left out
    sorted: bool = True  # inside a bucket by value, each value once
    outside: int = 0  # lines with no value of the domain, or with no count
    last: int = 0  # number of the last bucket so far

    def __post_init__(self) -> None:
        self.sizes = np.zeros(self.number, dtype=np.int64)  # records of each bucket
        self.most = np.zeros(self.number, dtype=np.int64)  # the largest count of a value
        self.totals = np.zeros(self.domain_size, dtype=np.int64)  # the published records of each value

    def next_buckets(self, numbers: Any) -> IntArray | None:
        """Take the buckets of the next lines; None if their numbers are wrong."""
        self.lines += len(numbers)
        if numbers.null_count or not self.in_order:
            self.in_order = False
            return None
        buckets: IntArray = np.asarray(numbers).astype(np.int64)
        steps = np.diff(buckets, prepend=self.last)
        self.in_order = bool(((steps == 0) | (steps == 1)).all() and buckets[0] > 0 and buckets[-1] <= self.number)
        self.last = int(buckets[-1])
        return buckets - 1 if self.in_order else None

    def finish(self) -> None:
        """Note whether all buckets were there."""
        self.in_order = self.in_order and self.last == self.number


def _batches(connection: Any, columns: list[str], view: str) -> Iterator[Any]:
    """Give the columns of a view in pieces, in the order of the file."""
    reader = connection.sql(f"SELECT {', '.join(columns)} FROM {view}").to_arrow_reader(ROWS_AT_ONCE)
    return (batch for batch in reader if batch.num_rows)


def _whole(name: str) -> str:
    return f"TRY_CAST({quoted(name)} AS BIGINT)"


def _data(connection: Any, buckets: GroupsPart) -> _Counted:
    found = _Counted(buckets.number)
    for batch in _batches(connection, [_whole(buckets.group_column)], "release"):
        numbers = found.next_buckets(batch.column(0))
        if numbers is not None:
            _add(found.sizes, numbers, np.ones(numbers.size, dtype=np.int64))
    found.finish()
    return found


def _lines(connection: Any, buckets: GroupsPart, domain: SensitiveDomain) -> _Counted:
    names = [quoted(name) for name in domain.names]
    columns = [_whole(buckets.group_column), *names, _whole(buckets.count_column)]
    found, last = _Counted(buckets.number, domain.size), -1
    for batch in _batches(connection, columns, "compositions"):
        number, *values, counted = batch.columns
        codes, counts = _codes(domain, values), np.asarray(counted.fill_null(0)).astype(np.int64)
        outside = (codes < 0) | (counts < 1) | (counts > MOST_COUNT)
        counts = np.clip(counts, 0, MOST_COUNT)
        found.outside += int(np.count_nonzero(outside))
        np.add.at(found.totals, codes[~outside], counts[~outside])
        numbers = found.next_buckets(number)
        if numbers is not None:
            keys = numbers * domain.size + codes
            found.sorted = found.sorted and bool((np.diff(keys, prepend=last) > 0).all())
            last = int(keys[-1])
            _add(found.sizes, numbers, counts)
            np.maximum.at(found.most, numbers, counts)
    found.finish()
    return found


def _add(total: IntArray, buckets: IntArray, amounts: IntArray) -> None:
    """Add to the totals of ascending buckets."""
    first = int(buckets[0])
    total[first : int(buckets[-1]) + 1] += np.bincount(buckets - first, amounts).astype(np.int64)


def _codes(domain: SensitiveDomain, columns: list[Any]) -> IntArray:
    """Return the code of each line's value; -1 if it is not in the domain."""
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    outside = np.zeros(codes.size, dtype=np.bool_)
    for part, column in zip(domain.parts, columns, strict=True):
        try:
            known = pa.array(part.values, type=column.type)
        except (pa.ArrowException, OverflowError):
            return np.full(codes.size, -1)
        found = pc.index_in(column, value_set=known)
        outside |= np.asarray(found.is_null())
        codes = codes * len(part.values) + np.asarray(found.fill_null(0))
    return np.where(outside, -1, codes)


# --- what they show ---------------------------------------------------------------------------------------------------


def _sizes(release: ReleaseFolder, buckets: GroupsPart, data: _Counted, lines: _Counted) -> Iterator[Check]:
    for name, counted, due in (("rows", data, release.manifest.data.rows), ("lines", lines, buckets.lines)):
        found = f"{counted.lines:,} {name}"
        yield outcome(name, counted.lines == due, f"{found}, as stated.", f"{found}, not as stated.")
    for file, counted in ((release.data.name, data), (buckets.file, lines)):
        yield outcome(
            f"groups of {file}",
            counted.in_order,
            f"Numbered from 1 to {buckets.number:,}, in this order.",
            f"They are not numbered from 1 to {buckets.number:,}, in this order.",
        )
    differ = int(np.count_nonzero(data.sizes != lines.sizes))
    yield outcome(
        "group sizes",
        not differ,
        "Each group has as many records as values.",
        f"{differ:,} group(s) have more or fewer records than values.",
    )
    yield outcome(
        "order of values",
        lines.sorted,
        "In each group by their order in the domain, each once.",
        "A group names a value twice, or its values in another order, which may tell of its records.",
    )


def _in_domain(domain: SensitiveDomain, lines: _Counted) -> Check:
    return outcome(
        "domain",
        not lines.outside,
        f"Every line has one of {domain.size} values of {domain.name}, and a count.",
        f"{lines.outside:,} line(s) have no value of the domain, or no count.",
    )


def _observed(manifest: Manifest, domain: SensitiveDomain, lines: _Counted) -> Iterator[Check]:
    """A domain that was read off the table tells of no value whose records are all withheld."""
    if set(domain.names) <= set(manifest.observed_domains):
        unused = int(np.count_nonzero(lines.totals == 0))
        yield outcome(
            "observed domain",
            not unused,
            "Every value that is listed is published.",
            f"{unused:,} value(s) are listed that no published record has: somebody withheld may have them.",
        )


def _shown(connection: Any, buckets: GroupsPart, data: _Counted, lines: _Counted) -> BucketCounts:
    """Return both files as the claim asks for them."""

    def signatures(columns: tuple[str, ...]) -> str:
        bucket, names = _whole(buckets.group_column), ", ".join(map(quoted, columns))
        return f"SELECT {bucket} AS g, {names}, count(*) AS n FROM release GROUP BY ALL"

    def rarest(columns: tuple[str, ...]) -> IntArray:
        query = f"SELECT min(n) FROM ({signatures(columns)}) GROUP BY g ORDER BY g"
        return np.asarray(connection.sql(query).to_arrow_table().column(0).combine_chunks()).astype(np.int64)

    def mixed(columns: tuple[str, ...]) -> int:
        query = f"SELECT g FROM ({signatures(columns)}) GROUP BY g HAVING sum(n) - max(n) > 1"
        return int(connection.sql(f"SELECT count(*) FROM ({query})").fetchall()[0][0])

    agree = data.in_order and lines.in_order and np.array_equal(data.sizes, lines.sizes)
    return BucketCounts(lines.totals, lines.sizes, lines.most, agree, buckets.withheld, rarest, mixed)


def unseen(manifest: Manifest, of_claim: list[Check]) -> Iterator[Check]:
    """What only an audit with the private table can show."""
    buckets = manifest.buckets
    among = f" among those that agree in {', '.join(buckets.dealt_within)}" if buckets.dealt_within else ""
    yield needs_audit("records", "That records and values are those of the table, none added or changed.")
    yield needs_audit("dealing", f"That records were dealt to groups at random{among}, from a secret key.")
    yield needs_audit("row order", "That the records of a group are in random order.")
    yield from of_claim
    yield needs_audit("other columns", "That no other column predicts the sensitive value.")
