"""Fine-grain perturbation for the least error, and subset selection: their promises on the integers that are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.claims.claim import BOTH, UPWARD
from sfumato.methods.least_error import least_error
from sfumato.methods.subset.method import best_deck
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import posterior_of_gamma
from tests.conftest import make_policy


def _columns(matrix: Matrix) -> list[list[int]]:
    return [[matrix.weight(y, x) for y in range(matrix.outputs)] for x in range(matrix.size)]


def _worst(columns: list[list[int]], i: int, upward: bool) -> Fraction:
    """Return the largest factor of the odds of value i, entry by entry; infinite ones as a huge number."""
    found = Fraction(0)
    for y in range(len(columns[0])):
        for k in range(len(columns)):
            above, below = (columns[i][y], columns[k][y]) if upward else (columns[k][y], columns[i][y])
            if k != i and above:
                found = max(found, Fraction(above, below) if below else Fraction(10**30))
    return found


def _random_bounds(rng: np.random.Generator) -> tuple[Bound, ...]:
    m = int(rng.integers(2, 11))
    levels = [Fraction(int(rng.integers(1050, 20_000)), 1000) for _ in range(int(rng.integers(1, 4)))]
    gammas: list[Fraction | None] = [levels[int(rng.integers(0, len(levels)))] for _ in range(m)]
    for free in rng.permutation(m)[: int(rng.integers(0, m))].tolist():
        gammas[free] = None
    return tuple(Bound(gamma) for gamma in gammas)


def _floats(bounds: Sequence[Bound]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([np.inf if bound.gamma is None else float(bound.gamma) for bound in bounds])


@pytest.mark.parametrize("directions", [BOTH, UPWARD], ids=["both", "upward"])
def test_the_integers_keep_every_bound(directions: tuple[str, ...]) -> None:
    """200 random requirements each: (rho1, rho2) holds for the worst prior, in fractions, and is hardly missed."""
    rng = np.random.default_rng(17)
    for _ in range(200):
        bounds = _random_bounds(rng)
        matrix = least_error(bounds, directions, _floats(bounds), np.ones(len(bounds)))  # type: ignore[arg-type]
        columns = _columns(matrix)
        assert all(sum(column) == 2**64 for column in columns)
        for i, bound in enumerate(bounds):
            for direction in directions if bound.gamma is not None else ():
                assert bound.gamma is not None
                factor = _worst(columns, i, direction == "upward")
                assert factor <= bound.gamma
                rho1 = Fraction(int(rng.integers(1, 99)), 100)
                assert factor * rho1 / (1 - rho1 + factor * rho1) <= posterior_of_gamma(bound.gamma, rho1)


def test_no_statement_moves_by_more_than_the_square_of_the_strictest() -> None:
    rng = np.random.default_rng(18)
    for _ in range(200):
        bounds = _random_bounds(rng)
        matrix = least_error(bounds, BOTH, _floats(bounds), np.ones(len(bounds)))
        strictest = min(bound.gamma for bound in bounds if bound.gamma is not None)
        assert matrix.largest_ratio is not None
        assert matrix.largest_ratio <= strictest**2 * (1 + Fraction(1, 10**9))
        inside = rng.random(len(bounds)) < 0.5
        if inside.any() and not inside.all():
            raised = matrix.raised(inside)
            assert raised is not None
            assert raised <= matrix.largest_ratio


def test_cards_keep_every_statement_within_gamma() -> None:
    """200 random decks: every statement, prior and card, in fractions."""
    rng = np.random.default_rng(19)
    for _ in range(200):
        m, gamma = int(rng.integers(2, 9)), Fraction(int(rng.integers(1050, 9000)), 1000)
        columns = _columns(best_deck(m, gamma))
        assert all(sum(column) == 2**64 for column in columns)
        rows = list(zip(*columns, strict=True))
        assert max(Fraction(max(row), min(row)) for row in rows) <= gamma
        prior = [Fraction(int(w), 1) for w in rng.integers(1, 100, m)]
        holds = rng.random(m) < 0.5
        if holds.any() and not holds.all():
            before = sum(w for w, h in zip(prior, holds, strict=True) if h) / sum(
                w for w, h in zip(prior, holds, strict=True) if not h
            )
            for row in rows:
                joint = [w * p for w, p in zip(prior, row, strict=True)]
                after = sum(j for j, h in zip(joint, holds, strict=True) if h) / sum(
                    j for j, h in zip(joint, holds, strict=True) if not h
                )
                assert before / gamma <= after <= before * gamma


def _rows(seed: int, counts: Sequence[int]) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = np.repeat(np.arange(len(counts)), counts)
    rng.shuffle(values)
    return pa.table({"sex": rng.choice(["F", "M"], values.size), "d": [f"v{v}" for v in values]})


DOMAIN = [f"v{k}" for k in range(12)]
COUNTS = [40 * k for k in range(1, 13)]


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("form", ["set", "card"])
def test_a_release_of_sets_from_policy_to_answers(form: str, format: str, tmp_path: object) -> None:
    policy = make_policy(
        {"sex": "quasi_identifier", "d": f"sensitive; domain = {DOMAIN}".replace("'", '"')},
        "gamma = 3",
        "subset",
        options=f'form = "{form}"',
    )
    table = sf.scan(_rows(3, COUNTS), policy)
    made = sf.plan(sf.profile(table), policy.method, policy.requirement)
    release = sf.publish(table, made, f"{tmp_path}/r", format=format, key=SecretKey.from_seed(5))
    found = release.verify()
    assert {check.name for check in found.checks if check.status == "fails"} == {"secret key"}
    answer = release.count(by="d")
    error = (np.array(answer.value) - COUNTS) / answer.standard_error
    assert np.abs(error).max() < 4
    assert float(answer.value.sum()) == pytest.approx(sum(COUNTS))
    assert release.count(by="d", method="em").value.min() >= 0
    alone = dict(zip((group[0] for group in answer.groups), answer.value.tolist(), strict=True))
    both = release.sql("SELECT sex, count(*) FROM release WHERE d IN ('v10', 'v11') GROUP BY sex")
    assert float(both.value.sum()) == pytest.approx(alone["v10"] + alone["v11"])
    readme = (release.folder / "README.md").read_text()
    assert "the truth may lie outside it" in readme
    again = sf.open_release(release.folder).count(by="d")
    assert np.array_equal(again.value, answer.value)


def test_a_value_with_the_sign_between_values_is_published_by_card_only() -> None:
    domain = '["a|b", "c", "d", "e"]'
    policy = make_policy({"d": f"sensitive; domain = {domain}"}, "gamma = 2", "subset", options='form = "set"')
    profile = sf.profile(sf.scan(pa.table({"d": ["a|b", "c", "d", "e"] * 5}), policy))
    with pytest.raises(sf.UsageError, match=r"'a\|b' holds '\|'.*"):
        sf.plan(profile, policy.method, policy.requirement)
    sf.plan(profile, sf.Subset(form="card"), policy.requirement)


def test_sets_of_more_than_half_and_two_columns_are_refused() -> None:
    policy = make_policy({"d": 'sensitive; domain = ["a", "b", "c"]'}, "gamma = 2", "subset", options="members = 2")
    profile = sf.profile(sf.scan(pa.table({"d": ["a", "b", "c"] * 5}), policy))
    with pytest.raises(sf.UsageError, match="holds more than half of them"):
        sf.plan(profile, policy.method, policy.requirement)
    with pytest.raises(sf.UsageError, match="subset takes one sensitive column"):
        make_policy({"d": "sensitive", "e": "sensitive"}, "gamma = 2", "subset")
