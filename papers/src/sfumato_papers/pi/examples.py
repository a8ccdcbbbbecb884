"""PI Examples 1 and 2: four patients, Tables I-IV; three tuples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from sfumato.methods.robustness.check import (
    delta_ceiling,
    meets_published_delta,
    meets_repaired_delta,
    prior_free_bound,
    repaired_delta_ceiling,
)
from sfumato.methods.robustness.posterior import posterior
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, decimal, number, sentence

MALE, FEMALE = (Fraction("0.1"), Fraction("0.9")), (Fraction("0.003"), Fraction("0.997"))
"""Table IV: Lung Cancer, and all else."""
TABLE_III = {"L1": ("Lung Cancer", "Hypertension"), "L2": ("Flu", "HIV")}
EXAMPLE_2 = (Fraction("0.1"), Fraction("0.08"), Fraction("0.09"))
HALF = Fraction(1, 2)


def examples(setting: Setting) -> Outcome:
    """What is inferred of each patient."""
    rows = tuple(_rows())
    points = [
        Point(series, str(row["patient"]), float(row[series]))
        for series in ("nothing known", "Table IV known", "limit")
        for row in rows
    ]
    return Outcome(
        (*_example_1(), *_definitions(), *_example_2(), _splitting()),
        rows,
        Chart(
            "The largest probability with which a patient is linked to a disease, without knowledge and with Table IV: "
            + "; ".join(f"{r['patient']} {r['nothing known']:.2f} and {r['Table IV known']:.2f}" for r in rows)
            + ".",
            "patient",
            "largest probability",
            tuple(points),
            lines=False,
        ),
        "PI Tables I-IV, four patients",
        notes=(
            "Of L2 the paper gives no probability. Its two females are alike: no prior by sex links one to a disease "
            f"by more than {float(prior_free_bound([2], [1, 1]).max()):g}.",
        ),
    )


def _rows() -> Iterator[dict[str, str | float]]:
    alike, known = posterior([MALE, MALE], [1, 1], [1, 1]), posterior([MALE, FEMALE], [1, 1], [1, 1])
    females = posterior([FEMALE], [2], [1, 1])
    for patient, group, told in (
        ("Alan", "L1", known[0]),
        ("Betty", "L1", known[1]),
        ("Catherine", "L2", females[0]),
        ("Diana", "L2", females[0]),
    ):
        yield {
            "patient": patient,
            "group": group,
            "nothing known": float(max(alike[0])),
            "Table IV known": float(max(told)),
            "limit": float(HALF),
        }


def _example_1() -> Iterator[Comparison]:
    known = posterior([MALE, FEMALE], [1, 1], [1, 1])
    most = max(group.count(disease) / len(group) for group in TABLE_III.values() for disease in group)
    yield sentence("Table III", "it is 2-diverse", f"no disease has more than {most:g} of a group", most <= HALF)
    yield number("Example 1: nothing known, in %", "50", 100 * posterior([MALE, MALE], [1, 1], [1, 1])[0, 0])
    yield sentence(
        "Example 1: Alan and Lung Cancer, Table IV known",
        "more than 50%",
        f"{known[0, 0]} = {decimal(known[0, 0], 4)}",
        known[0, 0] > HALF,
        proved=_repaired([MALE, FEMALE], [1, 1]),
    )
    yield sentence(
        "Example 1: Betty and Lung Cancer",
        "less likely than Alan",
        f"{known[1, 0]} = {decimal(known[1, 0], 4)}",
        known[1, 0] < known[0, 0],
    )


def _definitions() -> Iterator[Comparison]:
    """Definitions 7 and 8 in the running example."""
    f = np.array([MALE[0], FEMALE[0]])
    deviation = f.max() - f
    ceiling = delta_ceiling(2, 2, f.max())
    yield number("Definition 7: deviation of Alan", "0", deviation[0])
    yield number("Definition 7: deviation of Betty", "0.097", deviation[1])
    yield sentence(
        "Definition 8: the ceiling",
        "no deviation is above it",
        f"Delta_max = {decimal(max(deviation), 3)}, Delta_ceil = {decimal(ceiling, 3)} in the running example",
        max(deviation) <= ceiling,
        because=f"that is condition (5); where N = r, as here, the ceiling is {decimal(ceiling, 3)}",
    )


def _example_2() -> Iterator[Comparison]:
    f = max(EXAMPLE_2)
    ceiling = delta_ceiling(3, 2, f)
    yield number("Example 2: Delta_max", "0.02", f - min(EXAMPLE_2))
    yield number("Example 2: Delta_ceil", "0.0474", ceiling, proved=repaired_delta_ceiling(3, 2, float(f)))
    two = posterior([[p, 1 - p] for p in EXAMPLE_2], [1, 1, 1], [1, 2])
    yield sentence(
        "Example 2: if all but x is one outcome",
        "no tuple is linked to x by more than 1/2",
        f"{decimal(max(two[:, 0]), 4)} at most",
        max(two[:, 0]) <= HALF,
    )
    g = f - ceiling
    tuples = [[EXAMPLE_2[0], g, g], [EXAMPLE_2[1], f, f], [EXAMPLE_2[2], f, f]]
    assert meets_published_delta(tuples, [1, 1, 1], 2)
    found = posterior(tuples, [1, 1, 1], [1, 1, 1])[0, 0]
    yield sentence(
        "Example 2: with three values that all meet the condition",
        "no tuple is linked to x by more than 1/2",
        f"{found} = {decimal(found, 4)}",
        found <= HALF,
        proved=_repaired(tuples, [1, 1, 1]),
        because=f"they meet (4), but the first tuple, {float(tuples[0][0] / tuples[1][0]):.2f} times as likely as the "
        f"second to have x, is {float(f / g):.2f} times less likely to have each other value",
    )


def _repaired(tuples: Sequence[Sequence[Fraction]], counts: Sequence[int]) -> str:
    return f"the group {'meets' if meets_repaired_delta(tuples, counts, 2) else 'does not meet'} the repaired condition"


def _splitting() -> Comparison:
    """Two males and two females, two cases of Lung Cancer."""
    union = posterior([MALE, FEMALE], [2, 2], [2, 2])
    halves = [posterior([row], [2], [1, 1]) for row in (MALE, FEMALE)]
    largest = max(half.max() for half in halves)
    return sentence(
        "Section I: a group of two males and two females",
        "it can violate what its halves, by sex, do not",
        f"{decimal(union.max(), 4)} in the group, {largest} in each half",
        union.max() > HALF >= largest,
    )
