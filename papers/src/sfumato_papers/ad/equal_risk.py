"""AD Figs. 5 and 6 once more, at equal measured risk: the share of people that a guesser is right about."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.auditor.attackers.linking_guesser import STOPS
from sfumato.methods.generalization import generalize
from sfumato_papers.ad.diversity import largest_share
from sfumato_papers.ad.measures import LARGEST, SUCCESS, Repeated
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
    generator,
    randomized,
    repetitions,
    solved,
    studied,
)
from sfumato_papers.ad.tables import ESGRO, hierarchies
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, sentence

FURTHER = tuple(Fraction(x) for x in (8, 10, 12, 15, 18, 20, 22, 23, "23.5"))
"""Limits 1/l beyond the paper's, so that randomization comes to the others' risks."""
FIGURES = ("KL", "L2", "base", "cube")
SAME = 0.01
"""Shares of people that differ by less are the same risk."""


@dataclass(frozen=True, eq=False)
class Curve:
    """The figures of a method against its risk, from the largest risk down."""

    limits: tuple[float, ...]  # the l of each point
    points: tuple[Repeated, ...]
    measured: str = SUCCESS  # the figure that is the risk

    @property
    def risks(self) -> list[float]:
        """The share of people guessed right."""
        return [point.mean(self.measured) for point in self.points]

    def at(self, risk: float, name: str) -> float | None:
        """Return a figure at a risk, between the two nearest points; None below the least risk that was reached.

        At risks above the first point's, where nothing is randomized, it is that point's.
        """
        return self._between(risk, [point.mean(name) for point in self.points])

    def limit(self, risk: float) -> float | None:
        """Return the l that brings a risk about."""
        return self._between(risk, self.limits)

    def _between(self, risk: float, figures: Sequence[float]) -> float | None:
        if risk < min(self.risks):
            return None
        order = np.argsort(self.risks)
        return float(np.interp(risk, np.array(self.risks)[order], np.array(figures)[order]))


def run(setting: Setting) -> Outcome:
    """Draw the curve of randomization against its measured risk, and read it where the others are."""
    study = studied(setting)
    published = {**{Fraction(l): found for l, found in study.at.items()}, **_further(setting, study)}
    limits = tuple(float(l) for l in published)
    curves = {name: Curve(limits, tuple(of[name] for of in published.values())) for name in (RR, BAYES)}
    proved = {l: of[PROVED] for l, of in study.at.items() if PROVED in of}
    curves[PROVED] = Curve(tuple(map(float, proved)), tuple(proved.values()))
    return Outcome(
        tuple(_comparisons(setting, study, curves)),
        tuple(_rows(study, published)),
        Chart(
            "KL distance, on a logarithmic scale, against the share of people whose occupation a guesser gets "
            "right: the distance of randomized response rises steeply as the risk falls; l-diversity lies between its "
            "inverse estimate and iterative Bayes; Anatomy is far to the right; independent columns have the least "
            "risk, at a distance that randomization exceeds at such risks.",
            "share of people guessed right",
            "KL distance",
            tuple(_points(study, curves)),
            logarithmic=True,
        ),
        study.table.about,
        repetitions(setting),
        notes=(*MEANING, *_notes(study, curves)),
    )


def _further(setting: Setting, study: Study) -> Mapping[Fraction, Mapping[str, Repeated]]:
    found = {}
    for k, l in enumerate(FURTHER):
        response = solved(setting.data, ESGRO, 1 / l, "reconstruction")
        if response is not None:
            found[l] = randomized(study.table, response, repetitions(setting), generator(setting.seed, 100 + k))
    return found


def _rows(study: Study, published: Mapping[Fraction, Mapping[str, Repeated]]) -> Iterator[dict[str, Any]]:
    for l, of in published.items():
        for method, found in of.items():
            figures = {name: found.mean(name) for name in (SUCCESS, *FIGURES)}
            yield {"l": float(l), "method": method, **figures, f"{SUCCESS}, standard error": found.error(SUCCESS)}


def _points(study: Study, curves: Mapping[str, Curve]) -> Iterator[Point]:
    for name, curve in curves.items():
        yield from (Point(name, found.mean(SUCCESS), found.mean("KL")) for found in curve.points)
    for name in (ANATOMY, LEAST_SQUARES, DIVERSITY):
        yield from (Point(name, study.mean(name, l, SUCCESS), study.mean(name, l, "KL")) for l in study.ls)
    yield Point(INDEPENDENT, study.mean(INDEPENDENT, 2, SUCCESS), study.mean(INDEPENDENT, 2, "KL"))


# --- comparisons ------------------------------------------------------------------------------------------------------


def _comparisons(setting: Setting, study: Study, curves: Mapping[str, Curve]) -> Iterator[Comparison]:
    yield from (_same_privacy(study, method) for method in (ANATOMY, DIVERSITY))
    yield _not_bounded(setting, study)
    for other in (ANATOMY, LEAST_SQUARES, DIVERSITY):
        yield from (_against(study, curves, other, name) for name in FIGURES)


def _same_privacy(study: Study, method: str) -> Comparison:
    """Whether methods at the same l have the same measured risk."""
    pairs = [(study.mean(RR, l, SUCCESS), study.mean(method, l, SUCCESS)) for l in study.ls]
    above = {m: [l for l in study.ls if study.mean(m, l, SUCCESS) > 1 / l] for m in (RR, method)}
    return sentence(
        f"the privacy of {RR} and {method} at the same l",
        "the same: each limits to 1/l what is inferred",
        f"guessed right: {RR} {_listed([a for a, _ in pairs])}; {method} {_listed([b for _, b in pairs])}; without a "
        f"release {study.mean(INDEPENDENT, 2, SUCCESS):.3f}, from the table itself {study.mean(RR, 1, SUCCESS):.3f}",
        all(abs(a - b) < SAME for a, b in pairs),
        proved=f"{PROVED} {_listed(study.means(PROVED, SUCCESS))}",
        noise=study.noise(SUCCESS, RR, method),
        because=f"they are up to {max(abs(a - b) for a, b in pairs):.3f} apart; "
        + ", ".join(f"{m} is above 1/l at l = {_and(ls)}" for m, ls in above.items() if ls),
    )


def _not_bounded(setting: Setting, study: Study) -> Comparison:
    levels = hierarchies(setting.data, study.table)
    shares = [largest_share(generalize(study.table.counts, levels, l).table) for l in study.ls]
    return sentence(
        "section IV: the largest share of one value in a class of an l-diverse table",
        "at most 1/l",
        f"{_listed(shares)} at l = {study.ls[0]} to {study.ls[-1]}",
        all(share <= 1 / l for share, l in zip(shares, study.ls, strict=True)),
        because="entropy l-diversity, which the paper runs, bounds the entropy of a class and not its largest share",
    )


def _against(study: Study, curves: Mapping[str, Curve], other: str, name: str) -> Comparison:
    """Compare at the risk of the other method, for every l."""
    risks, figures = study.means(other, SUCCESS), study.means(other, name)
    ours = [curves[RR].at(risk, name) for risk in risks]
    by_bayes = [curves[BAYES].at(risk, name) for risk in risks]
    unchanged = [l for l, risk in zip(study.ls, risks, strict=True) if risk >= curves[RR].risks[0]]
    worse, bayes = (_not_less(study, curves[own], other, name) for own in (RR, BAYES))
    return sentence(
        f"{name} at equal measured risk: randomization against {other}",
        "smaller, at the same privacy",
        f"{RR} {_listed(ours)}; {other} {_listed(figures)}"
        + (f"; not judged at l = {_and(unchanged)}: the table as it is has no larger risk" if unchanged else ""),
        not worse and len(unchanged) < len(study.ls),
        proved=f"{PROVED} {_listed([curves[PROVED].at(risk, name) for risk in risks])}",
        noise=f"{study.noise(SUCCESS, RR, other)}; between drawn points, straight lines",
        because=f"not at l = {_and(worse)}: for these risks {RR} takes the limits 1/l of l = "
        f"{_listed([curves[RR].limit(study.mean(other, l, SUCCESS)) for l in worse])}. By iterative Bayes it has "
        f"{_listed(by_bayes)}, " + (f"not smaller at l = {_and(bayes)}" if bayes else "smaller"),
    )


def _not_less(study: Study, curve: Curve, other: str, name: str) -> list[int]:
    """The l at whose risk of the other method the figure is not below the other's; the table as it is is not judged."""
    risks, figures = study.means(other, SUCCESS), study.means(other, name)
    return [
        l
        for l, risk, figure in zip(study.ls, risks, figures, strict=True)
        if risk < curve.risks[0] and not _is_less(curve.at(risk, name), figure)
    ]


