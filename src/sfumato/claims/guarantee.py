"""The guarantee: what is promised, against whom, and its exact re-check on the integer matrix.

    upward    max_y P[y,i] / min_{k != i} P[y,k] <= gamma_i     a prior of at most rho1_i stays at most rho2_i
    downward  max_y max_{k != i} P[y,k] / P[y,i] <= gamma_i     a prior of at least rho2_i stays at least rho1_i

Both are equivalences: a matrix that fails one has a prior for which the bound is broken (`counterexample`). FG
Theorem 1 claims both from the first alone; that is not so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sfumato.claims.single_columns import worst_factor
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.computed import Facts, Strength, adversary_of_noise, strength_of_noise
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import Mechanism, SubTable
from sfumato.values.requirement import Bound, RiskLimit

Direction = Literal["upward", "downward"]
Scope = Literal["any predicate", "single values"]
BOTH: tuple[Direction, ...] = ("upward", "downward")
UPWARD: tuple[Direction, ...] = ("upward",)

TAKES_SHARES = (
    "Knows the matrices, the sub-table of every record, all quasi-identifiers and who is in the table; takes the "
    "records of a sub-table for independent draws with its shares, and the domains and matrices, which were computed "
    "from the table, to tell nothing of a single record; sees the release once."
)
PRIOR_OF_SUB_TABLE = (
    "The frequencies of the values in the record's sub-table, whatever its quasi-identifiers are; of each protected "
    "value they are at most the rho1 of that sub-table."
)
PRIOR = "Any prior on the record's value, also one that depends on its quasi-identifiers."
PER_ROW = "Per row: a person with several rows, or a second release of the same people, adds up."
SEES_QUASI_IDENTIFIERS = (
    "Sees the published quasi-identifiers of one row and nothing else of it; knows the matrices and the table's "
    "distribution; holds records to be independent draws from it, and so believes in a value by its expected share "
    "among rows that are published so; sees the release once."
)
LINKS = (
    "Knows which quasi-identifiers a person is published with, takes one of the rows that are published with these and "
    "learns its true value; hits as often as the expected share of the value among such rows says; knows nothing else "
    "of these rows; sees the release once."
)
RECONSTRUCTS = (
    "Knows a person's true quasi-identifiers; draws the true quasi-identifiers of a row, and then its true value, at "
    "random from their distributions given what is published of it; sees the release once."
)
OWN_DISTRIBUTION = "The table's own distribution: how many records have each combination of values."
NOT_OF = "Says nothing of what an adversary knows beforehand, nor of columns that are published untouched."


@dataclass(frozen=True)
class Guarantee:
    """One sentence, with its adversary, prior, scope and strength. `limits` say what it does not cover."""

    sentence: str
    adversary: str
    prior: str
    scope: Scope
    directions: tuple[Direction, ...]
    strength: Strength
    limits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Violation:
    """A value whose odds can change by more than its gamma. `factor` None: without bound."""

    code: int
    direction: Direction
    factor: Fraction | None
    gamma: Fraction


def violations(
    matrix: PerturbationMatrix, bounds: Sequence[Bound], directions: Sequence[Direction]
) -> Iterator[Violation]:
    """Yield every value and direction in which the integer matrix breaks its bound, exactly."""
    factors = {"upward": matrix.upward, "downward": matrix.downward}
    for direction in directions if matrix.size > 1 else ():
        for code, bound in enumerate(bounds):
            if bound.gamma is None:
                continue
            factor = factors[direction](code)
            if factor is None or factor > bound.gamma:
                yield Violation(code, direction, factor, bound.gamma)


def exceeds_any_predicate(matrix: PerturbationMatrix, bounds: Sequence[Bound]) -> bool:
    """Whether the odds of some predicate can change by more than the strictest gamma, exactly.

    They change by at most the largest ratio of two entries of a row of the matrix, and by that much for some prior.
    """
    strictest = min((b.gamma for b in bounds if b.gamma is not None), default=None)
    ratio = matrix.largest_ratio
    return strictest is not None and (ratio is None or ratio > strictest)


def directions_of(method: str, assurance: str) -> tuple[Direction, ...]:
    """Return the directions that a method keeps: FG Fig. 3 as published asks for the upward one only."""
    return UPWARD if method == "fine-grain" and assurance == "as-published" else BOTH


def state_guarantee(
    domain: SensitiveDomain,
    bounds: Sequence[Bound],
    matrix: PerturbationMatrix,
    method: str,
    assurance: str,
    computed: Facts,
) -> Guarantee:
    """Return the guarantee of one matrix for all rows; `computed` lists what was computed from the table."""
    directions = directions_of(method, assurance)
    scope: Scope = "any predicate" if method == "uniform" else "single values"
    return Guarantee(
        sentence=_sentence(domain, bounds, scope, "downward" in directions),
        adversary=adversary_of_noise(computed),
        prior=PRIOR,
        scope=scope,
        directions=directions,
        strength=strength_of_noise(computed) if directions == BOTH else "as published",
        limits=tuple(_limits(domain, bounds, matrix, directions, computed, scope)),
    )


def state_partition_guarantee(mechanism: Mechanism, assurance: str, rho1: Fraction) -> Guarantee:
    """Return the guarantee of small domain randomization: SDR Def. 2, with what docs/methods/small-domain.md adds.

    `rho1` is that of the requirement: values with a share of at most this are protected, of one column alone too.
    """
    domain, bounds = mechanism.domain, mechanism.bounds
    alone = f", and each value x of {' or '.join(domain.names)} alone that at most {percent(rho1)} of the records have"
    also = alone if assurance == "proved" and len(domain.parts) > 1 else ""
    rho2 = max((b.rho2 for b in bounds if b.rho2 is not None), default=None)
    promised = f"believes in it by at most {percent(rho2)} after seeing" if rho2 else "may learn all from"
    return Guarantee(
        sentence=(
            f"For each protected value x of {domain.name} (those with a bound, listed with the matrices){also}: who "
            f"believes that a record has x by as much as the share of x in the record's sub-table {promised} the "
            "release."
        ),
        adversary=TAKES_SHARES,
        prior=PRIOR_OF_SUB_TABLE,
        scope="single values",
        directions=UPWARD,
        strength="one stated prior" if assurance == "proved" else "as published",
        limits=tuple(_partition_limits(mechanism, bounds, assurance)),
    )


def _partition_limits(mechanism: Mechanism, bounds: Sequence[Bound], assurance: str) -> Iterator[str]:
    told = sum(tells_composition(table) for table in mechanism.tables)
    known = f" Of {told} of {len(mechanism.tables)} sub-table(s) the matrix itself tells these numbers." if told else ""
    yield (
        "One who knows how many records of a sub-table have each value knows that its records are no independent "
        f"draws, and can exceed the bound, the more so the smaller the sub-table.{known}"
    )
    if assurance == "as-published":
        yield (
            "As published a sub-table may be of any size: in SDR Example 1 one of six records with six values lets "
            "such an adversary reach .9325 where rho2 is 2/3."
        )
    if not mechanism.is_whole:
        yield (
            "A record's sub-table excludes every value that is not in it: there is no local differential privacy, and "
            "a prior other than the sub-table's frequencies is not covered."
        )
    if len(mechanism.domain.parts) > 1:
        yield (
            "A value of one column alone that more of the records have is not protected: a sub-table may hold no other "
            "value of that column, and its number then tells it."
            if assurance == "proved"
            else "Only statements about combinations are bounded, not those about one of these columns alone: a "
            "sub-table may hold one value of a column only, and its number then tells it."
        )
    free = sum(bounds[code].gamma is None for code in {c for t in mechanism.tables for c in t.codes.tolist()})
    if free:
        yield f"{free} value(s) that occur have no bound; they are not protected and can become easier to infer."
    yield (
        "The sub-tables are computed from the table: which values occur is published, and each matrix tells of the "
        "shares in its sub-table, with one sensitive column the largest share of a protected value."
    )
    yield PER_ROW
    yield NOT_OF


@dataclass(frozen=True)
class ResponseClaim:
    """What randomized response limits: which risk, of which columns, to how much."""

    risk: Literal["posterior", "link", "reconstruction"]
    quasi_identifiers: tuple[str, ...]
    sensitive: tuple[str, ...]
    limit: RiskLimit


def state_response_guarantee(claim: ResponseClaim, mechanisms: Sequence[Mechanism]) -> Guarantee:
    """Return the guarantee of randomized response: AD, with what docs/methods/randomized-response.md says of it."""
    adversary = {"posterior": SEES_QUASI_IDENTIFIERS, "link": LINKS, "reconstruction": RECONSTRUCTS}
    return Guarantee(
        sentence=_risk_sentence(claim),
        adversary=adversary[claim.risk],
        prior=OWN_DISTRIBUTION,
        scope="single values",
        directions=UPWARD,
        strength="as published" if claim.risk == "reconstruction" else "this table's own risk",
        limits=tuple(_response_limits(claim, mechanisms)),
    )


def _risk_sentence(claim: ResponseClaim) -> str:
    quasi, value = ", ".join(claim.quasi_identifiers), " / ".join(claim.sensitive)
    what = {
        "posterior": (
            f"For each combination of {quasi} that can be published and each {value} x: who sees that a row is "
            "published with the combination believes that its true value is x by"
        ),
        "link": (
            f"For each record and its {value} x: the expected share of the true value x among rows that are published "
            f"with the same {quasi} as the record (expected rows with x over expected rows), averaged over what the "
            "record is published with, is"
        ),
        "reconstruction": (
            f"For each {quasi} and each {value} x that occur together: that a person with these quasi-identifiers has "
            "x, and that drawing first the true quasi-identifiers and then the true value of its published row gives "
            "these and x, has a probability (AD Eq. (6)) of"
        ),
    }
    return f"{what[claim.risk]} {_risk_limits(claim)}."


def _risk_limits(claim: ResponseClaim) -> str:
    overall, groups = Fraction(claim.limit.limit), claim.limit.groups
    if not groups:
        return f"at most {percent(overall)}"
    own = "; ".join(f"{group.told}: {percent(Fraction(group.limit))}" for group in groups)
    whose = "of the records with x that can be published with it" if claim.risk == "posterior" else "of the record"
    return f"at most the strictest limit {whose} ({own}; all others: {percent(overall)})"


def _response_limits(claim: ResponseClaim, mechanisms: Sequence[Mechanism]) -> Iterator[str]:
    value = " / ".join(claim.sensitive)
    randomized = {name: mechanism for mechanism in mechanisms for name in mechanism.domain.names}
    if claim.sensitive[0] not in randomized:
        yield (
            f"{value} is published untouched: every row shows the true one, and its local epsilon is infinite. Only "
            "the quasi-identifiers beside it are randomized."
        )
    yield (
        f"Whoever knows the table's distribution and a person's true quasi-identifiers guesses the likeliest {value} "
        "there: no mechanism helps against that, and the distribution can be estimated from the release."
    )
    if claim.risk == "reconstruction":
        yield (
            "It bounds no inference: hits by wrongly linked rows are not counted, and guessing the likeliest value "
            "hits more often than drawing one."
        )
    else:
        yield (
            f"Not for one who sees the published {value} of the row too: it is "
            + ("randomized, and tells more." if claim.sensitive[0] in randomized else "the true one.")
        )
    if claim.risk == "link":
        yield (
            "Shares are expected ones, as if the record's own row were one of many: it is always among the rows that "
            "are taken from, and where few others are published alike, hits are more frequent than the limit says."
        )
    if len(claim.sensitive) > 1:
        yield (
            f"The limit is on combinations of {', '.join(claim.sensitive)}: one of these columns by itself has fewer "
            "values, and the risk of a value of it can be larger."
        )
    if fixed := [name for name in claim.quasi_identifiers if name not in randomized]:
        yield f"Published untouched: {', '.join(fixed)}."
    yield (
        "The matrices were computed from the table and tell something of it: the limit holds for this table only. "
        "Their retentions have two significant digits; one record can still decide a digit, and someone who knows all "
        "other records learns from that."
    )
    yield PER_ROW
    yield NOT_OF


def tells_composition(table: SubTable) -> bool:
    """Whether the largest protected share, which the matrix of one column tells, fixes the share of every value."""
    protected = [bound for bound in table.bounds if bound.gamma is not None]
    if len(protected) == len(table.bounds):
        return all(bound.rho1 == Fraction(1, len(protected)) for bound in protected)
    return len(table.bounds) <= 2


def _limits(
    domain: SensitiveDomain,
    bounds: Sequence[Bound],
    matrix: PerturbationMatrix,
    directions: Sequence[Direction],
    computed: Facts,
    scope: Scope,
) -> Iterator[str]:
    if "downward" not in directions:
        yield downward_limit(domain, matrix, bounds)
    if scope == "single values" and len(domain.parts) > 1:
        yield _alone_limit(domain, matrix)
    if computed:
        yield "Someone who knows all other records may learn from what was computed from the table, by that alone."
    yield PER_ROW
    yield NOT_OF
    if any(b.gamma is None for b in bounds):
        yield "Values without a requirement are not protected."


def _alone_limit(domain: SensitiveDomain, matrix: PerturbationMatrix) -> str:
    """Say how far statements about one of several columns can move, which the factors of combinations do not bound."""
    worst = worst_factor(domain, matrix)
    if worst is None:
        return "The factors are those of combinations."
    told = f"{worst.column} = {worst.value!r}"
    text = "The factors are those of combinations. Statements about one column alone are not held to them"
    if worst.largest is None:
        return f"{text}: the odds of {told} are not bounded."
    return f"{text}: their odds change by at most the factor {rounded_up(worst.largest)}, which {told} can reach."


def downward_limit(domain: SensitiveDomain, matrix: PerturbationMatrix, bounds: Sequence[Bound]) -> str:
    """Return what as-published fine-grain perturbation does not keep, with a counter-example where there is one."""
    text = "Upward only: the downward half of FG Theorem 1 does not follow from FG Fig. 3"
    breach = counterexample(matrix, bounds)
    return f"{text}: {breach.told(domain)}." if breach else f"{text}; no breach was found for this matrix."


def _sentence(domain: SensitiveDomain, bounds: Sequence[Bound], scope: Scope, both: bool) -> str:
    what = f"any statement about a record's {domain.name}" if scope == "any predicate" else f"each {domain.name} x"
    first = bounds[0]
    strictest = min((b.gamma for b in bounds if b.gamma is not None), default=None)
    if strictest is None:
        return f"Nothing is required of any {domain.name}, and nothing is guaranteed."
    if len(set(bounds)) == 1 and first.rho1 is not None and first.rho2 is not None:
        rho1, rho2 = percent(first.rho1), percent(first.rho2)
        back = f", and of at least {rho2} stays at least {rho1}" if both else ""
        return f"For {what}: a prior belief of at most {rho1} stays at most {rho2} after seeing the release{back}."
    if len(set(bounds)) == 1 or scope == "any predicate":
        way = "change by at most the factor" if both else "rise by at most the factor"
        return f"For {what}: seeing the release lets its odds {way} {rounded_up(strictest)}."
    back = ", and one of at least rho2_x stays at least rho1_x" if both else ""
    return (
        f"For {what} with a requirement (listed with the matrix): a prior belief of at most rho1_x stays at most "
        f"rho2_x after seeing the release{back}; its odds {'change' if both else 'rise'} by at most the factor gamma_x."
    )


def percent(x: Fraction) -> str:
    """Return a probability in percent, exactly: as a decimal where that is short, else as a fraction.

    >>> percent(Fraction(3, 10)), percent(Fraction(1, 7))
    ('30%', '1/7')
    """
    written = f"{float(100 * x):.10g}"
    return f"{written}%" if Fraction(written) == 100 * x else str(x)


def rounded_up(x: Fraction) -> str:
    """Return a number with five digits, never below it: a stated bound must not be stronger than the true one.

    >>> rounded_up(Fraction(3)), rounded_up(Fraction(10, 3))
    ('3', '3.3334')
    """
    step = Fraction(10) ** (math.floor(math.log10(x)) - 4)
    return f"{float(math.ceil(x / step) * step):.10g}"


@dataclass(frozen=True)
class Counterexample:
    """A prior on two values and a published value after which the odds of `code` leave the bound."""

    code: int
    rival: int
    prior: Fraction
    posterior: Fraction
    limit: Fraction

    def told(self, domain: SensitiveDomain) -> str:
        """Return it in a sentence."""
        value, rival = domain.labels[self.code], domain.labels[self.rival]
        return (
            f"with a prior of {_share(self.prior)} for {value!r} and {_share(1 - self.prior)} for {rival!r}, "
            f"a published {rival!r} lowers the posterior of {value!r} to {_share(self.posterior)}, "
            f"below rho1 = {_share(self.limit)}"
        )


def counterexample(matrix: PerturbationMatrix, bounds: Sequence[Bound]) -> Counterexample | None:
    """Return the worst downward breach among values stated with (rho1, rho2), or None if there is none.

    The prior puts rho2_i on x_i and the rest on the least noisy other value x_k; x_k is published. FG Example 1: SARS
    1/7, another value 6/7; the posterior of SARS is 1/13, below its rho1 of 1/10.
    """
    found: Counterexample | None = None
    for violation in violations(matrix, bounds, ("downward",)):
        bound, i = bounds[violation.code], violation.code
        if bound.rho1 is None or bound.rho2 is None:
            continue
        k = matrix.quietest_except(i)
        stays = bound.rho2 * int(matrix.noise[i])
        posterior = stays / (stays + (1 - bound.rho2) * matrix.diagonal_weight(k))
        candidate = Counterexample(i, k, bound.rho2, posterior, bound.rho1)
        if found is None or posterior / bound.rho1 < found.posterior / found.limit:
            found = candidate
    return found


def _share(x: Fraction) -> str:
    return f"{float(x):.4g}"
