"""Every plan of one matrix shows its expected error beside uniform's and subset's, and says where it is worse."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods import Method
from sfumato.methods.ordered.design import errors_of, errors_of_sets, windows
from sfumato.methods.perturbed import Choice, PerturbationFigures
from sfumato.methods.plan import Plan
from sfumato.methods.subset.design import Subset, best_subset
from tests.conftest import make_policy

ROWS, GAMMA, SIZE = 4_000, 3, 16
REQUIREMENT = sf.Amplification(GAMMA)
FAMILY: list[Method] = [sf.Uniform(), sf.Subset(), sf.Ranges(), sf.Plateau(), sf.Geometric(steps=2), sf.FineGrain()]


@pytest.fixture(scope="module")
def profile() -> sf.Profile:
    incomes = np.random.default_rng(3).choice(np.arange(SIZE), ROWS, p=np.arange(SIZE, 0, -1) * 2 / SIZE / (SIZE + 1))
    domain = ", ".join(map(str, range(SIZE)))
    policy = make_policy({"income": f"sensitive; domain = [{domain}]"}, "gamma = 3", "uniform")
    return sf.profile(sf.scan(pa.table({"income": incomes}), policy))


def figures_of(plan: Plan) -> PerturbationFigures:
    assert isinstance(plan.figures, PerturbationFigures)
    return plan.figures


@pytest.mark.parametrize("method", FAMILY, ids=lambda method: method.name)
def test_the_errors_of_uniform_and_subset_stand_beside_its_own(method: Method, profile: sf.Profile) -> None:
    plan = sf.plan(profile, method, REQUIREMENT)
    own = figures_of(plan).expected_error
    uniform = figures_of(sf.plan(profile, sf.Uniform(), REQUIREMENT)).expected_error
    subset = figures_of(sf.plan(profile, sf.Subset(), REQUIREMENT)).expected_error
    assert own is not None
    assert subset is not None
    told = " ".join(plan.explain().split())
    assert f"expected squared error of all counts together, per record: {own:,.4g}" in told
    if method.name != "uniform":
        assert f"uniform perturbation {uniform:,.4g}" in told or f"under uniform: {uniform:,.4g}" in told
    if method.name != "subset":
        beside = next(choice.expected_error for choice in figures_of(plan).choices if choice.name == "subset")
        assert beside == pytest.approx(subset, rel=0.005)  # a deck loses a little of what all sets have
        assert f"under subset: {beside:,.4g}" in told


@pytest.mark.parametrize(
    "method", [*FAMILY, sf.Subset(members=8)], ids=lambda m: f"{m.name} {getattr(m, 'members', '')}"
)
def test_a_matrix_that_estimates_worse_than_uniform_says_so(method: Method, profile: sf.Profile) -> None:
    plan = sf.plan(profile, method, REQUIREMENT)
    own = figures_of(plan).expected_error
    uniform = figures_of(sf.plan(profile, sf.Uniform(), REQUIREMENT)).expected_error
    assert own is not None
    assert uniform is not None
    assert any("plain uniform perturbation" in note.lower() and "better" in note for note in plan.notes) == (
        own > uniform * (1 + 1e-9)
    )


def test_sets_far_too_large_are_warned_of() -> None:
    """Twelve values at gamma 10: sets of six have a larger error than single values."""
    values = pa.table({"income": np.random.default_rng(1).integers(0, 12, 2_000)})
    policy = make_policy({"income": "sensitive"}, "gamma = 10", "uniform")
    plan = sf.plan(sf.profile(sf.scan(values, policy)), sf.Subset(members=6), sf.Amplification(10))
    assert plan.notes[0].startswith("Plain uniform perturbation with the strictest requirement would estimate better")


def test_uniform_tells_nothing_of_sets_that_are_no_better() -> None:
    table = pa.table({"sick": ["yes", "no", "no"] * 50})
    plan = sf.plan(sf.profile(sf.scan(table, make_policy({"sick": "sensitive"}))), sf.Uniform(), REQUIREMENT)
    assert figures_of(plan).choices == ()
    assert "under subset" not in plan.explain()


def test_choices_are_kept_by_a_plan_file(profile: sf.Profile) -> None:
    plan = figures_of(sf.plan(profile, sf.Uniform(), REQUIREMENT))
    assert plan.choices == (Choice("subset", best_subset(GAMMA, SIZE).error),)


@pytest.mark.parametrize("members", [1, 2, 3])
def test_errors_of_all_sets_of_a_size_are_those_of_their_matrix(members: int) -> None:
    """Against the matrix of all sets of 6 values, and a table with unequal shares."""
    m, gamma = 6, 3.5
    held = np.array([[x in chosen for x in range(m)] for chosen in combinations(range(m), members)])
    weights = np.where(held, gamma, 1.0)
    shares = np.array([0.3, 0.25, 0.2, 0.1, 0.1, 0.05])
    slow, quick = errors_of(weights / weights[:, :1].sum(), shares), errors_of_sets(Subset(gamma, m, members), shares)
    assert quick.distribution == pytest.approx(slow.distribution)
    assert quick.mean == pytest.approx(slow.mean)


def test_what_analysts_are_off_by_is_what_releases_are_off_by(profile: sf.Profile) -> None:
    """Counts, shares and means of 400 drawn columns, against the expected roots of mean squares."""
    figures = figures_of(sf.plan(profile, sf.Ranges(), REQUIREMENT))
    rng = np.random.default_rng(8)
    chances = figures.matrix.dense()
    information = chances / chances.sum(axis=1)[:, None]
    scores = np.linalg.solve(chances.T @ information, information.T)
    drawn = sum(rng.multinomial(n, column, 400) for n, column in zip(profile.counts, chances.T, strict=True))
    off = drawn @ scores.T - profile.counts
    shares, places = np.cumsum(off, axis=1)[:, :-1] / ROWS, off @ np.arange(SIZE) / (SIZE - 1) / ROWS
    expected = figures.expected
    for found, root in ((off, expected.count), (shares, expected.share), (places, expected.mean)):
        assert np.sqrt((found**2).mean()) == pytest.approx(root, rel=0.12)


def test_a_bound_on_a_set_of_values_counts_for_the_errors_beside(profile: sf.Profile) -> None:
    """Only the three highest values have a bound, as a set: uniform perturbation would keep that for all statements."""
    policy = sf.Policy.parse(
        f'[columns.income]\nrole = "sensitive"\ndomain = {list(range(SIZE))}\n[method]\nname = "ranges"\n'
        '[requirement]\nothers = "unprotected"\n[[requirement.values]]\nvalues = [13, 14, 15]\n'
        "rho1 = 0.2\nrho2 = 0.4\n"
    )
    plan = sf.plan(profile, policy.method, policy.requirement)
    told = next(note for note in plan.notes if "share of records up to a value" in note)
    gamma = 0.4 / 0.2 * 0.8 / 0.6
    shares = profile.counts / profile.rows
    uniform = errors_of(windows(SIZE, 1, gamma).chances, shares)
    assert f"with the same factor {(uniform.distribution / ROWS) ** 0.5:.2%}" in told
