"""What methods for ordered values share: the order itself, integers that keep a bound, and what is told of errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

import numpy as np

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.perturbation import Drawing, sets_beside
from sfumato.methods.perturbed import BETTER, PerturbationFigures
from sfumato.methods.subset.design import best_subset
from sfumato.show.words import share, some
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.bound import of_each
from sfumato.values.matrix.dense import MOST_VALUES, DenseMatrix
from sfumato.values.order import codes_in_order
from sfumato.values.profile import Profile

NOISE_BITS = range(52, 19, -1)


class OrderedDrawing(Drawing):
    """Each record is published by a draw from one matrix, which knows that values are neighbours."""

    scope = "any predicate"
    most_values: ClassVar[int] = MOST_VALUES
    """Values that its matrix can have."""
    for_order = True
    takes_one_column = True
    beside_uniform = "What it estimates better is shares up to a value, quantiles and means."

    @classmethod
    def unfit(cls, domain: SensitiveDomain) -> str:
        """Return that there are several columns, that values are in no order, or that they are too many."""
        if reason := super().unfit(domain):
            return reason
        try:
            cls.codes_in_order(domain)
        except PolicyError as problem:
            return problem.message
        return ""

    @classmethod
    def codes_in_order(cls, domain: SensitiveDomain) -> IntArray:
        """Return the codes from the lowest value to the highest; raise if there is no order, or too many values."""
        (part,) = domain.parts
        if None in part.values:
            raise PolicyError(
                f"{part.name!r} may be missing, and a missing value is in no order.",
                f'Write missing = "drop" for {part.name!r}, or choose the method subset or uniform.',
            )
        if not (order := codes_in_order(part)):
            raise PolicyError(
                f"{part.name!r} holds texts such as {some(list(part.labels[:2]))}, which are in no order.",
                f"{cls.name} is for ordered values. If they have an order, say so: ordered = true in "
                f"[columns.{part.name}], and its domain listed from the lowest to the highest. Else choose the method "
                "subset or uniform.",
            )
        if domain.size > cls.most_values:
            raise PolicyError(
                f"{part.name!r} has {domain.size:,} values; the matrix of {cls.name} can have {cls.most_values:,}.",
                f"Make {part.name!r} coarser, with bins = {{ width = ... }} say, or choose the method subset.",
            )
        return np.array(order, dtype=np.int64)

    def warnings(self, figures: PerturbationFigures, worst: int) -> Iterator[str]:
        """Say if single counts are estimated better by uniform perturbation: that is not what the matrix is for."""
        own, uniform = figures.expected_error, figures.uniform
        if own is not None and uniform is not None and uniform.expected_error < own * (1 - BETTER):
            yield (
                "Counts of single values would be better with plain uniform perturbation: its expected squared error "
                f"of all counts together, per record, is {uniform.expected_error:.4g}; this plan's {own:.4g}. "
                f"{self.name} is for what lies up to a value: distribution functions, quantiles and means."
            )

    def beside(
        self, profile: Profile, figures: PerturbationFigures, gamma: FloatArray, weight: FloatArray
    ) -> PerturbationFigures:
        """Return the figures with the expected error of sets."""
        return replace(figures, choices=tuple(sets_beside(figures, gamma)))

    def factor_of(self, figures: PerturbationFigures) -> float:
        """Return the factor for which uniform perturbation stands beside the matrix."""
        bounds = of_each(figures.bounds, figures.mechanism.sets)
        return min(float(bound.gamma) for bound in bounds if bound.gamma is not None)

    def about_matrix(self, figures: PerturbationFigures) -> tuple[str, ...]:
        """Tell the errors of the distribution function and the mean, for this table, beside uniform's."""
        from sfumato.methods.ordered.design import errors_of, errors_of_sets, windows

        order, rows, factor = self.codes_in_order(figures.domain), max(1, figures.rows), self.factor_of(figures)
        chances, shares = figures.matrix.dense()[:, order], figures.counts[order] / rows
        own, uniform, sets = (
            [share(math.sqrt(max(0.0, error) / rows), 2) for error in (found.distribution, found.mean)]
            for found in (
                errors_of(chances, shares),
                errors_of(windows(shares.size, 1, factor).chances, shares),
                errors_of_sets(best_subset(factor, shares.size), shares),
            )
        )
        return (
            f"For this table the share of records up to a value is estimated with a standard error of {own[0]}, "
            f"and their mean place in the order with one of {own[1]} of the range; by plain uniform perturbation "
            f"with the same factor {uniform[0]} and {uniform[1]}, by subset selection {sets[0]} and {sets[1]}.",
        )


def in_codes(chances: FloatArray, order: IntArray) -> FloatArray:
    """Return P[published, true] for codes in place of places, of a matrix that publishes values."""
    place = np.argsort(order)
    return np.asarray(chances[np.ix_(place, place)])


def rounded(chances: FloatArray, keeps: Callable[[DenseMatrix], bool]) -> DenseMatrix:
    """Return the integers next to P[published, true], with the least noise that keeps what must be kept, exactly."""
    for noise in (0.0, *(2.0**-bits for bits in NOISE_BITS)):
        try:
            matrix = DenseMatrix.from_floats(chances, noise)
        except ValueError:  # an entry has fewer units than floating point errs by: more noise gives it some
            continue
        if keeps(matrix):
            return matrix
    raise too_strict()


def too_strict() -> Infeasible:
    """Return the error of a bound that 2^64 words are too few for."""
    return Infeasible(
        "The requirement is so strict that 64-bit sampling cannot keep it.", "Ask for a gamma that is larger."
    )
