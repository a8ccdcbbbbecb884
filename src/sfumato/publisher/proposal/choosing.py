"""Which method, requirement and bins to propose for a table: what can be promised, and what counts would be off by."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import CannotMeet, UsageError
from sfumato.methods.method import Method
from sfumato.methods.plan import Figures
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.uniform import Uniform
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
MUCH_BETTER = 0.5  # what is left of that error where another method is proposed in place of uniform
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
class Choice:
    """A method and a requirement, and what they mean for the table. `asked` None: nothing useful can be promised."""

    method: Method
    profile: Profile
    asked: tuple[Fraction, Fraction] | None  # rho1 and rho2
    made: Figures | None = None  # by the method
    instead_of: Figures | None = None  # those of uniform, where it is not what is proposed

    @property
    def share(self) -> float:
        """The share of the most frequent value."""
        return float(self.profile.frequency.max())

    @property
    def values(self) -> int:
        return self.profile.domain.size

    def about_method(self) -> Iterator[str]:
        if self.instead_of is None:
            yield (
                "uniform: every value is kept with the same probability, and the promise holds for any statement about "
                'a record. "fine-grain" can protect some values more than others, and holds for single values.'
            )
        else:
            yield (
                f"small-domain: records are dealt to sub-tables with few values each. With {self.values:,} values "
                f"uniform would leave next to nothing: {self._off(self.instead_of)}. Its promise would be stronger, "
                "though: small-domain's is for someone who expects the shares of a sub-table."
            )
        if self.made is not None:
            yield f"Expected on this table: {self._off(self.made)}."
        if self.is_useless:
            yield (
                f"THAT IS MOSTLY NOISE: with {self.values:,} values most counts cannot be told from it. Fewer, "
                "broader values help more than any setting here: bins, or values merged before publishing. Or publish "
                "in groups, see below."
            )

    @property
    def is_useless(self) -> bool:
        """Whether the estimated distribution would be mostly noise."""
        return self.made is not None and (self.made.total_variation is None or self.made.total_variation > USELESS)

    def _off(self, made: Figures | None) -> str:
        """Say what the count of the most frequent value would be off by."""
        if made is None or made.standard_error is None:
            return "no count can be estimated"
        code = int(self.profile.counts.argmax())
        return (
            f"the count of the most frequent value, {int(self.profile.counts[code]):,}, is off by about "
            f"{made.standard_error[code]:,.0f}"
        )

    def about_requirement(self) -> Iterator[str]:
        if self.asked is None:
            yield (
                f"{self.share:.1%} of the records have one value: whoever guesses it is right that often before they "
                "see anything, and no promise about it can be of use. Choose other breaks, so that no bin has more "
                "than half of the records; or protect rare values only; or choose another column."
            )
            return
        yield (
            "Whoever believes a value of a record with at most rho1 must not believe it with more than rho2 after "
            f"seeing the release. rho1: the most frequent value has {self.share:.1%}, rounded up. rho2: at most three "
            "times that, and so that no odds rise more than fivefold. HOW MUCH MAY BE LEARNED IS YOUR DECISION."
        )
        if self.made is not None:
            yield (
                f"On this table: odds change by at most the factor {float(amplification(*self.asked)):.3g}, and "
                f"{self.made.record_utility:.1%} of the records stay unchanged."
            )
        if self.values > MANY_VALUES:
            yield (
                f"{self.values:,} values are many: noise spreads over all of them, and little of each record is left. "
                "Fewer, broader values help more than any setting here."
            )


def choose(profile: Profile) -> Choice:
    nothing = Choice(Uniform(), profile, None)
    if nothing.share > MOST_IN_ONE:
        return nothing
    asked, values = requirement(nothing.share), nothing.values
    if values > MOST_PLANNED:
        return Choice(Uniform(), profile, asked)
    uniform = _planned(profile, Uniform(), asked)
    chosen = Choice(Uniform(), profile, asked, uniform)
    if not chosen.is_useless:
        return chosen
    dealt = _planned(profile, SmallDomain(), asked) if values <= MOST_DEALT else None
    if dealt is None or _error(dealt) > MUCH_BETTER * _error(uniform):
        return chosen
    return Choice(SmallDomain(), profile, asked, dealt, uniform)


def _planned(profile: Profile, method: Method, asked: tuple[Fraction, Fraction]) -> Figures | None:
    try:
        return method.plan(profile, RhoPrivacy(*asked)).figures
    except (CannotMeet, UsageError):
        return None


def _error(made: Figures | None) -> float:
    return float("inf") if made is None or made.total_variation is None else made.total_variation


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
