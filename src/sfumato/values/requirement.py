"""What the publisher asks for, and what it means for each value.

Nearly every requirement comes down to one number per sensitive value, its gamma: no published value may change the odds
of "this record's value is x_i" by more than that factor.

    (rho1, rho2)   a prior of at most rho1 must not become a posterior above rho2, nor a prior of at least rho2 one
                   below rho1:  gamma = rho2/rho1 * (1-rho1)/(1-rho2)                    FG Def. 1, Eq. (5); SDR Eq. (6)
    tolerance      rho1_i = f_i, rho2_i = theta f_i; no requirement where f_i >= 1/theta                  FG section V
    epsilon        local differential privacy: gamma = exp(epsilon)

A set of values (`SetRequirement`) has a gamma of its own, for the odds of "this record's value is one of these".

A limit on a risk under linking (`RiskLimit`) is of another kind: it has no gamma, and one method takes it.

Numbers are exact: 0.1 and "1/10" both mean one tenth.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from sfumato.errors import PolicyError
from sfumato.values.attributes import Domain, SensitiveDomain, Value, label
from sfumato.values.bound import Choice, Ends, SetBound, codes_of, is_number, part_named, stricter
from sfumato.values.matrix.retention import amplification
from sfumato.values.mechanism import NO_BOUND, Bound
from sfumato.values.text import meant

Number = int | float | str | Fraction
Key = Value | tuple[Value, ...]


NUMBERS_HINT = 'Write a number such as 0.2, or a fraction in quotes such as "1/5".'
LARGEST_EXPONENT = 1000
LARGEST_GAMMA = 10**30
LEAST_LIMIT = Fraction(1, 10**30)


def exact(number: Number, name: str = "number") -> Fraction:
    """Return the number as it was written: 0.1 is 1/10, "1/7" is one seventh.

    >>> exact(0.1), exact("1/7")
    (Fraction(1, 10), Fraction(1, 7))
    """
    if isinstance(number, bool):
        raise PolicyError(f"{name} must be a number, not {str(number).lower()}.", NUMBERS_HINT)
    exponent = re.search(r"[eE]([+-]?[0-9_]+)\s*$", str(number))
    try:
        if exponent and abs(int(exponent[1])) > LARGEST_EXPONENT:
            raise PolicyError(f"{name} = {number} is beyond all that can be computed.", "Write a number of usual size.")
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        raise PolicyError(
            f"{name} must be a finite number or a fraction such as '1/7', not {number!r}.", _meant(str(number), name)
        ) from None


def _meant(text: str, name: str) -> str:
    """Return what to write for a text that is no number: a percentage, a decimal comma.

    >>> _meant("30%", "rho1"), _meant("0,2", "rho1")
    ('30% is 0.3: write rho1 = 0.3.', 'Write a point, not a comma: rho1 = 0.2.')
    """
    with_point = text.strip().replace(",", ".", 1)
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?\s*%", with_point):
        return percent_hint(name, Fraction(with_point.rstrip("% "))) or NUMBERS_HINT
    if re.fullmatch(r"[0-9]*\.[0-9]+", with_point):
        return f"Write a point, not a comma: {_key(name)} = {_shown(Fraction(with_point))}."
    return NUMBERS_HINT


def percent_hint(name: str, number: Fraction) -> str:
    """Return what to write for a percentage, if the number can be one.

    >>> percent_hint("rho1", Fraction(30))
    '30% is 0.3: write rho1 = 0.3.'
    """
    share = _shown(number / 100)
    return f"{_shown(number)}% is {share}: write {_key(name)} = {share}." if 0 < number < 100 else ""


def probability_hint(name: str, number: Fraction) -> str:
    """Return what to write in the place of a number that is no probability."""
    return (number > 1 and percent_hint(name, number)) or 'Write a probability, such as 0.2 or "1/5".'


def _key(name: str) -> str:
    """Return the key of a number that is named with its section or its value: method.delta, rho1 of 'flu'."""
    return name.split(" ")[0].split(".")[-1]


def gamma_of_epsilon(epsilon: Number) -> Fraction:
    """Return exp(epsilon), rounded down so that the stated epsilon is kept."""
    return Fraction(math.nextafter(math.exp(float(exact(epsilon, "epsilon"))), 0))


def epsilon_of_gamma(gamma: Number) -> float:
    """Return ln(gamma), the local differential privacy of a gamma-amplifying matrix."""
    return math.log(exact(gamma, "gamma"))


def posterior_of_gamma(gamma: Number, rho1: Number) -> Fraction:
    """Return the rho2 that gamma ensures for a prior of rho1: gamma rho1 / (1 - rho1 + gamma rho1).

    >>> posterior_of_gamma(3, "1/10")
    Fraction(1, 4)
    """
    g, r = exact(gamma, "gamma"), exact(rho1, "rho1")
    return g * r / (1 - r + g * r)


def rho_bound(rho1: Number, rho2: Number, given: str = "", where: str = "") -> Bound:
    """Return the bound of (rho1, rho2), checked."""
    r1, r2 = exact(rho1, f"rho1{where}"), exact(rho2, f"rho2{where}")
    for name, r in (("rho1", r1), ("rho2", r2)):
        if not 0 < r < 1:
            raise PolicyError(
                f"{name}{where} must lie strictly between 0 and 1, not {_shown(r)}.", _rho_hint(r1, r2, name, r)
            )
    if r1 >= r2:
        raise PolicyError(
            f"rho1{where} = {_shown(r1)} is not below rho2 = {_shown(r2)}.",
            "rho1 is the highest belief beforehand that is protected, rho2 the highest one allowed afterwards: "
            f"ask for a rho2 above {_shown(r1)}, or for a rho1 below {_shown(r2)}.",
        )
    gamma = amplification(r1, r2)
    _check_gamma(gamma, f"rho1{where} = {_shown(r1)} and rho2 = {_shown(r2)}", "rho2 is so close to rho1")
    return Bound(gamma, r1, r2, given)


def _rho_hint(rho1: Fraction, rho2: Fraction, name: str, number: Fraction) -> str:
    """Return what to write for a rho that is no probability: the percentages that were meant, if they fit."""
    shares = [r / 100 if r > 1 else r for r in (rho1, rho2)]
    if number > 1 and not 0 < shares[0] < shares[1] < 1:
        return "Both are probabilities, rho1 the smaller one: 20% is 0.2, so write for instance rho1 = 0.2, rho2 = 0.5."
    if rho1 > 1 and rho2 > 1:
        first, second = map(_shown, shares)
        return f"{_shown(rho1)}% is {first} and {_shown(rho2)}% is {second}: write rho1 = {first} and rho2 = {second}."
    return probability_hint(name, number)


class _OneBound(ABC):
    """The same bound for all values."""

    @abstractmethod
    def bound(self) -> Bound:
        """Return the one bound."""

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Return the same bound for every value."""
        return (self.bound(),) * domain.size


