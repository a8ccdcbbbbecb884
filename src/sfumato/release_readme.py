"""The README of a release: how to use it and what is guaranteed, for the analyst."""

from __future__ import annotations

from sfumato.attributes import MISSING_LABEL, Domain
from sfumato.manifest import Column, Manifest

SHOWN_VALUES = 40

TREATMENTS = {
    "randomized": "randomized; estimate counts, do not count rows",
    "binned": "binned, otherwise as collected",
    "untouched": "as collected",
    "sub-table": "tells which values and which matrix the record was randomized with",
}


def readme(manifest: Manifest) -> str:
    """Return the text."""
    return "\n".join(
        [
            f"# Release {manifest.release_id}",
            "",
            *_warning(manifest),
            f"{manifest.data.rows:,} records, published {manifest.created} with {manifest.software}, method "
            f"`{manifest.method}`, assurance `{manifest.assurance}`. Files: `{manifest.data.file}`, `manifest.json`.",
            "",
            "## How to use it",
            "",
            f"{_randomized(manifest)} **randomized**: each record kept its value with a known probability "
            "and otherwise got a "
            "random one. A single row is not to be trusted; counts and shares can be estimated, with error bars:",
            "",
            "```",
            f"sfumato estimate . --by {manifest.randomized[0]} {_example_condition(manifest)}".rstrip(),
            "```",
            "```python",
            "import sfumato as sf",
            "",
            'release = sf.open_release(".")',
            f'print(release.count(by="{manifest.randomized[0]}"))',
            "```",
            "",
            "Counting published rows of a randomized value directly is biased towards equal shares.",
            "",
            *_untouched(manifest),
            "## What is guaranteed",
            "",
            manifest.guarantee.sentence,
            "",
            f"- Adversary: {manifest.guarantee.adversary}",
            f"- Prior: {manifest.guarantee.prior}",
            f"- Holds for: {manifest.guarantee.scope}; directions: {', '.join(manifest.guarantee.directions)}.",
            *(f"- Limit: {limit}" for limit in manifest.guarantee.limits),
            f"- {manifest.second_release}",
            *_disclosures(manifest),
            "",
            _verified(manifest),
            "",
            "## Codebook",
            "",
            "| column | type | treatment |",
            "|---|---|---|",
            *(_row(column) for column in manifest.columns),
            "",
            *(line for part in manifest.domain.parts for line in _values(part)),
            "",
        ]
    )


def _untouched(manifest: Manifest) -> list[str]:
    """Say it where the sensitive columns themselves are published as they are."""
    response = manifest.response
    if response is None or set(response.sensitive) <= set(manifest.randomized):
        return []
    names = ", ".join(f"`{name}`" for name in response.sensitive)
    return [
        f"{names}, the sensitive column(s), are **not randomized**: every row shows the true value. What is randomized "
        "are the quasi-identifiers beside it.",
        "",
    ]


def _warning(manifest: Manifest) -> list[str]:
    if manifest.status == "release":
        return []
    return ["**Not for release: drawn from a test seed, which anyone can repeat to undo the noise.**", ""]


def _randomized(manifest: Manifest) -> str:
    names = ", ".join(f"`{name}`" for name in manifest.randomized)
    return f"{names} {'is' if len(manifest.randomized) == 1 else 'are'}"


def _example_condition(manifest: Manifest) -> str:
    plain = next((c for c in manifest.columns if c.treatment != "randomized"), None)
    return f'--where "{plain.name} IS NOT NULL"' if plain and plain.name.isidentifier() else ""


def _disclosures(manifest: Manifest) -> list[str]:
    lines = []
    if manifest.discloses_frequencies:
        whose = "Each sub-table's matrix was computed from its largest frequency and tells it."
        one = "The matrix was computed from the table's own frequencies and tells them."
        lines.append(f"- {whose if manifest.mechanism.kind == 'small-domain' else one}")
    if manifest.observed_domains:
        lines.append(f"- The values of {', '.join(manifest.observed_domains)} are those that occur in the table.")
    return lines


def _verified(manifest: Manifest) -> str:
    if manifest.response is None:
        return "`sfumato verify .` re-checks the guarantee on the integer matrix of the manifest."
    return (
        "`sfumato verify .` re-checks the integer matrices of the manifest and what follows from them. That the risk "
        "is within its limit depends on the original table, which only its publisher has."
    )


def _row(column: Column) -> str:
    return f"| {_cell(column.name)} | {column.type} | {TREATMENTS[column.treatment]} |"


def _values(part: Domain) -> list[str]:
    shown = [_cell(MISSING_LABEL if v is None else str(v)) for v in part.values[:SHOWN_VALUES]]
    more = len(part.values) - len(shown)
    tail = f", and {more:,} more in the manifest" if more else ""
    return [f"Values of `{part.name}` ({len(part.values):,}): {', '.join(shown)}{tail}.", ""]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
