"""The joint counts of a table by cells and signatures: all that robust Anatomy is planned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.errors import PolicyError
from sfumato.methods.robustness.prior import Prior, Signature, read_prior
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import Domain
from sfumato.values.profile import Profile


class Records(NamedTuple):
    """One record for each that was counted; those of a cell with the same value are alike."""

    cells: IntArray
    values: IntArray


@dataclass(frozen=True, eq=False)
class KnownSet:
    """One attribute set: its columns, and the signature of each cell, numbered by ascending code from 0."""

    columns: tuple[str, ...]
    of_cell: IntArray
    labels: tuple[Signature, ...]  # of each signature

    @property
    def told(self) -> str:
        """The columns in words."""
        return ", ".join(self.columns)


@dataclass(frozen=True, eq=False)
class Cells:
    """The combinations of all known columns that occur, by ascending code, and how many records each has of a value."""

    labels: tuple[Signature, ...]
    counts: IntArray  # (cell, value)
    sets: tuple[KnownSet, ...]

    @classmethod
    def of(cls, profile: Profile, attribute_sets: Sequence[Sequence[str]]) -> Cells:
        """Return the cells of a profile that counts the columns of the attribute sets together with the values."""
        split = len(profile.quasi_identifiers)
        occurring, cell = np.unique(profile.cells[:, :split], axis=0, return_inverse=True)
        counts = np.zeros((len(occurring), profile.sensitive_domain.size), dtype=np.int64)
        counts[cell.ravel(), profile.sensitive_domain.join(profile.cells[:, split:].T)] = profile.numbers
        columns = dict(zip(profile.quasi_identifiers, occurring.T, strict=True))
        parts = {part.name: part for part in profile.quasi_domain.parts}
        sets = []
        for names in attribute_sets:
            if lacking := [name for name in names if name not in parts]:
                raise PolicyError(
                    f"The attribute set names {lacking[0]!r}, which the profile does not count.",
                    "Count with the policy that names it: sf.profile(sf.scan(table, policy)).",
                )
            signatures, of_cell = np.unique(
                np.column_stack([columns[name] for name in names]), axis=0, return_inverse=True
            )
            labels = _labels([parts[name] for name in names], signatures)
            sets.append(KnownSet(tuple(names), of_cell.ravel(), labels))
        return cls(_labels(profile.quasi_domain.parts, occurring), counts, tuple(sets))

    @cached_property
    def records(self) -> Records:
        """All records."""
        cells, values = np.nonzero(self.counts)
        number = self.counts[cells, values]
        return Records(np.repeat(cells, number), np.repeat(values, number))

    def prior(self, known: KnownSet) -> Prior:
        """Return the table's own shares: p(s:x) = records with s and x / records with s."""
        weights = np.zeros((len(known.labels), self.counts.shape[1]), dtype=np.int64)
        np.add.at(weights, known.of_cell, self.counts)
        return Prior(weights, weights.sum(axis=1))

    def read_prior(self, known: KnownSet, path: Path, values: Sequence[str]) -> Prior:
        """Return the prior of a file, if it does not contradict the table."""
        return read_prior(path, known.columns, known.labels, values, self.prior(known).weights)


def _labels(parts: Sequence[Domain], codes: npt.NDArray[np.int32]) -> tuple[Signature, ...]:
    return tuple(tuple(part.labels[code] for part, code in zip(parts, row, strict=True)) for row in codes.tolist())
