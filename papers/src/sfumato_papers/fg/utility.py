"""FG section V: the tables of Fig. 4, and the utility of uniform and fine-grain perturbation on them in Fig. 5."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, sentence
from sfumato_papers.fg.curves import (
    BEYOND_NOISE,
    EQUAL_RISK,
    GIVEN_UP,
    PROVED,
    PUBLISHED,
    UNIFORM,
    Curves,
    Measured,
    is_above,
    measured_curves,
)
from sfumato_papers.fg.tables import VALUES, Floats, reactions, zipf

REACTION_THETAS = (2, 3, 4, 5, 6, 7, 8)
ZIPF_THETAS = (4, 6, 8, 10, 15, 20, 25, 30)
LEAST_GAIN, LARGEST_GAIN = 0.075, 0.225
"""What "about 10% to 20%" is taken to be."""
ALMOST = 0.1
"""Of what lies between a guess of equal shares and 1: aggregate utilities that are nearer are almost the same."""
CORRELATED = 0.5
RARE = VALUES // 2
"""The less frequent half of the values."""
SAME = 1e-9
"""Record utilities that are nearer are the same: equal risk is reached by bisection."""


# --- Fig. 4 -----------------------------------------------------------------------------------------------------------


def distributions(setting: Setting) -> Outcome:
    """The frequencies of both tables, the most frequent value first."""
    tables = {"drug reactions": reactions(setting), "Zipf": zipf()}
    real, law = tables["drug reactions"], tables["Zipf"]
    points = [Point(name, k + 1, float(f)) for name, table in tables.items() for k, f in enumerate(table.shares)]
    comparison = sentence(
        "Zipf is more skewed than the reactions",
        "it is, read as: a larger largest share, and further from equal shares",
        f"largest share {law.shares[0]:.1%} and {real.shares[0]:.1%}; distance from equal shares "
        f"{law.distance_from_even:.3f} and {real.distance_from_even:.3f}",
        law.shares[0] > real.shares[0] and law.distance_from_even > real.distance_from_even,
        because=f"{real.about}; whether that is why cannot be tested",
    )
    falls = [f"{name} from {table.shares[0]:.1%} to {table.shares[-1]:.2%}" for name, table in tables.items()]
    alt = f"Shares of {VALUES} values by rank: {'; '.join(falls)}."
    chart = Chart(alt, "rank of the value", "share of the records", tuple(points))
    rows = tuple({"table": p.series, "rank": p.x, "share": round(p.y, 6)} for p in points)
    return Outcome((comparison,), rows, chart, f"{real.about}; {law.about}")


# --- Fig. 5 -----------------------------------------------------------------------------------------------------------


def on_reactions(setting: Setting) -> Outcome:
    """Fig. 5 (a)."""
    curves = measured_curves(reactions(setting), REACTION_THETAS, setting)
    comparisons = (
        _better_records(curves),
        _gain(curves),
        _almost_the_same(curves),
        *_growing(curves),
        _harder_to_retain(curves),
        _better_record_better_aggregate(curves),
        _correlated(curves, True),
        _at_equal_risk(curves),
    )
    last = {name: curves.of(name)[-1].variation for name in (PUBLISHED, UNIFORM)}
    notes = (
        f"Aggregate utility divides by the {VALUES} values and hides much: at theta = {curves.thetas[-1]} the total "
        f"variation is {last[PUBLISHED]:.3f} with fine-grain as published and {last[UNIFORM]:.3f} with uniform.",
        *_notes(curves),
    )
    points = _points(curves, lambda one: Point(one.name, one.theta, one.record))
    ends = "; ".join(f"{name} {curves.shown(curves.record(name))}" for name in _names())
    chart = Chart(f"Record utility by theta: {ends}.", "theta", "record utility", points)
    return _outcome(curves, comparisons, chart, notes)


def on_zipf(setting: Setting) -> Outcome:
    """Fig. 5 (b)."""
    curves = measured_curves(zipf(), ZIPF_THETAS, setting)
    ours, others = curves.aggregate(PUBLISHED), curves.aggregate(UNIFORM)
    below = [one for one in curves.of(PUBLISHED) if one.mean < curves.guess]
    comparisons = (
        _better_records(curves),
        *_growing(curves),
        sentence(
            "aggregate utility of fine-grain",
            "lower than that of uniform",
            f"lower by {(others - ours).min():.4f} to {(others - ours).max():.4f}",
            bool((ours < others).all()),
            proved=f"{curves.shown(curves.aggregate(PROVED), 4)}",
            noise=curves.noise,
        ),
        _from_rare_values(curves),
        _correlated(curves, False),
        _at_equal_risk(curves),
    )
    notes = (
        f"Whoever guesses equal shares without looking at the release has aggregate utility {curves.guess:.3f}: "
        f"fine-grain as published is below that at {len(below)} of {len(curves.thetas)} values of theta.",
        *_notes(curves),
    )
    points = _points(
        curves,
        lambda one: Point(one.name, one.theta, 1 - one.mean, *(1 - one.mean + s * 2 * one.error for s in (-1, 1))),
    )
    ends = "; ".join(_lacking(curves, name) for name in _names())
    alt = f"What aggregate utility lacks of 1, by theta, on a logarithmic axis: {ends}."
    chart = Chart(alt, "theta", "1 - aggregate utility", points, logarithmic=True)
    return _outcome(curves, comparisons, chart, notes)


def _lacking(curves: Curves, name: str) -> str:
    """Return what a curve lacks of 1 at its ends, and at most if that is elsewhere."""
    lacking = 1 - curves.aggregate(name)
    worst = int(lacking.argmax())
    most = "" if worst in (0, lacking.size - 1) else f", {lacking[worst]:.4f} at {curves.thetas[worst]}"
    return f"{name} {curves.shown(lacking, 4)}{most}"


# --- what both figures are said to show -------------------------------------------------------------------------------


def _better_records(curves: Curves) -> Comparison:
    return sentence(
        "record utility of fine-grain",
        "better than that of uniform at every theta",
        f"{curves.shown(curves.record(PUBLISHED))}; uniform {curves.shown(curves.record(UNIFORM))}",
        bool((curves.record(PUBLISHED) > curves.record(UNIFORM)).all()),
        proved=curves.shown(curves.record(PROVED)),
    )


def _growing(curves: Curves) -> tuple[Comparison, ...]:
    """Both utilities of both methods grow with theta."""
    found = []
    for name in (UNIFORM, PUBLISHED):
        record, aggregate = curves.record(name), curves.aggregate(name)
        falls = curves.falls(name)
        found.append(
            sentence(
                f"record utility of {name}",
                "improves with theta",
                curves.shown(record),
                bool((np.diff(record) > 0).all()),
            )
        )
        found.append(
            sentence(
                f"aggregate utility of {name}",
                "improves with theta",
                f"{curves.shown(aggregate, 4)}{'; falls from theta = ' + ', '.join(falls) if falls else ''}",
                not falls and curves.rises(name),
                because=_retained_less(curves, name),
                noise=curves.noise,
            )
        )
    return tuple(found)


def _retained_less(curves: Curves, name: str) -> str:
    """Return why aggregate utility falls: what is best for the records may retain the values less."""
    falls = [(one, other) for one, other in pairwise(curves.of(name)) if is_above(one, other)]
    means = [[float(each.retention.mean()) for each in pair] for pair in falls]
    if not falls or any(after >= before for before, after in means):
        return "the reason was not looked for: values are not retained less there"
    told = ", ".join(f"from {before:.1%} to {after:.1%}" for before, after in means)
    return (
        "the optimum is one of records, not of values: where it falls, the mean retention of the "
        f"{VALUES} values falls, too, {told}"
    )


def _at_equal_risk(curves: Curves) -> Comparison:
    """Uniform is allowed the measured risk of fine-grain as published."""
    ours, others = curves.record(PUBLISHED), curves.record(EQUAL_RISK)
    better, worse = int((ours > others + SAME).sum()), int((ours < others - SAME).sum())
    aggregate = int((curves.aggregate(PUBLISHED) > curves.aggregate(EQUAL_RISK)).sum())
    risks = [curves.of(name)[-1].risk for name in (UNIFORM, PUBLISHED)]
    return sentence(
        "the same at equal measured risk",
        "record utility of fine-grain is better (the paper compares at equal requirement)",
        f"better at {better} of {len(curves.thetas)} values of theta: {curves.shown(ours)}; uniform "
        f"{curves.shown(others)}; its aggregate utility is better at {aggregate}",
        better == len(curves.thetas),
        because=(
            "the requirement is the same, but not the risk: the best guess is right for "
            f"{risks[1]:.1%} of the records with fine-grain as published and {risks[0]:.1%} with uniform at theta = "
            f"{curves.thetas[-1]}; where uniform is allowed as much risk, it retains more at {worse} values of theta"
        ),
    )


def _correlated(curves: Curves, is_balanced: bool) -> Comparison:
    """Section V.C: record and aggregate utility go together on the balanced table, and not on the skewed one."""
    found = curves.rank_correlation()
    return sentence(
        "correlation of record and aggregate utility",
        f"{'there is one on balanced' if is_balanced else 'there is none on skewed'} tables, read as: a rank "
        f"correlation {'above' if is_balanced else 'below'} {CORRELATED} over both methods and all thetas",
        f"{found:.2f}",
        (found > CORRELATED) == is_balanced,
        because=_correlation_of_each(curves),
        noise=curves.noise,
    )


def _correlation_of_each(curves: Curves) -> str:
    each = {name: curves.rank_correlation(name) for name in (UNIFORM, PUBLISHED)}
    return "both grow with theta: by itself " + " and ".join(f"{name} has {found:.2f}" for name, found in each.items())


# --- what Fig. 5 (a) is said to show ----------------------------------------------------------------------------------


def _gain(curves: Curves) -> Comparison:
    """FG reckons its 24% of Example 2 relative to the larger utility: the gain is taken in both ways."""
    gains = curves.gain(PUBLISHED)
    of_larger = gains / (1 + gains)
    within = [(g >= LEAST_GAIN) & (g <= LARGEST_GAIN) for g in (gains, of_larger)]
    proved = curves.gain(PROVED)
    return sentence(
        "gain in record utility",
        f"about 10% to 20%, read as: {LEAST_GAIN:.1%} to {LARGEST_GAIN:.1%} at every theta",
        f"{_range(gains)}; of the larger utility, as in Example 2, {_range(of_larger)}",
        any(bool(one.all()) for one in within),
        proved=_range(proved),
        because=(
            f"it is {_range(gains)}, and so only at {curves.at(within[0])} ({curves.at(within[1])} if taken of the "
            "larger utility); the thetas of the figure are lost, and the table is another one "
            f"({curves.table.about.split(';')[0]}): which of the two is why cannot be tested"
        ),
        noise=f"thetas as chosen here; {curves.table.about.split(';')[0]}",
    )


def _range(figures: Floats) -> str:
    return f"{figures.min():.0%} to {figures.max():.0%}"


def _almost_the_same(curves: Curves) -> Comparison:
    apart = np.abs(curves.aggregate_gains()[0])
    almost = ALMOST * (1 - curves.guess)
    return sentence(
        "aggregate utility of both",
        f"almost the same, read as: within {ALMOST:.0%} of what lies between a guess of equal shares and 1",
        f"they differ by {apart.max():.4f} at most; a guess of equal shares has {curves.guess:.4f}, so {almost:.4f} is "
        "allowed",
        bool((apart < almost).all()),
        because=f"more at {curves.at(apart >= almost)}",
        noise=curves.noise,
    )


def _harder_to_retain(curves: Curves) -> Comparison:
    """Aggregate utility divides by the number of values: one minus the total variation is on the scale of records."""
    record, aggregate = curves.record(PUBLISHED), curves.aggregate(PUBLISHED)
    undivided = np.array([1 - one.variation for one in curves.of(PUBLISHED)])
    return sentence(
        "record utility is harder to retain than aggregate utility",
        "it is the lower one, read as: also where errors are not divided by the number of values",
        f"fine-grain: {record.max():.3f} at most, and {aggregate.min():.3f} at least; undivided (1 - total variation) "
        f"{undivided.min():.3f} at least",
        bool((record < undivided).all() and (record < aggregate).all()),
        because=f"not undivided at {curves.at(record >= undivided)}",
        noise=curves.noise,
    )


def _better_record_better_aggregate(curves: Curves) -> Comparison:
    gains, errors = curves.aggregate_gains()
    better, worse = gains > BEYOND_NOISE * errors, gains < -BEYOND_NOISE * errors
    largest = int(gains.argmin())
    return sentence(
        "a better record utility gives a better aggregate utility",
        "it does, read as: at the same theta fine-grain has the better one of both",
        f"its aggregate utility is better at {curves.at(better)}, worse at {curves.at(worse)}; else within noise",
        bool(better.any() and not worse.any()),
        because=(
            f"at theta = {curves.thetas[largest]} it is lower by {-gains[largest]:.4f}, with a standard error of "
            f"{errors[largest]:.4f}, although the record utility is higher by {curves.gain(PUBLISHED)[largest]:.0%}"
        ),
        noise=f"{curves.noise}; differences of more than {BEYOND_NOISE} standard errors count",
    )


# --- what Fig. 5 (b) is said to show ----------------------------------------------------------------------------------


def _from_rare_values(curves: Curves) -> Comparison:
    """Section V.C: aggregate utility is lower because values of low frequency are distorted more."""
    pairs = zip(curves.of(PUBLISHED), curves.of(UNIFORM), strict=True)
    more = np.array([ours.errors - other.errors for ours, other in pairs])
    rare = more[:, RARE:].sum(axis=1) / more.sum(axis=1)
    least = curves.of(PUBLISHED)[int(rare.argmin())]
    given_up = least.retention < GIVEN_UP
    return sentence(
        "why it is lower",
        f"values of low frequency are distorted, read as: most of what the error grows by is in the rarest {RARE}",
        f"{rare.min():.0%} to {rare.max():.0%} of it; most at {curves.at(rare > 1 / 2)}",
        bool((rare > 1 / 2).all()),
        because=(
            f"frequent values are distorted, too: at theta = {least.theta} {int(given_up.sum())} of {VALUES} values "
            f"are retained with less than {GIVEN_UP:.0%}, among them {int(given_up[:RARE].sum())} of the {RARE} most "
            "frequent"
        ),
        noise=curves.noise,
    )


# --- what every figure has --------------------------------------------------------------------------------------------


def _notes(curves: Curves) -> tuple[str, ...]:
    downward, proved = ([one.downward for one in curves.of(name)] for name in (PUBLISHED, PROVED))
    return (
        f"The values of theta in the figure are lost; here they are {', '.join(map(str, curves.thetas))}.",
        "That fine-grain has no lower record utility than uniform cannot be otherwise: the uniform matrix meets its "
        "conditions, too.",
        f"With fine-grain as published the posterior of {min(downward)} to {max(downward)} of the {VALUES} values can "
        f"fall below rho1, which Theorem 1 excludes; with the proved one of {max(proved)}.",
    )


def _names() -> tuple[str, ...]:
    return (UNIFORM, PUBLISHED, PROVED, EQUAL_RISK)


def _points(curves: Curves, point: Callable[[Measured], Point]) -> tuple[Point, ...]:
    return tuple(point(one) for name in _names() for one in curves.of(name))


def _outcome(curves: Curves, comparisons: tuple[Comparison, ...], chart: Chart, notes: tuple[str, ...]) -> Outcome:
    rows = tuple(one.row() for one in curves.measured)
    return Outcome(comparisons, rows, chart, curves.table.about, curves.instances, notes)
