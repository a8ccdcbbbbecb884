"""The guesser on real releases: against loops over records and dense matrices, in every format, on Adult."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scipy.stats import binomtest

from sfumato.analyst.release import Release
from sfumato.auditor.attackers import linking_guesser as linking
from sfumato.auditor.attackers.linking_guesser import Guesses, RepeatedGuesses, attack, guess_once, repeated_guesses
from sfumato.auditor.audit import audit
from sfumato.errors import UsageError
from sfumato.methods.response.guessing import guesses, limit_success
from sfumato.methods.response.joint import Channel, JointTable, forward, untouched
from sfumato.methods.response.problem import pose
from sfumato.methods.response.solver import solve
from sfumato.publisher.policy import Policy
from sfumato.publisher.publish import publish
from sfumato.publisher.table import Table, scan
from sfumato.values.randomness import SecretKey, simulation
from tests.conftest import make_policy
from tests.engines.test_response import AS_PUBLISHED, EMGRW, ROLES, asked, people
from tests.engines.tools import planned
from tests.methods.test_response_plan import CLINIC, clinic

CLINIC_POLICY = make_policy(CLINIC, "l = 3", "randomized-response", "", AS_PUBLISHED)


def opened(rows: Any, policy: Policy, folder: Path, form: str = "parquet", seed: int = 1) -> tuple[Table, Release]:
    table = scan(rows, policy)
    return table, publish(table, planned(table), folder, key=SecretKey.from_seed(seed), format=form)  # type: ignore


def guess_release(table: Table, release: Release) -> Guesses:
    return guess_once(attack(table, release))


def guess_repeatedly(table: Table, release: Release, repetitions: int, seed: int) -> RepeatedGuesses:
    found = attack(table, release)
    limits = found.axes.limits(release.manifest.risk_claim.limit)
    return repeated_guesses(found.axes.table, found.channels, limits, repetitions=repetitions, seed=seed)


# --- the release at hand ----------------------------------------------------------------------------------------------


def slow_right(rows: pa.Table, release: Release, quasi: list[str], sensitive: str) -> int:
    """People guessed right: dense matrices, iterative Bayes from half the release, a loop over people; the most."""
    names = [*quasi, sensitive]
    randomized = {m.domain.names[0]: m for m in release.manifest.mechanism_values}
    values = [
        list(randomized[name].domain.parts[0].values) if name in randomized else sorted(set(rows[name].to_pylist()))
        for name in names
    ]
    cells = list(product(*values))
    published = Counter(zip(*(release.to_arrow()[name].to_pylist() for name in names), strict=True))
    observed = np.array([published[cell] for cell in cells], dtype=float)
    dense = np.ones((1, 1))
    for name, own in zip(names, values, strict=True):
        dense = np.kron(dense, randomized[name].matrix.dense() if name in randomized else np.eye(len(own)))
    x, found = (observed + observed.mean()) / 2, []
    for number in range(1, 101):
        x = x * (dense.T @ np.divide(observed, dense @ x, out=np.zeros_like(x), where=observed > 0))
        if number in (1, 3, 10, 30, 100):
            estimate = dict(zip(cells, x, strict=True))
            right = 0
            for *known, true in zip(*(rows[name].to_pylist() for name in names), strict=True):
                guessed = max(values[-1], key=lambda u, known=known, by=estimate: by[(*known, u)])  # type: ignore[misc]
                right += guessed == true
            found.append(right)
    return max(found)


@pytest.mark.parametrize("seed", range(4))
def test_ad_table_1(seed: int, tmp_path: Path) -> None:
    """The paper's clinic of 100 people, with the parameters for a limit of 1/3."""
    table, release = opened(clinic(), CLINIC_POLICY, tmp_path / "r", seed=seed)
    found = guess_release(table, release)
    assert (found.people, found.right) == (100, slow_right(clinic(), release, ["sex"], "disease"))
    assert found.success == found.right / 100
    assert found.knowing == 0.42  # 30 men with flu and 12 women with cancer
    assert found.constant in (32, 38, 30)  # all are guessed to have cancer, flu or gout


