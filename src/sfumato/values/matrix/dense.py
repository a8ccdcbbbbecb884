"""A matrix of any columns: integers that sum to 2^64, drawn by alias tables in integers.

Alias tables. With 2^s >= m buckets of 2^(64-s) words each, a bucket k has a threshold t: words of the bucket whose low
bits are below t publish y_k, the others its *alias*. Buckets are filled in the order of their numbers from the values
that have too few words for theirs (light) and those that have too many (heavy); all columns are filled at once, a
bucket of each at a time. The words of every value add up to its integer exactly, so nothing is rounded.

Exact ratios. All ratios are computed in floating point first, with a relative error below 2^-51; those that may be the
largest are compared as fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, WordArray
from sfumato.values.matrix.base import Codes, Direction, Matrix
from sfumato.values.matrix.retention import DENSE_LIMIT, WORDS, largest_eigenvalue

MOST_VALUES = 2_000
MOST_ENTRIES = MOST_VALUES**2
"""Of a dense matrix: 32 MB."""

CLOSE = 1e-13
"""Ratios nearer to each other than this, relatively, are compared as fractions; floating point errs by 1e-15."""


Entry = TypeVar("Entry", bound=np.generic)


@dataclass(frozen=True, eq=False)
class DenseMatrix(Matrix):
    """A matrix of any columns, as integers over 2^64; `columns[i]` are those of the true value x_i.

    `cards` are the values of each output, ascending, where outputs are cards.
    """

    columns: WordArray  # [true, published]
    cards: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        columns = np.array(self.columns, dtype=np.uint64, order="C")  # a copy: the caller's array stays writeable
        if columns.ndim != 2 or min(columns.shape) < 2 or len(columns) > MOST_VALUES or columns.size > MOST_ENTRIES:
            raise ValueError(f"a dense matrix has 2 to {MOST_VALUES:,} values and at most {MOST_ENTRIES:,} entries")
        if len(self.cards or columns) != columns.shape[1]:
            raise ValueError("a dense matrix is square, or has a card for each output")
        if any(not card or card[0] < 0 or card[-1] >= len(columns) or not ascends(card) for card in self.cards):
            raise ValueError("a card has different values of the domain, in their order")
        for i, total in enumerate(_sums(columns)):
            if total != WORDS:
                raise ValueError(f"column {i + 1} of the matrix does not sum to 2^64")
        columns.flags.writeable = False
        object.__setattr__(self, "columns", columns)

    @classmethod
    def from_shares(cls, columns: Iterable[Sequence[int]]) -> DenseMatrix:
        """Return the integer matrix next to these columns, each of integers in proportion to its probabilities.

        Every entry is within one unit of 2^-64: what rounding down leaves goes to the largest remainders.

        >>> DenseMatrix.from_shares([(3, 1), (1, 2)]).weight(0, 1) - 2**64 // 3
        0
        """
        return cls(np.array([_scaled(column) for column in columns], dtype=np.uint64))

    @classmethod
    def from_floats(cls, matrix: FloatArray, noise: float, cards: tuple[tuple[int, ...], ...] = ()) -> DenseMatrix:
        """Return integers next to (1 - noise) P + noise/K, where P, [output, value], is right to floating point.

        What its columns lack of 2^64, or exceed it by, is spread evenly: each entry errs by a relative 1e-15, which a
        little noise makes up for in every bound (MATRICES, section 7). The caller checks the bounds exactly.
        """
        mixed = (1 - noise) * matrix.T + noise / len(matrix)
        columns = np.floor(mixed / mixed.sum(axis=1, keepdims=True) * WORDS).astype(np.uint64)
        for column, total in zip(columns, _sums(columns), strict=True):
            each, left = divmod(WORDS - total, column.size)
            column += np.uint64(each % WORDS)
            column[:left] += np.uint64(1)
        return cls(columns, cards)

    @property
    def size(self) -> int:
        return len(self.columns)

    @property
    def outputs(self) -> int:
        return int(self.columns.shape[1])

    @property
    def integers(self) -> bytes:
        """All columns, after a word that no other kind of matrix begins with."""
        return b"dense:" + self.columns.astype("<u8").tobytes() + repr(self.cards).encode() * bool(self.cards)

    @property
    def publishes_values(self) -> bool:
        return not self.cards

    def card(self, number: int) -> CodeArray:
        return np.array(self.cards[number] if self.cards else [number], dtype=np.int32)

    @property
    def card_sizes(self) -> tuple[int, int]:
        sizes = {len(card) for card in self.cards} or {1}
        return min(sizes), max(sizes)

    def holds(self, published: Codes, true: Codes) -> BoolArray:
        return np.asarray(self._on_card[true, published])

    @cached_property
    def _on_card(self) -> BoolArray:
        """[true, published]: whether the card holds the value, or is it."""
        if self.publishes_values:
            return np.eye(self.size, dtype=np.bool_)
        on = np.zeros(self.columns.shape, dtype=np.bool_)
        for number, card in enumerate(self.cards):
            on[list(card), number] = True
        return on

    @property
    def holds_truth(self) -> FloatArray:
        return np.asarray(np.where(self._on_card, self._transposed, 0.0).sum(axis=1))

    # --- entries ---------------------------------------------------------------------------------------------------

    def weight(self, published: int, true: int) -> int:
        return int(self.columns[true, published])

    @cached_property
    def _transposed(self) -> FloatArray:
        """P^T."""
        return self.columns.astype(np.float64) / WORDS

    def dense(self) -> FloatArray:
        return self._transposed.T.copy()

    def written(self) -> dict[str, Any]:
        columns = [list(map(str, column)) for column in self.columns.tolist()]
        return {"columns": columns} | ({"cards": self.cards} if self.cards else {})

    @classmethod
    def read(cls, columns: Any, cards: Any = None) -> DenseMatrix:
        """Return what was written."""
        weights = np.array([[int(weight) for weight in column] for column in columns], dtype=np.uint64)
        return cls(weights, tuple(map(tuple, cards or ())))

    @property
    def diagonal(self) -> FloatArray:
        return self._transposed.diagonal().copy() if self.publishes_values else super().diagonal

    @cached_property
    def least_chance(self) -> FloatArray:
        return np.asarray(self._transposed.min(axis=0))

    @cached_property
    def most_chance(self) -> FloatArray:
        return np.asarray(self._transposed.max(axis=0))

    @property
    def noise_range(self) -> tuple[float, float]:
        others = self._transposed[~np.eye(self.size, dtype=np.bool_)]
        return float(others.min()), float(others.max())

    @property
    def pure_noise(self) -> FloatArray:
        return np.asarray(self._transposed.min(axis=1) * self.outputs)

    def chances(self, published: Codes, true: Codes) -> FloatArray:
        return np.asarray(self._transposed[true, published])

    def alike(self, first: Codes, second: Codes) -> FloatArray:
        return np.asarray(self._alike[first, second])

    @cached_property
    def _alike(self) -> FloatArray:
        return np.asarray(self._transposed @ self._transposed.T)

    def likeliest(self, shares: FloatArray) -> FloatArray:
        best: FloatArray = (self._transposed * shares[:, None]).max(axis=0)
        return best

    # --- products and solutions ------------------------------------------------------------------------------------

    def apply(self, x: FloatArray) -> FloatArray:
        return np.asarray(x @ self._transposed)

    def apply_at(self, x: FloatArray, rows: Codes, published: Codes) -> FloatArray:
        return np.asarray(self.apply(x)[rows, published])

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        return np.asarray(y @ self._transposed.T)

    def solve(self, observed: FloatArray) -> FloatArray:
        """Return P^-1 o, with one step of refinement."""
        inverse = self._inverse.T
        x = observed @ inverse
        return np.asarray(x + (observed - self.apply(x)) @ inverse)

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        x = y @ self._inverse
        return np.asarray(x + (y - self.apply_transposed(x)) @ self._inverse)

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        return np.asarray(observed @ (self._inverse**2).T)

    def uncorrected(self, observed: FloatArray) -> FloatArray:
        return np.asarray(observed @ (self._on_card / self._on_card.sum(axis=0)).T)

    @cached_property
    def _inverse(self) -> FloatArray:
        """A, [value, output]."""
        if self.outputs == self.size:
            return np.asarray(np.linalg.inv(self._transposed.T), dtype=np.float64)
        scaled = self._scaled_rows
        information = scaled @ scaled.T
        return np.asarray(np.linalg.solve(information, scaled / np.sqrt(self._transposed.sum(axis=0))))

    @property
    def _scaled_rows(self) -> FloatArray:
        """P^T D^-1/2: P^T alone where the matrix is square, since its inverse is what it is."""
        if self.outputs == self.size:
            return self._transposed
        return np.asarray(self._transposed / np.sqrt(self._transposed.sum(axis=0)))

    @cached_property
    def condition_number(self) -> float:
        """Of P, or of D^-1/2 P where there are more outputs than values: P^-1 o is not asked for then."""
        if self.outputs < self.size:
            return math.inf
        small = self.size <= DENSE_LIMIT
        found = float(np.linalg.cond(self._scaled_rows)) if small else self._estimated_condition()
        return found if found * self.size * np.finfo(np.float64).eps < 1 else math.inf

    def _estimated_condition(self) -> float:
        try:
            inverse = self._inverse
        except np.linalg.LinAlgError:
            return math.inf
        weight = 1.0 if self.outputs == self.size else self._transposed.sum(axis=0)
        largest = largest_eigenvalue(lambda v: self.apply_transposed(self.apply(v) / weight), self.size)
        smallest = largest_eigenvalue(lambda v: np.asarray(inverse @ (weight * (inverse.T @ v))), self.size)
        return math.sqrt(largest * smallest)

    @property
    def is_invertible(self) -> bool:
        return math.isfinite(self.condition_number)

    @property
    def why_singular(self) -> str:
        return "" if self.is_invertible else "nothing in the release tells some mixtures of its values apart."

    # --- the guarantee, on the integers ------------------------------------------------------------------------------

    def upward(self, i: int) -> Fraction | None:
        return self._upward[i].factor

    def downward(self, i: int) -> Fraction | None:
        return self._downward[i].factor

    def worst_case(self, i: int, direction: Direction) -> tuple[int, int]:
        upward = direction == "upward"
        y = (self._upward if upward else self._downward)[i].at
        order = self._order[:, y]
        first, second = order[:2] if upward else order[:-3:-1]
        return y, int(second if first == i else first)

    def raised(self, inside: BoolArray) -> Fraction | None:
        return _largest(self.columns[inside].max(axis=0), self.columns[~inside].min(axis=0)).factor

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        return _largest(self.columns.max(axis=0), self.columns.min(axis=0)).factor

    def largest_step(self, order: Sequence[int], steps: int = 1) -> Fraction | None:
        near = [over_windows(self.columns[list(order)], steps + 1, extreme) for extreme in (np.maximum, np.minimum)]
        return _largest(*(entries.ravel() for entries in near)).factor

    def equal_twice(self, i: int) -> Fraction | None:
        found = _largest(self.columns[i], *np.take_along_axis(self.columns, self._order[:2], axis=0))
        return None if found.factor is None else found.factor * WORDS

    @cached_property
    def _order(self) -> npt.NDArray[np.intp]:
        """[rank, published]: the true values by their entries in the row of each published value, smallest first."""
        return np.argsort(self.columns, axis=0, kind="stable")

    @cached_property
    def _upward(self) -> list[_Largest]:
        first, second = self._order[:2]
        return [_largest(self.columns[i], self._entries(np.where(first == i, second, first))) for i in range(self.size)]

    @cached_property
    def _downward(self) -> list[_Largest]:
        first, second = self._order[:-3:-1]
        return [_largest(self._entries(np.where(first == i, second, first)), self.columns[i]) for i in range(self.size)]

    def _entries(self, true: npt.NDArray[np.intp]) -> WordArray:
        """Return of each row the entry of one true value."""
        return self.columns[true, np.arange(self.outputs)]

    # --- sampling --------------------------------------------------------------------------------------------------

    def _drawn(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the published codes, each by its word: the leading bits choose a bucket, the others its value."""
        bits, thresholds, alias = self._alias
        bucket = (words >> np.uint64(64 - bits)).view(np.int64)
        place = (codes.astype(np.int64) << bits) | bucket
        own = (words & np.uint64(2 ** (64 - bits) - 1)) < thresholds.take(place)
        return np.where(own, bucket, alias.take(place)).astype(np.int32)

    @cached_property
    def _alias(self) -> tuple[int, WordArray, CodeArray]:
        """s, and the thresholds and aliases of all buckets, column after column."""
        bits = (self.outputs - 1).bit_length()
        weights = np.zeros((self.size, 2**bits), dtype=np.uint64)
        weights[:, : self.outputs] = self.columns
        thresholds, alias = alias_tables(weights, np.uint64(2 ** (64 - bits)))
        return bits, thresholds.ravel(), alias.ravel()


