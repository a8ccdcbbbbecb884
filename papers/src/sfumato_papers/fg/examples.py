"""FG Examples 1 and 2, with Fig. 2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from sfumato.claims.odds import Counterexample, counterexample
from sfumato.methods import plan
from sfumato.methods.fine_grain import FineGrain
from sfumato.methods.method import Method
from sfumato.methods.perturbed import PerturbationFigures
from sfumato.methods.uniform import Uniform
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import profile, scan
from sfumato.values.requirement import FineGrainPrivacy, ValueRequirement
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, decimal, number, sentence

DISEASES = ("SARS", "HIV", "H1N1", "cancer")
PATIENTS = ("SARS", "HIV", "SARS", "HIV", "H1N1", "cancer", "H1N1", "cancer")
"""FG Fig. 1."""
FIGURE_2B = np.where(np.eye(4, dtype=bool), 1 / 2, 1 / 6)
FIGURE_2B[:, 0] = 1 / 4
"""FG Fig. 2 (b)."""
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
        _planned(Uniform()),
        _planned(FineGrain(assurance="as-published", weights="observed")),
        _planned(FineGrain(weights="observed", objective="records")),
    )
    gain = published.record_utility / uniform.record_utility - 1
    of_larger = 1 - uniform.record_utility / published.record_utility
    plain, figure = uniform.matrix.dense(), published.matrix.dense()
    comparisons = (
        *_gammas(uniform),
        number("record utility of uniform", "1/3", uniform.record_utility),
        number("Fig. 2 (a): diagonal of the uniform matrix", "1/3", float(plain[0, 0])),
        number(
            "Fig. 2 (a): elsewhere in it",
            "1/3",
            float(plain[0, 1]),
            because=f"a misprint: columns would add up to {len(DISEASES)}/3, and have to add up to one",
        ),
        number("Fig. 2 (b): SARS stays", "1/4", float(figure[0, 0]), proved=float(proved.matrix.dense()[0, 0])),
        number("Fig. 2 (b): HIV stays", "1/2", float(figure[1, 1]), proved=float(proved.matrix.dense()[1, 1])),
        number("Fig. 2 (b): from SARS to HIV", "1/4", float(figure[1, 0]), proved=float(proved.matrix.dense()[1, 0])),
        number("Fig. 2 (b): from HIV to SARS", "1/6", float(figure[0, 1]), proved=float(proved.matrix.dense()[0, 1])),
        sentence(
            "Fig. 2 (b): all entries",
            "as printed",
            f"{int(np.isclose(figure, FIGURE_2B, atol=1e-12).sum())} of {figure.size} are",
            bool(np.allclose(figure, FIGURE_2B, atol=1e-12)),
        ),
        number("record utility of fine-grain", ".4375", published.record_utility, proved=proved.record_utility),
        number(
            "increase in record utility over uniform, in %",
            "24",
            100 * gain,
            proved=100 * (proved.record_utility / uniform.record_utility - 1),
            because=f"what is printed is relative to the larger utility, {100 * of_larger:.1f}%",
        ),
        _theorem_1(published, proved),
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
        Chart(_alt(plans), "disease", "probability of staying", tuple(points), lines=False),
        "FG Fig. 1, eight patients",
    )


def _alt(plans: Mapping[str, PerturbationFigures]) -> str:
    told = [
        f"{name} {', '.join(f'{d} {p:.3f}' for d, p in zip(DISEASES, made.matrix.diagonal, strict=True))}"
        for name, made in plans.items()
    ]
    return f"The probability that a value stays as it is: {'; '.join(told)}."


def _theorem_1(published: PerturbationFigures, proved: PerturbationFigures) -> Comparison:
    """Look for a prior under which a posterior falls below its bound."""
    found, other = (counterexample(made.matrix, made.bounds) for made in (published, proved))
    return sentence(
        "Theorem 1: no posterior falls below rho1",
        "no value whose prior is rho2 or more",
        _told(found),
        found is None,
        proved=_told(other),
        because="the conditions of Fig. 3 bound upward breaches only; those of the proved version bound both",
    )


def _told(found: Counterexample | None) -> str:
    if found is None:
        return "none does"
    told = f"{DISEASES[found.code]} from {found.prior} to {decimal(found.posterior, 4)}"
    return f"{told}, where rho1 is {found.limit}"


def _gammas(made: PerturbationFigures) -> Iterator[Comparison]:
    """Give the gamma of each disease."""
    for disease, printed, bound in zip(DISEASES, ("3/2", "3", "19/2", "18"), made.bounds, strict=True):
        assert bound.gamma is not None
        yield number(f"Example 2: gamma of {disease}", printed, bound.gamma)


def _planned(method: Method) -> PerturbationFigures:
    values = ", ".join(f'"{disease}"' for disease in DISEASES)
    policy = Policy.parse(
        f'[columns.disease]\nrole = "sensitive"\ndomain = [{values}]\n[method]\nname = "{method.name}"\n'
        "[requirement]\nrho1 = 0.1\nrho2 = 0.5"
    )
    counted = profile(scan(pa.table({"disease": PATIENTS}), policy))
    figures = plan(counted, method, EXAMPLE_1).figures
    assert isinstance(figures, PerturbationFigures)
    return figures
