"""What a release is, in words: its columns, what to keep in mind, its values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sfumato.release.folder import type_of
from sfumato.release.manifest import Manifest
from sfumato.release.readme import TREATMENTS
from sfumato.values.attributes import label
from sfumato.values.number_texts import Holds

MOST_VALUES = 60
"""Of a column, on the page."""
MOST_HINTS = 400
"""Values that fields for values propose."""
KINDS = {
    "int": "whole numbers",
    "uint": "whole numbers",
    "float": "numbers",
    "double": "numbers",
    "halffloat": "numbers",
    "decimal": "numbers",
    "string": "text",
    "bool": "true or false",
    "date": "dates",
    "time": "times",
    "list<": "sets of values",
}
"""What columns hold, by how the names of their Arrow types begin."""
NOISE_ONLY = (
    "Intervals cover only the added noise, not sampling. For conclusions about a population choose the target "
    "“population”."
)


@dataclass(frozen=True)
class Described:
    """A column as the page lists it."""

    name: str
    type: str
    treatment: str
    is_hidden: bool
    values: tuple[str, ...]
    more: int  # values that are not listed


def columns_of(manifest: Manifest) -> list[Described]:
    """Return the columns that can be asked for."""
    domains = {part.name: part.values for part in manifest.domain.parts}
    found = []
    for column in manifest.columns:
        values = domains.get(column.name) or column.order or tuple((manifest.merged or {}).get(column.name, ()))
        hidden = column.treatment == "randomized"
        found.append(
            _described(column.name, kind_of(column.type, column.holds), TREATMENTS[column.treatment], hidden, values)
        )
    for part in manifest.only_in_buckets:
        apart = f"true values, but by groups: in {manifest.buckets.file} only"
        found.append(_described(part.name, kind_of(type_of(part.values), part.holds), apart, True, part.values))
    return found


def kind_of(arrow: str, holds: Holds | None = None) -> str:
    """Return what a column holds, in words.

    >>> [kind_of(arrow) for arrow in ("int64", "double", "string", "list<element: string>", "date32[day]")]
    ['whole numbers', 'numbers', 'text', 'sets of values', 'dates']
    """
    if holds is not None:
        return "whole numbers" if holds == "integer" else "numbers"
    return next((words for beginning, words in KINDS.items() if arrow.startswith(beginning)), arrow)


def _described(name: str, kind: str, treatment: str, hidden: bool, values: object) -> Described:
    every = tuple(map(label, values))  # type: ignore[call-overload]
    return Described(name, kind, treatment, hidden, every[:MOST_VALUES], len(every) - len(every[:MOST_VALUES]))


def warnings_of(manifest: Manifest) -> Iterator[str]:
    """Give what to keep in mind of all answers."""
    if manifest.status != "release":
        undone = manifest.claim.undone_by_seed
        yield f"Not for release: it was drawn from a test seed, which anyone can repeat to {undone}."
    yield NOISE_ONLY
    for mechanism in manifest.mechanisms:
        if mechanism.form != "value":
            what = "a set of values" if mechanism.form == "set" else "a card, which stands for a set of values"
            yield (
                f"{mechanism.domain[0].name}: each row shows {what}. The truth may lie outside the set, and nothing "
                "says which of its values it is."
            )
    valued = [part.name for m in manifest.mechanisms if m.form == "value" for part in m.domain]
    if valued:
        yield (
            f"Do not count the rows of {', '.join(valued)}: single rows are randomized. Estimates correct for it, with "
            "error bars."
        )
    if untouched := [name for name in manifest.sensitive if name not in manifest.domain.names]:
        yield f"{', '.join(untouched)}: every row shows the true value. The columns beside it are randomized instead."
    if manifest.in_buckets:
        yield (
            f"All values are true, but which record of a group has which value is not published. Do not join the files "
            f"on {manifest.buckets.group_column}: what is counted then is biased towards no association."
        )
    if manifest.withheld:
        yield f"{manifest.withheld:,} records are withheld. All answers are about the published ones."


def proposed_values(manifest: Manifest) -> list[tuple[str, str]]:
    """Return values that a condition may name, each with its column."""
    stated = [(part.name, part.values) for part in manifest.domain.parts]
    stated += [(column.name, column.order) for column in manifest.columns if column.order]
    found = [(name, str(value)) for name, values in stated for value in values if value is not None]
    return found[:MOST_HINTS]
