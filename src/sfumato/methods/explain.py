"""A plan in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.values.computed import Facts, listed

if TYPE_CHECKING:
    from sfumato.claims.claim import Guarantee
    from sfumato.methods.plan import PartitionFigures, Plan
    from sfumato.values.profile import Uniqueness

SHOWN_MATRIX = 8
SHOWN_VALUES = 15
RAISING = "raising the retention of either value of a pair would break the bound"


def explain_plan(plan: Plan) -> str:
    """Return what will happen, what is guaranteed, what binds, what it costs."""
    return "\n".join(
        [
            *_what(plan),
            *alone(plan.uniqueness, ALONE_IN_NOISE),
            "",
            *guarantee_lines(plan.guarantee, plan.computed_from_table),
            "",
            *(_sub_tables(plan, plan.partition) if plan.partition else _matrix(plan)),
            "",
            *_values(plan),
            "",
            *([] if plan.partition else [*_binding(plan), ""]),
            *_cost(plan),
            "",
            "Notes",
            *(f"  - {note}" for note in plan.notes),
        ]
    )


ALONE_IN_NOISE = "Someone who knows these finds the record; only the noise protects it. Coarser bins help."


def alone(found: Uniqueness | None, meaning: str) -> list[str]:
    """Return the part of every plan that says how many records can be found; nothing if that was not counted."""
    return [] if found is None else [f"{found.sentence} {meaning if found.unique_records else ''}".rstrip()]


def guarantee_lines(guarantee: Guarantee, computed: Facts) -> list[str]:
    """Return the part of every plan that says what is guaranteed, against whom."""
    card = guarantee.card
    holds = f"Holds for {guarantee.scope}, {' and '.join(guarantee.directions)}."
    facts = [listed(computed)] if computed else []
    lines = (card.promise, card.attacker, card.prior, holds, card.strength, *facts, *card.not_covered)
    return ["Guarantee", *(f"  {line}" for line in lines)]


def _what(plan: Plan) -> list[str]:
    order = "Then the rows are shuffled." if plan.shuffle else "The rows stay in their order."
    return [
        f"{plan.rows:,} records; {plan.domain.name} has {plan.domain.size:,} values. "
        f"Method {plan.method}, assurance {plan.assurance}.",
        f"{_how(plan)} All other published columns stay as they are, but for bins and merged values. {order}",
    ]


def _how(plan: Plan) -> str:
    kept = [p for table in plan.mechanism.tables if (p := table.matrix.retention) is not None]
    if not kept:
        own = plan.matrix.diagonal
        return (
            f"Each record is published with its own {plan.domain.name} with probability {own.min():.2%} to "
            f"{own.max():.2%}, and otherwise with another of all {plan.domain.size:,} values, by its column of the "
            "matrix."
        )
    low, high = min(float(p.min()) for p in kept), max(float(p.max()) for p in kept)
    shown = f"{low:.2%}" if math.isclose(low, high) else f"{low:.2%} to {high:.2%}"
    draws = f"keeps its {plan.domain.name} with probability {shown} (its retention) and otherwise draws one of all"
    if plan.mechanism.label is None:
        return f"Each record {draws} {plan.mechanism.tables[0].codes.size:,} values."
    return (
        f"The records are dealt at random to {len(plan.mechanism.tables):,} sub-tables, which the column "
        f"{plan.mechanism.label} tells. Each record {draws} values of its sub-table."
    )


def _sub_tables(plan: Plan, figures: PartitionFigures) -> list[str]:
    least = f"{figures.minimum_size:,} records at least" if figures.minimum_size else "no minimum size"
    balanced = f" ({figures.balancing_theta:,} for balancing)" if figures.balancing_theta != figures.theta else ""
    lines = [
        f"Sub-tables: {figures.sub_tables:,} of {figures.initial_groups:,} initial groups; theta = {figures.theta:,}"
        f"{balanced}; {least}; {figures.protected:,} values protected, {len(figures.unprotected):,} not",
        f"  {'sub-table':>9} {'records':>11} {'values':>7} {'rho1':>8} {'gamma':>9} {'retention':>10}",
    ]
    for number, (table, quotas) in enumerate(zip(plan.mechanism.tables, plan.quotas, strict=True), start=1):
        if number > SHOWN_VALUES:
            lines.append(f"  ... and {figures.sub_tables - SHOWN_VALUES:,} more in --json")
            break
        bound, kept = next((b for b in table.bounds if b.gamma is not None), None), table.matrix.retention
        assert kept is not None  # sub-tables have uniform matrices
        rho1, gamma = ("none", "none") if bound is None else (f"{float(bound.rho1 or 0):.4f}", _short(bound.gamma))
        lines.append(
            f"  {number:>9} {int(quotas.sum()):>11,} {table.codes.size:>7,} {rho1:>8} {gamma:>9} "
            f"{float(kept[0]):>10.4f}"
        )
    confidence = f"with confidence {1 - float(Fraction(figures.delta)):.4g} (delta = {figures.delta})"
    other = "as-published" if plan.assurance == "proved" else "proved"
    return [
        *lines,
        *_alone(figures),
        f"  mean retention: {figures.mean_retention:.4%} over sub-tables, {figures.record_retention:.4%} over records; "
        f"plain uniform perturbation of the values that occur: {figures.uniform_retention:.4%}",
        f"  error of one value's estimated share, {confidence}: at most {figures.valid_bound:.4g} "
        f"(the paper's eps(Part): {figures.published_bound:.4g})",
        f"  {other}, for comparison: {_tables(figures.other['sub_tables'])}, mean retention "
        f"{figures.other['mean_retention']:.4%} over sub-tables, {figures.other['record_retention']:.4%} over records; "
        f"bound {figures.other['valid_bound']:.4g}, eps(Part) {figures.other['published_bound']:.4g}",
    ]


def _alone(figures: PartitionFigures) -> Iterator[str]:
    """Yield how far beliefs in one of several columns can go, by the shares of the sub-tables."""
    if figures.alone:
        yield "  one column alone: the largest belief by the shares of a sub-table, before and after a published value"
    for of_column in figures.alone:
        kind = "protected" if of_column.protected else "not protected"
        yield (
            f"    {of_column.column} = {of_column.value} ({kind}): {of_column.share:.4f}, {of_column.belief:.4f} "
            f"(sub-table {of_column.sub_table:,})"
        )


def _tables(number: float) -> str:
    return f"{number:,} sub-table{'' if number == 1 else 's'}"


def _short(number: Fraction | None) -> str:
    return "none" if number is None else f"{float(number):.4g}"


def _matrix(plan: Plan) -> list[str]:
    head = "Matrix: row = published value, column = original value; columns sum to one"
    if plan.domain.size > SHOWN_MATRIX:
        if plan.matrix.retention is None:
            return [f"{head}. It has {plan.domain.size:,} values, too many to show."]
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
    errors, gammas, retention, diagonal = plan.standard_error, plan.gamma, plan.retention, plan.diagonal
    lines = [f"  {'value':24} {'records':>10} {'gamma':>10} {'retention':>10} {'diagonal':>9} {'std. error':>11}"]
    for c in order:
        error = "none" if errors is None else f"{errors[c]:,.1f}"
        gamma = "none" if math.isinf(gammas[c]) else f"{gammas[c]:.4g}"
        lines.append(
            f"  {plan.domain.labels[c][:24]:24} {plan.counts[c]:>10,} {gamma:>10} "
            f"{_share(retention[c]):>10} {_share(diagonal[c]):>9} {error:>11}"
        )
    more = plan.domain.size - len(order)
    return ["Values, the most frequent first" + (f" ({more:,} more in --json)" if more > 0 else ""), *lines]


def _share(number: float) -> str:
    return "none" if math.isnan(number) else f"{number:.4f}"


def _binding(plan: Plan) -> list[str]:
    given = plan.mechanism.tables[0].matrix.retention is None
    if not plan.bindings:
        why = "every bound of the given matrix has room" if given else "nothing is required, or everything is retained"
        return [f"No constraint binds: {why}."]
    lines = [
        f"  {b.value}, {b.direction}, against {b.against} (gamma = {b.gamma:.4g})" for b in plan.bindings[:SHOWN_VALUES]
    ]
    more = len(plan.bindings) - len(lines)
    room = "the given matrix leaves no room" if given else RAISING
    head = f"What binds: {room}"
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
    if plan.uniform:
        lines.append(
            "  plain uniform perturbation with the strictest requirement: record utility "
            f"{plan.uniform.record_utility:.4f}, expected total variation {plan.uniform.total_variation:.4f}"
        )
    epsilon = "infinite" if math.isinf(plan.mechanism.epsilon) else f"{plan.mechanism.epsilon:.4f}"
    return [
        *lines,
        f"  local differential privacy of the sensitive attribute: epsilon = {epsilon}",
        f"  condition number of the matrix (2-norm): {plan.mechanism.condition_number:.4g}",
    ]
