"""Methods that draw every record by one matrix: what they share, and their planner.

Bounds, retentions, the integers that are sampled, and what it all costs.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sfumato.claims.claim import BOTH, Claim, Scope, Shape
from sfumato.claims.odds import OddsClaim, keeps
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.matrix_file import round_given
from sfumato.methods.method import Method, Probability, between
from sfumato.methods.perturbed import Choice, Loosening, PerturbationFigures, UniformFigures
from sfumato.methods.plan import Plan
from sfumato.methods.subset.design import best_subset
from sfumato.show.words import some
from sfumato.values.arrays import Assurance, BoolArray, FloatArray
from sfumato.values.attributes import Schema, SensitiveDomain
from sfumato.values.bound import SetBound, of_each, strictest_gamma
from sfumato.values.computed import BEST_FOR_TABLE, Facts
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix, largest_noise, uniform_retention
from sfumato.values.mechanism import Bound, Form, Mechanism
from sfumato.values.profile import Profile, domain_notes
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import (
    Amplification,
    FineGrainPrivacy,
    LocalPrivacy,
    Requirement,
    RhoPrivacy,
    Tolerance,
    exact,
    find_value,
    sets_of,
)

LOOSEN = 1.1
TINY = 1e-300
"""In place of a standard error of 0, where everything is retained."""
MOST_LOOSENINGS = 12
"""What loosening buys is shown for the strictest groups of values that bind; each costs one more solution."""
SHRINK_BITS = range(52, 20, -2)

Weights = Literal["observed", "equal"] | Mapping[str, float | str]


class Drawing(Method):
    """Each record is published by a draw from its column of one matrix: a value, or a card that stands for several.

    A new method states `scope`, and its matrix.
    """

    takes: ClassVar[tuple[type[Requirement], ...]] = (
        RhoPrivacy,
        FineGrainPrivacy,
        Tolerance,
        Amplification,
        LocalPrivacy,
    )
    figures = PerturbationFigures
    fills_domain = True
    keeps_order = True
    draws_alone = True
    scope: ClassVar[Scope] = "single values"
    """The statements about a record of which something is promised."""
    takes_one_column: ClassVar[bool] = False
    """Whether there must be one sensitive column."""

    def check(self, columns: Schema) -> None:
        """Raise unless there is one sensitive column, where there must be."""
        if self.takes_one_column and len(names := columns.names("sensitive")) > 1:
            raise ValueError(
                f"{self.name} takes one sensitive column, and there are {len(names)}; choose one, or give "
                "the others a method and a requirement of their own: [columns.NAME.method], [columns.NAME.requirement]"
            )

    @classmethod
    def unfit(cls, domain: SensitiveDomain) -> str:
        """Return that there are several columns, where there must be one."""
        if cls.takes_one_column and len(domain.parts) > 1:
            return f"It takes one sensitive column, and there are {len(domain.parts)}."
        return ""

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which beliefs are bounded."""
        return BOTH

    @property
    def weighting(self) -> Weights:
        """The frequencies for which the matrix is best."""
        return "equal"

    def about_matrix(self, figures: PerturbationFigures) -> tuple[str, ...]:
        """Return what the publisher should know of the matrix."""
        return ()

    def warnings(self, figures: PerturbationFigures, worst: int) -> Iterator[str]:
        """Say if uniform perturbation would be better; `worst`: the value whose error differs most."""
        return _warning(figures, worst, self.or_else(figures))

    @abstractmethod
    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the integers that records are drawn with; they keep every bound exactly."""

    def matrix_within(
        self,
        domain: SensitiveDomain,
        bounds: tuple[Bound, ...],
        sets: tuple[SetBound, ...],
        gamma: FloatArray,
        weight: FloatArray,
    ) -> Matrix:
        """Return the matrix where sets of values have bounds, too: each value of a set is held to that of the set.

        `gamma` are those of single values so held; so all sets are kept.
        """
        return self.matrix_for(domain, of_each(bounds, sets), gamma, weight)

    def claimed(
        self, matrix: Matrix, bounds: tuple[Bound, ...], odds: OddsClaim
    ) -> tuple[OddsClaim, tuple[Bound, ...]]:
        """Return what is claimed, and the bound that holds for each value against everybody."""
        return odds, bounds

    def form_of(self, matrix: Matrix) -> Form:
        """Return how cards are published, where the matrix publishes such."""
        return "value"

    def beside(
        self, profile: Profile, figures: PerturbationFigures, gamma: FloatArray, weight: FloatArray
    ) -> PerturbationFigures:
        """Return the figures with what other choices would give."""
        return figures

    def or_else(self, figures: PerturbationFigures) -> str:
        """Return what may be done besides taking uniform perturbation where that would estimate better."""
        return ""

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        """Return the plan with the method's matrix."""
        bounds = requirement.bounds(profile.domain, profile.counts.tolist())
        if not isinstance(requirement, self.takes):
            raise PolicyError(
                f"The method {self.name} takes one bound for all values: rho1 and rho2, gamma, or epsilon.",
                "Leave values and tolerance out; or choose a method that takes them, such as uniform or fine-grain.",
            )
        sets = sets_of(requirement, profile.domain)
        gamma, weight = _gammas(of_each(bounds, sets), profile.domain), _weights(self.weighting, profile)
        matrix = self.matrix_within(profile.domain, bounds, sets, gamma, weight)
        claim, kept = self.claimed(matrix, bounds, self._odds(requirement))
        mechanism = Mechanism.single(profile.domain, matrix, kept, self.form_of(matrix), sets)
        _check_written(mechanism)
        figures = PerturbationFigures(claim, (mechanism,), profile.counts, (profile.counts,))
        figures = self.beside(profile, figures, gamma, weight)
        notes = list(_notes(profile, figures, self))
        if self.scope != "any predicate" or matrix.retention is None:  # else it is what uniform perturbation is
            figures, worst = _beside_uniform(figures, gamma)
            notes = [*self.warnings(figures, worst), *notes]
        return Plan.of(profile, self, figures, notes, keeps_order=profile.keeps_order)

    def facts(self, figures: PerturbationFigures) -> Facts:
        """Return that the matrix was made best for the table, if so."""
        return (BEST_FOR_TABLE,) if self.weighting == "observed" else ()

    def claim_for(self, figures: PerturbationFigures, requirement: Requirement) -> Claim:
        """Return the bounds on odds that the options ask for, whatever a plan file says."""
        bounds = requirement.bounds(figures.domain, figures.counts.tolist())
        return self.claimed(figures.matrix, bounds, self._odds(requirement))[0]

    def _odds(self, requirement: Requirement) -> OddsClaim:
        discloses = isinstance(requirement, Tolerance) and requirement.discloses_frequencies
        return OddsClaim(self.scope, self.directions, discloses, self.assurance == "as-published")


