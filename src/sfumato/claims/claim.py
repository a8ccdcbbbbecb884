"""A claim: what a release promises, as a value that knows its words, what must be stated with it, and its checks.

A claim says in plain words what is promised, whom we assume, and what is not covered (`Plain`), for the five lines that
people read of it (`Card`); what it costs follows from the matrices and the number of published records, which are
public. The exact statement is the guarantee itself.

One file a kind: bounds on odds (`odds`), those of several columns (`several`), beliefs by the shares of sub-tables
(`sub_tables`), the risk of linking (`linking_risk`), shares of buckets (`buckets`). A plan makes a claim; a manifest
carries it (`Manifest.claim`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from sfumato.claims.why import Step, Why, proof
from sfumato.claims.wording import todays
from sfumato.show.words import MOST_NAMED, named, of_100
from sfumato.values.computed import Facts
from sfumato.values.matrix.base import Direction
from sfumato.values.mechanism import Mechanism

Scope = Literal["any predicate", "single values"]
BOTH: tuple[Direction, ...] = ("upward", "downward")
UPWARD: tuple[Direction, ...] = ("upward",)

Strength = Literal[
    "any prior", "any prior, computed from this table", "one stated prior", "this table's own risk", "as published"
]
STRENGTHS: dict[Strength, str] = {
    "any prior": "proved for any belief beforehand, if no surer than the promise says",
    "any prior, computed from this table": (
        "proved for any belief beforehand, if no surer than the promise says; facts were computed from this table"
    ),
    "one stated prior": "proved only for one stated belief beforehand",
    "this table's own risk": "a limit on this table's own risk",
    "as published": "as published: known to fail, as the limits say",
}
"""The word that is stored, and how it is told to people."""

PER_ROW = "Per row: a person with several rows, or a second release of the same people, adds up."
NOT_OF = "Says nothing of what an adversary knows beforehand, nor of columns that are published untouched."


@dataclass(frozen=True)
class Guarantee:
    """What is guaranteed, against whom, under which prior, for which statements, how strongly; and what is not."""

    sentence: str
    adversary: str
    prior: str
    scope: Scope
    directions: tuple[Direction, ...]
    strength: Strength
    limits: tuple[str, ...]

    __pydantic_config__: ClassVar = {"extra": "forbid"}  # a manifest has it as it is; unknown keys are errors

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as plans and manifests have it."""
        return {**vars(self), "directions": list(self.directions), "limits": list(self.limits)}


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


# --- checks -----------------------------------------------------------------------------------------------------------

Status = Literal["holds", "fails", "needs audit", "not checked"]


@dataclass(frozen=True)
class Check:
    """One thing that was looked at in a release."""

    name: str
    status: Status
    detail: str


def outcome(name: str, good: bool, detail: str, otherwise: str) -> Check:
    """Return the check with what was found."""
    return Check(name, "holds" if good else "fails", detail if good else otherwise)


def needs_audit(name: str, detail: str) -> Check:
    """Return a check that only someone with the private table can make."""
    return Check(name, "needs audit", detail)


# --- the card: every promise in the same five lines, for a plan, `publish`, a README, a report and the studio ---------

QUASI_IDENTIFIERS = "quasi-identifiers (columns that others may know, such as age)"
LABELS = ("Promise", "Attacker", "Not covered", "Cost", "Strength")
MARGIN = 2 + max(map(len, LABELS))
SECOND, SEVERAL_ROWS = "a second release", "several rows of a person"
BELIEFS, UNTOUCHED = "someone surer beforehand, who may end higher", "columns published as they are"
RELATIVES = "relatives with like values"
COMPUTED = "clues from facts computed from the table"


class Plain(NamedTuple):
    """A claim in plain words: one sentence, whom we assume, and what is not covered, a few words each.

    `start`: the belief beforehand that the promise is proved for, where it is for one alone.
    """

    promise: str
    attacker: str
    gaps: tuple[str, ...]
    start: str = ""


