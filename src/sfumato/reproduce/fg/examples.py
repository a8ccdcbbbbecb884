"""FG Examples 1 and 2, with Fig. 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import pyarrow as pa

from sfumato.guarantee import counterexample
from sfumato.methods import plan
from sfumato.plans import Plan
from sfumato.policy import Policy
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, decimal, number, sentence
from sfumato.requirement import FineGrainPrivacy, ValueRequirement
from sfumato.table import profile, scan

DISEASES = ("SARS", "HIV", "H1N1", "cancer")
PATIENTS = ("SARS", "HIV", "SARS", "HIV", "H1N1", "cancer", "H1N1", "cancer")
"""FG Fig. 1."""
EXAMPLE_1 = FineGrainPrivacy(
    (
        ValueRequirement("SARS", "1/10", "1/7"),
        ValueRequirement("HIV", "1/10", "1/4"),
        ValueRequirement("H1N1", "1/9", "19/35"),
        ValueRequirement("cancer", "1/8", "18/25"),
    )
)


def examples(setting: Setting) -> Outcome:
    """Four diseases, each with a requirement of its own: uniform beside fine-grain."""
    uniform, published, proved = (
        _planned("uniform", "proved"),
        _planned("fine-grain", "as-published"),
        _planned("fine-grain", "proved"),
    )
    found = counterexample(published.matrix, published.bounds)
    assert found is not None
    gain = published.record_utility / uniform.record_utility - 1
    of_larger = 1 - uniform.record_utility / published.record_utility
    figure = published.matrix.dense()
    comparisons = (
        *_gammas(uniform),
        number("Fig. 2 (a): diagonal of the uniform matrix", "1/3", uniform.record_utility),
        number(
            "Fig. 2 (a): elsewhere in it",
            "1/3",
            float(uniform.matrix.dense()[0, 1]),
            because="a misprint: columns would add up to more than one",
        ),
        number("Fig. 2 (b): SARS stays", "1/4", float(figure[0, 0]), proved=float(proved.matrix.dense()[0, 0])),
        number("Fig. 2 (b): HIV stays", "1/2", float(figure[1, 1]), proved=float(proved.matrix.dense()[1, 1])),
        number("Fig. 2 (b): from SARS to HIV", "1/4", float(figure[1, 0]), proved=float(proved.matrix.dense()[1, 0])),
        number("Fig. 2 (b): from HIV to SARS", "1/6", float(figure[0, 1]), proved=float(proved.matrix.dense()[0, 1])),
        number("record utility of fine-grain", ".4375", published.record_utility, proved=proved.record_utility),
        number("gain over uniform, in %", "24", 100 * of_larger),
        sentence(
            "Theorem 1: no posterior falls below rho1",
            "SARS stays at 1/10 or above",
            f"{decimal(found.posterior, 4)} for a prior of {found.prior}",
            found.posterior >= found.limit,
            proved="no violation" if counterexample(proved.matrix, proved.bounds) is None else "violated too",
            because="the theorem bounds upward breaches only; the proved version bounds both",
        ),
    )
    plans = {"uniform": uniform, "as published": published, "proved": proved}
    points = [
        Point(name, disease, float(made.matrix.dense()[k, k]))
        for name, made in plans.items()
        for k, disease in enumerate(DISEASES)
    ]
    return Outcome(
        comparisons,
        tuple({"matrix": p.series, "disease": p.x, "probability of staying": p.y} for p in points),
        Chart(
            "The probability that a value stays as it is: one third for all with the uniform matrix; a quarter for "
            "SARS and a half for the others with fine-grain as published.",
            "disease",
            "probability of staying",
            tuple(points),
            lines=False,
        ),
        "FG Fig. 1, eight patients",
        notes=(f"The printed gain is relative to the larger figure; relative to uniform it is {100 * gain:.2f}%.",),
    )


def _gammas(made: Plan) -> Iterator[Comparison]:
    """Give the gamma of each disease."""
    for disease, printed, bound in zip(DISEASES, ("3/2", "3", "19/2", "18"), made.bounds, strict=True):
        assert bound.gamma is not None
        yield number(f"Example 2: gamma of {disease}", printed, bound.gamma)


def _planned(method: Literal["uniform", "fine-grain"], assurance: Literal["proved", "as-published"]) -> Plan:
    values = ", ".join(f'"{disease}"' for disease in DISEASES)
    policy = Policy.parse(
        f'[columns.disease]\nrole = "sensitive"\ndomain = [{values}]\n[method]\nname = "{method}"\n'
        "[requirement]\nrho1 = 0.1\nrho2 = 0.5"
    )
    counted = profile(scan(pa.table({"disease": PATIENTS}), policy))
    made = plan(counted, method=method, requirement=EXAMPLE_1, assurance=assurance)
    assert isinstance(made, Plan)
    return made
