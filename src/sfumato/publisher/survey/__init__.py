"""The survey: what a publisher should know of a table before publishing it. Private, like every count.

columns        type, different values, missing ones (without a policy, only these)
uniqueness     how many records are alone with their quasi-identifiers
sensitive      skew, the largest l, rare values that the domain itself discloses
row order      does the sensitive value depend on the row's position?
prediction     which published columns tell the sensitive value?
persons        rows per person
errors         what analysts would be off by, under methods with one promise
feasibility    what each method would make of each requirement
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from sfumato.engines.base import Source
from sfumato.engines.embedded.counting import count_sensitive, group_sizes, shared
from sfumato.engines.rows.looking import PublishedRows
from sfumato.errors import CannotMeet, TableError, UsageError
from sfumato.methods import METHODS
from sfumato.methods.anatomy import Anatomy
from sfumato.methods.fine_grain import FineGrain
from sfumato.methods.method import Method
from sfumato.methods.perturbed import MOST_IN_ORDER
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.suppression.method import Suppression
from sfumato.methods.uniform import Uniform
from sfumato.publisher.policy import Policy
from sfumato.publisher.policy_rules import RequirementRule
from sfumato.publisher.survey.counting import describe_columns
from sfumato.publisher.survey.found import (
    Column,
    Feasible,
    Findings,
    Off,
    Persons,
    Predictor,
    RareValue,
    RowOrder,
    Sensitive,
    Survey,
    ValueShare,
)
from sfumato.publisher.survey.predictors import find_predictors
from sfumato.publisher.table import Table, check_columns, count_alone, no_progress
from sfumato.show.words import percent, share
from sfumato.values.arrays import IntArray, Progress
from sfumato.values.arrow import nan_as_null
from sfumato.values.attributes import LEFT_OUT_ROLES
from sfumato.values.looks import REMEDY
from sfumato.values.order import codes_in_order
from sfumato.values.profile import Profile, Uniqueness
from sfumato.values.requirement import Amplification, Diversity, LocalPrivacy, Requirement, RhoPrivacy, tolerance

FREQUENT = 10  # so many of the most frequent values are listed
FEW = 5  # a value that fewer records have is rare
MANY_UNIQUE = 0.05
SHOWN = 5  # so many names are listed in a warning
EPSILONS = (0.5, 1, 2, 3)
GAMMAS = (3, 4, 7.39)  # the last one is about epsilon = 2
TOLERANCES = (2, 3, 5, 10)
SHARES = (2, 5)
DIVERSITIES = (3, 5)
MOST_PARTITIONED = 1_000  # for a larger domain small domain randomization is planned only if the policy asks for it
MOST_VALUES = 5_000  # for a larger domain only the policy's own requirement is planned: each plan costs some seconds


def survey(source: Source, table: Table | None = None, progress: Progress = no_progress) -> Survey:
    """Survey a table; without a policy (`table` None) its columns only."""
    check_columns(source.names, source.names)
    if table is None:
        rows, columns = describe_columns(source, progress)
        return Survey(source.description, rows, columns, tuple(_column_warnings(columns)))
    passes = 3 + (table.policy.person is not None) + bool(table.policy.linked)
    return _under_policy(table, shared(progress, passes))


def _under_policy(table: Table, progress: Progress) -> Survey:
    rows, columns = describe_columns(table.source, progress)
    if not rows:
        raise TableError(f"{table.source.description!r} has no rows.", "Give a table with a row for each record.")
    columns = tuple(replace(c, role=table.schema[c.name].role) for c in columns)
    # not `table.profile`: it stops at a repeated person, which a survey has to tell of
    profile = count_sensitive(table.source, table.schema, progress, apart=table.policy.apart)
    linked = table.policy.linked
    joint = count_sensitive(table.source, table.schema, progress, None, linked) if linked else profile
    orders = [profile.order, *(each.order for each in profile.apart), *([profile.together] if profile.together else [])]
    order = min(orders, key=lambda test: test.p_value)
    wrong = _findings(table, profile, columns, rows, progress)
    found = Survey(
        table=table.source.description,
        rows=rows,
        columns=columns,
        warnings=(),
        uniqueness=count_alone(table),
        sensitive=_sensitive(profile),
        row_order=RowOrder(order.dependent, order.p_value, order.statement),
        prediction=wrong.prediction,
        persons=wrong.persons,
        feasibility=_feasibility(profile, table.policy, joint),
        errors=tuple(_errors(profile)) if profile.domain.size <= MOST_VALUES else None,
        apart=tuple(map(_sensitive, profile.apart)),
    )
    stops = [f"Publishing would stop: {stop} {REMEDY}" for stop in wrong.stops]
    told = [*stops, *wrong.refused, *wrong.notes]
    warnings = [*_column_warnings(columns), *told, *_policy_warnings(found, table.policy)]
    return replace(found, warnings=tuple(warnings))


def findings(table: Table, columns: Sequence[Column], rows: int, progress: Progress = no_progress) -> Findings:
    """Return what is wrong with columns, without the rest of a survey. `columns`: those that were described before."""
    report = shared(progress, 2 + (table.policy.person is not None))
    profile = count_sensitive(table.source, table.schema, report, apart=table.policy.apart)
    return _findings(table, profile, tuple(columns), rows, report)


def _findings(table: Table, profile: Profile, columns: tuple[Column, ...], rows: int, progress: Progress) -> Findings:
    published = PublishedRows(table.source, table.schema, table.schema.names("other", "quasi_identifier", "sensitive"))
    prediction = find_predictors(published, table, profile, columns, rows, progress)
    return Findings(
        stops=table.stops,
        rare=_rare(profile),
        prediction=prediction,
        persons=_persons(table, progress),
        refused=tuple(published.problems()),
        notes=published.recoding_notes(),
    )


def _sensitive(profile: Profile) -> Sensitive:
    frequency, counts, labels = profile.frequency, profile.counts, profile.domain.labels
    if not profile.rows:
        raise TableError(f"No row has a value of {profile.domain.name!r}.", "All rows are left out.")
    order = np.argsort(-counts, kind="stable")
    order = order[counts[order] > 0]
    first, last = order[:FREQUENT], order[FREQUENT:][-FREQUENT:][::-1]

    def shares(codes: IntArray) -> tuple[ValueShare, ...]:
        return tuple(ValueShare(labels[c], int(counts[c]), float(frequency[c])) for c in codes)

    positive = frequency[frequency > 0]
    entropy = float(-(positive * np.log(positive)).sum())
    return Sensitive(
        columns=profile.domain.names,
        records=profile.rows,
        dropped=profile.dropped,
        values=profile.domain.size,
        observed=profile.observed,
        unused=int((counts == 0).sum()),
        most_frequent=shares(first),
        largest_share=float(frequency.max()),
        entropy=abs(entropy) / math.log(profile.domain.size) if profile.domain.size > 1 else 0.0,
        eligible_l=profile.rows // int(counts.max()),
        rare=_rare(profile),
        ordered=_is_ordered(profile),
        least_frequent=shares(last),
    )


def _is_ordered(profile: Profile) -> bool:
    """Whether the values of the one sensitive column are all in order."""
    parts = profile.domain.parts
    return len(parts) == 1 and len(codes_in_order(parts[0])) == profile.domain.size


def _rare(profile: Profile) -> tuple[RareValue, ...]:
    """Return the rare values of each observed column; of several, each publishes a domain of its own."""
    grid = profile.counts.reshape(profile.domain.sizes)
    found = []
    for axis, part in enumerate(profile.domain.parts):
        counts = grid.sum(axis=tuple(a for a in range(grid.ndim) if a != axis))
        if part.name in profile.observed:
            few = np.flatnonzero((counts > 0) & (counts < FEW))
            found += [RareValue(part.name, part.labels[c], int(counts[c])) for c in few]
    return tuple(found)


def _persons(table: Table, progress: Progress) -> Persons | None:
    person = table.policy.person
    if person is None:
        return None
    kind = table.source.column_type(person.column)

    def present() -> Iterator[Any]:
        for batch in table.source.batches([person.column]):
            progress(batch.rows.num_rows)
            yield batch.rows.filter(nan_as_null(batch.rows.column(0)).is_valid())

    sizes = group_sizes(present(), [kind])
    persons, rows = sum(sizes.values()), sum(size * number for size, number in sizes.items())
    return Persons(
        column=person.column,
        repeated=person.repeated,
        persons=persons,
        with_several_rows=persons - sizes.get(1, 0),
        mean_rows=rows / max(1, persons),
        most_rows=max(sizes, default=0),
    )


# --- what analysts would be off by, under methods with one promise ---------------------------------------------------


def _errors(profile: Profile) -> Iterator[Off]:
    """Give the errors of every method that may be proposed, at usual gammas; of one that is not for the values, why."""
    for method in METHODS:
        if Amplification not in method.takes or not (method.proposed or method.left_out):
            continue
        if reason := method.unfit(profile.domain) or method.left_out or _too_many(method, profile):
            yield Off(method.name, reason=reason)
            continue
        for gamma in GAMMAS:
            try:
                expected = method().plan(profile, Amplification(gamma)).figures.expected
            except (CannotMeet, UsageError) as problem:
                yield Off(method.name, reason=problem.message)
                break
            yield Off(method.name, gamma, expected.count, expected.share, expected.mean)


def _too_many(method: type[Method], profile: Profile) -> str:
    if not method.for_order or profile.domain.size <= MOST_IN_ORDER:
        return ""
    return (
        f"There are {profile.domain.size:,} values; errors are told of up to {MOST_IN_ORDER}. Make them coarser first."
    )


# --- what each method makes of each requirement: planned on the counts, nothing published -----------------------------

Case = tuple[Method, Requirement, str]  # and how the requirement is shown


def _feasibility(profile: Profile, policy: Policy, joint: Profile) -> tuple[Feasible, ...]:
    """Return what each case gives, the policy's own first, which is planned on the profile `joint`."""
    cases: list[Case] = []
    if profile.domain.size <= MOST_VALUES:
        cases += [*_standard_cases(), *_small_domain_cases(profile), *_group_cases(profile)]
    asked = [f"{name}: {_shown(rule)}" for name, rule in policy.own_requirements]
    own = policy.method, policy.requirement, "; ".join(asked) if policy.apart else _shown(policy.requirement_rule)
    return (_tried(joint, *own, from_policy=True), *(_tried(profile, *case) for case in cases))


