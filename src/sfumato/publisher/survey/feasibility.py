"""What each method makes of each requirement on a table: planned on the counts, nothing published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import numpy as np

from sfumato.errors import CannotMeet, UsageError
from sfumato.methods.anatomy import Anatomy
from sfumato.methods.fine_grain import FineGrain
from sfumato.methods.method import Method
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.suppression.method import Suppression
from sfumato.methods.uniform import Uniform
from sfumato.publisher.policy import Policy
from sfumato.publisher.policy_rules import RequirementRule
from sfumato.publisher.survey.found import Feasible
from sfumato.values.profile import Profile
from sfumato.values.requirement import Diversity, LocalPrivacy, Requirement, RhoPrivacy, tolerance

EPSILONS = (0.5, 1, 2, 3)
TOLERANCES = (2, 3, 5, 10)
SHARES = (2, 5)
DIVERSITIES = (3, 5)
MOST_PARTITIONED = 1_000  # for a larger domain small domain randomization is planned only if the policy asks for it
MOST_VALUES = 5_000  # for a larger domain only the policy's own requirement is planned: each plan costs some seconds


@dataclass(frozen=True)
class _Case:
    method: Method
    requirement: Requirement
    shown: str
    from_policy: bool = False


def survey_feasibility(profile: Profile, policy: Policy, joint: Profile) -> tuple[Feasible, ...]:
    """Return what each case gives, the policy's own first, which is planned on the profile `joint`."""
    cases: list[_Case] = []
    if profile.domain.size <= MOST_VALUES:
        cases += [*_standard_cases(), *_small_domain_cases(profile), *_group_cases(profile)]
    own = _Case(policy.method, policy.requirement, _shown(policy.requirement_rule), from_policy=True)
    return (_tried(joint, own), *(_tried(profile, case) for case in cases))


def _standard_cases() -> Iterator[_Case]:
    for epsilon in EPSILONS:
        yield _Case(Uniform(), LocalPrivacy(epsilon), f"epsilon = {epsilon:g}")
    for theta in TOLERANCES:
        for method in (Uniform(), FineGrain()):
            yield _Case(method, tolerance(theta), f"tolerance = {theta:g}")


def _small_domain_cases(profile: Profile) -> Iterator[_Case]:
    """All values protected: rho1 is the largest share."""
    if profile.domain.size <= MOST_PARTITIONED:
        largest = Fraction(int(profile.counts.max()), max(profile.rows, 1))
        for theta in SHARES:
            if theta * largest < 1:
                shown = f"rho1 = largest share, rho2 = {theta} rho1"
                yield _Case(SmallDomain(), RhoPrivacy(largest, theta * largest), shown)


def _group_cases(profile: Profile) -> Iterator[_Case]:
    """Anatomy, or suppression where a value is too frequent."""
    for l in DIVERSITIES:  # noqa: E741
        if l <= np.count_nonzero(profile.counts):
            method = Anatomy() if l * int(profile.counts.max()) <= profile.rows else Suppression()
            yield _Case(method, Diversity(l), f"l = {l}")


def _shown(rule: RequirementRule) -> str:
    """Return the policy's requirement in a few characters."""
    for name in ("epsilon", "gamma", "tolerance", "l", "r", "risk_limit"):
        if (number := getattr(rule, name)) is not None:
            groups = f" and {len(rule.groups)} group(s)" if rule.groups else ""
            return f"{name} = {number}{groups}"
    several = f"{len(rule.values)} per value" if rule.values else ""
    overall = f"rho {rule.rho1} to {rule.rho2}" if rule.rho2 is not None else ""
    return " and ".join(text for text in (overall, several) if text)


def _tried(profile: Profile, case: _Case) -> Feasible:
    told = partial(Feasible, case.method.name, case.method.assurance, case.shown, case.from_policy)
    try:
        made = case.method.plan(profile, case.requirement)
    except (CannotMeet, UsageError) as problem:
        return told(reason=problem.message)
    if not made.mechanisms:
        return told(published_share=(made.rows - made.figures.total_withheld) / made.rows)
    matrices = [table.matrix for mechanism in made.mechanisms for table in mechanism.tables]
    kept = [1 - matrix.pure_noise if matrix.retention is None else matrix.retention for matrix in matrices]
    return told(
        retention_low=min(float(p.min()) for p in kept),
        retention_high=max(float(p.max()) for p in kept),
        record_utility=made.figures.record_utility,
        invertible=all(mechanism.is_invertible for mechanism in made.mechanisms),
        total_variation=made.figures.total_variation,
    )
