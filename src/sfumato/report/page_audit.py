"""What attackers reach, from the record of an audit (docs/json.md): with all figures, or as verdicts in words only.

Of the record a public page uses which attackers are above the bound, each looked up among the known ones: nothing else
of it, so no figure of the table, can get onto the page. All else is of the manifest (`page_coverage`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sfumato.errors import UsageError
from sfumato.manifest import Manifest
from sfumato.report.page import Badge, Block, Card, Drawing, Facts, Section, Table, Text, table
from sfumato.report.page_coverage import coverage
from sfumato.report.page_figures import RISKS, Point, Risk, keys_of, risks, trade_off
from sfumato.report.page_svg import figure
from sfumato.report.page_words import percent

Record = Mapping[str, Any]
SHOWN = 5
"""The most exposed groups of a finding that are listed."""
VISIBLE = 1e-3
"""Percentage points from which on a distance to a bound is told."""


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
ATTACKERS = {
    "draws": "compares what was published with what the matrix gives by chance",
    "dealing": "compares how records were dealt to groups with what chance gives",
    "posterior": "takes the worst belief beforehand that the requirement speaks of",
    "frequencies": "knows the shares of the values in the table",
    "label": "sees which sub-table a record is in",
    "background": "knows how the sensitive value depends on other columns",
    "composition": "knows how many records of the table, or of a sub-table, have each value",
    "corruption": "knows the values of some other records",
    "averaging": "sees a second release of the same table",
    "reuse": "compares the release with an earlier one of the same people",
    "link": "takes a row with the person's published quasi-identifiers",
    "reconstruction": "draws the true quasi-identifiers and the true value at random",
    "row": "sees the whole published row",
    "distribution": "knows the table's distribution and guesses the likeliest value",
    "guesser": "learns the distribution from the release and guesses the likeliest value",
    "linking": "takes all rows that a person may be",
    "reidentification": "looks for the row of a person",
    "eligibility": "asks which value was the most frequent one",
    "missing": "knows that a person is in the table and not in the release",
    "register": "has a register of persons to link with",
    "order": "goes by the place of a row",
    "residue": "reads the files byte by byte",
}
"""What each attacker knows or does, in words without figures."""


def findings(audit: Record) -> Section:
    """Return all verdicts with their sizes, then every attacker by itself."""
    found = list(audit["findings"])
    names = _names(found)
    blocks: list[Block] = [Text(_summary(found)), _sizes(names, found)]
    drawn = [_risk(name, finding) for name, finding in zip(names, found, strict=True)]
    if drawn:
        alt = f"Risks of {len(drawn)} attackers, beside their bounds. The numbers are in the table above."
        caption = "The worst risk of a record or group, the mean, the bound, and what is reached without the release."
        keys = keys_of(RISKS, drawn)
        blocks.append(Drawing(figure("Risks beside their bounds", alt, lambda size: risks(drawn, size), caption, keys)))
    blocks += [_card(name, finding) for name, finding in zip(names, found, strict=True)]
    blocks += _not_tried(audit)
    return Section("attackers", "What attackers reach", tuple(blocks))


def public_findings(manifest: Manifest, audit: Record) -> Section:
    """Return the verdicts in words, without any figure: from the manifest, but for those above the bound."""
    above = {_known(f)[0] for f in audit["findings"] if _known(f)[1] == "above the bound"}
    about = coverage(manifest)
    listed = [*about, *sorted(above - set(about))]
    rows = [(a, ATTACKERS[a], VERDICTS[_public_verdict(a in above, about.get(a, False))]) for a in listed]
    text = (
        "The publisher let attackers loose on the release, with the original table at hand to measure what they reach. "
        "Here are the verdicts; the figures would tell of the table. So would which attackers had something to work "
        "on: all that there are for such a release are listed, but for those who were given lists of people."
    )
    columns = ("attacker", "who", "verdict")
    return Section("attackers", "What attackers reach", (Text(text), table("Verdicts", columns, rows, 3), *_key()))


def _known(finding: Record) -> tuple[str, str]:
    """Return attacker and verdict, which must be known ones: no other word of a record gets onto a public page."""
    attacker, verdict = finding["attacker"], finding["verdict"]
    if attacker not in ATTACKERS or verdict not in VERDICTS:
        raise UsageError(
            "The record of the audit has an attacker or a verdict that this version does not know.",
            "Audit the release anew.",
        )
    return attacker, verdict


def _public_verdict(is_above: bool, is_covered: bool) -> str:
    if is_above:
        return "above the bound"
    return "within the bound" if is_covered else "not covered by the guarantee"


def _summary(found: list[Record]) -> str:
    number = Counter(finding["verdict"] for finding in found)
    return (
        f"{len(found)} attacks were made on the release: {number['within the bound']} stay within the bound, "
        f"{number['above the bound']} are above the bound, and {number['not covered by the guarantee']} are by "
        "attackers whom the guarantee does not cover. A risk is the belief in a true value of a record, or the rate "
        "of success."
    )


def _key() -> Iterator[Block]:
    yield Facts(
        (
            ("✓ within the bound", "The promise is about this attacker, and it was kept."),
            ("✗ above the bound", "The promise is about this attacker, and it was not kept."),
            ("○ not covered by the guarantee", "The promise says nothing of this attacker."),
        )
    )


def _names(found: list[Record]) -> list[str]:
    """Return the attackers' names with what they are about; numbered where one comes several times all the same."""
    names = [f"{f['attacker']}: {f['about']}" if f["about"] else str(f["attacker"]) for f in found]
    number, seen, told = Counter(names), Counter[str](), []
    for name in names:
        seen[name] += 1
        told.append(f"{name} {seen[name]}" if number[name] > 1 else name)
    return told


