"""The plan of randomized response: the parameters with the least cost, what they limit and cost."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.claims.claim import percent
from sfumato.claims.linking_risk import RiskClaim
from sfumato.errors import Infeasible, PolicyError, TableError
from sfumato.methods.plan import Plan
from sfumato.methods.response.figures import AttributeFigures, BindingCell, Found, ResponseFigures, TradeOff
from sfumato.methods.response.guessing import limit_success
from sfumato.methods.response.joint import Channel, JointTable
from sfumato.methods.response.options import ResponseOptions
from sfumato.methods.response.problem import Problem, Response
from sfumato.methods.response.proposals import for_kept, for_unreachable
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.request import Axes, Request, chosen_by
from sfumato.methods.response.risks import RISKS, Risk, hits_with_own_row, row_posterior
from sfumato.methods.response.solver import solve
from sfumato.show.words import named, some
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.mechanism import NO_BOUND, Mechanism, epsilon_of
from sfumato.values.profile import Profile, counts_hash, domain_notes
from sfumato.values.requirement import Requirement, RiskLimit, exact

TIGHT = 1e-6
"""Cells whose risks over their limits are within this relative distance of the largest are nearest to their limits."""
SHOWN_CELLS = 10
CURVE = range(2, 8)  # the l of the trade-off curve
MOST_SECONDS_OF_POINT = 2.0  # if a point of the curve would take longer, about, there is none


def plan(profile: Profile, requirement: Requirement, method: ResponseOptions) -> Plan:
    """Return the plan with the least cost that was found."""
    asked = _request(profile, requirement, method)
    best, found = _solved(asked)
    columns = profile.quasi_identifiers, profile.sensitive_domain.names
    figures = ResponseFigures(
        claim=RiskClaim(method.limited_risk, *columns, asked.limit, method.scope),
        mechanisms=tuple(_mechanisms(asked.axes, found)),
        fixed=method.fixed,
        objective=method.objective,
        counts_hash=counts_hash(profile),
        **vars(_found(asked, best, found)),
    )
    notes = _notes(profile, figures, found.channels[-1])
    return Plan.of(profile, method, figures, notes)


# --- what can be had ------------------------------------------------------------------------------------------------


def _request(profile: Profile, requirement: Requirement, method: ResponseOptions) -> Request:
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
    if wrong := [name for name in method.fixed if name not in profile.quasi_identifiers]:
        raise PolicyError(
            f"{wrong[0]!r} is to be fixed, and is not a quasi-identifier.", "Name quasi-identifiers in method.fixed."
        )
    return Request.of(profile, requirement, method)


def _solved(asked: Request) -> tuple[Response, Response]:
    """Return the best parameters, and those next to them that are published."""
    axes = asked.axes
    try:
        best = solve(asked.problem)
        found = asked.answered(best)
    except RiskOutOfReach as problem:
        message = f"{problem.message} {_offending(axes, problem.cells)}"
        raise Infeasible(message, for_unreachable(asked, problem.least)) from None
    if not any(found.noise):
        risk = asked.method.limited_risk
        largest = float(RISKS[risk](axes.table, found.channels).values.max())
        raise Infeasible(
            f"The table as it is keeps the limit (its largest risk {risk} is {largest:.6g}): nothing would be "
            f"randomized. That says nothing of someone who sees {axes.profile.sensitive_domain.name} of a row, which "
            "the rows as they are show to all.",
            for_kept(asked),
        )
    return best, found


def _offending(axes: Axes, cells: IntArray) -> str:
    """Name the cells that stand in the way: by what they have, and by what does not matter."""
    names, codes = axes.profile.quasi_identifiers, axes.codes(cells)
    free = [name for name, column in zip(names, codes.T, strict=True) if (column < 0).all()]
    told = [
        " / ".join(label for label, code in zip(labels, (*own, 0), strict=True) if code >= 0)
        for labels, own in zip(axes.labels(cells), codes.tolist(), strict=True)
    ]
    return f"{f'Whatever the {named(free)}, they' if free else 'They'} are {some(told)}."


def _mechanisms(axes: Axes, found: Response) -> Iterator[Mechanism]:
    """Yield a mechanism for each attribute that is randomized."""
    profile = axes.profile
    domains = [*(SensitiveDomain((part,)) for part in profile.quasi_domain.parts), profile.sensitive_domain]
    for domain, channel in zip(domains, axes.channels(found.channels), strict=True):
        if channel.noise:
            yield Mechanism.single(domain, channel.matrix, (NO_BOUND,) * domain.size)


# --- what it costs --------------------------------------------------------------------------------------------------


def _found(asked: Request, best: Response, found: Response) -> Found:
    axes, given, table = asked.axes, asked.problem, asked.axes.table
    binding, number = _binding(axes, given, found)
    evaluated = {name: risk for name, risk in RISKS.items() if table.fits(risk.dense)}
    own_row = float(hits_with_own_row(table, found.channels).max()) if table.fits(dense=True) else None
    return Found(
        attributes=tuple(_attributes(axes, found)),
        kappa=found.kappa,
        expected_l2=asked.squared_error(found),
        best_l2=asked.squared_error(best),
        uniform_l2=asked.uniform_error,
        expected_error=found.expected_error,
        cells=table.evaluated_cells(given.risk.dense),
        risks={name: float(risk(table, found.channels).values.max()) for name, risk in evaluated.items()},
        link_with_own_row=own_row,
        risks_alone=dict(_alone(axes, given.risk, found)),
        guesser_mean=limit_success(table),
        guesser_maximum=float(table.shares.max()),
        groups=len(table.groups),
        single_valued=int(table.single_valued.size),
        binding=binding,
        binding_cells=number,
        trade_off=tuple(_curve(asked)),
    )


def _alone(axes: Axes, risk: type[Risk], found: Response) -> Iterator[tuple[str, float]]:
    """Yield the largest risk of each sensitive column by itself, where there are several.

    r I + q J on combinations is, on one of the columns, r I + q (combinations of the others) J.
    """
    table, domain, last = axes.table, axes.profile.sensitive_domain, found.channels[-1]
    for k, part in enumerate(domain.parts if len(domain.parts) > 1 else ()):
        size, others = len(part.values), tuple(1 + j for j in range(len(domain.parts)) if j != k)
        counts = table.counts.reshape(-1, *domain.sizes).sum(axis=others)
        alone = JointTable((*table.sizes[:-1], size), table.groups, counts)
        channel = Channel(size, last.retention, last.off_diagonal * (domain.size // size))
        yield part.name, float(risk(alone, (*found.channels[:-1], channel)).values.max())


def _attributes(axes: Axes, found: Response) -> Iterator[AttributeFigures]:
    names = [*axes.profile.quasi_identifiers, axes.profile.sensitive_domain.name]
    for name, channel in zip(names, axes.channels(found.channels), strict=True):
        epsilon = epsilon_of(channel.matrix) if channel.noise else math.inf
        yield AttributeFigures(
            name, channel.size, channel.diagonal, channel.retention, None if math.isinf(epsilon) else epsilon
        )


def _binding(axes: Axes, given: Problem, found: Response) -> tuple[tuple[BindingCell, ...], int]:
    """Return the first cells that are nearest to their limits, and how many there are."""
    point = given.risk(given.table, found.channels)
    ratio = given.ratio(point)
    cells = np.flatnonzero(ratio >= ratio.max() * (1 - TIGHT))
    first = cells[np.argsort(-ratio[cells], kind="stable")][:SHOWN_CELLS]
    return tuple(
        BindingCell(labels, float(point.values[cell]), float(point.values[cell] / ratio[cell]))
        for labels, cell in zip(axes.labels(point.cell_codes(first)), first, strict=True)
    ), int(cells.size)


def _curve(asked: Request) -> Iterator[TradeOff]:
    """Yield what 1/l in place of the general limit costs; stated groups keep their own."""
    if asked.seconds > MOST_SECONDS_OF_POINT:
        return
    for l in CURVE:  # noqa: E741
        other = replace(asked, limit=replace(asked.limit, limit=Fraction(1, l)))
        try:
            point = other.answered()
        except RiskOutOfReach as error:
            yield TradeOff(l, None, None, None, error.least)
        else:
            diagonal = tuple(channel.diagonal for channel in asked.axes.channels(point.channels))
            yield TradeOff(l, point.kappa, asked.squared_error(point), diagonal, None)


# --- notes ----------------------------------------------------------------------------------------------------------


def own_row_limit(figures: ResponseFigures) -> Iterator[str]:
    """Yield what the expected shares of `link` leave out."""
    if figures.claim.risk == "link" and figures.link_with_own_row is not None:
        most = math.ceil(figures.link_with_own_row * 1000) / 1000
        yield f"Counted with the record's own row, a hit has a probability of at most {most:.3f}."


def _notes(profile: Profile, figures: ResponseFigures, sensitive: Channel) -> Iterator[str]:
    """Yield what is to be known."""
    value, claim = profile.sensitive_domain.name, figures.claim
    if claim.risk != "reconstruction":
        if claim.scope == "both":
            yield (
                f"Noise in {value} does not lower the risk {claim.risk}, which is about the true value of a row: "
                f"{value} stays untouched though it is in scope."
            )
        seen = row_posterior(figures.risks["posterior"], sensitive)
        yield f"Someone who sees the published {value} of the row too believes in a value by up to {seen:.4f}."
    if figures.expected_l2 > figures.uniform_l2:
        yield (
            f"The noise leaves next to nothing: the estimated joint table has the expected squared error "
            f"{figures.expected_l2:.4g}, and who holds all combinations to be alike has {figures.uniform_l2:.4g} "
            "without any release. Ask for a larger limit."
        )
    yield (
        "Someone who knows how often each value occurs for given quasi-identifiers guesses from that, and the release "
        "lets it be estimated: that is the best guesser above, and no mechanism helps against it."
    )
    yield (
        "The parameters are next to the best that were found, from one start or a few: no better point is known. "
        "Retentions have two significant digits, so that they tell less of the table."
    )
    yield (
        "The risk is that of this table: a plan is published with the table it was made from, and a later table needs "
        "a plan of its own."
    )
    for group in claim.limit.groups:
        if not chosen_by(profile.domain.parts, profile.cells, dict(group.where)).any():
            yield (
                f"No record belongs to the group {group.told}: its limit of {percent(exact(group.limit))} holds for "
                "nobody. Check the values that it names."
            )
    yield from domain_notes(profile)
