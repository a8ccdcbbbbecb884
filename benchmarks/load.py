"""What large, concurrent and long work takes, in CPU seconds and memory: `python benchmarks/load.py PART`.

rows         50M rows of 8 columns: published in their order and shuffled, verified, and asked one question
columns      2,000 columns, and a proposal for 10,000: init, profile, plan, publish, verify, estimate
domain       a secret of 1M values, published as values (uniform) and as cards (subset): publish, verify, estimate
groups       10^6 groups of records (anatomy): publish, verify, estimate; and a question with 10^6 rows (GROUP BY)
concurrent   200 questions at once, by threads and by processes, forked and spawned: each answer equal to the serial one
soak         an hour of questions, models, checks and small releases in one process, without growth

Every step runs in a process of its own, one after another; a line tells its CPU seconds and its peak memory, both with
the imports. A limit of memory is stated for each; the exit code is 1 where one is exceeded, where answers differ, or
where a process grows. Memory, files and threads are read from /proc, so this runs on Linux. `rows` needs 10 GB of disk.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PEAK = "SFUMATO_PEAK"
"""Names the file in which a command leaves its peak memory: what getrusage tells of a child counts its parent's."""
MAIN = (
    sys.executable,
    "-c",
    "import atexit, os, re\n"
    "status = lambda: re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]\n"
    f"atexit.register(lambda: open(os.environ['{PEAK}'], 'w').write(status()))\n"
    "from sfumato.cli.main import main; main()",
)
QUESTIONS_AT_ONCE, ASKERS = 200, 16
ROWS, COLUMNS, PROPOSED, VALUES, GROUPS = 50_000_000, 2_000, 10_000, 1_000_000, 1_000_000


class Step(NamedTuple):
    """A command, and the most memory that it may take, in MB."""

    name: str
    arguments: list[str]
    limit: int


class Taken(NamedTuple):
    """What a process took."""

    cpu: float
    peak: float  # MB


# --- tables and policies ----------------------------------------------------------------------------------------------


def policy(path: Path, roles: dict[str, str], method: str, requirement: str, more: str = "") -> str:
    """Write a policy; return its path."""
    columns = "".join(f'[columns."{name}"]\n{role}\n' for name, role in roles.items())
    path.write_text(f"version = 1\n{columns}[method]\n{method}\n[requirement]\n{requirement}\n{more}")
    return str(path)


def known(role: str) -> str:
    return f'role = "{role}"\npublish_as_is = "the table is made up"'


RHO = "rho1 = 0.2\nrho2 = 0.5"
SECRET = 'role = "sensitive"'
FROM_TABLE = f"{SECRET}\nfrom_table = true"


def wide(path: Path, columns: int, rows: int = 1_000) -> str:
    """Write a table of many columns: whole numbers, decimals, texts of 2 to 50 values, and a secret."""
    rng = np.random.default_rng(1)
    made: dict[str, Any] = {"secret": rng.choice(["a", "b", "c", "d", "e"], rows)}
    for k in range(columns - 1):
        kind, size = k % 3, 2 + k % 49
        if kind == 0:
            made[f"c{k:05d}"] = rng.integers(0, size, rows)
        elif kind == 1:
            made[f"c{k:05d}"] = rng.choice([f"value {n}" for n in range(size)], rows)
        else:
            made[f"c{k:05d}"] = np.round(rng.normal(0, 10, rows), 1)
    pq.write_table(pa.table(made), path)
    return str(path)


def long(path: Path, values: int, rows: int) -> str:
    """Write a table of an age and a secret with so many values, skewed."""
    rng = np.random.default_rng(2)
    ranks = np.minimum((values * rng.random(rows) ** 2).astype(np.int64), values - 1)
    pq.write_table(pa.table({"age": rng.integers(18, 90, rows), "secret": ranks}), path)
    return str(path)


