"""The page of a report: well-formed, readable by everybody, loading nothing, and public without private figures."""

from __future__ import annotations

import re
from collections import Counter
from copy import deepcopy
from fractions import Fraction
from functools import cache, partial
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.auditor.report.page import DARK, Details, Table, html_of
from sfumato.auditor.report.page_audit import Compared
from sfumato.auditor.report.page_counts import beliefs, counts, estimated
from sfumato.auditor.report.page_findings import VERDICTS
from sfumato.auditor.report.reporting import private_page, public_page, report
from sfumato.auditor.utility.truth import true_counts
from sfumato.errors import UsageError
from tests.conftest import make_policy
from tests.page.releases import COLUMN, POLICIES, VALUES, made, patients

VOID = {"meta", "br", "img", "link", "hr", "input"}
METHODS = list(POLICIES)


class Reader(HTMLParser):
    """Reads a page strictly: every element is closed, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"<{tag}> has an attribute twice"
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.texts.append((self.open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of all elements with this name."""
        return [attributes for name, attributes in self.elements if name == tag]


@cache
def private(method: str) -> str:
    return html_of(made(method).private)


@cache
def public(method: str) -> str:
    return html_of(made(method).public)


@pytest.fixture(params=[f"{kind} {method}" for method in METHODS for kind in ("private", "public")])
def page(request: pytest.FixtureRequest) -> str:
    kind, method = request.param.split()
    return private(method) if kind == "private" else public(method)


# --- structure --------------------------------------------------------------------------------------------------------


def test_it_is_well_formed_and_can_be_read_aloud(page: str) -> None:
    read = Reader(page)
    assert page.startswith("<!DOCTYPE html>")
    assert read.all("html") == [{"lang": "en"}]
    levels = [int(tag[1]) for tag, _ in read.elements if re.fullmatch("h[1-6]", tag)]
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    named = [attributes["id"] for _, attributes in read.elements if "id" in attributes]
    assert len(set(named)) == len(named)
    assert {link["href"] for link in read.all("a")} <= {f"#{name}" for name in named}
    assert all(cell.get("scope") in ("col", "row") for cell in read.all("th"))
    assert len(read.all("caption")) == len(read.all("table")) > 0


def test_every_figure_says_in_words_what_it_shows(page: str) -> None:
    read = Reader(page)
    drawings = read.all("svg")
    assert len(drawings) == 2 * len(read.all("figure")) > 0
    assert all(drawing["role"] == "img" and len(drawing["aria-label"] or "") > 30 for drawing in drawings)
    assert len([text for tag, text in read.texts if tag == "text"]) > 10  # text in drawings stays text


def test_it_loads_nothing(page: str) -> None:
    read = Reader(page)
    assert read.all("script") == read.all("link") == read.all("img") == read.all("iframe") == []
    for tag, attributes in read.elements:
        assert not {"src", "srcset", "data", "action", "style"} & set(attributes), tag
        assert not [name for name in attributes if name.startswith("on")], tag
        assert (attributes.get("href") or "#").startswith("#")
    assert "http" not in page.replace("http-equiv", "")
    assert "@import" not in page
    assert "url(" not in page
    policy = next(m for m in read.all("meta") if m.get("http-equiv") == "Content-Security-Policy")
    assert policy["content"] == "default-src 'none'; style-src 'unsafe-inline'"


def test_hostile_names_and_values_stay_text(page: str) -> None:
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert any(COLUMN in text for _, text in Reader(page).texts)


def test_every_colour_has_a_dark_counterpart(page: str) -> None:
    used = {
        value
        for tag, attributes in Reader(page).elements
        for name, value in attributes.items()
        if name in ("fill", "stroke") and value not in ("none", "transparent")
    }
    assert used <= set(DARK)
    assert all(f'[fill="{colour}"]' in page and f'[stroke="{colour}"]' in page for colour in used if colour)