@dataclass(frozen=True)
class RhoPrivacy(_OneBound):
    """(rho1, rho2)-privacy for all values: SDR §3.2."""

    rho1: Number
    rho2: Number

    def __post_init__(self) -> None:
        self.bound()

    def bound(self) -> Bound:
        return rho_bound(self.rho1, self.rho2)


@dataclass(frozen=True)
class Amplification(_OneBound):
    """At most gamma-amplifying: the odds of any predicate change by at most this factor."""

    gamma: Number

    def __post_init__(self) -> None:
        gamma = exact(self.gamma, "gamma")
        if gamma <= 1:
            raise PolicyError(
                f"gamma must be above 1, not {_shown(gamma)}.",
                "gamma = 3 lets the odds of a value change threefold; gamma = 1 would publish pure noise.",
            )
        _check_gamma(gamma, f"gamma = {_shown(gamma)}", "gamma is so close to 1")

    def bound(self) -> Bound:
        return Bound(exact(self.gamma))


@dataclass(frozen=True)
class LocalPrivacy(_OneBound):
    """epsilon-local differential privacy of the sensitive attribute."""

    epsilon: Number

    def __post_init__(self) -> None:
        epsilon = exact(self.epsilon, "epsilon")
        if not 0 < epsilon <= 40:
            raise PolicyError(
                f"epsilon must be above 0 and at most 40, not {_shown(epsilon)}.",
                "epsilon = 1 lets the odds change by a factor of 2.7, 40 by one of 2e17: no protection at all.",
            )
        _check_gamma(gamma_of_epsilon(epsilon), f"epsilon = {_shown(epsilon)}", "epsilon is so close to 0")

    def bound(self) -> Bound:
        """Return the one bound, gamma = exp(epsilon)."""
        return Bound(gamma_of_epsilon(self.epsilon))


