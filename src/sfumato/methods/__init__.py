"""Planners: pure mathematics on counts, one module per method. `plan` chooses by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from sfumato.claims.buckets import SuppressionVariant
from sfumato.claims.second_release import assumed
from sfumato.errors import Infeasible, PolicyError, TableError
from sfumato.methods import buckets as groups
from sfumato.methods import perturbation, small_domain
from sfumato.methods.buckets import ANATOMY
from sfumato.methods.perturbation import Assurance, Weights
from sfumato.methods.plan import AnyPlan, Plan
from sfumato.methods.response import planner
from sfumato.methods.response.request import ObjectiveWord, ScopeWord
from sfumato.methods.response.risks import RiskName
from sfumato.methods.response_plan import RESPONSE, ResponsePlan
from sfumato.methods.robustness import planner as robustness
from sfumato.methods.robustness.planner import ROBUST
from sfumato.methods.suppression import planner as suppression
from sfumato.methods.suppression.planner import SUPPRESSION
from sfumato.values.looks import refuse
from sfumato.values.nearest import meant
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Number, Requirement, exact

METHODS = (*perturbation.METHODS, small_domain.METHOD, RESPONSE, ANATOMY, SUPPRESSION, ROBUST)

__all__ = ["METHODS", "plan"]


def plan(
    profile: Profile,
    *,
    method: str,
    requirement: Requirement,
    assurance: Assurance = "proved",
    retention_floor: Number = 0,
    weights: Weights = "equal",
    minimum_sub_table: int = small_domain.MINIMUM_SIZE,
    delta: Number = "1/20",
    scope: ScopeWord = "both",
    risk: RiskName = "posterior",
    fixed: Sequence[str] = (),
    objective: ObjectiveWord = "l2",
    variant: SuppressionVariant = "rotation",
    always: bool = False,
    attribute_sets: Sequence[Sequence[str]] = (),
    prior: Literal["none", "table"] | Sequence[Path] = "none",
    key: SecretKey | None = None,
    keyed: bool = False,
    shuffle: bool = True,
) -> AnyPlan:
    """Return the plan for a profile under a requirement; raise `Infeasible` with the nearest that is feasible.

    `weights` are the frequencies for which fine-grain perturbation maximises record utility: equal ones, a table of
    public ones, or the table's own ("observed": then the matrix itself tells something of them). `retention_floor` is
    for both perturbation methods. `minimum_sub_table` (records; for the proved version) and `delta` (the error bounds'
    confidence is 1 - delta) are for small domain randomization. `scope`, `risk`, `fixed` (quasi-identifiers) and
    `objective` are for randomized response, which always shuffles. `variant` and `always` (whether the most
    frequent value of every table is hidden) are for suppression, whose draws come from the `key` (a fresh one if none
    is given); `attribute_sets` and `prior` (a file for each set) are for robust Anatomy. `keyed`: records keep their
    draws by a record key, and the plan notes what is then assumed.
    Rows are published in a random order. `shuffle=False` keeps the table's, where a test finds no dependence of the
    sensitive value on it, for the methods that draw each row by itself and leave it in its place.
    """
    if method not in METHODS:
        raise Infeasible(f"There is no method {method!r}.", meant(method, METHODS, "The methods are"))
    if profile.rows == 0:
        raise TableError("The table has no rows to publish.", "Give a table with a row for each record.")
    refuse(profile.stops)
    _check_domain(profile)
    if method == RESPONSE:
        return _noted(planner.plan(profile, requirement, assurance, scope, risk, fixed, objective), keyed)
    if method == ROBUST:
        return robustness.plan(profile, requirement, assurance, attribute_sets, prior)
    if profile.quasi_identifiers:
        raise PolicyError(
            f"The profile counts quasi-identifiers, which {method} does not randomize.",
            "Count again with a policy that asks for this method.",
        )
    if profile.domain.size < 2:
        raise TableError(
            f"{profile.domain.name!r} has one value only: every release tells it of everybody.",
            "Declare the whole domain, or choose another sensitive column."
            if method in perturbation.METHODS
            else "Choose another sensitive column.",  # the others need that several values occur
        )
    if method == ANATOMY:
        return groups.plan(profile, requirement, assurance)
    if method == SUPPRESSION:
        return suppression.plan(profile, requirement, assurance, variant, always, key)
    if method != small_domain.METHOD:
        made = perturbation.plan(profile, method, requirement, assurance, retention_floor, weights, shuffle)
        return _noted(made, keyed)
    if exact(retention_floor) or weights != "equal":
        raise PolicyError("The method small-domain takes no retention floor and no weights.", "Leave them out.")
    return small_domain.plan(profile, requirement, assurance, minimum_sub_table, exact(delta, "delta"), shuffle)


P = TypeVar("P", Plan, ResponsePlan)


def _noted(made: P, keyed: bool) -> P:
    """Return the plan with what is assumed if records keep their draws in later releases."""
    return replace(made, notes=(assumed(made.mechanisms), *made.notes)) if keyed else made


def _check_domain(profile: Profile) -> None:
    """Refuse a sensitive column such as notes or exact amounts: its domain would be a list of people's values."""
    for name, values in profile.nearly_unique():
        raise PolicyError(
            f"The sensitive column {name!r} is nearly unique: {values:,} different values in {profile.rows:,} records. "
            "The release lists the values, and noise over so many leaves nothing of a record.",
            f'Make {name!r} coarser (bins for numbers and dates, merge for texts), leave it out (role = "drop"), or '
            "choose another sensitive column.",
        )
