"""Numbers in text: which columns hold numbers, against a slow and obvious rule; and the watcher of batches."""

from __future__ import annotations

from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.engines.rows.looking import NumberColumns
from sfumato.errors import TableError
from sfumato.values.number_texts import any_spelling_of, held_by

numbers = st.one_of(
    st.integers(-(10**19), 10**19).map(str),
    st.integers(-120, 120).map(str),
    st.decimals(-1000, 1000, places=2).map(str),
    st.decimals(-1000, 1000, places=1).map(str),
    st.floats(-100, 100).map(repr),
    st.sampled_from(["0", "-0", "0.0", "-0.0", "-0.50", "007", "1e5", "+3", ".5", "5.", "", " 7", "1,5", "x", "12.50"]),
)
columns = st.lists(numbers, min_size=1, max_size=8)


def _is_written_alike(texts: list[str]) -> bool:
    """The slow rule: all texts are what one way to write numbers makes of their own value."""
    if not all(text.removeprefix("-").replace(".", "", 1).isdigit() and text.isascii() for text in texts):
        return False
    if any(not text.removeprefix("-").split(".")[0] or text.endswith(".") for text in texts):
        return False
    ways = [_whole, _short, _pointed, *(lambda v, s, k=k: _fixed(v, s, k) for k in range(1, 18))]
    return any(all(way(Fraction(text), text.startswith("-")) == text for text in texts) for way in ways)


def _fixed(value: Fraction, is_negative: bool, places: int) -> str:
    scaled = abs(value) * 10**places
    if scaled.denominator != 1:
        return ""
    digits = str(scaled.numerator).rjust(places + 1, "0")
    return f"{'-' if is_negative else ''}{digits[:-places]}.{digits[-places:]}"


def _whole(value: Fraction, is_negative: bool) -> str:
    return str(value.numerator) if value.denominator == 1 else ""


def _short(value: Fraction, is_negative: bool) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    return next((text for k in range(1, 18) if (text := _fixed(value, is_negative, k))), "")


def _pointed(value: Fraction, is_negative: bool) -> str:
    return next((text for k in range(1, 18) if (text := _fixed(value, is_negative, k))), "")


def _is_short_enough(texts: list[str]) -> bool:
    wholes = [len(text.removeprefix("-").split(".")[0]) for text in texts]
    return max(wholes) <= (15 if any("." in text for text in texts) else 18)


@given(columns)
@settings(max_examples=400, deadline=None)
def test_t2_a_column_holds_numbers_iff_one_way_of_writing_makes_all_its_texts(texts: list[str]) -> None:
    expected = _is_written_alike(texts) and _is_short_enough(texts)
    assert (held_by(texts) is not None) == expected, texts
    if expected:
        assert held_by(texts) == ("decimal" if any("." in text for text in texts) else "integer")


@given(columns)
@settings(max_examples=300, deadline=None)
def test_t2_different_texts_of_a_number_column_are_different_numbers(texts: list[str]) -> None:
    if held_by(texts) is not None:
        assert len({Fraction(text) for text in texts}) == len({text.replace("-0.0", "0.0") for text in texts} - {""})


@given(
    st.lists(st.tuples(numbers, numbers, st.sampled_from(["a", "", "b"])), min_size=1, max_size=12), st.integers(1, 5)
)
@settings(max_examples=300, deadline=None)
def test_t2_batches_and_runs_are_seen_as_the_whole_column_is(rows: list[tuple[str, str, str]], size: int) -> None:
    rows = [tuple(text.replace(",", ";") for text in row) for row in rows]  # type: ignore[misc]
    plain = NumberColumns({"a": None, "b": None, "c": None})
    wide = NumberColumns({"a": None, "b": None}, {"run": ("a", "b", "c")})
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        named = zip("abc", zip(*piece, strict=True), strict=True)
        batch = pa.record_batch({name: pa.array([t or None for t in texts], pa.string()) for name, texts in named})
        assert list(plain.watched([batch])) == [batch]
        run = pa.record_batch({"run": pa.array([",".join(row) for row in piece])})
        assert list(wide.watched([run])) == [run]
    expected = {name: held_by([row[k] for row in rows if row[k]]) for k, name in enumerate("abc")}
    assert plain.held == {name: holds for name, holds in expected.items() if holds}
    assert wide.held == plain.held


def test_t2_a_dictionary_holds_what_its_rows_have() -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["7", "8", "x"]))
    watch = NumberColumns({"a": None})
    list(watch.watched([pa.record_batch({"a": values})]))
    assert watch.held == {"a": "integer"}


def test_t2_an_empty_text_that_is_not_missing_is_no_number() -> None:
    watch = NumberColumns({"a": None})
    list(watch.watched([pa.record_batch({"a": pa.array(["7", ""])})]))
    assert watch.held == {}


def test_t2_declared_numbers_are_numbers_or_an_error() -> None:
    watch = NumberColumns({"a": "number", "b": "number", "c": "text"})
    rows = pa.record_batch({"a": pa.array(["007", "8"]), "b": pa.array(["1e5", None]), "c": pa.array(["1", "2"])})
    list(watch.watched([rows]))
    assert watch.held == {"a": "integer", "b": "decimal"}
    with pytest.raises(TableError, match="'a' is declared to be a number, and holds 'x'"):
        list(watch.watched([pa.record_batch({"a": pa.array(["x"]), "b": pa.array(["1"]), "c": pa.array(["1"])})]))


@pytest.mark.parametrize("text", ["1e400", "-1e400", "1e-400", "1" + "0" * 400])
def test_declared_numbers_beyond_double_precision_are_none(text: str) -> None:
    """They would be read as infinite, or as zero."""
    assert any_spelling_of(text) is None
    assert any_spelling_of("1" + "0" * 199 + "e99") is not None
