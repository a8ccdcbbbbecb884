"""How many records of each value each sub-table has, and how many rows it publishes of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.auditor.evidence import DoesNotApply, Evidence
from sfumato.methods import plan
from sfumato.publisher.table import profile
from sfumato.release.manifest import Manifest
from sfumato.values.arrays import CodeArray, IntArray
from sfumato.values.mechanism import Mechanism
from sfumato.values.steps import Allocate

Quotas = Sequence[Sequence[int] | IntArray]
"""Of each sub-table, how many records have each of its values."""


@dataclass(frozen=True)
class Counts:
    """How many records of a sub-table are published with each of its values, and how many have it."""

    published: tuple[int, ...]
    true: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Compositions:
    """How many records of each value each sub-table has, and how many rows it publishes of each."""

    quotas: tuple[IntArray, ...]
    published: tuple[IntArray, ...]

    @property
    def counts(self) -> list[Counts]:
        """Both, for the attacker who knows compositions."""
        pairs = zip(self.published, self.quotas, strict=True)
        return [Counts(tuple(shown.tolist()), tuple(own.tolist())) for shown, own in pairs]


def compositions(evidence: Evidence) -> Compositions:
    """Return the composition of the sub-tables.

    Rows in the table's order tell it; of shuffled ones, the plan does, which is made again and is always the same.
    """
    mechanism = evidence.mechanism
    shown = tuple(_counted(mechanism, evidence.published, evidence.sub_tables))
    if mechanism.label is None:
        held = np.bincount(evidence.true, minlength=mechanism.domain.size)
        return Compositions((held[mechanism.tables[0].codes],), shown)
    if evidence.is_aligned:
        return Compositions(tuple(_counted(mechanism, evidence.true, evidence.sub_tables)), shown)
    made = plan(profile(evidence.table), evidence.table.policy.method, evidence.table.policy.requirement)
    dealt = [step for step in made.steps() if isinstance(step, Allocate)]
    if not dealt or not _same(dealt[0].mechanism, mechanism):
        raise DoesNotApply("how many records of each value a sub-table has is not known: rows were shuffled.")
    return Compositions(dealt[0].quotas, shown)


def _counted(mechanism: Mechanism, codes: CodeArray, labels: CodeArray) -> Iterator[IntArray]:
    m = mechanism.domain.size
    numbers = np.bincount(labels.astype(np.int64) * m + codes, minlength=len(mechanism.tables) * m)
    for table, of_table in zip(mechanism.tables, numbers.reshape(-1, m), strict=True):
        if of_table.sum() != of_table[table.codes].sum():
            raise DoesNotApply("a sub-table has a value that is not one of its own.")
        yield of_table[table.codes]


def _same(one: Mechanism, other: Mechanism) -> bool:
    pairs = zip(one.tables, other.tables, strict=False)
    return len(one.tables) == len(other.tables) and all(
        np.array_equal(a.codes, b.codes) and a.matrix.integers == b.matrix.integers for a, b in pairs
    )


def held_records(mechanism: Mechanism, quotas: Quotas) -> IntArray:
    """Return the records of each value of the domain."""
    held = np.zeros(mechanism.domain.size, dtype=np.int64)
    for table, counts in zip(mechanism.tables, quotas, strict=True):
        held[table.codes] += np.asarray(counts)
    return held


def has_sub_tables(manifest: Manifest) -> bool:
    """Whether records were dealt to sub-tables, each with a matrix of its own."""
    return manifest.kind == "randomized" and len(manifest.mechanism_value.tables) > 1
