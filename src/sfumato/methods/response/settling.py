"""From the best parameters to those that are published, on the coarse grid of `sfumato.values.matrix.grid`.

Each retention is rounded down; then each is raised by steps of the grid, the least first, as long as every limit is
kept. Less retention never raises `reconstruction`, nor the maximum of `posterior`, so that the point below keeps the
limits. `link` can rise: there the points nearby are tried, those with the smallest largest risk first. Whatever is
returned was evaluated on the integers that are sampled.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from sfumato.methods.response.channels import Channel, Channels
from sfumato.methods.response.problem import Problem, Response
from sfumato.methods.response.reach import out_of_reach
from sfumato.methods.response.risks import Risk
from sfumato.values.matrix.grid import next_down, next_up, noise_of, rounded_down

MOST_TRIES = 64
"""Points of the grid that are tried for each randomized attribute, in search of one that keeps the limits."""

Levels = tuple[Fraction | None, ...]
"""The retention of each attribute, on the grid; None: untouched."""


def settled(problem: Problem, best: Response) -> Response:
    """Return parameters on the grid next to the best ones; raise `RiskOutOfReach` if none nearby keep the limits."""
    if not any(best.noise):
        return best
    levels = _first_kept(problem, tuple(_below(channel) for channel in best.channels))
    return problem.stated(_at(problem, _raised(problem, levels)))


def _below(channel: Channel) -> Fraction | None:
    return rounded_down(Fraction(channel.retention)) if channel.noise else None


def _first_kept(problem: Problem, start: Levels) -> Levels:
    """Return the first point that keeps the limits: the start, or else the most promising of those nearby."""
    seen, queue = {start}, [(_largest(problem, start), start)]
    for _ in range(MOST_TRIES * len(problem.free)):
        ratio, levels = queue[0]
        if ratio * problem.margin <= 1:
            return levels
        heapq.heappop(queue)
        for near in _neighbours(levels):
            if near not in seen:
                seen.add(near)
                heapq.heappush(queue, (_largest(problem, near), near))
    retentions = [float(level) if level else 1.0 for level in queue[0][1]]
    raise out_of_reach(problem, np.log([retentions[k] for k in problem.free]), searched=False)


def _neighbours(levels: Levels) -> Iterator[Levels]:
    for k, level in enumerate(levels):
        for other in (next_down(level), next_up(level)) if level else ():
            if other is not None:
                yield (*levels[:k], other, *levels[k + 1 :])


def _raised(problem: Problem, levels: Levels) -> Levels:
    """Return the point with every retention raised as far as all limits are kept, the least one first."""
    risen = True
    while risen:
        risen = False
        for k in sorted(range(len(levels)), key=lambda k: levels[k] or math.inf):
            level = levels[k]
            above = next_up(level) if level else None
            if above is None:
                continue
            higher = (*levels[:k], above, *levels[k + 1 :])
            if _largest(problem, higher) * problem.margin <= 1:
                levels, risen = higher, True
    return levels


def _largest(problem: Problem, levels: Levels) -> float:
    return float(problem.ratio(_at(problem, levels)).max())


def _at(problem: Problem, levels: Levels) -> Risk:
    return problem.risk(problem.table, _channels(problem, levels))


def _channels(problem: Problem, levels: Levels) -> Channels:
    return tuple(
        Channel.from_noise(size, 0 if level is None else noise_of(level, size))
        for size, level in zip(problem.table.sizes, levels, strict=True)
    )
