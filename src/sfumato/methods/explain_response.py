"""The plan of randomized response in plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.claims.claim import percent
from sfumato.methods.explain import alone, guarantee_lines
from sfumato.values.requirement import exact

if TYPE_CHECKING:
    from sfumato.methods.response_plan import ResponsePlan

RISKS = {
    "posterior": "belief in a value by who sees the published quasi-identifiers of a row: expected shares",
    "link": "hits by who links on the published quasi-identifiers: expected shares",
    "reconstruction": "right row and right value by drawing, AD Eq. (6)",
}


ALONE_IN_RESPONSE = (
    "Before the noise, someone who knows these finds the record. It takes much noise to hide it; coarser bins help."
)


def explain_response(plan: ResponsePlan) -> str:
    """Return what will happen, what is limited, what binds, what it costs."""
    return "\n".join(
        [
            *_what(plan),
            *alone(plan.uniqueness, ALONE_IN_RESPONSE),
            "",
            *guarantee_lines(plan.guarantee, plan.computed_from_table),
            "",
            *_attributes(plan),
            "",
            *_risks(plan),
            "",
            *_binding(plan),
            "",
            *_cost(plan),
            "",
            *_trade_off(plan),
            "",
            "Notes",
            *(f"  - {note}" for note in plan.notes),
        ]
    )


def _what(plan: ResponsePlan) -> list[str]:
    value = " / ".join(plan.claim.sensitive)
    shown = [] if value in _randomized(plan) else [f"{value} is published unchanged: every row shows the true one."]
    return [
        f"{plan.rows:,} records in {plan.figures.groups:,} groups by {', '.join(plan.claim.quasi_identifiers)}; "
        f"{plan.figures.single_valued:,} of these have a single {' / '.join(plan.claim.sensitive)}. "
        f"Method {plan.method}, assurance {plan.assurance}.",
        f"Each record keeps its {', its '.join(_randomized(plan))} each with a probability of its own, and otherwise "
        "gets another value, all others alike; each by itself. All other published columns stay as they are, but for "
        "bins and merged values. Then the rows are shuffled.",
        *shown,
    ]


def _randomized(plan: ResponsePlan) -> list[str]:
    return [attribute.name for attribute in plan.figures.attributes if attribute.diagonal < 1]


def _attributes(plan: ResponsePlan) -> list[str]:
    lines = [f"  {'attribute':30} {'values':>7} {'retention':>10} {'diagonal':>9} {'epsilon':>9}"]
    for a in plan.figures.attributes:
        epsilon = "infinite" if a.epsilon is None else f"{a.epsilon:.4f}"
        lines.append(f"  {a.name[:30]:30} {a.values:>7,} {a.retention:>10.4g} {a.diagonal:>9.6f} {epsilon:>9}")
    return ["Attributes: the diagonal is the probability that a value stays; 1 leaves the column untouched", *lines]


def _risks(plan: ResponsePlan) -> list[str]:
    figures = plan.figures
    lines = [
        f"  {name:15} {risk:.6f}  {RISKS[name]}" + ("; limited" if name == plan.claim.risk else "")
        for name, risk in figures.risks.items()
    ]
    lines += [f"  {name:15} not evaluated: the domain is too large" for name in RISKS if name not in figures.risks]
    if figures.link_with_own_row is not None:
        lines.append(
            f"  {'link, own row':15} {figures.link_with_own_row:.6f}  at most: the same, counting that the "
            "person's own row is among those taken"
        )
    lines += [
        f"  {plan.claim.risk}, {name} alone: {risk:.6f}; the limit is on combinations"
        for name, risk in figures.risks_alone.items()
    ]
    return [
        "Largest risks",
        *lines,
        f"  {'best guesser':15} {figures.guesser_maximum:.6f}  at most; {figures.guesser_mean:.6f} on average over the "
        "records: who estimates the table from many such records and guesses; no limit holds this",
    ]


def _binding(plan: ResponsePlan) -> list[str]:
    figures = plan.figures
    head = ", ".join(plan.claim.quasi_identifiers) + " / " + " / ".join(plan.claim.sensitive)
    lines = [f"  {', '.join(b.values[:-1])} / {b.values[-1]}: {b.risk:.6f} of {b.limit:.6f}" for b in figures.binding]
    more = figures.binding_cells - len(lines)
    kind = " (combinations as they are published)" if plan.claim.risk == "posterior" else ""
    return [f"Nearest to the limit: {head}{kind}", *lines, *([f"  ... and {more:,} more"] if more else [])]


def _cost(plan: ResponsePlan) -> list[str]:
    figures = plan.figures
    return [
        "Utility and cost",
        f"  kappa = {figures.kappa:.6g}: the estimated joint table has the expected squared error (kappa - 1)/N = "
        f"{figures.expected_l2:.4g}; holding all combinations to be alike has {figures.uniform_l2:.4g}",
        *(
            [f"  expected chi-square distance of the estimated joint table: {figures.expected_error:.4g}"]
            if plan.objective == "chi-square"
            else []
        ),
        f"  with retentions that are not rounded to two digits it would be {figures.best_l2:.4g}",
        f"  expected share of records with no value changed: {plan.record_utility:.4f}",
    ]


def _trade_off(plan: ResponsePlan) -> list[str]:
    if not plan.figures.trade_off:
        cells = f"{plan.figures.cells:,}"
        return [f"No trade-off curve: the domain has {cells} cells, and each point would take as long as the plan."]
    names = [a.name for a in plan.figures.attributes]
    searched = plan.claim.risk == "link" and plan.claim.limit.groups  # it is not the one without any retention then
    least = "the least risk found is" if searched else "the least risk is"
    lines = [f"  {'l':>2} {'kappa':>12} {'squared error':>13}  diagonal of {', '.join(names)}"]
    for point in plan.figures.trade_off:
        if point.kappa is None or point.expected_l2 is None or point.diagonal is None:
            lines.append(f"  {point.l:>2} cannot be kept: {least} {point.least_risk or 1:.6f}")
        else:
            kept = ", ".join(f"{p:.4f}" for p in point.diagonal)
            lines.append(f"  {point.l:>2} {point.kappa:>12.6g} {point.expected_l2:>13.4g}  {kept}")
    whose = "all other records, while groups keep theirs," if plan.claim.limit.groups else "all records"
    stated = percent(exact(plan.claim.limit.limit))
    return [f"What another limit 1/l for {whose} would cost (stated: {stated})", *lines]
