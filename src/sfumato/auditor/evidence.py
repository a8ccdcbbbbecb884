"""What an audit is about: the table and its release as arrays of codes, each column read when it is first asked for.

A column has one list of labels for both sides, values as they are written (bins by their names), so that a table and a
release of different file formats agree. Rows that the policy leaves out of a release are left out here too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from sfumato.analyst.release import Release
from sfumato.auditor.codes import (
    ColumnCodes,
    Signatures,
    combined,
    release_codes,
    release_numbers,
    table_codes,
    text_of,
)
from sfumato.auditor.grouped import GroupTables
from sfumato.claims.buckets import BucketClaim
from sfumato.errors import ReleaseError, UsageError
from sfumato.publisher.table import Table
from sfumato.release.folder import connected
from sfumato.release.manifest import GroupsPart, Manifest, ReleaseKind
from sfumato.release.verify.order import RANGES, Classes, classes_of
from sfumato.release.verify.verification import as_published
from sfumato.values.arrays import CodeArray, IntArray
from sfumato.values.arrow import as_numpy
from sfumato.values.attributes import MISSING_LABEL, Attribute, SensitiveDomain
from sfumato.values.mechanism import Mechanism
from sfumato.values.profile import Profile
from sfumato.values.requirement import Requirement, Requirements

T = TypeVar("T")
UNMATCHED = -1
AS_GIVEN = "Give the release as it was published, and the policy of the publication."
NO_SUCH_VALUE = "A group has a value that no record of the table has."


class DoesNotApply(Exception):
    """An attacker has nothing to work on; the reason is told in the audit."""


class NotMeasured(DoesNotApply):
    """An attacker has something to work on, and how far they get was not computed: that counts as not covered."""


@dataclass(eq=False)
class Evidence:
    """A table, the release that was made from it, and what the attacker is given besides."""

    table: Table
    release: Release
    priors: tuple[Path, ...] = ()
    known: Any = None
    external: Any = None
    seed: int | None = None
    earlier: Release | None = None  # of the same people
    counted: Profile | None = None  # what was counted of the table under its policy, where it was
    whole: Evidence | None = None  # what this is a part of: see `by_mechanism`
    place: int = 0  # of the part
    _columns: dict[str, ColumnCodes] = field(default_factory=dict)
    _table_codes: dict[str, CodeArray] = field(default_factory=dict)
    _release_codes: dict[str, CodeArray] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # what an attacker has to say beside its findings
    _made: dict[Callable[[Evidence], Any], Any] = field(default_factory=dict)

    def once(self, make: Callable[[Evidence], T]) -> T:
        """Return what a function makes of the evidence, made when it is first asked for."""
        if make not in self._made:
            self._made[make] = make(self)
        result: T = self._made[make]
        return result

    # --- what is stated -----------------------------------------------------------------------------------------------

    @cached_property
    def manifest(self) -> Manifest:
        manifest = self.release.manifest
        return manifest if self.whole is None else manifest.by_mechanism[self.place]

    @cached_property
    def by_mechanism(self) -> tuple[Evidence, ...]:
        """Where columns have methods of their own: each of these as if its columns alone were sensitive and published.

        The promise of one column is for someone who reads that column alone.
        """
        places = range(len(self.manifest.mechanisms) if self.kind == "several" else 0)
        return tuple(replace(self, whole=self, place=place, _made={}) for place in places)

    @property
    def requirement(self) -> Requirement:
        """What the policy requires of the values."""
        stated = self.table.policy.requirement
        return stated if self.whole is None or not isinstance(stated, Requirements) else stated.each[self.place]

    @property
    def kind(self) -> ReleaseKind:
        return self.manifest.kind

    @property
    def is_proved(self) -> bool:
        return self.manifest.assurance == "proved"

    @property
    def groups_part(self) -> GroupsPart:
        if not self.manifest.in_buckets:
            raise DoesNotApply(f"{self.manifest.method} publishes no groups.")
        return self.manifest.buckets

    @property
    def group_claim(self) -> BucketClaim:
        return self.manifest.bucket_claim

    @property
    def group_bound(self) -> int:
        """l, or r: no value is believed in by more than one in so many."""
        return self.group_claim.at_most.denominator

    @cached_property
    def mechanism(self) -> Mechanism:
        """How the sensitive columns were randomized, where one mechanism did it."""
        if self.kind != "randomized":
            raise DoesNotApply(f"{self.manifest.method} does not randomize the sensitive values by one matrix.")
        return self.manifest.mechanism_values[0]

    @property
    def quasi_identifiers(self) -> tuple[str, ...]:
        return tuple(self.table.schema.names("quasi_identifier"))

    @property
    def sensitive(self) -> tuple[str, ...]:
        if self.whole is not None:
            return self.mechanism.domain.names
        return tuple(self.table.schema.names("sensitive"))

    @property
    def attribute_sets(self) -> tuple[tuple[str, ...], ...]:
        """What background knowledge is about: each quasi-identifier, all of them, and the policy's own sets."""
        names = self.quasi_identifiers
        sets = [*((name,) for name in names), names, *self.table.policy.method.known_sets]
        return tuple(dict.fromkeys(each for each in sets if each))

    @property
    def one_of_each_person(self) -> bool:
        """Whether one row of each person was drawn, and which one is not known."""
        person = self.table.policy.person
        return person is not None and person.repeated == "keep-one"

    @property
    def is_aligned(self) -> bool:
        """Whether row k of the release is row k of the table, of those that are not left out."""
        return not self.manifest.data.shuffled and not self.one_of_each_person

    @property
    def comparable(self) -> tuple[str, ...]:
        """The columns that are published as they are, in bins, or with some values merged."""
        return tuple(c.name for c in self.manifest.columns if c.treatment in ("untouched", "binned", "merged"))

    # --- codes --------------------------------------------------------------------------------------------------------

    def read(self, names: Sequence[str]) -> None:
        """Read columns of both sides, all in one pass over the table; those that were read before are not again."""
        self._read_table(names)
        shown = {column.name for column in self.manifest.columns}
        self._read_release([name for name in names if name in shown])

    def in_table(self, name: str) -> CodeArray:
        """Return the codes of a column of the table, without the rows that are left out."""
        self.read([name])
        return self._table_codes[name]

    def in_release(self, name: str) -> CodeArray:
        self.read([name])
        return self._release_codes[name]

    def labels(self, name: str) -> tuple[str, ...]:
        self.read([name])
        return tuple(self._columns[name].index)

    def encode(self, name: str, column: Any) -> CodeArray:
        """Return the codes of values of another table, written as in the true one."""
        self.read([name])
        return self._column(name).of_table(column, 0)

    def written(self, name: str, column: Any) -> list[str]:
        codes, labels = self.encode(name, column), self.labels(name)
        return [labels[code] for code in codes.tolist()]

    def _column(self, name: str) -> ColumnCodes:
        attribute = next((a for a in self.table.schema.attributes if a.name == name), Attribute(name, "other"))
        return self._columns.setdefault(name, ColumnCodes(attribute))

    def _read_table(self, names: Sequence[str]) -> None:
        if new := {name: self._column(name) for name in names if name not in self._table_codes}:
            self._table_codes |= table_codes(self.table, new)

    def _read_release(self, names: Sequence[str]) -> None:
        if new := {name: self._column(name) for name in names if name not in self._release_codes}:
            self._release_codes |= release_codes(self.release, new)

    def signatures(self, names: Sequence[str]) -> Signatures:
        """Number the combinations of some columns; the release lacks the columns that only the table has."""
        self.read(names)
        shown = all(name in self._release_codes for name in names)
        sides = (self._table_codes, self._release_codes) if shown else (self._table_codes,)
        columns = [np.concatenate([side[name] for side in sides]) for name in names]
        texts = tuple(self.labels(name) for name in names)
        rows = self.rows + (self.manifest.data.rows if shown else 0)
        number, first = combined(columns, [len(labels) for labels in texts], rows)
        codes = tuple(column[first] for column in columns)
        return Signatures(tuple(names), number[: self.rows], number[self.rows :], codes, texts)

    @cached_property
    def rows(self) -> int:
        """The records of the table, without the rows that are left out."""
        name = self.sensitive[0]
        self._read_table([name])  # the release may be of another table, and of any size: see `check`
        return int(self._table_codes[name].size)

    # --- sensitive values ---------------------------------------------------------------------------------------------

    @cached_property
    def true(self) -> CodeArray:
        """The values of the table's records, as codes of the mechanism's domain."""
        return self.joined(self.in_table, self.mechanism.domain)

    @cached_property
    def published(self) -> CodeArray:
        """What is published, row by row of the release, as codes of what the mechanism can publish."""
        return self.joined(self.in_release, self.mechanism.published)

    def joined(self, side: Callable[[str], CodeArray], domain: SensitiveDomain) -> CodeArray:
        self.read(domain.names)
        columns = []
        for part in domain.parts:
            place = {text_of(value): code for code, value in enumerate(part.values)}
            table = np.array([place.get(text, UNMATCHED) for text in self.labels(part.name)], dtype=np.int32)
            columns.append(table.take(side(part.name)))
            if (columns[-1] == UNMATCHED).any():
                raise another_table(f"{part.name!r} has a value that the release does not know.")
        return domain.join(columns)

    def both(self, mechanism: Mechanism) -> tuple[CodeArray, CodeArray]:
        """Return the true codes of a mechanism, of the table's records, and the published ones, of the rows."""
        return self.joined(self.in_table, mechanism.domain), self.joined(self.in_release, mechanism.published)

    @cached_property
    def sub_tables(self) -> CodeArray:
        label = self.mechanism.label
        if label is None:
            return np.zeros(self.manifest.data.rows, dtype=np.int32)
        numbers = np.array([int(text) - 1 for text in self._shown_labels(label)], dtype=np.int32)
        return numbers.take(self._release_codes[label])

    def _shown_labels(self, name: str) -> tuple[str, ...]:
        self._read_release([name])
        return tuple(self._columns[name].index)

    @cached_property
    def values(self) -> Signatures:
        """The sensitive values of the table's records: combinations that occur, numbered from 0."""
        return self.signatures(self.sensitive)

    @cached_property
    def group_tables(self) -> GroupTables:
        """A release by groups as arrays; values are numbered as in `values`."""
        part = self.groups_part
        lines = self.release.groups_to_arrow()
        known = [len(texts) for texts in self.values.texts]
        shown = [self._column(name).of_release(lines.column(name).combine_chunks()) for name in self.sensitive]
        if any((column >= size).any() for column, size in zip(shown, known, strict=True)):
            raise another_table(NO_SUCH_VALUE)
        held, asked = (np.ravel_multi_index(tuple(each), known) for each in (self.values.codes, shown))
        codes = np.minimum(np.searchsorted(held, asked), held.size - 1)  # combinations are in their order
        if (held[codes] != asked).any():
            raise another_table(NO_SUCH_VALUE)
        return GroupTables(
            release_numbers(self.release, part.group_column) - 1,
            as_numpy(lines.column(part.group_column).combine_chunks()).astype(np.int64) - 1,
            codes,
            as_numpy(lines.column(part.count_column).combine_chunks()).astype(np.int64),
        )

    # --- whose row is whose -------------------------------------------------------------------------------------------

    @cached_property
    def matched(self) -> IntArray:
        """The release's row of each record, or UNMATCHED: by place, or by columns that tell one record from all others.

        A record that was withheld, or whose columns others share, has none.
        """
        if self.whole is not None:
            return self.whole.matched
        if self.is_aligned:
            return np.arange(self.rows)
        own = self.signatures(self.comparable)
        size = own.size
        alone = (np.bincount(own.table, minlength=size) == 1) & (np.bincount(own.release, minlength=size) == 1)
        row = np.full(size, UNMATCHED, dtype=np.int64)
        row[own.release] = np.arange(own.release.size)
        return np.where(alone[own.table], row[own.table], UNMATCHED)

    def check(self) -> None:
        """Raise unless the release is as it was published, and can have been made from this table under this policy."""
        for found in as_published(self.release):
            if found.status == "fails":
                raise ReleaseError(
                    f"The release is not as it was published; {found.name}: {found.detail}",
                    "Give the folder as it was published: an audit of anything else says nothing of the release.",
                )
        if self.table.policy.hash() != self.manifest.policy_sha256:
            raise UsageError(
                "The policy is not the one that the release was made under.", "Give the policy of the publication."
            )
        self._check_columns()
        self._check_rows()
        names = [name for name in self.comparable if self.table.schema[name].role == "quasi_identifier"]
        own = self.signatures(names)
        held, shown = (np.bincount(numbers, minlength=own.size) for numbers in (own.table, own.release))
        if (shown > held).any():
            first = own.told[int(np.argmax(shown > held))]
            raise another_table(f"More rows of the release have {first} than records of the table.")
        if self.is_aligned and not np.array_equal(own.table, own.release):
            raise another_table("Its rows are in another order, which the release says that it keeps.")
        if self.manifest.in_buckets:
            self._check_groups()

    def _check_columns(self) -> None:
        """Raise unless the files have the columns that are stated, and these are the ones that the policy publishes."""
        held, stated = self._columns_of("release"), self.release.column_names
        hidden = set(self.sensitive) if self.manifest.in_buckets else set()
        published = {a.name for a in self.table.schema.attributes if a.is_published}
        if foreign := [name for name in self.manifest.domain.names if name not in published]:
            raise ReleaseError(
                f"{', '.join(map(repr, foreign))} is randomized, which the policy does not publish, says the release.",
                AS_GIVEN,
            )
        own = published - hidden
        labels = {column.name for column in self.manifest.columns if column.treatment in ("sub-table", "group")}
        for here, expected, by in (
            (held, stated, "its manifest states"),
            (stated, own | labels, "the policy publishes"),
        ):
            if more := [name for name in here if name not in set(expected)]:
                raise ReleaseError(
                    f"The release has a column that is not one which {by}: {', '.join(map(repr, more))}.",
                    "Do not hand it out: such a column may hold true values. Publish anew.",
                )
            if lacking := [name for name in expected if name not in set(here)]:
                raise ReleaseError(
                    f"The release lacks a column that {by}: {', '.join(map(repr, sorted(lacking)))}.",
                    AS_GIVEN,
                )

        if self.manifest.in_buckets:
            part = self.groups_part
            due = {part.group_column, *(column.name for column in part.domain), part.count_column}
            if set(self._columns_of("compositions")) != due:
                listed = ", ".join(map(repr, sorted(due)))
                raise ReleaseError(f"The table of the groups has other columns than {listed}.", AS_GIVEN)

    def _columns_of(self, view: str) -> list[str]:
        with connected(self.release) as connection:
            return [str(row[0]) for row in connection.sql(f"DESCRIBE {view}").fetchall()]

    def _check_rows(self) -> None:
        """Raise unless the release has as many rows as are stated, and the table has them: before they are read."""
        due = self.manifest.data.rows + self.manifest.withheld
        if self.rows < due or (self.rows > due and not self.one_of_each_person):
            raise another_table(f"It has {self.rows:,} records, and the release was made from {due:,}.")
        stated = {"release": self.manifest.data.rows}
        if self.manifest.in_buckets:
            stated["compositions"] = self.groups_part.lines
        with connected(self.release) as connection:
            for view, number in stated.items():
                [(held,)] = connection.sql(f"SELECT count(*) FROM {view}").fetchall()
                if held != number:
                    raise ReleaseError(f"The release has {held:,} rows where its manifest states {number:,}.", AS_GIVEN)

    def _check_groups(self) -> None:
        """Raise if the groups list a value more often than the table has it; the rest then are the withheld ones."""
        tables, size = self.group_tables, self.values.size
        held = np.bincount(self.values.table, minlength=size)
        shown = np.bincount(tables.values, tables.counts, size).astype(np.int64)
        if (shown > held).any():
            value = int(np.argmax(shown > held))
            raise another_table(
                f"Its groups have {self.values.labels[value]!r} {shown[value]:,} times, the table {held[value]:,}."
            )


