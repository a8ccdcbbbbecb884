"""PI: Examples 1-2, Tables III-V."""

from __future__ import annotations

from sfumato.reproduce.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = ()