@pytest.mark.parametrize("method", METHODS)
def test_it_never_says_more_than_a_bound(method: str) -> None:
    words = re.compile(r"\b(safe(?!-d)|safely|anonym\w*|cannot be inferred)\b", re.IGNORECASE)  # safe-d: a name
    assert words.findall(private(method)) == words.findall(public(method)) == []


# --- content ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
def test_it_tells_what_is_promised_and_what_is_not(method: str) -> None:
    texts = " ".join(text for _, text in Reader(private(method)).texts)
    manifest = made(method).release.manifest
    for stated in (manifest.guarantee.sentence, manifest.guarantee.adversary, manifest.guarantee.prior):
        assert stated in texts
    assert all(limit in texts for limit in manifest.guarantee.limits)
    assert all(part in texts for part in (manifest.release_id, manifest.software, manifest.data.sha256))
    assert "Not for release" in texts  # it was drawn from a seed


@pytest.mark.parametrize("method", METHODS)
def test_the_publisher_sees_every_finding_with_its_size(method: str) -> None:
    texts = " ".join(text for _, text in Reader(private(method)).texts)
    for finding in made(method).record["findings"]:
        badge = VERDICTS[finding["verdict"]]
        assert all(part in texts for part in (finding["question"], finding["assumption"], badge.symbol, badge.text))
        assert f"{finding['at_risk']:,} of {finding['records']:,}" in texts


@pytest.mark.parametrize("method", METHODS)
def test_worst_is_the_largest_risk_and_every_bound_says_whose_it_is(method: str) -> None:
    """A page promised 55% and then 59.2%, and told a worst of 46% beside somebody exposed by 90%."""
    of = made(method)
    texts = " ".join(text for _, text in Reader(private(method)).texts)
    parts = of.release.manifest.mechanisms if of.release.manifest.groups is None else ()
    promised = {float(Fraction(b.rho2)) for p in parts for t in p.sub_tables for b in t.bounds if b.rho2}
    for finding in of.record["findings"]:
        if finding["scale"] == "chance":
            continue
        if finding["direction"] == "at most":
            assert all(group["risk"] <= finding["worst"] + 1e-9 for group in finding["exposed"])
        if finding["who"]:
            assert f"({finding['who']})" in texts
        bound = finding["stated"] if finding["promised"] is None else finding["promised"]
        if finding["attacker"] in ("frequencies", "background", "label", "composition") and promised and bound:
            assert finding["why_bound"] or min(abs(bound - rho2) for rho2 in promised) < 1e-9
        if finding["promised"] is not None and not finding["at_risk"]:
            assert "No record: none is beyond its own bound." in texts
        if finding["promised"] is None:
            assert finding["why_not_covered"] in texts


def test_a_broken_bound_is_told_by_word_and_symbol() -> None:
    of = made("fine-grain")
    record = deepcopy(of.record)
    next(f for f in record["findings"] if f["scale"] == "risk").update(verdict="above the bound", worst=0.9)
    text = html_of(private_page(of.release, record))
    assert 'class="badge above"><span aria-hidden="true">✗</span> above the bound' in text
    assert "1 got beyond the bound" in text


def test_all_attackers_of_the_audit_are_described() -> None:
    from sfumato.auditor.attackers import ATTACKERS, ROLES

    found = {finding["attacker"] for method in METHODS for finding in made(method).record["findings"]}
    assert found | {attacker.name for attacker in ATTACKERS} <= set(ROLES)


def test_other_methods_are_compared_where_they_are_given() -> None:
    of = made("anatomy")
    methods = [Compared("anatomy", 0.3, 0.1, 1.25), Compared("uniform", reason="the matrix is singular <b>")]
    text = html_of(private_page(of.release, of.record, methods=methods))
    assert "Other methods" in text
    assert "1.2 s" in text
    assert "the matrix is singular &lt;b&gt;" in text
    assert "Other methods" not in private("anatomy")


