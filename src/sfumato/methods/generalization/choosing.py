"""The best of the minimal generalizations, by a stated criterion."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy.typing as npt

from sfumato.methods.generalization.diversity import largest_l, largest_share
from sfumato.methods.generalization.estimates import distance, spread
from sfumato.methods.generalization.hierarchies import Hierarchy, Node
from sfumato.methods.generalization.lattice import Search, by_height, minimal_nodes
from sfumato.methods.generalization.rolling import checked_table, roll_up
from sfumato.values.arrays import FloatArray

Criterion = Literal["distance", "discernibility", "height"]
"""What is to be least:

    distance         L2 from the true joint table to the estimated one
    discernibility   sum of the squared sizes of the classes
    height           sum of the levels

None of them falls by going up, so the best of the minimal nodes is the best of all that are diverse.
"""


@dataclass(frozen=True, eq=False)
class Generalization:
    """A table at the levels of `node`, with what was searched for it."""

    hierarchies: tuple[Hierarchy, ...]
    node: Node
    table: FloatArray  # counts: (one axis for each quasi-identifier, sensitive value) -> records
    l: float  # what was asked for
    criterion: Criterion
    scores: tuple[float, ...]  # of search.minimal
    search: Search

    @property
    def levels(self) -> dict[str, int]:
        """The level of each quasi-identifier."""
        return {h.name: level for h, level in zip(self.hierarchies, self.node, strict=True)}

    @property
    def diversity(self) -> float:
        """The largest l that the table has."""
        return largest_l(self.table)

    @property
    def largest_share(self) -> float:
        """The largest share of a sensitive value in a class."""
        return largest_share(self.table)

    def estimate(self) -> FloatArray:
        """Return the estimated joint table of the original values."""
        return spread(self.table, self.hierarchies, self.node)

    def explain(self) -> str:
        """Return the result as text."""
        levels = ", ".join(f"{h.name} {self.levels[h.name]} of {h.top}" for h in self.hierarchies)
        s = self.search
        return "\n".join(
            [
                f"Levels: {levels}; the best of {len(s.minimal)} minimal generalization(s) by {self.criterion}.",
                f"Entropy l-diverse for l up to {self.diversity:.4g} (asked: {self.l:g}). A class tells its most "
                f"frequent sensitive value with a share of up to {self.largest_share:.1%}.",
                f"Of {s.nodes:,} nodes {s.checked:,} were checked, {s.pruned_by_subset:,} pruned by fewer attributes "
                f"and {s.pruned_by_generalization:,} by a finer node.",
            ]
        )


def generalize(
    counts: npt.ArrayLike,
    hierarchies: Sequence[Hierarchy],
    l: float,
    criterion: Criterion = "distance",
) -> Generalization:
    """Return the best full-domain generalization of a joint table that is entropy l-diverse, or raise `Infeasible`.

    Equal scores: the lower node, then the one with the lower levels first. No class is suppressed.
    """
    table = checked_table(counts, hierarchies)
    search = minimal_nodes(table, hierarchies, l)
    scores = tuple(_score(table, hierarchies, node, criterion) for node in search.minimal)
    _, (_, node) = min(zip(scores, map(by_height, search.minimal), strict=True))
    rolled = roll_up(table, hierarchies, node)
    return Generalization(tuple(hierarchies), node, rolled, l, criterion, scores, search)


def _score(table: FloatArray, hierarchies: Sequence[Hierarchy], node: Node, criterion: Criterion) -> float:
    if criterion == "height":
        return sum(node)
    rolled = roll_up(table, hierarchies, node)
    if criterion == "discernibility":
        return float((rolled.sum(axis=-1) ** 2).sum())
    return distance(table, spread(rolled, hierarchies, node))
