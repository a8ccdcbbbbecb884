"""AD Tables 4 and 5: how much of the association between columns of ESGRO is kept."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sfumato.auditor.utility.measuring import uncertainty
from sfumato.values.arrays import FloatArray
from sfumato_papers.ad.competitors import Anatomized, anatomize_in_order
from sfumato_papers.ad.levels import Fit, education_groupings, fitted, groupings_of_race, with_figure
from sfumato_papers.ad.measures import WITH_SENSITIVE, WITHIN, Repeated, correlation
from sfumato_papers.ad.rows import ORIGINAL, both
from sfumato_papers.ad.study import (
    ANATOMY,
    BAYES,
    DIVERSITY,
    LEAST_SQUARES,
    MEANING,
    PROVED,
    RR,
    UNCLIPPED,
    Study,
    generator,
    ranked,
    repetitions,
    studied,
)
from sfumato_papers.ad.tables import Joint, hierarchies
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, number, sentence

Figures = Mapping[str, str]
ROWS: Mapping[int, Mapping[str, Figures]] = {
    l: {method: dict(zip((*WITHIN, *WITH_SENSITIVE), texts.split(), strict=True)) for method, texts in of.items()}
    for l, of in {
        3: {
            ANATOMY: "11.54 0.68 1.92 4.12 1.07 1.08 0.90 0.20 0.25 0.06",
            DIVERSITY: "0 0 0 0 0 0 8.86 0 0 0",
            RR: "8.57 0.63 1.86 3.65 0.53 1.08 8.72 2.41 4.13 0.54",
        },
        4: {
            ANATOMY: "11.54 0.68 1.92 4.12 1.07 1.08 0.46 0.12 0.08 0.02",
            DIVERSITY: "9.18 0 0 0 0 0 7.91 2.74 0 0",
            RR: "8.05 0.58 1.29 3.37 0.45 1.07 8.33 2.27 4.01 0.51",
        },
        5: {
            ANATOMY: "11.54 0.68 1.92 4.12 1.07 1.08 0.26 0.05 0.07 0.02",
            DIVERSITY: "0 0 0.21 0 0 0 7.91 0 0 0.37",
            RR: "7.50 0.33 1.02 3.15 0.44 1.04 7.77 2.17 3.89 0.50",
        },
    }.items()
}
"""What is printed, by l and method: Table 4, then Table 5."""
SHOWN = 4
"""The l of the charts."""
EXACT = 1e-9
"""A difference below this is rounding."""
ORDERS, QUICK_ORDERS = 40, 10
"""Orders of the values, drawn at random, by which Anatomy decides between equally frequent ones."""
TABLES = 1_000
"""Random tables whose U is looked at."""
BY_FIRST = "U divides by the entropy of the second column; for G vs. R the paper divides by that of the first, as here."


@dataclass(frozen=True, eq=False)
class Kept:
    """All that the comparisons of both tables are made from."""

    study: Study
    ls: tuple[int, ...]
    fits: Mapping[int, Fit]  # by l, where there is one
    orders: Mapping[int, Repeated]  # Anatomy with S, by l: a release for each order
    education: Mapping[str, FloatArray]  # U of all ways to join neighbouring degrees, by pair
    races: tuple[int, int]  # ways to group them, and those with the printed R vs. O
    all_rows: Mapping[str, float]  # the original, of all rows of Adult


def _kept(setting: Setting, orders: int = 0) -> Kept:
    study = studied(setting)
    levels = hierarchies(setting.data, study.table)
    ls = tuple(l for l in ROWS if l in study.at)
    fits = {l: fit for l in ls if (fit := fitted(study.table, levels, l, ROWS[l][DIVERSITY])) is not None}
    return Kept(
        study,
        ls,
        fits,
        {l: _in_orders(study.table, l, orders, generator(setting.seed, l, 4)) for l in ls if orders},
        education_groupings(study.table, levels[3]) if study.table.is_original else {},
        groupings_of_race(study.table, ROWS[5][DIVERSITY]["R vs. O"]),
        both(setting.data)[1].found,
    )


def _in_orders(table: Joint, l: int, times: int, rng: np.random.Generator) -> Repeated:
    """Return Anatomy's associations with S, for orders of the values that are drawn at random."""
    counts = np.bincount(table.codes[:, -1])
    releases = (Anatomized.dealt(table, anatomize_in_order(counts, l, rng), rng) for _ in range(times))
    estimates = (release.estimates()[0] for release in releases)
    return Repeated.of({pair: correlation(estimate, pair) for pair in WITH_SENSITIVE} for estimate in estimates)


