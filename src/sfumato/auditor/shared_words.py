"""Were two draws made with the same random words? Of one person in two releases, or of one record in two columns.

Two independent draws of values a and b by matrices P and R are equal with sum_y P[y, a] R[y, b], by retentions p and r
over the same m values with

    (1 + (m - 1) p_a r_a) / m   if a = b,      (1 - p_a r_b) / m   if not

so the share of equal ones among linked rows lies between the least of the second and the largest of the first, whatever
the true values are and whether they changed. Draws that share their words are equal whenever the values are: nearly
always.

Two columns of one record keep their values with chances k and l, both or neither with k l + (1 - k)(1 - l). Under one
word they go together: the word that keeps the one mostly keeps the other.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from sfumato.values.chance import Tallies
from sfumato.values.matrix.base import Matrix
from sfumato.values.matrix.retention import FloatArray

LEVEL = 1e-6
"""Probability of a false alarm, of all counts of two releases together."""

Mask = npt.NDArray[np.bool_]


def equal_shares(first: Matrix, second: Matrix) -> tuple[float, float]:
    """Return the least and the largest chance that independent draws of any two values are equal.

    >>> from sfumato.values.matrix.retention import PerturbationMatrix
    >>> nothing = PerturbationMatrix.from_retention([0.5, 0.5, 0.5])
    >>> tuple(round(chance, 6) for chance in equal_shares(nothing, nothing))  # (1 - 1/4)/3 and (1 + 2/4)/3
    (0.25, 0.5)
    """
    p, r, m = first.retention, second.retention, first.size
    if m == 1:
        return 1.0, 1.0
    if p is None or r is None:
        chances = first.dense().T @ second.dense()
        return float(chances.min()), float(chances.max())
    (a, b), (c, d) = (np.argsort(-retention, kind="stable")[:2] for retention in (p, r))
    unlike = p[a] * r[c] if a != c else max(p[a] * r[d], p[b] * r[c])
    return float((1 - unlike) / m), float((1 + (m - 1) * (p * r).max()) / m)


def equal_rows(equal: Mask, first: Matrix, second: Matrix) -> Tallies:
    """Return how many linked rows are published equal, and how many differ."""
    least, most = equal_shares(first, second)
    hits, rows = float(np.count_nonzero(equal)), float(equal.size)
    words = ("linked rows that are published equal", "linked rows that are published different")
    both = np.array([hits, rows - hits]), np.array([rows, rows]), np.array([most, 1 - least])
    return Tallies(*both, 2, lambda number: words[number])


def both_kept(kept: tuple[Mask, Mask], chances: tuple[FloatArray, FloatArray], names: str) -> Tallies:
    """Return how many records keep their values in two columns, or in neither, and in just one; `chances` of each."""
    (one, other), (first, second) = kept, chances
    alike = float(np.count_nonzero(one == other))
    expected = min(1.0, float((first * second + (1 - first) * (1 - second)).mean()))
    rows, words = float(one.size), ("kept in both or in neither", "kept in one of them")
    both = np.array([alike, rows - alike]), np.array([rows, rows]), np.array([expected, 1 - expected])
    return Tallies(*both, 2, lambda number: f"{names}: {words[number]}")
