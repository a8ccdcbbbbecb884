"""PI Table V: the ceiling of deviations, and what the text says of its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise

from sfumato.methods.robustness.check import delta_ceiling, repaired_delta_ceiling
from sfumato.methods.robustness.posterior import posterior
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, decimal, number, sentence

TABLE_V = (
    (3, 2, "0.1", "0.0474"),
    (3, 2, "0.3", "0.1235"),
    (3, 2, "0.5", "0.1667"),
    (3, 2, "0.9", "0.0818"),
    (4, 2, "0.3", "0.1750"),
    (6, 2, "0.3", "0.2211"),
    (6, 3, "0.3", "0.1537"),
    (6, 4, "0.3", "0.0955"),
)
DRAWN = ((3, 2), (6, 2), (6, 3))
SHARES = tuple(Fraction(n, 20) for n in range(1, 20))
SHAPES = tuple((size, r) for size in range(2, 13) for r in range(2, size + 1))


def table_5(setting: Setting) -> Outcome:
    """The ceilings of Table V, and the repaired ones."""
    printed = tuple(
        number(
            f"Table V: N = {size}, r = {r}, f_max = {f}",
            ceiling,
            delta_ceiling(size, r, Fraction(f)),
            proved=repaired_delta_ceiling(size, r, float(f)),
        )
        for size, r, f, ceiling in TABLE_V
    )
    rows = [
        {
            "N": size,
            "r": r,
            "f_max": float(f),
            "as published": float(delta_ceiling(size, r, f)),
            "repaired": repaired_delta_ceiling(size, r, float(f)),
        }
        for size, r in DRAWN
        for f in SHARES
    ]
    points = [
        Point(f"N = {row['N']}, r = {row['r']}, {version}", float(row["f_max"]), float(row[version]))
        for version in ("as published", "repaired")
        for row in rows
    ]
    return Outcome(
        (*printed, *_said()),
        tuple(rows),
        Chart(
            "How far probabilities may deviate, by the largest one. " + "; ".join(_seen(points)) + ".",
            "largest probability f_max",
            "ceiling of deviations",
            tuple(points),
        ),
        "formulas",
    )


def _seen(points: Sequence[Point]) -> Iterator[str]:
    """What the chart shows, series by series."""
    for series in dict.fromkeys(point.series for point in points):
        first, *_, last = of = [point for point in points if point.series == series]
        top = max(of, key=lambda point: point.y)
        yield f"{series}: {first.y:.3f} at {first.x}, {last.y:.3f} at {last.x}, most at {top.x} with {top.y:.3f}"


def _said() -> Iterator[Comparison]:
    shapes = {f"N = {size}, r = {r}": [delta_ceiling(size, r, f) for f in SHARES] for size, r in DRAWN}
    yield sentence(
        "Table V: f_max near 0 or 1",
        "the ceiling is small",
        f"f_max = {float(SHARES[0])} and {float(SHARES[-1])}, and the largest: "
        + "; ".join(
            f"{decimal(of[0], 4)}, {decimal(of[-1], 4)}, {decimal(max(of), 4)} ({n})" for n, of in shapes.items()
        ),
        all(_rises_and_falls(of) for of in shapes.values()),
    )
    ends = [delta_ceiling(size, r, Fraction(f)) for size, r in SHAPES for f in (0, 1) if size > r]
    yield sentence(
        "f_max = 0 or 1",
        "the ceiling is 0",
        f"{', '.join(map(str, set(ends)))} in {len(ends)} settings",
        not any(ends),
    )
    same = {(r, f): _two_outcomes(r, r, f, below=f / 100) for r in range(2, 9) for f in SHARES}
    breached = sum(p > Fraction(1, r) for (r, _), p in same.items())
    yield sentence(
        "N = r",
        "all probabilities have to be equal, or there can be a breach",
        f"the ceiling is {max(delta_ceiling(r, r, f) for r, f in same)}; a deviation of a hundredth of f_max makes a "
        f"posterior above 1/r in {breached} of {len(same)} settings",
        not any(delta_ceiling(r, r, f) for r, f in same) and breached == len(same),
    )
    f = Fraction(3, 10)
    short = [f - delta_ceiling(10**power, 2, f) for power in (2, 4, 6)]
    yield sentence(
        "N without bound",
        "the ceiling comes to f_max",
        "N = 100, 10,000 and 1,000,000: " + ", ".join(f"{float(gap):.1e}" for gap in short) + " below it",
        all(0 < 90 * gap < before for before, gap in pairwise(short)),
    )
    rising = [_derivative_fits(size, r, f) for size, r in SHAPES for f in SHARES]
    yield sentence(
        "Theorem 2",
        "the ceiling rises with N, by the derivative that is printed",
        f"{sum(rising)} of {len(rising)} settings",
        all(rising),
    )
    found = {row: _worst_of_two_outcomes(*row[:2], Fraction(row[2])) for row in TABLE_V}
    yield sentence(
        "Theorem 1, if all but x is one outcome",
        "no posterior is above 1/r",
        f"{sum(p <= Fraction(1, row[1]) for row, p in found.items())} of {len(found)} rows of Table V, however many "
        f"tuples are at f_max and the others at the ceiling; 1/r is reached in "
        f"{sum(p == Fraction(1, row[1]) for row, p in found.items())}",
        all(p <= Fraction(1, row[1]) for row, p in found.items()),
    )


def _rises_and_falls(ceilings: Sequence[Fraction]) -> bool:
    """Whether the largest is inside, and all before it rise and all after it fall."""
    top = ceilings.index(max(ceilings))
    rising, falling = ceilings[: top + 1], ceilings[top:]
    return 0 < top < len(ceilings) - 1 and list(rising) == sorted(rising) and list(falling) == sorted(falling)[::-1]


def _derivative_fits(size: int, r: int, f: Fraction) -> bool:
    """The step from N to N+1 has the derivative's numerator, over D(N) D(N+1) instead of D(N)^2."""
    gain = delta_ceiling(size + 1, r, f) - delta_ceiling(size, r, f)
    D = [(r - 1) * f / (1 - f) + n - 1 for n in (size, size + 1)]
    return bool(gain == ((r - 1) * f**2 / (1 - f) + (r - 1) * f) / (D[0] * D[1]) and gain > 0)


def _worst_of_two_outcomes(size: int, r: int, f: Fraction) -> Fraction:
    """The largest p(t:x) of groups with 1, ..., N-1 tuples at f_max and the others at the ceiling."""
    return max(_two_outcomes(size, r, f, high=high) for high in range(1, size))


def _two_outcomes(size: int, r: int, f: Fraction, below: Fraction | None = None, high: int = 1) -> Fraction:
    """p(t:x) of a tuple at f_max; the others deviate by `below`, or as far as the ceiling allows."""
    g = f - (delta_ceiling(size, r, f) if below is None else below)
    found: Fraction = posterior([[f, 1 - f], [g, 1 - g]], [high, size - high], [1, size - 1])[0, 0]
    return found
