"""The shuffle: a permutation, a uniform one, of rows of every type, in any number of parts."""

from __future__ import annotations

import datetime
import hashlib
from collections import Counter
from decimal import Decimal
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from sfumato.engines.embedded import shuffle
from sfumato.engines.embedded.engine import FollowingHash
from sfumato.engines.embedded.shuffle import order_of_words, shuffled, stable_order
from sfumato.values.randomness import SecretKey
from tests.conftest import make_policy
from tests.constants import set_constants
from tests.engines.tools import multiset, patients, released, rows_of

ALARM = 1e-6  # of every statistical test here; the seeds are fixed, so a failure means that the code has changed


def mixed(rows: int) -> dict[str, Any]:
    """Return a column of every type that is published, with and without gaps."""
    day = datetime.date(2020, 1, 1)
    full: dict[str, Any] = {
        "whole": pa.array(range(rows), pa.int16()),
        "wide": pa.array([2**64 - 1 - k for k in range(rows)], pa.uint64()),
        "real": pa.array([k / 7 for k in range(rows)], pa.float32()),
        "truth": pa.array([k % 3 == 0 for k in range(rows)]),
        "day": pa.array([day + datetime.timedelta(k) for k in range(rows)]),
        "moment": pa.array([k * 10**6 for k in range(rows)], pa.timestamp("us")),
        "second": pa.array(range(rows), pa.timestamp("s")),
        "price": pa.array([Decimal(k) / 4 for k in range(rows)], pa.decimal128(9, 2)),
        "text": pa.array([f"text {k}" for k in range(rows)]),
        "large": pa.array([f"large {k}" for k in range(rows)], pa.large_string()),
        "view": pa.array([f"view {k}" for k in range(rows)], pa.string_view()),
        "coded": pa.array([f"coded {k % 5}" for k in range(rows)]).dictionary_encode(),
        "many codes": pa.array([f"code {k}" for k in range(rows)]).dictionary_encode(),
        "coded numbers": pa.array([k % 6 for k in range(rows)]).dictionary_encode(),
        "nothing": pa.nulls(rows),
    }
    gaps = pa.array([k % 4 == 1 for k in range(rows)])
    holes = {f"{name}, gaps": pa.array(column.to_pylist(), column.type) for name, column in full.items()}
    for name, column in holes.items():
        values = [None if gap else v for gap, v in zip(gaps.to_pylist(), column.to_pylist(), strict=True)]
        plain = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        holes[name] = pa.array(values, plain)
        if pa.types.is_dictionary(column.type):
            holes[name] = holes[name].dictionary_encode()
    return full | holes


@pytest.mark.parametrize("format", ["parquet", "csv"])
@pytest.mark.parametrize("part", [3, 1 << 19], ids=["many parts", "one part"])
def test_rows_of_every_type_stay_together(
    format: str, part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a key and a sensitive column besides; several batches, so that dictionaries grow on the way."""
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=part)
    set_constants(monkeypatch, "sfumato.engines", BATCH_ROWS=16)
    rng = np.random.default_rng(1)
    table = pa.table({**mixed(60), "disease": rng.choice(["flu", "gout"], 60).tolist()})
    roles = dict.fromkeys(table.column_names, "other; missing = 'category'") | {"disease": "sensitive"}
    policy = make_policy(roles)
    ordered = released(table, policy, folder=tmp_path / "a", shuffle=False, format=format)
    mingled = released(table, policy, folder=tmp_path / "b", shuffle=True, format=format)
    assert multiset(ordered) == multiset(mingled)
    assert rows_of(ordered) != rows_of(mingled)
    for release in (ordered, mingled):
        assert [c.name for c in release.verify().checks if c.status == "fails"] == ["secret key"]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.integers(-300, 300))), max_size=4),
    st.sampled_from([pa.int64(), pa.int16(), pa.uint64(), pa.timestamp("us"), pa.date32(), pa.int8()]),
)
def test_integers_come_back_from_the_fewest_bytes(batches: list[list[int | None]], kind: Any) -> None:
    """Each batch is spilled in bytes of its own."""
    width = kind.bit_width
    wrapped = [
        [None if v is None else (v + 2 ** (width - 1)) % 2**width - 2 ** (width - 1) for v in b] for b in batches
    ]
    columns = [pa.array(b, f"int{width}").view(kind) for b in wrapped]
    made = [pa.RecordBatch.from_arrays([column], names=["n"]) for column in columns]
    got = [out.column(0) for out in shuffled(made, 1, SecretKey.from_seed(5), Path("/tmp"))]
    assert {c.type for c in got} <= {kind}
    back = Counter(value for column in got for value in column.view(f"int{width}").to_pylist())
    assert back == Counter(value for batch in wrapped for value in batch)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.one_of(st.none(), st.text(max_size=3)), min_size=1, max_size=40), st.integers(1, 9), st.integers(1, 9)
)
def test_any_text_comes_back(values: list[str | None], batch: int, parts: int) -> None:
    """Batches with other dictionaries, with unused values, and empty parts."""
    batches = []
    for start in range(0, len(values), batch):
        piece = values[start : start + batch]
        dictionary = pa.array([*sorted({v for v in piece if v is not None}, reverse=True), "unused"])
        codes = [None if v is None else dictionary.to_pylist().index(v) for v in piece]
        column = pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), dictionary)
        number = pa.array(range(start, start + len(piece)))
        batches.append(pa.RecordBatch.from_arrays([column, number], names=["v", "n"]))
    with pytest.MonkeyPatch.context() as patch:
        set_constants(patch, "sfumato.engines.embedded", PART_ROWS=max(1, len(values) // parts))
        got = [
            (value, number)
            for out in shuffled(batches, len(values), SecretKey.from_seed(3), Path("/tmp"))
            for value, number in zip(out.column(0).to_pylist(), out.column(1).to_pylist(), strict=True)
        ]
    assert Counter(got) == Counter(zip(values, range(len(values)), strict=True))


def orders(size: int, times: int, folder: Path) -> Counter[tuple[int, ...]]:
    batches = [pa.RecordBatch.from_arrays([pa.array([k])], names=["n"]) for k in range(size)]
    return Counter(
        tuple(
            n
            for out in shuffled(iter(batches), size, SecretKey.from_seed(seed), folder)
            for n in out.column(0).to_pylist()
        )
        for seed in range(times)
    )


def surprise(found: Counter[tuple[int, ...]], size: int) -> float:
    """Return the p-value of Pearson's test that all orders are equally likely."""
    expected = found.total() / len(list(permutations(range(size))))
    statistic = sum((found[order] - expected) ** 2 / expected for order in permutations(range(size)))
    return float(chi2.sf(statistic, len(list(permutations(range(size)))) - 1))


@pytest.mark.parametrize("part", [2, 100], ids=["two rows a part", "one part"])
def test_every_order_is_equally_likely(part: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """False alarm 1e-6. Power: 24 orders seen 20 times each; a shuffle that forgets to sort is found (below)."""
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=part)
    assert surprise(orders(4, 480, tmp_path), 4) > ALARM


def test_a_shuffle_that_does_not_sort_its_parts_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=2)
    monkeypatch.setattr(shuffle, "order_of_words", lambda words: np.arange(words.size))
    assert surprise(orders(4, 480, tmp_path), 4) < ALARM


