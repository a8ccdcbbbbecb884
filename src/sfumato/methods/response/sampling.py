"""Estimates of risks where the domain of the quasi-identifiers is too large to be written out.

For a person in group a, eta_a and the link risk are means over the released group b ~ P(. | a) of numbers in [0, 1]:

    eta_a      = E_b  P[b, a] pi_a / lambda_b               AD Eq. (7)
    link(a, u) = E_b  h(b, u)

so a few released groups are drawn, and lambda_b and h(b, u) are summed over the groups that occur: O(samples groups m).
The caller gives the uniform numbers. An estimate is no bound: neither of these cells, nor of the largest risk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.matrix import FloatArray
from sfumato.methods.response.channels import Channels, IntArray
from sfumato.methods.response.joint import JointTable


@dataclass(frozen=True, eq=False)
class RiskEstimate:
    """Estimated risks of some cells, one number for each."""

    reconstruction: FloatArray
    reconstruction_error: FloatArray  # standard errors
    link: FloatArray
    link_error: FloatArray


def likely_worst(table: JointTable, number: int) -> IntArray:
    """Return the occupied cells (group, value) with the largest pi(a, u)^2 / pi_a: AD Property 1's least risk."""
    least = (table.counts * table.shares).ravel()
    cells = np.argsort(-least, kind="stable")[:number]
    return np.column_stack(np.divmod(cells, table.sizes[-1]))


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
    )


def _samples(
    table: JointTable, channels: Channels, group: int, value: int, uniforms: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return P[b, a] pi_a / lambda_b and h(b, u) for each drawn b."""
    weight = np.ones((len(uniforms), len(table.groups)))  # P[b, a'] for each drawn b and each group a'
    for k, channel in enumerate(channels[:-1]):
        old = table.groups[group, k]
        drawn = np.full(len(uniforms), old)
        if channel.off_diagonal > 0:
            new = (uniforms[:, k] / channel.off_diagonal).astype(np.int64)  # as the release is sampled
            drawn = np.where(new < channel.size, new, old)
        same = drawn[:, None] == table.groups[:, k]
        weight *= channel.off_diagonal + channel.retention * same
    released = weight @ table.group_sizes
    return weight[:, group] * table.group_sizes[group] / released, weight @ table.counts[:, value] / released


def _guessed(table: JointTable, channels: Channels, cells: IntArray) -> FloatArray:
    """sigma(a, u): AD Eq. (8), exactly."""
    group, value = cells.T
    counts, (p, q) = table.counts[group], (channels[-1].diagonal, channels[-1].off_diagonal)
    published = channels[-1].retention * counts + q * counts.sum(axis=1, keepdims=True)
    squares = np.where(np.arange(table.sizes[-1]) == value[:, None], p, q) ** 2
    inverse = np.divide(squares, published, out=np.zeros_like(published), where=squares > 0)
    sigma: FloatArray = counts[np.arange(len(cells)), value] * inverse.sum(axis=1)
    return sigma
