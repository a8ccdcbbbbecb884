"""The comparison: every method on one table, at the same requirement, and at equal measured risk."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Generic, TypeVar

import numpy as np

from sfumato.auditor.compare import translating
from sfumato.auditor.compare.bench import Bench
from sfumato.auditor.compare.figures import Figures, Outcome
from sfumato.auditor.compare.original import Original, Pool
from sfumato.auditor.compare.record import INDEPENDENCE, PLAIN, MethodComparison
from sfumato.auditor.compare.translating import Translated, grid, limit_of, translations
from sfumato.auditor.record import Progress, no_progress, now
from sfumato.errors import Infeasible, PlanMismatch, SingularMatrix, UsageError
from sfumato.methods import METHODS
from sfumato.methods.generalization import read_hierarchy
from sfumato.publisher.table import Table, profile
from sfumato.show.words import share
from sfumato.values.bound import of_each
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import (
    Diversity,
    Requirement,
    Requirements,
    RhoPrivacy,
    RiskLimit,
    Robustness,
    posterior_of_gamma,
    sets_of,
)
from sfumato.values.software import software
from sfumato.values.text import did_you_mean

Parameter = TypeVar("Parameter")
Result = TypeVar("Result")
REFUSALS = (UsageError, Infeasible, SingularMatrix, PlanMismatch)
"""What a method raises that does not fit the table or the policy; that a disk is full, say, is no reason of its own."""
SEARCHES = 5  # how many times as long a comparison takes that also searches for equal risk, about
STRIDE = 1_000_003  # between the seeds of a method's releases, and of what is counted


def compare(
    table: Table,
    *,
    equal_risk: bool = False,
    target: float | None = None,
    repeat: int = 3,
    hierarchies: Mapping[str, str | Path] | None = None,
    seed: int | None = None,
    methods: Collection[str] = (),
    progress: Progress = no_progress,
    announce: Callable[[str], None] = lambda text: None,
) -> MethodComparison:
    """Make releases of a table by every method at the policy's requirement, measure them alike, and throw them away.

    With `equal_risk` each method's own parameter is also searched at which the guesser is right about as many people
    as with the policy's method, or about the share `target`. Each method makes `repeat` releases. `hierarchies` are
    files by column, for full-domain generalization; without one a column is kept or left out. `seed` makes the
    comparison repeatable. `methods` names those to compare with the policy's own; without any, all are, but for those
    that would keep the others waiting on a table of this size. `announce` is told once about how long it takes, and
    `progress` what is being done.
    """
    _check(table, repeat, target, hierarchies or {}, seed)
    _check_methods(methods)
    start = perf_counter()
    bench = _bench(table, repeat, hierarchies or {}, seed, methods)
    known = _known(bench.original)
    limit = _limit(table, known, bench.counting)
    asked = [each for each in translations(table.policy, known, limit) if each.own or bench.is_chosen(each)]
    rounds = 2 if equal_risk or target else 1
    announce(_expected(bench, asked, equal=rounds > 1))
    outcomes = tuple(_at_requirement(bench, asked, rounds, progress))
    notes = list(_notes(table))
    if equal_risk and target is None:
        target = next((m.figures.guessed.mean for m in outcomes if m.own and m.figures), None)
    if equal_risk and target is None:
        notes.append("Not compared at equal risk: the policy's own method was not measured. Give a target.")
    equal = () if target is None else tuple(_at_equal_risk(bench, asked, outcomes, known, target, progress))
    plain = bench.plain()
    if target is not None and target >= plain.guessed.success:
        notes.append("The table itself gives away no more than the target of equal risk: it limits nothing.")
    return MethodComparison(
        created=now(),
        software=software(),
        published=str(getattr(table.source, "description", "The table")),
        policy_sha256=table.policy.hash(),
        rows=bench.original.rows,
        requirement=next((each.asked for each in asked if each.own), ""),
        limit=float(limit),
        repeat=repeat,
        seed=seed,
        counts_asked=bench.pool.size,
        methods=outcomes,
        references=(
            Outcome(INDEPENDENCE, "-", "Values depend on nothing.", False, Figures.of([bench.independence()])),
            Outcome(PLAIN, "-", "Nothing is hidden.", False, Figures.of([plain])),
        ),
        target=target,
        at_equal_risk=equal,
        notes=tuple(notes),
        seconds=perf_counter() - start,
        sensitive=bench.original.sensitive,
        values=known.values,
    )


def _check(
    table: Table, repeat: int, target: float | None, hierarchies: Mapping[str, str | Path], seed: int | None
) -> None:
    if repeat < 1:
        raise UsageError("Every method makes one release at least.", "Give a number of repetitions from 1 on.")
    if target is not None and not 0 < target < 1:
        raise UsageError(f"The target is a share of people between 0 and 1, not {target:g}.", "5% is 0.05.")
    if seed is not None and seed < 0:
        raise UsageError(f"A seed is a whole number from 0 on, not {seed}.", "For instance --seed 1")
    names = table.schema.names("quasi_identifier")
    if not names:
        raise UsageError(
            "No column is a quasi-identifier: nobody can be known by any, and there is nothing to be associated.",
            "Give the columns by which people can be known the role quasi_identifier.",
        )
    if strange := [name for name in hierarchies if name not in names]:
        raise UsageError(f"A hierarchy is for {strange[0]!r}, which is no quasi-identifier.", f"These are {names}.")


def _check_methods(names: Collection[str]) -> None:
    known = [*(method.name for method in METHODS), translating.GENERALIZATION]
    if strange := [name for name in names if name not in known]:
        raise UsageError(
            f"There is no method {strange[0]!r} to compare{did_you_mean(strange[0], known) or '.'}",
            f"There are {', '.join(known)}.",
        )


def _bench(
    table: Table, repeat: int, hierarchies: Mapping[str, str | Path], seed: int | None, methods: Collection[str]
) -> Bench:
    original = Original.read(table)
    places = range(repeat + 1)  # the last one is for counting
    *keys, counting = (SecretKey.fresh() if seed is None else SecretKey.from_seed(seed + STRIDE * k) for k in places)
    ways = {name: read_hierarchy(Path(path), name, original.labels(name)) for name, path in hierarchies.items()}
    return Bench(original, Pool.drawn(original, seed), tuple(keys), counting, ways, frozenset(methods))


def _known(original: Original) -> translating.Table:
    counts = np.bincount(original.numbers(original.sensitive), minlength=original.values)
    names, together = original.quasi_identifiers, original.together()
    shares = zip(together.max(axis=1).tolist(), together.sum(axis=1).tolist(), strict=True)
    sizes = dict(zip(names, original.shape(names), strict=True))
    return translating.Table(
        Fraction(int(counts.max()), original.rows),
        max(Fraction(most, people) for most, people in shares),
        int(np.count_nonzero(counts)),
        original.rows,
        sizes,
        original.combinations,
    )


def _limit(table: Table, known: translating.Table, key: SecretKey) -> Fraction:
    required = table.policy.requirement
    if isinstance(required, Diversity | Robustness | RiskLimit | RhoPrivacy):
        return limit_of(required, known.largest_share, ())
    counted = profile(table, key=key)
    if isinstance(required, Requirements):  # of all columns together: their factors multiply
        parts = zip(required.each, counted.by_method, strict=True)
        strictest = [min(gammas) for own, of in parts if (gammas := _gammas(own, of))]
        return posterior_of_gamma(math.prod(strictest), known.largest_share)
    return limit_of(required, known.largest_share, _gammas(required, counted))


def _gammas(required: Requirement, counted: Profile) -> list[Fraction]:
    """Return the factors that are asked for, of values and of sets of them."""
    bounds = required.bounds(counted.domain, counted.counts.tolist())
    stated = of_each(bounds, sets_of(required, counted.domain))
    return [bound.gamma for bound in stated if bound.gamma is not None]


# --- how long it takes ------------------------------------------------------------------------------------------------


def _expected(bench: Bench, asked: Sequence[Translated], *, equal: bool) -> str:
    """Return about how long it takes, in words: the search for equal risk measures each method several times more."""
    tried = [each for each in asked if not bench.unfit(each)]
    seconds = sum(map(bench.seconds, tried)) * (SEARCHES if equal else 1)
    of_all = f"{len(tried)} of {len(asked)} methods" if len(tried) < len(asked) else f"{len(tried)} methods"
    return f"{_duration(seconds)}: {of_all} x {len(bench.keys)} releases."


def _duration(seconds: float) -> str:
    """Return a time in words, with one or two digits.

    >>> _duration(3.2), _duration(42), _duration(400), _duration(9000)
    ('About 3 s', 'About 40 s', 'About 7 minutes', 'About 2.5 hours')
    """
    if seconds < 90:
        return f"About {max(1, float(f'{seconds:.1g}')):.0f} s"
    return f"About {seconds / 60:.0f} minutes" if seconds < 5400 else f"About {seconds / 3600:.1f} hours"


# --- the same requirement ---------------------------------------------------------------------------------------------


def _at_requirement(bench: Bench, asked: Sequence[Translated], rounds: int, progress: Progress) -> Iterator[Outcome]:
    """Yield the outcome of each; steps are the methods that are tried."""
    steps, done = rounds * sum(not bench.unfit(each) for each in asked), 0
    for each in asked:
        if why := bench.unfit(each):
            yield _told(each, reason=why)
        else:
            yield _outcome(bench, each, progress, done, steps)
            done += 1


def _outcome(bench: Bench, asked: Translated, progress: Progress, done: int, steps: int) -> Outcome:
    def tell(what: str, part: float) -> None:
        progress(f"{asked.name}: {what}", done + part, steps)

    progress(asked.name, done, steps)
    try:
        return _told(asked, figures=Figures.of(bench.trials(asked, tell)))
    except REFUSALS as problem:
        return _told(asked, reason=" ".join(f"{problem.message} {problem.hint}".split()))


def _told(asked: Translated, figures: Figures | None = None, reason: str = "") -> Outcome:
    return Outcome(asked.name, asked.asked, asked.promise, asked.own, figures, reason, asked.bound)


def _notes(table: Table) -> Iterator[str]:
    if table.policy.record_key:
        yield "The record key of the policy was left out: no later release follows on these."
    if table.policy.person and table.policy.person.repeated == "keep-one":
        yield "One row of each person is published, and compared with all rows of the table."
    if table.policy.requirement_rule.groups:
        yield "Limits for single groups are the policy's own: other methods take the general one."


# --- equal risk -------------------------------------------------------------------------------------------------------


def _at_equal_risk(
    bench: Bench,
    asked: Sequence[Translated],
    methods: Sequence[Outcome],
    known: translating.Table,
    target: float,
    progress: Progress,
) -> Iterator[Outcome]:
    tried = done = sum(not bench.unfit(each) for each in asked)
    for each, outcome in zip(asked, methods, strict=True):
        if bench.unfit(each):
            yield outcome
            continue
        progress(f"{each.name}: equal risk", done, 2 * tried)
        yield _nearest(bench, each, outcome, grid(each, known), target)
        done += 1


def _nearest(bench: Bench, like: Translated, asked: Outcome, points: tuple[Translated, ...], target: float) -> Outcome:
    """Return the method with the largest risk within the target: of those on the grid, and as it was asked for."""
    risk = asked.figures.guessed.mean if asked.figures else None
    if risk == target:
        return asked
    found = nearest(points, bench.risk, partial(_measured, bench), target)
    if risk is not None and risk <= target and (found.result is None or found.result.guessed.mean <= risk):
        return asked
    if found.parameter is not None:
        return _told(found.parameter, figures=found.result)
    if least := [each for each in (found.risk, risk) if each is not None]:  # as it was asked for, or otherwise
        tried = f"Of {found.tried} parameters tried none leaves {share(target)} guessed right"
        return _told(like, reason=f"{tried}: the least is {share(min(least))}.")
    return _told(like, reason=found.reason or asked.reason)  # a grid may be empty


def _measured(bench: Bench, parameter: Translated) -> tuple[float, Figures]:
    figures = Figures.of(bench.trials(parameter))
    return figures.guessed.mean, figures


@dataclass(frozen=True)
class Nearest(Generic[Parameter, Result]):
    """What a search found: a parameter with its measurement, or (None) the least risk that it met."""

    parameter: Parameter | None
    result: Result | None
    risk: float | None  # over all releases; None: nothing that was measured can be planned
    tried: int  # parameters, each counted once
    reason: str = ""  # of the last that could not be planned


def nearest(
    points: Sequence[Parameter],
    quick: Callable[[Parameter], float],
    measure: Callable[[Parameter], tuple[float, Result]],
    target: float,
) -> Nearest[Parameter, Result]:
    """Return the parameter, of a grid from strict to loose, with the largest risk within the target.

    Halves the grid by `quick`, a measurement of one release. From there `measure`, over all releases, decides: it goes
    on to looser parameters as long as they are within the target, or back to stricter ones until one is. What cannot be
    planned is too strict.
    """
    low, high, reason = -1, len(points), ""
    tried: set[int] = set()
    while high - low > 1:
        middle = (low + high) // 2
        tried.add(middle)
        try:
            risk = quick(points[middle])
        except REFUSALS as problem:
            low, reason = middle, problem.message
            continue
        low, high = (middle, high) if risk <= target else (low, middle)
    best: Nearest[Parameter, Result] | None = None
    least: float | None = None
    place, step = min(low + 1, len(points) - 1), 0
    while 0 <= place < len(points):
        tried.add(place)
        try:
            risk, result = measure(points[place])
        except REFUSALS as problem:
            reason = problem.message
            break
        least = risk if least is None else min(least, risk)
        within = risk <= target
        if within:
            best = Nearest(points[place], result, risk, len(tried))
        if step and within == (step < 0):  # back at one within the target, or gone beyond it
            break
        step = 1 if within else -1
        place += step
    return best or Nearest(None, None, least, len(tried), reason)
