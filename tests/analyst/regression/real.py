"""Models of releases of real tables, beside those of the tables: `python -m tests.analyst.regression.real FILE`.

A copy of each randomized column is published untouched, so that the same release has the true coefficients, too.
`@x` in a formula is column x: the randomized one, or its copy.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from scipy.stats import binom

import sfumato as sf
from sfumato.values.arrays import BoolArray, FloatArray
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy

SEEDS = 60
WITHIN = 2.0
NOMINAL = 0.9545
"""How often a normal error lies within two standard errors."""
SHRUNK = 0.85
"""The planted error: standard errors that are 15% too small."""
FALSE_ALARM = 1e-3


@dataclass(frozen=True)
class RealCase:
    """A table, what is hidden of it and how, and a model."""

    file: str
    rows: str  # SQL from {file}
    hidden: Mapping[str, str]  # name -> more lines of its role
    formula: str
    family: str = "logistic"
    requirement: str = "gamma = 10"
    method: str = "uniform"
    options: str = ""

    @property
    def table(self) -> str:
        """The name of the table, for people."""
        return self.file.split("_")[0].split("2022")[0].split("2024")[0]

    @property
    def shown(self) -> str:
        """The formula, for people: a randomized column has a star, and a condition of sets is cut."""
        outcome, terms = self.formula.split(" ~ ")
        short = [term.split(", sets")[0] + (")" if ", sets" in term else "") for term in terms.split(" + ")]
        told = f"{outcome.split(', sets')[0]}{')' if ', sets' in outcome else ''} ~ {' + '.join(short)}"
        for name in self.hidden:
            told = told.replace(f"@{name}", f"{name}*")
        return told

    def of(self, prefix: str) -> str:
        """Return the formula with a prefix before each hidden column."""
        return self.formula.replace("@", prefix)


@dataclass(frozen=True)
class Seen:
    """Of each release and coefficient, (releases, coefficients)."""

    deviations: FloatArray  # (estimate - truth)/standard error
    covered: BoolArray  # whether the score interval has the truth
    naive: FloatArray = field(repr=False)  # (naive - truth)/standard error; NaN where sets are published

    def within(self, errors: float = WITHIN) -> FloatArray:
        """Return the share of a release's coefficients that lie within so many standard errors, (releases,)."""
        return np.asarray((np.abs(self.deviations) <= errors).mean(axis=1))


def seen(name: str, seeds: int, folder: Path, data: Path) -> Seen:
    """Publish a table with each seed, and fit the model to what is published and to the truth.

    No two cases have a seed in common: their noise would be alike.
    """
    case, first = CASES[name], 10_000 * list(CASES).index(name)
    rows = duckdb.sql(case.rows.format(file=f"'{data / case.file}'")).to_arrow_table()
    for column in case.hidden:
        rows = rows.append_column(f"true_{column}", rows[column])
    roles = dict.fromkeys(rows.column_names, "other; missing = 'category'")
    roles |= {column: f"sensitive; {more}".rstrip("; ") for column, more in case.hidden.items()}
    policy = make_policy(roles, case.requirement, case.method, options=case.options)
    table = sf.scan(_in_random_order(rows), policy)
    plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    truth, found = None, []
    for seed in range(seeds):
        release = sf.publish(table, plan, folder / str(seed), key=SecretKey.from_seed(first + seed))
        if truth is None:
            truth = release.regress(case.of("true_"), case.family, interval="wald").coefficients
        model = release.regress(case.of(""), case.family)
        errors, ends = model.standard_errors, model.ends
        naive = model.fit.naive if model.fit.naive is not None else np.full_like(truth, np.nan)
        found.append(((model.coefficients - truth) / errors, _inside(ends, truth), (naive - truth) / errors))
    deviations, covered, naives = (np.array(each) for each in zip(*found, strict=True))
    return Seen(deviations, covered, naives)


def _in_random_order(rows: pa.Table) -> pa.Table:
    """Return the rows shuffled once: the plan then needs no shuffling for each seed."""
    return rows.take(np.random.default_rng(7).permutation(rows.num_rows))


def _inside(ends: FloatArray, truth: FloatArray) -> BoolArray:
    return np.asarray((ends[:, 0] <= truth) & (truth <= ends[:, 1]))


def band(releases: int) -> tuple[float, float]:
    """Return the shares within two standard errors that a right method leaves in one of 1,000.

    Coefficients of a release count as one, as if they all lay inside together or outside: what is binomial then is
    wider than what is true.
    """
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], releases, NOMINAL) / releases
    return float(low), float(high)


# --- the tables -------------------------------------------------------------------------------------------------------

MANUAL = ["Craft-repair", "Machine-op-inspct", "Transport-moving", "Handlers-cleaners", "Farming-fishing"]
OFFICE = ["Exec-managerial", "Prof-specialty", "Tech-support"]
WORK = f"C(@occupation, sets={{'office': {OFFICE}, 'manual': {MANUAL}}}, others='other')"
MARRIED = ["Married-civ-spouse", "Married-AF-spouse", "Married-spouse-absent"]
GUT = ["Nausea", "Diarrhoea", "Vomiting", "Constipation"]

