"""SDR Figs. 2 and 3, on the balanced table OCC."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.methods.small_domain.partition import partition
from sfumato.values.randomness import SecretKey, simulation
from sfumato_papers.charts import Chart, Point
from sfumato_papers.experiment import Comparison, Outcome, Setting, sentence
from sfumato_papers.sdr.census import OCC, Census, Floats, stands_in
from sfumato_papers.sdr.deals import by_buckets, in_one_order
from sfumato_papers.sdr.errors import (
    OWN_DEAL,
    READINGS,
    by_size,
    less,
    methods,
    outcome,
    risk_note,
    size_note,
    the_table,
)
from sfumato_papers.sdr.measured import (
    ANA,
    PP,
    PROVED,
    UNBIASED,
    UP,
    Curves,
    Methods,
    first_seed,
    measure,
    percent,
)
from sfumato_papers.sdr.partitions import PARTITIONED_ROW, UNIFORM_ROW
from sfumato_papers.sdr.queries import SELECTIVITIES, Pool
from sfumato_papers.sdr.released import Anatomized, Perturbed
from sfumato_papers.sdr.ties import with_random_ties

SHOWN = 120
"""Queries of each method that are drawn in the picture of Fig. 3."""
HARDLY = 0.1
"""A change by a smaller share is hardly one."""
TIMES = 3
"""A decrease of over 200%: the other error is more than so many times as large."""


# --- Fig. 2 -----------------------------------------------------------------------------------------------------------


def occ_by_level(setting: Setting) -> Outcome:
    """The upper half: L = 6 to 3."""
    table = the_table(OCC, setting)
    made = [methods(table, L) for L in OCC.levels]
    curves = Curves(OCC, "L", OCC.levels, measure(table, made, setting))
    because = stands_in(table.about)
    comparisons = (
        less(curves, PP, UP, because),
        less(curves, PP, ANA, because),
        _benefits(curves, because),
        _hardly_changes(curves, table),
        _by_selectivity(curves, because),
        _over_200_percent(curves, made, table, setting),
    )
    notes = (_unbiased_note(curves), risk_note(curves), READINGS[0], _deal_note(curves, table, setting))
    return outcome(curves, comparisons, table.about, setting, notes)


def occ_by_size(setting: Setting) -> Outcome:
    """The lower half: 100,000 to 500,000 records, L = 6."""
    about, curves = by_size(OCC, setting)
    grown = {name: curves.mean(name)[0, 0] / curves.mean(name)[-1, 0] for name in (PP, ANA)}
    smallest = Census.of(setting.data.census(max(curves.places)), OCC, curves.places[0])
    tied = _expected_with_ties(smallest, OCC.levels[0], Pool.drawn(smallest, first_seed(setting)), setting.seed)[:, 0]
    reason = (
        f"from {curves.places[-1]:,} to {curves.places[0]:,} records PP's error grows by a factor of {grown[PP]:.2f}, "
        f"Ana's of {grown[ANA]:.2f}; with other ties in the order of PP's groups {percent(tied.min())} to "
        f"{percent(tied.max())} is expected at {curves.places[0]:,}; besides, {stands_in(about)}"
    )
    comparisons = (less(curves, PP, UP, stands_in(about)), less(curves, PP, ANA, reason))
    return outcome(curves, comparisons, about, setting, (size_note(curves), _unbiased_note(curves), *READINGS))


def _range(shares: Floats, how: str = ".0%") -> str:
    """Return the least and the largest share, once if they look the same.

    >>> _range(np.array([0.4, 0.401])), _range(np.array([-0.02, 0.01]), "+.0%")
    ('40%', '-2% to +1%')
    """
    return " to ".join(dict.fromkeys(format(share, how) for share in (shares.min(), shares.max())))


def _benefits(curves: Curves, because: str) -> Comparison:
    falls = 1 - curves.mean(PP)[-1] / curves.mean(PP)[0]
    return sentence(
        "PP and a weaker requirement",
        "its error falls as L does, at every step",
        f"from L = {curves.places[0]} to {curves.places[-1]} it falls by {_range(falls)}",
        bool((np.diff(curves.mean(PP), axis=0) < 0).all()),
        because=because,
        noise=curves.noise,
    )


def _hardly_changes(curves: Curves, table: Census) -> Comparison:
    """Ana's estimate keeps of contrasts between values the eigenvalues of its matrix, whose trace is m/L."""
    changes = curves.mean(ANA) / curves.mean(ANA)[0] - 1
    first, last = (1 - (table.values / L - 1) / (table.values - 1) for L in (curves.places[0], curves.places[-1]))
    return sentence(
        "Ana and a weaker requirement",
        f"its error hardly changes, read as: by less than {HARDLY:.0%} either way at every L and selectivity",
        f"from L = {curves.places[0]} to {curves.places[-1]} by {_range(changes[-1], '+.0%')}",
        bool((np.abs(changes) < HARDLY).all()),
        because=(
            f"what its estimate leaves out of the contrasts between values is on average 1 - (m/L - 1)/(m - 1): "
            f"{first:.2f} at L = {curves.places[0]} and {last:.2f} at {curves.places[-1]}, {last / first - 1:+.0%}"
        ),
        noise=curves.noise,
    )


