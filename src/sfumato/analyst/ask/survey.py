"""Survey strata: how many units were drawn first, persons or whole clusters, in each.

Strata are fixed by the design, and units are drawn inside them. With z_hc what unit c of stratum h adds to a sum, noise
and weights among it, and n_h units of the stratum in all, the variance of the sum for the population is estimated by

    sum_h n_h/(n_h - 1) sum_c (z_hc - mean_h)(z_hc - mean_h)'        units as if drawn with replacement

Units that a condition leaves out add 0, and are counted: a part of the population is asked, not another design. The
same name of a cluster in two strata stands for two clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.analyst.ask.conditions import fetched
from sfumato.analyst.counting.counts import CountedRelease, Counting
from sfumato.errors import UsageError
from sfumato.release.folder import manifest_types, quoted
from sfumato.values.arrays import FloatArray, IntArray
from sfumato.values.text import meant


@dataclass(frozen=True, eq=False)
class SurveyStrata:
    """The strata of a survey, with the number of units that each has in the release."""

    column: str
    names: Any  # an Arrow array of texts
    units: FloatArray  # (strata,) n_h

    @property
    def factor(self) -> FloatArray:
        """n_h/(n_h - 1)."""
        return np.asarray(self.units / (self.units - 1))

    def codes(self, column: Any) -> IntArray:
        """Return the number of the stratum of each row, of the texts of `text_of`."""
        found = pc.index_in(column, value_set=self.names)
        return np.asarray(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found).astype(np.int64)


def text_of(column: str) -> str:
    """Return a stratum or a cluster as text, in SQL: a missing value is one of its own."""
    return f"coalesce(CAST({quoted(column)} AS VARCHAR), '')"


def check_survey_strata(release: CountedRelease, column: str) -> None:
    """Raise unless the column can tell strata that were there before the release."""
    types, manifest = manifest_types(release), release.manifest
    untouched = [name for name in types if name not in manifest.domain.names]
    if column in manifest.domain.names:
        raise UsageError(
            f"{column!r} is randomized: it does not tell the survey stratum that a record was drawn in.",
            "Name an untouched column as the survey strata, or leave them out.",
        )
    if column not in types:
        raise UsageError(f"There is no column {column!r} of survey strata.", meant(column, untouched, "There are"))
    if manifest.in_buckets:
        raise UsageError(
            "Survey strata are not possible in a release by groups: its records were dealt together.",
            "Leave them out; the errors are then those of independent records.",
        )


def survey_strata(release: CountedRelease, column: str, cluster: str, where: str) -> SurveyStrata:
    """Return the strata of all published rows; raise if one that is asked about has a single unit."""
    keys = (text_of(column), *([text_of(cluster)] if cluster else []))
    asked = f"count(*) FILTER (WHERE {where})" if where else "count(*)"
    found = fetched(release, Counting(keys, (("count(*)", "sum"), (asked, "sum"))), "The survey design")
    encoded = found.columns[0].combine_chunks().dictionary_encode()
    place, (rows, selected) = np.asarray(encoded.indices), (np.asarray(c, dtype=float) for c in found.columns[-2:])
    strata = len(encoded.dictionary)
    units = np.bincount(place, None if cluster else rows, minlength=strata).astype(np.float64)
    is_asked = np.bincount(place, selected, minlength=strata) > 0
    single = [name or "missing" for name in encoded.dictionary.filter(pa.array((units < 2) & is_asked)).to_pylist()]
    if single:
        shown = ", ".join(map(repr, single[:5])) + (", ..." if len(single) > 5 else "")
        raise UsageError(
            f"{len(single):,} survey strata of {column!r} have a single {'cluster' if cluster else 'record'} each "
            f"({shown}): how far those of a stratum lie apart is not told.",
            "Name a column of coarser strata, or leave these strata out by a condition; without survey strata the "
            "errors are usually larger.",
        )
    return SurveyStrata(column, encoded.dictionary, np.maximum(units, 2))