ADULT = (
    "adult_complete_45222.parquet",
    """SELECT age, education_num, sex, hours_per_week AS hours, occupation, marital_status AS marital, income
    FROM {file}""",
)
STAYS = """CAST(split_part(substr(age, 2), '-', 1) AS INTEGER) + 5 AS age, gender AS sex, time_in_hospital AS stay,
    least(number_inpatient, 5) AS stays_before"""
DIABETES = (
    "diabetes130_101766.parquet",
    f"SELECT {STAYS}, insulin <> 'No' AS insulin, readmitted FROM {{file}} WHERE gender IN ('Female', 'Male')",
)
DOSES = (
    DIABETES[0],
    f"""SELECT {STAYS}, insulin, left(diag_1, 3) AS diagnosis FROM {{file}}
    WHERE gender IN ('Female', 'Male') AND diag_1 IS NOT NULL LIMIT 50000""",
)
ACS = (
    "acs2024_census_like_500k.parquet",
    """SELECT age, gender, education, wagp > 50000 AS well_paid, ln(wagp + 1000) AS wages, CAST(marital AS VARCHAR)
    AS marital, CAST(work_class AS VARCHAR) AS work, CAST(occupation AS VARCHAR) AS occupation
    FROM {file} LIMIT 50000""",
)
CAERS = (
    "caers_supplements_20156.parquet",
    """SELECT gender, reaction, product LIKE '%VITAMIN%' AS vitamins, product LIKE 'HYDROXYCUT%' AS hydroxycut
    FROM {file} WHERE gender IN ('Female', 'Male')""",
)
REPORTS = (
    CAERS[0],
    """SELECT any_value(gender) AS gender, count(DISTINCT reaction) AS reactions,
    bool_or(product LIKE '%VITAMIN%') AS vitamins FROM {file} WHERE gender IN ('Female', 'Male') GROUP BY report_id
    ORDER BY report_id""",
)
FAERS = (
    "faers2022q3_top40_one_per_case.parquet",
    """SELECT reaction, CASE WHEN drug IN ('Dupixent', 'Cosentyx', 'Humira', 'Infliximab') THEN 'antibody'
    WHEN drug IN ('Revlimid', 'Ibrance') THEN 'cancer' WHEN drug = 'Paxlovid' THEN 'covid' ELSE 'other' END AS drug
    FROM {file} LIMIT 60000""",
)
HOUSEHOLDS = (
    "sdcmicro_testdata_4580.parquet",
    """SELECT age, sex = 2 AS woman, CASE WHEN urbrur = 1 THEN 'town' ELSE 'land' END AS place, ln(1 + income) AS
    income, CAST(water AS VARCHAR) AS water, CAST(relat AS VARCHAR) AS relation, electcon = 1 AS power FROM {file}""",
)

