"""AD Fig. 3: how far estimates of EMGRW are from the truth, by what is randomized."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.methods.response import Channel, Channels, kappa, untouched
from sfumato.reproduce.ad.measures import DISTANCES, Repeated, distance_figures
from sfumato.reproduce.ad.response import Randomized
from sfumato.reproduce.ad.study import generator, ranked, repetitions, solved
from sfumato.reproduce.ad.table3 import LS, PRINTED
from sfumato.reproduce.ad.tables import EMGRW, Joint, joint
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Experiment, Outcome, Setting, sentence

QUASI, BOTH, SENSITIVE = "RR-QI", "RR-Both", "RR-S, printed p"
DRAWN = range(1, 8)
"""The l that are drawn; what the paper says is of l = 2 to 5."""
TIMES = 5
"""Releases, for each of the usual number: they are cheap."""
LINEAR = 0.95
"""The least share of the variance that a straight line explains where a figure grows "about linearly"."""
Curves = Mapping[str, Mapping[int, Repeated]]


def run(setting: Setting) -> Outcome:
    """Draw releases for every l with the parameters of least cost; RR-S with the printed ones."""
    table = joint(setting.data, EMGRW)
    curves: dict[str, dict[int, Repeated]] = {QUASI: {}, BOTH: {}, SENSITIVE: {}}
    costs: dict[str, dict[int, float]] = {name: {} for name in curves}
    for k, name in enumerate(curves):
        for l in LS if name == SENSITIVE else DRAWN:
            channels = _channels(setting, table, name, l)
            if channels is not None:
                curves[name][l] = _drawn(table, channels, TIMES * repetitions(setting), generator(setting.seed, l, k))
                costs[name][l] = kappa(channels)
        setting.progress((k + 1) / len(curves))
    points = tuple(Point(name, l, found.mean("KL")) for name, curve in curves.items() for l, found in curve.items())
    return Outcome(
        tuple(_comparisons({name: {l: one for l, one in of.items() if l in LS} for name, of in curves.items()}, costs)),
        tuple(
            {"randomized": name, "l": l, "kappa": costs[name][l]}
            | {distance: found.mean(distance) for distance in DISTANCES}
            | {f"{distance}, standard error": found.error(distance) for distance in DISTANCES}
            for name, curve in curves.items()
            for l, found in curve.items()
        ),
        Chart(
            "The KL distance of the estimated table from the true one against l: RR-QI and RR-Both rise together, ever "
            "more steeply; RR-S, at the printed parameters, which do not keep the limit, rises faster. At the last l "
            f"of each: {ranked(points)}.",
            "l",
            "KL distance",
            points,
        ),
        table.about,
        TIMES * repetitions(setting),
        notes=(
            "Negative cells of the inverse estimate are set to 0; KL and chi-square take cells below half a record as "
            f"half a record, which alone makes a KL distance of {_floor(table):.3f} where nothing is randomized.",
        ),
    )


def _channels(setting: Setting, table: Joint, name: str, l: int) -> Channels | None:
    if name == SENSITIVE:
        size = table.table.sizes[-1]
        last = Channel.from_diagonal(size, max(1 / size, float(PRINTED[QUASI][l][-1])))
        return (*untouched(table.table.sizes[:-1]), last)
    found = solved(setting.data, EMGRW, Fraction(1, l), "reconstruction", name == BOTH)
    return None if found is None else found.channels


def _drawn(table: Joint, channels: Channels, times: int, rng: np.random.Generator) -> Repeated:
    releases = (Randomized.drawn(table.table, channels, rng) for _ in range(times))
    return Repeated.of(distance_figures(table.counts, release.clipped()) for release in releases)


def _floor(table: Joint) -> float:
    return distance_figures(table.counts, table.counts)["KL"]


# --- sentences --------------------------------------------------------------------------------------------------------


def _comparisons(curves: Curves, costs: Mapping[str, Mapping[int, float]]) -> Iterator[Comparison]:
    for distance in DISTANCES:
        yield from _of_distance(curves, distance)
    yield sentence(
        f"{BOTH} against {QUASI}, exactly",
        "the least loss in L2, as expected",
        f"kappa {_listed(costs[BOTH].values())} and {_listed(costs[QUASI].values())}",
        all(costs[BOTH][l] <= costs[QUASI][l] * (1 + 1e-6) for l in LS if l in costs[BOTH] and l in costs[QUASI]),
    )
    yield sentence(
        f"{BOTH} against RR-S",
        "the least loss, RR-S being one of three ways to keep the limit",
        f"kappa {_listed(costs[BOTH][l] for l in LS if l in costs[BOTH])} and {_listed(costs[SENSITIVE].values())} of "
        "RR-S at the printed p",
        all(costs[BOTH][l] < costs[SENSITIVE][l] for l in LS if l in costs[BOTH]),
        because="RR-S does not keep the limit at any p; what its curve was drawn from cannot be told",
    )


def _of_distance(curves: Curves, distance: str) -> Iterator[Comparison]:
    means = {name: [found.mean(distance) for found in curve.values()] for name, curve in curves.items()}
    largest = max(found.error(distance) / found.mean(distance) for curve in curves.values() for found in curve.values())
    noise = f"standard errors are up to {largest:.1%}"
    told = "; ".join(f"{name} {_listed(of)}" for name, of in means.items())
    yield sentence(
        f"{distance}: a larger l",
        "loses more, whatever is randomized",
        told,
        all(a < b for of in means.values() for a, b in pairwise(of)),
        noise=noise,
    )
    straight = {name: _straightness(of) for name, of in means.items()}
    yield sentence(
        f"{distance}: how the loss grows with l",
        f"about linearly; here: a straight line explains {LINEAR:.0%} or more",
        ", ".join(f"{name} {share:.1%}" for name, share in straight.items()),
        min(straight.values()) >= LINEAR,
        noise=noise,
        because="from one l to the next the loss grows by a factor, "
        + ", ".join(f"{b / a:.2f}" for a, b in pairwise(means[QUASI]))
        + f" for {QUASI}",
    )
    worse = _significantly_more(curves, distance)
    yield sentence(
        f"{distance}: {BOTH} against {QUASI}",
        "the least loss",
        f"{QUASI} {_listed(means[QUASI])}; {BOTH} {_listed(means[BOTH])}",
        not worse,
        noise=f"{noise}; at l = 2 both have the same parameters",
        because=f"not at l = {', '.join(map(str, worse))}: the parameters are best for L2 before negative cells are "
        "set to 0, which costs RR-Both more",
    )


def _significantly_more(curves: Curves, distance: str) -> list[int]:
    """Return the l at which RR-Both loses more, by more than three standard errors of the difference."""
    pairs = ((l, one, curves[QUASI][l]) for l, one in curves[BOTH].items() if l in curves[QUASI])
    return [
        l
        for l, one, other in pairs
        if one.mean(distance) - other.mean(distance) > 3 * np.hypot(one.error(distance), other.error(distance))
    ]


def _listed(figures: Iterable[float]) -> str:
    return ", ".join(f"{x:.3g}" for x in figures)


def _straightness(values: Sequence[float]) -> float:
    """Return which share of the variance a straight line in l explains."""
    return float(np.corrcoef(np.arange(len(values)), values)[0, 1] ** 2) if len(values) > 1 else 1.0


EXPERIMENT = Experiment("ad-fig3", "AD", "Fig. 3", "What is lost by randomizing QI, S or both", run)
