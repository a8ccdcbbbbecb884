"""What stated probabilities would leave of the risks, estimated: for domains that are too large to be evaluated.

A plan evaluates the risk of every cell, or there is none. Here the probabilities are stated, and the risks of some
cells, those that are likely to be the worst, are estimated from drawn releases. That bounds nothing, so nothing can be
published on the strength of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from sfumato.errors import PolicyError, UsageError
from sfumato.methods.response.axes import Axes
from sfumato.methods.response.channels import Channel, Channels
from sfumato.methods.response.joint import MOST_CELLS
from sfumato.methods.response.sampling import RiskEstimate, likely_worst, sampled_risk
from sfumato.show.results import Drawn, Private, columns_table
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.profile import Profile
from sfumato.values.randomness import simulation
from sfumato.values.requirement import Number, RiskLimit, exact
from sfumato.values.text import many

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
        return "\n".join([*self._head(), "", *(f"  {line}" for line in self._lines())])

    def _head(self) -> Iterator[str]:
        yield self.statement
        yield ""
        yield self._stated()
        yield (
            f"The domain has {many(self.domain_cells)} cells{self._reduced()}. {self.occupied_cells:,} of them have "
            f"records; {len(self.cells):,} of these were looked at, each by {self.samples:,} drawn releases."
        )
        if self.can_be_planned:
            yield self._planned()

    def _stated(self) -> str:
        kept = ", ".join(f"{name} {p:.4g}" for name, p in self.kept.items() if p < 1)
        if not kept:
            return "Stated: every value stays. These are the risks of the table as it is."
        return f"Stated: a value stays with the probability {kept}; all else is untouched."

    def _reduced(self) -> str:
        """Say what the number of cells leaves out. (The last of `kept` is the sensitive attribute.)"""
        untouched = [name for name, p in list(self.kept.items())[:-1] if p == 1]
        return f": of what is untouched, {', '.join(untouched)}, it counts what occurs" if untouched else ""

    def _planned(self) -> str:
        """Say which plan would evaluate every cell: what is untouched here, the policy may let a plan randomize."""
        if not self.to_fix:
            return "It is small enough for every cell to be evaluated: `sfumato plan` does so, exactly."
        names = ", ".join(f'"{name}"' for name in self.to_fix)
        all_fixed = len(self.to_fix) == len(self.kept) - 1
        asked = 'scope = "sensitive" and assurance = "as-published"' if all_fixed else f"fixed = [{names}]"
        return (
            "It is small enough for every cell to be evaluated: `sfumato plan` does so, exactly, if the policy's "
            f"method has {asked}."
        )

    def _lines(self) -> Iterator[str]:
        yield (
            f"{'reconstruction':>20} {'link':>20} {'posterior':>10} {'limit':>8}  "
            f"{' / '.join(self.kept)} (± standard error; posterior: the largest seen, so at least that)"
        )
        for cell in self.cells:
            estimated = (
                f"{risk:.4f} ± {error:.4f}"
                for risk, error in ((cell.reconstruction, cell.reconstruction_error), (cell.link, cell.link_error))
            )
            limit = "" if cell.limit is None else f"{cell.limit:.4f}"
            figures = " ".join(f"{text:>20}" for text in estimated)
            named = f"{' / '.join(cell.values)} ({cell.records:,} record(s))"
            yield f"{figures} {cell.posterior:>10.4f} {limit:>8}  {named}"

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-ready values."""
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
    table, channels = axes.table, _of_axes(axes, stated)
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
    return {name: _channel(name, size, kept.get(name, 1)) for name, size in sizes.items()}


def _channel(name: str, size: int, kept: Number) -> Channel:
    p = exact(kept, f"the probability of {name!r}")
    if not 1 <= p * size <= size:
        raise UsageError(
            f"Values of {name!r} stay with a probability between 1/{size} (all noise) and 1, not {kept}.",
            f"Write for instance --keep {name}=0.5.",
        )
    if size == 1:
        return Channel(1, 1.0, 0.0)
    return Channel(size, float((size * p - 1) / (size - 1)), float((1 - p) / (size - 1)))


def _of_axes(axes: Axes, stated: dict[str, Channel]) -> Channels:
    channels = tuple(stated.values())
    shared = [Channel(axes.table.sizes[len(axes.own)], 1.0, 0.0)] if axes.shared else []
    return (*(channels[k] for k in axes.own), *shared, channels[-1])


def _cells(axes: Axes, chosen: IntArray, found: RiskEstimate, limits: FloatArray | None) -> Iterator[CellRisk]:
    group, value = chosen.T
    labels = axes.labels(np.column_stack([axes.table.groups[group], value]))
    for k, (values, a, u) in enumerate(zip(labels, group, value, strict=True)):
        yield CellRisk(
            values=values,
            records=int(axes.table.counts[a, u]),
            limit=None if limits is None else float(limits[a, u]),
            reconstruction=float(found.reconstruction[k]),
            reconstruction_error=float(found.reconstruction_error[k]),
            link=float(found.link[k]),
            link_error=float(found.link_error[k]),
            posterior=float(found.posterior[k]),
        )
