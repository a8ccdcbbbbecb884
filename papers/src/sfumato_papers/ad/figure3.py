"""AD Fig. 3: how far estimates of EMGRW are from the truth, by what is randomized."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from sfumato.methods.response.joint import Channel, Channels, kappa, untouched
from sfumato_papers.ad.measures import DISTANCES, Figures, Repeated, distance_figures
from sfumato_papers.ad.response import Randomized
from sfumato_papers.ad.study import generator, ranked, repetitions, solved
from sfumato_papers.ad.table3 import LS, PRINTED
from sfumato_papers.ad.tables import EMGRW, Joint, joint
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, sentence

QUASI, BOTH, SENSITIVE = "RR-QI", "RR-Both", "RR-S, printed p"
DRAWN = range(1, 8)
"""The l that are drawn; what the paper says is of l = 2 to 5."""
TIMES = 5
"""Releases, for each of the usual number: they are cheap."""
LINEAR = 0.95
"""The least share of the variance that a straight line explains where a figure grows "about linearly"."""
CLEARLY = 3
"""Standard errors of a difference that are not by chance."""
UNCLIPPED, NEGATIVE = "L2 before clipping", "negative cells"
MEASURED = (*DISTANCES, UNCLIPPED, NEGATIVE)
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
        tuple(_comparisons(table, {k: {l: x for l, x in of.items() if l in LS} for k, of in curves.items()}, costs)),
        tuple(
            {"randomized": name, "l": l, "kappa": costs[name][l]}
            | {name: found.mean(name) for name in MEASURED}
            | {f"{name}, standard error": found.error(name) for name in MEASURED}
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
            f"The expected squared L2 distance before that is (kappa - 1)/N; kappa for l = 1 on: {BOTH} "
            f"{_listed(costs[BOTH].values())}, {QUASI} {_listed(costs[QUASI].values())}. The first cannot be larger: "
            f"{QUASI} is a case of {BOTH}.",
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
    return Repeated.of(_figures(table, release) for release in releases)


def _figures(table: Joint, release: Randomized) -> Figures:
    """Return the distances, and what is before negative cells are set to 0."""
    inverse = release.inverse()
    before = {UNCLIPPED: distance_figures(table.counts, inverse)["L2"], NEGATIVE: float((inverse < 0).mean())}
    return {**distance_figures(table.counts, release.clipped()), **before}


def _floor(table: Joint) -> float:
    return distance_figures(table.counts, table.counts)["KL"]


# --- sentences --------------------------------------------------------------------------------------------------------


def _comparisons(table: Joint, curves: Curves, costs: Mapping[str, Mapping[int, float]]) -> Iterator[Comparison]:
    for distance in DISTANCES:
        yield from _of_distance(curves, distance)
    dearer = [l for l in LS if l in costs[BOTH] and costs[BOTH][l] >= costs[SENSITIVE][l]]
    yield sentence(
        f"{BOTH} against RR-S",
        "the least loss, RR-S being one of three ways to keep the limit",
        f"kappa {_listed(costs[BOTH][l] for l in LS if l in costs[BOTH])} and {_listed(costs[SENSITIVE].values())} of "
        "RR-S at the printed p",
        not dearer,
        because=f"RR-S costs no more {_at_l(dearer)}, but does not keep the limit: at no p, since "
        f"{len(table.table.single_valued):,} groups have a single value",
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
        "about linearly",
        "of the variance a straight line explains "
        + ", ".join(f"{name} {share:.1%}" for name, share in straight.items())
        + f" (about linear: {LINEAR:.0%} or more)",
        min(straight.values()) >= LINEAR,
        noise=noise,
        because="from one l to the next the loss grows by a factor, "
        + ", ".join(f"{b / a:.2f}" for a, b in pairwise(means[QUASI]))
        + f" for {QUASI}",
    )
    worse, better = _significant(curves, distance, 1), _significant(curves, distance, -1)
    yield sentence(
        f"{distance}: {BOTH} against {QUASI}",
        "the least loss",
        f"{QUASI} {_listed(means[QUASI])}; {BOTH} {_listed(means[BOTH])}; less, by more than {CLEARLY} standard "
        f"errors, {_at_l(better)}, more {_at_l(worse)}",
        bool(better) and not worse,
        noise=f"{noise}; at l = 2 both have the same parameters",
        because="the parameters are best for L2 before negative cells are set to 0. There, at the l with more, it has "
        f"{_at(curves, UNCLIPPED, worse, '.3g')}; of all cells {_at(curves, NEGATIVE, worse, '.0%')} are negative"
        if worse
        else "not clearly less at any l",
    )


def _significant(curves: Curves, distance: str, sign: int) -> list[int]:
    """Return the l at which RR-Both clearly loses more (sign 1) or less (-1)."""
    pairs = ((l, one, curves[QUASI][l]) for l, one in curves[BOTH].items() if l in curves[QUASI])
    return [
        l
        for l, one, other in pairs
        if sign * (one.mean(distance) - other.mean(distance))
        > CLEARLY * np.hypot(one.error(distance), other.error(distance))
    ]


def _at(curves: Curves, name: str, ls: Sequence[int], form: str) -> str:
    """Tell a figure of both at some l."""
    told = (", ".join(f"{curves[scope][l].mean(name):{form}}" for l in ls) + f" ({scope})" for scope in (BOTH, QUASI))
    return " against ".join(told)


def _at_l(ls: Sequence[int]) -> str:
    return f"at l = {', '.join(map(str, ls))}" if ls else "at no l"


def _listed(figures: Iterable[float]) -> str:
    return ", ".join(f"{x:.3g}" for x in figures)


def _straightness(values: Sequence[float]) -> float:
    """Return which share of the variance a straight line in l explains."""
    return float(np.corrcoef(np.arange(len(values)), values)[0, 1] ** 2) if len(values) > 1 else 1.0


EXPERIMENT = Experiment("ad-fig3", "AD", "Fig. 3", "What is lost by randomizing QI, S or both", run)
