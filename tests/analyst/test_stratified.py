"""Pooled and standardised risks: textbook figures, a reference row by row, no bias from noise, coverage, clusters."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from sfumato.analyst.release import Release
from sfumato.analyst.stratified import Strata
from sfumato.cli.main import app
from sfumato.errors import UsageError
from sfumato.publisher.policy import Policy
from tests.analyst.test_sql_expressions import Reference
from tests.constants import set_constants
from tests.engines.tools import released

NAMES = [
    "risk difference, pooled", "risk ratio, pooled", "odds ratio, pooled", "risk of the exposed, standardised",
    "risk of the others, standardised", "risk difference, standardised", "risk ratio, standardised",
]  # fmt: skip


def known(counts: Any) -> Strata:
    """Counts that are known."""
    z = np.asarray(counts, dtype=np.float64)
    return Strata(z, np.zeros((z.size, z.size)), np.zeros((len(z), 4, 4)), z)


def worked(z: Any, standard: str = "all") -> list[Any]:
    """Return the seven measures, written down from their definitions; complex counts give slopes."""
    a, b, c, d = z.T
    n = a + b + c + d
    difference = ((a * d - b * c) / n).sum() / ((a + b) * (c + d) / n).sum()
    ratio = (a * (c + d) / n).sum() / (c * (a + b) / n).sum()
    odds = (a * d / n).sum() / (b * c / n).sum()
    size = {"all": n, "exposed": a + b, "others": c + d}[standard]
    share = size / size.sum()
    risk, other = (share * a / (a + b)).sum(), (share * c / (c + d)).sum()
    return [difference, ratio, odds, risk, other, risk - other, risk / other]


@pytest.mark.parametrize("standard", ["all", "exposed", "others"])
def test_known_counts_give_the_definitions(standard: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        z = rng.integers(1, 60, (int(rng.integers(1, 9)), 4)).astype(float)
        found = known(z).measures(0.95, standard)
        assert [m.name for m in found] == NAMES
        assert [m.estimate for m in found] == pytest.approx(worked(z, standard))
        assert [m.naive for m in found] == pytest.approx(worked(z, standard))


def test_a_confounder_is_taken_out() -> None:
    """Two strata with an odds ratio of 2 each; together they show 0.68, since the exposed are in the rarer one."""
    z = [[20, 380, 1, 38], [30, 60, 190, 760]]
    found = known(z).measures(0.95, "all")
    assert [a * d / (b * c) for a, b, c, d in z] == pytest.approx([2, 2])
    assert found[2].estimate == pytest.approx(2)
    assert np.sum(z, axis=0)[0] * np.sum(z, axis=0)[3] / (np.sum(z, axis=0)[1] * np.sum(z, axis=0)[2]) < 1


# --- asked of a release -----------------------------------------------------------------------------------------------


def people(rows: int, seed: int = 3) -> pa.Table:
    rng = np.random.default_rng(seed)
    region, age = rng.choice(3, rows), rng.choice(2, rows)
    risk = np.array([0.25, 0.4, 0.55])[region] - 0.1 * age
    job = np.where(rng.random(rows) < risk, "cook", rng.choice(np.array(["clerk", "baker"]), rows))
    return pa.table(
        {
            "region": np.array(["north", "south", "west"])[region].tolist(),
            "age": np.array(["young", "old"])[age].tolist(),
            "smokes": np.where(rng.random(rows) < 0.3 + 0.2 * region, "yes", "no").tolist(),
            "w": rng.choice([1.0, 2.0, 3.0], rows).tolist(),
            "house": (np.arange(rows) // 2).tolist(),
            "job": job.tolist(),
        }
    )


def policy(method: str = "name = 'uniform'") -> Policy:
    columns = "\n".join(f"[columns.{c}]\nrole = 'other'" for c in ("region", "age", "smokes", "w"))
    house = "[columns.house]\nrole = 'other'\npublish_as_is = 'made up'"
    return Policy.parse(
        f"{columns}\n{house}\n[columns.job]\nrole = 'sensitive'\n[method]\n{method}\n[requirement]\ngamma = 6"
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(people(900), policy(), folder=tmp_path_factory.mktemp("strata") / "r")


@pytest.fixture
def no_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.analyst", FEW=0)


@pytest.mark.usefixtures("no_floor")
@pytest.mark.parametrize("standard", ["all", "exposed"])
@pytest.mark.parametrize("target", ["table", "population"])
def test_a_release_gives_what_its_rows_say(release: Release, target: Any, standard: Any) -> None:
    """Cells and covariances row by row, with dense inverses; slopes of the definitions by a complex step."""
    reference = Reference(release, target)
    places = [(region, exposed, case) for region in ("north", "south", "west") for exposed in "yn" for case in "yn"]

    def cell(region: str, exposed: str, case: str) -> Any:
        return lambda row, job: float(
            row["region"] == region
            and (row["smokes"] == "yes") == (exposed == "y")
            and (job == "cook") == (case == "y")
        )

    cells = [cell(*place) for place in places]
    z = np.array([reference.adds(f).sum() for f in cells])
    spread = np.array([[reference.covariance(f, g) for g in cells] for f in cells])
    noise = np.array([[Reference(release, "table").covariance(f, g) for g in cells] for f in cells])
    found = release.risks("smokes = 'yes'", "job = 'cook'", strata="region", standard=standard, target=target).measures
    slopes = np.array(
        [[m.imag / 1e-30 for m in worked((z + 1e-30j * unit).reshape(-1, 4), standard)] for unit in np.eye(12)]
    ).T
    errors = np.sqrt(np.einsum("ki,ij,kj->k", slopes, spread, slopes))
    plain = worked(z.reshape(-1, 4), standard)
    assert [m.estimate for m in found[3:]] == pytest.approx(plain[3:], rel=1e-9)
    assert [m.standard_error for m in found[3:]] == pytest.approx(errors[3:], rel=1e-6)
    # pooled products are freed from what noise adds to them
    blocks = [noise[4 * s : 4 * s + 4, 4 * s : 4 * s + 4] for s in range(3)]
    n = z.reshape(3, 4).sum(axis=1)
    a, b, c, d = z.reshape(3, 4).T
    top = sum((a * d)[s] / n[s] - blocks[s][0, 3] / n[s] for s in range(3))
    bottom = sum((b * c)[s] / n[s] - blocks[s][1, 2] / n[s] for s in range(3))
    assert found[2].estimate == pytest.approx(top / bottom, rel=1e-9)
    assert [m.standard_error for m in found[:3]] == pytest.approx(errors[:3], rel=0.02)  # slopes without the correction


def test_randomized_strata_and_exposures_can_be_asked(release: Release) -> None:
    """The exposed by their job, in strata of a column that is not randomized, and the other way round."""
    one = release.risks("job = 'cook'", "smokes = 'yes'", strata=["region", "age"])
    assert len(one.measures) == 7
    assert one.measures[0].lower < one.measures[0].estimate < one.measures[0].upper
    assert len(release.risks("smokes = 'yes'", "age = 'old'", strata="job").measures) == 7


def test_one_stratum_is_the_whole_table(tmp_path: Path) -> None:
    table = people(600).set_column(0, "region", pa.array(["north"] * 600))
    release = released(table, policy(), folder=tmp_path / "r")
    plain = release.risks("smokes = 'yes'", "job = 'cook'").measures
    pooled = release.risks("smokes = 'yes'", "job = 'cook'", strata="region").measures
    assert pooled[3].estimate == pytest.approx(plain[3].estimate)
    assert pooled[3].standard_error == pytest.approx(plain[3].standard_error)
    assert pooled[0].estimate == pytest.approx(plain[0].estimate, abs=0.01)  # but for the noise of products


def test_risks_stand_beside_their_ratio(release: Release) -> None:
    difference, ratio, _, risk, other = release.risks("smokes = 'yes'", "job = 'cook'").measures
    assert risk.estimate - other.estimate == pytest.approx(difference.estimate)
    assert risk.estimate / other.estimate == pytest.approx(ratio.estimate)
    share = release.sql("SELECT COUNT(*) FILTER (WHERE job = 'cook') / COUNT(*) FROM release WHERE smokes = 'yes'")
    assert (risk.estimate, risk.standard_error) == pytest.approx((share.value[0], share.standard_error[0]))


def test_weights_count_records_more_than_once(tmp_path: Path) -> None:
    """The published rows written as often as they weigh give the same estimates."""
    release = released(people(300), policy(), folder=tmp_path / "r")
    weighted = release.risks("smokes = 'yes'", "job = 'cook'", strata="age", weight="w").measures
    sums = release.sql("SELECT age, smokes, SUM(w) FROM release GROUP BY age, smokes")
    assert sums.value.sum() == pytest.approx(sum(row["w"] for row in release.to_arrow().to_pylist()))
    rows = [row for row in release.to_arrow().to_pylist() for _ in range(int(row["w"]))]
    retention = release.manifest.mechanism_values[0].tables[0].matrix.retention[0]
    z = np.zeros((2, 4))
    for row in rows:
        told = ((row["job"] == "cook") - (1 - retention) / 3) / retention
        where = 2 * (row["smokes"] != "yes")
        z[int(row["age"] == "young"), where] += told
        z[int(row["age"] == "young"), where + 1] += 1 - told
    assert weighted[3].estimate == pytest.approx(worked(z)[3], rel=1e-6)


def test_clusters_of_one_are_independent_records_and_pairs_of_equals_are_not(tmp_path: Path) -> None:
    single = people(400).set_column(4, "house", pa.array(range(400)))
    release = released(single, policy(), folder=tmp_path / "a")
    how: dict[str, Any] = {"strata": "age", "target": "population"}
    plain = release.risks("smokes = 'yes'", "job = 'cook'", **how).measures
    own = release.risks("smokes = 'yes'", "job = 'cook'", cluster="house", **how).measures
    assert [m.standard_error for m in own] == pytest.approx([m.standard_error for m in plain], rel=1e-3)
    half = people(400)
    twins = pa.concat_tables([half, half]).set_column(4, "house", pa.array([*range(400)] * 2))
    both = released(twins, policy("name = 'uniform'"), folder=tmp_path / "b")
    apart = both.risks("smokes = 'yes'", "age = 'old'", target="population").measures
    together = both.risks("smokes = 'yes'", "age = 'old'", cluster="house", target="population").measures
    ratios = [t.standard_error / a.standard_error for t, a in zip(together, apart, strict=True)]
    assert ratios == pytest.approx([math.sqrt(2)] * 5, rel=0.01)


def test_noise_does_not_bias_many_small_strata() -> None:
    """60 strata of 20 records, the exposure randomized: the risk ratio over many draws, with and without C_s.

    The exposed and the others with the outcome are estimated from the same rows, so their product is off by noise.
    """
    rng = np.random.default_rng(8)
    strata, n, p, m = 60, 20, 0.5, 4
    exposed = rng.random((strata, n)) < 0.5
    case = rng.random((strata, n)) < np.where(exposed, 0.4, 0.25)
    truth = worked(_cells(exposed.astype(float), case))[1]
    corrected, plain = [], []
    for _ in range(1000):
        kept = rng.random((strata, n)) < p
        shown = np.where(kept, exposed, rng.random((strata, n)) < 1 / m)
        told = (shown - (1 - p) / m) / p
        z, noise = _cells(told, case), np.zeros((strata, 4, 4))
        for column, member in enumerate((case, ~case)):
            v = ((told**2 - told) * member).sum(axis=1)  # unbiased for the variance: E[t^2] - x
            noise[:, column, column] = noise[:, column + 2, column + 2] = v
            noise[:, column, column + 2] = noise[:, column + 2, column] = -v
        made = Strata(z, np.zeros((4 * strata, 4 * strata)), noise, z)
        corrected.append(made.measures(0.95, "all")[1].estimate)
        plain.append(worked(z)[1])
    error = np.std(corrected) / math.sqrt(len(corrected))
    assert abs(np.mean(corrected) - truth) < 4 * error
    assert abs(np.mean(plain) - truth) > 10 * error


def _cells(exposed: Any, case: Any) -> Any:
    """The four counts of each stratum, of exposures as they are told."""
    return np.stack(
        [(each * member).sum(axis=1) for each in (exposed, 1 - exposed) for member in (case, ~case)], axis=1
    )


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"strata": "regoin"}, "no column 'regoin'"),
        ({"strata": ["age", "age"]}, "more than once"),
        ({"strata": "age", "standard": "none"}, "standardised to"),
        ({"weight": "job"}, "no untouched column 'job'"),
        ({"cluster": "house"}, "Clusters and survey strata matter"),
        ({"cluster": "job", "target": "population"}, "randomized"),
        ({"strata": ["region", "age"]}, "24 counts, and their covariances"),
    ],
)
def test_what_cannot_be_asked(
    release: Release, given: dict[str, Any], complaint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_constants(monkeypatch, "sfumato.analyst", MOST_NUMBERS=23)
    with pytest.raises(UsageError, match=complaint) as refused:
        release.risks("smokes = 'yes'", "job = 'cook'", **given)
    assert refused.value.hint


def test_the_command_pools_and_standardises(release: Release) -> None:
    given = ["associate", str(release.folder), "--exposed", "smokes = 'yes'", "--outcome", "job = 'cook'"]
    told = CliRunner().invoke(app, [*given, "--strata", "region,age", "--weight", "w", "--target", "population"])
    assert told.exit_code == 0, told.output
    assert all(name in told.output for name in NAMES)
    wrong = CliRunner().invoke(app, ["associate", str(release.folder), "--between", "region,job", "--strata", "age"])
    assert "are for risks" in str(wrong.exception)
