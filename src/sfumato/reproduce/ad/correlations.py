"""AD Tables 4 and 5 and Fig. 7: how much of the association between columns of ESGRO is kept."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from sfumato.methods.generalization import Node, roll_up
from sfumato.reproduce.ad.measures import SUCCESS, WITH_SENSITIVE, WITHIN, Repeated, correlation
from sfumato.reproduce.ad.study import (
    ANATOMY,
    BAYES,
    DIVERSITY,
    INDEPENDENT,
    LEAST_SQUARES,
    MEANING,
    PROVED,
    RR,
    UNCLIPPED,
    Study,
    ranked,
    repetitions,
    studied,
)
from sfumato.reproduce.ad.tables import hierarchies
from sfumato.reproduce.charts import Chart, Point
from sfumato.reproduce.experiment import Comparison, Experiment, Outcome, Setting, number, sentence

Printed = Mapping[int, Mapping[str, Sequence[str]]]
ORIGINAL = (("11.54", "0.68", "1.92", "4.12", "1.07", "1.08"), ("9.90", "2.74", "4.40", "0.57"))
TABLE_4: Printed = {
    3: {ANATOMY: ORIGINAL[0], DIVERSITY: ("0",) * 6, RR: ("8.57", "0.63", "1.86", "3.65", "0.53", "1.08")},
    4: {ANATOMY: ORIGINAL[0], DIVERSITY: ("9.18", *("0",) * 5), RR: ("8.05", "0.58", "1.29", "3.37", "0.45", "1.07")},
    5: {
        ANATOMY: ORIGINAL[0],
        DIVERSITY: ("0", "0", "0.21", "0", "0", "0"),
        RR: ("7.50", "0.33", "1.02", "3.15", "0.44", "1.04"),
    },
}
TABLE_5: Printed = {
    3: {
        ANATOMY: ("0.90", "0.20", "0.25", "0.06"),
        DIVERSITY: ("8.86", "0", "0", "0"),
        RR: ("8.72", "2.41", "4.13", "0.54"),
    },
    4: {
        ANATOMY: ("0.46", "0.12", "0.08", "0.02"),
        DIVERSITY: ("7.91", "2.74", "0", "0"),
        RR: ("8.33", "2.27", "4.01", "0.51"),
    },
    5: {
        ANATOMY: ("0.26", "0.05", "0.07", "0.02"),
        DIVERSITY: ("7.91", "0", "0", "0.37"),
        RR: ("7.77", "2.17", "3.89", "0.50"),
    },
}
LEVELS: Mapping[int, Node] = {3: (1, 1, 1, 2), 4: (2, 0, 1, 2), 5: (2, 1, 1, 1)}
"""Education, salary, gender, race: the levels of the paper's l-diverse tables, as its zeros tell them."""
TWICE = 2
"""Standard deviations of one release that a printed figure, from one release, may be off."""
SHOWN = 4
"""The l of the charts."""
EXACT = 1e-9
"""A standard deviation below this is rounding: the figure has no chance in it."""
BY_FIRST = "U divides by the entropy of the second column; for G vs. R the paper divides by that of the first, as here."


def table_4(setting: Setting) -> Outcome:
    """Associations among quasi-identifiers."""
    return _table(setting, "Table 4", WITHIN, ORIGINAL[0], TABLE_4)


def table_5(setting: Setting) -> Outcome:
    """Associations between quasi-identifiers and the sensitive column."""
    return _table(setting, "Table 5", WITH_SENSITIVE, ORIGINAL[1], TABLE_5)


