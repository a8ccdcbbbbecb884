"""Parts of a policy, as values."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator


class Section(BaseModel):
    """A part of the policy; unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class InputRule(Section):
    """How text files are read: the delimiter, and which texts mean "missing"."""

    delimiter: str = ","
    missing_values: Annotated[tuple[str, ...], Field(strict=False)] = ("",)

    @model_validator(mode="after")
    def _one_character(self) -> InputRule:
        if len(self.delimiter.encode()) != 1 or self.delimiter in '"\n\r\0':
            raise ValueError(
                f'the delimiter is one character, and no quote or line break, not {self.delimiter!r}: "," or ";", '
                'or "\\t" for tabs'
            )
        return self
