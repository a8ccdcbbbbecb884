"""All experiments, by name, in the order of the papers."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module

from sfumato.errors import UsageError
from sfumato_papers.experiment import Experiment, Paper

PAPERS: dict[Paper, str] = {
    "SDR": "Small Domain Randomization",
    "FG": "Fine-Grain Perturbation for Privacy Preserving Data Publishing",
    "AD": "Limiting Attribute Disclosure in Randomization Based Microdata Release",
    "SK": "Publishing Skewed Sensitive Microdata",
    "PI": "Probabilistic Inference Protection on Anonymized Data",
}
"""Their titles."""
ALL = "all"
NEAREST = 3
"""Names that a hint gives."""


def experiments() -> tuple[Experiment, ...]:
    """Return all of them."""
    modules = (import_module(f"sfumato_papers.{paper.lower()}") for paper in PAPERS)
    return tuple(experiment for module in modules for experiment in module.EXPERIMENTS)


def chosen(names: Sequence[str]) -> tuple[Experiment, ...]:
    """Return those with these names; "all", or a paper's letters, mean several."""
    known = experiments()
    for name in names:
        if not any(name in _names(e) for e in known):
            raise UsageError(f"There is no experiment {name!r}.", f"{_hint(name, known)}See sfumato reproduce --list.")
    return tuple(e for e in known if set(names) & set(_names(e)))


def _names(experiment: Experiment) -> tuple[str, ...]:
    """Return by which names an experiment is meant."""
    return (experiment.name, experiment.paper.lower(), ALL)


def _hint(name: str, known: Sequence[Experiment]) -> str:
    """Return the names that are nearest to one that is not known, whatever its case.

    >>> _hint("SDR-Tabel2", [e for e in experiments() if e.paper == "SDR"])
    "Did you mean 'sdr-table2', 'sdr-table3' or 'sdr-table1'? "
    """
    names = list(dict.fromkeys(name for e in known for name in _names(e)))
    lower = name.lower()
    near = [lower] if lower in names else difflib.get_close_matches(lower, names, NEAREST)
    quoted = [repr(one) for one in near]
    told = " or ".join(part for part in (", ".join(quoted[:-1]), *quoted[-1:]) if part)
    return f"Did you mean {told}? " if near else ""
