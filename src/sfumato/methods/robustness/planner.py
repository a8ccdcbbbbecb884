"""The plan of robust Anatomy: the leftover formula, a rehearsal, and plain Anatomy beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.bucketing import check_frequencies, check_values, notes_of
from sfumato.methods.plan import Plan
from sfumato.methods.robustness.cells import Cells, KnownSet
from sfumato.methods.robustness.figures import RobustFigures, WithheldCell
from sfumato.methods.robustness.kinds import leftovers
from sfumato.methods.robustness.prior import Prior
from sfumato.methods.robustness.rehearsal import Rehearsal, rehearse, rehearse_plain
from sfumato.values.arrays import Assurance
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.steps import WITHHELD

SHOWN_CELLS = 20
MOST_COMBINATIONS = 2**31 - 1
"""Of known columns and values: combinations are numbered by 32 bits when rows are read."""


def plan(profile: Profile, claim: BucketClaim, prior_files: Sequence[Path]) -> Plan:
    """Return the plan. The profile counts the columns of the attribute sets too."""
    r = claim.at_most.denominator
    _check_counted(profile)
    cells, alone = Cells.of(profile, claim.attribute_sets), _without_cells(profile)
    check_values(alone, r, "r")
    check_frequencies(
        alone,
        r,
        "r",
        'choose the method "suppression", whose bound is for who knows no associations with other columns',
    )
    own = [cells.prior(known) for known in cells.sets]
    priors = None if claim.prior == "none" else own
    if claim.prior == "file":
        files = zip(cells.sets, prior_files, strict=True)
        priors = [cells.read_prior(known, path, alone.domain.labels) for known, path in files]
    if priors is not None:
        for known, of_set in zip(cells.sets, priors, strict=True):
            _check_possible(alone, cells, known, of_set, r)
    found = rehearse(cells, r, priors, claim.assurance)
    if found.number == 0:
        raise Infeasible(
            f"No group can be made: in every cell by {', '.join(profile.quasi_identifiers)} one value has more than "
            f"1/{r} of the records.",
            "Ask for a smaller r, or for fewer or coarser columns in the attribute sets.",
        )
    figures = BucketFigures(
        claim,
        alone.domain,
        alone.counts,
        found.withheld.sum(axis=0),
        found.number,
        counts_hash(profile),
        priors=tuple(priors or ()),
        robustness=_figures(found, rehearse_plain(cells, r, priors or own), alone, claim.assurance),
    )
    notes = [*_notes(found, claim), *notes_of(alone)]
    return Plan.of(alone, (claim.method, claim.assurance), figures, notes)


def _check_counted(profile: Profile) -> None:
    """Raise unless the known columns are counted, and few enough to be numbered."""
    if not profile.quasi_identifiers:
        raise PolicyError(
            "Robust Anatomy needs what the adversary knows of, and a profile that counts these columns.",
            'Say attribute_sets = [["sex", "age"]] in the policy, and count again.',
        )
    if profile.domain.size > MOST_COMBINATIONS:
        raise PolicyError(
            f"The attribute sets have {profile.quasi_domain.size:,} combinations of values: too many to be numbered.",
            "Bin the columns, or leave one out of the attribute sets.",
        )


def _without_cells(profile: Profile) -> Profile:
    """Return the profile of the sensitive columns alone."""
    domain = profile.sensitive_domain
    cells, number = np.unique(profile.cells[:, len(profile.quasi_identifiers) :], axis=0, return_inverse=True)
    return replace(
        profile,
        domain=domain,
        cells=cells,
        numbers=np.bincount(number.ravel(), profile.numbers).astype(np.int64),
        observed=tuple(name for name in profile.observed if name in domain.names),
        quasi_identifiers=(),
    )


def _check_possible(profile: Profile, cells: Cells, known: KnownSet, prior: Prior, r: int) -> None:
    """Raise if a value has more than 1/r of the records that can have it: |x| > #{t : p(t:x) > 0}/r."""
    sizes = np.bincount(known.of_cell, cells.counts.sum(axis=1)).astype(np.int64)
    able = sizes @ (prior.weights > 0)
    beyond = np.flatnonzero(r * profile.counts > able)
    if beyond.size:
        x = beyond[np.argmax(profile.counts[beyond] / able[beyond])]
        largest = int(able[x] // profile.counts[x])
        less = f"Ask for r <= {largest}, leave" if largest > 1 else "Leave"
        raise Infeasible(
            f"{profile.domain.labels[x]!r} is possible for {able[x]:,} records only, given {known.told}, and "
            f"{profile.counts[x]:,} of them have it: more than 1/{r}.",
            f'{less} a column out of the set or make it coarser, or say prior = "none", which withholds such records.',
        )


# --- figures ----------------------------------------------------------------------------------------------------------


def _figures(found: Rehearsal, plain: Rehearsal, profile: Profile, assurance: Assurance) -> RobustFigures:
    records = found.cells.records
    lost = found.withheld.sum(axis=1)
    losing = np.flatnonzero(lost)
    return RobustFigures(
        cells=len(found.cells.labels),
        leftover=leftovers(records.cells, records.values, found.r),
        mixed=found.mixed,
        withheld=tuple(
            _withheld_cell(found, profile, int(cell))
            for cell in losing[np.argsort(-lost[losing], kind="stable")][:SHOWN_CELLS]
        ),
        withheld_cells=int(losing.size),
        checks=found.checks(assurance == "as-published"),
        examined=len(found.examined[0]),
        worst=found.worst,
        breach=found.breach,
        plain_worst=plain.worst,
        plain_breach=plain.breach,
    )


def _withheld_cell(found: Rehearsal, profile: Profile, cell: int) -> WithheldCell:
    counts, lost = found.cells.counts[cell], found.withheld[cell]
    return WithheldCell(
        cell=found.cells.labels[cell],
        records=int(counts.sum()),
        withheld=int(lost.sum()),
        values=tuple(profile.domain.labels[x] for x in np.flatnonzero(lost)),
        largest_r=int(counts.sum() // counts.max()),
    )


def _notes(found: Rehearsal, claim: BucketClaim) -> Iterator[str]:
    published = int(np.count_nonzero(found.groups != WITHHELD))
    if published < found.groups.size:
        which = (
            f"{published:,} published records" if found.priors is None else f"published records, about {published:,}"
        )
        yield (
            f"Answers refer to the {which}. The withheld ones have values "
            "that are frequent among records like them, so shares of these come out too small."
        )
    if claim.assurance == "proved" and claim.prior == "none":
        yield (
            "With a prior, from the table or from files, some of the withheld records could be guests of other groups; "
            "their bound is a weaker one: docs/methods/robust-anatomy.md."
        )
