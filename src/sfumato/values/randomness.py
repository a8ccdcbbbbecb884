"""The only source of random numbers.

Releases draw from AES-256 in counter mode: the 64-bit word of (step, file, row) stands at a fixed place of the
keystream, so that a row draws the same value whatever the batches, the threads or the retries are, and no two rows,
files or steps share a word. The key comes from the operating system and is never stored.

    counter block (16 bytes, big-endian) = step (2 bytes) | file (6 bytes) | row // 2 (8 bytes)

With a record key, the word is a keyed function of the record's own key instead of its place (`keyed_words`), so that a
record keeps its draw in later releases.

`simulation` is for tests and measurements on private data only; nothing that is published comes from it.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from pathlib import Path

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from sfumato.errors import UsageError
from sfumato.show.private import check_closed, check_no_key, write_new
from sfumato.values.arrays import WordArray

KEY_BYTES = 32
LONGEST_KEY_FILE = 1 << 12
"""Letters that are read of a key file: what is meant to be another file may have no end."""
BLOCK = 16
WORDS_PER_BLOCK = 2
ZEROS = bytes(1 << 18)
DRAWN_AT_ONCE = 1 << 8


class Step(IntEnum):
    """What a word is for; each use has a keystream of its own."""

    PERTURB = 1
    SHUFFLE = 2
    PERSON = 3  # which of a person's rows is kept
    HASH = 4  # keyed hashes of identifiers, so that no identifier is written to a temporary file
    ALLOCATE = 5  # which sub-table a row is dealt to
    ANATOMY = 6  # which group a row is dealt to, and whether it is withheld
    GROUP_ORDER = 7  # the order of the rows inside a group
    SUPPRESS = 8  # which values lose how many records, while it is planned


@contextmanager
def no_core_dump() -> Iterator[None]:
    """Let the system write no image of the memory if the process crashes: there is a key in it."""
    try:
        import resource
    except ImportError:  # a system without such limits
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    # one byte: too little for a file, and unlike 0 it also keeps Linux from handing the image to a collector of crashes
    resource.setrlimit(resource.RLIMIT_CORE, (0 if hard == 0 else 1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@dataclass(frozen=True)
class SecretKey:
    """32 secret bytes; its repr shows none of them. `seeded` keys reproduce tests and are not for release."""

    secret: bytes = field(repr=False)
    seeded: bool = False
    kept: bool = False  # from the publisher's key file, so a later release can use it again

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise ValueError("a secret key has 32 bytes")

    @classmethod
    def fresh(cls) -> SecretKey:
        """Return a new key from the operating system."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_seed(cls, seed: int) -> SecretKey:
        """Return the key of a test seed."""
        return cls(hashlib.sha256(f"sfumato test seed {seed}".encode()).digest(), seeded=True)

    @classmethod
    def load(cls, path: str | Path) -> SecretKey:
        """Read a key file: 64 hexadecimal digits, as `sfumato key FILE` writes them."""
        try:
            with open(path, encoding="ascii") as file:
                text = file.read(LONGEST_KEY_FILE).strip()
            if text.startswith("-----BEGIN"):
                raise UsageError(
                    f"{str(path)!r} is a key for signatures, not for draws.",
                    "Pass it by --sign, and by --key-file the one that `sfumato key FILE` wrote without --sign.",
                )
            secret = bytes.fromhex(text)
        except FileNotFoundError:
            raise UsageError(f"There is no key file {str(path)!r}.", f"Make one: sfumato key {path}") from None
        except (OSError, ValueError):
            secret = b""
        if len(secret) != KEY_BYTES:
            raise UsageError(
                f"{str(path)!r} is not a key file: it must hold 64 hexadecimal digits.",
                "Give the file that `sfumato key FILE` wrote.",
            )
        check_closed(Path(path), "key file")
        return cls(secret, kept=True)

    @staticmethod
    def create(path: str | Path) -> None:
        """Write a new key file that only its owner can read; never overwrite one."""
        check_no_key(Path(path))
        with no_core_dump():
            write_new(Path(path), secrets.token_hex(KEY_BYTES) + "\n")

    def words(self, step: Step, file: int, start: int, count: int) -> WordArray:
        """Return the words of rows start .. start+count-1 of a file."""
        first = start // WORDS_PER_BLOCK
        skip = start - first * WORDS_PER_BLOCK
        counter = int(step).to_bytes(2) + file.to_bytes(6) + first.to_bytes(8)
        stream = Cipher(algorithms.AES256(self.secret), modes.CTR(counter)).encryptor()
        words = np.empty(skip + count, dtype="<u8")
        view = words.data.cast("B")
        for begin in range(0, len(view), len(ZEROS)):  # a small source of zeros stays in the processor's cache
            piece = view[begin : begin + len(ZEROS)]
            stream.update_into(ZEROS[: len(piece)], piece)
        return words[skip:]

    def words_at(self, step: Step, files: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]) -> WordArray:
        """Return the words of rows anywhere, each by its file and its number: those that `words` gives in order."""
        counters = np.empty((rows.size, BLOCK), dtype=np.uint8)
        counters[:, :2] = np.frombuffer(int(step).to_bytes(2), dtype=np.uint8)
        counters[:, 2:8] = files.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 2:]
        counters[:, 8:] = (rows // WORDS_PER_BLOCK).astype(">u8").view(np.uint8).reshape(-1, 8)
        return self._encrypt(counters).view("<u8")[np.arange(rows.size), rows % WORDS_PER_BLOCK]

    def drawing(self, step: Step) -> Callable[[int], int]:
        """Return a function that gives uniformly random integers, at least 0 and below its argument, up to 2^64.

        Words in the incomplete last round are drawn again, so that all integers are equally likely.
        """
        words = (int(word) for start in count(step=DRAWN_AT_ONCE) for word in self.words(step, 0, start, DRAWN_AT_ONCE))

        def draw(below: int) -> int:
            rounds = (1 << 64) // below * below
            return next(word for word in words if word < rounds) % below

        return draw

    def keyed_words(self, step: Step, keys: list[bytes]) -> WordArray:
        """Return a word for each record key: CBC-MAC under AES-256, the length and the step in the first block.

        (With the length first no message is a prefix of another, so CBC-MAC is a pseudo-random function.) All messages
        are worked on at once, one block of each at a time.
        """
        lengths = np.fromiter((len(key) for key in keys), dtype=np.int64, count=len(keys))
        blocks = -(-lengths // BLOCK)
        state = self._encrypt(_first_blocks(step, lengths))
        for position in range(int(blocks.max(initial=0))):
            active = np.flatnonzero(blocks > position)
            chunk = b"".join(keys[i][position * BLOCK : (position + 1) * BLOCK].ljust(BLOCK, b"\0") for i in active)
            mixed = state[active] ^ np.frombuffer(chunk, dtype=np.uint8).reshape(-1, BLOCK)
            state[active] = self._encrypt(mixed)
        return np.ascontiguousarray(state[:, :8]).view("<u8").reshape(-1)

    def _encrypt(self, blocks: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
        """Return every 16-byte row encrypted by itself (the single block function of CBC-MAC)."""
        cipher = Cipher(algorithms.AES256(self.secret), modes.ECB()).encryptor()
        return np.frombuffer(cipher.update(blocks.tobytes()), dtype=np.uint8).reshape(-1, BLOCK).copy()


def _first_blocks(step: Step, lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    # the top bit tells these blocks from every counter block of `words`, whose step is below 2^15
    first = np.zeros((len(lengths), BLOCK), dtype=np.uint8)
    first[:, 0] = 0x80
    first[:, 1] = int(step)
    first[:, 8:] = lengths.astype(">u8").view(np.uint8).reshape(-1, 8)
    return first


def simulation(seed: int | None = None) -> np.random.Generator:
    """Return a generator for permutation tests, demonstrations and measurements; never for a release."""
    return np.random.default_rng(seed)


def release_id() -> str:
    """Return a fresh random name for a release."""
    return secrets.token_hex(8)
