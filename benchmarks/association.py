"""How often the intervals of associations hold the truth, and what the test of independence can tell.

    python benchmarks/association.py                                    synthetic tables
    SFUMATO_DATA=folder python benchmarks/association.py                Adult as well (train, 30,162 rows)
    python benchmarks/association.py --releases 200                     quicker

Each case publishes a table many times (2,000): the columns' values are randomized, the rows' are not, or both as one
compound. For the target "table" it is always the same table; for "population" each time a new random sample of
as many rows from its shares. Coverage is that of 95% intervals; with 2,000 releases a figure has a standard error
of 0.5%. The tables are printed in Markdown.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sfumato.analyst.two_by_two import Strength, two_by_two
from sfumato.analyst.two_way import associate, independence_test
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix

FILE = "adult_complete_45222.parquet"
LEVEL = 0.95
LEAST = 30
"""The ratios are promised to cover where all four expected counts are at least this."""

Target = Literal["table", "population"]
TARGETS: tuple[Target, Target] = ("table", "population")
Counts = npt.NDArray[np.int64]

ROWS = np.array([0.5, 0.3, 0.2])
COLUMNS = np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])
TILT = np.array([[1, 0, -1, 0, 1, -1], [-1, 1, 0, 1, -1, 0], [0, -1, 1, -1, 0, 1]])
STRENGTH = {"strong": 0.6, "weak": 0.15, "none": 0.0}
CELLS = ([[240, 560], [240, 960]], [[90, 710], [60, 1140]], [[150, 1350], [8550, 19950]], [[1250, 1250], [2250, 250]])


# --- tables and matrices ----------------------------------------------------------------------------------------------


def synthetic(strength: str, n: int) -> Counts:
    """Return a 3 x 6 table of about n rows; without association its counts are exact products."""
    if strength == "none":
        unit = round(n / 10 / 100)  # margins 5, 3, 2 and 30, 25, 20, 12, 8, 5
        return np.outer((ROWS * 10).round().astype(int), (COLUMNS * 100).round().astype(int)) * unit
    share = np.outer(ROWS, COLUMNS) * np.exp(STRENGTH[strength] * TILT)
    return np.round(share / share.sum() * n).astype(np.int64)


def adult(folder: str, first: str, second: str) -> Counts:
    """Return Adult's table of two columns, training rows."""
    rows = pq.read_table(Path(folder) / FILE, columns=[first, second, "split"]).to_pandas()
    rows = rows[rows["split"] == "train"]
    (a, i), (b, j) = (np.unique(rows[name].astype(str), return_inverse=True) for name in (first, second))
    return np.bincount(i * len(b) + j, minlength=len(a) * len(b)).reshape(len(a), len(b))


def matrices(m: int) -> dict[str, PerturbationMatrix]:
    retentions = {f"uniform {p}": [p] * m for p in (0.1, 0.3, 0.7)} | {"fine-grain 0.1-0.7": np.linspace(0.1, 0.7, m)}
    return {name: PerturbationMatrix.from_retention(retention) for name, retention in retentions.items()}


# --- releases ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """What the caller of `associate` has: arrays of one release. Groups are not randomized, values are."""

    published: FloatArray  # [groups, values]
    inverse: FloatArray

    @property
    def x(self) -> FloatArray:
        estimated: FloatArray = self.published @ self.inverse.T
        return estimated

    def covariance(self, target: Target) -> FloatArray:
        groups, values = self.published.shape
        moment = np.zeros((groups, values, groups, values))
        for group, counts in enumerate(self.published):
            moment[group, :, group] = (self.inverse * counts) @ self.inverse.T
        moment, x, n = moment.reshape(groups * values, -1), self.x.ravel(), self.published.sum()
        return moment - np.diag(x) if target == "table" else n / (n - 1) * (moment - np.outer(x, x) / n)


