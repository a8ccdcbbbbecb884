"""The guesser: who estimates the table from the release, with the published matrices, and guesses from that.

Of a person whose true quasi-identifiers a are known, the guess is argmax_u pi_hat(a, u), with pi_hat the joint table
that iterative Bayes estimates from the release. No limit on a risk holds this attacker, so that what it achieves is
measured: exactly on the release at hand, and over releases that are drawn anew with the same matrices. See
docs/methods/proofs/randomized-response.md, "Counter-examples".

    of a person     the share of releases, drawn anew, in which the person is guessed right: one of them says little,
                    for in one release a person is guessed right or not
    of a release    the share of people who are guessed right in it; its mean over releases is that of persons' shares

When to stop iterative Bayes is the attacker's choice, and matters: after many steps it fits the noise. Each figure is
that of the one of `STOPS` that guesses most people right. The attacker cannot see which one that is, but a measured
risk must not rest on a bad choice. Whatever they do, they are right about no more people than someone who knows the
true table (`knowing`), the best guesser; and whoever guesses for all the most frequent value is beside it (`constant`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sfumato.analyst.release import Release
from sfumato.auditor.evidence import Evidence, another_table
from sfumato.errors import UsageError
from sfumato.methods.response.guessing import guesses, limit_success
from sfumato.methods.response.joint import Channels, JointTable
from sfumato.methods.response.request import Axes
from sfumato.publisher.table import Table, profile
from sfumato.release.folder import connected, quoted
from sfumato.values.arrays import CodeArray, FloatArray, IntArray
from sfumato.values.attributes import Domain, label
from sfumato.values.profile import Profile
from sfumato.values.randomness import simulation

STOPS = (1, 3, 10, 30, 100)
"""Steps after which iterative Bayes may stop. On Adult one guesses best where most people have one value (work class),
and 1 to 30 where they have not (occupation), fewer the more noise there is."""


@dataclass(frozen=True)
class Guesses:
    people: int
    right: int  # the most over STOPS
    steps: int  # the one of STOPS that has it, the first of several
    constant: int  # people that one is right about who guesses for all what the estimate holds to be most frequent
    knowing: float  # success of the best guesser, who knows the true table: the limit for many records, never exceeded

    @property
    def success(self) -> float:
        return self.right / self.people


@dataclass(frozen=True)
class RepeatedGuesses:
    """The same over many releases, drawn anew; `level` is the confidence of the limits, of the first roughly.

    The limits hold for every one of STOPS at once, and so for the one that was taken.
    """

    people: int
    repetitions: int
    level: float
    steps: int  # the one of STOPS whose success is the largest, the first of several: all other figures are of it
    at_stops: tuple[float, ...]  # the success at each of STOPS
    success: float  # the share of people guessed right, the mean over the releases
    success_limits: tuple[float, float]  # of its expectation, by Student's t: approximate, for few releases too narrow
    above: float  # the share of people guessed right in more of the releases than the limit on their risk
    above_limits: tuple[float, float]  # of the share guessed right more often in the long run, all at once
    worst: float  # the largest share of releases in which a person is guessed right
    worst_limits: tuple[float, float]  # of the same in the long run
    chances: FloatArray = field(compare=False)  # [group, value]: that share of the people with these values


def guess_once(attacked: Attacked) -> Guesses:
    """Return how often the guesser is right about the people of a release.

    The estimate is by iterative Bayes, stopped after so many steps of STOPS as guess most people right.
    """
    truth, released = attacked.axes.table, attacked.released
    tried = zip(STOPS, guesses(truth, attacked.channels, released, STOPS), strict=True)
    steps, found = max(tried, key=lambda pair: pair[1].success)
    overall = found.estimate.reshape(-1, truth.sizes[-1]).sum(axis=0).argmax()
    return Guesses(
        people=truth.records,
        right=int(truth.counts[np.arange(len(found.values)), found.values].sum()),
        steps=steps,
        constant=int(truth.counts[:, overall].sum()),
        knowing=limit_success(truth),
    )


def repeated_guesses(
    table: JointTable,
    channels: Channels,
    limits: FloatArray | float,
    *,
    repetitions: int = 100,
    seed: int | None = None,
    level: float = 0.95,
) -> RepeatedGuesses:
    """Return how often the guesser is right over releases that are drawn anew; `limits` broadcasts to [groups, d_s].

    The attacker stops iterative Bayes after the same number of steps each time, of STOPS that with the most successes.
    People with the same values are guessed alike. Of each such cell the number of releases in which it is guessed right
    is binomial; the limits of `above` count cells whose (Clopper and Pearson's) limit is above the limit of the risk,
    with the confidence shared among all cells. So the largest of these limits are those of the largest probability.
    All limits share it among STOPS too, since of these the one with the largest success is taken.
    """
    if repetitions < 2 or not 0 < level < 1:
        raise UsageError(
            "Guessing repeatedly takes two repetitions at least, and a level between 0 and 1.", "20 and 0.95 are usual."
        )
    rng = simulation(seed)
    cells = np.zeros((len(STOPS), *table.counts.shape), dtype=np.int64)  # in how many releases each is guessed
    successes = np.empty((len(STOPS), repetitions))
    for number in range(repetitions):
        for k, found in enumerate(guesses(table, channels, drawn(table, channels, rng), STOPS)):
            cells[k, np.arange(len(table.counts)), found.values] += 1
            successes[k, number] = found.success
    taken, error = int(successes.mean(axis=1).argmax()), (1 - level) / len(STOPS)
    held, hits = table.counts > 0, cells[taken]
    shares = (hits / repetitions, *_binomial_limits(hits, repetitions, error / int(held.sum())))
    above, at_least, at_most = (float(table.counts[share > limits].sum() / table.records) for share in shares)
    worst, worst_low, worst_high = (float(share[held].max()) for share in shares)
    return RepeatedGuesses(
        people=table.records,
        repetitions=repetitions,
        level=level,
        steps=STOPS[taken],
        at_stops=tuple(successes.mean(axis=1).tolist()),
        success=float(successes[taken].mean()),
        success_limits=_mean_limits(successes[taken], 1 - error),
        above=above,
        above_limits=(at_least, at_most),
        worst=worst,
        worst_limits=(worst_low, worst_high),
        chances=shares[0],
    )


def drawn(table: JointTable, channels: Channels, rng: np.random.Generator) -> FloatArray:
    """Return the counts of a release: on each axis a record keeps its value, or draws one of all, P = r I + q J."""
    counts = table.array.astype(np.int64)
    for axis, channel in enumerate(channels):
        if channel.off_diagonal > 0:
            kept = rng.binomial(counts, channel.retention)
            anew = rng.multinomial((counts - kept).sum(axis=axis), [1 / channel.size] * channel.size)
            counts = kept + np.moveaxis(anew, -1, axis)
    return counts.astype(np.float64)


def _binomial_limits(hits: IntArray, trials: int, error: float) -> tuple[FloatArray, FloatArray]:
    """Return Clopper and Pearson's limits of the probability; each is wrong with probability error/2 at most."""
    from scipy.special import betaincinv  # half a second that only this needs

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, error / 2), 0.0)
    high = np.where(hits < trials, betaincinv(hits + 1, np.maximum(trials - hits, 1), 1 - error / 2), 1.0)
    return low, high