def _stated(
    rho1: Number | None, rho2: Number | None, gamma: Number | None, epsilon: Number | None, given: str, where: str
) -> Bound:
    """Return the bound of an entry, which states rho1 and rho2, or gamma, or epsilon."""
    ways = {"rho1 and rho2": (rho1, rho2), "gamma": (gamma,), "epsilon": (epsilon,)}
    named = [way for way, numbers in ways.items() if any(number is not None for number in numbers)]
    if len(named) != 1 or (rho1 is None) != (rho2 is None):
        raise PolicyError(
            f"The requirement{where} states {' and '.join(named) if len(named) > 1 else 'no whole bound'}.",
            "State one of: rho1 and rho2, gamma, epsilon.",
        )
    if rho1 is not None and rho2 is not None:
        return rho_bound(rho1, rho2, given, where)
    try:
        asked = Amplification(gamma) if gamma is not None else LocalPrivacy(epsilon or 0)
    except PolicyError as problem:
        raise PolicyError(f"The requirement{where}: {problem.message}", problem.hint) from None
    return replace(asked.bound(), given=given)


@dataclass(frozen=True)
class ValueRequirement:
    """(rho1, rho2), gamma or epsilon for one value, for an adversary with the background knowledge `given`."""

    value: Key
    rho1: Number | None = None
    rho2: Number | None = None
    given: str = ""
    gamma: Number | None = None
    epsilon: Number | None = None

    def __post_init__(self) -> None:
        self.bound()

    def bound(self) -> Bound:
        """Return what it asks for."""
        return _stated(self.rho1, self.rho2, self.gamma, self.epsilon, self.given, f" of {label(self.value)!r}")


