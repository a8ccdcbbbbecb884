"""A part of a policy, as a value."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A part of the policy; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
