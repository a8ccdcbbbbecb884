"""SDR Figs. 2, 3 and 4: errors of count queries with Perturbation Partitioning, uniform perturbation and Anatomy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.methods.small_domain import partition
from sfumato.randomness import SecretKey
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato.reproduce.progress import no_progress
from sfumato.reproduce.sdr.census import EDU, OCC, Census, Kind, stands_in
from sfumato.reproduce.sdr.measured import ANA, PP, PROVED, UNBIASED, UP, Curve, Curves, measure, percent, repetitions
from sfumato.reproduce.sdr.partitions import ROWS, SIZES
from sfumato.reproduce.sdr.queries import SELECTIVITIES, Pool
from sfumato.reproduce.sdr.released import Anatomized, Perturbed

QUICK_SIZES = (100_000, 300_000, 500_000)
SHOWN = 120
"""Queries of each method that are drawn in the picture of Fig. 3."""
ERROR_AXIS = "mean relative error in %, s = 0.1%"


def methods(table: Census, L: int) -> dict[str, Perturbed | Anatomized]:
    """Return the methods under rho2 = 1/L, that is L-diversity; UP has its largest protected frequency as rho1."""
    published, proved = (
        partition(table.counts, table.kind.rho1, Fraction(1, L), assurance=assurance)
        for assurance in ("as-published", "proved")
    )
    return {
        PP: Perturbed(published.blocks),
        PROVED: Perturbed(proved.blocks),
        UP: Perturbed((published.whole,)),
        ANA: Anatomized.of(table, L),
    }


def _by_level(kind: Kind, setting: Setting) -> tuple[Census, Curves]:
    table = Census.of(setting.data.census(ROWS), kind)
    found = measure(table, [methods(table, L) for L in kind.levels], setting)
    return table, Curves(kind, "L", kind.levels, found)


def _by_size(kind: Kind, setting: Setting) -> tuple[str, Curves]:
    sizes = QUICK_SIZES if setting.quick else SIZES
    found: list[Mapping[str, Curve]] = []
    named = setting.data.census(max(sizes))
    for done, size in enumerate(sizes):
        table = Census.of(named, kind, size)
        found += measure(table, [methods(table, kind.levels[0])], replace(setting, progress=no_progress))
        setting.progress((done + 1) / len(sizes))
    return named.about, Curves(kind, "records", sizes, tuple(found))


# --- Fig. 2 -----------------------------------------------------------------------------------------------------------


def occ_by_level(setting: Setting) -> Outcome:
    """The upper half: L = 6 to 3."""
    table, curves = _by_level(OCC, setting)
    pp, ana = curves.mean(PP), curves.mean(ANA)
    falls = [1 - errors[-1, 0] / errors[0, 0] for errors in (pp, ana)]
    narrowed = [1 - errors[:, -1] / errors[:, 0] for errors in (pp, ana)]
    ratio, proved = (curves.mean(UP) / curves.mean(name) for name in (PP, PROVED))
    because = stands_in(table.about)
    comparisons = (
        _less(curves, PP, UP, because),
        _less(curves, PP, ANA, because),
        sentence(
            "a weaker requirement",
            "PP's error falls as L does, Ana's hardly changes",
            f"from L = {curves.places[0]} to {curves.places[-1]} PP's falls by {falls[0]:.0%}, Ana's by {falls[1]:.0%}",
            bool((np.diff(pp[:, 0]) < 0).all() and abs(falls[1]) < falls[0] / 2),
            because=because,
            noise=curves.noise,
        ),
        sentence(
            "a larger selectivity",
            "PP's error falls; less clearly Ana's",
            f"from s = {SELECTIVITIES[0]:.1%} to {SELECTIVITIES[-1]:.1%} PP's falls by {narrowed[0].min():.0%} "
            f"to {narrowed[0].max():.0%}, Ana's by {narrowed[1].min():.0%} to {narrowed[1].max():.0%}",
            bool((narrowed[0] > np.maximum(narrowed[1], 0)).all()),
            because=because,
            noise=curves.noise,
        ),
        sentence(
            "section 7: PP's error against UP's",
            "a decrease of over 200%, read as: UP's is more than three times PP's",
            f"UP's is {ratio.min():.1f} to {ratio.max():.1f} times PP's",
            bool(ratio.min() > 3),
            proved=f"{proved.min():.1f} to {proved.max():.1f} times",
            because=(
                f"three times or more at {int((ratio >= 3).sum())} of {ratio.size} points; PP retains more, but what "
                "it replaces falls on few values, which makes more noise for each"
            ),
            noise=curves.noise,
        ),
    )
    notes = (_unbiased_note(curves), *_risk_notes(curves), _estimator_note())
    return _outcome(curves, comparisons, table.about, setting, notes)


def occ_by_size(setting: Setting) -> Outcome:
    """The lower half: 100,000 to 500,000 records, L = 6."""
    about, curves = _by_size(OCC, setting)
    comparisons = (
        _less(curves, PP, UP, stands_in(about)),
        _less(curves, PP, ANA, f"{stands_in(about)}; PP's error grows as records become fewer, Ana's bias does not"),
        _with_size(curves, about),
    )
    return _outcome(curves, comparisons, about, setting, (_unbiased_note(curves),))


def _less(curves: Curves, smaller: str, larger: str, because: str) -> Comparison:
    wrong = curves.exceptions(smaller, larger)
    return sentence(
        f"{smaller} against {larger}",
        f"{smaller} has the smaller error everywhere",
        f"{curves.shown(smaller)}; {curves.shown(larger)}{'; not smaller at ' + ' and '.join(wrong) if wrong else ''}",
        not wrong,
        proved=curves.shown(PROVED) if smaller == PP else "",
        because=because,
        noise=curves.noise,
    )


def _with_size(curves: Curves, about: str) -> Comparison:
    first, last = curves.mean(PP)[[0, -1], 0]
    return sentence(
        "PP's error and the number of records",
        "falls as there are more",
        f"from {percent(first)} to {percent(last)}, by a factor {first / last:.2f}; the root of the sizes gives "
        f"{(curves.places[-1] / curves.places[0]) ** 0.5:.2f}",
        bool(last < first),
        because=stands_in(about),
        noise=curves.noise,
    )


def _unbiased_note(curves: Curves) -> str:
    """What the paper did not try: Anatomy's groups tell more than its estimate takes from them."""
    better = not curves.exceptions(UNBIASED, PP)
    return (
        "Ana's estimate (SDR 10.10) takes value and condition as independent inside a group. Least squares on the same "
        f"groups does not: {curves.shown(UNBIASED)}, {'less' if better else 'not less'} than PP everywhere."
    )


