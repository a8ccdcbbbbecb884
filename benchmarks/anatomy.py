"""Anatomy against plain copies of the same file by pyarrow, polars and DuckDB, in one run.

    python benchmarks/anatomy.py                      Parquet, 10M rows, groups of 5
    python benchmarks/anatomy.py --diversity 8        of 8, where records of the most frequent values must be withheld
    python benchmarks/anatomy.py --verify             seconds to verify the release
    python benchmarks/anatomy.py --memory             peak memory at 5M, 20M and 50M rows

Every job runs in a process of its own; jobs take turns, so that noise hits all alike. Wall and CPU time exclude
imports. Publishing includes counting, planning, dealing, both files, checksums and bringing the release to the disk.
The yardstick is the copy with the lowest median.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import publish
from publish import CODECS, ROLES, generate, stated

COPIES = [(name, codec) for codec in CODECS for name in ("pyarrow", "polars", "duckdb")]
LARGEST_SHARE = 5.2
"""Of a diagnosis in the table: one in so many records has it."""


def anatomy(source: Path, target: Path, diversity: str) -> Callable[[], None]:
    """Count, plan and publish."""
    import sfumato as sf

    scan, profile, plan, publish = sf.scan, sf.profile, sf.plan, sf.publish  # loads them, as the copies' engines are
    columns = stated(ROLES)
    method = "anatomy" if int(diversity) < LARGEST_SHARE else "suppression"
    policy = sf.Policy.parse(f'{columns}\n[method]\nname = "{method}"\n[requirement]\nl = {diversity}')

    def run() -> None:
        table = scan(source, policy)
        publish(table, plan(profile(table), policy.method, policy.requirement), target)

    return run


def verify(source: Path, diversity: str, folder: Path) -> None:
    """Print how long a release takes to verify."""
    import sfumato as sf

    target = folder / "release"
    anatomy(source, target, diversity)()
    start = time.perf_counter()
    held = sf.open_release(target).verify().holds
    print(f"verified in {time.perf_counter() - start:.1f} s; {'all holds' if held else 'a check FAILS'}")


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
    parser.add_argument("--verify", action="store_true")
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
        if options.verify:
            verify(source, options.diversity, folder)
            return
        compare(options.diversity, source, folder, options.repeat)


if __name__ == "__main__":
    main()