@dataclass(frozen=True)
class SetRequirement:
    """(rho1, rho2), gamma or epsilon for a set: for the statement that a record's value is one of its values.

    The set is a list of `values`, all that start with a `prefix`, or all `between` two texts or numbers
    (`sfumato.values.bound`); `column` names the column where there are several sensitive ones.
    """

    values: tuple[Key, ...] = ()
    prefix: str | None = None
    between: Ends | None = None
    column: str | None = None
    rho1: Number | None = None
    rho2: Number | None = None
    given: str = ""
    gamma: Number | None = None
    epsilon: Number | None = None

    def __post_init__(self) -> None:
        ways = {"values": bool(self.values), "prefix": bool(self.prefix), "between": self.between is not None}
        if sum(ways.values()) != 1:
            stated = [way for way, is_stated in ways.items() if is_stated]
            raise PolicyError(
                f"A set of values is named by {' and '.join(stated) if stated else 'nothing'}.",
                'Name it by one of: values = ["HIV", "hepatitis B"], prefix = "B2", between = ["A00", "B99"].',
            )
        if self.between is not None:
            self._check_ends(self.between)
        self.bound()

    def _check_ends(self, ends: Ends) -> None:
        first, last = ends
        if isinstance(first, str) != isinstance(last, str):
            raise PolicyError(
                f"between = [{first!r}, {last!r}] has a text and a number.",
                "Write both in quotes, to take texts in their order, or both without, to take numbers.",
            )
        if any(isinstance(end, float) and not math.isfinite(end) for end in ends):
            raise PolicyError(
                f"between = [{first}, {last}] has an end that is no number.",
                "Write two numbers, such as [390, 459.99]: the ends need not be values.",
            )
        if first > last:  # type: ignore[operator]
            raise PolicyError(
                f"between = [{first!r}, {last!r}] ends before it begins.", f"Write between = [{last!r}, {first!r}]."
            )

    @property
    def named(self) -> str:
        """The set as the policy names it."""
        if self.values:
            return f"values {', '.join(repr(label(value)) for value in self.values[:5])}"
        return f"prefix {self.prefix!r}" if self.prefix else f"between {list(self.between or ())}"

    def bound(self) -> Bound:
        """Return what it asks for."""
        return _stated(self.rho1, self.rho2, self.gamma, self.epsilon, self.given, f" of the set by {self.named}")

    def on(self, domain: SensitiveDomain) -> SetBound:
        """Return the set with its values in a domain: some of them, and not all."""
        self._check_column(domain)
        part = part_named(domain, self.column)
        choice = Choice(self.prefix, self.between, self.column)
        if not choice.is_list:
            codes = codes_of(domain, part, choice.matches)
        elif self.column is None:
            codes = tuple(sorted({find_value(domain, value) for value in self.values}))
        else:
            alone = SensitiveDomain((part,))
            listed = {part.values[find_value(alone, value)] for value in self.values}
            codes = codes_of(domain, part, listed.__contains__)
        if not codes:
            raise PolicyError(
                f"The requirement's set by {self.named} has no value of {part.name!r}.", self._nearest(part)
            )
        if len(codes) == domain.size:
            raise PolicyError(
                f"The requirement's set by {self.named} has all {domain.size:,} values of {domain.name!r}: that a "
                "record has one of them is known.",
                "Name fewer values, or require something of each value: rho1 and rho2 for all.",
            )
        return SetBound(codes, self.bound(), choice)

    def _check_column(self, domain: SensitiveDomain) -> None:
        if self.column is not None and self.column not in domain.names:
            raise PolicyError(
                f"The requirement's set by {self.named} is of {self.column!r}, which is no sensitive column.",
                meant(self.column, domain.names, "The sensitive columns are"),
            )
        if self.column is None and not self.values and len(domain.parts) > 1:
            raise PolicyError(
                (
                    f"The requirement's set by {self.named} does not say which column it is for: "
                    f"{' or '.join(domain.names)}."
                ),
                f'Add column = "{domain.names[0]}", say.',
            )

    def _nearest(self, part: Domain) -> str:
        """Return what could have been meant: the longest beginning that some value has, or values at the ends."""
        labels = sorted(label(value) for value in part.values if value is not None)
        if self.prefix:
            for length in range(len(self.prefix) - 1, 0, -1):
                if found := [text for text in labels if text.startswith(self.prefix[:length])]:
                    return f"{len(found):,} value(s) start with {self.prefix[:length]!r}: {', '.join(found[:5])}."
            return f"Its values are for instance {', '.join(labels[:5])}."
        first = (self.between or ("",))[0]
        if not isinstance(first, str):
            if not (numbers := sorted(filter(is_number, labels), key=Fraction)):
                return "None of its values is a number: write the ends in quotes, to take texts in their order."
            return f"{len(numbers):,} of its values are numbers, from {numbers[0]} to {numbers[-1]}."
        after = [text for text in labels if text >= first][:3]
        before = [text for text in labels if text < first][-3:]
        return (
            f"In the order of texts {', '.join(before) or 'nothing'} come before {first!r} and "
            f"{', '.join(after) or 'nothing'} after it. Ends without quotes take numbers."
        )


