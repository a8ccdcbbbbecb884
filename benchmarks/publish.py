"""Publishing against plain copies of the same file by pyarrow, polars and DuckDB, in one run.

    python benchmarks/publish.py                      Parquet, 20M rows, with and without a shuffle
    python benchmarks/publish.py --method small-domain    the same with another method; subset/card, subset/set, and
                                                      subset/set/5 for sets of 5 values
    python benchmarks/publish.py --method subset/set --own    copies of the release's own file beside, which has lists
    python benchmarks/publish.py --csv                CSV
    python benchmarks/publish.py --memory             peak memory at 5M, 20M and 50M rows

Every job runs in a process of its own; jobs take turns, so that noise hits all alike. Wall and CPU time exclude
imports; publishing includes counting, the row-order test, planning, checksums and bringing the release to the disk. The
yardstick is the copy with the lowest median.

Sets are lists of a Parquet file. Of 20M rows, on two cores that others used too (so CPU time; polars' copy took 2.6 s):

    cards 2.3 s    sets of 8 values 3.8 s    sets of 20 values 5.6 s, 400M values in all    at most 364 MB in memory

Arrow's writer alone took 2.9 s for the lists of 20, whatever the pages and the compression were: 7 ns a value, in one
thread, more than polars' copy of all columns. A copy of the release's own file of 2M rows took Arrow 2.2 times the CPU
time of publishing it, and polars and DuckDB 3.3 times.
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

TEXT = ("sex", "region", "education", "diagnosis")
ROLES = {
    "person": "other", "age": "quasi_identifier", "sex": "quasi_identifier", "region": "quasi_identifier",
    "education": "quasi_identifier", "income": "other", "visit": "other", "diagnosis": "sensitive",
}  # fmt: skip
AS_IS = ("person", "visit")  # nearly unique numbers and days: published, so that a copy is compared with a copy
CODECS = {"zstd": 1, "snappy": None}
ORDERS = {"plain": "keep", "shuffle": "shuffle"}


def stated(roles: dict[str, str]) -> str:
    """Return the columns' sections of a policy."""
    reason = 'publish_as_is = "the table is made up"\n'
    return "".join(
        f'[columns.{name}]\nrole = "{role}"\n{reason if name in AS_IS and role != "identifier" else ""}'
        for name, role in roles.items()
    )


# --- the table ------------------------------------------------------------------------------------------------------


def generate(path: Path, rows: int, seed: int = 1) -> None:
    """Write a table of 8 columns in random order: 4 of text, 4 of numbers and dates, row groups of 2^20 rows."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    names = {"sex": 2, "region": 50, "education": 16, "diagnosis": 100}
    writer = None
    for start in range(0, rows, 1 << 20):
        n = min(1 << 20, rows - start)
        columns = {"person": rng.integers(0, 1 << 40, n), "age": rng.integers(0, 100, n)}
        for name, size in names.items():
            weights = 1 / np.arange(1, size + 1)
            codes = rng.choice(size, n, p=weights / weights.sum()).astype(np.int32)
            columns[name] = pa.DictionaryArray.from_arrays(codes, [f"{name} {k:03d}" for k in range(size)])
        columns["income"] = rng.integers(0, 200_000, n).astype(np.int32)
        columns["visit"] = pa.array(rng.integers(15_000, 20_000, n).astype(np.int32)).cast(pa.date32())
        table = pa.table({name: columns[name] for name in ROLES})
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def as_csv(parquet: Path, path: Path) -> None:
    """Write the same table as CSV."""
    import pyarrow.parquet as pq
    from pyarrow import csv

    file = pq.ParquetFile(parquet)
    with csv.CSVWriter(path, file.schema_arrow, write_options=csv.WriteOptions(quoting_style="none")) as writer:
        for batch in file.iter_batches():
            writer.write_batch(batch)


# --- the jobs; each returns a function to be timed, imports done ----------------------------------------------------


def copy_pyarrow(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Copy by record batches, strings as dictionaries."""
    import pyarrow.parquet as pq

    def run() -> None:
        leaves = [f"{name}{end}" for name in TEXT for end in ("", ".list.element")]
        schema = pq.read_metadata(source).schema
        paths = {schema.column(k).path for k in range(len(schema.names))}
        file = pq.ParquetFile(source, read_dictionary=[leaf for leaf in leaves if leaf in paths], pre_buffer=False)
        with pq.ParquetWriter(target, file.schema_arrow, compression=codec, compression_level=CODECS[codec]) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group))

    return run


