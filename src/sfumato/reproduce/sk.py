"""SK: Examples 1-5, Figs. 4-8."""

from __future__ import annotations

from sfumato.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
