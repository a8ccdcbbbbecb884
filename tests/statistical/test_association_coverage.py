"""95% intervals of associations hold what they say, and the test of independence keeps its level.

Each case is published 2,000 times: one and the same table for the target "table", a new random sample of as many
rows for "population". The columns are randomized and the rows are not, or both are (as one compound). The benchmark
`benchmarks/association.py` has many more cases; these are the judged ones.

What the limits mean. A measured coverage has a standard deviation of 0.5%. It must lie between the 1e-6 quantile of a
true coverage of 94% and the 1 - 1e-6 quantile of one of 96%, which is [91.3%, 97.9%]: a false alarm has at most
probability 1e-6 on each side wherever the true coverage is within a point of 95%. The mean over the cases of
the ratios must lie in [93%, 97%]. The level of the test is judged likewise, between the quantiles of 4% and 6%.
Near independence the intervals of U and V are known to cover more than they say, so there only too little fails.

Power: standard errors that are 15% too small or 20% too large, the other target's covariance, and figures that are not
corrected are shown to fail. Seeds are fixed: what passes once passes always.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
import pytest
from scipy.stats import binom

from sfumato.analyst.two_by_two import Strength, two_by_two
from sfumato.analyst.two_way import IndependenceTest, associate, independence_test
from sfumato.values.arrays import FloatArray
from sfumato.values.matrix.retention import PerturbationMatrix
from tests.conftest import slow

RELEASES = 2_000
LOWEST = float(binom.ppf(1e-6, RELEASES, 0.94)) / RELEASES
HIGHEST = float(binom.isf(1e-6, RELEASES, 0.96)) / RELEASES

Target = Literal["table", "population"]
TARGETS: tuple[Target, Target] = ("table", "population")
BOTH = ("table", slow("population"))
Counts = npt.NDArray[np.int64]

TILT = np.array([[1, 0, -1, 0, 1, -1], [-1, 1, 0, 1, -1, 0], [0, -1, 1, -1, 0, 1]])
NONE: Counts = np.outer([5, 3, 2], [30, 25, 20, 12, 8, 5]) * 20  # 20,000 rows, exactly independent
STRONG: Counts = np.round(NONE * np.exp(0.6 * TILT)).astype(np.int64)
WEAK: Counts = np.round(NONE * np.exp(0.15 * TILT)).astype(np.int64)
RETENTIONS = {"uniform": [0.3] * 6, "fine-grain": [0.15, 0.2, 0.3, 0.4, 0.55, 0.7]}


# --- releases ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Release:
    """One release: the published counts of the randomized values, in groups that are not randomized."""

    published: FloatArray  # [groups, values]
    inverse: FloatArray

    @property
    def x(self) -> FloatArray:
        estimated: FloatArray = self.published @ self.inverse.T
        return estimated

    def covariance(self, target: Target) -> FloatArray:
        """Return Cov[x]: the sum of the squared weights less diag(x), or less x x'/n and times n/(n - 1)."""
        moment = np.zeros(2 * self.published.shape)
        for group, counts in enumerate(self.published):
            moment[group, :, group] = (self.inverse * counts) @ self.inverse.T
        x, n = self.x.ravel(), self.published.sum()
        moment = moment.reshape(x.size, x.size)
        return moment - np.diag(x) if target == "table" else n / (n - 1) * (moment - np.outer(x, x) / n)


def releases(truth: Counts, retention: list[float] | FloatArray, target: Target, seed: int = 1) -> Iterator[Release]:
    matrix, rng, n = PerturbationMatrix.from_retention(retention), np.random.default_rng(seed), int(truth.sum())
    columns = matrix.dense().T
    columns, inverse = columns / columns.sum(axis=1, keepdims=True), matrix.solve(np.eye(matrix.size)).T
    for _ in range(RELEASES):
        table = truth if target == "table" else rng.multinomial(n, truth.ravel() / n).reshape(truth.shape)
        yield Release(rng.multinomial(table, columns).sum(axis=1).astype(float), inverse)


def exactly(truth: Counts) -> list[float]:
    """Return the true value of every measure."""
    x = truth.astype(float)
    sampled = np.diag(x.ravel()) - np.outer(x, x) / x.sum()
    return [m.estimate for m in associate(x, np.zeros_like(sampled), sampled, x, independent=True).measures]


