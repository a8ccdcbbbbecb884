"""A table under a policy: what `scan` returns, what counting and publishing take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from sfumato.engines.base import RESERVED, Engine, RecordKey, Rows, Source
from sfumato.engines.embedded.csv_source import CsvSource
from sfumato.engines.embedded.engine import EmbeddedEngine, watched_numbers
from sfumato.engines.embedded.sources import check_once, is_frame, open_source
from sfumato.engines.rows.encoding import fitted
from sfumato.engines.rows.looking import no_number
from sfumato.engines.spark.source import SparkSource, open_frame
from sfumato.errors import PolicyError, TableError
from sfumato.publisher import toml
from sfumato.publisher.policy import Policy
from sfumato.release.folder import MANIFEST_NAME, value_type
from sfumato.show.results import Private, Result
from sfumato.values.arrays import Progress
from sfumato.values.attributes import Attribute, Domain, Schema
from sfumato.values.computed import Facts, left_out
from sfumato.values.looks import Stop, look_at
from sfumato.values.number_texts import Holds, any_spelling_of, held_by
from sfumato.values.profile import Profile, Uniqueness
from sfumato.values.profile import uniqueness as summary
from sfumato.values.randomness import SecretKey
from sfumato.values.text import nearest

NUMBERS = ("int", "uint", "halffloat", "float", "double", "decimal")  # how the names of Arrow's types of numbers begin
OPAQUE = (
    pa.types.is_nested,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_duration,
    pa.types.is_interval,
)
"""Types that are not published."""
MOST_DIGITS = 38
"""Of a decimal number, as databases have them."""
RESULT_NAMES = ("estimate", "standard_error", "lower", "upper")
"""What an answer puts beside the columns; a column of that name would be overwritten."""
DELIMITERS = {";": ";", "\t": "\\t", "|": "|"}
"""Marks that stand between names where no comma does, as TOML writes them."""
ROLES_HINT = "identifier or drop (both leave it out), quasi_identifier, sensitive or other (kept)"
PER_ROW = '"per-row" (publish all; what is learned of a person adds up over the rows)'
SMALL_TABLE = 1_000_000
SMALL_FILE = 50_000_000  # rows, or bytes of a CSV file, up to which records that are alone are counted unasked


def no_progress(rows: int) -> None:
    """Ignore progress."""


@dataclass(frozen=True, repr=False)
class Table(Private, Result):
    """A readable table whose columns fit its policy."""

    source: Source
    policy: Policy
    engine: Engine

    @cached_property
    def rows(self) -> Rows:
        """The rows as they are to be published: what engines work on."""
        policy, person = self.policy, self.policy.person
        # by what records keep their draws in later releases
        key = RecordKey(policy.record_key, policy.series) if policy.record_key and policy.series else None
        drawn = person.column if person and person.repeated == "keep-one" else None
        return Rows(self.source, self.schema, key, drawn, policy.linked, policy.apart)

    @cached_property
    def schema(self) -> Schema:
        return self.policy.attributes

    @cached_property
    def stops(self) -> tuple[Stop, ...]:
        """The columns that must not be published as they are, unless the policy says why."""
        rules = self.policy.columns
        judged = [
            a
            for a in self.schema.attributes
            if a.role in ("quasi_identifier", "other") and rules[a.name].publish_as_is is None
        ]
        return tuple(Stop(s.name, look) for s in self.engine.look(self.rows, judged) if (look := look_at(s)))

    @property
    def is_small(self) -> bool:
        """Whether another pass over the quasi-identifiers takes no time to speak of."""
        if isinstance(self.source, CsvSource):
            return self.source.path.stat().st_size <= SMALL_FILE
        rows = getattr(self.source, "rows", None)
        return rows is not None and rows <= SMALL_TABLE

    def hash(self) -> str:
        """Return a sha256 of the content."""
        return self.source.fingerprint()

    def to_arrow(self) -> Any:
        """Return the rows as they are read: all columns, as text where a CSV file has it."""
        names = self.source.names
        schema = pa.schema([(name, self.source.column_type(name)) for name in names])
        return pa.Table.from_batches([batch.rows.cast(schema) for batch in self.source.batches(names)], schema)

    def __repr__(self) -> str:
        return f"Table({self.source.description!r}, {len(self.source.names):,} columns; private)"

    def under(self, policy: Policy) -> Table:
        """Return the same table under another policy, which is not opened again."""
        return _opened(copy(self.source), policy, self.engine)


def scan(table: Any, policy: Policy) -> Table:
    """Open a table: a path, any object that speaks Arrow, or a Spark DataFrame, which stays on Spark.

    Its columns must be exactly those of the policy.
    """
    check_original(table)
    if is_frame(table):
        return _on_spark(SparkSource(table), policy)
    return _opened(open_source(table, policy.input), policy, EmbeddedEngine())


def check_original(table: Any) -> None:
    """Raise if a release is given as the table: what is randomized already would be randomized again."""
    if isinstance(table, str | Path) and (Path(table) / MANIFEST_NAME).is_file():
        raise TableError(f"{str(table)!r} is a release, not a table.", "Give the original table.")


def scan_on_spark(path: str | Path, policy: Policy, session: Any) -> Table:
    """Open Parquet files that Spark reads: a path, or an address that Spark knows (s3://, hdfs://)."""
    return _on_spark(open_frame(session, path), policy)


def _on_spark(source: SparkSource, policy: Policy) -> Table:
    from sfumato.engines.spark.engine import SparkEngine

    return _opened(source, policy, SparkEngine())


def _opened(source: Source, policy: Policy, engine: Engine) -> Table:
    check_columns(policy.attributes.names(), source.names)
    _check_names([name for name in source.names if policy.attributes[name].is_published])
    _check_kinds(source, policy.attributes)
    if isinstance(source, CsvSource):
        source.coded = frozenset([*policy.linked, *policy.attributes.names("sensitive")])
    return Table(source, policy, engine)


# --- columns: those of the policy, and fit to be published ------------------------------------------------------------


def check_columns(stated: Sequence[str], present: Sequence[str]) -> None:
    """Raise unless the table has exactly the stated columns, each once."""
    check_once(present)  # of tables of Spark, too
    if unnamed := [i for i, name in enumerate(present, start=1) if not name.strip()]:
        raise TableError(f"Column {unnamed[0]} of the table has no name.", "Name it in the first line of the file.")
    in_policy, in_table = set(stated), set(present)
    unstated = [name for name in present if name not in in_policy]
    absent = [name for name in stated if name not in in_table]
    if not unstated and not absent:
        return
    _check_header(present, unstated, absent)
    if pairs := {name: near for name in absent if (near := nearest(name, unstated))}:
        name, near = next(iter(pairs.items()))
        if near.strip() == name:
            raise TableError(
                f"The name of the column {near!r} has spaces around it.",
                "Remove the spaces beside the commas of the table: values would have them, too.",
            )
        raise PolicyError(
            f"The policy names the column {name!r}, which the table does not have; the table has {near!r}, which the "
            "policy does not name.",
            f"Did you mean {_heading(near)}?",
        )
    if unstated:
        raise PolicyError(
            f"The policy states no role for {_quoted(unstated)}.",
            f"Add {_heading(unstated[0])} with a role: {ROLES_HINT}."
            if len(unstated) == 1
            else f"Give each column a section, such as {_heading(unstated[0])}, with a role: {ROLES_HINT}.",
        )
    raise TableError(
        f"The table has no column {_quoted(absent)}, which the policy names.",
        f"It has {_quoted(present)}. Take the section of {absent[0]!r} out of the policy, or give the table that the "
        "policy is for.",
    )


def _check_header(present: Sequence[str], unstated: Sequence[str], absent: Sequence[str]) -> None:
    """Raise if the first line was not taken apart, or holds no names."""
    mark = next((mark for mark in DELIMITERS if mark in present[0]), None) if len(present) == 1 else None
    if mark and unstated:
        raise TableError(
            f"The table has one column only, {present[0]!r}: its first line holds no comma.",
            f'Say in the policy what stands between values:\n[input]\ndelimiter = "{DELIMITERS[mark]}"',
        )
    if len(unstated) == len(present) and absent:
        raise TableError(
            f"The table has none of the columns that the policy names. Its first line is {_quoted(present)}.",
            "The first line of a file must hold the names of the columns: add it, or give the policy of this table.",
        )


def _heading(name: str) -> str:
    return f"[columns.{toml.key(name)}]"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _check_names(published: list[str]) -> None:
    """Raise if an analyst's database would mix up two columns or cut a name short, or an answer overwrite one."""
    known: dict[str, str] = {}
    for name in published:
        if name.lower() in RESULT_NAMES:
            raise TableError(
                f"The column name {name!r} is taken: the answers of `estimate` have {', '.join(RESULT_NAMES)} "
                "beside the columns.",
                f"Rename the column, e.g. to {name + '_value'!r}.",
            )
        if name.startswith(RESERVED):
            raise TableError(f"The column name {name!r} is taken: columns of the work begin like it.", "Rename it.")
        twin = known.setdefault(name.lower(), name)
        if twin != name:
            raise TableError(
                f"The columns {twin!r} and {name!r} differ in case only, which a database does not tell apart.",
                "Rename one in the table and in the policy.",
            )
        if "\0" in name:
            raise TableError(f"The column name {name!r} holds a zero byte.", "Rename the column.")


def _check_kinds(source: Source, schema: Schema) -> None:
    """Raise if a column cannot be published, or is not of the type that its bins, its domain or the policy take."""
    for attribute in schema.attributes:
        kind = source.column_type(attribute.name)
        kind = kind.value_type if pa.types.is_dictionary(kind) else kind
        if attribute.is_published and (isinstance(kind, pa.BaseExtensionType) or any(is_a(kind) for is_a in OPAQUE)):
            raise TableError(
                f"{attribute.name!r} is of type {kind}, which is not published.",
                "Turn it into plain columns, or give it the role drop: it is then left out.",
            )
        if attribute.is_published and (reason := _unreadable(kind)):
            raise TableError(
                f"{attribute.name!r} is of type {kind}, which cannot be read back from a release: {reason}.",
                "Turn it into another type, such as text, or give it the role drop: it is then left out.",
            )
        if attribute.is_published and (attribute.recoding or attribute.declared):
            fitted(attribute, kind)
        if attribute.type is not None and not isinstance(source, CsvSource):  # whose text has no type
            _check_type(attribute, value_type(kind))


def _unreadable(kind: Any) -> str:
    """Return why values of a type would be others, or none, for those who read them; nothing if they are the same."""
    if pa.types.is_decimal(kind) and kind.precision > MOST_DIGITS:
        return f"it has more than {MOST_DIGITS} digits"
    if pa.types.is_decimal(kind) and kind.scale < 0:
        return "its scale is negative, which databases do not read"
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        try:
            pa.scalar(0, kind).cast(pa.string())
        except pa.ArrowException:
            return f"the time zone {kind.tz!r} is not known here"
    return ""


def _check_type(attribute: Attribute, kind: str) -> None:
    is_number = kind.startswith(NUMBERS)
    if is_number != (attribute.type == "number") or (not is_number and kind != "string"):
        raise PolicyError(
            f"{attribute.name!r} is declared to be {'a number' if attribute.type == 'number' else 'text'}, and the "
            f"table has it as {kind}.",
            "A declared type is for CSV files, which hold text only. Change the column's type in the table, or "
            "leave `type` out.",
        )


# --- counting ---------------------------------------------------------------------------------------------------------


def profile(
    table: Table, progress: Progress = no_progress, *, key: SecretKey | None = None, uniqueness: bool = False
) -> Profile:
    """Count a table: the sensitive attribute's domain and counts, and whether the row order tells of it.

    Records that are alone with their quasi-identifiers are counted in tables of up to a million rows (CSV: 50 MB), and
    in larger ones if `uniqueness` asks for it. The other columns are looked at: those that tell who people are stop a
    plan. For randomized response the quasi-identifiers are counted too: the joint table. Where one row of each person
    is published, `key` draws those that are counted; on Spark they are drawn anew each time.
    """
    check_identities(table)
    shown = {*table.policy.linked, *table.schema.names("sensitive")}
    others = [a for a in table.schema.attributes if a.is_published and a.name not in shown]
    checked = [a.name for a in others if a.recoding or a.declared]  # publishing may refuse values of these
    counted = table.engine.count(table.rows, checked, key or SecretKey.fresh(), progress)
    _check_declared_numbers(table, counted)
    alone = count_alone(table) if table.is_small or uniqueness else None
    published = tuple(a.name for a in table.schema.attributes if a.is_published)
    return restated(replace(counted, stops=table.stops, uniqueness=alone, published=published), table.policy)


def restated(counted: Profile, policy: Policy) -> Profile:
    """Return counts with what a policy says of them; its columns must be those that were counted.

    A policy with another method or requirement needs no new count.
    """
    return replace(
        counted,
        read_off=read_off(policy),
        policy_notes=policy.exemptions,
        keyed=policy.record_key is not None,
        keeps_order=policy.output.order == "keep",
    )


def count_alone(table: Table) -> Uniqueness | None:
    """Return how many records are alone with their quasi-identifiers, as they would be published; None without any."""
    names = tuple(table.schema.names("quasi_identifier"))
    return summary(names, table.engine.sizes(table.rows, names)) if names else None


def read_off(policy: Policy) -> Facts:
    """Return what a release shows of the table because the policy says so, whatever the method."""
    hidden = {*policy.attributes.names("sensitive"), *policy.linked}
    dropping = [a.name for a in policy.attributes.attributes if a.name in hidden and a.missing == "drop"]
    return (*policy.facts_from_table, *([left_out(dropping)] if dropping else []))


def declared_order(table: Table, name: str) -> tuple[str | bool | int, ...] | None:
    """Return the values of a column in the order in which the policy declares them, if that is no secret's."""
    rule = table.policy.columns.get(name)
    if rule is None or rule.from_table or rule.bins or rule.domain == "observed":
        return None
    declared = fitted(table.schema[name], table.source.column_type(name)).declared or ()
    return tuple(value for value in declared if value is not None)


def held_by_domain(table: Table, domain: Domain) -> Holds | None:
    """Return what numbers the texts of a column hold that is not published as it is: its domain alone tells."""
    attribute = table.schema[domain.name]
    texts = [value for value in domain.values if isinstance(value, str)]
    if attribute.recoding or not isinstance(table.source, CsvSource):
        return None
    held = held_by(texts, attribute.type)
    if attribute.type == "number" and held is None and texts:
        raise no_number(domain.name, next(text for text in texts if any_spelling_of(text) is None))
    return held


def _check_declared_numbers(table: Table, counted: Profile) -> None:
    """Raise if a column that is declared to be a number holds other texts, before anything is planned for it."""
    for part in counted.parts:
        held_by_domain(table, part)
    numbers = watched_numbers(table.rows, table.source, [part.name for part in counted.parts])
    if names := [a.name for a in table.schema.attributes if a.type == "number" and numbers.watches(a.name)]:
        for _ in numbers.watched(batch.rows for batch in table.source.batches(names)):
            pass


def check_identities(table: Table) -> None:
    """Raise if a record key is repeated, or a person is and the policy allows no repetition."""
    policy = table.policy
    if policy.record_key:
        rows, keys = table.engine.distinct(table.rows, policy.record_key)
        if keys < rows:
            raise TableError(
                f"The record key {policy.record_key!r} is repeated: {rows:,} rows have {rows - keys:,} fewer keys.",
                "Every row needs a key of its own, or two rows would share their noise.",
            )
    if policy.person and policy.person.repeated == "error":
        rows, persons = table.engine.distinct(table.rows, policy.person.column)
        if persons < rows:
            raise TableError(
                f"{rows:,} rows belong to {persons:,} persons ({policy.person.column!r}); "
                "the guarantee is for one row per person.",
                f'Say what to do: person.repeated = "keep-one" (one row of each, at random) or {PER_ROW}.'
                if not policy.method.why_not_one
                else f"Keep one row of each person in the table, drawn at random, or say person.repeated = {PER_ROW}.",
            )