@dataclass(frozen=True)
class FineGrainPrivacy:
    """A requirement for each value: FG Def. 1. Of several for one value the strictest counts (FG section IV, end).

    A value that is not listed gets `default`; without a default it is an error, unless `others_unprotected`. A set asks
    for nothing of its single values: these get the default like all others.
    """

    values: tuple[ValueRequirement | SetRequirement, ...]
    default: RhoPrivacy | Amplification | LocalPrivacy | None = None
    others_unprotected: bool = False

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Return each value's strictest bound; a set of one value is that value."""
        listed: dict[int, Bound] = {}
        for code, bound in self._listed(domain):
            listed[code] = stricter(listed.get(code, bound), bound)
        rest = self._rest(domain, listed)
        return tuple(listed.get(code, rest) for code in range(domain.size))

    def sets(self, domain: SensitiveDomain) -> tuple[SetBound, ...]:
        """Return the sets of two values and more, each once with its strictest bound."""
        found: dict[tuple[int, ...], SetBound] = {}
        for each in self._sets(domain):
            known = found.setdefault(each.codes, each)
            if len(each.codes) > 1 and stricter(known.bound, each.bound) is each.bound:
                found[each.codes] = each
        return tuple(each for codes, each in found.items() if len(codes) > 1)

    def _sets(self, domain: SensitiveDomain) -> list[SetBound]:
        return [entry.on(domain) for entry in self.values if isinstance(entry, SetRequirement)]

    def _listed(self, domain: SensitiveDomain) -> Iterator[tuple[int, Bound]]:
        """Yield the bounds on single values."""
        for entry in self.values:
            if isinstance(entry, ValueRequirement):
                yield find_value(domain, entry.value), entry.bound()
        for each in self._sets(domain):
            if len(each.codes) == 1:
                yield each.codes[0], each.bound

    def _rest(self, domain: SensitiveDomain, listed: Mapping[int, Bound]) -> Bound:
        if self.default:
            return self.default.bound()
        unlisted = [domain.labels[code] for code in range(domain.size) if code not in listed]
        if unlisted and not self.others_unprotected:
            raise PolicyError(
                f"The requirement says nothing of {len(unlisted)} value(s) of {domain.name!r}: "
                f"{', '.join(unlisted[:5])}{', ...' if len(unlisted) > 5 else ''}.",
                'Give a rho1 and rho2 for all values as the default, or say others = "unprotected".'
                + self._only_as_sets(domain),
            )
        return NO_BOUND

    def _only_as_sets(self, domain: SensitiveDomain) -> str:
        """Return what to know where sets are named: they ask for nothing of the values in them."""
        if not self.sets(domain):
            return ""
        return " A set bounds the belief that the value is one of it, not which one: its values need a bound, too."


def sets_of(requirement: Requirement, domain: SensitiveDomain) -> tuple[SetBound, ...]:
    """Return the sets of values that a requirement speaks of."""
    return requirement.sets(domain) if isinstance(requirement, FineGrainPrivacy) else ()


