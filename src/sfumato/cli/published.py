"""What `sfumato publish` says once a release is there."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.claims.odds import assumed
from sfumato.show.formulas import ESCAPE, warning
from sfumato.show.screen import Screen
from sfumato.show.words import share
from sfumato.values.computed import listed

if TYPE_CHECKING:
    from sfumato.publisher.policy import Policy
    from sfumato.release.manifest import Manifest
    from sfumato.values.profile import Uniqueness


@dataclass(frozen=True)
class Publication:
    """A release that was just made, with what its publisher should know of it."""

    folder: Path
    manifest: Manifest
    policy: Policy
    uniqueness: Uniqueness | None
    table: Path  # and where the policy is, as they were given
    policy_file: Path
    signer: str | None = None  # the fingerprint of the key that signed it

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON-ready values."""
        return {
            "folder": str(self.folder),
            "manifest": self.manifest.model_dump(mode="json"),
            "signer": self.signer,
        }

    def summary(self) -> Screen:
        """Return the first screen: what was published, what is promised, and what to know and do."""
        head = (*self._head(), "", *self.manifest.card.lines)
        return Screen(head, tuple(self._to_know()), "To know, and to do next", must=(self._next(),))

    def explain(self) -> str:
        """Return all of it: also what is not covered in exact terms, and what a second release would add."""
        stated = self.manifest.guarantee
        exact = [stated.sentence, *(f"Not covered: {limit}" for limit in stated.limits), self.manifest.second_release]
        parts = [
            [*self._head()],
            self.manifest.card.lines,
            ["To do next, and to know", *(f"  - {point}" for point in (self._next(), *self._to_know()))],
            ["The promise in exact terms", *(f"  {line}" for line in exact)],
        ]
        return "\n\n".join("\n".join(part) for part in parts)

    def _head(self) -> Iterator[str]:
        if self.manifest.status != "release":
            yield "NOT FOR RELEASE: drawn from a test seed, which anyone can repeat."
        rows = self.manifest.data.rows
        yield f"Published {rows:,} records to {self.folder} (release {self.manifest.release_id})."
        if self.signer:
            yield f"Signed by the key {self.signer}."
        if withheld := self.manifest.withheld:
            yield f"{withheld:,} of {rows + withheld:,} records are withheld ({share(withheld / (rows + withheld))})."

    def _next(self) -> str:
        """Say what stands between this folder and its readers."""
        if self.manifest.status != "release":
            return "Do not hand it out: anyone can undo what a test seed draws. To publish, leave out --seed."
        folder, table, policy = (shlex.quote(str(path)) for path in (self.folder, self.table, self.policy_file))
        return (
            f"Next: `sfumato verify {folder}`, `sfumato audit {table} {policy} {folder}`, the second signature. "
            "Then hand out the whole folder."
        )

    def _to_know(self) -> Iterator[str]:
        if self.policy.record_key:
            yield assumed(self.manifest.mechanism_values)
        yield from self.policy.exemptions
        if self.uniqueness is not None:
            yield f"Private, of the table: {self.uniqueness.sentence}"
        if names := self.manifest.with_formulas:
            yield warning(names, ESCAPE)
        if computed := self.manifest.computed_from_table:
            yield listed(computed)