def _sizes(names: list[str], found: list[Record]) -> Block:
    rows = [
        (
            name,
            VERDICTS[f["verdict"]],
            _bound(f),
            _worst(f),
            risk(f["mean"]),
            f"{f['at_risk']:,} of {f['records']:,}",
        )
        for name, f in zip(names, found, strict=True)
    ]
    columns = ("attacker", "verdict", "bound", "worst risk", "mean risk", "records at risk")
    return table("Verdicts; bounds in brackets are for weaker attackers", columns, rows, 2)


def _worst(finding: Record) -> str:
    return f"≤ {risk(finding['worst'])}" if finding["is_bound"] else risk(finding["worst"])


def _bound(finding: Record) -> str:
    sign = "≥ " if finding["direction"] == "at least" else "≤ "
    if finding["promised"] is not None:
        return sign + risk(finding["promised"])
    return "none" if finding["stated"] is None else f"({sign}{risk(finding['stated'])})"


def risk(number: float | None) -> str:
    """Return a risk for readers: all digits that matter near 0 and 1.

    >>> risk(0.25), risk(1), risk(0.999996), risk(None), risk(1 / 13)
    ('25%', '100%', '99.9996%', '–', '7.69%')
    """
    if number is None:
        return "–"
    return percent(number) if number < 0.9995 or number >= 1 else f"{100 * number:.6g}%"


def _risk(name: str, finding: Record) -> Risk:
    bound = finding["stated"] if finding["promised"] is None else finding["promised"]
    return Risk(name, finding["worst"], finding["mean"], bound, finding["baseline"])


def _card(name: str, finding: Record) -> Card:
    facts = [
        ("Asks", finding["question"]),
        ("Knows", finding["assumption"]),
        ("Measured", _measured(finding)),
        ("Promised", _promised(finding)),
    ]
    facts += [("Remark", finding["remark"])] if finding["remark"] else []
    rows = [(group["who"], f"{group['records']:,}", risk(group["risk"])) for group in finding["exposed"][:SHOWN]]
    exposed = (table("The most exposed", ("who", "records", "risk"), rows),) if rows else ()
    return Card(name, VERDICTS[finding["verdict"]], (Facts(tuple(facts)), *exposed))


def _measured(finding: Record) -> str:
    parts = [f"worst {_worst(finding)}"]
    if finding["interval"]:
        parts.append("confidence limits {} to {}".format(*map(risk, finding["interval"])))
    if finding["mean"] is not None:
        parts.append(f"mean {risk(finding['mean'])}")
    if finding["baseline"] is not None:
        parts.append(f"without the release {risk(finding['baseline'])}")
    return f"{', '.join(parts)}: {finding['measured']}."


