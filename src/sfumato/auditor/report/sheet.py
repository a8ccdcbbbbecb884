"""The decision sheet, the first printed page of a report: what whoever signs must know, and where they sign.

What it says of the data set, its owner, the purpose and the recipients is the policy's section [about]; what is not
stated there is a blank to fill in by hand. The card is the manifest's. Of the table it tells how many records are alone
with what others may know; a public page tells the same of the published records, which anybody can count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from sfumato.analyst.release import Release
from sfumato.auditor.record import not_given
from sfumato.auditor.report.page import Block, Facts, Section, SignOff, Text, Ticks, table
from sfumato.auditor.report.page_attackers import REPEATED, acceptable, covered_and_not, importance, someone
from sfumato.auditor.report.page_findings import Record, is_check, repeats, risk
from sfumato.auditor.report.page_words import TREATMENTS, and_list
from sfumato.publisher.policy import Policy
from sfumato.publisher.policy_rules import AboutRule
from sfumato.publisher.table import Table, count_alone
from sfumato.release.alone import Alone, alone_in
from sfumato.release.manifest import Manifest
from sfumato.show.words import at_least, at_most, beside_figures, percent

MOST_NAMES = 16  # columns that one row names
ROLES = {
    "sensitive": "secret",
    "quasi_identifier": "others may know it",
    "other": "not thought to be known",
    "identifier": "tells who it is",
    "drop": "not needed",
}
"""The roles of a policy, for readers who know none of its words."""
PUBLISHED = {
    "randomized": "with noise",
    "binned": "in bins, otherwise exactly",
    "merged": "some values merged, otherwise exactly",
    "untouched": "exactly",
}
NOT_PROTECTED = ", not protected: whoever finds the row learns it"
ADDED = {"sub-table": "added: tells a record's sub-table", "group": "added: tells a record's group"}
LEFT_OUT = "not at all"
NEW = "not of the table"
GIVEN = {
    "register": "a register (list of people)",
    "earlier release": "an earlier release",
}
"""What attackers were not tried for want of, for readers who know none of our words."""
IN_GROUPS = "in a separate list: the values of each group, not who has which"
MOST_CONDITIONS = 4  # conditions of attackers outside the promise that are ticked one by one


@dataclass(frozen=True)
class Told:
    """What a sheet is made from. One for everybody has of the policy what it is about, and neither audit nor table."""

    release: Release
    about: AboutRule | None
    policy: Policy | None
    audit: Record | None
    alone: Alone | None  # by what others may know: of the table, or of what is published
    published: Alone | None
    people: People | None = None  # who have several rows
    plan: str = ""  # the number of the plan that was signed off, if it is given


class People(NamedTuple):
    """How many people rows belong to, by the column that tells them apart."""

    column: str
    rows: int
    number: int


def for_everybody(release: Release, table: Table | None) -> Told:
    """Return what a public sheet is made from: the release, and what the publisher says that it is about."""
    published = alone_in(release)
    return Told(release, table.policy.about if table else None, None, None, published, published)


def for_publisher(release: Release, audit: Record, table: Table | None, plan: str = "") -> Told:
    """Return what the publisher's sheet is made from."""
    published = alone_in(release)
    if table is None:
        return Told(release, None, None, audit, published, published)
    alone, people = alone_in_table(table), _people(table)
    return Told(release, table.policy.about, table.policy, audit, alone, published, people, plan)


def _people(table: Table) -> People | None:
    """Return how many people the rows belong to; None where everybody has one row, or the policy tells no people."""
    person = table.policy.person
    if person is None or person.repeated != "per-row":
        return None
    rows, number = table.engine.distinct(table.rows, person.column)
    return People(person.column, rows, number) if number < rows else None


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
    facts = []
    if of.audit:
        facts += [*_worst_case(of), ("Attacks", _attacks(manifest, of.audit))]
    facts += [("Re-identification", _finding_people(of)), ("Left out", _left_out(manifest, of.policy, of.audit))]
    if computed := manifest.computed_from_table:
        facts.append(("Also shown", _also_shown(computed)))
    if minded := " ".join(_to_mind(manifest, of.policy)):
        facts.append(("Mind", minded))
    blocks: list[Block] = [
        Facts(tuple(_about(of)), "about"),
        Facts(manifest.card.rows, "card"),
        Facts(tuple(facts), "about"),
        _columns(manifest, of.policy),
    ]
    if of.audit:
        blocks += [Ticks(BEFORE, tuple(_conditions(of))), Ticks("Decision", DECISION, "inline"), Text(AGREED, "inline")]
        blocks += [SignOff(("Hands out", "Agrees"), ("Name", "Role", "Date", "Signature"))]
    return Section("decision", "Decision sheet", tuple(blocks), "sheet")