@pytest.mark.parametrize(("method", "columns"), [("fine-grain", [COLUMN]), ("anatomy", [COLUMN, "sex"])])
def test_true_counts_stand_beside_estimates(method: str, columns: list[str]) -> None:
    of = made(method)
    found = estimated(of.release, columns, partial(true_counts, of.release, of.table))
    answer = {row.label: row for row in found}
    for row in of.release.count(by=columns).rows():
        mine = answer[", ".join(row[name] for name in columns)]
        assert mine.estimate == pytest.approx(row["estimate"])
        assert (mine.lower, mine.upper) == pytest.approx((row["lower"], row["upper"]))
    rows = patients().to_pylist()
    assert {name: row.truth for name, row in answer.items()} == {
        name: sum(", ".join(row[column] for column in columns) == name for row in rows) for name in answer
    }


def test_large_matrices_are_summarised(tmp_path: Path) -> None:
    values = np.random.default_rng(1).choice([f"v{k:03}" for k in range(60)], 2000).tolist()
    release = published(pa.table({"x": values}), make_policy({"x": "sensitive"}), tmp_path / "r")
    text = html_of(public_page(release, {"findings": []}))
    assert "too many to draw its matrix" in text
    assert "The matrix of x" not in text


def test_without_an_inverse_there_are_estimates_without_intervals(tmp_path: Path) -> None:
    strict = "".join(f'[[requirement.values]]\nvalue = "{v}"\nrho1 = "1/10"\nrho2 = "1/4"\n' for v in "ab")
    policy = make_policy(
        {"x": "sensitive"}, f"rho1 = 0.3\nrho2 = 0.7\n{strict}", "fine-grain", options='objective = "records"'
    )
    values = np.random.default_rng(1).choice(list("abcdefghijkl"), 3000, p=[0.02, 0.02, *[0.096] * 10]).tolist()
    release = published(pa.table({"x": values}), policy, tmp_path / "r")
    assert not release.manifest.mechanism_values[0].is_invertible
    text = html_of(public_page(release, {"findings": []}))
    assert "Records by x" in text
    assert "exact for the published ones" not in text


def published(table: pa.Table, policy: sf.Policy, folder: Path) -> sf.Release:
    scanned = sf.scan(table, policy)
    return sf.publish(scanned, sf.plan(sf.profile(scanned), policy.method, policy.requirement), folder)


# --- how sure a reader can be -----------------------------------------------------------------------------------------


def test_beliefs_are_those_of_bayes_rule() -> None:
    release = made("fine-grain").release
    matrix = release.manifest.mechanism_values[0].matrix.dense()
    joint = release.table([COLUMN], method="em")
    slow = [max(row * joint.value) / (row @ joint.value) for row in matrix]
    found = beliefs(release)
    assert found is not None
    assert found[0] == pytest.approx(slow)
    assert found[1] == pytest.approx(joint.published)


def test_beliefs_in_groups_are_the_largest_shares() -> None:
    release = made("suppression").release
    lines = release.groups_to_arrow().to_pylist()
    groups = {line["group"] for line in lines}
    slow = sorted(
        max(x["count"] for x in lines if x["group"] == g) / sum(x["count"] for x in lines if x["group"] == g)
        for g in groups
    )
    found = beliefs(release)
    assert found is not None
    assert sorted(found[0]) == pytest.approx(slow)
    assert found[1].sum() == release.manifest.data.rows


def test_beliefs_under_randomized_response_are_those_of_bayes_rule() -> None:
    release = made("randomized-response").release
    claim = release.manifest.response
    assert claim is not None
    columns = (*claim.quasi_identifiers, *claim.sensitive)
    joint = release.table(columns, method="em")
    matrices = {m.domain.names[0]: m.matrix.dense() for m in release.manifest.mechanism_values}
    sizes = joint.value.shape
    first, second = (matrices.get(name, np.eye(size)) for name, size in zip(columns[:2], sizes[:2], strict=True))
    expected = np.einsum("ab,cd,bdu->acu", first, second, joint.value).reshape(-1, sizes[-1])
    seen = joint.published.sum(axis=-1).ravel()
    slow = (expected.max(axis=1) / expected.sum(axis=1))[seen > 0]
    found = beliefs(release)
    assert found is not None
    assert found[0] == pytest.approx(slow)
    assert found[1] == pytest.approx(seen[seen > 0])


