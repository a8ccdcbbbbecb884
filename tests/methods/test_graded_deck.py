"""Decks for graded subsets: exact bounds, what they lose against all sets, classes that are joined, and plans."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import chi2

import sfumato as sf
from sfumato.claims.claim import BOTH
from sfumato.claims.odds import violations
from sfumato.errors import Infeasible, PlanMismatch, PolicyError
from sfumato.methods.staircase import effective
from sfumato.methods.subset.graded import graded_subsets
from sfumato.methods.subset.graded_deck import GradedDeck, best_classes, best_rings, make_graded_deck
from sfumato.publisher.policy import Policy
from sfumato.values.matrix.dense import DenseMatrix
from sfumato.values.matrix.graded import GradedMatrix
from sfumato.values.mechanism import Bound
from tests.conftest import make_policy, slow


def bounds(*classes: tuple[int, float | Fraction | None]) -> tuple[Bound, ...]:
    """So many values with each gamma; None: nothing is required."""
    return tuple(Bound(None if g is None else Fraction(g)) for count, g in classes for _ in range(count))


def made(*classes: tuple[int, float | Fraction | None]) -> GradedDeck:
    found = make_graded_deck(bounds(*classes))
    assert found is not None
    return found


# --- what decks cost --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("classes", "optimum"),
    [
        (((5, 2), (35, 4)), 163.03),
        (((1, 2), (39, 4)), 99.95),
        (((5, 4), (35, 16)), 33.27),
        slow(((30, 2), (270, 4)), 1295.0),
    ],
)
def test_the_table_of_graded_subsets_by_cards(classes: tuple[tuple[int, float], ...], optimum: float) -> None:
    """MATRICES.md 5.2: cards cost at most half a percent more than all sets do."""
    found = made(*classes)
    assert optimum * 0.9999 < found.error < optimum * 1.005
    assert -1e-9 < found.loss < 0.005
    x = np.full(found.matrix.size, 1 / found.matrix.size)
    assert found.error == pytest.approx((found.matrix.inverse_squared_apply(found.matrix.apply(x)) - x).sum())


@pytest.mark.parametrize(
    "classes",
    [
        ((97, 2), (203, 4)),  # 19,691 turns without empty places
        ((11, 2), (13, 3), (16, 4)),
        slow(((4999, 2), (10001, 4))),
        slow(((3001, 2), (4999, 3), (7000, 4))),
        slow(((7000, 4), (8000, 16))),
        slow(((100, 2), (14883, 4))),
    ],
)
def test_decks_lose_less_than_one_percent(classes: tuple[tuple[int, float], ...]) -> None:
    found = made(*classes)
    assert -0.001 < found.loss < 0.01
    assert next(violations(found.matrix, bounds(*classes), BOTH), None) is None
    rng = np.random.default_rng(1)
    x = rng.random(found.matrix.size)
    assert np.allclose(found.matrix.solve(found.matrix.apply(x)), x)


def test_a_deck_is_always_the_same_one() -> None:
    one = made((3, 2), (7, 3)).matrix.integers
    make_graded_deck.cache_clear()
    assert made((3, 2), (7, 3)).matrix.integers == one


def test_one_gamma_in_force_has_no_classes() -> None:
    assert make_graded_deck(bounds((5, 3))) is None
    assert make_graded_deck(bounds((4, 3), (1, 9))) is None  # a single largest gamma is worth the second largest
    assert make_graded_deck(bounds((4, 3), (2, None))) is not None  # but two are worth 9


@pytest.mark.parametrize("m", [2, 3, 4])
def test_few_values_of_any_gammas_have_a_deck_that_keeps_them_or_none(m: int) -> None:
    """A class can be on every card: no card is left then for words beyond those of all cards."""
    steps = (Fraction(11, 10), Fraction(3, 2), Fraction(2), Fraction(4), Fraction(30), None)
    for gammas in combinations_with_replacement(steps, m):
        bounds = tuple(map(Bound, gammas))
        if gammas[0] is None or (deck := make_graded_deck(bounds)) is None:
            continue
        matrix = deck.matrix
        assert next(violations(matrix, bounds, BOTH), None) is None, gammas
        for x in range(m):
            assert sum(matrix.weight(y, x) for y in range(matrix.outputs)) == 2**64, gammas


def test_rings_get_empty_places_only_where_turns_are_too_many() -> None:
    split = np.array([[0.3, 0.3], [0.0, 0.4]])
    assert best_rings([5, 35], split) == (5, 35)
    assert best_rings([7, 33], split) == (7, 33)  # 231 turns; there is no room for empty places
    large = best_rings([4999, 10001], split)
    assert all(ring >= size for ring, size in zip(large, (4999, 10001), strict=True))
    assert math.lcm(*large) <= 15_000
    with pytest.raises(Infeasible, match="no graded deck"):  # few members leave no room, and turns are ten thousands
        best_rings([10_007, 10_009], np.array([[2 / 10_007, 2 / 10_009]]))


@pytest.mark.parametrize(("gamma", "others"), [(3000, 7), (10**4, 7), (10**9, 2)])
def test_a_card_that_tells_nothing_has_the_weight_of_its_row(gamma: int, others: int) -> None:
    """Beside unprotected values, a lax requirement lets an orbit without members remain, whose cards get a name."""
    found = made((1, gamma), (others, None))
    assert found.error == pytest.approx(found.best, rel=1e-6)


# --- exact bounds -----------------------------------------------------------------------------------------------------


def _random_bounds(rng: np.random.Generator) -> tuple[Bound, ...]:
    number = int(rng.integers(2, 4))
    gammas = sorted(1 + Fraction(int(rng.integers(1, 300)), int(rng.integers(20, 200))) for _ in range(number))
    own: list[Bound] = [Bound(g) for g in gammas for _ in range(int(rng.integers(1, 5)))]
    if rng.random() < 0.2:
        own += [Bound(None)] * 2
    return tuple(own[place] for place in rng.permutation(len(own)))


@pytest.mark.parametrize("seed", [*range(40), *(slow(seed) for seed in range(40, 200))])
def test_every_bound_holds_on_the_integers(seed: int) -> None:
    """P[y, i] <= min(g_i, g_k) P[y, k] for all pairs, by the integers of all columns and in fractions."""
    asked = _random_bounds(np.random.default_rng(seed))
    found = make_graded_deck(asked)
    if found is None:
        assert (
            np.unique(effective(np.array([math.inf if b.gamma is None else float(b.gamma) for b in asked]))).size == 1
        )
        return
    matrix = found.matrix
    columns = [[matrix.weight(y, x) for y in range(matrix.outputs)] for x in range(matrix.size)]
    assert all(sum(column) == 2**64 for column in columns)
    tightest = Fraction(0)
    for i, own in enumerate(columns):
        for k, other in enumerate(columns):
            limits = [b.gamma for b in (asked[i], asked[k]) if b.gamma is not None]
            if i == k or not limits:
                continue
            largest = max(Fraction(above, below) for above, below in zip(own, other, strict=True))
            assert largest <= min(limits)
            tightest = max(tightest, largest / min(limits))
    assert tightest > 1 - Fraction(1, 10**9)
    strictest = min(b.gamma for b in asked if b.gamma is not None)
    assert matrix.largest_ratio is not None
    assert matrix.largest_ratio <= strictest**2


def test_draws_by_chi_square() -> None:
    """Of 400,000 records; a deck drawn with the lax gamma for strict values would be found."""
    matrix = made((2, 2), (4, 4)).matrix
    rng = np.random.default_rng(3)
    for x, n in ((int(np.flatnonzero(matrix.classes == a)[0]), 400_000) for a in (0, 1)):
        drawn = matrix.sample(np.full(n, x, dtype=np.int32), rng.integers(0, 2**64, n, dtype=np.uint64, endpoint=False))
        expected = n * matrix.dense()[:, x]
        counted = np.bincount(drawn, minlength=matrix.outputs)
        assert chi2.sf(((counted - expected) ** 2 / expected).sum(), matrix.outputs - 1) > 1e-6
        other = matrix.sample(
            np.full(n, 5 - x, dtype=np.int32), rng.integers(0, 2**64, n, dtype=np.uint64, endpoint=False)
        )
        swapped = np.bincount(other, minlength=matrix.outputs)
        assert chi2.sf(((swapped - expected) ** 2 / expected).sum(), matrix.outputs - 1) < 1e-6


# --- classes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_classes_are_joined_down_to_the_least_error(seed: int) -> None:
    """All ways to cut five gammas into three classes; the search finds one of the best, within half a percent."""
    rng = np.random.default_rng(seed)
    levels = np.sort(1.5 + rng.random(5) * 3)
    gammas = effective(np.repeat(levels, rng.integers(1, 4, 5)))
    joined = best_classes(gammas)
    assert (joined <= gammas).all()
    assert np.unique(joined).size <= 3
    distinct, counts = np.unique(gammas, return_counts=True)
    errors = []
    for one in range(1, distinct.size):
        for two in range(one + 1, distinct.size):
            sizes = [int(counts[a:b].sum()) for a, b in ((0, one), (one, two), (two, distinct.size))]
            errors.append(graded_subsets(sizes, distinct[[0, one, two]].tolist()).error)
    values, sizes_found = np.unique(joined, return_counts=True)
    own = graded_subsets(sizes_found.tolist(), values.tolist()).error
    assert own <= min(errors, default=own) * 1.005 or distinct.size <= 3


def test_three_classes_stay_as_they_are() -> None:
    gammas = np.array([2.0, 3.0, 4.0, 4.0])
    assert best_classes(gammas).tolist() == gammas.tolist()


# --- the method -------------------------------------------------------------------------------------------------------

VALUES = "abcdefghijklmn"
ROLES = {"disease": f"sensitive; domain = {list(VALUES)}"}
OWN = "rho1 = 0.2\nrho2 = 0.5\n" + "".join(
    f'[[requirement.values]]\nvalue = "{value}"\nrho1 = 0.2\nrho2 = "1/3"\n' for value in "bc"
)


def table(n: int = 400) -> pa.Table:
    rng = np.random.default_rng(n)
    shares = 0.8 ** np.arange(len(VALUES))
    return pa.table({"disease": rng.choice(list(VALUES), n, p=shares / shares.sum()).tolist()})


def policy(options: str = "graded = true", requirement: str = OWN) -> Policy:
    return make_policy(ROLES, requirement, "subset", "", options)


def planned(own: Policy) -> sf.Plan:
    return sf.plan(sf.profile(sf.scan(table(), own)), own.method, own.requirement)


def test_the_plan_tells_classes_loss_and_other_choices(tmp_path: Path) -> None:
    plan = planned(policy())
    text = plan.explain()
    assert "Holds for single values, upward and downward." in text
    assert "Classes of values: 2 with gamma 2 (" in text
    assert "12 with gamma 4 (" in text
    assert "At equal counts their error is 0." in text
    assert "as its requirement and those of its rivals allow" in text
    assert "in its set" in text
    assert "their odds change by at most the factor 4" in text
    errors = {choice.name: choice.expected_error for choice in plan.figures.choices}
    assert list(errors) == ["subset", "subset, graded = true", 'fine-grain, objective = "error"']
    assert errors["subset, graded = true"] == pytest.approx(plan.figures.expected_error, rel=0.01)
    assert errors["subset, graded = true"] < 0.7 * errors["subset"]
    (tmp_path / "plan.json").write_text(plan.to_json())
    again = sf.load_plan(tmp_path / "plan.json")
    assert again.figures.matrix.integers == plan.figures.matrix.integers
    assert again.explain() == text


def test_other_plans_tell_of_graded_sets() -> None:
    """Beside plain sets and fine-grain noise, where requirements differ."""
    for other, options in (("subset", ""), ("fine-grain", "")):
        plan = planned(make_policy(ROLES, OWN, other, "", options))
        assert "subset, graded = true" in {choice.name for choice in plan.figures.choices}
    plain = planned(make_policy(ROLES, "gamma = 4", "subset"))
    assert plain.figures.choices == ()


def test_one_requirement_for_all_values_is_plain_subset() -> None:
    graded = planned(policy(requirement="gamma = 4"))
    plain = planned(policy("", "gamma = 4"))
    assert graded.figures.matrix.integers == plain.figures.matrix.integers
    assert graded.guarantee == plain.guarantee
    assert "one gamma is in force for all values" in graded.explain()


def test_gammas_that_hardly_differ_promise_single_values_only() -> None:
    """Other statements move by the larger one: to promise 2 of them would be false, by 1 in 20 billion."""
    entries = f'value = "{VALUES[0]}"\ngamma = 2'
    plan = planned(policy(requirement=f"gamma = 2.0000000001\n[[requirement.values]]\n{entries}"))
    assert plan.figures.matrix.largest_ratio > 2
    assert plan.guarantee.scope == "single values"


def test_sets_that_are_written_differ() -> None:
    sets, cards = (planned(policy(f'graded = true\nform = "{form}"')) for form in ("set", "card"))
    assert isinstance(cards.figures.matrix, GradedMatrix)
    assert isinstance(sets.figures.matrix, GradedMatrix | DenseMatrix)
    labels = sets.figures.mechanism.published.labels
    assert len(set(labels)) == len(labels)


def test_members_do_not_go_with_graded() -> None:
    with pytest.raises(PolicyError, match="leave members or graded out"):
        policy("graded = true\nmembers = 3")


def test_a_changed_plan_is_refused() -> None:
    """A strict value changes places with a lax one: its bound is broken."""
    plan = planned(policy('graded = true\nform = "card"'))
    raw = json.loads(plan.to_json())
    written = raw["sub_tables"][0]["graded"]
    written["classes"][:2] = written["classes"][1::-1]
    changed = type(plan.figures).from_dict(raw)
    with pytest.raises(PlanMismatch, match="does not keep its own bound for 'b'"):
        changed.require(plan)


def test_a_plan_that_nobody_signed_is_looked_at_too(tmp_path: Path) -> None:
    """Publishing refuses integers that break a bound, or a promise about any statement that they do not keep."""
    own = policy('graded = true\nform = "card"')
    plan, scanned = planned(own), sf.scan(table(), own)
    raw = json.loads(plan.to_json())
    raw["sub_tables"][0]["graded"]["classes"][:2] = raw["sub_tables"][0]["graded"]["classes"][1::-1]
    changed = replace(plan, figures=type(plan.figures).from_dict(raw))
    with pytest.raises(PlanMismatch, match="does not keep its own bound for 'b'"):
        sf.publish(scanned, changed, tmp_path / "bounds")
    claim = replace(plan.figures.claim, scope="any predicate")
    with pytest.raises(PlanMismatch, match="statements that join several values"):
        sf.publish(scanned, replace(plan, figures=replace(plan.figures, claim=claim)), tmp_path / "scope")
    assert not list(tmp_path.iterdir())