def _by_selectivity(curves: Curves, because: str) -> Comparison:
    narrowed = [1 - errors[:, -1] / errors[:, 0] for errors in (curves.mean(PP), curves.mean(ANA))]
    falls = bool((np.diff(curves.mean(PP), axis=1) < 0).all())
    return sentence(
        "a larger selectivity",
        "PP's error falls at every step; less clearly Ana's, read as: by a smaller share at every L",
        f"from s = {SELECTIVITIES[0]:.1%} to {SELECTIVITIES[-1]:.1%} PP's falls by {_range(narrowed[0])}, "
        f"Ana's by {_range(narrowed[1])}",
        falls and bool((narrowed[0] > narrowed[1]).all()),
        because=because,
        noise=curves.noise,
    )


def _over_200_percent(curves: Curves, made: Sequence[Methods], table: Census, setting: Setting) -> Comparison:
    """Section 7."""
    ratio, proved = (curves.mean(UP) / curves.mean(name) for name in (PP, PROVED))
    many = f"more than {TIMES} times at {int((ratio > TIMES).sum())} of {ratio.size} points"
    return sentence(
        "section 7: PP's error against UP's",
        f"a decrease of over 200%, read as: UP's is more than {TIMES} times PP's everywhere",
        f"UP's is {ratio.min():.1f} to {ratio.max():.1f} times PP's",
        bool(ratio.min() > TIMES),
        proved=f"{proved.min():.1f} to {proved.max():.1f} times",
        because=f"{many}, more than twice at {int((ratio > 2).sum())}; {_what_is_expected(made, table, setting)}",
        noise=curves.noise,
    )


def _what_is_expected(made: Sequence[Methods], table: Census, setting: Setting) -> str:
    """Return how much more PP retains than UP, and how many times its error UP's is expected to be."""
    pool = Pool.drawn(table, first_seed(setting))
    ours, others = (np.array([_expected(one[name], table, pool) for one in made]) for name in (PP, UP))
    tied = np.array([_expected_with_ties(table, L, pool, setting.seed) for L in OCC.levels])
    due, with_ties = others / ours, others[:, np.newaxis] / tied  # [levels, selectivities], [levels, orders, ..]
    everywhere = int((with_ties > TIMES).all(axis=(0, 2)).sum())
    retained = [_retention_ratio(table, L) for L in OCC.levels]
    printed = [float(PARTITIONED_ROW[L]) / float(UNIFORM_ROW[L]) for L in OCC.levels]
    return (
        f"PP's mean p is {min(retained):.1f} to {max(retained):.1f} times UP's (by the printed Table 2 "
        f"{min(printed):.1f} to {max(printed):.1f}), and by the variances of the matrices UP's error is expected to be "
        f"{due.min():.1f} to {due.max():.1f} times PP's; with other ties in the order of PP's groups "
        f"{with_ties.min():.1f} to {with_ties.max():.1f} times, more than {TIMES} everywhere with {everywhere} of "
        f"{tied.shape[1]} orders"
    )


def _expected(one: Perturbed | Anatomized, table: Census, pool: Pool) -> Floats:
    assert isinstance(one, Perturbed)
    return pool.errors(pool.true + one.expected_errors(table, pool))


def _expected_with_ties(table: Census, L: int, pool: Pool, seed: int) -> Floats:
    """Return the errors that are expected of PP where ties are broken at random, [orders, selectivities]."""
    return np.array([_expected(Perturbed(blocks), table, pool) for blocks in with_random_ties(table, L, seed)])


