"""Bounds on odds, by one matrix for all rows: uniform and fine-grain perturbation.

    upward    max_y P[y,i] / min_{k != i} P[y,k] <= gamma_i     a prior of at most rho1_i stays at most rho2_i
    downward  max_y max_{k != i} P[y,k] / P[y,i] <= gamma_i     a prior of at least rho2_i stays at least rho1_i

Of a set A of values, both directions are those of max_y max_{i in A} P[y,i] / min_{k not in A} P[y,k] (`Matrix.raised`)
and of its complement.

Both are equivalences: a matrix that fails one has a prior for which the bound is broken (`counterexample`). FG
Theorem 1 claims both from the first alone; that is not so.

Two releases of the same people: a person has the values (x_1, x_2), and (y_1, y_2) are published with probability
K(y | x). Over all priors on such pairs, the odds of a statement about the person change by at most

    max_y  max_{x for which it holds} K(y | x)  /  min_{x for which it does not} K(y | x)

and by that much for some prior.

    fresh noise   K(y | a, b) = P_1[y_1, a] P_2[y_2, b]
        The odds of "x_1 = i" change by its factor in the first release, times the largest ratio of two entries of a row
        of the second matrix. That is its own factor squared only where the matrix is uniform; or, at most, for someone
        who knows that the value stayed.

    record key    K(y | a, a) = P[y_1, a] if y_1 = y_2, else 0;   K(y | a, b) = P[y_1, a] P[y_2, b] for different a, b
        Values that stay are published alike. Two equal published values raise the odds of a value that stays against
        two that follow each other, by up to `equal_twice`. Two different ones exclude every value that never changes.

So a record key tells nothing more only to someone for whom how long a value lasts says nothing about it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.claims.claim import (
    BOTH,
    NOT_OF,
    PER_ROW,
    Check,
    Claim,
    Guarantee,
    Plain,
    Published,
    Scope,
    Shape,
    Strength,
    as_stated,
    outcome,
    percent,
    rounded_up,
)
from sfumato.claims.plain import attacker_of_noise, gaps_of_noise, promise_on_odds
from sfumato.claims.single_columns import worst_factor
from sfumato.claims.why import Step, of_odds
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.bound import SetBound, strictest_gamma
from sfumato.values.computed import OBSERVED_RHO1, Facts
from sfumato.values.matrix.base import Direction, Matrix
from sfumato.values.matrix.retention import amplification
from sfumato.values.mechanism import Bound, Mechanism, SubTable

TIGHT = Fraction(1, 10**9)
"""A constraint binds when its factor is within this relative distance of gamma (the integers round below it)."""
MOST_TOLD = 3
"""Sets that a sentence tells by themselves; of more it says where they are listed."""

PRIOR = "Any prior on the record's value, also one that depends on its quasi-identifiers."
KNOWS_OTHERS = (
    "Knows the matrix, all quasi-identifiers, who is in the table and the values of any other records; "
    "holds records to be independent; sees the release once."
)
TAKES_COMPUTED = (
    "Knows the matrix, all quasi-identifiers and who is in the table; holds records to be independent, and what "
    "was computed from the table to tell nothing of a single record; sees the release once."
)


def adversary_of_noise(computed: Facts) -> str:
    """Return against whom a bound on odds is promised: who may know all other records only if nothing was computed."""
    return TAKES_COMPUTED if computed else KNOWS_OTHERS


@dataclass(frozen=True)
class OddsClaim(Claim):
    """By how much the odds of statements about a record's value may change, in which directions."""

    scope: Scope = "single values"
    directions: tuple[Direction, ...] = BOTH
    discloses_frequencies: bool = False
    as_published: bool = False
    """Whether one direction is all that holds of what a paper claims, rather than all that is asked for."""

    rests_on = "the method, the bounds and the matrix"
    rechecked = "`sfumato verify .` re-checks the guarantee on the integer matrix of the manifest."

    def discloses(self) -> bool:
        return self.discloses_frequencies

    def facts(self) -> Facts:
        return (OBSERVED_RHO1,) if self.discloses_frequencies else ()

    def guarantee(self, shape: Shape) -> Guarantee:
        """Return the guarantee of one matrix for all rows."""
        domain, table, computed = shape.mechanisms[0].domain, shape.mechanisms[0].tables[0], shape.computed
        proved: Strength = "any prior, computed from this table" if computed else "any prior"
        return Guarantee(
            sentence=self._sentence(domain, table),
            adversary=adversary_of_noise(computed),
            prior=PRIOR,
            scope=self.scope,
            directions=self.directions,
            strength="as published" if self.as_published and self.directions != BOTH else proved,
            limits=tuple(self._limits(domain, table, computed)),
        )

    def plain(self, shape: Shape) -> Plain:
        """Return how sure someone can become, of any statement or of the value with the strictest bound."""
        domain, table = shape.mechanisms[0].domain, shape.mechanisms[0].tables[0]
        return Plain(
            promise_on_odds(domain, table, self.scope, self.directions, self.discloses_frequencies),
            attacker_of_noise(shape.computed),
            tuple(gaps_of_noise(domain, table, self.scope, self.directions, shape.computed)),
        )

    def why(self, shape: Shape) -> Iterator[Step]:
        return of_odds(shape.mechanisms[0], self.directions, self.scope == "any predicate")

    def _sentence(self, domain: SensitiveDomain, table: SubTable) -> str:
        """Return what is promised of single values, then of sets; a promise about any statement holds sets, too."""
        if self.scope == "any predicate" or not table.sets:
            return self._of_values(domain, table)
        of_values = [self._of_values(domain, table)] if strictest_gamma(table.bounds) is not None else []
        return " ".join([*of_values, *self._of_sets(domain, table.sets)])

    def _of_values(self, domain: SensitiveDomain, table: SubTable) -> str:
        scope, both, bounds = self.scope, "downward" in self.directions, table.bounds
        what = f"any statement about a record's {domain.name}" if scope == "any predicate" else f"each {domain.name} x"
        first = bounds[0]
        strictest = strictest_gamma(bounds, table.sets if scope == "any predicate" else ())
        if strictest is None:
            return f"Nothing is required of any {domain.name}, and nothing is guaranteed."
        is_one = len(set(bounds)) == 1 and first.gamma == strictest  # else a set is stricter than all values
        if is_one and first.rho1 is not None and first.rho2 is not None:
            return f"For {what}: {self._kept(first)}."
        if is_one or scope == "any predicate":
            return f"For {what}: seeing the release lets its odds {self._way} {rounded_up(strictest)}."
        if not self.discloses_frequencies and all(bound.rho1 is None for bound in bounds):
            return (
                f"For {what} with a requirement (listed with the matrix): seeing the release lets its odds {self._way} "
                "gamma_x."
            )
        back = ", and one of at least rho2_x stays at least rho1_x" if both else ""
        return (
            f"For {what} with a requirement (listed with the matrix): a prior belief of at most rho1_x stays at most "
            f"rho2_x after seeing the release{back}; its odds {'change' if both else 'rise'} by at most the factor "
            "gamma_x."
        )

    def _of_sets(self, domain: SensitiveDomain, sets: Sequence[SetBound]) -> Iterator[str]:
        """Yield what is promised of sets of values, each told by itself where they are few."""
        if len(sets) <= MOST_TOLD:
            for each in sets:
                yield f"That a record's {each.told(domain)} ({len(each.codes):,} values): {self._kept(each.bound)}."
            return
        yield (
            f"For each of {len(sets):,} sets of values (listed with the matrix), that a record's {domain.name} is one "
            f"of the set: seeing the release lets its odds {self._way} gamma of the set, which keeps its rho1 and rho2 "
            "where it states them."
        )

    def _kept(self, bound: Bound) -> str:
        """Return how far the belief in one statement moves."""
        if bound.rho1 is None or bound.rho2 is None:
            assert bound.gamma is not None
            return f"seeing the release lets its odds {self._way} {rounded_up(bound.gamma)}"
        rho1, rho2 = percent(bound.rho1), percent(bound.rho2)
        back = f", and of at least {rho2} stays at least {rho1}" if "downward" in self.directions else ""
        return f"a prior belief of at most {rho1} stays at most {rho2} after seeing the release{back}"

    @property
    def _way(self) -> str:
        return "change by at most the factor" if "downward" in self.directions else "rise by at most the factor"

    def _limits(self, domain: SensitiveDomain, table: SubTable, computed: Facts) -> Iterator[str]:
        if "downward" not in self.directions:
            yield self.downward_limit(domain, table)
        if self.scope == "single values" and self.directions == BOTH and domain.size > 2:
            other = "Other statements" if table.sets else "Statements"
            yield (
                f"{other} that join several values are not held to the factor of any of them: their odds change by "
                f"at most {told_factor(table.matrix.largest_ratio)}."
            )
        if self.scope == "single values" and len(domain.parts) > 1:
            yield _alone_limit(domain, table.matrix)
        if computed:
            yield "Someone who knows all other records may learn from what was computed from the table, by that alone."
        yield PER_ROW
        yield NOT_OF
        if self.scope == "single values":
            yield from _unprotected(domain, table)

    def downward_limit(self, domain: SensitiveDomain, table: SubTable) -> str:
        """Return what is not kept of beliefs that fall."""
        if self.as_published:
            return downward_limit(domain, table.matrix, table.bounds)
        return f"Upward only: seeing the release may lower the belief in a {domain.name} by any factor."

    def second_release(self, shape: Shape, *, keyed: bool) -> str:
        return second_of(shape.mechanisms, self.directions, keyed)

    def second_releases(self, shape: Shape) -> set[str]:
        """Return both sentences; where nothing is bounded there is no factor to state."""
        return super().second_releases(shape) if bounds_some(shape.mechanisms[0]) else set()

    def fits(self, published: Published) -> dict[str, bool]:
        """Return whether there is one matrix for all rows."""
        return {
            "method": len(published.mechanisms) == 1 and published.mechanisms[0].is_whole,
            "discloses_frequencies": self.discloses_frequencies or OBSERVED_RHO1 not in published.computed,
        }

    def checks(self, published: Published) -> Iterator[Check]:
        return bounds_checks(self, published, self.directions)

    def proofs(self, mechanism: Mechanism) -> Iterator[Check]:
        """Yield what the integers of a mechanism prove of the claim, whatever else is published."""
        yield _consistent(mechanism, one_rho2=False)
        yield from _proved(mechanism, self.directions, self.scope)


