"""The decision sheet: its parts for every kind of method, what the publisher says, and who is not covered."""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.attacker import ASK
from sfumato.auditor.attackers import roles_on
from sfumato.auditor.report.page import Details, Facts, Heading, Section, SignOff, Table, Text, Ticks, html_of
from sfumato.auditor.report.page_attackers import COVERED, NOT_COVERED, covered_and_not
from sfumato.auditor.report.page_columns import before_after
from sfumato.auditor.report.reporting import private_page, public_page
from sfumato.auditor.report.sheet import _people, _unique, columns_of, for_publisher
from sfumato.auditor.report.sheet import sheet as sheet_of
from sfumato.auditor.report.signed import signed_plan
from sfumato.errors import PlanMismatch
from sfumato.methods.plan import Plan
from sfumato.publisher.policy_rules import AboutRule
from sfumato.publisher.publish import to_sign
from sfumato.release.alone import Alone
from sfumato.show.words import percent, share
from tests.page.releases import COLUMN, POLICIES, made

METHODS = list(POLICIES)
HOSTILE = "<script>alert('about')</script>"


def facts_of(section: Section) -> dict[str, str]:
    """Return what is told of each term: a text without one is one more of the term before."""
    told: dict[str, str] = {}
    last = ""
    for term, text in (fact for block in section.blocks if isinstance(block, Facts) for fact in block.facts):
        last = term or last
        told[last] = f"{told[last]} {text}" if last in told else text
    return told


def ticks(section: Section) -> tuple[str, ...]:
    return next(block.items for block in section.blocks if isinstance(block, Ticks))


@cache
def sheets(method: str) -> tuple[Section, Section]:
    """Return the publisher's sheet and the public one."""
    of = made(method)
    return of.private.sections[0], of.public.sections[0]


@pytest.mark.parametrize("method", METHODS)
def test_it_has_all_parts(method: str) -> None:
    own, public = sheets(method)
    manifest = made(method).release.manifest
    for sheet in (own, public):
        assert (sheet.heading, sheet.style) == ("Decision sheet", "sheet")
        assert manifest.card.rows == tuple((term, facts_of(sheet)[term]) for term, _ in manifest.card.rows)
        assert {"Re-identification", "Left out"} <= set(facts_of(sheet))
    assert {"Worst tested", "Attacks", "Data set", "Owner", "Purpose", "Recipients"} <= set(facts_of(own))
    assert [block.columns for block in own.blocks if isinstance(block, SignOff)] == [
        ("Name", "Role", "Date", "Signature")
    ]


@pytest.mark.parametrize("method", METHODS)
def test_a_public_one_is_not_to_be_signed_and_holds_no_figure_of_an_audit(method: str) -> None:
    public = sheets(method)[1]
    assert not [block for block in public.blocks if isinstance(block, SignOff)]
    assert not {"Worst tested", "Attacks", "Data set", "Owner"} & set(facts_of(public))


@pytest.mark.parametrize("method", METHODS)
def test_every_column_is_told_with_its_role(method: str) -> None:
    of = made(method)
    told = {name: (role, published) for name, role, published in columns_of(of.release.manifest, of.table.policy)}
    assert told["name"] == ("tells who it is", "not at all")
    assert told[COLUMN][0] == "secret"
    assert set(told) >= {*of.table.policy.columns, *(column.name for column in of.release.manifest.columns)}
    shown = next(block for block in sheets(method)[0].blocks if isinstance(block, Table))
    assert all(any(name in str(row[0]) for row in shown.rows) for name in told)
    assert "name" not in {name for name, _, _ in columns_of(of.release.manifest, None)}


def test_how_many_are_unique_is_counted_in_the_table() -> None:
    of = made("fine-grain")
    found = facts_of(sheets("fine-grain")[0])["Re-identification"]
    sizes = of.table.engine.sizes(of.table.rows, ("age", "sex"))
    if unique := sizes.get(1, 0):
        assert f"{unique:,} of the 900 records" in found
    else:
        assert f"None of the 900 records is unique by age and sex. Every record has at least {min(sizes) - 1}" in found
        assert f"k\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{min(sizes)}" in found


