"""What a release proves by itself, re-checked; and what only an audit with the private table can show.

The files must be those that were published, and carry what is stated and no more. The claim says what must be stated
with it, and re-checks the guarantee with exact integers. What the rows must hold depends on how values are hidden:
drawn with matrices (`drawn`), or dealt to buckets (`buckets`); shuffled rows must look so (`order`).
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pyarrow as pa

from sfumato.claims.buckets import BucketClaim
from sfumato.claims.claim import Card, Check, Published, Status, needs_audit, outcome
from sfumato.errors import UsageError
from sfumato.release.certificate import Certificate
from sfumato.release.folder import (
    LARGEST_README,
    MANIFEST_NAME,
    OWN_NAMES,
    README_NAME,
    SIGNATURE_NAME,
    ReleaseFolder,
    file_sha256,
    manifest_seal,
    value_type,
)
from sfumato.release.format import Format
from sfumato.release.formats import FORMATS
from sfumato.release.manifest import DataFile, GroupsPart, Manifest
from sfumato.release.parts import FilePart
from sfumato.release.readme import readme
from sfumato.release.signature import PublicKey, read_signature
from sfumato.release.verify import buckets, drawn
from sfumato.release.verify.certificate import CERTIFICATE, certificate_checks
from sfumato.release.verify.order import random_order
from sfumato.show.formulas import escaped
from sfumato.show.results import Result
from sfumato.show.screen import Screen
from sfumato.values.computed import ROW_ORDER, left_out, observed_domain
from sfumato.values.mechanism import Mechanism
from sfumato.values.software import software

SHOWN = 5
MOST_QUOTED = 100
"""Letters of a line that is not as it should be."""
QUOTING = 4
"""Bytes of a header for each of its names' own, at most: quotes are around them, and twice for those inside."""
SEALED = (f"checksum of {README_NAME}", "manifest")
"""Checks, by the beginning of their names, that tell that the README was written with the manifest."""
SIGNATURE = "signature"
SECRET_KEY = "secret key"
"""The check that a release from a test seed fails, and may fail."""
NEEDED_FOR_ORDER = ("columns", "rows", "data", "domain", "group")
"""Checks, by the beginning of their names, that must hold before the order of the rows can be looked at."""
LEFT_OUT = re.compile("Rows without a value of (.+) were left out")
"""How the limit begins that rows were left out for want of a value."""
UNREADABLE = (ArithmeticError, IndexError, ValueError, UsageError)
"""What reading a manifest whose numbers or domains were changed can raise."""


@dataclass(frozen=True, repr=False)
class Verification(Result):
    """All checks of a release."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        """Whether nothing failed. (What needs an audit is not covered.)"""
        return all(check.status != "fails" for check in self.checks)

    def summary(self, card: Card | None) -> Screen:
        """Return the first screen: whether all holds, what fails or cannot be seen, and the promise, if it holds."""
        named = {status: [check for check in self.checks if check.status == status] for status in get_args(Status)}
        failed, unseen, left = named["fails"], named["needs audit"], named["not checked"]
        verdict = (
            f"FAILS: {len(failed)} of {len(failed) + len(named['holds'])} checks. Do not {_distrusted(failed)}."
            if failed
            else f"HOLDS: all {len(named['holds'])} checks that the release alone can prove."
        )
        told = (f"  {check.status}  {check.name}: {check.detail}" for check in (*failed, *left))
        points = tuple(f"{check.name}: {check.detail}" for check in unseen)
        return Screen(
            (verdict, *told, *(["", *card.lines] if card else [])), points, "Needs an audit, with the private table"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the checks as JSON-ready values."""
        return {"holds": self.holds, "checks": [vars(check) for check in self.checks]}

    def to_arrow(self) -> Any:
        """Return a row for each check."""
        return pa.Table.from_pylist([vars(check) for check in self.checks])

    def __repr__(self) -> str:
        counted = Counter(check.status for check in self.checks)
        told = ", ".join(f"{status}: {counted[status]}" for status in get_args(Status) if counted[status])
        return f"Verification({told})"


