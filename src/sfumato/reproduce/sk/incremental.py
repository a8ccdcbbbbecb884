"""SK section 1.1: pieces of an adverse-reaction table, by month, week and day."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from sfumato.randomness import simulation
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Outcome, Setting, number, sentence
from sfumato.reproduce.sk.rates import simulated
from sfumato.reproduce.sk.samples import violate

ELL = 6
SIZES = (12, 18, 24, 30, 48, 60, 90, 120, 180, 240, 360, 480, 720)
"""Multiples of l: between them n/l is rounded down, and pieces violate more easily."""
DAILY = 0.30
"""The paper's share of violating days; how many records a day has it does not say."""


def incremental(setting: Setting) -> Outcome:
    """Random pieces: how many violate 6-eligibility. As many records a day as violate in 30% of the days."""
    named, repeated = setting.data.reactions(), 2_000 if setting.quick else 20_000
    counts = [entry["counts"] for entry in named.table["reaction"].value_counts().to_pylist()]
    violating = {size: _share(counts, size, repeated, setting.seed) for size in SIZES}
    day = _day(counts, repeated, setting.seed)
    week, month = (_share(counts, days * day, repeated, setting.seed) for days in (7, 30))
    noise = 200 * (0.04 * 0.96 / 52) ** 0.5
    because = (
        f"{named.about}; pieces are random, of {day} records a day, which is where {DAILY:.0%} of the days violate; a "
        f"year of weeks has a standard error of {noise / 2:.1f}"
        if violating[SIZES[-1]] < DAILY
        else f"{named.about}; its most frequent reaction has {max(counts) / sum(counts):.0%} of the records, so that "
        "pieces of every size violate"
    )
    between = [_share(counts, size, repeated, setting.seed) for size in (30, 35)]
    shares = list(violating.values())
    comparisons = (
        simulated(
            number("violating weeks, in %, if 30% of the days do", "4", 100 * week, noise=noise, because=because),
            because,
        ),
        simulated(number("violating months, in %, if 30% of the days do", "0", 100 * month, because=because), because),
        sentence(
            "smaller pieces",
            "they violate more often",
            ", ".join(f"{size} records {share:.0%}" for size, share in violating.items() if share > 0.001),
            shares == sorted(shares, reverse=True),
            because=because,
            noise=f"{repeated:,} pieces of each size",
        ),
    )
    return Outcome(
        comparisons,
        tuple({"records": size, "violating": share} for size, share in violating.items()),
        Chart(
            "Violating pieces in percent by their size: "
            + ", ".join(f"{violating[size]:.0%} of those with {size} records" for size in (12, 60, 240, 720))
            + ".",
            "records of a piece",
            "violating pieces, %",
            tuple(Point("random pieces, l = 6", float(size), 100 * share) for size, share in violating.items()),
        ),
        named.about,
        repeated,
        (
            f"Sizes are multiples of {ELL}. Between them smaller pieces do not always violate more often: "
            f"{between[0]:.0%} of those with 30 records, {between[1]:.0%} of those with 35.",
        ),
    )


def _share(counts: Sequence[int], size: int, repeated: int, seed: int) -> float:
    """The share of random pieces of a size that violate."""
    pieces = simulation(seed + size).multivariate_hypergeometric(counts, size, repeated)
    return float(violate(pieces, ELL).mean())


def _day(counts: Sequence[int], repeated: int, seed: int) -> int:
    """The least multiple of l, so that eligibility is as strict for all, at which no more than 30% violate; or 996."""
    sizes = range(ELL, 1_000, ELL)
    found = bisect_left(sizes, True, key=lambda size: _share(counts, size, repeated, seed) <= DAILY)
    return sizes[min(found, len(sizes) - 1)]
