"""What a regression is fitted to: cells of equal rows, with the states that hide behind what they published.

A row has untouched columns w, a true *state* k (all randomized columns of the formula together, states that the formula
does not tell apart being merged), a published y and a survey weight omega. With the true data a fit solves

    sum_i omega_i psi(beta; w_i, x_i) = 0        psi = v (Y - mu)        v = v(w, x), Y = Y(w, x)

A release gives it unbiased: sum_i omega_i sum_k b_ik psi(beta; w_i, k), with E[b_ik | x_i] = 1 if x_i = k, else 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol

from sfumato.analyst.regression.families import Family
from sfumato.values.arrays import BoolArray, FloatArray, IntArray

Target = Literal["table", "population"]
"""What coefficients are about: the table that was randomized, or the population that it is a sample of."""


@dataclass(frozen=True, eq=False)
class Cells:
    """Rows, or equal rows put together: R cells, K states, p columns of the design.

    Cells that differ only in what they published share a *pattern*: the design, the outcome, `used` and the offset have
    one row for each of G patterns, and `pattern` says which one a cell has. Where `pattern` is None, G = R.
    An axis of states, or of patterns, may have length 1 where nothing depends on it.
    """

    weights: FloatArray  # (R, K) b: rows sum to one; of buckets, the bucket's row of `dealt_weights`
    design: FloatArray  # (G, K or 1, p) v
    outcome: FloatArray  # (G or 1, K or 1) Y: 0 and 1, the number of the class, or a number
    count: FloatArray  # (R,) the sum of omega over the rows of a cell
    squares: FloatArray  # (R,) the sum of omega^2
    pattern: IntArray | None = None  # (R,)
    published: IntArray | None = None  # (R,) the state that a cell shows: what the naive fit takes as true
    naive: FloatArray | None = None  # (R, K) weights of the naive fit, where a cell shows no single state
    chances: FloatArray | None = None  # (R, K) Pr[published | state], for the likelihood
    used: BoolArray | None = None  # (G or 1, K or 1) where False psi = 0: true values missing, or outside of the subset
    offset: FloatArray | None = None  # (G, K or 1) added to the linear predictor
    draw: IntArray | None = None  # (R,) cells with one number share one draw of the noise: their weights are equal
    cluster: IntArray | None = None  # (R,) cells with one number belong together in the population, such as a person's
    stratum: IntArray | None = None  # (R,) the survey stratum, a place of `units`
    units: FloatArray | None = None  # (strata,) persons or clusters that were drawn in each survey stratum
    group: IntArray | None = None  # (R,) the bucket, a row of `Buckets.compositions`
    settings: FloatArray | None = None  # (s, G, K or 1, p) the design with a column set to a value, for each question
    slopes: FloatArray | None = None  # (s, G, K or 1, p) the derivative of the design by a column, for each question


@dataclass(frozen=True, eq=False)
class Buckets:
    """How records were dealt to buckets: C[g, k] records of bucket g have state k."""

    compositions: FloatArray  # (buckets, K)
    states: tuple[str, ...]  # what the K states are called, for messages
    stratum: IntArray | None = None  # (buckets,) the deal was random inside strata; None: there is one
    loose: BoolArray | None = None  # (buckets,) those that chance says nothing about


class Source(Protocol):
    """Cells in one piece, or in batches as often as asked and always in the same order.

    Cells that share a draw or a cluster lie in one batch. A batch of at most 131,072 cells, and of at most
    four million numbers of the design, keeps memory bounded.
    """

    @property
    def names(self) -> tuple[str, ...]:
        """The p columns of the design, in words that people read."""

    @property
    def indicator(self) -> tuple[bool, ...]:
        """Which columns are 0 or 1 for levels of categories, but the intercept: their coefficients may be infinite."""

    @property
    def opposite(self) -> tuple[str, ...]:
        """For each column the records that it is compared with, where they have the only other level; else ""."""

    @property
    def family(self) -> Family:
        """What the outcome is; of `Multinomial` also the names of its classes."""

    @property
    def buckets(self) -> Buckets | None:
        """The deal, of a release by buckets."""

    def batches(self) -> Iterator[Cells]:
        """Yield the cells."""
