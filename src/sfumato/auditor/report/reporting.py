"""Writing the report of a release: the publisher's page with all figures, or a public one from the release alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from pydantic import ConfigDict, ValidationError, create_model

from sfumato.analyst.release import Release, open_release
from sfumato.auditor.evidence import Evidence
from sfumato.auditor.finding import Direction, Scale, Verdict
from sfumato.auditor.report.page import Details, Notice, Page, Section, Text, Verbatim, html_of
from sfumato.auditor.report.page_attackers import findings, public_findings
from sfumato.auditor.report.page_audit import Compared, comparison, utility
from sfumato.auditor.report.page_columns import before_after
from sfumato.auditor.report.page_counts import certainty, counts
from sfumato.auditor.report.page_mechanism import binding, blurring
from sfumato.auditor.report.page_words import citing, in_short, limits, promise, story
from sfumato.auditor.report.sheet import for_everybody, for_publisher, sheet
from sfumato.auditor.report.signed import signed_plan
from sfumato.auditor.utility.truth import true_counts
from sfumato.errors import UsageError
from sfumato.methods import title_of
from sfumato.publisher.policy import Policy
from sfumato.publisher.table import Table
from sfumato.release.folder import release_around
from sfumato.show.files import check_new, new_file
from sfumato.show.private import write_new
from sfumato.show.reading import read_text
from sfumato.values.software import software

if TYPE_CHECKING:
    from sfumato.auditor.compare.figures import Outcome

Record = Mapping[str, Any]

PUBLIC = Notice(
    "Public",
    "This page was made from the release, and from the verdicts of an audit in words. It holds no figure of the "
    "original table that the release does not hold.",
)
PRIVATE = Notice(
    "Private",
    "This page holds figures of the original table. Keep it where the table is kept, and out of the release.",
    is_grave=True,
)
TEST = Notice("Warning", "Not for release: drawn from a test seed, which anyone can repeat.", is_grave=True)

INSIDE = {
    True: ("verify holds every file that is not of the release to be a stranger there", "Write it beside the release."),
    False: (
        "this page holds figures of the original table, and would be handed out with the release",
        "Write it beside the release, where the table is kept; or make a public page.",
    ),
}
"""Why a page, public or not, does not lie inside a release, and what to do."""


def report(
    audit: Any,
    path: str | Path,
    *,
    release: Release | str | Path | None = None,
    table: Table | None = None,
    methods: Sequence[Compared] = (),
    plan: str | Path | None = None,
    public: bool = False,
) -> None:
    """Write one self-contained HTML page about a release and its audit.

    `audit` is an Audit, or its record (docs/reference/json.md); `release` the release, unless it is there still.
    `table` is the table that was published (`sf.scan`), for the true counts; `methods` what other methods would have
    given. `plan` is the file of the plan that was signed off, which the sheet names; it needs the table.
    With `public` nothing private gets onto the page: of the audit it has the verdicts in words, of the policy
    what it is about ([about]), of the table, the plan and other methods nothing.
    """
    path, record = Path(path), audit if isinstance(audit, Mapping) else audit.to_dict()
    opened = release if isinstance(release, Release) else open_release(release or str(record.get("published")))
    check_place(path, public)
    check_record(record, opened)
    if table is not None:
        check_table(table, opened)
    number = "" if plan is None else _number(plan, table, opened)
    page = public_page(opened, record, table) if public else private_page(opened, record, table, methods, number)
    if not public:
        write_new(path, html_of(page))
        return
    with new_file(path) as partial_file:
        partial_file.write_text(html_of(page), encoding="utf-8")


def public_page(release: Release, audit: Record, table: Table | None = None) -> Page:
    """Return the page for everybody: a function of the release, of which attackers are above the bound, and of what the
    publisher says that it is about."""
    attackers = public_findings(release.manifest, audit)
    shown = [sheet(for_everybody(release, table)), attackers, before_after(release, None), counts(release, None)]
    return _page(release, True, [*shown, *_to_the_letter(release)], table)


def _number(plan: str | Path, table: Table | None, release: Release) -> str:
    """Return the number of the plan that was signed off, if it is the plan of the release."""
    if table is None:
        raise UsageError("A plan can be checked only with the table that it is for.", "Give the table (sf.scan).")
    return signed_plan(plan, table, release).number


def private_page(
    release: Release,
    audit: Record,
    table: Table | None = None,
    methods: Sequence[Compared] = (),
    plan: str = "",
) -> Page:
    """Return the publisher's page; with the table it has true counts, the roles of columns and the policy.

    `plan`: the number of the plan that was signed off.
    """
    truth = None if table is None else partial(true_counts, release, table)
    policy = None if table is None else table.policy
    shown = [
        sheet(for_publisher(release, audit, table, plan)),
        findings(release.manifest, audit),
        before_after(release, policy),
        counts(release, truth),
    ]
    compared = [comparison(methods)] if methods else []
    stated = [] if policy is None else [policy_text(policy)]
    return _page(release, False, [*shown, *_to_the_letter(release), utility(audit), *compared, *stated], table)


def _to_the_letter(release: Release) -> list[Section]:
    """Return what the release tells in full: the exact promise, its limits, and how it was made."""
    return [promise(release.manifest), limits(release.manifest), _how_made(release)]


def _how_made(release: Release) -> Section:
    """Return how the release was made, in words; matrices and groups are folded away."""
    told = story(release.manifest)
    parts = (blurring(release), certainty(release), binding(release.manifest))
    folded = tuple(Details(part.heading, part.blocks) for part in parts if part is not None)
    return replace(told, blocks=(*told.blocks, *folded))


def policy_text(policy: Policy) -> Section:
    """Return what the policy states."""
    first = "What the publisher asked for, as the program reads it. Its checksum is in the manifest."
    text = Details("The policy's text", (Verbatim(policy.to_toml()),))
    return Section("policy", "The policy", (Text(first), text), "on-screen")


LONGEST_TITLE = 80
"""Letters: two lines on paper."""


def _page(release: Release, public: bool, sections: Sequence[Section], table: Table | None) -> Page:
    """Return the page; its title is what the publisher calls the data set, where they do."""
    manifest = release.manifest
    name, about = f"Release {manifest.release_id}", table.policy.about if table else None
    called = about.title if about else ""
    title = called if called and len(called) <= LONGEST_TITLE else name  # a longer one stands on the sheet
    made = f"{datetime.now(UTC).date().isoformat()}, {software()}"
    named = "" if title == name else f"{name}: "
    dated = f"{'published' if public else 'prepared'} {manifest.created}"
    return Page(
        title=title,
        subtitle=(
            f"{named}{manifest.data.rows:,} records, {dated} by {title_of(manifest.method)}: {in_short(manifest)}"
        ),
        notices=(PUBLIC if public else PRIVATE, *((TEST,) if manifest.status != "release" else ())),
        sections=(*sections, citing(release, made)),
    )


# --- what is asked for ------------------------------------------------------------------------------------------------


def check_place(path: Path, public: bool) -> None:
    """Raise if the page cannot be written, or would lie inside a release."""
    check_new(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"The report is a page in HTML; {path.name!r} has another suffix.", "Name it report.html.")
    if folder := release_around(path):
        reason, hint = INSIDE[public]
        raise UsageError(f"{str(path)!r} lies inside the release {str(folder)!r}: {reason}.", hint)


def check_record(record: Record, release: Release) -> None:
    hint = "Make one with `sfumato audit`."
    if record.get("audit_version") != 1:
        raise UsageError("The audit is not a record of version 1.", hint)
    try:
        WHOLE.model_validate(dict(record))
    except ValidationError as problem:
        first = problem.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"The record of the audit is damaged: {place}: {first['msg']}.", hint) from None
    if record.get("release_id") != release.manifest.release_id:
        raise UsageError(
            f"The audit is of release {record.get('release_id')}, not of {release.manifest.release_id}.",
            "Audit this release.",
        )


def check_table(table: Table, release: Release) -> None:
    """Raise unless the release was made from this table, under this policy."""
    Evidence(table, release).check()


def load_record(path: Path, of: str = "an audit", command: str = "audit") -> dict[str, Any]:
    wrong = f"{str(path)!r} is not the record of {of}"
    try:
        record = json.loads(read_text(path))
    except (OSError, ValueError) as problem:
        raise UsageError(f"{wrong}: {problem}.", f"Make one with `sfumato {command}`.") from None
    if not isinstance(record, dict):
        raise UsageError(f"{wrong}.", f"Make one with `sfumato {command}`.")
    return record


def load_comparison(path: Path, release: Release) -> list[Compared]:
    """Read the record of a comparison for the policy of a release: what each method gave at the same requirement."""
    from sfumato.auditor.compare.record import MethodComparison

    found = MethodComparison.from_dict(load_record(path, "a comparison", "compare"))
    if found.policy_sha256 != release.manifest.policy_sha256:
        raise UsageError("The comparison was made for another policy than the release.", "Compare with this policy.")
    published = release.manifest.data.rows
    all_published = any(each.own and each.figures and each.figures.published_share == 1 for each in found.methods)
    if found.rows < published or (all_published and found.rows != published):
        raise UsageError(
            f"The comparison was made of a table of {found.rows:,} records, and the release has {published:,}.",
            "Compare on the table that was published.",
        )
    return [_compared(outcome) for outcome in (*found.methods, *found.references)]


def _compared(outcome: Outcome) -> Compared:
    figures = outcome.figures
    if figures is None:
        return Compared(outcome.method, reason=outcome.reason)
    seconds = [s for s in (figures.plan_seconds, figures.publish_seconds) if s is not None]
    return Compared(outcome.method, figures.guessed.mean, figures.mean_error.mean, sum(seconds) if seconds else None)


# --- what a page needs of the record of an audit (docs/reference/json.md) --------------------------------------------


def _part(**kinds: Any) -> Any:
    """Return a model: other keys may be there; those that are needed are of their types."""
    fields: dict[str, Any] = {name: (kind, ...) for name, kind in kinds.items()}
    return create_model("Part", __config__=ConfigDict(strict=True), **fields)


def _each(kind: Any, names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), kind)


def _list(kind: Any) -> GenericAlias:
    return GenericAlias(list, (kind,))


NUMBER = float | None
NEAREST = _part(who=str, risk=float, bound=float, prior=NUMBER)
FINDING = _part(
    **_each(str, "attacker about question assumption measured remark who why_bound why_not_covered"),
    **_each(NUMBER, "mean promised stated baseline excess"),
    verdict=Verdict,
    worst=float,
    is_bound=bool,
    direction=Direction,
    interval=list[float] | None,
    records=int,
    at_risk=int,
    exposed=_list(_part(who=str, records=int, risk=float)),
    nearest=NEAREST | None,
    scale=Scale,
)
TABLE = _part(
    columns=list[str], cells=int, **_each(NUMBER, "total_variation naive_total_variation median_error covered")
)
QUERIES = _part(asked=int, **_each(NUMBER, "mean_error median_error naive_mean_error naive_median_error"))
ASSOCIATION = _part(**_each(str, "first second measure"), **_each(NUMBER, "truth estimate naive"))
UTILITY = _part(
    **_each(NUMBER, "published_share record_utility aggregate_utility"),
    tables=_list(TABLE),
    queries=QUERIES | None,
    associations=_list(ASSOCIATION),
    notes=list[str],
)
NOT_TRIED = _list(_part(attacker=str, reason=str))
WHOLE = _part(
    findings=_list(FINDING), not_applicable=NOT_TRIED, not_measured=NOT_TRIED, utility=UTILITY, notes=list[str]
)
