"""How a value is randomized: within the domain of its sub-table, with the matrix of that sub-table.

What is published is a value of the domain; or a card, which stands for a set of values, in one of two forms:

    set     the values of the card
    card    its number in the deck, from 1, which the manifest tells the meaning of

Most methods have one sub-table, the whole table with the whole domain. Small domain randomization has several: a
record's label says which, and every sub-table has values and a matrix of its own (SDR section 4).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, WordArray
from sfumato.values.attributes import Domain, SensitiveDomain, label
from sfumato.values.bound import NO_BOUND as NO_BOUND
from sfumato.values.bound import Bound as Bound
from sfumato.values.bound import SetBound, read_set, set_keys
from sfumato.values.bound import bound_keys as bound_keys
from sfumato.values.bound import read_bound as read_bound
from sfumato.values.matrix.base import SAMPLE_BLOCK, Matrix
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.retention import PerturbationMatrix

LABEL = "sub_table"
"""The published column that tells the sub-table of a record, numbered from 1."""

KEPT = -1
BETWEEN = "|"
"""Between the values of a set."""
MOST_LISTED = 1 << 24
"""Values of all sets that can be published together: as texts they take some hundred megabytes."""
MOST_VALUES = 10_000_000
"""The largest compound domain: planning keeps a few numbers for each value."""

Form = Literal["value", "set", "card"]
"""What is published of a record."""


@dataclass(frozen=True, eq=False)
class SubTable:
    """The values that a sub-table has (codes of the domain, ascending), its matrix, and the bound on each value.

    `sets` are the sets of values with a bound of their own; these need all values.
    """

    codes: CodeArray
    matrix: Matrix
    bounds: tuple[Bound, ...]
    sets: tuple[SetBound, ...] = ()

    def __post_init__(self) -> None:
        if not self.codes.size == self.matrix.size == len(self.bounds):
            raise ValueError(
                f"{self.matrix.size} columns and {len(self.bounds)} bounds for {self.codes.size} values of a sub-table"
            )
        if (np.diff(self.codes) <= 0).any():
            raise ValueError("the values of a sub-table must be ascending, each once")

    def rows_of(self, published: CodeArray) -> CodeArray:
        """Return the rows of the matrix of published codes, which are codes of the domain or numbers of cards."""
        return np.searchsorted(self.codes, published).astype(np.int32) if self.matrix.publishes_values else published

    @property
    def published(self) -> CodeArray:
        """The published codes that the rows of the matrix stand for."""
        return self.codes if self.matrix.publishes_values else np.arange(self.matrix.outputs, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The sensitive domain and its sub-tables. `label` names the column that tells them apart; None: there is one."""

    domain: SensitiveDomain
    tables: tuple[SubTable, ...]
    label: str | None = None
    form: Form = "value"

    def __post_init__(self) -> None:
        if not self.tables or (self.label is None and len(self.tables) > 1):
            raise ValueError("several sub-tables need a label")
        for table in self.tables:
            if table.codes[0] < 0 or table.codes[-1] >= self.domain.size:
                raise ValueError(f"a sub-table has a value that is none of the {self.domain.size} of the domain")
            if table.matrix.publishes_values != (self.form == "value"):
                raise ValueError("cards are published by number or as sets, and values as values")
        if self.sets and not self.is_whole:
            raise ValueError("sets of values go with one matrix of all of them")
        for each in self.sets:
            if not each.fits(self.domain):
                raise ValueError(f"a set has other values than it says: {len(each.codes)} of {self.domain.size}")
        if self.form != "value" and (not self.is_whole or len(self.domain.parts) > 1):
            raise ValueError("cards are for one column and one matrix of all its values")

    @classmethod
    def single(
        cls,
        domain: SensitiveDomain,
        matrix: Matrix,
        bounds: tuple[Bound, ...],
        form: Form = "value",
        sets: tuple[SetBound, ...] = (),
    ) -> Mechanism:
        """Return one matrix for all rows."""
        return cls(domain, (SubTable(np.arange(domain.size, dtype=np.int32), matrix, bounds, sets),), form=form)

    @cached_property
    def published(self) -> SensitiveDomain:
        """What can be published, by the codes that `sample` returns: the domain itself, or cards as they are written.

        Raise `ValueError` if two cards would be written alike, or a card like a value, or there are too many.
        """
        if self.form == "value":
            return self.domain
        (own,), matrix = self.domain.parts, self.matrix
        numbers = range(matrix.outputs)
        if self.form == "card":
            texts = [f"card {number + 1}" for number in numbers]
        else:
            labels = own.labels
            _check_sets(labels, matrix)
            texts = [BETWEEN.join(labels[code] for code in matrix.card(number).tolist()) for number in numbers]
        if len(set(texts)) < len(texts) or (self.form == "card" and not set(texts).isdisjoint(own.values)):
            raise ValueError("two cards, or a card and a value, would be written alike")
        return SensitiveDomain((Domain(own.name, tuple(texts)),))

    def holds(self, published: CodeArray, true: CodeArray) -> BoolArray:
        """Return whether what is published is the true value, or a card that holds it, of each pair of codes."""
        return np.asarray(published == true) if self.form == "value" else self.matrix.holds(published, true)

    @property
    def is_whole(self) -> bool:
        """Whether there is one sub-table with all values of the domain."""
        return len(self.tables) == 1 and self.tables[0].codes.size == self.domain.size

    @property
    def matrix(self) -> Matrix:
        """The matrix of all rows, where there is one."""
        if not self.is_whole:
            raise ValueError("every sub-table has a matrix of its own")
        return self.tables[0].matrix

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """The strictest bound on each value of the domain; none where it is in no sub-table."""
        strictest: list[Bound] = [NO_BOUND] * self.domain.size
        for table in self.tables:
            for code, bound in zip(table.codes.tolist(), table.bounds, strict=True):
                known = strictest[code].gamma
                if bound.gamma is not None and (known is None or bound.gamma < known):
                    strictest[code] = bound
        return tuple(strictest)

    @property
    def sets(self) -> tuple[SetBound, ...]:
        """The sets of values with a bound of their own."""
        return self.tables[0].sets

    @property
    def epsilon(self) -> float:
        """Local differential privacy of the domain: infinite where a sub-table excludes values."""
        return epsilon_of(self.matrix) if self.is_whole else math.inf

    @property
    def condition_number(self) -> float:
        """The largest one of the matrices."""
        return max(table.matrix.condition_number for table in self.tables)

    @property
    def is_invertible(self) -> bool:
        """Whether every matrix has an inverse."""
        return all(table.matrix.is_invertible for table in self.tables)

    def sample(self, codes: CodeArray, labels: CodeArray | None, words: WordArray) -> CodeArray:
        """Return the published codes: each drawn within its sub-table, numbered by `labels` from 0."""
        if self.is_whole:
            return self.matrix.sample(codes, words)
        labels = np.zeros(codes.size, dtype=np.int32) if labels is None else labels
        published = np.empty(codes.size, dtype=np.int32)
        for first in range(0, codes.size, SAMPLE_BLOCK):
            block = slice(first, first + SAMPLE_BLOCK)
            published[block] = self._drawn(codes[block], labels[block], words[block])
        return published

    def _drawn(self, codes: CodeArray, labels: CodeArray, words: WordArray) -> CodeArray:
        divisor, size, start, pool = self._flat
        drawn = words // divisor.take(labels)
        np.minimum(drawn, size.take(labels), out=drawn)
        place = drawn.view(np.int64)
        place += start.take(labels)
        new = pool.take(place)
        return np.where(new == KEPT, codes, new)

    @cached_property
    def _flat(self) -> tuple[WordArray, WordArray, npt.NDArray[np.int64], CodeArray]:
        """Of each sub-table the noise weight, its number of values, and the place of these, after which KEPT stands.

        (Without noise the number is none: every word keeps.)
        """
        weights = [table.matrix.uniform_noise for table in self.tables]
        if None in weights:
            raise ValueError("the matrices of several sub-tables are uniform")
        noise = np.array(weights, dtype=np.uint64)
        drawn = [table.codes if weight else table.codes[:0] for table, weight in zip(self.tables, weights, strict=True)]
        sizes = np.array([codes.size for codes in drawn], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(sizes + 1)[:-1]])
        pool = np.concatenate([np.append(codes, np.int32(KEPT)) for codes in drawn])
        return np.maximum(noise, np.uint64(1)), sizes.astype(np.uint64), starts, pool

    def variance(self, quotas: tuple[npt.NDArray[np.int64], ...]) -> FloatArray | None:
        """Return the expected variance of each count's inverse estimate; None without an inverse.

        Var = (P^-1 o P^-1)(P x) - x, summed over the sub-tables; x = the records of each value

        Proved in docs/methods/proofs/randomized-response.md, "Estimates".
        """
        if not self.is_invertible:
            return None
        total = np.zeros(self.domain.size)
        for table, counts in zip(self.tables, quotas, strict=True):
            x = counts.astype(np.float64)
            spread = table.matrix.inverse_squared_apply(table.matrix.apply(x)) - x
            total[table.codes] += np.maximum(0, spread)
        return total


