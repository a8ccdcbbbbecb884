"""On real tables: corrected coefficients lie where those of the true table are, and naive ones do not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.values.arrays import FloatArray
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy, slow

Found = tuple[FloatArray, FloatArray]


def deviations(rows: pa.Table, hidden: str, gamma: int, formula: str, family: str, seeds: int, folder: Path) -> Found:
    """Return (estimate - truth)/se of each slope, and of the naive fit, (seeds, slopes); a copy is true."""
    rows = rows.append_column("truth", rows[hidden])
    roles = dict.fromkeys(rows.column_names, "other") | {hidden: "sensitive"}
    table = sf.scan(rows, make_policy(roles, f"gamma = {gamma}", "uniform"))
    plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    corrected, naive = [], []
    for seed in range(seeds):
        release = sf.publish(table, plan, folder / str(seed), key=SecretKey.from_seed(seed))
        true = release.regress(formula.replace("HIDDEN", "truth"), family)
        found = release.regress(formula.replace("HIDDEN", hidden), family, interval="wald")
        corrected.append(((found.coefficients - true.coefficients) / found.standard_errors)[1:])
        naive.append(((found.fit.naive - true.coefficients) / found.standard_errors)[1:])
    return np.array(corrected), np.array(naive)


@pytest.mark.parametrize("seeds", [10, slow(60)])
def test_adult(seeds: int, real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """Income by a randomized occupation, which shifts the coefficients of education and age, too."""
    file = str(real_data("adult_complete_45222.parquet"))
    asked = "SELECT age, education_num, sex, occupation, income FROM read_parquet(?)"
    rows = duckdb.sql(asked, params=[file]).to_arrow_table()
    manual = ["Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"]
    office = ["Exec-managerial", "Prof-specialty", "Tech-support"]
    sets = f"sets={{'office': {office}, 'manual': {manual}}}, others='other'"
    formula = f"income == '>50K' ~ I(age / 10) + education_num + sex + C(HIDDEN, {sets})"
    corrected, naive = deviations(rows, "occupation", 20, formula, "logistic", seeds, tmp_path)
    assert (np.abs(corrected) <= 2).mean() >= 0.9
    assert np.abs(naive.mean(axis=0)).max() > 4


@pytest.mark.parametrize("seeds", [10, slow(60)])
def test_early_readmission_after_insulin(seeds: int, real_data: Callable[[str], Path], tmp_path: Path) -> None:
    """docs/analyse/regression.md: insulin and early readmission, about 1.16; the naive odds ratio is about 1.04."""
    file = str(real_data("diabetes130_101766.parquet"))
    asked = """SELECT CAST(split_part(substr(age, 2), '-', 1) AS INTEGER) + 5 AS age, gender AS sex,
        time_in_hospital AS stay, least(number_inpatient, 5) AS stays_before, insulin <> 'No' AS insulin, readmitted
        FROM read_parquet(?) WHERE gender IN ('Female', 'Male')"""
    rows = duckdb.sql(asked, params=[file]).to_arrow_table()
    formula = "HIDDEN == '<30' ~ insulin + age + sex + stay + stays_before"
    corrected, naive = deviations(rows, "readmitted", 4, formula, "logistic", seeds, tmp_path)
    assert (np.abs(corrected) <= 2).mean() >= 0.9
    assert naive[:, 0].mean() < -1.5
