"""How text files are read."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from sfumato.values.section import Section


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