def over_windows(entries: npt.NDArray[Entry], width: int, extreme: np.ufunc) -> npt.NDArray[Entry]:
    """Return the extreme of every window of so many rows, or of all rows where they are fewer, by doubling.

    >>> over_windows(np.array([[3], [1], [4], [1], [5]]), 3, np.maximum).ravel().tolist()
    [4, 4, 5]
    """
    found, rows = entries, 1
    while rows < min(width, len(entries)):
        step = min(rows, width - rows, len(found) - 1)
        found, rows = extreme(found[:-step], found[step:]), rows + step
    return found


def joined_cards(columns: WordArray, cards: Sequence[tuple[int, ...]]) -> DenseMatrix:
    """Return the matrix in which cards that hold the same values are one; columns: [true, card] of all of them."""
    distinct = sorted(set(cards))
    place = {card: number for number, card in enumerate(distinct)}
    joined = np.zeros((len(columns), len(distinct)), dtype=np.uint64)
    for number, card in enumerate(cards):
        joined[:, place[card]] += columns[:, number]
    return DenseMatrix(joined, tuple(distinct))


def ascends(numbers: Sequence[int]) -> bool:
    """Whether each number is above the one before it."""
    return all(one < other for one, other in pairwise(numbers))


def _sums(columns: WordArray) -> list[int]:
    """Return the sum of each column, exactly."""
    low, high = columns & np.uint64(2**32 - 1), columns >> np.uint64(32)
    return [a + b * 2**32 for a, b in zip(low.sum(axis=1).tolist(), high.sum(axis=1).tolist(), strict=True)]