def _risk_notes(curves: Curves) -> tuple[str, ...]:
    risks = {name: curves.found[0][name].risk for name in (PP, PROVED, UP, ANA)}
    told = ", ".join(f"{name} {risk:.1%}" for name, risk in risks.items())
    return (f"The same bound is not the same risk. Best guesses that are right at L = {curves.places[0]}: {told}.",)


def _estimator_note() -> str:
    return "Selectivity is taken as the share of the records that the whole query counts, sensitive value included."


def _outcome(
    curves: Curves, comparisons: tuple[Comparison, ...], about: str, setting: Setting, notes: tuple[str, ...]
) -> Outcome:
    alt = (
        f"Mean relative error of count queries on {curves.kind.name} by {curves.axis}, logarithmic. "
        f"{'; '.join(curves.shown(name) for name in curves.names)}."
    )
    chart = Chart(alt, curves.axis, ERROR_AXIS, curves.points(), logarithmic=True)
    return Outcome(comparisons, curves.rows(), chart, about, repetitions(setting), notes)


# --- Fig. 3 -----------------------------------------------------------------------------------------------------------


def estimates(setting: Setting) -> Outcome:
    """Estimated beside actual answers, L = 6, s = 0.1%."""
    table = Census.of(setting.data.census(ROWS), OCC)
    pool, key = Pool.drawn(table, setting.seed), SecretKey.from_seed(setting.seed)
    made = methods(table, OCC.levels[0])
    asked = pool.asked(SELECTIVITIES[0])
    actual, answers = pool.true[asked], {}
    for name, one in made.items():
        found = one.answers(table, pool, key)
        answers[name] = (found if isinstance(found, np.ndarray) else found.classical)[asked]
    spread = {name: float(np.sqrt(((given - actual) ** 2).mean())) for name, given in answers.items()}
    best = min((PP, UP, ANA), key=lambda name: spread[name])
    comparisons = (
        sentence(
            "points near the diagonal",
            "PP's are the nearest",
            "root of the mean square distance: " + ", ".join(f"{name} {spread[name]:,.0f}" for name in (PP, UP, ANA)),
            best == PP,
            proved=f"{spread[PROVED]:,.0f}",
            because=stands_in(table.about),
            noise=f"one release, {actual.size:,} queries",
        ),
    )
    ascending = np.argsort(actual, kind="stable")
    evenly = np.searchsorted(actual[ascending], np.linspace(actual.min(), actual.max(), SHOWN))
    order = ascending[np.unique(evenly)]
    points = [Point("no error", float(x), float(x)) for x in actual[order]]
    points += [Point(n, float(actual[k]), float(answers[n][k])) for n in (PP, UP, ANA) for k in order]
    alt = (
        "Estimated over actual answers, with the diagonal. PP lies closest to it, Ana further away, UP scatters most: "
        f"{', '.join(f'{name} by {spread[name]:,.0f}' for name in (PP, ANA, UP))} in the root of the mean square."
    )
    rows = tuple(
        {"actual": int(actual[k]), **{name: round(float(given[k]), 1) for name, given in answers.items()}}
        for k in ascending
    )
    chart = Chart(alt, "actual answer", "estimated answer", tuple(points), lines=False)
    notes = (f"The picture has {order.size} of {actual.size:,} queries, evenly by the actual answer.",)
    return Outcome(comparisons, rows, chart, table.about, notes=notes)


