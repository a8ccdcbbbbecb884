"""What a refusal proposes is asked for, as it is printed: there is a plan then, and one of use."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

from sfumato.errors import Infeasible
from sfumato.methods.response.figures import ResponseFigures
from sfumato.methods.response.method import RandomizedResponse
from sfumato.methods.response.request import Request
from sfumato.methods.response.risks import RiskName
from sfumato.values.profile import Profile
from sfumato.values.requirement import GroupLimit, RiskLimit
from tests.constants import set_constants
from tests.methods.test_response_checked import QUASI, asked, counted, planned, profiles

Asked = dict[str, Any]
SUPPRESS = "Suppress records with the most frequent sensitive values"


def refused(table: Profile, wanted: Asked) -> Infeasible:
    with pytest.raises(Infeasible) as error:
        planned(table, **wanted)
    return error.value


def try_all(table: Profile, wanted: Asked, hint: str) -> list[str]:
    """Ask for whatever the hint proposes; return the kinds of these."""
    tried = {"wider": _wider(wanted, hint), "limits": _limits(wanted, hint), "l": _diversity(wanted, hint)}
    for proposed in _least(wanted, hint):  # that can be had, of use or not
        assert planned(table, **proposed).mechanisms
    for proposed in filter(None, tried.values()):
        made = planned(table, **proposed)
        assert made.mechanisms
        assert made.figures.expected_l2 <= made.figures.uniform_l2
        assert not any("leaves next to nothing" in note for note in made.notes)
    return [kind for kind, proposed in tried.items() if proposed]


def _wider(wanted: Asked, hint: str) -> Asked | None:
    found = re.match(r"Randomize attribute\(s\) ([\w, ]+) too \(([^)]+)\)", hint)
    if not found:
        return None
    scope = re.search(r'scope = "([\w-]+)"', found[2])
    fixed = re.search(r"fixed = \[([^]]*)\]", found[2])
    more: Asked = {"scope": scope[1]} if scope else {}
    if fixed:
        more["fixed"] = re.findall(r'"(\w+)"', fixed[1])
    assert more
    return wanted | more


def _limits(wanted: Asked, hint: str) -> Asked | None:
    number = r"(\d[\d./e-]*)"
    if found := re.search(rf"a limit of {number}(?=[ .,]|$)", hint):
        return wanted | {"requirement": RiskLimit(found[1].rstrip("."))}
    if not (found := re.search(rf"limits of {number}(?: \(none\))? for all others, (.+)\.?$", hint)):
        return None
    groups = wanted["requirement"].groups
    own = re.findall(rf"{number}(?: \(none\))? for (\w+) (\w+)", found[2])
    assert [(name, value) for _, name, value in own] == [(g.where[0][0], g.where[0][1][0]) for g in groups]
    changed = tuple(GroupLimit(g.where, each[0]) for g, each in zip(groups, own, strict=True))
    return wanted | {"requirement": RiskLimit(found[1], changed)}


def _least(wanted: Asked, hint: str) -> list[Asked]:
    found = re.search(r"(?:l = (\d+), or for )?risk_limit = (\d[\d./e-]*) or more", hint)
    limits = [f"1/{found[1]}"] * bool(found[1]) + [found[2]] if found else []
    return [wanted | {"requirement": RiskLimit(limit)} for limit in limits]


def _diversity(wanted: Asked, hint: str) -> Asked | None:
    found = re.search(r"\(l = (\d+)\)", hint)
    return wanted | {"requirement": RiskLimit(f"1/{found[1]}")} if found else None


def request(limit: str, *groups: tuple[str, str, str], **more: Any) -> Asked:
    limits = tuple(GroupLimit(((name, (value,)),), number) for name, value, number in groups)
    return {"requirement": RiskLimit(limit, limits), **more}


RECONSTRUCTION: Asked = {"risk": "reconstruction", "assurance": "as-published"}


def of(counts: dict[tuple[str, ...], int]) -> Profile:
    rows = [key for key, number in counts.items() for _ in range(number)]
    names = (*QUASI[: len(rows[0]) - 1], "s")
    return counted(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


# --- whatever is asked for --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("risk", ["reconstruction", "posterior", "link"])
def test_whatever_is_proposed_can_be_had(risk: RiskName) -> None:
    rng = np.random.default_rng(41)
    kinds: Counter[str] = Counter()
    for table in profiles()[:14]:
        for factor in (0.1, 0.3):
            wanted = asked(rng, risk)
            stated = wanted["requirement"]
            groups = tuple(GroupLimit(group.where, float(group.limit) * factor) for group in stated.groups)
            wanted["requirement"] = RiskLimit(float(stated.limit) * factor, groups)
            try:
                planned(table, **wanted)
            except Infeasible as error:
                kinds.update(try_all(table, wanted, error.hint))
                kinds["groups"] += "limits of" in error.hint
    assert kinds["limits"] >= 8
    assert kinds["groups"] >= 2


# --- limits -----------------------------------------------------------------------------------------------------------


def test_the_others_are_told_what_they_get() -> None:
    """Noise in s does not help those who are alone with their value: their limit has to go too, and that is said."""
    table = of({("M", "x"): 50, ("F", "x"): 30, ("F", "y"): 20})
    wanted = request("0.5", ("a", "F", "0.1"), scope="sensitive", **RECONSTRUCTION)
    error = refused(table, wanted)
    assert re.fullmatch(r"Ask for limits of 1 \(none\) for all others, 0.3\d+ for a F\.", error.hint)
    assert try_all(table, wanted, error.hint) == ["limits"]


def test_limits_that_are_not_in_the_way_stay() -> None:
    table = of({("M", "x"): 50, ("M", "y"): 50, ("M", "z"): 50, ("F", "x"): 30, ("F", "y"): 20})
    wanted = request("8/17", ("a", "F", "0.1"), scope="sensitive", **RECONSTRUCTION)
    error = refused(table, wanted)
    assert "limits of 8/17 for all others, 0.3" in error.hint
    assert try_all(table, wanted, error.hint) == ["limits"]


@pytest.mark.parametrize("risk", ["reconstruction", "posterior", "link"])
def test_no_group_is_proposed_more_than_the_answer_needs(risk: RiskName) -> None:
    """A limit that was raised is reached, to its three digits; limits that grow by one factor would leave room."""
    rng, raised = np.random.default_rng(43), 0
    for table in profiles()[:8]:
        low, high = sorted(rng.uniform(0.1, 0.25, 2) / (50 if risk == "reconstruction" else 1))
        more = RECONSTRUCTION | {"scope": "quasi-identifiers"} if risk == "reconstruction" else {"risk": risk}
        wanted = request(f"{high:.4f}", ("a", "a0", f"{low:.4f}"), ("a", "a1", f"{high:.4f}"), **more)
        proposed = _limits(wanted, refused(table, wanted).hint)
        if not proposed:
            continue
        asked_for = proposed["requirement"]
        limits = zip(wanted["requirement"].limits, asked_for.limits, strict=True)
        again = Request.of(table, asked_for, RandomizedResponse(**more | {"scope": "quasi-identifiers"}))
        point = again.problem.risk(again.axes.table, again.answered().channels)
        for k, (stated, limit) in enumerate(limits):
            if limit > stated:
                raised += 1
                assert float(limit) * 0.99 <= again.largest_held_by(k, point) <= limit
    assert raised >= 4


def test_a_limit_that_the_answer_does_not_need_falls_back() -> None:
    """Without retention all have a risk of .517. If M and N grew alike, both would get .564."""
    table = of({("M", "x"): 30, ("M", "y"): 10, ("F", "x"): 20, ("F", "y"): 20, ("N", "x"): 12, ("N", "y"): 28})
    wanted = request("0.9", ("a", "M", "0.2"), ("a", "N", "0.5"), risk="link")
    hint = refused(table, wanted).hint
    assert "limits of 0.9 for all others, 0.564 for a M, 0.528 for a N." in hint
    assert try_all(table, wanted, hint) == ["limits"]


@pytest.mark.parametrize("risk", ["reconstruction", "link"])
def test_who_asks_for_too_little_is_told_of_less(risk: RiskName) -> None:
    """No group is told a larger limit than it has, though without retention women would have a larger `link`."""
    table = of({("M", "x"): 90, ("M", "y"): 10, ("F", "x"): 51, ("F", "y"): 49})
    more = RECONSTRUCTION if risk == "reconstruction" else {"risk": risk}
    wanted = request("0.95", ("a", "F", "0.52"), scope="quasi-identifiers", **more)
    hint = refused(table, wanted).hint
    proposed = _limits(wanted, hint.replace(", or choose another method", ""))
    assert hint.startswith("Ask for less, such as limits of ")
    assert proposed is not None
    pairs = zip(proposed["requirement"].limits, wanted["requirement"].limits, strict=True)
    assert all(less <= stated for less, stated in pairs)
    assert planned(table, **proposed)


def test_a_proposed_limit_is_below_what_the_table_keeps_as_it_is() -> None:
    """The risk is between .5 and .501: with three digits there is no limit to ask for."""
    table = of({("a", "x"): 50_100, ("a", "y"): 49_900, ("b", "x"): 499, ("b", "y"): 501})
    for limit in ("1/3", "0.503"):
        wanted = request(limit)
        hint = refused(table, wanted).hint
        found = re.search(r"a limit of (0\.\d+)", hint)
        assert found is not None
        assert 0.5 < float(found[1]) < 0.501
        assert try_all(table, wanted, hint) == ["limits"]


def test_where_no_limit_helps_none_is_proposed() -> None:
    table = of({("a", "x"): 10, ("a", "y"): 10, ("b", "x"): 20, ("b", "y"): 20})
    error = refused(table, request("1/3"))
    told = "No larger limit can be kept, below those that the table as it is keeps."
    assert error.hint == f"Choose another method. {told}"
    skewed = of({("a", "x"): 12, ("a", "y"): 8, ("b", "x"): 24, ("b", "y"): 16})
    assert refused(skewed, request("0.55")).hint == f"{SUPPRESS}. {told}"
    assert refused(table, request("0.7")).hint == "No smaller limit can be kept: choose another method."


def test_an_l_is_proposed_only_if_there_is_something_to_do_for_it() -> None:
    """The clinic's largest share is 12/28: it keeps 1/2 as it is."""
    clinic = of(
        {(a, s): n for a, row in (("M", (20, 30, 22)), ("F", (12, 8, 8))) for s, n in zip("xyz", row, strict=True)}
    )
    assert "l =" not in refused(clinic, request("1/4")).hint
    wanted = request("1/9", scope="sensitive", **RECONSTRUCTION)
    hint = refused(clinic, wanted).hint
    assert "sk for l = 5, or for risk_limit = 0.184 or more" in hint
    assert "l =" not in refused(clinic, wanted | {"requirement": RiskLimit("0.11")}).hint
    try_all(clinic, wanted, hint)


