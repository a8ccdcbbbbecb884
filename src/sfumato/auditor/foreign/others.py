"""The audit of a table that another tool published: generalized, suppressed or perturbed, with a policy for the roles.

The attacker knows people's quasi-identifiers and what labels mean. If the policy asks for an l, 1/l is what the table
is held to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.auditor.attackers.background import background_finding
from sfumato.auditor.attackers.register import Register, Told, rows_finding, values_finding
from sfumato.auditor.codes import Ints
from sfumato.auditor.evidence import DoesNotApply, Mask
from sfumato.auditor.finding import Finding, named
from sfumato.auditor.foreign import foreign
from sfumato.auditor.foreign.foreign import Linked
from sfumato.auditor.grouped import GroupTables
from sfumato.auditor.knowledge import Knowledge, columns_of_prior, not_a_member, open_known, open_register
from sfumato.auditor.record import Audit
from sfumato.auditor.running import Attack, Progress, now, run, software
from sfumato.auditor.utility.usefulness import TableUtility, Utility
from sfumato.engines.base import Source
from sfumato.engines.embedded.sources import open_source
from sfumato.engines.rows.selection import complete_rows, dropping
from sfumato.errors import TableError
from sfumato.methods.robustness import Prior, read_prior
from sfumato.publisher.table import Table
from sfumato.values.attributes import Attribute
from sfumato.values.attributes import label as written

OTHER = "other"
BY_OTHERS = "Nothing is promised: another tool made this table."
MOST_SHARES = 20_000_000


@dataclass(eq=False)
class Published:
    """The true table and the published one, linked by quasi-identifiers."""

    table: Table
    source: Source
    priors: tuple[Path, ...]
    known: Any = None
    external: Any = None

    @property
    def quasi_identifiers(self) -> list[str]:
        """The columns with this role."""
        return self.table.schema.names("quasi_identifier")

    @property
    def ell(self) -> int | None:
        """The l that the policy asks for."""
        return self.table.policy.requirement_rule.l

    @property
    def promised(self) -> float | None:
        """1/l."""
        return None if self.ell is None else 1 / self.ell

    @cached_property
    def linked(self) -> Linked:
        """Who may be which row."""
        if not self.quasi_identifiers:
            raise TableError("No column is a quasi-identifier.", "Say in the policy by what people can be linked.")
        names = self.table.schema.names("quasi_identifier", "sensitive")
        for name in names:
            if name not in self.source.names:
                raise TableError(
                    f"The published table has no column {name!r}, only {', '.join(map(repr, self.source.names))}.",
                    "Columns must have the names that the policy gives them. A CSV file is read with the policy's "
                    "delimiter.",
                )
        own, shown = self.of_table(names), plain("published table", self.source, names)
        return Linked.of(own, shown, self.quasi_identifiers, self.table.schema.names("sensitive"))

    @cached_property
    def is_known(self) -> Mask:
        """Which rows of the true table are those of known members."""
        source, names = open_known(self.known, self.table)
        listed, own = (_lines(rows) for rows in (plain("list of known members", source, names), self.of_table(names)))
        members = set(listed)
        if not members <= set(own):
            raise not_a_member()
        return np.array([values in members for values in own])

    def of_table(self, names: Sequence[str]) -> Any:
        """Return columns of the true table, without the rows that the policy leaves out."""
        return plain("original table", self.table.source, names, dropping(self.table.schema))


def plain(called: str, source: Source, names: Sequence[str], drops: Iterable[Attribute] = ()) -> Any:
    """Return columns as plain Arrow, without the rows in which one of `drops` is missing. called: what has no rows."""
    drops, batches = list(drops), []
    for batch in source.batches(list(dict.fromkeys([*names, *(a.name for a in drops)]))):
        keep = complete_rows(batch.rows, drops)
        batches.append(batch.rows if keep is None else batch.rows.filter(pa.array(keep)))
    if not sum(batch.num_rows for batch in batches):
        raise TableError(f"The {called} has no rows.", "Give one with a row for each person.")
    rows = pa.Table.from_batches(batches).select(list(names))
    return rows.cast(pa.schema([(f.name, getattr(f.type, "value_type", f.type)) for f in rows.schema]))


def _lines(rows: Any) -> list[tuple[str, ...]]:
    """Return rows as they are written."""
    return list(zip(*(map(written, column.to_pylist()) for column in rows.columns), strict=True))


# --- the attackers ----------------------------------------------------------------------------------------------------


def classes(evidence: Published) -> Iterator[Finding]:
    """Who knows the equivalence class of a person."""
    yield foreign.classes(evidence.linked, evidence.promised)


def linking(evidence: Published) -> Iterator[Finding]:
    """Who knows a person's quasi-identifiers, and looks at all rows that fit."""
    yield foreign.linking(evidence.linked, evidence.promised)


