"""SDR: Table 1, Examples 1-4, Tables 2-3, Figs. 2-6."""

from __future__ import annotations

from sfumato.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
