"""The bound with which a method is asked, for a sentence: what it says of a belief, and what the policy asks beside it.

Methods whose requirement is not the policy's own may be asked for less: r = 2 holds every belief to 1/2, also that in a
value which the policy holds to 1/4. Whoever takes such a method must read that where it is recommended.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from sfumato.publisher.policy import Policy
from sfumato.publisher.policy_rules import GroupRule, ValueRule
from sfumato.show.words import named, percent
from sfumato.values.requirement import exact

OWN_BOUND = "your policy's bound"
MOST_STRICTER = 2  # different bounds of the policy that are told


def in_words(policy: Policy, rule: Mapping[str, Any], known: Sequence[Sequence[str]]) -> str:
    """Return a requirement in words; `known`: the sets of columns that the bound is held against, where it has some."""
    if rule == policy.requirement_rule.model_dump(exclude_unset=True):
        return OWN_BOUND
    stated, at_most = _stated(rule)
    beside = "; ".join([stated, *_stricter(policy, at_most)])
    against = f", against those who know {', or '.join(map(named, known))}" if known else ""
    return f"{_short(rule)} ({beside}){against}"


def _short(rule: Mapping[str, Any]) -> str:
    """Return it as a policy has it."""
    return " and ".join(f"{name} = {_number(value)}" for name, value in rule.items())


def _number(value: Any) -> str:
    return str(value) if isinstance(value, int) else f"{float(exact(value)):.4g}"


def _stated(rule: Mapping[str, Any]) -> tuple[str, Fraction]:
    """Return what it says of beliefs, and the highest one that it allows."""
    if "rho2" in rule:
        before, after = exact(rule["rho1"]), exact(rule["rho2"])
        return f"nobody at most {percent(float(before))} sure of a value gets above {percent(float(after))}", after
    number = next(iter(rule.values()))
    at_most = exact(number) if "risk_limit" in rule else Fraction(1, number)
    whose = "a row" if "risk_limit" in rule else "anybody"
    return f"no value of {whose} surer than {percent(float(at_most))}", at_most


# --- what the policy asks for, where that is more ---------------------------------------------------------------------


def _stricter(policy: Policy, at_most: Fraction) -> Iterator[str]:
    """Yield in a phrase what of the policy is stricter, or of another kind."""
    rule = policy.requirement_rule
    if policy.apart:
        yield "your policy asks for bounds of each column"
    elif rule.gamma is not None or rule.epsilon is not None or rule.tolerance is not None:
        yield "your policy bounds how far odds may change"
    elif told := list(_stricter_parts([*rule.values, *rule.groups], at_most)):
        yield f"your policy asks for {', and '.join(told)}"


def _stricter_parts(parts: Sequence[ValueRule | GroupRule], at_most: Fraction) -> Iterator[str]:
    """Yield the stricter bounds on beliefs, the strictest first, each with what it is for."""
    limits: dict[Fraction, list[str]] = {}
    odds = []
    for part in parts:
        if (limit := _limit(part)) is None:
            odds.append(_named(part))
        elif limit < at_most:
            limits.setdefault(limit, []).append(_named(part))
    for limit in sorted(limits)[:MOST_STRICTER]:
        yield f"{percent(float(limit))} for {named(limits[limit])}"
    if more := sum(map(len, list(limits.values())[MOST_STRICTER:])):
        yield f"less for {more:,} more"
    if odds:
        yield f"a bound on the odds of {named(odds)}"


def _limit(part: ValueRule | GroupRule) -> Fraction | None:
    """Return the highest belief that is allowed; None where odds are bounded."""
    if isinstance(part, ValueRule):
        return None if part.rho2 is None else exact(part.rho2)
    return Fraction(1, part.l) if part.l else exact(part.risk_limit or 1)


def _named(part: ValueRule | GroupRule) -> str:
    """Return the value, the set of values or the people that it is for."""
    if isinstance(part, GroupRule):
        return ", ".join(f"{name} = {_either(value)}" for name, value in part.where.items())
    if part.value is not None:
        return " / ".join(map(str, part.value)) if isinstance(part.value, tuple) else str(part.value)
    if part.between is not None:
        return "{} to {}".format(*part.between)
    return f"{part.prefix}..." if part.prefix is not None else _either(part.values)


def _either(values: Any) -> str:
    return named(list(map(str, values)), "or") if isinstance(values, tuple | list) else str(values)
