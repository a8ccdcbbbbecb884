"""AD Table 3: the parameters of least cost on EMGRW."""

# ruff: noqa: E741  (l is the papers' letter)

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from sfumato.methods.response.guessing import limit_success
from sfumato.methods.response.joint import Channel, Channels, kappa, untouched
from sfumato.methods.response.problem import Response, pose
from sfumato.methods.response.reach import RiskOutOfReach
from sfumato.methods.response.risks import Link, Posterior, Reconstruction
from sfumato.methods.response.solver import solve
from sfumato_papers.ad.competitors import constant_success
from sfumato_papers.ad.response import Randomized
from sfumato_papers.ad.rows import both
from sfumato_papers.ad.study import generator, solved
from sfumato_papers.ad.tables import EMGRW, ESGRO, Joint, joint
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Experiment, Outcome, Setting, number, sentence

LETTERS = "EMGRW"
PRINTED: Mapping[str, Mapping[int, tuple[str, ...]]] = {
    "RR-QI": {
        2: ("0.824", "0.872", "0.920", "0.941", "0.650"),
        3: ("0.548", "0.812", "0.898", "0.985", "0.267"),
        4: ("0.382", "0.736", "0.918", "0.961", "0.217"),
        5: ("0.314", "0.615", "0.873", "0.938", "0.167"),
    },
    "RR-Both": {
        2: ("0.824", "0.872", "0.920", "0.941", "1"),
        3: ("0.573", "0.821", "0.913", "0.973", "0.955"),
        4: ("0.428", "0.780", "0.926", "0.953", "0.871"),
        5: ("0.353", "0.688", "0.902", "0.953", "0.813"),
    },
}
TABLE_2 = {
    "sex": 2,
    "race": 5,
    "education": 16,
    "marital_status": 7,
    "income": 2,
    "workclass": 7,
    "occupation": 14,
}
LS = (2, 3, 4, 5)
SEARCH = 0.005
"""How far a numerical search may stop from the optimum, where the cost there is next to the same."""
NEXT_TO_THE_SAME = 0.005
HALF_A_DIGIT = 0.0005
"""By which printed parameters may be rounded."""


@dataclass(frozen=True, eq=False)
class Found:
    """The printed parameters beside ours."""

    scope: str
    l: int
    printed: tuple[str, ...]
    ours: Response
    channels: Channels  # the printed ones
    risk: float  # the largest of these
    least: float  # and of those that are half of the last digit below
    excess: float  # by which share these cost more than the least that was found for a limit that they keep


def printed_channels(table: Joint, scope: str, l: int, less: float = 0.0) -> Channels:
    """Return the printed parameters, less something: under RR-QI the sensitive column is untouched all the same."""
    diagonals = [float(text) - (less if text != "1" else 0) for text in PRINTED[scope][l]]
    if scope == "RR-QI":
        diagonals[-1] = 1.0
    return tuple(Channel.from_diagonal(d, p) for d, p in zip(table.table.sizes, diagonals, strict=True))


def run(setting: Setting) -> Outcome:
    """Solve for every l, and evaluate the printed parameters."""
    table = joint(setting.data, EMGRW)
    found = [one for scope in PRINTED for l in LS if (one := _found(setting, table, scope, l)) is not None]
    comparisons = [c for one in found for c in _parameters(table, one)]
    rows = tuple(row for one in found for row in _rows(one))
    return Outcome(
        (*_described(setting), *comparisons, *_sentences(setting, table, found)),
        rows,
        Chart(
            "Each parameter as it is printed and as it comes out here: nearly all lie on the diagonal; those that are "
            "printed for the sensitive column under RR-QI, which leaves it untouched, lie far above it, at 1.",
            "probability of staying, printed",
            "probability of staying, ours",
            tuple(Point(r["scope"], r["printed"], r["ours"]) for r in rows),
            lines=False,
        ),
        table.about,
        notes=(
            "One start of the search; ours is the best point that was found, in the integers that are sampled.",
            _rising(found),
        ),
    )


