"""The planner of both perturbation methods: bounds, retentions, integers, guarantee, and what it all costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sfumato.claims.claim import BOTH, Shape
from sfumato.claims.odds import OddsClaim, downward_limit
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods import uniform
from sfumato.methods.matrix_file import read_columns
from sfumato.methods.notes import profile_notes, some, with_draws_kept
from sfumato.methods.perturbing import Perturbing, Weights
from sfumato.methods.plan import Loosening, Plan, UniformFigures
from sfumato.methods.rounding import round_given, round_within
from sfumato.methods.row_order import row_order_facts
from sfumato.values.arrays import Assurance, BoolArray, FloatArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.computed import BEST_FOR_TABLE
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.retention import WORDS, largest_noise
from sfumato.values.mechanism import Mechanism
from sfumato.values.profile import Profile
from sfumato.values.requirement import Bound, Requirement, Tolerance, exact, find_value

LOOSEN = 1.1
TINY = 1e-300
"""In place of a standard error of 0, where everything is retained."""
MOST_LOOSENINGS = 12
"""What loosening buys is shown for the strictest groups of values that bind; each costs one more solution."""


def plan(profile: Profile, requirement: Requirement, method: Perturbing) -> Plan:
    """Return the plan with the largest record utility: see `sfumato.methods.plan`."""
    bounds = requirement.bounds(profile.domain, profile.counts.tolist())
    assurance, gamma, floor = method.assurance, _gammas(bounds, profile.domain), float(method.floor)
    _check_floor(floor, gamma, profile.domain)
    weight = _weights(method.weighting, profile)
    discloses = isinstance(requirement, Tolerance) and requirement.discloses_frequencies
    claim = OddsClaim(method.scope, method.directions, discloses)
    matrix = _matrix(method, profile.domain, bounds, claim.directions, (gamma, weight, floor))
    given = method.matrix_file is not None
    optimised = method.weighting == "observed"
    computed = (
        *profile.computed_from_table,
        *claim.facts(),
        *([BEST_FOR_TABLE] if optimised else []),
        *row_order_facts(profile),
    )
    mechanism = Mechanism.single(profile.domain, matrix, bounds)
    made = Plan(
        method=method.name,
        assurance=assurance,
        counts=profile.counts,
        mechanism=mechanism,
        quotas=(profile.counts,),
        guarantee=claim.guarantee(Shape((mechanism,), computed=computed)),
        shuffle=not profile.keeps_order,
        notes=tuple(_notes(profile, matrix, bounds, discloses, optimised, claim.directions)),
        loosenings=() if given else _loosenings(profile, method, gamma, weight, floor),
        other_assurance=None if given else _other(profile, method, gamma, weight, floor),
        dropped=profile.dropped,
        uniqueness=profile.uniqueness,
        observed=profile.observed,
        discloses_frequencies=discloses,
        computed_from_table=computed,
    )
    return with_draws_kept(made if isinstance(method, uniform.Uniform) else _beside_uniform(made, gamma), profile)


def _matrix(
    method: Perturbing,
    domain: SensitiveDomain,
    bounds: Sequence[Bound],
    directions: Sequence[Direction],
    asked: tuple[FloatArray, FloatArray, float],
) -> Matrix:
    """Return the matrix of the method's retentions, or the one that is given in a file, in integers."""
    if method.matrix_file is not None:
        return round_given(read_columns(method.matrix_file, domain), bounds, directions, domain)
    return round_within(method.retention(*asked, method.assurance), bounds, directions, asked[2])


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
    most = float(uniform.retention(gamma)[0])
    if floor > most:
        raise Infeasible(
            f"A retention floor of {floor:.6g} cannot be met: {domain.labels[strictest]!r} "
            f"(gamma = {gamma[strictest]:.6g}, {domain.size} values) allows at most {most:.6g}.",
            f"Ask for a floor of {math.floor(most * 1e6) / 1e6:g} or less, or loosen the requirement on that value.",
        )


