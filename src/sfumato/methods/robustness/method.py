"""Robust Anatomy as a method: its options, what it claims, and its plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible, PlanMismatch, PolicyError
from sfumato.methods.bucketed import BucketFigures
from sfumato.methods.bucketing import Bucketing, check_frequencies, check_values, notes_of, required
from sfumato.methods.plan import Plan
from sfumato.methods.robustness.figures import RobustFigures, WithheldCell
from sfumato.methods.robustness.grouping import leftovers
from sfumato.methods.robustness.prior import Prior
from sfumato.methods.robustness.rehearsal import Cells, KnownSet, Rehearsal, rehearse, rehearse_plain
from sfumato.values.arrays import Assurance
from sfumato.values.attributes import Schema
from sfumato.values.profile import Profile, counts_hash
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement, Robustness
from sfumato.values.steps import WITHHELD
from sfumato.values.text import did_you_mean

SHOWN_CELLS = 20
MOST_COMBINATIONS = 2**31 - 1  # of known columns and values: combinations are numbered by 32 bits when rows are read

Names = Annotated[tuple[str, ...], Field(strict=False)]


class RobustAnatomy(Bucketing):
    """Anatomy against someone who knows how values depend on other columns.

    `attribute_sets` are the sets of columns that they know of. Their `prior` is any ("none"), that of the table itself
    ("table"), or read from a file for each set.
    """

    name = "robust-anatomy"
    title = "robust Anatomy"
    promise = (
        "The belief in a value is bounded for someone who finds the person's group, whatever they believe of how "
        "values depend on {known}; not for someone who knows more columns, or others of the group."
    )
    avoid_if = "someone may know more columns than the sets name, or others of a group."
    slow_to_plan = True
    takes = (Robustness,)
    counts_jointly = True
    rechecks = True

    attribute_sets: Annotated[
        tuple[Names, ...],
        Field(strict=False, description="Columns on which someone may know the secret to depend, a set on each line."),
    ] = ()
    prior: Annotated[
        Literal["none", "table"] | Names,
        Field(description="What they know of it: anything (none), or how it is in this table."),
    ] = "none"

    @field_validator("attribute_sets", mode="before")
    @classmethod
    def _are_lists(cls, sets: object) -> object:
        names = [sets] if isinstance(sets, str) else sets
        if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
            written = ", ".join(f'"{name}"' for name in names)
            raise ValueError(f"each attribute set is a list of columns: write attribute_sets = [[{written}]]")
        return sets

    @field_validator("prior", mode="before")
    @classmethod
    def _is_word_or_list(cls, prior: object) -> object:
        if isinstance(prior, str) and prior not in ("none", "table"):
            raise ValueError(
                f'a prior is "none", "table", or a list with a file for each attribute set: write prior = ["{prior}"]'
            )
        return [str(path) if isinstance(path, Path) else path for path in prior] if isinstance(prior, list) else prior

    @model_validator(mode="after")
    def _sets_fit(self) -> RobustAnatomy:
        if not self.attribute_sets or not all(self.attribute_sets):
            raise ValueError('robust-anatomy needs what the adversary knows of: attribute_sets = [["sex", "age"]]')
        if any(len(set(names)) < len(names) for names in self.attribute_sets):
            raise ValueError("an attribute set names a column twice: name each once")
        if isinstance(self.prior, tuple) and len(self.prior) != len(self.attribute_sets):
            raise ValueError(
                f"{len(self.prior)} files of priors for {len(self.attribute_sets)} attribute sets: name one for each "
                "set, in the same order"
            )
        if self.assurance == "as-published" and self.prior == "none":
            raise ValueError(
                'the paper\'s condition is about a prior: say prior = "table", or name a file for each set'
            )
        return self

    def check(self, columns: Schema) -> None:
        """Raise unless the sets name columns that are published as they are."""
        super().check(columns)
        roles = {attribute.name: attribute.role for attribute in columns.attributes}
        if wrong := [name for name in self.known_columns if name not in roles]:
            raise ValueError(
                f"method.attribute_sets names {wrong[0]!r}, which is not among the columns"
                f"{did_you_mean(wrong[0], roles)}"
            )
        if wrong := [name for name in self.known_columns if roles[name] not in ("quasi_identifier", "other")]:
            raise ValueError(
                f"method.attribute_sets names {wrong[0]!r}, which is not published as it is: name columns with the "
                "role quasi_identifier or other"
            )

    def counted(self, columns: Schema) -> tuple[str, ...]:
        return self.known_columns

    @property
    def known_sets(self) -> tuple[tuple[str, ...], ...]:
        return self.attribute_sets

    @property
    def prior_files(self) -> tuple[Path, ...]:
        """The files of the prior, from the policy's folder."""
        return () if isinstance(self.prior, str) else tuple(self.folder / name for name in self.prior)

    def by_whole_paths(self) -> dict[str, Any]:
        return {"prior": [str(file.resolve()) for file in self.prior_files]} if self.prior_files else {}

    def claim(self, requirement: Requirement, sensitive: tuple[str, ...]) -> BucketClaim:
        at_most = required(requirement, Robustness, self.name).at_most
        prior = self.prior if isinstance(self.prior, str) else "file"
        return BucketClaim(self.name, self.assurance, sensitive, at_most, None, self.attribute_sets, prior)

    @classmethod
    def promised(cls, options: Mapping[str, Any]) -> str:
        """Return the promise, with the columns."""
        return cls.promise.format(known="; ".join(", ".join(names) for names in options["attribute_sets"]))

    @classmethod
    def compared(cls, known: tuple[tuple[str, ...], ...]) -> Iterator[Mapping[str, Any]]:
        yield {"attribute_sets": known}

    def _planned(self, profile: Profile, requirement: Requirement, key: SecretKey | None) -> Plan:
        """Plan by a rehearsal, with plain Anatomy beside it. The profile counts the columns of the sets too."""
        claim = self.claim(requirement, profile.sensitive_domain.names)
        r = claim.at_most.denominator
        _check_counted(profile)
        cells, alone = Cells.of(profile, claim.attribute_sets), _without_cells(profile)
        check_values(alone, r, "r")
        check_frequencies(
            alone,
            r,
            "r",
            'choose the method "suppression", whose bound is for someone who knows no associations with other columns',
        )
        own = [cells.prior(known) for known in cells.sets]
        priors = self._priors(cells, alone.domain.labels)
        if priors is not None:
            for known, of_set in zip(cells.sets, priors, strict=True):
                _check_possible(alone, cells, known, of_set, r)
        found = rehearse(cells, r, priors, self.assurance)
        if found.number == 0:
            raise Infeasible(
                f"No group can be made: in every cell by {', '.join(profile.quasi_identifiers)} one value has more "
                f"than 1/{r} of the records.",
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
            robustness=_figures(found, rehearse_plain(cells, r, priors or own), alone, self.assurance),
        )
        notes = [*_notes(found, claim), *notes_of(alone)]
        return Plan.of(alone, self, figures, notes)

    def recheck(self, plan: Plan, profile: Profile) -> None:
        """Raise unless the table is the planned one, and the priors those of the policy."""
        super().recheck(plan, profile)
        figures = plan.figures
        assert isinstance(figures, BucketFigures)
        cells = Cells.of(profile, figures.claim.attribute_sets)
        due = self._priors(cells, _without_cells(profile).domain.labels)
        if [prior.to_dict() for prior in figures.priors] != [prior.to_dict() for prior in due or ()]:
            raise PlanMismatch("The plan's priors are not those that the policy asks for.", "Plan again.")

    def _priors(self, cells: Cells, labels: Sequence[str]) -> list[Prior] | None:
        """Return the prior of each attribute set; None where there is none."""
        if self.prior == "none":
            return None
        if isinstance(self.prior, str):
            return [cells.prior(known) for known in cells.sets]
        files = zip(cells.sets, self.prior_files, strict=True)
        return [cells.read_prior(known, path, labels) for known, path in files]


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
            f"{profile.domain.labels[x]!r} is possible for {able[x]:,} records only, given {', '.join(known.columns)}, "
            f"and {profile.counts[x]:,} of them have it: more than 1/{r}.",
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
