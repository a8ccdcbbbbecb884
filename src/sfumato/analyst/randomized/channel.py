"""What an analyst has to invert: how the randomized columns that a question is about came to be published.

A release has one mechanism, or several that randomize different columns independently of each other. A question needs
those of its own columns only: marginalise first, correct only what is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.errors import ReleaseError, UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.values.arrays import CodeArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Estimable
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.mechanism import Mechanism


class ChannelTable(Protocol):
    """The values of a sub-table, by their codes, and its matrix."""

    @property
    def codes(self) -> CodeArray:
        """Codes of the domain, ascending."""

    @property
    def matrix(self) -> Estimable:
        """For these values."""


class Channel(Protocol):
    """Randomized columns, and the matrices of their sub-tables (a `Mechanism` is one)."""

    @property
    def domain(self) -> SensitiveDomain:
        """The columns and their values."""

    @property
    def tables(self) -> Sequence[ChannelTable]:
        """The sub-tables; most releases have one."""

    @property
    def label(self) -> str | None:
        """The column that tells the sub-table of a row."""


@dataclass(frozen=True, eq=False)
class _ProductTable:
    codes: CodeArray
    matrix: ProductMatrix


@dataclass(frozen=True, eq=False)
class _Product:
    """Columns of several mechanisms."""

    domain: SensitiveDomain
    tables: tuple[_ProductTable, ...]
    label: None = None


@dataclass(frozen=True)
class Randomization:
    """The mechanisms of a release, each for columns of its own."""

    mechanisms: tuple[Mechanism, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """All randomized columns."""
        return tuple(name for mechanism in self.mechanisms for name in mechanism.domain.names)

    def joint(self, names: Collection[str]) -> Channel:
        """Return what the randomized columns among these names, and those that go with them, were published by."""
        chosen = [m for m in self.mechanisms if set(m.domain.names) & set(names)] or list(self.mechanisms[:1])
        if len(chosen) == 1:
            return chosen[0]
        if any(mechanism.label for mechanism in chosen):
            raise UsageError(
                "Columns with sub-tables cannot be asked together with other randomized columns.",
                "Ask for them one by one.",
            )
        domain = SensitiveDomain(tuple(part for mechanism in chosen for part in mechanism.domain.parts))
        matrix = ProductMatrix(tuple(mechanism.matrix for mechanism in chosen))
        return _Product(domain, (_ProductTable(np.arange(domain.size, dtype=np.int32), matrix),))

    def are_independent(self, first: str, second: str) -> bool:
        """Whether the noise of two columns is independent given the record."""
        return not any({first, second} <= set(mechanism.domain.names) for mechanism in self.mechanisms)


def randomization_of(release: ReleaseFolder) -> Randomization:
    """Return how the release was randomized; raise if its manifest does not say it."""
    try:
        return Randomization(release.manifest.mechanism_values)
    except (ArithmeticError, IndexError, ValueError, UsageError) as problem:
        raise ReleaseError(
            f"The mechanism of {str(release.folder)!r} cannot be read: {problem}.",
            "Get the release anew from the publisher.",
        ) from None
