"""Publishing on Spark: against Spark's copy of the same files, against the embedded engine, and the driver's memory.

    python benchmarks/spark.py                              10M rows in 8 files, on local[2]
    python benchmarks/spark.py --standalone                 on a cluster of two workers that is started here
    python benchmarks/spark.py --master spark://host:7077   on a cluster that runs: workers see --folder by that path
    python benchmarks/spark.py --copies                     only the copies
    python benchmarks/spark.py --identity                   rows that differ between three engines, for each method
    python benchmarks/spark.py --memory --standalone        peak memory of the driver at 1M and 50M rows

Jobs take turns in one session, so that noise hits all alike, after one turn that is not counted: Java compiles while it
runs. The yardstick is the copy with the lowest median. "x copy" is the median of the ratios of each turn, and the least
of them. "perturbed" has its plan ready; the others are counted and planned too.

Memory is the peak of resident memory of two processes, Python and Java; each size is measured in a session of its own.
On local[2] Java's holds the tasks too: only on a cluster is it the driver's alone. Java takes what --driver-memory lets
it have before it tidies up, so give it little. The files of a large table are those of a small one under many names.

That rows are the same is seen from hashes of 64 bits, also of their numbers where they keep their order: a row that
differs is missed with a probability of about 1e-12.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from publish import ROLES, generate, stated

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sfumato import Policy, Release

FILES = 8
CODECS = ("zstd", "snappy")
SIZES = (1_000_000, 50_000_000)
SEED = 1
FEW = {"age": "other", "region": "other"}
"""Roles where combinations of the quasi-identifiers count."""
METHODS: dict[str, tuple[str, dict[str, str]]] = {
    "uniform": ("rho1 = 0.2\nrho2 = 0.5", {}),
    "fine-grain": ("rho1 = 0.2\nrho2 = 0.5", {}),
    "small-domain": ("rho1 = 0.2\nrho2 = 0.5", {}),
    "randomized-response": ("risk_limit = 0.194", FEW),
    "anatomy": ("l = 5", {}),
    "suppression": ("l = 8", {}),
    "robust-anatomy": ("r = 3", FEW),
}
"""Requirement, and roles that are others than usual."""

Job = Callable[["SparkSession", Path, Path], Callable[[], object]]
"""Makes ready, and returns what is timed."""


# --- the table ------------------------------------------------------------------------------------------------------


def generate_files(folder: Path, rows: int) -> None:
    """Write the table of benchmarks/publish.py in 8 files."""
    folder.mkdir()
    for number in range(FILES):
        generate(folder / f"{number}.parquet", rows // FILES, seed=number)


def repeat_files(source: Path, folder: Path, times: int) -> None:
    """Make a table that has the files of another so many times."""
    folder.mkdir()
    for file in source.iterdir():
        for number in range(times):
            os.link(file, folder / f"{number}-{file.name}")


def policy_for(method: str, order: str = "keep") -> Policy:
    """Return the policy for a method; order "keep" leaves rows where they are."""
    import sfumato as sf

    requirement, others = METHODS[method]
    roles = stated(ROLES | others)
    known = 'attribute_sets = [["sex", "education"]]\n' if method == "robust-anatomy" else ""
    asked = f'[method]\nname = "{method}"\n{known}[requirement]\n{requirement}'
    return sf.Policy.parse(f'{roles}\n{asked}\n[output]\norder = "{order}"')


# --- the jobs -------------------------------------------------------------------------------------------------------


def copy(codec: str) -> Job:
    """Let Spark read the files and write them again."""

    def ready(spark: SparkSession, source: Path, target: Path) -> Callable[[], object]:
        return lambda: spark.read.parquet(str(source)).write.option("compression", codec).parquet(str(target))

    return ready


def publish(method: str, order: str = "keep") -> Job:
    """Count, plan and publish."""

    def ready(spark: SparkSession, source: Path, target: Path) -> Callable[[], object]:
        import sfumato as sf

        policy = policy_for(method, order)

        def run() -> object:
            table = sf.scan(spark.read.parquet(str(source)), policy)
            return sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), target)

        return run

    return ready


def perturb(spark: SparkSession, source: Path, target: Path) -> Callable[[], object]:
    """Publish by a plan that is ready."""
    import sfumato as sf

    policy = policy_for("uniform")
    counted = sf.profile(sf.scan(spark.read.parquet(str(source)), policy))
    plan = sf.plan(counted, policy.method, policy.requirement)
    return lambda: sf.publish(sf.scan(spark.read.parquet(str(source)), policy), plan, target)


COPIES = {f"Spark's copy, {codec}": copy(codec) for codec in CODECS}
OURS = {
    "perturbed": perturb,
    "uniform": publish("uniform"),
    "uniform, shuffled": publish("uniform", "shuffle"),
    "anatomy": publish("anatomy"),
}
JOBS = COPIES | OURS


# --- against the copy -----------------------------------------------------------------------------------------------


def compare(spark: SparkSession, jobs: dict[str, Job], source: Path, folder: Path, repeat: int) -> None:
    """Print the median of each job's seconds, and its ratio to the best copy."""
    seconds: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(1 + repeat):
        for name, job in jobs.items():
            seconds[name].append(timed(job, spark, source, folder))
    turns = {name: of_job[1:] for name, of_job in seconds.items()}
    yardstick = min(COPIES, key=lambda name: statistics.median(turns[name]))
    print("| job | wall s | best wall s | x copy | least x copy |\n|---|---|---|---|---|")
    for name, of_job in turns.items():
        ratios = [one / other for one, other in zip(of_job, turns[yardstick], strict=True)]
        times = f"{statistics.median(of_job):.2f} | {min(of_job):.2f}"
        mark = " (yardstick)" if name == yardstick else ""
        print(f"| {name}{mark} | {times} | {statistics.median(ratios):.2f} | {min(ratios):.2f} |")
    print("peak memory of the driver: " + told(peaks(spark)))