def people(path: Path, rows: int, places: int) -> str:
    """Write a table of an age, one of many places and a diagnosis."""
    rng = np.random.default_rng(3)
    place, age = rng.integers(0, places, rows), rng.integers(18, 90, rows)
    illness = rng.choice([f"illness {n:02d}" for n in range(40)], rows)
    pq.write_table(pa.table({"age": age, "place": place, "illness": illness}), path)
    return str(path)


# --- steps ------------------------------------------------------------------------------------------------------------


def of_rows(folder: Path) -> Iterator[Step]:
    """50M rows."""
    from publish import ROLES, generate

    table = folder / "table.parquet"
    generate(table, ROWS)
    roles = {name: SECRET if role == "sensitive" else known(role) for name, role in ROLES.items()}
    question = "SELECT sex, diagnosis, COUNT(*) FROM release WHERE age >= 60 GROUP BY sex, diagnosis"
    for order in ("keep", "shuffle"):
        stated = policy(folder / f"{order}.toml", roles, 'name = "uniform"', RHO, f'[output]\norder = "{order}"')
        release = str(folder / order)
        yield Step(f"publish, {order}", ["publish", str(table), stated, "-o", release], 600)
        yield Step(f"verify, {order}", ["verify", release], 600 if order == "keep" else 1_200)
        yield Step(f"one SELECT, {order}", ["estimate", release, question], 1_000)


def of_columns(folder: Path) -> Iterator[Step]:
    """2,000 columns, and a proposal for 10,000."""
    table = wide(folder / "wide.parquet", COLUMNS)
    roles = {name: SECRET if name == "secret" else known("other") for name in pq.read_schema(table).names}
    stated = policy(folder / "policy.toml", roles, 'name = "uniform"', RHO)
    release = str(folder / "release")
    yield Step("init, 2,000", ["init", table, "-o", str(folder / "proposed.toml"), "--sensitive", "secret"], 800)
    yield Step("profile, 2,000", ["profile", table, stated], 800)
    yield Step("plan, 2,000", ["plan", table, stated, "-o", str(folder / "plan.json")], 800)
    yield Step("publish, 2,000", ["publish", table, stated, "-o", release], 800)
    yield Step("verify, 2,000", ["verify", release], 1_500)
    yield Step("estimate, 2,000", ["estimate", release, "--by", "secret,c00000"], 800)
    broad = wide(folder / "broad.parquet", PROPOSED)
    yield Step("init, 10,000", ["init", broad, "-o", str(folder / "broad.toml"), "--sensitive", "secret"], 1_500)


def of_domain(folder: Path) -> Iterator[Step]:
    """A secret of 1M values."""
    table = long(folder / "table.parquet", VALUES, 2_000_000)
    roles = {"age": 'role = "quasi_identifier"', "secret": FROM_TABLE}
    for name, method in {"uniform": 'name = "uniform"', "cards": 'name = "subset"\nform = "card"'}.items():
        stated = policy(folder / f"{name}.toml", roles, method, RHO)
        release = str(folder / name)
        yield Step(f"publish, {name}", ["publish", table, stated, "-o", release], 3_000)
        yield Step(f"verify, {name}", ["verify", release], 3_000)
        counted = ["estimate", release, "--by", "secret", "-o", str(folder / f"{name}.csv")]
        yield Step(f"counts of all values, {name}", counted, 3_000)
        some = ["estimate", release, "SELECT COUNT(*) FROM release WHERE secret < 1000 AND age >= 60"]
        yield Step(f"one count, {name}", some, 3_000)


def of_groups(folder: Path) -> Iterator[Step]:
    """10^6 groups of records, and 10^6 groups of a question."""
    table = people(folder / "people.parquet", 3 * GROUPS, 5_000)
    roles = {"age": known("quasi_identifier"), "place": known("quasi_identifier"), "illness": SECRET}
    stated = policy(folder / "anatomy.toml", roles, 'name = "anatomy"', "l = 3")
    release = str(folder / "anatomy")
    yield Step("publish, anatomy", ["publish", table, stated, "-o", release], 3_000)
    yield Step("verify, anatomy", ["verify", release], 3_000)
    yield Step("counts, anatomy", ["estimate", release, "--by", "illness", "--where", "age >= 60"], 3_000)
    many = people(folder / "many.parquet", 3 * GROUPS, 15_000)
    stated = policy(folder / "uniform.toml", roles, 'name = "uniform"', RHO)
    release = str(folder / "uniform")
    yield Step("publish, uniform", ["publish", many, stated, "-o", release], 1_000)
    grouped = ["estimate", release, "--by", "place,age", "-o", str(folder / "groups.csv")]
    yield Step("GROUP BY of 10^6 groups", grouped, 3_000)