BEFORE = "Before you sign, tick what holds. What is left open speaks against handing it out."
DECISION = ("Hand it out.", "Destroy it.")
AGREED = "By signing, you accept what is not covered, above and on the next page."


MOST_LETTERS = 130  # of facts that the sheet lists; more of them stand among the limits


def _also_shown(computed: Sequence[str]) -> str:
    """Say what the release tells of the table by itself, in the words of the card."""
    listed = "; ".join(computed)
    number = f"{len(computed)} facts" if len(computed) > 1 else "a fact"
    if len(listed) > MOST_LETTERS:
        return f"{number[0].upper()}{number[1:]} computed from the table, listed at the end of the limits."
    return f"Computed from the table: {listed}."


def _about(of: Told) -> Iterator[tuple[str, str]]:
    """Yield what the publisher says; what they do not say is missing where somebody signs, else left out."""
    for term, key in (("Data set", "title"), ("Owner", "owner"), ("Purpose", "purpose"), ("Recipients", "recipients")):
        stated = getattr(of.about, key, None) or ""
        if stated or of.audit:
            yield term, stated
    if of.plan:
        yield "Plan", f"{of.plan}: it was signed off, and this release is that plan, carried out."
    if several := _several_rows(of):
        yield "Rows", several


def _to_mind(manifest: Manifest, policy: Policy | None) -> Iterator[str]:
    """Yield what a reader of the card could overlook."""
    shown = {column.name: column.treatment for column in manifest.columns}
    if open_ones := [name for name in manifest.sensitive if shown.get(name) in TREATMENTS]:
        yield f"{and_list(open_ones)} is published unchanged in every row; only columns that lead to a row have noise."
    if manifest.assurance == "as-published":
        yield "The method was carried out as its paper has it, and is known to promise less than the paper says."
    if not manifest.data.shuffled:
        yield "The rows are in the order of the table."
    if exempt := [name for name, rule in policy.columns.items() if rule.publish_as_is] if policy else []:
        yield f"{and_list(exempt)}: published whatever it tells of who people are; the policy says why."


def _several_rows(of: Told) -> str:
    """Say how many people the rows belong to, where that is fewer: the promise is about one row."""
    if of.people is None:
        return ""
    return (
        f"The {of.people.rows:,} rows belong to {of.people.number:,} people ({of.people.column}). The promise below is "
        "about one row. For people with more than one row it does not hold as stated: what is learned from each row "
        "adds up."
    )


# --- what must hold ---------------------------------------------------------------------------------------------------


def _conditions(of: Told) -> Iterator[str]:
    """Yield on what conditions the release is acceptable: of attackers outside the promise, and of what is exact."""
    assert of.audit is not None
    manifest, outside = of.release.manifest, covered_and_not(_attacks_on(of.audit))[1]
    stated = list(dict.fromkeys(_acceptable(manifest, own[0], of.audit) for own in outside))
    yield from stated[:MOST_CONDITIONS]
    if more := stated[MOST_CONDITIONS:]:
        yield f"What the next page asks about {len(more):,} more attackers holds, too."
    if of.people:
        yield "It is acceptable that more is learned of people with several rows than the promise says."
    elif of.policy and of.policy.person is None:
        yield "Nobody has more than one row."
    if exact := _not_protected(of):
        become = "becomes" if len(exact) == 1 else "become"
        yield f"It is acceptable that {and_list(exact)} {become} known of everybody who is found."
    most = of.published or of.alone
    if most and most.unique:
        yield f"It is acceptable that {most.unique:,} unique records can be found."
    yield "What it costs is small enough for the purpose."
    if missing := [term.lower() for term, text in _about(of) if not text]:
        yield f"The {and_list(missing)} of this release {'are' if len(missing) > 1 else 'is'} filled in above."


def _acceptable(manifest: Manifest, finding: Record, audit: Record) -> str:
    """Return the condition under which an attacker outside the promise is acceptable, as a statement."""
    condition = acceptable(manifest, finding["attacker"], audit).split(". ")[0].removesuffix(".")
    told = condition.removeprefix("Acceptable if ")
    return f"{told[0].upper()}{told[1:]}." if told != condition else f"{condition}, and only there."


def _not_protected(of: Told) -> list[str]:
    """Return the columns that nobody is taken to know and that are published as they are."""
    shown = set(_without_noise(of.release.manifest))
    return (
        [name for name, rule in of.policy.columns.items() if rule.role == "other" and name in shown]
        if of.policy
        else []
    )


