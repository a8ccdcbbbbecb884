"""The plan of small domain randomization: sub-tables, their integer matrices, the guarantee, and what it all costs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.claims.single_columns import Belief, beliefs
from sfumato.claims.sub_tables import tells_composition
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.notes import some
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.plan import Plan
from sfumato.methods.small_domain.figures import AloneFigures, PartitionFigures
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.small_domain.partition import Block, Partition, partition
from sfumato.values.arrays import Assurance
from sfumato.values.matrix.retention import WORDS, PerturbationMatrix, largest_noise
from sfumato.values.mechanism import LABEL, Bound, Mechanism, SubTable
from sfumato.values.profile import RARE, Profile
from sfumato.values.requirement import Requirement, RhoPrivacy, exact


def plan(profile: Profile, requirement: Requirement, method: SmallDomain) -> Plan:
    """Return the plan of the best partition that was found."""
    if not isinstance(requirement, RhoPrivacy):
        raise PolicyError(
            "The method small-domain takes one rho1 and one rho2 for all values.",
            "State both, and no values, tolerance, gamma or epsilon; or choose another method.",
        )
    rho1, rho2 = exact(requirement.rho1, "rho1"), exact(requirement.rho2, "rho2")
    assurance = method.assurance
    other: Assurance = "as-published" if assurance == "proved" else "proved"
    found, rival = (
        partition(
            profile.counts,
            rho1,
            rho2,
            assurance=kind,
            delta=method.doubt,
            minimum_size=method.minimum_sub_table,
            columns=profile.domain.sizes,
        )
        for kind in (assurance, other)
    )
    protected = np.zeros(profile.domain.size, dtype=np.bool_)
    protected[list(found.protected)] = True
    tables = tuple(_sub_table(block, protected, rho2) for block in found.blocks)
    mechanism = Mechanism(profile.domain, tables, LABEL if found.pays else None)
    quotas = tuple(block.counts for block in found.blocks)
    unprotected = [profile.domain.labels[c] for c in np.flatnonzero((profile.counts > 0) & ~protected)]
    told = _figures(found, rival, unprotected, list(beliefs(mechanism, quotas)))
    figures = PerturbationFigures(
        told.claim(assurance, mechanism.label),
        (mechanism,),
        profile.counts,
        quotas,
        partition=told,
        other_assurance=(other, _record_utility(rival)),
    )
    notes = (
        *_notes(found, unprotected),
        *_disclosures(profile, mechanism, [block.size for block in found.blocks]),
        *profile.column_notes,
        profile.order.statement,
    )
    return Plan.of(profile, (method.name, assurance), figures, notes, keeps_order=profile.keeps_order)


def _sub_table(block: Block, protected: npt.NDArray[np.bool_], rho2: Fraction) -> SubTable:
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
        theta=found.theta,
        balancing_theta=found.balancing_theta,
        initial_groups=found.group_count,
        protected=len(found.protected),
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


def _record_utility(made: Partition) -> float:
    return sum(block.diagonal * block.size for block in made.blocks) / made.size


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
            f"As published there is no minimum size; the smallest sub-table has {smallest:,} record(s), and one who "
            "knows its composition can exceed rho2."
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
            f"The matrices tell the exact composition of sub-tables with {told:,} of {profile.rows:,} records: how "
            "many have each value there. Who uses that can exceed rho2."
        )
    return notes
