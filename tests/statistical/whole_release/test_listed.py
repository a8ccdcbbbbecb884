"""Nothing that is published depends on the table outside the mechanism, or it is listed: without chance, by one seed.

Both tables of a pair are published with the same seed. Every leaf of the manifest that then differs is a checksum or a
random name, or is covered by a fact of `computed_from_table`. Where nothing is listed, nothing else may differ, nor may
any line of the README.
"""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import Any

import pytest

import sfumato as sf
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.statistical.whole_release.cases import BY_VALUE, CASES, EQUAL, FURTHER, SORTED, STRICT, THREE, TWO
from tests.statistical.whole_release.observing import leaves
from tests.statistical.whole_release.publishing import Pair, memory, policy

MECHANISM = re.compile(r"release_id|created|(.+\.)?(sha256|readme_sha256)")
"""Random names, the date, and checksums of files: of what was drawn."""

COVERED: dict[str, str] = {
    r"mechanisms\.\d+\.domain\..*|groups\.domain\..*": r"^the values of \w+|^which values occur",
    r"mechanisms\.\d+\.(sub_tables\..*(noise|blocks|bounds).*|epsilon)": r"^the matri|^the values of \w+",
    r"mechanisms\.\d+\.(sub_tables.*|sub_table_column|minimum_sub_table)": r"^which values occur",
    r"data\.rows": r"^which rows are published|^how many records are withheld",
    r"data\.shuffled": r"^the order of the rows",
    r"columns\..*": r"^which values occur, how many sub-tables",  # whether there is a sub_table column
    r"groups\.(number|lines)": r"^how many groups there are",
    r"groups\.withheld": r"^how many records are withheld",
    r"guarantee\.(limits|sentence).*": r".",  # words that follow from what is listed
    r"second_release": r"^the matri|^the values of \w+|^which values occur|^how many",
}
"""Leaves of a manifest, and the fact that has to be listed if they depend on the table."""


