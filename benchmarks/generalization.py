"""Time of generalization with entropy l-diversity on Adult: `SFUMATO_DATA=folder python benchmarks/generalization.py`.

ESGRO is the table of AD section V.B: 4 quasi-identifiers, 4,480 cells, 32 nodes. The larger one adds age and marital
status: 6 quasi-identifiers, 2.3 million cells, 480 nodes. Counting the rows is not included.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from sfumato.methods.generalization import Hierarchy, generalize, minimal_nodes, read_hierarchy

ESGRO = {"education": "education", "income": "salary-class", "sex": "sex", "race": "race"}
LARGER = ESGRO | {"age": "age", "marital_status": "marital-status"}
SENSITIVE = "occupation"
ASKED = range(2, 8)


def joint_table(folder: Path, files: dict[str, str]) -> tuple[npt.NDArray[np.float64], list[Hierarchy]]:
    """Return the counts of the 30,162 training rows, and a hierarchy for each quasi-identifier."""
    people = pq.read_table(folder / "adult_complete_45222.parquet", filters=[("split", "=", "train")])
    columns = [np.array([str(x) for x in people[name].to_pylist()]) for name in (*files, SENSITIVE)]
    domains, codes = zip(*(np.unique(column, return_inverse=True) for column in columns), strict=True)
    table = np.zeros([domain.size for domain in domains])
    np.add.at(table, codes, 1)
    named = zip(files.items(), domains, strict=False)
    hierarchies = [
        read_hierarchy(folder / "hierarchies" / f"adult_hierarchy_{file}.csv", name, domain.tolist())
        for (name, file), domain in named
    ]
    return table, hierarchies


def best_of(repetitions: int, work: Callable[[], object]) -> float:
    """Return the least time, in milliseconds."""
    times = []
    for _ in range(repetitions):
        start = perf_counter()
        work()
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    folder = Path(os.environ["SFUMATO_DATA"])
    for title, files, repetitions in (("ESGRO", ESGRO, 20), ("larger", LARGER, 2)):
        table, hierarchies = joint_table(folder, files)
        print(f"{title}: {table.size:,} cells, best of {repetitions}")
        print("  l  search ms  with choice ms  minimal  chosen")
        for asked in ASKED:
            search = best_of(repetitions, partial(minimal_nodes, table, hierarchies, asked))
            choice = best_of(repetitions, partial(generalize, table, hierarchies, asked))
            found = generalize(table, hierarchies, asked)
            minimal = len(minimal_nodes(table, hierarchies, asked))
            print(f"{asked:>3}{search:>11.2f}{choice:>16.2f}{minimal:>9}  {found.node}")


if __name__ == "__main__":
    main()
