"""Words belong to (key, step, file, row) and to nothing else; keyed words to (key, step, record key)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from sfumato.values.arrays import WordArray
from sfumato.values.randomness import SecretKey, Step

KEY = SecretKey.from_seed(1)
ALARM = 1e-6

steady = settings(derandomize=True, deadline=None, max_examples=60)


# --- words by place -----------------------------------------------------------------------------------------


def word_by_definition(key: SecretKey, step: Step, file: int, row: int) -> int:
    """Return the word from one block of AES, as the module's first lines define it."""
    block = int(step).to_bytes(2, "big") + file.to_bytes(6, "big") + (row // 2).to_bytes(8, "big")
    cipher = Cipher(algorithms.AES256(key.secret), modes.ECB()).encryptor()
    half = row % 2 * 8
    return int.from_bytes(cipher.update(block)[half : half + 8], "little")


@steady
@given(
    step=st.sampled_from(list(Step)),
    file=st.integers(0, 2**48 - 1),
    start=st.one_of(st.integers(0, 100), st.integers(0, 2**63)),
    cuts=st.lists(st.integers(0, 200), max_size=8),
)
def test_same_words_whatever_the_batches(step: Step, file: int, start: int, cuts: list[int]) -> None:
    whole = KEY.words(step, file, start, 200)
    parts = [KEY.words(step, file, start + a, b - a) for a, b in pairwise([0, *sorted(cuts), 200])]
    assert np.array_equal(whole, np.concatenate(parts))
    for row in (0, 1, 2, 99, 199):
        assert int(whole[row]) == word_by_definition(KEY, step, file, start + row)


@steady
@given(
    step=st.sampled_from(list(Step)),
    file=st.integers(0, 2**48 - 2),
    row=st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 3)),
    bit=st.integers(0, 47),
)
def test_near_places_have_different_words(step: Step, file: int, row: int, bit: int) -> None:
    """The next rows, the next file, a file or row that differs in one bit, the other steps."""
    places = {(step, file, r) for r in (row, row + 1, row + 2, row ^ 1 << bit)}
    places |= {(step, f, row) for f in (file + 1, file ^ 1 << bit)} | {(s, file, row) for s in Step}
    words = {int(KEY.words(s, f, r, 1)[0]) for s, f, r in places}
    assert len(words) == len(places)


def test_steps_files_and_keys_have_streams_of_their_own() -> None:
    """150,000 words of 30 streams, all different: two 64-bit words would agree with probability 6e-10."""
    keys = (KEY, SecretKey.from_seed(2))
    streams = [k.words(s, f, 0, 5_000) for k in keys for s in Step for f in (0, 1, 256)]
    assert np.unique(np.concatenate(streams)).size == len(streams) * 5_000


def test_a_stream_does_not_run_into_the_next_file() -> None:
    """The row number has 64 bits to itself: the last rows of a file are not the first of the next one."""
    last = KEY.words(Step.PERTURB, 3, 2**64 - 10, 10)
    assert not np.isin(last, KEY.words(Step.PERTURB, 4, 0, 1000)).any()
    assert int(last[-1]) == word_by_definition(KEY, Step.PERTURB, 3, 2**64 - 1)


def worst_bit(words: WordArray) -> float:
    """Return the largest |z| of the 64 shares of ones."""
    bits = np.unpackbits(words.view(np.uint8).reshape(-1, 8), axis=1)
    return float(np.abs((bits.mean(axis=0) - 0.5) * 2 * np.sqrt(len(words))).max())


def test_bits_are_balanced_and_neighbours_independent() -> None:
    """False alarms: 1e-6 over the 64 bits of each test. The power is shown: a bit that is 1 in 51% of words fails."""
    words = KEY.words(Step.PERTURB, 7, 0, 200_000)
    limit = float(norm.isf(ALARM / 64 / 2))
    assert worst_bit(words) < limit
    assert worst_bit(words[1:] ^ words[:-1]) < limit
    assert worst_bit(words ^ KEY.words(Step.SHUFFLE, 7, 0, 200_000)) < limit
    assert worst_bit(words ^ KEY.words(Step.PERTURB, 8, 0, 200_000)) < limit
    biased = words.copy()
    biased[::50] |= np.uint64(1 << 20)
    assert worst_bit(biased) > limit


