"""What publishing asks of every plan. Most methods answer most of it alike."""

from __future__ import annotations

from sfumato.methods.plan_files import PrivatePlan
from sfumato.values.profile import Profile
from sfumato.values.steps import RowStep


class Planned(PrivatePlan):
    """A plan that can be carried out."""

    @property
    def draws_each_row(self) -> bool:
        """Whether what becomes of a row depends on its own words alone, not on other rows."""
        return True

    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows; `counted` where the table was counted again."""
        raise NotImplementedError