# --- what a public page tells -----------------------------------------------------------------------------------------


def other_figures(record: Any, by: float) -> Any:
    """Return a record with other numbers and other words, but the same attackers and verdicts."""
    if isinstance(record, dict):
        kept = ("attacker", "verdict", "audit_version", "release_id")
        return {name: value if name in kept else other_figures(value, by) for name, value in record.items()}
    if isinstance(record, list | tuple):
        return [other_figures(value, by) for value in record]
    if isinstance(record, bool) or record is None:
        return record
    return record * by if isinstance(record, int | float) else f"{record} {by}"


@pytest.mark.parametrize("method", METHODS)
def test_a_public_page_depends_on_the_release_and_on_verdicts_only(method: str) -> None:
    of = made(method)
    assert html_of(public_page(of.release, other_figures(of.record, 0.37))) == public(method)
    assert html_of(private_page(of.release, other_figures(of.record, 0.37))) != private(method)


@pytest.mark.parametrize("method", METHODS)
def test_t3_4_both_pages_say_how_many_published_records_are_alone(method: str) -> None:
    """By what anybody can count in the release."""
    release = made(method).release
    names = [c.name for c in release.manifest.columns if c.treatment in ("untouched", "binned", "merged")]
    rows = release.to_arrow().select(names).to_pylist()
    alone = sum(n == 1 for n in Counter(tuple(row.values()) for row in rows).values())
    for page in (private(method), public(method)):
        told = f"{alone:,} of the {len(rows):,} " in page
        assert (told or (not alone and f"None of the {len(rows):,} " in page)) == bool(names)


@pytest.mark.parametrize("method", METHODS)
def test_a_public_page_has_none_of_the_private_numbers(method: str, tmp_path: Path) -> None:
    of = made(method)
    report(of.record, tmp_path / "public.html", release=of.release, table=of.table, public=True)
    written = (tmp_path / "public.html").read_text(encoding="utf-8")
    assert written == public(method)
    assert ">true count<" not in written
    sizes = [f"{finding['at_risk']:,} of {finding['records']:,}" for finding in of.record["findings"]]
    assert all(size in private(method) and size not in written for size in sizes)
    named = [group["who"] for finding in of.record["findings"] for group in finding["exposed"][:3]]
    told, shown = ({text for _, text in Reader(page).texts} for page in (private(method), written))
    assert set(named) <= told
    assert not {who for who in named if " " in who} & shown


def numbers_of(text: str) -> set[str]:
    """Return the numbers in the texts of a page."""
    words = " ".join(t for tag, t in Reader(text).texts if tag != "style")
    words = re.sub(r"\d{4}-\d\d-\d\d", "", words)  # dates
    return set(re.findall(r"(?<!\w)\d[\d,]*(?:\.\d+)?(?!\w)", words))  # and no part of a checksum


def test_true_counts_are_on_the_private_page_only() -> None:
    of = made("fine-grain")
    counts = {f"{c:.0f}" for c in true_counts(of.release, of.table, [COLUMN], [VALUES])}
    released = {f"{row.estimate:,.0f}" for row in estimated(of.release, [COLUMN], None)}
    assert counts <= numbers_of(private("fine-grain"))
    assert not counts & (numbers_of(public("fine-grain")) - released)


@pytest.mark.parametrize(("attacker", "verdict"), [("17 of 39", "within the bound"), ("residue", "x 1,234")])
def test_unknown_attackers_and_verdicts_are_refused_in_public(attacker: str, verdict: str) -> None:
    with pytest.raises(UsageError, match="does not know") as caught:
        public_page(made("anatomy").release, {"findings": [{"attacker": attacker, "verdict": verdict}]})
    assert "17" not in str(caught.value)
    assert "1,234" not in str(caught.value)