def test_a_row_can_go_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first row's place over 2,000 rows and 40 seeds is uniform: no place, no part keeps it. False alarm 1e-6."""
    set_constants(monkeypatch, "sfumato.engines.embedded", PART_ROWS=300)
    batch = pa.RecordBatch.from_arrays([pa.array(range(2000))], names=["n"])
    shares = []
    for seed in range(40):
        out = [
            n
            for part in shuffled([batch], 2000, SecretKey.from_seed(seed), tmp_path)
            for n in part.column(0).to_pylist()
        ]
        shares.append(np.corrcoef(out, range(2000))[0, 1] * np.sqrt(1999))  # about standard normal
    assert float(chi2.sf(np.square(shares).sum(), 40)) > ALARM
    assert float(chi2.cdf(np.square(shares).sum(), 40)) > ALARM


def test_equal_leading_bits_are_decided_by_the_whole_word() -> None:
    words = np.array([5, 3, 3 + 2**40, 3, 0, 2**63, 2**63 + 1], dtype=np.uint64)
    order = order_of_words(words)
    assert words[order].tolist() == sorted(words.tolist())
    assert sorted(order.tolist()) == list(range(words.size))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=50))
def test_words_are_sorted_whatever_their_range(words: list[int]) -> None:
    order = order_of_words(np.array(words, dtype=np.uint64))
    assert sorted(order.tolist()) == list(range(len(words)))
    assert [words[k] for k in order] == sorted(words)


def test_a_kept_key_gives_another_order_each_time(tmp_path: Path) -> None:
    """Else the order of a first release would come back in the second, and tie their rows together."""
    key = SecretKey(bytes(32), kept=True)
    policy = make_policy(
        {"name": "identifier", "age": "other", "sex": "other", "disease": "sensitive"},
        extra='record_key = "name"\nseries = "s"',
    )
    first, second = (released(patients(), policy, folder=tmp_path / name, key=key, shuffle=True) for name in ("a", "b"))
    assert multiset(first) == multiset(second)
    assert rows_of(first) != rows_of(second)


def test_the_spill_has_no_name_and_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    scatter = shuffle.Spill.scatter

    def watching(self: Any, *args: Any) -> None:
        scatter(self, *args)
        seen.append([path.name for path in tmp_path.rglob("*") if path.is_file() and path.name != "lock"])

    monkeypatch.setattr(shuffle.Spill, "scatter", watching)
    released(patients(), folder=tmp_path / "r", shuffle=True)
    assert seen == [[]]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 40), max_size=20), st.integers(1, 50))
def test_parts_are_joined_and_cut_to_equal_sizes(sizes: list[int], rows: int) -> None:
    ends = np.cumsum([0, *sizes])
    parts = [[pa.array(range(a, b), pa.int16() if k % 2 else pa.int32())] for k, (a, b) in enumerate(pairwise(ends))]
    cut = [columns[0].to_pylist() for columns in shuffle._of_equal_size(parts, rows)]
    assert [n for piece in cut for n in piece] == list(range(ends[-1]))
    assert all(len(piece) == rows for piece in cut[:-1])
    assert not cut or 0 < len(cut[-1]) <= rows


def test_the_hash_of_a_growing_file_is_that_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, "sfumato.engines", CHUNK=7, UNSYNCED=50)
    content = bytes(range(256)) * 3
    with open(tmp_path / "f", "wb", buffering=0) as file:
        following = FollowingHash(tmp_path / "f")
        for start in range(0, len(content), 100):
            file.write(content[start : start + 100])
            following.follow()
    assert following.finish() == hashlib.sha256(content).hexdigest()


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([1, 255, 256, 2**16 - 1, 2**16, 2**40]), st.data())
def test_rows_of_one_key_keep_their_order(most: int, data: st.DataObject) -> None:
    keys = np.array(data.draw(st.lists(st.integers(0, most), max_size=30)), dtype=np.int64)
    assert stable_order(keys).tolist() == sorted(range(keys.size), key=keys.tolist().__getitem__)
