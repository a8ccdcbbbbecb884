"""What attackers reach, from the record of an audit (docs/reference/json.md): with all figures, or in words only.

Of the record a public page uses which attackers are above the bound, each looked up among the known ones: nothing else
of it, so no figure of the table, can get onto the page. All else is of the manifest: an audit of the table knows more,
that nobody was left out, say, or that no value has a share which the requirement speaks of.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sfumato.auditor.attackers import ATTACKERS, ROLES
from sfumato.auditor.report.page import Badge, Block, Card, Facts, Items, Section, Table, Text, figure, table
from sfumato.auditor.report.page_figures import RISKS, Risk, keys_of, risks, trade_off
from sfumato.auditor.report.page_words import percent
from sfumato.errors import UsageError
from sfumato.release.manifest import Manifest

Record = Mapping[str, Any]
SHOWN = 5  # the most exposed groups of a finding that are listed
NEAREST = 4  # the column of the table of sizes that is left out where every risk is the nearest to its bound
VISIBLE = 1e-3  # percentage points from which on a distance to a bound is told


@dataclass(frozen=True)
class Compared:
    """A method at the same requirement: the share of people guessed right, the error of counts, its run time; or why
    it cannot be."""

    method: str
    risk: float | None = None
    error: float | None = None
    seconds: float | None = None
    reason: str = ""


VERDICTS = {
    "within the bound": Badge("within the bound", "within", "✓"),
    "above the bound": Badge("above the bound", "above", "✗"),
    "not covered by the guarantee": Badge("not covered by the guarantee", "open", "○"),
}
SHORT = dict(zip(VERDICTS, ("within", "above", "not covered"), strict=True))
IN_TABLES = {verdict: replace(badge, text=SHORT[verdict]) for verdict, badge in VERDICTS.items()}
"""The verdicts where a table has little room; the cards have them in full."""
KEY = Facts(
    (
        ("✓ within the bound", "The promise is about this attacker, and it was kept."),
        ("✗ above the bound", "The promise is about this attacker, and it was not kept."),
        ("○ not covered by the guarantee", "The promise says nothing of this attacker."),
    )
)


def findings(audit: Record) -> Section:
    found = sorted(audit["findings"], key=_is_check)  # risks first
    named = list(zip(_names(found), found, strict=True))
    risky, checks = ([pair for pair in named if _is_check(pair[1]) == kind] for kind in (False, True))
    attacks = [finding for _, finding in risky]
    blocks: list[Block] = [Text(_summary(attacks)), _sizes(risky), _size_key(attacks)]
    drawn = [Risk(name, f["worst"], f["mean"], _some_bound(f), f["baseline"]) for name, f in risky]
    if drawn:
        alt = f"Risks of {len(drawn)} attackers, beside their bounds. The numbers are in the table above."
        caption = "The worst risk, its own bound, the mean, and what is believed or reached without the release."
        keys = keys_of(RISKS, drawn)
        blocks.append(figure("Risks beside their bounds", alt, lambda size: risks(drawn, size), caption, keys))
    blocks += [*_checks(checks), *(_card(name, finding) for name, finding in named), *_not_tried(audit)]
    return Section("attackers", "What attackers reach", tuple(blocks))


def public_findings(manifest: Manifest, audit: Record) -> Section:
    """Return the verdicts in words, without any figure: from the manifest, but for those above the bound."""
    above = {_known(f)[0] for f in audit["findings"] if _known(f)[1] == "above the bound"}
    about = _coverage(manifest)
    listed = [*about, *sorted(above - set(about))]
    covered = {a: "within the bound" if about.get(a) else "not covered by the guarantee" for a in listed}
    rows = [(a, ROLES[a].knows, VERDICTS["above the bound" if a in above else covered[a]]) for a in listed]
    text = (
        "The publisher let attackers loose on the release, with the original table at hand to measure what they reach. "
        "Here are the verdicts; the figures would tell of the table. So would which attackers had something to work "
        "on: all that there are for such a release are listed, but for those who were given lists of people."
    )
    columns = ("attacker", "who", "verdict")
    return Section("attackers", "What attackers reach", (Text(text), table("Verdicts", columns, rows, 3), KEY))


def _known(finding: Record) -> tuple[str, str]:
    """Return attacker and verdict, which must be known ones: no other word of a record gets onto a public page."""
    attacker, verdict = finding["attacker"], finding["verdict"]
    if attacker not in ROLES or verdict not in VERDICTS:
        raise UsageError(
            "The record of the audit has an attacker or a verdict that this version does not know.",
            "Audit the release anew.",
        )
    return attacker, verdict


def _coverage(manifest: Manifest) -> dict[str, bool]:
    roles = [role for attacker in ATTACKERS for role in (attacker, *attacker.roles)]
    listed = [(line, role.name) for role in roles if (line := role.public(manifest)) is not None]
    return {name: line.covered for line, name in sorted(listed)}


def _summary(found: list[Record]) -> str:
    number = Counter(finding["verdict"] for finding in found)
    return (
        f"{len(found)} attacks were made on the release: {number['within the bound']} stay within the bound, "
        f"{number['above the bound']} are above the bound, and {number['not covered by the guarantee']} are by "
        "attackers whom the guarantee does not cover. A risk is the belief in a true value of a record, or the rate "
        "of success."
    )


def _names(found: list[Record]) -> list[str]:
    """Return the attackers' names with what they are about; numbered where one comes several times all the same."""
    names = [f"{f['attacker']}: {f['about']}" if f["about"] else str(f["attacker"]) for f in found]
    number, seen, told = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        told.append(f"{name} {seen[name]}" if number[name] > 1 else name)
    return told