def alias_tables(weights: WordArray, capacity: np.uint64) -> tuple[WordArray, CodeArray]:
    """Return thresholds and aliases of columns whose weights sum to the capacity times the buckets: [column, bucket].

    Light values are those with at most the capacity. A step fills a bucket of every column: that of the next light
    value, or of the current heavy one once it has no more than a bucket holds.
    """
    columns, buckets = weights.shape
    every = np.arange(columns)
    order = np.argsort(weights > capacity, axis=1, kind="stable")  # light ones first
    lights = (weights <= capacity).sum(axis=1)
    thresholds = np.minimum(weights, capacity)
    alias = np.tile(np.arange(buckets, dtype=np.int32), (columns, 1))
    light, heavy = np.zeros(columns, dtype=np.int64), lights.copy()
    current = order[every, np.minimum(heavy, buckets - 1)]
    rest = np.where(heavy < buckets, weights[every, current], capacity)
    for _ in range(buckets):
        fills = (rest > capacity) & (light < lights)
        at = every[fills]
        filled = order[at, light[fills]]
        alias[at, filled] = current[fills]
        rest[fills] -= capacity - weights[at, filled]
        light[fills] += 1
        ends = ~fills & (heavy + 1 < buckets)
        at, ended = every[ends], current[ends]
        heavy[ends] += 1
        current[ends] = order[at, heavy[ends]]
        thresholds[at, ended], alias[at, ended] = rest[ends], current[ends]
        rest[ends] = weights[at, current[ends]] - (capacity - rest[ends])
    return thresholds, alias