def _distrusted(failed: Sequence[Check]) -> str:
    """Return what must not be done; a certificate that is not of a release says nothing against the release."""
    only_certificate = all(check.name.startswith(CERTIFICATE) for check in failed)
    return "trust the certificate" if only_certificate else "use the release"


def verify(
    release: ReleaseFolder, certificate: Certificate | None = None, signer: PublicKey | None = None
) -> Verification:
    """Check a release: checksums, columns, rows, domain, frequencies, and the guarantee in exact integers.

    With a certificate, also whether it is of this release; with a signer, whether they signed it.
    """
    manifest = release.manifest
    hiding = buckets if manifest.in_buckets else drawn
    checks = [*as_published(release), *signature_checks(release, signer), *stated_checks(manifest)]
    checks += as_told(release) if _hold(checks, SEALED) else ()
    if _hold(checks, ("checksum of", "matrix")):
        for look in (hiding.rows, carried):
            try:
                checks += look(release)
            except UsageError as problem:
                checks.append(Check("data", "fails", problem.message))
        checks = list(dict.fromkeys(checks))  # what cannot be read is told once
        if _hold(checks, NEEDED_FOR_ORDER):
            checks += random_order(release)
            checks += [] if manifest.in_buckets else drawn.no_copies(release)
    try:
        of_claim = list(manifest.claim.unseen(manifest.withheld))
    except UNREADABLE:
        of_claim = []  # which is told already
    one_row = needs_audit("one row per person", "That nobody has several rows, or that this was meant.")
    certified = certificate_checks(release, certificate) if certificate else ()
    return Verification((*checks, *hiding.unseen(manifest, of_claim), one_row, *certified))


def _hold(checks: list[Check], beginnings: tuple[str, ...]) -> bool:
    return all(check.status == "holds" for check in checks if check.name.startswith(beginnings))


# --- what is stated ---------------------------------------------------------------------------------------------------


def stated_checks(manifest: Manifest) -> Iterator[Check]:
    """The matrices must be matrices with the stated epsilon, the claim kept as far as it shows, and the key secret."""
    try:
        stated = _published(manifest)
    except UNREADABLE as problem:
        told = problem.message if isinstance(problem, UsageError) else f"The matrix cannot be read: {problem}."
        yield Check("matrix", "fails", told)
        return
    yield from _matrices(stated.mechanisms)
    try:
        of_claim = list(manifest.claim.checks(stated))
    except UNREADABLE as problem:
        told = problem.message if isinstance(problem, UsageError) else f"The limit cannot be read: {problem}."
        of_buckets = f"Not what follows from {BucketClaim.rests_on}: at_most or domain."
        yield Check("guarantee, as stated", "fails", of_buckets if manifest.in_buckets else told)
    else:
        yield from of_claim
    yield from _epsilons(manifest, stated.mechanisms)
    how = "Dealt by" if manifest.in_buckets else "Drawn from"
    secret = manifest.status == "release"
    yield outcome(SECRET_KEY, secret, f"{how} a secret key.", f"{how} a test seed: not for release.")


def _matrices(mechanisms: Sequence[Mechanism]) -> Iterator[Check]:
    """Tell how many columns of integers there are; to read them was to check them."""
    if mechanisms:
        tables = [table for mechanism in mechanisms for table in mechanism.tables]
        columns = sum(table.matrix.size for table in tables)
        of_tables = f" in {len(tables)} sub-tables" if mechanisms[0].label else ""
        of_tables = f" in {len(mechanisms)} matrices" if len(mechanisms) > 1 else of_tables
        yield Check("matrix", "holds", f"{columns} columns of integers{of_tables}, each summing to 2^64.")


def _epsilons(manifest: Manifest, mechanisms: Sequence[Mechanism]) -> Iterator[Check]:
    """The matrices must have the stated epsilon."""
    for mechanism, part in zip(mechanisms, manifest.mechanisms, strict=True):
        stated, real = part.epsilon, mechanism.epsilon
        same = (stated is None) == math.isinf(real) and (stated is None or math.isclose(stated, real))
        yield outcome(
            "epsilon" if len(mechanisms) == 1 else f"epsilon of {mechanism.domain.name}",
            same,
            f"{_shown(stated)}, as stated.",
            f"{_shown(real)}, not {_shown(stated)}.",
        )


