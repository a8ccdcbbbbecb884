"""Time of AD's ways on ESGRO, in one run: `SFUMATO_DATA=folder python benchmarks/comparison.py`.

`python benchmarks/comparison.py compare [TREE ...]`: processor seconds of whole comparisons (`sf.compare`, three
releases of each method), with this source tree and with others, such as that of an earlier version. So what only this
tree has is imported where it is used.

On the 30,162 training rows of Adult, for l = 2 to 7, milliseconds, the best of several rounds:

- rr: the optimum of randomized response (quasi-identifiers; the paper's risk, limit 1/l), from the joint table; l = 2
  to 7 one after the other, as for a plan's curve, then again from a new copy, which nothing was asked of before;
- alone: the same where every l has a new copy, so that nothing that is prepared of the table is shared;
- plan: the same from the counted profile to a plan, with all its figures and the optima for six other limits;
- generalization: the search for the best full-domain generalization with entropy l-diversity, from the joint table;
- anatomy: dealing the rows to groups and gathering both tables, in memory but for its spill.

Counting the rows is the same work for all, and shown apart. In AD the first took ten times as long as generalization.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import sfumato as sf

ROUNDS, REPETITIONS = 6, 15  # machines are slow for seconds at a time: each way is timed in every round
RESPONSE = '[method]\nname = "randomized-response"\nassurance = "as-published"\nscope = "quasi-identifiers"\n'
UNIFORM = '[method]\nname = "uniform"\n[requirement]\nepsilon = 1\n'


def optima(counts: npt.NDArray[np.float64], alone: bool) -> list[float]:
    """Return the least time of the optimum for each l, in milliseconds: from one table, or each from its own."""
    from generalization import ASKED, best_of

    from sfumato.methods.response.joint import JointTable
    from sfumato.methods.response.problem import pose
    from sfumato.methods.response.solver import solve

    times = []
    for _ in range(REPETITIONS):
        tables = (
            [JointTable.from_array(counts) for _ in ASKED] if alone else [JointTable.from_array(counts)] * len(ASKED)
        )
        work = (
            partial(solve, pose(table, 1 / asked, risk="reconstruction", scope="quasi-identifiers"))
            for table, asked in zip(tables, ASKED, strict=True)
        )
        times.append([best_of(1, optimum) for optimum in work])
    return np.min(times, axis=0).tolist()


def columns() -> str:
    """Return the columns of a policy."""
    from generalization import ESGRO, SENSITIVE

    roles = "".join(f'[columns.{name}]\nrole = "quasi_identifier"\n' for name in ESGRO)
    return f'{roles}[columns.{SENSITIVE}]\nrole = "sensitive"\n'


def planned(profile: sf.Profile, asked: int) -> object:
    """Plan randomized response from a counted profile."""
    policy = sf.Policy.parse(f"{columns()}{RESPONSE}[requirement]\nl = {asked}\n")
    return sf.plan(profile, policy.method, policy.requirement)


def dealing(table: sf.Table, counted: sf.Profile, asked: int) -> Callable[[], None]:
    """Return the work of Anatomy; what it returns is read to its end. No occupation has more than 1/7 of the rows."""
    from sfumato.engines.deal.anatomy import anatomized, dealing_word, sensitive_values
    from sfumato.engines.rows.mapping import RowMapper, integer_types
    from sfumato.values.randomness import SecretKey

    groups, withheld = counted.rows // asked, np.zeros_like(counted.counts)
    types = integer_types(counted.domain.parts, table.source)

    def run() -> None:
        key = SecretKey.fresh()
        mapper = RowMapper(table.schema, table.source, (), key, beside=dealing_word(key))
        rows = (batch for _, batch in mapper.batches())
        values = sensitive_values(table.source, table.schema, counted.domain, key)
        with tempfile.TemporaryDirectory() as folder:
            tables = anatomized(
                rows, values, counted.domain, counted.counts, withheld, groups, types, key, Path(folder)
            )
            for part in tables:
                for _ in part:
                    pass

    return run


def row(asked: str, times: Sequence[float]) -> str:
    """Return a line of the table."""
    rr, alone, _, general, dealt = times
    ratios = (rr / general, alone / general, rr / dealt)
    cells = [f"{number:.2f}" for number in (*times, *ratios)]
    return f"| {asked} | {' | '.join(cells)} |"


# --- whole comparisons ------------------------------------------------------------------------------------------------

CENSUS = ("age", "gender", "education", "marital", "race"), "occupation", 100_000
ADULT = (
    ("age", "workclass", "education", "marital_status", "relationship", "race", "sex", "native_country"),
    "occupation",
    3_000,
)
TABLES = {"acs2024_census_like_500k.parquet": CENSUS, "adult_complete_45222.parquet": ADULT}
REQUIRED = ("epsilon = 1", 'rho1 = "1/10"\nrho2 = "1/3"')


def compared(file: str, required: str) -> float:
    """Return the processor seconds of a comparison on the first rows of a table, without what is loaded at first."""
    quasi, sensitive, rows = TABLES[file]
    people = pq.read_table(Path(os.environ["SFUMATO_DATA"]) / file, columns=[*quasi, sensitive]).slice(0, rows)
    roles = "".join(f'[columns.{name}]\nrole = "quasi_identifier"\n' for name in quasi)
    stated = f'[columns.{sensitive}]\nrole = "sensitive"\n[method]\nname = "uniform"\n[requirement]\n{required}\n'
    with tempfile.TemporaryDirectory() as folder:  # earlier versions read policies from files alone
        (Path(folder) / "policy.toml").write_text(roles + stated, encoding="utf-8")
        policy = sf.Policy.load(Path(folder) / "policy.toml")
    sf.compare(sf.scan(people.slice(0, 300), policy), repeat=1, seed=1)
    start = time.process_time()
    sf.compare(sf.scan(people, policy), repeat=3, seed=1)
    return time.process_time() - start


def compare_trees(trees: Sequence[str]) -> None:
    """Print the processor seconds of comparisons with each source tree."""
    print(f"| table | requirement | {' | '.join(trees)} |\n|---|---|{'---|' * len(trees)}")
    for file, required in product(TABLES, REQUIRED):
        seconds = []
        for tree in trees:
            done = subprocess.run(
                [sys.executable, __file__, "measured", file, required],
                env={**os.environ, "PYTHONPATH": str(Path(tree) / "src")},
                capture_output=True,
                check=True,
                text=True,
            )
            seconds.append(float(done.stdout))
        told = " | ".join(f"{s:.1f} s ({s / seconds[0]:.2f})" for s in seconds)
        print(f"| {file} | {required.replace(chr(10), ', ')} | {told} |", flush=True)


def main() -> None:
    """Print the times of all, and the ratios of the optimum's to the others'."""
    from generalization import ASKED, ESGRO, SENSITIVE, best_of, joint_table

    from sfumato.methods.generalization import generalize

    folder = Path(os.environ["SFUMATO_DATA"])
    people = pq.read_table(folder / "adult_complete_45222.parquet", filters=[("split", "=", "train")])
    rows = people.select([*ESGRO, SENSITIVE])
    joint = sf.scan(rows, sf.Policy.parse(f"{columns()}{RESPONSE}[requirement]\nl = 2\n"))
    plain = sf.scan(rows, sf.Policy.parse(columns() + UNIFORM))
    profile, counted = sf.profile(joint), sf.profile(plain)
    counts, hierarchies = joint_table(folder, ESGRO)
    print(f"counting {best_of(5, partial(sf.profile, joint)):.0f} ms\n")
    print(
        "| l | rr | alone | plan | generalization | anatomy "
        "| rr / generalization | alone / generalization | rr / anatomy |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    rounds = []
    for _ in range(ROUNDS):
        others = [
            [
                best_of(REPETITIONS, partial(planned, profile, asked)),
                best_of(REPETITIONS, partial(generalize, counts, hierarchies, asked)),
                best_of(REPETITIONS, dealing(plain, counted, asked)),
            ]
            for asked in ASKED
        ]
        rounds.append(np.column_stack([optima(counts, alone=False), optima(counts, alone=True), others]))
    times = np.min(rounds, axis=0)  # [l, way]
    for asked, line in zip((*ASKED, "all"), (*times, times.sum(axis=0)), strict=True):
        print(row(str(asked), line.tolist()))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measured", file, required]:
            print(compared(file, required))
        case ["compare", *trees]:
            compare_trees([str(Path(__file__).parents[1]), *trees])
        case _:
            main()
