"""AD section VI: how long it takes to randomize, against generalization and Anatomy."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from statistics import median

import numpy as np

from sfumato.methods.generalization import generalize
from sfumato.methods.response.problem import pose
from sfumato.methods.response.solver import solve
from sfumato_papers.ad.competitors import Anatomized, anatomize
from sfumato_papers.ad.response import Randomized
from sfumato_papers.ad.study import ANATOMY, DIVERSITY, generator
from sfumato_papers.ad.tables import EMGRW, ESGRO, Joint, hierarchies, joint
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, sentence

BOTH = "RR-Both"
CASES = (("ESGRO", ESGRO, (2, 3, 4, 5, 6, 7)), ("EMGRW", EMGRW, (2,)))
"""Tables, and the l at which they have an l-diverse generalization."""
RUNS, QUICK_RUNS = 5, 3
"""Of each method in each case; the median counts."""
STATED = 10
"""Times that RR-Both takes of generalization's time, in the paper."""
ABOUT = 2
"""A ratio within this factor of another is about the same."""


@dataclass(frozen=True)
class Timed:
    """How long the methods take, in seconds, where they can be had."""

    table: str
    l: int
    seconds: Mapping[str, float]

    def ratio(self, other: str) -> float:
        """RR-Both's time by another's."""
        return self.seconds[BOTH] / self.seconds[other]


def run(setting: Setting) -> Outcome:
    """Run each method from the counted table to what is published of it."""
    cases = [(name, joint(setting.data, columns), l) for name, columns, ls in CASES for l in ls]
    found = []
    for done, (name, table, l) in enumerate(cases, 1):
        found.append(_timed(setting, name, table, l))
        setting.progress(done / len(cases))
    points = tuple(
        Point(method, one.l, seconds)
        for one in found
        if one.table == "ESGRO"
        for method, seconds in one.seconds.items()
    )
    return Outcome(
        tuple(_comparisons(setting, found)),
        tuple(
            {"table": one.table, "l": one.l, "method": method, "seconds": round(seconds, 5)}
            for one in found
            for method, seconds in one.seconds.items()
        ),
        Chart(
            "Seconds on ESGRO against l, on a logarithmic scale. At the largest l: "
            + "; ".join(f"{method} {seconds:.3f}" for method, seconds in _last(found).seconds.items())
            + ".",
            "l",
            "seconds",
            points,
            logarithmic=True,
        ),
        f"{cases[0][1].about}, as ESGRO and EMGRW",
        _runs(setting),
        notes=(
            f"{BOTH}: parameters of least cost, and a release drawn; {DIVERSITY}: all minimal levels, and the table at "
            f"the best of them; {ANATOMY}: groups, in a plain loop, and records dealt to them; all from the table in "
            "memory.",
        ),
        is_timed=True,
    )


def _runs(setting: Setting) -> int:
    return QUICK_RUNS if setting.quick else RUNS


def _last(found: list[Timed]) -> Timed:
    return [one for one in found if one.table == "ESGRO"][-1]


def _timed(setting: Setting, name: str, table: Joint, l: int) -> Timed:
    rng, levels, counts = generator(setting.seed, l), hierarchies(setting.data, table), np.bincount(table.codes[:, -1])

    def randomize() -> None:
        found = solve(pose(table.table, Fraction(1, l), risk="reconstruction", scope="both"))
        Randomized.drawn(table.table, found.channels, rng)

    def group() -> None:
        Anatomized.dealt(table, anatomize(counts, l, rng), rng)

    methods: dict[str, Callable[[], object]] = {BOTH: randomize, DIVERSITY: lambda: generalize(table.counts, levels, l)}
    if l * counts.max() <= table.rows:
        methods[ANATOMY] = group
    return Timed(name, l, {method: _median(work, _runs(setting)) for method, work in methods.items()})


def _median(work: Callable[[], object], runs: int) -> float:
    found = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return median(found)


def _comparisons(setting: Setting, found: list[Timed]) -> Iterator[Comparison]:
    noise = f"medians of {_runs(setting)} runs each"
    for other in (DIVERSITY, ANATOMY):
        ratios = [one.ratio(other) for one in found if other in one.seconds]
        slower = sum(ratio > 1 for ratio in ratios)
        told = f"{min(ratios):.2f} to {max(ratios):.2f} times as long, {median(ratios):.2f} in the median"
        yield sentence(
            f"{BOTH} against {other}",
            "usually slower",
            f"{told}; slower in {slower} of {len(ratios)} cases",
            slower > len(ratios) / 2,
            noise=noise,
            because=_other_programs(found, other),
        )
        if other == DIVERSITY:
            yield sentence(
                f"{BOTH} against {other}: how much slower",
                f"{STATED} times",
                f"{told}; about: within a factor of {ABOUT}",
                STATED / ABOUT <= median(ratios) <= STATED * ABOUT,
                noise=noise,
                because=_other_programs(found, other),
            )


def _other_programs(found: list[Timed], other: str) -> str:
    mine, its = (median(one.seconds[m] for one in found if other in one.seconds) for m in (BOTH, other))
    return (
        f"{BOTH} takes {1000 * mine:.0f} ms here and {other} {1000 * its:.0f} ms, in the median. The paper's programs "
        "are not available; why they compare otherwise was not tested"
    )


EXPERIMENT = Experiment("ad-time", "AD", "section VI", "How long it takes", run)
