"""What each method makes of each requirement on a table: planned on the counts, nothing published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.errors import CannotMeet, UsageError
from sfumato.methods import plan
from sfumato.policy import Assurance, Policy, RequirementRule
from sfumato.profiles import Profile
from sfumato.requirement import LocalPrivacy, Number, Requirement, tolerance
from sfumato.survey.model import Feasible

EPSILONS = (0.5, 1, 2, 3)
TOLERANCES = (2, 3, 5, 10)
MOST_VALUES = 5_000
"""For a larger domain only the policy's own requirement is planned: each plan costs some seconds."""


@dataclass(frozen=True)
class _Case:
    method: str
    requirement: Requirement
    shown: str
    assurance: Assurance = "proved"
    floor: Number = 0
    from_policy: bool = False


def survey_feasibility(profile: Profile, policy: Policy) -> tuple[Feasible, ...]:
    """Return what each case gives, the policy's own first."""
    cases = [_of_policy(policy)]
    if profile.domain.size <= MOST_VALUES:
        cases += _standard_cases()
    return tuple(_tried(profile, case) for case in cases)


def _of_policy(policy: Policy) -> _Case:
    method = policy.method
    return _Case(
        method.name,
        policy.requirement.requirement(),
        _shown(policy.requirement),
        method.assurance,
        policy.retention_floor,
        from_policy=True,
    )


def _standard_cases() -> Iterator[_Case]:
    for epsilon in EPSILONS:
        yield _Case("uniform", LocalPrivacy(epsilon), f"epsilon = {epsilon:g}")
    for theta in TOLERANCES:
        for method in ("uniform", "fine-grain"):
            yield _Case(method, tolerance(theta), f"tolerance = {theta:g}")


def _shown(rule: RequirementRule) -> str:
    """Return the policy's requirement in a few characters."""
    for name in ("epsilon", "gamma", "tolerance"):
        if (number := getattr(rule, name)) is not None:
            return f"{name} = {number}"
    several = f"{len(rule.values)} per value" if rule.values else ""
    overall = f"rho {rule.rho1} to {rule.rho2}" if rule.rho2 is not None else ""
    return " and ".join(text for text in (overall, several) if text)


def _tried(profile: Profile, case: _Case) -> Feasible:
    def result(reason: str = "", **numbers: float | bool | None) -> Feasible:
        figures = dict.fromkeys(("retention_low", "retention_high", "record_utility", "total_variation"))
        return Feasible(
            method=case.method,
            assurance=case.assurance,
            requirement=case.shown,
            from_policy=case.from_policy,
            reason=reason,
            **{"invertible": None, **figures, **numbers},  # type: ignore[arg-type]
        )

    try:
        made = plan(
            profile,
            method=case.method,
            requirement=case.requirement,
            assurance=case.assurance,
            retention_floor=case.floor,
        )
    except (CannotMeet, UsageError) as problem:
        return result(problem.message)
    return result(
        retention_low=float(made.matrix.retention.min()),
        retention_high=float(made.matrix.retention.max()),
        record_utility=made.record_utility,
        invertible=made.matrix.is_invertible,
        total_variation=made.total_variation,
    )
