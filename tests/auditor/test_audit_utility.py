"""What analysts keep, in an audit: against `nearness`, scipy and loops over rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import entropy
from scipy.stats.contingency import association

import sfumato as sf
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.utility.distances import nearness
from sfumato.auditor.utility.measuring import cramers_v, measure, uncertainty
from tests.auditor.test_audit import METHODS, rows_for
from tests.conftest import make_policy
from tests.engines.tools import patients, released


def measured(method: str, folder: Path, seed: int = 1) -> tuple[Evidence, sf.Release]:
    policy = METHODS[method]
    release = released(rows_for(policy), policy, folder=folder)
    return Evidence(sf.scan(rows_for(policy), policy), release, seed=seed), release


@pytest.mark.parametrize("method", ["uniform", "small-domain", "randomized-response"])
def test_tables_are_as_near_as_nearness_says(method: str, tmp_path: Path) -> None:
    evidence, release = measured(method, tmp_path / "r")
    found = {table.columns: table for table in measure(evidence).tables}
    assert list(found) == [("disease",), ("age", "disease"), ("sex", "disease")]
    for columns, table in found.items():
        expected = nearness(release, rows_for(METHODS[method]), columns)
        assert table.total_variation == pytest.approx(expected.distances.total_variation)
        assert table.kl == pytest.approx(expected.distances.kl)
        assert table.naive_total_variation == pytest.approx(expected.naive.total_variation)
        assert table.median_error == pytest.approx(expected.base.median, nan_ok=True)
        assert table.covered == pytest.approx(expected.covered, nan_ok=True)


def test_record_and_aggregate_utility(tmp_path: Path) -> None:
    evidence, release = measured("fine-grain", tmp_path / "r")
    found = measure(evidence)
    matrix, true = release.manifest.mechanism_values[0].matrix, Counter(patients()["disease"].to_pylist())
    counts = np.array([true[d] for d in ("asthma", "flu", "gout", "mumps")])
    assert found.record_utility == pytest.approx(counts @ matrix.diagonal / 300)
    estimate = release.table("disease").value
    assert found.aggregate_utility == pytest.approx(1 - np.abs(counts / 300 - estimate / 300).sum() / 4)
    assert found.published_share == 1


def test_random_counts_are_repeatable_and_counted(tmp_path: Path) -> None:
    evidence, release = measured("uniform", tmp_path / "r")
    first, again = measure(evidence).queries, measure(Evidence(evidence.table, release, seed=1)).queries
    other = measure(Evidence(evidence.table, release, seed=2)).queries
    assert first == again
    assert first != other
    assert first is not None
    assert first.pool == 200 * 4
    assert first.asked == sum(part.asked for part in first.by_columns)
    assert first.mean_error == pytest.approx(
        sum(part.mean_error * part.asked for part in first.by_columns) / first.asked
    )
    assert 0.8 < first.covered <= 1


def test_measures_of_association_against_scipy() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        counts = rng.integers(0, 30, (4, 5)) + 1
        assert cramers_v(counts.astype(float)) == pytest.approx(association(counts, method="cramer"))
        p = counts / counts.sum()
        information = entropy(p.sum(axis=0)) + entropy(p.sum(axis=1)) - entropy(p.ravel())
        assert uncertainty(counts.astype(float)) == pytest.approx(information / entropy(p.sum(axis=0)))


def test_the_true_association_is_that_of_the_table(tmp_path: Path) -> None:
    evidence, _ = measured("uniform", tmp_path / "r")
    found = {(a.first, a.measure.split()[0]): a for a in measure(evidence).associations}
    sexes, diseases = patients()["sex"].to_pylist(), patients()["disease"].to_pylist()
    counts = np.zeros((2, 4))
    for s, d in zip(sexes, diseases, strict=True):
        counts["FM".index(s), ["asthma", "flu", "gout", "mumps"].index(d)] += 1
    assert found["sex", "Cramer's"].truth == pytest.approx(cramers_v(counts))
    assert found["sex", "uncertainty"].truth == pytest.approx(uncertainty(counts))


@pytest.mark.parametrize("method", ["anatomy", "suppression"])
def test_associations_are_the_same_in_every_run(method: str, tmp_path: Path) -> None:
    """To the last digit, whichever thread adds first."""
    rng = np.random.default_rng(9)
    diseases = np.sort(rng.choice(list("abcdef"), 331, p=[0.25, 0.25, 0.2, 0.1, 0.1, 0.1]))
    sexes = np.where(rng.random(331) < 0.3 + 0.5 * (diseases < "c"), "F", "M")
    rows = pa.table({"sex": sexes.tolist(), "age": rng.integers(0, 5, 331).tolist(), "disease": diseases.tolist()})
    roles = {"sex": "quasi_identifier", "age": "quasi_identifier", "disease": "sensitive"}
    release = released(rows, make_policy(roles, "l = 3", method), folder=tmp_path / "r")
    for column in ("age", "sex"):
        assert len({repr(release.association(column, "disease").measures) for _ in range(25)}) == 1
