"""One requirement in the words of every method.

What is translated is one number, the `limit` on the belief in a person's value:

    l, r              limit = 1/l, 1/r
    risk_limit        limit
    rho1, rho2        limit = rho2
    gamma, epsilon,   limit = gamma f / (1 - f + gamma f)        gamma: the strictest; f: the largest share in the table
    tolerance, values

and back: l = r = ceil(1/limit); rho2 = limit, with f as rho1. The promises are *not* the same: each is about another
attacker, and says so (`promise`). A comparison holds the number alike, and measures all by one attacker.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sfumato.auditor.compare.bounds import OWN_BOUND, in_words
from sfumato.errors import PolicyError
from sfumato.methods import METHODS, Method, named
from sfumato.publisher.policy import Policy
from sfumato.values.requirement import (
    Amplification,
    Diversity,
    Requirement,
    RhoPrivacy,
    RiskLimit,
    Robustness,
    exact,
    posterior_of_gamma,
)

GENERALIZATION = "generalization"
POINTS = 24  # of the grid of a parameter
ROOMY = 10
"""Times r: the records that a combination of known columns has on average, at least, to be taken into one set."""


@dataclass(frozen=True)
class Table:
    largest_share: Fraction  # of a sensitive value
    largest_belief: Fraction  # the largest share of a value among people with the same quasi-identifiers
    values: int  # that occur
    rows: int
    sizes: dict[str, int]  # values of each quasi-identifier
    combinations: Callable[[tuple[str, ...]], int]  # of some of these that occur


@dataclass(frozen=True)
class Translated:
    name: str  # of the method; with its scope, where it has several
    method: dict[str, Any]  # the policy's section; without a name: full-domain generalization
    requirement: dict[str, Any]
    asked: str  # the requirement in short
    promise: str  # in words: what is bounded, against whom
    own: bool = False  # whether it is what the policy itself asks for
    bound: str = ""  # the requirement for a sentence, beside what the policy asks for

    @property
    def is_baseline(self) -> bool:
        return not self.method

    @property
    def kind(self) -> str:
        """The method by the name that a policy and a command have for it."""
        return str(self.method.get("name", self.name))

    def policy(self, policy: Policy) -> Policy:
        """Return the policy that asks for it, without a record key; raise `PolicyError` if it does not go together."""
        is_whole = self.own and (policy.apart or not policy.record_key)
        return policy.unkeyed() if is_whole else policy.changed(self.method, self.requirement)


def limit_of(required: Requirement, largest: Fraction, gammas: Sequence[Fraction]) -> Fraction:
    """Return the one number; `gammas` are those of the values, where the requirement is about values.

    >>> limit_of(Diversity(3), Fraction(1, 5), ()), limit_of(RhoPrivacy("1/5", "1/2"), Fraction(1, 4), ())
    (Fraction(1, 3), Fraction(1, 2))
    """
    match required:
        case Diversity():
            return required.at_most
        case Robustness():
            return Fraction(1, required.r)
        case RiskLimit():
            return exact(required.limit)
        case RhoPrivacy():
            return exact(required.rho2)
    if not gammas:
        raise PolicyError(
            "The requirement protects no value: there is nothing that other methods could be held to.",
            "State a requirement that binds, such as rho1 and rho2, or l.",
        )
    return posterior_of_gamma(min(gammas), largest)


def diversity(limit: Fraction) -> int:
    """Return the least l, 2 at least, with 1/l within the limit.

    >>> diversity(Fraction(1, 3)), diversity(Fraction(2, 5)), diversity(Fraction(7, 10))
    (3, 3, 2)
    """
    return max(2, math.ceil(1 / limit))


def known_columns(table: Table, r: int) -> tuple[str, ...]:
    """Return the quasi-identifiers that robust-anatomy is held against where the policy names no attribute sets.

    One set, taken from the column with the fewest values up, as long as a combination that occurs has 10 r records on
    average: groups are made inside combinations, and need r records of different values there. One column at least.
    """
    chosen: tuple[str, ...] = ()
    for name in sorted(table.sizes, key=lambda name: table.sizes[name]):
        if chosen and table.combinations((*chosen, name)) * ROOMY * r > table.rows:
            break
        chosen = (*chosen, name)
    return chosen


# --- the table of rules -----------------------------------------------------------------------------------------------


def translations(policy: Policy, table: Table, limit: Fraction) -> tuple[Translated, ...]:
    """Return the requirement for every method; the policy's own as it stands there."""
    own = own_name(policy)
    known = policy.method.known_sets or (known_columns(table, diversity(limit)),)
    method, rule = (part.model_dump(exclude_unset=True) for part in (policy.method, policy.requirement_rule))
    found: list[Translated] = []
    if policy.apart:  # columns have methods of their own, which no one method and requirement states
        own_rules = ((name, stated.model_dump(exclude_unset=True)) for name, stated in policy.own_requirements)
        told = "; ".join(f"{name}: {_short(stated)}" for name, stated in own_rules)
        found.append(Translated(own, method, rule, told, policy.method.promise, True, OWN_BOUND))
    for each in METHODS:
        for options in each.compared(known):
            name, promise, asked = each.label(options), each.promised(options), _rule(policy, each, table, limit)
            if name == own:
                found.append(Translated(name, method, rule, _short(rule), promise, True, OWN_BOUND))
            else:
                bound = in_words(policy, asked, options.get("attribute_sets", ()))
                found.append(
                    Translated(name, {"name": each.name, **options}, asked, _short(asked), promise, bound=bound)
                )
    return *found, generalized(diversity(limit))


