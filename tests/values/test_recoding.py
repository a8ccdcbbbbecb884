"""Bins of dates and merged values against plain Python: datetime, and a dictionary."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.engines.rows.encoding import Encoder
from sfumato.engines.rows.recoding import Unfit, in_days, recoded
from sfumato.values.attributes import Attribute
from sfumato.values.recoding import DATE_UNITS, Bins, DateBins, Merge

EPOCH = dt.datetime(1970, 1, 1)
EDGES = [
    dt.date(1, 1, 1), dt.date(1, 12, 31), dt.date(4, 2, 29), dt.date(1582, 10, 15), dt.date(1900, 2, 28),
    dt.date(1900, 3, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(1999, 12, 31), dt.date(2000, 2, 29),
    dt.date(2019, 9, 30), dt.date(2019, 10, 1), dt.date(2020, 2, 29), dt.date(9999, 12, 31),
]  # fmt: skip
BREAKS = [
    (dt.date(2019, 1, 1), dt.date(2020, 7, 1)),
    (dt.date(1, 1, 1), dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(2000, 2, 29), dt.date(9999, 12, 31)),
    (dt.date(1600, 3, 1),),
]
BINS = [*(DateBins(unit) for unit in DATE_UNITS), *(DateBins(breaks=breaks) for breaks in BREAKS)]


def slow_label(day: dt.date, bins: DateBins) -> str:
    """Return the label as one would write it by hand."""
    year = str(day.year).rjust(4, "0")
    if bins.unit == "year":
        return year
    if bins.unit == "quarter":
        return f"{year}-Q{1 + (day.month - 1) // 3}"
    if bins.unit == "month":
        return f"{year}-{str(day.month).rjust(2, '0')}"
    place = bisect_right(bins.breaks, day)
    if place == 0:
        return f"< {bins.breaks[0]}"
    if place == len(bins.breaks):
        return f">= {bins.breaks[-1]}"
    return f"[{bins.breaks[place - 1]}, {bins.breaks[place]})"


def labels(array: Any, recoding: Any) -> list[Any]:
    is_dated = isinstance(recoding, DateBins) and not pa.types.is_string(array.type)
    values, places = recoded(in_days(array) if is_dated else array, recoding)
    return [values[k] for k in places]


def random_days(rng: np.random.Generator, number: int) -> list[dt.date]:
    ordinals = rng.integers(1, dt.date.max.toordinal() + 1, number).tolist()
    near = (dt.date(1970, 1, 1).toordinal() + rng.integers(-20_000, 20_000, number)).tolist()
    return [*EDGES, *map(dt.date.fromordinal, [*ordinals, *near])]


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()], ids=str)
def test_dates(kind: Any, bins: DateBins) -> None:
    days = random_days(np.random.default_rng(1), 2000)
    assert labels(pa.array(days, kind), bins) == [slow_label(day, bins) for day in days]


@pytest.mark.parametrize("bins", BINS, ids=str)
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "Pacific/Kiritimati"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_count_in_utc_where_they_have_a_zone(unit: str, zone: str | None, bins: DateBins) -> None:
    """The number that is stored counts from 1970 in UTC, or in no zone at all: the day is its own, before 1970 too."""
    rng = np.random.default_rng(2)
    per_second = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[unit]
    first, last = (int((end - EPOCH) / dt.timedelta(seconds=1)) for end in (dt.datetime.min, dt.datetime.max))
    if unit == "ns":
        first, last = -(2**63) // per_second + 1, 2**63 // per_second - 1
    seconds = [*rng.integers(first, last, 1000).tolist(), *rng.integers(-86_400, 86_400, 500).tolist()]
    moments = [s * per_second + int(rng.integers(per_second)) for s in seconds]
    moments += [0, -1, 86_400 * per_second - 1, -86_400 * per_second, -86_400 * per_second - 1]
    moments += [int((dt.datetime.combine(day, dt.time()) - EPOCH).total_seconds()) * per_second for day in EDGES[4:13]]
    days = [(EPOCH + dt.timedelta(seconds=moment // per_second)).date() for moment in moments]
    found = labels(pa.array(moments, pa.int64()).cast(pa.timestamp(unit, zone)), bins)
    assert found == [slow_label(day, bins) for day in days]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64(), pa.timestamp("ns"), pa.string()], ids=str)
def test_columns_with_gaps_in_pieces(kind: Any) -> None:
    """An encoder reads slices one after another; what lies under a gap is nobody's value."""
    rng = np.random.default_rng(5)
    days = [None if rng.random() < 0.2 else dt.date(1960 + int(rng.integers(30)), 2, 28) for _ in range(500)]
    column = pa.array(days, pa.date32()).cast(kind)
    encoder = Encoder(Attribute("x", "other", "category", None, DateBins("year")))
    pieces = [encoder.encode(column[start : start + 37], start) for start in range(0, 500, 37)]
    found = [encoder.learned[code] for piece in pieces for code in piece]
    assert found == [None if day is None else str(day.year) for day in days]
    assert not encoder.refused


