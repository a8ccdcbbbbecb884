"""FG: Examples 1 and 2 with Fig. 2, and the evaluation of section V."""

from __future__ import annotations

from sfumato_papers.experiment import Experiment
from sfumato_papers.fg.examples import examples
from sfumato_papers.fg.utility import distributions, on_reactions, on_zipf

EXPERIMENTS = (
    Experiment("fg-examples", "FG", "Examples 1-2, Fig. 2", "Four diseases, four requirements", examples),
    Experiment("fg-fig4", "FG", "Fig. 4", "How often the values of both tables occur", distributions),
    Experiment("fg-fig5a", "FG", "Fig. 5 (a)", "Uniform and fine-grain on drug reactions", on_reactions),
    Experiment("fg-fig5b", "FG", "Fig. 5 (b)", "Uniform and fine-grain on a Zipf distribution", on_zipf),
)
