"""Another implementation of docs/reference/randomness.md, which follows that page: slow, and without sfumato.

It gives the test vectors, which the library wrote (`docs/generate/vectors.py`). AES's block function is the only thing
that both share.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

VECTORS = json.loads((Path(__file__).parents[2] / "docs/reference/randomness-vectors.json").read_text(encoding="ascii"))
KEY = bytes.fromhex(VECTORS["key"])


def aes(key: bytes, block: bytes) -> bytes:
    """Encrypt one block."""
    assert (len(key), len(block)) == (32, 16)
    return Cipher(algorithms.AES256(key), modes.ECB()).encryptor().update(block)


def word(key: bytes, step: int, file: int, row: int) -> int:
    block = step.to_bytes(2, "big") + file.to_bytes(6, "big") + (row // 2).to_bytes(8, "big")
    half = aes(key, block)[8:] if row % 2 else aes(key, block)[:8]
    return int.from_bytes(half, "little")


def keyed_word(key: bytes, step: int, message: bytes) -> int:
    whole = bytes([0x80, step]) + bytes(6) + len(message).to_bytes(8, "big") + message
    whole += bytes(-len(whole) % 16)
    state = bytes(16)
    for start in range(0, len(whole), 16):
        state = aes(key, bytes(a ^ b for a, b in zip(state, whole[start : start + 16], strict=True)))
    return int.from_bytes(state[:8], "little")


def below(key: bytes, step: int, n: int) -> Iterator[int]:
    words = (word(key, step, 0, row) for row in count())
    return (w % n for w in words if w < 2**64 // n * n)


def by_noise(noise: list[int], old: int, w: int) -> int:
    q = noise[old]
    return w // q if q and w // q < len(noise) else old


def alias_table(column: list[int]) -> tuple[int, list[int], list[int]]:
    """Return s, the thresholds and the aliases."""
    s = 0
    while 2**s < len(column):
        s += 1
    capacity = 2 ** (64 - s)
    weights = column + [0] * (2**s - len(column))
    thresholds, aliases = [min(w, capacity) for w in weights], list(range(2**s))
    light = [k for k, w in enumerate(weights) if w <= capacity]
    heavy = [k for k, w in enumerate(weights) if w > capacity]
    if not heavy:
        return s, thresholds, aliases
    h = heavy.pop(0)
    rest = weights[h]
    while True:
        if rest > capacity and light:
            k = light.pop(0)
            aliases[k] = h
            rest -= capacity - weights[k]
        elif heavy:
            thresholds[h], aliases[h] = rest, heavy[0]
            following = heavy.pop(0)
            rest = weights[following] - (capacity - rest)
            h = following
        else:
            return s, thresholds, aliases


def by_columns(columns: list[list[int]], old: int, w: int) -> int:
    s, thresholds, aliases = alias_table(columns[old])
    bucket, low = w >> (64 - s), w % 2 ** (64 - s)
    return bucket if low < thresholds[bucket] else aliases[bucket]


def context(stated: list[Any], integers: bytes = b"") -> bytes:
    text = json.dumps(stated, separators=(",", ":")).encode("ascii")
    return hashlib.sha256(len(text).to_bytes(8, "big") + text + integers).digest()[:16]


def shuffle(key: bytes, rows: int, parts: int = 1) -> list[int]:
    dealt: list[list[int]] = [[] for _ in range(parts)]
    for row in range(rows):
        dealt[(word(key, 2, 0, row) // 2**32) * parts // 2**32].append(row)
    order = []
    for p, part in enumerate(dealt):
        order += [row for _, _, row in sorted((word(key, 2, 1 + p, i), i, row) for i, row in enumerate(part))]
    return order


# --- the vectors ------------------------------------------------------------------------------------------------------


def test_seeds() -> None:
    assert len(VECTORS["seeds"]) == 3
    for one in VECTORS["seeds"]:
        assert hashlib.sha256(f"sfumato test seed {one['seed']}".encode()).hexdigest() == one["key"]


def test_words() -> None:
    assert len(VECTORS["words"]) == 41
    for one in VECTORS["words"]:
        assert str(word(KEY, one["step"], one["file"], one["row"])) == one["word"]


def test_keyed_words() -> None:
    assert len(VECTORS["keyed_words"]) == 18
    for one in VECTORS["keyed_words"]:
        assert str(keyed_word(KEY, one["step"], bytes.fromhex(one["message"]))) == one["word"]


def test_integers_below() -> None:
    for n, drawn in VECTORS["below"]["draws"]:
        draws = below(KEY, VECTORS["below"]["step"], n)
        assert [str(next(draws)) for _ in drawn] == drawn
    words = [word(KEY, VECTORS["below"]["step"], 0, row) for row in range(6)]
    assert any(w > 2**63 for w in words), "a vector must see a rejection: of n = 2^63 + 1 about half of the words"


@pytest.mark.parametrize(("kind", "draw"), [("noise", by_noise), ("columns", by_columns)])
def test_draws(kind: str, draw: Any) -> None:
    stated = VECTORS[kind]
    matrix = [int(part) if kind == "noise" else list(map(int, part)) for part in stated[kind]]
    for old, published in enumerate(stated["published"]):
        assert [draw(matrix, old, int(w)) for w in stated["words"]] == published
    assert len({tuple(published) for published in stated["published"]}) == len(matrix)


def test_an_alias_table_has_the_words_of_every_value() -> None:
    """The construction that the page tells gives each value its integer, exactly."""
    for column in VECTORS["columns"]["columns"]:
        weights = list(map(int, column))
        s, thresholds, aliases = alias_table(weights)
        given = [0] * 2**s
        for bucket, (threshold, alias) in enumerate(zip(thresholds, aliases, strict=True)):
            given[bucket] += threshold
            given[alias] += 2 ** (64 - s) - threshold
        assert given == weights + [0] * (2**s - len(weights))


def test_records() -> None:
    stated = VECTORS["records"]
    keys = [key.encode() for key in stated["record_keys"]]
    for name in ("noise", "dense"):
        one = stated[name]
        text = ["noise", stated["series"], [[stated["column"], stated["labels"]]]]
        found = context(text, bytes.fromhex(one["integers"]))
        assert found.hex() == one["context"]
        messages = [found + code.to_bytes(4, "big") + key for code, key in enumerate(keys)]
        assert [str(keyed_word(KEY, 1, message)) for message in messages] == one["words"]
    noise = b"".join(int(q).to_bytes(8, "little") for q in VECTORS["noise"]["noise"])
    assert stated["noise"]["integers"] == noise.hex()
    assert bytes.fromhex(stated["dense"]["integers"])[:6] == b"dense:"
    of_person = context(["person", stated["series"]])
    persons = [person.encode() for person in stated["persons"]]
    messages = [of_person + len(p).to_bytes(4, "big") + p + key for p, key in zip(persons, keys, strict=True)]
    assert [str(keyed_word(KEY, 3, message)) for message in messages] == stated["person_words"]


def test_shuffle() -> None:
    stated = VECTORS["shuffle"]
    assert shuffle(KEY, stated["rows"]) == stated["order"]
    assert sorted(stated["order"]) == list(range(stated["rows"]))
