"""Coverage of 95% intervals where groups are small: docs/reference/benchmarks.md, "Coverage of intervals".

    python -m benchmarks.coverage            2,000 releases a case, from the root of the repository

Sixty groups of 20 to 400 records with eight values of very different frequency; cells are put together by their true
count. Coverage of U and V near 0: benchmarks/association.py.
"""

from __future__ import annotations

import numpy as np

from sfumato.values.randomness import simulation
from tests.statistical.test_figures_coverage import MEASURES, People, Study, halves, whole

CLASSES = ((0, 1), (1, 5), (5, 10), (10, 30), (30, np.inf))
MECHANISMS = {
    "uniform, retention 0.1": whole([0.1] * 8),
    "uniform, retention 0.35": whole([0.35] * 8),
    "uniform, retention 0.9": whole([0.9] * 8),
    "fine-grain, 0.2 to 0.7": whole(np.linspace(0.2, 0.7, 8).tolist()),
    "two sub-tables, 0.3 and 0.5": halves(8, (0.3, 0.5)),
}


def small_groups() -> People:
    """Return groups of growing size with a skewed distribution of values."""
    rng = simulation(9)
    group = np.repeat(np.arange(60), np.linspace(20, 400, 60).astype(int))
    value = rng.choice(8, group.size, p=[0.5, 0.25, 0.12, 0.06, 0.03, 0.02, 0.01, 0.01])
    x, y = np.exp(rng.normal(3, 0.6, group.size)), rng.gamma(4, 5, group.size)
    return People(group, value, x, y, np.ones(group.size))


def main() -> None:
    """Print mean coverage by the true count of the cell."""
    people = small_groups()
    heads = [
        f"{low}" if high == low + 1 else f"{low}+" if high == np.inf else f"{low}-{high - 1}" for low, high in CLASSES
    ]
    print(f"| mechanism | figure | {' | '.join(heads)} |\n|---|---|{'---|' * len(heads)}")
    for name, mechanism in MECHANISMS.items():
        study = Study(people, mechanism, "table", False)
        for figure in ("count", "sum", "share in group", "average"):
            cells = [study.coverage(MEASURES[figure], least=low, most=high).cells for low, high in CLASSES]
            shown = [f"{100 * np.nanmean(c):.1f}" if c.size and not (figure == "average" and low == 0) else "-"
                     for c, (low, _) in zip(cells, CLASSES, strict=True)]  # fmt: skip
            print(f"| {name} | {figure} | {' | '.join(shown)} |", flush=True)


if __name__ == "__main__":
    main()