def own_name(policy: Policy) -> str:
    return policy.method.label(policy.method.model_dump())


def _rule(policy: Policy, method: type[Method], table: Table, limit: Fraction) -> dict[str, Any]:
    """Return the limit as the method takes it.

    Of a method for values that is the policy's own bound, where it takes it; else rho2 = limit for the largest share.
    """
    if RiskLimit in method.takes:
        return {"risk_limit": str(limit)}
    if Diversity in method.takes:
        return {"l": diversity(limit)}
    if Robustness in method.takes:
        return {"r": diversity(limit)}
    rule = policy.requirement_rule
    plain = rule.rho2 is not None and not rule.values
    if RhoPrivacy in policy.method.takes and (Amplification in method.takes or plain):
        return rule.model_dump(exclude_unset=True)
    return {"rho1": str(table.largest_share), "rho2": str(limit)}


def generalized(l: float) -> Translated:  # noqa: E741
    promise = (
        "No belief is bounded: the entropy of the values in every class is at least ln l, and one value may have far "
        "more than 1/l of a class."
    )
    bound = f"entropy l = {l:.4g}, which bounds no belief"
    return Translated(GENERALIZATION, {}, {"l": l}, f"entropy l = {l:.4g}", promise, bound=bound)


def _short(rule: dict[str, Any]) -> str:
    """Return a requirement in a few characters.

    >>> _short({"rho1": "1/5", "rho2": 0.5}), _short({"risk_limit": "1/3"}), _short({"l": 3})
    ('rho 1/5 to 1/2', 'risk 1/3', 'l = 3')
    """
    plain = {name: _number(value) for name, value in rule.items() if isinstance(value, int | float | str)}
    overall = [f"rho {plain.pop('rho1')} to {plain.pop('rho2')}"] if "rho2" in plain else []
    overall += [f"risk {plain.pop('risk_limit')}"] if "risk_limit" in plain else []
    more = [f"{len(rule[name])} {name}" for name in ("values", "groups") if rule.get(name)]
    return ", ".join([*overall, *(f"{name} = {value}" for name, value in plain.items()), *more])


def _number(value: float | str) -> str:
    try:
        number = exact(value)
    except PolicyError:  # rho1 = "observed"
        return str(value)
    return str(number) if number.denominator < 100 else f"{float(number):.4g}"


# --- stricter and looser ----------------------------------------------------------------------------------------------


def grid(like: Translated, table: Table) -> tuple[Translated, ...]:
    """Return the method with other parameters, all else alike: from the strictest to the loosest."""
    steps = [Fraction(k, POINTS) for k in range(1, POINTS)]
    if like.is_baseline:
        return tuple(generalized(1 + (table.values - 1) * float(step)) for step in reversed(steps))
    taken, share = named(like.method["name"]).takes, table.largest_share
    rules: list[dict[str, Any]]
    if Amplification in taken:  # gamma - 1 from 0.05 to 1000, in equal ratios
        rules = [{"gamma": f"{1 + 0.05 * 20_000 ** (k / (POINTS - 1)):.4g}"} for k in range(POINTS)]
    elif RhoPrivacy in taken:
        rules = [{"rho1": str(share), "rho2": str(share + (1 - share) * step)} for step in steps]
    elif RiskLimit in taken:  # a limit above the risk of the table itself is none
        rules = [{"risk_limit": str(share + (table.largest_belief - share) * step)} for step in steps]
    else:
        name = "l" if Diversity in taken else "r"
        rules = [{name: number} for number in range(min(table.values, POINTS), 1, -1)]
    return tuple(Translated(like.name, like.method, rule, _short(rule), like.promise) for rule in rules)
