"""The attacker who reads the bytes: values of the table that are not published must not lie in the release's files.

Looked for are the values of all columns of the table that no published column has: identifiers, rows that were left
out, the exact numbers of bins; as text, and numbers and times also as eight bytes. Those of four bytes occur by chance:
of these, runs of neighbours are looked for that are too long for that. Pages are decompressed; dictionaries,
statistics, schema and footer are searched as they are. What is short, or part of something that is published, or of
the words with which a release is written, cannot be told from chance and is passed over.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.special import pdtrc

from sfumato.analyst.release import Release
from sfumato.auditor.attacker import Attacker, everywhere, listed
from sfumato.auditor.finding import SHOWN, Exposed, Finding
from sfumato.engines.base import Source
from sfumato.publisher.table import Table
from sfumato.release.folder import MANIFEST_NAME, SIGNATURE_NAME, as_written, manifest_seal
from sfumato.release.formats import FORMATS
from sfumato.release.readme import readme
from sfumato.release.signature import read_signature
from sfumato.values.arrays import WordArray

PREFIX = 6  # bytes of a token that are looked up; shorter ones occur by chance
LEAST_NUMBER = 1 << 20  # integers below it are passed over: their bytes occur by chance
MOST_TOKENS = 1_000_000  # of each column; of more distinct values the first are looked for, and it is said
ALIKE = 1e14  # runs of values of four bytes are so long that a random one of the column is one of so many, or more
LONGEST_RUN = 7
BY_CHANCE = 1e-6  # digits inside a page are held for chance unless that gives as many with less
AT_ONCE = 1 << 22  # bytes that are searched at a time
WRITERS = (
    "release/manifest.py", "release/parts.py", "release/readme.py", "claims/claim.py", "claims/buckets.py",
    "publisher/publish.py",
)  # fmt: skip
"""Where the words of a release stand."""
FREE_TEXT = ("guarantee", "second_release", "software", "merged")
"""What the manifest says in sentences: only words of the software belong there, and what is published anyway; and what
is merged, whose values belong in no other file."""


@dataclass(frozen=True)
class Residues:
    """What was looked for, and what was found: tokens by the column that they come from. cut: not all of them."""

    looked_for: dict[str, int]
    found: dict[str, tuple[bytes, ...]]
    cut: tuple[str, ...] = ()


def find_residues(table: Table, release: Release) -> Residues:
    shown = {column.name for column in release.manifest.columns if column.treatment not in ("binned", "merged")}
    shown |= set(release.manifest.domain.names)  # runs of values of these may be published, or drawn
    held = {name: _held(table.source, name, name not in shown) for name in table.source.names}
    published = _published(as_written(release), held)  # bytes are looked for: 1250.40, though 1250.4 is read
    tokens = {name: own - published for name, own in held.items()}
    hits = _hits(release, sorted(set().union(*tokens.values())), published)
    found = {name: tuple(sorted(own & hits)) for name, own in tokens.items()}
    return Residues(
        {name: len(own) for name, own in tokens.items()},
        {name: own for name, own in found.items() if own},
        tuple(name for name, own in held.items() if len(own) > MOST_TOKENS),
    )


def residue(table: Table, release: Release) -> Finding:
    """Return the finding: how many values that are not published lie in the bytes of the release."""
    residues = find_residues(table, release)
    found, looked_for = sum(map(len, residues.found.values())), sum(residues.looked_for.values())
    exposed = [
        Exposed(f"values of {name!r}", len(tokens), len(tokens) / residues.looked_for[name])
        for name, tokens in residues.found.items()
    ]
    cut = f" Of {', '.join(map(repr, residues.cut))} only the first {MOST_TOKENS:,} or so." if residues.cut else ""
    return Finding(
        attacker="residue",
        question="Do the files hold values of the table that are not published?",
        assumption="Has the files of the release; decompresses every page and reads all bytes.",
        measured="the share of values that are not published which lie in the files",
        worst=found / max(looked_for, 1),
        records=looked_for,
        at_risk=found,
        promised=0.0,
        exposed=tuple(sorted(exposed, key=lambda group: -group.risk)[:SHOWN]),
        remark=f"{looked_for:,} values of {PREFIX} bytes or more, or runs of shorter ones, were looked for.{cut}",
    )


# --- what is looked for ---------------------------------------------------------------------------------------------


def _held(source: Source, name: str, runs: bool) -> set[bytes]:
    """Return the values of a column of the table, as they could lie in a file; runs: of short ones too."""
    tokens: set[bytes] = set()
    short: list[Any] = []
    for batch in source.batches([name]):
        column = batch.rows.column(0)
        tokens.update(_written(pc.unique(column)))
        if runs and _is_four_bytes(column.type):
            short.append(column.drop_null().view(pa.int32()))
        if len(tokens) > MOST_TOKENS:
            break
    return tokens | set(_runs(pa.concat_arrays(short)) if short else ())


def _written(column: Any) -> Iterator[bytes]:
    """Give values as text and numbers also as eight bytes, those that are long enough."""
    values = column.dictionary if pa.types.is_dictionary(column.type) else column
    for value in values.to_pylist():
        yield from (token for token in _forms(value) if len(token) >= PREFIX)
    if pa.types.is_temporal(values.type) and values.type.bit_width == 64:
        yield from (struct.pack("<q", v) for v in values.cast(pa.int64()).to_pylist() if v and abs(v) >= LEAST_NUMBER)


def _forms(value: Any) -> Iterator[bytes]:
    if value is None or isinstance(value, bool):
        return
    yield str(value).encode()
    if isinstance(value, int) and LEAST_NUMBER <= abs(value) < 1 << 63:
        yield struct.pack("<q", value)
    if isinstance(value, float) and value != int(value if abs(value) < 1 << 53 else 0):
        yield struct.pack("<d", value)


def _runs(values: Any) -> Iterator[bytes]:
    """Give neighbouring values of four bytes, all different and not evenly spaced, as they would follow in a file.

    As rows do, and as they first occur: a dictionary has them so.
    """
    firsts = pc.unique(values)
    length = math.ceil(math.log(ALIKE) / math.log(max(len(firsts), 2)))
    if length > LONGEST_RUN:
        return
    for order in (values, firsts):
        numbers = order.to_numpy(zero_copy_only=False).astype("<i4")
        if numbers.size >= length:
            runs = np.lib.stride_tricks.sliding_window_view(numbers, length)
            different = (np.diff(np.sort(runs, axis=1), axis=1) > 0).all(axis=1)
            uneven = np.diff(runs.astype(np.int64), 2, axis=1).any(axis=1)
            yield from (run.tobytes() for run in runs[different & uneven])


def _is_four_bytes(kind: Any) -> bool:
    plain = pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_floating(kind)
    return bool(plain and kind.bit_width == 32)


def _published(release: Release, held: dict[str, set[bytes]]) -> set[bytes]:
    """Return all that the release is meant to tell: the values of its columns, and domains.

    An untouched column may have no value but those that it has in the table: others slipped in. A column whose values
    are merged may have none of those that are.
    """
    rows, tokens = release.to_arrow(), set[bytes]()
    for column in release.manifest.columns:
        values = set(_written(pc.unique(rows.column(column.name))))
        names = (release.manifest.merged or {}).get(column.name, {})
        merged = {value.encode() for listed in names.values() for value in listed if value not in names}
        tokens |= values & held[column.name] if column.treatment == "untouched" else values - merged
    for part in release.manifest.domain.parts:
        tokens.update(form for value in part.values for form in _forms(value))
    return tokens


def _published_runs(release: Release) -> Iterator[bytes]:
    """Give the published values of four bytes one after another: a column that is not published may have the same."""
    rows = release.to_arrow()
    for column in rows.columns:
        if _is_four_bytes(column.type):
            values = column.combine_chunks().drop_null().view(pa.int32())
            yield from (order.to_numpy(zero_copy_only=False).tobytes() for order in (values, pc.unique(values)))


def _known_text(release: Release) -> bytes:
    """Return what a release has besides: the words of the software, the manifest's numbers and names, and formats'.

    Not the files as they are: what was written into them is looked for.
    """
    manifest = release.manifest
    text = (release.folder / MANIFEST_NAME).read_text(encoding="utf-8")
    parts = [
        *(files("sfumato").joinpath(name).read_text(encoding="utf-8") for name in WRITERS),
        manifest.model_dump_json(indent=2, exclude=set(FREE_TEXT)),
        *re.findall(r"\d[\d.,/%-]*", readme(manifest)),
        manifest_seal(text, manifest.readme_sha256),
    ]
    of_format = FORMATS[manifest.data.format].words([c.name for c in manifest.columns])
    return b"\n".join([*(part.encode() for part in parts), of_format])


def _hits(release: Release, tokens: list[bytes], published: set[bytes]) -> set[bytes]:
    """Return the tokens that lie in a file and do not belong there.

    Values that are merged belong in the manifest, which tells what the policy merges, and in no other file. Of a
    signature every letter comes from the manifest and a key: what it looks like, it looks like by chance.
    """
    manifest = release.folder / MANIFEST_NAME
    told = {manifest, release.folder / SIGNATURE_NAME} if read_signature(release.folder) else {manifest}
    others = sorted(path for path in release.folder.rglob("*") if path.is_file() and path not in told)
    known = b"\n".join([*sorted(published), *_published_runs(release), _known_text(release)])
    merged = json.dumps(release.manifest.merged, ensure_ascii=False).encode()
    beside = {token for token in _search(others, tokens) if token not in known}
    return beside | {token for token in _search([manifest], tokens) if token not in known and token not in merged}


def _search(files: Iterable[Path], tokens: list[bytes]) -> set[bytes]:
    """Return the tokens that lie in a file: their first bytes are looked up at every place, then all of them."""
    if not tokens:
        return set()
    by_prefix: dict[int, list[bytes]] = {}
    for token in tokens:
        by_prefix.setdefault(int.from_bytes(token[:PREFIX], "big"), []).append(token)
    prefixes, found = np.array(sorted(by_prefix), dtype=np.uint64), set[bytes]()
    digits = Digits.of(tokens)
    for file in files:
        for number, content in enumerate(everything(file)):
            places = [(p, t) for p, x in _places(content, prefixes) for t in by_prefix[x] if content.startswith(t, p)]
            packed = len(content) if number else _pages_end(content)
            inside = digits.not_by_chance(content[:packed], [place for place in places if place[0] < packed])
            found.update(token for _, token in (*inside, *(place for place in places if place[0] >= packed)))
    return found


@dataclass(frozen=True)
class Digits:
    """Tokens of digits alone, which codes packed into bits look like by chance: how many there are of each length."""

    lengths: dict[int, int]

    @classmethod
    def of(cls, tokens: Iterable[bytes]) -> Digits:
        return cls(dict(Counter(len(token) for token in tokens if token.isdigit())))

    def not_by_chance(self, content: bytes, places: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Return what was found inside a page but digits that chance gives.

        A text of a page stands behind its length. Other digits are judged together: with W places at which as many
        digits follow each other, and n tokens of that length L, chance gives about W n/10^L of them.
        """
        told = [(at, t) for at, t in places if not t.isdigit() or content[max(at - 4, 0) : at] == _length(t)]
        rest = [(at, t) for at, t in places if (at, t) not in told]
        expected = sum(n * _runs_of_digits(content, length) * 10.0**-length for length, n in self.lengths.items())
        return told if rest and pdtrc(len(rest) - 1, expected) >= BY_CHANCE else places


