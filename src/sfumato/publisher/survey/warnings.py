"""What in a survey should make the publisher stop and think, each with what to do about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato.publisher.policy import Policy
from sfumato.publisher.survey.model import Column, Feasible, Prediction, RowOrder, Sensitive
from sfumato.publisher.survey.text import Survey
from sfumato.values.attributes import LEFT_OUT_ROLES

MANY_UNIQUE = 0.05
SHOWN = 5


def column_warnings(columns: Sequence[Column]) -> Iterator[str]:
    """Yield what the columns alone tell."""
    if len(columns) == 1 and any(mark in columns[0].name for mark in ";\t|"):
        yield (
            f"The table has one column, {columns[0].name!r}: the file seems to have another delimiter. "
            'State it in the policy: [input] delimiter = ";".'
        )
    doubtful = [c for c in columns if c.role not in LEFT_OUT_ROLES and c.looks_missing]
    if doubtful:
        shown = ", ".join(
            f"{c.name!r} ({', '.join(map(repr, c.missing_texts))}: {c.looks_missing:,})" for c in doubtful
        )
        yield (
            f"Texts that look missing are taken as values, in {shown}. If they are missing, say so (CSV: [input] "
            "missing_values), or empty them."
        )


def policy_warnings(survey: Survey, policy: Policy) -> Iterator[str]:
    """Yield what matters for publishing under this policy."""
    yield from _missing(survey.columns, policy)
    yield from _infeasible(survey.feasibility or ())
    yield from _repeated(survey, policy)
    yield from _unique(survey, policy)
    if survey.prediction and survey.sensitive:
        if policy.method.publishes_buckets:
            yield from _associated(survey.prediction, survey.sensitive, policy.method.known_columns)
        else:
            yield from _predicted(survey.prediction, survey.sensitive)
        yield from _rare(survey.sensitive)
    if survey.row_order:
        yield from _ordered(survey.row_order)


def _missing(columns: Sequence[Column], policy: Policy) -> Iterator[str]:
    for column in columns:
        rule = policy.columns[column.name]
        if column.missing and rule.missing == "error" and rule.role not in LEFT_OUT_ROLES:
            yield (
                f"Publishing would stop: {column.name!r} is missing in {column.missing:,} row(s). "
                'Say what that means: missing = "category" or "drop".'
            )


def _infeasible(cases: Sequence[Feasible]) -> Iterator[str]:
    for case in cases:
        if case.from_policy and case.reason:
            yield f"The policy's own requirement cannot be met: {case.reason}"
        elif case.from_policy and case.invertible is False:
            yield (
                "Under the policy's own requirement counts can only be estimated without error bars: the "
                "matrix has no inverse."
            )


def _repeated(survey: Survey, policy: Policy) -> Iterator[str]:
    p = survey.persons
    if p is None or not p.with_several_rows:
        return
    fact = f"{p.with_several_rows:,} of {p.persons:,} persons ({p.column!r}) have several rows, up to {p.most_rows:,}."
    if p.repeated == "error":
        yield (
            f"Publishing would stop: {fact} The guarantee is for one row per person. "
            + (
                'Say what to do: person.repeated = "keep-one" or "per-row".'
                if not policy.method.why_not_one
                else 'Keep one row of each in the table, or say person.repeated = "per-row".'
            )
        )
    if p.repeated == "per-row":
        yield f"{fact} The guarantee is per row: what is learned of a person adds up over the rows."


def _unique(survey: Survey, policy: Policy) -> Iterator[str]:
    u = survey.uniqueness
    if u is None or u.unique_share < MANY_UNIQUE:
        return
    alone = f"{u.unique_share:.1%} of the records are alone with their quasi-identifiers"
    if policy.method.publishes_buckets:
        yield (
            f"{alone}: whoever knows these finds the record and its group, and only the other records of the group "
            "protect it. Coarser bins or merged values help."
        )
    elif policy.linked:
        yield (
            f"{alone}: a group of one record has one sensitive value, and it takes much noise in the quasi-identifiers "
            "to hide it. Coarser bins or merged values help."
        )
    else:
        yield (
            f"{alone}: whoever knows these finds the record, and only the noise on the sensitive value protects it. "
            "Coarser bins or merged values help."
        )


def _associated(prediction: Prediction, sensitive: Sensitive, known: Sequence[str]) -> Iterator[str]:
    """What the bound of groups does not cover. known: columns of attribute sets, which it covers."""
    telling = [p.column for p in prediction.predictors if p.clear and p.column not in known]
    if telling:
        shown = ", ".join(map(repr, telling[:SHOWN])) + (", ..." if len(telling) > SHOWN else "")
        yield (
            f"{len(telling)} column(s) tell of {' / '.join(sensitive.columns)!r}: {shown}. Groups hide who of them has "
            "which value only from one who does not know that. The method robust-anatomy, with the columns of which it "
            "may be known in its attribute_sets, is for who does."
        )


def _predicted(prediction: Prediction, sensitive: Sensitive) -> Iterator[str]:
    """All columns in one warning: what to do about them is the same."""
    telling = [p for p in prediction.predictors if p.clear and p.role == "other"]
    if not telling:
        return
    shown = ", ".join(f"{p.column!r} ({p.hit_rate:.1%}, {p.information:.2f} bits)" for p in telling)
    yield (
        f"{len(telling)} `other` column(s) tell {' / '.join(sensitive.columns)!r}: {shown}. So often a guess by the "
        f"column is right (by the most common value: {telling[0].baseline:.1%}), and so much it shifts the odds. "
        "They are published as they "
        'are, and undo the blur. Drop them (role = "drop"), coarsen them (bins, merge), or make them '
        "sensitive "
        "too; if attackers know them anyway, they are quasi-identifiers."
    )


def _rare(sensitive: Sensitive) -> Iterator[str]:
    if not sensitive.rare:
        return
    shown = ", ".join(f"{r.value!r} ({r.records})" for r in sensitive.rare[:SHOWN])
    more = f" and {len(sensitive.rare) - SHOWN:,} more" if len(sensitive.rare) > SHOWN else ""
    yield (
        f"{len(sensitive.rare):,} value(s) of {' / '.join(sensitive.observed)!r} have fewer than 5 records: "
        f"{shown}{more}. The domain is read off the table, so it tells that somebody has them. Declare the "
        "domain, or merge them (merge = { NAME = [VALUES] })."
    )


def _ordered(order: RowOrder) -> Iterator[str]:
    if order.dependent:
        yield f"{order.statement} A release in this order would tell it; it will be shuffled."
