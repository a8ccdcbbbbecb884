"""What two releases of the same people tell together: exact factors, and the sentences that say so.

A person has the values (x_1, x_2) at the two times, and (y_1, y_2) are published with probability K(y | x). Over all
priors on such pairs, the odds of a statement about the person change by at most

    max_y  max_{x for which it holds} K(y | x)  /  min_{x for which it does not} K(y | x)

and by that much for some prior.

    fresh noise   K(y | a, b) = P_1[y_1, a] P_2[y_2, b]
        The odds of "x_1 = i" change by its factor in the first release, times the largest ratio of two entries of a row
        of the second matrix. That is its own factor squared only where the matrix is uniform; or, at most, for someone
        who knows that the value stayed.

    record key    K(y | a, a) = P[y_1, a] if y_1 = y_2, else 0;   K(y | a, b) = P[y_1, a] P[y_2, b] for different a, b
        Values that stay are published alike. Two equal published values raise the odds of a value that stays against
        two that follow each other, by up to `equal_twice`. Two different ones exclude every value that never changes.

So a record key tells nothing more only to someone for whom how long a value lasts tells nothing of which value it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from sfumato.claims.guarantee import rounded_up
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.mechanism import Mechanism
from sfumato.values.requirement import Bound

SECOND_BUCKETS = (
    "The key was discarded: a second release of the same people makes other groups. Together two releases by groups "
    "can tell all: a record has one of the values that both its groups have, often one only, and no bound is kept."
)
SECOND_DEAL = (
    "The key was discarded: a second release of the same people deals and draws anew. Together two releases tell more "
    "than both alone: a record has one of the values that both its sub-tables hold, and the factors by which the odds "
    "can rise are multiplied. No bound is promised for the two together."
)
SECOND_RESPONSE = (
    "The key was discarded: a second release of the same people draws fresh noise, and the two add up: rows that can "
    "be told to be of one person tell more of its true quasi-identifiers, and the limit is for one release."
)


# --- factors ----------------------------------------------------------------------------------------------------------


def equal_twice(matrix: Matrix) -> Fraction | None:
    """Return how much two equal published values raise the odds of a value that stays, with a record key; None: no end.

        max_i max_y  P[y, i] / (the product of the two smallest entries of row y)

    The value i that stays is published as (y, y) with P[y, i], two that follow each other with P[y, k] P[y, b].
    Uniform: gamma (m - 1 + gamma) from three values on.

    >>> from sfumato.values.matrix.retention import PerturbationMatrix
    >>> round(float(equal_twice(PerturbationMatrix.from_retention([2 / 14] * 12))), 6)
    42.0
    """
    found = [matrix.equal_twice(code) for code in range(matrix.size)]
    return None if None in found else max(factor for factor in found if factor is not None)


def own_factor(matrix: Matrix, code: int, directions: Iterable[Direction]) -> Fraction | None:
    """Return by how much one release changes the odds of a value; None: without bound."""
    factors = {"upward": matrix.upward, "downward": matrix.downward}
    own = [factors[direction](code) for direction in directions]
    return None if None in own else max(factor for factor in own if factor is not None)


def with_fresh_noise(own: Fraction | None, other: Matrix, releases: int = 2) -> Fraction | None:
    """Return what becomes of a value's own factor with so many releases in all, the others by this matrix.

    own factor * (the largest ratio of two entries of a row of the other matrix)^(releases - 1)
    """
    ratio = other.largest_ratio
    return None if own is None or ratio is None else own * ratio ** (releases - 1)


# --- sentences --------------------------------------------------------------------------------------------------------


def told_factor(factor: Fraction | None) -> str:
    """Return a factor in words, never below it."""
    return "any factor" if factor is None else f"the factor {rounded_up(factor)}"


def assumed(mechanisms: Sequence[Mechanism]) -> str:
    """Return what is assumed of every release with a record key, with what it costs where it is not so."""
    factors = [equal_twice(mechanism.matrix) for mechanism in mechanisms]
    worst = None if None in factors else max((f for f in factors if f is not None), default=Fraction(1))
    alone = " of one column" if len(mechanisms) > 1 else ""
    return (
        "ASSUMED, NOT PROVED: that how long a value lasts tells nothing of which value it is. Where some values last "
        f"longer, equal published values{alone} in two releases raise their odds by up to {told_factor(worst)}, and "
        "different ones exclude values that never change."
    )


def second_with_key(mechanisms: Sequence[Mechanism]) -> str:
    """Return what a second release tells if records keep their draws."""
    return (
        "Records keep their draws in later releases of the same series with the same key file, domain and matrix. "
        f"{assumed(mechanisms)} With another matrix or domain fresh noise is drawn, and the two add up: the odds of a "
        "value can change by its own factor times the largest ratio of the other release."
    )


def second_response_with_key(mechanisms: Sequence[Mechanism]) -> str:
    """Return the same for randomized response."""
    return (
        "Records keep their draws in later releases of the same series with the same key file, domains and matrices. "
        f"{assumed(mechanisms)} The matrices are computed from the table: a change of it, such as a new row or a "
        "corrected value, can give others. Then fresh noise is drawn for everybody, and the two add up. The limit is "
        "for one release."
    )


def second_with_fresh_noise(matrix: Matrix, bounds: Sequence[Bound], directions: Sequence[Direction]) -> str:
    """Return what a second release tells if it draws fresh noise, with the factors of the strictest value."""
    required = [(bound.gamma, code) for code, bound in enumerate(bounds) if bound.gamma is not None]
    once = own_factor(matrix, min(required)[1], directions)
    return (
        "The key was discarded: a second release of the same people draws fresh noise, and the two add up. The odds of "
        f"the value with the strictest bound can {'change' if 'downward' in directions else 'rise'} by up to "
        f"{told_factor(once)} in one release, and by up to {told_factor(with_fresh_noise(once, matrix))} in two with "
        "this matrix: its own factor times the largest ratio of the other release."
    )


def second_of(mechanisms: Sequence[Mechanism], directions: Sequence[Direction], keyed: bool) -> str:
    """Return what a second release tells of values that were perturbed: by one matrix, or in sub-tables."""
    if keyed:
        return second_with_key(mechanisms)
    if mechanisms[0].label:
        return SECOND_DEAL
    only = mechanisms[0].tables[0]  # it may lack values of the domain that do not occur
    return second_with_fresh_noise(only.matrix, only.bounds, directions)
