"""A matrix of classes of values that are treated alike: fine-grain noise for any number of values.

L classes. A value x of class a is published as each value y of class b with the weight T[b][a], and otherwise stays,
which the rest of its words do: K[a] = 2^64 - sum_b m_b T[b][a]. So P = diag(K) + T by classes, and the diagonal is
T[a][a] + K[a].

Everything follows from the L x L matrix of the classes: with d = K / 2^64, t = T / 2^64 and S = diag(d) + diag(m_b) t,

    P^-1 = diag(1/d) - U by classes,    U = diag(1/d) t S^-1

Rows of one class are alike but for the place of their own entry, so that exact ratios are looked for in O(L^2).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray, WordArray, array_of
from sfumato.values.matrix.base import Codes, Direction, Matrix
from sfumato.values.matrix.retention import WORDS

MOST_CLASSES = 64


def _largest(ratios: Iterable[tuple[int, int]]) -> Fraction | None:
    """Return the largest of some ratios of integers; None if one is infinite, 0/0 is none."""
    found = Fraction(0)
    for above, below in ratios:
        if above and not below:
            return None
        if above and above * found.denominator > below * found.numerator:
            found = Fraction(above, below)
    return found


@dataclass(frozen=True)
class _Worst:
    """The largest ratio of two entries of a row, None for infinity; the published value, and both true ones."""

    factor: Fraction | None
    published: int
    inside: int
    outside: int


@dataclass(frozen=True, eq=False)
class BlockMatrix(Matrix):
    """The class of each value, from 0, and the weights T as integers over 2^64: `weights[b][a]`, a row for each b."""

    classes: CodeArray
    weights: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        classes = np.array(self.classes, dtype=np.int32)
        levels = len(self.weights)
        if not 1 <= levels <= MOST_CLASSES or any(len(row) != levels for row in self.weights):
            raise ValueError(f"a matrix by classes has 1 to {MOST_CLASSES} of them, and a weight for each pair")
        if classes.size < 2 or set(np.unique(classes).tolist()) != set(range(levels)):
            raise ValueError("every class has a value, and every value a class")
        if min(map(min, self.weights)) < 0 or min(self._kept_weights(classes)) < 1:
            raise ValueError("a column of the matrix exceeds 2^64")
        classes.flags.writeable = False
        object.__setattr__(self, "classes", classes)

    @classmethod
    def from_floats(cls, classes: CodeArray, weights: FloatArray, noise: float) -> BlockMatrix:
        """Return integers not below (1 - noise) T + noise/m, by so little that the caller can check the bounds."""
        mixed = (1 - noise) * weights + noise / classes.size
        return cls(classes, tuple(tuple(math.ceil(Fraction(t) * WORDS) for t in row) for row in mixed.tolist()))

    def _kept_weights(self, classes: CodeArray) -> list[int]:
        sizes = np.bincount(classes).tolist()
        return [WORDS - sum(m * row[a] for m, row in zip(sizes, self.weights, strict=True)) for a in range(len(sizes))]

    @property
    def size(self) -> int:
        return int(self.classes.size)

    @property
    def outputs(self) -> int:
        return self.size

    @property
    def publishes_values(self) -> bool:
        return True

    @property
    def integers(self) -> bytes:
        words = np.array(self.weights, dtype=np.uint64).astype("<u8").tobytes()
        return b"blocks:" + self.classes.astype("<i4").tobytes() + words

    def written(self) -> dict[str, Any]:
        return {
            "blocks": {
                "classes": self.classes.tolist(),
                "weights": [list(map(str, row)) for row in self.weights],
            }
        }

    @classmethod
    def read(cls, raw: Any) -> BlockMatrix:
        """Return what was written."""
        weights = tuple(tuple(int(t) for t in row) for row in raw["weights"])
        return cls(array_of(raw["classes"], np.int32), weights)

    # --- by classes --------------------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> IntArray:
        """m_b, the number of values of each class."""
        return np.bincount(self.classes).astype(np.int64)

    @cached_property
    def _members(self) -> list[CodeArray]:
        return [np.flatnonzero(self.classes == a).astype(np.int32) for a in range(self.sizes.size)]

    @cached_property
    def _kept(self) -> list[int]:
        """K[a], the words that keep a value."""
        return self._kept_weights(self.classes)

    @cached_property
    def _spread(self) -> FloatArray:
        """t."""
        return np.array([[weight / WORDS for weight in row] for row in self.weights])

    @cached_property
    def _stays(self) -> FloatArray:
        """d."""
        return np.array([kept / WORDS for kept in self._kept])

    @cached_property
    def _own(self) -> FloatArray:
        """The diagonal, of each class."""
        return self._stays + self._spread.diagonal()

    @cached_property
    def _has_others(self) -> BoolArray:
        """[b, a]: whether class a has a value besides the one that is published, of class b."""
        return np.asarray(self.sizes[None, :] - np.eye(self.sizes.size, dtype=np.int64) > 0)

    def _by_class(self, x: FloatArray) -> FloatArray:
        """Return the sums over the values of each class."""
        return np.asarray(x @ self._indicator)

    @cached_property
    def _indicator(self) -> FloatArray:
        return np.asarray(np.eye(self.sizes.size)[self.classes])

    # --- entries ---------------------------------------------------------------------------------------------------

    @property
    def diagonal(self) -> FloatArray:
        return np.asarray(self._own[self.classes])

    def _extreme(self, largest: bool) -> FloatArray:
        """Return the largest or the least entry of the rows of each class."""
        others = np.where(self._has_others, self._spread, -np.inf if largest else np.inf)
        chosen = np.maximum(self._own, others.max(axis=1)) if largest else np.minimum(self._own, others.min(axis=1))
        return np.asarray(chosen)

    @cached_property
    def least_chance(self) -> FloatArray:
        return np.asarray(self._extreme(largest=False)[self.classes])

    @cached_property
    def most_chance(self) -> FloatArray:
        return np.asarray(self._extreme(largest=True)[self.classes])

    @property
    def noise_range(self) -> tuple[float, float]:
        others = self._spread[self._has_others]
        return float(others.min()), float(others.max())

    @property
    def pure_noise(self) -> FloatArray:
        least = np.minimum(self._own, np.where(self._has_others.T, self._spread, np.inf).min(axis=0))
        return np.asarray(self.size * least[self.classes])

    def weight(self, published: int, true: int) -> int:
        b, a = int(self.classes[published]), int(self.classes[true])
        return self.weights[b][a] + (self._kept[a] if published == true else 0)

    def chances(self, published: Codes, true: Codes) -> FloatArray:
        b, a = self.classes[published], self.classes[true]
        return np.asarray(self._spread[b, a] + np.where(published == true, self._stays[a], 0.0))

    def alike(self, first: Codes, second: Codes) -> FloatArray:
        """Return sum_b m_b t[b, a] t[b, a'], and what the entries that stay add."""
        t, d, a, b = self._spread, self._stays, self.classes[first], self.classes[second]
        together = (t.T * self.sizes) @ t
        kept = d[a] * t[a, b] + d[b] * t[b, a]
        return np.asarray(together[a, b] + kept + np.where(first == second, d[a] * d[b], 0.0))

    def likeliest(self, shares: FloatArray) -> FloatArray:
        most = np.array([shares[members].max() for members in self._members])
        return np.asarray(np.maximum((self._spread * most).max(axis=1)[self.classes], self.diagonal * shares))

    def dense(self) -> FloatArray:
        matrix = self._spread[np.ix_(self.classes, self.classes)]
        np.fill_diagonal(matrix, self.diagonal)
        return matrix

    # --- products and solutions ------------------------------------------------------------------------------------

    def apply(self, x: FloatArray) -> FloatArray:
        spread = self._by_class(x) @ self._spread.T
        return np.asarray(self._stays[self.classes] * x + spread[..., self.classes])

    def apply_at(self, x: FloatArray, rows: Codes, published: Codes) -> FloatArray:
        spread, classes = self._by_class(x) @ self._spread.T, self.classes[published]
        return np.asarray(self._stays[classes] * x[rows, published] + spread[rows, classes])

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        spread = self._by_class(y) @ self._spread
        return np.asarray(self._stays[self.classes] * y + spread[..., self.classes])

    def solve(self, observed: FloatArray) -> FloatArray:
        counts = np.linalg.solve(self._system, self._by_class(observed)[..., None])[..., 0]
        spread = counts @ self._spread.T
        return np.asarray((observed - spread[..., self.classes]) / self._stays[self.classes])

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        system = np.diag(self._stays) + self.sizes[:, None] * self._spread.T
        sums = np.linalg.solve(system, self._by_class(y)[..., None])[..., 0]
        spread = sums @ self._spread
        return np.asarray((y - spread[..., self.classes]) / self._stays[self.classes])

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        """Return the sums of U^2 o, with (1/d - U)^2 in place of U^2 for the value's own."""
        u = self._inverse_by_class
        own = (1 / self._stays - u.diagonal()) ** 2 - u.diagonal() ** 2
        spread = self._by_class(observed) @ (u**2).T
        return np.asarray(spread[..., self.classes] + own[self.classes] * observed)

    @cached_property
    def _system(self) -> FloatArray:
        """S."""
        return np.asarray(np.diag(self._stays) + self.sizes[:, None] * self._spread)

    @cached_property
    def _inverse_by_class(self) -> FloatArray:
        """U."""
        return np.asarray(np.linalg.solve(self._system.T, self._spread.T).T / self._stays[:, None])

    @cached_property
    def condition_number(self) -> float:
        """Of singular values: d[a] within a class of several values, and those of the classes' own matrix."""
        root = np.sqrt(self.sizes.astype(np.float64))
        between = np.linalg.svd(np.diag(self._stays) + np.outer(root, root) * self._spread, compute_uv=False)
        values = np.concatenate([between, self._stays[self.sizes > 1]])
        least, found = float(values.min()), float(values.max())
        return found / least if least > found * self.size * np.finfo(np.float64).eps else math.inf

    @property
    def is_invertible(self) -> bool:
        return math.isfinite(self.condition_number)

    @property
    def why_singular(self) -> str:
        return "" if self.is_invertible else "nothing in the release tells some of its values apart."

    # --- the guarantee, on the integers ------------------------------------------------------------------------------

    def upward(self, i: int) -> Fraction | None:
        return self._upward[int(self.classes[i])]

    def downward(self, i: int) -> Fraction | None:
        return self._downward[int(self.classes[i])]

    @cached_property
    def _upward(self) -> list[Fraction | None]:
        """Of a value of each class: all of them are alike."""
        return [
            _largest((own, self._beside(b, a, is_own)[0]) for b, own, is_own in self._column(a))
            for a in range(self.sizes.size)
        ]

    @cached_property
    def _downward(self) -> list[Fraction | None]:
        return [
            _largest((self._beside(b, a, is_own)[1], own) for b, own, is_own in self._column(a))
            for a in range(self.sizes.size)
        ]

    def _column(self, a: int) -> Iterator[tuple[int, int, bool]]:
        """Yield the entries of a value of class a, each with the class of its row, and whether it is its own row."""
        yield a, self.weights[a][a] + self._kept[a], True
        for b in range(self.sizes.size):
            if self._has_others[a, b]:
                yield b, self.weights[b][a], False

    def _beside(self, b: int, a: int, is_own: bool) -> tuple[int, int]:
        """Return the least and the largest entry of a row of class b, without one of a value of class a."""
        entries = [entry for entry, count, *slot in self._slots[b] if count > 1 or slot != [a, is_own]]
        return entries[0], entries[-1]

    @cached_property
    def _slots(self) -> list[list[tuple[int, int, int, bool]]]:
        """Of the rows of each class: entries in order, how many have each, their class, and whether it is the row's."""
        return [
            sorted(
                [
                    (row[b] + self._kept[b], 1, b, True),
                    *(
                        (row[a], size - (a == b), a, False)
                        for a, size in enumerate(self.sizes.tolist())
                        if size > (a == b)
                    ),
                ]
            )
            for b, row in enumerate(self.weights)
        ]

    def worst_case(self, i: int, direction: Direction) -> tuple[int, int]:
        worst = self._worst(np.arange(self.size) == i, direction == "downward")
        return worst.published, worst.outside if direction == "upward" else worst.inside

    def raised(self, inside: BoolArray) -> Fraction | None:
        return self._worst(inside).factor

    def _worst(self, inside: BoolArray, complement: bool = False) -> _Worst:
        """Return the largest ratio of an entry inside to one outside, over all rows."""
        inside = ~inside if complement else inside
        members = [[part[inside[part]] for part in self._members], [part[~inside[part]] for part in self._members]]
        found = _Worst(Fraction(0), 0, 0, 0)
        for b in range(self.sizes.size):
            for is_inside in (True, False):
                row = members[0 if is_inside else 1][b]
                if not row.size:
                    continue
                y = int(row[0])
                most = max(self._row(b, y, members[0]), default=None)
                least = min(self._row(b, y, members[1]), default=None)
                if most is None or least is None or not most[0]:
                    continue
                if not least[0]:
                    return _Worst(None, y, most[1], least[1])
                factor = Fraction(most[0], least[0])
                if found.factor is not None and factor > found.factor:
                    found = _Worst(factor, y, most[1], least[1])
        return found

    def _row(self, b: int, published: int, among: Sequence[CodeArray]) -> Iterator[tuple[int, int]]:
        """Yield the entries of a row, each with one of its values: of the published one, and of each class."""
        for a, values in enumerate(among):
            others = values[:2][values[:2] != published]
            if a == b and (values == published).any():
                yield self.weight(published, published), published
            if others.size:
                yield self.weights[b][a], int(others[0])

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        published = enumerate(int(members[0]) for members in self._members)
        rows = ([entry for entry, _ in self._row(b, y, self._members)] for b, y in published)
        return _largest((max(entries), min(entries)) for entries in rows)

    def equal_twice(self, i: int) -> Fraction | None:
        largest = Fraction(0)
        for b, members in enumerate(self._members):
            for y in {int(members[0]), int(members[-1]), *([i] if self.classes[i] == b else [])}:
                first, second = sorted(self._repeated(b))[:2]
                if not first * second:
                    return None
                largest = max(largest, Fraction(self.weight(y, i) * WORDS, first * second))
        return largest

    def _repeated(self, b: int) -> Iterator[int]:
        """Yield the entries of a row of class b, those that are there twice two times."""
        yield self.weights[b][b] + self._kept[b]
        for a, size in enumerate(self.sizes.tolist()):
            yield from [self.weights[b][a]] * min(2, size - (a == b))

    # --- sampling --------------------------------------------------------------------------------------------------

    def _drawn(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the published codes: m_b T[b][a] words for the values of class b, T[b][a] each; the others keep x."""
        starts, divisors, offsets, pool = self._sampling
        own, levels = self.classes.take(codes), self.sizes.size
        block = np.zeros(codes.size, dtype=np.int64)
        for b in range(1, levels + 1):
            block += words >= starts[b].take(own)
        cell = block * levels + own
        place = ((words - starts.ravel().take(cell)) // divisors.take(cell)).view(np.int64) + offsets.take(block)
        kept = block == levels
        place[kept] = 0
        return np.where(kept, codes, pool.take(place))

    @cached_property
    def _sampling(self) -> tuple[WordArray, WordArray, npt.NDArray[np.int64], CodeArray]:
        """The first word of each block and class (the last row: of those that keep), words a value, and the values."""
        levels = self.sizes.size
        starts = [[0] * levels]
        for size, row in zip(self.sizes.tolist(), self.weights, strict=True):
            starts.append([start + size * weight for start, weight in zip(starts[-1], row, strict=True)])
        divisors = [*(max(weight, 1) for row in self.weights for weight in row), *[1] * levels]
        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        return (
            np.array(starts, dtype=np.uint64),
            np.array(divisors, dtype=np.uint64),
            offsets.astype(np.int64),
            np.concatenate(self._members),
        )
