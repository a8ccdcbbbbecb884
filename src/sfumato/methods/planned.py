"""What publishing asks of every plan. Most methods answer most of it alike."""

from __future__ import annotations

from typing import Any

from sfumato.methods.plan_files import PrivatePlan
from sfumato.release.manifest import MechanismPart, ResponsePart
from sfumato.values.profile import Profile
from sfumato.values.steps import RowStep


class Planned(PrivatePlan):
    """A plan that can be carried out."""

    seeded: bool = False  # whether a test seed decided something that is planned

    @property
    def draws_each_row(self) -> bool:
        """Whether what becomes of a row depends on its own words alone, not on other rows."""
        return True

    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows; `counted` where the table was counted again."""
        raise NotImplementedError

    def mechanism_parts(self) -> tuple[MechanismPart, ...]:
        """Return what the manifest says of the mechanisms."""
        return ()

    def response_part(self) -> ResponsePart | None:
        """Return what the manifest says of a limit on risks."""
        return None

    def stated_of_buckets(self) -> dict[str, Any]:
        """Return what the manifest says of buckets because the policy asks for it."""
        return {}

    def second_release(self, is_keyed: bool) -> str:
        """Return what a second release of the same people tells; `is_keyed`: records keep their draws by a key."""
        raise NotImplementedError
