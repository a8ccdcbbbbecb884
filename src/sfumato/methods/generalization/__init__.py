"""Full-domain generalization with entropy l-diversity: the baseline that AD compares randomization with (section V.B).

    hierarchies   what each value of a quasi-identifier becomes, level by level
    rolling       sums of a joint table of counts along the levels
    diversity     entropies of the classes
    lattice       all minimal levels, by Incognito's search
    estimates     every class spread evenly over the values in it
    choosing      the best of the minimal levels

A joint table has one axis for each quasi-identifier and the sensitive attribute on the last: no rows are needed. It is
dense, so it is for a handful of quasi-identifiers.
"""

from __future__ import annotations

from sfumato.methods.generalization.choosing import Criterion, Generalization, generalize
from sfumato.methods.generalization.diversity import largest_l, largest_share
from sfumato.methods.generalization.estimates import distance, spread
from sfumato.methods.generalization.hierarchies import Hierarchy, Node, read_hierarchy
from sfumato.methods.generalization.lattice import Search, minimal_nodes
from sfumato.methods.generalization.rolling import roll_up

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
