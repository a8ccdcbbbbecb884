"""Publishing: the plan is carried out row by row, and a release appears whole, by one rename, or not at all."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import ValidationError

from sfumato.analyst.release import Release, open_release
from sfumato.claims.claim import Guarantee, Shape
from sfumato.engines.base import BucketsWritten, FilesWritten, Publication, Written
from sfumato.engines.rows.encoding import changed_table, fitted
from sfumato.engines.rows.looking import holds, holds_formulas
from sfumato.errors import PlanMismatch, SfumatoError, UsageError
from sfumato.methods import UNREADABLE, named
from sfumato.methods.plan import Plan, check_order, stated
from sfumato.publisher.signing import SigningKey
from sfumato.publisher.table import (
    Table,
    check_identities,
    declared_order,
    held_by_domain,
    no_progress,
    profile,
    read_off,
)
from sfumato.publisher.whole_or_absent import check_new as check_new
from sfumato.publisher.whole_or_absent import new_folder
from sfumato.release.folder import MANIFEST_NAME, README_NAME, SIGNATURE_NAME, file_sha256, manifest_seal, value_type
from sfumato.release.formats import FORMATS, FormatName
from sfumato.release.manifest import (
    Column,
    DataFile,
    DomainPart,
    GroupsPart,
    Manifest,
    Treatment,
    bucket_keys,
    mechanism_parts,
    response_part,
)
from sfumato.release.parts import FilePart
from sfumato.release.readme import readme
from sfumato.release.verify.verification import SECRET_KEY, stated_checks
from sfumato.show.formulas import ESCAPE, is_formula, warning
from sfumato.values.arrays import Progress
from sfumato.values.attributes import Attribute, Domain
from sfumato.values.bucket_deal import COUNT, GROUP
from sfumato.values.computed import observed_domain
from sfumato.values.looks import refuse
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey, no_core_dump, release_id
from sfumato.values.recoding import Merge
from sfumato.values.software import software


def publish(
    table: Table,
    plan: Plan,
    folder: str | Path,
    *,
    key: SecretKey | None = None,
    format: FormatName | None = None,
    sign: SigningKey | None = None,
    progress: Progress = no_progress,
) -> Release:
    """Carry out the plan and write a release: data, manifest and a README for the analyst.

    Without a `key` a fresh one is drawn from the operating system and forgotten. A key from a file
    (`SecretKey.load`) goes with a record key in the policy, and only with it. With `sign` (`SigningKey.load`) the
    manifest is signed, so that readers who have the public key can check who published it. `progress` is told of
    each batch how many rows were read, `rows_read(plan)` in all.
    """
    key = _checked_key(key, table)
    _check_outside(table, Path(folder))
    refuse(table.stops)
    kind = format or table.policy.output.format
    with _as_data(plan):
        if plan.table_hash:  # a plan that was signed off
            plan.require(table.hash(), table.policy.hash())
        else:
            plan.figures.require(plan)  # it may be from a file all the same
        _check(table, plan, kind)
    with new_folder(Path(folder)) as partial, unchanged(table), no_core_dump():
        with _as_data(plan):
            steps = plan.steps(_counted_again(table, plan, progress))
        reads = rows_read(plan) - _rows_counted(plan)
        escapes = FORMATS[kind].holds_formulas and table.policy.output.formulas == "escape"
        written = table.engine.write(Publication(table.rows, steps, key, partial, kind, progress, reads, escapes))
        if plan.mechanisms and written.data.rows != plan.rows:
            raise changed_table()
        manifest = _verified(table, plan, key.seeded or plan.seeded, written, _Files(kind, escapes))
        text = readme(manifest) + f"\n{manifest_seal(manifest.to_json(), '')}\n"
        (partial / README_NAME).write_text(text, encoding="utf-8")
        manifest = manifest.model_copy(update={"readme_sha256": file_sha256(partial / README_NAME)})
        (partial / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
        if sign:
            signature = sign.sign((partial / MANIFEST_NAME).read_bytes())
            (partial / SIGNATURE_NAME).write_text(signature.to_text(), encoding="ascii", newline="\n")
    return open_release(folder)


def _check_outside(table: Table, folder: Path) -> None:
    """Raise if the release would lie in the folder that is the table: it would be read as originals the next time."""
    own = table.source.folder
    if own is not None and own.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise UsageError(
            f"The release {str(folder)!r} would lie in the folder of the table, {str(own)!r}.",
            "Choose a folder outside of it: what lies in it is read as the table.",
        )


def _counted_again(table: Table, plan: Plan, progress: Progress) -> Profile | None:
    """Count the table once more where the plan holds for its counts alone; else only look for repeated persons."""
    if not _is_counted_again(plan):
        check_identities(table)
        return None
    counted = profile(table, progress)
    if not plan.shuffle:
        check_order(replace(counted, order=counted.together or counted.order))
    table.policy.method.recheck(plan, counted)
    return counted if table.policy.method.rechecks else None


def rehearse(table: Table, plan: Plan, progress: Progress = no_progress) -> None:
    """Raise whatever `publish` would raise because of the table: read and recode every row, and write nothing.

    `plan` knows the counts of a table, and not all of its columns: a missing value that the policy has no meaning for,
    or a line that cannot be read, is found by reading. `sfumato plan` rehearses.
    """
    _rehearsed(table, plan, progress)


def _rehearsed(table: Table, plan: Plan, progress: Progress) -> Plan:
    """Return the plan with what to know of the files that publishing will write."""
    output = table.policy.output
    with unchanged(table):
        refuse(table.stops)
        _check(table, plan, output.format)
        found = table.engine.rehearse(table.rows, progress)
    if output.formulas == "escape" or not FORMATS[output.format].holds_formulas:
        return plan
    names = [name for name in plan.published if name in found or is_formula(name)]
    return replace(plan, notes=(*plan.notes, warning(names, ESCAPE))) if names else plan


def to_sign(table: Table, plan: Plan, progress: Progress = no_progress) -> Plan:
    """Return a plan that somebody can sign off: rehearsed, and bound to the table and the policy."""
    plan = _rehearsed(table, plan, progress)
    with unchanged(table):
        return plan.bound_to(table.hash(), table.policy.hash())


@contextmanager
def unchanged(table: Table) -> Iterator[None]:
    """Raise if the table is another one at the end than when it was opened, whatever its reader made of that."""
    try:
        yield
    except SfumatoError:
        table.source.check_unchanged()
        raise
    table.source.check_unchanged()


def _check(table: Table, plan: Plan, format: FormatName) -> None:
    """Raise unless the plan is for what the policy asks: the release names the policy by its hash."""
    method, requirement = table.policy.method, table.policy.requirement
    asked = (method.name, method.assurance) == (plan.method, plan.assurance) and isinstance(requirement, method.takes)
    if not asked or not plan.figures.meets(requirement, method.asked(requirement, table.policy.attributes)):
        raise PlanMismatch(
            "The plan is not for the method, the assurance and the requirement that the policy states.",
            "Plan with sf.plan(profile, policy.method, policy.requirement), or change the policy.",
        )
    _check_derived(table, plan)
    table.engine.check(table.rows, format, keeps_order=not plan.shuffle, draws_each_row=plan.draws_each_row)


def rows_read(plan: Plan) -> int:
    """Return how many rows publishing reads; those of buckets are dealt before they are read."""
    dealt = 0 if plan.mechanisms else plan.rows
    return _rows_counted(plan) + dealt + plan.rows + plan.dropped


def _rows_counted(plan: Plan) -> int:
    return plan.rows + plan.dropped if _is_counted_again(plan) else 0


def _is_counted_again(plan: Plan) -> bool:
    """Whether the table's own counts must be seen: also where a file says that its order tells nothing."""
    return named(plan.method).rechecks or (plan.from_file and not plan.shuffle)