def _is_less(a: float | None, b: float) -> bool:
    return a is not None and a < b


def _listed(figures: Sequence[float | None]) -> str:
    return ", ".join("not reached" if x is None else f"{x if x > 1e-12 else 0:.3g}" for x in figures)


def _and(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))


def _notes(study: Study, curves: Mapping[str, Curve]) -> Iterator[str]:
    yield (
        "The guesser knows a person's quasi-identifiers. From randomized response it estimates the table by "
        f"iterative Bayes, in {STOPS[-1]} steps, and takes the likeliest value; from Anatomy it takes, of the values "
        "in the person's group, the one that is over-represented most among people alike, by least squares; from "
        "l-diversity the most frequent value of the class; without association the most frequent value of all."
    )
    yield _best_stop(study, curves)
    constant = study.mean(INDEPENDENT, 2, SUCCESS)
    for name in FIGURES:
        limit = study.mean(INDEPENDENT, 2, name)
        told = "; ".join(f"{method} {_crossing(curve, name, limit)}" for method, curve in curves.items())
        yield (
            f"{name}: independent columns have {limit:.3g} at a risk of {constant:.3f}. Randomization is no better "
            f"than that at the following risks: {told}."
        )


def _best_stop(study: Study, curves: Mapping[str, Curve]) -> str:
    """Tell what a guesser makes of randomized response who stops iterative Bayes where it guesses best."""
    found = "; ".join(f"{method} {_listed(study.means(method, LARGEST))}" for method in (RR, PROVED))
    stronger = replace(curves[RR], measured=LARGEST)
    further = [
        f"{name} against {other} at l = {_and(more)}"
        for other in (ANATOMY, LEAST_SQUARES, DIVERSITY)
        for name in FIGURES
        if (more := sorted({*_not_less(study, stronger, other, name)} - {*_not_less(study, curves[RR], other, name)}))
    ]
    return (
        f"Who stops after as many of {', '.join(map(str, STOPS[:-1]))} or {STOPS[-1]} steps as guess most people right "
        f"has more right from randomized response: {found}. At these risks of {RR} its figures are not smaller in "
        f"further places: {'; '.join(further) or 'none'}. The others' guessers were given no such choice."
    )


def _crossing(curve: Curve, name: str, limit: float) -> str:
    """Tell at which of the drawn risks a method's figure is no better than a limit."""
    worse = [point.mean(SUCCESS) for point in curve.points if point.mean(name) >= limit]
    return f"{max(worse):.3f} and below" if worse else "none"


EXPERIMENT = Experiment("ad-equal-risk", "AD", "Figs. 5-6 at equal measured risk", "A guesser's success", run)
