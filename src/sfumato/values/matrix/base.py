"""What a matrix must answer. Nobody else asks of which kind it is.

``P[j, i] = Pr[x_i -> y_j]``; columns sum to one, and every entry is an integer over 2^64 (`weight`). j or y is
published, and i or x true. Most matrices publish the m values of the domain themselves; others publish *cards*, K sets
of values, of which one that holds the true value is likelier. All products are along the last axis.

    retention.py    a diagonal and the same noise for all published values: everything in O(m)
    block.py        classes of values that are treated alike: everything in O(m) for few classes
    dense.py        any columns of integers, up to four million
    deck.py         sets of k values, shifted round the domain: everything in O(K log K)
    windows.py      neighbouring values, and such sets beside them: a dense matrix of few integers
    graded.py       sets of some values of each class, shifted round the classes: likewise (orbits.py: where they are)
    product.py      several columns that were randomized independently of each other, for estimates

"The inverse" of a matrix with more outputs than values is A = (P^T D^-1 P)^-1 P^T D^-1 with D = diag(P 1): A P = I, so
that A o is unbiased, and of least variance where all values are equally frequent.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from sfumato.values.arrays import BoolArray, CodeArray, FloatArray, WordArray

Codes = npt.NDArray[np.integer]
Direction = Literal["upward", "downward"]

ROUNDING = 1e-12
"""Relative error that sums of products may have."""

SAMPLE_BLOCK = 1 << 15
"""How many records are drawn at a time: their numbers stay in the processor's cache."""


class Estimable(Protocol):
    """What estimates need of a matrix P."""

    @property
    def size(self) -> int:
        """m, the number of values."""

    @property
    def outputs(self) -> int:
        """K, the number of what can be published."""

    @property
    def retention(self) -> FloatArray | None:
        """The p of P = diag(p) + 1 (1 - p)^T / m, which has closed forms; None where P is not of that form."""
        return None

    @property
    def uniform_noise(self) -> int | None:
        """2^64 P[j, i], j != i, where that is one integer for all of them; None where it is not."""
        return None

    @property
    def least_chance(self) -> FloatArray:
        """min_i P[j, i] for each j: with which a value is published, whatever the records have."""

    @property
    def is_invertible(self) -> bool:
        """Whether there is an inverse, to the precision of numbers."""

    @property
    def why_singular(self) -> str:
        """Why there is no inverse, in words; "" where there is one."""

    @property
    def condition_number(self) -> float:
        """sigma_max / sigma_min; infinite where P has no inverse."""

    def apply(self, x: FloatArray) -> FloatArray:
        """Return P x: the expected published counts of a table with counts x."""

    def apply_transposed(self, y: FloatArray) -> FloatArray:
        """Return P^T y."""

    def solve(self, observed: FloatArray) -> FloatArray:
        """Return P^-1 o; the caller has looked at `condition_number` first."""

    def solve_transposed(self, y: FloatArray) -> FloatArray:
        """Return P^-T y."""

    def inverse_squared_apply(self, observed: FloatArray) -> FloatArray:
        """Return (P^-1 o P^-1) y, the entries squared: the first term of every variance."""

    def uncorrected(self, observed: FloatArray) -> FloatArray:
        """Return the counts of who takes what is published for the truth, and all values of a card alike."""
        return observed


