"""Estimates of risks where the domain of the quasi-identifiers is too large to be written out.

For a person in group a, eta_a and the link risk are means over the released group b ~ P(. | a) of numbers in [0, 1]:

    eta_a      = E_b  P[b, a] pi_a / lambda_b               AD Eq. (7)
    link(a, u) = E_b  h(b, u)

so a few released groups are drawn, and lambda_b and h(b, u) are summed over the groups that occur: O(samples groups m).
The caller gives the uniform numbers. An estimate is no bound: neither of these cells, nor of the largest risk. But each
h(b, u) that is seen is exact, and the largest posterior is at least the largest of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sfumato.methods.response.channels import Channels
from sfumato.methods.response.joint import JointTable
from sfumato.values.arrays import FloatArray, IntArray

CANDIDATES = 500
"""Groups that are looked at more closely for each kind of risk, before some are chosen."""

AT_ONCE = 1 << 22
"""Numbers in memory at a time."""


@dataclass(frozen=True, eq=False)
class RiskEstimate:
    """Estimated risks of some cells, one number for each."""

    reconstruction: FloatArray
    reconstruction_error: FloatArray  # standard errors
    link: FloatArray
    link_error: FloatArray
    posterior: FloatArray  # the largest h(b, u) that was seen


def sampled_risk(table: JointTable, channels: Channels, cells: IntArray, uniforms: FloatArray) -> RiskEstimate:
    """Return estimates for cells (group, value) from uniform numbers in [0, 1): [samples, quasi-identifiers]."""
    pairs = [_samples(table, channels, int(group), int(value), uniforms) for group, value in cells]
    linked, hits = (np.array(samples) for samples in zip(*pairs, strict=True))
    group, value = cells.T
    guessed = table.shares[group, value] * _guessed(table, channels, cells)
    root = np.sqrt(len(uniforms))
    return RiskEstimate(
        reconstruction=guessed * linked.mean(axis=1),
        reconstruction_error=guessed * linked.std(axis=1, ddof=1) / root,
        link=hits.mean(axis=1),
        link_error=hits.std(axis=1, ddof=1) / root,
        posterior=hits.max(axis=1),
    )


def _samples(
    table: JointTable, channels: Channels, group: int, value: int, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return P[b, a] pi_a / lambda_b and h(b, u) for each drawn b."""
    drawn = np.tile(table.groups[group], (len(uniforms), 1))
    for k, channel in enumerate(channels[:-1]):
        if channel.off_diagonal > 0:
            new = (uniforms[:, k] / channel.off_diagonal).astype(np.int64)  # as the release is sampled
            drawn[:, k] = np.where(new < channel.size, new, drawn[:, k])
    linked, hits = [], []
    for _, weight in _weights(table, channels, drawn):
        released = weight @ table.group_sizes
        linked.append(weight[:, group] * table.group_sizes[group] / released)
        hits.append(weight @ table.counts[:, value] / released)
    return np.concatenate(linked), np.concatenate(hits)


def _weights(table: JointTable, channels: Channels, released: IntArray) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the released groups b in parts: their numbers, and P[b, a] for each group a that occurs."""
    parts = math.ceil(len(released) * len(table.groups) / AT_ONCE)
    for part in np.array_split(np.arange(len(released)), max(1, parts)):
        weight = np.ones((len(part), len(table.groups)))
        for k, channel in enumerate(channels[:-1]):
            same = released[part, k, None] == table.groups[:, k]
            weight *= np.where(same, channel.diagonal, channel.off_diagonal)
        yield part, weight


def _guessed(table: JointTable, channels: Channels, cells: IntArray) -> FloatArray:
    """sigma(a, u): AD Eq. (8), exactly."""
    group, value = cells.T
    counts, (p, q) = table.counts[group], (channels[-1].diagonal, channels[-1].off_diagonal)
    published = channels[-1].retention * counts + q * counts.sum(axis=1, keepdims=True)
    squares = np.where(np.arange(table.sizes[-1]) == value[:, None], p, q) ** 2
    inverse = np.divide(squares, published, out=np.zeros_like(published), where=squares > 0)
    sigma: FloatArray = counts[np.arange(len(cells)), value] * inverse.sum(axis=1)
    return sigma


# --- which cells ------------------------------------------------------------------------------------------------------


def likely_worst(table: JointTable, channels: Channels, number: int) -> IntArray:
    """Return so many occupied cells (group, value) that are likely to be the worst; half for either kind of risk.

    The record that stays as it is (b = a) weighs most: its term is P[a, a] pi_a / lambda_a for `reconstruction` and
    h(a, u) for `link` and `posterior`. Both are computed for candidates, of which there are two sorts: groups that
    are alone where quasi-identifiers are rare, and large groups with a frequent value, which no noise hides (AD
    Property 1).
    """
    groups = _candidates(table, channels)
    linked, hits = np.empty((2, len(groups), table.sizes[-1]))
    for part, weight in _weights(table, channels, table.groups[groups]):
        own, released = groups[part], (weight @ table.group_sizes)[:, None]
        stays = weight[np.arange(len(part)), own][:, None] * table.counts[own]
        linked[part], hits[part] = table.shares[own] * stays / released, weight @ table.counts / released
    occupied = table.counts[groups] > 0
    order = np.column_stack([np.argsort(-np.where(occupied, x, -1).ravel(), kind="stable") for x in (linked, hits)])
    first = list(dict.fromkeys(order.ravel().tolist()))[: min(number, int(occupied.sum()))]
    place, value = np.divmod(np.array(first), table.sizes[-1])
    return np.column_stack([groups[place], value])


def _candidates(table: JointTable, channels: Channels) -> IntArray:
    """Return the groups with the largest share of one value, times that of their own records in what is released.

    The latter is approximated, lambda_a by a product over the quasi-identifiers; once more without noise, times pi_a.
    """
    others, stays = np.full(len(table.groups), float(table.records)), 1.0
    for k, channel in enumerate(channels[:-1]):
        share = np.bincount(table.groups[:, k], weights=table.group_sizes, minlength=channel.size) / table.records
        others *= (channel.retention * share + channel.off_diagonal)[table.groups[:, k]]
        stays *= channel.diagonal
    largest, own = table.shares.max(axis=1), stays * table.group_sizes
    rankings = (largest * own / (own + others), largest * table.counts.max(axis=1))
    return np.unique(np.concatenate([np.argsort(-score, kind="stable")[:CANDIDATES] for score in rankings]))
