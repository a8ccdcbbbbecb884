"""SDR Fig. 2 at equal measured risk: UP and PP are allowed as many right guesses as Anatomy gives.

The paper compares at equal bounds. The bound of UP and PP is for the worst published value, and most records are far
below it; Anatomy gives every record its bound. Here the requirement of UP and PP is loosened until the best guess of a
record is right as often as with Anatomy, 1/L.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sfumato.methods.small_domain.partition import partition
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, sentence
from sfumato_papers.sdr.census import OCC, Census
from sfumato_papers.sdr.errors import READINGS
from sfumato_papers.sdr.measured import ANA, PP, UNBIASED, UP, Curves, Methods, measure, percent, repetitions
from sfumato_papers.sdr.partitions import ROWS
from sfumato_papers.sdr.released import Anatomized, Perturbed, uniform_with

STEP, PRECISION = Fraction(1, 200), Fraction(1, 100_000)
"""By which rho2 is raised, and how near it must come."""


def at_equal_risk(setting: Setting) -> Outcome:
    """Errors on OCC where the best guess is right for 1/L of the records, whatever the method."""
    table = Census.of(setting.data.census(ROWS), OCC)
    places = [_as_risky_as_anatomy(table, L) for L in OCC.levels]
    curves = Curves(OCC, "L", OCC.levels, measure(table, places, setting))
    worst = [{name: _worst(made, table) for name, made in methods.items()} for methods in places]
    bound = partition(table.counts, OCC.rho1, Fraction(1, OCC.levels[0]), assurance="as-published")
    plain, held = Perturbed((bound.whole,)), Perturbed(bound.blocks)
    comparisons = (
        _still_better(curves, UP, f"UP was held to fewer right guesses: {plain.risk:.1%} at L = {OCC.levels[0]}, where "
                      f"PP has {held.risk:.1%} and Ana {curves.found[0][ANA].risk:.1%}"),
        _still_better(curves, ANA, f"PP was held to {held.risk:.1%} right guesses at L = {OCC.levels[0]}, Ana to "
                      f"{curves.found[0][ANA].risk:.1%}"),
    )  # fmt: skip
    rows = tuple(
        row | {"worst posterior": round(worst[OCC.levels.index(row["L"])][_method(row["method"])], 6)}
        for row in curves.rows()
    )
    shares = {L: 100 * one[ANA].risk for L, one in zip(OCC.levels, curves.found, strict=True)}
    points = tuple(Point(p.series, shares[int(p.x)], p.y, p.lower, p.upper) for p in curves.points())
    alt = (
        "Mean relative error by measured risk, logarithmic: "
        f"{'; '.join(curves.shown(name) for name in curves.names)}. From left to right L is "
        f"{', '.join(map(str, OCC.levels))}."
    )
    chart = Chart(
        alt,
        "records whose value is guessed right, in %",
        "mean relative error in %, s = 0.1%",
        points,
        logarithmic=True,
    )
    notes = (
        "Equal risk of the average record is not equal risk of the worst one: the worst posterior of UP is "
        f"{percent(worst[0][UP])} at L = {OCC.levels[0]}, that of PP {percent(worst[0][PP])}, that of Ana "
        f"{percent(worst[0][ANA])}.",
        *((f"Least squares on Ana's groups: {curves.shown(UNBIASED)}.",) if UNBIASED in curves.names else ()),
        *READINGS,
    )
    return Outcome(comparisons, rows, chart, table.about, repetitions(setting), notes)


def _method(name: str) -> str:
    return ANA if name == UNBIASED else name


def _worst(made: Perturbed | Anatomized, table: Census) -> float:
    return made.worst(range(table.values)) if isinstance(made, Perturbed) else made.bound


def _as_risky_as_anatomy(table: Census, L: int) -> Methods:
    anatomy = Anatomized.of(table, L)

    def partitioned(rho2: Fraction) -> Perturbed:
        return Perturbed(partition(table.counts, OCC.rho1, rho2, assurance="as-published").blocks)

    return {
        PP: _loosened(anatomy.risk, partitioned, Fraction(1, L)),
        UP: uniform_with(anatomy.risk, table),
        ANA: anatomy,
    }


def _loosened(risk: float, made: Callable[[Fraction], Perturbed], rho2: Fraction) -> Perturbed:
    """Return what has this measured risk: rho2 is raised in steps until it is reached, then by bisection.

    In steps, because the risk of a partition falls again where fewer sub-tables become the better choice.
    """
    while made(rho2 + STEP).risk < risk:
        rho2 += STEP
    step = STEP
    while step > PRECISION:
        step /= 2
        rho2 += step if made(rho2 + step).risk < risk else 0
    return made(rho2 + step)


def _still_better(curves: Curves, other: str, because: str) -> Comparison:
    wrong = curves.exceptions(PP, other)
    ratio = curves.mean(PP) / curves.mean(other)
    return sentence(
        f"PP against {other} at equal measured risk",
        "PP has the smaller error (the paper compares at equal bounds)",
        f"{curves.shown(PP)}; {curves.shown(other)}; PP's is {np.min(ratio):.2g} to {np.max(ratio):.2g} times as large",
        not wrong,
        because=because,
        noise=curves.noise,
    )