@dataclass(frozen=True)
class Tolerance:
    """rho1_i, and rho2_i = theta rho1_i; no requirement on a value with rho1_i >= 1/theta: FG section V.

    `rho1` is "observed" (the table's own frequencies: publishing the matrix then discloses them) or the
    probabilities from a public source. A value with rho1_i = 0 gets the limit, gamma = theta.
    """

    theta: Number
    rho1: Literal["observed"] | Mapping[str, Number] = field(default="observed")

    def __post_init__(self) -> None:
        theta = exact(self.theta, "tolerance")
        if theta <= 1:
            raise PolicyError(
                f"tolerance must be above 1, not {_shown(theta)}.",
                "tolerance = 3 lets a belief become at most three times as strong.",
            )
        _check_gamma(theta, f"tolerance = {_shown(theta)}", "tolerance is so close to 1")
        for value, p in () if isinstance(self.rho1, str) else self.rho1.items():
            if not 0 <= exact(p, f"rho1 of {value!r}") < 1:
                raise PolicyError(
                    f"Every rho1 must be at least 0 and below 1; that of {value!r} is {_shown(exact(p))}.",
                    "Write shares of 1: 30% is 0.3.",
                )

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Return gamma_i from theta and rho1_i."""
        theta = exact(self.theta)
        return tuple(_tolerated(theta, rho1) for rho1 in self._priors(domain, counts))

    def _priors(self, domain: SensitiveDomain, counts: Sequence[int]) -> list[Fraction]:
        if self.rho1 == "observed":
            rows = sum(int(c) for c in counts)
            return [Fraction(int(c), rows) for c in counts]
        assert not isinstance(self.rho1, str)
        stated = {find_value(domain, key): exact(p, f"rho1 of {key!r}") for key, p in self.rho1.items()}
        if lacking := [domain.labels[c] for c in range(domain.size) if c not in stated]:
            raise PolicyError(
                f"rho1 is not given for {', '.join(map(repr, lacking[:5]))}.",
                'A tolerance needs rho1 for every value, or rho1 = "observed".',
            )
        return [stated[c] for c in range(domain.size)]

    @property
    def discloses_frequencies(self) -> bool:
        """Whether the matrix tells the table's own frequencies."""
        return self.rho1 == "observed"


@dataclass(frozen=True)
class GroupLimit:
    """A limit for the records that have, in each of the named columns, one of the named values: AD section IV-B."""

    where: tuple[tuple[str, tuple[Value, ...]], ...]
    limit: Number

    def __post_init__(self) -> None:
        if not self.where or not all(values for _, values in self.where):
            raise PolicyError("A group needs a column and a value at least.", 'E.g. where = { sex = "F" }.')
        object.__setattr__(self, "limit", _risk_limit(self.limit, f" of {self.told}"))

    @property
    def told(self) -> str:
        """The group in words."""
        return " and ".join(f"{name} {' or '.join(map(label, values))}" for name, values in self.where)


@dataclass(frozen=True)
class RiskLimit:
    """The risk of a record stays within a limit: 1/l, or a probability. A limit of 1 is none.

    A record of stated groups takes the strictest limit of these groups, all others `limit`.
    """

    limit: Number
    groups: tuple[GroupLimit, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "limit", _risk_limit(self.limit))
        if min(self.limits) == 1:
            raise PolicyError(
                "A limit of 1 on a risk is none: nothing would be required.",
                "Write a risk_limit below 1, such as 0.25, or l = 4, which means the same.",
            )

    @property
    def limits(self) -> tuple[Fraction, ...]:
        """That of all other records, then those of the groups."""
        return (exact(self.limit), *(exact(group.limit) for group in self.groups))

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Raise: it limits a risk of the whole table, not the odds of values."""
        raise PolicyError(
            "A limit on a risk (l or risk_limit) goes with the method randomized-response only.",
            "State rho1 and rho2, values, a tolerance, gamma or epsilon; or choose that method.",
        )


@dataclass(frozen=True)
class Diversity:
    """No value has more than 1/l of the records of a published group."""

    l: int  # noqa: E741

    def __post_init__(self) -> None:
        if self.l < 2:
            raise PolicyError(
                f"l must be at least 2, not {self.l}.",
                "No value has more than 1/l of a group: write l = 2 (half of it) or more.",
            )

    @property
    def at_most(self) -> Fraction:
        """1/l."""
        return Fraction(1, self.l)

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Raise: it limits the share of a value in a group, not the odds of values."""
        raise _not_of_values("l", "anatomy, suppression or randomized-response")