def test_a_unique_record_is_not_told_by_k_and_a_tiny_share_by_its_count() -> None:
    few = Alone(columns=("age", "sex"), records=69_560, unique=4, smallest_group=1)
    assert _unique(few, "records") == "4 of the 69,560 records are unique: no other record has the same age and sex."
    many = Alone(columns=("age", "sex"), records=1_000, unique=40, smallest_group=1)
    assert "(4%)" in _unique(many, "records")
    none = Alone(columns=("age",), records=1_000, unique=0, smallest_group=3)
    assert "at least 2 others that look alike (k\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}3)" in _unique(none, "records")


def test_the_worst_case_is_that_of_the_attackers_who_gain_most() -> None:
    of = made("anatomy")
    told = facts_of(sheets("anatomy")[0])["Worst tested"]
    risks = [f for f in of.record["findings"] if f["scale"] == "risk" and f["direction"] == "at most"]
    outside = max((f for f in risks if f["promised"] is None), key=lambda f: f["worst"] - (f["baseline"] or 0))
    assert "Within the promise: " in told
    assert f"someone who {roles_on('groups')[outside['attacker']].knows}" in told
    assert percent(outside["worst"]) in told


@pytest.mark.parametrize("method", METHODS)
def test_what_must_hold_is_ticked_for_attackers_outside_the_promise(method: str) -> None:
    of, own = made(method), sheets(method)[0]
    open_ones = {f["attacker"] for f in of.record["findings"] if f["promised"] is None}
    assert bool(open_ones) == any("whom it does not cover" in text for text in facts_of(own).values())
    if "averaging" in open_ones:
        assert "These people are published once." in ticks(own)
    assert not any(text.startswith("Acceptable if") for text in ticks(own))
    assert not [block for block in sheets(method)[1].blocks if isinstance(block, Ticks)]


def test_it_says_what_was_not_tested() -> None:
    of = made("fine-grain")
    record = {**of.record, "not_applicable": [
        {"attacker": "register", "reason": "no register was given."},
        {"attacker": "label", "reason": "there are no sub-tables."},
    ]}  # fmt: skip
    told = facts_of(private_page(of.release, record, of.table).sections[0])["Attacks"]
    assert told.endswith("a register (list of people).")


@pytest.mark.parametrize("method", METHODS)
def test_what_the_release_tells_whatever_the_noise_is_listed_where_the_card_names_it(method: str) -> None:
    of = made(method)
    for own in sheets(method):
        told = facts_of(own).get("Also shown", "")
        computed = of.release.manifest.computed_from_table
        assert all(fact in told for fact in computed) or f"{len(computed)} facts" in told or "A fact" in told
        assert bool(told) == bool(of.release.manifest.computed_from_table)


@pytest.mark.parametrize("method", METHODS)
def test_the_surest_attacker_is_told_with_where_they_began(method: str) -> None:
    of = made(method)
    told = facts_of(sheets(method)[0])["Attacks"]
    outside = [
        f for f in of.record["findings"]
        if f["scale"] == "risk" and f["promised"] is None and f["direction"] == "at most"
    ]  # fmt: skip
    if outside:
        worst = max(f["worst"] for f in outside)
        starts = {f["baseline"] for f in outside if f["worst"] == worst}
        ends = [f", and was {percent(start)} sure before" if start is not None else "" for start in starts]
        elsewhere = f"to {percent(worst)} sure of one record" in facts_of(sheets(method)[0])["Worst tested"]
        assert elsewhere or any(f"The surest of them ends at {percent(worst)}{end}." in told for end in ends)


