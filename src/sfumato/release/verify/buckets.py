"""What a release by groups proves by itself.

Both files are read once, in their order and in pieces: groups must be numbered 1, 2, ... in both, with as many records
in the data as there are values, and no value may have a larger share of a group than is stated. If nothing is assumed
of the adversary's prior, the bound on beliefs follows from the files too: k/n_s, the multiplicity of a value over the
records with one signature, is at most 1/r. Suppression leaves equal counts, and robust Anatomy at most one guest in a
group: so much of how records were withheld and dealt is seen. That records were dealt at random cannot be seen from
outside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.claims.buckets import state_group_guarantee
from sfumato.claims.second_release import SECOND_GROUPS
from sfumato.errors import UsageError
from sfumato.release.checks import Check, differing, due_facts, outcome, treatments_fit
from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import GroupsPart, Manifest
from sfumato.release.reading import connected, quoted
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.bucket_columns import GroupClaim, GroupMethod
from sfumato.values.computed import of_groups

ROWS_AT_ONCE = 1 << 20
MOST = (1 << 62) - 1
"""Denominators above it are as good as this one: no group has so many records."""

IntArray = npt.NDArray[np.int64]

TIED = {"safe-d": None, "rotation": 2, "spread": 2}
"""Of the l largest published counts, how many of the smallest are equal where records are withheld; None: all."""


# --- what is stated -------------------------------------------------------------------------------------------------


def stated(release: ReleaseFolder) -> Iterator[Check]:
    """The stated guarantee must follow from method, limit and columns, and the key must have been a secret one."""
    manifest = release.manifest
    assert manifest.groups is not None
    wrong = list(_wrong(manifest, manifest.groups))
    yield outcome(
        "guarantee, as stated",
        not wrong,
        "It is what follows from the method, its limit and the columns.",
        f"Not what follows from the method, its limit and the columns: {', '.join(wrong)}.",
    )
    secret = manifest.status == "release"
    yield outcome("secret key", secret, "Dealt by a secret key.", "Dealt by a test seed: not for release.")


def _wrong(manifest: Manifest, groups: GroupsPart) -> Iterator[str]:
    """Give the keys of the manifest that contradict others."""
    if manifest.method not in get_args(GroupMethod):
        yield "method"
        return
    try:
        claim = manifest.group_claim
    except (ArithmeticError, ValueError, UsageError):
        yield "at_most or domain"
        return
    yield from differing(manifest.guarantee_value, state_group_guarantee(claim, withheld=groups.withheld > 0))
    yield from (key for key, good in _fitting(manifest, groups, claim).items() if not good)


def _fitting(manifest: Manifest, groups: GroupsPart, claim: GroupClaim) -> dict[str, bool]:
    names, robust = [column.name for column in manifest.columns], claim.method == "robust-anatomy"
    published = claim.assurance == "as-published"
    return {
        "at_most": claim.at_most.numerator == 1 and claim.at_most.denominator > 1,
        "domain": len(claim.sensitive) == 1,
        "variant": (claim.variant is not None) == (claim.method == "suppression"),
        "always": not claim.always or claim.variant in TIED,
        "assurance": claim.method != "suppression" or (claim.variant == "r-suppression") == published,
        "attribute_sets": all(claim.attribute_sets) and bool(claim.attribute_sets) == robust,
        "prior": (claim.prior is not None) == robust and not (published and claim.prior == "none"),
        "dealt_within": groups.dealt_within == claim.dealt_within,
        "withheld": groups.withheld == 0 or claim.method != "anatomy",
        "columns": names[-1:] == [groups.group_column]
        and [column.treatment for column in manifest.columns].count("group") == 1
        and manifest.columns[-1].treatment == "group"
        and set(claim.dealt_within) <= set(names[:-1])
        and not set(claim.sensitive) & set(names),
        "shuffled": manifest.data.shuffled,
        "computed_from_table": {*due_facts(manifest), *of_groups(claim)} <= set(manifest.computed_from_table),
        "from_table": manifest.from_table,
        "treatments": treatments_fit(manifest),
        "second_release": manifest.second_release == SECOND_GROUPS,
        "discloses_frequencies": manifest.discloses_frequencies,
    }


# --- the two files ----------------------------------------------------------------------------------------------------


def files(release: ReleaseFolder) -> Iterator[Check]:
    """The two files must fit each other and the manifest, and keep the bound as far as they show it."""
    manifest, groups = release.manifest, release.manifest.groups
    assert groups is not None
    domain = manifest.domain
    with connected(release) as connection:
        columns = {
            "columns": (_names(connection, "release"), list(release.column_names)),
            f"columns of {groups.file}": (_names(connection, "compositions"), group_columns(groups)),
        }
        for name, (found, due) in columns.items():
            yield outcome(name, found == due, f"{len(found)} columns, as stated.", f"They are {found}.")
        rows = connection.sql("SELECT count(*) FROM release").fetchall()[0][0]
        if any(found != due for found, due in columns.values()) or groups.number > rows:
            yield outcome(
                "groups", groups.number <= rows, "Not more than rows.", f"{rows:,} rows are fewer than groups."
            )
            return
        data, lines = _data(connection, groups), _lines(connection, groups, domain)
        yield from _sizes(release, groups, data, lines)
        yield _in_domain(domain, lines)
        yield from _observed(manifest, domain, lines)
        if groups.variant in TIED and (groups.withheld or groups.always):
            yield _tied(groups, lines)
        if data.in_order and lines.in_order and np.array_equal(data.sizes, lines.sizes):
            yield _shares(groups, lines)
            if groups.prior == "none":
                yield from (_beliefs(connection, groups, names, lines) for names in groups.attribute_sets)
            elif groups.prior and manifest.assurance == "proved":
                yield _guests(connection, groups)


def types_fit(types: list[str], domain: SensitiveDomain) -> bool:
    """Whether a file of the groups has columns of these (Arrow) types: integers, and what the values are."""
    fitting = (_fits(kind, part) for kind, part in zip(types[1:-1], domain.parts, strict=False))
    return len(types) == len(domain.parts) + 2 and (types[0], types[-1]) == ("int32", "int64") and all(fitting)


def _fits(kind: str, part: Domain) -> bool:
    kinds = {type(value) for value in part.values if value is not None}
    if kinds == {bool}:
        return kind == "bool"
    return kind.removeprefix("u").startswith("int") if kinds == {int} else kind == "string"


def group_columns(groups: GroupsPart) -> list[str]:
    """Return the columns of the table of the groups."""
    return [groups.group_column, *(part.name for part in groups.domain), groups.count_column]


def _names(connection: Any, view: str) -> list[str]:
    return [row[0] for row in connection.sql(f"DESCRIBE {view}").fetchall()]


@dataclass
class _Counted:
    """A file, read in its order. Groups are numbered from 0."""

    number: int  # of groups, as stated
    domain_size: int = 0
    lines: int = 0
    in_order: bool = True  # groups 1, 2, ..., `number`, none left out
    sorted: bool = True  # inside a group by value, each value once
    outside: int = 0  # lines with no value of the domain, or with no count
    last: int = 0  # number of the last group so far

    def __post_init__(self) -> None:
        self.sizes = np.zeros(self.number, dtype=np.int64)  # records of each group
        self.most = np.zeros(self.number, dtype=np.int64)  # the largest count of a value
        self.totals = np.zeros(self.domain_size, dtype=np.int64)  # the published records of each value

    def next_groups(self, numbers: Any) -> IntArray | None:
        """Take the groups of the next lines; None if their numbers are wrong."""
        self.lines += len(numbers)
        if numbers.null_count or not self.in_order:
            self.in_order = False
            return None
        groups: IntArray = np.asarray(numbers).astype(np.int64)
        steps = np.diff(groups, prepend=self.last)
        self.in_order = bool(((steps == 0) | (steps == 1)).all() and groups[0] > 0 and groups[-1] <= self.number)
        self.last = int(groups[-1])
        return groups - 1 if self.in_order else None

    def finish(self) -> None:
        """Note whether all groups were there."""
        self.in_order = self.in_order and self.last == self.number


def _batches(connection: Any, columns: list[str], view: str) -> Iterator[Any]:
    """Give the columns of a view in pieces, in the order of the file."""
    reader = connection.sql(f"SELECT {', '.join(columns)} FROM {view}").to_arrow_reader(ROWS_AT_ONCE)
    return (batch for batch in reader if batch.num_rows)


def _whole(name: str) -> str:
    return f"TRY_CAST({quoted(name)} AS BIGINT)"


def _data(connection: Any, groups: GroupsPart) -> _Counted:
    found = _Counted(groups.number)
    for batch in _batches(connection, [_whole(groups.group_column)], "release"):
        numbers = found.next_groups(batch.column(0))
        if numbers is not None:
            _add(found.sizes, numbers, np.ones(numbers.size, dtype=np.int64))
    found.finish()
    return found


def _lines(connection: Any, groups: GroupsPart, domain: SensitiveDomain) -> _Counted:
    names = [quoted(name) for name in domain.names]
    columns = [_whole(groups.group_column), *names, _whole(groups.count_column)]
    found, last = _Counted(groups.number, domain.size), -1
    for batch in _batches(connection, columns, "compositions"):
        number, *values, counted = batch.columns
        codes, counts = _codes(domain, values), np.asarray(counted.fill_null(0)).astype(np.int64)
        outside = (codes < 0) | (counts < 1)
        found.outside += int(np.count_nonzero(outside))
        np.add.at(found.totals, codes[~outside], counts[~outside])
        numbers = found.next_groups(number)
        if numbers is not None:
            keys = numbers * domain.size + codes
            found.sorted = found.sorted and bool((np.diff(keys, prepend=last) > 0).all())
            last = int(keys[-1])
            _add(found.sizes, numbers, counts)
            np.maximum.at(found.most, numbers, counts)
    found.finish()
    return found


def _add(total: IntArray, groups: IntArray, amounts: IntArray) -> None:
    """Add to the totals of ascending groups."""
    first = int(groups[0])
    total[first : int(groups[-1]) + 1] += np.bincount(groups - first, amounts).astype(np.int64)


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


def _sizes(release: ReleaseFolder, groups: GroupsPart, data: _Counted, lines: _Counted) -> Iterator[Check]:
    for name, counted, due in (("rows", data, release.manifest.data.rows), ("lines", lines, groups.lines)):
        found = f"{counted.lines:,} {name}"
        yield outcome(name, counted.lines == due, f"{found}, as stated.", f"{found}, not as stated.")
    for file, counted in ((release.data.name, data), (groups.file, lines)):
        yield outcome(
            f"groups of {file}",
            counted.in_order,
            f"Numbered from 1 to {groups.number:,}, in this order.",
            f"They are not numbered from 1 to {groups.number:,}, in this order.",
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


def _tied(groups: GroupsPart, lines: _Counted) -> Check:
    """Safe D leaves F_l records of the l most frequent values; rotation and spread give F_l to slots l - 1 and l.

    To hide the most frequent value always without withholding a record, the l most frequent must have as many as it.
    """
    limit = _limit(groups)
    largest = np.sort(lines.totals)[::-1][:limit]
    tied = TIED[groups.variant or ""] if groups.withheld else None
    equal = largest[-(tied or limit) :]
    some = "the last two" if tied else "all"
    return outcome(
        "suppression",
        largest.size == limit and bool((equal == equal[0]).all()),
        f"Of the {limit} largest counts of values {some} are equal, as {groups.variant} makes them.",
        f"Of the {limit} largest counts of values not {some} are equal: that is not {groups.variant}.",
    )


def _guests(connection: Any, groups: GroupsPart) -> Check:
    """Of the records of a group all but one, a guest, were dealt: they agree in the columns of all attribute sets."""
    group, columns = quoted(groups.group_column), ", ".join(quoted(name) for name in groups.dealt_within)
    cells = f"SELECT {group} AS g, {columns}, count(*) AS n FROM release GROUP BY ALL"
    wrong = connection.sql(
        f"SELECT count(*) FROM (SELECT g FROM ({cells}) GROUP BY g HAVING sum(n) - max(n) > 1)"
    ).fetchall()[0][0]
    told = ", ".join(groups.dealt_within)
    return outcome(
        "guests",
        not wrong,
        f"The records of each group agree in {told}, but for one guest at most.",
        f"In {wrong:,} group(s) more than one record has another {told} than the others.",
    )


def _beyond(most: IntArray, of: IntArray, limit: int) -> int:
    """Return how many exceed 1/limit, in integers: most/of > 1/limit."""
    return int(np.count_nonzero(most > of // min(limit, MOST)))


def _limit(groups: GroupsPart) -> int:
    return max(1, int(groups.at_most.partition("/")[2] or 1))


def _shares(groups: GroupsPart, lines: _Counted) -> Check:
    beyond = _beyond(lines.most, lines.sizes, _limit(groups))
    return outcome(
        "guarantee, shares",
        not beyond,
        f"No value has more than {groups.at_most} of a group, in exact integers.",
        f"In {beyond:,} group(s) a value has more than {groups.at_most}.",
    )


def _beliefs(connection: Any, groups: GroupsPart, names: tuple[str, ...], lines: _Counted) -> Check:
    """k/n_s <= 1/r for every group, value and signature s of an attribute set: it holds under every prior."""
    group, columns = quoted(groups.group_column), ", ".join(quoted(name) for name in names)
    found = connection.sql(
        f"SELECT g, min(n) FROM (SELECT {group} AS g, {columns}, count(*) AS n FROM release GROUP BY ALL) GROUP BY g"
    ).to_arrow_table()
    number, rarest = (np.asarray(column.combine_chunks()).astype(np.int64) for column in found.columns)
    beyond = _beyond(lines.most[number - 1], rarest, _limit(groups))
    told = ", ".join(names)
    return outcome(
        f"guarantee, any prior on {told}",
        not beyond,
        f"Among a group's records with the same {told} no value has more than {groups.at_most}, in exact integers.",
        f"In {beyond:,} group(s) a value can have more than {groups.at_most} of the records with the same {told}.",
    )


def private(release: ReleaseFolder) -> Iterator[Check]:
    """What only an audit with the private table can show."""
    manifest, groups = release.manifest, release.manifest.groups
    assert groups is not None
    among = f" among those that agree in {', '.join(groups.dealt_within)}" if groups.dealt_within else ""
    yield Check("records", "needs audit", "That records and values are those of the table, none added or changed.")
    yield Check("dealing", "needs audit", f"That records were dealt to groups at random{among}, from a secret key.")
    yield Check("row order", "needs audit", "That the records of a group are in random order.")
    if groups.withheld or groups.variant:
        how = f", and of each value as many as {groups.variant} says" if groups.variant else ""
        told = f"{groups.withheld:,} records were withheld at random{how}" if groups.withheld else "none was withheld"
        yield Check("withheld records", "needs audit", f"That {told}.")
    if groups.prior in ("table", "file"):
        yield Check(
            "posteriors",
            "needs audit",
            "That every group meets the condition of PI Eq. (4) under the prior, which is not published."
            if manifest.assurance == "as-published"
            else f"That no belief exceeds {groups.at_most} under the prior, which is not published.",
        )
    yield Check("other columns", "needs audit", "That no other column predicts the sensitive value.")
    yield Check("one row per person", "needs audit", "That nobody has several rows, or that this was meant.")
