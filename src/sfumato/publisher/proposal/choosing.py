"""Which method and which requirement to propose for a table: what can be promised, and what counts would be off by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from sfumato.errors import CannotMeet, UsageError
from sfumato.methods.method import Method
from sfumato.methods.plan import Plan
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.uniform import Uniform
from sfumato.publisher.proposal import figures
from sfumato.values.profile import Profile
from sfumato.values.requirement import RhoPrivacy

MOST_IN_ONE = 0.9
"""Share of the most frequent value above which no promise about it is of use."""
USELESS = 0.25
"""Expected total variation above which the estimated distribution is mostly noise."""
MUCH_BETTER = 0.5
"""What is left of that error where another method is proposed in place of uniform."""
MOST_PLANNED = 20_000
MOST_DEALT = 2_000
"""For larger domains uniform, or sub-tables, are not tried: such a plan costs many seconds."""
MANY_VALUES = 20


@dataclass(frozen=True)
class Choice:
    """A method and a requirement, and what they mean for the table. `asked` None: nothing useful can be promised."""

    method: Method
    share: float  # of the most frequent value
    values: int
    asked: figures.RoundRequirement | None
    made: Plan | None = None  # by the method
    uniform: Plan | None = None

    def about_method(self) -> Iterator[str]:
        """Say why this method."""
        if isinstance(self.method, Uniform):
            yield (
                "uniform: every value is kept with the same probability, and the promise holds for any statement about "
                'a record. "fine-grain" can protect some values more than others, and holds for single values.'
            )
        else:
            yield (
                f"small-domain: records are dealt to sub-tables with few values each. With {self.values:,} values "
                f"uniform would leave next to nothing: {_off(self.uniform)}. Its promise would be stronger, though: "
                "small-domain's is for someone who expects the shares of a sub-table."
            )
        if self.made is not None:
            yield f"Expected on this table: {_off(self.made)}."
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

    def about_requirement(self) -> Iterator[str]:
        """Say why this requirement."""
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
                f"On this table: odds change by at most the factor {self.asked.gamma:.3g}, and "
                f"{self.made.record_utility:.1%} of the records stay unchanged."
            )
        if self.values > MANY_VALUES:
            yield (
                f"{self.values:,} values are many: noise spreads over all of them, and little of each record is left. "
                "Fewer, broader values help more than any setting here."
            )


def choose(profile: Profile) -> Choice:
    """Return what to propose."""
    share, values = float(profile.frequency.max()), profile.domain.size
    if share > MOST_IN_ONE:
        return Choice(Uniform(), share, values, None)
    asked = figures.requirement(share)
    if values > MOST_PLANNED:
        return Choice(Uniform(), share, values, asked)
    uniform = _planned(profile, Uniform(), asked)
    chosen = Choice(Uniform(), share, values, asked, uniform, uniform)
    if not chosen.is_useless:
        return chosen
    dealt = _planned(profile, SmallDomain(), asked) if values <= MOST_DEALT else None
    if dealt is None or _error(dealt) > MUCH_BETTER * _error(uniform):
        return chosen
    return Choice(SmallDomain(), share, values, asked, dealt, uniform)


def _planned(profile: Profile, method: Method, asked: figures.RoundRequirement) -> Plan | None:
    requirement = RhoPrivacy(Fraction(asked.rho1, 1000), Fraction(asked.rho2, 1000))
    try:
        made = method.plan(profile, requirement)
    except (CannotMeet, UsageError):
        return None
    return made if isinstance(made, Plan) else None


def _error(made: Plan | None) -> float:
    return float("inf") if made is None or made.total_variation is None else made.total_variation


def _off(made: Plan | None) -> str:
    """Say what the count of the most frequent value would be off by."""
    if made is None or made.standard_error is None:
        return "no count can be estimated"
    code = int(made.counts.argmax())
    return (
        f"the count of the most frequent value, {int(made.counts[code]):,}, is off by about "
        f"{made.standard_error[code]:,.0f}"
    )