def test_people_with_several_rows_are_told_above_the_card() -> None:
    rows = pa.table({"id": ["a", "a", "b"], "age": [1, 2, 3], "job": ["x", "y", "x"]})
    policy = sf.Policy.parse(
        """
        columns = { id = { role = "identifier" }, age = { role = "other" }, job = { role = "sensitive" } }
        person = { column = "id", repeated = "per-row" }
        method = { name = "uniform" }
        requirement = { gamma = 4 }
        """
    )
    people = _people(sf.scan(rows, policy))
    assert people == ("id", 3, 2)
    own = sheet_of(replace(for_publisher(made("fine-grain").release, made("fine-grain").record, None), people=people))
    assert facts_of(own)["Rows"].startswith("The 3 rows belong to 2 people (id).")
    assert any("more is learned of people with several rows" in tick for tick in ticks(own))
    assert _people(sf.scan(rows.slice(1), policy)) is None


def test_a_column_taken_as_unknown_and_published_exactly_is_not_protected() -> None:
    of = made("fine-grain")
    columns = dict(of.table.policy.columns)
    columns["age"] = columns["age"].model_copy(update={"role": "other"})
    policy = of.table.policy.model_copy(update={"columns": columns})
    told = {name: (role, how) for name, role, how in columns_of(of.release.manifest, policy)}
    assert told["age"][0] == "not thought to be known"
    assert told["age"][1].endswith(", not protected: whoever finds the row learns it")
    own = sheet_of(replace(for_publisher(of.release, of.record, None), policy=policy))
    assert "whoever finds a row reads age in it: nothing protects that" in facts_of(own)["Worst tested"]
    assert "It is acceptable that age becomes known of everybody who is found." in ticks(own)


def test_who_has_a_broken_promise_is_told_not_to_publish() -> None:
    of = made("fine-grain")
    record = deepcopy(of.record)
    first = next(f for f in record["findings"] if f["attacker"] == "frequencies")
    first.update(verdict="above the bound", worst=0.99)
    page = private_page(of.release, record, of.table)
    assert "NOT kept: frequencies came beyond the bound. Do not hand it out." in facts_of(page.sections[0])["Attacks"]
    tables = [block for block in page.sections[1].blocks if isinstance(block, Table)]
    assert "(frequencies)" in str(tables[0].rows[0][0])  # first of all


def test_what_is_published_unchanged_is_to_be_minded() -> None:
    for sheet in sheets("randomized-response"):
        assert f"{COLUMN} is published unchanged in every row" in facts_of(sheet)["Mind"]
    assert "unchanged" not in facts_of(sheets("fine-grain")[0])["Mind"]
    assert "Mind" not in facts_of(sheets("fine-grain")[1])


# --- what it is about -------------------------------------------------------------------------------------------------


def about(**texts: str) -> sf.Table:
    """Return the table of the fine-grain release, with a policy that says what it is about."""
    table = made("fine-grain").table
    return replace(table, policy=table.policy.model_copy(update={"about": AboutRule(**texts)}))


def test_what_the_publisher_says_is_on_both_pages_and_stays_text() -> None:
    of, table = made("fine-grain"), about(title=HOSTILE, purpose="research & teaching")
    for page in (private_page(of.release, of.record, table), public_page(of.release, of.record, table)):
        written = html_of(page)
        assert "<script" not in written
        assert "&lt;script&gt;alert(&#39;about&#39;)&lt;/script&gt;" in written
        assert "research &amp; teaching" in written


def test_what_the_publisher_does_not_say_is_a_blank_to_fill_in() -> None:
    of, table = made("fine-grain"), about(title="A clinic")
    own, public = private_page(of.release, of.record, table), public_page(of.release, of.record, table)
    assert facts_of(own.sections[0])["Owner"] == ""
    assert html_of(own).count('<dd class="blank">MISSING</dd>') == 3
    assert "The owner, purpose and recipients of this release are filled in above." in ticks(own.sections[0])
    assert facts_of(public.sections[0])["Data set"] == "A clinic"
    assert "Owner" not in facts_of(public.sections[0])
    assert "blank" not in re.findall(r'class="(\w+)"', html_of(public))


