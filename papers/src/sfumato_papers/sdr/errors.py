"""What SDR Figs. 2, 3 and 4 share: errors of count queries with Perturbation Partitioning, uniform and Anatomy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from sfumato.methods.small_domain.partition import partition
from sfumato_papers.charts import Chart
from sfumato_papers.experiment import Comparison, Outcome, Setting, sentence
from sfumato_papers.progress import no_progress
from sfumato_papers.sdr.census import Census, Kind
from sfumato_papers.sdr.measured import ANA, PP, PROVED, UP, Curve, Curves, measure, percent, repetitions
from sfumato_papers.sdr.partitions import ROWS, SIZES
from sfumato_papers.sdr.released import Anatomized, Perturbed

QUICK_SIZES = (100_000, 300_000, 500_000)
ERROR_AXIS = "mean relative error in %, s = 0.1%"
OWN_DEAL = "Ana's groups are dealt as this project does it, in batches with the values in random order"
READINGS = (
    "Selectivity is taken as the share of the records that the whole query counts, sensitive value included.",
    f"{OWN_DEAL}, and not by the code that the paper took; sdr-fig2 tells what difference that makes.",
)


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


def by_size(kind: Kind, setting: Setting) -> tuple[str, Curves]:
    """Measure tables of several sizes at the strictest requirement."""
    sizes = QUICK_SIZES if setting.quick else SIZES
    found: list[Mapping[str, Curve]] = []
    named = setting.data.census(max(sizes))
    for done, size in enumerate(sizes):
        table = Census.of(named, kind, size)
        found += measure(table, [methods(table, kind.levels[0])], replace(setting, progress=no_progress))
        setting.progress((done + 1) / len(sizes))
    return named.about, Curves(kind, "records", sizes, tuple(found))


def the_table(kind: Kind, setting: Setting) -> Census:
    """Return the 300,000 records of most figures."""
    return Census.of(setting.data.census(ROWS), kind)


def less(curves: Curves, smaller: str, larger: str, because: str) -> Comparison:
    """Compare the errors of two methods."""
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


def size_note(curves: Curves) -> str:
    """The paper says nothing of the errors' fall with the records; its Eq. (11) bounds them by 1/sqrt|T|."""
    first, last = curves.mean(PP)[[0, -1], 0]
    return (
        f"From {curves.places[0]:,} to {curves.places[-1]:,} records PP's error goes from {percent(first)} to "
        f"{percent(last)}, by a factor {first / last:.2f}. Eq. (11), of the bound, has the root of the sizes, "
        f"{(curves.places[-1] / curves.places[0]) ** 0.5:.2f}; the paper says nothing of it."
    )


def risk_note(curves: Curves) -> str:
    """The same bound is not the same risk."""
    risks = {name: curves.found[0][name].risk for name in (PP, PROVED, UP, ANA)}
    told = ", ".join(f"{name} {risk:.1%}" for name, risk in risks.items())
    return f"The same bound is not the same risk. Best guesses that are right at L = {curves.places[0]}: {told}."


def outcome(
    curves: Curves, comparisons: Sequence[Comparison], about: str, setting: Setting, notes: Sequence[str]
) -> Outcome:
    """Return the outcome with its picture."""
    alt = (
        f"Mean relative error of count queries on {curves.kind.name} by {curves.axis}, logarithmic. "
        f"{'; '.join(curves.shown(name) for name in curves.names)}."
    )
    chart = Chart(alt, curves.axis, ERROR_AXIS, curves.points(), logarithmic=True)
    return Outcome(tuple(comparisons), curves.rows(), chart, about, repetitions(setting), tuple(notes))
