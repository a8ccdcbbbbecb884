"""AD Figs. 5 and 6: distances and errors of queries on ESGRO, against Anatomy, l-diversity and no association."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from sfumato.methods.generalization import generalize, minimal_nodes
from sfumato_papers.ad.competitors import constant_success
from sfumato_papers.ad.diversity import discernibility, height, largest_l
from sfumato_papers.ad.measures import DISTANCES, ERRORS, SUCCESS, distance_figures
from sfumato_papers.ad.study import (
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
from sfumato_papers.ad.tables import EMGRW, hierarchies, joint
from sfumato_papers.charts import Chart
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, sentence

JUDGED = ("KL", "chi-square")
"""The distances in which a trend of l-diversity can be judged: its levels are chosen by L2."""
OTHERS = {"height": height, "discernibility": discernibility}
"""Rules by which the levels could be chosen, too."""
DRAWN = (RR, BAYES, PROVED, ANATOMY, LEAST_SQUARES, DIVERSITY, INDEPENDENT)


def distances(setting: Setting) -> Outcome:
    """Fig. 5: how far the estimated joint table is from the true one."""
    study = studied(setting)
    comparisons = [c for name in DISTANCES for c in _against(study, "Fig. 5", name)]
    points = tuple(study.points("KL", *DRAWN))
    return Outcome(
        (*comparisons, *_trends(setting, study), _lost_in_anatomy(study), *_none_for_emgrw(setting)),
        tuple(study.rows((*DISTANCES, "total variation", SUCCESS))),
        Chart(
            "KL distance of the estimated table against l: randomized response under the paper's risk rises slowly; "
            "Anatomy's own estimate is above it and stays below the level line of independent columns; l-diversity "
            "jumps to above that line, and the proved version of randomized response comes to it in the end. At the "
            f"largest l: {ranked(points)}.",
            "l",
            "KL distance",
            points,
        ),
        study.table.about,
        repetitions(setting),
        notes=(
            *MEANING,
            _rule(setting, study),
            _floor(study),
            *(_against_independence(study, name) for name in DISTANCES),
        ),
    )


def queries(setting: Setting) -> Outcome:
    """Fig. 6: relative errors of counts."""
    study = studied(setting)
    points = tuple(study.points("cube", *DRAWN))
    return Outcome(
        tuple(c for name in ERRORS for c in _against(study, "Fig. 6", name)),
        tuple(study.rows((*ERRORS, SUCCESS))),
        Chart(
            "Mean relative error of all counts of the cube against l: l-diversity is far above the level line of "
            "independent columns, Anatomy's own estimate is flat and somewhat below it; randomized response starts "
            f"lower and rises, least by iterative Bayes. At the largest l: {ranked(points)}.",
            "l",
            "mean relative error, cube",
            points,
        ),
        study.table.about,
        repetitions(setting),
        notes=(
            "base: all cells of the joint table that have records; cube: all margins; errors relative to the count.",
            *MEANING,
            *(_against_independence(study, name) for name in ERRORS),
        ),
    )


# --- what the paper says ----------------------------------------------------------------------------------------------


def _against(study: Study, place: str, name: str) -> Iterator[Comparison]:
    """Compare randomization with each competitor."""
    for other in (ANATOMY, DIVERSITY):
        worse = study.not_less(RR, other, name)
        better = study.not_less(BAYES, other, name)
        yield sentence(
            f"{place}, {name}: randomization against {other}",
            "smaller at every l",
            f"{study.told(RR, name)}; {study.told(other, name)}",
            not worse,
            proved=study.told(PROVED, name),
            noise=study.noise(name, RR, other),
            because=f"not at l = {_listed(worse)} ({study.noise(name, RR, other)}); the same release estimated by "
            "iterative Bayes is " + (f"not at l = {_listed(better)} either" if better else "smaller at every l"),
        )


def _trends(setting: Setting, study: Study) -> Iterator[Comparison]:
    for method in (RR, ANATOMY):
        falling = {name: falls for name in DISTANCES if (falls := study.falls(method, name))}
        yield sentence(
            f"Fig. 5: {method} with a larger l",
            "is farther from the truth",
            "; ".join(f"{name} {_listed([f'{x:.3g}' for x in study.means(method, name)])}" for name in DISTANCES),
            not falling,
            noise=study.noise("L2", method),
            because="; ".join(f"{name} falls at l = {_listed(ls)}" for name, ls in falling.items())
            + f" ({study.noise('chi-square', method)} of chi-square)",
        )
    others = _by_other_rules(setting, study)
    for name in JUDGED:
        yield sentence(
            f"Fig. 5, {name}: {DIVERSITY} with a larger l",
            "does not always get farther from the truth",
            f"{study.told(DIVERSITY, name)}, the levels being those of the least L2 distance",
            bool(study.falls(DIVERSITY, name)),
            because=f"with these levels it never gets nearer; with others, {others[name]}",
        )


def _rule(setting: Setting, study: Study) -> str:
    told = "; ".join(f"{name} {figures}" for name, figures in _by_other_rules(setting, study).items())
    return (
        "How the paper chose among l-diverse levels is not told. With those of the least L2 distance, which all "
        "figures here are of, L2 cannot fall as l grows, since what is diverse for a larger l is so for a smaller "
        f"one. With others, from l = {study.ls[0]} on: {told}."
    )


def _by_other_rules(setting: Setting, study: Study) -> Mapping[str, str]:
    """Tell the distances of the generalizations that other rules would choose."""
    counts, levels = study.table.counts, hierarchies(setting.data, study.table)
    found = {
        rule: [distance_figures(counts, generalize(counts, levels, l, score).estimate()) for l in study.ls]
        for rule, score in OTHERS.items()
    }
    return {
        name: ", ".join(f"{_listed([f'{x[name]:.3g}' for x in of])} (least {rule})" for rule, of in found.items())
        for name in DISTANCES
    }


def _lost_in_anatomy(study: Study) -> Comparison:
    kept = study.not_less(ANATOMY, LEAST_SQUARES, "L2")
    return sentence(
        "Fig. 5: what Anatomy tells of quasi-identifiers and values together",
        "is lost",
        f"L2 {study.told(ANATOMY, 'L2')}",
        not kept,
        proved=study.told(LEAST_SQUARES, "L2"),
        noise=study.noise("L2", ANATOMY, LEAST_SQUARES),
        because=f"the compositions of the groups tell it: least squares is nearer at l = {_listed(kept)}, against "
        f"{study.told(RR, 'L2')}",
    )


def _none_for_emgrw(setting: Setting) -> Iterator[Comparison]:
    """AD section V.B: EMGRW has no partition for Anatomy, and none with entropy l-diversity."""
    table = joint(setting.data, EMGRW)
    share = constant_success(table.counts)
    most = largest_l(table.counts.sum(axis=tuple(range(table.counts.ndim - 1)), keepdims=True))
    yield sentence(
        f"section V.B: EMGRW by {ANATOMY}, for l = 2 or more",
        "cannot be had",
        f"the most frequent value has {share:.1%} of the records, and may have 1/l",
        share > 1 / 2,
        because="no value has more than half of the records",
    )
    finest = minimal_nodes(table.counts, hierarchies(setting.data, table), 2) if most >= 2 else ()
    yield sentence(
        f"section V.B: EMGRW with entropy {DIVERSITY}, for l = 2 or more",
        "cannot be had",
        f"the whole table as one class has it up to l = {most:.2f}",
        most < 2,
        because=(
            f"for l = 2 it can, with {len(finest)} minimal choices of levels; from l = {math.floor(most) + 1} on not"
        ),
    )


# --- what it does not say ---------------------------------------------------------------------------------------------


def _against_independence(study: Study, name: str) -> str:
    """Tell which methods do not beat the product of the margins, and where."""
    lines = []
    for method in (RR, UNCLIPPED, BAYES, PROVED, ANATOMY, LEAST_SQUARES, DIVERSITY):
        worse = study.not_less(method, INDEPENDENT, name)
        if worse:
            lines.append(
                f"{method} at l = {_listed(worse)} ({', '.join(f'{study.mean(method, l, name):.3g}' for l in worse)})"
            )
    figure = study.mean(INDEPENDENT, study.ls[0], name)
    told = "; ".join(lines) if lines else "none"
    return (
        f"{name}: the product of the columns' margins, which tells of no association and asks for no method, has "
        f"{figure:.3g}. No better than that: {told}."
    )


def _floor(study: Study) -> str:
    kl, chi = (study.mean(RR, 1, name) for name in ("KL", "chi-square"))
    return (
        f"KL and chi-square take cells below half a record as half a record; that alone makes {kl:.3f} and {chi:.3f} "
        "at l = 1, where nothing is changed."
    )


def _listed(items: Sequence[object]) -> str:
    return ", ".join(map(str, items))


FIGURE_5 = Experiment("ad-fig5", "AD", "Fig. 5", "Distances of estimated tables", distances)
FIGURE_6 = Experiment("ad-fig6", "AD", "Fig. 6", "Relative errors of counts", queries)
