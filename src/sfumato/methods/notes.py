"""What every plan says of the table, whatever the method."""

from __future__ import annotations

from sfumato.profiles import RARE, Profile


def profile_notes(profile: Profile) -> list[str]:
    """Return what the domain and the row order tell."""
    return [*domain_notes(profile), profile.order.statement]


def domain_notes(profile: Profile) -> list[str]:
    """Return what the domain tells."""
    notes = []
    if profile.observed:
        notes.append(
            f"The domain of {some(list(profile.observed))} was read off the table: that a value occurs at all is "
            "published. Declare the domain to avoid it."
        )
        if rare := profile.rare():
            notes.append(
                f"{len(rare)} value(s) occur fewer than {RARE} times and are disclosed by the domain: {some(rare)}."
            )
    return [*notes, *profile.recoding_notes]


def some(names: list[str], most: int = 5) -> str:
    """Return the first names, and how many more there are."""
    return ", ".join(map(repr, names[:most])) + (f" and {len(names) - most} more" if len(names) > most else "")