def timed(job: Job, spark: SparkSession, source: Path, folder: Path) -> float:
    """Run a job once and return its seconds; what it wrote is deleted."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        run = job(spark, source, Path(scratch) / "out")
        start = time.perf_counter()
        run()
        return time.perf_counter() - start


# --- memory ---------------------------------------------------------------------------------------------------------


def peaks(spark: SparkSession) -> dict[str, float]:
    """Return the peak of resident memory of the driver's two processes so far, in MB."""
    java = spark.sparkContext._gateway.proc.pid  # of the program that was started, which becomes Java
    return {"Python": peak("self"), "Java": peak(java)}


def peak(process: int | str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def told(memory: dict[str, float]) -> str:
    return ", ".join(f"{name} {megabytes:.0f} MB" for name, megabytes in memory.items())


def memory(options: argparse.Namespace, jobs: dict[str, Job], folder: Path) -> None:
    """Print the driver's peaks of each job at each size."""
    generate_files(folder / "some", min(options.sizes))
    for rows in options.sizes:
        repeat_files(folder / "some", folder / f"table-{rows}", rows // min(options.sizes))
        for name in jobs:
            found = in_new_process(options, "peaks", name, str(folder / f"table-{rows}"))
            print(f"{rows:>11,} rows, {name}: {told(found['peaks'])}, {found['seconds']:.0f} s", flush=True)


def work_peaks(spark: SparkSession, name: str, source: str) -> dict[str, Any]:
    """Run one job, and return the peaks."""
    seconds = timed(JOBS[name], spark, Path(source), Path(source).parent)
    return {"seconds": seconds, "peaks": peaks(spark)}


# --- identity -------------------------------------------------------------------------------------------------------


def identity(options: argparse.Namespace, folder: Path) -> None:
    """Publish by each method on three engines, by one plan and one key, and print how many rows differ."""
    generate_files(folder / "table", options.rows)
    with standalone(folder / "cluster") as cluster:
        for method in options.methods:
            seconds = {"embedded": embedded(method, folder)}
            for engine, master in (("local[2]", "local[2]"), ("standalone", cluster)):
                options.master = master
                seconds[engine] = in_new_process(options, "release", method, str(folder), engine)["seconds"]
            times = ", ".join(f"{engine} {number:.1f} s" for engine, number in seconds.items())
            for engine in list(seconds)[1:]:
                here, there = (opened_release(folder, name, method) for name in ("embedded", engine))
                found = differing(here, there, folder)
                order = "sorted" if there.manifest.data.shuffled else "in order"
                print(f"{method}, {engine}: {found} of {there.manifest.data.rows:,} rows differ ({order})", flush=True)
            print(f"{method}: {times}", flush=True)


def embedded(method: str, folder: Path) -> float:
    """Plan, publish here, and keep the plan; return the seconds of publishing."""
    import sfumato as sf
    from sfumato.values.randomness import SecretKey

    table = sf.scan(folder / "table", policy_for(method))
    plan = sf.plan(sf.profile(table), table.policy.method, table.policy.requirement)
    (folder / f"{method}.plan").write_bytes(pickle.dumps(plan))
    start = time.perf_counter()
    sf.publish(table, plan, folder / f"embedded {method}", key=SecretKey.from_seed(SEED))
    return time.perf_counter() - start


def work_release(spark: SparkSession, method: str, place: str, engine: str) -> dict[str, Any]:
    """Publish on Spark by the plan that is kept."""
    import sfumato as sf
    from sfumato.values.randomness import SecretKey

    folder = Path(place)
    plan = pickle.loads((folder / f"{method}.plan").read_bytes())
    table = sf.scan(spark.read.parquet(str(folder / "table")), policy_for(method))
    start = time.perf_counter()
    sf.publish(table, plan, folder / f"{engine} {method}", key=SecretKey.from_seed(SEED))
    return {"seconds": time.perf_counter() - start}


def opened_release(folder: Path, engine: str, method: str) -> Release:
    import sfumato as sf

    return sf.open_release(folder / f"{engine} {method}")


def differing(here: Release, there: Release, folder: Path) -> int:
    """Return how many rows one release has and the other has not, of both tables."""
    found = unlike(here.data_files, there.data_files, not there.manifest.data.shuffled, folder)
    return found + (unlike(here.groups_files, there.groups_files, False, folder) if here.groups_files else 0)


def unlike(here: list[Path], there: list[Path], in_order: bool, folder: Path) -> int:
    """Count what remains when hashes of the rows of one are added and those of the other taken away."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = '{folder}'")
        number = "row_number() OVER ()" if in_order else "0"
        hashes = [f"SELECT hash(t, {number}) AS h, {n} AS n FROM read_parquet(?) t" for n in (1, -1)]
        query = f"SELECT h, sum(n) AS n FROM ({' UNION ALL '.join(hashes)}) GROUP BY h"
        found = connection.execute(f"SELECT sum(abs(n)) FROM ({query})", [list(map(str, here)), list(map(str, there))])
        return int((found.fetchone() or (0,))[0])


# --- running them ---------------------------------------------------------------------------------------------------


def in_new_process(options: argparse.Namespace, *work: str) -> Any:
    """Do some work in a session of its own, and return what it prints."""
    settings = ["--master", options.master, "--driver-memory", options.driver_memory]
    command = [sys.executable, __file__, *settings, "--work", *work]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(done.stdout.splitlines()[-1])


WORK: dict[str, Callable[..., dict[str, Any]]] = {"peaks": work_peaks, "release": work_release}


def opened(options: argparse.Namespace) -> AbstractContextManager[SparkSession]:
    """Open the session."""
    from sfumato.release.spark_session import session

    return session(options.master, {"spark.driver.memory": options.driver_memory})


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """Start a master and two workers of one core each, and give the master's URL."""
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from tests.spark.cluster import cluster

    folder.mkdir()
    with cluster(folder) as started:
        yield started.url


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--standalone", action="store_true", help="start a cluster as the tests do")
    parser.add_argument("--driver-memory", default="1g")
    parser.add_argument("--copies", action="store_true", help="only Spark's copies")
    parser.add_argument("--jobs", nargs="+", choices=JOBS, help="only these, and the copies unless it is for memory")
    parser.add_argument("--identity", action="store_true")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="for --identity")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="for --memory: multiples of the least")
    parser.add_argument("--folder", type=Path, help="where files are made (about 5 GB); a temporary one by default")
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Run what the command line asks for."""
    options = arguments()
    if options.work:
        with opened(options) as spark:
            print(json.dumps(WORK[options.work[0]](spark, *options.work[1:])))
        return
    ours = {name: JOBS[name] for name in options.jobs} if options.jobs else OURS
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch, ExitStack() as ends:
        folder = Path(scratch)
        if options.identity:
            identity(options, folder)
            return
        if options.standalone:
            options.master = ends.enter_context(standalone(folder / "cluster"))
        if options.memory:
            memory(options, ours, folder)
            return
        generate_files(folder / "table", options.rows)
        jobs = COPIES if options.copies else COPIES | ours
        compare(ends.enter_context(opened(options)), jobs, folder / "table", folder, options.repeat)


if __name__ == "__main__":
    main()