def _standard_cases() -> Iterator[Case]:
    for epsilon in EPSILONS:
        yield Uniform(), LocalPrivacy(epsilon), f"epsilon = {epsilon:g}"
    for theta in TOLERANCES:
        for method in (Uniform(), FineGrain()):
            yield method, tolerance(theta), f"tolerance = {theta:g}"


def _small_domain_cases(profile: Profile) -> Iterator[Case]:
    """All values protected: rho1 is the largest share."""
    if profile.domain.size <= MOST_PARTITIONED:
        largest = Fraction(int(profile.counts.max()), max(profile.rows, 1))
        for theta in SHARES:
            if theta * largest < 1:
                shown = f"rho1 = largest share, rho2 = {theta} rho1"
                yield SmallDomain(), RhoPrivacy(largest, theta * largest), shown


def _group_cases(profile: Profile) -> Iterator[Case]:
    """Anatomy, or suppression where a value is too frequent."""
    for l in DIVERSITIES:  # noqa: E741
        if l <= np.count_nonzero(profile.counts):
            method = Anatomy() if l * int(profile.counts.max()) <= profile.rows else Suppression()
            yield method, Diversity(l), f"l = {l}"


def _shown(rule: RequirementRule) -> str:
    """Return the policy's requirement in a few characters."""
    for name in ("epsilon", "gamma", "tolerance", "l", "r", "risk_limit"):
        if (number := getattr(rule, name)) is not None:
            groups = f" and {len(rule.groups)} group(s)" if rule.groups else ""
            return f"{name} = {number}{groups}"
    several = f"{len(rule.values)} per value" if rule.values else ""
    overall = f"rho {rule.rho1} to {rule.rho2}" if rule.rho2 is not None else ""
    return " and ".join(text for text in (overall, several) if text)


