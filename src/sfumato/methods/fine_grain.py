"""Fine-grain perturbation: a requirement for each value, and noise that is no larger than it must be.

    objective "error"      the least error of counts: the staircase, in which every ratio of an own to another entry is
                           what the two values allow; upward only, cover noise
    objective "records"    the largest record utility, by a retention probability for each value
        as-published       FG Fig. 3: upward privacy only, although FG Theorem 1 claims both directions
        proved             both directions: (m-1) p_i + G_ij p_j <= G_ij - 1 for i != j, G_ij = min(gamma_i, gamma_j)

The guarantee is for single values, and for sets of values that have a requirement: another predicate that joins several
values can gain more than either of them, by the square of the smallest gamma at most.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from sfumato.claims.claim import BOTH, UPWARD
from sfumato.methods.fine_grain_solver import solve_both, solve_upward
from sfumato.methods.least_error import least_error
from sfumato.methods.matrix_file import read_columns, round_given
from sfumato.methods.method import Probability
from sfumato.methods.perturbation import Perturbing, Weights, round_within, strictest_retention
from sfumato.methods.perturbed import Choice, PerturbationFigures
from sfumato.methods.staircase import effective
from sfumato.values.arrays import Assurance, FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.bound import SetBound, of_each, strictest_gamma
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.deck import MOST_CARDS
from sfumato.values.mechanism import Bound
from sfumato.values.profile import Profile


class FineGrain(Perturbing):
    """Fine-grain perturbation: a requirement for each value.

    `objective` is what the matrix is best for: the error of counts ("error", which is taken if nothing else is asked
    for), or the share of records that keep their value ("records", the paper's, with a retention for each value).
    `weights` are the frequencies for which it is best: equal ones, a table of public ones, or the table's own
    ("observed": then the matrix itself tells something of them). With `upward_only` beliefs may fall by any factor.
    No retention is below `retention_floor`, which is for records. `matrix` names a CSV file with a matrix, which is
    taken if it keeps the requirement: see docs/methods/proofs/fine-grain.md.
    """

    name = "fine-grain"
    title = "fine-grain perturbation"
    promise = (
        "The odds of each single value change by a bounded factor, for whoever sees the person's row, whatever they "
        "believed before."
    )
    avoid_if = (
        'statements that join values, such as "HIV or hepatitis", must be bounded as strictly as single values: here '
        "they are not."
    )

    beside_uniform = "Give fine-grain a retention_floor, or choose uniform."

    objective: Annotated[
        Literal["error", "records"] | None,
        Field(
            exclude_if=lambda chosen: chosen is None,
            description="What the noise is best for: the error of counts, or the number of records that stay true.",
        ),
    ] = None
    upward_only: Annotated[
        bool,
        Field(
            exclude_if=lambda chosen: not chosen,
            description="Beliefs are held from rising only; they may fall by any amount.",
        ),
    ] = False
    weights: Annotated[
        Literal["observed", "equal"] | dict[str, Probability],
        Field(
            description="The shares of values for which the noise is best. observed: those of the table; the release "
            "then tells something of them."
        ),
    ] = "equal"
    matrix: Annotated[
        str | None,
        Field(
            exclude_if=lambda name: name is None,  # old policies keep their hashes
            description="A CSV file with probabilities of your own, taken if they keep the requirement.",
        ),
    ] = None

    @model_validator(mode="after")
    def _is_given_alone(self) -> FineGrain:
        options = (self.assurance, self.weights, self.retention_floor, self.objective)
        if self.matrix is not None and options != ("proved", "equal", 0, None):
            raise ValueError(
                "a matrix that is given is not computed: assurance, weights, retention_floor and objective do not go "
                "with matrix; leave them out"
            )
        if self.objective == "error" and self.assurance == "as-published":
            raise ValueError(
                'as-published is the matrix of the paper, of objective "records"; leave one of the two out'
            )
        if self.objective == "error" and self.retention_floor:
            raise ValueError('retention_floor goes with objective = "records"; leave one of the two out')
        return self

    @property
    def is_for_records(self) -> bool:
        """Whether the matrix has the largest record utility, rather than the least error."""
        return self.objective == "records" or self.assurance == "as-published" or bool(self.retention_floor)

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the staircase or cover noise; of retentions, or from a file, as all that perturb."""
        if self.matrix is not None or self.is_for_records:
            return super().matrix_for(domain, bounds, gamma, weight)
        return least_error(bounds, self.directions, gamma, weight)

    def matrix_within(
        self,
        domain: SensitiveDomain,
        bounds: tuple[Bound, ...],
        sets: tuple[SetBound, ...],
        gamma: FloatArray,
        weight: FloatArray,
    ) -> Matrix:
        """Return the matrix in which sets are held as such, where that is known; of retentions, with their values."""
        if not sets or (self.is_for_records and self.matrix is None):
            return super().matrix_within(domain, bounds, sets, gamma, weight)
        columns = self.columns(domain, gamma)
        if columns is not None:
            return round_given(columns, bounds, self.directions, domain, sets)
        return least_error(bounds, self.directions, gamma, weight, sets)

    def beside(
        self, profile: Profile, figures: PerturbationFigures, gamma: FloatArray, weight: FloatArray
    ) -> PerturbationFigures:
        """Return the figures with the expected errors of other choices."""
        chosen = super().beside(profile, figures, gamma, weight) if self.is_for_records else figures
        is_other = self.is_for_records or self.matrix is not None
        least = (
            least_error(figures.bounds, self.directions, gamma, weight, figures.mechanism.sets)
            if is_other
            else figures.matrix
        )
        return replace(chosen, choices=tuple(_choices(figures, self.directions, gamma, weight, least)))

    def columns(self, domain: SensitiveDomain, gamma: FloatArray) -> Sequence[Sequence[int]] | None:
        """Return the matrix of the file, from the policy's folder."""
        return None if self.matrix is None else read_columns(self.folder / self.matrix, domain)

    @property
    def named_files(self) -> tuple[Path, ...]:
        return () if self.matrix is None else (self.folder / self.matrix,)

    def by_whole_paths(self) -> dict[str, Any]:
        return {} if self.matrix is None else {"matrix": str((self.folder / self.matrix).resolve())}

    def about_matrix(self, figures: PerturbationFigures) -> tuple[str, ...]:
        """Return whence the matrix is."""
        if self.matrix is None:
            return ()
        return (
            "The matrix was given in a file. Its bounds were checked in exact integers; whether it was made from this "
            "table, and so tells something of it, is for you to know.",
        )

    def or_else(self, figures: PerturbationFigures) -> str:
        """Return another matrix, a floor, or the other objective."""
        if self.matrix is not None:
            return ", or give another matrix"
        if not self.is_for_records or figures.uniform is None:
            return ""
        floor = f"a retention_floor of at most {math.floor(figures.uniform.retention * 1e4) / 1e4:g}"
        return f", give {floor}" + ("" if self.assurance == "as-published" else ', or ask for objective = "error"')

    @property
    def directions(self) -> tuple[Direction, ...]:
        """FG Fig. 3 as published asks for the upward direction only."""
        return BOTH if self.assurance == "proved" and not self.upward_only else UPWARD

    @property
    def weighting(self) -> Weights:
        """The frequencies for which the matrix is best."""
        return self.weights

    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return the optimal retentions."""
        solve = solve_upward if assurance == "as-published" or self.upward_only else solve_both
        return solve(gamma, weight, floor)


def _choices(
    figures: PerturbationFigures,
    directions: Sequence[Direction],
    gamma: FloatArray,
    weight: FloatArray,
    least: Matrix,
) -> Iterator[Choice]:
    """Yield what counts would cost under other choices, for this table; `least` is the matrix of the least error."""
    from sfumato.methods.subset.method import QUICK_CLASSES, best_deck, graded_choice

    bounds, sets = figures.bounds, figures.mechanism.sets
    each, strictest = of_each(bounds, sets), strictest_gamma(bounds, sets)
    assert strictest is not None  # else nothing would have been planned
    solve = solve_both if "downward" in directions else solve_upward
    for name, matrix in (
        ('fine-grain, objective = "error"', least),
        ('fine-grain, objective = "records"', round_within(solve(gamma, weight, 0.0), each, directions)),
        ("uniform", round_within(strictest_retention(gamma), each, BOTH)),
    ):
        yield Choice(name, figures.error_under(matrix))
    if len(figures.domain.parts) == 1 and figures.domain.size <= MOST_CARDS:
        yield Choice("subset", figures.error_under(best_deck(figures.domain.size, strictest)))
        if "downward" in directions and np.unique(effective(gamma)).size <= QUICK_CLASSES:
            yield from graded_choice(figures)