# --- in words ---------------------------------------------------------------------------------------------------------


def _alone_limit(domain: SensitiveDomain, matrix: Matrix) -> str:
    """Say how far statements about one of several columns can move, which the factors of combinations do not bound."""
    worst = worst_factor(domain, matrix)
    if worst is None:
        return "The factors are those of combinations."
    told = f"{worst.column} = {worst.value!r}"
    text = "The factors are those of combinations. Statements about one column alone are not held to them"
    if worst.largest is None:
        return f"{text}: the odds of {told} are not bounded."
    return f"{text}: their odds change by at most the factor {rounded_up(worst.largest)}, which {told} can reach."


def downward_limit(domain: SensitiveDomain, matrix: Matrix, bounds: Sequence[Bound]) -> str:
    """Return what as-published fine-grain perturbation does not keep, with a counter-example where there is one."""
    text = "Upward only: the downward half of FG Theorem 1 does not follow from FG Fig. 3"
    breach = counterexample(matrix, bounds)
    return f"{text}: {breach.told(domain)}." if breach else f"{text}; no breach was found for this matrix."


def _unprotected(domain: SensitiveDomain, table: SubTable) -> Iterator[str]:
    """Say which values nothing is promised of, and of which only that it is one of a set."""
    in_sets = {code for each in table.sets for code in each.codes}
    free = [code for code, bound in enumerate(table.bounds) if bound.gamma is None]
    if only := [domain.labels[code] for code in free if code in in_sets]:
        more = f" and {len(only) - MOST_TOLD:,} more" if len(only) > MOST_TOLD else ""
        yield (
            f"Only the sets are protected, not the single values in them: which value of a set a record has "
            f"({', '.join(map(repr, only[:MOST_TOLD]))}{more}) has no requirement of its own."
        )
    if len(only) < len(free):
        yield "Values without a requirement are not protected."


