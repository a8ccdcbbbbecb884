"""AD Table 1, Fig. 2 and Property 1: the risk of a woman with cancer."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np

from sfumato.methods.response.joint import Channel, JointTable
from sfumato.methods.response.risks import Reconstruction
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, is_printed, number, sentence

PEOPLE = 100
PRINTED = {"nothing randomized": "0.43", "least, S only": "0.18", "least, QI only": "0.12", "least, QI and S": "0.05"}


def tables_with(share: str, joint: str) -> list[tuple[int, int]]:
    """Return the numbers of women, and of those with cancer, that give two printed figures: c/w and c/100.

    >>> tables_with("0.43", "0.12")
    [(28, 12)]
    """
    pairs = ((women, ill) for women in range(1, PEOPLE + 1) for ill in range(1, women + 1))
    return [(w, c) for w, c in pairs if is_printed(share, Fraction(c, w)) and is_printed(joint, Fraction(c, PEOPLE))]


FITTED = ("nothing randomized", "least, QI only")
"""The figures that the lost table is told from."""
((WOMEN, WITH_CANCER),) = tables_with(*(PRINTED[name] for name in FITTED))
TABLE = JointTable.from_array([[20, 30, 22], [WITH_CANCER, 8, 8]])
"""Gender by disease. Of Table 1 only the women and those with cancer can be told; the rest is free."""
GENDERS, DISEASES = TABLE.sizes
STEPS = 40


def risk(p_gender: float, p_disease: float) -> float:
    """AD Eq. (6) for a woman with cancer; the formula holds below 1/d too."""
    channels = tuple(
        Channel(d, (d * p - 1) / (d - 1), (1 - p) / (d - 1))
        for d, p in zip(TABLE.sizes, (p_gender, p_disease), strict=True)
    )
    return float(Reconstruction(TABLE, channels).values.reshape(TABLE.sizes)[1, 0])


def run(setting: Setting) -> Outcome:
    """Evaluate the risk exactly over all parameters."""
    points = [
        Point(name, retention, risk(*diagonals))
        for name, which in (("S only", (0, 1)), ("QI only", (1, 0)), ("QI and S", (1, 1)))
        for retention in np.linspace(0, 1, STEPS + 1).tolist()
        for diagonals in [_diagonals(retention, *which)]
    ]
    return Outcome(
        tuple(_comparisons()),
        tuple({"randomized": p.series, "retention": p.x, "risk": p.y} for p in points),
        Chart(
            "The risk of a woman with cancer against the share of values that are kept: all three curves rise to .43 "
            "where nothing is randomized; at no retention randomizing QI and S leaves least, S only most.",
            "retention (0: all noise, 1: untouched)",
            "risk, AD Eq. (6)",
            tuple(points),
        ),
        f"AD Table 1: {PEOPLE} people, {WOMEN} women, {WITH_CANCER} of them with cancer",
        notes=(
            f"The cells of Table 1 are lost. {WOMEN} women of {PEOPLE}, {WITH_CANCER} of them with cancer, is the only "
            f"pair of whole numbers that gives {' and '.join(PRINTED[name] for name in FITTED)} (nothing, and QI only, "
            "randomized): these are not compared. The other cells do not matter at the ends of the curves.",
            "The printed proof of Property 1 merges categories, which changes the probability; the statement is true "
            "by another proof: less retention is a post-processing, and no cell's risk rises by one.",
        ),
    )


def _diagonals(retention: float, gender: int, disease: int) -> tuple[float, float]:
    """Return P_ii of both attributes, where those that are randomized keep a share of their values."""
    kept = (retention if gender else 1.0, retention if disease else 1.0)
    return (kept[0] + (1 - kept[0]) / GENDERS, kept[1] + (1 - kept[1]) / DISEASES)


def _comparisons() -> Iterator[Comparison]:
    share, joint = WITH_CANCER / WOMEN, WITH_CANCER / PEOPLE
    ends = {
        "least, S only": ((1, 1 / DISEASES), share**2),
        "least, QI only": ((1 / GENDERS, 1), joint),
        "least, QI and S": ((1 / GENDERS, 1 / DISEASES), joint**2 / (WOMEN / PEOPLE)),
    }
    grid = np.linspace(0.01, 1, 100).tolist()
    for name, (at, formula) in ends.items():
        found = risk(*at)
        if name not in FITTED:
            yield number(f"Fig. 2, {name}", PRINTED[name], found)
        least = min(risk(p, q) for p, q in product(*([x] if x == 1 else grid for x in at)))
        yield sentence(
            f"Property 1, {name}",
            "the minimum is where p = 1/d, and has a closed form",
            f"{found:.6f} there, by the closed form {formula:.6f}; {least:.6f} at the least on a grid",
            abs(found - formula) < 1e-12 and least >= found - 1e-12,
        )
    yield sentence(
        "Property 1, closed form for QI and S",
        "pi(QI, S) / pi(QI), as the text has it",
        f"{share:.4f}; the minimum is {risk(1 / GENDERS, 1 / DISEASES):.4f} = pi(QI, S)^2 / pi(QI)",
        abs(share - risk(1 / GENDERS, 1 / DISEASES)) < 1e-12,
        because="a square is lost in the text; the paper's own example has it",
    )


EXPERIMENT = Experiment("ad-fig2", "AD", "Table 1, Fig. 2, Property 1", "The risk of one person, and its minima", run)