def table_4(setting: Setting) -> Outcome:
    """Associations among quasi-identifiers."""
    kept = _kept(setting)
    own = (_range_of_u(setting), _untouched(kept.study), *(_zeros(kept, l) for l in kept.ls))
    return _outcome(setting, kept, WITHIN, own)


def table_5(setting: Setting) -> Outcome:
    """Associations between quasi-identifiers and the sensitive column."""
    kept = _kept(setting, QUICK_ORDERS if setting.quick else ORDERS)
    return _outcome(setting, kept, WITH_SENSITIVE, (_well_kept(kept.study),))


def _outcome(setting: Setting, kept: Kept, pairs: Sequence[str], own: Sequence[Comparison]) -> Outcome:
    study = kept.study
    l = SHOWN if SHOWN in study.at else study.ls[-1]
    points = tuple(_relative(study, pairs, l))
    return Outcome(
        (*_original(study, pairs), *_numbers(kept, pairs), *own),
        (*study.rows(pairs), *_further_rows(kept, pairs)),
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
        notes=(BY_FIRST, *MEANING, *_notes(setting, kept), _clipping(study, pairs)),
    )


def _relative(study: Study, pairs: Sequence[str], l: int) -> Iterator[Point]:
    for method in (RR, BAYES, PROVED, ANATOMY, LEAST_SQUARES, DIVERSITY):
        if method in study.at[l]:
            yield from (Point(method, p, study.mean(method, l, p) / study.mean(RR, 1, p)) for p in pairs)


def _further_rows(kept: Kept, pairs: Sequence[str]) -> Iterator[dict[str, Any]]:
    def row(l: int, method: str, figures: Mapping[str, float]) -> dict[str, Any]:
        return {
            "l": l,
            "method": method,
            **{p: figures[p] for p in pairs},
            **{f"{p}, standard error": 0.0 for p in pairs},
        }

    yield row(1, "original, all rows", kept.all_rows)
    for l, fit in kept.fits.items():
        yield row(l, f"{DIVERSITY}, levels by the printed zeros", {p: correlation(fit.table, p) for p in pairs})
    for l, found in kept.orders.items():
        for name, least_or_most in (("least", min), ("most", max)):
            figures = {p: least_or_most(run[p] for run in found.runs) for p in pairs}
            yield row(l, f"{ANATOMY}, {name} over orders", figures)


# --- numbers ----------------------------------------------------------------------------------------------------------


def _original(study: Study, pairs: Sequence[str]) -> Iterator[Comparison]:
    for pair in pairs:
        because = "these rows have another"
        yield number(f"original, {pair}", ORIGINAL[pair], study.mean(RR, 1, pair), because=because)


def _numbers(kept: Kept, pairs: Sequence[str]) -> Iterator[Comparison]:
    for l in kept.ls:
        for pair in pairs:
            if pair in WITH_SENSITIVE:
                yield _drawn(kept, l, ANATOMY, pair)
            if l in kept.fits and is_free(l, pair):
                yield _by_levels(kept, l, pair)
            yield _drawn(kept, l, RR, pair)


def is_free(l: int, pair: str) -> bool:
    """Whether a figure of the l-diverse table is not given by fitting its levels: an association of education.

    Zeros are what is fitted; S vs. O is the original's where S is left alone; race was grouped to have R vs. O.
    """
    return pair.startswith("E") and float(ROWS[l][DIVERSITY][pair]) > 0


def _by_levels(kept: Kept, l: int, pair: str) -> Comparison:
    text, ways = ROWS[l][DIVERSITY][pair], kept.education.get(pair, np.empty(0))
    there = np.count_nonzero(with_figure(ways, text))
    because = (
        "the paper's groups of education are not printed; ARX's are taken, and others would do: of "
        f"{len(ways):,} ways to join neighbouring degrees {there:,} give this figure"
    )
    ours = correlation(kept.fits[l].table, pair)
    return number(f"l = {l}, {DIVERSITY}, {pair}", text, ours, because=because)


