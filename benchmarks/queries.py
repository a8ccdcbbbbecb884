"""Error of count queries: small domain randomization against uniform perturbation, on the random pool of paper SDR.

    SFUMATO_DATA=folder python benchmarks/queries.py              the paper's pool: 200 conditions
    SFUMATO_DATA=folder python benchmarks/queries.py --conditions 2000 --releases 10

More conditions let more queries of d = 3 pass; more releases steady the means (most queries that pass ask for a gender
or a marital status, many of them repeatedly, so the errors of a release go together).

From SDR section 6.1-6.2: |T| = 300,000, the sensitive attribute Occupation (m = 50), rho2 = 1/6, 1/5, 1/4, 1/3, delta =
0.05 (the default of sfumato); the average relative error over the queries with a selectivity of at least 0.1, 0.5 and
1 %, the selectivity being the share of records that satisfy the query's condition. From section 3.3: the relative error
|est - act| / act, and Eq. (7) on the rows that satisfy the condition on the non-sensitive attributes. From Appendix
10.9: the pool, 200 conditions A1 = a1 AND .. AND Ad = ad (d from {1, 2, 3}, d attributes without replacement, a value
from the domain of each, all with equal probability), each with every one of the m sensitive values: 10,000 queries.
From Appendix 10.10: the estimates of the sub-tables are added up.

What the paper leaves open, or what differs here:
- The condition that selectivity is measured by: all of Eq. (18), the sensitive value included, so that act is at least
  0.1 % of the table. (By the other attributes alone, act could be 0 and the relative error undefined.)
- A domain: the values that occur in the table. A condition that is drawn twice counts twice.
- The pool is the same for all methods and rho2. The paper seems to publish once; here every setting is published a few
  times, each time with a fresh key, and errors are averaged over queries and releases alike.
- rho1 is the largest relative frequency, which Table 2 of the paper agrees with; its text says 1/13.
- The data are ACS 2024, made to look like the paper's CENSUS (which is not at hand): 7 non-sensitive attributes, of
  which marital (5 values for 6), work_class (8 for 7) and state (49, for 70 of Country) have other domains.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import sfumato as sf

FILE = "acs2024_census_like_500k.parquet"
ROWS = 300_000
SENSITIVE = "occupation"
OTHERS = ("age", "gender", "education", "marital", "race", "work_class", "state")
RHO2 = tuple(Fraction(1, n) for n in (6, 5, 4, 3))
SELECTIVITY = (0.001, 0.005, 0.01)
METHODS = {
    "uniform": ("uniform", "proved"), "as-published": ("small-domain", "as-published"),
    "proved": ("small-domain", "proved"),
}  # fmt: skip

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Columns = dict[str, npt.NDArray[np.integer[Any]]]
Condition = dict[str, int]
Errors = dict[tuple[Fraction, str], list[Floats]]


# --- the queries ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pool:
    """Conditions on the other attributes, each asked with every sensitive value, and the true answers."""

    conditions: list[Condition]
    sensitive: list[int]  # the sensitive values, ascending
    actual: Floats  # [conditions, sensitive values]

    def passing(self, selectivity: float, dimensions: tuple[int, ...]) -> npt.NDArray[np.bool_]:
        """Return which queries have this selectivity and so many attributes besides the sensitive one."""
        fits = np.array([len(condition) in dimensions for condition in self.conditions])
        passes: npt.NDArray[np.bool_] = (self.actual >= selectivity * ROWS) & fits[:, None]
        return passes


def as_columns(rows: Any) -> Columns:
    return {name: rows[name].to_numpy() for name in rows.column_names}


def draw_pool(columns: Columns, size: int, seed: int) -> Pool:
    """Draw conditions as in SDR Appendix 10.9 and answer them from the table."""
    rng = np.random.default_rng(seed)
    domains = {name: np.unique(columns[name]) for name in OTHERS}
    conditions = []
    for _ in range(size):
        names = rng.choice(OTHERS, size=rng.integers(1, 4), replace=False).tolist()
        conditions.append({name: int(rng.choice(domains[name])) for name in names})
    sensitive, codes = np.unique(columns[SENSITIVE], return_inverse=True)
    return Pool(conditions, sensitive.tolist(), counted(columns, codes, sensitive.size, conditions).astype(np.float64))


def counted(columns: Columns, cells: Ints, size: int, conditions: list[Condition]) -> Ints:
    """Return, for each condition, how many of the rows that satisfy it are in each cell."""
    counts = np.zeros((len(conditions), size), dtype=np.int64)
    for condition, of_condition in zip(conditions, counts, strict=True):
        satisfied = np.logical_and.reduce([columns[name] == value for name, value in condition.items()])
        of_condition[:] = np.bincount(cells[satisfied], minlength=size)
    return counts


# --- the answers ----------------------------------------------------------------------------------------------------


def estimated(release: sf.Release, pool: Pool) -> Floats:
    """Return the unbiased estimates of all queries from the release alone: SDR Eq. (7), summed over the sub-tables.

    x_i = (o_i - (1 - p) n / m) / p, which is Eq. (7) with p = (gamma - 1) / (m - 1 + gamma)
    """
    mechanism = release.manifest.mechanism_values[0]
    assert list(mechanism.domain.values) == pool.sensitive
    columns, m = as_columns(release.to_arrow()), mechanism.domain.size
    numbers = columns[mechanism.label].astype(np.int64) - 1 if mechanism.label else np.zeros(ROWS, dtype=np.int64)
    cells = numbers * m + np.searchsorted(pool.sensitive, columns[SENSITIVE])
    shape = (len(pool.conditions), len(mechanism.tables), m)
    observed = counted(columns, cells, shape[1] * m, pool.conditions).reshape(shape)
    total = np.zeros((shape[0], m))
    for number, table in enumerate(mechanism.tables):
        o, p = observed[:, number, table.codes], table.matrix.retention[0]
        total[:, table.codes] += (o - (1 - p) * o.sum(axis=1, keepdims=True) / table.codes.size) / p
    return total


def check(release: sf.Release, pool: Pool, estimates: Floats) -> None:
    """Compare the answers for a few conditions, each of another number of attributes, with those of the release."""
    places = {len(condition): k for k, condition in enumerate(pool.conditions) if pool.actual[k].any()}
    for place in places.values():
        where = " AND ".join(f"{name} = {value}" for name, value in pool.conditions[place].items())
        answer = release.count(by=SENSITIVE, where=where)
        assert [value for (value,) in answer.groups] == pool.sensitive
        assert np.allclose(answer.value, estimates[place], rtol=1e-9, atol=1e-6), where


def policy(method: str, rho1: Fraction, rho2: Fraction) -> sf.Policy:
    name, assurance = METHODS[method]
    roles = dict.fromkeys(OTHERS, "quasi_identifier") | {SENSITIVE: "sensitive"}
    columns = "\n".join(f'[columns.{column}]\nrole = "{role}"' for column, role in roles.items())
    return sf.Policy.parse(
        f'{columns}\n[method]\nname = "{name}"\nassurance = "{assurance}"\n'
        f'[requirement]\nrho1 = "{rho1}"\nrho2 = "{rho2}"'
    )


def published(rows: Any, asked: sf.Policy, pool: Pool, releases: int) -> tuple[sf.Plan, list[Floats]]:
    """Publish several times, each with a fresh key; return the plan and the relative errors of each release."""
    table = sf.scan(rows, asked)
    plan = sf.plan(sf.profile(table), asked.method, asked.requirement)
    errors = []
    for _ in range(releases):
        with tempfile.TemporaryDirectory() as folder:
            release = sf.publish(table, plan, Path(folder) / "release")
            estimates = estimated(release, pool)
            check(release, pool, estimates)
        with np.errstate(divide="ignore", invalid="ignore"):  # no query without a record passes a selectivity
            errors.append(np.abs(estimates - pool.actual) / pool.actual)
    return plan, errors


# --- showing them ---------------------------------------------------------------------------------------------------


def show(pool: Pool, errors: Errors, groups: tuple[tuple[int, ...], ...]) -> None:
    """Print the mean relative errors, one row for each rho2, selectivity and group of dimensions that has queries."""
    ratios = [f"{method} / uniform" for method in METHODS if method != "uniform"]
    print(f"| rho2 | selectivity | d | queries | {' | '.join([*METHODS, *ratios])} |\n|{'---|' * 9}")
    for rho2 in RHO2:
        for selectivity in SELECTIVITY:
            for dimensions in groups:
                if not (asked := pool.passing(selectivity, dimensions)).any():
                    continue
                uniform, *others = (float(np.mean([e[asked] for e in errors[rho2, method]])) for method in METHODS)
                cells = [f"{e:.1%}" for e in (uniform, *others)] + [f"{e / uniform:.2f}" for e in others]
                name = "-".join(str(d) for d in sorted({dimensions[0], dimensions[-1]}))
                print(f"| {rho2} | {selectivity:.1%} | {name} | {asked.sum():,} | {' | '.join(cells)} |")
    print()


def spread(pool: Pool, errors: Errors) -> float:
    """Return the standard deviation of a mean error between releases, relative to it; the median over the settings."""
    found = []
    for asked in (pool.passing(selectivity, (1, 2, 3)) for selectivity in SELECTIVITY):
        for of_releases in errors.values() if asked.any() else ():
            means = [float(e[asked].mean()) for e in of_releases]
            found.append(statistics.stdev(means) / statistics.mean(means))
    return statistics.median(found)


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--releases", type=int, default=3, help="of each setting (default: 3)")
    parser.add_argument("--conditions", type=int, default=200, help="of the pool (default: 200, as in the paper)")
    parser.add_argument("--seed", type=int, default=1, help="of the pool; keys of releases are always fresh")
    options = parser.parse_args()
    start = time.perf_counter()
    rows = pq.read_table(Path(os.environ["SFUMATO_DATA"]) / FILE, columns=[*OTHERS, SENSITIVE]).slice(0, ROWS)
    columns = as_columns(rows)
    pool = draw_pool(columns, options.conditions, options.seed)
    rho1 = Fraction(int(np.bincount(columns[SENSITIVE]).max()), ROWS)
    print(f"{ROWS:,} rows, {pool.actual.size:,} queries, {options.releases} release(s) of each, rho1 = {rho1}\n")
    print("| rho2 | method | sub-tables | retention, mean of records |\n|---|---|---|---|")
    errors: Errors = {}
    for rho2 in RHO2:
        for method in METHODS:
            plan, errors[rho2, method] = published(rows, policy(method, rho1, rho2), pool, options.releases)
            kept = float(plan.figures.retention @ plan.figures.counts) / plan.rows
            print(f"| {rho2} | {method} | {len(plan.figures.mechanism.tables)} | {kept:.4f} |", flush=True)
    print()
    show(pool, errors, ((1, 2, 3),))
    show(pool, errors, ((1,), (2,), (3,)))
    if options.releases > 1:
        print(f"Standard deviation of a mean error between releases: {spread(pool, errors):.1%} of it (median).")
    print(f"Run time: {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
