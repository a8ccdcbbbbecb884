"""The planner of both perturbation methods: bounds, retentions, integers, guarantee, and what it all costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from sfumato.attributes import SensitiveDomain
from sfumato.errors import Infeasible, TableError
from sfumato.guarantee import ADVERSARY, BOTH, UPWARD, Direction, Guarantee, counterexample
from sfumato.matrix import FloatArray, PerturbationMatrix, largest_noise
from sfumato.methods import fine_grain, uniform
from sfumato.methods.rounding import round_within
from sfumato.plans import Loosening, Plan
from sfumato.profiles import Profile
from sfumato.requirement import Bound, Number, Requirement, Tolerance, exact

METHODS = ("uniform", "fine-grain")
Assurance = Literal["proved", "as-published"]

LOOSEN = 1.1
MOST_LOOSENINGS = 12
"""What loosening buys is shown for the strictest groups of values that bind; each costs one more solution."""


def plan(
    profile: Profile,
    *,
    method: str,
    requirement: Requirement,
    assurance: Assurance = "proved",
    retention_floor: Number = 0,
    shuffle: bool = False,
) -> Plan:
    """Return the optimal plan for a profile under a requirement; raise `Infeasible` with the nearest that is feasible.

    `shuffle` asks for a shuffle; without it the rows are shuffled only where their order tells of the sensitive value.
    """
    if method not in METHODS:
        raise Infeasible(f"There is no method {method!r}.", f"The methods are {', '.join(METHODS)}.")
    if profile.rows == 0:
        raise TableError("The table has no rows to publish.")
    if profile.domain.size < 2:
        raise TableError(
            f"{profile.domain.name!r} has one value only: every release tells it of everybody.",
            "Declare the whole domain, or choose another sensitive column.",
        )
    bounds = requirement.bounds(profile.domain, profile.counts.tolist())
    gamma, frequency, floor = _gammas(bounds), profile.frequency, float(exact(retention_floor))
    _check_floor(floor, gamma, method, profile.domain)
    retention = _retention(method, assurance, gamma, frequency, floor)
    directions = UPWARD if method == "fine-grain" and assurance == "as-published" else BOTH
    matrix = round_within(retention, bounds, directions)
    return Plan(
        method=method,
        assurance=assurance,
        domain=profile.domain,
        counts=profile.counts,
        bounds=bounds,
        matrix=matrix,
        guarantee=_guarantee(profile.domain, bounds, matrix, method, directions),
        shuffle=shuffle or profile.order.dependent,
        notes=tuple(_notes(profile, requirement, matrix, bounds, directions)),
        loosenings=_loosenings(profile.domain, method, assurance, gamma, frequency, floor),
        other_assurance=_other(method, assurance, gamma, frequency, floor),
        dropped=profile.dropped,
        observed=profile.observed,
        discloses_frequencies=isinstance(requirement, Tolerance) and requirement.discloses_frequencies,
    )


def _gammas(bounds: Sequence[Bound]) -> FloatArray:
    return np.array([math.inf if b.gamma is None else float(b.gamma) for b in bounds])


def _retention(method: str, assurance: str, gamma: FloatArray, frequency: FloatArray, floor: float) -> FloatArray:
    if method == "uniform":
        return uniform.retention(gamma, frequency)
    return fine_grain.retention(gamma, frequency, floor, assurance)


def _check_floor(floor: float, gamma: FloatArray, method: str, domain: SensitiveDomain) -> None:
    """A common floor is feasible iff it is at most the smallest e_i = (gamma_i - 1)/(m - 1 + gamma_i)."""
    strictest = int(gamma.argmin())
    most = float(uniform.retention(gamma, gamma)[0])
    if floor > most:
        raise Infeasible(
            f"A retention floor of {floor:.6g} cannot be met: {domain.labels[strictest]!r} "
            f"(gamma = {gamma[strictest]:.6g}, {domain.size} values) allows at most {most:.6g}.",
            f"Ask for a floor of {math.floor(most * 1e6) / 1e6:g} or less, or loosen the requirement on that value.",
        )


def _record_utility(retention: FloatArray, frequency: FloatArray) -> float:
    m = retention.size
    return float(frequency @ (retention + (1 - retention) / m))


def _other(
    method: str, assurance: str, gamma: FloatArray, frequency: FloatArray, floor: float
) -> tuple[str, float] | None:
    """What the other assurance would have given."""
    if method == "uniform":
        return None
    other = "proved" if assurance == "as-published" else "as-published"
    return other, _record_utility(_retention(method, other, gamma, frequency, floor), frequency)


def _loosenings(
    domain: SensitiveDomain,
    method: str,
    assurance: str,
    gamma: FloatArray,
    frequency: FloatArray,
    floor: float,
) -> tuple[Loosening, ...]:
    """Solve again with the gamma of one group of equally strict values raised by a tenth, strictest groups first."""
    before = _record_utility(_retention(method, assurance, gamma, frequency, floor), frequency)
    found = []
    for strictness in np.unique(gamma[np.isfinite(gamma)])[:MOST_LOOSENINGS]:
        group = gamma == strictness
        loosened = np.where(group, gamma * LOOSEN, gamma)
        utility = _record_utility(_retention(method, assurance, loosened, frequency, floor), frequency)
        if utility > before * (1 + 1e-9):
            labels = tuple(domain.labels[c] for c in np.flatnonzero(group))
            found.append(Loosening(labels, float(strictness), float(strictness * LOOSEN), utility))
    return tuple(found)


def _guarantee(
    domain: SensitiveDomain,
    bounds: Sequence[Bound],
    matrix: PerturbationMatrix,
    method: str,
    directions: Sequence[Direction],
) -> Guarantee:
    scope: Literal["any predicate", "single values"] = "any predicate" if method == "uniform" else "single values"
    limits = [
        "Per row: a person with several rows, or a second release of the same people, adds up.",
        "Says nothing of what an adversary knows beforehand, nor of columns that are published untouched.",
    ]
    if "downward" not in directions:
        limits.insert(0, _downward_limit(domain, matrix, bounds))
    if any(b.gamma is None for b in bounds):
        limits.append("Values without a requirement are not protected.")
    return Guarantee(
        sentence=_sentence(domain, bounds, scope, "downward" in directions),
        adversary=ADVERSARY,
        prior="Any prior on the record's value, also one that depends on its quasi-identifiers.",
        scope=scope,
        directions=tuple(directions),
        limits=tuple(limits),
    )


def _downward_limit(domain: SensitiveDomain, matrix: PerturbationMatrix, bounds: Sequence[Bound]) -> str:
    text = "Upward only: the downward half of FG Theorem 1 does not follow from FG Fig. 3"
    breach = counterexample(matrix, bounds)
    return f"{text}: {breach.told(domain)}." if breach else f"{text}; no breach was found for this matrix."


def _sentence(domain: SensitiveDomain, bounds: Sequence[Bound], scope: str, both: bool) -> str:
    what = f"any statement about a record's {domain.name}" if scope == "any predicate" else f"each {domain.name} x"
    first = bounds[0]
    if len(set(bounds)) == 1 and first.rho1 is not None and first.rho2 is not None:
        rho1, rho2 = _percent(first.rho1), _percent(first.rho2)
        back = f", and of at least {rho2} stays at least {rho1}" if both else ""
        return f"For {what}: a prior belief of at most {rho1} stays at most {rho2} after seeing the release{back}."
    if len(set(bounds)) == 1 or scope == "any predicate":
        gamma = min(b.gamma for b in bounds if b.gamma is not None) if any(b.gamma for b in bounds) else None
        if gamma is None:
            return f"Nothing is required of any {domain.name}, and nothing is guaranteed."
        way = "change by at most the factor" if both else "rise by at most the factor"
        return f"For {what}: seeing the release lets its odds {way} {float(gamma):.4g}."
    back = ", and one of at least rho2_x stays at least rho1_x" if both else ""
    return (
        f"For {what} with a requirement (listed with the matrix): a prior belief of at most rho1_x stays "
        "at most rho2_x "
        f"after seeing the release{back}; its odds {'change' if both else 'rise'} by at most the factor gamma_x."
    )


def _percent(x: object) -> str:
    return f"{100 * float(x):.4g}%"  # type: ignore[arg-type]


def _notes(
    profile: Profile,
    requirement: Requirement,
    matrix: PerturbationMatrix,
    bounds: Sequence[Bound],
    directions: Sequence[Direction],
) -> list[str]:
    domain, notes = profile.domain, []
    if "downward" not in directions:
        notes.append(_downward_limit(domain, matrix, bounds))
    if isinstance(requirement, Tolerance) and requirement.discloses_frequencies:
        notes.append(
            'rho1 = "observed": the matrix is computed from the table\'s own frequencies, and publishing it discloses '
            "them. rho1 from a public source avoids that."
        )
    noise_only = [domain.labels[c] for c in np.flatnonzero(matrix.noise == np.uint64(largest_noise(domain.size)))]
    if noise_only:
        notes.append(f"Pure noise: nothing is retained of {_some(noise_only)}; the optimum gives it up for the others.")
    if not matrix.is_invertible:
        notes.append(
            "The matrix has no inverse, so counts can only be estimated by EM, without error bars. "
            "A retention floor above 0 restores them."
        )
    if profile.observed:
        notes.append(
            f"The domain of {_some(list(profile.observed))} was read off the table: that a value occurs at all is "
            "published. Declare the domain to avoid it."
        )
        if rare := profile.rare():
            notes.append(
                f"{len(rare)} value(s) occur fewer than 5 times and are disclosed by the domain: {_some(rare)}."
            )
    notes.append(profile.order.statement)
    return notes


def _some(names: list[str], most: int = 5) -> str:
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
