"""What every plan says of the table, whatever the method."""

from __future__ import annotations

import re

from sfumato.values.attributes import Value, label
from sfumato.values.profile import RARE, Profile

MANY = 20
"""More numbers than these as values of a column are probably quantities."""
MARKS = ("NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "None", "-", "?", ".")
"""Texts that usually mean a missing value."""
YEAR = re.compile("[12][0-9]{3}")


def domain_notes(profile: Profile) -> list[str]:
    """Return what the domain tells; slips that are easily mended come first."""
    notes = [*_marks(profile), *_many_numbers(profile)]
    if profile.observed:
        notes.append(
            f"The domain of {some(list(profile.observed))} was read off the table: that a value occurs at all is "
            "published. Declare the domain to avoid it."
        )
        if rare := profile.rare():
            notes.append(
                f"{len(rare)} value(s) occur fewer than {RARE} times and are disclosed by the domain: {some(rare)}."
            )
    return [*notes, *profile.all_notes]


def _marks(profile: Profile) -> list[str]:
    """Return a note on texts that are values now, and usually mean that there is none."""
    found = [(part.name, mark) for part in profile.sensitive_domain.parts for mark in part.labels if mark in MARKS]
    return [
        f'{mark!r} is a value of {name!r}. If it means a missing value, say so: missing_values = ["", "{mark}"] in '
        "[input] for a CSV file, or an empty value in the table."
        for name, mark in found
    ]


def _many_numbers(profile: Profile) -> list[str]:
    """Return a note on every sensitive column that has many numbers as its values: quantities are better binned."""
    return [
        f"{part.name!r} has {len(part.values)} different numbers as values. If they are quantities, such as ages, bins "
        "make fewer values, and more of each record stays: bins = { width = 10 }."
        for part in profile.sensitive_domain.parts
        if part.name in profile.observed and len(part.values) > MANY and all(map(_is_quantity, part.values))
    ]


def _is_quantity(value: Value) -> bool:
    """Whether a value may be a quantity: a number, but no year, which may be the label of a date."""
    text = "" if isinstance(value, bool) else label(value)
    return value is None or (text.lstrip("-").replace(".", "", 1).isdecimal() and not YEAR.fullmatch(text))


def some(names: list[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
