"""A rehearsal of robust Anatomy on records made of the counts: what would be published, withheld, and believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from sfumato.methods.robustness.bounds import delta_ceiling, meets_published_delta, meets_repaired_delta, swap_bound
from sfumato.methods.robustness.cells import Cells
from sfumato.methods.robustness.check import CLOSE, exceeding, worst_posteriors
from sfumato.methods.robustness.grouping import group_records
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import Composition, compositions
from sfumato.methods.robustness.prior import Prior
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.randomness import simulation
from sfumato.values.steps import WITHHELD

MOST_EXAMINED = 50_000
"""Groups whose posteriors are computed. Of more groups every k-th is: the others were dealt alike."""


@dataclass(frozen=True, eq=False)
class Rehearsal:
    """Groups of a table's records. priors: of each attribute set; None: whatever is known beforehand."""

    cells: Cells
    groups: IntArray  # of each record, from 0, or WITHHELD
    r: int
    priors: Sequence[Prior] | None

    @property
    def number(self) -> int:
        """How many groups there are."""
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
    def _breached(self) -> npt.NDArray[np.bool_]:
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
            passed["repaired Delta"] = self._passing(self._meets_repaired)
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

    def _meets_repaired(self, group: Composition, prior: Prior) -> bool:
        return meets_repaired_delta(group.weights(prior.probabilities), group.counts, self.r)

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


def rehearse(
    cells: Cells, r: int, priors: Sequence[Prior] | None, assurance: Literal["proved", "as-published"]
) -> Rehearsal:
    """Return groups as they will be made, but with other random numbers: a few guests more or less may be seated."""
    of_records, values = cells.records
    signatures = [known.of_cell[of_records] for known in cells.sets]
    order = _order(values.size)
    if assurance == "as-published":
        assert priors is not None
        return Rehearsal(cells, merge_records(of_records, values, signatures, order, r, priors), r, priors)
    return Rehearsal(cells, group_records(of_records, values, signatures, order, r, priors).groups, r, priors)


def rehearse_plain(cells: Cells, r: int, priors: Sequence[Prior]) -> Rehearsal:
    """Return groups of plain Anatomy with l = r, which looks at no column; for comparison."""
    values = cells.records.values
    one_cell = np.zeros_like(values)
    groups = group_records(one_cell, values, [one_cell], _order(values.size), r).groups
    return Rehearsal(cells, groups, r, priors)


def _order(records: int) -> IntArray:
    """Return random numbers for a rehearsal, the same every time: equal tables have equal plans."""
    return simulation(seed=0).permutation(records)