class Perturbing(Drawing):
    """Each record keeps its value with some probability; else it gets a value of the domain, all alike."""

    assurances_agree: ClassVar[bool] = False
    """Whether both assurances have the same matrix."""

    retention_floor: Annotated[
        Probability, Field(description="Refuse to keep any value with a lower probability than this; 0 for no floor.")
    ] = 0.0

    @property
    def floor(self) -> Fraction:
        """The floor on every retention probability, 0 for none."""
        return between(self.retention_floor, "retention_floor", strictly=False)

    def columns(self, domain: SensitiveDomain, gamma: FloatArray) -> Sequence[Sequence[int]] | None:
        """Return integers in proportion to a matrix of any kind, a column for each true value; None: `retention`."""
        return None

    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return the retention of each value, where the matrix is made of these; the floor can be had."""
        return strictest_retention(gamma)

    def check_numbers(self) -> None:
        """Raise if the floor is no probability."""
        _ = self.floor

    def matrix_for(
        self, domain: SensitiveDomain, bounds: tuple[Bound, ...], gamma: FloatArray, weight: FloatArray
    ) -> Matrix:
        """Return the matrix of the retentions, or the one that is given."""
        floor = float(self.floor)
        _check_floor(floor, gamma, domain)
        columns = self.columns(domain, gamma)
        if columns is not None:
            return round_given(columns, bounds, self.directions, domain)
        return round_within(self.retention(gamma, weight, floor, self.assurance), bounds, self.directions, floor)

    def beside(
        self, profile: Profile, figures: PerturbationFigures, gamma: FloatArray, weight: FloatArray
    ) -> PerturbationFigures:
        """Return the figures with what looser bounds, the other assurance, and sets of the same promise would give."""
        if figures.matrix.retention is None:
            return figures
        floor = float(self.floor)
        return replace(
            figures,
            loosenings=_loosenings(profile, self, gamma, weight, floor),
            other_assurance=_other(profile, self, gamma, weight, floor),
            choices=tuple(sets_beside(figures, gamma)) if self.scope == "any predicate" else (),
        )


def _check_written(mechanism: Mechanism) -> None:
    """Raise unless what is published can be told apart as it is written."""
    try:
        _ = mechanism.published
    except ValueError as problem:
        other = 'Ask for form = "card", merge' if mechanism.form == "set" else "Merge"
        raise PolicyError(
            f"{mechanism.domain.name!r} cannot be published as {mechanism.form}s: {problem}.",
            f"{other} the value, or rename it.",
        ) from None


def _gammas(bounds: Sequence[Bound], domain: SensitiveDomain) -> FloatArray:
    """Return the gammas as numbers; something must be required, and no gamma may be 1 to the precision of numbers."""
    gamma = np.array([math.inf if b.gamma is None else float(b.gamma) for b in bounds])
    if np.isinf(gamma).all():
        raise Infeasible(
            f"Nothing is required of any {domain.name}: the table would be published as it is.",
            "With a tolerance, values with rho1 >= 1/tolerance have no requirement: ask for a smaller tolerance.",
        )
    if gamma.min() <= 1:
        raise Infeasible(
            f"The requirement on {domain.labels[int(gamma.argmin())]!r} is so strict that nothing could be retained: "
            "its gamma is 1 to the precision of numbers.",
            "Let rho2 be larger than rho1 by a millionth at least.",
        )
    return gamma


def _weights(weights: Weights, profile: Profile) -> FloatArray:
    """Return the weight of each value in the objective."""
    if isinstance(weights, str):
        return profile.frequency if weights == "observed" else np.ones(profile.domain.size)
    stated = {find_value(profile.domain, key): exact(w, f"weight of {key!r}") for key, w in weights.items()}
    if lacking := [profile.domain.labels[c] for c in range(profile.domain.size) if c not in stated]:
        raise PolicyError(f"method.weights lacks {some(lacking)}.", "Give a weight for every value.")
    if min(stated.values()) < 0 or not sum(stated.values()):
        raise PolicyError(
            "method.weights must not be negative, nor all zero.", "Write shares, such as { flu = 0.7, HIV = 0.3 }."
        )
    return np.array([float(stated[c]) for c in range(profile.domain.size)])


def _check_floor(floor: float, gamma: FloatArray, domain: SensitiveDomain) -> None:
    """A common floor is feasible iff it is at most the smallest e_i = (gamma_i - 1)/(m - 1 + gamma_i)."""
    strictest = int(gamma.argmin())
    most = uniform_retention(float(gamma.min()), gamma.size)
    if floor > most:
        raise Infeasible(
            f"A retention floor of {floor:.6g} cannot be met: {domain.labels[strictest]!r} "
            f"(gamma = {gamma[strictest]:.6g}, {domain.size} values) allows at most {most:.6g}.",
            f"Ask for a floor of {math.floor(most * 1e6) / 1e6:g} or less, or loosen the requirement on that value.",
        )


def _record_utility(retention: FloatArray, frequency: FloatArray) -> float:
    m = retention.size
    return float(frequency @ (retention + (1 - retention) / m))


def _beside_uniform(figures: PerturbationFigures, gamma: FloatArray) -> tuple[PerturbationFigures, int]:
    """Return the figures with what plain uniform perturbation would give, and the value whose error differs most."""
    matrix = round_within(strictest_retention(gamma), of_each(figures.bounds, figures.mechanism.sets), BOTH)
    other = replace(figures, mechanisms=(Mechanism.single(figures.domain, matrix, figures.bounds),))
    errors, variation, own = other.standard_error, other.total_variation, figures.standard_error
    assert errors is not None  # a gamma above 1 leaves every value some retention
    assert variation is not None
    worst = int(np.argmin(figures.diagonal)) if own is None else int(np.argmax(own / np.maximum(errors, TINY)))
    uniform = UniformFigures(
        retention=float(matrix.retention[0]),
        record_utility=other.record_utility,
        total_variation=variation,
        expected_error=other.expected_error or 0.0,
        value=figures.domain.labels[worst],
        standard_error=float(errors[worst]),
    )
    return replace(figures, uniform=uniform), worst


def sets_beside(figures: PerturbationFigures, gammas: FloatArray) -> Iterator[Choice]:
    """Yield the expected error of the best sets for the strictest gamma, where they are for one column.

    It is that of all sets of their size, the same for every table; a deck of them loses a few thousandths. Fewer than
    gamma + 1 values are best published one by one.
    """
    gamma, m = float(gammas.min()), figures.domain.size
    if len(figures.domain.parts) > 1 or m < gamma + 1:
        return
    best = best_subset(gamma, m)
    if best.members > 1:
        yield Choice("subset", best.error)


def _warning(figures: PerturbationFigures, worst: int, remedy: str) -> Iterator[str]:
    """Say by how much plain uniform perturbation estimates better, if it does, and what to do."""
    errors, uniform = figures.standard_error, figures.uniform
    if uniform is None or not figures.uniform_estimates_better:
        return
    own = (
        "this plan's matrix gives no error bars at all"
        if errors is None
        else f"this plan has {figures.expected_error:,.4g}, and estimates the count of {uniform.value!r} with a "
        f"standard error of {errors[worst]:,.0f} in place of {uniform.standard_error:,.0f}"
    )
    yield (
        "Plain uniform perturbation with the strictest requirement would estimate better: the expected squared error "
        f"of all counts, per record, is {uniform.expected_error:,.4g}; {own}. Choose the method uniform{remedy}."
    )


def _other(
    profile: Profile, method: Perturbing, gamma: FloatArray, weight: FloatArray, floor: float
) -> tuple[str, float] | None:
    """What the other assurance would have given."""
    if method.assurances_agree:
        return None
    other: Assurance = "proved" if method.assurance == "as-published" else "as-published"
    return other, _record_utility(method.retention(gamma, weight, floor, other), profile.frequency)


def _loosenings(
    profile: Profile, method: Perturbing, gamma: FloatArray, weight: FloatArray, floor: float
) -> tuple[Loosening, ...]:
    """Solve again with the gamma of one group of equally strict values raised by a tenth, strictest groups first."""

    def utility(gammas: FloatArray) -> float:
        return _record_utility(method.retention(gammas, weight, floor, method.assurance), profile.frequency)

    before, labels, found = utility(gamma), profile.domain.labels, []
    for strictness in np.unique(gamma[np.isfinite(gamma)])[:MOST_LOOSENINGS]:
        group = gamma == strictness
        after = utility(np.where(group, gamma * LOOSEN, gamma))
        if after > before * (1 + 1e-9):
            names = tuple(labels[c] for c in np.flatnonzero(group))
            found.append(Loosening(names, float(strictness), float(strictness * LOOSEN), after))
    return tuple(found)


def _notes(profile: Profile, figures: PerturbationFigures, method: Drawing) -> Iterator[str]:
    domain, matrix = figures.domain, figures.matrix
    if "downward" not in figures.directions and isinstance(figures.claim, OddsClaim):
        yield figures.claim.downward_limit(domain, figures.mechanism.tables[0])
    if figures.claim.discloses():
        yield (
            'rho1 = "observed": the matrix is computed from the table\'s own frequencies, and publishing it discloses '
            "them. rho1 from a public source avoids that."
        )
    if method.weighting == "observed":
        yield (
            'weights = "observed": the matrix is computed from how often each value occurs, so the matrix itself tells '
            "something, also to someone who knows no record. The bound holds given the matrix. Leave weights out, or "
            "give public ones, to avoid that."
        )
    yield from _about_sets(figures)
    yield from method.about_matrix(figures)
    if noise_only := [domain.labels[c] for c in np.flatnonzero(_is_noise(matrix))]:
        yield f"Pure noise: nothing is retained of {some(noise_only)}; the optimum gives it up for the others."
    if not matrix.is_invertible:
        yield (
            "The matrix has no inverse, so counts can only be estimated by EM, without error bars."
            + ("" if matrix.retention is None else " A retention floor above 0 restores them.")
        )
    yield from domain_notes(profile)
    yield profile.order.statement


def _about_sets(figures: PerturbationFigures) -> Iterator[str]:
    """Say how sets of values were taken: by the strictest of all, or held together with their values."""
    sets, scope = figures.mechanism.sets, figures.claim.guarantee(Shape(figures.mechanisms)).scope
    if sets and scope == "any predicate":
        strictest = float(strictest_gamma(figures.bounds, sets) or 0)
        yield (
            f"The strictest requirement of all values and of {len(sets)} set(s), the factor {strictest:.4g}, is kept "
            "for every statement: sets need no noise of their own."
        )


def _is_noise(matrix: Matrix) -> BoolArray:
    """Whether a value is retained as little as the integers can."""
    least = (WORDS - largest_noise(matrix.size) * matrix.size) / WORDS
    kept = np.ones(matrix.size) if matrix.retention is None else matrix.retention
    return np.asarray(kept <= least)


# --- integers -------------------------------------------------------------------------------------------------------


def strictest_retention(gamma: FloatArray) -> FloatArray:
    """Return the same largest retention for every value, from the strictest gamma."""
    return np.full(gamma.size, uniform_retention(float(gamma.min()), gamma.size))


def round_within(
    retention: FloatArray, bounds: Sequence[Bound], directions: Sequence[Direction], floor: float = 0.0
) -> PerturbationMatrix:
    """Return the integer matrix next below `retention` that keeps every bound exactly.

    Rounding noise up helps every constraint; what remains is the solver's own rounding (about 2^-52) and the cap on
    pure noise. Less retention always helps: the constraints are (m-1) p_i + G p_j <= G - 1 with non-negative
    coefficients, so scaling all p by 1 - 2^-b leaves a slack of 2^-b (G-1). The least shrinking that passes the
    exact check is taken.
    """
    retention = np.clip(retention, 0.0, 1.0)
    for shrink in (0.0, *(2.0**-bits for bits in SHRINK_BITS), 1.0):
        matrix = PerturbationMatrix.from_retention(retention * (1 - shrink))
        if keeps(matrix, bounds, directions):
            if matrix.retention.min() < floor * (1 - 1e-6):
                break
            return matrix
    raise Infeasible(
        "A gamma is so close to 1 that 64-bit sampling cannot keep it, or not with this retention floor.",
        "Ask for a gamma that is larger by a millionth.",
    )
