"""What is expected before asking is what happens: over 2,000 releases, drawn record by record.

Standard errors. Measured is the standard deviation of the estimates over the releases. If these are normal, its square
over the predicted one, times 1,999, is chi-square: every cell must lie between the 1e-6 and the 1 - 1e-6 quantile,
which is a ratio of standard errors within [0.926, 1.076]. So the false-alarm rate is 2e-6 a cell.

Chances. A table is made in which a cell has just the least count that is said to be seen with a chance of 80%. The
number of releases in which the interval lies above 0 must lie between the 1e-6 quantile of Bin(2,000, 0.79) and the
1 - 1e-6 quantile of Bin(2,000, 0.81): 74.6% to 85.0%. One point is left to the normal approximation (the unit tests
compare an exact chance); with a true chance within it, the false-alarm rate is at most 2e-6.

Power: standard errors that are 15% too small or too large fail, and so do least counts.

Seeds are fixed: what passes once passes always.
"""

from __future__ import annotations

from fractions import Fraction
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import binom, chi2

from sfumato.analyst.randomized import inverse
from sfumato.analyst.randomized.expectation import Expected, Stratum, curve_of
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.values.arrays import FloatArray
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.retention import PerturbationMatrix
from sfumato.values.mechanism import LABEL, Bound, Mechanism, SubTable
from sfumato.values.randomness import SecretKey, Step, simulation
from tests.conftest import slow
from tests.statistical.test_coverage import (
    EIGHT,
    LEVEL,
    RELEASES,
    SYNTHETIC,
    Counts,
    Target,
    published_counts,
    published_records,
    tables,
    variance_for,
)

ALARM = 1e-6
CHANCE = 0.8
Z, Z_CHANCE = NormalDist().inv_cdf((1 + LEVEL) / 2), NormalDist().inv_cdf(CHANCE)
SEEN = binom.ppf(ALARM, RELEASES, CHANCE - 0.01), binom.isf(ALARM, RELEASES, CHANCE + 0.01)
RATIOS = np.sqrt(np.array([chi2.ppf(ALARM, RELEASES - 1), chi2.isf(ALARM, RELEASES - 1)]) / (RELEASES - 1))


def are_right(measured: FloatArray, predicted: FloatArray) -> bool:
    ratio = measured / predicted
    return bool(((ratio >= RATIOS[0]) & (ratio <= RATIOS[1])).all())


def is_right(seen: npt.NDArray[np.bool_]) -> bool:
    return bool(SEEN[0] <= seen.sum() <= SEEN[1])


def expected(matrix: PerturbationMatrix, truth: Counts, total: float | None) -> Expected:
    """Return what is expected of one group whose values are spread like `truth`."""
    stratum = Stratum(matrix, np.arange(matrix.size), np.maximum(truth, 0.5))
    rows = np.array([[float(truth.sum())]])
    return Expected.of(curve_of([stratum], range(matrix.size), rows, total), rows, None, Z, Z_CHANCE, None)


# --- one matrix -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["table", "population"])
@pytest.mark.parametrize("kind", EIGHT)
def test_standard_errors(kind: str, target: Target) -> None:
    """Of counts and of shares (in a population also the group's number of rows is random), in three groups."""
    matrix, total = PerturbationMatrix.from_retention(EIGHT[kind]), int(SYNTHETIC.sum())
    published = published_records(matrix, tables(SYNTHETIC, target, simulation(21)), SecretKey.from_seed(21))
    estimate = inverse.estimate(matrix, published)
    shares = estimate / published.sum(axis=2, keepdims=True)
    due = [expected(matrix, truth, total if target == "population" else None) for truth in SYNTHETIC]
    counts, of_shares = np.concatenate([d.standard_error for d in due]), np.concatenate([d.share_error for d in due])
    for measured, predicted in ((estimate.std(axis=0), counts), (shares.std(axis=0), of_shares)):
        assert are_right(measured, predicted), measured / predicted
        assert not are_right(measured, 1.15 * predicted)
        assert not are_right(measured, 0.85 * predicted)


def with_share(truth: Counts, cell: int, share: float) -> Counts:
    """Return a table of the same size in which a cell has this share, the others as before among themselves."""
    n = int(truth.sum())
    changed = truth * (1 - share) * n / (n - truth[cell])
    changed[cell] = share * n
    rounded = np.round(changed).astype(np.int64)
    rounded[(cell + 1) % truth.size] += n - rounded.sum()
    return rounded


@pytest.mark.parametrize("target", ["table", slow("population")])
@pytest.mark.parametrize("kind", EIGHT)
def test_chances(kind: str, target: Target) -> None:
    """Half of the release is the group. With the least count of a cell its interval lies above 0 in 80% of releases."""
    matrix, base, rng = PerturbationMatrix.from_retention(EIGHT[kind]), 2 * SYNTHETIC[0], simulation(22)
    total = 2 * int(base.sum())
    least = expected(matrix, base, total if target == "population" else None).least_share[0]

    def seen(cell: int, factor: float, exactly: bool) -> npt.NDArray[np.bool_]:
        truth = np.stack([with_share(base, cell, factor * least[cell]), base])
        originals = tables(truth, target, rng)
        key = SecretKey.from_seed(22 + cell)
        drawn = published_records(matrix, originals, key) if exactly else published_counts(matrix, originals, rng)
        error = np.sqrt(variance_for(target, matrix, drawn, total))
        result: npt.NDArray[np.bool_] = (inverse.estimate(matrix, drawn) > Z * error)[:, 0, cell]
        return result

    for cell in (0, 3, 7):
        found = seen(cell, 1, exactly=True)
        assert is_right(found), found.mean()
        assert not is_right(seen(cell, 0.85, exactly=False))
        assert not is_right(seen(cell, 1.15, exactly=False))


