"""The plan of a release by groups in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.methods.explain import SHOWN_VALUES, alone, guarantee_lines

if TYPE_CHECKING:
    from sfumato.methods.bucket_plan import GroupPlan, RobustFigures, SuppressionFigures, WithheldCell

COSTS = {
    "rotation": "proved",
    "spread": "proved; the least that is",
    "safe-d": "proved; bounds the belief about one missing person too",
    "r-suppression": "as published, expected; its theorem fails",
    "unsafe-d": "for comparison: no way to l-dichotomy withholds less",
    "minimal": "for comparison: the most frequent value can be told",
}


ALONE_IN_GROUPS = (
    "Someone who knows these finds the record and its group; only the other records of the group protect it. Coarser "
    "bins help."
)


def explain_groups(plan: GroupPlan) -> str:
    """Return what will happen, what is limited, what is withheld, what is left to believe."""
    parts = [
        [*_what(plan), *alone(plan.uniqueness, ALONE_IN_GROUPS)],
        guarantee_lines(plan.guarantee, plan.computed_from_table),
        _suppression(plan, plan.suppression) if plan.suppression else [],
        _robustness(plan, plan.robustness) if plan.robustness else [],
        _values(plan),
        ["Notes", *(f"  - {note}" for note in plan.notes)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _what(plan: GroupPlan) -> list[str]:
    withheld = int(plan.withheld.sum())
    published = f"{withheld:,} of them ({withheld / plan.rows:.2%}) are withheld, the others" if withheld else "All"
    if not plan.exact:
        published = f"In a rehearsal {published[0].lower()}{published[1:]}"
    nearly = "" if plan.exact else "; the release has about as many"
    return [
        f"{plan.rows:,} records; {plan.domain.name} has {plan.domain.size:,} values. "
        f"Method {plan.method}, assurance {plan.assurance}.",
        f"{published} are {_put(plan)} {plan.groups:,} groups{_size(plan)}{nearly}. Two tables are published: one with "
        "the number of each record's group and all other columns, which stay as they are but for bins and "
        "merged values; and one with "
        f"each group's values of {plan.domain.name}, which are true. Which record of a group has which value is "
        "hidden.",
    ]


def _put(plan: GroupPlan) -> str:
    merged = plan.robustness is not None and plan.assurance == "as-published"
    return "merged bottom-up to" if merged else "dealt at random to"


def _size(plan: GroupPlan) -> str:
    """How large groups are, where the deal makes them all alike, and what they have in common."""
    if plan.robustness:
        return f" of records with the same {', '.join(plan.claim.dealt_within)}" if not plan.robustness.mixed else ""
    least, over = divmod(int(plan.published.sum()), plan.groups)
    return f" of {f'{least} or {least + 1}' if over else least} records, none with a value twice"


def _values(plan: GroupPlan) -> list[str]:
    order = np.argsort(-plan.counts, kind="stable")[:SHOWN_VALUES]
    lines = [f"  {'value':24} {'records':>10} {'share':>8} {'withheld':>10} {'published':>10} {'share':>8}"]
    total = max(1, int(plan.published.sum()))
    for c in order:
        lines.append(
            f"  {plan.domain.labels[c][:24]:24} {plan.counts[c]:>10,} {plan.counts[c] / plan.rows:>8.2%} "
            f"{plan.withheld[c]:>10,} {plan.published[c]:>10,} {plan.published[c] / total:>8.2%}"
        )
    more = plan.domain.size - len(order)
    head = "Values, the most frequent first" + (f" ({more:,} more in --json)" if more > 0 else "")
    return [head if plan.exact else f"{head}; withheld and published: in the rehearsal", *lines, *_alike(plan)]


def _alike(plan: GroupPlan) -> list[str]:
    """What one withheld record tells of the others."""
    if not plan.withheld.any():
        return []
    largest = int(plan.withheld.max()) / int(plan.withheld.sum())
    return [
        f"  One value has {largest:.1%} of the withheld records: who knows the value of one missing person, his own "
        "for instance, can tell that of others."
    ]


# --- suppression ------------------------------------------------------------------------------------------------------


def _suppression(plan: GroupPlan, figures: SuppressionFigures) -> list[str]:
    if not plan.withheld.any() and not plan.claim.always:
        return _nothing_withheld(plan)
    return [
        f"Suppression: {_why(plan, figures)}. The variant {plan.claim.variant} withholds "
        f"{int(plan.withheld.sum()):,} records ({figures.share:.2%}); which ones of a value is drawn.",
        f"  {'variant':14} {'withholds':>11}",
        *(
            f"  {name:14} {cost:>11,.{0 if cost.is_integer() else 1}f}  {COSTS[name]}"
            for name, cost in figures.costs.items()
        ),
        *([f"  lower bound: {figures.lower_bound:,} records"] if figures.violating else []),
        "",
        *_beliefs(figures),
    ]


def _nothing_withheld(plan: GroupPlan) -> list[str]:
    """A table in which no value is too frequent is published as it is."""
    top = int(plan.counts.max())
    first = [repr(plan.domain.labels[code]) for code in np.flatnonzero(plan.counts == top)[:SHOWN_VALUES]]
    tied = f"The most frequent values ({', '.join(first)}) share" if len(first) > 1 else f"{first[0]} has"
    return [
        f"Suppression: no value has more than 1/{plan.claim.at_most.denominator} of the table, so nothing is withheld. "
        f"All counts are exact, and which value is the most frequent is public: {tied} {top / plan.rows:.2%}"
        f"{' each' if len(first) > 1 else ''}."
    ]


def _why(plan: GroupPlan, figures: SuppressionFigures) -> str:
    ell = plan.claim.at_most.denominator
    if figures.violating:
        return f"more than 1/{ell} of the table has {', '.join(map(repr, figures.violating))}"
    return f"no value has more than 1/{ell} of the table; always = true hides all the same which is the most frequent"


def _beliefs(figures: SuppressionFigures) -> list[str]:
    bounds = (
        f"for each value at most {figures.dominant_bound} and {figures.violating_bound}, by proof; the second for "
        "someone who knows how many values are violating"
        if figures.dominant_bound
        else "no bound is proved"
    )
    lines = [
        "How sure someone can be of a value who knows the sorted counts of the table but not whose they are",
        f"  {'published with':>14} {'values':>7} {'most frequent':>14} {'violating':>10} {'missing person':>15} "
        f"{'any person':>11}",
    ]
    for belief in figures.beliefs[:SHOWN_VALUES]:
        lines.append(
            f"  {belief.published:>14,} {belief.values:>7,} {belief.dominant:>14.4f} {belief.violating:>10.4f} "
            f"{belief.missing:>15.4f} {belief.member:>11.4f}"
        )
    return [
        *lines,
        f"  Most frequent, violating (more than 1/l of the table): {bounds}. Missing person: that a "
        "person has it who is known to be in the table and missing from the release. Any person: of one known to be in "
        "the table. Values with other published counts lost no record.",
    ]


# --- robust Anatomy ---------------------------------------------------------------------------------------------------


def leftover_line(plan: GroupPlan, figures: RobustFigures) -> str:
    """Return what the formula tells before a record is dealt."""
    r = plan.claim.at_most.denominator
    return (
        f"Groups inside cells ({figures.cells:,} combinations of {', '.join(plan.claim.dealt_within)}) leave over "
        f"{figures.leftover:,} of {plan.rows:,} records: the sum over cells c and values x of max(0, n_cx - g_c), g_c "
        f"the largest number with sum_x min(n_cx, g_c) >= {r} g_c."
    )


def _robustness(plan: GroupPlan, figures: RobustFigures) -> list[str]:
    return [
        "Leftovers, by a formula, before a record is dealt",
        f"  {leftover_line(plan, figures)}",
        "",
        *_withheld(plan, figures),
        "",
        *_posteriors(plan, figures),
    ]


def _withheld(plan: GroupPlan, figures: RobustFigures) -> list[str]:
    proved, withheld = plan.assurance == "proved", int(plan.withheld.sum())
    guests = f"{figures.mixed:,} groups take one of them as a guest" if plan.priors else "no prior, and so no guests"
    mixed = guests if proved else f"{figures.mixed:,} groups mix cells"
    how = "By the formula" if plan.exact else "Rehearsal on the counts"
    told = f"{how}: {mixed}; {withheld:,} records are withheld"
    if not withheld:
        return [f"{told}."]
    more = figures.withheld_cells - len(figures.withheld)
    return [
        f"{told}, in {figures.withheld_cells:,} cells by {', '.join(plan.claim.dealt_within)}",
        *(f"  {_cell(cell)}" for cell in figures.withheld),
        *([f"  ... and {more:,} more cells"] if more else []),
        "  What would help: a lower r; a coarser column, or one less, in the attribute sets, so that cells merge; if "
        "one of these values need not be hidden, publishing its records apart, as they are; or accept that they are "
        "withheld.",
    ]


def _cell(cell: WithheldCell) -> str:
    whole = f"; none at r <= {cell.largest_r}" if cell.largest_r > 1 else "; some at every r"
    return (
        f"({', '.join(cell.cell)}): {cell.withheld:,} of {cell.records:,} withheld, with "
        f"{', '.join(map(repr, cell.values))}{whole}"
    )


def _posteriors(plan: GroupPlan, figures: RobustFigures) -> list[str]:
    r, prior = plan.claim.at_most.denominator, plan.claim.prior
    under = {"none": "any prior", "table": "the table's own shares", "file": "the shares of the files"}[prior or "none"]
    beside = under if prior != "none" else "the table's own shares"
    whole = (
        f" (of {plan.groups:,} groups, {figures.examined:,} were examined)" if figures.examined < plan.groups else ""
    )
    rehearsed = "" if plan.exact else " of the rehearsal"
    return [
        f"Largest belief in a value of a published record{rehearsed}, under {under}: {figures.worst:.4f}, where 1/r = "
        f"{1 / r:.4f}. {figures.breach:.2%} of the published records are in groups that exceed it{whole}.",
        *(
            f"  {name:28} holds for {groups:>9,} of {figures.examined:,} groups"
            for name, groups in figures.checks.items()
        ),
        f"  Plain Anatomy with l = {r}, for comparison, under {beside}: {figures.plain_breach:.2%} of the records in "
        f"groups that exceed it; largest belief {figures.plain_worst:.4f}.",
    ]
