"""The fine-grain solvers on worked examples: each shape of the solution, each edge, each error."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from sfumato.methods.fine_grain_solver import own_cap, solve_both, solve_upward

FloatArray = npt.NDArray[np.float64]
Solver = Callable[[npt.ArrayLike, npt.ArrayLike, float], FloatArray]

EXAMPLE_GAMMA = np.array([3 / 2, 3, 19 / 2, 18])  # SARS, HIV, H1N1, cancer: FG Example 2
EXAMPLE_FREQUENCY = np.full(4, 1 / 4)

solvers = pytest.mark.parametrize("solve", [solve_upward, solve_both])


def record_utility(p: FloatArray, frequency: FloatArray) -> float:
    """FG Definition 3."""
    return float(np.sum(frequency * (p + (1 - p) / p.size)))


def close(expected: list[float]) -> object:
    return pytest.approx(expected, rel=1e-14, abs=1e-16)


# --- the paper -------------------------------------------------------------------------------------------


def test_example_2_upward() -> None:
    p = solve_upward(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY)
    assert p.tolist() == close([0, 1 / 3, 1 / 3, 1 / 3])
    assert record_utility(p, EXAMPLE_FREQUENCY) == pytest.approx(0.4375, rel=1e-14)


def test_example_2_in_both_directions() -> None:
    p = solve_both(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY)
    assert p.tolist() == close([0, 1 / 6, 1 / 6, 1 / 6])
    assert record_utility(p, EXAMPLE_FREQUENCY) == pytest.approx(11 / 32, rel=1e-14)


def test_example_2_uniform() -> None:
    p = np.full(4, own_cap(EXAMPLE_GAMMA, 4).min())
    assert p[0] == pytest.approx(1 / 9, rel=1e-14)
    assert record_utility(p, EXAMPLE_FREQUENCY) == pytest.approx(1 / 3, rel=1e-14)


# --- the shapes of the solution, worked by hand ----------------------------------------------------------


@pytest.mark.parametrize(
    ("gamma", "frequency", "expected"),
    [
        # The common level rises until a(2, 1/2) = 0; by then a(3, 1/2) = 1/4.
        pytest.param([2, 3, 9], [1, 1, 8], [0, 0.25, 0.5], id="cap-of-the-least-gamma"),
        # Slope .6 - .4*4/2 < 0 after e_1 = 1/2, and equal frequencies leave no room for an exception.
        pytest.param([4, 4, 9], [2, 2, 6], [0.5, 0.5, 0.5], id="own-cap"),
        # The sum still rises after every finite own cap.
        pytest.param([2, np.inf, np.inf], [1, 8, 1], [0, 0.5, 0.5], id="no-requirement-takes-all"),
        # One value alone: b(2, 1/2) = 0.
        pytest.param([2, 5, 5], [1, 0, 0], [0.5, 0, 0], id="exception-to-its-end"),
        # g_k > m-1: the other value leaves b(3, .) for a(9, .) at u = 11/13.
        pytest.param([3, 9], [3, 1], [11 / 13, 5 / 13], id="exception-to-crossing-above"),
        # g_k < m-1: the second value leaves a(1.8, .) for b(2, .) at u = 7/27.
        pytest.param([2, 1.8, 6, 6], [10, 8, 1, 1], [7 / 27, *[1 / 9] * 3], id="exception-to-crossing-below"),
        # No other value has a requirement: k keeps everything.
        pytest.param([6, np.inf, np.inf], [9, 1, 0], [1, 0.5, 0.5], id="exception-keeps-all"),
    ],
)
def test_upward_shapes(gamma: list[float], frequency: list[float], expected: list[float]) -> None:
    assert solve_upward(np.array(gamma), np.array(frequency)).tolist() == close(expected)


@pytest.mark.parametrize(
    ("gamma", "frequency", "expected"),
    [
        # b(1.5, 1/4) = 0, long before a(1.5, 1/3) = 0.
        pytest.param([1.5, 3, 9], [1, 1, 8], [0, 0.25, 0.25], id="cap-of-the-least-gamma"),
        pytest.param([3, 9], [3, 2], [0.5, 0.5], id="own-cap"),
        pytest.param([1.5, np.inf, np.inf], [1, 8, 1], [0, 0.25, 0.25], id="no-requirement-takes-all"),
        pytest.param([3, 9], [9, 1], [2 / 3, 0], id="exception"),
        # g_k = 4 in the middle: its own cap is 1/2, the cap 5/9 that of g = 2.25; a(4, 5/9) = 7/18.
        pytest.param([2.25, 4, 9], [0, 9, 1], [0, 5 / 9, 7 / 18], id="exception-in-the-middle"),
    ],
)
def test_both_shapes(gamma: list[float], frequency: list[float], expected: list[float]) -> None:
    assert solve_both(np.array(gamma), np.array(frequency)).tolist() == close(expected)


# --- edges -----------------------------------------------------------------------------------------------


@solvers
def test_one_value_keeps_everything(solve: Solver) -> None:
    assert solve([1.5], [1], 0.9).tolist() == [1]


@solvers
def test_no_requirement_at_all(solve: Solver) -> None:
    assert solve([np.inf] * 3, [1, 0, 2], 1.0).tolist() == [1, 1, 1]


@solvers
@pytest.mark.parametrize("gamma", [1 + 1e-9, 1.5, 2, 3, 1e3, 1e15])
@pytest.mark.parametrize("m", [2, 3, 50])
def test_equal_values_get_the_uniform_operator(solve: Solver, gamma: float, m: int) -> None:
    expected = (gamma - 1) / (m - 1 + gamma)  # FG Eq. (2)
    assert solve(np.full(m, gamma), np.ones(m), 0.0).tolist() == pytest.approx([expected] * m, rel=1e-13)


@solvers
def test_no_records_give_the_uniform_operator(solve: Solver) -> None:
    assert solve(EXAMPLE_GAMMA, np.zeros(4), 0.0).tolist() == close([1 / 9] * 4)


@solvers
def test_among_equally_good_solutions_the_most_even(solve: Solver) -> None:
    # m = 2, gamma = 2, and f_1 = f_2 * gamma: every u in [1/3, 1/2] has the same utility.
    assert solve([2, 8], [1, 2], 0.0).tolist() == close([1 / 3, 1 / 3])


@solvers
def test_a_value_without_records_keeps_what_it_can(solve: Solver) -> None:
    assert solve([4, 4, 9], [1, 1, 0], 0.0).tolist() == close([0.5, 0.5, 0.5])


@solvers
def test_frequencies_need_not_sum_to_one(solve: Solver) -> None:
    frequency = np.array([5, 1, 3, 2])
    expected = solve(EXAMPLE_GAMMA, frequency / frequency.sum(), 0.0)
    assert solve(EXAMPLE_GAMMA, frequency * 1000, 0.0).tolist() == close(expected.tolist())


@solvers
def test_the_order_of_the_values_does_not_matter(solve: Solver) -> None:
    rng = np.random.default_rng(5)
    gamma, frequency = 1 + rng.exponential(4, 30), rng.exponential(1, 30)
    gamma[:5] = np.inf
    shuffled = rng.permutation(30)
    expected = solve(gamma, frequency, 0.0)[shuffled]
    assert solve(gamma[shuffled], frequency[shuffled], 0.0).tolist() == close(expected.tolist())


@solvers
@pytest.mark.parametrize("gamma", [[1e15, 1e15], [3e14, 1e15, 7e15], [1e13, 1e15, np.inf]])
def test_a_very_large_gamma_is_never_exceeded(solve: Solver, gamma: list[float]) -> None:
    # 1-p has only one or two digits here: p rounded to nearest would exceed gamma by up to 5%.
    p = solve(gamma, np.ones(len(gamma)), 0.0)
    keeps = (p + (1 - p) / p.size)[:, None]
    ratio = keeps / ((1 - p) / p.size)[None, :]
    np.fill_diagonal(ratio, 1)
    assert (ratio <= np.array(gamma)[:, None] * (1 + 1e-12)).all()
    assert (1 - p < 10 * p.size / min(gamma) + 1e-15).all()


@solvers
def test_a_gamma_near_one_keeps_its_digits(solve: Solver) -> None:
    unit = 2.0**-30  # exact in 1 + unit
    p = solve(1 + unit * np.array([1, 2, 4]), [0, 1, 1], 0.0)
    # To first order in h = gamma - 1 the constraints are 2 p_i + p_j <= h_i, or min(h_i, h_j).
    expected = [0, 1 / 2, 1] if solve is solve_upward else [0, 1 / 2, 1 / 2]
    assert (p / unit).tolist() == pytest.approx(expected, rel=1e-8, abs=1e-12)


def test_lines_that_are_almost_parallel() -> None:
    # a(g_i, .) and b(g_k, .) cross just above the own cap 28/58, but rounding puts it at 28/58 - 4e-6.
    g_k = 29 - 8.565e-11
    gamma = np.array([g_k, np.nextafter(g_k, 0), *[100.0] * 28])
    p = solve_upward(gamma, np.array([1.0, 1.0, *[0.0] * 28]))
    most_beside = np.where(p == p.max(), np.sort(p)[-2], p.max())
    assert ((1 + 29 * p) / (1 - most_beside) <= gamma * (1 + 1e-12)).all()
    assert p[0] + p[1] == pytest.approx(2 * 28 / 58, rel=1e-10)


# --- floors ----------------------------------------------------------------------------------------------


@solvers
@pytest.mark.parametrize("share", [0.25, 0.5, 0.9])
def test_a_floor_is_kept_and_costs_utility(solve: Solver, share: float) -> None:
    floor = share / 9
    p = solve(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY, floor)
    assert p.min() == floor
    assert p.sum() < solve(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY, 0.0).sum()


def test_floors_by_hand() -> None:
    # upward u = 1 - (1 + 3/18)/1.5 = 2/9; both u = (1.5 (1 - 1/18) - 1)/3 = 5/36.
    assert solve_upward(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY, 1 / 18).tolist() == close([1 / 18] + [2 / 9] * 3)
    assert solve_both(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY, 1 / 18).tolist() == close([1 / 18] + [5 / 36] * 3)


def test_floor_of_an_exception_by_hand() -> None:
    # b(2, u) = 1/10 at u = (2 * 9/10 - 1)/2.
    assert solve_upward(np.array([2, 5, 5]), np.array([1, 0, 0]), 0.1).tolist() == close([0.4, 0.1, 0.1])


@solvers
@pytest.mark.parametrize("gamma", [[1.5, 3, 9.5, 18], [1 + 1e-9, 2, 5], [1e15, 1e15], [7, np.inf]])
def test_the_largest_floor_leaves_only_the_uniform_operator(solve: Solver, gamma: list[float]) -> None:
    floor = float(own_cap(np.array(gamma), len(gamma)).min())
    p = solve(gamma, np.arange(1, len(gamma) + 1), floor)
    assert p.tolist() == pytest.approx([floor] * len(gamma), rel=1e-14)


@solvers
def test_a_floor_above_every_own_cap_is_refused_with_the_figure(solve: Solver) -> None:
    with pytest.raises(ValueError, match=r"floor 0\.2 exceeds 0\.111111"):
        solve(EXAMPLE_GAMMA, EXAMPLE_FREQUENCY, 0.2)


# --- own caps and errors ---------------------------------------------------------------------------------


def test_own_caps() -> None:
    assert own_cap(np.array([1.5, 3, np.inf]), 4).tolist() == close([1 / 9, 1 / 3, 1])
    assert own_cap(np.array([1.5]), 1).tolist() == [1]


@solvers
@pytest.mark.parametrize(
    ("gamma", "frequency", "floor", "message"),
    [
        ([1, 2], [1, 1], 0.0, "above 1"),
        ([0.5, 2], [1, 1], 0.0, "above 1"),
        ([np.nan, 2], [1, 1], 0.0, "above 1"),
        ([3, 2], [-1, 1], 0.0, "at least 0"),
        ([3, 2], [np.inf, 1], 0.0, "finite"),
        ([3, 2], [1], 0.0, "equally long"),
        ([], [], 0.0, "equally long"),
        ([3, 2], [1, 1], -0.1, "between 0 and 1"),
        ([np.inf, np.inf], [1, 1], 1.1, "between 0 and 1"),
        ([3, 2], [1, 1], np.nan, "between 0 and 1"),
    ],
)
def test_errors(solve: Solver, gamma: list[float], frequency: list[float], floor: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve(gamma, frequency, floor)