def _checked_key(key: SecretKey | None, table: Table) -> SecretKey:
    record_key = table.policy.record_key
    if record_key and (key is None or not (key.kept or key.seeded)):
        raise UsageError(
            f"The policy names the record key {record_key!r}, so that records keep their draws across releases; "
            "that needs a key file.",
            "Make one with `sfumato key FILE`, keep it outside every release, and pass --key-file FILE.",
        )
    if key is not None and key.kept and not record_key:
        raise UsageError(
            "A key file goes with a record key: without one, draws belong to row numbers, and using a key twice would "
            "give different people the same noise.",
            "Name the column in the policy (record_key = ...), or leave the key file out.",
        )
    return key or SecretKey.fresh()


def _verified(table: Table, plan: Plan, is_seeded: bool, written: Written, files: _Files) -> Manifest:
    """Return the manifest, if `verify` will accept all that it states."""
    try:
        manifest = _manifest(table, plan, is_seeded, written, files)
    except ValidationError as problem:
        first = problem.errors()[0]
        raise PlanMismatch(
            f"No release can state what the plan does: {'.'.join(map(str, first['loc']))}: {first['msg']}.",
            "Plan again.",
        ) from None
    for check in stated_checks(manifest):
        if check.status == "fails" and check.name != SECRET_KEY:
            raise PlanMismatch(f"The release would not verify: {check.name}. {check.detail}", "Plan again.")
    return manifest