def copy_polars(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Copy by a streaming scan and sink."""
    import polars as pl

    return lambda: pl.scan_parquet(source).sink_parquet(
        target, compression=codec, compression_level=CODECS[codec], row_group_size=1 << 20
    )


def copy_duckdb(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Copy by COPY, in any order."""
    import duckdb

    level = f", COMPRESSION_LEVEL {CODECS[codec]}" if CODECS[codec] else ""
    query = f"COPY (FROM '{source}') TO '{target}' (FORMAT parquet, COMPRESSION {codec}{level})"
    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    return lambda: connection.execute(query)


def csv_pyarrow(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Copy text by record batches; quotes only where needed would be slower, none are needed here."""
    import pyarrow as pa
    from pyarrow import csv

    def run() -> None:
        convert = csv.ConvertOptions(column_types=dict.fromkeys(ROLES, pa.string()))
        reader = csv.open_csv(source, convert_options=convert)
        options = csv.WriteOptions(quoting_style="none")
        with csv.CSVWriter(target, reader.schema, write_options=options) as writer:
            for batch in reader:
                writer.write_batch(batch)

    return run


def csv_polars(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Copy text by a streaming scan and sink."""
    import polars as pl

    return lambda: pl.scan_csv(source, infer_schema=False).sink_csv(target)


def csv_duckdb(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Copy text by COPY, in any order."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET preserve_insertion_order = false")
    return lambda: connection.execute(
        f"COPY (FROM read_csv('{source}', all_varchar = true)) TO '{target}' (FORMAT csv)"
    )


def publish(source: Path, target: Path, codec: str) -> Callable[[], None]:
    """Count, plan and publish."""
    import numpy.ma  # numpy loads it and the next one when they are first used
    import numpy.random  # noqa: F401

    import sfumato as sf

    scan, profile, plan, publish = sf.scan, sf.profile, sf.plan, sf.publish  # loads them, as the copies' engines are
    csv = source.suffix == ".csv"
    text = stated(ROLES)
    named, order = codec.split()
    method, form, members = (*named.split("/"), "", "")[:3]
    options = (f'form = "{form}"\n' if form else "") + (f"members = {members}\n" if members else "")
    output = f'[output]\nformat = "{"csv" if csv else "parquet"}"\norder = "{ORDERS[order]}"'
    requirement = "[requirement]\nrho1 = 0.2\nrho2 = 0.5"
    policy = sf.Policy.parse(f'{text}\n[method]\nname = "{method}"\n{options}{requirement}\n{output}')

    def run() -> None:
        table = scan(source, policy)
        publish(table, plan(profile(table), policy.method, policy.requirement), target)

    return run


JOBS: dict[str, Callable[[Path, Path, str], Callable[[], None]]] = {
    "pyarrow": copy_pyarrow, "polars": copy_polars, "duckdb": copy_duckdb,
    "csv pyarrow": csv_pyarrow, "csv polars": csv_polars, "csv duckdb": csv_duckdb, "sfumato": publish,
}  # fmt: skip


# --- running them ---------------------------------------------------------------------------------------------------


def work(job: str, codec: str, source: str, target: str) -> None:
    """Run one job in this process and print wall, CPU and peak memory."""
    run = JOBS[job](Path(source), Path(target), codec)
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak_memory()}))


def peak_memory() -> float:
    """Return the peak resident memory of this process in MB (getrusage would count the parent's before exec)."""
    status = Path("/proc/self/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


def measured(job: str, codec: str, source: Path, folder: Path) -> dict[str, float]:
    """Run one job in a process of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        command = [sys.executable, __file__, "--work", job, codec, str(source), f"{scratch}/out"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def compare(jobs: list[tuple[str, str]], copies: int, source: Path, folder: Path, repeat: int) -> None:
    """Print a table; the first `copies` jobs are the plain copies."""
    results: dict[tuple[str, str], list[dict[str, float]]] = {job: [] for job in jobs}
    for _ in range(repeat):
        for job in jobs:
            results[job].append(measured(*job, source, folder))
    medians = {
        job: {key: statistics.median(r[key] for r in runs) for key in ("wall", "cpu", "peak")}
        for job, runs in results.items()
    }
    yardstick = min(jobs[:copies], key=lambda job: medians[job]["wall"])
    base = medians[yardstick]
    print(
        "| job | codec | wall s | x copy | CPU s | x copy | best wall s | peak MB |\n|---|---|---|---|---|---|---|---|"
    )
    for job in jobs:
        m, best = medians[job], min(r["wall"] for r in results[job])
        mark = " (yardstick)" if job == yardstick else ""
        print(
            f"| {job[0]}{mark} | {job[1]} | {m['wall']:.2f} | {m['wall'] / base['wall']:.2f} | {m['cpu']:.2f} | "
            f"{m['cpu'] / base['cpu']:.2f} | {best:.2f} | {m['peak']:.0f} |",
            flush=True,
        )


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--method", default="uniform")
    parser.add_argument("--csv", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--own", action="store_true")
    parser.add_argument(
        "--folder", type=Path, help="where files are made (needs about 3 GB); a temporary one by default"
    )
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(*options.work)
        return
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        source = folder / "table.parquet"
        ours = [("sfumato", f"{options.method} {order}") for order in ORDERS]
        if options.memory:
            for rows in (5_000_000, 20_000_000, 50_000_000):
                generate(source, rows)
                peaks = [f"{measured(*job, source, folder)['peak']:.0f} MB" for job in ours]
                print(f"{rows:>11,} rows: peak {peaks[0]}, with a shuffle {peaks[1]}", flush=True)
            return
        generate(source, options.rows)
        if options.csv:
            as_csv(source, folder / "table.csv")
            jobs = [("csv pyarrow", "-"), ("csv polars", "-"), ("csv duckdb", "-"), *ours]
            compare(jobs, 3, folder / "table.csv", folder, options.repeat)
            return
        jobs = [(name, codec) for codec in CODECS for name in ("pyarrow", "polars", "duckdb")]
        compare([*jobs, *ours], len(jobs), source, folder, options.repeat)
        if options.own:
            publish(source, folder / "release", f"{options.method} plain")()
            print("\nThe release's own file:")
            compare(jobs, len(jobs), folder / "release" / "data.parquet", folder, options.repeat)


if __name__ == "__main__":
    main()
