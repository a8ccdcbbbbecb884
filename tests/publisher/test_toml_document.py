"""A policy that is written anew says what was read, whatever its names and values are."""

from __future__ import annotations

import datetime
import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sfumato.publisher import toml

PLAIN = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.dates(datetime.date(1, 1, 1))
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3))
SECTIONS = st.dictionaries(NAMES, VALUES | st.lists(st.dictionaries(NAMES, PLAIN), min_size=1, max_size=3), max_size=4)


@given(st.dictionaries(NAMES, SECTIONS | PLAIN, max_size=4))
def test_what_is_written_is_read_again(content: dict[str, Any]) -> None:
    assert tomllib.loads(toml.document(content)) == content


def test_columns_have_sections_and_exceptions_are_listed() -> None:
    content = {
        "version": 1,
        "columns": {"blood pressure": {"role": "sensitive", "bins": {"breaks": [90, 120.5]}}, "a.b": {"role": "other"}},
        "requirement": {"rho1": "1/10", "rho2": 0.25, "values": [{"value": "HIV", "rho1": 0.1, "rho2": 0.2}]},
    }
    text = toml.document(content)
    assert text.splitlines()[2:6] == [
        '[columns."blood pressure"]', 'role = "sensitive"', "bins = { breaks = [90, 120.5] }", "",
    ]  # fmt: skip
    assert "[[requirement.values]]" in text
    assert tomllib.loads(text) == content