# --- what the manifest says -------------------------------------------------------------------------------------------


class _Files(NamedTuple):
    """How the files are written."""

    format: FormatName
    escaped: bool


def _manifest(table: Table, plan: Plan, is_seeded: bool, written: Written, files: _Files) -> Manifest:
    """Return the manifest; the README's checksum is still to be filled in."""
    recodings = {a.name: a.recoding for a in table.schema.attributes}
    data = written.data
    return Manifest(
        release_id=release_id(),
        created=datetime.datetime.now(datetime.UTC).date().isoformat(),
        software=software(),
        status="not for release" if is_seeded else "release",
        method=plan.method,
        assurance=plan.assurance,  # type: ignore[arg-type]
        guarantee=_with_limits(table, plan, written),
        data=DataFile(
            file=data.file,
            format=files.format,
            escaped=files.escaped,
            rows=data.rows,
            sha256=data.sha256,
            shuffled=plan.shuffle,
            parts=_parts(data),
        ),
        columns=_columns(table, plan, written),
        # what the policy merges, whatever the table has of it
        merged={name: dict(merge.values) for name, merge in recodings.items() if isinstance(merge, Merge)} or None,
        mechanisms=mechanism_parts(plan.claim, plan.mechanisms),
        groups=None if written.buckets is None else _groups(table, plan, written.buckets, data.rows),
        response=response_part(plan.claim),
        discloses_frequencies=plan.discloses_frequencies,
        computed_from_table=plan.computed_from_table,
        from_table=plan.from_table,
        observed_domains=plan.observed,
        second_release=plan.claim.second_release(Shape(plan.mechanisms), keyed=table.policy.record_key is not None),
        policy_sha256=table.policy.hash(),
        readme_sha256="",
    )


def _parts(files: FilesWritten) -> tuple[FilePart, ...] | None:
    if files.parts is None:
        return None
    return tuple(FilePart(file=part.file, rows=part.rows, sha256=part.sha256) for part in files.parts)


def _groups(table: Table, plan: Plan, buckets: BucketsWritten, rows: int) -> GroupsPart:
    """Return what the manifest says of the buckets, which share `rows` records."""
    return GroupsPart(
        file=buckets.files.file,
        lines=buckets.files.rows,
        sha256=buckets.files.sha256,
        domain=tuple(_shown_domain(table, plan, buckets)),
        group_column=GROUP,
        count_column=COUNT,
        number=buckets.number,
        withheld=plan.rows - rows,
        parts=_parts(buckets.files),
        **bucket_keys(plan.claim),
    )


def _shown_domain(table: Table, plan: Plan, buckets: BucketsWritten) -> Iterator[DomainPart]:
    """Give the sensitive columns. Of a domain that was read off the table only values of published records are told."""
    codes = buckets.domain.split(np.flatnonzero(buckets.published).astype(np.int32))
    for part, of_part in zip(buckets.domain.parts, codes, strict=True):
        used = set(of_part.tolist()) if part.name in plan.observed else range(len(part.values))
        shown = Domain(part.name, tuple(v for code, v in enumerate(part.values) if code in used), part.ordered)
        held = held_by_domain(table, shown)
        yield DomainPart(name=part.name, values=shown.values, holds=held, ordered=part.ordered)


