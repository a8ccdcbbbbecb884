"""Windows of neighbouring values beside the sets of a deck, as cards of one matrix, which few integers make up.

The m values have an order, with places from 0. There are two parts of outputs:

    windows     the places f, ..., f + w - 1, cut at both ends of the order;     f = 1 - w, ..., m - 1
    deck        the places (d + s) mod m, for all d of block b of k places;      b < B, s = 0, ..., m - 1

Every value lies in w windows and on B k cards of the deck. An output is drawn with W of 2^64 words if it holds the true
value, and with V if it does not, W and V of its part; what is left goes to the first outputs without it, a unit each:

    w W + (m - 1) V  +  B k W' + B (m - k) V'  +  left  =  2^64        for every value

W/V and W'/V' are at most gamma: V is rounded up, and W follows. Outputs that hold the same values are one card, whose
integers are their sums: of several ratios up to gamma no sum exceeds gamma. Cards are numbered by the places that they
hold: of two cards, the one that alone holds the first place in which they differ comes first.

All else is asked of the dense matrix; manifests hold the order, w, the blocks and the four integers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, IntArray, WordArray
from sfumato.values.matrix.dense import MOST_ENTRIES, DenseMatrix
from sfumato.values.matrix.retention import WORDS


def windows_held(m: int, width: int) -> BoolArray:
    """Return [window, place]: whether a window holds a place.

    >>> windows_held(3, 2).astype(int).tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1], [0, 0, 1]]
    """
    first, place = np.arange(1 - width, m)[:, None], np.arange(m)
    return np.asarray((first <= place) & (place < first + width))


def cards_held(m: int, blocks: npt.NDArray[np.integer]) -> BoolArray:
    """Return [card, place]: whether a shift of a block holds a place, the shifts of the first block first.

    >>> cards_held(3, np.array([[0, 1]])).astype(int).tolist()
    [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    """
    number, members = blocks.shape
    held = np.zeros((number * m, m), dtype=np.bool_)
    shifted = (blocks[:, None, :] + np.arange(m)[:, None]) % m
    np.put_along_axis(held, shifted.reshape(number * m, members).astype(np.int64), True, axis=1)
    return held


@dataclass(frozen=True, eq=False)
class Parts:
    """What makes up a matrix of windows; `inside` and `outside` are the words (W, W') and (V, V')."""

    order: tuple[int, ...]  # the codes of the values, from the lowest to the highest
    width: int
    blocks: tuple[tuple[int, ...], ...]  # places; none: there are windows alone
    inside: tuple[int, int]
    outside: tuple[int, int]

    def __post_init__(self) -> None:
        m = len(self.order)
        if m < 2 or sorted(self.order) != list(range(m)) or not 1 <= self.width <= m:
            raise ValueError("windows are of 1 to so many values, in an order of all")
        if len({len(block) for block in self.blocks}) > 1 or any(not _is_block(block, m) for block in self.blocks):
            raise ValueError("a deck has blocks of equally many places of the order")
        if m * (m + self.width - 1 + len(self.blocks) * m) > MOST_ENTRIES:
            raise ValueError(f"windows have at most {MOST_ENTRIES:,} entries")
        if not 0 <= self.left <= sum(self._without) or not all(
            0 <= v <= w for v, w in zip(self.outside, self.inside, strict=True)
        ):
            raise ValueError("the words of a column of the windows do not sum to 2^64")

    @classmethod
    def within(
        cls, order: Sequence[int], width: int, share: float, blocks: npt.NDArray[np.integer], gamma: Fraction
    ) -> Parts:
        """Return the parts whose entries differ by at most the factor gamma, exactly; `share`: of the windows.

        Raise `ValueError` if the words are too few for that.
        """
        m, cards = len(order), tuple(map(tuple, blocks.tolist()))
        first = math.floor(Fraction(share) * WORDS) if cards else WORDS
        inside, outside = [], []
        for words, (has, lacks) in zip((first, WORDS - first), _numbers(m, width, cards), strict=True):
            outside.append(math.ceil(words / (gamma * has + lacks)) if has else 0)
            inside.append((words - lacks * outside[-1]) // has if has else 0)
        return cls(tuple(order), width, cards, (inside[0], inside[1]), (outside[0], outside[1]))

    @property
    def left(self) -> int:
        """Words of a column beyond those of all outputs."""
        numbers = _numbers(len(self.order), self.width, self.blocks)
        return WORDS - sum(
            w * has + v * lacks for w, v, (has, lacks) in zip(self.inside, self.outside, numbers, strict=True)
        )

    @property
    def _without(self) -> tuple[int, ...]:
        return tuple(lacks for _, lacks in _numbers(len(self.order), self.width, self.blocks))

    def matrix(self) -> WindowsMatrix:
        """Return the matrix, each set of values once."""
        held, columns = self._outputs()
        outside, card = np.unique(~held, axis=0, return_inverse=True)
        joined = np.zeros(outside.shape, dtype=np.uint64)
        np.add.at(joined, card.ravel(), columns)
        place = np.argsort(self.order)  # of each code
        cards = tuple(tuple(np.flatnonzero(on).tolist()) for on in ~outside[:, place])
        return WindowsMatrix(joined[:, place].T, cards, parts=self)

    def _outputs(self) -> tuple[BoolArray, WordArray]:
        """Return which place each output holds, and the words of each output and place."""
        m = len(self.order)
        both = windows_held(m, self.width), cards_held(m, self._block_array)
        held = np.concatenate(both)
        words = np.concatenate([
            np.where(part, np.uint64(w), np.uint64(v))
            for part, w, v in zip(both, self.inside, self.outside, strict=True)
        ])  # fmt: skip
        words[~held & (np.cumsum(~held, axis=0) <= self.left)] += np.uint64(1)
        return held, words

    @property
    def _block_array(self) -> IntArray:
        return np.array(self.blocks or np.empty((0, 1)), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class WindowsMatrix(DenseMatrix):
    """The dense matrix of windows and sets, written by its parts."""

    parts: Parts = field(kw_only=True)

    def written(self) -> dict[str, Any]:
        parts = self.parts
        return {
            "windows": {
                "order": parts.order,
                "width": parts.width,
                "blocks": parts.blocks,
                "inside": list(map(str, parts.inside)),
                "outside": list(map(str, parts.outside)),
            }
        }

    @classmethod
    def read_parts(cls, raw: Any) -> WindowsMatrix:
        """Return what was written."""
        (inside, own), (outside, other) = (map(int, raw[key]) for key in ("inside", "outside"))
        blocks = tuple(tuple(map(int, block)) for block in raw["blocks"])
        order = tuple(map(int, raw["order"]))
        return Parts(order, int(raw["width"]), blocks, (inside, own), (outside, other)).matrix()


def _numbers(m: int, width: int, blocks: Sequence[Sequence[int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return how many outputs of each part hold a value, and how many do not."""
    on_deck = sum(map(len, blocks))
    return (width, m - 1), (on_deck, len(blocks) * m - on_deck)


def _is_block(block: Sequence[int], m: int) -> bool:
    return 0 < len(block) < m and min(block) >= 0 and max(block) < m and len(set(block)) == len(block)