def _table(setting: Setting, place: str, pairs: Sequence[str], original: Sequence[str], printed: Printed) -> Outcome:
    study = studied(setting)
    comparisons = [c for l in printed if l in study.at for c in _compared(setting, study, l, pairs, printed[l])]
    first = [
        number(f"original, {pair}", text, study.mean(RR, 1, pair), because=study.table.reason("another table"))
        for pair, text in zip(pairs, original, strict=True)
    ]
    l = SHOWN if SHOWN in study.at else study.ls[-1]
    points = tuple(_relative(study, pairs, l))
    return Outcome(
        (*first, *comparisons, *_well_kept(study, pairs)),
        tuple(study.rows(pairs)),
        Chart(
            f"Uncertainty coefficients relative to the original at l = {l}, by pair of columns; 1 is the original. For "
            f"the last pair: {ranked(points)}.",
            "pair of columns",
            f"U relative to the original, l = {l}",
            points,
            lines=False,
        ),
        study.table.about,
        repetitions(setting),
        notes=(BY_FIRST, *MEANING, _clipping(study, pairs)),
    )


def _relative(study: Study, pairs: Sequence[str], l: int) -> Iterator[Point]:
    for method in (RR, BAYES, PROVED, ANATOMY, LEAST_SQUARES, DIVERSITY):
        if method in study.at[l]:
            yield from (Point(method, p, study.mean(method, l, p) / study.mean(RR, 1, p)) for p in pairs)


def _compared(
    setting: Setting, study: Study, l: int, pairs: Sequence[str], printed: Mapping[str, Sequence[str]]
) -> Iterator[Comparison]:
    for method, texts in printed.items():
        found = study.at[l][method] if method != DIVERSITY else _of_the_paper(setting, study, l)
        for pair, text in zip(pairs, texts, strict=True):
            deviation = found.deviation(pair)
            because = study.table.reason(_why(method, deviation))
            compared = number(
                f"l = {l}, {method}, {pair}",
                text,
                found.mean(pair),
                proved=study.mean(PROVED, l, pair) if method == RR and PROVED in study.at[l] else "",
                noise=TWICE * deviation if study.table.is_original else 0.0,
                because=because,
            )
            if deviation > EXACT and compared.verdict == "equal":  # by chance
                compared = replace(compared, verdict="within noise", because=because)
            yield compared


def _why(method: str, deviation: float) -> str:
    if method == DIVERSITY:
        return "the paper's hierarchy of education is not printed; ARX's stands in"
    drawn = f"one release has a standard deviation of {deviation:.3f}"
    if method == ANATOMY:
        return f"{drawn}; the paper does not say which of equally frequent values, and of their records, come first"
    return f"{drawn}; the paper gives neither its parameters for this table nor what it makes of negative cells"


def _of_the_paper(setting: Setting, study: Study, l: int) -> Repeated:
    """Return the associations in a table at the levels that the paper's zeros tell."""
    levels = hierarchies(setting.data, study.table)
    node = tuple(min(level, h.top) for level, h in zip(LEVELS[l], levels, strict=True))
    rolled = roll_up(study.table.counts, levels, node)
    return Repeated.of([{pair: correlation(rolled, pair) for pair in (*WITHIN, *WITH_SENSITIVE)}])


def _well_kept(study: Study, pairs: Sequence[str]) -> Iterator[Comparison]:
    """What the text says of S vs. O."""
    if "S vs. O" not in pairs:
        return
    original, ls = study.mean(RR, 1, "S vs. O"), [l for l in (3, 4, 5) if l in study.at]
    shares = {m: [study.mean(m, l, "S vs. O") / original for l in ls] for m in (RR, ANATOMY, LEAST_SQUARES)}
    yield sentence(
        "S vs. O: randomization against Anatomy",
        "well kept (79% to 88%), where Anatomy loses more than nine tenths",
        f"{_percent(shares[RR])} kept, Anatomy {_percent(shares[ANATOMY])}",
        min(shares[RR]) > 0.75 and max(shares[ANATOMY]) < 0.1,
        proved=f"Anatomy by least squares {_percent(shares[LEAST_SQUARES])}",
        noise=study.noise("S vs. O", RR),
        because=study.table.reason("see the figures"),
    )


def _percent(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)