def test_the_nearest_limit_is_named_also_where_it_is_of_little_use() -> None:
    """It said 0.396, and every limit from 0.381 on could be had; an l is one that was asked for."""
    clinic = of(
        {(a, s): n for a, row in (("M", (20, 30, 22)), ("F", (12, 8, 8))) for s, n in zip("xyz", row, strict=True)}
    )
    error = refused(clinic, request("0.05"))
    assert error.hint == (
        "Ask for risk_limit = 0.381 or more (from a limit of 0.396 on, its counts beat holding all combinations to be "
        "alike)."
    )
    assert "Whatever the a, they are 'x', 'y', 'z'." in error.message
    try_all(clinic, request("0.05"), error.hint)
    refused(clinic, request("0.38"))


@pytest.mark.parametrize("groups", [(), (("a", "F", "0.2"),)])
def test_for_a_large_domain_limits_are_not_searched_for(groups: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said then holds without a search."""
    clinic = of(
        {(a, s): n for a, row in (("M", (20, 30, 22)), ("F", (12, 8, 8))) for s, n in zip("xyz", row, strict=True)}
    )
    set_constants(monkeypatch, "sfumato.methods", MOST_SECONDS_OF_PROPOSAL=0.0)
    hint = refused(clinic, request("1/4", *groups)).hint
    between = "sk for a limit above 0.38, where all would be noise, and below 0.428571."
    assert hint == ("Ask for larger limits, or choose another method." if groups else f"A{between}")
    if not groups:
        assert refused(clinic, request("0.35")).hint == f"{SUPPRESS}, or a{between}"
    for limit in ("0.380001", "0.428571"):
        assert planned(clinic, RiskLimit(limit)).mechanisms
    assert refused(clinic, request("0.9")).hint == "Ask for a smaller limit, or choose another method."


# --- more attributes --------------------------------------------------------------------------------------------------


def test_other_columns_are_proposed_with_the_settings() -> None:
    table = of({("M", "x"): 50, ("F", "x"): 30, ("F", "y"): 70})
    wanted = request("0.5", scope="sensitive", **RECONSTRUCTION)
    hint = refused(table, wanted).hint
    assert hint.startswith('Randomize attribute(s) a too (scope = "both")')
    assert "wider" in try_all(table, wanted, hint)


def crowded(values: int) -> Profile:
    """b and c have many values, each its own row or two, and tell s; a tells nothing."""
    rng = np.random.default_rng(5)
    number = rng.permutation(np.arange(2 * values) % values)
    columns = {
        "a": [f"a{k}" for k in rng.integers(0, 2, 2 * values)],
        "b": [f"b{k}" for k in number],
        "c": [f"c{k}" for k in number],
        "s": [f"s{k % 3}" for k in number],
    }
    return counted(columns)


def test_columns_that_make_the_domain_too_large_are_not_proposed() -> None:
    """a, b and c have 2 x 6,000 x 6,000 combinations together."""
    table = crowded(6000)
    hint = refused(table, request("1/2", fixed=["b", "c"])).hint
    assert hint == "Choose another method."  # each b has one value of s, whatever is suppressed
    error = refused(table, request("1/2"))
    assert "cells, above" in error.message


def test_columns_whose_noise_would_leave_nothing_are_not_proposed() -> None:
    """Next to nothing else than pure noise keeps the least that can be kept; a larger limit is another matter."""
    table = of(
        {("M", "a", "x"): 8, ("M", "a", "y"): 2, ("M", "b", "x"): 3, ("M", "b", "y"): 1}
        | {("F", "a", "x"): 1, ("F", "a", "y"): 4, ("F", "b", "x"): 2, ("F", "b", "y"): 3}
    )
    kept = planned(table, RiskLimit("0.5834"))
    assert isinstance(kept.figures, ResponseFigures)
    assert kept.figures.kappa > 1e6
    assert refused(table, request("0.5834", fixed=["a"])).hint.startswith(SUPPRESS)
    wanted = request("0.75", fixed=["a"])
    hint = refused(table, wanted).hint
    assert hint.startswith("Randomize attribute(s) a too (fixed = [])")
    assert "wider" in try_all(table, wanted, hint)


def test_what_would_take_long_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    table = of({("M", "x"): 50, ("F", "x"): 30, ("F", "y"): 70})
    set_constants(monkeypatch, "sfumato.methods", MOST_SECONDS_OF_PROPOSAL=0.0)
    assert refused(table, request("0.5", scope="sensitive", **RECONSTRUCTION)).hint == f"{SUPPRESS}."


def test_each_column_by_itself_is_tried_where_all_would_take_long() -> None:
    """b tells s, and its noise is enough; c and d have 3,600 combinations, of which 60 occur."""
    rng, n = np.random.default_rng(6), 9000
    b, c = rng.integers(0, 4, n), np.arange(n) % 60
    columns = {"a": rng.integers(0, 2, n), "b": b, "c": c, "d": c, "s": (b + (rng.random(n) < 0.4)) % 4}
    table = counted({name: [f"{name}{code}" for code in codes] for name, codes in columns.items()})
    wanted = request("0.55", fixed=["b", "c", "d"])
    hint = refused(table, wanted).hint
    assert hint.startswith('Randomize attribute(s) b too (fixed = ["c", "d"])')
    assert "wider" in try_all(table, wanted, hint)
