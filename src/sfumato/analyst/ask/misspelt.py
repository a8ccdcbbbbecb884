"""Values of a condition that no record can have, or none has: most often they are misspelt."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from sfumato.analyst.ask.conditions import texts_of
from sfumato.analyst.ask.where import compared_texts
from sfumato.analyst.counting.counts import CountedRelease
from sfumato.release.reading import manifest_types
from sfumato.values.attributes import SensitiveDomain
from sfumato.values.nearest import meant


def unknown_values(tree: exp.Expression | None, domain: SensitiveDomain) -> Iterator[str]:
    """Give a note on every text that a hidden column is compared with and that is no value of its domain."""
    parts = {part.name: part.labels for part in domain.parts}
    for name, text in compared_texts(tree):
        if name in parts and text not in parts[name]:
            yield f"{text!r} is no value of {name!r}. {meant(text, parts[name], 'Its values are')}"


def unseen_values(release: CountedRelease, tree: exp.Expression | None) -> Iterator[str]:
    """Give a note on every text that no published row has in the column that it is compared with. Reads the rows."""
    published, types = set(release.column_names), manifest_types(release)
    for name, text in compared_texts(tree):
        if name not in published or types[name] != "string":
            continue
        if text not in (texts := texts_of(release, name)):
            yield f"No published row has {text!r} in {name!r}. {meant(text, sorted(texts), 'It has')}"
