"""What a page needs of the record of an audit (docs/json.md), checked before any of it is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

Number = float | None


class _Part(BaseModel):
    """Other keys may be there; those that are needed are of their types."""

    model_config = ConfigDict(strict=True, frozen=True)


class _Exposed(_Part):
    who: str
    records: int
    risk: float


class _Nearest(_Part):
    who: str
    risk: float
    bound: float
    prior: Number


class _Finding(_Part):
    attacker: str
    about: str
    question: str
    assumption: str
    measured: str
    remark: str
    who: str
    why_bound: str
    why_not_covered: str
    scale: Literal["risk", "chance"]
    verdict: Literal["within the bound", "above the bound", "not covered by the guarantee"]
    worst: float
    is_bound: bool
    mean: Number
    promised: Number
    stated: Number
    baseline: Number
    excess: Number
    direction: Literal["at most", "at least"]
    interval: list[float] | None
    records: int
    at_risk: int
    exposed: list[_Exposed]
    nearest: _Nearest | None


class _NotApplicable(_Part):
    attacker: str
    reason: str


class _Table(_Part):
    columns: list[str]
    cells: int
    total_variation: Number
    naive_total_variation: Number
    median_error: Number
    covered: Number


class _Queries(_Part):
    asked: int
    mean_error: Number
    median_error: Number
    naive_mean_error: Number
    naive_median_error: Number


class _Association(_Part):
    first: str
    second: str
    measure: str
    truth: Number
    estimate: Number
    naive: Number


class _Utility(_Part):
    published_share: Number
    record_utility: Number
    aggregate_utility: Number
    tables: list[_Table]
    queries: _Queries | None
    associations: list[_Association]
    notes: list[str]


class _Record(_Part):
    findings: list[_Finding]
    not_applicable: list[_NotApplicable]
    utility: _Utility
    notes: list[str]


def what_is_wrong(record: Mapping[str, Any]) -> str:
    """Return the first thing that a record lacks or has wrong, with its place; nothing if it is whole."""
    try:
        _Record.model_validate(dict(record))
    except ValidationError as problem:
        first = problem.errors()[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return ""