def _pages_end(content: bytes) -> int:
    """Return where the pages of a Parquet file end and its footer begins; 0 for other files, which have no pages.

    Pages that cannot be compressed lie in the file as they are.
    """
    if not content.endswith(b"PAR1"):
        return 0
    return max(len(content) - 8 - int.from_bytes(content[-8:-4], "little"), 0)


def _length(token: bytes) -> bytes:
    return len(token).to_bytes(4, "little")


def _runs_of_digits(content: bytes, length: int) -> int:
    """Return at how many places so many digits follow each other."""
    return sum(max(len(run) - length + 1, 0) for run in re.findall(rb"\d{%d,}" % length, content))


def everything(path: Path) -> Iterator[bytes]:
    """Give a file as it is (headers, statistics, schema, footer), and all that its format compresses."""
    yield path.read_bytes()
    if form := FORMATS.get(path.suffix.removeprefix(".")):
        yield from form.hidden(path)


def _places(content: bytes, prefixes: WordArray) -> Iterator[tuple[int, int]]:
    for start in range(0, max(len(content) - PREFIX + 1, 0), AT_ONCE):
        part = np.frombuffer(content, np.uint8, min(AT_ONCE + PREFIX - 1, len(content) - start), start)
        words = np.zeros(part.size - PREFIX + 1, dtype=np.uint64)
        for k in range(PREFIX):
            words <<= np.uint64(8)
            words |= part[k : part.size - PREFIX + 1 + k]
        at = np.minimum(np.searchsorted(prefixes, words), prefixes.size - 1)
        hits = np.flatnonzero(prefixes[at] == words)
        yield from zip((hits + start).tolist(), words[hits].tolist(), strict=True)


ATTACKER = Attacker(
    name="residue",
    knows="reads the files byte by byte",
    on=everywhere(lambda evidence: [residue(evidence.table, evidence.release)]),
    public=listed(14, True),
    place=17,
)
