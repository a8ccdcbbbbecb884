"""SK section 1.1: pieces of an adverse-reaction table, by month, week and day."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import pairwise

from sfumato_papers.charts import Chart, Point
from sfumato_papers.data import Named
from sfumato_papers.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato_papers.sk.violating import of_mean, of_size

ELL = 6
MEANS = (12, 18, 24, 30, 48, 60, 90, 120, 180, 240, 360, 480, 720)
DAYS = range(ELL, 73)
"""Records of a day that are tried."""
DAILY = 0.30
"""The paper's share of violating days; how many records a day has it does not say."""


def incremental(setting: Setting) -> Outcome:
    """How many pieces violate 6-eligibility, exactly. Days have as many records as make 30% of them violate."""
    named = setting.data.reactions()
    counts = [entry["counts"] for entry in named.table["reaction"].value_counts().to_pylist()]
    violating = {mean: of_mean(counts, mean, ELL) for mean in MEANS}
    between = [of_size(counts, size, ELL) for size in (30, 35)]
    return Outcome(
        (*_periods(named, counts), _smaller(named, violating)),
        tuple({"records": mean, "violating": share} for mean, share in violating.items()),
        Chart(
            "Violating pieces in percent by the records that they have on the average: "
            + ", ".join(f"{violating[mean]:.1%} with {mean}" for mean in (12, 60, 240, 720))
            + ".",
            "mean records of a piece",
            "violating pieces, %",
            tuple(Point("random pieces, l = 6", float(mean), 100 * share) for mean, share in violating.items()),
        ),
        named.about,
        notes=(
            "Every record falls into a piece with the same probability, independently; shares are exact. Where the "
            "number of records is fixed, smaller pieces do not always violate more often, because n/l is rounded "
            f"down: {between[0]:.0%} of those with 30 records do, {between[1]:.0%} of those with 35.",
        ),
    )


def _periods(named: Named, counts: Sequence[int]) -> tuple[Comparison, ...]:
    """Weeks and months, where as many days violate as in the paper."""
    day = _day(counts)
    daily, week, month = (of_mean(counts, days * day, ELL) for days in (1, 7, 30))
    days = f"{named.about}; days of {day} records on the average; {daily:.1%} of them violate"
    return (
        number(
            "violating weeks, in %, if 30% of the days do",
            "4",
            100 * week,
            because=f"{days}. {_equal_days(counts)}",
        ),
        sentence(
            "violating months, if 30% of the days do",
            "there are none",
            f"{month:.3%} of the months",
            month < 0.005,
            because=days,
            noise=days,
        ),
    )


def _equal_days(counts: Sequence[int]) -> str:
    """The weeks, if all days had the same number of records."""
    sizes = [size for size in DAYS if abs(of_size(counts, size, ELL) - DAILY) <= 0.005]
    weeks = [f"{of_size(counts, 7 * size, ELL):.1%} with {size} a day" for size in sizes]
    return f"With the same number of records every day and as many violating days: {', '.join(weeks) or 'none'}"


def _smaller(named: Named, violating: Mapping[int, float]) -> Comparison:
    return sentence(
        "smaller pieces",
        "they violate more often",
        ", ".join(f"{mean} records {share:.1%}" for mean, share in violating.items()),
        all(share > following for share, following in pairwise(violating.values())),
        because=named.about,
    )


def _day(counts: Sequence[int]) -> int:
    """The mean records of a day, of those tried, at which the share of violating days is nearest to 30%."""
    found = bisect_left(DAYS, True, key=lambda mean: of_mean(counts, mean, ELL) <= DAILY)
    return min(DAYS[max(0, found - 1) : found + 1], key=lambda mean: abs(of_mean(counts, mean, ELL) - DAILY))
