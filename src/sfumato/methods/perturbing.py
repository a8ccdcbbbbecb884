"""What uniform and fine-grain perturbation share as methods; `perturbation` plans both."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from sfumato.claims.claim import BOTH, Scope
from sfumato.methods.method import Method, Probability, between
from sfumato.values.arrays import Assurance, FloatArray
from sfumato.values.attributes import Schema
from sfumato.values.matrix.base import Direction
from sfumato.values.profile import Profile
from sfumato.values.requirement import (
    Amplification,
    FineGrainPrivacy,
    LocalPrivacy,
    Requirement,
    RhoPrivacy,
    Tolerance,
)

if TYPE_CHECKING:
    from sfumato.methods.plan import AnyPlan
    from sfumato.values.randomness import SecretKey

Weights = Literal["observed", "equal"] | Mapping[str, float | str]


class Perturbing(Method):
    """Each record keeps its value with some probability; else it gets a value of the domain, all alike."""

    takes = (RhoPrivacy, FineGrainPrivacy, Tolerance, Amplification, LocalPrivacy)
    fills_domain = True
    keeps_order = True
    assurances_agree: ClassVar[bool] = False
    """Whether both assurances have the same matrix."""
    scope: ClassVar[Scope] = "single values"
    """The statements about a record of which something is promised."""

    retention_floor: Probability = 0.0

    @property
    def floor(self) -> Fraction:
        """The floor on every retention probability, 0 for none."""
        return between(self.retention_floor, "retention_floor", strictly=False)

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions in which beliefs are bounded."""
        return BOTH

    @property
    def weighting(self) -> Weights:
        """The frequencies for which record utility is maximised."""
        return "equal"

    @property
    def matrix_file(self) -> Path | None:
        """The file with a matrix that takes the place of retentions; None: there is none."""
        return None

    @abstractmethod
    def retention(self, gamma: FloatArray, weight: FloatArray, floor: float, assurance: Assurance) -> FloatArray:
        """Return the retention of each value; the floor can be had."""

    def check_numbers(self) -> None:
        """Raise if the floor is no probability."""
        _ = self.floor

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> AnyPlan:
        from sfumato.methods import perturbation

        return perturbation.plan(profile, requirement, self)

    def meets(self, plan: AnyPlan, requirement: Requirement, columns: Schema) -> bool:
        """Whether the plan has the bounds of the requirement."""
        from sfumato.methods.plan import Plan

        return isinstance(plan, Plan) and requirement.bounds(plan.domain, plan.counts.tolist()) == plan.bounds
