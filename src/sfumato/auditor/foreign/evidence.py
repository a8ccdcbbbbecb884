"""The true table, and one that another tool published: generalized, suppressed or perturbed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sfumato.auditor.foreign.linked import Linked
from sfumato.auditor.knowledge import not_a_member, open_known
from sfumato.engines.base import Source
from sfumato.engines.rows.selection import complete_rows, dropping
from sfumato.errors import TableError
from sfumato.publisher.table import Table
from sfumato.values.arrays import BoolArray
from sfumato.values.attributes import Attribute
from sfumato.values.attributes import label as written


@dataclass(eq=False)
class ForeignEvidence:
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
    def is_known(self) -> BoolArray:
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
