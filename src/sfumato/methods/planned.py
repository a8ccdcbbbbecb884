"""What plans of all methods have, and what publishing asks of them. Most methods answer most of it alike."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from sfumato.claims.claim import Guarantee
from sfumato.methods.plan_files import require_same
from sfumato.show.results import Drawn, Private
from sfumato.values.computed import Facts
from sfumato.values.profile import Profile, Uniqueness
from sfumato.values.steps import RowStep


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Planned(Private, Drawn, ABC):
    """What plans of all methods have. They hold counts of the table: they tell their size, and more where asked."""

    guarantee: Guarantee
    notes: tuple[str, ...] = ()
    dropped: int = 0
    observed: tuple[str, ...] = ()
    computed_from_table: Facts = ()
    table_hash: str = ""
    policy_hash: str = ""
    uniqueness: Uniqueness | None = None

    if TYPE_CHECKING:  # fields or properties of each

        @property
        def method(self) -> str: ...
        @property
        def assurance(self) -> str: ...
        @property
        def rows(self) -> int: ...
        @property
        def discloses_frequencies(self) -> bool: ...

    @property
    def seeded(self) -> bool:
        """Whether a test seed decided something that is planned."""
        return False

    @property
    def exact(self) -> bool:
        """Whether its numbers are those of the release."""
        return True

    @property
    def published_share(self) -> float:
        """The share of the records that are published."""
        return 1.0

    @property
    def from_table(self) -> bool:
        """Whether anything that is published was computed from the table."""
        return bool(self.computed_from_table)

    @property
    def draws_each_row(self) -> bool:
        """Whether what becomes of a row depends on its own words alone, not on other rows."""
        return True

    @abstractmethod
    def steps(self, counted: Profile | None = None) -> tuple[RowStep, ...]:
        """Return what is done with the rows; `counted` where the table was counted again."""

    def announced(self) -> str:
        """Return what a formula tells before anything is published; nothing if there is none."""
        return ""

    def bound_to(self, table_hash: str, policy_hash: str) -> Self:
        """Return the plan, valid only for this table and policy."""
        return replace(self, table_hash=table_hash, policy_hash=policy_hash)

    def require(self, table_hash: str, policy_hash: str) -> None:
        """Raise unless table and policy are the ones that were signed off."""
        require_same("policy", self.policy_hash, policy_hash)
        require_same("table", self.table_hash, table_hash)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON-ready values; infinite numbers are null. Keys: docs/json.md."""

    def to_json(self) -> str:
        """Return the plan as JSON."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False, ensure_ascii=False)

    def _told(self) -> dict[str, Any]:
        """Return what the release tells of the table, as JSON-ready values."""
        return {
            "notes": list(self.notes),
            "observed": list(self.observed),
            "discloses_frequencies": self.discloses_frequencies,
            "computed_from_table": list(self.computed_from_table),
            "from_table": self.from_table,
        }

    def _bound(self) -> dict[str, Any]:
        """Return what the plan is for, as JSON-ready values."""
        return {
            "uniqueness": None if self.uniqueness is None else asdict(self.uniqueness),
            "table_hash": self.table_hash,
            "policy_hash": self.policy_hash,
        }

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.method}, {self.assurance}, {self.rows:,} records; private)"