def reidentification(evidence: Published) -> Iterator[Finding]:
    """Who looks for a person's row."""
    yield foreign.reidentification(evidence.linked)


def corruption(evidence: Published) -> Iterator[Finding]:
    """Who knows the values of the members in a list."""
    if evidence.known is None:
        raise DoesNotApply("no list of known members was given.")
    people = evidence.linked.people
    known = np.zeros_like(people.counts)
    np.add.at(known, (people.rows[evidence.is_known], people.held[evidence.is_known]), 1)
    yield foreign.corruption(evidence.linked, known, evidence.promised)


def register(evidence: Published) -> Iterator[Finding]:
    """Who has a register of people, and looks at all rows that they may be."""
    if evidence.external is None:
        raise DoesNotApply("no register was given.")
    source, names = open_register(evidence.external, evidence.table, evidence.source.names)
    rows, classes = plain("register", source, names), evidence.linked.classes
    people = foreign.combinations(rows, names, np.zeros(rows.num_rows, dtype=np.int64), 1)
    linked = Linked(people, classes, evidence.linked.values)
    labels = tuple(people.told(k) for k in range(len(people.codes)))
    listed = Register(people.names, people.sizes, labels, linked.fitting)
    limits = np.full(len(linked.values), np.inf if evidence.promised is None else evidence.promised)
    yield rows_finding(listed, int(classes.sizes.sum()))
    fit = linked.candidates
    told = Told(fit.astype(np.float64), limits, True, linked.values, "holds the published values to be true")
    yield values_finding(replace(listed, candidates=fit.sum(axis=1)), told)


def background(evidence: Published) -> Iterator[Finding]:
    """Who knows how values depend on quasi-identifiers, and the class of every person."""
    if evidence.ell is None:
        raise DoesNotApply("the policy asks for no l.")
    people = _People.of(evidence.linked)
    names = evidence.quasi_identifiers
    sets = [*((k,) for k in range(len(names))), *([tuple(range(len(names)))] if len(names) > 1 else [])]
    known = [people.knowledge(names, columns) for columns in sets]
    known += [people.read(names, path) for path in evidence.priors]
    for each in known:
        found = background_finding(people.tables, [each], evidence.ell, False, evidence.linked.values, people.values)
        yield found.named(each.name)


