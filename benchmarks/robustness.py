"""r-robust groups of Adult's 45,222 complete records, occupation sensitive, the prior from the table's own counts.

    SFUMATO_DATA=folder python benchmarks/robustness.py            --most-hosts 8 lets guests join up to eight groups

For each list of attribute sets and each r, in records unless said otherwise:

    least         any r-robust grouping of the table withholds at least so many
    leftover      the deal inside the cells leaves over, by the formula
    withheld      of them not seated as guests; s: seconds
    breach        share of the published records in groups whose exact posterior exceeds 1/r under some attribute set's
                  prior; "anatomy" is that of the same deal with all records in one cell
    worst         the largest posterior in any group
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import TypeVar

import numpy as np
import pyarrow.parquet as pq

from sfumato.methods.robustness.check import breaches, worst_posteriors
from sfumato.methods.robustness.grouping import group_records, leftovers
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import compositions
from sfumato.methods.robustness.prior import count_prior
from sfumato.values.arrays import IntArray
from sfumato.values.steps import WITHHELD

FILE = "adult_complete_45222.parquet"
COLUMNS = ("occupation", "sex", "race", "education")
ATTRIBUTE_SETS = {
    "{sex}": [["sex"]],
    "{sex, race}": [["sex", "race"]],
    "{education}": [["education"]],
    "all three": [["sex"], ["sex", "race"], ["education"]],
}
Result = TypeVar("Result")


class Adult:
    """The codes of the records: values, cells, and for each attribute set signatures and a prior."""

    def __init__(self, path: Path, sets: Sequence[Sequence[str]]) -> None:
        table = pq.read_table(path, columns=list(COLUMNS))
        columns = {name: table[name].combine_chunks().indices.to_numpy().astype(np.int64) for name in COLUMNS}
        self.values = columns["occupation"]
        self.signatures = [joint_codes([columns[name] for name in names]) for names in sets]
        self.cells = joint_codes([columns[name] for name in sorted({n for names in sets for n in names})])
        self.priors = [count_prior(codes, self.values) for codes in self.signatures]
        self.order = np.random.default_rng(1).permutation(self.values.size)

    def breach_share(self, groups: IntArray, r: int) -> float:
        """Share of the published records whose group exceeds 1/r under some attribute set's prior."""
        known = zip(self.signatures, self.priors, strict=True)
        beyond = np.any([breaches(compositions(groups, s, self.values), p, r) for s, p in known], axis=0)
        return float(beyond[groups[groups != WITHHELD]].mean())

    def worst(self, groups: IntArray) -> float:
        """The largest posterior of any group under any attribute set's prior."""
        known = zip(self.signatures, self.priors, strict=True)
        return max(float(worst_posteriors(compositions(groups, s, self.values), p).max()) for s, p in known)


def joint_codes(columns: Sequence[IntArray]) -> IntArray:
    codes: IntArray = np.unique(np.array(columns), axis=1, return_inverse=True)[1].ravel()
    return codes


def timed(work: Callable[[], Result]) -> tuple[float, Result]:
    start = perf_counter()
    result = work()
    return perf_counter() - start, result


def line(adult: Adult, r: int, most_hosts: int) -> str:
    """One setting, measured."""
    cells, values, signatures, order = adult.cells, adult.values, adult.signatures, adult.order
    one_cell = np.zeros_like(cells)
    least, leftover = leftovers(one_cell, values, r), leftovers(cells, values, r)
    seconds, found = timed(lambda: group_records(cells, values, signatures, order, r, adult.priors, most_hosts))
    anatomy = group_records(one_cell, values, [one_cell], order, r)
    merging, merged = timed(lambda: merge_records(cells, values, signatures, order, r, adult.priors))
    lost = np.count_nonzero(merged == WITHHELD)
    return (
        f"{r:>2}{least:>7,}{leftover:>10,}{np.count_nonzero(found == WITHHELD):>9,}{found.max() + 1:>9,}{seconds:>9.2f}"
        f"{adult.breach_share(found, r):>9.2%}{adult.breach_share(anatomy, r):>9.2%}"
        f"{lost:>9,}{merging:>9.2f}{adult.breach_share(merged, r):>9.2%}{adult.worst(merged):>9.4f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--most-hosts", type=int, default=4)
    most_hosts = parser.parse_args().most_hosts
    print(f"{'':<36}{'proved':^36}{'':<9}{'as published':^36}")
    heads = ("withheld", "groups", "s", "breach", "anatomy", "withheld", "s", "breach", "worst")
    print("attribute sets   r  least  leftover", *(f"{head:>8}" for head in heads))
    for name, sets in ATTRIBUTE_SETS.items():
        adult = Adult(Path(os.environ["SFUMATO_DATA"]) / FILE, sets)
        for r in (2, 3, 5):
            print(f"{name:<15}", line(adult, r, most_hosts), flush=True)


if __name__ == "__main__":
    main()