def _tried(
    profile: Profile, method: Method, requirement: Requirement, shown: str, *, from_policy: bool = False
) -> Feasible:
    told = partial(Feasible, method.name, method.assurance, shown, from_policy)
    try:
        made = method.plan(profile, requirement)
    except (CannotMeet, UsageError) as problem:
        return told(reason=problem.message)
    if not made.mechanisms:
        return told(published_share=(made.rows - made.figures.total_withheld) / made.rows)
    matrices = [table.matrix for mechanism in made.mechanisms for table in mechanism.tables]
    kept = [1 - matrix.pure_noise if matrix.retention is None else matrix.retention for matrix in matrices]
    return told(
        retention_low=min(float(p.min()) for p in kept),
        retention_high=max(float(p.max()) for p in kept),
        record_utility=made.figures.record_utility,
        sets=any(mechanism.form != "value" for mechanism in made.mechanisms),
        invertible=all(mechanism.is_invertible for mechanism in made.mechanisms),
        total_variation=made.figures.total_variation,
    )


# --- what should make the publisher stop and think, each with what to do about it -------------------------------------


def _column_warnings(columns: Sequence[Column]) -> Iterator[str]:
    """Yield what the columns alone tell."""
    if len(columns) == 1 and any(mark in columns[0].name for mark in ";\t|"):
        yield (
            f"The table has one column, {columns[0].name!r}: the file seems to have another delimiter. "
            'State it in the policy: [input] delimiter = ";".'
        )
    if doubtful := [c for c in columns if c.role not in LEFT_OUT_ROLES and c.looks_missing]:
        shown = [f"{c.name!r} ({', '.join(map(repr, c.missing_texts))}: {c.looks_missing:,})" for c in doubtful]
        yield (
            f"Texts that look missing are taken as values, in {', '.join(shown)}. If they are missing, say so (CSV: "
            "[input] missing_values), or empty them."
        )


