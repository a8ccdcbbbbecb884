"""r-robustness (PI): no adversary who knows Pr(value | signature) believes in a value by more than 1/r.

Records are published in groups: who is in a group, and which values it has, but not who has which. A signature is a
combination of the values of an attribute set, a cell one of all attribute sets together.

    prior       what the adversary knows: from the table, from a file
    posterior   what he then believes, exactly
    bounds      what he believes at most; the paper's condition, and its repair
    check       posteriors and breaches of published groups
    grouping    `proved`: `kinds` (the deal inside cells), `guests` (what is left over)
    merging     `as-published`: bottom-up, by the paper's condition
"""

from __future__ import annotations

from sfumato.methods.robustness.bounds import (
    delta_ceiling,
    meets_published_delta,
    meets_repaired_delta,
    prior_free_bound,
    published_supremum,
    repaired_delta_ceiling,
    swap_bound,
)
from sfumato.methods.robustness.check import breaches, posteriors_by_group, worst_posteriors
from sfumato.methods.robustness.grouping import Grouping, Withheld, group_records
from sfumato.methods.robustness.kinds import leftovers
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import Composition, compositions, posterior
from sfumato.methods.robustness.prior import Prior, count_prior, read_prior

__all__ = [
    "Composition",
    "Grouping",
    "Prior",
    "Withheld",
    "breaches",
    "compositions",
    "count_prior",
    "delta_ceiling",
    "group_records",
    "leftovers",
    "meets_published_delta",
    "meets_repaired_delta",
    "merge_records",
    "posterior",
    "posteriors_by_group",
    "prior_free_bound",
    "published_supremum",
    "read_prior",
    "repaired_delta_ceiling",
    "swap_bound",
    "worst_posteriors",
]
