"""How near the estimates from a release come to the table that was published: for publishers, who hold both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sfumato.analyst.answer import Estimator
from sfumato.analyst.release import Release
from sfumato.analyst.tables import table
from sfumato.auditor.utility.distances import (
    CubeErrors,
    Distances,
    RelativeErrors,
    cube_errors,
    distances,
    relative_errors,
    without_nan,
)
from sfumato.auditor.utility.measuring import covered
from sfumato.auditor.utility.truth import count_truth

WORDS = {
    "kl": "Kullback-Leibler, nats",
    "chi_square": "chi-square",
    "l1": "L1",
    "l2": "L2",
    "total_variation": "total variation",
}


@dataclass(frozen=True)
class Nearness:
    """Distances and errors of a joint table of some columns: AD section V."""

    columns: tuple[str, ...]
    method: Estimator
    cells: int
    distances: Distances
    naive: Distances  # of the published counts, not corrected
    base: RelativeErrors  # of the joint table's cells
    cube: CubeErrors  # of the cells of all its margins
    level: float
    covered: float  # share of the cells with an error bar whose interval holds the true count; NaN without one
    surplus: int  # true rows that were not published
    outside: int  # ... of which so many are on no axis

    def to_dict(self) -> dict[str, Any]:
        """Return all figures with stable keys (docs/json.md); null for what does not exist."""
        found: dict[str, Any] = without_nan(asdict(self))
        return found

    def explain(self) -> str:
        """Return the figures as text."""
        d, naive = asdict(self.distances), asdict(self.naive)
        lines = [f"Joint table of {', '.join(self.columns)}: {self.cells:,} cells, estimated by {self.method}."]
        lines += [f"  {word}: {d[name]:.4g} (uncorrected {naive[name]:.4g})" for name, word in WORDS.items()]
        lines.append(
            f"  Kullback-Leibler and chi-square with {d['floored']:,} cell(s) raised to the floor, a share of "
            f"{d['floor']:.3g}."
        )
        lines += [_errors("every cell", self.base), _errors("every cell of the cube", self.cube.pooled)]
        lines += [
            _errors(f"margins by {k} column(s)", errors) for k, errors in enumerate(self.cube.by_columns[:-1]) if k
        ]
        if not np.isnan(self.covered):
            lines.append(f"  {self.level:.0%} intervals hold the true count in {self.covered:.1%} of the cells.")
        if self.surplus:
            apart = f" ({self.outside:,} of them have a value of no cell)" if self.outside else ""
            lines.append(
                f"  {self.surplus:,} row(s) of the table were not published{apart}: estimates are of the published "
                "ones, and true counts of all."
            )
        return "\n".join(lines)


def nearness(
    release: Release, truth: Any, columns: Sequence[str], *, method: Estimator = "inverse", level: float = 0.95
) -> Nearness:
    """Compare the estimated joint table of some columns with the true one.

    `truth` is the table that was published: a path, or an object that speaks Arrow. Empty and negative cells have a
    floor in the distances that divide (`utility.distances`).
    """
    estimated = table(release, columns, method=method, level=level)
    true = count_truth(release, truth, columns, [axis.values for axis in estimated.axes])
    return Nearness(
        columns=tuple(columns),
        method=method,
        cells=estimated.value.size,
        distances=distances(true.counts, estimated.value),
        naive=distances(true.counts, estimated.published),
        base=relative_errors(true.counts, estimated.value),
        cube=cube_errors(true.counts, estimated.value),
        level=level,
        covered=covered(estimated, true.counts),
        surplus=true.surplus,
        outside=true.outside,
    )


def _errors(what: str, errors: RelativeErrors) -> str:
    apart = (
        f"; {errors.zero_cells:,} truly empty cell(s) apart, estimated {errors.zero_mean_error:,.1f} off on average"
        if errors.zero_cells
        else ""
    )
    return (
        f"  relative error, {what}: mean {errors.mean:.1%}, median {errors.median:.1%} "
        f"of {errors.cells:,} cell(s){apart}"
    )
