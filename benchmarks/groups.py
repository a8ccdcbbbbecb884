"""Questions to releases by groups: `python -m benchmarks.groups` prints Markdown, from the root of the repository.

1. Coverage of 95% intervals of every figure, 2,000 releases a case; the real table with SFUMATO_DATA=...
2. Seconds and memory of a question to 10 million records, beside DuckDB's count of the two tables joined.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sfumato.analyst.release import open_release
from sfumato.release.folder import MANIFEST_NAME
from sfumato.values.bucket_deal import Deal, Runs
from tests.engines.grouped import manifest_of
from tests.statistical.test_figures_coverage import MEASURES, adult, synthetic
from tests.statistical.test_groups_coverage import anatomy, mixing, robust, study

ADULT = "adult_complete_45222.parquet"
GROUP_BY = "SELECT sex, disease, COUNT(*) FROM release GROUP BY sex, disease"
JOINED = (
    "SELECT sex, disease, count(*) FROM '{0}/data.parquet' JOIN '{0}/groups.parquet' USING (\"group\") GROUP BY ALL"
)


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


def header(*cells: str) -> None:
    row(*cells)
    row(*("---" for _ in cells))


# --- 1. coverage ------------------------------------------------------------------------------------------------------


def coverage_table(releases: int) -> None:
    made = synthetic()
    cases = [
        ("synthetic, l = 3", made, anatomy, 3, "table"),
        ("synthetic, l = 3", made, anatomy, 3, "population"),
        ("synthetic, cells, r = 2", made, robust, 2, "table"),
        ("synthetic, cells, some groups mixed", made, mixing, 3, "table"),
    ]
    if "SFUMATO_DATA" in os.environ:
        real = adult(Path(os.environ["SFUMATO_DATA"]) / ADULT)
        cases += [("Adult, l = 4", real, anatomy, 4, target) for target in ("table", "population")]
    print(
        f"\n### Coverage of 95% intervals, {releases:,} releases: mean over cells of 30 and more, and the worst cell\n"
    )
    header("table", "for", *MEASURES)
    for label, people, dealer, size, target in cases:
        found = study(people, dealer, size, target, releases=releases)  # type: ignore[arg-type]
        covered = [found.coverage(name) for name in MEASURES]
        row(label, target, *(f"{100 * each.mean:.1f} ({100 * each.cells.min():.1f})" for each in covered))


# --- 2. size ----------------------------------------------------------------------------------------------------------


def written(folder: Path, records: int, values: int, size: int) -> None:
    """Write a release of records with a sex, an age and a disease."""
    rng = np.random.default_rng(1)
    counts = rng.multinomial(records, rng.dirichlet(np.full(values, 20.0)))
    runs = Runs.of_table(counts, records // size)
    order = np.lexsort((rng.random(runs.pieces[0].size), runs.batch_of_piece))
    value, names = np.repeat(np.arange(values), counts), np.array([f"disease {k:04d}" for k in range(values)])
    rank = np.arange(records) - (np.cumsum(counts) - counts)[value]
    group = Deal(runs, order).group_of(value, rank)
    sex, shuffled = np.where(rng.random(records) < 0.3 + 0.4 * value / values, "F", "M"), rng.permutation(records)
    data = pa.table(
        {
            "sex": sex[shuffled],
            "age": rng.integers(18, 90, records, dtype=np.int32),
            "group": (group + 1)[shuffled].astype(np.int32),
        }
    )
    pq.write_table(data, folder / "data.parquet")
    line = np.lexsort((value, group))
    lines = {"group": (group + 1)[line].astype(np.int32), "disease": names[value[line]], "count": np.ones(records, int)}
    pq.write_table(pa.table(lines), folder / "groups.parquet")
    few = pa.table({"disease": names})  # only its values matter
    made = manifest_of(few, data, ["disease"], (int(group.max()) + 1, records), (), 0, "parquet")
    (folder / MANIFEST_NAME).write_text(made.to_json())


def asked(folder: str, query: str) -> tuple[float, float, float, float]:
    """Return seconds of the first and the second time, of the processor for the second, and MB at most."""
    release, start = open_release(folder), perf_counter()
    release.sql(query)
    first, used = perf_counter(), process_time()
    release.sql(query)
    return first - start, perf_counter() - first, process_time() - used, _most()


def joined(folder: str, query: str) -> tuple[float, float, float, float]:
    """Return the same for DuckDB's own count."""
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        start = perf_counter()
        connection.sql(query.format(folder)).fetchall()
        first, used = perf_counter(), process_time()
        connection.sql(query.format(folder)).fetchall()
        return first - start, perf_counter() - first, process_time() - used, _most()


def _most() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _alone(function: Any, *given: Any) -> Any:
    """Call a function in a process of its own, so that its peak of memory is its own too."""
    with get_context("spawn").Pool(1) as process:
        return process.apply(function, given)


def size_table(records: int, values: int = 50, size: int = 10) -> None:
    print(f"### {records:,} records, {values} values, groups of {size}\n")
    header("question", "seconds, first", "again", "of the processor", "MB")
    with tempfile.TemporaryDirectory() as folder:
        _alone(written, Path(folder), records, values, size)
        questions = [
            ("sex and disease", asked, GROUP_BY),
            ("age and disease", asked, GROUP_BY.replace("sex", "age")),
            (
                "age of women by disease",
                asked,
                "SELECT disease, AVG(age) FROM release WHERE sex = 'F' GROUP BY disease",
            ),
            ("DuckDB, the tables joined", joined, JOINED),
        ]
        for label, ask, query in questions:
            row(label, *(f"{number:.1f}" for number in _alone(ask, folder, query)))


if __name__ == "__main__":
    size_table(int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000)  # first: while this process is small
    coverage_table(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