@dataclass(frozen=True)
class Card:
    """A guarantee as it is told to people. `prior` and `not_covered` are the exact statements behind the lines."""

    promise: str
    attacker: str
    gaps: str
    cost: str
    strength: str
    prior: str
    not_covered: tuple[str, ...]

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The five lines, each with its label."""
        return tuple(zip(LABELS, (self.promise, self.attacker, self.gaps, self.cost, self.strength), strict=True))

    @property
    def lines(self) -> list[str]:
        """The five lines as plain text."""
        return [f"{label:<{MARGIN}}{text}" for label, text in self.rows]


def known_columns(names: Sequence[str]) -> str:
    """Return the columns published as they are, which others are taken to know: of a plan and of its release alike."""
    return f"{named(names)} (all columns published as they are)" if len(names) > MOST_NAMED else named(names)


def one_in(share: Fraction) -> str:
    """Return a probability as people say it.

    >>> one_in(Fraction(1, 3)), one_in(Fraction(2, 5))
    ('1 in 3', '2 in 5')
    """
    return f"{share.numerator:,} in {share.denominator:,}"


# --- what it costs, by what is public ---------------------------------------------------------------------------------


def cost_of_noise(mechanisms: Sequence[Mechanism], rows: int) -> str:
    """Return how many published values are false, and how far a count is off: of a table of so many records."""
    if len(mechanisms) == 1:
        return f"{_cost(mechanisms[0], rows)}."
    told = [f"{mechanism.domain.name}: {_short_cost(mechanism, rows)}" for mechanism in mechanisms]
    more = len(told) - MOST_NAMED + 1
    return f"{'; '.join(told if more <= 1 else [*told[: MOST_NAMED - 1], f'and {more:,} more columns'])}."


def _cost(mechanism: Mechanism, rows: int) -> str:
    error, count = typical_error(mechanism, rows), rounded(typical_count(mechanism, rows))
    off = f"a count of {count} is off by about ±{rounded(error or 0)} (standard error)"
    return f"{_single_rows(mechanism)}; {'counts have no error bars' if error is None else off}"


def _short_cost(mechanism: Mechanism, rows: int) -> str:
    error, what = (
        typical_error(mechanism, rows),
        "values are false" if mechanism.form == "value" else "sets lack the truth",
    )
    counts = "no error bars" if error is None else f"counts ±{rounded(error)}"
    return f"{_false(mechanism)} {what}, {counts}"


def _single_rows(mechanism: Mechanism) -> str:
    if mechanism.form == "value":
        return f"{_false(mechanism)} published values of {mechanism.domain.name} are false: do not use single rows"
    return f"a record shows a set of values, and {_false(mechanism)} sets lack the true one"


def _false(mechanism: Mechanism) -> str:
    """Return how many of 100 records are published without their true value, by the value or the sub-table."""
    lost = 1 - np.concatenate([table.matrix.holds_truth for table in mechanism.tables])
    return of_100(float(lost.min()), float(lost.max()))


def typical_count(mechanism: Mechanism, rows: int) -> float:
    """Return how many records have a value, where all values that are published are equally frequent."""
    return rows / len({code for table in mechanism.tables for code in table.codes.tolist()})


def typical_error(mechanism: Mechanism, rows: int) -> float | None:
    """Return the standard error of a count, as a root of mean squares over all values; None: there is no inverse.

    Of a table in which all values of a sub-table are equally frequent: the true shares are not public.
    """
    sizes = [table.codes.size for table in mechanism.tables]
    quotas = tuple(np.full(size, rows / sum(sizes)) for size in sizes)
    variance = mechanism.variance(quotas)
    return None if variance is None else math.sqrt(float(variance.mean()))


def rounded(number: float) -> str:
    """Return a number with two digits.

    >>> rounded(290.1), rounded(0.034), rounded(12345.0)
    ('290', '0.034', '12,000')
    """
    if number < 10:
        return f"{number:.2g}"
    step = 10 ** (math.floor(math.log10(number)) - 1)
    return f"{round(number / step) * step:,}"


# --- claims -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Shape:
    """What a promise depends on besides the claim: the matrices, how many records are withheld, what was computed."""

    mechanisms: tuple[Mechanism, ...] = ()
    withheld: int = 0
    computed: Facts = ()


@dataclass(frozen=True, kw_only=True)
class Published(Shape):
    """What a manifest states, as far as a claim has a say in it."""

    is_misnamed: bool  # whether the method goes by the name of another kind
    assurance: str
    guarantee: Guarantee
    second_release: str
    columns: tuple[str, ...]
    shuffled: bool
    discloses_frequencies: bool
    due_facts: frozenset[str]  # that other keys say were computed from the table
    dealt_within: tuple[str, ...]  # of buckets
    contradictions: tuple[str, ...]  # keys that do not fit others, whatever is claimed


class Claim(ABC):
    """What every kind of claim answers. Most matrices and buckets are computed from the table's own frequencies."""

    rests_on: ClassVar[str]
    """What the guarantee follows from, in words."""
    rechecked: ClassVar[str]
    """What `sfumato verify` re-checks, and what it cannot see, in words."""
    undone_by_seed: ClassVar[str] = "undo the noise"
    """What anyone can do who knows a test seed."""
    always_shuffled: ClassVar[bool] = False

    @abstractmethod
    def guarantee(self, shape: Shape) -> Guarantee:
        """Return what is promised by a release of this shape."""

    @abstractmethod
    def plain(self, shape: Shape) -> Plain:
        """Return the same in plain words, for the card."""

    @abstractmethod
    def why(self, shape: Shape) -> Iterator[Step]:
        """Yield how the promise gives the matrices or buckets, in formulas with the numbers put in."""

    def cost(self, shape: Shape, rows: int) -> str:
        """Return what a release of so many records costs analysts, by what is public, for the card."""
        return cost_of_noise(shape.mechanisms, rows)

    @abstractmethod
    def facts(self) -> Facts:
        """Return what such a release shows that was computed from the table, at least."""

    @abstractmethod
    def second_release(self, shape: Shape, *, keyed: bool) -> str:
        """Return what a second release of the same people adds; `keyed`: records keep their draws."""

    @abstractmethod
    def fits(self, published: Published) -> dict[str, bool]:
        """Return for each key of a manifest that the claim has a say in whether it is as the claim has it.

        "method", if it is there: whether the release is made as the claim takes it to be.
        """

    def second_releases(self, shape: Shape) -> set[str]:
        """Return all that may be stated of a second release; nothing: anything."""
        return {self.second_release(shape, keyed=keyed) for keyed in (False, True)}

    def discloses(self) -> bool:
        """Whether what is published was computed from the table's own frequencies, which it then tells."""
        return True

    def checks(self, published: Published) -> Iterator[Check]:
        """Yield what is checked on what is stated: the statement itself, and bounds on the integers."""
        yield as_stated(self, published)

    def unseen(self, withheld: int) -> Iterator[Check]:
        """Yield what of the claim only an audit with the private table can show."""
        yield from ()


