"""PI Table V: the ceiling of deviations, and what the text says of its limits."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from sfumato.methods.robustness import delta_ceiling, posterior, repaired_delta_ceiling
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, decimal, number, sentence

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
            "How far probabilities may deviate, by the largest one. As published the ceiling rises, and falls again "
            "towards 1; the repaired one is a straight line, below the published one for small probabilities.",
            "largest probability f_max",
            "ceiling of deviations",
            tuple(points),
        ),
        "formulas",
    )


def _said() -> Iterator[Comparison]:
    low, middle, high = (delta_ceiling(3, 2, Fraction(f)) for f in ("0.1", "0.5", "0.9"))
    yield sentence(
        "Table V: f_max near 0 or 1",
        "the ceiling is small",
        f"{decimal(low, 4)} for 0.1 and {decimal(high, 4)} for 0.9, {decimal(middle, 4)} for 0.5",
        low < middle > high,
    )
    ends = [delta_ceiling(5, 2, Fraction(f)) for f in (0, 1)]
    yield sentence("f_max = 0 or 1", "the ceiling is 0", f"{ends[0]} and {ends[1]}", ends == [0, 0])
    same = {delta_ceiling(r, r, f) for r in range(2, 9) for f in SHARES}
    yield sentence("N = r", "the ceiling is 0", ", ".join(map(str, same)), same == {0})
    f = Fraction(3, 10)
    short = f - delta_ceiling(10**6, 2, f)
    yield sentence(
        "N without bound",
        "the ceiling comes to f_max",
        f"{float(short):.1e} below it for a million tuples",
        short < Fraction(1, 10**5),
    )
    rising = [_derivative_fits(size, r, f) for size, r in SHAPES for f in SHARES]
    yield sentence(
        "Theorem 2",
        "the ceiling rises with N, by the derivative that is printed",
        f"{sum(rising)} of {len(rising)} settings",
        all(rising),
    )
    tight = [_two_outcomes(size, r, Fraction(f)) == Fraction(1, r) for size, r, f, _ in TABLE_V]
    yield sentence(
        "Theorem 1, if all but x is one outcome",
        "it holds; a group at the ceiling has 1/r exactly",
        f"{sum(tight)} of {len(tight)} rows of Table V",
        all(tight),
    )


def _derivative_fits(size: int, r: int, f: Fraction) -> bool:
    """The step from N to N+1 has the derivative's numerator, over D(N) D(N+1) instead of D(N)^2."""
    gain = delta_ceiling(size + 1, r, f) - delta_ceiling(size, r, f)
    D = [(r - 1) * f / (1 - f) + n - 1 for n in (size, size + 1)]
    return bool(gain == ((r - 1) * f**2 / (1 - f) + (r - 1) * f) / (D[0] * D[1]) and gain > 0)


def _two_outcomes(size: int, r: int, f: Fraction) -> Fraction:
    g = f - delta_ceiling(size, r, f)
    found: Fraction = posterior([[f, 1 - f], [g, 1 - g]], [1, size - 1], [1, size - 1])[0, 0]
    return found