def test_untouched_columns_and_numbers(tmp_path: Path) -> None:
    """Whole years are a quasi-identifier that stays as it is: in the table they are numbers."""
    rows = people().set_column(3, "age", pc.multiply(pc.divide(people()["age"], 30), 30))
    policy = asked("l = 9", f'{AS_PUBLISHED}\nfixed = ["age"]', ROLES | {"age": "quasi_identifier"})
    table, release = opened(rows, policy, tmp_path / "r")
    assert guess_release(table, release).right == slow_right(rows, release, ["sex", "region", "age"], "disease")


def test_every_format_and_missing_values(tmp_path: Path) -> None:
    rows = people()
    gaps = pa.array([None if k % 10 == 0 else v for k, v in enumerate(rows["region"].to_pylist())])
    policy = asked("l = 9", AS_PUBLISHED, ROLES | {"region": "quasi_identifier; missing = 'category'"})
    found = [
        guess_release(*opened(rows.set_column(2, "region", gaps), policy, tmp_path / form, form))
        for form in ("parquet", "csv")
    ]
    assert found[0] == found[1]
    assert found[0].success <= found[0].knowing


def test_another_table_is_refused(tmp_path: Path) -> None:
    _, release = opened(people(), asked(), tmp_path / "r")
    for other in (people().slice(1), people().set_column(1, "sex", pa.array(["F", "X"] * 400))):
        with pytest.raises(UsageError, match="was not made from this table"):
            audit(scan(other, asked()), release)
    other_policy = make_policy({**ROLES, "age": "quasi_identifier; bins = { width = 30 }"})
    with pytest.raises(UsageError, match="not the one that the release was made under"):
        audit(scan(people(), other_policy), release)
    with pytest.raises(UsageError, match="two repetitions at least"):
        repeated_guesses(JointTable.from_array([[1, 2], [3, 4]]), untouched((2, 2)), 0.5, repetitions=1)


# --- repeated releases ------------------------------------------------------------------------------------------------


def test_drawn_tables_are_releases() -> None:
    """Mean and variance of every cell: sum_a n_a P and sum_a n_a P (1 - P); 18 cells, false alarm below 1 in 1,000."""
    table = JointTable.from_array(np.arange(18).reshape(2, 3, 3) % 7)
    channels = (Channel.from_diagonal(2, 0.8), Channel.from_diagonal(3, 0.6), Channel.from_diagonal(3, 0.9))
    rng, number = simulation(5), 4000
    drawn = np.array([linking.drawn(table, channels, rng) for _ in range(number)])
    assert (drawn.sum(axis=(1, 2, 3)) == table.records).all()
    dense = np.ones((1, 1))
    for channel in channels:
        dense = np.kron(dense, channel.matrix.dense())
    n, mean = table.array.ravel(), forward(channels, table.array)
    variance = ((dense * (1 - dense)) @ n).reshape(table.sizes)
    assert np.abs((drawn.mean(axis=0) - mean) / np.sqrt(variance / number)).max() < 4
    assert (drawn.var(axis=0) / variance) == pytest.approx(np.ones(table.sizes), abs=0.12)


def slow_repeated(
    table: JointTable, channels: tuple[Channel, ...], limit: float, repetitions: int, steps: int
) -> tuple[float, float, float]:
    """Success and share above, with a release of records drawn one by one."""
    rng = simulation(9)
    records = [
        (*a, u)
        for a, counts in zip(table.groups, table.counts, strict=True)
        for u, n in enumerate(counts)
        for _ in range(int(n))
    ]
    right = np.zeros((repetitions, len(records)), dtype=bool)
    for r in range(repetitions):
        counts = np.zeros(table.sizes)
        for record in records:
            counts[
                tuple(int(rng.choice(c.size, p=c.matrix.dense()[:, v])) for c, v in zip(channels, record, strict=True))
            ] += 1
        values = next(guesses(table, channels, counts, [steps])).values
        of_group = {tuple(a): int(v) for a, v in zip(table.groups, values, strict=True)}
        right[r] = [of_group[record[:-1]] == record[-1] for record in records]
    often = right.mean(axis=0)
    return float(right.mean()), float((often > limit).mean()), float(often.max())


