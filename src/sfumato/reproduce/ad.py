"""AD: Fig. 2, Tables 3-5, Figs. 3-7."""

from __future__ import annotations

from sfumato.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
