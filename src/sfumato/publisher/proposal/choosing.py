"""Which method, requirement and bins to propose for a table: what can be promised, and what counts would be off by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import CannotMeet, UsageError
from sfumato.methods import METHODS
from sfumato.methods.method import Method
from sfumato.methods.perturbed import MOST_IN_ORDER
from sfumato.methods.plan import Figures
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.uniform import Uniform
from sfumato.publisher import toml
from sfumato.show.words import share
from sfumato.values.matrix.retention import amplification
from sfumato.values.profile import Profile
from sfumato.values.requirement import RhoPrivacy

CLASSES = 8  # about so many bins
STEPS = (1, 2, 5)
ODDS = 5  # the odds of no statement may change by more than this factor (epsilon = 1.6)
TIMES = 3
CLEAN = (10, 20, 50, *range(100, 960, 50), 960, 970, 980, 990)  # in thousandths
MOST_IN_ONE = 0.9  # share of the most frequent value above which no promise about it is of use
USELESS = 0.25  # expected total variation above which the estimated distribution is mostly noise
MUCH_BETTER = 0.5  # what is left of that error where a method with a weaker promise is proposed
WORTH = 0.975  # what is left of a standard error where another method with the same promise is proposed than uniform
WORTH_COUNTS = 0.9  # the same where counts of single values get worse for it: of methods for values in order
MOST_PLANNED = 20_000
MOST_DEALT = 2_000  # for larger domains uniform, or sub-tables, are not tried: such a plan costs many seconds
MANY_VALUES = 20


# --- a method and a requirement ---------------------------------------------------------------------------------------


def requirement(largest_share: float) -> tuple[Fraction, Fraction]:
    """Return rho1 = the largest share, rounded up; rho2 = three times that, with odds changed at most fivefold.

    >>> [[float(rho) for rho in requirement(share)] for share in (0.1341, 0.752, 0.004)]
    [[0.15, 0.45], [0.8, 0.95], [0.01, 0.03]]
    """
    rho1 = next((clean for clean in CLEAN if clean >= 1000 * largest_share), CLEAN[-1])
    most = min(TIMES * rho1, ODDS * rho1 * 1000 // (1000 + (ODDS - 1) * rho1))
    clean = most // 10 * 10
    return Fraction(rho1, 1000), Fraction(clean if clean > rho1 else most, 1000)


@dataclass(frozen=True)
class Tried:
    """A method, and what it would make of the table."""

    method: Method
    made: Figures

    def error(self, in_order: bool) -> float:
        """Return by what it is chosen: the error of a count, or of the share of records up to a value."""
        expected = self.made.expected
        found = expected.share if in_order and expected.share is not None else expected.count
        return math.inf if found is None else found


@dataclass(frozen=True)
class Choice:
    """A method and a requirement, and what they mean for the table. `asked` None: nothing useful can be promised."""

    method: Method
    profile: Profile
    asked: tuple[Fraction, Fraction] | None  # rho1 and rho2
    made: Figures | None = None  # by the method
    others: tuple[Tried, ...] = ()  # with the promise of uniform, or none of them where that is what is proposed
    in_order: bool = False

    @property
    def share(self) -> float:
        """The share of the most frequent value."""
        return float(self.profile.frequency.max())

    @property
    def values(self) -> int:
        return self.profile.domain.size

    def about_method(self) -> Iterator[str]:
        if self.method.proposed:
            yield self.method.proposed
        else:
            best = min(self.others, key=lambda other: other.error(in_order=False))
            yield (
                "small-domain: records are dealt to sub-tables with few values each. With "
                f"{best.method.name} most counts of the {self.values:,} values could not be told from noise. Its "
                "promise would be stronger, though: small-domain's is for someone who expects a sub-table's shares."
            )
        if self.made is not None:
            yield f"Expected on this table: {self._off(self.made)}{self._beside(self._count_of)}."
            yield from self._about_order(self.made)
        if self.is_useless:
            yield (
                f"THAT IS MOSTLY NOISE: with {self.values:,} values most counts cannot be told from it. Fewer, "
                "broader values help more than any setting here: bins, or values merged before publishing. Or publish "
                "in groups, see below."
            )

    def _about_order(self, made: Figures) -> Iterator[str]:
        """Say what shares and means are off by, and why what is for an order is not proposed."""
        if not self.in_order:
            return
        if (count := _typical_of(made)) is not None:
            yield f"The count of a value is typically off by about {count}{self._beside(_typical_of)}."
        if (share := _share_of(made)) is not None:
            yield f"The share of records up to a value is off by about {share}{self._beside(_share_of)}."
        if (mean := _mean_of(made)) is not None:
            yield (
                f"Their mean place in the order is off by about {mean} of the range, from the lowest value to the "
                f"highest{self._beside(_mean_of)}."
            )
        better = [
            other.method.name for other in self.others if other.error(in_order=False) < _count_error(made) * WORTH
        ]
        if better and self.method.for_order:
            yield (
                f"COUNTS OF SINGLE VALUES are estimated worse than by {' or '.join(better)}, which have the same "
                "promise: choose by what the release is for."
            )
        reasons = {why: None for method in METHODS if method.for_order and (why := method.unfit(self.profile.domain))}
        for why in reasons:
            yield f"Methods for values in order are not tried: {why}"

    def _beside(self, told: Callable[[Figures], str | None]) -> str:
        """Return the same figure of the others."""
        found = [f"with {other.method.name} {figure}" for other in self.others if (figure := told(other.made))]
        return f" ({', '.join(found)})" if found else ""

    def alternatives(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Give other methods for values in order: what to know of each, and its lines."""
        if not self.in_order:
            return
        if names := [other.method.name for other in self.others if other.method.name != self.method.name]:
            lines = tuple(f"name = {toml.quote(name)}" for name in names)
            yield "With the same promise, and the errors above:", lines
        for method in METHODS:
            if method.alternative and not method.unfit(self.profile.domain):
                yield method.alternative

    @property
    def is_useless(self) -> bool:
        """Whether the estimated distribution would be mostly noise."""
        return self.made is not None and (self.made.total_variation is None or self.made.total_variation > USELESS)

    def _off(self, made: Figures) -> str:
        """Say what the count of the most frequent value would be off by."""
        off = self._count_of(made)
        if off is None:
            return "no count can be estimated"
        return f"the count of the most frequent value, {int(self.profile.counts.max()):,}, is off by about {off}"

    def _count_of(self, made: Figures) -> str | None:
        errors = made.standard_error
        return None if errors is None else f"{errors[int(self.profile.counts.argmax())]:,.0f}"

    def about_requirement(self) -> Iterator[str]:
        if self.asked is None:
            yield (
                f"{share(self.share)} of the records have one value: anyone who guesses it is right that often before "
                "they see anything, and no promise about it can be of use. Choose other breaks, so that no bin has "
                "more than half of the records; or protect rare values only; or choose another column."
            )
            return
        yield (
            "Someone who believes a value of a record with at most rho1 must not believe it with more than rho2 after "
            f"seeing the release. rho1: the most frequent value has {share(self.share)}, rounded up. rho2: at most "
            "three times that, and so that no odds rise more than fivefold. HOW MUCH MAY BE LEARNED IS YOUR DECISION."
        )
        if self.made is not None and (kept_own := self.made.record_utility) is not None:
            has_sets = any(mechanism.form != "value" for mechanism in self.made.mechanisms)
            kept = "what is published holds the own value of" if has_sets else "the value stays unchanged of"
            yield (
                f"On this table: odds change by at most the factor {float(amplification(*self.asked)):.3g}, and {kept} "
                f"{share(kept_own)} of the records."
            )
        if self.values > MANY_VALUES:
            yield (
                f"{self.values:,} values are many: noise spreads over all of them, and little of each record is left. "
                "Fewer, broader values help more than any setting here."
            )


