"""What Anatomy, also after suppression, and robust Anatomy plan: which records are published, in how many groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.plan import SHOWN_VALUES, Figures, Plan, restored
from sfumato.methods.robustness.figures import RobustFigures
from sfumato.methods.robustness.prior import Prior
from sfumato.methods.robustness.rehearsal import assign
from sfumato.methods.suppression.figures import SuppressionFigures
from sfumato.show.results import columns_table
from sfumato.show.words import share
from sfumato.values.arrays import IntArray, array_of
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.mechanism import domains, read_domains
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.requirement import Requirement
from sfumato.values.steps import Assigned, Dealt, RowStep, Separate


@dataclass(frozen=True, eq=False)
class BucketFigures(Figures):
    """Which records are published, and in how many groups."""

    claim: BucketClaim
    domain: SensitiveDomain
    counts: IntArray  # records of each value
    withheld: IntArray  # of them, those that are not published; which ones is drawn. Robust Anatomy: in a rehearsal
    groups: int  # how many; robust Anatomy: in a rehearsal
    counts_hash: str  # of the table that was counted: for robust Anatomy the joint table
    priors: tuple[Prior, ...] = ()  # of each attribute set, where there is a prior
    suppression: SuppressionFigures | None = None
    robustness: RobustFigures | None = None

    mechanisms = ()
    if_alone = (
        "Someone who knows these finds the record and its group; only the other records of the group protect it. "
        "Coarser bins help."
    )
    drawn = ("records", "withheld")

    @property
    def rows(self) -> int:
        """The records of the table, published or withheld."""
        return int(self.counts.sum())

    @property
    def published(self) -> IntArray:
        """The published records of each value."""
        return self.counts - self.withheld

    @property
    def total_withheld(self) -> int:
        """How many records are not published."""
        return int(self.withheld.sum())

    @property
    def exact(self) -> bool:
        """Whether the numbers are those of the release. With a prior, guests depend on the draw: see `Rehearsal`."""
        return not self.priors

    @property
    def is_drawn(self) -> bool:
        """Whether it was drawn which values lose how many records."""
        return self.suppression is not None and self.total_withheld > 0

    @property
    def value_counts(self) -> Mapping[tuple[Any, ...], int] | None:
        """The published records of each value, by the values of all columns; without those that no record has."""
        if not self.exact:
            return None
        values = product(*(part.values for part in self.domain.parts))
        return {value: number for value, number in zip(values, self.published.tolist(), strict=True) if number}

    @property
    def hidden(self) -> tuple[Domain, ...]:
        """The sensitive columns."""
        return self.domain.parts

    def require(self, plan: Plan) -> None:
        """Raise unless there are numbers for every value, which make up the table."""
        if not self.counts.size == self.withheld.size == self.domain.size or self.rows != plan.rows:
            raise PlanMismatch("The plan's numbers of records do not make up its table.", "Plan again.")

    def steps(self, plan: Plan, counted: Profile | None) -> tuple[RowStep, ...]:
        if counted is None:
            self._check_numbers()
            return (Separate(self.domain, Dealt(self.counts, self.withheld, self.groups)),)
        deal = partial(assign, self.claim, self.priors, counted)
        return (Separate(self.domain, Assigned(counted.domain, self.rows, deal)),)

    def _check_numbers(self) -> None:
        """Raise unless the groups can keep their bound: no value twice in a group, and each with l records at least."""
        kept, least = self.published, self.claim.at_most.denominator
        possible = (kept >= 0).all() and (self.withheld >= 0).all()
        if not possible or self.groups < 1 or kept.max() > self.groups or kept.sum() < least * self.groups:
            raise PlanMismatch("The plan's numbers of records and groups do not keep its own bound.", "Plan again.")

    def meets(self, requirement: Requirement, asked: object) -> bool:
        return asked == self.claim

    def recheck(self, plan: Plan, profile: Profile) -> None:
        """Raise unless the table is the one that was planned: buckets are found for all its records together."""
        if counts_hash(profile) != self.counts_hash:
            raise PlanMismatch(
                "The table is not the one that was planned: it has other values, or other numbers of them.",
                "Plan again with the table as it is now.",
            )

    # --- words --------------------------------------------------------------------------------------------------------

    def announced(self) -> str:
        """Return how many records the formula of robust Anatomy says are left over."""
        return self.robustness.leftover_line(self.claim, self.rows) if self.robustness else ""

    def explained(self, plan: Plan) -> Iterator[list[str]]:
        yield list(self._what(plan))
        if self.suppression:
            yield list(self.suppression.explained(self.claim, self.domain, self.counts, self.total_withheld))
        if self.robustness:
            yield list(self.robustness.explained(self.claim, self.rows, self.total_withheld, self.groups, self.exact))
        yield list(self._values())

    def _what(self, plan: Plan) -> Iterator[str]:
        withheld, name = self.total_withheld, self.domain.name
        published = (
            f"{withheld:,} of them ({share(withheld / self.rows, 2)}) are withheld, the others" if withheld else "All"
        )
        if not self.exact:
            published = f"In a rehearsal {published[0].lower()}{published[1:]}"
        merged = self.robustness and self.claim.assurance == "as-published"
        yield (
            f"{self.rows:,} records; {name} has {self.domain.size:,} values. "
            f"Method {plan.method}, assurance {plan.assurance}."
        )
        yield (
            f"{published} are {'merged bottom-up' if merged else 'dealt at random'} to {self.groups:,} groups"
            f"{self._size()}{'' if self.exact else '; the release has about as many'}. Two tables are published. "
            "One has each record's group and its other columns, which stay as they are, but for bins and merged "
            f"values. The other has each group's values of {name}, which are true. Which record of a group has which "
            "value is hidden."
        )

    def _size(self) -> str:
        """How large groups are, where the deal makes them all alike, and what they have in common."""
        if self.robustness:
            mixed, columns = self.robustness.mixed, ", ".join(self.claim.dealt_within)
            return "" if mixed else f" of records with the same {columns}"
        least, over = divmod(int(self.published.sum()), self.groups)
        return f" of {f'{least} or {least + 1}' if over else least} records, none with a value twice"

    def _values(self) -> Iterator[str]:
        more = self.domain.size - SHOWN_VALUES
        head = "Values, the most frequent first" + (f" ({more:,} more in --json)" if more > 0 else "")
        yield head if self.exact else f"{head}; withheld and published: in the rehearsal"
        yield f"  {'value':24} {'records':>10} {'share':>8} {'withheld':>10} {'published':>10} {'share':>8}"
        published, total = self.published, max(1, self.rows - self.total_withheld)
        for c in np.argsort(-self.counts, kind="stable")[:SHOWN_VALUES]:
            yield (
                f"  {self.domain.labels[c][:24]:24} {self.counts[c]:>10,} {share(self.counts[c] / self.rows, 2):>8} "
                f"{self.withheld[c]:>10,} {published[c]:>10,} {share(published[c] / total, 2):>8}"
            )
        if self.total_withheld:
            yield (
                f"  One value has {share(int(self.withheld.max()) / self.total_withheld)} of the withheld records: "
                "someone who knows the value of one missing person, such as their own, can tell that of others."
            )

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each value: its records, and how many of them are withheld."""
        figures = {"records": self.counts, "withheld": self.withheld}
        return columns_table(self.domain.columns(self.domain.codes), figures)

    def to_dict(self, plan: Plan) -> dict[str, Any]:
        return {
            "sensitive": self.claim.sensitive,
            "at_most": str(self.claim.at_most),
            "variant": self.claim.variant,
            "always": self.claim.always,
            "attribute_sets": self.claim.attribute_sets,
            "prior": self.claim.prior,
            "rows": plan.rows,
            "dropped": plan.dropped,
            "counts": self.counts.tolist(),
            "withheld": self.withheld.tolist(),
            "groups": self.groups,
            "suppression": self.suppression,
            "robustness": self.robustness,
            "guarantee": plan.guarantee.to_dict(),
            "shuffle": plan.shuffle,
            "seeded": plan.seeded,
            **plan.told(),
            "parts": domains(self.domain),
            "priors": [prior.to_dict() for prior in self.priors],
            "counts_hash": self.counts_hash,
        }

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> BucketFigures:
        suppression, robustness = raw["suppression"], raw["robustness"]
        return cls(
            claim=BucketClaim(
                method=raw["method"],
                assurance=raw["assurance"],
                sensitive=restored(tuple[str, ...], raw["sensitive"]),
                at_most=Fraction(raw["at_most"]),
                variant=raw["variant"],
                attribute_sets=restored(tuple[tuple[str, ...], ...], raw["attribute_sets"]),
                prior=raw["prior"],
                always=raw["always"],
            ),
            domain=read_domains(raw["parts"]),
            counts=array_of(raw["counts"], np.int64),
            withheld=array_of(raw["withheld"], np.int64),
            groups=raw["groups"],
            counts_hash=raw["counts_hash"],
            priors=tuple(map(Prior.from_dict, raw["priors"])),
            suppression=None if suppression is None else restored(SuppressionFigures, suppression),
            robustness=None if robustness is None else restored(RobustFigures, robustness),
        )