def _is_check(finding: Record) -> bool:
    return bool(finding["scale"] == "chance")


def _sizes(named: Sequence[tuple[str, Record]]) -> Block:
    columns = ["attacker", "verdict", "worst risk", "its own bound", "nearest to its bound", "mean risk", "at risk"]
    rows: list[list[str | Badge]] = [
        [
            name,
            IN_TABLES[f["verdict"]],
            _worst(f),
            _bound(f),
            f"{risk(f['nearest']['risk'])} of {risk(f['nearest']['bound'])}" if f["nearest"] else "–",
            risk(f["mean"]),
            f"{f['at_risk']:,} of {f['records']:,}",
        ]
        for name, f in named
    ]
    shown = [k for k in range(len(columns)) if k != NEAREST or any(f["nearest"] for _, f in named)]
    return table("Verdicts", [columns[k] for k in shown], [[row[k] for k in shown] for row in rows], 2)


def _size_key(found: Sequence[Record]) -> Items:
    lines = ["Worst risk: the largest belief in a value, or rate of success. Beside it stands its own bound."]
    if any(f["stated"] is not None for f in found):
        lines.append("A bound in brackets is for comparison: nothing is promised there.")
    if any(f["why_bound"] for f in found):
        lines.append(
            "A star: they were believed by more beforehand than the promise starts from. So the bound is higher."
        )
    if any(f["nearest"] for f in found):
        lines.append("Nearest to its bound: another belief, with its own bound, that comes nearer to it.")
    lines.append("At risk are records whose risk is beyond their own bound.")
    return Items(tuple(lines))


def _checks(named: Sequence[tuple[str, Record]]) -> Iterator[Block]:
    if named:
        yield Text(
            "All risks above believe that the release was made as it says. These counts were held against what chance "
            "allows if it was."
        )
        rows = [
            (name, IN_TABLES[f["verdict"]], f["who"] or "–", risk(f["worst"]), risk(f["promised"])) for name, f in named
        ]
        columns = ("check", "verdict", "the count that chance explains least", "share", "chance allows")
        yield table("Was it made as it says?", columns, rows, 3)


def _worst(finding: Record) -> str:
    return f"≤ {risk(finding['worst'])}" if finding["is_bound"] else risk(finding["worst"])


def _bound(finding: Record) -> str:
    if (bound := _some_bound(finding)) is None:
        return "none"
    star = "*" if finding["why_bound"] else ""
    told = f"{'≥' if finding['direction'] == 'at least' else '≤'} {risk(bound)}{star}"
    return f"({told})" if finding["promised"] is None else told


def risk(number: float | None) -> str:
    """Return a risk for readers: all digits that matter near 0 and 1.

    >>> risk(0.25), risk(1), risk(0.999996), risk(None), risk(1 / 13)
    ('25%', '100%', '99.9996%', '–', '7.69%')
    """
    if number is None:
        return "–"
    return percent(number) if number < 0.9995 or number >= 1 else f"{100 * number:.6g}%"


def _some_bound(finding: Record) -> float | None:
    """Return what is promised, else the bound for comparison."""
    bound: float | None = finding["stated"] if finding["promised"] is None else finding["promised"]
    return bound


def _card(name: str, finding: Record) -> Card:
    kept = not _is_check(finding) and finding["promised"] is not None and not finding["at_risk"]
    facts = (
        ("Asks", finding["question"]),
        ("Knows", finding["assumption"]),
        ("Measured", _measured(finding)),
        ("Chance allows" if _is_check(finding) else "Promised", _promised(finding)),
        ("Nearest to its bound", _nearest(finding["nearest"]) if finding["nearest"] else ""),
        ("At risk", "No record: none is beyond its own bound." if kept else ""),
        ("Remark", finding["remark"]),
    )
    rows = [(group["who"], f"{group['records']:,}", risk(group["risk"])) for group in finding["exposed"][:SHOWN]]
    exposed = (table("The largest", ("who", "records", "risk"), rows),) if rows else ()
    told = Facts(tuple((term, text) for term, text in facts if text))
    return Card(name, VERDICTS[finding["verdict"]], (told, *exposed))


