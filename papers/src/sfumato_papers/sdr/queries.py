"""SDR Appendix 10.9: a random pool of count queries, and the errors of estimated answers.

A query counts the records with A_1 = a_1 AND .. AND A_d = a_d AND SA = x. There are 200 conditions, d is 1, 2 or 3, and
every condition is asked with every value x. Selectivity is the share of the records that a query counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.values.randomness import simulation
from sfumato_papers.sdr.census import Census, Floats, Ints

CONDITIONS, MOST_COLUMNS = 200, 3
SELECTIVITIES = (0.001, 0.005, 0.01)


@dataclass(frozen=True, eq=False)
class Pool:
    """Queries of a table: the records that satisfy each condition, and the true answers.

    Conditions that too few records satisfy for any selectivity are left out.
    """

    records: tuple[Ints, ...]
    true: Floats  # [conditions, values]
    rows: int

    @classmethod
    def drawn(cls, table: Census, seed: int) -> Pool:
        """Draw the conditions, and answer them from the table itself."""
        draw, names, records = simulation(seed), list(table.others), []
        for _ in range(CONDITIONS):
            chosen = draw.choice(len(names), int(draw.integers(1, MOST_COLUMNS + 1)), replace=False)
            masks = [_holds(table, names[k], draw) for k in chosen.tolist()]
            satisfied = np.flatnonzero(np.logical_and.reduce(masks))
            if satisfied.size >= SELECTIVITIES[0] * table.rows:
                records.append(satisfied)
        return cls(tuple(records), _counted(records, table.codes, table.values), table.rows)

    @property
    def conditions(self) -> int:
        """How many there are."""
        return len(self.records)

    def counted(self, codes: npt.NDArray[np.integer], width: int) -> Floats:
        """Return how often each code comes among the records of each condition, [conditions, width]."""
        return _counted(self.records, codes, width)

    def asked(self, selectivity: float) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return which queries have this selectivity at least."""
        return np.asarray(self.true >= selectivity * self.rows)

    def errors(self, estimated: Floats) -> Floats:
        """Return the mean relative error of the answers, for each selectivity."""
        relative = np.abs(estimated - self.true) / np.maximum(self.true, 1)
        return np.array([relative[self.asked(s)].mean() for s in SELECTIVITIES])

    def bias(self, estimated: Floats) -> float:
        """Return by which share the answers are too large in sum, at the least selectivity."""
        asked = self.asked(SELECTIVITIES[0])
        return float(estimated[asked].sum() / self.true[asked].sum() - 1)


def _holds(table: Census, name: str, draw: np.random.Generator) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.asarray(table.others[name] == draw.integers(0, table.sizes[name]))


def _counted(records: Sequence[Ints], codes: npt.NDArray[np.integer], width: int) -> Floats:
    return np.array([np.bincount(codes[own], minlength=width) for own in records], dtype=np.float64)
