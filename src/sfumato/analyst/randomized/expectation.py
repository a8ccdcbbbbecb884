"""The variance of a count before it is asked, and what follows from it: widths, the rarest group that is seen.

A group of n published rows is asked for a cell, a set of values. Its rows fall into strata k (a sub-table, and the
truth of what a condition says of the untouched columns) of known sizes w_k n. A record with the value x adds a(y) to
the estimate, with a = P_k^-T phi and phi the values of the cell in the stratum; its variance given the table is

    v_k(x) = sum_y P_k[y, x] a(y)^2 - phi(x)                              docs/methods/proofs/randomized-response.md

How the values are spread is assumed. D_k, the corrected distribution in the whole release (in the stratum's sub-table),
holds in the group too, but for the odds of the cell, which differ by one factor e^theta in all strata:

    s_k = expit(theta + log D_k(phi)/D_k(not phi))       share of the cell in the stratum
    s = sum_k w_k s_k                                    ... in the group
    sigma^2 = sum_k w_k (s_k v_k(in) + (1 - s_k) v_k(out))    variance of a record, v_k(in) and v_k(out) means under D_k

(Among all tables with these strata and this share of the cell it is the one nearest to the release, in Kullback and
Leibler's sense.) theta = 0 is the release itself; a share that is given determines theta. With one stratum sigma^2 is a
straight line in s. In a population s (1 - s n/N) is added for the count of a group with n of the release's N rows, and
s (1 - s) for the share, count/n, whose denominator is random as well.

The standard error of the count is sqrt(n) sigma(s), that of the share sigma(s)/sqrt(n). A cell is *seen* if the
interval of its count lies above 0. As the estimate varies, so does its standard error; the least estimate that is seen
is about n s* with n s* = z sqrt(n) sigma(s*). So a share s is seen with the chance Phi(z_c) if

    s sqrt(n) = z sigma(s*) + z_c sigma(s),    hence    n = ((z sigma(s*) + z_c sigma(s)) / s)^2 records are needed,

and the share's interval has the half-width h for n = (z sigma(s) / h)^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sfumato.errors import UsageError
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.matrix.base import Estimable

MOST_TERMS = 10_000_000
"""Groups times cells times strata that are worked on at once."""
FARTHEST = 700.0
"""The largest |theta|: e^700 is about the largest number, so the share is 0 or the largest possible."""
HALVINGS = 60


@dataclass(frozen=True, eq=False)
class Stratum:
    """A matrix, the cell that each of its values belongs to (-1: none is asked), and how the values are spread."""

    matrix: Estimable
    cells: IntArray
    spread: FloatArray  # positive

    def terms(self, cell: int) -> tuple[float, float, float, float]:
        """Return the cell's log odds, v(in), v(out), and the share of rows that publish it by chance at least."""
        phi = self.cells == cell
        if not phi.any():
            return -math.inf, 0.0, 0.0, 0.0
        by_chance = float(self.matrix.uncorrected(self.matrix.least_chance)[phi].sum())
        if phi.all():
            return math.inf, 0.0, 0.0, by_chance
        weights = self.matrix.solve_transposed(phi.astype(np.float64))
        variance = np.maximum(self.matrix.apply_transposed(weights**2) - phi, 0)
        inside, outside = (float(np.average(variance[part], weights=self.spread[part])) for part in (phi, ~phi))
        return math.log(self.spread[phi].sum() / self.spread[~phi].sum()), inside, outside, by_chance


# --- share and variance, as the odds of the cell change ---------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Point:
    """The cells' shares in the groups, and the variance that one record adds to the count and to n times the share."""

    share: FloatArray  # [groups, cells], all three
    of_count: FloatArray
    of_share: FloatArray


@dataclass(frozen=True, eq=False)
class Curve:
    """All that is expected, as a function of theta."""

    weights: FloatArray  # [groups, 1, strata]: w
    log_odds: FloatArray  # [cells, strata]; -inf where the stratum has no value of the cell, inf where it has no other
    inside: FloatArray  # v(in)
    outside: FloatArray  # v(out)
    by_chance: FloatArray  # share of rows that publish the cell, whatever the records have
    fraction: FloatArray | None  # [groups, 1]: n/N in a population; None for the table

    @property
    def shape(self) -> tuple[int, int]:
        """Groups, cells."""
        return self.weights.shape[0], self.log_odds.shape[0]

    def at(self, theta: FloatArray | float) -> Point:
        """Return share and variances; theta is [groups, cells], or one number for all."""
        with np.errstate(over="ignore"):
            own = 1 / (1 + np.exp(-(np.broadcast_to(theta, self.shape)[..., None] + self.log_odds)))
        share: FloatArray = np.minimum((self.weights * own).sum(axis=-1), 1)  # removes rounding only
        given: FloatArray = (self.weights * (own * self.inside + (1 - own) * self.outside)).sum(axis=-1)
        if self.fraction is None:
            return Point(share, given, given)
        return Point(share, given + share * (1 - share * self.fraction), given + share * (1 - share))


