"""What SDR section 5.2 leaves open: how ties are broken in Reverse Cuthill-McKee. Here at random, some times over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from sfumato.methods.small_domain.groups import Groups, initial_groups, reverse_cuthill_mckee
from sfumato.methods.small_domain.merging import cheapest_merging, published_cost
from sfumato.methods.small_domain.partition import Block
from sfumato.values.matrix.retention import amplification, uniform_retention
from sfumato.values.randomness import simulation
from sfumato_papers.sdr.census import Census, Ints

TIMES = 30
SUB_TABLES, MEAN_M, MEAN_GAMMA, MEAN_P = "sub-tables", "mean m_i", "mean gamma_i", "mean p"
Range = tuple[float, float]


def with_random_ties(table: Census, L: int, seed: int) -> Iterator[tuple[Block, ...]]:
    """Give partitions as published of a table whose values are all protected; ties are broken at random.

    The same seed gives the same orders of the groups whatever L.
    """
    groups, rho2 = initial_groups(table.counts, np.ones(table.values, dtype=np.bool_)), Fraction(1, L)
    draw = simulation(seed)
    for _ in range(TIMES):
        mixed = _in_order(groups, draw.permutation(groups.number))
        merged = cheapest_merging(mixed, reverse_cuthill_mckee(mixed), published_cost(rho2)).members()
        yield tuple(_block(*mixed.union(part), rho2) for part in merged)


def ranges(table: Census, L: int, seed: int) -> Mapping[str, Range]:
    """Return the least and the largest figures of partitions with random ties."""
    found = [_figures(blocks) for blocks in with_random_ties(table, L, seed)]
    return {name: (min(one[name] for one in found), max(one[name] for one in found)) for name in found[0]}


def _in_order(groups: Groups, order: Ints) -> Groups:
    return Groups.of([groups[int(j)] for j in order], groups.protected, groups.theta, groups.balancing_theta)


def _block(codes: Ints, counts: Ints, rho2: Fraction) -> Block:
    rho1 = Fraction(int(counts.max()), int(counts.sum()))
    gamma = amplification(rho1, rho2)
    return Block(codes, counts, rho1, gamma, uniform_retention(float(gamma), codes.size))


def _figures(blocks: Sequence[Block]) -> dict[str, float]:
    """Return what Tables 2 and 3 tell of a partition."""
    return {
        SUB_TABLES: len(blocks),
        MEAN_M: float(np.mean([block.domain_size for block in blocks])),
        MEAN_GAMMA: float(np.mean([float(block.gamma or 0) for block in blocks])),
        MEAN_P: float(np.mean([block.retention for block in blocks])),
    }
