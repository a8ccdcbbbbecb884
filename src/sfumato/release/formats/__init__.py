"""The formats of a release: every module here is one, by its name. A new one is a new file, and nothing else."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from typing import TYPE_CHECKING, Literal

from sfumato.release.format import Format

USUAL = "parquet"
"""The format of a policy that names none."""

_names = sorted((module.name for module in pkgutil.iter_modules(__path__)), key=lambda name: (name != USUAL, name))
FORMATS: dict[str, type[Format]] = {name: import_module(f"{__name__}.{name}").FORMAT for name in _names}
"""All formats, the usual one first."""

if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[*FORMATS]