def coverage(found: list[tuple[Strength, ...]], true: list[float]) -> FloatArray:
    """Return the share of releases whose interval holds the truth, for each measure."""
    within = [[m.lower - 1e-12 <= t <= m.upper + 1e-12 for m, t in zip(row, true, strict=True)] for row in found]
    return np.mean(within, axis=0)


def is_right(shares: FloatArray) -> bool:
    return bool((shares >= LOWEST).all() and (shares <= HIGHEST).all())


# --- uncertainty coefficient and Cramer's V ---------------------------------------------------------------------------


def measured(truth: Counts, retention: list[float] | FloatArray, target: Target, factor: float = 1) -> FloatArray:
    """Return the coverage of U and V; `factor` falsifies the standard errors."""
    found = []
    for release in releases(truth, retention, target):
        covariance = factor**2 * release.covariance(target)
        found.append(associate(release.x, covariance, covariance, release.published, independent=True).measures)
    return coverage(found, exactly(truth))


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("kind", RETENTIONS)
def test_strong_association(kind: str, target: Target) -> None:
    shares = measured(STRONG, RETENTIONS[kind], target)
    print(f"strong {kind} {target}: U {shares[0]:.2%}, V {shares[1]:.2%}")
    assert is_right(shares)


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("truth", [WEAK, NONE], ids=["weak", "none"])
def test_weak_or_no_association(truth: Counts, target: Target) -> None:
    shares = measured(truth, RETENTIONS["fine-grain"], target)
    print(f"{'weak' if truth is WEAK else 'none'} {target}: U {shares[0]:.2%}, V {shares[1]:.2%}")
    assert (shares >= LOWEST).all()


@pytest.mark.parametrize("factor", [0.85, 1.2])
def test_wrong_standard_errors_of_u_and_v_fail(factor: float) -> None:
    assert not is_right(measured(STRONG, RETENTIONS["fine-grain"], "population", factor))


@pytest.mark.parametrize("target", BOTH)
@pytest.mark.parametrize("first", ["sex", slow("race")])
def test_adult_by_occupation(real_data: Callable[[str], Path], first: str, target: Target) -> None:
    """Race by occupation has cells of a few records; as near independence, only too little coverage fails."""
    path = real_data("adult_complete_45222.parquet")
    frame = pq.read_table(path, columns=[first, "occupation", "split"]).to_pandas()
    frame = frame[frame["split"] == "train"]
    (a, i), (b, j) = (np.unique(frame[name].astype(str), return_inverse=True) for name in (first, "occupation"))
    truth = np.bincount(i * len(b) + j, minlength=len(a) * len(b)).reshape(len(a), len(b))
    shares = measured(truth, [0.7] * len(b), target)
    print(f"Adult {first} by occupation {target}: U {shares[0]:.2%}, V {shares[1]:.2%}")
    assert (shares >= LOWEST).all()
    assert first == "race" or is_right(shares)


def test_parts_of_a_compound() -> None:
    """Both variables are randomized, as one value: noise on both margins, and dependent."""
    found = []
    for release in releases(STRONG.reshape(1, -1), [0.4] * STRONG.size, "table"):
        x, published = release.x.reshape(STRONG.shape), release.published.reshape(STRONG.shape)
        covariances = (release.covariance(target) for target in TARGETS)
        found.append(associate(x, *covariances, published, independent=False).measures)
    shares = coverage(found, exactly(STRONG))
    print(f"compound: U {shares[0]:.2%}, V {shares[1]:.2%}")
    assert is_right(shares)


# --- risks ------------------------------------------------------------------------------------------------------------

# the outcome is the first of m values; all four counts are at least 30, and no risk is hidden by the noise
RISKS: dict[str, tuple[Counts, list[float]]] = {
    "two values": (np.array([[240, 560], [240, 960]]), [0.5, 0.5]),
    "fine-grain": (np.array([[150, 1350], [8550, 19950]]), [0.3, 0.6]),
    "small counts": (np.array([[90, 300, 410], [60, 540, 600]]), [0.8, 0.6, 0.7]),
    "high risk": (np.array([[1250, 500, 750], [2250, 150, 100]]), [0.3, 0.3, 0.3]),
    "almost untouched": (np.array([[60, 740], [45, 1155]]), [0.97, 0.97]),
}


