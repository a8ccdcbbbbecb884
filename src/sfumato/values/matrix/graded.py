"""A graded deck: cards whose chances depend on the class of the true value, and on whether they hold it.

Values are in L classes; the values of class l stand on a ring of M_l >= m_l places, in their order, and the last places
of a ring may be empty. Cards are of a few *orbits*. Orbit o has B blocks, each a set of k_l places of every ring. Card
(b, s) of the orbit is block b with all rings turned by s: it holds the values on the places (d + s) mod M_l. s runs
over all residues of T, the least common multiple of the rings of which a block has some places and not all, so that
every value of a class is on as many cards of an orbit as any other. A record of class l draws

    P[card, x] = W[o][l] / 2^64 if x is on the card, else V[o][l] / 2^64 (or one unit more, to use all words up)

The bounds on odds follow from the W and V of each orbit, exactly. (Where a ring has empty places, every card that holds
some of the class holds two values of it, and lacks two.)

All of P is convolution on the rings. With D[o] = sum_x P[card, x], the same for all cards of an orbit, and F_bl the
Fourier transform of a block on ring l, J = P^T D^-1 P has for each angle an L x L matrix,

    K[l, l'] = sum_o T/D[o] sum_b (W-V)[o][l] (W-V)[o][l'] F_bl conj(F_bl') / sqrt(M_l M_l')

in which two classes meet at the angles that both rings have. A = J^-1 P^T D^-1 is the estimator of least variance at
equal counts, but for empty places, which it takes for values that might occur; what their estimates add to the sum is
shared out among the values, so that estimates sum to the records.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, IntArray, WordArray, array_of
from sfumato.values.matrix.base import SAMPLE_BLOCK, Codes, Direction
from sfumato.values.matrix.deck import MOST_CARDS, SINGULAR, CardMatrix, best_of_cards
from sfumato.values.matrix.orbits import CardOrbit, Complex, Shape, folded_to, information, shared_angles
from sfumato.values.matrix.retention import WORDS


class _Entries(NamedTuple):
    """The entries of a row for the values of a class that a card holds, or lacks: the least and the largest integer."""

    of_class: int
    is_inside: bool
    least: int
    most: int
    values: int  # how many there are at least


@dataclass(frozen=True, eq=False)
class GradedMatrix(CardMatrix):
    """The class of each value, from 0, the ring of each class, and the orbits of cards."""

    classes: CodeArray
    rings: tuple[int, ...]
    orbits: tuple[CardOrbit, ...]

    def __post_init__(self) -> None:
        classes = np.array(self.classes, dtype=np.int32)
        classes.flags.writeable = False
        object.__setattr__(self, "classes", classes)
        if classes.size < 2 or set(np.unique(classes).tolist()) != set(range(len(self.rings))):
            raise ValueError("every class of a graded deck has a value, and every value a class")
        if any(ring < size for ring, size in zip(self.rings, self.sizes.tolist(), strict=True)):
            raise ValueError("a ring has a place for each value of its class")
        for orbit in self.orbits:
            self._check(orbit)
        cards = sum(orbit.number * orbit.turns(self.rings) for orbit in self.orbits)  # before anything is made of them
        if not 1 <= cards <= MOST_CARDS or max(self.rings) > MOST_CARDS:
            raise ValueError(f"a deck has 1 to {MOST_CARDS:,} cards")
        if any(not 0 <= left < max(without, 1) for left, without in zip(self._left, self._lacking, strict=True)):
            raise ValueError("the words of a column of the deck do not sum to 2^64")
        if any(
            each.values < 2
            for row in self._entries
            for each in row
            if self.rings[each.of_class] > self.sizes[each.of_class]
        ):
            raise ValueError("a ring has so many empty places that a card holds one value of a class, or none")

    def _check(self, orbit: CardOrbit) -> None:
        if not len(orbit.blocks) == len(orbit.inside) == len(orbit.outside) == len(self.rings):
            raise ValueError("an orbit of cards has blocks and words for each class")
        for ring, blocks, high, low in zip(self.rings, orbit.blocks, orbit.inside, orbit.outside, strict=True):
            few = blocks is None or not blocks.shape[1]
            if not 1 <= low <= WORDS or not 1 <= high <= WORDS or (few and high != low):
                raise ValueError("every card has words, the same ones for all values of a class that it does not split")
            if blocks is None:
                continue
            if blocks.ndim != 2 or len(blocks) != orbit.number or (np.diff(blocks, axis=1) <= 0).any():
                raise ValueError("a block has different places in their order, and an orbit equally many for a class")
            if blocks.size and (blocks.min() < 0 or blocks.max() >= ring or blocks.shape[1] >= ring):
                raise ValueError("a block has some places of its ring")
        if all(blocks is not None and not blocks.size for blocks in orbit.blocks):
            raise ValueError("a card holds a value")

    @classmethod
    def from_floats(
        cls,
        classes: CodeArray,
        rings: tuple[int, ...],
        blocks: list[tuple[npt.NDArray[np.int32] | None, ...]],
        weights: list[tuple[FloatArray, FloatArray]],
        noise: float,
    ) -> GradedMatrix:
        """Return integers next to (1 - noise) P + noise/K, where the entries P are right to floating point.

        weights: of each orbit, the entries of cards with a value and without, [class]. The caller checks the bounds.
        What a column lacks of 2^64, or exceeds it by, is spread evenly over the cards that lack the value.
        """
        draft = [CardOrbit(each, (1,) * len(rings), (1,) * len(rings)) for each in blocks]
        shape = Shape.of(rings, draft)
        cards = int((shape.number * shape.period).sum())
        orbits = len(blocks)
        words = np.empty((2, orbits, len(rings)), dtype=object)
        for kind, o, a in product(range(2), range(orbits), range(len(rings))):
            exact = Fraction(float(weights[o][kind][a])) * (1 - Fraction(noise)) + Fraction(noise) / cards
            words[kind, o, a] = math.floor(exact * WORDS)
        for a in range(len(rings)):
            total = sum(
                int(shape.held[o, a]) * words[0, o, a] + int(shape.lacked[o, a]) * words[1, o, a] for o in range(orbits)
            )
            words[1, :, a] += (WORDS - total) // int(shape.lacked[:, a].sum())
        for o, a in product(range(orbits), range(len(rings))):
            if not shape.held[o, a]:
                words[0, o, a] = words[1, o, a]
            if not shape.lacked[o, a]:
                words[1, o, a] = words[0, o, a]
        return cls(
            classes,
            rings,
            tuple(CardOrbit(each, tuple(words[0, o]), tuple(words[1, o])) for o, each in enumerate(blocks)),
        )

    @property
    def size(self) -> int:
        return int(self.classes.size)

    @property
    def outputs(self) -> int:
        return int(self._first[-1])

    @property
    def integers(self) -> bytes:
        head = b"graded:" + self.classes.astype("<i4").tobytes() + repr(self.rings).encode()
        return head + repr([self._written(orbit) for orbit in self.orbits]).encode()

    def written(self) -> dict[str, Any]:
        orbits = [self._written(orbit) for orbit in self.orbits]
        return {"graded": {"classes": self.classes.tolist(), "rings": list(self.rings), "orbits": orbits}}

    def _written(self, orbit: CardOrbit) -> dict[str, Any]:
        return {
            "blocks": [None if blocks is None else blocks.tolist() for blocks in orbit.blocks],
            "inside": list(map(str, orbit.inside)),
            "outside": list(map(str, orbit.outside)),
        }

    @classmethod
    def read(cls, raw: Any) -> GradedMatrix:
        """Return what was written."""
        orbits = tuple(
            CardOrbit(
                tuple(
                    None if blocks is None else np.array(blocks, dtype=np.int32).reshape(len(blocks), -1)
                    for blocks in orbit["blocks"]
                ),
                tuple(map(int, orbit["inside"])),
                tuple(map(int, orbit["outside"])),
            )
            for orbit in raw["orbits"]
        )
        return cls(array_of(raw["classes"], np.int32), tuple(map(int, raw["rings"])), orbits)

    # --- the shape of the deck ---------------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> IntArray:
        """m_l, the number of values of each class."""
        return np.bincount(self.classes).astype(np.int64)

    @cached_property
    def _members(self) -> list[CodeArray]:
        """The values of each class, in the order of their places."""
        return [np.flatnonzero(self.classes == a).astype(np.int32) for a in range(len(self.rings))]

    @cached_property
    def _place(self) -> IntArray:
        """The place of each value on the ring of its class."""
        place = np.empty(self.size, dtype=np.int64)
        for members in self._members:
            place[members] = np.arange(members.size)
        return place

    @cached_property
    def _shape(self) -> Shape:
        return Shape.of(self.rings, self.orbits)

    @cached_property
    def _first(self) -> IntArray:
        """The first card of each orbit, and the number of all cards."""
        return np.concatenate(([0], np.cumsum(self._shape.number * self._shape.period)))

    @cached_property
    def _lacking(self) -> list[int]:
        """How many cards lack a value of each class."""
        return [int(cards) for cards in self._shape.lacked.sum(axis=0)]

    @cached_property
    def _left(self) -> list[int]:
        """Words beyond those of all cards: the first cards without the value get one more each."""
        return [
            WORDS
            - sum(
                int(held) * orbit.inside[a] + int(lacked) * orbit.outside[a]
                for orbit, held, lacked in zip(
                    self.orbits, self._shape.held[:, a], self._shape.lacked[:, a], strict=True
                )
            )
            for a in range(len(self.rings))
        ]

    @cached_property
    def _lacked_before(self) -> IntArray:
        """[orbit, class]: how many cards of earlier orbits lack a value."""
        return np.cumsum(self._shape.lacked, axis=0) - self._shape.lacked

    @property
    def _has_empty_places(self) -> bool:
        return bool((np.array(self.rings) > self.sizes).any())

    def _parts(self, published: Codes) -> tuple[IntArray, IntArray, IntArray]:
        """Return the orbit, the block and the turn of each card."""
        orbit = np.searchsorted(self._first, published, side="right") - 1
        block, turn = np.divmod(np.asarray(published, dtype=np.int64) - self._first[orbit], self._shape.period[orbit])
        return orbit, block, turn

    def _slots(self, published: Codes, true: Codes) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Return orbit, class, place in the table of all blocks, and turn of each pair."""
        orbit, block, turn = self._parts(published)
        classes = self.classes[true].astype(np.int64)
        ring = self._shape.ring[orbit, classes]
        slot = self._shape.start[orbit, classes] + block * ring + (self._place[true] - turn) % ring
        return orbit, classes, slot, turn

    # --- the cards --------------------------------------------------------------------------------------------------

    def card(self, number: int) -> CodeArray:
        (orbit,), (block,), (turn,) = self._parts(np.array([number]))
        held = []
        for members, ring, blocks in zip(self._members, self.rings, self.orbits[orbit].blocks, strict=True):
            places = np.arange(members.size) if blocks is None else (blocks[block].astype(np.int64) + turn) % ring
            held.append(members[places[places < members.size]])
        return np.sort(np.concatenate(held))

    @cached_property
    def card_sizes(self) -> tuple[int, int]:
        sizes = self._held_by_cards(np.ones(self.size))
        return round(float(sizes.min())), round(float(sizes.max()))

    def holds(self, published: Codes, true: Codes) -> BoolArray:
        return np.asarray(self._shape.on[self._slots(published, true)[2]])

    @cached_property
    def holds_truth(self) -> FloatArray:
        held = (self._shape.held * self._inside).sum(axis=0)
        return np.asarray(held[self.classes])

    # --- entries ---------------------------------------------------------------------------------------------------

    @cached_property
    def _inside(self) -> FloatArray:
        """W / 2^64, [orbit, class]."""
        return np.array([[word / WORDS for word in orbit.inside] for orbit in self.orbits])

    @cached_property
    def _outside(self) -> FloatArray:
        """V / 2^64."""
        return np.array([[word / WORDS for word in orbit.outside] for orbit in self.orbits])

    @property
    def _gain(self) -> FloatArray:
        """(W - V) / 2^64; 0 where the cards of an orbit do not split a class, for which V is W."""
        return self._inside - self._outside

    def _of_cards(self, of_orbits: FloatArray) -> FloatArray:
        return np.repeat(of_orbits, np.diff(self._first))

    @property
    def least_chance(self) -> FloatArray:
        return self._of_cards(np.array([min(each.least for each in row) / WORDS for row in self._entries]))

    @property
    def most_chance(self) -> FloatArray:
        return self._of_cards(np.array([max(each.least for each in row) / WORDS for row in self._entries]))

    @property
    def pure_noise(self) -> FloatArray:
        """Of each value the least integer of its class."""
        least = [min(each.least for row in self._entries for each in row if each.of_class == a) for a in self._numbers]
        return np.array([self.outputs * words / WORDS for words in least])[self.classes]

    @property
    def _numbers(self) -> range:
        return range(len(self.rings))

    def weight(self, published: int, true: int) -> int:
        return int(self._words(np.array([published]), np.array([true]))[0])

    def _words(self, published: Codes, true: Codes) -> WordArray:
        """Return 2^64 P of each pair, exactly."""
        orbit, classes, slot, turn = self._slots(published, true)
        shape = self._shape
        number = self._lacked_before[orbit, classes]
        number = number + shape.off_rank[slot] * shape.turns[orbit, classes] + turn // shape.ring[orbit, classes]
        inside, outside = (
            np.array([getattr(each, kind) for each in self.orbits], dtype=np.uint64) for kind in ("inside", "outside")
        )
        more = number < np.array(self._left)[classes]
        return np.where(shape.on[slot], inside[orbit, classes], outside[orbit, classes] + more.astype(np.uint64))

    def chances(self, published: Codes, true: Codes) -> FloatArray:
        orbit, classes, slot, _ = self._slots(published, true)
        on = self._shape.on[slot]
        return np.where(on, self._inside[orbit, classes], self._outside[orbit, classes])

    def alike(self, first: Codes, second: Codes) -> FloatArray:
        """Return a function of the two classes and of the distance of the places: how many cards hold both."""
        a, b, found = self.classes[first], self.classes[second], np.empty(np.broadcast(first, second).shape)
        distance = self._place[first] - self._place[second]
        for one, other in product(self._numbers, self._numbers):
            here = (a == one) & (b == other)
            table = self._alike[one, other]
            found[here] = table[distance[here] % table.size]
        return found

    @cached_property
    def _alike(self) -> dict[tuple[int, int], FloatArray]:
        """sum_o V V' T B + V (W'-V') n' + V' (W-V) n + (W-V)(W'-V') (cards with both), by the distance."""
        shape, found = self._shape, {}
        for a, b in product(self._numbers, self._numbers):
            common = math.gcd(self.rings[a], self.rings[b])
            total: FloatArray = np.zeros(common)
            for o in range(len(self.orbits)):
                low, other, gain, gained = self._outside[o, a], self._outside[o, b], self._gain[o, a], self._gain[o, b]
                total += low * other * int(shape.number[o] * shape.period[o])
                total += low * gained * shape.held[o, b] + other * gain * shape.held[o, a]
                if gain and gained:
                    folded = [folded_to(shape.indicators(o, c), common) for c in (a, b)]
                    one, two = (np.fft.rfft(each, axis=-1) for each in folded)
                    both = np.fft.irfft((one * two.conj()).sum(axis=0), common)
                    turns = int(shape.period[o]) // math.lcm(self.rings[a], self.rings[b])
                    total += gain * gained * turns * both
            found[a, b] = total
        return found

    def likeliest(self, shares: FloatArray) -> FloatArray:
        best = np.zeros(self.outputs)
        orbit = self._parts(np.arange(self.outputs))[0]
        for a, members in enumerate(self._members):
            for is_inside, chance in ((True, self._inside), (False, self._outside)):
                of_cards = best_of_cards(self, members, shares, is_inside)
                best = np.maximum(best, of_cards * chance[orbit, a])
        return best

    def _columns(self) -> WordArray:
        return self._words(*np.broadcast_arrays(np.arange(self.outputs)[None, :], np.arange(self.size)[:, None]))

    # --- products and solutions ------------------------------------------------------------------------------------

    def _on_ring(self, x: FloatArray, a: int) -> FloatArray:
        """Return x of the values of a class by place; 0 on empty ones."""
        members = self._members[a]
        if members.size == self.rings[a]:
            return np.asarray(x[..., members])
        ring = np.zeros((*x.shape[:-1], self.rings[a]))
        ring[..., : members.size] = x[..., members]
        return ring

    def _off_rings(self, rings: list[FloatArray]) -> FloatArray:
        """Return the numbers of the values, from those of all places."""
        x = np.empty((*rings[0].shape[:-1], self.size))
        for members, ring in zip(self._members, rings, strict=True):
            x[..., members] = ring[..., : members.size]
        return x

    def _split_classes(self, o: int) -> list[int]:
        return [a for a in self._numbers if self._shape.ring[o, a] > 1]

    def _summed(self, rings: list[FloatArray], base: FloatArray, gain: FloatArray) -> FloatArray:
        """Return for each card sum_l (base of all places of ring l, and gain of those on the card), [orbit, class]."""
        lead, found = rings[0].shape[:-1], []
        totals = np.stack([ring.sum(axis=-1) for ring in rings], axis=-1)
        transforms = [np.fft.rfft(ring) for ring in rings]
        for o in range(len(self.orbits)):
            number, period = int(self._shape.number[o]), int(self._shape.period[o])
            own = np.zeros((*lead, number, period))
            own += (totals @ base[o])[..., None, None]
            for a in self._split_classes(o):
                held = np.fft.irfft(transforms[a][..., None, :] * self._shape.transform(o, a).conj(), self.rings[a])
                own += gain[o, a] * np.tile(held, period // self.rings[a])
            found.append(own.reshape(*lead, number * period))
        return np.concatenate(found, axis=-1)

    def _held_by_cards(self, x: FloatArray) -> FloatArray:
        """Return the sum of x over the values of each card."""
        whole = np.array([[float(blocks is None) for blocks in orbit.blocks] for orbit in self.orbits])
        return self._summed([self._on_ring(x, a) for a in self._numbers], whole, np.ones_like(whole))

    def _spread(self, y: FloatArray, base: FloatArray, gain: FloatArray) -> list[FloatArray]:
        """Return, for each place of each ring, sum over cards of base y, and of gain y over those that hold it."""
        lead = y.shape[:-1]
        rings = [np.zeros((*lead, ring)) for ring in self.rings]
        for o in range(len(self.orbits)):
            number, period = int(self._shape.number[o]), int(self._shape.period[o])
            own = y[..., self._first[o] : self._first[o + 1]].reshape(*lead, number, period)
            total = own.sum(axis=(-2, -1))
            for a in self._numbers:
                rings[a] += (base[o, a] * total)[..., None]
            for a in self._split_classes(o):
                turned = np.fft.rfft(folded_to(own, self.rings[a])) * self._shape.transform(o, a)
                rings[a] += gain[o, a] * np.fft.irfft(turned.sum(axis=-2), self.rings[a])
        return rings

    def apply(self, x: FloatArray) -> FloatArray:
        return self._summed([self._on_ring(x, a) for a in self._numbers], self._outside, self._gain)

    def apply_at(self, x: FloatArray, rows: Codes, published: Codes) -> FloatArray:
        """Return them card by card: P x has an entry for each row of x and every card, which may be far too many."""
        totals = np.stack([x[..., members].sum(axis=-1) for members in self._members], axis=-1)
        orbit, block, turn = self._parts(published)
        found = np.asarray((totals[rows] * self._outside[orbit]).sum(axis=1))
        rings = [self._on_ring(x, a) for a in self._numbers]
        for o, each in enumerate(self.orbits):
            for a in self._split_classes(o):
                blocks = each.blocks[a]
                assert blocks is not None
                here = np.flatnonzero(orbit == o)
                step = max(1, SAMPLE_BLOCK // blocks.shape[1])
                for part in (here[first : first + step] for first in range(0, here.size, step)):
                    places = (blocks[block[part]] + turn[part, None]) % self.rings[a]
                    found[part] += self._gain[o, a] * rings[a][rows[part, None], places].sum(axis=1)
        return found

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        return self._off_rings(self._spread(y, self._outside, self._gain))

    @cached_property
    def _row_sums(self) -> FloatArray:
        """D of each orbit, at equal counts of the values."""
        part = self._shape.held / (self._shape.held + self._shape.lacked)
        return np.asarray((self._outside + self._gain * part) @ self.sizes)

    def solve(self, observed: FloatArray) -> FloatArray:
        scale = 1 / self._row_sums[:, None]
        found = self._off_rings(self._solved(self._spread(observed, self._outside * scale, self._gain * scale)))
        if self._has_empty_places:
            found = found + (observed @ self._lacking_sums)[..., None] / self.size
        return found

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        found = self._unsummed([self._on_ring(y, a) for a in self._numbers])
        if self._has_empty_places:
            found = found + y.mean(axis=-1, keepdims=True) * self._lacking_sums
        return found

    def _unsummed(self, rings: list[FloatArray]) -> FloatArray:
        """Return D^-1 P J^-1 y, of y on all places."""
        scale = 1 / self._row_sums[:, None]
        return self._summed(self._solved(rings), self._outside * scale, self._gain * scale)

    @cached_property
    def _lacking_sums(self) -> FloatArray:
        """What the estimates of empty places take from the sum of all values, for each card."""
        empty = [
            (np.arange(ring) >= members.size).astype(np.float64)
            for ring, members in zip(self.rings, self._members, strict=True)
        ]
        return self._unsummed(empty)

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        """Return the sums of A^2 o. The row of A of place 0 is turned for the others of its ring."""
        lead = observed.shape[:-1]
        rings = []
        for a, ring in enumerate(self.rings):
            first = [np.zeros(each) for each in self.rings]
            first[a][0] = 1.0
            weights = self._unsummed(first) ** 2
            total = np.zeros((*lead, ring))
            for o in range(len(self.orbits)):
                number, period = int(self._shape.number[o]), int(self._shape.period[o])
                common = math.gcd(ring, period)
                of_cards = slice(self._first[o], self._first[o + 1])
                own = folded_to(observed[..., of_cards].reshape(*lead, number, period), common)
                turned = np.fft.rfft(own) * np.fft.rfft(weights[of_cards].reshape(number, period)[:, :common]).conj()
                total += np.tile(np.fft.irfft(turned.sum(axis=-2), common), ring // common)
            rings.append(total)
        found = self._off_rings(rings)
        if self._has_empty_places:
            lacking = self._lacking_sums
            scale = 1 / self._row_sums[:, None]
            crossed = self._solved(self._spread(observed * lacking, self._outside * scale, self._gain * scale))
            found = found + 2 / self.size * self._off_rings(crossed)
            found = found + (observed @ lacking**2)[..., None] / self.size**2
        return found

    def uncorrected(self, observed: FloatArray) -> FloatArray:
        sizes = self._held_by_cards(np.ones(self.size))
        whole = np.array([[float(blocks is None) for blocks in orbit.blocks] for orbit in self.orbits])
        return self._off_rings(self._spread(observed / np.round(sizes), whole, np.ones_like(whole)))

    # --- the information, angle by angle ----------------------------------------------------------------------------

    @cached_property
    def _angles(self) -> list[IntArray]:
        """The numbers of the angles of each ring, among those of all rings: half a turn, as real numbers need."""
        return shared_angles(self.rings)

    @cached_property
    def _information(self) -> Complex:
        """K, [angle, class, class]; a mean entry on the diagonal where a ring has not the angle."""
        found = information(self.rings, self._shape, self._outside, self._gain, 1 / self._row_sums)
        present = np.zeros(found.shape[:2], dtype=np.bool_)
        for a, angles in enumerate(self._angles):
            present[angles, a] = True
        mean = float(np.einsum("fii->fi", found).real[present].mean())
        angle, absent = np.nonzero(~present)
        found[angle, absent, absent] = mean
        return found

    @cached_property
    def _inverse(self) -> Complex:
        return np.asarray(np.linalg.inv(self._information))

    def _solved(self, rings: list[FloatArray]) -> list[FloatArray]:
        """Return J^-1 of numbers on all places."""
        lead = rings[0].shape[:-1]
        transforms = np.zeros((*lead, len(self._information), len(self.rings)), dtype=np.complex128)
        for a, (ring, angles) in enumerate(zip(rings, self._angles, strict=True)):
            transforms[..., angles, a] = np.fft.rfft(ring) / math.sqrt(self.rings[a])
        solved = np.einsum("fij,...fj->...fi", self._inverse, transforms)
        return [
            np.fft.irfft(solved[..., angles, a] * math.sqrt(ring), ring)
            for a, (ring, angles) in enumerate(zip(self.rings, self._angles, strict=True))
        ]

    @cached_property
    def _eigenvalues(self) -> FloatArray:
        return np.asarray(np.linalg.eigvalsh(self._information))

    @property
    def condition_number(self) -> float:
        """Of D^-1/2 P; with empty places, as if they were values."""
        powers = self._eigenvalues
        return math.sqrt(powers.max() / powers.min()) if self.is_invertible else math.inf

    @property
    def is_invertible(self) -> bool:
        return bool(self._eigenvalues.min() > SINGULAR * self._eigenvalues.max())

    # --- the guarantee, on the integers ------------------------------------------------------------------------------

    @cached_property
    def _entries(self) -> list[list[_Entries]]:
        """Of the rows of each orbit: what entries they have. Where units are left, some have one more."""
        shape, rows = self._shape, []
        for o, orbit in enumerate(self.orbits):
            row = []
            for a, size in enumerate(self.sizes.tolist()):
                fewest, most = self._held_of_class(o, a)
                if most:  # also where other cards hold none of the class
                    row.append(_Entries(a, True, orbit.inside[a], orbit.inside[a], fewest))
                if shape.lacked[o, a]:
                    more = self._left[a] > self._lacked_before[o, a]
                    row.append(_Entries(a, False, orbit.outside[a], orbit.outside[a] + int(more), size - most))
            rows.append(row)
        return rows

    def _held_of_class(self, o: int, a: int) -> tuple[int, int]:
        """Return how many values of a class the cards of an orbit hold: the fewest and the most."""
        size, ring, blocks = int(self.sizes[a]), self.rings[a], self.orbits[o].blocks[a]
        if blocks is None or not blocks.size or ring == size:
            held = size if blocks is None else blocks.shape[1]
            return held, held
        real = np.fft.rfft((np.arange(ring) < size) * 1.0)
        found = np.round(np.fft.irfft(real * self._shape.transform(o, a).conj(), ring))
        return int(found.min()), int(found.max())

    def _pairs(self, a: int) -> Iterator[tuple[int, _Entries, _Entries]]:
        """Yield the orbit, an entry of a value of class a, and one of another value in the same row."""
        for o, row in enumerate(self._entries):
            for own in row:
                if own.of_class == a:
                    yield from ((o, own, other) for other in row if other is not own or own.values > 1)

    def upward(self, i: int) -> Fraction | None:
        return self._factors[int(self.classes[i])][0]

    def downward(self, i: int) -> Fraction | None:
        return self._factors[int(self.classes[i])][1]

    @cached_property
    def _factors(self) -> list[tuple[Fraction, Fraction]]:
        """Upward and downward, of a value of each class."""
        return [
            (
                max(Fraction(own.most, other.least) for _, own, other in self._pairs(a)),
                max(Fraction(other.most, own.least) for _, own, other in self._pairs(a)),
            )
            for a in self._numbers
        ]

    def worst_case(self, i: int, direction: Direction) -> tuple[int, int]:
        """Return a card and a rival whose entries are the ones of the factor."""

        def factor(pair: tuple[int, _Entries, _Entries]) -> Fraction:
            _, own, other = pair
            return Fraction(own.most, other.least) if direction == "upward" else Fraction(other.most, own.least)

        a = int(self.classes[i])
        orbit, own, other = max(self._pairs(a), key=factor)
        ring = int(self._shape.ring[orbit, a])
        place = int(np.flatnonzero(self._shape.indicators(orbit, a)[0] == own.is_inside)[0])
        card = int(self._first[orbit]) + (int(self._place[i]) - place) % ring
        rivals = self._members[other.of_class]
        alike = self.holds(np.full(rivals.size, card), rivals) == other.is_inside
        return card, int(rivals[alike & (rivals != i)][0])

    def raised(self, inside: BoolArray) -> Fraction | None:
        """Return the largest factor over the cards: an entry of a value inside, and one of a value outside."""
        found = Fraction(0)
        counts = {}
        for a, members in enumerate(self._members):
            for side in (True, False):
                chosen = np.zeros(self.size)
                chosen[members[inside[members] == side]] = 1.0
                held = np.round(self._held_by_cards(chosen))
                counts[a, True, side] = held > 0
                counts[a, False, side] = held < chosen.sum()
        for o, row in enumerate(self._entries):
            of_cards = slice(self._first[o], self._first[o + 1])
            for own, other in product(row, row):
                factor = Fraction(own.most, other.least)
                one, two = counts[own.of_class, own.is_inside, True], counts[other.of_class, other.is_inside, False]
                if factor > found and (one[of_cards] & two[of_cards]).any():
                    found = factor
        return found

    @cached_property
    def largest_ratio(self) -> Fraction | None:
        return max(Fraction(max(each.most for each in row), min(each.least for each in row)) for row in self._entries)

    def equal_twice(self, i: int) -> Fraction | None:
        """Return the largest entry over the two smallest ones of its row."""
        found = Fraction(0)
        for row in self._entries:
            ordered = sorted(row, key=lambda each: each.least)
            smallest = [each.least for each in ordered for _ in range(min(each.values, 2))][:2]
            own = max(each.most for each in row if each.of_class == self.classes[i])
            found = max(found, Fraction(own * WORDS, math.prod(smallest)))
        return found

    # --- sampling --------------------------------------------------------------------------------------------------

    def _drawn(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the cards: W words for each with the value, then V for each without, orbit by orbit, then the rest."""
        published = np.empty(codes.size, dtype=np.int32)
        classes = self.classes[codes]
        for a in self._numbers:
            here = np.flatnonzero(classes == a)
            drawn, table = words[here], self._tables[a]
            stretch = np.searchsorted(table.starts, drawn, side="right") - 1
            number = (drawn - table.starts[stretch]) // table.words[stretch]
            place = number.view(np.int64) + table.places[stretch]
            turn = (self._place[codes[here]] - table.value[place]) % table.ring[place]
            published[here] = table.card[place] + turn
        return published

    @cached_property
    def _tables(self) -> list[_Table]:
        return [_Table.of(self, a) for a in self._numbers]


@dataclass(frozen=True, eq=False)
class _Table:
    """How the words of a value of one class are dealt to its cards: stretches of equal words, and places of cards."""

    starts: WordArray  # the first word of each stretch
    words: WordArray  # of each card
    places: IntArray  # the first card of each stretch
    card: IntArray  # of each place: the card where the value is turned by nothing
    value: IntArray  # the place on the block's ring
    ring: IntArray

    @classmethod
    def of(cls, matrix: GradedMatrix, a: int) -> _Table:
        shape, cards, values, rings = matrix._shape, [], [], []
        starts, words, places, word, place = [], [], [], 0, 0
        for inside in (True, False):
            for o, orbit in enumerate(matrix.orbits):
                block, value = np.nonzero(shape.indicators(o, a) == inside)
                turns, ring = int(shape.turns[o, a]), int(shape.ring[o, a])
                if not block.size:
                    continue
                first = matrix._first[o] + block[:, None] * shape.period[o] + np.arange(turns) * ring
                cards.append(first.ravel())
                values.append(np.repeat(value, turns))
                rings.append(np.full(first.size, ring))
                starts.append(word)
                words.append(orbit.inside[a] if inside else orbit.outside[a])
                places.append(place)
                place += first.size
                word += first.size * words[-1]
        if matrix._left[a]:
            starts.append(word)
            words.append(1)
            places.append(int(shape.held[:, a].sum()))
        return cls(
            np.array(starts, dtype=np.uint64),
            np.array(words, dtype=np.uint64),
            np.array(places, dtype=np.int64),
            np.concatenate(cards),
            np.concatenate(values),
            np.concatenate(rings),
        )