@pytest.mark.parametrize("method", METHODS)
def test_the_policy_is_at_the_end_and_reads_as_the_same_one(method: str) -> None:
    of = made(method)
    section = next(section for section in of.private.sections if section.anchor == "policy")
    folded = next(block for block in section.blocks if isinstance(block, Details))
    assert sf.Policy.parse(folded.blocks[0].text).hash() == of.table.policy.hash()  # type: ignore[union-attr]
    assert "policy" not in {section.anchor for section in of.public.sections}


def test_a_release_is_handed_out_or_destroyed_as_the_form_to_sign_says() -> None:
    own = sheets("fine-grain")[0]
    assert [block.items for block in own.blocks if isinstance(block, Ticks)][1] == ("Hand it out.", "Destroy it.")
    form = (Path(__file__).parents[2] / "docs" / "publish" / "sign-off.md").read_text(encoding="utf-8")
    assert "[ ] hand it out   [ ] destroy it" in form


def test_the_plan_that_was_signed_off_is_named_if_it_is_the_plan_of_the_release(tmp_path: Path) -> None:
    of, file = made("suppression"), tmp_path / "plan.json"

    def kept(key: sf.SecretKey | None) -> Plan:
        method = of.table.policy.method
        return to_sign(of.table, sf.plan(sf.profile(of.table), method, of.table.policy.requirement, key=key))

    own = kept(sf.SecretKey.from_seed(1))
    file.write_text(own.to_json(), encoding="utf-8")
    assert signed_plan(file, of.table, of.release).number == own.number
    page = private_page(of.release, of.record, of.table, plan=own.number)
    assert facts_of(page.sections[0])["Plan"].startswith(f"{own.number}: it was signed off")
    assert "Plan" not in facts_of(sheets("suppression")[0])
    file.write_text(kept(sf.SecretKey.from_seed(3)).to_json(), encoding="utf-8")  # of the same table, drawn anew
    with pytest.raises(PlanMismatch, match="was not made by the plan"):
        signed_plan(file, of.table, of.release)


@pytest.mark.parametrize("method", METHODS)
def test_every_release_is_the_plan_that_it_carries_out(method: str, tmp_path: Path) -> None:
    of, file, key = made(method), tmp_path / "plan.json", sf.SecretKey.from_seed(1)
    planned = sf.plan(sf.profile(of.table), of.table.policy.method, of.table.policy.requirement, key=key)
    file.write_text(to_sign(of.table, planned).to_json(), encoding="utf-8")
    assert signed_plan(file, of.table, of.release).method == method


# --- attackers in groups ----------------------------------------------------------------------------------------------


def grouped(section: Section) -> dict[str, Table]:
    """Return the table below each heading of a group."""
    pairs = pairwise(section.blocks)
    return {a.text: b for a, b in pairs if isinstance(a, Heading) and isinstance(b, Table)}


@pytest.mark.parametrize("method", METHODS)
def test_attackers_are_in_two_groups_each_once(method: str) -> None:
    of = made(method)
    tables = grouped(of.private.sections[1])
    risks = [f for f in of.record["findings"] if f["scale"] == "risk"]
    for heading, covered in ((COVERED, True), (NOT_COVERED, False)):
        names = {f["attacker"] for f in risks if (f["promised"] is not None) == covered}
        rows = [str(row[0]) for row in tables[heading].rows] if names else []
        assert len(rows) == len(names)
        assert all(any(f"({name}" in row for row in rows) for name in names)


@pytest.mark.parametrize("method", METHODS)
def test_no_page_repeats_that_the_guarantee_does_not_cover_somebody(method: str) -> None:
    assert "not covered by the guarantee" not in html_of(made(method).private)
    assert "not covered by the guarantee" not in html_of(made(method).public)