@dataclass(frozen=True, eq=False)
class _People:
    """The people of the true table one by one, in the classes that they fit."""

    linked: Linked
    combination: Ints  # of each person
    values: Ints
    tables: GroupTables

    @classmethod
    def of(cls, linked: Linked) -> _People:
        """Put each person into the one class that fits, if there is one and it publishes the values of its people."""
        combination, value = np.nonzero(linked.people.counts)
        times = linked.people.counts[combination, value]
        combination, values = np.repeat(combination, times), np.repeat(value, times)
        home = linked.homes[combination]
        sizes = linked.classes.sizes
        if (home < 0).any() or not np.array_equal(np.bincount(home, minlength=sizes.size), sizes):
            raise DoesNotApply("not every person fits exactly one class with as many rows as people.")
        held = np.zeros_like(linked.classes.counts)
        np.add.at(held, (home, values), 1)
        if not np.array_equal(held, linked.classes.counts):
            raise DoesNotApply("a class does not show the values of its people: some are withheld or were perturbed.")
        group, code = np.nonzero(linked.classes.counts)
        counts = linked.classes.counts[group, code]
        return cls(linked, combination, values, GroupTables(home, group, code, counts))

    def knowledge(self, names: Sequence[str], columns: Sequence[int]) -> Knowledge:
        """Return the table's own shares given some of the quasi-identifiers."""
        signature, labels = self._signed(columns)
        weights = self._counted(signature, len(labels))
        own = [names[k] for k in columns]
        told = [named(own, row) for row in labels]
        return Knowledge(", ".join(own), signature, Prior(weights, weights.sum(axis=1)), told)

    def read(self, names: Sequence[str], path: Path) -> Knowledge:
        """Return the prior of a file."""
        own = columns_of_prior(path, names)
        signature, labels = self._signed([list(names).index(name) for name in own])
        prior = read_prior(path, own, labels, self.linked.values, self._counted(signature, len(labels)))
        return Knowledge(f"{', '.join(own)} ({path.name})", signature, prior, [named(own, row) for row in labels])

    def _signed(self, columns: Sequence[int]) -> tuple[Ints, list[tuple[str, ...]]]:
        people = self.linked.people
        _, first, number = np.unique(people.codes[:, list(columns)], axis=0, return_index=True, return_inverse=True)
        labels = [people.written(combination, columns) for combination in first.tolist()]
        return number.ravel()[self.combination].astype(np.int64), labels

    def _counted(self, signature: Ints, number: int) -> Ints:
        size = len(self.linked.values)
        if number * size > MOST_SHARES:
            raise DoesNotApply(f"{number:,} combinations are too many for a prior in memory.")
        return np.bincount(signature * size + self.values, minlength=number * size).reshape(-1, size).astype(np.int64)


ATTACKERS: dict[str, Attack[Published] | str] = {
    "classes": classes,
    "linking": linking,
    "reidentification": reidentification,
    "corruption": corruption,
    "register": register,
    "background": background,
}


def audit_published(
    table: Table,
    published: Any,
    priors: tuple[Path, ...],
    known: Any,
    external: Any,
    seed: int | None,
    progress: Progress,
) -> Audit:
    """Audit a table that another tool published: see `audit`."""
    source = open_source(published, table.policy.input)
    evidence = Published(table, source, priors, known, external)
    found, reasons, seconds = run(ATTACKERS, evidence, progress)
    progress("utility", len(ATTACKERS), len(ATTACKERS) + 1)
    start = perf_counter()
    utility = _measured(evidence)
    seconds["utility"] = perf_counter() - start
    people, rows = int(evidence.linked.people.sizes.sum()), int(evidence.linked.classes.sizes.sum())
    ell = evidence.ell
    return Audit(
        created=now(),
        software=software(),
        release_id=None,
        published=source.description,
        method=OTHER,
        assurance=None,
        guarantee="" if ell is None else f"l = {ell}: no value is believed in by more than 1/{ell}.",
        rows=people,
        published_rows=rows,
        shuffled=True,
        seed=seed,
        findings=tuple(replace(finding, why_not_covered=BY_OTHERS) for finding in found),
        not_applicable=tuple(reasons),
        utility=utility,
        seconds=seconds,
        notes=("Labels are read as docs/auditor.md says; a label that is not understood stands for itself.",),
    )


def _measured(evidence: Published) -> Utility:
    """Return how near the published sensitive values come to the true ones, as they are."""
    people, classes = evidence.linked.people, evidence.linked.classes
    true, shown = (c.counts.sum(axis=0).astype(np.float64) for c in (people, classes))
    share = int(classes.sizes.sum()) / int(people.sizes.sum())
    if not shown.any():
        return Utility(published_share=share, notes=("No published row shows a sensitive value.",))
    table = TableUtility.of(tuple(evidence.table.schema.names("sensitive")), true, shown, shown, np.nan)
    return Utility(
        published_share=share,
        aggregate_utility=1 - table.l1 / true.size,
        tables=(table,),
        notes=("Published values are taken as they are; the tool that published them may offer estimates.",),
    )