def another_table(reason: str) -> UsageError:
    return UsageError(
        f"The release was not made from this table. {reason}", "Give the table that was published, with its policy."
    )


# --- values and ranges of a column as classes, the same ones for records and rows -------------------------------------


def other_columns(evidence: Evidence) -> list[str]:
    """Return the columns of the table that are published and not sensitive."""
    shown = {column.name for column in evidence.manifest.columns}
    held = {attribute.name for attribute in evidence.table.schema.attributes}
    return [name for name in evidence.release.column_names if name in shown & held and name not in evidence.sensitive]


def classes_of_records(evidence: Evidence, name: str) -> Iterator[Classes]:
    yield from classes_of(name, _column(evidence, name, evidence.in_table(name)))


def classes_of_both(evidence: Evidence, name: str, ranges: int = RANGES) -> Iterator[tuple[Classes, Classes]]:
    """Yield the classes of the records and of the rows by a column that is published as it is."""
    own, shown = evidence.in_table(name), evidence.in_release(name)
    for both in classes_of(name, _column(evidence, name, np.concatenate([own, shown])), ranges):
        yield Classes(both.codes[: own.size], both.names), Classes(both.codes[own.size :], both.names)


def classes_by_place(evidence: Evidence, ranges: int = RANGES) -> tuple[Classes, Classes]:
    """Return stretches of the table as classes: of all records, and of the rows whose record is known."""
    place = np.arange(evidence.rows) * ranges // max(1, evidence.rows)
    names = [f"records of part {k + 1} of {ranges} of the table" for k in range(ranges)]
    return Classes(place, names), Classes(codes_of_rows(evidence, place), names)


def codes_of_rows(evidence: Evidence, of_records: CodeArray | IntArray) -> IntArray:
    """Return a code of each row, that of its record; -1 where it is not known whose row it is."""
    codes = np.full(evidence.manifest.data.rows, -1, dtype=np.int64)
    known = np.flatnonzero(evidence.matched != UNMATCHED)
    codes[evidence.matched[known]] = of_records[known]
    return codes


def _column(evidence: Evidence, name: str, codes: CodeArray) -> pa.DictionaryArray:
    """Return codes with their labels, as numbers where all of them are."""
    labels = pa.array([None if text == MISSING_LABEL else text for text in evidence.labels(name)], type=pa.string())
    with suppress(pa.ArrowInvalid):
        labels = labels.cast(pa.float64())
    return pa.DictionaryArray.from_arrays(pa.array(codes, type=pa.int32()), labels)
