"""What an analyst reads off a generalized table: every class spread evenly over the values in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.methods.generalization.hierarchies import Hierarchy, Node
from sfumato.values.arrays import FloatArray


def spread(generalized: FloatArray, hierarchies: Sequence[Hierarchy], node: Node) -> FloatArray:
    """Return the estimated joint table of the original values, from the table at the levels of `node`.

        estimate(a, s) = count(class of a, s) / number of combinations of original values in the class of a

    separately for each sensitive value s. Totals of classes and of sensitive values are kept exactly; combinations that
    nobody has get their part too. It is the mean over the class, so the orthogonal projection of the true table on
    those that are constant in classes: no other such table is nearer to the truth in L2, and a coarser node is never
    nearer than a finer one.

    >>> city = Hierarchy("city", (("A", "B"), ("*", "*")))
    >>> spread(np.array([[6.0, 1.0]]), [city], (1,)).tolist()
    [[3.0, 0.5], [3.0, 0.5]]
    """
    for axis, (hierarchy, level) in enumerate(zip(hierarchies, node, strict=True)):
        codes = hierarchy.codes(level)
        parts = np.bincount(codes)[codes]
        along_axis = (-1,) + (1,) * (generalized.ndim - axis - 1)
        generalized = generalized.take(codes, axis=axis) / parts.reshape(along_axis)
    return generalized


def distance(table: FloatArray, estimate: FloatArray) -> float:
    """Return the L2 distance of the two distributions, sqrt(sum (pi - pi_hat)^2)."""
    return float(np.linalg.norm(table / table.sum() - estimate / estimate.sum()))
