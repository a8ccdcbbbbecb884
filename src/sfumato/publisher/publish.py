"""Publishing: the plan is carried out row by row, and a release appears whole, by one rename, or not at all."""

from __future__ import annotations

from pathlib import Path

from sfumato.analyst.release import Release, open_release
from sfumato.errors import PlanMismatch, UsageError
from sfumato.methods import named
from sfumato.methods.plan import AnyPlan
from sfumato.publisher.describing import manifest_of
from sfumato.publisher.table import Table, check_identities, no_progress, profile
from sfumato.publisher.whole_or_absent import new_folder
from sfumato.release.folder import MANIFEST_NAME, README_NAME, file_sha256, manifest_seal
from sfumato.release.formats import FormatName
from sfumato.release.readme import readme
from sfumato.values.arrays import Progress
from sfumato.values.looks import refuse
from sfumato.values.profile import Profile
from sfumato.values.randomness import SecretKey


def publish(
    table: Table,
    plan: AnyPlan,
    folder: str | Path,
    *,
    key: SecretKey | None = None,
    format: FormatName | None = None,
    progress: Progress = no_progress,
) -> Release:
    """Carry out the plan and write a release: data, manifest and a README for the analyst.

    Without a `key` a fresh one is drawn from the operating system and forgotten. A key from a file
    (`SecretKey.load`) goes with a record key in the policy, and only with it. `progress` is told of each batch how
    many rows were read, `rows_read(plan)` in all.
    """
    key = _checked_key(key, table)
    refuse(table.stops)
    if plan.table_hash:  # a plan that was signed off
        plan.require(table.hash(), table.policy.hash())
    _check_asked(table, plan)
    kind = format or table.policy.output.format
    _check_engine(table, plan, kind)
    with new_folder(Path(folder)) as partial:
        steps = plan.steps(_counted_again(table, plan, progress))
        reads = rows_read(plan) - _rows_counted(plan)
        written = table.engine.write(table.rows, steps, key, partial, kind, progress, reads)
        manifest = manifest_of(table, plan, key.seeded or plan.seeded, written, kind)
        text = readme(manifest) + f"\n{manifest_seal(manifest.to_json(), '')}\n"
        (partial / README_NAME).write_text(text, encoding="utf-8")
        manifest = manifest.model_copy(update={"readme_sha256": file_sha256(partial / README_NAME)})
        (partial / MANIFEST_NAME).write_text(manifest.to_json(), encoding="utf-8")
    return open_release(folder)


def _counted_again(table: Table, plan: AnyPlan, progress: Progress) -> Profile | None:
    """Count the table once more where the plan holds for its counts alone; else only look for repeated persons."""
    if not table.policy.method.rechecks:
        check_identities(table)
        return None
    counted = profile(table, progress)
    table.policy.method.recheck(plan, counted)
    return counted


def rehearse(table: Table, plan: AnyPlan, progress: Progress = no_progress) -> None:
    """Raise whatever `publish` would raise because of the table: read and recode every row, and write nothing.

    `plan` knows the counts of a table, and not all of its columns: a missing value that the policy has no meaning for,
    or a line that cannot be read, is found by reading. `sfumato plan` rehearses.
    """
    refuse(table.stops)
    _check_asked(table, plan)
    _check_engine(table, plan, table.policy.output.format)
    table.engine.rehearse(table.rows, progress)


def _check_engine(table: Table, plan: AnyPlan, format: FormatName) -> None:
    keeps_order, draws_each_row = not plan.shuffle, plan.draws_each_row
    table.engine.check(table.rows, format, keeps_order=keeps_order, draws_each_row=draws_each_row)


def rows_read(plan: AnyPlan) -> int:
    """Return how many rows publishing reads; those of buckets are dealt before they are read."""
    dealt = 0 if plan.mechanisms else plan.rows
    return _rows_counted(plan) + dealt + plan.rows + plan.dropped


def _rows_counted(plan: AnyPlan) -> int:
    return plan.rows + plan.dropped if named(plan.method).rechecks else 0


def _check_asked(table: Table, plan: AnyPlan) -> None:
    """Raise unless the plan is for what the policy asks: the release names the policy by its hash."""
    policy, method = table.policy, table.policy.method
    asked = (method.name, method.assurance) == (plan.method, plan.assurance)
    if not asked or not method.meets(plan, policy.requirement, policy.attributes):
        raise PlanMismatch(
            "The plan is not for the method, the assurance and the requirement that the policy states.",
            "Plan with sf.plan(profile, policy.method, policy.requirement), or change the policy.",
        )


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
