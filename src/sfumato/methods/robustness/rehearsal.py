"""The buckets of robust Anatomy: of a table, all at once, and in a rehearsal on records made of its counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.robustness.check import (
    CLOSE,
    breaching,
    delta_ceiling,
    exceeding,
    meets_published_delta,
    meets_repaired_delta,
    swap_bound,
    worst_posteriors,
)
from sfumato.methods.robustness.grouping import Order, group_records
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import Composition, compositions
from sfumato.methods.robustness.prior import Prior, Signature, read_prior
from sfumato.values.arrays import Assurance, BoolArray, FloatArray, IntArray, WordArray
from sfumato.values.attributes import Domain
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, Step, simulation
from sfumato.values.steps import WITHHELD

MOST_EXAMINED = 50_000
"""Groups whose posteriors are computed. Of more groups every k-th is: the others were dealt alike."""


# --- the counts by cells ----------------------------------------------------------------------------------------------


class Records(NamedTuple):
    """One record for each that was counted; those of a cell with the same value are alike."""

    cells: IntArray
    values: IntArray


@dataclass(frozen=True, eq=False)
class KnownSet:
    """One attribute set: its columns, and the signature of each cell, numbered by ascending code from 0."""

    columns: tuple[str, ...]
    of_cell: IntArray
    labels: tuple[Signature, ...]  # of each signature


@dataclass(frozen=True, eq=False)
class Cells:
    """The combinations of all known columns that occur, by ascending code, and how many records each has of a value."""

    labels: tuple[Signature, ...]
    counts: IntArray  # (cell, value)
    sets: tuple[KnownSet, ...]

    @classmethod
    def of(cls, profile: Profile, attribute_sets: Sequence[Sequence[str]]) -> Cells:
        """Return the cells of a profile that counts the columns of the attribute sets together with the values."""
        split = len(profile.quasi_identifiers)
        occurring, cell = np.unique(profile.cells[:, :split], axis=0, return_inverse=True)
        counts = np.zeros((len(occurring), profile.sensitive_domain.size), dtype=np.int64)
        counts[cell.ravel(), profile.sensitive_domain.join(profile.cells[:, split:].T)] = profile.numbers
        columns = dict(zip(profile.quasi_identifiers, occurring.T, strict=True))
        parts = {part.name: part for part in profile.quasi_domain.parts}
        sets = []
        for names in attribute_sets:
            if lacking := [name for name in names if name not in parts]:
                raise PolicyError(
                    f"The attribute set names {lacking[0]!r}, which the profile does not count.",
                    "Count with the policy that names it: sf.profile(sf.scan(table, policy)).",
                )
            signatures, of_cell = np.unique(
                np.column_stack([columns[name] for name in names]), axis=0, return_inverse=True
            )
            labels = _labels([parts[name] for name in names], signatures)
            sets.append(KnownSet(tuple(names), of_cell.ravel(), labels))
        return cls(_labels(profile.quasi_domain.parts, occurring), counts, tuple(sets))

    @cached_property
    def records(self) -> Records:
        cells, values = np.nonzero(self.counts)
        number = self.counts[cells, values]
        return Records(np.repeat(cells, number), np.repeat(values, number))

    def prior(self, known: KnownSet) -> Prior:
        """Return the table's own shares: p(s:x) = records with s and x / records with s."""
        weights = np.zeros((len(known.labels), self.counts.shape[1]), dtype=np.int64)
        np.add.at(weights, known.of_cell, self.counts)
        return Prior(weights, weights.sum(axis=1))

    def read_prior(self, known: KnownSet, path: Path, values: Sequence[str]) -> Prior:
        """Return the prior of a file, if it does not contradict the table."""
        return read_prior(path, known.columns, known.labels, values, self.prior(known).weights)


def _labels(parts: Sequence[Domain], codes: npt.NDArray[np.int32]) -> tuple[Signature, ...]:
    return tuple(tuple(part.labels[code] for part, code in zip(parts, row, strict=True)) for row in codes.tolist())