def _policy_warnings(survey: Survey, policy: Policy) -> Iterator[str]:
    """Yield what matters for publishing under this policy."""
    for column in survey.columns:
        if column.missing and column.role not in LEFT_OUT_ROLES and policy.columns[column.name].missing == "error":
            yield (
                f"Publishing would stop: {column.name!r} is missing in {column.missing:,} row(s). "
                'Say what that means: missing = "category" or "drop".'
            )
    own = next((case for case in survey.feasibility or () if case.from_policy), None)
    if own and own.reason:
        yield f"The policy's own requirement cannot be met: {own.reason}"
    elif own and own.invertible is False:
        yield (
            "Under the policy's own requirement counts can only be estimated without error bars: the matrix has no "
            "inverse."
        )
    if survey.persons and survey.persons.with_several_rows:
        yield from _repeated(survey.persons, policy)
    if survey.uniqueness and survey.uniqueness.unique_share >= MANY_UNIQUE:
        yield _unique(survey.uniqueness, policy)
    if survey.prediction and survey.sensitive:
        clear = [p for p in survey.prediction.predictors if p.clear]
        tells = _associated if policy.method.publishes_buckets else _predicted
        yield from tells(clear, " / ".join(survey.sensitive.columns), policy)
        yield from (_rare_values(each) for each in (survey.sensitive, *survey.apart) if each.rare)
    if survey.row_order and survey.row_order.dependent:
        yield f"{survey.row_order.statement} A release in this order would tell it; it will be shuffled."


def _repeated(p: Persons, policy: Policy) -> Iterator[str]:
    fact = f"{p.with_several_rows:,} of {p.persons:,} persons ({p.column!r}) have several rows, up to {p.most_rows:,}."
    if p.repeated == "error":
        remedy = (
            'Keep one row of each in the table, or say person.repeated = "per-row".'
            if policy.method.why_not_one
            else 'Say what to do: person.repeated = "keep-one" or "per-row".'
        )
        yield f"Publishing would stop: {fact} The guarantee is for one row per person. {remedy}"
    if p.repeated == "per-row":
        yield f"{fact} The guarantee is per row: what is learned of a person adds up over the rows."


def _unique(u: Uniqueness, policy: Policy) -> str:
    if policy.method.publishes_buckets:
        why = (
            "someone who knows these finds the record and its group, and only the other records of the group protect it"
        )
    elif policy.linked:
        why = (
            "a group of one record has one sensitive value, and it takes much noise in the quasi-identifiers to hide it"
        )
    else:
        why = "someone who knows these finds the record, and only the noise on the sensitive value protects it"
    alone = f"{share(u.unique_share)} of the records are alone with their quasi-identifiers"
    return f"{alone}: {why}. Coarser bins or merged values help."


def _associated(clear: Sequence[Predictor], secret: str, policy: Policy) -> Iterator[str]:
    """What the bound of groups does not cover: it does cover the columns of attribute sets."""
    if telling := [p.column for p in clear if p.column not in policy.method.known_columns]:
        shown = ", ".join(map(repr, telling[:SHOWN])) + (", ..." if len(telling) > SHOWN else "")
        yield (
            f"{len(telling)} column(s) tell of {secret!r}: {shown}. The promise of groups does not hold against "
            "someone who knows how they go together. If others may know that, use the method robust-anatomy, with "
            "these columns in its attribute_sets."
        )


def _predicted(clear: Sequence[Predictor], secret: str, policy: Policy) -> Iterator[str]:
    """All columns in one warning: what to do about them is the same."""
    if telling := [p for p in clear if p.role == "other"]:
        shown = ", ".join(f"{p.column!r} {percent(p.hit_rate)} ({p.information:.2f} bits)" for p in telling)
        yield (
            f"{len(telling)} `other` column(s) tell of {secret!r}. A guess of it is right for "
            f"{percent(telling[0].baseline)} of the records without them, and by each alone for {shown}. They are "
            'published as they are, and so undo the blur in part. Drop them (role = "drop"), coarsen them (bins, '
            "merge), or make them sensitive too. If attackers know them anyway, they are quasi-identifiers."
        )


def _rare_values(sensitive: Sensitive) -> str:
    shown = ", ".join(f"{r.value!r} ({r.records})" for r in sensitive.rare[:SHOWN])
    more = f" and {len(sensitive.rare) - SHOWN:,} more" if len(sensitive.rare) > SHOWN else ""
    return (
        f"{len(sensitive.rare):,} value(s) of {' / '.join(sensitive.observed)!r} have fewer than 5 records: "
        f"{shown}{more}. The domain is read off the table, so it tells that somebody has them. Declare the "
        "domain, or merge them (merge = { NAME = [VALUES] })."
    )
