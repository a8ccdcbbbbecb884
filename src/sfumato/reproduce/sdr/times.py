"""SDR Fig. 5: how long it takes to publish, from the table in memory to the files of a release."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from sfumato.methods import plan
from sfumato.policy import Policy
from sfumato.publishing import publish
from sfumato.randomness import SecretKey
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Outcome, Setting, sentence
from sfumato.reproduce.sdr.census import COLUMNS, EDU, OCC, Kind
from sfumato.reproduce.sdr.partitions import SIZES
from sfumato.table import profile, scan

QUICK_SIZES = (100_000, 500_000)
LIMIT = 30
"""Seconds that PP takes at most in the paper."""
RUNS = 2
"""Of each method on each table; the faster counts."""
COMPARABLE = 3
"""Run times within this factor are comparable."""
CLEARLY = 0.9
"""A run is faster than another if it takes less than this share of its time."""
PP, UP, ANA = "PP", "UP", "Ana"


def run_times(setting: Setting) -> Outcome:
    """Publish OCC (L = 6) and EDU (L = 10) by each method."""
    sizes = QUICK_SIZES if setting.quick else SIZES
    named = setting.data.census(max(sizes))
    table = named.table.select(COLUMNS)
    cases = [(kind, method, size) for kind in (OCC, EDU) for method in (PP, UP, ANA) for size in sizes]
    found = {}
    for done, (kind, method, size) in enumerate(cases):
        runs = [_seconds(table.slice(0, size), kind, method, setting.seed) for _ in range(RUNS)]
        found[kind.name, method, size] = min(runs)
        setting.progress((done + 1) / len(cases))
    slowest = max(seconds for (_, method, _), seconds in found.items() if method == PP)
    last = {(kind, method): s for (kind, method, size), s in found.items() if size == sizes[-1]}
    ratios = [last[kind, PP] / last[kind, other] for kind, other in (("OCC", UP), ("OCC", ANA), ("EDU", UP))]
    noise = f"the faster of {RUNS} runs, on a machine that may be busy; the paper's is of another age"
    comparisons = (
        sentence(
            "PP", f"{LIMIT} seconds at most", f"{slowest:.1f} seconds at most", slowest <= LIMIT, noise=noise,
            because="this machine is slower, or busy",
        ),
        sentence(
            "PP against UP, and against Ana on OCC", "comparable",
            f"{min(ratios):.2f} to {max(ratios):.2f} times as long at {sizes[-1]:,} records",
            min(ratios) >= 1 / COMPARABLE and max(ratios) <= COMPARABLE, noise=noise,
            because=f"more than {COMPARABLE} times as fast or as slow on this machine",
        ),
        sentence(
            "Ana", "faster on EDU than on OCC, since records are suppressed before",
            f"{last['EDU', ANA]:.1f} and {last['OCC', ANA]:.1f} seconds at {sizes[-1]:,} records",
            last["EDU", ANA] < CLEARLY * last["OCC", ANA], noise=noise,
            because="not clearly: all rows are read either way, and that takes most of the time here",
        ),
    )  # fmt: skip
    points = [Point(f"{kind}: {method}", size, seconds) for (kind, method, size), seconds in found.items()]
    alt = (
        f"Seconds by the number of records, for three methods on two tables: all grow with the records, to "
        f"{max(found.values()):.1f} at most."
    )
    rows = tuple(
        {"table": kind, "method": method, "records": size, "seconds": round(seconds, 2)}
        for (kind, method, size), seconds in found.items()
    )
    notes = (
        "Run times are those of this run: other runs give others.",
        "On EDU Ana suppresses by rotation: the least suppression, which the paper takes, is not published here, since "
        "it tells which value was the most frequent one.",
    )
    return Outcome(comparisons, rows, Chart(alt, "records", "seconds", tuple(points)), named.about, notes=notes)


def _seconds(table: Any, kind: Kind, method: str, seed: int) -> float:
    """Count, plan and publish a table; return how long it took."""
    policy, key = Policy.parse(_policy(kind, method)), SecretKey.from_seed(seed)
    with tempfile.TemporaryDirectory(prefix="sfumato-") as folder:
        start = time.perf_counter()
        opened = scan(table, policy)
        made = plan(profile(opened), key=key, **policy.plan_arguments())
        publish(opened, made, Path(folder) / "release", key=key)
        return time.perf_counter() - start


def _policy(kind: Kind, method: str) -> str:
    roles = "\n".join(
        f'[columns.{name}]\nrole = "{"sensitive" if name == kind.column else "quasi_identifier"}"' for name in COLUMNS
    )
    return f"{roles}\n[method]\n{_asked(kind, method)}"


def _asked(kind: Kind, method: str) -> str:
    L = kind.levels[0]
    if method == ANA and kind is EDU:
        return f'name = "suppression"\n[requirement]\nl = {L}'
    if method == ANA:
        return f'name = "anatomy"\n[requirement]\nl = {L}'
    name = 'name = "small-domain"\nassurance = "as-published"' if method == PP else 'name = "uniform"'
    return f'{name}\n[requirement]\nrho1 = "{kind.rho1}"\nrho2 = "1/{L}"'