def _clipping(study: Study, pairs: Sequence[str]) -> str:
    """Tell what setting negative cells to 0 costs, before margins are taken."""
    l = study.ls[-1]
    original, first, last = (study.at[k][m].average(pairs) for k, m in ((1, RR), (l, RR), (l, UNCLIPPED)))
    return (
        f"Most of what randomization loses here is lost by setting negative cells of the joint table to 0: at l = {l} "
        f"the mean over the pairs is {first:.2f}, with margins taken first {last:.2f}, of {original:.2f} at first. "
        "Small coefficients come out too large by noise."
    )


# --- Fig. 7 -----------------------------------------------------------------------------------------------------------


def figure_7(setting: Setting) -> Outcome:
    """Means over the pairs, for every l."""
    study = studied(setting)
    methods = (RR, BAYES, PROVED, ANATOMY, LEAST_SQUARES, DIVERSITY, INDEPENDENT)
    points = tuple(
        Point(m, l, study.at[l][m].average(WITH_SENSITIVE)) for m in methods for l in study.at if m in study.at[l]
    )
    return Outcome(
        tuple(_kept(study)),
        tuple(
            {"l": l, "method": method, "QI and S": found.average(WITH_SENSITIVE), "among QI": found.average(WITHIN)}
            | {SUCCESS: found.mean(SUCCESS)}
            for l, of in study.at.items()
            for method, found in of.items()
        ),
        Chart(
            "Mean uncertainty coefficient between quasi-identifiers and occupation against l: randomized response "
            "falls slowly from the original, Anatomy by its own estimate falls to zero at once, and by least squares "
            f"rises a little. At the largest l: {ranked(points)}.",
            "l",
            "mean U, QI and S, hundredths",
            points,
        ),
        study.table.about,
        repetitions(setting),
        notes=(BY_FIRST, "The text speaks of RR-Both, the caption of RR-QI, which is what is run here.", *MEANING),
    )


def _kept(study: Study) -> Iterator[Comparison]:
    for what, pairs, others in (
        ("between quasi-identifiers and S", WITH_SENSITIVE, (ANATOMY, DIVERSITY)),
        ("among quasi-identifiers", WITHIN, (DIVERSITY,)),
    ):
        for other in others:
            worse = [l for l in study.ls if _loss(study, RR, l, pairs) >= _loss(study, other, l, pairs)]
            better = [l for l in study.ls if _loss(study, LEAST_SQUARES, l, pairs) < _loss(study, RR, l, pairs)]
            yield sentence(
                f"association {what}: randomization against {other}",
                "nearer to the original at every l",
                f"{study.at[1][RR].average(pairs):.2f} in the original; {_told(study, RR, pairs)}; "
                f"{_told(study, other, pairs)}",
                not worse,
                proved=_told(study, PROVED, pairs)
                + (f"; {_told(study, LEAST_SQUARES, pairs)}" if other == ANATOMY and better else ""),
                noise=study.noise(pairs[0], RR),
                because=f"not at l = {', '.join(map(str, worse))}",
            )
    exact = [_loss(study, ANATOMY, l, WITHIN) for l in study.ls]
    yield sentence(
        "association among quasi-identifiers: Anatomy",
        "kept in full: their values are not changed",
        f"{max(exact):.6f} off at the most",
        max(exact) < 1e-9,
    )


def _loss(study: Study, method: str, l: int, pairs: Sequence[str]) -> float:
    return float(np.abs(study.at[l][method].average(pairs) - study.at[1][RR].average(pairs)))


def _told(study: Study, method: str, pairs: Sequence[str]) -> str:
    found = [study.at[l][method].average(pairs) for l in study.ls if method in study.at[l]]
    return f"{method} {', '.join(f'{x:.2f}' for x in found)}"


EXPERIMENT_4 = Experiment("ad-table4", "AD", "Table 4", "Associations among quasi-identifiers", table_4)
EXPERIMENT_5 = Experiment("ad-table5", "AD", "Table 5", "Associations of quasi-identifiers with S", table_5)
EXPERIMENT_7 = Experiment("ad-fig7", "AD", "Fig. 7", "Mean associations", figure_7)