# --- in exact integers ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Violation:
    """A value whose odds can change by more than its gamma. `factor` None: without bound."""

    code: int
    direction: Direction
    factor: Fraction | None
    gamma: Fraction


def violations(matrix: Matrix, bounds: Sequence[Bound], directions: Sequence[Direction]) -> Iterator[Violation]:
    """Yield every value and direction in which the integer matrix breaks its bound, exactly."""
    for direction in directions if matrix.size > 1 else ():
        for code, bound in enumerate(bounds):
            if bound.gamma is not None:
                factor = getattr(matrix, direction)(code)
                if factor is None or factor > bound.gamma:
                    yield Violation(code, direction, factor, bound.gamma)


def broken_sets(
    matrix: Matrix, sets: Sequence[SetBound], directions: Sequence[Direction]
) -> Iterator[tuple[SetBound, Direction, Fraction | None]]:
    """Yield every set and direction in which the integer matrix breaks its bound, with the factor; None: unbounded."""
    for direction in directions:
        for each in sets:
            factor = set_factor(matrix, each, direction)
            if each.bound.gamma is not None and (factor is None or factor > each.bound.gamma):
                yield each, direction, factor


def set_factor(matrix: Matrix, each: SetBound, direction: Direction) -> Fraction | None:
    """Return the largest factor by which any published value can raise, or lower, the odds of a set of values."""
    inside = each.inside(matrix.size)
    return matrix.raised(inside if direction == "upward" else ~inside)