@dataclass(frozen=True)
class _Largest:
    """The largest of several ratios, None for infinity, and where it is."""

    factor: Fraction | None
    at: int


def _largest(above: WordArray, *below: WordArray) -> _Largest:
    """Return the largest ratio of two integers, or of one and the product of two; 0/0 is none."""
    product = np.prod([part.astype(np.float64) for part in below], axis=0)
    with np.errstate(divide="ignore"):
        ratios = np.divide(above, product, out=np.zeros(above.size), where=above > 0)
    best = float(ratios.max())
    if math.isinf(best):
        return _Largest(None, int(ratios.argmax()))
    close = np.flatnonzero(ratios >= best * (1 - CLOSE))
    over = above[close].tolist()
    under = [math.prod(parts) for parts in zip(*(part[close].tolist() for part in below), strict=True)]
    most = 0
    for at in range(1, len(over)):  # by products of integers: a fraction would be reduced first
        if over[at] * under[most] > over[most] * under[at]:
            most = at
    return _Largest(Fraction(over[most], under[most]), int(close[most]))


def _scaled(column: Sequence[int]) -> list[int]:
    """Return integers in proportion that sum to 2^64."""
    total = sum(column)
    if total <= 0 or min(column) < 0:
        raise ValueError("the entries of a column are not negative, nor all zero")
    scaled = [entry * WORDS // total for entry in column]
    left = WORDS - sum(scaled)
    remainders = [entry * WORDS % total for entry in column]
    for j in sorted(range(len(column)), key=remainders.__getitem__, reverse=True)[:left]:
        scaled[j] += 1
    if max(scaled) == WORDS:
        raise ValueError("a column leaves one value only: the published value is certain")
    return scaled