def test_repeated_releases_against_records_drawn_one_by_one() -> None:
    table = JointTable.from_array([[8, 2, 1], [3, 9, 2], [2, 2, 7]])
    channels = (Channel.from_diagonal(3, 0.8), Channel.from_diagonal(3, 0.85))
    found = repeated_guesses(table, channels, 0.5, repetitions=300, seed=2, level=0.999)
    success, above, worst = slow_repeated(table, channels, 0.5, 150, found.steps)
    low, high = found.success_limits
    assert low - 0.02 < success < high + 0.02  # 150 releases: a standard error below 0.01
    assert found.above_limits[0] <= above <= found.above_limits[1]
    assert found.above_limits[0] <= found.above <= found.above_limits[1]
    assert low < found.success < high
    assert found.worst_limits[0] < worst < found.worst_limits[1]
    assert found.success == pytest.approx((found.chances * table.counts).sum() / table.records)
    assert found.worst == found.chances[table.counts > 0].max() >= found.success
    assert found.success == max(found.at_stops) == found.at_stops[linking.STOPS.index(found.steps)]


def test_after_many_steps_noise_is_guessed() -> None:
    """A value that 60% of every group have, under much noise: the first steps smooth, the last ones fit the noise."""
    table = JointTable.from_array([[6, 2, 2]] * 40)
    channels = (Channel.from_diagonal(40, 0.3), Channel.from_diagonal(3, 0.6))
    found = repeated_guesses(table, channels, 0.5, repetitions=20, seed=1)
    assert found.steps < linking.STOPS[-1]
    assert found.success_limits[0] > found.at_stops[-1]


def test_the_stop_with_the_most_successes_is_taken() -> None:
    """One release, all stops: against a guess at each."""
    table = JointTable.from_array([[8, 2, 1], [3, 9, 2], [2, 2, 7]])
    channels = (Channel.from_diagonal(3, 0.6), Channel.from_diagonal(3, 0.7))
    for seed in range(20):
        released = linking.drawn(table, channels, simulation(seed))
        each = {steps: next(guesses(table, channels, released, [steps])).success for steps in linking.STOPS}
        together = [found.success for found in guesses(table, channels, released, linking.STOPS)]
        assert together == list(each.values())
        once = linking.guess_once(linking.Attacked(SimpleNamespace(table=table), channels, released))  # type: ignore
        assert once.success == max(each.values()) == each[once.steps]
        assert once.steps == min(steps for steps, success in each.items() if success == once.success)


def test_without_noise_all_is_exact() -> None:
    """The release is the table: majorities are guessed right always, all others never."""
    table = JointTable.from_array([[5, 3, 2], [1, 1, 6]])
    found = repeated_guesses(table, untouched(table.sizes), 0.5, repetitions=40, seed=1)
    always = [[1, 0, 0], [0, 0, 1]]
    success = limit_success(table), (11 / 18, 11 / 18)
    low = (0.05 / 6 / 5 / 2) ** (1 / 40)  # 40 of 40; six cells and five stops share the error
    taken = 1, (11 / 18,) * 5
    expected = RepeatedGuesses(
        18, 40, 0.95, *taken, *success, *success, 1.0, (pytest.approx(low), 1.0), np.array(always)
    )
    assert found == expected
    assert found.chances.tolist() == always
    assert repeated_guesses(table, untouched(table.sizes), 1.0, repetitions=40).above == 0  # 1: no limit


def test_few_repetitions_prove_little() -> None:
    table = JointTable.from_array([[5, 3, 2], [1, 1, 6]])
    assert repeated_guesses(table, untouched(table.sizes), 0.5, repetitions=2).above_limits == (0.0, 1.0)


def test_limits_of_binomials() -> None:
    hits = np.arange(21)
    low, high = linking._binomial_limits(hits, 20, 0.01)
    for k in hits:
        expected = binomtest(int(k), 20).proportion_ci(0.99, method="exact")
        assert (low[k], high[k]) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_groups_are_held_to_their_own_limits(tmp_path: Path) -> None:
    """Nobody is guessed right more often than always: with a limit of 1 for women, only men can be above."""
    group = '[[requirement.groups]]\nwhere = { sex = "F" }\nrisk_limit = 1'
    policy = make_policy(CLINIC, f"l = 3\n{group}", "randomized-response", "", AS_PUBLISHED)
    table, release = opened(clinic(), policy, tmp_path / "r")
    found = guess_repeatedly(table, release, repetitions=20, seed=3)
    assert found.above <= 0.72
    assert (found.people, found.repetitions) == (100, 20)


