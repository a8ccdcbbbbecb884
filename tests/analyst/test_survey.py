"""Survey strata beside clusters and weights, in models and risks: row by row, without noise, and how often they cover.

The slow reference takes the formula word by word: what each unit (a cluster of a stratum, or a record) adds, its mean
in the stratum, n/(n - 1) times the products of the differences.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import norm

from sfumato.analyst.regression.families import Logistic
from sfumato.analyst.regression.problem import Cells
from sfumato.analyst.regression.solution import solve
from sfumato.analyst.release import Release
from sfumato.errors import UsageError
from sfumato.publisher.policy import Policy
from sfumato.values.arrays import FloatArray
from tests.analyst.regression.made import uniform
from tests.analyst.regression.whole import Whole
from tests.conftest import slow
from tests.constants import set_constants
from tests.engines.tools import released

JOBS = ["cook", "clerk", "baker"]
Row = dict[str, Any]


def people(rows: int = 600, seed: int = 5) -> pa.Table:
    """Return people of four survey strata, with five clusters of the same names in each."""
    rng = np.random.default_rng(seed)
    stratum, village = rng.choice(4, rows), rng.choice(5, rows)
    age = rng.choice([30, 40, 50, 60], rows)
    tall = rng.normal(size=(4, 5))[stratum, village]
    job = np.where(rng.random(rows) < 1 / (1 + np.exp(0.5 - tall)), "cook", rng.choice(JOBS[1:], rows))
    ill = rng.random(rows) < 1 / (1 + np.exp(1 - (job == "cook") - 0.5 * tall - (age - 45) / 30))
    return pa.table(
        {
            "stratum": np.array(["n", "s", "w", "e"])[stratum].tolist(),
            "village": village.tolist(),
            "age": age.tolist(),
            "old": np.where(age > 45, "yes", "no").tolist(),
            "ill": np.where(ill, "yes", "no").tolist(),
            "w": rng.choice([1.0, 2.0, 3.5], rows).tolist(),
            "job": job.tolist(),
        }
    )


def policy() -> Policy:
    columns = "\n".join(f"[columns.{c}]\nrole = 'other'" for c in ("stratum", "village", "age", "old", "ill", "w"))
    return Policy.parse(
        f"{columns}\n[columns.job]\nrole = 'sensitive'\n[method]\nname = 'uniform'\n[requirement]\ngamma = 6"
    )


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return released(people(), policy(), folder=tmp_path_factory.mktemp("survey") / "r")


# --- the slow reference -----------------------------------------------------------------------------------------------


def of_units(amounts: list[FloatArray], rows: list[Row], cluster: str) -> FloatArray:
    """Return sum_h n_h/(n_h - 1) sum_c (z_hc - mean_h)(..)', of what each published row adds."""
    z: dict[str, dict[Any, Any]] = defaultdict(dict)
    for number, (amount, row) in enumerate(zip(amounts, rows, strict=True)):
        unit = row[cluster] if cluster else number
        z[row["stratum"]][unit] = z[row["stratum"]].get(unit, 0) + amount
    total = np.zeros((amounts[0].size, amounts[0].size))
    for units in z.values():
        own = np.array(list(units.values()))
        off = own - own.mean(axis=0)
        total += len(own) / (len(own) - 1) * off.T @ off
    return total


def told(release: Release, row: Row) -> FloatArray:
    """Return the weight of each job behind a published one."""
    retention = release.manifest.mechanism_values[0].tables[0].matrix.retention[0]
    return np.array([((row["job"] == job) - (1 - retention) / 3) / retention for job in JOBS])