def _columns(table: Table, plan: Plan, written: Written) -> tuple[Column, ...]:
    randomized = {part.name: part for mechanism in plan.mechanisms for part in mechanism.domain.parts}

    def treatment(name: str) -> Treatment:
        if name in randomized:
            return "randomized"
        if name in {mechanism.label for mechanism in plan.mechanisms}:
            return "sub-table"
        if name == GROUP and written.buckets:
            return "group"
        recoding = table.schema[name].recoding
        return "untouched" if recoding is None else "merged" if isinstance(recoding, Merge) else "binned"

    return tuple(
        Column(
            name=f.name,
            type=value_type(f.type),
            treatment=treatment(f.name),
            holds=held_by_domain(table, randomized[f.name]) if f.name in randomized else holds(f),
            formulas=holds_formulas(f),
            order=None if f.name in randomized else declared_order(table, f.name),
        )
        for f in written.data.schema
    )


def _with_limits(table: Table, plan: Plan, written: Written) -> Guarantee:
    """Return the guarantee with the limits that come of how this table is published."""
    limits = list(plan.guarantee.limits)
    if not plan.shuffle:
        limits.append(
            "Rows are in the table's order: a test found no dependence of the sensitive value on it, which is no proof."
        )
        if written.data.parts:
            limits.append(
                "The files of the data are pieces of the table's files: they tell which rows were in one file."
            )
    if table.policy.person and table.policy.person.repeated == "per-row":
        limits.append("Several rows of one person may be published: what is learned of a person adds up over them.")
    hidden = {*table.schema.names("sensitive"), *table.policy.method.randomized(table.schema)}
    dropped = [a.name for a in table.schema.attributes if a.name in hidden and a.missing == "drop"]
    if dropped:
        withheld = written.buckets is not None and plan.rows > written.data.rows
        limits.append(
            f"Rows without a value of {', '.join(dropped)} were left out: who is known to be in the table and is not "
            f"in the release has none{', or is withheld' if withheld else ''}."
        )
    return replace(plan.guarantee, limits=tuple(limits))


# --- what the plan states is derived, and never believed --------------------------------------------------------------
#
# A plan file can come from anybody, and the hash that seals it can be computed by whoever changes it. What follows from
# the policy (which columns are hidden, their declared domains, whether rows are shuffled, what is claimed, what was
# computed from the table) must be what the plan says. That the matrices keep their bounds, `Figures.require` tells;
# that the counts are the table's, the engine.


def _check_derived(table: Table, plan: Plan) -> None:
    """Raise unless all that follows from the policy is stated so in the plan."""
    if wrong := next(_underivable(table, plan), None):
        raise PlanMismatch(
            f"The plan's {wrong} is not what follows from the policy.",
            "The plan file was changed after it was made, or is for another policy: plan again.",
        )


@contextmanager
def _as_data(plan: Plan) -> Iterator[None]:
    """Let what checks stumble over in the numbers of a file be the file's mistake; in those of a planner it is ours."""
    try:
        yield
    except UNREADABLE as problem:
        if not plan.from_file:
            raise
        raise PlanMismatch(
            f"The plan's numbers or names cannot be used: {type(problem).__name__} while they were checked.",
            "The plan file was changed after it was made: plan again.",
        ) from None


def _underivable(table: Table, plan: Plan) -> Iterator[str]:
    policy, schema, figures = table.policy, table.schema, plan.figures
    method, names = policy.method, [part.name for part in figures.hidden]
    if not method.hides(schema, names) or len(set(names)) < len(names):
        yield "list of hidden columns"
        return
    counted = {*schema.names("sensitive"), *method.randomized(schema)}
    declared = {name: fitted(schema[name], table.source.column_type(name)) for name in counted}
    if any(_declared(declared[part.name]) not in (None, part) for part in figures.hidden):
        yield "domain"
    if sorted(plan.observed) != sorted(name for name in counted if declared[name].declared is None):
        yield "list of observed domains"
    if plan.from_file and not plan.shuffle and not (policy.output.order == "keep" and method.keeps_order):
        yield "order of the rows"
    if method.claim_for(figures, policy.requirement) != plan.claim:
        yield "claim"
    known = (*map(observed_domain, plan.observed), *read_off(policy))
    computed, guarantee = stated(method, figures, known, keeps_order=not plan.shuffle)
    if computed != plan.computed_from_table:
        yield "list of what was computed from the table"
    if guarantee != plan.guarantee:
        yield "guarantee"


def _declared(attribute: Attribute) -> Domain | None:
    """Return the domain that the policy declares, if it does."""
    return None if attribute.declared is None else Domain(attribute.name, attribute.declared, attribute.ordered)