class Matrix(Estimable, Protocol):
    """What values are drawn with."""

    @property
    def is_uniform(self) -> bool:
        """Whether there is one diagonal, and one noise weight (`uniform_noise`)."""
        return self.uniform_noise is not None

    @property
    def publishes_values(self) -> bool:
        """Whether values of the domain are published; else cards are, which are numbered from 0."""

    def card(self, number: int) -> CodeArray:
        """Return the values that a published output stands for, ascending: itself, or those of the card."""
        return np.array([number], dtype=np.int32)

    @property
    def card_sizes(self) -> tuple[int, int]:
        """The least and the largest number of values that an output stands for."""
        return 1, 1

    def holds(self, published: Codes, true: Codes) -> BoolArray:
        """Return whether what is published is the true value, or a card that holds it, of each pair of codes."""
        return np.asarray(published == true)

    @property
    def holds_truth(self) -> FloatArray:
        """The probability, for each value, that what is published is it, or a card that holds it."""
        return self.diagonal

    @property
    def integers(self) -> bytes:
        """The integers that make it up: the same bytes for equal matrices only."""

    # --- entries ---------------------------------------------------------------------------------------------------

    @property
    def diagonal(self) -> FloatArray:
        """P[i, i], where values are published."""
        raise TypeError("cards are published in place of values")

    @property
    def most_chance(self) -> FloatArray:
        """max_i P[j, i] for each j."""

    @property
    def noise_range(self) -> tuple[float, float]:
        """The least and the largest entry off the diagonal, where values are published; 0 where there is one only."""
        raise TypeError("cards are published in place of values")

    @property
    def pure_noise(self) -> FloatArray:
        """K min_j P[j, i] for each i: the share of its draws that may be taken for draws of any output alike."""

    def weight(self, published: int, true: int) -> int:
        """Return 2^64 P[published, true], exactly."""

    def chances(self, published: Codes, true: Codes) -> FloatArray:
        """Return P[published, true], of each pair of codes."""

    def alike(self, first: Codes, second: Codes) -> FloatArray:
        """Return sum_j P[j, first] P[j, second], of each pair: that independent draws of two true values are equal."""

    def alike_changed(self, first: Codes, second: Codes) -> FloatArray:
        """Return the same sum over j other than the two, where values are published: that both are changed, to one.

        What is no more than rounding is 0.
        """
        same, alike = first == second, self.alike(first, second)
        kept = self.chances(first, first) * self.chances(first, second)
        kept = kept + np.where(same, 0.0, self.chances(second, first) * self.chances(second, second))
        return np.where(alike - kept > ROUNDING * alike, alike - kept, 0.0)

    def likeliest(self, shares: FloatArray) -> FloatArray:
        """Return max_i P[j, i] f_i for each j: who guesses best is right with the sum of these."""

    def apply_at(self, x: FloatArray, rows: Codes, published: Codes) -> FloatArray:
        """Return entries of P x, of each pair of a row of x and a published value."""

    def dense(self) -> FloatArray:
        """Return the K x m matrix; for small domains."""

    def written(self) -> dict[str, Any]:
        """Return it for JSON: one key, which tells its kind; integers above 2^53 are strings."""

    # --- the guarantee, on the integers ------------------------------------------------------------------------------

    def upward(self, i: int) -> Fraction | None:
        """Return the largest factor by which any published value can raise the odds of x_i; None if unbounded.

        max_y P[y, i] / min_{k != i} P[y, k]
        """

    def downward(self, i: int) -> Fraction | None:
        """Return the largest factor by which any published value can lower the odds of x_i; None if unbounded.

        max_y max_{k != i} P[y, k] / P[y, i]
        """

    def worst_case(self, i: int, direction: Direction) -> tuple[int, int]:
        """Return the published value and the rival k of the factor."""

    def raised(self, inside: BoolArray) -> Fraction | None:
        """Return the largest factor by which any published value can raise the odds of a set of values.

            max_y max_{i inside} P[y, i] / min_{k outside} P[y, k]

        Those of one value give `upward`, those of all others `downward`.
        """

    @property
    def largest_ratio(self) -> Fraction | None:
        """The largest ratio of two entries of a row, which bounds every statement; None where an entry is zero."""

    def largest_step(self, order: Sequence[int], steps: int = 1) -> Fraction | None:
        """Return the largest ratio of the entries of two values up to so many steps apart, in a row; None if unbounded.

        max_y P[y, i] / P[y, k], k at most so many places from i in the order
        """
        found = Fraction(1)
        for place, i in enumerate(order):
            for k in order[place + 1 : place + 1 + steps]:
                for y in range(self.outputs):
                    low, high = sorted((self.weight(y, i), self.weight(y, k)))
                    if high and not low:
                        return None
                    found = max(found, Fraction(high, low or 1)) if high else found
        return found

    def equal_twice(self, i: int) -> Fraction | None:
        """Return max_y P[y, i] / (the product of the two smallest entries of row y); None if unbounded."""

    # --- sampling --------------------------------------------------------------------------------------------------

    def sample(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the published codes: each drawn from column `code` of the matrix by its 64-bit word, exactly."""
        published = np.empty(codes.size, dtype=np.int32)
        for first in range(0, codes.size, SAMPLE_BLOCK):
            block = slice(first, first + SAMPLE_BLOCK)
            published[block] = self._drawn(codes[block], words[block])
        return published

    def _drawn(self, codes: CodeArray, words: WordArray) -> CodeArray:
        """Return the published codes of a block of records."""
