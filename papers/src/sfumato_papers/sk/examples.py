"""SK Examples 1-5: T = {10, 4, 2, 1, 1}, l = 3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby

import numpy as np

from sfumato.auditor.attackers.eligibility import by_uniform_prior
from sfumato.methods.suppression.levels import Levels
from sfumato.methods.suppression.suppress import Variant, costs, suppress, violating
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato_papers.sk.bayes import Counts, every, told

T = (10, 4, 2, 1, 1)
ELL = 3
NO_TIES = (0, 0, 0)
"""The draws that rank equal counts: T has none among its first three."""
PUBLISHED = (3, 3, 2, 1, 1)
"""T_P of Examples 4 and 5."""
VARIANTS: dict[str, Variant] = {"Unsafe D": "unsafe-d", "rotation (proved)": "rotation", "Safe D": "safe-d"}


def examples(setting: Setting) -> Outcome:
    """What D-suppression and R-suppression publish of T, and what can be inferred from it."""
    comparisons = (*_example_1(), *_example_2(), *_example_3(), *_example_4(), *_example_5())
    rows = tuple(_rows())
    points = tuple(Point(str(row["algorithm"]), str(row["value"]), float(row["published"])) for row in rows)
    cost = costs(T, ELL)
    return Outcome(
        comparisons,
        rows,
        Chart(
            f"Records of S1 to S{len(T)}: " + "; ".join(_seen(rows)) + ".",
            "value",
            "records",
            points,
        ),
        "SK Fig. 1, 18 records",
        notes=(
            f"Expected suppression: Unsafe D {cost['unsafe-d']}, R-suppression {cost['r-suppression']} "
            f"({float(cost['r-suppression']):.2f}), rotation {cost['rotation']}, Safe D {cost['safe-d']} records of "
            f"{sum(T)}.",
        ),
    )


def _seen(rows: Sequence[Mapping[str, str | int]]) -> Iterator[str]:
    """What the chart shows, algorithm by algorithm."""
    for name, of in groupby(rows, key=lambda row: row["algorithm"]):
        yield f"{name} {', '.join(str(row['published']) for row in of)}"


def _example_1() -> Iterator[Comparison]:
    found = suppress(T, ELL, "minimal", draw=told(*NO_TIES))
    yield sentence(
        "Example 1: T violates 3-eligibility",
        "10 records are more than 18/3",
        f"{found.violating} value above {Fraction(sum(T), ELL)} records",
        found.violating == 1,
    )
    yield number("Example 1: records suppressed until T_P is 3-eligible", "6", found.withheld)
    beliefs = {count: belief.dominant for count, belief in found.beliefs.items()}
    candidates, belief = sum(beliefs.get(count, 0) > 0 for count in found.kept.tolist()), beliefs[4]
    yield sentence(
        "Example 1: the attack on minimum suppression",
        "one of two values must be the most frequent one: more is inferred than 1/3",
        f"{candidates} candidates, each with posterior {belief}",
        candidates == 2 and belief > Fraction(1, ELL),
        proved=f"rotation: {_rotation_belief()}",
    )


def _rotation_belief() -> Fraction:
    found = suppress(T, ELL, "rotation", draw=lambda below: below - 1)
    return max(belief.dominant for belief in found.beliefs.values())


def _example_2() -> Iterator[Comparison]:
    levels = Levels(list(T))
    after = [levels.cut(removed, len(T)) for removed in (6, 7, 8)]
    yield number("Example 2: level after 6 records", "4", levels.after(6)[0])
    yield sentence(
        "Example 2: the next two records",
        "one of S2, which has the lower rank, then one of S1",
        f"{after[0]}, {after[1]}, {after[2]}",
        after[1] == (4, 3, 2, 1, 1) and after[2] == (3, 3, 2, 1, 1),
    )


def _example_3() -> Iterator[Comparison]:
    levels, n = Levels(list(T)), sum(T)
    cuts = [levels.cut(removed, len(T)) for removed in range(n)]
    candidacy = next(x for x, left in enumerate(cuts) if ELL * (sorted(left, reverse=True)[ELL - 1] + x) > n)
    eligible = next(x for x, left in enumerate(cuts) if ELL * max(left) <= sum(left))
    unsafe, safe = (suppress(T, ELL, variant, draw=told(*NO_TIES)) for variant in ("unsafe-d", "safe-d"))
    yield number("Example 3: records until l-candidacy", "5", candidacy)
    yield number("Example 3: records until P-eligibility", "6", eligible)
    yield number("Example 3: F_Unsafe", "4", int(unsafe.kept.max()))
    yield number("Example 3: X_Unsafe", "6", unsafe.withheld)
    yield number("Example 3: F_Safe", "2", int(safe.kept.max()))
    yield number("Example 3: X_Safe", "10", safe.withheld, proved=f"rotation {costs(T, ELL)['rotation']}")
    yield number("Section 3.2: of S1, by Safe D", "8", int(safe.suppressed[0]))
    yield number("Section 3.2: of S2, by Safe D", "2", int(safe.suppressed[1]))
    yield sentence(
        "Section 3.2: Safe D on the example",
        "it suppresses more than half",
        f"{safe.share}",
        safe.share > Fraction(1, 2),
    )


def _example_4() -> Iterator[Comparison]:
    found = suppress(T, ELL, "r-suppression", draw=told(*NO_TIES, 1, 1))
    kept = tuple(sorted(found.kept.tolist(), reverse=True))
    yield sentence(
        "Example 4: STEP-1 with h = 2 and F = 3", "{3, 3, 2, 1, 1} are published", f"{kept}", kept == PUBLISHED
    )


def _example_5() -> Iterator[Comparison]:
    suspicion = by_uniform_prior(np.array(PUBLISHED), sum(T), ELL, "r-suppression")
    beliefs = {count: belief.dominant for count, belief in suspicion.beliefs.items()}
    yield number("Example 5: records suppressed", "8", sum(T) - sum(PUBLISHED))
    levels = range(3, 12)
    made = [_r_suppressed((11, 3, 2, 1, 1), 1, level) == PUBLISHED for level in levels]
    yield sentence(
        "Example 5: B = {11, 3, 2, 1, 1} with h = 1",
        "every F from 3 to 11 leads to T_P",
        f"{sum(made)} of {len(made)} levels do",
        all(made),
    )
    for base, whose in (((3, 11, 2, 1, 1), "S2'"), ((3, 3, 10, 1, 1), "S3'")):
        yield sentence(
            f"Example 5: all 8 records are of {whose}",
            "that table can lead to T_P, too",
            f"{sorted(base, reverse=True)}: with probability {chance_of_published(base)}",
            chance_of_published(base) > 0,
        )
    yield _any_distribution()
    able = sum(chance_of_published(base) > 0 for base in bases())
    told = [str(chance_of_published(base)) for base in ((11, 3, 2, 1, 1), (3, 11, 2, 1, 1), (3, 3, 10, 1, 1))]
    because = (
        f"{able} tables can lead to T_P, those of the example with probabilities {', '.join(told)}: Bayes' rule gives "
        f"{beliefs[3]} for each value with 3 records and {beliefs[2]} for the one with 2"
    )
    for count, rank in ((3, "S1' and of S2'"), (2, "S3'")):
        yield number(
            f"Example 5: posterior of {rank}",
            "1/3",
            beliefs[count],
            proved=f"rotation: {_rotation_belief()}",
            because=because,
        )


def bases() -> list[Counts]:
    """The tables in which the eight suppressed records are of the three most frequent values."""
    return [(3 + a, 3 + b, 10 - a - b, 1, 1) for a in range(9) for b in range(9 - a)]


def _any_distribution() -> Comparison:
    tables = bases()
    able = [base for base in tables if chance_of_published(base) > 0]
    eligible = [base for base in tables if ELL * max(base) <= sum(base)]
    return sentence(
        "Example 5: whose the suppressed records are",
        "any of the first three values in any numbers",
        f"{len(able)} of {len(tables)} ways can lead to T_P",
        len(able) == len(tables),
        because=f"{len(eligible)} of the others are 3-eligible, and of {len(tables) - len(able) - len(eligible)} "
        "R-suppression never makes T_P, whatever it draws",
    )


def chance_of_published(base: Counts) -> Fraction:
    """The probability that R-suppression makes T_P of a table, value by value."""
    if not violating(Levels(sorted(base, reverse=True)), ELL):
        return Fraction(0)
    drawn = every(lambda draw: tuple(suppress(base, ELL, "r-suppression", draw=draw).kept.tolist()))
    return sum((chance for chance, kept in drawn if kept == PUBLISHED), Fraction(0))


def _r_suppressed(table: Counts, h: int, level: int) -> Counts:
    found = suppress(table, ELL, "r-suppression", draw=told(*NO_TIES, h - 1, level - (*table, 0)[h]))
    return tuple(sorted(found.kept.tolist(), reverse=True))


def _rows() -> Iterator[dict[str, str | int]]:
    """The table, and what is published of it."""
    kept = {"the table": list(T)}
    kept |= {name: suppress(T, ELL, v, draw=lambda below: 0).kept.tolist() for name, v in VARIANTS.items()}
    kept["R-sup, h = 2, F = 3"] = suppress(T, ELL, "r-suppression", draw=told(*NO_TIES, 1, 1)).kept.tolist()
    for name, counts in kept.items():
        for rank, count in enumerate(counts, 1):
            yield {"algorithm": name, "value": f"S{rank}", "records": T[rank - 1], "published": count}
