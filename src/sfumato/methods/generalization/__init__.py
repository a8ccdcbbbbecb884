"""Full-domain generalization with entropy l-diversity: the baseline that AD compares randomization with (section V.B).

A joint table has one axis for each quasi-identifier and the sensitive attribute on the last: no rows are needed. It is
dense, so it is for a handful of quasi-identifiers.
"""

from __future__ import annotations

from sfumato.methods.generalization.hierarchies import Hierarchy, Node, read_hierarchy, roll_up, spread
from sfumato.methods.generalization.lattice import (
    Criterion,
    Generalization,
    Search,
    distance,
    generalize,
    largest_l,
    largest_share,
    minimal_nodes,
)

__all__ = [
    "Criterion",
    "Generalization",
    "Hierarchy",
    "Node",
    "Search",
    "distance",
    "generalize",
    "largest_l",
    "largest_share",
    "minimal_nodes",
    "read_hierarchy",
    "roll_up",
    "spread",
]