def _record_utility(retention: FloatArray, frequency: FloatArray) -> float:
    m = retention.size
    return float(frequency @ (retention + (1 - retention) / m))


def _beside_uniform(made: Plan, gamma: FloatArray) -> Plan:
    """Return the plan with what plain uniform perturbation would give, and a warning where that estimates better."""
    matrix = round_within(uniform.retention(gamma), made.bounds, BOTH, 0.0)
    other = replace(made, mechanism=Mechanism.single(made.domain, matrix, made.bounds))
    errors, variation = other.standard_error, other.total_variation
    assert errors is not None  # a gamma above 1 leaves every value some retention
    assert variation is not None
    own = made.standard_error
    worst = int(np.argmin(made.retention)) if own is None else int(np.argmax(own / np.maximum(errors, TINY)))
    figures = UniformFigures(
        retention=float(matrix.retention[0]),
        record_utility=other.record_utility,
        total_variation=variation,
        value=made.domain.labels[worst],
        standard_error=float(errors[worst]),
    )
    made = replace(made, uniform=figures)
    return replace(made, notes=(_warning(made, worst), *made.notes)) if made.uniform_estimates_better else made


def _warning(made: Plan, worst: int) -> str:
    """Say by how much plain uniform perturbation estimates better, and what to do."""
    assert made.uniform is not None
    errors, figures = made.standard_error, made.uniform
    own = (
        "this plan's matrix gives no error bars at all"
        if errors is None
        else f"this plan has {made.total_variation:.4f}, and estimates the count of {figures.value!r} with a standard "
        f"error of {errors[worst]:,.0f} in place of {figures.standard_error:,.0f}"
    )
    floor = f"a retention_floor of at most {math.floor(figures.retention * 1e4) / 1e4:g}"
    other = "another matrix" if made.matrix.retention is None else floor
    return (
        "Plain uniform perturbation with the strictest requirement would estimate better: it has an expected total "
        f"variation of {figures.total_variation:.4f}; {own}. Choose the method uniform, or give {other}."
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


def _notes(
    profile: Profile,
    matrix: Matrix,
    bounds: Sequence[Bound],
    discloses: bool,
    optimised: bool,
    directions: Sequence[Direction],
) -> list[str]:
    domain, notes = profile.domain, []
    if "downward" not in directions:
        notes.append(downward_limit(domain, matrix, bounds))
    if discloses:
        notes.append(
            'rho1 = "observed": the matrix is computed from the table\'s own frequencies, and publishing it discloses '
            "them. rho1 from a public source avoids that."
        )
    if optimised:
        notes.append(
            'weights = "observed": the matrix is computed from how often each value occurs, so the matrix itself tells '
            "something, also to someone who knows no record. The bound holds given the matrix. Leave weights out, or "
            "give public ones, to avoid that."
        )
    if matrix.retention is None:
        notes.append(
            "The matrix was given in a file. Its bounds were checked in exact integers; that it was not made from this "
            "table, of which it would tell something, is for you to know."
        )
    if noise_only := [domain.labels[c] for c in np.flatnonzero(_is_noise(matrix))]:
        notes.append(f"Pure noise: nothing is retained of {some(noise_only)}; the optimum gives it up for the others.")
    if not matrix.is_invertible:
        notes.append(
            "The matrix has no inverse, so counts can only be estimated by EM, without error bars."
            + ("" if matrix.retention is None else " A retention floor above 0 restores them.")
        )
    return [*notes, *profile_notes(profile)]


def _is_noise(matrix: Matrix) -> BoolArray:
    """Whether a value is retained as little as the integers can."""
    least = (WORDS - largest_noise(matrix.size) * matrix.size) / WORDS
    kept = np.ones(matrix.size) if matrix.retention is None else matrix.retention
    return np.asarray(kept <= least)
