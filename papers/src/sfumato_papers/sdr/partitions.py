"""SDR Tables 2 and 3 and Fig. 6: what Perturbation Partitioning makes of OCC, and the frequencies of OCC and EDU."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.auditor.attackers.composition import composition_beliefs
from sfumato.methods.small_domain.method import uniform_matrix
from sfumato.methods.small_domain.partition import Partition, partition
from sfumato.values.arrays import Assurance
from sfumato.values.matrix.retention import amplification, uniform_retention
from sfumato.values.randomness import SecretKey, Step
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, is_printed, number, sentence
from sfumato_papers.sdr.census import EDU, OCC, Census, stands_in
from sfumato_papers.sdr.measured import PP, PROVED, UP
from sfumato_papers.sdr.ties import MEAN_GAMMA, MEAN_M, MEAN_P, SUB_TABLES, Range, ranges

GROUPS = "initial groups"
ROWS = 300_000
SIZES = (100_000, 200_000, 300_000, 400_000, 500_000)
UNIFORM_ROW = {6: "2.9", 5: "4.0", 4: "5.9", 3: "9.4"}
PARTITIONED_ROW = {6: "9.0", 5: "12.3", 4: "17.3", 3: "25.7"}
"""Table 2: L -> retention in percent."""
TABLE_3 = {
    GROUPS: ("17", "18", "19", "20", "20"),
    SUB_TABLES: ("15", "8", "10", "11", "12"),
    MEAN_M: ("15.0", "20.9", "17.3", "17", "18.4"),
    MEAN_GAMMA: ("2.6", "2.7", "2.6", "2.6", "2.8"),
}
GAMMA_OF_T = "2.5"
M = 50
BY_CONSTRUCTION = (
    "The stand-in's occupations and schooling were grouped so that there are 50 and 14, as in CENSUS: that these agree "
    "is by construction. The shares are its own."
)
Retention = Mapping[str, Mapping[int, float]]
"""Method -> L -> retention in percent."""


# --- Table 2 ----------------------------------------------------------------------------------------------------------


def table_2(setting: Setting) -> Outcome:
    """Retention of uniform perturbation and of Perturbation Partitioning, 300,000 records."""
    table = Census.of(setting.data.census(ROWS), OCC)
    published = {L: cut(table, L, "as-published") for L in OCC.levels}
    proved = {L: cut(table, L, "proved") for L in OCC.levels}
    drawn = {
        PP: {L: 100 * found.mean_retention for L, found in published.items()},
        PROVED: {L: 100 * found.mean_retention for L, found in proved.items()},
        UP: {L: 100 * found.whole.retention for L, found in published.items()},
    }
    comparisons = (*_by_the_stated_rho1(), *_uniform_row(table, drawn), *_partitioned_row(table, drawn, setting.seed))
    points = tuple(Point(name, L, percent) for name, line in drawn.items() for L, percent in line.items())
    ends = (max(OCC.levels), min(OCC.levels))
    told = "; ".join(f"{name} {line[ends[0]]:.1f} and {line[ends[1]]:.1f}" for name, line in drawn.items())
    alt = f"Retention in percent by L, at L = {ends[0]} and {ends[1]}: {told}."
    rows = tuple({"method": p.series, "L": p.x, "retention in percent": round(p.y, 4)} for p in points)
    return Outcome(comparisons, rows, Chart(alt, "L", "retention in %", points), table.about)


def _uniform_row(table: Census, drawn: Retention) -> Iterator[Comparison]:
    """UP's retention follows from the number of values and the largest share: only these can differ."""
    fits = _fitting_rho1()
    because = (
        f"another table ({table.about}) with {table.values} values, whose largest share is {table.shares[0]:.2%}; the "
        f"printed row follows from {fits}"
    )
    for L, text in UNIFORM_ROW.items():
        yield number(f"L = {L}: p of UP in %", text, drawn[UP][L], because=because)


def _partitioned_row(table: Census, drawn: Retention, seed: int) -> Iterator[Comparison]:
    for L, text in PARTITIONED_ROW.items():
        low, high = ranges(table, L, seed)[MEAN_P]
        because = (
            f"the order of the groups is left open where there are ties: broken at random they give {100 * low:.1f} to "
            f"{100 * high:.1f}; besides, {stands_in(table.about)}"
        )
        yield number(f"L = {L}: mean p of PP in %", text, drawn[PP][L], proved=drawn[PROVED][L], because=because)
    ratios, proved = ([drawn[name][L] / drawn[UP][L] for L in OCC.levels] for name in (PP, PROVED))
    yield sentence(
        "section 7: PP retains more than UP",
        "by over 100%, read as: at every L",
        f"by {min(ratios) - 1:.0%} to {max(ratios) - 1:.0%}",
        min(ratios) > 2,
        proved=f"by {min(proved) - 1:.0%} to {max(proved) - 1:.0%}",
        because=stands_in(table.about),
    )


