"""What attackers are given: priors on attribute sets, known members, and a register of people."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sfumato.auditor.codes import cross_counts
from sfumato.auditor.evidence import Evidence, NotMeasured
from sfumato.engines.base import Source
from sfumato.engines.embedded.sources import open_source
from sfumato.errors import UsageError
from sfumato.methods.robustness.prior import Prior, read_prior
from sfumato.publisher.table import Table
from sfumato.show.reading import read_csv
from sfumato.values.arrays import BoolArray, CodeArray, IntArray

MOST_SHARES = 20_000_000  # signatures times values of a prior that is held in memory
ENTRY = ("value", "probability")  # the columns of a prior beside those of its attribute set


@dataclass(frozen=True, eq=False)
class Knowledge:
    """What the attacker knows of one attribute set. Values of the prior are those of the release."""

    name: str  # such as "sex, race"
    signatures: IntArray  # of each row
    prior: Prior
    labels: Sequence[str] = ()  # of the signatures

    def told(self, signature: int) -> str:
        return self.labels[signature] if self.labels else f"signature {signature + 1}"


def knowledge(evidence: Evidence, names: Sequence[str] = (), path: Path | None = None) -> Knowledge:
    """Return the table's own shares given some columns, or those of a file, which names them itself where it must.

    Signatures are those of the records; in groups, where it is not told which value is whose, those of the rows.
    """
    if path is not None:
        names = names or columns_of_prior(path, evidence.comparable)
    own, in_groups = evidence.signatures(names), evidence.manifest.in_buckets
    labels = evidence.values.labels if in_groups else evidence.mechanism.domain.labels
    if path is None and own.size * len(labels) > MOST_SHARES:
        raise NotMeasured(f"{own.name} has {own.size:,} combinations, too many for a prior in memory.")
    values = evidence.values.table if in_groups else evidence.true.astype(np.int64)
    weights = cross_counts(own.table, values, own.size, len(labels))
    name, prior = own.name, Prior(weights, np.maximum(weights.sum(axis=1), 1))
    if path is not None:
        name, prior = f"{name} ({path.name})", read_prior(path, own.columns, own.values, labels, weights)
    return Knowledge(name, own.release if in_groups else own.table, prior, own.told)


def columns_of_prior(path: Path, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the attribute set of a prior's file: its columns but `value` and `probability`."""
    try:
        header = next(read_csv(path), [])
    except (OSError, ValueError, csv.Error) as problem:
        raise UsageError(
            f"The prior {str(path)!r} cannot be read: {problem}.", "Give a CSV file in UTF-8, with a header."
        ) from None
    names = tuple(name for name in header if name not in ENTRY)
    if not names or set(header) - set(names) != set(ENTRY):
        raise UsageError(
            f"{str(path)!r} is no prior: its columns are {', '.join(header)}.",
            "A prior has the columns of an attribute set, value and probability.",
        )
    if strange := [name for name in names if name not in columns]:
        raise UsageError(
            f"{str(path)!r} is about {strange[0]!r}, which is not published as it is.",
            f"Beliefs may depend on {', '.join(columns)}.",
        )
    return names


# --- known members ----------------------------------------------------------------------------------------------------


def known_records(evidence: Evidence) -> BoolArray | None:
    """Return which records of the table are known; None where no list was given.

    The list has all quasi-identifiers of the table, or one column that tells records apart; a line of it stands for all
    records with these values.
    """
    if evidence.known is None:
        return None
    source, names = open_known(evidence.known, evidence.table)
    listed, own = combined(evidence, source, names, evidence.in_table)
    if not listed.size:
        raise UsageError("The list of known members has no rows.", "Give one with a row for each member.")
    if not np.isin(listed, own).all():
        raise not_a_member()
    return np.isin(own, listed)


def open_known(known: Any, table: Table) -> tuple[Source, list[str]]:
    """Open a list of known members, and return the columns by which they are listed."""
    source, quasi = open_source(known, table.policy.input), table.schema.names("quasi_identifier")
    names = list(source.names)
    if set(names) != set(quasi) and not (len(names) == 1 and names[0] in table.source.names):
        raise UsageError(
            f"The known members are listed by {', '.join(names)}.",
            f"List them by {', '.join(quasi)}, or by one column that tells records apart.",
        )
    return source, names


def not_a_member() -> UsageError:
    return UsageError("A known member is not among the records of the table.", "Give members as the table has them.")


def open_register(external: Any, table: Table, shown: Collection[str]) -> tuple[Source, list[str]]:
    """Open a register, and return the quasi-identifiers by which it is linked with what is shown."""
    source, quasi = open_source(external, table.policy.input), table.schema.names("quasi_identifier")
    names = [name for name in quasi if name in source.names and name in shown]
    if not names:
        raise UsageError(
            f"The register has no quasi-identifier of the table, only {', '.join(source.names)}.",
            f"It needs one of {', '.join(quasi)}.",
        )
    return source, names


def combined(
    evidence: Evidence, source: Source, names: Sequence[str], side: Callable[[str], CodeArray]
) -> tuple[IntArray, IntArray]:
    """Return the combinations of some columns of a list, and of the table or the release: mixed-radix numbers."""
    listed = [[evidence.encode(name, batch.rows.column(name)) for name in names] for batch in source.batches(names)]
    widths = [len(evidence.labels(name)) for name in names]
    if math.prod(widths) >= 1 << 62:
        raise UsageError("The columns have too many combinations of values.", "Give fewer columns.")
    parts = [np.ravel_multi_index(codes, widths) for codes in listed]
    own = np.ravel_multi_index([side(name) for name in names], widths)
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64), own