def epsilon_of(matrix: Matrix) -> float:
    """Return the local differential privacy of a matrix, the logarithm of its largest ratio; infinite without one."""
    ratio = matrix.largest_ratio
    return math.inf if ratio is None else math.log(ratio)


def _check_sets(labels: Sequence[str], matrix: Matrix) -> None:
    """Raise unless the values of a set can be told from each other, and all sets be written down."""
    if bad := next((text for text in labels if BETWEEN in text), None):
        raise ValueError(f"the value {bad!r} holds {BETWEEN!r}, which stands between the values of a set")
    if len(set(labels)) < len(labels):
        raise ValueError(f"the missing value and the value {label(None)!r} would be written alike")
    if (listed := matrix.outputs * matrix.card_sizes[1]) > MOST_LISTED:
        raise ValueError(f"{matrix.outputs:,} sets list {listed:,} values, more than {MOST_LISTED:,}")


def set_columns(mechanisms: Iterable[Mechanism]) -> frozenset[str]:
    """Return the columns in which sets of values are published."""
    return frozenset(name for each in mechanisms if each.form == "set" for name in each.domain.names)


# --- in JSON, of plans and manifests alike: integers above 2^53 and fractions are strings -----------------------------


def finite(x: float) -> float | None:
    """Return the number, or None for an infinite or undefined one (JSON has neither)."""
    return x if math.isfinite(x) else None