# --- real data --------------------------------------------------------------------------------------------------------


def test_adult_at_the_limit_of_one_half(real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """AD's risk is kept at .50; the guesser is right about .74, of two thirds of all people mostly."""
    rows = pq.read_table(real_data("adult_complete_45222.parquet"))
    rows = rows.filter(pc.equal(rows["split"], "train")).select(list(EMGRW))
    table, release = opened(rows, asked("l = 2", AS_PUBLISHED, EMGRW), tmp_path / "r")
    found = guess_release(table, release)
    assert found.people == 30_162
    assert 0.735 < found.success < found.knowing < 0.742
    assert found.constant == 22_286  # "Private" for everybody does nearly as well
    assert found.right > 0.999 * found.constant
    again = guess_repeatedly(table, release, repetitions=20, seed=4)
    assert again.success_limits[1] - again.success_limits[0] < 0.003
    assert again.success == pytest.approx(found.success, abs=0.01)
    assert 2 / 3 < again.above_limits[0] <= again.above <= again.above_limits[1] < 0.8


PAGE = Path(__file__).parents[2] / "docs" / "methods" / "proofs" / "randomized-response.md"


def on_adult(real_data: Callable[[str], Path], l: int, repetitions: int) -> RepeatedGuesses:  # noqa: E741
    """As `benchmarks/guessing.py` does."""
    names = [*EMGRW]
    rows = pq.read_table(real_data("adult_complete_45222.parquet"), columns=[*names, "split"])
    rows = rows.filter(pc.equal(rows["split"], "train"))
    pairs = [np.unique(rows[name].cast("string").to_numpy(), return_inverse=True) for name in names]
    cells = np.column_stack([codes for _, codes in pairs])
    table = JointTable.from_cells([len(values) for values, _ in pairs], cells, np.ones(len(cells)))
    channels = solve(pose(table, Fraction(1, l), risk="reconstruction", scope="both")).channels
    return repeated_guesses(table, channels, 1 / l, repetitions=repetitions, seed=1)


def printed(l: int) -> list[float]:  # noqa: E741
    """The success at each stop, in percent, as the page has it."""
    text = PAGE.read_text(encoding="utf-8")
    assert f"| steps | {' | '.join(map(str, linking.STOPS))} |" in text
    found = re.search(rf"^\| l = {l} \|([ \d.|]+)\|$", text, re.MULTILINE)
    assert found is not None
    return [float(number) for number in found[1].split("|")]


FOUR_ERRORS = {2: (0.03, 0.07, 0.13, 0.18, 0.18), 5: (0.02, 0.06, 0.14, 0.37, 0.85)}
"""Standard errors, times four, of the mean success of eight releases at each stop, in points: from 12 others."""


@pytest.mark.parametrize("l", FOUR_ERRORS)
def test_the_page_s_figures(real_data: Callable[[str], Path], l: int) -> None:  # noqa: E741
    """From eight releases; the long way is below."""
    found = on_adult(real_data, l, 8)
    distance = np.abs(100 * np.array(found.at_stops) - printed(l))
    assert (distance <= FOUR_ERRORS[l]).all()
    assert found.steps == 1


@pytest.mark.slow
@pytest.mark.parametrize("l", [2, 5])
def test_the_page_s_figures_to_the_digit(real_data: Callable[[str], Path], l: int) -> None:  # noqa: E741
    found = on_adult(real_data, l, 100)
    assert [round(100 * success, 2) for success in found.at_stops] == printed(l)
    if l == 2:
        low, high = found.success_limits
        text = " ".join(PAGE.read_text(encoding="utf-8").split())
        assert f"right about {found.success:.2%} of the people (between {low:.2%} and {high:.2%} with" in text
        assert f"and {found.above:.1%} of them are guessed right in more than half of the releases" in text
