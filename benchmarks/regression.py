"""Models fitted to a large release, against DuckDB's own GROUP BY of the same columns, each in a process of its own.

    python benchmarks/regression.py                   20 million rows, six covariates
    python benchmarks/regression.py --rows 100000 --keep folder

What is timed, with all that a printed answer has (coefficients, errors, intervals, tests, the naive fit, notes):

    call      release.regress(...) in a process that has loaded the package: the figure of the limits
    first     the same call as the first of a process, with the imports that it needs

Limits: 60 s and 600 MB at 20 million rows, one second at 100,000. Seconds are those of the wall; CPU seconds stand
beside them, for a busy machine. Memory is the largest that the process had.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb

import sfumato as sf

DISCRETE = "I(age / 10) + C(sex) + C(region) + C(education) + C(smoker) + visits"
COLUMNS = "age, sex, region, education, smoker, visits"
CASES: dict[str, tuple[str, str, str]] = {
    "outcome randomized": (f"diagnosis == 'd03' ~ {DISCRETE}", "logistic", f"{COLUMNS}, diagnosis"),
    "covariate randomized": (
        "visits > 2 ~ I(age / 10) + C(sex) + C(region) + C(education) + C(smoker) + C(diagnosis)",
        "logistic",
        f"{COLUMNS}, diagnosis",
    ),
    "outcome randomized, one covariate continuous": (
        "diagnosis == 'd03' ~ I(age / 10) + C(sex) + C(region) + C(education) + C(smoker) + bmi",
        "logistic",
        "age, sex, region, education, smoker, diagnosis",
    ),
}
POLICY = """
[columns.age]
role = "quasi_identifier"
[columns.sex]
role = "quasi_identifier"
[columns.region]
role = "quasi_identifier"
[columns.education]
role = "quasi_identifier"
[columns.smoker]
role = "other"
[columns.visits]
role = "other"
[columns.bmi]
role = "other"
publish_as_is = "a benchmark"
[columns.diagnosis]
role = "sensitive"
[method]
name = "uniform"
[requirement]
gamma = 6
"""


def generate(file: Path, rows: int) -> None:
    """Write a table in which the diagnosis goes with age, smoking and body mass."""
    duckdb.sql("SELECT setseed(0.5)")
    duckdb.sql(f"""COPY (
        SELECT age, sex, region, education, smoker, visits, bmi,
            CASE WHEN random() < 1 / (1 + exp(3 - age / 40 - 0.7 * smoker - (bmi - 25) / 20)) THEN 'd03'
                 ELSE 'd' || lpad(CAST(floor(random() * 12) AS INTEGER)::VARCHAR, 2, '0') END AS diagnosis
        FROM (SELECT CAST(20 + floor(random() * 60) AS INTEGER) AS age, CAST(floor(random() * 2) AS INTEGER) AS sex,
                'region ' || CAST(floor(random() * 8) AS INTEGER) AS region,
                CAST(floor(random() * 5) AS INTEGER) AS education,
                CAST(floor(random() * 2) AS INTEGER) AS smoker, CAST(floor(random() * 6) AS INTEGER) AS visits,
                25 + 4 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS bmi
              FROM range({rows}))) TO '{file}' (FORMAT parquet)""")


def first(folder: Path, case: str) -> dict[str, Any]:
    """Fit a model, and write all of the answer; return how long it took."""
    formula, family, _ = CASES[case]
    start, used = time.perf_counter(), time.process_time()
    sf.open_release(folder).regress(formula, family).explain()
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}


def call(folder: Path, case: str) -> dict[str, Any]:
    """Do the same after a smaller model, which has loaded the modules that models need."""
    sf.open_release(folder).regress("diagnosis == 'd03' ~ sex").explain()
    return first(folder, case)


def plain(folder: Path, case: str) -> dict[str, Any]:
    """Count the same columns by DuckDB."""
    columns, start, used = CASES[case][2], time.perf_counter(), time.process_time()
    files = f"read_parquet({[str(file) for file in sf.open_release(folder).data_files]})"
    duckdb.sql(f"SELECT {columns}, count(*) FROM {files} GROUP BY ALL").to_arrow_table()
    return {"seconds": time.perf_counter() - start, "cpu": time.process_time() - used}


def alone(what: str, folder: Path, case: str) -> dict[str, Any]:
    """Run one of both in a process of its own."""
    command = [sys.executable, __file__, "--one", what, case, str(folder)]
    one_thread = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # on a busy machine its threads wait for each other
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=one_thread)
    found: dict[str, Any] = json.loads(run.stdout)
    return found


def main() -> None:
    """Make the release, and fit the models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--keep", type=Path, help="a folder for the release, used again if it is there")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        what, case, folder = arguments.one
        found = {"first": first, "call": call, "plain": plain}[what](Path(folder), case)
        print(json.dumps({**found, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        if not (folder / "release").exists():
            generate(folder / "table.parquet", arguments.rows)
            table = sf.scan(folder / "table.parquet", sf.Policy.parse(POLICY))
            plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
            sf.publish(table, plan, folder / "release")
        print("| model | DuckDB, s | call, s | CPU s | first, s | CPU s | MB |\n|---|---|---|---|---|---|---|")
        for case in CASES:
            other, own, whole = (alone(what, folder / "release", case) for what in ("plain", "call", "first"))
            print(
                f"| {case} | {other['seconds']:.2f} | {own['seconds']:.2f} | {own['cpu']:.2f} | "
                f"{whole['seconds']:.2f} | {whole['cpu']:.2f} | {own['megabytes']:,.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
