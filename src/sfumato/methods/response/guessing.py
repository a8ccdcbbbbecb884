"""The best guesser: who reconstructs the table from the release, and guesses the likeliest value of each group.

Whoever knows pi(u | QI) is right about a person with probability max_u pi(u | QI), whatever the mechanism is. A guesser
estimates pi from the release, with the published matrices, and comes the nearer to that the more records there are: on
the expected release P pi the likelihood estimate is pi itself. So no risk limit bounds this guesser.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import Channel, IntArray, product
from sfumato.methods.response.joint import JointTable

MOST_STEPS = 1000
"""Steps after which iterative Bayes stops; few steps even guess better, by smoothing what is noise."""

GAP = 1e-3
"""Nats below the maximum of log L at which it stops before."""


@dataclass(frozen=True, eq=False)
class Guess:
    """How often a guesser is right, on average over the records; and how far its estimate was carried."""

    success: float
    values: IntArray  # the guessed value of each group
    estimate: FloatArray  # of the joint table
    gap: float  # nats by which the estimate's log-likelihood is below its maximum, at most


def limit_success(table: JointTable) -> float:
    """Return the success on the expected release, and in the limit of many records: sum_a max_u pi(a, u).

    >>> limit_success(JointTable.from_array([[20, 30, 22], [12, 8, 8]]))
    0.42
    """
    return float(table.counts.max(axis=1).sum() / table.records)


def guess(table: JointTable, channels: Sequence[Channel], released: FloatArray, most: int = MOST_STEPS) -> Guess:
    """Return the success of argmax_u pi_hat(u | QI) on a release, an array of counts shaped like the table."""
    estimate, gap = likeliest(channels, released, most)
    values = estimate[tuple(table.groups.T)].argmax(axis=1)
    right = table.counts[np.arange(len(values)), values].sum()
    return Guess(float(right / table.records), values, estimate, gap)


def likeliest(channels: Sequence[Channel], released: FloatArray, most: int) -> tuple[FloatArray, float]:
    """Return the table after at most so many steps of iterative Bayes, and its gap.

    x <- x g,  g = P^T (o / P x);  log L is at most n (max g - 1) below its maximum. Stops when that is within GAP.
    """
    forward = [channel.forward for channel in channels]
    x, n = (released + released.mean()) / 2, float(released.sum())
    for _ in range(most):
        expected = product(forward, x)
        g = product(forward, np.divide(released, expected, out=np.zeros_like(x), where=released > 0))
        left = n * (float(g.max()) - 1)
        if left <= GAP:
            break
        x = x * g
    return x, left
