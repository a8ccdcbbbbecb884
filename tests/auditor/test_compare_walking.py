"""Steps of row-by-row estimates: the fast ones against rows one by one; and what is shared among trials."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sfumato as sf
from sfumato.analyst.tables import Finest, unbiased_table
from sfumato.auditor.codes import combined
from sfumato.auditor.compare import bench
from sfumato.auditor.compare.guessing import Guessed, guess, measured
from sfumato.auditor.compare.walking import Walk, _OnAll, _OnFew
from sfumato.auditor.evidence import Evidence
from sfumato.values.arrays import FloatArray, IntArray
from tests.auditor.test_compare_guessing import people
from tests.conftest import make_policy

ROLES = {"age": "quasi_identifier", "sex": "quasi_identifier", "disease": "sensitive"}


def slow_step(beliefs: FloatArray, of_rows: IntArray, outputs: IntArray, chances: FloatArray) -> FloatArray:
    """b(u | a) <- the mean over the rows of a of b(u | a) C[o, u] / sum_k b(k | a) C[o, k], row by row."""
    new = np.array(beliefs)
    for a in range(len(beliefs)):
        told = [beliefs[a] * chances[o] for o in outputs[of_rows == a]]
        heard = [each / each.sum() for each in told if each.sum() > 0]
        if heard:
            new[a] = np.mean(heard, axis=0)
    return new


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 0.95]))
def test_a_step_is_that_of_rows_one_by_one(seed: int, empty: float) -> None:
    """With chances above 0 for all values, and for few; combinations without rows keep what they believe."""
    rng = np.random.default_rng(seed)
    combinations, width, values = 7, 5, 16
    rows = int(rng.integers(1, 40))
    of_rows, outputs = rng.integers(0, combinations, rows), rng.integers(0, width, rows)
    chances = rng.random((width, values)) * (rng.random((width, values)) >= empty)
    walk = Walk.of(combinations, of_rows, outputs, chances)
    assert isinstance(walk, _OnFew if np.count_nonzero(chances) <= chances.size / 8 else _OnAll)
    beliefs = rng.dirichlet(np.ones(values), combinations)
    np.testing.assert_allclose(walk.step(beliefs), slow_step(beliefs, of_rows, outputs, chances), atol=1e-12)


@given(st.integers(0, 2**32 - 1))
def test_combinations_that_show_the_same_are_walked_once_and_all_get_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    of_rows, outputs = rng.integers(0, 30, 60), rng.integers(0, 3, 60)
    chances, start = rng.random((3, 4)), rng.dirichlet(np.ones(4))
    walk = Walk.of(30, of_rows, outputs, chances)
    assert walk._distinct[0].combinations < 30
    beliefs, stops = np.tile(start, (30, 1)), {}
    for number in range(1, 8):
        beliefs = slow_step(beliefs, of_rows, outputs, chances)
        stops[number] = beliefs
    for found, stop in zip(walk.steps(start, (1, 4, 7)), (1, 4, 7), strict=True):
        np.testing.assert_allclose(found, stops[stop], atol=1e-12)


def test_of_values_that_are_as_likely_the_first_is_guessed_whatever_rounding_does() -> None:
    counts = np.array([[1.0, 3.0, 0.0]])
    for off in (-1e-15, 0, 1e-15):
        assert measured(counts, {"rows": [np.array([[0.4, 0.4 + off, 0.2]])]}).success == 0.25


@given(st.lists(st.integers(1, 60), min_size=1, max_size=4), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_combinations_are_numbered_in_their_order(sizes: list[int], rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    columns = [rng.integers(0, size, rows) for size in sizes]
    number, first = combined(columns, sizes)
    table = np.column_stack(columns)
    order = sorted(set(map(tuple, table.tolist())))
    assert [order[k] for k in number] == [tuple(row) for row in table.tolist()]
    assert [tuple(table[k].tolist()) for k in first] == order


def test_without_a_column_there_is_one_combination() -> None:
    number, first = combined([], [], 3)
    assert (number.tolist(), first.tolist()) == ([0, 0, 0], [0])


# --- what is shared ---------------------------------------------------------------------------------------------------


def asked(method: str = "uniform", requirement: str = "gamma = 6") -> sf.Table:
    return sf.scan(people(300, 5), make_policy(ROLES, requirement, method))


def timeless(found: sf.MethodComparison) -> Any:
    record = json.loads(json.dumps(found.to_dict()))
    for each in record["methods"]:
        for name in ("plan_seconds", "publish_seconds"):
            (each["figures"] or {}).pop(name, None)
    return record["methods"]


def test_a_comparison_is_the_same_where_nothing_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every release planned and measured by itself, and each table estimated with its errors."""
    shared = timeless(sf.compare(asked(), repeat=2, seed=3))
    numbers: Iterator[int] = iter(range(10**6))
    monkeypatch.setattr(bench, "_seen", lambda manifest: str(next(numbers)))
    monkeypatch.setattr(bench, "_deciding", lambda policy: str(next(numbers)))
    original = "sfumato.auditor.compare.original"
    monkeypatch.setattr(f"{original}._is_small", lambda *release: False)
    table = lambda release, names: ((t := release.table(names)).axes, t.value)  # noqa: E731
    monkeypatch.setattr(f"{original}.unbiased_table", table)
    alone = timeless(sf.compare(asked(), repeat=2, seed=3))
    assert [rounded(method) for method in alone] == [rounded(method) for method in shared]


