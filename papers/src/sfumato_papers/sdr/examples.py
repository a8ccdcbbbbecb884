"""SDR Table 1 and section 1.1, and Examples 1 to 4."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import numpy.typing as npt

from sfumato.methods.small_domain.groups import Groups, initial_groups, reverse_cuthill_mckee
from sfumato.methods.small_domain.merging import cheapest_merging, printed_cost, published_cost
from sfumato.methods.small_domain.partition import Partition, partition
from sfumato.values.matrix.retention import uniform_retention
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato_papers.sdr.composition import exact_belief

GAMMA = 5
TABLE_1 = {77: (5, 1), 70: (5, 1), 50: (7, 2), 14: (22, 6), 9: (31, 8), 7: (36, 9), 6: (40, 10), 2: (67, 17)}
"""Domain size -> printed p and q, in percent."""
RETAINING = 0.3
"""Less than 30% is very low, the paper says."""
ICD_9, AGE_BY_COUNTRY = 15_000, 5_390
T = (12, 8, 6, 5, 4, 3, 1, 1, 1, 1)
"""Example 1; the printed zeros are ones."""
RHO1, RHO2 = Fraction(1, 3), Fraction(2, 3)
SUB_TABLES = ([12, 8, 6, 4, 4, 2, 0, 0, 0, 0], [0, 0, 0, 1, 0, 1, 1, 1, 1, 1])
INITIAL_GROUPS = (
    [6, 6, 6, 0, 0, 0, 0, 0, 0, 0],
    [4, 0, 0, 4, 4, 0, 0, 0, 0, 0],
    [2, 2, 0, 0, 0, 2, 0, 0, 0, 0],
    [0, 0, 0, 1, 0, 1, 1, 0, 0, 0],
    [0, 0, 0, 0, 0, 0, 0, 1, 1, 1],
)
NEGATIVE = ((38, 31, 31), Fraction(38, 100), Fraction(45, 100))
"""A table under (rho1, rho2) for which the printed program prefers a negative bound."""
Ints = npt.NDArray[np.int64]


# --- Table 1 ----------------------------------------------------------------------------------------------------------


def table_1(setting: Setting) -> Outcome:
    """How little a large domain retains, gamma = 5."""
    retaining = sorted(m for m in TABLE_1 if _probabilities(m)[0] >= RETAINING)
    icd, pairs = _probabilities(ICD_9), _probabilities(AGE_BY_COUNTRY)
    comparisons = (
        *(c for m, printed in TABLE_1.items() for c in _in_percent(m, printed)),
        sentence(
            "domains in which p is 30% or more",
            "only those with fewer than 10 values",
            f"those with {', '.join(map(str, retaining))} values",
            retaining == sorted(m for m in TABLE_1 if m < 10),
        ),
        number(f"m = {ICD_9:,}: q in 10^-5", "6.7", 1e5 * icd[1]),
        number(f"m = {ICD_9:,}: p + q in 10^-4", "3.3", 1e4 * sum(icd)),
        number(f"m = {AGE_BY_COUNTRY:,}: q in 10^-4", "1.9", 1e4 * pairs[1]),
        number(
            f"m = {AGE_BY_COUNTRY:,}: p + q in 10^-4",
            "7.4",
            1e4 * sum(pairs),
            because=f"what is printed is p alone, {1e4 * pairs[0]:.1f}",
        ),
        number("H1N1 in the part {H1N1, cancer} of a domain, in %", "98", 100 * Fraction(40, 41)),
    )
    sizes = sorted([*TABLE_1, ICD_9, AGE_BY_COUNTRY])
    shown = (sizes[0], max(TABLE_1), ICD_9)
    points = [Point(name, f"{m:,}", _probabilities(m)[k]) for k, name in enumerate("pq") for m in sizes]
    alt = (
        f"p and q by the number of values, logarithmic, for {', '.join(f'{m:,}' for m in shown)} values: "
        + "; ".join(f"{name} {', '.join(f'{_probabilities(m)[k]:.2g}' for m in shown)}" for k, name in enumerate("pq"))
        + "."
    )
    chart = Chart(alt, "values of the domain", "probability", tuple(points), logarithmic=True)
    rows = tuple({"m": m, "p": _probabilities(m)[0], "q": _probabilities(m)[1]} for m in sizes)
    return Outcome(comparisons, rows, chart, "the domain sizes that the paper names")


def _probabilities(m: int) -> tuple[float, float]:
    p = uniform_retention(GAMMA, m)
    return p, (1 - p) / m


def _in_percent(m: int, printed: tuple[int, int]) -> tuple[Comparison, ...]:
    return tuple(
        number(f"m = {m}: {name} in %", str(percent), 100 * probability)
        for name, percent, probability in zip("pq", printed, _probabilities(m), strict=True)
    )


# --- Examples 1-4 -----------------------------------------------------------------------------------------------------


def examples(setting: Setting) -> Outcome:
    """42 records with ten values, cut in two."""
    found = partition(T, RHO1, RHO2, assurance="as-published")
    proved = partition(T, RHO1, RHO2)
    groups = initial_groups(np.array(T), np.ones(len(T), dtype=np.bool_))
    comparisons = (*_example_1(found, proved), *_examples_2_to_4(groups), _composition(found), _negative_bound())
    whole = found.uniform_retention + (1 - found.uniform_retention) / len(T)
    diagonals = {"T as one table": whole} | {f"T{k + 1}": b.diagonal for k, b in enumerate(found.blocks)}
    points = tuple(Point("probability of staying", name, value) for name, value in diagonals.items())
    alt = f"The probability that a value stays: {whole:.3f} in the whole table, " + " and ".join(
        f"{b.diagonal:.3f} in T{k + 1}" for k, b in enumerate(found.blocks)
    )
    chart = Chart(f"{alt}.", "sub-table", "probability of staying", points, lines=False)
    rows = tuple({"table": p.x, "probability of staying": p.y} for p in points)
    notes = (
        f"The proved version keeps this table whole: {proved.size} records are fewer than a sub-table needs "
        f"({proved.minimum_size:,}), since small ones tell their composition.",
        f"The printed T has four zeros where ones are meant: with them it has {sum(T)} records.",
    )
    return Outcome(comparisons, rows, chart, "SDR Example 1, 42 records", notes=notes)


def _example_1(found: Partition, proved: Partition) -> tuple[Comparison, ...]:
    first, second = found.blocks
    one = f"one table, {proved.whole.diagonal:.4f}"
    p = found.uniform_retention
    assert first.rho1 is not None
    assert second.rho1 is not None
    assert first.gamma is not None
    assert second.gamma is not None
    return (
        sentence(
            "Example 1: the sub-tables",
            "T1 and T2 as printed",
            _in_brackets([_row(b.codes, b.counts) for b in found.blocks]),
            [_row(b.codes, b.counts) for b in found.blocks] == list(SUB_TABLES),
            proved="one table",
        ),
        number("records of T", "42", found.size),
        number("rho1 of T1", "1/3", first.rho1),
        number("rho1 of T2", "1/6", second.rho1),
        number("gamma of T1", "4", first.gamma),
        number("gamma of T2", "10", second.gamma),
        number("diagonal of P1", "4/9", first.diagonal, proved=one),
        number("elsewhere in P1", "1/9", (1 - first.retention) / first.domain_size),
        number("diagonal of P2", "2/3", second.diagonal, proved=one),
        number("elsewhere in P2", "1/15", (1 - second.retention) / second.domain_size),
        number("diagonal without partitioning", "4/13", p + (1 - p) / len(T)),
        number("elsewhere without partitioning", "1/13", (1 - p) / len(T)),
    )


def _examples_2_to_4(groups: Groups) -> tuple[Comparison, ...]:
    rows = [_row(*groups[j]) for j in range(groups.number)]
    order = reverse_cuthill_mckee(groups)
    merged = [part.tolist() for part in cheapest_merging(groups, order, published_cost(RHO2)).members()]
    return (
        number("Example 2: theta", "3", groups.theta),
        number("records of each value in g1", "6", int(groups[0][1][0])),
        sentence("the initial groups", "g1 to g5 as printed", _in_brackets(rows), rows == list(INITIAL_GROUPS)),
        sentence(
            "Example 3: the order by Reverse Cuthill-McKee",
            "g1, g3, g2, g4, g5",
            _named(order.tolist()),
            order.tolist() == [0, 2, 1, 3, 4],
        ),
        sentence(
            "Example 4: the merging",
            "g1, g3, g2 and g4, g5",
            " and ".join(_named(part) for part in merged),
            merged == [[0, 2, 1], [3, 4]],
        ),
    )


def _composition(found: Partition) -> Comparison:
    """T2 has six records with six values: who knows that learns more than the bound."""
    block = found.blocks[1]
    m, gamma = block.domain_size, block.gamma
    assert gamma is not None
    belief = exact_belief([gamma - 1] * m, [1] * m, block.counts.tolist(), block.counts.tolist(), 0, 0)
    return sentence(
        "no posterior in T2 is above 2/3",
        "none is",
        f"{belief} = {float(belief):.4f} if each value is published once",
        belief <= RHO2,
        proved="T2 is not cut off",
        because=(
            f"the sub-table's size and values are published, and {block.size} records with {m} values have each value "
            "once; the bound is for someone who takes the records for independent draws"
        ),
    )


def _negative_bound() -> Comparison:
    counts, rho1, rho2 = NEGATIVE
    groups = initial_groups(np.array(counts), np.ones(len(counts), dtype=np.bool_))
    printed = cheapest_merging(groups, reverse_cuthill_mckee(groups), printed_cost(rho2)).members()
    shares = [Fraction(int(c.max()), int(c.sum())) for _, c in map(groups.union, printed)]
    kept = partition(counts, rho1, rho2, assurance="as-published")
    return sentence(
        "Eq. (14) gives sub-tables with rho1 below rho2",
        "it does (Def. 2)",
        f"T = {{{', '.join(map(str, counts))}}} under ({float(rho1)}, {float(rho2)}): rho1 = "
        f"{' and '.join(str(share) for share in shares)}",
        max(shares) < rho2,
        proved=f"{len(kept.blocks)} table",
        because="with rho1 above rho2 the bound of Eq. (12) is negative, and the program takes the smallest",
    )


def _row(codes: Ints, counts: Ints) -> list[int]:
    """Return the frequencies of all values in order, as the paper prints them."""
    row = np.zeros(len(T), dtype=np.int64)
    row[codes] = counts
    return [int(count) for count in row]


def _in_brackets(rows: list[list[int]]) -> str:
    return " ".join("{" + ",".join(map(str, row)) + "}" for row in rows)


def _named(order: list[int]) -> str:
    return ", ".join(f"g{j + 1}" for j in order)
