"""From the best parameters to those that are published, on the coarse grid of `sfumato.values.matrix.grid`.

Each retention is rounded down; then each is raised by steps of the grid, the least first, as long as every limit is
kept. Less retention never raises `reconstruction`, nor the maximum of `posterior`, so that the point below keeps the
limits. `link` can rise: there the points nearby are tried, those with the smallest largest risk first. Whatever is
returned was evaluated on the integers that are sampled.
"""

from __future__ import annotations

import heapq
import math
from fractions import Fraction

import numpy as np

from sfumato.methods.response.channels import Channel
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
