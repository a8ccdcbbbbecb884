"""Methods for ordered values: the promise on the integers, worked examples, draws, refusals, and whole releases."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chisquare

import sfumato as sf
from sfumato.claims.claim import BOTH
from sfumato.claims.odds import OddsClaim
from sfumato.claims.steps import StepsClaim, within_steps
from sfumato.errors import Infeasible, PolicyError
from sfumato.methods.ordered.design import best_mixture, best_ranges, windows
from sfumato.methods.ordered.drawing import OrderedDrawing, rounded
from sfumato.methods.ordered.geometric import Geometric
from sfumato.methods.ordered.plateau import Plateau
from sfumato.methods.ordered.ranges import Ranges
from sfumato.values.attributes import Domain, SensitiveDomain
from sfumato.values.matrix.base import Matrix
from sfumato.values.mechanism import Bound
from sfumato.values.randomness import SecretKey
from tests.conftest import exact_weights, make_policy

INSTANCES = 200
WORDS = 2**64


def numbers(m: int) -> SensitiveDomain:
    return SensitiveDomain((Domain("age", tuple(range(m))),))


def matrix_of(method: OrderedDrawing, domain: SensitiveDomain, gamma: Fraction) -> Matrix:
    bounds = (Bound(gamma),) * domain.size
    return method.matrix_for(domain, bounds, np.full(domain.size, float(gamma)), np.ones(domain.size))


def odds(share: Fraction) -> Fraction:
    return share / (1 - share)


# --- the promise ----------------------------------------------------------------------------------------------------


def random_method(kind: str, draw: random.Random) -> OrderedDrawing:
    if kind.startswith("ranges"):
        return Ranges(mixed_with="values" if kind.endswith("values") else "sets")
    return Plateau() if kind == "plateau" else Plateau(alpha=draw.choice(["1/10", "0.3", "0.5", "0.8", "0.95"]))


@pytest.mark.parametrize("kind", ["ranges", "ranges, values", "plateau", "plateau, alpha"])
def test_beliefs_in_every_statement_stay_within_rho_exactly(kind: str) -> None:
    draw = random.Random(7)
    for _ in range(INSTANCES):
        m, rho1 = draw.randint(2, 14), Fraction(draw.randint(1, 40), 100)
        rho2 = rho1 + (1 - rho1) * Fraction(draw.randint(1, 95), 100)
        gamma = odds(rho2) / odds(rho1)
        weights = exact_weights(matrix_of(random_method(kind, draw), numbers(m), gamma))
        assert [sum(column) for column in zip(*weights, strict=True)] == [WORDS] * m
        assert max(Fraction(max(row), min(row)) for row in weights) <= gamma
        threshold = draw.randint(1, m - 1)
        prior = [Fraction(draw.randint(1, 50)) for _ in range(m)]
        below, above = sum(prior[:threshold]), sum(prior[threshold:])
        for start, least, most in ((rho1, 0, rho2), (rho2, rho1, 1)):
            believed = [p / below * (1 - start) for p in prior[:threshold]]
            believed += [p / above * start for p in prior[threshold:]]
            for row in weights:
                joint = [p * w for p, w in zip(believed, row, strict=True)]
                assert least <= sum(joint[threshold:]) / sum(joint) <= most


@pytest.mark.parametrize("method", [Ranges(), Ranges(mixed_with="values"), Plateau(alpha=0.6)])
def test_the_bound_is_used_up(method: OrderedDrawing) -> None:
    for m in (5, 12, 60):
        ratio = matrix_of(method, numbers(m), Fraction(4)).largest_ratio
        assert ratio is not None
        assert 4 * (1 - 1e-9) < ratio <= 4


def test_what_integers_cannot_keep_is_refused() -> None:
    with pytest.raises(Infeasible, match="so strict that 64-bit sampling cannot keep it"):
        rounded(windows(3, 1, 4.0).chances, lambda matrix: matrix.largest_ratio == 1)


@pytest.mark.parametrize("mixed_with", ["sets", "values"])
@pytest.mark.parametrize("bits", [51, 70])
def test_ranges_that_words_are_too_few_for_are_refused(mixed_with: Any, bits: int) -> None:
    with pytest.raises(Infeasible, match="so strict that 64-bit sampling cannot keep it"):
        matrix_of(Ranges(mixed_with=mixed_with), numbers(300), 1 + Fraction(1, 2**bits))


def test_geometric_keeps_rho_within_its_steps_and_states_the_factor_for_everybody_exactly() -> None:
    draw = random.Random(11)
    for _ in range(INSTANCES):
        m, rho1 = draw.randint(3, 14), Fraction(draw.randint(1, 40), 100)
        rho2 = rho1 + (1 - rho1) * Fraction(draw.randint(1, 95), 100)
        bound, steps = Bound(odds(rho2) / odds(rho1), rho1, rho2), draw.randint(1, m - 1)
        assert bound.gamma is not None
        method, domain = Geometric(steps=steps), numbers(m)
        matrix = method.matrix_for(domain, (bound,) * m, np.full(m, float(bound.gamma)), np.ones(m))
        claim, far = method.claimed(matrix, (bound,) * m, OddsClaim("any predicate"))
        weights = exact_weights(matrix)
        assert [sum(column) for column in zip(*weights, strict=True)] == [WORDS] * m
        assert {b.gamma for b in far} == {max(Fraction(max(row), min(row)) for row in weights)}
        assert isinstance(claim, StepsClaim)
        for row in weights:
            for low in range(m - steps):
                near = row[low : low + steps + 1]
                assert Fraction(max(near), min(near)) <= bound.gamma
        neighbours = max(Fraction(max(pair), min(pair)) for row in weights for pair in pairwise(row))
        assert matrix.largest_step(range(m)) == neighbours == Matrix.largest_step(matrix, range(m))
        assert bound.gamma * (1 - Fraction(1, 10**9)) <= neighbours**steps <= bound.gamma
        assert not within_steps(matrix, list(range(m)), steps + 1, bound)


# --- worked examples --------------------------------------------------------------------------------------------------


def test_ranges_of_four_values() -> None:
    matrix = matrix_of(Ranges(), numbers(4), Fraction(4))
    assert [matrix.card(y).tolist() for y in range(matrix.outputs)] == [[0, 1], [0], [1, 2], [1], [2, 3], [2], [3]]
    tau = best_ranges(4, 4.0).share
    window, single = tau / (4 * 2 + 4 - 1), (1 - tau) / (4 + 4 - 1)  # of a card without the own value
    of_first = [4 * window, 4 * (window + single), window, single, window, single, window + single]
    assert matrix.dense()[:, 0] == pytest.approx(of_first)


def test_ranges_and_sets_of_six_values() -> None:
    """With gamma = 2 the windows hold three neighbours, and the sets two values: each of 15 once, of the deck twice."""
    found = best_mixture(6, 2.0)
    assert (found.width, found.members, len(found.deck.blocks)) == (3, 2, 5)
    matrix = matrix_of(Ranges(), numbers(6), Fraction(2))
    cards = [tuple(matrix.card(y).tolist()) for y in range(matrix.outputs)]
    pairs, triples = set(combinations(range(6), 2)), {(f, f + 1, f + 2) for f in range(4)}
    assert sorted(cards) == sorted(pairs | triples | {(0,), (5,)})
    window, pair = found.share / (2 * 3 + 6 - 1), (1 - found.share) / (2 * 10 + 20)  # of one without the own value
    chances = dict(zip(cards, matrix.dense()[:, 0], strict=True))
    assert chances[0,] == pytest.approx(2 * window)
    assert chances[0, 1] == pytest.approx(2 * window + 4 * pair)  # a window cut at the end, and a pair
    assert chances[0, 2] == pytest.approx(4 * pair)
    assert chances[2, 4] == pytest.approx(2 * pair)
    assert chances[1, 2, 3] == pytest.approx(window)
    assert cards[:4] == [(0, 1, 2), (0, 1), (0, 2), (0, 3)]  # numbered by the first place in which they differ


def test_plateau_of_four_values() -> None:
    matrix = matrix_of(Plateau(alpha=0.5), numbers(4), Fraction(4))
    assert matrix.dense() * 42 == pytest.approx(
        np.array([[24, 12, 6, 6], [8, 16, 8, 4], [4, 8, 16, 8], [6, 6, 12, 24]])
    )


def test_geometric_of_four_values() -> None:
    matrix = matrix_of(Geometric(steps=2), numbers(4), Fraction(4))
    assert matrix.dense() * 12 == pytest.approx(np.array([[8, 4, 2, 1], [2, 4, 2, 1], [1, 2, 4, 2], [1, 2, 4, 8]]))


def test_a_low_alpha_is_uniform_perturbation() -> None:
    matrix = matrix_of(Plateau(alpha=0.25), numbers(6), Fraction(4))
    assert matrix.dense() == pytest.approx(windows(6, 1, 4.0).chances)


def test_the_order_is_that_of_the_numbers_and_not_of_the_codes() -> None:
    mixed = SensitiveDomain((Domain("age", ("10", "9", "100", "2", "30")),))
    order = [3, 1, 0, 4, 2]
    plain, turned = (matrix_of(Plateau(alpha=0.7), domain, Fraction(4)).dense() for domain in (numbers(5), mixed))
    assert turned[np.ix_(order, order)] == pytest.approx(plain)
    ranges = matrix_of(Ranges(mixed_with="values"), mixed, Fraction(2))
    for y in range(ranges.outputs):
        places = sorted(order.index(code) for code in ranges.card(y).tolist())
        assert all(b - a == 1 for a, b in pairwise(places))


@pytest.mark.parametrize("values", [("low", "middle", "high"), ("[0, 10)", "[10, 20)", ">= 20"), (False, True)])
def test_what_has_an_order(values: tuple[Any, ...]) -> None:
    domain = SensitiveDomain((Domain("it", values, ordered=values[0] == "low"),))
    for method in (Ranges(), Plateau()):
        assert matrix_of(method, domain, Fraction(3)).size == len(values)


# --- draws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [Ranges(), Ranges(mixed_with="values"), Plateau(alpha=0.6), Geometric(steps=2)])
def test_draws_have_the_chances_of_the_matrix(method: OrderedDrawing) -> None:
    matrix, each = matrix_of(method, numbers(9), Fraction(3)), 40_000
    codes = np.repeat(np.arange(9, dtype=np.int32), each)
    drawn = matrix.sample(codes, np.random.default_rng(3).integers(0, 2**64, codes.size, dtype=np.uint64))
    levels = []
    for x in range(9):
        seen = np.bincount(drawn[codes == x], minlength=matrix.outputs)
        levels.append(chisquare(seen, matrix.dense()[:, x] * each).pvalue)
        if x:  # draws of another value would be found out
            assert chisquare(seen, matrix.dense()[:, x - 1] * each).pvalue < 1e-6
    assert min(levels) > 1e-4


# --- refusals ---------------------------------------------------------------------------------------------------------


def test_texts_without_an_order_are_refused_with_how_to_declare_one() -> None:
    domain = SensitiveDomain((Domain("illness", ("flu", "gout", "HIV")),))
    with pytest.raises(PolicyError, match="'flu', 'gout', which are in no order") as caught:
        matrix_of(Ranges(), domain, Fraction(3))
    assert "ordered = true in [columns.illness]" in caught.value.hint


def test_a_missing_value_is_refused() -> None:
    with pytest.raises(PolicyError, match="a missing value is in no order") as caught:
        matrix_of(Plateau(), SensitiveDomain((Domain("age", (1, 2, None)),)), Fraction(3))
    assert 'missing = "drop"' in caught.value.hint


@pytest.mark.parametrize(
    ("method", "values"),
    [(Ranges(), 1_155), (Plateau(alpha=0.5), 2_001), (Plateau(), 1_001), (Geometric(steps=1), 1_001)],
)
def test_too_many_values_are_refused_with_bins(method: OrderedDrawing, values: int) -> None:
    with pytest.raises(PolicyError, match=r"1,154|2,000|1,000") as caught:
        matrix_of(method, numbers(values), Fraction(3))
    assert "bins" in caught.value.hint


def test_two_columns_are_refused() -> None:
    with pytest.raises(PolicyError, match="one sensitive column, and there are 2; choose one, or give the others"):
        make_policy({"a": "sensitive", "b": "sensitive"}, "gamma = 3", "ranges")


@pytest.mark.parametrize("alpha", ["0", "1", "3/2"])
def test_alpha_lies_between_0_and_1(alpha: str) -> None:
    with pytest.raises(PolicyError, match=r"method\.alpha must lie strictly between 0 and 1"):
        make_policy({"a": "sensitive"}, "gamma = 3", "plateau", options=f'alpha = "{alpha}"')


# --- whole releases ---------------------------------------------------------------------------------------------------


AGES = list(range(5, 100, 10))
ROLES = {"sex": "quasi_identifier", "age": f"sensitive; domain = {AGES}"}


def table(rows: int = 6_000, seed: int = 2) -> pa.Table:
    rng = np.random.default_rng(seed)
    ages = np.minimum(rng.gamma(5, 9, rows), 99).astype(int) // 10 * 10 + 5
    return pa.table({"sex": rng.choice(["F", "M"], rows), "age": ages})


CASES = [
    ("ranges", ""),
    ("ranges", 'mixed_with = "values"'),
    ("ranges", 'form = "card"'),
    ("plateau", ""),
    ("plateau", "alpha = 0.7"),
    ("geometric", "steps = 2"),
]


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_release_is_planned_published_verified_and_answers(
    name: str, options: str, format: Any, tmp_path: Path
) -> None:
    policy, rows = make_policy(ROLES, "rho1 = 0.2\nrho2 = 0.5", name, options=options), table()
    opened = sf.scan(rows, policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement).bound_to(opened.hash(), policy.hash())
    assert "a prior belief of at most 20% stays at most 50%" in plan.guarantee.sentence
    assert plan.guarantee.scope == "any predicate"
    assert f"Method {name}, assurance proved." in plan.explain()
    (tmp_path / "plan.json").write_text(plan.to_json(), encoding="utf-8")
    key = SecretKey.from_seed(4)
    release = sf.publish(opened, sf.load_plan(tmp_path / "plan.json"), tmp_path / "r", key=key, format=format)
    assert [check.name for check in release.verify().checks if check.status == "fails"] == ["secret key"]
    ages, counts = rows["age"].to_numpy(), release.count(by="age")
    assert sum(counts.value) == pytest.approx(6_000)
    assert (
        np.abs(np.array(counts.value) - np.bincount(ages // 10, minlength=10)) < 4 * np.array(counts.standard_error)
    ).all()
    answer = release.sql("SELECT AVG(age), QUANTILE(age, 0.5) FROM release")
    assert answer.value[0] == pytest.approx(float(ages.mean()), abs=4 * answer.standard_error[0])
    assert answer.standard_error[0] < 2
    low, high = answer.interval(0.9999)
    assert low[1] <= np.median(ages) <= high[1]
    assert high[1] - low[1] <= 20


def geometric_release(folder: Path) -> sf.Release:
    policy = make_policy(ROLES, "gamma = 4", "geometric", options="steps = 2")
    opened = sf.scan(table(600), policy)
    plan = sf.plan(sf.profile(opened), policy.method, policy.requirement).bound_to(opened.hash(), policy.hash())
    return sf.publish(opened, plan, folder)


def test_the_promise_of_geometric_is_said_in_two_parts(tmp_path: Path) -> None:
    release = geometric_release(tmp_path / "r")
    assert release.verify().holds
    guarantee, told = release.manifest.guarantee, (tmp_path / "r" / "README.md").read_text(encoding="utf-8")
    assert guarantee.sentence == (
        "For any statement about a record's age, and someone who already knows it up to 2 steps (one of 3 neighbouring "
        "values): seeing the release lets its odds change by at most the factor 4. For everybody else its odds change "
        "by at most the factor 512."
    )
    assert guarantee.limits[0].startswith("Not one factor for all: that age is at least some value")
    assert guarantee.sentence in told
    assert release.manifest.claim == StepsClaim("any predicate", BOTH, steps=2, bound=Bound(Fraction(4)))


@pytest.mark.parametrize(
    ("near", "failing"),
    [
        ({"steps": 3}, {"guarantee, as stated", "guarantee, within steps"}),
        ({"steps": 1}, {"guarantee, as stated"}),  # it holds, and is not what the sentence says
        (
            {"bound": {"gamma": "2", "rho1": None, "rho2": None, "given": ""}},
            {"guarantee, as stated", "guarantee, within steps"},
        ),
        (None, {"guarantee, as stated"}),
    ],
)
def test_a_promise_of_geometric_that_was_changed_is_found(
    near: dict[str, Any] | None, failing: set[str], tmp_path: Path
) -> None:
    geometric_release(tmp_path / "r")
    path = tmp_path / "r" / "manifest.json"
    raw = json.loads(path.read_text(encoding="utf-8"))
    raw["mechanisms"][0]["near"] = None if near is None else raw["mechanisms"][0]["near"] | near
    path.write_text(json.dumps(raw), encoding="utf-8")
    checks = sf.open_release(tmp_path / "r").verify().checks
    found = {check.name for check in checks if check.status == "fails"}
    assert failing == {name for name in found if name.startswith("guarantee")}


def test_a_plan_of_geometric_for_other_steps_or_bounds_is_refused(tmp_path: Path) -> None:
    policy, other = (make_policy(ROLES, "gamma = 4", "geometric", options=f"steps = {w}") for w in (2, 3))
    figures = plan_of("geometric", table(600), "steps = 2").figures
    schema = sf.scan(table(600), policy).schema
    required, asked = policy.requirement, policy.method.asked(policy.requirement, schema)
    assert figures.meets(required, asked)
    assert not figures.meets(required, other.method.asked(required, schema))
    assert not figures.meets(sf.Amplification(5), asked)


def test_steps_are_stated_and_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"method\.steps"):
        make_policy(ROLES, "gamma = 4", "geometric")
    with pytest.raises(PolicyError, match="'age' has 10 values, and so 9 steps, not 10") as caught:
        plan_of("geometric", table(600), "steps = 10")
    assert "steps = 9 or fewer" in caught.value.hint


def test_what_is_published_of_a_record(tmp_path: Path) -> None:
    def shown(options: str) -> list[Any]:
        policy = make_policy(ROLES, "gamma = 4", "ranges", options=options)
        opened = sf.scan(table(600), policy)
        plan = sf.plan(sf.profile(opened), policy.method, policy.requirement).bound_to(opened.hash(), policy.hash())
        release = sf.publish(opened, plan, tmp_path / f"r{len(options)}", key=SecretKey.from_seed(1))
        return list(release.to_arrow()["age"].to_pylist())

    assert {value.count("|") for value in shown("")} == {0, 1, 2}
    assert {value.count("|") for value in shown('mixed_with = "values"')} == {0, 1, 2}
    assert all(value.startswith("card ") for value in shown('form = "card"'))


def plan_of(name: str, rows: pa.Table, options: str = "") -> sf.Plan:
    policy = make_policy(ROLES, "gamma = 4", name, options=options)
    return sf.plan(sf.profile(sf.scan(rows, policy)), policy.method, policy.requirement)


@pytest.mark.parametrize("name", ["ranges", "plateau"])
def test_the_matrix_does_not_depend_on_the_table(name: str) -> None:
    one, other = (plan_of(name, table(rows, seed)).figures.matrix.integers for rows, seed in ((900, 1), (3_000, 2)))
    assert one == other


def test_the_plan_tells_errors_beside_those_of_uniform_perturbation() -> None:
    notes = plan_of("ranges", table()).notes
    assert any(note.startswith("Counts of single values would be better with plain uniform") for note in notes)
    (errors,) = [note for note in notes if note.startswith("For this table the share of records up to a value")]
    assert "by plain uniform perturbation with the same factor" in errors
    assert not any(note.startswith("Counts of single") for note in plan_of("plateau", table(), "alpha = 0.1").notes)
