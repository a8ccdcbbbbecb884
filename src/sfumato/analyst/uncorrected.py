"""What someone reads off a release who takes it at its word: the figure that stands beside each estimate.

randomized        the published values are taken for the true ones: the same question to the same rows, as if every
                  matrix were the identity
in buckets        the classical estimate: value and condition are taken as independent inside a bucket
sets and cards    none: a row shows a set of values, and counting sets counts nothing that a record has
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from sfumato.analyst.counting.counts import CountedRelease
from sfumato.release.manifest import MechanismPart, Noise, SubTablePart

Counted = TypeVar("Counted", bound=CountedRelease)


def has_sets(release: CountedRelease) -> bool:
    """Whether some column shows sets of values, or cards that stand for them."""
    return any(mechanism.form != "value" for mechanism in release.manifest.mechanisms)


def at_its_word(release: Counted) -> Counted:
    """Return the release as one whose published values are the true ones; they must be values, not sets."""
    mechanisms = tuple(map(_without_noise, release.manifest.mechanisms))
    return replace(release, manifest=release.manifest.model_copy(update={"mechanisms": mechanisms}))


def _without_noise(mechanism: MechanismPart) -> MechanismPart:
    size = 1
    for part in mechanism.domain:
        size *= len(part.values)
    tables = tuple(_identity(table, size) for table in mechanism.sub_tables)
    return mechanism.model_copy(update={"sub_tables": tables})


def _identity(table: SubTablePart, size: int) -> SubTablePart:
    own = size if table.values is None else len(table.values)
    nothing: dict[str, Any] = dict.fromkeys(("columns", "cards", "blocks", "deck"))
    return table.model_copy(update={**nothing, "noise": Noise(size=own, weights=("0",))})