def _nearest(found: Record) -> str:
    prior = "" if found["prior"] is None else f", believed by {risk(found['prior'])} beforehand"
    return f"{found['who']}{prior}: {risk(found['risk'])}, where its bound is {risk(found['bound'])}."


def _measured(finding: Record) -> str:
    text = f"worst {_worst(finding)}" + (f" ({finding['who']})" if finding["who"] else "")
    if finding["interval"]:
        text += ", confidence limits {} to {}".format(*map(risk, finding["interval"]))
    for key, words in (("mean", "mean"), ("baseline", "without the release")):
        text += "" if finding[key] is None else f", {words} {risk(finding[key])}"
    return f"{text}: {finding['measured']}."


def _promised(finding: Record) -> str:
    points = 100 * (finding["excess"] or 0.0)
    side, which = "beyond" if points > 0 else "inside", "The nearest one" if finding["nearest"] else "It"
    over = f"{which} is {abs(points):.3g} percentage points {side} its bound." if abs(points) > VISIBLE else ""
    bound = f"{finding['direction']} {risk(_some_bound(finding))}."
    parts = [bound, finding["why_bound"], over]
    if finding["promised"] is None:
        compared = [f"For comparison: {bound}", *parts[1:]] if finding["stated"] is not None else []
        parts = ["Nothing.", finding["why_not_covered"], *compared]
    return " ".join(part for part in parts if part)


def _not_tried(audit: Record) -> Iterator[Block]:
    rows = [(each["attacker"], each["reason"]) for each in audit["not_applicable"]]
    if rows:
        yield table("Not tried", ("attacker", "why"), rows, 2)
    for note in audit["notes"]:
        yield Text(note, "note")


def utility(audit: Record) -> Section:
    measured = audit["utility"]
    facts = [(words, risk(measured[key])) for key, words in SHARES.items() if measured[key] is not None]
    blocks = [Facts(tuple(facts)), *_useful(measured), *(Text(note, "note") for note in measured["notes"])]
    return Section("utility", "What it is worth", tuple(blocks))


SHARES = {
    "record_utility": "Records published with their own value, expected",
    "aggregate_utility": "Aggregate utility of the counts (high by itself where there are many values)",
    "published_share": "Published rows per record of the table",
}


def _useful(measured: Record) -> Iterator[Block]:
    figures = ("total_variation", "naive_total_variation", "median_error", "covered")
    rows = [
        (" × ".join(t["columns"]), f"{t['cells']:,}", *(risk(t[name]) for name in figures)) for t in measured["tables"]
    ]
    if rows:
        columns = ("table of", "cells", "total variation", "uncorrected", "median error", "intervals that hold")
        yield table("How near estimated tables come to the true ones", columns, rows)
    if asked := measured["queries"]:
        yield Text(
            f"Of {asked['asked']:,} random counting queries half have a relative error of at most "
            f"{risk(asked['median_error'])} (uncorrected: {risk(asked['naive_median_error'])}); the mean is "
            f"{risk(asked['mean_error'])} (uncorrected: {risk(asked['naive_mean_error'])})."
        )
    strengths = [
        (f"{a['first']}, {a['second']}", a["measure"], *(_figure(a[name]) for name in ("truth", "estimate", "naive")))
        for a in measured["associations"]
    ]
    if strengths:
        named = ("columns", "measure", "true", "estimated", "uncorrected")
        yield table("How strongly columns go together", named, strengths, 2)


def _figure(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"


def comparison(methods: Sequence[Compared]) -> Section:
    text = "Every method under the same requirement, on this table. Those that cannot meet it say why."
    blocks: list[Block] = [Text(text)]
    points = [(m.method, m.risk, m.error) for m in methods if m.risk is not None and m.error is not None]
    if points:
        alt = f"{len(points)} methods by people guessed right and error of counts. The numbers are in the table below."
        caption = "The lower left corner is the best: little risk and little error."
        blocks.append(figure("Risk and error", alt, lambda size: trade_off(points, size), caption))
    times = ["–" if m.seconds is None else f"{m.seconds:.1f} s" for m in methods]
    lines = zip(methods, times, strict=True)
    rows = [(m.method, risk(m.risk), risk(m.error), seconds, m.reason or "–") for m, seconds in lines]
    columns = ("method", "guessed right", "error", "run time", "why not")
    blocks.append(Table("Methods compared", columns, tuple(rows), (False, True, True, True, False)))
    return Section("comparison", "Other methods", tuple(blocks))
