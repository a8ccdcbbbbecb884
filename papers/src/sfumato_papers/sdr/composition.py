"""What one believes who knows how many records of a sub-table have each value: exact, and slow for many records.

The sum is derived in `sfumato.auditor.attackers.composition`, which takes one integral in its place.

    Z = sum over j of (n - sum j)! prod_x C(o_x, j_x) C(c_x, j_x) j_x! p_x^j_x q_x^(c_x - j_x)
    Pr(x | y) = c_x P[y, x] Z(o - e_y, c - e_x) / Z
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

Number = int | Fraction


def exact_belief(
    kept: Sequence[Number], noise: Sequence[Number], published: Sequence[int], true: Sequence[int], y: int, x: int
) -> Fraction:
    """Return Pr(x | y) as a fraction, for `kept` p and `noise` q up to a common factor; for some hundred records.

    SDR's own T2: six records with six values, published as a permutation, gamma = 10.

    >>> str(exact_belief([9] * 6, [1] * 6, [1] * 6, [1] * 6, 0, 0))
    '74996/80427'
    """
    assert sum(published) == sum(true)
    if not (published[y] and true[x]):
        return Fraction(0)
    weight = true[x] * (noise[x] + (kept[x] if x == y else 0))
    rest = _total(kept, noise, _less(published, y), _less(true, x))
    return Fraction(weight * rest) / _total(kept, noise, published, true)


def _total(kept: Sequence[Number], noise: Sequence[Number], published: Sequence[int], true: Sequence[int]) -> Number:
    """Z."""
    terms: list[Number] = [1]
    for polynomial in map(_polynomial, published, true, kept, noise):
        terms = _product(terms, polynomial)
    n = sum(true)
    return sum((weight * math.factorial(n - j) for j, weight in enumerate(terms)), start=Fraction(0))


def _polynomial(o: int, c: int, p: Number, q: Number) -> list[Number]:
    """The terms of one value, by j."""
    return [math.comb(o, j) * math.comb(c, j) * math.factorial(j) * p**j * q ** (c - j) for j in range(min(o, c) + 1)]


def _product(a: list[Number], b: list[Number]) -> list[Number]:
    product: list[Number] = [0] * (len(a) + len(b) - 1)
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            product[i + j] += left * right
    return product


def _less(counts: Sequence[int], place: int) -> list[int]:
    return [count - (k == place) for k, count in enumerate(counts)]