def _mean_limits(values: FloatArray, level: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = stdtrit(len(values) - 1, (1 + level) / 2) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


# --- a table and its release ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Attacked:
    axes: Axes
    channels: Channels
    released: FloatArray


def attack(table: Table, release: Release, counted: Profile | None = None) -> Attacked:
    """Return both as joint tables; `counted`: the table's profile, if there is one."""
    counted = counted or profile(table)
    randomized = {mechanism.domain.name: mechanism for mechanism in release.manifest.mechanism_values}
    untouched = [name for name in counted.quasi_identifiers if name not in randomized]
    axes, published = (Axes.of(found, untouched) for found in (counted, _published(counted, release)))
    if axes.table.sizes != published.table.sizes:
        raise another_table("It has other combinations of values.")
    if not axes.table.fits(dense=True):
        raise UsageError(
            f"The joint table has {axes.table.evaluated_cells(dense=True):,} cells: too many to be estimated at once.",
            "Ask for fewer columns.",
        )
    return Attacked(axes, axes.sampled(randomized.values()), published.table.array)


def attack_of(evidence: Evidence) -> Attacked:
    """Return the attack on what an audit or a comparison is about."""
    return attack(evidence.table, evidence.release, evidence.counted)


def _published(counted: Profile, release: Release) -> Profile:
    names = ", ".join(quoted(part.name) for part in counted.domain.parts)
    with connected(release) as connection:
        rows = connection.sql(f"SELECT {names}, COUNT(*) FROM release GROUP BY ALL").to_arrow_table()
    *columns, numbers = (column.to_pylist() for column in rows.columns)
    codes = [_codes(part, values) for part, values in zip(counted.domain.parts, columns, strict=True)]
    return replace(counted, cells=np.column_stack(codes), numbers=np.array(numbers, dtype=np.int64))


def _codes(part: Domain, values: list[Any]) -> CodeArray:
    """Return the codes of published values; those of the table may be of another type, but are written alike."""
    known: dict[Any, int] = {**{text: code for code, text in enumerate(part.labels)}, **part.index}
    try:
        return np.array([known[v] if v in known else known[label(v)] for v in values], dtype=np.int32)
    except KeyError:
        raise another_table(f"{part.name!r} has a value that the table does not have.") from None
