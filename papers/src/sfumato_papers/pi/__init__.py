"""PI: Examples 1-2 with Tables I-IV, Table V, Theorem 1, and groups of Adult beside Anatomy's.

The paper announces experiments and prints none; what it says of groups is tested on Adult.
"""

from __future__ import annotations

from sfumato_papers.experiment import Experiment
from sfumato_papers.pi.adult import adult
from sfumato_papers.pi.examples import examples
from sfumato_papers.pi.table5 import table_5
from sfumato_papers.pi.theorem1 import theorem_1

EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment("pi-examples", "PI", "Examples 1-2, Tables I-IV", "What shares by sex tell of Alan", examples),
    Experiment("pi-table5", "PI", "Table V, Theorem 2", "How far probabilities may deviate", table_5),
    Experiment("pi-theorem1", "PI", "Theorem 1", "Groups that meet the condition, and what is inferred", theorem_1),
    Experiment("pi-adult", "PI", "sections I-V", "Groups of Adult, beside Anatomy's", adult),
)