def keeps(
    matrix: Matrix, bounds: Sequence[Bound], directions: Sequence[Direction], sets: Sequence[SetBound] = ()
) -> bool:
    """Whether the integer matrix keeps all bounds, of values and of sets, exactly."""
    broken = next(violations(matrix, bounds, directions), None)
    return broken is None and next(broken_sets(matrix, sets, directions), None) is None


def exceeds_any_predicate(matrix: Matrix, bounds: Sequence[Bound], sets: Sequence[SetBound] = ()) -> bool:
    """Whether the odds of some predicate can change by more than the strictest gamma, exactly.

    They change by at most the largest ratio of two entries of a row of the matrix, and by that much for some prior.
    """
    strictest = strictest_gamma(bounds, sets)
    ratio = matrix.largest_ratio
    return strictest is not None and (ratio is None or ratio > strictest)


@dataclass(frozen=True)
class Binding:
    """A constraint without slack: raising the retention of `value` or of `against` would break it."""

    value: str
    direction: str
    against: str
    gamma: float


def bindings(mechanism: Mechanism, directions: Sequence[Direction]) -> Iterator[Binding]:
    """Yield the constraints that hold with equality, up to the integers' rounding; for one matrix of all rows."""
    if not mechanism.is_whole or mechanism.domain.size < 2:
        return
    matrix, labels = mechanism.matrix, mechanism.domain.labels
    for direction in directions:
        for code, bound in enumerate(mechanism.bounds):
            if _is_tight(bound, getattr(matrix, direction)(code)):
                rival = labels[matrix.worst_case(code, direction)[1]]
                yield Binding(labels[code], direction, rival, float(bound.gamma or 0))
        for each in mechanism.sets:
            if _is_tight(each.bound, set_factor(matrix, each, direction)):
                yield Binding(each.told(mechanism.domain), direction, "all other values", float(each.bound.gamma or 0))


def _is_tight(bound: Bound, factor: Fraction | None) -> bool:
    return bound.gamma is not None and factor is not None and factor >= bound.gamma * (1 - TIGHT)


def bounds_some(mechanism: Mechanism) -> bool:
    """Whether some value, of the first sub-table where there are several, has a bound, or some set."""
    return strictest_gamma(mechanism.tables[0].bounds, mechanism.sets) is not None


def bounds_checks(
    claim: Claim, published: Published, directions: Sequence[Direction], *, one_rho2: bool = False
) -> Iterator[Check]:
    """Yield the checks of bounds, of the statement, and of the matrices against the bounds."""
    mechanism = published.mechanisms[0]
    yield _consistent(mechanism, one_rho2)
    yield as_stated(claim, published)
    yield from _proved(mechanism, directions, published.guarantee.scope)


def _proved(mechanism: Mechanism, directions: Sequence[Direction], scope: Scope) -> Iterator[Check]:
    """Yield the checks of a mechanism's matrices against its bounds."""
    for direction in directions:
        if not mechanism.sets or strictest_gamma(mechanism.bounds) is not None:
            yield _kept(mechanism, direction)
        if mechanism.sets:
            yield _sets_kept(mechanism, direction)
    if scope == "any predicate":
        yield _any_predicate(mechanism)


