"""Small domain randomization as a method: options, words, and plans of sub-tables with their integer matrices."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from sfumato.claims.single_columns import Belief, beliefs
from sfumato.claims.sub_tables import tells_composition
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.method import Method, Probability, between
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.plan import Plan
from sfumato.methods.small_domain.figures import AloneFigures, PartitionFigures
from sfumato.methods.small_domain.partition import MINIMUM_SIZE, Block, Partition, partition
from sfumato.show.words import some
from sfumato.values.arrays import Assurance, BoolArray
from sfumato.values.attributes import Schema
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix, largest_noise
from sfumato.values.mechanism import LABEL, Bound, Mechanism, SubTable
from sfumato.values.profile import RARE, Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, RhoPrivacy, exact


class SmallDomain(Method):
    """Small domain randomization: records are dealt to sub-tables with few values each, and perturbed there.

    `minimum_sub_table` is the least number of records of a sub-table, where the bound is proved. Error bounds hold with
    the confidence 1 - `delta`.
    """

    name = "small-domain"
    title = "small domain randomization"
    promise = (
        "The belief in a value is bounded for someone who sees the person's row and has the shares of its sub-table "
        "for their prior; not for someone who knows how many records of the sub-table have each value."
    )
    avoid_if = "someone may know how many records of a sub-table have each value, or later releases must follow."
    takes = (RhoPrivacy,)
    figures = PerturbationFigures
    keeps_order = True
    added = (LABEL,)
    drawn_anew = "which sub-table a record is in"
    why_not_one = "how many records of each value are kept is known only when they are drawn"

    minimum_sub_table: Annotated[
        int, Field(ge=1, description="The least number of records of a sub-table; a small one tells more.")
    ] = MINIMUM_SIZE
    delta: Annotated[Probability, Field(description="Bounds on errors hold but for this share of releases.")] = 0.05

    @property
    def doubt(self) -> Fraction:
        """Delta, exactly."""
        return between(self.delta, "delta", strictly=True)

    def check_numbers(self) -> None:
        _ = self.doubt

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        if not isinstance(requirement, RhoPrivacy):
            raise PolicyError(
                "The method small-domain takes one rho1 and one rho2 for all values.",
                "State both, and no values, tolerance, gamma or epsilon; or choose another method.",
            )
        rho1, rho2 = exact(requirement.rho1, "rho1"), exact(requirement.rho2, "rho2")
        other: Assurance = "as-published" if self.assurance == "proved" else "proved"
        options: dict[str, Any] = {"delta": self.doubt, "minimum_size": self.minimum_sub_table}
        found, rival = (
            partition(profile.counts, rho1, rho2, assurance=kind, columns=profile.domain.sizes, **options)
            for kind in (self.assurance, other)
        )
        protected = found.groups.protected
        tables = tuple(_sub_table(block, protected, rho2) for block in found.blocks)
        mechanism = Mechanism(profile.domain, tables, LABEL if found.pays else None)
        quotas = tuple(block.counts for block in found.blocks)
        unprotected = [profile.domain.labels[c] for c in np.flatnonzero((profile.counts > 0) & ~protected)]
        told = _figures(found, rival, unprotected, list(beliefs(mechanism, quotas)))
        claim, kept = told.claim(self.assurance, mechanism.label), sum(b.diagonal * b.size for b in rival.blocks)
        figures = PerturbationFigures(
            claim, (mechanism,), profile.counts, quotas, partition=told, other_assurance=(other, kept / rival.size)
        )
        notes = (
            *_notes(found, unprotected),
            *_disclosures(profile, mechanism, [block.size for block in found.blocks]),
            *profile.all_notes,
            profile.order.statement,
        )
        return Plan.of(profile, self, figures, notes, keeps_order=profile.keeps_order)

    def asked(self, requirement: Requirement, columns: Schema) -> object:
        assert isinstance(requirement, RhoPrivacy)
        least = 0 if self.assurance == "as-published" else self.minimum_sub_table
        return str(exact(requirement.rho1)), str(exact(requirement.rho2)), str(self.doubt), least


def _sub_table(block: Block, protected: BoolArray, rho2: Fraction) -> SubTable:
    bound, none = Bound(block.gamma, block.rho1, rho2 if block.gamma else None), Bound(None)
    bounds = tuple(bound if protected[code] else none for code in block.codes.tolist())
    return SubTable(block.codes.astype(np.int32), uniform_matrix(block.gamma, block.domain_size), bounds)


def uniform_matrix(gamma: Fraction | None, m: int) -> PerturbationMatrix:
    """Return the integer matrix with the largest retention that is gamma-amplifying; gamma None: nothing is perturbed.

    (2^64 - (m - 1) Q) / Q <= gamma    iff    Q >= 2^64 / (m - 1 + gamma)
    """
    noise = 0 if gamma is None or m == 1 else math.ceil(WORDS / (m - 1 + gamma))
    if noise > largest_noise(m):
        raise Infeasible(
            "rho2 is so close to a sub-table's rho1 that 64-bit sampling cannot keep it.",
            "Let rho2 be larger by a millionth.",
        )
    return PerturbationMatrix(np.full(m, noise, dtype=np.uint64))


def _figures(found: Partition, rival: Partition, unprotected: list[str], alone: list[Belief]) -> PartitionFigures:
    return PartitionFigures(
        rho1=str(found.rho1),
        rho2=str(found.rho2),
        delta=str(found.delta),
        minimum_size=found.minimum_size,
        theta=found.groups.theta,
        balancing_theta=found.groups.balancing_theta,
        initial_groups=found.groups.number,
        protected=int(found.groups.protected.sum()),
        unprotected=tuple(unprotected),
        uniform_retention=found.uniform_retention,
        alone=tuple(_alone(alone, found.rho1)),
        other=_compared(rival),
        **_compared(found),  # type: ignore[arg-type]
    )


def _alone(told: list[Belief], rho1: Fraction) -> Iterator[AloneFigures]:
    """Yield the largest belief in a value of each column, among those that are protected and among the others."""
    for column in dict.fromkeys(belief.column for belief in told):
        for protected in (True, False):
            of_kind = [b for b in told if b.column == column and (b.overall <= rho1) == protected]
            if worst := max(of_kind, key=lambda b: b.belief, default=None):
                share, belief = float(worst.share), float(worst.belief)
                yield AloneFigures(column, worst.value, protected, worst.sub_table, share, belief)


def _compared(made: Partition) -> dict[str, float]:
    return {
        "sub_tables": len(made.blocks),
        "published_bound": made.eps,
        "valid_bound": made.valid_bound,
        "mean_retention": made.mean_retention,
        "record_retention": made.record_retention,
    }


def _notes(found: Partition, unprotected: list[str]) -> list[str]:
    notes = list(found.notes)
    if not found.pays:
        small = found.size < 2 * found.minimum_size
        why = (
            f"The table has fewer than twice the minimum of {found.minimum_size:,} records of a sub-table"
            if small
            else "Partitioning does not pay"
        )
        notes.append(
            f"{why}: the table stays one, perturbed uniformly"
            + ("." if found.whole.rho1 == found.rho1 else ", with its largest protected share as rho1.")
        )
    if found.assurance == "as-published":
        smallest = min(block.size for block in found.blocks)
        notes.append(
            f"As published there is no minimum size; the smallest sub-table has {smallest:,} record(s), and someone "
            "who knows its composition can exceed rho2."
        )
    if unprotected:
        notes.append(
            f"{len(unprotected)} value(s) are more frequent than rho1 and not protected: {some(unprotected)}. They can "
            "become easier to infer."
        )
    return notes


def _disclosures(profile: Profile, mechanism: Mechanism, sizes: list[int]) -> list[str]:
    """What the release tells of the table by itself."""
    notes = ["Which values occur is published, also where the domain is declared."]
    if rare := [profile.domain.labels[c] for c in np.flatnonzero((profile.counts > 0) & (profile.counts < RARE))]:
        notes.append(f"{len(rare)} value(s) occur fewer than {RARE} times and are disclosed so: {some(rare)}.")
    told = sum(size for table, size in zip(mechanism.tables, sizes, strict=True) if tells_composition(table))
    if told:
        notes.append(
            f"The matrices tell exactly how many have each value in sub-tables with {told:,} of {profile.rows:,} "
            "records, and who uses that can exceed rho2."
        )
    return notes
