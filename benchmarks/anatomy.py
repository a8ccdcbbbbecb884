"""Anatomy against plain copies of the same file by pyarrow, polars and DuckDB, in one run.

    python benchmarks/anatomy.py                      Parquet, 10M rows, groups of 5
    python benchmarks/anatomy.py --diversity 8        of 8, where records of the most frequent values must be withheld
    python benchmarks/anatomy.py --memory             peak memory at 5M, 20M and 50M rows

Every job runs in a process of its own; jobs take turns, so that noise hits all alike. Wall and CPU time exclude
imports. Anatomy counts, deals, writes both tables and brings them to the disk. The yardstick is the copy with the
lowest median.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import publish
from publish import CODECS, ROLES, generate

COPIES = [(name, codec) for codec in CODECS for name in ("pyarrow", "polars", "duckdb")]


def anatomy(source: Path, target: Path, diversity: str) -> Callable[[], None]:
    """Count, deal and write the two tables."""
    import numpy as np

    import sfumato as sf
    from sfumato.engines.anatomy import anatomized, sensitive_codes
    from sfumato.engines.mapping import RowMapper, integer_types
    from sfumato.randomness import SecretKey

    scan, profile = sf.scan, sf.profile
    columns = "\n".join(f'[columns.{name}]\nrole = "{role}"' for name, role in ROLES.items())
    requirement = '[method]\nname = "uniform"\n[requirement]\nrho1 = 0.2\nrho2 = 0.5'
    policy, ell = sf.Policy.parse(f"{columns}\n{requirement}"), int(diversity)

    def run() -> None:
        table, key = scan(source, policy), SecretKey.fresh()
        counted = profile(table)
        groups = most_groups(counted.counts.tolist(), ell)
        withheld = np.maximum(counted.counts - groups, 0)
        mapper = RowMapper(table.schema, table.source, (), key)
        codes = sensitive_codes(table.source, table.schema, counted.domain)
        types = integer_types(counted.domain.parts, table.source)
        rows = (batch for _, batch in mapper.batches())
        target.mkdir()
        tables = anatomized(rows, codes, counted.domain, counted.counts, withheld, groups, types, key, target)
        write(tables.rows, target / "rows.parquet")
        write(tables.values, target / "values.parquet")

    return run


def most_groups(counts: list[int], ell: int) -> int:
    """Return the most groups of at least l records, none with a value twice, if the excess of a value is withheld."""
    groups = sum(counts) // ell
    while (kept := sum(min(count, groups) for count in counts)) < ell * groups:
        groups = kept // ell
    return groups


def write(batches: Iterator[Any], path: Path) -> None:
    """Write clean row groups, made in a thread, and bring the file to the disk, as publishing does."""
    from sfumato.engines.cleaning import row_groups
    from sfumato.engines.pipeline import ahead
    from sfumato.engines.writers import ParquetFormat

    kind, writer = ParquetFormat(), None
    for group in ahead(row_groups(batches, kind.rows_at_once)):
        piece = kind.prepared(group)
        writer = writer or kind.writer(path, piece.schema)
        writer.write(piece)
        del group, piece
    assert writer is not None
    writer.close()
    with open(path, "rb") as file:
        os.fsync(file.fileno())


# --- running them ---------------------------------------------------------------------------------------------------


def measured(job: str, option: str, source: Path, folder: Path) -> dict[str, float]:
    """Run one job in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, __file__, "--work", job, option, str(source), f"{scratch}/out"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def compare(diversity: str, source: Path, folder: Path, repeat: int) -> None:
    """Print a table: medians of wall, CPU and peak memory, and times the fastest copy."""
    jobs = [*COPIES, ("anatomy", diversity)]
    runs: dict[tuple[str, str], list[dict[str, float]]] = {job: [] for job in jobs}
    for _ in range(repeat):
        for job in jobs:
            runs[job].append(measured(*job, source, folder))
    medians = {job: {key: statistics.median(run[key] for run in runs[job]) for key in runs[job][0]} for job in jobs}
    base = min((medians[job] for job in COPIES), key=lambda median: median["wall"])
    print("| job | codec or l | wall s | x copy | CPU s | x copy | peak MB |\n|---|---|---|---|---|---|---|")
    for (name, option), m in medians.items():
        ratios = [m[key] / base[key] for key in ("wall", "cpu")]
        mark = " (yardstick)" if m is base else ""
        print(
            f"| {name}{mark} | {option} | {m['wall']:.2f} | {ratios[0]:.2f} | {m['cpu']:.2f} | {ratios[1]:.2f} | "
            f"{m['peak']:.0f} |",
            flush=True,
        )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--diversity", default="5")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument(
        "--folder", type=Path, help="where files are made (needs about 3 GB); a temporary one by default"
    )
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        publish.JOBS["anatomy"] = anatomy
        publish.work(*options.work)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        source = folder / "table.parquet"
        if options.memory:
            for rows in (5_000_000, 20_000_000, 50_000_000):
                generate(source, rows)
                print(f"{rows:>11,} rows: peak {measured('anatomy', options.diversity, source, folder)['peak']:.0f} MB")
            return
        generate(source, options.rows)
        compare(options.diversity, source, folder, options.repeat)


if __name__ == "__main__":
    main()