def _retention_ratio(table: Census, L: int) -> float:
    found = partition(table.counts, table.kind.rho1, Fraction(1, L), assurance="as-published")
    return found.mean_retention / found.whole.retention


def _unbiased_note(curves: Curves) -> str:
    """What the paper did not try: Anatomy's groups tell more than its estimate takes from them."""
    told = "Ana's estimate (SDR 10.10) takes value and condition as independent inside a group."
    if UNBIASED not in curves.names:
        return f"{told} The groups do not tell all values apart, so no other estimate is compared."
    better = not curves.exceptions(UNBIASED, PP)
    return (
        f"{told} Least squares on the same groups does not: {curves.shown(UNBIASED)}, "
        f"{'less' if better else 'not less'} than PP everywhere."
    )


def _deal_note(curves: Curves, table: Census, setting: Setting) -> str:
    """How Ana's error depends on the deal, at the first L and at the last, in one release."""
    seed = first_seed(setting)
    pool, key = Pool.drawn(table, seed), SecretKey.from_seed(seed)
    more: dict[str, list[Floats]] = {"buckets": [], "one order": []}
    beaten = True
    for k in (0, -1):
        L = OCC.levels[k]
        ana = Anatomized.of(table, L)
        kept = table.counts - ana.withheld
        deals = {"buckets": by_buckets(kept, L, simulation(seed)), "one order": in_one_order(kept, ana.groups)}
        ours = pool.errors(ana.answers(table, pool, key).classical)
        for name, places in deals.items():
            errors = pool.errors(ana.answers_of(places, table, pool, key).classical)
            more[name].append(errors / ours - 1)
            beaten = beaten and bool((curves.mean(PP)[k] < errors).all())
    change = {name: f"by {_range(np.array(found), '+.0%')}" for name, found in more.items()}
    return (
        f"{OWN_DEAL}. By the L fullest buckets, as Anatomy's authors have it, its error changes {change['buckets']}, "
        f"dealt in one order of the values {change['one order']} (one release, L = {OCC.levels[0]} and "
        f"{OCC.levels[-1]}); PP's is {'smaller than with either' if beaten else 'not smaller than with both'}."
    )


# --- Fig. 3 -----------------------------------------------------------------------------------------------------------


def estimates(setting: Setting) -> Outcome:
    """Estimated beside actual answers, L = 6, s = 0.1%."""
    table = the_table(OCC, setting)
    pool, key = Pool.drawn(table, setting.seed), SecretKey.from_seed(setting.seed)
    asked = pool.asked(SELECTIVITIES[0])
    actual, answers = pool.true[asked], {}
    for name, one in methods(table, OCC.levels[0]).items():
        found = one.answers(table, pool, key)
        answers[name] = (found if isinstance(found, np.ndarray) else found.classical)[asked]
    distance = {name: float(np.sqrt(((given - actual) ** 2).mean())) for name, given in answers.items()}
    nearest = sorted((PP, UP, ANA), key=lambda name: distance[name])
    comparison = sentence(
        "points near the diagonal",
        "PP's are the nearest",
        "root of the mean square distance: " + ", ".join(f"{name} {distance[name]:,.0f}" for name in (PP, UP, ANA)),
        nearest[0] == PP,
        proved=f"{distance[PROVED]:,.0f}",
        because=stands_in(table.about),
        noise=f"one release, {actual.size:,} queries",
    )
    ascending = np.argsort(actual, kind="stable")
    evenly = np.searchsorted(actual[ascending], np.linspace(actual.min(), actual.max(), SHOWN))
    order = ascending[np.unique(evenly)]
    points = [Point("no error", float(x), float(x)) for x in actual[order]]
    points += [Point(n, float(actual[k]), float(answers[n][k])) for n in (PP, UP, ANA) for k in order]
    alt = (
        "Estimated over actual answers, with the diagonal. From the nearest to it to the furthest: "
        f"{', '.join(f'{name} by {distance[name]:,.0f}' for name in nearest)} in the root of the mean square."
    )
    rows = tuple(
        {"actual": int(actual[k]), **{name: round(float(given[k]), 1) for name, given in answers.items()}}
        for k in ascending
    )
    chart = Chart(alt, "actual answer", "estimated answer", tuple(points), lines=False)
    notes = (f"The picture has {order.size} of {actual.size:,} queries, evenly by the actual answer.", *READINGS)
    return Outcome((comparison,), rows, chart, table.about, notes=notes)
