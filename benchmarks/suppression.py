"""Time of planning suppression for 10^8 records over 100,000 values: `python benchmarks/suppression.py`.

Zipf frequencies f_i ~ i^-s. Goal: every variant under 1 s, and the comparison of all costs, E[X_R] included, too.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
import numpy.typing as npt

from sfumato.methods.suppression.suppress import VARIANTS, costs, suppress
from sfumato.values.randomness import simulation

RECORDS = 10**8
VALUES = 100_000
SETTINGS = ((1.0, 20), (1.0, 200), (1.5, 20))
REPETITIONS = 3


def zipf(records: int, values: int, exponent: float) -> npt.NDArray[np.int64]:
    """Counts proportional to i^-exponent, rounded down, one at least; what is lost goes to the first."""
    weight = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    counts: npt.NDArray[np.int64] = np.floor(weight / weight.sum() * records).astype(np.int64).clip(1)
    counts[0] += records - counts.sum()
    return counts


def seconds(work: Callable[[], object]) -> float:
    """The best of some repetitions."""
    times = []
    for _ in range(REPETITIONS):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return min(times)


def main() -> None:
    rng = simulation(1)
    print(f"{RECORDS:,} records, {VALUES:,} values, best of {REPETITIONS}")
    print(" Zipf    l    k  variant            s    suppressed   worst belief in S_1")
    for exponent, ell in SETTINGS:
        counts = zipf(RECORDS, VALUES, exponent)
        for variant in VARIANTS:
            found = suppress(counts, ell, variant, draw=lambda n: int(rng.integers(n)))
            time = seconds(lambda v=variant, c=counts, e=ell: suppress(c, e, v, draw=lambda n: int(rng.integers(n))))
            worst = max(belief.dominant for belief in found.beliefs.values())
            print(
                f"{exponent:>5g}{ell:>5}{found.violating:>5}  {variant:<14}{time:>6.2f}{float(found.share):>14.4%}"
                f"{float(worst):>22.4f}"
            )
        print(f"{'':>17}all costs     {seconds(lambda c=counts, e=ell: costs(c, e)):>6.2f}")


if __name__ == "__main__":
    main()
