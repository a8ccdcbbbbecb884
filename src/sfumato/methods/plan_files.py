"""What plans of all methods share: how they show themselves; of their files the version, the seal, what they fit."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from sfumato.claims import codec
from sfumato.claims.guarantee import Guarantee
from sfumato.errors import PlanMismatch, UsageError
from sfumato.show.results import Drawn, Private
from sfumato.values.computed import Facts
from sfumato.values.uniqueness import Uniqueness, read_uniqueness

PLAN_VERSION = 1


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class PrivatePlan(Private, Drawn, ABC):
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


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """Return a plan's content with its hash: what was signed off is what is published."""
    return content | {"plan_hash": _content_hash(content)}


def listed(value: Any) -> Any:
    """Return tuples as lists, all the way down: a plan's hash is of what JSON gives back."""
    if isinstance(value, dict):
        return {key: listed(inner) for key, inner in value.items()}
    return [listed(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def read_shared(raw: dict[str, Any]) -> dict[str, Any]:
    """Return what plans of all methods have, of what `to_dict` gave."""
    return {
        "guarantee": codec.read_guarantee(raw["guarantee"]),
        "notes": tuple(raw["notes"]),
        "dropped": raw["dropped"],
        "observed": tuple(raw["observed"]),
        "computed_from_table": tuple(raw["computed_from_table"]),
        "table_hash": raw["table_hash"],
        "policy_hash": raw["policy_hash"],
        "uniqueness": read_uniqueness(raw["uniqueness"]),
    }


def read(path: str | Path) -> dict[str, Any]:
    """Return the content of a plan file, if it is as it was made."""
    try:
        raw: dict[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
        if raw["plan_version"] != PLAN_VERSION:
            raise ValueError(f"it has version {raw['plan_version']}")
        if raw["plan_hash"] != _content_hash({k: v for k, v in raw.items() if k != "plan_hash"}):
            raise PlanMismatch(
                f"The plan {str(path)!r} is not as it was made: its content does not fit its hash.",
                "Plan again, and have the new plan signed off.",
            )
    except FileNotFoundError:
        raise UsageError(f"There is no plan file {str(path)!r}.", "Make one: sfumato plan ... -o plan.json") from None
    except (OSError, ValueError, KeyError, TypeError, UnicodeDecodeError) as problem:
        raise no_plan(path, problem) from None
    return raw


def no_plan(path: str | Path, problem: Exception) -> UsageError:
    """Return what is raised where a file is not a plan."""
    what = "it is not JSON" if isinstance(problem, json.JSONDecodeError) else repr(problem)
    return UsageError(
        f"{str(path)!r} is not a plan of this version of sfumato: {what}.",
        "Make one: sfumato plan TABLE POLICY -o plan.json",
    )


def require_same(what: str, signed: str, now: str) -> None:
    """Raise unless the table, or the policy, is the one that was planned."""
    if signed != now:
        raise PlanMismatch(
            f"The {what} is not the one that was planned: its hash is {now[:12]}, the plan's {signed[:12]}.",
            f"Plan again with the {what} as it is now, and have the new plan signed off.",
        )


def _content_hash(content: dict[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()
