"""SDR Fig. 4, on the skewed table EDU."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato_papers.experiment import Comparison, Outcome, Setting, number, sentence
from sfumato_papers.sdr.census import EDU, Census, stands_in
from sfumato_papers.sdr.errors import READINGS, by_size, methods, outcome, risk_note, size_note, the_table
from sfumato_papers.sdr.measured import ANA, PP, PROVED, UNBIASED, UP, Curves, Methods, measure, percent
from sfumato_papers.sdr.released import Anatomized, Perturbed, uniform_with

TIGHT = "UP at Ana's risk"
LARGEST_SHARE = Fraction(27, 100)
"""Of an education in CENSUS, as printed."""
SIGNIFICANT = 2
"""An error is significantly larger if it is so many times the other."""
MUCH = 0.1
"""Answers are significantly too small if they lack this share."""


def edu_by_level(setting: Setting) -> Outcome:
    """The upper half: L = 10 to 4, nine of fourteen values protected."""
    table = the_table(EDU, setting)
    made = [methods(table, L) for L in EDU.levels]
    tight = uniform_with(made[0][ANA].risk, table)
    risky = [one | {TIGHT: uniform_with(one[ANA].risk, table)} for one in made]
    curves = Curves(EDU, "L", EDU.levels, measure(table, risky, setting))
    because = stands_in(table.about)
    comparisons = (
        number("protected values", "9", int((table.shares <= float(EDU.rho1)).sum()), because=because),
        _one_table(made, because),
        sentence(
            "L-diversity without suppression",
            "not possible at any of these L",
            f"the largest share is {table.shares[0]:.1%}, and 1/L is {1 / max(EDU.levels):.0%} to "
            f"{1 / min(EDU.levels):.0%}",
            table.shares[0] > 1 / min(EDU.levels),
            because=because,
        ),
        _significantly_larger(curves, because),
        _too_small(curves, made, table),
        _at_equal_risk(curves, made, tight),
    )
    notes = (risk_note(curves), _unprotected_note(curves), _least_squares_note(curves), *READINGS)
    return outcome(curves, comparisons, table.about, setting, notes)


def edu_by_size(setting: Setting) -> Outcome:
    """The lower half: 100,000 to 500,000 records, L = 10."""
    about, curves = by_size(EDU, setting)
    comparison = _significantly_larger(curves, stands_in(about))
    return outcome(curves, (comparison,), about, setting, (size_note(curves), *READINGS))


def _one_table(made: Sequence[Methods], because: str) -> Comparison:
    parts, proved = ([_sub_tables(one[name]) for one in made] for name in (PP, PROVED))
    return sentence(
        "PP degenerates into UP",
        "at every L the table stays one",
        f"{_listed(parts)} sub-tables at L = {_listed(EDU.levels)}",
        set(parts) == {1},
        proved=f"{_listed(proved)} sub-tables",
        because=because,
    )


def _sub_tables(one: Perturbed | Anatomized) -> int:
    assert isinstance(one, Perturbed)
    return len(one.blocks)


def _significantly_larger(curves: Curves, because: str) -> Comparison:
    ratios = [curves.mean(ANA) / curves.mean(name) for name in (PP, UP)]
    told = " and ".join(
        f"{ratio.min():.1f} to {ratio.max():.1f} times {name}'s"
        for name, ratio in zip(("PP", "UP"), ratios, strict=True)
    )
    return sentence(
        "Ana's error against PP's and UP's",
        f"significantly larger, read as: {SIGNIFICANT} times as large or more everywhere",
        f"{told}; {curves.shown(PP)}; {curves.shown(ANA)}",
        min(float(ratio.min()) for ratio in ratios) >= SIGNIFICANT,
        proved=curves.shown(PROVED),
        because=because,
        noise=curves.noise,
    )


def _too_small(curves: Curves, made: Sequence[Methods], table: Census) -> Comparison:
    """With a share a > 1/L of one value, and no other above 1/L, (a - 1/L)/(1 - 1/L) of the records have to go."""
    lacking = [-one[ANA].bias for one in curves.found]
    withheld = [_withheld(one[ANA]) for one in made]
    told = ", ".join(
        f"{percent(short)} at L = {L} ({percent(gone)} of the records suppressed)"
        for L, short, gone in zip(EDU.levels, lacking, withheld, strict=True)
    )
    L = min(EDU.levels)
    needed = float((LARGEST_SHARE - Fraction(1, L)) / (1 - Fraction(1, L)))
    return sentence(
        "Ana's answers",
        f"significantly too small, because records are suppressed, read as: by {MUCH:.0%} or more in sum at every L",
        f"by {told}",
        min(lacking) >= MUCH,
        because=(
            f"at L = {L} few records have to be suppressed: the largest share is {table.shares[0]:.1%} and 1/L is "
            f"{1 / L:.0%}; with the printed {float(LARGEST_SHARE):.0%} as the only larger one it would be "
            f"{percent(needed)}; Ana's error is {percent(curves.mean(ANA)[-1, 0])} there all the same"
        ),
        noise=curves.noise,
    )


def _least_squares_note(curves: Curves) -> str:
    """The estimate that does better on OCC: here hardly any group is without the most frequent value."""
    found = {L: one[UNBIASED].mean[0] for L, one in zip(curves.places, curves.found, strict=True) if UNBIASED in one}
    if not found:
        return "At none of these L do Ana's groups tell all values apart, so there is no other estimate."
    told = ", ".join(f"{percent(float(error))} at L = {L}" for L, error in found.items())
    return f"Least squares on Ana's groups, where they tell all values apart: an error of {told}."


def _withheld(one: Perturbed | Anatomized) -> float:
    assert isinstance(one, Anatomized)
    return int(one.withheld.sum()) / (one.records + int(one.withheld.sum()))


def _at_equal_risk(curves: Curves, made: Sequence[Methods], tight: Perturbed) -> Comparison:
    """UP, which PP is here, is held to as many right guesses as Ana; withheld records are guessed, too."""
    wrong = curves.exceptions(TIGHT, ANA)
    plain = made[0][UP]
    assert isinstance(plain, Perturbed)
    gammas = [float(one.blocks[0].gamma or np.inf) for one in (plain, tight)]
    return sentence(
        "UP, which PP degenerates into, against Ana at equal measured risk",
        "it has the smaller error (the paper compares at equal bounds)",
        f"{curves.shown(TIGHT)}; {curves.shown(ANA)}",
        not wrong,
        because=(
            f"not smaller at {' and '.join(wrong)}; the bound is for the rare values, and the best guess of a record "
            f"is right for {plain.risk:.1%} with UP and {made[0][ANA].risk:.1%} with Ana at L = {EDU.levels[0]}, "
            f"suppressed records included; held to that, gamma is {gammas[1]:.2f} instead of {gammas[0]:.2f}"
        ),
        noise=curves.noise,
    )


def _unprotected_note(curves: Curves) -> str:
    """The requirement is about the rare values only."""
    risks = [curves.found[0][name].risk for name in (PROVED, UP)]
    return (
        f"The requirement is about the rare values only. With {PROVED}, which cuts the table, the best guess is right "
        f"for {risks[0]:.1%} of all records at L = {EDU.levels[0]}, with the table as one for {risks[1]:.1%}."
    )


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
