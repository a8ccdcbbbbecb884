"""SDR Tables 2 and 3 and Fig. 6: what Perturbation Partitioning makes of OCC, and the frequencies of OCC and EDU."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.audit.composition import composition_beliefs
from sfumato.matrix import amplification, uniform_retention
from sfumato.methods.small_domain import Partition, partition
from sfumato.methods.small_domain.partition import Assurance
from sfumato.methods.small_domain.planner import uniform_matrix
from sfumato.randomness import SecretKey, Step
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Outcome, Setting, is_printed, number, sentence
from sfumato.reproduce.sdr.census import EDU, OCC, Census, stands_in

ROWS = 300_000
SIZES = (100_000, 200_000, 300_000, 400_000, 500_000)
UNIFORM_ROW = {6: "2.9", 5: "4.0", 4: "5.9", 3: "9.4"}
PARTITIONED_ROW = {6: "9.0", 5: "12.3", 4: "17.3", 3: "25.7"}
"""Table 2: L -> retention in percent."""
TABLE_3 = {
    "initial groups": ("17", "18", "19", "20", "20"),
    "sub-tables": ("15", "8", "10", "11", "12"),
    "mean m_i": ("15.0", "20.9", "17.3", "17", "18.4"),
    "mean gamma_i": ("2.6", "2.7", "2.6", "2.6", "2.8"),
}
GAMMA_OF_T = "2.5"
M = 50


# --- Table 2 ----------------------------------------------------------------------------------------------------------


def table_2(setting: Setting) -> Outcome:
    """Retention of uniform perturbation and of Perturbation Partitioning, 300,000 records."""
    table = Census.of(setting.data.census(ROWS), OCC)
    published = {L: cut(table, L, "as-published") for L in OCC.levels}
    proved = {L: cut(table, L, "proved") for L in OCC.levels}
    because = stands_in(table.about)
    uniform = {L: 100 * found.whole.retention for L, found in published.items()}
    ratios = [100 * published[L].mean_retention / uniform[L] for L in OCC.levels]
    comparisons = [_the_rho1(), *_by_the_stated_rho1()]
    for L in OCC.levels:
        comparisons.append(number(f"L = {L}: p of UP in %", UNIFORM_ROW[L], uniform[L], because=because))
    for L in OCC.levels:
        ours, other = 100 * published[L].mean_retention, 100 * proved[L].mean_retention
        comparisons.append(
            number(f"L = {L}: mean p of PP in %", PARTITIONED_ROW[L], ours, proved=other, because=because)
        )
    comparisons.append(
        sentence(
            "PP retains more than UP",
            "by over 100% at every L",
            f"by {min(ratios) - 1:.0%} to {max(ratios) - 1:.0%}",
            min(ratios) > 2,
            because=because,
        )
    )
    drawn = {
        "PP as published": {L: 100 * found.mean_retention for L, found in published.items()},
        "PP proved": {L: 100 * found.mean_retention for L, found in proved.items()},
        "UP": uniform,
    }
    points = tuple(Point(name, L, percent) for name, line in drawn.items() for L, percent in line.items())
    alt = (
        f"Retention in percent by L: UP falls from {uniform[3]:.1f} at L = 3 to {uniform[6]:.1f} at L = 6, PP as "
        f"published from {drawn['PP as published'][3]:.1f} to {drawn['PP as published'][6]:.1f}, and PP proved lies "
        "just above it."
    )
    rows = tuple({"method": p.series, "L": p.x, "retention in percent": round(p.y, 4)} for p in points)
    chart = Chart(alt, "L", "retention in %", points)
    return Outcome(tuple(comparisons), rows, chart, table.about)


def cut(table: Census, L: int, assurance: Assurance) -> Partition:
    """Return the partition of a table under rho2 = 1/L."""
    return partition(table.counts, table.kind.rho1, Fraction(1, L), assurance=assurance)


def _uniform_percent(rho1: Fraction, L: int) -> float:
    return 100 * uniform_retention(float(amplification(rho1, Fraction(1, L))), M)


def _the_rho1() -> Comparison:
    """There is a largest relative frequency of OCC from which all four printed figures follow."""
    tried = [Fraction(k, 100_000) for k in range(6_000, 8_500)]
    fits = [r for r in tried if all(is_printed(text, _uniform_percent(r, L)) for L, text in UNIFORM_ROW.items())]
    found = f"a largest share of {float(fits[0]):.2%} to {float(fits[-1]):.2%}" if fits else "none"
    return sentence(
        "UP's row follows from one rho1",
        "the largest relative frequency, 7%",
        f"with {M} values: {found}",
        bool(fits) and round(float(fits[0]), 2) == 0.07,
    )


def _by_the_stated_rho1() -> list[Comparison]:
    reason = "the printed row follows from the largest relative frequency as rho1, not from the stated 1/13"
    return [
        number(f"L = {L}: p of UP in %, from rho1 = 1/13", text, _uniform_percent(OCC.rho1, L), because=reason)
        for L, text in UNIFORM_ROW.items()
    ]


# --- Table 3 ----------------------------------------------------------------------------------------------------------


def table_3(setting: Setting) -> Outcome:
    """Sub-tables of 100,000 to 500,000 records at L = 6."""
    named = setting.data.census(max(SIZES))
    because = f"{stands_in(named.about)}; besides, the paper leaves open how ties are broken in the order of the groups"
    published, proved = [], []
    for done, size in enumerate(SIZES):
        table = Census.of(named, OCC, size)
        published.append(cut(table, 6, "as-published"))
        proved.append(cut(table, 6, "proved"))
        setting.progress((done + 1) / len(SIZES))
    ours, others = [statistics(found) for found in published], [statistics(found) for found in proved]
    comparisons = [
        number(f"{size:,} records: {name}", text, ours[k][name], proved=others[k][name], because=because)
        for name, printed in TABLE_3.items()
        for k, (size, text) in enumerate(zip(SIZES, printed, strict=True))
    ]
    domains = [found["mean m_i"] for found in ours]
    gammas = [found["mean gamma_i"] for found in ours]
    whole = [float(found.whole.gamma or 0) for found in published]
    comparisons += [
        number("gamma of T, 300,000 records", GAMMA_OF_T, whole[SIZES.index(ROWS)], because=because),
        sentence("initial groups", "20 at most", f"{max(o['initial groups'] for o in ours):.0f} at most",
                 max(o["initial groups"] for o in ours) <= 20, because=because),
        sentence("m_i", f"much smaller than {M}", f"{min(domains):.1f} to {max(domains):.1f} on average",
                 max(domains) < M / 2, because=because),
        sentence("gamma_i", "very close to the gamma of T",
                 f"{min(gammas):.2f} to {max(gammas):.2f} on average, where T has {min(whole):.2f} to {max(whole):.2f}",
                 max(abs(g / w - 1) for g, w in zip(gammas, whole, strict=True)) < 0.15, because=because),
        _against_composition(published[-1], proved[-1], SIZES[-1], setting.seed),
    ]  # fmt: skip
    drawn = {"as published": ours, "proved": others}
    points = [Point(name, size, found[k]["mean m_i"]) for name, found in drawn.items() for k, size in enumerate(SIZES)]
    points += [Point("printed", size, float(text)) for size, text in zip(SIZES, TABLE_3["mean m_i"], strict=True)]
    alt = (
        f"Mean number of values of a sub-table by the number of records: between {min(domains):.0f} and "
        f"{max(domains):.0f} as published here, 15 to 21 as printed, where the whole table has {M}."
    )
    chart = Chart(alt, "records", "mean m_i", tuple(points))
    smallest = [min(block.size for block in found.blocks) for found in published]
    notes = (
        f"The smallest sub-tables as published have {min(smallest):,} to {max(smallest):,} records; one who knows such "
        f"a composition can exceed rho2. Proved sub-tables have {proved[0].minimum_size:,} at least.",
    )
    rows = tuple(
        {"assurance": name, "records": size, **found[k]}
        for name, found in drawn.items()
        for k, size in enumerate(SIZES)
    )
    return Outcome(tuple(comparisons), rows, chart, named.about, notes=notes)


def _against_composition(published: Partition, proved: Partition, size: int, seed: int) -> Comparison:
    """One release, and an attacker who knows how many records of each sub-table have each value."""
    ours, other = (worst_belief(found, seed) for found in (published, proved))
    smallest = min(block.size for block in published.blocks)
    return sentence(
        f"{size:,} records: posteriors, for one who knows the compositions of the sub-tables",
        "rho2 at most, 1/6 (section 10.3)",
        f"{ours:.4f} at most",
        ours <= published.rho2,
        proved=f"{other:.4f} at most",
        because=(
            "the bound is for one who takes the records for independent draws; the smallest sub-table has "
            f"{smallest:,} records, the smallest proved one {min(block.size for block in proved.blocks):,}"
        ),
        noise="one release",
    )


def worst_belief(found: Partition, seed: int) -> float:
    """Publish the sub-tables once; return the largest belief of one who knows their compositions, exactly."""
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
        "initial groups": found.group_count,
        "sub-tables": len(found.blocks),
        "mean m_i": round(float(np.mean([block.domain_size for block in found.blocks])), 4),
        "mean gamma_i": round(float(np.mean(gammas)), 4),
    }


# --- Fig. 6 -----------------------------------------------------------------------------------------------------------


def distributions(setting: Setting) -> Outcome:
    """How often the values of OCC and EDU occur, 300,000 records."""
    named = setting.data.census(ROWS)
    occ, edu = Census.of(named, OCC), Census.of(named, EDU)
    because, rare = stands_in(named.about), int((edu.shares <= float(EDU.rho1)).sum())
    comparisons = (
        number("values of occupation", "50", occ.values, because=because),
        number("values of education", "14", edu.values, because=because),
        number("largest share of an occupation in %", "7", 100 * occ.shares[0], because=because),
        number("largest share of an education in %", "27", 100 * edu.shares[0], because=because),
        number("educations with a share of 3.33% or less", "9", rare, because=because),
        sentence(
            "EDU is more skewed than OCC",
            "much more",
            f"distance from equal shares {edu.distance_from_even:.3f}, of OCC {occ.distance_from_even:.3f}; largest "
            f"share {edu.shares[0]:.1%} and {occ.shares[0]:.1%}",
            edu.distance_from_even > occ.distance_from_even and edu.shares[0] > 2 * occ.shares[0],
            because=because,
        ),
    )
    points = [Point(t.kind.name, k + 1, 100 * float(s)) for t in (occ, edu) for k, s in enumerate(t.shares)]
    alt = (
        f"Shares by rank. EDU falls from {edu.shares[0]:.0%} to almost nothing within {edu.values} values; OCC from "
        f"{occ.shares[0]:.0%} slowly over {occ.values}."
    )
    rows: tuple[dict[str, Any], ...] = tuple(
        {"table": p.series, "rank": p.x, "share in percent": round(p.y, 4)} for p in points
    )
    notes = (
        "The stand-in's occupations and schooling were grouped so that there are 50 and 14; the shares are its own.",
    )
    chart = Chart(alt, "rank of the value", "share in %", tuple(points))
    return Outcome(comparisons, rows, chart, named.about, notes=notes)
