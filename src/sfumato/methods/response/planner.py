"""The plan of randomized response: the parameters with the least cost, what they limit, and what they cost."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypedDict

import numpy as np

from sfumato.attributes import SensitiveDomain
from sfumato.errors import Infeasible, PolicyError, TableError
from sfumato.guarantee import ResponseClaim, state_response_guarantee
from sfumato.matrix import FloatArray
from sfumato.mechanism import Mechanism
from sfumato.methods.notes import domain_notes, some
from sfumato.methods.response.guessing import limit_success
from sfumato.methods.response.joint import JointTable
from sfumato.methods.response.objectives import ObjectiveName
from sfumato.methods.response.problem import Problem, Response, Scope, pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import RISKS, RiskName, row_posterior
from sfumato.methods.response.solver import solve, trade_off
from sfumato.profiles import Profile
from sfumato.requirement import NO_BOUND, GroupLimit, Requirement, RiskLimit, exact, find_value
from sfumato.response_plan import AttributeFigures, BindingCell, ResponseFigures, ResponsePlan, TradeOff

ScopeWord = Literal["sensitive", "quasi-identifiers", "both"]
ObjectiveWord = Literal["l2", "chi-square"]
SCOPES: dict[ScopeWord, Scope] = {"sensitive": "sensitive", "quasi-identifiers": "quasi_identifiers", "both": "both"}
OBJECTIVES: dict[ObjectiveWord, ObjectiveName] = {"l2": "kappa", "chi-square": "chi_square"}


class Asked(TypedDict):
    """What the solver takes besides table and limit."""

    risk: RiskName
    scope: Scope
    fixed: list[int]
    objective: ObjectiveName


TIGHT = 1e-6
"""A cell binds when its risk is within this relative distance of its limit."""
SHOWN_CELLS = 10
CURVE = range(2, 8)
"""The l of the trade-off curve."""
MOST_CURVE_CELLS = 200_000
"""For a larger domain there is no curve: each point costs as much as the plan."""


def plan(
    profile: Profile,
    requirement: Requirement,
    assurance: str,
    scope: ScopeWord,
    risk: RiskName,
    fixed: Sequence[str],
    objective: ObjectiveWord,
) -> ResponsePlan:
    """Return the plan with the least cost that was found: see `sfumato.methods.plan`."""
    limit = _checked(profile, requirement)
    if (risk == "reconstruction") != (assurance == "as-published"):
        raise PolicyError(
            f"The risk {risk} does not go with the assurance {assurance}.",
            "reconstruction is as published; posterior and link are proved.",
        )
    table = joint_table(profile)
    axes = [_axis(profile, name) for name in fixed]
    asked: Asked = {"risk": risk, "scope": SCOPES[scope], "fixed": axes, "objective": OBJECTIVES[objective]}
    limits = limit_array(profile, limit)
    found = _solved(profile, table, limits, asked)
    claim = ResponseClaim(risk, profile.quasi_identifiers, profile.sensitive_domain.names, limit)
    mechanisms = tuple(_mechanisms(profile, found))
    figures = _figures(profile, pose(table, limits, **asked), found, tuple(_curve(table, asked)))
    return ResponsePlan(
        assurance=assurance,
        claim=claim,
        scope=scope,
        fixed=tuple(fixed),
        objective=objective,
        mechanisms=mechanisms,
        guarantee=state_response_guarantee(claim, mechanisms),
        figures=figures,
        rows=profile.rows,
        counts_hash=counts_hash(profile),
        notes=tuple(_notes(profile, claim, scope, row_posterior(figures.risks["posterior"], found.channels[-1]))),
        dropped=profile.dropped,
        observed=profile.observed,
    )


def counts_hash(profile: Profile) -> str:
    """Return a hash of the joint table."""
    labels = repr([(part.name, part.labels) for part in profile.domain.parts])
    return hashlib.sha256(labels.encode() + profile.counts.astype("<i8").tobytes()).hexdigest()


def joint_table(profile: Profile) -> JointTable:
    """Return the counts with an axis for each quasi-identifier, and one for all sensitive columns."""
    sizes = (*profile.quasi_domain.sizes, profile.sensitive_domain.size)
    names = (*profile.quasi_identifiers, profile.sensitive_domain.name)
    cells = np.flatnonzero(profile.counts)
    return JointTable.from_cells(sizes, np.column_stack(np.unravel_index(cells, sizes)), profile.counts[cells], names)


def limit_array(profile: Profile, limit: RiskLimit) -> FloatArray:
    """Return the limit of every cell of the joint table, or one for all cells."""
    if not limit.groups:
        return np.array(float(exact(limit.limit)))
    limits = np.full(profile.domain.sizes, np.inf)
    for group in limit.groups:
        where = np.ix_(*_codes(profile.domain, group))
        limits[where] = np.minimum(limits[where], float(exact(group.limit)))
    limits[np.isinf(limits)] = float(exact(limit.limit))
    return limits.reshape(*profile.quasi_domain.sizes, profile.sensitive_domain.size)


def _codes(domain: SensitiveDomain, group: GroupLimit) -> Iterator[list[int]]:
    """Yield the codes of each column that are in the group."""
    named = dict(group.where)
    for part in domain.parts:
        values = named.get(part.name)
        alone = SensitiveDomain((part,))
        yield list(range(alone.size)) if values is None else [find_value(alone, value) for value in values]


# --- what can be had ------------------------------------------------------------------------------------------------


def _checked(profile: Profile, requirement: Requirement) -> RiskLimit:
    if not isinstance(requirement, RiskLimit):
        raise PolicyError(
            "The method randomized-response takes a limit on a risk: l or risk_limit.",
            "State one of them, and no rho1, rho2, values, tolerance, gamma or epsilon; or choose another method.",
        )
    if not profile.quasi_identifiers:
        raise PolicyError(
            "The profile has no quasi-identifiers: they are counted where the policy asks for randomized-response.",
            'Give columns the role quasi_identifier, and say method.name = "randomized-response".',
        )
    if profile.sensitive_domain.size < 2:
        raise TableError(
            f"{profile.sensitive_domain.name!r} has one value only: every release tells it of everybody.",
            "Declare the whole domain, or choose another sensitive column.",
        )
    return requirement


def _axis(profile: Profile, name: str) -> int:
    if name not in profile.quasi_identifiers:
        raise PolicyError(f"{name!r} is to be fixed, and is not a quasi-identifier.")
    return profile.quasi_identifiers.index(name)


def _solved(profile: Profile, table: JointTable, limits: FloatArray, asked: Asked) -> Response:
    try:
        found = solve(table, limits, **asked)
    except RiskOutOfReach as problem:
        raise Infeasible(f"{problem.message} {_offending(profile, problem)}", problem.hint) from None
    if not any(found.noise):
        raise Infeasible(
            f"The table as it is keeps the limit (its largest risk is {found.risk:.6g}): nothing would be randomized.",
            "Ask for a smaller limit, or choose another method.",
        )
    return found


def _offending(profile: Profile, problem: RiskOutOfReach) -> str:
    shown = [" / ".join(_labels(profile, cell)) for cell in problem.cells.tolist()]
    return f"They are {some(shown)}."


def _labels(profile: Profile, codes: Sequence[int]) -> tuple[str, ...]:
    """Return a cell in words; a code of -1 means any value."""
    parts = [*(part.labels for part in profile.quasi_domain.parts), profile.sensitive_domain.labels]
    return tuple("any" if code < 0 else labels[code] for labels, code in zip(parts, codes, strict=True))


def _mechanisms(profile: Profile, found: Response) -> Iterator[Mechanism]:
    """Yield a mechanism for each attribute that is randomized."""
    domains = [*(SensitiveDomain((part,)) for part in profile.quasi_domain.parts), profile.sensitive_domain]
    for domain, channel in zip(domains, found.channels, strict=True):
        if channel.noise:
            yield Mechanism.single(domain, channel.matrix, (NO_BOUND,) * domain.size)


# --- what it costs --------------------------------------------------------------------------------------------------


def _figures(profile: Profile, given: Problem, found: Response, curve: tuple[TradeOff, ...]) -> ResponseFigures:
    table = given.table
    binding, number = _binding(profile, given, found)
    return ResponseFigures(
        attributes=tuple(_attributes(profile, found)),
        kappa=found.kappa,
        expected_l2=(found.kappa - 1) / table.records,
        expected_error=found.expected_error,
        risks={name: float(risk(table, found.channels).values.max()) for name, risk in RISKS.items()},
        guesser_mean=limit_success(table),
        guesser_maximum=float(table.shares.max()),
        groups=len(table.groups),
        single_valued=int(table.single_valued.size),
        binding=binding,
        binding_cells=number,
        trade_off=curve,
    )


def _attributes(profile: Profile, found: Response) -> Iterator[AttributeFigures]:
    names = [*profile.quasi_identifiers, profile.sensitive_domain.name]
    for name, channel in zip(names, found.channels, strict=True):
        epsilon = channel.matrix.epsilon if channel.noise else math.inf
        yield AttributeFigures(
            name, channel.size, channel.diagonal, channel.retention, None if math.isinf(epsilon) else epsilon
        )


def _binding(profile: Profile, given: Problem, found: Response) -> tuple[tuple[BindingCell, ...], int]:
    """Return the first cells that are at their limits, and how many there are."""
    point = given.risk(given.table, found.channels)
    ratio = given.ratio(point)
    cells = np.flatnonzero(ratio >= 1 - TIGHT)
    first = cells[np.argsort(-ratio[cells], kind="stable")][:SHOWN_CELLS]
    codes = point.cell_codes(first).tolist()
    return tuple(
        BindingCell(_labels(profile, code), float(point.values[cell]), float(point.values[cell] / ratio[cell]))
        for code, cell in zip(codes, first, strict=True)
    ), int(cells.size)


def _curve(table: JointTable, asked: Asked) -> Iterator[TradeOff]:
    if math.prod(table.sizes) > MOST_CURVE_CELLS:
        return
    for l, point in zip(CURVE, trade_off(table, [Fraction(1, l) for l in CURVE], **asked), strict=True):  # noqa: E741
        if isinstance(point, RiskOutOfReach):
            yield TradeOff(l, None, None, None, point.least)
        else:
            yield TradeOff(l, point.kappa, (point.kappa - 1) / table.records, point.diagonal, None)


# --- notes ----------------------------------------------------------------------------------------------------------


def _notes(profile: Profile, claim: ResponseClaim, scope: ScopeWord, seen: float) -> Iterator[str]:
    """Yield what is to be known; `seen` is the largest belief of one who sees the published value of the row too."""
    value = profile.sensitive_domain.name
    if claim.risk != "reconstruction":
        if scope == "both":
            yield (
                f"Noise in {value} does not lower the risk {claim.risk}, which is about the true value of a row: "
                f"{value} stays untouched though it is in scope."
            )
        yield f"One who sees the published {value} of the row too believes in a value by up to {seen:.4f}."
    yield (
        "Whoever knows how often each value occurs for given quasi-identifiers guesses from that, and the release lets "
        "it be estimated: that is the best guesser above, and no mechanism helps against it."
    )
    yield "The parameters are the best that were found, from one start or a few: no better point is known."
    yield (
        "The risk is that of this table: a plan is published with the table it was made from, and a later table needs "
        "a plan of its own."
    )
    yield from domain_notes(profile)