def _shown(x: float | None) -> str:
    return "infinite" if x is None or math.isinf(x) else f"{x:.6g}"


def _published(manifest: Manifest) -> Published:
    """Return what is stated, with the keys that contradict others whatever is claimed."""
    fits = {
        "treatments": _treatments_fit(manifest),
        "observed_domains": all(
            (observed_domain(part.name) in manifest.computed_from_table) == (part.name in manifest.observed_domains)
            for parts in (manifest.only_in_buckets, *(mechanism.domain for mechanism in manifest.mechanisms))
            for part in parts
        ),
        "from_table": manifest.from_table == bool(manifest.computed_from_table),
        "columns": not manifest.in_buckets or _buckets_are_last(manifest),
    }
    return Published(
        mechanisms=manifest.mechanism_values,
        withheld=manifest.withheld,
        computed=manifest.computed_from_table,
        is_misnamed=manifest.is_misnamed,
        assurance=manifest.assurance,
        guarantee=manifest.guarantee,
        second_release=manifest.second_release,
        columns=tuple(column.name for column in manifest.columns),
        shuffled=manifest.data.shuffled,
        discloses_frequencies=manifest.discloses_frequencies,
        due_facts=frozenset(_due_facts(manifest)),
        dealt_within=manifest.buckets.dealt_within if manifest.in_buckets else (),
        contradictions=tuple(key for key, good in fits.items() if not good),
    )


def _due_facts(manifest: Manifest) -> set[str]:
    """Return what other keys of a manifest say was computed from the table, and its list must hold."""
    limits = (LEFT_OUT.match(limit) for limit in manifest.guarantee.limits)
    return {
        *map(observed_domain, manifest.observed_domains),
        *([] if manifest.data.shuffled else [ROW_ORDER]),
        *(left_out([limit[1]]) for limit in limits if limit),
    }


def _buckets_are_last(manifest: Manifest) -> bool:
    numbers = [column.name for column in manifest.columns if column.treatment == "group"]
    return numbers == [manifest.buckets.group_column] == [column.name for column in manifest.columns[-1:]]


def _treatments_fit(manifest: Manifest) -> bool:
    """Whether the columns are treated as mechanisms, groups and merged values say."""
    special = {part.name: "randomized" for mechanism in manifest.mechanisms for part in mechanism.domain}
    special |= {m.sub_table_column: "sub-table" for m in manifest.mechanisms if m.sub_table_column}
    special |= {manifest.buckets.group_column: "group"} if manifest.in_buckets else {}
    merged = set(manifest.merged or {})
    apart = {part.name for part in manifest.only_in_buckets}
    plain = [column for column in manifest.columns if column.name not in special]
    return (
        all(column.treatment == special[column.name] for column in manifest.columns if column.name in special)
        and all(column.treatment in ("untouched", "binned", "merged") for column in plain)
        and all((column.treatment == "merged") == (column.name in merged) for column in plain)
        and merged <= {column.name for column in manifest.columns} | apart
    )


# --- as they were published -----------------------------------------------------------------------------------------


Tables = list[tuple[DataFile | GroupsPart, list[Path]]]
"""The tables of a release, as the manifest states them, with their files."""


def _tables(release: ReleaseFolder) -> Tables:
    return list(zip(release.manifest.tables, (release.data_files, release.groups_files), strict=False))


def as_published(release: ReleaseFolder) -> Iterator[Check]:
    """Check that the files are those that were published, and that no other lies beside them."""
    (data, files), *groups = _tables(release)
    yield _checksum(data, files)
    readme = release.folder / README_NAME
    if _is_too_large(readme):
        yield Check(f"checksum of {README_NAME}", "fails", f"It has more than {LARGEST_README:,} bytes, as none does.")
    else:
        yield _checksum_of_one(readme, release.manifest.readme_sha256)
    yield from (_checksum(*table) for table in groups)
    yield _folder(release)
    yield from _seal(release)


def _is_too_large(readme: Path) -> bool:
    return readme.is_file() and readme.stat().st_size > LARGEST_README