# --- what the audit found, in a line each -----------------------------------------------------------------------------


def _attacks_on(audit: Record) -> list[Record]:
    return [finding for finding in audit["findings"] if not is_check(finding)]


def _attacks(manifest: Manifest, audit: Record) -> str:
    """Say whether the promise was kept, what was tried besides, and what was not."""
    attacks, tests = _attacks_on(audit), [f for f in audit["findings"] if is_check(f) and not repeats(f)]
    above = [f["attacker"] for f in audit["findings"] if f["verdict"] == "above the bound"]
    if above:
        who = and_list(list(dict.fromkeys(above)))
        return f"The promise was NOT kept: {who} came beyond the bound. Do not hand it out."
    covered, outside = covered_and_not(attacks)
    parts = [f"{_attackers(len(covered))} whom the promise covers stayed within it."]
    parts += [f"{len(tests)} tests of how the release was made found nothing wrong."] if tests else []
    parts += [REPEATED] if any(map(repeats, audit["findings"])) else []
    if best := [f for own in outside for f in own if f["direction"] == "at most"]:
        tried = f"{_attackers(len(outside))} whom it does not cover {'were' if len(outside) > 1 else 'was'} tried"
        surest, shown = max(best, key=lambda f: f["worst"]), _first(best)["worst"]
        begun = "" if surest["baseline"] is None else f", and was {risk(surest['baseline'])} sure before"
        more = f" The surest of them ends at {risk(surest['worst'])}{begun}." if surest["worst"] > shown else ""
        parts.append(f"{tried}.{more}")
    if open_ones := list(dict.fromkeys(someone(manifest, each["attacker"]) for each in audit["not_measured"])):
        parts.append(f"Not measured, so count as not covered: {and_list(open_ones)}.")
    if absent := list(_not_given(audit)):
        parts.append(f"Not tested, as none was given: {and_list(absent)}.")
    return " ".join(parts)


def _attackers(number: int) -> str:
    return f"{number} attacker{'' if number == 1 else 's'}"


def _not_given(audit: Record) -> Iterator[str]:
    """Yield what attackers were not tried for want of: their reason says that no such thing was given."""
    for thing, _ in not_given(each["reason"] for each in audit["not_applicable"]):
        yield GIVEN.get(thing, thing)


def _worst_case(of: Told) -> list[tuple[str, str]]:
    """Return whom the release helps most to learn of one record, within the promise and outside of it: a line each."""
    assert of.audit is not None
    manifest = of.release.manifest
    found = [f for f in _attacks_on(of.audit) if f["direction"] == "at most"]
    covered, others = ([f for f in found if (f["promised"] is None) == is_open] for is_open in (False, True))
    if any(f["baseline"] is not None for f in covered):  # what a file tells beside its values begins at no belief
        covered = [f for f in covered if f["baseline"] is not None]
    from_the_start = covered if _is_by_factor(manifest) else [f for f in covered if not f["why_bound"]]
    parts = [f"Within the promise: {_reached(manifest, _first(from_the_start or covered))}." if covered else ""]
    parts += [] if _is_by_factor(manifest) else [_surer_before(manifest, covered, from_the_start)]
    parts += [f"Outside of it: {_reached(manifest, _first(others))}." if others else ""]
    if exact := _not_protected(of):
        parts.append(f"Besides, whoever finds a row reads {and_list(exact)} in it: nothing protects that.")
    told = [part for part in parts if part] or ["No attack gave a figure."]
    return [("" if line else "Worst tested", part) for line, part in enumerate(told)]


def _is_by_factor(manifest: Manifest) -> bool:
    """Whether the promise is by how much odds may grow, from any belief: nobody is then surer than it starts from."""
    own = [bound for mechanism in manifest.mechanism_values for bound in mechanism.bounds if bound.gamma is not None]
    return bool(own) and all(bound.rho1 is None for bound in own)


def _first(found: Sequence[Record]) -> Record:
    """Return the most important finding; of equal ones the first, which is the attacker the promise speaks of."""
    ranked = [(above, rises, round(gain, 3)) for above, rises, gain in map(importance, found)]
    return found[ranked.index(max(ranked))]


def _surer_before(manifest: Manifest, covered: Sequence[Record], from_the_start: Sequence[Record]) -> str:
    """Say where someone ends who was surer beforehand than the promise starts from; its bound is then higher."""
    beyond = [f for f in covered if f["why_bound"] and f["baseline"] is not None]
    if not beyond or not from_the_start:
        return ""
    most = max(beyond, key=lambda f: f["worst"])
    ends = _ends(manifest)
    who = "more than {} sure can end above {}".format(*ends) if ends else "surer than the promise says can end higher"
    return f"Someone already {who}: here from {risk(most['baseline'])} to {risk(most['worst'])}."