def _consistent(mechanism: Mechanism, one_rho2: bool) -> Check:
    """Check that each gamma is what its rho1 and rho2 give; `one_rho2`: that all have both, and the same rho2."""
    stated = [*(bound for table in mechanism.tables for bound in table.bounds), *(s.bound for s in mechanism.sets)]
    bounds = {bound for bound in stated if bound.gamma is not None}
    wrong = [bound for bound in bounds if not follows(bound) or (one_rho2 and bound.rho1 is None)]
    one = not one_rho2 or len({bound.rho2 for bound in bounds}) == 1
    return outcome(
        "bounds",
        one and not wrong,
        "Every gamma is what its rho1 and rho2 give.",
        f"Gamma is not what rho1 and rho2 give, in {len(wrong)} bound(s)." if wrong else "There are several rho2.",
    )


def follows(bound: Bound) -> bool:
    """Whether gamma is what rho1 and rho2 give, where the bound is stated with them."""
    if bound.rho1 is None or bound.rho2 is None:
        return bound.rho1 is bound.rho2
    return 0 < bound.rho1 < bound.rho2 < 1 and bound.gamma == amplification(bound.rho1, bound.rho2)


def _kept(mechanism: Mechanism, direction: Direction) -> Check:
    """Check that the bound of every value of every sub-table holds on its integers."""
    required, broken = set(), []
    for table in mechanism.tables:
        codes = table.codes.tolist()
        required |= {code for code, bound in zip(codes, table.bounds, strict=True) if bound.gamma is not None}
        broken += [codes[v.code] for v in violations(table.matrix, table.bounds, (direction,))]
    return outcome(
        f"guarantee, {direction}",
        bool(required) and not broken,
        f"The bound holds for all {len(required)} values that have one, in exact integers.",
        f"The bound is broken for {', '.join(repr(mechanism.domain.labels[c]) for c in broken[:5])}."
        if required
        else "No value has a bound: nothing is guaranteed.",
    )


def _sets_kept(mechanism: Mechanism, direction: Direction) -> Check:
    """Check that the bound of every set holds on the integers."""
    sets = mechanism.sets
    broken = [each.told(mechanism.domain) for each, _, _ in broken_sets(mechanism.matrix, sets, (direction,))]
    return outcome(
        f"guarantee of sets, {direction}",
        not broken,
        f"The bound holds for {len(sets)} set(s) of values, in exact integers.",
        f"The bound is broken that {'; that '.join(broken[:3])}.",
    )


def _any_predicate(mechanism: Mechanism) -> Check:
    table = mechanism.tables[0]
    return outcome(
        "guarantee, any predicate",
        mechanism.is_whole and not exceeds_any_predicate(table.matrix, table.bounds, table.sets),
        "No two entries of a row of the matrix differ by more than the strictest factor, in exact integers.",
        "The odds of some statement can change by more than the strictest factor.",
    )


@dataclass(frozen=True)
class Counterexample:
    """A prior on two values and a published value after which the odds of `code` leave the bound."""

    code: int
    rival: int
    published: int
    prior: Fraction
    posterior: Fraction
    limit: Fraction

    def told(self, domain: SensitiveDomain) -> str:
        """Return it in a sentence."""
        value, rival, published = (domain.labels[code] for code in (self.code, self.rival, self.published))
        return (
            f"with a prior of {_share(self.prior)} for {value!r} and {_share(1 - self.prior)} for {rival!r}, "
            f"a published {published!r} lowers the posterior of {value!r} to {_share(self.posterior)}, "
            f"below rho1 = {_share(self.limit)}"
        )


def counterexample(matrix: Matrix, bounds: Sequence[Bound]) -> Counterexample | None:
    """Return the worst downward breach among values stated with (rho1, rho2), or None if there is none.

    The prior puts rho2_i on x_i and the rest on its worst rival. FG Example 1: SARS 1/7, another value 6/7; the
    posterior of SARS is 1/13, below its rho1 of 1/10.
    """
    found: Counterexample | None = None
    for violation in violations(matrix, bounds, ("downward",)):
        bound, i = bounds[violation.code], violation.code
        if bound.rho1 is None or bound.rho2 is None:
            continue
        published, k = matrix.worst_case(i, "downward")
        stays = bound.rho2 * matrix.weight(published, i)
        posterior = stays / (stays + (1 - bound.rho2) * matrix.weight(published, k))
        candidate = Counterexample(i, k, published, bound.rho2, posterior, bound.rho1)
        if found is None or posterior / bound.rho1 < found.posterior / found.limit:
            found = candidate
    return found