def rounded(record: Any) -> Any:
    """Return a record with its numbers to ten digits: sums of sums are added in another order."""
    if isinstance(record, dict):
        return {name: rounded(value) for name, value in record.items()}
    if isinstance(record, list):
        return [rounded(value) for value in record]
    return float(f"{round(record, 12):.10g}") if isinstance(record, float) else record


def test_releases_that_are_the_same_are_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uniform and fine-grain have one matrix here; anatomy and suppression deal alike, for nothing is too frequent."""
    guessed: list[str] = []

    def told(evidence: Evidence, *more: Any) -> Guessed:
        guessed.append(evidence.release.manifest.method)
        return guess(evidence, *more)

    monkeypatch.setattr(bench, "guess", told)
    found = sf.compare(asked("anatomy", "l = 2"), repeat=2, seed=3)
    figures = {m.method: m.figures for m in found.methods}
    assert guessed.count("anatomy") == 2
    assert "suppression" not in guessed
    assert figures["anatomy"]
    assert figures["suppression"]
    assert figures["anatomy"].mean_error == figures["suppression"].mean_error
    assert "fine-grain" not in guessed
    assert figures["fine-grain"]
    assert figures["uniform"]
    assert figures["fine-grain"].mean_error == figures["uniform"].mean_error


@pytest.mark.parametrize(
    ("method", "requirement"), [("uniform", "gamma = 6"), ("subset", "gamma = 6"), ("anatomy", "l = 2")]
)
def test_values_without_their_errors_are_those_of_a_table(method: str, requirement: str, tmp_path: Any) -> None:
    table = asked(method, requirement)
    made = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    release = sf.publish(table, made, tmp_path / "r", key=sf.SecretKey.from_seed(1))
    for names in (("disease",), ("sex", "disease"), ("age", "sex", "disease"), ("sex",)):
        whole = release.table(names)
        axes, values = unbiased_table(release, names)
        assert axes == whole.axes
        np.testing.assert_array_equal(values, whole.value)
    finest = Finest.of(release, ("age", "sex", "disease"))
    for names in (("disease",), ("sex", "disease"), ("disease", "age"), ("age", "sex", "disease")):
        axes, values = finest.table(names)
        whole = release.table(names)
        assert axes == whole.axes
        np.testing.assert_allclose(values, whole.value, rtol=1e-12, atol=1e-9)
