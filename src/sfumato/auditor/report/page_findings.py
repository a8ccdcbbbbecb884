"""Findings of an audit in words, one by one: a table of all of them, and a card for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from sfumato.auditor.report.page import Badge, Block, Card, Details, Facts, Items, Text, table
from sfumato.show.words import percent, share

Record = Mapping[str, Any]
SHOWN = 5  # the most exposed groups of a finding that are listed
NEAREST = 4  # the column of the table of sizes that is left out where every risk is the nearest to its bound
VISIBLE = 1e-3  # percentage points from which on a distance to a bound is told

VERDICTS = {
    "within the bound": Badge("within the bound", "within", "✓"),
    "above the bound": Badge("above the bound", "above", "✗"),
    "not covered by the guarantee": Badge("not covered", "open", "○"),
}
SHORT = dict(zip(VERDICTS, ("kept", "broken", "not covered"), strict=True))
IN_TABLES = {verdict: replace(badge, text=SHORT[verdict]) for verdict, badge in VERDICTS.items()}
"""The verdicts where a table has little room; the cards have them in full."""
KEY = Facts(
    (
        ("✓ within the bound", "The promise is about this attacker, and it was kept."),
        ("✗ above the bound", "The promise is about this attacker, and it was not kept."),
    )
)


def names_of(found: list[Record]) -> list[str]:
    """Return the attackers' names with what they are about; numbered where one comes several times all the same."""
    names = [f"{f['attacker']}: {f['about']}" if f["about"] else str(f["attacker"]) for f in found]
    number, seen, told = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        told.append(f"{name} {seen[name]}" if number[name] > 1 else name)
    return told


def is_check(finding: Record) -> bool:
    return bool(finding["scale"] == "chance")


def repeats(finding: Record) -> bool:
    """Whether it is of draws that come back by a record key, as stated: chance need not explain that."""
    return is_check(finding) and finding["promised"] is None


def sizes(named: Sequence[tuple[str, Record]]) -> Block:
    columns = ["attacker", "verdict", "worst risk", "its own bound", "nearest to its bound", "mean risk", "at risk"]
    rows: list[list[str | Badge]] = [
        [
            name,
            IN_TABLES[f["verdict"]],
            worst(f, cell),
            bound(f),
            f"{cell(f['nearest']['risk'])} of {cell(f['nearest']['bound'])}" if f["nearest"] else "–",
            cell(f["mean"]),
            f"{f['at_risk']:,} of {f['records']:,}",
        ]
        for name, f in named
    ]
    shown = [k for k in range(len(columns)) if k != NEAREST or any(f["nearest"] for _, f in named)]
    return table("Verdicts", [columns[k] for k in shown], [[row[k] for k in shown] for row in rows], 2)


def size_key(found: Sequence[Record]) -> Items:
    lines = ["Beside every worst risk stands its own bound."]
    if any(f["stated"] is not None for f in found):
        lines.append("A bound in brackets is for comparison: nothing is promised there.")
    if any(f["why_bound"] for f in found):
        lines.append("A star: they were surer beforehand than the promise starts from. So the bound is higher.")
    if any(f["nearest"] for f in found):
        lines.append("Nearest to its bound: another belief, with its own bound, that comes nearer to it.")
    lines.append("At risk are records whose risk is beyond their own bound.")
    return Items(tuple(lines))


def checks(named: Sequence[tuple[str, Record]]) -> Iterator[Block]:
    if named:
        yield Text(
            "All risks above believe that the release was made as it says. These counts were held against what chance "
            "allows if it was."
        )
        rows = [
            (name, IN_TABLES[f["verdict"]], f["who"] or "–", cell(f["worst"]), cell(f["promised"])) for name, f in named
        ]
        columns = ("check", "verdict", "the count that chance explains least", "share", "chance allows")
        yield table("Was it made as it says?", columns, rows, 3)


