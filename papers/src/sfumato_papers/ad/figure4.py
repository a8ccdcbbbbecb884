"""AD Fig. 4: more records, better estimates; and section V.C: methods by groups do not gain from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.methods.generalization import generalize
from sfumato.methods.response.joint import JointTable
from sfumato_papers.ad.competitors import Anatomized, anatomize
from sfumato_papers.ad.measures import DISTANCES, Figures, Repeated, distance_figures
from sfumato_papers.ad.response import Randomized
from sfumato_papers.ad.study import ANATOMY, DIVERSITY, LEAST_SQUARES, generator, ranked, repetitions, solved
from sfumato_papers.ad.tables import EMGRW, ESGRO, Joint, hierarchies, joint
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, sentence

RATIOS = (0.5, 1.0, 1.5, 2.0, 2.5)
ASKED = 3
"""The l; the paper does not say which."""
BOTH = "RR-Both, EMGRW"
SIZES = f"{DIVERSITY}, ESGRO", f"{ANATOMY}, ESGRO", f"{LEAST_SQUARES}, ESGRO"
Curves = Mapping[str, Mapping[float, Repeated]]
LOST_BY_SIZE = 0.1
"""A distance that falls by less than this share from the smallest table to the largest does not gain from size."""


def run(setting: Setting) -> Outcome:
    """Sample tables of several sizes from Adult, publish each, and compare what is estimated with Adult itself."""
    emgrw, esgro = joint(setting.data, EMGRW), joint(setting.data, ESGRO)
    curves: dict[str, dict[float, Repeated]] = {name: {} for name in (BOTH, *SIZES)}
    for done, ratio in enumerate(RATIOS, 1):
        rng = generator(setting.seed, done)
        for name, found in _published(setting, emgrw, esgro, ratio, rng).items():
            curves[name][ratio] = Repeated.of(found)
        setting.progress(done / len(RATIOS))
    points = tuple(Point(name, x, found.mean("L2")) for name, curve in curves.items() for x, found in curve.items())
    return Outcome(
        tuple(_comparisons(setting, emgrw, curves)),
        tuple(
            {"method": name, "size": ratio, "rows": round(ratio * emgrw.rows)}
            | {distance: found.mean(distance) for distance in DISTANCES}
            | {f"{distance}, standard error": found.error(distance) for distance in DISTANCES}
            for name, curve in curves.items()
            for ratio, found in curve.items()
        ),
        Chart(
            "L2 distance of the estimated table from Adult's distribution against the size of the table, on a "
            "logarithmic scale: it falls for RR-Both and for Anatomy by least squares, and stays for l-diversity and "
            f"for Anatomy's own estimate. At the largest size: {ranked(points)}.",
            "size of the table, relative to Adult",
            "L2 distance",
            points,
            logarithmic=True,
        ),
        f"{emgrw.about}, sampled with replacement",
        repetitions(setting),
        notes=(
            f"l = {ASKED}: the paper does not name its l. A sampled table has not exactly the distribution of Adult, "
            "as the paper says it has; distances are to Adult's distribution.",
        ),
    )


def _published(
    setting: Setting, emgrw: Joint, esgro: Joint, ratio: float, rng: np.random.Generator
) -> Mapping[str, list[Figures]]:
    """Measure all methods on tables of one size."""
    found: dict[str, list[Figures]] = {name: [] for name in (BOTH, *SIZES)}
    response = solved(setting.data, EMGRW, Fraction(1, ASKED), "reconstruction", True)
    assert response is not None
    levels = hierarchies(setting.data, esgro)
    for _ in range(repetitions(setting)):
        release = Randomized.drawn(_sampled(emgrw, ratio, rng).table, response.channels, rng)
        found[BOTH].append(distance_figures(emgrw.counts, release.inverse()))
        sample = _sampled(esgro, ratio, rng)
        coarse = generalize(sample.counts, levels, ASKED).estimate()
        places = anatomize(np.bincount(sample.codes[:, -1], minlength=sample.table.sizes[-1]), ASKED, rng)
        for name, estimate in zip(SIZES, (coarse, *Anatomized.dealt(sample, places, rng).estimates()), strict=True):
            found[name].append(distance_figures(esgro.counts, estimate))
    return found


def _sampled(table: Joint, ratio: float, rng: np.random.Generator) -> Joint:
    """Return a table of records that are drawn from another, with replacement."""
    codes = table.codes[rng.integers(0, table.rows, round(ratio * table.rows))]
    sizes = table.table.sizes
    counts = np.bincount(np.ravel_multi_index(tuple(codes.T), sizes), minlength=table.counts.size)
    return replace(table, codes=codes, table=JointTable.from_array(counts.reshape(sizes)))


# --- sentences --------------------------------------------------------------------------------------------------------


def _comparisons(setting: Setting, table: Joint, curves: Curves) -> Iterator[Comparison]:
    for distance in DISTANCES:
        means = [found.mean(distance) for found in curves[BOTH].values()]
        largest = max(found.error(distance) / found.mean(distance) for found in curves[BOTH].values())
        yield sentence(
            f"{distance}: RR-Both with more records",
            "falls",
            ", ".join(f"{x:.3g}" for x in means) + f" at {RATIOS[0]} to {RATIOS[-1]} times Adult",
            all(a > b for a, b in pairwise(means)),
            noise=f"standard errors are up to {largest:.1%}",
        )
    yield _by_equation_2(setting, table, curves[BOTH])
    gains = {name: _first(curve) / _last(curve) for name, curve in curves.items()}
    for name in SIZES:
        first, last = _first(curves[name]), _last(curves[name])
        yield sentence(
            f"section V.C: {name} with more records",
            "gains nothing",
            f"L2 {first:.4f} at {RATIOS[0]}, {last:.4f} at {RATIOS[-1]} times Adult",
            last > first * (1 - LOST_BY_SIZE),
            noise="a gain of less than a tenth counts as none",
            because=f"it shrinks {gains[name]:.2f} times, where RR-Both shrinks {gains[BOTH]:.2f} times, and a "
            f"standard error would {(RATIOS[-1] / RATIOS[0]) ** 0.5:.2f} times",
        )


def _first(curve: Mapping[float, Repeated]) -> float:
    return curve[RATIOS[0]].mean("L2")


def _last(curve: Mapping[float, Repeated]) -> float:
    return curve[RATIOS[-1]].mean("L2")


def _by_equation_2(setting: Setting, table: Joint, curve: Mapping[float, Repeated]) -> Comparison:
    """Compare the mean squared distance with the trace of AD Eq. (2), (kappa - sum pi^2) / N."""
    response = solved(setting.data, EMGRW, Fraction(1, ASKED), "reconstruction", True)
    assert response is not None
    pi = table.counts / table.rows
    stated = (response.kappa - float((pi**2).sum())) / table.rows
    squared = [np.array([run["L2"] ** 2 for run in found.runs]) * ratio / stated for ratio, found in curve.items()]
    ratios = [float(of.mean()) for of in squared]
    errors = [float(of.std(ddof=1)) / len(of) ** 0.5 for of in squared]
    return sentence(
        "Eq. (2): the squared L2 distance of the unbiased estimate",
        "its trace",
        "measured / stated " + ", ".join(f"{x:.3f}" for x in ratios),
        all(abs(x - 1) <= 4 * e for x, e in zip(ratios, errors, strict=True)),
        noise=f"standard errors are up to {max(errors):.3f}",
    )


EXPERIMENT = Experiment("ad-fig4", "AD", "Fig. 4, section V.C", "What more records bring", run)
