"""What a release proves by itself, re-checked; and what only an audit with the private table can show.

The guarantee is re-checked with exact integers on the published matrix. That the rows were really drawn with it
cannot be seen from outside; that the published frequencies are possible under it can.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow.parquet as pq

from sfumato.errors import ReleaseError, UsageError
from sfumato.guarantee import directions_of, exceeds_any_predicate, state_guarantee, violations
from sfumato.reconstruct.reading import connected, quoted
from sfumato.release import MANIFEST_NAME, README_NAME, Release, file_sha256, manifest_seal, value_type

PERTURBATIONS = ("uniform", "fine-grain")
Status = Literal["holds", "fails", "needs audit"]

FALSE_ALARM = 1e-9
"""Probability with which the check of the published frequencies fails on a release that was drawn as it says."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at."""

    name: str
    status: Status
    detail: str


@dataclass(frozen=True)
class Verification:
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing failed. (What needs an audit is not covered.)"""
        return all(check.status != "fails" for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as JSON-ready values."""
        return {"holds": self.holds, "checks": [vars(check) for check in self.checks]}


def verify(release: Release) -> Verification:
    """Check a release: checksums, columns, rows, domain, frequencies, and the guarantee on the integer matrix."""
    checks = [*_files(release), _folder(release), *_seal(release), *_guarantee(release)]
    if all(check.status == "holds" for check in checks if check.name.startswith(("checksum of", "matrix"))):
        try:
            checks += [*_rows(release), *_metadata(release)]
        except ReleaseError as problem:
            checks.append(_check("data", False, problem.message, problem.message))
    return Verification((*checks, *_private(release)))


def _check(name: str, good: bool, detail: str, otherwise: str) -> Check:
    return Check(name, "holds" if good else "fails", detail if good else otherwise)


def _files(release: Release) -> Iterator[Check]:
    manifest = release.manifest
    for path, expected in (
        (release.data, manifest.data.sha256),
        (release.folder / README_NAME, manifest.readme_sha256),
    ):
        if not path.is_file():
            yield Check(f"checksum of {path.name}", "fails", "The file is not there.")
            continue
        yield _check(
            f"checksum of {path.name}",
            file_sha256(path) == expected,
            "The file is as it was published.",
            "The file was changed after it was published.",
        )


def _folder(release: Release) -> Check:
    """Nothing but the release may lie in its folder: a plan or a table beside it would be handed out with it."""
    known = {MANIFEST_NAME, README_NAME, release.data.name}
    others = sorted(path.name for path in release.folder.iterdir() if path.name not in known)
    return _check(
        "folder",
        not others,
        "It holds data, manifest and README.",
        f"It also holds {', '.join(map(repr, others[:5]))}.",
    )


def _seal(release: Release) -> Iterator[Check]:
    """The README seals the manifest: neither can change alone."""
    path = release.folder / README_NAME
    if path.is_file():
        text = (release.folder / MANIFEST_NAME).read_text(encoding="utf-8")
        seal = manifest_seal(text, release.manifest.readme_sha256)
        yield _check(
            "manifest",
            seal in path.read_text(encoding="utf-8", errors="replace"),
            "It is the one that the README was written with.",
            "It is not the one that the README was written with: one of the two was changed.",
        )


def _guarantee(release: Release) -> Iterator[Check]:
    manifest = release.manifest
    try:
        domain, matrix, bounds = manifest.domain, manifest.matrix, manifest.bounds
    except (ArithmeticError, ValueError, UsageError) as problem:
        yield Check("matrix", "fails", f"The matrix cannot be read: {problem}.")
        return
    good = matrix.size == domain.size == len(bounds)
    yield _check(
        "matrix",
        good,
        f"{matrix.size} columns of integers, each summing to 2^64.",
        f"{matrix.size} columns and {len(bounds)} bounds for {domain.size} values.",
    )
    if not good:
        return
    yield _stated(release)
    for direction in directions_of(manifest.method, manifest.assurance):
        broken = list(violations(matrix, bounds, (direction,)))
        required = sum(b.gamma is not None for b in bounds)
        yield _check(
            f"guarantee, {direction}",
            required > 0 and not broken,
            f"The bound holds for all {required} values that have one, in exact integers.",
            f"The bound is broken for {', '.join(repr(domain.labels[v.code]) for v in broken[:5])}."
            if required
            else "No value has a bound: nothing is guaranteed.",
        )
    if manifest.guarantee.scope == "any predicate":
        yield _check(
            "guarantee, any predicate",
            matrix.is_uniform and not exceeds_any_predicate(matrix, bounds),
            "No two entries of a row of the matrix differ by more than the strictest factor, in exact integers.",
            "The odds of some statement can change by more than the strictest factor.",
        )
    stated = manifest.mechanism.epsilon
    same = (stated is None) == math.isinf(matrix.epsilon) and (stated is None or math.isclose(stated, matrix.epsilon))
    yield _check("epsilon", same, f"{_shown(stated)}, as stated.", f"{_shown(matrix.epsilon)}, not {_shown(stated)}.")
    real = manifest.status == "release"
    yield _check("secret key", real, "Drawn from a secret key.", "Drawn from a test seed: not for release.")


