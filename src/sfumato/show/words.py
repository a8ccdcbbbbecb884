"""Figures and lists of names as people read them: one rule for all that is printed, drawn or shown on a page.

- A bound of the policy is exact, as it was written (`bound`): 30%, 1/3 (33.3%).
- A bound that was computed is rounded so that what is said of it stays true (`at_most`, `at_least`): a belief that may
  be reached goes up, one that a promise starts from goes down.
- What was measured goes to the nearest tenth of a percent (`share`, in tables; `percent`, in sentences). What is not 0
  or 1 is never shown as if it were.
- A chance that a matrix states has two decimals (`chance`), and so has a factor on odds (`factor`).
- So figures in one column of a table have the same number of decimals.
- Figures of any size, such as those of a model, have as many decimals as the least of their column needs (`column`).
- Estimates have as many digits as their errors deserve (`number`); larger counts are powers of ten (`many`).
- Of many names the first are told, and how many more there are (`named`; `some` quoted; `listed` in hints).

Verdicts compare the exact numbers, never those that are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction

SMALL = 5
"""Numbers below are shown with more digits: shares, averages, small counts."""
LARGEST_DENOMINATOR = 20
"""Fractions with a larger one are no bounds that people write."""
LONGEST_COUNT = 12
"""Digits beyond which a count says nothing by its digits."""
MOST_LISTED = 10
"""Names that a hint lists."""
MOST_NAMED = 4
"""Columns or values that a sentence names by themselves."""


def share(part: float, decimals: int = 1) -> str:
    """Return a share for a column of a table, in percent.

    >>> [share(part) for part in (0, 1, 1 / 3, 0.05, 0.00012, 0.99996)]
    ['0.0%', '100.0%', '33.3%', '5.0%', '<0.1%', '>99.9%']
    """
    step = 10.0**-decimals
    if 0 < part < 1 and round(100 * part, decimals) in (0, 100):
        return f"<{step:.{decimals}f}%" if part < 0.5 else f">{100 - step:.{decimals}f}%"
    return f"{100 * part:.{decimals}f}%"


def percent(part: float) -> str:
    """Return a share for a sentence: as in a table, but without a last zero.

    >>> [percent(part) for part in (0.3, 1 / 3, 0.00012, 1)]
    ['30%', '33.3%', '<0.1%', '100%']
    """
    return share(part).replace(".0%", "%")


def chance(part: float) -> str:
    """Return an entry of a matrix, or a retention: with many values they are small.

    >>> chance(0.3), chance(0.000871), chance(1e-6)
    ('30.00%', '0.09%', '<0.01%')
    """
    return share(part, 2)


def chances(low: float, high: float) -> str:
    """Return the least and the largest of several, once where they are shown alike.

    >>> chances(0.1, 0.2), chances(0.1, 0.1)
    ('10.00% to 20.00%', '10.00%')
    """
    least, most = chance(low), chance(high)
    return least if least == most else f"{least} to {most}"


def of_100(low: float, high: float | None = None) -> str:
    """Return a share, or the least and the largest of several, for a sentence in whole numbers.

    >>> of_100(0.556), of_100(0.556, 0.74), of_100(0.9996), of_100(0.74, 0.9996), of_100(1)
    ('about 56 of 100', 'about 56 to 74 of 100', 'over 99 of 100', '74 to over 99 of 100', '100 of 100')
    """
    least, most = (share(part, 0).rstrip("%") for part in (low, low if high is None else high))
    told = (least if least == most else f"{least} to {most}").replace("<", "under ").replace(">", "over ")
    return f"{'about ' if told.replace(' to ', '').isdigit() and told not in ('0', '100') else ''}{told} of 100"


def many(number: int) -> str:
    """Return a count as people read it: its digits, or the power of ten that it reaches.

    >>> many(80_040_000), many(3 * 10**25)
    ('80,040,000', 'about 10^25')
    """
    return f"{number:,}" if number < 10**LONGEST_COUNT else f"about 10^{len(str(number)) - 1}"


def factor(value: float) -> str:
    """Return by how many times odds may change.

    >>> factor(27 / 7), factor(1200)
    ('3.86', '1,200.00')
    """
    return f"{value:,.2f}"


def bound(x: Fraction) -> str:
    """Return a bound that is a percentage of at most two decimals, or a fraction as people write them; "" of another.

    >>> bound(Fraction(3, 10)), bound(Fraction(1, 3)), bound(Fraction(5074, 69560))
    ('30%', '1/3 (33.3%)', '')
    """
    if (10_000 * x).denominator == 1:
        return f"{float(100 * x):g}%"
    return f"{x} ({percent(float(x))})" if x.denominator <= LARGEST_DENOMINATOR else ""


def at_most(x: Fraction) -> str:
    """Return a bound on what may be reached, never below it.

    >>> at_most(Fraction(1, 3)), at_most(Fraction(2319, 10_001))
    ('1/3 (33.3%)', '23.2%')
    """
    return bound(x) or upwards(x)


def upwards(x: Fraction) -> str:
    """Return a belief in percent with one digit, never below it.

    >>> upwards(Fraction(1, 3))
    '33.4%'
    """
    return f"{math.ceil(1000 * x) / 10:g}%"


def beside_figures(told: str) -> str:
    """Return a bound where figures stand beside it: without its fraction.

    >>> beside_figures("1/3 (33.3%)"), beside_figures("30%")
    ('33.3%', '30%')
    """
    return told.partition(" (")[2].rstrip(")") or told


def at_least(x: Fraction) -> str:
    """Return what a promise starts from, never above it; of less than a tenth of a percent one digit.

    >>> at_least(Fraction(1, 7)), at_least(Fraction(5074, 69560)), at_least(Fraction(1, 69560))
    ('1/7 (14.3%)', '7.2%', '0.001%')
    """
    if told := bound(x):
        return told
    step = min(Fraction(1, 10), Fraction(10) ** math.floor(math.log10(100 * x)))
    return f"{float(math.floor(100 * x / step) * step):g}%"


def decimals_of(error: float | None) -> int:
    """Return the decimals that an error below 1 needs for two digits, at most four; else one.

    >>> [decimals_of(error) for error in (None, 120.0, 0.034, 0.5)]
    [1, 1, 3, 2]
    """
    return min(1 - math.floor(math.log10(error)), 4) if error and 0 < error < 1 else 1


def number(value: float | str | None, decimals: int = 1) -> str:
    """Return a figure; a dash where there is none, and a text as it is.

    >>> number(1234.56), number(0.25), number(None), number("[30, 40)")
    ('1,234.6', '0.2500', '-', '[30, 40)')
    """
    if value is None or value != value:
        return "-"
    if isinstance(value, str):
        return value
    return f"{value:,.{decimals}f}" if abs(value) >= SMALL else f"{value:.4f}"


DECIMALS, MOST_DECIMALS = 4, 6


def column(values: Sequence[float]) -> list[str]:
    """Return figures of one column, which may be of any size: four decimals at most, or six where some need them.

    >>> column([0.0147, 12.1]), column([2e-5, 0.5]), column([-4.25, float("inf")]), column([1e-9])
    (['0.0147', '12.1000'], ['0.000020', '0.500000'], ['-4.25', 'inf'], ['1.0e-09'])
    """
    sizes = [abs(value) for value in values if value and math.isfinite(value)]
    least = min(sizes, default=1.0)
    most = DECIMALS if least >= 0.5 * 10**-DECIMALS else MOST_DECIMALS
    decimals = min(max(2 - math.floor(math.log10(least)), 0), most)
    return [_figure(value, decimals) for value in values]


def _figure(value: float, decimals: int) -> str:
    if math.isnan(value):
        return "-"
    if 0 < abs(value) < 0.5 * 10**-decimals:
        return f"{value:.1e}"
    return f"{value:,.{decimals}f}" if math.isfinite(value) else f"{value:.0f}"


def power_figure(name: str, value: float | None) -> str:
    """Return a figure of `Release.power`: a share in percent, a number of records without decimals."""
    if value is None:
        return "-"
    return share(value, 2) if "share" in name else f"{value:,.0f}"


# --- lists of names ------------------------------------------------------------------------------------------------


def listed(names: Iterable[str]) -> str:
    """Return the first names of a list.

    >>> listed("abcdefghijklm")
    'a, b, c, d, e, f, g, h, i, j, ...'
    """
    every = list(names)
    return ", ".join(every[:MOST_LISTED]) + (", ..." if len(every) > MOST_LISTED else "")


def named(names: Sequence[str], last: str = "and") -> str:
    """Return a list of names as people say it; of many the first ones.

    >>> named(["age", "sex", "region"]), named("abcdef"), named(["flu", "HIV"], "or")
    ('age, sex and region', 'a, b, c and 3 more', 'flu or HIV')
    """
    if len(names) > MOST_NAMED:
        return f"{', '.join(names[: MOST_NAMED - 1])} {last} {len(names) - MOST_NAMED + 1:,} more"
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def some(names: list[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