PARTS: dict[str, Callable[[Path], Iterator[Step]]] = {
    "rows": of_rows, "columns": of_columns, "domain": of_domain, "groups": of_groups,
}  # fmt: skip


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(command: list[str]) -> Taken:
    """Run a command in a process of its own, which must end with 0."""
    with tempfile.TemporaryFile("w+") as output, tempfile.NamedTemporaryFile("r") as peak:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=os.environ | {PEAK: peak.name})
        _, status, used = os.wait4(process.pid, 0)
        output.seek(0)
        if status:
            sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}:\n{output.read()}")
        return Taken(used.ru_utime + used.ru_stime, int(peak.read()) / 1024)


def run_part(part: str, folder: Path) -> bool:
    """Run the steps of a part and print what each took; return whether all kept their limits."""
    held = True
    print("| what | CPU s | MB | limit MB |\n|---|---|---|---|")
    for name, arguments, limit in PARTS[part](folder):
        taken = measured([*MAIN, *arguments])
        held &= taken.peak <= limit
        print(f"| {name} | {taken.cpu:.1f} | {taken.peak:,.0f} | {limit:,} |", flush=True)
    return held


# --- many questions at once -------------------------------------------------------------------------------------------


def asked(folder: str, number: int) -> str:
    """Return the answer to a question, one of many kinds, of a release that is opened for it."""
    import sfumato as sf

    release = sf.open_release(folder)
    age = 20 + number % 60
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: release.count(by="diagnosis", where=f"age >= {age}"),
        lambda: release.sql(f"SELECT sex, COUNT(*) FROM release WHERE age < {age} AND diagnosis = 'HIV' GROUP BY sex"),
        lambda: release.count(by=["region", "sex"], where=f"age = {age}"),
        lambda: release.sql(
            f"SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM release WHERE age > {age} GROUP BY diagnosis"
        ),
        lambda: release.power(by="sex", where=f"age >= {age}"),
    )
    answer = kinds[number % len(kinds)]()
    return json.dumps(answer.to_dict() if hasattr(answer, "to_dict") else answer.rows(), default=str)


def of_some(folder: str, workers: int, questions: int) -> Iterator[tuple[str, int]]:
    """Ask all questions at once in several ways; give for each the number of answers that are not the serial ones."""
    serial = [asked(folder, number) for number in range(questions)]
    pools: dict[str, Callable[[], Executor]] = {"threads": lambda: ThreadPoolExecutor(workers)}
    for start in ("fork", "spawn"):
        context = multiprocessing.get_context(start)
        pools[f"processes, {start}"] = lambda context=context: ProcessPoolExecutor(workers, mp_context=context)  # type: ignore[misc]
    for name, pool in pools.items():
        with pool() as running:
            answers = list(running.map(asked, [folder] * questions, range(questions)))
        yield name, sum(one != other for one, other in zip(answers, serial, strict=True))


def run_concurrent(folder: Path) -> bool:
    """Ask a small release 200 questions at once."""
    measured([*MAIN, "demo", "-o", str(folder / "demo")])
    differing = 0
    for name, wrong in of_some(str(folder / "demo" / "release"), ASKERS, QUESTIONS_AT_ONCE):
        print(f"{QUESTIONS_AT_ONCE} questions at once by {ASKERS} {name}: {wrong} answers differ", flush=True)
        differing += wrong
    return not differing


