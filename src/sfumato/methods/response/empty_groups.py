"""Groups with a limit of their own that no record belongs to: their limit is stated, and holds for nobody."""

from __future__ import annotations

from collections.abc import Iterator

from sfumato.claims.claim import percent
from sfumato.methods.response.axes import chosen_by
from sfumato.values.profile import Profile
from sfumato.values.requirement import GroupLimit, RiskLimit, exact


def empty_group_notes(profile: Profile, limit: RiskLimit) -> Iterator[str]:
    """Yield a note for each such group: most likely its values are not those that were meant."""
    for group in limit.groups:
        if not _has_records(profile, group):
            yield (
                f"No record belongs to the group {group.told}: its limit of {percent(exact(group.limit))} holds for "
                "nobody. Check the values that it names."
            )


def _has_records(profile: Profile, group: GroupLimit) -> bool:
    """Whether a record has, in each named column, one of the named values."""
    return bool(chosen_by(profile.domain.parts, profile.cells, dict(group.where)).any())
