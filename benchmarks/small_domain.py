"""Time of planning small domain randomization for 10^8 records over 15,000 values: `python benchmarks/small_domain.py`.

Zipf frequencies f_i ~ i^-s; rho1 is the largest relative frequency, rho2 twice that. Goals: s = 0.5 under 2 s, s = 1
under 30 s, for either assurance.
"""

from __future__ import annotations

from fractions import Fraction
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sfumato.methods.small_domain.partition import Partition, partition
from sfumato.values.arrays import Assurance

RECORDS = 10**8
VALUES = 15_000
EXPONENTS = (0.5, 1.0)
ASSURANCES: tuple[Assurance, ...] = ("as-published", "proved")
REPETITIONS = 3


def zipf(records: int, values: int, exponent: float) -> npt.NDArray[np.int64]:
    """Counts proportional to i^-exponent, rounded down; what is lost goes to the first."""
    weight = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    counts: npt.NDArray[np.int64] = np.floor(weight / weight.sum() * records).astype(np.int64)
    counts[0] += records - counts.sum()
    return counts


def timed(counts: npt.NDArray[np.int64], assurance: Assurance) -> tuple[float, Partition]:
    rho1 = Fraction(int(counts.max()), int(counts.sum()))
    seconds = []
    for _ in range(REPETITIONS):
        start = perf_counter()
        found = partition(counts, rho1, 2 * rho1, assurance=assurance)
        seconds.append(perf_counter() - start)
    return min(seconds), found


def main() -> None:
    print(f"{RECORDS:,} records, {VALUES:,} values, best of {REPETITIONS}")
    print(" Zipf  assurance           s  theta      t  blocks         p  uniform p      bound")
    for exponent in EXPONENTS:
        counts = zipf(RECORDS, VALUES, exponent)
        for assurance in ASSURANCES:
            seconds, found = timed(counts, assurance)
            print(
                f"{exponent:>5g}  {assurance:<14}{seconds:>7.2f}{found.groups.theta:>7}{found.groups.number:>7}"
                f"{len(found.blocks):>8}{found.mean_retention:>10.4f}{found.uniform_retention:>11.6f}"
                f"{found.valid_bound:>11.6f}"
            )


if __name__ == "__main__":
    main()
