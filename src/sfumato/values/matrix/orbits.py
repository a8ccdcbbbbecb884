"""Orbits of cards by classes of values: where the cards of a graded deck are, and what they tell, angle by angle.

The values of class l stand on a ring of M_l places. An orbit has B blocks, each a set of places of every ring. Its
cards are the blocks turned by s = 0 .. T - 1, where T is the least common multiple of the rings of which a block has
some places and not all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, FloatArray, IntArray

Complex = npt.NDArray[np.complex128]


@dataclass(frozen=True, eq=False)
class CardOrbit:
    """Blocks of places of each class, [block, place], ascending; None: all of the class. The words of W and V."""

    blocks: tuple[npt.NDArray[np.int32] | None, ...]
    inside: tuple[int, ...]
    outside: tuple[int, ...]

    @cached_property
    def number(self) -> int:
        """B; 1 where whole classes are all there is."""
        return max((len(blocks) for blocks in self.blocks if blocks is not None), default=1)

    def turns(self, rings: tuple[int, ...]) -> int:
        """T: the least common multiple of the rings of which a block has some places."""
        held = zip(rings, self.blocks, strict=True)
        return math.lcm(*(ring for ring, blocks in held if blocks is not None and blocks.shape[1]))


@dataclass(frozen=True, eq=False)
class Shape:
    """Where the cards of each orbit are; of a class that an orbit does not split, the ring is one place."""

    number: IntArray  # B, [orbit]
    period: IntArray  # T, [orbit]
    ring: IntArray  # [orbit, class]: M_l, or 1
    turns: IntArray  # T / ring
    held: IntArray  # [orbit, class]: how many cards hold a value
    lacked: IntArray
    start: IntArray  # [orbit, class]: where its blocks start in `on`
    on: BoolArray  # all blocks of all rings, one after the other: whether a place is on the block
    off_rank: IntArray  # how many places of the orbit's and class's blocks before this one are not

    @classmethod
    def of(cls, rings: tuple[int, ...], orbits: list[CardOrbit] | tuple[CardOrbit, ...]) -> Shape:
        ring = np.ones((len(orbits), len(rings)), dtype=np.int64)
        for o, orbit in enumerate(orbits):
            for a, blocks in enumerate(orbit.blocks):
                if blocks is not None and blocks.shape[1]:
                    ring[o, a] = rings[a]
        period = np.array([orbit.turns(rings) for orbit in orbits], dtype=np.int64)
        number = np.array([orbit.number for orbit in orbits], dtype=np.int64)
        on, off_rank, start, held, at = [], [], np.empty_like(ring), np.empty_like(ring), 0
        for o, orbit in enumerate(orbits):
            for a, blocks in enumerate(orbit.blocks):
                own = np.full((orbit.number, ring[o, a]), blocks is None)
                if blocks is not None:
                    np.put_along_axis(own, blocks.astype(np.int64), True, axis=1)
                flat = own.ravel()
                on.append(flat)
                off_rank.append(np.cumsum(~flat) - ~flat)
                start[o, a], at = at, at + flat.size
                held[o, a] = int(flat.sum()) * (period[o] // ring[o, a])
        turns = period[:, None] // ring
        lacked = (number * period)[:, None] - held
        return cls(number, period, ring, turns, held, lacked, start, np.concatenate(on), np.concatenate(off_rank))

    def indicators(self, o: int, a: int) -> BoolArray:
        """Return whether each place is on each block, [block, place]."""
        first, ring = int(self.start[o, a]), int(self.ring[o, a])
        return self.on[first : first + int(self.number[o]) * ring].reshape(-1, ring)

    @cached_property
    def _transforms(self) -> dict[tuple[int, int], Complex]:
        return {}

    def transform(self, o: int, a: int) -> Complex:
        """F of the blocks, [block, frequency]."""
        if (o, a) not in self._transforms:
            self._transforms[o, a] = np.fft.rfft(self.indicators(o, a).astype(np.float64), axis=1)
        return self._transforms[o, a]


def folded_to(cards: FloatArray | BoolArray, ring: int) -> FloatArray:
    """Return the sums over all that lie on the same place of a smaller ring, along the last axis."""
    return np.asarray(cards.reshape(*cards.shape[:-1], cards.shape[-1] // ring, ring).sum(axis=-2, dtype=np.float64))


def shared_angles(rings: tuple[int, ...]) -> list[IntArray]:
    """Return numbers of the angles 0, 1/M, ..., 1/2 of each ring: the same for the same angle."""
    whole = math.lcm(*rings)
    turned = [np.arange(ring // 2 + 1, dtype=np.int64) * (whole // ring) for ring in rings]
    _, number = np.unique(np.concatenate(turned), return_inverse=True)
    return [part.astype(np.int64) for part in np.split(number, np.cumsum([each.size for each in turned])[:-1])]


def information(
    rings: tuple[int, ...], shape: Shape, outside: FloatArray, gain: FloatArray, scale: FloatArray
) -> Complex:
    """Return K, [angle, class, class], of cards whose entries are `outside` and, on them, `gain` more; scale: 1/D."""
    angles = shared_angles(rings)
    found = np.zeros((max(int(each.max()) for each in angles) + 1, len(rings), len(rings)), dtype=np.complex128)
    for o in range(shape.number.size):
        rows = np.zeros((int(shape.number[o]), len(found), len(rings)), dtype=np.complex128)
        for a, ring in enumerate(rings):
            if shape.ring[o, a] > 1:
                rows[:, angles[a], a] = gain[o, a] / math.sqrt(ring) * shape.transform(o, a)
            rows[:, 0, a] += outside[o, a] * math.sqrt(ring)
        found += float(scale[o] * shape.period[o]) * np.einsum("bfi,bfj->fij", rows, rows.conj())
    return found