# --- the deal of a table ----------------------------------------------------------------------------------------------


def assign(
    claim: BucketClaim, priors: Sequence[Prior], counted: Profile, codes: npt.NDArray[np.int32], key: SecretKey
) -> IntArray:
    """Return the bucket of each record, or WITHHELD; where the bound is proved, every bucket is looked at again.

    `codes` are of the domain that was counted, in the table's order.
    """
    r = claim.at_most.denominator
    cell_codes, values = np.divmod(codes.astype(np.int64), counted.sensitive_domain.size)
    cells = np.unique(cell_codes, return_inverse=True)[1].astype(np.int64)
    signatures = [known.of_cell[cells] for known in Cells.of(counted, claim.attribute_sets).sets]
    order = _different_words(key, values.size)
    groups = _grouped(cells, values, signatures, order, r, priors or None, claim.assurance)
    if groups.max() == WITHHELD:
        raise Infeasible("No group can be made.", "Ask for a smaller r, or for coarser or fewer columns.")
    for k, of_set in enumerate(signatures if claim.assurance == "proved" else []):
        if breaching(groups, of_set, values, priors[k] if priors else None, r):
            raise Infeasible(
                f"A group exceeds 1/{r} under the prior of {', '.join(claim.attribute_sets[k])}; nothing was "
                "published.",
                'Say prior = "none": such groups hold under every prior.',
            )
    return groups


def _different_words(key: SecretKey, rows: int) -> WordArray:
    """Return a secret word for each row, all different."""
    drawn = (key.words(Step.ANATOMY, attempt, 0, rows) for attempt in count())
    return next(words for words in drawn if np.unique(words).size == rows)


def _grouped(
    cells: IntArray,
    values: IntArray,
    signatures: Sequence[IntArray],
    order: Order,
    r: int,
    priors: Sequence[Prior] | None,
    assurance: Assurance,
) -> IntArray:
    if assurance == "proved":
        return group_records(cells, values, signatures, order, r, priors)
    assert priors is not None
    return merge_records(cells, values, signatures, order, r, priors)


