"""Questions over columns with methods of their own: answers beside a dense reference with the Kronecker product."""

from __future__ import annotations

import numpy as np
import pytest

import sfumato as sf
from tests.engines.test_several import BANDS, DIAGNOSES, KEY, asked, people, planned


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> sf.Release:
    table = sf.scan(people(), asked())
    return sf.publish(table, planned(table), tmp_path_factory.mktemp("in") / "r", key=KEY)


def reference(release: sf.Release) -> tuple[np.ndarray, np.ndarray]:
    """Return the joint counts, and for each row the weights of all combinations: P^-1 of both columns, row by row."""
    data, weights = release.to_arrow(), []
    for mechanism in release.manifest.mechanism_values:
        matrix, name = mechanism.matrix, mechanism.domain.name
        inverse = np.array([matrix.solve(row) for row in np.eye(matrix.outputs)])  # [published, value]
        shown = {label: code for code, label in enumerate(mechanism.published.labels)}
        weights.append(inverse[[shown[text] for text in data[name].to_pylist()]])
    rows = np.einsum("ra,rb->rab", *weights)
    return rows.sum(axis=0), rows


def test_joint_tables(release: sf.Release) -> None:
    counts, rows = reference(release)
    joint = release.table(("diagnosis", "income"))
    assert joint.value == pytest.approx(counts)
    variance = np.einsum("rab,rab->ab", rows, rows) - counts
    seen = np.sqrt(np.maximum(0, variance))
    assert joint.standard_error == pytest.approx(seen, rel=0.05)  # classes that few rows have count for what is due
    em = release.table(("diagnosis", "income"), method="em")
    assert em.value.sum() == pytest.approx(900)
    assert (em.value >= 0).all()


def test_conditions_and_groups_across_both(release: sf.Release) -> None:
    counts, rows = reference(release)
    low = [BANDS.index(name) for name in ("band 0", "band 1")]
    sql = "SELECT diagnosis, COUNT(*) FROM release WHERE income IN ('band 0', 'band 1') GROUP BY diagnosis"
    answer = release.sql(sql).to_arrow().to_pylist()
    for line in answer:
        assert line["estimate"] == pytest.approx(counts[DIAGNOSES.index(line["diagnosis"]), low].sum())
    women = np.array([sex == "F" for sex in release.to_arrow()["sex"].to_pylist()])
    (count,) = (
        release.sql("SELECT COUNT(*) FROM release WHERE sex = 'F' AND diagnosis = 'HIV' AND income = 'band 3'")
        .to_arrow()
        .to_pylist()
    )
    assert count["estimate"] == pytest.approx(rows[women, 1, 3].sum())
    alone = release.sql("SELECT income, COUNT(*) FROM release GROUP BY income").to_arrow().to_pylist()
    assert [line["estimate"] for line in alone] == pytest.approx(counts.sum(axis=0).tolist())


def test_figures_of_every_kind_are_answered(release: sf.Release) -> None:
    for sql in (
        "SELECT diagnosis, QUANTILE(income, 0.5) FROM release GROUP BY diagnosis",
        "SELECT income, AVG(n), SUM(n) FROM release WHERE diagnosis = 'flu' GROUP BY income",
        "SELECT sex, COUNT(*) FROM release WHERE diagnosis = 'flu' OR income = 'band 2' GROUP BY sex",
        "SELECT diagnosis, COUNT(*) / SUM(COUNT(*)) OVER () FROM release GROUP BY diagnosis",
    ):
        assert release.sql(sql).to_arrow().num_rows > 0
    assert release.distribution("income").to_arrow().num_rows == len(BANDS)
    both = release.association("diagnosis", "income")
    assert both.to_dict()
    assert release.power(by=("diagnosis", "income")).to_arrow().num_rows == len(DIAGNOSES) * len(BANDS)