# --- a long life ------------------------------------------------------------------------------------------------------


class Sample(NamedTuple):
    """What a process holds."""

    memory: float  # MB
    files: int
    threads: int


def sample() -> Sample:
    """Return what this process holds now."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return Sample(int(status["VmRSS"].split()[0]) / 1024, len(os.listdir("/proc/self/fd")), int(status["Threads"]))


def lived(folder: Path, seconds: float) -> Iterator[tuple[float, int, Sample]]:
    """Ask, fit, check and publish over and over; give the seconds, the rounds and what this process holds."""
    import sfumato as sf

    clinic = folder / "demo" / "private" / "clinic.parquet"
    roles = {"name": 'role = "identifier"', "education": 'role = "other"', "diagnosis": FROM_TABLE} | dict.fromkeys(
        ("age", "sex", "region"), known("quasi_identifier")
    )
    methods = {
        "uniform": ('name = "uniform"', RHO),
        "cards": ('name = "subset"\nform = "card"', RHO),
        "anatomy": ('name = "anatomy"', "l = 3"),
    }
    stated = {name: sf.Policy.load(policy(folder / f"{name}.toml", roles, *of)) for name, of in methods.items()}
    start = time.monotonic()
    for number in count(1):
        for name, each in stated.items():
            with tempfile.TemporaryDirectory(dir=folder) as scratch:
                table = sf.scan(clinic, each)
                made = sf.plan(sf.profile(table), each.method, each.requirement)
                release = sf.publish(table, made, Path(scratch) / "release")
                release.count(by="diagnosis", where=f"age >= {20 + number % 50}")
                assert release.verify().holds, name
        for question in range(5):
            asked(str(folder / "demo" / "release"), 5 * number + question)
        release = sf.open_release(folder / "demo" / "release")
        assert release.verify().holds
        release.regress(f"diagnosis == 'diabetes' ~ age + sex + (age > {20 + number % 50})")
        release.table(["sex", "diagnosis"])
        release.association("sex", "diagnosis")
        release.risks("sex = 'F'", "diagnosis = 'migraine'")
        yield time.monotonic() - start, number, sample()
        if time.monotonic() - start >= seconds:
            return


GROWTH = 0.02
"""Of the memory after the warm-up: more would be growth."""


def run_soak(folder: Path, seconds: float) -> bool:
    """Live for so long; the last sixth of the time must hold what the second held, the first being the warm-up."""
    measured([*MAIN, "demo", "-o", str(folder / "demo")])
    samples: list[tuple[float, Sample]] = []
    for passed, rounds, found in lived(folder, seconds):
        samples.append((passed, found))
        if rounds % 10 == 1:
            held = f"{found.memory:.1f} MB  {found.files} files  {found.threads} threads"
            print(f"{passed:6.0f} s  {rounds:5} rounds  {held}", flush=True)
    whole = samples[-1][0]
    early = [s for passed, s in samples if whole / 6 <= passed < whole / 3]
    late = [s for passed, s in samples if passed >= 5 * whole / 6]
    before, after = (statistics.median(s.memory for s in some) for some in (early, late))
    files, threads = ((max(s[k] for s in early), max(s[k] for s in late)) for k in (1, 2))
    print(
        f"{len(samples)} rounds in {whole:.0f} s: {before:.1f} MB after the warm-up, {after:.1f} MB at the end; "
        f"open files {files[0]} and {files[1]}, threads {threads[0]} and {threads[1]}"
    )
    return after <= before * (1 + GROWTH) and files[1] <= files[0] and threads[1] <= threads[0]


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=[*PARTS, "concurrent", "soak"])
    parser.add_argument("--folder", type=Path, help="where files are made; a temporary one by default")
    parser.add_argument("--seconds", type=float, default=3600, help="of the soak")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as scratch:
        folder = Path(scratch)
        if options.part == "soak":
            held = run_soak(folder, options.seconds)
        elif options.part == "concurrent":
            held = run_concurrent(folder)
        else:
            held = run_part(options.part, folder)
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
