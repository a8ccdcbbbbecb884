"""A deck of cards: each published output is a set of k of the m values, in which the true one is likelier to be.

Card b m + s is block b shifted round the domain by s: {(d + s) mod m : d in block b}, for B blocks of k values each.
Every value lies on B k of the B m cards, as often at each place of a block. A record's card holds its value with k B W
of 2^64 words and does not with the others:

    P[card, x] = W / 2^64 if x is on the card, else V / 2^64 (or one unit more, to use all words up)

The bound on odds is W/V, in both directions and for every statement. In exact integers W/V <= gamma: V is rounded up,
W follows (MATRICES, section 7; one word a record in place of its two).

All of P is convolution with the blocks. With F_b the Fourier transform of the indicator of block b, E = P^T P has the
eigenvalues (W - V)^2 sum_b |F_b|^2 beside that of the constant, and A = E^-1 P^T is the estimator of least variance
at equal counts, since all cards are then equally likely.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, WordArray, array_of
from sfumato.values.matrix.base import SAMPLE_BLOCK, Codes, Direction, Matrix
from sfumato.values.matrix.dense import joined_cards
from sfumato.values.matrix.retention import WORDS

MOST_CARDS = 1 << 20
SINGULAR = 1e-9
"""A power below this share of the largest is taken for 0."""


class CardMatrix(Matrix):
    """What both kinds of decks answer alike."""

    @property
    def publishes_values(self) -> bool:
        return False

    def dense(self) -> FloatArray:
        cards, values = np.arange(self.outputs)[:, None], np.arange(self.size)[None, :]
        return self.chances(*np.broadcast_arrays(cards, values))

    def with_distinct_cards(self) -> Matrix:
        """Return the same matrix with every set once: itself, or a dense one if some cards hold the same values.

        Their integers are added up, which leaves every ratio as it is, or nearer to 1.
        """
        cards = [tuple(self.card(number).tolist()) for number in range(self.outputs)]
        if len(set(cards)) == len(cards):
            return self
        return joined_cards(self._columns(), cards)

    @abstractmethod
    def _columns(self) -> WordArray:
        """Return 2^64 P exactly, [value, card]."""

    @property
    def why_singular(self) -> str:
        return "" if self.is_invertible else "its cards do not tell some mixtures of values apart."


@dataclass(frozen=True, eq=False)
class DeckMatrix(CardMatrix):
    """Blocks of equally many values of 0 .. m - 1, and the words that a card gets with the true value and without."""

    values: int
    blocks: npt.NDArray[np.int32]  # [block, place], ascending in each block
    inside: int
    outside: int

    def __post_init__(self) -> None:
        blocks = np.array(self.blocks, dtype=np.int32)
        if blocks.ndim != 2 or not blocks.size or blocks.min() < 0 or blocks.max() >= self.values:
            raise ValueError("a deck has blocks of equally many values of the domain")
        if (np.diff(blocks, axis=1) <= 0).any() or 2 * blocks.shape[1] > self.values:
            raise ValueError("a block has different values in their order, and at most half of them")
        if not 2 <= self.values <= MOST_CARDS // len(blocks):
            raise ValueError(f"a deck has at most {MOST_CARDS:,} cards")
        blocks.flags.writeable = False
        object.__setattr__(self, "blocks", blocks)
        if not 0 <= self._left < self._without or not 0 <= self.outside <= self.inside:
            raise ValueError("the words of a column of the deck do not sum to 2^64")

    @classmethod
    def within(cls, values: int, blocks: npt.NDArray[np.int32], gamma: Fraction) -> DeckMatrix:
        """Return the deck whose cards differ by at most the factor gamma, exactly."""
        number, k = blocks.shape
        outside = math.ceil(WORDS / (number * (gamma * k + values - k)))
        return cls(values, blocks, (WORDS - number * (values - k) * outside) // (number * k), outside)

    @property
    def size(self) -> int:
        return self.values

    @property
    def outputs(self) -> int:
        return len(self.blocks) * self.values

    @property
    def integers(self) -> bytes:
        words = np.array([self.inside, self.outside], dtype=np.uint64).astype("<u8").tobytes()
        return b"deck:" + self.blocks.astype("<i4").tobytes() + words

    def written(self) -> dict[str, Any]:
        return {
            "deck": {
                "values": self.values,
                "blocks": self.blocks.tolist(),
                "inside": str(self.inside),
                "outside": str(self.outside),
            }
        }

    @classmethod
    def read(cls, raw: Any) -> DeckMatrix:
        """Return what was written."""
        blocks = array_of(raw["blocks"], np.int32, axes=2)
        return cls(int(raw["values"]), blocks, int(raw["inside"]), int(raw["outside"]))

    # --- the cards --------------------------------------------------------------------------------------------------

    @property
    def members(self) -> int:
        """k, the number of values on a card."""
        return int(self.blocks.shape[1])

    def card(self, number: int) -> CodeArray:
        block, shift = divmod(number, self.values)
        return np.sort((self.blocks[block] + np.int32(shift)) % np.int32(self.values))

    @property
    def card_sizes(self) -> tuple[int, int]:
        return self.members, self.members

    @property
    def holds_truth(self) -> FloatArray:
        return np.full(self.values, self._with * self.inside / WORDS)

    @property
    def _with(self) -> int:
        """The number of cards with a value."""
        return len(self.blocks) * self.members

    @property
    def _without(self) -> int:
        return self.outputs - self._with

    @property
    def _left(self) -> int:
        """Words beyond those of all cards: the first cards without the value get one more each."""
        return WORDS - self._with * self.inside - self._without * self.outside

    @cached_property
    def _on_block(self) -> BoolArray:
        """[block, d]: whether d is in the block."""
        on = np.zeros((len(self.blocks), self.values), dtype=np.bool_)
        np.put_along_axis(on, self.blocks.astype(np.int64), True, axis=1)
        return on

    @cached_property
    def _off(self) -> npt.NDArray[np.int32]:
        """The values that are not in each block."""
        return np.nonzero(~self._on_block)[1].reshape(len(self.blocks), -1).astype(np.int32)

    def holds(self, published: Codes, true: Codes) -> BoolArray:
        block, shift = np.divmod(published, self.values)
        return np.asarray(self._on_block[block, (true - shift) % self.values])

    # --- entries ---------------------------------------------------------------------------------------------------

    @property
    def _high(self) -> float:
        return self.inside / WORDS

    @property
    def _low(self) -> float:
        return self.outside / WORDS

    @property
    def least_chance(self) -> FloatArray:
        return np.full(self.outputs, self._low)

    @property
    def most_chance(self) -> FloatArray:
        return np.full(self.outputs, self._high)

    @property
    def pure_noise(self) -> FloatArray:
        return np.full(self.values, self.outputs * self._low)

    def weight(self, published: int, true: int) -> int:
        block, shift = divmod(published, self.values)
        place = (true - shift) % self.values
        if self._on_block[block, place]:
            return self.inside
        before = block * (self.values - self.members) + int(np.searchsorted(self._off[block], place))
        return self.outside + (before < self._left)

    def chances(self, published: Codes, true: Codes) -> FloatArray:
        return np.where(self.holds(published, true), self._high, self._low)

    def alike(self, first: Codes, second: Codes) -> FloatArray:
        """Return a function of the distance of the two: how many cards hold both."""
        return np.asarray(self._alike[(first - second) % self.values])

    @cached_property
    def _alike(self) -> FloatArray:
        both = np.fft.irfft(self._power, self.values)
        gain = self._high - self._low
        return np.asarray(gain**2 * both + self._low * (2 * gain * self._with + self._low * self.outputs))

    def likeliest(self, shares: FloatArray) -> FloatArray:
        values = np.arange(self.values)
        on, off = (best_of_cards(self, values, shares, is_held) for is_held in (True, False))
        return np.maximum(self._high * on, self._low * off)

    def _columns(self) -> WordArray:
        grid = np.arange(self.outputs)[None, :], np.arange(self.values)[:, None]
        own = np.where(self.holds(*grid), np.uint64(self.inside), np.uint64(self.outside))
        block, value = (part[self._with : self._with + self._left] for part in self._places)
        for x in range(self.values):
            own[x, block * self.values + (x - value) % self.values] += np.uint64(1)
        return own

    # --- products and solutions ------------------------------------------------------------------------------------

    @cached_property
    def _transform(self) -> npt.NDArray[np.complex128]:
        """F_b, [block, frequency]."""
        return np.fft.rfft(self._on_block.astype(np.float64), axis=1)

    @cached_property
    def _power(self) -> FloatArray:
        """sum_b |F_b|^2."""
        return np.asarray((np.abs(self._transform) ** 2).sum(axis=0))

    def _held(self, x: FloatArray) -> FloatArray:
        """Return sum of x over the values of each card: correlation with the blocks."""
        found = np.fft.irfft(np.fft.rfft(x)[..., None, :] * self._transform.conj(), self.values)
        return np.asarray(found.reshape(*x.shape[:-1], self.outputs))

    def _holding(self, y: FloatArray) -> npt.NDArray[np.complex128]:
        """Return the transform of the sum of y over the cards of each value: convolution with the blocks."""
        cards = y.reshape(*y.shape[:-1], len(self.blocks), self.values)
        return np.asarray((np.fft.rfft(cards) * self._transform).sum(axis=-2))

    def apply(self, x: FloatArray) -> FloatArray:
        total = x.sum(axis=-1, keepdims=True)
        return np.asarray((self._high - self._low) * self._held(x) + self._low * total)

    def apply_at(self, x: FloatArray, rows: Codes, published: Codes) -> FloatArray:
        """Return them card by card: P x has an entry for each row of x and every card, which may be far too many."""
        total, found = x.sum(axis=-1), np.empty(rows.size)
        step = max(1, SAMPLE_BLOCK // self.members)
        for first in range(0, rows.size, step):
            here = slice(first, first + step)
            block, shift = np.divmod(published[here], self.values)
            members = (self.blocks[block] + shift[:, None]) % self.values
            held = x[rows[here, None], members].sum(axis=1)
            found[here] = (self._high - self._low) * held + self._low * total[rows[here]]
        return found

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        held = np.fft.irfft(self._holding(y), self.values)
        return np.asarray((self._high - self._low) * held + self._low * y.sum(axis=-1, keepdims=True))

    def solve(self, observed: FloatArray) -> FloatArray:
        """Return A o: what is held beyond the mean, divided by the powers; the sum is that of o."""
        return self._with_sum(self._holding(observed), observed.sum(axis=-1))

    def _with_sum(self, transform: npt.NDArray[np.complex128], total: FloatArray) -> FloatArray:
        scaled = transform / (np.where(self._power > 0, self._power, np.inf) * (self._high - self._low))
        scaled[..., 0] = total
        return np.asarray(np.fft.irfft(scaled, self.values))

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        """Return A^T y: E^-1 y spread over the cards, of which each counts for the mean of y alike."""
        transform = np.fft.rfft(y)
        scaled = transform / (np.where(self._power > 0, self._power, np.inf) * (self._high - self._low))
        scaled[..., 0] = 0
        spread = np.fft.irfft(scaled[..., None, :] * self._transform.conj(), self.values)
        return np.asarray(spread.reshape(*y.shape[:-1], self.outputs) + y.mean(axis=-1, keepdims=True))

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        """Return the sums of A^2 o. Row 0 of A, one number for each block and shift, is shifted for the others."""
        first = np.zeros(self.values)
        first[0] = 1.0
        weights = self.solve_transposed(first).reshape(len(self.blocks), self.values) ** 2
        cards = observed.reshape(*observed.shape[:-1], len(self.blocks), self.values)
        # card (b, s) has for the value x the weight that card (b, s - x) has for the value 0
        turned = np.fft.rfft(cards) * np.fft.rfft(weights).conj()
        return np.asarray(np.fft.irfft(turned.sum(axis=-2), self.values))

    def uncorrected(self, observed: FloatArray) -> FloatArray:
        return np.asarray(np.fft.irfft(self._holding(observed), self.values) / self.members)

    @cached_property
    def condition_number(self) -> float:
        """Of P: the square root of the largest power over the least."""
        powers = (self._high - self._low) ** 2 * self._power
        powers[0] = 1 / len(self.blocks)  # of the constant: all rows and all columns have one sum
        return math.sqrt(powers.max() / powers.min()) if self.is_invertible else math.inf

    @property
    def is_invertible(self) -> bool:
        return bool(self._power.min() > SINGULAR * self._power.max()) and self.inside > self.outside

    # --- the guarantee, on the integers ------------------------------------------------------------------------------

    @property
    def largest_ratio(self) -> Fraction | None:
        """W/V, which is reached wherever a card without the value has no unit more, and hardly missed elsewhere.

        Where W is V, such a unit is all that tells entries apart.
        """
        most = max(self.inside, self.outside + (self._left > 0))
        return Fraction(most, self.outside) if self.outside else None

    def upward(self, i: int) -> Fraction | None:
        return self.largest_ratio

    def downward(self, i: int) -> Fraction | None:
        return self.largest_ratio

    def raised(self, inside: BoolArray) -> Fraction | None:
        """Return W/V if some card has a value of the set and lacks one outside it: then it is reached."""
        for block in range(len(self.blocks)):
            for shift in range(self.values):
                on = np.roll(self._on_block[block], shift)
                if (on & inside).any() and (~on & ~inside).any():
                    return self.largest_ratio
        return Fraction(1)

    def worst_case(self, i: int, direction: Direction) -> tuple[int, int]:
        """Return a card with the value and a rival that it lacks, or one without it and a rival that it has."""
        wanted = direction == "upward"
        first = int(self.blocks[0, 0] if wanted else self._off[0, 0])
        card = (i - first) % self.values
        return card, int((self._off[0, 0] if wanted else self.blocks[0, 0]) + card) % self.values

    def equal_twice(self, i: int) -> Fraction | None:
        """Return W over the two smallest entries of a row: V^2 where a card lacks two values, else V W."""
        smallest = self.outside * (self.outside if self.values - self.members > 1 else self.inside)
        return Fraction(self.inside * WORDS, smallest) if smallest else None

    # --- sampling --------------------------------------------------------------------------------------------------

    def _drawn(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the cards: W words for each with the value, then V for each without, then what is left."""
        edge, end = self._with * self.inside, WORDS - self._left
        without = words >= np.uint64(edge)
        beyond = words - np.uint64(edge)
        number = np.where(without, beyond // np.uint64(max(self.outside, 1)), words // np.uint64(self.inside))
        if self._left:
            number = np.where(words >= np.uint64(end), words - np.uint64(end), number)
        place = number.view(np.int64)
        place[without] += self._with
        block, value = self._places
        shift = (codes - value.take(place)) % np.int32(self.values)
        return np.asarray(block.take(place) * np.int32(self.values) + shift, dtype=np.int32)

    @cached_property
    def _places(self) -> tuple[CodeArray, CodeArray]:
        """The block and the value of each place: first those on blocks, then those that are not."""
        number = len(self.blocks)
        block = np.concatenate([np.repeat(np.arange(number), part.shape[1]) for part in (self.blocks, self._off)])
        return block.astype(np.int32), np.concatenate([self.blocks.ravel(), self._off.ravel()])


def best_of_cards(matrix: Matrix, values: Codes, shares: FloatArray, is_held: bool) -> FloatArray:
    """Return the largest share of some values that each card holds, or lacks; 0 where there is none.

    The values are taken from the most frequent on, each for the cards that are left: a part of them that falls quickly.
    """
    best = np.zeros(matrix.outputs)
    left = np.arange(matrix.outputs)
    for value in values[np.argsort(-shares[values], kind="stable")].tolist():
        if not left.size:
            break
        found = matrix.holds(left, np.full(left.size, value)) == is_held
        best[left[found]] = shares[value]
        left = left[~found]
    return best
