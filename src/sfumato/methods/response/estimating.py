"""What stated probabilities would leave of the risks, estimated: for domains that are too large to be evaluated.

A plan evaluates the risk of every cell, or there is none. Here the probabilities are stated, and the risks of some
cells, those that are likely to be the worst, are estimated from drawn releases. That bounds nothing, so nothing can be
published on the strength of it.

For a person in group a, eta_a and the link risk are means over the released group b ~ P(. | a) of numbers in [0, 1]:

    eta_a      = E_b  P[b, a] pi_a / lambda_b               AD Eq. (7)
    link(a, u) = E_b  h(b, u)

so a few released groups are drawn, and lambda_b and h(b, u) are summed over the groups that occur: O(samples groups m).
An estimate is no bound: neither of these cells, nor of the largest risk. But each h(b, u) that is seen is exact, and
the largest posterior is at least the largest of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sfumato.errors import PolicyError, UsageError
from sfumato.methods.response.joint import MOST_CELLS, Channel, Channels, JointTable, forward
from sfumato.methods.response.request import Axes
from sfumato.methods.response.risks import returned
from sfumato.show.results import Drawn, Private, columns_table
from sfumato.show.words import many
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.profile import Profile
from sfumato.values.randomness import simulation
from sfumato.values.requirement import Number, RiskLimit, exact

CANDIDATES = 500  # groups that are looked at more closely for each kind of risk, before some are chosen
AT_ONCE = 1 << 22  # numbers in memory at a time

NO_GUARANTEE = (
    "ESTIMATE, NO GUARANTEE: some cells that are likely to be the worst were looked at, by drawn releases. The figures "
    "vary from draw to draw, and other cells may be worse. Nothing is published under a limit that was only estimated."
)


@dataclass(frozen=True)
class CellRisk:
    """The estimated risks of the records with these values, with standard errors."""

    values: tuple[str, ...]  # of each quasi-identifier, then the sensitive one
    records: int
    limit: float | None  # of their risk, if one is stated; 1: none
    reconstruction: float
    reconstruction_error: float
    link: float
    link_error: float
    posterior: float  # the largest belief in this value that was seen: the true largest one is at least that

    def __str__(self) -> str:
        risks = ((self.reconstruction, self.reconstruction_error), (self.link, self.link_error))
        figures = " ".join(f"{f'{risk:.4f} ± {error:.4f}':>20}" for risk, error in risks)
        limit = "" if self.limit is None else f"{self.limit:.4f}"
        named = f"{' / '.join(self.values)} ({self.records:,} record(s))"
        return f"{figures} {self.posterior:>10.4f} {limit:>8}  {named}"


@dataclass(frozen=True, repr=False)
class SampledRisks(Private, Drawn):
    """Estimates, and no guarantee."""

    kept: dict[str, float]  # the stated probability that a value stays, of each attribute; 1: untouched
    domain_cells: int
    occupied_cells: int
    samples: int
    can_be_planned: bool  # a plan that fixes `to_fix` can evaluate all risks of every cell, exactly
    to_fix: tuple[str, ...]  # quasi-identifiers that are untouched here; none: the domain is small enough without
    cells: tuple[CellRisk, ...]
    statement: str = NO_GUARANTEE

    _figures = ("reconstruction", "link", "posterior")

    def to_arrow(self) -> Any:
        """Return a row for each cell that was looked at, with its estimated risks."""
        columns = zip(*(cell.values for cell in self.cells), strict=True)
        names = [field.name for field in fields(CellRisk) if field.name not in ("values", *self._figures)]
        figures = {name: [getattr(cell, name) for cell in self.cells] for name in (*self._figures, *names)}
        return columns_table(zip(self.kept, map(list, columns), strict=True), figures)

    def __repr__(self) -> str:
        return f"SampledRisks({len(self.cells):,} of {many(self.occupied_cells)} cells, no guarantee; private)"

    def explain(self) -> str:
        """Return the estimates in words."""
        kept = ", ".join(f"{name} {p:.4g}" for name, p in self.kept.items() if p < 1)
        untouched = [name for name, p in list(self.kept.items())[:-1] if p == 1]  # the last is the sensitive attribute
        reduced = f": of what is untouched, {', '.join(untouched)}, it counts what occurs" if untouched else ""
        lines = [
            self.statement,
            "",
            f"Stated: a value stays with the probability {kept}; all else is untouched."
            if kept
            else "Stated: every value stays. These are the risks of the table as it is.",
            f"The domain has {many(self.domain_cells)} cells{reduced}. {self.occupied_cells:,} of them have "
            f"records; {len(self.cells):,} of these were looked at, each by {self.samples:,} drawn releases.",
            *(
                [f"It is small enough for every cell to be evaluated: {self._planned()}."]
                if self.can_be_planned
                else []
            ),
            "",
            f"  {'reconstruction':>20} {'link':>20} {'posterior':>10} {'limit':>8}  "
            f"{' / '.join(self.kept)} (± standard error; posterior: the largest seen, so at least that)",
        ]
        return "\n".join([*lines, *(f"  {cell}" for cell in self.cells)])

    def _planned(self) -> str:
        """Say which plan would evaluate every cell: what is untouched here, the policy may let a plan randomize."""
        planned = "`sfumato plan` does so, exactly"
        if not self.to_fix:
            return planned
        names = ", ".join(f'"{name}"' for name in self.to_fix)
        all_fixed = len(self.to_fix) == len(self.kept) - 1
        asked = 'scope = "sensitive" and assurance = "as-published"' if all_fixed else f"fixed = [{names}]"
        return f"{planned}, if the policy's method has {asked}"

    def to_dict(self) -> dict[str, Any]:
        cells = [{**asdict(cell), "values": list(cell.values)} for cell in self.cells]
        return {**asdict(self), "to_fix": list(self.to_fix), "cells": cells}


def estimate_risk(
    profile: Profile,
    kept: Mapping[str, Number],
    *,
    limit: RiskLimit | None = None,
    cells: int = 20,
    samples: int = 400,
    seed: int | None = None,
) -> SampledRisks:
    """Estimate the risks that remain if values stay with stated probabilities (AD's p); never a guarantee.

    `kept` names quasi-identifiers, or the sensitive columns as one ("a / b"); what it does not name stays untouched.
    `limit` is shown beside the risks. So many `cells` are looked at, each by so many `samples`: their time is
    proportional to both and to the number of groups that occur.
    """
    if cells < 1 or samples < 2:
        raise UsageError("An estimate needs one cell and two samples at least.", "--cells 20 --samples 400 are usual.")
    stated = _stated(profile, kept)
    untouched = tuple(name for name, channel in stated.items() if not channel.off_diagonal)
    axes = Axes.of(profile, untouched)
    table, of_attributes = axes.table, tuple(stated.values())
    shared = [Channel(table.sizes[len(axes.own)], 1.0, 0.0)] if axes.shared else []
    channels = (*(of_attributes[k] for k in axes.own), *shared, of_attributes[-1])
    chosen = likely_worst(table, channels, cells)
    uniforms = simulation(seed).random((samples, len(table.sizes) - 1))
    found = sampled_risk(table, channels, chosen, uniforms)
    whole = profile.domain.size <= MOST_CELLS
    if_fixed = not whole and table.fits(dense=True) and len(untouched) < len(stated)
    limits = None if limit is None else np.broadcast_to(axes.limits(limit), table.counts.shape)
    return SampledRisks(
        kept={name: channel.diagonal for name, channel in stated.items()},
        domain_cells=table.evaluated_cells(dense=True),
        occupied_cells=int((table.counts > 0).sum()),
        samples=samples,
        can_be_planned=whole or if_fixed,
        to_fix=tuple(name for name in profile.quasi_identifiers if name in untouched) if if_fixed else (),
        cells=tuple(_cells(axes, chosen, found, limits)),
    )


def _stated(profile: Profile, kept: Mapping[str, Number]) -> dict[str, Channel]:
    """Return the channel of every attribute by name, the sensitive columns as one last."""
    if not profile.quasi_identifiers:
        raise PolicyError(
            "The profile has no quasi-identifiers: they are counted where the policy asks for randomized-response.",
            'Say name = "randomized-response" in [method], and l or risk_limit in [requirement].',
        )
    sensitive = profile.sensitive_domain
    sizes = dict(zip(profile.quasi_identifiers, profile.quasi_domain.sizes, strict=True)) | {
        sensitive.name: sensitive.size
    }
    if not kept or not set(kept) <= set(sizes):
        raise UsageError(
            f"State with which probability values stay of some of {', '.join(map(repr, sizes))}.",
            f"E.g. {next(iter(sizes))}=0.7.",
        )
    stated = {}
    for name, size in sizes.items():
        p = exact(kept.get(name, 1), f"the probability of {name!r}")
        if not 1 <= p * size <= size:
            raise UsageError(
                f"Values of {name!r} stay with a probability between 1/{size} (all noise) and 1, not {kept[name]}.",
                f"Write for instance --keep {name}=0.5.",
            )
        q = (1 - p) / max(size - 1, 1)
        stated[name] = Channel(size, float(p - q), float(q))
    return stated


def _cells(
    axes: Axes, chosen: IntArray, found: Mapping[str, FloatArray], limits: FloatArray | None
) -> Iterator[CellRisk]:
    group, value = chosen.T
    labels = axes.labels(np.column_stack([axes.table.groups[group], value]))
    for k, (values, a, u) in enumerate(zip(labels, group, value, strict=True)):
        records, limit = int(axes.table.counts[a, u]), None if limits is None else float(limits[a, u])
        yield CellRisk(values, records, limit, **{name: float(risks[k]) for name, risks in found.items()})


# --- drawn releases ---------------------------------------------------------------------------------------------------


def sampled_risk(table: JointTable, channels: Channels, cells: IntArray, uniforms: FloatArray) -> dict[str, FloatArray]:
    """Return the estimates of `CellRisk` for cells (group, value).

    uniforms: numbers in [0, 1), [samples, quasi-identifiers].
    """
    pairs = [_samples(table, channels, int(group), int(value), uniforms) for group, value in cells]
    linked, hits = (np.array(samples) for samples in zip(*pairs, strict=True))
    group, value = cells.T
    counts, own = table.counts[group], (np.arange(len(cells)), value)
    sigma = (counts * returned(channels[-1:], forward(channels[-1:], counts, first=1), first=1))[own]  # AD Eq. (8)
    guessed = table.shares[group, value] * sigma
    root = np.sqrt(len(uniforms))
    return {
        "reconstruction": guessed * linked.mean(axis=1),
        "reconstruction_error": guessed * linked.std(axis=1, ddof=1) / root,
        "link": hits.mean(axis=1),
        "link_error": hits.std(axis=1, ddof=1) / root,
        "posterior": hits.max(axis=1),
    }


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