def cut(table: Census, L: int, assurance: Assurance) -> Partition:
    """Return the partition of a table under rho2 = 1/L."""
    return partition(table.counts, table.kind.rho1, Fraction(1, L), assurance=assurance)


def _uniform_percent(rho1: Fraction, L: int) -> float:
    return 100 * uniform_retention(float(amplification(rho1, Fraction(1, L))), M)


def _fitting_rho1() -> str:
    """Return which rho1 give all four printed figures of UP, with the printed number of values."""
    tried = [Fraction(k, 100_000) for k in range(6_000, 8_500)]
    fits = [r for r in tried if all(is_printed(text, _uniform_percent(r, L)) for L, text in UNIFORM_ROW.items())]
    return f"rho1 = {float(fits[0]):.2%} to {float(fits[-1]):.2%}" if fits else "no rho1 between 6% and 8.5%"


def _by_the_stated_rho1() -> Iterator[Comparison]:
    """The paper states rho1 = 1/13, and 7% as the largest relative frequency, which Eq. (9) takes for T as a whole."""
    reason = (
        f"with {M} values the printed row follows from {_fitting_rho1()}, which the largest relative frequency, stated "
        f"as 7%, may be, and not from 1/13 = {float(OCC.rho1):.2%}"
    )
    for L, text in UNIFORM_ROW.items():
        yield number(f"L = {L}: p of UP in %, from rho1 = 1/13", text, _uniform_percent(OCC.rho1, L), because=reason)


# --- Table 3 ----------------------------------------------------------------------------------------------------------


def table_3(setting: Setting) -> Outcome:
    """Sub-tables of 100,000 to 500,000 records at L = 6."""
    named, L = setting.data.census(max(SIZES)), OCC.levels[0]
    published, proved, tied = [], [], []
    for done, size in enumerate(SIZES):
        table = Census.of(named, OCC, size)
        published.append(cut(table, L, "as-published"))
        proved.append(cut(table, L, "proved"))
        tied.append(ranges(table, L, setting.seed))
        setting.progress((done + 1) / len(SIZES))
    ours, others = [statistics(found) for found in published], [statistics(found) for found in proved]
    comparisons = [
        number(f"{size:,} records: {name}", text, ours[k][name], proved=others[k][name],
               because=_why(name, tied[k], named.about))
        for name, printed in TABLE_3.items()
        for k, (size, text) in enumerate(zip(SIZES, printed, strict=True))
    ]  # fmt: skip
    comparisons += _words_of_table_3(published, ours, stands_in(named.about))
    comparisons.append(_against_composition(published[-1], proved[-1], SIZES[-1], setting.seed))
    drawn = {"as published": ours, "proved": others}
    points = [Point(name, size, found[k][MEAN_M]) for name, found in drawn.items() for k, size in enumerate(SIZES)]
    points += [Point("printed", size, float(text)) for size, text in zip(SIZES, TABLE_3[MEAN_M], strict=True)]
    lines = {name: [p.y for p in points if p.series == name] for name in (*drawn, "printed")}
    told = "; ".join(f"{name} {min(line):.0f} to {max(line):.0f}" for name, line in lines.items())
    alt = f"Mean number of values of a sub-table by the number of records: {told}, where the whole table has {M}."
    smallest = [min(block.size for block in found.blocks) for found in published]
    notes = (
        f"The smallest sub-tables as published have {min(smallest):,} to {max(smallest):,} records; someone who knows "
        f"such a composition can exceed rho2. Proved sub-tables have {proved[0].minimum_size:,} at least.",
        BY_CONSTRUCTION,
    )
    rows = tuple(
        {"assurance": name, "records": size, **found[k]}
        for name, found in drawn.items()
        for k, size in enumerate(SIZES)
    )
    chart = Chart(alt, "records", "mean m_i", tuple(points))
    return Outcome(tuple(comparisons), rows, chart, named.about, notes=notes)


def _why(name: str, tied: Mapping[str, Range], about: str) -> str:
    """Return why a figure may differ: ties decide about the sub-tables, and not about the initial groups."""
    if name not in tied:
        return stands_in(about)
    low, high = tied[name]
    digits = 0 if name == SUB_TABLES else 1
    return (
        "the order of the groups is left open where there are ties: broken at random they give "
        f"{low:.{digits}f} to {high:.{digits}f}; besides, {stands_in(about)}"
    )