def _described(setting: Setting) -> Iterator[Comparison]:
    """AD Table 2: the number of values of each column."""
    for table in (joint(setting.data, ESGRO), joint(setting.data, EMGRW)):
        for name, size in zip(table.names, table.table.sizes, strict=True):
            if table.names == EMGRW or name not in EMGRW:
                yield sentence(f"Table 2, values of {name}", str(TABLE_2[name]), str(size), size == TABLE_2[name])
    train, whole = both(setting.data)
    yield sentence(
        "rows",
        "45,222",
        f"{train.rows:,}, by the ten coefficients that Tables 4 and 5 print for the original: {train.told()}; "
        f"{whole.told()}",
        whole.as_printed > train.as_printed,
        because="the printed figures are those of the training part alone",
    )


def _found(setting: Setting, table: Joint, scope: str, l: int) -> Found | None:
    ours = solved(setting.data, EMGRW, Fraction(1, l), "reconstruction", scope == "RR-Both")
    if ours is None:
        return None
    channels = printed_channels(table, scope, l)
    largest, least = (
        float(Reconstruction(table.table, of).values.max())
        for of in (channels, printed_channels(table, scope, l, less=HALF_A_DIGIT))
    )
    kept = solved(setting.data, EMGRW, max(Fraction(1, l), Fraction(largest)), "reconstruction", scope == "RR-Both")
    assert kept is not None
    return Found(scope, l, PRINTED[scope][l], ours, channels, largest, least, kappa(channels) / kept.kappa - 1)


def _rows(one: Found) -> Iterator[dict[str, Any]]:
    for letter, printed, ours in zip(LETTERS, one.printed, one.ours.diagonal, strict=True):
        yield {"scope": one.scope, "l": one.l, "column": letter, "printed": float(printed), "ours": ours}


def _parameters(table: Joint, one: Found) -> Iterator[Comparison]:
    """Compare each parameter; those of a point that costs next to the same may be another such point's."""
    is_near = abs(one.excess) < NEXT_TO_THE_SAME
    cost = f"at equal risk the printed point costs {one.excess:.2%} more than ours (kappa {one.ours.kappa:.3f}): "
    because = cost + ("the cost is next to flat there" if is_near else "it is not the optimum")
    for letter, printed, ours in zip(LETTERS, one.printed, one.ours.diagonal, strict=True):
        if letter == "W" and one.scope == "RR-QI":
            continue  # not its own: see _sensitive_only
        yield number(
            f"{one.scope}, l = {one.l}, {letter}",
            printed,
            ours,
            noise=SEARCH if is_near else 0.0,
            because=because,
        )


# --- sentences --------------------------------------------------------------------------------------------------------


def _sentences(setting: Setting, table: Joint, found: list[Found]) -> Iterator[Comparison]:
    yield from (_limit(table, one) for one in found)
    yield _more_distortion(table, found)
    yield _less_in_both(table, found)
    yield from (_sensitive_only(table, l) for l in LS)
    yield _not_a_bound(setting, table)


def _limit(table: Joint, one: Found) -> Comparison:
    """Whether the printed parameters keep the limit; no cell's risk falls as a parameter grows."""
    rounded = min(one.least, one.risk)
    explained = "so rounding explains it" if rounded <= 1 / one.l else "so it is not by rounding"
    return sentence(
        f"{one.scope}, l = {one.l}: the risk at the printed parameters",
        f"at most 1/{one.l}",
        f"{one.risk:.5f}",
        one.risk <= 1 / one.l,
        proved=f"{one.ours.risk:.5f} at ours",
        because=(
            f"it is {one.risk * one.l - 1:+.2%} off; parameters that round to the printed ones have from {rounded:.5f} "
            f"on, {explained}. Ours are rounded down"
        ),
    )


def _more_distortion(table: Joint, found: list[Found]) -> Comparison:
    costs = {
        f"{scope}, {name}": [cost(one) for one in found if one.scope == scope]
        for scope in PRINTED
        for name, cost in (("printed", lambda one: kappa(one.channels)), ("ours", lambda one: one.ours.kappa))
    }
    falling = [name for name, of in costs.items() if any(a >= b for a, b in pairwise(of))]
    return sentence(
        "Table 3: a larger l",
        "takes more distortion",
        "kappa at l = 2 to 5: " + "; ".join(f"{name} {_listed(of)}" for name, of in costs.items()),
        not falling,
        because=f"not so for {', '.join(falling)}",
    )


