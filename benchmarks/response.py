"""Time of the risk-limited parameters of AD: `SFUMATO_DATA=folder python benchmarks/response.py`.

1. The optimum on EMGRW (Adult, 1,120 groups, AD Table 3) for l = 2..5. Goal: under 200 ms each.
2. The optimum on EMGR x native country x relationship (275,520 groups). Goal: under 10 s each.
3. AD Eq. (9) on 9 million groups, beside the paper's Lemma 2 (a small dense matrix along each axis). Goal: under 3 s.

Times are medians, without imports. The third needs no data.
"""

from __future__ import annotations

import os
import resource
import statistics
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sfumato.methods.response.joint import Channel, JointTable
from sfumato.methods.response.problem import Scope, pose
from sfumato.methods.response.risks import Reconstruction
from sfumato.methods.response.solver import solve
from sfumato.values.arrays import FloatArray

FILE = "adult_complete_45222.parquet"
EMGR = ("education", "marital_status", "sex", "race")
WIDE = (*EMGR, "native_country", "relationship")
SCOPES: tuple[Scope, ...] = ("quasi-identifiers", "both")
NINE_MILLION = (16, 7, 2, 5, 41, 6, 33)
Result = TypeVar("Result")


def adult(folder: Path, quasi: Sequence[str]) -> JointTable:
    """The joint table of the 30,162 rows of adult.data."""
    rows = pq.read_table(folder / FILE, columns=[*quasi, "workclass", "split"])
    rows = rows.filter(pc.equal(rows["split"], "train"))
    pairs = [np.unique(rows[name].cast("string").to_numpy(), return_inverse=True) for name in (*quasi, "workclass")]
    cells = np.column_stack([codes for _, codes in pairs])
    return JointTable.from_cells([len(values) for values, _ in pairs], cells, np.ones(len(cells)))


def timed(work: Callable[[], Result], repetitions: int) -> tuple[float, Result]:
    seconds = []
    for _ in range(repetitions):
        start = perf_counter()
        result = work()
        seconds.append(perf_counter() - start)
    return statistics.median(seconds), result


def optima(table: JointTable, repetitions: int) -> None:
    print(f"{table.group_cells:,} groups, {len(table.groups):,} occupied, {table.sizes[-1]} sensitive values")
    print("  l  scope                    s      kappa  diagonals")
    for scope in SCOPES:
        for diversity in (2, 3, 4, 5):
            limit = Fraction(1, diversity)
            seconds, found = timed(
                lambda s=scope, t=limit: solve(pose(table, t, risk="reconstruction", scope=s)), repetitions
            )
            diagonals = " ".join(f"{p:.4f}" for p in found.diagonal)
            print(f"  {diversity}  {scope:<18}{seconds:>8.3f}{found.kappa:>11.4f}  {diagonals}", flush=True)


def by_lemma_2(channels: Sequence[Channel], x: FloatArray, squared: bool) -> FloatArray:
    """The same product by a d x d matrix along each axis: O(D sum d_i)."""
    for axis, channel in enumerate(channels):
        matrix = np.where(np.eye(channel.size) > 0, channel.diagonal, channel.off_diagonal)
        x = np.moveaxis(np.tensordot(matrix**2 if squared else matrix, x, axes=(1, axis)), 0, axis)
    return x


def equation_9(records: int, repetitions: int) -> None:
    """A table of as many records as Adult, spread at random over the domain."""
    rng = np.random.default_rng(1)
    cells = np.column_stack([rng.integers(0, d, records) for d in (*NINE_MILLION, 3)])
    table = JointTable.from_cells((*NINE_MILLION, 3), cells, np.ones(records))
    channels = tuple(Channel.from_diagonal(d, 0.7) for d in table.sizes)
    pi = table.group_array
    ours, fast = timed(lambda: pi * Reconstruction(table, channels).linking, repetitions)
    quasi = channels[:-1]
    theirs, slow = timed(lambda: pi * by_lemma_2(quasi, 1 / by_lemma_2(quasi, pi, False), True), repetitions)
    difference, peak = np.abs(fast - slow).max() / slow.max(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    print(
        f"Eq. (9) on {table.group_cells:,} groups: {ours:.2f} s; by Lemma 2 {theirs:.2f} s, {theirs / ours:.1f} times"
    )
    print(f"largest difference {difference:.0e}; peak memory {peak:,.0f} MB")


def main() -> None:
    if folder := os.environ.get("SFUMATO_DATA"):
        solve(pose(JointTable.from_array([[3, 1], [1, 3]]), 0.6))  # imports SciPy
        optima(adult(Path(folder), EMGR), repetitions=5)
        optima(adult(Path(folder), WIDE), repetitions=1)
    else:
        print("SFUMATO_DATA names no folder with Adult: only Eq. (9) is timed.")
    equation_9(records=30_162, repetitions=3)


if __name__ == "__main__":
    main()
