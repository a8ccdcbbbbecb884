"""What attackers reach, in two groups: those that the promise covers, and those that it does not, with what speaks for
and against accepting that. From the record of an audit (docs/reference/json.md): with all figures, or as verdicts.

Of the record a public page uses which attackers are above the bound, each looked up among the known ones: nothing else
of it, so no figure of the table, can get onto the page. All else is of the manifest: an audit of the table knows more,
that nobody was left out, say, or that no value has a share which the requirement speaks of.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sfumato.auditor.attacker import ASK
from sfumato.auditor.attackers import ATTACKERS, ROLES, roles_on
from sfumato.auditor.report.page import Badge, Block, Details, Heading, Section, Table, Text, figure, table
from sfumato.auditor.report.page_figures import RISKS, Risk, keys_of, risks
from sfumato.auditor.report.page_findings import (
    IN_TABLES,
    KEY,
    VERDICTS,
    Record,
    bound,
    card,
    cell,
    checks,
    is_check,
    names_of,
    not_tried,
    repeats,
    size_key,
    sizes,
    worst,
)
from sfumato.errors import UsageError
from sfumato.release.manifest import Manifest

COVERED, NOT_COVERED = "Covered by the promise", "Not covered by the promise: decide whether you accept it"
NOT_MEASURED = "Not measured: count these as not covered"
WORST = (
    "Worst means: for the one record or value of which the attacker is surest after the release. Of most records they "
    "stay far less sure. Before is what they reach without the release. A figure is how sure they are of a true value, "
    "or how often they are right."
)
"""The one place that says what worst is."""
CHANCE = "A figure with ≈ was tried out; a promise counts as broken if it is exceeded by more than chance explains."
FIRST = "Before and after the release, at worst; the one that gains most first"
REPEATED = "The record key repeats draws of the earlier release, as stated: the promise is not for the two together."
FALLS = "how far a belief falls"


def findings(manifest: Manifest, audit: Record) -> Section:
    """Return both groups, the most important first; every finding with all its figures is folded away below."""
    found = sorted(audit["findings"], key=is_check)  # risks first
    named = list(zip(names_of(found), found, strict=True))
    attacks, tested = ([f for f in found if is_check(f) == kind] for kind in (False, True))
    covered, open_ones = covered_and_not(attacks)
    chance = f" {CHANCE}" if any(finding["interval"] for finding in attacks) else ""
    blocks: list[Block] = [Text(_summary(covered, open_ones, audit["not_measured"])), Text(f"{WORST}{chance}")]
    blocks += _covered(covered, manifest)
    blocks += _not_covered(open_ones, manifest, audit)
    blocks += _not_measured(audit, manifest)
    blocks += [*_drawn([*covered, *open_ones]), Text(_made_as_it_says(tested)), _in_detail(named), *not_tried(audit)]
    return Section("attackers", "What attackers reach", tuple(blocks))


def covered_and_not(attacks: Sequence[Record]) -> tuple[list[list[Record]], list[list[Record]]]:
    """Return the attacks that the promise covers and the others, those of one attacker together.

    Those above the bound come first, then those that gain most by the release; where beliefs fall, after all others.
    """
    return (
        _by_attacker([finding for finding in attacks if finding["promised"] is not None]),
        _by_attacker([finding for finding in attacks if finding["promised"] is None]),
    )


def _by_attacker(found: Sequence[Record]) -> list[list[Record]]:
    names = dict.fromkeys(finding["attacker"] for finding in found)
    own = [sorted((f for f in found if f["attacker"] == name), key=importance, reverse=True) for name in names]
    return sorted(own, key=lambda each: importance(each[0]), reverse=True)


def importance(finding: Record) -> tuple[bool, bool, float]:
    """Return what findings are sorted by: above the bound, about rising beliefs, how much the attacker gains."""
    gain = finding["worst"] - (finding["baseline"] or 0.0)
    rises = finding["direction"] == "at most"
    return finding["verdict"] == "above the bound", rises, gain if rises else -gain


def _summary(
    covered: Sequence[Sequence[Record]], others: Sequence[Sequence[Record]], not_measured: Sequence[Record]
) -> str:
    """Return how many attackers the promise covers and how many it does not, those not measured among the latter."""
    above = sum(any(f["verdict"] == "above the bound" for f in own) for own in covered)
    attacks = sum(map(len, (*covered, *others)))
    kept = f"{above} got beyond the bound: the promise was not kept" if above else "against all of them it was kept"
    left = len({own[0]["attacker"] for own in others} | {each["attacker"] for each in not_measured})
    missed = f" ({len(not_measured)} of them not measured)" if not_measured else ""
    return (
        f"{attacks} attacks were made on the release, with the original table at hand to measure them. The promise "
        f"covers {len(covered)} attackers: {kept}. It does not cover {left}{missed}: whoever signs decides about these."
    )


def someone(manifest: Manifest, attacker: str) -> str:
    """Return an attacker in words: what they know."""
    role = roles_on(manifest.kind).get(attacker)
    return f"someone who {role.knows}" if role else f"the attacker {attacker}"


def _row(own: Sequence[Record], manifest: Manifest) -> tuple[str, str, str]:
    """Return the attacker, and before and after, of the most important of its attacks."""
    first = own[0]
    about = FALLS if first["direction"] == "at least" else first["about"]
    several = f"the first of {len(own)}" if len(own) > 1 else ""
    told = "; ".join(part for part in (first["attacker"], about, several) if part)
    who = someone(manifest, first["attacker"])
    return f"{who[0].upper()}{who[1:]} ({told})", cell(first["baseline"]), worst(first, cell)


def _covered(groups: Sequence[Sequence[Record]], manifest: Manifest) -> Iterator[Block]:
    if groups:
        yield Heading(COVERED)
        rows = [(*_row(own, manifest), bound(own[0]).rstrip("*"), IN_TABLES[own[0]["verdict"]]) for own in groups]
        columns = ("attacker", "before", "after", "promised", "verdict")
        yield table(FIRST, columns, rows)


def _not_covered(groups: Sequence[Sequence[Record]], manifest: Manifest, audit: Record) -> Iterator[Block]:
    if groups:
        yield Heading(NOT_COVERED)
        rows = [(*_row(own, manifest), _weighed(own[0], manifest, audit)) for own in groups]
        columns = ("attacker", "before", "after", "why not, and when that is acceptable")
        yield Table(FIRST, columns, tuple(rows), (False, True, True, False))


def _not_measured(audit: Record, manifest: Manifest) -> Iterator[Block]:
    """Yield the attackers who could attack without anybody knowing how far they get."""
    if tried := audit["not_measured"]:
        yield Heading(NOT_MEASURED)
        rows = []
        for each in tried:
            who = someone(manifest, each["attacker"])
            named = f"{who[0].upper()}{who[1:]} ({each['attacker']})"
            rows.append((named, each["reason"], acceptable(manifest, each["attacker"], audit)))
        yield table(
            "Nobody knows how far they get", ("attacker", "why not measured", "when that is acceptable"), rows, 3
        )


def _weighed(finding: Record, manifest: Manifest, audit: Record) -> str:
    return f"{finding['why_not_covered']} {acceptable(manifest, finding['attacker'], audit)}"


def acceptable(manifest: Manifest, attacker: str, audit: Record) -> str:
    """Return when an attacker outside the promise can be accepted; records from before have no earlier release."""
    role = roles_on(manifest.kind).get(attacker)
    return role.acceptable_beside(audit.get("earlier")) if role else ASK


def _drawn(groups: Sequence[Sequence[Record]]) -> Iterator[Block]:
    drawn = [Risk(own[0]["attacker"], own[0]["baseline"], own[0]["worst"], own[0]["promised"]) for own in groups]
    if drawn:
        alt = f"{len(drawn)} attackers before and after the release, beside what is promised, as in the tables above."
        keys = keys_of(RISKS, drawn)
        yield figure("Before and after, at worst", alt, lambda size: risks(drawn, size), "", keys)


def _made_as_it_says(tested: Sequence[Record]) -> str:
    if not tested:
        return "Whether the release was made as it says was not tested."
    stated = f" {REPEATED}" if (repeated := list(filter(repeats, tested))) else ""
    tested = [finding for finding in tested if finding not in repeated]
    failed = [f"{f['attacker']} ({f['about']})" for f in tested if f["verdict"] == "above the bound"]
    if failed:
        return f"Was it made as it says? Not by {', '.join(failed)}: chance does not explain what was found."
    return f"Was it made as it says? {len(tested)} tests found nothing that chance does not explain.{stated}"


def _in_detail(named: Sequence[tuple[str, Record]]) -> Details:
    risky, tested = ([pair for pair in named if is_check(pair[1]) == kind] for kind in (False, True))
    attacks = [finding for _, finding in risky]
    blocks = [sizes(risky), size_key(attacks), *checks(tested), *(card(name, finding) for name, finding in named)]
    return Details(f"All {len(named)} attacks and tests, with their figures", tuple(blocks))


# --- for everybody ----------------------------------------------------------------------------------------------------


def public_findings(manifest: Manifest, audit: Record) -> Section:
    """Return the verdicts in words, without any figure: from the manifest, but for those above the bound."""
    above = above_the_bound(audit)
    about, roles = coverage(manifest), roles_on(manifest.kind)
    text = (
        "The publisher let attackers loose on the release, with the original table at hand to measure what they reach. "
        "Here are the verdicts; the figures would tell of the table. So would which attackers had something to work "
        "on: all that there are for such a release are listed, but for those who were given lists of people."
    )
    covered = [name for name, is_covered in about.items() if is_covered or name in above]
    covered += sorted(above - set(about))
    rows: list[tuple[str | Badge, ...]] = [
        (name, f"Someone who {roles[name].knows}", VERDICTS["above the bound" if name in above else "within the bound"])
        for name in covered
    ]
    others = [
        (name, f"Someone who {roles[name].knows}", f"{roles[name].why_not_covered} {roles[name].acceptable}")
        for name in about
        if name not in covered
    ]
    blocks: list[Block] = [Text(text)]
    if rows:
        blocks += [Heading(COVERED), table("Verdicts", ("attacker", "who", "verdict"), rows, 3), KEY]
    if others:
        columns = ("attacker", "who", "why not, and when that is acceptable")
        blocks += [Heading("Not covered by the promise"), table("Left open", columns, others, 3)]
    return Section("attackers", "What attackers reach", tuple(blocks))


def above_the_bound(audit: Record) -> set[str]:
    """Return the attackers that are above the bound: all that anybody is told of a record."""
    known = [_known(finding) for finding in audit["findings"]]
    return {attacker for attacker, verdict in known if verdict == "above the bound"}


def _known(finding: Record) -> tuple[str, str]:
    """Return attacker and verdict, which must be known ones: no other word of a record gets onto a public page."""
    attacker, verdict = finding["attacker"], finding["verdict"]
    if attacker not in ROLES or verdict not in VERDICTS:
        raise UsageError(
            "The record of the audit has an attacker or a verdict that this version does not know.",
            "Audit the release anew.",
        )
    return attacker, verdict


def coverage(manifest: Manifest) -> dict[str, bool]:
    """Return which attackers there are for such a release, and whether the promise is about them."""
    roles = [role for attacker in ATTACKERS for role in (attacker, *attacker.roles)]
    listed = [(line, role.name) for role in roles if (line := role.public(manifest)) is not None]
    return {name: line.covered for line, name in sorted(listed)}