def _drawn(kept: Kept, l: int, method: str, pair: str) -> Comparison:
    """Compare a figure of one release with the mean of ours, give or take what one more release may be off."""
    study, text = kept.study, ROWS[l][method][pair]
    found = study.at[l][method]
    reach = found.reach(pair)
    drawn = f"one release is up to {reach:.3f} from the mean of {len(found.runs)}, 19 times of 20"
    compared = number(
        f"l = {l}, {method}, {pair}",
        text,
        found.mean(pair),
        proved=study.mean(PROVED, l, pair) if method == RR and PROVED in study.at[l] else "",
        noise=reach,
        because=drawn,
    )
    if compared.verdict == "equal":  # by chance
        return replace(compared, verdict="within noise", because=drawn)
    if compared.verdict == "differs":
        why = _by_order(kept, l, pair) if method == ANATOMY else _by_estimate(kept, l, pair)
        return replace(compared, because=f"{drawn}; {why}")
    return compared


def _by_order(kept: Kept, l: int, pair: str) -> str:
    """Tell whether Anatomy has the printed figure for some order of equally frequent values."""
    found = [run[pair] for run in kept.orders[l].runs]
    low, high, printed = min(found), max(found), float(ROWS[l][ANATOMY][pair])
    half = 0.005
    return (
        "that is with equally frequent values in a new order each time. The paper does not tell its order; with one "
        f"order throughout it is {low:.3f} to {high:.3f}, over {len(found)} orders, "
        + (
            "and the printed figure is among these"
            if low - half <= printed <= high + half
            else "not the printed figure"
        )
    )


def _by_estimate(kept: Kept, l: int, pair: str) -> str:
    """Tell whether another estimate from the same releases has the printed figure."""
    others = {
        "with margins taken before negative cells are set to 0": kept.study.at[l][UNCLIPPED],
        "by iterative Bayes": kept.study.at[l][BAYES],
    }
    printed = float(ROWS[l][RR][pair])
    near = [name for name, of in others.items() if abs(of.mean(pair) - printed) <= of.reach(pair)]
    told = ", ".join(f"{of.mean(pair):.2f} {name}" for name, of in others.items())
    return f"the same releases give {told}: " + (
        f"as printed, give or take as much, {near[0]}" if near else "the cause was not found"
    )


# --- sentences --------------------------------------------------------------------------------------------------------


def _zeros(kept: Kept, l: int) -> Comparison:
    """Whether some levels explain the zeros of both tables; which ones is fitted, whether they are diverse is not."""
    zeros = [pair for pair, text in ROWS[l][DIVERSITY].items() if float(text) == 0]
    fit = kept.fits.get(l)
    return sentence(
        f"Tables 4 and 5, l = {l}: the pairs without association in the {l}-diverse table",
        f"{', '.join(zeros)}, and no others",
        "no levels that are entropy l-diverse have these" if fit is None else _told(fit, l),
        fit is not None,
        because="no levels of these hierarchies have just these zeros and are diverse",
    )


def _told(fit: Fit, l: int) -> str:
    levels = ", ".join(f"{letter} {level}" for letter, level in zip("ESGR", fit.node, strict=True))
    return (
        f"levels that have just these, and are entropy l-diverse for l = {l}, exist: {fit.of}; the finest ({levels}) "
        f"is so up to l = {fit.diversity:.2f} and "
        + ("minimal" if fit.is_minimal else "not minimal: a finer choice is diverse, too")
    )


def _untouched(study: Study) -> Comparison:
    ls = [l for l in ROWS if l in study.at]
    off = max(abs(study.mean(ANATOMY, l, pair) - study.mean(RR, 1, pair)) for l in ls for pair in WITHIN)
    return sentence(
        f"l = 3, 4, 5, {ANATOMY}, all pairs",
        "as in the original",
        f"{off if off > EXACT else 0:.2g} off at the most: quasi-identifiers are published as they are",
        off < EXACT,
        because="quasi-identifiers were changed",
    )


