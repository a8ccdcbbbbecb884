"""Bounds on odds in plain words: how sure someone can become of a value, for the card."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

from sfumato.claims.claim import (
    BELIEFS,
    BOTH,
    COMPUTED,
    QUASI_IDENTIFIERS,
    RELATIVES,
    SECOND,
    SEVERAL_ROWS,
    UNTOUCHED,
    Scope,
    percent,
)
from sfumato.show.words import at_least, at_most, named, upwards
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.bound import Bound, strictest_gamma
from sfumato.values.computed import Facts
from sfumato.values.matrix.base import Direction
from sfumato.values.mechanism import SubTable

BELIEF = Fraction(1, 10)
"""What a belief of this becomes is told, where no requirement names another one."""


def promise_on_odds(
    domain: SensitiveDomain, table: SubTable, scope: Scope, directions: Sequence[Direction], read_off: bool
) -> str:
    """Return the promise of one matrix; `read_off`: each value starts from its own share, read off the table."""
    both, bounds = "downward" in directions, table.bounds
    strictest = strictest_gamma(bounds, table.sets)
    if strictest is None:
        return f"Nothing is required of any {domain.name}, and nothing is promised."
    if scope == "any predicate":
        first = bounds[0] if bounds[0].gamma == strictest else Bound(strictest)
        return moved(first, f"anything about a record's {domain.name}", both)
    return " ".join([*_of_values(domain, bounds, both, read_off), *_of_sets(domain, table, both)])


def _of_values(domain: SensitiveDomain, bounds: Sequence[Bound], both: bool, read_off: bool) -> Iterator[str]:
    """Yield the strictest bound with the values that have it, and what holds of the others."""
    protected = [(code, bound) for code, bound in enumerate(bounds) if bound.gamma is not None]
    kinds = sorted({bound for _, bound in protected}, key=lambda bound: bound.gamma or 0)
    if not kinds:
        return
    strictest = [domain.labels[code] for code, bound in protected if bound == kinds[0]]
    if len(kinds) == 1 and len(strictest) == domain.size:
        yield moved(kinds[0], f"a record having any one {domain.name}", both)
        return
    values = named(strictest, "or")
    yield moved(kinds[0], f"a record's {domain.name} being {values}", both)
    others = len(protected) - len(strictest)
    if len(kinds) == 2:
        yield f"Of the other {others:,} values: {short(kinds[1])}."
    elif others:
        yield f"The other {others:,} values have weaker limits of their own{', by their shares' if read_off else ''}."


def _of_sets(domain: SensitiveDomain, table: SubTable, both: bool) -> Iterator[str]:
    sets = sorted(table.sets, key=lambda each: each.bound.gamma or 0)
    if sets:
        yield moved(sets[0].bound, f"the statement that a record's {sets[0].told(domain)}", both)
    if len(sets) > 1:
        yield f"{len(sets) - 1:,} more set(s) of values: limits of their own."


def moved(bound: Bound, of: str, both: bool) -> str:
    """Return how sure someone can become of something."""
    if bound.rho1 is None or bound.rho2 is None:
        assert bound.gamma is not None
        return f"Someone {percent(BELIEF)} sure of {of} will not get above {after(bound.gamma, BELIEF)}."
    rho1, rho2 = at_least(bound.rho1), at_most(bound.rho2)
    low, high = (told.partition(" (")[0] for told in (rho1, rho2))  # the percentage was told already
    back = f" Nor can it be ruled out: a belief of {high} or more stays at least {low}." if both else ""
    return f"Someone at most {rho1} sure of {of} will not get above {rho2}.{back}"


def short(bound: Bound) -> str:
    """Return the two ends of a bound."""
    if bound.rho1 is None or bound.rho2 is None:
        assert bound.gamma is not None
        return f"from {percent(BELIEF)} to at most {after(bound.gamma, BELIEF)}"
    rho1, rho2 = at_least(bound.rho1), at_most(bound.rho2)
    return f"from at most {rho1} to at most {rho2}"


def after(factor: Fraction, prior: Fraction) -> str:
    """Return what becomes of a belief under a factor on its odds, never below it.

    >>> after(Fraction(3), Fraction(1, 10))
    '25%'
    """
    return upwards(factor * prior / (1 - prior + factor * prior))


def attacker_of_noise(computed: Facts) -> str:
    """Return whom we assume: all other records may be known only where nothing was computed from the table."""
    others = "" if computed else ", and all other records"
    return f"knows how the noise works, who is in the table, everyone's {QUASI_IDENTIFIERS}{others}; sees one release."


def gaps_of_noise(
    domain: SensitiveDomain, table: SubTable, scope: Scope, directions: Sequence[Direction], computed: Facts
) -> Iterator[str]:
    """Yield what is not covered, a few words each; what is special to the release first."""
    if scope == "single values":
        if any(bound.gamma is None for bound in table.bounds):
            yield "values without a requirement"
        if directions == BOTH and domain.size > 2:
            yield "statements that join several values"
        if len(domain.parts) > 1:
            yield f"{named(domain.names, 'or')} alone"
    if "downward" not in directions:
        yield "ruling a value out (becoming less sure)"
    if computed:
        yield COMPUTED
    yield from (BELIEFS, UNTOUCHED, SECOND, SEVERAL_ROWS, RELATIVES)
