"""How often a guesser is right about people of Adult: `SFUMATO_DATA=folder python benchmarks/guessing.py`.

EMGRW (education, marital status, sex, race; workclass), scope `both`, as published, for l = 2 and l = 5: the mean
success over 100 releases, drawn with a seed, at each number of steps of iterative Bayes; of the best of them the 95%
limits, and the share of people who are guessed right in more of the releases than 1/l. These are the figures of
docs/methods/proofs/randomized-response.md, section "The best guesser". Ten seconds.
"""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

from response import EMGR, adult

from sfumato.auditor.attackers.linking_guesser import STOPS, repeated_guesses
from sfumato.methods.response.guessing import limit_success
from sfumato.methods.response.problem import pose
from sfumato.methods.response.solver import solve

RELEASES, SEED = 100, 1


def main() -> None:
    table = adult(Path(os.environ["SFUMATO_DATA"]), EMGR)
    most_frequent = table.counts.sum(axis=0).max() / table.records
    print(f"the best guesser {limit_success(table):.2%}, the most frequent value for everybody {most_frequent:.2%}")
    print("l  " + "".join(f"{steps:>6} st." for steps in STOPS) + "  the best, 95% limits, people above 1/l")
    for diversity in (2, 5):
        channels = solve(pose(table, Fraction(1, diversity), risk="reconstruction", scope="both")).channels
        found = repeated_guesses(table, channels, 1 / diversity, repetitions=RELEASES, seed=SEED)
        low, high = found.success_limits
        at_stops = "".join(f"{success:>10.2%}" for success in found.at_stops)
        print(f"{diversity}  {at_stops}  {found.steps} step(s): {low:.2%} to {high:.2%}, {found.above:.1%}", flush=True)


if __name__ == "__main__":
    main()
