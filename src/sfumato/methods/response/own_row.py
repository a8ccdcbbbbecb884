"""How often one hits who takes a row published like the person, when the person's own row is among those taken.

`Link` divides expected numbers of rows. Really the person's own row is always there: a person in (a, u) that is
published with b has 1 + X rows to be taken from, 1 + X_u of them with the value u; X and X_u count other records, each
by itself published with b with probability p_j = P[b, a_j]. With mu = E X the probability of a hit is at most

    E[1/(1 + X)]  +  E[X_u/(1 + X)]   <=   g1(mu) + sum_{j in u} p_j g2(mu - p_j)

    g1(mu) = E[1/(1 + Y)] = (1 - e^-mu)/mu        g2(mu) = E[1/(2 + Y)] = (mu - 1 + e^-mu)/mu^2        Y ~ Poisson(mu)

For X_u = sum of indicators I_j, and given I_j = 1 the rest of X is the sum of the others, of mean mu - p_j. A sum of
independent indicators is below the Poisson variable of its mean in convex order, and 1/(1 + x), 1/(2 + x) are convex.

Both fall with mu, so mu may be taken too small: with R_b and R_bu the expected rows published with b (and true value u)
of all records, and p_b the largest P[b, .] of a group that occurs, mu >= R_b - p_b and mu - p_j >= R_b - 2 p_b. What is
left depends on the person by P[b, a] only, and is summed over b by two products, with P and with P o P:

    hits(a, u) <= sum_b P[b, a] (g1_b + (R_bu - P[b, a]) g2_b)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.methods.response.channels import Channel, Channels, forward, product
from sfumato.methods.response.joint import JointTable
from sfumato.values.arrays import FloatArray

SMALL = 1e-2
"""Below this the first terms of the series have less rounding error than the closed forms."""


def hits_with_own_row(table: JointTable, channels: Channels) -> FloatArray:
    """Return an upper bound on the hits of every cell, [groups, d_s]; 0 where nobody is."""
    table.check_size(dense=True)
    quasi = channels[:-1]
    largest = _largest_chance(quasi, table)
    others = forward(quasi, table.group_array) - largest
    one, two = _one(np.maximum(others, 0)), _two(np.maximum(others - largest, 0))
    hits = forward(quasi, one[..., None] + forward(quasi, table.array) * two[..., None])
    hits -= product([channel.squared for channel in quasi], two)[..., None]
    of_groups = hits.reshape(-1, table.sizes[-1])[table.places]
    return np.where(table.counts > 0, np.minimum(of_groups, 1), 0.0)


def _largest_chance(quasi: Sequence[Channel], table: JointTable) -> FloatArray:
    """p_b = max P[b, a] over the groups a that occur: axis by axis, as a product with maxima for sums."""
    largest = (table.group_array > 0).astype(np.float64)
    for axis, channel in enumerate(quasi):
        moved = channel.off_diagonal * largest.max(axis=axis, keepdims=True)
        largest = np.maximum(channel.diagonal * largest, moved)
    return largest


def _one(mu: FloatArray) -> FloatArray:
    """g1."""
    there = np.maximum(mu, SMALL)
    return np.where(mu < SMALL, 1 - mu / 2 + mu**2 / 6, -np.expm1(-there) / there)


def _two(mu: FloatArray) -> FloatArray:
    """g2."""
    there = np.maximum(mu, SMALL)
    return np.where(mu < SMALL, 1 / 2 - mu / 6 + mu**2 / 24, (there + np.expm1(-there)) / there**2)
