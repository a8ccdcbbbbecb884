"""Planning: pure mathematics on counts. Each method has one home; `METHODS` is the only list of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails

from sfumato.errors import PlanMismatch, SfumatoError, UsageError
from sfumato.methods.anatomy import Anatomy
from sfumato.methods.fine_grain import FineGrain
from sfumato.methods.method import Method
from sfumato.methods.ordered.geometric import Geometric
from sfumato.methods.ordered.plateau import Plateau
from sfumato.methods.ordered.ranges import Ranges
from sfumato.methods.plan import PLAN_VERSION, Plan, content_hash
from sfumato.methods.response.method import RandomizedResponse
from sfumato.methods.robustness.method import RobustAnatomy
from sfumato.methods.several.method import Several
from sfumato.methods.small_domain.method import SmallDomain
from sfumato.methods.subset.method import Subset
from sfumato.methods.suppression.method import Suppression
from sfumato.methods.uniform import Uniform
from sfumato.show.reading import read_text
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey
from sfumato.values.requirement import Requirement
from sfumato.values.text import meant

METHODS: list[type[Method]] = [
    Uniform,
    Subset,
    Ranges,
    Plateau,
    Geometric,
    FineGrain,
    SmallDomain,
    RandomizedResponse,
    Anatomy,
    Suppression,
    RobustAnatomy,
]
"""All methods, in the order in which they are named and compared."""

__all__ = ["METHODS", "Method", "load_plan", "named", "options", "plan", "read_method", "several", "title_of"]


def plan(profile: Profile, method: Method, requirement: Requirement, *, key: SecretKey | None = None) -> Plan:
    """Return the plan for a profile under a requirement; raise `Infeasible` with the nearest that is feasible.

    `sf.plan(profile, policy.method, policy.requirement)` plans what a policy asks for. Draws of a plan, which
    suppression makes, come from the `key`, a fresh one if none is given.
    """
    return method.plan(profile, requirement, key=key)


UNREADABLE = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading the content of a file can raise that holds anything at all."""


def load_plan(path: str | Path) -> Plan:
    """Read a plan of any method, if it is as it was made: what is read, written again, is the file.

    So every key is there, of its kind and size, and all that follows from others follows from them. What follows from
    the policy is derived when it is published.
    """
    try:
        raw: dict[str, Any] = json.loads(read_text(path))
        if raw["plan_version"] != PLAN_VERSION:
            raise ValueError(f"it has version {raw['plan_version']}")
        if raw["plan_hash"] != content_hash({key: value for key, value in raw.items() if key != "plan_hash"}):
            raise PlanMismatch(
                f"The plan {str(path)!r} is not as it was made: its content does not fit its hash.",
                "Plan again, and have the new plan signed off.",
            )
        read = Plan.from_dict(raw, named(raw["method"]).figures.from_dict(raw))
        if wrong := next(_differences(raw, read.to_dict()), None):
            raise PlanMismatch(
                f"The plan {str(path)!r} is not as it was made: {wrong} is not what follows from the rest of it.",
                "Plan again, and have the new plan signed off.",
            )
        return read
    except FileNotFoundError:
        raise UsageError(f"There is no plan file {str(path)!r}.", "Make one: sfumato plan ... -o plan.json") from None
    except (PlanMismatch, UsageError):
        raise
    except (*UNREADABLE, OSError, SfumatoError) as problem:
        what = "it is not JSON" if isinstance(problem, json.JSONDecodeError) else _told(problem)
        raise UsageError(
            f"{str(path)!r} is not a plan of this version of sfumato: {what}.",
            "Make one: sfumato plan TABLE POLICY -o plan.json",
        ) from None


def _told(problem: Exception) -> str:
    """Return what was wrong in one line, without the file's own words at any length."""
    if isinstance(problem, ValueError) and not isinstance(problem, ValidationError | UnicodeError):
        return str(problem).splitlines()[0][:200]
    return f"{type(problem).__name__} while it was read"


def _differences(stated: Any, due: Any, place: str = "it") -> Iterator[str]:
    """Give the places in which a file is not what it should be; numbers may differ by rounding, machine by machine."""
    if isinstance(stated, dict) and isinstance(due, dict):
        yield from (f"{key!r}" for key in sorted({*stated} ^ {*due}) if key != "plan_hash")
        for key in due.keys() & stated.keys() - {"plan_hash"}:
            yield from _differences(stated[key], due[key], f"{key!r}")
    elif isinstance(stated, list) and isinstance(due, list) and len(stated) == len(due):
        for one, other in zip(stated, due, strict=True):
            yield from _differences(one, other, place)
    elif isinstance(stated, float) and isinstance(due, float):
        if not math.isclose(stated, due, rel_tol=1e-6, abs_tol=1e-9):
            yield place
    elif type(stated) is not type(due) or stated != due:
        yield place


def named(name: str) -> type[Method]:
    """Return the method of this name; raise `UsageError` if there is none."""
    for method in _known():
        if method.name == name:
            return method
    names = [method.name for method in METHODS]
    raise UsageError(f"There is no method {name!r}.", meant(name, names, "The methods are"))


def title_of(name: str) -> str:
    """Return what a method is called in a sentence; of one that is not known here its name."""
    return next((method.title for method in _known() if method.name == name), name)


def _known() -> list[type[Method]]:
    """Return all methods, with the one that a policy states by its columns, and not by its name."""
    return [*METHODS, Several]


def options() -> Iterator[tuple[str, type[Method]]]:
    """Give each option of each method."""
    return ((option, method) for method in METHODS for option in method.model_fields)


def several(stated: Method, own: Mapping[str, Method]) -> Method:
    """Return the method of a policy in which columns have methods of their own."""
    return Several.of(stated, own)


# --- the section of a policy --------------------------------------------------------------------------------------


def read_method(section: object) -> object:
    """Return the method that the [method] section of a policy states; what is no section is left to be refused."""
    if not isinstance(section, dict):
        return section
    method = _chosen(section)
    for option in section:
        takers = [other.name for known, other in options() if known == option]
        if takers and method.name not in takers:
            raise ValueError(f"{option} does not go with {method.name}, only with {' and '.join(takers)}; leave it out")
    return method.model_validate({option: value for option, value in section.items() if option != "name"})


def _chosen(section: dict[str, object]) -> type[Method]:
    """Return the method of the name that a section gives."""
    names = [method.name for method in METHODS]
    if section.get("name") in names:
        return named(str(section["name"]))
    if section.get("name") == Several.name:
        raise ValueError(
            f"{Several.name!r} is not asked for by its name: give a sensitive column sections of its own, "
            "[columns.NAME.method] and [columns.NAME.requirement], and name here the method of all others"
        )
    *first, last = map(repr, names)
    wrong = InitErrorDetails(type="missing", loc=("name",), input=section)
    if "name" in section:
        listed = {"expected": f"{', '.join(first)} or {last}"}
        wrong = InitErrorDetails(type="literal_error", loc=("name",), input=section["name"], ctx=listed)
    raise ValidationError.from_exception_data("method", [wrong])
