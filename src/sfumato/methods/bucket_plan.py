"""The plan of releases by groups: Anatomy, also after suppression, and robust Anatomy. Private to the publisher.

Like `sfumato.methods.plan.Plan` it says itself in words (`explain`) and in JSON, bound to table and policy by hashes.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import PlanMismatch
from sfumato.methods.plan_files import PLAN_VERSION, listed, read_shared, sealed
from sfumato.methods.planned import Planned
from sfumato.show.results import columns_table
from sfumato.values.arrays import IntArray
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.mechanism import Mechanism, domains, read_domains
from sfumato.values.profile import Profile
from sfumato.values.steps import Assigned, Dealt, RowStep, Separate


@dataclass(frozen=True, eq=False)
class KnownShares:
    """Pr(value | signature) of one attribute set as integers: weights[s, x] / totals[s]."""

    weights: IntArray  # (signature that occurs, in ascending order of codes; value of the domain)
    totals: IntArray


@dataclass(frozen=True)
class ValueBelief:
    """What is believed of each value with so many published records, by someone who knows the sorted counts."""

    published: int  # records
    values: int  # how many values are published with as many
    dominant: float  # that it is the most frequent value of the table
    violating: float  # that it has more than 1/l of the table
    missing: float  # that a person has it who is known to be in the table and missing from the release; 0: nobody is
    member: float  # that a person has it who is known to be in the table, and of whom nothing else is known


@dataclass(frozen=True)
class SuppressionFigures:
    """What suppression withholds, and what is left to believe. Fractions are written out, exactly."""

    violating: tuple[str, ...]  # values with more than 1/l of the table; none: nothing is suppressed, unless `always`
    share: float  # of the table that is withheld
    lower_bound: int  # no way to l-dichotomy withholds less: SK Theorem 2; 0 where no value is violating
    costs: dict[str, float]  # variant -> records it withholds; of r-suppression the expected number
    dominant_bound: str | None  # that a value is the most frequent one is believed by at most this; None: no bound
    violating_bound: str | None  # that it is one of the violating ones, by someone who knows how many there are
    beliefs: tuple[ValueBelief, ...]  # of the l most frequent values; none of the others is the most frequent one


@dataclass(frozen=True)
class WithheldCell:
    """Records that agree in all columns of the attribute sets, and of which some are withheld."""

    cell: tuple[str, ...]  # values of the columns
    records: int
    withheld: int
    values: tuple[str, ...]  # that the withheld records have
    largest_r: int  # at which none would be; 1: at none, for a value has more than half of the records


@dataclass(frozen=True)
class RobustFigures:
    """What robust Anatomy makes of the table: the formula, and a rehearsal on the counts."""

    cells: int  # combinations of the columns of all attribute sets that occur
    leftover: int  # sum over cells of sum_x max(0, n_cx - g): what groups inside cells cannot take
    mixed: int  # groups with records of several cells; if proved, each has one guest
    withheld: tuple[WithheldCell, ...]  # the cells that lose most
    withheld_cells: int  # how many there are
    checks: dict[str, int]  # check -> groups that pass it
    examined: int  # groups that were checked
    worst: float  # the largest posterior of a record in a group
    breach: float  # share of the published records in groups with a posterior above 1/r
    plain_worst: float  # the same of plain Anatomy with l = r
    plain_breach: float


@dataclass(frozen=True, eq=False, repr=False)
class GroupPlan(Planned):
    """Which records are published, and in how many groups."""

    claim: BucketClaim
    domain: SensitiveDomain
    counts: IntArray  # records of each value
    withheld: IntArray  # of them, those that are not published; which ones is drawn. Robust Anatomy: in a rehearsal
    groups: int  # how many; robust Anatomy: in a rehearsal
    counts_hash: str  # of the table that was counted: for robust Anatomy the joint table
    priors: tuple[KnownShares, ...] = ()  # of each attribute set, where there is a prior
    suppression: SuppressionFigures | None = None
    robustness: RobustFigures | None = None
    seeded: bool = False  # whether a test seed decided which values lose records

    _figures = ("records", "withheld")
    shuffle = True
    mechanisms: ClassVar[tuple[Mechanism, ...]] = ()
    discloses_frequencies = True  # the table of the groups counts the published values
    record_utility = None  # all published values are true
    total_variation = None

    def announced(self) -> str:
        """Return how many records the formula of robust Anatomy says are left over."""
        from sfumato.methods.explain_buckets import leftover_line

        return leftover_line(self, self.robustness) if self.robustness else ""

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.claim.method

    @property
    def assurance(self) -> str:
        """Proved or as published."""
        return self.claim.assurance

    @property
    def rows(self) -> int:
        """The records of the table, published or withheld."""
        return int(self.counts.sum())

    @property
    def published(self) -> IntArray:
        """The published records of each value."""
        return self.counts - self.withheld

    @property
    def exact(self) -> bool:
        """Whether the numbers are those of the release. With a prior, guests depend on the draw: see `Rehearsal`."""
        return not self.priors

    @property
    def published_share(self) -> float:
        """The share of the records that are published."""
        return int(self.published.sum()) / self.rows

    @property
    def draws_each_row(self) -> bool:
        """Whether what becomes of a row depends on its own words alone: buckets are dealt to all rows together."""
        return False

    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows; `counted` where the table is counted again."""
        if counted is None:
            self._check_numbers()
            return (Separate(self.domain, Dealt(self.counts, self.withheld, self.groups)),)
        from sfumato.methods.robustness.assigning import Assignment

        return (Separate(self.domain, Assigned(counted.domain, self.rows, Assignment(self, counted))),)

    def _check_numbers(self) -> None:
        """Raise unless the groups can keep their bound: no value twice in a group, and each with l records at least."""
        kept, least = self.published, self.claim.at_most.denominator
        possible = (kept >= 0).all() and (self.withheld >= 0).all()
        if not possible or self.groups < 1 or kept.max() > self.groups or kept.sum() < least * self.groups:
            raise PlanMismatch("The plan's numbers of records and groups do not keep its own bound.", "Plan again.")

    def require_counts(self, counts_hash: str) -> None:
        """Raise unless the table is the one that was planned."""
        if counts_hash != self.counts_hash:
            raise PlanMismatch(
                "The table is not the one that was planned: it has other values, or other numbers of them.",
                "Plan again with the table as it is now.",
            )

    def explain(self) -> str:
        """Return, in plain words, what will happen to the table, why, and at what cost."""
        from sfumato.methods.explain_buckets import explain_groups

        return explain_groups(self)

    # --- JSON ---------------------------------------------------------------------------------------------------------

    def to_arrow(self) -> Any:
        """Return a row for each value: its records, and how many of them are withheld."""
        codes = np.arange(self.domain.size, dtype=np.int32)
        figures = {"records": self.counts, "withheld": self.withheld}
        return columns_table(self.domain.columns(self.domain.split(codes)), figures)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values. Keys: docs/json.md."""
        return sealed(
            {
                "plan_version": PLAN_VERSION,
                "method": self.method,
                "assurance": self.assurance,
                "sensitive": list(self.claim.sensitive),
                "at_most": str(self.claim.at_most),
                "variant": self.claim.variant,
                "always": self.claim.always,
                "attribute_sets": listed(self.claim.attribute_sets),
                "prior": self.claim.prior,
                "rows": self.rows,
                "dropped": self.dropped,
                "counts": self.counts.tolist(),
                "withheld": self.withheld.tolist(),
                "groups": self.groups,
                "suppression": None if self.suppression is None else listed(asdict(self.suppression)),
                "robustness": None if self.robustness is None else listed(asdict(self.robustness)),
                "guarantee": self.guarantee.to_dict(),
                "shuffle": self.shuffle,
                "seeded": self.seeded,
                **self._told(),
                "parts": domains(self.domain),
                "priors": [_written(prior) for prior in self.priors],
                "counts_hash": self.counts_hash,
                **self._bound(),
            }
        )

    @classmethod
    def from_dict(cls, raw: dict[str, Any]) -> GroupPlan:
        """Return the plan of what `to_dict` gave."""
        return cls(
            claim=BucketClaim(
                method=raw["method"],
                assurance=raw["assurance"],
                sensitive=tuple(raw["sensitive"]),
                at_most=Fraction(raw["at_most"]),
                variant=raw["variant"],
                attribute_sets=tuple(map(tuple, raw["attribute_sets"])),
                prior=raw["prior"],
                always=raw["always"],
            ),
            domain=read_domains(raw["parts"]),
            counts=np.array(raw["counts"], dtype=np.int64),
            withheld=np.array(raw["withheld"], dtype=np.int64),
            groups=raw["groups"],
            counts_hash=raw["counts_hash"],
            priors=tuple(map(_read_shares, raw["priors"])),
            suppression=None if raw["suppression"] is None else _read_suppression(raw["suppression"]),
            robustness=None if raw["robustness"] is None else _read_robustness(raw["robustness"]),
            seeded=raw["seeded"],
            **read_shared(raw),
        )


def _written(prior: KnownShares) -> dict[str, list[Any]]:
    """Return a prior with its numbers as text: they may be above 2^53."""
    return {
        "weights": [[str(weight) for weight in row] for row in prior.weights.tolist()],
        "totals": [str(total) for total in prior.totals.tolist()],
    }


def _read_shares(raw: dict[str, list[Any]]) -> KnownShares:
    weights = [[int(weight) for weight in row] for row in raw["weights"]]
    return KnownShares(np.array(weights, dtype=np.int64), np.array([int(total) for total in raw["totals"]]))


def _read_suppression(raw: dict[str, Any]) -> SuppressionFigures:
    beliefs = tuple(ValueBelief(**belief) for belief in raw["beliefs"])
    return SuppressionFigures(**{**raw, "violating": tuple(raw["violating"]), "beliefs": beliefs})


def _read_robustness(raw: dict[str, Any]) -> RobustFigures:
    cells = (WithheldCell(**{**x, "cell": tuple(x["cell"]), "values": tuple(x["values"])}) for x in raw["withheld"])
    return RobustFigures(**{**raw, "withheld": tuple(cells)})
