"""What a release shows that was computed from the table.

Everything that a release shows is public beforehand, drawn by the stated mechanism, or computed from the table. The
last kind is listed, fact by fact, in every plan and manifest (`computed_from_table`): someone who knows all other
records may learn from such a fact alone, whatever the noise is. So the promise is made to someone who may know all
others only where the list is empty.
"""

from __future__ import annotations

from collections.abc import Sequence

Facts = tuple[str, ...]

BEST_FOR_TABLE = "the matrix, which is the best one for the table's own frequencies"
OBSERVED_RHO1 = "the matrix, which is computed from each value's share of the table and tells it"
RESPONSE_MATRICES = "the matrices, which are computed from how often each combination of values occurs"
SUB_TABLES = "which values occur, how many sub-tables there are, which values each has and how many records"
SUB_TABLE_MATRICES = "the matrix of each sub-table, which is computed from the shares of the protected values in it"
BUCKET_COUNTS = "how often each value occurs among the published records, and in each group"
BUCKET_NUMBER = "how many groups there are, and how many records each has"
WITHHELD = "how many records are withheld"
ROW_ORDER = "the order of the rows, which is the table's: it is published only where a test found no dependence on it"


def observed_domain(column: str) -> str:
    """Return the fact that a column's domain was read off the table."""
    return f"the values of {column}, which are those that occur"


def left_out(columns: Sequence[str]) -> str:
    """Return the fact that rows without a value are left out."""
    return f"which rows are published, and how many: those without a value of {', '.join(columns)} are left out"


def listed(facts: Sequence[str]) -> str:
    """Return the facts as one sentence, empty where there are none."""
    return f"Computed from the table: {'; '.join(facts)}." if facts else ""
