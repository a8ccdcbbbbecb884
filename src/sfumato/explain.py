"""A plan in plain words."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from sfumato.plans import Plan

SHOWN_MATRIX = 8
SHOWN_VALUES = 15


def explain_plan(plan: Plan) -> str:
    """Return what will happen, what is guaranteed, what binds, what it costs."""
    return "\n".join(
        [
            *_what(plan),
            "",
            "Guarantee",
            f"  {plan.guarantee.sentence}",
            f"  Adversary: {plan.guarantee.adversary}",
            f"  Prior: {plan.guarantee.prior}",
            f"  Holds for {plan.guarantee.scope}, {' and '.join(plan.guarantee.directions)}.",
            *(f"  Limit: {limit}" for limit in plan.guarantee.limits),
            "",
            *_matrix(plan),
            "",
            *_values(plan),
            "",
            *_binding(plan),
            "",
            *_cost(plan),
            "",
            "Notes",
            *(f"  - {note}" for note in plan.notes),
        ]
    )


def _what(plan: Plan) -> list[str]:
    low, high = float(plan.matrix.retention.min()), float(plan.matrix.retention.max())
    kept = f"{low:.2%}" if math.isclose(low, high) else f"{low:.2%} to {high:.2%}"
    order = "Then the rows are shuffled." if plan.shuffle else "The rows stay in their order."
    return [
        f"{plan.rows:,} records; {plan.domain.name} has {plan.domain.size:,} values. "
        f"Method {plan.method}, assurance {plan.assurance}.",
        f"Each record keeps its {plan.domain.name} with probability {kept} (its retention) and otherwise "
        "draws one of all "
        f"{plan.domain.size:,} values. All other published columns stay as they are, but for bins. {order}",
    ]


def _matrix(plan: Plan) -> list[str]:
    head = "Matrix: row = published value, column = original value; columns sum to one"
    if plan.domain.size > SHOWN_MATRIX:
        return [
            f"{head}: an original value i becomes any one other value with probability (1 - retention_i) / "
            f"{plan.domain.size:,}, and itself with its diagonal."
        ]
    width = max(8, *(len(name) for name in plan.domain.labels))
    rows = [f"  {'':{width}} " + " ".join(f"{name:>{width}}" for name in plan.domain.labels)]
    for name, row in zip(plan.domain.labels, plan.matrix.dense(), strict=True):
        rows.append(f"  {name:{width}} " + " ".join(f"{x:>{width}.4f}" for x in row))
    return [head + ":", *rows]


def _values(plan: Plan) -> list[str]:
    order = np.argsort(-plan.counts, kind="stable")[:SHOWN_VALUES]
    errors = plan.standard_error
    lines = [f"  {'value':24} {'records':>10} {'gamma':>10} {'retention':>10} {'diagonal':>9} {'std. error':>11}"]
    for c in order:
        error = "none" if errors is None else f"{errors[c]:,.1f}"
        gamma = "none" if math.isinf(plan.gamma[c]) else f"{plan.gamma[c]:.4g}"
        lines.append(
            f"  {plan.domain.labels[c][:24]:24} {plan.counts[c]:>10,} {gamma:>10} "
            f"{plan.matrix.retention[c]:>10.4f} {plan.matrix.diagonal[c]:>9.4f} {error:>11}"
        )
    more = plan.domain.size - len(order)
    return ["Values, the most frequent first" + (f" ({more:,} more in --json)" if more > 0 else ""), *lines]


def _binding(plan: Plan) -> list[str]:
    if not plan.bindings:
        return ["No constraint binds: nothing is required, or everything is retained."]
    lines = [
        f"  {b.value}, {b.direction}, against {b.against} (gamma = {b.gamma:.4g})" for b in plan.bindings[:SHOWN_VALUES]
    ]
    more = len(plan.bindings) - len(lines)
    head = "What binds: raising the retention of either value of a pair would break the bound"
    lines += [f"  ... and {more:,} more"] if more > 0 else []
    for x in plan.loosenings:
        who = ", ".join(x.values[:3]) + (f" and {len(x.values) - 3} more" if len(x.values) > 3 else "")
        lines.append(
            f"  Loosening gamma of {who} from {x.gamma:.4g} to {x.loosened:.4g} lifts record utility "
            f"from {plan.record_utility:.4f} to {x.record_utility:.4f}."
        )
    return [head, *lines]


def _cost(plan: Plan) -> list[str]:
    lines = [
        "Utility and cost",
        f"  record utility (share of unchanged records, FG Def. 3): {plan.record_utility:.4f}",
    ]
    if plan.other_assurance:
        name, utility = plan.other_assurance
        lines.append(f"  record utility of the {name} version: {utility:.4f}")
    if plan.total_variation is not None and plan.aggregate_utility is not None:
        lines += [
            f"  expected total variation of the estimated distribution: {plan.total_variation:.4f}",
            f"  expected aggregate utility (FG Def. 2; divides by m, so high by itself): {plan.aggregate_utility:.4f}",
        ]
    epsilon = "infinite" if math.isinf(plan.matrix.epsilon) else f"{plan.matrix.epsilon:.4f}"
    return [
        *lines,
        f"  local differential privacy of the sensitive attribute: epsilon = {epsilon}",
        f"  condition number of the matrix (2-norm): {plan.matrix.condition_number:.4g}",
    ]