def compared(name: str, target: Target, factor: float = 1, error: Target | None = None) -> FloatArray:
    """Return the coverage of risk difference, risk ratio and odds ratio."""
    truth, retention = RISKS[name]
    collapse = np.kron(np.eye(2), np.eye(2)[:, (np.arange(truth.shape[1]) > 0).astype(int)])
    found = []
    for release in releases(truth, retention, target):
        covariance = factor**2 * collapse @ release.covariance(error or target) @ collapse.T
        x, published = ((collapse @ counts.ravel()).reshape(2, 2) for counts in (release.x, release.published))
        found.append(two_by_two(x, covariance, published))
    return coverage(found, exactly((collapse @ truth.ravel()).reshape(2, 2))[2:])


@cache
def compared_rightly() -> dict[tuple[str, Target], FloatArray]:
    return {(name, target): compared(name, target) for name in RISKS for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", RISKS)
def test_risks(name: str, target: Target) -> None:
    shares = compared_rightly()[name, target]
    print(f"{name} {target}: difference {shares[0]:.2%}, ratio {shares[1]:.2%}, odds {shares[2]:.2%}")
    assert is_right(shares)


def test_the_mean_coverage_of_risks() -> None:
    means = np.mean(list(compared_rightly().values()), axis=0)
    assert (means >= 0.93).all()
    assert (means <= 0.97).all()


@pytest.mark.parametrize("factor", [0.85, 1.2])
@pytest.mark.parametrize("target", TARGETS)
def test_wrong_standard_errors_of_risks_fail(target: Target, factor: float) -> None:
    shares = compared("two values", target, factor)
    assert not any(LOWEST <= share <= HIGHEST for share in shares)


def test_the_other_targets_covariance_fails() -> None:
    for target, other in (TARGETS, TARGETS[::-1]):
        assert not is_right(compared("almost untouched", target, error=other))


def test_risks_that_the_noise_hides() -> None:
    """Counts of 90 and 60 under retention 0.3: most ratios have no upper end, and the intervals still cover."""
    truth = np.array([[90, 710], [60, 1140]])
    found = [two_by_two(r.x, r.covariance("table"), r.published) for r in releases(truth, [0.3, 0.3], "table")]
    assert (coverage(found, exactly(truth)[2:]) >= LOWEST).all()
    endless = float(np.mean([np.isinf(measures[1].upper) for measures in found]))
    assert 0.5 < endless < 1
    assert all(np.isinf(m.upper) == ("no upper end" in m.note) for measures in found for m in measures)


# --- the test of independence -----------------------------------------------------------------------------------------

LEAST_LEVEL, MOST_LEVEL = 1 - HIGHEST, 1 - LOWEST


def rejections(tests: list[IndependenceTest]) -> tuple[float, float]:
    """Return how often the test, and the naive one, reject at 5%."""
    return tuple(np.mean([(test.p_value < 0.05, test.naive_p_value < 0.05) for test in tests], axis=0).tolist())


def column_tests(truth: Counts, retention: list[float]) -> list[IndependenceTest]:
    found = releases(truth, retention, "population", seed=2)
    return [independence_test(r.x, r.covariance("population"), r.published, independent=True) for r in found]


def compound_tests(truth: Counts, retention: list[float]) -> list[IndependenceTest]:
    return [
        independence_test(
            release.x.reshape(truth.shape),
            release.covariance("population"),
            release.published.reshape(truth.shape),
            independent=False,
        )
        for release in releases(truth.reshape(1, -1), retention, "population", seed=2)
    ]


@pytest.mark.parametrize("kind", RETENTIONS)
def test_level_and_power(kind: str) -> None:
    level, naive = rejections(column_tests(NONE, RETENTIONS[kind]))
    power, _ = rejections(column_tests(WEAK, RETENTIONS[kind]))
    print(f"{kind}: level {level:.2%}, naive {naive:.2%}, power {power:.2%}")
    assert LEAST_LEVEL <= level <= MOST_LEVEL
    assert level == pytest.approx(naive, abs=0.002)  # one matrix: the same test
    assert power > 0.9


def test_level_and_power_for_a_compound() -> None:
    """Where noise is dependent, the corrected test keeps the level and the naive one finds what is not there."""
    level, naive = rejections(compound_tests(NONE, [0.3] * NONE.size))
    power, _ = rejections(compound_tests(WEAK, [0.3] * WEAK.size))
    print(f"compound: level {level:.2%}, naive {naive:.2%}, power {power:.2%}")
    assert LEAST_LEVEL <= level <= MOST_LEVEL
    assert naive > 0.9
    assert power > 0.9
