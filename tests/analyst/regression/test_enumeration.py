"""The mean of the equations and of their estimated noise over all that could have been published, exactly."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from sfumato.analyst.regression.blocks import Block
from sfumato.analyst.regression.buckets import dealt_weights, noise_of_deal
from sfumato.analyst.regression.equations import Equations
from sfumato.analyst.regression.families import Family, Linear, Logistic, Multinomial, Poisson
from sfumato.analyst.regression.problem import Buckets, Cells
from sfumato.values.arrays import FloatArray, IntArray
from tests.analyst.regression.whole import Whole

HALF, SKEW = (
    [[Fraction(3, 4), Fraction(1, 4)], [Fraction(1, 4), Fraction(3, 4)]],
    [[Fraction(4, 5), Fraction(1, 10)], [Fraction(1, 5), Fraction(9, 10)]],
)
THREE = [
    [Fraction(7, 10), Fraction(1, 10), Fraction(1, 5)],
    [Fraction(1, 5), Fraction(7, 10), Fraction(1, 5)],
    [Fraction(1, 10), Fraction(1, 5), Fraction(3, 5)],
]

Matrix = list[list[Fraction]]


def inverted(P: Matrix) -> Matrix:
    """Return P^-1 in fractions, by Gauss and Jordan."""
    m = len(P)
    rows = [list(row) + [Fraction(int(i == j)) for j in range(m)] for i, row in enumerate(P)]
    for c in range(m):
        pivot = next(r for r in range(c, m) if rows[r][c])
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [value / rows[c][c] for value in rows[c]]
        for r in range(m):
            if r != c:
                rows[r] = [a - rows[r][c] * b for a, b in zip(rows[r], rows[c], strict=True)]
    return [row[m:] for row in rows]


@dataclass
class Tiny:
    """Rows with their true states; each is published through the matrices of its own sub-table, one for a column."""

    family: Family
    design: FloatArray  # (n, K, p)
    outcome: FloatArray  # (n, K)
    truth: IntArray  # (n,) states
    sizes: tuple[int, ...]  # of the columns
    matrices: list[tuple[Matrix, ...]]  # of each row
    omega: FloatArray
    used: Any = None
    draw: IntArray | None = None

    def outcomes(self) -> Iterator[tuple[float, FloatArray]]:
        """Yield every release: its chance, and the weights b of its rows."""
        states = list(itertools.product(*map(range, self.sizes)))
        free = range(len(self.truth)) if self.draw is None else np.unique(self.draw, return_index=True)[1].tolist()
        inverses = [[inverted(P) for P in own] for own in self.matrices]
        for published in itertools.product(states, repeat=len(free)):
            chance, weights = Fraction(1), np.zeros((len(self.truth), len(states)))
            for i, y in zip(free, published, strict=True):
                x = states[self.truth[i]]
                for P, a, b in zip(self.matrices[i], y, x, strict=True):
                    chance *= P[a][b]
                weights[i] = [
                    float(_product(B[k][a] for B, k, a in zip(inverses[i], s, y, strict=True))) for s in states
                ]
            if self.draw is not None:
                weights = weights[[free[d] for d in self.draw]]
            yield float(chance), weights

    def source(self, weights: FloatArray) -> Whole:
        """Return the release with these weights."""
        cells = Cells(
            weights=weights,
            design=self.design,
            outcome=self.outcome,
            count=self.omega,
            squares=self.omega**2,
            published=np.zeros(len(self.truth), dtype=np.int64),
            used=self.used,
            draw=self.draw,
        )
        names = tuple("abcd"[: self.design.shape[2]])
        return Whole(names, (False,) * len(names), self.family, cells)

    def true(self) -> Equations:
        """Return the equations of the true table."""
        return Equations(self.source(np.eye(int(np.prod(self.sizes)))[self.truth]))


def _product(values: Iterator[Fraction]) -> Fraction:
    product = Fraction(1)
    for value in values:
        product *= value
    return product


def tiny(kind: str) -> tuple[Tiny, FloatArray]:
    """Return a table, and coefficients at which the equations are looked at."""
    random = np.random.default_rng(5)
    n, one = 4, np.ones
    w = random.normal(size=n)
    weights = np.array([1.0, 2.0, 0.5, 1.5])
    if kind == "outcome":
        design = np.stack([one(n), w], axis=-1)[:, None]
        rows = Tiny(
            Logistic(), design, np.tile([0.0, 1.0], (n, 1)), np.array([0, 1, 1, 0]), (2,), [(SKEW,)] * n, weights
        )
        return rows, np.array([0.3, -0.7])
    if kind == "covariate, linear":
        level = np.eye(3)
        design = np.stack(
            [np.stack([one(n), w, one(n) * level[k, 1], w * level[k, 2]], axis=-1) for k in range(3)], axis=1
        )
        truth = np.array([0, 1, 2, 1])
        return Tiny(Linear(), design, random.normal(size=(n, 1)), truth, (3,), [(THREE,)] * n, weights), np.array(
            [0.3, -0.7, 0.2, 1.0]
        )
    if kind == "both, Kronecker":
        states = list(itertools.product(range(2), range(2)))
        design = np.stack([np.stack([one(n), w, one(n) * s[0]], axis=-1) for s in states], axis=1)
        outcome = np.tile([float(s[1]) for s in states], (n, 1))
        truth = np.array([0, 1, 2, 3])
        return Tiny(Logistic(), design, outcome, truth, (2, 2), [(HALF, SKEW)] * n, weights), np.array([0.3, -0.7, 1.1])
    if kind == "sub-tables, multinomial":
        design = np.stack([one(n), w], axis=-1)[:, None]
        outcome = np.tile([0.0, 1.0, 2.0], (n, 1))
        other = [[row[k] for k in (1, 2, 0)] for row in [THREE[r] for r in (1, 2, 0)]]
        matrices = [(THREE,), (other,), (THREE,), (other,)]
        rows = Tiny(Multinomial(("0", "1", "2")), design, outcome, np.array([0, 1, 2, 1]), (3,), matrices, weights)
        return rows, np.array([0.3, -0.7, 0.2, 1.0])
    if kind == "missing":
        design = np.stack([np.stack([one(n), one(n) * (k == 1)], axis=-1) for k in range(3)], axis=1)
        rows = Tiny(
            Poisson(),
            design,
            np.array([[0.0], [2.0], [1.0], [3.0]]),
            np.array([0, 1, 2, 1]),
            (3,),
            [(THREE,)] * n,
            weights,
        )
        return replace(rows, used=np.array([[True, True, False]])), np.array([0.3, -0.7])
    assert kind == "shared draws"
    design = np.stack([np.stack([one(n), w, one(n) * k], axis=-1) for k in range(2)], axis=1)
    rows = Tiny(
        Logistic(), design, np.array([[0.0], [1.0], [1.0], [0.0]]), np.array([0, 0, 1, 1]), (2,), [(SKEW,)] * n, weights
    )
    return replace(rows, draw=np.array([0, 0, 1, 2])), np.array([0.3, -0.7, 1.1])


KINDS = ("outcome", "covariate, linear", "both, Kronecker", "sub-tables, multinomial", "missing", "shared draws")


@pytest.mark.parametrize("kind", KINDS)
def test_equations_and_noise_are_unbiased(kind: str) -> None:
    """E[U_hat] = U_T, E[H_hat] = H_T and E[V - S] = Var(U_hat | table), over all releases, at any coefficients."""
    rows, beta = tiny(kind)
    chances, found = [], []
    for chance, weights in rows.outcomes():
        equations = Equations(rows.source(weights))
        sums = equations.sums(beta)
        chances.append(chance)
        found.append((sums.score, sums.information, equations.score_noise(beta).table))
    share, true = np.array(chances), rows.true().sums(beta)
    score, information, noise = (np.array([f[k] for f in found]) for k in range(3))
    assert share.sum() == pytest.approx(1, abs=1e-12)
    assert np.allclose(share @ score, true.score, rtol=0, atol=1e-11)
    assert np.allclose(np.tensordot(share, information, 1), true.information, rtol=0, atol=1e-11)
    around = score - true.score
    assert np.allclose(np.tensordot(share, noise, 1), (around * share[:, None]).T @ around, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["covariate, linear", "both, Kronecker"])
def test_noise_of_any_amount_is_unbiased(kind: str) -> None:
    """The same of any function of row and state: what effects and the strength of H rest on."""
    rows, _ = tiny(kind)
    amount = np.random.default_rng(1).normal(size=(len(rows.truth), int(np.prod(rows.sizes)), 2))
    true = (rows.omega[:, None] * amount[np.arange(len(rows.truth)), rows.truth]).sum(axis=0)
    mean, second, estimated = np.zeros(2), np.zeros((2, 2)), np.zeros((2, 2))
    for chance, weights in rows.outcomes():
        block = Block(rows.source(weights).cells, rows.family)
        total = (block.tilde(amount) * rows.omega[:, None]).sum(axis=0)
        mean, second = mean + chance * total, second + chance * np.outer(total - true, total - true)
        estimated += chance * block.noise(amount).table
    assert np.allclose(mean, true, rtol=0, atol=1e-11)
    assert np.allclose(estimated, second, rtol=0, atol=1e-10)


# --- buckets --------------------------------------------------------------------------------------------------------

COMPOSITIONS = np.array([[1.0, 1, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1]])


def deals(truth: IntArray) -> Iterator[IntArray]:
    """Yield every deal: the bucket of each record, where records of a value are permuted over its places."""
    places = [np.repeat(np.arange(4), COMPOSITIONS[:, x].astype(int)) for x in range(3)]
    orders = [list(itertools.permutations(p.tolist())) for p in places]
    for chosen in itertools.product(*orders):
        bucket = np.empty(truth.size, dtype=np.int64)
        for x, order in enumerate(chosen):
            bucket[truth == x] = order
        yield bucket


def dealt(bucket: IntArray, design: FloatArray, outcome: FloatArray, family: Family) -> Equations:
    """Return the equations of a deal."""
    buckets = Buckets(COMPOSITIONS, ("a", "b", "c"))
    weights = dealt_weights(buckets)[bucket]
    one = np.ones(bucket.size)
    cells = Cells(weights=weights, design=design, outcome=outcome, count=one, squares=one, naive=weights, group=bucket)
    return Equations(Whole(("a", "b"), (False, False), family, cells, buckets))


@pytest.mark.parametrize("place", ["outcome", "covariate"])
def test_buckets_over_all_deals(place: str) -> None:
    """E[U_hat] = U_T, and Var(U_hat) is that of records permuted over the places of their values."""
    truth, random = np.array([0, 0, 0, 1, 1, 1, 2, 2]), np.random.default_rng(3)
    w, beta = random.normal(size=8), np.array([0.4, -0.6])
    if place == "outcome":
        family, design = Logistic(), np.stack([np.ones(8), w], axis=-1)[:, None]
        outcome = np.tile([0.0, 1.0, 0.0], (8, 1))
    else:
        design = np.stack([np.stack([np.ones(8), w * (k == 1)], axis=-1) for k in range(3)], axis=1)
        family, outcome = Logistic(), (w > 0).astype(float)[:, None]
    scores, psi = [], None
    for bucket in deals(truth):
        equations = dealt(bucket, design, outcome, family)
        scores.append(equations.sums(beta).score)
        psi = next(equations.blocks()).psi(beta)
    assert psi is not None
    assert np.allclose(np.mean(scores, axis=0), psi[np.arange(8), truth].sum(axis=0), rtol=0, atol=1e-11)
    exact = permuted(psi, truth)
    assert np.allclose(np.cov(np.array(scores).T, bias=True), exact, rtol=0, atol=1e-11)


def test_no_deal_moves_the_equation_of_the_intercept() -> None:
    """How many records have a value is told exactly: given the table, the intercept is a function of the slopes."""
    truth, w = np.array([0, 0, 0, 1, 1, 1, 2, 2]), np.random.default_rng(3).normal(size=8)
    design, outcome = np.stack([np.ones(8), w], axis=-1)[:, None], np.tile([0.0, 1.0, 0.0], (8, 1))
    beta = np.array([0.4, -0.6])
    scores = np.array([dealt(b, design, outcome, Logistic()).sums(beta).score for b in deals(truth)])
    assert np.ptp(scores[:, 0]) < 1e-12
    assert np.ptp(scores[:, 1]) > 0.1


def test_a_function_with_a_flat_place_is_covered_less_than_its_argument() -> None:
    """docs/reference/benchmarks.md: f(b) = b^2/2 at b = r, whose estimate has the standard error |estimate of b|."""
    z, chance = np.linspace(-9, 9, 90_001), norm.pdf(np.linspace(-9, 9, 90_001)) * 18 / 90_000
    covered = {r: chance[np.abs(r * z + z**2 / 2) <= 1.96 * np.abs(r + z)].sum() for r in (0, 1, 1.5, 2, 4, 10)}
    expected = {0: 0.9999, 1: 0.883, 1.5: 0.860, 2: 0.876, 4: 0.926, 10: 0.946}
    assert covered == pytest.approx(expected, abs=1e-3)
    assert min(covered, key=covered.__getitem__) == 1.5


def permuted(psi: FloatArray, truth: IntArray) -> FloatArray:
    """Return sum_x 1/(n_x - 1) sum_g c_gx sum_{i in x} [(a_g - e_x)'(psi_i - mean)]^(x)2."""
    a = dealt_weights(Buckets(COMPOSITIONS, ("a", "b", "c")))
    total = np.zeros((psi.shape[2], psi.shape[2]))
    for x in range(3):
        own = psi[truth == x] - psi[truth == x].mean(axis=0)
        for g in range(4):
            moved = np.einsum("k,ikc->ic", a[g] - np.eye(3)[x], own)
            total += COMPOSITIONS[g, x] / ((truth == x).sum() - 1) * moved.T @ moved
    return total


def random_deal(random: np.random.Generator, truth: IntArray, C: FloatArray) -> IntArray:
    """Return the bucket of each record under a random deal."""
    bucket = np.empty(truth.size, dtype=np.int64)
    for x in range(C.shape[1]):
        bucket[truth == x] = random.permutation(np.repeat(np.arange(len(C)), C[:, x].astype(int)))
    return bucket


@pytest.mark.parametrize("strata", [1, 2])
def test_estimated_noise_of_deals(strata: int) -> None:
    """The mean of the estimate over random deals is the variance over them: 600 deals tell 15%, and a factor of 1.5."""
    random = np.random.default_rng(8)
    kinds = np.array([[1.0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 1, 0], [1, 0, 0, 1]])
    C = np.tile(kinds, (30, 1))
    stratum = np.arange(len(C)) % strata
    buckets = Buckets(C, tuple("abcd"), stratum=stratum)
    a = dealt_weights(buckets)
    truths = [np.repeat(np.arange(4), C[stratum == s].sum(axis=0).astype(int)) for s in range(strata)]
    truth = np.concatenate(truths)
    amount = random.normal(size=(truth.size, 4, 1)) + 0.5 * np.arange(4)[:, None]
    totals, estimates = [], []
    for _ in range(600):
        parts = [np.flatnonzero(stratum == s)[random_deal(random, t, C[stratum == s])] for s, t in enumerate(truths)]
        bucket, one = np.concatenate(parts), np.ones(truth.size)
        design = np.ones((truth.size, 1, 1))
        cells = Cells(a[bucket], design, np.zeros((1, 1)), one, one, naive=a[bucket], group=bucket)
        block = Block(cells, Linear())
        totals.append(float(block.tilde(amount).sum()))
        noise = noise_of_deal(buckets, lambda block=block: iter([block]), lambda _: amount)  # type: ignore[misc]
        estimates.append(float(noise.table[0, 0]))
    assert np.mean(totals) == pytest.approx(amount[np.arange(truth.size), truth].sum(), abs=4 * np.std(totals) / 24)
    assert 0.85 < np.mean(estimates) / np.var(totals) < 1.15


def slow_weights(C: FloatArray) -> Sequence[FloatArray]:
    """Return a by its definition."""
    W = np.diag(1 / C.sum(axis=1))
    return W @ C @ np.linalg.inv(C.T @ W @ C) @ np.diag(C.sum(axis=0))


def test_weights_of_buckets() -> None:
    """C'a = diag(n), rows sum to one."""
    a = dealt_weights(Buckets(COMPOSITIONS, ("a", "b", "c")))
    assert np.allclose(a, slow_weights(COMPOSITIONS))
    assert np.allclose(COMPOSITIONS.T @ a, np.diag(COMPOSITIONS.sum(axis=0)))
    assert np.allclose(a.sum(axis=1), 1)