# --- a rehearsal ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Groups of a table's records. priors: of each attribute set; None: whatever is known beforehand."""

    cells: Cells
    groups: IntArray  # of each record, from 0, or WITHHELD
    r: int
    priors: Sequence[Prior] | None

    @property
    def number(self) -> int:
        return int(self.groups.max()) + 1

    @cached_property
    def withheld(self) -> IntArray:
        """(cell, value) -> records that are in no group."""
        lost = np.zeros_like(self.cells.counts)
        gone = self.groups == WITHHELD
        np.add.at(lost, (self.cells.records.cells[gone], self.cells.records.values[gone]), 1)
        return lost

    @property
    def mixed(self) -> int:
        """Groups with records of several cells."""
        published = self.groups != WITHHELD
        groups, cells = self.groups[published], self.cells.records.cells[published]
        one_cell = np.zeros(self.number, dtype=np.int64)
        one_cell[groups] = cells
        return int(np.unique(groups[one_cell[groups] != cells]).size)

    @cached_property
    def examined(self) -> list[list[Composition]]:
        """For each attribute set the compositions of the groups that are looked at."""
        step = -(-self.number // MOST_EXAMINED)
        looked_at = np.where(self.groups % step == 0, self.groups // step, WITHHELD)
        looked_at[self.groups == WITHHELD] = WITHHELD
        records = self.cells.records
        return [compositions(looked_at, known.of_cell[records.cells], records.values) for known in self.cells.sets]

    @property
    def _known(self) -> list[tuple[list[Composition], Prior | None]]:
        priors: Sequence[Prior | None] = self.priors or [None] * len(self.examined)
        return list(zip(self.examined, priors, strict=True))

    @cached_property
    def _worst(self) -> list[FloatArray]:
        """For each attribute set the largest posterior in each group."""
        return [worst_posteriors(groups, prior) for groups, prior in self._known]

    @property
    def worst(self) -> float:
        """The largest posterior of a record in a group, under any attribute set's prior."""
        return max(float(of_set.max()) for of_set in self._worst)

    @cached_property
    def _breached(self) -> BoolArray:
        known = zip(self._known, self._worst, strict=True)
        beyond = [exceeding(groups, worst, prior, self.r) for (groups, prior), worst in known]
        return np.asarray(np.any(beyond, axis=0))

    @property
    def breach(self) -> float:
        """The share of the published records in groups with a posterior above 1/r."""
        sizes = np.array([group.size for group in self.examined[0]])
        return float(sizes[self._breached].sum() / sizes.sum())

    def checks(self, as_published: bool) -> dict[str, int]:
        """Return check -> groups that pass it for every attribute set."""
        passed = {"prior-free bound": self._passing(self._is_prior_free)}
        if self.priors is not None:
            passed["swap bound"] = self._passing(self._within_swap)
            passed["exact posterior"] = int(np.count_nonzero(~self._breached))
            passed["repaired Delta"] = self._passing(
                lambda group, prior: meets_repaired_delta(group.weights(prior.probabilities), group.counts, self.r)
            )
        if as_published:
            passed["published Delta, PI Eq. (4)"] = self._passing(self._meets_published)
        return passed

    def _passing(self, check: Callable[[Composition, Any], bool]) -> int:
        """Count the groups that pass a check; groups that are alike are checked once."""
        passed = []
        for groups, prior in self._known:
            decided = {group: check(group, prior) for group in set(groups)}
            passed.append([decided[group] for group in groups])
        return int(np.count_nonzero(np.all(passed, axis=0)))

    def _is_prior_free(self, group: Composition, prior: Prior | None) -> bool:
        return max(group.counts) * self.r <= min(group.sizes)

    def _within_swap(self, group: Composition, prior: Prior) -> bool:
        if len(group.sizes) == 1:
            return self._is_prior_free(group, prior)
        weights = group.weights(prior.weights).astype(np.float64)
        return float(swap_bound(weights, group.sizes, group.counts).max()) * self.r < 1 + CLOSE

    def _meets_published(self, group: Composition, prior: Prior) -> bool:
        floats = group.weights(prior.probabilities)
        if len(group.sizes) == 1 or not _is_close(floats, group, self.r):
            return meets_published_delta(floats, group.counts, self.r)
        totals = prior.totals[list(group.signatures)].tolist()
        rows = zip(group.weights(prior.weights).tolist(), totals, strict=True)
        exact = [[Fraction(weight, total) for weight in row] for row, total in rows]
        return meets_published_delta(exact, group.counts, self.r)


def _is_close(rows: FloatArray, group: Composition, r: int) -> bool:
    """Whether floats cannot tell if PI Eq. (4) holds; rows of one signature agree, and need no telling."""
    largest = rows.max(axis=0)
    slack = delta_ceiling(max(r, group.size), r, largest) - (largest - rows.min(axis=0))
    return bool((np.abs(slack) < CLOSE).any())


def rehearse(cells: Cells, r: int, priors: Sequence[Prior] | None, assurance: Assurance) -> Rehearsal:
    """Return groups as they will be made, but with other random numbers: a few guests more or less may be seated."""
    of_records, values = cells.records
    signatures = [known.of_cell[of_records] for known in cells.sets]
    groups = _grouped(of_records, values, signatures, _order(values.size), r, priors, assurance)
    return Rehearsal(cells, groups, r, priors)


def rehearse_plain(cells: Cells, r: int, priors: Sequence[Prior]) -> Rehearsal:
    """Return groups of plain Anatomy with l = r, which looks at no column; for comparison."""
    values = cells.records.values
    one_cell = np.zeros_like(values)
    return Rehearsal(cells, group_records(one_cell, values, [one_cell], _order(values.size), r), r, priors)


def _order(records: int) -> IntArray:
    """Return random numbers for a rehearsal, the same every time: equal tables have equal plans."""
    return simulation(seed=0).permutation(records)
