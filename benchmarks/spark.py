"""Publishing on Spark against Spark's own copy of the same files, in one session.

    python benchmarks/spark.py                              10M rows in 8 files, on local[2]
    python benchmarks/spark.py --standalone                 on a cluster of two workers that is started here
    python benchmarks/spark.py --master spark://host:7077   on a cluster that runs: workers see --folder by that path
    python benchmarks/spark.py --memory                     peak memory of the driver at 1M, 10M and 50M rows
    python benchmarks/spark.py --copies                     only the copies

Jobs take turns in one session, so that noise hits all alike, after one turn that is not counted: Java compiles while it
runs. The yardstick is the copy with the lowest median. Memory is the peak of resident memory of two processes, Python
and Java; each size is measured in a session of its own. On local[2] Java's holds the tasks too: only on a cluster is
it the driver's alone, and Java takes what --driver-memory lets it have before it tidies up.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from publish import ROLES, generate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = 8
CODECS = ("zstd", "snappy")
SIZES = (1_000_000, 10_000_000, 50_000_000)

Job = Callable[["SparkSession", Path, Path], None]


def generate_files(folder: Path, rows: int) -> None:
    """Write the table of benchmarks/publish.py in 8 files."""
    folder.mkdir()
    for number in range(FILES):
        generate(folder / f"{number}.parquet", rows // FILES, seed=number)


# --- the jobs -------------------------------------------------------------------------------------------------------


def copy(codec: str) -> Job:
    """Let Spark read the files and write them again."""

    def run(spark: SparkSession, source: Path, target: Path) -> None:
        spark.read.parquet(str(source)).write.option("compression", codec).parquet(str(target))

    return run


def perturb(order: str) -> Job:
    """Count, plan and publish; order "auto" leaves rows where they are, as their order tells nothing here."""

    def run(spark: SparkSession, source: Path, target: Path) -> None:
        import sfumato as sf

        roles = "\n".join(f'[columns.{name}]\nrole = "{role}"' for name, role in ROLES.items())
        requirement = '[method]\nname = "uniform"\n[requirement]\nrho1 = 0.2\nrho2 = 0.5'
        policy = sf.Policy.parse(f'{roles}\n{requirement}\n[output]\norder = "{order}"')
        table = sf.scan(spark.read.parquet(str(source)), policy)
        sf.publish(table, sf.plan(sf.profile(table), **policy.plan_arguments()), target)

    return run


COPIES = {f"Spark's copy, {codec}": copy(codec) for codec in CODECS}
OURS = {"sfumato": perturb("auto"), "sfumato, shuffled": perturb("shuffle")}


# --- running them ---------------------------------------------------------------------------------------------------


def compare(spark: SparkSession, jobs: dict[str, Job], source: Path, folder: Path, repeat: int) -> None:
    """Print the median of each job's seconds, and its ratio to the best copy."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(1 + repeat):
        for name, job in jobs.items():
            seconds[name].append(timed(job, spark, source, folder))
    medians = {name: statistics.median(turns[1:]) for name, turns in seconds.items()}
    yardstick = min(COPIES, key=lambda name: medians[name])
    print("| job | wall s | x copy | best wall s |\n|---|---|---|---|")
    for name, median in medians.items():
        mark = " (yardstick)" if name == yardstick else ""
        print(f"| {name}{mark} | {median:.2f} | {median / medians[yardstick]:.2f} | {min(seconds[name][1:]):.2f} |")
    print("peak memory of the driver: " + told(peaks(spark)))


def timed(job: Job, spark: SparkSession, source: Path, folder: Path) -> float:
    """Run a job once and return its seconds; what it wrote is deleted."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        start = time.perf_counter()
        job(spark, source, Path(scratch) / "out")
        return time.perf_counter() - start


def peaks(spark: SparkSession) -> dict[str, float]:
    """Return the peak of resident memory of the driver's two processes so far, in MB."""
    java = spark.sparkContext._gateway.proc.pid  # of the program that was started, which becomes Java
    return {"Python": peak("self"), "Java": peak(java)}


def peak(process: int | str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def told(memory: dict[str, float]) -> str:
    return ", ".join(f"{name} {megabytes:.0f} MB" for name, megabytes in memory.items())


def work(options: argparse.Namespace, name: str, source: Path) -> None:
    """Run one job in a session of this process and print the peaks."""
    with opened(options) as spark:
        timed((COPIES | OURS)[name], spark, source, source.parent)
        print(json.dumps(peaks(spark)))


def memory(options: argparse.Namespace, jobs: dict[str, Job], folder: Path) -> None:
    """Print the driver's peaks of each job at each size."""
    for rows in SIZES:
        source = folder / f"table-{rows}"
        generate_files(source, rows)
        for name in jobs:
            command = [sys.executable, __file__, *sys.argv[1:], "--master", options.master, "--work", name, str(source)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            print(f"{rows:>11,} rows, {name}: {told(json.loads(done.stdout.splitlines()[-1]))}", flush=True)


def opened(options: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    """Open the session."""
    from sfumato.spark_session import session

    return session(options.master, {"spark.driver.memory": options.driver_memory})


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a master and two workers of one core each, and give the master's URL."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.spark.cluster import cluster

    folder.mkdir()
    with cluster(folder) as started:
        yield started.url


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--standalone", action="store_true", help="start a cluster as the tests do")
    parser.add_argument("--driver-memory", default="1g")
    parser.add_argument("--copies", action="store_true", help="only Spark's copies")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--folder", type=Path, help="where files are made (about 3 GB); a temporary one by default")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    jobs = COPIES if options.copies else COPIES | OURS
    if options.work:
        work(options, options.work[0], Path(options.work[1]))
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch, ExitStack() as ends:
        folder = Path(scratch)
        if options.standalone:
            options.master = ends.enter_context(standalone(folder / "cluster"))
        if options.memory:
            memory(options, jobs, folder)
            return
        generate_files(folder / "table", options.rows)
        compare(ends.enter_context(opened(options)), jobs, folder / "table", folder, options.repeat)


if __name__ == "__main__":
    main()