@dataclass(frozen=True)
class Robustness:
    """Nobody who knows Pr(value | signature) beforehand believes in a value of a person by more than 1/r: PI Def. 5."""

    r: int

    def __post_init__(self) -> None:
        if self.r < 2:
            raise PolicyError(
                f"r must be at least 2, not {self.r}.",
                "Nothing is believed by more than 1/r: write r = 2 or more.",
            )

    @property
    def at_most(self) -> Fraction:
        """1/r."""
        return Fraction(1, self.r)

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Raise: it limits a belief about the records of a group, not the odds of values."""
        raise _not_of_values("r", "robust-anatomy")


@dataclass(frozen=True)
class Requirements:
    """A requirement for each of several methods: first that of the policy, then those of columns with their own."""

    each: tuple[Requirement, ...]

    def bounds(self, domain: SensitiveDomain, counts: Sequence[int]) -> tuple[Bound, ...]:
        """Raise: each is for columns of its own."""
        raise PolicyError(
            "Several requirements are for columns of their own, and there is none for all of them together.",
            "Take the requirement of one column: requirement.each has them.",
        )


def _not_of_values(key: str, methods: str) -> PolicyError:
    return PolicyError(
        f"A requirement by {key} goes with the method {methods} only.",
        "State rho1 and rho2, values, a tolerance, gamma or epsilon; or choose that method.",
    )


Requirement = (
    RhoPrivacy
    | Amplification
    | LocalPrivacy
    | FineGrainPrivacy
    | Tolerance
    | RiskLimit
    | Diversity
    | Robustness
    | Requirements
)


def tolerance(theta: Number, rho1: Literal["observed"] | Mapping[str, Number] = "observed") -> Tolerance:
    """Return FG's requirement by tolerance: posteriors at most theta times the priors."""
    return Tolerance(theta, rho1)


def find_value(domain: SensitiveDomain, key: Key) -> int:
    """Return the code of a value, given as itself or as it is written."""
    if key in domain.index:
        return domain.index[key]
    written = label(key)
    if written in domain.labels:
        return domain.labels.index(written)
    raise PolicyError(
        f"The requirement names {written!r}, which is not a value of {domain.name!r}.",
        meant(written, domain.labels, "Its values are"),
    )


def _tolerated(theta: Fraction, rho1: Fraction) -> Bound:
    if rho1 * theta >= 1:
        return NO_BOUND
    return rho_bound(rho1, theta * rho1) if rho1 else Bound(theta)


def _risk_limit(number: Number, where: str = "") -> Fraction:
    limit = exact(number, f"risk_limit{where}")
    if not 0 < limit <= 1:
        raise PolicyError(
            f"risk_limit{where} must be above 0 and at most 1, not {_shown(limit)}.",
            f"{probability_hint('risk_limit', limit)} A limit of 1/3 can also be written l = 3.",
        )
    if limit < LEAST_LIMIT or (limit < 1 and float(limit) == 1):
        raise PolicyError(
            f"risk_limit{where} is too near to {round(limit)} to compute with.",
            "A limit of 1 is none, and none below one over the number of records can be kept.",
        )
    return limit


def _check_gamma(gamma: Fraction, stated: str, small: str) -> None:
    """Raise if a gamma is too large or too small to compute with."""
    if gamma > LARGEST_GAMMA:
        raise PolicyError(
            f"{stated} lets the odds change by a factor above 1e30, which is no protection at all.",
            "gamma = 3 or 10 are usual; leave out the requirement on values that need none.",
        )
    if float(gamma) <= 1:
        raise PolicyError(
            f"{stated}: {small} that it cannot be told apart in floating point; the release would be pure noise.",
            "The odds must be allowed to change by a factor of more than 1 + 1e-15.",
        )


def _shown(number: Fraction) -> str:
    """Return a number as people write it; it may be too large or too small for a float."""
    if number and not 1e-300 < abs(number) < 1e300:
        digits = math.floor(math.log10(abs(number.numerator)) - math.log10(number.denominator))
        return f"{'-' if number < 0 else ''}1e{digits:+03d} (about)"
    return f"{float(number):.6g}"
