"""The attacker who reads the bytes: values of the table that are not published must not lie in the release's files.

Looked for are the values of all columns of the table that no published column has: identifiers, rows that were left
out, the exact numbers of bins; as text, and numbers also as eight bytes. Pages are decompressed; dictionaries,
statistics, schema and footer are searched as they are. What is short, or part of something that is published, cannot
be told from chance and is passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sfumato.audit.finding import SHOWN, Exposed, Finding
from sfumato.audit.parquet_pages import everything
from sfumato.engines.base import Source
from sfumato.release import MANIFEST_NAME, README_NAME, Release
from sfumato.table import Table

PREFIX = 6
"""Bytes of a token that are looked up; shorter ones occur by chance."""
LEAST_NUMBER = 1 << 20
"""Integers below it are passed over: their bytes occur by chance."""
MOST_TOKENS = 1_000_000
"""Of each column; of more distinct values the first are looked for."""
AT_ONCE = 1 << 22
"""Bytes that are searched at a time."""

Words = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Residues:
    """What was looked for, and what was found: tokens by the column that they come from."""

    looked_for: dict[str, int]
    found: dict[str, tuple[bytes, ...]]


def find_residues(table: Table, release: Release) -> Residues:
    """Search all files of a release for values of the table that it does not publish."""
    held = {name: _held(table.source, name) for name in table.source.names}
    published = _published(release, held)
    tokens = {name: own - published for name, own in held.items()}
    hits = _search(sorted(release.folder.iterdir()), sorted(set().union(*tokens.values())))
    known = b"\n".join(sorted(published))
    found = {name: tuple(sorted(token for token in own & hits if token not in known)) for name, own in tokens.items()}
    return Residues({name: len(own) for name, own in tokens.items()}, {n: f for n, f in found.items() if f})


def residue(table: Table, release: Release) -> Finding:
    """Return the finding: how many values that are not published lie in the bytes of the release."""
    residues = find_residues(table, release)
    found, looked_for = sum(map(len, residues.found.values())), sum(residues.looked_for.values())
    exposed = [
        Exposed(f"values of {name!r}", len(tokens), len(tokens) / residues.looked_for[name])
        for name, tokens in residues.found.items()
    ]
    return Finding(
        attacker="residue",
        question="Do the files hold values of the table that are not published?",
        assumption="Has the files of the release; decompresses every page and reads all bytes.",
        measured="the share of values that are not published which lie in the files",
        worst=found / max(looked_for, 1),
        mean=None,
        records=looked_for,
        at_risk=found,
        promised=0.0,
        exposed=tuple(sorted(exposed, key=lambda group: -group.risk)[:SHOWN]),
        remark=f"{looked_for:,} values of {PREFIX} bytes or more were looked for.",
    )


# --- what is looked for ---------------------------------------------------------------------------------------------


def _held(source: Source, name: str) -> set[bytes]:
    """Return the values of a column of the table, as they could lie in a file."""
    tokens: set[bytes] = set()
    for batch in source.batches([name]):
        tokens.update(_written(pc.unique(batch.rows.column(0))))
        if len(tokens) > MOST_TOKENS:
            break
    return tokens


def _written(column: Any) -> Iterator[bytes]:
    """Give values as text and numbers also as eight bytes, those that are long enough."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    for value in values.to_pylist():
        yield from (token for token in _forms(value) if len(token) >= PREFIX)


def _forms(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool):
        return
    yield str(value).encode()
    if isinstance(value, int) and LEAST_NUMBER <= abs(value) < 1 << 63:
        yield struct.pack("<q", value)
    if isinstance(value, float) and value != int(value if abs(value) < 1 << 53 else 0):
        yield struct.pack("<d", value)


def _published(release: Release, held: dict[str, set[bytes]]) -> set[bytes]:
    """Return all that the release is meant to tell: the values of its columns, domains, and its own texts.

    An untouched column may have no value but those that it has in the table: others slipped in.
    """
    rows, tokens = release.to_arrow(), set[bytes]()
    for column in release.manifest.columns:
        values = set(_written(pc.unique(rows.column(column.name))))
        tokens |= values & held[column.name] if column.treatment == "untouched" else values
    for part in release.manifest.domain.parts:
        tokens.update(form for value in part.values for form in _forms(value))
    return tokens | {(release.folder / name).read_bytes() for name in (MANIFEST_NAME, README_NAME)}


# --- the search -----------------------------------------------------------------------------------------------------


def _search(files: Iterable[Path], tokens: list[bytes]) -> set[bytes]:
    """Return the tokens that lie in a file: their first bytes are looked up at every place, then all of them."""
    if not tokens:
        return set()
    by_prefix: dict[int, list[bytes]] = {}
    for token in tokens:
        by_prefix.setdefault(int.from_bytes(token[:PREFIX], "big"), []).append(token)
    prefixes, found = np.array(sorted(by_prefix), dtype=np.uint64), set[bytes]()
    for file in files:
        for content in everything(file):
            for place, prefix in _places(content, prefixes):
                found.update(t for t in by_prefix[prefix] if content.startswith(t, place))
    return found


def _places(content: bytes, prefixes: Words) -> Iterator[tuple[int, int]]:
    """Give the places at which one of the prefixes stands, and which."""
    for start in range(0, max(len(content) - PREFIX + 1, 0), AT_ONCE):
        part = np.frombuffer(content, np.uint8, min(AT_ONCE + PREFIX - 1, len(content) - start), start)
        words = np.zeros(part.size - PREFIX + 1, dtype=np.uint64)
        for k in range(PREFIX):
            words <<= np.uint64(8)
            words |= part[k : part.size - PREFIX + 1 + k]
        at = np.minimum(np.searchsorted(prefixes, words), prefixes.size - 1)
        hits = np.flatnonzero(prefixes[at] == words)
        yield from zip((hits + start).tolist(), words[hits].tolist(), strict=True)
