"""What a plan states is derived from the policy and its figures, and never believed: a plan file can come from anybody.

The hash that seals a plan file can be computed by whoever changes it. What follows from the policy (which columns are
hidden, their declared domains, whether rows are shuffled, what is claimed, what was computed from the table) must be
what the plan says. That the matrices keep their bounds, `Figures.require` tells; that the counts are the table's, the
engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.engines.rows.encoding import fitted
from sfumato.errors import PlanMismatch
from sfumato.methods import UNREADABLE
from sfumato.methods.plan import Plan, stated
from sfumato.publisher.table import Table, read_off
from sfumato.values.attributes import Attribute, Domain
from sfumato.values.computed import observed_domain


def check_derived(table: Table, plan: Plan) -> None:
    """Raise unless all that follows from the policy is stated so in the plan."""
    if wrong := next(_underivable(table, plan), None):
        raise PlanMismatch(
            f"The plan's {wrong} is not what follows from the policy.",
            "The plan file was changed after it was made, or is for another policy: plan again.",
        )


@contextmanager
def as_data(plan: Plan) -> Iterator[None]:
    """Let what checks stumble over in the numbers of a file be the file's mistake; in those of a planner it is ours."""
    try:
        yield
    except UNREADABLE as problem:
        if not plan.from_file:
            raise
        raise PlanMismatch(
            f"The plan's numbers or names cannot be used: {type(problem).__name__} while they were checked.",
            "The plan file was changed after it was made: plan again.",
        ) from None


def _underivable(table: Table, plan: Plan) -> Iterator[str]:
    policy, schema, figures = table.policy, table.schema, plan.figures
    method, names = policy.method, [part.name for part in figures.hidden]
    if not method.hides(schema, names) or len(set(names)) < len(names):
        yield "list of hidden columns"
        return
    counted = {*schema.names("sensitive"), *method.randomized(schema)}
    declared = {name: fitted(schema[name], table.source.column_type(name)) for name in counted}
    if any(_declared(declared[part.name]) not in (None, part) for part in figures.hidden):
        yield "domain"
    if sorted(plan.observed) != sorted(name for name in counted if declared[name].declared is None):
        yield "list of observed domains"
    if plan.from_file and not plan.shuffle and not (policy.output.order == "keep" and method.keeps_order):
        yield "order of the rows"
    if method.claim_for(figures, policy.requirement) != plan.claim:
        yield "claim"
    known = (*map(observed_domain, plan.observed), *read_off(policy))
    computed, guarantee = stated(method, figures, known, keeps_order=not plan.shuffle)
    if computed != plan.computed_from_table:
        yield "list of what was computed from the table"
    if guarantee != plan.guarantee:
        yield "guarantee"


def _declared(attribute: Attribute) -> Domain | None:
    """Return the domain that the policy declares, if it does."""
    return None if attribute.declared is None else Domain(attribute.name, attribute.declared, attribute.ordered)
