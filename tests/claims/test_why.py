"""`--why`: the formulas that are shown hold with the numbers put in, alike in a plan and in its release."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from functools import cache
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import sfumato as sf
from sfumato.claims.why import proof
from sfumato.methods import METHODS
from tests.cli.test_commands import run
from tests.golden.cases import CASES, FILES, table
from tests.house.test_docs import ROOT

NOISE = ["uniform", "fine-grain", "subset, sets", "ranges", "geometric", "small-domain", "several"]
OTHERS = ["anatomy", "suppression", "robust-anatomy", "robust-anatomy as published", "randomized-response"]
FORMULA = re.compile(r"rho[12]/|\(1 - |[<>]=? ?gamma|P\[|\^|sum_|ln gamma|/\(|n\(g")
NUMBER = r"[\d.e+-]+(?:/\d+)?"


@cache
def planned(name: str) -> sf.Plan:
    policy = sf.Policy.parse(CASES[name].policy)
    return sf.plan(sf.profile(sf.scan(table(), policy)), policy.method, policy.requirement)


def value(text: str) -> float:
    return float(Fraction(text)) if "/" in text else float(text)


@pytest.mark.parametrize("name", NOISE)
def test_the_numbers_that_are_put_in_give_what_is_stated(name: str) -> None:
    text = planned(name).why.explain()
    stated = rf"rho1 = ({NUMBER}), rho2 = ({NUMBER}): .* = ({NUMBER}) \* ({NUMBER}) = ({NUMBER})$"
    asked = re.findall(stated, text, re.MULTILINE)
    for rho1, rho2, first, second, gamma in asked:
        low, high = value(rho1), value(rho2)
        assert high / low * (1 - low) / (1 - high) == pytest.approx(value(gamma), rel=1e-4)
        assert value(first) * value(second) == pytest.approx(value(gamma), rel=1e-4)
    for gamma, epsilon in re.findall(rf"gamma = ({NUMBER}), as it was .* = ({NUMBER})$", text, re.M):
        assert math.log(value(gamma)) == pytest.approx(value(epsilon), abs=1e-4)
    ratios = re.findall(rf"= ({NUMBER}) / ({NUMBER}) = ({NUMBER}) <= ({NUMBER})$", text, re.M)
    assert ratios
    for high, low, ratio, most in ratios:
        assert value(high) / value(low) == pytest.approx(value(ratio), rel=1e-4)
        assert value(ratio) <= value(most) * (1 + 1e-5)
    assert asked or "as it was asked for" in text


@pytest.mark.parametrize("name", ["uniform", "fine-grain", "small-domain"])
def test_what_binds_is_the_ratio_nearest_to_its_limit(name: str) -> None:
    """Brute force over all entries of all matrices."""
    (mechanism,) = planned(name).mechanisms
    directions = planned(name).guarantee.directions
    nearest = 0.0
    for part in mechanism.tables:
        chances = part.matrix.dense()
        for x, bound in enumerate(part.bounds):
            others = [z for z in range(len(part.bounds)) if z != x]
            if bound.gamma is not None and others:
                up = max(row[x] / min(row[others]) for row in chances)
                down = max(max(row[others]) / row[x] for row in chances)
                found = [up, *([down] if "downward" in directions else [])]
                nearest = max(nearest, max(found) / float(bound.gamma))
    told = re.search(rf"= ({NUMBER}) <= ({NUMBER})$", planned(name).why.explain(), re.M)
    assert told
    assert value(told[1]) / value(told[2]) == pytest.approx(nearest, rel=1e-4)


@pytest.mark.parametrize("name", [*NOISE, *OTHERS])
def test_formulas_are_shown_by_why_alone(name: str) -> None:
    plan = planned(name)
    assert plan.why.steps
    assert FORMULA.search(plan.why.explain()) or "Delta" in plan.why.explain()
    parts = [part for part in plan.explain().split("\n\n") if not part.startswith("The promise in exact terms")]
    for text in (plan.summary().text(100), *parts):
        assert not FORMULA.search(text), FORMULA.search(text)


@pytest.mark.parametrize("name", ["fine-grain", "anatomy"])
def test_a_release_tells_the_reasons_of_its_plan(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pq.write_table(table(), "rows.parquet")
    Path("policy.toml").write_text(CASES[name].policy, encoding="utf-8")
    for file, text in FILES.items():
        Path(file).write_text(text, encoding="utf-8")
    told = [run("plan", "rows.parquet", "policy.toml", "--why")]
    assert run("publish", "rows.parquet", "policy.toml", "-o", "release")[0] == 0
    told.append(run("verify", "release", "--why"))
    assert [code for code, _, _ in told] == [0, 0]
    assert told[0][1] == told[1][1]
    assert proof(name) in told[0][1]


def test_a_broken_release_is_told_to_be_so_and_gives_no_reasons(tmp_path: Path) -> None:
    policy = sf.Policy.parse(CASES["uniform"].policy)
    opened = sf.scan(table(), policy)
    sf.publish(opened, planned("uniform"), tmp_path / "release")
    (tmp_path / "release" / "data.parquet").write_bytes(b"other")
    code, out, _ = run("verify", str(tmp_path / "release"), "--why")
    assert code == 1
    assert "FAILS" in out
    assert not FORMULA.search(out)


@pytest.mark.parametrize("method", [*(method.name for method in METHODS), "several"])
def test_every_method_has_a_page_of_proof(method: str) -> None:
    assert (ROOT / proof(method)).exists()