CASES: dict[str, RealCase] = {
    "adult: covariate": RealCase(
        *ADULT,
        {"occupation": ""},
        f"income == '>50K' ~ I(age / 10) + education_num + sex + {WORK}",
        requirement="gamma = 20",
    ),
    "adult: outcome": RealCase(
        *ADULT,
        {"income": ""},
        "@income == '>50K' ~ I(age / 10) + education_num + sex + I(hours / 10)",
        requirement="gamma = 4",
    ),
    "adult: covariate, linear": RealCase(
        *ADULT, {"occupation": ""}, f"hours ~ I(age / 10) + sex + {WORK}", "linear", "gamma = 20"
    ),
    "adult: outcome, multinomial": RealCase(
        *ADULT,
        {"marital": ""},
        f"C(@marital, sets={{'married': {MARRIED}, 'never': ['Never-married']}}, others='once') ~ I(age / 10) + sex",
        "multinomial",
    ),
    "adult: both": RealCase(
        *ADULT,
        {"occupation": "method = { name = 'uniform' }; requirement = { gamma = 20 }", "income": ""},
        f"@income == '>50K' ~ education_num + sex + C(@occupation, sets={{'office': {OFFICE}}}, others='other')",
        requirement="gamma = 6",
    ),
    "diabetes130: outcome": RealCase(
        *DIABETES,
        {"readmitted": ""},
        "@readmitted == '<30' ~ insulin + age + sex + stay + stays_before",
        requirement="gamma = 4",
    ),
    "diabetes130: outcome, multinomial": RealCase(
        *DIABETES,
        {"readmitted": ""},
        "C(@readmitted) ~ insulin + I(age / 10) + stays_before",
        "multinomial",
        "gamma = 4",
    ),
    "diabetes130: covariate, Poisson": RealCase(
        *DOSES, {"insulin": ""}, "stays_before ~ I(age / 10) + sex + C(@insulin)", "poisson", "gamma = 8"
    ),
    "diabetes130: diagnosis, linear": RealCase(
        *DOSES,
        {"diagnosis": ""},
        "stay ~ I(age / 10) + sex + C(@diagnosis LIKE '250%') + C(@diagnosis LIKE '4%')",
        "linear",
        "gamma = 300",
    ),
    "acs: covariate": RealCase(
        *ACS, {"marital": ""}, "well_paid ~ I(age / 10) + C(gender) + education + C(@marital)", requirement="gamma = 8"
    ),
    "acs: outcome": RealCase(
        *ACS, {"work": ""}, "@work IN ('3', '4', '5') ~ I(age / 10) + C(gender) + education", requirement="gamma = 12"
    ),
    "acs: covariate in sub-tables, linear": RealCase(
        *ACS,
        {"occupation": ""},
        "wages ~ I(age / 10) + C(gender) + C(@occupation IN ('0', '1', '2', '3', '4', '5'))",
        "linear",
        "rho1 = '1/10'\nrho2 = '1/4'",
        "small-domain",
        "assurance = 'as-published'",
    ),
    "acs: outcome in cards": RealCase(
        *ACS,
        {"occupation": ""},
        "@occupation IN ('0', '1', '2', '3', '4', '5') ~ I(age / 10) + C(gender) + education",
        requirement="gamma = 25",
        method="subset",
    ),
    "acs: outcome, multinomial": RealCase(
        *ACS,
        {"marital": ""},
        "C(@marital, sets={'married': ['1'], 'never': ['5']}, others='once') ~ I(age / 10) + C(gender) + education",
        "multinomial",
        "gamma = 8",
    ),
    "caers: outcome": RealCase(
        *CAERS,
        {"reaction": ""},
        "@reaction IN ('CHOKING', 'DYSPHAGIA', 'FOREIGN BODY TRAUMA') ~ gender + vitamins",
        requirement="gamma = 600",
    ),
    "caers: covariate, Poisson": RealCase(
        *REPORTS, {"gender": ""}, "reactions ~ C(@gender) + vitamins", "poisson", "gamma = 4"
    ),
    "faers: outcome": RealCase(*FAERS, {"reaction": ""}, "@reaction == 'Fatigue' ~ C(drug)", requirement="gamma = 40"),
    "faers: outcome, multinomial in cards": RealCase(
        *FAERS,
        {"reaction": ""},
        f"C(@reaction, sets={{'gut': {GUT}, 'tired': ['Fatigue', 'Malaise']}}, others='other') ~ drug == 'antibody'",
        "multinomial",
        "gamma = 40",
        "subset",
    ),
    "faers: covariate": RealCase(
        *FAERS,
        {"reaction": ""},
        f"drug == 'antibody' ~ C(@reaction, sets={{'gut': {GUT}, 'dead': ['Death']}}, others='other')",
        requirement="gamma = 40",
    ),
    "sdcmicro: outcome": RealCase(
        *HOUSEHOLDS, {"place": ""}, "@place == 'town' ~ I(age / 10) + woman + income", requirement="gamma = 9"
    ),
    "sdcmicro: covariate, linear": RealCase(
        *HOUSEHOLDS, {"water": ""}, "income ~ I(age / 10) + woman + C(@water IN ('1', '5'))", "linear", "gamma = 20"
    ),
    "sdcmicro: outcome in groups": RealCase(
        *HOUSEHOLDS,
        {"water": ""},
        "@water == '4' ~ I(age / 10) + woman + income",
        requirement="l = 2",
        method="anatomy",
    ),
}  # fmt: skip


# --- the table for people ---------------------------------------------------------------------------------------------


def _seen(name: str, data: Path) -> Seen:
    with tempfile.TemporaryDirectory() as folder:
        return seen(name, SEEDS, Path(folder), data)


def _line(name: str, found: Seen) -> str:
    case = CASES[name]
    shares = [found.within().mean(), found.covered.mean(), found.within(SHRUNK * WITHIN).mean()]
    worst = np.abs(found.naive.mean(axis=0)).max()
    told = f"`{case.shown}`", f"{case.family}, {case.method}", str(found.deviations.shape[1])
    return f"| {case.table} | {' | '.join(told)} | {' | '.join(f'{share:.1%}' for share in shares)} | {worst:.1f} |"


def lines(data: Path) -> Iterator[str]:
    """Yield the table of docs/reference/benchmarks.md, and last what all of it says together."""
    columns = ["table", "model", "family, method", "coefficients", "within two errors", "in the score interval",
               "planted", "naive, errors off"]  # fmt: skip
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    every: list[Seen] = []
    with ProcessPoolExecutor(2) as pool:
        for name, found in zip(CASES, pool.map(partial(_seen, data=data), CASES), strict=True):
            every.append(found)
            yield _line(name, found)
    for what, errors in (("all", WITHIN), ("all, planted", SHRUNK * WITHIN)):
        share, (low, high) = together(every, errors), band(len(every) * SEEDS)
        yield f"{what}: {share:.2%} of {len(every)} x {SEEDS} releases, band {low:.1%} to {high:.1%}"


def together(every: list[Seen], errors: float = WITHIN) -> float:
    """Return the share within so many standard errors: each release counts as much as any other."""
    return float(np.concatenate([found.within(errors) for found in every]).mean())


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w") as file:
        for line in lines(Path(os.environ["SFUMATO_DATA"])):
            print(line, file=file, flush=True)
