"""A plan: what will be done with a table and what is promised. Private to the publisher until it is carried out.

There is one class of plans; what differs between methods is in `Plan.figures`. `Plan.explain()` says it all in words;
`Plan.to_json()` is what `publish --plan` takes back, bound to the table and the policy by their hashes.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Protocol, Self, TypeVar

from pydantic import BaseModel, Field, TypeAdapter

from sfumato.claims.claim import Card, Claim, Guarantee, Shape, card_of, known_columns, why_of
from sfumato.claims.odds import assumed
from sfumato.claims.why import Why
from sfumato.errors import Infeasible, PlanMismatch
from sfumato.show.results import Drawn, Private
from sfumato.show.screen import Screen
from sfumato.values.arrays import Assurance, FloatArray
from sfumato.values.attributes import Domain
from sfumato.values.computed import ROW_ORDER, Facts, listed
from sfumato.values.mechanism import Mechanism
from sfumato.values.profile import Profile, Uniqueness
from sfumato.values.requirement import Requirement
from sfumato.values.steps import RowStep

PLAN_VERSION = 1
MOST_ROWS = 1 << 48
SHOWN_VALUES = 15
"""How many values an explanation lists; the JSON has all."""

Value = TypeVar("Value")


@dataclass(frozen=True)
class Expected:
    """What analysts are off by, as a root of mean squares, for a table; None: no formula tells it, or no order."""

    count: float | None = None  # of a value, over all values
    share: float | None = None  # of records up to a value, over all values but the highest
    mean: float | None = None  # of the places in the order, as a part of their range


class Stating(Protocol):
    """What a plan asks of its method, of what is stated with the plan."""

    @property
    def name(self) -> str: ...

    @property
    def assurance(self) -> Assurance: ...

    def facts(self, figures: Any) -> Facts: ...

    def limits(self, figures: Any) -> tuple[str, ...]: ...


class Figures(ABC):
    """What one kind of methods plans: the numbers, and how they are said, written, drawn and checked again."""

    claim: Claim
    mechanisms: tuple[Mechanism, ...]  # none: records are published in buckets
    if_alone: ClassVar[str]
    """What it means that a record is alone with its quasi-identifiers."""
    drawn: ClassVar[tuple[str, ...]]
    """The columns of `to_arrow` that a picture shows."""

    @property
    def hidden(self) -> tuple[Domain, ...]:
        """The columns that are hidden, with their values."""
        return tuple(part for mechanism in self.mechanisms for part in mechanism.domain.parts)

    @property
    def exact(self) -> bool:
        """Whether the numbers are those of the release."""
        return True

    @property
    def is_drawn(self) -> bool:
        """Whether chance decided some of the numbers, which hides something of the table."""
        return False

    @property
    def total_withheld(self) -> int:
        """How many records are not published."""
        return 0

    @property
    def value_counts(self) -> Mapping[tuple[Any, ...], int] | None:
        """How many published records have each value, where a release lists them; None where only the draw tells."""
        return None

    @property
    def record_utility(self) -> float | None:
        """The expected share of records with no value changed; None: all published values are true."""
        return None

    @property
    def total_variation(self) -> float | None:
        """Expected total variation between the true and the estimated distribution, where one is estimated."""
        return None

    @property
    def standard_error(self) -> FloatArray | None:
        """The expected standard error of each estimated count, for this table; None where there is none."""
        return None

    @property
    def expected(self) -> Expected:
        """What analysts are off by, where a formula tells it."""
        return Expected()

    @property
    def binds(self) -> tuple[str, ...]:
        """What keeps the plan from being better, a sentence each, the first ones; nothing where nothing is known."""
        return ()

    @abstractmethod
    def steps(self, plan: Plan, counted: Profile | None) -> tuple[RowStep, ...]:
        """Return what is done with the rows; `counted` where the table was counted again."""

    @abstractmethod
    def meets(self, requirement: Requirement, asked: object) -> bool:
        """Whether the plan is for a requirement and for what `Method.asked` gives."""

    def require(self, plan: Plan) -> None:  # noqa: B027
        """Raise unless the numbers keep the bounds that they come with: a plan file can be changed."""

    def recheck(self, plan: Plan, profile: Profile) -> None:  # noqa: B027
        """Raise unless the plan keeps what it promises for a table as it is counted now."""

    def announced(self) -> str:
        """Return what a formula tells before anything is published; nothing if there is none."""
        return ""

    @abstractmethod
    def explained(self, plan: Plan) -> Iterator[list[str]]:
        """Yield the parts of an explanation as lines: first what will happen, then what binds and what it costs."""

    @abstractmethod
    def to_arrow(self) -> Any:
        """Return a row for each value, or column."""

    @abstractmethod
    def to_dict(self, plan: Plan) -> dict[str, Any]:
        """Return the figures, with what plans of all methods have, as JSON takes it. Keys: docs/reference/json.md."""

    @classmethod
    @abstractmethod
    def from_dict(cls, raw: dict[str, Any]) -> Self:
        """Return the figures of a plan file."""


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Plan(Private, Drawn):
    """What will be done with a table. It holds counts of the table: it tells its size, and more where asked."""

    method: str
    assurance: str
    rows: int  # of the table, published or withheld
    figures: Figures
    guarantee: Guarantee
    shuffle: bool = True
    notes: tuple[str, ...] = ()
    dropped: int = 0
    observed: tuple[str, ...] = ()
    computed_from_table: Facts = ()
    table_hash: str = ""
    policy_hash: str = ""
    uniqueness: Uniqueness | None = None
    published: tuple[str, ...] = ()  # the table's columns that a release shows, with noise or as they are
    seeded: bool = False  # whether a test seed decided something that is planned
    from_file: bool = False  # then nothing of it is believed that can be derived

    @classmethod
    def of(
        cls,
        profile: Profile,
        method: Stating,
        figures: Figures,
        notes: Iterable[str],
        *,
        keeps_order: bool = False,
    ) -> Plan:
        """Return the plan of a method, with what all methods state alike."""
        if keeps_order:
            check_order(profile)
        computed, guarantee = stated(method, figures, profile.computed_from_table, keeps_order)
        return cls(
            method=method.name,
            assurance=method.assurance,
            rows=profile.rows,
            figures=figures,
            guarantee=guarantee,
            shuffle=not keeps_order,
            notes=(*([assumed(figures.mechanisms)] if profile.keyed else []), *notes),
            dropped=profile.dropped,
            observed=profile.observed,
            computed_from_table=computed,
            uniqueness=profile.uniqueness,
            published=profile.published,
        )

    @property
    def claim(self) -> Claim:
        """What is promised, as a value."""
        return self.figures.claim

    @property
    def card(self) -> Card:
        """What is promised, in the five lines that people read."""
        withheld = self.figures.total_withheld
        hidden = {part.name for part in self.figures.hidden}
        known = [name for name in self.published if name not in hidden]  # as the manifest of the release has it
        return card_of(self.claim, self._shape, self.guarantee, rows=self.rows - withheld, known=known_columns(known))

    @property
    def _shape(self) -> Shape:
        return Shape(self.mechanisms, self.figures.total_withheld, self.computed_from_table)

    @property
    def why(self) -> Why:
        """Why the promise gives these matrices or buckets: formulas with the numbers put in."""
        return why_of(self.claim, self._shape, self.method)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """The mechanisms that randomize columns; none: records are published in buckets."""
        return self.figures.mechanisms

    @property
    def discloses_frequencies(self) -> bool:
        """Whether what is published was computed from the table's own frequencies."""
        return self.claim.discloses()

    @property
    def draws_each_row(self) -> bool:
        """Whether what becomes of a row depends on its own words alone: sub-tables and buckets are dealt to all."""
        return bool(self.mechanisms) and all(mechanism.label is None for mechanism in self.mechanisms)

    @property
    def is_drawn(self) -> bool:
        """Whether chance decided something that is planned: a plan that is made again is another one."""
        return self.figures.is_drawn

    @property
    def from_table(self) -> bool:
        """Whether anything that is published was computed from the table."""
        return bool(self.computed_from_table)

    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows; `counted` where the table was counted again."""
        return self.figures.steps(self, counted)

    def bound_to(self, table_hash: str, policy_hash: str) -> Plan:
        """Return the plan, valid only for this table and policy."""
        return replace(self, table_hash=table_hash, policy_hash=policy_hash)

    def require(self, table_hash: str, policy_hash: str) -> None:
        """Raise unless table and policy are the ones that were signed off, and the plan keeps its own bounds."""
        for what, signed, now in (
            ("policy", self.policy_hash, policy_hash),
            ("table", self.table_hash, table_hash),
        ):
            if signed != now:
                raise PlanMismatch(
                    f"The {what} is not the one that was planned: its hash is {now[:12]}, the plan's {signed[:12]}.",
                    f"Plan again with the {what} as it is now, and have the new plan signed off.",
                )
        self.figures.require(self)

    @property
    def number(self) -> str:
        """What people call the plan by: the beginning of the hash that seals it."""
        return str(self.to_dict()["plan_hash"])[:12]

    # --- words ----------------------------------------------------------------------------------------------------

    def summary(self) -> Screen:
        """Return the first screen: what will happen, what is promised at what cost, and what to decide."""
        _, *what = next(self.figures.explained(self))
        first = f"Plan for {self.rows:,} records by {self.method}, {self.assurance}. Nothing is published yet."
        head = (first, *what, "", *self.card.lines)
        facts = [listed(self.computed_from_table)] if self.computed_from_table else []
        points = [*self._alone(), *facts, *self.notes]
        decide, know = ([p for p in points if _is_to_know(p) == known] for known in (False, True))
        return Screen(head, tuple(know), "To decide" if decide else "To know", must=tuple(decide))

    def explain(self) -> str:
        """Return, in plain words, what will happen to the table, why, and at what cost."""
        what, *more = self.figures.explained(self)
        notes = ["Notes", *(f"  - {note}" for note in self.notes)]
        parts = [[*what, *self._alone()], self.card.lines, self._promised(), *more, notes]
        return "\n\n".join("\n".join(part) for part in parts if part)

    def _alone(self) -> Iterator[str]:
        """Yield how many records can be found, if that was counted."""
        if found := self.uniqueness:
            yield f"{found.sentence} {self.figures.if_alone if found.unique_records else ''}".rstrip()

    def _promised(self) -> list[str]:
        """Return the exact statement behind the card, as the manifest has it."""
        stated, computed = self.guarantee, self.computed_from_table
        lines = [
            stated.sentence,
            f"Attacker: {stated.adversary}",
            f"Belief beforehand: {stated.prior}",
            f"Holds for {stated.scope}, {' and '.join(stated.directions)}.",
            *([listed(computed)] if computed else []),
            *(f"Not covered: {limit}" for limit in stated.limits),
        ]
        return ["The promise in exact terms", *(f"  {line}" for line in lines)]

    def __repr__(self) -> str:
        return f"Plan({self.method}, {self.assurance}, {self.rows:,} records; private)"

    @property
    def _figures(self) -> tuple[str, ...]:
        return self.figures.drawn

    def to_arrow(self) -> Any:
        """Return a row for each value: its records, and how it is kept. Of randomized response one for each column."""
        return self.figures.to_arrow()

    # --- JSON -----------------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; infinite numbers are null. Keys: docs/reference/json.md.

        Its hash seals it: what was signed off is what is published.
        """
        content = {
            "plan_version": PLAN_VERSION,
            "method": self.method,
            "assurance": self.assurance,
            **self.figures.to_dict(self),
            "uniqueness": self.uniqueness,
            "published": self.published,
            "table_hash": self.table_hash,
            "policy_hash": self.policy_hash,
        }
        plain: dict[str, Any] = json.loads(json.dumps(content, default=asdict))
        return plain | {"plan_hash": content_hash(plain)}

    def told(self) -> dict[str, Any]:
        """Return what the release tells of the table, for `to_dict`."""
        return {
            "notes": self.notes,
            "observed": self.observed,
            "discloses_frequencies": self.discloses_frequencies,
            "computed_from_table": self.computed_from_table,
            "from_table": self.from_table,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any], figures: Figures) -> Plan:
        """Return the plan of what `to_dict` gave."""
        return cls(**vars(_Stated.model_validate(raw)), figures=figures, from_file=True)