def released(pair: Pair, first: bool) -> tuple[dict[str, Any], list[str]] | str:
    """Return the manifest's leaves and the README's lines without random names; or why nothing is published."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        key = SecretKey.from_seed(7)
        try:
            table = sf.scan(pair.source(first, Path(folder)), pair.policy)
            plan = sf.plan(sf.profile(table, key=key), pair.policy.method, pair.policy.requirement, key=key)
            release = sf.publish(table, plan, Path(folder) / "r", key=key)
        except sf.SfumatoError as problem:
            return f"{type(problem).__name__}: {problem}"
        manifest = json.loads((release.folder / "manifest.json").read_text())
        readme = re.sub(r"[0-9a-f]{16,}", "#", (release.folder / "README.md").read_text())
        return dict(leaves(manifest)), readme.splitlines()


def differing(pair: Pair) -> tuple[set[str], set[str], set[str]]:
    """Return which leaves differ, outside checksums; which lines of the README do; and the facts that are listed."""
    both = [released(pair, first) for first in (True, False)]
    assert not any(isinstance(one, str) for one in both), both
    (one, lines), (other, other_lines) = both  # type: ignore[misc]
    absent = object()
    paths = {path for path in {*one, *other} if one.get(path, absent) != other.get(path, absent)}
    facts = {str(v) for said in (one, other) for p, v in said.items() if re.fullmatch(r"computed_from_table\.\d+", p)}
    return {path for path in paths if not MECHANISM.fullmatch(path)}, {*lines} ^ {*other_lines}, facts


def uncovered(paths: set[str], facts: set[str]) -> set[str]:
    """Return the leaves that depend on the table, and that nothing listed accounts for."""
    return {
        path for path in paths if not any(re.fullmatch(of, path) and _any(fact, facts) for of, fact in COVERED.items())
    }


def _any(pattern: str, facts: set[str]) -> bool:
    return any(re.search(pattern, fact) for fact in facts)


@pytest.mark.parametrize("case", [*CASES, *FURTHER])
def test_where_nothing_is_listed_nothing_depends_on_the_table(case: str) -> None:
    paths, lines, facts = differing((CASES | FURTHER)[case][0])
    assert (paths, lines, facts) == (set(), set(), set())


def _pair(policy: Any, values: str, place: int, other: str) -> Pair:
    return Pair(policy, CASES["uniform, few rows"][0].gamma, values, place, other)


_RESPONSE = make_policy(
    {"name": "identifier", "who": "other", "sex": "quasi_identifier", "disease": "sensitive"},
    "risk_limit = 0.6",
    "randomized-response",
)
SMALL = 'rho1 = "1/3"\nrho2 = "2/3"'
FROM_TABLE = {
    "uniform, observed domain": _pair(policy(STRICT, None), "aab", 2, "c"),
    "uniform, observed domain grows": _pair(policy(STRICT, None), "aabb", 3, "c"),
    "fine-grain, observed weights": _pair(
        policy(BY_VALUE, THREE, "fine-grain", 'weights = "observed"'), "aabc", 2, "c"
    ),
    "fine-grain, observed rho1": _pair(
        policy('tolerance = 2\nrho1 = "observed"', THREE, "fine-grain", EQUAL), "abcabc", 0, "b"
    ),
    "small-domain": _pair(policy(SMALL, None, "small-domain", "minimum_sub_table = 4"), "aaabbbccddef", 11, "e"),
    "small-domain, declared": _pair(
        policy(SMALL, "['a', 'b', 'c', 'd', 'e', 'f']", "small-domain", "minimum_sub_table = 4"),
        "aaabbbccddef",
        11,
        "e",
    ),
    "anatomy": _pair(policy("l = 2", None, "anatomy"), "aabbcd", 5, "c"),
    "suppression": _pair(policy("l = 2", None, "suppression"), "aaaabcd", 6, "c"),
    "suppression, more withheld": _pair(policy("l = 2", "['a', 'b', 'c']", "suppression"), "aaaabbc", 6, "a"),
    "robust-anatomy": _pair(
        policy("r = 2", "['a', 'b', 'c']", "robust-anatomy", 'attribute_sets = [["sex"]]'), "abbaccabc", 1, "c"
    ),
    "randomized-response": _pair(_RESPONSE, "abbaababbabaabab", 1, "a"),
}


@pytest.mark.parametrize("name", FROM_TABLE)
def test_what_depends_on_the_table_is_listed(name: str) -> None:
    paths, _, facts = differing(FROM_TABLE[name])
    assert paths, "the pair shows nothing"
    assert not uncovered(paths, facts), (uncovered(paths, facts), facts)


@pytest.mark.parametrize("name", FROM_TABLE)
def test_the_adversary_follows_from_the_list(name: str) -> None:
    """Someone who knows all other records is promised something only where nothing is listed."""
    pair = FROM_TABLE[name]
    plan = sf.plan(sf.profile(sf.scan(pair.table(True), pair.policy)), pair.policy.method, pair.policy.requirement)
    assert plan.computed_from_table
    assert plan.from_table
    assert plan.guarantee.strength != "any prior"
    assert "any other records" not in plan.guarantee.adversary


def test_rows_in_the_tables_order_are_listed_and_promised_less() -> None:
    """That an order is published at all tells the result of a test on the secret."""
    pair = _pair(policy(f'{STRICT}\n[output]\norder = "keep"', TWO), "abba", 1, "a")
    plan = sf.plan(sf.profile(sf.scan(pair.table(True), pair.policy)), pair.policy.method, pair.policy.requirement)
    assert _any("^the order of the rows", set(plan.computed_from_table))
    assert plan.guarantee.strength == "any prior, computed from this table"
    assert "any other records" not in plan.guarantee.adversary
    long = _pair(pair.policy, SORTED * 2, 0, "a")
    refused = released(long, True)
    assert isinstance(refused, str)
    assert "Infeasible" in refused


def test_rows_that_are_left_out_are_listed() -> None:
    pair = Pair(
        policy(STRICT, TWO, sensitive="; missing = 'drop'"), CASES["uniform, few rows"][0].gamma, "abab", 1, None
    )
    paths, _, facts = differing(pair)
    assert "data.rows" in paths
    assert not uncovered(paths, facts), (uncovered(paths, facts), facts)
    assert _any("^which rows are published", facts)


@pytest.mark.parametrize("read_off", [("; from_table = true", ""), ("", "\nfrom_table = true")])
def test_t7_a_policy_that_was_read_off_the_table_is_promised_less(read_off: tuple[str, str]) -> None:
    """A domain or a requirement that looks declared, and that nobody has confirmed."""
    of_column, of_requirement = read_off
    pair = _pair(policy(STRICT + of_requirement, TWO, sensitive=of_column), "abba", 1, "a")
    paths, _, facts = differing(pair)
    assert not paths
    assert facts
    plan = sf.plan(sf.profile(sf.scan(pair.table(True), pair.policy)), pair.policy.method, pair.policy.requirement)
    assert plan.guarantee.strength == "any prior, computed from this table"
    assert "any other records" not in plan.guarantee.adversary


def test_a_fact_that_is_not_listed_is_found() -> None:
    """The power of it: without its facts, every pair above would fail."""
    for name, pair in FROM_TABLE.items():
        paths, _, _ = differing(pair)
        assert uncovered(paths, set()), name
