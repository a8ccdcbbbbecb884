"""AD Fig. 7: mean associations between columns of ESGRO, for every l."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from sfumato_papers.ad.correlations import BY_FIRST
from sfumato_papers.ad.measures import SUCCESS, WITH_SENSITIVE, WITHIN
from sfumato_papers.ad.study import (
    ANATOMY,
    BAYES,
    DIVERSITY,
    INDEPENDENT,
    LEAST_SQUARES,
    MEANING,
    PROVED,
    RR,
    Study,
    ranked,
    repetitions,
    solved,
    studied,
)
from sfumato_papers.ad.tables import ESGRO
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, sentence


def figure_7(setting: Setting) -> Outcome:
    """Means over the pairs, for every l."""
    study = studied(setting)
    methods = (RR, BAYES, PROVED, ANATOMY, LEAST_SQUARES, DIVERSITY, INDEPENDENT)
    points = tuple(
        Point(m, l, study.at[l][m].average(WITH_SENSITIVE)) for m in methods for l in study.at if m in study.at[l]
    )
    return Outcome(
        tuple(_kept(study)),
        tuple(
            {"l": l, "method": method, "QI and S": found.average(WITH_SENSITIVE), "among QI": found.average(WITHIN)}
            | {SUCCESS: found.mean(SUCCESS)}
            for l, of in study.at.items()
            for method, found in of.items()
        ),
        Chart(
            "Mean uncertainty coefficient between quasi-identifiers and occupation against l: randomized response "
            "falls slowly from the original, Anatomy by its own estimate falls to zero at once, and by least squares "
            f"rises a little. At the largest l: {ranked(points)}.",
            "l",
            "mean U, QI and S, hundredths",
            points,
        ),
        study.table.about,
        repetitions(setting),
        notes=(BY_FIRST, _scope(setting, study), *MEANING),
    )


def _kept(study: Study) -> Iterator[Comparison]:
    for what, pairs, others in (
        ("between quasi-identifiers and S", WITH_SENSITIVE, (ANATOMY, DIVERSITY)),
        ("among quasi-identifiers", WITHIN, (DIVERSITY,)),
    ):
        for other in others:
            worse = [l for l in study.ls if _loss(study, RR, l, pairs) >= _loss(study, other, l, pairs)]
            better = [l for l in study.ls if _loss(study, LEAST_SQUARES, l, pairs) < _loss(study, RR, l, pairs)]
            yield sentence(
                f"association {what}: randomization against {other}",
                "nearer to the original at every l",
                f"{study.at[1][RR].average(pairs):.2f} in the original; {_told(study, RR, pairs)}; "
                f"{_told(study, other, pairs)}",
                not worse,
                proved=_told(study, PROVED, pairs)
                + (f"; {_told(study, LEAST_SQUARES, pairs)}" if other == ANATOMY and better else ""),
                noise=study.noise(pairs[0], RR),
                because=f"not at l = {', '.join(map(str, worse))}",
            )


def _scope(setting: Setting, study: Study) -> str:
    """Tell whether it matters that the paper names two methods."""
    found = {l: solved(setting.data, ESGRO, Fraction(1, l), "reconstruction", True) for l in study.ls}
    untouched = [l for l, response in found.items() if response is not None and response.diagonal[-1] == 1]
    return (
        "The text speaks of RR-Both, the caption of RR-QI, which is what is run here; with the parameters of least "
        f"cost RR-Both leaves O untouched, and so is RR-QI, at l = {', '.join(map(str, untouched))}."
        if untouched
        else "The text speaks of RR-Both, the caption of RR-QI, which is what is run here."
    )


def _loss(study: Study, method: str, l: int, pairs: Sequence[str]) -> float:
    return float(np.abs(study.at[l][method].average(pairs) - study.at[1][RR].average(pairs)))


def _told(study: Study, method: str, pairs: Sequence[str]) -> str:
    found = [study.at[l][method].average(pairs) for l in study.ls if method in study.at[l]]
    return f"{method} {', '.join(f'{x:.2f}' for x in found)}"


EXPERIMENT = Experiment("ad-fig7", "AD", "Fig. 7", "Mean associations", figure_7)
