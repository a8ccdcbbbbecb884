"""Keeping the table's row order: refused where position tells of the value, and stated where it is done.

Whether the rows keep their order is the policy's choice, never the table's: a flag that a test on the secret decides
publishes the result of the test. But a refusal is such a test too, so that a release in the table's order lists the
order among what was computed from the table.
"""

from __future__ import annotations

from sfumato.errors import Infeasible
from sfumato.values.computed import ROW_ORDER, Facts
from sfumato.values.profile import Profile


def row_order_facts(profile: Profile) -> Facts:
    """Return what the order of the rows tells; raise if it is to be kept and tells of the sensitive value."""
    if not profile.keeps_order:
        return ()
    if profile.order.dependent:
        raise Infeasible(
            f"The rows cannot keep their order: {profile.order.statement[0].lower()}{profile.order.statement[1:]}",
            'Say order = "shuffle" in [output], or leave it out: rows are then published in a random order.',
        )
    return (ROW_ORDER,)
