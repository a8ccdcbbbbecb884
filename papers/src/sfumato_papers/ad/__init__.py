"""AD: Table 1 and Fig. 2, Tables 3-5, Figs. 3-7, Figs. 5-6 at equal measured risk, and run times."""

from __future__ import annotations

from sfumato_papers.ad import (
    correlations,
    equal_risk,
    figure2,
    figure3,
    figure4,
    figure7,
    figures56,
    table3,
    times,
)
from sfumato_papers.experiment import Experiment

EXPERIMENTS: tuple[Experiment, ...] = (
    figure2.EXPERIMENT,
    table3.EXPERIMENT,
    figure3.EXPERIMENT,
    figure4.EXPERIMENT,
    figures56.FIGURE_5,
    figures56.FIGURE_6,
    correlations.EXPERIMENT_4,
    correlations.EXPERIMENT_5,
    figure7.EXPERIMENT,
    equal_risk.EXPERIMENT,
    times.EXPERIMENT,
)