def releases(truth: Counts, matrix: PerturbationMatrix, target: Target, number: int) -> Iterator[Release]:
    """Publish the table, or a random sample of its population, many times."""
    rng, n = np.random.default_rng(1), int(truth.sum())
    columns = matrix.dense().T
    columns, inverse = columns / columns.sum(axis=1, keepdims=True), matrix.solve(np.eye(matrix.size)).T
    for _ in range(number):
        table = truth if target == "table" else rng.multinomial(n, truth.ravel() / n).reshape(truth.shape)
        yield Release(rng.multinomial(table, columns).sum(axis=1).astype(float), inverse)


# --- coverage of U and V, level and power of the test -----------------------------------------------------------------


def exactly(truth: Counts) -> dict[str, float]:
    """Return the true value of every measure."""
    x = truth.astype(float)
    zero, n = np.zeros((x.size, x.size)), x.sum()
    sampled = np.diag(x.ravel()) - np.outer(x, x) / n
    return {measure.name: measure.estimate for measure in associate(x, zero, sampled, x, True).measures}


def show_measures(tables: dict[str, Counts], number: int) -> None:
    print("### Uncertainty coefficient and Cramer's V\n")
    print("`not 0`: releases whose interval leaves 0 out. `rejected`: those whose test has a p-value below 5%.\n")
    kinds = ("U", "mean estimate", "naive", "covered", "not 0", "V", "mean estimate", "naive", "covered", "not 0")
    print(f"| table | matrix | target | {' | '.join(kinds)} | rejected |\n|{'---|' * (len(kinds) + 4)}")
    for name, truth in tables.items():
        true = list(exactly(truth).values())
        for kind, matrix in matrices(truth.shape[1]).items():
            for target in TARGETS:
                found, rejected = [], 0
                for release in releases(truth, matrix, target, number):
                    covariances = release.covariance(target), release.covariance("population")
                    association = associate(release.x, *covariances, release.published, True, LEVEL)
                    found.append(association.measures[:2])
                    rejected += association.test.p_value < 1 - LEVEL
                cells = [text for k in (0, 1) for text in figures([pair[k] for pair in found], true[k])]
                cells.append(f"{rejected / number:.1%}" if target == "population" else "")
                print(f"| {name} | {kind} | {target} | {' | '.join(cells)} |", flush=True)
    print()


def figures(found: list[Strength], true: float) -> list[str]:
    """Return the cells of one measure: truth, means, coverage, and how often 0 is left out."""
    means = [float(np.mean([getattr(measure, name) for measure in found])) for name in ("estimate", "naive")]
    away = float(np.mean([measure.lower > 0 for measure in found]))
    return [f"{true:.4f}", *(f"{mean:.4f}" for mean in means), f"{covered(found, true):.1%}", f"{away:.1%}"]


def covered(found: list[Strength], true: float) -> float:
    """Return the share of intervals that hold the truth; what should be 0 may have been rounded to 1e-16."""
    return float(np.mean([measure.lower - 1e-12 <= true <= measure.upper + 1e-12 for measure in found]))


def show_compounds(number: int) -> None:
    """Both variables are parts of one compound that is randomized as one."""
    print("### Test of independence where both variables are parts of one compound (3 x 6 = 18 values)\n")
    print("| association | n | matrix | rejected | naive rejected |\n|---|---|---|---|---|")
    for strength in STRENGTH:
        for n in (2_000, 20_000):
            truth = synthetic(strength, n)
            for kind, matrix in matrices(truth.size).items():
                tests = [
                    independence_test(
                        release.x.reshape(truth.shape),
                        release.covariance("population"),
                        release.published.reshape(truth.shape),
                        independent=False,
                    )
                    for release in releases(truth.reshape(1, -1), matrix, "population", number)
                ]
                rates = np.mean([(test.p_value < 1 - LEVEL, test.naive_p_value < 1 - LEVEL) for test in tests], axis=0)
                print(f"| {strength} | {n:,} | {kind} | {rates[0]:.1%} | {rates[1]:.1%} |", flush=True)
    print()


