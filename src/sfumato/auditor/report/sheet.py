"""The decision sheet, the first printed page of a report: what whoever signs must know, and where they sign.

What it says of the data set, its owner, the purpose and the recipients is the policy's section [about]; what is not
stated there is a blank to fill in by hand. The card is the manifest's. Of the table it tells how many records are alone
with what others may know; a public page tells the same of the published records, which anybody can count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sfumato.analyst.release import Release
from sfumato.auditor.report.page import Block, Facts, Section, SignOff, Text, table
from sfumato.auditor.report.page_attackers import covered_and_not, importance, someone
from sfumato.auditor.report.page_findings import Record, is_check, risk
from sfumato.auditor.report.page_words import TREATMENTS, and_list, percent
from sfumato.publisher.policy import Policy
from sfumato.publisher.policy_rules import AboutRule
from sfumato.publisher.table import Table, count_alone
from sfumato.release.alone import Alone, alone_in
from sfumato.release.manifest import Manifest

MOST_NAMES = 16  # columns that one row names
ROLES = {
    "sensitive": "secret",
    "quasi_identifier": "others may know it",
    "other": "others do not know it",
    "identifier": "tells who it is",
    "drop": "not needed",
}
"""The roles of a policy, for readers who know none of its words."""
PUBLISHED = {
    "randomized": "with noise",
    "binned": "in bins, otherwise as collected",
    "merged": "some values merged, otherwise as collected",
    "untouched": "as collected",
}
ADDED = {"sub-table": "added: tells a record's sub-table", "group": "added: tells a record's group"}
LEFT_OUT = "not at all"
IN_GROUPS = "apart: the values of each group, not who has which"


@dataclass(frozen=True)
class Told:
    """What a sheet is made from. One for everybody has of the policy what it is about, and neither audit nor table."""

    release: Release
    about: AboutRule | None
    policy: Policy | None
    audit: Record | None
    alone: Alone | None  # by what others may know: of the table, or of what is published
    published: Alone | None


def for_everybody(release: Release, table: Table | None) -> Told:
    """Return what a public sheet is made from: the release, and what the publisher says that it is about."""
    published = alone_in(release)
    return Told(release, table.policy.about if table else None, None, None, published, published)


def for_publisher(release: Release, audit: Record, table: Table | None) -> Told:
    """Return what the publisher's sheet is made from."""
    published = alone_in(release)
    if table is None:
        return Told(release, None, None, audit, published, published)
    return Told(release, table.policy.about, table.policy, audit, alone_in_table(table), published)


def alone_in_table(table: Table) -> Alone | None:
    """Return how the records of the table share their quasi-identifiers, as these are published; None without any."""
    if (found := count_alone(table)) is None:
        return None
    return Alone(
        columns=found.quasi_identifiers,
        records=found.records,
        unique=found.unique_records,
        smallest_group=found.smallest_group,
    )


def sheet(of: Told) -> Section:
    """Return the sheet: the publisher's, where it is given the record of an audit; else one for everybody."""
    manifest = of.release.manifest
    facts = [("Worst case", _worst_case(manifest, of.audit)), ("Attacks", _attacks(of.audit))] if of.audit else []
    facts += [("Re-identification", _finding_people(of)), ("Left out", _left_out(manifest, of.policy, of.audit))]
    if minded := " ".join(_to_mind(manifest, of.policy)):
        facts.append(("Mind", minded))
    blocks: list[Block] = [
        Facts(tuple(_about(of)), "about"),
        Facts(manifest.card.rows, "card"),
        Facts(tuple(facts), "about"),
        _columns(manifest, of.policy),
    ]
    if of.audit:
        blocks += [Text(AGREED, "note"), SignOff(("Publishes", "Agrees"), ("Name", "Role", "Date", "Signature"))]
    return Section("decision", "Decision sheet", tuple(blocks), "sheet")


AGREED = (
    "By signing, you accept what is not covered above and in the list of attackers that follows. The policy's text is "
    "at the end of the page on screen."
)


def _about(of: Told) -> Iterator[tuple[str, str]]:
    """Yield what the publisher says; what they do not say is left blank where somebody signs, else left out."""
    for term, key in (("Data set", "title"), ("Owner", "owner"), ("Purpose", "purpose"), ("Recipients", "recipients")):
        stated = getattr(of.about, key, None) or ""
        if stated or of.audit:
            yield term, stated


def _to_mind(manifest: Manifest, policy: Policy | None) -> Iterator[str]:
    """Yield what a reader of the card could overlook."""
    shown = {column.name: column.treatment for column in manifest.columns}
    if open_ones := [name for name in manifest.sensitive if shown.get(name) in TREATMENTS]:
        yield f"{and_list(open_ones)} is published unchanged in every row; only columns that lead to a row have noise."
    if manifest.assurance == "as-published":
        yield "The method was carried out as its paper has it, and is known to promise less than the paper says."
    if not manifest.data.shuffled:
        yield "The rows are in the order of the table."
    if policy and policy.person and policy.person.repeated == "per-row":
        yield f"People may have several rows ({policy.person.column}): what is learned of them adds up."
    if exempt := [name for name, rule in policy.columns.items() if rule.publish_as_is] if policy else []:
        yield f"{and_list(exempt)}: published whatever it tells of who people are; the policy says why."


# --- what the audit found, in a line each -----------------------------------------------------------------------------


def _attacks(audit: Record) -> str:
    attacks = [f for f in audit["findings"] if f["promised"] is not None]
    above = [f["attacker"] for f in attacks if f["verdict"] == "above the bound"]
    if above:
        return (
            f"The promise was NOT kept: {and_list(list(dict.fromkeys(above)))} came beyond the bound. Do not publish."
        )
    return f"The promise was kept in all {len(attacks)} attacks and tests that it covers."