def _checksum(table: DataFile | GroupsPart, files: Sequence[Path]) -> Check:
    if table.parts is None:
        return _checksum_of_one(files[0], table.sha256)
    lost = [path.name for path in files if not path.is_file()]
    stated = zip(files, table.parts, strict=True)
    changed = [path.name for path, part in stated if path.is_file() and file_sha256(path) != part.sha256]
    return outcome(
        f"checksum of {table.file}",
        not lost and not changed,
        f"All {len(table.parts):,} files are as they were published.",
        " ".join([*_listed("Not there", lost), *_listed("Changed after publication", changed)]),
    )


def _checksum_of_one(path: Path, due: str) -> Check:
    name = f"checksum of {path.name}"
    if not path.is_file():
        return Check(name, "fails", "The file is not there.")
    return outcome(
        name,
        file_sha256(path) == due,
        "The file is as it was published.",
        "The file was changed after it was published.",
    )


def _listed(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
        yield f"{what}: {', '.join(names[:SHOWN])}{more}."


def _folder(release: ReleaseFolder) -> Check:
    """Nothing but the release may lie in its folder: a plan or a table beside it would be handed out with it."""
    known = {release.folder / name for name in OWN_NAMES}
    folders = [release.folder]
    for table, files in _tables(release):
        known |= {release.folder / table.file, *files}
        folders += [release.folder / table.file] if table.parts is not None else []
    found = (path for folder in folders if folder.is_dir() for path in folder.iterdir() if path not in known)
    others = sorted(path.relative_to(release.folder).as_posix() for path in found)
    return outcome(
        "folder",
        not others,
        "It holds the files of the release and no other.",
        f"It also holds {', '.join(map(repr, others[:SHOWN]))}.",
    )


def _seal(release: ReleaseFolder) -> Iterator[Check]:
    """The README seals the manifest: neither can change alone."""
    path = release.folder / README_NAME
    if path.is_file() and not _is_too_large(path):
        yield outcome(
            "manifest",
            _seal_of(release) in path.read_text(encoding="utf-8", errors="replace"),
            "It is the one that the README was written with.",
            "It is not the one that the README was written with: one of the two was changed.",
        )


def _seal_of(release: ReleaseFolder) -> str:
    text = (release.folder / MANIFEST_NAME).read_text(encoding="utf-8")
    return manifest_seal(text, release.manifest.readme_sha256)


def as_told(release: ReleaseFolder) -> Iterator[Check]:
    """Yield where the README says something else than this software writes of such a manifest.

    People read the README: one that promises more than the matrices keep could be sealed as well as an honest one.
    """
    try:
        due = [*f"{readme(release.manifest)}\n".splitlines(), _seal_of(release)]
    except UNREADABLE:
        return  # of such a manifest nothing can be written, which is told by the check of what it states
    found = (release.folder / README_NAME).read_text(encoding="utf-8", errors="replace").splitlines()
    if found == due:
        return
    number = next((k for k, (one, other) in enumerate(zip(found, due, strict=False)) if one != other), len(due))
    line = f"Line {number + 1:,} is {repr(found[number][:MOST_QUOTED]) if number < len(found) else 'missing'}"
    by = release.manifest.software
    if by == software():
        yield Check(README_NAME, "fails", f"{line}, which does not follow from the manifest.")
    else:
        told = f"{line}, which {software()} would not write; it was written by {by!r}, which may have other words."
        yield Check(README_NAME, "not checked", told)


# --- who signed them --------------------------------------------------------------------------------------------------


def signature_checks(release: ReleaseFolder, signer: PublicKey | None) -> Iterator[Check]:
    """Yield whether the signer signed the manifest; without one, that there is a signature, if there is."""
    if not os.path.lexists(release.folder / SIGNATURE_NAME):
        if signer:
            yield Check(SIGNATURE, "fails", f"The release is not signed: it has no {SIGNATURE_NAME}.")
        return
    found = read_signature(release.folder)
    if found is None:
        yield Check(SIGNATURE, "fails", f"{SIGNATURE_NAME} is not a signature of version 1.")
    elif signer is None:
        told = f"Signed, not checked: pass --signer PUBLICKEY. It says that its key is {found.fingerprint}."
        yield Check(SIGNATURE, "not checked", told)
    elif found.fingerprint != signer.fingerprint:
        told = f"Signed by another key, it says {found.fingerprint}; the signer's is {signer.fingerprint}."
        yield Check(SIGNATURE, "fails", told)
    else:
        yield outcome(
            SIGNATURE,
            signer.signed(release.folder, found),
            f"Signed by the key {signer.fingerprint}.",
            f"The key {signer.fingerprint} did not sign this: the manifest was changed since, or the signature.",
        )


# --- what files carry -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Columns:
    """What every file of a table must have: columns of these names, and of types that fit."""

    form: type[Format]
    names: Sequence[str]
    fit: Callable[[list[str]], bool]


def carried(release: ReleaseFolder) -> Iterator[Check]:
    """Check the types of files that tell them, and their metadata, which must hold nothing of the source."""
    manifest, form = release.manifest, FORMATS[release.manifest.data.format]
    yield from _headers(release, form)
    if not form.tells:
        return
    (data, files), *others = _tables(release)
    types = [column.type for column in manifest.columns]
    yield from _carried_by(data, files, "", _Columns(form, release.column_names, lambda found: found == types))
    for groups, files in others:
        fit = partial(buckets.types_fit, domain=manifest.domain)
        columns = _Columns(form, buckets.bucket_columns(manifest.buckets), fit)
        yield from _carried_by(groups, files, f" of {groups.file}", columns)


def _headers(release: ReleaseFolder, form: type[Format]) -> Iterator[Check]:
    """Check that files of text name the columns as stated: by other names another column would be asked for."""
    manifest = release.manifest
    named = [release.column_names, *([buckets.bucket_columns(manifest.buckets)] if manifest.in_buckets else [])]
    for names, (table, files) in zip(named, _tables(release), strict=True):
        due = [escaped(name) if manifest.data.escaped else name for name in names]
        size = QUOTING * sum(len(name.encode()) + 1 for name in due)
        found = [header for path in files if (header := form.header(path, size)) is not None]
        other = [str(header)[:MOST_QUOTED] for header in found if header != due]
        if found:
            yield outcome(
                f"header of {table.file}",
                not other,
                "It names the columns as stated.",
                f"It begins with {', '.join(other)}, and not with the names of the columns as stated.",
            )


def _carried_by(table: DataFile | GroupsPart, files: Sequence[Path], of: str, due: _Columns) -> Iterator[Check]:
    """What is wrong is told of the first file in which it is: what is kept grows with what is wrong, not with files."""
    wrong: dict[str, str] = {}
    for number, path in enumerate(files):
        for check, what in _flaws(path, due, table.parts[number] if table.parts else None):
            wrong.setdefault(check, f"{path.name}: {what}" if table.parts else what)
    good = {"types": "As stated.", "metadata": "No file carries any." if table.parts else "The file carries none."}
    checks: dict[str, str] = {name: good[name] for name in due.form.tells}
    if table.parts:
        checks["parts"] = "Each file has the columns and as many rows as stated."
    yield from (outcome(f"{name}{of}", name not in wrong, told, wrong.get(name, "")) for name, told in checks.items())


def _flaws(path: Path, due: _Columns, part: FilePart | None) -> Iterator[tuple[str, str]]:
    """Give the checks that a file fails, and how.

    Where all rows are read, the columns seen are those of the first part, and the rows are those of all of them.
    """
    try:
        file = due.form.carried(path)
    except (pa.ArrowException, OSError) as problem:
        yield due.form.tells[0], f"The file cannot be read: {str(problem).splitlines()[0].rstrip('.')}."
        return
    types = [value_type(kind) for kind in file.types]
    if "types" in due.form.tells and not due.fit(types):
        yield "types", f"They are {types}, not as stated."
    if file.metadata:
        yield "metadata", f"The file carries {file.metadata}."
    if part and file.names != list(due.names):
        yield "parts", f"Its columns are {file.names}, not as stated."
    if part and file.rows != part.rows:
        yield "parts", f"It has {file.rows:,} rows, not {part.rows:,} as stated."