def choose(profile: Profile, in_order: bool = False) -> Choice:
    """Return what is proposed for a table; `in_order`: the values are amounts, or other quantities.

    Of the methods with the promise of uniform it is the one with the least error: of the share of records up to a value
    where they are in order, else of counts. A weaker promise is proposed only where all of these leave mostly noise.
    """
    nothing = Choice(Uniform(), profile, None)
    if nothing.share > MOST_IN_ONE:
        return nothing
    asked, values = requirement(nothing.share), nothing.values
    if values > MOST_PLANNED:
        return Choice(Uniform(), profile, asked)
    tried = tuple(_tried(profile, asked, in_order))
    if not tried:
        return Choice(Uniform(), profile, asked)
    best = _least(tried, in_order)
    others = tuple(each for each in tried if each is not best and _differ(each, best))
    chosen = Choice(best.method, profile, asked, best.made, others, in_order)
    if not chosen.is_useless:
        return chosen
    dealt = _planned(profile, SmallDomain(), asked) if values <= MOST_DEALT else None
    if dealt is None or _error(dealt) > MUCH_BETTER * _error(best.made):
        return chosen
    return Choice(SmallDomain(), profile, asked, dealt, (best, *others))


def _least(tried: Sequence[Tried], in_order: bool) -> Tried:
    """Return what has the least error, by enough: the first is uniform, which everybody can read."""
    best = tried[0]
    for each in tried[1:]:
        worth = WORTH_COUNTS if each.method.for_order else WORTH
        if each.error(in_order) < worth * best.error(in_order):
            best = each
    return best