def listed(text: str) -> dict[str, str]:
    """Return the attackers of a public page with their verdicts."""
    covered, _, others = text.partition("Not covered by the promise")
    rows = re.findall(r'data-label="attacker">([^<]*)<.*?data-label="verdict">.*?</span> ([^<]*)<', covered, re.S)
    left_open = re.findall(r'data-label="attacker">([^<]*)<', others)
    return dict(rows) | dict.fromkeys(left_open, "not covered by the guarantee")


@pytest.mark.parametrize("method", METHODS)
def test_a_public_page_lists_what_the_manifest_says_and_the_audit_agrees(method: str) -> None:
    of, verdicts = made(method), listed(public(method))
    assert verdicts == listed(html_of(public_page(of.release, {"findings": []})))
    for finding in of.record["findings"]:
        covered = verdicts[finding["attacker"]] == "within the bound"
        assert covered or finding["verdict"] == "not covered by the guarantee"
    for attacker in {finding["attacker"] for finding in of.record["findings"]}:
        found = {f["verdict"] for f in of.record["findings"] if f["attacker"] == attacker}
        assert verdicts[attacker] in found


def test_a_public_page_shows_who_is_above_the_bound() -> None:
    of = made("anatomy")
    found = [{"attacker": name, "verdict": "above the bound"} for name in ("order", "register")]
    verdicts = listed(html_of(public_page(of.release, {"findings": found})))
    assert verdicts["order"] == verdicts["register"] == "above the bound"


def test_a_public_page_does_not_tell_whom_the_audit_found_nothing_for(tmp_path: Path) -> None:
    """Seven rows were left out of one table; the release does not tell that, and neither does its page."""
    rng = np.random.default_rng(1)
    sexes, values = rng.choice(["F", "M"], 120).tolist(), rng.choice(list("abc"), 120, p=[0.5, 0.3, 0.2]).tolist()
    roles = {"s": "quasi_identifier", "d": "sensitive; missing = 'drop'; domain = ['a', 'b', 'c']"}
    policy = make_policy(roles, "rho1 = 0.25\nrho2 = 0.6")
    pages, attackers = [], []
    for more in (0, 7):
        table = sf.scan(pa.table({"s": sexes + ["F"] * more, "d": values + [None] * more}), policy)
        release = sf.publish(table, sf.plan(sf.profile(table), policy.method, policy.requirement), tmp_path / str(more))
        found = sf.audit(table, release, seed=1)
        attackers.append({finding.attacker for finding in found.findings})
        pages.append(listed(html_of(public_page(release, found.to_dict()))))
    assert attackers[1] - attackers[0] == {"missing"}
    assert pages[0] == pages[1]


@pytest.mark.parametrize(("more", "told"), [("", 0), ("cd", 16)])
def test_counts_that_groups_do_not_tell_are_no_numbers_and_come_last(more: str, told: int, tmp_path: Path) -> None:
    """Every group has one "a" and one "b", so nothing tells these apart, nor others if all groups are of one size."""
    values = list("ab") * 400 + list("cdefghij") * 50 + list(more)
    rows = pa.table({"sex": ["F", "M"] * (len(values) // 2), "s": values})
    policy = make_policy({"sex": "quasi_identifier", "s": "sensitive"}, "l = 3", "anatomy")
    section = counts(published(rows, policy, tmp_path / "r"), None)
    last = section.blocks[-1]
    shown = last.blocks[0] if isinstance(last, Details) else last
    assert isinstance(shown, Table)
    assert "exact" not in shown.caption
    cells = [str(row[1]) for row in shown.rows]
    assert set(cells[told:]) == {"–"}
    numbers = [int(cell) for cell in cells[:told]]
    assert numbers == sorted(numbers, reverse=True)


def test_a_page_does_not_call_counts_exact_of_which_records_are_withheld() -> None:
    story = " ".join(text for _, text in Reader(html_of(made("suppression").private)).texts)
    assert f"So how often each {COLUMN} occurs among the published records is exact" in story
