"""All experiments, by name, in the order of the papers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module

from sfumato.errors import UsageError
from sfumato.reproduce.experiment import Experiment, Paper

PAPERS: dict[Paper, str] = {
    "SDR": "Small domain randomization",
    "FG": "Fine-grain perturbation",
    "AD": "Randomized response under a disclosure-risk limit",
    "SK": "Suppression for skewed tables",
    "PI": "Privacy in the presence of background knowledge",
}
ALL = "all"


def experiments() -> tuple[Experiment, ...]:
    """Return all of them."""
    modules = (import_module(f"sfumato.reproduce.{paper.lower()}") for paper in PAPERS)
    return tuple(experiment for module in modules for experiment in module.EXPERIMENTS)


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return those with these names; "all", or a paper's letters, mean several."""
    known = experiments()
    if ALL in names:
        return known
    wanted = [e for e in known if e.name in names or e.paper.lower() in names]
    covered = {e.name for e in wanted} | {e.paper.lower() for e in wanted}
    for name in names:
        if name not in covered:
            near = difflib.get_close_matches(name, [e.name for e in known], 1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            raise UsageError(f"There is no experiment {name!r}.", f"{hint}See sfumato reproduce --list.")
    return tuple(wanted)
