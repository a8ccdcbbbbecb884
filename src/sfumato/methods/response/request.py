"""What is asked of randomized response in a policy's words, on a profile's joint table; and its answer.

A quasi-identifier that may be randomized has an axis of its own. All others share one axis, with the combinations that
occur: they are published as they are, so that nothing is released with any other combination. So a domain is as large
as what may be randomized makes it, and fixing a quasi-identifier makes it smaller.

The parameters that are published are next to the best, on the coarse grid of `sfumato.values.matrix.grid`: `settled`.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from sfumato.errors import Infeasible
from sfumato.methods.response.joint import Channel, Channels, JointTable
from sfumato.methods.response.options import ResponseOptions
from sfumato.methods.response.problem import Kappa, Limit, Problem, Response, pose
from sfumato.methods.response.reach import out_of_reach
from sfumato.methods.response.risks import RISKS, Risk
from sfumato.methods.response.solver import solve
from sfumato.values.arrays import BoolArray, FloatArray, IntArray
from sfumato.values.attributes import Domain, SensitiveDomain, Value
from sfumato.values.matrix.grid import next_down, next_up, noise_of, rounded_down
from sfumato.values.mechanism import Mechanism
from sfumato.values.profile import Profile
from sfumato.values.requirement import RiskLimit, exact, find_value

HALF = 0.5  # any limit, where only matters whom it holds

MOST_TRIES = 64
"""Points of the grid that are tried for each randomized attribute, in search of one that keeps the limits."""

Levels = tuple[Fraction | None, ...]  # the retention of each attribute, on the grid; None: untouched


@dataclass(frozen=True, eq=False)
class Axes:
    """Which quasi-identifiers have an axis of their own, by number, and which share one."""

    profile: Profile
    own: tuple[int, ...]
    shared: tuple[int, ...]

    @classmethod
    def of(cls, profile: Profile, untouched: Collection[str] = ()) -> Axes:
        """Return the axes where these quasi-identifiers stay as they are."""
        numbers = range(len(profile.quasi_identifiers))
        shared = tuple(k for k in numbers if profile.quasi_identifiers[k] in untouched)
        return cls(profile, tuple(k for k in numbers if k not in shared), shared)

    @cached_property
    def _together(self) -> tuple[IntArray, IntArray]:
        """The codes of the shared ones that occur together, [combinations, shared]; and which each cell has."""
        combinations, place = np.unique(self.profile.cells[:, list(self.shared)], axis=0, return_inverse=True)
        return combinations.astype(np.int64), place.ravel().astype(np.int64)

    @cached_property
    def table(self) -> JointTable:
        """The joint table: an axis for each of `own`, one for the shared ones, one for all sensitive columns."""
        profile, quasi = self.profile, len(self.profile.quasi_identifiers)
        columns: list[npt.NDArray[np.integer]] = [profile.cells[:, k] for k in self.own]
        sizes = [profile.quasi_domain.sizes[k] for k in self.own]
        if self.shared:
            combinations, place = self._together
            columns.append(place)
            sizes.append(len(combinations))
        columns.append(profile.sensitive_domain.join(profile.cells[:, quasi:].T))
        sizes.append(profile.sensitive_domain.size)
        return JointTable.from_cells(sizes, np.column_stack(columns), profile.numbers)

    def codes(self, codes: IntArray) -> IntArray:
        """Return the codes of each quasi-identifier ([rows, quasi-identifiers]) from those of the axes."""
        whole = np.empty((len(codes), len(self.profile.quasi_identifiers)), dtype=np.int64)
        whole[:, list(self.own)] = codes[:, : len(self.own)]
        if self.shared:
            whole[:, list(self.shared)] = self._together[0][codes[:, len(self.own)]]
        return whole

    def labels(self, cells: IntArray) -> Iterator[tuple[str, ...]]:
        """Yield each cell in words: its quasi-identifiers, then its sensitive value; a code of -1 means any value."""
        parts = self.profile.quasi_domain.parts
        for codes, value in zip(self.codes(cells).tolist(), cells[:, -1].tolist(), strict=True):
            quasi = ("any" if code < 0 else part.labels[code] for part, code in zip(parts, codes, strict=True))
            yield (*quasi, self.profile.sensitive_domain.labels[value])

    def channels(self, of_axes: Channels) -> Channels:
        """Return the channel of each quasi-identifier, and of the sensitive columns, from those of the axes."""
        alone = dict(zip(self.own, of_axes, strict=False))
        sizes = enumerate(self.profile.quasi_domain.sizes)
        return (*(alone.get(k) or Channel(d, 1.0, 0.0) for k, d in sizes), of_axes[-1])

    def sampled(self, mechanisms: Iterable[Mechanism]) -> Channels:
        """Return the channel of each axis, in the integers that are sampled."""
        names = [(self.profile.quasi_identifiers[k],) for k in self.own] + ([()] if self.shared else [])
        noise = {mechanism.domain.names: mechanism.matrix.uniform_noise or 0 for mechanism in mechanisms}
        columns = zip([*names, self.profile.sensitive_domain.names], self.table.sizes, strict=True)
        return tuple(Channel.from_noise(size, noise.get(of_axis, 0)) for of_axis, size in columns)

    def limits(self, limit: RiskLimit) -> FloatArray:
        """Return the limit of each value in each group, [groups, d_s]; or one for all."""
        return np.array([float(number) for number in limit.limits])[self.strictest(limit) if limit.groups else 0]

    def strictest(self, limit: RiskLimit) -> IntArray:
        """Return which of `limit.limits` each value in each group has: [groups, d_s]."""
        which = np.zeros(self.table.counts.shape, dtype=np.int64)
        sensitive, quasi = self.profile.sensitive_domain, self.codes(self.table.groups)
        values = np.column_stack(sensitive.codes)
        loosest_first = sorted(enumerate(limit.groups, 1), key=lambda pair: -exact(pair[1].limit))
        for k, group in loosest_first:
            named = dict(group.where)
            members = (
                chosen_by(self.profile.quasi_domain.parts, quasi, named),
                chosen_by(sensitive.parts, values, named),
            )
            which[np.ix_(*members)] = k
        return which


def chosen_by(parts: Sequence[Domain], rows: npt.NDArray[np.integer], named: dict[str, tuple[Value, ...]]) -> BoolArray:
    """Return which rows of codes have, in each column that is named, one of the named values."""
    chosen = np.ones(len(rows), dtype=np.bool_)
    for part, column in zip(parts, rows.T, strict=True):
        if part.name in named:
            alone = SensitiveDomain((part,))
            chosen &= np.isin(column, [find_value(alone, value) for value in named[part.name]])
    return chosen


@dataclass(frozen=True, eq=False)
class Request:
    """A limit on a risk of a profile's joint table, and what may be randomized for it."""

    axes: Axes
    limit: RiskLimit
    method: ResponseOptions

    @classmethod
    def of(cls, profile: Profile, limit: RiskLimit, method: ResponseOptions) -> Request:
        """Return the request; quasi-identifiers that stay as they are share an axis."""
        untouched = profile.quasi_identifiers if method.scope == "sensitive" else method.fixed
        return cls(Axes.of(profile, untouched), limit, method)

    @property
    def problem(self) -> Problem:
        """The same as mathematics, with the numbers as they are stated."""
        numbers = self.limit.limits
        return self._posed(self.axes.limits(self.limit), numbers) if self.limit.groups else self._posed(numbers[0])

    def _posed(self, limits: Limit, numbers: tuple[Fraction, ...] = ()) -> Problem:
        method, fixed = self.method, [len(self.axes.own)] if self.axes.shared else []
        return pose(self.axes.table, limits, method.limited_risk, method.scope, fixed, method.objective, numbers)

    def answered(self, best: Response | None = None) -> Response:
        """Return what is published, on the grid next to the best parameters; raise `Infeasible` if there is nothing."""
        return settled(self.problem, best or solve(self.problem))

    def held_by(self, number: int) -> BoolArray:
        """Return which cells, [groups, d_s], one of the stated limits holds: also where it is not the strictest."""
        return (self.axes.table.counts > 0) & np.isfinite(self._alone(number).own_limits)

    def largest_held_by(self, number: int, point: Risk) -> float:
        """Return the largest risk that one of the stated limits holds."""
        return float(self._alone(number).ratio(point).max()) * HALF

    def _alone(self, number: int) -> Problem:
        """Return the problem with one half in place of a stated limit, and no others."""
        return self._posed(np.where(self.axes.strictest(self.limit) == number, HALF, 1.0))

    @property
    def fits(self) -> bool:
        """Whether the domain is small enough to be evaluated."""
        try:
            return self.axes.table.fits(RISKS[self.method.limited_risk].dense)
        except Infeasible:  # too large even to be counted
            return False

    @property
    def seconds(self) -> float:
        """About how long an answer takes."""
        return self.axes.table.search_seconds(RISKS[self.method.limited_risk].dense)

    def squared_error(self, found: Response) -> float:
        """E ||pi_hat - pi||^2 of the inverse estimate."""
        return Kappa(self.axes.table).expected_error(found.channels)

    @property
    def uniform_error(self) -> float:
        """||pi - 1/D||^2 over all D combinations: that of one who holds them to be alike, without any release."""
        shares = self.axes.table.counts / self.axes.table.records
        return float((shares**2).sum()) - 1 / self.axes.profile.domain.size


