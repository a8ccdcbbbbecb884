"""The plan that was signed off before a release: it is named only where it is the plan that the release carries out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sfumato.analyst.release import Release
from sfumato.auditor.codes import text_of
from sfumato.errors import PlanMismatch
from sfumato.methods import load_plan
from sfumato.methods.plan import Plan
from sfumato.publisher.table import Table
from sfumato.release.manifest import mechanism_parts, response_part


def signed_plan(file: str | Path, table: Table, release: Release) -> Plan:
    """Return the plan of a file; raise unless it is for this table and policy, and the release is that plan.

    Table and policy are not enough: where a plan is drawn at random, they have many plans.
    """
    plan = load_plan(file)
    plan.require(table.hash(), table.policy.hash())
    if differing := next(_differing(plan, release), None):
        raise PlanMismatch(
            f"The release was not made by the plan {str(file)!r}: another {differing} is stated in its manifest.",
            "Give the plan that was published (sfumato publish --plan FILE).",
        )
    return plan


def _differing(plan: Plan, release: Release) -> Iterator[str]:
    """Yield what the manifest states otherwise than the plan."""
    manifest = release.manifest
    if (plan.method, plan.assurance) != (manifest.method, manifest.assurance):
        yield "method"
    if mechanism_parts(plan.claim, plan.mechanisms) != manifest.mechanisms:
        yield "matrix of probabilities"
    if response_part(plan.claim) != manifest.response:
        yield "limit on a risk"
    if plan.computed_from_table != manifest.computed_from_table:
        yield "list of what was computed from the table"
    if plan.rows != manifest.data.rows + manifest.withheld:
        yield "number of records"
    if (planned := plan.figures.value_counts) is not None:
        texts = {tuple(map(text_of, value)): number for value, number in planned.items()}
        if texts != _listed(release):
            yield "number of withheld records"  # of each value; the draw decides it, where there is one


def _listed(release: Release) -> dict[tuple[str, ...], int]:
    """Return how often the groups of a release list each value."""
    part, names = release.manifest.groups, list(release.manifest.sensitive)
    assert part is not None
    found = release.groups_to_arrow().group_by(names).aggregate([(part.count_column, "sum")])
    columns = [map(text_of, found.column(name).to_pylist()) for name in names]
    numbers = found.column(f"{part.count_column}_sum").to_pylist()
    return dict(zip(zip(*columns, strict=True), numbers, strict=True))