@pytest.mark.parametrize("method", METHODS)
def test_everybody_who_is_not_covered_says_when_that_is_acceptable(method: str) -> None:
    of = made(method)
    roles = roles_on(of.release.manifest.kind)
    tables = grouped(of.private.sections[1]), grouped(of.public.sections[1])
    for rows in (tables[0][NOT_COVERED].rows, tables[1]["Not covered by the promise"].rows):
        assert all(re.search(r"Acceptable (if|for) .+ Not ", str(row[-1])) for row in rows)
    open_ones = {f["attacker"] for f in of.record["findings"] if f["promised"] is None}
    assert all(roles[name].acceptable != ASK for name in open_ones)


def test_those_who_gain_most_come_first() -> None:
    def finding(name: str, baseline: float, worst: float, verdict: str, direction: str = "at most") -> dict[str, Any]:
        promised = None if verdict == "not covered by the guarantee" else 0.5
        return {
            "attacker": name, "baseline": baseline, "worst": worst, "verdict": verdict, "direction": direction,
            "promised": promised,
        }  # fmt: skip

    within = "within the bound"
    covered, others = covered_and_not(
        [
            finding("falls", 0.9, 0.1, within, "at least"),
            finding("little", 0.4, 0.45, within),
            finding("much", 0.1, 0.3, within),
            finding("much", 0.1, 0.4, within),
            finding("broken", 0.5, 0.51, "above the bound"),
            finding("open", 0.0, 1.0, "not covered by the guarantee"),
        ]
    )
    assert [[f["attacker"] for f in own] for own in covered] == [["broken"], ["much", "much"], ["little"], ["falls"]]
    assert covered[1][0]["worst"] == 0.4
    assert [[f["attacker"] for f in own] for own in others] == [["open"]]


# --- column by column -------------------------------------------------------------------------------------------------


def cells(method: str) -> dict[str, tuple[str, ...]]:
    of = made(method)
    shown = next(b for b in before_after(of.release, of.table.policy).blocks if isinstance(b, Table))
    return {str(row[0]): tuple(map(str, row[1:])) for row in shown.rows}


def test_guesses_before_and_after_are_those_of_bayes_rule() -> None:
    release = made("fine-grain").release
    joint = release.table([COLUMN], method="em")
    matrix = release.manifest.mechanism_values[0].matrix.dense()
    before = joint.value.max() / joint.value.sum()
    sure = np.array([max(row * joint.value) / (row @ joint.value) for row in matrix])
    after = sure @ joint.published.ravel() / joint.published.sum()
    assert cells("fine-grain")[COLUMN][1:3] == (share(before), share(after))


def test_guesses_in_groups_are_by_shares_and_counts_are_exact() -> None:
    release = made("anatomy").release
    counts = np.array([row["estimate"] for row in release.count(by=COLUMN).rows()])
    lines = release.groups_to_arrow().to_pylist()
    largest = [max(x["count"] for x in lines if x["group"] == g) for g in {x["group"] for x in lines}]
    expected = (share(counts.max() / counts.sum()), share(sum(largest) / counts.sum()), "exact")
    assert cells("anatomy")[COLUMN][1:] == expected


@pytest.mark.parametrize("method", METHODS)
def test_columns_without_noise_are_read_off_the_row(method: str) -> None:
    of = made(method)
    rows = of.release.to_arrow()
    for column in of.release.manifest.columns:
        if column.treatment in ("untouched", "binned"):
            values = rows.column(column.name).to_pylist()
            most = max(values.count(value) for value in set(values)) / len(values)
            assert cells(method)[column.name][1:] == (share(most), "100.0%", "exact")


def test_worst_is_defined_once() -> None:
    texts = [b.text for s in made("fine-grain").private.sections for b in s.blocks if isinstance(b, Text)]
    assert sum("Worst means" in text for text in texts) == 1
