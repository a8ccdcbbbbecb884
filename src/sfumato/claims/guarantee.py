"""A guarantee: what is promised, against whom, how strongly, in the words that people read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from sfumato.values.matrix.base import Direction

Scope = Literal["any predicate", "single values"]
BOTH: tuple[Direction, ...] = ("upward", "downward")
UPWARD: tuple[Direction, ...] = ("upward",)

Strength = Literal[
    "any prior", "any prior, computed from this table", "one stated prior", "this table's own risk", "as published"
]
STRENGTHS: dict[Strength, str] = {
    "any prior": "proved for any prior belief",
    "any prior, computed from this table": (
        "proved for any prior belief; the matrix or other facts were computed from this table"
    ),
    "one stated prior": "proved for one stated prior",
    "this table's own risk": "a limit on this table's own risk",
    "as published": "as published: known to fail, as the limits say",
}
"""The word that is stored, and how it is told to people."""

PER_ROW = "Per row: a person with several rows, or a second release of the same people, adds up."
NOT_OF = "Says nothing of what an adversary knows beforehand, nor of columns that are published untouched."


@dataclass(frozen=True)
class Card:
    """A guarantee as it is told to people: a README, a plan, the command line and a report take their lines here."""

    promise: str
    attacker: str
    prior: str
    strength: str
    not_covered: tuple[str, ...]


@dataclass(frozen=True)
class Guarantee:
    """One sentence, with its adversary, prior, scope and strength. `limits` say what it does not cover."""

    sentence: str
    adversary: str
    prior: str
    scope: Scope
    directions: tuple[Direction, ...]
    strength: Strength
    limits: tuple[str, ...] = ()

    @property
    def card(self) -> Card:
        """The lines that people read."""
        return Card(
            promise=self.sentence,
            attacker=f"Adversary: {self.adversary}",
            prior=f"Prior: {self.prior}",
            strength=f"Strength: {STRENGTHS[self.strength]}.",
            not_covered=tuple(f"Limit: {limit}" for limit in self.limits),
        )


def percent(x: Fraction) -> str:
    """Return a probability in percent, exactly: as a decimal where that is short, else as a fraction.

    >>> percent(Fraction(3, 10)), percent(Fraction(1, 7))
    ('30%', '1/7')
    """
    written = f"{float(100 * x):.10g}"
    return f"{written}%" if Fraction(written) == 100 * x else str(x)


def rounded_up(x: Fraction) -> str:
    """Return a number with five digits, never below it: a stated bound must not be stronger than the true one.

    >>> rounded_up(Fraction(3)), rounded_up(Fraction(10, 3))
    ('3', '3.3334')
    """
    step = Fraction(10) ** (math.floor(math.log10(x)) - 4)
    return f"{float(math.ceil(x / step) * step):.10g}"