def _words_of_table_3(
    published: Sequence[Partition], ours: Sequence[Mapping[str, float]], because: str
) -> Iterator[Comparison]:
    domains, gammas = ([found[name] for found in ours] for name in (MEAN_M, MEAN_GAMMA))
    whole = [float(found.whole.gamma or 0) for found in published]
    groups = max(found[GROUPS] for found in ours)
    apart = max(abs(g / w - 1) for g, w in zip(gammas, whole, strict=True))
    close = max(abs(float(text) / float(GAMMA_OF_T) - 1) for text in TABLE_3[MEAN_GAMMA])
    yield number("gamma of T, 300,000 records", GAMMA_OF_T, whole[SIZES.index(ROWS)], because=because)
    yield sentence("initial groups", "20 at most", f"{groups:.0f} at most", groups <= 20, because=because)
    yield sentence(
        "m_i",
        f"much smaller than {M}, read as: less than half of it on average",
        f"{min(domains):.1f} to {max(domains):.1f}",
        max(domains) < M / 2,
        because=because,
    )
    yield sentence(
        "gamma_i",
        f"very close to the gamma of T, read as: as close as the printed ones, which are within {close:.0%}",
        f"{min(gammas):.2f} to {max(gammas):.2f} on average, where T has {min(whole):.2f} to {max(whole):.2f}: within "
        f"{apart:.0%}",
        apart <= close,
        because=because,
    )


def _against_composition(published: Partition, proved: Partition, size: int, seed: int) -> Comparison:
    """One release, and an attacker who knows how many records of each sub-table have each value."""
    ours, other = (worst_belief(found, seed) for found in (published, proved))
    smallest = min(block.size for block in published.blocks)
    return sentence(
        f"{size:,} records: posteriors, for someone who knows the compositions of the sub-tables",
        "rho2 at most, 1/6 (section 10.3)",
        f"{ours:.4f} at most",
        ours <= published.rho2,
        proved=f"{other:.4f} at most{'' if other <= proved.rho2 else ', above it, too'}",
        because=(
            "the bound is for someone who takes the records for independent draws; the smallest sub-table has "
            f"{smallest:,} records, the smallest proved one {min(block.size for block in proved.blocks):,}"
        ),
        noise="one release",
    )


def worst_belief(found: Partition, seed: int) -> float:
    """Publish the sub-tables once; return the largest belief of someone who knows their compositions, exactly."""
    worst = 0.0
    for k, block in enumerate(found.blocks):
        matrix = uniform_matrix(block.gamma, block.domain_size)
        codes = np.repeat(np.arange(block.domain_size, dtype=np.int32), block.counts)
        words = SecretKey.from_seed(seed).words(Step.PERTURB, k, 0, codes.size)
        published = np.bincount(matrix.sample(codes, words), minlength=block.domain_size)
        worst = max(worst, float(composition_beliefs(matrix, published, block.counts).beliefs.max()))
    return worst


def statistics(found: Partition) -> dict[str, float]:
    """Return the four lines of Table 3."""
    gammas = [float(block.gamma) for block in found.blocks if block.gamma is not None]
    return {
        GROUPS: found.groups.number,
        SUB_TABLES: len(found.blocks),
        MEAN_M: round(float(np.mean([block.domain_size for block in found.blocks])), 4),
        MEAN_GAMMA: round(float(np.mean(gammas)), 4),
    }


# --- Fig. 6 -----------------------------------------------------------------------------------------------------------


def distributions(setting: Setting) -> Outcome:
    """How often the values of OCC and EDU occur, 300,000 records."""
    named = setting.data.census(ROWS)
    occ, edu = Census.of(named, OCC), Census.of(named, EDU)
    because, rare = stands_in(named.about), int((edu.shares <= float(EDU.rho1)).sum())
    comparisons = (
        number("largest share of an occupation in %", "7", 100 * occ.shares[0], because=because),
        number("largest share of an education in %", "27", 100 * edu.shares[0], because=because),
        number("educations with a share of 3.33% or less", "9", rare, because=because),
        sentence(
            "EDU is more skewed than OCC",
            "much more, read as: further from equal shares, and a largest share of more than twice as much",
            f"distance from equal shares {edu.distance_from_even:.3f}, of OCC {occ.distance_from_even:.3f}; largest "
            f"share {edu.shares[0]:.1%} and {occ.shares[0]:.1%}",
            edu.distance_from_even > occ.distance_from_even and edu.shares[0] > 2 * occ.shares[0],
            because=because,
        ),
    )
    tables = (occ, edu)
    points = [Point(t.kind.name, k + 1, 100 * float(s)) for t in tables for k, s in enumerate(t.shares)]
    falls = [f"{t.kind.name} from {t.shares[0]:.1%} to {t.shares[-1]:.2%} over {t.values} values" for t in tables]
    rows: tuple[dict[str, Any], ...] = tuple(
        {"table": p.series, "rank": p.x, "share in percent": round(p.y, 4)} for p in points
    )
    chart = Chart(f"Shares by rank: {'; '.join(falls)}.", "rank of the value", "share in %", tuple(points))
    return Outcome(comparisons, rows, chart, named.about, notes=(BY_CONSTRUCTION,))