def _stated(release: Release) -> Check:
    """The stated guarantee must be the one that follows from method, assurance, bounds and matrix."""
    manifest = release.manifest
    due = state_guarantee(
        manifest.domain, manifest.bounds, manifest.matrix, manifest.method, manifest.assurance, manifest.from_table
    )
    stated = manifest.guarantee_value
    parts = ("sentence", "adversary", "prior", "scope", "directions")
    wrong = [part for part in parts if getattr(stated, part) != getattr(due, part)]
    wrong += [] if set(due.limits) <= set(stated.limits) else ["limits"]
    wrong += ["from_table"] if manifest.observed_domains and not manifest.from_table else []
    return _check(
        "guarantee, as stated",
        not wrong and manifest.method in PERTURBATIONS,
        "It is what follows from the method, the bounds and the matrix.",
        f"Its {', '.join(wrong) or 'method'} does not follow from the method, the bounds and the matrix.",
    )


def _rows(release: Release) -> Iterator[Check]:
    manifest = release.manifest
    domain, matrix = manifest.domain, manifest.matrix
    with connected(release) as connection:
        names = [row[0] for row in connection.sql("DESCRIBE release").fetchall()]
        total = connection.sql("SELECT count(*) FROM release").fetchall()[0][0]
        select = ", ".join(quoted(n) for n in domain.names)
        # a data file without the randomized columns is told by the check of the columns
        present = set(domain.names) <= set(names)
        query = f"SELECT {select}, count(*) FROM release GROUP BY ALL"
        counted = connection.sql(query).fetchall() if present else []
    yield _check(
        "columns",
        names == list(release.column_names),
        f"{len(names)} columns, as stated.",
        f"They are {names}.",
    )
    yield _check("rows", total == manifest.data.rows, f"{total:,} rows, as stated.", f"{total:,} rows, not as stated.")
    observed = {(tuple(key) if len(key) > 1 else key[0]): rows for *key, rows in counted}
    outside = [value for value in observed if value not in domain.index]
    yield _check(
        "domain",
        present and not outside,
        f"Every published {domain.name} is one of {domain.size} values.",
        f"{len(outside)} published value(s) lie outside the domain, e.g. {outside[:3]}.",
    )
    if outside or not present or not total or matrix.size != domain.size:
        return
    margin = math.sqrt(math.log(2 * domain.size / FALSE_ALARM) / (2 * total))  # Hoeffding, for all values at once
    quiet = [matrix.off_diagonal[matrix.quietest_except(j)] if domain.size > 1 else 1.0 for j in range(domain.size)]
    shares = [observed.get(value, 0) / total for value in domain.values]
    odd = [
        domain.labels[j]
        for j, share in enumerate(shares)
        if not quiet[j] - margin <= share <= matrix.diagonal[j] + margin
    ]
    yield _check(
        "published frequencies",
        not odd,
        f"Each value's share is possible under the matrix (within {margin:.2g}; false alarm {FALSE_ALARM:g}).",
        f"Impossible under the matrix for {', '.join(map(repr, odd[:5]))}: the column was not drawn with it.",
    )


def _metadata(release: Release) -> Iterator[Check]:
    """The Parquet file's types and its metadata, which must hold nothing of the source."""
    if release.manifest.data.format != "parquet":
        return
    file = pq.ParquetFile(release.data)
    types = [value_type(t) for t in file.schema_arrow.types]
    stated = [column.type for column in release.manifest.columns]
    yield _check("types", types == stated, "As stated.", f"They are {types}, not {stated}.")
    extra = dict(file.metadata.metadata or {})
    yield _check("metadata", not extra, "The file carries none.", f"The file carries {sorted(extra)}.")


def _private(release: Release) -> Iterator[Check]:
    columns = ", ".join(repr(part.name) for part in release.manifest.mechanism.domain)
    yield Check(
        "drawing",
        "needs audit",
        f"That {columns} was drawn with this matrix, each row by itself, from a secret key.",
    )
    if not release.manifest.data.shuffled:
        yield Check("row order", "needs audit", "That the order of the rows tells nothing of the sensitive value.")
    yield Check("other columns", "needs audit", "That no untouched column predicts the sensitive value.")
    yield Check("one row per person", "needs audit", "That nobody has several rows, or that this was meant.")


def _shown(x: float | None) -> str:
    return "infinite" if x is None or math.isinf(x) else f"{x:.6g}"
