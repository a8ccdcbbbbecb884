"""Sums from Anatomy's two tables: by hand, against dense least squares, and exactly, by enumerating all deals."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.analyst.grouped.buckets import PRIOR_FREEDOM
from sfumato.analyst.grouped.compositions import OWN_VARIANCE
from sfumato.values.arrays import FloatArray, IntArray
from sfumato_papers.two_tables import DealtTable, Fitted
from tests.constants import set_constants

Ints = npt.ArrayLike


def dealt(group: Ints, value: Ints, values: int, stratum: Ints | None = None) -> DealtTable:
    """Return the deal of records: what the sensitive table says of their groups."""
    cell, count = np.unique(np.asarray(group) * values + np.asarray(value), return_counts=True)
    inside = None if stratum is None else np.asarray(stratum, dtype=np.int64)
    return DealtTable.of(cell // values, cell % values, count, values, inside)


def round_robin(counts: IntArray, size: int, rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    """Return group and value of each place: values in random order, dealt to n // size groups in turn."""
    order = rng.permutation(counts.size)
    value = np.repeat(order, counts[order])
    return np.arange(value.size) % (value.size // size), value


def filled(value: IntArray, truth: IntArray, numbers: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the number of the record that lies on each place: the records of a value in random order."""
    z = np.empty(value.size)
    for y in np.unique(truth):
        z[value == y] = rng.permutation(numbers[truth == y])
    return z


# --- by hand --------------------------------------------------------------------------------------------------------


def three_pairs() -> Fitted:
    """Groups {a, b}, {a, c}, {b, c}; one member of the first and one of the second satisfy the condition."""
    return dealt([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2], 3).fit(np.array([0, 1]), np.ones(2))


def test_three_pairs() -> None:
    """theta_a + theta_b = 1, theta_a + theta_c = 1, theta_b + theta_c = 0: both a records, and no other."""
    found = three_pairs().estimate()
    assert found.value == pytest.approx(np.array([[2, 0, 0]]))
    assert found.identified.all()
    assert three_pairs().estimate(np.array([[1.0], [1.0], [0.0]])).value == pytest.approx(2)


def test_the_classical_estimate_halves_each_groups_sum() -> None:
    assert three_pairs().classical(np.eye(3)) == pytest.approx(np.array([[1, 0.5, 0.5]]))


def test_the_sum_over_all_values_is_known() -> None:
    found = three_pairs().estimate(np.ones((3, 1)))
    assert found.value == pytest.approx(2)
    assert found.standard_error == pytest.approx(0, abs=1e-7)
    assert three_pairs().estimate(np.ones((3, 1)), "population").standard_error == pytest.approx(
        np.sqrt(6 / 5 * 2 * (1 - 2 / 6))
    )


# --- exactly, on tiny tables ----------------------------------------------------------------------------------------

TINY = {
    "pairs": ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 2, 1, 2, 0, 1], 3),
    "unequal groups": ([0, 0, 0, 1, 1, 2, 2, 2, 2], [0, 1, 2, 0, 1, 0, 0, 1, 2], 3),
    "one value twice": ([0, 0, 1, 1, 1, 2, 2], [0, 0, 0, 1, 1, 0, 1], 2),
    "round robin": ([0, 1, 2, 3, 0, 1, 2, 3], [0, 0, 0, 1, 1, 2, 2, 2], 3),
}
WEIGHTS = np.array([[1.0, 0, 0, 1, 2], [0, 1.0, 0, 1, -1], [0, 0, 1.0, 0, 0.5]])


def numbers_of(value: list[int]) -> FloatArray:
    return np.random.default_rng(sum(value)).normal(size=len(value))


def all_deals(value: list[int], z: FloatArray) -> Iterator[FloatArray]:
    """Yield the number on each place, for every way to lay the records of each value on its places."""
    places = [np.flatnonzero(np.array(value) == y) for y in range(max(value) + 1)]
    for orders in product(*(permutations(z[place]) for place in places)):
        laid = np.empty(len(value))
        for place, order in zip(places, orders, strict=True):
            laid[place] = order
        yield laid


@pytest.mark.parametrize("name", TINY)
def test_over_all_deals_estimates_are_unbiased_and_the_variance_is_exact(name: str) -> None:
    group, value, m = TINY[name]
    z, f = numbers_of(value), WEIGHTS[:m]
    deal = dealt(group, value, m)
    (stratum,) = deal.strata
    truth = np.array([z[np.array(value) == y].sum() for y in range(m)])
    sigma = np.array([np.var(z[np.array(value) == y], ddof=1) for y in range(m)])
    fits = [deal.fit(np.array(group), laid) for laid in all_deals(value, z)]
    found = np.array([fit.estimate(f).value[0] for fit in fits])
    assert found.mean(axis=0) == pytest.approx(truth @ f, abs=1e-12)

    ((_, a),) = stratum.group_weights(f)
    spread = stratum.groups * stratum.counts.times(sigma[:, None], slice(None))[:, 0]
    expected = (a * spread[:, None]).T @ a - (f * (stratum.records * sigma)[:, None]).T @ f
    assert np.allclose(np.cov(found.T, bias=True), expected, atol=1e-12)

    residual = np.mean([fit.parts[0].residuals[0, 0] for fit in fits])
    assert residual == pytest.approx(stratum.residual_weight @ sigma, abs=1e-12)

    classical = np.mean([fit.classical(np.eye(m))[0] for fit in fits], axis=0)
    matrix = stratum.counts.gram(stratum.groups / stratum.sizes) / stratum.records
    assert matrix.sum(axis=0) == pytest.approx(1)  # P, by its convention
    assert classical == pytest.approx(matrix @ truth, abs=1e-12)
    assert fits[0].estimate().value[0] == pytest.approx(np.linalg.solve(matrix, fits[0].classical(np.eye(m))[0]))


@pytest.mark.parametrize("name", TINY)
def test_two_numbers_of_a_record_over_all_deals(name: str) -> None:
    """Their sums' exact covariance has the covariances of the records of each value in the place of the variances."""
    group, value, m = TINY[name]
    z, f = numbers_of(value), WEIGHTS[:m]
    other = z**2 - np.arange(z.size)
    code = {number: k for k, number in enumerate(z)}
    assert len(code) == z.size  # no two records have the same number, so the record on a place is known by it
    deal = dealt(group, value, m)
    (stratum,) = deal.strata
    one, two = [], []
    for laid in all_deals(value, z):
        one.append(deal.fit(np.array(group), laid).estimate(f).value[0])
        two.append(deal.fit(np.array(group), other[[code[number] for number in laid]]).estimate(f).value[0])
    inside = np.array([np.cov(z[np.array(value) == y], other[np.array(value) == y])[0, 1] for y in range(m)])
    ((_, a),) = stratum.group_weights(f)
    spread = stratum.groups * stratum.counts.times(inside[:, None], slice(None))[:, 0]
    expected = (a * spread[:, None]).T @ a - (f * (stratum.records * inside)[:, None]).T @ f
    both = np.cov(np.array(one).T, np.array(two).T, bias=True)
    assert np.allclose(both[: f.shape[1], f.shape[1] :], expected, atol=1e-11)


# --- against dense least squares ------------------------------------------------------------------------------------


class Dense:
    """One stratum and one number, without a thought of speed; every group is a row."""

    def __init__(self, group: IntArray, value: IntArray, values: int, z: FloatArray) -> None:
        self.c = np.zeros((group.max() + 1, values))
        np.add.at(self.c, (group, value), 1)
        self.n, self.size = self.c.sum(axis=0), self.c.sum(axis=1)
        self.group, self.z = group, z
        self.x = np.linalg.pinv((self.c / self.size[:, None]).T @ self.c, rcond=1e-9)
        self.l = self.x @ (self.c / self.size[:, None]).T
        self.mean, self.s = self.l @ self.summed(z), self.summed(z)

    def summed(self, z: FloatArray) -> FloatArray:
        return np.array([z[self.group == g].sum() for g in range(len(self.c))])

    def identified(self, f: FloatArray) -> bool:
        return np.linalg.matrix_rank(np.vstack([self.c, self.n * f])) == np.linalg.matrix_rank(self.c)

    def inside(self, product: FloatArray, other: Dense, whole: float) -> FloatArray:
        own = self.l @ self.summed(product) - self.mean * other.mean + np.diag(self.x) * whole
        good = [
            self.identified(e) and x <= OWN_VARIANCE for e, x in zip(np.eye(self.n.size), np.diag(self.x), strict=True)
        ]
        return np.where(good, own, whole)

    def variances(self) -> FloatArray:
        return np.maximum(self.inside(self.z**2, self, self.z.var(ddof=1)), 0)

    def residuals(self) -> tuple[float, float, float]:
        h = self.c @ self.l
        found = ((self.s - self.c @ self.mean) ** 2 / self.size).sum()
        due = (self.c @ self.variances() / self.size * (1 - np.diag(h))).sum()
        return found, due, len(self.c) - float(np.linalg.matrix_rank(self.c))

    def covariance(self, f: FloatArray, other_f: FloatArray, inside: FloatArray) -> float:
        a, b = (self.l.T @ (self.n * weight) for weight in (f, other_f))
        return float((a * b * (self.c @ inside)).sum() - (f * other_f * self.n * inside).sum())


def calibration(parts: list[Dense]) -> float:
    found, due, freedom = np.sum([part.residuals() for part in parts], axis=0)
    return (freedom * (found / due if due else 1) + PRIOR_FREEDOM) / (freedom + PRIOR_FREEDOM)


def random_table(rng: np.random.Generator, strata: int = 1) -> tuple[IntArray, IntArray, IntArray, int]:
    """Return group and value of each record, and the stratum of each group: few values, many compositions."""
    m, groups = int(rng.integers(2, 6)), int(rng.integers(4, 30)) * strata
    size = rng.integers(2, 5, groups)
    group = np.repeat(np.arange(groups), size)
    return group, rng.integers(0, m, group.size), rng.permutation(np.arange(groups) % strata), m


def test_agrees_with_dense_least_squares() -> None:
    rng = np.random.default_rng(1)
    unidentified = 0
    for _ in range(200):
        group, value, _, m = random_table(rng)
        z = rng.normal(size=group.size) * (rng.random(group.size) < 0.7)
        slow, fit = Dense(group, value, m, z), dealt(group, value, m).fit(group, z)
        f = np.hstack([np.eye(m), rng.integers(0, 2, (m, 3))])
        told = np.array([slow.identified(column) for column in f.T])
        unidentified += int((~told).sum())
        inside = calibration([slow]) * slow.variances()
        covariance = np.array([[slow.covariance(p, q, inside) for p in f.T] for q in f.T])
        found = fit.estimate(f)
        assert (found.identified[0] == told).all()
        assert np.isnan(found.value[0][~told]).all()
        assert found.value[0][told] == pytest.approx(((slow.n * slow.mean) @ f)[told], abs=1e-7)
        assert found.standard_error[0][told] ** 2 == pytest.approx(np.diag(covariance)[told], rel=1e-6, abs=1e-8)
        assert np.allclose(fit.blocks(f)[0][told][:, told], covariance[told][:, told], rtol=1e-6, atol=1e-7)
    assert unidentified >= 20


def test_population_adds_the_sampling_of_the_records() -> None:
    """n/(n-1) (Cov + sum_r z_r^2 f^2 - T^2/n), the sum of squares by least squares as well."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        group, value, _, m = random_table(rng)
        z, f, n = rng.normal(size=group.size), rng.integers(0, 2, (m, 2)).astype(float), group.size
        fit, slow, squared = dealt(group, value, m).fit(group, z), *(Dense(group, value, m, x) for x in (z, z**2))
        given, drawn = fit.estimate(f), fit.estimate(f, "population")
        told, table = given.identified[0], given.standard_error[0] ** 2
        expected = n / (n - 1) * (table + (slow.n * squared.mean) @ f**2 - ((slow.n * slow.mean) @ f) ** 2 / n)
        assert np.diag(fit.blocks(f, "population")[0])[told] == pytest.approx(expected[told], rel=1e-6, abs=1e-7)
        never_less = np.maximum(expected, table)
        assert drawn.standard_error[0][told] ** 2 == pytest.approx(never_less[told], rel=1e-6, abs=1e-7)


def test_strata_and_columns_add_up() -> None:
    """A stratum is a deal by itself, a column a number that is zero elsewhere; one calibration for each column."""
    rng = np.random.default_rng(3)
    for _ in range(60):
        group, value, stratum, m = random_table(rng, strata=3)
        column, z = rng.integers(0, 2, group.size), rng.normal(size=group.size)
        fit = dealt(group, value, m, stratum).fit(group, z, column, 2)
        found = fit.estimate()
        for k in range(2):
            parts, told = [], np.ones(m, dtype=bool)
            for part in range(3):
                inside = stratum[group] == part
                own = np.unique(group[inside], return_inverse=True)[1]
                slow = Dense(own, value[inside], m, np.where(column == k, z, 0)[inside])
                parts.append(slow)
                told &= [slow.identified(e) for e in np.eye(m)]
            factor = calibration(parts)
            variance = [sum(slow.covariance(e, e, factor * slow.variances()) for slow in parts) for e in np.eye(m)]
            total = sum(slow.n * slow.mean for slow in parts)
            assert (found.identified[k] == told).all()
            assert found.value[k][told] == pytest.approx(total[told], abs=1e-7)
            assert found.standard_error[k][told] ** 2 == pytest.approx(np.array(variance)[told], rel=1e-6, abs=1e-8)


def test_covariance_of_two_numbers() -> None:
    rng = np.random.default_rng(4)
    for _ in range(80):
        group, value, _, m = random_table(rng)
        z = rng.normal(size=group.size)
        w = z + rng.normal(size=group.size)
        f, g = rng.integers(0, 2, (2, m, 3)).astype(float)
        deal = dealt(group, value, m)
        one, two = deal.fit(group, z), deal.fit(group, w)
        slow, other = Dense(group, value, m, z), Dense(group, value, m, w)
        factors = [calibration([slow]), calibration([other])]
        limit = np.sqrt(np.prod(factors) * slow.variances() * other.variances())
        inside = np.sqrt(np.prod(factors)) * slow.inside(z * w, other, np.cov(z, w)[0, 1])
        inside = np.clip(inside, -limit, limit)
        expected = np.array([slow.covariance(p, q, inside) for p, q in zip(f.T, g.T, strict=True)])
        told = [slow.identified(p) and slow.identified(q) for p, q in zip(f.T, g.T, strict=True)]
        found = one.covariance(two, f, g)[0]
        assert found[told] == pytest.approx(expected[told], rel=1e-6, abs=1e-7)
        assert np.isnan(found[~np.array(told)]).all()
        assert two.covariance(one, g, f)[0] == pytest.approx(found, nan_ok=True, rel=1e-6, abs=1e-7)
        for target in ("table", "population"):
            blocks = np.diagonal(one.blocks(f, target), axis1=1, axis2=2)
            assert one.covariance(one, f, target=target) == pytest.approx(blocks, nan_ok=True, rel=1e-6, abs=1e-7)


def test_covariance_of_columns_with_all_columns_of_their_part() -> None:
    """What shares need: the covariances of a part's columns with the part are its variance, but for calibration."""
    rng = np.random.default_rng(5)
    group, value = round_robin(np.array([401, 300, 290, 211]), 2, rng)
    column, z, part = rng.integers(0, 3, group.size), np.ones(group.size), np.array([0, 1, 1])
    deal = dealt(group, value, 4)
    one, two = deal.fit(group, z, column, 3), deal.fit(group, z, part[column], 2)
    factor = np.sqrt(one.calibration / two.calibration[part])[:, None]
    given, n = one.covariance(two, pairing=part), group.size
    whole = two.estimate().standard_error ** 2
    assert given[0] == pytest.approx(whole[0])
    assert (given / factor)[1:].sum(axis=0) == pytest.approx(whole[1])
    sampled = one.covariance(two, pairing=part, target="population") - given * n / (n - 1)
    whole_sampled = two.estimate(target="population").standard_error ** 2 - whole * n / (n - 1)
    assert sampled[1:].sum(axis=0) == pytest.approx(whole_sampled[1])


def test_covariance_with_a_number_that_is_constant_in_each_stratum() -> None:
    """Given the table it is none; in a population n/(n-1) (sum of z z' - T T'/n), where z z' is z times a total."""
    rng = np.random.default_rng(12)
    for _ in range(20):
        group, value, stratum, m = random_table(rng, strata=2)
        level, w, n = np.array([2.0, 5.0]), rng.normal(size=group.size), group.size
        deal = dealt(group, value, m, stratum)
        one, two = deal.fit(group, level[stratum][group]), deal.fit(group, w)
        inside = deal.fit(group, w, stratum[group], 2).estimate()
        told = two.estimate().identified[0]
        products = level @ inside.value
        expected = n / (n - 1) * (products - one.estimate().value * two.estimate().value / n)[0]
        for first, second in (one, two), (two, one):
            assert first.covariance(second)[0][told] == pytest.approx(0, abs=1e-12)
            found = first.covariance(second, target="population")[0]
            assert found[told] == pytest.approx(expected[told], rel=1e-6, abs=1e-7)


def test_numbers_of_different_records_have_no_covariance() -> None:
    deal = dealt([0, 0, 1, 1], [0, 1, 0, 1], 2)
    with pytest.raises(ValueError, match="same records"):
        deal.fit(np.array([0]), np.ones(1)).covariance(deal.fit(np.array([1]), np.ones(1)))


# --- what the compositions tell -------------------------------------------------------------------------------------


def test_equal_compositions_tell_the_sum_only() -> None:
    group, value = np.repeat(np.arange(50), 3), np.tile([0, 1, 2], 50)
    z = np.random.default_rng(6).random(150)
    fit = dealt(group, value, 3).fit(group, z)
    found = fit.estimate(np.array([[1.0, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]]))
    assert found.identified.tolist() == [[False, False, False, True]]
    assert np.isnan(found.value[0, :3]).all()
    assert np.isnan(found.standard_error[0, :3]).all()
    assert found.value[0, 3] == pytest.approx(z.sum())
    assert found.standard_error[0, 3] == pytest.approx(0, abs=1e-5)


def test_part_of_the_values_can_be_told() -> None:
    """{a, b}, {a, c}, {b, c} tell a, b and c; {d, e} tells d + e only."""
    group = np.arange(200) // 2
    value = np.concatenate([np.tile([0, 1, 0, 2, 1, 2], 25), np.tile([3, 4], 25)])
    z = (np.random.default_rng(7).random(200) < 0.4).astype(float)
    found = dealt(group, value, 6).fit(group, z).estimate(np.hstack([np.eye(6), np.array([[0, 0, 0, 1, 1, 0]]).T]))
    assert found.identified.tolist() == [[True, True, True, False, False, True, True]]
    assert found.value[0, 6] == pytest.approx(z[150:].sum())
    assert found.value[0, 5] == found.standard_error[0, 5] == 0  # no record has that value


def test_nearly_nothing_is_not_nothing() -> None:
    """One group of another composition tells the values apart, with a very large error."""
    group, value = np.arange(4002) // 2, np.append(np.tile([0, 1], 2000), [0, 0])
    z = (np.random.default_rng(8).random(4002) < 0.5).astype(float)
    found = dealt(group, value, 2).fit(group, z).estimate()
    assert found.identified.all()
    assert (found.standard_error > 500).all()
    assert (found.groups < 10).all()


def test_a_number_that_is_the_same_for_all_of_a_stratum_is_known() -> None:
    """Robust groups: a cell of records with one signature hides nothing of the signature, whatever its groups are."""
    group, value = np.repeat(np.arange(60), 2), np.tile([0, 1], 60)
    stratum = np.arange(60) % 3
    z = np.array([0.0, 1.0, 5.0])[stratum][group]
    deal = dealt(group, value, 2, stratum)
    found = deal.fit(group, z).estimate()
    assert found.value.tolist() == [[120, 120]]
    assert found.standard_error.tolist() == [[0, 0]]
    assert deal.fit(group[z > 0], z[z > 0]).estimate().value.tolist() == [[120, 120]]  # zeros left out
    assert not deal.fit(group[1:], z[1:] + 1).estimate().identified.any()  # one record differs
    n = 120
    binomial = n / (n - 1) * (20 * 1 + 20 * 25 - 120**2 / n)
    assert deal.fit(group, z).estimate(target="population").standard_error ** 2 == pytest.approx(binomial)


# --- properties -----------------------------------------------------------------------------------------------------


def test_no_combination_of_figures_has_a_negative_variance() -> None:
    rng = np.random.default_rng(9)
    for _ in range(100):
        counts = rng.integers(5, 60, int(rng.integers(3, 8)))
        group, value = round_robin(counts, 2, rng)
        z = rng.integers(0, 2, value.size) * rng.random(value.size)
        fit = dealt(group, value, counts.size).fit(group, z, rng.integers(0, 2, value.size), 2)
        if not fit.estimate().identified.all():
            continue
        given = fit.blocks()
        for block in given:
            assert np.linalg.eigvalsh(block).min() >= -1e-8 * max(1, np.abs(block).max())
        assert np.allclose(given.sum(axis=1), 0, atol=1e-6 * max(1, np.abs(given).max()))  # the total is known


def test_order_and_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    for _ in range(20):
        group, value, stratum, m = random_table(rng, strata=2)
        column, z = rng.integers(0, 3, group.size), rng.normal(size=group.size)
        first = dealt(group, value, m, stratum).fit(group, z, column, 3)
        names, rows = rng.permutation(stratum.size), rng.permutation(group.size)
        with monkeypatch.context() as patch:
            set_constants(patch, "sfumato.analyst", BLOCK=7)
            renamed = np.empty_like(stratum)
            renamed[names] = stratum
            second = dealt(names[group], value, m, renamed).fit(names[group][rows], z[rows], column[rows], 3)
            found = second.estimate()
        expected = first.estimate()
        assert found.value == pytest.approx(expected.value, nan_ok=True, rel=1e-6, abs=1e-7)
        assert found.standard_error == pytest.approx(expected.standard_error, nan_ok=True, rel=1e-5, abs=1e-5)


def test_a_deal_in_order_of_value_has_few_kinds_of_groups() -> None:
    rng = np.random.default_rng(11)
    counts = rng.integers(500, 1500, 100)
    group, value = round_robin(counts, 5, rng)
    deal = dealt(group, value, 100)
    assert deal.sizes.size > 15_000
    assert deal.strata[0].counts.rows <= 101
    compositions = np.zeros((deal.sizes.size, 100))
    np.add.at(compositions, (group, value), 1)
    of_kind = deal.strata[0].counts.times(np.eye(100), slice(None))
    assert (of_kind[deal.kind_of_group] == compositions).all()


def test_no_record_satisfies_the_condition() -> None:
    found = dealt([0, 0, 1, 1, 2, 2], [0, 1, 0, 2, 1, 2], 3).fit(np.zeros(0, dtype=np.int64), np.zeros(0), columns=2)
    for answer in (found.estimate(), found.estimate(target="population")):
        assert answer.value.tolist() == answer.standard_error.tolist() == [[0] * 3] * 2


# --- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "value", "count", "stratum", "message"),
    [
        ([], [], [], None, "empty"),
        ([0, 0], [0, 0], [1, 2], None, "twice"),
        ([0, 0], [0, 3], [1, 2], None, "from 0 to 2"),
        ([0, 0], [0, 1], [1, 0], None, "positive"),
        ([0, 2], [0, 1], [1, 1], None, "composition"),
        ([0, 1], [0, 1], [1, 1], [0], "stratum"),
    ],
)
def test_a_sensitive_table_that_is_none(group: Ints, value: Ints, count: Ints, stratum: Ints, message: str) -> None:
    triples = [np.asarray(array, dtype=np.int64) for array in (group, value, count)]
    with pytest.raises(ValueError, match=message):
        DealtTable.of(*triples, 3, None if stratum is None else np.asarray(stratum))


@pytest.mark.parametrize(
    ("group", "z", "column", "message"),
    [
        ([0, 2], [1.0, 1.0], [0, 0], "does not have"),
        ([0, 0, 0], [1.0, 1.0, 1.0], [0, 0, 0], "more records"),
        ([0, 1], [1.0], [0, 0], "2 records have 1 numbers"),
        ([0, 1], [1.0, 1.0], [0, 2], "from 0 to 1"),
    ],
)
def test_records_that_do_not_fit(group: Ints, z: Ints, column: Ints, message: str) -> None:
    deal = dealt([0, 0, 1, 1], [0, 1, 0, 1], 2)
    with pytest.raises(ValueError, match=message):
        deal.fit(np.asarray(group), np.asarray(z), np.asarray(column), 2)


def test_weights_are_for_all_values() -> None:
    with pytest.raises(ValueError, match="3 values"):
        three_pairs().estimate(np.ones((2, 1)))