def _differ(one: Tried, other: Tried) -> bool:
    """Whether one of two methods has a clearly smaller error, of whatever kind."""
    errors = [(one.error(in_order), other.error(in_order)) for in_order in (False, True)]
    return any(min(both) < WORTH * max(both) for both in errors)


def _tried(profile: Profile, asked: tuple[Fraction, Fraction], in_order: bool) -> Iterator[Tried]:
    """Give every method that may be proposed for such values, the first of them uniform."""
    for method in METHODS:
        fits = not method.for_order or (in_order and profile.domain.size <= MOST_IN_ORDER)
        if method.proposed and fits and not method.unfit(profile.domain):
            made = _planned(profile, method(), asked)
            if made is not None:
                yield Tried(method(), made)


def _planned(profile: Profile, method: Method, asked: tuple[Fraction, Fraction]) -> Figures | None:
    try:
        return method.plan(profile, RhoPrivacy(*asked)).figures
    except (CannotMeet, UsageError):
        return None


def _error(made: Figures) -> float:
    return float("inf") if made.total_variation is None else made.total_variation


def _count_error(made: Figures) -> float:
    return math.inf if made.expected.count is None else made.expected.count


def _typical_of(made: Figures) -> str | None:
    """Return what a count is off by, as the root of the mean square over all values: by it methods are compared."""
    return None if made.expected.count is None else f"{made.expected.count:,.0f}"


def _share_of(made: Figures) -> str | None:
    return None if made.expected.share is None else share(made.expected.share, 2)


def _mean_of(made: Figures) -> str | None:
    return None if made.expected.mean is None else share(made.expected.mean, 2)


# --- round bins -------------------------------------------------------------------------------------------------------


def nice(x: float) -> float:
    """Return the smallest of 1, 2, 5, 10, 20, 50, ... (and 0.1, 0.2, ...) that is not below x.

    >>> nice(7), nice(0.013), nice(200)
    (10.0, 0.02, 200.0)
    """
    power = math.floor(math.log10(x))
    options = [Fraction(step) * Fraction(10) ** power for step in (*STEPS, 10)]
    return float(next(option for option in options if option >= Fraction(x) * Fraction(999_999, 1_000_000)))


def round_width(low: float, high: float) -> float | None:
    """Return a round width for about eight bins; None if there is nothing to cut.

    >>> round_width(17, 93), round_width(0, 1_490_400), round_width(3, 3)
    (10.0, 200000.0, None)
    """
    return nice((high - low) / CLASSES) if high > low else None


def round_breaks(low: float, middle: float, high: float) -> list[float]:
    """Return round breaks: of 1, 2, 5, 10, ... those next to the middle for amounts of many sizes, else evenly spaced.

    >>> round_breaks(0, 5000, 1e9)
    [500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0, 100000.0]
    >>> round_breaks(0.3, 2, 4.2)
    [0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0]
    """
    if low >= 0 and high >= 1000 and high >= 100 * max(low, 1):
        powers = range(math.ceil(math.log10(high)) + 1)
        amounts = [float(step * 10**power) for power in powers for step in STEPS]
        inside = [x for x in amounts if low < x < high]
        centre = math.log(middle if middle > 0 else high)
        return sorted(sorted(inside, key=lambda x: abs(math.log(x) - centre))[:CLASSES])
    step = round_width(low, high)
    if step is None:
        return []
    exact = Fraction(step).limit_denominator(10**12)
    first = math.floor(low / step) + 1
    return [float(exact * k) for k in range(first, math.ceil(high / step))] or [float(exact * first)]
