"""The files of plans: their version, the seal, what they fit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sfumato.claims.claim import Guarantee
from sfumato.errors import PlanMismatch, UsageError
from sfumato.values.profile import read_uniqueness

PLAN_VERSION = 1


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
        "guarantee": Guarantee.read(raw["guarantee"]),
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