class _Stated(BaseModel):
    """What every plan file has, with its kinds and limits."""

    method: str
    assurance: Assurance
    rows: int = Field(strict=True, ge=1, le=MOST_ROWS)
    guarantee: Guarantee
    shuffle: bool = Field(strict=True)
    notes: tuple[str, ...]
    dropped: int = Field(strict=True, ge=0, le=MOST_ROWS)
    observed: tuple[str, ...]
    computed_from_table: tuple[str, ...]
    table_hash: str = Field(max_length=64)
    policy_hash: str = Field(max_length=64)
    uniqueness: Uniqueness | None
    published: tuple[str, ...] = ()
    seeded: bool = Field(default=False, strict=True)


TO_KNOW = re.compile(
    r"(?:[^:.]+: )?"  # the column that a note is about
    r"(?:No |0 of |All published values are true|Answers refer to|For this table|The parameters are|Noise in "
    r"|With a prior|Someone who knows how)"
)
"""What notes begin with that ask for no decision: nothing was found, or what analysts will see."""


def _is_to_know(note: str) -> bool:
    """Whether a note asks for no decision: it comes last, and may be left to the details."""
    return TO_KNOW.match(note) is not None


def content_hash(content: dict[str, Any]) -> str:
    """Return the hash that seals a plan's content."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def restored(kind: type[Value], raw: object) -> Value:
    """Return a value of numbers and texts, also nested ones, as JSON has it."""
    return TypeAdapter(kind).validate_python(raw)


def stated(method: Stating, figures: Figures, known: Facts, keeps_order: bool) -> tuple[Facts, Guarantee]:
    """Return what was computed from the table, and the guarantee: both follow from method, figures and policy alone.

    `known`: what every release of the table shows, whatever the method.
    """
    order = (ROW_ORDER,) if keeps_order else ()
    computed = (*known, *figures.claim.facts(), *method.facts(figures), *order)
    of_claim = figures.claim.guarantee(Shape(figures.mechanisms, figures.total_withheld, computed))
    return computed, replace(of_claim, limits=(*of_claim.limits, *method.limits(figures)))


def check_order(profile: Profile) -> None:
    """Raise if the order of the rows, which is to be kept, tells of the sensitive value.

    Whether the rows keep their order is the policy's choice, never the table's: a flag that a test on the secret
    decides publishes the result of the test. But a refusal is such a test too, so that a release in the table's order
    lists the order among what was computed from the table.
    """
    if profile.order.dependent:
        raise Infeasible(
            f"The rows cannot keep their order: {profile.order.statement[0].lower()}{profile.order.statement[1:]}",
            'Say order = "shuffle" in [output], or leave it out: rows are then published in a random order.',
        )