def test_days_beyond_the_calendar_are_named_not_binned() -> None:
    far = pa.array([2**30, -(2**30), -719_163, 2_932_897], pa.int32()).cast(pa.date32())
    for bins in BINS:
        found = labels(far, bins)
        assert all(isinstance(value, Unfit) for value in found)
        assert found[2:] == [Unfit("0000-12-31"), Unfit("10000-01-01")]
    ages = pa.array([2**62, -(2**62)], pa.int64()).cast(pa.timestamp("s"))
    assert all(isinstance(value, Unfit) for value in labels(ages, BINS[0]))


def test_a_value_that_is_spelled_like_a_name_is_not_taken_for_it() -> None:
    merge = Merge((("a", ("b",)), ("c", ("c", "d"))))
    assert labels(pa.array(["b", "a", "c", "d", "e"]), merge) == ["a", Unfit("a"), "c", "c", "e"]
    assert Unfit("a") != "a"
    assert Unfit("a") not in ("a",)


@pytest.mark.parametrize("bins", BINS, ids=str)
def test_texts(bins: DateBins) -> None:
    """`datetime.fromisoformat` reads the same day, in UTC where there is an offset; it may lie beyond the calendar."""
    rng = np.random.default_rng(3)
    days = random_days(rng, 1000)
    tails = ["", "T00:00", " 23:59", "T23:59:59", " 12:00:00.5", "T23:59:59.999999", "T00:00Z", "T23:59:59.999+02:00"]
    tails += ["T00:30:00+0100", " 23:30:00-01:30", "T00:00:00+14:00", "T12:00-12:00"]
    texts = [day.isoformat() + tails[int(rng.integers(len(tails)))] for day in days]
    expected: list[Any] = []
    for text in texts:
        moment = dt.datetime.fromisoformat(text)
        try:
            expected.append(slow_label((moment.astimezone(dt.UTC) if moment.tzinfo else moment).date(), bins))
        except OverflowError:
            expected.append(Unfit)
    found = labels(pa.array(texts), bins)
    assert [type(value) if isinstance(value, Unfit) else value for value in found] == expected
    assert expected.count(Unfit) < 10


@pytest.mark.parametrize(
    "text",
    ["31.12.2019", "2019-02-29", "1900-02-29", "2019-13-01", "2019-00-10", "0000-01-01", "2019-1-1", "20190101", "2019",
     "2019-W01-1", "2019-01-01T24:00", "2019-01-01T12", "2019-01-01T12:60", "2019-01-01 12:00:60", " 2019-01-01",
     "2019-01-01 ", "2019-01-01T12:00+25:00", "٢٠١٩-٠١-٠١", "2019-01-01x", "unknown", "2019/01/01", "12019-01-01"],
)  # fmt: skip
def test_what_is_no_iso_date(text: str) -> None:
    (found,) = labels(pa.array([text]), DateBins("year"))
    assert found == Unfit(text)


@pytest.mark.parametrize("seed", range(60))
def test_merging(seed: int) -> None:
    """Random tables of texts, whole numbers and truth values; unlisted and missing values stay."""
    rng = np.random.default_rng(seed)
    pool: list[Any] = [["a", "b", "c", "d é", "", "7"], [-(2**63), -7, 0, 7, 2**63 - 1, 12], [True, False]][seed % 3]
    written = [str(v).lower() if isinstance(v, bool) else str(v) for v in pool]
    listed = rng.permutation(len(pool))[: int(rng.integers(1, len(pool) + 1))].tolist()
    groups: dict[str, list[str]] = {}
    for k in listed:
        groups.setdefault(f"group {rng.integers(3)}", []).append(written[k])
    merge = Merge(tuple((name, tuple(values)) for name, values in groups.items()))
    column = [None if rng.random() < 0.1 else pool[int(rng.integers(len(pool)))] for _ in range(200)]
    to_name = {value: name for name, values in groups.items() for value in values}
    texts = [None if v is None else written[pool.index(v)] for v in column]
    assert labels(pa.array(column), merge) == [None if t is None else to_name.get(t, t) for t in texts]


@pytest.mark.parametrize(
    "bins",
    [
        Bins(breaks=(1e15, 1e15 + 1, 1e15 + 2)),
        Bins(breaks=(1.0, 1.0000000000000002, 1.0000000000000004)),
        Bins(breaks=(2.0**60, 2.0**60 + 256)),
        Bins(width=1, origin=1e15),
    ],
)
def test_no_two_bins_have_one_name(bins: Bins) -> None:
    """Rows of several bins would join unseen, and intervals would be empty: 16 digits were written as 15."""
    names = list(bins.all_labels() or map(bins.label, range(50)))
    assert len(set(names)) == len(names)
    ends = [bins.order(name) for name in names]
    assert ends == sorted(ends)
    assert all(low < high for low, high in ends)
    assert [after[0] for after in ends[1:]] == [before[1] for before in ends[:-1]]


def test_names_of_many_bins_are_quick() -> None:
    """Each name took as long as all of them: 4,000 breaks made a plan take a minute."""
    numbers, days = range(50_000), range(1, 50_001)
    assert len(Bins(breaks=tuple(map(float, numbers))).all_labels() or ()) == 50_001
    assert len(DateBins(breaks=tuple(map(dt.date.fromordinal, days))).all_labels() or ()) == 50_001
