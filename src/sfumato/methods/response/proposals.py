"""What would work in place of a request that cannot be met.

Columns and limits that are proposed were tried, and have an answer of use; but in large domains, where ranges are told
without trying. Suppressing records is advice that was not tried; it is not given where it would be in vain for certain.

Of use is a release whose estimate has a smaller expected error than to hold all combinations to be alike. One
limit that is out of reach is told with the nearest that can be kept, too, of use or not.

Limits are proposed together. Without any retention the records of the k-th stated limit have a risk of m_k at most, so
that the limits max(stated_k, t m_k) can be kept for every t above 1: those in the way grow with t, all others stay. The
least t of use is found by bisection, below the one from which on the table as it is keeps all limits. Then each limit
falls back to the largest risk that it holds in the answer, or to the stated one, if that has an answer of use too. With
limits for groups that is one way of many: another may leave some of them smaller.

Where the table keeps the stated limits as it is, smaller ones are looked for in the same way: min(stated_k, t m_k). Of
`link` some of these cannot be kept, since a stated limit may be below m_k; then a larger t is tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING
from fractions import Fraction

import numpy as np

from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.response.problem import Response
from sfumato.methods.response.reach import ANOTHER, CERTAIN, between, either, rounded, suppressing
from sfumato.methods.response.request import Request
from sfumato.methods.response.risks import RISKS
from sfumato.methods.response.solver import NOTHING
from sfumato.values.arrays import FloatArray
from sfumato.values.requirement import RiskLimit, exact

MOST_SECONDS_OF_PROPOSAL = 0.25  # a proposal that would take longer to try, about, is not made
BISECTIONS = 8  # limits that are tried in search of one of use: to about half a percent
MOST_BISECTIONS = 24  # the same if there was none so far: it may be next to those that the table keeps as it is
TIGHTENINGS = 4  # how often proposed limits fall back to what their answer needs, at the most
DIGITS = range(3, 13)  # a proposed limit has three digits, or as many as it takes to be one
NEXT_TO_NOTHING = "that leaves next to nothing for estimates"
APART = 1 + 1e-9  # risks with a ratio below this are the same but for rounding


def for_unreachable(asked: Request, least: float) -> str:
    """Return what to do if the limits cannot be kept; `least` is the risk, at its least, of the worst cell."""
    way = _wider(asked) or suppressing(asked.problem, asked.axes.limits(asked.limit))
    ask, why = _larger(asked, least)
    larger = "ask for larger limits" if asked.limit.groups else ""
    told = either(way, ask) if way or ask else either(larger, ANOTHER)
    return f"{told} {either(why)}".rstrip()


def for_kept(asked: Request) -> str:
    """Return what to do if the table as it is keeps the limits."""
    ways = _Ways.of(asked, keep=False)
    if asked.seconds > MOST_SECONDS_OF_PROPOSAL and ways.end > APART:
        return "Ask for a smaller limit, or choose another method."
    found = _found(ways)
    if found:
        return f"Ask for less, such as {_told(found)}, or choose another method."
    why = "can be kept" if ways.end <= APART else "leaves anything of use"
    return f"No smaller limit {why}: choose another method." if ways.all else "Choose another method."


def _answer(asked: Request | None) -> Response | None:
    """Return the answer, if there is one."""
    try:
        return asked.answered() if asked else None
    except Infeasible:  # out of reach, or too large
        return None


def _tried(asked: Request | None) -> Response | None:
    """Return the answer, if there is one of use."""
    found = _answer(asked)
    return found if asked and found and any(found.noise) and asked.squared_error(found) <= asked.uniform_error else None


# --- more attributes --------------------------------------------------------------------------------------------------


def _wider(asked: Request) -> str:
    """Say which attributes would have to be randomized too, and by which settings: all together, or one by itself."""
    profile, method, left = asked.axes.profile, asked.method, MOST_SECONDS_OF_PROPOSAL
    sizes = dict(zip(profile.quasi_identifiers, profile.quasi_domain.sizes, strict=True))
    untouched = profile.quasi_identifiers if method.scope == "sensitive" else method.fixed
    still = tuple(name for name in untouched if sizes[name] > 1)
    if method.scope == "quasi-identifiers" and RISKS[method.limited_risk].sees_sensitive:
        still = (*still, profile.sensitive_domain.name)
    for more in (still, *((name,) for name in still if len(still) > 1)) if still else ():
        fixed = tuple(name for name in untouched if name not in more)
        without_sensitive = method.scope == "quasi-identifiers" and profile.sensitive_domain.name not in more
        scope = "quasi-identifiers" if without_sensitive else "both"
        wider = Request.of(profile, asked.limit, method.model_copy(update={"scope": scope, "fixed": fixed}))
        if not wider.fits or wider.seconds > left:
            continue
        left -= wider.seconds
        if _tried(wider):
            settings = [f'scope = "{scope}"'] if scope != method.scope else []
            if fixed != method.fixed:
                settings.append("fixed = [" + ", ".join(f'"{name}"' for name in fixed) + "]")
            return f"randomize attribute(s) {', '.join(more)} too ({', '.join(settings)})"
    return ""


# --- other limits -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Ways:
    """Limits that grow with t, from the least that can be kept on; not below what is to be kept, nor above the most."""

    asked: Request
    keep: tuple[Fraction, ...]
    most: tuple[Fraction, ...]
    least: FloatArray  # m
    untouched: FloatArray  # the largest risk without any noise

    @classmethod
    def of(cls, asked: Request, keep: bool) -> _Ways:
        """Return those from the stated limits on (`keep`), or those up to them."""
        problem, table, stated = asked.problem, asked.axes.table, asked.limit.limits
        values = problem.sampled(np.full(len(problem.free), NOTHING)).values.reshape(-1, table.sizes[-1])
        risks = values[table.places] if problem.risk.of_released else values
        held = [asked.held_by(k) for k in range(len(stated))]
        least, untouched = ([float(x[cells].max(initial=0)) for cells in held] for x in (risks, table.shares))
        kept = [number if keep or not m else Fraction(0) for number, m in zip(stated, least, strict=True)]
        most = [Fraction(1) if keep else number for number in stated]
        return cls(asked, tuple(kept), tuple(most), np.array(least), np.array(untouched))

    @property
    def all(self) -> bool:
        """Whether there are no other ways: one limit, of which the least that can be kept is known."""
        return not self.asked.limit.groups

    @property
    def end(self) -> float:
        """The t from which on the table as it is keeps all limits."""
        each = zip(self.keep, self.least, self.untouched, strict=True)
        return float(max((share / m for number, m, share in each if number < share and m > 0), default=1.0))

    def at(self, t: float, digits: int = 17) -> Request | None:
        """Return the request with these limits, rounded up; None if they are no limits any more."""
        limits = zip(self.keep, self.most, (self.least * t).tolist(), strict=True)
        numbers = [
            k if k >= Fraction(g) else min(Fraction(rounded(g, ROUND_CEILING, digits)), most) for k, most, g in limits
        ]
        return _with_limits(self.asked, numbers)


def _larger(asked: Request, least: float) -> tuple[str, str]:
    """Propose larger limits that can be kept by an answer of use; else say why there are none, if that is certain."""
    if least >= CERTAIN and not asked.limit.groups:
        return "", ""
    ways = _Ways.of(asked, keep=True)
    if asked.seconds > MOST_SECONDS_OF_PROPOSAL and ways.end > APART:
        return between(float(ways.least[0]), float(ways.untouched[0])) if ways.all else "", ""
    found = _found(ways)
    nearest = _nearest(ways, least) if ways.all else None
    told = _told(_tightened(found, asked.limit.limits)) if found else ""
    if nearest is None or (found and found.limit == nearest.limit):
        return _unless_kept(ways, told)
    useful = f"from {told} on, its counts beat holding all combinations to be alike" if told else NEXT_TO_NOTHING
    return f"ask for {_at_least(nearest, exact(asked.limit.limit))} ({useful})", ""


def _unless_kept(ways: _Ways, told: str) -> tuple[str, str]:
    """Return what to ask for; else why there are no larger limits, if that is certain."""
    if told:
        return f"ask for {told}", ""
    why = "leaves anything of use" if ways.end > APART else "can be kept"
    return "", f"no larger limit {why}, below those that the table as it is keeps" if ways.all else ""


def _at_least(nearest: Request, stated: Fraction) -> str:
    """Say from which limit on there is an answer; in the words of an l, too, where the stated limit may be one."""
    limit = exact(nearest.limit.limit)
    most, told = int(1 / limit), f"risk_limit = {_written(limit)} or more"
    is_l = stated.numerator == 1 and most > 1 and _is_kept(_with_limits(nearest, [Fraction(1, most)]))
    return f"l = {most}, or for {told}" if is_l else told


def _nearest(ways: _Ways, least: float) -> Request | None:
    """Return the smallest limit that was tried and can be kept: next to the least risk that is known, rounded up."""
    known = sorted({least, float(ways.least[0])})
    limits = (Fraction(rounded(risk, ROUND_CEILING, digits)) for risk in known for digits in DIGITS)
    return next((request for limit in limits if _is_kept(request := _with_limits(ways.asked, [limit]))), None)


def _is_kept(asked: Request | None) -> bool:
    """Whether there is an answer, of use or not."""
    found = _answer(asked)
    return found is not None and any(found.noise)


def _found(ways: _Ways) -> Request | None:
    """Return the request with the least limits of use: by bisection, then with few digits."""
    low, high, useful = 0.0, math.log(ways.end), False
    for n in range(MOST_BISECTIONS if ways.end > APART else 0):
        if useful and n >= BISECTIONS:
            break
        middle = (low + high) / 2
        if _tried(ways.at(math.exp(middle))):
            high, useful = middle, True
        else:
            low = middle
    rounded = (ways.at(math.exp(high), digits) for digits in DIGITS if useful)
    return next((request for request in rounded if _tried(request)), None)


def _tightened(found: Request, stated: Sequence[Fraction]) -> Request:
    """Return the request with limits that are no larger than its answer needs, nor smaller than those stated.

    A tighter request can have another answer, whose limits are tightened in turn.
    """
    for _ in range(TIGHTENINGS if found.limit.groups else 0):
        point = found.problem.risk(found.axes.table, found.answered().channels)
        risks = (found.largest_held_by(k, point) for k in range(len(stated)))
        held = [Fraction(rounded(risk, ROUND_CEILING, DIGITS[0])) for risk in risks]
        limits = zip(found.limit.limits, stated, held, strict=True)
        tighter = _with_limits(found, [min(old, max(least, risk)) for old, least, risk in limits])
        if tighter is None or tighter.limit == found.limit or not _tried(tighter):
            break
        found = tighter
    return found


def _with_limits(asked: Request, numbers: Sequence[Fraction]) -> Request | None:
    """Return the request with these limits, for all others and for the groups; None if they are no limits any more."""
    groups = zip(asked.limit.groups, numbers[1:], strict=True)
    try:
        limit = RiskLimit(numbers[0], tuple(replace(group, limit=number) for group, number in groups))
    except PolicyError:
        return None
    return replace(asked, limit=limit)


def _told(asked: Request) -> str:
    limit, groups = exact(asked.limit.limit), asked.limit.groups
    if groups:
        whose = [("all others", limit), *((group.told, exact(group.limit)) for group in groups)]
        return "limits of " + ", ".join(f"{_written(number)} for {told}" for told, number in whose)
    is_l = limit.numerator == 1 < limit.denominator
    return f"a limit of {_written(limit)}" + (f" (l = {limit.denominator})" if is_l else "")


def _written(number: Fraction) -> str:
    """Write a number so that a policy takes it for the same."""
    decimal = f"{float(number):.12g}"
    return "1 (none)" if number == 1 else decimal if Fraction(decimal) == number else str(number)
