"""What a comparison recommends: first by promise, then by what a release keeps, then by the error of counts.

Methods are compared with each other only where they promise and keep the same: elsewhere the choice is for the one who
publishes. Among these the least mean error is taken. Another one whose errors over the releases overlap with it cannot
be told from it. A method is better than knowing no association only if all its releases are.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from sfumato.auditor.compare.figures import Figures, Keeps, Outcome, Spread
from sfumato.claims.claim import Strength

Promise = Literal["any prior", "one stated prior", "this table's own risk", "none"]
PROMISES: dict[Strength | Literal["none"], Promise] = {
    "any prior": "any prior",
    "any prior, computed from this table": "any prior",
    "one stated prior": "one stated prior",
    "this table's own risk": "this table's own risk",
    "as published": "none",
    "none": "none",
}
"""The kind of promise that a guarantee of each strength is."""

NEEDS: dict[Promise, str] = {
    "any prior": "If people may recognise rows and must not learn {secret}, whatever they believe beforehand",
    "one stated prior": "If it is enough to hold against someone with one stated belief beforehand",
    "this table's own risk": "If it is enough to limit what other columns of this table's rows tell",
    "none": "If nothing has to be promised",
}
"""What must hold, against whom: how a recommendation begins."""
IN_SHORT: dict[Promise, str] = {
    "any prior": "any belief beforehand",
    "one stated prior": "one stated belief beforehand",
    "this table's own risk": "this table's own risk",
    "none": "none",
}
IF_KEPT: dict[Keeps, str] = {
    "randomized values": "if every row must show one value",
    "sets of values": "if rows may show a set of values",
    "true values in groups": "if values must stay true, for groups of rows",
    "randomized quasi-identifiers": "if values must stay true and other columns may change",
    "randomized quasi-identifiers and values": "if all columns may change",
    "coarser quasi-identifiers": "if values must stay true and other columns may become coarser",
}
ONE_RELEASE = (
    "This is from one release of each method. How much errors vary is not known: compare several before you choose."
)
BEFORE = "This comparison was made before promises were kept with it: compare again for a recommendation."


@dataclass(frozen=True)
class Choice:
    """The methods with one kind of promise that keep the same."""

    promise: Promise
    keeps: Keeps | Literal[""]
    method: str  # the one with the least mean error
    error: Spread
    alike: tuple[str, ...]  # others that the data do not tell from it
    better: bool  # than the independence table, in all releases
    withheld: float  # share of the records, by the method
    bounds: tuple[str, ...] = ()  # with which it was asked, and each of `alike`


@dataclass(frozen=True)
class Recommendation:
    """The choices by promise and what is kept, the strongest promise first; in words; and what would help."""

    independence: float  # the mean error of who takes values to depend on nothing
    choices: tuple[Choice, ...]
    sentences: tuple[str, ...]
    would_help: tuple[str, ...]  # phrases, where the strongest promise leaves nothing better than independence


@dataclass(frozen=True)
class Asked:
    """What a recommendation is about."""

    secret: str
    values: int  # of the secret
    rows: int
    repeat: int


def recommend(outcomes: Sequence[Outcome], independence: Figures, asked: Asked) -> Recommendation:
    """Return what is recommended of the methods that were measured."""
    chance = independence.mean_error.mean
    measured = [(each.method, each.figures) for each in outcomes if each.figures]
    bounds = {each.method: each.bound for each in outcomes}
    if any(of.strength is None for _, of in measured):
        return Recommendation(chance, (), (BEFORE,), ())
    choices = tuple(sorted(_choices(measured, chance, bounds), key=_order))
    return Recommendation(
        chance, choices, tuple(_sentences(choices, chance, asked)), tuple(_help(choices, outcomes, independence, asked))
    )


def promise_of(figures: Figures) -> Promise:
    """Return the kind of promise; a release on which the promise was seen to fail has none."""
    failed = figures.promised is not None and figures.promised.verdict == "above the bound"
    return "none" if failed or figures.strength is None else PROMISES[figures.strength]


def _choices(measured: Iterable[tuple[str, Figures]], chance: float, bounds: Mapping[str, str]) -> Iterator[Choice]:
    groups: dict[tuple[Promise, Keeps | Literal[""]], dict[str, Figures]] = {}
    for method, of in measured:
        groups.setdefault((promise_of(of), of.keeps), {})[method] = of
    for (promise, keeps), members in groups.items():
        best = min(members, key=lambda method: members[method].mean_error.mean)
        error = members[best].mean_error
        alike = tuple(name for name, of in members.items() if name != best and of.mean_error.low <= error.high)
        withheld = 1 - members[best].published_share
        asked = tuple(bounds[name] for name in (best, *alike))
        yield Choice(promise, keeps, best, error, alike, error.high < chance, withheld, asked)


def _order(choice: Choice) -> tuple[int, float]:
    return [*NEEDS].index(choice.promise), choice.error.mean


# --- in words ---------------------------------------------------------------------------------------------------------


def about(error: float) -> str:
    """Return an error in percent, with two digits.

    >>> about(0.0423), about(0.154), about(0.0), about(12.3)
    ('±4.2%', '±15%', '±0%', '±1,200%')
    """
    if error <= 0:
        return "±0%"
    digits = 1 - math.floor(math.log10(100 * error))
    return f"±{round(100 * error, digits):,.{max(0, digits)}f}%"


def _sentences(choices: Sequence[Choice], chance: float, asked: Asked) -> Iterator[str]:
    if all(choice.promise == "none" for choice in choices):
        yield "No method with a promise could be measured at this requirement."
    guess = f"guessing that {asked.secret} depends on nothing ({about(chance)})"
    if choices and not any(choice.better for choice in choices):
        yield f"Nothing here is better than {guess}: its counts are as good as those of any release."
    for promise, need in NEEDS.items():
        own = [choice for choice in choices if choice.promise == promise and not _is_pointless(choice, choices)]
        if good := [choice for choice in own if choice.better]:
            yield f"{need.format(secret=asked.secret)}: {'; '.join(_taken(choice, asked) for choice in good)}."
        elif own and any(choice.better for choice in choices):
            yield f"{need.format(secret=asked.secret)}: nothing is better than {guess}. The nearest: {_near(own[0])}."
    if asked.repeat == 1:
        yield ONE_RELEASE


def _is_pointless(choice: Choice, choices: Sequence[Choice]) -> bool:
    """Whether nothing is promised, and something that promises more has smaller errors."""
    rivals = (other for other in choices if other.promise != "none")
    return choice.promise == "none" and any(other.error.mean <= choice.error.mean for other in rivals)


def _taken(choice: Choice, asked: Asked) -> str:
    """Return which method to take, for whom, and what its counts are worth."""
    condition = f"{IF_KEPT[choice.keeps]}, " if choice.keeps else ""
    worth = f"about {about(choice.error.mean)} on counts"
    if choice.withheld > 0:
        worth += f", with {about(choice.withheld).removeprefix('±')} of the records withheld"
    if asked.repeat == 1:
        return f"{condition}{_bounded(choice)} has the least error: {worth}"
    unknown = " (the data do not tell them apart)" if choice.alike else ""
    return f"{condition}take {_bounded(choice)}: {worth}{unknown}"


def _bounded(choice: Choice) -> str:
    """Return the methods, each with the bound that it was asked for; one bound of all is told once."""
    names, bounds = (choice.method, *choice.alike), choice.bounds
    if len(set(bounds)) == 1:
        return " or ".join(names) + (f" with {bounds[0]}" if bounds[0] else "")
    return " or ".join(f"{name} with {bound}" for name, bound in zip(names, bounds, strict=True))


def _near(choice: Choice) -> str:
    """Return the method that comes nearest to being better."""
    low, high = about(choice.error.low), about(choice.error.high)
    bound = f" with {choice.bounds[0]}" if any(choice.bounds) else ""
    return f"{choice.method}{bound}, {about(choice.error.mean)}" + (f" ({low} to {high})" if low != high else "")


# --- what would help --------------------------------------------------------------------------------------------------


def _help(choices: Sequence[Choice], outcomes: Sequence[Outcome], independence: Figures, asked: Asked) -> Iterator[str]:
    """Yield what would help where the strongest promise leaves nothing that is better than independence.

    At one promise the relative error of a count falls as the root of the number of records, and the error by knowing no
    association does not. With equally many records and values of like size it falls with the number of values at least
    (of sets; of single randomized values with its power 3/2).
    """
    strongest = [choice for choice in choices if choice.promise == choices[0].promise != "none"]
    if not strongest or any(choice.better for choice in strongest):
        return
    nearest, chance = strongest[0], independence.mean_error.mean
    times = (nearest.error.high / chance) ** 2 if chance > 0 else math.inf
    if math.isfinite(times):
        yield f"about {_rounded(times * asked.rows):,} records, with which {nearest.method} would be as good"
    fewer = math.floor(asked.values * chance / nearest.error.high) if nearest.error.high > 0 else 0
    if 2 <= fewer < asked.values:
        yield f"about {fewer:,} values of like size in place of {asked.values:,}"
    yield _coarser(nearest, outcomes, independence)
    yield "a looser bound, or another promise"


def _coarser(nearest: Choice, outcomes: Sequence[Outcome], independence: Figures) -> str:
    """Return by how many columns at a time counts are better than independence, if by some."""
    figures = next(each.figures for each in outcomes if each.method == nearest.method and each.figures)
    both = zip(figures.errors_by_columns, independence.errors_by_columns, strict=True)
    better = [
        f"by {number} {'column' if number == 1 else 'columns'} {about(own)} against {about(other)}"
        for number, (own, other) in enumerate(both, 1)
        if own is not None and other is not None and own < other
    ]
    return f"coarser or fewer columns: counts are better {', '.join(better)}" if better else "coarser columns"


def _rounded(number: float) -> int:
    """Return a number with two digits."""
    return int(float(f"{number:.1e}")) if number >= 1 else 1
