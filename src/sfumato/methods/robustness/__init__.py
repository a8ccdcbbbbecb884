"""r-robustness (PI): no adversary who knows Pr(value | signature) believes in a value by more than 1/r.

Records are published in groups: who is in a group, and which values it has, but not who has which. A signature is a
combination of the values of an attribute set, a cell one of all attribute sets together.

    prior       what the adversary knows: from the table, from a file
    posterior   what he then believes, exactly
    check       what he believes at most; the paper's condition, and its repair; breaches of published groups
    grouping    `proved`: the deal inside cells, and guests of what is left over
    merging     `as-published`: bottom-up, by the paper's condition
"""

from __future__ import annotations

from sfumato.methods.robustness.check import (
    breaches,
    delta_ceiling,
    meets_published_delta,
    meets_repaired_delta,
    posteriors_by_group,
    prior_free_bound,
    published_supremum,
    repaired_delta_ceiling,
    swap_bound,
    worst_posteriors,
)
from sfumato.methods.robustness.grouping import group_records, leftovers
from sfumato.methods.robustness.merging import merge_records
from sfumato.methods.robustness.posterior import Composition, compositions, posterior
from sfumato.methods.robustness.prior import Prior, count_prior, read_prior

__all__ = [
    "Composition",
    "Prior",
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