# --- words by record key ------------------------------------------------------------------------------------


def keyed_by_definition(key: SecretKey, step: Step, record: bytes) -> int:
    """Return CBC-MAC of (0x80, step, zeros, length) | record | zeros, by the library's own CBC."""
    first = bytes([0x80, int(step)]) + bytes(6) + len(record).to_bytes(8, "big")
    message = first + record + bytes(-len(record) % 16)
    cipher = Cipher(algorithms.AES256(key.secret), modes.CBC(bytes(16))).encryptor()
    return int.from_bytes(cipher.update(message)[-16:][:8], "little")


@steady
@given(records=st.lists(st.binary(max_size=70), max_size=12), step=st.sampled_from(list(Step)))
def test_keyed_words_are_a_mac_of_the_key_alone(records: list[bytes], step: Step) -> None:
    words = KEY.keyed_words(step, records)
    assert words.dtype == np.uint64
    assert words.tolist() == [keyed_by_definition(KEY, step, record) for record in records]


@steady
@given(records=st.lists(st.binary(max_size=50), min_size=1, max_size=20), cut=st.integers(0, 20))
def test_keyed_words_depend_on_no_batch_and_no_order(records: list[bytes], cut: int) -> None:
    whole = KEY.keyed_words(Step.PERTURB, records)
    parts = [KEY.keyed_words(Step.PERTURB, part) for part in (records[:cut], records[cut:])]
    assert np.array_equal(whole, np.concatenate(parts))
    assert np.array_equal(whole[::-1], KEY.keyed_words(Step.PERTURB, records[::-1]))
    by_record = dict(zip(records, whole.tolist(), strict=True))
    assert [by_record[record] for record in records] == whole.tolist()  # equal keys, equal words
    assert len(set(by_record.values())) == len(by_record)  # and only those


def test_near_keys_have_unrelated_words() -> None:
    """One byte changed, a prefix, zeros at the end, another step, another secret: all different."""
    base = b"patient-0123456789-abcdefghijklmnop"
    flipped = [base[:i] + bytes([base[i] ^ 1]) + base[i + 1 :] for i in range(len(base))]
    prefixes = [base[:i] for i in range(len(base))]
    padded = [base + bytes(i) for i in range(1, 40)]
    empty = [bytes(i) for i in range(1, 40)]
    records = [base, *flipped, *prefixes, *padded, *empty]
    assert len(set(records)) == len(records)
    words = [KEY.keyed_words(step, records) for step in Step]
    words += [SecretKey.from_seed(2).keyed_words(Step.PERTURB, records)]
    assert np.unique(np.concatenate(words)).size == len(words) * len(records)


def test_keyed_words_are_balanced_even_for_counting_keys() -> None:
    limit = float(norm.isf(ALARM / 64 / 2))
    words = KEY.keyed_words(Step.PERTURB, [b"%d" % i for i in range(50_000)])
    assert worst_bit(words) < limit
    assert worst_bit(words[1:] ^ words[:-1]) < limit
    assert worst_bit(words ^ KEY.words(Step.PERTURB, 0, 0, 50_000)) < limit


def test_secrets_are_not_shown() -> None:
    assert KEY.secret.hex() not in repr(KEY)
    assert repr(KEY.secret) not in repr(KEY)
    assert KEY.seeded
    assert not SecretKey.fresh().seeded
    assert SecretKey.fresh().secret != SecretKey.fresh().secret


def test_words_of_rows_anywhere_are_those_in_order() -> None:
    rng, key = np.random.default_rng(1), SecretKey.from_seed(1)
    files, rows = rng.integers(0, 1 << 47, 300), rng.integers(0, 1 << 62, 300)
    for step in (Step.PERTURB, Step.ANATOMY):
        one_by_one = [key.words(step, f, r, 1)[0] for f, r in zip(files.tolist(), rows.tolist(), strict=True)]
        assert (key.words_at(step, files, rows) == np.array(one_by_one)).all()
    assert key.words_at(Step.PERTURB, files[:0], rows[:0]).size == 0
