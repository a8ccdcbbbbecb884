"""What a release shows that was computed from the table; and, in one place, which adversary and strength follow.

Everything that a release shows is public beforehand, drawn by the stated mechanism, or computed from the table. The
last kind is listed, fact by fact, in every plan and manifest (`computed_from_table`): someone who knows all other
records may learn from such a fact alone, whatever the noise is. So the promise is made to someone who may know all
others only where the list is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from sfumato.values.bucket_columns import GroupClaim

Facts = tuple[str, ...]

Strength = Literal[
    "any prior", "any prior, computed from this table", "one stated prior", "this table's own risk", "as published"
]
STRENGTHS: dict[Strength, str] = {
    "any prior": "proved for any prior belief",
    "any prior, computed from this table": (
        "proved for any prior belief; the matrix or other facts were computed from this table"
    ),
    "one stated prior": "proved for one stated prior",
    "this table's own risk": "a limit on this table's own risk",
    "as published": "as published: known to fail, as the limits say",
}
"""The word that is stored, and how it is told to people."""

BEST_FOR_TABLE = "the matrix, which is the best one for the table's own frequencies"
OBSERVED_RHO1 = "the matrix, which is computed from each value's share of the table and tells it"
RESPONSE_MATRICES = "the matrices, which are computed from how often each combination of values occurs"
SUB_TABLES = "which values occur, how many sub-tables there are, which values each has and how many records"
SUB_TABLE_MATRICES = "the matrix of each sub-table, which is computed from the shares of the protected values in it"
GROUP_COUNTS = "how often each value occurs among the published records, and in each group"
GROUP_NUMBER = "how many groups there are, and how many records each has"
WITHHELD = "how many records are withheld"
ROW_ORDER = "the order of the rows, which is the table's: it is published only where a test found no dependence on it"


def observed_domain(column: str) -> str:
    """Return the fact that a column's domain was read off the table."""
    return f"the values of {column}, which are those that occur"


def left_out(columns: Sequence[str]) -> str:
    """Return the fact that rows without a value are left out."""
    return f"which rows are published, and how many: those without a value of {', '.join(columns)} are left out"


def of_groups(claim: GroupClaim) -> Iterator[str]:
    """Give what every release by groups shows of the table."""
    yield GROUP_COUNTS
    yield GROUP_NUMBER
    if claim.method != "anatomy":
        yield WITHHELD


def listed(facts: Sequence[str]) -> str:
    """Return the facts as one sentence, empty where there are none."""
    return f"Computed from the table: {'; '.join(facts)}." if facts else ""


def adversary_of_noise(computed: Facts) -> str:
    """Return against whom a bound on odds is promised: who may know all other records only if nothing was computed."""
    if not computed:
        return (
            "Knows the matrix, all quasi-identifiers, who is in the table and the values of any other records; "
            "holds records to be independent; sees the release once."
        )
    return (
        "Knows the matrix, all quasi-identifiers and who is in the table; holds records to be independent, and what "
        "was computed from the table to tell nothing of a single record; sees the release once."
    )


def strength_of_noise(computed: Facts) -> Strength:
    """Return how strong a bound on odds is."""
    return "any prior, computed from this table" if computed else "any prior"