# --- sub-tables -------------------------------------------------------------------------------------------------------

# rows of each value of the release in the sub-tables; the group has a part of them
QUOTAS: Counts = np.array(
    [
        [900, 700, 500, 0, 0, 0, 300, 0],
        [600, 0, 400, 800, 700, 0, 0, 200],
        [0, 0, 0, 300, 0, 900, 500, 700],
    ]
)
GAMMAS = Fraction(9), Fraction(6), Fraction(12)
SAME: Counts = QUOTAS.sum(axis=0) // 3
OTHER: Counts = np.array([200, 550, 150, 300, 500, 200, 100, 400])


def several() -> Mechanism:
    domain = SensitiveDomain((Domain("d", tuple("abcdefgh")),))
    parts = []
    for quota, gamma in zip(QUOTAS, GAMMAS, strict=True):
        codes = np.flatnonzero(quota).astype(np.int32)
        parts.append(SubTable(codes, uniform_matrix(gamma, codes.size), (Bound(gamma),) * codes.size))
    return Mechanism(domain, tuple(parts), LABEL)


def sub_table_strata(mechanism: Mechanism) -> list[Stratum]:
    return [
        Stratum(table.matrix, table.codes.astype(np.int64), quota[table.codes].astype(float))
        for table, quota in zip(mechanism.tables, QUOTAS, strict=True)
    ]


def releases(mechanism: Mechanism, group: Counts, seed: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return estimates and their variances [releases, values], and the group's rows [releases, sub-tables].

    Each time the records are dealt anew, with the release's exact quotas, and drawn with their own words.
    """
    rng, key, size = simulation(seed), SecretKey.from_seed(seed), mechanism.domain.size
    published = np.zeros((RELEASES, len(mechanism.tables), size))
    for k in range(RELEASES):
        dealt = [rng.multivariate_hypergeometric(QUOTAS[:, v], group[v]) for v in range(size)]
        labels = np.concatenate([np.repeat(np.arange(len(mechanism.tables)), of_value) for of_value in dealt])
        codes = np.repeat(np.arange(size, dtype=np.int32), group)
        words = key.words(Step.PERTURB, file=k, start=0, count=codes.size)
        drawn = mechanism.sample(codes, labels.astype(np.int32), words)
        published[k] = np.bincount(labels * size + drawn, minlength=published[k].size).reshape(published[k].shape)
    estimate, variance = np.zeros((RELEASES, size)), np.zeros((RELEASES, size))
    for number, table in enumerate(mechanism.tables):
        counts = published[:, number, table.codes]
        x = inverse.estimate(table.matrix, counts)
        estimate[:, table.codes] += x
        moment = inverse.second_moment(table.matrix, counts)
        variance[:, table.codes] += inverse.variance_given_table(moment, x)
    return estimate, variance, published.sum(axis=2)


@pytest.mark.parametrize("group", [SAME, OTHER], ids=["like the release", "unlike it"])
def test_standard_errors_with_sub_tables(group: Counts) -> None:
    """The group's rows in the sub-tables differ from release to release, and so does what is expected: its mean
    variance is compared. A group like the release is expected by default, another one by its shares."""
    mechanism, n = several(), int(group.sum())
    estimate, _, sizes = releases(mechanism, group, 23)
    curve = curve_of(sub_table_strata(mechanism), range(8), sizes, None)
    rows = np.full((RELEASES, 1), float(n))

    def prediction(cell: int) -> float:
        share = None if group is SAME else float(group[cell] / n)
        found = Expected.of(curve, rows, share, Z, Z_CHANCE, None)
        assert found.share[:, cell].mean() == pytest.approx(group[cell] / n, rel=0.01)
        return float(np.sqrt((found.standard_error[:, cell] ** 2).mean()))

    cells = range(8) if group is SAME else (0, 1, 7)
    predicted, measured = np.array([prediction(cell) for cell in cells]), estimate.std(axis=0)[list(cells)]
    assert are_right(measured, predicted), measured / predicted
    assert not are_right(measured, 1.15 * predicted)
    assert not are_right(measured, 0.85 * predicted)


def just_seen(mechanism: Mechanism, cell: int) -> float:
    """Return the share of a cell that is the least one seen in a group like the release but for it.

    What is expected rests on the group's rows in the sub-tables, and these on its shares: a fixed point.
    """
    share = 0.0
    for _ in range(30):
        sizes = (QUOTAS / QUOTAS.sum(axis=0) @ with_share(SAME, cell, share))[None, :]
        curve = curve_of(sub_table_strata(mechanism), [cell], sizes, None)
        found = Expected.of(curve, sizes.sum(axis=1, keepdims=True), None, Z, Z_CHANCE, None)
        share = float(found.least_share[0, 0])
    return share


def test_chances_with_sub_tables() -> None:
    mechanism, cell = several(), 3
    least = just_seen(mechanism, cell)
    found = {}
    for factor in (0.85, 1, 1.15):
        estimate, variance, _ = releases(mechanism, with_share(SAME, cell, factor * least), 24)
        found[factor] = estimate[:, cell] > Z * np.sqrt(variance[:, cell])
    assert is_right(found[1]), found[1].mean()
    assert not is_right(found[0.85])
    assert not is_right(found[1.15])
