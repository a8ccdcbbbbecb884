"""The coarse grid of the retentions that randomized response publishes: two significant digits.

The best retentions are computed from the table, and to all their digits they differ for nearly every table: someone
who knows all records but one reads the last one off the integers. On the grid most tables that differ in one record
have the same matrices. From 10% on its points are whole percents; below they are finer, and none of them is 0.
"""

from __future__ import annotations

import math
from fractions import Fraction

from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import WORDS, largest_noise

DIGITS = 2

EXACT_BITS = 53
"""Significant bits of a noise weight at most, so that floating-point numbers hold it exactly."""


def rounded_down(retention: Fraction) -> Fraction:
    """Return the largest point of the grid that is not above a positive retention; 1 for an untouched column.

    >>> rounded_down(Fraction("0.5559")), rounded_down(Fraction("0.0725")), rounded_down(Fraction(1))
    (Fraction(11, 20), Fraction(9, 125), Fraction(1, 1))
    """
    step = _step(retention)
    return retention // step * step


def next_up(point: Fraction) -> Fraction | None:
    """Return the next point of the grid; None if it would leave the column untouched.

    >>> next_up(Fraction("0.55")), next_up(Fraction("0.099")), next_up(Fraction("0.99"))
    (Fraction(14, 25), Fraction(1, 10), None)
    """
    above = point + _step(point)
    return above if above < 1 else None


def next_down(point: Fraction) -> Fraction:
    """Return the point of the grid before.

    >>> next_down(Fraction("0.55")), next_down(Fraction("0.1"))
    (Fraction(27, 50), Fraction(99, 1000))
    """
    return rounded_down(point - _step(point) / 10)


def noise_of(retention: Fraction, m: int) -> int:
    """Return the integer noise weight of a retention: next to 2^64 (1 - retention)/m, rounded up to 53 bits."""
    return min(_in_bits(largest_noise(m), up=False), _in_bits(math.ceil((1 - retention) * WORDS / m), up=True))


def is_on_grid(matrix: Matrix) -> bool:
    """Whether all columns have one and the same retention, a point of the grid."""
    noise = matrix.uniform_noise
    if noise is None:
        return False
    below = rounded_down(Fraction(WORDS - matrix.size * noise, WORDS))
    points = (below, next_up(below) or below)  # noise is rounded up, so the point may be just above
    return noise in [noise_of(point, matrix.size) for point in points]


def _step(retention: Fraction) -> Fraction:
    """Return a unit of the second significant digit, exactly."""
    power = len(str(retention.numerator)) - len(str(retention.denominator))  # right, or too large by one
    power -= Fraction(10) ** power > retention
    return Fraction(10) ** (power - DIGITS + 1)


def _in_bits(noise: int, up: bool) -> int:
    beyond = max(0, noise.bit_length() - EXACT_BITS)
    return (-(-noise >> beyond) if up else noise >> beyond) << beyond
