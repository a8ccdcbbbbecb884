"""The buckets of robust Anatomy, found for all records of a table at once; every bucket is looked at again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sfumato.claims.buckets import BucketClaim
from sfumato.errors import Infeasible
from sfumato.methods.robustness import Prior, group_records, merge_records
from sfumato.methods.robustness.cells import Cells
from sfumato.methods.robustness.check import breaching
from sfumato.values.arrays import IntArray, WordArray
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, Step
from sfumato.values.steps import WITHHELD


class _Records(NamedTuple):
    """The codes of all records, in their order."""

    values: IntArray
    cells: IntArray  # numbered through those that occur
    signatures: tuple[IntArray, ...]  # of each attribute set


@dataclass(frozen=True, eq=False)
class Assignment:
    """Finds the bucket of each record, or WITHHELD, and makes sure that every bucket keeps the bound."""

    claim: BucketClaim
    values: int  # of the domain
    priors: tuple[Prior, ...]  # of each attribute set, where there is a prior
    counted: Profile

    def __call__(self, codes: npt.NDArray[np.int32], key: SecretKey) -> IntArray:
        """Return the buckets; `codes` are of the domain that was counted, in the table's order."""
        records, r = self._records(codes), self.claim.at_most.denominator
        groups = self._assigned(records, _different_words(key, records.values.size), r)
        if groups.max() == WITHHELD:
            raise Infeasible("No group can be made.", "Ask for a smaller r, or for coarser or fewer columns.")
        return groups

    def _records(self, codes: npt.NDArray[np.int32]) -> _Records:
        """Return values and cells of all rows, encoded as they were counted."""
        cell_codes, values = np.divmod(codes.astype(np.int64), self.values)
        cells = np.unique(cell_codes, return_inverse=True)[1].astype(np.int64)
        known = Cells.of(self.counted, self.claim.attribute_sets).sets
        return _Records(values, cells, tuple(of_set.of_cell[cells] for of_set in known))

    def _assigned(self, records: _Records, order: WordArray, r: int) -> IntArray:
        priors, (values, cells, signatures) = self.priors, records
        if self.claim.assurance == "as-published":
            return merge_records(cells, values, signatures, order, r, priors)
        groups = group_records(cells, values, signatures, order, r, priors or None).groups
        for known, of_set in enumerate(signatures):
            if breaching(groups, of_set, values, priors[known] if priors else None, r):
                raise Infeasible(
                    f"A group exceeds 1/{r} under the prior of {', '.join(self.claim.attribute_sets[known])}; nothing "
                    "was published.",
                    'Say prior = "none": such groups hold under every prior.',
                )
        return groups


def _different_words(key: SecretKey, rows: int) -> WordArray:
    """Return a secret word for each row, all different."""
    drawn = (key.words(Step.ANATOMY, attempt, 0, rows) for attempt in count())
    return next(words for words in drawn if np.unique(words).size == rows)