def _share(x: Fraction) -> str:
    return f"{float(x):.4g}"


# --- two releases -----------------------------------------------------------------------------------------------------


def equal_twice(matrix: Matrix) -> Fraction | None:
    """Return how much two equal published values raise the odds of a value that stays, with a record key; None: no end.

        max_i max_y  P[y, i] / (the product of the two smallest entries of row y)

    The value i that stays is published as (y, y) with P[y, i], two that follow each other with P[y, k] P[y, b].
    Uniform: gamma (m - 1 + gamma) from three values on.

    >>> from sfumato.values.matrix.retention import PerturbationMatrix
    >>> round(float(equal_twice(PerturbationMatrix.from_retention([2 / 14] * 12))), 6)
    42.0
    """
    return largest(matrix.equal_twice(code) for code in range(matrix.size))


def own_factor(matrix: Matrix, code: int, directions: Iterable[Direction]) -> Fraction | None:
    """Return by how much one release changes the odds of a value; None: without bound."""
    return largest(getattr(matrix, direction)(code) for direction in directions)


def with_fresh_noise(own: Fraction | None, other: Matrix, releases: int = 2) -> Fraction | None:
    """Return what becomes of a value's own factor with so many releases in all, the others by this matrix.

    own factor * (the largest ratio of two entries of a row of the other matrix)^(releases - 1)
    """
    ratio = other.largest_ratio
    return None if own is None or ratio is None else own * ratio ** (releases - 1)


def largest(factors: Iterable[Fraction | None]) -> Fraction | None:
    """Return the largest factor, 1 of none; None: one is without bound."""
    found = list(factors)
    return None if None in found else max((factor for factor in found if factor is not None), default=Fraction(1))


def told_factor(factor: Fraction | None) -> str:
    """Return a factor in words, never below it."""
    return "any factor" if factor is None else f"the factor {rounded_up(factor)}"


def assumed(mechanisms: Sequence[Mechanism]) -> str:
    """Return what is assumed of every release with a record key, with what it costs where it is not so."""
    worst = largest(equal_twice(mechanism.matrix) for mechanism in mechanisms)
    alone = " of one column" if len(mechanisms) > 1 else ""
    return (
        "ASSUMED, NOT PROVED: that how long a value lasts says nothing about it. Where some values last "
        f"longer, equal published values{alone} in two releases raise their odds by up to {told_factor(worst)}, and "
        "different ones exclude values that never change."
    )


def second_of(mechanisms: Sequence[Mechanism], directions: Sequence[Direction], keyed: bool) -> str:
    """Return what a second release tells of values that were perturbed: by one matrix, or in sub-tables."""
    if keyed:
        return (
            "Records keep their draws in later releases of the same series with the same key file, domain and matrix. "
            f"{assumed(mechanisms)} With another matrix or domain fresh noise is drawn, and the two add up: the odds "
            "of a value can change by its own factor times the largest ratio of the other release."
        )
    if mechanisms[0].label:
        return (
            "The key was discarded: a second release of the same people deals and draws anew. Together two releases "
            "tell more than both alone: a record has one of the values that both its sub-tables hold, and the factors "
            "by which the odds can rise are multiplied. No bound is promised for the two together."
        )
    only = mechanisms[0].tables[0]  # it may lack values of the domain that do not occur
    if (strictest := strictest_gamma(only.bounds)) == strictest_gamma(only.bounds, only.sets):
        code = next(code for code, bound in enumerate(only.bounds) if bound.gamma == strictest)
        what, once = "value", own_factor(only.matrix, code, directions)
    else:
        strictest_set = min(only.sets, key=lambda each: each.bound.gamma or 0)
        what, once = "set", largest(set_factor(only.matrix, strictest_set, direction) for direction in directions)
    return (
        "The key was discarded: a second release of the same people draws fresh noise, and the two add up. The odds of "
        f"the {what} with the strictest bound can {'change' if 'downward' in directions else 'rise'} by up to "
        f"{told_factor(once)} in one release, and by up to {told_factor(with_fresh_noise(once, only.matrix))} in two "
        "with this matrix: its own factor times the largest ratio of the other release."
    )
