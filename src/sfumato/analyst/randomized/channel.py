"""What an analyst has to invert: how the randomized columns that a question is about came to be published.

A release has one mechanism, or several that randomize different columns independently of each other. A question needs
those of its own columns only: marginalise first, correct only what is asked.

Of a sub-table with the matrix P the published value y counts with the weight a(y), a = P^-T phi, for a set phi of
values: E[a(y)] = phi(x). Cells are disjoint sets of values. Where values have scores, phi is the score inside the cell.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np

from sfumato.errors import ReleaseError, SingularMatrix, UsageError
from sfumato.release.folder import ReleaseFolder
from sfumato.release.manifest import MechanismPart
from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.matrix.base import Estimable
from sfumato.values.matrix.product import ProductMatrix
from sfumato.values.matrix.retention import WORDS
from sfumato.values.mechanism import Mechanism

CONDITION_LIMIT = 1e9
"""Above this condition number half of the 16 digits of an estimate are rounding error."""

HINT = 'Ask for the likelihood estimate (method "em"): it needs no inverse.'


class ChannelTable(Protocol):
    """The values of a sub-table, by their codes, and its matrix."""

    @property
    def codes(self) -> CodeArray:
        """Codes of the domain, ascending."""

    @property
    def matrix(self) -> Estimable:
        """For these values."""


@dataclass(frozen=True, eq=False)
class Channel:
    """Randomized columns, and the matrices of their sub-tables; most releases have one."""

    domain: SensitiveDomain
    tables: tuple[ChannelTable, ...]
    published: SensitiveDomain  # what the columns hold: values of the domain, or cards
    label: str | None = None  # the column that tells the sub-table of a row

    def require_inverse(self) -> None:
        """Raise SingularMatrix if some matrix cannot be inverted."""
        for table in self.tables:
            require_invertible(table.matrix)


@dataclass(frozen=True, eq=False)
class _ProductTable:
    codes: CodeArray
    matrix: ProductMatrix


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
            return Channel(chosen[0].domain, chosen[0].tables, chosen[0].published, chosen[0].label)
        if any(mechanism.label for mechanism in chosen):
            raise UsageError(
                "Columns with sub-tables cannot be asked together with other randomized columns.",
                "Ask for them one by one.",
            )
        domain = SensitiveDomain(tuple(part for mechanism in chosen for part in mechanism.domain.parts))
        published = SensitiveDomain(tuple(part for mechanism in chosen for part in mechanism.published.parts))
        matrix = ProductMatrix(tuple(mechanism.matrix for mechanism in chosen))
        return Channel(domain, (_ProductTable(np.arange(domain.size, dtype=np.int32), matrix),), published)

    def are_independent(self, first: str, second: str) -> bool:
        """Whether the noise of two columns is independent given the record."""
        return not any({first, second} <= set(mechanism.domain.names) for mechanism in self.mechanisms)


def randomization_of(release: ReleaseFolder) -> Randomization:
    """Return how the release was randomized; raise if its manifest does not say it."""
    try:
        return _read(_Stated(release.manifest.mechanisms))
    except (ArithmeticError, IndexError, ValueError, UsageError) as problem:
        raise ReleaseError(
            f"The mechanism of {str(release.folder)!r} cannot be read: {problem}.",
            "Get the release anew from the publisher.",
        ) from None


@dataclass(frozen=True, eq=False)
class _Stated:
    """The mechanisms of a manifest as a key of the cache: the same ones, not others that are alike."""

    mechanisms: tuple[MechanismPart, ...]

    def __hash__(self) -> int:
        return id(self.mechanisms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Stated) and self.mechanisms is other.mechanisms


@lru_cache(maxsize=4)
def _read(stated: _Stated) -> Randomization:
    """Return the mechanisms with their matrices; inverses that these keep serve all questions about one release."""
    mechanisms = tuple(part.value for part in stated.mechanisms)
    for mechanism in mechanisms:
        _ = mechanism.published  # raises where two cards would be written alike
    return Randomization(mechanisms)


def is_usable(matrix: Estimable) -> bool:
    """Whether P^-1 o exists and is more than rounding error."""
    return matrix.is_invertible and matrix.condition_number <= CONDITION_LIMIT


def require_invertible(matrix: Estimable) -> None:
    """Raise SingularMatrix if P^-1 o does not exist, or would be all rounding error."""
    if matrix.why_singular:
        raise SingularMatrix(f"The perturbation matrix has no inverse: {matrix.why_singular}", HINT)
    if matrix.condition_number > CONDITION_LIMIT:
        raise SingularMatrix(
            f"The inverse of the perturbation matrix is numerically worthless: its condition number is "
            f"{matrix.condition_number:.1e}, above {CONDITION_LIMIT:.0e}.",
            HINT,
        )


# --- the weights of published values ----------------------------------------------------------------------------------


class Weights(Protocol):
    """The weights of one sub-table's classes for cells; `sums` are [rows, classes], results [rows, cells]."""

    @property
    def least_chance(self) -> FloatArray:
        """The probability with which each class is published, whatever the records have."""

    def totals(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a."""

    def squares(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a^2."""

    def crossed(self, sums: FloatArray, other: Weights) -> FloatArray:
        """Return the sums of s a a', where a' are the weights of the same cells under other scores."""

    def products(self, sums: FloatArray, part: IntArray) -> FloatArray:
        """Return the sums of s a b, where b are the weights of all cells with the same number in `part`."""

    def by_class(self) -> FloatArray:
        """Return the weights, [classes, cells]."""

    def inside(self, sums: FloatArray) -> FloatArray:
        """Return the sums over the classes that lie in each cell."""


@dataclass(frozen=True, eq=False)
class ValueWeights(Weights):
    """Every value is a class. `cells` has the cell of each value, -1 where the condition excludes it."""

    matrix: Estimable
    cells: IntArray
    size: int
    score: FloatArray | None = None  # of each value; None: 1

    @property
    def least_chance(self) -> FloatArray:
        return self.matrix.least_chance

    def totals(self, sums: FloatArray) -> FloatArray:
        """Return P^-1 s, times the scores, added up over the values of each cell."""
        if self._is_whole:
            return self._whole(sums)
        solved = self.matrix.solve(sums)
        return self.collected(solved if self.score is None else solved * self.score)

    def squares(self, sums: FloatArray) -> FloatArray:
        """Return the sums of s a^2; cells that join several values need their weights one by one."""
        if self._is_whole:
            return self._whole(sums)
        if self.score is None and self._used.size == np.unique(self.cells[self._used]).size:
            return self.collected(self.matrix.inverse_squared_apply(sums))
        squares = np.zeros((len(sums), self.size))
        for cell in np.unique(self.cells[self._used]).tolist():
            squares[:, cell] = sums @ self._weights(self.cells == cell) ** 2
        return squares

    def crossed(self, sums: FloatArray, other: Weights) -> FloatArray:
        assert isinstance(other, ValueWeights)
        crossed = np.zeros((len(sums), self.size))
        for cell in np.unique(self.cells[self._used]).tolist():
            inside = self.cells == cell
            crossed[:, cell] = sums @ (self._weights(inside) * other._weights(inside))
        return crossed

    def products(self, sums: FloatArray, part: IntArray) -> FloatArray:
        """Return the sums of s a b: b is the same for all cells of a part."""
        of_value = np.where(self.cells >= 0, part[self.cells], -1)
        products = np.zeros((len(sums), self.size))
        for number in np.unique(of_value[of_value >= 0]).tolist():
            inside = of_value == number
            products[:, part == number] = self.totals(sums * self._weights(inside))[:, part == number]
        return products

    def at_most(
        self, place: IntArray, places: int, most: int
    ) -> Iterator[tuple[int, IntArray, FloatArray, FloatArray]]:
        """Yield for each cell some marks, the weights of its values at or below each, and those of all with a place.

        `place` has the place of each value, -1 for none. Weights are [marks, classes], `most` numbers or one mark at a
        time; those of the last mark are those of all.
        """
        step = max(1, most // self.cells.size)
        for cell in np.unique(self.cells[self._used]).tolist():
            inside = (self.cells == cell) & (place >= 0)
            whole = self._weights(inside)
            for first in range(0, places - 1, step):
                marks = np.arange(first, min(first + step, places - 1))
                below = inside & (place <= marks[:, None])
                yield cell, marks, self.matrix.solve_transposed(below.astype(np.float64)), whole
            yield cell, np.array([places - 1]), whole[None, :], whole

    def by_class(self) -> FloatArray:
        return self.totals(np.eye(self.matrix.outputs))

    def inside(self, sums: FloatArray) -> FloatArray:
        return self.collected(self.matrix.uncorrected(sums))

    @cached_property
    def _used(self) -> IntArray:
        return np.flatnonzero(self.cells >= 0)

    @property
    def _is_whole(self) -> bool:
        """Whether all values are in one cell and count alike: then every weight is one, without any rounding."""
        return bool(self.score is None and self.cells[0] >= 0 and (self.cells == self.cells[0]).all())

    def _whole(self, sums: FloatArray) -> FloatArray:
        whole = np.zeros((len(sums), self.size))
        whole[:, self.cells[0]] = sums.sum(axis=1)
        return whole

    def _weights(self, values: BoolArray) -> FloatArray:
        if self.score is not None:
            return self.matrix.solve_transposed(np.where(values, self.score, 0.0))
        if values.all():
            return np.ones(self.matrix.outputs)
        return self.matrix.solve_transposed(values.astype(np.float64))

    def collected(self, numbers: FloatArray) -> FloatArray:
        """Return the numbers added up over the values of each cell."""
        used, cells = self._used, self.cells[self._used]
        collected = np.zeros((len(numbers), self.size))
        if not used.size:
            return collected
        if (np.diff(cells) > 0).all():
            collected[:, cells] = numbers[:, used]
            return collected
        order = np.argsort(cells, kind="stable")
        present, first = np.unique(cells[order], return_index=True)
        collected[:, present] = np.add.reduceat(numbers[:, used[order]], first, axis=1)
        return collected


@dataclass(frozen=True, eq=False)
class ClassWeights(Weights):
    """Few classes and one cell: the weights are given."""

    weights: FloatArray
    chance: FloatArray

    @property
    def least_chance(self) -> FloatArray:
        return self.chance

    def totals(self, sums: FloatArray) -> FloatArray:
        return (sums @ self.weights)[:, None]

    def squares(self, sums: FloatArray) -> FloatArray:
        return (sums @ self.weights**2)[:, None]

    def crossed(self, sums: FloatArray, other: Weights) -> FloatArray:
        return self.squares(sums)

    def products(self, sums: FloatArray, part: IntArray) -> FloatArray:
        return self.squares(sums)

    def by_class(self) -> FloatArray:
        return self.weights[:, None]

    def inside(self, sums: FloatArray) -> FloatArray:
        return sums[:, :1]


def chosen_weights(table: ChannelTable, selected: BoolArray) -> ClassWeights:
    """Return the weights of {selected, not selected} under a uniform matrix.

    With k values selected, a = (1 - k q)/p for these and -k q/p for the others.
    """
    retention, noise = table.matrix.retention, table.matrix.uniform_noise
    assert retention is not None
    assert noise is not None
    p, q, k = float(retention[0]), noise / WORDS, int(selected.sum())
    if k == selected.size:
        return ClassWeights(np.ones(2), np.array([1.0, 0.0]))
    return ClassWeights(np.array([1 - k * q if k else 0.0, -k * q]) / p, np.array([k * q, (selected.size - k) * q]))
