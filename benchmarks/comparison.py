"""Time of AD's two ways on ESGRO, in one run: `SFUMATO_DATA=folder python benchmarks/comparison.py`.

The optimum of randomized response (quasi-identifiers; the paper's risk, limit 1/l) against the search for the best
full-domain generalization with entropy l-diversity, both on the same counts of the 30,162 training rows of Adult.
Counting the rows is the same work for both, and shown apart. In AD the first took ten times as long.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from generalization import ESGRO, best_of, joint_table

from sfumato.methods.generalization import generalize
from sfumato.methods.response import JointTable, solve

REPETITIONS = 10


def main() -> None:
    """Print the times of both, for l = 2 to 7."""
    folder = Path(os.environ["SFUMATO_DATA"])
    counting = best_of(3, partial(joint_table, folder, ESGRO))
    counts, hierarchies = joint_table(folder, ESGRO)
    table = JointTable.from_array(counts)
    print(
        f"counting {counting:.0f} ms\n\n| l | randomized response, ms | generalization, ms | ratio |\n|---|---|---|---|"
    )
    for asked in range(2, 8):
        optimum = partial(solve, table, 1 / asked, risk="reconstruction", scope="quasi_identifiers")
        own, other = (
            best_of(REPETITIONS, optimum),
            best_of(REPETITIONS, partial(generalize, counts, hierarchies, asked)),
        )
        print(f"| {asked} | {own:.1f} | {other:.1f} | {own / other:.1f} |")


if __name__ == "__main__":
    main()