def _worst_case(manifest: Manifest, audit: Record) -> str:
    """Return whom the release helps most to learn of one record, within the promise and outside of it."""
    found = [f for f in audit["findings"] if not is_check(f) and f["direction"] == "at most"]
    covered, others = ([f for own in each for f in own] for each in covered_and_not(found))
    from_the_start = [f for f in covered if not f["why_bound"]]
    parts = [f"Within the promise: {_reached(manifest, _first(from_the_start or covered))}." if covered else ""]
    parts += [_surer_before(covered, from_the_start)]
    parts += [f"Outside of it: {_reached(manifest, _first(others))}." if others else ""]
    return " ".join(part for part in parts if part) or "No attack gave a figure."


def _first(found: Sequence[Record]) -> Record:
    return max(found, key=importance)


def _surer_before(covered: Sequence[Record], from_the_start: Sequence[Record]) -> str:
    """Say where someone ends who was surer beforehand than the promise starts from; its bound is then higher."""
    beyond = [f for f in covered if f["why_bound"] and f["baseline"] is not None]
    if not beyond or not from_the_start:
        return ""
    most = max(beyond, key=lambda f: f["worst"])
    return (
        f"Someone who was surer before than the promise starts from ends higher: from {risk(most['baseline'])} to "
        f"{risk(most['worst'])}."
    )


def _reached(manifest: Manifest, finding: Record) -> str:
    before = "" if finding["baseline"] is None else f"from {risk(finding['baseline'])} "
    allowed = "" if finding["promised"] is None else f" ({risk(finding['promised'])} is allowed)"
    who = someone(manifest, finding["attacker"])
    return f"{before}to {risk(finding['worst'])} sure of one record{allowed}, for {who}"


# --- whom one can find ------------------------------------------------------------------------------------------------


def _finding_people(of: Told) -> str:
    """Say how many records are alone with what others may know, and with all that is published without noise."""
    manifest, alone, published = of.release.manifest, of.alone, of.published
    if alone is None:
        return NOBODY_KNOWS if of.policy or not _without_noise(manifest) else "Not counted: the release is too large."
    parts = [_unique(alone, "records" if of.policy else "published records")]
    if published is not None and published != alone:
        parts.append(f"By all columns without noise it is {published.unique:,} of the {published.records:,} published.")
    noisy = [name for name in alone.columns if name not in _without_noise(manifest)]
    if noisy:
        parts.append(f"In the release {and_list(noisy)} has noise, which makes it harder to find a person's record.")
    else:
        hidden = and_list(manifest.sensitive)
        parts.append("Someone who knows these of a person can find a unique record.")
        parts.append(f"The promise is about {hidden} in it, not about being found.")
    return " ".join(parts)


def _unique(alone: Alone, records: str) -> str:
    share = percent(alone.unique / max(1, alone.records))
    return (
        f"{alone.unique:,} of the {alone.records:,} {records} ({share}) are unique: no other record has the same "
        f"{and_list(alone.columns)}. The smallest group of records that share them has k = {alone.smallest_group:,}."
    )


NOBODY_KNOWS = "No column is named that others may know of people."


def _without_noise(manifest: Manifest) -> list[str]:
    return [column.name for column in manifest.columns if column.treatment in TREATMENTS]


def _left_out(manifest: Manifest, policy: Policy | None, audit: Record | None) -> str:
    names = [name for name, rule in policy.columns.items() if rule.role in ("identifier", "drop")] if policy else []
    lost = audit["rows"] - audit["published_rows"] if audit else manifest.withheld
    columns = f"Columns: {and_list(names)}." if names else "Columns: none." if policy else ""
    every = f" of {audit['rows']:,}" if audit else ""
    records = f"Records: {lost:,}{every}." if lost else "Records: none."
    return f"{columns} {records}".strip()


# --- columns ----------------------------------------------------------------------------------------------------------


def _columns(manifest: Manifest, policy: Policy | None) -> Block:
    """Return the columns, those with the same role that are published alike in one row."""
    groups: dict[tuple[str, str], list[str]] = {}
    for name, role, published in columns_of(manifest, policy):
        groups.setdefault((role, published), []).append(name)
    rows = [(and_list(names, MOST_NAMES), role, published) for (role, published), names in groups.items()]
    if policy is None:
        return table("Columns", ("columns", "published"), [(names, published) for names, _, published in rows], 2)
    return table("Columns", ("columns", "what they are", "published"), rows, 3)


def columns_of(manifest: Manifest, policy: Policy | None) -> list[tuple[str, str, str]]:
    """Return each column with its role, where a policy tells it, and how it is published; secrets first."""
    treatments = {column.name: column.treatment for column in manifest.columns}
    names = list(policy.columns) if policy else [*manifest.sensitive, *treatments]
    names += [name for name, treatment in treatments.items() if treatment in ADDED and name not in names]
    apart = {part.name for part in manifest.only_in_buckets}
    found = []
    for name in dict.fromkeys(names):
        role = policy.columns[name].role if policy and name in policy.columns else ""
        treatment = treatments.get(name, "")
        published = IN_GROUPS if name in apart else {**PUBLISHED, **ADDED}.get(treatment, LEFT_OUT)
        found.append((name, ROLES.get(role, ""), published))
    order = list(ROLES.values())
    return sorted(found, key=lambda each: order.index(each[1]) if each[1] in order else len(order))