# --- Fig. 4 -----------------------------------------------------------------------------------------------------------


def edu_by_level(setting: Setting) -> Outcome:
    """The upper half: L = 10 to 4, nine of fourteen values protected."""
    table, curves = _by_level(EDU, setting)
    because = stands_in(table.about)
    parts = [len(made.blocks) for L in EDU.levels if isinstance(made := methods(table, L)[PP], Perturbed)]
    proved = [len(made.blocks) for L in EDU.levels if isinstance(made := methods(table, L)[PROVED], Perturbed)]
    kept = [Anatomized.of(table, L).records / table.rows for L in EDU.levels]
    bias = [one[ANA].bias for one in curves.found]
    comparisons = (
        number("protected values", "9", int((table.shares <= float(EDU.rho1)).sum()), because=because),
        sentence(
            "PP degenerates into UP",
            "at every L the table stays one",
            f"{_listed(parts)} sub-tables at L = {_listed(EDU.levels)}",
            set(parts) == {1},
            proved=f"{_listed(proved)} sub-tables",
            because=because,
        ),
        sentence(
            "L-diversity without suppression",
            "not possible at any of these L",
            f"the largest share is {table.shares[0]:.1%}, and 1/L is {1 / max(EDU.levels):.0%} to "
            f"{1 / min(EDU.levels):.0%}",
            table.shares[0] > 1 / min(EDU.levels),
            because=because,
        ),
        _less(curves, PP, ANA, because),
        sentence(
            "Ana's answers",
            "too small, because records are suppressed",
            f"by {percent(-max(bias))} to {percent(-min(bias))} in sum, with {max(kept):.0%} to {min(kept):.0%} of the "
            "records published",
            max(bias) < 0,
            because=because,
            noise=curves.noise,
        ),
    )
    notes = (
        *_risk_notes(curves),
        "The values that are not protected become easier to guess where the proved version cuts the table: the "
        "requirement is about the nine rare values only.",
    )
    return _outcome(curves, comparisons, table.about, setting, notes)


def edu_by_size(setting: Setting) -> Outcome:
    """The lower half: 100,000 to 500,000 records, L = 10."""
    about, curves = _by_size(EDU, setting)
    comparisons = (_less(curves, PP, ANA, stands_in(about)), _with_size(curves, about))
    return _outcome(curves, comparisons, about, setting, ())


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