def domains(domain: SensitiveDomain) -> list[dict[str, Any]]:
    """Return each sensitive column with its values, and that they are in order where the policy says so."""
    return [
        {"name": part.name, "values": list(part.values), **({"ordered": True} if part.ordered else {})}
        for part in domain.parts
    ]


def read_domains(raw: list[dict[str, Any]]) -> SensitiveDomain:
    """Return what `domains` gave."""
    parts = (Domain(part["name"], tuple(part["values"]), part.get("ordered", False)) for part in raw)
    return SensitiveDomain(tuple(parts))


def sub_tables(mechanism: Mechanism) -> list[dict[str, Any]]:
    """Return each sub-table: its values by their numbers in the domain (null: all), its matrix, and its bounds.

    The matrix by its columns, or by its noise weights; one weight, or one bound, stands for all where they are equal.
    """
    return [
        {
            "values": None if mechanism.is_whole else table.codes.tolist(),
            **table.matrix.written(),
            "bounds": [bound_keys(b) for b in (table.bounds[:1] if len(set(table.bounds)) == 1 else table.bounds)],
            **({"sets": list(map(set_keys, table.sets))} if table.sets else {}),
        }
        for table in mechanism.tables
    ]


def read_mechanism(
    parts: list[dict[str, Any]], tables: list[dict[str, Any]], label: str | None, form: Form = "value"
) -> Mechanism:
    """Return what `domains` and `sub_tables` gave."""
    domain = read_domains(parts)
    return Mechanism(domain, tuple(_read_sub_table(raw, domain.size) for raw in tables), label, form)


def _read_sub_table(raw: dict[str, Any], size: int) -> SubTable:
    if size > MOST_VALUES:  # before anything is made of so many: a file may come from anybody
        raise ValueError(f"a domain of {size:,} values, more than {MOST_VALUES:,}")
    codes = np.array(range(size) if raw["values"] is None else raw["values"], dtype=np.int32)
    noise = raw.get("noise")
    if noise is not None and noise["size"] != codes.size:
        raise ValueError(f"a matrix of {noise['size']} columns for {codes.size} values")
    bounds = tuple(map(read_bound, raw["bounds"]))
    sets = tuple(map(read_set, raw.get("sets") or ()))
    return SubTable(codes, read_matrix(raw), bounds * codes.size if len(bounds) == 1 else bounds, sets)


def read_matrix(raw: dict[str, Any]) -> Matrix:
    """Return a matrix that was written: its key tells its kind, which is loaded when there is one."""
    if (noise := raw.get("noise")) is not None:
        return PerturbationMatrix.read(noise)
    if (columns := raw.get("columns")) is not None:
        return DenseMatrix.read(columns, raw.get("cards"))
    if (blocks := raw.get("blocks")) is not None:
        from sfumato.values.matrix.block import BlockMatrix

        return BlockMatrix.read(blocks)
    if (parts := raw.get("windows")) is not None:
        from sfumato.values.matrix.windows import WindowsMatrix

        return WindowsMatrix.read_parts(parts)
    if (graded := raw.get("graded")) is not None:
        from sfumato.values.matrix.graded import GradedMatrix

        return GradedMatrix.read(graded)
    from sfumato.values.matrix.deck import DeckMatrix

    return DeckMatrix.read(raw["deck"])