def curve_of(strata: Sequence[Stratum], cells: Sequence[int], sizes: FloatArray, total: float | None) -> Curve:
    """Return the curve of groups with these numbers of rows in the strata; `total` = rows of a population's release."""
    if sizes.size * len(cells) > MOST_TERMS:
        raise UsageError(
            f"{len(sizes):,} groups of {len(cells):,} cells are too many.", "Group by fewer columns, or ask for less."
        )
    terms = np.array([[stratum.terms(cell) for stratum in strata] for cell in cells])  # [cells, strata, 4]
    rows = sizes.sum(axis=1, keepdims=True)
    weights, fraction = (sizes / rows)[:, None, :], None if total is None else rows / total
    return Curve(weights, terms[..., 0], terms[..., 1], terms[..., 2], terms[..., 3], fraction)


def first_theta(shape: tuple[int, int], holds: Callable[[FloatArray], npt.NDArray[np.bool_]]) -> FloatArray:
    """Return the theta from which on a condition holds, by bisection; -+FARTHEST where it always or never does."""
    low, high = np.full(shape, -FARTHEST), np.full(shape, FARTHEST)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        true = holds(middle)
        low, high = np.where(true, low, middle), np.where(true, middle, high)
    return high


# --- what is expected -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Expected:
    """The figures of `Power`, [groups, cells]."""

    share: FloatArray
    standard_error: FloatArray
    share_error: FloatArray
    least_share: FloatArray
    records_to_see: FloatArray
    records_for_width: FloatArray | None

    @classmethod
    def of(
        cls, curve: Curve, records: FloatArray, share: float | None, z: float, z_chance: float, width: float | None
    ) -> Expected:
        """Return what is expected of groups with these numbers of rows ([groups, 1]), for cells of this share."""
        point = curve.at(0.0 if share is None else first_theta(curve.shape, lambda t: curve.at(t).share >= share))
        return cls(
            point.share,
            np.sqrt(records * point.of_count),
            np.sqrt(point.of_share / records),
            least_share(curve, records, z, z_chance),
            records_to_see(curve, point, z, z_chance),
            None if width is None else np.maximum(np.ceil(z**2 * point.of_share / width**2), 1),
        )


def least_share(curve: Curve, records: FloatArray, z: float, z_chance: float) -> FloatArray:
    """Return the least s with s sqrt(n) >= z sigma(s*) + z_c sigma(s); NaN where not even the largest share is seen."""
    root = np.sqrt(records)

    def above(theta: FloatArray | float, edge: FloatArray | float, quantile: float) -> npt.NDArray[np.bool_]:
        point = curve.at(theta)
        return np.greater(point.share * root, edge + quantile * np.sqrt(point.of_count))

    edge = z * np.sqrt(curve.at(first_theta(curve.shape, lambda theta: above(theta, 0.0, z))).of_count)
    least = curve.at(first_theta(curve.shape, lambda theta: above(theta, edge, z_chance))).share
    return np.where(above(FARTHEST, edge, z_chance), least, np.nan)


def records_to_see(curve: Curve, point: Point, z: float, z_chance: float) -> FloatArray:
    """Return n = ((z sigma(s*) + z_c sigma(s)) / s)^2, at least 1; NaN for a share of 0.

    With that n the equation of s* is s* (z sigma(s*) + z_c sigma(s)) = s z sigma(s*), free of n.
    """
    ahead = z_chance * np.sqrt(point.of_count)

    def beyond(theta: FloatArray) -> npt.NDArray[np.bool_]:
        edge = curve.at(theta)
        noise = z * np.sqrt(edge.of_count)
        return np.greater_equal(edge.share * (noise + ahead), point.share * noise)

    noise = z * np.sqrt(curve.at(first_theta(curve.shape, beyond)).of_count)
    possible = np.where(point.share > 0, point.share, np.nan)
    return np.maximum(np.ceil(((noise + ahead) / possible) ** 2), 1)