CLUSTERS = ["village", ""]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("formula", ["ill == 'yes' ~ age + C(job, reference='clerk')", "job == 'cook' ~ age + old"])
def test_a_model_row_by_row(release: Release, formula: str, cluster: str) -> None:
    """A hidden covariate, and a hidden outcome: psi of each row summed over its states, added up by unit."""
    found = release.regress(formula, weights="w", cluster=cluster, survey_strata="stratum", target="population")
    rows, beta = release.to_arrow().to_pylist(), found.coefficients
    states = [(job, told_as) for told_as, job in enumerate(JOBS)]
    amounts, H = [], np.zeros((beta.size, beta.size))
    for row in rows:
        total, weights = np.zeros(beta.size), told(release, row)
        for job, place in states:
            if formula.startswith("ill"):
                v = np.array([1.0, row["age"], job == "baker", job == "cook"])
                y = row["ill"] == "yes"
            else:
                v, y = np.array([1.0, row["age"], row["old"] == "yes"]), job == "cook"
            mu = 1 / (1 + np.exp(-v @ beta))
            total += row["w"] * weights[place] * (y - mu) * v
            H += row["w"] * weights[place] * mu * (1 - mu) * np.outer(v, v)
        amounts.append(total)
    assert np.abs(np.sum(amounts, axis=0)).max() < 1e-6
    covariance = np.linalg.inv(H) @ of_units(amounts, rows, cluster) @ np.linalg.inv(H)
    assert found.fit.population == pytest.approx(covariance, rel=1e-7, abs=1e-12)
    plain = release.regress(formula, weights="w")
    assert found.fit.table == pytest.approx(plain.fit.table, rel=1e-9)  # given the table only the noise is random


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_part_of_the_population_keeps_the_design(release: Release, cluster: str) -> None:
    """Villages without anybody who is asked count as units that add nothing: as with weights of 0."""
    where = "village <> 3 AND age > 30"
    found = release.regress(
        "ill == 'yes' ~ age", where=where, cluster=cluster, survey_strata="stratum", target="population"
    )
    rows, beta = release.to_arrow().to_pylist(), found.coefficients
    amounts, H = [], np.zeros((2, 2))
    for row in rows:
        v = np.array([1.0, row["age"]])
        mu, asked = 1 / (1 + np.exp(-v @ beta)), float(row["village"] != 3 and row["age"] > 30)
        amounts.append(asked * ((row["ill"] == "yes") - mu) * v)
        H += asked * mu * (1 - mu) * np.outer(v, v)
    covariance = np.linalg.inv(H) @ of_units(amounts, rows, cluster) @ np.linalg.inv(H)
    assert found.fit.population == pytest.approx(covariance, rel=1e-7)


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_streamed_rows_give_the_same(release: Release, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Row = {"cluster": cluster, "survey_strata": "stratum", "target": "population", "interval": "wald"}
    formula = "ill == 'yes' ~ age + C(job)"
    whole = release.regress(formula, **asked)
    set_constants(monkeypatch, "sfumato.analyst.regression", MOST_COUNTED=50, CELLS_AT_ONCE=70, NUMBERS_HELD=500)
    streamed = release.regress(formula, **asked)
    assert not streamed.fit.solution.equations.whole
    assert streamed.fit.population == pytest.approx(whole.fit.population, rel=1e-6)


@pytest.mark.parametrize("strata", ["", "old"])
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_risks_row_by_row(release: Release, cluster: str, strata: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells and their covariance by units; slopes of the measures by differences.

    Published values that fewer than FEW rows have by chance count in variances for at least what is due: only there
    do errors differ from those of the reference, and they are larger.
    """
    cautious = _standardised_risk(release, cluster, strata).standard_error
    set_constants(monkeypatch, "sfumato.analyst", FEW=0)
    rows, groups = release.to_arrow().to_pylist(), ["no", "yes"] if strata else [None]
    amounts = []
    for row in rows:
        cook, cells = told(release, row)[0], np.zeros((len(groups), 4))
        place = 0 if row["ill"] == "yes" else 1
        own = groups.index(row["old"]) if strata else 0
        cells[own, place], cells[own, 2 + place] = cook, 1 - cook
        amounts.append((row["w"] * cells).ravel())
    z, spread = np.sum(amounts, axis=0), of_units(amounts, rows, cluster)
    risk = _standardised_risk(release, cluster, strata)

    def standardised(counts: FloatArray) -> float:
        a, b, c, d = counts.reshape(-1, 4).T
        n = a + b + c + d
        return float((n / n.sum() * a / (a + b)).sum())

    slope = np.array([(standardised(z + unit) - standardised(z - unit)) / 2e-4 for unit in 1e-4 * np.eye(z.size)])
    assert risk.estimate == pytest.approx(standardised(z), rel=1e-9)
    assert risk.standard_error == pytest.approx(float(np.sqrt(slope @ spread @ slope)), rel=1e-8)
    assert cautious == pytest.approx(risk.standard_error, rel=1e-3)
    assert (cautious > (1 + 1e-6) * risk.standard_error) == (bool(strata) and not cluster)


def _standardised_risk(release: Release, cluster: str, strata: str) -> Any:
    found = release.risks(
        "job = 'cook'", "ill = 'yes'", strata=strata or (), weight="w", cluster=cluster, survey_strata="stratum",
        target="population",
    )  # fmt: skip
    name = "risk of the exposed, standardised" if strata else "risk of the exposed"
    (risk,) = (m for m in found.measures if m.name == name)
    return risk


def test_strata_that_explain_much_make_errors_smaller(release: Release) -> None:
    plain = release.regress("ill == 'yes' ~ age", cluster="village", target="population")
    with_strata = release.regress("ill == 'yes' ~ age", cluster="village", survey_strata="stratum", target="population")
    assert with_strata.standard_errors[0] != pytest.approx(plain.standard_errors[0], rel=0.01)
    assert with_strata.coefficients == pytest.approx(plain.coefficients)


def lonely(folder: Path) -> Release:
    rows = people(60)
    names = ["lone" if k == 0 else name for k, name in enumerate(rows["stratum"].to_pylist())]
    return released(rows.set_column(0, "stratum", pa.array(names)), policy(), folder=folder / "r")


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    "ask",
    [
        lambda release, **how: release.regress("ill == 'yes' ~ age", **how),
        lambda release, **how: release.risks("old = 'yes'", "ill = 'yes'", **how),
    ],
    ids=["model", "risks"],
)
def test_a_stratum_with_one_unit_is_refused(ask: Callable[..., Any], cluster: str, tmp_path: Path) -> None:
    """It is named, with what to do; where it is not asked about it is no matter."""
    release, how = lonely(tmp_path), {"cluster": cluster, "survey_strata": "stratum", "target": "population"}
    with pytest.raises(UsageError, match=r"have a single .*'lone'.*is not told") as refused:
        ask(release, **how)
    assert "coarser strata" in refused.value.hint
    ask(release, where="stratum <> 'lone'", **how)


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"survey_strata": "job"}, "is randomized"),
        ({"survey_strata": "sratum"}, "no column 'sratum' of survey strata"),
        ({"survey_strata": "stratum", "method": "likelihood"}, "takes rows as independent"),
    ],
)
def test_what_models_refuse(release: Release, given: Row, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint) as refused:
        release.regress("job == 'cook' ~ age", target="population", **given)
    assert refused.value.hint


def test_risks_of_a_table_have_no_survey(release: Release) -> None:
    with pytest.raises(UsageError, match="survey strata matter for conclusions about a population"):
        release.risks("old = 'yes'", "ill = 'yes'", survey_strata="stratum")


# --- how often intervals cover ----------------------------------------------------------------------------------------


def drawn(rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return stratum, cluster, x and the true outcome: 6 strata with 12 clusters of 8 records, alike inside of each."""
    stratum = np.repeat(np.arange(6), 96)
    cluster = np.repeat(np.arange(72), 8)
    x = rng.integers(0, 2, 576) + 0.0
    eta = -0.5 + 0.6 * x + 0.5 * (stratum - 2.5) / 2 + np.repeat(rng.normal(0, 1.5, 72), 8)
    return stratum, cluster, x, (rng.random(576) < 1 / (1 + np.exp(-eta))).astype(float)


@pytest.mark.parametrize("releases", [300, slow(1000)])
def test_intervals_of_a_survey_cover(releases: int) -> None:
    """With strata and clusters 95% cover but for chance in 1 of 10,000; as independent records fewer do.

    The outcome is published with retention .7. Strata are the same in every draw, clusters and noise are new. The truth
    is the root of the equations of 400 draws together. 12 clusters a stratum make the errors a little too small.
    """
    rng, P = np.random.default_rng(8), uniform(2, 0.7)
    inverse, many = np.linalg.inv(P), [drawn(rng) for _ in range(400)]
    x, y = (np.concatenate([each[k] for each in many]) for k in (2, 3))
    p = [float(y[x == k].mean()) for k in (0, 1)]
    logit = np.log(np.array(p) / (1 - np.array(p)))
    truth = np.array([logit[0], logit[1] - logit[0]])
    covered: dict[str, list[Any]] = {"survey": [], "independent": []}
    for _ in range(releases):
        stratum, cluster, x, y = drawn(rng)
        shown = np.where(rng.random(576) < 0.7, y, rng.integers(0, 2, 576)).astype(int)
        cells = Cells(
            weights=inverse.T[shown],
            design=np.stack([np.ones(576), x], axis=1)[:, None],
            outcome=np.array([[0.0, 1]]),
            count=np.ones(576),
            squares=np.ones(576),
            published=shown,
        )
        design: Row = {"cluster": cluster, "stratum": stratum, "units": np.full(6, 12.0)}
        for name, more in (("survey", design), ("independent", {})):
            source = Whole(("one", "x"), (False, False), Logistic(), Cells(**{**vars(cells), **more}))
            solution = solve(source)
            errors = np.sqrt(np.diag(solution.covariance.population))
            covered[name].append(np.abs(solution.best.beta - truth) <= norm.ppf(0.975) * errors)
    shares = {name: np.mean(each, axis=0) for name, each in covered.items()}
    margin = norm.isf(0.5e-4) * np.sqrt(0.05 * 0.95 / releases)
    assert (np.abs(shares["survey"] - 0.95) < margin).all(), shares
    assert shares["independent"][0] < 0.95 - margin, shares