def _less_in_both(table: Joint, found: list[Found]) -> Comparison:
    quasi = {
        (one.scope, one.l, name): kappa(channels[:-1])
        for one in found
        for name, channels in (("printed", one.channels), ("ours", one.ours.channels))
    }
    pairs = {
        name: [
            (cost, quasi["RR-Both", l, name])
            for (scope, l, of), cost in quasi.items()
            if (scope, of) == ("RR-QI", name)
        ]
        for name in ("printed", "ours")
    }
    told = (f"{name} " + ", ".join(f"{a:.2f} and {b:.2f}" for a, b in of) for name, of in pairs.items())
    return sentence(
        "Table 3: RR-Both against RR-QI",
        "less distortion of the quasi-identifiers, as the sensitive column takes some",
        f"kappa of the quasi-identifiers at l = 2 to 5: {'; '.join(told)}",
        all(b <= a * (1 + 1e-6) for of in pairs.values() for a, b in of),
        because="not so at every l",
    )


def _rising(found: list[Found]) -> str:
    """Tell which parameters grow with l, although the cost grows."""
    named = (("printed", lambda one: [float(x) for x in one.printed]), ("ours", lambda one: one.ours.diagonal))
    told = {
        name: [
            f"{LETTERS[k]} ({a.scope}, l = {b.l})"
            for a, b in pairwise(found)
            if a.scope == b.scope
            for k, (p, q) in enumerate(zip(of(a), of(b), strict=True))
            if q > p + 1e-6
        ]
        for name, of in named
    }
    return (
        "Single parameters need not fall as l grows. These rise: "
        + "; ".join(f"{name} {', '.join(columns) or 'none'}" for name, columns in told.items())
        + "."
    )


def _sensitive_only(table: Joint, l: int) -> Comparison:
    """RR-S, whose parameters are printed in the column W of RR-QI, which leaves W alone."""
    quasi, size, printed = untouched(table.table.sizes[:-1]), table.table.sizes[-1], PRINTED["RR-QI"][l][-1]
    least, there = (
        float(Reconstruction(table.table, (*quasi, Channel.from_diagonal(size, p))).values.max())
        for p in (1 / size, max(1 / size, float(printed)))
    )
    return sentence(
        f"RR-S, l = {l}, W (printed in the column W of RR-QI)",
        f"{printed} keeps 1/{l}",
        f"the risk is {there:.3f} at it, and {least:.3f} at the least",
        there <= 1 / l,
        because=f"{len(table.table.single_valued):,} groups have a single sensitive value: their risk is 1 at any p",
    )


def _not_a_bound(setting: Setting, table: Joint) -> Comparison:
    """What an attacker infers from the rows; how many are guessed right says little here, as most have one value."""
    ours = solved(setting.data, EMGRW, Fraction(1, 2), "reconstruction", True)
    assert ours is not None
    guessed = Randomized.drawn(table.table, ours.channels, generator(setting.seed, 3)).guessed()
    success = max(guess.success for guess in guessed)
    link, posterior = (float(risk(table.table, ours.channels).values.max()) for risk in (Link, Posterior))
    return sentence(
        "what an attacker can infer at l = 2",
        "no one's value with a probability above 1/2",
        f"who links by the released columns and takes the row's value is right with up to {link:.3f}; beliefs about a "
        f"row are up to {posterior:.3f}. Of all people a guesser has {success:.3f} right from one "
        f"release, {constant_success(table.counts):.3f} without any (the most frequent value), and "
        f"{limit_success(table.table):.3f} from the table itself. All are ours; the paper measures none",
        link <= 1 / 2,
        proved=_proved(table),
        because=(
            "Eq. (6) counts a success only if the row is linked right and its value drawn right from the posterior; "
            f"it is {ours.risk:.3f} here"
        ),
    )


def _listed(costs: Iterable[float]) -> str:
    return ", ".join(f"{x:.2f}" for x in costs)


def _proved(table: Joint) -> str:
    try:
        return f"kappa {solve(pose(table.table, Fraction(1, 2), risk='posterior')).kappa:.2f}"
    except RiskOutOfReach as problem:
        return f"cannot be had: one value has {problem.least:.1%} of the records"


EXPERIMENT = Experiment("ad-table3", "AD", "Tables 2-3", "Parameters of least cost on EMGRW", run)
