"""Randomized response with AD's parameters, drawn again and again, and what analysts estimate from it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.auditor.attackers.linking_guesser import STOPS, drawn
from sfumato.methods.response.guessing import Guess, guesses
from sfumato.methods.response.joint import Channel, Channels, JointTable, Mix, product
from sfumato.values.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Randomized:
    """Counts of a release."""

    table: JointTable
    channels: Channels
    released: FloatArray

    @classmethod
    def drawn(cls, table: JointTable, channels: Channels, rng: np.random.Generator) -> Randomized:
        """Randomize every record."""
        return cls(table, channels, drawn(table, channels, rng))

    def inverse(self) -> FloatArray:
        """Return P^-1 of the released counts: unbiased, with negative cells."""
        return product([inverse(channel) for channel in self.channels], self.released)

    def clipped(self) -> FloatArray:
        """Return the same with negative cells set to 0, scaled back to N.

        The paper does not say what it makes of negative cells; with this, its Tables 4 and 5 come out.
        """
        positive = np.maximum(self.inverse(), 0)
        positive *= self.released.sum() / positive.sum()
        return np.asarray(positive, dtype=np.float64)

    def guessed(self) -> tuple[Guess, ...]:
        """Return what guessers make of it, with the estimates by iterative Bayes that is stopped at each of STOPS."""
        return tuple(guesses(self.table, self.channels, self.released, STOPS))


def inverse(channel: Channel) -> Mix:
    """P^-1 = (I - q J)/r        AD Lemma 4."""
    return Mix(1 / channel.retention, -channel.off_diagonal / channel.retention)