def _range_of_u(setting: Setting) -> Comparison:
    """AD says of Eq. (12) that U may be negative."""
    rng = generator(setting.seed, 12)
    shapes = rng.integers(2, 7, (TABLES, 2)).tolist()
    found = [uncertainty(rng.dirichlet(np.full(m * n, 0.2)).reshape(m, n)) for m, n in shapes]
    none, whole = uncertainty(np.ones((3, 4))), uncertainty(np.eye(3))
    return sentence(
        "Eq. (12): the values that U takes",
        "between -1 and 1",
        f"{max(none, 0):.0f} for independent columns and {whole:.0f} for equal ones; {min(found):.4f} to "
        f"{max(found):.4f} in {TABLES:,} random tables",
        min(none, whole, *found) < -EXACT,
        because="none is negative, nor can be: U is the mutual information by an entropy that is at least as large",
    )


def _well_kept(study: Study) -> Comparison:
    """What the text says of S vs. O."""
    ls = [l for l in ROWS if l in study.at]
    original = study.mean(RR, 1, "S vs. O")
    shares = {m: [study.mean(m, l, "S vs. O") / original for l in ls] for m in (RR, ANATOMY, LEAST_SQUARES)}
    by_us = {m: [float(ROWS[l][m]["S vs. O"]) / float(ORIGINAL["S vs. O"]) for l in ls] for m in (RR, ANATOMY)}
    return sentence(
        "S vs. O: randomization against Anatomy",
        "well kept by randomization, not by Anatomy",
        f"{_percent(shares[RR])} kept, Anatomy {_percent(shares[ANATOMY])}; our division of the printed figures: "
        f"{_percent(by_us[RR])}, Anatomy {_percent(by_us[ANATOMY])}. Well: more than 75%; not: less than 25%",
        min(shares[RR]) > 0.75 and max(shares[ANATOMY]) < 0.25,
        proved=f"Anatomy by least squares {_percent(shares[LEAST_SQUARES])}",
        noise=study.noise("S vs. O", RR, ANATOMY),
        because="not so at every l",
    )


def _percent(shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.0%}" for share in shares)


# --- notes ------------------------------------------------------------------------------------------------------------


def _notes(setting: Setting, kept: Kept) -> Iterator[str]:
    yield "Original: " + "; ".join(found.told() for found in both(setting.data)) + "."
    total, there = kept.races
    forced = sum(not is_free(l, pair) for l in ROWS for pair in ROWS[l][DIVERSITY])
    yield (
        f"Of the l-diverse tables only associations of education are compared one by one. The other {forced} figures "
        "agree by construction: levels are fitted to the zeros, S is left alone where S vs. O is the original's, and "
        f"White and others is a level of race because it gives R vs. O of {ROWS[5][DIVERSITY]['R vs. O']}; of {total} "
        f"ways to group the races {there} do."
    )
    if kept.education:
        yield _same_groups(kept.education)


def _same_groups(education: Mapping[str, FloatArray]) -> str:
    """Tell whether one grouping of education explains both l = 4 and l = 5."""
    printed = {"E vs. S": ROWS[4], "E vs. R": ROWS[5], "E vs. O": ROWS[5]}
    texts = {pair: of[DIVERSITY][pair] for pair, of in printed.items()}
    there = np.logical_and.reduce([with_figure(education[pair], text) for pair, text in texts.items()]).sum()
    told = ", ".join(f"{pair} {text}" for pair, text in texts.items())
    return (
        f"E vs. O is the same at l = 4 and 5, so education may have the same groups there. Then these have {told}; of "
        f"{len(education['E vs. O']):,} ways to join neighbouring degrees {there} have all three."
    )


def _clipping(study: Study, pairs: Sequence[str]) -> str:
    """Tell what setting negative cells to 0 costs, before margins are taken."""
    l = study.ls[-1]
    original, first, last = (study.at[k][m].average(pairs) for k, m in ((1, RR), (l, RR), (l, UNCLIPPED)))
    return (
        f"What setting negative cells of the joint table to 0 costs: at l = {l} the mean over the pairs is "
        f"{first:.2f}, with margins taken first {last:.2f}, in the original {original:.2f}; what is above that is "
        "noise."
    )


EXPERIMENT_4 = Experiment("ad-table4", "AD", "Table 4", "Associations among quasi-identifiers", table_4)
EXPERIMENT_5 = Experiment("ad-table5", "AD", "Table 5", "Associations of quasi-identifiers with S", table_5)
