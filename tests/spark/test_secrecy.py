"""The search for secrets finds each way of writing one, whole or cut short, and nothing else."""

from __future__ import annotations

import base64
import html
import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from tests.spark.secrecy import forms, found, places

DRAWN = np.random.default_rng(1).bytes(32)
AWKWARD = b"'\"\\<&>\n\t" + bytes(range(248, 256)) + b"\x00\x01\x7f\x80 ~09" + b"aA+/=-_,"


def signed(secret: bytes) -> list[int]:
    return np.frombuffer(secret, np.int8).tolist()


WAYS = {
    "raw": lambda s: s,
    "hex": lambda s: s.hex().encode(),
    "HEX": lambda s: s.hex().upper().encode(),
    "hex apart": lambda s: s.hex(" ").encode(),
    "base64": base64.b64encode,
    "base64 for addresses": base64.urlsafe_b64encode,
    "decimal": lambda s: repr(list(s)).encode(),
    "signed": lambda s: repr(signed(s)).encode(),
    "numpy": lambda s: repr(np.frombuffer(s, np.uint8)).encode(),
    "words": lambda s: repr(np.frombuffer(s, ">u8").tolist()).encode(),
    "signed words": lambda s: repr(np.frombuffer(s, "<i8").tolist()).encode(),
    "number": lambda s: str(int.from_bytes(s, "big")).encode(),
    "pickled number": lambda s: pickle.dumps(int.from_bytes(s, "big")),
    "repr": lambda s: repr(s).encode(),
    "repr in JSON": lambda s: json.dumps({"key": repr(s)}).encode(),
    "repr in HTML": lambda s: html.escape(repr(s)).encode(),
    "letters in JSON": lambda s: json.dumps(s.decode("latin-1")).encode(),
    **{f"pickle {p}": lambda s, p=p: pickle.dumps((1, s), p) for p in range(6)},
    "pickle in base64": lambda s: base64.b64encode(pickle.dumps(("ab", s))),
}


@pytest.mark.parametrize("secret", [DRAWN, AWKWARD], ids=["drawn", "awkward"])
@pytest.mark.parametrize("way", WAYS)
def test_each_way_of_writing_is_found(way: str, secret: bytes) -> None:
    assert found(b"some text " + WAYS[way](secret) + b" and more", forms(secret)) != []
    assert found(WAYS[way](np.random.default_rng(2).bytes(32)), forms(secret)) == []


@pytest.mark.parametrize("way", [way for way in WAYS if "number" not in way])
def test_a_text_cut_in_the_middle_is_found(way: str) -> None:
    text = WAYS[way](DRAWN)
    assert found(text[: len(text) * 5 // 8], forms(DRAWN)) != []
    assert found(text[len(text) // 4 :], forms(DRAWN)) != []


@pytest.mark.parametrize("before", range(3))
def test_base64_is_found_wherever_the_secret_starts(before: int) -> None:
    text = base64.b64encode(b"x" * before + DRAWN + b"and so on")
    assert found(text, forms(DRAWN)) == ["base64"]


def test_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "logs/deep").mkdir(parents=True)
    (tmp_path / "logs/deep/one.log").write_text(f"key={DRAWN.hex()}")
    (tmp_path / "logs/other.log").write_bytes(np.random.default_rng(3).bytes(100_000))
    assert places(DRAWN, tmp_path / "logs") == ["logs/deep/one.log: hexadecimal"]