# --- on the grid ------------------------------------------------------------------------------------------------------


def settled(problem: Problem, best: Response) -> Response:
    """Return parameters on the grid next to the best ones; raise `RiskOutOfReach` if none nearby keep the limits.

    Each retention is rounded down; then each is raised by steps of the grid, the least first, as long as every limit is
    kept. Less retention never raises `reconstruction`, nor the maximum of `posterior`, so that the point below keeps
    the limits. `link` can rise: there the points nearby are tried, those with the smallest largest risk first. Whatever
    is returned was evaluated on the integers that are sampled.
    """
    if not any(best.noise):
        return best
    below = tuple(rounded_down(Fraction(channel.retention)) if channel.noise else None for channel in best.channels)
    levels, risen = _first_kept(problem, below), True
    while risen:
        risen = False
        for k in sorted(range(len(levels)), key=lambda k: levels[k] or math.inf):
            level = levels[k]
            if level and (above := next_up(level)):
                higher = (*levels[:k], above, *levels[k + 1 :])
                if problem.keeps(_at(problem, higher)):
                    levels, risen = higher, True
    return problem.response(_at(problem, levels))


def _first_kept(problem: Problem, start: Levels) -> Levels:
    """Return the first point that keeps the limits: the start, or else the most promising of those nearby."""

    def largest(levels: Levels) -> float:
        return float(problem.ratio(_at(problem, levels)).max())

    seen, queue = {start}, [(largest(start), start)]
    for _ in range(MOST_TRIES * len(problem.free)):
        ratio, levels = queue[0]
        if ratio * problem.margin <= 1:
            return levels
        heapq.heappop(queue)
        for k, level in enumerate(levels):
            for other in (next_down(level), next_up(level)) if level else ():
                near = (*levels[:k], other, *levels[k + 1 :])
                if other and near not in seen:
                    seen.add(near)
                    heapq.heappush(queue, (largest(near), near))
    retentions = [float(level) if level else 1.0 for level in queue[0][1]]
    raise out_of_reach(problem, np.log([retentions[k] for k in problem.free]), searched=False)


def _at(problem: Problem, levels: Levels) -> Risk:
    channels = (
        Channel.from_noise(size, 0 if level is None else noise_of(level, size))
        for size, level in zip(problem.table.sizes, levels, strict=True)
    )
    return problem.risk(problem.table, tuple(channels))
