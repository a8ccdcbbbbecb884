"""Conditions by choosing mean what they say: compared with the published rows, looked at one by one."""

from __future__ import annotations

import operator
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.studio.analyst.asking import COMPARED, OPERATORS, Condition, Fields, condition_text
from sfumato.studio.analyst.calls import Call
from tests.studio.analyst.releases import SECRET, made

HOLDS: dict[str, Callable[[Any, Any], bool]] = {
    "is": operator.eq,
    "is not": operator.ne,
    "below": operator.lt,
    "at most": operator.le,
    "at least": operator.ge,
    "above": operator.gt,
}
ROWS = made("randomized-response").to_arrow().select([SECRET]).to_pylist()
ORDERS = made("uniform").to_arrow().select(["order"]).to_pylist()
NUMBERS = st.tuples(st.just("order"), st.sampled_from(sorted(COMPARED)), st.integers(-1, 7).map(str))
TEXTS = st.tuples(
    st.just(SECRET), st.sampled_from(["is", "is not"]), st.sampled_from(sorted({row[SECRET] for row in ROWS}))
)


def holds(row: dict[str, Any], line: Condition) -> bool:
    value = row[line.column]
    return HOLDS[line.operator](value, int(line.value) if isinstance(value, int) else line.value)


@settings(max_examples=40)
@given(st.lists(NUMBERS, min_size=1, max_size=3))
def test_conditions_on_numbers_select_the_rows_for_which_all_hold(lines: list[tuple[str, str, str]]) -> None:
    release, conditions = made("uniform"), [Condition(*line) for line in lines]
    expected = sum(all(holds(row, line) for line in conditions) for row in ORDERS)
    assert release.count(where=condition_text(release, conditions)).value.sum() == expected


@settings(max_examples=40)
@given(st.lists(TEXTS, min_size=1, max_size=2))
def test_conditions_on_texts_do_so_too_whatever_quotes_they_hold(lines: list[tuple[str, str, str]]) -> None:
    release, conditions = made("randomized-response"), [Condition(*line) for line in lines]
    expected = sum(all(holds(row, line) for line in conditions) for row in ROWS)
    assert release.count(where=condition_text(release, conditions)).value.sum() == expected


def test_every_comparison_is_offered_and_means_something() -> None:
    release = made("uniform")
    for name in OPERATORS:
        assert condition_text(release, [Condition("order", name, "3")])
    text = condition_text(release, [Condition("sex", "in", "F, M"), Condition("order", "missing")])
    assert text == "sex IN ('F', 'M') AND \"order\" IS NULL"


@given(st.lists(st.tuples(st.sampled_from(["by", "figure", "level", "target", "x"]), st.text(max_size=3))))
def test_a_plain_address_stays_as_it_is(pairs: list[tuple[str, str]]) -> None:
    plain = Fields(tuple(pairs)).plain
    assert plain.plain == plain
    assert all(value and (name, value) in pairs for name, value in plain.pairs)


@pytest.mark.parametrize(
    "name", ["plain", "-dash", "a b", "it's", "$x", "!bang", "back\\slash", "both \"'", "new\nline"]
)
def test_commands_are_read_back_by_a_shell_as_they_were_meant(name: str) -> None:
    call = Call("distribution", (name, (name, "b"), f"{name} = '1'"), (("target", "population"),))
    words = shlex.split(call.command(Path("folder of it")))
    assert words == ["sfumato", *call.arguments(Path("folder of it"))]
    assert name in words