def _promised(finding: Record) -> str:
    points = 100 * (finding["excess"] or 0.0)
    side = "beyond" if points > 0 else "inside"
    over = f" It is {abs(points):.3g} percentage points {side} that." if abs(points) > VISIBLE else ""
    if finding["promised"] is not None:
        return f"{finding['direction']} {risk(finding['promised'])}.{over}"
    if finding["stated"] is not None:
        return f"Nothing. The bound for weaker attackers is {risk(finding['stated'])}.{over}"
    return "Nothing."


def _not_tried(audit: Record) -> Iterator[Block]:
    rows = [(each["attacker"], each["reason"]) for each in audit["not_applicable"]]
    if rows:
        yield table("Not tried", ("attacker", "why"), rows, 2)
    for note in audit["notes"]:
        yield Text(note, "note")


# --- usefulness -------------------------------------------------------------------------------------------------------


def utility(audit: Record) -> Section:
    """Return what the release is worth to analysts, as it was measured with the true table."""
    measured = audit["utility"]
    facts = [
        (words, risk(measured[key]))
        for key, words in (
            ("record_utility", "Records published with their own value, expected"),
            ("aggregate_utility", "Aggregate utility of the counts (high by itself where there are many values)"),
            ("published_share", "Published rows per record of the table"),
        )
        if measured[key] is not None
    ]
    blocks = [Facts(tuple(facts)), *_tables(measured), *_queries(measured), *_associations(measured)]
    blocks += [Text(note, "note") for note in measured["notes"]]
    return Section("utility", "What it is worth", tuple(blocks))


def _tables(measured: Record) -> Iterator[Block]:
    rows = [
        (
            " × ".join(t["columns"]), f"{t['cells']:,}", risk(t["total_variation"]), risk(t["naive_total_variation"]),
            risk(t["median_error"]), risk(t["covered"]),
        )
        for t in measured["tables"]
    ]  # fmt: skip
    columns = ("table of", "cells", "total variation", "uncorrected", "median error", "intervals that hold")
    if rows:
        yield table("How near estimated tables come to the true ones", columns, rows)


def _queries(measured: Record) -> Iterator[Block]:
    asked = measured["queries"]
    if asked:
        yield Text(
            f"Of {asked['asked']:,} random counting queries half have a relative error of at most "
            f"{risk(asked['median_error'])} (uncorrected: {risk(asked['naive_median_error'])}); the mean is "
            f"{risk(asked['mean_error'])} (uncorrected: {risk(asked['naive_mean_error'])})."
        )


def _associations(measured: Record) -> Iterator[Block]:
    rows = [
        (f"{a['first']}, {a['second']}", a["measure"], *map(_figure, (a["truth"], a["estimate"], a["naive"])))
        for a in measured["associations"]
    ]
    if rows:
        columns = ("columns", "measure", "true", "estimated", "uncorrected")
        yield table("How strongly columns go together", columns, rows, 2)


def _figure(number: float | None) -> str:
    return "–" if number is None else f"{number:.3f}"


# --- other methods ----------------------------------------------------------------------------------------------------


def comparison(methods: Sequence[Compared]) -> Section:
    """Return what other methods would have given under the same requirement."""
    text = "Every method under the same requirement, on this table. Those that cannot meet it say why."
    blocks: list[Block] = [Text(text)]
    points = [Point(m.method, m.risk, m.error) for m in methods if m.risk is not None and m.error is not None]
    if points:
        alt = f"{len(points)} methods by people guessed right and error of counts. The numbers are in the table below."
        caption = "The lower left corner is the best: little risk and little error."
        blocks.append(Drawing(figure("Risk and error", alt, lambda size: trade_off(points, size), caption)))
    rows = [(m.method, risk(m.risk), risk(m.error), _seconds(m.seconds), m.reason or "–") for m in methods]
    columns = ("method", "guessed right", "error", "run time", "why not")
    blocks.append(Table("Methods compared", columns, tuple(rows), (False, True, True, True, False)))
    return Section("comparison", "Other methods", tuple(blocks))


def _seconds(number: float | None) -> str:
    return "–" if number is None else f"{number:.1f} s"
