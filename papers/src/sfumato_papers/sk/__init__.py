"""SK: Examples 1-5, the theorems, and the figures of section 6.

bayes: all releases of all small tables, and what Bayes' rule makes of them. rates: what each algorithm suppresses.
violating: how often pieces of a table violate l-eligibility.
"""

from __future__ import annotations

from sfumato_papers.experiment import Experiment
from sfumato_papers.sk.distributions import by_alpha, by_zipf_ell, linear
from sfumato_papers.sk.examples import examples
from sfumato_papers.sk.incremental import incremental
from sfumato_papers.sk.risk import equal_risk
from sfumato_papers.sk.samples import attributes, by_ell, by_size, violations
from sfumato_papers.sk.theorems import theorems

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("sk-examples", "SK", "Examples 1-5", "Eighteen records; ten of them have one value", examples),
    Experiment("sk-theorems", "SK", "Theorems 1-5", "How sure the most frequent value can be guessed", theorems),
    Experiment(
        "sk-equal-risk", "SK", "sections 4-6", "Suppression at the same requirement and at equal risk", equal_risk
    ),
    Experiment("sk-incremental", "SK", "section 1.1", "Small pieces of a table violate eligibility", incremental),
    Experiment("sk-fig4", "SK", "Fig. 4", "Attributes of Adult and their values", attributes),
    Experiment("sk-fig5", "SK", "Fig. 5", "Samples that violate l-eligibility", violations),
    Experiment("sk-fig6", "SK", "Fig. 6", "Suppression by the size of samples, l = 6", by_size),
    Experiment("sk-fig7", "SK", "Fig. 7", "Suppression by l, samples of 0.5%", by_ell),
    Experiment("sk-fig8a", "SK", "Fig. 8 (a)", "Suppression of Zipf distributions by alpha", by_alpha),
    Experiment("sk-fig8b", "SK", "Fig. 8 (b)", "Suppression of a Zipf distribution by l", by_zipf_ell),
    Experiment("sk-linear", "SK", "section 6.2", "Suppression of linear distributions", linear),
)
