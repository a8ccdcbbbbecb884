"""Time of the exact fine-grain solvers at m = 15,000: `python benchmarks/solver.py`.

Zipf frequencies and gammas from a tolerance theta, as in FG's experiments: rho1 = f, rho2 = theta f, and no
requirement where f >= 1/theta.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from sfumato.methods.fine_grain_solver import solve_both, solve_upward
from sfumato.values.arrays import FloatArray

VALUES = 15_000
TOLERANCES = (2.0, 3.0, 10.0, 100.0, 1_000.0)
REPETITIONS = 5


def zipf(m: int) -> FloatArray:
    """f_i proportional to 1/i."""
    weight = 1 / np.arange(1, m + 1, dtype=np.float64)
    share: FloatArray = weight / weight.sum()
    return share


def tolerance_gamma(frequency: FloatArray, theta: float) -> FloatArray:
    """gamma = theta (1 - f)/(1 - theta f), FG Eq. (5); infinite where theta f >= 1."""
    required = theta * frequency < 1
    gamma = np.full(frequency.size, np.inf)
    gamma[required] = theta * (1 - frequency[required]) / (1 - theta * frequency[required])
    return gamma


def record_utility(retention: FloatArray, frequency: FloatArray) -> float:
    """FG Definition 3."""
    return float(np.sum(frequency * (retention + (1 - retention) / retention.size)))


def main() -> None:
    frequency = zipf(VALUES)
    print(f"m = {VALUES:,}, Zipf frequencies, best of {REPETITIONS}")
    print(f"{'theta':>8}  {'solver':<14}{'ms':>8}  {'record utility':>15}")
    for theta in TOLERANCES:
        gamma = tolerance_gamma(frequency, theta)
        for solve in (solve_upward, solve_both):
            seconds = []
            for _ in range(REPETITIONS):
                start = perf_counter()
                retention = solve(gamma, frequency)
                seconds.append(perf_counter() - start)
            utility = record_utility(retention, frequency)
            print(f"{theta:>8g}  {solve.__name__:<14}{1e3 * min(seconds):>8.2f}  {utility:>15.6f}")


if __name__ == "__main__":
    main()