def worst(finding: Record, told: Callable[[float | None], str]) -> str:
    """Return the worst risk: one that was not computed is told by a bound, one with chance in it is about that."""
    sign = "≤ " if finding["is_bound"] else "≈ " if finding["interval"] else ""
    return f"{sign}{told(finding['worst'])}"


def bound(finding: Record) -> str:
    if (number := some_bound(finding)) is None:
        return "none"
    star = "*" if finding["why_bound"] else ""
    told = f"{'≥' if finding['direction'] == 'at least' else '≤'} {cell(number)}{star}"
    return f"({told})" if finding["promised"] is None else told


def risk(number: float | None) -> str:
    """Return a risk for a sentence; a dash where there is none.

    >>> risk(0.25), risk(0.999996), risk(None)
    ('25%', '>99.9%', '–')
    """
    return "–" if number is None else percent(number)


def cell(number: float | None) -> str:
    """Return a risk for a column of a table.

    >>> cell(0.25), cell(None)
    ('25.0%', '–')
    """
    return "–" if number is None else share(number)


def some_bound(finding: Record) -> float | None:
    """Return what is promised, else the bound for comparison."""
    bound: float | None = finding["stated"] if finding["promised"] is None else finding["promised"]
    return bound


def card(name: str, finding: Record) -> Card:
    kept = not is_check(finding) and finding["promised"] is not None and not finding["at_risk"]
    facts = (
        ("Asks", finding["question"]),
        ("Knows", finding["assumption"]),
        ("Measured", _measured(finding)),
        ("Promised" if finding["promised"] is None or not is_check(finding) else "Chance allows", _promised(finding)),
        ("Nearest to its bound", _nearest(finding["nearest"]) if finding["nearest"] else ""),
        ("At risk", "No record: none is beyond its own bound." if kept else ""),
        ("Remark", finding["remark"]),
    )
    rows = [(group["who"], f"{group['records']:,}", cell(group["risk"])) for group in finding["exposed"][:SHOWN]]
    exposed = (table("The largest", ("who", "records", "risk"), rows),) if rows else ()
    told = Facts(tuple((term, text) for term, text in facts if text))
    return Card(name, VERDICTS[finding["verdict"]], (told, *exposed))


def _nearest(found: Record) -> str:
    prior = "" if found["prior"] is None else f", believed by {risk(found['prior'])} beforehand"
    return f"{found['who']}{prior}: {risk(found['risk'])}, where its bound is {risk(found['bound'])}."


def _measured(finding: Record) -> str:
    text = f"worst {worst(finding, risk)}" + (f" ({finding['who']})" if finding["who"] else "")
    if finding["interval"]:
        text += ", confidence limits {} to {}".format(*map(risk, finding["interval"]))
    for key, words in (("mean", "mean"), ("baseline", "without the release")):
        text += "" if finding[key] is None else f", {words} {risk(finding[key])}"
    return f"{text}: {finding['measured']}."


def _promised(finding: Record) -> str:
    points = 100 * (finding["excess"] or 0.0)
    side, which = "beyond" if points > 0 else "inside", "The nearest one" if finding["nearest"] else "It"
    over = f"{which} is {abs(points):.3g} percentage points {side} its bound." if abs(points) > VISIBLE else ""
    bound = f"{finding['direction']} {risk(some_bound(finding))}."
    parts = [bound, finding["why_bound"], over]
    if finding["promised"] is None:
        compared = [f"For comparison: {bound}", *parts[1:]] if finding["stated"] is not None else []
        parts = ["Nothing.", finding["why_not_covered"], *compared]
    return " ".join(part for part in parts if part)


def not_tried(audit: Record) -> Iterator[Block]:
    rows = [(each["attacker"], each["reason"]) for each in audit["not_applicable"]]
    if rows:
        yield Details("Attackers that do not apply, and why", (table("Do not apply", ("attacker", "why"), rows, 2),))
    for note in audit["notes"]:
        yield Text(note, "note")