# --- 2 x 2 ------------------------------------------------------------------------------------------------------------


def split(cells: list[list[int]], m: int) -> Counts:
    """Return a 2 x m table: the first value is the outcome, the rest share what is left evenly."""
    rest = [[count // (m - 1) + (k < count % (m - 1)) for k in range(m - 1)] for _, count in cells]
    return np.array([[first, *others] for (first, _), others in zip(cells, rest, strict=True)])


def show_risks(tables: dict[str, tuple[Counts, int]], number: int) -> None:
    names = ("risk difference", "risk ratio", "odds ratio")
    print(f"### Risks: coverage, and how often there is no upper end (all expected counts at least {LEAST})\n")
    print(f"| table | counts | matrix | target | {' | '.join(names)} | no upper end |\n|{'---|' * 8}")
    means: list[list[float]] = []
    for name, (truth, outcome) in tables.items():
        collapse = np.kron(np.eye(2), np.eye(2)[:, (np.arange(truth.shape[1]) != outcome).astype(int)])
        cells = (collapse @ truth.ravel()).reshape(2, 2)
        if cells.min() < LEAST:
            continue
        true = exactly(cells)
        for kind, matrix in matrices(truth.shape[1]).items():
            for target in TARGETS:
                found = []
                for release in releases(truth, matrix, target, number):
                    x, published = ((collapse @ v.ravel()).reshape(2, 2) for v in (release.x, release.published))
                    found.append(two_by_two(x, collapse @ release.covariance(target) @ collapse.T, published, LEVEL))
                shares = [covered([three[k] for three in found], true[names[k]]) for k in range(3)]
                endless = float(np.mean([np.isinf(three[1].upper) or np.isinf(three[2].upper) for three in found]))
                means.append([*shares, endless])
                counts = "/".join(f"{count:,}" for count in cells.ravel().astype(int))
                texts = " | ".join(f"{share:.1%}" for share in (*shares, endless))
                print(f"| {name} | {counts} | {kind} | {target} | {texts} |", flush=True)
    show_average("all", np.array(means))
    show_average("upper end in 99% of releases", np.array([mean for mean in means if mean[3] <= 0.01]))
    print()


def show_average(what: str, means: FloatArray) -> None:
    texts = " | ".join(f"{share:.1%} ({low:.1%} to {high:.1%})" for share, low, high in summary(means))
    print(f"| mean of {len(means)} cases: {what} | | | | {texts} |")


def summary(means: FloatArray) -> Iterator[tuple[float, float, float]]:
    return zip(means.mean(axis=0).tolist(), means.min(axis=0).tolist(), means.max(axis=0).tolist(), strict=True)


def tables_by_name(folder: str) -> dict[str, Counts]:
    """Return the tables whose U and V are measured."""
    tables = {f"3 x 6, {strength}": {n: synthetic(strength, n) for n in (2_000, 20_000)} for strength in STRENGTH}
    named = {f"{name}, {n:,}": table for name, sizes in tables.items() for n, table in sizes.items()}
    return named | {f"Adult {a} x occupation": adult(folder, a, "occupation") for a in ("sex", "race") if folder}


def risks_by_name(folder: str) -> dict[str, tuple[Counts, int]]:
    """Return the tables whose risks are compared, and which value is the outcome."""
    known = {f"m = {m}, {cells[0][0]} cases": (split(cells, m), 0) for cells in CELLS for m in (2, 8)}
    sexes = adult(folder, "sex", "occupation") if folder else np.zeros((2, 0))
    return known | {f"Adult sex x occupation {k}": (sexes, k) for k in range(0, sexes.shape[1], 2)}


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=2_000, help="of each case (default: 2,000)")
    number, folder = parser.parse_args().releases, os.environ.get("SFUMATO_DATA", "")
    start = time.perf_counter()
    show_measures(tables_by_name(folder), number)
    show_compounds(number)
    show_risks(risks_by_name(folder), number)
    print(f"{number:,} releases of each case; run time {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
