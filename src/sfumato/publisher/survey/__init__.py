"""The survey: what a publisher should know of a table before publishing it. Private, like every count.

columns        type, different values, missing ones (without a policy, only these)
uniqueness     how many records are alone with their quasi-identifiers
sensitive      skew, the largest l, rare values that the domain itself discloses
row order      does the sensitive value depend on the row's position?
prediction     which published columns tell the sensitive value?
persons        rows per person
feasibility    what each method would make of each requirement
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.engines.base import Source
from sfumato.engines.embedded.counting import count_sensitive, group_sizes, shared
from sfumato.engines.rows.looking import PublishedRows
from sfumato.errors import TableError
from sfumato.publisher.survey.counting import describe_columns
from sfumato.publisher.survey.feasibility import survey_feasibility
from sfumato.publisher.survey.model import Persons, RareValue, RowOrder, Sensitive, ValueShare
from sfumato.publisher.survey.predictors import find_predictors
from sfumato.publisher.survey.text import Survey
from sfumato.publisher.survey.warnings import column_warnings, policy_warnings
from sfumato.publisher.table import Table, check_columns, no_progress
from sfumato.values.arrays import Progress
from sfumato.values.looks import REMEDY
from sfumato.values.profile import Profile, Uniqueness, uniqueness

__all__ = ["Survey", "survey"]

FREQUENT = 10
"""So many of the most frequent values are listed."""
FEW = 5
"""A value that fewer records have is rare."""


def survey(source: Source, table: Table | None = None, progress: Progress = no_progress) -> Survey:
    """Survey a table; without a policy (`table` None) its columns only."""
    check_names(source)
    if table is None:
        rows, columns = describe_columns(source, progress)
        return Survey(source.description, rows, columns, tuple(column_warnings(columns)))
    passes = 4 + (table.policy.person is not None) + bool(table.policy.linked)
    return _under_policy(table, shared(progress, passes))


def check_names(source: Source) -> None:
    """Raise if a column has no name, or two have the same."""
    check_columns(source.names, source.names)


def _under_policy(table: Table, progress: Progress) -> Survey:
    rows, columns = describe_columns(table.source, progress)
    if not rows:
        raise TableError(f"{table.source.description!r} has no rows.", "Give a table with a row for each record.")
    columns = tuple(replace(c, role=table.schema[c.name].role) for c in columns)
    # not `table.profile`: it stops at a repeated person, which a survey has to tell of
    profile = count_sensitive(table.source, table.schema, progress)
    linked = table.policy.linked
    joint = count_sensitive(table.source, table.schema, progress, None, linked) if linked else profile
    uniqueness = _uniqueness(table, progress)
    published = PublishedRows(table.source, table.schema, table.schema.names("other", "quasi_identifier", "sensitive"))
    prediction = find_predictors(published, table, profile, columns, rows, progress)
    found = Survey(
        table=table.source.description,
        rows=rows,
        columns=columns,
        warnings=(),
        uniqueness=uniqueness,
        sensitive=_sensitive(profile),
        row_order=RowOrder(profile.order.dependent, profile.order.p_value, profile.order.statement),
        prediction=prediction,
        persons=_persons(table, progress),
        feasibility=survey_feasibility(profile, table.policy, joint),
    )
    stops = [f"Publishing would stop: {stop} {REMEDY}" for stop in table.stops]
    told = [*stops, *published.problems(), *published.recoding_notes()]
    warnings = [*column_warnings(columns), *told, *policy_warnings(found, table.policy)]
    return replace(found, warnings=tuple(warnings))


def _uniqueness(table: Table, progress: Progress) -> Uniqueness | None:
    """Return how the quasi-identifiers are shared."""
    names = table.schema.names("quasi_identifier")
    if not names:
        return None
    published = PublishedRows(table.source, table.schema, names)
    sizes = group_sizes(published.batches(progress), published.kinds)
    return uniqueness(tuple(names), sizes)


def _sensitive(profile: Profile) -> Sensitive:
    frequency, counts, labels = profile.frequency, profile.counts, profile.domain.labels
    if not profile.rows:
        raise TableError(f"No row has a value of {profile.domain.name!r}.", "All rows are left out.")
    order = np.argsort(-counts, kind="stable")[:FREQUENT]
    positive = frequency[frequency > 0]
    entropy = float(-(positive * np.log(positive)).sum())
    return Sensitive(
        columns=profile.domain.names,
        records=profile.rows,
        dropped=profile.dropped,
        values=profile.domain.size,
        observed=profile.observed,
        unused=int((counts == 0).sum()),
        most_frequent=tuple(ValueShare(labels[c], int(counts[c]), float(frequency[c])) for c in order if counts[c]),
        largest_share=float(frequency.max()),
        entropy=abs(entropy) / math.log(profile.domain.size) if profile.domain.size > 1 else 0.0,
        eligible_l=profile.rows // int(counts.max()),
        rare=_rare(profile),
    )


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
            yield batch.rows.filter(batch.rows.column(0).is_valid())

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
