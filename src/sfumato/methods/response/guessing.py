"""Guessers: who reconstructs the table from the release, and guesses the likeliest value of each group.

The best guesser is who knows pi(u | QI): right about a person with probability max_u pi(u | QI), whatever the mechanism
is, and nobody who guesses by the quasi-identifiers is right more often. One who has the release estimates pi from it,
with the published matrices, and comes the nearer to that the more records there are: on the expected release P pi the
likelihood estimate is pi itself. So no risk limit bounds the best guesser.

On a release of some records the likelihood estimate is not the best to guess from: it fits the noise, and iterative
Bayes that is stopped before guesses better, for its start smooths. When to stop is not seen from the release. So a
guesser's success is that of a stated number of steps, or the largest of several: `guesses`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sfumato.methods.response.joint import Channel, JointTable, Mix, product
from sfumato.values.arrays import FloatArray, IntArray

GAP = 1e-3  # nats below the maximum of log L at which iterative Bayes stops before


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


def guesses(
    table: JointTable, channels: Sequence[Channel], released: FloatArray, stops: Sequence[int]
) -> Iterator[Guess]:
    """Yield the success of argmax_u pi_hat(u | QI) on a release, an array of counts shaped like the table.

    pi_hat is what iterative Bayes has after so many steps as each of `stops` says, which rise, or before if its
    likelihood is within GAP of the largest.
    """
    groups = tuple(table.groups.T)
    for estimate, gap in estimates(channels, released, stops):
        values = estimate[groups].argmax(axis=1)
        right = table.counts[np.arange(len(values)), values].sum()
        yield Guess(float(right / table.records), values, estimate, gap)


def estimates(
    channels: Sequence[Channel], released: FloatArray, stops: Sequence[int], precision: type[np.floating] = np.float64
) -> Iterator[tuple[FloatArray, float]]:
    """Yield the table after so many steps of iterative Bayes as each of `stops` says, and its gap.

    x <- x g,  g = P^T (o / P x);  log L is at most n (max g - 1) below its maximum. Within GAP of it, x stays.
    It starts half way between the release and equal counts. Half the digits (`precision`) take a third of the time: a
    guess needs no more. A factor of P leaves g as it is, so that of each channel the diagonal is taken as 1.
    """
    forward = [Mix(1.0, spread / own) if own else Mix(own, spread) for own, spread in (c.forward for c in channels)]
    x: Any = ((released + released.mean()) / 2).astype(precision)
    n = float(released.sum())
    there, ratio = np.flatnonzero(released), np.zeros_like(x)  # most cells of a large table have no row
    rows, g = released.ravel()[there], np.empty_like(x)  # to use an array again is quicker than to get a new one
    done, left = 0, np.inf
    for stop in stops:
        while done < stop and left > GAP:
            ratio.ravel()[there] = rows / product(forward, x, out=g).ravel()[there]
            product(forward, ratio, out=g)
            left = n * (float(g.max()) - 1)
            if left > GAP:
                x *= g
            done += 1
        yield x.copy(), left
