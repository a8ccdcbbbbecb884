"""The two tables of FG section V: 95,946 records with 40 values, of drug reactions and by Zipf's law."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.values.randomness import simulation
from sfumato_papers.experiment import Setting

RECORDS, VALUES = 95_946, 40
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Counted:
    """How many records have each value, the most frequent first."""

    counts: Ints
    about: str

    @property
    def shares(self) -> Floats:
        """f_i."""
        return np.asarray(self.counts / self.counts.sum())

    @property
    def distance_from_even(self) -> float:
        """Total variation from equal shares: 0 if all values are equally frequent."""
        return float(np.abs(self.shares - 1 / self.counts.size).sum() / 2)


def zipf() -> Counted:
    """Return the counts nearest to f_i in proportion to 1/i that sum to the records of the paper.

    >>> int(zipf().counts.sum())
    95946
    """
    due = 1 / np.arange(1, VALUES + 1)
    due *= RECORDS / due.sum()
    counts = np.floor(due).astype(np.int64)
    counts[np.argsort(counts - due, kind="stable")[: RECORDS - counts.sum()]] += 1
    return Counted(counts, f"frequencies as 1/i, {RECORDS:,} records, {VALUES} values")


def reactions(setting: Setting) -> Counted:
    """Return the counts of as many records as CADR has, drawn at random from its stand-in."""
    named = setting.data.reactions()
    codes = np.asarray(named.table["reaction"].combine_chunks().dictionary_encode().indices)
    chosen = simulation(setting.seed).permutation(codes.size)[:RECORDS]
    counts = np.sort(np.bincount(codes[chosen]))[::-1].astype(np.int64)
    return Counted(counts, f"{named.about}; {chosen.size:,} of them at random")