def _by_factor(manifest: Manifest) -> str:
    """Say why more is allowed from one belief than from another, where the promise is by a factor."""
    if not _is_by_factor(manifest):
        return ""
    largest = max(bound.gamma or 0 for mechanism in manifest.mechanism_values for bound in mechanism.bounds)
    return f" from there, as odds may grow {float(largest):g}-fold"


def _ends(manifest: Manifest) -> tuple[str, str] | None:
    """Return what a belief may be beforehand and afterwards, where that is the same for all protected values."""
    own = {bound for mechanism in manifest.mechanism_values for bound in mechanism.bounds if bound.gamma is not None}
    stated = {part.rho1 for part in manifest.mechanisms if part.rho1}  # of sub-tables, which have bounds of their own
    starts = {Fraction(rho1) for rho1 in stated} if stated else {bound.rho1 for bound in own}
    ends = {bound.rho2 for bound in own}
    start, end = (starts.pop(), ends.pop()) if len(starts) == len(ends) == 1 else (None, None)
    return (beside_figures(at_least(start)), beside_figures(at_most(end))) if start and end else None


def _reached(manifest: Manifest, finding: Record) -> str:
    before = "" if finding["baseline"] is None else f"from {risk(finding['baseline'])} "
    unknown = " (start not measured)" if finding["baseline"] is None else ""
    ends, bound = _ends(manifest), risk(finding["promised"])
    start = f"from at most {ends[0]} to " if ends and ends[1] == bound else ""
    allowed = "" if finding["promised"] is None else f" (allowed: {start}{bound}{_by_factor(manifest)})"
    who = someone(manifest, finding["attacker"])
    return f"{before}to {risk(finding['worst'])} sure of one record{allowed}{unknown}, for {who}"


# --- whom one can find ------------------------------------------------------------------------------------------------


def _finding_people(of: Told) -> str:
    """Say how many records are alone with what others may know, and with all that is published without noise."""
    manifest, alone, published = of.release.manifest, of.alone, of.published
    if alone is None:
        return NOBODY_KNOWS if of.policy or not _without_noise(manifest) else "Not counted: the release is too large."
    parts = [_unique(alone, "records" if of.policy else "published records")]
    if published is not None and published != alone:
        parts.append(_unique_in_release(alone, published))
    noisy = [name for name in alone.columns if name not in _without_noise(manifest)]
    if noisy:
        parts.append(f"In the release {and_list(noisy)} has noise, which makes it harder to find a person's record.")
    else:
        parts.append(_found(manifest))
    return " ".join(parts)


def _found(manifest: Manifest) -> str:
    """Say what the promise is about where a record can be found: most are for someone who has found it."""
    about = f"is about {and_list(manifest.sensitive)} in it, not about being found"
    told = about if manifest.kind == "response" else f"takes for granted that they do: it {about}"
    return f"Someone who knows these of a person can find a unique record. The promise {told}."


def _unique(alone: Alone, records: str) -> str:
    share = alone.unique / max(1, alone.records)
    told = f" ({percent(share)})" if share >= LEAST_SHARE else ""
    alike = f"no other record has the same {and_list(alone.columns)}."
    if not alone.unique:
        k = alone.smallest_group
        named = f"k = {k:,}".replace(" ", "\N{NO-BREAK SPACE}")
        others = f"Every record has at least {k - 1:,} others that look alike ({named})."
        return f"None of the {alone.records:,} {records} is unique by {and_list(alone.columns)}. {others}"
    return f"{alone.unique:,} of the {alone.records:,} {records}{told} are unique: {alike}"


def _unique_in_release(alone: Alone, published: Alone) -> str:
    """Say how many published records are unique by all columns that are published as they are."""
    more = [name for name in published.columns if name not in alone.columns]
    also = f"With {and_list(more)} as well, " if more else ""
    return f"{also}{published.unique:,} of the {published.records:,} published are unique."


LEAST_SHARE = 0.001  # shares below it are told by their counts alone
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
        return table("Columns", ("name", "published"), [(names, published) for names, _, published in rows], 2)
    return table("Columns", ("name", "what it is", "published"), rows, 3)


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
        bare = role == "other" and treatment in PUBLISHED and treatment != "randomized"
        what = NEW if treatment in ADDED else ROLES.get(role, "")
        found.append((name, what, f"{published}{NOT_PROTECTED if bare else ''}"))
    order = list(ROLES.values())
    return sorted(found, key=lambda each: order.index(each[1]) if each[1] in order else len(order))
