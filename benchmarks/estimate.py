"""Queries with error bars, against DuckDB's own count of the same columns of the same file, in one process and run.

    python benchmarks/estimate.py                     20 million rows, medians of 7
    python benchmarks/estimate.py --rows 5000000 --repeat 5 --keep folder

A release is made by uniform perturbation and one by small domain randomization (the table of benchmarks/publish.py:
100 diagnoses). Every pair of queries is run alternately, so that a busy machine slows both. DuckDB opens the file anew
for every query, as sfumato does.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import duckdb
from publish import generate, publish

import sfumato as sf

SET = "SELECT {columns}, COUNT(*) FROM release GROUP BY {columns}"


class Case(NamedTuple):
    """A query, what plain DuckDB is asked, and the largest ratio of their times that is allowed (None: no limit)."""

    name: str
    method: str
    query: str
    plain: str
    limit: float | None


def grouped(columns: str, method: str, limit: float) -> Case:
    """Return a count by columns."""
    text = SET.format(columns=columns)
    return Case(f"by {columns}", method, text, text, limit)


def selected(method: str) -> Case:
    """Return a count under a condition on the randomized column."""
    text = "SELECT COUNT(*) FROM release WHERE diagnosis = 'diagnosis 003'"
    return Case("one diagnosis", method, text, text, 3)


MANY = "SELECT COUNT(*) FROM release WHERE diagnosis IN ('diagnosis 003', 'diagnosis 010') AND sex = 'sex 001'"
MEAN = "SELECT sex, AVG(income) FROM release WHERE diagnosis = 'diagnosis 003' GROUP BY sex"
CASES = [
    grouped("diagnosis", "uniform", 1.1),
    grouped("sex, diagnosis", "uniform", 1.1),
    grouped("region, education, diagnosis", "uniform", 1.1),
    selected("uniform"),
    Case("two diagnoses of women", "uniform", MANY, MANY, 3),
    Case("mean income of one diagnosis by sex", "uniform", MEAN, MEAN, None),
    grouped("diagnosis", "small-domain", 2.5),
    grouped("sex, diagnosis", "small-domain", 1.8),
    grouped("region, education, diagnosis", "small-domain", 1.8),
    selected("small-domain"),
    Case("two diagnoses of women", "small-domain", MANY, MANY, 3),
    Case("mean income of one diagnosis by sex", "small-domain", MEAN, MEAN, None),
    Case("cube of sex and diagnosis", "uniform", SET.format(columns="sex, diagnosis").replace(
        "GROUP BY sex, diagnosis", "GROUP BY CUBE (sex, diagnosis)"), SET.format(columns="sex, diagnosis"), None),
]  # fmt: skip


def plain(data: Path, query: str) -> Callable[[], object]:
    """Return DuckDB's own query."""

    def run() -> object:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE VIEW release AS SELECT * FROM read_parquet('{data}')")
            return connection.sql(query).to_arrow_table()

    return run


def timed(run: Callable[[], object]) -> float:
    """Return the seconds that a run takes."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def compare(case: Case, folder: Path, repeat: int) -> None:
    """Print the medians of both, and their ratio."""
    release = sf.open_release(folder / case.method)
    ours, theirs = (lambda: release.sql(case.query)), plain(release.data, case.plain)
    times = [(timed(ours), timed(theirs)) for _ in range(repeat + 1)][1:]  # the first run loads and warms up
    own, other = (statistics.median(column) for column in zip(*times, strict=True))
    ratio = own / other
    verdict = "" if case.limit is None else f"{case.limit} {'met' if ratio <= case.limit else 'NOT MET'}"
    print(f"| {case.method} | {case.name} | {other * 1000:,.0f} | {own * 1000:,.0f} | {ratio:.2f} | {verdict} |")


def main() -> None:
    """Make the releases and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="a folder for the releases, used again if they are there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.keep or Path(temporary)
        folder.mkdir(exist_ok=True)
        missing = [method for method in ("uniform", "small-domain") if not (folder / method).exists()]
        if missing:
            generate(folder / "table.parquet", arguments.rows)
        for method in missing:
            publish(folder / "table.parquet", folder / method, f"{method} plain")()
        print("| release | query | DuckDB, ms | sfumato, ms | ratio | limit |\n|---|---|---|---|---|---|")
        for case in CASES:
            compare(case, folder, arguments.repeat)


if __name__ == "__main__":
    main()
