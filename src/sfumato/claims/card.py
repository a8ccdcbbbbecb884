"""The card: every promise in the same five lines, for a plan, `publish`, a README, a report and the studio.

A claim says in plain words what is promised, whom we assume, and what is not covered (`Plain`); what it costs follows
from the matrices and the number of published records, which are public. The exact statement is the guarantee itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from sfumato.values.mechanism import Mechanism
from sfumato.values.text import MOST_NAMED, named

QUASI_IDENTIFIERS = "quasi-identifiers (columns that others may know, such as age)"
LABELS = ("Promise", "Attacker", "Not covered", "Cost", "Strength")
MARGIN = 2 + max(map(len, LABELS))
SECOND, SEVERAL_ROWS = "a second release", "several rows of a person"
BELIEFS, UNTOUCHED = "someone surer beforehand, who may end higher", "columns published as they are"
RELATIVES = "relatives with like values"
COMPUTED = "clues from facts computed from the table"


class Plain(NamedTuple):
    """A claim in plain words: one sentence, whom we assume, and what is not covered, a few words each.

    `start`: the belief beforehand that the promise is proved for, where it is for one alone.
    """

    promise: str
    attacker: str
    gaps: tuple[str, ...]
    start: str = ""


@dataclass(frozen=True)
class Card:
    """A guarantee as it is told to people. `prior` and `not_covered` are the exact statements behind the lines."""

    promise: str
    attacker: str
    gaps: str
    cost: str
    strength: str
    prior: str
    not_covered: tuple[str, ...]

    @property
    def rows(self) -> tuple[tuple[str, str], ...]:
        """The five lines, each with its label."""
        return tuple(zip(LABELS, (self.promise, self.attacker, self.gaps, self.cost, self.strength), strict=True))

    @property
    def lines(self) -> list[str]:
        """The five lines as plain text."""
        return [f"{label:<{MARGIN}}{text}" for label, text in self.rows]


# --- words ------------------------------------------------------------------------------------------------------------


def known_columns(names: Sequence[str]) -> str:
    """Return the columns published as they are, which others are taken to know: of a plan and of its release alike."""
    return f"{named(names)} (all columns published as they are)" if len(names) > MOST_NAMED else named(names)


def one_in(share: Fraction) -> str:
    """Return a probability as people say it.

    >>> one_in(Fraction(1, 3)), one_in(Fraction(2, 5))
    ('1 in 3', '2 in 5')
    """
    return f"{share.numerator:,} in {share.denominator:,}"


# --- what it costs, by what is public ---------------------------------------------------------------------------------


def cost_of_noise(mechanisms: Sequence[Mechanism], rows: int) -> str:
    """Return how many published values are false, and how far a count is off: of a table of so many records."""
    if len(mechanisms) == 1:
        return f"{_cost(mechanisms[0], rows)}."
    told = [f"{mechanism.domain.name}: {_short_cost(mechanism, rows)}" for mechanism in mechanisms]
    more = len(told) - MOST_NAMED + 1
    return f"{'; '.join(told if more <= 1 else [*told[: MOST_NAMED - 1], f'and {more:,} more columns'])}."


def _cost(mechanism: Mechanism, rows: int) -> str:
    error, count = typical_error(mechanism, rows), rounded(typical_count(mechanism, rows))
    off = f"a count of {count} is off by about ±{rounded(error or 0)} (standard error)"
    return f"{_single_rows(mechanism)}; {'counts have no error bars' if error is None else off}"


def _short_cost(mechanism: Mechanism, rows: int) -> str:
    error, what = (
        typical_error(mechanism, rows),
        "values are false" if mechanism.form == "value" else "sets lack the truth",
    )
    counts = "no error bars" if error is None else f"counts ±{rounded(error)}"
    return f"{_false(mechanism)} {what}, {counts}"


def _single_rows(mechanism: Mechanism) -> str:
    if mechanism.form == "value":
        return (
            f"about {_false(mechanism)} published values of {mechanism.domain.name} are false: do not use single rows"
        )
    return f"a record shows a set of values, and about {_false(mechanism)} sets lack the true one"


def _false(mechanism: Mechanism) -> str:
    """Return how many of 100 records are published without their true value, by the value or the sub-table."""
    lost = 1 - np.concatenate([table.matrix.holds_truth for table in mechanism.tables])
    low, high = round(100 * float(lost.min())), round(100 * float(lost.max()))
    return f"{low} of 100" if low == high else f"{low} to {high} of 100"


def typical_count(mechanism: Mechanism, rows: int) -> float:
    """Return how many records have a value, where all values that are published are equally frequent."""
    return rows / len({code for table in mechanism.tables for code in table.codes.tolist()})


def typical_error(mechanism: Mechanism, rows: int) -> float | None:
    """Return the standard error of a count, as a root of mean squares over all values; None: there is no inverse.

    Of a table in which all values of a sub-table are equally frequent: the true shares are not public.
    """
    sizes = [table.codes.size for table in mechanism.tables]
    quotas = tuple(np.full(size, rows / sum(sizes)) for size in sizes)
    variance = mechanism.variance(quotas)
    return None if variance is None else math.sqrt(float(variance.mean()))


def rounded(number: float) -> str:
    """Return a number with two digits.

    >>> rounded(290.1), rounded(0.034), rounded(12345.0)
    ('290', '0.034', '12,000')
    """
    if number < 10:
        return f"{number:.2g}"
    step = 10 ** (math.floor(math.log10(number)) - 1)
    return f"{round(number / step) * step:,}"