def card_of(claim: Claim, shape: Shape, stated: Guarantee, *, rows: int, known: str = "") -> Card:
    """Return the card of a claim: `stated` as its plan or manifest has it, `known` names columns others may know."""
    plain = claim.plain(shape)
    return Card(
        promise=plain.promise,
        attacker=plain.attacker.replace(QUASI_IDENTIFIERS, known) if known else plain.attacker,
        gaps=f"{'; '.join(plain.gaps)}.",
        cost=claim.cost(shape, rows),
        strength=_strength(stated, plain),
        prior=stated.prior,
        not_covered=stated.limits,
    )


def why_of(claim: Claim, shape: Shape, method: str) -> Why:
    """Return why the promise of a method holds, for `--why`."""
    return Why(tuple(claim.why(shape)), proof(method))


def _strength(stated: Guarantee, plain: Plain) -> str:
    start = f": {plain.start}" if plain.start and stated.strength == "one stated prior" else ""
    return f"{STRENGTHS[stated.strength]}{start}"


def as_stated(claim: Claim, published: Published) -> Check:
    """Check that the stated guarantee, and what else is stated, is what follows from the claim."""
    wrong = list(dict.fromkeys(_wrong(claim, published)))
    return outcome(
        "guarantee, as stated",
        not wrong,
        f"It is what follows from {claim.rests_on}.",
        f"Not what follows from {claim.rests_on}: {', '.join(wrong)}.",
    )


def _wrong(claim: Claim, published: Published) -> Iterator[str]:
    own = claim.fits(published)
    if published.is_misnamed or not own.get("method", True):
        yield "method"
        return
    yield from differing(published.guarantee, claim.guarantee(published))
    seconds = claim.second_releases(published)
    fits = {
        "shuffled": published.shuffled or not claim.always_shuffled,
        "computed_from_table": {*claim.facts(), *published.due_facts} <= set(published.computed),
        "second_release": not seconds or _is_among(published.second_release, seconds),
        "discloses_frequencies": published.discloses_frequencies == claim.discloses(),
    }
    yield from (key for checked in (own, fits) for key, good in checked.items() if not good)
    yield from published.contradictions


def differing(stated: Guarantee, due: Guarantee) -> list[str]:
    """Return the parts in which a stated guarantee is not the one that is due; it may have more limits."""
    parts = ("sentence", "adversary", "prior", "scope", "directions", "strength")
    wrong = [part for part in parts if not _is_among(getattr(stated, part), (getattr(due, part),))]
    lacks = set(due.limits) - set(stated.limits)
    return [*wrong, "limits"] if lacks and lacks - set(map(todays, stated.limits)) else wrong


def _is_among(stated: Any, due: Collection[Any]) -> bool:
    """Whether what is stated is due; an older manifest states it in the words of its time."""
    return stated in due or (isinstance(stated, str) and todays(stated) in due)
